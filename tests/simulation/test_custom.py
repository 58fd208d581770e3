"""Agents of any class in `simulate`: the same worlds as ours, exact regret, and refusals by name."""

from __future__ import annotations

import time

import numba
import numpy as np
import pytest
from numba.experimental import jitclass
from refusals import refused

import prudent as pr
from prudent.errors import ParameterError

LAKE = pr.envs.frozen_lake(0.2)
RECORD = ["states", "policies", "rewards"]


class Fixed:
    """Follows one policy; the base of the agents below."""

    def __init__(self, model):
        self.policy = model.admissible.argmax(axis=1)

    def reset(self, rng):
        self.rng = rng

    def act(self, state):
        return self.policy[state]

    def observe(self, state, action, next_state, outcome, reward):
        pass


class Blind(Fixed):
    """Shows no policy."""

    def __init__(self, model):
        self.actions = model.admissible.argmax(axis=1)

    def act(self, state):
        return self.actions[state]


class Coin(Fixed):
    """Takes any admissible action, each with the same chance."""

    def __init__(self, model):
        self.policy = model.admissible / model.admissible.sum(axis=1, keepdims=True)

    def act(self, state):
        return int(self.rng.choice(self.policy.shape[1], p=self.policy[state]))


def windy(discount=0.9):
    """A line of cells with wind, rewards by outcome, an end and a terminal state."""
    next_state = np.full((4, 2, 3), 0)
    for s in range(3):
        next_state[s, 0] = [max(s - 1, 0), s, min(s + 1, 3)]
        next_state[s, 1] = [s, min(s + 1, 3), -2 if s == 1 else min(s + 2, 3)]
    reward = np.where(next_state == 3, 1.0, 0.0) + np.array([0.0, 0.1, 0.2])
    model = pr.UncertainMDP(
        [[0, 1], [0, 1], [0, 1], [0, 1]],
        next_state,
        reward,
        discount,
        terminal=["goal"],
        states=["a", "b", "c", "goal"],
    )
    return pr.envs.Problem(model, [[0.3, 0.4, 0.3], [0.2, 0.5, 0.3]], observed=False)


@pytest.mark.parametrize("problem", [LAKE, windy()], ids=["lake", "windy"])
@pytest.mark.parametrize("pairing", ["step", "source"])
def test_our_own_classes_give_the_numbers_of_the_compiled_loops(problem, pairing):
    agents = {
        "compiled": pr.brps_rl(0.9),
        "class": lambda model: pr.PosteriorSamplingAgent(model, 0.9, episode_length=7, indices=True),
    }
    options = {"episodes": 12, "replications": 3, "episode_length": 7, "record": RECORD, "pairing": pairing, "rng": 4}
    runs = pr.simulate(problem, agents, br_episodes=[5], alphas=[0.5], **options)
    one, two = runs.isel(agent=0, drop=True), runs.isel(agent=1, drop=True)
    np.testing.assert_allclose(one.regret.values, two.regret.values, rtol=1e-12, atol=1e-12)
    assert one.drop_vars("regret").identical(two.drop_vars("regret"))


def test_optimistic_agents_too():
    agents = {
        "compiled": pr.agents.optimistic_vi(0.5),
        "class": lambda model: pr.OptimisticVIAgent(model, 0.5, horizon=60, indices=True),
    }
    runs = pr.simulate(LAKE, agents, episodes=6, replications=3, record=RECORD).drop_vars("margin")
    np.testing.assert_allclose(*runs.regret.values, rtol=1e-12, atol=1e-12)
    assert (
        runs.isel(agent=0, drop=True).drop_vars("regret").identical(runs.isel(agent=1, drop=True).drop_vars("regret"))
    )


def test_the_regret_of_a_policy_is_exact():
    runs = pr.simulate(LAKE, [Fixed, Coin, Blind], episodes=15, replications=4, record=["states"])
    best = pr.solve(LAKE.mdp(), tol=1e-13).value
    for label, policy in {"Fixed": Fixed(LAKE.model).policy, "Coin": Coin(LAKE.model).policy}.items():
        own = pr.evaluate(LAKE.mdp(), policy, tol=1e-13).value
        mine = runs.sel(agent=label)
        expected = (best - own)[mine.states.values].sum(axis=2).cumsum(axis=1)
        np.testing.assert_allclose(mine.regret.values, expected, rtol=1e-9, atol=1e-9)
    assert np.isnan(runs.regret.sel(agent="Blind").values).all()
    # Blind takes the same actions, so it meets the same world
    for name in ("states", "reward"):
        np.testing.assert_array_equal(runs[name].sel(agent="Blind").values, runs[name].sel(agent="Fixed").values)


