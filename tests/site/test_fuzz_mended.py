"""What fuzzed calls have found: calls that once ended in an error of another library, a silent NaN or wrong digits."""

import warnings

import mpmath
import numpy as np
import pytest
from refusals import refused
from scipy import special

import prudent as pr
from prudent import agents, bandits, evaluation, exact, planning, posteriors, risk, simulation, testing, theory
from prudent._numerics.student import student_shortfall
from prudent.errors import (
    CautionWarning,
    ConvergenceWarning,
    DataError,
    ModelError,
    ParameterError,
    PosteriorError,
    PrudentError,
)
from prudent.planning import BayesianRiskMDP
from prudent.service.client import _pause

RAGGED = [[1.0], [1.0, 2.0]]
LAKE = pr.envs.frozen_lake(0.2)
COINS = {"arm": ["a", "b"] * 10, "reward": [0.0, 1.0] * 10, "propensity": [0.5] * 20}
MODEL = pr.UncertainMDP.direct([[0.0, 1.0], [1.0, 0.0]], 0.9)


def scaled(size):
    return pr.UncertainMDP.direct(size * np.array([[0.0, 1.0], [1.0, 0.5]]), 0.9)


@pytest.mark.parametrize("total", [1e-3, 1e-10, 1e-50, 1e-160, 1e-313])
def test_entropic_risk_of_tiny_counts(total):
    """In the limit one outcome has everything: -(1/b) log sum p_k exp(-b v_k)."""
    values, shares, beta = np.array([0.81, -1.13, 1.14]), np.array([0.2, 0.3, 0.5]), 0.4
    found = exact.risk_dirichlet(values, total * shares, risk.EntropicRisk(beta))
    limit = -np.log(shares @ np.exp(-beta * values)) / beta
    assert float(found.value) == pytest.approx(
        limit, abs=2.0 * total + (1e-12 if total > 1e-300 else 1e-6)
    )  # subnormal shares are rounded


@pytest.mark.parametrize("size", [1e-308, 1e150, 1e300, 1e307])
@pytest.mark.parametrize(
    "call",
    [
        lambda model: pr.returns(model.mdp(model.prior() / 2.0), [0, 1], start=0, horizon=3, replications=5, rng=1),
        lambda model: pr.posterior_returns(model, model.prior(), [0, 1], draws=5, rng=1),
        lambda model: pr.risk_profile(model, model.prior(), [0.0], draws=5, rng=1),
        lambda model: pr.value_of_data(model, model.prior(), 0.5, replications=4, rng=1),
        lambda model: pr.simulate((model, model.prior() / 2.0), pr.brps_rl(0.5), episodes=2, replications=2),
        lambda model: theory.limit_law(model.mdp(model.prior() / 2.0), [0, 1], 0.5),
    ],
    ids=["returns", "posterior_returns", "risk_profile", "value_of_data", "simulate", "limit_law"],
)
def test_rewards_whose_squares_overflow_or_vanish(call, size):
    with refused(ModelError, "overflow" if size > 1.0 else "underflow", argument="reward"):
        call(scaled(size))


@pytest.mark.parametrize(
    ("error", "code", "call"),
    [
        (ParameterError, "unknown-option", lambda: pr.LinearBandit(2, 1, rewards=np.zeros((2, 2)))),
        (ParameterError, "unknown-option", lambda: pr.SharedLinearBandit(2, rewards=np.array([]))),
        (ParameterError, "unknown-option", lambda: pr.off_policy(COINS, "a", interval=np.array([]))),
        (ParameterError, "unknown-option", lambda: pr.off_policy(COINS, "a", interval=[])),
        (ParameterError, "value-range", lambda: pr.SharedLinearBandit(2, offsets=True, offset_precision=1e-320)),
        (ParameterError, "integer-range", lambda: pr.returns(LAKE.mdp(), np.zeros(16, int), horizon=10**30)),
        (ParameterError, "wrong-type", lambda: pr.posterior_returns(MODEL, MODEL.prior(), np.array(1.0))),
        (DataError, "wrong-type", lambda: posteriors.GroupedPosterior([[1.0]], [posteriors.Group(0, (0, 1), 3.0)])),
        (DataError, "too-large", lambda: posteriors.LinearGaussianPosterior(2).predict([1e200, 1e200])),
        (DataError, "too-large", lambda: posteriors.LinearGaussianPosterior(2).update([1e11, 1.3e11], 1.0)),
        (DataError, "too-large", lambda: posteriors.NormalPosterior([0.0], 1.0, 1.0).update(0, 1e300)),
        (ModelError, "wrong-shape", lambda: theory.stationary_distribution(np.empty((0, 0)))),
        (ModelError, "sum-not-one", lambda: theory.stationary_distribution(np.full((3, 3), 1e308))),
    ],
)
def test_strange_arguments_are_refused(error, code, call):
    with refused(error, code):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: pr.brps_rl(RAGGED),
        lambda: posteriors.LinearGaussianPosterior(2, RAGGED),
        lambda: pr.envs.frozen_lake(0.1, slip=RAGGED),
        lambda: pr.returns(LAKE.mdp(), np.zeros(16, int), start=RAGGED, horizon=2),
        lambda: pr.from_log({"state": ["a"], "action": 1.0, "next_state": ["a"], "reward": [0.0]}, 0.9),
        lambda: evaluation.replay(
            {"arm": [["a"], "b"], "reward": [1.0, 0.0], "propensity": [0.5, 0.5], "context": [[1.0], [0.0]]},
            pr.LinearBandit(["a", "b"], 1),
        ),
    ],
)
def test_ragged_lists_and_columns_are_refused(call):
    with pytest.raises((ParameterError, DataError, PosteriorError)):
        call()


