"""Arms without context: chances against closed forms, a dense quadrature and repeated sampling."""

import numpy as np
import pytest
from refusals import refused
from scipy import special, stats

from prudent.bandits.kernels.highest import decide_coins
from prudent.bandits.law import BetaLaw
from prudent.errors import ParameterError

FALSE_ALARM = 1e-6


def higher(a, b, c, d):
    """P(X > Y) for X ~ Beta(a, b), Y ~ Beta(c, d), a a whole number: a finite sum."""
    terms = [special.betaln(c + i, d + b) - special.betaln(1 + i, b) - special.betaln(c, d) for i in range(a)]
    return sum(np.exp(term) / (b + i) for i, term in enumerate(terms))


@pytest.mark.parametrize(
    ("one", "two"),
    [((3, 5), (2, 2)), ((1, 1), (1, 1)), ((20, 2000), (1, 1)), ((500, 500), (510, 495)), ((1, 90), (7, 3))],
)
def test_two_arms_have_a_closed_form(one, two):
    law = BetaLaw(np.array([one[0], two[0]], dtype=float), np.array([one[1], two[1]], dtype=float), 0.0)
    expected = higher(*one, *two)
    np.testing.assert_allclose(law.chances(), [expected, 1 - expected], rtol=0, atol=1e-11)


@pytest.mark.parametrize("alpha", [0.0, 0.7, 0.9, 0.99])
def test_chances_are_those_of_a_dense_quadrature(alpha):
    successes, failures = np.array([2.0, 0.7, 30.0, 1e4]), np.array([3.0, 0.3, 40.0, 1.1e4])
    law = BetaLaw(successes, failures, alpha)
    n, j = law.n, law.place
    t = np.linspace(-60.0, 140.0, 200_001)  # a trapezoid rule: steps of 1e-3, the sharpest arm is 0.01 wide
    x, y = special.expit(t), special.expit(-t)
    cdfs, densities = [], []
    for a, b in zip(successes, failures, strict=True):
        below = np.where(t < 0, special.betainc(a, b, x), 1.0 - special.betainc(b, a, y))
        rest = np.where(t < 0, 1.0 - special.betainc(a, b, x), special.betainc(b, a, y))
        density = np.exp(a * np.log(x) + b * np.log(y) - special.betaln(a, b))
        cdfs.append(special.betainc(j, n - j + 1, below))
        order = below ** (j - 1) * rest ** (n - j) / special.beta(j, n - j + 1)
        densities.append(density * order)
    expected = []
    for i in range(4):
        others = np.prod([cdf for k, cdf in enumerate(cdfs) if k != i], axis=0)
        expected.append(np.trapezoid(densities[i] * others, t))
    np.testing.assert_allclose(law.chances(), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.7, 0.95])
def test_scores_follow_their_law_and_their_chances(alpha, rng):
    """Order statistics of real draws (Kolmogorov), and choices (chi-square); false alarm 1e-6."""
    law = BetaLaw(np.array([2.0, 5.0, 1.0]), np.array([3.0, 9.0, 1.0]), alpha)
    scores = np.array([law.draw(rng.random(3)) for _ in range(8000)])
    brute = np.sort(rng.beta(law.successes, law.failures, size=(8000, law.n, 3)), axis=1)[:, law.place - 1]
    for i in range(3):
        assert stats.ks_2samp(special.expit(scores[:, i]), brute[:, i]).pvalue > FALSE_ALARM / 4
    counts = np.bincount(scores.argmax(axis=1), minlength=3)
    expected = 8000 * law.chances()
    assert ((counts - expected) ** 2 / expected).sum() < stats.chi2.isf(FALSE_ALARM / 4, 2)


