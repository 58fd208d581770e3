"""Contextual bandits of other libraries behind the methods that ours have.

What a bandit must have to be simulated and replayed is ``arms``, ``select`` and ``update``; to be judged by
``off_policy`` it must have ``propensities``. A library that tells the probabilities of arms (Vowpal Wabbit, coba) gives
all of these, the others the first three.
"""

from __future__ import annotations

import copy
import importlib
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np

from .._support.checks import FloatArray, finite_array, finite_number, generator, non_negative_array, number_array
from ..bandits.arm_names import arm_names
from ..bandits.decision import Arm
from ..errors import DataError, ParameterError
from ..types import ArrayLike, RngLike


class Engine(Protocol):
    """One library: what learns, and chooses or tells probabilities."""

    bandit: Any

    def learn(self, point: FloatArray, place: int, reward: float, chance: float) -> None:
        """Learn a reward."""


class TellingEngine(Engine, Protocol):
    """One library that tells probabilities."""

    def chances(self, point: FloatArray) -> FloatArray:
        """Return the probabilities of the arms."""


class ForeignBandit:
    """Bandit of another library with the methods of ours, made by ``adapt_bandit``.

    Parameters
    ----------
    arms : sequence of str or int
        Names of the arms.
    engine : object
        Has ``learn(context, place, reward, chance)``, and ``choose(context)``, which returns the place of an arm.
    """

    def __init__(self, arms: Sequence[Arm], engine: Engine) -> None:
        self._names = tuple(arms)
        self._engine: Any = engine
        self._places = {name: place for place, name in enumerate(self._names)}
        self._chance: float | None = None

    @property
    def arms(self) -> tuple[Arm, ...]:
        """Names of the arms."""
        return self._names

    @property
    def bandit(self) -> Any:
        """The bandit of the other library."""
        return self._engine.bandit

    def _eligible(self, arms: Iterable[Arm] | None) -> list[int]:
        """Return the places of the eligible arms."""
        names = self._names if arms is None else list(arms)
        for i, name in enumerate(names):
            if name not in self._places:
                message = f"arms[{i}] is {name!r}, which is not one of the arms"
                raise ParameterError(message, code="unknown-arm", argument=f"arms[{i}]", arm=name)
        return [self._places[name] for name in names]

    def select(self, context: ArrayLike, arms: Iterable[Arm] | None = None) -> Any:
        """Choose an arm.

        Parameters
        ----------
        context : array-like, [D]
            Context.
        arms : iterable of str or int, optional
            The eligible arms. A library that only chooses among all arms takes no others.

        Returns
        -------
        object
            With the ``arm``, and its ``propensity``, None where the library does not tell.

        Raises
        ------
        ParameterError
            If the library cannot leave out arms.
        """
        places = self._eligible(arms)
        if len(places) < len(self._names) and len(places) != 1:
            message = f"arms leaves out some, but {type(self.bandit).__module__.split('.')[0]} chooses among all arms"
            raise ParameterError(message, code="not-supported", argument="arms")
        point = finite_array(context, "context", ndim=1)
        place = places[0] if len(places) == 1 else self._engine.choose(point)
        return SimpleNamespace(arm=self._names[place], propensity=None)

    def update(self, context: ArrayLike, arm: Arm, reward: float) -> ForeignBandit:
        """Learn a reward.

        Parameters
        ----------
        context : array-like, [D]
            Context.
        arm : str or int
            The arm.
        reward : float
            Its reward.

        Returns
        -------
        ForeignBandit
            The bandit itself.
        """
        point, (place,) = finite_array(context, "context", ndim=1), self._eligible([arm])
        self._engine.learn(point, place, finite_number(reward, "reward"), self._chance_of(point, place))
        return self

    def _chance_of(self, point: FloatArray, place: int) -> float:
        """Return the probability with which an arm was chosen, as far as it is known."""
        return 1.0


