"""What all posteriors share: they are sums over data on top of a prior.

So two of them with the same prior merge by adding what each has learned, and are equal if prior and sums are.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

from .._support.checks import FloatArray, finite_array, first_index, require_shape
from .._support.state import Arrays, Load, State, restore, write_state
from ..errors import DataError, PosteriorError

RNG = np.random.Generator | int | None
_STATE_VERSION = 1


class Posterior(ABC):
    """A conjugate posterior. Subclasses name their arrays."""

    _sums: ClassVar[tuple[str, ...]]  # arrays that data is added to
    _fixed: ClassVar[tuple[str, ...]]  # arrays that hold the prior and the noise
    load = Load()

    @abstractmethod
    def update(self, *observed: Any, **named: Any) -> Self:
        """Add observations: this changes the posterior and returns it."""

    def updated(self, *observed: Any, **named: Any) -> Self:
        """Return a new posterior with the observations added, which are given as to ``update``; this one stays.

        >>> from prudent.posteriors import BetaPosterior
        >>> one = BetaPosterior(1, 1)
        >>> one.updated((), 1), one
        (BetaPosterior(successes=2.0, failures=1.0), BetaPosterior(successes=1.0, failures=1.0))
        """
        return self.copy().update(*observed, **named)

    @abstractmethod
    def mean(self) -> FloatArray:
        """Return the posterior mean."""

    @abstractmethod
    def variance(self) -> FloatArray:
        """Return the posterior variance of every entry of :meth:`mean`."""

    @abstractmethod
    def _learned(self, name: str) -> FloatArray:
        """Return what the data has added to the sum ``name``."""

    @abstractmethod
    def _shown(self) -> dict[str, Any]:
        """Return what ``repr`` prints."""

    def copy(self) -> Self:
        """Return an equal posterior that learns on its own."""
        twin = object.__new__(type(self))
        twin.__dict__.update(
            {name: value.copy() if name in self._sums else value for name, value in self.__dict__.items()}
        )
        return twin

    def merge(self, other: Self) -> Self:
        """Return the posterior given the data of both; the priors must be equal.

        >>> from prudent.posteriors import BetaPosterior
        >>> one, two = BetaPosterior(1, 1).update((), 1), BetaPosterior(1, 1).update((), [0, 1])
        >>> one.merge(two)
        BetaPosterior(successes=3.0, failures=2.0)
        """
        if type(other) is not type(self):
            raise PosteriorError(f"cannot merge a {type(self).__name__} with a {type(other).__name__}")
        for name in self._fixed:
            mine, theirs = getattr(self, name), getattr(other, name)
            label = name.lstrip("_").replace("_", " ")
            if mine.shape != theirs.shape:
                raise PosteriorError(f"cannot merge: {label} has shapes {mine.shape} and {theirs.shape}")
            differ = mine != theirs
            if differ.any():
                one, two = mine[differ][0], theirs[differ][0]
                raise PosteriorError(f"cannot merge: {label}{first_index(differ)} is {one} here, {two} there")
        merged = self.copy()
        for name in self._sums:
            merged._add(name, other._learned(name))
        return merged

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the posterior to ``path``, names included; the file appears whole or not at all.

        ``load`` of the same class reads it. Nothing in the file can be executed.

        >>> import tempfile
        >>> from prudent.posteriors import BetaPosterior
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     BetaPosterior([1.0, 2.0], 1.0).save(f"{folder}/chances.state")
        ...     BetaPosterior.load(f"{folder}/chances.state")
        BetaPosterior(successes=[1., 2.], failures=[1., 1.])
        """
        write_state(path, type(self).__name__, _STATE_VERSION, *self._state())

    def _state(self) -> State:
        return {}, {name.lstrip("_"): getattr(self, name) for name in (*self._sums, *self._fixed)}

    @classmethod
    def _from_state(cls, path: str | os.PathLike[str]) -> Self:
        return restore(path, cls.__name__, _STATE_VERSION, cls._made)

    @classmethod
    @abstractmethod
    def _made(cls, values: dict[str, Any], arrays: Arrays) -> Self:
        """Return the posterior of a state file, or raise if it is none; see ``_state``."""

    def _add(self, name: str, amount: FloatArray) -> None:
        setattr(self, name, getattr(self, name) + amount)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in (*self._sums, *self._fixed))

    __hash__ = None  # type: ignore[assignment]  # it changes with data

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={_short(value)}" for name, value in self._shown().items())
        return f"{type(self).__name__}({shown})"


def _short(value: Any) -> str:
    text = np.array2string(np.asarray(value), separator=", ", threshold=12, edgeitems=2, floatmode="maxprec")
    return " ".join(text.split())


def saved_sum(array: FloatArray, name: str, like: FloatArray) -> FloatArray:
    """Return finite sums of a state file that must have the shape of ``like``."""
    sums = finite_array(array, name, error=PosteriorError)
    require_shape(sums, name, like.shape, "that of the prior", error=PosteriorError)
    return sums


def equal_lengths(**arrays: Any) -> list[Any]:
    """Return numbers and arrays [T] as arrays of one shape."""
    lengths = {name: array.shape for name, array in arrays.items() if array.ndim}
    if len(set(lengths.values())) > 1 or any(len(shape) > 1 for shape in lengths.values()):
        listed = ", ".join(f"{name} {shape}" for name, shape in lengths.items())
        raise DataError(f"expected numbers or arrays [T] of equal length, got shapes {listed}")
    return [np.atleast_1d(array) for array in np.broadcast_arrays(*arrays.values())]


def writable(array: FloatArray) -> FloatArray:
    """Return the array, or a copy if it is read-only: kernels would have to be compiled for such arrays too."""
    return np.require(array, requirements=["C", "W"])
