"""Draws that are wider or narrower than the posterior: their law, their propensities, files and bad values."""

import numpy as np
import pytest
from refusals import refused
from scipy import integrate, stats

from prudent.bandits import BanditSettings, Decay, LinearBandit, SharedLinearBandit, brps_cmab_inflated
from prudent.bandits.settings import SHARE
from prudent.envs import LinearBanditEnv
from prudent.errors import ParameterError
from prudent.simulation import simulate_bandit

ROWS = np.random.default_rng(0).normal(size=(40, 2))
ARMS, REWARDS = np.arange(40) % 3, ROWS[:, 0] + np.random.default_rng(1).normal(size=40)


def learned(seed=0, **options):
    plain = {"exploration": 1.0, "interactions": "none"} if "settings" not in options else {}
    return LinearBandit(3, 2, rng=seed, **(plain | options)).update(ROWS, ARMS, REWARDS)


@pytest.mark.parametrize("options", [{}, {"alpha": 0.7}, {"noise_sd": 0.8}, {"noise": "by arm", "alpha": 0.5}])
@pytest.mark.parametrize("exploration", [0.25, 3.0])
def test_decisions_follow_the_propensities(options, exploration):
    """Chi-square over 4,000 decisions of a batch and 2,000 single ones; each has a false alarm of 1e-8."""
    bandit = learned(exploration=exploration, **options)
    chances = bandit.propensities([0.3, 0.2])
    drawn = bandit.select(np.tile([0.3, 0.2], (4000, 1)))
    single = [bandit.select([0.3, 0.2]).arm for _ in range(2000)]
    np.testing.assert_allclose(drawn.propensities[0], chances, rtol=1e-9)
    for arms in (drawn.arm, single):
        seen = np.bincount(arms, minlength=3)
        kept = chances > 1e-3
        expected = np.append(chances[kept], chances[~kept].sum())[: kept.sum() + (~kept).any()]
        found = np.append(seen[kept], seen[~kept].sum())[: expected.size]
        assert ((found - len(arms) * expected) ** 2 / (len(arms) * expected)).sum() < stats.chi2.isf(
            1e-8, expected.size
        )


def test_narrower_draws_choose_the_best_arm_more_often():
    best = [learned(exploration=width).propensities([1.0, 0.0]).max() for width in (2.0, 1.0, 0.5, 0.1)]
    assert best == sorted(best)
    plain = learned()
    np.testing.assert_array_equal(learned(exploration=1.0).propensities(ROWS), plain.propensities(ROWS))
    for name in ("predict", "score"):  # what is known does not change
        np.testing.assert_array_equal(getattr(learned(exploration=0.5), name)(ROWS), getattr(plain, name)(ROWS))


def test_it_is_the_sampling_sd_in_units_of_the_noise():
    one = learned(noise_sd=0.5, exploration=3.0)
    two = learned(noise_sd=0.5, settings=BanditSettings(sampling_sd=1.5))
    assert [one.select(row).score for row in ROWS] == [two.select(row).score for row in ROWS]


def test_it_is_saved_and_named(tmp_path):
    bandit = learned(exploration=0.5)
    bandit.save(tmp_path / "state")
    again = LinearBandit.load(tmp_path / "state")
    assert again.settings.exploration == 0.5
    assert again.select([1.0, 2.0]).score == bandit.select([1.0, 2.0]).score
    assert BanditSettings(0.5, exploration=0.5).label == "BRPS(0.5) x 0.5"
    assert bandit.settings.label == "TS x 0.5"
    assert LinearBandit(2, 1, settings=BanditSettings(label="mine"), exploration=0.5).settings.label == "mine"


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), "wide", 1e200])
def test_bad_values(value):
    with pytest.raises(ParameterError, match="exploration"):
        LinearBandit(2, 1, exploration=value)


def test_what_it_does_not_go_with():
    with refused(ParameterError, "conflicting-arguments", argument="exploration"):
        LinearBandit(2, 1, settings=brps_cmab_inflated(0.5, delta=0.1), exploration=0.5)
    with refused(ParameterError, "conflicting-arguments", argument="exploration"):
        LinearBandit(2, 0, rewards="bernoulli", exploration=0.5)


