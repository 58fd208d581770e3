"""The conformance suites: what keeps the rules passes, and each broken part fails by the name of its rule."""

from __future__ import annotations

import random

import numpy as np
import pytest
from refusals import refused

import prudent as pr
from prudent.errors import ConformanceError, ParameterError
from prudent.testing import check_agent, check_environment, check_posterior

RIVER = pr.envs.river_swim(4)


class Learner:
    """Keeps the rules: counts rewards, explores, and shows what it does."""

    def __init__(self, model):
        self.model = model
        self.totals = np.zeros((model.n_states, model.n_actions))

    def reset(self, rng):
        self.rng = rng
        self.totals[...] = 0.0

    @property
    def policy(self):
        weights = np.where(self.model.admissible, np.exp(self.totals - self.totals.max(axis=1, keepdims=True)), 0.0)
        return weights / weights.sum(axis=1, keepdims=True)

    def act(self, state):
        return int(self.rng.choice(self.model.n_actions, p=self.policy[state]))

    def observe(self, state, action, next_state, outcome, reward):
        self.totals[state, action] += reward


class NoReset:
    def __init__(self, model):
        pass

    def act(self, state):
        return 0

    def observe(self, *row):
        pass


class Barred(Learner):
    def act(self, state):
        return self.model.n_actions


class Name(Learner):
    def act(self, state):
        return "left"


class Float(Learner):
    def act(self, state):
        return float(super().act(state))


class Forgetful(Learner):
    """Forgets to forget."""

    def reset(self, rng):
        self.rng = rng


class Shared(Learner):
    """Two agents learn in one array."""

    memory = np.zeros((100, 100))

    def __init__(self, model):
        super().__init__(model)
        self.totals = self.memory[: model.n_states, : model.n_actions]
        self.first = not self.memory.any()

    def reset(self, rng):
        self.rng = rng
        if self.first:
            self.totals[...] = 0.0


class Global(Learner):
    def act(self, state):
        return int(np.random.choice(np.flatnonzero(self.model.admissible[state])))  # noqa: NPY002


class Dice(Learner):
    def act(self, state):
        return random.choice(np.flatnonzero(self.model.admissible[state]).tolist())


class OwnStream(Learner):
    """Has a stream of its own, which is another one every time."""

    def reset(self, rng):
        super().reset(np.random.default_rng(None))


class Vandal(Learner):
    def reset(self, rng):
        super().reset(rng)
        self.model.entries.reward[0] += 1.0


class Liar(Learner):
    """Shows a greedy policy, and explores."""

    @property
    def policy(self):
        return np.where(self.model.admissible, self.totals, -np.inf).argmax(axis=1)

    def act(self, state):
        return int(self.rng.choice(np.flatnonzero(self.model.admissible[state])))


class NoPolicy(Learner):
    """Shows rows that are no probabilities."""

    @property
    def policy(self):
        return np.ones((self.model.n_states, self.model.n_actions))

    def act(self, state):
        return int(self.rng.choice(np.flatnonzero(self.model.admissible[state])))


class Peeked(Learner):
    """Draws a random number whenever its policy is read."""

    @property
    def policy(self):
        self.rng.random()
        return super().policy

    def act(self, state):
        return int(self.rng.choice(self.model.n_actions, p=Learner.policy.fget(self)[state]))


class Scratch(Learner):
    """Holds what happened to be in memory."""

    def __init__(self, model):
        super().__init__(model)
        self.scratch = np.frombuffer(np.random.default_rng(None).bytes(64), np.uint8)


BROKEN = {
    NoReset: "agent-methods",
    Barred: "agent-action",
    Name: "agent-action",
    Float: "agent-action",
    Forgetful: "agent-reset",
    Shared: "agent-repeatable",
    Global: "agent-randomness",
    Dice: "agent-randomness",
    OwnStream: "agent-reset",
    Vandal: "agent-model",
    Liar: "agent-policy",
    NoPolicy: "agent-policy",
    Peeked: "agent-policy-reading",
    Scratch: "agent-content",
}


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_agent_fails_by_name(kind):
    with refused(ConformanceError, BROKEN[kind]) as caught:
        check_agent(kind, pr.envs.river_swim(4))
    assert kind.__name__ in str(caught.value)


def test_agents_that_keep_the_rules():
    rules = set(BROKEN.values())
    assert set(check_agent(Learner)) == rules
    assert set(check_agent(pr.PosteriorSamplingAgent, [RIVER])) == rules | {"agent-save"}
    optimistic = check_agent(lambda model: pr.OptimisticVIAgent(model, horizon=1000, indices=True))
    assert set(optimistic) == rules | {"agent-save"}
    with refused(ParameterError, "empty", argument="problems"):  # rewards beyond [0, 1]
        check_agent(lambda model: pr.OptimisticVIAgent(model, horizon=9, indices=True), [pr.envs.inventory()])


def test_an_agent_that_loads_something_else():
    class Loses(pr.PosteriorSamplingAgent):
        def resume(self, values, arrays):
            super().resume(values, arrays)
            self.rng = np.random.default_rng(0)

    with refused(ConformanceError, "agent-save"):
        check_agent(Loses, [RIVER])


# -- environments ------------------------------------------------------------------------------------------


class Arms:
    """Keeps the rules."""

    n_arms, dim = 3, 2

    def context(self, t, rng):
        return rng.random(2)

    def reward(self, t, context, arm, rng):
        return self.mean_rewards(t, context)[arm] + rng.standard_normal()

    def mean_rewards(self, t, context):
        return np.array([0.5, context[0], context[1]])


