"""Terminal states and outcomes that end the process, against dense enumeration, MDP.solve and closed forms."""

from fractions import Fraction

import gymnasium
import numpy as np
import pytest
from refusals import refused
from scipy import stats

import prudent as pr
from prudent import MDP, BayesianRiskMDP, DirichletPosterior, UncertainMDP
from prudent.errors import DataError, ModelError, ParameterError


def game(discount=0.9, **options):
    """Two states to act in, two terminal ones, and outcomes that end the process."""
    source = [[0, 1], [-1, -1], [1, 2], [7, 7]]
    targets = [[[0, 1, 2], [2, -2, 3]], [[9, 9, 9]] * 2, [[2, -2, 1], [0, 3, -1]], [[5, 5, 5]] * 2]
    reward = np.arange(24.0).reshape(4, 2, 3) % 5 - 1.0
    reward[1] = np.nan
    names = options.get("states", range(4))
    return UncertainMDP(source, targets, reward, discount, terminal={names[1]: -2.5, names[3]: 4.0}, **options)


THETA = np.array([[0.2, 0.3, 0.5], [0.4, 0.35, 0.25], [0.6, 0.4, 0.0], [1.0, 0.0, 0.0]])


def iterated(model, theta, sweeps=2000):
    """The optimal values by plain enumeration."""
    value = np.zeros(model.n_states)
    for _ in range(sweeps):
        new = np.full(value.size, -np.inf)
        for s, a in zip(*np.nonzero(model.admissible), strict=True):
            q = 0.0
            for k in np.flatnonzero(model.outcome_mask[model.source[s, a]]):
                target = model.next_state[s, a, k]
                later = value[target] if target >= 0 else 0.0
                q += theta[model.source[s, a], k] * (model.reward[s, a, k] + model.discount * later)
            new[s] = max(new[s], q)
        value = new
    return value


def test_terminal_states_have_one_pair_that_ends():
    model = game()
    assert model.terminal.tolist() == [False, True, False, True]
    assert model.terminal_value.tolist() == [0.0, -2.5, 0.0, 4.0]
    assert model.n_sources == 4
    assert model.source.tolist() == [[0, 1], [3, -1], [1, 2], [3, -1]]
    assert model.next_state[1, 0].tolist() == [-2, -1, -1]
    assert model.outcome_mask[3].tolist() == [True, False, False]
    assert "4 states (2 terminal), 2 actions, 4 sources" in repr(model)
    assert model == game()
    assert model != UncertainMDP(
        [[0, 1], [-1, -1], [1, 2], [-1, -1]],
        np.where(model.next_state == -2, -2, model.next_state),
        model.reward,
        0.9,
        terminal=[1, 3],
    )


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9, 0.999])
def test_known_sampled_and_mean_operators_agree_with_enumeration(discount):
    model = game(discount)
    truth = iterated(model, THETA, 200 if discount < 0.99 else 40_000)
    mdp = model.mdp(THETA)
    assert (mdp.termination[model.terminal, 0] == 1.0).all()
    assert (mdp.terminal == model.terminal).all()
    known = pr.solve(mdp)
    mean = BayesianRiskMDP(model, 1e3 * THETA, alpha=0).solve()
    sampled = BayesianRiskMDP(model, 1e3 * THETA, alpha=0.5).solve(draws=THETA[None])
    for solution in (known, mean, sampled):
        assert solution.converged
        np.testing.assert_allclose(solution.value, truth, rtol=0, atol=1e-9)
        assert solution.value[1] == -2.5
        assert solution.value[3] == 4.0
        assert abs(solution.value - truth).max() <= solution.error_bound + 1e-10
        assert solution.policy_names[1] is None
        assert solution.policy_names[0] is not None


@pytest.mark.parametrize("method", ["newton", "value_iteration"])
def test_certificates_with_leaks_hold_in_rational_arithmetic(method):
    """Evaluate a policy exactly with fractions: the certified error covers what the solver returns."""
    model = game(0.95)
    counts = np.array([[2.0, 3, 5], [8, 7, 5], [6, 4, 0], [1, 0, 0]])
    problem = BayesianRiskMDP(model, counts, alpha=0)
    for policy in ([0, 0, 0, 0], [1, 0, 1, 0], [0, 0, 1, 0]):
        matrix, right = [], []
        gamma = Fraction(model.discount)
        for s, a in enumerate(policy):
            row, gain = [Fraction(int(s == t)) for t in range(4)], Fraction(0)
            b = model.source[s, a]
            total = sum(map(Fraction, counts[b]))
            for k in np.flatnonzero(counts[b]):
                weight = Fraction(counts[b, k]) / total
                gain += weight * Fraction(model.reward[s, a, k])
                if model.next_state[s, a, k] >= 0:
                    row[model.next_state[s, a, k]] -= gamma * weight
            matrix.append(row)
            right.append(gain)
        truth = solved(matrix, right)
        for tol in (1e-3, 1e-9, 1e-14):
            found = problem.evaluate(policy, tol=tol, method=method)
            assert max(abs(Fraction(v) - t) for v, t in zip(found.value, truth, strict=True)) <= found.error_bound
            assert found.error_bound < 1e-2


