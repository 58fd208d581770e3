"""Arms and contexts as users of a LinearBandit give them, checked: names become rows, contexts arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .._support.checks import FloatArray, IntArray, finite_array
from ..errors import DataError, ParameterError, PrudentError
from .base import Bandit
from .checks import check_floor, too_large
from .decision import Arm
from .kernels.step import LARGEST, usable

__all__ = ["NamedArms"]


_FLOAT = np.dtype(np.float64)


class NamedArms(Bandit):
    """Base class of bandits whose arms have names and are all there, in contexts of ``dim`` features."""

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
            return DataError(f"context is None, {expected}", code="missing-argument", argument="context")
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
