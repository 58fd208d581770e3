"""The service through HTTP: slots, decisions, rewards, keys, limits, errors, restarts, the client."""

import json
import logging
import os
import socket
import time

import pytest
from _service import ADMIN, CONTEXT, SPEC, TestClient, application_of, problem, soon
from refusals import refused

import prudent as pr
from prudent.errors import ParameterError
from prudent.service.app import Limits, application
from prudent.service.auth import Keys, read_keys
from prudent.service.registry import Registry
from prudent.service.server import serve
from prudent.service.slots import Slots


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    with TestClient(application_of(tmp_path_factory.mktemp("service")), headers=ADMIN) as client:
        assert client.put("/v1/slots/home", json=SPEC).status_code == 201
        yield client


def test_a_decision_and_its_reward(http):
    found = http.post("/v1/slots/home/decide", json={"context": CONTEXT, "note": {"user": "u"}}).json()
    assert set(found) == {"id", "arm", "propensity"}
    assert found["arm"] in SPEC["arms"]
    for status in ("ok", "duplicate"):
        answer = http.post("/v1/slots/home/reward", json={"id": found["id"], "reward": 1})
        assert answer.json() == {"status": status}
    assert http.post("/v1/slots/home/reward", json={"id": "1-0", "reward": 1}).json() == {"status": "unknown"}
    assert found["arm"] in http.get(f"/v1/slots/home/explain/{found['id']}").json()["text"]
    lines = http.get("/v1/slots/home/export").text.splitlines()
    assert any(found["id"] in line for line in lines)


def test_a_key_gives_the_same_decision_and_refuses_another_body(http):
    body = {"context": CONTEXT, "key": "again"}
    first, second = (http.post("/v1/slots/home/decide", json=body).json() for _ in range(2))
    assert first == second
    problem(http.post("/v1/slots/home/decide", json=body | {"context": [9, 9]}), 409, "key-reused")


def test_batches_answer_each_request(http):
    requests = [{"context": CONTEXT}, {"context": {"age": 1}}, {"context": CONTEXT, "arms": ["blue"]}]
    first, second, third = http.post("/v1/slots/home/decide/batch", json={"requests": requests}).json()["decisions"]
    assert second["error"]["code"] == "different-features"
    assert (third["arm"], third["propensity"]) == ("blue", 1.0)
    rewards = [{"id": first["id"], "reward": 2.5}, {"id": third["id"], "reward": 1, "metric": "speed"}]
    answers = http.post("/v1/slots/home/reward/batch", json={"rewards": rewards}).json()["answers"]
    assert answers[0] == {"status": "ok"}
    assert answers[1]["error"]["code"] == "unknown-metric"
    problem(http.post("/v1/slots/home/decide/batch", json={"requests": requests * 7}), 422, "batch-too-large")


@pytest.mark.parametrize(
    ("key", "method", "path", "status", "code"),
    [
        (None, "POST", "/v1/slots/home/decide", 401, "missing-key"),
        ("wrong", "POST", "/v1/slots/home/decide", 401, "unknown-key"),
        ("r", "POST", "/v1/slots/home/decide", 403, "wrong-role"),
        ("d", "POST", "/v1/slots/home/reward", 403, "wrong-role"),
        ("d", "PUT", "/v1/slots/other", 403, "wrong-role"),
        ("hashed", "PUT", "/v1/slots/other", 403, "wrong-role"),
        ("d", "GET", "/v1/slots", 403, "wrong-role"),
    ],
)
def test_keys_have_roles(http, key, method, path, status, code):
    headers = {"authorization": "" if key is None else f"Bearer {key}"}
    problem(http.request(method, path, headers=headers, json={}), status, code)
    assert http.get("/v1/slots", headers={"authorization": "Bearer hashed"}).status_code == 200


def test_errors_are_problems(http):
    decide = "/v1/slots/home/decide"
    problem(http.post("/v1/slots/none/decide", json={"context": CONTEXT}), 404, "unknown-slot")
    problem(http.post(decide, content=b"{"), 400, "not-json")
    problem(http.post(decide, json={"context": CONTEXT, "x": 1}), 422, "wrong-body")
    problem(http.post(decide, json={"context": CONTEXT, "arms": ["green"]}), 422, "unknown-arm")
    problem(http.post(decide, content=b" " * 30_000), 413, "body-too-large")
    problem(http.post(decide, content=iter([b" " * 15_000] * 2)), 413, "body-too-large")
    problem(http.delete("/v1/slots/home"), 405, "wrong-method")
    problem(http.get("/nowhere"), 404, "unknown-path")
    problem(http.get("/v1/slots/home/explain/7-1234"), 404, "unknown-decision")
    problem(http.put("/v1/slots/home", json=SPEC | {"alpha": 0.5}), 409, "slot-exists")
    problem(http.put("/v1/slots/a b", json=SPEC), 422, "slot-name")
    problem(http.put("/v1/slots/many", json={"arms": 51}), 422, "too-many-arms")
    problem(http.put("/v1/slots/bad", json={"arms": ["a", "b"], "fallback": "c"}), 422, "unknown-arm")


