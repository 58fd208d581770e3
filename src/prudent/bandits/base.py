"""What bandits of products have in common: features with names, evidence that fades, copies, and a state in a file."""

from __future__ import annotations

import copy
import os
from typing import Any, ClassVar, Self

from .._support.checks import probability, whole_number
from .._support.locks import Guarded
from .._support.state import Arrays, Load, State, restore, restore_bytes, state_parts, write_state
from ..data.features import NamedValues, Names, checked_names, read_named
from ..errors import ParameterError
from .fading import Drift, HalfLife
from .step import Uniforms

__all__ = ["ProductBandit"]


class ProductBandit(Guarded):
    """A bandit that learns from contexts of ``dim`` features; subclasses decide."""

    _KIND: ClassVar[str]  # what state files call it
    _VERSION: ClassVar[int]  # of the state
    load = Load()

    _dim: int
    _intercept: bool
    _names_of_features: Names | None
    _drift: Drift | None
    _decisions: int
    _stream: Uniforms

    def _set_features(self, dim: Any, features: Any, intercept: bool, taken: tuple[str, ...] = ()) -> None:
        """Take the number of features, and their names if there are any."""
        self._intercept = intercept
        self._taken = ("intercept",) * intercept + taken
        self._names_of_features = None if features is None else checked_names(features, "features", self._taken)
        if dim is None:
            if self._names_of_features is None:
                raise ParameterError("give dim, the number of features, or features, their names")
            dim = len(self._names_of_features)
        self._dim = whole_number(dim, "dim", minimum=self._least_dim())
        if self._names_of_features is not None and len(self._names_of_features) != self._dim:
            raise ParameterError(f"features has {len(self._names_of_features)} names, but dim is {self._dim}")

    def _least_dim(self) -> int:
        return 1

    # -- what it is ----------------------------------------------------------------------------------------

    @property
    def dim(self) -> int:
        """The number of features D of a context, without the intercept."""
        return self._dim

    @property
    def intercept(self) -> bool:
        """Whether a constant feature is put before those of a context."""
        return self._intercept

    @property
    def features(self) -> Names | None:
        """The names of the features, as given or as first seen in a context that had names; None without names.

        Once they are known, a context that has names (a dict, a row or table of pandas) is put into their order, and
        refused if it lacks one or has others. Lists and arrays go by position, always.

        >>> from prudent.bandits import LinearBandit
        >>> bandit = LinearBandit(2, dim=2, noise_sd=1.0)
        >>> _ = bandit.update({"age": 3.0, "price": 1.0}, 0, 1.0)
        >>> bandit.features
        ('age', 'price')
        >>> bandit.predict({"price": 1.0, "age": 3.0})[0] == bandit.predict([3.0, 1.0])[0]
        array([ True,  True])
        """
        return self._names_of_features

    def name_features(self, features: Any) -> Self:
        """Give the features other names, or names at last, in the order of positions.

        >>> from prudent.bandits import LinearBandit
        >>> LinearBandit(2, dim=2).name_features(["age", "price"]).features
        ('age', 'price')
        """
        names = checked_names(features, "features", self._taken)
        if len(names) != self._dim:
            raise ParameterError(f"features has {len(names)} names, expected {self._dim}")
        with self._lock:
            self._names_of_features = names
        return self

    @property
    def half_life(self) -> HalfLife | None:
        """The half-life of evidence, with its ``length`` and ``unit``."""
        return None if self._drift is None else self._drift.half

    @property
    def decisions(self) -> int:
        """The number of decisions taken; the next one is number ``decisions + 1``."""
        return self._decisions

    def _told(self, given: Any, label: str) -> NamedValues | None:
        """Return the numbers of what has names, in the order of the features; None if nothing in it has a name."""
        return read_named(given, self._names_of_features, label, self._taken)

    # -- evidence ------------------------------------------------------------------------------------------

    def forget(self, factor: float) -> Self:
        """Multiply all evidence by ``factor``, from 0 to 1; the prior stays.

        >>> from prudent.bandits import LinearBandit, SharedLinearBandit
        >>> bandit = LinearBandit(1, dim=1, noise_sd=1.0, intercept=False).update([[1.0], [1.0]], [0, 0], [3.0, 3.0])
        >>> bandit.forget(0.5).posterior(0).mean()
        array([1.5])
        >>> shared = SharedLinearBandit(dim=1, noise_sd=1.0, intercept=False).update([[1.0], [1.0]], [3.0, 3.0])
        >>> shared.forget(0.5).coefficients()[0]
        array([1.5])
        """
        share = probability(factor, "factor")
        with self._lock:
            self._forget(share)
        return self

    def _forget(self, factor: float) -> None:
        raise NotImplementedError

    # -- state ---------------------------------------------------------------------------------------------

    def copy(self, stream: int | None = None) -> Self:
        """Return a bandit in the same state, with the same random stream or with that of a worker, 0, 1, ...

        Worker k has the same stream whenever it starts from the same state, and never that of another worker.
        ``load(path, stream=k)`` does the same with a saved state.

        >>> from prudent.bandits import LinearBandit
        >>> bandit = LinearBandit(2, dim=1, noise_sd=1.0, seed=3)
        >>> first, again, second = bandit.copy(stream=0), bandit.copy(stream=0), bandit.copy(stream=1)
        >>> scores = [each.select([1.0]).score for each in (first, again, second)]
        >>> scores[0] == scores[1], scores[0] == scores[2]
        (True, False)
        """
        twin = copy.deepcopy(self)
        if stream is not None:
            twin._stream.spawn(whole_number(stream, "stream", 0))
        return twin

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state to ``path``, random stream included; the file appears whole or not at all.

        >>> import tempfile
        >>> from prudent.bandits import LinearBandit
        >>> bandit = LinearBandit(2, dim=1, noise_sd=1.0, seed=3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bandit.save(f"{folder}/bandit.state")
        ...     again = LinearBandit.load(f"{folder}/bandit.state")
        >>> again.select([1.0]).score == bandit.select([1.0]).score
        True
        """
        with self._lock:
            values, arrays = copy.deepcopy(self._state())
        write_state(path, self._KIND, self._VERSION, values, arrays)

    def to_bytes(self) -> bytes:
        """Return what :meth:`save` writes, for a store of your own; :meth:`from_bytes` reads it.

        >>> from prudent.bandits import LinearBandit
        >>> LinearBandit.from_bytes(LinearBandit(["a", "b"], dim=1).to_bytes()).arms
        ('a', 'b')
        """
        with self._lock:
            return b"".join(state_parts(self._KIND, self._VERSION, *self._state()))

    @classmethod
    def from_bytes(cls, content: bytes, name: str = "content") -> Self:
        """Return the bandit that :meth:`to_bytes` was called on; ``name`` is what errors call the bytes."""
        return restore_bytes(content, name, cls._KIND, cls._VERSION, cls._restored)

    @classmethod
    def read(cls, path: str | os.PathLike[str], stream: int | None = None) -> Self:
        """Return the bandit that was saved at ``path``."""
        bandit = restore(path, cls._KIND, cls._VERSION, cls._restored)
        return bandit if stream is None else bandit.copy(stream)

    def state(self) -> State:
        """Return the values and arrays to save."""
        return self._state()

    def _state(self) -> State:
        raise NotImplementedError

    @classmethod
    def _restored(cls, values: dict[str, Any], arrays: Arrays) -> Self:
        """Return the bandit of a state; raise if it cannot be one."""
        raise NotImplementedError

    @staticmethod
    def _upgraded(values: dict[str, Any], arrays: Arrays) -> State:
        """Return the state of an earlier version as one of this version."""
        raise NotImplementedError
