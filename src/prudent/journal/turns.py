"""What a process does in its turn to append to the log: rewards, windows that close, changes of the bandit."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .store import Entry, Place, Report, Taken, Turn

_LATE = 3600.0  # seconds by which a decision may become visible after decisions that are younger
_EXPIRED = json.dumps({"expired": True})


class Window(NamedTuple):
    """How long rewards are held, and what is learned if none has come.

    Attributes
    ----------
    seconds : float
        Length of the window after a decision.
    default : float
        Reward that is learned at its end.
    provisional : bool
        Whether a later report replaces an earlier one.
    """

    seconds: float
    default: float
    provisional: bool

    @classmethod
    def of(cls, settings: dict[str, Any]) -> Window | None:
        """Return the window of a journal with these settings; None if rewards are learned at once."""
        if settings.get("window") is None:
            return None
        return cls(float(settings["window"]), float(settings["default"]), bool(settings["provisional"]))


class Answer(NamedTuple):
    """What became of a report, and the entry to be learned, with its decision."""

    status: str
    entry: Entry | None = None
    taken: Taken | None = None


def rewards(
    places: Sequence[Place | None], values: Sequence[float], writer: int, at: float, window: Window | None
) -> Callable[[Turn], list[Answer]]:
    """Return the plan that records rewards of decisions."""

    def plan(turn: Turn) -> list[Answer]:
        found, seen = list[Answer](), set[Place]()
        for place, value in zip(places, values, strict=True):
            answer = Answer("unknown") if place is None else _rewarded(turn, place, value, writer, at, window)
            again = answer.status == "ok" and place in seen  # in the same call
            found.append(Answer("duplicate") if again else answer)
            if place is not None:
                seen.add(place)
        return found

    return plan


def _rewarded(turn: Turn, place: Place, value: float, writer: int, at: float, window: Window | None) -> Answer:
    taken = turn.decisions.get(place[:2])
    if taken is None or place[2] >= positions(taken):
        return Answer("unknown")
    known, held = turn.rewards.get(place), turn.reports.get(place)
    if known is not None:
        if known[1] == at and (known.writer, known.reward) == (writer, value):  # written before the connection broke
            return Answer("ok", known, taken)
        return Answer("late" if known.options == _EXPIRED else "duplicate")
    if window is None:
        return Answer("ok", append_reward(turn, place, value, writer, at), taken)
    if at >= taken.time + window.seconds:
        return Answer("duplicate" if held is not None else "late")
    if held is not None and not window.provisional:
        return Answer("ok" if (held.time, held.reward) == (at, value) else "duplicate")
    turn.report(Report(*place, at, value))
    return Answer("ok" if held is None else "revised")


def append_reward(turn: Turn, place: Place, value: float, writer: int, at: float, options: str | None = None) -> Entry:
    """Append a reward to the log and return its entry."""
    stream, number, position = place
    return turn.append(
        "reward", writer, at, stream=stream, number=number, place=position, reward=value, options=options
    )


def positions(taken: Taken) -> int:
    """Return the length of the slate of a decision."""
    return len(json.loads(taken.options)["slate"]) if taken.options and '"slate"' in taken.options else 1


class Sweeper:
    """Closes windows: what was reported is learned, and the default where nothing was."""

    def __init__(self, window: Window) -> None:
        self._window, self._done = window, 0.0

    def plan(self, writer: int, at: float, limit: int) -> Callable[[Turn], int]:
        """Return the plan that closes the windows that have ended, at most ``limit``; it returns how many."""

        def closed(turn: Turn) -> int:
            before, after = at - self._window.seconds, self._done - _LATE
            found = turn.open_before(before, after, limit)
            held = turn.held_before(before, after) if found else {}
            for taken, position in found:
                place = (taken.stream, taken.number, position)
                report = held.get(place)
                value = self._window.default if report is None else report.reward
                append_reward(turn, place, value, writer, at, _EXPIRED if report is None else None)
            self._done = found[-1][0].time if len(found) >= limit else before
            return len(found)

        return closed
