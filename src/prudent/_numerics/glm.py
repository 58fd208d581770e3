"""Kernels for clicks and counts: rewards 0 or 1 with the chance 1 / (1 + exp(-eta)), counts with the rate exp(eta).

eta = s'theta is the score of a context s, mu(eta) the mean of the reward, the prior of theta Normal(0, P^-1). What a
reward says of eta is put as a normal observation of eta with some precision w, so it enters the sums of least squares
(``least_squares``): V gains w s s', and b gains w times what was observed, times s.

- Exactly: the Laplace posterior Normal(mode, H^-1), by Newton's method for the mode of all data, a convex problem. At
  the mode the log-likelihood of a reward is, to second order, that of an observation with w = mu'(eta).
- Online, in O(D^2): let theta ~ Normal(m, V^-1) before the reward, f = s'm and q = s'V^-1 s the moments of eta, and
  q0 = s'P^-1 s its variance before all data. What data has said of eta so far, the precision k = 1/q - 1/q0, is taken
  to come from rewards in contexts like this one: k / mu'(f) of them, whose mean put the mode at f. The reward is one
  more of them. The new mode is f + d with d/q0 + k (mu(f + d) - mu(f)) / mu'(f) = y - mu(f + d), the precision there
  1/q0 + k mu'(f + d) / mu'(f) + mu'(f + d). So the mean moves by d/q V^-1 s, and w is what the precision gains, or
  loses: where mu' is smaller than it was, so is what the same rewards say. With one constant context this is exact.
  Why not leave the weights of earlier rewards alone, as a Kalman filter does: rewards of rare events are mostly 0, and
  each of them moves eta down to where 0 says less. A filter narrows as it moves, stops half way and is sure of it.

V^-1 = root' root with a lower triangle. When V gains w s s' and p = root s, the new triangle is M^-1 root, where M M'
is the Cholesky factorization of I + w p p' (Carlson, AIAA Journal 11, 1973). With w > 0 nothing cancels. With w < 0 the
digits are lost that the precision loses, and it never falls below the prior's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._support.checks import FloatArray
from .._support.progress import Progress
from ..errors import PosteriorError
from .compensated import two_sum
from .compile import kernel

__all__ = [
    "COUNTS",
    "ODDS",
    "absorb",
    "laplace_sums",
    "learn_reward",
    "learn_rewards",
    "learn_score",
    "mean_odds",
    "sd_odds",
    "seen_before",
]


ODDS, COUNTS = 0, 1  # the links: log odds of a reward of 1, log rate of a count
_FAR = 750.0  # beyond it exp is 0 or infinite
_LARGEST = 1e150  # a sum whose square is a number
_LEAST_LEFT = 1e-10  # of the precision of a score after one reward
_ROWS = 16384  # contexts of a log worked on at a time
_MOST_STEPS = 300
_LEAST_SHARE = 1e-30  # of a Newton step
_GRADIENT = 1e-12  # of the sizes that add up to it: where Newton's method ends


# -- one reward and one score ------------------------------------------------------------------------------


@kernel
def reward_at(link: int, score: float) -> tuple[float, float]:
    """Return the mean reward mu and its slope mu' at a score."""
    if link == COUNTS:
        rate = math.exp(score)
        return rate, rate
    odds = math.exp(-abs(score))
    share = 1.0 / (1.0 + odds)
    return (share if score >= 0.0 else odds * share), odds * share * share


@kernel
def _surplus(link: int, reward: float, score: float) -> float:
    """Return y - mu(eta); of rewards 0 and 1 without cancellation."""
    if link == COUNTS:
        return reward - math.exp(score)
    return reward_at(link, -score)[0] if reward > 0.5 else -reward_at(link, score)[0]


