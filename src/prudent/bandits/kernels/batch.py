"""Decisions and rewards for many contexts at a time.

Contexts go through matrix products. Where one draw decides a score (M = 1, no clipping), scores are first bounded in
single precision, and only arms that the bounds cannot tell apart are compared exactly: the same decisions as one by
one, several times as fast.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..._numerics.compile import kernel
from ..._numerics.copying import put
from ..._numerics.order_statistics import lowest_normals_into, lowest_students_into
from ..._support.checks import BoolArray, FloatArray, IntArray
from .layout import BY_ARM, FIXED, FREEDOM, GAIN, NOISE, OWN_NOISE, TRIES, WHICH, Arms, Rule
from .step import best_score, clipped, forced_place, lacking, learn, predict, refresh, scale_at
from .stream import Uniforms

__all__ = [
    "ROWS",
    "Choices",
    "Decided",
    "Moments",
    "decide_rows",
    "fill_scores",
    "learn_rows",
    "moments_of",
    "scales",
    "single_screen",
]


SingleArray = np.ndarray[Any, np.dtype[np.float32]]
SmallInts = np.ndarray[Any, np.dtype[np.int32]]
AnyFloats = FloatArray | SingleArray
ROWS = 1024  # contexts of a batch decided at a time
_BLOCK = 96  # and predicted at a time: they fit the cache, and rows are not a power of two apart in it
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

    terms: SingleArray  # [k,D(D+1)/2] V^-1, scaled to a largest row sum of 1
    centres: SingleArray  # [k,D] thetas
    spreads: SingleArray  # [k] factors of the sds
    below: SingleArray  # [k,bins] bounds of the screen's bins
    above: SingleArray  # [k,bins]


class Bounds(NamedTuple):
    """What the screen says of the scores of k arms in T contexts."""

    limit: AnyFloats  # [k,T] upper bounds
    hurdle: AnyFloats  # [T] the highest lower bound
    winner: SmallInts  # [T] the last arm that reaches it
    rivals: SmallInts  # [T] the number of arms that reach it


class Moments:
    """Posterior means and sds of k arms in contexts [T,D], worked out when first asked for.

    ``noise`` [k] are sds of the noise, infinite if it is not known yet; ``freedom`` [k] are 0 for normal scores.
    """

    def __init__(
        self,
        root: FloatArray,
        mean: FloatArray,
        contexts: FloatArray,
        eligible: IntArray,
        noise: FloatArray,
        freedom: FloatArray,
    ) -> None:
        self._given: tuple[Any, ...] = (root, mean, contexts, eligible, noise)
        self._values: FloatArray | None = None
        self.freedom = freedom

    @property
    def values(self) -> FloatArray:
        """Means, and sds or scales of Student's t, [2,k,T]."""
        if self._values is None:
            root, mean, contexts, eligible, noise = self._given
            self._values = np.empty((2, len(eligible), len(contexts)))
            _predict_rows(root, mean, contexts, eligible, noise, self._values)
            self._given = ()
        return self._values

    @property
    def sds(self) -> FloatArray:
        """Posterior sds [k,T]."""
        freedom = np.where(self.freedom > 0.0, self.freedom, math.inf)[:, np.newaxis]
        return self.values[1] if not self.freedom.any() else self.values[1] / np.sqrt(1.0 - 2.0 / freedom)


class Decided(NamedTuple):
    """What ``decide_rows`` returns."""

    choices: Choices
    moments: Moments
    scale: FloatArray  # [T] sds of draws over posterior sds
    among: BoolArray  # [L,k] the arms between which the first L choices were uniform by rule


def moments_of(arms: Arms, contexts: FloatArray, eligible: IntArray, *, keep: bool = False) -> Moments:
    """Return the moments of the eligible arms; ``keep`` them as they are, whatever is learned before they are read."""
    refresh(arms, eligible)
    student = arms.kind == BY_ARM
    noise = arms.parts[eligible, OWN_NOISE] if student else np.full(eligible.size, arms.pool[NOISE])
    noise[noise == 0.0] = math.inf
    freedom = arms.parts[eligible, FREEDOM] if student else np.zeros(eligible.size)
    if keep:
        return Moments(arms.root[eligible], arms.mean[eligible], contexts, np.arange(eligible.size), noise, freedom)
    return Moments(arms.root, arms.mean, contexts, eligible, noise, freedom)


