"""Transformers of scikit-learn in the place of ``Features``: a fitted ColumnTransformer, Pipeline or the like.

Such an object cannot be saved without pickle, which we do not use. A state holds its fingerprint instead: a hash of its
parameters and of all fitted arrays. Whoever loads the state gives the object again, by ``attach`` or by making any
bandit with it, and one with another fingerprint is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, Self, TypeAlias
from weakref import WeakValueDictionary

import numpy as np

from .._support.checks import FloatArray
from ..errors import DataError, ParameterError
from .context_encoder import ContextEncoder
from .encoder import Features
from .features import Names, shown

_DEEP = 30  # of nested parts


class Transformer(Protocol):
    """What a fitted transformer of scikit-learn has."""

    def transform(self, rows: Any) -> Any:
        """Return rows [T, D] as numbers."""

    def get_feature_names_out(self) -> Any:
        """Return the names [D] of what ``transform`` returns."""


FeaturesLike: TypeAlias = "Iterable[str] | ContextEncoder | Mapping[str, Any] | Transformer"
"""Features of a bandit: names, ``Features`` or their columns with kinds, or a fitted transformer of scikit-learn."""
_here: WeakValueDictionary[str, TransformerEncoder]  # by fingerprint, in this process


class TransformerEncoder(ContextEncoder):
    """A fitted transformer of scikit-learn that encodes contexts.

    Parameters
    ----------
    transformer : object
        Object with ``transform`` and ``get_feature_names_out``.

    Raises
    ------
    ParameterError
        If it is not fitted, or does not name what it returns.
    """

    def __init__(self, transformer: Any) -> None:
        self._transformer = transformer
        try:
            self._names: Names = tuple(map(str, transformer.get_feature_names_out()))
        except Exception as error:  # NotFittedError of scikit-learn, and whatever parts of users raise
            message = (
                f"features is a {type(transformer).__name__} that does not say what it returns: {error}. Fit it "
                "before, and see that all its parts have get_feature_names_out"
            )
            raise ParameterError(message, code="not-fitted", argument="features") from error
        self._columns: Names = tuple(map(str, getattr(transformer, "feature_names_in_", ())))
        self._digest = fingerprint(transformer)
        _here[self._digest] = self

    @property
    def names(self) -> Names:
        """Names of the places."""
        return self._names

    @property
    def columns(self) -> Names:
        """Names of the columns that are read."""
        return self._columns

    @property
    def digest(self) -> str:
        """Fingerprint of the transformer."""
        return self._digest

    def encode(self, context: Any) -> FloatArray | None:
        """Return a context [D] or rows [T, D] as numbers; None if nothing in it has a name.

        Parameters
        ----------
        context : object
            A dict, dicts, or a table of pandas.

        Returns
        -------
        ndarray of float or None
            What the transformer returns, sparse or not.
        """
        import pandas

        single, rows = False, context
        if isinstance(context, Mapping):
            single = not any(np.ndim(cell) for cell in context.values())
            rows = [context] if single else context
        elif isinstance(context, pandas.Series):
            if context.dtype == object and any(isinstance(cell, Mapping) for cell in context):
                rows = list(context)
            else:
                single, rows = True, [context.to_dict()]
        elif not isinstance(context, pandas.DataFrame) and not _has_rows(context):
            return None
        frame = rows if isinstance(rows, pandas.DataFrame) else pandas.DataFrame(rows)
        if set(map(str, frame.columns)) == set(self._names) != set(self._columns):  # of a log that was exported
            return self._shaped(frame[list(self._names)].to_numpy(np.float64), single)
        try:
            found = self._transformer.transform(frame)
        except Exception as error:  # of any part of the transformer
            message = f"context cannot be transformed by the {type(self._transformer).__name__}: {error}"
            raise DataError(message, code="not-transformed", argument="context") from error
        return self._shaped(found, single)

    def _shaped(self, found: Any, single: bool) -> FloatArray:
        if hasattr(found, "toarray"):
            found = found.toarray()
        values = np.ascontiguousarray(found, dtype=np.float64)
        return values[0] if single else values

    def to_dict(self) -> dict[str, Any]:
        """Return what a state holds of it: names and fingerprint.

        Returns
        -------
        dict
            What ``encoder_of`` reads.
        """
        return {
            "format": "transformer",
            "version": 1,
            "names": list(self._names),
            "columns": list(self._columns),
            "fingerprint": self._digest,
        }

    def __deepcopy__(self, memo: Any) -> Self:
        """Return itself: it learns nothing."""
        return self


class AbsentTransformer(ContextEncoder):
    """Place of a transformer that a saved state was made with, until it is given again.

    Parameters
    ----------
    values : mapping
        What ``TransformerEncoder.to_dict`` returned.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)
        self._names: Names = tuple(map(str, values["names"]))

    @property
    def names(self) -> Names:
        """Names of the places."""
        return self._names

    @property
    def columns(self) -> Names:
        """Names of the columns that are read."""
        return tuple(self._values["columns"])

    @property
    def digest(self) -> str:
        """Fingerprint of the transformer."""
        return str(self._values["fingerprint"])

    def encode(self, context: Any) -> FloatArray | None:
        """Return None for numbers by position; raise for contexts with names.

        Parameters
        ----------
        context : object
            A context.

        Returns
        -------
        None
            Always.

        Raises
        ------
        DataError
            If the transformer is needed.
        """
        found = _here.get(self.digest)
        if found is not None:
            return found.encode(context)
        if type(context) in (np.ndarray, type(None)) or hasattr(context, "toarray"):
            return None
        if isinstance(context, (list, tuple)) and not _has_rows(context):
            return None
        message = (
            f"context has names, and the transformer of scikit-learn that encodes them ({shown(self._names)}) is not "
            "saved with the bandit: give it again, bandit.attach(transformer), or transform contexts before"
        )
        raise DataError(message, code="no-transformer", argument="context")

    def to_dict(self) -> dict[str, Any]:
        """Return what a state holds of it.

        Returns
        -------
        dict
            What ``encoder_of`` reads.
        """
        return dict(self._values)