def test_observations_are_those_of_the_model():
    """Next states, outcomes and rewards agree with the tables; ends are None, outcomes that are not shown, too."""
    seen = []

    class Scribe(Coin):
        def observe(self, *row):
            seen.append(row)

    problem = windy()
    pr.simulate(problem, Scribe, episodes=30, replications=2)
    model = problem.model
    assert None in {row[2] for row in seen}
    for state, action, after, outcome, reward in seen:
        assert outcome is None
        targets = model.next_state[state, action]
        assert reward in model.reward[state, action, targets == (-2 if after is None else after)]
    seen.clear()
    pr.simulate(LAKE, Scribe, episodes=5, replications=2)
    for state, action, after, outcome, reward in seen:
        assert after == LAKE.model.next_state[state, action, outcome]
        assert reward == LAKE.model.reward[state, action, outcome]


def test_reset_comes_before_every_replication_with_the_stream_of_the_replication():
    numbers = []

    class Counter(Blind):
        def reset(self, rng):
            numbers.append(rng.random())

    pr.simulate(LAKE, Counter, episodes=1, replications=3, rng=7)
    assert numbers == [np.random.default_rng(np.random.SeedSequence(7, spawn_key=(r, 1))).random() for r in range(3)]
    more = pr.simulate(LAKE, Coin, episodes=5, replications=2, first_replication=3, rng=7)
    all_of_them = pr.simulate(LAKE, Coin, episodes=5, replications=5, rng=7)
    assert more.equals(all_of_them.isel(replication=slice(3, None)))


@pytest.mark.parametrize("action", [7, -1, "left", None, 0.5, np.nan])
def test_actions_that_the_model_does_not_have(action):
    class Wrong(Blind):
        def act(self, state):
            return action

    with refused(ParameterError, "unknown-action", argument="agents", state=0):
        pr.simulate(LAKE, Wrong, episodes=1, replications=1)


def test_agents_that_are_none():
    with refused(ParameterError, "wrong-type", argument="agents", value="dict"):
        pr.simulate(LAKE, {"dict": lambda model: {}})
    with refused(ParameterError, "wrong-type", argument="agents"):
        pr.simulate(LAKE, [Fixed(LAKE.model)])
    with refused(ParameterError, "duplicate-label", argument="agents", value="Fixed"):
        pr.simulate(LAKE, [Fixed, Fixed])
    with refused(ParameterError, "conflicting-arguments", argument="br_episodes"):
        pr.simulate(LAKE, Fixed, br_episodes=[0], alphas=[0.5])
    named = windy()
    with refused(ParameterError, "wrong-type", argument="agents", value="by name"):
        pr.simulate(named, {"by name": lambda model: pr.PosteriorSamplingAgent(model)})

    class NoSuchPolicy(Fixed):
        def __init__(self, model):
            self.policy = np.full(model.n_states, 9)

        def act(self, state):
            return 0

    with refused(ParameterError, "wrong-policy", argument="agents"):
        pr.simulate(LAKE, NoSuchPolicy, episodes=1, replications=1)


def test_an_agent_that_is_made_already_is_refused_with_a_remedy():
    with refused(ParameterError, "wrong-type", argument="agents", index=(0,)) as caught:
        pr.simulate(LAKE, Fixed(LAKE.model), episodes=1, replications=1)
    assert "give the class Fixed" in str(caught.value)


@pytest.mark.parametrize("problem", ["lake", 3, (LAKE.model,), (1, 2)])
def test_problems_that_are_none(problem):
    with refused(ParameterError, "wrong-type"):
        pr.simulate(problem, Fixed, episodes=1, replications=1)


