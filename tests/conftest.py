"""Settings shared by all tests, and one tiny run of all studies."""

import os
import secrets
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

# Unset: every test has a fixed seed; "random": new seeds in every run (`make test-random`); a number: that seed.
CHOSEN_SEED = os.environ.get("PRUDENT_TEST_SEED")

# The machine that runs the tests is shared: a slow example is no failure.
settings.register_profile("prudent", deadline=None, max_examples=60, derandomize=CHOSEN_SEED is None)
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
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of a test: fixed by its name, or as ``PRUDENT_TEST_SEED`` says; printed if the test fails."""
    if CHOSEN_SEED is None:
        chosen = zlib.crc32(request.node.nodeid.encode())
    else:
        chosen = secrets.randbits(32) if CHOSEN_SEED == "random" else int(CHOSEN_SEED)
    print(f"repeat with PRUDENT_TEST_SEED={chosen}")  # pytest shows it if the test fails
    return chosen


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """A generator with the seed that is printed if the test fails."""
    return np.random.default_rng(seed)