def solved(matrix, right):
    n = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i in range(n):
        pivot = next(j for j in range(i, n) if rows[j][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for j in range(n):
            if j != i and rows[j][i]:
                factor = rows[j][i] / rows[i][i]
                rows[j] = [x - factor * y for x, y in zip(rows[j], rows[i], strict=True)]
    return [rows[i][n] / rows[i][i] for i in range(n)]


@pytest.mark.parametrize("alpha", [0.5, 0.9, 0.99])
def test_exact_values_of_a_game_of_one_step_are_cvar_of_a_beta(alpha):
    """Win with unknown chance p ~ Beta(a, b): the value is gamma times CVaR of lost + (won - lost) p."""
    a, b, gamma, won, lost = 3.0, 2.0, 0.9, 2.0, -1.0
    model = UncertainMDP([[0], [-1], [-1]], [[[1, 2]]] * 3, [[0.5]] * 3, gamma, terminal={1: won, 2: lost})
    low = stats.beta(a, b).ppf(1 - alpha)
    tail = a / (a + b) * stats.beta(a + 1, b).cdf(low) / (1 - alpha)  # E[p | p <= low]
    solution = BayesianRiskMDP(model, [[a, b], [1, 0]], alpha).solve()
    assert solution.value[0] == pytest.approx(0.5 + gamma * (lost + (won - lost) * tail), abs=1e-10)
    assert solution.value[1:].tolist() == [won, lost]
    # an outcome that ends instead of arriving in a state of value 0
    ends = UncertainMDP([[0]], [[[0, -2]]], [[[1.0, 0.0]]], gamma)
    value = BayesianRiskMDP(ends, [[a, b]], alpha).solve()
    assert value.value[0] == pytest.approx(tail / (1 - gamma * tail), abs=1e-9)
    assert abs(value.value[0] - tail / (1 - gamma * tail)) <= value.error_bound + 1e-12


def test_exact_and_sampled_contain_the_answer_within_their_bounds():
    model = game(0.97)
    counts = np.array([[2.0, 3, 5], [8, 7, 5], [6, 4, 0], [1, 0, 0]])
    problem = BayesianRiskMDP(model, counts, alpha=0.8)
    for draws, rng in ((None, None), (50, 3)):
        sharp = problem.solve(draws, rng, tol=1e-12)
        for tol in (1.0, 1e-3, 1e-6):
            for method in ("newton", "value_iteration"):
                rough = problem.solve(draws, rng, tol=tol, method=method)
                assert abs(rough.value - sharp.value).max() <= rough.error_bound + sharp.error_bound
                assert rough.error_bound <= tol


def test_models_that_end_at_once_and_that_never_end():
    at_once = UncertainMDP([[0, 1]], [[[-2, -2], [-2, -1]]], [[[1.0, 3.0], [1.9, 0.0]]], 0.9)
    assert BayesianRiskMDP(at_once, [[1.0, 1.0], [1.0, 0.0]], 0).solve().value == pytest.approx([2.0], abs=1e-12)
    assert BayesianRiskMDP(at_once, [[1.0, 1.0], [1.0, 0.0]], 0.9).solve().policy.tolist() == [1]
    with refused(ModelError, "all-terminal"):
        UncertainMDP([[0]], [[[0]]], [[1.0]], 0.9, terminal=[0])


def test_constructors_pass_terminal_states_on():
    names = ["ill", "well", "dead"]
    direct = UncertainMDP.direct(np.zeros((3, 2)), 0.9, states=names, terminal={"well": 1.0, "dead": -1.0})
    assert direct.source.tolist() == [[0, 1], [2, -1], [2, -1]]
    support = np.ones((3, 2, 3), dtype=bool)
    support[0, 1, 2] = False
    sparse = UncertainMDP.direct(np.zeros((3, 2)), 0.9, support=support, states=iter(names), terminal=["well", "dead"])
    assert sparse.next_state[0].tolist() == [[0, 1, 2], [0, 1, -1]]

    def dose(state, action, noise):
        assert state == "ill"
        return (None if noise == "leaves" else noise), -1.0

    noise = ["ill", "well", "dead", "leaves"]
    dynamic = UncertainMDP.from_dynamics(dose, names, ["give", "wait"], noise, 0.9, terminal=["well", "dead"])
    assert dynamic.next_state[0, 0].tolist() == [0, 1, 2, -2]
    assert dynamic.outcomes == (tuple(noise), (0,))
    assert dynamic.compatible("ill", "give", None).tolist() == [3]
    rows = [("ill", a, n, None if n == "leaves" else n, -1.0) for a in ("give", "wait") for n in noise]
    table = UncertainMDP.from_table(rows, 0.9, states=names, terminal=["well", "dead"])
    np.testing.assert_array_equal(table.mdp(table.prior() / [[4], [1]]).reward, [[-1, -1], [0, 0], [0, 0]])
    assert sorted(table.next_state[0, 0].tolist()) == [-2, 0, 1, 2]


def test_from_mdp_keeps_rewards_of_transitions_and_ends():
    lake = MDP.from_gymnasium(gymnasium.make("FrozenLake-v1"), 0.9)
    model = UncertainMDP.from_mdp(lake)
    ends = lake.terminal
    assert (model.terminal == ends).all()
    assert ends.sum() == 5
    # the goal is reached from state 14 in one of three outcomes that end; only that one pays
    found = {(int(t), float(r)) for t, r in zip(model.next_state[14, 2], model.reward[14, 2], strict=True) if t != -1}
    assert found == {(14, 0.0), (10, 0.0), (-2, 1.0)}
    theta = np.zeros(model.outcome_mask.shape)
    for s, a in zip(*np.nonzero(model.admissible & ~model.terminal[:, None]), strict=True):
        for k, t in enumerate(model.next_state[s, a]):
            if t != -1:
                pair = s * 4 + a
                theta[model.source[s, a], k] = lake.termination[s, a] if t == -2 else lake.transition[pair, t]
    theta[-1, 0] = 1.0
    np.testing.assert_allclose(model.mdp(theta).reward[~ends], lake.reward[~ends], atol=1e-15)
    np.testing.assert_allclose(pr.solve(model.mdp(theta)).value, pr.solve(lake).value, atol=1e-9)

    P, R = np.full((2, 1, 2), 0.5), np.array([[[0.0, -100.0]], [[1.0, 1.0]]])
    rich = MDP(P, R, 0.9)
    assert rich.transition_reward is not None
    np.testing.assert_array_equal(UncertainMDP.from_mdp(rich).reward, R)
    plain = MDP(P, rich.reward, 0.9)
    assert plain.transition_reward is None
    np.testing.assert_array_equal(UncertainMDP.from_mdp(plain).reward[0, 0], [-50, -50])
    rows = [(s, 0, t, 0.5, R[s, 0, t]) for s in (0, 1) for t in (0, 1)]
    np.testing.assert_array_equal(UncertainMDP.from_mdp(MDP.from_table(rows, 0.9)).reward, R)
    # a transition of probability zero in a table has no reward to keep
    with_zero = [*rows[:2], (1, 0, 0, 0.0, 7.0), (1, 0, 1, 1.0, 1.0)]
    assert UncertainMDP.from_mdp(MDP.from_table(with_zero, 0.9)).reward[1, 0].tolist() == [1.0, 0.0]


def test_logs_of_processes_that_end():
    model = game(states=["a", "lost", "b", "won"])
    prior = model.prior()
    log = [("a", 0, "lost"), ("b", 0, None), ("a", 1, np.nan), ("b", 1, "won"), ("a", 1, "b", 0)]
    counts = model.count(log, prior)
    expected = prior.copy()
    for b, k in ((0, 1), (1, 1), (1, 1), (2, 1), (1, 0)):
        expected[b, k] += 1
    np.testing.assert_array_equal(counts, expected)
    with refused(DataError, "terminal-state", row=1, state="lost", action=0):
        model.count([("a", 0, "lost"), ("lost", 0, "lost")], prior)
    with refused(DataError, "impossible-transition", row=0, state="a", action=0):
        model.count([("a", 0, None)], prior)
    with refused(DataError, "impossible-transition", row=0, state="b", action=0):
        model.count([("b", 0, "b", 1)], prior)
    endless = UncertainMDP.direct(np.zeros((2, 1)), 0.9)
    with refused(DataError, "unknown-state", column="next_state", row=0):
        endless.count([(0, 0, None)], endless.prior())


def test_trajectories_restart_after_an_end():
    model = game()
    log = model.trajectory(THETA, [0, 0, 1, 0], 3000, rng=1)
    over = np.isin(log[:-1, 2], (-2, 1, 3))
    assert (log[1:, 0] == np.where(over, 0, log[:-1, 2])).all()
    assert not np.isin(log[:, 0], (1, 3)).any()
    np.testing.assert_array_equal(log[:100], model.trajectory(THETA, [0, 0, 1, 0], 100, rng=1))
    np.testing.assert_array_equal(
        model.count(log, model.prior(), indices=True), model.count(log[:, :3], model.prior(), indices=True)
    )
    log = model.trajectory(THETA, [1, 0, 0, 0], 20_000, rng=2, start={0: 0.25, 2: 0.75})
    over = np.isin(log[:-1, 2], (-2, 1, 3))
    started = log[1:, 0][over]
    assert stats.binomtest(int((started == 0).sum()), started.size, 0.25).pvalue > 1e-6
    np.testing.assert_array_equal(log[:7], model.trajectory(THETA, [1, 0, 0, 0], 7, rng=2, start={0: 0.25, 2: 0.75}))
    with refused(ParameterError, "terminal-start", state=1):
        model.trajectory(THETA, [0, 0, 0, 0], 5, state=1)


def test_start_distributions():
    model = game(states=["a", "lost", "b", "won"])
    assert model.start_distribution().tolist() == [0.5, 0, 0.5, 0]
    assert model.start_distribution("b").tolist() == [0, 0, 1, 0]
    assert model.start_distribution({"b": 0.5, "a": 0.5}).tolist() == [0.5, 0, 0.5, 0]
    assert model.start_distribution([1.0, 0, 0, 0]).tolist() == [1, 0, 0, 0]
    for bad, message in (
        ("won", "terminal-start"),
        ("nowhere", "unknown-state"),
        ({"a": 0.5}, "sum-not-one"),
        ([0.5, 0.5], "wrong-shape"),
        ({"a": 1.5, "b": -0.5}, "negative"),
    ):
        with refused(ParameterError, message):
            model.start_distribution(bad)


def test_agents_and_simulation_restart():
    problem = pr.envs.Problem(game(0.8), THETA)
    runs = pr.simulate(
        problem,
        [pr.agents.ts_rl(), pr.brps_rl(0.9)],
        episodes=30,
        replications=3,
        record=["states", "policies"],
        threads=1,
    )
    states = runs.states.values.reshape(2, 3, -1)
    assert not np.isin(states, (1, 3)).any()
    agent = pr.PosteriorSamplingAgent(problem.model, alpha=0.9, rng=1)
    assert agent.act(0) in (0, 1)
    agent.observe(2, 0, None)
    agent.observe(0, 1, 3)
    assert agent.posterior.counts.sum() == problem.model.prior().sum() + 2
    with refused(DataError, "terminal-state", state=3, action=0):
        agent.observe(3, 0, 0)
    with refused(ParameterError, "terminal-start"):
        pr.envs.Problem(game(), THETA, start=1)
    env = pr.envs.TabularEnv(problem)
    rewards = pr.simulation.learn(agent, env, 200, rng=1)
    assert np.isfinite(rewards).all()


def test_agents_values_are_those_of_the_certified_solver(tmp_path):
    model = game(0.8)
    agent = pr.PosteriorSamplingAgent(model, settings=pr.agents.certainty_equivalence(), rng=1)
    value = BayesianRiskMDP(model, model.prior(), 0).solve().value
    np.testing.assert_allclose(agent.value, value, atol=1e-8)
    agent.save(tmp_path / "agent.state")
    again = pr.PosteriorSamplingAgent.load(tmp_path / "agent.state")
    assert again.model == model
    assert (again.value == agent.value).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"terminal": [9]}, "unknown-state"),
        ({"terminal": {1: np.inf}}, "not-finite"),
        ({"terminal": ["x"]}, "unknown-state"),
        ({"terminal": [0]}, "unused-source"),
    ],
)
def test_bad_terminal_states_are_named(options, message):
    with refused(ModelError, message):
        UncertainMDP([[0], [1], [1], [1]], [[[0, 1]]] * 4, [[0.0]] * 4, 0.9, **options)


def test_posteriors_of_models_with_ends():
    model = game()
    posterior = DirichletPosterior.for_model(model)
    draws = posterior.sample(20, rng=1)
    assert (draws[:, -1, 0] == 1.0).all()
    solution = BayesianRiskMDP(model, posterior, 0.9).solve(draws=20, rng=1)
    assert solution.value[3] == 4.0
    q = solution.q[0]
    y = model.reward[0] + 0.9 * np.where(model.next_state[0] >= 0, solution.value[model.next_state[0]], 0.0)
    for a in (0, 1):
        z = draws[:, model.source[0, a]] @ np.where(model.next_state[0, a] == -1, 0.0, y[a])
        assert q[a] == pytest.approx(pr.cvar(z, 0.9), abs=1e-8)
