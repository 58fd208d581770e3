"""Entropic risk and EVaR of the return: against all paths of tiny models, laws, extremes, and what is said if wrong."""

import math
import warnings
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

import prudent as pr
from prudent.errors import DataError, ModelError, ParameterError


def tiny(seed, n_states=2, n_actions=2, discount=0.8, ends=False):
    """A model with rewards of single transitions."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(n_states, 0.8), (n_states, n_actions))
    if not ends:
        return pr.MDP(P, rng.normal(size=(n_states, n_actions, n_states)), discount)
    rows = []
    for s, a, t in product(range(n_states), range(n_actions), range(n_states)):
        chance = P[s, a, t]
        split = rng.random()
        rows += [(s, a, t, chance * split, rng.normal()), (s, a, t, chance * (1.0 - split), rng.normal())]
    return pr.MDP.from_table(rows, discount)  # two rewards for the same transition


def paths(mdp, policy, start, final):
    """Return all returns and their probabilities, path by path; ``policy`` [T, S]."""
    first, target, reward, chance = mdp.outcomes()
    ends = []

    def go(time, state, earned, likely):
        if time == len(policy):
            ends.append((earned + mdp.discount**time * final[state], likely))
            return
        p = state * mdp.n_actions + policy[time][state]
        for e in range(first[p], first[p + 1]):
            now, still = earned + mdp.discount**time * reward[e], likely * chance[e]
            if target[e] < 0:
                ends.append((now, still))
            else:
                go(time + 1, target[e], now, still)

    for state in np.flatnonzero(start):
        go(0, int(state), 0.0, float(start[state]))
    values, chances = np.array(ends).T
    return values, chances


def entropic(values, chances, beta):
    """The definition, in 50 digits."""
    with mp.workdps(50):
        total = mp.fsum(mp.mpf(p) * mp.exp(-mp.mpf(beta) * mp.mpf(x)) for x, p in zip(values, chances, strict=True))
        return float(-mp.log(total / mp.fsum(map(mp.mpf, chances))) / mp.mpf(beta))


def evar(values, chances, alpha):
    """By brute force: a fine grid over beta, then the best of its neighbourhood."""
    price = -math.log1p(-alpha)

    def loss(place):
        beta = math.exp(place)
        return price / beta + logsumexp(-beta * values, b=chances / chances.sum()) / beta

    grid = np.linspace(-8.0, 12.0, 400)
    at = grid[np.argmin([loss(place) for place in grid])]
    found = minimize_scalar(loss, bounds=(at - 0.1, at + 0.1), method="bounded", options={"xatol": 1e-11})
    return max(-found.fun, values.min())


def policies(mdp, horizon):
    n = mdp.n_states
    for flat in product(range(mdp.n_actions), repeat=n * horizon):
        yield np.array(flat).reshape(horizon, n)


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("beta", [1e-3, 0.5, 3.0, 40.0])
def test_entropic_risk_of_a_policy_against_all_paths(beta, ends):
    mdp = tiny(4, 3, 2, ends=ends)
    rng = np.random.default_rng(1)
    policy, final, start = rng.integers(2, size=(4, 3)), rng.normal(size=3), np.array([0.2, 0.3, 0.5])
    found = pr.evaluate(mdp, policy, objective=pr.Entropic(beta), start=start, horizon=4, terminal_value=final)
    values, chances = paths(mdp, policy, start, final)
    truth = entropic(values, chances, beta)
    assert abs(found.objective_value - truth) < 1e-12
    assert abs(found.objective_value - truth) <= found.error_bound
    one = pr.evaluate(mdp, policy, objective=pr.Entropic(beta), start=1, horizon=4, terminal_value=final)
    assert abs(one.value[0, 1] - entropic(*paths(mdp, policy, np.eye(3)[1], final), beta)) < 1e-12
    assert pr.Entropic(beta)(values, chances) == pytest.approx(truth, abs=1e-12)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("beta", [0.01, 1.0, 20.0])
def test_the_best_entropic_policy_against_all_policies_and_paths(seed, beta):
    mdp = tiny(seed, ends=seed == 1)
    start, final = np.array([0.5, 0.5]), np.array([0.0, 1.0])
    found = pr.solve(mdp, objective=pr.Entropic(beta), start=start, horizon=3, terminal_value=final)
    best = max(pr.Entropic(beta)(*paths(mdp, policy, start, final)) for policy in policies(mdp, 3))
    assert abs(found.objective_value - best) < 1e-12
    assert abs(entropic(*paths(mdp, found.policy, start, final), beta) - best) < 1e-12
    assert found.policy.shape == (3, 2)


@pytest.mark.parametrize(("seed", "alpha"), [(0, 0.2), (1, 0.5), (2, 0.7), (3, 0.95)])
def test_the_best_evar_against_all_policies_and_paths(seed, alpha):
    mdp = tiny(seed, ends=seed % 2 == 1)
    start, final = np.array([0.25, 0.75]), np.zeros(2)
    found = pr.solve(mdp, objective=pr.EVaR(alpha), start=start, horizon=3)
    everyone = [paths(mdp, policy, start, final) for policy in policies(mdp, 3)]
    # most policies are out of the race already by CVaR, which bounds EVaR from above
    bounds = np.array([pr.cvar(values, alpha, weights=chances) for values, chances in everyone])
    best = -np.inf
    for i in np.argsort(-bounds):
        if bounds[i] > best:
            best = max(best, evar(*everyone[i], alpha))
    assert abs(found.objective_value - best) < 1e-10
    assert abs(evar(*paths(mdp, found.policy, start, final), alpha) - best) < 1e-10
    assert found.error_bound >= 0.0
    assert found.converged
    one = pr.evaluate(mdp, found, objective=pr.EVaR(alpha), start=start, horizon=3)
    assert abs(one.objective_value - best) < 1e-10


@pytest.mark.parametrize("beta", [0.3, 5.0])
def test_endless_entropic_risk_against_a_long_horizon(beta):
    mdp = tiny(2, 4, 3, 0.7)
    found = pr.solve(mdp, objective=pr.Entropic(beta), start=0)
    long = pr.solve(mdp, objective=pr.Entropic(beta), start=0, horizon=160)
    assert abs(found.objective_value - long.objective_value) <= found.error_bound + 1e-13
    assert found.error_bound < 1e-9
    assert found.later is not None
    assert (found.later == pr.solve(mdp).policy).all()
    assert (found.policy_at(10**6) == found.later).all()
    # what the policy itself is worth, by the same measure
    again = pr.evaluate(mdp, found, objective=pr.Entropic(beta), start=0)
    assert abs(again.objective_value - found.objective_value) <= 2.0 * found.error_bound
    rough = pr.solve(mdp, 1e-3, objective=pr.Entropic(beta), start=0)
    assert rough.horizon < found.horizon
    assert rough.error_bound <= 1e-3
    assert abs(rough.objective_value - long.objective_value) <= rough.error_bound
    followed = pr.evaluate(mdp, rough, objective=pr.Entropic(beta), start=0).objective_value
    assert followed >= long.objective_value - rough.error_bound


def test_endless_evar_is_that_of_a_long_horizon():
    mdp = tiny(5, 3, 2, 0.4)
    found = pr.solve(mdp, objective=pr.EVaR(0.8), start=1)
    long = pr.solve(mdp, objective=pr.EVaR(0.8), start=1, horizon=50)
    assert abs(found.objective_value - long.objective_value) < 1e-9
    drawn = pr.returns(mdp, found, start=1, replications=200_000, rng=1)
    # a lower bound on CVaR of the same level; 5 standard errors: false alarm 3e-7
    table = drawn.summary(0.8)
    assert found.objective_value <= drawn.cvar(0.8) + 5.0 * table.standard_error["CVaR 0.8"]


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.floats(-12.0, 6.0), st.floats(0.0, 2.0))
def test_laws_in_beta(seed, power, more):
    """Falling in beta, between the mean and the worst, shifted with the rewards; any beta from 1e-12 to 1e6."""
    mdp = tiny(seed, 3, 2, 0.9)
    beta = 10.0**power
    low, high = (pr.solve(mdp, objective=pr.Entropic(b), start=0, horizon=5) for b in (beta * 10.0**more, beta))
    slack = low.error_bound + high.error_bound
    assert low.objective_value <= high.objective_value + slack
    mean = pr.solve(mdp, horizon=5).value[0, 0]
    assert high.objective_value <= mean + slack
    assert mean - high.objective_value <= beta * (np.ptp(mdp.outcomes().reward) * 4.0951) ** 2 / 8.0 + slack
    shifted = pr.MDP(mdp.transition, mdp.reward, 0.9)
    assert np.isfinite(pr.solve(shifted, objective=pr.Entropic(beta), horizon=5).value).all()


@pytest.mark.parametrize("beta", [1e-300, 1e-12, 1e-8, 1e-4, 1.0, 1e3, 1e6, 1e300])
def test_entropic_means_keep_their_digits(beta):
    rng = np.random.default_rng(3)
    for scale in (1e-6, 1.0, 1e6):
        values, chances = scale * rng.normal(size=7), rng.dirichlet(np.ones(7))
        found = pr.Entropic(beta)(values, chances)
        with mp.workdps(400 if beta < 1e-100 else 50):
            low = mp.mpf(float(values.min()))
            total = mp.fsum(
                mp.mpf(float(p)) * mp.exp(-mp.mpf(beta) * (mp.mpf(float(x)) - low))
                for x, p in zip(values, chances, strict=True)
            ) / mp.fsum(mp.mpf(float(p)) for p in chances)
            truth = float(low - mp.log(total) / mp.mpf(beta))
        assert abs(found - truth) <= 1e-14 * np.ptp(values) + 4e-16 * abs(truth), (scale, found, truth)


@given(st.integers(0, 10**6), st.floats(0.0, 0.999), st.integers(1, 30))
def test_evar_of_draws_is_below_cvar_and_above_the_worst(seed, alpha, n):
    rng = np.random.default_rng(seed)
    draws = rng.normal(size=n) * 10.0 ** rng.integers(-4, 5)
    found, size = pr.EVaR(alpha)(draws), 1e-9 * (abs(draws).max() + 1e-300)
    assert draws.min() - size <= found <= pr.cvar(draws, alpha) + size
    assert pr.EVaR(5e-324)(draws) == pytest.approx(draws.mean(), abs=size)
    assert np.isfinite(pr.EVaR(alpha)(draws * 1e-300))
    assert np.isfinite(pr.EVaR(alpha)(draws * 1e300))
    higher = pr.EVaR(min(0.999, alpha + 0.1))(draws)
    assert higher <= found + size


def test_closed_forms():
    # a fair bet of +-1 repeated at discount 1: entropic risk adds up
    coin = pr.MDP([[[0.5, 0.5]], [[0.5, 0.5]]], [[[1.0, -1.0]], [[1.0, -1.0]]], 1.0)
    found = pr.solve(coin, objective=pr.Entropic(0.7), horizon=9)
    assert found.objective_value == pytest.approx(-9.0 * math.log(math.cosh(0.7)) / 0.7, abs=1e-12)
    assert found.value[3, 0] == pytest.approx(-6.0 * math.log(math.cosh(0.7)) / 0.7, abs=1e-12)
    # without chance there is nothing to risk
    sure = pr.MDP([[[1.0], [1.0]]], [[1.0, 2.0]], 0.5)
    for objective in (pr.Entropic(1e6), pr.EVaR(0.99)):
        assert pr.solve(sure, objective=objective).objective_value == pytest.approx(4.0, abs=1e-9)
        assert pr.solve(sure, 1e-6, objective=objective).objective_value == pytest.approx(4.0, abs=1e-6)
    # EVaR of a state that is drawn at the start is that of the start
    still = pr.MDP([[[1.0, 0.0]], [[0.0, 1.0]]], [0.0, 1.0], 0.0)
    found = pr.solve(still, objective=pr.EVaR(0.3), horizon=1)
    assert found.objective_value == pytest.approx(pr.EVaR(0.3)([0.0, 1.0]), abs=1e-12)


def test_caution_changes_with_time():
    """Early risks count in full, late ones by beta gamma^t: the same gamble is declined now and taken later."""
    # state 0: wait for 0.45, or gamble between 0 and 1; every step
    P = [[[1.0], [1.0]]]
    rows = [("s", "wait", "s", 1.0, 0.45), ("s", "bet", "s", 0.5, 0.0), ("s", "bet", "s", 0.5, 1.0)]
    mdp = pr.MDP.from_table(rows, 0.8)
    plan = pr.solve(mdp, objective=pr.Entropic(2.0))
    names = [row[0] for row in plan.policy_names]
    assert names[0] == "wait"
    assert names[-1] == "bet"
    turn = names.index("bet")
    assert names == ["wait"] * turn + ["bet"] * (len(names) - turn)
    # declined while -log((1 + exp(-b)) / 2) / b < 0.45 with b = 2 * 0.8^t
    worth = [-math.log((1.0 + math.exp(-b)) / 2.0) / b for b in 2.0 * 0.8 ** np.arange(len(names))]
    assert names == ["bet" if w > 0.45 else "wait" for w in worth]
    assert mdp.knows_single_rewards
    assert len(plan.plot().axes) == 2
    mean_only = pr.MDP(P, [[0.45, 0.5]], 0.8)
    sure = pr.solve(mean_only, objective=pr.Entropic(2.0))
    assert "taken as certain" in sure.message
    assert set(sure.policy.ravel()) == {1}


def test_rewards_of_single_outcomes_come_through_a_posterior_mean():
    """Two outcomes lead to the same state and differ in what they earn."""
    model = pr.UncertainMDP([[0]], [[[0, 0]]], [[[0.0, 1.0]]], discount=0.9)
    problem = pr.BayesianRiskMDP(model, [[3.0, 1.0]], 0.5)
    found = pr.solve(problem.mean_mdp(), objective=pr.Entropic(2.0), horizon=1)
    assert found.objective_value == pytest.approx(-math.log(0.75 + 0.25 * math.exp(-2.0)) / 2.0, abs=1e-14)
    drawn = pr.returns(problem.mean_mdp(), [0], horizon=1, replications=2000, rng=0)
    assert set(drawn.tolist()) == {0.0, 1.0}


def test_stochastic_policies_are_part_of_the_risk():
    mdp = pr.MDP([[[1.0], [1.0]]], [[0.0, 1.0]], 1.0)
    found = pr.evaluate(mdp, [[0.5, 0.5]], objective=pr.Entropic(1.5), horizon=2)
    values, chances = [0.0, 1.0, 2.0], [0.25, 0.5, 0.25]
    assert found.objective_value == pytest.approx(entropic(values, chances, 1.5), abs=1e-13)
    worth = pr.evaluate(mdp, [[0.5, 0.5]], objective=pr.EVaR(0.5), horizon=2).objective_value
    assert worth == pytest.approx(evar(np.array(values), np.array(chances), 0.5), abs=1e-9)


def test_a_tolerance_for_evar_is_kept():
    mdp = tiny(11, 4, 3, 0.9)
    fine = pr.solve(mdp, 1e-5, objective=pr.EVaR(0.9), start=0, horizon=6)
    assert fine.converged
    assert fine.error_bound <= 1e-5 + 1e-9
    rough = pr.solve(mdp, 0.1, objective=pr.EVaR(0.9), start=0, horizon=6)
    assert abs(rough.objective_value - fine.objective_value) <= rough.error_bound + 1e-9


@pytest.mark.parametrize("objective", [pr.EVaR(0.9), pr.Entropic(2.0)])
@pytest.mark.parametrize("tol", [0.1, 1e-3])
def test_a_tolerance_covers_the_tail_of_an_endless_return_too(objective, tol):
    found = pr.solve(tiny(11, 4, 3, 0.9), tol, objective=objective, start=0)
    assert found.converged
    assert found.error_bound <= tol


MDP = pr.MDP([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]], [[5, 4], [0, -3]], discount=0.9)
WALK = pr.MDP([[[0.5, 0.5]], [[0.5, 0.5]]], [0.0, 1.0], 1.0)


@pytest.mark.parametrize(
    ("call", "error", "code", "argument"),
    [
        (lambda: pr.Entropic(-1.0), ParameterError, "negative", "beta"),
        (lambda: pr.Entropic(np.inf), ParameterError, "not-finite", "beta"),
        (lambda: pr.Entropic("2"), ParameterError, "not-a-number", "beta"),
        (lambda: pr.Entropic("two"), ParameterError, "not-numbers", "beta"),
        (lambda: pr.EVaR(1.0), ParameterError, "alpha-range", "alpha"),
        (lambda: pr.EVaR(0.5)([]), DataError, "no-draws", "draws"),
        (lambda: pr.EVaR(0.5)([1.0, np.nan]), DataError, "not-finite", "draws"),
        (lambda: pr.EVaR(0.5)([1.0, 2.0], [1.0]), DataError, "wrong-shape", "weights"),
        (lambda: pr.EVaR(0.5)([1.0, 2.0], [0.0, 0.0]), DataError, "sum-zero", "weights"),
        (lambda: pr.solve(MDP, objective=0.9), ParameterError, "wrong-type", "objective"),
        (lambda: pr.solve(MDP, objective=pr.CVaR(0.9)), ParameterError, "wrong-type", "objective"),
        (lambda: pr.solve(MDP, objective=pr.EVaR(0.9), sweeps=3), ParameterError, "conflicting-arguments", "sweeps"),
        (
            lambda: pr.solve(MDP, objective=pr.EVaR(0.9), initial_value=[1, 2]),
            ParameterError,
            "conflicting-arguments",
            "initial_value",
        ),
        (
            lambda: pr.solve(MDP, objective=pr.EVaR(0.9), terminal_value=[1, 2]),
            ParameterError,
            "conflicting-arguments",
            "terminal_value",
        ),
        (lambda: pr.solve(MDP, objective=pr.Entropic(1.0), tol=-1), ParameterError, "not-positive", "tol"),
        (lambda: pr.solve(WALK, objective=pr.Entropic(1.0)), ParameterError, "missing-argument", "horizon"),
        (
            lambda: pr.evaluate(MDP, [[0, 0]], objective=pr.Entropic(1.0)),
            ParameterError,
            "missing-argument",
            "horizon",
        ),
    ],
)
def test_invalid_arguments_are_refused(call, error, code, argument):
    with refused(error, code, argument=argument):
        call()


def test_invalid_models_and_starts_are_refused():
    with pytest.raises(ParameterError):
        pr.solve(MDP, objective=pr.EVaR(0.9), start=7)
    with refused(ModelError, "wrong-type"):
        pr.solve(pr.UncertainMDP.direct([[1.0]], 0.9), objective=pr.EVaR(0.9))
    problem = pr.BayesianRiskMDP(pr.UncertainMDP.direct([[1.0]], 0.9), [[1.0]], 0.5)
    with refused(ParameterError, "conflicting-arguments", argument="objective"):
        problem.solve(objective=pr.EVaR(0.9))
    with refused(ParameterError, "conflicting-arguments", argument="start"):
        problem.solve(start=0)
    with pytest.raises(TypeError):
        pr.solve(MDP, terminal=[0, 0])


@pytest.mark.parametrize(
    "objective", [pr.Entropic(0.0), pr.Entropic(1e-12), pr.Entropic(1e6), pr.EVaR(1e-12), pr.EVaR(1.0 - 1e-12)]
)
@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
def test_extremes_do_not_break_anything(objective, scale):
    mdp = pr.MDP(MDP.transition, MDP.reward * scale, 0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = pr.solve(mdp, objective=objective, start=0, horizon=4)
        endless = pr.solve(pr.MDP(MDP.transition, mdp.reward, 0.3), objective=objective, start=0)
    mean = pr.solve(mdp, horizon=4).value[0, 0]
    assert -12.0 * scale <= found.objective_value <= mean + 1e-12 * scale
    assert np.isfinite(endless.objective_value)
    assert found.error_bound <= 1e-3 * 20.0 * scale
