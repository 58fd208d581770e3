"""Decisions as events of a journal, and events as decisions and rewards: one codec for arms and for items.

A decision is written as ``Decision.record()`` gives it: one event for each place of its slate, so that each place has
an id and a reward of its own; an arm is a slate of one. The first event holds the context [D], or the features [k, D]
of all candidates, and the names of the eligible arms or candidates unless they are all arms or 0 to k - 1. A further
event holds the features of its item alone. A slate of several items is listed in the options of its first event; the
options of the others say which event that is and which place they have.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .._support.checks import FloatArray
from .._support.state import saved_kind
from ..bandits.bandit import LinearBandit
from ..bandits.decision import Arm, Decision
from ..bandits.kernels.step import LARGEST
from ..bandits.shared import SharedLinearBandit
from ..errors import DataError, ParameterError, PrudentError
from .export import COLUMNS, SHARED_COLUMNS, Row
from .file import Event

AnyBandit = LinearBandit | SharedLinearBandit
CALLS = ("add_arm", "remove_arm", "forget", "name_features")  # changes of a bandit that are recorded


class Entry(NamedTuple):
    """What the event of a decision records: one place of its slate."""

    arm: Arm
    arms: list[Arm] | None  # eligible arms or candidates; None for all arms
    context: FloatArray  # [D] of arms; features [k, D] of candidates
    point: FloatArray  # [D], what the reward of the arm is learned with
    slate: list[Arm]
    place: int  # position on the slate, from 0
    first: int  # number of the event of place 0


class Codec:
    """How decisions of a bandit are written and read. Methods that read events raise ValueError if they cannot."""

    def __init__(self, bandit: AnyBandit) -> None:
        self.items = isinstance(bandit, SharedLinearBandit)
        self.columns = SHARED_COLUMNS if self.items else COLUMNS
        self._dim = bandit.dim

    def write(
        self,
        bandit: AnyBandit,
        decision: Decision,
        seq: int,
        at: float = 0.0,
        writer: int = 0,
        chance: float | None = None,
    ) -> list[Event]:
        """Return the events of a decision at a time, the first with number ``seq`` and the propensity ``chance``."""
        every = bandit.arms if isinstance(bandit, LinearBandit) else tuple(range(len(decision.arms)))
        entries, events = decision.record(), []
        for entry in entries:
            place, arms, options = entry["place"], entry["arms"], None
            if place:
                options = json.dumps({"of": seq, "place": place})
            elif len(entries) > 1:
                options = json.dumps({"slate": decision.slate})
            eligible = None if arms is None or arms == every else json.dumps(arms)
            context = entry["context"].astype("<f8", copy=False).tobytes()
            arm, score = _name_json(entry["arm"]), entry["score"]
            event = Event(
                seq + place, at, "decision", writer, None, arm, eligible, context, score, chance, None, options
            )
            events.append(event)
            chance = None  # of the other places
        return events

    def read(self, event: Event) -> Entry:
        """Return what the event of a decision records."""
        arm, options = json.loads(event.arm or ""), json.loads(event.options or "{}")
        arms = None if event.arms is None else json.loads(event.arms)
        if type(arm) not in (str, int) or not isinstance(options, dict) or not isinstance(arms, (list, type(None))):
            raise ValueError(f"its arm is {arm!r}, its options are {options!r}, and arms must be a list, got {arms!r}")
        slate, place, first = options.get("slate", [arm]), options.get("place", 0), options.get("of", event.seq)
        if not isinstance(slate, list) or type(place) is not int:
            raise ValueError(f"its slate is {slate!r}, and it is on place {place!r}")
        context = point = np.frombuffer(event.context or b"", "<f8")
        if self.items:
            context = context.reshape(-1, self._dim)
            if arms is None:
                arms = [arm] if place else list(range(len(context)))
            if len(arms) != len(context):
                raise ValueError(f"its {len(context)} candidates are {arms!r}")
            point = context[arms.index(arm)]
        return Entry(arm, arms, context, point, slate, place, first)

    def decide(self, bandit: Any, event: Event) -> Decision | None:
        """Take the decision of an event again; return None if the event is a further place of one."""
        entry = self.read(event)
        if entry.first != event.seq:
            return None
        top = {"top": len(entry.slate)} if self.items else {}
        return bandit.select(entry.context, entry.arms, **top, **timed(bandit, event.time))

    def learn(self, bandit: AnyBandit, decision: Event, reward: Any) -> bool:
        """Learn a reward of the decision of an event; return whether the bandit still has the arm."""
        entry = self.read(decision)
        if isinstance(bandit, LinearBandit) and entry.arm not in bandit.arms:
            return False
        bandit.update(entry.point, entry.arm, reward, **timed(bandit, decision.time))
        return True


class RowReader:
    """Events but rewards, in order, as rows of a table."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._every: list[Arm] = []  # arms of the bandit
        self._latest: Entry | None = None  # place 0 of the slate, or the first place that compaction has kept

    def row(self, event: Event, reward: Event | None) -> Row | None:
        """Return the row of a decision with its reward; None for another event."""
        if event.kind != "decision":
            self._every = json.loads(event.arms or "")
            return None
        entry = self._codec.read(event)
        if self._latest is None or self._latest.first != entry.first:
            self._latest = entry
        row = {
            "id": event.id,
            "time": event.time,
            "context": entry.point.tolist(),
            "arms": list(self._every if self._latest.arms is None else self._latest.arms),
            "arm": entry.arm,
            "propensity": event.propensity,
            "score": event.score,
            "reward": None if reward is None else reward.reward,
            "reward_time": None if reward is None else reward.time,
        }
        return row | {"place": entry.place, "features": self._latest.context.tolist()} if self._codec.items else row


