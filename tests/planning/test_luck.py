"""Ignorance and luck: a risk over the posterior of a risk over outcomes."""

import warnings
from functools import cache

import mpmath as mp
import numpy as np
import pytest
from refusals import refused

import prudent as pr
from prudent.errors import ConvergenceWarning, ParameterError
from prudent.planning.luck_rows import CONCENTRATED, inner_values, luck_of
from prudent.risk import EntropicRisk

INNER = (pr.CVaR(0.5), pr.CVaR(0.9), pr.CVaR(-0.7), pr.MeanCVaR(0.8, weight=0.4))


def one_row(y, psi, alpha, inner):
    """The problem whose value is that of one row."""
    model = pr.UncertainMDP([[0]], [[[0] * len(y)]], [[y]], 0.0)
    return pr.BayesianRiskMDP(model, [psi], alpha, outcome_risk=inner)


def random_model(rng, most, discount=None):
    S, A, K = int(rng.integers(1, 4)), int(rng.integers(1, 3)), int(rng.integers(1, most + 1))
    model = pr.UncertainMDP(
        np.arange(S * A).reshape(S, A),
        rng.integers(0, S, (S, A, K)),
        rng.normal(size=(S, A, K)),
        float(rng.choice([0.0, 0.5, 0.9])) if discount is None else discount,
    )
    return model, pr.DirichletPosterior(rng.gamma(1.0, rng.choice([1.0, 20.0]), (S * A, K)) + 0.05)


# -- against draws -----------------------------------------------------------------------------------------


