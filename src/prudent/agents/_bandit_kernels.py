"""Kernels of the linear bandit: one decision, one reward. LinearBandit and the simulator share them.

Arrays: gram [A,2,D+1,D+1] and prior [D,D] are what the data says (prudent._linear); root [A,D,D] and mean [A,D]
are solved from them, again for the arms that ``stale`` [A] marks. Scores are drawn from uniforms in [0, 1) that
the caller has taken from its Generator, used up in order: M per eligible arm, then one per tie.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._checks import FloatArray, IntArray
from .._kernel import kernel
from .._linear import add_observation, solve_posterior
from ..risk import lowest_normals_into

__all__ = [
    "best_score",
    "choose_rows",
    "choose_screened",
    "fill_scores",
    "inflated_scales",
    "inflated_sd",
    "predict",
    "predict_rows",
    "prepare_screen",
    "refresh",
    "screen_of",
    "select_one",
    "update_one",
    "update_rows",
    "usable",
]

SingleArray = np.ndarray[Any, np.dtype[np.float32]]
SmallInts = np.ndarray[Any, np.dtype[np.int32]]
AnyFloats = FloatArray | SingleArray

LARGEST = 1e150  # the square of a context or a reward must not overflow
_BINS = 512
ROWS = 1024  # contexts of a batch decided at a time
_BLOCK = 96  # and predicted at a time: they fit the cache, and rows are not a power of two apart in it
_LARGEST_ROOT_RATIO = 300.0  # of the diagonal of a root, the square root of a ratio of pivots
_SINGLE = 2.0**-24  # the unit roundoff of single precision
_LARGEST_LOSS = 0.02  # of single precision, beyond which too many contexts would be left undecided
_LEAST_SQUARE, _LARGEST_SQUARE = np.float32(1e-20), np.float32(1e20)  # norms for which no product leaves its range


@kernel
def inflated_sd(t: float, dim: int, delta: float) -> float:
    """Return nu_t = (3/4) sqrt(d ln(4t/delta)), the sampling sd of Algorithm 2''."""
    return 0.75 * math.sqrt(dim * math.log(4.0 * t / delta))


@kernel
def inflated_scales(t: int, dim: int, delta: float, noise_sd: float, scale: FloatArray) -> None:
    """Write nu_t / noise_sd for the decisions from ``t`` on."""
    for i in range(scale.shape[0]):
        scale[i] = inflated_sd(float(t + i), dim, delta) / noise_sd


def screen_of(n: int) -> FloatArray:
    """Return the lowest of ``n`` normals as a function of its uniform, at the edges of equal bins."""
    edges = np.arange(_BINS + 1) / _BINS
    edges[-1] = np.nextafter(1.0, 0.0)
    screen = np.empty(_BINS + 1)
    for i in range(_BINS + 1):
        lowest_normals_into(screen[i : i + 1], n, edges[i : i + 1])
    return screen


@kernel
def refresh(
    gram: FloatArray,
    prior: FloatArray,
    root: FloatArray,
    mean: FloatArray,
    stale: IntArray,
    eligible: IntArray,
) -> None:
    """Solve again the eligible arms that have had rewards since they were last solved."""
    for i in range(eligible.shape[0]):
        arm = eligible[i]
        if stale[arm]:
            solve_posterior(gram[arm], prior, root[arm], mean[arm])
            stale[arm] = 0


@kernel
def predict(root: FloatArray, mean: FloatArray, context: FloatArray) -> tuple[float, float]:
    """Return s'theta and sqrt(s'V^-1 s) of one arm."""
    centre = 0.0
    square = 0.0
    for i in range(context.shape[0]):
        centre += mean[i] * context[i]
        part = 0.0
        for j in range(i + 1):
            part += root[i, j] * context[j]
        square += part * part
    return centre, math.sqrt(square)


@kernel
def _clipped(value: float, clip: bool) -> float:
    return min(max(value, 0.0), 1.0) if clip else value


@kernel
def best_score(
    means: FloatArray,
    sds: FloatArray,
    n: int,
    weights: FloatArray,
    clip: bool,
    screen: FloatArray,
    uniforms: FloatArray,
    start: int,
    after: int,
    draws: FloatArray,
) -> tuple[int, float, int]:
    """Draw a score for each of k arms; return the place of the highest, the score, and the next unused uniform.

    A score weighs the M lowest of ``n`` draws from Normal(means[i], sds[i]^2), clipped to [0, 1] if ``clip``. Scores
    use up k M uniforms from ``start`` on; ties are broken uniformly by those from ``after`` on. ``draws`` [M] is
    scratch.
    """
    lowest = weights.shape[0]
    arms = means.shape[0]
    bins = screen.shape[0] - 1
    hurdle = -math.inf
    if lowest == 1:
        # One uniform decides a score, and its bin bounds it: an arm whose upper bound is below the lower
        # bound of another cannot win, and its quantile need not be computed. The result is the same.
        for i in range(arms):
            hurdle = max(hurdle, means[i] + sds[i] * screen[int(uniforms[start + i] * bins)])
        hurdle = _clipped(hurdle, clip)
    best = -1
    highest = -math.inf
    ties = 0
    spare = after
    for i in range(arms):
        first = start + i * lowest
        if lowest == 1:
            limit = means[i] + sds[i] * screen[int(uniforms[first] * bins) + 1]
            if _clipped(limit, clip) < hurdle:
                continue
        lowest_normals_into(draws, n, uniforms[first : first + lowest])
        score = 0.0
        for j in range(lowest):
            if weights[j] > 0.0:
                score += weights[j] * _clipped(means[i] + sds[i] * draws[j], clip)
        if score > highest or best < 0:
            best, highest, ties = i, score, 1
            after = spare  # what decided between lower scores decided nothing
        elif score == highest:
            ties += 1
            if uniforms[after] * ties < 1.0:
                best = i
            after += 1
    return best, highest, after


@kernel
def usable(values: FloatArray) -> bool:
    """Return whether numbers [T] are finite and small enough to square."""
    faults = 0
    for i in range(values.shape[0]):  # to the end: a loop without an exit becomes vector code
        faults += not abs(values[i]) <= LARGEST  # NaN is not
    return faults == 0


@kernel
def select_one(
    gram: FloatArray,
    prior: FloatArray,
    root: FloatArray,
    mean: FloatArray,
    stale: IntArray,
    context: FloatArray,
    eligible: IntArray,
    noise_sd: float,
    scale: float,
    n: int,
    weights: FloatArray,
    clip: bool,
    screen: FloatArray,
    uniforms: FloatArray,
    start: int,
    moments: FloatArray,
) -> tuple[int, float, int]:
    """Decide in one context [D]; write posterior means and sds of the eligible arms to ``moments`` [2,k].

    Returns as :func:`best_score` does, or the place -1 if the context is not D finite numbers.
    """
    if context.shape[0] != mean.shape[1] or not usable(context):
        return -1, 0.0, start
    refresh(gram, prior, root, mean, stale, eligible)
    arms = eligible.shape[0]
    sds = np.empty(arms)
    for i in range(arms):
        arm = eligible[i]
        moments[0, i], spread = predict(root[arm], mean[arm], context)
        moments[1, i] = noise_sd * spread
        sds[i] = scale * moments[1, i]
    after = start + arms * weights.shape[0]
    draws = np.empty(weights.shape[0])
    return best_score(moments[0], sds, n, weights, clip, screen, uniforms, start, after, draws)


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
def update_one(
    gram: FloatArray, stale: IntArray, pulls: IntArray, context: FloatArray, arm: int, reward: float
) -> bool:
    """Add a reward; return False and do nothing if the context is not D finite numbers or the reward not finite."""
    if context.shape[0] != gram.shape[2] - 1 or not abs(reward) <= LARGEST or not usable(context):
        return False
    add_observation(gram[arm], context, reward)
    stale[arm] = 1
    pulls[arm] += 1
    return True


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