def test_a_slot_gets_other_features_and_takes_late_rewards(tmp_path):
    with TestClient(application_of(tmp_path), headers=ADMIN) as http:
        assert http.put("/v1/slots/home", json=SPEC).status_code == 201
        late = http.post("/v1/slots/home/decide", json={"context": CONTEXT}).json()
        assert http.put("/v1/slots/home", json=SPEC | {"features": ["age", "price"]}).status_code == 200
        problem(http.post("/v1/slots/home/decide", json={"context": {"age": 1.0}}), 422, "different-features")
        new = http.post("/v1/slots/home/decide", json={"context": {"price": 2.0, "age": 1.0}, "detail": True}).json()
        assert new["context"] == [1.0, 0.0, 2.0]
        for one in (late, new):
            answer = http.post("/v1/slots/home/reward", json={"id": one["id"], "reward": 1.0})
            assert answer.json() == {"status": "ok"}
        problem(http.put("/v1/slots/home", json=SPEC | {"features": ["a", "a"]}), 422, "duplicate-name")
    with TestClient(application_of(tmp_path), headers=ADMIN) as http:
        assert http.get("/v1/slots/home").json()["spec"]["features"] == ["age", "price"]
        assert http.post("/v1/slots/home/decide", json={"context": {"price": 2.0, "age": 1.0}}).status_code == 200


def test_slots_are_paused_archived_restored_copied_and_survive(tmp_path):
    with TestClient(application_of(tmp_path), headers=ADMIN) as http:
        assert http.put("/v1/slots/a", json=SPEC).status_code == 201
        assert http.put("/v1/slots/a", json=SPEC).status_code == 200
        found = http.post("/v1/slots/a/decide", json={"context": CONTEXT}).json()
        http.post("/v1/slots/a/reward", json={"id": found["id"], "reward": 1.0})
        assert http.post("/v1/slots/a/copy", json={"to": "b"}).status_code == 201
        problem(http.post("/v1/slots/a/copy", json={"to": "b"}), 409, "slot-exists")
        http.post("/v1/slots/a/pause")
        problem(http.post("/v1/slots/a/decide", json={"context": CONTEXT}), 409, "slot-paused")
        assert http.post("/v1/slots/a/reward", json={"id": found["id"], "reward": 1.0}).json()["status"] == "duplicate"
        http.post("/v1/slots/a/archive")
        problem(http.post("/v1/slots/a/reward", json={"id": found["id"], "reward": 1.0}), 409, "slot-archived")
    with TestClient(application_of(tmp_path), headers=ADMIN) as http:  # from the store alone
        states = {one["slot"]: one["state"] for one in http.get("/v1/slots").json()["slots"]}
        assert states == {"a": "archived", "b": "active"}
        assert http.get("/v1/slots/b/check").json()["rewards"] == 1
        assert http.post("/v1/slots/a/restore").json()["state"] == "active"
        assert http.post("/v1/slots/a/reward", json={"id": found["id"], "reward": 1.0}).json()["status"] == "duplicate"
        arms = [*SPEC["arms"], "green"]
        assert http.put("/v1/slots/a", json=SPEC | {"arms": arms}).json()["spec"]["arms"] == arms
        assert http.post("/v1/slots/a/decide", json={"context": CONTEXT, "arms": ["green"]}).json()["arm"] == "green"


def test_the_fallback_arm_while_the_store_is_away(tmp_path):
    with TestClient(application_of(tmp_path), headers=ADMIN) as http:
        http.put("/v1/slots/a", json=SPEC)
        (path,) = (tmp_path / "store").glob("slot_*.db")
        os.rename(path, tmp_path / "moved")
        answer = http.post("/v1/slots/a/decide", json={"context": CONTEXT})
        assert answer.json() == {"id": None, "arm": "red", "propensity": 1.0, "fallback": True}
        problem(http.post("/v1/slots/a/decide", json={"context": CONTEXT, "arms": ["blue"]}), 503, "file-moved")
        problem(http.post("/v1/slots/a/reward", json={"id": "1-0000000000000001", "reward": 1}), 503, "file-moved")
        os.rename(tmp_path / "moved", path)
        again = "/v1/slots/a/decide"
        assert soon(lambda: http.post(again, json={"context": CONTEXT}).json()["id"] is not None)


