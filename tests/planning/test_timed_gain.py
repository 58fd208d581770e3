"""The gain of a unit of time: against models that wait, all policies, vanishing discounts and a simulation."""

from itertools import product

import numpy as np
import pytest
from _durations import random_model, waiting
from refusals import refused, warned

import prudent as pr
from prudent.errors import ConvergenceWarning, ModelError, ParameterError

LEVELS = (0.0, 0.5, 0.9, -0.6)


def mean_parts(model, theta):
    """Mean transitions [S*A, S], rewards and durations [S*A], by a loop over the entries."""
    e, size = model.entries, model.source.size
    P, r, time = np.zeros((size, model.n_states)), np.zeros(size), np.zeros(size)
    for p in range(size):
        for k, j in enumerate(range(e.first[p], e.first[p + 1])):
            chance = theta[e.source[p], k]
            P[p, e.next_state[j]] += chance
            r[p] += chance * e.reward[j]
            time[p] += chance * model.duration[j]
    return P, r, time


def stationary(P):
    """The stationary law of a chain with one closed class."""
    return np.linalg.lstsq(np.vstack([np.eye(len(P)) - P.T, np.ones(len(P))]), np.eye(len(P) + 1)[-1], rcond=None)[0]


def test_level_zero_is_the_best_of_all_policies(rng):
    """Mean reward of a step over its mean duration, by stationary laws."""
    for _ in range(4):
        model, posterior = random_model(rng, S=4, ends=False, longest=6)
        solution = pr.BayesianRiskMDP(model, posterior, 0.0).solve(objective="average")
        P, r, time = mean_parts(model, posterior.mean())
        gains = {}
        for policy in product(range(2), repeat=4):
            rows = np.arange(4) * 2 + policy
            law = stationary(P[rows])
            gains[policy] = (law @ r[rows]) / (law @ time[rows])
        assert solution.gain == pytest.approx(max(gains.values()), abs=1e-9)
        assert gains[tuple(solution.policy)] == pytest.approx(solution.gain, abs=1e-9)
        rows = np.arange(4) * 2 + solution.policy
        ahead = r[rows] - solution.gain * time[rows] + P[rows] @ solution.bias
        np.testing.assert_allclose(ahead, solution.bias, atol=1e-9)


def test_a_simulation_earns_the_gain(rng):
    """Of 4,000 runs of 400 steps; 5 standard errors, a false alarm in two million runs of this test."""
    model, posterior = random_model(rng, S=4, ends=False, longest=6)
    solution = pr.BayesianRiskMDP(model, posterior, 0.0).solve(objective="average")
    e, theta, n = model.entries, posterior.mean(), 4_000
    state, earned, spent = np.zeros(n, int), np.zeros(n), np.zeros(n)
    edges = theta.cumsum(axis=1)
    for step in range(430):
        pair = state * 2 + solution.policy[state]
        outcome = np.minimum((rng.random(n)[:, None] >= edges[e.source[pair]]).sum(axis=1), 3)
        entry = e.first[pair] + outcome
        if step >= 30:
            earned, spent = earned + e.reward[entry], spent + model.duration[entry]
        state = e.next_state[entry]
    beyond = earned - solution.gain * spent  # has mean zero but for where runs begin and end
    edge = 2.0 * np.ptp(solution.bias) * np.sqrt(n) / n
    assert abs(beyond.mean()) <= 5.0 * beyond.std() / np.sqrt(n) + edge


@pytest.mark.parametrize("alpha", LEVELS)
def test_durations_are_steps_of_waiting(rng, alpha):
    for _ in range(3):
        model, posterior = random_model(rng, ends=False)
        S = model.n_states
        one, other = pr.BayesianRiskMDP(model, posterior, alpha), pr.BayesianRiskMDP(*waiting(model, posterior), alpha)
        ours, theirs = one.solve(objective="average"), other.solve(objective="average")
        assert ours.converged
        assert ours.error_bound <= 1e-10 * max(abs(ours.gain), 0.01 * abs(model.entries.reward).max())
        assert abs(ours.gain - theirs.gain) <= ours.error_bound + theirs.error_bound
        np.testing.assert_allclose(ours.bias - ours.bias[0], theirs.bias[:S] - theirs.bias[0], atol=1e-8)
        np.testing.assert_array_equal(ours.policy, theirs.policy[:S])
        np.testing.assert_allclose(ours.q.max(axis=1), ours.bias, atol=1e-9)
        shares = rng.dirichlet(np.ones(2), S)
        mixed = np.zeros((theirs.value.size, 2))
        mixed[:, 0], mixed[:S] = 1.0, shares
        followed, same = one.evaluate(shares, objective="average"), other.evaluate(mixed, objective="average")
        assert abs(followed.gain - same.gain) <= followed.error_bound + same.error_bound
        assert followed.gain <= ours.gain + followed.error_bound + ours.error_bound


