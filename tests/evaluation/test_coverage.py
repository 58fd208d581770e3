"""Intervals that cover: enumerated probabilities of missing the truth, rare rewards, logs of bandits that learn."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from refusals import refused, warned
from scipy import stats
from scipy.optimize import brentq

import prudent as pr
from benchmarks.coverage import Setting
from benchmarks.coverage_runs import Follower
from prudent.errors import DataError, OverlapWarning, ParameterError
from prudent.evaluation import confidence_sequence, off_policy, replay, tune
from prudent.evaluation.confidence_sequences import bet_sizes
from prudent.evaluation.limits import mean_limits


def interval(rewards, planned=None, confidence=0.95, span=(0.0, 1.0)):
    rewards = np.asarray(rewards, dtype=float)
    variance = float(rewards.var(ddof=1)) if rewards.size > 1 else 0.0
    planned = planned or rewards.size
    return mean_limits(
        float(rewards.mean()), variance, rewards.size, span, confidence, interval="bernstein", planned=planned
    )


def rare_log(rng, n=300, level=0.01, chance=0.2):
    """Return a log in which arm 1, which the target chooses, is rare, and rewards are rarer."""
    arm = (rng.random(n) < chance).astype(int)
    reward = (rng.random(n) < level).astype(float)
    return {"arm": arm, "reward": reward, "propensity": np.where(arm == 1, chance, 1.0 - chance)}


# -- the bound itself --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [5, 20, 100])
def test_the_interval_of_a_share_misses_as_rarely_as_it_says(n):
    """Exact: the probability of every number of successes is binomial."""
    ends = np.array([interval(np.arange(n) < k) for k in range(n + 1)])
    for p in np.linspace(0.005, 0.995, 67):
        chance = stats.binom.pmf(np.arange(n + 1), n, p)
        assert chance[(p < ends[:, 0])].sum() <= 0.025
        assert chance[(p > ends[:, 1])].sum() <= 0.025


def test_all_intervals_of_a_sequence_hold_together():
    """Exact: the probability that any of 25 intervals misses, by the number of successes so far."""
    n = 25
    ends = [[interval(np.arange(i) < k, planned=n, confidence=0.8) for k in range(i + 1)] for i in range(1, n + 1)]
    for p in (0.02, 0.1, 0.3, 0.5, 0.9):
        alive = np.array([1.0])  # probability of k successes and no miss so far
        for limits in ends:
            alive = np.append(alive * (1.0 - p), 0.0) + np.append(0.0, alive * p)
            alive[[not low <= p <= high for low, high in limits]] = 0.0
        assert 1.0 - alive.sum() <= 0.2
    low, high = confidence_sequence([0.0, 1.0, 0.0, 0.0], (0.0, 1.0), confidence=0.8, planned=n)
    seen = np.array([ends[0][0], ends[1][1], ends[2][1], ends[3][1]])
    assert np.allclose(low, np.maximum.accumulate(seen[:, 0]))
    assert np.allclose(high, np.minimum.accumulate(seen[:, 1]))


@pytest.mark.parametrize("n", [300, 3000])
def test_limits_are_the_roots_of_the_capital(n, rng):
    x = rng.random(n) ** 3
    shares, weights = bet_sizes(0.95, n)

    def capital(m, sign):
        bound = m if sign > 0 else 1.0 - m
        logs = [
            weight
            + sign * share * (x - m).sum()
            - (-math.log(1 - share * bound) - share * bound) / bound**2 * ((x - m) ** 2).sum()
            for share, weight in zip(shares, weights, strict=True)
        ]
        return np.logaddexp.reduce(logs) - math.log(2 / 0.05)

    low, high = interval(x)
    mean = x.mean()
    assert low == pytest.approx(brentq(capital, 0.3 * mean, mean, args=(1.0,)), rel=1e-5)
    assert high == pytest.approx(brentq(capital, mean, min(3.0 * mean, 0.99), args=(-1.0,)), rel=1e-5)


def test_nothing_seen_gives_the_rule_of_three():
    """The exact upper limit without a success is 1 - 0.025^(1/n), about 3.7/n; the bound may be 1.7 times as wide."""
    for n in (50, 300, 10_000):
        high = interval(np.zeros(n))[1]
        assert 1.0 <= high / (1.0 - 0.025 ** (1.0 / n)) < 2.2


def test_width_against_the_normal_interval(rng):
    x = rng.random(20_000)
    low, high = interval(x)
    assert 1.4 < (high - low) / (2 * 1.96 * x.std() / math.sqrt(x.size)) < 1.8


def test_units_and_order_do_not_matter(rng):
    x = rng.random(200)
    low, high = interval(x)
    for scale, shift in ((1e-300, 0.0), (1e80, 0.0), (3.0, -7.0)):
        other = interval(scale * x + shift, span=(shift, shift + scale))
        assert other == pytest.approx((shift + scale * low, shift + scale * high), rel=1e-9)
    assert interval(rng.permutation(x)) == pytest.approx((low, high), rel=1e-9)


def test_arguments_of_sequences():
    with refused(DataError, "value-range", argument="values", index=1):
        confidence_sequence([0.0, 2.0], (0.0, 1.0))
    for wrong in ((1.0, 1.0), (1.0, 0.0), (0.0, 1.0, 2.0), (-1e308, 1e308)):
        with refused(ParameterError, "wrong-range", argument="value_range"):
            confidence_sequence([0.0], wrong)


# -- off_policy --------------------------------------------------------------------------------------------


def test_rewards_of_one_percent_are_not_zero_plus_minus_zero():
    arm = (np.arange(300) % 5 == 0).astype(int)
    reward = (np.arange(300) % 100 == 7).astype(float)  # three rewards, none of them of arm 1
    log = {"arm": arm, "reward": reward, "propensity": np.where(arm == 1, 0.2, 0.8)}
    with warned(OverlapWarning, "overlap", value=("few-rewards",)):
        found = off_policy(log, 1)
    assert found.rewarded == 0
    for name in ("ips", "snips", "dm", "dr", "sndr", "clipped_ips", "switch_dr"):
        assert found.loc[name, "low"] <= found.loc[name, "estimate"] < 0.01 < found.loc[name, "high"] < 0.2
    with warned(OverlapWarning, "overlap", value=("few-rewards",)):
        normal = off_policy(log, 1, interval="normal")
    assert normal.loc["ips", ["low", "high"]].tolist() == pytest.approx([0.0, 0.0], abs=1e-12)


def test_a_log_without_a_single_reward_has_an_interval():
    log = {"arm": [0, 1] * 50, "reward": [0.0] * 100, "propensity": [0.5] * 100}
    with warned(OverlapWarning, "overlap", value=("constant-reward",)):
        found = off_policy(log, 1)
    assert found.reward_range == (0.0, 1.0)
    assert 0.03 < found.loc["ips", "high"] < 0.3
    with warned(OverlapWarning, "overlap", value=("constant-reward",)):
        unknown = off_policy(log | {"reward": [3.0] * 100}, 1)
    assert unknown.loc["ips", "high"] == math.inf


def test_weights_that_are_missing_make_intervals_wide():
    """Half of the target's choices have propensity 0.02 and are not in the log: the mean weight is 0.51."""
    log = {"arm": ["common"] * 50, "reward": [0.0, 1.0] * 25, "propensity": [0.98] * 50}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)
        found = off_policy(log, {"common": 0.5, "rare": 0.5}, arms=["common", "rare"])
    assert found.max_weight == pytest.approx(50 * (1 - 0.5 / 0.98))
    assert found.loc["snips", "high"] > 0.75


