"""Many sparse features: coefficients that are independent of each other in the belief.

A context is packed: pairs (place, value) of what is not zero, [2m]. The belief about theta_a of an arm is
Normal(m, noise^2 diag(s)). After a reward r in context x the exact posterior has the gain K = s x / (1 + x'diag(s)x);
its means and variances are kept, its covariances are dropped:

    m <- m + K (r - x'm),        s_j <- s_j - (s_j x_j)^2 / (1 + x'diag(s)x)

So every marginal is that of the exact update, and a step costs as much as there are values. The score x'theta is normal
with mean x'm and variance noise^2 x'diag(s)x, which makes propensities exact for this belief. If x has one value,
nothing is dropped. The noise is learned from the standardised surprises: (r - x'm)^2 / (1 + x'diag(s)x)
has the mean noise^2.

With a learned noise and an intercept there is also a level common to all arms, with a flat prior: the first reward. It
takes part in the update and its uncertainty is not in scores, which it would shift all alike.
"""

from __future__ import annotations

import math

import numpy as np

from ..._numerics.compile import kernel
from ..._numerics.order_statistics import lowest_normals_into
from ..._support.checks import FloatArray, IntArray
from .layout import TRIES
from .step import forced_place, typical_variance, width_of

LEVEL, LEVEL_SPREAD, SURPRISE, COUNT, LOW, HIGH, FIRST = range(7)  # of a pool
POOL = 7


@kernel
def fill_moments(
    theta: FloatArray, spread: FloatArray, level: float, first: int, packed: FloatArray, rows: IntArray, out: FloatArray
) -> None:
    """Write means, and sds over the noise, of the scores of arms ``rows`` [k] into ``out`` [2+,k].

    ``theta`` and ``spread`` are [D,A]; ``first`` is 1 if place 0 of them is the constant feature.
    """
    for i in range(rows.shape[0]):
        arm = rows[i]
        mean, square = level, 0.0
        if first == 1:
            mean += theta[0, arm]
            square += spread[0, arm]
        for j in range(0, packed.shape[0], 2):
            place, value = int(packed[j]) + first, packed[j + 1]
            mean += value * theta[place, arm]
            square += value * value * spread[place, arm]
        out[0, i], out[1, i] = mean, math.sqrt(square)


@kernel
def choose(
    moments: FloatArray,
    noise: float,
    scale: float,
    n: int,
    weights: FloatArray,
    share: float,
    marks: IntArray,
    first_pulls: int,
    floor: float,
    rows: IntArray,
    uniforms: FloatArray,
) -> tuple[int, float]:
    """Return the place of the chosen arm and its score; complete ``moments`` [4,k] of the law, and count the decision.

    The first uniform is that of choices that are uniform by rule, the others are those of the scores.
    """
    k, lowest = rows.shape[0], weights.shape[0]
    known = noise > 0.0
    short = 0
    for i in range(k):
        short += marks[rows[i], TRIES] < first_pulls
    forced = forced_place(marks, first_pulls, floor, known, rows, uniforms[0])
    best, highest = -1, -math.inf
    draws = np.empty(lowest)
    for i in range(k):
        moments[1, i] = moments[1, i] * noise if known else math.inf
        moments[2, i] = scale * moments[1, i]
        moments[3, i] = 0.0
    typical = typical_variance(moments[2]) if share > 0.0 and known else 0.0
    for i in range(k):
        lacks = short > 0 and marks[rows[i], TRIES] < first_pulls
        moments[2, i] *= width_of(moments[2, i], typical, share)
        if short > 0 or not known:
            moments[2, i] = math.nan if lacks or short == 0 else 0.0
            continue
        lowest_normals_into(draws, n, uniforms[1 + i * lowest : 1 + (i + 1) * lowest])
        score = 0.0
        for j in range(lowest):
            if weights[j] > 0.0:
                score += weights[j] * (moments[0, i] + moments[2, i] * draws[j])
        if score > highest or best < 0:
            best, highest = i, score
    if forced >= 0:
        best, highest = forced, moments[0, forced]
    marks[rows[best], TRIES] += 1
    return best, highest


@kernel
def learn_packed(
    theta: FloatArray,
    spread: FloatArray,
    pool: FloatArray,
    levelled: bool,
    first: int,
    packed: FloatArray,
    arm: int,
    reward: float,
    weight: float,
    limit: float,
) -> bool:
    """Learn a reward; return False, and learn nothing, if a number would be above a limit, or a variance too small."""
    mean, square = pool[LEVEL], 0.0
    largest, place_of_largest = 0.0, -1
    for j in range(-2 * first, packed.shape[0], 2):
        place, value = (0, 1.0) if j < 0 else (int(packed[j]) + first, packed[j + 1])
        mean += value * theta[place, arm]
        part = value * value * spread[place, arm]
        square += part
        if part > largest:
            largest, place_of_largest = part, j
    own = 1.0 / weight + square
    total = own + pool[LEVEL_SPREAD]
    surprise = reward - mean
    if not (total <= limit and abs(mean) <= limit):
        return False
    if levelled and pool[FIRST] == 0.0:  # a flat prior: the reward is the level, and says nothing of theta
        pool[LOW], pool[HIGH] = min(pool[LOW], reward), max(pool[HIGH], reward)
        pool[FIRST], pool[LEVEL], pool[LEVEL_SPREAD] = 1.0, reward - (mean - pool[LEVEL]), own
        return True
    surprises, level = pool[SURPRISE] + surprise * surprise / total, pool[LEVEL] + pool[LEVEL_SPREAD] / total * surprise
    if not (surprises <= limit and abs(level) <= limit):
        return False
    rest = 1.0 / weight + pool[LEVEL_SPREAD]  # the total without its largest part: a difference would lose digits
    for j in range(-2 * first, packed.shape[0], 2):
        place, value = (0, 1.0) if j < 0 else (int(packed[j]) + first, packed[j + 1])
        if j != place_of_largest:
            rest += value * value * spread[place, arm]
    for change in (False, True):
        for j in range(-2 * first, packed.shape[0], 2):
            place, value = (0, 1.0) if j < 0 else (int(packed[j]) + first, packed[j + 1])
            old = spread[place, arm]
            left = rest if j == place_of_largest else total - value * value * old
            new, mean = old * (left / total), theta[place, arm] + old * value / total * surprise
            if change:
                spread[place, arm], theta[place, arm] = new, mean
            elif not (new * limit >= 1.0 and abs(mean) <= limit):
                return False
    pool[LOW], pool[HIGH] = min(pool[LOW], reward), max(pool[HIGH], reward)
    pool[SURPRISE], pool[LEVEL], pool[LEVEL_SPREAD] = surprises, level, pool[LEVEL_SPREAD] * (own / total)
    pool[COUNT] += 1.0
    return True
