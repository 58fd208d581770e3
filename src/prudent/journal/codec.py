"""How decisions and rewards of each kind of bandit become events of a journal, and events decisions and rewards again.

A decision of a `LinearBandit` is one event: its context [D], the eligible arms if they are not all, the arm. One
of a `SharedLinearBandit` holds the features [k,D] of all candidates and their names, unless these are 0 to
k - 1. A slate of several items is followed by one event for each further place, which holds the features of its item
alone: so each place has an id of its own, and its reward is an event like any other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from .._support.checks import FloatArray
from .._support.state import saved_kind
from ..bandits.bandit import LinearBandit
from ..bandits.decision import Arm, Decision
from ..bandits.shared import SharedLinearBandit
from ..errors import ParameterError
from .export import COLUMNS, SHARED_COLUMNS, Row
from .file import Event

__all__ = ["AnyBandit", "AnyDecision", "Records", "ReplayedDecision", "arm_of", "bandit_of", "records_of"]


AnyBandit = LinearBandit | SharedLinearBandit
AnyDecision = Decision


class ReplayedDecision(NamedTuple):
    """What an event records of a decision, and what the bandit decides when the event is replayed."""

    what: str  # noun for what is compared
    recorded: Any
    replayed: Any
    arm: Arm  # of the replayed decision
    score: float

    @property
    def same(self) -> bool:
        """Whether both agree, scores aside."""
        return bool(self.recorded == self.replayed)

    def text(self, score: str = "", replayed_score: str = "") -> str:
        """Return both in words, each followed by its score, if any."""
        recorded, replayed = json.dumps(self.recorded), json.dumps(self.replayed)
        return f"recorded with {self.what} {recorded}{score}, but replaying it gives {replayed}{replayed_score}"


Facts = dict[str, Any]  # fields of an event


class Records(Protocol):
    """What a journal must know of a kind of bandit. Methods that read events raise ValueError if they cannot be."""

    @property
    def calls(self) -> tuple[str, ...]:
        """The changes of the bandit that are recorded beside decisions and rewards."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of rows."""

    def arms(self, bandit: Any) -> list[Arm]:
        """Return the arms that there are before decisions name them."""

    def together(self, bandit: Any, context: Any, arms: Any, top: int | None) -> list[Any] | None:
        """Return what several decisions are to be taken in, all of it checked; None if it is one decision.

        If it names features, the bandit knows their names afterwards.
        """

    def select(self, bandit: Any, context: Any, arms: Iterable[Arm] | None, top: int | None, time: Facts) -> Any:
        """Decide."""

    def facts(self, decision: Any, arms: Iterable[Arm] | None, seq: int) -> list[Facts]:
        """Return the events, the first with number ``seq``, that a decision is written down as."""

    def repeat(self, bandit: Any, event: Event, time: Facts) -> Any:
        """Decide again; return None if the event belongs to a decision before it."""

    def require_rewards(self, bandit: Any, reward: Any, values: FloatArray) -> None:
        """Raise unless rewards [T], which the user gave as ``reward``, are of the kind that the bandit learns."""

    def learn(self, bandit: Any, decision: Event, reward: Any, time: Facts) -> bool:
        """Learn a reward of the decision of an event; return whether the bandit still could."""

    def compare(self, event: Event, decision: Any) -> ReplayedDecision:
        """Return what an event records and what a decision gives for it."""

    def rows(self, events: Iterable[tuple[Event, Event | None]]) -> Iterator[Row]:
        """Go through events but rewards, each with its reward, as rows of a table."""


def records_of(bandit: AnyBandit) -> Records:
    """Return how the decisions of a bandit are recorded."""
    return _ItemRecords(bandit.dim) if isinstance(bandit, SharedLinearBandit) else _ArmRecords()


def bandit_of(content: bytes, name: str) -> AnyBandit:
    """Return the bandit of a snapshot; ``name`` is what errors call it."""
    shared = saved_kind(content) == "SharedLinearBandit"
    return SharedLinearBandit.from_bytes(content, name) if shared else LinearBandit.from_bytes(content, name)


