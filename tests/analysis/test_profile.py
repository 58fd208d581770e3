"""Risk profiles: which level protects, which is upside down, and where policies differ."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import xarray
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused, warned
from scipy import stats

import prudent as pr
from prudent.analysis import RiskProfile, posterior_returns, risk_profile
from prudent.analysis.profile import FALSE_ALARM, _verdict
from prudent.errors import CautionWarning

DRUGS = (("old drug", 52, 40, 8), ("new drug", 20, 12, 2), ("trial drug", 3, 1, 0))  # who got well, stayed ill, died


def arms(known=0.45, successes=2.0, failures=2.0):
    """Two arms: the first pays ``known`` for sure, the second a coin with a Beta chance; the process then ends."""
    model = pr.UncertainMDP(
        [[0, 1]], [[[-2, -1], [-2, -2]]], [[[known, 0.0], [1.0, 0.0]]], 0.9, states=["s"], actions=["sure", "coin"]
    )
    return model, pr.DirichletPosterior([[1.0, 0.0], [successes, failures]])


def overcautious():
    """Ten coins in a row, or a sure sum that is worth less than the coins in all likelihood.

    Step by step each coin looks bad at a high level; that all ten are bad at once hardly ever happens.
    """
    size = 11
    source, next_state = np.full((size, 2), -1), np.full((size, 2, 2), -1)
    reward = np.zeros((size, 2, 2))
    for s in range(10):
        source[s, 0] = s
        next_state[s, 0] = s + 1
        reward[s, 0] = [1.0, 0.0]
    source[0, 1] = 10
    next_state[0, 1, 0], reward[0, 1, 0] = 10, 4.0
    model = pr.UncertainMDP(source, next_state, reward, 0.999, terminal=[10])
    counts = np.zeros(model.prior().shape)
    counts[:10], counts[10:, 0] = [6.0, 4.0], 1.0
    return model, pr.DirichletPosterior(counts)


def test_small_models_have_many_draws():
    """20,000 by default: with 2,000 this recommendation was 0.5 for 26 of 30 seeds, and 0.9 for 4."""
    log = [
        ("ill", drug, end, 0, n)
        for drug, *seen in DRUGS
        for end, n in zip(("well", "ill", "died"), seen, strict=True)
        if n
    ]
    model, posterior = pr.from_log(log, discount=0.95, terminal={"well": 10, "died": -10}, support="state")
    found = [risk_profile(model, posterior, start="ill", rng=seed) for seed in (1, 2, 3)]
    assert [each.recommended for each in found] == [0.9, 0.9, 0.9]
    assert {each.returns.attrs["draws"] for each in found} == {20_000}
    assert risk_profile(model, posterior, 0.0, "ill", rng=1, regret=True).returns.attrs["draws"] == 2_000
    large = pr.envs.random_model(60, 2, branching=3, discount=0.9, rng=1)
    assert risk_profile(large.model, large.model.prior(), 0.0, 0, rng=1).returns.attrs["draws"] == 2_000


def test_two_arms_turn_where_the_cvar_says():
    model, posterior = arms()
    alphas = (0.0, 0.1, 0.3, 0.6, 0.9)
    profile = risk_profile(model, posterior, alphas, draws=4_000, rng=1)
    for alpha in alphas:
        coin = float(pr.exact.cvar_dirichlet([1.0, 0.0], [2.0, 2.0], alpha)) if alpha else 0.5
        assert profile.solutions[alpha].policy_names == ("coin" if coin > 0.45 else "sure",)
        assert profile.solutions[alpha].value[0] == pytest.approx(max(coin, 0.45))
    table = profile.to_pandas()
    first = next(a for a in alphas if profile.solutions[a].policy_names == ("sure",))
    assert profile.recommended == first  # the sure arm has the better tail by far, and higher levels are the same
    assert table.index[table["recommended"]].tolist() == [first]
    assert table.loc[0.9, ["mean", "cvar", "5%"]].tolist() == pytest.approx([0.45] * 3)
    assert table.loc[0.9, "states_differ"] == 1
    assert table.loc[0.9, "time_differs"] == pytest.approx(1.0)
    law = stats.beta(2, 2)
    assert abs(table.loc[0.0, "mean"] - law.mean()) < 5.5 * table.loc[0.0, "mean_se"]
    tail = float(pr.exact.cvar_dirichlet([1.0, 0.0], [2.0, 2.0], 0.9))
    assert abs(table.loc[0.0, "cvar"] - tail) < 5.5 * table.loc[0.0, "cvar_se"]
    assert profile.worse == ()


def test_caution_that_buys_nothing_is_named():
    model, posterior = overcautious()
    with warned(CautionWarning, "caution", value=((0.99, 0.0), (0.99, 0.5))) as caught:
        profile = risk_profile(model, posterior, (0.99, 0, 0.5), start=0, rng=0)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert profile.alphas == (0.0, 0.5, 0.99)
    assert profile.recommended == 0.0
    assert profile.worse == ((0.99, 0.0), (0.99, 0.5))
    assert "caution: level 0.99 is worse than" in repr(profile)
    # the value takes the risk anew at every step: at 0.9 it lies below every single draw of the return
    value = pr.BayesianRiskMDP(model, posterior, 0.9).evaluate(profile.neutral.policy).value[0]
    assert value < profile.returns.returns.sel(policy=0.0).min().item()


def test_levels_are_solved_as_if_alone_and_share_their_draws():
    problem = pr.envs.random_model(12, 3, branching=4, rng=5)
    posterior = pr.DirichletPosterior(problem.model.prior(0.4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CautionWarning)
        profile = risk_profile(problem.model, posterior, (0.5, 0.95), start=2, draws=200, rng=4, regret=True)
    for alpha in (0.5, 0.95):
        alone, found = pr.BayesianRiskMDP(problem.model, posterior, alpha).solve(), profile.solutions[alpha]
        assert np.abs(alone.value - found.value).max() <= alone.error_bound + found.error_bound
        assert found.converged
    assert np.abs(profile.neutral.value - pr.BayesianRiskMDP(problem.model, posterior, 0.0).solve().value).max() < 1e-8
    returns = profile.returns.returns.values
    alone = posterior_returns(
        problem.model, posterior, {a: s.policy for a, s in profile.solutions.items()}, start=2, draws=200, rng=4
    )
    assert np.array_equal(alone.returns.values, returns)
    assert (profile.returns["regret"].values > 0.0).all()
    same = np.array_equal(profile.solutions[0.5].policy, profile.solutions[0.95].policy)
    assert same == np.array_equal(returns[:, 0], returns[:, 1])


def test_occupancy_is_discounted_time_in_the_mean_model():
    problem = pr.envs.random_model(9, 2, branching=3, rng=2, discount=0.8)
    posterior = pr.DirichletPosterior(problem.model.prior(0.5))
    profile = risk_profile(problem.model, posterior, (0.0, 0.9), start=4, draws=10, rng=0)
    dense = problem.model.mdp(posterior.mean()).dense()
    begin = np.eye(9)[4]
    for share, alpha in zip(profile.occupancy, profile.alphas, strict=True):
        chain = dense[np.arange(9), profile.solutions[alpha].policy]
        spent = np.linalg.solve(np.eye(9) - 0.8 * chain.T, begin) * 0.2
        assert share == pytest.approx(spent, abs=1e-8)


def test_levels_differ_only_where_they_must():
    # actions 0 and 1 are the same bet with its outcomes in another order: equal but for rounding
    rng = np.random.default_rng(0)
    order = np.array([2, 0, 1])
    targets, reward = rng.integers(0, 6, (6, 1, 3)), rng.normal(size=(6, 1, 3))
    model = pr.UncertainMDP(
        np.arange(12).reshape(6, 2),
        np.dstack([targets, targets[..., order]]).reshape(6, 2, 3),
        np.dstack([reward, reward[..., order]]).reshape(6, 2, 3),
        0.95,
    )
    counts = rng.gamma(2.0, size=(6, 3))
    posterior = pr.DirichletPosterior(np.stack([counts, counts[:, order]], axis=1).reshape(12, 3))
    profile = risk_profile(model, posterior, draws=10, rng=0)
    assert not profile.differs.any()
    assert profile.recommended == 0.0


def named(draws, tail=0.9, error=0.0):
    alphas = np.linspace(0.0, 0.9, draws.shape[1])
    return xarray.Dataset(
        {"returns": (("draw", "policy"), draws)}, {"policy": alphas}, {"tail_alpha": tail, "error_bound": error}
    )


def test_false_alarms_are_as_rare_as_promised():
    # five levels with equal laws and independent draws: any recommendation but the lowest is a false alarm, and so is
    # any level that is worse. 400 trials with a chance of 0.01 each exceed 20 once in 1e8.
    rng = np.random.default_rng(3)
    verdicts = [_verdict(named(rng.normal(size=(2_000, 5)))) for _ in range(400)]
    assert sum(verdict.recommended > 0.0 for verdict in verdicts) <= stats.binom.isf(1e-8, 400, FALSE_ALARM)
    assert sum(bool(verdict.worse) for verdict in verdicts) <= stats.binom.isf(1e-8, 400, FALSE_ALARM)


def test_verdicts_with_power_and_without_draws():
    rng = np.random.default_rng(4)
    noise = rng.normal(size=(2_000, 1))
    safer = np.hstack([noise, 0.5 * noise - 0.1, 0.5 * noise - 0.1, 0.5 * noise - 0.3])
    verdict = _verdict(named(safer))
    assert verdict.recommended == pytest.approx(0.3)
    assert [pair[0] for pair in verdict.worse] == pytest.approx([0.9, 0.9])  # than the second and the third level
    for few in (1, 2, 5, 10):  # fewer than two draws in the tail say nothing
        assert _verdict(named(safer[:few])) == (0.0, ())
    # numbers within the error of a return are the same
    assert _verdict(named(np.hstack([noise, noise + 1e-12]), error=1e-12)) == (0.0, ())
    assert _verdict(named(np.hstack([noise, noise + 1e-6]), error=1e-12)).recommended == 0.9
    assert _verdict(named(noise)) == (0.0, ())


@given(st.integers(0, 10**6))
def test_the_recommended_level_is_the_lowest_that_is_not_beaten(seed):
    rng = np.random.default_rng(seed)
    draws = rng.normal(rng.normal(size=4), rng.gamma(1.0, size=4), size=(300, 4))
    recommended, worse = _verdict(named(draws))
    tails, means = np.sort(draws, axis=0)[:30].mean(axis=0), draws.mean(axis=0)
    levels = np.linspace(0.0, 0.9, 4)
    place = int(np.flatnonzero(levels == recommended)[0])
    # nothing below the recommended level has a better tail than all above it, and what is worse is lower twice
    for low in range(place):
        assert tails[low] < tails[low + 1 :].max()
    for high, low in worse:
        h, i = (int(np.flatnonzero(levels == level)[0]) for level in (high, low))
        assert h > i
        assert tails[h] < tails[i]
        assert means[h] < means[i]


def test_tables_and_figures(tmp_path):
    problem = pr.envs.random_model(40, 3, branching=4, rng=1)
    posterior = pr.DirichletPosterior(problem.model.prior(0.3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CautionWarning)
        profile = risk_profile(problem.model, posterior, (0, 0.7, 0.99), draws=100, rng=0)
    assert isinstance(profile, RiskProfile)
    data = profile.to_xarray()
    assert data.sizes == {"draw": 100, "alpha": 3, "probability": 3, "state": 40}
    assert data.action.sel(alpha=0.7).values.tolist() == profile.solutions[0.7].policy.tolist()
    assert data["differs"].sum("state").values.tolist() == profile.to_pandas()["states_differ"].tolist()
    assert data.attrs["recommended"] == profile.recommended
    data.to_netcdf(tmp_path / "profile.nc", engine="scipy")
    assert "<- recommended" in repr(profile)
    assert len(repr(profile).splitlines()) >= 5
    profile.plot().savefig(tmp_path / "profile.png")
    model, posterior = arms(known=0.9)
    alike = risk_profile(model, posterior, (0.0, 0.9), draws=10, rng=0)
    figure = alike.plot()
    figure.savefig(tmp_path / "alike.png")
    assert "every level takes the same actions" in [text.get_text() for text in figure.axes[1].texts]
    assert alike.to_xarray().action.values.tolist() == [["sure"], ["sure"]]


def test_sampled_operators_and_draws_that_are_given():
    model, posterior = arms()
    sampled = risk_profile(model, posterior, (0.0, 0.9), draws=50, rng=0, solver_draws=500)
    assert sampled.solutions[0.9].policy_names == ("sure",)
    assert sampled.solutions[0.9].value[0] == pytest.approx(0.45)
    theta = posterior.sample(200, 1)
    given_draws = risk_profile(model, theta, (0.0, 0.9))
    assert given_draws.returns.sizes["draw"] == 200
    mean = theta[:, 1, 0].mean()
    assert given_draws.solutions[0.0].value[0] == pytest.approx(max(mean, 0.45))
    rewards = pr.posteriors.NormalPosterior([[0.0, 0.0]], 1e-9, 1.0)
    unknown = risk_profile(model, posterior, (0.0, 0.9), draws=50, rng=0, solver_draws=500, reward_posterior=rewards)
    assert unknown.solutions[0.9].policy_names == ("sure",)
    with refused(pr.errors.ParameterError, "missing-argument", argument="solver_draws"):
        risk_profile(model, posterior, reward_posterior=pr.posteriors.BetaPosterior([[1.0, 1.0]], [[1.0, 1.0]]))
    exact = risk_profile(model, posterior, (0.0, 0.9), draws=50, rng=0, reward_posterior=rewards)
    assert exact.solutions[0.9].policy_names == ("sure",)
    with refused(pr.errors.ParameterError, "conflicting-arguments", argument="solver_draws", value=10):
        risk_profile(model, theta, solver_draws=10)


@pytest.mark.parametrize(
    ("code", "options"),
    [
        ("empty", {"alphas": ()}),
        ("alpha-range", {"alphas": (0, 1)}),
        ("not-a-number", {"alphas": "0.9"}),
        ("alpha-range", {"tail_alpha": 1.5}),
        ("integer-range", {"draws": 0}),
        ("unknown-state", {"start": "nowhere"}),
        ("integer-range", {"solver_draws": 0}),
    ],
)
def test_what_is_wrong_is_named(code, options):
    model, posterior = arms()
    with refused(pr.errors.ParameterError, code, argument=next(iter(options))):
        risk_profile(model, posterior, **options)
    assert risk_profile(model, posterior, 0.9, draws=5, rng=0).alphas == (0.9,)
