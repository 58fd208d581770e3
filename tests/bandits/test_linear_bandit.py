"""The bandit against closed forms, brute-force sampling and its own propensities.

Statistical tests have no fixed seed to be lucky with: each says how often it would fail by chance.
"""

import itertools
import math
import pickle
from functools import partial

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from refusals import refused
from scipy import integrate, special, stats

from prudent import cvar, sample_size
from prudent.bandits import (
    BanditSettings,
    Decision,
    LinearBandit,
    brps_cmab,
    brps_cmab_clipped,
    brps_cmab_inflated,
    thompson_sampling,
    thompson_sampling_inflated,
)
from prudent.bandits.kernels.batch import ROWS, decide_rows, fill_scores, learn_rows, single_screen
from prudent.bandits.kernels.layout import PULLS, TRIES, arms_of, handle_of, roots_of
from prudent.bandits.kernels.step import best_score, decide_one, typical_variance, width_of
from prudent.bandits.kernels.stream import Uniforms
from prudent.bandits.law.score_law import ScoreLaw, score_law
from prudent.errors import DataError, ParameterError
from prudent.risk import modified_cvar

FALSE_ALARM = 1e-7

plain = partial(LinearBandit, noise_sd=1.0, intercept=False)  # the bandit of the paper


def contents(bandit, tmp_path):
    """The whole state, as bytes."""
    bandit.save(tmp_path / "contents")
    return (tmp_path / "contents").read_bytes()


# -- the posterior -----------------------------------------------------------------------------------------


def closed_form(contexts, rewards, prior, noise_sd):
    precision = prior + contexts.T @ contexts
    return np.linalg.solve(precision, contexts.T @ rewards), noise_sd**2 * np.linalg.inv(precision)


@effort(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**32), st.floats(0.1, 10))
def test_posterior_is_the_closed_form_and_batch_is_sequential(n_arms, dim, seed, noise_sd):
    rng = np.random.default_rng(seed)
    contexts, rewards = rng.normal(size=(60, dim)), rng.normal(size=60)
    arms = rng.integers(0, n_arms + 1, 60)  # the last arm of the bandit below is another one, never pulled
    prior = np.eye(dim) * rng.uniform(0.5, 4)
    one = plain(n_arms + 2, dim, noise_sd=noise_sd, prior_precision=prior)
    batch = plain(n_arms + 2, dim, noise_sd=noise_sd, prior_precision=prior)
    for context, arm, reward in zip(contexts, arms, rewards, strict=True):
        one.update(context, arm, reward)
    batch.update(contexts, arms, rewards)
    for arm in range(n_arms + 2):
        mean, covariance = closed_form(contexts[arms == arm], rewards[arms == arm], prior, noise_sd)
        np.testing.assert_allclose(one.posterior(arm).mean(), mean, rtol=0, atol=1e-9)
        np.testing.assert_allclose(one.posterior(arm).covariance(), covariance, rtol=0, atol=1e-9 * noise_sd**2)
        assert one.posterior(arm) == batch.posterior(arm)  # to the bit
        assert one.pulls[arm] == (arms == arm).sum()


def test_an_untouched_arm_has_exactly_the_stated_prior():
    bandit = plain(3, 2, noise_sd=3.0, prior_precision=4.0).update([1.0, 2.0], 0, 5.0)
    decision = bandit.select([0.6, 0.8])
    for arm in (1, 2):
        np.testing.assert_array_equal(bandit.posterior(arm).covariance(), 9 / 4 * np.eye(2))
        np.testing.assert_array_equal(bandit.posterior(arm).mean(), np.zeros(2))
        assert decision.mean[arm] == 0.0
        assert decision.sd[arm] == pytest.approx(1.5, rel=1e-15)


def exact_dot(x, y):
    """Sum of products of integer arrays below 2**40, without overflow."""
    (xh, xl), (yh, yl) = divmod(x, 2**13), divmod(y, 2**13)
    return sum(int(part.sum()) << s for part, s in ((xh * yh, 26), (xh * yl, 13), (xl * yh, 13), (xl * yl, 0)))


