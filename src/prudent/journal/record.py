"""What a journal says of its decisions: rows, tables, states of the past, explanations, verification."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from .._support.checks import instance_of, one_of
from ..bandits.decision import Arm
from ..bandits.fading import seconds_of
from ..errors import ParameterError, PrudentWarning
from ..types import PathLike
from .audit import Verification, verified
from .base import StoredBandit
from .codec import AnyBandit, Choice
from .export import Row, table_of, write_rows
from .reading import decision_rows
from .replica import Lag, Replica
from .store import Job, Taken, id_of, place_of
from .turns import positions

if TYPE_CHECKING:
    import pandas

    from ..bandits.explain import Explanation

_ALL = 2**31


class JournalRecord(StoredBandit):
    """What can be read from a journal; base class of ``Journal``."""

    @property
    def bandit(self) -> AnyBandit:
        """Copy of the current bandit, with all rewards of all processes and a random stream of its own."""
        with self._lock:
            bandit = self._current(None)
            self._replica.count_others(self._stream)
            self._replica.use_counts()
            return bandit.copy(stream=0)

    @property
    def lag(self) -> Lag:
        """How far the replica of this process is behind the log: entries that it has not learned, and their age.

        Every call learns what is new first, so the lag is that of a process that rests. Nothing is learned by looking.

        Examples
        --------
        >>> import tempfile
        >>> import prudent as pr
        >>> with tempfile.TemporaryDirectory() as folder, pr.Journal(f"{folder}/j", pr.LinearBandit(2, dim=1)) as live:
        ...     other = pr.Journal(f"{folder}/j")
        ...     _ = other.reward(other.select([1.0]).id, 1.0)
        ...     found = live.lag.entries, other.lag.entries
        ...     other.close()
        >>> found
        (1, 0)
        """
        with self._lock:
            self._require_open()
            return self._replica.lag()

    def rows(self, *, damaged: str = "raise", since: datetime | float | None = None) -> Iterator[Row]:
        """Iterate over all decisions up to now, in the order in which they were written, and in little memory.

        Parameters
        ----------
        damaged : {"raise", "skip"}, default="raise"
            What to do at an event that is damaged: raise an error that names it, or warn and go on with the rest.
        since : datetime or float, optional
            Only decisions from this time on (seconds since 1970).

        Yields
        ------
        dict of str to object
            id, time, context, arms, arm, propensity, score, reward, reward_time and note. Times are seconds since 1970;
            reward and reward_time are None as long as no reward is learned. Of a SharedLinearBandit there is a row for
            each position of a slate: its context is the features of the item, its ``place`` counts from 0, and it has
            the ``features`` of all candidates. Further positions have no propensity.

        Examples
        --------
        >>> import tempfile
        >>> import prudent as pr
        >>> with tempfile.TemporaryDirectory() as folder, pr.Journal(f"{folder}/j", pr.LinearBandit(2, dim=1)) as live:
        ...     _ = live.reward(live.select([2.0]).id, 1.0), live.select([3.0], arms=[0])
        ...     [(row["context"], row["arms"], row["reward"]) for row in live.rows()]
        [([2.0], [0, 1], 1.0), ([3.0], [0], None)]
        """
        skip = one_of(damaged, "damaged", ("raise", "skip")) == "skip"
        first = None if since is None else seconds_of(since, "since")
        with self._aside() as replica:
            bandit = self.bandit
            yield from decision_rows(replica.store, replica, self._require_open, skip, first, bandit)

    def to_pandas(self, *, damaged: str = "raise", since: datetime | float | None = None) -> pandas.DataFrame:
        """Return `rows` as a DataFrame.

        Parameters
        ----------
        damaged : {"raise", "skip"}, default="raise"
            As in `rows`.
        since : datetime or float, optional
            As in `rows`.

        Returns
        -------
        pandas.DataFrame
            One row for each decision, times as timestamps in UTC. What the journal is is in ``attrs["prudent"]``.
        """
        table = table_of(self.rows(damaged=damaged, since=since), self._replica.codec.columns)
        table.attrs["prudent"] = self.about()
        return table

    def export(self, path: PathLike, *, damaged: str = "raise", since: datetime | float | None = None) -> int:
        """Write `rows` to a file, in little memory.

        Parameters
        ----------
        path : path-like
            A ``.parquet`` (needs pyarrow), ``.csv`` or ``.jsonl`` file, which is replaced atomically. In CSV, contexts
            and arms are JSON lists. What the journal is (`about`) is in the metadata of a Parquet file, and beside
            others in ``PATH.meta.json``; ``from_log`` reads it back.
        damaged : {"raise", "skip"}, default="raise"
            As in `rows`.
        since : datetime or float, optional
            As in `rows`.

        Returns
        -------
        int
            Number of rows.

        Raises
        ------
        ParameterError
            If the format is unknown.
        """
        rows = self.rows(damaged=damaged, since=since)
        return write_rows(rows, path, self._replica.codec.columns, partial(self._names, damaged), self.about())

    def about(self) -> dict[str, Any]:
        """Return what the rows of this journal are: kind of bandit, features, arms, settings, version of the schema.

        Returns
        -------
        dict
            Values that JSON can hold; exports carry it.
        """
        bandit = self.bandit
        values, _ = bandit.state()
        return {
            "schema": 1,
            "kind": type(bandit).__name__,
            "features": None if bandit.encoder is not None or bandit.features is None else list(bandit.features),
            "retired": list(bandit.retired),
            "encoder": None if bandit.encoder is None else bandit.encoder.to_dict(),
            "dim": bandit.dim,
            "intercept": bandit.intercept,
            "arms": values["arms"],
            "rewards": bandit.reward_kind,
            "noise_sd": values["belief"].get("noise_sd"),
            **{name: values["belief"][name] for name in ("interactions",) if name in values["belief"]},
            "settings": values["settings"],
            "limits": values.get("limits"),
            "half_life": values["half_life"],
            "window": self._store.settings.get("window"),
            "default": self._store.settings.get("default"),
        }

    def _names(self, damaged: str) -> set[Arm]:
        """Return all arms that ever were, or all candidates."""
        if self._replica.codec.items:
            return {name for row in self.rows(damaged=damaged) for name in row["arms"]}
        return {name for entry in self._store.changes() for name in json.loads(entry.arms or "[]")}

    # -- the past ------------------------------------------------------------------------------------------

    def _found(self, replica: Replica, id: str) -> tuple[Taken, Choice]:
        """Return a decision by its id."""
        place = place_of(instance_of(id, "id", str))
        taken = None if place is None else replica.store.decision(*place[:2])
        if taken is None:
            text = (
                f"id is {id!r}, and there is no such decision in {self.path}: it was dropped, or is of another journal"
            )
            raise ParameterError(text, code="unknown-decision", argument="id", value=id)
        try:
            return taken, replica.codec.read(taken)
        except (TypeError, ValueError, RecursionError, AttributeError) as error:
            raise replica.broken(f"decision {id}", error, event=taken.number) from error

    def knows(self, id: str) -> bool:
        """Return whether a decision is in the record.

        Parameters
        ----------
        id : str
            Id of the decision, or of a position on its slate.

        Returns
        -------
        bool
            False if there is no such decision, or it was dropped.

        Examples
        --------
        >>> import tempfile
        >>> import prudent as pr
        >>> with tempfile.TemporaryDirectory() as folder, pr.Journal(f"{folder}/j", pr.LinearBandit(2, dim=1)) as live:
        ...     live.knows(live.select([1.0]).id), live.knows("1-0000000000000000")
        (True, False)
        """
        place = place_of(instance_of(id, "id", str))
        self._require_open()
        self._writer.flush()
        taken = None if place is None else self._store.decision(*place[:2])
        return taken is not None and place is not None and place[2] < positions(taken)

    def as_of(self, when: str | datetime | float) -> AnyBandit:
        """Return the bandit as it was: the state from which a decision was taken, or that of a time.

        Parameters
        ----------
        when : str or datetime or float
            Id of a decision, or a time (seconds since 1970).

        Returns
        -------
        LinearBandit or SharedLinearBandit
            Of an id, ``select`` with the context and arms of the decision gives that decision again, bit by bit. Of a
            time, the bandit has learned all rewards up to it and has a random stream of its own.

        Raises
        ------
        ParameterError
            If there is no such decision.
        StateFileError
            If rewards that it needs were dropped.

        Examples
        --------
        >>> import tempfile
        >>> import prudent as pr
        >>> with tempfile.TemporaryDirectory() as folder, pr.Journal(f"{folder}/j", pr.LinearBandit(2, dim=1)) as live:
        ...     decision = live.select([1.0])
        ...     _ = [live.reward(live.select([x]).id, x) for x in (1.0, 2.0, 3.0)]
        ...     then = live.as_of(decision.id)
        >>> then.n_rewards, then.select([1.0]).score == decision.score
        (0, True)
        """
        if not isinstance(when, str):
            at = seconds_of(when, "when")
            with self._aside() as replica:
                return replica.state_at(replica.store.last_before(at)).copy(stream=0)
        with self._aside() as replica:
            return self._state_of(replica, *self._found(replica, when))

    def _state_of(self, replica: Replica, taken: Taken, choice: Choice) -> AnyBandit:
        """Return the bandit that took a decision, as it was then."""
        bandit = replica.state_at(taken.seq)
        if choice.clock is not None:
            bandit.set_clock(choice.clock["decisions"], dict(choice.clock["tries"]))
        return bandit.seek(taken.stream, taken.position)

    def explain(self, id: str) -> Explanation:
        """Return why a decision was taken, from the state that took it.

        Parameters
        ----------
        id : str
            Id of the decision.

        Returns
        -------
        Explanation
            Words and tables, as of ``explain`` of the bandit: what each feature added to the score of the arm that was
            chosen, and what was known of every eligible arm then.

        Raises
        ------
        ParameterError
            If there is no such decision.
        """
        with self._aside() as replica:
            taken, choice = self._found(replica, id)
            bandit = self._state_of(replica, taken, choice)
        place = place_of(id)
        arm = choice.slate[place[2] if place is not None and place[2] < len(choice.slate) else 0]
        return bandit.explain(choice.context, arm, arms=choice.arms)

    def pending(self, before: datetime | float | None = None) -> list[str]:
        """Return the ids of decisions whose reward is not learned yet, oldest first.

        Parameters
        ----------
        before : datetime or float, optional
            Only decisions before this time (seconds since 1970). The default is all.

        Returns
        -------
        list of str
            Ids; of a slate one for each position without a reward.
        """
        until = 1e18 if before is None else seconds_of(before, "before")
        with self._aside() as replica, replica.store.reading():
            found = replica.store.open_rows(until, 0.0, _ALL)
        return [id_of((taken.stream, taken.number, place)) for taken, place in found]

    def erase(self, note: Mapping[str, Any]) -> int:
        """Erase the notes of decisions, for instance all of a user.

        Contexts, decisions and rewards stay, and with them what was learned. Each erased note leaves a tombstone with
        the time, which `verify` accepts.

        Parameters
        ----------
        note : mapping
            Notes that have these values, and perhaps others, are erased: ``{"user": "u17"}``.

        Returns
        -------
        int
            Number of notes that were erased.

        Raises
        ------
        ParameterError
            If `note` is empty: it would match all notes.
        """
        if not isinstance(note, Mapping):
            raise ParameterError(f"note must be a mapping, got {note!r}", code="wrong-type", argument="note")
        wanted = dict(note)
        if not wanted:
            raise ParameterError("note is empty: it would match all notes", code="empty", argument="note")
        self._require_writable()
        self._writer.flush()
        places = [
            (stream, number)
            for notes in self._store.all_notes()
            for stream, number, text in notes
            if wanted.items() <= json.loads(text)["note"].items()
        ]
        at = time.time()
        if places:
            stream, text = self._stream, json.dumps({"count": len(places)})
            self._write(Job(erased=places, plan=lambda turn: turn.append("erase", stream, at, options=text)))
        return len(places)

    # -- verification --------------------------------------------------------------------------------------

    def verify(self) -> Verification:
        """Take every decision again from the state that took it, and compare it with the record.

        Every recorded choice, score (to 1e-9 of itself) and propensity (to 1e-6) must be what the bandit decides there,
        times must not go back by more than an hour, and all snapshots and the live bandit must be what the log
        gives. Checksums of all events, their signatures if there are any, notes and the structure of the store are
        checked as well. Dropped events (see `compact`) cannot be verified.

        Returns
        -------
        Verification
            Number of decisions, an int, with what was compared and what could not be (``gaps``).

        Raises
        ------
        StateFileError
            If an event, a snapshot or the live bandit differs, or an event is missing, damaged or wrongly signed.

        Warns
        -----
        PrudentWarning
            If the first snapshot is gone, so that earlier events cannot be verified.
        """
        with self._aside() as replica:
            replica.store.require_sound()
            with self._lock:
                live, last = self._current(None).copy(), self._replica.seq
            found = verified(replica.store, replica, live, last)
        if any(not gap.startswith(("events are not", "decisions that")) for gap in found.gaps):
            message = f"{self.path}: not everything can be verified: {'; '.join(found.gaps)}"
            warnings.warn(PrudentWarning(message, code="not-verified", path=self.path), stacklevel=2)
        return found

    @property
    def signature(self) -> str | None:
        """Signature of the last entry of the log as 64 hexadecimal digits, which stands for all; None if not signed.

        Keep it elsewhere now and then: it shows later that no rewards were removed at the end.
        """
        self._require_open()
        with self._store.reading():
            return self._store.signature()

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of decisions, of entries of the log, and of rewards among them.

        Rows that were counted are not read again, so it is quick also where there are millions.
        """
        self._require_open()
        with self._store.reading():
            return self._tally.counts()
