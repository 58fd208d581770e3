r"""Integrals over one Beta variable with a proved error, for rows with two risks and three outcomes.

``luck_three`` needs integrals of f(c) g(c), with f the density of C_1 ~ Beta(psi_1, psi_2 + psi_3) and g(c) one of

    g_0 = P(B > b(c)),        c g_0 / t,        E[V; B > b(c)],        B ~ Beta(psi_2, psi_3).

All three are between 0 and 1 and do not fall in c. The panel is cut into cells. In a cell with the known mass of C_1
the integral is this mass times the mean of g by the density, which is

- between the values of g at the two ends of the cell, and
- the quotient of two integrals of analytic functions. For F with |F| <= M in the Bernstein ellipse rho of the cell,
  Gauss's rule with J nodes is off by at most (64/15) M rho^(-2J) / (1 - rho^-2) (in units of half a cell; Trefethen,
  *Approximation Theory and Approximation Practice*, Theorem 19.3).

M is a bound in a disc around the middle m of the cell that holds the ellipse: f and the derivatives of g are products
of powers of distances to points outside of it, so that |z - w|^k <= |m - w|^k exp(first order + rest) with a known
rest. A cell is halved, towards a singular point in eighths, until the better of both bounds is small.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy

from ..types import BoolArray, FloatArray, IntArray

NODES = 16  # of Gauss's rule in a cell
ENOUGH = 1e-14  # error of a cell, at most, if it can be reached
ROUNDS = 120  # of halving, at most; a cell that is left has the bound that it has
RADII = (1.25, 1.6, 2.2, 3.2, 5.0)  # of the disc, in half widths of the cell
INSIDE = 0.97  # of the distance to the next singular point
MARGIN = 1.01  # on bounds, which are rounded themselves
NEARLY = 0.1  # of a cell's width: a singular point that is nearer is approached in eighths
OUTSIDE = 1e-17  # mass of C_1 beyond which cells are not looked at first
TINY = 1e-300
_AT, _WEIGHT = np.polynomial.legendre.leggauss(NODES)
_AT, _WEIGHT = 0.5 * (1.0 + _AT), 0.5 * _WEIGHT


class Panel(NamedTuple):
    """The range of c between two points, with distances to singular points that lose no digits; P panels.

    Where ``helped`` is False B may be anything: b(c) = 0.
    """

    row: IntArray  # [P] of the results
    first: FloatArray  # psi_1
    second: FloatArray
    third: FloatArray
    gap: FloatArray  # a, in (0, 1)
    tail: float  # t
    begin: FloatArray  # where the panel begins
    width: FloatArray
    beyond: FloatArray  # from the point where b = 1 to the begin
    above: FloatArray  # from the end to t
    top: FloatArray  # from the end to 1
    helped: BoolArray

    def of(self, which: IntArray) -> Panel:
        """Return some of the panels."""
        parts: list[Any] = [part if isinstance(part, float) else part[which] for part in self]
        return Panel(*parts)

    def column(self) -> Panel:
        """Return the panels with an axis for points."""
        parts: list[Any] = [part if isinstance(part, float) else part[:, np.newaxis] for part in self]
        return Panel(*parts)


class _Cells(NamedTuple):
    """Parts of panels: number of the panel, distance to its begin and to its end, width."""

    panel: IntArray
    left: FloatArray
    right: FloatArray
    width: FloatArray

    def of(self, which: BoolArray) -> _Cells:
        parts: list[Any] = [part[which] for part in self]
        return _Cells(*parts)

    def column(self) -> _Cells:
        parts: list[Any] = [part[:, np.newaxis] for part in self]
        return _Cells(*parts)


class _Points(NamedTuple):
    """Points in cells: c, 1 - c, t - c, and the distances to where b = 0 and b = 1."""

    c: FloatArray
    other: FloatArray
    under: FloatArray
    zero: FloatArray
    one: FloatArray


class _Laws(NamedTuple):
    """P(B > b), E[B; B > b] / E[B], and the same beyond the value of B where C_2 = t."""

    mass: FloatArray
    moment: FloatArray
    full_mass: FloatArray
    full_moment: FloatArray


def _points(of: Panel, cells: _Cells, at: float | FloatArray) -> _Points:
    left, right = cells.left + cells.width * at, cells.right + cells.width * (1.0 - at)
    return _Points(of.begin + left, np.maximum(of.top + right, TINY), of.above + right, right, of.beyond + left)


def _upper(second: FloatArray, third: FloatArray, b: FloatArray, rest: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return P(B > b) and E[B; B > b] / E[B]; ``rest`` is 1 - b with all of its digits."""
    second, third, b, rest = (np.ascontiguousarray(part) for part in np.broadcast_arrays(second, third, b, rest))
    mass, low = np.empty(b.shape), b < 0.5
    mass[low] = scipy.special.betaincc(second[low], third[low], b[low])
    mass[~low] = scipy.special.betainc(third[~low], second[~low], np.minimum(rest[~low], 1.0))
    # b^second (1 - b)^third / (second B(second, third)), the difference of both
    log = _log_density(second + 1.0, third + 1.0, b, rest) + np.log(third / ((second + third) * (second + third + 1.0)))
    return mass, np.minimum(mass + np.exp(log), 1.0)


