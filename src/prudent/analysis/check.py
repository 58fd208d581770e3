"""Does the model hold? One report on a log: honest values, the Markov property, coverage, influence.

A certificate says that a model was solved exactly, not that the model is right. ``check`` asks what the log can say
about the model itself: the values that policies have by episodes that they were not chosen from
(``prudent.estimation.honest``), whether the past or the episode tells more than the state
(``prudent.analysis.markov``), and where recommendations rest on few rows or on one episode.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.checks import discount_factor, generator, positive, require_scale
from .._support.output import write
from ..data.labels import Labels
from ..data.policy import Policy
from ..data.state_map import StateMap
from ..display.figures import check as figures
from ..display.figures.base import Figure
from ..display.pages.check import render
from ..errors import DataError, ParameterError
from ..estimation.counts import DistinctRows
from ..estimation.designs import Design, GivenStates
from ..estimation.honest import ALPHAS, CONFIDENCE, FOLDS, REPEATS, Difference, HonestValues, honest_values
from ..estimation.parts import UNLIMITED, Learned, Learner, Limits, Part, Units, first_states
from ..estimation.reading import read as read_any
from ..estimation.rows import LogRows
from ..estimation.state_choice import StateChoice
from ..models.base import read_pairs
from ..types import (
    BoolArray,
    FloatArray,
    Label,
    NamesLike,
    PairsLike,
    PathLike,
    PolicyLike,
    RngLike,
    StartLike,
    TableLike,
    TerminalLike,
)
from .findings import Finding, Reversal, of_choice, of_coverage, of_promise, of_reversals, of_rows, of_tests
from .markov import Test, markov_tests

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure as Canvas

COARSE = ("markov-previous-state", "markov-previous-action", "markov-time")  # what states cut from numbers leave out
ASSUMPTIONS = (
    "The state says all that matters for what comes next.",
    "Nothing hidden decided who got which action.",
    "The world stays as it was when the log was made.",
)
_HONEST = ("alpha", "design", "promised", "honest", "low", "high")
FEWEST = 4  # episodes that can be split
CONFIRMED = 5  # reversals that are solved for again


@dataclass(frozen=True, eq=False, repr=False)
class CheckReport:
    """Findings about a log and the model made of it, the result of ``check``.

    Attributes
    ----------
    findings : tuple of Finding
        Serious ones first. Each has a code, a severity, a value, its threshold, the false-alarm rate and a message.
    honest : HonestValues
        Promised and honest values by design, risk level, prior and support, and those of what the log did.
    tests : tuple of Test
        Every test of the Markov property, also those that found nothing.
    recommended : Cell
        The design, risk level, prior and support with the highest honest value; of levels that are not worse by more
        than a standard error, the lowest. With ``states="auto"`` the level that was chosen with the states.
    assumed : tuple of str
        What no check of a log can confirm in full.
    reading : tuple of (str, str)
        Titles and texts that say what was read: rows, columns, notes.

    See Also
    --------
    check : Compute a report.
    """

    findings: tuple[Finding, ...]
    honest: HonestValues
    tests: tuple[Test, ...]
    assumed: tuple[str, ...] = ASSUMPTIONS
    reading: tuple[tuple[str, str], ...] = ()

    @property
    def recommended(self) -> Any:
        """The recommended cell of ``honest``."""
        return self.honest.cells[self.honest.best]

    @property
    def serious(self) -> tuple[Finding, ...]:
        """The serious findings."""
        return tuple(finding for finding in self.findings if finding.severity == "serious")

    @property
    def worst(self) -> str:
        """The first finding in one line."""
        if not self.findings:
            return "the checks found nothing against the model"
        first = self.findings[0]
        rest = len(self.findings) - 1
        return f"{first.severity}, {first.code}: {first.message}" + (f" ({rest} more)" if rest else "")

    def differences(self) -> dict[float, Difference]:
        """Return how much better the recommended level is than the others of its design, prior and support.

        Returns
        -------
        dict
            The paired difference of honest values with its interval, by level.
        """
        best, cells = self.honest.best, self.honest.cells
        return {
            cell.alpha: self.honest.difference(best, i)
            for i, cell in enumerate(cells)
            if i != best and cell.alpha is not None and cell._replace(alpha=None) == cells[best]._replace(alpha=None)
        }

    def gain(self) -> Difference:
        """Return how much better the recommended policy is than what the log did.

        Returns
        -------
        Difference
            The paired difference of honest values, with its interval.
        """
        return self.honest.difference(self.honest.best, self.honest.log_of(self.honest.best))

    def to_dict(self) -> dict[str, Any]:
        """Return the report for JSON.

        Returns
        -------
        dict
            Keys findings, honest, recommended, cells (the rows of honest with prior, support and the unknown share of
            time), log (what was done), tests, assumed, by_rows and reading (how the log was read).
        """
        values, best = self.honest, self.honest.best
        cell = self.recommended
        honest = [
            {
                "alpha": each.alpha,
                "design": each.design,
                "promised": float(values.promised[i]),
                "honest": float(values.honest[i]),
                "low": float(values.low[i]),
                "high": float(values.high[i]),
                "prior": each.prior,
                "support": each.support if isinstance(each.support, str) else "as given",
                "unknown": float(values.unknown[i]),
            }
            for i, each in enumerate(values.cells)
        ]
        done = honest[values.log_of(best)]
        return {
            "findings": [
                {name: _plain(getattr(finding, name)) for name in ("code", "severity", "value", "threshold", "message")}
                for finding in self.findings
            ],
            "honest": [{name: row[name] for name in _HONEST} for row in honest if row["alpha"] is not None],
            "recommended": honest[best]
            | {
                "alpha": cell.alpha,
                "confidence": values.confidence,
                "gain": self.gain()._asdict(),
                "differences": [{"alpha": alpha} | apart._asdict() for alpha, apart in self.differences().items()],
            },
            "cells": [row for row in honest if row["alpha"] is not None],
            "log": {name: done[name] for name in ("honest", "low", "high")},
            "tests": [{name: _plain(value) for name, value in test._asdict().items()} for test in self.tests],
            "assumed": list(self.assumed),
            "by_rows": values.by_rows,
            "reading": [list(line) for line in self.reading],
        }

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table of the findings.

        Returns
        -------
        DataFrame
            Columns code, severity, value, threshold, false_alarm and message.
        """
        import pandas

        return pandas.DataFrame(list(self.findings), columns=list(Finding._fields))

    def figure(self) -> Figure:
        """Return the figure of ``plot`` as panels for a page.

        Returns
        -------
        prudent.display.figures.base.Figure
            Figure with one panel.
        """
        return figures.draw(self.honest.to_pandas(), self.honest.best, self.honest.confidence)

    def plot(self) -> Canvas:
        """Plot promised and honest values side by side, with what the log did.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.
        """
        return self.figure().to_matplotlib()

    def report(self, path: PathLike, *, name: str = "log") -> Path:
        """Write a page: findings first, then honest values and tests.

        Parameters
        ----------
        path : path
            The HTML file to write. The page needs no other file.
        name : str, default="log"
            Name of the log in the heading.

        Returns
        -------
        Path
            The file.
        """
        write(Path(path), render(self.to_dict(), self.figure(), name).encode())
        return Path(path)

    def __repr__(self) -> str:
        best, values = self.honest.best, self.honest
        cell, gain = self.recommended, self.gain()
        lines = [f"CheckReport: {len(self.serious)} serious, {len(self.findings) - len(self.serious)} notes"]
        lines += [f"  {title:<8}{text}" for title, text in self.reading]
        lines += [f"  {finding.severity:<8}{finding.code}: {finding.message}" for finding in self.findings]
        table = values.to_pandas()[["design", "alpha", "promised", "honest", "low", "high", "unknown"]]
        table = table.round(4).astype({"alpha": object}).fillna({"alpha": "log"})
        lines += [table.to_string(index=False)]
        lines.append(
            f"recommended: level {cell.alpha:g}, {cell.design}; honest value {values.honest[best]:.4g}, "
            f"{gain.value:+.4g} ({gain.low:+.4g} to {gain.high:+.4g}) against the log"
        )
        return "\n".join([*lines, *(f"assumed: {sentence}" for sentence in self.assumed)])


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


