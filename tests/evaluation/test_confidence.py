"""Confidence sequences: they hold at all times together, agree with closed forms, and find what is there."""

from __future__ import annotations

import math

import numpy as np
import pytest
from refusals import refused
from scipy import stats

from benchmarks.confidence import FIXED, LAWS, adaptive, bernstein_stops, misses, normal_stops
from prudent.errors import DataError, ParameterError
from prudent.evaluation import ConfidenceSequence, DifferenceSequence, confidence_sequence
from prudent.evaluation.confidence import Bets, normal_capital, normal_widths
from prudent.evaluation.confidence_differences import difference_widths
from prudent.evaluation.confidence_sequences import Sums, log_capitals

MANY = 400
# the count of misses that a rate of 5% exceeds with probability 1e-8: 30 rates are looked at in a run
MOST = int(stats.binom.isf(1e-8, MANY, 0.05))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_looks_after_every_reward_are_allowed(law, rng):
    """False-alarm rate of the tests of this function together: below 1e-6."""
    x = law.draw(rng, (MANY, 300))
    kinds = ["bernstein", "betting"] if law.bounded else ["normal, sd learned"]
    for kind in [*kinds, "normal, sd given"]:
        assert misses(kind, law, x).sum() <= MOST, kind
    for kind, rate in adaptive(law, MANY, 200, rng).items():
        if not (law.bounded and "learned" in kind):
            assert rate * MANY <= MOST, kind


def test_a_difference_of_half_the_noise_is_found_within_twice_the_fixed_size(rng):
    """The benchmark has 80% at 121 of 126 rewards; 70% of 500 experiments is 5.6 standard errors below."""
    for sd in (1.0, None):
        assert np.quantile(normal_stops(500, rng, sd=sd, law="normal"), 0.7) <= 2.0 * FIXED


@pytest.mark.slow
def test_clicks_that_differ_by_half_the_noise_are_found_within_twice_the_fixed_size(rng):
    """The benchmark has 88% by 126 rewards; fewer than 60% of 100 experiments is 8 standard errors below."""
    assert np.quantile(bernstein_stops(100, rng, (0.375, 0.625), 63), 0.6) <= 2.0 * FIXED


def test_bounds_by_sums_are_below_the_capital_and_exact_for_clicks(rng):
    m, bets, n = np.linspace(0.01, 0.99, 25), 0.9 * 0.5 ** np.arange(8.0), 40
    for law in ("clicks", "rare", "beta", "equal"):
        chance = {"clicks": 0.5, "rare": 0.02}.get(law)
        x = rng.beta(0.3, 2.0, n) if law == "beta" else np.full(n, rng.random())
        x = x if chance is None else (rng.random(n) < chance).astype(float)
        y = x[:, np.newaxis] - m
        found = Sums(y.sum(axis=0), (y * y).sum(axis=0), -m, 1.0 - m, float(n))
        for sign in (1.0, -1.0):
            capital = np.log1p(sign * np.multiply.outer(bets, y)).sum(axis=1)
            bound = log_capitals(found, bets, sign)
            assert (bound <= capital + 1e-9).all()
            assert (bound >= log_capitals(found._replace(number=None), bets, sign)).all()
            if chance is not None:
                assert bound == pytest.approx(capital, abs=1e-9)


@pytest.mark.parametrize("kind", ["bernstein", "betting", "normal", "normal with sd"])
def test_the_stream_is_the_array(kind, rng):
    bounded = kind in ("bernstein", "betting")
    x = 2.0 + 3.0 * rng.random((2, 60)) if bounded else rng.normal(1e6, 2.0, (2, 60))
    given = {"value_range": (2.0, 5.0)} if bounded else {"sd": 2.0} if kind == "normal with sd" else {}
    name = kind.split()[0]
    low, high = confidence_sequence(x, kind=name, **given)
    for row in range(2):
        one, least, most = ConfidenceSequence(name, **given), -math.inf, math.inf
        for t, value in enumerate(x[row]):
            ends = one.update(value).interval()
            least, most = max(least, ends[0]), min(most, ends[1])
            assert low[row, t] == pytest.approx(least, abs=1e-7)
            assert high[row, t] == pytest.approx(most, abs=1e-7)
        again = ConfidenceSequence(name, **given).update(x[row])
        assert again.interval() == pytest.approx(ends, rel=1e-9)
        assert again.count == 60
        assert again.mean == pytest.approx(x[row].mean())
        # the ends are where the evidence reaches 20; betting rounds outwards to its grid
        if name != "betting":
            assert one.evidence(ends[0]) == pytest.approx(20.0, rel=1e-3) or ends[0] == 2.0
        assert one.evidence(float(x[row].mean())) < 20.0
    assert np.all(low[:, 1:] >= low[:, :-1])
    assert np.all(high[:, 1:] <= high[:, :-1])


def test_nothing_is_known_of_nothing():
    assert ConfidenceSequence(value_range=(1.0, 3.0)).interval() == (1.0, 3.0)
    assert ConfidenceSequence("betting", value_range=(1.0, 3.0)).interval() == (1.0, 3.0)
    assert ConfidenceSequence("normal").interval() == (-math.inf, math.inf)
    assert DifferenceSequence().interval() == (-math.inf, math.inf)
    assert DifferenceSequence("bernstein", value_range=(0.0, 2.0)).interval() == (-2.0, 2.0)
    assert ConfidenceSequence("normal").evidence(0.0) == 1.0
    assert ConfidenceSequence("normal").update([1.0, 1.0]).interval() == (-math.inf, math.inf)  # no variance


