"""What a bandit learns beside theta (noise, level, drift), what keeps it from locking in, and threads that share it.

Statistical tests have no fixed seed to be lucky with; each fails by chance with at most 1e-6.
"""

import copy
import os
import pickle
import threading
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from refusals import refused
from scipy import integrate, stats

from prudent._numerics.least_squares import LARGE
from prudent._numerics.student import (
    student_from_log_survival,
    student_log_constant,
    student_pdf,
    student_shortfall,
    student_survival,
)
from prudent.bandits import BanditSettings, Decay, LinearBandit, brps_cmab, thompson_sampling_inflated
from prudent.bandits.law.score_law import score_law
from prudent.errors import DataError, ParameterError

FALSE_ALARM = 1e-7


def contents(bandit, tmp_path):
    bandit.save(tmp_path / "contents")
    return (tmp_path / "contents").read_bytes()


def taught(source, arms=4, dim=3, size=60, offset=0.0, **options):
    """A bandit that has seen rewards of arms that differ, in level and in noise."""
    contexts, pulled = source.normal(size=(size, dim)), source.integers(0, arms, size)
    noise = source.normal(size=size) * (0.3 + 0.4 * pulled)
    rewards = contexts[:, 0] * 0.2 + 0.3 * pulled + noise + offset
    bandit = LinearBandit(arms, dim, **options).update(contexts, pulled, rewards)
    return bandit, contexts, pulled, rewards


# -- the noise ---------------------------------------------------------------------------------------------

KINDS = [
    {"alpha": 0.0},
    {"alpha": 0.7},
    {"alpha": 0.5, "min_propensity": 0.05, "first_pulls": 2},
    {"alpha": Decay(0.9, half=30), "half_life": 20},
    {"alpha": 0.8, "noise": "by arm"},
    {"alpha": 0.9, "intercept": False},
    {"settings": thompson_sampling_inflated(delta=0.1)},
]


def played(options, factor, offset, tmp_path, steps=120):
    """Decisions, one by one and in batches, with a restart, and their scores."""
    rng = np.random.default_rng(3)
    bandit, arms, scores = LinearBandit(5, 4, rng=8, **options), [], []
    for t in range(steps):
        context = rng.normal(size=4)
        decision = bandit.select(context)
        reward = (context[0] * (decision.arm - 2) + rng.normal()) * factor + offset
        bandit.update(context, decision.arm, reward)
        arms.append(decision.arm)
        scores.append(decision.score)
        if t % 40 == 20:
            batch = bandit.select(rng.normal(size=(60, 4)))  # screened in single precision
            arms += batch.arm.tolist()
            scores += batch.score.tolist()
            bandit.save(tmp_path / "s")
            bandit = LinearBandit.load(tmp_path / "s")
            bandit.add_arm(f"new {t}", like=[0, 1])
            bandit.remove_arm(f"new {t}")
    return arms, np.array(scores)


@pytest.mark.parametrize("options", KINDS, ids=[str(i) for i in range(len(KINDS))])
def test_the_unit_of_rewards_does_not_matter(options, tmp_path):
    arms, scores = played(options, 1.0, 0.0, tmp_path)
    for power in (10, -37):
        again, scaled = played(options, 2.0**power, 0.0, tmp_path)
        assert again == arms
        np.testing.assert_array_equal(scaled, scores * 2.0**power)  # to the bit


@pytest.mark.parametrize("options", [KINDS[1], KINDS[4]], ids=["shared", "by arm"])
def test_nor_does_their_zero(options, tmp_path):
    # but for rounding, which two scores in 1e9 are near enough to notice
    arms, scores = played(options, 1.0, 0.0, tmp_path)
    again, moved = played(options, 1.0, 4096.0, tmp_path)
    assert again == arms
    np.testing.assert_allclose(moved[1:] - 4096.0, scores[1:], atol=1e-9)  # nothing was known of the first


