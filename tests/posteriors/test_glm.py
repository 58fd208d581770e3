"""Posteriors for clicks and counts against the exact mode, exact Hessians, quadrature and closed forms."""

import math
from itertools import product

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from scipy import optimize, special, stats

from prudent._numerics.glm import COUNTS, ODDS, absorb, learn_score, mean_odds
from prudent._numerics.least_squares import solve_posterior
from prudent._numerics.triangles import flat
from prudent.errors import DataError, ParameterError, PosteriorError
from prudent.posteriors.glm import LogisticPosterior, PoissonPosterior

PRIOR = [[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 0.7]]
KINDS = (LogisticPosterior, PoissonPosterior)
BOTH = pytest.mark.parametrize("kind", KINDS)


def data(kind, rng, size, theta):
    """Contexts with a constant first feature, and rewards."""
    contexts = rng.normal(size=(size, len(theta)))
    contexts[:, 0] = 1.0
    scores = contexts @ theta
    if kind is LogisticPosterior:
        return contexts, (rng.random(size) < special.expit(scores)).astype(float)
    return contexts, rng.poisson(np.exp(scores)).astype(float)


def loss(kind, theta, prior, contexts, rewards, weights):
    """Minus the log density of theta, up to a constant."""
    scores = contexts @ theta
    size = np.exp(scores) if kind is PoissonPosterior else np.logaddexp(0.0, scores)
    return weights @ (size - rewards * scores) + 0.5 * theta @ prior @ theta


def mean_reward(kind, scores):
    return np.exp(scores) if kind is PoissonPosterior else special.expit(scores)


def curvature(kind, theta, prior, contexts, weights):
    mu = mean_reward(kind, contexts @ theta)
    slope = mu if kind is PoissonPosterior else mu * (1.0 - mu)
    return prior + contexts.T @ ((weights * slope)[:, None] * contexts)