def test_the_capital_against_a_mean_is_a_martingale():
    """Exact, for two rewards: the expected capital after a normal reward is that before, by quadrature."""
    nodes, chances = np.polynomial.hermite_e.hermegauss(120)
    chances = chances / chances.sum()
    one = np.exp(normal_capital(np.array(1.0), nodes, np.zeros(120), 1.0, 0.95, 100))
    assert chances @ one == pytest.approx(1.0, abs=1e-9)
    x, y = np.meshgrid(nodes, nodes)
    mean, variance = 0.5 * (x + y), 0.25 * (x - y) ** 2
    both = np.outer(chances, chances)
    for sd in (1.0, None):
        two = np.exp(normal_capital(np.array(2.0), mean, variance, sd, 0.95, 100))
        assert (both * two).sum() == pytest.approx(1.0, abs=1e-3)
    width = normal_widths(np.array([50.0]), np.array([2.0]), None, 0.9, 100)
    at = normal_capital(np.array([50.0]), width, np.array([2.0]), None, 0.9, 100)
    assert at[0] == pytest.approx(math.log(10.0))


def test_the_normal_difference_is_the_ellipse_of_its_mixture(rng):
    """The half length is the largest difference of a pair of means whose capital is 1/delta, found by search."""
    n, m, sd, planned = 40.0, 70.0, 1.5, 80
    k, rho = 0.8, planned / 4.0
    prior = np.array([[1.0, -k], [-k, 1.0]]) / rho
    counts = np.diag([n, m])

    def log_capital(d):
        score = counts @ d / sd
        inside = np.linalg.inv(counts + np.linalg.inv(prior))
        return 0.5 * score @ inside @ score - 0.5 * np.linalg.slogdet(np.eye(2) + prior @ counts)[1]

    largest = 0.0
    for angle in np.linspace(0.0, 2.0 * math.pi, 4001):
        way = np.array([math.cos(angle), math.sin(angle)])
        slope = log_capital(way) - log_capital(0.0 * way)
        reach = math.sqrt((math.log(20.0) - log_capital(0.0 * way)) / slope)
        largest = max(largest, reach * (way[0] - way[1]))
    assert difference_widths(n, m, 1.0, 1.0, sd, 0.95, planned) == pytest.approx(largest, rel=1e-5)


def test_the_bounded_difference_is_inside_that_of_two_intervals_and_holds_the_estimate(rng):
    for n, m, p, q in ((400, 400, 0.3, 0.5), (3000, 300, 0.02, 0.05), (50, 5000, 0.5, 0.5)):
        x, y = (rng.random(n) < p) * 1.0, (rng.random(m) < q) * 1.0
        found = DifferenceSequence("bernstein", value_range=(0.0, 1.0), planned=500).update(0, x).update(1, y)
        low, high = found.interval()
        assert low <= found.difference <= high
        back = DifferenceSequence("bernstein", value_range=(0.0, 1.0), planned=500).update(1, x).update(0, y)
        assert back.interval() == pytest.approx((-high, -low), abs=1e-9)
        assert found.counts == (n, m)
    assert low > -1.0


def test_weights_give_the_value_of_another_policy(rng):
    """The target plays arm 1 always; rewards 0.2 and 0.6. False-alarm rate 1e-6, by the confidence."""
    n = 20_000
    arm = (rng.random(n) < 0.3).astype(int)
    x = (rng.random(n) < np.array([0.2, 0.6])[arm]).astype(float)
    w = np.where(arm == 1, 1.0 / 0.3, 0.0)
    given = {"value_range": (0.0, 1.0), "largest_weight": 1.0 / 0.3, "confidence": 1.0 - 5e-7}
    value = ConfidenceSequence(**given).update(x, w)
    low, high = value.interval()
    assert low <= 0.6 <= high
    assert high - low < 0.2
    gain = ConfidenceSequence(**given, relative=True).update(x, w)
    low, high = gain.interval()
    assert low <= 0.6 - (0.3 * 0.6 + 0.7 * 0.2) <= high
    assert low > 0.0
    assert gain.mean == pytest.approx(((w - 1.0) * (x - 0.5)).mean())


def test_refusals():
    with refused(ParameterError, "missing-argument", argument="value_range"):
        ConfidenceSequence("betting")
    with refused(ParameterError, "conflicting-arguments", argument="value_range"):
        ConfidenceSequence("normal", value_range=(0, 1))
    with refused(ParameterError, "conflicting-arguments", argument="sd"):
        DifferenceSequence("bernstein", value_range=(0, 1), sd=1.0)
    with refused(ParameterError, "conflicting-arguments", argument="largest_weight"):
        ConfidenceSequence("normal", largest_weight=2.0)
    with refused(ParameterError, "unknown-option", argument="kind"):
        ConfidenceSequence("hoeffding")
    with refused(DataError, "value-range", argument="values", index=1):
        ConfidenceSequence(value_range=(0, 1)).update([0.5, 1.5])
    with refused(DataError, "value-range", argument="weights"):
        ConfidenceSequence(value_range=(0, 1), largest_weight=2.0).update(1.0, 3.0)
    with refused(DataError, "wrong-shape", argument="weights"):
        ConfidenceSequence(value_range=(0, 1)).update([1.0, 0.0], [1.0, 1.0, 1.0])
    with refused(DataError, "wrong-shape", argument="values"):
        DifferenceSequence().update(0, [[1.0], [2.0]])
    with refused(DataError, "too-large", argument="values"):
        DifferenceSequence().update(0, [1e200, 1.0])
    assert confidence_sequence(np.empty((2, 0)), (0, 1))[0].shape == (2, 0)
    with refused(DataError, "not-finite", argument="values"):
        DifferenceSequence().update(0, math.nan)
    assert Bets(0.95, 1000).up.shape == Bets(0.95, 1000).down.shape
