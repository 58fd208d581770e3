"""Posterior-sampling agents: their draws, their solver, their law, their memory."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest
from _draws import draws_of
from hypothesis import example, given, settings
from hypothesis import strategies as st
from refusals import refused, warned
from scipy import stats

import prudent as pr
from prudent._support.streams import replication_streams
from prudent.agents import (
    PosteriorSamplingAgent,
    SamplingSettings,
    brps_rl,
    certainty_equivalence,
    ts_rl,
    worst_case,
)
from prudent.agents.optimistic_vi import OptimisticVIAgent
from prudent.envs.frozen_lake import frozen_lake
from prudent.envs.inventory import inventory
from prudent.envs.random_model import random_model
from prudent.errors import DataError, ModelError, ParameterError, PosteriorError, StateFileError
from prudent.planning.inner import Plan, keep_corners, known_part, refresh, work_space
from prudent.planning.rows import lowest_of_pair
from prudent.risk import CVaR, Mean, MeanCVaR, ModifiedCVaR, VaR, WorstCase
from prudent.simulation import tabular

LAKE = frozen_lake(0.2)
TINY = pr.UncertainMDP.direct([[0.0, 0.3], [1.0, 0.2]], discount=0.8)


def lake_counts(rng, steps):
    """Counts after a random number of steps of a random policy."""
    policy = rng.integers(4, size=16)
    log = LAKE.model.trajectory(LAKE.theta, policy, steps=steps, rng=rng)
    return LAKE.model.count(log, LAKE.model.prior())


def solved(model, counts, n, weights, *, sweeps=0, seed=0, start=None):
    work, policy = work_space(model, max(n, 1)), np.zeros(model.n_states, dtype=np.int64)
    value = np.zeros(model.n_states) if start is None else start.copy()
    rng = np.random.default_rng(seed)
    plan = Plan(np.array([n]), np.array([weights]), np.array([len(weights)]), sweeps)
    assert refresh(rng, known_part(model), work, counts, plan, 0, value, policy)
    return value, policy, work.q.copy()


# -- draws -------------------------------------------------------------------------------------------------


def test_draws_are_numpys_gammas():
    counts = np.array([[1.0, 2.5, 0.0, 40.0], [1.0, 1.0, 7.0, 1e6], [1.0001, 1.2, 3.0, 1e12]])
    theta = draws_of(counts, 5000, seed=3)
    rng = np.random.default_rng(3)
    for b in range(3):
        gammas = np.array([rng.standard_gamma(c, 5000) if c else np.zeros(5000) for c in counts[b]])
        assert theta[:, b] == pytest.approx((gammas / gammas.sum(axis=0)).T, rel=1e-14)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 11, 100])
@pytest.mark.parametrize("outcomes", [2, 3, 4, 6])
def test_the_lowest_draw_of_a_pair(n, outcomes, rng):
    """Of draws that are equal the first one, as in NumPy."""
    value, reward = rng.normal(size=9), rng.normal(size=outcomes)
    states = rng.integers(0, 9, size=outcomes).astype(np.int32)
    for sign in (1.0, -1.0):
        theta = rng.dirichlet(np.ones(outcomes), 100).T.copy()
        theta[:, n // 2] = theta[:, 0]
        zero, ends = np.uint64(0), np.array([0, outcomes])
        low, index = lowest_of_pair(zero, zero, ends, states, reward, 0.9, theta, n, sign, value, np.empty(100))
        drawn = sign * (reward + 0.9 * value[states]) @ theta[:, :n]
        assert low == pytest.approx(drawn.min(), rel=1e-13)
        assert drawn[index] == pytest.approx(drawn.min(), rel=1e-13)
        assert index == (0 if index == n // 2 else index)


def test_small_counts_do_not_underflow():
    """Beta(0.002, 0.004): mean and variance, each within 5 standard errors (false alarm below 2e-6)."""
    n = 200_000
    theta = draws_of(np.array([[0.002, 0.004]]), n, seed=1)[:, 0, 0]
    law = stats.beta(0.002, 0.004)
    assert np.isfinite(theta).all()
    assert abs(theta.mean() - law.mean()) < 5 * law.std() / np.sqrt(n)
    spread = (theta - law.mean()) ** 2
    assert abs(spread.mean() - law.var()) < 5 * spread.std() / np.sqrt(n)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 60), st.integers(1, 3), st.floats(0.5, 500.0), st.integers(0, 2**32), st.booleans())
@example(n=38, size=3, total=1.015625, seed=3, clumsy=True)
def test_the_draws_kept_hold_every_minimum(n, size, total, seed, clumsy):
    rng = np.random.default_rng(seed)
    theta = np.zeros((5, n))
    theta[:size] = rng.dirichlet(np.full(size, total / size), size=n).T
    if clumsy:  # repeated and collinear points
        theta = np.round(theta, 1)
        theta[size - 1] = 1.0 - theta[: size - 1].sum(axis=0)
    every = theta.copy()
    kept = keep_corners(theta[:size], n, np.empty(3 * n, dtype=np.int64))
    assert 1 <= kept <= n
    for _ in range(20):
        values = rng.normal(size=5)
        assert (values @ theta[:, :kept]).min() == pytest.approx((values @ every).min(), abs=1e-12)


@pytest.mark.parametrize("impossible", range(3))
def test_few_of_three_outcomes_are_kept_if_one_cannot_happen(impossible):
    """All draws lie on a line then, but for rounding."""
    rng, order = np.random.default_rng(impossible), np.empty(300, dtype=np.int64)
    for _ in range(200):
        theta = np.insert(rng.dirichlet([2.0, 5.0], size=100).T, impossible, 0.0, axis=0)
        every = theta.copy()
        kept = keep_corners(theta, 100, order)
        for values in ([1.0, 2.0, 4.0], [4.0, 2.0, 1.0], [2.0, 4.0, 1.0], [0.0, 1.0, 0.0]):
            assert (values @ theta[:, :kept]).min() == pytest.approx((values @ every).min(), abs=1e-14)


def test_few_draws_are_kept():
    theta = np.random.default_rng(0).dirichlet([30.0, 20.0, 25.0], size=1000).T.copy()
    assert keep_corners(theta, 1000, np.empty(3000, dtype=np.int64)) < 40


def test_generators_and_arrays_are_let_go():
    """Kernels that count no references must not keep any."""
    lake, rng = pr.envs.frozen_lake(0.2), np.random.default_rng(1)
    agent = PosteriorSamplingAgent(lake.model, alpha=0.9, rng=rng)
    posterior = pr.DirichletPosterior(lake.model.prior())
    problem = pr.BayesianRiskMDP(lake.model, posterior, 0.9)

    def everything():
        agent.refresh()
        posterior.sample(3, rng)
        problem.solve(draws=20, rng=rng)

    def held():
        gc.collect()
        arrays = (*agent._known.entries[:6], *agent._work, agent.counts, agent._value, agent._policy, posterior.counts)
        return [sys.getrefcount(each) for each in (rng, agent.rng, *arrays)]

    everything()
    before = held()
    for _ in range(5):
        everything()
    assert held() == before
    streams = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tabular, "replication_streams", lambda *a: streams.append(replication_streams(*a)) or streams[-1])
        pr.simulate(lake, brps_rl(0.9), episodes=3, replications=2, threads=1)
        patch.setattr(tabular, "MOST_TOGETHER", 1)
        pr.simulate(lake, brps_rl(0.9), episodes=3, replications=2, threads=1)
    gc.collect()
    assert len(streams) == 3
    assert {sys.getrefcount(each) for pair in streams for each in pair} == {3}  # the list's, ours and the call's


# -- the solver --------------------------------------------------------------------------------------------

PLANS = [
    (1, [1.0]),
    (100, [1.0]),
    (10, CVaR(0.9).lowest_weights(10)),
    (4, CVaR(0.7).lowest_weights(4)),
    (50, CVaR(0.9).lowest_weights(50)),
    (30, Mean().lowest_weights(30)),
    (30, MeanCVaR(0.9, weight=0.3).lowest_weights(30)),
    (30, VaR(0.8).lowest_weights(30)),
    (4, ModifiedCVaR(0.7).lowest_weights(4)),
    (30, WorstCase().lowest_weights(30)),
]


@pytest.mark.parametrize(("n", "weights"), PLANS)
def test_newton_and_100_sweeps_choose_the_same_actions(n, weights):
    rng = np.random.default_rng(n)
    compared = 0
    for trial in range(12):
        counts = lake_counts(rng, steps=int(10 ** rng.uniform(0, 4)))
        start = rng.uniform(0, 5, size=16)
        value, policy, _ = solved(LAKE.model, counts, n, weights, seed=trial, start=start)
        swept, other, q = solved(LAKE.model, counts, n, weights, sweeps=100, seed=trial)
        assert value == pytest.approx(swept, abs=1e-8)
        ranked = np.sort(q, axis=1)
        clear = ranked[:, -1] - ranked[:, -2] > 1e-6
        compared += clear.sum()
        assert (policy == other)[clear].all()
    assert compared > 100


@pytest.mark.parametrize(("n", "weights"), PLANS)
@pytest.mark.parametrize("problem", [LAKE, inventory(), random_model(8, 3, branching=3, discount=0.99, rng=2)])
def test_agrees_with_the_certified_solver(problem, n, weights):
    counts = problem.model.prior() + np.random.default_rng(1).poisson(3.0, problem.theta.shape)
    counts *= problem.model.outcome_mask
    value, _, _ = solved(problem.model, counts, n, weights, seed=7)

    class Given(pr.risk.RiskMeasure):
        def tail_weights(self, size):
            return np.asarray(weights)

    brmdp = pr.BayesianRiskMDP(problem.model, counts, risk=Given())
    scale = abs(problem.model.reward).max() / (1 - problem.model.discount)
    other = brmdp.solve(draws=draws_of(counts, n, 7), tol=1e-11 * scale)
    assert value == pytest.approx(other.value, abs=1e-9 * scale)


def test_large_models_are_solved_without_elimination():
    model, theta = random_model(400, 2, branching=3, discount=0.95, rng=0)
    counts = 50.0 * theta + 1.0
    value, policy, _ = solved(model, counts, 0, [1.0])
    exact = pr.solve(model.mdp(counts / counts.sum(axis=1, keepdims=True)), tol=1e-9)
    assert value == pytest.approx(exact.value, abs=1e-7)
    assert (policy == exact.policy).all()


# -- the law -----------------------------------------------------------------------------------------------


def test_one_draw_at_alpha_zero_is_posterior_sampling():
    """How often each policy comes up, against NumPy's Dirichlet and the certified solver; false alarm 1e-6."""
    counts = np.array([[2.0, 3.0], [3.0, 2.0], [1.0, 2.0], [2.0, 1.0]])
    model, n = pr.UncertainMDP.direct([[0.5, 0.4], [0.9, 1.0]], discount=0.8), 4000
    agent = PosteriorSamplingAgent(model, alpha=0.0, prior=counts, rng=5)
    rng = np.random.default_rng(6)
    seen = np.zeros((2, 4))
    for _ in range(n):
        agent.refresh()
        seen[0, agent.policy @ [2, 1]] += 1
        truth = np.array([rng.dirichlet(row) for row in counts])
        seen[1, pr.solve(model.mdp(truth)).policy @ [2, 1]] += 1
    assert (seen > 100).all()
    assert stats.chi2_contingency(seen).pvalue > 1e-6


