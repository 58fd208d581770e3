"""Arms and contexts as users of a LinearBandit give them, checked: names become rows, contexts arrays."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from .._support.checks import FloatArray, IntArray, number_array, refuse, require_shape
from ..data.features import Names
from ..data.source import context_columns
from ..errors import DataError, ParameterError, PrudentError, PrudentWarning
from ..types import ContextLike, TableLike
from .base import Bandit
from .belief.arms import ArmBelief
from .checkup import Checkup, checkup
from .decision import Arm, Decision
from .kernels.batch import decide_each
from .kernels.step import LARGEST, usable
from .law.base import Law
from .law.normal import NormalLaw, ScoreRule
from .law.score_law import score_law
from .limits import LimitedLaw, PropensityLimits

if TYPE_CHECKING:
    import xarray

    from .explain import Parts, PartsOf


class NamedArms(Bandit):
    """Base class of bandits whose arms have names and are all there, in contexts of ``dim`` features."""

    _belief: ArmBelief
    _skipped: int

    def _set_names(self, names: Sequence[Arm]) -> None:
        self._names = tuple(names)
        self._index = {name: i for i, name in enumerate(names)}
        self._every = np.arange(len(names))

    def _add_names(self, names: list[Arm]) -> None:
        self._set_names([*self._names, *names])

    @property
    def arms(self) -> tuple[Arm, ...]:
        """Names of the arms."""
        return self._names

    def _names_and_rows(self, arms: Iterable[Arm] | None) -> tuple[tuple[Arm, ...], IntArray]:
        return (self._names, self._every) if arms is None else self._eligible(arms)

    def _with_constant(self, points: FloatArray) -> FloatArray:
        """Return contexts [T,dim] as kernels take them: with a constant feature, if there is an intercept."""
        if not self._intercept:
            return points
        rows = np.ones((len(points), self._dim + 1))
        rows[:, 1:] = points
        return rows

    def _read(
        self, context: Any, axes: tuple[int, ...] = (1, 2), copy: bool = True, learn: bool = False
    ) -> tuple[FloatArray, Names | None]:
        return super()._read(np.empty(0) if context is None and self._dim == 0 else context, axes, copy, learn)

    def _fits(self, point: FloatArray) -> bool:
        """Return whether an array is a context that can be used."""
        return point.shape == (self._dim,) and usable(point)

    def _refuse(self, context: Any) -> NoReturn:
        """Raise the error that says what is wrong with a context that cannot be used."""
        self._read(context)
        message = "context has features for which scores would not be finite: scale the features"
        raise DataError(message, code="too-large", argument="context")

    def _has(self, arm: Any) -> bool:
        try:
            return arm in self._index
        except TypeError:
            return False

    def _arm_index(self, arm: Any, where: str = "arm", error: type[PrudentError] = DataError) -> int:
        try:
            return self._index[arm]
        except (KeyError, TypeError):
            names = ", ".join(repr(name) for name in self._names[:8]) + (", ..." if len(self._names) > 8 else "")
            text = f"{where} is {arm!r}, which is not one of the arms ({names})"
            raise error(text, code="unknown-arm", argument=where, arm=arm) from None

    def _eligible(self, arms: Iterable[Arm], label: str = "arms") -> tuple[tuple[Arm, ...], IntArray]:
        if isinstance(arms, str) or not isinstance(arms, Iterable):
            text = f"{label} must be a list of arms, got {arms!r}"
            raise ParameterError(text, code="wrong-type", argument=label, value=arms)
        places = [self._arm_index(arm, f"{label}[{i}]", ParameterError) for i, arm in enumerate(arms)]
        if not places:
            raise ParameterError(f"{label} is empty: no arm is eligible", code="empty", argument=label)
        if len(set(places)) < len(places):
            twice = next(i for i, place in enumerate(places) if place in places[:i])
            name = self._names[places[twice]]
            text = f"{label}[{twice}] is {name!r} for the second time"
            raise ParameterError(text, code="duplicate-name", argument=f"{label}[{twice}]", arm=name)
        return tuple(self._names[place] for place in places), np.array(places, dtype=np.int64)

    def set_limits(
        self,
        min_propensity: float | Mapping[Arm, float] | Sequence[Any] | None = None,
        max_propensity: float | Mapping[Arm, float] | Sequence[Any] | None = None,
    ) -> Self:
        """Give arms other floors and caps of their probabilities.

        Parameters
        ----------
        min_propensity : float or mapping of arm to float or sequence of pairs, optional
            Smallest probability of every eligible arm, or of some arms. The default is that of the settings.
        max_propensity : float or mapping of arm to float or sequence of pairs, optional
            Largest probability of every eligible arm, or of some arms. The default is no cap.

        Returns
        -------
        LinearBandit
            The bandit itself.

        Raises
        ------
        ParameterError
            If an arm is unknown, or no probabilities are within the limits.

        Examples
        --------
        >>> from prudent.bandits import LinearBandit
        >>> bandit = LinearBandit(["control", "new"], dim=1, noise_sd=1.0)
        >>> bandit.set_limits({"control": 0.1}, {"control": 0.1}).propensities([1.0])
        array([0.1, 0.9])
        """
        with self._lock:
            floor = self._settings.min_propensity
            self._limits = PropensityLimits.of(floor, min_propensity, max_propensity, self._names)
            self._went_on()
        return self

    def _limit_one(
        self, names: Sequence[Arm], rows: IntArray, decided: tuple[int, float, Any]
    ) -> tuple[int, float, Law]:
        """Move a decision as floors and caps of arms ask for."""
        place, score, given = decided
        law = given if isinstance(given, Law) else NormalLaw(*given)
        places, scores, limited = self._limit_rows(names, rows, np.array([place]), np.array([score]), law)
        return int(places[0]), float(scores[0]), limited

    def _limit_rows(
        self, names: Sequence[Arm], rows: IntArray, places: IntArray, scores: Any, law: Law
    ) -> tuple[IntArray, FloatArray, Law]:
        """Move decisions as floors and caps of arms ask for; the score of an arm that they go to is its mean."""
        assert self._limits is not None
        limited = LimitedLaw(law, *self._limits.ends(names))
        stream, count = self._stream, len(places)
        stream.reserve(count)
        after = limited.after(places, stream.block[stream.next : stream.next + count])
        stream.next += count
        found = np.array(scores() if callable(scores) else scores)
        tries = self._belief.tries
        for t in np.flatnonzero(after != places):
            found[t] = np.atleast_2d(law.mean)[t, after[t]]
            tries[rows[places[t]]] -= 1
            tries[rows[after[t]]] += 1
        return after, found, limited

    def _require_number(self, value: float) -> None:
        if not abs(value) <= LARGEST:
            message = f"reward is {value}, expected a finite number of at most {LARGEST}"
            finite = math.isfinite(value)
            raise DataError(message, code="too-large" if finite else "not-finite", argument="reward", value=value)

    def checked_contexts(self, context: ContextLike, arms: Iterable[Arm] | None = None) -> list[FloatArray] | None:
        """Return contexts one by one, all of them checked, without deciding.

        If they name features, the bandit knows their names afterwards.

        Parameters
        ----------
        context : ContextLike
            Contexts [T, D].
        arms : iterable of str or int, optional
            The eligible arms, which are checked too.

        Returns
        -------
        list of ndarray of float or None
            Contexts [D] each; None if it is one context.
        """
        if type(context) is np.ndarray and context.ndim == 1:  # which ``select`` checks
            return None
        points, labels = self._read(context)
        if points.ndim == 1:
            return None
        names, _ = self._names_and_rows(arms)
        self._check_floor(len(names), names)
        if labels != self.features and self._encoder is None:
            self.name_features(labels or ())
        return list(points)

    def select_each(self, contexts: FloatArray) -> tuple[list[Decision], list[int]]:
        """Choose among all arms in contexts one after the other: decisions as of ``select``, bit by bit, sooner.

        Parameters
        ----------
        contexts : ndarray of float, [T, D]
            Contexts, which the decisions keep.

        Returns
        -------
        tuple of list
            Decisions with their probabilities, and the ``position`` of the random stream before each. There are fewer
            than contexts, or none, if ``select`` must take the next one, or refuse it.

        Examples
        --------
        >>> from prudent.bandits import LinearBandit
        >>> bandit = LinearBandit(2, dim=1, rng=1)
        >>> again = bandit.copy()
        >>> decisions, positions = bandit.select_each(np.array([[1.0], [2.0]]))
        >>> [decision.arm for decision in decisions] == [again.select([x]).arm for x in (1.0, 2.0)]
        True
        """
        with self._lock:
            belief, names, k, count = self._belief, self._names, len(self._names), len(contexts)
            free = self._limits is None and self._drift is None and not self._falling
            fitting = contexts.shape == (count, self._dim)
            if not (free and fitting and type(belief).decide is ArmBelief.decide):
                return [], []
            rule, stream, before = belief.rule, self._stream, (self._decisions, self._rewards)
            if rule.floor * k > 1.0 + 1e-12:  # as ``select`` says
                return [], []
            scores_by = ScoreRule(rule.floor, rule.n, tuple(rule.weights.tolist()), rule.clip, belief.link)
            try:
                law = score_law(*scores_by[1:4])
            except ParameterError:  # there are no probabilities
                return [], []
            stream.reserve(count * (k * rule.per_arm + 1))
            first = stream.position - stream.next
            moments, scores = np.empty((count, 4, k)), np.empty(count)
            places, starts = np.empty(count, dtype=np.int64), np.empty(count + 1, dtype=np.int64)
            with np.errstate(all="ignore"):  # of contexts that the kernel refuses
                design = belief.design(self._with_constant(contexts))
            given = (before[0] + 1, design, self._every, stream.block, stream.next)
            done = decide_each(belief.table[:], rule[:], *given, moments, places, scores, starts)
            stream.next = int(starts[done])
            self._decisions += done
        chances = law.decision_chances(moments[:done], places[:done], rule.floor)
        decisions = [
            Decision(names, place, score, (own, scores_by), context, (before[0] + i, before[1]), True, None, chance)
            for i, place, score, own, context, chance in zip(
                range(done), places.tolist(), scores.tolist(), moments, contexts, chances, strict=False
            )
        ]
        return decisions, (first + starts[:done]).tolist()

    def _next_law(self, context: Any, arms: Any, check_floor: bool) -> tuple[Law, bool]:
        points, _ = self._read(context)
        with self._lock:
            names, rows = self._names_and_rows(arms)
            if check_floor:
                self._check_floor(rows.size, names)
            t = self._decisions + 1
            law = self._belief.law(self._with_constant(np.atleast_2d(points)), rows, self._settings.at(t), t)
            _ = law.mean  # computed under the lock
            if self._limits is not None and check_floor:
                law = LimitedLaw(law, *self._limits.ends(names))
        return law, points.ndim == 1

    def _explained(self, context: Any, arms: Any) -> tuple[Law, Sequence[Arm], IntArray, PartsOf, dict[str, Any]]:
        point, labels = self._read(context)
        if point.ndim != 1:
            message = f"context has shape {point.shape}, expected one context ({self.dim},)"
            raise ParameterError(message, code="wrong-shape", argument="context", value=point.shape)
        names, rows = self._names_and_rows(arms)
        law, _ = self._next_law(point, arms, True)
        design = self._belief.design(self._with_constant(np.stack([point, point])))
        coefficients, covariances = self._belief.slopes(design[0])

        def parts(two: list[int]) -> Parts:
            at = rows[two]
            return design, coefficients[at], np.sqrt(np.diagonal(covariances[at], axis1=1, axis2=2)), None

        return law, names, self._belief.pulls[rows], parts, {"features": self._belief.labels(self._labels(labels))}

    def to_xarray(self) -> xarray.Dataset:
        """Return what is known of the arms as an xarray.Dataset.

        While a learned noise is unknown, sds are infinite.

        Returns
        -------
        xarray.Dataset
            ``mean`` and ``sd`` [arm, feature] of the coefficients, their ``covariance`` [arm, feature, feature2], the
            intercept first; ``pulls`` and ``tries`` [arm], the numbers of rewards and of decisions.

        Examples
        --------
        >>> from prudent.bandits import LinearBandit
        >>> data = LinearBandit(["a", "b"], dim=1, noise_sd=1.0).update([1.0], "a", 3.0).to_xarray()
        >>> data["mean"].sel(arm="a").values
        array([1., 1.])
        """
        from .explain import dataset

        with self._lock:
            mean, covariance = self._belief.coefficients()
            sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
            told = self._belief.tallies(), self._attributes()
            names = self._belief.labels(self._labels(self.features))
            return dataset(names, mean, sd, covariance, self.arms, *told)

    def check(self, log: TableLike | None = None) -> Checkup:
        """Look for what may go wrong: features on different scales, rewards that contradict the model, starved arms.

        Parameters
        ----------
        log : TableLike, optional
            Rows as in ``from_log``, or what ``Journal.to_pandas`` returns. They tell whether products and
            thresholds of features predict rewards, and, with rewards that are None or NaN and the columns ``time`` and
            ``reward_time``, whether rewards of some arms are missing or late.

        Returns
        -------
        Checkup
            Findings, to be printed or iterated over.

        Examples
        --------
        >>> from prudent.bandits import LinearBandit
        >>> bandit = LinearBandit(2, dim=2, rng=1)
        >>> contexts = [[0.001 * i, 100.0 * (i % 7)] for i in range(40)]
        >>> report = bandit.update(contexts, [i % 2 for i in range(40)], [float(i % 3) for i in range(40)]).check()
        >>> [finding.kind for finding in report]
        ['scales']
        """
        with self._lock:
            normal, first = self.reward_kind == "gaussian", int(self._intercept)
            labels = self._labels(self.features)
            names = None if self.features is None else self._belief.labels(labels)[first:]
            report = checkup(self._belief.table, self._names, self._intercept, names, spans=self._spans, normal=normal)
            if log is None:
                return report
            from .log_checkup import log_findings

            contexts, pulled, paid = context_columns(log, self._columns, "arm", "reward")
            points, _ = self._read(contexts, (2,))
            rows = np.array([self._arm_index(arm, f"arm[{t}]") for t, arm in enumerate(pulled)], dtype=np.int64)
            rewards = number_array([math.nan if value is None else value for value in paid], "reward")
            require_shape(rewards, "reward", (len(points),), "[T]")
            refuse(np.abs(rewards) > LARGEST, rewards, "reward", f"a number of at most {LARGEST}", code="too-large")
            found = log_findings(log, points, rows, rewards, self._names, labels[first:])
            return Checkup((*report.findings, *found), report.rewards)

    def _log_rows(self, log: Any) -> tuple[FloatArray, IntArray, FloatArray, Names | None]:
        contexts, pulled, rewards = context_columns(log, self._columns, "arm", "reward")
        points, labels = self._read(contexts, (2,))
        values = self._checked_rewards(rewards, (len(points),))
        rows = [self._arm_index(arm, f"arm[{t}]") for t, arm in enumerate(pulled)]
        return self._with_constant(points), np.array(rows, dtype=np.int64), values, labels

    def _skip(self, arms: list[Any], count: int) -> None:
        self._skipped += len(arms)
        text = f"{len(arms)} of {count} rewards are of arms that are not there, {arms[0]!r} first, and were left out"
        warnings.warn(PrudentWarning(text, code="unknown-arm", arm=arms[0], count=len(arms)), stacklevel=4)
