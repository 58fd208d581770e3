"""Places of a slate: what is learned of them, against the truth, the exact likelihood, and bandits without them."""

import numpy as np
import pytest
from refusals import refused
from scipy import optimize, stats

import prudent as pr
from prudent.errors import DataError, ParameterError

LOOKS = np.array([1.0, 0.6, 0.4, 0.3])


def shown(rng, slates, items=10, kind="bernoulli", looks=LOOKS):
    """Features, places and rewards of slates in random order, and the items' own chances or rates."""
    rows = rng.normal(size=(items, 3))
    scores = rows @ np.array([0.6, -0.4, 0.3]) - 1.5
    own = np.exp(scores) if kind == "poisson" else 1.0 / (1.0 + np.exp(-scores))
    slate = np.concatenate([rng.choice(items, looks.size, replace=False) for _ in range(slates)])
    place = np.tile(np.arange(looks.size), slates)
    mean = looks[place] * own[slate]
    rewards = rng.poisson(mean) if kind == "poisson" else rng.random(mean.size) < mean
    return rows[slate], place, rewards.astype(float)


@pytest.mark.parametrize("looks", [LOOKS, np.ones(4)], ids=["low places are seen less", "no effect"])
@pytest.mark.parametrize("kind", ["bernoulli", "poisson"])
def test_what_is_learned_of_places_is_the_truth(kind, looks, rng):
    """2,500 slates in random order. False alarm: 1e-6 for three places; an error of a half would be six sds."""
    contexts, place, rewards = shown(rng, 2500, kind=kind, looks=looks)
    bandit = pr.SharedLinearBandit(3, rewards=kind, places=4, rng=0).update(contexts, None, rewards, place=place)
    confidence = 2.0 * stats.norm.cdf(stats.norm.isf(1e-6 / 6.0)) - 1.0
    chance, low, high = bandit.looked_at(confidence)
    assert (low <= looks).all()
    assert (looks <= high).all()
    assert (np.log(high / low)[1:] < 2 * 1.15).all()  # 1.15 is five sds of 0.23 at most
    assert chance[0] == low[0] == high[0] == 1.0


def test_online_is_the_mode_of_the_exact_likelihood(rng):
    """One pass in order, against the maximum of prior and likelihood of all rewards, found by another method."""
    contexts, place, rewards = shown(rng, 1500)
    bandit = pr.SharedLinearBandit(3, rewards="bernoulli", places=4, prior_precision=1.0, rng=0)
    bandit.update(contexts, None, rewards, place=place)
    rows, usual = np.column_stack([np.ones(len(place)), contexts]), -0.5 * np.log(np.arange(1.0, 5.0))

    def minus_log(numbers):
        theta, looked = numbers[:4], np.append(0.0, numbers[4:])
        chance = np.minimum(np.exp((usual + looked)[place]) / (1.0 + np.exp(-rows @ theta)), 1.0 - 1e-9)
        fit = rewards * np.log(chance) + (1.0 - rewards) * np.log1p(-chance)
        return 0.5 * theta @ theta + 0.5 * (looked @ looked) / 0.7**2 - fit.sum()

    found = optimize.minimize(minus_log, np.zeros(7), method="BFGS", options={"gtol": 1e-4})
    sds = np.sqrt(np.diagonal(found.hess_inv))
    mean, sd = bandit.coefficients()
    looked, spread = bandit.belief.looked_at()
    np.testing.assert_allclose((mean - found.x[:4]) / sds[:4], 0.0, atol=0.6)
    np.testing.assert_allclose((looked - usual)[1:] - found.x[4:], 0.0, atol=0.6 * sds[4:].max())
    np.testing.assert_allclose(np.append(sd, spread[1:]) / sds, 1.0, atol=0.25)


def test_without_low_places_nothing_changes(rng):
    """Rewards of first places say nothing of the others: the same theta as without places."""
    contexts, rewards = rng.normal(size=(60, 3)), (rng.random(60) < 0.4).astype(float)
    one = pr.SharedLinearBandit(3, rewards="bernoulli", prior_precision=1.0, rng=0)
    two = pr.SharedLinearBandit(3, rewards="bernoulli", prior_precision=1.0, places=3, rng=0)
    one.update(contexts, None, rewards)
    two.update(contexts, None, rewards, place=[0] * 60)
    np.testing.assert_allclose(one.coefficients(), two.coefficients(), rtol=1e-9)
    np.testing.assert_allclose(two.looked_at()[0], [1.0, 0.5**0.5, 3**-0.5])
    assert one.select(contexts[:5]).arm == two.select(contexts[:5]).arm
    np.testing.assert_allclose(one.looked_at(), np.ones((3, 1)))


def test_no_click_on_a_low_place_says_less(rng):
    """Two items, one shown first and one third, without a click: the third is thought better of."""
    bandit = pr.SharedLinearBandit(2, rewards="bernoulli", places=3, prior_precision=1.0, intercept=False, rng=0)
    bandit.update([[1.0, 0.0], [0.0, 1.0]] * 5, None, [0.0] * 10, place=[0, 2] * 5)
    mean, _ = bandit.coefficients()
    assert mean[0] < mean[1] < 0.0
    other = pr.SharedLinearBandit(2, rewards="bernoulli", places=3, prior_precision=1.0, intercept=False, rng=0)
    other.update([[1.0, 0.0], [0.0, 1.0]] * 5, None, [1.0] * 10, place=[0, 2] * 5)
    mean, _ = other.coefficients()
    assert mean[1] > 0.0