@pytest.mark.parametrize("measure", [risk.EntropicRisk(0.5), risk.EntropicRisk(1.7e308), risk.Expectile(0.3)])
@pytest.mark.parametrize("size", [1e-151, 1.0, 1e147, 1.7e307])
def test_equivalents_of_huge_draws_lie_among_them(measure, size, rng):
    for draws in (np.full(9, size), size * rng.normal(size=9)):
        assert draws.min() - 1e-9 * size <= measure(draws) <= draws.max() + 1e-9 * size


def test_draws_of_tiny_ambiguous_counts_are_probabilities():
    posterior = posteriors.GroupedPosterior(np.full((1, 3), 1e-316), [posteriors.Group(0, (0, 1), 3.0)])
    assert posterior.sample(4, rng=1).sum(axis=-1) == pytest.approx(1.0)


def test_values_of_ordinary_rewards_are_still_solved():
    assert np.isfinite(BayesianRiskMDP(scaled(1e60), MODEL.prior(), 0.5).solve().value).all()


@pytest.mark.parametrize("delta", [1e-10, 1e-315])
def test_bounds_hold_with_the_smallest_chances(delta):
    """They grow with the square root of log(1/delta), up to parts that do not depend on it."""
    settings = {"S": 3, "A": 2, "alpha": 0.5, "discount": 0.9}
    bounds = [theory.optimistic_vi_regret_bound(100, **settings, delta=d) for d in (delta, delta**0.5)]
    assert bounds[1] < bounds[0] < np.sqrt(2.0) * bounds[1]


@pytest.mark.parametrize("size", [1e219, 1e240, 1e300])
def test_entropic_risk_of_huge_counts_is_that_of_the_mean(size):
    """Warnings are errors here; all is known, so the risk is the expected value."""
    values, shares = np.array([0.81, -1.13, 1.14]), np.array([0.2, 0.3, 0.5])
    found = exact.risk_dirichlet(values, size * shares, risk.EntropicRisk(0.4))
    assert float(found.value) == pytest.approx(shares @ values, rel=1e-12)


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0)])
@pytest.mark.parametrize("call", [exact.cvar_dirichlet, exact.var_dirichlet, exact.dirichlet_tail])
def test_rows_without_outcomes_are_refused(call, shape):
    with refused(PosteriorError, "wrong-shape", argument="counts"):
        call(np.empty(shape), np.empty((0, 0)), 0.5)


@pytest.mark.parametrize("name", ["price", "cost", "holding", "penalty"])
@pytest.mark.parametrize("value", [np.datetime64("2020-01-01"), "4", True, 1j, None, [1.0, 2.0]])
def test_an_inventory_has_numbers_for_amounts(name, value):
    with refused(ParameterError, "not-a-number", argument=name):
        pr.envs.inventory([0.5, 0.5], capacity=3, max_order=2, **{name: value})


@pytest.mark.parametrize(("size", "code"), [(1e-205, "underflow"), (1e90, "overflow")])
def test_a_check_of_rewards_whose_squares_overflow_or_vanish(size, code, rng):
    log = {
        "episode": np.repeat(np.arange(6), 4),
        "step": np.tile(np.arange(4), 6),
        "state": ["a", "b", "c", "a"] * 6,
        "action": ["x", "y", "y", "x"] * 6,
        "next_state": ["b", "c", "a", "b"] * 6,
        "reward": size * rng.random(24),
    }
    with refused(ModelError, code, argument="reward"):
        pr.check(log, 0.9, folds=2, repeats=1, alphas=(0.0,))


# -- plans, studies, episodes, journals and clients --------------------------------------------------------


STEPS = {
    "episode": np.repeat(np.arange(20), 2),
    "step": np.tile(np.arange(2), 20),
    "state": ["a", "b"] * 20,
    "action": ["x", "y", "y", "x"] * 10,
    "next_state": ["b", "a"] * 20,
    "reward": [0.0, 1.0] * 20,
}


@pytest.fixture
def live(tmp_path):
    """A journal of a bandit with two arms."""
    with pr.Journal(tmp_path / "j", pr.LinearBandit(["a", "b"], 1, rng=1), synchronous="NORMAL") as opened:
        yield opened


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("wrong-type", lambda client: client.decide({1}, [1.0])),
        ("wrong-type", lambda client: client.decide("home", [1.0], note=1.5)),
        ("wrong-type", lambda client: client.decide("home", [1.0], note=np.zeros((1, 3)))),
        ("wrong-type", lambda client: client.decide("home", [1.0], key=7)),
        ("wrong-type", lambda client: client.decide_many("home", 7.0)),
        ("wrong-type", lambda client: client.decide_many("home", ["x"])),
        ("unknown-name", lambda client: client.decide_many("home", [{"kontext": [1.0]}])),
        ("wrong-type", lambda client: client.reward_many("home", 1.0)),
        ("wrong-type", lambda client: client.reward_many("home", [("x",)])),
        ("wrong-type", lambda client: client.reward("home", ["x"], [1.0])),
    ],
)
def test_a_client_refuses_strange_arguments(live, code, call):
    with pr.Client({"home": live}) as client, refused(ParameterError, code):
        call(client)


@pytest.mark.parametrize("arms", [1.5, np.array(0.5), 1j])
def test_a_client_refuses_arms_that_are_no_list(live, arms):
    with pr.Client(live) as client, pytest.raises((ParameterError, DataError)):
        client.decide("home", [1.0], arms)


