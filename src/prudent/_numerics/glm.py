"""Posteriors of generalised linear models: Bernoulli rewards with a logit link, Poisson counts with a log link.

A context s has the score eta = s'theta. The mean reward is mu(eta) = 1 / (1 + exp(-eta)) for Bernoulli rewards and
exp(eta) for counts. The prior of theta is Normal(0, P^-1). A reward is approximated by a normal observation of eta with
a precision w, so it enters the sums of ``prudent._numerics.least_squares``: V gains w s s', and b gains w s times the
observed score.

- Batch: the Laplace posterior Normal(mode, H^-1). Newton's method maximises the log density of all data, which is
  concave. To second order at the mode, a reward is an observation of precision w = mu'(eta).
- Online, in O(D^2). Before the reward theta ~ Normal(m, V^-1), so eta has the mean f = s'm and the variance
  q = s'V^-1 s; its prior variance is q0 = s'P^-1 s. The earlier data added the precision k = 1/q - 1/q0 to eta. The
  update treats that precision as k / mu'(f) earlier rewards in this same context whose mode is f, and adds the new
  reward to them. The new mode f + d solves d/q0 + k (mu(f + d) - mu(f)) / mu'(f) = y - mu(f + d), and the new precision
  is 1/q0 + k mu'(f + d) / mu'(f) + mu'(f + d). The mean moves by d/q V^-1 s, and w is the change of the precision. It
  is negative where mu' falls faster than data arrives. With one constant context the update is exact.
  An extended Kalman filter keeps the weights of earlier rewards. For rare events that is wrong: most rewards are 0, and
  each moves eta down to where a 0 carries less information, so the filter becomes overconfident before it converges.

V^-1 = root' root with a lower triangular root. When V gains w s s' and p = root s, the new root is M^-1 root, where
M M' is the Cholesky factorisation of I + w p p' (Carlson, AIAA Journal 11, 1973). With w > 0 nothing cancels. With
w < 0 the update loses as many digits as the precision does, and the precision never falls below the prior's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .._support.checks import FloatArray
from .._support.progress import Progress
from ..errors import PosteriorError
from .compile import kernel, lean
from .least_squares import add_row, lower_products
from .triangles import row_of

ODDS, COUNTS = 0, 1  # the links: logit for Bernoulli rewards, log for counts
_FAR = 750.0  # exp underflows or overflows beyond this score
_LARGEST = 1e150  # largest sum whose square does not overflow
_LEAST_LEFT = 1e-10  # least fraction of the precision of a score that one reward must leave
_ENTRIES = 163_840  # numbers of contexts in one block of the batch fit
_SAMPLES = (16, 4)  # every 16th reward, then every fourth: where the mode is looked for first
_LEAST_SAMPLE = 1000  # rewards of such a sample
_MOST_STEPS = 300  # cap of Newton steps
_LEAST_SHARE = 1e-30  # smallest fraction of a Newton step that the line search tries
_GRADIENT = 1e-12  # Newton's method ends at gradients of this size, relative to the terms that they sum
_STEP = 0.25  # of the trapezoid rules
_NORMAL_NODES = _STEP * np.arange(-38, 39, dtype=np.float64)
_NORMAL_WEIGHTS = np.exp(-0.5 * _NORMAL_NODES * _NORMAL_NODES) * _STEP / math.sqrt(2.0 * math.pi)
_LOGISTIC_NODES = _STEP * np.arange(-160, 161, dtype=np.float64)


# -- one reward and one score ------------------------------------------------------------------------------


@lean
def _rewards_at(link: int, reward: float, score: float) -> tuple[float, float, float]:
    """Return the residual y - mu, without cancellation for rewards 0 and 1, mu and its slope mu' at a score."""
    if link == COUNTS:
        rate = math.exp(score)
        return reward - rate, rate, rate
    odds = math.exp(-abs(score))
    likely = 1.0 / (1.0 + odds)
    rare, slope = odds * likely, odds * likely * likely
    mean, miss = (likely, rare) if score > 0.0 else (rare, likely)
    return miss if reward > 0.5 else -mean, mean, slope