@kernel
def seen_before(link: int, centre: float, move: float) -> tuple[float, float]:
    """Return (mu(f + d) - mu(f)) / mu'(f) and its slope in d, for f = ``centre`` and d = ``move``."""
    if link == COUNTS:
        return math.expm1(move), math.exp(move)
    chance = reward_at(link, centre)[0]
    if move > 0.0:  # the same as below, without large numbers
        shrunk = math.exp(-move)
        base = shrunk - chance * math.expm1(-move)
        return -math.expm1(-move) / base, shrunk / base / base
    base = 1.0 + chance * math.expm1(move)
    return math.expm1(move) / base, math.exp(move) / base / base


@kernel
def learn_score(
    link: int, centre: float, variance: float, widest: float, reward: float, share: float
) -> tuple[float, float]:
    """Return how far a reward moves the mode of a score, and the precision that it adds to it (or takes from it).

    ``centre`` and ``variance`` are those of the score before, ``widest`` is its variance before all data. The reward
    counts ``share`` times, 1 unless it is old.
    """
    first = share * _surplus(link, reward, centre)
    if first == 0.0:
        return 0.0, share * reward_at(link, centre)[1]
    prior = 1.0 / widest
    seen = max(1.0 / variance - prior, 0.0)
    far = abs(centre) + _FAR  # there mu is constant
    if first > 0.0:
        low, high = 0.0, min(widest * first, far)
    else:
        low, high = max(widest * first, -far), 0.0
    move, last = 0.0, high - low
    for _ in range(200):  # Newton's method, and bisection where it leaves the bracket or creeps along the exponential
        told, slope = seen_before(link, centre, move) if seen > 0.0 else (0.0, 0.0)
        gap = move * prior + seen * told - share * _surplus(link, reward, centre + move)
        if gap == 0.0:
            break
        if gap > 0.0:
            high = move
        else:
            low = move
        following = move - gap / (prior + seen * slope + share * reward_at(link, centre + move)[1])
        if not (low <= following <= high and abs(following - move) <= 0.5 * last):
            following = 0.5 * (low + high)
        last = abs(following - move)
        move = following
        if last <= 2e-16 * max(1.0, abs(move)):
            break
    precision = prior + share * reward_at(link, centre + move)[1]
    if seen > 0.0:
        precision += seen * seen_before(link, centre, move)[1]
    return move, precision - 1.0 / variance


# -- online ------------------------------------------------------------------------------------------------


@kernel
def absorb(root: FloatArray, mean: FloatArray, weight: float, pull: float, scratch: FloatArray) -> None:
    """Add ``weight`` s s' to V and ``pull`` V^-1 s, of V before, to the mean; scratch[0] must be root s.

    ``scratch`` [2,D]. V is given, and returned, by its ``root`` [D,D].
    """
    turned, carried = scratch[0], scratch[1]
    carried[:] = 0.0
    total = 1.0
    for i in range(mean.shape[0]):
        part = turned[i]
        before = math.sqrt(total)
        total += weight * part * part
        after = math.sqrt(total)
        keep, take = before / after, weight * part / (before * after)
        for j in range(i + 1):
            entry = root[i, j]
            mean[j] += pull * part * entry
            root[i, j] = keep * entry - take * carried[j]
            carried[j] += part * entry


@kernel
def _add(gram: FloatArray, i: int, j: int, term: float) -> None:
    """Add a term to both places of a symmetric entry, and what rounding took from it."""
    total, lost = two_sum(gram[0, i, j], term)
    rest = gram[1, i, j] + lost
    gram[0, i, j] = total
    gram[1, i, j] = rest
    gram[0, j, i] = total
    gram[1, j, i] = rest


