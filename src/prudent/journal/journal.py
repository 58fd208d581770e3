"""A bandit whose decisions and rewards are written down before they are returned, by one process or by many machines.

Every process has a replica of the bandit. It decides from its replica at once, and learns rewards in the order of the
log that all processes share; ``prudent.journal.store`` explains why decisions need no order and are repeatable anyway.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import repeat
from typing import Any

import numpy as np

from .._support.checks import instance_of, positive
from .._support.progress import Progress
from ..bandits.bandit import LinearBandit
from ..bandits.decision import Arm, Decision
from ..bandits.fading import seconds_of
from ..bandits.shared import SharedLinearBandit
from ..errors import DataError, ParameterError, PrudentError
from ..types import ContextLike
from .base import counting
from .changes import JournalChanges
from .codec import clock_of, reward_number
from .reading import ArmsThen
from .replica import Lag
from .store import Entry, Job, New, Taken, id_of, place_of
from .turns import rewards

_STEP = 500  # entries that are learned before one decision, at most
_NO_NOTE = (None, None)
_TOGETHER = 256  # decisions that are taken together, at most
_PATIENCE = 100  # tries to name features before another process does


class Journal(JournalChanges):
    """A bandit that writes every decision and reward to a store and survives crashes.

    When `select` or `reward` has returned, its event is in the store: it survives ``kill -9`` and, as far as SQLite or
    PostgreSQL guarantee it, power loss. A reward is learned exactly once, however often, late and in whichever order
    rewards are reported. Processes decide at the same time, each from its own replica, and learn rewards in one order.

    Parameters
    ----------
    path : path-like or str
        An SQLite file on a local disk, for processes of one machine; or the address of a PostgreSQL database,
        ``"postgresql://..."``, for many machines (needs ``prudent[postgres]``).
    bandit : LinearBandit or SharedLinearBandit, optional
        Starts a new journal, with a copy of this bandit. An existing journal needs none, and refuses one that does not
        fit (other arms, features, settings, or rewards learned elsewhere).
    synchronous : {"FULL", "NORMAL"}, default="FULL"
        With ``"NORMAL"`` the last calls before a power cut may be lost, and in PostgreSQL also those before a crash of
        its server, never the store; calls are much faster.
    snapshot_every : int, default=10000
        Number of rewards between snapshots.
    timeout : float, default=30
        Seconds to wait for other writers, or for a server that restarts.
    key : bytes, optional
        Secret of at least 16 bytes that signs all events of a new journal (HMAC-SHA256, chained). Who writes to a
        signed journal must have the key; reading it works without.
    window : timedelta or float, optional
        Time after a decision, in seconds if it is a number, during which rewards are held: what was reported is learned
        when the window closes, and `default` if nothing was. The default is to learn rewards when they are reported.

    Other Parameters
    ----------------
    default : float, default=0
        Reward that is learned when the window closes and none was reported.
    provisional : bool, default=False
        Let a later report replace an earlier one until the window closes.
    name : str, optional
        Name of the journal in a PostgreSQL database, which holds many. The default is ``"journal"``.
    answer : {"after commit", "before commit"}, default="after commit"
        With ``"before commit"`` `select` returns at once and decisions are committed together within `group` seconds.
        What is not committed is lost if the process dies: rewards of such decisions are ``"unknown"``.
    group : float, default=0.005
        Seconds after which decisions are committed with ``answer="before commit"``, or 256 of them if that is sooner.

    Raises
    ------
    ParameterError
        If an argument is out of range, or `bandit` or `window` does not fit the journal.
    StateFileError
        If the store is damaged, or not a journal.
    JournalError
        If input or output fails (disk full, permission, lock timeout, server away). It is safe to retry.

    Notes
    -----
    Threads may share a journal. So may processes, forked or not: each opens the same path. The files ``PATH-wal`` and
    ``PATH-shm`` belong to an SQLite journal as long as a process has it open, and after a crash.

    Examples
    --------
    >>> import tempfile
    >>> import prudent as pr
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = f"{folder.name}/decisions.db"
    >>> with Journal(path, pr.LinearBandit(["red", "blue"], dim=2, rng=7)) as live:
    ...     decision = live.select([1.0, 0.5], note={"user": "u17"})
    ...     live.reward(decision.id, 12.5), live.reward(decision.id, 12.5), live.reward("1-0000000000000000", 3.0)
    ('ok', 'duplicate', 'unknown')
    >>> with Journal(path) as live:  # after a restart
    ...     live.bandit.pulls[decision.arm]
    1
    >>> folder.cleanup()
    """

    # -- decisions -----------------------------------------------------------------------------------------

    def select(
        self,
        context: ContextLike | None = None,
        arms: Iterable[Arm] | None = None,
        top: int | None = None,
        *,
        key: str | None = None,
        note: Mapping[str, Any] | None = None,
    ) -> Any:
        """Choose among the eligible arms and record the decision.

        Parameters
        ----------
        context : context
            Context [D]; or contexts [T, D], which give T decisions that are recorded together, all or none: several
            times faster than one by one. With a SharedLinearBandit the features [k, D] of the candidates. Features may
            have names, as in ``select`` of the bandit; names that are new are recorded too.
        arms : iterable, optional
            Eligible arms, by default all; with a SharedLinearBandit names of the candidates.
        top : int, optional
            Length of the slate of a SharedLinearBandit.
        key : str, optional
            Key of the request. The same key gives the same decision again, also from another process, so a request
            that timed out can be sent again.
        note : mapping, optional
            What you want to know of the decision later, such as the user; values that JSON can hold. It is stored and
            exported, and can be erased.

        Returns
        -------
        Decision or list of Decision
            A decision has an ``id`` to report its reward by, unique over all processes; its ``propensity`` is recorded.
            Every position of a slate has its own id in ``decision.ids``.

        Raises
        ------
        DataError
            If the context is invalid, or `key` was used with another context. Nothing is recorded then.
        ParameterError
            If `arms`, `top`, `key` or `note` is invalid.
        JournalError
            If input or output fails.

        Examples
        --------
        >>> import tempfile
        >>> import prudent as pr
        >>> with tempfile.TemporaryDirectory() as folder, Journal(f"{folder}/j", pr.LinearBandit(2, dim=1)) as live:
        ...     decisions = live.select([[1.0], [2.0], [3.0]])
        ...     first, again = live.select([1.0], key="request 7"), live.select([1.0], key="request 7")
        ...     live.reward([decision.id for decision in decisions], [0.5, 1.0, 1.5]), first.id == again.id
        (['ok', 'ok', 'ok'], True)
        >>> with tempfile.TemporaryDirectory() as folder, Journal(f"{folder}/j", pr.SharedLinearBandit(1)) as live:
        ...     slate = live.select([[1.0], [2.0], [3.0]], arms=["a", "b", "c"], top=2)
        ...     live.reward(slate.ids, [0.5, 1.0]), live.reward(slate.ids[1], 1.0)
        (['ok', 'ok'], 'duplicate')
        """
        names = arms if arms is None or isinstance(arms, str) or not isinstance(arms, Iterable) else list(arms)
        text, digest = _note_text(note)
        name = None if key is None else json.dumps(instance_of(key, "key", str))
        slate = {} if top is None else {"top": top}

        def decide(bandit: Any) -> tuple[list[tuple[Decision, New]], bool]:
            if slate and not isinstance(bandit, SharedLinearBandit):
                message = "top is for a SharedLinearBandit: the bandit of this journal chooses one arm"
                raise ParameterError(message, code="no-slate", argument="top", value=top)
            several = bandit.checked_contexts(context, names, **slate)
            if several is not None and (name is not None or note is not None):
                message = "key and note are for one decision, and context holds several"
                raise ParameterError(message, code="many-contexts", argument="key" if name is not None else "note")
            if several is None:
                return [self._decided(bandit, context, names, slate, name, digest)], False
            progress = Progress("deciding")
            made = [] if names is not None or slate else self._decided_together(bandit, several, repeat((None, None)))
            for one in several[len(made) :]:
                made.append(self._decided(bandit, one, names, slate, name, digest))
                progress.show(f"decision {len(made)}")
            progress.close()
            return made, True

        made, several = self._in_state(decide, [context])
        if text is not None:
            made[0][1].note = text
        if name is not None:
            earlier = self._store.by_key(name)
            if earlier is not None:
                return self._again(earlier, *made[0])
        self._write(Job([new for _, new in made]), now=name is not None)
        if name is not None and made[0][1].earlier is not None:
            return self._again(made[0][1].earlier, *made[0])
        decisions = [decision for decision, _ in made]
        return decisions if several else decisions[0]

    def select_each(self, requests: Sequence[Mapping[str, Any]]) -> list[Decision | PrudentError]:
        """Take decisions for requests that have nothing to do with each other, and record them in one commit.

        Parameters
        ----------
        requests : sequence of mapping
            Arguments of `select` for one decision each: ``context``, ``arms``, ``top``, ``key``, ``note``. With
            ``sticky`` true, a key that was used answers the first decision also if context or arms are others now.

        Returns
        -------
        list of Decision or PrudentError
            For each request its decision, or the error that `select` would raise.

        Raises
        ------
        JournalError
            If input or output fails: no request has an answer then.

        Examples
        --------
        >>> import tempfile
        >>> import prudent as pr
        >>> with tempfile.TemporaryDirectory() as folder, Journal(f"{folder}/j", pr.LinearBandit(2, dim=1)) as live:
        ...     found = live.select_each([{"context": [1.0], "key": "a"}, {"context": ["?"]}])
        >>> [type(one).__name__ for one in found]
        ['Decision', 'DataError']
        """
        found: list[Any] = [None] * len(requests)
        ready = list[Any]()
        for i, request in enumerate(requests):
            note, key = request.get("note"), request.get("key")
            if note is None and key is None:
                ready.append((i, request, None, None, None))
                continue
            try:
                text, digest = _note_text(note)
                name = None if key is None else json.dumps(instance_of(key, "key", str))
                ready.append((i, request, text, name, digest))
            except PrudentError as error:
                found[i] = error

        def decide(bandit: Any) -> list[tuple[int, Decision, New]]:
            plain, rows, rest, made = list[Any](), list[Any](), list[Any](), []
            names = bandit.features if bandit.encoder is None else None
            for one in ready:
                row = _plain_row(one[1], names)
                (rest if row is None else plain).append(one)
                if row is not None:
                    rows.append(row)
            together = self._decided_together(bandit, rows, [one[3:] for one in plain])
            for (i, _, text, _, _), (decision, new) in zip(plain, together, strict=False):
                new.note = text
                made.append((i, decision, new))
            for i, request, text, name, digest in plain[len(together) :] + rest:
                context, arms, top = request.get("context"), request.get("arms"), request.get("top")
                slate = {} if top is None else {"top": top}
                found[i] = None
                if type(context) is list and context and type(context[0]) is float:
                    with suppress(TypeError, ValueError, OverflowError):  # which select reports
                        context = np.array(context, dtype=np.float64)
                try:
                    if slate and not isinstance(bandit, SharedLinearBandit):
                        message = "top is for a SharedLinearBandit: the bandit of this journal chooses one arm"
                        raise ParameterError(message, code="no-slate", argument="top", value=top)
                    if bandit.checked_contexts(context, arms, **slate) is not None:
                        message = "context holds several contexts: give one in each request"
                        raise DataError(message, code="many-contexts", argument="context")
                    decision, new = self._decided(bandit, context, arms, slate, name, digest)
                except PrudentError as error:
                    found[i] = error
                    continue
                new.note = text
                made.append((i, decision, new))
            return made

        made = self._in_state(decide, [request.get("context") for _, request, *_ in ready])
        if made:
            self._write(Job([new for _, _, new in made]), now=any(new.row.key is not None for _, _, new in made))
        for i, decision, new in made:
            found[i] = decision
            if new.earlier is None:
                continue
            try:
                found[i] = self._again(new.earlier, decision, new, bool(requests[i].get("sticky")))
            except PrudentError as error:
                found[i] = error
        return found

    def _in_state(self, decide: Any, contexts: list[Any]) -> Any:
        """Return what ``decide`` gives with the replica.

        Before, names, what ``Features`` learn from ``contexts`` and evidence that fades are written to the log.
        """
        self._require_writable()
        self._tend()
        faded = False
        for _ in range(_PATIENCE):
            with self._lock:
                bandit = self._current(_STEP)
                tick, features, seq = bandit.due(time.time()), bandit.features, self._replica.seq
                tick = None if faded else tick
                result, news = None, bandit.feature_news(contexts)
                if tick is None and news is None:
                    self._replica.bandit = None  # to be rebuilt if something interrupts this
                    try:
                        result = decide(bandit)
                    except PrudentError:
                        self._replica.bandit = bandit if bandit.features == features else None
                        raise
                    found = bandit.features
                    if found == features:  # else the first context with names: others must know them first
                        self._replica.bandit = bandit
                        return result
            if tick is not None:
                self._append("fade", {"tick": tick})
                faded = True
            elif news is not None:
                self._append("learn_features", {"learned": news}, only_after=seq)
            else:
                self._append("name_features", {"features": found}, only_after=seq)
        raise self._store.failed("other processes changed the bandit again and again; try again", "lock-timeout")

    def _decided(
        self, bandit: Any, context: Any, arms: Any, slate: dict[str, int], key: str | None, note: bytes | None
    ) -> tuple[Decision, New]:
        """Take one decision and return it with what is to be written, with the lock held."""
        at, position = time.time(), bandit.position
        before = bandit.clock() if counting(bandit) else None
        decision: Decision = bandit.select(context, arms, **slate)
        clock = None if before is None else clock_of(bandit, before, decision.arms)
        self._number += 1
        state = (self._stream, self._number, at, self._replica.seq, position)
        new = self._replica.codec.write(bandit, decision, state, clock, key, note)
        decision.time, decision.id = at, new.row.id
        if decision.candidates is not None:
            places = range(len(decision.slate))
            decision.ids = tuple(id_of((self._stream, self._number, place)) for place in places)
        return decision, new

    def _decided_together(
        self, bandit: Any, contexts: Sequence[Any], about: Iterable[Sequence[Any]]
    ) -> list[tuple[Decision, New]]:
        """Take the first of several decisions between all arms; it may be none. ``about`` are their keys and notes."""
        made: list[tuple[Decision, New]] = []
        if len(contexts) < 2 or not isinstance(bandit, LinearBandit) or counting(bandit):
            return made
        asked = iter(about)
        for first in range(0, len(contexts), _TOGETHER):
            some = contexts[first : first + _TOGETHER]
            try:
                decisions, positions = bandit.select_each(np.array(some, dtype=np.float64))
            except (TypeError, ValueError, OverflowError):
                break
            at, seq, write = time.time(), self._replica.seq, self._replica.codec.write_plain
            for decision, position, names in zip(decisions, positions, asked, strict=False):
                self._number += 1
                new = write(decision, (self._stream, self._number, at, seq, position), names)
                decision.time, decision.id = at, new.row.id
                made.append((decision, new))
            if len(decisions) < len(some):
                break
        return made

    def _again(self, earlier: Taken, decision: Decision, new: New, sticky: bool = False) -> Decision:
        """Return the decision that was recorded with a key; ``decision`` is the one that would have been taken now."""
        try:
            choice = self._replica.codec.read(earlier)
            now = self._replica.codec.read(new.row) if not new.contents else None
        except (TypeError, ValueError, RecursionError, AttributeError) as error:
            raise self._replica.broken(f"decision {earlier.id}", error, event=earlier.number) from error
        same = earlier.context == new.row.context and earlier.arms == new.row.arms
        if not sticky and (not same or (now is not None and len(now.slate) != len(choice.slate))):
            text = f"key {json.loads(earlier.key or '')!r} was used for a decision with another context or other arms"
            raise DataError(text, code="key-reused", argument="key", id=earlier.id)
        if choice.arms is None:  # all that there were then
            choice = choice._replace(arms=ArmsThen(self._store.changes()).at(earlier.seq))
        arms = tuple(choice.arms or ())
        places = [arms.index(arm) for arm in choice.slate]
        found = Decision.recorded(arms, places, choice.scores, earlier.propensity, decision)
        found.time, found.id = earlier.time, earlier.id
        if found.candidates is not None:
            found.ids = tuple(id_of((*earlier[:2], place)) for place in range(len(places)))
        return found

    def record(
        self,
        context: ContextLike | None,
        arm: Arm,
        propensity: float,
        reward: float | None = None,
        *,
        note: Mapping[str, Any] | None = None,
    ) -> str:
        """Record a decision that somebody else has taken, and learn its reward if it is known.

        Parameters
        ----------
        context : context
            Context [D]; with a SharedLinearBandit the features [D] of the item.
        arm : str or int
            Arm that was chosen, or name of the item.
        propensity : float
            Probability with which it was chosen.
        reward : float, optional
            Its reward; it may also be reported later.
        note : mapping, optional
            As in `select`.

        Returns
        -------
        str
            Id of the decision. `verify` does not take it again: nobody knows how it was taken.

        Raises
        ------
        DataError
            If the context or the reward is invalid.
        ParameterError
            If the arm is unknown, or `propensity` is not in (0, 1].
        """
        chance = positive(propensity, "propensity")
        if chance > 1.0:
            message = f"propensity must be a probability, got {propensity!r}"
            raise ParameterError(message, code="probability-range", argument="propensity", value=propensity)
        text, digest = _note_text(note)

        def decide(bandit: Any) -> New:
            if reward is not None:
                bandit.require_rewards(reward, np.array([reward_number(reward, "reward")]))
            given = context if isinstance(bandit, LinearBandit) else [context]
            if bandit.checked_contexts(given, [arm]) is not None:
                message = "context holds several contexts: record one decision at a time"
                raise DataError(message, code="many-contexts", argument="context")
            _, new = self._decided(bandit, given, [arm], {}, None, digest)
            new.row = new.row._replace(propensity=chance, score=None, options=json.dumps({"given": True}))
            return new

        new = self._in_state(decide, [[context]])
        new.note = text
        self._write(Job([new]))
        if reward is not None:
            self.reward(new.row.id, reward)
        return str(new.row.id)

    # -- rewards -------------------------------------------------------------------------------------------

    def reward(self, id: str | Sequence[str], reward: float | Sequence[float]) -> Any:
        """Report the reward of a decision; it is learned if it is the first report.

        Parameters
        ----------
        id : str or sequence of str
            Id of a decision, or ids; several are recorded together, all or none.
        reward : float or sequence of float
            Its reward, or rewards. -0.0 is recorded as 0.0.

        Returns
        -------
        str or list of str
            ``"ok"``; ``"duplicate"`` if the decision already had a reward, which stays; ``"unknown"`` if there is no
            such decision; ``"arm removed"`` if the bandit no longer has the arm, and ``"not learned"`` if the context
            is so large that the posterior would be lost to rounding: the reward is recorded, and nothing is learned.
            With a window also ``"revised"`` if it replaces an earlier report, and ``"late"`` if the window has closed:
            then the default was learned, and the reward is not recorded.

        Raises
        ------
        DataError
            If a reward is not a finite number of the right kind. Nothing is recorded then.
        ParameterError
            If an id is not a string.
        JournalError
            If input or output fails.
        """
        several = hasattr(id, "__len__") and not isinstance(id, (str, bytes))
        ids: Any = id if several else [id]
        given: Any = reward if several else [reward]
        if not hasattr(given, "__len__") or isinstance(given, (str, bytes)) or len(ids) != len(given):
            text = f"reward must have one number for each of the {len(ids)} ids, got {reward!r}"[:300]
            raise DataError(text, code="wrong-shape", argument="reward", expected=len(ids))
        values = [reward_number(number, f"reward[{i}]" if several else "reward") for i, number in enumerate(given)]
        places = [place_of(instance_of(one, "id", str)) for one in ids]
        self._require_writable()
        self._tend()
        with self._lock:
            bandit = self._current(0)
            if not bandit.belief.any_reward:
                bandit.require_rewards(reward, np.array(values, dtype=np.float64))
        plan = rewards(places, values, self._stream, time.time(), self._window)
        wanted = [place for place in places if place is not None]
        answers = self._write(Job(plan=plan, wanted=wanted)).result
        failed = self._learn([(answer.entry, answer.taken) for answer in answers if answer.entry is not None])
        statuses = [answer.status if answer.entry is None else failed.get(answer.entry.seq, "ok") for answer in answers]
        return statuses if several else statuses[0]

    def reward_each(self, reports: Sequence[tuple[str, float]]) -> list[str | PrudentError]:
        """Report rewards that have nothing to do with each other, in one commit.

        Parameters
        ----------
        reports : sequence of (str, float)
            Ids and rewards.

        Returns
        -------
        list of str or PrudentError
            For each report what `reward` returns, or the error that it would raise.

        Raises
        ------
        JournalError
            If input or output fails: no report has an answer then.

        Examples
        --------
        >>> import tempfile
        >>> import prudent as pr
        >>> with tempfile.TemporaryDirectory() as folder, Journal(f"{folder}/j", pr.LinearBandit(2, dim=1)) as live:
        ...     found = live.reward_each([(live.select([1.0]).id, 1.0), ("1-0000000000000000", float("inf"))])
        >>> found[0], found[1].code
        ('ok', 'not-finite')
        """
        self._require_writable()
        with self._lock:
            bandit = self._current(0)
        found: list[Any] = [None] * len(reports)
        sound = []
        for i, (id, reward) in enumerate(reports):
            try:
                instance_of(id, "id", str)
                bandit.require_rewards(reward, np.array([reward_number(reward, "reward")]))
                sound.append(i)
            except PrudentError as error:
                found[i] = error
        if sound:
            statuses = self.reward([reports[i][0] for i in sound], [reports[i][1] for i in sound])
            for i, status in zip(sound, statuses, strict=True):
                found[i] = status
        return found

    def catch_up(self) -> Lag:
        """Learn what other processes have written, close windows that have ended, write snapshots that are due.

        Every call does so in passing. A process that rests calls this now and then, so that its next decision need not.

        Returns
        -------
        Lag
            How far the replica is behind the log afterwards.

        Examples
        --------
        >>> import tempfile
        >>> import prudent as pr
        >>> with tempfile.TemporaryDirectory() as folder, Journal(f"{folder}/j", pr.LinearBandit(2, dim=1)) as live:
        ...     live.catch_up()
        Lag(entries=0, seconds=0.0)
        """
        self._require_writable()
        self._tend()
        with self._lock:
            replica = self._replica
            if replica.bandit is None or self._store.behind(replica.seq):
                self._current(None)
        return self.lag

    def _learn(self, entries: list[tuple[Entry, Taken | None]]) -> dict[int, str]:
        """Learn up to these entries, and return those that were not learned, with the reason."""
        if not entries:
            return {}
        numbers, replica = [entry.seq for entry, _ in entries], self._replica
        with self._lock:
            self._require_open()
            if replica.bandit is not None and numbers == list(range(replica.seq + 1, replica.seq + 1 + len(numbers))):
                replica.learn(entries)  # nobody else has written: they need not be read
            elif replica.seq < max(numbers) or replica.bandit is None:
                self._current(None)
            return {seq: self._unlearned.pop(seq) for seq in numbers if seq in self._unlearned}

    def expire(self, now: datetime | float | None = None) -> int:
        """Close the windows that have ended: learn what was reported, or the default.

        Calls do so in passing, a hundred at a time; call it now and then if there are long pauses.

        Parameters
        ----------
        now : datetime or float, optional
            Time up to which windows have ended (seconds since 1970). The default is now.

        Returns
        -------
        int
            Number of rewards that were learned.

        Raises
        ------
        ParameterError
            If the journal has no window.
        """
        self._require_writable()
        if self._sweeper is None:
            text = "expire is for a journal with a window: open it with window=timedelta(...)"
            raise ParameterError(text, code="no-window", argument="window")
        at, total = time.time() if now is None else seconds_of(now, "now"), 0
        while count := self._sweep(at, 2000):
            total += count
        with self._lock:
            self._current(None)
        return total


def _note_text(note: Mapping[str, Any] | None) -> tuple[str | None, bytes | None]:
    """Return the text of a note, with a salt so that its digest tells nothing once it is erased, and the digest."""
    if note is None:
        return _NO_NOTE
    try:
        if not isinstance(note, Mapping) or not all(isinstance(name, str) for name in note):
            raise TypeError("names must be strings")
        text = json.dumps({"salt": secrets.token_hex(16), "note": dict(note)}, allow_nan=False)
    except (TypeError, ValueError) as error:
        message = f"note must be a mapping of strings to what JSON can hold, got {note!r} ({error})"[:300]
        raise ParameterError(message, code="wrong-type", argument="note") from None
    return text, hashlib.sha256(text.encode()).digest()


def _plain_row(request: Mapping[str, Any], names: Sequence[str] | None) -> list[float] | None:
    """Return the context of a request for all arms, if that is a list of numbers or has the numbers of all names."""
    context = request.get("context")
    if type(context) is dict and names is not None and len(context) == len(names):
        context = [context.get(name) for name in names]
        if not {*map(type, context)} <= {int, float}:
            return None
    elif type(context) is not list or not context or type(context[0]) is not float:
        return None
    alone = len(request) == 1 or (request.get("arms") is None and request.get("top") is None)
    return context if alone else None