@pytest.mark.parametrize("tilt", [1e-2, 1e-4])
def test_a_million_nearly_collinear_contexts_to_1e_9(tilt, rng):
    # Contexts and rewards are multiples of a power of two, so their sums are exact; solved in 50 digits.
    size, dim, unit = 10**6, 4, 2**22
    contexts = np.rint((1 + tilt * rng.standard_normal((size, dim))) * unit).astype(np.int64)
    rewards = np.rint((contexts / unit @ [1, -1, 0.5, 2] + rng.standard_normal(size)) * unit).astype(np.int64)
    with mpmath.workdps(50):
        scale = mpmath.mpf(unit) ** 2
        gram = [[exact_dot(contexts[:, i], contexts[:, j]) / scale for j in range(dim)] for i in range(dim)]
        inverse = (mpmath.matrix(gram) + mpmath.eye(dim)) ** -1
        weighted = mpmath.matrix([exact_dot(contexts[:, i], rewards) / scale for i in range(dim)])
        mean = np.array((inverse * weighted).T.tolist(), dtype=float)[0]
        covariance = np.array(inverse.tolist(), dtype=float)
        points = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, -1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.999]])
        sds = [
            float(mpmath.sqrt((mpmath.matrix([p.tolist()]) * inverse * mpmath.matrix(p.tolist()))[0])) for p in points
        ]
    bandit = plain(2, dim)
    for start in range(0, size, 1000):
        block = slice(start, start + 1000)
        bandit.update(contexts[block] / unit, np.ones(1000, dtype=int), rewards[block] / unit)
    np.testing.assert_allclose(bandit.posterior(1).mean(), mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(bandit.posterior(1).covariance(), covariance, rtol=0, atol=1e-9)
    for batch in (bandit.select(points), bandit.select(np.repeat(points, 20, axis=0))):
        rows = len(batch.arm) // 3
        np.testing.assert_allclose(batch.sd[::rows, 1], sds, rtol=1e-9)
    for point, sd in zip(points, sds, strict=True):
        assert bandit.select(point).sd[1] == pytest.approx(sd, rel=1e-9)


def test_badly_scaled_features_are_solved_to_1e_9():
    # a constant, an income and a year: the precision has a condition number of 10^15
    rng = np.random.default_rng(9)
    contexts = np.column_stack([np.ones(500), rng.integers(20_000, 90_000, 500), rng.integers(1960, 2020, 500)])
    rewards = rng.integers(-5, 5, 500)
    with mpmath.workdps(60):
        rows = mpmath.matrix(contexts.astype(int).tolist())
        inverse = (rows.T * rows + mpmath.eye(3)) ** -1
        mean = np.array((inverse * (rows.T * mpmath.matrix(rewards.tolist()))).T.tolist(), dtype=float)[0]
        points = contexts[:50]
        sds = [float(mpmath.sqrt((rows[t, :] * inverse * rows[t, :].T)[0])) for t in range(50)]
    bandit = plain(1, 3).update(contexts, np.zeros(500, int), rewards)
    np.testing.assert_allclose(bandit.posterior(0).mean(), mean, rtol=1e-9)
    np.testing.assert_allclose(bandit.select(points).sd[:, 0], sds, rtol=1e-9)
    np.testing.assert_allclose([bandit.select(point).sd[0] for point in points], sds, rtol=1e-9)


def test_scores_have_the_variance_of_the_inverse_precision():
    # 1000 pulls: precision and covariance along the context differ by a factor of 10^6.
    context = np.array([0.6, 0.8])
    bandit = plain(1, 2, noise_sd=2.0).update(np.tile(context, (1000, 1)), np.zeros(1000, int), np.ones(1000))
    size = 100_000
    decision = bandit.select(np.tile(context, (size, 1)))
    sd = 2 / math.sqrt(1001)
    assert decision.sd[0, 0] == pytest.approx(sd, rel=1e-12)
    ratio = ((decision.score - 1000 / 1001) ** 2).sum() / sd**2
    assert stats.chi2.ppf(FALSE_ALARM / 2, size) < ratio < stats.chi2.isf(FALSE_ALARM / 2, size)


def test_batch_and_single_predictions_agree():
    rng = np.random.default_rng(4)
    for dim, rows in ((1, 50), (3, 300), (7, 40), (12, 200)):  # through both ways to compute sds
        bandit = plain(5, dim, noise_sd=0.7)
        bandit.update(rng.normal(size=(80, dim)), rng.integers(0, 5, 80), rng.normal(size=80))
        contexts = rng.normal(size=(rows, dim))
        batch = bandit.select(contexts, arms=[3, 0, 4])
        for t, context in enumerate(contexts):
            single = bandit.select(context, arms=[3, 0, 4])
            np.testing.assert_allclose(batch.mean[t], single.mean, rtol=0, atol=1e-13)
            np.testing.assert_allclose(batch.sd[t], single.sd, rtol=1e-12)


def test_rewards_may_come_late_in_any_order_or_never():
    rng = np.random.default_rng(5)
    contexts, arms, rewards = rng.random((50, 3)), rng.integers(0, 4, 50), rng.random(50)
    told = rng.permutation(50)[:30]
    one, two = plain(4, 3, rng=1), plain(4, 3, rng=2)
    for t in told:
        one.select(rng.random(3))  # decisions in between change nothing that is learned
        one.update(contexts[t], arms[t], rewards[t])
    for t in sorted(told):
        two.update(contexts[t], arms[t], rewards[t])
    for arm in range(4):
        np.testing.assert_allclose(one.posterior(arm).mean(), two.posterior(arm).mean(), atol=1e-13)


# -- the law of a decision ---------------------------------------------------------------------------------

POINT = np.array([0.8, 0.6])


def uneven_bandit(**options):
    """Three arms whose scores at POINT have different means and sds."""
    arms = np.array([0] * 3 + [1] * 6 + [2] * 4)
    return plain(3, 2, **options).update(np.tile(POINT, (13, 1)), arms, np.array([0.6, 0.2, 0.45])[arms])


def brute_force(settings, means, sds, size, rng):
    """Arms chosen by drawing n normals per arm: Algorithm 2 as printed."""
    counts = np.zeros(len(means))
    estimate = {"cvar": cvar, "modified": modified_cvar}[settings.estimator]
    chunk = max(1, 3_000_000 // settings.n // len(means))
    for start in range(0, size, chunk):
        rows = min(chunk, size - start)
        draws = means + sds * rng.standard_normal((settings.n, rows, len(means)))
        if settings.clip:
            draws = np.clip(draws, 0.0, 1.0)
        scores = estimate(draws, settings.alpha)
        # ties at random: rounding must not decide between sums of the same atoms
        tied = scores >= scores.max(axis=1, keepdims=True) - 1e-12
        counts += np.bincount(np.argmax(tied * rng.random(tied.shape), axis=1), minlength=len(means))
    return counts


def check_law(rng, settings, size, brute_size, noise_sd=1.0):
    bandit = uneven_bandit(settings=settings, noise_sd=noise_sd)
    batch = bandit.select(np.broadcast_to(POINT, (size, 2)))
    single = bandit.select(POINT)
    chances = single.propensities
    assert chances.sum() == pytest.approx(1.0, abs=1e-12)
    assert single.propensity == pytest.approx(chances[single.arm], abs=1e-12)
    few = bandit.select(np.tile(POINT, (20, 1)))
    np.testing.assert_allclose(few.propensity, chances[few.arm], rtol=0, atol=1e-12)
    counts = np.bincount(batch.arm, minlength=3)
    assert stats.chisquare(counts, size * chances).pvalue > FALSE_ALARM
    brute = brute_force(settings, single.mean, single.sd, brute_size, rng)
    assert stats.chisquare(brute, brute_size * chances / chances.sum()).pvalue > FALSE_ALARM
    assert stats.chi2_contingency([counts, brute]).pvalue > FALSE_ALARM


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.7, 0.8, 0.9])
def test_law_of_the_choice_is_that_of_n_draws_per_arm(alpha, rng):
    check_law(rng, brps_cmab(alpha), 10**6, 10**6)


def test_law_of_the_choice_at_high_risk_levels(rng):
    check_law(rng, brps_cmab(0.99), 10**6, 20_000)


@pytest.mark.slow
def test_law_of_the_choice_at_high_risk_levels_with_a_million_brute_force_decisions(rng):
    check_law(rng, brps_cmab(0.99), 10**6, 10**6)


