"""Rules of verdicts: against SciPy, on hand-made data, and their error rates in worlds where claims are false."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq

from prudent.reproduction.choices import BestOptions
from prudent.reproduction.distributions import Distance, Shares, kolmogorov
from prudent.reproduction.draws import Draw, Normal, Resampled, Sums
from prudent.reproduction.error_rates import error_rate
from prudent.reproduction.rules import Interval, Means, Ratios, Verdict, inside, mean_intervals, ratio_interval

REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE = Verdict.REPRODUCED, Verdict.NOT_REPRODUCED, Verdict.INCONCLUSIVE
COMPATIBLE = Verdict.COMPATIBLE
OPTIONS = (1.0, 2.0, 3.0)


def first_then_last(choice):
    return choice == (1.0, 3.0)


BEST = BestOptions(OPTIONS, (1.0, 3.0), first_then_last, (1, 4))


# -- intervals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bounds", "verdict"),
    [
        ([(1, 2), (0.1, 3)], REPRODUCED),
        ([(1, 2), (-0.1, 3)], COMPATIBLE),
        ([(1, 2), (-3, 0.1)], INCONCLUSIVE),
        ([(1, 2), (-3, -0.1)], NOT_REPRODUCED),
        ([(-1, 2), (-3, -0.1)], NOT_REPRODUCED),
        ([(0, 2)], COMPATIBLE),
        ([(-2, 0)], INCONCLUSIVE),
        ([(-math.inf, math.inf)], INCONCLUSIVE),
    ],
)
def test_verdicts_of_intervals(bounds, verdict):
    def middle(low, high):
        return 0.0 if math.isinf(low) else (low + high) / 2

    intervals = [Interval("x", middle(low, high), low, high) for low, high in bounds]
    assert inside(intervals, [(0.0, math.inf)] * len(bounds), 100).verdict == verdict


def test_what_decides_and_what_size_would():
    """The nearest to leaving; the size is that at which a decision has a chance of 80%, by simulation."""
    intervals = [Interval("a", 2.0, 1.0, 3.0), Interval("b", 4.0, 0.5, 7.5), Interval("exact", 1.0)]
    assert inside(intervals, [(0.0, math.inf)] * 3, 100).decisive == 1
    fails = [Interval("a", -2.0, -3.0, -1.0), Interval("b", -4.0, -8.0, -0.5), Interval("c", 1.0, 0.5, 1.5)]
    assert inside(fails, [(0.0, math.inf)] * 3, 100).decisive == 0  # certainly wrong, by most
    rng = np.random.default_rng(3)
    values = rng.normal(0.0, 1.0, 150)
    found = Means().judge({"x": values - values.mean() + 0.15})
    assert found.verdict is COMPATIBLE
    decided = [
        Means().judge({"x": rng.normal(0.15, values.std(ddof=1), found.needed)}).verdict is REPRODUCED
        for _ in range(400)
    ]
    assert 0.7 < np.mean(decided) < 0.9  # 5 standard errors of 0.02


def test_means_are_students_and_allow_for_skewness():
    """Against SciPy: Student's interval by Hall's transformation, with the lowest row counted twice."""
    rng = np.random.default_rng(1)

    def low_end(values, confidence):
        more = np.append(values, values.min())
        n, m = values.size, values.size + 1
        g = stats.skew(more) * ((m - 1) / m) ** 1.5
        t, se = stats.t.ppf(confidence, n - 1), more.std(ddof=1) / math.sqrt(n)

        def hall(mean):
            T = (more.mean() - mean) / se
            return T + g * (2 * T**2 + 1) / (6 * math.sqrt(n)) + g**2 * T**3 / (27 * n) - t

        straight = more.mean() - t * se
        return straight if g >= 0.0 else min(straight, brentq(hall, more.mean() - 50.0 * se, more.mean()))

    for values in (rng.normal(size=30), -rng.exponential(size=60), rng.exponential(size=60)):
        found = mean_intervals({"x": values, "y": values + 1.0})
        assert found[0].low == pytest.approx(low_end(values, 1 - 0.01 / 4))
        assert found[0].high == pytest.approx(-low_end(-values, 1 - 0.01 / 4))
        assert found[1].low == pytest.approx(found[0].low + 1.0)
        plain = stats.t.interval(1 - 0.01 / 2, values.size - 1, loc=values.mean(), scale=stats.sem(values))
        assert found[0].low < plain[0]
        assert found[0].high > plain[1]
    (one,) = mean_intervals({"x": [1.0]})
    (flat,) = mean_intervals({"x": [1.0] * 40})
    assert one.low == flat.low == -np.inf
    assert one.high == flat.high == np.inf


def test_ratio_intervals_are_fiellers():
    """Every ratio inside is one that Student's test of ``above - r below`` does not reject; those outside are."""
    rng = np.random.default_rng(6)
    below = rng.gamma(5.0, 1.0, 40)
    above = 3.0 * below + rng.normal(0.0, 4.0, 40)
    found = ratio_interval("x", above, below)
    for ratio, inner in ((found.low + 1e-6, True), (found.high - 1e-6, True)):
        assert (stats.ttest_1samp(above - ratio * below, 0.0).pvalue >= 0.01 - 1e-4) == inner or found.low < ratio
    fieller = [r for r in np.linspace(2.0, 4.0, 801) if stats.ttest_1samp(above - r * below, 0.0).pvalue >= 0.01]
    assert found.low <= fieller[0] + 0.0025
    assert found.high >= fieller[-1] - 0.0025
    assert found.high - found.low < 1.3 * (fieller[-1] - fieller[0])
    for nothing in (np.zeros(40), rng.normal(0.0, 1.0, 40)):
        assert ratio_interval("x", above, nothing).low == -np.inf


