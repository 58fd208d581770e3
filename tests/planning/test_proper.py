"""Discount 1 without a horizon: which models end, and certified values of those that do."""

from itertools import product

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from scipy.optimize import brentq

import prudent as pr
from prudent.errors import ModelError, ParameterError


def random_process(seed, n_states=4, n_actions=2, sparse=True):
    """A model with few transitions, some of which end it, and rewards that are often zero."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(n_states + 1, 1.0), (n_states, n_actions))
    if sparse:
        P *= rng.random(P.shape) < 0.45
        empty = P.sum(axis=2) == 0.0
        P[empty, rng.integers(n_states + 1, size=int(empty.sum()))] = 1.0
        P /= P.sum(axis=2, keepdims=True)
    reward = rng.normal(size=(n_states, n_actions)) * (rng.random((n_states, n_actions)) < 0.6)
    termination = np.where(P[..., -1] > 0.0, 1.0 - P[..., :-1].sum(axis=2), 0.0)
    termination = np.where(abs(P[..., :-1].sum(axis=2)) == 0.0, 1.0, termination)
    return pr.MDP(P[..., :-1], reward, 1.0, termination=termination)


def ends_under(mdp, policy):
    """Whether the process reaches, from everywhere, its end or states that earn nothing any more: by closure."""
    n = mdp.n_states
    P = mdp.dense()[np.arange(n), policy] > 0.0
    reach = np.linalg.matrix_power(np.eye(n, dtype=np.int64) + P, n) > 0  # [from, to]
    earns = mdp.reward[np.arange(n), policy] != 0.0
    stops = np.zeros(n, dtype=bool) if mdp.termination is None else mdp.termination[np.arange(n), policy] > 0.0
    over = ~(reach & earns).any(axis=1)
    return bool((reach & (over | stops)).any(axis=1).all())


def ends_always(mdp):
    """Whether every choice of actions does so, states being over where no action ever earns anything: by sweeps."""
    P = mdp.dense() > 0.0
    stops = np.zeros(mdp.admissible.shape, dtype=bool) if mdp.termination is None else mdp.termination > 0.0
    earning = (mdp.reward != 0.0).any(axis=1)
    for _ in range(mdp.n_states):
        earning = earning | (P & earning).any(axis=(1, 2))
    ends = ~earning
    for _ in range(mdp.n_states):
        ends = ends | (stops | (P & ends).any(axis=2)).all(axis=1)
    return bool(ends.all())


def values_of(mdp, policy):
    """Values in 40 digits, for the numbers as stored; states that earn nothing any more are worth 0."""
    n = mdp.n_states
    P, r = mdp.dense()[np.arange(n), policy], mdp.reward[np.arange(n), policy]
    reach = np.linalg.matrix_power(np.eye(n, dtype=np.int64) + (P > 0.0), n) > 0
    live = np.flatnonzero((reach & (r != 0.0)).any(axis=1))
    value = np.zeros(n)
    if live.size:
        with mp.workdps(40):
            matrix = mp.matrix(live.size, live.size)
            for i, s in enumerate(live):
                for j, t in enumerate(live):
                    matrix[i, j] = (1 if s == t else 0) - mp.mpf(float(P[s, t]))
            found = mp.lu_solve(matrix, mp.matrix([mp.mpf(float(r[s])) for s in live]))
            value[live] = [float(v) for v in found]
    return value


@given(st.integers(0, 10**9), st.booleans())
def test_a_policy_is_evaluated_exactly_if_it_ends(seed, sparse):
    mdp = random_process(seed, sparse=sparse)
    policy = np.random.default_rng(seed).integers(mdp.n_actions, size=mdp.n_states)
    policy = mdp.policy_indices(policy)
    if not ends_under(mdp, policy):
        with refused(ModelError, "endless-process"):
            pr.evaluate(mdp, policy)
        return
    found, exact = pr.evaluate(mdp, policy), values_of(mdp, policy)
    assert abs(found.value - exact).max() <= found.error_bound + 1e-15 * abs(exact).max()
    assert found.converged


@given(st.integers(0, 10**9), st.booleans())
def test_control_against_all_policies_and_the_graph(seed, sparse):
    mdp = random_process(seed, sparse=sparse)
    policies = [mdp.policy_indices(np.array(p)) for p in product(range(2), repeat=4)]
    try:
        found = pr.solve(mdp)
    except ModelError:
        assert not ends_always(mdp)
        return
    # policies that go on for ever lose without end, if there are any
    best = np.max([values_of(mdp, p) for p in policies if ends_under(mdp, p)], axis=0)
    assert abs(found.value - best).max() <= found.error_bound + 1e-15 * abs(best).max()


def test_the_named_state_can_be_kept_for_ever():
    # 'loop' can be left, but need not be; the way there is safe
    mdp = pr.MDP(
        [[[0, 1, 0], [0, 1, 0]], [[0, 1, 0], [0, 0, 1]], [[0, 0, 1], [0, 0, 1]]],
        reward=[[1, 1], [2, 2], [0, 0]],
        discount=1.0,
        states=["in", "loop", "out"],
        actions=["wait", "leave"],
    )
    with refused(ModelError, "endless-process"):
        pr.solve(mdp)
    assert pr.evaluate(mdp, ["wait", "leave", "wait"]).value.tolist() == [3.0, 2.0, 0.0]
    with refused(ModelError, "endless-process"):
        pr.evaluate(mdp, ["wait", "wait", "wait"])


@pytest.mark.parametrize("stay", [0.5, 0.999, 1.0 - 1e-6, 1.0 - 1e-9])
def test_long_waits_keep_their_certificate(stay):
    """A state that is left with probability 1 - stay: its value is reward / (1 - stay), for the numbers as given."""
    mdp = pr.MDP([[[stay]]], [[1.0]], 1.0, termination=[[1.0 - stay]])
    found = pr.solve(mdp)
    exact = 1.0 / (1.0 - stay)  # exact: 1 - stay is
    assert abs(found.value[0] - exact) <= found.error_bound + 1e-16 * exact
    assert found.error_bound <= 1e-9 * exact


def test_a_long_walk_and_many_states():
    n = 400  # beyond elimination
    P = np.zeros((n, 2, n))
    for s in range(n):
        P[s, 0, min(s + 1, n - 1)] = 1.0
        P[s, 1, max(s - 1, 0)], P[s, 1, min(s + 1, n - 1)] = 0.25, 0.75
    P[n - 1] = np.eye(n)[n - 1]
    mdp = pr.MDP(P, np.where(np.arange(n) < n - 1, -1.0, 0.0), 1.0)
    found = pr.solve(mdp)
    steps = np.arange(n - 1, -1, -1.0)
    assert abs(found.value + steps).max() <= found.error_bound
    assert found.error_bound < 1e-6
    slow = pr.evaluate(mdp, np.ones(n, dtype=int))
    # from s the drift of 1/2 needs twice the distance, but for the wall at 0
    assert slow.value[n // 2] == pytest.approx(-2.0 * steps[n // 2], rel=1e-9)


def test_hopeless_waits_are_refused():
    mdp = pr.MDP([[[1.0 - 2.0**-53]]], [[1.0]], 1.0, termination=[[1e-16]])
    with refused(ModelError, "endless-process"):
        pr.solve(mdp)
    rows = pr.MDP([[[1.0 + 1e-10]]], [[1.0]], 1.0, termination=[[1e-10]])
    with refused(ModelError, "endless-process"):
        pr.solve(rows)


def test_nothing_to_earn_is_no_reason_to_refuse():
    mdp = pr.MDP([[[0.5, 0.5]], [[0.5, 0.5]]], [0.0, 0.0], 1.0)
    assert pr.solve(mdp).value.tolist() == [0.0, 0.0]


def game(discount=1.0):
    return pr.UncertainMDP(
        [[0], [-1], [-1]],
        [[[0, 1, 2]]] * 3,
        [[-0.1]] * 3,
        discount=discount,
        states=["play", "won", "lost"],
        terminal={"won": 1.0, "lost": -1.0},
    )


@pytest.mark.filterwarnings("ignore::prudent.errors.ConvergenceWarning")  # of models with few digits
@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.9])
def test_a_bayesian_risk_game_against_its_equation(alpha):
    counts = np.array([5.0, 4.0, 3.0])
    problem = pr.BayesianRiskMDP(game(), counts[None], alpha)
    found = problem.solve()

    def gap(v):
        ahead = -0.1 + np.array([v, 1.0, -1.0])
        mean = ahead @ counts / counts.sum()
        return (mean if alpha == 0.0 else pr.exact.cvar_dirichlet(ahead, counts, alpha)) - v

    root = brentq(gap, -50.0, 10.0, xtol=1e-14)
    assert found.value.tolist() == pytest.approx([root, 1.0, -1.0], abs=1e-9)
    assert abs(found.value[0] - root) <= found.error_bound + 1e-10
    sampled = problem.solve(400, rng=3) if alpha else found
    assert abs(sampled.value[0] - root) < 0.3
    assert problem.evaluate([0, 0, 0]).value == pytest.approx(found.value, abs=1e-9)
    discounted = pr.BayesianRiskMDP(game(1.0 - 1e-7), counts[None], alpha).solve()
    assert abs(discounted.value[0] - found.value[0]) < 1e-5


def test_a_bayesian_risk_game_that_may_not_end_is_refused():
    model = pr.UncertainMDP.direct([[0.0, 0.1], [1.0, 0.0]], discount=1.0)
    with refused(ModelError, "endless-process"):
        pr.BayesianRiskMDP(model, model.prior(), 0.5).solve()
    with refused(ParameterError, "missing-argument", argument="horizon"):
        pr.BayesianRiskMDP(game(), [[5.0, 4.0, 3.0]], risk=pr.VaR(0.5)).solve(100, rng=0)
    # an outcome that cannot happen ends nothing
    with refused(ModelError, "endless-process"):
        pr.BayesianRiskMDP(game(), pr.DirichletPosterior([[1.0, 0.0, 0.0]]), 0.5).solve()


def test_returns_of_a_process_that_never_ends_are_refused():
    mdp = pr.MDP([[[1.0]]], [[1.0]], 1.0)
    with refused(ModelError, "endless-process"):
        pr.returns(mdp, [0])
    assert pr.returns(mdp, [0], horizon=5, replications=3).tolist() == [5.0] * 3


def grid(n, slip, step=-1.0, loops=True):
    """A walk on n x n cells to the last one; moves off the grid stay, as some of those that slip do."""
    P = np.zeros((n * n, 4, n * n))
    moves = [(0, 1), (1, 0), (0, -1), (-1, 0)]
    for s in range(n * n):
        for a in range(4):
            for b, chance in ((a, 1.0 - slip), ((a + 1) % 4, slip / 2.0), ((a + 3) % 4, slip / 2.0)):
                row, column = s // n + moves[b][0], s % n + moves[b][1]
                inside = 0 <= row < n and 0 <= column < n
                P[s, a, row * n + column if inside else s] += chance
    P[-1] = np.eye(n * n)[-1]
    reward = np.full((n * n, 4), step)
    reward[-1] = 0.0
    return pr.MDP(P, reward, 1.0)


@pytest.mark.parametrize(("n", "slip"), [(3, 0.0), (4, 0.2), (20, 0.1)])
def test_walks_that_may_bump_into_a_wall_for_ever_are_solved(n, slip):
    mdp = grid(n, slip)
    found = pr.solve(mdp)
    assert found.converged
    # value iteration from 0 falls to the optimum, that from a proper policy rises to it
    above = pr.solve(mdp, horizon=60 * n).value[0]
    below = pr.solve(mdp, horizon=60 * n, terminal_value=pr.evaluate(mdp, np.full((n * n, 4), 0.25)).value).value[0]
    assert (found.value <= above + found.error_bound + 1e-9).all()
    assert (found.value >= below - found.error_bound - 1e-9).all()
    assert abs(above - below).max() < 1e-6
    if slip == 0.0:
        cells = np.arange(n * n)
        assert found.value == pytest.approx(-(2 * (n - 1) - cells // n - cells % n), abs=1e-9)
    assert np.isfinite(found.q).all()
    assert (found.q.max(axis=1) <= found.value + 1e-9).all()


def test_cliff_walking_as_in_the_book():
    cliff = pr.MDP.from_gymnasium("CliffWalking-v1", 1.0)
    assert pr.solve(cliff).value[36] == pytest.approx(-13.0, abs=1e-9)


def test_going_on_for_nothing_or_for_profit_is_refused():
    for step in (0.0, 1.0):
        mdp = grid(3, 0.0, step)
        reward = mdp.reward.copy()
        reward[[5, 7], [1, 0]] = 1.0  # the last step before the end
        with refused(ModelError, "endless-process"):
            pr.solve(pr.MDP(mdp.transition, reward, 1.0))


@pytest.mark.parametrize("seed", range(8))
def test_the_screen_holds_where_leaks_are_of_another_norm(seed):
    """At discount 1 the certificate's leak is no leak of rows, which the screen of the exact operator must not use."""
    rng = np.random.default_rng(seed)
    n_states, n_actions, n_outcomes = 6, 4, 3
    next_state = rng.integers(0, n_states, (n_states, n_actions, n_outcomes))
    next_state[..., 0] = -2
    model = pr.UncertainMDP(
        np.arange(n_states * n_actions).reshape(n_states, n_actions),
        next_state,
        3.0 * rng.normal(size=next_state.shape),
        discount=1.0,
    )
    counts = rng.integers(1, 6, (n_states * n_actions, n_outcomes)).astype(float)
    problem = pr.BayesianRiskMDP(model, pr.DirichletPosterior(counts), alpha=rng.choice([0.3, 0.7, 0.9]))
    ended, long = problem.solve(), problem.solve(horizon=300)
    assert abs(ended.value - long.value[0]).max() <= ended.error_bound + long.error_bound + 1e-8