def test_a_client_reports_rewards_one_by_one_where_one_is_wrong(live):
    with pr.Client(live) as client:
        ids = [client.decide("home", [1.0]).id for _ in range(2)]
        found = client.reward_many("home", [(ids[0], 1.0), (ids[1], float("nan")), ("x", 2.0)])
        assert found[0] == "ok"
        assert isinstance(found[1], DataError)
        assert found[2] == "unknown"
        assert client.reward_many("home", []) == []


def test_a_metric_of_a_journal_without_an_experiment_is_not_learned_as_the_reward(live):
    with pr.Client(live) as client, refused(DataError, "unknown-metric", argument="metric"):
        client.reward("home", client.decide("home", [1.0]).id, 1.0, metric="latency")
    assert live.bandit.n_rewards == 0


@pytest.mark.parametrize(
    ("argument", "options"),
    [("timeout", {"timeout": 0.0}), ("retries", {"retries": 1.5}), ("target", {"key": "sch\u00fcssel"})],
)
def test_a_client_of_a_server_refuses_strange_options(argument, options):
    pytest.importorskip("httpx")
    with pytest.raises(ParameterError) as caught:
        pr.Client("http://127.0.0.1:1", **options)
    assert caught.value.fields["argument"] == argument


@pytest.mark.parametrize("context", [[float("nan")], {"x": {1}}])
def test_a_request_that_json_cannot_hold_is_refused(context):
    pytest.importorskip("httpx")
    with pr.Client("http://127.0.0.1:1", retries=0) as client, refused(DataError, "not-json"):
        client.decide("home", context)


@pytest.mark.parametrize("window", [3.6e159, 1e-300, float("inf")])
def test_a_window_has_a_length(tmp_path, window):
    with pytest.raises(ParameterError) as caught:
        pr.Journal(tmp_path / "j", pr.LinearBandit(2, 1), window=window)
    assert caught.value.fields["argument"] == "window"


def test_a_record_of_several_contexts_is_refused_and_leaves_nothing(live):
    with refused(DataError, "many-contexts", argument="context"):
        live.record([[1.0], [2.0]], "a", 0.5)
    assert list(live.rows()) == []
    assert live.verify() == 0


def test_missing_rewards_are_a_number_or_a_word():
    with refused(ParameterError, "unknown-option", argument="missing_reward"):
        pr.off_policy(COINS, "a", missing_reward=np.empty((0, 3)))


def test_the_smallest_propensities_are_refused():
    tiny = [2e-315] * 20
    with refused(DataError, "weight-range"):
        pr.off_policy(COINS | {"propensity": tiny}, "a")
    with refused(DataError, "probability-range"):
        pr.off_policy(STEPS | {"propensity": tiny * 2}, "x", discount=0.9)


@pytest.mark.parametrize("exclude", [np.array(0.5), [np.array(0.5)], [{0, 1}], [3], ["01"]])
def test_what_is_excluded_are_pairs(exclude):
    with refused(ParameterError, "wrong-type", argument="exclude"):
        BayesianRiskMDP(MODEL, MODEL.prior(), 0.5).solve(exclude=exclude)


def test_posteriors_of_another_model_are_refused(tmp_path):
    log = pr.from_log(STEPS, 0.9, min_count=1)
    pr.save(tmp_path, BayesianRiskMDP(*log, 0.5).solve())
    other = pr.DirichletPosterior([[1.0, 2.0]])
    with refused(PosteriorError, "wrong-shape"):
        pr.planning.log_policy(MODEL, other)
    with refused(PosteriorError, "wrong-shape"):
        pr.analysis.compare(tmp_path, log[0], other)
    with refused(ParameterError, "wrong-type", argument="posterior"):
        pr.analysis.compare(tmp_path, log[0], [[1.0, 2.0]])


def test_horizons_that_are_never_over_are_refused():
    with refused(ParameterError, "integer-range", argument="horizon"):
        pr.posterior_returns(MODEL, MODEL.prior(), [0, 1], draws=4, horizon=10**30)


@pytest.mark.parametrize("call", [pr.posterior_returns, pr.value_of_data])
def test_final_values_whose_squares_overflow_are_refused(call):
    policies = {"policies": [0, 1], "draws": 4} if call is pr.posterior_returns else {}
    with refused(ModelError, "overflow", argument="reward"):
        call(MODEL, MODEL.prior(), horizon=2, terminal_value=1e174, rng=1, **policies)


def test_ragged_priors_are_refused():
    with pytest.raises(PosteriorError):
        pr.from_log(STEPS, 0.9, prior=RAGGED)


def test_a_page_of_few_draws_says_that_errors_are_not_known(tmp_path):
    study = pr.analysis.study_log(*pr.from_log(STEPS, 0.9, min_count=1), (0.0,), draws=4)
    assert "\u00b1 ?" in study.report(tmp_path / "page.html").read_text()


BANDIT = pr.LinearBandit(["a", "b"], 1)
EPISODES = STEPS | {"propensity": [0.5] * 40}


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("columns", 1.5),
        ("columns", "x"),
        ("arms", 1.5),
        ("arms", [[1], [2]]),
        ("features", 1.5),
        ("features", [[1]]),
        ("folds", 10**30),
    ],
)
def test_options_of_a_log_of_decisions_are_refused(argument, value):
    with pytest.raises((ParameterError, DataError)):
        pr.off_policy(COINS, "a", **{argument: value})


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("columns", 1.5),
        ("columns", {"episode": np.array([])}),
        ("features", 1.5),
        ("terminal", 1.5),
        ("terminal", np.zeros((2, 2))),
        ("horizon", 10**30),
        ("quantiles", 0.5),
        ("quantiles", []),
        ("folds", 10**14),
        ("logging_policy", np.array(0.5)),
        ("logging_policy", RAGGED),
    ],
)
def test_options_of_a_log_of_episodes_are_refused(argument, value):
    with pytest.raises((ParameterError, DataError)):
        pr.off_policy(EPISODES, "x", discount=0.9, **{argument: value})


