"""Revenue: a purchase times a basket; the law of its scores, what it learns, and what it refuses."""

import json

import numpy as np
import pytest
from refusals import refused
from scipy import stats

import prudent as pr
from prudent.bandits import LinearBandit
from prudent.bandits.belief.hurdle import positive_moments
from prudent.errors import DataError, ParameterError

ARMS = ["a", "b", "c"]


def shop(rng, size=600, dim=2, **options):
    """Return a bandit that has learned revenue, and what it has learned from."""
    bandit = LinearBandit(ARMS, dim, rewards="hurdle", rng=7, **options)
    contexts, arms = rng.normal(size=(size, dim)), rng.choice(ARMS, size).tolist()
    scale = np.array([{"a": 10.0, "b": 20.0, "c": 60.0}[arm] for arm in arms])
    rewards = np.where(rng.random(size) < 0.2, scale * rng.gamma(2.0, 0.5, size), 0.0)
    return bandit.update(contexts, arms, rewards), contexts, arms, rewards


@pytest.mark.parametrize("z", [-60.0, -31.0, -29.0, -8.0, -1.0, 0.0, 2.0, 40.0])
def test_moments_of_a_normal_variable_truncated_at_zero(z):
    """Against 60 digits."""
    mp = pytest.importorskip("mpmath")
    with mp.workdps(60):
        x = mp.mpf(z)
        tail = mp.erfc(-x / mp.sqrt(2)) / 2
        hazard = mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi) / tail
        mean, variance = x + hazard, 1 - hazard * (hazard + x)
        found = positive_moments(np.array([3.0 * z]), np.array([3.0]))
        assert found[0][0] == pytest.approx(float(3 * mean), rel=1e-8)
        assert found[1][0] == pytest.approx(float(variance / mean**2), rel=1e-6)


def test_expected_revenue_is_that_of_purchases_and_baskets_drawn_apart(rng):
    """200,000 draws of p and m from the posteriors of the bandit; means and sds within 5.5 standard errors."""
    bandit, *_ = shop(rng)
    context = np.array([0.3, -0.4])
    mean, sd = bandit.predict(context, response=True)
    for i, arm in enumerate(ARMS):
        known, x = bandit.posterior(arm), np.array([1.0, *context])
        purchase = known.purchase.mean() @ x, np.sqrt(x @ known.purchase.covariance() @ x)
        basket = known.basket.mean() @ x, np.sqrt(x @ known.basket.covariance() @ x)
        odds = rng.normal(*purchase, 200_000)
        freedom = 4.0 + bandit.to_xarray()["purchases"].values[i]  # of the noise of the arm
        amounts = rng.normal(basket[0], basket[1] * np.sqrt(freedom / (freedom - 2.0)), 200_000)
        kept = amounts > 0.0
        draws = amounts[kept] / (1.0 + np.exp(-odds[kept]))
        error = draws.std() / np.sqrt(draws.size)
        assert abs(draws.mean() - mean[i]) < 5.5 * error
        assert draws.std() == pytest.approx(sd[i], rel=0.02)
        law = stats.lognorm(np.sqrt(np.log1p((sd[i] / mean[i]) ** 2)), scale=mean[i] / np.hypot(1.0, sd[i] / mean[i]))
        assert stats.kstest(draws, law.cdf).statistic < 0.05  # the lognormal law of the scores is close to theirs


@pytest.mark.parametrize("options", [{}, {"alpha": 0.8}, {"alpha": -0.5}, {"alpha": 0.7, "min_propensity": 0.05}])
def test_propensities_by_repeated_choices(rng, options):
    """Chi-squared tests at 1e-7, for a batch and for single decisions; eight in all."""
    bandit, *_ = shop(rng, **options)
    context, eligible = np.array([0.5, 0.5]), ["c", "a"]
    chances = bandit.propensities(context, eligible)
    batch = bandit.copy(stream=0).select(np.tile(context, (5_000, 1)), eligible)
    np.testing.assert_allclose(batch.propensities[0], chances, rtol=1e-9)
    single = [bandit.select(context, eligible) for _ in range(1000)]
    assert single[0].propensity == pytest.approx(chances[eligible.index(single[0].arm)], rel=1e-9)
    for chosen in (batch.arm, np.array([decision.arm for decision in single])):
        counts = np.array([(chosen == arm).sum() for arm in eligible])
        assert stats.chisquare(counts, chances * counts.sum()).pvalue > 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("dim", [0, 2])