class WideContext(Arms):
    def context(self, t, rng):
        return rng.random(3)


class Infinite(Arms):
    def reward(self, t, context, arm, rng):
        return np.inf


class Unpaired(Arms):
    def reward(self, t, context, arm, rng):
        return 1.0 if arm == 0 else rng.random()


class WrongMeans(Arms):
    def mean_rewards(self, t, context):
        return np.array([0.5, context[0], 0.0])

    def reward(self, t, context, arm, rng):
        return Arms.mean_rewards(self, t, context)[arm] + rng.standard_normal()


class Remembers(Arms):
    def __init__(self):
        self.seen = 0

    def context(self, t, rng):
        self.seen += 1
        return rng.random(2) + self.seen


class GlobalNoise(Arms):
    def reward(self, t, context, arm, rng):
        random.random()
        return 0.0


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (dict, "environment-kind"),
        (WideContext, "environment-context"),
        (Infinite, "environment-reward"),
        (Unpaired, "environment-pairing"),
        (WrongMeans, "environment-means"),
        (Remembers, "environment-repeatable"),
        (GlobalNoise, "environment-randomness"),
        (lambda: pr.envs.random_model(4, 2), "environment-repeatable"),
    ],
)
def test_a_broken_environment_fails_by_name(make, code):
    with refused(ConformanceError, code):
        check_environment(make)


@pytest.mark.parametrize(
    "make", [Arms, pr.envs.gaussian_bandit, pr.envs.logistic_bandit, pr.envs.frozen_lake, pr.envs.inventory]
)
def test_environments_that_keep_the_rules(make):
    rules = check_environment(make)
    assert rules[-1] == ("environment-solvable" if isinstance(make(), pr.envs.Problem) else "environment-means")


# -- posteriors --------------------------------------------------------------------------------------------


class Draws:
    """A posterior that is not ours."""

    def __init__(self, sd=1.0, mean=0.0):
        self.data, self.sd, self.first = [], sd, mean

    def update(self, x):
        self.data.append(x)

    def mean(self):
        return np.array([self.first + sum(self.data) / (1 + len(self.data))])

    def variance(self):
        return np.array([self.sd**2])

    def sample(self, n, rng):
        return rng.normal(self.mean(), self.sd, (n, 1))


def broken(**methods):
    return type("Broken", (Draws,), methods)


def ours(name, method):
    """Return a conjugate posterior of ours with one method broken."""
    kind = type("BetaPosterior", (pr.posteriors.BetaPosterior,), {name: method})
    return lambda: kind([1.0, 2.0], [1.0, 1.0])


OBSERVED = [(1.0,), (2.0,), (-3.0,)]
SUCCESSES = [(0, 1), (1, 0), (0, 1), (1, 1)]


@pytest.mark.parametrize(
    ("make", "observed", "code"),
    [
        (dict, [], "posterior-methods"),
        (broken(sample=lambda self, n: np.zeros((n, 1))), [], "posterior-methods"),
        (broken(update=lambda self: None), OBSERVED, "posterior-methods"),
        (broken(sample=lambda self, n, rng: rng.normal(size=n + 1)), OBSERVED, "posterior-draws"),
        (broken(sample=lambda self, n, rng: np.full((n, 1), np.nan)), OBSERVED, "posterior-draws"),
        (broken(sample=lambda self, n, rng: np.random.default_rng(None).random((n, 1))), [], "posterior-repeatable"),
        (broken(sample=lambda self, n, rng: random.random() * np.ones((n, 1))), [], "posterior-repeatable"),
        (broken(sample=lambda self, n, rng: random.random() * 0 + rng.normal(size=(n, 1))), [], "posterior-randomness"),
        (broken(mean=lambda self: np.array([0.5]), sample=lambda self, n, rng: rng.normal(size=(n, 1))), [],
         "posterior-mean"),
        (broken(variance=lambda self: np.array([2.0])), OBSERVED, "posterior-variance"),
        (broken(mean=lambda self: np.array([self.data[-1] if self.data else 0.0])), OBSERVED, "posterior-order"),
        (ours("merge", lambda self, other: self.copy()), SUCCESSES, "posterior-merge"),
        (ours("copy", lambda self: self), SUCCESSES, "posterior-copy"),
    ],
)  # fmt: skip
def test_a_broken_posterior_fails_by_name(make, observed, code):
    with refused(ConformanceError, code):
        check_posterior(make, observed)


def test_a_posterior_that_is_made_already_is_refused_with_a_remedy():
    with refused(ParameterError, "wrong-type", argument="make"):
        check_posterior(pr.posteriors.BetaPosterior([1.0], [1.0]))


def test_draws_that_are_no_probabilities_of_the_model():
    model = pr.envs.frozen_lake(0.2).model

    class Half(pr.DirichletPosterior):
        def sample(self, n, rng=None):
            return 0.5 * super().sample(n, rng)

    with refused(ConformanceError, "posterior-probabilities"):
        check_posterior(lambda: Half(model.prior()), model=model)
    with refused(ConformanceError, "posterior-probabilities"):
        check_posterior(Draws, model=model)
    assert "posterior-probabilities" in check_posterior(lambda: pr.DirichletPosterior(model.prior()), model=model)


def test_posteriors_that_keep_the_rules():
    assert set(check_posterior(Draws, OBSERVED)) >= {"posterior-mean", "posterior-variance", "posterior-order"}
    rules = check_posterior(lambda: pr.posteriors.BetaPosterior([1.0, 2.0], [1.0, 1.0]), SUCCESSES)
    assert {"posterior-merge", "posterior-save", "posterior-copy"} <= set(rules)