@lean
def seen_before(link: int, centre: float, move: float) -> tuple[float, float]:
    """Return (mu(f + d) - mu(f)) / mu'(f) and its derivative in d, for f = ``centre`` and d = ``move``."""
    return _seen(link, _rewards_at(link, 0.0, centre)[1], move)


@lean
def _seen(link: int, chance: float, move: float) -> tuple[float, float]:
    """Do the same, given mu(f)."""
    if link == COUNTS:
        return math.expm1(move), math.exp(move)
    if move > 0.0:  # as below, with both fractions divided by exp(move): it may overflow
        shrunk, less = math.exp(-move), math.expm1(-move)
        base = shrunk - chance * less
        return -less / base, shrunk / base / base
    more = math.expm1(move)
    base = 1.0 + chance * more
    return more / base, math.exp(move) / base / base


@lean
def learn_score(
    link: int, centre: float, variance: float, widest: float, reward: float, share: float
) -> tuple[float, float]:
    """Return how far a reward moves the mode of a score, and by how much it changes its precision.

    ``centre`` and ``variance`` are the mean and variance of the score before the reward, ``widest`` is its prior
    variance. The reward has the weight ``share``, which is 1 unless rewards are discounted by age.
    """
    gap, chance, slope = _rewards_at(link, reward, centre)
    first = share * gap
    if first == 0.0:
        return 0.0, share * slope
    prior = 1.0 / widest
    seen = max(1.0 / variance - prior, 0.0)
    far = abs(centre) + _FAR  # mu is constant beyond
    if first > 0.0:
        low, high = 0.0, min(widest * first, far)
    else:
        low, high = max(widest * first, -far), 0.0
    move, last = 0.0, high - low
    for _ in range(200):  # Newton's method, with bisection if it leaves the bracket or converges slowly
        shift, rise = _seen(link, chance, move) if seen > 0.0 else (0.0, 0.0)
        left, _, slope = _rewards_at(link, reward, centre + move)
        gap = move * prior + seen * shift - share * left
        if gap == 0.0:
            break
        if gap > 0.0:
            high = move
        else:
            low = move
        following = move - gap / (prior + seen * rise + share * slope)
        if not (low <= following <= high and abs(following - move) <= 0.5 * last):
            following = 0.5 * (low + high)
        last = abs(following - move)
        move = following
        if last <= 2e-16 * max(1.0, abs(move)):
            break
    precision = prior + share * _rewards_at(link, reward, centre + move)[2]
    if seen > 0.0:
        precision += seen * _seen(link, chance, move)[1]
    return move, precision - 1.0 / variance


# -- online ------------------------------------------------------------------------------------------------


@lean
def absorb(root: FloatArray, mean: FloatArray, weight: float, pull: float, scratch: FloatArray) -> None:
    """Add ``weight`` s s' to V, given by its ``root``, and ``pull`` V^-1 s with the old V to the mean.

    ``scratch`` [2,D] holds root s in its first row. Rows of the root go by twos: what they share is read once.
    """
    turned, carried = scratch[0], scratch[1]
    carried[:] = 0.0
    total, dim = 1.0, mean.shape[0]
    for i in range(0, dim - 1, 2):
        part, other = turned[i], turned[i + 1]
        before = math.sqrt(total)
        total += weight * part * part
        after = math.sqrt(total)
        keep, take, move = before / after, weight * part / (before * after), pull * part
        total += weight * other * other
        last = math.sqrt(total)
        keep_other, take_other, move_other = after / last, weight * other / (after * last), pull * other
        row, below = row_of(root, i, dim), row_of(root, i + 1, dim)
        for j in range(i + 1):
            entry, entry_below, sum_so_far = row[j], below[j], carried[j]
            mean[j] = (mean[j] + move * entry) + move_other * entry_below
            row[j] = keep * entry - take * sum_so_far
            sum_so_far += part * entry
            below[j] = keep_other * entry_below - take_other * sum_so_far
            carried[j] = sum_so_far + other * entry_below
        entry = below[i + 1]
        mean[i + 1] += move_other * entry
        below[i + 1] = keep_other * entry - take_other * carried[i + 1]
        carried[i + 1] += other * entry
    if dim % 2 == 1:
        part, row = turned[dim - 1], row_of(root, dim - 1, dim)
        before = math.sqrt(total)
        total += weight * part * part
        after = math.sqrt(total)
        keep, take, move = before / after, weight * part / (before * after), pull * part
        for j in range(dim):
            entry = row[j]
            mean[j] += move * entry
            row[j] = keep * entry - take * carried[j]


