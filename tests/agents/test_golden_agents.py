"""State files of agents, version 1, written once: the format stays readable."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import prudent as pr
from prudent.envs import TabularEnv, river_swim
from prudent.simulation import learn

GOLDEN = Path(__file__).parents[1] / "golden"
RIVER = river_swim(4)
AGENTS = {
    "sampling": lambda: pr.PosteriorSamplingAgent(RIVER.model, alpha=0.9, episode_length=4, rng=3),
    "falling": lambda: pr.PosteriorSamplingAgent(RIVER.model, alpha=pr.schedules.Decay(0.9, 10), rng=3),
    "weights": lambda: pr.PosteriorSamplingAgent(RIVER.model, risk=pr.Spectral(np.sqrt), draws=5, rng=3),
    "optimistic": lambda: pr.OptimisticVIAgent(RIVER.model, alpha=0.5, horizon=1000, rng=3),
}


def lived(kind):
    """Return an agent after 30 steps."""
    agent = AGENTS[kind]()
    learn(agent, TabularEnv(RIVER), 30, rng=1)
    return agent


@pytest.mark.parametrize("kind", sorted(AGENTS))
def test_golden_files_load(kind, tmp_path):
    path, expected = GOLDEN / f"agent_{kind}_1.state", lived(kind)
    loaded = type(expected).load(path)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    assert loaded.posterior == expected.posterior
    assert loaded.settings.label == expected.settings.label
    np.testing.assert_allclose(loaded.value, expected.value, rtol=1e-9)
    assert [loaded.act(s) for s in range(4)] == [expected.act(s) for s in range(4)]
