"""CVaR over the posterior of CVaR over three outcomes, without draws: other closed forms, draws, and honest errors."""

import warnings

import numpy as np
import pytest
from _three_outcomes import BITS, true_value
from flint import arb, ctx

import prudent as pr
from prudent.errors import ConvergenceWarning
from prudent.planning.luck_rows import Luck, worse_share
from prudent.planning.luck_three import ThreeCounts, three_weights
from prudent.risk import form_of

COUNTS = (0.1, 0.3, 0.5, 1.0, 2.0, 7.5, 30.0, 400.0, 1e4)


def random_rows(rng, size):
    """Return counts and sorted values of outcomes [size, 3], and the share of the first gap."""
    psi, y = rng.choice(COUNTS, (size, 3)), np.sort(rng.normal(size=(size, 3)), axis=1)
    return psi, y, (y[:, 1] - y[:, 0]) / (y[:, 2] - y[:, 0])


@pytest.mark.parametrize("alpha", [0.5, 0.9, 0.99])
def test_all_outcomes_make_the_risk_of_a_dirichlet_mean(rng, alpha):
    """With a share of 1 the inner risk is the mean: the contour integrals say the same, within the stated doubt."""
    psi, y, gap = random_rows(rng, 12)
    of = ThreeCounts(*np.ascontiguousarray(psi.T), gap, 1.0)
    for lower, sign in ((True, 1.0), (False, -1.0)):
        weights, doubt = three_weights(of, 1.0 - alpha, lower)
        wanted = sign * pr.exact.cvar_dirichlet(sign * y, psi, alpha)
        assert (abs((weights * y).sum(axis=1) - wanted) <= (doubt + 1e-12) * (y[:, 2] - y[:, 0])).all()
        assert np.median(doubt) < 1e-9
        assert (weights >= 0.0).all()
        np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-14)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("tail", [0.2, 0.6, 1.0])
def test_equal_outcomes_are_one(rng, lower, tail):
    """Where two outcomes are nearly the same, the closed form of two outcomes holds."""
    psi = rng.choice(COUNTS[2:], (30, 3))
    form = form_of(pr.CVaR(0.8 if lower else -0.8))
    luck = Luck(np.array([tail]), np.ones(1), np.ones(1), 0.0)
    for gap, merged in ((1.0 - 1e-11, (0, [1, 2])), (1e-11, ([0, 1], 2))):
        weights, doubt = three_weights(ThreeCounts(*np.ascontiguousarray(psi.T), np.full(30, gap), tail), 0.2, lower)
        low, rest = (psi[:, part].reshape(30, -1).sum(axis=1) for part in merged)
        share, other = worse_share(low, rest, luck, form)
        found = weights[:, 0] if gap > 0.5 else weights[:, :2].sum(axis=1)
        assert (abs(found - share) <= doubt + other + 1e-8).all()


def standard_errors(rng, psi, y, tail, alpha, n):
    """Return by how many standard errors of n draws both tails of a row are off, and these errors."""
    gap = np.array([(y[1] - y[0]) / (y[2] - y[0])])
    of, sigma = ThreeCounts(*np.reshape(psi, (3, 1)), gap, tail), np.empty(n)
    for begin in range(0, n, 1_000_000):
        drawn = np.cumsum(rng.dirichlet(psi, min(n - begin, 1_000_000)), axis=1)
        sigma[begin : begin + 1_000_000] = np.diff(np.minimum(drawn, tail), axis=1, prepend=0.0) / tail @ y
    sigma.sort()
    off = []
    for lower, side in ((True, sigma), (False, -sigma[::-1])):
        cut = side[round(n * (1.0 - alpha)) - 1]
        terms = cut - np.maximum(cut - side, 0.0) / (1.0 - alpha)
        value = (1.0 if lower else -1.0) * three_weights(of, 1.0 - alpha, lower)[0][0] @ y
        # a tail in which all is equal has no spread; draws of a quantile are off by some 1 / n besides
        error = terms.std() / np.sqrt(n) + (y[2] - y[0]) * max(1e-9, 3.0 / n)
        off.append((float(value - terms.mean()) / error, error))
    return off


@pytest.mark.parametrize(("size", "n"), [(10, 40_000), pytest.param(12, 10_000_000, marks=pytest.mark.slow)])
def test_rows_equal_draws(rng, size, n):
    """Draws of each row, both tails: within 6 standard errors, a false alarm below 1e-6."""
    psi, y, _ = random_rows(rng, size)
    psi = np.maximum(psi, 0.5)
    for tail, alpha in ((0.3, 0.5), (0.8, 0.9)):
        for i in range(size):
            for off, _ in standard_errors(rng, psi[i], y[i], tail, alpha, n):
                assert abs(off) <= 6.0, (psi[i], y[i])


