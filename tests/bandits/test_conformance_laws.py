"""What every law of scores must do; a new law joins by an entry in LAWS of these tests."""

import numpy as np
import pytest

from prudent.bandits import law as laws
from prudent.bandits.kernels.batch import Moments
from prudent.bandits.law.joint import Design
from prudent.bandits.law.normal import ScoreRule
from prudent.bandits.law.score_law import score_law

MEAN, SD = np.array([0.2, 0.5, 0.4]), np.array([0.3, 0.2, 0.4])


def normal(n=1, weights=(1.0,), clip=False, floor=0.0, freedom=0.0, sort=False):
    moments = np.stack([MEAN, SD, SD, np.full(3, freedom)])
    return laws.NormalLaw(moments, ScoreRule(floor, n, weights, clip, None), sort)


def joint():
    design = Design(np.eye(3), np.zeros(3), np.zeros(3))
    return laws.JointLaw(np.stack([MEAN, SD]), design, MEAN, np.diag(SD), ScoreRule(0.0, 2, (1.0,), False, None))


def rows():
    roots = SD[:, np.newaxis]  # of one feature
    moments = Moments(roots, MEAN[:, np.newaxis], np.ones((2, 1)), np.arange(3), np.ones(3), np.zeros(3))
    return laws.NormalRows(moments, np.ones(2), np.zeros((0, 3), dtype=bool), ScoreRule(0.05, 2, (1.0,), False, None))


MEMBERS = {
    "normal": normal,
    "sorted": lambda: normal(n=2, sort=True),
    "two weights": lambda: normal(n=4, weights=(0.8, 0.2)),
    "highest": lambda: normal(n=-3),
    "clipped": lambda: normal(n=2, clip=True),
    "student": lambda: normal(n=2, freedom=5.0),
    "floor": lambda: normal(floor=0.1),
    "rows": rows,
    "beta": lambda: laws.BetaLaw(np.array([3.0, 2.0, 5.0]), np.array([4.0, 2.0, 7.0]), 0.5, 0.02),
    "joint": joint,
}


def test_every_law_is_here():
    assert {type(make()) for make in MEMBERS.values()} == set(laws.LAWS.values())


@pytest.mark.parametrize("name", MEMBERS)
def test_chances_sum_to_one_and_are_those_of_simulated_decisions(name, rng):
    """20,000 decisions; with 5.5 sds a false alarm has a chance below 4e-8 for each arm, 1e-6 in all."""
    law = MEMBERS[name]()
    chances = law.chances().reshape(-1, 3)[0]
    assert chances.sum() == pytest.approx(1.0, abs=1e-9)
    counts = np.bincount(law.decisions(20_000, rng), minlength=3)
    error = law.error(0) * 20_000 * 6.0
    assert (np.abs(counts - 20_000 * chances) <= 5.5 * np.sqrt(20_000 * chances * (1 - chances)) + error + 1.0).all()


@pytest.mark.parametrize("name", [name for name in MEMBERS if name != "rows"])
def test_one_chance_is_that_of_all(name):
    law = MEMBERS[name]()
    for place, chance in enumerate(law.chances()):
        assert law.chance(place) == pytest.approx(chance, abs=1e-9)


@pytest.mark.parametrize("gap", [1e3, 1e12, 1e20, 1e60, 1e150])
def test_arms_of_their_own_noise_that_are_far_apart_have_chances(gap):
    """The chance of an arm that is a thousand scales or more behind is below a millionth; powers of more overflow."""
    law = score_law(-2, (1.0,), False)
    moments = np.array([[-gap, 0.0], [1.0, 0.9], [1.0, 0.9], [4.0, 5.0]])
    chances = law.every_chance(moments[:1], moments[2:3], moments[3])
    assert chances[0] == pytest.approx([0.0, 1.0], abs=1e-6)
    assert law.decision_chance(moments, 1, 0.0) == pytest.approx(1.0, abs=1e-6)
