"""Average reward: gains and biases against stationary laws, enumeration of policies and vanishing discounts."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused, warned
from scipy import sparse

import prudent as pr
from prudent.errors import ConvergenceWarning, ModelError, ParameterError


def limit(P):
    """The limit of the averages of the powers of P: by squares of the lazy chain, which has no periods."""
    power = 0.5 * (P + np.eye(len(P)))
    for _ in range(60):
        power = power @ power
        power /= power.sum(axis=1, keepdims=True)
    return power


def bias_of(P, r):
    """The bias by the deviation matrix, (I - P + P*)^-1 (r - P* r)."""
    L = limit(P)
    return np.linalg.solve(np.eye(len(P)) - P + L, r - L @ r)


def random_mdp(rng, S=5, A=2, ends=False):
    """A model with few transitions: often periodic, often with several closed classes."""
    P = rng.dirichlet(np.ones(S + ends), (S, A)) * (rng.random((S, A, S + ends)) < rng.choice([0.2, 0.4, 1.0]))
    empty = P.sum(axis=2) == 0.0
    P[empty, rng.integers(S + ends, size=int(empty.sum()))] = 1.0
    P /= P.sum(axis=2, keepdims=True)
    r = rng.normal(size=(S, A)).round(int(rng.integers(0, 4)))
    termination = None
    if ends:
        termination = np.maximum(1.0 - P[..., :S].sum(axis=2), 0.0)
        termination[P[..., S] == 0.0] = 0.0
    return pr.MDP(P[..., :S], r, 0.9, termination=termination)


def with_end(mdp):
    """Transitions [S + 1, A, S + 1] and rewards with the end as an absorbing state that earns nothing."""
    S, A = mdp.admissible.shape
    P, r = np.zeros((S + 1, A, S + 1)), np.zeros((S + 1, A))
    P[:S, :, :S], r[:S] = mdp.dense(), mdp.reward
    P[:S, :, S] = 0.0 if mdp.termination is None else mdp.termination
    P[S, :, S] = 1.0
    return P, r


def best_gains(mdp):
    """The best gain of each state over all policies, one by one."""
    P, r = with_end(mdp)
    rows, best = np.arange(len(P)), np.full(len(P), -np.inf)
    for policy in product(*(np.flatnonzero(row) for row in mdp.admissible), [0]):
        best = np.maximum(best, limit(P[rows, policy]) @ r[rows, policy])
    return best[:-1]


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_gains_and_biases_are_those_of_stationary_laws(seed, ends):
    mdp = random_mdp(np.random.default_rng(seed), ends=ends)
    solution = pr.solve(mdp, objective="average")
    best = best_gains(mdp)
    size = max(abs(mdp.reward).max(), 1.0)
    assert abs(solution.value - best).max() <= 1e-9 * size
    np.testing.assert_allclose(np.broadcast_to(solution.gain, best.shape), best, atol=1e-9 * size)
    P, r = with_end(mdp)
    rows, policy = np.arange(len(P)), np.append(solution.policy, 0)
    P, r = P[rows, policy], r[rows, policy]
    assert abs((limit(P) @ r)[:-1] - best).max() <= 1e-8 * size  # the policy reaches them
    assert abs(solution.bias - bias_of(P, r)[:-1]).max() <= solution.bias_error + 1e-9 * abs(solution.bias).max()


def test_a_random_policy(rng):
    for _ in range(20):
        mdp = random_mdp(rng)
        shares = rng.dirichlet(np.ones(2), 5)
        solution = pr.evaluate(mdp, shares, objective="average")
        P, r = np.einsum("sa,sat->st", shares, mdp.dense()), (shares * mdp.reward).sum(axis=1)
        assert abs(solution.value - limit(P) @ r).max() <= 1e-9
        assert abs(solution.bias - bias_of(P, r)).max() <= solution.bias_error + 1e-9


def test_periods_do_not_matter():
    """A ring of 400 states, which no sweep mixes."""
    n = 400
    step = sparse.csr_array((np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)), shape=(n, n))
    reward = np.sin(np.arange(n)) + 0.25
    ring = pr.MDP(step, reward[:, None], 0.9)
    solution = pr.solve(ring, objective="average")
    assert solution.gain == pytest.approx(reward.mean(), abs=solution.error_bound)
    assert solution.error_bound < 1e-9
    # h(s + 1) - h(s) = gain - r(s)
    np.testing.assert_allclose(np.diff(solution.bias), (reward.mean() - reward)[:-1], atol=1e-9)
    swept = pr.solve(pr.MDP([[[0, 1]], [[1, 0]]], [1, 3], 0.9), objective="average", method="value_iteration")
    assert swept.gain == pytest.approx(2.0, abs=1e-9)


@pytest.mark.parametrize("n", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_long_queue(n):
    """Service fast or slow: against the stationary law of the policy, a product. Chains that BiCGStab cannot solve."""
    arrive, serve = 0.4, np.array([0.3, 0.5])
    s = np.arange(n)
    parts = []
    for a in range(2):
        for target, chance in ((np.minimum(s + 1, n - 1), arrive), (np.maximum(s - 1, 0), serve[a])):
            parts.append((2 * s + a, target, np.full(n, chance)))
        parts.append((2 * s + a, s, np.full(n, 1.0 - arrive - serve[a])))
    row, column, chance = map(np.concatenate, zip(*parts, strict=True))
    reward = np.stack([-1.0 * s, -1.0 * s - 20.0], axis=1)
    queue = pr.MDP(sparse.coo_array((chance, (row, column)), shape=(2 * n, n)).tocsr(), reward, 0.9)
    solution = pr.solve(queue, objective="average")
    law = np.exp(np.concatenate(([0.0], np.cumsum(np.log(arrive / serve[solution.policy[1:]])))))
    law /= law.sum()
    assert solution.gain == pytest.approx(law @ reward[s, solution.policy], abs=min(solution.error_bound, 1e-6))
    assert abs(law @ solution.bias) <= solution.bias_error
    other = solution.policy.copy()
    other[:4] = 1 - other[:4]
    assert pr.evaluate(queue, other, objective="average").gain < solution.gain


def test_ten_thousand_random_states(rng):
    """The certificate by one backup of NumPy, and the bias by its equation."""
    S, A, K = 10_000, 3, 4
    target, chance = rng.integers(S, size=(S * A, K)), rng.dirichlet(np.ones(K), S * A)
    P = sparse.csr_array((chance.ravel(), (np.repeat(np.arange(S * A), K), target.ravel())), shape=(S * A, S))
    mdp = pr.MDP(P, rng.normal(size=(S, A)), 0.9)
    solution = pr.solve(mdp, objective="average")
    q = mdp.reward + (mdp.transition @ solution.bias).reshape(S, A)
    ahead = q.max(axis=1) - solution.bias
    assert ahead.max() <= solution.gain + 1e-6  # the bias is of the policy: its optimality equation to the bias error
    own = q[np.arange(S), solution.policy] - solution.bias
    assert abs(own - solution.gain).max() <= 1e-9
    assert solution.error_bound <= 1e-9


def test_several_gains_are_named():
    """Stop at once for 1, or go on to a class that earns 2 or, with chance 0.4, to one that earns 0."""
    P = np.zeros((4, 2, 4))
    P[0, 0, 0], P[0, 1, [1, 2]] = 1.0, [0.6, 0.4]
    P[[1, 2, 3], :, [1, 2, 0]] = 1.0
    solution = pr.solve(pr.MDP(P, [[1, 0], [2, 2], [0, 0], [9, 9]], 0.9), objective="average")
    np.testing.assert_allclose(solution.gain, [1.2, 2.0, 0.0, 1.2], atol=1e-9)
    assert "multichain" in solution.message
    assert solution.policy_names[0] == 1
    assert solution.q[0, 0] < solution.q[0, 1]
    np.testing.assert_allclose(solution.bias, [-1.2, 0.0, 0.0, 9 - 1.2 - 1.2], atol=1e-9)
    worse = pr.solve(pr.MDP([[[1, 0], [0, 1]], [[0, 1]] * 2], [[2, 9], [1, 1]], 0.9), objective="average")
    np.testing.assert_allclose(worse.gain, [2.0, 1.0], atol=1e-9)
    assert worse.q[0, 1] == -np.inf  # earns 9 once, and less for ever


def test_an_absorbing_state_decides_alone():
    P = [[[0.5, 0.5]], [[0.0, 1.0]]]
    solution = pr.solve(pr.MDP(P, [10.0, 3.0], 0.9), objective="average")
    assert solution.gain == pytest.approx(3.0, abs=1e-9)
    np.testing.assert_allclose(solution.bias, [14.0, 0.0], atol=1e-9)


# -- under a posterior -------------------------------------------------------------------------------------


def problem_of(rng, alpha, S=4, A=2, discount=0.9, **keywords):
    model = pr.UncertainMDP.direct(rng.normal(size=(S, A)), discount)
    return pr.BayesianRiskMDP(model, rng.gamma(1.0, 3.0, (S * A, S)) + 0.1, alpha, **keywords)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.9, -0.6])
def test_the_gain_is_the_limit_of_discounted_values(rng, alpha):
    """(1 - gamma) V is within (1 - gamma) times the range of the bias of the gain, for every gamma."""
    problem = problem_of(rng, alpha)
    solution = problem.solve(objective="average")
    assert solution.error_bound <= 1e-10 * max(1.0, abs(problem.model.reward).max())
    for gap in (1e-1, 1e-3, 1e-5):
        near = problem.with_discount(1.0 - gap).solve()
        off = abs(gap * near.value - solution.gain).max()
        assert off <= gap * np.ptp(solution.bias) + gap * near.error_bound + solution.error_bound
    # T h = h + gain, by a backup that is not the solver's
    ahead = problem.with_discount(1.0).q_values(solution.bias)
    np.testing.assert_allclose(ahead.max(axis=1), solution.bias + solution.gain, atol=1e-9)


def test_level_zero_is_the_mean_model(rng):
    problem = problem_of(rng, 0.0)
    known = pr.solve(problem.mean_mdp(), objective="average")
    solution = problem.solve(objective="average")
    assert solution.gain == pytest.approx(known.gain, abs=1e-9)
    np.testing.assert_allclose(solution.bias, known.bias, atol=1e-9)
    tiny = pr.BayesianRiskMDP(problem.model, problem.posterior, 1e-9).solve(tol=1e-7, objective="average")
    assert tiny.gain == pytest.approx(known.gain, abs=1e-6)


def test_other_risks_draws_and_policies(rng):
    problem = problem_of(rng, 0.5)
    solution = problem.solve(objective="average")
    followed = problem.evaluate(solution, objective="average")
    assert followed.gain == pytest.approx(solution.gain, abs=1e-9)
    shares = np.full((4, 2), 0.5)
    mixed = problem.evaluate(shares, objective="average")
    assert mixed.gain <= solution.gain + 1e-9
    for risk in (pr.VaR(0.7), pr.MeanCVaR(0.9, weight=0.5), pr.risk.EntropicRisk(1.0)):
        other = pr.BayesianRiskMDP(problem.model, problem.posterior, risk=risk)
        found = other.solve(objective="average")
        ahead = other.with_discount(1.0).q_values(found.bias).max(axis=1) - found.bias
        assert np.ptp(ahead) <= 2e-9
        assert found.gain == pytest.approx(ahead.mean(), abs=1e-9)
    theta = rng.dirichlet(np.ones(4), (30, 8))
    given_draws = pr.BayesianRiskMDP(problem.model, draws=theta, alpha=0.5)
    found = given_draws.solve(objective="average")
    np.testing.assert_allclose(
        given_draws.with_discount(1.0).q_values(found.bias).max(axis=1), found.bias + found.gain, atol=1e-9
    )


def test_transient_states_under_a_posterior():
    """States that are left for good, and a support that makes the rest one class."""
    support = np.zeros((3, 1, 3), dtype=bool)
    support[0, 0, :], support[1:, 0, 1:] = True, True
    model = pr.UncertainMDP.direct([[5.0], [1.0], [2.0]], 0.9, support=support)
    counts = np.where(model.outcome_mask, 3.0, 0.0)
    solution = pr.BayesianRiskMDP(model, counts, 0.8).solve(objective="average")
    assert np.ptp(solution.value) == 0.0
    assert 1.0 < solution.gain < 1.5


def test_what_has_no_average_is_refused(rng):
    alone = np.zeros((3, 1, 3), dtype=bool)
    alone[0, 0, 0] = alone[1, 0, 1] = True
    alone[2, 0, :2] = True
    model = pr.UncertainMDP.direct([[1.0], [2.0], [0.0]], 0.9, support=alone)
    split = pr.BayesianRiskMDP(model, np.where(model.outcome_mask, 2.0, 0.0), 0.5)
    with refused(ModelError, "several-gains", value=2):
        split.solve(objective="average")
    mean = pr.solve(split.mean_mdp(), objective="average")
    np.testing.assert_allclose(mean.gain, [1.0, 2.0, 1.5], atol=1e-9)
    ending = pr.UncertainMDP.direct([[1.0], [0.0]], 0.9, terminal=[1])
    with refused(ModelError, "process-ends", argument="objective"):
        pr.BayesianRiskMDP(ending, ending.prior(), 0.5).solve(objective="average")
    known = random_mdp(rng)
    with refused(ParameterError, "unknown-option", argument="objective"):
        pr.solve(known, objective="mean")
    for name, value in {"horizon": 3, "start": 0, "terminal_value": 1.0}.items():
        with refused(ParameterError, "conflicting-arguments", argument=name):
            pr.solve(known, objective="average", **{name: value})
    with refused(ParameterError, "conflicting-arguments", argument="sweeps"):
        pr.solve(pr.MDP([[[1.0]]], [[1.0]], 0.9), objective="average", sweeps=3)


def test_a_cap_is_never_silent(rng):
    problem = problem_of(rng, 0.9)
    with warned(ConvergenceWarning, "iteration-cap"):
        capped = problem.solve(objective="average", max_iterations=2)
    full = problem.solve(objective="average")
    assert not capped.converged
    assert abs(capped.gain - full.gain) <= capped.error_bound + full.error_bound


def test_rows_that_do_not_quite_sum_to_one(rng):
    P = rng.dirichlet(np.ones(4), (4, 2))
    r = rng.normal(size=(4, 2))
    exact = pr.solve(pr.MDP(P, r, 0.9), objective="average")
    off = pr.solve(pr.MDP(P * (1.0 - 5e-10), r, 0.9), objective="average")
    assert abs(off.gain - exact.gain) <= off.error_bound + exact.error_bound


def nearly_decomposable(rng, parts, size, leaves, A=2):
    """A model of parts that the process leaves with a small probability only."""
    S = parts * size
    P = leaves * rng.dirichlet(np.ones(S), (S, A))
    for first in range(0, S, size):
        own = slice(first, first + size)
        P[own, :, own] += (1.0 - leaves) * rng.dirichlet(np.ones(size), (size, A))
    return pr.MDP(P / P.sum(axis=2, keepdims=True), rng.random((S, A)), 0.9)


def exact_gain(P, r):
    """The gain of a chain by elimination without subtractions (Grassmann, Taksar and Heyman), right to rounding."""
    P = P.copy()
    for n in range(len(P) - 1, 0, -1):
        P[:n, n] /= P[n, :n].sum()
        P[:n, :n] += np.outer(P[:n, n], P[n, :n])
    law = np.ones(len(P))
    for n in range(1, len(P)):
        law[n] = law[:n] @ P[:n, n]
    return float(law @ r / law.sum())


@pytest.mark.parametrize("leaves", [1e-5, 1e-8, 1e-11, 1e-13])
def test_models_that_are_nearly_several(rng, leaves):
    mdp = nearly_decomposable(rng, 3, 4, leaves)
    solution = pr.solve(mdp, objective="average")
    assert solution.converged
    assert solution.error_bound <= 1e-10 * max(abs(solution.gain), 0.01)
    rows = np.arange(mdp.n_states)
    own = exact_gain(mdp.dense()[rows, solution.policy], mdp.reward[rows, solution.policy])
    assert own == pytest.approx(solution.gain, abs=solution.error_bound + 1e-13)
    for _ in range(20):  # no other policy earns more
        other = np.where(rng.random(mdp.n_states) < 0.3, rng.integers(2, size=mdp.n_states), solution.policy)
        earns = exact_gain(mdp.dense()[rows, other], mdp.reward[rows, other])
        assert earns <= solution.gain + solution.error_bound + 1e-13
