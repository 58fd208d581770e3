"""Decisions and rewards for many contexts at a time.

Contexts go through matrix products. Where one draw decides a score (M = 1, no clipping), scores are first bounded in
single precision, and only arms that the bounds cannot tell apart are compared exactly: the same decisions as one by
one, several times as fast.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..._numerics.compile import kernel
from ..._numerics.copying import put, put_columns
from ..._numerics.order_statistics import lowest_normals_into, lowest_students_into
from ..._numerics.triangles import entry_of, error_of, row_of
from ..._support.checks import BoolArray, FloatArray, IntArray
from . import layout as col
from .layout import BY_ARM, FIXED, Arms, Rule
from .step import (
    AnyFloats,
    best_score,
    clipped,
    decide,
    forced_place,
    lacking,
    learn,
    predict,
    refresh,
    scale_at,
    typical_variance,
    width_of,
)
from .stream import Uniforms

SingleArray = np.ndarray[Any, np.dtype[np.float32]]
ROWS = 1024  # contexts of a batch decided at a time
_BLOCK = 96  # and predicted at a time: they fit the cache, and rows are not a power of two apart in it
_SINGLES = 256  # in single precision
_PAIRS = 512  # products of features at a time in single precision
_LARGEST_ROOT_RATIO = 300.0  # of the diagonal of a root, the square root of a ratio of pivots
_SINGLE = 2.0**-24  # the unit roundoff of single precision
_LARGEST_LOSS = 0.02  # of single precision, beyond which too many contexts would be left undecided
_LEAST_SQUARE, _LARGEST_SQUARE = np.float32(1e-20), np.float32(1e20)  # norms for which no product leaves its range


class Choices(NamedTuple):
    """What was decided in T contexts; a score that is NaN is not worked out yet."""

    places: IntArray  # [T] of the chosen arms
    scores: FloatArray  # [T]
    marks: FloatArray  # [T] the uniforms from which ``fill_scores`` works out the scores that are NaN


class SingleScreen(NamedTuple):
    """The posteriors of k arms in single precision, in units of one sd, and bounds that hold in spite of rounding."""

    terms: SingleArray  # [D(D+1)/2,k] triangles of V^-1, scaled to a largest row sum of 1, off the diagonal twice
    centres: SingleArray  # [k,D] thetas
    spreads: SingleArray  # [k] factors of the sds
    below: SingleArray  # [k,bins] bounds of the screen's bins
    above: SingleArray  # [k,bins]


@dataclass
class Moments:
    """Posterior means and sds of k arms, at the rows ``eligible`` [k] of ``root`` and ``mean``, in contexts [T,D].

    ``noise`` [k] are sds of the noise, infinite if it is not known yet; ``freedom`` [k] are 0 for normal scores.
    """

    root: FloatArray
    mean: FloatArray
    contexts: FloatArray
    eligible: IntArray
    noise: FloatArray
    freedom: FloatArray
    _values: FloatArray | None = None

    @property
    def values(self) -> FloatArray:
        """Means, and sds or scales of Student's t, [2,k,T], computed when they are first read."""
        if self._values is None:
            self._values = np.empty((2, len(self.eligible), len(self.contexts)))
            _predict_rows(self.root, self.mean, self.contexts, self.eligible, self.noise, self._values)
        return self._values

    @property
    def sds(self) -> FloatArray:
        """Posterior sds [k,T]."""
        if not self.freedom.any():
            return self.values[1]
        return self.values[1] / np.sqrt(1.0 - 2.0 / self.freedom)[:, np.newaxis]


def moments_of(arms: Arms, contexts: FloatArray, eligible: IntArray, *, keep: bool = False) -> Moments:
    """Return the moments of the eligible arms; ``keep`` them as they are, whatever is learned before they are read."""
    refresh(arms, eligible)
    student = arms.kind == BY_ARM
    noise = arms.parts[eligible, col.OWN_NOISE] if student else np.full(eligible.size, arms.pool[col.NOISE])
    noise[noise == 0.0] = math.inf
    freedom = arms.parts[eligible, col.FREEDOM] if student else np.zeros(eligible.size)
    if keep:
        return Moments(arms.root[eligible], arms.mean[eligible], contexts, np.arange(eligible.size), noise, freedom)
    return Moments(arms.root, arms.mean, contexts, eligible, noise, freedom)


