"""Kernels find the arms of a bandit by address: it must always be that of its own arrays."""

import copy
import gc
import pickle

import numpy as np
import pytest
from refusals import refused

from prudent.bandits import Decay, LinearBandit
from prudent.errors import DataError

RNG = np.random.default_rng(5)
CONTEXTS = RNG.normal(size=(60, 3))


def learned(**options):
    bandit = LinearBandit(["a", "b", "c"], dim=3, rng=1, **options)
    return bandit.update(CONTEXTS, list("abc" * 20), CONTEXTS @ [1.0, -1.0, 0.5])


def go_on(bandit, steps=20):
    scores = []
    for context in CONTEXTS[:steps]:
        decision = bandit.select(context)
        bandit.update(context, decision.arm, float(context.sum()))
        scores.append((decision.arm, decision.score, decision.propensity))
    return scores


MAKERS = [
    copy.copy,
    copy.deepcopy,
    lambda bandit: bandit.copy(),
    lambda bandit: pickle.loads(pickle.dumps(bandit)),
    lambda bandit: LinearBandit.from_bytes(bandit.to_bytes()),
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("options", [{}, {"noise": "by arm"}, {"noise_sd": 1.0, "intercept": False, "alpha": 0.7}])
def test_a_copy_decides_with_arms_of_its_own(make, options):
    bandit = learned(**options)
    before = bandit.to_bytes()
    twin = make(bandit)
    expected = go_on(twin)
    assert bandit.to_bytes() == before  # what the copy learned is not here
    assert go_on(bandit) == expected
    state = twin.to_bytes()
    del bandit
    gc.collect()
    fill = [np.full(twin.belief.table.gram.size, 7.0) for _ in range(50)]  # where the arms of the first one were
    assert twin.to_bytes() == state
    assert go_on(twin) == go_on(LinearBandit.from_bytes(state))
    assert all((part == 7.0).all() for part in fill)


def test_arms_that_come_and_go_and_levels_that_fall_are_seen_by_kernels():
    bandit = learned(alpha=Decay(0.9, half=10))
    for number in range(30):
        bandit.add_arm(number, like=["a", "b"] if number % 3 == 0 else None)
        if number % 2:
            bandit.remove_arm(number - 1)
        go_on(bandit, 3)
    again = LinearBandit.from_bytes(bandit.to_bytes())
    assert again.arms == bandit.arms
    assert go_on(again, 40) == go_on(bandit, 40)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("dim", [0, 1, 2, 4, 5])
def test_a_context_of_another_length_is_refused_and_changes_nothing(dim, intercept):
    bandit, undisturbed = learned(intercept=intercept), learned(intercept=intercept)
    for call in (bandit.select, lambda context: bandit.update(context, "a", 1.0)):
        with refused(DataError, "wrong-shape", argument="context"):
            call(np.ones(dim))
    assert go_on(bandit) == go_on(undisturbed)


@pytest.mark.parametrize("view", [lambda rows: rows[0], lambda rows: rows[0, ::-1], lambda rows: rows.tolist()[0]])
def test_contexts_of_every_layout_and_kind_are_one(view):
    rows = np.asfortranarray(CONTEXTS[:4, :3])
    rows.flags.writeable = False
    given = view(rows)
    one, two = learned(), learned()
    assert one.select(given).score == two.select([float(x) for x in given]).score
    assert one.update(given, "a", 1).to_bytes() == two.update([float(x) for x in given], "a", 1.0).to_bytes()
