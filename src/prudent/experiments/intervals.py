"""How conclusions of the paper are judged: measured quantities with intervals, and the verdict that they give.

Replications of different agents with the same number face the same randomness, so agents are compared by the
differences within replications: Student's t intervals for their means, at 99% for all comparisons of a claim together
(Bonferroni). A claim is reproduced if every interval lies on the side that it says, not reproduced if any lies on
the other side, and inconclusive otherwise. Claims about a point in time that a run does not reach are inconclusive.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .._support.intervals import mean_and_half_width

__all__ = [
    "CONFIDENCE",
    "INCONCLUSIVE",
    "NOT_REPRODUCED",
    "REPRODUCED",
    "Claim",
    "Interval",
    "claim",
    "differences",
    "mean_interval",
    "ratio_interval",
    "side",
    "verdict",
    "verdict_of",
]

REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE = "reproduced", "not reproduced", "inconclusive at this scale"
CONFIDENCE = 0.99
STUDENT = "paired Student t intervals of mean differences, 99% for all of them together (Bonferroni)"


@dataclass(frozen=True)
class Interval:
    """A measured quantity with its interval; no interval if it is exact."""

    quantity: str
    estimate: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Claim:
    """A conclusion of the paper: statement, where it stands, verdict, test and the numbers behind it."""

    id: str
    statement: str
    source: str
    verdict: str
    test: str
    evidence: tuple[dict[str, Any], ...]


def claim(
    name: str, statement: str, source: str, intervals: Sequence[Interval], *, test: str = STUDENT, verdict: str = ""
) -> Claim:
    """Return a claim with its evidence; by default it says that all quantities are positive.

    >>> claim("x", "x is positive", "nowhere", [Interval("x", 1.0)]).verdict
    'reproduced'
    """
    evidence = tuple(
        {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(each).items()}
        for each in intervals
    )
    return Claim(name, statement, source, verdict or verdict_of(intervals), test, evidence)


# -- intervals ---------------------------------------------------------------------------------------------


def mean_interval(quantity: str, values: Any, comparisons: int = 1, confidence: float = CONFIDENCE) -> Interval:
    """Return the mean of ``values`` [R] with Student's interval, for one of several ``comparisons``.

    >>> found = mean_interval("x", [1.0, 2.0, 3.0], confidence=0.95)
    >>> round(found.estimate, 3), round(found.low, 3), round(found.high, 3)
    (2.0, -0.484, 4.484)
    """
    mean, half = map(float, mean_and_half_width(values, confidence, comparisons))
    half = math.inf if math.isnan(half) else half
    return Interval(quantity, mean, mean - half, mean + half)


def differences(pairs: Sequence[tuple[str, Any]]) -> list[Interval]:
    """Return the intervals of the means of several samples, each with what it is, for all of them together."""
    return [mean_interval(quantity, values, len(pairs)) for quantity, values in pairs]


def ratio_interval(quantity: str, above: Any, below: Any, comparisons: int) -> Interval:
    """Return the interval of a ratio of means, by the delta method: the mean of ``above - ratio below`` is zero."""
    ratio = float(np.mean(above) / np.mean(below))
    around = mean_interval("", (np.asarray(above) - ratio * np.asarray(below)) / np.mean(below), comparisons)
    return Interval(quantity, ratio, ratio + float(around.low or 0.0), ratio + float(around.high or 0.0))


# -- verdicts ----------------------------------------------------------------------------------------------


def side(each: Interval, least: float, most: float) -> int:
    """Return 1 if the interval lies strictly between the two, -1 if it lies apart from them, else 0.

    >>> side(Interval("x", 1.0, 0.5, 1.5), 0.0, 2.0), side(Interval("x", 1.0, 0.5, 1.5), 1.0, 2.0)
    (1, 0)
    """
    low = each.estimate if each.low is None else each.low
    high = each.estimate if each.high is None else each.high
    if least < low and high < most:
        return 1
    return -1 if high < least or low > most else 0


def verdict(side: int) -> str:
    """Return the verdict for 1 (as claimed), -1 (otherwise) and 0 (undecided).

    >>> verdict(-1)
    'not reproduced'
    """
    return (INCONCLUSIVE, REPRODUCED, NOT_REPRODUCED)[side]


def verdict_of(intervals: Sequence[Interval]) -> str:
    """Return the verdict on the claim that all these quantities are positive.

    >>> verdict_of([Interval("x", 1.0, 0.5, 1.5), Interval("y", 1.0, -0.5, 2.5)])
    'inconclusive at this scale'
    """
    return verdict(min(side(each, 0.0, math.inf) for each in intervals))
