"""Arms and contexts as users of a LinearBandit give them, checked: names become rows, contexts arrays."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.checks import FloatArray, IntArray, finite_array
from ..data.features import Names
from ..data.source import context_columns
from ..errors import DataError, ParameterError, PrudentError, PrudentWarning
from ..types import ContextLike
from .base import Bandit
from .belief.arms import ArmBelief
from .checks import check_floor, too_large
from .decision import Arm
from .kernels.step import LARGEST, usable
from .law.base import Law

if TYPE_CHECKING:
    from .explain import Explanation

__all__ = ["NamedArms"]


_FLOAT = np.dtype(np.float64)


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

    def _check_floor(self, k: int) -> None:
        check_floor(self._settings.min_propensity, k)

    def _checked_rows(self, points: FloatArray) -> FloatArray:
        """Return contexts [T,dim] as kernels take them."""
        if points.ndim != 2 or points.shape[1] != self._dim or not usable(points.reshape(-1)):
            raise self._context_error(points)
        if not self._intercept:
            return np.ascontiguousarray(points)
        rows = np.ones((len(points), self._dim + 1))
        rows[:, 1:] = points
        return rows

    def _points(self, context: Any) -> FloatArray:
        """Return a context or contexts as an array of our own."""
        if context is None:
            if self._dim == 0:
                return np.empty(0)
            raise self._context_error(None)
        named = self._named(context)
        if named is not None:
            return named.values
        try:
            return np.array(context, _FLOAT)
        except (TypeError, ValueError, OverflowError):
            raise self._context_error(context) from None

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
        text = f"{label} must be a list of arms, got {arms!r}"
        if isinstance(arms, str):
            raise ParameterError(text, code="wrong-type", argument=label, value=arms)
        try:
            places = [self._arm_index(arm, f"{label}[{i}]", ParameterError) for i, arm in enumerate(arms)]
        except TypeError:
            raise ParameterError(text, code="wrong-type", argument=label, value=arms) from None
        if not places:
            raise ParameterError(f"{label} is empty: no arm is eligible", code="empty", argument=label)
        if len(set(places)) < len(places):
            twice = next(i for i, place in enumerate(places) if place in places[:i])
            name = self._names[places[twice]]
            raise ParameterError(
                f"{label}[{twice}] is {name!r} for the second time",
                code="duplicate-name",
                argument=f"{label}[{twice}]",
                arm=name,
            )
        return tuple(self._names[place] for place in places), np.array(places, dtype=np.int64)

    def _context_error(self, context: Any) -> PrudentError:
        """Return the error that says what is wrong with a context that was refused."""
        expected = f"expected ({self._dim},) or (T, {self._dim})"
        if context is None:
            return DataError(
                f"context is None, expected shape ({self._dim},) or (T, {self._dim})",
                code="missing-argument",
                argument="context",
            )
        try:
            points = finite_array(context, "context")
        except PrudentError as error:
            return error
        if points.ndim not in (1, 2) or points.shape[-1] != self._dim:
            text = f"context has shape {points.shape}, {expected}"
            return DataError(text, code="wrong-shape", argument="context", value=points.shape)
        return too_large(points, "context")

    def _require_number(self, value: float) -> None:
        if not abs(value) <= LARGEST:
            limit = " of at most 1e150" if math.isfinite(value) else ""
            code = "too-large" if math.isfinite(value) else "not-finite"
            text = f"reward is {value}, expected a finite number{limit}"
            raise DataError(text, code=code, argument="reward", value=value)

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
        named = self._named(context)
        try:
            points = np.asarray(context, dtype=np.float64) if named is None else named.values
        except (TypeError, ValueError, OverflowError):
            return None
        if points.ndim != 2:
            return None
        self._check_floor(len(self._names_and_rows(arms)[0]))
        self._checked_rows(points)
        if named is not None and named.names is not None and self.features is None:
            self.name_features(named.names)
        return list(points)

    def _next_law(self, context: Any, arms: Any, check_floor: bool) -> tuple[Law, bool]:
        points = self._points(context)
        with self._lock:
            _, rows = self._names_and_rows(arms)
            if check_floor:
                self._check_floor(rows.size)
            t = self._decisions + 1
            law = self._belief.law(self._checked_rows(np.atleast_2d(points)), rows, self._settings.at(t), t)
            _ = law.mean  # computed under the lock
        return law, points.ndim == 1

    def _explained(self, context: Any, arm: Arm | None, arms: Any) -> Explanation:
        from .explain import Parts, explained, feature_names

        with self._lock:
            named = self._named(context)
            names = self.features
            if named is not None:
                context, names = named
            eligible, rows = self._names_and_rows(arms)
            law, first = self._next_law(context, arms, True)
            if not first:
                raise ParameterError(
                    f"context has shape {np.shape(context)}, expected one context ({self.dim},)",
                    code="wrong-shape",
                    argument="context",
                    value=np.shape(context),
                )
            coefficients, covariances = self._belief.coefficients()
            pulls = self._belief.pulls[rows]
            point = self._checked_rows(np.atleast_2d(self._points(context)))[0]
        if arm is not None:
            arm = self.arms[self._arm_index(arm, error=ParameterError)]

        def parts(two: list[int]) -> Parts:
            at = rows[two]
            sds = np.sqrt(np.diagonal(covariances[at], axis1=1, axis2=2))
            return Parts(np.stack([point, point]), coefficients[at], sds, None)

        labels = feature_names(names, self.dim, self.intercept)
        return explained(self, law, eligible, pulls, labels, arm, parts)

    def _log_rows(self, log: Any) -> tuple[FloatArray, IntArray, FloatArray, Names | None]:
        contexts, pulled, rewards = context_columns(log, self.features, "arm", "reward")
        named = self._named(contexts)
        points = self._checked_rows(self._points(contexts) if named is None else named.values)
        values = self._checked_rewards(rewards, (len(points),))
        rows = [self._arm_index(arm, f"arm[{t}]") for t, arm in enumerate(pulled)]
        return points, np.array(rows, dtype=np.int64), values, self.features if named is None else named.names

    def _skip(self, arms: list[Any], count: int) -> None:
        self._skipped += len(arms)
        text = f"{len(arms)} of {count} rewards are of arms that are not there, {arms[0]!r} first, and were left out"
        warnings.warn(PrudentWarning(text, code="unknown-arm", arm=arms[0], count=len(arms)), stacklevel=4)