@pytest.mark.parametrize("intercept", [True, False])
def test_noise_and_level_are_those_of_the_marginal_likelihood(intercept, rng):
    # Rewards of an arm are Normal(c, nu^2 (I + S P^-1 S')): c by generalised least squares, nu^2 from the residuals
    bandit, contexts, pulled, rewards = taught(
        rng, prior_precision=2.5, intercept=intercept, offset=3.0, interactions="none"
    )
    points = np.column_stack([np.ones(len(contexts)), contexts]) if intercept else contexts
    top = bottom = 0.0
    weights = []
    for arm in range(4):
        own = pulled == arm
        weight = np.linalg.inv(np.eye(own.sum()) + points[own] @ points[own].T / 2.5)
        weights.append((own, weight))
        top += weight.sum(axis=0) @ rewards[own]
        bottom += weight.sum()
    level = top / bottom if intercept else 0.0
    total = sum((rewards[own] - level) @ weight @ (rewards[own] - level) for own, weight in weights)
    noise = np.sqrt(total / (len(rewards) - intercept))
    assert bandit.noise_sd == pytest.approx(noise, rel=1e-10)
    mean, sd = bandit.predict(contexts[:5])
    for arm, (own, weight) in enumerate(weights):
        cross = points[:5] @ points[own].T / 2.5
        np.testing.assert_allclose(mean[:, arm], level + cross @ weight @ (rewards[own] - level), rtol=1e-9)
        square = (points[:5] ** 2).sum(axis=1) / 2.5 - (cross @ weight * cross).sum(axis=1)
        np.testing.assert_allclose(sd[:, arm], noise * np.sqrt(square), rtol=1e-9)
        posterior = bandit.posterior(arm)
        np.testing.assert_allclose(points[:5] @ posterior.mean(), mean[:, arm], rtol=1e-9)
        np.testing.assert_allclose(posterior.predict(points[:5])[1], sd[:, arm], rtol=1e-9)


def test_rewards_far_from_zero_lose_nothing(rng):
    contexts, arms = rng.normal(size=(300, 3)), rng.integers(0, 3, 300)
    rewards = rng.integers(-8, 9, 300) + 2.0 * arms
    near, far = (LinearBandit(3, 3).update(contexts, arms, rewards + offset) for offset in (0.0, 2.0**30))
    assert far.noise_sd == pytest.approx(near.noise_sd, rel=1e-6)
    np.testing.assert_allclose(far.predict(contexts)[0] - 2.0**30, near.predict(contexts)[0], atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"noise": "by arm"}, {"min_propensity": 0.1}, {"intercept": False}])
@pytest.mark.parametrize("rewards", [[], [0.0] * 5, [7.25] * 9])
def test_choices_are_uniform_until_two_different_rewards_are_seen(options, rewards):
    bandit = LinearBandit(4, 2, alpha=0.5, **options)
    for reward in rewards:
        bandit.update([1.0, 2.0], 1, reward)
    assert bandit.noise_sd is None
    assert bandit.select([1.0, 1.0]).propensity == 0.25
    assert bandit.select([1.0, 1.0], arms=[3, 1]).propensities.tolist() == [0.5, 0.5]
    batch = bandit.select(np.ones((8000, 2)))
    assert (batch.propensity == 0.25).all()
    assert np.isinf(batch.sd).all()
    assert np.isfinite(batch.score).all()
    assert stats.chisquare(np.bincount(batch.arm, minlength=4)).pvalue > FALSE_ALARM
    singles = [bandit.select([1.0, 1.0]).arm for _ in range(4000)]
    assert stats.chisquare(np.bincount(singles, minlength=4)).pvalue > FALSE_ALARM
    with refused(DataError, "unknown-noise"):
        bandit.posterior(0)
    bandit.update([1.0, 2.0], 1, 3.0).update([1.0, 2.0], 2, 4.0)
    assert bandit.noise_sd > 0.0


# -- the law of a decision -----------------------------------------------------------------------------------