class TellingBandit(ForeignBandit):
    """Bandit of another library that tells the probabilities of its arms.

    Parameters
    ----------
    arms : sequence of str or int
        Names of the arms.
    engine : object
        Has ``chances(context)``, probabilities [A], and ``learn(context, place, reward, chance)``.
    rng : Generator
        Draws the arms.
    """

    def __init__(self, arms: Sequence[Arm], engine: TellingEngine, rng: np.random.Generator) -> None:
        super().__init__(arms, engine)
        self._rng = rng
        self._last: tuple[bytes, FloatArray] | None = None

    def propensities(self, context: ArrayLike, arms: Iterable[Arm] | None = None) -> FloatArray:
        """Return the probabilities of eligible arms; those of arms that are left out go to the others in proportion.

        Parameters
        ----------
        context : array-like, [D] or [T, D]
            Contexts.
        arms : iterable of str or int, optional
            The eligible arms. The default is all.

        Returns
        -------
        ndarray of float, [k] or [T, k]
            Probabilities.
        """
        points, places = finite_array(context, "context"), self._eligible(arms)
        if points.ndim not in (1, 2):
            message = f"context has shape {points.shape}, expected [D] or [T, D]"
            raise DataError(message, code="wrong-shape", argument="context", value=points.shape)
        told = [non_negative_array(self._engine.chances(point), "chances", ndim=1) for point in np.atleast_2d(points)]
        rows = np.array([chances[places] for chances in told]).reshape(len(told), len(places))
        rows = rows / np.maximum(rows.max(axis=1, keepdims=True), 1.0)  # whose sum may be too large a number
        total = rows.sum(axis=1, keepdims=True)
        rows = np.where(total > 0.0, rows / np.where(total > 0.0, total, 1.0), 1.0 / len(places))
        return rows[0] if points.ndim == 1 else rows

    def select(self, context: ArrayLike, arms: Iterable[Arm] | None = None) -> Any:
        """Choose an arm.

        Parameters
        ----------
        context : array-like, [D]
            Context.
        arms : iterable of str or int, optional
            The eligible arms. The default is all.

        Returns
        -------
        object
            With the ``arm`` and its ``propensity``.
        """
        point, places = finite_array(context, "context", ndim=1), self._eligible(arms)
        chances = self.propensities(point, arms)
        drawn = int(self._rng.choice(len(places), p=chances))
        whole = np.zeros(len(self._names))
        whole[places] = chances
        self._last = point.tobytes(), whole
        return SimpleNamespace(arm=self._names[places[drawn]], propensity=float(chances[drawn]))

    def _chance_of(self, point: FloatArray, place: int) -> float:
        if self._last is None or self._last[0] != point.tobytes() or not self._last[1][place] > 0.0:
            return max(float(self.propensities(point)[place]), 1e-6)  # of a reward that comes late
        return float(self._last[1][place])


class _Mabwiser:
    def __init__(self, bandit: Any, arms: Sequence[Arm]) -> None:
        self.bandit, self._arms = bandit, list(bandit.arms)

    def _row(self, point: FloatArray) -> FloatArray:
        row = np.append(point, 1.0)[np.newaxis]  # it has no intercept
        if not getattr(self.bandit, "_is_initial_fit", False):  # it cannot start from nothing; zeros say nothing
            self.bandit.fit(self._arms, [0.0] * len(self._arms), np.zeros((len(self._arms), row.shape[1])))
        return row

    def choose(self, point: FloatArray) -> int:
        return self._arms.index(self.bandit.predict(self._row(point)))

    def learn(self, point: FloatArray, place: int, reward: float, chance: float) -> None:
        self.bandit.partial_fit([self._arms[place]], [reward], self._row(point))


class _Contextualbandits:
    def __init__(self, bandit: Any, arms: Sequence[Arm]) -> None:
        self.bandit = bandit

    def choose(self, point: FloatArray) -> int:
        return int(self.bandit.predict(point[np.newaxis])[0])

    def learn(self, point: FloatArray, place: int, reward: float, chance: float) -> None:
        self.bandit.partial_fit(point[np.newaxis], np.array([place]), np.array([reward]))


class _Bayesianbandits:
    def __init__(self, bandit: Any, arms: Sequence[Arm]) -> None:
        self.bandit, self._tokens = bandit, [arm.action_token for arm in bandit.arms]

    def choose(self, point: FloatArray) -> int:
        return self._tokens.index(self.bandit.pull(np.append(point, 1.0)[np.newaxis])[0])  # it has no intercept

    def learn(self, point: FloatArray, place: int, reward: float, chance: float) -> None:
        chosen = self.bandit.select_for_update(self._tokens[place])
        chosen.update(np.append(point, 1.0)[np.newaxis], np.array([reward]))


