"""Features of a bandit: how many there are, and what they are called."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from .._support.checks import flag, whole_number
from .._support.locks import Guarded
from ..data.features import NamedValues, Names, checked_names, read_named
from ..errors import ParameterError

__all__ = ["NamedFeatures"]


class NamedFeatures(Guarded):
    """Base class of what has features with names and a lock."""

    def _set_features(
        self, dim: Any, features: Any, intercept: bool, taken: tuple[str, ...] = (), least: int = 1
    ) -> None:
        """Take the number of features, and their names if there are any."""
        self._intercept = flag(intercept, "intercept")
        self._taken = ("intercept",) * self._intercept + taken
        self._names_of_features = None if features is None else checked_names(features, "features", self._taken)
        if dim is None:
            if self._names_of_features is None:
                raise ParameterError(
                    "give dim, the number of features, or features, their names",
                    code="missing-argument",
                    argument="dim",
                )
            dim = len(self._names_of_features)
        self._dim = whole_number(dim, "dim", minimum=least)
        if self._names_of_features is not None and len(self._names_of_features) != self._dim:
            raise ParameterError(
                f"features has {len(self._names_of_features)} names, but dim is {self._dim}",
                code="wrong-shape",
                argument="features",
                value=len(self._names_of_features),
                expected=self._dim,
            )

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
        return self._names_of_features

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
        if len(names) != self._dim:
            raise ParameterError(
                f"features has {len(names)} names, expected {self._dim}",
                code="wrong-shape",
                argument="features",
                value=len(names),
                expected=self._dim,
            )
        with self._lock:
            self._names_of_features = names
        return self

    def _named(self, context: Any) -> NamedValues | None:
        """Return the numbers of what has names, in the order of the features; None if nothing in it has a name."""
        return read_named(context, self._names_of_features, "context", self._taken)