@lru_cache(4096, typed=True)
def _name_json(name: Arm) -> str:
    """Return the name of an arm as JSON."""
    return json.dumps(name)


def bandit_of(content: bytes, name: str) -> AnyBandit:
    """Return the bandit of a snapshot; ``name`` is what errors call it."""
    shared = saved_kind(content) == "SharedLinearBandit"
    return SharedLinearBandit.from_bytes(content, name) if shared else LinearBandit.from_bytes(content, name)


def difference(event: Event, again: Event, score: bool = False) -> str:
    """Return how an event differs from that of its replayed decision; "" if it does not.

    With ``score``, scores are compared too; they may differ by 1e-9 of themselves.
    """
    names = [name for name in ("arm", "options", "context") if getattr(event, name) != getattr(again, name)]
    replayed = again.score or 0.0
    if score and not (event.score is not None and abs(event.score - replayed) <= 1e-9 * abs(replayed)):
        names.append("score")
    recorded, given = (", ".join(f"{name} {getattr(one, name)!r}" for name in names) for one in (event, again))
    return f"recorded with {recorded}, but replaying it gives {given}" if names else ""


def timed(bandit: AnyBandit, at: float) -> dict[str, Any]:
    """Return the argument ``time`` of a bandit whose evidence fades with time."""
    half = bandit.half_life
    return {} if half is None or half.unit == "decisions" else {"time": at}


def propensity_of(decision: Decision) -> float | None:
    """Return the propensity of a decision, or None if its settings define none."""
    try:
        return decision.propensity
    except ParameterError:  # not defined for these settings
        return None


def warm_up(twin: Any) -> None:
    """Decide and learn once, so that kernels are compiled now and not while other processes wait."""
    shared = isinstance(twin, SharedLinearBandit)
    point = np.zeros((2, twin.dim) if shared else twin.dim)
    with suppress(PrudentError):  # settings that do not allow so few or so many arms, say
        for reward in (0.0, 1.0, 0.0):  # before and after the first data
            decision: Decision = twin.select(point, [0, 1] if shared else None)
            propensity_of(decision)
            twin.update(decision.context, decision.arm, reward)


def reward_number(reward: Any, name: str) -> float:
    """Return a reward as a finite float."""
    try:
        value = float("nan") if isinstance(reward, (str, bytes)) or np.ndim(reward) else float(reward)
    except (TypeError, ValueError, OverflowError):
        value = float("nan")
    if not abs(value) <= LARGEST:
        text = f"{name} is {reward!r}, expected a finite number of at most {LARGEST}"
        raise DataError(text, code="not-finite", argument="reward", value=reward)
    return value + 0.0  # SQLite does not know -0.0