@pytest.mark.parametrize(("level", "logging"), [(0.01, "fixed"), pytest.param(0.3, "learning", marks=pytest.mark.slow)])
def test_the_default_interval_covers(level, logging, rng):
    """A coverage of 0.95 is refused with chance below 1e-6; the normal interval covers a third of the rare logs."""
    count, covered, normal = 40, np.zeros(4), 0
    names = ["ips", "snips", "dr", "sndr"]
    for _ in range(count):
        if logging == "fixed":
            log = rare_log(rng)
        else:
            bandit = pr.LinearBandit(2, dim=1, min_propensity=0.05, rng=rng)
            rows = []
            for _ in range(200):
                decision = bandit.select([1.0])
                reward = float(rng.random() < level * (1 + decision.arm) / 2)
                bandit.update([1.0], decision.arm, reward)
                rows.append(decision.to_dict() | {"reward": reward})
            log = rows
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)
            table = off_policy(log, 1).to_pandas().loc[names]
            plain = off_policy(log, 1, interval="normal").to_pandas().loc["ips"]
        covered += ((table.low <= level) & (level <= table.high)).to_numpy()
        normal += plain.low <= level <= plain.high
    assert stats.binom.cdf(covered.min(), count, 0.95) > 1e-6
    if logging == "fixed":
        assert normal < 0.8 * count


