"""Replay and tuning: what a learner earns in a replay is what it earns in the world, and nobody is chosen by luck."""

from __future__ import annotations

import datetime
import math

import numpy as np
import pandas as pd
import pytest
from refusals import refused
from scipy import stats

import prudent as pr
from prudent.errors import DataError, ParameterError
from prudent.evaluation import replay, tune
from prudent.evaluation.tune import compare

FALSE_ALARM = 1e-6
PAYS = np.array([0.2, 0.5, 0.8])  # of arms 0, 1, 2, in the only context


def coin_log(n, rng, chances):
    """Return a log of coins with known chances of the arms."""
    arm = rng.choice(3, n, p=chances)
    reward = (rng.random(n) < PAYS[arm]).astype(float)
    return {"context": np.ones((n, 1)), "arm": arm, "reward": reward, "propensity": np.asarray(chances)[arm]}


class Greedy:
    """A learner whose chances are simple: it doubles an arm's weight for every reward."""

    def __init__(self, rng):
        self.arms = (0, 1, 2)
        self.weights = np.ones(3)
        self.rng = rng

    def propensities(self, contexts, arms=None):
        chosen = self.weights[list(self.arms if arms is None else arms)]
        return np.tile(chosen / chosen.sum(), (len(contexts), 1))

    def select(self, context, arms=None):
        able = list(self.arms if arms is None else arms)
        arm = int(self.rng.choice(able, p=self.propensities([context], able)[0]))
        return type("Decision", (), {"arm": arm})()

    def update(self, context, arm, reward):
        self.weights[arm] = min(self.weights[arm] * (1.0 + reward), 16.0)


class Blind:
    """The same without chances to ask for."""

    def __init__(self, rng):
        inner = Greedy(rng)
        self.arms, self.select, self.update = inner.arms, inner.select, inner.update


def earned_in_the_world(steps, rng):
    bandit, paid = Greedy(rng), []
    for _ in range(steps):
        arm = bandit.select([1.0]).arm
        paid.append(float(rng.random() < PAYS[arm]))
        bandit.update([1.0], arm, paid[-1])
    return paid


@pytest.mark.filterwarnings("ignore::prudent.errors.OverlapWarning")  # few rewarded rows
@pytest.mark.parametrize(
    ("learner", "chances"),
    [
        (Blind, (1 / 3, 1 / 3, 1 / 3)),
        (Greedy, (0.5, 0.3, 0.2)),
        pytest.param(Greedy, (1 / 3, 1 / 3, 1 / 3), marks=pytest.mark.slow),
        pytest.param(Blind, (0.5, 0.3, 0.2), marks=pytest.mark.slow),
    ],
)
def test_a_replay_earns_what_the_world_pays(learner, chances):
    """Means of the first ten decisions over 150 runs each; false alarm 1e-6."""
    rng = np.random.default_rng(1)
    first = 10
    world = [np.mean(earned_in_the_world(first, rng)) for _ in range(150)]
    again = []
    for _ in range(150):
        found = replay(coin_log(120, rng, chances), learner(rng), min_propensity=min(chances), rng=rng)
        curve = found.curve()
        if found.matched >= first:
            reached = curve[curve.matched >= first].iloc[0]
            again.append((reached.matched, reached.cumulative))
    assert len(again) > 120
    # a mark may lie a few decisions after the tenth: rates are compared, the world's at the same lengths
    lengths = np.array([matched for matched, _ in again], dtype=int)
    rates = np.array([total / matched for matched, total in again])
    world = [np.mean(earned_in_the_world(int(length), rng)) for length in lengths]
    assert stats.ttest_ind(rates, world, equal_var=False).pvalue > FALSE_ALARM


def test_matches_are_as_many_as_the_lowest_propensity_says():
    rng = np.random.default_rng(2)
    for chances in ((1 / 3, 1 / 3, 1 / 3), (0.6, 0.3, 0.1)):
        found = replay(coin_log(6000, rng, chances), Greedy(rng), min_propensity=min(chances), rng=3)
        assert stats.binomtest(found.matched, 6000, min(chances)).pvalue > FALSE_ALARM
        assert found.min_propensity == min(chances)