def false_certificates(rng, models, counts=COUNTS):
    """Return how many certificates of random models with three outcomes are false, and how many were judged.

    With one state the distance to the truth is the residual over 1 - gamma, and with two at least that over 1 + gamma.
    """
    false = judged = 0
    for _ in range(models):
        size, discount = int(rng.integers(1, 3)), float(rng.choice([0.0, 0.5, 0.9]))
        follows = rng.integers(0, size, (size, 1, 3))
        scale = float(rng.choice([1.0, 1e-6, 1e6]))
        reward = rng.normal(size=(size, 1, 3)) * scale + float(rng.choice([0.0, 0.0, 1e3 * scale]))
        model = pr.UncertainMDP(np.arange(size)[:, np.newaxis], follows, reward, discount)
        psi = rng.choice(counts, (size, 3)) * rng.uniform(1.0, 3.0, (size, 3))
        alpha, level = (float(np.round(rng.uniform(-0.95, 0.99), 3)) for _ in range(2))
        problem = pr.BayesianRiskMDP(model, psi, alpha, outcome_risk=pr.CVaR(level))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # values close to 0 have no ten digits
            found = problem.solve(tol=float(rng.choice([1e-4, 1e-10])) * scale, threads=1)
        before, ctx.prec = ctx.prec, BITS
        rows = []
        for s in range(size):
            y = [
                arb(float(reward[s, 0, k])) + arb(discount) * arb(float(found.value[follows[s, 0, k]]))
                for k in range(3)
            ]
            rows.append(true_value(y, psi[s], alpha, level))
        ctx.prec = before
        if any(row is None or not row.is_finite() for row in rows):
            continue
        residual = np.array([float(row - arb(float(v))) for row, v in zip(rows, found.value, strict=True)])
        judged += 1
        if size == 1:
            off = abs(residual) / (1.0 - discount)
        else:  # at least this far from the fixed point, whatever the chain
            off = abs(residual) / (1.0 + discount)
        false += bool((off > found.error_bound).any())
    return false, judged


@pytest.mark.parametrize("models", [2, pytest.param(200, marks=pytest.mark.slow)])
def test_the_certificate_holds_in_many_digits(rng, models):
    """Certified values of problems with three outcomes; a few of the cases are too steep for the other integral."""
    false, judged = false_certificates(rng, models, COUNTS if models > 10 else COUNTS[2:5])
    assert false == 0
    assert judged > 0.8 * models - 1


@pytest.mark.slow
def test_errors_of_draws_are_honest(rng):
    """1,000 rows by 2,000 draws each, against their exact values: errors are as large as is said.

    Of the errors divided by what is said, 95% are below 2.26 (Student, nine degrees of freedom) if what is said is
    right. Fewer than 90% have a probability below 1e-9 then (binomial).
    """
    size = 1_000
    psi, y = rng.choice(COUNTS[2:7], (size, 3)), rng.normal(size=(size, 3))
    source = np.arange(size)[:, np.newaxis]
    model = pr.UncertainMDP(source, np.full((size, 1, 3), -2), y[:, np.newaxis], discount=0.5)
    problem = pr.BayesianRiskMDP(model, psi, 0.8, outcome_risk=pr.CVaR(0.5))
    exact, value, pairs = np.empty(size), np.zeros(size), np.arange(size)
    assert problem.operator(threads=1).backup(value, pairs, exact) < 1e-5
    drawn, operator = np.empty(size), problem.operator(2_000, rng, threads=1)
    operator.backup(value, pairs, drawn)
    said = operator.rows.errors(value, pairs)
    assert (abs(drawn - exact) <= 2.26 * said).mean() > 0.9


@pytest.mark.parametrize(("alpha", "luck"), [(0.8, pr.CVaR(0.5)), (-0.5, pr.CVaR(-0.6))])
def test_problems_with_three_outcomes_need_no_draws(rng, alpha, luck):
    """A whole solution, by many draws: the certificate of the exact one, and the noise of the other."""
    problem = pr.envs.random_model(3, 2, branching=3, discount=0.6, rng=rng)
    counts = rng.choice([0.5, 2.0, 9.0], problem.model.prior().shape) * (problem.model.prior() > 0)
    brmdp = pr.BayesianRiskMDP(problem.model, counts, alpha, outcome_risk=luck)
    assert brmdp.is_exact
    exact = brmdp.solve()
    assert exact.converged
    assert exact.error_bound < 1e-5
    drawn = brmdp.solve(draws=20_000, rng=rng)
    assert abs(exact.value - drawn.value).max() <= 0.03 * max(1.0, abs(exact.value).max())
    # the residual of the certificate, once more by the rows
    again = brmdp.evaluate(exact.policy)
    assert abs(again.value - exact.value).max() <= exact.error_bound + again.error_bound