@pytest.mark.parametrize(
    "settings",
    [
        brps_cmab(0.7, estimator="modified"),
        brps_cmab(0.5, draws=7),  # three draws and a half
        brps_cmab(0.0, draws=4),  # the mean of four
        brps_cmab_clipped(0.5),
        brps_cmab_clipped(0.7),  # the second lowest
        brps_cmab_clipped(0.7, estimator="cvar"),  # two weighted draws: a third atom
        brps_cmab_clipped(0.3, estimator="cvar"),
        BanditSettings(clip=True),
    ],
    ids=lambda settings: f"{settings.label}-{settings.estimator}-{settings.draws}",
)
def test_law_of_the_choice_for_other_estimators_and_clipping(settings, rng):
    check_law(rng, settings, 300_000, 300_000)


def test_wide_clipped_scores_tie_often_and_ties_are_broken_uniformly(rng):
    # sd 40: nearly all scores are 0 or 1
    check_law(rng, brps_cmab_clipped(0.7, estimator="cvar"), 200_000, 200_000, noise_sd=40.0)
    bandit = plain(4, 1, noise_sd=100.0, settings=brps_cmab_clipped(0.5))
    decision = bandit.select(np.ones((100_000, 1)))
    assert (decision.score == 0.0).mean() > 0.2
    assert stats.chisquare(np.bincount(decision.arm, minlength=4)).pvalue > FALSE_ALARM
    np.testing.assert_allclose(bandit.select([1.0]).propensities, np.full(4, 0.25), atol=1e-12)


def test_one_by_one_decisions_follow_the_propensities():
    bandit = uneven_bandit(alpha=0.8)
    chances = bandit.select(POINT).propensities
    counts = np.bincount([bandit.select(POINT).arm for _ in range(100_000)], minlength=3)
    assert stats.chisquare(counts, 100_000 * chances).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("alpha", "draws"), [(0.0, None), (0.9, None), (0.7, None), (0.75, 10)])
def test_scores_follow_their_law(alpha, draws):
    settings = brps_cmab(alpha, draws=draws)
    bandit = plain(1, 2, settings=settings).update(POINT, 0, 1.0)
    decision = bandit.select(np.tile(POINT, (50_000, 1)))
    standard = (decision.score - decision.mean[:, 0]) / decision.sd[:, 0]
    law = ScoreLaw(settings.n, settings.weights, clip=False)
    assert stats.kstest(standard, np.vectorize(law.cdf)).pvalue > FALSE_ALARM
    if alpha == 0.0:  # Thompson sampling: one draw from the posterior
        assert stats.kstest(standard, "norm").pvalue > FALSE_ALARM


def test_the_screen_changes_nothing():
    rng = np.random.default_rng(6)
    for alpha, clip in itertools.product((0.0, 0.8, 0.999), (False, True)):
        rule = BanditSettings(alpha, clip=clip).rule(1, 1.0)
        blind = rule._replace(screen=np.array([-np.inf, np.inf]))  # bounds nothing
        for _ in range(3000):
            moments = np.array([rng.normal(size=6), np.full(6, np.nan), rng.exponential(size=6), np.zeros(6)])
            uniforms = rng.random(12)
            found = [best_score(one, False, 0, 6, moments, uniforms.copy(), 0, 6, True) for one in (rule, blind)]
            assert found[0] == found[1]
            place, score, after = best_score(rule, False, 0, 6, moments, uniforms.copy(), 0, 6, False)
            assert (place, after) == found[0][::2]  # also where nobody asks for the score
            assert np.isnan(score) or score == found[0][1]


def cloud(kind, size, dim, rng):
    """Contexts that are easy or hard for single precision."""
    base = rng.normal(size=(size, dim))
    return {
        "round": base,
        "leaning": 1 + base / 4,
        "flat": 1 + base * 1e-4,  # only the prior knows of most directions
        "tiny and huge": base * 10.0 ** rng.uniform(-40, 40, (size, 1)),
        "uneven": base * 10.0 ** rng.uniform(-15, 15, (size, dim)),
        "zeros": base * rng.integers(0, 2, (size, 1)) * rng.integers(0, 2, (size, dim)),
    }[kind]


def learned(learning, arms, dim, source, **options):
    contexts = cloud(learning, 300, dim, source)
    rewards = contexts @ source.normal(size=dim) + 0.1 * source.normal(size=300)  # nearly equal arms
    return plain(arms, dim, **options).update(contexts, source.integers(0, arms, 300), rewards)


KINDS = ["round", "leaning", "flat", "tiny and huge", "uneven", "zeros"]


def learned_arms(learning, size, dim, rng):
    """What the kernels know of arms after 300 rewards, and their posteriors."""
    arms = arms_of(np.eye(dim), 1.0, size)
    contexts = cloud(learning, 300, dim, rng)
    rewards = contexts @ rng.normal(size=dim) + 0.1 * rng.normal(size=300)  # nearly equal arms
    learn_rows(arms, contexts, rng.integers(0, size, 300), rewards, np.ones(300))
    return arms


@pytest.mark.parametrize("deciding", KINDS)
@pytest.mark.parametrize("learning", ["round", "leaning", "flat"])
@pytest.mark.parametrize("exploration", [1.0, "auto"])
def test_scores_next_to_each_other_are_told_apart_as_in_single_decisions(learning, deciding, exploration, rng):
    # Uniforms at the edges of bins, where the bounds of the screen are reached, such that the lower bound of one arm
    # and the upper bound of the other are as near to each other as any: single precision alone would confuse them.
    dim, swap, both = 5, rng.integers(0, 2), np.arange(2)
    rule = BanditSettings(0.8, exploration=exploration).rule(dim, 1.0)
    arms, contexts = learned_arms(learning, 2, dim, rng), cloud(deciding, ROWS, dim, rng)
    decide_rows(arms, rule, 1, contexts[:0], both, Uniforms(rng, np.empty(0)))  # solves the posterior
    assert single_screen(arms, rule, contexts, both, np.ones(ROWS)) is not None
    handle = handle_of(arms, rule, intercept=False)
    bins = rule.screen.size - 1
    edges = np.arange(bins + 1) / bins
    uniforms = np.empty((2, ROWS))
    expected, scores = np.empty(ROWS, dtype=int), np.empty(ROWS)
    ties = rng.random(2)
    for t, context in enumerate(contexts):
        means = (arms.mean * context).sum(axis=1)
        sds = np.sqrt(((roots_of(arms) @ context) ** 2).sum(axis=1))
        if exploration == "auto" and sds.all():
            sds = sds * [width_of(sd, typical_variance(sds), rule.share) for sd in sds]
        low = means[swap] + sds[swap] * rule.screen[1:-1]
        top = means[1 - swap] + sds[1 - swap] * rule.screen[1:-1]
        nearest = np.clip(np.searchsorted(top, low), 0, bins - 2)
        one = np.argmin(np.abs(low - top[nearest]))
        uniforms[swap, t] = edges[1 + one]
        uniforms[1 - swap, t] = np.nextafter(edges[1 + nearest[one]], 0)
        single = Uniforms(rng, np.concatenate([uniforms[:, t], ties]))
        moments = np.empty((4, 2))
        expected[t], scores[t], _ = decide_one(handle, 1, context, both, single.block, 0, moments)
    stream = Uniforms(rng, np.concatenate([uniforms.ravel(), np.tile(ties, ROWS)]))
    choices, moments, scale, _ = decide_rows(arms, rule, 1, contexts, both, stream)
    fill_scores(rule, moments.values, moments.freedom, scale, choices)
    untied = contexts.any(axis=1)
    np.testing.assert_array_equal(choices.places[untied], expected[untied])
    size = (np.abs(moments.values[0]) + moments.values[1]).max(axis=0)
    assert (np.abs(choices.scores - scores) <= 1e-12 * size).all()


