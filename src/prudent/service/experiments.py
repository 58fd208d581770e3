"""Experiments of a slot: who decides for whom, what may be said at any time, and what is done about it.

The traffic of a slot is divided by a hash of one field of the note, the *unit* (a user, say), with a secret salt of the
experiment. Each part has a journal of its own:

    hold-out      the lowest part of the hashes, decided by a fixed distribution over the arms;
    challenger    the highest part, its ramp, decided by another bandit;
    champion      the rest, decided by the bandit of the slot.

A larger ramp keeps the units that were in it. The part of a unit is no random event once the salt is drawn: **the
propensity of a decision is the probability of its arm given the part of its unit**, floors, caps and the fixed share
of a control arm included (``prudent.bandits.limits``), and the state of the replica that decided. Within a part rewards
are compared with propensities as usual; between parts, by units, which the salt has divided at random.

*Sticky* decisions: requests of one unit within a window get the first decision again, with its id and its propensity.
The window of a unit begins at a time of its own, by hash. It is one decision, with one reward.

*Shadows* see the contexts of the champion's decisions and learn from its rewards, and do not act. The distribution that
a shadow would have chosen from is recorded in the note of the decision, before the arm is drawn, so its weight never
depends on the reward. Shadows are replayed from the journal, by every process for itself.

*Rules* rest on confidence sequences, so looking at any time is allowed: promote if the lower limit of challenger minus
champion exceeds a number, stop if the upper limit is below one, pause if a guardrail metric is refuted. Each interval
has the confidence of the experiment by itself.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from ..bandits.bandit import LinearBandit
from ..bandits.decision import Decision
from ..bandits.explain import Explanation
from ..errors import DataError, ParameterError, PrudentError
from ..journal import Journal, Lag
from .experiment_specs import CHALLENGER, CHAMPION, HOLDOUT, ExperimentSpec, ExperimentState
from .experiment_statistics import statistics
from .experiment_store import Change, ExperimentStore
from .problems import ServiceError
from .registry import Registry

_MARK = "~"  # between the part and the id of a decision that the champion has not taken
_MOST = 10**6  # arms
_REFRESH = 1.0  # seconds between looks at the state of the experiment, which another process may have changed


def position_of(salt: str, *what: Any) -> float:
    """Return a number in [0, 1) that a unit has for ever: its place in the traffic of an experiment.

    >>> position_of("salt", "u17") == position_of("salt", "u17"), 0.0 <= position_of("salt", "u17") < 1.0
    (True, True)
    """
    text = json.dumps([salt, *what], default=str)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) / 2.0**64


class Experiment:
    """An experiment on a slot. It decides and takes rewards in place of the journal of the slot.

    Parameters
    ----------
    registry : Registry
        Where journals and the state of the experiment are kept.
    slot : str
        Name of the slot.
    champion : Journal
        Journal of the slot.
    options : dict, optional
        Options of new journals: ``window``, ``default``, ``provisional``.
    """

    def __init__(self, registry: Registry, slot: str, champion: Journal, options: dict[str, Any] | None = None) -> None:
        self._registry, self._slot, self._options = registry, slot, options or {}
        self._store = ExperimentStore(registry)
        self._lock, self._looking = threading.RLock(), threading.Lock()
        self._journals: dict[str, Journal] = {}  # by name
        self._champion = self._given = champion
        self._shadows: dict[str, LinearBandit] = {}
        self._learned: set[str] = set()
        self._read = 0.0
        self._change: Change | None = None
        self.refresh()

    # -- state ---------------------------------------------------------------------------------------------

    @property
    def state(self) -> ExperimentState | None:
        """The experiment as it is; None if there never was one."""
        return None if self._change is None else self._change.state

    @property
    def version(self) -> int:
        """Number of the last change; 0 if there was none."""
        return 0 if self._change is None else self._change.number

    @property
    def divided(self) -> bool:
        """Whether several bandits decide or look on, which must have the same arms and features."""
        state = self._current()
        return state is not None and not state.ended

    @property
    def champion(self) -> Journal:
        """Journal of the champion."""
        return self._champion

    def refresh(self) -> None:
        """Read the state, which another process may have changed, and open its journals."""
        last = self._store.last(self._slot)
        with self._lock:
            self._read = time.monotonic()
            if last is None or (self._change is not None and last.number == self._change.number):
                return
            before = self.state
            self._change = last
            state = last.state
            if before is None or state.salt != before.salt:
                self._shadows, self._learned = {}, set()
            for name in {state.champion, *state.journals.values(), *state.retired} - set(self._journals):
                if before is None and name == state.champion:
                    self._journals[name] = self._champion
                else:
                    self._journals[name] = self._registry.journal(name)
            self._champion = self._journals[state.champion]
            self._shadows = {
                name: self._shadows.get(name) or _bandit_of(spec.bandit(_MOST))
                for name, spec in state.spec.shadows.items()
            }

    def _current(self) -> ExperimentState | None:
        if time.monotonic() - self._read > _REFRESH:
            self.refresh()
        return self.state

    def _written(self, who: str, what: str, detail: dict[str, Any], state: ExperimentState, **slot: Any) -> None:
        """Append a change to the audit log; raise if another request was faster."""
        number = self.version
        if not self._store.append(self._slot, number, who, what, detail, state, **slot):
            self.refresh()
            text = f"the experiment of slot {self._slot!r} was changed by another request"
            raise ServiceError(text, code="slot-changed", slot=self._slot)
        self.refresh()

    def _required(self) -> ExperimentState:
        self.refresh()
        if self.state is None:
            raise ServiceError(f"slot {self._slot!r} has no experiment", code="unknown-experiment", slot=self._slot)
        return self.state

    # -- changes -------------------------------------------------------------------------------------------

    def put(self, spec: ExperimentSpec, who: str, champion_name: str = "") -> ExperimentState:
        """Start an experiment, or change the running one: ramp, rules, guardrails, sticky window, limits.

        Parameters
        ----------
        spec : ExperimentSpec
            What to do.
        who : str
            Name of the key that asks.
        champion_name : str, default=""
            Name of the slot's journal in the registry.

        Returns
        -------
        ExperimentState
            The new state.
        """
        self.refresh()
        with self._lock:
            bandit = _bandit_of(self._champion.bandit)
            spec.check(bandit.arms)
            old = self.state
            running = old is not None and old.status in ("running", "paused")
            if old is not None and running:
                for name in ("unit", "challenger", "shadows", "holdout"):
                    if getattr(spec, name) != getattr(old.spec, name):
                        text = f"the experiment runs with another {name}: stop it first"
                        raise ServiceError(text, code="slot-exists", slot=self._slot, argument=name)
                state = msgspec.structs.replace(old, spec=spec, status="running")
            else:
                retired = [] if old is None else [*old.retired, *old.journals.values()]
                name = champion_name if old is None else old.champion
                limits = (None, None) if bandit.limits is None else bandit.limits.arguments()
                state = ExperimentState(spec, "running", secrets.token_hex(16), time.time(), name, {}, retired, limits)
                others = {f"shadows.{name}": _bandit_of(one.bandit(_MOST)) for name, one in spec.shadows.items()}
                if spec.challenger is not None:
                    others[CHALLENGER] = _bandit_of(spec.challenger.bandit(_MOST))
                for label, other in others.items():
                    _require_alike(label, other, bandit)
                if CHALLENGER in others:
                    state.journals[CHALLENGER] = self._made(others[CHALLENGER])
                if spec.holdout is not None:
                    state.journals[HOLDOUT] = self._made(spec.holdout.bandit(bandit))
            if not state.champion:
                text = "champion_name is missing: the name of the slot's journal in the registry"
                raise ParameterError(text, code="missing-argument", argument="champion_name")
            wanted = spec.limits(bandit.arms)
            before = old.spec.limits(bandit.arms) if old is not None and running else (None, None)
            if wanted != before:
                self._champion.set_limits(*(state.limits if wanted == (None, None) else wanted))
            what = "change" if running else "start"
            self._written(who, what, {"spec": msgspec.to_builtins(spec)}, state)
        assert self.state is not None
        return self.state

    def _made(self, bandit: LinearBandit) -> str:
        name = self._registry.new_name()
        self._journals[name] = self._registry.journal(name, bandit, **self._options)
        return name

    def set_status(self, status: str, who: str, reason: str = "") -> ExperimentState:
        """Run, pause or stop the experiment; its challenger acts only while it runs."""
        state = self._required()
        if state.ended and status != state.status:
            text = f"the experiment of slot {self._slot!r} has ended ({state.status}): start another one"
            raise ServiceError(text, code="experiment-ended", slot=self._slot)
        if state.status != status:
            champion = self._champion
            self._written(who, status, {"reason": reason}, msgspec.structs.replace(state, status=status))
            if status == "stopped":
                _restore_limits(champion, state)
        return self._required()

    def promote(self, who: str, reason: str = "") -> ExperimentState:
        """Make the challenger the champion. Late rewards of the old champion's decisions go to its own journal."""
        state = self._required()
        name = state.journals.get(CHALLENGER)
        if name is None or state.ended:
            text = f"the experiment of slot {self._slot!r} has no challenger that could be promoted ({state.status})"
            raise ServiceError(text, code="experiment-ended", slot=self._slot)
        rest = {part: one for part, one in state.journals.items() if part != CHALLENGER}
        new = msgspec.structs.replace(
            state, status="promoted", champion=name, journals=rest, retired=[*state.retired, state.champion]
        )
        assert state.spec.challenger is not None
        spec = msgspec.json.encode(state.spec.challenger).decode()
        detail = {"reason": reason, "from": state.champion, "to": name}
        champion = self._champion
        self._written(who, "promote", detail, new, journal=name, spec=spec)
        _restore_limits(champion, state)
        return self._required()

    def rollback(self, who: str, to: str | datetime | float | None = None, reason: str = "") -> ExperimentState:
        """Return the champion to an earlier state.

        Parameters
        ----------
        who : str
            Name of the key that asks.
        to : str or datetime or float, optional
            Id of a decision or a time (seconds since 1970): the champion goes on from what it knew then, in a new
            journal. The default is the journal before the last promotion or rollback, with all that it has learned.
        reason : str, optional
            For the audit log.

        Returns
        -------
        ExperimentState
            The new state. An experiment that ran has stopped.
        """
        state = self._required()
        if to is None:
            earlier = [name for name in state.retired if name != state.champion]
            if not earlier:
                text = f"slot {self._slot!r} has no earlier champion: give to=, a time or the id of a decision"
                raise ServiceError(text, code="no-earlier", slot=self._slot, argument="to")
            name = earlier[-1]
        else:
            with self._lock:
                then = self._found(to, Journal.as_of) if isinstance(to, str) else self._champion.as_of(to)
                name = self._made(_bandit_of(then))
        retired = [one for one in state.retired if one != name]
        ended = state.status if state.ended else "stopped"
        new = msgspec.structs.replace(state, status=ended, champion=name, retired=[*retired, state.champion])
        when = to.isoformat() if isinstance(to, datetime) else to
        detail = {"reason": reason, "to": when, "from": state.champion, "journal": name}
        champions = [self._champion]
        self._written(who, "rollback", detail, new, journal=name)
        if not state.ended:
            for journal in [*champions, self._champion]:
                _restore_limits(journal, state)
        return self._required()

    def audit(self) -> list[dict[str, Any]]:
        """Return all changes, oldest first: number, time, who, what and details."""
        return self._store.audit(self._slot)

    # -- decisions -----------------------------------------------------------------------------------------

    def part_of(self, unit: Any) -> str:
        """Return who decides for a unit now: ``"champion"``, ``"challenger"`` or ``"holdout"``."""
        state = self.state
        if state is None or state.ended:
            return CHAMPION
        place, spec = position_of(state.salt, "part", unit), state.spec
        if HOLDOUT in state.journals and spec.holdout is not None and place < spec.holdout.share:
            return HOLDOUT
        if state.status == "running" and CHALLENGER in state.journals and place >= 1.0 - spec.ramp:
            return CHALLENGER
        return CHAMPION

    def decide(self, requests: list[dict[str, Any]]) -> list[Decision | PrudentError]:
        """Return decisions for requests, or their errors."""
        state = self._current()
        if state is None or state.ended:
            return self._champion.select_each(requests)
        found: list[Any] = [None] * len(requests)
        by_part: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        for i, request in enumerate(requests):
            unit = (request.get("note") or {}).get(state.spec.unit)
            if unit is None or isinstance(unit, dict | list):
                text = f"note must have {state.spec.unit!r}, by which the experiment of this slot divides traffic"
                found[i] = DataError(text, code="missing-unit", argument="note", expected=state.spec.unit)
                continue
            if "experiment" in request["note"]:
                text = "note has 'experiment', which the experiment of this slot writes itself: use another name"
                found[i] = DataError(text, code="reserved-name", argument="note", value="experiment")
                continue
            part = self.part_of(unit)
            by_part.setdefault(part, []).append((i, self._asked(state, part, unit, request)))
        for part, chosen in by_part.items():
            journal = self._journal_of(state, part)
            answers = journal.select_each([request for _, request in chosen])
            again = [
                k for k, (one, (i, _)) in enumerate(zip(answers, chosen, strict=True))
                if isinstance(one, Decision) and requests[i].get("arms") is not None
                and one.arm not in requests[i]["arms"]
            ]  # fmt: skip
            if again:  # the first decision of a sticky unit is not eligible now
                plain = [{**chosen[k][1], "key": requests[chosen[k][0]].get("key"), "sticky": False} for k in again]
                for k, one in zip(again, journal.select_each(plain), strict=True):
                    answers[k] = one
            for one, (i, _) in zip(answers, chosen, strict=True):
                if isinstance(one, Decision) and part != CHAMPION:
                    one.id = f"{part}{_MARK}{one.id}"
                found[i] = one
        return found

    def _journal_of(self, state: ExperimentState, part: str) -> Journal:
        return self._champion if part == CHAMPION else self._journals[state.journals[part]]

    def _asked(self, state: ExperimentState, part: str, unit: Any, request: dict[str, Any]) -> dict[str, Any]:
        """Return a request with what the experiment adds: its note and the key of a sticky decision."""
        about: dict[str, Any] = {"part": part, "version": self.version}
        if part == CHAMPION and self._shadows:
            about["shadows"] = {
                name: _distribution(bandit, request.get("context"), request.get("arms"))
                for name, bandit in self._shadows.items()
            }
        asked = {**request, "note": {**request["note"], "experiment": about}}
        if state.spec.sticky is not None:
            window = int(time.time() / state.spec.sticky + position_of(state.salt, "window", unit))
            digest = hashlib.blake2b(json.dumps([state.salt, unit, window]).encode(), digest_size=16).hexdigest()
            asked |= {"key": f"sticky-{digest}", "sticky": True}
        return asked

    # -- rewards -------------------------------------------------------------------------------------------

    def reward(self, reports: list[tuple[str, float, str | None]]) -> list[str | PrudentError]:
        """Return the status of each reward, or its error. A metric is a guardrail of the experiment."""
        state = self._current()
        found: list[Any] = [None] * len(reports)
        by_part: dict[str, list[int]] = {}
        for i, (id, value, metric) in enumerate(reports):
            if metric is not None:
                found[i] = self._metric(state, id, value, metric)
            else:
                by_part.setdefault(id.partition(_MARK)[0] if _MARK in id else CHAMPION, []).append(i)
        for part, places in by_part.items():
            for journal in self._rewarded_by(state, part):
                pairs = [(reports[i][0].rpartition(_MARK)[2], reports[i][1]) for i in places]
                for i, status in zip(places, _rewarded(journal, pairs), strict=True):
                    found[i] = status
                places = [i for i in places if found[i] == "unknown"]
                if not places:
                    break
        return ["unknown" if one is None else one for one in found]

    def _rewarded_by(self, state: ExperimentState | None, part: str) -> list[Journal]:
        """Return the journals that may have a decision, the likeliest first."""
        if state is None:
            return [self._champion]
        names = [] if part == CHAMPION else [state.journals[part]] if part in state.journals else []
        return [self._journals[name] for name in dict.fromkeys([*names, state.champion, *reversed(state.retired)])]

    def _metric(self, state: ExperimentState | None, id: str, value: float, metric: str) -> Any:
        guardrail = None if state is None else state.spec.guardrails.get(metric)
        if guardrail is None:
            text = f"metric is {metric!r}, and the experiment of this slot has no such guardrail"
            return DataError(text, code="unknown-metric", argument="metric", value=metric)
        low, high = guardrail.range
        if not low <= value <= high:
            text = f"reward is {value}, outside the range {(low, high)} of the metric {metric!r}"
            return DataError(text, code="value-range", argument="reward", value=value)
        part, mark, rest = id.partition(_MARK)
        own = rest if mark else id
        if not any(journal.knows(own) for journal in self._rewarded_by(state, part if mark else CHAMPION)):
            return "unknown"
        return "ok" if self._store.report(self._slot, id, metric, value) else "duplicate"

    # -- what is known -------------------------------------------------------------------------------------

    def look(self) -> dict[str, Any]:
        """Return what may be said now, with intervals that hold at all times, and what the rules recommend.

        Shadows learn what is new. It reads the decisions since the start of the experiment.
        """
        state = self._required()
        parts = {CHAMPION: self._champion} | {part: self._journals[name] for part, name in state.journals.items()}
        rows = {part: self._rows(journal, state) for part, journal in parts.items()}
        with self._looking:
            for row in rows[CHAMPION] if self._shadows else ():
                if row["reward"] is not None and row["id"] not in self._learned:
                    self._learned.add(row["id"])
                    for shadow in self._shadows.values():
                        if row["arm"] in shadow.arms:
                            shadow.update(row["context"], row["arm"], row["reward"])
        bandit = _bandit_of(parts[CHAMPION].bandit)
        return statistics(state, rows, self._store.metrics(self._slot), bandit)

    def _rows(self, journal: Journal, state: ExperimentState) -> list[dict[str, Any]]:
        return [row for row in journal.rows(since=state.started, damaged="skip") if "experiment" in (row["note"] or {})]

    def _found(self, id: str, ask: Callable[[Journal, str], Any]) -> Any:
        """Return what ``ask`` gives with the journal that has taken a decision and the id that it has there."""
        part, mark, rest = id.partition(_MARK)
        for journal in self._rewarded_by(self._current(), part if mark else CHAMPION):
            try:
                return ask(journal, rest if mark else id)
            except ParameterError as error:
                if error.code != "unknown-decision":
                    raise
        text = f"id is {id[:60]!r}, and slot {self._slot!r} has no such decision: it was dropped, or is of another slot"
        raise ParameterError(text, code="unknown-decision", argument="id", value=id[:60])

    def explain(self, id: str) -> Explanation:
        """Return why a decision was taken, whichever part and champion has; raise if there is none with this id."""
        why: Explanation = self._found(id, lambda journal, own: journal.explain(own))
        return why

    def rows(self, since: float | None) -> Iterator[dict[str, Any]]:
        """Iterate over the decisions of all parts and of earlier champions, with the ids that callers were given."""
        state = self._current()
        names = [] if state is None else [*state.retired, state.champion, *state.journals.values()]
        for journal in [self._journals[name] for name in dict.fromkeys(names)] or [self._champion]:
            for row in journal.rows(since=since, damaged="skip"):
                about = (row["note"] or {}).get("experiment")
                part = about.get("part") if isinstance(about, dict) else None
                yield row | {"id": f"{part}{_MARK}{row['id']}"} if part in (CHALLENGER, HOLDOUT) else row

    def catch_up(self) -> Lag:
        """Learn what is new and close windows that have ended, in all parts; return how far the champion is behind."""
        with self._lock:
            others = [journal for journal in self._journals.values() if journal is not self._champion]
        for journal in others:
            with suppress(PrudentError):  # requests for it say so; the slot goes on without it
                journal.catch_up()
        return self._champion.catch_up()

    def act(self, who: str = "rule") -> dict[str, Any]:
        """Look, and do what the rules recommend; return what was seen, with ``done``."""
        found = self.look()
        actions: dict[str, Callable[[], Any]] = {
            "promote": lambda: self.promote(who, found["reason"]),
            "stop": lambda: self.set_status("stopped", who, found["reason"]),
            "pause": lambda: self.set_status("paused", who, found["reason"]),
        }
        action = actions.get(found["recommended"] or "")
        if action is not None and self._required().status == "running":
            action()
            found["done"] = found["recommended"]
        return found

    def describe(self) -> dict[str, Any]:
        """Return the state as JSON can hold it, without the salt."""
        state = self._required()
        found: dict[str, Any] = msgspec.to_builtins(state)
        found.pop("salt")
        return found | {"slot": self._slot, "version": self.version}

    def close(self, *, given: bool = False) -> None:
        """Close the journals that the experiment has opened, and with ``given`` the one that it was given."""
        with self._lock:
            for journal in {*self._journals.values(), self._given}:
                if given or journal is not self._given:
                    journal.close()
            self._journals = {}


