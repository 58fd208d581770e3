"""Beliefs about arms with coefficients of their own: the table of arms that kernels read, and its rows.

Rows come and go without the others being solved again. Members differ in how they learn and what they solve.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ..._numerics.compensated import two_sums
from ..._support.checks import BoolArray, FloatArray, IntArray
from ..._support.state import LARGEST_COUNT, Arrays, require_counts
from ...posteriors.linear import LinearGaussianPosterior
from ..kernels.batch import decide_rows, moments_of, scales
from ..kernels.layout import (
    BY_ARM,
    CENTRE,
    COUNT,
    DIRTY,
    EXTRAS,
    FIXED,
    FREEDOM,
    GAIN,
    HIGH,
    LAST,
    LEVEL,
    LOW,
    NOISE,
    ORIGIN,
    OWN_NOISE,
    PULLS,
    Q1,
    Q2,
    SAVED,
    STALE,
    TRIES,
    WEIGHT,
    WHICH,
    Arms,
    arms_of,
    handle_of,
    in_one_piece,
)
from ..kernels.step import LARGEST, decide_one, learn_one, noise_of, refresh, usable
from ..kernels.stream import Uniforms
from ..law.base import Law
from ..law.normal import NormalRows, ScoreRule
from ..settings import BanditSettings
from .base import NEW, Belief, Match, require_arrays, score_rule

__all__ = ["LEAST_WEIGHT", "ArmBelief"]


LEAST_GAIN = 2.0**-60
LEAST_WEIGHT = 2.0**-200  # of an arm's evidence; less is none
_empty = np.empty  # looked up once: decisions take microseconds
_ROWS = ("gram", "root", "mean", "lines", "parts", "marks", "extra")
_SCHEMA = {
    "prior_precision": "float64 J D D",
    "prior_mean": "float64 J D",
    "prior": "int64 A",
    "gram": "float64 A 2 D+1 D+1",
    "extra": f"float64 A {EXTRAS} D+2",
    "weights": "float64 A",
    "pulls": "int64 A",
    "tries": "int64 A",
    "pool": f"float64 {SAVED.stop}",
}


class ArmBelief(Belief):
    """Belief about A arms with coefficients of their own; a base class.

    Parameters
    ----------
    count : int
        Number of arms.
    prior : ndarray of float, [D, D]
        Prior precision, constant feature included.
    intercept : bool
        Whether the first feature is constant.
    noise_sd : float or None
        Sd of the noise as kernels take it, None if it is learned.
    kind : int, optional
        How a learned noise is shared, a constant of the layout.
    """

    link: int | None = None  # of clicks (ODDS) and counts (COUNTS)
    prior_origin: str = "given"  # or "learned" or "uniform"
    schema: ClassVar[dict[str, str]] = {}  # arrays of a state file beside those of all arms

    table: Arms
    priors: FloatArray  # [J,D,D], of which the table holds a multiple

    def __init__(
        self, count: int, prior: FloatArray, intercept: bool, noise_sd: float | None, kind: int | None = None
    ) -> None:
        self.intercept, self._unit_sd = intercept, noise_sd
        self.priors = prior[np.newaxis]
        size = len(prior)
        options: dict[str, Any] = {"extra": np.zeros((count, EXTRAS, size + 2))}
        if noise_sd is None:
            options |= {"kind": kind, "centred": intercept}
        self.table = in_one_piece(arms_of(prior, noise_sd, np.zeros((count, 2, size + 1, size + 1)), **options))
        self.use(BanditSettings())

    def use(self, settings: BanditSettings) -> None:
        """Take the settings of the next decision.

        Parameters
        ----------
        settings : BanditSettings
            Settings in which the risk level is a number.
        """
        self.rule = settings.rule(self.table.mean.shape[1], self._unit_sd)
        self._score_rule = score_rule(settings, self.link)
        self._per_arm = self.rule.per_arm
        self._set_handle()

    def _set_table(self, table: Arms) -> None:
        self.table = in_one_piece(table)
        self._set_handle()

    def _set_handle(self) -> None:
        """Tell kernels where the table and the rule are; needed whenever one of them is replaced."""
        self._handle = handle_of(self.table, self.rule, self.intercept)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_handle"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._set_handle()  # where its own arrays are

    # -- decisions -----------------------------------------------------------------------------------------

    def decide(
        self, t: int, point: FloatArray, rows: IntArray, stream: Uniforms
    ) -> tuple[int, float, Law | tuple[FloatArray, ScoreRule]] | None:
        """Take decision ``t`` in a context without the constant feature.

        Parameters
        ----------
        t : int
            Number of the decision, from 1.
        point : ndarray of float, [dim]
            Context.
        rows : ndarray of int, [k]
            Eligible arms.
        stream : Uniforms
            Random stream.

        Returns
        -------
        tuple or None
            Position of the chosen arm, its score and the law of the scores, or moments and rule of a
            ``prudent.bandits.law.NormalLaw``; None if the context is not usable.
        """
        k = len(rows)
        need = k * self._per_arm + 1
        uniforms, start = stream.block, stream.next
        if start + need > len(uniforms):
            stream.reserve(need)
            uniforms, start = stream.block, stream.next
        moments = _empty((4, k))
        place, score, stream.next = decide_one(self._handle, t, point, rows, uniforms, start, moments)
        return None if place < 0 else (place, score, (moments, self._score_rule))

    def decide_rows(
        self, t: int, contexts: FloatArray, rows: IntArray, stream: Uniforms
    ) -> tuple[IntArray, FloatArray | Callable[[], FloatArray], Law]:
        """Take decisions ``t`` and following in contexts [T, D], constant feature included.

        Parameters
        ----------
        t : int
            Number of the first decision.
        contexts : ndarray of float, [T, D]
            Contexts.
        rows : ndarray of int, [k]
            Eligible arms.
        stream : Uniforms
            Random stream.

        Returns
        -------
        tuple
            Positions [T] of the chosen arms, their scores [T] or a function that returns them, and the law.
        """
        rule = self.rule
        choices, moments, scale, among = decide_rows(self.table, rule, t, contexts, rows, stream)
        law = NormalRows(moments, scale, among, self._score_rule)
        return choices.places, partial(law.scores, rule, choices), law

    def law(self, contexts: FloatArray, rows: IntArray, settings: BanditSettings, t: int) -> Law:
        """Return the law of the scores in contexts [T, D]; see ``Belief.law``."""
        moments = moments_of(self.table, contexts, rows)
        count = len(contexts)
        scale = np.broadcast_to(scales(self.table, self.rule, t, 1, contexts.shape[1]), count)
        lacking = self.table.marks[rows, TRIES] < settings.first_pulls
        among: BoolArray = np.tile(lacking, (count if lacking.any() else 0, 1))
        if not len(among) and not self.table.pool[NOISE] > 0.0:
            among = np.ones((count, rows.size), dtype=np.bool_)
        return NormalRows(moments, scale, among, score_rule(settings, self.link))

    # -- rewards -------------------------------------------------------------------------------------------

    def learn_one(self, point: FloatArray, row: int, reward: float, weight: float) -> bool:
        """Learn one reward in a context without the constant feature.

        Parameters
        ----------
        point : ndarray of float, [dim]
            Context.
        row : int
            Row of the arm.
        reward, weight : float
            Reward, and how often it counts.

        Returns
        -------
        bool
            False if the context or the reward is not usable, and nothing was learned.
        """
        return learn_one(self._handle, point, row, reward, weight)

    def contradiction(self, other: Self, since: Self | None, matches: Sequence[Match]) -> Match | None:
        """Return the first row by which ``other`` does not come from ``since``; see ``Belief.contradiction``."""
        for match in matches:
            here = match.here
            old = here is not None and here != NEW and not self.same_prior(here, other, match.there)
            if old or self._news(other, since, match) is None:
                return match
        return None

    def merge(self, other: Self, since: Self | None, matches: Sequence[Match]) -> None:
        """Add what another belief has learned since a common ancestor; see ``Belief.merge``."""
        for match in matches:
            news, here = self._news(other, since, match), match.here
            if here == NEW:
                which = other.table.marks[match.there, WHICH]
                prior = (other.priors[which], other.table.start[which]) if which else None
                ArmBelief.add_row(self, prior)  # members solve it with its rewards
                here = len(self.table.mean) - 1
            if news is not None and here is not None:
                self._add_news(here, news)
        pool, theirs = self.table.pool, other.table.pool
        fresh = theirs[COUNT] - (since.table.pool[COUNT] if since is not None else 0.0)
        pool[LOW], pool[HIGH] = min(pool[LOW], theirs[LOW]), max(pool[HIGH], theirs[HIGH])
        if fresh > 0.0:
            pool[ORIGIN] = pool[ORIGIN] if pool[COUNT] > 0.0 else theirs[ORIGIN]
            pool[LAST] = theirs[LAST]
            pool[COUNT] += fresh
        pool[DIRTY] = 1.0

    def _news(self, other: ArmBelief, since: ArmBelief | None, match: Match) -> _News | None:
        """Return the sums of the rewards of an arm since then; None if they contradict the ancestor."""
        arms, place, was = other.table, match.there, match.was
        gram, extra, weight = arms.gram[place], arms.extra[place], float(arms.parts[place, WEIGHT])
        pulls, tries = int(arms.marks[place, PULLS]), int(arms.marks[place, TRIES])
        if since is None or was is None:
            return _News(gram, extra, weight, pulls, tries)
        base = since.table
        total, lost = two_sums(gram[0], -base.gram[was, 0])
        news = _News(
            np.stack([total, gram[1] - base.gram[was, 1] + lost]),
            extra - base.extra[was],
            weight - float(base.parts[was, WEIGHT]),
            pulls - int(base.marks[was, PULLS]),
            tries - int(base.marks[was, TRIES]),
        )
        torn = news.pulls < 0 or news.tries < 0 or (news.pulls == 0 and bool(news.gram.any()))
        if torn or self._impossible(news.gram) or not other.same_prior(place, since, was):
            return None
        return news

    def _impossible(self, gram: FloatArray) -> bool:
        """Return whether no rewards have these sums."""
        return bool((np.diagonal(gram.sum(axis=0)) < 0.0).any())

    def same_prior(self, row: int, other: ArmBelief, there: int) -> bool:
        """Return whether an arm has the same prior here and in another belief.

        Parameters
        ----------
        row, there : int
            Rows of the arm here and there.
        other : ArmBelief
            The other belief.

        Returns
        -------
        bool
            Whether priors are equal, or the same one is learned.
        """
        mine, theirs = self.table, other.table
        which, its = mine.marks[row, WHICH], theirs.marks[there, WHICH]
        return np.array_equal(mine.prior[which], theirs.prior[its]) and np.array_equal(
            mine.start[which], theirs.start[its]
        )

    def _add_news(self, row: int, news: _News) -> None:
        arms = self.table
        arms.marks[row, TRIES] += news.tries
        if not news.pulls:
            return
        total, lost = two_sums(arms.gram[row, 0], news.gram[0])
        arms.gram[row] = two_sums(total, arms.gram[row, 1] + news.gram[1] + lost)
        arms.extra[row] += news.extra
        arms.parts[row, WEIGHT] += news.weight
        arms.marks[row, PULLS] += news.pulls
        arms.marks[row, STALE] = 1

    # -- rows ----------------------------------------------------------------------------------------------

    def add_row(self, prior: tuple[FloatArray, FloatArray] | None = None) -> None:
        """Add an arm without data.

        Parameters
        ----------
        prior : tuple of ndarray of float, optional
            Prior precision [D, D] and mean [D] of its own.
        """
        arms = self.table
        grown: dict[str, Any] = {
            name: _longer(getattr(arms, name)) for name in _ROWS if name != "lines" or arms.kind != FIXED
        }
        grown["marks"][-1] = 0
        grown["marks"][-1, STALE] = 1
        if prior is not None:
            precision, start = prior
            grown["marks"][-1, WHICH] = len(arms.prior)
            grown["prior"] = np.concatenate([arms.prior, precision[np.newaxis] / arms.pool[GAIN]])
            grown["start"] = np.concatenate([arms.start, start[np.newaxis]])
            self.priors = np.concatenate([self.priors, precision[np.newaxis]])
        arms.pool[DIRTY] = 1.0
        self._set_table(arms._replace(**grown))

    def remove_row(self, row: int) -> None:
        """Remove an arm, and a prior of its own.

        Parameters
        ----------
        row : int
            Row of the arm.
        """
        arms = self.table
        fields: dict[str, Any] = {
            name: np.delete(getattr(arms, name), row, axis=0) for name in _ROWS if len(getattr(arms, name))
        }
        which = arms.marks[row, WHICH]
        if which > 0:
            fields["prior"], fields["start"] = (np.delete(array, which, axis=0) for array in (arms.prior, arms.start))
            fields["marks"][fields["marks"][:, WHICH] > which, WHICH] -= 1
            self.priors = np.delete(self.priors, which, axis=0)
        arms.pool[DIRTY] = 1.0
        self._set_table(arms._replace(**fields))

    def prior_like(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return precision and mean of a prior like the posteriors of some arms.

        Parameters
        ----------
        rows : ndarray of int
            Rows of these arms.

        Returns
        -------
        tuple of ndarray of float
            The mean is the average of theirs. The covariance is the average of theirs, plus how much their means
            differ.
        """
        refresh(self.table, rows)
        means, roots, noise = self.table.mean[rows], self.table.root[rows], self.table.pool[NOISE]
        covariance = (roots.transpose(0, 2, 1) @ roots).mean(axis=0)
        if noise > 0.0:
            gaps = (means - means.mean(axis=0)) / noise
            covariance = covariance + gaps.T @ gaps / len(rows)
        precision = np.linalg.inv(covariance)
        return 0.5 * (precision + precision.T), means.mean(axis=0)

    # -- what it says --------------------------------------------------------------------------------------

    @property
    def pulls(self) -> IntArray:
        """Number of rewards of every arm, [A]."""
        return self.table.marks[:, PULLS]

    @property
    def tries(self) -> IntArray:
        """Number of decisions for every arm, or of rewards if a log brought more, [A]."""
        return self.table.marks[:, TRIES]

    @property
    def n_rewards(self) -> int:
        """Number of rewards seen."""
        return int(self.pulls.sum())

    @property
    def noise_sd(self) -> float | None:
        """Sd of the noise; None for clicks and counts."""
        return None

    @property
    def faded(self) -> bool:
        """Whether evidence has been forgotten."""
        return bool(self.table.pool[GAIN] != 1.0)

    def coefficients(self) -> tuple[FloatArray, FloatArray]:
        """Return means [A, D] and covariances [A, D, D] of theta; see ``Belief.coefficients``."""
        arms, every = self.table, np.arange(len(self.table.mean))
        refresh(arms, every)
        noise = np.array([float(noise_of(arms, int(row))) for row in every])
        if arms.kind == BY_ARM:
            freedom = arms.parts[:, FREEDOM]
            noise = noise * np.sqrt(freedom / (freedom - 2.0))
        covariance = arms.root.swapaxes(1, 2) @ arms.root
        clear = noise[:, np.newaxis, np.newaxis] > 0.0
        return arms.mean.copy(), np.where(clear, noise[:, np.newaxis, np.newaxis] ** 2 * covariance, math.inf)

    # -- state ---------------------------------------------------------------------------------------------

    def options(self) -> dict[str, Any]:
        """Return what was given when the belief was made; see ``Belief.options``."""
        prior = self.priors[0].tolist() if self.prior_origin == "given" else self.prior_origin
        return {"rewards": self.reward_kind, "prior_precision": prior}

    def values(self) -> dict[str, Any]:
        """Return the numbers of a state file that are not arrays; see ``Belief.values``."""
        return {"rewards": self.reward_kind, "prior": self.prior_origin}

    def arrays(self) -> Arrays:
        """Return the arrays of a state file; see ``Belief.arrays``."""
        arms = self.table
        return {
            "prior_precision": self.priors,
            "prior_mean": arms.start,
            "prior": arms.marks[:, WHICH],
            "gram": arms.gram,
            "extra": arms.extra,
            "weights": arms.parts[:, WEIGHT],
            "pulls": arms.marks[:, PULLS],
            "tries": arms.marks[:, TRIES],
            "pool": arms.pool[SAVED],
        }

    def restore(self, values: dict[str, Any], arrays: Arrays) -> None:
        """Take the state of a file; see ``Belief.restore``."""
        self._require(arrays)
        arms, gram = self.table, arrays["gram"]
        arms.pool[SAVED] = arrays["pool"]
        arms.gram[:], arms.extra[:], arms.parts[:, WEIGHT] = gram, arrays["extra"], arrays["weights"]
        arms.marks[:, WHICH], arms.marks[:, TRIES] = arrays["prior"], arrays["tries"]
        arms.marks[:, PULLS] = arrays["pulls"]
        self.priors = arrays["prior_precision"]
        self._set_table(arms._replace(prior=self.priors / arms.pool[GAIN], start=arrays["prior_mean"]))
        self._restore_solved(arrays)
        arms = self.table
        refresh(arms, np.arange(len(arms.mean)))
        noise = arms.parts[:, OWN_NOISE].max() if arms.kind == BY_ARM else arms.pool[NOISE]
        solved = [arms.root, 1.0 / np.diagonal(arms.root, axis1=1, axis2=2), noise * arms.root, arms.mean]
        solved += [arms.pool[[CENTRE, NOISE]], arms.parts[:, [WEIGHT, LEVEL, Q1, Q2, OWN_NOISE, FREEDOM]]]
        if not all(usable(np.ascontiguousarray(part).reshape(-1)) for part in solved):
            raise ValueError("the moments of a posterior are too large or too small to square")

    def _restore_solved(self, arrays: Arrays) -> None:
        """Take what is solved from the sums, if a state file holds it."""

    @abstractmethod
    def _require_sums(self, arrays: Arrays) -> None:
        """Raise unless the sums of a state file are those of rewards of this kind."""

    def _moved(self, start: FloatArray) -> FloatArray:
        """Return the entries of the first prior mean that cannot have been learned."""
        return start

    def _require(self, arrays: Arrays) -> None:
        """Raise unless the arrays of a state file can be those of such arms."""
        size, dim = self.table.mean.shape
        priors, starts, which = (arrays[name] for name in ("prior_precision", "prior_mean", "prior"))
        require_arrays(arrays, _SCHEMA | self.schema, {"A": size, "D": dim, "J": len(priors)})
        for name in ("prior", "pulls", "tries"):
            require_counts(arrays[name], name)
        pulls, weights, pool = (arrays[name] for name in ("pulls", "weights", "pool"))
        if (arrays["tries"] < pulls).any():
            raise ValueError("an arm has more rewards than decisions")
        moved = self._moved(starts[0])
        if sorted(which[which > 0]) != list(range(1, len(priors))) or moved.any() or not usable(starts.reshape(-1)):
            raise ValueError("priors that are not those of the arms")
        for prior in priors:
            if not np.array_equal(LinearGaussianPosterior(dim, prior).prior, prior):
                raise ValueError("prior_precision is not symmetric")
        self._require_sums(arrays)
        if not np.isfinite(arrays["extra"]).all():
            raise ValueError("extra holds a number that is not finite")
        if not LEAST_GAIN <= pool[GAIN] <= 1.0:
            raise ValueError(f"the gain is {pool[GAIN]}")
        low, high = pool[LOW], pool[HIGH]
        if not ((low == math.inf and high == -math.inf) or -LARGEST <= low <= high <= LARGEST):
            raise ValueError(f"rewards from {low} to {high}")
        if not usable(pool[GAIN:].copy()) or not 0 <= pool[COUNT] <= LARGEST_COUNT or pool[COUNT] % 1.0:
            raise ValueError("numbers of rewards that cannot be")
        if not ((weights >= 0.0) & (pool[GAIN] * weights <= 1.000001 * pulls)).all():
            raise ValueError("weights that are not those of the rewards")


class _News(NamedTuple):
    """The sums of the rewards of one arm since then."""

    gram: FloatArray  # [2,D+1,D+1]
    extra: FloatArray  # [EXTRAS,D+2]
    weight: float
    pulls: int
    tries: int


def _longer(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array with one more row of zeros, in place if there is room behind it."""
    size, room = len(array), array.base
    if not isinstance(room, np.ndarray) or room.shape[1:] != array.shape[1:] or len(room) <= size:
        room = np.zeros((size + size // 4 + 8, *array.shape[1:]), dtype=array.dtype)
        room[:size] = array
    room[size] = 0
    return room[: size + 1]
