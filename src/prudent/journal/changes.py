"""Changes of the bandit of a journal, which all processes make at the same place of the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from ..bandits.decision import Arm
from ..bandits.fading import seconds_of
from .record import JournalRecord
from .store import Job


class JournalChanges(JournalRecord):
    """Changes of the bandit, and of what is kept of the past; base class of ``Journal``."""

    def add_arm(self, arm: Arm, **options: Any) -> None:
        """Add an arm, in all processes.

        Parameters
        ----------
        arm : hashable
            Name of the arm.
        **options
            Options of ``LinearBandit.add_arm``.

        Raises
        ------
        ParameterError
            If the bandit has no arms of its own, or there is such an arm.
        """
        self._append("add_arm", {"arm": arm, **options})

    def remove_arm(self, arm: Arm) -> None:
        """Remove an arm and what was learned of it, in all processes; its decisions and rewards stay recorded.

        Parameters
        ----------
        arm : hashable
            Name of the arm.

        Raises
        ------
        ParameterError
            If there is no such arm.
        """
        self._append("remove_arm", {"arm": arm})

    def forget(self, factor: float) -> None:
        """Multiply all evidence by a factor, in all processes.

        Parameters
        ----------
        factor : float
            Number in [0, 1].

        Raises
        ------
        ParameterError
            If `factor` is not in [0, 1].
        """
        self._append("forget", {"factor": factor})

    def name_features(self, features: Iterable[str]) -> None:
        """Name the features, in all processes.

        Parameters
        ----------
        features : iterable of str
            Names in the order of positions.

        Raises
        ------
        ParameterError
            If the names are not valid.
        """
        self._append("name_features", {"features": features if isinstance(features, str) else list(features)})

    def migrate(self, features: Iterable[str], prior_precision: float | None = None) -> None:
        """Go over to another set of features, in all processes, and keep what was learned; see ``Bandit.migrate``.

        Decisions of before stay as they were: their rewards are still learned, and `verify` takes them again.

        Parameters
        ----------
        features : iterable of str
            Names of the features from now on.
        prior_precision : float, optional
            Prior precision of the coefficients of new features.

        Raises
        ------
        ParameterError
            If the features have no names, or the prior precision of new ones is not known.
        """
        names = features if isinstance(features, str) else list(features)
        self._append("migrate", {"features": names, "prior_precision": prior_precision})

    def set_limits(
        self,
        min_propensity: float | Mapping[Arm, float] | None = None,
        max_propensity: float | Mapping[Arm, float] | None = None,
    ) -> None:
        """Give arms floors and caps of their probabilities, in all processes; see ``LinearBandit.set_limits``.

        Parameters
        ----------
        min_propensity : float or mapping of arm to float, optional
            Smallest probability of every eligible arm, or of some arms.
        max_propensity : float or mapping of arm to float, optional
            Largest probability of every eligible arm, or of some arms.

        Raises
        ------
        ParameterError
            If no probabilities are within the limits, or the bandit has no arms of its own.
        """
        given = {"min_propensity": min_propensity, "max_propensity": max_propensity}
        self._append(
            "set_limits",
            {name: list(one.items()) if isinstance(one, Mapping) else one for name, one in given.items()},
        )

    def compact(self, before: datetime | float | None = None) -> int:
        """Take a snapshot and return unused space to the file system.

        Parameters
        ----------
        before : datetime or float, optional
            Decisions before this time (seconds since 1970) and their rewards are dropped from the record, not from
            what the bandit has learned: export them first. A reward that still comes for one of them is "unknown".

        Returns
        -------
        int
            Number of decisions dropped.

        Raises
        ------
        ParameterError
            If `before` is not a time.
        """
        when = None if before is None else seconds_of(before, "before")
        self._require_writable()
        self._writer.flush()
        with self._lock:
            bandit, seq = self._current(None), self._replica.seq
            state = self._snapshot_state(bandit, required=True)
        assert state is not None
        self._write(Job(snapshot=(seq, state)))
        if self._store.snapshot(seq) != state:
            raise self._store.damaged("the snapshot that was just written reads otherwise")
        dropped = 0 if when is None else self._writer.alone(lambda: self._store.drop(when, seq))
        self._writer.alone(self._store.shrink)
        return dropped