def test_simulations_that_would_never_end_are_refused(tmp_path):
    """Call 947491 of seed 20261118."""
    model, posterior = pr.from_log([("a", "x", "b", 1.0, 3), ("a", "y", "b", 0.0, 2)], 0.9, terminal=["b"])
    pr.save(tmp_path / "then", pr.BayesianRiskMDP(model, posterior, 0.5).solve())
    with refused(ParameterError, "integer-range", argument="simulations", value=10**14):
        pr.analysis.compare(tmp_path / "then", model, posterior, simulations=10**14)


@pytest.mark.parametrize("client", [pr.Client, pr.AsyncClient])
def test_a_client_does_not_wait_for_ever(client):
    with refused(ParameterError, "integer-range", argument="retries", value=10**14):
        client("http://127.0.0.1:9", retries=10**14)
    with refused(ParameterError, "value-range", argument="timeout", value=1e300):
        client("http://127.0.0.1:9", timeout=1e300)
    assert max(_pause(attempt, 0.0) for attempt in (0, 3, 999, 10**6)) <= 7.5  # 2.0**1024 is no number


def test_a_replay_learns_or_does_not():
    with refused(ParameterError, "not-a-bool", argument="learn"):
        evaluation.replay(COINS, BANDIT, learn=np.array([]))
    with refused(ParameterError, "wrong-type", argument="settings"):
        evaluation.tune(COINS, np.array(0.5))


@pytest.mark.parametrize("columns", [np.array(0.5), np.zeros((2, 2)), {"x": 1.5}, {"x": [[], []]}])
def test_rules_speak_of_columns_with_a_value_for_each_state(columns):
    with (
        refused(ParameterError, "wrong-type") if not isinstance(columns, np.ndarray) else pytest.raises(ParameterError)
    ):
        BayesianRiskMDP(MODEL, MODEL.prior(), 0.5).solve().simplify(2, columns, draws=5)


def test_a_comparison_at_the_smallest_confidence_has_an_interval(tmp_path):
    log = pr.from_log(STEPS, 0.9, min_count=1)
    pr.save(tmp_path, BayesianRiskMDP(*log, 0.5).solve())
    found = pr.analysis.compare(tmp_path, *log, draws=5, simulations=9, confidence=1e-300)
    assert (found.returns["low"] <= found.returns["high"]).all()


def test_averages_of_rewards_near_the_largest_float():
    """Warnings are errors here."""
    with pytest.raises((ModelError, pr.errors.PrudentWarning)):
        BayesianRiskMDP(scaled(1.7e308), MODEL.prior(), 0.5).solve(objective="average")


def test_a_learning_plan_of_rewards_whose_squares_overflow():
    plan = BayesianRiskMDP(scaled(1e200), MODEL.prior(), -0.5).solve(horizon=2, learning=True)
    small = BayesianRiskMDP(scaled(1.0), MODEL.prior(), -0.5).solve(horizon=2, learning=True)
    np.testing.assert_allclose(plan.value / 1e200, small.value, rtol=1e-9)


def test_one_huge_step_between_many_small_ones():
    log = {"episode": [0] * 5, "step": [0.0, 1.0, 2.0, 2.0, 1e282], "state": list("ababa"), "action": ["x"] * 5}
    _, posterior = pr.from_log(log | {"next_state": list("babab"), "reward": [1.0] * 5}, 0.9)
    assert np.isfinite(posterior.counts).all()


def test_an_empty_support_is_refused():
    with refused(ParameterError, "not-a-bool", argument="support"):
        pr.from_log(STEPS, 0.9, support=np.array([], dtype=object))


def test_a_state_of_another_type_is_named():
    rows = {"episode": np.repeat(np.arange(4), 2), "step": [0, 1] * 4, "action": ["x", "y"] * 4, "reward": [1.0] * 8}
    states = ["a", np.datetime64("2020-01-01"), *("ab" * 3)]
    with refused(DataError, "wrong-type", column="state"):
        pr.off_policy(rows | {"state": states, "propensity": [0.5] * 8}, "x", discount=0.9)


UNEVEN = [[1.0, 2.0, 3.0], [2.0, 1.0, 1.0]]
CLICKS = bandits.SparseLinearBandit(["a", "b"], 3, rng=1)