def test_equal_and_extreme_arms():
    for counts in (0.05, 1.0, 1e8):
        for k in (1, 2, 50):
            law = BetaLaw(np.full(k, counts), np.full(k, counts), 0.5)
            np.testing.assert_allclose(law.chances(), np.full(k, 1 / k), atol=1e-10)
            assert np.isfinite(law.draw(np.full(k, 2.0**-54))).all()
    sure = BetaLaw(np.array([1e6, 1.0]), np.array([1.0, 1e6]), 0.0)
    np.testing.assert_allclose(sure.chances(), [1.0, 0.0], atol=1e-15)


def test_counts_that_are_too_small_are_refused():
    with refused(ParameterError, "value-range", argument="failures"):
        BetaLaw(np.ones(2), np.array([1.0, 0.0]), 0.0)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.7, 0.9, 0.99, -0.5, -0.7, -0.99])
@pytest.mark.parametrize("largest", [1.0, 1e2, 1e4, 1e6])
def test_chances_by_panels_are_those_by_incomplete_beta_functions(alpha, largest, rng):
    """Two computations with nothing in common but the law: densities integrated, and cdfs of scipy."""
    for _ in range(6):
        size = rng.integers(1, 8)
        counts, share = largest ** rng.uniform(0.0, 1.0, size), rng.random(size)
        law = BetaLaw(np.maximum(counts * share, 0.05), np.maximum(counts * (1.0 - share), 0.05), alpha)
        with np.errstate(all="ignore"):
            expected = law.highest_by_cdfs()
        if np.isfinite(expected).all():  # scipy's quantiles are not, at some extremes
            np.testing.assert_allclose(law.chances(), expected, rtol=0, atol=1e-8)
        assert np.isfinite(law.chances()).all()
        assert law.chances().sum() == pytest.approx(1.0, abs=1e-12)


def random_law(largest, rng):
    """Return a law of a few arms with up to ``largest`` rewards, near each other or far apart."""
    size = rng.integers(1, 12)
    counts = largest ** rng.uniform(0.0, 1.0, size)
    share = rng.random() + rng.choice([0.0, 1.0, 3.0]) * rng.standard_normal(size) * np.sqrt(0.25 / counts)
    share = np.clip(share if rng.random() < 0.7 else rng.random(size), 1e-9, 1.0 - 1e-9)
    alpha = rng.choice([0.0, 0.0, 0.5, 0.7, 0.9, 0.99, -0.5, -0.7])
    return BetaLaw(np.maximum(counts * share, 0.05), np.maximum(counts * (1.0 - share), 0.05), alpha)


@pytest.mark.parametrize(("largest", "defect"), [(1.0, 1e-12), (1e2, 1e-12), (1e4, 2e-12), (1e6, 2e-11), (1e8, 1e-10)])
def test_chances_need_no_correction_and_one_by_itself_is_that_of_all(largest, defect, rng):
    for _ in range(60):
        law = random_law(largest, rng)
        every = law._integrated(-1)
        assert abs(every.sum() - 1.0) < defect, (law.successes, law.failures, law.n)
        alone = [law.chance(i) for i in range(every.size)]
        np.testing.assert_allclose(alone, every, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("largest", [1.0, 1e2, 1e4, 1e8])
def test_the_highest_score_is_found_with_few_quantiles(largest, rng):
    """Decisions are those of all scores, bit by bit."""
    for _ in range(60):
        law = random_law(largest, rng)
        size = law.successes.size
        uniforms = rng.random((5, size)) ** rng.choice([1.0, 20.0])
        uniforms[0, 0] = 0.0  # as Generators may draw it
        scores = law.draw(np.maximum(uniforms, 2.0**-54))
        chosen, score, marks = np.empty(5, dtype=np.int64), np.empty(5), np.zeros((size, 4), dtype=np.int64)
        rule = law.n, law.place, 0, 0.0
        among = np.empty((0, size), dtype=np.bool_)
        assert decide_coins(law.counts, marks, np.arange(size), uniforms.reshape(-1), *rule, chosen, score, among) == 0
        np.testing.assert_array_equal(score, scores.max(axis=1))
        np.testing.assert_array_equal(scores[np.arange(5), chosen], score)
