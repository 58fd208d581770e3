"""Copies of a bandit, and its state in a file or in bytes."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any, ClassVar, Self

import numpy as np

from .._support.checks import FloatArray, positive, whole_number
from .._support.locks import Changing
from .._support.state import (
    LARGEST_COUNT,
    Arrays,
    Load,
    State,
    generator_from_state,
    generator_state,
    restore,
    restore_bytes,
    state_parts,
    write_state,
)
from ..data.features import checked_names
from ..data.transformers import encoder_of
from ..errors import ParameterError
from ..schedules import Schedule, named_schedule, saved_schedule
from ..types import PathLike
from .arm_names import arm_names
from .belief.base import Belief
from .decision import Arm
from .fading import Drift, HalfLife
from .kernels.stream import Uniforms
from .limits import PropensityLimits
from .named_features import NamedFeatures
from .settings import BanditSettings


class SavedBandit(NamedFeatures):
    """Base class of bandits that are copied and saved; subclasses say what their state is."""

    _KIND: ClassVar[str]  # what state files call it
    _VERSION: ClassVar[int] = 1  # of the state
    load = Load()

    _belief: Belief
    _settings: BanditSettings
    _stream: Uniforms
    _drift: Drift | None
    _limits: PropensityLimits | None
    _index: dict[Arm, int]  # rows of the arms
    _decisions: int
    _rewards: int

    @property
    def belief(self) -> Belief:
        """What was learned. It is not a copy: change it only through the methods of the bandit."""
        return self._belief

    @abstractmethod
    def _add_names(self, names: list[Arm]) -> None:
        """Take the names of arms whose rows the belief has added."""

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return copy.deepcopy(self.__dict__)

    def copy(self, stream: int | None = None) -> Self:
        """Return a bandit in the same state.

        Parameters
        ----------
        stream : int, optional
            Number of a worker, 0, 1, ..., which gets a new random stream: that of no other worker, and never one that
            was given before, here or in another process. The default is the stream of this bandit, so that the copy
            decides as this bandit would. ``load(path, stream=k)`` and ``from_bytes(content, stream=k)`` do the same
            with a saved state.

        Returns
        -------
        Bandit
            An independent copy.

        Examples
        --------
        >>> from prudent.bandits import LinearBandit
        >>> bandit = LinearBandit(2, dim=1, noise_sd=1.0, rng=3)
        >>> workers = [bandit.copy(stream=k) for k in (0, 0, 1)]
        >>> len({worker.select([1.0]).score for worker in workers})
        3
        >>> bandit.copy().select([1.0]).score == bandit.select([1.0]).score
        True
        """
        twin = copy.deepcopy(self)
        if stream is not None:
            twin.spawn(stream)
        return twin

    def spawn(self, stream: int) -> Self:
        """Go on with a new random stream of a worker.

        It includes a nonce of the process, so no call gives a stream that another call has given.

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

        It is read back before it replaces an older file.

        Parameters
        ----------
        path : path-like
            File to write.

        Raises
        ------
        StateFileError
            If what was written cannot be loaded. An older file stays as it was.

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
        write_state(path, self._KIND, self._VERSION, values, arrays, self._restored)

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
    def from_bytes(cls, content: bytes, name: str = "content", *, stream: int | None = None) -> Self:
        """Return the bandit that ``to_bytes`` was called on.

        Parameters
        ----------
        content : bytes
            What it returned.
        name : str, default="content"
            What errors call the bytes.
        stream : int, optional
            Number of a worker, which gets a new random stream; see ``copy``.

        Returns
        -------
        Bandit
            A bandit in that state.

        Raises
        ------
        StateFileError
            If the bytes are damaged, or of another kind or version.
        """
        bandit = restore_bytes(content, name, cls._KIND, cls._VERSION, cls._restored)
        return bandit if stream is None else bandit.spawn(stream)

    @classmethod
    def read(cls, path: PathLike, stream: int | None = None) -> Self:
        """Return the bandit that was saved in a file.

        Parameters
        ----------
        path : path-like
            File that ``save`` wrote.
        stream : int, optional
            Number of a worker, which gets a new random stream; see ``copy``.

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
        return bandit if stream is None else bandit.spawn(stream)

    # -- decisions that can be repeated --------------------------------------------------------------------

    def seek(self, entropy: int, position: int = 0) -> Self:
        """Go on with the random stream of an entropy, from a position: the same two give the same draws anywhere.

        Parameters
        ----------
        entropy : int
            Number that the stream is made from. Use one of your own for every process.
        position : int, default=0
            Number of uniforms of the stream that were used before.

        Returns
        -------
        Bandit
            The bandit itself.

        Examples
        --------
        >>> from prudent.bandits import LinearBandit
        >>> bandit = LinearBandit(2, dim=1, noise_sd=1.0).seek(2**60)
        >>> _, before, score = bandit.select([1.0]), bandit.position, bandit.select([1.0]).score
        >>> bandit.seek(2**60, before).select([1.0]).score == score
        True
        """
        self._stream = Uniforms.at(whole_number(entropy, "entropy", 0), whole_number(position, "position", 0))
        return self

    @property
    def position(self) -> int:
        """Number of uniforms used since the random stream began, or since the state was loaded; see ``seek``."""
        return self._stream.position

    @property
    def counting(self) -> bool:
        """Whether a decision depends on how many were taken before: a schedule, first pulls, a growing sd, an end."""
        settings = self._settings
        ends = settings.horizon is not None or (settings.exploration == "auto" and not hasattr(self._belief, "tries"))
        return settings.falling or settings.first_pulls > 0 or settings.delta is not None or ends

    def clock(self) -> dict[str, Any]:
        """Return the numbers of decisions, in all and of every arm, that the next decision may depend on.

        Returns
        -------
        dict
            ``decisions``, and ``tries`` by arm; of items, which have no arms of their own, no ``tries``.
        """
        tries = getattr(self._belief, "tries", None)
        counts = {} if tries is None else dict(zip(self._index, tries.tolist(), strict=True))
        return {"decisions": self._decisions, "tries": counts}

    def set_clock(self, decisions: int, tries: Mapping[Arm, int]) -> Self:
        """Take numbers of decisions that ``clock`` returned; arms that are not there are left out.

        Parameters
        ----------
        decisions : int
            Number of decisions taken.
        tries : mapping of str or int to int
            Numbers of decisions for arms.

        Returns
        -------
        Bandit
            The bandit itself.
        """
        with self._lock:
            self._decisions = whole_number(decisions, "decisions", 0, LARGEST_COUNT)
            own, pulls = getattr(self._belief, "tries", None), self._belief.pulls
            for arm, count in tries.items():
                row = self._index.get(arm)
                if row is not None and own is not None:  # a reward without a decision counts as one
                    own[row] = max(whole_number(count, "tries", 0, LARGEST_COUNT), int(pulls[row]))
            self._went_on()
        return self

    def hold(self) -> Self:
        """Let evidence fade only by ``fade``: neither decisions nor rewards move its clock from now on.

        Likewise ``Features`` learn only by ``learn_features``.

        Returns
        -------
        Bandit
            The bandit itself.
        """
        self._held = True
        if self._drift is not None:
            self._drift.held = True
        return self

    def due(self, time: float) -> int | None:
        """Return the step to which evidence should fade, if that is later than where it is.

        Parameters
        ----------
        time : float
            Seconds since 1970; of a half-life in decisions their number counts instead.

        Returns
        -------
        int or None
            The step; None if there is nothing to do.
        """
        drift = self._drift
        if drift is None:
            return None
        tick = drift.due(self._decisions, time)
        return tick if drift.tick is None or tick > drift.tick else None

    def fade(self, tick: int) -> Self:
        """Let evidence fade to a step that ``due`` returned.

        Parameters
        ----------
        tick : int
            The step.

        Returns
        -------
        Bandit
            The bandit itself.
        """
        with self._lock, Changing(self):
            if self._drift is not None:
                self._forget(self._drift.to(whole_number(tick, "tick", -LARGEST_COUNT, LARGEST_COUNT)))
        return self

    @abstractmethod
    def _forget(self, factor: float) -> None:
        """Multiply all evidence by a factor."""

    def state(self) -> State:
        """Return the values and arrays to save.

        Returns
        -------
        tuple of dict
            Values that JSON can hold, and arrays by name.
        """
        settings = {field.name: getattr(self._settings, field.name) for field in fields(self._settings)}
        if settings["horizon"] is None:
            del settings["horizon"]
        if isinstance(self._settings.alpha, Schedule):
            settings["alpha"] = saved_schedule(self._settings.alpha)
        arrays = self._belief.arrays() | {"uniforms": self._stream.here().unused}
        values = {
            "settings": settings,
            "intercept": self._intercept,
            "features": None if self._encoder is not None or self.features is None else list(self.features),
            "half_life": None if self._drift is None else asdict(self._drift.half),
            "tick": None if self._drift is None else self._drift.tick,
            "arms": list(self._index),
            "decisions": self._decisions,
            "belief": self._belief.values(),
            "rng": generator_state(self._stream.rng),
        }
        if self._retired:
            values["retired"] = list(self._retired)
        if self._earlier_dims:
            values["earlier_dims"] = list(self._earlier_dims)
        if self._limits is not None:
            values["limits"] = self._limits.saved()
        if self._encoder is not None:
            values |= {"encoder": self._encoder.to_dict(), "seen": self._encoder.seen()}
        return values, arrays

    @classmethod
    @abstractmethod
    def _blank(cls, names: list[Arm], values: dict[str, Any], arrays: Arrays, **options: Any) -> Self:
        """Return a bandit without data for a state: its arms, what the belief says of itself, and its arrays."""

    @classmethod
    def _restored(cls, values: dict[str, Any], arrays: Arrays) -> Self:
        """Return the bandit of a state; raise if it cannot be one."""
        settings = dict(values["settings"])
        if isinstance(settings["alpha"], dict):
            settings["alpha"] = named_schedule(settings["alpha"])
        if not isinstance(values["arms"], list):
            raise ValueError(f"arms must be a list of names, got {values['arms']!r}")
        belief, half = values["belief"], values["half_life"]
        encoder = None if values.get("encoder") is None else encoder_of(values["encoder"])
        if encoder is not None:
            encoder.resume(values.get("seen") or {})
        options = {
            "intercept": values["intercept"],
            "features": values["features"] if encoder is None else encoder,
            "rewards": belief["rewards"],
            "noise_sd": belief.get("noise_sd"),
            "half_life": None if half is None else HalfLife(**half),
            "settings": BanditSettings(**settings),
        }
        return cls._blank(values["arms"], belief, arrays, **options).restore(values, arrays)

    def restore(self, values: dict[str, Any], arrays: Arrays) -> Self:
        """Take a state that ``state`` returned; the bandit must have the same options and no data.

        Parameters
        ----------
        values : dict
            Values.
        arrays : dict of str to ndarray
            Arrays by name.

        Returns
        -------
        Bandit
            The bandit itself.

        Raises
        ------
        ValueError
            If it cannot be the state of such a bandit.
        """
        names = values["arms"]
        if values.get("limits") is not None:
            self._limits = PropensityLimits.restored(values["limits"])
        if names and not self._index:  # of items that have offsets
            self._add_names(arm_names(names, "arms"))
        if self._drift is not None and values["tick"] is not None:
            self._drift.tick = whole_number(values["tick"], "tick", -LARGEST_COUNT, LARGEST_COUNT)
        if self._belief.values()["prior"] != values["belief"]["prior"]:
            raise ValueError(f"prior is {values['belief']['prior']!r}")
        self._belief.restore(values["belief"], arrays)
        if len(self._index) != len(self._belief.pulls):
            raise ValueError(f"{len(self._index)} names of {len(self._belief.pulls)} rows")
        self._rewards = self._belief.n_rewards
        self._decisions = whole_number(values["decisions"], "decisions", 0, LARGEST_COUNT)
        unused = arrays["uniforms"]
        if unused.ndim != 1 or unused.dtype != np.float64 or not ((unused >= 0.0) & (unused < 1.0)).all():
            raise ValueError("uniforms must be numbers in [0, 1)")
        self._stream = Uniforms(generator_from_state(values["rng"]), unused)
        self._retired = tuple(values.get("retired", ()))
        if any(name not in (self._names_of_features or ()) for name in self._retired):
            raise ValueError(f"retired is {values['retired']!r}, which are no features")
        self._earlier_dims = tuple(values.get("earlier_dims", ()))
        if list(self._earlier_dims) != sorted(
            {size for size in self._earlier_dims if type(size) is int and 0 <= size < self._dim}
        ):
            raise ValueError(f"earlier_dims is {values['earlier_dims']!r}, which must rise and be below {self._dim}")
        self._went_on()
        return self

    # -- another schema ------------------------------------------------------------------------------------

    def migrate(self, features: Iterable[str], prior_precision: float | None = None) -> Self:
        """Go over to another set of features, and keep what was learned.

        Features that are new come after the others; until now they were 0. Features that are not in `features` any
        more are retired: contexts with names may leave them out, and they are 0 then. What was learned of them stays,
        so that rewards of decisions that had them are still learned exactly.

        Parameters
        ----------
        features : iterable of str
            Names of the features from now on. Positions of a plain array stay those of ``features`` of the bandit,
            the retired ones included.
        prior_precision : float, optional
            Prior precision of the coefficients of new features. The default is that of the others, if they all have
            the same.

        Returns
        -------
        Bandit
            The bandit itself.

        Raises
        ------
        ParameterError
            If the features have no names, or come from ``Features`` or a transformer, or the prior precision of new
            ones is not known.

        Examples
        --------
        >>> from prudent.bandits import LinearBandit
        >>> bandit = LinearBandit(2, features=["age", "price"], noise_sd=1.0)
        >>> _ = bandit.update({"age": 3.0, "price": 1.0}, 0, 1.0).migrate(["age", "visits"])
        >>> bandit.features, bandit.retired
        (('age', 'price', 'visits'), ('price',))
        >>> bandit.select({"age": 3.0, "visits": 7.0}).context
        array([3., 0., 7.])
        """
        known, names = self._names_of_features, checked_names(features, "features", self._taken)
        if known is None or self._encoder is not None or not self._belief.axes:
            text = "migrate is for a bandit whose features have names, and that has a coefficient for each of them"
            raise ParameterError(text, code="no-features", argument="features")
        with self._lock, Changing(self):
            values, arrays = copy.deepcopy(self.state())
            more = [name for name in names if name not in known]
            if more:
                known_priors = np.asarray(values["belief"].get("given", arrays["prior_precision"]))
                precision = self._common_precision(known_priors, prior_precision)
                values["belief"], arrays = self._belief.widened(values["belief"], arrays, len(more), precision)
                values["earlier_dims"] = [*self._earlier_dims, self._dim]
            values |= {"features": [*known, *more], "retired": [name for name in known if name not in names]}
            twin = self._restored(values, arrays)
            self._belief, self._dim = twin.belief, twin.dim
            self._names_of_features, self._retired = twin.features, twin.retired
            self._earlier_dims = twin.earlier_dims
            self._went_on()
        return self

    def _common_precision(self, priors: FloatArray, given: float | None) -> float:
        """Return the prior precision of new features."""
        if given is not None:
            return positive(given, "prior_precision")
        first = priors if priors.ndim == 2 else priors[0]
        known = np.diagonal(first)[int(self._intercept) :]
        if not known.size or (known != known[0]).any():
            text = "prior_precision of the features is not the same for all: say that of the new ones"
            raise ParameterError(text, code="missing-argument", argument="prior_precision")
        return float(known[0])

    def _went_on(self) -> None:
        """Bring up to date what depends on the number of decisions."""
