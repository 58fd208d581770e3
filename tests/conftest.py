"""Settings shared by all tests, and one tiny run of all studies."""

import os
import secrets
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

# The machine that runs the tests is shared: a slow example is no failure.
settings.register_profile("prudent", deadline=None, max_examples=60)
settings.load_profile("prudent")


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of a run of all studies at a size for tests; read only."""
    from _tiny import TINY

    from prudent.reproduction import run

    out = tmp_path_factory.mktemp("tiny")
    run(scale=TINY, out=out, workers=1, rng=5)
    return out


@pytest.fixture
def seed() -> int:
    """A seed that differs between runs and is printed, so that a failure can be repeated with ``PRUDENT_TEST_SEED``."""
    chosen = int(os.environ.get("PRUDENT_TEST_SEED") or secrets.randbits(32))
    print(f"repeat with PRUDENT_TEST_SEED={chosen}")  # pytest shows it if the test fails
    return chosen


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """A generator with the seed that is printed if the test fails."""
    return np.random.default_rng(seed)