def test_certainty_equivalence_and_worst_case():
    counts = lake_counts(np.random.default_rng(2), 200)
    agent = PosteriorSamplingAgent(LAKE.model, settings=certainty_equivalence(), prior=counts, rng=1)
    exact = pr.solve(LAKE.model.mdp(agent.posterior.mean()), tol=1e-12)
    assert agent.value == pytest.approx(exact.value, abs=1e-9)
    assert (agent.policy == exact.policy).all()
    worst = PosteriorSamplingAgent(LAKE.model, settings=worst_case(100), prior=counts, rng=1)
    dial = PosteriorSamplingAgent(LAKE.model, alpha=0.99, prior=counts, rng=1)
    assert (worst.value == dial.value).all()
    assert (worst.value < agent.value).all()


def test_exact_values_are_the_limit_of_many_draws():
    counts = lake_counts(np.random.default_rng(3), 300)
    agent = PosteriorSamplingAgent(LAKE.model, alpha=0.9, draws=20_000, prior=counts, rng=1)
    exact = pr.BayesianRiskMDP(LAKE.model, counts, 0.9).solve()
    assert agent.value == pytest.approx(exact.value, rel=0.02)


# -- settings ----------------------------------------------------------------------------------------------


def test_draw_rule_and_estimators():
    for alpha, n in ((0.0, 1), (0.5, 2), (0.8, 5), (0.9, 10), (0.99, 100), (0.999, 1000), (0.7, 4)):
        assert brps_rl(alpha).plan().n.tolist() == [n]
    n, weights, lengths = brps_rl(0.7, estimator="modified").plan()[:3]
    assert (n.tolist(), weights.tolist(), lengths.tolist()) == ([4], [[0.0, 1.0]], [2])
    assert brps_rl(0.9, draws=100).plan().lengths.tolist() == [10]
    assert ts_rl() == brps_rl(0)


