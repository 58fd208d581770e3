"""The best risk of the return over a posterior: against enumeration of all policies, laws, and what cannot be asked."""

import itertools
import json

import numpy as np
import pytest
from refusals import refused

import prudent as pr
from prudent.errors import ConvergenceWarning, ParameterError
from prudent.planning.posterior_risk import DrawnModels
from prudent.planning.static_search import BOUNDS, StaticSearch
from prudent.risk import Mean, Mixture, WorstCase

MEASURES = [
    Mean(),
    pr.CVaR(0.9),
    pr.CVaR(0.5),
    pr.CVaR(-0.5),
    pr.VaR(0.9),
    WorstCase(),
    pr.MeanCVaR(0.9, weight=0.3),
    Mixture((0.0, 0.5, 0.95), (0.2, 0.3, 0.5)),
    pr.Spectral(lambda u: u**0.5),
]


def random_problem(rng, most_states=12, most_actions=4, most_draws=200):
    """Return a random problem made from draws: with sources of its own or shared, and many or few data."""
    n_states, n_actions = int(rng.integers(2, most_states + 1)), int(rng.integers(2, most_actions + 1))
    n_draws, n_outcomes = int(rng.integers(2, most_draws + 1)), int(rng.integers(2, min(n_states, 6) + 1))
    n_sources = int(rng.choice([2, n_states * n_actions]))
    source = rng.integers(0, n_sources, (n_states, n_actions))
    source.ravel()[: min(n_sources, source.size)] = np.arange(min(n_sources, source.size))
    follows = rng.integers(0, n_states, (n_states, n_actions, n_outcomes))
    reward = rng.normal(size=(n_states, n_actions))
    model = pr.UncertainMDP(source, follows, reward, discount=float(rng.choice([0.5, 0.8, 0.9, 0.95, 0.99])))
    counts = rng.exponential(float(rng.choice([0.5, 2.0, 20.0])), (model.n_sources, n_outcomes)) + 0.2
    theta = np.stack([rng.dirichlet(row, n_draws) for row in counts], axis=1)
    return pr.BayesianRiskMDP(model, draws=theta, alpha=0.5)


def all_returns(problem, start):
    """Return the returns [M, N] of all M policies, by dense solves of NumPy, and the policies [M, S]."""
    model = problem.model
    policies = np.array(list(itertools.product(range(model.n_actions), repeat=model.n_states)))
    rows, returns = np.arange(model.n_states), []
    for theta in problem.draws:
        mdp = model.mdp(theta)
        chance, reward = mdp.dense(), mdp.reward
        system = np.eye(model.n_states) - model.discount * chance[rows, policies]
        returns.append(np.linalg.solve(system, reward[rows, policies][..., None])[..., 0] @ start)
    return np.stack(returns, axis=1), policies


@pytest.mark.parametrize("risk", MEASURES, ids=lambda risk: f"{type(risk).__name__}-{getattr(risk, 'alpha', 0)}")
def test_the_best_policy_is_that_of_enumeration(risk, rng):
    for _ in range(3):
        problem = random_problem(rng, 5, 3, 30)
        start = rng.dirichlet(np.ones(problem.model.n_states))
        returns, _ = all_returns(problem, start)
        best = pr.solve(problem, objective=pr.PosteriorRisk(risk), start=start)
        truth = np.max(risk(returns, axis=1))
        scale = abs(returns).max()
        assert best.converged
        assert best.objective_value == pytest.approx(truth, abs=3e-8 * scale)
        assert truth <= best.upper_bound + 1e-12 * scale
        assert best.gap <= 3e-8 * scale


@pytest.mark.parametrize("part", [range(6), pytest.param(range(6, 200), marks=pytest.mark.slow)], ids=["few", "many"])
def test_the_optimum_of_random_problems_is_proved(part):
    """200 problems with up to 12 states, 4 actions and 200 draws; enumeration with up to 100,000 policies."""
    for case in part:
        rng = np.random.default_rng(case)
        problem = random_problem(rng)
        model, risk = problem.model, MEASURES[case % len(MEASURES)]
        start = np.eye(model.n_states)[0]
        best = pr.solve(problem, objective=pr.PosteriorRisk(risk), start=0)
        scale = max(abs(best.objective_value), abs(best.search.returns).max())
        assert best.converged, case
        assert best.gap < 1e-6 * scale, case
        count = model.n_actions**model.n_states
        if count <= (100_000 if case >= 6 else 5_000):
            returns, _ = all_returns(problem, start)
            assert best.objective_value == pytest.approx(risk(returns, axis=1).max(), abs=1e-7 * scale), case


