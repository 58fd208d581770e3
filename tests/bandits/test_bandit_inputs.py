"""What engineers hand to bandits: rows of tables, Decimals, dicts of items, numbers beyond all measure."""

import decimal

import numpy as np
import pandas as pd
import pytest
from refusals import refused

from prudent.bandits import LinearBandit, SharedLinearBandit
from prudent.errors import DataError, ParameterError
from prudent.journal import Journal

ITEMS = {"tea": [1.0, 0.2], "coffee": [0.9, 0.8]}


def test_items_by_name_in_a_dict(tmp_path):
    bandit = SharedLinearBandit(2, offsets=True, noise_sd=1.0, rng=1)
    frame = pd.DataFrame.from_dict(ITEMS, orient="index", columns=["price", "age"])
    twin = bandit.copy()
    for _ in range(5):
        one, two = bandit.select(ITEMS, top=2), twin.select(frame, top=2)
        assert (one.slate, one.scores.tolist()) == (two.slate, two.scores.tolist())
    np.testing.assert_array_equal(bandit.propensities(ITEMS), twin.propensities(frame))
    assert bandit.explain(ITEMS).arm in ITEMS
    with Journal(tmp_path / "j", bandit, synchronous="NORMAL") as live:
        assert set(live.select(ITEMS).arms) == set(ITEMS)
    with refused(ParameterError, "empty", argument="context"):
        bandit.select(np.empty((0, 2)), arms=[])


@pytest.mark.parametrize("reward", [True, np.bool_(True), decimal.Decimal("1"), 1, np.float32(1.0), np.array(1.0)])
def test_rewards_of_many_kinds_are_numbers(reward):
    plain = LinearBandit(2, 2).update([1.0, 2.0], 0, 1.0).to_bytes()
    bandit = LinearBandit(2, 2)
    bandit._stream.rng.bit_generator.state = LinearBandit.from_bytes(plain)._stream.rng.bit_generator.state
    assert bandit.update([1.0, 2.0], 0, reward).to_bytes() == plain
    assert SharedLinearBandit(2).update([1.0, 2.0], None, reward).n_rewards == 1


HUGE = 10**400


@pytest.mark.parametrize(
    "call",
    [
        lambda live: LinearBandit(2, 1).update([1.0], 0, HUGE),
        lambda live: LinearBandit(2, 1).update([[1.0]], [0], [HUGE]),
        lambda live: LinearBandit(2, 1).update([HUGE], 0, 1.0),
        lambda live: LinearBandit(2, 1).propensities([[HUGE]]),
        lambda live: LinearBandit.from_log([([HUGE], 0, 1.0)]),
        lambda live: SharedLinearBandit(1).select([[1.0], [HUGE]]),
        lambda live: SharedLinearBandit(1).update([HUGE], None, 1.0),
        lambda live: live.select([HUGE]),
        lambda live: live.select([[1.0], [HUGE]]),
        lambda live: live.reward(live.select([1.0]).id, HUGE),
        lambda live: live.reward(live.select([1.0]).id, pd.NA),
    ],
)
def test_numbers_beyond_all_measure_are_refused_in_words(call, tmp_path):
    with Journal(tmp_path / "j", LinearBandit(2, 1), synchronous="NORMAL") as live, pytest.raises(DataError):
        call(live)


def test_a_context_that_is_missing():
    with refused(DataError, "missing-argument", argument="context"):
        LinearBandit(2, 3).select()