def test_propensities_by_a_million_choices(rng, dim):
    """Chi-squared tests of 10^6 decisions at 5e-7 each."""
    bandit, *_ = shop(rng, dim=dim)
    context = np.full(dim, 0.3)
    chances, counts = bandit.propensities(context if dim else None), np.zeros(3)
    for _ in range(20):
        chosen = bandit.select(np.tile(context, (50_000, 1)), propensity=False).arm
        counts += [(chosen == arm).sum() for arm in ARMS]
    assert stats.chisquare(counts, chances * 1e6).pvalue > 5e-7


@pytest.mark.parametrize("factor", [1e-6, 0.01, 300.0, 1e9])
def test_the_unit_of_money_does_not_matter(rng, factor):
    bandit, contexts, arms, rewards = shop(rng)
    other = LinearBandit(ARMS, 2, rewards="hurdle", rng=7).update(contexts, arms, factor * rewards)
    question = rng.normal(size=(50, 2))
    np.testing.assert_allclose(other.propensities(question), bandit.propensities(question), atol=1e-9)
    assert other.select(question).arm.tolist() == bandit.select(question).arm.tolist()
    mean, sd = bandit.predict(question, response=True)
    np.testing.assert_allclose(other.predict(question, response=True), (factor * mean, factor * sd), rtol=1e-7)


def test_learning_one_by_one_is_learning_together(rng):
    """With learned priors too, which are learned at the same numbers of rewards and purchases."""
    bandit, contexts, arms, rewards = shop(rng, 300)
    single = LinearBandit(ARMS, 2, rewards="hurdle", rng=7)
    for context, arm, reward in zip(contexts, arms, rewards.tolist(), strict=True):
        single.update(context, arm, reward)
    np.testing.assert_allclose(single.predict([0.1, 0.2]), bandit.predict([0.1, 0.2]), rtol=1e-7)
    again = LinearBandit.from_bytes(single.to_bytes())
    assert again.to_bytes() == single.to_bytes()
    assert again.select([0.1, 0.2]).score == single.select([0.1, 0.2]).score


def test_revenue_counts_and_not_purchases(rng):
    """The arm that sells half as often sells four times as much; 3,000 rewards an arm leave no doubt."""
    bandit, size = LinearBandit(["often", "much"], 0, rewards="hurdle", rng=1), 3000
    for arm, chance, basket in (("often", 0.10, 10.0), ("much", 0.05, 40.0)):
        rewards = np.where(rng.random(size) < chance, rng.exponential(basket, size), 0.0)
        bandit.update(np.empty((size, 0)), [arm] * size, rewards)
    assert bandit.propensities()[1] > 0.999
    np.testing.assert_allclose(bandit.predict(response=True)[0], [1.0, 2.0], rtol=0.45)


def test_equal_baskets_leave_the_chance_of_a_purchase():
    """A price that is always the same has no noise; clicks of the same purchases decide with the same chances."""
    bandit, clicks = (LinearBandit(2, 1, rewards=kind, rng=1) for kind in ("hurdle", "bernoulli"))
    contexts, arms, sold = (
        [[0.1 * i] for i in range(40)],
        [i % 2 for i in range(40)],
        [float(i % 5 == 0) for i in range(40)],
    )
    bandit.update(contexts, arms, [19.99 * each for each in sold])
    clicks.update(contexts, arms, sold)
    assert bandit.noise_sd is None
    assert bandit.posterior(0).basket is None
    np.testing.assert_allclose(bandit.propensities([0.3]), clicks.propensities([0.3]), atol=0.03)
    nothing = LinearBandit(2, 1, rewards="hurdle", rng=1)
    np.testing.assert_allclose(nothing.propensities([0.3]), [0.5, 0.5], atol=1e-12)


