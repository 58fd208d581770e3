"""Requests made by chance from the description of the interface: only answers of ours may come back."""

import json
import random
import socket
from http.client import HTTPResponse

import httpx
import pytest
from _service import ADMIN, CONTEXT, SPEC, TestClient, application_of, problem
from _service_kill import free_port, start

VALUES = [
    None, True, False, 0, -1, 3, 0.5, -0.0, 1e308, -1e308, 1e75, 2**53, 2**63, 2**70, -(2**70), "", "red",
    "blue", "k", "0",    "\ud83d", "\x00", "é" * 100, "x" * 5000, [], [[]], [1, 2], [1, "a"], [[1, 2], [3, 4]],
    [{"age": 1, "visits": 2}] * 3,
        [None], {}, {"age": 1}, {"age": "x", "visits": 1}, CONTEXT, {"a": {"b": {"c": []}}}, ["red"], ["red", "red"],
    [0, 1],    ["red", 1, None], "gaussian", "bernoulli", "items", "arms", [0.1] * 3000, "1-284015c94cec78a3", "NaN",
]  # fmt: skip
RAW = [b"", b"{", b"null", b"[]", b'"x"', b"NaN", b"\xff\xfe", b"[" * 20_000, b'{"context": 1e999}', b"{}" * 20_000]
IDS = ["1-1", "x", "1-0000000000000001", "%ff", "1-8000000000000000", "9" * 30 + "-0", "1-284015c94cec78a3-0", "..%2f"]
QUERIES = ["", "?hours=1", "?hours=nan", "?hours=-1", "?hours=x", "?hours=1e400", "?since=0", "?since=inf", "?since=x"]


class Fuzz:
    """Requests to one server.

    The slot "home" stays as it is; "fuzz" is made, changed, paused, copied by chance.
    """

    def __init__(self, http, seed):
        self.http, self.rng, self.ids = http, random.Random(seed), list(IDS)
        described = http.get("/openapi.json").json()
        self.schemas = described["components"]["schemas"]
        self.calls = [(path, *each) for path, methods in described["paths"].items() for each in methods.items()]
        self.statuses = {}

    def body(self, name):
        """Return the example of a body with values that do not belong there."""
        rng, body = self.rng, dict(self.schemas[name]["examples"][0])
        fields = list(self.schemas[name]["properties"])
        for field in rng.sample(fields, min(len(fields), rng.randrange(4))):
            body[field] = rng.choice(VALUES)
        if name in ("DecideBatch", "RewardBatch") and rng.random() < 0.5:
            field, inner = ("requests", "DecideBody") if name == "DecideBatch" else ("rewards", "RewardBody")
            body[field] = [self.body(inner) for _ in range(rng.randrange(25))]
        if name == "RewardBody" and rng.random() < 0.5:
            body["id"] = rng.choice(self.ids)
        if rng.random() < 0.05:
            body[rng.choice(["", "x", "\x00"])] = rng.choice(VALUES)
        return body if rng.random() < 0.97 else rng.choice(VALUES)

    def send(self):
        """Send one request and check its answer."""
        rng = self.rng
        path, method, what = rng.choice(self.calls)
        slot = rng.choice(["home", "home", "home", "fuzz", "fuzz", "..", "%00", "a" * 80, "%f0%9f", "none"])
        verb = path.rpartition("/")[2]
        if slot == "home" and (verb in ("archive", "pause", "copy") or method == "put"):
            return
        if verb == "copy" and rng.random() < 0.95:  # each makes a slot
            return
        path = path.replace("{slot}", slot).replace("{id}", rng.choice(self.ids)) + rng.choice(QUERIES)
        method = method.upper() if rng.random() < 0.97 else rng.choice(["DELETE", "PATCH", "OPTIONS", "TRACE", "HEAD"])
        content = None
        if "requestBody" in what:
            name = what["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            content = rng.choice(RAW) if rng.random() < 0.02 else json.dumps(self.body(name)).encode()
            if rng.random() < 0.02 and content:
                place = rng.randrange(len(content))
                content = content[:place] + bytes([rng.randrange(256)]) + content[place + 1 :]
        answer = self.http.request(method, path, content=content)
        told = (method, path, content, answer.status_code, answer.text[:500])
        status = str(answer.status_code)
        self.statuses[status] = self.statuses.get(status, 0) + 1
        assert status in {*what["responses"], "405", "404"}, told
        assert answer.status_code < 500, told
        if answer.status_code >= 400 and method != "HEAD":
            assert answer.headers["content-type"] == "application/problem+json", told
            found = answer.json()
            assert found["code"] not in ("internal", "error", "service"), told
            assert set(self.schemas["Problem"]["required"]) == set(found), told
        elif method == "POST" and verb == "decide":
            self.ids = [*self.ids[-40:], answer.json()["id"]]


def fuzzed(http, count, seed):
    fuzz = Fuzz(http, seed)
    while sum(fuzz.statuses.values()) < count:
        fuzz.send()
    assert fuzz.statuses.keys() >= {"200", "400", "404", "422"} or count < 1000
    text = http.get("/v1/slots/home/export").text
    assert http.post("/v1/slots/home/decide", json={"context": CONTEXT}).status_code == 200
    assert all(json.loads(line)["arm"] in SPEC["arms"] for line in text.splitlines())
    return fuzz.statuses


def test_fuzzed_requests_get_our_errors_only(tmp_path):
    with TestClient(application_of(tmp_path), headers=ADMIN) as http:
        http.put("/v1/slots/home", json=SPEC)
        fuzzed(http, 400, 1)


@pytest.mark.slow
@pytest.mark.parametrize("piece", range(20))
def test_a_hundred_thousand_fuzzed_requests(tmp_path, seed, piece):
    """Requests that are sent to a server; each piece has a seed of its own, by the name of the test."""
    (tmp_path / "keys.toml").write_text('[keys]\nadmin = "all"\n')
    (tmp_path / "serve.toml").write_text("[limits]\nbody = 20000\nbatch = 20\narms = 50\n")
    files = ("--keys", f"{tmp_path}/keys.toml", "--config", f"{tmp_path}/serve.toml", "--synchronous", "NORMAL")
    port = free_port()
    server = start(f"sqlite:{tmp_path}/store", port, *files)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=ADMIN, timeout=60.0) as http:
            http.put("/v1/slots/home", json=SPEC)
            fuzzed(http, 5000, seed)
        assert server.poll() is None
    finally:
        server.kill()
        server.wait(30)