def _log_density(first: FloatArray, second: FloatArray, x: FloatArray, rest: FloatArray) -> FloatArray:
    """Return the logarithm of the density of Beta(first, second) at x; ``rest`` is 1 - x."""
    powers = scipy.special.xlogy(first - 1.0, x) + scipy.special.xlogy(second - 1.0, rest)
    return np.asarray(powers - scipy.special.betaln(first, second))


def _laws(of: Panel, at: _Points, every: bool) -> _Laws:
    scale = (1.0 - of.gap) * at.other
    b = np.where(of.helped, np.clip(at.zero / scale, 0.0, 1.0), 0.0)
    rest = np.where(of.helped, np.clip(of.gap * at.one / scale, 0.0, 1.0), 1.0)
    if not every:
        return _Laws(*_upper(of.second, of.third, b, rest), np.zeros_like(b), np.zeros_like(b))
    full = np.clip(at.under / at.other, 0.0, 1.0)
    beyond = np.clip((1.0 - of.tail) / at.other, 0.0, 1.0)
    return _Laws(*_upper(of.second, of.third, b, rest), *_upper(of.second, of.third, full, beyond))


def _means(of: Panel, at: _Points, every: bool) -> FloatArray:
    """Return the three functions g, [3, ...], or only the first."""
    laws = _laws(of, at, every)
    if not every:
        return laws.mass[np.newaxis]
    share = of.second / (of.second + of.third)
    within = at.c * np.maximum(laws.mass - laws.full_mass, 0.0)
    within = within + at.other * share * np.maximum(laws.moment - laws.full_moment, 0.0)
    first = np.minimum(at.c / of.tail, 1.0) * laws.mass
    return np.stack((laws.mass, first, np.minimum(within / of.tail + laws.full_mass, 1.0)))


def _rest(distance: FloatArray, radius: FloatArray, power: FloatArray) -> FloatArray:
    """Return a bound on what the first order misses of log |z - w|^power in a disc around a point at this distance."""
    y = radius / distance
    return np.asarray(abs(power) * (-np.log1p(-y) - y))


def _slope(
    of: Panel, at: _Points, radius: FloatArray, second: FloatArray, corner: FloatArray, rest: FloatArray | None
) -> FloatArray:
    """Return a bound in a disc on the derivative of P(B > corner / (k (1 - c))), B ~ Beta(second, third).

    ``corner`` is the distance to where it is 1. With ``rest``, the distance to where it is 0, k = 1 - a; else k = 1.
    """
    third, total = of.third, second + of.third
    ratio = (1.0 - of.gap) if rest is not None else np.ones_like(corner)
    b = corner / (ratio * at.other)
    high = of.gap * rest / (ratio * at.other) if rest is not None else (1.0 - of.tail) / at.other
    # of b: (end - 1) / (k (1 - c)^2), where end + corner = c + corner is where b = 0
    turn = (at.other - corner) / (ratio * at.other**2)
    log = _log_density(second, third, b, high)
    first = -(second - 1.0) / corner + total / at.other
    more = _rest(corner, radius, second - 1.0) + _rest(at.other, radius, total)
    if rest is not None:
        first = first + (third - 1.0) / rest
        more = more + _rest(rest, radius, third - 1.0)
    return np.asarray(np.where(turn > 0.0, turn * np.exp(log + abs(first) * radius + more), 0.0))


def _bounds(of: Panel, cells: _Cells, mass: FloatArray, every: bool) -> FloatArray:
    """Return bounds [3 or 1, cells] on the error of the mean of g in a cell."""
    low, high = (_means(of, _points(of, cells, end), every) for end in (0.0, 1.0))
    best = np.maximum(high - low, 0.0)
    at = _points(of, cells, 0.5)
    laws, half = _laws(of, at, every), 0.5 * cells.width
    power, other = of.first - 1.0, of.second + of.third - 1.0
    density = np.exp(_log_density(of.first, other + 1.0, at.c, at.other))
    height = mass / (half * density)  # the integral of f / f(m), in units of half a cell
    near = np.minimum(np.minimum(at.c, at.other), at.under)
    near = np.where(of.helped, np.minimum(near, np.minimum(at.zero, at.one)), near)
    share = of.second / (of.second + of.third)
    for factor in RADII:
        radius = factor * half
        inside = (radius < INSIDE * near) & (mass > 0.0) & np.isfinite(height)
        r = np.where(inside, radius, 0.0)
        rho = factor + np.sqrt(factor**2 - 1.0)
        off = MARGIN * 64.0 / 15.0 * rho ** (-2.0 * NODES) / (1.0 - rho**-2.0)
        grown = np.exp(abs(power / at.c - other / at.other) * r + _rest(at.c, r, power) + _rest(at.other, r, other))
        own = np.where(of.helped, laws.mass + r * _slope(of, at, r, of.second, at.zero, at.one), 1.0)
        sizes = own[np.newaxis]
        if every:
            own_moment = np.where(of.helped, laws.moment + r * _slope(of, at, r, of.second + 1.0, at.zero, at.one), 1.0)
            full = laws.full_mass + r * _slope(of, at, r, of.second, at.under, None)
            full_moment = laws.full_moment + r * _slope(of, at, r, of.second + 1.0, at.under, None)
            far, wide = at.c + r, at.other + r
            last = full + (far * (own + full) + wide * share * (own_moment + full_moment)) / of.tail
            sizes = np.stack((own, own * far / of.tail, last))
        missed = off * grown * (sizes + 1.0) / np.maximum(height - off * grown, TINY)
        usable = inside & (off * grown < 0.5 * height) & np.isfinite(missed).all(axis=0)
        best = np.where(usable, np.minimum(best, MARGIN * missed), best)
    return best