def arm_of(event: Event) -> Arm:
    """Return the arm of a decision."""
    arm = json.loads(event.arm or "")
    if type(arm) not in (str, int):
        raise ValueError(f"its arm is {arm!r}")
    return arm


def _row(event: Event, reward: Event | None, context: FloatArray, arms: list[Arm]) -> Row:
    """Return what rows of all kinds hold."""
    return {
        "id": event.id,
        "time": event.time,
        "context": context.tolist(),
        "arms": arms,
        "arm": arm_of(event),
        "propensity": event.propensity,
        "score": event.score,
        "reward": None if reward is None else reward.reward,
        "reward_time": None if reward is None else reward.time,
    }


def _numbers(event: Event) -> FloatArray:
    return np.frombuffer(event.context or b"", "<f8")


def _told(event: Event) -> Facts:
    told = json.loads(event.options or "{}")
    if not isinstance(told, dict):
        raise ValueError(f"its options are {told!r}")
    return told


class _ArmRecords:
    """Records of a LinearBandit."""

    calls = ("add_arm", "remove_arm", "forget", "name_features")
    columns = COLUMNS

    def arms(self, bandit: LinearBandit) -> list[Arm]:
        return list(bandit.arms)

    def together(self, bandit: LinearBandit, context: Any, arms: Any, top: int | None) -> list[Any] | None:
        return bandit.checked_contexts(context, arms)

    def select(
        self, bandit: LinearBandit, context: Any, arms: Iterable[Arm] | None, top: int | None, time: Facts
    ) -> Decision:
        if top is not None:
            text = "top is for a SharedLinearBandit: the bandit of this journal chooses one arm"
            raise ParameterError(text, code="no-slate", argument="top", value=top)
        return bandit.select(context, arms, **time)

    def facts(self, decision: Decision, arms: Iterable[Arm] | None, seq: int) -> list[Facts]:
        told = None if arms is None else json.dumps(decision.arms)
        context = decision.context.astype("<f8", copy=False).tobytes()
        return [{"arms": told, "context": context, "score": decision.score + 0.0}]  # SQLite does not know -0.0

    def repeat(self, bandit: LinearBandit, event: Event, time: Facts) -> Decision:
        arms = None if event.arms is None else json.loads(event.arms)
        return self.select(bandit, _numbers(event), arms, None, time)

    def require_rewards(self, bandit: LinearBandit, reward: Any, values: FloatArray) -> None:
        bandit.require_rewards(reward, values)

    def learn(self, bandit: LinearBandit, decision: Event, reward: Any, time: Facts) -> bool:
        arm = arm_of(decision)
        if arm not in bandit.arms:
            return False
        bandit.update(_numbers(decision), arm, reward, **time)
        return True

    def compare(self, event: Event, decision: Decision) -> ReplayedDecision:
        return ReplayedDecision("arm", arm_of(event), decision.arm, decision.arm, decision.score)

    def rows(self, events: Iterable[tuple[Event, Event | None]]) -> Iterator[Row]:
        arms: list[Arm] = []
        for event, reward in events:
            if event.kind != "decision":
                arms = json.loads(event.arms or "")
            else:
                eligible = list(arms) if event.arms is None else json.loads(event.arms)
                yield _row(event, reward, _numbers(event), eligible)


