"""Features of a bandit: how many there are, what they are called, and how contexts are read."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np

from .._support.checks import FloatArray, finite_array, flag, refuse, require_length, whole_number
from .._support.locks import Guarded
from ..data.context_encoder import ContextEncoder
from ..data.features import NamedValues, Names, checked_names, read_named, shown
from ..data.transformers import TransformerEncoder, encoder_of
from ..errors import DataError, ParameterError
from .kernels.step import LARGEST, usable


class NamedFeatures(Guarded):
    """Base class of what has features with names and a lock."""

    _encoder: ContextEncoder | None
    _held = False  # whether the encoder learns only by ``learn_features``
    _retired: Names = ()  # features that contexts with names may leave out
    _earlier_dims: tuple[int, ...] = ()

    def _set_features(
        self, dim: Any, features: Any, intercept: bool, taken: tuple[str, ...] = (), least: int = 1
    ) -> None:
        """Take the number of features, and their names if there are any."""
        self._intercept = flag(intercept, "intercept")
        self._taken = ("intercept",) * self._intercept + taken
        self._encoder = None if features is None else encoder_of(features)
        names = features if self._encoder is None else self._encoder.names
        self._names_of_features = None if names is None else checked_names(names, "features", self._taken)
        if dim is None:
            if self._names_of_features is None:
                message = "give dim, the number of features, or features, their names"
                raise ParameterError(message, code="missing-argument", argument="dim")
            dim = len(self._names_of_features)
        self._dim = whole_number(dim, "dim", minimum=least, memory=64.0)
        if self._names_of_features is not None:
            require_length(self._names_of_features, "features", self._dim, "feature", error=ParameterError)

    @property
    def _learned_by_position(self) -> bool:
        """Whether rewards were learned while features had no names."""
        return False

    @property
    def dim(self) -> int:
        """Number of features D of a context, without the intercept."""
        return self._dim

    @property
    def intercept(self) -> bool:
        """Whether a constant feature is put before those of a context."""
        return self._intercept

    @property
    def features(self) -> Names | None:
        """Names of the features, as given or as first seen in a context that had names; None without names.

        Once they are known, a context that has names (a dict, a row or table of pandas) is put into their order, and
        refused if it lacks one or has others. Lists and arrays go by position, always.

        Examples
        --------
        >>> from prudent.bandits import LinearBandit
        >>> bandit = LinearBandit(2, dim=2, noise_sd=1.0)
        >>> _ = bandit.update({"age": 3.0, "price": 1.0}, 0, 1.0)
        >>> bandit.features
        ('age', 'price')
        >>> bandit.predict({"price": 1.0, "age": 3.0})[0] == bandit.predict([3.0, 1.0])[0]
        array([ True,  True])
        """
        return self._names_of_features if self._encoder is None else self._encoder.names

    @property
    def retired(self) -> Names:
        """Features that ``migrate`` has retired: contexts with names may leave them out, and they are 0 then."""
        return self._retired

    @property
    def earlier_dims(self) -> tuple[int, ...]:
        """Numbers of features before each ``migrate`` that added some: contexts of that time have so many numbers."""
        return self._earlier_dims

    @property
    def _columns(self) -> Names | None:
        """Columns of a table that make a context."""
        return self.features if self._encoder is None else self._encoder.columns

    @property
    def _spans(self) -> dict[str, slice] | None:
        """Places of the columns that several features are made of."""
        return None if self._encoder is None else self._encoder.spans()

    @property
    def encoder(self) -> ContextEncoder | None:
        """The ``Features`` or transformer that makes numbers of contexts with names; None if there is none."""
        return self._encoder

    def attach(self, transformer: Any) -> Self:
        """Give a loaded bandit the transformer of scikit-learn that it was made with, which a state cannot hold.

        Parameters
        ----------
        transformer : object
            The fitted transformer.

        Returns
        -------
        Bandit
            The bandit itself.

        Raises
        ------
        ParameterError
            If its fingerprint is another one: it was fitted otherwise, or has other parameters.
        """
        found = TransformerEncoder(transformer)
        mine = None if self._encoder is None else self._encoder.digest
        if found.digest != mine:
            known = "this bandit has none" if mine is None else f"that of this bandit is {mine}"
            message = f"transformer has the fingerprint {found.digest}, {known}: its contexts would mean something else"
            raise ParameterError(message, code="different-features", argument="transformer", value=found.digest)
        with self._lock:
            self._encoder = found
        return self

    def feature_news(self, contexts: Iterable[Any]) -> dict[str, Any] | None:
        """Return what the encoder would have learned with some more contexts; None if that is nothing new.

        Parameters
        ----------
        contexts : iterable of ContextLike
            Contexts as for ``select``. Those that cannot be encoded are left out.

        Returns
        -------
        dict or None
            What ``learn_features`` takes.
        """
        encoder, trial = self._encoder, None
        if encoder is None:
            return None
        with self._lock:
            for context in contexts:
                rows = self._encoded_rows(context)
                try:
                    if encoder.notice(rows):
                        trial = copy.deepcopy(encoder) if trial is None else trial
                        trial.learn(rows)
                except DataError:  # which ``select`` reports
                    continue
        return None if trial is None else trial.learned()

    def learn_features(self, learned: Mapping[str, Any]) -> Self:
        """Take scales and categories that ``feature_news`` returned, here or in another process.

        Parameters
        ----------
        learned : mapping
            What it returned.

        Returns
        -------
        Bandit
            The bandit itself.

        Raises
        ------
        ParameterError
            If this bandit has no ``Features``.
        DataError
            If they are not those of its features.
        """
        if self._encoder is None:
            raise ParameterError(
                "learned is for a bandit with Features, which this one has not", code="no-features", argument="learned"
            )
        with self._lock:
            self._encoder.take(learned)
        return self

    def _encoded_rows(self, context: Any) -> Any:
        """Return what in a context of ``select`` the encoder encodes."""
        return context

    def name_features(self, features: Iterable[str]) -> Self:
        """Give the features names, or other names.

        Parameters
        ----------
        features : iterable of str
            Names in the order of positions.

        Returns
        -------
        Bandit
            The bandit itself.

        Raises
        ------
        ParameterError
            If their number is not that of the features, or one occurs twice.

        Examples
        --------
        >>> from prudent.bandits import LinearBandit
        >>> LinearBandit(2, dim=2).name_features(["age", "price"]).features
        ('age', 'price')
        """
        names = checked_names(features, "features", self._taken)
        if self._encoder is not None and names != self._encoder.names:
            message = f"features have their names from the columns {shown(self._encoder.columns)}"
            raise ParameterError(message, code="conflicting-arguments", argument="features")
        require_length(names, "features", self._dim, "feature", error=ParameterError)
        with self._lock:
            self._names_of_features = names
        return self

    def _labels(self, names: Names | None) -> Names:
        """Return names of the coefficients, the intercept first; features without ``names`` are x0, x1, ..."""
        return ("intercept",) * self._intercept + (names or tuple(f"x{i}" for i in range(self._dim)))

    def _named(self, context: Any) -> NamedValues | None:
        """Return the numbers of what has names, in the order of the features; None if nothing in it has a name."""
        return read_named(context, self._names_of_features, "context", self._taken, optional=self._retired)

    def _read(
        self, context: Any, axes: tuple[int, ...] = (1, 2), copy: bool = True, learn: bool = False
    ) -> tuple[FloatArray, Names | None]:
        """Return a context [D] or rows [T,D] as an array, and the names that the features have then.

        The array is a copy; without ``copy`` only if it has to be one. With ``learn`` the encoder learns from it.
        """
        labels = self._names_of_features
        plain = type(context) is np.ndarray and context.dtype == np.float64
        if not plain and hasattr(context, "toarray"):  # a sparse matrix; one row of it is one context
            context = np.asarray(context.toarray(), dtype=np.float64)
            context, plain = context[0] if context.shape[:-1] == (1,) and 1 in axes else context, True
        if not plain and self._encoder is not None:
            encode = self._encoder.encode_and_learn if learn and not self._held else self._encoder.encode
            encoded = encode(context)
            context, plain = (context, False) if encoded is None else (encoded, True)
            labels = self._encoder.names if encoded is not None else labels
        named = None if plain or self._encoder is not None else self._named(context)
        if named is not None:
            if labels is None and self._learned_by_position:
                message = (
                    "context has names, and this bandit has learned from contexts without: it cannot know which name "
                    "is which position. Say it with name_features([...]), the names in the order of positions"
                )
                raise DataError(message, code="learned-by-position", argument="context")
            context, labels = named
        try:
            if not plain and np.iscomplexobj(context):
                raise TypeError  # NumPy drops imaginary parts
            rows = (np.array if copy else np.asarray)(context, dtype=np.float64, order="C")
        except (TypeError, ValueError, OverflowError):
            rows = finite_array(context, "context")  # which raises
        if rows.ndim not in axes or rows.shape[-1] != self._dim:
            shapes = " or ".join({1: f"({self._dim},)", 2: f"(T, {self._dim})"}[axis] for axis in axes)
            if context is None:
                message = f"context is None, expected shape {shapes}"
                raise DataError(message, code="missing-argument", argument="context")
            message = f"context has shape {rows.shape}, expected {shapes}"
            raise DataError(message, code="wrong-shape", argument="context", value=rows.shape)
        if not usable(rows.reshape(-1)):
            finite_array(rows, "context")
            refuse(np.abs(rows) > LARGEST, rows, "context", f"a number of at most {LARGEST}", code="too-large")
        return rows, labels