@pytest.mark.parametrize(
    ("shape", "episodic"),
    [
        ("actions", False),
        ("actions", True),
        ("probabilities", False),
        ("probabilities", True),
        ("steps", True),
        ("steps, probabilities", True),
    ],
)
def test_a_policy_that_is_shown_and_not_followed_is_refused(shape, episodic):
    """Its exact regret would be that of another policy."""

    class Explorer(Fixed):
        honest = False

        def __init__(self, model):
            self.policy = np.ones(model.n_states, dtype=np.int64)
            if "probabilities" in shape:
                self.policy = np.eye(model.n_actions)[self.policy]
            if "steps" in shape:
                self.policy = np.stack([self.policy] * 10)

        def act(self, state):
            return 1 if self.honest else 2

    class Honest(Explorer):
        honest = True

    assert np.isfinite(pr.simulate(LAKE, Honest, episodes=2, replications=1, episodic=episodic).regret).all()
    with refused(ParameterError, "wrong-policy", argument="agents", state=0, value=2):
        pr.simulate(LAKE, Explorer, episodes=2, replications=1, episodic=episodic)


def test_whole_numbers_of_any_type_are_actions_and_nothing_else_is():
    """Also where an equal int was taken before: True == 1 and 1.0 == 1 are equal keys of a dict."""
    kinds = {"int": int, "numpy": np.int32, "array": np.array}
    agents = {name: lambda model, kind=kind: Turns(model, [kind(1)]) for name, kind in kinds.items()}
    runs = pr.simulate(LAKE, agents, episodes=3, replications=2)
    assert (runs.reward == runs.reward[0]).all()
    for action in (True, np.True_, 1.0, np.float64(1.0), "1", None, np.array([1, 1])):
        with refused(ParameterError, "unknown-action", argument="agents"):
            pr.simulate(LAKE, lambda model, action=action: Turns(model, [1, 1, action]), episodes=3, replications=1)


class Turns:
    """Takes the actions of a list in turn."""

    def __init__(self, model, actions):
        self.actions = actions

    def reset(self, rng):
        self.turn = 0

    def act(self, state):
        self.turn += 1
        return self.actions[(self.turn - 1) % len(self.actions)]

    def observe(self, state, action, next_state, outcome, reward):
        assert type(action) is int


def test_an_error_of_an_agent_says_where_it_was():
    class Fails(Fixed):
        def reset(self, rng):
            self.steps = 0

        def observe(self, *row):
            self.steps += 1
            return 1 / (14 - self.steps)

    with pytest.raises(ZeroDivisionError) as caught:
        pr.simulate(LAKE, {"mine": Fails}, episodes=3, replications=1, first_replication=5)
    where, replication = caught.value.__notes__
    assert where.startswith("agent 'mine' in episode 2, step 4, state ")
    assert replication == "in replication 5"


def test_signatures_are_checked_before_the_run():
    class Deaf(Fixed):
        def observe(self, state, action, next_state):
            pass

    class Blind(Fixed):
        def act(self):
            pass

    class Still(Fixed):
        def reset(self):
            pass

    class Lost(Fixed):
        def __init__(self):
            pass

    for kind in (Deaf, Blind, Still, Lost, lambda: Fixed, lambda model, other: Fixed(model)):
        with refused(ParameterError, "wrong-type", argument="agents", value="mine"):
            pr.simulate(LAKE, {"mine": kind}, episodes=1, replications=1)


def test_a_start_by_name():
    problem = windy()
    by_name, by_index = (
        pr.simulate(problem, pr.brps_rl(0.5), episodes=4, replications=2, start=start, record=["states"])
        for start in ("c", 2)
    )
    assert by_name.equals(by_index)
    assert (by_name.states.isel(episode=0, step=0) == 2).all()
    assert pr.envs.Problem(problem.model, problem.theta, start="b").start == 1
    with refused(ParameterError, "terminal-start", argument="start"):
        pr.simulate(problem, pr.brps_rl(0.5), start="goal")
    with refused(ParameterError, "unknown-state", argument="start", value="nowhere"):
        pr.simulate(problem, pr.brps_rl(0.5), start="nowhere")


# -- episodes of finite length -------------------------------------------------------------------------------


class Finite(Fixed):
    """Knows the truth, and follows the optimal policy of the horizon."""

    def __init__(self, model, horizon=6, problem=None):
        self.policy = pr.solve(problem.mdp(), horizon=horizon).policy
        self.horizon = horizon

    def reset(self, rng):
        self.step = -1

    def act(self, state):
        self.step = (self.step + 1) % self.horizon
        return self.policy[self.step, state]


