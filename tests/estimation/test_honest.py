"""Honest values: policies from some episodes, judged by a model of the others."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas
import pytest
from refusals import refused

from prudent.errors import DataError, ParameterError
from prudent.estimation.counts import DistinctRows
from prudent.estimation.designs import GivenStates, MappedStates
from prudent.estimation.honest import honest_values
from prudent.estimation.parts import SMALL, Learner, Part, PolicyChain
from prudent.estimation.rows import read_log
from prudent.planning.problem import BayesianRiskMDP

COLUMNS = ["episode", "step", "state", "action", "next_state", "reward"]


def read(table, terminal=(), duration=None):
    return read_log(table, None, None, None, terminal, (), None, duration)


def bandit_log(rng, episodes=60, steps=10, gain=0.5, states=1):
    """Return a log in which action 1 earns ``gain`` more, and states are drawn anew at every step."""
    size = episodes * steps
    state, action = rng.integers(states, size=size + 1), rng.integers(2, size=size)
    table = {
        "episode": np.repeat(np.arange(episodes), steps),
        "step": np.tile(np.arange(steps), episodes),
        "state": state[:-1],
        "action": action,
        "next_state": state[1:],
        "reward": rng.normal(size=size) + gain * action,
    }
    return pandas.DataFrame(table)


def test_equal_episodes_are_judged_by_their_frequencies():
    one = [
        (0, 0, "a", "x", "b", 1.0),
        (0, 1, "b", "x", "a", 0.0),
        (0, 2, "a", "y", "b", 2.0),
        (0, 3, "b", "x", "end", 3.0),
    ]
    rows = [(e, *row[1:]) for e in range(400) for row in one]
    found = honest_values(GivenStates(read(pandas.DataFrame(rows, columns=COLUMNS), ["end"])), 0.9)
    # the policy takes y in a: V(a) = 2 + 0.9 V(b), V(b) = 0.5 (0.9 V(a)) + 0.5 * 3
    chosen = np.linalg.solve([[1.0, -0.9], [-0.45, 1.0]], [2.0, 1.5])[0]
    done = np.linalg.solve([[1.0, -0.9], [-0.45, 1.0]], [1.5, 1.5])[0]
    assert found.honest[:3] == pytest.approx(chosen, abs=1e-3)  # what is guessed weighs 1 / (1 + 200^2)
    assert found.honest[3] == pytest.approx(done, abs=1e-9)
    assert found.error == pytest.approx(0.0, abs=1e-6)
    assert found.difference(0, 3).value == pytest.approx(chosen - done, abs=1e-3)


def test_intervals_hold_the_truth(seed):
    held = 0
    for i in range(20):
        rng = np.random.default_rng([seed, i])
        found = honest_values(GivenStates(read(bandit_log(rng, states=3))), 0.9, alphas=[0.0])
        held += found.low[0] <= 0.5 / 0.1 <= found.high[0] and found.low[1] <= 0.25 / 0.1 <= found.high[1]
    assert held >= 9  # each of two intervals holds with 90% or more: below 9 of 20 with a chance under 1e-6


# -- durations and unknown rewards -------------------------------------------------------------------------


def test_long_transitions_are_judged_by_what_is_left_after_them():
    one = [(0, 0, "a", "x", "b", 1.0, 3), (0, 1, "b", "x", "a", 0.0, 1), (0, 2, "a", "y", "b", 2.0, 2)]
    one += [(0, 3, "b", "x", "end", 3.0, 7)]
    rows = [(e, *row[1:]) for e in range(400) for row in one]
    table = pandas.DataFrame(rows, columns=[*COLUMNS, "took"])
    found = honest_values(GivenStates(read(table, ["end"], "took")), 0.9)
    # the policy takes y in a: V(a) = 2 + 0.9^2 V(b), V(b) = 0.5 (0.9 V(a)) + 0.5 * 3
    chosen = np.linalg.solve([[1.0, -0.81], [-0.45, 1.0]], [2.0, 1.5])[0]
    both = 0.5 * (0.9**3 + 0.9**2)
    done = np.linalg.solve([[1.0, -both], [-0.45, 1.0]], [1.5, 1.5])[0]
    assert found.honest[:3] == pytest.approx(chosen, abs=1e-3)  # what is guessed weighs 1 / (1 + 200^2)
    assert found.honest[3] == pytest.approx(done, abs=1e-9)
    assert found.error == pytest.approx(0.0, abs=1e-6)
    assert found.promised[3] == pytest.approx(done, abs=1e-9)


def test_what_all_episodes_add_to_a_policy_of_half_of_them(seed):
    # Single decisions in 300 states; action 1 earns delta(s) more, uniform around 0. With an error of variance v the
    # choice loses f v / 2 on average (f the density of delta at 0) and promises f v / 2 too much.
    rng = np.random.default_rng(seed)
    states, logs = 300, 3
    said = np.zeros((logs, 2))
    for one in said:
        delta, heard = rng.uniform(-1.0, 1.0, states), []
        log = bandit_log(rng, 6000, 1, 0.0, states).assign(next_state="end")
        log["reward"] += delta[log["state"]] * log["action"]
        rows = read(log, ["end"])
        found = honest_values(
            GivenStates(rows), 0.5, alphas=[0.0], threads=1, hear=lambda cell, policy, into=heard: into.append(policy)
        )
        worth = np.array([0.0 if name == "end" else delta[name] for name in rows.by_state.names])
        half = np.mean([worth[policy == 1].sum() for policy in heard[::2]]) / states  # every second one is the log's
        means = log.groupby(["state", "action"])["reward"].mean().unstack()
        whole = delta[means.index[means[1] > means[0]]].sum() / states
        one[:] = whole - half, (found.high + found.low - 2.0 * found.honest)[0]
        assert one[1] >= (found.promised - found.honest)[0] / 4.0 - 1e-12
    added, raised = said.mean(axis=0)  # 0.041 with a standard error of 0.005, and 0.063, which has the unknown too
    assert abs(raised - added - 0.022) < 0.025  # five standard errors


def test_intervals_hold_the_truth_where_transitions_take_long(seed):
    """V = r / (1 - E[gamma^tau]): tau is 1 or 4 after action 1, which earns more, and 1 after action 0."""
    held = 0
    later = 0.5 * (0.9 + 0.9**4)
    for i in range(20):
        rng = np.random.default_rng([seed, i])
        table = bandit_log(rng, gain=2.0, states=2)
        table["took"] = np.where(table["action"] == 1, rng.choice([1, 4], len(table)), 1)
        found = honest_values(GivenStates(read(table, duration="took")), 0.9, alphas=[0.0])
        held += found.low[0] <= 2.0 / (1.0 - later) <= found.high[0]
        held += found.low[1] <= 1.0 / (1.0 - 0.5 * (later + 0.9)) <= found.high[1]
    assert held >= 26  # each of two intervals holds with 90% or more, and both depend: 26 of 40 is 4.7 sd of 20 pairs


def learner(table, terminal=()):
    rows = read(table, terminal)
    part = Part.of(DistinctRows.of(rows, by_reward=False).weighted(rows, rows.times), rows)
    return Learner.of(rows, part.seen, 0.9, 1.0, "state", 1, "mean")


@pytest.mark.parametrize("alpha", [0.5, 0.9, -0.5])
def test_parts_are_solved_with_unknown_rewards(rng, alpha):
    """The values of a part are those of the exact problem, up to a tenth of what unknown rewards change."""
    learned = learner(bandit_log(rng, 12, 10, states=3))
    assert learned.unknown is not None
    exact = BayesianRiskMDP(learned.model, learned.posterior, alpha, reward_posterior=learned.unknown).solve(tol=1e-3)
    known = BayesianRiskMDP(learned.model, learned.posterior, alpha, reward_posterior="certain").solve()
    found = next(learned.policies([alpha]))
    assert abs(found.value - exact.value).max() < 0.1 * abs(known.value - exact.value).max()


def test_unknown_rewards_decide_for_the_policy_of_a_part():
    """Action 1 earned 1.1 on average in two rows, action 0 earned 1 in a hundred: caution knows which to trust."""
    rewards = {0: [0.0, 2.0] * 50, 1: [0.1, 2.1]}
    rows = [(e, e, "a", action, "a", r) for action, seen in rewards.items() for e, r in enumerate(seen)]
    learned = learner(pandas.DataFrame(rows, columns=COLUMNS))
    assert [each.policy.tolist() for each in learned.policies([0.0, 0.9])] == [[1], [0]]


def test_the_spread_of_rewards_is_that_of_the_part():
    rows = [(e, 0, "a", "x", "a", float(r)) for e, r in enumerate([0, 2] * 20 + [0, 200] * 20)]
    log = read(pandas.DataFrame(rows, columns=COLUMNS))
    distinct = DistinctRows.of(log, by_reward=False)
    half = np.where(np.arange(80) < 40, 1.0, 0.0)
    learned = Learner.of(log, Part.of(distinct.weighted(log, half), log).seen, 0.9, 1.0, "state", 1, "mean")
    assert learned.unknown.noise_sd == pytest.approx(np.std([0, 2] * 20, ddof=1))


def test_states_that_are_noise_promise_what_is_not_there(rng):
    # all actions are alike: every gain is the choice of lucky rows, and the model of 90 states believes in it
    found = honest_values(GivenStates(read(bandit_log(rng, 60, 10, gain=0.0, states=90))), 0.9, alphas=[0.0])
    assert found.promised[0] > 1.0
    assert abs(found.honest[0]) < 5.0 * found.error[0]  # the truth is 0; false alarm below 1e-6
    assert found.promised[0] - found.honest[0] > found.error[0]


class Halves:
    """A map by the median of a column, which notes the episodes that it was fitted on."""

    fitted: ClassVar[list] = []

    def fit(self, rows):
        self.fitted.append(frozenset(rows["episode"]))
        self.middle = rows["x"].median()
        return self

    def transform(self, rows):
        return np.where(rows["x"] > self.middle, "high", "low")


def test_a_map_is_fitted_on_training_episodes_alone(rng):
    table = bandit_log(rng, 20, 5)
    table["x"] = rng.normal(size=len(table))
    rows = read(table)
    there = np.where(np.arange(len(table)) % 5 == 4, -1, np.arange(len(table)) + 1)
    maker = Halves()
    Halves.fitted.clear()
    found = honest_values(MappedStates(rows, "halves", maker, table, np.arange(len(table)), there), 0.9, repeats=3)
    assert len(Halves.fitted) == 6
    assert all(len(episodes) == 10 for episodes in Halves.fitted)
    assert all(Halves.fitted[i].isdisjoint(Halves.fitted[i + 1]) for i in (0, 2, 4))
    assert np.isfinite(found.honest).all()


def test_states_that_one_part_never_leaves_are_cut_and_counted():
    rows = [(e, t, f"s{t}", "x", f"s{t + 1}", 1.0) for e in range(8) for t in range(3)]  # s3 is never left
    rows += [(8 + e, 0, "s3", "x", "s0", 0.0) for e in range(1)]  # but in one episode
    found = honest_values(GivenStates(read(pandas.DataFrame(rows, columns=COLUMNS))), 0.9)
    assert found.cut[0] > 0.1
    assert np.isfinite([found.honest, found.promised, found.low, found.high]).all()


def test_counts_without_episodes_are_split_by_observation(rng):
    rows = [("ill", "wait", "ill", 0.0, 60), ("ill", "drug", "well", 1.0, 30), ("ill", "drug", "dead", -1.0, 10)]
    table = pandas.DataFrame(rows, columns=["state", "action", "next_state", "reward", "count"])
    found = honest_values(GivenStates(read(table, ["well", "dead"])), 0.9)
    assert found.by_rows
    # the drug earns 0.5 on average, with an interval that half of 40 rows allow
    assert found.low[0] < 0.5 < found.high[0]
    assert found.high[0] - found.low[0] < 1.5


def test_what_cannot_be_judged_is_refused():
    table = pandas.DataFrame([(0, 0, "a", "x", "a", 1.0)] * 3, columns=COLUMNS)
    with refused(DataError, "few-episodes", argument="log"):
        honest_values(GivenStates(read(table.assign(step=range(3)))), 0.9)
    table = pandas.DataFrame([(e, 0, "a", "x", "a", 1.0) for e in range(9)], columns=COLUMNS)
    with refused(ParameterError, "discount-range", argument="discount"):
        honest_values(GivenStates(read(table)), 1.0)
    with refused(ParameterError, "empty", argument="alphas"):
        honest_values(GivenStates(read(table)), 0.9, alphas=[])


@pytest.mark.parametrize("discount", [0.9, 0.999, 1.0 - 1e-9])
def test_chains_by_products_and_by_elimination_agree(rng, discount):
    """Of more states than are eliminated at once, where products settle and where they do not."""
    size = SMALL + 50
    target = rng.integers(size, size=(size, 3))
    chance = rng.dirichlet(np.ones(3), size=size)
    reward = rng.normal(size=size)
    log = {"state": np.arange(size), "action": 0, "next_state": np.roll(np.arange(size), 1), "reward": 0.0}
    rows = read(pandas.DataFrame(log))
    origin = np.repeat(np.arange(size), 3)
    chain = PolicyChain.of(rows, discount, origin, target.reshape(-1), chance.reshape(-1), np.repeat(reward, 3))
    matrix = np.eye(size)
    np.subtract.at(matrix, (origin, target.reshape(-1)), discount * chance.reshape(-1))
    expected, start = np.linalg.solve(matrix, reward), np.full(size, 1.0 / size)
    assert chain.values() == pytest.approx(expected, rel=1e-6, abs=1e-7 * abs(expected).max())
    visits = np.linalg.solve(matrix.T, start)
    assert chain.occupancy(start) == pytest.approx(visits, rel=1e-6, abs=1e-7 * visits.max())