def test_keys_are_rotated_without_restart(tmp_path):
    path = tmp_path / "keys.toml"
    path.write_text('[keys]\nadmin = "old"\n')
    keys = Keys(path)
    assert keys.caller(b"Bearer old", "read").name == "admin"
    path.write_text('[keys]\nadmin = "newer"\n')
    keys._looked -= 2.0  # as after two seconds
    assert keys.caller(b"Bearer newer", "read").name == "admin"
    with pytest.raises(ValueError) as caught:
        keys.caller(b"Bearer old", "read")
    assert caught.value.code == "unknown-key"
    path.write_text("[keys")
    keys.reload()
    assert keys.caller(b"Bearer newer", "read").name == "admin"
    assert "TOML" in keys.failure
    with pytest.raises(pr.errors.ParameterError):
        read_keys(path)
    assert b"newer" not in repr(keys.__dict__).encode()


def test_a_file_of_keys_that_cannot_be_read_is_told_in_the_log_and_by_readyz(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("prudent.service.auth._LOOK", 0.0)
    monkeypatch.setattr(logging.getLogger("prudent.serve"), "propagate", True)
    with TestClient(application_of(tmp_path), headers=ADMIN) as http:
        keys = tmp_path / "keys.toml"
        before = keys.read_text()
        keys.write_text(before + "x = [broken")
        assert "it is not TOML" in http.get("/readyz").json()["keys"]
        assert http.get("/v1/slots").status_code == 200  # the old keys
        keys.write_text(before)
        assert http.get("/readyz").json()["keys"] == "ok"
    told = [json.loads(one.message)["keys"] for one in caplog.records if '"keys"' in one.message]
    assert told == ["kept", "read"]
    assert not any(secret in one.message for one in caplog.records for secret in ('"all"', "Bearer"))


def test_rates_are_limited(tmp_path):
    with TestClient(application_of(tmp_path, Limits(rate=1e-6)), headers=ADMIN) as http:
        assert http.get("/v1/slots").status_code == 200
        answer = http.get("/v1/slots")
        problem(answer, 429, "rate-exceeded")
        assert int(answer.headers["retry-after"]) > 0


def test_health_metrics_page_and_description(http):
    http.post("/v1/slots/home/decide", json={"context": CONTEXT})
    assert http.get("/healthz").json() == {"status": "ok"}
    assert http.get("/readyz").json()["status"] == "ready"
    text = http.get("/metrics").text
    assert 'prudent_decisions_total{answer="decided",arm="' in text
    assert "prudent_exploration_share" in text
    assert "<title>prudent serve</title>" in http.get("/").text
    assert http.get("/page/page.js").status_code == http.get("/page/page.css").status_code == 200
    described = http.get("/openapi.json").json()
    assert described["openapi"] == "3.1.0"
    for name in ("SlotSpec", "DecideBody", "RewardBody", "DecideBatch", "RewardBatch", "CopyBody"):
        assert described["components"]["schemas"][name]["examples"]
    found = http.get("/v1/slots/home/summary").json()
    assert found["decisions"] == sum(arm["decisions"] for arm in found["arms"].values()) > 0
    problem(http.get("/v1/slots/home/summary?hours=x"), 422, "hours")


def test_the_client_of_a_journal_is_that_of_a_server(tmp_path):
    bandit = pr.LinearBandit(["a", "b"], dim=1, rng=1)
    with pr.Journal(tmp_path / "j", bandit) as live, pr.Client({"home": live}) as client:
        first, again = (client.decide("home", [1.0], key="k") for _ in range(2))
        assert first.id == again.id
        good, bad = client.decide_many("home", [{"context": [1.0]}, {"context": [1.0, 2.0]}])
        assert isinstance(bad, pr.errors.DataError)
        assert client.reward_many("home", [(first.id, 1.0), (good.id, 0.0)]) == ["ok", "ok"]
        with pytest.raises(pr.errors.ParameterError) as caught:
            client.decide("away", [1.0])
        assert caught.value.code == "unknown-slot"


def test_one_key_twice_in_a_commit_is_one_decision(tmp_path):
    with pr.Journal(tmp_path / "j", pr.LinearBandit(3, dim=1, rng=1), synchronous="NORMAL") as live:
        requests = [{"context": [1.0], "key": "k"}] * 5 + [{"context": [2.0], "key": "k"}]
        *same, other = live.select_each(requests)
        assert len({one.id for one in same}) == 1
        assert other.code == "key-reused"
        assert live.verify() == 1


def test_a_key_gives_its_decision_also_after_its_arm_was_removed(tmp_path):
    with TestClient(application_of(tmp_path), headers=ADMIN) as http:
        http.put("/v1/slots/a", json=SPEC)
        body = {"context": CONTEXT, "key": "k"}
        first = http.post("/v1/slots/a/decide", json=body).json()
        left = next(arm for arm in SPEC["arms"] if arm != first["arm"])
        assert http.put("/v1/slots/a", json=SPEC | {"arms": [left], "fallback": left}).status_code == 200
        assert http.post("/v1/slots/a/decide", json=body).json() == first
        answer = http.post("/v1/slots/a/reward", json={"id": first["id"], "reward": 1.0})
        assert answer.json() == {"status": "arm removed"}


def test_without_keys_pages_of_other_sites_are_refused(tmp_path):
    keyless = application(Slots(Registry(f"sqlite:{tmp_path}/store", "NORMAL", 2.0), 50), Keys(None))
    with TestClient(keyless, base_url="http://127.0.0.1:8000") as http:
        assert http.get("/v1/slots").status_code == 200
        problem(http.get("/v1/slots", headers={"host": "evil.example"}), 403, "wrong-host")
        problem(http.get("/v1/slots", headers={"sec-fetch-site": "cross-site"}), 403, "wrong-host")


def test_a_clock_that_steps_back_loses_nothing(tmp_path, monkeypatch):
    with TestClient(application_of(tmp_path), headers=ADMIN) as http:
        http.put("/v1/slots/a", json=SPEC | {"window": 1000.0})
        first = http.post("/v1/slots/a/decide", json={"context": CONTEXT}).json()
        now = time.time
        monkeypatch.setattr(time, "time", lambda: now() - 1800.0)
        second = http.post("/v1/slots/a/decide", json={"context": CONTEXT}).json()
        for found in (first, second):
            answer = http.post("/v1/slots/a/reward", json={"id": found["id"], "reward": 1.0})
            assert answer.json() == {"status": "ok"}
        monkeypatch.undo()
    (path,) = (tmp_path / "store").glob("slot_*.db")
    with pr.Journal(path) as live:
        assert live.verify() == 2


def test_what_is_too_large_is_refused_before_it_is_made(http):
    problem(http.put("/v1/slots/huge", json={"arms": 2, "dim": 1_000_000}), 422, "slot-too-large")
    problem(http.put("/v1/slots/huge", json={"kind": "items", "dim": 100_000}), 422, "slot-too-large")


def test_a_slot_of_another_server_is_known_at_once(tmp_path):
    with (
        TestClient(application_of(tmp_path), headers=ADMIN) as one,
        TestClient(application_of(tmp_path), headers=ADMIN) as other,
    ):
        problem(other.post("/v1/slots/new/decide", json={"context": CONTEXT}), 404, "unknown-slot")
        time.sleep(0.3)  # between two searches
        assert one.put("/v1/slots/new", json=SPEC).status_code == 201
        found = other.post("/v1/slots/new/decide", json={"context": CONTEXT})
        assert found.json()["arm"] in SPEC["arms"]
        assert one.post("/v1/slots/new/reward", json={"id": found.json()["id"], "reward": 1}).json() == {"status": "ok"}


def test_metrics_count_requests_decisions_and_rewards(tmp_path):
    with TestClient(application_of(tmp_path), headers=ADMIN) as http:
        http.put("/v1/slots/a", json=SPEC)
        ids = [http.post("/v1/slots/a/decide", json={"context": CONTEXT, "arms": ["blue"]}).json()["id"]] * 2
        for id in ids:
            http.post("/v1/slots/a/reward", json={"id": id, "reward": 1})
        lines = http.get("/metrics").text.splitlines()
        path = 'path="/v1/slots/{slot}/reward"'
        for line in (
            'prudent_decisions_total{answer="decided",arm="blue",slot="a"} 1.0',
            'prudent_rewards_total{slot="a",status="ok"} 1.0',
            'prudent_rewards_total{slot="a",status="duplicate"} 1.0',
            f'prudent_requests_total{{{path},status="200"}} 2.0',
            f'prudent_request_seconds_bucket{{le="+Inf",{path}}} 2.0',
            f"prudent_request_seconds_count{{{path}}} 2.0",
            'prudent_exploration_share{slot="a"} 0.0',
        ):
            assert line in lines, line


@pytest.mark.parametrize("port", [0, -1, 99999])
def test_ports_that_cannot_be_are_refused(tmp_path, port):
    with refused(ParameterError, "port", argument="port", value=port):
        serve(f"sqlite:{tmp_path}", port=port)


def test_a_port_that_is_taken_is_said_before_slots_are_opened(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with refused(ParameterError, "port", argument="port"):
            serve(f"sqlite:{tmp_path}/store", port=taken.getsockname()[1])
    assert not (tmp_path / "store").exists()