def check(
    log: TableLike,
    discount: float,
    *,
    alphas: Sequence[float] = ALPHAS,
    designs: Sequence[Design] | None = None,
    terminal: TerminalLike = (),
    absorbing: TerminalLike = (),
    min_count: float | None = None,
    prior: float | Sequence[float] = 1.0,
    support: str | Sequence[str] | Mapping[Any, Any] = "state",
    rewards: str | float | Callable[[Any, Any, Any], float] | TableLike = "mean",
    features: Sequence[str] | StateMap | None = None,
    states: NamesLike | StateMap | StateChoice = None,
    columns: Mapping[str, Any] | None = None,
    actions: NamesLike = None,
    end: Label = None,
    duration: Label = None,
    gaps: str = "error",
    truncated: str = "error",
    group: tuple[str, Label] | None = None,
    prior_from: TableLike | None = None,
    exclude: PairsLike = None,
    baseline: PolicyLike | str = "log",
    min_visits: float | None = None,
    epsilon: float | None = None,
    start: StartLike = None,
    folds: int = FOLDS,
    repeats: int = REPEATS,
    confidence: float = CONFIDENCE,
    strict: bool = False,
    rng: RngLike = 1,
    threads: int | None = None,
) -> CheckReport:
    """Check what the log can say against the model that is made of it.

    Parameters
    ----------
    log : TableLike
        A log, as for ``from_log``. With a column ``episode`` the checks are about episodes; without, single
        observations are split, and the past cannot be tested.
    discount : float
        Discount factor in [0, 1).
    alphas : sequence of float, default=(0, 0.5, 0.9)
        Risk levels to compare.
    designs : sequence of Design, optional
        Ways to give rows their states, to compare by their honest values; by default the states of the log.
    terminal, absorbing : TerminalLike, default=()
        As for ``from_log``. States that are never left need not be declared: rows that lead there are left out.
    min_count : float, optional
        As for ``from_log``.
    prior : float or sequence of float, default=1
        Prior mass of a pair; several are compared.
    support : {"state", "action", "all"}, sequence of them, or mapping, default="state"
        As for ``from_log``; several are compared.
    rewards : {"mean", "outcomes"}, float, callable or TableLike, default="mean"
        As for ``from_log``.
    strict : bool, default=False
        Whether a serious finding is an error.

    Returns
    -------
    CheckReport
        Findings, honest values and tests.

    Other Parameters
    ----------------
    features, states, columns, actions, end, duration, gaps, truncated
        As for ``from_log``. A choice of states that is no evidence of an improvement on the log is a serious finding.
        If it is, what the previous state, the previous action and the time add are notes: states that are cut from
        numbers hardly ever say all.
    group : tuple of (str, hashable), optional
        A column of groups, and the one that the policy is for: ``("site", "north")``. Its policies learn from the
        others as by ``from_log``. Only its episodes judge, and only they are tested.
    prior_from : TableLike, optional
        Another log for the prior, as for ``from_log``. It never judges.
    exclude : dict or list of pairs, optional
        What must not be done, as for ``prudent.solve``. The policies that are judged do not do it either.
    baseline, min_visits, epsilon
        How close policies have to stay to a baseline, as for ``prudent.solve``; with neither `min_visits` nor `epsilon`
        they need not.
    start : state or dict, optional
        Where the process begins; by default as the episodes of the log do.
    folds, repeats : int
        Into how many folds the episodes are split, and how often.
    confidence : float, default=0.9
        Probability of the intervals.
    rng : int or Generator, default=1
        Source of randomness.
    threads : int, optional
        Number of threads, by default all cores.

    Raises
    ------
    DataError
        If the log cannot be read, is too short to be split, or, with `strict`, has a serious finding (its code is
        ``"serious-finding"``).
    ModelError
        If rewards are above 1e75, or all below 1e-75.
    ParameterError
        If an argument is wrong.

    See Also
    --------
    prudent.risk_profile : Takes the honest values to recommend a level.

    Examples
    --------
    >>> import numpy as np, prudent as pr
    >>> rng = np.random.default_rng(1)
    >>> drug = rng.integers(2, size=400)
    >>> log = {"episode": np.arange(400) // 10, "state": ["ill"] * 400, "action": drug, "next_state": ["ill"] * 400,
    ...        "reward": rng.random(400) < 0.3 + 0.4 * drug}
    >>> report = pr.check(log, discount=0.9)
    >>> report.recommended.alpha, report.serious
    (0.0, ())
    """
    gamma = discount_factor(discount)
    notes = []
    first = prior if isinstance(prior, int | float) else 1.0
    read, mapped, least = read_any(
        log,
        gamma,
        terminal=terminal,
        absorbing=absorbing,
        min_count=min_count,
        prior=first,
        support=support,
        features=features,
        states=states,
        columns=columns,
        actions=actions,
        end=end,
        duration=duration,
        gaps=gaps,
        truncated=truncated,
        group=None if group is None else _named_group(group)[0],
        prior_from=prior_from,
        measured="allow",
    )
    limits = _limits(read, group, exclude, baseline, min_visits, epsilon)
    if designs is not None and limits != UNLIMITED:
        message = "designs cannot be combined with group, prior_from, exclude or a baseline: each has states of its own"
        raise ParameterError(message, code="conflicting-arguments", argument="designs")
    own = limits.own(read)
    if mapped is not None and mapped.choice is not None and not mapped.choice.improves:
        notes.append(of_choice(mapped.choice))
    if read.by_episode is not None and np.unique(read.episode if own is None else read.episode[own]).size < FEWEST:
        read = read._replace(by_episode=None, episode=read.episode[:0], place=read.place[:0])
    if read.by_episode is None:
        notes.append(of_rows(read, FEWEST))
    if read.reward is not None:
        require_scale(read.reward[np.isfinite(read.reward)], "a check")
    begin = None if start is None else _start(start, read.by_state)
    random = generator(rng)
    priors = [positive(each, "prior") for each in np.atleast_1d(np.asarray(prior, dtype=object)).tolist()]
    supports: list[Any] = list(support) if isinstance(support, list | tuple) else [support]
    listed = list(designs or [])
    if designs is None:
        listed = [GivenStates(read) if mapped is None else GivenStates(read, mapped.name)]
    honest = honest_values(
        listed,
        gamma,
        alphas=alphas,
        priors=priors,
        supports=supports,
        min_count=least,
        rewards=rewards,
        start=begin,
        folds=folds,
        repeats=repeats,
        confidence=confidence,
        rng=random,
        threads=threads,
        limits=limits,
    )
    told = () if mapped is None else mapped.notes
    if designs is None and mapped is not None and mapped.choice is not None:  # which chose a level with the states
        same = honest.at(alpha=mapped.choice.alpha, prior=priors[0], support=supports[0])
        honest = replace(honest, chosen=same[0] if same else None)
    cell = honest.cells[honest.best]
    design = next(each for each in listed if each.name == cell.design)
    whole = _Whole(design, gamma, cell.alpha or 0.0, cell.prior, cell.support, least, rewards, begin, threads, limits)
    tests = markov_tests(whole.own, whole.values, gamma, random)
    past = of_tests(tests, whole.steps)
    if mapped is not None and mapped.choice is not None and mapped.choice.improves:
        # states that were cut from numbers never say all; held-out episodes show a gain in the eyes of all candidates
        past = [each._replace(severity="note") if each.code in COARSE else each for each in past]
    found = [
        *of_promise(honest, honest.best),
        *past,
        *of_coverage(whole.share, whole.learned.policy, whole.part.seen.visits, whole.read, honest, honest.best),
        *of_reversals(list(whole.reversals())),
        *notes,
    ]
    found.sort(key=lambda finding: finding.severity != "serious")
    reading = (*read.lines(), *(("note", note) for note in told))
    report = CheckReport(tuple(found), honest, tuple(tests), reading=reading)
    if strict and report.serious:
        refuse_serious(report)
    return report