LAWS = {
    "normal": {"alpha": 0.7},
    "student": {"alpha": 0.5, "noise": "by arm"},
    "student, neutral": {"noise": "by arm"},
    "floor": {"alpha": 0.9, "min_propensity": 0.06},
    "floor, two draws": {"alpha": 0.3, "min_propensity": 0.1},
    "student, floor": {"alpha": 0.9, "noise": "by arm", "min_propensity": 0.2},
    "falling": {"alpha": Decay(0.9, half=1e9)},
}


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("arms", [None, [3, 0, 2]], ids=["all", "some"])
def test_choices_follow_the_propensities(name, arms, rng):
    bandit = taught(rng, size=40, rng=rng, **LAWS[name])[0]
    point = rng.normal(size=3)
    chances = bandit.propensities(point, arms=arms)
    names = list(range(4)) if arms is None else arms
    assert chances.sum() == pytest.approx(1.0, abs=1e-12)
    for decision in (bandit.select(point, arms=arms), bandit.select(np.tile(point, (30, 1)), arms=arms)):
        every = np.atleast_2d(decision.propensities)
        np.testing.assert_allclose(every, np.tile(chances, (len(every), 1)), atol=1e-11)
        places = [names.index(arm) for arm in np.atleast_1d(decision.arm).tolist()]
        np.testing.assert_allclose(decision.propensity, np.squeeze(chances[places]), atol=1e-11)
    for chosen in (
        bandit.select(np.tile(point, (100_000, 1)), arms=arms).arm.tolist(),
        [bandit.select(point, arms=arms).arm for _ in range(10_000)],
    ):
        counts = np.array([chosen.count(arm) for arm in names])
        expected = len(chosen) * chances
        rare = expected < 5.0  # too few for the chi-squared law: pooled
        if rare.any():
            counts = np.append(counts[~rare], counts[rare].sum())
            expected = np.append(expected[~rare], max(expected[rare].sum(), 1e-300))
            assert counts[-1] < 40
            counts, expected = counts[:-1], expected[:-1] * counts[:-1].sum() / expected[:-1].sum()
        assert counts.size == 1 or stats.chisquare(counts, expected).pvalue > FALSE_ALARM


def test_propensities_of_students_are_those_of_a_dense_quadrature(rng):
    nodes, weights = np.polynomial.legendre.leggauss(16)
    for n in (1, 10):
        law = score_law(n, (1.0,), False)
        means, scales, freedom = rng.normal(size=4), 10.0 ** rng.uniform(-1.5, 0.5, 4), rng.uniform(4.0, 400.0, 4)
        found = law.every_chance(means[np.newaxis], scales[np.newaxis], freedom)[0]
        # Gauss's rule on panels that are narrow near every mean and widen with the distance from it
        edges = np.unique(means[:, np.newaxis] + scales[:, np.newaxis] * np.sinh(np.linspace(-12.0, 12.0, 121)))
        half = 0.5 * np.diff(edges)[:, np.newaxis]
        x = (edges[:-1, np.newaxis] + half * (1.0 + nodes)).ravel()
        mass = (half * weights).ravel()
        y = (x[:, np.newaxis] - means) / scales
        survival = stats.t.sf(y, freedom)
        density = n * survival ** (n - 1) * stats.t.pdf(y, freedom) / scales
        for place in range(4):
            others = np.delete(1.0 - survival**n, place, axis=1).prod(axis=1)
            assert found[place] == pytest.approx(mass @ (density[:, place] * others), abs=1e-9)


def test_students_law_is_that_of_scipy():
    for freedom in (4.0, 4.5, 11.0, 60.3, 199.0, 200.0, 1e3, 1e6):
        constant = student_log_constant(freedom)
        for log_survival in (-1e-12, -1e-4, -0.3, -0.9, -4.0, -30.0):
            x = student_from_log_survival(log_survival, freedom)
            tail = np.exp(log_survival) if log_survival < -0.5 else -np.expm1(log_survival)
            expected = stats.t.isf(tail, freedom) * (1.0 if log_survival < -0.5 else -1.0)
            assert x == pytest.approx(expected, rel=1e-9)
            assert student_survival(x, freedom, constant) == pytest.approx(stats.t.sf(x, freedom), rel=1e-9)
            assert student_pdf(x, freedom, constant) == pytest.approx(stats.t.pdf(x, freedom), rel=1e-9)
        shortfall = -integrate.quad(lambda u, v=freedom: stats.t.ppf(u, v), 0.0, 0.2, epsabs=1e-11)[0] / 0.2
        assert student_shortfall(0.8, freedom) == pytest.approx(shortfall, rel=1e-6)