@lean
def _add_outer(total: Any, rest: Any, weight: float, target: float, context: FloatArray) -> None:
    """Add ``weight`` s s' and ``target`` s', with their rounding errors ``rest``, to the lower triangle of sums."""
    dim = context.shape[0]
    for i in range(dim + 1):
        left = weight * context[i] if i < dim else target
        add_row(row_of(total, i, dim + 1), row_of(rest, i, dim + 1), left, 1.0, context, min(i + 1, dim))


@lean
def _mirror(matrix: FloatArray) -> None:
    """Write the lower triangle of a square array in one row over the upper one."""
    size = int(math.sqrt(matrix.shape[0]) + 0.5)
    for i in range(1, size):
        for j in range(i):
            matrix[j * size + i] = matrix[i * size + j]


@lean
def learn_reward(
    link: int,
    prior_root: FloatArray,
    total: Any,
    rest: Any,
    root: FloatArray,
    mean: FloatArray,
    context: FloatArray,
    reward: float,
    share: float,
    offset: float,
    scratch: FloatArray,
) -> bool:
    """Update sums, with their rounding errors ``rest``, ``root`` and ``mean`` [D] with one reward in O(D^2), in place.

    The reward has the weight ``share``; its score is that of the context plus ``offset``. The sums hold V - P and b;
    their last diagonal entry is not used, and only their lower triangle is written. ``scratch`` is [2,D]. Returns
    False, and changes nothing, if the squares of the sums would overflow.
    """
    centre, variance, widest, largest = 0.0, 0.0, 0.0, 0.0
    lower_products(root, context, scratch[0])
    lower_products(prior_root, context, scratch[1])
    for i in range(mean.shape[0]):
        widest += scratch[1, i] * scratch[1, i]
        centre += mean[i] * context[i]
        variance += scratch[0, i] * scratch[0, i]
        largest = max(largest, abs(context[i]))
    if variance == 0.0:  # a context of zeros
        return True
    moved, weight = learn_score(link, centre + offset, variance, widest, reward, share)
    weight = max(weight, (_LEAST_LEFT - 1.0) / variance)
    pull = moved / variance
    target = weight * (centre + moved) + pull
    if not (abs(weight) * largest * largest <= _LARGEST and abs(target) * largest <= _LARGEST and variance <= _LARGEST):
        return False
    absorb(root, mean, weight, pull, scratch)
    _add_outer(total, rest, weight, target, context)
    return True


@kernel
def learn_rewards(
    link: int,
    prior_root: FloatArray,
    total: FloatArray,
    rest: FloatArray,
    root: FloatArray,
    mean: FloatArray,
    contexts: FloatArray,
    rewards: FloatArray,
) -> int:
    """Learn rewards [T] in contexts [T,D], in order; return how many were learned before one was refused."""
    scratch = np.empty((2, mean.shape[0]))
    learned = 0
    while learned < rewards.shape[0] and learn_reward(
        link, prior_root, total, rest, root, mean, contexts[learned], rewards[learned], 1.0, 0.0, scratch
    ):
        learned += 1
    _mirror(total)
    _mirror(rest)
    return learned


# -- batch -------------------------------------------------------------------------------------------------


def laplace_sums(
    link: int,
    prior: FloatArray,
    centre: FloatArray,
    contexts: FloatArray,
    rewards: FloatArray,
    weights: FloatArray,
    start: FloatArray,
) -> FloatArray:
    """Return the sums [2,D+1,D+1] of the Laplace approximation at the mode of all data.

    The prior has the precision ``prior`` [D,D] and the mean ``centre`` [D]. The data are ``contexts`` [T,D] and
    ``rewards`` [T] with ``weights`` [T]; ``start`` [D] is a first guess of the mode.
    """
    density = _Density(link, prior, centre, contexts, rewards, weights)
    progress = Progress(f"fitting {len(rewards):,} rewards")
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            point = density.found(density.first(start), progress)
    finally:
        progress.close()
    gram = np.zeros((2, len(start) + 1, len(start) + 1))
    gram[0, :-1, :-1] = point.bend
    # the mean is one Newton step further
    gram[0, -1, :-1] = gram[0, :-1, -1] = prior @ (point.mode - centre) + point.bend @ point.mode - point.slope
    return gram


