"""Draws that are wider or narrower than the posterior: their law, their propensities, files and bad values."""

import numpy as np
import pytest
from refusals import refused
from scipy import stats

from prudent.bandits import BanditSettings, LinearBandit, SharedLinearBandit, brps_cmab_inflated
from prudent.errors import ParameterError

ROWS = np.random.default_rng(0).normal(size=(40, 2))
ARMS, REWARDS = np.arange(40) % 3, ROWS[:, 0] + np.random.default_rng(1).normal(size=40)


def learned(seed=0, **options):
    return LinearBandit(3, 2, rng=seed, **options).update(ROWS, ARMS, REWARDS)


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
    assert SharedLinearBandit(2).settings.exploration == LinearBandit(3, 2).settings.exploration == 1.0


def test_auto_is_narrow_between_the_first_decisions_and_the_long_run():
    bandit, sampling = learned(exploration="auto"), learned()
    narrow = learned(exploration=0.5)
    for decisions, other in ((0, sampling), (29, sampling), (30, narrow), (179, narrow), (2000, sampling)):
        for one in (bandit, other):
            one.set_clock(decisions, {})
        np.testing.assert_array_equal(bandit.propensities(ROWS), other.propensities(ROWS))


@pytest.mark.parametrize(("horizon", "arms"), [(None, 0), (None, 7), (None, 500), (1, 7), (900, 0), (10**4, 3)])
def test_the_next_width_is_named(horizon, arms):
    settings, t = BanditSettings(exploration="auto", horizon=horizon), 1
    widths = [settings.width(t, arms) for t in range(1, 12_000)]
    while t < 11_999:
        following = settings.changes_after(t, arms)
        assert len(set(widths[t - 1 : following - 1])) == 1
        assert following >= 12_000 or widths[following - 1] != widths[t - 1]
        t = following


def test_an_arm_that_comes_early_widens_the_draws_again():
    """As of a bandit that had all arms from the start, before and after the next decision, and after a load."""
    bandit, all_along = (LinearBandit(names, 1, exploration="auto") for names in (["a", "b"], ["a", "b", "c"]))
    for one in (bandit, all_along):
        one.update([[1.0]] * 4, ["a", "a", "b", "b"], [1.0, 2.0, 3.0, 5.0]).set_clock(25, {})
    assert bandit.propensities([1.0]).max() > 0.9  # narrow
    bandit.add_arm("c")
    np.testing.assert_allclose(bandit.propensities([1.0]), all_along.propensities([1.0]), rtol=1e-9)
    decision = bandit.select([1.0])
    np.testing.assert_allclose(decision.propensities, all_along.propensities([1.0]), rtol=1e-9)
    bandit.remove_arm("c")
    np.testing.assert_array_equal(
        bandit.select([1.0]).propensities, LinearBandit.from_bytes(bandit.to_bytes()).propensities([1.0])
    )
