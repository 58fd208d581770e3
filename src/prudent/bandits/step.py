"""One step of the linear bandit, decide and learn, as kernels that LinearBandit and the simulation share.

A score is drawn from uniforms in [0, 1) that were taken from a Generator in blocks (:class:`Uniforms`) and are used up
in order: M for each eligible arm, then one for each tie.

What travels together is a NamedTuple. It takes more than a microsecond from Python into a kernel, where a plain tuple
of its fields takes a tenth of that; so kernels that Python calls often take plain tuples, ``rule[:]``, and give the
fields their names first thing, ``Rule(*rule_fields)``.
"""

from __future__ import annotations

import math
import os
from typing import Any, NamedTuple, Self
from weakref import WeakSet

import numpy as np

from .._numerics.compile import inlined, kernel
from .._numerics.least_squares import add_observation, solve_posterior
from .._numerics.order_statistics import lowest_normals_into
from .._support.checks import FloatArray, IntArray
from .._support.streams import spawned

__all__ = [
    "BLOCK",
    "LARGEST",
    "Arms",
    "Rule",
    "Uniforms",
    "arms_of",
    "best_score",
    "clipped",
    "decide",
    "decide_one",
    "inflated_sd",
    "learn",
    "predict",
    "refill",
    "refresh",
    "rule_of",
    "scale_at",
    "usable",
]


LARGEST = 1e150  # the square of a context or a reward must not overflow
BLOCK = 1024  # uniforms taken from the Generator at a time
_BINS = 512


class Rule(NamedTuple):
    """How scores are drawn: settings as kernels read them."""

    n: int  # draws for each score
    weights: FloatArray  # [M] of the M lowest draws
    clip: bool  # draws to [0, 1]
    scale: float  # the sd of a draw over the posterior sd, if it is fixed
    delta: float  # of the schedule nu_t that it follows otherwise; 0 if it is fixed
    screen: FloatArray  # [bins + 1] bounds on the lowest draw if M = 1
    per_arm: int  # uniforms that a decision uses up at most for each eligible arm: M, and one for a tie


class Arms(NamedTuple):
    """What is known of A arms: the sums of their data (``_numerics.least_squares``), and what is solved from them."""

    prior: FloatArray  # [D,D] the prior precision of every arm
    noise_sd: float
    gram: FloatArray  # [A,2,D+1,D+1]
    root: FloatArray  # [A,D,D] with V^-1 = root' root
    mean: FloatArray  # [A,D]
    stale: IntArray  # [A] 1 if root and mean do not know the latest rewards


def arms_of(prior: FloatArray, noise_sd: float, gram: FloatArray) -> Arms:
    """Return the arms with these sums, of which nothing is solved yet."""
    size, dim = len(gram), len(prior)
    solved = np.empty((size, dim, dim)), np.empty((size, dim))
    return Arms(prior, noise_sd, gram, *solved, np.ones(size, dtype=np.int64))


def rule_of(n: int, weights: FloatArray, clip: bool, scale: float, delta: float | None) -> Rule:
    """Return the rule; the schedule of ``delta``, if there is one, takes the place of ``scale``."""
    screen = _screen_of(n) if weights.size == 1 else np.zeros(2)
    return Rule(n, weights, clip, scale, delta or 0.0, screen, weights.size + 1)


def _screen_of(n: int) -> FloatArray:
    """Return the lowest of ``n`` normals as a function of its uniform, at the edges of equal bins."""
    edges = np.arange(_BINS + 1) / _BINS
    edges[-1] = np.nextafter(1.0, 0.0)
    screen = np.empty(_BINS + 1)
    for i in range(_BINS + 1):
        lowest_normals_into(screen[i : i + 1], n, edges[i : i + 1])
    return screen


# -- uniforms ----------------------------------------------------------------------------------------------


