"""Settings shared by all tests, and one tiny run of all studies."""

from pathlib import Path

import pytest
from hypothesis import settings

# The machine that runs the tests is shared: a slow example is no failure.
settings.register_profile("prudent", deadline=None, max_examples=60)
settings.load_profile("prudent")


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of a run of all studies at a size for tests; read only."""
    from _tiny import TINY

    from prudent.experiments import run

    out = tmp_path_factory.mktemp("tiny")
    run(scale=TINY, out=out, workers=1, seed=5)
    return out
