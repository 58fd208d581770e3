"""A model as lists of choices and branches, which is how the files of model checkers describe it.

A state has choices (its admissible actions), and a choice has branches (its outcomes). These files know no last step:
a step that ends the process leads to one more state, the end, which loops and earns nothing.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...data.labels import Labels
from ...errors import ModelError, ParameterError
from ...types import FloatArray, IntArray
from ..base import TabularModel, plural
from ..builders import Arguments, Steps, pair_sums, places_in, without_idle
from ..entries import END, Outcomes


class Choices(NamedTuple):
    """Choices, sorted by state, and their branches, sorted by choice; C choices and M branches."""

    n_states: int  # S, with the end
    state: IntArray  # [C]
    action: IntArray | None  # [C]
    reward: FloatArray  # [C], mean
    first: IntArray  # [C + 1], the first branch of each choice
    target: IntArray  # [M]
    probability: FloatArray  # [M]
    branch_reward: FloatArray | None  # [M], all that the branch earns, where branches of a choice differ
    end: int = -1  # the state that stands for the end of the process, which is the last one; -1 if there is none

    @property
    def choice(self) -> IntArray:
        """The choice of each branch [M]."""
        return np.repeat(np.arange(self.state.size), np.diff(self.first))

    def sizes(self) -> IntArray:
        """Return the number of choices of each state [S]."""
        return np.bincount(self.state, minlength=self.n_states)

    def places(self) -> IntArray:
        """Return the place 0, 1, ... of each choice in its state [C]."""
        return places_in(self.state)


def choices_of(model: TabularModel, outcomes: Outcomes, reward: FloatArray, single: bool) -> Choices:
    """Return the choices of a known model; ``single`` says whether rewards of single outcomes are worth keeping."""
    S, A = model.admissible.shape
    pairs = np.flatnonzero(model.admissible)
    sizes = np.diff(outcomes.first)[pairs]
    target, chance, earned = outcomes.next_state.astype(np.int64), outcomes.chance, outcomes.reward
    state, action, means = pairs // A, pairs % A, reward.reshape(-1)[pairs]
    ends = target == END
    if ends.any():  # one more state, with one choice that loops
        target = np.append(np.where(ends, S, target), S)
        chance, earned = np.append(chance, 1.0), np.append(earned, 0.0)
        state, action, means = np.append(state, S), np.append(action, 0), np.append(means, 0.0)
        sizes = np.append(sizes, 1)
    first = np.concatenate(([0], np.cumsum(sizes)))
    end = S if ends.any() else -1
    return Choices(S + (end >= 0), state, action, means, first, target, chance, earned if single else None, end)


def known_choices(
    choices: Choices, states: tuple[Any, ...] | None, actions: tuple[Any, ...] | None, notes: tuple[str, ...] = ()
) -> Arguments:
    """Return the arguments of ``MDP.of_steps``.

    Choices without actions, or with the same action twice in a state, are numbered within their state. A state without
    choices ends the process.
    """
    S = choices.n_states - (choices.end >= 0)
    kept = np.repeat(choices.state < S, np.diff(choices.first))
    of = choices.choice[kept]
    own = choices.state < S
    state = choices.state[own]
    action = None if choices.action is None else choices.action[own]
    by_action = Labels("action", actions, 0 if actions is None else len(actions))
    if action is not None and np.unique(state * (int(action.max(initial=0)) + 1) + action).size < state.size:
        notes = (*notes, "choices are numbered within their states: some states have two choices with the same action")
        action = None
    if action is None:
        action = places_in(state)
        by_action = Labels("action", None, int(action.max(initial=0)) + 1)
    elif actions is None:
        by_action = Labels("action", None, int(action.max(initial=0)) + 1)
    action, by_action, idle = without_idle(action, by_action)
    reward = choices.reward[own]
    earned = reward[of] if choices.branch_reward is None else choices.branch_reward[kept]
    target = choices.target[kept]
    steps = Steps(state[of], action[of], target, choices.probability[kept], earned, target == choices.end)
    A = by_action.size
    stuck = np.setdiff1d(np.arange(S), state)
    if stuck.size:
        notes = (*notes, f"the process ends in {plural(stuck.size, 'state')} without a choice")
        none, sure = np.zeros(stuck.size), np.ones(stuck.size)
        last = Steps(stuck, np.zeros_like(stuck), stuck, sure, none, sure > 0.0)
        steps = Steps(*(np.concatenate(parts) for parts in zip(steps, last, strict=True)))
    means = pair_sums(state * A + action, reward, (S, A))
    return {
        "steps": steps,
        "shape": (S, A),
        "reward": means,
        "states": states,
        "actions": None if by_action.numbered else by_action.names,
        "notes": (*notes, *idle),
    }


def mean_rewards(single: FloatArray, chance: FloatArray, first: IntArray) -> FloatArray:
    """Return the mean reward of each choice [C]: exactly what its branches earn, where all of them earn the same."""
    choice = np.repeat(np.arange(first.size - 1), np.diff(first))
    means: FloatArray = np.bincount(choice, weights=single * chance, minlength=first.size - 1).astype(np.float64)
    filled = np.flatnonzero(np.diff(first))
    if filled.size:
        begin = first[filled]
        low, high = np.minimum.reduceat(single, begin), np.maximum.reduceat(single, begin)
        means[filled] = np.where(low == high, low, means[filled])
    return means


# -- names in JSON -----------------------------------------------------------------------------------------


def described(model: TabularModel, end: int) -> dict[str, Any]:
    """Return what the files of model checkers have no place for, as JSON: names, the discount, the end."""
    content: dict[str, Any] = {"discount": model.discount, "end": end >= 0}
    for what, labels in (("states", model.state_labels), ("actions", model.action_labels)):
        if not labels.numbered:
            content[what] = [_written(name, what) for name in labels.names]
    return content


def read_description(content: Any, what: str) -> dict[str, Any]:
    """Return what ``described`` wrote, with names as tuples; an empty one if it is not ours."""
    if not isinstance(content, dict) or not isinstance(content.get("discount"), float | int):
        return {}
    names = {axis: content.get(axis) for axis in ("states", "actions")}
    if not all(value is None or isinstance(value, list) for value in names.values()):
        raise ModelError(f"the names in {what} are no lists", code="wrong-format", path=what)
    return {
        "discount": float(content["discount"]),
        "end": content.get("end") is True,
        **{axis: None if value is None else tuple(map(_read, value)) for axis, value in names.items()},
    }


def chosen_discount(given: float | None, description: dict[str, Any], what: str) -> float:
    """Return the discount that was given, or that of the file."""
    if given is not None:
        return given
    if "discount" not in description:
        message = f"discount must be given: {what} does not name one"
        raise ParameterError(message, code="missing-argument", argument="discount")
    return float(description["discount"])


def _written(name: Any, what: str) -> Any:
    if isinstance(name, tuple):
        return [_written(part, what) for part in name]
    plain = name is None or isinstance(name, str | bool | int) or (isinstance(name, float) and math.isfinite(name))
    if not plain:
        message = (
            f"{what} has the name {name!r}, which a file cannot hold: expected a text, a number or a tuple of them"
        )
        raise ParameterError(message, code="name-type", argument=what, value=name)
    return name


def _read(name: Any) -> Any:
    return tuple(map(_read, name)) if isinstance(name, list) else name