def test_schedule_of_alpha():
    """Episode 0 at alpha 0.9, all later ones at 0.5: the same as two agents with one level each."""
    agent = PosteriorSamplingAgent(LAKE.model, alpha=[0.9, 0.5], rng=4)
    rng = np.random.default_rng(4)
    first = PosteriorSamplingAgent(LAKE.model, alpha=0.9, rng=rng)
    agent.refresh()
    assert (agent.value == first.value).all()
    second = PosteriorSamplingAgent(LAKE.model, alpha=0.5, rng=rng)
    for _ in range(3):
        agent.refresh()
        second.refresh()
        assert (agent.policy == second.policy).all()


def test_labels():
    every = [
        ts_rl(), brps_rl(0.5), brps_rl([0.9, 0.0]), brps_rl(0.9, draws=50), brps_rl(0.9, estimator="modified"),
        brps_rl(0.9, sweeps=100), certainty_equivalence(), worst_case(3), brps_rl(0.3, label="mine"),
        SamplingSettings(risk=MeanCVaR(0.9, 0.5)),
    ]  # fmt: skip
    assert [each.label for each in every] == [
        "TS-RL", "BRPS-RL 0.5", "BRPS-RL 0.9 to 0", "BRPS-RL 0.9, 50 draws", "BRPS-RL 0.9, modified",
        "BRPS-RL 0.9, 100 sweeps", "certainty equivalence", "WorstCase() of 3 draws", "mine",
        "MeanCVaR(alpha=0.9, weight=0.5) of 10 draws",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"alpha": 1.0}, "alpha-range"),
        ({"alpha": [0.5, 2.0]}, "alpha-range"),
        ({"alpha": []}, "empty"),
        ({"alpha": 0.5, "risk": Mean()}, "conflicting-arguments"),
        ({"risk": 0.9}, "wrong-type"),
        ({"risk": Mean()}, "missing-argument"),
        ({"draws": 0}, "integer-range"),
        ({"draws": "many"}, "unknown-option"),
        ({"alpha": 0.7, "draws": 1, "estimator": "modified"}, "integer-range"),
        ({"risk": Mean(), "draws": 3, "estimator": "modified"}, "conflicting-arguments"),
        ({"alpha": 0.7, "estimator": "best"}, "unknown-option"),
        ({"sweeps": 0}, "integer-range"),
        ({"episode_length": 0}, "integer-range"),
        ({"rng": "x"}, "not-an-rng"),
        ({"alpha": 0.5, "settings": ts_rl()}, "conflicting-arguments"),
    ],
)
def test_bad_settings(options, code):
    with refused(ParameterError, code):
        PosteriorSamplingAgent(LAKE.model, **options)