def decide_rows(
    arms: Arms, rule: Rule, t: int, contexts: FloatArray, eligible: IntArray, stream: Uniforms, *, screened: bool = True
) -> tuple[Choices, Moments, FloatArray, BoolArray]:
    """Decide in contexts [T,D], which are decisions ``t`` and following.

    Returns the choices, the moments, the sds [T] of draws over posterior sds, and the arms [L,k] between which the
    first L choices were uniform by rule. ``screened=False`` does without single precision, and decides the same.
    """
    rows, k = len(contexts), eligible.size
    refresh(arms, eligible)
    scale = scales(arms, rule, t, rows, contexts.shape[1])
    choices = Choices(np.empty(rows, dtype=np.int64), np.empty(rows), np.empty(rows))
    known = arms.pool[col.NOISE] > 0.0
    screen = single_screen(arms, rule, contexts, eligible, scale) if screened and known else None
    moments = moments_of(arms, contexts, eligible, keep=screen is not None)
    values = moments.values if screen is None else np.empty((2, k, 0))
    short = int(np.maximum(rule.first - arms.marks[eligible, col.TRIES], 0).sum())
    among = np.ones((min(rows, short) if known else rows, k), dtype=np.bool_)
    mixed = len(among) > 0 or rule.floor > 0.0
    bounded = rule.weights.size == 1 and arms.kind != BY_ARM
    if screen is not None:
        factor, below, above = (scale / scale.min()).astype(np.float32), screen.below, screen.above
    elif bounded:
        factor, below, above = scale, np.tile(rule.screen[:-1], (k, 1)), np.tile(rule.screen[1:], (k, 1))
    own: Any = np.empty((2, k, 0), dtype=np.float64 if screen is None else np.float32)
    noise_sd = float(arms.pool[col.NOISE])
    for first in range(0, rows, ROWS):
        size = min(ROWS, rows - first)
        stream.reserve(size * (k * rule.per_arm + 1))
        forced: IntArray = np.full(size, -1)
        counted = 0
        if mixed:
            drawn = stream.block[stream.next : stream.next + size]
            counted = _force_rows(arms.marks, rule[:], known, eligible, drawn, among[first:], forced)
            stream.next += size
        if known:
            rivals = np.ones((k, size), dtype=np.bool_)
            if bounded:
                part, uniforms = slice(first, first + size), stream.block[stream.next : stream.next + k * size]
                if own.shape[2] != size:  # the same memory for all blocks but the last stays in the cache
                    own = np.empty((2, k, size), dtype=own.dtype)
                if screen is None:
                    own[...] = values[:, :, part]
                else:
                    _single_moments(screen[:], contexts[part], own)
                factors = factor[part]
                if rule.share > 0.0:  # scaled first, as where scores are compared
                    own[1] *= factors
                    _narrow(own[1], rule.share, 1.0 if screen is None else rule.share)
                    factors = np.ones_like(factors)
                _screen_rows(own[0], own[1], factors, below, above, uniforms, rule.clip, forced, rivals)
            given = (contexts, eligible, values, moments.freedom, scale, forced, rivals)
            random = stream.block, stream.next, first
            stream.next = _choose_rows(arms.root, arms.mean, noise_sd, rule[:], *given, *random, choices[:])
        else:
            choices.places[first : first + size], choices.scores[first : first + size] = forced, math.nan
        if mixed:  # the next ones depend on it
            _count(arms, eligible, choices.places[first + counted : first + size])
    if not mixed:
        _count(arms, eligible, choices.places)
    return choices, moments, scale, among


def _count(arms: Arms, eligible: IntArray, places: IntArray) -> None:
    """Count decisions for the arms at ``places`` among the eligible ones."""
    arms.marks[eligible, col.TRIES] += np.bincount(places, minlength=eligible.size)


@kernel
def decide_each(
    arms_fields: tuple[Any, ...],
    rule_fields: tuple[Any, ...],
    t: int,
    contexts: FloatArray,
    eligible: IntArray,
    uniforms: FloatArray,
    start: int,
    moments: FloatArray,
    places: IntArray,
    scores: FloatArray,
    starts: IntArray,
) -> int:
    """Take decisions ``t`` and following in contexts [T,D] one after the other, each as ``step.decide``.

    Writes their moments [T,4,k], the places of the chosen arms [T], their scores [T], and the next unused uniform [T+1]
    before each of them and in the end. Returns how many were taken: a context that cannot be used ends it.
    """
    arms, rule = Arms(*arms_fields), Rule(*rule_fields)
    starts[0] = start
    for i in range(contexts.shape[0]):
        context, own = contexts[i], moments[i]
        places[i], scores[i], starts[i + 1] = decide(
            arms, rule, t + i, context, eligible, uniforms, starts[i], own, True
        )
        if places[i] < 0:
            return i
    return contexts.shape[0]