class _ItemRecords:
    """Records of a SharedLinearBandit with items of so many features."""

    calls = ("forget", "name_features")
    columns = SHARED_COLUMNS

    def __init__(self, dim: int) -> None:
        self._dim = dim

    def arms(self, bandit: SharedLinearBandit) -> list[Arm]:
        return []

    def together(self, bandit: SharedLinearBandit, context: Any, arms: Any, top: int | None) -> list[Any] | None:
        return bandit.checked_contexts(context, arms, top)

    def select(
        self, bandit: SharedLinearBandit, context: Any, arms: Iterable[Arm] | None, top: int | None, time: Facts
    ) -> Decision:
        return bandit.select(context, arms, 1 if top is None else top, **time)

    def facts(self, decision: Decision, arms: Iterable[Arm] | None, seq: int) -> list[Facts]:
        names, slate, scores = decision.arms, decision.slate, decision.scores + 0.0
        first: Facts = {
            "arms": None if names == tuple(range(len(names))) else json.dumps(names),
            "context": np.asarray(decision.candidates).astype("<f8", copy=False).tobytes(),
            "score": float(scores[0]),
        }
        if len(slate) > 1:
            first["options"] = json.dumps({"slate": slate})
        further = [
            {
                "arm": json.dumps(slate[i]),
                "context": decision.chosen[i].astype("<f8", copy=False).tobytes(),
                "score": float(scores[i]),
                "propensity": None,
                "options": json.dumps({"of": seq, "place": i}),
            }
            for i in range(1, len(slate))
        ]
        return [first, *further]

    def repeat(self, bandit: SharedLinearBandit, event: Event, time: Facts) -> Decision | None:
        told = _told(event)
        if "of" in told:
            return None
        names, rows = self._candidates(event)
        return bandit.select(rows, names, len(_slate(event, told)), **time)

    def require_rewards(self, bandit: SharedLinearBandit, reward: Any, values: FloatArray) -> None:
        bandit.require_rewards(reward, values)

    def learn(self, bandit: SharedLinearBandit, decision: Event, reward: Any, time: Facts) -> bool:
        arm, row = arm_of(decision), _numbers(decision)
        if "of" not in _told(decision):
            names, rows = self._candidates(decision)
            row = rows[names.index(arm)]
        bandit.update(row, arm, reward, **time)
        return True

    def compare(self, event: Event, decision: Decision) -> ReplayedDecision:
        told, slate = _told(event), decision.slate
        place = _place(told)
        recorded: list[Any]
        replayed: list[Any]
        if "of" not in told:
            what, recorded, replayed = "slate", list(_slate(event, told)), list(slate)
        elif not 0 < place < len(slate) or told["of"] != event.seq - place:
            raise ValueError(f"it is on place {place!r} of decision {told['of']!r}")
        else:
            what, recorded = "arm and features", [arm_of(event), _numbers(event).tolist()]
            replayed = [slate[place], decision.chosen[place].tolist()]
        return ReplayedDecision(what, recorded, replayed, slate[place], float(decision.scores[place]))

    def rows(self, events: Iterable[tuple[Event, Event | None]]) -> Iterator[Row]:
        seq, names, rows = -1, list[Arm](), np.empty((0, self._dim))  # of the decision that further places belong to
        for event, reward in events:
            if event.kind != "decision":
                continue
            told = _told(event)
            if "of" not in told:
                seq, (names, rows) = event.seq, self._candidates(event)
            elif told["of"] != seq:  # compaction has dropped it, and kept this one
                seq, names, rows = told["of"], [arm_of(event)], _numbers(event).reshape(1, self._dim)
            row = _row(event, reward, rows[names.index(arm_of(event))], list(names))
            yield row | {"place": _place(told), "features": rows.tolist()}

    def _candidates(self, event: Event) -> tuple[list[Arm], FloatArray]:
        """Return names and features [k,D] of the candidates."""
        rows = _numbers(event).reshape(-1, self._dim)
        names = list(range(len(rows))) if event.arms is None else json.loads(event.arms)
        if not isinstance(names, list) or len(names) != len(rows):
            raise ValueError(f"its {len(rows)} candidates are {names!r}")
        return names, rows


def _slate(event: Event, told: Facts) -> list[Arm]:
    slate = told.get("slate", [arm_of(event)])
    if not isinstance(slate, list) or slate[:1] != [arm_of(event)]:
        raise ValueError(f"its slate is {slate!r}")
    return slate


def _place(told: Facts) -> int:
    place = told.get("place", 0)
    if type(place) is not int:
        raise ValueError(f"it is on place {place!r}")
    return place