@pytest.mark.parametrize("deciding", KINDS)
@pytest.mark.parametrize("learning", ["round", "leaning", "flat", "tiny and huge", "uneven"])
@pytest.mark.parametrize(
    "settings",
    [
        thompson_sampling(),
        brps_cmab(0.9),
        thompson_sampling_inflated(delta=0.1),
        BanditSettings(exploration="auto"),
        BanditSettings(0.9, exploration="auto", horizon=3000),
    ],
)
def test_screening_batches_in_single_precision_changes_nothing(learning, deciding, settings, rng):
    contexts, rule = cloud(deciding, 2500, 6, rng), settings.rule(6, 1.0)
    arms = learned_arms(learning, 7, 6, rng)
    streams = [Uniforms(np.random.default_rng(seed), np.empty(0)) for seed in [rng.integers(2**32)] * 2]
    for eligible in (np.arange(7), np.array([5, 0, 3])):
        one, two = (
            decide_rows(arms, rule, 9, contexts, eligible, stream, screened=screened)
            for stream, screened in zip(streams, (True, False), strict=True)
        )
        used = single_screen(arms, rule, contexts, eligible, np.ones(2500)) is not None
        assert used == (learning not in ("tiny and huge", "uneven"))  # which are beyond single precision
        np.testing.assert_array_equal(one[0].places, two[0].places)
        np.testing.assert_array_equal(one[1].values, two[1].values)
        for choices, moments, scale, _ in (one, two):
            fill_scores(rule, moments.values, moments.freedom, scale, choices)
        mean, sd = np.take_along_axis(one[1].values, one[0].places[np.newaxis, np.newaxis], axis=1)[:, 0]
        size = np.abs(mean) + one[2] * sd  # a score may be near zero
        np.testing.assert_array_equal(np.isnan(one[0].scores), np.isnan(two[0].scores))
        assert not (np.abs(one[0].scores - two[0].scores) > 1e-12 * size).any()
    np.testing.assert_array_equal(streams[0].unused, streams[1].unused)  # as many uniforms used


@pytest.mark.parametrize("size", [1, 2])
def test_screens_of_many_features_change_nothing(size, rng):
    """40 features have 820 products, which go through matrix products in two parts."""
    contexts, rule = cloud("round", 1500, 40, rng), brps_cmab(0.9).rule(40, 1.0)
    arms, eligible = learned_arms("round", size, 40, rng), np.arange(size)
    seed = int(rng.integers(2**32))
    one, two = (
        decide_rows(
            arms, rule, 9, contexts, eligible, Uniforms(np.random.default_rng(seed), np.empty(0)), screened=each
        )
        for each in (True, False)
    )
    assert single_screen(arms, rule, contexts, eligible, np.ones(1500)) is not None
    np.testing.assert_array_equal(one[0].places, two[0].places)
    tries = arms.marks[:, TRIES] - arms.marks[:, PULLS]
    assert tries.sum() == 3000
    np.testing.assert_array_equal(tries, 2 * np.bincount(one[0].places, minlength=size))


@pytest.mark.parametrize("rows", [3, 500])  # worked out at once, and when read
def test_a_batch_is_read_as_it_was_decided(rows):
    rng = np.random.default_rng(12)
    contexts = rng.normal(size=(rows, 3))
    now, later = (learned("round", 4, 3, np.random.default_rng(1), alpha=0.9, rng=5) for _ in range(2))
    first = now.select(contexts, arms=[2, 0, 3])
    expected = [first.mean, first.sd, first.score, first.propensity]
    second = later.select(contexts, arms=[2, 0, 3])
    assert repr(second) == f"Decision({rows} contexts, arms=(2, 0, 3))"
    later.update(contexts, rng.integers(0, 4, rows), rng.normal(size=rows))
    later.select(contexts)
    later.remove_arm(0)
    contexts[:] = 7.0  # the caller's to use again
    for value, found in zip(expected, [second.mean, second.sd, second.score, second.propensity], strict=True):
        np.testing.assert_array_equal(found, value)


def test_a_fault_late_in_a_batch_leaves_the_state_alone(tmp_path):
    bandit = plain(3, 2, alpha=0.9, rng=1)
    before = contents(bandit, tmp_path)
    contexts = np.ones((5000, 2))
    contexts[4321, 1] = math.nan
    with refused(DataError, "not-finite", argument="context"):
        bandit.select(contexts)
    assert contents(bandit, tmp_path) == before


def test_restricted_arms_share_the_whole_chance():
    bandit = plain(["a", "b", "c", "d"], 2, alpha=0.8, rng=3).update(POINT, "c", 1.0)
    for eligible in (["c", "a"], ["d"], ("b", "c", "d")):
        decision = bandit.select(POINT, arms=eligible)
        assert decision.arm in eligible
        assert decision.arms == tuple(eligible)
        assert decision.propensities.sum() == pytest.approx(1.0, abs=1e-12)
    assert decision.sd.shape == (3,)
    assert bandit.select(POINT, arms=["d"]).propensity == pytest.approx(1.0, abs=1e-12)


# -- propensities against closed forms ---------------------------------------------------------------------


