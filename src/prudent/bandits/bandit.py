"""Linear contextual bandits with a risk dial: one engine, and the algorithms of the paper as settings of it.

Each arm has an unknown theta_a [D] and pays s'theta_a + noise in context s; its posterior is
Normal(V_a^-1 b_a, nu^2 V_a^-1) with the PRECISION V_a = P + sum s s' (the paper's Gaussian update; where it prints
V_a as a covariance, its proofs have the inverse). To decide, Algorithm 2 (BRPS-CMAB) draws n values of s'theta_a for
every arm from Normal(s'V_a^-1 b_a, nu^2 s'V_a^-1 s), estimates CVaR_alpha from them, and pulls the arm with the
highest estimate. Its relatives are settings of the same engine:

- :func:`brps_cmab`: Algorithm 2 at a risk level alpha;
- :func:`brps_cmab_clipped`: Algorithm 2', draws clipped to [0, 1] (the paper says truncated);
- :func:`brps_cmab_inflated`: Algorithm 2'', nu replaced by nu_t = (3/4) sqrt(d ln(4t/delta)) or by a number;
- :func:`thompson_sampling`: alpha = 0 and one draw;
- :func:`thompson_sampling_inflated`: the same with nu replaced.

Only the lowest draws count, and they are drawn directly (:mod:`prudent.risk`): under the draw rule
n = ceil(1/(1-alpha)) one or two per arm at any alpha, where the algorithm as printed draws n.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, fields
from functools import partial
from typing import Any, Self

import numpy as np

from .._support.checks import FloatArray, IntArray, finite_array, first_index, generator, whole_number
from .._support.state import Load, generator_from_state, generator_state, read_state, write_state
from ..errors import DataError, ParameterError, PrudentError, StateFileError
from ..posteriors.linear import LinearGaussianPosterior
from .batch import ROWS, choose_rows, choose_screened, prepare_screen, update_rows
from .decision import Arm, Decision, Law, _all_moments, _all_scores, _name_array, _short
from .score_law import score_law
from .settings import BanditSettings
from .step import LARGEST, inflated_scales, refresh, screen_of, select_one, update_one, usable

__all__ = ["LinearBandit"]


_BLOCK = 1024  # uniforms taken from the Generator at a time


_STATE_VERSION = 1


# -- the bandit --------------------------------------------------------------------------------------------


class LinearBandit:
    """A contextual bandit with linear rewards and a dial for risk.

    ``n_arms`` is a number (arms 0, 1, ...) or the arms' names, strings or integers; contexts have ``dim`` features.
    Give ``alpha`` (the risk level; 0 is Thompson sampling) or a ``policy``. Rewards are s'theta_a plus noise of sd
    ``noise_sd``; before data theta_a ~ Normal(0, noise_sd^2 P^-1), where P is ``prior_precision``, a number
    (times the identity) or a matrix [D,D]. ``seed`` is a seed or a Generator, which the bandit then owns.

    There is no hidden state between ``select`` and ``update``: rewards may come late, in any order, or never. Threads
    that share a bandit must take turns.

    >>> bandit = LinearBandit(["red", "green", "blue"], dim=2, alpha=0.8, noise_sd=1.0, seed=7)
    >>> decision = bandit.select([1.0, 0.5], arms=["red", "blue"])
    >>> decision.arm in ("red", "blue"), round(decision.propensity, 9)
    (True, 0.5)
    >>> bandit.update([1.0, 0.5], decision.arm, reward=1.0)
    LinearBandit(3 arms, dim=2, policy='BRPS(0.8)', 1 decisions, 1 rewards)
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
        policy: BanditSettings | None = None,
        seed: Any = None,
    ) -> None:
        if policy is None:
            policy = BanditSettings(0.0 if alpha is None else alpha)
        elif alpha is not None:
            raise ParameterError("give alpha or policy, not both: a policy has its own alpha")
        elif not isinstance(policy, BanditSettings):
            raise ParameterError(f"policy must be a BanditSettings, got {policy!r}")
        blank = LinearGaussianPosterior(dim, prior_precision, noise_sd)
        names = _arm_names(n_arms, "n_arms")
        self._set(
            policy,
            blank.noise_sd,
            blank.prior,
            names,
            np.zeros((len(names), 2, blank.dim + 1, blank.dim + 1)),
            np.zeros(len(names), dtype=np.int64),
            decisions=0,
            uniforms=np.empty(0),
            rng=generator(seed),
        )

    def _set(
        self,
        policy: BanditSettings,
        noise_sd: float,
        prior: FloatArray,
        names: list[Arm],
        gram: FloatArray,
        pulls: IntArray,
        *,
        decisions: int,
        uniforms: FloatArray,
        rng: np.random.Generator,
    ) -> None:
        self._policy = policy
        self._noise_sd = noise_sd
        self._prior = prior
        self._decisions = decisions
        self._uniforms = uniforms  # taken from the Generator, used up from _next on
        self._next = 0
        self._rng = rng
        # what every call needs, worked out once
        self._dim = prior.shape[0]
        self._n = policy.n
        self._weights = policy.weights
        self._clip = policy.clip
        self._screen = screen_of(self._n) if self._weights.size == 1 else np.zeros(2)
        self._law = partial(score_law, self._n, tuple(self._weights.tolist()), self._clip)
        self._scale = policy.nu(1, self._dim, noise_sd) / noise_sd
        self._set_arms(names, gram, pulls)

    def _set_arms(self, names: list[Arm], gram: FloatArray, pulls: IntArray) -> None:
        self._names = tuple(names)
        self._index = {name: i for i, name in enumerate(names)}
        self._every = np.arange(len(names))
        self._gram = gram  # [A,2,D+1,D+1]
        self._pulls = pulls  # [A]
        self._root = np.empty((len(names), self._dim, self._dim))
        self._mean = np.empty((len(names), self._dim))
        self._stale = np.ones(len(names), dtype=np.int64)

    @classmethod
    def from_log(
        cls,
        log: Any,
        arms: int | Iterable[Arm] | None = None,
        alpha: float | None = None,
        *,
        noise_sd: float = 1.0,
        prior_precision: Any = 1.0,
        policy: BanditSettings | None = None,
        seed: Any = None,
    ) -> Self:
        """Return a bandit that has learned from a log of (context, arm, reward) rows.

        ``log`` is a sequence of such rows, or a table or mapping with columns ``context``, ``arm`` and ``reward``.
        ``arms`` are the arms to choose from; left out, those of the log in order of appearance.

        >>> bandit = LinearBandit.from_log([([1.0], "a", 2.0), ([1.0], "b", 1.0)], alpha=0.5)
        >>> bandit.posterior("a").mean()
        array([1.])
        """
        contexts, pulled, rewards = _log_columns(log)
        if arms is None:
            arms = list(dict.fromkeys(_plain_name(name) for name in pulled))
        points = finite_array(contexts, "context", ndim=2)
        bandit = cls(
            arms,
            points.shape[1],
            alpha,
            noise_sd=noise_sd,
            prior_precision=prior_precision,
            policy=policy,
            seed=seed,
        )
        return bandit.update(points, pulled, rewards)

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
        return self._policy.alpha

    @property
    def policy(self) -> BanditSettings:
        """How decisions are taken."""
        return self._policy

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
        place = self._arm_index(arm)
        return LinearGaussianPosterior.of_sums(self._prior, self._noise_sd, self._gram[place].copy())

    def add_arm(self, arm: Arm) -> Self:
        """Add an arm, which starts from the prior.

        >>> LinearBandit(["a"], dim=1).add_arm("b").arms
        ('a', 'b')
        """
        name = _plain_name(arm)
        if isinstance(name, bool) or not isinstance(name, (str, int)):
            raise ParameterError(f"arm is {arm!r}, expected a string or an integer")
        if name in self._index:
            raise DataError(f"arm {name!r} is already there")
        gram = np.concatenate([self._gram, np.zeros_like(self._gram[:1])])
        self._set_arms([*self._names, name], gram, np.append(self._pulls, 0))
        return self

    def remove_arm(self, arm: Arm) -> Self:
        """Remove an arm and what was learned of it.

        >>> LinearBandit(["a", "b"], dim=1).remove_arm("a").arms
        ('b',)
        """
        place = self._arm_index(arm)
        if len(self._names) == 1:
            raise DataError(f"arm {arm!r} is the only one: a bandit needs at least one arm")
        names = [name for name in self._names if name != self._names[place]]
        self._set_arms(names, np.delete(self._gram, place, axis=0), np.delete(self._pulls, place))
        return self

    # -- decisions -----------------------------------------------------------------------------------------

    def select(self, context: Any, arms: Iterable[Arm] | None = None, *, propensity: bool = True) -> Decision:
        """Choose among the eligible ``arms`` (all of them if left out) in a context [D] or in contexts [T,D].

        The contexts of a batch are all decided from the posterior as it is now. The propensity of a choice is worked
        out when it is read; ``propensity=False`` leaves it out.

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
        k = eligible.size
        if self._next + k * (self._weights.size + 1) > self._uniforms.size:
            self._draw(k * (self._weights.size + 1))
        scale = self._scale
        if self._policy.delta is not None:
            scale = self._policy.nu(self._decisions + 1, self._dim, self._noise_sd) / self._noise_sd
        moments = np.empty((2, k))
        place, score, after = select_one(
            self._gram,
            self._prior,
            self._root,
            self._mean,
            self._stale,
            point,
            eligible,
            self._noise_sd,
            scale,
            self._n,
            self._weights,
            self._clip,
            self._screen,
            self._uniforms,
            self._next,
            moments,
        )
        if place < 0:
            raise self._context_error(context)
        self._next = after
        self._decisions += 1
        return Decision(names[place], score, names, moments, place, scale, law)

    def _select_rows(
        self,
        points: FloatArray,
        names: tuple[Arm, ...],
        eligible: IntArray,
        law: Law | None,
    ) -> Decision:
        if points.ndim != 2 or points.shape[1] != self._dim or not usable(points.reshape(-1)):
            raise self._context_error(points)
        points = np.ascontiguousarray(points)
        rows, k = len(points), eligible.size
        refresh(self._gram, self._prior, self._root, self._mean, self._stale, eligible)
        scale = np.full(rows, self._scale)
        if self._policy.delta is not None:
            inflated_scales(self._decisions + 1, self._dim, self._policy.delta, self._noise_sd, scale)
        choose = self._screened(points, eligible, scale)
        if choose is not None:
            # worked out when read, hence from a copy: rewards may come before that
            solved = (self._root[eligible], self._mean[eligible])
            moments: Any = partial(_all_moments, *solved, points, self._every[:k], self._noise_sd)
        else:
            moments = _all_moments(self._root, self._mean, points, eligible, self._noise_sd)
            choose = partial(choose_rows, moments, scale, self._n, self._weights, self._clip, self._screen)
        places, scores, marks = np.empty(rows, dtype=np.int64), np.empty(rows), np.empty(rows)
        for first in range(0, rows, ROWS):
            need = min(ROWS, rows - first) * k * (self._weights.size + 1)
            if self._next + need > self._uniforms.size:
                self._draw(need)
            self._next = choose(self._uniforms, self._next, first, places, scores, marks)
        self._decisions += rows
        score = partial(_all_scores, scale, self._n, self._clip, places, marks, scores)
        return Decision(_name_array(names)[places], score, names, moments, places, scale, law)

    def _screened(self, points: FloatArray, eligible: IntArray, scale: FloatArray) -> Callable[..., int] | None:
        """Return a kernel that decides by a screen in single precision; None where that would not do, or not pay."""
        rows, dim = points.shape
        if self._weights.size > 1 or self._clip or rows < 8 * dim:
            return None
        least = float(scale.min())
        ready, *prepared = prepare_screen(
            self._gram, self._prior, self._root, self._mean, eligible, self._noise_sd, least, self._screen
        )
        if not ready:
            return None
        factor = (scale / least).astype(np.float32)
        settings = (eligible, self._noise_sd, scale, factor, self._n, self._weights, self._screen)
        given: tuple[Any, ...] = (self._root, self._mean, points, *settings, *prepared)
        return lambda *rest: choose_screened(*given, *rest)

    def _draw(self, need: int) -> None:
        """Have at least ``need`` unused uniforms; the stream does not depend on how it is cut into blocks."""
        left = self._uniforms[self._next :]
        if self._uniforms.size < max(_BLOCK, need):
            self._uniforms = np.empty(max(_BLOCK, need))
        self._uniforms[: left.size] = left
        self._rng.random(out=self._uniforms[left.size :])
        self._next = 0

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
        if not update_one(self._gram, self._stale, self._pulls, point, place, value):
            if not abs(value) <= LARGEST:
                raise DataError(f"reward is {value}, expected a finite number{_limit(value)}")
            raise self._context_error(context)
        return self

    def _update_rows(self, points: FloatArray, arms: Any, reward: Any) -> Self:
        if points.ndim != 2 or points.shape[1] != self._dim or not usable(points.reshape(-1)):
            raise self._context_error(points)
        values = finite_array(reward, "reward")
        for name, length in (("arm", np.shape(arms)), ("reward", values.shape)):
            if length != (len(points),):
                raise DataError(f"{name} has shape {length}, expected ({len(points)},), one per context")
        huge = np.abs(values) > LARGEST
        if huge.any():
            raise DataError(f"reward{first_index(huge)} is {values[huge][0]}, too large to square")
        places = np.array([self._arm_index(arm, f"arm[{t}]") for t, arm in enumerate(arms)], dtype=np.int64)
        update_rows(
            self._gram,
            self._stale,
            self._pulls,
            np.ascontiguousarray(points),
            places,
            np.require(values, requirements=["C", "W"]),
        )
        return self

    # -- words for what is wrong ---------------------------------------------------------------------------

    def _arm_index(self, arm: Any, label: str = "arm") -> int:
        try:
            return self._index[arm]
        except (KeyError, TypeError):
            raise DataError(f"{label} is {arm!r}, which is not one of the arms {_short(self._names)}") from None

    def _eligible(self, arms: Iterable[Arm]) -> tuple[tuple[Arm, ...], IntArray]:
        if isinstance(arms, str):
            raise DataError(f"arms must be a list of arms, got the string {arms!r}")
        try:
            places = [self._arm_index(arm, f"arms[{i}]") for i, arm in enumerate(arms)]
        except TypeError:
            raise DataError(f"arms must be a list of arms, got {arms!r}") from None
        if not places:
            raise DataError("arms is empty: no arm is eligible")
        if len(set(places)) < len(places):
            twice = next(i for i, place in enumerate(places) if place in places[:i])
            raise DataError(f"arms[{twice}] is {self._names[places[twice]]!r} for the second time")
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
            f"LinearBandit({len(self._names)} arms, dim={self._dim}, policy={self._policy.name!r}, "
            f"{self._decisions} decisions, {int(self._pulls.sum())} rewards)"
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
        meta = {
            "policy": asdict(self._policy),
            "noise_sd": self._noise_sd,
            "arms": list(self._names),
            "decisions": self._decisions,
            "rng": generator_state(self._rng),
        }
        arrays = {
            "prior_precision": self._prior,
            "gram": self._gram,
            "pulls": self._pulls,
            "uniforms": self._uniforms[self._next :],
        }
        write_state(path, "LinearBandit", _STATE_VERSION, meta, arrays)

    @classmethod
    def _from_state(cls, path: str | os.PathLike[str]) -> Self:
        meta, arrays = read_state(path, "LinearBandit", _STATE_VERSION)
        try:
            known = {field.name for field in fields(BanditSettings)}
            policy = BanditSettings(**{name: value for name, value in meta["policy"].items() if name in known})
            prior, gram = arrays["prior_precision"], arrays["gram"]
            names = _arm_names(meta["arms"])
            bandit = cls(names, len(prior), policy=policy, noise_sd=meta["noise_sd"], prior_precision=prior, seed=0)
            if gram.shape != bandit._gram.shape or arrays["pulls"].shape != bandit._pulls.shape:
                raise ValueError(f"sums of shape {gram.shape} for {len(names)} arms and {len(prior)} features")
            bandit._set(
                policy,
                bandit._noise_sd,
                prior,
                names,
                gram,
                arrays["pulls"],
                decisions=int(meta["decisions"]),
                uniforms=arrays["uniforms"],
                rng=generator_from_state(meta["rng"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StateFileError(f"{os.fspath(path)} is not the state of a LinearBandit: {error}") from error
        return bandit


# -- names and logs ----------------------------------------------------------------------------------------


def _plain_name(name: Any) -> Any:
    """Return NumPy's strings and integers as Python's own."""
    return name.item() if isinstance(name, np.generic) else name


def _arm_names(arms: Any, label: str = "arms") -> list[Arm]:
    if isinstance(arms, (int, np.integer)) and not isinstance(arms, bool):
        return list(range(whole_number(arms, label)))
    if isinstance(arms, str) or not isinstance(arms, Iterable):
        raise ParameterError(f"{label} must be a number of arms or a list of names, got {arms!r}")
    names = [_plain_name(name) for name in arms]
    if not names:
        raise ParameterError(f"{label} is empty: a bandit needs at least one arm")
    seen: set[Arm] = set()
    for i, name in enumerate(names):
        if isinstance(name, bool) or not isinstance(name, (str, int)):
            raise ParameterError(f"{label}[{i}] is {name!r}, expected a string or an integer")
        if name in seen:
            raise ParameterError(f"{label}[{i}] is {name!r} for the second time")
        seen.add(name)
    return names


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