@pytest.mark.parametrize(
    ("error", "code", "call"),
    [
        (ParameterError, "wrong-shape", lambda: pr.L1Ball.credible(UNEVEN, weights=[1.0, 2.0, 3.0])),
        (ParameterError, "wrong-shape", lambda: pr.L1Ball.credible(UNEVEN, weights=[])),
        (ParameterError, "memory", lambda: pr.L1Ball.credible(UNEVEN, draws=10**30)),
        (ParameterError, "wrong-shape", lambda: pr.envs.logistic_bandit(3, 4, rates=0.1)),
        (ParameterError, "not-a-number", lambda: pr.envs.logistic_bandit(3, 4, strength=np.ones(2))),
        (DataError, "wrong-shape", lambda: pr.envs.classification(np.ones((6, 2)), RAGGED)),
        (ParameterError, "not-a-bool", lambda: pr.envs.classification(np.eye(2), [0, 1], shuffle="no")),
        (ModelError, "unknown-state", lambda: pr.UncertainMDP.direct(np.ones((2, 2)), 0.9, terminal=RAGGED)),
        (DataError, "wrong-shape", lambda: CLICKS.update(np.array(1.0), "a", 1.0)),
        (ModelError, "row-width", lambda: pr.MDP.from_table([("a", "go", "b", 1.0, 1.0), np.array("text")], 0.9)),
        (ParameterError, "not-a-bool", lambda: pr.risk_profile(MODEL, MODEL.prior(), [0.0], regret=np.zeros(0))),
        (ParameterError, "not-a-bool", lambda: pr.risk_profile(MODEL, MODEL.prior(), [0.0], best_tail=np.ones(2))),
        (ParameterError, "not-a-number", lambda: planning.AtMost("1")),
        (ParameterError, "not-a-number", lambda: planning.AtMost(np.datetime64("2020-01-01"))),
        (ParameterError, "conflicting-arguments", lambda: evaluation.ConfidenceSequence("normal").update([1.0], 0.5)),
    ],
)
def test_strange_arguments_of_newer_names_are_refused(error, code, call):
    with refused(error, code):
        call()


def test_a_limit_of_time_is_a_number():
    problem = BayesianRiskMDP(MODEL, MODEL.prior(), 0.0)
    with refused(ParameterError, "not-a-number", argument="time_limit"):
        pr.solve(problem, objective=pr.PosteriorRisk(pr.CVaR(0.5)), start=0, draws=5, rng=0, time_limit=np.ones(2))


@pytest.mark.parametrize("measure", [pr.VaR(0.5), pr.CVaR(0.5), pr.MeanCVaR(0.5, 0.4), pr.Spectral(np.sqrt, 4)])
def test_draws_whose_range_is_no_float(measure, rng):
    draws = rng.permutation(np.linspace(-1.0, 1.0, 9))
    assert measure(1.7e308 * draws) == pytest.approx(1.7e308 * measure(draws), rel=1e-14)


def test_intervals_that_have_no_mean_in_common_are_said():
    """The noise is far larger than was said: the running intersection is empty, and every interval is still one."""
    with pytest.warns(CautionWarning):
        low, high = evaluation.confidence_sequence([0.1, 0.2, 0.1, 1e9], kind="normal", sd=0.1)
    assert (low <= high).all()


@pytest.mark.parametrize("mean", [1e300, -2e287, 0.5])
@pytest.mark.parametrize("sd", [None, 1e-70, 1.0])
def test_evidence_against_any_mean_is_a_number(mean, sd):
    found = evaluation.ConfidenceSequence("normal", sd=sd).update([0.3, -0.2, 0.9, 0.1]).evidence(mean)
    assert 0.0 <= found <= np.exp(700.0)


def test_a_horizon_beyond_the_log_takes_no_memory():
    log = {"episode": [0, 0, 1, 1], "state": [0, 1] * 2, "action": [0, 1, 1, 0], "reward": [1.0, 0.0] * 2}
    with pytest.raises(PrudentError):
        pr.off_policy(log | {"propensity": [0.5] * 4}, 0, episode="episode", discount=0.9, horizon=10**12)


# strength b of beta times the range, counts, values: NaN, out of range or infinite gradients once, without a warning
ENTROPIC = [
    (1.05e16, [1.49e-21, 2.05e-18], [-0.9, -1.9]),
    (3.5e269, [2.2e-37, 8.5e-36, 1.6e-35], [0.58, 0.12, -0.42]),
    (4.8e125, [2.9e5, 4.2e93, 7.4e-18], [-0.09, 0.54, 0.91]),
    (7.0e13, [1.3e-194, 7.5e-136], [-0.31, 0.69]),
    (9.7e8, [5.8e-141, 2.4e-139, 2e-137, 3.4e-139], [-0.51, 0.05, -0.82, 0.18]),
    (95.0, [1.6e26, 4.8e297], [0.94, -0.06]),
    (2e4, [2.3e285, 1.9e282, 3.9e285], [0.18, 0.25, -0.75]),
    (1.5e40, [330.0, 15.8, 1.2e-10, 3.4e-10], [-0.27, -0.7, 0.3, 0.07]),
    (7.2e4, [0.07, 1.4e4, 1e-5], [-0.08, 0.5, -0.5]),
    (1.2e62, [2.8e-119, 20.6, 4.9e-171], [0.35, -0.65, 0.15]),
]


