"""Explanations of bandits, their datasets and figures."""

import numpy as np
import pandas
import pytest
from refusals import refused
from scipy.special import ndtr

import prudent as pr


def learned(**options):
    rng = np.random.default_rng(1)
    bandit = pr.LinearBandit(["a", "b", "c"], 2, rng=1, **options)
    contexts, arms = rng.standard_normal((200, 2)), rng.integers(3, size=200)
    rewards = contexts[:, 0] * (arms - 1) + 0.3 * arms + 0.5 * rng.standard_normal(200)
    if bandit.reward_kind != "gaussian":
        rewards = (rewards > 0.2).astype(float)
    return bandit.update(contexts, [bandit.arms[arm] for arm in arms], rewards)


@pytest.mark.parametrize("options", [{}, {"noise": "by arm"}, {"rewards": "bernoulli"}, {"intercept": False}])
def test_contributions_add_up(options):
    bandit = learned(**options)
    before = bandit.to_bytes()
    point = [0.7, -1.2]
    why = bandit.explain(point)
    table, arms = why.to_pandas(), why.arms_to_pandas()
    mean, sd = bandit.predict(point)
    chances = bandit.propensities(point)
    best = int(chances.argmax())
    assert why.arm == bandit.arms[best]
    assert table["contribution"].sum() == pytest.approx(mean[best], rel=1e-9)
    rival = list(bandit.arms).index(why.rival.arm)
    assert table["lead"].sum() == pytest.approx(mean[best] - mean[rival], rel=1e-9)
    for arm, row in arms.iterrows():
        i = list(bandit.arms).index(arm)
        assert (row["chance"], row["mean"], row["sd"]) == pytest.approx((chances[i], mean[i], sd[i]))
        assert row["pulls"] == bandit.pulls[arm]
    assert arms["chance"].iloc[1] >= arms["chance"].iloc[2]
    gap = (mean[best] - mean[rival]) / np.hypot(sd[best], sd[rival])
    assert why.better == pytest.approx(ndtr(gap))
    assert bandit.to_bytes() == before


def test_names_of_features():
    bandit = learned()
    bandit.name_features(["age", "income"])
    why = bandit.explain(pandas.Series({"age": 1.0, "income": 2.0}), "b")
    assert why.features == ("intercept", "age", "income")
    assert why.arm == "b"
    assert "age" in repr(bandit.name_features(["age", "income"]).explain([3.0, 0.1]))
    for wrong in ("ab", ["x"], ["intercept", "x"]):
        with pytest.raises(pr.errors.ParameterError):
            bandit.name_features(wrong)


def test_words():
    bandit = learned()
    assert repr(bandit.explain([1.0, 0.0])).startswith("The likeliest choice is 'c'")
    other = repr(bandit.explain([1.0, 0.0], "a"))
    assert "'a' would be chosen with the chance" in other
    assert "is behind by" in other
    assert repr(bandit.explain([1.0, 0.0], arms=["b"])).startswith("'b' is the only eligible arm.")
    assert "uniform" in repr(pr.LinearBandit(2, 1).explain([1.0]))
    assert "chance of a 1" in repr(learned(rewards="bernoulli").explain([1.0, 0.0]))
    assert "at least the chance 5.0%" in repr(learned(min_propensity=0.05).explain([1.0, 0.0]))


def test_what_cannot_be_explained():
    bandit = learned()
    with refused(pr.errors.ParameterError, "unknown-arm", argument="arm"):
        bandit.explain([1.0, 2.0], "z")
    with refused(pr.errors.ParameterError, "unknown-arm", argument="arm"):
        bandit.explain([1.0, 2.0], "a", arms=["b", "c"])
    with refused(pr.errors.ParameterError, "wrong-shape", argument="context"):
        bandit.explain([[1.0, 2.0], [1.0, 2.0]])
    with pytest.raises(pr.errors.DataError):
        bandit.explain([1.0, np.nan])


@pytest.mark.parametrize("options", [{}, {"rewards": "poisson"}, {"intercept": False}])
def test_dataset_is_the_posterior(options):
    bandit = learned(**options)
    data = bandit.name_features(["age", "income"]).to_xarray()
    for arm in bandit.arms:
        posterior = bandit.posterior(arm)
        np.testing.assert_allclose(data["mean"].sel(arm=arm), posterior.mean(), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(data["covariance"].sel(arm=arm), posterior.covariance(), rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(data["sd"].sel(arm=arm) ** 2, posterior.variance(), rtol=1e-9)
    assert dict(zip(data["arm"].values.tolist(), data["pulls"].values.tolist(), strict=True)) == bandit.pulls
    assert data["feature"].values[-1] == "income"
    assert pr.LinearBandit(["a", 1], 1).to_xarray()["arm"].values.tolist() == ["a", 1]


def test_figures():
    assert len(learned().plot().axes) >= 4  # intercepts, and three arms
    many = pr.LinearBandit(15, 30, noise_sd=1.0)
    assert len([axes for axes in many.plot(confidence=0.5).axes if axes.axison]) == 13
    assert pr.LinearBandit(2, 0, noise_sd=1.0).plot().axes
    with refused(pr.errors.ParameterError, "unknown-noise"):
        pr.LinearBandit(2, 1).plot()
    with refused(pr.errors.ParameterError, "probability-range", argument="confidence"):
        learned().plot(confidence=1.0)


@pytest.mark.parametrize("offsets", [False, True])
def test_shared_coefficients(offsets):
    bandit = pr.SharedLinearBandit(dim=2, offsets=offsets, rng=1)
    with refused(pr.errors.ParameterError, "unknown-noise"):
        bandit.plot()
    bandit.update([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], ["a", "b", "a"] if offsets else None, [1.0, 2.0, 4.0])
    data = bandit.name_features(["price", "size"]).to_xarray()
    mean, sd = bandit.coefficients()
    np.testing.assert_allclose(data["mean"], mean)
    np.testing.assert_allclose(np.sqrt(np.diagonal(data["covariance"])), sd, rtol=1e-9)
    assert ("pulls" in data) == offsets
    assert len(bandit.plot().axes) == 2
