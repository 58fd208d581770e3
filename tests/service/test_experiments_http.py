"""Experiments over HTTP: start, change, promote, roll back, audit; roles; errors as problems; restarts."""

import json
import time

import pytest
from test_service import ADMIN, TestClient, application_of, problem

SLOT = {"arms": ["red", "blue"], "rewards": "bernoulli", "min_propensity": 0.1}
BASE = "/v1/slots/home/experiment"
SPEC = {
    "ramp": 0.5, "challenger": {"arms": ["red", "blue"], "rewards": "bernoulli", "alpha": 0.3},
    "guardrails": {"complaint": {"worse_by": 0.05}},
}  # fmt: skip


@pytest.fixture
def http(tmp_path):
    with TestClient(application_of(tmp_path), headers=ADMIN) as client:
        assert client.put("/v1/slots/home", json=SLOT).status_code == 201
        yield client


def decided(http, unit):
    return http.post("/v1/slots/home/decide", json={"note": {"user": unit}}).json()


def test_an_experiment_from_start_to_rollback(http, tmp_path):
    problem(http.get(BASE), 404, "unknown-experiment")
    begun = http.put(BASE, json=SPEC).json()
    assert (begun["status"], begun["slot"]) == ("running", "home")
    assert "salt" not in begun
    found = [decided(http, f"u{i}") for i in range(30)]
    assert {"~" in one["id"] for one in found} == {True, False}
    problem(http.post("/v1/slots/home/decide", json={}), 422, "missing-unit")
    for one in found:
        assert http.post("/v1/slots/home/reward", json={"id": one["id"], "reward": 1}).json() == {"status": "ok"}
    report = {"id": found[0]["id"], "reward": 1, "metric": "complaint"}
    for status in ("ok", "duplicate"):
        assert http.post("/v1/slots/home/reward", json=report).json() == {"status": status}
    seen = http.get(BASE).json()["seen"]
    assert sum(one["rewards"] for one in seen["parts"].values()) == 30
    assert seen["differences"]["challenger - champion"]["low"] < 0.0
    for one in (next(one for one in found if "~" in one["id"]), found[0]):
        assert one["arm"] in http.get(f"/v1/slots/home/explain/{one['id']}").json()["text"]
    assert http.post(f"{BASE}/pause", json={"reason": "lunch"}).json()["status"] == "paused"
    assert all("~" not in decided(http, f"v{i}")["id"] for i in range(10))
    assert http.post(f"{BASE}/resume").json()["status"] == "running"
    first = http.get("/v1/slots/home").json()["version"]
    promoted = http.post(f"{BASE}/promote", json={"reason": "it is Friday"}).json()
    assert promoted["status"] == "promoted"
    assert http.get("/v1/slots/home").json()["version"] > first
    assert http.get("/v1/slots/home").json()["spec"]["alpha"] == 0.3
    late = next(one for one in found if "~" not in one["id"])
    answer = http.post("/v1/slots/home/reward", json={"id": late["id"], "reward": 0}).json()
    assert answer == {"status": "duplicate"}  # the journal of the old champion still knows it
    for one in found:  # also those of the old champion
        assert one["arm"] in http.get(f"/v1/slots/home/explain/{one['id']}").json()["text"]
    after = decided(http, "u1")
    exported = [json.loads(line) for line in http.get("/v1/slots/home/export").text.splitlines()]
    assert {row["id"] for row in exported} >= {one["id"] for one in [*found, after]}
    assert len({row["id"] for row in exported}) == len(exported)
    assert {row["reward"] for row in exported if row["id"] in {one["id"] for one in found}} == {1.0}
    when = time.time()
    assert http.post("/v1/slots/home/reward", json={"id": after["id"], "reward": 1}).json() == {"status": "ok"}
    assert http.post(f"{BASE}/rollback", json={"to": when}).status_code == 200
    problem(http.post(f"{BASE}/promote"), 409, "experiment-ended")
    changes = http.get("/v1/slots/home/audit").json()["changes"]
    assert [one["what"] for one in changes] == ["start", "paused", "running", "promote", "rollback"]
    assert {one["who"] for one in changes} == {"admin"}
    with TestClient(application_of(tmp_path), headers=ADMIN) as again:  # a second server of the same store
        assert again.get(BASE).json()["status"] == "promoted"
        assert decided(again, "u1")["arm"] in SLOT["arms"]