def test_clicks_of_items_explore_narrowly_unless_something_is_given():
    assert SharedLinearBandit(2, rewards="bernoulli").settings.exploration == "auto"
    for given in ({"alpha": 0.5}, {"exploration": 1.0}, {"settings": BanditSettings(0.5)}):
        assert SharedLinearBandit(2, rewards="bernoulli", **given).settings.exploration == 1.0
    assert SharedLinearBandit(2).settings.exploration == 1.0


def test_what_explores_and_looks_for_interactions_by_default():
    """A bandit that learns the noise of normal rewards and is neutral; another one is the agent that was asked for."""
    for options in ({}, {"alpha": 0}, {"alpha": 0.0, "min_propensity": 0.1}, {"noise": "by arm"}, {"horizon": 900}):
        bandit = LinearBandit(3, 2, **options)
        assert (bandit.settings.exploration, bandit.interactions) == ("auto", "auto")
    given = [{"noise_sd": 1.0}, {"alpha": 0.5}, {"alpha": Decay(0.5, 100)}, {"settings": BanditSettings()}]
    for options in (*given, {"rewards": "bernoulli"}, {"rewards": "hurdle"}, {"rewards": "poisson"}):
        bandit = LinearBandit(3, 2, **options)
        assert (bandit.settings.exploration, bandit.interactions) == (1.0, "none")
    assert LinearBandit(3, 2, exploration=1.0, interactions="none").settings == BanditSettings()
    assert LinearBandit(3, 2, exploration=0.5).interactions == "auto"
    assert LinearBandit(3, 0).interactions == "none"  # of nothing
    assert LinearBandit(2, 101).interactions == "none"  # it would take long
    assert LinearBandit(3, 2, noise_sd=1.0, interactions="auto", exploration="auto").interactions == "auto"
    bandit = LinearBandit(3, 2)
    assert LinearBandit.from_bytes(bandit.to_bytes()).to_bytes() == bandit.to_bytes()


# -- by evidence -------------------------------------------------------------------------------------------


def uneven(**options):
    """Return a bandit that knows its arms from 60, 20, 6 and 2 rewards."""
    rng = np.random.default_rng(4)
    arms, x = np.repeat(range(4), [60, 20, 6, 2]), rng.normal(size=(88, 2))
    rewards = 0.1 * arms + rng.normal(size=88)
    if options.get("rewards") == "bernoulli":
        rewards = (rewards > 0.0).astype(float)
    if options.get("rewards") == "hurdle":
        rewards = np.maximum(rewards, 0.0)
    return LinearBandit(4, 2, rng=1, exploration="auto", **options).update(x, arms, rewards)


def widths_of(sds):
    """Return the widths of draws by posterior sds [k], as they are said to be."""
    evidence = sds**-2.0
    return np.clip(SHARE * sds**2 * (evidence**2).sum() / evidence.sum(), SHARE, 1.0)


def chances_of(means, sds):
    """Return the chances that independent normal scores are the highest, by quadrature."""
    found = []
    for i in range(len(means)):
        others = np.arange(len(means)) != i

        def density(z, i=i, others=others):
            return stats.norm.pdf(z) * stats.norm.cdf(means[i] + sds[i] * z, means[others], sds[others]).prod()

        found.append(integrate.quad(density, -9.0, 9.0, epsabs=1e-10, limit=200)[0])
    return found


KINDS = [
    {},
    {"noise_sd": 0.7},
    {"rewards": "bernoulli", "alpha": 0.0},
    {"rewards": "hurdle", "alpha": 0.0},
    {"intercept": False},
]


@pytest.mark.parametrize("options", KINDS)
def test_auto_narrows_what_is_known_as_well_as_others(options):
    """Beside integrals of products of normal laws, whose sds are worked out here."""
    bandit = uneven(**options)
    for x in ([0.3, 0.2], [-1.0, 2.0]):
        means, sds = bandit.predict(x)
        wide = widths_of(sds)
        assert wide.min() < 0.3
        assert wide.max() > 1.5 * wide.min()
        np.testing.assert_allclose(bandit.propensities(x), chances_of(means, wide * sds), atol=1e-7)