def test_few_replications_decide_nothing():
    many = {"x": np.random.default_rng(0).normal(9.0, 1.0, 100)}
    few = {"x": many["x"][:99]}
    assert (Means().judge(many).verdict, Means().judge(few).verdict) == (REPRODUCED, COMPATIBLE)
    assert Means(high=1.0).judge(few).verdict is INCONCLUSIVE
    assert Means().judge(few).needed == Means(high=1.0).judge(few).needed == 100


# -- the best option ---------------------------------------------------------------------------------------


def groups(first, last, count=200, seed=0):
    rng = np.random.default_rng(seed)
    return {"a": rng.normal(first, 1.0, (count, 3)), "b": rng.normal(last, 1.0, (count, 3))}


def test_sets_of_the_best():
    clear = groups((0.0, 2.0, 2.0), (2.0, 2.0, 0.0))
    assert BEST.sets(clear) == {"a": [1.0], "b": [3.0]}
    assert BEST.judge(clear).verdict is REPRODUCED
    other = groups((0.0, 2.0, 2.0), (2.0, 0.0, 2.0))
    found = BEST.judge(other)
    assert (found.verdict, found.decisive) == (NOT_REPRODUCED, 1)
    tie = groups((0.0, 2.0, 2.0), (2.0, 0.0, 0.0))
    found = BEST.judge(tie)
    assert found.verdict in (COMPATIBLE, INCONCLUSIVE)
    assert "3" in found.intervals[1].quantity
    assert BEST.undecided(tie) == ["b"]
    assert BEST.undecided(clear) == BEST.undecided(other) == []
    few = groups((0.0, 2.0, 2.0), (2.0, 2.0, 0.0), 99)
    assert BEST.sets(few) == {"a": list(OPTIONS), "b": list(OPTIONS)}


@given(st.integers(0, 10_000), st.integers(100, 150))
def test_sets_are_those_of_pairwise_tests(seed, count):
    """An option is out if SciPy's paired test says that another is better, at 1% / (2 looks 2 groups 2 others)."""
    data = groups((0.0, 0.3, 0.6), (0.0, 0.0, 0.2), count, seed)
    for group, values in data.items():
        out = {
            i
            for i, j in itertools.permutations(range(3), 2)
            if stats.ttest_rel(values[:, i], values[:, j], alternative="greater").pvalue < 0.01 / 8
        }
        assert BEST.sets(data)[group] == [option for i, option in enumerate(OPTIONS) if i not in out]


