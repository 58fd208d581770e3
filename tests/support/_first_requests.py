"""Print how many kernels the first requests to a server compile, by path: ``python _first_requests.py FOLDER``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from _service import ADMIN, TestClient, application_of, soon
from numba.core import event

SLOTS = {
    "numbers": {"arms": 3, "dim": 2, "min_propensity": 0.05},
    "clicks": {"arms": ["a", "b"], "rewards": "bernoulli"},
    "logistic": {"arms": ["a", "b"], "features": ["x"], "rewards": "bernoulli", "alpha": 0.5},
    "items": {"kind": "items", "dim": 2},
}
CONTEXTS = {"numbers": [1.0, 0.0], "clicks": None, "logistic": {"x": 1.0}, "items": [[1.0, 0.0], [0.0, 1.0]]}


def main():
    found = {}
    with TestClient(application_of(Path(sys.argv[1])), headers=ADMIN) as http:
        for name, spec in SLOTS.items():
            assert http.put(f"/v1/slots/{name}", json=spec).status_code == 201
        assert soon(lambda: http.get("/readyz").status_code == 200)
        counter = event.RecordingListener()
        event.register("numba:compile", counter)
        for name, context in CONTEXTS.items():
            before = len(counter.buffer)
            for _ in range(3):
                asked = {"requests": [{"context": context}] * 3}
                several = http.post(f"/v1/slots/{name}/decide/batch", json=asked).json()["decisions"]
                one = http.post(f"/v1/slots/{name}/decide", json={"context": context}).json()
                assert len({each["id"] for each in (*several, one)}) == 4
                reward = {"rewards": [{"id": one["id"], "reward": 1.0}]}
                assert http.post(f"/v1/slots/{name}/reward/batch", json=reward).json() == {
                    "answers": [{"status": "ok"}]
                }
            found[name] = [data.data["dispatcher"].py_func.__name__ for _, data in counter.buffer[before:]]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