# -- replay and tune ---------------------------------------------------------------------------------------


def test_replay_without_rewards_has_an_interval(rng):
    log = [([1.0], arm, 0.0, 0.5) for arm in rng.choice(["a", "b"], 200).tolist()]

    def run_of(**options):
        with warned(OverlapWarning, "few-rewards", value=0):
            return replay(log, pr.LinearBandit(["a", "b"], dim=1, rng=1), **options)

    run = run_of()
    assert run.low == 0.0
    assert 0.01 < run.high < 0.2
    assert run.curve()["high"].iloc[-1] == pytest.approx(run.high)
    assert run_of(interval="normal").high == 0.0
    assert run_of(reward_range=(0.0, 5.0)).high == pytest.approx(5.0 * run.high, rel=1e-6)


@pytest.mark.parametrize("paid", [3, 25])
def test_replay_and_tune_say_how_many_rewarded_rows_they_rest_on(paid):
    """Every row of arm 0 matches, and so many of its rewards are not 0."""
    log = {
        "context": np.tile([0.0, 1.0], (200, 1)),
        "arm": np.tile([0, 1], 100),
        "reward": np.where(np.arange(200) % 2, 0.0, np.arange(200) < 2 * paid),
        "propensity": np.full(200, 0.5),
    }
    follower = Follower(np.array([[1.0, 0.0]] * 2), None)
    calls = (
        lambda: replay(log, follower),
        lambda: tune(log, {"which": [0, 1]}, make=lambda arms, dim, rng, which: follower, runs=5),
    )
    for call in calls:
        if paid < 20:
            with warned(OverlapWarning, "few-rewards", value=paid) as said:
                found = call()
            assert f"{paid} rewarded rows of 100 that matched" in str(said[0].message)
        else:
            found = call()  # warnings are errors
        assert np.sum(found.rewarded) == (paid if call is calls[0] else 2 * paid)


def test_replay_and_tune_cover_rare_rewards(rng):
    """Clicks of 1% in 90 matched rows: 95% up to luck, false alarm 1e-6; normal intervals miss 40%."""
    count, misses = 40, np.zeros(3)
    setting = Setting(300, "clicks", 0.01, "good")
    options = {"min_propensity": 0.3, "rng": rng}
    for log in setting.logs(rng, count):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)
            kinds = ("bernstein", "normal")
            runs = [replay(log, Follower(setting.policy, rng), interval=kind, **options) for kind in kinds]
            make = lambda arms, dim, rng, which: Follower(setting.policy, rng)  # noqa: E731
            table = tune(log, {"which": [0, 1]}, make=make, **options).to_pandas()
        ends = [(run.low, run.high) for run in runs] + [tuple(table[["low", "high"]].iloc[0])]
        misses += [not low <= setting.truth <= high for low, high in ends]
    bound = stats.binom.isf(1e-6, count, 0.05)
    assert misses[0] <= bound
    assert misses[2] <= bound
    assert misses[1] > 0.05 * count  # of 40%: fewer by chance once in 1e6


def test_tune_without_rewards_has_intervals(rng):
    log = [([1.0], arm, 0.0, 0.5) for arm in rng.choice([0, 1], 400).tolist()]
    with warned(OverlapWarning, "few-rewards", value=0):
        table = tune(log, {"alpha": [0.0, 0.9]}, runs=4).to_pandas()
    assert (table["high"] > 0.005).all()
    assert (table["low"] == 0.0).all()
    assert (table["behind_high"] > 0.005).any()