def test_arms_change_before_and_after_an_experiment(http):
    http.put(BASE, json=SPEC)
    more = SLOT | {"arms": ["red", "blue", "green"]}
    for arms in (["red"], more["arms"]):
        said = problem(http.put("/v1/slots/home", json=SLOT | {"arms": arms}), 409, "slot-exists")
        assert said["fields"]["argument"] == "arms"
    assert http.put("/v1/slots/home", json=SLOT | {"fallback": "red"}).status_code == 200
    assert http.post(f"{BASE}/stop").status_code == 200
    assert http.put("/v1/slots/home", json=more | {"fallback": "red"}).status_code == 200
    for i in range(10):
        answer = http.post("/v1/slots/home/decide", json={"note": {"user": f"w{i}"}, "arms": ["green"]})
        assert answer.json()["arm"] == "green"


def test_rollback_to_a_decision_of_the_old_champion(http):
    http.put(BASE, json=SPEC)
    found = [decided(http, f"u{i}") for i in range(20)]
    champion = [one for one in found if "~" not in one["id"]]
    for one in champion[:-1]:
        assert http.post("/v1/slots/home/reward", json={"id": one["id"], "reward": 1}).json() == {"status": "ok"}
    last = decided(http, "u-last")
    while "~" in last["id"]:
        last = decided(http, f"{last['id']}")
    assert http.post(f"{BASE}/promote").status_code == 200
    assert http.post(f"{BASE}/rollback", json={"to": last["id"]}).status_code == 200
    table = http.get("/v1/slots/home/check").json()
    assert table["rewards"] == len(champion) - 1  # what the old champion had learned then


def test_roles_and_errors(http):
    decide = {"authorization": "Bearer d"}
    problem(http.put(BASE, json=SPEC, headers=decide), 403, "wrong-role")
    problem(http.post(f"{BASE}/promote", headers=decide), 403, "wrong-role")
    problem(http.get("/v1/slots/home/audit", headers=decide), 403, "wrong-role")
    problem(http.put("/v1/slots/none/experiment", json=SPEC), 404, "unknown-slot")
    problem(http.put(BASE, json={"ramp": 2}), 422, "wrong-body")
    problem(http.put(BASE, json={"ramp": 0.5}), 422, "experiment")
    problem(http.put(BASE, json={"min_propensity": {"green": 0.5}}), 422, "unknown-arm")
    problem(http.put(BASE, json={"min_propensity": {"red": 0.7, "blue": 0.7}}), 422, "probability-range")
    problem(http.post(f"{BASE}/stop"), 404, "unknown-experiment")
    problem(http.post(f"{BASE}/rollback", json={"to": "nonsense"}), 404, "unknown-experiment")
    assert http.put(BASE, json={"control": "red", "control_share": 0.25}).status_code == 200
    problem(http.post(f"{BASE}/rollback", json={"to": "nonsense"}), 404, "unknown-decision")
    problem(http.post(f"{BASE}/rollback"), 409, "no-earlier")
    said = problem(http.get("/v1/slots/home/explain/challenger~7-0000000000000001"), 404, "unknown-decision")
    assert "slot 'home'" in said["detail"]
    assert ".db" not in said["detail"]  # no path of the server
    assert {decided(http, f"u{i}")["propensity"] for i in range(12)} <= {0.25, 0.75}
    assert http.get("/page/experiment.js").headers["content-type"].startswith("text/javascript")
    assert "/v1/slots/{slot}/experiment" in http.get("/openapi.json").json()["paths"]
