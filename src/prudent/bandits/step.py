"""Kernels of the linear bandit: one decision, one reward. LinearBandit and the simulator share them.

Arrays: gram [A,2,D+1,D+1] and prior [D,D] are what the data says (prudent._numerics.least_squares); root [A,D,D] and
mean [A,D] are solved from them, again for the arms that ``stale`` [A] marks. Scores are drawn from uniforms in [0, 1)
that the caller has taken from its Generator, used up in order: M per eligible arm, then one per tie.
"""

from __future__ import annotations

import math

import numpy as np

from .._numerics.compile import kernel
from .._numerics.least_squares import add_observation, solve_posterior
from .._numerics.order_statistics import lowest_normals_into
from .._support.checks import FloatArray, IntArray

__all__ = [
    "best_score",
    "inflated_scales",
    "inflated_sd",
    "predict",
    "refresh",
    "screen_of",
    "select_one",
    "update_one",
    "usable",
]


LARGEST = 1e150  # the square of a context or a reward must not overflow


_BINS = 512


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
