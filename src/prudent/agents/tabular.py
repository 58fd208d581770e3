"""What the agents for tabular models share: names, counts, observations, state files."""

from __future__ import annotations

import os
from collections.abc import Hashable
from typing import Any, ClassVar, Self

import numpy as np

from .._support.checks import FloatArray, IntArray, generator
from .._support.state import Arrays, Load, State, generator_from_state, generator_state, restore, write_state
from ..data.naming import names_of_plain, plain_names
from ..errors import ModelError, ParameterError, PosteriorError
from ..models.log_reader import LogReader
from ..models.mdp import MDP
from ..models.transitions import add_log
from ..models.uncertain import UncertainMDP
from ..posteriors.dirichlet import DirichletPosterior

__all__ = ["TabularAgent"]


class TabularAgent:
    """Counts what it is shown about one :class:`UncertainMDP`. Subclasses decide."""

    _version: ClassVar[int] = 2
    load = Load()

    def __init__(self, model: UncertainMDP, prior: Any, seed: Any, indices: bool) -> None:
        if not isinstance(model, UncertainMDP):
            hint = "; a known model needs no agent, use prudent.solve" if isinstance(model, MDP) else ""
            raise ModelError(f"model must be an UncertainMDP, got {type(model).__name__}{hint}")
        model.require_discounted("agents")
        self._model = model
        self._indices = bool(indices)
        self._reader = LogReader(model, self._indices)
        start = model.prior(prior) if np.ndim(prior) == 0 else model.count([], prior)
        self._posterior = DirichletPosterior(start)  # which sees that no source has only zeros
        self._posterior.naming = model.naming
        self._counts: FloatArray = self._posterior.counts  # [B, K]
        self._rng = generator(seed, "seed")
        self._action_of = list(self._reader.actions.names)

    @property
    def model(self) -> UncertainMDP:
        """The model the agent learns about."""
        return self._model

    @property
    def posterior(self) -> DirichletPosterior:
        """A copy of the posterior: the prior and everything observed so far."""
        return self._posterior.copy()

    def _read(self, state: Hashable, action: Hashable, next_state: Hashable, outcome: Any) -> IntArray:
        """Return a transition as a log of one row, or raise a ``DataError`` if it is impossible."""
        return self._reader.row(state, action, next_state, outcome, self._counts)

    def _count(self, row: IntArray) -> None:
        add_log(self._model.entries, self._counts, row)

    # -- state -------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state to ``path``, model and random stream included; the file appears whole or not at all.

        ``load`` of the same class reads it.
        """
        write_state(path, type(self).__name__, self._version, *self._state())

    def _own_state(self) -> State:
        """Return what a subclass adds to :meth:`_state`."""
        raise TypeError(f"{type(self).__name__} has no state")  # subclasses have

    def _state(self) -> State:
        values, arrays = self._own_state()
        model = self._model
        names = model.names()
        shared = {
            "discount": model.discount,
            "names": {what: plain_names(given, what) for what, given in names.items()},
            "indices": self._indices,
            "rng": generator_state(self._rng),
        }
        held = {
            "source": model.source,
            "next_state": model.next_state.astype(np.int64),
            "reward": model.reward,
            "prior": self._posterior.prior,
            "counts": self._counts,
        }
        if model.terminal.any():
            held["terminal"] = np.flatnonzero(model.terminal)
            held["terminal_value"] = model.terminal_value[model.terminal]
        return shared | values, held | arrays

    @classmethod
    def _from_state(cls, path: str | os.PathLike[str]) -> Self:
        return restore(path, cls.__name__, cls._version, cls._made)

    @classmethod
    def _made(cls, values: dict[str, Any], arrays: Arrays) -> Self:
        names = {what: names_of_plain(given) for what, given in values["names"].items()}
        known = (arrays["source"], arrays["next_state"], arrays["reward"], values["discount"])
        model = UncertainMDP(*known, **names, terminal=_terminal(names["states"], arrays))
        counts = [model._of_outcomes(arrays[name], name, PosteriorError) for name in ("counts", "prior")]
        agent = cls._restored(model, values, arrays)
        agent._posterior = DirichletPosterior(counts[0], prior=counts[1])
        agent._posterior.naming = model.naming
        agent._counts = agent._posterior.counts
        agent._rng = generator_from_state(values["rng"])
        return agent

    @classmethod
    def _restored(cls, model: UncertainMDP, values: dict[str, Any], arrays: Arrays) -> Self:
        raise TypeError(f"{cls.__name__} has no state")  # subclasses have

    def _require_memory(self, draws: int) -> None:
        """Raise unless ``draws`` of every source fit into the memory of this machine."""
        needed = 8 * draws * self._model.entries.outcome.size
        if hasattr(os, "sysconf") and needed > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
            raise ParameterError(
                f"{draws} draws of {len(self._counts)} sources need {needed / 2**30:.3g} GiB, more than there is; "
                "take fewer draws, or a lower alpha"
            )

    @staticmethod
    def _filled(array: Any, saved: Any, what: str) -> None:
        """Copy a saved array over one of the same shape."""
        if array.shape != saved.shape or array.dtype != saved.dtype:
            raise ValueError(f"{what} is {saved.dtype} {saved.shape}, expected {array.dtype} {array.shape}")
        array[...] = saved


def _terminal(states: Any, arrays: Arrays) -> dict[Any, float] | None:
    """Return the terminal states of a state file; one without has none."""
    if "terminal" not in arrays:
        return None
    places, worth = arrays["terminal"].tolist(), arrays["terminal_value"].tolist()
    size = len(arrays["source"])
    if any(not 0 <= s < size for s in places):
        raise ValueError(f"terminal must be states from 0 to {size - 1}, got {places}")
    return {s if states is None else states[s]: value for s, value in zip(places, worth, strict=True)}