class _Vowpalwabbit:
    def __init__(self, bandit: Any, arms: Sequence[Arm]) -> None:
        self.bandit, self._count = bandit, len(arms)
        told = bandit.get_arguments()  # which may say both, of one that is not of that form
        self._together = re.search(r"--cb_explore \d", told if isinstance(told, str) else " ".join(told)) is None

    def __deepcopy__(self, memo: Any) -> _Vowpalwabbit:
        twin, module = copy.copy(self), importlib.import_module("vowpalwabbit")
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "model"
            self.bandit.save(str(model))
            twin.bandit = module.Workspace(f"-i {model} --quiet")
        return twin

    def _example(self, point: FloatArray, label: str = "", place: int = -1) -> Any:
        told = " ".join(f"{i}:{value:.7g}" for i, value in enumerate(point) if value)
        if not self._together:
            return f"{label} | {told}"
        return [f"shared |C {told}", *(f"{label if a == place else ''} |A a{a}" for a in range(self._count))]

    def chances(self, point: FloatArray) -> FloatArray:
        chances = np.asarray(self.bandit.predict(self._example(point)), dtype=np.float64)
        return chances / chances.sum()

    def learn(self, point: FloatArray, place: int, reward: float, chance: float) -> None:
        label = f"{0 if self._together else place + 1}:{-reward:.9g}:{chance:.9g}"
        self.bandit.learn(self._example(point, label, place))


class _Coba:
    def __init__(self, bandit: Any, arms: Sequence[Arm]) -> None:
        self.bandit = bandit
        size = len(arms)
        self._actions = [tuple(int(i == j) for j in range(size)) for i in range(size)]

    def chances(self, point: FloatArray) -> FloatArray:
        context = tuple(point.tolist())
        return number_array([self.bandit.score(context, self._actions, action) for action in self._actions], "score")

    def learn(self, point: FloatArray, place: int, reward: float, chance: float) -> None:
        self.bandit.learn(tuple(point.tolist()), self._actions[place], reward, chance)


_ENGINES: dict[str, Callable[[Any, Sequence[Arm]], Any]] = {
    "mabwiser": _Mabwiser,
    "contextualbandits": _Contextualbandits,
    "bayesianbandits": _Bayesianbandits,
    "vowpalwabbit": _Vowpalwabbit,
    "coba": _Coba,
}


def adapt_bandit(bandit: object, arms: int | Iterable[Arm], *, rng: RngLike = None) -> ForeignBandit:
    """Return a bandit of another library with the methods of ours.

    It can then be played by ``simulate_bandit`` and replayed by ``replay``. One that tells probabilities, of
    Vowpal Wabbit or coba, is also a policy for ``off_policy``.

    Parameters
    ----------
    bandit : object
        Bandit of mabwiser (``MAB``), contextualbandits, bayesianbandits (``ContextualAgent``), Vowpal Wabbit
        (``Workspace`` with ``--cb_explore`` or ``--cb_explore_adf``) or coba (a learner with ``score``). It
        has the same number of arms. Libraries without an intercept get a constant feature.
    arms : int or iterable of str or int
        The arms, in the order of the library.
    rng : RngLike, optional
        Seed or Generator that draws arms where the library tells their probabilities.

    Returns
    -------
    ForeignBandit
        The bandit with ``arms``, ``select`` and ``update``, and ``propensities`` where they are known.

    Raises
    ------
    ParameterError
        If the bandit is of no library that is known here.

    Examples
    --------
    >>> class Greedy:  # a learner as in coba
    ...     def score(self, context, actions, action):
    ...         return float(action == actions[0])
    ...     def learn(self, context, action, reward, chance):
    ...         pass
    >>> adapt_bandit(Greedy(), ["a", "b"], rng=1).propensities([0.5])
    array([1., 0.])
    """
    names = arm_names(arms, "arms")
    library = type(bandit).__module__.split(".")[0]
    telling = hasattr(bandit, "score") and hasattr(bandit, "learn")
    if library not in _ENGINES and telling:
        library = "coba"
    if library not in _ENGINES:
        known = ", ".join(_ENGINES)
        message = f"bandit is {bandit!r}, expected a bandit of {known}, or one with score and learn"[:300]
        raise ParameterError(message, code="wrong-type", argument="bandit", value=bandit, expected=known)
    engine = _ENGINES[library](bandit, names)
    return TellingBandit(names, engine, generator(rng)) if hasattr(engine, "chances") else ForeignBandit(names, engine)