def test_bad_models_and_priors():
    with refused(ModelError, "wrong-type", argument="model", expected="UncertainMDP"):
        PosteriorSamplingAgent(LAKE.mdp(), alpha=0.5)
    with refused(PosteriorError, "no-such-outcome", argument="prior", index=(0, 3), value=1.0):
        PosteriorSamplingAgent(LAKE.model, prior=np.ones((3, 11)))
    with refused(PosteriorError, "no-outcome", argument="counts", index=(0,)):
        PosteriorSamplingAgent(LAKE.model, prior=LAKE.model.prior() * [[0], [1], [1]])


# -- acting and learning -----------------------------------------------------------------------------------


def test_an_episode_is_so_many_decisions():
    agent = PosteriorSamplingAgent(LAKE.model, alpha=0.5, episode_length=3, rng=1)
    assert agent.episode == -1
    episodes = []
    for _ in range(7):
        agent.act(0)
        episodes.append(agent.episode)
    assert episodes == [0, 0, 0, 1, 1, 1, 2]
    free = PosteriorSamplingAgent(LAKE.model, alpha=0.5, episode_length=None, rng=1)
    for _ in range(50):
        free.act(0)
    assert free.episode == 0
    free.refresh()
    assert free.episode == 1


def test_late_and_batched_observations_count_as_if_in_time():
    log = LAKE.model.trajectory(LAKE.theta, np.zeros(16, dtype=int), steps=40, rng=1)
    one, many, late = (PosteriorSamplingAgent(LAKE.model, alpha=0.5, rng=1) for _ in range(3))
    for row in log.tolist():
        one.observe(*row)
    many.observe_log(log)
    late.act(0)
    late.observe_log(log[:20])
    for row in reversed(log[20:].tolist()):
        late.observe(*row)
    assert one.posterior == many.posterior == late.posterior
    assert (one.policy == many.policy).all()