def test_every_bound_leads_to_the_same_optimum(rng):
    problem = random_problem(rng, 6, 3, 40)
    start = np.eye(problem.model.n_states)[0]
    models = DrawnModels(problem, start, problem.draws, None).models(every=False)
    found = []
    for bounds in BOUNDS:
        search = StaticSearch(models.chains, models.admissible, pr.CVaR(0.8), 1, bounds)
        search.begin(None, [np.zeros(models.states.size, dtype=int)])
        assert search.run() is None
        found.append(search.best)
    assert found == pytest.approx([found[0]] * len(found), rel=1e-6)


# -- the search ----------------------------------------------------------------------------------------------


def test_a_search_that_stopped_goes_on():
    problem = random_problem(np.random.default_rng(3), 12, 4, 60)
    objective = pr.PosteriorRisk(pr.CVaR(0.9))
    with pytest.warns(ConvergenceWarning):
        first = pr.solve(problem, objective=objective, start=0, max_iterations=1)
    assert not first.converged
    assert first.gap > 0.0
    rest = first.resume()
    whole = pr.solve(problem, objective=objective, start=0)
    assert rest.converged
    assert rest.objective_value >= first.objective_value
    assert rest.upper_bound <= first.upper_bound
    assert rest.objective_value == pytest.approx(whole.objective_value, rel=1e-6)
    assert rest.search.nodes == whole.search.nodes > 1


def test_randomised_policies_are_never_worse(rng):
    """Two models, two actions, each good in one of them: the worst case wants a fair coin."""
    theta = np.array([[[0.9, 0.1], [0.1, 0.9]], [[0.1, 0.9], [0.9, 0.1]]])
    model = pr.UncertainMDP([[0, 1]], [[[0, 0], [0, 0]]], [[[1.0, 0.0], [1.0, 0.0]]], discount=0.5)
    problem = pr.BayesianRiskMDP(model, draws=theta, alpha=0.5)
    sure = pr.solve(problem, objective=pr.PosteriorRisk(WorstCase()))
    mixed = pr.solve(problem, objective=pr.PosteriorRisk(WorstCase(), randomised=True))
    assert sure.objective_value == pytest.approx(0.2, abs=1e-9)
    assert mixed.objective_value == pytest.approx(1.0, abs=1e-6)  # 0.5 in every step
    assert mixed.policy == pytest.approx(np.full((1, 2), 0.5), abs=1e-5)
    assert mixed.upper_bound >= mixed.objective_value
    other = random_problem(rng, 5, 3, 30)
    objectives = [pr.PosteriorRisk(pr.CVaR(0.8), randomised=mix) for mix in (False, True)]
    one, two = (pr.solve(other, objective=objective, start=0) for objective in objectives)
    assert two.objective_value >= one.objective_value - 1e-12
    assert two.upper_bound >= two.objective_value


def test_a_posterior_is_drawn_from_and_judged_by_fresh_draws(seed):
    model = pr.UncertainMDP.direct([[0.0, 0.0], [1.0, 1.0]], discount=0.9)
    problem = pr.BayesianRiskMDP(model, [[60, 40], [1, 1], [50, 50], [60, 40]], alpha=0)
    best = problem.solve(objective=pr.PosteriorRisk(pr.CVaR(0.9)), start=0, rng=seed)
    assert best.policy[0] == 0
    fresh = best.search.out_of_sample
    assert fresh.draws == 20_000
    # both estimate the same number but for the choice of the policy, which is easy here: 6 standard errors of the
    # smaller set, whose error is at most sqrt(20,000 / 250) times that of the fresh one
    assert abs(fresh.value - best.objective_value) < 6.0 * fresh.error * np.sqrt(20_000 / best.search.draws + 1.0)
    again = problem.solve(objective=pr.PosteriorRisk(pr.CVaR(0.9)), start=0, rng=seed)
    assert again.objective_value == best.objective_value


