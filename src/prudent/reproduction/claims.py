"""Claims of the paper: statements, the rules that judge them, and what became of them.

A claim is a sentence, a function that finds its samples in a dataset, and a rule of ``rules`` that turns samples into a
verdict with a stated error rate.

**Readings.** What the paper leaves open can be read in several ways. A claim is judged as written, and under every
other reading that was tried. Trying many of them is testing many times, so the other readings share the error rate
between them: a claim that holds under no reading is called "reproduced when" with probability at most 1%. A claim that
holds as written is reproduced, whatever the other readings give.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import DataError
from ..types import FloatArray
from .rules import ERROR, Finding, Interval, Means, Rule, Samples, Verdict

if TYPE_CHECKING:
    import xarray

Data: TypeAlias = "xarray.Dataset"
"""Dataset of a study."""
BEYOND = "beyond the paper"  # the source of claims that are our own
EXACT = "exact: no sampling"


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
        The other readings that were tried, each with ``reading``, ``verdict``, ``evidence`` and ``needed``.
    needed : int or None
        Replications that would decide an undecided verdict as written; see ``Finding``.
    error : float
        Error rate of the verdict as written; the other readings share as much. 0 for exact numbers.
    """

    id: str
    statement: str
    source: str
    verdict: str
    test: str
    evidence: tuple[dict[str, Any], ...]
    as_written: Verdict
    readings: tuple[dict[str, Any], ...] = ()
    needed: int | None = None
    error: float = ERROR

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
            rate = float(record.get("error", ERROR))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{place} is not a claim: {error}", code="wrong-format", value=record) from None
        texts = {name: str(record.get(name, "")) for name in ("id", "statement", "source", "verdict", "test")}
        evidence, needed = tuple(record.get("evidence", ())), record.get("needed")
        return cls(**texts, evidence=evidence, as_written=as_written, readings=readings, needed=needed, error=rate)


Find: TypeAlias = Callable[[Data], Samples]


@dataclass(frozen=True)
class Statement:
    """A claim before it is judged: the words, how to find the samples in a dataset, and the rule.

    Attributes
    ----------
    id, statement, source : str
        See ``Claim``.
    find : callable
        Function of the dataset (of one reading) that returns samples by quantity. For a claim about exact numbers,
        which has no rule, it returns a Finding.
    rule : Rule or None
        The rule; the default is that the means of all samples are positive. None for exact numbers.
    others : callable, optional
        Function of the dataset that returns what ``find`` finds under other readings, by the words after "when". Used
        if the readings are not a dimension of the dataset.
    short : callable, optional
        Function of the dataset that says in words why it is too short for the claim; empty if it is not.
    also : callable, optional
        Function of the dataset that returns further numbers to show.
    test : str
        How exact numbers were computed.
    """

    id: str
    statement: str
    source: str
    find: Callable[[Data], Any]
    rule: Rule | None = Means()  # noqa: RUF009, it is frozen
    others: Callable[[Data], Mapping[str, Any]] | None = None
    short: Callable[[Data], str] | None = None
    also: Callable[[Data], Sequence[Interval]] | None = None
    test: str = EXACT

    @property
    def error(self) -> float:
        """Error rate of the verdict as written."""
        return 0.0 if self.rule is None else ERROR

    def cases(self, data: Data, readings: Mapping[str, str] | None = None) -> dict[str, tuple[Data, Any, float]]:
        """Return what there is to judge: the data, what was found in it and its error rate, by reading.

        Parameters
        ----------
        data : xarray.Dataset
            Dataset of the study.
        readings : mapping of str to str, optional
            Readings along the dimension ``reading`` of the dataset, with the words that end the sentence "reproduced
            when ...". The first is the paper as written. A reading may have fewer replications: the rest is NaN.

        Returns
        -------
        dict of str to tuple
            By the words of the reading; the first is the paper as written, under the empty name.
        """
        if readings:
            here, *others = (reading for reading in readings if reading in data.reading.values)
            parts = {name: data.sel(reading=name).dropna("replication", how="all") for name in (here, *others)}
            found = {"" if name == here else readings[name]: (part, self.find(part)) for name, part in parts.items()}
        else:
            more = self.others(data) if self.others else {}
            found = {"": (data, self.find(data)), **{words: (data, other) for words, other in more.items()}}
        shared = self.error / max(len(found) - 1, 1)
        return {words: (*both, shared if words else self.error) for words, both in found.items()}

    def judge(self, data: Data, readings: Mapping[str, str] | None = None) -> Claim:
        """Return the claim, judged as written and under every other reading.

        Parameters
        ----------
        data : xarray.Dataset
            Dataset of the study.
        readings : mapping of str to str, optional
            See ``cases``.

        Returns
        -------
        Claim
            The claim with its verdict and evidence.
        """
        notes: dict[str, str] = {}
        judged: dict[str, Finding] = {}
        for words, (part, found, error) in self.cases(data, readings).items():
            finding = found if self.rule is None else self.rule.judge(found, error)
            notes[words] = self.short(part) if self.short else ""
            if notes[words]:
                finding = finding._replace(verdict=Verdict.INCONCLUSIVE, needed=None)
            extra = self.also(part) if self.also else ()
            judged[words] = finding._replace(intervals=[*finding.intervals, *extra])
        first = judged.pop("")
        text = _in_words(first.verdict, {words: other.verdict for words, other in judged.items()})
        records = tuple(
            {"reading": words, "verdict": other.verdict, "evidence": _evidence(other), "needed": other.needed}
            for words, other in judged.items()
        )
        test = self.test if self.rule is None else f"{self.rule.words}; error rate {self.error:.0%}"
        test = f"{test}. {notes['']}" if notes[""] else test
        return Claim(
            self.id,
            self.statement,
            self.source,
            text,
            test,
            _evidence(first),
            first.verdict,
            records,
            first.needed,
            self.error,
        )


