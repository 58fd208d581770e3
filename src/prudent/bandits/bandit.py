"""The linear bandit of a product: it decides, learns, knows its chances, and survives a restart.

The mathematics is told in :mod:`prudent.bandits`. This file checks what the user gives and keeps the state; kernels in
:mod:`~prudent.bandits.step` decide and learn.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Self

import numpy as np

from .._numerics.compensated import two_sums
from .._support.checks import FloatArray, IntArray, finite_array, first_index, generator, whole_number
from .._support.state import (
    LARGEST_COUNT,
    Arrays,
    Load,
    State,
    generator_from_state,
    generator_state,
    require_counts,
    restore,
    restore_bytes,
    state_parts,
    write_state,
)
from ..errors import DataError, ParameterError, PrudentError
from ..posteriors.linear import LinearGaussianPosterior, require_sums
from .batch import decide_rows, learn_rows
from .decision import Arm, BatchDecision, Decision, LawKey
from .settings import BanditSettings, checked_sd
from .step import LARGEST, Uniforms, arms_of, decide_one, learn, refresh, usable

__all__ = ["LinearBandit"]


_STATE_VERSION = 1


class LinearBandit:
    """A contextual bandit with linear rewards and a dial for risk.

    ``n_arms`` is a number (arms 0, 1, ...) or the arms' names, strings or integers; contexts have ``dim`` features.
    Give ``alpha`` (the risk level; 0 is Thompson sampling) or ``settings``. Rewards are s'theta_a plus noise of sd
    ``noise_sd``; before data theta_a ~ Normal(0, noise_sd^2 P^-1), where P is ``prior_precision``, a number
    (times the identity) or a matrix [D,D]. ``seed`` is a seed or a Generator, which the bandit then owns.

    There is no hidden state between ``select`` and ``update``: rewards may come late, in any order, or never. Threads
    that share a bandit must take turns. Processes have a bandit each: forked ones go on with random streams of their
    own, which differ from run to run; ``load(path, stream=worker)`` gives each worker a stream that can be repeated.
    What they learn is brought together by :meth:`merge`, or at once by a :class:`~prudent.bandits.Journal`.

    >>> bandit = LinearBandit(["red", "green", "blue"], dim=2, alpha=0.8, noise_sd=1.0, seed=7)
    >>> decision = bandit.select([1.0, 0.5], arms=["red", "blue"])
    >>> decision.arm in ("red", "blue"), round(decision.propensity, 9)
    (True, 0.5)
    >>> bandit.update([1.0, 0.5], decision.arm, reward=1.0)
    LinearBandit(3 arms, dim=2, settings='BRPS(0.8)', 1 decisions, 1 rewards)
    """

    load = Load()

    def __init__(
        self,
        n_arms: int | Iterable[Arm],
        dim: int,
        alpha: float | None = None,
        *,
        noise_sd: float = 1.0,
        prior_precision: Any = 1.0,
        settings: BanditSettings | None = None,
        seed: Any = None,
    ) -> None:
        if settings is None:
            settings = BanditSettings(0.0 if alpha is None else alpha)
        elif alpha is not None:
            raise ParameterError("give alpha or settings, not both: settings have their own alpha")
        elif not isinstance(settings, BanditSettings):
            raise ParameterError(f"settings must be a BanditSettings, got {settings!r}")
        blank = LinearGaussianPosterior(dim, prior_precision, checked_sd(noise_sd, "noise_sd"))
        names = _arm_names(n_arms, "n_arms")
        self._settings = settings
        self._dim = blank.dim
        self._prior = blank.prior
        self._noise_sd = blank.noise_sd
        self._decisions = 0
        self._stream = Uniforms(generator(seed, "seed"), np.empty(0))
        # what every call needs, worked out once
        self._rule = settings.rule(blank.dim, blank.noise_sd)
        self._rule_fields = tuple(self._rule)
        self._per_arm = self._rule.per_arm
        self._law: LawKey = (settings.n, tuple(self._rule.weights.tolist()), settings.clip)
        gram = np.zeros((len(names), 2, blank.dim + 1, blank.dim + 1))
        self._set_arms(names, gram, np.zeros(len(names), dtype=np.int64))

    def _set_arms(self, names: list[Arm], gram: FloatArray, pulls: IntArray) -> None:
        self._names = tuple(names)
        self._index = {name: i for i, name in enumerate(names)}
        self._every = np.arange(len(names))
        self._pulls = pulls  # [A]
        self._rewards = int(pulls.sum())
        self._arms = arms_of(self._prior, self._noise_sd, gram)
        self._arms_fields = tuple(self._arms)
        self._gram, self._stale = gram, self._arms.stale

    @classmethod
    def from_log(
        cls,
        log: Any,
        arms: int | Iterable[Arm] | None = None,
        alpha: float | None = None,
        *,
        noise_sd: float = 1.0,
        prior_precision: Any = 1.0,
        settings: BanditSettings | None = None,
        seed: Any = None,
    ) -> Self:
        """Return a bandit that has learned from a log of (context, arm, reward) rows.

        ``log`` is a sequence of such rows, or a table or mapping with columns ``context``, ``arm`` and ``reward``.
        ``arms`` are the arms to choose from, by default those of the log in order of appearance.

        >>> bandit = LinearBandit.from_log([([1.0], "a", 2.0), ([1.0], "b", 1.0)], alpha=0.5)
        >>> bandit.posterior("a").mean()
        array([1.])
        """
        contexts, pulled, rewards = _log_columns(log)
        points = finite_array(contexts, "context", ndim=2)
        if arms is None:
            names = _arm_names(dict.fromkeys(_plain_name(name) for name in pulled), "arm", DataError)
        else:
            names = _arm_names(arms, "arms")
        options: dict[str, Any] = {"prior_precision": prior_precision, "settings": settings, "seed": seed}
        return cls(names, points.shape[1], alpha, noise_sd=noise_sd, **options).update(points, pulled, rewards)

    # -- what it is ----------------------------------------------------------------------------------------

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The names of the arms."""
        return self._names

    @property
    def dim(self) -> int:
        """The number of features D of a context."""
        return self._dim

    @property
    def alpha(self) -> float:
        """The risk level."""
        return self._settings.alpha

    @property
    def settings(self) -> BanditSettings:
        """How decisions are taken."""
        return self._settings

    @property
    def noise_sd(self) -> float:
        """The sd of a reward around its mean."""
        return self._noise_sd

    @property
    def decisions(self) -> int:
        """The number of decisions taken; the next one is number ``decisions + 1``."""
        return self._decisions

    @property
    def pulls(self) -> dict[Arm, int]:
        """The number of rewards seen of every arm."""
        return dict(zip(self._names, self._pulls.tolist(), strict=True))

    def posterior(self, arm: Arm) -> LinearGaussianPosterior:
        """Return a copy of the posterior of theta of one arm.

        >>> LinearBandit(2, dim=1, noise_sd=2.0).posterior(1).covariance()
        array([[4.]])
        """
        place = self._arm_index(arm, error=ParameterError)
        return LinearGaussianPosterior.of_sums(self._prior, self._noise_sd, self._gram[place].copy())

    def add_arm(self, arm: Arm) -> Self:
        """Add an arm, which starts from the prior.

        >>> LinearBandit(["a"], dim=1).add_arm("b").arms
        ('a', 'b')
        """
        name = _checked_name(arm, "arm")
        if name in self._index:
            raise ParameterError(f"arm {name!r} is already there")
        gram = np.concatenate([self._gram, np.zeros_like(self._gram[:1])])
        self._set_arms([*self._names, name], gram, np.append(self._pulls, 0))
        return self

    def remove_arm(self, arm: Arm) -> Self:
        """Remove an arm and what was learned of it.

        >>> LinearBandit(["a", "b"], dim=1).remove_arm("a").arms
        ('b',)
        """
        place = self._arm_index(arm, error=ParameterError)
        if len(self._names) == 1:
            raise ParameterError(f"arm {arm!r} is the only one: a bandit needs at least one arm")
        names = [name for name in self._names if name != self._names[place]]
        self._set_arms(names, np.delete(self._gram, place, axis=0), np.delete(self._pulls, place))
        return self

    # -- decisions -----------------------------------------------------------------------------------------

    def select(
        self, context: Any, arms: Iterable[Arm] | None = None, *, propensity: bool = True
    ) -> Decision | BatchDecision:
        """Choose among the eligible ``arms`` (by default all) in a context [D] or in contexts [T,D].

        One context gives a :class:`Decision`. Contexts [T,D] give a :class:`BatchDecision`; they are all decided from
        the posterior as it is now. The propensity of a choice is worked out when it is read; ``propensity=False``
        leaves it out.

        >>> bandit = LinearBandit(3, dim=2, alpha=0.9, seed=1)
        >>> bandit.select([0.2, 0.4]).arm in (0, 1, 2)
        True
        >>> bandit.select([[0.2, 0.4], [1.0, 0.0]], arms=[0, 2]).arm.shape
        (2,)
        """
        point = self._points(context)
        if arms is None:
            names, eligible = self._names, self._every
        else:
            names, eligible = self._eligible(arms)
        law = self._law if propensity else None
        if point.ndim != 1:
            return self._select_rows(point, names, eligible, law)
        stream, k = self._stream, len(names)
        if stream.next + k * self._per_arm > stream.block.size:
            stream.reserve(k * self._per_arm)
        moments = np.empty((3, k))
        place, score, stream.next = decide_one(
            self._arms_fields,
            self._rule_fields,
            self._decisions + 1,
            point,
            eligible,
            stream.block,
            stream.next,
            moments,
        )
        if place < 0:
            raise self._context_error(context)
        self._decisions += 1
        return Decision(names, place, score, moments, law, point, (self._decisions - 1, self._rewards))

    def _select_rows(
        self, points: FloatArray, names: tuple[Arm, ...], eligible: IntArray, law: LawKey | None
    ) -> BatchDecision:
        points = self._checked_rows(points)
        decided = decide_rows(self._arms, self._rule, self._decisions + 1, points, eligible, self._stream)
        self._decisions += len(points)
        return BatchDecision(names, *decided, self._rule, law)

    def _checked_rows(self, points: FloatArray) -> FloatArray:
        if points.ndim != 2 or points.shape[1] != self._dim or not usable(points.reshape(-1)):
            raise self._context_error(points)
        return np.ascontiguousarray(points)

    def _points(self, context: Any) -> FloatArray:
        """Return a context or contexts as an array of our own."""
        try:
            return np.array(context, dtype=np.float64)
        except (TypeError, ValueError):
            raise self._context_error(context) from None

    # -- rewards -------------------------------------------------------------------------------------------

    def update(self, context: Any, arm: Any, reward: Any) -> Self:
        """Learn a reward of ``arm`` in a context [D], or rewards [T] of arms [T] in contexts [T,D].

        A batch is learned whole or, if something in it is wrong, not at all.

        >>> LinearBandit(2, dim=1).update([[1.0], [2.0]], [0, 1], [1.0, 0.0]).pulls
        {0: 1, 1: 1}
        """
        point = self._points(context)
        if point.ndim != 1:
            return self._update_rows(point, arm, reward)
        place = self._arm_index(arm)
        try:
            value = float(reward)
        except (TypeError, ValueError):
            raise DataError(f"reward must be a number, got {reward!r}") from None
        if not learn(self._gram, self._stale, self._pulls, point, place, value):
            if not abs(value) <= LARGEST:
                raise DataError(f"reward is {value}, expected a finite number{_limit(value)}")
            raise self._context_error(context)
        self._rewards += 1
        return self

    def _update_rows(self, points: FloatArray, arms: Any, reward: Any) -> Self:
        points = self._checked_rows(points)
        values = finite_array(reward, "reward")
        for name, length in (("arm", np.shape(arms)), ("reward", values.shape)):
            if length != (len(points),):
                raise DataError(f"{name} has shape {length}, expected ({len(points)},), one per context")
        huge = np.abs(values) > LARGEST
        if huge.any():
            raise DataError(f"reward{first_index(huge)} is {values[huge][0]}, too large to square")
        places = [self._arm_index(arm, f"arm[{t}]") for t, arm in enumerate(arms)]
        learn_rows(
            self._arms,
            self._pulls,
            points,
            np.array(places, dtype=np.int64),
            np.require(values, requirements=["C", "W"]),
        )
        self._rewards += len(points)
        return self

    # -- words for what is wrong ---------------------------------------------------------------------------

    def _arm_index(self, arm: Any, where: str = "arm", error: type[PrudentError] = DataError) -> int:
        try:
            return self._index[arm]
        except (KeyError, TypeError):
            shown = ", ".join(repr(name) for name in self._names[:8]) + (", ..." if len(self._names) > 8 else "")
            raise error(f"{where} is {arm!r}, which is not one of the arms ({shown})") from None

    def _eligible(self, arms: Iterable[Arm]) -> tuple[tuple[Arm, ...], IntArray]:
        if isinstance(arms, str):
            raise ParameterError(f"arms must be a list of arms, got the string {arms!r}")
        try:
            places = [self._arm_index(arm, f"arms[{i}]", ParameterError) for i, arm in enumerate(arms)]
        except TypeError:
            raise ParameterError(f"arms must be a list of arms, got {arms!r}") from None
        if not places:
            raise ParameterError("arms is empty: no arm is eligible")
        if len(set(places)) < len(places):
            twice = next(i for i, place in enumerate(places) if place in places[:i])
            raise ParameterError(f"arms[{twice}] is {self._names[places[twice]]!r} for the second time")
        return tuple(self._names[place] for place in places), np.array(places, dtype=np.int64)

    def _context_error(self, context: Any) -> PrudentError:
        """Return the error that says what is wrong with a context that was refused."""
        try:
            points = finite_array(context, "context")
        except PrudentError as error:
            return error
        if points.ndim not in (1, 2) or points.shape[-1] != self._dim:
            return DataError(f"context has shape {points.shape}, expected ({self._dim},) or (T, {self._dim})")
        huge = np.abs(points) > LARGEST
        return DataError(f"context{first_index(huge)} is {points[huge][0]}, too large to square")

    def __repr__(self) -> str:
        return (
            f"LinearBandit({len(self._names)} arms, dim={self._dim}, settings={self._settings.label!r}, "
            f"{self._decisions} decisions, {self._rewards} rewards)"
        )

    # -- state ---------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state to ``path``, random stream included; the file appears whole or not at all.

        >>> import tempfile
        >>> bandit = LinearBandit(2, dim=1, seed=3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bandit.save(f"{folder}/bandit.state")
        ...     again = LinearBandit.load(f"{folder}/bandit.state")
        >>> again.select([1.0]).score == bandit.select([1.0]).score
        True
        """
        write_state(path, "LinearBandit", _STATE_VERSION, *self._state())

    def to_bytes(self) -> bytes:
        """Return what :meth:`save` writes, for a store of your own; :meth:`from_bytes` reads it.

        >>> LinearBandit.from_bytes(LinearBandit(["a", "b"], dim=1).to_bytes()).arms
        ('a', 'b')
        """
        return b"".join(state_parts("LinearBandit", _STATE_VERSION, *self._state()))

    @classmethod
    def from_bytes(cls, content: bytes, name: str = "content") -> Self:
        """Return the bandit that :meth:`to_bytes` was called on; ``name`` is what errors call the bytes."""
        return restore_bytes(content, name, "LinearBandit", _STATE_VERSION, cls._restored)

    def copy(self, stream: int | None = None) -> Self:
        """Return a bandit in the same state, with the same random stream or with that of a worker, 0, 1, ...

        Worker k has the same stream whenever it starts from the same state, and never that of another worker.
        ``LinearBandit.load(path, stream=k)`` does the same with a saved state.

        >>> bandit = LinearBandit(2, dim=1, seed=3)
        >>> first, again, second = bandit.copy(stream=0), bandit.copy(stream=0), bandit.copy(stream=1)
        >>> scores = [each.select([1.0]).score for each in (first, again, second)]
        >>> scores[0] == scores[1], scores[0] == scores[2]
        (True, False)
        """
        twin = copy.deepcopy(self)
        if stream is not None:
            twin._stream.spawn(whole_number(stream, "stream", 0))
        return twin

    def merge(self, other: Self, *, since: Self | None) -> Self:
        """Learn what ``other`` has learned since it was ``since``, each reward once.

        ``since`` is the state from which ``other`` went on: the common ancestor of both, or ``other`` as it was when
        it was last merged into this one; None if it began without data. The result is that of learning the same
        rewards here, up to rounding. Arms that ``other`` has and this bandit never had are added; an arm that this
        bandit has removed since stays removed.

        >>> base = LinearBandit(["a", "b"], dim=1, seed=3)
        >>> one, two = base.copy(stream=0), base.copy(stream=1)
        >>> _ = one.update([1.0], "a", 2.0), two.update([2.0], "a", 1.0), two.add_arm("c").update([1.0], "c", 4.0)
        >>> one.merge(two, since=base).pulls
        {'a': 2, 'b': 0, 'c': 1}
        """
        for label, given in (("other", other), ("since", since)):
            if given is not None or label == "other":
                self._require_kin(given, label)
        if other is self:
            raise ParameterError("other is the bandit itself: its rewards would count twice")
        # all that can be refused is refused before anything changes
        news = [(name, *self._news(other, since, name)) for name in other._names]
        decisions = other._decisions - (since._decisions if since else 0)
        if decisions < 0:
            raise ParameterError(f"other has taken {-decisions} decisions fewer than since: it does not come from it")
        gone = since._index if since else {}
        for name in other._names:
            if name not in self._index and name not in gone:
                self.add_arm(name)
        for name, gram, pulls in news:
            place = self._index.get(name)
            if place is not None and pulls:
                total, lost = two_sums(self._gram[place, 0], gram[0])
                self._gram[place] = two_sums(total, self._gram[place, 1] + gram[1] + lost)
                self._pulls[place] += pulls
                self._stale[place] = 1
                self._rewards += pulls
        self._decisions += decisions
        return self

    def _require_kin(self, given: Any, label: str) -> None:
        """Raise unless this is a bandit of the same settings."""
        if not isinstance(given, LinearBandit):
            raise ParameterError(f"{label} must be a LinearBandit, got {given!r}")
        for name, mine, theirs in zip(*_kind_of(self), _kind_of(given)[1], strict=True):
            if mine != theirs:
                raise ParameterError(f"{label} has other settings: its {name} is {theirs!r}, here it is {mine!r}")

    @staticmethod
    def _news(other: LinearBandit, since: LinearBandit | None, name: Arm) -> tuple[FloatArray, int]:
        """Return the sums and the number of the rewards of an arm that ``other`` has seen since."""
        gram, pulls = other._gram[other._index[name]], int(other._pulls[other._index[name]])
        if since is None or name not in since._index:
            return gram, pulls
        place = since._index[name]
        total, lost = two_sums(gram[0], -since._gram[place, 0])
        news = np.stack([total, gram[1] - since._gram[place, 1] + lost])
        fresh = pulls - int(since._pulls[place])
        if fresh < 0 or (fresh == 0 and news.any()) or (np.diagonal(news.sum(axis=0)) < 0.0).any():
            raise ParameterError(f"other does not come from since: what they know of arm {name!r} contradicts it")
        return news, fresh

    def _state(self) -> State:
        meta = {
            "settings": asdict(self._settings),
            "noise_sd": self._noise_sd,
            "arms": list(self._names),
            "decisions": self._decisions,
            "rng": generator_state(self._stream.rng),
        }
        arrays = {
            "prior_precision": self._prior,
            "gram": self._gram,
            "pulls": self._pulls,
            "uniforms": self._stream.unused,
        }
        return meta, arrays

    @classmethod
    def _from_state(cls, path: str | os.PathLike[str], stream: int | None = None) -> Self:
        bandit = restore(path, "LinearBandit", _STATE_VERSION, cls._restored)
        return bandit if stream is None else bandit.copy(stream)

    @classmethod
    def _restored(cls, meta: dict[str, Any], arrays: Arrays) -> Self:
        settings = BanditSettings(**meta["settings"])
        prior, gram, pulls, unused = (arrays[name] for name in ("prior_precision", "gram", "pulls", "uniforms"))
        if not isinstance(meta["arms"], list):
            raise ValueError(f"arms must be a list of names, got {meta['arms']!r}")
        names = _arm_names(meta["arms"], "arms")
        size = len(prior) + 1
        if gram.shape != (len(names), 2, size, size) or pulls.shape != (len(names),):
            raise ValueError(f"sums of shape {gram.shape} for {len(names)} arms and {len(prior)} features")
        if gram.dtype != np.float64 or unused.dtype != np.float64:
            raise ValueError(f"gram and uniforms are {gram.dtype} and {unused.dtype}, expected float64")
        require_counts(pulls, "pulls")
        require_sums(gram, pulls)
        if unused.ndim != 1 or not ((unused >= 0.0) & (unused < 1.0)).all():
            raise ValueError("uniforms must be numbers in [0, 1)")
        bandit = cls(names, len(prior), settings=settings, noise_sd=meta["noise_sd"], prior_precision=prior)
        bandit._set_arms(names, gram, pulls)
        refresh(bandit._arms_fields, bandit._every)
        root = bandit._arms.root
        solved = [root, 1.0 / np.diagonal(root, axis1=1, axis2=2), bandit._noise_sd * root, bandit._arms.mean]
        if not all(usable(part.reshape(-1)) for part in solved):
            raise ValueError("the moments of a posterior are too large or too small to square")
        bandit._decisions = whole_number(meta["decisions"], "decisions", 0, LARGEST_COUNT)
        bandit._stream = Uniforms(generator_from_state(meta["rng"]), unused)
        return bandit


def _kind_of(bandit: LinearBandit) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Return what must be equal for bandits to be merged: names and values."""
    values = bandit._dim, bandit._settings, bandit._noise_sd, bandit._prior.tolist()
    return ("dim", "settings", "noise_sd", "prior_precision"), values


# -- names and logs ----------------------------------------------------------------------------------------


def _plain_name(name: Any) -> Any:
    """Return NumPy's strings and integers as Python's own."""
    return name.item() if isinstance(name, np.generic) else name


def _checked_name(name: Any, where: str, error: type[PrudentError] = ParameterError) -> Arm:
    plain = _plain_name(name)
    if isinstance(plain, bool) or not isinstance(plain, (str, int)):
        raise error(f"{where} is {name!r}, expected a string or an integer")
    return plain


def _arm_names(arms: Any, label: str, error: type[PrudentError] = ParameterError) -> list[Arm]:
    if isinstance(arms, (int, np.integer)) and not isinstance(arms, bool):
        return list(range(whole_number(arms, label)))
    if isinstance(arms, str) or not isinstance(arms, Iterable):
        raise error(f"{label} must be a number of arms or a list of names, got {arms!r}")
    names: dict[Arm, None] = {}
    for i, given in enumerate(arms):
        name = _checked_name(given, f"{label}[{i}]", error)
        if name in names:
            raise error(f"{label}[{i}] is {name!r} for the second time")
        names[name] = None
    if not names:
        raise error(f"{label} is empty: a bandit needs at least one arm")
    return list(names)


def _log_columns(log: Any) -> tuple[Any, list[Any], Any]:
    if hasattr(log, "columns") or isinstance(log, dict):
        missing = [name for name in ("context", "arm", "reward") if name not in log]
        if missing:
            raise DataError(f"log has no column {missing[0]!r}")
        return [list(point) for point in log["context"]], list(log["arm"]), list(log["reward"])
    rows = list(log)
    for i, row in enumerate(rows):
        if isinstance(row, str) or not isinstance(row, Sequence) or len(row) != 3:
            raise DataError(f"log[{i}] is {row!r}, expected (context, arm, reward)")
    if not rows:
        raise DataError("log is empty: the number of features is not known")
    contexts, arms, rewards = zip(*rows, strict=True)
    return contexts, list(arms), list(rewards)


def _limit(value: float) -> str:
    return " of at most 1e150" if math.isfinite(value) else ""