@effort(max_examples=60, deadline=None)
@given(st.floats(-3, 3), st.floats(-5, 5), st.sampled_from([1, 3, 30]))
def test_two_normal_scores_have_a_closed_form(gap, log_ratio, draws):
    law = score_law(draws, (1 / draws,) * draws, False)
    sds = np.array([1.0, 10.0**log_ratio])
    means = np.array([0.0, gap * math.hypot(*sds) / math.sqrt(draws)])
    for place, sign in ((0, -1.0), (1, 1.0)):
        assert law.chance(means, sds, place) == pytest.approx(stats.norm.cdf(sign * gap), abs=1e-9)


@effort(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 12), st.sampled_from([0.0, 0.5, 0.7, 0.9, 0.999]), st.booleans())
def test_propensities_sum_to_one(seed, k, alpha, clip):
    rng = np.random.default_rng(seed)
    settings = brps_cmab_clipped(alpha) if clip else brps_cmab(alpha)
    law = score_law(settings.n, tuple(settings.weights), clip)
    means = rng.normal(0.5, 1.0, k)
    sds = 10.0 ** rng.uniform(-4, 1, k)
    chances = [law.chance(means, sds, place) for place in range(k)]
    assert sum(chances) == pytest.approx(1.0, abs=3e-12)
    every = law.every_chance(means[np.newaxis], sds[np.newaxis])[0]
    assert every.sum() == pytest.approx(1.0, abs=1e-14 * k)
    np.testing.assert_allclose(every, chances, rtol=0, atol=3e-12)


GAUSS = np.polynomial.legendre.leggauss(24)


def panels(edges):
    """Nodes and weights of Gauss's rule between rising edges."""
    edges = np.unique(edges)
    half = 0.5 * np.diff(edges)[:, np.newaxis]
    nodes = edges[:-1, np.newaxis] + half * (1.0 + GAUSS[0])
    return nodes.ravel(), (half * GAUSS[1]).ravel()


def order_statistic(x, n, k):
    """Cdf and density of the k-th lowest of n normals."""
    log_density = stats.norm.logpdf(x) + (k - 1) * special.log_ndtr(x) + (n - k) * special.log_ndtr(-x)
    return special.betainc(k, n - k + 1, special.ndtr(x)), np.exp(log_density - special.betaln(k, n - k + 1))


def two_weighted(x, n, first):
    """Cdf and density of first Z1 + (1 - first) Z2, the lowest of n normals."""
    second = 1.0 - first
    # the second draw makes up for z only where (x - first z) / second is not far out
    z, weight = panels(np.linspace(-1.0, 0.0, 13))
    reach = np.minimum(x + 12.0, second / first * (12.0 + np.abs(x)))[..., np.newaxis]
    gap = (x[..., np.newaxis] - first * (x[..., np.newaxis] + reach * z)) / second
    mass = reach * weight * n * stats.norm.pdf(x[..., np.newaxis] + reach * z)
    cdf = 1.0 - special.ndtr(-x) ** n - (mass * special.ndtr(-gap) ** (n - 1)).sum(axis=-1)
    slope = (n - 1) * special.ndtr(-gap) ** (n - 2) * stats.norm.pdf(gap) / second
    return cdf, (mass * slope).sum(axis=-1)


def dense_chances(law, means, sds, clip):
    """The chances of all arms, by Gauss's rule on panels no wider than any sd."""
    chances = np.zeros(len(means))
    grid = np.arange(-11.0, 11.01)
    for place in range(len(means)):
        centre = means - means[place]  # seen from its mean, an arm is as sharp as its sd
        low, high = (-means[place], 1.0 - means[place]) if clip else (-np.inf, np.inf)
        ends = np.clip([-11.0 * sds[place], 11.0 * sds[place]], low, high)
        x, weight = panels(np.clip(centre[:, np.newaxis] + sds[:, np.newaxis] * grid, *ends).ravel())
        if x.size:
            cdfs, densities = law((x - centre[:, np.newaxis]) / sds[:, np.newaxis])
            densities /= sds[:, np.newaxis]
            cdfs[place] = 1.0
            chances[place] = weight @ (densities[place] * cdfs.prod(axis=0))
        if clip:
            u, weight = panels(np.linspace(0.0, 1.0, 9))
            for atom, bottom in ((low, True), (high, False)):
                upto = law((atom - centre) / sds)[0][:, np.newaxis]
                below, at = (0.0 * upto, upto) if bottom else (upto, 1.0 - upto)
                others = below + u * at
                others[place] = at[place]
                chances[place] += weight @ others.prod(axis=0)
    return chances


def random_arms(rng, most):
    size = int(rng.integers(2, most + 1))
    return rng.normal(0.4, 0.5, size), 10.0 ** rng.uniform(rng.uniform(-6, 0), 1.0, size)


def check_chances(settings, reference, means, sds):
    law = score_law(settings.n, tuple(settings.weights), settings.clip)
    found = law.every_chance(means[np.newaxis], sds[np.newaxis])[0]
    np.testing.assert_allclose(found, dense_chances(reference, means, sds, settings.clip), rtol=0, atol=1e-10)


def check_order_statistic(rng, alpha, draws, clip, most):
    settings = BanditSettings(alpha, draws, "modified", clip=clip)
    arms = random_arms(rng, most)
    check_chances(settings, lambda x: order_statistic(x, draws, settings.weights.size), *arms)


ORDER_STATISTICS = [(0.0, 1), (0.5, 2), (0.7, 4), (0.9, 10), (0.99, 100), (0.999, 1000)]


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize(("alpha", "draws"), ORDER_STATISTICS)
def test_propensities_are_those_of_a_dense_quadrature(alpha, draws, clip, rng):
    check_order_statistic(rng, alpha, draws, clip, most=8)


@pytest.mark.slow
@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize(("alpha", "draws"), ORDER_STATISTICS)
def test_propensities_of_many_arms_are_those_of_a_dense_quadrature(alpha, draws, clip, rng):
    for _ in range(5):
        check_order_statistic(rng, alpha, draws, clip, most=40)


@pytest.mark.parametrize(("alpha", "draws"), [(0.7, 4), (0.3, 2), (0.9985, 1000)])
def test_propensities_of_two_weighted_draws_are_those_of_a_dense_quadrature(alpha, draws, rng):
    settings = brps_cmab(alpha, draws=draws)
    means, sds = rng.normal(0.4, 0.5, 3), 10.0 ** rng.uniform(-4, 1, 3)
    check_chances(settings, lambda x: two_weighted(x, draws, settings.weights[0]), means, sds)