def test_names_or_indices():
    model = inventory(np.full(3, 1 / 3), capacity=2, max_order=2, backlog=1).model  # stock -1, 0, 1, 2
    agent = PosteriorSamplingAgent(model, alpha=0.5, rng=1)
    assert agent.act(-1) in (0, 1, 2)
    agent.observe(-1, 2, 0, outcome=1)
    with refused(ParameterError, "unknown-state", argument="state", value=3, expected="one of -1, 0, 1, 2"):
        agent.act(3)
    by_index = PosteriorSamplingAgent(model, alpha=0.5, rng=1, indices=True)
    by_index.observe(0, 2, 1, outcome=1)
    assert by_index.posterior == agent.posterior
    moves = pr.UncertainMDP(
        [[0, 0]], [[[0, 0], [0, 0]]], [[0.0, 1.0]], 0.5, actions=["hold", "go"], outcomes=[["up", "down"]]
    )
    agent = PosteriorSamplingAgent(moves, rng=1)
    assert agent.act(0) == "go"
    agent.observe(0, "go", 0, outcome="down")
    assert agent.posterior.counts.tolist() == [[1.0, 2.0]]
    assert PosteriorSamplingAgent(moves, rng=1, indices=True).act(0) == 1


BAD = [
    ((0, 0, 5), "impossible-transition", {"state": 0, "action": 0}),
    ((0, 0, 0, 2), "impossible-transition", {"state": 0, "action": 0}),
    ((5, 0, 4, 2), "impossible-transition", {"state": 5, "action": 0}),
    ((16, 0, 0), "unknown-state", {"argument": "state", "value": 16}),
    ((-1, 0, 0), "unknown-state", {"argument": "state", "value": -1}),
    ((0, 4, 0), "unknown-action", {"argument": "action", "value": 4}),
    ((0, 0, 99), "unknown-state", {"argument": "next_state", "value": 99}),
    ((0, 0, 0, 11), "unknown-outcome", {"argument": "outcome", "value": 11}),
    ((0.5, 0, 0), "unknown-state", {"argument": "state", "value": 0.5}),
    (("a", 0, 0), "unknown-state", {"argument": "state", "value": "a"}),
    ((None, 0, 0), "unknown-state", {"argument": "state", "value": None}),
]