@kernel
def learn_reward(
    link: int,
    prior_root: FloatArray,
    gram: FloatArray,
    root: FloatArray,
    mean: FloatArray,
    context: FloatArray,
    reward: float,
    share: float,
    scratch: FloatArray,
) -> bool:
    """Learn one reward: update ``gram`` [2,D+1,D+1], ``root`` [D,D] and ``mean`` [D], in O(D^2) and in place.

    It counts ``share`` times. The sums hold V - P and b; their last corner is not used. ``scratch`` is [2,D]. Returns
    False, and does nothing, if the sums would become too large to square.
    """
    dim = mean.shape[0]
    centre, variance, widest, largest = 0.0, 0.0, 0.0, 0.0
    for i in range(dim):
        part, before = 0.0, 0.0
        for j in range(i + 1):
            part += root[i, j] * context[j]
            before += prior_root[i, j] * context[j]
        scratch[0, i] = part
        widest += before * before
        centre += mean[i] * context[i]
        variance += part * part
        largest = max(largest, abs(context[i]))
    if variance == 0.0:  # a context of zeros
        return True
    moved, weight = learn_score(link, centre, variance, widest, reward, share)
    weight = max(weight, (_LEAST_LEFT - 1.0) / variance)
    pull = moved / variance
    target = weight * (centre + moved) + pull
    if not (abs(weight) * largest * largest <= _LARGEST and abs(target) * largest <= _LARGEST and variance <= _LARGEST):
        return False
    absorb(root, mean, weight, pull, scratch)
    for i in range(dim):
        for j in range(i + 1):
            _add(gram, i, j, weight * context[i] * context[j])
        _add(gram, dim, i, target * context[i])
    return True


@kernel
def learn_rewards(
    link: int,
    prior_root: FloatArray,
    gram: FloatArray,
    root: FloatArray,
    mean: FloatArray,
    contexts: FloatArray,
    rewards: FloatArray,
) -> int:
    """Learn rewards [T] in contexts [T,D], in order; return how many were learned before one that cannot be."""
    scratch = np.empty((2, mean.shape[0]))
    for t in range(rewards.shape[0]):
        if not learn_reward(link, prior_root, gram, root, mean, contexts[t], rewards[t], 1.0, scratch):
            return t
    return rewards.shape[0]


# -- exactly -----------------------------------------------------------------------------------------------


def laplace_sums(
    link: int,
    prior: FloatArray,
    centre: FloatArray,
    contexts: FloatArray,
    rewards: FloatArray,
    weights: FloatArray,
    start: FloatArray,
) -> FloatArray:
    """Return the sums [2,D+1,D+1] of the expansion around the exact mode of all data.

    The prior has the precision ``prior`` [D,D] and the mean ``centre`` [D]. ``contexts`` [T,D], ``rewards`` [T], each
    counted ``weights`` [T] times; ``start`` [D] is a first guess of the mode.
    """
    from scipy import linalg

    def problem(mode: FloatArray) -> tuple[float, FloatArray, FloatArray, FloatArray]:
        """Return minus the log density, its slope, the sizes that add up to the slope, and its Hessian less P."""
        gap = mode - centre
        pull = prior @ gap
        value, slope, sizes = 0.5 * float(gap @ pull), pull.copy(), np.abs(prior) @ np.abs(gap)
        bend = np.zeros_like(prior)
        for first in range(0, len(rewards), _ROWS):
            part = slice(first, first + _ROWS)
            points, seen, counted = contexts[part], rewards[part], weights[part]
            score = points @ mode
            loss, surplus, curve, rounded = _expansion(link, score, seen)
            value += float(counted @ loss)
            slope -= points.T @ (counted * surplus)
            # a thousandth of what is rounded: 1e-15 of it cannot be told from zero
            sizes += np.abs(points).T @ (counted * (np.abs(surplus) + 1e-3 * rounded))
            bend += points.T @ ((counted * curve)[:, np.newaxis] * points)
        return value, slope, sizes, 0.5 * (bend + bend.T)

    progress = Progress(f"fitting {len(rewards):,} rewards")
    with np.errstate(over="ignore", invalid="ignore"):
        mode, found = start, problem(start)
        if not np.isfinite(found[0]):
            mode, found = centre, problem(centre)
        for number in range(_MOST_STEPS):
            value, slope, sizes, bend = found
            progress.show(f"step {number + 1}")
            try:
                step = linalg.cho_solve(linalg.cho_factor(prior + bend), slope)
            except (linalg.LinAlgError, ValueError):  # infinite, or singular in rounding
                break
            if (np.abs(slope) <= _GRADIENT * sizes).all():
                progress.close()
                gram = np.zeros((2, len(mode) + 1, len(mode) + 1))
                gram[0, :-1, :-1] = bend
                target = prior @ (mode - centre) + bend @ mode - slope  # so that the mean is a step further
                gram[0, -1, :-1] = gram[0, :-1, -1] = target
                return gram
            gain, share = float(slope @ step), 1.0
            while share > _LEAST_SHARE:
                found = problem(mode - share * step)
                # a tie in rounding is no reason to stop: the slope decides
                if found[0] <= value - 1e-4 * share * gain + 1e-13 * abs(value):
                    break
                share *= 0.5
            mode = mode - share * step
    progress.close()
    raise PosteriorError(f"the mode of {len(rewards)} rewards cannot be found in double precision: scale the contexts")


