"""One simulation has the verdicts of shorter ones: its first episodes are theirs, bit by bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import prudent as pr
from benchmarks.verdicts import at_moments, by_episodes
from prudent.reproduction import SCALES, STUDIES
from prudent.reproduction.runner import computed

SMALL = replace(SCALES["paper"], lake_replications=3, few_lakes=2, episodes=8, lake_looks=1)


@pytest.mark.parametrize("sources", ["shared", "by hole", "by action", "by pair"])
def test_the_first_episodes_of_a_run_are_those_of_a_shorter_one(sources):
    lake = pr.envs.frozen_lake(0.2, sources=sources)
    agents = [pr.agents.ts_rl(), *(pr.brps_rl(level) for level in (0.5, 0.8, 0.9, 0.99))]
    options = {"replications": 2, "record": ["states", "rewards", "policies"], "rng": 3}
    long, short = (pr.simulate(lake, agents, episodes=episodes, **options) for episodes in (24, 6))
    for name in ("regret", "reward", "states", "rewards", "policies"):
        np.testing.assert_array_equal(long[name].isel(episode=slice(6)), short[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lake-levels", "lake-regret"])
def test_the_datasets_are_those_of_simulations_of_each_length(name, tmp_path):
    study, moments = STUDIES[name], (4, 8, 16)
    found = at_moments(name, SMALL, tmp_path / "one", 1, 1, moments)
    for moment in moments:
        plan = study.plan(replace(SMALL, episodes=moment))
        with computed(tmp_path / str(moment), list(plan.values()), 1, None, None, None) as result_of:
            results = {where: result_of(part)[0] for where, part in plan.items()}
        expected = study.dataset(SMALL, results, plan).regret.isel(episode=[-1])
        assert found[moment].regret.identical(expected)


@pytest.mark.slow
def test_rows_of_the_claims_about_the_end_of_a_run(tmp_path):
    rows = by_episodes(tmp_path, 1, ["lake-levels", "lake-regret"], 1, SMALL)
    assert set(rows) == {"lake-best-level", "lake-best-level-falls", "lake-brps-beats-ts", "lake-0.99-gains-little"}
    for claim, more in {"lake-best-level": ", at most 3 replications", "lake-brps-beats-ts": ""}.items():
        assert [row["threshold"] for row in rows[claim]] == [f"{n} episodes{more}" for n in (4, 8, 16)]
