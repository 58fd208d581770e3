r"""Confidence sequences: intervals for a mean that hold at every number of rows, and at all of them together.

Rows give values y_i(m) = a_i - b_i m, one for each candidate m of the unknown mean mu, with

    E[ y_i(mu) | the rows before ] = 0                     (a martingale difference: rows need not be independent)

and a bound y_i(m) >= -D. A player who bets the share lambda < 1/D of a capital of 1 on y_i(m) > 0 has, after n rows,

    prod (1 + lambda y_i(m))  >=  K(m) = exp( lambda sum y_i(m) - psi(lambda) sum y_i(m)^2 ),
    psi(lambda) = ( -log(1 - lambda D) - lambda D ) / D^2

(Fan, Grama and Liu, 2015: log(1 + x) >= x - x^2 psi for x >= -lambda D). If y_i(m) <= E is known too, the concave
logarithm is above its chord, and the product is also at least

    exp( ( (n E - sum y_i(m)) log(1 - lambda D) + (n D + sum y_i(m)) log(1 + lambda E) ) / (D + E) ),

which is the product itself for rewards that are 0 or 1. The larger of both bounds is taken for every lambda, where the
number of rows n is given. At m = mu the product is a non-negative martingale, and so is a mixture over several lambda.
By Ville's inequality such a mixture ever reaches 1/delta with probability at most delta. The product falls as m rises,
so every m below one with K(m) >= 1/delta is refuted too: **the lower limit is the largest such m below the estimate**.
The upper limit is the same for -y. With delta = (1 - confidence) / 2 on each side the interval holds for every n, also
if n depends on the data.

K depends on the rows through sums of a, b and their products alone: one pass gives an interval, in any order of rows.
If every row has a mean of its own, the interval is for the average of these means: prod (1 + lambda (mu_i - m)) <=
exp(lambda sum (mu_i - m)).

The mixture has lambda_j = 0.9 2^-j / span, j = 0, 1, ...: large bets are best for rare values, lambda =
sqrt(2 log(1/delta) / (n variance)) for a mean of many rows. If the number of rows is planned, bets too small for it are
left out and the others have equal weights; otherwise lambda_j has the weight 1 / ((j + 1)(j + 2)). For many rows the
interval is about 1.6 times as wide as the normal one.

References
----------
Fan, Grama, Liu (2015), Exponential inequalities for martingales with applications.
Howard, Ramdas, McAuliffe, Sekhon (2021), Time-uniform, nonparametric, nonasymptotic confidence sequences.
Waudby-Smith, Ramdas (2024), Estimating means of bounded random variables by betting.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..types import FloatArray

LARGEST_BET = 0.9  # share of the largest admissible bet
BETS = 48  # without a planned number of rows: down to 2^-48 of it
POINTS = 32  # of a search; each round makes the interval of the limit so many times shorter
ROUNDS = 5


class Sums(NamedTuple):
    """What n rows say about candidates m [P] of the mean: totals and squares of y(m), and bounds of a single y(m)."""

    total: FloatArray  # [P] sum of y(m), which falls as m rises
    square: FloatArray  # [P] sum of y(m)^2
    least: FloatArray  # [P] lowest possible y(m)
    most: FloatArray  # [P] highest possible y(m)
    number: FloatArray | float | None = None  # n, for the bound by chords


def bet_sizes(confidence: float, planned: int | None) -> tuple[FloatArray, FloatArray]:
    """Return bets [J] as shares of 1 / span, and the logarithms of their weights [J].

    >>> [array.round(3).tolist() for array in bet_sizes(0.95, planned=100)]
    [[0.9, 0.45], [-0.693, -0.693]]
    """
    if planned is None:
        j = np.arange(BETS)
        return np.asarray(LARGEST_BET * 0.5**j), np.asarray(-np.log((j + 1.0) * (j + 2.0)))
    smallest = math.sqrt(8.0 * math.log(2.0 / (1.0 - confidence)) / planned)  # the best one if the variance is largest
    number = 1 + max(0, math.floor(math.log2(LARGEST_BET / smallest) + 0.5)) if smallest < LARGEST_BET else 1
    return np.asarray(LARGEST_BET * 0.5 ** np.arange(number)), np.full(number, -math.log(number))


def log_capitals(found: Sums, bets: FloatArray, sign: float) -> FloatArray:
    """Return the logarithms of K [J, ...] of single bets; ``sign`` is -1 for the bets on -y."""
    least, most = (found.least, found.most) if sign > 0 else (-found.most, -found.least)
    total = sign * found.total
    x = np.minimum(np.multiply.outer(bets, np.maximum(-least, 0.0)), LARGEST_BET)  # [J, ...]
    # psi = (-log(1 - x) - x) / D^2 with x = lambda D; close to lambda^2 / 2 for small x
    large, lost = np.maximum(x, 1e-3), np.log1p(-x)
    series = 0.5 + x / 3.0 + x * (0.25 * x)
    ratio = np.where(x > 1e-3, (-lost - x) / (large * large), series)
    shape = (bets.size, *(1,) * (x.ndim - 1))
    capital = np.multiply.outer(bets, total) - ratio * (bets * bets).reshape(shape) * found.square
    if found.number is not None:
        won = np.log1p(np.multiply.outer(bets, most))
        highs = (total - found.number * least) / (most - least)  # rows at the upper end with the same total
        capital = np.maximum(capital, (found.number - highs) * lost + highs * won)
    return np.asarray(capital)


def log_capital(found: Sums, bets: FloatArray, weights: FloatArray, sign: float) -> FloatArray:
    """Return the logarithm of the mixture of K [...] at the candidates of ``found`` [...]."""
    capitals = log_capitals(found, bets, sign)
    shape = (bets.size, *(1,) * (capitals.ndim - 1))
    return np.asarray(np.logaddexp.reduce(capitals + weights.reshape(shape), axis=0))


def limits_of_sums(
    sums: Callable[[FloatArray], Sums],
    estimate: FloatArray,
    low: float,
    high: float,
    span: float,
    confidence: float,
    planned: int | None,
) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper limits [R] of many means; see ``interval_of_sums``. ``sums`` takes candidates [P, R]."""
    shares, weights = bet_sizes(confidence, planned)
    goal = math.log(2.0 / (1.0 - confidence))
    bets = shares / span

    def limit(end: float, sign: float) -> FloatArray:
        """Return the first candidate on the way from the estimate to ``end`` that is refuted."""
        distance = np.abs(end - estimate)
        steps = np.multiply.outer(np.exp2(np.linspace(-48.0, 0.0, 2 * POINTS)), distance)
        near, far, reached = np.zeros_like(distance), distance, ~(distance > 0.0)
        for _ in range(ROUNDS):
            hit = log_capital(sums(estimate - sign * steps), bets, weights, sign) >= goal
            reached |= ~hit.any(axis=0)
            if reached.all():
                break
            first = hit.argmax(axis=0)
            before = np.take_along_axis(steps, np.maximum(first - 1, 0)[np.newaxis], axis=0)[0]
            near, far = (
                np.where(first > 0, before, near),
                np.take_along_axis(steps, first[np.newaxis], axis=0)[0],
            )
            steps = np.linspace(near, far, POINTS + 1)[1:]
        return np.where(reached, end, estimate - sign * far)

    return limit(low, 1.0), limit(high, -1.0)


def interval_of_sums(
    sums: Callable[[FloatArray], Sums],
    estimate: float,
    low: float,
    high: float,
    span: float,
    confidence: float,
    planned: int | None,
) -> tuple[float, float]:
    """Return the interval for a mean between ``low`` and ``high`` from the sums of its rows.

    Parameters
    ----------
    sums : callable
        Returns the ``Sums`` at candidates m, element by element.
    estimate : float
        Where the sum of y is zero.
    low, high : float
        Range of the mean.
    span : float
        Bound on the absolute value of y at every m from `low` to `high`.
    confidence : float
        Confidence of the interval.
    planned : int, optional
        Number of rows for which the bets are chosen.

    Returns
    -------
    tuple of float
        Lower and upper limit. They lie between `low` and `high`, and the estimate is between them.
    """
    ends = limits_of_sums(sums, np.array([estimate]), low, high, span, confidence, planned)
    return float(ends[0][0]), float(ends[1][0])
