"""Findings of a check: rules that turn measured facts into sentences with a number, a threshold and a cure.

A finding is *serious* if the answer should not be relied on as it is, else a *note*. Thresholds on tests state the
false-alarm rate that they have if the model holds.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr

from ..estimation.honest import HonestValues
from ..estimation.rows import LogRows
from ..estimation.state_choice import StateChoice
from ..types import BoolArray, FloatArray, IntArray
from .markov import Test

FALSE_ALARM = 0.01  # of all tests of the Markov property together, and of the comparison with the log
EXPLAINED = 0.05  # share of the surprise that makes a failed test serious
CORRELATED = 0.1  # correlation of successive surprises that does, as they add up over an episode
OVERPROMISE = 3.0  # standard errors between promised and honest value
CONFIRMED = 0.25  # share of the promised gain over the log that must be honest
FEW_ROWS = 5  # rows of a pair below which it counts as hardly tried
THIN, BARE = 0.1, 0.5  # shares of time on such pairs: worth a note, and serious
SHOWN = 3  # names in a sentence


class Finding(NamedTuple):
    """One result of a check.

    Attributes
    ----------
    code : str
        What it is about, such as ``"promise"`` or ``"heterogeneity"``.
    severity : {"serious", "note"}
        Serious findings say that the answer should not be relied on as it is.
    value, threshold : float
        What was measured, and from where on it is a finding.
    false_alarm : float
        Probability of the finding if the model holds; NaN for facts that are no tests.
    message : str
        What it means, and what to do.
    """

    code: str
    severity: str
    value: float
    threshold: float
    false_alarm: float
    message: str


CURES = {
    "previous state": "add what the previous state says to the state (a trend: rising, falling), or make finer states",
    "previous action": "add the previous action to the state: effects last longer than one step",
    "previous surprise": "a hidden variable lasts over several steps: add what was measured and left out to the state",
    "time": "add the time since the start, or its phase, to the state",
    "episode": "add what distinguishes episodes (patients, sites, machines) to the state, or solve for each group",
    "half": "use recent data only, or find out what changed",
}
_CODES = {
    "previous state": "markov-previous-state",
    "previous action": "markov-previous-action",
    "previous surprise": "markov-hidden-variable",
    "time": "markov-time",
    "episode": "heterogeneity",
    "episode and action": "heterogeneity",
    "half": "drift",
}
_TELLS = {
    "previous state": "the previous state",
    "previous action": "the previous action",
    "previous surprise": "whether the step before went better or worse than expected",
    "time": "the time since the start of the episode",
    "episode": "which episode it is",
    "episode and action": "which episode it is",
    "half": "whether an episode is from the first or the second half of the log",
}


def of_choice(choice: StateChoice) -> Finding:
    """Return the finding about a choice of states that is no evidence of an improvement."""
    message = (
        "Keep what is done today: no way to make states of the features shows a gain over it on held-out episodes "
        f"({choice.sentence}). More data or other features may."
    )
    return Finding("no-improvement", "serious", choice.gain.low, max(choice.gap, 0.0), np.nan, message)


def of_rows(read: LogRows, fewest: int) -> Finding:
    """Return the finding about a log with fewer than ``fewest`` episodes, and what would be a column of them."""
    message = (
        "The log has no episodes to split, or too few: single observations were split, which hides whatever rows "
        "of one episode have in common, and the past could not be tested. Give a column episode"
    )
    if read.held.ignored and "episode" not in read.held:
        names = ", ".join(repr(name) for name in read.held.ignored[:5])
        message += (
            f"; if one of {names} says which rows belong together, columns={{'episode': ...}} (on the command line: "
            "--columns episode=NAME)"
        )
    return Finding("by-rows", "note", float(read.times.sum()), float(fewest), np.nan, f"{message}.")


def of_promise(honest: HonestValues, best: int) -> list[Finding]:
    """Return findings about the recommended policy: promised against honest value, and against the log."""
    promised, value, error = float(honest.promised[best]), float(honest.honest[best]), float(honest.error[best])
    log = honest.log_of(best)
    today = float(honest.honest[log])
    gain = honest.difference(best, log)
    interval = f"between {honest.low[best]:.4g} and {honest.high[best]:.4g}"
    found = []
    freedom = honest.repeats * (honest.folds - 1)
    worse = float(stdtr(freedom, gain.value / gain.error)) if gain.error else float(gain.value >= 0.0)
    if gain.value < 0.0 and worse <= FALSE_ALARM and float(honest.high[best]) < today:
        message = (
            f"By the other episodes the recommended policy is worse than what was done in the log: {value:.4g} "
            f"({interval}) against {today:.4g}. Do not use it: make fewer, coarser states, or raise min_count and "
            "alpha."
        )
        found.append(Finding("worse-than-log", "serious", gain.value, 0.0, FALSE_ALARM, message))
    gap = (promised - value) / error if error else np.inf * (promised > value)
    if promised <= value or gap <= OVERPROMISE:
        return found
    bettered = promised - float(honest.promised[log])
    confirmed = gain.value / bettered if bettered > 0.0 else 0.0
    facts = (
        f"The model promises {promised:.4g} for the policy that it chose; judged by the episodes that it was not "
        f"chosen from the policy earns {value:.4g} ({interval}), and what was done in the log {today:.4g}"
    )
    if confirmed < CONFIRMED:
        message = (
            f"{facts}. So at most {max(confirmed, 0.0):.0%} of the promised gain is real: the model fits the noise of "
            "its log, or its states do not say all that matters. Make fewer, coarser states, or raise min_count and "
            "alpha."
        )
        found.append(Finding("promise", "serious", gap, OVERPROMISE, np.nan, message))
    else:
        message = f"{facts}. Expect the honest value; more data or fewer states bring the two together."
        found.append(Finding("promise", "note", gap, OVERPROMISE, np.nan, message))
    return found


def of_tests(tests: Sequence[Test], steps: float) -> list[Finding]:
    """Return findings about the Markov property; ``steps`` is the mean discounted length of an episode."""
    found: dict[str, Finding] = {}
    for test in sorted(tests, key=lambda test: (test.what == "next state", test.p)):
        code = _CODES[test.past]
        if test.p > FALSE_ALARM:
            continue
        serious = test.what == "value" and test.effect >= (
            CORRELATED if test.past == "previous surprise" else EXPLAINED
        )
        if code in found and not (serious and found[code].severity == "note"):
            continue
        cure = CURES["episode" if test.past.startswith("episode") else test.past]
        if test.past == "previous surprise":
            effect = f"the surprises of successive steps have a correlation of {test.effect:.2g}"
        elif test.what == "value":
            effect = (
                f"it explains {test.effect:.1%} of what a step leaves open, and shifts the value of a step by about "
                f"{test.worth:.2g} (up to {test.worth * steps:.2g} over an episode)"
            )
        else:
            effect = (
                f"it adds {test.effect:.2g} bits of information about the next state, with little effect on the value"
            )
        by_action = " and the effect of an action differs between episodes" if test.past == "episode and action" else ""
        message = (
            f"The state does not say all that matters: given state and action, {_TELLS[test.past]} still tells what "
            f"comes next{by_action}; {effect}. Cure: {cure}."
        )
        found[code] = Finding(code, "serious" if serious else "note", test.p, FALSE_ALARM, FALSE_ALARM, message)
    return list(found.values())


def of_coverage(
    share: FloatArray, policy: IntArray, visits: FloatArray, read: LogRows, honest: HonestValues, best: int
) -> list[Finding]:
    """Return findings about how much of the policy's time [S] is on pairs that were hardly tried."""
    acting = policy >= 0
    rows = np.where(acting, visits[np.arange(policy.size), np.maximum(policy, 0)], np.inf)
    rare = (rows < FEW_ROWS) & (share > 0.0)
    thin = float(share[rare].sum())
    found = []
    if thin >= THIN:
        worst = np.flatnonzero(rare)[np.argsort(-share[rare], kind="stable")][:SHOWN]
        places = ", ".join(
            f"{read.by_action.show(int(policy[s]))} in {read.by_state.show(int(s))} ({rows[s]:g} rows)"
            for s in worst.tolist()
        )
        message = (
            f"The policy spends {thin:.0%} of its time on actions that were tried fewer than {FEW_ROWS} times in their "
            f"state: {places}. Raise min_count or alpha, make fewer states, or gather data there."
        )
        severity = "serious" if thin >= BARE else "note"
        found.append(Finding("coverage", severity, thin, BARE if thin >= BARE else THIN, np.nan, message))
    unknown = float(honest.unknown[best])
    if unknown >= THIN:
        message = (
            f"Where policies spend {unknown:.0%} of their time, the other episodes never tried what they do, so that "
            "the honest value there is that of the log. The interval allows for it; more data would narrow it."
        )
        found.append(Finding("unconfirmed", "note", unknown, THIN, np.nan, message))
    cut = float(honest.cut[best])
    if cut >= 0.01:
        message = (
            f"{cut:.1%} of the rows lead to states that are never left in their part of the log and are not terminal; "
            "they were left out. Declare what happens there: terminal or absorbing."
        )
        found.append(Finding("cut-off", "note", cut, 0.01, np.nan, message))
    lone = _on_one_or_two_rows(policy, visits, share)
    if lone.any():
        s = int(np.flatnonzero(lone)[np.argmax(share[lone])])
        a, b = int(policy[s]), int(visits[s].argmax())
        message = (
            f"In {int(lone.sum())} states the policy takes an action because of one or two rows although another was "
            f"tried ten times or more, as in {read.by_state.show(s)}: {read.by_action.show(a)} ({visits[s, a]:g} rows) "
            f"in the place of {read.by_action.show(b)} ({visits[s, b]:g} rows). min_count=3 leaves such actions out."
        )
        found.append(Finding("few-rows", "note", float(share[lone].sum()), 0.0, np.nan, message))
    return found


def _on_one_or_two_rows(policy: IntArray, visits: FloatArray, share: FloatArray) -> BoolArray:
    rows = visits[np.arange(policy.size), np.maximum(policy, 0)]
    return np.asarray((policy >= 0) & (rows > 0.0) & (rows <= 2.0) & (visits.max(axis=1) >= 10.0) & (share >= 0.01))


class Reversal(NamedTuple):
    """A state whose recommended action changes if one episode is left out."""

    state: Hashable
    action: Hashable
    instead: Hashable
    episode: Hashable
    time: float  # share of time in the state


def of_reversals(reversals: Sequence[Reversal]) -> list[Finding]:
    """Return the finding that recommendations rest on single episodes."""
    time = sum(reversal.time for reversal in reversals)
    if time < THIN:
        return []
    first = reversals[0]
    message = (
        f"In {len(reversals)} {'state' if len(reversals) == 1 else 'states'} ({time:.0%} of the time) the recommended "
        f"action changes if a single episode is left out: without episode {first.episode!r}, {first.instead!r} and not "
        f"{first.action!r} is best in {first.state!r}. Look at this episode; both actions may be about as good."
    )
    return [Finding("one-episode", "note", time, THIN, np.nan, message)]
