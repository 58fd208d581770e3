"""Spectral risk measures: weights from a distortion function."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .._support.checks import whole_number
from ..errors import ParameterError
from ..types import FloatArray
from .base import ExactForm, RiskMeasure


@dataclass(frozen=True)
class Spectral(RiskMeasure):
    """Weights from a distortion g of [0, 1]: sorted draw i of N has the weight g(i/N) - g((i-1)/N).

    The measure is coherent when g is concave. CVaR_alpha is g(u) = min(u / (1 - alpha), 1). Two measures are equal if
    they hold the same function.

    Without draws, g must be piecewise linear: the measure is then a mixture of CVaRs, whose levels are found from g. A
    g that bends everywhere can be replaced by ``pieces`` lines between equidistant points of it. That is another
    measure, which differs by at most ``gap`` times the range of the draws. The error bound of a solution includes it.

    Parameters
    ----------
    distortion : callable
        Nondecreasing function g of one number with g(0) = 0 and g(1) = 1.
    pieces : int, optional
        Number of lines that replace g, at most 10,000. By default g itself is used.

    Raises
    ------
    ParameterError
        If `distortion` falls, or does not map 0 to 0 and 1 to 1.

    Examples
    --------
    >>> Spectral(lambda u: 1 - (1 - u) ** 2).weights(2)
    array([0.75, 0.25])
    >>> Spectral(lambda u: min(2 * u, 0.5 + 0.5 * u, 1)).exact_form()
    ExactForm(levels=array([0.    , 0.6667]), weights=array([0.5, 0.5]), quantile=False)
    >>> Spectral(lambda u: 1 - (1 - u) ** 2, pieces=10).gap  # 0.0025, bounded from 16 points of each piece
    0.0028125
    """

    distortion: Callable[[float], float]
    pieces: int | None = None

    def __post_init__(self) -> None:
        if not callable(self.distortion):
            message = f"distortion must be a function of one number, got {self.distortion!r}"
            raise ParameterError(message, code="wrong-type", argument="distortion", value=self.distortion)
        for end in (0.0, 1.0):
            value = self._at(end)
            if not abs(value - end) <= 1e-12:
                raise _distortion_error(f"distortion({end}) must be {end}, got {value!r}", value=value)
        if self.pieces is not None:
            object.__setattr__(self, "pieces", whole_number(self.pieces, "pieces", maximum=10_000))

    def _at(self, u: float) -> float:
        value = self.distortion(u)
        try:
            return float(value)
        except (TypeError, ValueError):
            raise _distortion_error(f"distortion({u}) must be a number, got {value!r}", value=value) from None

    def _values(self, places: FloatArray) -> FloatArray:
        """Return g at ``places``, which must not fall."""
        values = np.array([self._at(u) for u in places.tolist()])
        bad = ~(np.diff(values) >= -1e-12)
        if bad.any():
            i = int(np.argmax(bad))
            raise _distortion_error(
                f"distortion must not fall: distortion({places[i]}) = {values[i]} but "
                f"distortion({places[i + 1]}) = {values[i + 1]}",
                value=values[i + 1],
            )
        return values

    @property
    def gap(self) -> float:
        """Bound on the distance of g from its ``pieces``; 0 without pieces.

        g is looked at in 16 points of each piece. Between them it is bounded because it does not fall, and more
        closely in a piece where it is concave or convex in these points.
        """
        if self.pieces is None:
            return 0.0
        fine = np.arange(16 * self.pieces + 1) / (16 * self.pieces)
        values = self._values(fine)
        lines = np.interp(fine, fine[::16], values[::16])
        # on an interval g lies between its values at both ends, and so does the line
        apart = np.maximum(abs(values[1:] - lines[:-1]), abs(lines[1:] - values[:-1])).reshape(-1, 16).max(axis=1)
        off = (values - lines)[: 16 * self.pieces].reshape(-1, 16)  # 0 at both ends of a piece
        bends = np.diff(np.pad(off, ((0, 0), (0, 1))), n=2, axis=1)
        bent = (bends <= 1e-15).all(axis=1) | (bends >= -1e-15).all(axis=1)
        # a concave function that is 0 at the end of a piece falls, divided by the distance from that end: with its
        # greatest value seen at point i of 16 it is at most (i + 1)/i or (17 - i)/(16 - i) times that
        at = abs(off).argmax(axis=1)
        most = abs(off).max(axis=1) * np.maximum((at + 1.0) / np.maximum(at, 1), (17.0 - at) / (16.0 - at))
        return float(np.where(bent, np.minimum(most + 1e-15, apart), apart).max())

    def exact_form(self) -> ExactForm:  # noqa: D102
        if self.pieces is None:
            knots, values = lines_of(self._at)
        else:
            knots = np.arange(self.pieces + 1) / self.pieces
            values = self._values(knots)
        slopes = np.append(np.diff(values) / np.diff(knots), 0.0)
        weights = -np.diff(slopes) * knots[1:]
        kept = abs(weights) > 1e-14
        return ExactForm((1.0 - knots[1:])[kept][::-1], weights[kept][::-1] / weights[kept].sum(), False)

    def tail_weights(self, n: int) -> FloatArray:  # noqa: D102
        places = np.array([i / n for i in range(n + 1)])
        if self.pieces is None:
            values = self._values(places)
        else:
            knots = np.arange(self.pieces + 1) / self.pieces
            values = np.interp(places, knots, self._values(knots))
        weights = np.trim_zeros(np.maximum(np.diff(values), 0.0), "b")
        return weights / weights.sum()


_MAX_HALVINGS = 30  # of [0, 1], to find where a distortion bends
_MAX_BENDS = 64
_LINE_TOLERANCE = 4e-15  # largest distance of a line from a distortion


def _distortion_error(message: str, *, code: str = "wrong-distortion", **fields: object) -> ParameterError:
    return ParameterError(message, code=code, argument="distortion", **fields)


def lines_of(g: Callable[[float], float]) -> tuple[FloatArray, FloatArray]:
    """Return the ends [J+1] of the lines of a piecewise linear distortion, from 0 to 1, and its values there.

    An interval on which g is not a line is halved repeatedly. An interval that is not a line after 30 halvings holds a
    bend, which lies where the lines on both sides of it meet.

    >>> lines_of(lambda u: min(u / 0.3, 1.0))
    (array([0. , 0.3, 1. ]), array([0., 1., 1.]))
    """
    inside = (0.5, 0.2887, 0.8117)  # shares of an interval, at which g is compared with a line
    crooked, straight = [(0.0, 1.0)], []
    for _ in range(_MAX_HALVINGS):
        halves = []
        for a, b in crooked:
            ga, gb = g(a), g(b)
            if all(abs(g(a + t * (b - a)) - (ga + t * (gb - ga))) <= _LINE_TOLERANCE for t in inside):
                straight.append((a, b))
            else:
                halves += [(a, 0.5 * (a + b)), (0.5 * (a + b), b)]
        if len(halves) > 4 * _MAX_BENDS:
            a, b = halves[0]
            raise _distortion_error(
                f"distortion bends everywhere, between {a} and {b} for example: it is no mixture of a few CVaRs. Give "
                "draws, e.g. draws=1000, or replace it by lines, e.g. Spectral(distortion, pieces=50)",
                code="no-exact-form",
            )
        crooked = halves
    straight.sort()
    if not straight or straight[0][0] > 0.0 or straight[-1][1] < 1.0:
        message = "distortion jumps at 0 or at 1: it is no mixture of CVaRs, give draws, e.g. draws=1000"
        raise _distortion_error(message, code="no-exact-form")
    lines: list[tuple[float, float, float]] = []  # begin, end, slope
    for a, b in straight:
        slope = (g(b) - g(a)) / (b - a)
        if lines:
            begin, end, before = lines[-1]
            bent = abs(slope - before) * min(b - a, end - begin) > 4.0 * _LINE_TOLERANCE
            if not bent and abs(g(a) - g(begin) - before * (a - begin)) <= 4.0 * _LINE_TOLERANCE:
                lines[-1] = (begin, b, (g(b) - g(begin)) / (b - begin))
                continue
        lines.append((a, b, slope))
    knots, values = [0.0], [0.0]
    for (_, b, before), (c, _, after) in pairwise(lines):
        # a bend between b and c, which may be one point
        u = (g(c) - g(b) + before * b - after * c) / (before - after) if before != after else math.inf
        if not b - 1e-9 <= u <= c + 1e-9:
            message = f"distortion jumps at {b}: it is no mixture of CVaRs, give draws, e.g. draws=1000"
            raise _distortion_error(message, code="no-exact-form")
        u = min(max(u, b), c)
        knots.append(u)
        values.append(g(b) + before * (u - b))
    return np.array([*knots, 1.0]), np.array([*values, 1.0])
