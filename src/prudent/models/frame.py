"""What known and uncertain models share: sizes, names, admissible actions."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar, SupportsInt

import numpy as np
import numpy.typing as npt
from scipy import sparse

from .._support.checks import discount_factor, mask_array
from .._support.labels import Labels, Names
from ..errors import ModelError
from .builders import Shape

BoolArray = npt.NDArray[np.bool_]


class _Tabular:
    """What both models share: sizes, names, the discount, and which actions a state admits."""

    _compared: ClassVar[tuple[str, ...]]

    discount: float
    n_states: int
    n_actions: int
    admissible: BoolArray  # [S, A]

    def _frame(self, admissible: BoolArray, discount: Any, states: Names, actions: Names) -> None:
        self.discount = discount_factor(discount)
        self.n_states, self.n_actions = admissible.shape
        self.admissible = admissible
        self._state_labels = Labels("state", states, self.n_states)
        self._action_labels = Labels("action", actions, self.n_actions)
        if not admissible.size:
            raise ModelError(f"a model needs states and actions, got {self.n_states} and {self.n_actions}")
        idle = ~admissible.any(axis=1)
        if idle.any():
            state = self._state_labels.show(int(np.argmax(idle)))
            raise ModelError(f"{state} has no admissible action; a state that absorbs needs a loop to itself")
        idle = ~admissible.any(axis=0)
        if idle.any():
            raise ModelError(f"{self._action_labels.show(int(np.argmax(idle)))} is admissible in no state")

    @property
    def states(self) -> tuple[Hashable, ...] | None:
        """The names of the states, or None where they are just 0, 1, ..., S-1."""
        return self._state_labels.names

    @property
    def actions(self) -> tuple[Hashable, ...] | None:
        """The names of the actions, or None where they are just 0, 1, ..., A-1."""
        return self._action_labels.names

    def state_index(self, name: Hashable) -> int:
        """Return the index of a state by its name (by its number, if states have no names).

        >>> import prudent as pr
        >>> pr.MDP([[[1, 0]], [[0, 1]]], reward=[1, 2], discount=0.5, states=["dry", "wet"]).state_index("wet")
        1
        """
        return self._state_labels.index(name)

    def action_index(self, name: Hashable) -> int:
        """Return the index of an action by its name (by its number, if actions have no names).

        >>> import prudent as pr
        >>> pr.MDP([[[1], [1]]], reward=[[1, 2]], discount=0.5, actions=["wait", "go"]).action_index("go")
        1
        """
        return self._action_labels.index(name)

    def _pair(self, pair: SupportsInt) -> str:
        """Return how to call the pair s*A + a in a message: ``state 3, action 'go'``."""
        s, a = divmod(int(pair), self.n_actions)
        return f"{self._state_labels.show(s)}, {self._action_labels.show(a)}"

    def _size(self) -> list[str]:
        parts = [_plural(self.n_states, "state"), _plural(self.n_actions, "action")]
        if not self.admissible.all():
            parts.append(_plural(int((~self.admissible).sum()), "inadmissible pair"))
        return parts

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_equal(getattr(self, name), getattr(other, name)) for name in self._compared)

    __hash__ = None  # type: ignore[assignment]  # arrays can change


def _admissible(admissible: Any, shape: Shape) -> BoolArray:
    if admissible is None:
        return np.ones(shape, dtype=np.bool_)
    return mask_array(admissible, "admissible", shape, "[S, A]", error=ModelError)


def _equal(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    if isinstance(one, sparse.csr_array):  # canonical, so equal matrices are stored alike
        return all(_equal(getattr(one, part), getattr(other, part)) for part in ("indptr", "indices", "data"))
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else bool(one == other)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")
