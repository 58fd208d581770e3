"""Numbers from 1e-300 to 1e300: finite results or our errors, and every state loads."""

import warnings

import _extremes
import numpy as np
import pytest
from _learned import learned
from refusals import refused

from prudent.bandits import LinearBandit, SharedLinearBandit
from prudent.errors import DataError, PrudentWarning
from prudent.journal import Journal


def test_contexts_of_a_million_in_half_of_the_rows_leave_clicks_that_load():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        bandit = LinearBandit(3, 4, rewards="bernoulli", rng=1)
        for _ in range(40):
            point = rng.normal(size=4) * (1e6 if rng.random() < 0.5 else 1.0)
            bandit.update(point, int(rng.integers(3)), int(rng.integers(2)))
        assert LinearBandit.from_bytes(bandit.to_bytes()).to_bytes() == bandit.to_bytes()


def test_contexts_of_1e13_are_clicks_or_our_error():
    refusals = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        bandit = LinearBandit(3, 4, rewards="bernoulli", rng=1)
        for _ in range(40):
            point = rng.normal(size=4) * (1e13 if rng.random() < 0.5 else 1.0)
            try:
                bandit.update(point, int(rng.integers(3)), int(rng.integers(2)))
            except DataError as error:
                if error.code != "too-large":
                    raise
                refusals += 1
        assert np.isfinite(bandit.select(np.ones(4)).score)
        LinearBandit.from_bytes(bandit.to_bytes())
    assert refusals < 40 * 40


@pytest.mark.parametrize("size", [1e149, 9.9e149, 1e120, 1e59])
@pytest.mark.parametrize("made", [lambda: LinearBandit(2, 3, rng=1), lambda: SharedLinearBandit(3, rng=1)])
def test_large_contexts_are_finite_or_refused_and_change_nothing(tmp_path, made, size):
    rng = np.random.default_rng(4)
    with Journal(tmp_path / "j", made()) as live:
        items = isinstance(live.bandit, SharedLinearBandit)
        for _ in range(8):
            before, count = learned(live.bandit), len(list(live.rows()))
            try:
                decision = live.select(size * rng.normal(size=(2, 3)) if items else size * rng.normal(size=3))
                assert np.isfinite(decision.score)
                live.reward(decision.id, float(rng.normal()))
            except DataError as error:
                if error.code != "too-large":
                    raise
                if len(list(live.rows())) == count:
                    assert learned(live.bandit) == before
        live.verify()
    with Journal(tmp_path / "j") as live:
        assert all(np.isfinite(row["score"]) for row in live.rows())


def test_two_features_that_drown_the_prior_are_refused():
    """Their product is rounded by more than the prior precision, and the posterior would be noise."""
    bandit = LinearBandit(1, 2, noise_sd=1.0, rng=1)
    before = bandit.to_bytes()
    with refused(DataError, "too-large", argument="context"):
        bandit.update([1e11, 1.3e11], 0, 1.0)
    with refused(DataError, "too-large", argument="context"):
        bandit.update([[1.0, 2.0], [1e11, 1.3e11]], [0, 0], [1.0, 1.0])
    assert bandit.to_bytes() == before
    assert bandit.update([1e11, 0.0], 0, 1.0).n_rewards == 1  # one alone does no harm


def test_a_gain_that_has_faded_far_loads():
    bandit = LinearBandit(1, 1, noise_sd=1.0).update([1.0], 0, 1.0)
    for factor in (0.5**60 * 0.6, 0.9, 1e-20, 0.3):
        bandit.forget(factor)
        assert LinearBandit.from_bytes(bandit.to_bytes()).to_bytes() == bandit.to_bytes()


def test_fuzzed_lives(seed):
    assert _extremes.main(seed, 25) == 0


@pytest.mark.slow
def test_a_hundred_thousand_fuzzed_lives(seed):
    assert _extremes.main(seed, 100_000, workers=8) == 0


@pytest.mark.parametrize(
    "seed",
    [
        9910000013,  # arms that forget: less certain than before data when they are solved again
        9920000511,  # items whose evidence fades
        9920000567,  # means of 1e124 from two features that could not be told apart
        9920000709,  # a refused batch left the noise of other arms behind
        9920000973,  # counts that could not be faded had moved their clock
        9920001903,  # a prior like that of others which was not that of its own inverse
        9920002437,  # propensities that were not numbers
        9920002774,  # a prior that cannot be inverted
        9930000714,  # chances of arms that are 1e102 scales apart
        9930001908,  # first counts that were refused left roots of another prior behind
    ],
)
def test_lives_that_failed_once(seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrudentWarning)
        _extremes.life(seed)


@pytest.mark.parametrize("shared", [False, True])
def test_what_large_contexts_leave_open_is_right_or_refused(shared, rng):
    """After one reward the direction across the context is as uncertain as before it, whatever the scale."""
    kept = 0
    for power in range(4, 12):
        for _ in range(20):
            context = 10.0**power * rng.normal(size=2)
            options = {"noise_sd": 1.0, "intercept": False}
            bandit = SharedLinearBandit(2, **options) if shared else LinearBandit(1, 2, **options)
            try:
                bandit.update(context, 0, 1.0)
            except DataError as error:
                if error.code != "too-large":
                    raise
                continue
            across = np.array([-context[1], context[0]]) / np.hypot(*context)
            _, sd = bandit.predict(across[np.newaxis] if shared else across)
            assert sd.item() ** 2 == pytest.approx(1.0, abs=0.02)
            kept += 1
    assert kept >= 40  # up to a million they are all learned