@pytest.mark.parametrize(("n", "alpha"), [(7, 0.7), (3, 0.2), (1000, 0.9975), (5, 0.5)])
def test_law_of_three_weighted_draws(n, alpha):
    # Given the third lowest z, which is above x, the two below it are normals truncated at z: two nested integrals
    first, last = brps_cmab(alpha, draws=n).weights[[0, -1]]
    law = ScoreLaw(n, brps_cmab(alpha, draws=n).weights, clip=False)
    inner, inner_weight = panels(np.linspace(0.0, 1.0, 9))
    for x in np.linspace(law._law.low + 0.1, 1.5, 11):
        z, weight = panels(np.linspace(x, max(x, 0.0) + 10.0, 81))
        _, density = order_statistic(z, n, 3)
        y = (x - last * z) / first  # what the two may sum to
        start = np.maximum(y - z, -12.0)
        u = start[:, np.newaxis] + (z - start)[:, np.newaxis] * inner
        pair = special.ndtr(start) * special.ndtr(z) + (z - start) * (
            (stats.norm.pdf(u) * special.ndtr(y[:, np.newaxis] - u)) @ inner_weight
        )
        expected = order_statistic(x, n, 3)[0] + weight @ (density * pair / special.ndtr(z) ** 2)
        assert law.cdf(x) == pytest.approx(expected, abs=1e-11)


def test_thirty_arms_that_were_off_by_seven_billionths(rng):
    settings = brps_cmab(0.7, draws=7)
    law = score_law(settings.n, tuple(settings.weights), False)
    for _ in range(20):
        means, sds = rng.normal(size=30), 10.0 ** rng.uniform(-4, 1, 30)
        assert sum(law.chance(means, sds, place) for place in range(30)) == pytest.approx(1.0, abs=3e-12)


@pytest.mark.parametrize(("n", "alpha"), [(2, 0.3), (4, 0.7), (200, 0.993), (3, 0.34)])
def test_law_of_two_weighted_draws(n, alpha):
    # P(w1 Z1 + w2 Z2 > x) = Q(x)^n + integral over z < x of n phi(z) Q((x - w1 z)/w2)^(n-1)
    first, second = brps_cmab(alpha, draws=n).weights
    law = ScoreLaw(n, np.array([first, second]), clip=False)
    for x in np.linspace(-4, 2, 13):
        rest, _ = integrate.quad(
            lambda z, x=x: n * stats.norm.pdf(z) * stats.norm.sf((x - first * z) / second) ** (n - 1),
            -12,
            x,
            epsabs=1e-13,
            limit=400,
        )
        assert law.cdf(x) == pytest.approx(1 - stats.norm.sf(x) ** n - rest, abs=1e-10)


def test_a_zero_context_makes_all_arms_equal():
    bandit = plain(4, 2, alpha=0.7).update([1.0, 1.0], 0, 100.0)
    assert bandit.select([0.0, 0.0]).propensity == 0.25
    counts = np.bincount(bandit.select(np.zeros((40_000, 2))).arm, minlength=4)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM
    singles = np.bincount([bandit.select([0.0, 0.0]).arm for _ in range(20_000)], minlength=4)
    assert stats.chisquare(singles).pvalue > FALSE_ALARM


def test_propensities_of_a_thousand_arms():
    bandit = plain(1000, 3, alpha=0.9, rng=1)
    decision = bandit.select([0.1, 0.2, 0.3])
    assert decision.propensity == pytest.approx(1e-3, abs=1e-12)


def test_a_decision_keeps_its_chances_whatever_happens_to_the_bandit(tmp_path):
    bandit = plain(3, 2, alpha=0.9, rng=1)
    decision, batch, twin = bandit.select(POINT), bandit.select([POINT] * 3), pickle.dumps(bandit.select(POINT))
    bandit.update([POINT] * 30, [0] * 30, np.ones(30))
    other = plain(2, 2, alpha=0.0)
    other.save(tmp_path / "other")
    bandit.load(tmp_path / "other")
    assert decision.propensity == pytest.approx(1 / 3, abs=1e-12)
    batch = pickle.loads(pickle.dumps(batch))  # a queue may carry it elsewhere
    np.testing.assert_allclose(batch.propensity, np.full(3, 1 / 3), atol=1e-12)
    assert np.isfinite(batch.score).all()
    assert len(twin) < 2000  # and carries no bandit


def test_one_context_and_a_batch_give_arrays_of_their_own_shape():
    bandit = plain(["a", "b"], 1, rng=1)
    one, batch = bandit.select([1.0]), bandit.select([[1.0]])
    assert isinstance(one, Decision)
    assert isinstance(batch, Decision)
    assert (one.mean.shape, one.propensities.shape) == ((2,), (2,))
    assert (batch.mean.shape, batch.propensities.shape, batch.score.shape) == ((1, 2), (1, 2), (1,))


def test_propensity_can_be_left_out():
    bandit = plain(2, 1)
    assert bandit.select([1.0], propensity=False).propensity is None
    assert bandit.select([[1.0]], propensity=False).propensities is None


def test_propensities_that_are_not_known_say_so():
    bandit = plain(2, 1, settings=brps_cmab_clipped(0.5, draws=8, estimator="cvar"))
    decision = bandit.select([1.0])  # deciding works
    with refused(ParameterError, "no-propensity", argument="settings"):
        _ = decision.propensity


# -- settings ----------------------------------------------------------------------------------------------


def test_algorithms_are_settings_of_one_engine():
    assert thompson_sampling() == BanditSettings(alpha=0.0)
    assert brps_cmab(0.9).n == 10
    assert brps_cmab(0.9, draws=500).n == 500
    assert brps_cmab(0.9, draws=500).weights.size == 50
    assert brps_cmab(0.7, estimator="modified").weights.tolist() == [0.0, 1.0]
    assert brps_cmab_clipped(0.6).clip
    assert brps_cmab_clipped(0.6).estimator == "modified"
    horizon = 200_000
    study = (3 / 4) * math.sqrt(6 * math.log(2 * horizon))  # d = 3, delta = 1/T, t = T
    assert brps_cmab_inflated(0.8, delta=1 / horizon).nu(horizon, 3, 1.0) == pytest.approx(study)
    assert brps_cmab_inflated(0.8, sampling_sd=study).nu(1, 3, 1.0) == study
    assert thompson_sampling_inflated(sampling_sd=2.0).n == 1
    assert brps_cmab(0.8).nu(5, 3, noise_sd=0.25) == 0.25