def test_terminal_states_excluded_actions_and_unknown_rewards(seed):
    game = pr.UncertainMDP(
        [[0, 1], [2, 2], [-1, -1]],
        [[[1, 2], [1, 2]], [[0, 2], [0, 2]], [[0, 0], [0, 0]]],
        [[0.5, 0.2], [1.0, 0.0], [0.0, 0.0]],
        discount=1.0,
        states=["in", "mid", "out"],
        actions=["a", "b"],
        terminal={"out": 3.0},
    )
    rewards = pr.posteriors.NormalPosterior(np.zeros((3, 2)), 1.0, 1.0)
    problem = pr.BayesianRiskMDP(game, [[2, 5], [9, 3], [1, 3]], alpha=0, reward_posterior=rewards)
    best = problem.solve(objective=pr.PosteriorRisk(pr.CVaR(0.8)), start="in", draws=50, rng=seed)
    assert best.converged
    assert best.value[2] == pytest.approx(3.0)
    barred = problem.solve(
        objective=pr.PosteriorRisk(pr.CVaR(0.8)), start="in", draws=50, rng=seed, exclude={"in": best.policy_names[0]}
    )
    assert barred.policy_names[0] != best.policy_names[0]
    assert barred.objective_value <= best.objective_value + 1e-9


def test_returns_are_those_of_posterior_returns(rng):
    problem = random_problem(rng, 6, 3, 20)
    best = pr.solve(problem, objective=pr.PosteriorRisk(pr.CVaR(0.5)), start=0)
    returns = pr.posterior_returns(problem.model, problem.draws, {"best": best}, start=0)
    assert returns.returns.values[:, 0] == pytest.approx(best.search.returns, rel=1e-8, abs=1e-8)
    assert best.value[0] == pytest.approx(best.objective_value, rel=1e-9, abs=1e-12)
    # q: one other action first. The best of them may be better one step ahead, in one model or another, but not
    # that of the policy
    assert best.q_of(best.policy) == pytest.approx(best.value, rel=1e-9, abs=1e-9)


def test_states_that_are_not_reached_do_not_widen_the_gap():
    """Rewards of 1e-8 from the start, and of 1e8 where the process never comes: the gap is that of the start."""
    model = pr.UncertainMDP(
        [[0, 1], [2, 2]], [[[0, -2], [0, -2]], [[1, 1], [1, 1]]], [[[1e-8, 0.0]] * 2, [[1e8, 2e8]] * 2], discount=0.5
    )
    theta = np.random.default_rng(1).dirichlet([1.0, 1.0], (20, 3))
    problem = pr.BayesianRiskMDP(model, draws=theta, alpha=0.5)
    best = pr.solve(problem, objective=pr.PosteriorRisk(pr.CVaR(0.9)), start=0)
    truth = max(pr.cvar(1e-8 * theta[:, a, 0] / (1.0 - 0.5 * theta[:, a, 0]), 0.9) for a in (0, 1))
    assert best.objective_value == pytest.approx(truth, rel=1e-12)
    assert best.gap < 1e-14
    assert truth <= best.upper_bound < truth + 1e-14
    assert best.error_bound > 1e-7  # of all values


def test_the_solution_prints_and_writes(rng):
    problem = random_problem(rng, 4, 2, 10)
    best = pr.solve(problem, objective=pr.PosteriorRisk(pr.CVaR(0.5)), start=0)
    assert "PosteriorRisk(risk=CVaR(alpha=0.5)" in repr(best)
    record = json.loads(best.to_json())["certificate"]
    assert record["upper_bound"] == best.upper_bound
    assert {"state", "action", "value", "gap"} <= set(best.to_pandas())
    assert best.plot().axes
    assert np.isnan(pr.solve(problem).upper_bound)
    with refused(ParameterError, "no-explanation"):
        best.explain(0)
    with refused(ParameterError, "no-search"):
        pr.solve(problem).resume()


def test_what_cannot_be_asked_is_refused(rng):
    problem = random_problem(rng, 4, 2, 10)
    objective = pr.PosteriorRisk(pr.CVaR(0.5))
    with refused(ParameterError, "conflicting-arguments", argument="objective"):
        pr.solve(problem.mean_mdp(), objective=objective)
    with refused(ParameterError, "conflicting-arguments", argument="horizon"):
        pr.solve(problem, objective=objective, horizon=3)
    with refused(ParameterError, "conflicting-arguments", argument="draws"):
        pr.solve(problem, objective=objective, draws=10)
    with refused(ParameterError, "conflicting-arguments", argument="sweeps"):
        pr.solve(problem, objective=objective, sweeps=10)
    with refused(ParameterError, "conflicting-arguments", argument="time_limit"):
        pr.solve(problem, time_limit=1.0)
    with refused(ParameterError, "wrong-type", argument="risk"):
        pr.PosteriorRisk(0.9)