@pytest.mark.parametrize(("transition", "code", "fields"), BAD)
@pytest.mark.parametrize("kind", ["sampling", "optimistic"])
def test_bad_observations_change_nothing(kind, transition, code, fields):
    if kind == "sampling":
        agent = PosteriorSamplingAgent(LAKE.model, alpha=0.5, rng=1)
    else:
        agent = OptimisticVIAgent(LAKE.model, alpha=0.5, horizon=100, rng=1)
    before = agent.posterior
    with refused(DataError, code, **fields):
        agent.observe(*transition)
    assert agent.posterior == before
    with refused(ParameterError, "unknown-state", argument="state", value=16):
        agent.act(16)
    agent.observe(np.int64(0), np.int8(0), 4.0, 2)  # whole numbers of any type are fine
    assert agent.posterior.counts[0, 2] == 2.0


def test_a_bad_row_in_a_log_counts_nothing():
    agent = PosteriorSamplingAgent(LAKE.model, alpha=0.5, rng=1)
    before = agent.posterior
    with refused(DataError, "impossible-transition", row=1, state=0, action=0):
        agent.observe_log([(0, 0, 4), (0, 0, 5)])
    assert agent.posterior == before


def test_inadmissible_pairs():
    model = pr.UncertainMDP([[0, -1], [0, 0]], [[[0, 1], [-1, -1]], [[0, 1], [1, 0]]], [[0.0, 0.0], [1.0, 2.0]], 0.5)
    agent = PosteriorSamplingAgent(model, alpha=0.5, rng=1)
    assert {agent.act(0) for _ in range(50)} == {0}
    with refused(DataError, "inadmissible-action", state=0, action=1):
        agent.observe(0, 1, 0)


def test_a_solver_at_its_cap_is_not_silent(monkeypatch):
    monkeypatch.setattr("prudent.agents.posterior_sampling.refresh", lambda *arguments: False)
    agent = PosteriorSamplingAgent(LAKE.model, alpha=0.5, rng=1)
    with warned(pr.errors.ConvergenceWarning, "policy-not-optimal", episode=0):
        agent.act(0)


# -- memory ------------------------------------------------------------------------------------------------


def go_on(agent, steps, seed):
    """Drive an agent through its own lake and return everything it did."""
    rng, state, story = np.random.default_rng(seed), 0, []
    cumulative = np.cumsum(LAKE.theta, axis=1)
    for _ in range(steps):
        action = agent.act(state)
        outcome = int(np.searchsorted(cumulative[LAKE.model.source[state, action]], rng.random(), side="right"))
        target = int(LAKE.model.next_state[state, action, outcome])
        agent.observe(state, action, target, outcome)
        state = target
        story.append((action, target))
    return story, agent.policy.tolist(), agent.value.tolist(), agent.posterior.counts.tolist()


