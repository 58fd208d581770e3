"""Beliefs about arms with coefficients of their own: the table of arms that kernels read, and its rows.

Rows come and go without the others being solved again. Members differ in how they learn and what they solve.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from ..._numerics.compensated import two_sums
from ..._numerics.triangles import diagonal_of, triangle_of
from ..._support.checks import BoolArray, FloatArray, IntArray
from ..._support.state import Arrays
from ..._support.streams import PROCESS
from ...errors import DataError, ParameterError, PosteriorError
from ...posteriors.linear import LinearGaussianPosterior, resolved
from ..kernels import layout as col
from ..kernels.batch import decide_rows, learn_rows, moments_of, scales
from ..kernels.layout import BY_ARM, FIXED, Arms, arms_of, handle_of, replace_arrays
from ..kernels.step import NOT_YET, REFUSED, WIDE, beyond, decide_one, learn_one, noise_of, refresh, usable
from ..kernels.stream import Uniforms
from ..law.base import Law
from ..law.normal import NormalRows, ScoreRule
from ..settings import BanditSettings
from .arm_state import ARM_SCHEMA, require_priors, require_tallies, row_sums, tallies_of
from .base import (
    NEW,
    ROUNDED,
    Belief,
    Match,
    all_usable,
    longer,
    ordinary,
    prior_variances,
    require_arrays,
    require_state,
    score_rule,
)

LEAST_WEIGHT = 2.0**-200  # of an arm's evidence; less is none
_empty = np.empty  # looked up once: decisions take microseconds
_ROWS = ("gram", "lost", "root", "mean", "lines", "parts", "marks", "extra")


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
        options: dict[str, Any] = {"kind": kind, "centred": intercept} if noise_sd is None else {}
        extra = np.zeros((count, col.EXTRAS, size + 2))
        self.table = replace_arrays(arms_of(prior, noise_sd, count), extra=extra, **options)
        self.use(BanditSettings())

    def use(self, settings: BanditSettings) -> None:
        """Take the settings of the next decision.

        Parameters
        ----------
        settings : BanditSettings
            Settings in which the risk level is a number.
        """
        rule = settings.rule(self.table.mean.shape[1], self._unit_sd)
        scores, per_arm = score_rule(settings, self.link), rule.per_arm
        handle = handle_of(self.table, rule, self.intercept)
        # No call between these: a signal must not leave a handle to arrays that are gone.
        self.rule, self._score_rule, self._per_arm, self._handle = rule, scores, per_arm, handle

    def _set_table(self, **fields: Any) -> None:
        table = replace_arrays(self.table, **fields)
        handle = handle_of(table, self.rule, self.intercept)
        self.table, self._handle = table, handle

    def _set_handle(self) -> None:
        """Tell kernels where the table and the rule are; needed whenever one of them is replaced."""
        self._handle = handle_of(self.table, self.rule, self.intercept)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_handle"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._set_handle()  # where its own arrays are

    def check(self, settings: BanditSettings) -> None:
        """Raise an error if settings do not suit this belief; see ``Belief.check``."""
        if settings.clip:
            message = f"clip does not go with rewards={self.reward_kind!r}: scores are log odds or log rates"
            raise ParameterError(message, code="conflicting-arguments", argument="clip")

    # -- decisions -----------------------------------------------------------------------------------------

    def design(self, contexts: FloatArray) -> FloatArray:
        """Return what coefficients are multiplied with: contexts, with terms if the belief makes any.

        Parameters
        ----------
        contexts : ndarray of float, [T, D]
            Contexts, constant feature included.

        Returns
        -------
        ndarray of float
            Rows of as many numbers as there are coefficients.
        """
        return contexts

    def labels(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return names of the coefficients.

        Parameters
        ----------
        names : sequence of str
            Names of the features, constant feature included.

        Returns
        -------
        tuple of str
            These, and those of terms if the belief makes any.
        """
        return tuple(names)

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
        features = self._expanded(point) if self.expands else point
        if features is None:
            return None
        k = len(rows)
        need = k * self._per_arm + 1
        uniforms, start = stream.block, stream.next
        if start + need > len(uniforms) or stream.home != PROCESS[0]:
            if not usable(features):  # before anything changes
                return None
            stream.reserve(need)
            uniforms, start = stream.block, stream.next
        moments = _empty((4, k))
        place, score, stream.next = decide_one(self._handle, t, features, rows, uniforms, start, moments)
        return None if place < 0 else (place, score, (moments, self._score_rule))

    def decide_rows(
        self, t: int, contexts: FloatArray, rows: IntArray, stream: Uniforms
    ) -> tuple[IntArray, FloatArray | Callable[[], FloatArray], Law] | None:
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
        tuple or None
            Positions [T] of the chosen arms, their scores [T] or a function that returns them, and the law; None if
            a score would not be finite.
        """
        rule = self.rule
        if self.may_overflow(contexts):  # before anything changes
            values = moments_of(self.table, contexts, rows).values
            known = self.table.pool[col.NOISE] > 0.0  # else sds are infinite
            if not np.isfinite(values if known else values[0]).all():
                return None
        choices, moments, scale, among = decide_rows(self.table, rule, t, contexts, rows, stream)
        law = NormalRows(moments, scale, among, self._score_rule)
        return choices.places, partial(law.scores, rule, choices), law

    def law(self, contexts: FloatArray, rows: IntArray, settings: BanditSettings, t: int) -> Law:
        """Return the law of the scores in contexts [T, D]; see ``Belief.law``."""
        moments = moments_of(self.table, contexts, rows)
        count = len(contexts)
        scale = np.broadcast_to(scales(self.table, self.rule, t, 1, contexts.shape[1]), count)
        among = self._lacking(rows, settings, count)
        if not len(among) and not self.table.pool[col.NOISE] > 0.0:
            among = np.ones((count, rows.size), dtype=np.bool_)
        return NormalRows(moments, scale, among, score_rule(settings, self.link))

    def _lacking(self, rows: IntArray, settings: BanditSettings, count: int) -> BoolArray:
        """Return the arms [T,k] that lack first decisions, for each of T contexts; [0,k] if there is none."""
        lacks = self.table.marks[rows, col.TRIES] < settings.first_pulls
        return np.tile(lacks, (count if lacks.any() else 0, 1))

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
        features = self._expanded(point) if self.expands else point
        done = REFUSED if features is None else learn_one(self._handle, features, row, reward, weight)
        if done == NOT_YET:
            contexts = np.concatenate([np.ones(int(self.intercept)), features])[np.newaxis]
            numbers = np.array([row], dtype=np.int64), np.array([reward]), np.array([weight])
            ArmBelief.learn(self, contexts, *numbers)  # terms are there already
        if self.keeps and done != REFUSED:
            self._remember(point, row, reward, weight)
        return done != REFUSED

    def learn(self, contexts: FloatArray, rows: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        """Learn rewards; see ``Belief.learn``."""
        if not self.may_refuse(contexts):
            learn_rows(self.table, contexts, rows, rewards, weights)
            return
        own = np.unique(rows)
        with self.all_or_none(own):
            learn_rows(self.table, contexts, rows, rewards, weights)
            self.table.marks[own, col.STALE] = 1  # solved from the sums, as after a load
            refresh(self.table, own)
            self._require_resolved(own)

    def _require_resolved(self, rows: IntArray) -> None:
        """Raise unless the sums of some arms, which are solved, determine all variances."""
        arms = self.table
        own = diagonal_of(arms.mean.shape[1])
        precision = arms.pool[col.GAIN] * (arms.prior[arms.marks[rows, col.WHICH]][:, own] + arms.gram[rows][:, own])
        if all_usable(arms.root[rows]) and not resolved(precision, col.roots_of(arms, rows)):
            message = "context has features that cannot be told apart in double precision: scale them"
            raise DataError(message, code="too-large", argument="context")

    def may_overflow(self, contexts: FloatArray) -> bool:
        """Return whether scores may not be finite; see ``Belief.may_overflow``. Such contexts are checked to learn."""
        least = self.table.prior[:, diagonal_of(self.table.mean.shape[1])].min() * self.table.pool[col.GAIN]
        return beyond(contexts.reshape(-1), math.sqrt(WIDE * float(least)))

    def _fields(self) -> tuple[Any, ...]:
        """Return the arrays of the table that have a row for each arm, and those that have not."""
        arms = self.table
        rows = [getattr(arms, name) for name in _ROWS if len(getattr(arms, name))]
        return rows, [arms.prior, arms.start, arms.pool]

    @contextmanager
    def all_or_none(self, rows: IntArray | None = None) -> Iterator[None]:
        """Put arms back if the block raises an error, or leaves a posterior that decisions cannot be taken from.

        Parameters
        ----------
        rows : ndarray of int, optional
            Arms that the block may change. The default is all.

        Yields
        ------
        None
            Nothing.

        Raises
        ------
        DataError
            If a posterior cannot be used.
        """
        everything = rows is None or self.table.kind == BY_ARM  # the noise of each arm depends on that of all
        own: Any = slice(None) if everything else rows
        fields, shared = self._fields()
        kept, were, priors = [field[own].copy() for field in fields], [field.copy() for field in shared], self.priors
        try:
            with np.errstate(all="ignore"):
                yield
                fault = self._fault(own)
            if fault:
                message = f"context is too large beside what is known: {fault}; scale the features"
                raise DataError(message, code="too-large", argument="context")
        except BaseException as error:
            for field, was in zip(fields, kept, strict=True):
                field[own] = was
            for field, was in zip(shared, were, strict=True):
                field[:] = was
            self.priors = priors
            self._put_back()
            if isinstance(error, np.linalg.LinAlgError):
                message = f"context has features that cannot be told apart in double precision ({error}): scale them"
                raise DataError(message, code="too-large", argument="context") from error
            raise

    def _put_back(self) -> None:
        """Compute what follows from the table, after it was put back."""

    def _fault(self, rows: Any) -> str:
        """Return why decisions cannot be taken from the posteriors of some arms, which are solved; "" if they can."""
        arms = self.table
        root, which = arms.root[rows], arms.marks[rows, col.WHICH]
        noise = arms.parts[:, col.OWN_NOISE].max() if arms.kind == BY_ARM else arms.pool[col.NOISE]
        diagonal = root[:, diagonal_of(arms.mean.shape[1])]
        solved = [root, 1.0 / diagonal, noise * root, arms.mean[rows], arms.pool[[col.CENTRE, col.NOISE]]]
        parts = arms.parts[rows][:, [col.WEIGHT, col.LEVEL, col.Q1, col.Q2, col.OWN_NOISE, col.FREEDOM]]
        if not all_usable(*solved, parts):
            return "the moments of a posterior would be too large or too small to square"
        before = prior_variances(self.priors)[which]
        if self.link is not None or not ((col.roots_of(arms, rows) ** 2).sum(axis=1) > (1.0 + ROUNDED) * before).any():
            return ""
        return "a coefficient would be less certain than before data, from rounding"

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
        whole = copy.deepcopy(self.__dict__)  # rows may be added
        try:
            self._merge(other, since, matches)
            with self.all_or_none():
                self._solve_merged()
        except BaseException:
            self.__dict__.update(whole)
            self._set_handle()
            raise

    def _solve_merged(self) -> None:
        """Solve all arms after a merge."""
        refresh(self.table, np.arange(len(self.table.mean)))

    def _merge(self, other: Self, since: Self | None, matches: Sequence[Match]) -> None:
        for match in matches:
            news, here = self._news(other, since, match), match.here
            if here == NEW:
                which = other.table.marks[match.there, col.WHICH]
                prior = (other.priors[which], other.table.start[which]) if which else None
                ArmBelief.add_row(self, prior)  # members solve it with its rewards
                here = len(self.table.mean) - 1
            if news is not None and here is not None:
                self._add_news(here, news)
        pool, theirs = self.table.pool, other.table.pool
        fresh = theirs[col.COUNT] - (since.table.pool[col.COUNT] if since is not None else 0.0)
        pool[col.LOW], pool[col.HIGH] = min(pool[col.LOW], theirs[col.LOW]), max(pool[col.HIGH], theirs[col.HIGH])
        if fresh > 0.0:
            pool[col.ORIGIN] = pool[col.ORIGIN] if pool[col.COUNT] > 0.0 else theirs[col.ORIGIN]
            pool[col.LAST] = theirs[col.LAST]
            pool[col.COUNT] += fresh
        pool[col.DIRTY] = 1.0

    def _news(self, other: ArmBelief, since: ArmBelief | None, match: Match) -> dict[str, Any] | None:
        """Return the sums of the rewards of an arm since then; None if they contradict the ancestor."""
        news = row_sums(other.table, match.there)
        if since is None or match.was is None:
            return news
        past = row_sums(since.table, match.was)
        total, lost = two_sums(news["gram"][0], -past["gram"][0])
        gram = np.stack([total, news["gram"][1] - past["gram"][1] + lost])
        news = {name: news[name] - past[name] for name in news} | {"gram": gram}
        torn = news["pulls"] < 0 or news["tries"] < 0 or (news["pulls"] == 0 and gram.any())
        if torn or self._impossible(gram) or not other.same_prior(match.there, since, match.was):
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
        which, its = mine.marks[row, col.WHICH], theirs.marks[there, col.WHICH]
        return np.array_equal(mine.prior[which], theirs.prior[its]) and np.array_equal(
            mine.start[which], theirs.start[its]
        )

    def _add_news(self, row: int, news: dict[str, Any]) -> None:
        sums = tallies_of(self.table)
        sums["tries"][row] += news["tries"]
        if not news["pulls"]:
            return
        mine = col.sums_of(self.table, row)
        total, lost = two_sums(mine[0], news["gram"][0])
        col.put_sums(self.table, row, np.stack(two_sums(total, mine[1] + news["gram"][1] + lost)))
        for name in ("extra", "weights", "pulls"):
            sums[name][row] += news[name]
        self.table.marks[row, col.STALE] = 1

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
            name: longer(getattr(arms, name)) for name in _ROWS if name != "lines" or arms.kind != FIXED
        }
        grown["marks"][-1] = 0
        grown["marks"][-1, col.STALE] = 1
        if prior is not None:
            precision, start = prior
            grown["marks"][-1, col.WHICH] = len(arms.prior)
            own = triangle_of(precision[np.newaxis]) / arms.pool[col.GAIN]
            grown["prior"] = np.concatenate([arms.prior, own])
            grown["start"] = np.concatenate([arms.start, start[np.newaxis]])
            self.priors = np.concatenate([self.priors, precision[np.newaxis]])
        arms.pool[col.DIRTY] = 1.0
        self._set_table(**grown)

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
        which = arms.marks[row, col.WHICH]
        if which > 0:
            fields["prior"], fields["start"] = (np.delete(array, which, axis=0) for array in (arms.prior, arms.start))
            fields["marks"][fields["marks"][:, col.WHICH] > which, col.WHICH] -= 1
            self.priors = np.delete(self.priors, which, axis=0)
        arms.pool[col.DIRTY] = 1.0
        self._set_table(**fields)

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
        means, roots, noise = self.table.mean[rows], col.roots_of(self.table, rows), self.table.pool[col.NOISE]
        covariance = (roots.transpose(0, 2, 1) @ roots).mean(axis=0)
        if noise > 0.0:
            gaps = (means - means.mean(axis=0)) / noise
            covariance = covariance + gaps.T @ gaps / len(rows)
        with np.errstate(all="ignore"):
            try:
                precision = LinearGaussianPosterior(len(covariance), np.linalg.inv(covariance)).prior
                fault = "" if ordinary(precision) else "they know one direction and nothing of another"
            except (np.linalg.LinAlgError, PosteriorError) as error:
                fault = str(error)
        if fault:
            message = f"like names arms whose posteriors are no prior in double precision ({fault})"
            raise ParameterError(message, code="no-prior", argument="like")
        return precision, means.mean(axis=0)

    # -- what it says --------------------------------------------------------------------------------------

    @property
    def pulls(self) -> IntArray:
        """Number of rewards of every arm, [A]."""
        return self.table.marks[:, col.PULLS]

    @property
    def tries(self) -> IntArray:
        """Number of decisions for every arm, or of rewards if a log brought more, [A]."""
        return self.table.marks[:, col.TRIES]

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
        return bool(self.table.pool[col.GAIN] != 1.0)

    def coefficients(self) -> tuple[FloatArray, FloatArray]:
        """Return means [A, D] and covariances [A, D, D] of theta; see ``Belief.coefficients``."""
        arms, every = self.table, np.arange(len(self.table.mean))
        refresh(arms, every)
        noise = np.array([float(noise_of(arms, int(row))) for row in every])
        if arms.kind == BY_ARM:
            freedom = arms.parts[:, col.FREEDOM]
            noise = noise * np.sqrt(freedom / (freedom - 2.0))
        roots = col.roots_of(arms)
        covariance = roots.swapaxes(1, 2) @ roots
        clear = noise[:, np.newaxis, np.newaxis] > 0.0
        return arms.mean.copy(), np.where(clear, noise[:, np.newaxis, np.newaxis] ** 2 * covariance, math.inf)

    def slopes(self, context: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return means [A, D] and covariances [A, D, D] of the slopes of scores in a context [D]: those of theta."""
        return self.coefficients()

    def tallies(self) -> dict[str, IntArray]:
        """Return copies of numbers [A] by name: of rewards and of decisions of every arm."""
        return {"pulls": self.pulls.copy(), "tries": self.tries.copy()}

    # -- state ---------------------------------------------------------------------------------------------

    def options(self) -> dict[str, Any]:
        """Return what was given when the belief was made; see ``Belief.options``."""
        prior = self.priors[0].tolist() if self.prior_origin == "given" else self.prior_origin
        return {"rewards": self.reward_kind, "prior_precision": prior}

    @property
    def axes(self) -> dict[str, str]:
        """Type and sizes of the arrays of a state file; see ``Belief.axes``."""
        return ARM_SCHEMA | self.schema

    def values(self) -> dict[str, Any]:
        """Return the numbers of a state file that are not arrays; see ``Belief.values``."""
        return {"rewards": self.reward_kind, "prior": self.prior_origin}

    def arrays(self) -> Arrays:
        """Return the arrays of a state file; see ``Belief.arrays``."""
        arms = self.table
        shared = {"prior_precision": self.priors, "prior_mean": arms.start, "pool": arms.pool[col.SAVED]}
        return shared | tallies_of(self.table) | {"gram": col.sums_of(arms)}

    def restore(self, values: dict[str, Any], arrays: Arrays) -> None:
        """Take the state of a file; see ``Belief.restore``."""
        self._require(arrays)
        for name, field in tallies_of(self.table).items():
            field[:] = arrays[name]
        col.put_sums(self.table, slice(None), arrays["gram"])
        self.table.pool[col.SAVED] = arrays["pool"]
        self.priors = arrays["prior_precision"]
        self._set_table(prior=triangle_of(self.priors) / self.table.pool[col.GAIN], start=arrays["prior_mean"])
        self._restore_solved(arrays)
        refresh(self.table, np.arange(len(self.table.mean)))
        fault = self._fault(slice(None))
        require_state(not fault, fault)

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
        priors = arrays["prior_precision"]
        require_arrays(arrays, ARM_SCHEMA | self.schema, {"A": size, "D": dim, "J": len(priors)})
        require_priors(arrays, self._moved(arrays["prior_mean"][0]))
        self._require_sums(arrays)
        require_tallies(arrays)