def decide_rows(
    arms: Arms,
    rule: Rule,
    t: int,
    contexts: FloatArray,
    eligible: IntArray,
    stream: Uniforms,
    *,
    screened: bool = True,
) -> Decided:
    """Decide in contexts [T,D], which are decisions ``t`` and following.

    ``screened=False`` does without single precision, and decides the same.
    """
    rows, k = len(contexts), eligible.size
    refresh(arms, eligible)
    scale = scales(arms, rule, t, rows, contexts.shape[1])
    choices = Choices(np.empty(rows, dtype=np.int64), np.empty(rows), np.empty(rows))
    known = arms.pool[NOISE] > 0.0
    screen = single_screen(arms, rule, contexts, eligible, scale) if screened and known else None
    moments = moments_of(arms, contexts, eligible, keep=screen is not None)
    short = int(np.maximum(rule.first - arms.marks[eligible, TRIES], 0).sum())
    among = np.ones((min(rows, short) if known else rows, k), dtype=np.bool_)
    mixed = len(among) > 0 or rule.floor > 0.0
    factor = (scale / scale.min()).astype(np.float32) if screen is not None else np.empty(0, dtype=np.float32)
    for first in range(0, rows, ROWS):
        size = min(ROWS, rows - first)
        stream.reserve(size * (k * rule.per_arm + 1))
        forced: IntArray = np.full(size, -1)
        counted = 0
        if mixed:
            own = stream.block[stream.next : stream.next + size]
            counted = _force_rows(arms.marks, rule[:], known, eligible, own, among[first:], forced)
            stream.next += size
        place: Any = (forced, stream.block, stream.next, first, choices[:])
        if not known:
            choices.places[first : first + size], choices.scores[first : first + size] = forced, math.nan
        elif screen is None:
            values, freedom = moments.values, moments.freedom
            stream.next = _choose_rows(rule[:], values, freedom, scale, *place)
        else:
            bundles = (arms[:], rule[:], screen[:], contexts, eligible)
            stream.next = _choose_screened(*bundles, scale, factor, *place)
        chosen = eligible[choices.places[first + counted : first + size]]
        arms.marks[:, TRIES] += np.bincount(chosen, minlength=len(arms.marks))
    return Decided(choices, moments, scale, among)


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
                among[t, i] = marks[eligible[i], TRIES] < rule.first
        forced[t] = forced_place(marks, rule.first, rule.floor, known, eligible, uniforms[t])
        if short:
            marks[eligible[forced[t]], TRIES] += 1
            counted += 1
    return counted


def scales(arms: Arms, rule: Rule, t: int, rows: int, dim: int) -> FloatArray:
    """Return the sds of draws over posterior sds of the decisions from ``t`` on, [T]."""
    scale = np.empty(rows)
    _fill_scales(rule.scale, rule.delta, t, dim, arms.pool[NOISE] if arms.kind == FIXED else 1.0, scale)
    return scale


def single_screen(
    arms: Arms, rule: Rule, contexts: FloatArray, eligible: IntArray, scale: FloatArray
) -> SingleScreen | None:
    """Return a screen in single precision; None where that would not do, or not pay."""
    rows, dim = contexts.shape
    if rule.weights.size > 1 or rule.clip or rows < 8 * dim or arms.kind == BY_ARM:
        return None
    accurate, screen = _prepare_screen(arms, eligible, float(scale.min()), rule.screen)
    return screen if accurate else None