def _mass(of: Panel, cells: _Cells) -> FloatArray:
    """Return the mass of C_1 in each cell, from the nearer end of its law."""
    rest = of.second + of.third
    ends = [_points(of, cells, at) for at in (0.0, 1.0)]
    low, high = (scipy.special.betainc(of.first, rest, np.minimum(at.c, 1.0)) for at in ends)
    above, under = (scipy.special.betainc(rest, of.first, np.minimum(at.other, 1.0)) for at in ends)
    return np.asarray(np.maximum(np.where(low < 0.5, high - low, above - under), 0.0))


def _begun(of: Panel) -> _Cells:
    """Return the first cells: the middle of the law of C_1 in each panel, and what is left and right of it."""
    rest = of.second + of.third
    low = np.clip(scipy.special.betaincinv(of.first, rest, OUTSIDE) - of.begin, 0.0, of.width)
    end = of.begin + of.width
    high = np.clip(end - (1.0 - scipy.special.betaincinv(rest, of.first, OUTSIDE)), 0.0, of.width - low)
    number, none = np.arange(of.row.size), np.zeros(of.row.size)
    parts = (
        _Cells(number, none, of.width - low, low),
        _Cells(number, low, high, np.maximum(of.width - low - high, 0.0)),
        _Cells(number, of.width - high, none, high),
    )
    columns: list[Any] = [np.concatenate(column) for column in zip(*parts, strict=True)]
    every = _Cells(*columns)
    return every.of(every.width > 0.0)


def _halved(of: Panel, cells: _Cells) -> _Cells:
    """Return the two parts of each cell; the one at a singular point is an eighth."""
    here = of.of(cells.panel)
    ends = [_points(here, cells, at) for at in (0.0, 1.0)]
    left = np.where(here.helped, np.minimum(ends[0].c, ends[0].one), ends[0].c)
    right = np.where(here.helped, ends[1].zero, ends[1].under)
    close, far = left < NEARLY * cells.width, right < NEARLY * cells.width
    cut = np.where(close == far, 0.5, np.where(close, 0.125, 0.875)) * cells.width
    rest = cells.width - cut
    return _Cells(
        np.concatenate((cells.panel, cells.panel)),
        np.concatenate((cells.left, cells.left + cut)),
        np.concatenate((cells.right + rest, cells.right)),
        np.concatenate((cut, rest)),
    )


def integrals(of: Panel, size: int, every: bool = True) -> tuple[FloatArray, FloatArray]:
    """Return the three integrals [3, size] of f g over the panels of each row, and bounds on their errors.

    Only those of g_0, [1, size], if not ``every``.
    """
    found = np.zeros((3 if every else 1, size))
    error = np.zeros_like(found)
    cells = _begun(of)
    for turn in range(ROUNDS):
        if not cells.panel.size:
            break
        here = of.of(cells.panel)
        mass = _mass(here, cells)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a bound that is not finite is not used
            doubt = mass * _bounds(here, cells, mass, every)
        done = (doubt.max(axis=0) <= ENOUGH) | (turn == ROUNDS - 1)
        error += _by_row(here.row[done], doubt[:, done], size)
        if done.any():
            found += _summed(of, cells.of(done), mass[done], size, every)
        cells = _halved(of, cells.of(~done))
    return found, error


def _by_row(row: IntArray, parts: FloatArray, size: int) -> FloatArray:
    """Return the sums [k, size] of the parts [k, cells] of each row."""
    return np.stack([np.bincount(row, part, size) for part in parts])


def _summed(of: Panel, cells: _Cells, mass: FloatArray, size: int, every: bool) -> FloatArray:
    """Return the integrals [3 or 1, size] over cells by Gauss's rule."""
    here = of.of(cells.panel)
    column = here.column()
    at = _points(column, cells.column(), _AT)
    middle = _points(here, cells, 0.5)
    power, other = column.first - 1.0, column.second + column.third - 1.0
    log = scipy.special.xlogy(power, at.c / middle.c[:, np.newaxis])
    log = log + scipy.special.xlogy(other, at.other / middle.other[:, np.newaxis])
    weight = _WEIGHT * np.exp(log - log.max(axis=1, keepdims=True))
    weight *= (mass / weight.sum(axis=1))[:, np.newaxis]
    return _by_row(here.row, (weight * _means(column, at, every)).sum(axis=2), size)
