"""The interface of executors, which back rows up for the outer iteration of ``prudent.planning.newton``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from ..._support.checks import FloatArray, IntArray
from ..row_risks import RowRisk


class Executor(ABC):
    """Backups of all rows of one model with S states and A actions, for control or for a policy.

    Parameters
    ----------
    rows : RowRisk
        The risk of single rows.
    threads : int, default=1
        Number of threads of a backup.
    """

    accuracy = 0.0  # error that a backup may have if that makes it cheaper; zero: as small as possible
    tell: Callable[[float], None] | None = None  # progress callback, fraction of the backup done

    def __init__(self, rows: RowRisk, threads: int = 1) -> None:
        self.rows: Any = rows
        self.threads = threads
        self.n_states, self.n_actions, self.discount = rows.n_states, rows.n_actions, rows.discount
        self.leaks = rows.leaks  # may be replaced by bounds in another norm
        self.refines, self.approximate = rows.refines, rows.approximate
        self.costly, self.lazy_q = rows.costly, rows.lazy_q

    @abstractmethod
    def backup(self, value: FloatArray, pairs: IntArray, q: FloatArray) -> float:
        """Write Q(s, a) into ``q`` [S*A] for ``pairs`` and return a bound on the rounding error of these numbers."""

    def back_up_best(self, value: FloatArray, pairs: IntArray, q: FloatArray) -> float:
        """Do ``backup`` of ascending ``pairs``, but only the highest number of each state need be Q(s, a).

        The other numbers are lower, and are upper bounds on their Q(s, a).
        """
        return self.backup(value, pairs, q)

    def measure_error(self, value: FloatArray) -> float:
        """See ``RowRisk.measure_error``."""
        return float(self.rows.measure_error(value))

    def remark(self, value: FloatArray, pairs: IntArray) -> str:
        """See ``RowRisk.note``."""
        return str(self.rows.note(value, pairs))

    def approximation(self) -> Executor | None:
        """Return a cheap executor with about the same fixed point, for a first guess; None if there is none."""
        return None

    @abstractmethod
    def linearise(self, value: FloatArray, pairs: IntArray) -> Any:
        """Return the chain that follows ``pairs`` [S] and touches the backup at ``value``."""

    def vector(self, value: FloatArray) -> Any:
        """Return values [S] on the device of the executor."""
        return value

    @abstractmethod
    def table(self, pairs: IntArray, control: bool) -> Any:
        """Return the table of Q for ``pairs``: all admissible pairs (``control``), or those of a policy.

        See ``prudent.planning.execute.threads.Table`` for its methods.
        """
