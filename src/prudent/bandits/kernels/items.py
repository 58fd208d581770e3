"""Kernels of a bandit whose items share one theta: what is learned, and the moments of the items' scores.

An item with features s pays s'theta + b_i + noise, theta ~ Normal(c e_0, nu^2 P^-1) with e_0 the constant feature.

**Offsets.** b_i ~ Normal(0, nu^2 / q) for items that have something of their own. Given theta, the n rewards of an item
make b_i normal with the precision a = q + n; integrated out, they leave least squares in theta. One more reward
z = (s, r) of the item adds z z' to the sums of all and changes the sum of the item's own; both together are a / (a + 1)
times the square of z - m, where m = (sum of the item's z) / a. So a reward enters the sums as the centred, shortened
one, in O(D^2), and V never loses. Given theta, the mean of b_i is m_r - m_s'theta: the score of features x is
(x - m_s)'theta + m_r, with nu^2 / a added to its variance.

**The noise**, if it is learned: the rule of ``step`` for one arm. With V = P + G, and c given, twice the exponent
of the likelihood is Q(c) / nu^2, Q a quadratic. Seen from the mean reward h, with g = b - h G e_0 and x = V^-1 g,
t = V^-1 P e_0: Q = q_0 - 2 d q_1 + d^2 q_2 in d = c - h with q_0 = sum (r - h)^2 - g'x, q_1 = e_0'P x and
q_2 = e_0'P (e_0 - t). Then c is at its minimum, the posterior mean h e_0 + x + d t, and nu^2 = Q / (n - 1). Without a
constant feature c = 0 and nu^2 = Q / n.

**Forgetting.** A reward of weight w counts w times: a = q + (sum of the item's weights), and it enters as a w / (a + w)
times the square of z - m. If all weights W become f W, the sums of all z z' become f times as large, but what each item
takes from them does not, since q stays: the sums are f times what they were, and f (1 - f) q a / (q + f W) times m m'
more for each item. So V never loses here either; m becomes f a / (q + f W) times as long.
"""

from __future__ import annotations

import math

import numpy as np

from ..._numerics.compensated import two_product, two_sum
from ..._numerics.compile import kernel
from ..._numerics.copying import put, put_columns
from ..._numerics.least_squares import add_products, lower_products
from ..._numerics.order_statistics import lowest_normals_into
from ..._numerics.triangles import row_of
from ..._support.checks import FloatArray, IntArray

_SHORT = 32  # places of a slate that are kept in order
_BLOCK = 64  # items predicted at a time: their columns stay in the cache, and loops over them become vector code


@kernel
def centre_on_items(
    rows: FloatArray,
    rewards: FloatArray,
    weights: FloatArray,
    places: IntArray,
    means: FloatArray,
    totals: FloatArray,
    q: float,
) -> None:
    """Replace ``rows`` [T,D] and ``rewards`` [T] of items at ``places`` [T] by what enters the sums of theta.

    ``means`` [I,D+1] holds the m of every item, ``totals`` [I] the weight of its rewards; they learn the rows in order.
    """
    dim = rows.shape[1]
    for t in range(rows.shape[0]):
        item, weight = places[t], weights[t]
        a = q + totals[item]
        share, length = weight / (a + weight), math.sqrt(a * weight / (a + weight))
        for j in range(dim + 1):
            gap = (rows[t, j] if j < dim else rewards[t]) - means[item, j]
            means[item, j] += share * gap
            if j < dim:
                rows[t, j] = length * gap
            else:
                rewards[t] = length * gap
        totals[item] += weight


@kernel
def fade_sums(gram: FloatArray, factor: float) -> None:
    """Multiply ``gram`` [2,D,D], sums and their rounding errors, by ``factor``; what rounds is kept."""
    for i in range(gram.shape[1]):
        for j in range(gram.shape[2]):
            product, error = two_product(gram[0, i, j], factor)
            gram[0, i, j], gram[1, i, j] = two_sum(product, factor * gram[1, i, j] + error)


