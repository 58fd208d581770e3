"""The law of a score, and the chance that an arm's score is the highest.

An arm's score is S = m + s W, where W weighs the lowest of n standard normals: the same W for every arm. At negative
levels it weighs the highest, which is -W in law; then n is below zero here, and everything is mirrored. The cdf G of W
is tabulated once for all arms, as a piecewise quintic through exact values of G, G' and G'', good to about 1e-12:

- one order statistic (the lowest draw, or the modified estimator): G is an incomplete beta function of Phi;
- CVaR of more draws: given the highest draw Z_(M) that counts, the M - 1 below it are independent truncated normals,
  so the characteristic function of W is a one-dimensional integral, and G its Fourier inverse.

Scores are independent, so P(arm a is chosen) = integral of g_a times the product of the other arms' cdfs. Where all
are densities and cdfs of sums of normals of like sds, the integrand is one smooth hump that vanishes at both ends, and
sums over equidistant points converge faster than any power of the distance h. A bound is known beforehand. W is a
function of n normals to which c is added if it is added to all of them, so at x + iy densities and cdfs of W are at
most exp(n y^2 / 2) times those at x. Hence the Fourier transform of the integrand at w is at most exp(-w^2 / 2q) times
the integral, where q is n times the sum of sd^-2 over all arms, and the relative error of the sum is at most about
2 exp(-2 pi^2 / (q h^2)): the distance at which that is 1e-12 needs no second look. With many arms or draws the bound
asks for more than is needed. There the points are doubled until two sums differ by about the root of what is asked, as
half the distance squares the relative error, or better. The first distance is half of the narrowest sd, closer than any
hump that is worth counting.

Else adaptive Gauss-Kronrod quadrature evaluates it. The density of a is smooth on its own scale and the product is
monotone, so what is sharp in the integrand is a step as wide as the range of one arm. No panel is much wider than the
ranges that it meets, so no step can hide between its nodes; then the error estimate decides. Every chance is right to
about 1e-12 for the law of the table, whatever the sds.

All chances at once share their nodes: at each, the cdfs of all arms and their products without one. That takes arms
whose sds are not too far apart, or the sharpest would be blurred where another is the origin; else arms go one by one.

With a noise of its own for every arm W is the lowest of n variables of Student's t, with other degrees of freedom for
every arm: no common table. Cdf and density come from ``_numerics.student``, and panels widen with their distance
from the means, as the tails are long.

Clipping each draw to [0, 1] (Algorithm 2') puts atoms at 0 and 1; with two draws of weights w_1 and w_2 there is a
third at w_2 (one draw at 0, one at 1). Arms tie at an atom. A uniform choice among the tied is the same as ordering
them by independent uniforms, hence the chance that a wins at an atom x of masses p is
p_a * integral over u in [0, 1] of the product over b of P(S_b < x) + u p_b: one more integral of the same kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..._numerics.compile import kernel
from ..._numerics.normal import normal_cdf
from ..._numerics.student import student_from_log_survival, student_log_constant, student_pdf, student_survival
from ..._support.checks import FloatArray, IntArray
from ...errors import ParameterError
from .clipped import clipped_pair, lowest_pair, third_atom
from .integral import (
    CLIPPED,
    CLIPPED_PAIR,
    DISTANCE,
    DOUBLINGS,
    GAUSS,
    KRONROD,
    MOST_PANELS,
    NEGLIGIBLE,
    NODES,
    PLAIN,
    SHARE,
    Rivals,
    cdf_of,
    high_end,
    hump,
    integral,
    pieces_of,
    safe_distance,
)
from .tables import LEAST, TableLaw, cvar_table, mirrored, order_statistic_table, quintics

_MOST_POINTS = 128  # of the first sum for all chances at once; with more, panels are faster
_JOINT_TOLERANCE = 1e-15  # the same for all chances at once
_SHARPEST = 1e-3  # sd of the sharpest arm over the distance of arms, for all chances at once
_SHARPEST_STUDENT = 1e-5  # the same for Student's t, whose panels do not miss a step


_HOPELESS = 1e12  # scales behind the best, of arms with Student's t: their chance is below 1e-47


class ScoreLaw:
    """Law of scores that put ``weights`` on the lowest of ``n`` draws, or on the highest of -n."""

    def __init__(self, n: int, weights: Sequence[float] | FloatArray, clip: bool) -> None:
        weights = np.array(weights)
        places = np.flatnonzero(weights)
        if clip and places.size > 2:
            message = (
                "propensities of clipped scores are known for at most 2 lowest draws, "
                f"these settings weigh {places.size}"
            )
            raise ParameterError(message, code="no-propensity", argument="settings", value=places.size)
        kind = PLAIN if not clip else CLIPPED if places.size == 1 else CLIPPED_PAIR
        if kind == CLIPPED_PAIR:  # no common table: the law depends on where the arm's mean and sd put 0 and 1
            from scipy.special import ndtri

            low = float(ndtri(LEAST / abs(n)))
            table = low, -2.0 * low, np.zeros((1, 6))
        else:
            single = places.size == 1
            values = order_statistic_table(abs(n), int(places[0]) + 1) if single else cvar_table(abs(n), weights)
            table = quintics(*(values if n > 0 else mirrored(*values)))
        self._law = TableLaw(kind, n, float(weights[0]), *table)
        self._fields = tuple(self._law)  # sooner in a kernel than the bundle

    @property
    def table(self) -> TableLaw:
        """The law as kernels read it."""
        return self._law

    def cdf(self, x: float) -> float:
        """Return P(W <= x)."""
        return cdf_of(x, self._law)

    def chance(self, means: FloatArray, sds: FloatArray, place: int) -> float:
        """Return the chance that arm ``place`` scores highest among those with means and sds [k]."""
        return _one_chance(means, sds, place, self._law)

    def chances(self, means: FloatArray, sds: FloatArray, places: IntArray) -> FloatArray:
        """Return the chance [T] that arm ``places`` [T] scores highest among those with means and sds [T,k]."""
        chances = np.empty(places.size)
        _chances(means, sds, places, self._law, chances)
        return chances

    def every_chance(
        self, means: FloatArray, sds: FloatArray, freedom: FloatArray | None = None, floor: float = 0.0
    ) -> FloatArray:
        """Return the chances [T,k] of all arms with means and sds [T,k]; those of a row sum to one.

        Scores are Student's t of scales ``sds`` if degrees of freedom [k] are given; they must weigh the lowest draw
        alone. Where the choice is uniform by rule, sds are NaN for the arms that it is between. ``floor`` is the least
        chance of an arm elsewhere.
        """
        chances = np.empty(means.shape)
        given = np.zeros(means.shape[1]) if freedom is None else freedom
        _every_chance(means, sds, given, floor, self._fields, chances)
        if freedom is not None and np.isnan(chances).any():  # arms so many scales apart that powers overflow
            widest = np.nanmax(sds, axis=1, keepdims=True)
            behind = (means - means.max(axis=1, keepdims=True)) / widest
            _every_chance(np.maximum(behind, -_HOPELESS), sds / widest, given, floor, self._fields, chances)
        return chances

    def decision_chance(self, moments: FloatArray, place: int, floor: float) -> float:
        """Return the chance of arm ``place`` of a decision with ``moments`` [4,k] as ``step.decide`` writes them."""
        chance = _decision_chance(moments, place, floor, self._fields)
        if chance != chance:
            return float(self.every_chance(moments[:1], moments[2:3], moments[3], floor)[0, place])
        return chance

    def decision_chances(self, moments: FloatArray, places: IntArray, floor: float) -> list[float]:
        """Return ``decision_chance`` of T decisions with moments [T,4,k]."""
        found = np.empty(len(places))
        _decision_chances(moments, places, floor, self._fields, found)
        chances: list[float] = found.tolist()
        for i in np.flatnonzero(np.isnan(found)):
            chances[i] = self.decision_chance(moments[i], int(places[i]), floor)
        return chances


score_law = lru_cache(maxsize=64)(ScoreLaw)  # weights as a tuple


# -- one arm ------------------------------------------------------------------------------------------------


@kernel
def _atom_masses(atom: int, x: float, m: float, s: float, law: TableLaw) -> tuple[float, float]:
    """Return P(S < x) and P(S = x) at an atom: number 0 is at 0, number 1 at 1, number 2 between them."""
    n = abs(law.n)
    if law.kind == CLIPPED:
        upto = cdf_of((x - m) / s, law)
        return (0.0, upto) if atom == 0 else (upto, 1.0 - upto)
    if atom == 0:
        return 0.0, clipped_pair(0.0, m, s, law, False)[0]
    if atom == 1:
        if law.n < 0:
            mass = lowest_pair(0.0, 1.0 - m, s, n, law.first, law.low, False)[0]
        else:
            mass = normal_cdf((m - 1.0) / s) ** n
        return 1.0 - mass, mass
    if law.n < 0:
        mass = n * normal_cdf((m - 1.0) / s) * normal_cdf(-m / s) ** (n - 1)
    else:
        mass = n * normal_cdf(-m / s) * normal_cdf((m - 1.0) / s) ** (n - 1)
    return clipped_pair(x, m, s, law, True)[0], mass


@kernel
def _chance(means: FloatArray, sds: FloatArray, place: int, law: TableLaw, others: FloatArray) -> float:
    """Return the chance that arm ``place`` scores highest; ``others`` [5,k] is scratch."""
    arms = means.shape[0]
    if not sds[place] > 0.0:  # the context is zero: all scores are equal
        return 1.0 / arms
    s = sds[place]
    kind, low, high = law.kind, law.low, high_end(law)
    # Seen from its mean, an arm is as sharp as its sd, however far it is from zero. (Not so where 0 and 1 have to be
    # exact: the law of a clipped pair.)
    origin = 0.0 if kind == CLIPPED_PAIR else means[place]
    m = means[place] - origin
    # Below the highest lower end of a score's range the product of cdfs is zero; arms that end below it do not count.
    left = -math.inf
    for b in range(arms):
        left = max(left, (means[b] - origin) + low * sds[b])
    right = m + high * s
    if kind != PLAIN:
        left = min(max(left, -origin), 1.0 - origin)
        right = min(right, 1.0 - origin)
    count = 0
    for b in range(arms):
        if b != place and ((means[b] - origin) + high * sds[b] > left or kind != PLAIN):
            others[0, count] = means[b] - origin
            others[1, count] = sds[b]
            others[4, count] = 1.0 / (sds[b] * law.step)
            count += 1
    rivals = Rivals(count, others)
    total = 0.0
    second = third_atom(law)
    edges = np.empty(2 * count + 4)
    if left < right and kind == PLAIN:
        total = hump(left, right, m, s, rivals, law)
        if total >= 0.0:
            return total
        total = 0.0
    if left < right:
        pieces = pieces_of(left, right, second if kind == CLIPPED_PAIR else right, rivals, law, edges)
        total = integral(edges, pieces, m, s, rivals, False, law)
    if kind == PLAIN:
        return total
    edges[0], edges[1] = 0.0, 1.0
    for i in range(3 if kind == CLIPPED_PAIR else 2):
        atom = (second if i == 2 else float(i)) - origin
        _, mass = _atom_masses(i, atom, m, s, law)
        if mass < 1e-17:
            continue
        chance = 1.0
        for b in range(count):
            below, at = _atom_masses(i, atom, others[0, b], others[1, b], law)
            others[2, b], others[3, b] = below, at
            chance *= below + at
        if chance > 1e-17:
            total += mass * integral(edges, 1, m, s, rivals, True, law)
    return total


@kernel
def _one_chance(means: FloatArray, sds: FloatArray, place: int, law: TableLaw) -> float:
    others = np.empty((5, means.shape[0]))
    return min(1.0, max(0.0, _chance(means, sds, place, law, others)))


@kernel
def _chances(means: FloatArray, sds: FloatArray, places: IntArray, law: TableLaw, out: FloatArray) -> None:
    for t in range(places.shape[0]):
        out[t] = _one_chance(means[t], sds[t], places[t], law)


# -- all chances at once -----------------------------------------------------------------------------------


@kernel
def _decision_chance(moments: FloatArray, place: int, floor: float, law_fields: tuple[Any, ...]) -> float:
    """Return the chance of one arm with moments [4,k], see ``_every_chance``."""
    arms, among = moments.shape[1], 0
    for i in range(arms):
        among += math.isnan(moments[2, i])
    if among > 0:
        return 1.0 / among if math.isnan(moments[2, place]) else 0.0
    if moments[3, 0] > 0.0:
        every = np.empty((1, arms))
        _every_chance(moments[:1], moments[2:3], moments[3], floor, law_fields, every)
        return every[0, place]
    return floor + (1.0 - floor * arms) * _one_chance(moments[0], moments[2], place, TableLaw(*law_fields))


@kernel
def _decision_chances(
    moments: FloatArray, places: IntArray, floor: float, law_fields: tuple[Any, ...], out: FloatArray
) -> None:
    for t in range(places.shape[0]):
        out[t] = _decision_chance(moments[t], places[t], floor, law_fields)


@kernel
def _every_chance(
    means: FloatArray, sds: FloatArray, freedom: FloatArray, floor: float, law_fields: tuple[Any, ...], out: FloatArray
) -> None:
    """Write the chances [T,k] of all arms, see ``ScoreLaw.every_chance``."""
    law = TableLaw(*law_fields)
    rows, arms = means.shape
    # means, sds, ends of the ranges; degrees of freedom; the constant, or the start of the table in cells; 1 / sd, or
    # cells of the table for each unit
    shape = np.zeros((7, arms))
    for i in range(arms):
        shape[2, i], shape[3, i], shape[5, i] = law.low, high_end(law), law.low / law.step
        if freedom[i] > 0.0:
            shape[2, i] = student_from_log_survival(math.log1p(-LEAST / abs(law.n)), freedom[i])
            shape[3, i] = student_from_log_survival(math.log(LEAST) / abs(law.n), freedom[i])
            if law.n < 0:
                shape[2, i], shape[3, i] = -shape[3, i], -shape[2, i]
            shape[4, i], shape[5, i] = freedom[i], student_log_constant(freedom[i])
    for t in range(rows):
        among = 0
        for i in range(arms):
            among += math.isnan(sds[t, i])
        if among > 0:
            for i in range(arms):
                out[t, i] = 1.0 / among if math.isnan(sds[t, i]) else 0.0
            continue
        least, widest = math.inf, 0.0
        for i in range(arms):
            least = min(least, sds[t, i])
            widest = max(widest, abs(means[t, i] - means[t, 0]) + sds[t, i])
        if not least > 0.0:
            out[t] = 1.0 / arms
        elif freedom[0] > 0.0 or (law.kind == PLAIN and least > _SHARPEST * widest):
            for i in range(arms):
                shape[0, i], shape[1, i] = means[t, i] - means[t, 0], sds[t, i]
                shape[6, i] = 1.0 / sds[t, i] if shape[4, i] > 0.0 else 1.0 / (sds[t, i] * law.step)
            if freedom[0] == 0.0 or least > _SHARPEST_STUDENT * widest:
                _joint_chances(shape, law, out[t], -1)
            else:  # each seen from its own mean, where it is as sharp as its sd
                own = np.empty(arms)
                for i in range(arms):
                    for j in range(arms):
                        shape[0, j] = means[t, j] - means[t, i]
                    _joint_chances(shape, law, own, i)
                    out[t, i] = own[i]
        else:
            for i in range(arms):
                out[t, i] = _one_chance(means[t], sds[t], i, law)
        total = 0.0
        for i in range(arms):
            total += out[t, i]
        for i in range(arms):
            out[t, i] = floor + (1.0 - floor * arms) * (out[t, i] / total)


@kernel
def _joint_chances(shape: FloatArray, law: TableLaw, out: FloatArray, only: int) -> None:
    """Write the chances of all arms, of which ``shape`` [7,k] holds the laws, see ``_every_chance``.

    With ``only`` >= 0 the chance of that arm is right, whatever the others are.
    """
    arms = shape.shape[1]
    left, right = -math.inf, -math.inf
    for i in range(arms):
        left = max(left, shape[0, i] + shape[1, i] * shape[2, i])
        right = max(right, shape[0, i] + shape[1, i] * shape[3, i])
    starts, ends = np.empty(64), np.empty(64)
    values = np.empty((2, arms))  # of cdfs and densities
    fine, coarse = np.empty(arms), np.empty(arms)
    out[:] = 0.0
    # Below where the highest score is with a chance of no account there is nothing to integrate.
    above = right
    for _ in range(7):
        middle = 0.5 * (left + above)
        fine[:] = 0.0
        _add_products(middle, shape, law, values, 0.0, 0.0, fine, coarse)
        chance = 1.0
        for i in range(arms):
            chance *= values[0, i]
        if chance < NEGLIGIBLE:
            left = middle
        else:
            above = middle
    if shape[4, 0] == 0.0 and _joint_humps(left, right, shape, law, values, fine, coarse, out):
        return
    out[:] = 0.0
    starts[0], ends[0] = left, right
    depth, panels = 1, 0
    while depth > 0:
        depth -= 1
        a, b = starts[depth], ends[depth]
        half, centre = 0.5 * (b - a), 0.5 * (a + b)
        more = depth < 62 and panels < MOST_PANELS
        if not (more and b - a > _joint_width(a, b, shape)):
            fine[:] = 0.0
            coarse[:] = 0.0
            for i in range(15):
                place = 7 - abs(i - 7)
                shift = half * NODES[place] * (1.0 if i > 7 else -1.0)
                _add_products(centre + shift, shape, law, values, KRONROD[place], GAUSS[place], fine, coarse)
            panels += 1
            vague = False
            for i in range(arms):
                gap, area = half * abs(fine[i] - coarse[i]), half * fine[i]
                sharp = gap > NEGLIGIBLE and gap * gap > _JOINT_TOLERANCE * area
                vague = vague or (sharp and (only < 0 or only == i))
            if not (vague and more):
                for i in range(arms):
                    out[i] += half * fine[i]
                continue
        starts[depth], ends[depth] = a, centre
        starts[depth + 1], ends[depth + 1] = centre, b
        depth += 2


@kernel
def _joint_humps(
    left: float,
    right: float,
    shape: FloatArray,
    law: TableLaw,
    values: FloatArray,
    found: FloatArray,
    unused: FloatArray,
    out: FloatArray,
) -> bool:
    """Write the chances of all arms by sums over equidistant points, as ``hump``; return False if panels are better."""
    arms = shape.shape[1]
    narrowest = math.inf
    for i in range(arms):
        if shape[0, i] + shape[1, i] * shape[3, i] > left:
            narrowest = min(narrowest, shape[1, i])
    if not right - left < _MOST_POINTS * DISTANCE * narrowest:
        return False
    points = 1 + int((right - left) / (DISTANCE * narrowest))
    squares = 0.0
    for i in range(arms):
        squares += 1.0 / (shape[1, i] * shape[1, i])
    safe = (right - left) / safe_distance(squares, law)
    sure = safe < 2.0 * points
    if sure:
        points = 1 + int(safe)
    distance = (right - left) / points
    first = left + distance
    for doubling in range(DOUBLINGS + 1):
        found[:] = 0.0
        for i in range(points):
            _add_products(first + i * distance, shape, law, values, distance, 0.0, found, unused)
        vague = doubling == 0 and not sure
        for i in range(arms):
            if doubling == 0:
                out[i] = found[i]
                continue
            gap = abs(found[i] - out[i])
            out[i] = 0.5 * (out[i] + found[i])
            vague = vague or (gap > NEGLIGIBLE and gap * gap > _JOINT_TOLERANCE * out[i])
        if not vague:
            return True
        if doubling > 0:
            distance *= 0.5
            points *= 2
        first = left + 0.5 * distance
    return False


@kernel
def _joint_width(a: float, b: float, shape: FloatArray) -> float:
    """Return how wide a panel from ``a`` to ``b`` may be."""
    width = math.inf
    for i in range(shape.shape[1]):
        mean, sd = shape[0, i], shape[1, i]
        if shape[4, i] > 0.0:
            width = min(width, 2.0 * sd + 0.5 * max(a - mean, mean - b, 0.0))
        elif mean + shape[2, i] * sd < b and mean + shape[3, i] * sd > a:
            width = min(width, SHARE * (shape[3, i] - shape[2, i]) * sd)
    return width


@kernel
def _add_products(
    x: float,
    shape: FloatArray,
    law: TableLaw,
    values: FloatArray,
    weight: float,
    outer: float,
    fine: FloatArray,
    coarse: FloatArray,
) -> None:
    """Add, for every arm, its density at ``x`` times the cdfs of the others, with the weights of two rules."""
    arms = shape.shape[1]
    cells = law.cells
    size = cells.shape[0]
    before = 1.0
    for i in range(arms):
        inverse = shape[6, i]
        if shape[4, i] > 0.0:
            y = (x - shape[0, i]) * inverse
            survival = student_survival(y if law.n > 0 else -y, shape[4, i], shape[5, i])
            power = survival ** (abs(law.n) - 1)
            values[0, i] = 1.0 - power * survival if law.n > 0 else power * survival
            values[1, i] = abs(law.n) * power * student_pdf(y, shape[4, i], shape[5, i]) * inverse
        else:
            place = (x - shape[0, i]) * inverse - shape[5, i]
            if place >= size:
                values[0, i], values[1, i] = 1.0, 0.0
                continue
            if not place > 0.0:
                values[0, i], values[1, i] = 0.0, 0.0
            else:  # table_cdf and table_pdf
                c = cells[np.uint64(place)]
                t = place - np.uint64(place)
                values[0, i] = c[0] + t * (c[1] + t * (c[2] + t * (c[3] + t * (c[4] + t * c[5]))))
                slope = c[1] + t * (2.0 * c[2] + t * (3.0 * c[3] + t * (4.0 * c[4] + t * 5.0 * c[5])))
                values[1, i] = slope * inverse
        values[1, i] *= before  # the cdfs of those before it; of those behind it below
        before *= values[0, i]
    behind = 1.0
    for i in range(arms - 1, -1, -1):
        value = values[1, i] * behind
        fine[i] += weight * value
        coarse[i] += outer * value
        behind *= values[0, i]