@pytest.mark.parametrize(
    "options", [*KINDS, {"noise": "by arm"}, {"alpha": 0.3, "min_propensity": 0.03}, {"first_pulls": 4}]
)
def test_auto_decides_by_the_propensities_that_it_tells(options):
    """Chi-square over 20,000 decisions of a batch and 1,500 single ones; each has a false alarm of 1e-8."""
    bandit = uneven(**options)
    chances = bandit.propensities([0.3, 0.2])
    single = [bandit.copy(stream=0).select([0.3, 0.2]) for _ in range(1500)]
    assert all(one.propensity == pytest.approx(chances[one.arm], rel=1e-9) for one in single)
    batch = bandit.select(np.tile([0.3, 0.2], (20_000, 1)))
    seen = {20_000: batch.arm[100:], 1500: [one.arm for one in single]}
    if "first_pulls" in options:
        chances, seen = bandit.propensities([0.3, 0.2]), {20_000: batch.arm[100:]}
    for arms in seen.values():
        counts, expected = np.bincount(arms, minlength=4), len(arms) * chances
        kept = expected > 5.0
        expected = np.append(expected[kept], max(expected[~kept].sum(), 1e-3))
        counts = np.append(counts[kept], counts[~kept].sum())
        assert ((counts - expected) ** 2 / np.maximum(expected, 5.0)).sum() < stats.chi2.isf(1e-8, expected.size)


def test_auto_does_not_depend_on_scale_order_or_number_of_decisions():
    one, two = uneven(), uneven()
    assert not one.counting
    two.set_clock(10_000, {})
    np.testing.assert_array_equal(one.propensities(ROWS), two.propensities(ROWS))
    x, rewards = np.random.default_rng(4).normal(size=(40, 2)), REWARDS
    arms = np.minimum(ARMS, 1)
    plain = LinearBandit(2, 2, exploration="auto").update(x, arms, rewards)
    other = LinearBandit(2, 2, exploration="auto").update(x, 1 - arms, 1000.0 * rewards - 3.0)
    np.testing.assert_allclose(other.propensities(ROWS), plain.propensities(ROWS)[:, ::-1], rtol=1e-6, atol=1e-12)


def test_arms_known_equally_well_are_drawn_narrowly_and_a_new_arm_with_full_width():
    x = np.random.default_rng(4).normal(size=(30, 2))
    arms, rewards = np.tile(np.arange(3), 30), np.random.default_rng(5).normal(size=90)
    every = np.repeat(x, 3, axis=0)
    auto, narrow = (LinearBandit(3, 2, exploration=e).update(every, arms, rewards) for e in ("auto", SHARE))
    np.testing.assert_allclose(auto.propensities(ROWS), narrow.propensities(ROWS), rtol=1e-9, atol=1e-15)
    auto.add_arm("new")
    assert widths_of(auto.predict([0.3, 0.2])[1])[-1] == 1.0
    assert auto.propensities([0.3, 0.2])[-1] > 0.2


def test_the_width_falls_towards_the_horizon():
    ends = uneven(horizon=8000)
    assert ends.counting
    np.testing.assert_array_equal(ends.propensities(ROWS), uneven().propensities(ROWS))
    before = ends.propensities([0.3, 0.2])[-1]
    ends.set_clock(7999, {})
    assert ends.propensities([0.3, 0.2])[-1] < 0.5 * before
    again = LinearBandit.from_bytes(ends.to_bytes())
    assert again.settings == ends.settings
    for _ in range(5):
        told = ends.propensities([0.3, 0.2])
        assert ends.select([0.3, 0.2]).propensity == pytest.approx(told[again.select([0.3, 0.2]).arm], rel=1e-9)


def test_horizon_is_for_auto():
    with refused(ParameterError, "conflicting-arguments", argument="horizon"):
        LinearBandit(2, 3, exploration=1.0, horizon=100)


def test_auto_does_not_lock_in():
    """Five arms with one feature, gaps of half the noise on average: as good as Thompson sampling, and as steady.

    200 runs of 2,000 decisions with the same noise. In 2,000 runs means differed by -2.1, with a standard error of 1.3
    for 200 runs, so that the bound is six of them away; sds were 18 and 18, and that of draws that are always narrow
    260.
    """
    env = LinearBanditEnv([[1.0], [0.0], [0.0], [0.0], [0.0]])
    agents = [BanditSettings(), BanditSettings(exploration="auto"), BanditSettings(exploration=0.2)]
    runs = simulate_bandit(env, agents, horizon=2000, replications=200, rng=3, times=[2000])
    regret = runs.regret.values[:, :, -1]
    assert regret[1].mean() < regret[0].mean() + 6.0
    assert regret[1].std() < 2.0 * regret[0].std()
    assert regret[2].std() > 2.0 * regret[0].std()
