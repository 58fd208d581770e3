"""Claims of the paper: statements, measured quantities with intervals, and the verdicts that follow from them.

Replications of different agents with the same number face the same randomness, so agents are compared by the
differences within replications: Student's t intervals for their means, at 99% for all comparisons of a claim together
(Bonferroni). A claim is reproduced if every interval lies on the side that it says, not reproduced if any lies on
the other side, and inconclusive otherwise. Claims about a time that a run does not reach are inconclusive.

**Readings.** What the paper leaves open can be read in several ways. A claim is judged as written, and under every
other reading that was tried. Trying many of them is testing many times, so the other readings share 99% between them
(Bonferroni once more): a claim that holds under no reading is called "reproduced when" with probability at most 1%.
A claim that holds as written is reproduced, whatever the other readings give.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from .._support.intervals import mean_and_half_width
from ..errors import DataError
from ..types import ArrayLike, FloatArray

if TYPE_CHECKING:
    import xarray

Data: TypeAlias = "xarray.Dataset"
"""Dataset of a study."""
Samples: TypeAlias = Mapping[str, ArrayLike]
"""Samples [R] by the quantity that is their mean."""
CONFIDENCE = 0.99
BEYOND = "beyond the paper"  # the source of claims that are our own
STUDENT = "paired Student t intervals of mean differences, 99% for all of them together (Bonferroni)"


class Verdict(StrEnum):
    """What became of a claim, in the order of lists: what does not reproduce comes first."""

    NOT_REPRODUCED = "not reproduced"
    INCONCLUSIVE = "inconclusive at this scale"
    REPRODUCED_WHEN = "reproduced when"  # under another reading than as written
    REPRODUCED = "reproduced"

    @property
    def rank(self) -> int:
        """Place in lists of claims."""
        return list(Verdict).index(self)


@dataclass(frozen=True)
class Interval:
    """A measured quantity with its interval.

    Attributes
    ----------
    quantity : str
        What is measured.
    estimate : float
        Its value.
    low, high : float or None
        Ends of the interval; None for an exact value.
    """

    quantity: str
    estimate: float
    low: float | None = None
    high: float | None = None


class Finding(NamedTuple):
    """What was measured under one reading of the paper.

    Attributes
    ----------
    intervals : sequence of Interval
        The measured quantities.
    verdict : Verdict or None
        The verdict; None for that of the claim that all quantities are positive.
    decisive : int or None
        Index of the interval that decides; None for the one nearest to failing.
    """

    intervals: Sequence[Interval]
    verdict: Verdict | None = None
    decisive: int | None = None


@dataclass(frozen=True)
class Claim:
    """A conclusion of the paper and what became of it.

    Attributes
    ----------
    id : str
        Identifier.
    statement : str
        The conclusion.
    source : str
        Where it stands in the paper; ``BEYOND`` for claims of our own.
    verdict : str
        Summary of all verdicts, in words.
    test : str
        How it was tested.
    evidence : tuple of dict
        Measured quantities for the paper as written.
    as_written : Verdict
        Verdict for the paper as written.
    readings : tuple of dict
        The other readings that were tried, each with ``reading``, ``verdict`` and ``evidence``.
    """

    id: str
    statement: str
    source: str
    verdict: str
    test: str
    evidence: tuple[dict[str, Any], ...]
    as_written: Verdict
    readings: tuple[dict[str, Any], ...] = ()

    @property
    def kind(self) -> Verdict:
        """Summary of all verdicts."""
        return overall(self.as_written, [reading["verdict"] for reading in self.readings])

    @classmethod
    def from_record(cls, record: Any, place: str) -> Claim:
        """Return a claim from its record in ``claims.json``.

        Parameters
        ----------
        record : mapping
            The record.
        place : str
            Name of the record in errors.

        Returns
        -------
        Claim
            The claim.

        Raises
        ------
        DataError
            If the record lacks a field, or a verdict is unknown.
        """
        for field in ("id", "statement", "verdict"):
            if not isinstance(record, Mapping) or field not in record:
                message = f"{place} has no {field!r}: {record!r}"
                raise DataError(message, code="missing-field", value=record, index=field)
        try:
            readings = tuple({**other, "verdict": Verdict(other["verdict"])} for other in record.get("readings", ()))
            as_written = Verdict(record.get("as_written", record["verdict"]))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{place} is not a claim: {error}", code="wrong-format", value=record) from None
        texts = {name: str(record.get(name, "")) for name in ("id", "statement", "source", "verdict", "test")}
        return cls(**texts, evidence=tuple(record.get("evidence", ())), as_written=as_written, readings=readings)


Evidence: TypeAlias = Finding | Samples
"""A finding; or samples, for the claim that the means of all of them are positive."""
Find: TypeAlias = Callable[[Data, int], Evidence]


@dataclass(frozen=True)
class Statement:
    """A claim before it is judged: the words, and how to find the evidence in a dataset.

    Attributes
    ----------
    id, statement, source : str
        See ``Claim``.
    find : callable
        Function of the dataset (of one reading) and of the number of readings that share the confidence. It returns
        a Finding, or samples by quantity for the claim that all their means are positive.
    test : str or callable
        How it is tested, as text or as a function of the dataset.
    others : callable
        Function of the dataset that returns what is found under other readings, by the words after "when". Used if
        the readings are not a dimension of the dataset.
    """

    id: str
    statement: str
    source: str
    find: Find
    test: str | Callable[[Data], str] = STUDENT
    others: Callable[[Data], Mapping[str, Evidence]] | None = None

    def judge(self, data: Data, readings: Mapping[str, str] | None = None) -> Claim:
        """Return the claim, judged as written and under every other reading.

        Parameters
        ----------
        data : xarray.Dataset
            Dataset of the study.
        readings : mapping of str to str, optional
            Readings along the dimension ``reading`` of the dataset, with the words that end the sentence "reproduced
            when ...". The first is the paper as written. A reading may have fewer replications: the rest is NaN.

        Returns
        -------
        Claim
            The claim with its verdict and evidence.
        """
        if readings:
            here, *others = (reading for reading in readings if reading in data.reading.values)

            def judged(reading: str, sharing: int) -> Judged:
                return _judged(self.find(data.sel(reading=reading).dropna("replication", how="all"), sharing), sharing)

            (reached, evidence), tried = judged(here, 1), {readings[name]: judged(name, len(others)) for name in others}
        else:
            reached, evidence = _judged(self.find(data, 1))
            tried = {words: _judged(other) for words, other in self.others(data).items()} if self.others else {}
        text = _in_words(reached, {words: other for words, (other, _) in tried.items()})
        records = tuple(
            {"reading": words, "verdict": other, "evidence": numbers} for words, (other, numbers) in tried.items()
        )
        test = self.test if isinstance(self.test, str) else self.test(data)
        return Claim(self.id, self.statement, self.source, text, test, evidence, reached, records)


def claim(id: str, statement: str, source: str, **options: Any) -> Callable[[Find], Statement]:
    """Return a decorator that makes a ``Statement`` of the function that finds its evidence.

    ``options`` are ``test`` and ``others`` of the statement.

    Examples
    --------
    >>> @claim("sum", "The sums are positive", "nowhere")
    ... def sums(data, readings):
    ...     return {"sum": [1.0, 1.5, 2.0]}
    >>> sums.judge(None).verdict
    'inconclusive at this scale'
    """
    return partial(Statement, id, statement, source, **options)


Judged: TypeAlias = tuple[Verdict, tuple[dict[str, Any], ...]]


def _judged(found: Evidence, readings: int = 1) -> Judged:
    """Return the verdict and the measured quantities, for JSON."""
    finding = found if isinstance(found, Finding) else Finding(differences(found, readings))
    intervals = finding.intervals
    reached = finding.verdict or verdict_of(intervals)

    def edge(i: int) -> float:
        end = intervals[i].high if reached is Verdict.NOT_REPRODUCED else intervals[i].low
        return intervals[i].estimate if end is None else end

    decisive = finding.decisive
    if decisive is None:  # the interval nearest to failing or, if the claim fails, the one that fails most
        bounded = [i for i, interval in enumerate(intervals) if interval.low is not None]
        decisive = min(bounded or range(len(intervals)), key=edge)
    return reached, tuple(
        {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(interval).items()}
        | {"decisive": i == decisive}
        for i, interval in enumerate(intervals)
    )


# -- intervals ---------------------------------------------------------------------------------------------


def mean_interval(quantity: str, values: ArrayLike, comparisons: int = 1, confidence: float = CONFIDENCE) -> Interval:
    """Return the mean of ``values`` [R] with Student's interval, for one of several ``comparisons``.

    Examples
    --------
    >>> interval = mean_interval("x", [1.0, 2.0, 3.0], confidence=0.95)
    >>> round(interval.estimate, 3), round(interval.low, 3), round(interval.high, 3)
    (2.0, -0.484, 4.484)
    """
    mean, half = map(float, mean_and_half_width(values, confidence, comparisons))
    half = math.inf if math.isnan(half) else half
    return Interval(quantity, mean, mean - half, mean + half)


def differences(samples: Samples, readings: int = 1) -> list[Interval]:
    """Return the intervals of the means of several samples, for all of them together.

    With several ``readings`` the confidence is that of the comparisons under all of them.
    """
    return [mean_interval(quantity, values, len(samples) * readings) for quantity, values in samples.items()]


def gap(values: xarray.DataArray, first: str, second: str) -> FloatArray:
    """Return by how much the values of one agent exceed those of another."""
    return values.sel(agent=first).values - values.sel(agent=second).values


def ratio_interval(quantity: str, above: ArrayLike, below: ArrayLike, comparisons: int) -> Interval:
    """Return the interval of a ratio of means, by the delta method: the mean of ``above - ratio below`` is zero.

    A ratio to zero has an interval without ends.
    """
    if not np.any(below):
        return Interval(quantity, math.nan, -math.inf, math.inf)
    top, bottom = np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)
    ratio = float(np.mean(top) / np.mean(bottom))
    around = mean_interval("", (top - ratio * bottom) / np.mean(bottom), comparisons)
    return Interval(quantity, ratio, ratio + float(around.low or 0.0), ratio + float(around.high or 0.0))


# -- verdicts ----------------------------------------------------------------------------------------------


def side(interval: Interval, lowest: float, highest: float) -> int:
    """Return 1 if the interval lies strictly between the two, -1 if it lies apart from them, else 0.

    Examples
    --------
    >>> side(Interval("x", 1.0, 0.5, 1.5), 0.0, 2.0), side(Interval("x", 1.0, 0.5, 1.5), 1.0, 2.0)
    (1, 0)
    """
    low = interval.estimate if interval.low is None else interval.low
    high = interval.estimate if interval.high is None else interval.high
    if lowest < low and high < highest:
        return 1
    return -1 if high < lowest or low > highest else 0


def verdict(side: int) -> Verdict:
    """Return the verdict for 1 (as claimed), -1 (otherwise) and 0 (undecided).

    Examples
    --------
    >>> str(verdict(-1))
    'not reproduced'
    """
    return (Verdict.INCONCLUSIVE, Verdict.REPRODUCED, Verdict.NOT_REPRODUCED)[side]


def verdict_of(intervals: Sequence[Interval], lowest: float = 0.0, highest: float = math.inf) -> Verdict:
    """Return the verdict on the claim that all quantities lie between two numbers, by default that they are positive.

    Examples
    --------
    >>> str(verdict_of([Interval("x", 1.0, 0.5, 1.5), Interval("y", 1.0, -0.5, 2.5)]))
    'inconclusive at this scale'
    """
    return verdict(min(side(interval, lowest, highest) for interval in intervals))


def within(intervals: Sequence[Interval], lowest: float, highest: float = math.inf) -> Finding:
    """Return the finding on the claim that all quantities lie between two numbers."""
    return Finding(intervals, verdict_of(intervals, lowest, highest))


def below(intervals: Sequence[Interval], highest: float) -> Finding:
    """Return the finding on the claim that all quantities are below ``highest``; the largest decides."""
    largest = max(range(len(intervals)), key=lambda i: float(intervals[i].high or 0.0))
    return within(intervals, -math.inf, highest)._replace(decisive=largest)


def overall(as_written: Verdict, others: Collection[Verdict]) -> Verdict:
    """Return the summary of the verdicts as written and under other readings.

    Examples
    --------
    >>> str(overall(Verdict.NOT_REPRODUCED, [Verdict.REPRODUCED, Verdict.INCONCLUSIVE]))
    'reproduced when'
    """
    if as_written is Verdict.REPRODUCED or not others:
        return as_written
    if Verdict.REPRODUCED in others:
        return Verdict.REPRODUCED_WHEN
    return Verdict.INCONCLUSIVE if Verdict.INCONCLUSIVE in (as_written, *others) else Verdict.NOT_REPRODUCED


def _in_words(as_written: Verdict, others: Mapping[str, Verdict]) -> str:
    """Return the summary with the readings under which a claim holds.

    >>> _in_words(Verdict.NOT_REPRODUCED, {"the ice is dry": Verdict.REPRODUCED, "it is wet": Verdict.INCONCLUSIVE})
    'reproduced when the ice is dry'
    >>> _in_words(Verdict.NOT_REPRODUCED, {"the ice is dry": Verdict.NOT_REPRODUCED})
    'not reproduced under any reading tried'
    """
    summary = overall(as_written, others.values())
    if summary is Verdict.REPRODUCED_WHEN:
        holding = [words for words, reached in others.items() if reached is Verdict.REPRODUCED]
        return f"{summary} {' or when '.join(holding)}"
    return f"{summary} under any reading tried" if summary is Verdict.NOT_REPRODUCED and others else str(summary)