def test_cost_does_not_grow_with_alpha():
    for alpha in (0.0, 0.5, 0.7, 0.9, 0.99, 0.999, 0.9999):
        assert brps_cmab(alpha).weights.size <= 2
        assert brps_cmab(alpha).n == sample_size(alpha)


@pytest.mark.parametrize("delta", [None, 0.1])
def test_inflated_scores_have_the_inflated_sd(delta, tmp_path):
    settings = thompson_sampling_inflated(delta=delta, sampling_sd=None if delta else 3.0)
    bandit = plain(1, 3, noise_sd=0.5, settings=settings)
    size = 50_000
    context = np.array([0.0, 1.0, 0.0])
    decision = bandit.select(np.tile(context, (size, 1)))
    t = np.arange(1, size + 1)
    sd = 0.75 * np.sqrt(3 * np.log(4 * t / delta)) if delta else np.full(size, 3.0)
    total = ((decision.score / sd) ** 2).sum()
    assert stats.chi2.ppf(FALSE_ALARM / 2, size) < total < stats.chi2.isf(FALSE_ALARM / 2, size)
    assert decision.sd[0, 0] == 0.5  # the posterior's, whatever it is sampled with
    bandit.save(tmp_path / "twin")  # a single decision has the same schedule as a batch
    score = LinearBandit.load(tmp_path / "twin").select([context]).score
    assert bandit.select(context).score == pytest.approx(score[0], rel=1e-12)


# -- arms and logs -----------------------------------------------------------------------------------------


def test_arms_come_and_go():
    bandit = plain(["a", 7], 1, rng=1).update([1.0], 7, 3.0)
    bandit.add_arm("b")
    assert bandit.arms == ("a", 7, "b")
    assert bandit.posterior("b").mean() == [0.0]
    assert bandit.posterior(7).mean() == pytest.approx([1.5])
    bandit.remove_arm("a")
    assert bandit.arms == (7, "b")
    assert bandit.pulls == {7: 1, "b": 0}
    assert bandit.posterior(7).mean() == pytest.approx([1.5])
    mixed = bandit.select([[1.0]] * 5)
    assert mixed.arm.dtype == object
    assert set(mixed.arm) <= {7, "b"}
    bandit.update([[1.0]] * 5, mixed.arm, np.ones(5))
    assert sum(bandit.pulls.values()) == 6


def test_names_from_arrays_are_names():
    bandit = plain(np.array(["x", "y"]), 1)
    assert bandit.arms == ("x", "y")
    decision = bandit.select([[1.0], [2.0]])
    bandit.update([[1.0], [2.0]], decision.arm, [0.0, 1.0])
    numbers = plain(np.array([10, 20]), 1)
    assert numbers.select([1.0]).arm in (10, 20)
    numbers.update([1.0], np.int64(20), np.float64(1.0))


def test_bandit_from_a_log():
    rng = np.random.default_rng(7)
    contexts, arms, rewards = rng.random((20, 3)), rng.choice(["u", "v"], 20), rng.random(20)
    expected = plain(["u", "v"], 3, alpha=0.5).update(contexts, arms, rewards)
    rows = list(zip(contexts, arms, rewards, strict=True))
    table = pd.DataFrame({"context": list(contexts), "arm": arms, "reward": rewards})
    for log in (rows, table, {"context": contexts, "arm": arms, "reward": rewards}):
        bandit = LinearBandit.from_log(log, ["u", "v"], alpha=0.5, noise_sd=1.0, intercept=False)
        for arm in ("u", "v"):
            assert bandit.posterior(arm) == expected.posterior(arm)
    assert set(LinearBandit.from_log(rows).arms) == {"u", "v"}
    assert LinearBandit.from_log(rows, arms=["w", "v", "u"]).pulls["w"] == 0


def test_contexts_of_any_kind():
    bandit = plain(2, 2, rng=1)
    fixed = np.array([1.0, 2.0])
    fixed.flags.writeable = False
    for context in ([1, 2], (1.0, 2.0), fixed, np.array([1, 2], dtype=np.float32), pd.Series([1.0, 2.0])):
        assert bandit.select(context).sd[0] == pytest.approx(math.sqrt(5))
    wide = np.arange(12.0).reshape(3, 4)
    for contexts in (wide[:, 1:3], np.asfortranarray(wide[:, :2]), pd.DataFrame(wide[:, :2]), wide[:, :2].tolist()):
        assert bandit.select(contexts).arm.shape == (3,)
    assert bandit.select(np.empty((0, 2))).arm.shape == (0,)


def test_same_seed_same_decisions():
    one, two = (plain(5, 3, alpha=0.8, rng=11) for _ in range(2))
    for context in np.random.default_rng(1).random((300, 3)):
        first, second = one.select(context), two.select(context)
        assert (first.arm, first.score) == (second.arm, second.score)
        one.update(context, first.arm, 1.0)
        two.update(context, second.arm, 1.0)


# -- bad input ---------------------------------------------------------------------------------------------

NAN = math.nan


