"""Slots whose contexts are rows with categories and numbers, and whose rewards are revenue, through HTTP."""

import numpy as np
import pytest
from _service import ADMIN, TestClient, application_of, problem

SPEC = {
    "arms": ["small", "large"],
    "features": {"country": {"kind": "category", "slots": 5}, "price": "number", "tags": {"kind": "tags", "slots": 4}},
    "cross": [["country", "tags"]],
    "rewards": "hurdle",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("learners")


def test_features_and_revenue_through_http_and_after_a_restart(folder, rng):
    """Unknown categories and missing values decide too; after a restart the slot explains what it decided before."""
    contexts = [
        {"country": "DE", "price": 10.0, "tags": ["new"]},
        {"country": "never seen", "price": None, "tags": []},
        {"country": "FR", "price": 25.5, "tags": ["sale", "new"]},
    ]
    ids = []
    with TestClient(application_of(folder), headers=ADMIN) as client:
        assert client.put("/v1/slots/shop", json=SPEC).status_code == 201
        for i in range(60):
            answer = client.post("/v1/slots/shop/decide", json={"context": contexts[i % 3]})
            assert answer.status_code == 200, answer.text
            found = answer.json()
            assert 0.0 < found["propensity"] <= 1.0
            ids.append(found["id"])
            reward = float(rng.choice([0.0, 0.0, 12.0, 40.0]))
            body = {"id": found["id"], "reward": reward}
            assert client.post("/v1/slots/shop/reward", json=body).json() == {"status": "ok"}
        wrong = client.post("/v1/slots/shop/decide", json={"context": contexts[0]}).json()["id"]
        problem(client.post("/v1/slots/shop/reward", json={"id": wrong, "reward": -1.0}), 422, "wrong-reward")
        problem(client.post("/v1/slots/shop/decide", json={"context": [1.0, 2.0]}), 422, "wrong-shape")
        before = client.get(f"/v1/slots/shop/explain/{ids[-1]}").json()["text"]
        assert "mean reward" in before
        assert client.get("/v1/slots/shop").json()["spec"]["rewards"] == "hurdle"
    with TestClient(application_of(folder), headers=ADMIN) as client:
        assert client.get(f"/v1/slots/shop/explain/{ids[-1]}").json()["text"] == before
        again = client.post("/v1/slots/shop/decide", json={"context": contexts[2]}).json()
        assert again["arm"] in SPEC["arms"]
        assert np.isfinite(again["propensity"])


def test_a_slot_of_items_learns_places(tmp_path, rng):
    """Rewards come by the ids of places; after a restart the slot still knows how many there are."""
    rows = rng.normal(size=(5, 2)).tolist()
    spec = {"kind": "items", "features": ["x", "y"], "rewards": "bernoulli", "places": 3}
    with TestClient(application_of(tmp_path), headers=ADMIN) as client:
        assert client.put("/v1/slots/page", json=spec).status_code == 201
        for i in range(20):
            found = client.post("/v1/slots/page/decide", json={"context": rows, "top": 3}).json()
            for place in (2, 0):
                body = {"id": found["ids"][place], "reward": float((i + place) % 2)}
                assert client.post("/v1/slots/page/reward", json=body).json() == {"status": "ok"}
        problem(client.put("/v1/slots/arms", json={"arms": ["a", "b"], "places": 3}), 422, "conflicting-arguments")
    with TestClient(application_of(tmp_path), headers=ADMIN) as client:
        found = client.post("/v1/slots/page/decide", json={"context": rows, "top": 3})
        assert found.status_code == 200, found.text
        problem(client.post("/v1/slots/page/decide", json={"context": rows, "top": 4}), 422, "too-many-places")