MAKERS = {
    "newton": lambda: PosteriorSamplingAgent(LAKE.model, alpha=0.9, rng=3),
    "sweeps": lambda: PosteriorSamplingAgent(LAKE.model, alpha=0.9, sweeps=20, rng=3),
    "schedule": lambda: PosteriorSamplingAgent(LAKE.model, alpha=[0.99, 0.7, 0.0], episode_length=4, rng=3),
    "mean": lambda: PosteriorSamplingAgent(LAKE.model, draws="mean", rng=3),
    "philox": lambda: PosteriorSamplingAgent(LAKE.model, alpha=0.5, rng=np.random.Generator(np.random.Philox(3))),
    "optimistic": lambda: OptimisticVIAgent(LAKE.model, alpha=0.5, horizon=1000, rng=3),
    "any risk": lambda: PosteriorSamplingAgent(
        LAKE.model, risk=pr.Spectral(lambda u: 1 - (1 - u) ** 2), draws=7, episode_length=None, rng=3
    ),
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("before", [0, 1, 27])
def test_a_saved_agent_goes_on_bit_for_bit(tmp_path, maker, before):
    agent = MAKERS[maker]()
    go_on(agent, before, seed=1)
    agent.save(tmp_path / "agent.state")
    loaded = type(agent).load(tmp_path / "agent.state")
    fresh = MAKERS[maker]()
    assert fresh.load(tmp_path / "agent.state") is fresh
    expected = go_on(agent, 45, seed=2)
    assert go_on(loaded, 45, seed=2) == expected
    assert go_on(fresh, 45, seed=2) == expected
    assert loaded.model == agent.model
    assert loaded.posterior.prior.tolist() == agent.posterior.prior.tolist()


def test_a_loaded_agent_remembers_its_settings(tmp_path):
    for chosen in (
        brps_rl([0.9, 0.5], estimator="modified", sweeps=7, label="mine"),
        brps_rl(0.9, draws=12),
        certainty_equivalence(),
        worst_case(4),
        SamplingSettings(risk=MeanCVaR(0.9, weight=0.3)),
        SamplingSettings(risk=VaR(0.7), draws=9),
    ):
        PosteriorSamplingAgent(LAKE.model, settings=chosen, rng=1).save(tmp_path / "agent.state")
        assert PosteriorSamplingAgent.load(tmp_path / "agent.state").settings == chosen


def test_a_measure_that_cannot_be_saved_keeps_its_weights(tmp_path):
    chosen = SamplingSettings(risk=pr.Spectral(lambda u: 1 - (1 - u) ** 2), draws=7, label="soft")
    PosteriorSamplingAgent(LAKE.model, settings=chosen, rng=1).save(tmp_path / "agent.state")
    again = PosteriorSamplingAgent.load(tmp_path / "agent.state")
    assert again.settings.label == chosen.label
    for one, other in zip(again.settings.plan(), chosen.plan(), strict=True):
        np.testing.assert_array_equal(one, other)
    again.save(tmp_path / "agent.state")  # and it can be saved again
    assert PosteriorSamplingAgent.load(tmp_path / "agent.state").settings == again.settings


def test_names_survive_a_file(tmp_path):
    model = pr.UncertainMDP(
        [[0, 0]], [[[0, 0], [0, 0]]], [[0.0, 1.0]], 0.5, states=[("home", 1)], actions=["hold", "go"],
        outcomes=[["up", "down"]],
    )  # fmt: skip
    PosteriorSamplingAgent(model, rng=1).save(tmp_path / "agent.state")
    agent = PosteriorSamplingAgent.load(tmp_path / "agent.state")
    assert agent.model == model
    assert agent.act(("home", 1)) == "go"
    strange = pr.UncertainMDP([[0]], [[[0]]], [[0.0]], 0.5, states=[frozenset({1})])
    with refused(ParameterError, "unsaved-name", value=frozenset({1})):
        PosteriorSamplingAgent(strange, rng=1).save(tmp_path / "other.state")
    assert not (tmp_path / "other.state").exists()


def test_bad_files(tmp_path):
    path = tmp_path / "agent.state"
    agent = PosteriorSamplingAgent(LAKE.model, alpha=0.5, rng=1)
    agent.save(path)
    before = agent.posterior
    content = path.read_bytes()
    with refused(StateFileError, "wrong-kind", value="PosteriorSamplingAgent", expected="OptimisticVIAgent"):
        OptimisticVIAgent.load(path)
    for broken in (content[:-1], content[:100], b"", content[:500] + b"x" + content[501:], b"\x80\x04K\x01."):
        path.write_bytes(broken)
        with pytest.raises(StateFileError):
            agent.load(path)
    assert agent.posterior == before
    with pytest.raises(FileNotFoundError):
        PosteriorSamplingAgent.load(tmp_path / "none")


def test_a_file_that_contradicts_itself(tmp_path):
    from prudent._support.state import read_state, write_state

    path = tmp_path / "agent.state"
    PosteriorSamplingAgent(LAKE.model, alpha=0.5, rng=1).save(path)
    values, arrays = read_state(path, "PosteriorSamplingAgent", 1)
    files = [
        (values, arrays | {name: wrong})
        for name, wrong in (("policy", np.full(16, 7)), ("value", np.zeros(3)), ("counts", np.ones((2, 2))))
    ]
    files += [
        (values | {"settings": values["settings"] | wrong}, arrays)
        for wrong in (
            {"draws": -1},
            {"alpha": 2.0},
            {"colour": "red"},
            {"risk": {"measure": "Surprise"}},
            {"alpha": None, "draws": 2, "risk": {"measure": "GivenWeights", "n": 2, "lowest": [0.5, 0.2, 0.3]}},
        )
    ]
    for said, held in files:
        write_state(path, "PosteriorSamplingAgent", 1, said, held)
        with refused(StateFileError, "damaged-file", expected="PosteriorSamplingAgent"):
            PosteriorSamplingAgent.load(path)


# -- arguments that would have no effect --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "code", "fields"),
    [
        (lambda: SamplingSettings(alpha=0.9, draws="mean"), "conflicting-arguments", {"argument": "alpha"}),
        (lambda: SamplingSettings(risk=VaR(0.7), draws="mean"), "conflicting-arguments", {"argument": "risk"}),
        (lambda: pr.planning.SolverOptions(tol=1e-3, sweeps=10), "conflicting-arguments", {"argument": "tol"}),
        (
            lambda: pr.planning.SolverOptions(max_iterations=9, sweeps=10),
            "conflicting-arguments",
            {"argument": "max_iterations"},
        ),
        (
            lambda: pr.BayesianRiskMDP(LAKE.model, LAKE.model.prior(), 0.5).solve(rng=1),
            "conflicting-arguments",
            {"argument": "rng"},
        ),
        (lambda: SamplingSettings(alpha=True), "not-a-number", {"argument": "alpha", "value": True}),
        (lambda: SamplingSettings(alpha="0.9"), "not-a-number", {"argument": "alpha", "value": "0.9"}),
        (lambda: SamplingSettings(alpha=0.9, draws=True), "not-an-integer", {"argument": "draws", "value": True}),
        (lambda: SamplingSettings(alpha=0.9, draws=np.True_), "not-an-integer", {"argument": "draws"}),
        (lambda: pr.simulate(LAKE, brps_rl(0.9), episodes=True), "not-an-integer", {"argument": "episodes"}),
        (lambda: pr.simulate(LAKE, brps_rl(0.9), br_episodes=[1.5]), "not-an-integer", {"argument": "br_episodes"}),
        (lambda: pr.UncertainMDP.direct([[0.0]], discount=True), "not-a-number", {"argument": "discount"}),
        (lambda: pr.LinearBandit(2, 1, noise_sd=True), "not-a-number", {"argument": "noise_sd", "value": True}),
        (lambda: pr.LinearBandit(2, True), "not-an-integer", {"argument": "dim", "value": True}),
        (lambda: pr.bandits.BanditSettings(draws=10**18), "integer-range", {"argument": "draws", "value": 10**18}),
        (lambda: pr.sample_size(10**400), "not-a-number", {"argument": "alpha"}),
        (lambda: PosteriorSamplingAgent(LAKE.model, alpha=1 - 1e-12), "memory", {}),
    ],
)
def test_arguments_without_effect_and_booleans_as_numbers_are_refused(call, code, fields):
    with refused(ParameterError, code, **fields):
        call()


@pytest.mark.parametrize(
    ("kind", "options"),
    [(pr.LinearBandit, {"arms": 2, "dim": 1, "noise_sd": 1e-200}), (pr.bandits.BanditSettings, {"draws": 10**12})],
)
def test_settings_beyond_the_range_of_the_kernels_are_refused(kind, options):
    with pytest.raises(ParameterError):
        kind(**options)