class Uniforms:
    """Uniforms of a Generator, taken in blocks. The stream does not depend on how it is cut into blocks.

    A forked process goes on with a stream of its own: two processes never use the same uniforms.
    """

    __slots__ = ("__weakref__", "block", "next", "rng")

    def __new__(cls, *arguments: Any) -> Self:  # noqa: D102
        stream = super().__new__(cls)  # also of copies and of what is unpickled, which have no __init__
        _STREAMS.add(stream)
        return stream

    def __init__(self, rng: np.random.Generator, unused: FloatArray) -> None:
        self.rng = rng
        self.block = unused
        self.next = 0  # the first unused one

    @property
    def unused(self) -> FloatArray:
        """Those that were taken from the Generator and not used up."""
        return self.block[self.next :]

    def reserve(self, need: int) -> None:
        """Have at least ``need`` unused ones."""
        unused = self.unused
        if unused.size >= need:
            return
        # Simulations do the same with the kernel refill. It is no use here: passing a Generator to a kernel takes
        # longer than drawing a block.
        size = max(BLOCK, need)  # whatever was needed before, so that a loaded bandit draws as many at a time
        if self.block.size != size:
            self.block = np.empty(size)
        self.block[: unused.size] = unused
        self.rng.random(out=self.block[unused.size :])
        self.next = 0

    def spawn(self, key: int) -> None:
        """Go on with the stream that this one gives to worker ``key``."""
        self.rng = spawned(self.rng, (key,), self.unused.tobytes())
        self.block, self.next = np.empty(0), 0


_STREAMS: WeakSet[Uniforms] = WeakSet()


def _part_ways() -> None:
    """Give each stream of a forked process a key that no other process has."""
    for stream in list(_STREAMS):
        stream.spawn(int.from_bytes(os.urandom(16), "little"))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_part_ways)


@kernel
def refill(rng: np.random.Generator, uniforms: FloatArray, start: int) -> None:
    """Move the uniforms from ``start`` on to the front, and draw new ones behind them."""
    left = uniforms.shape[0] - start
    uniforms[:left] = uniforms[start:]
    for i in range(left, uniforms.shape[0]):
        uniforms[i] = rng.random()


# -- decide ------------------------------------------------------------------------------------------------


@kernel
def inflated_sd(t: float, dim: int, delta: float) -> float:
    """Return nu_t = (3/4) sqrt(d ln(4t/delta)), the sampling sd of Algorithm 2''."""
    return 0.75 * math.sqrt(dim * math.log(4.0 * t / delta))


@kernel
def scale_at(scale: float, delta: float, t: int, dim: int, noise_sd: float) -> float:
    """Return the sd of a draw over the posterior sd at decision ``t`` = 1, 2, ..., see :class:`Rule`."""
    return inflated_sd(float(t), dim, delta) / noise_sd if delta > 0.0 else scale


@inlined
def _solve_stale(arms: Arms, eligible: IntArray) -> None:
    """Solve again the eligible arms that have had rewards since they were last solved."""
    gram, prior, root, mean, stale = arms.gram, arms.prior, arms.root, arms.mean, arms.stale
    for i in range(eligible.shape[0]):
        arm = eligible[i]
        if stale[arm]:
            solve_posterior(gram[arm], prior, root[arm], mean[arm])
            stale[arm] = 0


@kernel
def refresh(arms_fields: tuple[Any, ...], eligible: IntArray) -> None:
    """Solve again the eligible arms that have had rewards since they were last solved."""
    _solve_stale(Arms(*arms_fields), eligible)


@kernel
def predict(root: FloatArray, mean: FloatArray, arm: int, context: FloatArray) -> tuple[float, float]:
    """Return s'theta and sqrt(s'V^-1 s) of one arm."""
    centre = 0.0
    square = 0.0
    for i in range(context.shape[0]):
        centre += mean[arm, i] * context[i]
        part = 0.0
        for j in range(i + 1):
            part += root[arm, i, j] * context[j]
        square += part * part
    return centre, math.sqrt(square)


@kernel
def clipped(value: float, clip: bool) -> float:
    """Return ``value``, clipped to [0, 1] if ``clip``."""
    return min(max(value, 0.0), 1.0) if clip else value