@pytest.mark.parametrize(
    ("call", "error", "code"),
    [
        (lambda b: b.select([1.0, NAN]), DataError, "not-finite"),
        (lambda b: b.select([1.0]), DataError, "wrong-shape"),
        (lambda b: b.select(1.0), DataError, "wrong-shape"),
        (lambda b: b.select([[1.0, 2.0, 3.0]]), DataError, "wrong-shape"),
        (lambda b: b.select([[1.0, 2.0], [math.inf, 0.0]]), DataError, "not-finite"),
        (lambda b: b.select([1e200, 0.0]), DataError, "too-large"),
        (lambda b: b.select(["x", "y"]), DataError, "not-numbers"),
        (
            lambda b: b.select([1.0, 2.0], arms=["red", "pink"]),
            ParameterError,
            "unknown-arm",
        ),
        (lambda b: b.select([1.0, 2.0], arms=[]), ParameterError, "empty"),
        (
            lambda b: b.select([1.0, 2.0], arms="red"),
            ParameterError,
            "wrong-type",
        ),
        (lambda b: b.select([1.0, 2.0], arms=3), ParameterError, "wrong-type"),
        (
            lambda b: b.select([1.0, 2.0], arms=["red", "red"]),
            ParameterError,
            "duplicate-name",
        ),
        (lambda b: b.update([NAN, 0.0], "red", 1.0), DataError, "not-finite"),
        (lambda b: b.update([1.0, 0.0, 2.0], "red", 1.0), DataError, "wrong-shape"),
        (lambda b: b.update([1.0, 0.0], "pink", 1.0), DataError, "unknown-arm"),
        (lambda b: b.update([1.0, 0.0], ["red"], 1.0), DataError, "unknown-arm"),
        (lambda b: b.update([1.0, 0.0], "red", NAN), DataError, "not-finite"),
        (lambda b: b.update([1.0, 0.0], "red", 1e200), DataError, "too-large"),
        (lambda b: b.update([1.0, 0.0], "red", "much"), DataError, "not-a-number"),
        (
            lambda b: b.update([[1.0, 0.0]] * 2, ["red", "pink"], [1.0, 1.0]),
            DataError,
            "unknown-arm",
        ),
        (lambda b: b.update([[1.0, 0.0]] * 2, ["red"] * 2, [1.0, NAN]), DataError, "not-finite"),
        (
            lambda b: b.update([[1.0, 0.0]] * 2, ["red"] * 2, [1.0]),
            DataError,
            "wrong-shape",
        ),
        (lambda b: b.update([[1.0, 0.0]] * 2, "red", [1.0, 1.0]), DataError, "wrong-shape"),
        (lambda b: b.update([[1.0, 0.0], [NAN, 1.0]], ["red"] * 2, [1, 1]), DataError, "not-finite"),
        (lambda b: b.update([[1.0, 0.0]], ["red"], [1e200]), DataError, "too-large"),
        (lambda b: b.add_arm("red"), ParameterError, "duplicate-name"),
        (lambda b: b.add_arm(1.5), ParameterError, "wrong-type"),
        (lambda b: b.remove_arm("pink"), ParameterError, "unknown-arm"),
        (lambda b: b.posterior("pink"), ParameterError, "unknown-arm"),
    ],
)
def test_bad_calls_name_the_fault_and_leave_the_state_alone(call, error, code, tmp_path):
    bandit = plain(["red", "green"], 2, alpha=0.5, rng=1).update([1.0, 2.0], "red", 1.0)
    bandit.select([1.0, 1.0])
    before = contents(bandit, tmp_path)
    with refused(error, code):
        call(bandit)
    assert contents(bandit, tmp_path) == before


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: plain(2, 2, alpha=1.0), "alpha-range"),
        (lambda: plain(2, 2, alpha=-1.0), "alpha-range"),
        (lambda: plain(2, 2, noise_sd=0.0), "not-positive"),
        (lambda: plain(2, 2, noise_sd=-1.0), "not-positive"),
        (lambda: plain(2, 2, prior_precision=0.0), "not-positive"),
        (lambda: plain(0, 2), "integer-range"),
        (lambda: plain([], 2), "empty"),
        (lambda: plain("red", 2), "wrong-type"),
        (lambda: plain(["a", "b", "a"], 2), "duplicate-name"),
        (lambda: plain(["a", True], 2), "wrong-type"),
        (lambda: plain(2, 0), "integer-range"),
        (lambda: plain(2, 2, rng="x"), "not-an-rng"),
        (lambda: plain(2, 2, alpha=0.5, settings=brps_cmab(0.5)), "conflicting-arguments"),
        (lambda: plain(2, 2, settings="ts"), "wrong-type"),
        (lambda: plain(["a"], 2).remove_arm("a"), "last-arm"),
        (lambda: brps_cmab(0.5, draws=0), "integer-range"),
        (lambda: brps_cmab(0.5, estimator="median"), "unknown-option"),
        (lambda: brps_cmab(0.7, estimator="modified", draws=1), "integer-range"),
        (lambda: brps_cmab_inflated(0.5), "missing-argument"),
        (lambda: thompson_sampling_inflated(), "missing-argument"),
        (lambda: BanditSettings(delta=1.5), "probability-range"),
        (lambda: BanditSettings(delta=1e-320), "probability-range"),
        (lambda: BanditSettings(delta=0.1, sampling_sd=1.0), "conflicting-arguments"),
        (lambda: BanditSettings(sampling_sd=0), "not-positive"),
        (lambda: BanditSettings(draws=2**25), "integer-range"),
    ],
)
def test_bad_settings_are_refused(make, code):
    with refused(ParameterError, code):
        make()


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: LinearBandit.from_log([]), "no-rows"),
        (
            lambda: LinearBandit.from_log([([1.0], "a")]),
            "row-width",
        ),
        (lambda: LinearBandit.from_log(pd.DataFrame({"context": [], "arm": []})), "missing-column"),
        (lambda: LinearBandit.from_log([([1.0], 1.5, 1.0)]), "wrong-type"),
        (lambda: LinearBandit.from_log([([1.0], "a", 1.0)], arms=["b"]), "unknown-arm"),
    ],
)
def test_bad_logs_are_data_errors(make, code):
    with refused(DataError, code):
        make()


def test_messages_of_a_log_name_its_own_arguments():
    with refused(ParameterError, "duplicate-name", argument="arms"):
        LinearBandit.from_log([([1.0], "a", 1.0)], arms=["a", "a"])
    with refused(ParameterError, "not-an-rng", argument="rng"):
        LinearBandit.from_log([([1.0], "a", 1.0)], rng="x")


@pytest.mark.parametrize("intercept", [True, False])
def test_contexts_of_a_batch_cannot_be_changed_before_propensities_are_read(intercept):
    contexts = np.array([[1.0, 2.0], [3.0, 4.0]])
    bandit = LinearBandit(2, dim=2, noise_sd=1.0, intercept=intercept, rng=1).update([1.0, 0.0], 0, 1.0)
    expected = bandit.propensities(contexts)
    decision = bandit.select(contexts)
    contexts[:] = 9.0  # what the caller gave is copied
    with pytest.raises(ValueError):
        decision.context[:] = 0.0
    np.testing.assert_allclose(decision.propensities, expected, rtol=0.0, atol=1e-12)
    bandit.update(decision.context, decision.arm, [1.0, 0.0])