def test_scores_by_arm_are_the_lowest_of_students(rng):
    bandit, contexts, *_ = taught(rng, arms=1, size=9, noise="by arm", alpha=0.8, rng=rng)
    freedom = 13.0  # nine rewards, and a prior worth four
    batch = bandit.select(np.tile(contexts[:1], (20_000, 1)))
    scale = batch.sd[0, 0] * np.sqrt(1.0 - 2.0 / freedom)
    standard = (batch.score - batch.mean[0, 0]) / scale
    assert stats.kstest(standard, lambda x: 1.0 - stats.t.sf(x, freedom) ** 5).pvalue > FALSE_ALARM


def test_first_pulls_come_first_and_have_exact_chances(rng):
    bandit = taught(rng, arms=3, size=5, first_pulls=4, alpha=0.5, rng=rng)[0]
    had = np.array(list(bandit.pulls.values()))
    context = np.ones(3)
    while (had < 4).any():
        lacks = had < 4
        np.testing.assert_array_equal(bandit.propensities(context), lacks / lacks.sum())
        decision = bandit.select(context)
        np.testing.assert_array_equal(decision.propensities, lacks / lacks.sum())
        assert decision.propensity == 1.0 / lacks.sum()
        had[decision.arm] += 1  # rewards may come later
    assert not np.isin(bandit.select(context).propensities, [0.0, 1 / 3, 0.5, 1.0]).any()
    # a batch does the same in one go
    bandit = LinearBandit(3, 3, first_pulls=4, noise_sd=1.0, rng=rng)
    batch = bandit.select(np.ones((40, 3)))
    assert sorted(batch.arm[:12].tolist()) == [0] * 4 + [1] * 4 + [2] * 4
    tried = np.zeros(3)
    for t in range(12):
        np.testing.assert_array_equal(batch.propensities[t], (tried < 4) / (tried < 4).sum())
        tried[batch.arm[t]] += 1
    np.testing.assert_allclose(batch.propensities[12:], 1 / 3, atol=1e-12)
    firsts = [LinearBandit(3, 1, first_pulls=1, rng=rng).select([1.0]).arm for _ in range(300)]
    assert stats.chisquare(np.bincount(firsts, minlength=3)).pvalue > FALSE_ALARM


def test_a_floor_that_does_not_fit_is_refused():
    bandit = LinearBandit(4, 1, min_propensity=0.3)
    with refused(ParameterError, "probability-range", argument="min_propensity"):
        bandit.select([1.0])
    assert bandit.select([1.0], arms=[0, 1]).propensity == 0.5


def test_a_level_that_falls(tmp_path):
    level = Decay(0.95, half=3)
    assert [level.draws(t) for t in (1, 4, 7, 100)] == [20, 2, 1, 1]
    for n in range(1, 3000):  # the level of n draws has n draws
        assert BanditSettings(1.0 - 1.0 / n).n == n
        assert BanditSettings(1.0 - 1.0 / n).weights.size == 1
    bandit = LinearBandit(2, 1, alpha=level, noise_sd=1.0, rng=1)
    seen = []
    for _ in range(8):
        seen.append(bandit.alpha)
        bandit.select([1.0])
        bandit.save(tmp_path / "s")
        bandit = LinearBandit.load(tmp_path / "s")
    assert seen == [level.at(t) for t in range(1, 9)]
    assert bandit.settings.alpha == level
    with refused(ParameterError, "conflicting-arguments", argument="draws"):
        BanditSettings(level, draws=5)


# -- drift -----------------------------------------------------------------------------------------------------


def weighted(contexts, rewards, weights, prior, noise_sd):
    points = np.column_stack([np.ones(len(contexts)), contexts])
    precision = prior * np.eye(points.shape[1]) + points.T @ (weights[:, np.newaxis] * points)
    return np.linalg.solve(precision, points.T @ (weights * rewards)), noise_sd**2 * np.linalg.inv(precision)


