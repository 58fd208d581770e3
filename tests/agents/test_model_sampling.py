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


def softmax_of(model, scores, slope):
    return special.softmax(np.where(model.outcome_mask, slope * scores, -np.inf), axis=1)


def test_a_posterior_with_features(rng):
    """Softmax of a slope: outcomes of one source tell of all.

    600 outcomes of one source put the slope within 0.4 of the truth (8 standard deviations, false alarm below 1e-9).
    """
    model = RIVER.model
    scores = np.broadcast_to(np.arange(model.n_outcomes, dtype=float), model.outcome_mask.shape)
    theta = softmax_of(model, scores, 0.7)

    def make(model):
        return Softmax(model, scores, SLOPES)

    source = int(model.outcome_mask.sum(axis=1).argmax())
    rules = check_posterior(lambda: make(model), [(source, int(np.argmax(model.outcome_mask[source])))], model=model)
    assert {"posterior-probabilities", "posterior-mean", "posterior-order"} <= set(rules)
    posterior = make(model)
    for outcome in rng.choice(model.n_outcomes, size=600, p=theta[source]):
        posterior.update(source, outcome)
    assert abs(posterior.mean() - theta).max() < 0.1  # also of sources that were never used


SLOPES = np.linspace(-2.0, 2.0, 41)


def test_features_decide_as_often_as_their_posterior_says(seed):
    """On this river counts have less regret than features, and rightly so.

    Only the choice at the left bank matters. Slopes from 1.0 on make the small sure reward there the best: 11 of 41
    before data, and a truth of 0.7 is hard to tell from them, the more so since who takes the sure reward observes
    nothing. Counts take a chance of one third for every outcome before data, and go right. So features are not compared
    with counts here, but with Bayes' rule, computed once more from what was observed: the posterior at the end, and how
    often the first policy takes the sure reward (300 draws, 5.3 standard errors, false alarm 1e-7).
    """
    model = RIVER.model
    scores = np.broadcast_to(np.arange(model.n_outcomes, dtype=float), model.outcome_mask.shape)
    theta = softmax_of(model, scores, 0.7)
    seen, agents = [], []

    class Watched(ModelSamplingAgent):
        def reset(self, rng=None):
            super().reset(rng)
            seen.clear()
            agents.append(self)

        def observe(self, state, action, next_state, outcome=None, reward=None):
            super().observe(state, action, next_state, outcome, reward)
            seen.append((int(model.source[state, action]), next_state - state))

    pr.simulate(
        pr.envs.Problem(model, theta),
        {"slope": lambda model: Watched(model, lambda model: Softmax(model, scores, SLOPES))},
        episodes=6,
        replications=1,
        rng=seed,
    )
    assert len(seen) == 60
    likelihood = np.ones(SLOPES.size)
    for source, step in seen:  # outcomes are right, stay, left; left at the left bank has no other
        if model.outcome_mask[source].sum() == 1:
            continue
        chances = np.exp(SLOPES[:, np.newaxis] * np.arange(3)) * model.outcome_mask[source]
        likelihood *= chances[:, 1 - step] / chances.sum(axis=1)
    ours = special.softmax(agents[-1].posterior.weight)
    np.testing.assert_allclose(ours, likelihood / likelihood.sum(), rtol=1e-9, atol=1e-12)

    sure = [pr.solve(model.mdp(softmax_of(model, scores, slope))).policy[0] == 0 for slope in SLOPES]
    assert sure == [slope > 0.95 for slope in SLOPES]
    agent = ModelSamplingAgent(model, lambda model: Softmax(model, scores, SLOPES))
    first = []
    for i in range(300):
        agent.reset(np.random.default_rng([seed, i]))
        first.append(agent.policy[0] == 0)
    share = np.mean(sure)
    assert abs(np.mean(first) - share) < 5.3 * np.sqrt(share * (1.0 - share) / 300)


def test_features_that_hold_save_trials():
    """Twelve actions whose chances have one slope: one of them tells of all, and counts have to try each.

    The saved regret is 240 +- 6.5 of 250 in 40 replications of 30 episodes; 8 of 15 must save more than half, by 5
    standard errors.
    """
    actions, slope = 12, 2.0
    source = np.full((3, actions), actions)
    source[0] = np.arange(actions)
    next_state = np.zeros((3, actions, 2), dtype=int)
    next_state[0] = (1, 2)  # win or lose, then begin again
    next_state[1:, :, 1] = -1
    reward = np.zeros((3, actions))
    reward[1] = 1.0
    model = pr.UncertainMDP(source, next_state, reward, 0.9)
    scores = np.zeros(model.outcome_mask.shape)
    scores[:actions, 0] = np.linspace(-1.0, 1.0, actions)
    problem = pr.envs.Problem(model, softmax_of(model, scores, slope))
    agents = {
        "slope": lambda model: ModelSamplingAgent(model, lambda model: Softmax(model, scores, np.linspace(-4, 4, 81))),
        "counts": ModelSamplingAgent,
    }
    slope_regret, counts_regret = pr.simulate(problem, agents, episodes=15, replications=8).regret.values[:, :, -1]
    saved = counts_regret - 2.0 * slope_regret
    assert saved.mean() > 5.0 * saved.std(ddof=1) / np.sqrt(8)


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


def test_posteriors_that_are_none():
    class NoUpdate:
        def sample(self, n, rng):
            return np.repeat(LAKE.theta[np.newaxis], n, axis=0)

    class NoStream(Known):
        def sample(self, n):
            return np.repeat(LAKE.theta[np.newaxis], n, axis=0)

    for given in (Known(LAKE.theta), lambda model: NoUpdate(), lambda model: NoStream(LAKE.theta)):
        with refused(ParameterError, "wrong-type", argument="posterior"):
            ModelSamplingAgent(LAKE.model, given)
    with refused(PosteriorError, "wrong-type", argument="posterior") as caught:
        pr.BayesianRiskMDP(LAKE.model, Known(LAKE.theta), 0.5)
    assert "draws=posterior.sample" in str(caught.value)
