"""Agents with any posterior, and posterior sampling in episodes of finite length."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refused
from scipy import special

import prudent as pr
from prudent.agents import ModelSamplingAgent
from prudent.errors import DataError, ParameterError, PosteriorError
from prudent.testing import check_agent, check_posterior

RIVER = pr.envs.river_swim(4)
LAKE = pr.envs.frozen_lake(0.2)


class Known:
    """A posterior that is sure of the truth."""

    def __init__(self, theta):
        self.theta = theta

    def sample(self, n, rng):
        return np.repeat(self.theta[np.newaxis], n, axis=0)

    def update(self, source, outcome):
        pass


class Softmax:
    """Chances of outcomes as softmax of a slope times known scores; the slope on a grid. Exact, and not conjugate."""

    def __init__(self, model, scores, grid):
        self.scores, self.grid = scores, grid
        self.logs = special.log_softmax(np.where(model.outcome_mask, grid[:, None, None] * scores, -np.inf), axis=2)
        self.weight = np.zeros(grid.size)

    def update(self, source, outcome):
        self.weight += self.logs[:, source, outcome]

    def sample(self, n, rng):
        chances = special.softmax(self.weight)
        return np.exp(self.logs[rng.choice(self.grid.size, size=n, p=chances)])

    def mean(self):
        return np.tensordot(special.softmax(self.weight), np.exp(self.logs), 1)


def test_it_keeps_the_rules_of_agents():
    assert "agent-policy-reading" in check_agent(ModelSamplingAgent, [RIVER, LAKE])
    assert "agent-reset" in check_agent(lambda model: ModelSamplingAgent(model, horizon=5, alpha=0.5), [LAKE])


@pytest.mark.parametrize("horizon", [None, 6])
def test_who_knows_the_truth_has_no_regret(horizon):
    def knows(model):
        return ModelSamplingAgent(model, lambda model: Known(LAKE.theta), horizon=horizon, episode_length=6)

    options = {"episodes": 5, "episode_length": 6, "replications": 2, "episodic": horizon is not None}
    assert abs(pr.simulate(LAKE, knows, **options).regret).max() < 1e-9


def test_with_a_dirichlet_posterior_it_is_thompson_sampling():
    """Means of regret agree with those of the compiled loop: z below 5.3, false alarm 1e-7."""
    agents = {"compiled": pr.agents.ts_rl(), "general": ModelSamplingAgent}
    runs = pr.simulate(RIVER, agents, episodes=20, replications=150)
    ends = runs.regret.isel(episode=-1)
    apart = ends.mean("replication").diff("agent").item()
    error = np.sqrt((ends.var("replication", ddof=1) / 150).sum()).item()
    assert abs(apart) < 5.3 * error


@pytest.mark.parametrize("discount", [0.9, 1.0])
def test_episodic_posterior_sampling_learns(discount):
    """Its plan is backward induction in the sampled model, and its regret an episode falls."""
    model = pr.UncertainMDP(RIVER.model.source, RIVER.model.next_state, RIVER.model.reward, discount)
    problem = pr.envs.Problem(model, RIVER.theta)
    agent = ModelSamplingAgent(model, horizon=7)
    agent.reset(np.random.default_rng(5))
    theta = pr.DirichletPosterior(model.prior()).sample(1, np.random.default_rng(5))[0]
    mdp = model.mdp(theta)
    value, plan = np.zeros(model.n_states), []
    for _ in range(7):
        q = mdp.reward + discount * mdp.dense() @ value
        value = q.max(axis=1)
        plan.insert(0, q)
    chosen = [q[np.arange(model.n_states), row] for q, row in zip(plan, agent.policy, strict=True)]
    np.testing.assert_allclose(chosen, [q.max(axis=1) for q in plan], rtol=1e-12, atol=1e-12)

    def psrl(model):
        return ModelSamplingAgent(model, horizon=7)

    runs = pr.simulate(problem, psrl, episodes=60, episode_length=7, replications=10, episodic=True)
    each = runs.regret.diff("episode").mean("replication").values[0]
    assert (each > -1e-12).all()
    assert each[-20:].mean() < 0.5 * each[:20].mean()


def test_a_posterior_with_features(rng):
    """Softmax of a slope: outcomes of one source tell of all.

    600 outcomes of one source put the slope within 0.4 of the truth (8 standard deviations, false alarm below 1e-9).
    """
    model = RIVER.model
    scores = np.broadcast_to(np.arange(model.n_outcomes, dtype=float), model.outcome_mask.shape)
    theta = special.softmax(np.where(model.outcome_mask, 0.7 * scores, -np.inf), axis=1)
    grid = np.linspace(-2.0, 2.0, 41)

    def make(model):
        return Softmax(model, scores, grid)

    source = int(model.outcome_mask.sum(axis=1).argmax())
    rules = check_posterior(lambda: make(model), [(source, int(np.argmax(model.outcome_mask[source])))], model=model)
    assert {"posterior-probabilities", "posterior-mean", "posterior-order"} <= set(rules)
    posterior = make(model)
    for outcome in rng.choice(model.n_outcomes, size=600, p=theta[source]):
        posterior.update(source, outcome)
    assert abs(posterior.mean() - theta).max() < 0.1  # also of sources that were never used
    agents = {"slope": lambda model: ModelSamplingAgent(model, make)}
    runs = pr.simulate(pr.envs.Problem(model, theta), agents, episodes=20, replications=5)
    assert (runs.regret.diff("episode") >= -1e-9).all()


def test_refusals():
    with refused(ParameterError, "missing-argument", argument="draws"):
        ModelSamplingAgent(LAKE.model, risk=pr.Spectral(lambda u: 1 - (1 - u) ** 2))
    undiscounted = pr.UncertainMDP(RIVER.model.source, RIVER.model.next_state, RIVER.model.reward, 1.0)
    with refused(ParameterError, "discount-range", argument="discount"):
        ModelSamplingAgent(undiscounted)
    for theta, code in ((np.ones((1, 2)), "wrong-shape"), (0.5 * LAKE.theta, "sum-not-one")):
        agent = ModelSamplingAgent(LAKE.model, lambda model, theta=theta: Known(theta))
        with refused(PosteriorError, code):
            agent.act(0)
    with refused(DataError, "unknown-outcome", argument="outcome", state=0):
        ModelSamplingAgent(LAKE.model).observe(0, 0, 0)  # at a wall several outcomes stay
