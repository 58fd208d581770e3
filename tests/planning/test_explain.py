"""Why this action: against Beta closed forms, plain scans and integrals."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from scipy import integrate, stats

import prudent as pr


def two_treatments(counts, prior=None):
    """In state "ill", "old" or "new" leads to "ill" or "well"; being well pays 1."""
    model = pr.UncertainMDP.direct([[0.0, 0.0], [1.0, 1.0]], 0.9, states=["ill", "well"], actions=["old", "new"])
    return model, pr.DirichletPosterior(counts, prior=prior)


COUNTS = [[60, 40], [1, 2], [50, 50], [60, 40]]


def beta_cvar(a, b, low, high, alpha):
    """CVaR of low + (high - low) X for X ~ Beta(a, b), by SciPy: the mean of the tail."""
    p = 1.0 - alpha
    cut = stats.beta.ppf(p, a, b)
    mean = a / (a + b) * stats.beta.cdf(cut, a + 1, b) / p
    return low + (high - low) * mean


@pytest.mark.parametrize("alpha", [0.5, 0.9])
def test_the_posterior_of_an_action_is_that_of_a_beta_variable(alpha):
    model, posterior = two_treatments(COUNTS, prior=np.ones((4, 2)))
    solution = pr.BayesianRiskMDP(model, posterior, alpha).solve()
    why = solution.explain("ill")
    low, high = 0.9 * solution.value
    for view in why.actions:
        b, a = COUNTS[("old", "new").index(view.action)]
        law = stats.beta(a, b, loc=low, scale=high - low)
        assert view.mean == pytest.approx(law.mean(), rel=1e-12)
        assert view.sd == pytest.approx(law.std(), rel=1e-10)
        for level, x in view.quantiles.items():
            assert x == pytest.approx(law.ppf(level), rel=1e-8)
        assert view.value == pytest.approx(beta_cvar(a, b, low, high, alpha), rel=1e-8)
        assert view.value == pytest.approx(solution.q[0, ("old", "new").index(view.action)], rel=1e-8)
        assert view.evidence == a + b - 2
        assert view.total_count == a + b
    assert why.action == why.actions[0].action == solution.policy_names[0]
    assert [view.chosen for view in why.actions] == [True, False]


def test_tail_probabilities_are_conditional_means():
    model, posterior = two_treatments(COUNTS)
    why = pr.BayesianRiskMDP(model, posterior, 0.9).solve().explain("ill")
    law = stats.beta(40, 60)
    tail = integrate.quad(lambda p: p * law.pdf(p), 0.0, law.ppf(0.1))[0] / 0.1
    found = why.outcomes("old").set_index("next_state")
    assert found.loc["well", "tail_probability"] == pytest.approx(tail, rel=1e-8)
    assert found["probability"].to_dict() == pytest.approx({"ill": 0.6, "well": 0.4})


@given(
    counts=st.lists(st.floats(0.1, 50.0), min_size=3, max_size=3),
    reward=st.lists(st.floats(-5.0, 5.0).map(lambda reward: round(reward, 9)), min_size=3, max_size=3),
    alpha=st.sampled_from([0.3, 0.9]),
)
@pytest.mark.filterwarnings("ignore::prudent.errors.ConvergenceWarning")  # values near zero have few digits
def test_contributions_add_up_to_the_price_of_caution(counts, reward, alpha):
    model = pr.UncertainMDP([[0]], [[[0, 0, 0]]], [[reward]], discount=0.5)
    view = pr.BayesianRiskMDP(model, [counts], alpha).solve().explain(0).actions[0]
    parts = [outcome.contribution for outcome in view.outcomes]
    assert sum(parts) == pytest.approx(view.mean - view.value, abs=1e-9)
    assert parts == sorted(parts, reverse=True)
    assert sum(outcome.tail_probability for outcome in view.outcomes) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "counts", [COUNTS, [[30, 30], [2, 3], [50, 50], [60, 40]], [[9, 11], [1, 1.2], [5, 5], [6, 4]]]
)
def test_how_many_observations_flip_the_choice_is_what_a_scan_finds(counts):
    model, posterior = two_treatments(counts)
    solution = pr.BayesianRiskMDP(model, posterior, 0.9).solve()
    why = solution.explain("ill")
    assert why.action == "old"
    low, high = 0.9 * solution.value
    (b_old, a_old), (b_new, a_new) = counts[:2]
    old = beta_cvar(a_old, b_old, low, high, 0.9)
    new = beta_cvar(a_new, b_new, low, high, 0.9)
    n = a_new + b_new
    scan = next(m for m in range(10_000) if beta_cvar(a_new * (1 + m / n), b_new * (1 + m / n), low, high, 0.9) > old)
    assert why.overtakes_after == why.actions[1].overtakes_after == scan
    scan = next(m for m in range(10_000) if beta_cvar(a_old, b_old + m, low, high, 0.9) < new)
    assert why.overtaken_after == scan
    assert why.worst_outcome.next_state == "ill"


def test_an_action_that_is_worse_on_average_never_overtakes():
    model, posterior = two_treatments([[40, 60], [2, 1], [50, 50], [60, 40]])
    why = pr.BayesianRiskMDP(model, posterior, 0.9).solve().explain("ill")
    assert why.overtakes_after is None
    assert "no number of further observations of another action" in repr(why)
    assert why.to_pandas()["overtakes_after"].isna().all()


def test_a_chosen_action_whose_worst_outcome_beats_the_rival_is_never_overtaken():
    model = pr.UncertainMDP([[0, 1]], [[[0, 0], [0, 0]]], [[[5.0, 6.0], [0.0, 1.0]]], discount=0.5)
    why = pr.BayesianRiskMDP(model, [[1, 1], [1, 1]], 0.5).solve().explain(0)
    assert why.action == 0
    assert why.overtaken_after is None
    assert "not even action 0 ending from now on in outcome 0" in repr(why)


def test_actions_that_share_a_source_move_together():
    shop = pr.envs.inventory()
    log = shop.model.trajectory(shop.theta, [3] * 11, 20, rng=0)
    posterior = pr.DirichletPosterior.from_log(shop.model, log, indices=True)
    solution = pr.BayesianRiskMDP(shop.model, posterior, 0.9).solve()
    why = solution.explain(2)
    rival = next(view for view in why.actions if view.overtakes_after is not None)
    psi, n = posterior.counts[0], posterior.counts[0].sum()

    def lead(m):
        values = []
        for action in (rival.action, why.action):
            y = shop.model.reward[2, action] + shop.model.discount * solution.value[shop.model.next_state[2, action]]
            values.append(float(pr.exact.cvar_dirichlet(y, psi * (1.0 + m / n), 0.9)))
        return values[0] - values[1]

    assert lead(rival.overtakes_after) > 0.0 >= lead(rival.overtakes_after - 1) - 1e-7


def test_level_zero_speaks_of_averages():
    model, posterior = two_treatments(COUNTS)
    why = pr.BayesianRiskMDP(model, posterior, 0.0).solve().explain("ill")
    assert why.action == "new"
    assert why.overtakes_after is None
    assert "the averages stay" in repr(why)
    assert "CVaR" not in repr(why)
    assert why.overtaken_after == 3  # 2/5 well is as good as 40/100, and a tie keeps the choice; 2/6 is less


def test_a_known_model_tells_values_and_gaps():
    mdp = pr.MDP([[[1.0], [1.0], [1.0]]], [[1.0, 2.0, 1.5]], 0.5, actions=["wait", "go", "jump"])
    why = pr.solve(mdp).explain(0)
    assert [view.action for view in why.actions] == ["go", "jump", "wait"]
    assert why.to_pandas()["gap"].tolist() == [0.0, 0.5, 1.0]
    assert repr(why) == "In state 0 the policy takes 'go'.\nIt is worth 4.00.\nNext best is 'jump', worth 3.50."
    assert list(why.to_pandas()) == ["action", "chosen", "value", "gap"]


def test_a_given_policy_that_is_not_the_best_is_told_so():
    model, posterior = two_treatments(COUNTS)
    for solution in (
        pr.BayesianRiskMDP(model, posterior, 0.9).evaluate(["new", "new"]),
        pr.evaluate(model.mdp(posterior.mean()), ["old", "new"]),
    ):
        why = solution.explain("ill")
        assert why.rival.value > why.actions[0].value
        assert "At these values it is not the best" in repr(why)


def test_without_a_choice_there_is_no_rival():
    model = pr.UncertainMDP.direct([[0.0], [1.0]], 0.9)
    why = pr.BayesianRiskMDP(model, model.prior(), 0.9).solve().explain(0)
    assert why.rival is None
    assert why.overtaken_after is None
    assert "No other action is admissible there." in repr(why)


def test_draws_and_other_measures_are_explained_by_draws():
    model, posterior = two_treatments(COUNTS)
    theta = posterior.sample(500, rng=1)
    problem = pr.BayesianRiskMDP(model, posterior, risk=pr.VaR(0.9))
    solution = problem.solve(theta)
    why = solution.explain("ill")
    assert why.draws == 500
    y = 0.9 * solution.value
    for view in why.actions:
        z = theta[:, ("old", "new").index(view.action)] @ y
        assert view.mean == pytest.approx(z.mean())
        assert view.value == pytest.approx(solution.q[0, ("old", "new").index(view.action)], rel=1e-8)
    assert "VaR(alpha=0.9) of 500 posterior draws" in repr(why)
    again = problem.solve(draws=500, rng=1).explain("ill")  # these draws are gone: fresh ones speak for the posterior
    assert again.draws == 100_000
    assert again.actions[0].mean == pytest.approx(why.actions[0].mean, abs=0.5)


def test_unknown_rewards_are_explained_by_draws():
    model, posterior = two_treatments(COUNTS)
    rewards = pr.posteriors.BetaPosterior(np.ones((2, 2)), np.ones((2, 2)))
    solution = pr.BayesianRiskMDP(model, posterior, 0.9, reward_posterior=rewards).solve(draws=50, rng=0)
    why = solution.explain("ill")
    assert why.draws == 100_000
    # the mean reward of 1/2 is known to 1e-3 five times over
    assert why.actions[0].mean == pytest.approx(
        0.5 + why.outcomes()[["probability", "value"]].prod(axis=1).sum(), abs=0.01
    )


def test_a_solution_does_not_change_when_its_posterior_learns():
    model, posterior = two_treatments(COUNTS)
    solution = pr.BayesianRiskMDP(model, posterior, 0.9).solve()
    before = repr(solution.explain("ill"))
    posterior.counts[0] += 1000.0
    assert repr(solution.explain("ill")) == before


def test_an_unknown_state_or_action_is_named():
    model, posterior = two_treatments(COUNTS)
    solution = pr.BayesianRiskMDP(model, posterior, 0.9).solve()
    with pytest.raises(pr.errors.ParameterError):
        solution.explain("dead")
    with refused(pr.errors.ParameterError, "unknown-action", argument="action", value="none"):
        solution.explain("ill").outcomes("none")


def test_tuples_and_odd_names_are_names():
    model = pr.UncertainMDP.direct(np.eye(2), 0.9, states=[("a", 1), ("b", 2)], actions=["$x$", None])
    why = pr.BayesianRiskMDP(model, model.prior(), 0.9).solve().explain(("b", 2))
    assert why.state == ("b", 2)
    assert "In ('b', 2) the policy takes None." in repr(why)
    why.plot().savefig(io.BytesIO())


@pytest.mark.parametrize("alpha", [0.0, 0.9])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("count", [1e-4, 1.0, 1e6])
def test_extremes_are_told_and_drawn(alpha, scale, count):
    model = pr.UncertainMDP.direct(scale * np.array([[0.0, 0.1], [1.0, 1.0], [0.3, 0.2]]), 0.9)
    why = pr.BayesianRiskMDP(model, model.prior(count), alpha).solve().explain(0)
    assert np.isfinite(why.to_pandas()[["value", "mean", "sd", "q05", "q95"]]).all(axis=None)
    assert "nan" not in repr(why)
    why.plot().savefig(io.BytesIO())