def test_refit_forget_add_remove_merge(rng):
    bandit, contexts, arms, rewards = shop(rng)
    log = list(zip(contexts.tolist(), arms, rewards.tolist(), strict=True))
    before = bandit.predict([0.1, 0.2], response=True)[0]
    fitted = bandit.copy().refit(log).predict([0.1, 0.2], response=True)[0]
    np.testing.assert_allclose(fitted, before, rtol=0.2)
    half = bandit.copy().forget(0.5)
    assert (half.predict([0.1, 0.2])[1] > bandit.predict([0.1, 0.2])[1]).all()
    grown = bandit.copy().add_arm("d", like=["a", "b"]).remove_arm("a")
    assert grown.arms == ("b", "c", "d")
    assert grown.propensities([0.1, 0.2]).sum() == pytest.approx(1.0)
    one, two = bandit.copy(stream=0), bandit.copy(stream=1)
    one.update([[0.1, 0.1]] * 2, ["a", "b"], [0.0, 12.0])
    two.update([[0.1, 0.1]] * 2, ["a", "c"], [0.0, 90.0])
    one.merge(two, since=bandit)
    assert one.n_rewards == bandit.n_rewards + 4
    assert one.to_xarray()["purchases"].values.sum() == bandit.to_xarray()["purchases"].values.sum() + 2


def test_what_is_refused():
    bandit = LinearBandit(2, 1, rewards="hurdle")
    with refused(DataError, "wrong-reward", argument="reward", value=-5.0):
        bandit.update([1.0], 0, -5.0)
    with refused(DataError, "wrong-reward", argument="reward", value=-1.0):
        bandit.update([[1.0], [2.0]], [0, 1], [3.0, -1.0])
    assert bandit.n_rewards == 0
    for name, value in (("noise_sd", 1.0), ("noise", "by arm")):
        with refused(ParameterError, "conflicting-arguments", argument=name):
            LinearBandit(2, 1, rewards="hurdle", **{name: value})
    with refused(ParameterError, "conflicting-arguments", argument="delta"):
        LinearBandit(2, 1, rewards="hurdle", settings=pr.bandits.brps_cmab_inflated(0.5, delta=0.1))


def test_extreme_amounts_and_contexts_leave_decisions_possible():
    for amounts in ([1e-200, 3e-200], [1e55, 5e55], [1e-3, 1e50]):
        bandit = LinearBandit(2, 1, rewards="hurdle", rng=1)
        for i, amount in enumerate(amounts * 4):
            bandit.update([0.1 * i], i % 2, amount)
            bandit.update([0.1 * i], i % 2, 0.0)
        chances = bandit.propensities([0.5])
        assert np.isfinite(chances).all()
        assert chances.sum() == pytest.approx(1.0)
    far = bandit.propensities([1e6])  # baskets that would be negative are taken to be small
    assert far.sum() == pytest.approx(1.0)


def test_in_the_journal_and_in_words(rng, tmp_path):
    with pr.Journal(tmp_path / "shop.db", LinearBandit(ARMS, 2, rewards="hurdle", rng=1)) as journal:
        for _ in range(60):
            decision = journal.select(rng.normal(size=2))
            journal.reward(decision.id, float(rng.choice([0.0, 0.0, 15.0, 40.0])))
        known = journal.bandit.predict([0.1, 0.2])
        last = journal.select([0.1, 0.2])
    with pr.Journal(tmp_path / "shop.db") as again:
        np.testing.assert_array_equal(again.bandit.predict([0.1, 0.2]), known)
        assert again.explain(last.id) is not None
    bandit, *_ = shop(rng)
    words = str(bandit.explain([0.1, 0.2]))
    assert "mean reward" in words
    assert "log revenue" in words
    assert json.dumps(bandit.state()[0]["belief"])
    assert bandit.plot().axes


def test_arms_without_purchases_are_solved_before_they_are_judged():
    """Memory of arms that were never solved holds anything."""
    bandit = LinearBandit(3, 2, rewards="hurdle", prior_precision=1.0, rng=1)
    bandit.belief.basket.table.mean[:] = np.nan
    bandit.update([0.3, 0.2], 1, 7.0).update([0.3, 0.1], 1, 4.0)
    assert np.isfinite(bandit.predict([0.1, 0.2])).all()