def _bandit_of(bandit: Any) -> LinearBandit:
    if not isinstance(bandit, LinearBandit):
        text = "an experiment is for a slot of arms: kind must be 'arms'"
        raise ParameterError(text, code="conflicting-arguments", argument="kind")
    return bandit


def _restore_limits(journal: Journal, state: ExperimentState) -> None:
    """Give a champion the limits that it had before the experiment, if that has changed them."""
    if state.spec.limits() != (None, None):
        journal.set_limits(*state.limits)


def _require_alike(label: str, other: LinearBandit, bandit: LinearBandit) -> None:
    """Raise unless a challenger or shadow has the arms, features and rewards of the slot."""
    for name, mine, theirs in (
        ("arms", sorted(map(str, bandit.arms)), sorted(map(str, other.arms))),
        ("dim", bandit.dim, other.dim),
        ("rewards", bandit.reward_kind, other.reward_kind),
    ):
        if mine != theirs:
            text = f"{label}.{name} must be that of the slot, {mine}, got {theirs}"
            raise ParameterError(text, code="different-bandits", argument=f"{label}.{name}", value=theirs)


def _distribution(bandit: LinearBandit, context: Any, arms: Any) -> dict[str, float]:
    """Return what a shadow would choose from; nothing if it cannot read the context."""
    try:
        names = bandit.arms if arms is None else tuple(arms)
        chances = bandit.propensities([] if context is None and bandit.dim == 0 else context, arms)
        return {str(name): float(chance) for name, chance in zip(names, chances, strict=True)}
    except (PrudentError, TypeError, ValueError):
        return {}


def _rewarded(journal: Journal, pairs: list[tuple[str, float]]) -> list[Any]:
    """Return the status of each reward, or its error."""
    try:
        return list(journal.reward([id for id, _ in pairs], [value for _, value in pairs]))
    except (DataError, ParameterError):  # one of them is not valid: nothing of the call was recorded
        found: list[Any] = []
        for pair in pairs:
            try:
                found.append(journal.reward(*pair))
            except (DataError, ParameterError) as error:
                found.append(error)
        return found