# -- what no level of the dial reaches -----------------------------------------------------------------------


def venture(stages=6):
    """Return a large gamble by a well-known or a new option, and then a chain of stages that can be sold at any time.

    The nested risk is taken at every stage, so that caution sells; over the whole return the stages make up for each
    other. A level that is cautious enough for the known option sells the chain as well.
    """
    over = stages + 1
    source, follows = np.full((over + 1, 2), -1), np.full((over + 1, 2, 2), over)
    reward = np.zeros((over + 1, 2, 2))
    source[0], follows[0], reward[0, :, 0] = [0, 1], 1, 20.0
    for stage in range(1, over):
        source[stage] = stage + 1, stages + 2
        follows[stage, 0, 0], reward[stage, 0, 0] = stage + 1, 10.0 * (stage == stages)
        follows[stage, 1, 1], reward[stage, 1, 0] = -1, 10.0 * 0.872 ** (over - stage)
    names = ["choose", *(f"stage {stage}" for stage in range(1, over)), "over"]
    labels = {"states": names, "actions": ["known or hold", "new or sell"], "terminal": ["over"]}
    model = pr.UncertainMDP(source, follows, reward, discount=1.0, **labels)
    return model, pr.DirichletPosterior([[500, 500], [6.5, 3.5], *[[90, 10]] * stages, [1, 0]])


def test_a_policy_is_better_in_mean_and_tail_than_every_cautious_level(seed):
    model, posterior = venture()
    problem = pr.BayesianRiskMDP(model, posterior, alpha=0)
    best = problem.solve(objective=pr.PosteriorRisk(pr.CVaR(0.9)), start="choose", rng=seed)
    assert best.policy_names[:-1] == ("known or hold",) * 7
    levels = np.linspace(0.0, 0.99, 12)
    dial = {level: pr.BayesianRiskMDP(model, posterior, level).solve() for level in levels}
    assert all(set(one.policy_names[1:-1]) == {"new or sell"} for one in dial.values() if one.policy[0] == 0)
    returns = pr.posterior_returns(model, posterior, {**dial, "best": best}, start="choose", draws=4_000, rng=seed)
    mean, tail = returns["mean"].values, returns["cvar"].values
    assert (tail[-1] > tail[:-1] + 0.2).all()  # 0.37 and more, with a standard error of 0.02
    cautious = np.array([one.policy[0] == 0 for one in dial.values()])
    assert (mean[-1] > mean[:-1][cautious] + 0.5).all()  # 0.92


def test_a_profile_says_that_a_policy_beats_its_recommended_level(seed):
    model, posterior = venture()
    profile = pr.risk_profile(model, posterior, (0.0, 0.72, 0.9), "choose", 20_000, seed, best_tail=True)
    row = profile.to_pandas().loc["best for the worst tenth"]
    assert profile.recommended == 0.72
    assert row["mean"] > profile.to_pandas().loc[0.72, "mean"] + 0.5
    assert profile.best_tail.gap < 1e-5
    assert "better than the recommended level in mean and in tail" in repr(profile)
    assert profile.to_xarray().sizes["alpha"] == 3
    with refused(ParameterError, "conflicting-arguments", argument="horizon"):
        pr.risk_profile(model, posterior, 0.0, "choose", 100, seed, horizon=9, best_tail=True)


@pytest.mark.filterwarnings("ignore::prudent.errors.CautionWarning")
@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(20), marks=pytest.mark.slow)], ids=["few", "many"])
def test_the_recommendation_of_a_small_model_does_not_depend_on_the_seed(seeds):
    """With 500 draws half of the seeds recommend another level; with those that small models have by default none."""
    model, posterior = venture()
    levels = (0.0, 0.54, 0.63, 0.72, 0.9)

    def recommended(draws, seeds):
        return {pr.risk_profile(model, posterior, levels, "choose", draws, seed).recommended for seed in seeds}

    assert recommended(500, range(20)) == {0.0, 0.72}
    assert recommended(None, seeds) == {0.72}