def _expansion(link: int, score: FloatArray, reward: FloatArray) -> tuple[FloatArray, ...]:
    """Return minus the log-likelihood, y - mu, mu' at scores [T], and the sizes whose rounding y - mu shows."""
    from scipy import special

    if link == COUNTS:
        rate = np.exp(score)
        return rate - reward * score, reward - rate, rate, reward + rate * (1.0 + np.abs(score))
    sign = np.where(reward > 0.5, 1.0, -1.0)
    miss = special.expit(-sign * score)
    curve = miss * special.expit(sign * score)
    return np.logaddexp(0.0, -sign * score), sign * miss, curve, curve * np.abs(score)


def mean_odds(mean: Any, sd: Any) -> FloatArray:
    """Return E[1 / (1 + exp(-X))] for X ~ Normal(mean, sd^2), to about 1e-15.

    A trapezoid rule, which converges faster than any power for integrands like these: over the normal X if it is the
    narrower one, else over a standard logistic L, since the mean is P(L <= X).
    """
    from scipy import special

    mean, sd = np.broadcast_arrays(np.asarray(mean, dtype=np.float64), np.asarray(sd, dtype=np.float64))
    result = np.empty(mean.shape)
    narrow = sd <= 1.0
    z, density = _normal_rule()
    result[narrow] = special.expit(mean[narrow][:, np.newaxis] + sd[narrow][:, np.newaxis] * z) @ density
    u, mass = _logistic_rule()
    wide = ~narrow
    result[wide] = special.ndtr((mean[wide][:, np.newaxis] - u) / sd[wide][:, np.newaxis]) @ mass
    return result


def sd_odds(mean: Any, sd: Any) -> FloatArray:
    """Return the sd of 1 / (1 + exp(-X)) for X ~ Normal(mean, sd^2).

    With the chance p of X, p^2 = p - p', and the mean of p' is the derivative of that of p: the same trapezoid rules.
    """
    from scipy import special

    mean, sd = np.broadcast_arrays(np.asarray(mean, dtype=np.float64), np.asarray(sd, dtype=np.float64))
    result = np.empty(mean.shape)
    narrow = sd <= 1.0
    centre = mean_odds(mean, sd)
    z, density = _normal_rule()
    chances = special.expit(mean[narrow][:, np.newaxis] + sd[narrow][:, np.newaxis] * z)
    result[narrow] = (chances - centre[narrow][:, np.newaxis]) ** 2 @ density
    u, mass = _logistic_rule()
    wide = ~narrow
    apart = (mean[wide][:, np.newaxis] - u) / sd[wide][:, np.newaxis]
    slope = (np.exp(-0.5 * apart * apart) @ mass) / (sd[wide] * math.sqrt(2.0 * math.pi))
    result[wide] = centre[wide] * (1.0 - centre[wide]) - slope
    return np.sqrt(np.maximum(result, 0.0))


_STEP = 0.25


def _normal_rule() -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights for means over a standard normal."""
    z = _STEP * np.arange(-38, 39, dtype=np.float64)
    return z, np.exp(-0.5 * z * z) * _STEP / math.sqrt(2.0 * math.pi)


def _logistic_rule() -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights for means over a standard logistic law."""
    from scipy import special

    u = _STEP * np.arange(-160, 161, dtype=np.float64)
    return u, special.expit(u) * special.expit(-u) * _STEP