def refuse_serious(report: CheckReport) -> None:
    """Raise the error of a report with serious findings.

    Parameters
    ----------
    report : CheckReport
        The report.

    Raises
    ------
    DataError
        If there is a serious finding.
    """
    if report.serious:
        codes = tuple(finding.code for finding in report.serious)
        raise DataError(f"the check has a serious finding. {report.worst}", code="serious-finding", findings=codes)


def _named_group(group: tuple[str, Label]) -> tuple[str, Label]:
    """Return the column of groups and the group that a check is about."""
    if not isinstance(group, tuple | list) or len(group) != 2 or not isinstance(group[0], str):
        message = f"group is {group!r}, expected a column and the group that the policy is for: ('site', 'north')"
        raise ParameterError(message, code="wrong-format", argument="group", value=group)
    return group[0], group[1]


@dataclass
class _LogSpace:
    """States and actions of a log, for what is given by their names."""

    state_labels: Labels
    action_labels: Labels
    admissible: BoolArray
    terminal: BoolArray


def _limits(
    read: LogRows,
    group: tuple[str, Label] | None,
    exclude: PairsLike,
    baseline: PolicyLike | str,
    min_visits: float | None,
    epsilon: float | None,
) -> Limits:
    """Return what policies keep to, by the indices of the log."""
    which = None if read.borrowed is None else 0
    if group is not None and read.by_group is not None:
        name = _spelled(_named_group(group)[1], read.by_group)
        which = read.by_group.index(name, "group", ParameterError)
    if exclude is None and min_visits is None and epsilon is None:
        return Limits(group=which)
    tried: BoolArray = np.zeros(read.shape, dtype=np.bool_)
    tried[read.state, read.action] = True
    idle: BoolArray = np.asarray(~tried.any(axis=1))
    if isinstance(baseline, Mapping):  # a model may have fewer states; where nothing is given, policies follow the log
        idle |= np.array([name not in baseline for name in read.by_state.names], dtype=np.bool_)
    space = _LogSpace(read.by_state, read.by_action, np.ones(read.shape, dtype=np.bool_), idle)
    excluded = None if exclude is None else read_pairs(exclude, space, "exclude")
    stuck = tried.any(axis=1) & ~(tried & ~excluded).any(axis=1) if excluded is not None else np.zeros(1, np.bool_)
    if stuck.any():
        s = int(np.argmax(stuck))
        message = f"exclude leaves no action that was tried in {read.by_state.show(s)}; keep one of them"
        raise ParameterError(message, code="no-action", argument="exclude", state=read.by_state.names[s])
    close: FloatArray | str | None = None
    if min_visits is not None or epsilon is not None:
        close = baseline if isinstance(baseline, str) else Policy.read(baseline, space).weights(read.shape[1])
        if isinstance(close, str) and close != "log":
            message = f"baseline is {close!r}, expected 'log' or a policy"
            raise ParameterError(message, code="unknown-option", argument="baseline", value=close)
    return Limits(excluded, close, min_visits, epsilon, which)