def test_other_risks_and_draws_wait_too(rng):
    model, posterior = random_model(rng, ends=False)
    plain, same = waiting(model, posterior)
    for risk in (pr.VaR(0.7), pr.MeanCVaR(0.9, weight=0.5), pr.risk.EntropicRisk(1.0)):
        ours, theirs = (
            pr.BayesianRiskMDP(m, p, risk=risk).solve(objective="average")
            for m, p in ((model, posterior), (plain, same))
        )
        assert abs(ours.gain - theirs.gain) <= ours.error_bound + theirs.error_bound
    theta = posterior.sample(40, rng)
    more = np.zeros((40, *same.counts.shape))
    more[..., 0] = 1.0
    more[:, : theta.shape[1]] = theta
    ours = pr.BayesianRiskMDP(model, alpha=0.8, draws=theta).solve(objective="average")
    theirs = pr.BayesianRiskMDP(plain, alpha=0.8, draws=more).solve(objective="average")
    assert abs(ours.gain - theirs.gain) <= ours.error_bound + theirs.error_bound
    # a number of draws: all values of the search use the same ones
    problem = pr.BayesianRiskMDP(model, posterior, 0.8)
    solution = problem.solve(objective="average", draws=60, rng=3)
    assert solution.converged
    again = problem.evaluate(solution.policy, objective="average", draws=60, rng=3)
    assert again.gain == pytest.approx(solution.gain, abs=solution.error_bound + again.error_bound)


@pytest.mark.parametrize("alpha", LEVELS)
def test_the_gain_is_the_limit_of_discounted_values(rng, alpha):
    """|(1 - gamma) V - gain| is at most (1 - gamma) times |gain| D (D - 1) / 2 + (D + 1) max|h|, D the longest."""
    model, posterior = random_model(rng, ends=False)
    problem = pr.BayesianRiskMDP(model, posterior, alpha)
    solution = problem.solve(objective="average")
    longest = float(model.duration.max())
    slack = abs(solution.gain) * longest * (longest - 1.0) / 2.0 + (longest + 1.0) * np.ptp(solution.bias) / 2.0
    for gap in (1e-1, 1e-3, 1e-5):
        near = problem.with_discount(1.0 - gap).solve(tol=1e-4)
        assert abs(gap * near.value - solution.gain).max() <= gap * (slack + near.error_bound) + solution.error_bound


def test_equal_durations_divide_the_gain(rng):
    """Unknown rewards as well, which have no bounds."""
    model, posterior = random_model(rng, ends=False)
    rewards = pr.posteriors.NormalPosterior(rng.normal(size=(5, 2)), np.full((5, 2), 3.0), 1.0)
    for unknown in (None, rewards):
        gains = []
        for duration in (np.full(model.entries.reward.size, 2.5), None):
            model.duration = duration
            problem = pr.BayesianRiskMDP(model, posterior, 0.7, reward_posterior=unknown)
            gains.append(problem.solve(objective="average").gain)
        assert gains[0] == pytest.approx(gains[1] / 2.5, abs=1e-9)


def test_explanations_are_net_of_the_gain(rng):
    """What an action is worth in the explanation is Q of the solution, so the chosen one is worth most."""
    model, posterior = random_model(rng, ends=False)
    for alpha in (0.0, 0.9):
        solution = pr.BayesianRiskMDP(model, posterior, alpha).solve(objective="average")
        for s in range(5):
            table = solution.explain(s).to_pandas().sort_values("action")
            np.testing.assert_allclose(table["value"], solution.q[s], atol=1e-8)
    two = np.zeros((2, 1, 2), dtype=bool)
    two[0, 0, 0] = two[1, 0, 1] = True
    split = pr.UncertainMDP.direct([[1.0], [2.0]], 0.9, support=two)
    several = pr.BayesianRiskMDP(split, split.prior(), 0.0).solve(objective="average")
    with refused(ParameterError, "several-gains"):
        several.explain(0)


def test_what_has_no_average_is_refused(rng):
    model, posterior = random_model(rng)
    with refused(ModelError, "process-ends", argument="objective"):
        pr.BayesianRiskMDP(model, posterior, 0.5).solve(objective="average")
    pair, next_state = np.array([0, 1]), np.array([0, 1])
    apart = pr.UncertainMDP.from_entries(
        np.array([[0], [1]]),
        pair,
        np.array([0, 0]),
        next_state,
        np.array([1.0, 5.0]),
        0.9,
        duration=np.array([1.0, 2.0]),
    )
    with refused(ModelError, "several-gains", value=2):
        pr.BayesianRiskMDP(apart, [[3.0], [3.0]], 0.5).solve(objective="average")
    mean = pr.BayesianRiskMDP(apart, [[3.0], [3.0]], 0.0).solve(objective="average")
    np.testing.assert_allclose(mean.gain, [1.0, 2.5], atol=1e-9)


def test_a_cap_is_never_silent(rng):
    model, posterior = random_model(rng, ends=False)
    problem = pr.BayesianRiskMDP(model, posterior, 0.9)
    with warned(ConvergenceWarning, "iteration-cap"):
        capped = problem.solve(objective="average", max_iterations=5)
    full = problem.solve(objective="average")
    assert not capped.converged
    assert abs(capped.gain - full.gain) <= capped.error_bound + full.error_bound