def test_forged_ids_are_unknown(tmp_path):
    with TestClient(application_of(tmp_path), headers=ADMIN) as http:
        http.put("/v1/slots/home", json=SPEC)
        real = http.post("/v1/slots/home/decide", json={"context": CONTEXT}).json()["id"]
        number, stream = real.split("-")
        forged = [*IDS, f"{int(number) + 1}-{stream}", f"0{number}-{stream}x", f"{real}-1", real.upper() + "g", ""]
        rewards = [{"id": id, "reward": 1.0} for id in forged[:19]]
        answers = http.post("/v1/slots/home/reward/batch", json={"rewards": rewards}).json()["answers"]
        assert answers == [{"status": "unknown"}] * len(rewards)
        assert http.post("/v1/slots/home/reward", json={"id": real, "reward": 1.0}).json() == {"status": "ok"}
        problem(http.get("/v1/slots/home/explain/1-8000000000000000"), 404, "unknown-decision")


BROKEN = [
    b"NONSENSE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /\xff HTTP/1.1\r\nhost: x\r\ncontent-length: abc\r\n\r\n",
    b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -5\r\n\r\n{}", b"OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n",
    b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    b"CONNECT x:80 HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n", b"GET /v1/slots HTTP/1.1\r\nhost: x\r\n"
    b"upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-key: eA==\r\nsec-websocket-version: 13\r\n\r\n",
]  # fmt: skip


def test_what_is_no_http_is_answered_as_a_problem_too(tmp_path):
    port = free_port()
    server = start(f"sqlite:{tmp_path}/store", port)
    try:
        for data in BROKEN:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
                connection.sendall(data)
                answer = HTTPResponse(connection)
                answer.begin()
                found = json.loads(answer.read())
            assert answer.getheader("content-type") == "application/problem+json", data[:50]
            assert found["status"] == answer.status >= 400
            assert found["code"] in ("not-http", "unknown-path", "wrong-host", "wrong-method")
        assert httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
    finally:
        server.terminate()
        assert server.wait(30) in (0, -15)  # it ends by the signal, after it has finished