@pytest.mark.parametrize("block", [20, 33, 100])
def test_a_curve_has_one_point_for_each_mark(block):
    log = [([1.0], arm, float(i), 0.5) for i, arm in enumerate("ab" * 50)]
    found = replay(log, pr.LinearBandit(["a", "b"], dim=1, rng=1), block=block)
    assert found.curve().index.tolist() == list(range(10, 101, 10))
    assert found.curve().logged.iloc[-1] == found.logged == 49.5
    assert found.curve().estimate.iloc[-1] == found.mean


def test_the_bandit_given_is_not_changed(tmp_path):
    log = coin_log(300, np.random.default_rng(4), (1 / 3, 1 / 3, 1 / 3))
    bandit = pr.LinearBandit(3, dim=1, noise_sd=1.0, rng=5)
    bandit.save(tmp_path / "before")
    one, two = replay(log, bandit), replay(log, bandit)
    bandit.save(tmp_path / "after")
    assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes()
    assert (one.mean, one.matched) == (two.mean, two.matched)
    assert sum(one.bandit.pulls.values()) == one.matched
    assert sum(replay(log, bandit, learn=False).bandit.pulls.values()) == 0
    assert one.low < one.mean < one.high
    assert one.logged == pytest.approx(np.mean(log["reward"]))
    assert repr(one).startswith("Replay(")
    assert one.plot().axes


def test_eligible_arms_are_those_of_the_row():
    rng = np.random.default_rng(6)
    rows = []
    for _ in range(2000):
        arms = [[0, 1], [1, 2], [0, 1, 2]][rng.integers(3)]
        arm = int(rng.choice(arms))
        rows.append({"context": [1.0], "arm": arm, "arms": arms, "reward": float(rng.random() < PAYS[arm])})
    found = replay(rows, Greedy(rng))
    assert stats.binomtest(found.matched, 2000, 1 / 3).pvalue > FALSE_ALARM  # two arms: kept with chance 2/3


def test_times_are_told_to_a_bandit_that_forgets_with_time():
    """A reward of an hour ago weighs half after an hour of half-life: written as seconds, dates or text."""
    n = 60
    begin = pd.Timestamp("2024-01-01", tz="UTC")
    dates = pd.date_range(begin, periods=n, freq="min")
    log = {"context": np.ones((n, 1)), "arm": np.zeros(n, dtype=int), "reward": np.arange(n) % 2.0}
    bandit = pr.LinearBandit(1, dim=1, half_life=datetime.timedelta(minutes=32), noise_sd=1.0, intercept=False)
    for times in (dates, dates.astype(str), begin.timestamp() + 60.0 * np.arange(n)):
        learned = replay(log | {"time": np.asarray(times)}, bandit).bandit.posterior(0)
        weights = 0.5 ** ((n - 1 - np.arange(n)) / 32.0)
        mean = (weights * log["reward"]).sum() / (1.0 + weights.sum())
        assert learned.mean() == pytest.approx([mean], rel=1e-9)
    with refused(DataError, "missing-column", argument="log", column="time"):
        replay(log, bandit)
    with refused(DataError, "value-range", row=1, column="time", value="soon"):
        replay(log | {"time": ["2024-01-01", "soon"] * 30}, bandit)


def test_a_log_that_is_not_uniform_is_refused():
    log = coin_log(3000, np.random.default_rng(7), (0.6, 0.3, 0.1))
    del log["propensity"]
    with refused(DataError, "not-uniform", arm=0):
        replay(log, Greedy(None))
    known = replay(log, Greedy(np.random.default_rng(8)), logging_policy={0: 0.6, 1: 0.3, 2: 0.1})
    assert known.matched > 200