def claim(id: str, statement: str, source: str, **options: Any) -> Callable[[Callable[[Data], Any]], Statement]:
    """Return a decorator that makes a ``Statement`` of the function that finds its samples.

    ``options`` are further fields of the statement, among them ``rule``.

    Examples
    --------
    >>> @claim("sum", "The sums are positive", "nowhere")
    ... def sums(data):
    ...     return {"sum": [1.0, 1.5, 2.0]}
    >>> sums.judge(None).verdict
    'compatible'
    """
    return partial(Statement, id, statement, source, **options)


def _evidence(finding: Finding) -> tuple[dict[str, Any], ...]:
    """Return the measured quantities, for JSON."""
    return tuple(
        {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(interval).items()}
        | {"decisive": i == finding.decisive}
        for i, interval in enumerate(finding.intervals)
    )


def gap(values: xarray.DataArray, first: str, second: str) -> FloatArray:
    """Return by how much the values of one agent exceed those of another."""
    return values.sel(agent=first).values - values.sel(agent=second).values


def until(moment: int, last: int, unit: str) -> str:
    """Return why a run is too short for a claim about a moment; empty if it reaches it.

    Examples
    --------
    >>> until(1000, 400, "episodes")
    'The claim is about 1,000 episodes, and the run has 400.'
    """
    return "" if last >= moment else f"The claim is about {moment:,} {unit}, and the run has {last:,}."


# -- summaries ---------------------------------------------------------------------------------------------


def overall(as_written: Verdict, others: Collection[Verdict]) -> Verdict:
    """Return the summary of the verdicts as written and under other readings: the best that was reached.

    Examples
    --------
    >>> str(overall(Verdict.NOT_REPRODUCED, [Verdict.REPRODUCED, Verdict.INCONCLUSIVE]))
    'reproduced when'
    """
    if as_written is Verdict.REPRODUCED or not others:
        return as_written
    best = max((as_written, *others), key=lambda verdict: verdict.rank)
    return Verdict.REPRODUCED_WHEN if best is Verdict.REPRODUCED else best


def _in_words(as_written: Verdict, others: Mapping[str, Verdict]) -> str:
    """Return the summary with the readings under which a claim holds.

    >>> _in_words(Verdict.NOT_REPRODUCED, {"the ice is dry": Verdict.REPRODUCED, "it is wet": Verdict.INCONCLUSIVE})
    'reproduced when the ice is dry'
    >>> _in_words(Verdict.NOT_REPRODUCED, {"the ice is dry": Verdict.COMPATIBLE})
    'compatible when the ice is dry'
    >>> _in_words(Verdict.NOT_REPRODUCED, {"the ice is dry": Verdict.NOT_REPRODUCED})
    'not reproduced under any reading tried'
    """
    summary = overall(as_written, others.values())
    wanted = Verdict.REPRODUCED if summary is Verdict.REPRODUCED_WHEN else Verdict.COMPATIBLE
    if summary in (Verdict.REPRODUCED_WHEN, Verdict.COMPATIBLE) and as_written is not wanted:
        holding = [words for words, reached in others.items() if reached is wanted]
        return f"{wanted} when {' or when '.join(holding)}"
    return f"{summary} under any reading tried" if summary is Verdict.NOT_REPRODUCED and others else str(summary)


def counts(claims: Iterable[Claim]) -> dict[str, dict[str, int]]:
    """Return how many of the paper's claims and of our own have each verdict.

    Parameters
    ----------
    claims : iterable of Claim
        The claims.

    Returns
    -------
    dict of str to dict
        Counts by verdict, under ``"paper"`` and ``"ours"``; verdicts that did not occur have 0.
    """
    found = {whose: {str(verdict): 0 for verdict in reversed(Verdict)} for whose in ("paper", "ours")}
    for each in claims:
        found["ours" if each.source == BEYOND else "paper"][str(each.kind)] += 1
    return found