@pytest.mark.parametrize(("strength", "counts", "values"), ENTROPIC)
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_entropic_risk_of_strong_aversion_and_extreme_counts(strength, counts, values, sign):
    """Values lie in their range, on the cautious side of the mean, and the gradient is a distribution."""
    y, p = np.array(values), np.array(counts)
    beta = sign * strength / np.ptp(y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = exact.risk_dirichlet(y, p, risk.EntropicRisk(beta))
    value, error = float(found.value), float(found.error) + 1e-14
    assert y.min() - error <= value <= y.max() + error
    assert sign * (value - (p / p.sum()) @ y) <= error
    assert found.means.sum() == pytest.approx(1.0, abs=1e-9)
    assert (found.means >= 0.0).all()


@pytest.mark.parametrize("total", [1e-15, 1e-80, 1e-290])
@pytest.mark.parametrize("strength", [70.0, 1e4, 1e90])
def test_entropic_risk_of_tiny_counts_is_that_of_a_choice(total, strength):
    """In the limit w is a corner: -(1/b) log sum p_k exp(-b v_k)."""
    values, shares = np.array([0.3, 0.9, 1.3]), np.array([0.2, 0.3, 0.5])
    found = exact.risk_dirichlet(values, total * shares, risk.EntropicRisk(strength))
    limit = -special.logsumexp(np.log(shares) - strength * values) / strength
    assert float(found.value) == pytest.approx(limit, abs=1e-13)


@pytest.mark.parametrize("counts", [[0.3, 2.0], [1e-6, 3.0], [1e-30, 1e-3], [40.0, 1e-9]])
@pytest.mark.parametrize("strength", [61.0, 200.0, 500.0])
def test_entropic_risk_of_two_outcomes_is_kummers_function(counts, strength):
    """E exp(-b w) = 1F1(p; A; -b) for w ~ Beta(p, A - p): the error bound holds, whatever it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = exact.risk_dirichlet([1.0, 0.0], counts, risk.EntropicRisk(strength))
    with mpmath.workdps(60):
        p, total, b = mpmath.mpf(counts[0]), mpmath.mpf(counts[0]) + mpmath.mpf(counts[1]), mpmath.mpf(strength)
        truth = -mpmath.log(mpmath.hyp1f1(p, total, -b)) / b
        assert abs(mpmath.mpf(float(found.value)) - truth) <= float(found.error) + 1e-16


@pytest.mark.parametrize("exploration", [np.ones(2), np.zeros((0, 3)), np.array("auto"), "wide", [1.0, [2.0]]])
def test_an_exploration_that_is_no_number(exploration):
    for make in (bandits.BanditSettings, lambda **options: pr.LinearBandit(2, dim=2, **options)):
        with refused(ParameterError, "not-a-number", argument="exploration"):
            make(exploration=exploration)


LOGGED = {"arm": ["a", "b"] * 50, "context": [[0.01 * i] for i in range(100)]}


def test_policies_are_learned_from_rewards_of_any_size():
    """In another unit, a power of two, it is the same policy to the last bit."""
    rewards = np.random.default_rng(5).random(100)
    plain, large = (
        pr.learn_policy(LOGGED | {"reward": size * rewards, "propensity": [0.5] * 100}) for size in (1.0, 2.0**240)
    )
    assert large.rules() == plain.rules()
    assert large.lower_bound == 2.0**240 * plain.lower_bound


def test_policies_are_not_learned_from_weights_that_overflow():
    for chance in (1e-283, 1e-310):
        with refused(DataError, "weight-range", index=0):
            pr.learn_policy(LOGGED | {"reward": [1e70] * 100, "propensity": [chance] * 100})


def test_a_unit_is_a_text(tmp_path):
    study = pr.analysis.study_log(*pr.from_log([(0, 0, 1, 1.0, 9), (1, 0, 0, 0.0, 9)], 0.5), (0.0,), draws=20)
    for report in (study.report, study.profile.solutions[0.0].report):
        with refused(ParameterError, "wrong-type", argument="unit"):
            report(tmp_path / "page.html", unit=5)


def test_off_policy_with_tiny_contexts():
    """Contexts whose squares vanish say nothing: the estimates are those without contexts."""
    rewards = np.random.default_rng(5).random(100)
    log = {"arm": LOGGED["arm"], "reward": rewards, "propensity": [0.5] * 100}
    found = pr.off_policy(log | {"context": [[1e-158 * i] for i in range(100)]}, "a")
    assert np.isfinite(found.table.to_numpy(dtype=float)).all()
    assert found.loc["ips", "estimate"] == pr.off_policy(log, "a").loc["ips", "estimate"]


SLATES = {"slate": [0, 0, 1, 1], "position": [0, 1, 0, 1], "reward": [1.0, 0.0, 0.0, 1.0], "target": [0.5] * 4}
PULLS = {"context": [[1.0, 2.0]] * 4, "arm": ["a", "b"] * 2, "reward": [1.0, 0.0, 2.0, 1.0]}


class Learner:
    """A learner as in coba."""

    def __init__(self, chance):
        self.chance = chance

    def score(self, context, actions, action):
        return self.chance

    def learn(self, context, action, reward, chance):
        pass


def adapted(chance=0.5):
    return simulation.adapt_bandit(Learner(chance), ["a", "b"], rng=1)


def stepped(env):
    env.reset(seed=1)
    return env.step(-(10**30))


def checked_log(**columns):
    return pr.LinearBandit(["a", "b"], 2, rng=1).check(PULLS | columns)


def entries(**given):
    good = {"source": [[0]], "pair": [0, 0], "outcome": [0, 1], "next_state": [0, -2], "reward": [1.0, 5.0]}
    return pr.UncertainMDP.from_entries(**(good | given), discount=0.9)


@pytest.mark.parametrize(
    ("error", "code", "call"),
    [
        (DataError, "wrong-shape", lambda: pr.LinearBandit.from_log(PULLS | {"context": 1.0})),
        (DataError, "wrong-shape", lambda: pr.LinearBandit.from_log(PULLS | {"reward": np.array(1.0)})),
        (DataError, "wrong-shape", lambda: pr.SharedLinearBandit.from_log(PULLS | {"reward": None})),
        (DataError, "wrong-type", lambda: pr.LinearBandit.from_log(PULLS | {"arm": ["a", [1], "a", "b"]})),
        (DataError, "wrong-shape", lambda: checked_log(arm=["a", "b", "a"])),
        (DataError, "wrong-shape", lambda: checked_log(reward=[1.0, 2.0])),
        (DataError, "too-large", lambda: checked_log(reward=[1e233, 1.0, 2.0, 3.0])),
        (DataError, "not-a-time", lambda: checked_log(time=["noon"] * 4, reward_time=["later"] * 4)),
        (DataError, "wrong-shape", lambda: evaluation.off_policy_slates(SLATES | {"propensity": 0.5})),
        (
            DataError,
            "wrong-type",
            lambda: evaluation.off_policy_slates(SLATES | {"propensity": [0.5] * 4, "slate": [[0]] * 4}),
        ),
        (
            DataError,
            "value-range",
            lambda: evaluation.off_policy_slates(SLATES | {"propensity": [0.5] * 4, "position": [0, 1e66] * 2}),
        ),
        (DataError, "weight-range", lambda: evaluation.off_policy_slates(SLATES | {"propensity": [1e-60] * 4})),
        (
            ParameterError,
            "unknown-option",
            lambda: evaluation.balanced_propensities(COINS | {"logger": [["old"]] * 20}, {"old": "a"}),
        ),
        (
            ModelError,
            "wrong-type",
            lambda: pr.UncertainMDP.from_dynamics(lambda s, a, z: (s, 0.0), ["a"], ["go"], 1.0, 0.9),
        ),
        (
            ModelError,
            "wrong-type",
            lambda: pr.UncertainMDP.from_dynamics(lambda s, a, z: (s, 0.0), 2, ["go"], [0], 0.9),
        ),
        (ParameterError, "not-a-bool", lambda: MODEL.count([(0, 0, 1)], MODEL.prior(), indices=np.ones(2))),
        (ModelError, "index-range", lambda: entries(pair=[0, 7])),
        (ModelError, "index-range", lambda: entries(outcome=[0, 10**14])),
        (ModelError, "wrong-shape", lambda: entries(reward=[1.0])),
        (ModelError, "not-an-integer", lambda: entries(next_state=[0.5, 1.0])),
        (ParameterError, "unknown-state", lambda: agents.ModelSamplingAgent(MODEL, draws=4).act(0.5)),
        (ParameterError, "unknown-action", lambda: agents.ModelSamplingAgent(MODEL, draws=4).observe(0, -1e273, 1)),
        (ParameterError, "unknown-state", lambda: agents.ModelSamplingAgent(MODEL, draws=4).observe(0, 1, [1])),
        (ParameterError, "inadmissible-action", lambda: stepped(pr.envs.TabularEnv(LAKE))),
        (ParameterError, "unknown-arm", lambda: stepped(pr.envs.LinearBanditGym(pr.envs.gaussian_bandit(3)))),
        (DataError, "negative", lambda: adapted(-0.5).propensities([1.0])),
        (DataError, "not-numbers", lambda: adapted("often").propensities([1.0])),
        (DataError, "wrong-shape", lambda: adapted().propensities(1.0)),
        (ParameterError, "not-a-number", lambda: adapted().update([1.0], "a", "much")),
        (
            ParameterError,
            "wrong-type",
            lambda: pr.simulate(LAKE, [pr.brps_rl(0.5)], episodes=1, replications=1, record=1.0),
        ),
    ],
)
def test_what_later_entry_points_were_given(error, code, call):
    with refused(error, code):
        call()


@pytest.mark.parametrize(
    "world", [pr.envs.gaussian_bandit(3), pr.envs.drifting(*[pr.envs.gaussian_bandit(3)] * 2, at=3)]
)
def test_simulations_that_would_take_years_are_refused(world):
    for code, given in (
        ("too-long", {"horizon": 10**10, "replications": 10**4}),
        ("integer-range", {"horizon": 10**30}),
        ("too-long" if hasattr(world, "theta") else "integer-range", {"horizon": 10**14}),
    ):
        with refused(ParameterError, code):
            simulation.simulate_bandit(world, [bandits.brps_cmab(0.5)], **given)


@pytest.mark.parametrize("call", [testing.check_agent, testing.check_environment])
def test_suites_without_an_end_are_refused(call):
    with refused(ParameterError, "integer-range", argument="steps"):
        call(lambda: LAKE, steps=10**14)


def test_entries_are_read_from_lists():
    assert entries().n_outcomes == 2


@pytest.mark.parametrize("alpha", [1e-320, 1e-187, 1e-20, 1e-9, 0.3, 0.999])
def test_shortfall_of_student_at_any_level(alpha):
    """Minus CVaR by quadrature of t f(t) over the tail, in 50 digits; at tiny levels it is that of the other tail."""
    v = 5.0
    with mpmath.workdps(60):
        constant = mpmath.gamma(3) / (mpmath.sqrt(5 * mpmath.pi) * mpmath.gamma(mpmath.mpf(5) / 2))
        quantile = mpmath.mpf(float(special.stdtrit(v, alpha)))
        expected = v / (v - 1.0) * constant * (1 + quantile**2 / v) ** (-2) / (1 - mpmath.mpf(alpha))
        if alpha == 0.3:
            tail = mpmath.quad(lambda t: t * constant * (1 + t**2 / v) ** (-3), [-quantile, mpmath.inf])
            assert float(tail / (1 - mpmath.mpf(alpha))) == pytest.approx(float(expected), rel=1e-12)
    assert float(student_shortfall(alpha, np.array([v]))[0]) == pytest.approx(float(expected), rel=1e-11, abs=1e-300)


def test_weights_of_a_refit_are_shares():
    """Above 1 a bandit was saved that could not be loaded."""
    log = [([0.0], "a", 1), ([1.0], "a", 0), ([0.0], "b", 0)]
    bandit = pr.LinearBandit(["a", "b"], 1, rewards="bernoulli", rng=1)
    with refused(DataError, "value-range", argument="weights"):
        bandit.refit(log, weights=[1.0, 1e12, 1.0])
    bandit.refit(log, weights=[1.0, 0.5, 0.0])
    assert type(bandit).from_bytes(bandit.to_bytes()).to_bytes() == bandit.to_bytes()


@pytest.mark.parametrize("size", [1e174, 1e293])
def test_policies_judged_over_the_posterior_with_large_rewards(size):
    """The spread of sampled values is a number although its square is none."""
    problem = BayesianRiskMDP(scaled(size), scaled(1.0).prior(2.0), 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", CautionWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = pr.solve(problem, objective=pr.PosteriorRisk(pr.CVaR(0.5)), start=0, draws=5, rng=0)
    assert np.isfinite([found.objective_value, found.upper_bound, found.search.out_of_sample.error]).all()


def test_slates_that_the_target_hardly_ever_shows():
    log = SLATES | {"propensity": [0.5] * 4, "target": [1e-310] * 4}
    assert np.isfinite(evaluation.off_policy_slates(log).table.to_numpy(dtype=float)).all()


def test_times_that_are_infinite_are_none():
    found = checked_log(time=[0.0, np.inf, 2.0, 3.0], reward_time=[np.inf, np.inf, 3.0, 4.0])
    assert [finding.kind for finding in found] == []


def test_complex_numbers_are_refused():
    with refused(DataError, "not-numbers", argument="values"):
        evaluation.confidence_sequence(np.array([1j, 0.5]), value_range=(0.0, 1.0))


def test_policies_judged_over_the_posterior_with_subnormal_rewards():
    with refused(ModelError, "underflow", argument="reward"):
        pr.solve(
            BayesianRiskMDP(scaled(1e-316), scaled(1.0).prior(), 0.0), objective=pr.PosteriorRisk(pr.CVaR(0.5)), start=0
        )


def test_complex_contexts_are_refused():
    live, items = pr.LinearBandit(["a", "b"], 2, rng=0), pr.SharedLinearBandit(2, rng=0)
    for decide in (
        lambda: live.select(np.array([1j, 0.0])),
        lambda: items.select(np.full((2, 2), 1j), ["a", "b"]),
        lambda: items.checked_contexts(np.full((1, 2, 2), 1j), ["a", "b"]),
    ):
        with pytest.raises(DataError) as caught:
            decide()
        assert caught.value.fields["argument"] == "context"


def test_a_refused_revenue_changes_nothing():
    """The basket is judged after the purchase was learned."""
    bandit = pr.LinearBandit(["a", "b"], 2, rewards="hurdle", rng=0)
    bandit.update([0.5, 0.1], "a", 2.0)
    before = bandit.to_bytes()
    with pytest.raises(DataError):
        bandit.update([1e140, 1e140], "a", 1e149)
    assert bandit.to_bytes() == before


def test_actions_that_cannot_be_compared_leave_an_endless_process():
    """Rewards whose values overflow at a discount of almost 1."""
    transition = [[[0.56, 0.44], [0.34, 0.66]], [[0.07, 0.93], [0.53, 0.47]]]
    with refused(ModelError, "endless-process"):
        pr.solve(pr.MDP(transition, [[1.4e305, 7.7e304], [1e305, 5e304]], discount=1))


def test_plans_that_learn_take_large_counts_with_large_rewards():
    model = pr.UncertainMDP.direct(np.full((2, 2), -1.6e279), discount=0.9)
    counts = np.array([[5.75e119, 4.01e120], [6.58e120, 1.49e121], [1.47e120, 2.96e120], [1.31e121, 1e121]])
    plan = pr.BayesianRiskMDP(model, pr.DirichletPosterior(counts), 0.5).solve(learning=True, horizon=2, start=0)
    assert plan.value[0] == pytest.approx(-1.6e279 * 1.9)


def test_rewards_of_several_lengths_are_refused():
    bandit = pr.LinearBandit(["a", "b"], 2, rng=0)
    with pytest.raises(DataError):
        bandit.update([[1.0, 2.0]], "a", [[1.0], [1.0, 2.0]])


def test_policies_are_not_learned_from_contexts_that_vanish():
    rows = 100
    log = {
        "context": np.full((rows, 2), 3.5e-162),
        "arm": ["a", "b"] * (rows // 2),
        "propensity": [0.5] * rows,
        "reward": np.random.default_rng(0).random(rows),
    }
    with refused(DataError, "not-finite", argument="log"):
        pr.learn_policy(log, confidence=0.9)


def test_complex_levels_are_refused():
    with refused(ParameterError, "not-numbers", argument="alphas"):
        pr.simulate(
            pr.envs.frozen_lake(0.2), [pr.brps_rl(alpha=0.5)], episodes=2, replications=1, alphas=1j, br_episodes=[1]
        )


@pytest.mark.parametrize(
    "given",
    [
        {"br_episodes": [[1.0], [1.0, 2.0]]},
        {"br_episodes": [[1, 2], [3, 4]]},
        {"br_episodes": [1], "alphas": [[0.1], [0.2, 0.3]]},
        {"br_episodes": [1], "alphas": [[0.1, 0.2]]},
    ],
)
def test_tables_of_episodes_and_levels_are_refused(given):
    with pytest.raises(ParameterError):
        pr.simulate(pr.envs.frozen_lake(0.2), [pr.brps_rl(alpha=0.5)], episodes=5, replications=1, **given)


def test_chances_of_another_library_may_be_large_numbers():
    class Learner:
        def score(self, context, actions, action):
            return 1.7e308

        def learn(self, *_):
            return None

    bandit = pr.simulation.adapt_bandit(Learner(), ["a", "b"], rng=1)
    np.testing.assert_array_equal(bandit.propensities([1.0]), [0.5, 0.5])
