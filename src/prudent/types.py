"""Type aliases of the arguments that public functions accept.

They name what can be given, so that an editor and ``mypy --strict`` show it: a function that takes a ``TableLike``
reads everything that ``TableLike`` lists. Axis letters in shapes: S states, A actions, K outcomes, B sources,
N draws, D features, R replications, T time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from scipy import sparse

__all__ = [
    "ArmLike",
    "ArrayLike",
    "BoolArray",
    "ContextLike",
    "FloatArray",
    "HasPolicy",
    "IntArray",
    "Label",
    "NamesLike",
    "PairsLike",
    "PathLike",
    "PolicyLike",
    "RngLike",
    "SparseLike",
    "StartLike",
    "TableLike",
    "TerminalLike",
    "TerminalValueLike",
]

FloatArray: TypeAlias = npt.NDArray[np.float64]
"""Array of float64."""
IntArray: TypeAlias = npt.NDArray[np.int64]
"""Array of int64."""
BoolArray: TypeAlias = npt.NDArray[np.bool_]
"""Array of bool."""
ArrayLike: TypeAlias = npt.ArrayLike
"""A number, nested sequences of numbers or an array."""
SparseLike: TypeAlias = "sparse.sparray | sparse.spmatrix"
"""Sparse array or matrix of SciPy."""
PathLike: TypeAlias = str | os.PathLike[str]
"""Path of a file or folder."""
RngLike: TypeAlias = int | np.random.Generator | np.random.SeedSequence | None
"""Source of randomness (SPEC 7): a seed, a Generator, which is advanced, or None for fresh entropy."""
Label: TypeAlias = Hashable
"""Name of a state, action, outcome or arm."""
NamesLike: TypeAlias = Iterable[Label] | None
"""Names of states or actions in the order of their indices; None for 0, 1, ..., n-1."""
ArmLike: TypeAlias = Label
"""Name of an arm."""


@runtime_checkable
class HasPolicy(Protocol):
    """An object with a policy and the names that it is about, such as a ``prudent.planning.Solution``.

    An object whose policy depends on time may also have ``later``, the policy after the last step.
    """

    @property
    def policy(self) -> npt.NDArray[Any]:
        """Actions int [S] or [T, S], or probabilities of actions float [S, A] or [T, S, A]."""

    @property
    def states(self) -> Sequence[Label]:
        """Names of the states."""

    @property
    def actions(self) -> Sequence[Label]:
        """Names of the actions."""


PolicyLike: TypeAlias = (
    "npt.ArrayLike | Sequence[Any] | Mapping[Any, Any] | pandas.DataFrame | Callable[[Any], Any] | HasPolicy"
)
"""Policy of a tabular model.

Actions [S] by index or name, probabilities [S, A], a dict from states to actions or to dicts of probabilities, a
time-dependent policy [T, S] or [T, S, A], or an object with a ``policy``, such as a Solution.
"""
StartLike: TypeAlias = "Label | npt.ArrayLike | Mapping[Any, float] | None"
"""Where a process begins: a state, probabilities [S], or a dict from states to probabilities."""
PairsLike: TypeAlias = "Mapping[Any, Any] | Iterable[tuple[Any, Any]] | None"
"""Pairs of a state and an action: a dict from states to an action or a list of actions, or a list of pairs."""
TerminalLike: TypeAlias = "Iterable[Label] | Mapping[Any, float] | None"
"""Terminal states: their names, or a dict from names to the values that they pay."""
TerminalValueLike: TypeAlias = "npt.ArrayLike | Mapping[Any, float] | None"
"""What states are worth after a horizon: values [S], one number for all, or a dict from states to values."""
TableLike: TypeAlias = (
    "str | os.PathLike[str] | pandas.DataFrame | pyarrow.Table | Mapping[str, Any] | npt.NDArray[Any] | Iterable[Any]"
)
"""Table: a file (CSV, Parquet, JSON lines), a DataFrame, a dict of columns, a structured array, or rows."""
ContextLike: TypeAlias = (
    "npt.ArrayLike | Mapping[str, Any] | pandas.DataFrame | pandas.Series | Sequence[Mapping[str, Any]]"
)
"""Context [D] of a bandit or contexts [T, D]: numbers in order, or features by name."""
PolicyFunction: TypeAlias = Callable[..., Any]
"""Function from contexts to arms or to probabilities of arms."""