def test_a_claim_about_choices_is_judged_by_all_choices():
    rule = BestOptions(OPTIONS, (1.0, 3.0), lambda choice: choice[0] < choice[1])
    open_ = groups((0.0, 0.0, 2.0), (2.0, 2.0, 0.0))  # 1 or 2, then 3: rises whichever it is
    assert rule.sets(open_)["a"] == [1.0, 2.0]
    assert rule.judge(open_).verdict is REPRODUCED
    assert rule.judge(groups((2.0, 2.0, 0.0), (0.0, 0.0, 2.0))).verdict is NOT_REPRODUCED


# -- laws and shares ---------------------------------------------------------------------------------------


def test_kolmogorov_distance_is_scipys():
    scores = np.random.default_rng(2).normal(0.3, 1.2, 200)
    assert kolmogorov(scores) == pytest.approx(stats.kstest(scores, "norm").statistic)


def test_distances():
    rng = np.random.default_rng(5)
    near, far = rng.normal(size=500), rng.normal(1.5, 1.0, 500)
    assert Distance(0.2).judge({"10": far, "100": near}).verdict is REPRODUCED
    assert Distance(0.2).judge({"10": near, "100": far}).verdict is NOT_REPRODUCED
    assert Distance(0.2).judge({"10": near, "100": near}).verdict.undecided
    assert Distance(0.2).scaled(0.5) == Distance(0.1)
    half, twice = Ratios.near([8.0], 2.0).scaled(0.5), Ratios.near([8.0], 2.0).scaled(2.0)
    assert half.regions[0] == pytest.approx((8 / math.sqrt(2), 8 * math.sqrt(2)))
    assert twice.regions[0] == pytest.approx((2.0, 32.0))


# -- error rates -------------------------------------------------------------------------------------------


def samples_of(kind, rng):
    """Return a rule and samples of skewed noise, as the studies have it."""
    noise = rng.gamma(4.0, 1.0, (100, 6))
    if kind == "means":
        return Means(), {"x": noise[:, 0], "y": noise[:, 1] - noise[:, 0]}
    if kind == "region":
        return Means(-1.0, 1.0), {"x": noise[:, 0]}
    if kind == "ratios":
        return Ratios.near([3.0, 1.0], 2.0), {"x": noise[:, :2] + 5.0, "y": noise[:, 2:4] + 5.0}
    if kind == "best":
        return BEST, {"a": noise[:, :3], "b": noise[:, 3:]}
    if kind == "distance":
        return Distance(0.2), {"10": noise[:, 0] - 9.0, "100": (noise[:, 1] - 4.0) / 2.0}
    return Shares(0.9), {"x": (noise[:, 0] < 9.0) * 1.0, "y": (noise[:, 1] < 9.0) * 1.0}


KINDS = ("means", "region", "ratios", "best", "distance", "shares")


@pytest.mark.parametrize("kind", KINDS)
def test_worlds_are_false_and_at_the_edge(kind):
    """In every world a huge sample does not reproduce the claim; just inside the edge it would."""
    rule, samples = samples_of(kind, np.random.default_rng(8))
    worlds = rule.worlds(samples)
    assert {name.split(":")[0] for name in worlds} == {"edge", "false"}
    rng = np.random.default_rng(9)
    for name, world in worlds.items():
        rows = rng.integers(0, 100, 20_000)
        large = {each: values[rows % len(values)] for each, values in world.items()}
        if kind == "shares":
            large = {each: values[rng.integers(0, len(values), 20_000)] for each, values in world.items()}
        verdict = rule.judge(large).verdict
        assert verdict is not REPRODUCED
        if name.startswith("false"):
            assert verdict in (NOT_REPRODUCED, INCONCLUSIVE)


@pytest.mark.parametrize("kind", KINDS)
def test_error_rates_of_all_types_of_rules(kind):
    """At 1% one of 100 studies is expected at most; 9 have a chance below 1e-5 in one world."""
    rule, samples = samples_of(kind, np.random.default_rng(10))
    rate = error_rate(rule, samples, studies=100, rng=4)
    assert rate.worlds >= 2
    assert rate.largest <= 8 / 100
    assert rate.replications == 100


