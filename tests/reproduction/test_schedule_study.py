"""The study of levels that change: its dataset by the simulator, and its claims on data made to order."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import xarray
from scipy import stats

import prudent as pr
from prudent.reproduction import judge, load_datasets
from prudent.reproduction.claims import BEYOND
from prudent.reproduction.rules import Verdict
from prudent.reproduction.studies.schedules import AGENTS, FIXED, LAKES, OPTIMIST, PROBLEMS, RIVERS, SCHEDULES, TS
from prudent.schedules import Decay, Falling

REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE = Verdict.REPRODUCED, Verdict.NOT_REPRODUCED, Verdict.INCONCLUSIVE
UNDER_NONE = "not reproduced under any reading tried"
LATE = np.array([1, 1_000, 10_000])


@pytest.fixture(scope="module")
def study(tiny_run):
    return load_datasets(tiny_run)["schedules"]


def test_the_dataset_is_the_simulators(study):
    both = {
        "lake by action, p_h = 0.1": pr.envs.frozen_lake(0.1, sources="by action"),
        "RiverSwim, shared": pr.envs.river_swim(sources="shared"),
    }
    by_visits = Falling(0.9, scale=5, unseen=0)
    agents = {"TS-RL": 0.0, "BRPS-RL -0.8": -0.8, "0.9 halving": Decay(0.9, half=5), "0.9 falling, 0 unseen": by_visits}
    settings = [pr.brps_rl(alpha, label=name) for name, alpha in agents.items()]
    for name, problem in both.items():
        runs = pr.simulate(problem, settings, episodes=40, replications=3, rng=5).regret.values
        many = study.regret.sel(problem=name, agent=list(agents))
        np.testing.assert_array_equal(many.values, runs[..., :12])
        late = study.long_regret.sel(problem=name, agent=list(agents))
        np.testing.assert_array_equal(late.values[[0, 2, 3], :2], runs[[0, 2, 3], :2][..., study.late.values - 1])
        assert np.isnan(late.values[1]).all()  # optimism is not run for long
        assert np.isnan(late.values[:, 2]).all()  # few replications are
    assert {4, 40} <= set(study.late.values.tolist())
    stuck = study.long_regret.sel(agent=FIXED).notnull().any(("replication", "late"))
    assert study.problem.values[stuck.values].tolist() == list(RIVERS)


def made(means, growth, last=LATE):
    """Return a dataset: mean regret by agent on all problems, and regret that grows like T to a power in long runs."""
    rng = np.random.default_rng(8)
    sizes = (len(PROBLEMS), len(AGENTS), 120)
    regret = np.array([means[agent] for agent in AGENTS])[:, np.newaxis] + rng.normal(0, 0.01, sizes)
    powers = np.array([growth.get(agent, 0.2) for agent in AGENTS])[:, np.newaxis, np.newaxis]
    late = rng.gamma(50.0, 0.02, (*sizes, 1)) * last**powers
    dims = ("problem", "agent", "replication")
    return xarray.Dataset(
        {"regret": ((*dims, "episode"), regret[..., np.newaxis]), "long_regret": ((*dims, "late"), late)},
        {"problem": list(PROBLEMS), "agent": list(AGENTS), "episode": [400], "late": last},
    )


def verdicts(data):
    found = judge({"schedules": data})
    assert {claim.source for claim in found} == {BEYOND}
    json.dumps([dataclasses.asdict(claim) for claim in found], allow_nan=False)
    return {claim.id.removeprefix("beyond-"): claim.verdict for claim in found}


GOOD = dict.fromkeys(AGENTS, 5.0) | {TS: 10.0}
BAD = dict.fromkeys(AGENTS, 35.0) | {TS: 10.0}


def test_claims_follow_the_data():
    good = verdicts(made(GOOD, {FIXED: 1.0}))
    assert len(good) == 6
    assert set(good.values()) == {REPRODUCED}
    bad = verdicts(made(BAD, dict.fromkeys(SCHEDULES, 0.8)))
    assert bad.pop("fixed-stuck") == UNDER_NONE
    assert set(bad.values()) == {NOT_REPRODUCED}
    even = verdicts(made(dict.fromkeys(AGENTS, 10.0), {}))
    undecided = {even[each] for each in ("falling-beats-ts", "visits-beats-ts", "negative-beats-ts")}
    assert undecided <= {INCONCLUSIVE, Verdict.COMPATIBLE}
    assert even["visits-swims"] == REPRODUCED


@pytest.mark.parametrize("agent", SCHEDULES)
def test_one_schedule_that_does_not_learn_is_enough(agent):
    assert verdicts(made(GOOD, {FIXED: 1.0, agent: 0.7}))["schedules-learn"] == NOT_REPRODUCED


def test_one_lake_is_enough():
    data = made(GOOD, {})
    for lake in LAKES:
        worse = data.copy(deep=True)
        worse.regret.loc[{"problem": lake, "agent": OPTIMIST}] += 20.0
        found = verdicts(worse)
        assert (found["negative-beats-ts"], found["falling-beats-ts"]) == (NOT_REPRODUCED, REPRODUCED)


def test_a_short_run_says_nothing_of_long_ones():
    short = made(GOOD, {FIXED: 1.0}, np.array([1, 100, 1_000]))
    assert verdicts(short)["schedules-learn"] == INCONCLUSIVE


def test_runs_that_are_stuck_are_counted():
    """Of 120 runs at most 4 may not slow down for a share above 0.9 at 1%."""
    data = made(GOOD, {FIXED: 1.0})
    for stuck, verdict in ((0, REPRODUCED), (8, Verdict.COMPATIBLE), (60, NOT_REPRODUCED)):
        some = data.copy(deep=True)
        place = {"problem": "RiverSwim, shared", "agent": SCHEDULES[2]}
        runs = some.long_regret.loc[place].values
        runs[:stuck, -1] = 10.0 * runs[:stuck, -2]
        some.long_regret.loc[place] = runs
        (claim,) = (each for each in judge({"schedules": some}) if each.id == "beyond-schedules-learn")
        assert claim.verdict == verdict
        decisive = next(each for each in claim.evidence if each["decisive"])
        assert decisive["estimate"] == pytest.approx(1.0 - stuck / 120)
        low, high = (stats.binomtest(120 - stuck, 120).proportion_ci(1 - 2 * level) for level in (0.01, 0.01 / 15))
        assert (decisive["low"], decisive["high"]) == pytest.approx((low.low, high.high))


def test_no_regret_is_learning():
    """An optimal policy loses nothing but rounding; ratios of regret to none say nothing."""
    found = verdicts(made(GOOD, {}) * 0.0)
    assert found.pop("schedules-learn") == REPRODUCED
    assert found.pop("fixed-stuck") == UNDER_NONE
    assert set(found.values()) <= {INCONCLUSIVE, Verdict.COMPATIBLE}
