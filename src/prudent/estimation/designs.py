"""Designs: ways to give the rows of a log their states, learned from some of its episodes."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..data.labels import Labels
from ..errors import DataError
from ..types import BoolArray, IntArray
from .rows import LogRows

if TYPE_CHECKING:
    import pandas


class Design(Protocol):
    """A way to give every row of a log a state and a next state."""

    @property
    def name(self) -> str:
        """What it is called in tables."""

    @property
    def read(self) -> LogRows:
        """The rows, with any states: actions, rewards, times and episodes are used."""

    def states(self, training: BoolArray) -> LogRows:
        """Return the rows with their states, learned from the rows of ``training`` [M] alone.

        Rows, actions, rewards, times and episodes are the same for all designs of a comparison, in the same order.
        """


@dataclass(frozen=True)
class GivenStates:
    """The states as they are in the log."""

    read: LogRows
    name: str = "states as they are"

    def states(self, training: BoolArray) -> LogRows:
        """Return the rows."""
        return self.read


class StateMaker(Protocol):
    """What turns rows of a log into states, such as a state map."""

    def fit(self, log: Any, /) -> Any:
        """Learn from the rows of a DataFrame."""

    def transform(self, log: Any, /) -> Any:
        """Return a state for each row of a DataFrame."""


@dataclass(frozen=True)
class MappedStates:
    """States by a map that is fitted anew on the training episodes of every fold.

    ``here`` [M] is the row of ``log`` that each transition starts in, ``there`` [M] the row that it leads to, or -1 for
    the end of the process. ``read`` has the actions, rewards, times and episodes of the transitions.
    """

    read: LogRows
    name: str
    maker: StateMaker
    log: pandas.DataFrame
    here: IntArray
    there: IntArray

    def states(self, training: BoolArray) -> LogRows:
        """Return the rows with states of the map that is fitted on ``training``."""
        import pandas

        rows = np.unique(np.concatenate((self.here[training], self.there[training & (self.there >= 0)])))
        maker = copy.deepcopy(self.maker)
        maker = maker.fit(self.log.iloc[rows]) or maker  # a StateMap is immutable: fit returns another one
        codes, names = pandas.factorize(np.asarray(maker.transform(self.log), dtype=object), use_na_sentinel=False)
        end = len(names)
        goes_on = self.there >= 0
        terminal = np.arange(end + 1) == end
        none = np.zeros(end + 1)
        return self.read._replace(
            state=codes[self.here].astype(np.int64),
            target=np.where(goes_on, codes[self.there], end).astype(np.int64),
            by_state=Labels("state", [*map(str, names), "(end)"], end + 1, DataError),
            terminal=terminal,
            terminal_value=none,
            absorbing=np.zeros(end + 1, dtype=np.bool_),
            absorbing_reward=none,
        )