def test_a_rule_that_takes_what_it_cannot_exclude_is_found_out():
    """The rule that called a claim reproduced if the claimed option is among those that may be the best."""

    class Lax(BestOptions):
        def possible(self, kept):
            true, false = super().possible(kept)
            claimed = [self.options.index(option) for option in self.claimed]
            return true, false & ~kept[..., range(len(claimed)), claimed].all(axis=-1)

    _, samples = samples_of("best", np.random.default_rng(10))
    lax = Lax(OPTIONS, (1.0, 3.0), first_then_last)
    assert error_rate(lax, samples, studies=20).largest > 0.9


class Given(Draw):
    """Draws rows of a world that are given for each study, in their order."""

    def __init__(self, world, rows):
        self.world, self.rows = world, rows
        self.used = {name: np.zeros(len(each), dtype=np.int64) for name, each in rows.items()}

    def replications(self, names, studies, count):
        drawn = {}
        for name in names:
            places = self.used[name][studies, np.newaxis] + np.arange(count)
            drawn[name] = self.world[name][self.rows[name][studies[:, np.newaxis], places]]
            self.used[name][studies] += count
        return drawn


@pytest.mark.parametrize("kind", KINDS)
def test_studies_are_judged_together_as_one_by_one(kind, rng):
    """The same draws, study by study: grown look by look as the real study is, and judged by ``judge``."""
    usual, samples = samples_of(kind, rng)
    names, studies, error = list(samples), 40, 0.4  # many errors, so that both verdicts occur
    found = []
    lenient = usual.scaled(2.0)
    for rule, world in (*((usual, world) for world in usual.worlds(samples).values()), (lenient, samples)):
        rows = {
            name: rng.integers(0, len(values), (studies, 100 * max(rule.multiples))) for name, values in world.items()
        }
        together = rule.reproduced(Given(world, rows), names, studies, 100, error).tolist()
        assert together == [_study(rule, world, {name: rows[name][i] for name in names}, error) for i in range(studies)]
        found += together
    assert set(found) == {True, False}


def _study(rule, world, rows, error):
    """Return whether a study is reproduced that looks at its data as often as a real one."""
    samples = {name: world[name][each[:0]] for name, each in rows.items()}
    open_, before = list(rows), 0
    for multiple in rule.multiples:
        for name in open_:
            taken = len(samples[name])
            samples[name] = np.concatenate(
                [samples[name], world[name][rows[name][taken : taken + 100 * multiple - before]]]
            )
        before = 100 * multiple
        open_ = rule.undecided(samples, error)
        if not open_:
            break
    return rule.judge(samples, error).verdict is REPRODUCED


@pytest.mark.parametrize("way", [Resampled, Normal])
def test_sums_have_the_law_of_sums_of_replications(way, rng):
    """Means and covariances of 4,000 sums of 150 rows of two paired groups; z below 6, false alarm below 1e-6.

    Sums of rows that are drawn one by one are compared with those drawn by their own law.
    """
    noise = rng.gamma(2.0, 1.0, (60, 4)) @ rng.normal(size=(4, 4))
    world = {"a": noise[:, :2], "b": noise[:, 2:] + 3.0}
    studies = np.arange(4_000)
    draw = way(world, rng)
    direct, plain = draw.sums(["a", "b"], studies, 150), Draw.sums(draw, ["a", "b"], studies, 150)

    def features(sums):
        each = [np.concatenate([s.total, s.products.reshape(studies.size, -1)], axis=1) for s in sums.values()]
        return np.concatenate([*each, each[0][:, :2] * each[1][:, :2]], axis=1)  # and a product over both groups

    for moment in (1, 2):
        one, other = (features(sums) - features(plain).mean(axis=0) for sums in (direct, plain))
        one, other = one**moment, other**moment
        error = np.sqrt((one.var(axis=0) + other.var(axis=0)) / studies.size)
        assert (abs(one.mean(axis=0) - other.mean(axis=0)) < 6.0 * error).all()
    assert all((sums.size == 150.0).all() for sums in direct.values())
    exact = Sums.of(world["a"])
    np.testing.assert_allclose(exact.products, world["a"].T @ world["a"])