_here = WeakValueDictionary()


def _has_rows(context: Any) -> bool:
    """Return whether a list holds rows with names."""
    return isinstance(context, (list, tuple)) and any(isinstance(row, Mapping) for row in context)


def is_encoder(given: Any) -> bool:
    """Return whether ``features`` of a bandit make numbers of contexts, and are not just names."""
    return isinstance(given, (ContextEncoder, Mapping)) or callable(getattr(given, "get_feature_names_out", None))


def encoder_of(given: Any) -> ContextEncoder | None:
    """Return an encoder for what ``features`` of a bandit may be; None if it holds names.

    Features are copied. A transformer of scikit-learn is wrapped. Values that ``to_dict`` returned are read.
    """
    if not is_encoder(given):
        return None
    if isinstance(given, Features):
        return given.copy()
    if isinstance(given, ContextEncoder):
        return given
    if isinstance(given, Mapping):
        if "learned" in given and given.get("format") == "features":
            return Features.from_dict(given)
        if "fingerprint" not in given or given.get("format") != "transformer":
            return Features(given)  # a declaration
        found = _here.get(str(given.get("fingerprint")))
        return AbsentTransformer(given) if found is None else found
    return TransformerEncoder(given)


def column_names(features: Any) -> Any:
    """Return the columns that make a context: those that an encoder reads, or the names as they are."""
    encoder = encoder_of(features)
    return features if encoder is None else encoder.columns


def fingerprint(part: Any) -> str:
    """Return a hash of a fitted object: its parameters and all that it has learned, 32 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=16)
    _feed(part, digest.update, 0, set())
    return digest.hexdigest()


def _feed(part: Any, update: Any, depth: int, above: set[int]) -> None:
    """Feed a hash with an object and its parts."""
    update(f"{type(part).__module__}.{type(part).__qualname__}:".encode())
    if depth > _DEEP or id(part) in above:
        return
    inside = above | {id(part)}
    if part is None or isinstance(part, (str, bytes, bool, int, float, complex, type)):
        update(repr(part).encode())
    elif isinstance(part, (np.ndarray, np.generic)):
        array = np.asarray(part)
        update(f"{array.dtype}{array.shape}".encode())
        if array.dtype.kind == "O":
            _feed(array.tolist(), update, depth + 1, inside)
        else:
            update(array.tobytes())
    elif isinstance(part, Mapping):
        for key in sorted(part, key=repr):
            update(repr(key).encode())
            _feed(part[key], update, depth + 1, inside)
    elif isinstance(part, (list, tuple)):
        for each in part:
            _feed(each, update, depth + 1, inside)
    elif isinstance(part, (set, frozenset)):
        _feed(sorted(part, key=repr), update, depth + 1, inside)
    elif callable(part) and hasattr(part, "__qualname__"):
        update(part.__qualname__.encode())
        code = getattr(part, "__code__", None)
        if code is not None:
            update(code.co_code)
    elif hasattr(part, "toarray"):
        _feed(part.toarray(), update, depth + 1, inside)
    elif hasattr(part, "__dict__"):
        _feed(vars(part), update, depth + 1, inside)
