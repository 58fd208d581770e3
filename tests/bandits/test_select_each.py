"""Decisions that are taken together are those that ``select`` takes one after the other, bit by bit."""

import numpy as np
import pytest

from prudent.bandits import LinearBandit, SparseLinearBandit
from prudent.schedules import Decay

KINDS = {
    "learned noise": {},
    "known noise": {"noise_sd": 0.7},
    "noise by arm": {"noise": "by arm"},
    "careful": {"alpha": 0.9},
    "optimistic": {"alpha": -0.5},
    "floor": {"min_propensity": 0.02},
    "first pulls": {"first_pulls": 4},
    "clicks": {"rewards": "bernoulli"},
    "counts": {"rewards": "poisson"},
    "without intercept": {"intercept": False},
    "narrow": {"exploration": "auto", "horizon": 500},
    "terms": {"interactions": "auto", "exploration": "auto"},
}


def learned(rng, options, data=200):
    bandit = LinearBandit(6, 4, rng=3, **options)
    contexts = rng.normal(size=(data, 4))
    rewards = rng.integers(0, 2, data).astype(float)
    return bandit.update(contexts, rng.integers(0, 6, data), rewards) if data else bandit


@pytest.mark.parametrize("data", [0, 200])
@pytest.mark.parametrize("kind", KINDS)
def test_decisions_together_are_those_one_by_one(kind, data, rng):
    bandit = learned(rng, KINDS[kind], data)
    twin = bandit.copy()
    contexts = np.concatenate(
        [rng.normal(size=(300, 4)), np.zeros((3, 4))]
    )  # without an intercept all scores tie there
    expected, places = [], []
    for context in contexts:
        places.append(twin.position)
        expected.append(twin.select(context))
    found, positions = [], []
    for part in np.split(contexts, [1, 2, 5, 290]):
        decisions, where = bandit.select_each(part)
        found, positions = found + decisions, positions + where
    assert positions == places
    assert bandit.position == twin.position
    assert bandit.clock() == twin.clock()
    for one, other in zip(found, expected, strict=True):
        assert (one.arm, one.score, one.propensity, one.version) == (
            other.arm,
            other.score,
            other.propensity,
            other.version,
        )
        assert np.array_equal(one.mean, other.mean)
        assert np.array_equal(one.sd, other.sd)
        assert np.array_equal(one.propensities, other.propensities)
        assert np.array_equal(one.context, other.context)


def test_a_context_that_cannot_be_used_ends_it_before_anything_is_drawn_for_it(rng):
    bandit = learned(rng, {})
    contexts = rng.normal(size=(5, 4))
    contexts[3, 1] = np.inf
    decisions, positions = bandit.select_each(contexts)
    assert len(decisions) == len(positions) == 3
    twin = learned(np.random.default_rng(0), {}).seek(5)
    before = bandit.clock()
    assert bandit.select_each(contexts[3:])[0] == []
    assert bandit.clock() == before
    assert twin.select_each(np.zeros((2, 3))) == ([], [])  # of another length


@pytest.mark.parametrize(
    "bandit",
    [
        LinearBandit(3, 0, rewards="bernoulli", rng=1),
        LinearBandit(3, 2, half_life=100, rng=1),
        LinearBandit(3, 2, alpha=Decay(0.9, half=10), rng=1),
        LinearBandit(3, 2, max_propensity=0.6, rng=1),
        LinearBandit(3, 2, rewards="hurdle", rng=1),
        SparseLinearBandit(3, 2, rng=1),
    ],
    ids=str,
)
def test_what_has_to_be_decided_one_by_one_is_left(bandit):
    before = bandit.position
    assert bandit.select_each(np.ones((3, bandit.dim))) == ([], [])
    assert bandit.position == before
    assert bandit.decisions == 0


def test_terms_are_part_of_decisions_that_are_taken_together(rng):
    bandit = LinearBandit(3, 2, interactions="auto", rng=1)
    contexts = rng.integers(0, 2, (300, 2)).astype(float)
    arms = rng.integers(0, 3, 300)
    bandit.update(contexts, arms, (contexts[:, 0] != contexts[:, 1]) * (arms == 1) + 0.1 * rng.normal(size=300))
    assert bandit.interactions_found
    twin, some = bandit.copy(), rng.normal(size=(20, 2))
    decisions, _ = bandit.select_each(some)
    assert len(decisions) == 20
    for one, context in zip(decisions, some, strict=True):
        other = twin.select(context)
        assert (one.arm, one.score, one.propensity) == (other.arm, other.score, other.propensity)
    some[2, 0] = 1e200
    assert len(bandit.select_each(some)[0]) == 2
