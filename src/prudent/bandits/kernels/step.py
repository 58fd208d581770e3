"""One step of the linear bandit, decide and learn, as kernels that LinearBandit and the simulation share.

A score is drawn from uniforms in [0, 1) that were taken from a Generator in blocks (``stream.Uniforms``) and are used
up in order: one if the choice may be a uniform one (a floor, first pulls, an unknown noise), then M for each eligible
arm, then one for each tie.

**The noise**, if it is learned. Arm a has theta_a ~ Normal(c e_0, nu^2 P^-1), where e_0 is the constant feature; the
level c and the variance nu^2 are common to the arms, with the reference prior 1 / nu^2. Given c, twice the exponent of
the likelihood of all rewards is Q(c) / nu^2 with the normal-inverse-gamma quantity Q(c) = sum_a q_a(c), a quadratic:
for an arm with mean reward h and d = c - h it is q_a = q_0 - 2 d q_1 + d^2 q_2, of which q_0 is worked out by
``_numerics.least_squares``, q_1 = e_0'P (m - h e_0), q_2 = e_0'P (e_0 - t) with t = V^-1 P e_0, and m the posterior
mean of the arm for c = h. Then c is the minimum, and nu^2 = Q / (n - 1) for n rewards. The posterior mean of theta_a is
m + d t. All of it moves with the rewards: decisions depend neither on their unit nor, but for rounding, on where their
zero is. Without a constant feature c is 0, and nu^2 = Q / n.

Each arm may have a variance of its own. Then nu^2 is the scale of its prior, worth ``PRIOR_FREEDOM`` rewards: scores
are Student's t with n_a + PRIOR_FREEDOM degrees of freedom and squared scale (PRIOR_FREEDOM nu^2 + q_a) / (the same).

**Forgetting.** Evidence of weight ``gain`` times what the sums say: V = P + gain G = gain (P / gain + G). So the sums
stay, the prior that is added to them grows, and a root is divided by sqrt(gain). A new reward is added with weight
1 / gain.

The layout of the state and the handle by which kernels find it are in ``prudent.bandits.kernels.layout``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._numerics.compile import inlined, kernel, lean
from ..._numerics.least_squares import (
    LARGE,
    add_observation,
    add_to_root,
    factor_precision,
    lower_products,
    solve_posterior,
    solve_residuals,
    solve_vector,
)
from ..._numerics.order_statistics import lowest_normals_into, lowest_students_into
from ..._numerics.triangles import HalfArray, entry_of, error_of, row_of
from ..._support.checks import FloatArray, IntArray
from . import layout as col
from .layout import BY_ARM, FIXED, Arms, Rule, arms_at, rule_at, with_intercept

AnyFloats = FloatArray | np.ndarray[Any, np.dtype[np.float32]]
LARGEST = 1e60  # of contexts and rewards: sums of products of four of them do not overflow
PRIOR_FREEDOM = 4.0  # rewards that the common variance is worth in the prior of an arm's own
REFUSED, LEARNED, NOT_YET = range(3)  # what becomes of a reward
WIDE = 1e12  # square of a feature over its prior precision: beyond, posteriors are checked with every reward
LONG, LEAST_SCALE = 2000.0, 0.3  # decisions to come that are worth the full scale; the scale of the last ones
_MOST_UPDATES = 4096.0  # of a root before it is factored again
_LARGEST_EXTRA = 1e75


# -- decide ------------------------------------------------------------------------------------------------


@kernel
def inflated_sd(t: float, dim: int, delta: float) -> float:
    """Return nu_t = (3/4) sqrt(d ln(4t/delta)), the sampling sd of Algorithm 2''."""
    return 0.75 * math.sqrt(dim * math.log(4.0 * t / delta))


@kernel
def scale_at(scale: float, delta: float, t: int, dim: int, unit: float, horizon: int) -> float:
    """Return the sd of a draw over the posterior sd at decision ``t`` = 1, 2, ..., see ``Rule``."""
    if delta > 0.0:
        return inflated_sd(float(t), dim, delta) / unit
    if horizon == 0:
        return scale
    return scale * min(max(math.sqrt(max(horizon - t, 1) / LONG), LEAST_SCALE), 1.0)


@lean
def typical_variance(sds: AnyFloats) -> float:
    """Return the variance of draws where evidence lies, of which ``sds`` [k] are the roots; 0 if there is none.

    Evidence p is the inverse of a variance. That of the arm in which a piece of evidence, taken at random, lies is
    (sum p^2) / (sum p) on average.
    """
    least, total, squares = sds[0], 0.0, 0.0
    for i in range(1, sds.shape[0]):
        least = min(least, sds[i])
    if not least > 0.0:
        return 0.0
    for i in range(sds.shape[0]):
        ratio = least / sds[i]
        ratio *= ratio
        total += ratio
        squares += ratio * ratio
    return least * least * (total / squares)


@lean
def width_of(sd: float, typical: float, share: float) -> float:
    """Return by what draws of an arm are narrowed: ``share`` times its variance over the typical one.

    That is at least ``share`` and at most 1, and 1 if there is no typical variance. An arm that is known as well as
    others is chosen, and learned of, without being tried on purpose; one that is neglected has the full width, so that
    it is not locked out.
    """
    return min(max(share * (sd * sd / typical), share), 1.0) if typical > 0.0 else 1.0


@inlined
def unit_of(arms: Arms) -> float:
    """Return the unit of nu_t: it is an sd of rewards if the noise is given, and a multiple of a learned noise."""
    return arms.pool[col.NOISE] if arms.kind == FIXED else 1.0


@inlined
def noise_of(arms: Arms, arm: int) -> float:
    """Return the sd of the noise of one arm, 0 if it is not known yet."""
    return arms.parts[arm, col.OWN_NOISE] if arms.kind == BY_ARM else arms.pool[col.NOISE]


@kernel
def _root_of(arms: Arms, arm: int) -> bool:
    """Bring the root of an arm up to date, in units of the sums; return whether it took twice the precision."""
    root, parts, gain = arms.root[arm], arms.parts[arm], arms.pool[col.GAIN]
    if arms.marks[arm, col.STALE] == 2:  # it was updated with the rewards
        if gain != 1.0:
            root *= math.sqrt(gain)
        return False
    prior = arms.prior[arms.marks[arm, col.WHICH]]
    careful = factor_precision(arms.gram[arm], arms.lost[arm], prior, root, arms.mean.shape[1])
    parts[col.UPDATES] = -math.inf if careful else 0.0
    return careful


@kernel
def _solve_learning(arms: Arms, arm: int) -> None:
    """Solve one arm whose noise is learned: its root, m and t, and the coefficients of q_a."""
    gram, lost, root, parts = arms.gram[arm], arms.lost[arm], arms.root[arm], arms.parts[arm]
    which = arms.marks[arm, col.WHICH]
    prior, gain = arms.prior[which], arms.pool[col.GAIN]
    mean, tilt = arms.lines[arm, 0], arms.lines[arm, 1]
    dim = mean.shape[0]
    centred = arms.centred and which == 0
    careful = _root_of(arms, arm)
    start = arms.start[which].copy()
    parts[col.LEVEL] = 0.0
    if centred and parts[col.WEIGHT] > 0.0:
        parts[col.LEVEL] = (row_of(gram, dim, dim + 1)[0] + error_of(row_of(lost, dim, dim + 1)[0])) / parts[col.WEIGHT]
        start[0] = parts[col.LEVEL]
    parts[col.Q0] = gain * solve_residuals(gram, lost, prior, root, careful, start, mean)
    parts[col.Q1], parts[col.Q2] = 0.0, 0.0
    tilt[:] = 0.0
    if centred:
        if gain * parts[col.WEIGHT] > 1e-9:
            for i in range(dim):
                tilt[i] = entry_of(prior, i, 0, dim)
            solve_vector(gram, lost, prior, root, careful, tilt)
            left = prior[0]
            for i in range(dim):
                parts[col.Q1] += entry_of(prior, i, 0, dim) * mean[i]
                left -= entry_of(prior, i, 0, dim) * tilt[i]
            parts[col.Q1] *= gain
            parts[col.Q2] = gain * max(left, 0.0)
        else:
            tilt[0] = 1.0
    mean += start
    if gain != 1.0:
        root *= 1.0 / math.sqrt(gain)
    parts[col.FORMED] = math.nan


@lean
def free_rewards(count: float, centred: bool) -> float:
    """Return the degrees of freedom of the noise variance, given the weight of the rewards."""
    return max(count - 1.0, 0.5 * count) if centred else count


@kernel
def _learn_noise(arms: Arms) -> None:
    """Solve the arms that have had rewards, and work out the common level c and the sd of the noise."""
    parts, pool, marks = arms.parts, arms.pool, arms.marks
    top, bottom, count = 0.0, 0.0, 0.0
    for arm in range(parts.shape[0]):
        if marks[arm, col.STALE]:
            _solve_learning(arms, arm)
            marks[arm, col.STALE] = 0
        top += parts[arm, col.Q1] + parts[arm, col.LEVEL] * parts[arm, col.Q2]
        bottom += parts[arm, col.Q2]
        count += pool[col.GAIN] * parts[arm, col.WEIGHT]
    pool[col.CENTRE] = top / bottom if bottom > 0.0 else 0.0
    total = 0.0
    for arm in range(parts.shape[0]):
        total += _residuals(parts[arm], pool[col.CENTRE])
    free = free_rewards(count, arms.centred)
    known = pool[col.HIGH] > pool[col.LOW] and total > 0.0 and free > 0.0
    pool[col.NOISE] = math.sqrt(total / free) if known else 0.0
    pool[col.DIRTY] = 0.0
    if arms.kind == BY_ARM:
        for arm in range(parts.shape[0]):
            freedom = PRIOR_FREEDOM + pool[col.GAIN] * parts[arm, col.WEIGHT]
            square = PRIOR_FREEDOM * pool[col.NOISE] * pool[col.NOISE] + _residuals(parts[arm], pool[col.CENTRE])
            parts[arm, col.OWN_NOISE] = math.sqrt(square / freedom) if known else 0.0
            parts[arm, col.FREEDOM] = freedom


@lean
def _residuals(parts: FloatArray, centre: float) -> float:
    """Return q_a at c = ``centre``."""
    shift = centre - parts[col.LEVEL]
    return max(parts[col.Q0] - 2.0 * shift * parts[col.Q1] + shift * shift * parts[col.Q2], 0.0)


@inlined
def _solve_stale(arms: Arms, eligible: IntArray) -> None:
    """Solve again the eligible arms that have had rewards since they were last solved; all, if the noise is learned."""
    # fields are named before the loops: references to them are counted wherever they are taken from the bundle
    gram, lost, prior, root, mean, marks = arms.gram, arms.lost, arms.prior, arms.root, arms.mean, arms.marks
    lines, parts, pool = arms.lines, arms.parts, arms.pool
    if arms.kind == FIXED:
        plain = pool[col.GAIN] == 1.0 and mean.shape[1] < LARGE
        for i in range(eligible.shape[0]):
            arm = eligible[i]
            if marks[arm, col.STALE]:
                if plain and marks[arm, col.WHICH] == 0:
                    solve_posterior(gram[arm], lost[arm], prior[0], root[arm], mean[arm])
                else:
                    _solve_shifted(arms, arm)
                marks[arm, col.STALE] = 0
    else:
        if pool[col.DIRTY] != 0.0:
            _learn_noise(arms)
        centre = pool[col.CENTRE]
        for i in range(eligible.shape[0]):
            arm = eligible[i]
            if parts[arm, col.FORMED] != centre:
                shift = centre - parts[arm, col.LEVEL]
                for j in range(mean.shape[1]):
                    mean[arm, j] = lines[arm, 0, j] + shift * lines[arm, 1, j]
                parts[arm, col.FORMED] = centre


@kernel
def _solve_shifted(arms: Arms, arm: int) -> None:
    """Solve one arm with a prior mean, a gain, or a root that was updated."""
    root, mean, which = arms.root[arm], arms.mean[arm], arms.marks[arm, col.WHICH]
    prior, gain = arms.prior[which], arms.pool[col.GAIN]
    careful = _root_of(arms, arm)
    solve_residuals(arms.gram[arm], arms.lost[arm], prior, root, careful, arms.start[which], mean)
    mean += arms.start[which]
    if gain != 1.0:
        root *= 1.0 / math.sqrt(gain)


@kernel
def refresh(arms: Arms, eligible: IntArray) -> None:
    """Bring the eligible arms up to date, see ``_solve_stale``."""
    _solve_stale(arms, eligible)


@kernel
def _predict_large(root: FloatArray, mean: FloatArray, context: FloatArray) -> tuple[float, float]:
    """Return the same sums as ``predict``, for many features."""
    centre, square = 0.0, 0.0
    parts = np.empty(context.shape[0])
    lower_products(root, context, parts)
    for i in range(context.shape[0]):
        centre += mean[i] * context[i]
        square += parts[i] * parts[i]
    return centre, math.sqrt(square)


@lean
def predict(root: FloatArray, mean: FloatArray, arm: int, context: FloatArray) -> tuple[float, float]:
    """Return s'theta and sqrt(s'V^-1 s) of one arm."""
    centre = 0.0
    square = 0.0
    place = 0  # of the first entry of a row
    for i in range(context.shape[0]):
        centre += mean[arm, i] * context[i]
        part = 0.0
        for j in range(i + 1):
            part += root[arm, place + j] * context[j]
        square += part * part
        place += i + 1
    return centre, math.sqrt(square)


@kernel
def clipped(value: float, clip: bool) -> float:
    """Return ``value``, clipped to [0, 1] if ``clip``."""
    return min(max(value, 0.0), 1.0) if clip else value


@inlined
def best_score(
    rule: Rule,
    student: bool,
    low: int,
    high: int,
    moments: FloatArray,
    uniforms: FloatArray,
    start: int,
    after: int,
    scored: bool,
) -> tuple[int, float, int]:
    """Draw a score at the places low to high - 1; return that of the highest, the score, and the next unused uniform.

    Unless it is to be ``scored``, the score may be NaN.

    A score weighs the M lowest of n draws: normal ones, with mean and sd in the rows 0 and 2 of ``moments`` [4,k], or
    Student's t with the degrees of freedom in row 3. A score uses up M uniforms from ``start`` on, and draws take their
    place in memory; ties are broken uniformly by the uniforms from ``after`` on.
    """
    weights, clip, screen = rule.weights, rule.clip, rule.screen
    lowest = weights.shape[0]
    bins = screen.shape[0] - 1
    hurdle = -math.inf
    screened = lowest == 1 and not student
    if screened:
        # One uniform decides a score, and its bin bounds it: an arm whose upper bound is below the lower
        # bound of another cannot win, and its quantile need not be computed. The result is the same.
        for i in range(low, high):
            hurdle = max(hurdle, moments[0, i] + moments[2, i] * screen[int(uniforms[start + i - low] * bins)])
        hurdle = clipped(hurdle, clip)
        if not scored:
            left, only = 0, low
            for i in range(low, high):
                limit = moments[0, i] + moments[2, i] * screen[int(uniforms[start + i - low] * bins) + 1]
                if not clipped(limit, clip) < hurdle:
                    left, only = left + 1, i
            if left == 1:
                return only, math.nan, after
    best = -1
    highest = -math.inf
    ties = 0
    spare = after
    for i in range(low, high):
        first = start + (i - low) * lowest
        if screened:
            limit = moments[0, i] + moments[2, i] * screen[int(uniforms[first] * bins) + 1]
            if clipped(limit, clip) < hurdle:
                continue
        draws = uniforms[first : first + lowest]
        if student:
            lowest_students_into(draws, rule.n, draws, moments[3, i])
        else:
            lowest_normals_into(draws, rule.n, draws)
        score = 0.0
        for j in range(lowest):
            if weights[j] > 0.0:
                score += weights[j] * clipped(moments[0, i] + moments[2, i] * draws[j], clip)
        if score > highest or best < 0:
            best, highest, ties = i, score, 1
            after = spare  # what decided between lower scores decided nothing
        elif score == highest:
            ties += 1
            if uniforms[after] * ties < 1.0:
                best = i
            after += 1
    return best, highest, after


@lean
def usable(values: FloatArray) -> bool:
    """Return whether numbers [T] are finite and small enough to square."""
    faults = 0
    for i in range(values.shape[0]):  # to the end: a loop without an exit becomes vector code
        faults += not abs(values[i]) <= LARGEST  # NaN is not
    return faults == 0


@lean
def beyond(values: FloatArray, limit: float) -> bool:
    """Return whether one of the numbers [T] is larger than a limit, or NaN."""
    found = 0
    for i in range(values.shape[0]):  # to the end, as above
        found += not abs(values[i]) <= limit
    return found > 0


@lean
def lacking(marks: IntArray, first: int, eligible: IntArray) -> int:
    """Return how many of the eligible arms have had fewer than ``first`` decisions."""
    count = 0
    for i in range(eligible.shape[0]):
        count += marks[eligible[i], col.TRIES] < first
    return count


@lean
def forced_place(marks: IntArray, first: int, floor: float, known: bool, eligible: IntArray, uniform: float) -> int:
    """Return the place that a uniform choice takes instead of the scores, or -1 if the scores decide.

    Uniform is the choice among arms that lack first decisions, then among all as long as the noise is not known, then
    with the chance k ``floor``.
    """
    size = eligible.shape[0]
    short = lacking(marks, first, eligible) if first > 0 else 0
    if short > 0:
        left = int(uniform * short)
        for i in range(size):
            if marks[eligible[i], col.TRIES] < first:
                if left == 0:
                    return i
                left -= 1
    if not known:
        return int(uniform * size)
    if uniform < size * floor:
        return min(int(uniform / floor), size - 1)
    return -1


@inlined
def decide(
    arms: Arms,
    rule: Rule,
    t: int,
    context: FloatArray,
    eligible: IntArray,
    uniforms: FloatArray,
    start: int,
    moments: FloatArray,
    scored: bool,
) -> tuple[int, float, int]:
    """Take decision ``t`` = 1, 2, ... between k eligible arms in a context [D].

    Writes posterior means, posterior sds, the sds of draws and degrees of freedom to ``moments`` [4,k]. Where the
    choice was uniform by rule, the sd of a draw is NaN for the arms that it was between, and 0 for the others. As long
    as the noise is not known posterior sds are infinite. Returns as ``best_score`` does, or the place -1 if the
    context is not D finite numbers, or a moment would not be finite.
    """
    root, mean, marks, parts = arms.root, arms.mean, arms.marks, arms.parts
    size = eligible.shape[0]
    if context.shape[0] != mean.shape[1] or not usable(context):
        return -1, 0.0, start
    _solve_stale(arms, eligible)
    scale = scale_at(rule.scale, rule.delta, t, context.shape[0], unit_of(arms), rule.horizon)
    student = arms.kind == BY_ARM
    noise = arms.pool[col.NOISE]
    known = noise > 0.0
    large = context.shape[0] >= LARGE
    size_of_all = 0.0  # not finite if a moment is not
    for i in range(size):
        arm = eligible[i]
        if large:
            moments[0, i], width = _predict_large(root[arm], mean[arm], context)
        else:
            moments[0, i], width = predict(root, mean, arm, context)
        moments[1, i] = (parts[arm, col.OWN_NOISE] if student else noise) * width if known else math.inf
        moments[2, i] = scale * moments[1, i]
        moments[3, i] = 0.0
        if student:
            moments[3, i] = parts[arm, col.FREEDOM]
            moments[1, i] *= math.sqrt(moments[3, i] / (moments[3, i] - 2.0))
        size_of_all += abs(moments[0, i]) + moments[1, i]
    if known and not size_of_all < math.inf:
        return -1, 0.0, start
    if rule.share > 0.0 and known:
        typical = typical_variance(moments[2])
        for i in range(size):
            moments[2, i] *= width_of(moments[2, i], typical, rule.share)
    place = -1
    if rule.first > 0 or rule.floor > 0.0 or not known:
        place = forced_place(marks, rule.first, rule.floor, known, eligible, uniforms[start])
        start += 1
    forced = place >= 0
    low, high = (place, place + 1) if forced else (0, size)
    score, after = moments[0, low], start
    if known:
        after = start + (high - low) * rule.weights.shape[0]
        place, score, after = best_score(rule, student, low, high, moments, uniforms, start, after, scored)
    if forced:
        short = rule.first > 0 and lacking(marks, rule.first, eligible) > 0
        if short or not known:
            for i in range(size):
                among = not short or marks[eligible[i], col.TRIES] < rule.first
                moments[2, i] = math.nan if among else 0.0
    marks[eligible[place], col.TRIES] += 1
    return place, score, after


@kernel
def decide_one(
    handle: IntArray,
    t: int,
    context: FloatArray,
    eligible: IntArray,
    uniforms: FloatArray,
    start: int,
    moments: FloatArray,
) -> tuple[int, float, int]:
    """Call ``decide`` with the arms and the rule of a handle."""
    point = with_intercept(handle, context)
    return decide(arms_at(handle), rule_at(handle), t, point, eligible, uniforms, start, moments, True)


# -- learn -------------------------------------------------------------------------------------------------


@lean
def learn(
    gram: FloatArray,
    lost: HalfArray,
    root: FloatArray,
    parts: FloatArray,
    pool: FloatArray,
    marks: IntArray,
    extra: FloatArray,
    context: FloatArray,
    arm: int,
    reward: float,
    weight: float,
) -> bool:
    """Add a reward to fields of ``Arms``; nothing is changed if the context or the reward is not usable.

    Parameters
    ----------
    gram, lost, root, parts, pool, marks, extra : ndarray
        Fields of ``Arms``.
    context : ndarray of float, [D]
        Context, constant feature included.
    arm : int
        Row of the arm.
    reward : float
        Reward.
    weight : float
        How often it counts: 1 unless it comes late to a bandit that forgets.

    Returns
    -------
    bool
        False if the context is not D finite numbers, or the reward is not finite.
    """
    if context.shape[0] != extra.shape[2] - 2 or not abs(reward) <= LARGEST or not usable(context):
        return False
    if marks[arm, col.STALE] != 1 and context.shape[0] >= LARGE and 0.0 <= parts[arm, col.UPDATES] < _MOST_UPDATES:
        add_to_root(root[arm], context, weight)
        parts[arm, col.UPDATES] += 1.0
        marks[arm, col.STALE] = 2
    else:
        marks[arm, col.STALE] = 1
    weight /= pool[col.GAIN]
    add_observation(gram[arm], lost[arm], context, reward, weight)
    parts[arm, col.WEIGHT] += weight
    if extra.shape[0] > 0:
        _add_extra(extra[arm], pool, context, reward, weight)
    marks[arm, col.PULLS] += 1
    marks[arm, col.TRIES] = max(marks[arm, col.TRIES], marks[arm, col.PULLS])
    pool[col.LOW], pool[col.HIGH], pool[col.DIRTY] = min(pool[col.LOW], reward), max(pool[col.HIGH], reward), 1.0
    return True


@lean
def wide(prior: FloatArray, gain: float, context: FloatArray) -> bool:
    """Return whether a context [D] is so large that its square may drown the prior precision, gain times a triangle."""
    found, limit = 0, WIDE * gain
    for i in range(context.shape[0]):
        found += context[i] * context[i] > limit * entry_of(prior, i, i, context.shape[0])
    return found > 0


@kernel
def learn_one(handle: IntArray, context: FloatArray, arm: int, reward: float, weight: float) -> int:
    """Call ``learn`` with the arms of a handle; return ``REFUSED``, ``LEARNED``, or ``NOT_YET`` if it is `wide`."""
    arms = arms_at(handle)
    point = with_intercept(handle, context)
    prior = arms.prior[arms.marks[arm, col.WHICH]]
    if (
        point.shape[0] == arms.mean.shape[1]
        and abs(reward) <= LARGEST
        and usable(point)
        and wide(prior, arms.pool[col.GAIN], point)
    ):
        return NOT_YET
    sums = (arms.gram, arms.lost, arms.root, arms.parts, arms.pool, arms.marks, arms.extra)
    return LEARNED if learn(*sums, point, arm, reward, weight) else REFUSED


@lean
def _add_extra(extra: FloatArray, pool: FloatArray, context: FloatArray, reward: float, weight: float) -> None:
    """Add a reward to the sums that ``checkup`` looks at."""
    dim = context.shape[0]
    if pool[col.COUNT] == 0.0:
        pool[col.ORIGIN], pool[col.LAST] = reward, reward
    square = 0.0
    for i in range(dim):
        square += context[i] * context[i]
    for k in range(col.EXTRAS):
        z = square if k == 0 else pool[col.LAST] - pool[col.ORIGIN] if k == 1 else pool[col.COUNT]
        if abs(z) < _LARGEST_EXTRA and abs(reward) < _LARGEST_EXTRA:
            part = weight * z
            for i in range(dim):
                extra[k, i] += part * context[i]
            extra[k, dim] += part * reward
            extra[k, dim + 1] += part * z
    pool[col.LAST] = reward
    pool[col.COUNT] += 1.0