class _Point(NamedTuple):
    """A theta, minus the log density there, and its derivatives."""

    mode: FloatArray  # [D]
    value: float
    slope: FloatArray  # [D]
    terms: float  # sum of what contexts are multiplied by in ``slope``, and of 1e-3 of what was rounded in it
    bend: FloatArray  # [D,D], the Hessian less P


class _Density:
    """The log density of theta given rewards; see ``laplace_sums``."""

    def __init__(
        self,
        link: int,
        prior: FloatArray,
        centre: FloatArray,
        contexts: FloatArray,
        rewards: FloatArray,
        weights: FloatArray,
    ) -> None:
        self._link, self._prior, self._centre = link, prior, centre
        self._contexts, self._rewards, self._weights = contexts, rewards, weights
        self._largest = max(contexts.max(initial=0.0), -contexts.min(initial=0.0))

    def _blocks(self, mode: FloatArray) -> Iterator[tuple[FloatArray, FloatArray, tuple[FloatArray, ...]]]:
        """Yield contexts, weights and ``_expansion`` of blocks that stay in the cache."""
        rows = max(1, _ENTRIES // len(mode))
        for first in range(0, len(self._rewards), rows):
            part = slice(first, first + rows)
            points = self._contexts[part]
            yield points, self._weights[part], _expansion(self._link, points @ mode, self._rewards[part])

    def at(self, mode: FloatArray) -> _Point:
        """Return the value and its derivatives at a theta."""
        gap = mode - self._centre
        slope, bend, terms = self._prior @ gap, np.zeros_like(self._prior), 0.0
        value = 0.5 * float(gap @ slope)
        for points, weights, (loss, surplus, curve, rounded) in self._blocks(mode):
            value += float(weights @ loss)
            terms += float(weights @ (np.abs(surplus) + 1e-3 * rounded))
            slope -= points.T @ (weights * surplus)
            scaled = np.sqrt(weights * curve)[:, np.newaxis] * points
            bend += scaled.T @ scaled
        return _Point(mode, value, slope, terms, 0.5 * (bend + bend.T))

    def _value(self, mode: FloatArray) -> float:
        """Return minus the log density at a theta."""
        gap = mode - self._centre
        return 0.5 * float(gap @ self._prior @ gap) + sum(float(w @ parts[0]) for _, w, parts in self._blocks(mode))

    def _is_mode(self, point: _Point) -> bool:
        """Return whether the gradient is 1e-12 of the terms that it sums; rounding is 1e-15 of them."""
        sizes, slope = np.abs(self._prior) @ np.abs(point.mode - self._centre), np.abs(point.slope)
        if not (slope <= _GRADIENT * (sizes + self._largest * point.terms)).all():
            return False
        for points, weights, (_, surplus, _, rounded) in self._blocks(point.mode):
            sizes += np.abs(points).T @ (weights * (np.abs(surplus) + 1e-3 * rounded))
        return bool((slope <= _GRADIENT * sizes).all())

    def first(self, start: FloatArray) -> _Point:
        """Return where to look for the mode first: ``start``, the mode of a sample, or that of the prior."""
        size = len(self._rewards)
        steps = [step for step in _SAMPLES if size >= step * _LEAST_SAMPLE * (1.0 + 0.05 * len(start))]
        best = start
        for step in steps:
            arrays = (np.ascontiguousarray(array[::step]) for array in (self._contexts, self._rewards, self._weights))
            contexts, rewards, weights = arrays
            density = _Density(self._link, self._prior, self._centre, contexts, rewards, step * weights)
            # the mode of all gains about ``step`` times D here
            try:
                best = density.found(density.at(best), enough=0.1 * step * len(start)).mode
            except PosteriorError:
                best = start
                break
        if best is not start and not self._value(best) < self._value(start):
            best = start
        point = self.at(best)
        return point if np.isfinite(point.value) else self.at(self._centre)

    def found(self, point: _Point, progress: Progress | None = None, enough: float = 0.0) -> _Point:
        """Return the mode, by Newton's method from a point, or raise.

        If ``enough`` is not 0, a point is returned from which a step promises to gain no more than that.
        """
        from scipy import linalg

        for number in range(_MOST_STEPS):
            if progress is not None:
                progress.show(f"step {number + 1}")
            try:
                step = linalg.cho_solve(linalg.cho_factor(self._prior + point.bend), point.slope)
            except (linalg.LinAlgError, ValueError):  # not finite, or numerically singular
                break
            gain, share = float(point.slope @ step), 1.0
            if gain <= enough if enough else self._is_mode(point):
                return point
            while True:
                following = self.at(point.mode - share * step)
                # values that agree to rounding pass: the gradient decides when to stop
                if following.value <= point.value - 1e-4 * share * gain + 1e-13 * abs(point.value):
                    break
                share *= 0.5
                if share <= _LEAST_SHARE:
                    break
            point = following
        message = f"the mode of {len(self._rewards)} rewards cannot be found in double precision: scale the contexts"
        raise PosteriorError(message, code="no-mode", value=len(self._rewards), steps=number + 1)


def _expansion(link: int, score: FloatArray, reward: FloatArray) -> tuple[FloatArray, ...]:
    """Return minus the log-likelihood, y - mu, mu' at scores [T], and the sizes that set the rounding of y - mu."""
    if link == COUNTS:
        rate = np.exp(score)
        return rate - reward * score, reward - rate, rate, reward + rate * (1.0 + np.abs(score))
    size = np.abs(score)
    odds = np.exp(-size)
    likely = 1.0 / (1.0 + odds)
    rare = odds * likely
    curve = rare * likely
    right = (reward > 0.5) == (score > 0.0)  # whether what happened is what the score says
    miss = np.where(right, rare, likely)
    return np.where(right, 0.0, size) + np.log1p(odds), np.where(reward > 0.5, miss, -miss), curve, curve * size


def mean_odds(mean: Any, sd: Any) -> FloatArray:
    """Return E[1 / (1 + exp(-X))] for X ~ Normal(mean, sd^2), to about 1e-15."""
    return _odds_moments(mean, sd, False)[0]


def sd_odds(mean: Any, sd: Any) -> FloatArray:
    """Return the standard deviation of 1 / (1 + exp(-X)) for X ~ Normal(mean, sd^2)."""
    return np.sqrt(np.maximum(_odds_moments(mean, sd, True)[1], 0.0))


def _odds_moments(mean: Any, sd: Any, with_variance: bool) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of p = 1 / (1 + exp(-X)) for X ~ Normal(mean, sd^2).

    By the trapezoid rule, which converges faster than any power for these integrands: over X where sd <= 1, else over a
    standard logistic L, since E[p] = P(L <= X). As p^2 = p - p', the second moment needs E[p'] = dE[p]/dmean only.
    """
    from scipy import special

    mean, sd = np.broadcast_arrays(np.asarray(mean, dtype=np.float64), np.asarray(sd, dtype=np.float64))
    centre, variance = np.empty(mean.shape), np.empty(mean.shape)
    narrow, wide = sd <= 1.0, ~(sd <= 1.0)
    chances = special.expit(mean[narrow][:, np.newaxis] + sd[narrow][:, np.newaxis] * _NORMAL_NODES)
    centre[narrow] = chances @ _NORMAL_WEIGHTS
    mass = special.expit(_LOGISTIC_NODES) * special.expit(-_LOGISTIC_NODES) * _STEP
    apart = (mean[wide][:, np.newaxis] - _LOGISTIC_NODES) / sd[wide][:, np.newaxis]
    centre[wide] = special.ndtr(apart) @ mass
    if with_variance:
        variance[narrow] = (chances - centre[narrow][:, np.newaxis]) ** 2 @ _NORMAL_WEIGHTS
        slope = (np.exp(-0.5 * apart * apart) @ mass) / (sd[wide] * math.sqrt(2.0 * math.pi))
        variance[wide] = centre[wide] * (1.0 - centre[wide]) - slope
    return centre, variance