def check_weighted(bandit, contexts, arms, rewards, weights, rtol=1e-10):
    for arm in range(len(bandit.arms)):
        own = arms == arm
        mean, covariance = weighted(contexts[own], rewards[own], weights[own], 2.0, 0.5)
        np.testing.assert_allclose(bandit.posterior(arm).mean(), mean, rtol=rtol, atol=1e-12)
        np.testing.assert_allclose(bandit.posterior(arm).covariance(), covariance, rtol=rtol, atol=1e-12)
        predicted, sd = bandit.predict(contexts[:3])
        points = np.column_stack([np.ones(3), contexts[:3]])
        np.testing.assert_allclose(predicted[:, arm], points @ mean, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(sd[:, arm] ** 2, ((points @ covariance) * points).sum(axis=1), rtol=1e-8)


@pytest.mark.parametrize("factor", [0.9, 0.5, 1e-7])
def test_forgetting_is_weighted_least_squares(factor, rng):
    # a factor of 1e-7 has the sums scaled down, again and again
    bandit = LinearBandit(2, 3, noise_sd=0.5, prior_precision=2.0)
    contexts, arms, rewards = rng.normal(size=(40, 3)), rng.integers(0, 2, 40), rng.normal(size=40)
    for t in range(40):
        bandit.forget(factor).update(contexts[t], arms[t], rewards[t])
    check_weighted(bandit, contexts, arms, rewards, factor ** np.arange(39.0, -1.0, -1.0))
    bandit.forget(0.0)
    check_weighted(bandit, contexts, arms, rewards, np.zeros(40))


def test_a_learned_noise_forgets_too(rng):
    contexts, arms, rewards = rng.normal(size=(60, 2)), rng.integers(0, 3, 60), rng.normal(size=60)
    faded, same = (LinearBandit(3, 2, interactions="none") for _ in range(2))  # rows that repeat look like evidence
    faded.update(contexts, arms, rewards).forget(0.25)
    same.update(np.tile(contexts, (4, 1)), np.tile(arms, 4), np.tile(rewards, 4)).forget(1 / 16)
    assert faded.noise_sd == pytest.approx(same.noise_sd, rel=1e-12)
    np.testing.assert_allclose(faded.propensities(contexts), same.propensities(contexts), atol=1e-10)


def test_a_half_life_in_decisions(rng):
    bandit = LinearBandit(2, 3, noise_sd=0.5, prior_precision=2.0, half_life=10, rng=1)
    contexts, arms, rewards = rng.normal(size=(50, 3)), rng.integers(0, 2, 50), rng.normal(size=50)
    for t in range(50):
        bandit.update(contexts[t], arms[t], rewards[t])
        bandit.select(contexts[t])
    # learned after t decisions, and the last one was taken after 49
    check_weighted(bandit, contexts, arms, rewards, 0.5 ** ((49 - np.arange(50)) / 10))
    slow = LinearBandit(2, 3, noise_sd=0.5, half_life=1000)
    assert slow.half_life.step == 31  # it fades in steps of about two percent


def test_a_half_life_in_time_and_rewards_that_come_late(rng):
    contexts, arms, rewards = rng.normal(size=(30, 3)), rng.integers(0, 2, 30), rng.normal(size=30)
    start = datetime(2026, 3, 1, tzinfo=UTC)
    hours = rng.permutation(30)
    times = [start + timedelta(hours=int(hour)) for hour in hours]
    options = {"noise_sd": 0.5, "prior_precision": 2.0, "half_life": timedelta(hours=32)}  # steps of an hour
    one, batch = LinearBandit(2, 3, **options), LinearBandit(2, 3, **options)
    for t in range(30):
        one.update(contexts[t], arms[t], rewards[t], time=times[t])
    batch.update(contexts, arms, rewards, time=[time.timestamp() for time in times])
    for bandit in (one, batch):
        check_weighted(bandit, contexts, arms, rewards, 0.5 ** ((hours.max() - hours) / 32.0))
    one.select(contexts[0], time=np.datetime64("2026-03-03T05:00"))  # an hour after 28 or 29 March 2, 04:00
    assert one.posterior(0).precision.trace() < batch.posterior(0).precision.trace()
    with refused(ParameterError, "not-a-time", argument="time"):
        one.select(contexts[0], time="noon")
    with refused(DataError, "wrong-shape", argument="time"):
        batch.update(contexts, arms, rewards, time=[1.0, 2.0])


# -- many features, many arms ----------------------------------------------------------------------------------


def test_many_features_are_updated_as_if_solved_anew(tmp_path, rng):
    dim = LARGE + 6
    contexts, rewards = rng.normal(size=(300, dim)) * 10.0 ** rng.uniform(-1, 1, dim), rng.normal(size=300)
    bandit = LinearBandit(2, dim, rng=2)
    for t in range(300):
        bandit.select(contexts[t])
        bandit.update(contexts[t], t % 2, rewards[t])
    fresh = LinearBandit(2, dim).update(contexts, np.arange(300) % 2, rewards)
    for found, expected in zip(bandit.predict(contexts), fresh.predict(contexts), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    bandit.save(tmp_path / "s")  # what goes on is what a load goes on with, to the bit
    again = LinearBandit.load(tmp_path / "s")
    for t in range(20):
        one, two = bandit.select(contexts[t]), again.select(contexts[t])
        assert (one.arm, one.score) == (two.arm, two.score)
        for each in (bandit, again):
            each.update(contexts[t], one.arm, rewards[t])


def test_a_new_arm_leaves_the_others_solved(rng):
    bandit, contexts, *_ = taught(rng)
    before = bandit.predict(contexts[:3])
    roots = bandit.belief.table.root.copy()
    bandit.belief.table.gram[:, 1] += 1.0  # would show if anyone solved them again
    for i in range(20):
        bandit.add_arm(f"new {i}")
    bandit.select(contexts[0])
    np.testing.assert_array_equal(bandit.belief.table.root[:4], roots)
    after = bandit.predict(contexts[:3])
    np.testing.assert_allclose(after[0][:, :4], before[0], rtol=1e-12)


def test_a_new_arm_like_others(rng):
    bandit = taught(rng)[0]
    bandit.add_arm("new", like=[1, 3]).add_arm("other")
    likes = [bandit.posterior(arm) for arm in (1, 3)]
    new = bandit.posterior("new")
    means = np.array([like.mean() for like in likes])
    np.testing.assert_allclose(new.mean(), means.mean(axis=0), rtol=1e-10)
    spread = means - means.mean(axis=0)
    covariance = (likes[0].covariance() + likes[1].covariance()) / 2 + spread.T @ spread / 2
    np.testing.assert_allclose(new.covariance(), covariance, rtol=1e-8)
    bandit.update(np.zeros((2, 3)), ["new", "other"], [1.0, 1.0]).forget(0.0)  # its prior stays
    np.testing.assert_allclose(
        bandit.predict(np.eye(3), arms=["new"])[0][:, 0],
        new.predict(np.column_stack([np.ones(3), np.eye(3)]))[0],
        rtol=1e-10,
    )
    bandit.remove_arm("new")
    assert bandit.belief.priors.shape[0] == 1
    with refused(ParameterError, "unknown-arm", argument="like[0]"):
        bandit.add_arm("last", like=["nobody"])


# -- looking without touching -------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", KINDS, ids=[str(i) for i in range(len(KINDS))])
def test_looking_changes_nothing(options, tmp_path, rng):
    bandit, contexts, *_ = taught(rng, rng=1, **options)
    before = contents(bandit, tmp_path)
    mean, sd = bandit.predict(contexts[:6])
    score, chances = bandit.score(contexts[:6]), bandit.propensities(contexts[:6])
    bandit.check()
    one = [bandit.predict(contexts[2])[0], bandit.score(contexts[2]), bandit.propensities(contexts[2])]
    assert contents(bandit, tmp_path) == before
    level = bandit.alpha
    batch = bandit.select(contexts[:6])
    np.testing.assert_allclose(batch.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(batch.sd, sd, rtol=1e-12)
    np.testing.assert_allclose(batch.propensities[0], chances[0], atol=1e-12)
    for found, whole in zip(one, (mean, score, chances), strict=True):
        np.testing.assert_allclose(found, whole[2], rtol=1e-9)
    assert (score <= mean + 1e-12).all()
    if level == 0.0:
        np.testing.assert_array_equal(score, mean)
    arms = bandit.predict(contexts[:6], arms=[2, 0])[0]
    np.testing.assert_allclose(arms, mean[:, [2, 0]], rtol=1e-12)


def test_rewards_of_arms_that_are_gone_can_be_skipped():
    bandit = LinearBandit(["a", "b"], 1)
    with pytest.warns(UserWarning, match="2 of 3 rewards are of arms that are not there, 'c' first"):
        bandit.update([[1.0], [2.0], [3.0]], ["c", "b", ["odd"]], [1.0, 2.0, 3.0], unknown="skip")
    with pytest.warns(UserWarning, match="1 of 1 rewards"):
        bandit.update([1.0], "d", 1.0, unknown="skip")
    assert (bandit.pulls, bandit.skipped) == ({"a": 0, "b": 1}, 3)
    with refused(ParameterError, "unknown-option", argument="unknown"):
        bandit.update([1.0], "a", 1.0, unknown="ignore")


def kinds(bandit):
    return {finding.kind for finding in bandit.check()}


def test_check_finds_what_is_wrong_and_nothing_else(rng):
    # Good data raises an alarm with a chance below 1e-6; faults are many standard errors large
    size = 3000
    contexts, arms, noise = rng.normal(size=(size, 3)), rng.integers(0, 3, size), rng.normal(size=size)
    rewards = 5.0 + contexts @ [1.0, -1.0, 0.5] * (1 + arms) + noise
    good = LinearBandit(3, 3).update(contexts, arms, rewards)
    assert kinds(good) == set()
    assert str(good.check()) == "no findings after 3000 rewards"
    wide = LinearBandit(3, 3).update(contexts * [1.0, 1.0, 1000.0], arms, rewards)
    assert kinds(wide) == {"scales"}
    assert "feature 2 varies" in wide.check()[0].text
    still = LinearBandit(3, 4).update(np.column_stack([contexts, np.full(size, 2.0)]), arms, rewards)
    assert kinds(still) == {"constant"}
    curved, bent = (LinearBandit(3, 3, interactions=word) for word in ("none", "auto"))
    for bandit in (curved, bent):
        bandit.update(contexts, arms, rewards + (contexts**2).sum(axis=1))
    assert kinds(curved) == {"curvature"}
    assert "curvature" not in kinds(bent)  # it has learned the squares
    drifting = LinearBandit(3, 3).update(contexts, arms, rewards + np.arange(size) / 1000)
    assert "drift" in kinds(drifting)
    follow = noise.copy()
    for t in range(1, size):
        follow[t] += 0.8 * follow[t - 1]
    following = LinearBandit(3, 3).update(contexts, arms, follow)
    assert "autocorrelation" in kinds(following)
    uneven = LinearBandit(3, 3).update(contexts, arms, noise * (1 + 4.0 * arms))
    assert kinds(uneven) == {"noise"}
    starved = LinearBandit(4, 3).update(contexts, arms, rewards)
    assert kinds(starved) == {"starved"}
    assert kinds(LinearBandit(3, 3)) == set()


# -- threads, forks and copies -----------------------------------------------------------------------------------


def hammer(threads, calls):
    """Threads that decide and learn; rewards and contexts are small integers, so their sums are exact in any order."""
    bandit = LinearBandit(3, 2, alpha=0.5, noise_sd=1.0, rng=5)
    scores = [[] for _ in range(threads)]
    faults = []
    barrier = threading.Barrier(threads)

    def work(own):
        try:
            barrier.wait()
            for i in range(calls):
                decision = bandit.select([1.0, float(i % 3)], arms=None if i % 2 else [0, 2])
                scores[own].append(decision.score)
                bandit.update([1.0, float(i % 3)], i % 3, float(i % 5))
                if i % 500 == 7:
                    bandit.check(), bandit.propensities([[1.0, 1.0]]), copy.copy(bandit)
        except BaseException as fault:
            faults.append(fault)

    workers = [threading.Thread(target=work, args=(own,)) for own in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not faults
    return bandit, np.concatenate(scores)


def check_threads(threads, calls):
    bandit, scores = hammer(threads, calls)
    alone = LinearBandit(3, 2, noise_sd=1.0)
    i = np.tile(np.arange(calls), threads)
    alone.update(np.column_stack([np.ones(i.size), i % 3]), i % 3, (i % 5).astype(float))
    assert bandit.decisions == threads * calls
    assert bandit.pulls == alone.pulls
    for arm in range(3):
        assert bandit.posterior(arm) == alone.posterior(arm)
    assert np.unique(scores).size == scores.size  # no draw is used twice


def test_threads_share_a_bandit_without_care():
    check_threads(8, 1000)


@pytest.mark.slow
def test_threads_share_a_bandit_for_a_million_calls():
    check_threads(8, 62_500)  # decisions and rewards


def test_a_fork_while_another_thread_is_inside():
    bandit = LinearBandit(3, 2, noise_sd=1.0, rng=1)
    done = threading.Event()

    def work():
        while not done.is_set():
            bandit.select(np.ones((200, 2)))

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:  # pragma: no cover
                code = 1
                try:
                    bandit.update([1.0, 2.0], bandit.select([1.0, 2.0]).arm, 1.0)
                    code = 0
                finally:
                    os._exit(code)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        done.set()
        worker.join()


def test_copies_learn_on_their_own():
    bandit = LinearBandit(2, 1, rng=4).update([[1.0], [2.0]], [0, 1], [1.0, 0.0])
    for twin in (copy.copy(bandit), copy.deepcopy(bandit), pickle.loads(pickle.dumps(bandit))):
        assert twin.select([1.0]).score == copy.copy(bandit).select([1.0]).score
        twin.update([1.0], 0, 5.0)
        twin.add_arm("c")
        assert (bandit.pulls, len(bandit.arms), bandit.decisions) == ({0: 1, 1: 1}, 2, 0)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: LinearBandit(2, 1, noise="loud"), "unknown-option"),
        (lambda: LinearBandit(2, 1, noise="by arm", noise_sd=1.0), "conflicting-arguments"),
        (lambda: LinearBandit(2, 1, alpha=0.7, noise="by arm"), "conflicting-arguments"),
        (lambda: LinearBandit(2, 1, settings=thompson_sampling_inflated(sampling_sd=2.0)), "conflicting-arguments"),
        (lambda: LinearBandit(2, 1, intercept=1), "not-a-bool"),
        (lambda: LinearBandit(2, 1, first_pulls=-1), "integer-range"),
        (lambda: LinearBandit(2, 1, first_pulls=1.5), "not-an-integer"),
        (lambda: LinearBandit(2, 1, min_propensity=-0.1), "probability-range"),
        (lambda: LinearBandit(2, 1, half_life=0), "not-positive"),
        (lambda: LinearBandit(2, 1, half_life="7d"), "not-a-number"),
        (lambda: LinearBandit(2, 1).forget(1.5), "probability-range"),
        (lambda: LinearBandit(2, 1, alpha="high"), "not-a-number"),
        (lambda: Decay(1.0, half=5), "alpha-range"),
        (lambda: Decay(0.5, half=0), "not-positive"),
        (lambda: LinearBandit(2, 2, prior_precision=np.eye(2)), "wrong-shape"),
    ],
)
def test_bad_options_are_refused(make, code):
    with refused(ValueError, code):
        make()


def test_settings_and_options_go_together():
    bandit = LinearBandit(2, 1, settings=brps_cmab(0.5), first_pulls=3, min_propensity=0.1)
    assert bandit.settings == BanditSettings(0.5, first_pulls=3, min_propensity=0.1)
