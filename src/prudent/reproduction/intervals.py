"""How conclusions of the paper are judged: measured quantities with intervals, and the verdict that they give.

Replications of different agents with the same number face the same randomness, so agents are compared by the
differences within replications: Student's t intervals for their means, at 99% for all comparisons of a claim together
(Bonferroni). A claim is reproduced if every interval lies on the side that it says, not reproduced if any lies on
the other side, and inconclusive otherwise. Claims about a point in time that a run does not reach are inconclusive.

**Readings.** What the paper leaves open can be read in several ways. A claim is judged as written, and under every
other reading that was tried. Trying many of them is testing many times, so the other readings share 99% between them
(Bonferroni once more): that a claim is "reproduced when" one of them is taken has a chance of at most 1% to be said
wrongly of a claim that holds under none. A claim that holds as written is reproduced, whatever the others say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from .._support.intervals import mean_and_half_width

__all__ = [
    "BEYOND",
    "CONFIDENCE",
    "INCONCLUSIVE",
    "NOT_REPRODUCED",
    "REPRODUCED",
    "UNDER_NONE",
    "Claim",
    "Finding",
    "Interval",
    "claim",
    "differences",
    "mean_interval",
    "overall",
    "rank",
    "ratio_interval",
    "side",
    "verdict",
    "verdict_of",
]

REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE = "reproduced", "not reproduced", "inconclusive at this scale"
UNDER_NONE = f"{NOT_REPRODUCED} under any reading tried"
WHEN = f"{REPRODUCED} when "
CONFIDENCE = 0.99
BEYOND = "beyond the paper"  # the source of claims that are our own
STUDENT = "paired Student t intervals of mean differences, 99% for all of them together (Bonferroni)"


@dataclass(frozen=True)
class Interval:
    """A measured quantity with its interval; no interval if it is exact."""

    quantity: str
    estimate: float
    low: float | None = None
    high: float | None = None


class Finding(NamedTuple):
    """What was measured under one reading of the paper, and the verdict; by default on all quantities being positive.

    The interval number ``decisive`` is the one that the verdict hangs on; by default the one nearest to failing.
    """

    intervals: Sequence[Interval]
    verdict: str = ""
    decisive: int | None = None

    def judged(self) -> tuple[str, tuple[dict[str, Any], ...]]:
        """Return the verdict and the evidence, for JSON."""
        verdict = self.verdict or verdict_of(self.intervals)
        decisive = _weakest(self.intervals, verdict) if self.decisive is None else self.decisive
        evidence = tuple(
            {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(each).items()}
            | {"decisive": i == decisive}
            for i, each in enumerate(self.intervals)
        )
        return verdict, evidence


@dataclass(frozen=True)
class Claim:
    """A conclusion of the paper: statement, where it stands, verdict, test and the numbers behind it.

    ``as_written`` is the verdict, and ``evidence`` the numbers, for the paper taken by its words. ``readings`` are the
    other readings that were tried, each with its verdict and evidence; ``verdict`` sums all of them up.
    """

    id: str
    statement: str
    source: str
    verdict: str
    test: str
    evidence: tuple[dict[str, Any], ...]
    as_written: str
    readings: tuple[dict[str, Any], ...] = ()


def claim(
    name: str,
    statement: str,
    source: str,
    found: Finding | Sequence[Interval],
    others: Mapping[str, Finding] | None = None,
    *,
    test: str = STUDENT,
) -> Claim:
    """Return a claim with what was found as written, and under ``others``: readings by the words after "when".

    >>> wrong, right = Finding([Interval("x", -1.0)]), Finding([Interval("x", 1.0)])
    >>> claim("x", "x is positive", "nowhere", right).verdict
    'reproduced'
    >>> claim("x", "x is positive", "nowhere", wrong, {"it rains": right, "it snows": wrong}).verdict
    'reproduced when it rains'
    """
    finding = found if isinstance(found, Finding) else Finding(found)
    as_written, evidence = finding.judged()
    readings: list[dict[str, Any]] = []
    for words, other in (others or {}).items():
        reached, numbers = other.judged()
        readings.append({"reading": words, "verdict": reached, "evidence": numbers})
    summed_up = overall(as_written, {each["reading"]: each["verdict"] for each in readings})
    return Claim(name, statement, source, summed_up, test, evidence, as_written, tuple(readings))


def _weakest(intervals: Sequence[Interval], verdict: str) -> int:
    """Return the number of the interval nearest to failing, or, if the claim fails, of the one that fails most."""

    def edge(i: int) -> float:
        each = intervals[i]
        found = each.high if verdict == NOT_REPRODUCED else each.low
        return each.estimate if found is None else found

    bounded = [i for i, each in enumerate(intervals) if each.low is not None]
    return min(bounded or range(len(intervals)), key=edge)


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


def differences(pairs: Sequence[tuple[str, Any]], readings: int = 1) -> list[Interval]:
    """Return the intervals of the means of several samples, each with what it is, for all of them together.

    With several ``readings`` the confidence is that of the comparisons under all of them.
    """
    return [mean_interval(quantity, values, len(pairs) * readings) for quantity, values in pairs]


def ratio_interval(quantity: str, above: Any, below: Any, comparisons: int) -> Interval:
    """Return the interval of a ratio of means, by the delta method: the mean of ``above - ratio below`` is zero.

    Nothing is known of a ratio to nothing.
    """
    if not np.any(below):
        return Interval(quantity, math.nan, -math.inf, math.inf)
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


def overall(as_written: str, others: Mapping[str, str]) -> str:
    """Return what the verdicts as written and under other readings come to.

    >>> overall(NOT_REPRODUCED, {"the ice is dry": REPRODUCED, "the ice is wet": INCONCLUSIVE})
    'reproduced when the ice is dry'
    >>> overall(NOT_REPRODUCED, {"the ice is dry": NOT_REPRODUCED})
    'not reproduced under any reading tried'
    """
    if as_written == REPRODUCED or not others:
        return as_written
    holds = [words for words, each in others.items() if each == REPRODUCED]
    if holds:
        return WHEN + " or when ".join(holds)
    return INCONCLUSIVE if INCONCLUSIVE in (as_written, *others.values()) else UNDER_NONE


def rank(verdict: str) -> int:
    """Return the place of a verdict in lists: what does not reproduce comes first, what does comes last.

    >>> [rank(each) for each in (UNDER_NONE, INCONCLUSIVE, "reproduced when it rains", REPRODUCED)]
    [0, 1, 2, 3]
    """
    starts = (NOT_REPRODUCED, INCONCLUSIVE, WHEN, REPRODUCED)
    return next(i for i, start in enumerate(starts) if verdict.startswith(start))