@pytest.mark.parametrize("discount", [0.9, 1.0])
def test_regret_of_a_finite_horizon(discount):
    from prudent.envs.frozen_lake import frozen_lake  # ends at no state: every episode has all steps

    lake = frozen_lake(0.2)
    model = pr.UncertainMDP(lake.model.source, lake.model.next_state, lake.model.reward, discount)
    problem = pr.envs.Problem(model, lake.theta, start=5)
    agents = {"optimal": lambda model: Finite(model, problem=problem), "fixed": Fixed, "coin": Coin}
    options = {"episodes": 8, "replications": 3, "episode_length": 6, "episodic": True, "record": ["states", "rewards"]}
    runs = pr.simulate(problem, agents, **options)
    assert (runs.states.isel(step=0) == 5).all()
    assert abs(runs.regret.sel(agent="optimal")).max() < 1e-12
    best = pr.solve(problem.mdp(), horizon=6).value[0, 5]
    for label, agent in (("fixed", Fixed(model)), ("coin", Coin(model))):
        loss = best - pr.evaluate(problem.mdp(), agent.policy, horizon=6).value[0, 5]
        np.testing.assert_allclose(runs.regret.sel(agent=label).values[0], loss * np.arange(1, 9), rtol=1e-12)
    if discount == 1.0:
        with refused(ParameterError, "discount-range", argument="discount"):
            pr.simulate(problem, Fixed)


def test_an_episode_ends_where_the_process_ends():
    runs = pr.simulate(windy(), Fixed, episodes=50, replications=2, episodic=True, record=["states", "rewards"])
    over = (runs.states == -1).values
    assert over.any()
    assert (np.diff(over.astype(int), axis=-1) >= 0).all()
    assert (runs.rewards.values[over] == 0).all()
    assert (runs.states.isel(step=0) == 0).all()


def test_our_settings_in_episodes():
    runs = pr.simulate(LAKE, [pr.agents.ts_rl(), pr.agents.optimistic_vi()], episodes=5, replications=2, episodic=True)
    assert (runs.regret.diff("episode") >= -1e-12).all()
    assert set(runs.data_vars) == {"regret", "reward"}


# -- common random numbers by source -------------------------------------------------------------------------


def test_by_source_the_kth_use_has_the_same_outcome():
    """Whatever the agents do, the k-th transition of each source has the same outcome in a replication."""
    found = []

    class Scribe(Coin):
        def reset(self, rng):
            self.rng = np.random.default_rng(len(found))
            found.append({})

        def observe(self, state, action, next_state, outcome, reward):
            found[-1].setdefault(int(LAKE.model.source[state, action]), []).append(outcome)

    pr.simulate(LAKE, {"one": Scribe, "two": Scribe}, episodes=40, replications=2, pairing="source")
    for one, two in ((found[0], found[2]), (found[1], found[3])):
        assert one != two
        for source in set(one) & set(two):
            n = min(len(one[source]), len(two[source]))
            assert one[source][:n] == two[source][:n]


