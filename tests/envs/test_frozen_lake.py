"""Frozen Lake against the words of the paper's numerical study, spelled out here a second time."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from refusals import refused

import prudent as pr
from prudent.envs.frozen_lake import ACTIONS, MAP, SOURCES, frozen_lake
from prudent.envs.gymnasium import register
from prudent.errors import ModelError, ParameterError

HOLES = {(1, 1), (1, 3), (2, 3), (3, 0)}
GOAL = (3, 3)
STEP = {"left": (0, -1), "right": (0, 1), "up": (-1, 0), "down": (1, 0)}
SIDES = {"left": ("up", "down"), "right": ("up", "down"), "up": ("left", "right"), "down": ("left", "right")}
CELLS = [(i, j) for i in range(4) for j in range(4)]
ICE = [cell for cell in CELLS if cell not in HOLES and cell != GOAL]


def after(cell, direction):
    i, j = cell[0] + STEP[direction][0], cell[1] + STEP[direction][1]
    return (i, j) if 0 <= i <= 3 and 0 <= j <= 3 else cell


def table(p_h, side):
    """P(cell' | cell, action) as the text has it."""
    chance = {}
    for cell in CELLS:
        for action in STEP:
            row = chance[cell, action] = dict.fromkeys(CELLS, 0.0)
            if cell == GOAL:
                for target in ICE:
                    row[target] += 1 / 11
            elif cell in HOLES:
                row[after(cell, action)] += p_h
                row[cell] += 1 - p_h
            else:
                row[after(cell, action)] += 1 - 2 * side
                for other in SIDES[action]:
                    row[after(cell, other)] += side
    return chance


@pytest.mark.parametrize("p_h", [0.1, 0.2, 0.6, 0.8])
@pytest.mark.parametrize("side", [0.25, 0.1, 0.0])
def test_every_entry_follows_from_the_text(p_h, side):
    model, theta = frozen_lake(p_h, slip=side)
    dense = model.mdp(theta).dense()
    chance = table(p_h, side)
    for s, cell in enumerate(CELLS):
        for a, action in enumerate(ACTIONS):
            assert dense[s, a] == pytest.approx([chance[cell, action][target] for target in CELLS], abs=1e-15)
    reward = model.mdp(theta).reward
    assert reward[CELLS.index(GOAL)] == pytest.approx(1.0, rel=1e-15)
    assert reward.sum() == pytest.approx(4.0, rel=1e-15)


@pytest.mark.parametrize("sources", SOURCES)
@pytest.mark.parametrize("p_h", [0.1, 0.6])
def test_the_world_is_the_same_whatever_shares_a_source(sources, p_h):
    ours, plain = frozen_lake(p_h, sources=sources, slip=(0.3, 0.1)), frozen_lake(p_h, slip=(0.3, 0.1))
    assert (ours.mdp().dense() == plain.mdp().dense()).all()
    assert (ours.mdp().reward == plain.mdp().reward).all()
    assert (ours.start, ours.layout) == (plain.start, plain.layout)


def partners(sources, **options):
    """Return the sets of pairs (cell, action) that share a source."""
    source = frozen_lake(sources=sources, **options).model.source
    assert sorted(set(source.reshape(-1).tolist())) == list(range(source.max() + 1))
    names = [(cell, action) for cell in CELLS for action in ACTIONS]
    return {
        frozenset(name for name, b in zip(names, source.reshape(-1), strict=True) if b == each)
        for each in range(source.max() + 1)
    }


def test_what_shares_a_source():
    ice, holes, goal = (frozenset((cell, a) for cell in cells for a in ACTIONS) for cells in (ICE, HOLES, [GOAL]))
    each_hole = {frozenset((hole, a) for a in ACTIONS) for hole in HOLES}
    each_action = {frozenset((cell, a) for cell in ICE) for a in ACTIONS}
    assert partners("shared") == {ice, holes, goal}
    assert partners("by hole") == {ice, goal} | each_hole
    assert partners("by action") == {holes, goal} | each_action
    assert partners("by pair") == {frozenset([(cell, a)]) for cell in CELLS for a in ACTIONS}
    model = frozen_lake(sources="by pair").model
    assert (model.source == np.arange(64).reshape(16, 4)).all()


def test_the_order_of_sources():
    """Slip first, then holes in the order of the cells, then the goal; the first three are those of the paper."""
    assert frozen_lake(sources="by hole").model.source[[0, 5, 7, 11, 12, 15], 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert frozen_lake(sources="by action").model.source[0].tolist() == [0, 1, 2, 3]
    assert frozen_lake(sources="by action").theta.shape == (6, 11)


def test_sources_on_other_maps():
    assert frozen_lake(layout=("SF",), sources="by hole").model.n_sources == 1
    assert frozen_lake(layout=("SHHG",), sources="by hole").model.n_sources == 4
    assert frozen_lake(layout=("SHHG",), sources="by action").model.n_sources == 6
    assert frozen_lake(layout=("SHHG",), sources="by pair").model.n_sources == 16


def test_holes_are_learned_apart():
    """What is seen in one hole counts for this hole only, and an agent plans with it."""
    problem = frozen_lake(0.1, sources="by hole")
    log = [(5, 1, 5), (5, 1, 5), (5, 1, 9)]  # the hole at [1,1]: twice stuck, once out
    counts = problem.model.count(log, problem.model.prior(1.0))
    changed = counts - problem.model.prior(1.0)
    assert changed[1, :2].tolist() == [1.0, 2.0]
    assert changed.sum() == 3.0
    apart, together = (
        pr.BayesianRiskMDP(each.model, each.model.count(log, each.model.prior(1.0)), 0.9).solve().value[7]
        for each in (problem, frozen_lake(0.1))
    )
    assert apart < together  # another hole: nothing is known about it, where the shared chance has been seen


def test_through_gymnasium():
    register()
    env = gymnasium.make("prudent/FrozenLake-v0", p_h=0.2, sources="by action")
    assert env.unwrapped.problem.model.n_sources == 6
    with refused(ParameterError, "unknown-option", argument="sources"):
        gymnasium.make("prudent/FrozenLake-v0", sources="by_hole")


def test_three_sources_and_the_start():
    problem = frozen_lake()
    assert problem.model.outcome_mask.sum(axis=1).tolist() == [3, 2, 11]
    assert problem.start == 0
    assert problem.observed
    assert problem.model.discount == 0.8


PRINTED = [  # the paper's table of the optimal policy at p_h = 0.1
    ["down", "right", "down", "left"],
    ["down", "down", "down", "left"],
    ["right", "down", "down", "down"],
    ["right", "right", "right", None],
]


def test_optimal_policy_agrees_with_the_printed_table_in_14_of_15_cells():
    solution = pr.solve(frozen_lake(0.1).mdp(), tol=1e-12)
    differ = [(i, j) for i, j in CELLS if (i, j) != GOAL and ACTIONS[solution.policy[4 * i + j]] != PRINTED[i][j]]
    assert differ == [(1, 3)]
    down, left = (solution.q[7, ACTIONS.index(action)] for action in ("down", "left"))
    print(f"hole [1,3]: down is worth {down:.6f}, the printed left {left:.6f}")
    assert down == pytest.approx(0.0968, abs=5e-5)
    assert left < down - 0.01


def test_other_maps():
    problem = frozen_lake(0.3, layout=("FS", "FF"))
    assert problem.model.n_sources == 1
    assert problem.start == 1
    assert frozen_lake(0.3, layout=("HSG",)).theta.tolist() == [[0.5, 0.25, 0.25], [0.3, 0.7, 0.0], [1.0, 0.0, 0.0]]
    # relocation goes to the ice in the order of the cells
    model, theta = frozen_lake(layout=("SFG",), relocation=[0.2, 0.8])
    assert model.mdp(theta).dense()[2, 0].tolist() == [0.2, 0.8, 0.0]


def test_slip_may_differ_by_side():
    model, theta = frozen_lake(slip=(0.3, 0.1))
    # "left" follows "up" in the order of actions: the side before it is up, the side after it down
    row = model.mdp(theta).dense()[9, 0]
    assert row[[8, 5, 13]] == pytest.approx([0.6, 0.3, 0.1])


@pytest.mark.parametrize(
    ("options", "error", "code"),
    [
        ({"p_h": 1.5}, ParameterError, "probability-range"),
        ({"p_h": "x"}, ParameterError, "not-a-number"),
        ({"sources": "hole"}, ParameterError, "unknown-option"),
        ({"sources": None}, ParameterError, "unknown-option"),
        ({"sources": ["by hole"]}, ParameterError, "unknown-option"),
        ({"slip": 0.6}, ParameterError, "probability-range"),
        ({"slip": (0.1, 0.1, 0.1)}, ParameterError, "wrong-shape"),
        ({"layout": ("SF", "F")}, ModelError, "wrong-shape"),
        ({"layout": ("SX",)}, ModelError, "unknown-option"),
        ({"layout": ("SS",)}, ModelError, "several-starts"),
        ({"layout": ("HG",)}, ModelError, "no-ice"),
        ({"layout": ()}, ModelError, "wrong-type"),
        ({"relocation": [1.0]}, ParameterError, "wrong-shape"),
        ({"relocation": np.full(11, 0.1)}, ParameterError, "sum-not-one"),
        ({"relocation": [1.5, -0.5, *[0.0] * 9]}, ParameterError, "negative"),
        ({"discount": 1.5}, ParameterError, "discount-range"),
    ],
)
def test_bad_input(options, error, code):
    (argument,) = options
    with refused(error, code, argument=argument):
        frozen_lake(**options)


def test_map_is_the_papers():
    assert {(i, j) for i, j in CELLS if MAP[i][j] == "H"} == HOLES