@pytest.mark.parametrize("draws", ["independent", "joint"])
def test_scores_are_those_of_theta_alone(draws, rng):
    contexts, place, rewards = shown(rng, 100)
    bandit = pr.SharedLinearBandit(3, rewards="bernoulli", places=4, draws=draws, alpha=0.0, rng=0)
    bandit.update(contexts, None, rewards, place=place)
    decision, (mean, sd) = bandit.select(contexts[:6], top=3), bandit.coefficients()
    rows, posterior = np.column_stack([np.ones(6), contexts[:6]]), bandit.posterior
    np.testing.assert_allclose(decision.mean, rows @ mean, rtol=1e-10)
    np.testing.assert_allclose(decision.sd, np.sqrt(((rows @ posterior.covariance()) * rows).sum(axis=1)), rtol=1e-8)
    np.testing.assert_allclose(posterior.mean(), mean, rtol=1e-8)
    np.testing.assert_allclose(posterior.variance(), sd**2, rtol=1e-8)
    if draws == "independent":
        assert decision.placement().chance.sum() == pytest.approx(3.0)
    else:  # six sds
        scores = decision._law.sample(20_000, rng)
        width = bandit.settings.at(1).width(1)
        np.testing.assert_allclose(scores.mean(axis=0), decision.mean, atol=6 * decision.sd.max() / 20_000**0.5)
        np.testing.assert_allclose(scores.std(axis=0), width * decision.sd, rtol=0.05)


def test_saved_merged_and_forgotten(tmp_path, rng):
    contexts, place, rewards = shown(rng, 300)
    made = {"rewards": "bernoulli", "places": 4, "rng": 0}
    base = pr.SharedLinearBandit(3, **made).update(contexts[:400], None, rewards[:400], place=place[:400])
    base.save(tmp_path / "bandit")
    again = pr.SharedLinearBandit.load(tmp_path / "bandit")
    assert again.places == 4
    np.testing.assert_array_equal(again.looked_at(), base.looked_at())
    assert again.select(contexts[:8], top=4).slate == base.select(contexts[:8], top=4).slate
    one, two, both = base.copy(stream=0), base.copy(stream=1), base.copy(stream=2)
    one.update(contexts[400:800], None, rewards[400:800], place=place[400:800])
    two.update(contexts[800:], None, rewards[800:], place=place[800:])
    both.update(contexts[400:], None, rewards[400:], place=place[400:])
    one.merge(two, since=base)
    np.testing.assert_allclose(one.looked_at()[0], both.looked_at()[0], rtol=0.1)
    width = [np.log(each[2] / each[1])[1:] for each in (one.looked_at(), both.looked_at(), base.looked_at())]
    np.testing.assert_allclose(width[0], width[1], rtol=0.1)
    assert (width[0] < width[2]).all()
    other = pr.SharedLinearBandit(3, rewards="bernoulli", places=3, rng=0)
    with pytest.raises(ParameterError):
        one.merge(other, since=None)
    one.forget(0.0)
    np.testing.assert_allclose(one.looked_at()[0], np.arange(1.0, 5.0) ** -0.5, rtol=1e-6)


def test_a_journal_knows_places(tmp_path, rng):
    rows = rng.normal(size=(6, 3))
    twin = pr.SharedLinearBandit(3, rewards="bernoulli", places=3, rng=4)
    with pr.Journal(tmp_path / "journal", twin.copy(), snapshot_every=5) as live:
        for i in range(12):
            slate = live.select(rows, top=3)
            rewards = (rng.random(3) < 0.5).astype(float).tolist()
            assert live.reward([slate.ids[2], slate.ids[0]], [rewards[2], rewards[0]]) == ["ok", "ok"]
            if i % 2:
                live.reward(slate.ids[1], rewards[1])
            for place in (2, 0, 1) if i % 2 else (2, 0):
                twin.update(slate.chosen[place], None, rewards[place], place=place)
        np.testing.assert_array_equal(live.bandit.looked_at(), twin.looked_at())
        assert live.verify() == 12
    with pr.Journal(tmp_path / "journal") as live:
        np.testing.assert_array_equal(live.bandit.looked_at(), twin.looked_at())


def test_what_does_not_go_with_places(rng):
    with refused(ParameterError, "conflicting-arguments", argument="places"):
        pr.SharedLinearBandit(2, places=3)
    with refused(ParameterError, "integer-range", argument="places"):
        pr.SharedLinearBandit(2, rewards="bernoulli", places=1)
    bandit = pr.SharedLinearBandit(features=["x", "y"], rewards="bernoulli", places=3, rng=0)
    with refused(DataError, "missing-argument", argument="place"):
        bandit.update([1.0, 2.0], None, 1.0)
    with refused(DataError, "wrong-shape", argument="place"):
        bandit.update([[1.0, 2.0]] * 2, None, [1.0, 0.0], place=[0])
    with refused(ParameterError, "integer-range", argument="place"):
        bandit.update([1.0, 2.0], None, 1.0, place=3)
    with refused(ParameterError, "too-many-places", argument="top", value=4, expected=3):
        bandit.select(rng.normal(size=(5, 2)), top=4)
    with refused(ParameterError, "conflicting-arguments", argument="places"):
        bandit.refit([([1.0, 2.0], 1.0), ([0.0, 1.0], 0.0)])
    with refused(ParameterError, "no-features", argument="features"):
        bandit.migrate(["x", "y", "z"])
    assert bandit.n_rewards == 0
    assert pr.SharedLinearBandit(2, rng=0).update([1.0, 2.0], None, 1.0, place=7).places is None
