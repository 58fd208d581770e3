"""A service in this process, asked through HTTP."""

from __future__ import annotations

import hashlib
import time
import warnings

from prudent.service.app import Limits, application
from prudent.service.auth import Keys
from prudent.service.registry import Registry
from prudent.service.slots import Slots

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of starlette, which would rather have another httpx
    from starlette.testclient import TestClient

__all__ = ["ADMIN", "CONTEXT", "SPEC", "TestClient", "application_of", "problem", "soon"]

SPEC = {"arms": ["red", "blue"], "features": ["age", "visits"], "fallback": "red", "seed": 3}
CONTEXT = {"age": 0.5, "visits": 1.0}
ADMIN = {"authorization": "Bearer all"}


def application_of(folder, limits=None):
    keys = folder / "keys.toml"
    if not keys.exists():
        digest = hashlib.sha256(b"hashed").hexdigest()
        keys.write_text(
            f'[keys]\nadmin = "all"\ndecide = "d"\nreward = "r"\nops = {{role = "read", sha256 = "{digest}"}}\n'
        )
    limits = limits or Limits(body=20_000, batch=20, arms=50)
    slots = Slots(Registry(f"sqlite:{folder}/store", "NORMAL", 2.0), limits.arms)
    return application(slots, Keys(keys, limits.rate), limits)


def soon(work):
    """Return whether something becomes true within ten seconds."""
    for _ in range(200):
        if work():
            return True
        time.sleep(0.05)
    return False


def problem(answer, status, code):
    body = answer.json()
    assert (answer.status_code, body["status"], body["code"]) == (status, status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert body["instance"] == answer.headers["x-request-id"]
    return body