def test_a_cluster_gives_the_same_numbers():
    from distributed import Client, LocalCluster

    agents = {"coin": Coin, "class": lambda model: pr.PosteriorSamplingAgent(model, 0.5, indices=True)}
    options = {"episodes": 4, "replications": 6, "rng": 3}
    here = pr.simulate(LAKE, agents, **options)
    with (
        LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        assert pr.simulate(LAKE, agents, client=client, **options).identical(here)


# -- speed ---------------------------------------------------------------------------------------------------


def test_a_python_agent_costs_at_most_30_microseconds_a_step():
    steps = []
    for _ in range(3):
        began = time.perf_counter()
        pr.simulate(LAKE, Fixed, episodes=200, replications=2)
        steps.append((time.perf_counter() - began) / 4000)
    assert min(steps) < 30e-6


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_an_agent_that_numba_compiled_runs_in_a_compiled_loop():
    fields = [("q", numba.float64[:, :]), ("policy", numba.int64[:]), ("rng", numba.typeof(np.random.default_rng(0)))]

    @jitclass(fields)
    class Fast:
        def __init__(self, states, actions):
            self.q = np.zeros((states, actions))
            self.policy = np.zeros(states, np.int64)

        def reset(self, rng):
            self.rng = rng
            self.q[:] = 1.0
            self.policy[:] = 0

        def act(self, state):
            if self.rng.random() < 0.1:
                self.policy[state] = self.rng.integers(0, self.q.shape[1])
            return self.policy[state]

        def observe(self, state, action, next_state, outcome, reward):
            ahead = 0.0 if next_state < 0 else 0.8 * self.q[next_state].max()
            self.q[state, action] += 0.1 * (reward + ahead - self.q[state, action])
            self.policy[state] = np.argmax(self.q[state])

    class Slow:
        def __init__(self, model):
            self.q = np.zeros((model.n_states, model.n_actions))
            self.policy = np.zeros(model.n_states, np.int64)

        reset = Fast.class_type.jit_methods["reset"].py_func
        act = Fast.class_type.jit_methods["act"].py_func

        def observe(self, state, action, next_state, outcome, reward):
            self_call = Fast.class_type.jit_methods["observe"].py_func
            self_call(self, state, action, -1 if next_state is None else next_state, outcome, reward)

    agents = {"fast": lambda model: Fast(model.n_states, model.n_actions), "slow": Slow}
    for problem in (LAKE, windy()):
        for pairing in ("step", "source"):
            runs = pr.simulate(problem, agents, episodes=30, replications=4, record=RECORD, pairing=pairing)
            np.testing.assert_allclose(*runs.regret.values, rtol=1e-12, atol=1e-12)
            assert (
                runs.isel(agent=0, drop=True)
                .drop_vars("regret")
                .identical(runs.isel(agent=1, drop=True).drop_vars("regret"))
            )

    @jitclass(fields[:1])
    class Silent:
        """Shows no policy."""

        def __init__(self, states, actions):
            self.q = np.zeros((states, actions))

        def reset(self, rng):
            pass

        def act(self, state):
            return 0

        def observe(self, state, action, next_state, outcome, reward):
            pass

    silent = pr.simulate(LAKE, {"silent": lambda model: Silent(1, 1), "blind": Blind}, episodes=5, replications=2)
    assert np.isnan(silent.regret).all()
    np.testing.assert_array_equal(*silent.reward.values)
    began = time.perf_counter()
    pr.simulate(LAKE, {"fast": agents["fast"]}, episodes=2000, replications=10)
    assert (time.perf_counter() - began) / 200_000 < 8e-6  # solves for new policies among it
    episodic = pr.simulate(LAKE, {"fast": agents["fast"]}, episodes=3, replications=2, episodic=True)
    assert np.isfinite(episodic.regret).all()


def test_pairing_by_source_gains():
    """On a lake regrets of two agents correlate more by source (0.8) than by step (0.4): Fisher's z above 5.3."""
    n = 400
    found = []
    for pairing in ("step", "source"):
        runs = pr.simulate(LAKE, [pr.agents.ts_rl(), pr.brps_rl(0.5)], episodes=60, replications=n, pairing=pairing)
        found.append(pr.simulation.regret_table(runs).frame.correlation[1])
    apart = np.arctanh(found[1]) - np.arctanh(found[0])
    assert apart > 5.3 * np.sqrt(2.0 / (n - 3))


def test_a_summary_has_the_numbers_of_the_runs():
    agents = {"ours": pr.brps_rl(0.5), "fixed": Fixed}
    options = {"episodes": 7, "replications": 50, "rng": 2}
    runs, short = pr.simulate(LAKE, agents, **options), pr.simulate(LAKE, agents, keep="summary", **options)
    np.testing.assert_allclose(short.regret_mean, runs.regret.mean("replication"))
    np.testing.assert_allclose(short.regret_variance, runs.regret.var("replication", ddof=1))
    np.testing.assert_allclose(short.regret_covariance, np.cov(runs.regret.values[:, :, -1]))
    exact = np.quantile(runs.regret, short["quantile"].values, axis=1, method="inverted_cdf")
    np.testing.assert_allclose(short.regret_quantile, np.moveaxis(exact, 0, 1), rtol=0.0051, atol=1e-9)
    one, two = (pr.simulation.regret_table(each).frame.drop(columns="agent") for each in (runs, short))
    np.testing.assert_allclose(one.astype(float), two.astype(float), rtol=1e-9)
    with refused(ParameterError, "conflicting-arguments", argument="keep"):
        pr.simulate(LAKE, agents, keep="summary", record=["states"])


@pytest.mark.parametrize("options", [{"replications": 10**12}, {"episodes": 10**14, "replications": 1}])
def test_what_does_not_fit_into_memory_is_refused_before_the_run(options):
    with refused(ParameterError, "memory", argument=next(iter(options))):
        pr.simulate(LAKE, Fixed, **options)
