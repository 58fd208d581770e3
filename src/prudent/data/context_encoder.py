"""What stands between contexts as people have them and a bandit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self

from .._support.checks import FloatArray
from ..errors import ParameterError
from ..types import ContextLike, TableLike
from .feature_rows import inferred, sample_rows
from .features import Names, shown


class ContextEncoder(ABC):
    """Base class of what stands between contexts as people have them and a bandit."""

    @property
    def dim(self) -> int:
        """Number of places D of an encoded row."""
        return len(self.names)

    @property
    @abstractmethod
    def names(self) -> Names:
        """Names of the places."""

    @property
    @abstractmethod
    def columns(self) -> Names:
        """Names of the columns that are read."""

    def spans(self) -> dict[str, slice] | None:
        """Return the places that each column has for itself; None if that is not known."""
        return None

    @property
    @abstractmethod
    def digest(self) -> str:
        """Hash of all that decides how a row is encoded."""

    @abstractmethod
    def encode(self, context: ContextLike) -> FloatArray | None:
        """Return a context [D] or rows [T, D]; None if nothing in it has a name."""

    def notice(self, context: ContextLike) -> bool:
        """Collect what contexts tell; return whether there is something to learn."""
        return False

    def learn(self, context: ContextLike) -> Self:
        """Learn from contexts."""
        return self

    def encode_and_learn(self, context: ContextLike) -> FloatArray | None:
        """Learn from contexts and encode them."""
        return self.encode(context)

    def learned(self) -> dict[str, Any]:
        """Return what was learned, as JSON holds it."""
        return {}

    def take(self, learned: Mapping[str, Any]) -> Self:
        """Take what ``learned`` returned elsewhere."""
        return self

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the encoder as JSON holds it."""

    def declaration(self) -> dict[str, Any]:
        """Return what the user has declared, without what was learned."""
        return {name: value for name, value in self.to_dict().items() if name != "learned"}

    def seen(self) -> dict[str, Any]:
        """Return what was noticed and not learned yet, as JSON holds it."""
        return {}

    def resume(self, seen: Mapping[str, Any]) -> Self:
        """Take what ``seen`` returned."""
        return self


class FitMethod:
    """Method ``fit``: ``Features.fit(rows)`` infers columns, ``Features(...).fit(rows)`` has declared them."""

    def __get__(self, instance: Any, kind: Any) -> Callable[..., Any]:
        def fit(rows: TableLike, **columns: str | Mapping[str, Any]) -> Any:
            """Return features that have learned scales and categories from a sample.

            On the class, the kinds of columns are inferred: texts are categories (times if they are dates), lists are
            tags, whole numbers from 0 to beyond 20 are counts, and other numbers are numbers. On an instance, its
            columns learn, and itself is returned.

            Parameters
            ----------
            rows : TableLike
                The sample.
            **columns : str or mapping
                Kinds of columns that are not to be inferred, and arguments of ``Features`` such as ``cross``.

            Returns
            -------
            Features
                Categories beyond those of the sample have some places left.

            Raises
            ------
            DataError
                If the sample is empty, or a column holds what cannot be encoded.
            """
            if instance is None:
                return _of_sample(kind, sample_rows(rows), columns)
            if columns:
                message = f"columns are declared already: give {shown(list(columns))} to Features"
                raise ParameterError(message, code="conflicting-arguments", argument="columns")
            return instance.fit_sample(rows)

        return fit


def _of_sample(kind: Any, sample: list[Mapping[str, Any]], columns: Mapping[str, Any]) -> Any:
    """Return features whose other columns are inferred from a sample that they have learned from."""
    given = {name: columns[name] for name in ("cross", "extra") if name in columns}
    declared = {name: spec for name, spec in columns.items() if name not in given}
    for name in dict.fromkeys(name for row in sample for name in row):
        if name not in declared:
            declared[name] = inferred(name, [row.get(name) for row in sample])
    return kind(declared, **given).fit_sample(sample)