def _start(start: StartLike, labels: Labels) -> Mapping[Hashable, float]:
    """Return the chances of states at the start; a state 4 of a file may be written as "4"."""
    given: Mapping[Any, float] = start if isinstance(start, Mapping) else {start: 1.0}
    return {_spelled(name, labels): chance for name, chance in given.items()}


def _spelled(name: Any, labels: Labels) -> Any:
    """Return a name as the log has it: the number 4 of a file may be written as "4"."""
    return int(name) if isinstance(name, str) and labels.find(name) < 0 and name.isdecimal() else name


class _Whole:
    """The recommended policy, from all rows of the log."""

    def __init__(
        self,
        design: Design,
        discount: float,
        alpha: float,
        prior: float,
        support: Any,
        least: float,
        rewards: Any,
        start: Mapping[Hashable, float] | None,
        threads: int | None,
        limits: Limits,
    ) -> None:
        self.read: LogRows = design.states(np.ones(design.read.state.size, dtype=np.bool_))
        self.settings = discount, prior, support, least, rewards
        self.limits, mine = limits, limits.own(self.read)
        self.own = self.read if mine is None else self.read.some(mine)
        self.alpha, self.threads, self.discount = alpha, threads, discount
        self.part, self.learned, self.learner = self._learn(self.read.times)
        begin = first_states(self.read, self.part, self.read.times, Units.of(self.read, 1, mine), start)
        self.values = self.learned.chain.values()
        spent = self.learned.chain.occupancy(begin) * self.part.acting
        self.steps = float(spent.sum())
        self.share: FloatArray = spent / max(self.steps, np.finfo(np.float64).tiny)

    def _learn(self, times: FloatArray) -> tuple[Part, Learned, Learner]:
        rewards = self.settings[-1]
        rows = DistinctRows.of(self.read, by_reward=isinstance(rewards, str) and rewards == "outcomes")
        part = Part.of(rows.weighted(self.read, times), self.read)
        if not part.acting.any():
            message = f"{self.read.held.table} has no row that leads to a state from which it goes on or ends"
            raise DataError(message, code="no-rows", argument="log")
        discount, prior, support, least, rewards = self.settings
        learner = Learner.of(self.read, part.seen, discount, prior, support, least, rewards, self.limits, times)
        return part, next(learner.policies([self.alpha], self.threads)), learner

    def reversals(self) -> Iterator[Reversal]:
        """Give the states whose action changes without one episode: found to first order, confirmed by a new solve."""
        read = self.read
        if read.by_episode is None or read.reward is None:
            return
        S, A = read.shape
        entries, policy = self.learner.entries, self.learned.policy
        later = self.discount if entries.duration is None else self.discount**entries.duration
        ahead = self.learner.reward + later * self.values[entries.target]
        q = np.bincount(entries.pair, self.learner.chance * ahead, S * A).reshape(S, A)
        q[~self.learner.kept] = -np.inf
        if self.limits.excluded is not None:
            q[self.limits.excluded] = -np.inf
        own = self.limits.own(read)
        rows = np.flatnonzero(self.learner.kept[read.state, read.action] & (True if own is None else own))
        pair = read.state[rows] * A + read.action[rows]
        groups, which = np.unique(np.stack((pair, read.episode[rows]), axis=1), axis=0, return_inverse=True)
        which = which.reshape(-1)
        then = np.broadcast_to(read.discounts(self.discount), read.state.shape)[rows]
        earned = read.times[rows] * (read.reward[rows] + then * self.values[read.target[rows]])
        taken, total = np.bincount(which, read.times[rows]), np.bincount(which, earned)
        at, (s, a) = groups[:, 0], np.divmod(groups[:, 0], A)
        mass = self.part.seen.visits.reshape(-1)[at] + self.settings[1]
        left = mass - taken
        gone = left <= self.settings[1] + 1e-9
        without = np.where(gone, -np.inf, (q.reshape(-1)[at] * mass - total) / np.maximum(left, 1e-12))
        best = np.maximum(policy, 0)
        rival = q.copy()
        rival[np.arange(S), best] = -np.inf
        its = a == best[s]
        second = rival.max(axis=1)
        slack = 1e-9 * max(1.0, float(np.abs(q[np.isfinite(q)]).max(initial=0.0)))
        leads = (policy[s] >= 0) & (q[np.arange(S), best] >= q.max(axis=1) - slack)[s] & (self.share[s] >= 0.01)
        turns = leads & np.where(its, without < second[s] - slack, without > q[np.arange(S), best][s] + slack)
        seen: set[int] = set()
        for i in np.flatnonzero(turns)[np.argsort(-self.share[s[turns]], kind="stable")].tolist():
            if int(s[i]) in seen or len(seen) >= CONFIRMED:
                continue
            episode = int(groups[i, 1])
            _, other, _ = self._learn(np.where(read.episode == episode, 0.0, read.times))
            new = int(other.policy[s[i]])
            if new >= 0 and new != policy[s[i]]:
                seen.add(int(s[i]))
                names = read.by_action.names
                yield Reversal(
                    read.by_state.names[int(s[i])],
                    names[int(policy[s[i]])],
                    names[new],
                    read.by_episode.names[episode],
                    float(self.share[s[i]]),
                )