@kernel
def _force_rows(
    marks: IntArray,
    rule_fields: tuple[Any, ...],
    known: bool,
    eligible: IntArray,
    uniforms: FloatArray,
    among: BoolArray,
    forced: IntArray,
) -> int:
    """Write the places of uniform choices, -1 where scores decide, and between which arms the choice is.

    Returns how many of these decisions, the first ones, went to arms that lack first decisions; they are counted.
    """
    rule = Rule(*rule_fields)
    counted = 0
    for t in range(forced.shape[0]):
        short = rule.first > 0 and lacking(marks, rule.first, eligible) > 0
        if short:
            for i in range(eligible.shape[0]):
                among[t, i] = marks[eligible[i], col.TRIES] < rule.first
        forced[t] = forced_place(marks, rule.first, rule.floor, known, eligible, uniforms[t])
        if short:
            marks[eligible[forced[t]], col.TRIES] += 1
            counted += 1
    return counted


def scales(arms: Arms, rule: Rule, t: int, rows: int, dim: int) -> FloatArray:
    """Return the sds of draws over posterior sds of the decisions from ``t`` on, [T]."""
    scale = np.empty(rows)
    unit = arms.pool[col.NOISE] if arms.kind == FIXED else 1.0
    _fill_scales(rule.scale, rule.delta, t, dim, unit, rule.horizon, scale)
    return scale


def single_screen(
    arms: Arms, rule: Rule, contexts: FloatArray, eligible: IntArray, scale: FloatArray
) -> SingleScreen | None:
    """Return a screen in single precision; None where that would not do, or not pay."""
    rows, dim = contexts.shape
    if rule.weights.size > 1 or rule.clip or rows < 8 * dim or arms.kind == BY_ARM:
        return None
    accurate, screen = _prepare_screen(arms, eligible, float(scale.min()), rule.screen, rule.share)
    return screen if accurate else None


@kernel
def _fill_scales(scale: float, delta: float, t: int, dim: int, unit: float, horizon: int, scales: FloatArray) -> None:
    """Write the scales of the decisions from ``t`` on."""
    for i in range(scales.shape[0]):
        scales[i] = scale_at(scale, delta, t + i, dim, unit, horizon)


@kernel
def _narrow(sds: AnyFloats, share: float, unit: float) -> None:
    """Narrow the sds [k,T] of draws as ``width_of`` says, in multiples of ``unit``.

    The same sums as in ``typical_variance``, but arm by arm over the contexts, which becomes vector code.
    """
    arms, size = sds.shape
    least, total, squares = sds[0].copy(), np.zeros_like(sds[0]), np.zeros_like(sds[0])
    for k in range(1, arms):
        for t in range(size):
            least[t] = min(least[t], sds[k, t])
    for k in range(arms):
        for t in range(size):
            ratio = least[t] / sds[k, t]
            ratio *= ratio
            total[t] += ratio
            squares[t] += ratio * ratio
    for t in range(size):
        least[t] = least[t] * least[t] * (total[t] / squares[t])
    for k in range(arms):
        for t in range(size):
            sds[k, t] *= width_of(sds[k, t], least[t], share) / unit


def draw_sds(moments: FloatArray, scale: FloatArray, share: float) -> FloatArray:
    """Return the sds [T,k] of draws, given moments [2,k,T], scales [T] and the ``share`` of a rule."""
    sds = np.ascontiguousarray(scale[:, np.newaxis] * moments[1].T)
    if share > 0.0:
        _narrow(sds.T, share, 1.0)
    return sds


@kernel
def _lower(root: FloatArray, square: FloatArray) -> None:
    """Write a triangle over the lower triangle of a square array [D,D]."""
    for i in range(square.shape[0]):
        put(square[i], row_of(root, i, square.shape[0]))


