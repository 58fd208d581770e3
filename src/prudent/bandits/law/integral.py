"""The chance that one arm's score is the highest as an integral; ``score_law`` explains the method."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..._numerics.compile import kernel, summing
from ...types import FloatArray
from .clipped import clipped_pair
from .tables import TableLaw

_TOLERANCE = 1e-16  # on the square of the difference of two rules, over the integral
NEGLIGIBLE = 1e-16  # a difference that needs no further look
DISTANCE = 0.5  # of equidistant points, over the narrowest sd, before they are doubled
_MOST_POINTS = 512  # of the first sum; with more, sds differ so much that panels are faster
DOUBLINGS = 3
_SAFE = 1e-12  # of a chance
_REACH = math.pi * math.sqrt(2.0 / math.log(2.0 / _SAFE))
_NOTHING = 1e-18  # a product that adds nothing to a sum
SHARE = 0.3  # of the range of an arm: the widest panel that may meet it
MOST_PANELS = 2000
PLAIN, CLIPPED, CLIPPED_PAIR = 0, 1, 2

# Nodes, and weights of the 15-point Kronrod and of the 7-point Gauss rule, which has every other node
NODES, KRONROD, GAUSS = np.array(
    [
        (0.9914553711208126, 0.022935322010529224, 0.0),
        (0.9491079123427585, 0.06309209262997856, 0.1294849661688697),
        (0.8648644233597691, 0.10479001032225019, 0.0),
        (0.7415311855993945, 0.14065325971552592, 0.27970539148927664),
        (0.5860872354676911, 0.1690047266392679, 0.0),
        (0.4058451513773972, 0.19035057806478542, 0.3818300505051189),
        (0.20778495500789848, 0.20443294007529889, 0.0),
        (0.0, 0.20948214108472782, 0.4179591836734694),
    ]
).T.copy()


class Rivals(NamedTuple):
    """The other arms, as far as they count."""

    size: int
    moments: FloatArray  # [5,k] means and sds; chances to be below an atom, and at it; cells of the table per unit


@kernel
def cdf_of(x: float, law: TableLaw) -> float:
    """Return the cdf at ``x``."""
    return table_cdf((x - law.low) / law.step, law.cells)


@kernel
def table_cdf(place: float, cells: FloatArray) -> float:
    """Return the cdf at a place of the table, in cells from its start."""
    if not place > 0.0:
        return 0.0
    if place >= cells.shape[0]:
        return 1.0
    i = np.uint64(place)  # an unsigned index needs no look at its sign
    t = place - i
    return cells[i, 0] + t * (cells[i, 1] + t * (cells[i, 2] + t * (cells[i, 3] + t * (cells[i, 4] + t * cells[i, 5]))))


@kernel
def table_pdf(place: float, cells: FloatArray) -> float:
    """Return the density at a place of the table, for one cell."""
    if not place > 0.0 or place >= cells.shape[0]:
        return 0.0
    i = np.uint64(place)
    t = place - i
    return cells[i, 1] + t * (
        2.0 * cells[i, 2] + t * (3.0 * cells[i, 3] + t * (4.0 * cells[i, 4] + t * 5.0 * cells[i, 5]))
    )


@kernel
def high_end(law: TableLaw) -> float:
    """Return where the table ends."""
    return law.low + law.step * law.cells.shape[0]


@kernel
def _product(x: float, rivals: Rivals, law: TableLaw) -> float:
    """Return the chance that every other arm scores at most ``x``."""
    moments = rivals.moments
    chance = 1.0
    start = law.low / law.step
    for b in range(rivals.size):
        if law.kind == CLIPPED_PAIR:
            chance *= clipped_pair(x, moments[0, b], moments[1, b], law, False)[0]
        else:
            chance *= table_cdf((x - moments[0, b]) * moments[4, b] - start, law.cells)
        if chance < _NOTHING:
            return 0.0
    return chance


@kernel
def _integrand(x: float, m: float, s: float, rivals: Rivals, atoms: bool, law: TableLaw) -> float:
    if atoms:  # the others' chances to be below the atom, and at it
        chance = 1.0
        for b in range(rivals.size):
            chance *= rivals.moments[2, b] + x * rivals.moments[3, b]
        return chance
    if law.kind == CLIPPED_PAIR:
        density = clipped_pair(x, m, s, law, False)[1]
    else:
        density = table_pdf(((x - m) / s - law.low) / law.step, law.cells) / (s * law.step)
    if density == 0.0:
        return 0.0
    return density * _product(x, rivals, law)


@kernel
def safe_distance(squares: float, law: TableLaw) -> float:
    """Return a distance of equidistant points whose sum is right to ``_SAFE``; ``squares`` are the sum of sd**-2."""
    return _REACH / math.sqrt(abs(law.n) * squares)


@kernel
def hump(left: float, right: float, m: float, s: float, rivals: Rivals, law: TableLaw) -> float:
    """Return the integral by sums over equidistant points; -1 if panels are better."""
    narrowest, squares = s, 1.0 / (s * s)
    for b in range(rivals.size):
        mean, sd = rivals.moments[0, b], rivals.moments[1, b]
        squares += 1.0 / (sd * sd)
        if sd < narrowest and mean + law.low * sd < right:
            narrowest = sd
    if not right - left < _MOST_POINTS * DISTANCE * narrowest:
        return -1.0
    points = 1 + int((right - left) / (DISTANCE * narrowest))
    safe = (right - left) / safe_distance(squares, law)
    sure = safe < 2.0 * points  # which two sums would take
    if sure:
        points = 1 + int(safe)
    distance = (right - left) / points
    arms, table = (rivals.size, rivals.moments), (law.low / law.step, law.cells)
    scale = 1.0 / (s * law.step)
    total, first = 0.0, left + distance
    for doubling in range(DOUBLINGS + 1):
        place, values = (first - m) * scale, np.empty(points)
        found = distance * scale * _sum(first, distance, place, scale, *arms, *table, values)
        if doubling == 0:
            total = found
            if sure:
                return total
        else:  # between the points of the last sum
            gap = abs(found - total)
            total = 0.5 * (total + found)
            if not (gap > NEGLIGIBLE and gap * gap > _TOLERANCE * total):
                return total
            distance *= 0.5
            points *= 2
        first = left + 0.5 * distance
    return -1.0


@summing
def _sum(
    first: float,
    distance: float,
    own: float,
    scale: float,
    size: int,
    moments: FloatArray,
    start: float,
    cells: FloatArray,
    values: FloatArray,
) -> float:
    """Return the sum over points of the slope of the table for one arm times the cdfs of ``size`` rivals.

    The first point is ``own`` cells of the table, ``scale`` for each unit, behind the mean of the arm; ``start`` is
    where the table begins, in cells. An arm goes through all points before the next one, so that nothing has to wait
    for something else. ``values``, one for each point, is scratch.
    """
    points, end, last = values.shape[0], float(cells.shape[0]), np.uint64(cells.shape[0] - 1)
    place, stride = own - start, distance * scale
    for i in range(points):
        x = max(place + i * stride, 0.0)
        c = min(np.uint64(x), last)  # an end may be missed by rounding
        t = x - c
        values[i] = cells[c, 1] + t * (
            2.0 * cells[c, 2] + t * (3.0 * cells[c, 3] + t * (4.0 * cells[c, 4] + t * 5.0 * cells[c, 5]))
        )
    low = 0  # points before it are of no account
    for b in range(size):
        place, stride = (first - moments[0, b]) * moments[4, b] - start, distance * moments[4, b]
        high = int(min(float(points), max(0.0, (end - place) / stride + 1.0)))  # behind it the cdf is 1
        for i in range(low, high):
            x = max(place + i * stride, 0.0)
            c = min(np.uint64(x), last)
            t = x - c
            values[i] *= cells[c, 0] + t * (
                cells[c, 1] + t * (cells[c, 2] + t * (cells[c, 3] + t * (cells[c, 4] + t * cells[c, 5])))
            )
        while low < points and values[low] < _NOTHING:
            low += 1
    total = 0.0
    for i in range(low, points):
        total += values[i]
    return total


@kernel
def integral(edges: FloatArray, pieces: int, m: float, s: float, rivals: Rivals, atoms: bool, law: TableLaw) -> float:
    """Return the integral between the first and the last of ``pieces`` + 1 edges, by bisection of every piece."""
    starts = np.empty(64)
    ends = np.empty(64)
    total = 0.0
    panels = 0
    for piece in range(pieces):
        starts[0], ends[0] = edges[piece], edges[piece + 1]
        depth = 1 if ends[0] > starts[0] else 0
        while depth > 0:
            depth -= 1
            a, b = starts[depth], ends[depth]
            half = 0.5 * (b - a)
            centre = 0.5 * (a + b)
            more = depth < 62 and panels < MOST_PANELS
            if not more or atoms or not b - a > _widest(a, b, s, rivals, law):
                middle = _integrand(centre, m, s, rivals, atoms, law)
                fine, coarse = KRONROD[7] * middle, GAUSS[7] * middle
                for i in range(7):
                    shift = half * NODES[i]
                    pair = _integrand(centre - shift, m, s, rivals, atoms, law)
                    pair += _integrand(centre + shift, m, s, rivals, atoms, law)
                    fine += KRONROD[i] * pair
                    coarse += GAUSS[i] * pair
                panels += 1
                # The error of the finer rule is about gap**1.6 / area**0.6. A step that is not resolved has a gap like
                # the area, and is bisected down to an area of no account.
                gap, area = half * abs(fine - coarse), half * fine
                vague = gap > NEGLIGIBLE and gap * gap > _TOLERANCE * area
                if not (vague and more and panels < MOST_PANELS):
                    total += half * fine
                    continue
            starts[depth], ends[depth] = a, centre
            starts[depth + 1], ends[depth + 1] = centre, b
            depth += 2
    return total


@kernel
def _widest(a: float, b: float, s: float, rivals: Rivals, law: TableLaw) -> float:
    """Return how wide a panel from ``a`` to ``b`` may be: a share of the narrowest range of an arm that it meets."""
    low, high = law.low, high_end(law)
    narrowest = s
    for i in range(rivals.size):
        mean, sd = rivals.moments[0, i], rivals.moments[1, i]
        if sd < narrowest and mean + low * sd < b and mean + high * sd > a:
            narrowest = sd
    return SHARE * (high - low) * narrowest


@kernel
def pieces_of(left: float, right: float, cut: float, rivals: Rivals, law: TableLaw, edges: FloatArray) -> int:
    """Write rising edges from ``left`` to ``right``, with ``cut`` if it is inside; return the number of pieces.

    A step much narrower than a panel hides if it is nearer to the panel's end than the outermost node. So the ranges of
    arms that are that narrow get panels of their own.
    """
    edges[0] = left
    edges[1] = right
    size = 2
    narrow = (right - left) / 8.0
    low, high = law.low, high_end(law)
    for b in range(-1, rivals.size):
        for end in range(2):
            if b < 0:
                x = cut if end == 0 else 0.5 * (left + right)
            elif rivals.moments[1, b] * (high - low) < narrow:
                x = rivals.moments[0, b] + rivals.moments[1, b] * (low if end == 0 else high)
            else:
                continue
            if not left < x < right:
                continue
            place = size
            while edges[place - 1] > x:
                edges[place] = edges[place - 1]
                place -= 1
            edges[place] = x
            size += 1
    return size - 1