def against_draws(rng, n, alphas, most, repeats):
    """Compare exact rows with draws; a false alarm for one row has probability 6e-7 (five standard errors)."""
    for _ in range(repeats):
        inner, alpha = INNER[rng.integers(len(INNER))], float(rng.choice(alphas))
        K = int(rng.integers(2, most + 1))
        y, psi = rng.normal(size=K), rng.gamma(1.0, 3.0, K) + 0.3
        found = one_row(y, psi, alpha, inner).solve().value[0]
        z = np.concatenate([_drawn(y, rng.dirichlet(psi, 100_000), inner) for _ in range(n // 100_000)])
        z = np.sort(z if alpha >= 0.0 else -z)
        kept = max(1, round((1.0 - abs(alpha)) * z.size))
        mean, edge = z[:kept].mean(), z[kept - 1]
        # Rockafellar and Uryasev: CVaR is the mean of edge - (edge - Z)+ / (1 - alpha)
        error = np.std(np.minimum(z - edge, 0.0)) / (1.0 - abs(alpha)) / np.sqrt(z.size)
        unseen = 15.0 / z.size * np.ptp(y) / (1.0 - abs(alpha))  # by events that n draws miss with probability 3e-7
        assert abs(found - np.sign(alpha or 1.0) * mean) <= 5.0 * error + unseen + 1e-9


def _drawn(y, theta, inner):
    """Return the risk of the outcome under each draw, by sorting outcomes."""
    form, total = inner.exact_form(), 0.0
    for level, weight in zip(form.levels, form.weights, strict=True):
        tail, order = 1.0 - abs(level), np.argsort(y if level >= 0.0 else -y)
        shares = np.diff(np.minimum(np.cumsum(theta[:, order], axis=1), tail), axis=1, prepend=0.0) / tail
        total = total + weight * (shares @ y[order] + (1.0 - shares.sum(axis=1)) * y[order[-1]])
    return total


def test_the_mean_over_the_posterior_against_draws(rng):
    against_draws(rng, 200_000, [0.0], 6, 6)


def test_two_outcomes_against_draws(rng):
    against_draws(rng, 200_000, [0.5, 0.9, -0.3, -0.8], 2, 8)


@pytest.mark.slow
def test_against_ten_million_draws(rng):
    against_draws(rng, 10_000_000, [0.0], 6, 8)
    against_draws(rng, 10_000_000, [0.5, 0.9, -0.3, -0.8], 2, 8)


# -- the certificate ---------------------------------------------------------------------------------------


@cache
def mean_min(a, b, t):
    """E min(C, t) of C ~ Beta(a, b)."""
    if b == 0:
        return t
    low = mp.betainc(a + 1, b, 0, t, regularized=True)
    return a / (a + b) * low + t * mp.betainc(a, b, t, 1, regularized=True)


@cache
def tail_share(a, b, alpha, level):
    """Return the weight of the worse of two outcomes, of count a; the better one has b."""
    tail, t = mp.mpf(1) - abs(mp.mpf(alpha)), mp.mpf(1) - abs(mp.mpf(level))
    low, high = mp.mpf(0), mp.mpf(1)
    for _ in range(100):
        middle = (low + high) / 2
        below = mp.betainc(a, b, 0, middle, regularized=True)
        low, high = (middle, high) if (below < 1 - tail if alpha >= 0 else below < tail) else (low, middle)
    begin, end = (low, mp.mpf(1)) if alpha >= 0 else (mp.mpf(0), high)

    def mass(x, z):
        return mp.betainc(a, b, x, z, regularized=True)

    def moment(x, z):
        return a / (a + b) * mp.betainc(a + 1, b, x, z, regularized=True)

    if level >= 0:
        edge = min(max(t, begin), end)
        return (moment(begin, edge) + t * mass(edge, end)) / (t * tail)
    edge = min(max(1 - t, begin), end)
    return (moment(edge, end) - (1 - t) * mass(edge, end)) / (t * tail)


def true_weights(y, psi, alpha, inner):
    """Return the weights of outcomes in many digits."""
    form, weights = inner.exact_form(), [mp.mpf(0)] * len(y)
    for level, own in zip(form.levels.tolist(), form.weights.tolist(), strict=True):
        order = sorted(range(len(y)), key=lambda k: y[k] if level >= 0 or alpha != 0 else -y[k])
        if alpha != 0:
            low, high = order
            share = tail_share(psi[low], psi[high], alpha, level)
            weights[low] += own * share
            weights[high] += own * (1 - share)
            continue
        t, before, a = mp.mpf(1) - abs(mp.mpf(level)), mp.mpf(0), mp.mpf(0)
        for place, k in enumerate(order):
            a += psi[k]
            rest = mp.fsum(psi[j] for j in order[place + 1 :])
            after = mean_min(a, rest, t)
            weights[k] += own * (after - before) / t
            before = after
    return weights


def true_value(model, counts, alpha, inner, value):
    """Return the fixed point in many digits, by Newton's method from values close to it."""
    of, here = model.entries, mp.matrix([mp.mpf(x) for x in value.tolist()])
    for _ in range(40):
        matrix, right, change = mp.eye(model.n_states), mp.matrix(model.n_states, 1), mp.mpf(0)
        for s in range(model.n_states):
            best = None
            for a in range(model.n_actions):
                p = s * model.n_actions + a
                mine = slice(of.first[p], of.first[p + 1])
                earned, targets = [mp.mpf(r) for r in of.reward[mine].tolist()], of.next_state[mine].tolist()
                y = [r + model.discount * here[t] for r, t in zip(earned, targets, strict=True)]
                psi = [mp.mpf(x) for x in counts[of.source[p]].tolist()]
                weights = [mp.mpf(1)] if len(y) == 1 else true_weights(y, psi, alpha, inner)
                worth = mp.fsum(w * x for w, x in zip(weights, y, strict=True))
                if best is None or worth > best[0]:
                    best = worth, weights, earned, targets
            worth, weights, earned, targets = best
            for w, t in zip(weights, targets, strict=True):
                matrix[s, t] -= model.discount * w
            right[s] = mp.fsum(w * r for w, r in zip(weights, earned, strict=True))
            change = max(change, abs(worth - here[s]))
        if change < mp.mpf(10) ** -22:
            return here
        here = mp.lu_solve(matrix, right)
    raise AssertionError("Newton's method does not end")


def certified(rng, models):
    with mp.workdps(30):
        for _ in range(models):
            alpha = float(rng.choice([0.0, 0.0, 0.7, -0.6]))
            model, posterior = random_model(rng, 4 if alpha == 0.0 else 2)
            inner = INNER[rng.integers(len(INNER))]
            problem = pr.BayesianRiskMDP(model, posterior, alpha, outcome_risk=inner)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # values close to 0 have no ten digits
                found = problem.solve(tol=float(rng.choice([1e-4, 1e-11])))
            truth = true_value(model, posterior.counts, alpha, inner, found.value)
            gap = max(abs(mp.mpf(x) - truth[s]) for s, x in enumerate(found.value.tolist()))
            assert gap <= found.error_bound


def test_the_certificate_holds_in_many_digits(rng):
    certified(rng, 12)


@pytest.mark.slow
def test_the_certificate_is_never_false(rng):
    certified(rng, 2_000)


# -- corners -----------------------------------------------------------------------------------------------


def nested(model, theta, inner):
    """Return the values of a known model under a risk over outcomes, by sweeps."""
    value = np.zeros(model.n_states)
    for _ in range(3_000):
        y = model.reward + model.discount * value[np.maximum(model.next_state, 0)]
        q = [
            [_drawn(y[s, a], theta[[model.source[s, a]]], inner)[0] for a in range(model.n_actions)]
            for s in range(model.n_states)
        ]
        before, value = value, np.max(q, axis=1)
        if abs(before - value).max() < 1e-13:
            return value
    raise AssertionError


@pytest.mark.parametrize("inner", INNER, ids=repr)
def test_a_known_model_has_nested_risk(rng, inner):
    model, posterior = random_model(rng, 4, discount=0.8)
    theta = posterior.mean()
    wanted = nested(model, theta, inner)
    for alpha in (0.0, 0.9, -0.5):
        problem = pr.BayesianRiskMDP(model, alpha=alpha, draws=theta[np.newaxis], outcome_risk=inner)
        np.testing.assert_allclose(problem.solve().value, wanted, atol=1e-9)
    sure = pr.BayesianRiskMDP(model, 1e13 * posterior.counts, 0.0, outcome_risk=inner)
    np.testing.assert_allclose(sure.solve(tol=1e-4).value, wanted, atol=1e-4)


def test_without_luck_it_is_the_bayesian_risk(rng):
    model, posterior = random_model(rng, 4)
    for alpha in (0.0, 0.8, -0.8):
        wanted = pr.BayesianRiskMDP(model, posterior, alpha).solve()
        for none in (pr.CVaR(0.0), EntropicRisk(0.0)):
            found = pr.BayesianRiskMDP(model, posterior, alpha, outcome_risk=none).solve()
            assert (found.value == wanted.value).all()


def test_with_all_caution_it_is_the_worst_case(rng):
    model, _ = random_model(rng, 4)
    counts = np.full(model.outcome_mask.shape, 3.0)
    found = pr.BayesianRiskMDP(model, counts, 0.0, outcome_risk=pr.CVaR(1.0 - 1e-9)).solve(tol=1e-10).value
    everything = pr.planning.RobustMDP(model, pr.L1Ball(2.0, centre=pr.DirichletPosterior(counts))).solve(tol=1e-10)
    np.testing.assert_allclose(found, everything.value, atol=1e-9)


def test_both_dials_lower_the_value(rng):
    model, posterior = random_model(rng, 2, discount=0.9)
    values = [
        [
            pr.BayesianRiskMDP(model, posterior, a, outcome_risk=pr.CVaR(b)).solve(tol=1e-8).value
            for b in (-0.5, 0.0, 0.5, 0.9)
        ]
        for a in (-0.5, 0.0, 0.5, 0.9)
    ]
    assert (np.diff(values, axis=0) <= 1e-7).all()
    assert (np.diff(values, axis=1) <= 1e-7).all()


@pytest.mark.parametrize("inner", [pr.CVaR(-0.5), pr.CVaR(0.5), pr.CVaR(0.9)], ids=repr)
@pytest.mark.parametrize("alpha", [0.9, -0.5, 0.99])
def test_a_quantile_next_to_one_costs_no_digits(inner, alpha):
    """The law of the worse outcome has so much mass next to 1 that no float is its quantile."""
    a, b = 0.42, 0.07
    solution = one_row([-1.0, 1.0], [a, b], alpha, inner).solve(tol=1e-10)
    assert solution.error_bound <= 1e-10
    with mp.workdps(30):
        tail, t, upper = 1 - mp.mpf(abs(alpha)), 1 - mp.mpf(abs(inner.alpha)), inner.alpha < 0.0
        # D = 1 - C is the chance of the better outcome; sigma = -1 + 2 (1 - h), h the weight of the worse one
        flip = alpha < 0.0
        law = (a, b) if flip else (b, a)  # the tail of sigma is the lower tail of D, or of C if the best share counts

        low, high = mp.mpf(-60), mp.mpf(8)  # of log(-log(quantile)), by bisection
        for _ in range(100):
            middle = (low + high) / 2
            above = mp.betainc(*law, 0, mp.exp(-mp.exp(middle)), regularized=True) > tail
            low, high = (middle, high) if above else (low, middle)
        cut = mp.exp(-mp.exp(low))

        def h(c):
            return max(c - (1 - t), mp.mpf(0)) / t if upper else min(c, t) / t

        corner = 1 - t if upper else t
        corners = [x for x in ((corner if flip else 1 - corner),) if 0 < x < cut]
        # with w = u^p, p the first count, the density has no singularity at 0

        def weighted(w):
            u = w ** (1 / mp.mpf(law[0]))
            return h(u if flip else 1 - u) * (1 - u) ** (law[1] - 1)

        scale = law[0] * mp.beta(*law) * tail
        weight = mp.quad(weighted, [x ** mp.mpf(law[0]) for x in (mp.mpf(0), *corners, cut)]) / scale
        wanted = -1 + 2 * (1 - weight)
    assert abs(solution.value[0] - float(wanted)) <= 1e-9


# -- draws -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.5, -0.9])
@pytest.mark.parametrize("outcomes", [2, 3])
def test_large_counts_are_known_probabilities(rng, outcomes, alpha):
    """The value goes to that of the mean model, within the bound; SciPy's quantiles of such Beta laws are NaN."""
    y, psi = np.sort(rng.normal(size=outcomes)), rng.uniform(0.1, 0.9, outcomes)
    for inner in (pr.CVaR(0.4), pr.CVaR(-0.7)):
        wanted, before = float(_drawn(y, psi[np.newaxis] / psi.sum(), inner)[0]), np.inf
        for power in (15, 18, 24, 60, 130):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # ten digits are too many for some
                found = one_row(y, psi * 10.0**power, alpha, inner).solve()
            assert abs(found.value[0] - wanted) <= found.error_bound <= before
            before = found.error_bound + 1e-15
        assert found.converged


@pytest.mark.parametrize("outcomes", [2, 3])
def test_the_bound_holds_where_laws_become_narrow(rng, outcomes):
    """Below and above the counts from which probabilities are taken as known, values agree within both bounds."""
    psi = rng.uniform(0.1, 0.9, outcomes)
    found = []
    for total in (0.99 * CONCENTRATED, 1.01 * CONCENTRATED):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found.append(one_row(np.arange(outcomes), total * psi / psi.sum(), 0.6, pr.CVaR(0.3)).solve())
    assert abs(found[0].value[0] - found[1].value[0]) <= found[0].error_bound + found[1].error_bound
    assert found[1].error_bound < 1e-6


@pytest.mark.parametrize("outer", [pr.CVaR(0.7), pr.CVaR(-0.4), EntropicRisk(2.0), pr.VaR(0.5)], ids=repr)
@pytest.mark.parametrize("inner", [pr.CVaR(0.5), pr.CVaR(-0.6), EntropicRisk(1.5), EntropicRisk(-1.0)], ids=repr)
def test_sampled_values_are_those_of_the_draws(rng, outer, inner):
    model, posterior = random_model(rng, 4, discount=0.8)
    theta = posterior.sample(200, rng)
    problem = pr.BayesianRiskMDP(model, posterior, risk=outer, outcome_risk=inner)
    found = problem.solve(theta)
    value = np.zeros(model.n_states)
    for _ in range(120):
        y = model.reward + model.discount * value[np.maximum(model.next_state, 0)]
        q = np.empty(model.source.shape)
        for s, a in np.ndindex(q.shape):
            own = theta[:, model.source[s, a]]
            if isinstance(inner, EntropicRisk):
                z = -np.log(own @ np.exp(-inner.beta * y[s, a])) / inner.beta
            else:
                z = _drawn(y[s, a], own, inner)
            q[s, a] = outer(z)
        value = q.max(axis=1)
    np.testing.assert_allclose(found.value, value, atol=found.error_bound + 1e-9)
    assert "standard error" in found.message
    assert "over outcomes" in repr(found.explain(0))
    z, weights = inner_values(luck_of(inner), theta[:, 0], model.reward[0, 0])
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    assert z.shape == (200,)


def test_what_is_refused(rng):
    model, posterior = random_model(rng, 4)
    with refused(ParameterError, "unsupported-measure", argument="outcome_risk"):
        pr.BayesianRiskMDP(model, posterior, 0.0, outcome_risk=pr.VaR(0.5))
    mixed = pr.MeanCVaR(0.5, weight=0.5)
    for wide in (
        one_row([0.0, 1.0, 2.0, 3.0], [1.0] * 4, 0.9, pr.CVaR(0.5)),
        one_row([0.0, 1.0, 2.0], [1.0] * 3, 0.9, mixed),
        one_row([0.0, 1.0, 2.0], [1.0, 1.0, 0.05], 0.9, pr.CVaR(0.5)),
    ):
        with refused(ParameterError, "missing-argument", argument="draws"):
            wide.solve()
    with refused(ParameterError, "missing-argument", argument="draws"):
        one_row([0.0, 1.0], [1.0, 1.0], 0.0, EntropicRisk(1.0)).solve()