def test_what_is_wrong_is_said():
    log = coin_log(100, np.random.default_rng(9), (1 / 3, 1 / 3, 1 / 3))
    with refused(ParameterError, "wrong-type", argument="bandit", expected="select"):
        replay(log, type("Half", (), {"arms": (0, 1, 2)})())
    with refused(DataError, "never-logged", arm="x"):
        replay(log, pr.LinearBandit([0, 1, 2, "x"], 1))
    with refused(ParameterError, "probability-range", argument="min_propensity", value=0.9):
        replay(log, Greedy(None), min_propensity=0.9)
    with refused(ParameterError, "missing-column", argument="log", column="context"):
        replay({name: log[name] for name in ("arm", "reward")}, Greedy(None))


# -- tuning ------------------------------------------------------------------------------------------------


def test_false_choices_are_as_rare_as_stated():
    """Four equal settings: whoever is chosen is chosen by luck, with chance at most 2.5%; false alarm 1e-6."""
    rng = np.random.default_rng(10)
    trials = 4000
    noise = rng.standard_normal((trials, 1, 8))
    chosen = sum(compare(noise[i] + rng.standard_normal((4, 8)), 0.95, np.zeros(4)).decided for i in range(trials))
    assert chosen <= stats.binom.isf(FALSE_ALARM, trials, 0.025)


def test_compare_is_the_paired_t_interval():
    means = np.random.default_rng(11).random((3, 6)) + np.array([[0.0], [5.0], [0.1]])
    found = compare(means, 0.9, np.zeros(3))
    assert found.leader == 1
    assert found.decided
    for i in (0, 2):
        gap = means[1] - means[i]
        half = stats.t.ppf(1 - 0.1 / 4, 5) * gap.std(ddof=1) / math.sqrt(6)
        assert (found.difference[i], found.half[i]) == pytest.approx((gap.mean(), half))


def linear_log(n, rng):
    x = rng.random((n, 3))
    arm = rng.integers(0, 3, n)
    return {
        "context": x,
        "arm": arm,
        "reward": x[np.arange(n), arm] + 0.05 * rng.standard_normal(n),
        "propensity": np.full(n, 1 / 3),
    }


def test_the_plainly_better_setting_is_chosen_and_luck_is_not():
    log = linear_log(5000, np.random.default_rng(12))
    found = tune(log, {"noise_sd": [0.05, 50.0], "alpha": [0.0]}, runs=5, rng=1)
    assert found.best == {"noise_sd": 0.05, "alpha": 0.0}
    assert found.candidates == [found.best]
    assert list(found.to_pandas().index) == ["noise_sd=0.05, alpha=0.0", "noise_sd=50.0, alpha=0.0"]
    again = tune(log, {"noise_sd": [0.05, 50.0], "alpha": [0.0]}, runs=5, rng=1)
    assert np.array_equal(again.means, found.means)
    same = tune(log, [{"noise_sd": 0.05}, {"noise_sd": 0.0500001}], runs=5, rng=1)
    assert same.best is None
    assert len(same.candidates) == 2
    assert "no setting is chosen" in repr(same)
    assert same.plot().axes


def test_settings_are_checked():
    log = linear_log(300, np.random.default_rng(13))
    with refused(ParameterError, "wrong-type", argument="settings", index="alpha", value=0.5):
        tune(log, {"alpha": 0.5})
    with refused(ParameterError, "too-few-settings", argument="settings"):
        tune(log, {"alpha": [0.5]})
    with refused(ParameterError, "unknown-option", argument="settings"):
        tune(log, {"colour": ["red", "blue"]})
    with refused(ParameterError, "wrong-type", argument="settings", index=0, value=3):
        tune(log, [3])
    with refused(DataError, "too-few-rows", argument="runs", value=100):
        tune(log, {"alpha": [0.0, 0.5]}, runs=100)
    labels = tune(log, [pr.bandits.brps_cmab(0.5), pr.bandits.thompson_sampling()], runs=2).to_pandas().index
    assert set(labels) == {"TS", "BRPS(0.5)"}