@inlined
def best_score(
    rule: Rule, arms: int, moments: FloatArray, uniforms: FloatArray, start: int, after: int
) -> tuple[int, float, int]:
    """Draw a score for each of k arms; return the place of the highest, the score, and the next unused uniform.

    A score weighs the M lowest of n normal draws, with mean and sd in the first and the last row of ``moments`` [3,k].
    Scores use up k M uniforms from ``start`` on, and draws take their place in memory; ties are broken uniformly by the
    uniforms from ``after`` on.
    """
    weights, clip, screen = rule.weights, rule.clip, rule.screen
    lowest = weights.shape[0]
    bins = screen.shape[0] - 1
    hurdle = -math.inf
    if lowest == 1:
        # One uniform decides a score, and its bin bounds it: an arm whose upper bound is below the lower
        # bound of another cannot win, and its quantile need not be computed. The result is the same.
        for i in range(arms):
            hurdle = max(hurdle, moments[0, i] + moments[2, i] * screen[int(uniforms[start + i] * bins)])
        hurdle = clipped(hurdle, clip)
    best = -1
    highest = -math.inf
    ties = 0
    spare = after
    for i in range(arms):
        first = start + i * lowest
        if lowest == 1:
            limit = moments[0, i] + moments[2, i] * screen[int(uniforms[first] * bins) + 1]
            if clipped(limit, clip) < hurdle:
                continue
        draws = uniforms[first : first + lowest]
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


@kernel
def usable(values: FloatArray) -> bool:
    """Return whether numbers [T] are finite and small enough to square."""
    faults = 0
    for i in range(values.shape[0]):  # to the end: a loop without an exit becomes vector code
        faults += not abs(values[i]) <= LARGEST  # NaN is not
    return faults == 0


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
) -> tuple[int, float, int]:
    """Take decision ``t`` = 1, 2, ... between k eligible arms in a context [D].

    Writes posterior means, posterior sds and the sds of draws to ``moments`` [3,k]. Returns as :func:`best_score` does,
    or the place -1 if the context is not D finite numbers.
    """
    root, mean, noise_sd = arms.root, arms.mean, arms.noise_sd
    if context.shape[0] != mean.shape[1] or not usable(context):
        return -1, 0.0, start
    _solve_stale(arms, eligible)
    scale = scale_at(rule.scale, rule.delta, t, context.shape[0], noise_sd)
    for i in range(eligible.shape[0]):
        arm = eligible[i]
        moments[0, i], width = predict(root, mean, arm, context)
        moments[1, i] = noise_sd * width
        moments[2, i] = scale * moments[1, i]
    after = start + eligible.shape[0] * rule.weights.shape[0]
    return best_score(rule, eligible.shape[0], moments, uniforms, start, after)


@kernel
def decide_one(
    arms_fields: tuple[Any, ...],
    rule_fields: tuple[Any, ...],
    t: int,
    context: FloatArray,
    eligible: IntArray,
    uniforms: FloatArray,
    start: int,
    moments: FloatArray,
) -> tuple[int, float, int]:
    """Call :func:`decide` with the fields of its bundles."""
    return decide(Arms(*arms_fields), Rule(*rule_fields), t, context, eligible, uniforms, start, moments)


# -- learn -------------------------------------------------------------------------------------------------


@kernel
def learn(gram: FloatArray, stale: IntArray, pulls: IntArray, context: FloatArray, arm: int, reward: float) -> bool:
    """Add a reward to ``gram`` and ``stale``, see :class:`Arms`, and to ``pulls`` [A], the numbers of rewards.

    Returns False, and does nothing, if the context is not D finite numbers or the reward not finite.
    """
    if context.shape[0] != gram.shape[2] - 1 or not abs(reward) <= LARGEST or not usable(context):
        return False
    add_observation(gram[arm], context, reward)
    stale[arm] = 1
    pulls[arm] += 1
    return True