@kernel
def _quadratic_terms(triangle: FloatArray, terms: FloatArray, root: FloatArray) -> bool:
    """Write V^-1 as coefficients [D(D+1)/2] of the products s_i s_j, i >= j; return whether that is accurate.

    s'V^-1 s may be as much smaller than the entries of V^-1 as the ratio of its eigenvalues, and loses as many digits.
    The lower triangle of ``root`` [D,D] is written over.
    """
    dim = root.shape[0]
    _lower(triangle, root)
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
def _predict_rows(
    root: FloatArray, mean: FloatArray, contexts: FloatArray, eligible: IntArray, noise: FloatArray, moments: FloatArray
) -> None:
    """Write posterior means and sds, moments [2,k,T], of contexts [T,D]; ``noise`` [k] may be infinite.

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
    square_root = np.zeros((dim, dim))
    for k in range(arms):
        put(means[k], mean[eligible[k]])
        if many:
            by_terms[k] = _quadratic_terms(root[eligible[k]], terms[k], square_root)
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
                _lower(root[eligible[k]], square_root)
                np.dot(square_root, columns, turned)
                square[k] = 0.0
                for i in range(dim):
                    for t in range(block):
                        square[k, t] += turned[i, t] * turned[i, t]
            for t in range(size):
                moments[0, k, first + t] = centre[k, t]
                width = math.sqrt(max(square[k, t], 0.0))
                moments[1, k, first + t] = noise[k] * width if noise[k] < math.inf else math.inf


@kernel
def _prepare_screen(
    arms: Arms, eligible: IntArray, least_scale: float, screen: FloatArray, share: float
) -> tuple[bool, SingleScreen]:
    """Return the screen of ``_single_moments``; False, and an empty one, if single precision would lose too much.

    The bounds of the screen's bins are moved apart so far that they bound the score in spite of rounding. With u the
    unit roundoff and m = D(D+1)/2:

    - s'V^-1 s is off by at most about m u |s|'|V^-1||s| <= m u |V^-1| |s|^2, and itself at least |s|^2 / |V|, in the
      norms of largest row sums: a relative error of at most m u |V^-1| |V|, and of half of that for the sd;
    - s'theta is off by at most about D u |theta| |s|, which is at most D u |theta| sqrt(|V|) sds.

    With a ``share`` the least scale is that times less. The logarithm of the typical variance changes by at most six
    times as much as those of the sds, and that of a narrowed sd by nine times as much: ten, with products of errors.
    """
    least_scale *= share if share > 0.0 else 1.0
    dim = arms.mean.shape[1]
    noise_sd, gain = arms.pool[col.NOISE], arms.pool[col.GAIN]
    size = eligible.shape[0]
    pairs = dim * (dim + 1) // 2
    bins = screen.shape[0] - 1
    terms = np.zeros((pairs, size), dtype=np.float32)
    centres = np.zeros((size, dim), dtype=np.float32)
    spreads = np.empty(size, dtype=np.float32)
    below = np.empty((size, bins), dtype=np.float32)
    above = np.empty((size, bins), dtype=np.float32)
    prepared = SingleScreen(terms, centres, spreads, below, above)
    exact = np.empty((size, pairs))
    norms = np.empty(size)  # of V^-1
    loss, shift = np.empty(size), np.empty(size)
    sums, square_root = np.empty(dim), np.empty((dim, dim))
    for k in range(size):
        arm = eligible[k]
        if not _quadratic_terms(arms.root[arm], exact[k], square_root):
            return False, prepared
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
        prior, gram, lost = arms.prior[arms.marks[arm, col.WHICH]], arms.gram[arm], arms.lost[arm]
        for i in range(dim):
            total = 0.0
            for j in range(dim):
                total += abs(
                    entry_of(prior, i, j, dim) + entry_of(gram, i, j, dim + 1) + error_of(entry_of(lost, i, j, dim + 1))
                )
            precision = max(precision, gain * total)
            length = math.hypot(length, arms.mean[arm, i])
        # a few roundings more, of entries, of the square root and of what follows it, and a little for their products
        loss[k] = 1.05 * (pairs + 8) * _SINGLE * norms[k] * precision
        shift[k] = 1.05 * (dim + 8) * _SINGLE * length * math.sqrt(precision) / (noise_sd * least_scale)
        if not (loss[k] <= _LARGEST_LOSS and shift[k] <= _LARGEST_LOSS):
            return False, prepared
    largest = norms.max()
    unit = noise_sd * least_scale * math.sqrt(largest)
    if not (norms.min() >= 1e-12 * largest and 0.0 < unit < math.inf):
        return False, prepared
    for k in range(size):
        spreads[k] = math.sqrt(norms[k] / largest)
        for i in range(dim):
            centres[k, i] = arms.mean[eligible[k], i] / unit
        for place in range(pairs):
            terms[place, k] = exact[k, place] / norms[k]
        slack = 0.52 * loss[k] + 16.0 * _SINGLE
        if share > 0.0:
            slack = 5.2 * loss.max() + (160.0 + 4.0 * size) * _SINGLE
        for b in range(bins):
            below[k, b] = screen[b] - slack * abs(screen[b]) - shift[k]
            above[k, b] = screen[b + 1] + slack * abs(screen[b + 1]) + shift[k]
    return True, prepared


@kernel
def _single_moments(screen_fields: tuple[Any, ...], contexts: FloatArray, moments: SingleArray) -> None:
    """Write means and sds [2,k,T] of the screen in contexts [T,D]; means are NaN where products leave their range."""
    screen = SingleScreen(*screen_fields)
    size, dim = contexts.shape
    terms, thetas, spreads = screen.terms, screen.centres, screen.spreads
    pairs, arms = terms.shape
    columns, norms = np.zeros((dim, _SINGLES), dtype=np.float32), np.empty(_SINGLES, dtype=np.float32)
    products = np.empty((min(pairs, _PAIRS), _SINGLES), dtype=np.float32)
    square, part = np.empty((arms, _SINGLES), dtype=np.float32), np.empty((arms, _SINGLES), dtype=np.float32)
    for begin in range(0, size, _SINGLES):
        width = min(_SINGLES, size - begin)
        put_columns(columns, contexts[begin : begin + width])
        norms[:] = 0.0
        for i in range(dim):
            column = columns[i]
            for t in range(_SINGLES):
                norms[t] += column[t] * column[t]
        for t in range(_SINGLES):
            norms[t] = 0.0 if _LEAST_SQUARE <= norms[t] <= _LARGEST_SQUARE else np.nan
        i, j = 0, 0
        for first in range(0, pairs, _PAIRS):
            last = min(first + _PAIRS, pairs)
            for place in range(last - first):
                product, column, other = products[place], columns[i], columns[j]
                for t in range(_SINGLES):
                    product[t] = column[t] * other[t]
                i, j = (i + 1, 0) if j == i else (i, j + 1)
            np.dot(terms[first:last].T, products[: last - first], part if first > 0 else square)
            if first > 0:
                for k in range(arms):
                    for t in range(_SINGLES):
                        square[k, t] += part[k, t]
        np.dot(thetas, columns, part)
        for k in range(arms):
            mean, sd, spread = moments[0, k, begin:], moments[1, k, begin:], spreads[k]
            for t in range(width):
                mean[t] = norms[t] + part[k, t]
                sd[t] = spread * np.sqrt(square[k, t])


@kernel
def _screen_rows(
    means: AnyFloats,
    sds: AnyFloats,
    factor: AnyFloats,
    below: AnyFloats,
    above: AnyFloats,
    uniforms: FloatArray,
    clip: bool,
    forced: IntArray,
    rivals: BoolArray,
) -> None:
    """Force the choice where only one arm may win, and write ``rivals`` [k,T], the arms that may, elsewhere.

    A score of mean means[k,t], sd factor[t] sds[k,t] and uniform [k,t] in bin b lies between mean + sd below[k,b] and
    mean + sd above[k,b]. Bounds are computed arm by arm over the contexts, which becomes vector code.
    """
    arms, size = means.shape
    bins = below.shape[1]
    limit, hurdle = np.empty_like(means), np.full_like(means[0], -np.inf)
    winner, count = np.zeros(size, dtype=np.int32), np.zeros(size, dtype=np.int32)
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
            hurdle[t] = clipped(hurdle[t], True)
            for k in range(arms):
                limit[k, t] = clipped(limit[k, t], True)
    for k in range(arms):
        top = limit[k]
        for t in range(size):
            rival = not top[t] < hurdle[t]  # also if it is NaN
            count[t] += np.int32(rival)
            winner[t] = np.int32(k) if rival else winner[t]
    for t in range(size):
        if count[t] == 1 and forced[t] < 0:
            forced[t] = winner[t]
        elif forced[t] < 0:
            for k in range(arms):
                rivals[k, t] = not limit[k, t] < hurdle[t]


@kernel
def _choose_rows(
    root: FloatArray,
    mean: FloatArray,
    noise_sd: float,
    rule_fields: tuple[Any, ...],
    contexts: FloatArray,
    eligible: IntArray,
    moments: FloatArray,
    freedom: FloatArray,
    scale: FloatArray,
    forced: IntArray,
    rivals: BoolArray,
    uniforms: FloatArray,
    start: int,
    first: int,
    choices_fields: tuple[Any, ...],
) -> int:
    """Decide in the contexts from ``first`` on that have ``forced`` [size], the choice or -1; return the next uniform.

    Without moments [2,k,T], those of the arms that may win, ``rivals`` [k,size], are computed as ``decide`` does. Where
    only one arm can win its score is left NaN, and its uniform is noted.
    """
    rule, choices = Rule(*rule_fields), Choices(*choices_fields)
    count, size = rivals.shape
    lowest = rule.weights.shape[0]
    after = start + size * count * lowest
    student, exact = freedom[0] > 0.0, moments.shape[2] == 0
    own_moments, sds, typical = np.empty((4, count)), np.empty(count), 0.0
    own = np.empty(count * (lowest + 1))
    who = np.empty(count, dtype=np.int64)
    for t in range(size):
        row, lone = first + t, forced[t]
        if lone >= 0 and lowest == 1:
            choices.places[row], choices.scores[row] = lone, math.nan
            choices.marks[row] = uniforms[start + lone * size + t]
            continue
        left = 0
        if rule.share > 0.0:
            for k in range(count):
                spread = noise_sd * predict(root, mean, eligible[k], contexts[row])[1] if exact else moments[1, k, row]
                sds[k] = scale[row] * spread
            typical = typical_variance(sds)
        for k in range(count):
            if not rivals[k, t] or (lone >= 0 and k != lone):
                continue
            if exact:
                own_moments[0, left], spread = predict(root, mean, eligible[k], contexts[row])
                spread *= noise_sd
            else:
                own_moments[0, left], spread = moments[0, k, row], moments[1, k, row]
            own_moments[2, left], own_moments[3, left] = scale[row] * spread, freedom[k]
            if rule.share > 0.0:
                own_moments[2, left] *= width_of(own_moments[2, left], typical, rule.share)
            for j in range(lowest):
                own[left * lowest + j] = uniforms[start + (k * size + t) * lowest + j]
            who[left] = k
            left += 1
        for k in range(left):
            own[left * lowest + k] = uniforms[after + k]  # for ties
        best, score, used = best_score(rule, student, 0, left, own_moments, own, 0, left * lowest, True)
        choices.places[row], choices.scores[row] = who[best], score
        after += used - left * lowest
    return after


@kernel
def fill_scores(rule: Rule, moments: FloatArray, freedom: FloatArray, scale: FloatArray, choices: Choices) -> None:
    """Write the scores that deciding left NaN, given moments [2,k,T], degrees of freedom [k] and scales [T]."""
    draw, sds = np.empty(1), np.empty(moments.shape[1])
    for t in range(choices.places.shape[0]):
        if math.isnan(choices.scores[t]):
            k = choices.places[t]
            if moments[1, k, t] == math.inf:  # nothing was drawn
                choices.scores[t] = moments[0, k, t]
                continue
            if freedom[k] > 0.0:
                lowest_students_into(draw, rule.n, choices.marks[t : t + 1], freedom[k])
            else:
                lowest_normals_into(draw, rule.n, choices.marks[t : t + 1])
            spread = scale[t] * moments[1, k, t]
            if rule.share > 0.0:
                for i in range(sds.shape[0]):
                    sds[i] = scale[t] * moments[1, i, t]
                spread *= width_of(spread, typical_variance(sds), rule.share)
            choices.scores[t] = clipped(moments[0, k, t] + spread * draw[0], rule.clip)


@kernel
def learn_rows(arms: Arms, contexts: FloatArray, places: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
    """Add rewards [T] with weights [T] of the arms at ``places`` [T] in contexts [T,D], in order."""
    for t in range(contexts.shape[0]):
        arm, reward = places[t], rewards[t]
        sums = (arms.gram, arms.lost, arms.root, arms.parts, arms.pool, arms.marks, arms.extra)
        learn(*sums, contexts[t], arm, reward, weights[t])