@kernel
def item_moments(
    features: FloatArray,
    intercept: bool,
    places: IntArray,
    means: FloatArray,
    totals: FloatArray,
    q: float,
    root: FloatArray,
    mean: FloatArray,
    moments: FloatArray,
) -> None:
    """Write the means and the sds over nu, moments [2,k], of the scores of items with ``features`` [k,D].

    ``places`` [k] are those of the items among the offsets (``means``, ``totals``, see above), -1 for new ones; ``q``
    is 0 if there are no offsets. ``root`` and ``mean`` are those of theta, constant feature included.
    """
    items, given = features.shape
    first = 1 if intercept else 0
    dim = given + first
    width = min(_BLOCK, 8 * ((items + 7) // 8))
    columns = np.ones((dim, width))
    parts, centre, square = np.empty((4, width)), np.empty(width), np.empty(width)
    part, part_b, part_c, part_d = parts[0], parts[1], parts[2], parts[3]
    tiled = dim // 4 * 4
    for start in range(0, items, width):
        size = min(width, items - start)
        put_columns(columns[first:], features[start : start + size])
        centre[:] = 0.0
        square[:] = 0.0
        if q > 0.0:
            columns[:first] = 1.0
            for t in range(size):
                place = places[start + t]
                square[t] = 1.0 / (q + totals[place] if place >= 0 else q)
                if place >= 0:
                    centre[t] = means[place, dim]
                    for j in range(dim):
                        columns[j, t] -= means[place, j]
        for i in range(0, tiled, 4):
            parts[:] = 0.0
            a, b, c, d = root[i], root[i + 1], root[i + 2], root[i + 3]
            for j in range(0, i + 4, 4):  # zeros stand above the diagonal
                add_products(part, part_b, part_c, part_d, a, b, c, d, j, columns)
            one, two, three, four = columns[i], columns[i + 1], columns[i + 2], columns[i + 3]
            a0, a1, a2, a3 = mean[i], mean[i + 1], mean[i + 2], mean[i + 3]
            for t in range(width):
                w, x, y, z = part[t], part_b[t], part_c[t], part_d[t]
                centre[t] = centre[t] + a0 * one[t] + a1 * two[t] + a2 * three[t] + a3 * four[t]
                square[t] = square[t] + w * w + x * x + y * y + z * z
        for i in range(tiled, dim):
            part[:] = 0.0
            for j in range(i + 1):
                entry, column = root[i, j], columns[j]
                for t in range(width):
                    part[t] += entry * column[t]
            entry, column = mean[i], columns[i]
            for t in range(width):
                centre[t] += entry * column[t]
                square[t] += part[t] * part[t]
        for t in range(size):
            moments[0, start + t] = centre[t]
            moments[1, start + t] = math.sqrt(square[t])


@kernel
def triangle_moments(
    features: FloatArray, intercept: bool, root: FloatArray, mean: FloatArray, moments: FloatArray
) -> None:
    """Write the moments of ``item_moments`` of items without offsets, given a triangle ``root``."""
    dim = mean.shape[0]
    square = np.zeros((dim, dim))
    for i in range(dim):
        put(square[i], row_of(root, i, dim))
    nothing = np.empty(0, dtype=np.int64)
    item_moments(features, intercept, nothing, np.empty((0, dim + 1)), np.empty(0), 0.0, square, mean, moments)


@kernel
def draw_scores(
    means: FloatArray, sds: FloatArray, n: int, weights: FloatArray, uniforms: FloatArray, scores: FloatArray
) -> None:
    """Write independent scores [k]: each weighs the M lowest of n normal draws, from M uniforms of its own in a row."""
    lowest = weights.shape[0]
    draws = np.empty(lowest)
    for i in range(means.shape[0]):
        lowest_normals_into(draws, n, uniforms[i * lowest : (i + 1) * lowest])
        score = 0.0
        for j in range(lowest):
            if weights[j] > 0.0:
                score += weights[j] * (means[i] + sds[i] * draws[j])
        scores[i] = score


@kernel
def draw_highest(
    means: FloatArray, sds: FloatArray, n: int, cells: FloatArray, top: int, uniforms: FloatArray, scores: FloatArray
) -> bool:
    """Write the scores [k] of ``draw_scores`` with one outermost draw; -inf if they cannot be among the ``top`` best.

    A draw rises with its uniform. ``cells`` [2,C+1] bounds it at 0, 1/C, ..., 1 from below and from above, so every
    score lies between two numbers that are found without a quantile. The ``top``-th highest lower bound is no higher
    than the ``top``-th highest score: what has an upper bound below it is not needed. Rounding keeps the order of sums,
    so this is exact. Return False, and scores that are of no use, if an sd is not finite.
    """
    items, count = means.shape[0], cells.shape[1] - 1
    highest = np.full(min(top, _SHORT), -math.inf)  # lower bounds, ascending
    last = highest.shape[0] - 1
    for i in range(items):
        if not sds[i] < math.inf:
            return False
        bound = scores[i] = means[i] + sds[i] * cells[0, int(uniforms[i] * count)]
        if bound > highest[0]:
            j = 0
            while j < last and highest[j + 1] < bound:
                highest[j] = highest[j + 1]
                j += 1
            highest[j] = bound
    least = highest[0] if top <= _SHORT else np.partition(scores, items - top)[items - top]
    draw = np.empty(1)
    for i in range(items):
        if means[i] + sds[i] * cells[1, int(uniforms[i] * count) + 1] < least:
            scores[i] = -math.inf
        else:
            lowest_normals_into(draw, n, uniforms[i : i + 1])
            scores[i] = means[i] + sds[i] * draw[0]
    return True


# -- theta and the noise -----------------------------------------------------------------------------------


@kernel
def _less_product(high: float, low: float, a: float, b: float) -> tuple[float, float]:
    """Return (high, low) - a b in twice the precision."""
    product, error = two_product(a, b)
    total, lost = two_sum(high, -product)
    return two_sum(total, low + (lost - error))


@kernel
def _times_inverse(root: FloatArray, vector: FloatArray) -> FloatArray:
    """Return V^-1 vector."""
    dim = vector.shape[0]
    turned, result = np.empty(dim), np.zeros(dim)
    lower_products(root.reshape(-1), vector, turned)
    for i in range(dim):
        row, value = root[i], turned[i]
        for j in range(i + 1):
            result[j] += row[j] * value
    return result


@kernel
def solve_level(
    gram: FloatArray, prior: FloatArray, root: FloatArray, centred: bool, mean: FloatArray
) -> tuple[float, float]:
    """Write the posterior ``mean`` [D]; return Q at its minimum and c, given ``root`` with V^-1 = root' root; O(D^2).

    ``centred``: the first feature is the constant one and c is learned; else c = 0. Differences are taken in twice the
    precision and the solution is refined, so rewards far from zero, and a root that is a little off, lose nothing.
    """
    dim = mean.shape[0]
    level = 0.0
    if centred and gram[0, 0, 0] > 0.0:
        level = gram[0, 0, dim] / gram[0, 0, 0]
    high, low, gap = np.empty(dim), np.empty(dim), np.empty(dim)
    square, rest = gram[0, dim, dim], gram[1, dim, dim]
    for i in range(dim):
        high[i], low[i] = _less_product(gram[0, i, dim], gram[1, i, dim], level, gram[0, i, 0])
        low[i] -= level * gram[1, i, 0]
        gap[i] = high[i] + low[i]
    square, rest = _less_product(square, rest, level, gram[0, 0, dim])
    square, rest = _less_product(square, rest, level, high[0])
    rest -= level * (gram[1, 0, dim] + low[0])
    step = _times_inverse(root, gap)
    values, rests = high.copy(), low.copy()  # g - V x, by columns of V, which are its rows: that is vector code
    for j in range(dim):
        sums, losses, given, share = gram[0, j], gram[1, j], prior[j], step[j]
        for i in range(dim):
            entry, lost = two_sum(sums[i], given[i])
            values[i], rest_of = _less_product(values[i], rests[i], entry, share)
            rests[i] = rest_of - (lost + losses[i]) * share
    gap = values + rests
    for i in range(dim):  # g'x + x'(g - V x) does not feel a small error of x
        square, rest = _less_product(square, rest, high[i], step[i])
        rest -= (low[i] + gap[i]) * step[i]
    step += _times_inverse(root, gap)
    least = square + rest
    mean[:] = step
    if centred:
        pull = prior[:, 0].copy()
        shift = _times_inverse(root, pull)
        first, second = 0.0, prior[0, 0]
        for i in range(dim):
            first += pull[i] * step[i]
            second -= pull[i] * shift[i]
        mean[0] += level
        if second > 1e-13 * prior[0, 0]:  # less is rounding: of faded evidence only the mean reward is left
            move = first / second
            least -= move * first
            level += move
            mean += move * shift
    return max(least, 0.0), level
