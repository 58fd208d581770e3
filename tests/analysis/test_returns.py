"""Returns over the posterior against closed forms, dense solves of every draw, and enumeration of all policies."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pandas
import pytest
import xarray
from _child import environment, on_a_terminal, python
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from scipy import integrate, sparse, stats
from scipy.sparse.linalg import splu

import prudent as pr
from prudent._support import intervals
from prudent.analysis import ReturnDistribution, plot_returns, posterior_returns
from prudent.analysis.return_distribution import cvar_terms
from prudent.planning import drawn_policies

Z = 5.5  # standard errors: a false alarm in 2.6e7 for a normal error
LEVELS = (0.05, 0.5, 0.95)


def coin(successes=3.0, failures=5.0, discount=0.0):
    """One state, one action: a coin pays 1 or -1. Without a discount the return is 2 theta - 1, theta ~ Beta."""
    model = pr.UncertainMDP([[0]], [[[0, 0]]], [[[1.0, -1.0]]], discount)
    return model, pr.DirichletPosterior([[successes, failures]])


def shared(seed, n_states=4, n_actions=3, n_outcomes=3, n_sources=5, discount=0.9, **options):
    """A random model in which pairs share sources, some actions are barred and outcomes meet in one state."""
    rng = np.random.default_rng(seed)
    source = rng.permutation(np.arange(n_states * n_actions) % n_sources).reshape(n_states, n_actions)
    source[0, 1] = -1 if np.count_nonzero(source == source[0, 1]) > 1 else source[0, 1]
    next_state = rng.integers(0, n_states, (n_states, n_actions, n_outcomes))
    reward = rng.normal(size=next_state.shape)
    model = pr.UncertainMDP(source, next_state, reward, discount, **options)
    return model, pr.DirichletPosterior(rng.gamma(1.0, size=model.prior().shape) + 0.2)


def dense_value(model, theta, weights):
    """The values of a policy [S, A] under one theta [B, K], by loops and an elimination."""
    size = model.n_states
    matrix, gain = np.eye(size), np.zeros(size)
    for s, a in zip(*np.nonzero(weights), strict=True):
        for k, target in enumerate(model.next_state[s, a]):
            if target == -1:
                continue
            chance = weights[s, a] * theta[model.source[s, a], k]
            gain[s] += chance * model.reward[s, a, k]
            if target >= 0:
                matrix[s, target] -= model.discount * chance
    return np.linalg.solve(matrix, gain)


def deterministic(model):
    """All policies, as weights [S, A]."""
    options = [np.flatnonzero(row) for row in model.admissible]
    for actions in itertools.product(*options):
        weights = np.zeros(model.admissible.shape)
        weights[np.arange(model.n_states), actions] = 1.0
        yield weights


# -- closed forms ------------------------------------------------------------------------------------------


def test_one_step_returns_are_a_beta_distribution():
    model, posterior = coin()
    n = 20_000
    data = posterior_returns(model, posterior, [0], draws=n, rng=5)
    law = stats.beta(3, 5, loc=-1, scale=2)
    exact = {
        "mean": law.mean(),
        "sd": law.std(),
        "cvar": float(pr.exact.cvar_dirichlet([1.0, -1.0], [3.0, 5.0], 0.9)),
    }
    for name, value in exact.items():
        assert abs(data[name].item() - value) < Z * data[f"{name}_se"].item()
    # Dvoretzky, Kiefer, Wolfowitz: the distribution functions are nowhere further apart, but once in 1e7
    distance = np.sqrt(np.log(2e7) / (2 * n))
    assert stats.kstest(data.returns.values[:, 0], law.cdf).statistic < distance
    assert np.abs(law.cdf(data["quantile"].values[0]) - LEVELS).max() < distance + 1 / n
    assert data["probability_best"].item() == 1.0
    assert data["regret"].item() == 0.0


def test_a_constant_chain_discounts():
    model, posterior = coin(discount=0.9)  # the state never changes: the return is (2 theta - 1) / (1 - 0.9)
    theta = posterior.sample(50, 1)
    data = posterior_returns(model, theta, [0])
    assert data.returns.values[:, 0] == pytest.approx((2 * theta[:, 0, 0] - 1) * 10, abs=1e-9)
    assert data.attrs["draws"] == 50


def test_probability_of_the_best_of_two_arms():
    model = pr.UncertainMDP([[0, 1]], np.zeros((1, 2, 2), int), [[[1.0, 0.0], [1.0, 0.0]]], 0.5)
    posterior = pr.DirichletPosterior([[4.0, 2.0], [6.0, 5.0]])
    n = 20_000
    data = posterior_returns(model, posterior, {"first": [0], "second": [1]}, draws=n, rng=7)
    first, second = stats.beta(4, 2), stats.beta(6, 5)
    wins, _ = integrate.quad(lambda x: first.pdf(x) * second.cdf(x), 0, 1)
    count = round(data["probability_best"].values[0] * n)
    assert stats.binomtest(count, n, wins).pvalue > 1e-7
    assert data["probability_best"].values.sum() == pytest.approx(1.0)
    # in each draw the better arm is the best policy: E max - E of each
    best, _ = integrate.quad(lambda x: 1.0 - first.cdf(x) * second.cdf(x), 0, 1)
    for arm, law in enumerate((first, second)):
        lost = data["regret"].values[arm]
        assert abs(lost - 2.0 * (best - law.mean())) < Z * data["regret_se"].values[arm]
        assert lost == pytest.approx(data["regret_given"].values[arm], abs=1e-9)


def test_standard_errors_are_those_of_repetitions():
    # z-scores of 1,000 independent repetitions: their mean square is 1 but for 5.5 standard deviations, and the bias of
    # quantiles and CVaR at this many draws
    rng = np.random.default_rng(11)
    law = stats.beta(3, 5)
    draws = law.rvs((1_000, 1_000), random_state=rng)
    tail = float(pr.exact.cvar_dirichlet([1.0, 0.0], [3.0, 5.0], 0.9))
    found = {
        "mean": (intervals.estimate_mean(draws), law.mean()),
        "sd": (intervals.estimate_standard_deviation(draws), law.std()),
        "cvar": (ReturnDistribution(draws, (), "").cvar(0.9), tail),
    }
    for i, level in enumerate(LEVELS):
        value, error = intervals.estimate_quantiles(draws, LEVELS)
        found[f"quantile {level}"] = (intervals.Estimate(value[i], error[i]), law.ppf(level))
    for name, (estimate, truth) in found.items():
        square = (((estimate.value - truth) / estimate.error) ** 2).mean()
        slack = 0.08 if name in ("mean", "sd") else 0.25  # Woodruff's half widths are noisy themselves
        assert abs(square - 1.0) < Z * np.sqrt(2 / 1_000) + slack, name
    difference = intervals.estimate_mean(cvar_terms(draws, 0.9) - cvar_terms(draws, 0.9))
    assert (difference.value == 0.0).all()


def test_rewards_that_are_drawn():
    model, posterior = coin()
    rewards = pr.posteriors.NormalPosterior([[2.0]], sd=0.5, noise_sd=1.0)
    state = pr.UncertainMDP.direct(np.zeros((2, 1)), 0.5, support=[[[0, 1]], [[0, 1]]])
    data = posterior_returns(
        state,
        state.prior(),
        [0, 0],
        reward_posterior=pr.posteriors.NormalPosterior([[2.0], [9.0]], 0.5, 1.0),
        draws=4_000,
        rng=1,
        start=0,
    )  # state 1 absorbs and earns nothing, so the return is one normal reward
    assert abs(data["mean"].item() - 2.0) < Z * data["mean_se"].item()
    assert abs(data["sd"].item() - 0.5) < Z * data["sd_se"].item()
    assert data["regret"].item() == 0.0
    alone = posterior_returns(model, posterior, [0], draws=30, rng=3)
    both = posterior_returns(model, posterior, [0], draws=30, rng=3, reward_posterior=rewards)
    more = both.returns.values - alone.returns.values  # where all states absorb, as in a bandit, rewards are drawn
    assert abs(more.mean() - 2.0) < Z * 0.5 / np.sqrt(30)
    certain = pr.posteriors.NormalPosterior(np.full((4, 3), 1.5), 1e-12, 1.0)
    model, posterior = shared(3)
    theta = posterior.sample(9, 0)
    base = posterior_returns(model, theta, [0, 0, 0, 0])
    more = posterior_returns(model, theta, [0, 0, 0, 0], reward_posterior=certain, rng=0)
    if not (model.next_state == np.arange(4)[:, None, None]).all(axis=2).any():  # no pair stays for good
        assert more.returns.values == pytest.approx(base.returns.values + 15.0, abs=1e-8)
        assert more.optimal.values == pytest.approx(base.optimal.values + 15.0, abs=1e-8)


# -- every draw by itself ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_every_draw_against_dense_solves_and_all_policies(seed):
    model, posterior = shared(seed)
    rng = np.random.default_rng(seed)
    every = list(deterministic(model))
    mixed = np.where(model.admissible, rng.random(model.admissible.shape), 0.0)
    mixed /= mixed.sum(axis=1, keepdims=True)
    policies = {"one": every[rng.integers(len(every))], "mixed": mixed, "last": every[-1]}
    start = rng.dirichlet(np.ones(model.n_states))
    theta = posterior.sample(7, seed)
    data = posterior_returns(model, theta, policies, start=start)
    for i, each in enumerate(theta):
        found = data.returns.values[i]
        truth = [start @ dense_value(model, each, weights) for weights in policies.values()]
        assert found == pytest.approx(truth, abs=1e-9)
        best = max(start @ dense_value(model, each, weights) for weights in every)
        assert data.optimal.values[i] == pytest.approx(best, abs=1e-9)
    lost = data.optimal.values[:, None] - data.returns.values
    assert data["regret"].values == pytest.approx(lost.mean(axis=0))
    assert data.attrs["error_bound"] < 1e-8


def test_ends_and_terminal_states():
    rng = np.random.default_rng(0)
    next_state = rng.integers(0, 4, (4, 2, 3))
    next_state[1, 0, 2] = -2
    model = pr.UncertainMDP(np.arange(8).reshape(4, 2), next_state, rng.normal(size=(4, 2, 3)), 0.95, terminal={3: 4.0})
    posterior = pr.DirichletPosterior.for_model(model, 0.7)
    theta = posterior.sample(11, 1)
    policy = [1, 0, 1, 0]
    data = posterior_returns(model, theta, {"given": policy, "mixed": np.full((4, 2), 0.5)}, start=1)
    for i, each in enumerate(theta):
        assert data.returns.values[i, 0] == pytest.approx(pr.evaluate(model.mdp(each), policy).value[1], abs=1e-9)
        assert data.optimal.values[i] == pytest.approx(pr.solve(model.mdp(each)).value[1], abs=1e-9)
    everywhere = posterior_returns(model, theta, policy)  # from the three states that are not terminal
    values = [np.mean(pr.evaluate(model.mdp(each), policy).value[:3]) for each in theta]
    assert everywhere.returns.values[:, 0] == pytest.approx(values, abs=1e-9)
    assert everywhere.attrs["start"] == "3 states, evenly"


@pytest.mark.parametrize(
    ("n_states", "reach", "discount"),
    [(400, 1, 0.9999), (700, 3, 0.99), (60, 1, 0.999999), (1_200, 2, 0.999), (2_500, 1, 0.9999)],
)
def test_long_corridors(n_states, reach, discount):
    # a machine that ages: highly non-normal, where BiCGStab may fail and elimination must take over
    age = np.arange(n_states)
    next_state = np.stack([np.minimum(age + reach, n_states - 1), np.maximum(age - 1, 0)], axis=-1)[:, None, :]
    model = pr.UncertainMDP(age[:, None], next_state, np.sin(age)[:, None], discount)
    posterior = pr.DirichletPosterior(np.tile([30.0, 1.0], (n_states, 1)))
    theta = posterior.sample(3, 0)
    data = posterior_returns(model, theta, np.zeros(n_states, int), start=0)
    for i, each in enumerate(theta):
        up, down = np.maximum(age - 1, 0), np.minimum(age + reach, n_states - 1)
        chain = sparse.csc_array((each.T.ravel(), (np.tile(age, 2), np.concatenate((down, up)))))
        value = splu(sparse.eye_array(n_states, format="csc") - discount * chain).solve(np.sin(age))[0]
        bound = data.attrs["error_bound"] + 1e-9
        assert abs(data.returns.values[i, 0] - value) <= bound
        assert abs(data.optimal.values[i] - value) <= bound
    assert data.attrs["error_bound"] < 1e-8 * max(1.0, np.abs(data.returns.values).max()) / (1 - discount) ** 0.5


def test_extreme_counts_and_rewards():
    model, posterior = shared(2, discount=0.999)
    tiny = pr.DirichletPosterior(posterior.counts * 1e-6)  # every draw is a corner
    sure = pr.DirichletPosterior(posterior.counts * 1e12)
    policy = [0, 0, 0, 0]
    corners = posterior_returns(model, tiny, policy, draws=40, rng=0)
    assert np.isfinite(corners.returns.values).all()
    known = pr.evaluate(model.mdp(sure.mean()), policy).value.mean()
    data = posterior_returns(model, sure, policy, draws=40, rng=0)
    assert data.returns.values == pytest.approx(known, rel=1e-4)
    for scale in (1e-70, 1e70):
        scaled = pr.UncertainMDP(model.source, model.next_state, model.reward * scale, model.discount)
        again = posterior_returns(scaled, sure, policy, draws=40, rng=0)
        assert again.returns.values / scale == pytest.approx(data.returns.values, rel=1e-8)
    nothing = pr.UncertainMDP(model.source, model.next_state, np.zeros(model.source.shape), model.discount)
    zero = posterior_returns(nothing, sure, {"a": policy, "b": [2, 2, 2, 2]}, draws=4, rng=0)
    assert (zero.returns.values == 0.0).all()
    assert zero["probability_best"].values.tolist() == [0.5, 0.5]


# -- what must not change the numbers ----------------------------------------------------------------------


def test_threads_further_draws_and_other_policies_change_nothing(monkeypatch):
    model, posterior = shared(4)
    one = posterior_returns(model, posterior, {"a": [0, 0, 0, 0]}, draws=100, rng=3, threads=1)
    several = posterior_returns(model, posterior, {"b": [2, 2, 2, 2], "a": [0, 0, 0, 0]}, draws=333, rng=3, threads=3)
    assert np.array_equal(one.returns.values[:, 0], several.returns.values[:100, 1])
    assert np.array_equal(one.optimal.values, several.optimal.values[:100])
    again = posterior_returns(model, posterior, [0, 0, 0, 0], draws=100, rng=np.random.default_rng(3), regret=False)
    same = posterior_returns(model, posterior, [0, 0, 0, 0], draws=100, rng=3, regret=False, threads=2)
    assert np.array_equal(again.returns.values, same.returns.values)
    assert "optimal" not in again
    assert "regret" not in again
    monkeypatch.setattr(drawn_policies, "MAX_NUMBERS", 40)  # large models are drawn fewer at a time: the law stays
    small = posterior_returns(model, posterior, [0, 0, 0, 0], draws=3_000, rng=3)
    law = posterior_returns(model, posterior.sample(3_000, 8), [0, 0, 0, 0])
    distance = 2 * np.sqrt(np.log(4e7) / (2 * 3_000))
    assert stats.ks_2samp(small.returns.values[:, 0], law.returns.values[:, 0]).statistic < distance


def test_policies_that_act_alike_where_the_start_leads():
    # state 2 is never reached from 0; actions 0 and 1 of state 1 are the same but for their number
    next_state = np.array([[[0, 1], [1, 0], [0, 1]], [[0, 1], [0, 1], [1, 1]], [[2, 0], [2, 1], [0, 0]]])
    source = np.array([[0, 1, 2], [3, 3, 4], [5, 6, 7]])
    model = pr.UncertainMDP(source, next_state, np.ones((3, 3)) * [[1, 2, 3]], 0.9)
    reward = model.reward.copy()
    reward[1, 1] = reward[1, 0]
    model = pr.UncertainMDP(source, next_state, reward, 0.9)
    policies = {"a": [0, 0, 0], "elsewhere": [0, 0, 2], "twin": [0, 1, 1], "other": [1, 0, 0]}
    data = posterior_returns(model, model.prior(), policies, start=0, draws=60, rng=0)
    a, elsewhere, twin, other = data.returns.values.T
    assert np.array_equal(a, elsewhere)
    assert np.array_equal(a, twin)
    assert not np.array_equal(a, other)
    shares = data["probability_best"].values
    assert shares[0] == shares[1] == shares[2]
    assert shares.sum() == pytest.approx(1.0)
    assert data.attrs["same"] == "act alike in every state that the start leads to: a, elsewhere, twin"
    alike = posterior_returns(model, model.prior(), dict(list(policies.items())[:3]), start=0, draws=5, rng=0)
    assert alike["probability_best"].values == pytest.approx(1 / 3)
    assert alike["regret_given"].values.tolist() == [0.0, 0.0, 0.0]
    assert alike.attrs["same"] == "all policies act alike in every state that the start leads to"
    apart = posterior_returns(model, model.prior(), policies, start=2, draws=60, rng=0)
    assert apart.attrs["same"] == ""


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.floats(-50, 50), st.floats(0.01, 100), st.floats(0.0, 0.98))
def test_laws(seed, shift, scale, discount):
    model, posterior = shared(seed, discount=discount)
    theta = posterior.sample(6, seed)
    policies = {
        "low": np.argmax(model.admissible, axis=1),
        "mixed": model.admissible / model.admissible.sum(1)[:, None],
    }
    data = posterior_returns(model, theta, policies)
    moved = pr.UncertainMDP(model.source, model.next_state, scale * model.reward + shift, discount)
    after = posterior_returns(moved, theta, policies)
    tolerance = 1e-8 * (np.abs(after.returns.values).max() + 1.0 + abs(shift) / (1 - discount) + scale)
    expected = scale * data.returns.values + shift / (1 - discount)
    assert after.returns.values == pytest.approx(expected, abs=tolerance)
    assert after["regret"].values == pytest.approx(scale * data["regret"].values, abs=tolerance)
    assert (data.optimal.values[:, None] >= data.returns.values).all()
    assert (data["regret"].values >= data["regret_given"].values).all()
    assert (data["regret_given"].values >= 0.0).all()
    assert (data["cvar"].values <= data["mean"].values + 1e-12).all()
    assert (np.diff(data["quantile"].values, axis=1) >= 0.0).all()
    assert data["probability_best"].values.sum() == pytest.approx(1.0)


# -- how people call it ------------------------------------------------------------------------------------


@pytest.fixture
def ward():
    model = pr.UncertainMDP.direct(
        [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]],
        discount=0.9,
        states=["ill", "better", "home"],
        actions=["wait", "treat"],
        terminal={"home": 2.0},
    )
    return model, pr.DirichletPosterior.for_model(model)


def test_policies_as_people_have_them(ward):
    model, posterior = ward
    by_name = {"ill": "treat", "better": "wait"}
    chances = {"ill": {"wait": 0.5, "treat": 0.5}, "better": {"wait": 1}}
    frame = pandas.DataFrame([[1, 0], [0.5, 0.5]], index=["better", "ill"], columns=["wait", "treat"])
    solution = pr.BayesianRiskMDP(model, posterior, 0.5).evaluate(["treat", "wait", "wait"])
    alike = {
        "names": ["treat", "wait", "wait"],
        "indices": np.array([1, 0, 0]),
        "dict": by_name,
        "series": pandas.Series(by_name).iloc[::-1],
        "matrix": np.array([[0.0, 1.0], [1.0, 0.0], [0.3, 0.7]]),  # what is said of a terminal state does not matter
        "solution": solution,
    }
    data = posterior_returns(model, posterior, alike, start="ill", draws=20, rng=0)
    assert (data.returns.values == data.returns.values[:, :1]).all()
    assert data.policy.values.tolist() == list(alike)
    assert data.attrs["start"] == "state 'ill'"
    assert np.isnan(data["risk_value"].values[:5]).all()
    assert data["risk_value"].values[5] == solution.value[0]
    for one in (*alike.values(), chances, frame, [[0.5, 0.5], [1.0, 0.0], [0.5, 0.5]]):
        single = posterior_returns(model, posterior, one, start={"ill": 1.0}, draws=20, rng=0)
        assert single.policy.values.tolist() == ["policy"]
    mixed = [posterior_returns(model, posterior, each, draws=9, rng=0).returns.values for each in (chances, frame)]
    assert np.array_equal(*mixed)
    turned = pr.UncertainMDP.direct(  # the same states in another order
        [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]],
        discount=0.9,
        states=["home", "better", "ill"],
        actions=["wait", "treat"],
        terminal={"home": 2.0},
    )
    elsewhere = posterior_returns(turned, turned.prior(), solution, start="ill", draws=5, rng=0)
    assert elsewhere["risk_value"].item() == solution.value[0]
    listed = posterior_returns(model, posterior, [solution, by_name, np.array([0, 0, 0])], draws=5, rng=0)
    assert listed.policy.values.tolist() == ["policy 0", "policy 1", "policy 2"]
    by_level = posterior_returns(model, posterior, {0.5: solution, 0.9: solution}, draws=5, rng=0)
    assert by_level.sel(policy=0.9)["mean"].item() == by_level["mean"].values[0]


@pytest.mark.parametrize(
    ("policies", "code", "fields"),
    [
        ({"ill": "treat"}, "missing-state", {"argument": "policy", "state": "better"}),
        ({"ill": "treat", "better": "rest"}, "unknown-action", {"argument": "policy['better']", "value": "rest"}),
        ({"ill": "treat", "well": "wait"}, "unknown-state", {"argument": "a state of policy", "value": "well"}),
        ({"a": ["treat", "wait"]}, "wrong-shape", {"argument": "policy", "value": 2, "expected": 3}),
        (["treat", "rest", "wait"], "unknown-action", {"argument": "policy[1]", "value": "rest"}),
        (np.full((3, 2), 0.6), "sum-not-one", {"argument": "policy", "index": (0,), "value": 1.2}),
        (np.array([[1.5, -0.5]] * 3), "negative", {"argument": "policy", "index": (0, 1), "value": -0.5}),
        (np.array([[np.nan, 1.0]] * 3), "not-finite", {"argument": "policy", "index": (0, 0)}),
        ({}, "empty", {"argument": "policies"}),
        ([], "empty", {"argument": "policies"}),
        (None, "wrong-type", {"argument": "policies", "value": None}),
        ("wait", "wrong-type", {"argument": "policies", "value": "wait"}),
    ],
)
def test_a_faulty_policy_is_refused(ward, policies, code, fields):
    with refused(pr.errors.ParameterError, code, **fields):
        posterior_returns(*ward, policies)


def test_a_faulty_policy_is_named(ward):
    with refused(pr.errors.ParameterError, "wrong-shape") as caught:
        posterior_returns(*ward, {"a": ["treat", "wait"]})
    assert str(caught.value).startswith("policies['a']: policy has 2")


@pytest.mark.parametrize(
    ("options", "code", "fields"),
    [
        ({"start": "home"}, "terminal-start", {"state": "home"}),
        ({"start": "hell"}, "unknown-state", {"value": "hell"}),
        ({"draws": 0}, "integer-range", {"value": 0}),
        ({"tail_alpha": 1}, "alpha-range", {"value": 1.0}),
        ({"quantiles": [5]}, "probability-range", {"value": 5.0}),
        ({"threads": 0}, "integer-range", {"value": 0}),
    ],
)
def test_a_faulty_argument_is_refused(ward, options, code, fields):
    with refused(pr.errors.ParameterError, code, argument=next(iter(options)), **fields):
        posterior_returns(*ward, [0, 0, 0], **options)


@pytest.mark.parametrize(
    ("options", "code", "fields"),
    [
        ({"posterior": None}, "wrong-type", {"argument": "posterior", "value": None}),
        ({"posterior": np.ones((2, 3))}, "wrong-shape", {"argument": "posterior", "value": (2, 3)}),
        ({"posterior": np.full((4, 5, 3), 0.5)}, "sum-not-one", {"argument": "draws", "index": (0, 0), "value": 1.5}),
        ({"posterior": np.full((4, 5, 2), 0.5)}, "wrong-shape", {"argument": "draws", "value": (4, 5, 2)}),
        ({"posterior": np.zeros((0, 5, 3))}, "wrong-shape", {"argument": "draws", "value": (0, 5, 3)}),
        ({"posterior": np.zeros((1, 1, 1, 1))}, "wrong-shape", {"argument": "draws", "value": (1, 1, 1, 1)}),
        (
            {"reward_posterior": pr.posteriors.NormalPosterior([1.0], 1.0, 1.0)},
            "wrong-shape",
            {"argument": "reward_posterior", "value": (1,), "expected": (3, 2)},
        ),
    ],
)
def test_a_faulty_posterior_is_refused(ward, options, code, fields):
    model, posterior = ward
    with refused(pr.errors.PosteriorError, code, **fields):
        posterior_returns(model, **({"posterior": posterior, "policies": [0, 0, 0]} | options))


def test_draws_that_are_given_leave_nothing_to_draw(ward):
    model, posterior = ward
    theta = posterior.sample(4, 0)
    with refused(pr.errors.ParameterError, "conflicting-arguments", argument="draws", value=2):
        posterior_returns(model, theta, [0, 0, 0], draws=2)
    with refused(pr.errors.ParameterError, "conflicting-arguments", argument="rng", value=2):
        posterior_returns(model, theta, [0, 0, 0], rng=2)
    chains = xarray.DataArray(theta.reshape(2, 2, *theta.shape[1:]), dims=("chain", "draw", "source", "outcome"))
    found = posterior_returns(model, chains, ["treat", "wait", "wait"]).returns.values
    assert np.array_equal(found, posterior_returns(model, theta, ["treat", "wait", "wait"]).returns.values)
    with refused(pr.errors.ModelError, "wrong-type", argument="model", expected="UncertainMDP"):
        posterior_returns(model.mdp(theta[0]), theta, [0, 0, 0])
    close = pr.UncertainMDP([[0]], [[[0, 0]]], [[1.0]], 1.0 - 1e-16)
    with refused(pr.errors.ModelError, "discount-range", value=1.0 - 1e-16):
        posterior_returns(close, close.prior(), [0], draws=2, rng=0)


def test_one_draw_has_no_errors(ward):
    model, posterior = ward
    data = posterior_returns(model, posterior, [0, 0, 0], draws=1, rng=0)
    assert np.isnan([data[f"{name}_se"].item() for name in ("mean", "sd", "cvar", "probability_best", "regret")]).all()
    assert np.isnan(data["quantile_se"].values).all()
    assert data["cvar"].item() == data["mean"].item() == data.returns.item()


def test_the_dataset_survives_a_file(ward, tmp_path):
    model, posterior = ward
    data = posterior_returns(model, posterior, {"a": [0, 0, 0], "b": [1, 1, 0]}, draws=5, rng=0)
    data.to_netcdf(tmp_path / "returns.nc", engine="scipy")
    xarray.testing.assert_identical(xarray.load_dataset(tmp_path / "returns.nc", engine="scipy"), data)


def test_figure(ward, tmp_path):
    model, posterior = ward
    named = {"a": [0, 0, 0], ("t", 1): [1, 1, 0], "x" * 90: pr.BayesianRiskMDP(model, posterior, 0.9).solve()}
    for draws in (1, 300):
        figure = plot_returns(posterior_returns(model, posterior, named, draws=draws, rng=0))
        figure.savefig(tmp_path / "returns.png")
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert labels[:2] == ["a", "('t', 1)"]
    assert len(labels[2]) < 40
    flat = pr.UncertainMDP([[0]], [[[0]]], [[1.0]], 0.5)  # no spread at all
    plot_returns(posterior_returns(flat, flat.prior(), [0], draws=10, rng=0)).savefig(tmp_path / "flat.png")
    with refused(pr.errors.DataError, "missing-variable", column="quantile"):
        plot_returns(xarray.Dataset())


# -- long work ---------------------------------------------------------------------------------------------


LONG = """
import prudent as pr
from prudent.analysis import posterior_returns
problem = pr.envs.random_model(200, 4, branching=5, rng=0)
posterior_returns(problem.model, problem.model.prior(), [0] * 200, draws=2, rng=0)
print("begin", flush=True)
try:
    posterior_returns(problem.model, problem.model.prior(), [0] * 200, draws=10**7, rng=0, threads=1)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_progress_and_interrupt():
    pressed = []

    def presses(shown):
        if " draws, " in shown and not pressed:
            pressed.append(True)
            return True
        return False

    code, shown = on_a_terminal(LONG, [], presses)
    assert re.search(r"returns over the posterior, [\d,]+ of 10,000,000 draws", shown)
    assert "interrupted" in shown
    assert "Traceback" not in shown
    assert code == 0


MEMORY = """
import resource
import numpy as np, prudent as pr
from prudent.analysis import posterior_returns
problem = pr.envs.random_model(700, 8, branching=20, rng=0)
policies = {"a": np.zeros(700, int), "b": np.ones(700, int)}
def peak(draws, regret):
    posterior_returns(problem.model, problem.model.prior(0.1), policies, draws=draws, rng=0, threads=2, regret=regret)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(peak(64, True), peak(10_000, False), peak(500, True))
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_draws():
    done = python(MEMORY, env=environment())
    few, many, regret = map(int, done.stdout.split())
    assert many < few + 150  # MB; all draws of the sources that are used would take 2 GB
    assert regret < few + 150