@kernel
def _fill_scales(scale: float, delta: float, t: int, dim: int, unit: float, scales: FloatArray) -> None:
    """Write the scales of the decisions from ``t`` on."""
    for i in range(scales.shape[0]):
        scales[i] = scale_at(scale, delta, t + i, dim, unit)


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
def _predict_rows(
    root: FloatArray,
    mean: FloatArray,
    contexts: FloatArray,
    eligible: IntArray,
    noise: FloatArray,
    moments: FloatArray,
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
    for k in range(arms):
        put(means[k], mean[eligible[k]])
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
                width = math.sqrt(max(square[k, t], 0.0))
                moments[1, k, first + t] = noise[k] * width if noise[k] < math.inf else math.inf


@kernel
def _screen_rows(
    means: AnyFloats,
    sds: AnyFloats,
    factor: AnyFloats,
    below: AnyFloats,
    above: AnyFloats,
    uniforms: FloatArray,
    clip: bool,
) -> Bounds:
    """Bound scores as ``best_score`` does, arm by arm over T contexts, which becomes vector code.

    A score of mean means[k,t], sd factor[t] sds[k,t] and uniform [k,t] in bin b lies between mean + sd below[k,b] and
    mean + sd above[k,b].
    """
    arms, size = means.shape
    bins = below.shape[1]
    limit, hurdle = np.empty_like(means), np.empty_like(means[0])
    winner, rivals = np.zeros(size, dtype=np.int32), np.zeros(size, dtype=np.int32)
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
            hurdle[t] = clipped(hurdle[t], True)
            for k in range(arms):
                limit[k, t] = clipped(limit[k, t], True)
    for k in range(arms):
        top = limit[k]
        for t in range(size):
            rival = top[t] >= hurdle[t]
            rivals[t] += np.int32(rival)
            winner[t] = np.int32(k) if rival else winner[t]
    return Bounds(limit, hurdle, winner, rivals)


@kernel
def _note(choices: Choices, row: int, winner: int, uniform: float) -> None:
    """Note the only arm that can win; its score is worked out from its uniform when it is asked for."""
    choices.places[row] = winner
    choices.scores[row] = math.nan
    choices.marks[row] = uniform


@kernel
def _choose_rows(
    rule_fields: tuple[Any, ...],
    moments: FloatArray,
    freedom: FloatArray,
    scale: FloatArray,
    forced: IntArray,
    uniforms: FloatArray,
    start: int,
    first: int,
    choices_fields: tuple[Any, ...],
) -> int:
    """Decide in up to ROWS contexts from ``first`` on, given moments [2,k,T]; return the next unused uniform.

    Where only one arm can win, its score is left NaN. Places that are ``forced`` [ROWS], not -1, are taken as they are.
    """
    rule, choices = Rule(*rule_fields), Choices(*choices_fields)
    weights, screen = rule.weights, rule.screen
    arms, rows = moments.shape[1], moments.shape[2]
    size = min(ROWS, rows - first)
    lowest = weights.shape[0]
    bins = screen.shape[0] - 1
    after = start + size * arms * lowest
    winner = np.zeros(size, dtype=np.int32)
    rivals = np.full(size, arms, dtype=np.int32)
    student = freedom[0] > 0.0
    if lowest == 1 and not student:
        below, above = np.empty((arms, bins)), np.empty((arms, bins))
        for i in range(arms):
            put(below[i], screen[:-1])
            put(above[i], screen[1:])
        part = moments[:, :, first : first + size].copy()
        own_uniforms = uniforms[start : start + arms * size]
        bounds = _screen_rows(part[0], part[1], scale[first : first + size], below, above, own_uniforms, rule.clip)
        winner, rivals = bounds.winner, bounds.rivals
    own_moments = np.empty((4, arms))
    own = np.empty(arms * (lowest + 1))
    for t in range(size):
        row = first + t
        lone = forced[t]
        if rivals[t] == 1 and lowest == 1 and lone < 0:
            lone = winner[t]
        if lone >= 0 and lowest == 1:
            _note(choices, row, lone, uniforms[start + lone * size + t])
            continue
        left = 0
        for k in range(arms):
            if lone >= 0 and k != lone:
                continue
            own_moments[0, left] = moments[0, k, row]
            own_moments[2, left] = scale[row] * moments[1, k, row]
            own_moments[3, left] = freedom[k]
            for j in range(lowest):
                own[left * lowest + j] = uniforms[start + (k * size + t) * lowest + j]
            left += 1
        for k in range(left):
            own[left * lowest + k] = uniforms[after + k]  # for ties
        best, score, used = best_score(rule, student, 0, left, own_moments, own, 0, left * lowest, True)
        choices.places[row], choices.scores[row] = lone if lone >= 0 else best, score
        after += used - left * lowest
    return after


@kernel
def _prepare_screen(
    arms: Arms, eligible: IntArray, least_scale: float, screen: FloatArray
) -> tuple[bool, SingleScreen]:
    """Prepare ``_choose_screened``; return False, and nothing of use, if single precision would lose too much.

    The bounds of the screen's bins are moved apart so far that they bound the score in spite of rounding. With u the
    unit roundoff and m = D(D+1)/2:

    - s'V^-1 s is off by at most about m u |s|'|V^-1||s| <= m u |V^-1| |s|^2, and itself at least |s|^2 / |V|, in the
      norms of largest row sums: a relative error of at most m u |V^-1| |V|, and of half of that for the sd;
    - s'theta is off by at most about D u |theta| |s|, which is at most D u |theta| sqrt(|V|) sds.
    """
    dim = arms.root.shape[1]
    noise_sd, gain = arms.pool[NOISE], arms.pool[GAIN]
    size = eligible.shape[0]
    pairs = dim * (dim + 1) // 2
    bins = screen.shape[0] - 1
    terms = np.empty((size, pairs), dtype=np.float32)
    centres = np.empty((size, dim), dtype=np.float32)
    spreads = np.empty(size, dtype=np.float32)
    below = np.empty((size, bins), dtype=np.float32)
    above = np.empty((size, bins), dtype=np.float32)
    prepared = SingleScreen(terms, centres, spreads, below, above)
    exact = np.empty((size, pairs))
    norms = np.empty(size)  # of V^-1
    loss, shift = np.empty(size), np.empty(size)
    sums = np.empty(dim)
    for k in range(size):
        arm = eligible[k]
        if not _quadratic_terms(arms.root[arm], exact[k]):
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
        prior = arms.prior[arms.marks[arm, WHICH]]
        for i in range(dim):
            total = 0.0
            for j in range(dim):
                total += abs(prior[i, j] + arms.gram[arm, 0, i, j] + arms.gram[arm, 1, i, j])
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
        for i in range(pairs):
            terms[k, i] = exact[k, i] / norms[k]
        slack = 0.52 * loss[k] + 16.0 * _SINGLE
        for b in range(bins):
            below[k, b] = screen[b] - slack * abs(screen[b]) - shift[k]
            above[k, b] = screen[b + 1] + slack * abs(screen[b + 1]) + shift[k]
    return True, prepared


@kernel
def _choose_screened(
    arms_fields: tuple[Any, ...],
    rule_fields: tuple[Any, ...],
    screen_fields: tuple[Any, ...],
    contexts: FloatArray,
    eligible: IntArray,
    scale: FloatArray,
    factor: SingleArray,
    forced: IntArray,
    uniforms: FloatArray,
    start: int,
    first: int,
    choices_fields: tuple[Any, ...],
) -> int:
    """Decide as ``_choose_rows`` does for one lowest draw and no clipping, but from contexts [T,D].

    Scores are bounded in single precision; ``factor`` [T] is scale over the least scale. Where more than one arm may
    win, the arms that may are compared exactly as ``decide`` would. Places may be ``forced`` as there.
    """
    arms, rule, screen = Arms(*arms_fields), Rule(*rule_fields), SingleScreen(*screen_fields)
    choices = Choices(*choices_fields)
    rows, dim = contexts.shape
    root, mean, noise_sd = arms.root, arms.mean, arms.pool[NOISE]
    count = eligible.shape[0]
    size = min(ROWS, rows - first)
    after = start + size * count
    columns = np.zeros((dim, _BLOCK), dtype=np.float32)
    products = np.empty((screen.terms.shape[1], _BLOCK), dtype=np.float32)
    square = np.empty((count, _BLOCK), dtype=np.float32)
    centre = np.empty((count, _BLOCK), dtype=np.float32)
    means = np.empty((count, size), dtype=np.float32)
    sds = np.empty((count, size), dtype=np.float32)
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
        np.dot(screen.centres, columns, centre)
        np.dot(screen.terms, products, square)
        for k in range(count):
            for t in range(width):
                means[k, begin + t] = centre[k, t]
                sds[k, begin + t] = screen.spreads[k] * np.sqrt(square[k, t])
    own_factor = factor[first : first + size]
    bounds = _screen_rows(means, sds, own_factor, screen.below, screen.above, uniforms[start:after], False)
    moments = np.empty((4, count))
    who = np.empty(count, dtype=np.int64)
    own = np.empty(2 * count)
    for t in range(size):
        row = first + t
        plain = _LEAST_SQUARE <= norms[t] <= _LARGEST_SQUARE
        winner = forced[t]
        if winner < 0 and plain and bounds.rivals[t] == 1:
            winner = bounds.winner[t]
        if winner >= 0:
            _note(choices, row, winner, uniforms[start + winner * size + t])
            continue
        left = 0
        for k in range(count):
            if not plain or bounds.limit[k, t] >= bounds.hurdle[t]:
                arm = eligible[k]
                moments[0, left], spread = predict(root, mean, arm, contexts[row])
                moments[2, left] = scale[row] * (noise_sd * spread)
                own[left] = uniforms[start + k * size + t]
                who[left] = k
                left += 1
        for i in range(left):
            own[left + i] = uniforms[after + i]  # for ties
        best, score, used = best_score(rule, False, 0, left, moments, own, 0, left, True)
        choices.places[row], choices.scores[row] = who[best], score
        after += used - left
    return after


@kernel
def fill_scores(rule: Rule, moments: FloatArray, freedom: FloatArray, scale: FloatArray, choices: Choices) -> None:
    """Write the scores that deciding left NaN, given moments [2,k,T], degrees of freedom [k] and scales [T]."""
    draw = np.empty(1)
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
            choices.scores[t] = clipped(moments[0, k, t] + scale[t] * moments[1, k, t] * draw[0], rule.clip)


@kernel
def learn_rows(arms: Arms, contexts: FloatArray, places: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
    """Add rewards [T] with weights [T] of the arms at ``places`` [T] in contexts [T,D], in order."""
    for t in range(contexts.shape[0]):
        arm, reward = places[t], rewards[t]
        sums = (arms.gram, arms.root, arms.parts, arms.pool, arms.marks, arms.extra)
        learn(*sums, contexts[t], arm, reward, weights[t])
