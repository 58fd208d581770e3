"""Copies of a bandit, and its state in a file or in bytes."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any, ClassVar, Self

from .._support.checks import whole_number
from .._support.state import Arrays, Load, State, restore, restore_bytes, state_parts, write_state
from ..types import PathLike
from .kernels.stream import Uniforms
from .named_features import NamedFeatures

__all__ = ["SavedBandit"]


class SavedBandit(NamedFeatures):
    """Base class of bandits that are copied and saved; subclasses say what their state is."""

    _KIND: ClassVar[str]  # what state files call it
    _VERSION: ClassVar[int] = 1  # of the state
    load = Load()

    _stream: Uniforms

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return copy.deepcopy(self.__dict__)

    def copy(self, stream: int | None = None) -> Self:
        """Return a bandit in the same state.

        Parameters
        ----------
        stream : int, optional
            Number of a worker, 0, 1, ..., whose random stream the copy gets. Worker k has the same stream whenever it
            starts from the same state, and never that of another worker. The default is the stream of this bandit.
            ``load(path, stream=k)`` does the same with a saved state.

        Returns
        -------
        Bandit
            An independent copy.

        Examples
        --------
        >>> from prudent.bandits import LinearBandit
        >>> bandit = LinearBandit(2, dim=1, noise_sd=1.0, rng=3)
        >>> workers = [bandit.copy(stream=k) for k in (0, 0, 1)]
        >>> scores = [worker.select([1.0]).score for worker in workers]
        >>> scores[0] == scores[1], scores[0] == scores[2]
        (True, False)
        """
        twin = copy.deepcopy(self)
        if stream is not None:
            twin.spawn(stream)
        return twin

    def spawn(self, stream: int) -> Self:
        """Go on with the random stream of a worker.

        Parameters
        ----------
        stream : int
            Number of the worker, 0, 1, ...

        Returns
        -------
        Bandit
            The bandit itself.
        """
        self._stream.spawn(whole_number(stream, "stream", 0))
        return self

    def save(self, path: PathLike) -> None:
        """Write the whole state to a file, random stream included; the file appears whole or not at all.

        Parameters
        ----------
        path : path-like
            File to write.

        Examples
        --------
        >>> import tempfile
        >>> from prudent.bandits import LinearBandit
        >>> bandit = LinearBandit(2, dim=1, noise_sd=1.0, rng=3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bandit.save(f"{folder}/bandit.state")
        ...     again = LinearBandit.load(f"{folder}/bandit.state")
        >>> again.select([1.0]).score == bandit.select([1.0]).score
        True
        """
        with self._lock:
            values, arrays = copy.deepcopy(self.state())
        write_state(path, self._KIND, self._VERSION, values, arrays)

    def to_bytes(self) -> bytes:
        """Return what ``save`` writes, for a store of your own.

        Returns
        -------
        bytes
            What ``from_bytes`` reads.

        Examples
        --------
        >>> from prudent.bandits import LinearBandit
        >>> LinearBandit.from_bytes(LinearBandit(["a", "b"], dim=1).to_bytes()).arms
        ('a', 'b')
        """
        with self._lock:
            return b"".join(state_parts(self._KIND, self._VERSION, *self.state()))

    @classmethod
    def from_bytes(cls, content: bytes, name: str = "content") -> Self:
        """Return the bandit that ``to_bytes`` was called on.

        Parameters
        ----------
        content : bytes
            What it returned.
        name : str, default="content"
            What errors call the bytes.

        Returns
        -------
        Bandit
            A bandit in that state.

        Raises
        ------
        StateFileError
            If the bytes are damaged, or of another kind or version.
        """
        return restore_bytes(content, name, cls._KIND, cls._VERSION, cls._restored)

    @classmethod
    def read(cls, path: PathLike, stream: int | None = None) -> Self:
        """Return the bandit that was saved in a file.

        Parameters
        ----------
        path : path-like
            File that ``save`` wrote.
        stream : int, optional
            Number of a worker, whose random stream the bandit gets; see ``copy``.

        Returns
        -------
        Bandit
            A bandit in that state.

        Raises
        ------
        StateFileError
            If the file is damaged, or of another kind or version.
        """
        bandit = restore(path, cls._KIND, cls._VERSION, cls._restored)
        return bandit if stream is None else bandit.copy(stream)

    @abstractmethod
    def state(self) -> State:
        """Return the values and arrays to save.

        Returns
        -------
        tuple of dict
            Values that JSON can hold, and arrays by name.
        """

    @classmethod
    @abstractmethod
    def _restored(cls, values: dict[str, Any], arrays: Arrays) -> Self:
        """Return the bandit of a state; raise if it cannot be one."""
