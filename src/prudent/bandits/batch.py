"""Decisions and rewards for many contexts at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._numerics.compile import kernel
from .._numerics.order_statistics import lowest_normals_into
from .._support.checks import FloatArray, IntArray
from .step import _clipped, best_score, predict, update_one

__all__ = ["choose_rows", "choose_screened", "fill_scores", "predict_rows", "prepare_screen", "update_rows"]


SingleArray = np.ndarray[Any, np.dtype[np.float32]]


SmallInts = np.ndarray[Any, np.dtype[np.int32]]


AnyFloats = FloatArray | SingleArray


ROWS = 1024  # contexts of a batch decided at a time


_BLOCK = 96  # and predicted at a time: they fit the cache, and rows are not a power of two apart in it


_LARGEST_ROOT_RATIO = 300.0  # of the diagonal of a root, the square root of a ratio of pivots


_SINGLE = 2.0**-24  # the unit roundoff of single precision


_LARGEST_LOSS = 0.02  # of single precision, beyond which too many contexts would be left undecided


_LEAST_SQUARE, _LARGEST_SQUARE = np.float32(1e-20), np.float32(1e20)  # norms for which no product leaves its range


@kernel
def _quadratic_terms(root: FloatArray, terms: FloatArray) -> bool:
    """Write V^-1 as coefficients [D(D+1)/2] of the products s_i s_j, i >= j; return whether that is accurate.

    s'V^-1 s may be as much smaller than the entries of V^-1 as the ratio of its eigenvalues, and loses as many digits.
    """
    dim = root.shape[0]
    least, most = math.inf, 0.0
    for i in range(dim):
        least = min(least, root[i, i])
        most = max(most, root[i, i])
    if most > _LARGEST_ROOT_RATIO * least:
        return False
    place = 0
    for i in range(dim):
        for j in range(i + 1):
            value = 0.0
            for k in range(i, dim):
                value += root[k, i] * root[k, j]
            terms[place] = value if i == j else 2.0 * value
            place += 1
    return True


@kernel
def predict_rows(
    root: FloatArray,
    mean: FloatArray,
    contexts: FloatArray,
    eligible: IntArray,
    noise_sd: float,
    moments: FloatArray,
) -> None:
    """Write posterior means and sds, moments [2,k,T], of contexts [T,D].

    Contexts go in blocks through matrix products. Over many contexts s'V^-1 s is cheapest as a product of V^-1 with
    the s_i s_j, for all arms at once; where that is inaccurate, and for few contexts, it is the square of root s.
    """
    rows, dim = contexts.shape
    arms = eligible.shape[0]
    pairs = dim * (dim + 1) // 2
    block = max(1, min(rows, _BLOCK))
    by_terms = np.zeros(arms, dtype=np.bool_)
    many = rows >= 8 * dim
    terms = np.zeros((arms, pairs if many else 1))
    means = np.empty((arms, dim))
    for k in range(arms):
        means[k] = mean[eligible[k]]
        if many:
            by_terms[k] = _quadratic_terms(root[eligible[k]], terms[k])
    columns = np.zeros((dim, block))
    products = np.empty((pairs if many else 1, block))
    square = np.empty((arms, block))
    centre = np.empty((arms, block))
    turned = np.empty((dim, block))
    for first in range(0, rows, block):
        size = min(block, rows - first)
        for t in range(size):
            for i in range(dim):
                columns[i, t] = contexts[first + t, i]
        np.dot(means, columns, centre)
        if many:
            place = 0
            for i in range(dim):
                for j in range(i + 1):
                    for t in range(block):
                        products[place, t] = columns[i, t] * columns[j, t]
                    place += 1
            np.dot(terms, products, square)
        for k in range(arms):
            if not by_terms[k]:
                np.dot(root[eligible[k]], columns, turned)
                square[k] = 0.0
                for i in range(dim):
                    for t in range(block):
                        square[k, t] += turned[i, t] * turned[i, t]
            for t in range(size):
                moments[0, k, first + t] = centre[k, t]
                moments[1, k, first + t] = noise_sd * math.sqrt(max(square[k, t], 0.0))


@kernel
def _screen_rows(
    means: AnyFloats,
    sds: AnyFloats,
    factor: AnyFloats,
    below: AnyFloats,
    above: AnyFloats,
    uniforms: FloatArray,
    clip: bool,
    hurdle: AnyFloats,
    limit: AnyFloats,
    winner: SmallInts,
    rivals: SmallInts,
) -> None:
    """Bound scores as :func:`best_score` does, arm by arm over T contexts, which becomes vector code.

    A score of mean means[k,t], sd factor[t] sds[k,t] and uniform [k,t] in bin b is at least mean + sd below[k,b] and at
    most limit[k,t], mean + sd above[k,b]; hurdle[t] is the highest lower bound, rivals[t] the number of arms that reach
    it, and winner[t] the last of them.
    """
    arms, size = means.shape
    bins = below.shape[1]
    hurdle[:] = -np.inf
    for k in range(arms):
        marks, mean, sd, top = uniforms[k * size : (k + 1) * size], means[k], sds[k], limit[k]
        least, most = below[k], above[k]
        for t in range(size):
            place = np.int32(marks[t] * bins)  # 64 bits would not become vector code
            spread = factor[t] * sd[t]
            low = mean[t] + spread * least[place]
            top[t] = mean[t] + spread * most[place]
            hurdle[t] = low if low > hurdle[t] else hurdle[t]
    if clip:
        for t in range(size):
            hurdle[t] = _clipped(hurdle[t], True)
            for k in range(arms):
                limit[k, t] = _clipped(limit[k, t], True)
    rivals[:] = 0
    for k in range(arms):
        top = limit[k]
        for t in range(size):
            rival = top[t] >= hurdle[t]
            rivals[t] += np.int32(rival)
            winner[t] = np.int32(k) if rival else winner[t]


@kernel
def choose_rows(
    moments: FloatArray,
    scale: FloatArray,
    n: int,
    weights: FloatArray,
    clip: bool,
    screen: FloatArray,
    uniforms: FloatArray,
    start: int,
    first: int,
    chosen: IntArray,
    scores: FloatArray,
    marks: FloatArray,
) -> int:
    """Decide for up to ROWS contexts from ``first`` on, given moments [2,k,T]; return the next unused uniform.

    Where only one arm can win, its score is left NaN and its uniform noted in ``marks`` [T]: see :func:`fill_scores`.
    """
    arms, rows = moments.shape[1], moments.shape[2]
    size = min(ROWS, rows - first)
    lowest = weights.shape[0]
    bins = screen.shape[0] - 1
    after = start + size * arms * lowest
    winner = np.zeros(size, dtype=np.int32)
    rivals = np.full(size, arms, dtype=np.int32)
    if lowest == 1:
        below, above = np.empty((arms, bins)), np.empty((arms, bins))
        below[:], above[:] = screen[:-1], screen[1:]
        part = moments[:, :, first : first + size].copy()
        own_uniforms = uniforms[start : start + arms * size]
        hurdle, limit = np.empty(size), np.empty((arms, size))
        factor = scale[first : first + size]
        _screen_rows(part[0], part[1], factor, below, above, own_uniforms, clip, hurdle, limit, winner, rivals)
    means = np.empty(arms)
    sds = np.empty(arms)
    draws = np.empty(lowest)
    own = np.empty(arms * (lowest + 1))
    for t in range(size):
        row = first + t
        if rivals[t] == 1 and lowest == 1:
            chosen[row] = winner[t]
            scores[row] = math.nan
            marks[row] = uniforms[start + winner[t] * size + t]
            continue
        for k in range(arms):
            means[k] = moments[0, k, row]
            sds[k] = scale[row] * moments[1, k, row]
            for j in range(lowest):
                own[k * lowest + j] = uniforms[start + (k * size + t) * lowest + j]
            own[arms * lowest + k] = uniforms[after + k]  # for ties
        chosen[row], scores[row], used = best_score(means, sds, n, weights, clip, screen, own, 0, arms * lowest, draws)
        after += used - arms * lowest
    return after


@kernel
def prepare_screen(
    gram: FloatArray,
    prior: FloatArray,
    root: FloatArray,
    mean: FloatArray,
    eligible: IntArray,
    noise_sd: float,
    least_scale: float,
    screen: FloatArray,
) -> tuple[bool, SingleArray, SingleArray, SingleArray, SingleArray, SingleArray]:
    """Prepare :func:`choose_screened`; return False, and nothing of use, if single precision would lose too much.

    Returns V^-1 as terms [k,D(D+1)/2] of largest row sum 1, thetas as centres [k,D], the factors spreads [k] of sds,
    all in units of one sd, and for every arm the bounds of the screen's bins, below and above [k,bins], moved
    apart so far that they bound the score in spite of rounding. With u the unit roundoff and m = D(D+1)/2:

    - s'V^-1 s is off by at most about m u |s|'|V^-1||s| <= m u |V^-1| |s|^2, and itself at least |s|^2 / |V|, in the
      norms of largest row sums: a relative error of at most m u |V^-1| |V|, and of half of that for the sd;
    - s'theta is off by at most about D u |theta| |s|, which is at most D u |theta| sqrt(|V|) sds.
    """
    dim = root.shape[1]
    arms = eligible.shape[0]
    pairs = dim * (dim + 1) // 2
    bins = screen.shape[0] - 1
    terms = np.empty((arms, pairs), dtype=np.float32)
    centres = np.empty((arms, dim), dtype=np.float32)
    spreads = np.empty(arms, dtype=np.float32)
    below = np.empty((arms, bins), dtype=np.float32)
    above = np.empty((arms, bins), dtype=np.float32)
    exact = np.empty((arms, pairs))
    norms = np.empty(arms)  # of V^-1
    loss, shift = np.empty(arms), np.empty(arms)
    sums = np.empty(dim)
    for k in range(arms):
        arm = eligible[k]
        if not _quadratic_terms(root[arm], exact[k]):
            return False, terms, centres, spreads, below, above
        sums[:] = 0.0
        place = 0
        for i in range(dim):
            for j in range(i):
                sums[i] += 0.5 * abs(exact[k, place])
                sums[j] += 0.5 * abs(exact[k, place])
                place += 1
            sums[i] += exact[k, place]
            place += 1
        norms[k] = sums.max()
        precision = 0.0  # the norm of V
        length = 0.0
        for i in range(dim):
            total = 0.0
            for j in range(dim):
                total += abs(prior[i, j] + gram[arm, 0, i, j] + gram[arm, 1, i, j])
            precision = max(precision, total)
            length = math.hypot(length, mean[arm, i])
        # a few roundings more, of entries, of the square root and of what follows it, and a little for their products
        loss[k] = 1.05 * (pairs + 8) * _SINGLE * norms[k] * precision
        shift[k] = 1.05 * (dim + 8) * _SINGLE * length * math.sqrt(precision) / (noise_sd * least_scale)
        if not (loss[k] <= _LARGEST_LOSS and shift[k] <= _LARGEST_LOSS):
            return False, terms, centres, spreads, below, above
    largest = norms.max()
    unit = noise_sd * least_scale * math.sqrt(largest)
    if not (norms.min() >= 1e-12 * largest and 0.0 < unit < math.inf):
        return False, terms, centres, spreads, below, above
    for k in range(arms):
        spreads[k] = math.sqrt(norms[k] / largest)
        for i in range(dim):
            centres[k, i] = mean[eligible[k], i] / unit
        for i in range(pairs):
            terms[k, i] = exact[k, i] / norms[k]
        slack = 0.52 * loss[k] + 16.0 * _SINGLE
        for b in range(bins):
            below[k, b] = screen[b] - slack * abs(screen[b]) - shift[k]
            above[k, b] = screen[b + 1] + slack * abs(screen[b + 1]) + shift[k]
    return True, terms, centres, spreads, below, above


@kernel
def choose_screened(
    root: FloatArray,
    mean: FloatArray,
    contexts: FloatArray,
    eligible: IntArray,
    noise_sd: float,
    scale: FloatArray,
    factor: SingleArray,
    n: int,
    weights: FloatArray,
    screen: FloatArray,
    terms: SingleArray,
    centres: SingleArray,
    spreads: SingleArray,
    below: SingleArray,
    above: SingleArray,
    uniforms: FloatArray,
    start: int,
    first: int,
    chosen: IntArray,
    scores: FloatArray,
    marks: FloatArray,
) -> int:
    """Decide as :func:`choose_rows` does for one lowest draw and no clipping, but from contexts [T,D].

    Scores are bounded in single precision (:func:`prepare_screen`; ``factor`` [T] is scale over the least scale). Where
    more than one arm may win, the arms that may are compared exactly as :func:`select_one` would.
    """
    rows, dim = contexts.shape
    arms = eligible.shape[0]
    size = min(ROWS, rows - first)
    after = start + size * arms
    columns = np.zeros((dim, _BLOCK), dtype=np.float32)
    products = np.empty((terms.shape[1], _BLOCK), dtype=np.float32)
    square = np.empty((arms, _BLOCK), dtype=np.float32)
    centre = np.empty((arms, _BLOCK), dtype=np.float32)
    means = np.empty((arms, size), dtype=np.float32)
    sds = np.empty((arms, size), dtype=np.float32)
    norms = np.zeros(size, dtype=np.float32)
    for begin in range(0, size, _BLOCK):
        width = min(_BLOCK, size - begin)
        for t in range(width):
            for i in range(dim):
                columns[i, t] = contexts[first + begin + t, i]
        place = 0
        for i in range(dim):
            for j in range(i + 1):
                for t in range(_BLOCK):
                    products[place, t] = columns[i, t] * columns[j, t]
                place += 1
            for t in range(width):
                norms[begin + t] += products[place - 1, t]
        np.dot(centres, columns, centre)
        np.dot(terms, products, square)
        for k in range(arms):
            for t in range(width):
                means[k, begin + t] = centre[k, t]
                sds[k, begin + t] = spreads[k] * np.sqrt(square[k, t])
    winner = np.zeros(size, dtype=np.int32)
    rivals = np.empty(size, dtype=np.int32)
    hurdle = np.empty(size, dtype=np.float32)
    limit = np.empty((arms, size), dtype=np.float32)
    own_factor = factor[first : first + size]
    _screen_rows(means, sds, own_factor, below, above, uniforms[start:after], False, hurdle, limit, winner, rivals)
    moments = np.empty((2, arms))
    who = np.empty(arms, dtype=np.int64)
    draws = np.empty(1)
    own = np.empty(2 * arms)
    for t in range(size):
        row = first + t
        plain = _LEAST_SQUARE <= norms[t] <= _LARGEST_SQUARE
        if plain and rivals[t] == 1:
            chosen[row] = winner[t]
            scores[row] = math.nan
            marks[row] = uniforms[start + winner[t] * size + t]
            continue
        left = 0
        for k in range(arms):
            if not plain or limit[k, t] >= hurdle[t]:
                arm = eligible[k]
                moments[0, left], spread = predict(root[arm], mean[arm], contexts[row])
                moments[1, left] = scale[row] * (noise_sd * spread)
                own[left] = uniforms[start + k * size + t]
                who[left] = k
                left += 1
        for i in range(left):
            own[left + i] = uniforms[after + i]  # for ties
        best, scores[row], used = best_score(
            moments[0, :left], moments[1, :left], n, weights, False, screen, own, 0, left, draws
        )
        chosen[row] = who[best]
        after += used - left
    return after


@kernel
def fill_scores(
    moments: FloatArray,
    scale: FloatArray,
    n: int,
    clip: bool,
    chosen: IntArray,
    marks: FloatArray,
    scores: FloatArray,
) -> None:
    """Write the scores that :func:`choose_rows` left NaN."""
    draw = np.empty(1)
    for t in range(chosen.shape[0]):
        if math.isnan(scores[t]):
            lowest_normals_into(draw, n, marks[t : t + 1])
            k = chosen[t]
            scores[t] = _clipped(moments[0, k, t] + scale[t] * moments[1, k, t] * draw[0], clip)


@kernel
def update_rows(
    gram: FloatArray,
    stale: IntArray,
    pulls: IntArray,
    contexts: FloatArray,
    arms: IntArray,
    rewards: FloatArray,
) -> None:
    """Add rewards [T] of arms [T] in contexts [T,D], in order."""
    for t in range(contexts.shape[0]):
        update_one(gram, stale, pulls, contexts[t], arms[t], rewards[t])