# -- exactly -----------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("weighted", [False, True])
def test_refit_is_the_laplace_posterior(kind, weighted):
    rng = np.random.default_rng(1)
    prior = np.array(PRIOR)
    contexts, rewards = data(kind, rng, 300, [-1.0, 0.7, -0.4])
    weights = rng.random(300) if weighted else np.ones(300)
    posterior = kind(3, prior).refit(contexts, rewards, weights=weights if weighted else None)
    mode = posterior.mean()
    slope = prior @ mode - contexts.T @ (weights * (rewards - mean_reward(kind, contexts @ mode)))
    assert np.abs(slope).max() < 1e-11
    found = optimize.minimize(lambda x: loss(kind, x, prior, contexts, rewards, weights), np.zeros(3), tol=1e-12)
    np.testing.assert_allclose(mode, found.x, atol=1e-5)
    hessian = curvature(kind, mode, prior, contexts, weights)
    np.testing.assert_allclose(posterior.precision, hessian, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(posterior.covariance(), np.linalg.inv(hessian), rtol=1e-10, atol=1e-14)


@BOTH
@pytest.mark.parametrize("order", ["random", "sorted", "period of 16", "separable sample", "start far away"])
def test_the_order_of_many_rewards_does_not_matter(kind, order, rng):
    """The search begins with every 16th reward: also where these say something else, or nothing."""
    contexts, rewards = data(kind, rng, 20_000, [-2.0, 0.7, -0.4])
    if order == "sorted":
        rows = np.argsort(rewards, kind="stable")
        contexts, rewards = contexts[rows], rewards[rows]
    elif order == "period of 16":
        contexts[::16] *= -3.0
    elif order == "separable sample":
        rewards[::4] = (contexts[::4, 1] > 0.0).astype(float)
    posterior = kind(3, np.array(PRIOR))
    if order == "start far away":
        posterior.update([[3.0, 5.0, -5.0]] * 20, [1.0] * 20)
    mode = posterior.refit(contexts, rewards).mean()
    mu = mean_reward(kind, contexts @ mode)
    slope = np.array(PRIOR) @ mode - contexts.T @ (rewards - mu)
    assert (np.abs(slope) <= 1e-11 * (1.0 + np.abs(contexts).T @ np.abs(rewards - mu))).all()
    again = kind(3, np.array(PRIOR)).refit(contexts[::-1], rewards[::-1])
    np.testing.assert_allclose(mode, again.mean(), rtol=1e-10, atol=1e-11)
    hessian = curvature(kind, mode, np.array(PRIOR), contexts, np.ones(len(rewards)))
    np.testing.assert_allclose(posterior.precision, hessian, rtol=1e-11, atol=1e-9)


@BOTH
def test_refit_reads_logs_and_replaces_what_was_learned(kind):
    contexts, rewards = data(kind, np.random.default_rng(2), 50, [0.1, 0.5])
    expected = kind(2).refit(contexts, rewards)
    rows = list(zip(contexts.tolist(), rewards.tolist(), strict=True))
    table = {"context": contexts.tolist(), "reward": rewards.tolist()}
    for log in (rows, table, pd.DataFrame(table)):
        again = kind(2).update([1.0, -3.0], 1.0).refit(log)
        np.testing.assert_allclose(again.mean(), expected.mean(), rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(again.precision, expected.precision, rtol=1e-11, atol=1e-12)


def test_weights_count_rewards():
    contexts, rewards = data(PoissonPosterior, np.random.default_rng(3), 40, [0.1, 0.5])
    twice = PoissonPosterior(2).refit(np.repeat(contexts, 2, axis=0), np.repeat(rewards, 2))
    weighted = PoissonPosterior(2).refit(contexts, rewards, weights=np.full(40, 2.0))
    np.testing.assert_allclose(weighted.mean(), twice.mean(), rtol=1e-11)
    np.testing.assert_allclose(weighted.precision, twice.precision, rtol=1e-11)


@pytest.mark.parametrize(("ones", "zeros", "prior"), [(3, 5, 1.0), (0, 7, 0.5), (1, 10**5, 2.0), (20, 0, 1e-8)])
def test_a_constant_context_is_one_equation(ones, zeros, prior):
    contexts, rewards = np.ones((ones + zeros, 1)), np.repeat([1.0, 0.0], [ones, zeros])
    mode = optimize.brentq(lambda x: ones - (ones + zeros) * special.expit(x) - prior * x, -60, 60, xtol=1e-15)
    precision = prior + (ones + zeros) * special.expit(mode) * special.expit(-mode)
    for posterior in (
        LogisticPosterior(1, prior).refit(contexts, rewards),
        LogisticPosterior(1, prior).update(contexts, rewards),
    ):
        assert posterior.mean()[0] == pytest.approx(mode, rel=1e-9)
        assert posterior.variance()[0] == pytest.approx(1.0 / precision, rel=1e-8)


@BOTH
def test_separable_and_extreme_data_have_a_mode(kind):
    """Scores of 700, features from 1e-100 to 1e10, counts of 1e9: the slope at the mode is zero to rounding."""
    top = 1.0 if kind is LogisticPosterior else 1e9
    cases = [
        ([[1.0, 700.0], [1.0, -700.0]] * 20, [1.0, 0.0] * 20),
        ([[1.0, 1.0]] * 5, [top] * 5),
        ([[1e-100, 1.0], [1e10, 1.0]], [1.0, 0.0]),
        ([[1e10, 1.0], [0.0, 0.0]], [1.0, 1.0]),
    ]
    for contexts, rewards in cases:
        points, values = np.array(contexts), np.array(rewards)
        mode = kind(2).refit(points, values).mean()
        scores = points @ mode
        mu = mean_reward(kind, scores)
        gap = np.where(values == 1.0, special.expit(-scores), -mu) if kind is LogisticPosterior else values - mu
        blur = np.abs(gap) if kind is LogisticPosterior else values + mu
        sizes = np.abs(mode) + np.abs(points).T @ (blur * (1.0 + np.abs(scores)))
        assert (np.abs(mode - points.T @ gap) <= 1e-11 * sizes).all()
        online = kind(2).update(points, values)
        assert np.isfinite(online.mean()).all()
        assert (online.variance() > 0.0).all()


@BOTH
def test_contexts_of_every_scale_leave_a_law(kind):
    """Features from 1e-4 to 1e4 in one log, where scores jump: the root stays that of the sums, and neither breaks."""
    rng = np.random.default_rng(11)
    contexts = rng.normal(size=(300, 4)) * 10.0 ** rng.uniform(-4, 4, size=(300, 1))
    rewards = rng.integers(0, 2, size=300).astype(float)
    posterior = kind(4).update(contexts, rewards)
    variance = posterior.variance()
    assert np.isfinite(posterior.mean()).all()
    assert (variance > 0.0).all()
    root, mean = np.empty((4, 4)), np.empty(4)
    solve_posterior(*flat(*posterior.gram, np.eye(4), root), mean)
    np.testing.assert_allclose((root**2).sum(axis=0), variance, rtol=1e-5)


# -- the true posterior ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "size", "base"), [(*pair, 0.5) for pair in product(KINDS, (100, 1000))])
def test_laplace_is_near_the_true_posterior_by_quadrature(kind, size, base):
    """D = 1: mean, sd and the mass of the 95% interval of the true posterior; the error falls with the data."""
    rng = np.random.default_rng(size)
    contexts = rng.normal(size=(size, 1))
    rewards = rng.poisson(np.exp(base * contexts[:, 0])) * 1.0
    if kind is LogisticPosterior:
        rewards = (rng.random(size) < special.expit(base * contexts[:, 0])) * 1.0
    posterior = kind(1).refit(contexts, rewards)
    mean, sd = posterior.mean()[0], math.sqrt(posterior.variance()[0])
    grid = mean + sd * np.linspace(-9, 9, 2001)
    logs = -np.array([loss(kind, np.array([x]), np.eye(1), contexts, rewards, np.ones(size)) for x in grid])
    mass = np.exp(logs - logs.max())
    mass /= mass.sum()
    true_mean = mass @ grid
    assert abs(true_mean - mean) < sd / math.sqrt(size)
    assert abs(math.sqrt(mass @ (grid - true_mean) ** 2) / sd - 1.0) < 3.0 / size
    inside = np.abs(grid - mean) <= 1.959964 * sd
    assert mass[inside].sum() == pytest.approx(0.95, abs=1.0 / size)


# -- online ------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("base", [-6.9, -4.5, -2.0, 0.0])
@pytest.mark.parametrize("size", [200, 5000])
def test_online_is_near_the_exact_posterior(kind, base, size):
    """20 features, events of 0.1% to 50%: the numbers of the docstring of LogisticPosterior."""
    rng = np.random.default_rng(size)
    theta = rng.normal(size=20) / math.sqrt(20)
    theta[0] = base
    contexts, rewards = data(kind, rng, size, theta)
    online, exact = kind(20).update(contexts, rewards), kind(20).refit(contexts, rewards)
    sds = np.sqrt(exact.variance())
    assert (np.abs(online.mean() - exact.mean()) / sds).max() < 2.0
    ratio = np.sqrt(online.variance()) / sds
    assert 0.8 < ratio.min() <= ratio.max() < 1.7


@BOTH
def test_one_reward_is_exact(kind):
    """After one reward online and exact agree, whatever the context."""
    rng = np.random.default_rng(4)
    for _ in range(20):
        context = rng.normal(size=3) * 10.0 ** rng.uniform(-2, 2)
        reward = float(rng.integers(0, 2))
        online, exact = kind(3, PRIOR).update(context, reward), kind(3, PRIOR).refit([context], [reward])
        np.testing.assert_allclose(online.mean(), exact.mean(), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(online.covariance(), exact.covariance(), rtol=1e-8, atol=1e-11)


@BOTH
def test_batch_is_sequential_and_the_root_is_that_of_the_sums(kind):
    contexts, rewards = data(kind, np.random.default_rng(5), 400, [-3.0, 0.5, 0.5])
    batch, single = kind(3, PRIOR).update(contexts, rewards), kind(3, PRIOR)
    for context, reward in zip(contexts, rewards, strict=True):
        single.update(context, reward)
    assert batch == single
    np.testing.assert_array_equal(batch.mean(), single.mean())
    root, mean = np.empty((3, 3)), np.empty(3)
    solve_posterior(*flat(*batch.gram, np.array(PRIOR), root), mean)
    np.testing.assert_allclose(batch.covariance(), root.T @ root, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(batch.mean(), mean, rtol=1e-11)
    np.testing.assert_array_equal(batch.gram, batch.gram.swapaxes(1, 2))


@BOTH
def test_order_matters_little(kind):
    contexts, rewards = data(kind, np.random.default_rng(6), 2000, [-1.0, 0.5, 0.5])
    forward, backward = kind(3).update(contexts, rewards), kind(3).update(contexts[::-1], rewards[::-1])
    assert (np.abs(forward.mean() - backward.mean()) < 0.5 * np.sqrt(forward.variance())).all()


# between 0 and 1e-3 the precision that was seen, 1/variance - 1/widest, cancels in floats
SEEN = st.just(0.0) | st.floats(1e-3, 6.0)


@given(st.sampled_from([ODDS, COUNTS]), st.floats(-700, 700), st.floats(-12, 12), SEEN, st.integers(0, 9))
def test_a_reward_pulls_to_its_side_and_leaves_a_law(link, centre, log_widest, log_seen, count):
    """The mode solves its equation, lies between where it was and the reward, and the precision stays positive."""
    reward = float(min(count, 1) if link == ODDS else count)
    widest = math.exp(log_widest)
    variance = widest * math.exp(-log_seen)
    move, weight = learn_score(link, centre, variance, widest, reward, 1.0)
    with mpmath.workdps(350):
        f, d, y = mpmath.mpf(centre), mpmath.mpf(move), mpmath.mpf(reward)
        mu = (lambda x: 1 / (1 + mpmath.exp(-x))) if link == ODDS else mpmath.exp
        slope = (lambda x: mu(x) * (1 - mu(x))) if link == ODDS else mpmath.exp
        k = max(1 / mpmath.mpf(variance) - 1 / mpmath.mpf(widest), 0)
        gap = d / widest + k * (mu(f + d) - mu(f)) / slope(f) - (y - mu(f + d))
        steep = 1 / mpmath.mpf(widest) + k * slope(f + d) / slope(f) + slope(f + d)
        assert abs(gap / steep) <= 1e-13 * (abs(centre) + abs(move) + 1)
        left = mu(f) - y
    assert move * float(left) <= 0.0
    assert 1.0 / variance + weight > 0.0


@pytest.mark.parametrize("weight", [0.0, 0.3, 1e8, -0.2])
def test_absorb_is_a_rank_one_update(weight):
    rng = np.random.default_rng(7)
    precision = np.array(PRIOR)
    root, mean = np.linalg.inv(np.linalg.cholesky(precision)), rng.normal(size=3)
    context, before = rng.normal(size=3), mean.copy()
    scratch = np.vstack([root @ context, np.zeros(3)])
    expected = before + 0.7 * np.linalg.solve(precision, context)
    absorb(*flat(root), mean, weight, 0.7, scratch)
    np.testing.assert_allclose(mean, expected, rtol=1e-13)
    with mpmath.workdps(50):
        column = mpmath.matrix(context.tolist())
        updated = (mpmath.matrix(PRIOR) + weight * column * column.T) ** -1
    np.testing.assert_allclose(root.T @ root, np.array(updated.tolist(), dtype=float), rtol=1e-13, atol=1e-15)
    assert (np.triu(root, 1) == 0.0).all()


# -- what posteriors share ---------------------------------------------------------------------------------


@BOTH
def test_untouched_is_the_prior_and_evidence_fades_to_it(kind):
    contexts, rewards = data(kind, np.random.default_rng(8), 100, [0.5, -0.5, 0.2])
    posterior = kind(3, PRIOR)
    np.testing.assert_array_equal(posterior.mean(), np.zeros(3))
    np.testing.assert_allclose(posterior.covariance(), np.linalg.inv(PRIOR), rtol=1e-14, atol=1e-15)
    posterior.update(contexts, rewards)
    evidence, pulled = posterior.precision - PRIOR, posterior.precision @ posterior.mean()
    posterior.forget(0.25)
    np.testing.assert_allclose(posterior.precision, PRIOR + 0.25 * evidence, rtol=1e-13)
    np.testing.assert_allclose(posterior.mean(), np.linalg.solve(posterior.precision, 0.25 * pulled), rtol=1e-11)
    assert posterior.forget(0.0) == kind(3, PRIOR)


@BOTH
def test_merge_adds_what_both_have_learned(kind):
    contexts, rewards = data(kind, np.random.default_rng(9), 4000, [0.3, -0.5])
    one, two = kind(2).refit(contexts[:2000], rewards[:2000]), kind(2).refit(contexts[2000:], rewards[2000:])
    merged, whole = one.merge(two), kind(2).refit(contexts, rewards)
    np.testing.assert_allclose(merged.precision, one.precision + two.precision - np.eye(2), rtol=1e-12)
    assert (np.abs(merged.mean() - whole.mean()) < 0.1 * np.sqrt(whole.variance())).all()
    with refused(PosteriorError, "prior-mismatch", argument="prior_precision"):
        one.merge(kind(2, prior_precision=2.0))


@BOTH
def test_copies_learn_on_their_own(kind):
    posterior = kind(2).update([1.0, 0.5], 1.0)
    before = posterior.mean()
    twin = posterior.copy()
    twin.update([1.0, 0.5], 0.0)
    np.testing.assert_array_equal(posterior.mean(), before)
    assert twin != posterior


@BOTH
def test_samples_have_the_moments(kind):
    """A chi-square test of 10,000 samples: false alarm 1e-6."""
    posterior = kind(3, PRIOR).update(*data(kind, np.random.default_rng(10), 50, [0.5, -0.5, 0.2]))
    away = posterior.sample(10_000, rng=1) - posterior.mean()
    total = np.einsum("ni,ij,nj->", away, posterior.precision, away)
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], 3 * 10_000)
    assert low < total < high


def test_mean_odds_is_the_integral():
    for mean, sd in product((-40.0, -5.0, 0.3), (0.0, 0.5, 0.999, 1.001, 1e4)):
        with mpmath.workdps(30):
            ends = [mean - 40 * sd, min(mean, 0), max(mean, 0), mean + 40 * sd]
            points = sorted({*ends, *np.linspace(-60, 60, 25)} if sd > 0.5 else {*ends[::3], mean})
            points = [x for x in points if ends[0] <= x <= ends[3]]
            if sd == 0.0:
                expected = 1 / (1 + mpmath.exp(-mean))
            else:
                law = lambda x, m=mean, s=sd: mpmath.npdf(x, m, s) / (1 + mpmath.exp(-x))  # noqa: E731
                expected = mpmath.quad(law, points)
        assert float(mean_odds(mean, sd)) == pytest.approx(float(expected), rel=1e-9, abs=1e-14)


def test_rewards_are_the_means_of_the_response():
    posterior = LogisticPosterior(2).update([[1.0, 2.0]] * 5, [1, 0, 1, 1, 1])
    draws = special.expit(posterior.sample(200_000, rng=3) @ [1.0, 2.0])
    # a normal test of a mean, false alarm 1e-6
    assert abs(draws.mean() - posterior.reward([1.0, 2.0])) < 4.9 * draws.std() / math.sqrt(draws.size)
    counts = PoissonPosterior(2).update([[1.0, 2.0]] * 5, [1, 0, 3, 1, 2])
    mean, sd = counts.predict([[1.0, 2.0], [0.0, 1.0]])
    np.testing.assert_allclose(counts.reward([[1.0, 2.0], [0.0, 1.0]]), np.exp(mean + sd**2 / 2), rtol=1e-14)
    assert PoissonPosterior(1).reward([1e3]) == np.inf


BAD = [
    (
        lambda: LogisticPosterior(2).update([1.0, 2.0], 0.5),
        DataError,
        "value-range",
        {"value": 0.5, "expected": "0 or 1"},
    ),
    (
        lambda: LogisticPosterior(1).update([[1.0], [1.0]], [0, 2]),
        DataError,
        "value-range",
        {"index": (1,), "value": 2.0},
    ),
    (lambda: PoissonPosterior(1).update([[1.0], [1.0]], [3, -1]), DataError, "value-range", {"index": (1,)}),
    (lambda: PoissonPosterior(1).update([1.0], 1.5), DataError, "value-range", {"value": 1.5}),
    (lambda: PoissonPosterior(1).update([1.0], 1e300), DataError, "value-range", {"value": 1e300}),
    (lambda: PoissonPosterior(1).update([1.0], np.nan), DataError, "not-finite", {"argument": "reward"}),
    (lambda: LogisticPosterior(2).update([1.0], 1), DataError, "wrong-shape", {"argument": "context", "value": (1,)}),
    (lambda: LogisticPosterior(2).update([[1.0, 1.0]], 1), DataError, "wrong-shape", {"argument": "reward"}),
    (lambda: LogisticPosterior(1).update([1e200], 1), DataError, "too-large", {"argument": "context", "index": (0,)}),
    (lambda: LogisticPosterior(1).update([[1.0], [1e149]], [1, 0]), DataError, "too-large", {"index": (1,)}),
    (lambda: LogisticPosterior(1).refit([[1.0]], [1], weights=[-1.0]), DataError, "negative", {"argument": "weights"}),
    (lambda: LogisticPosterior(1).refit([[1.0]], [1], weights=[1.0, 1.0]), DataError, "wrong-shape", {"value": (2,)}),
    (lambda: LogisticPosterior(1).refit([([1.0], 1), ([1.0], 1, 2)]), DataError, "row-width", {"row": 1}),
    (lambda: LogisticPosterior(1).refit({"context": []}), DataError, "missing-column", {"column": "reward"}),
    (lambda: LogisticPosterior(1).refit(5), DataError, "wrong-type", {"argument": "log"}),
    (lambda: LogisticPosterior(1).refit([]), DataError, "no-rows", {"argument": "log"}),
    (lambda: LogisticPosterior(1).forget(1.5), ParameterError, "probability-range", {"argument": "factor"}),
    (lambda: LogisticPosterior(0), ParameterError, "integer-range", {"argument": "dim"}),
    (
        lambda: LogisticPosterior(1, prior_precision=0.0),
        ParameterError,
        "not-positive",
        {"argument": "prior_precision"},
    ),
]


@pytest.mark.parametrize(("call", "error", "code", "fields"), BAD)
def test_errors_name_the_place_and_the_value(call, error, code, fields):
    with refused(error, code, **fields):
        call()


def test_a_fault_late_in_a_batch_changes_nothing():
    posterior = LogisticPosterior(1).update([1.0], 1)
    before = posterior.copy()
    with pytest.raises(DataError):
        posterior.update([[1.0], [1e149]], [1, 0])
    with pytest.raises(PosteriorError):
        posterior.refit([[1e140]], [1])
    assert posterior == before
    assert posterior.mean() == before.mean()


def test_reprs_say_the_mean():
    assert repr(LogisticPosterior(1)) == "LogisticPosterior(dim=1, mean=[0.])"
