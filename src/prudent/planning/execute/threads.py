"""Backups on the threads of this machine, and the table of Q that an iteration works with."""

from __future__ import annotations

import numpy as np

from ..._numerics.compile import over_rows
from ..._support.checks import FloatArray, IntArray
from ..chain import Chain
from ..rows import greedy, keep_close
from .executor import Executor


class Threads(Executor):
    """Back up the rows of a ``prudent.planning.row_risks.RowRisk`` on threads."""

    def backup(self, value: FloatArray, pairs: IntArray, q: FloatArray) -> float:
        """See ``Executor.backup``."""
        return self._back_up(value, pairs, q, False, pairs.size)

    def back_up_best(self, value: FloatArray, pairs: IntArray, q: FloatArray) -> float:
        """See ``Executor.back_up_best`` and "the screen" in ``prudent.planning.rows``."""
        if not self.rows.screens:
            return self.backup(value, pairs, q)
        return self._back_up(value, pairs, q, True, self.n_states)

    def _back_up(self, value: FloatArray, pairs: IntArray, q: FloatArray, best: bool, total: int) -> float:
        """Run the tasks of a backup and return the largest error."""
        worst, done = 0.0, 0
        for run, count, smallest in self.rows.tasks(value, pairs, q, self.accuracy, best):

            def work(i: int, j: int, run=run) -> float:  # type: ignore[no-untyped-def]
                nonlocal done
                error = run(i, j)
                done += j - i
                if self.tell is not None and done < total:
                    self.tell(done / total)
                return float(error)

            worst = max(worst, *over_rows(work, count, self.threads, smallest))
        return worst

    def approximation(self) -> Threads | None:
        """See ``Executor.approximation``."""
        rows = self.rows.approximation()
        return None if rows is None else Threads(rows, self.threads)

    def linearise(self, value: FloatArray, pairs: IntArray) -> Chain:
        """See ``Executor.linearise``."""
        unknown = self.rows.unknown_gradients(value, pairs)
        if unknown.size:
            self.backup(value, unknown, np.empty(self.n_states * self.n_actions))
        chain: Chain = self.rows.gradient(value, pairs)
        return chain

    def table(self, pairs: IntArray, control: bool, rows: int | None = None) -> Table:
        """See ``Executor.table``; ``rows`` is the number of states of a block, if it is not the whole model."""
        return Table(self, pairs, control, rows)


class Table:
    """Q of the pairs that are still candidates, and the operations of an iteration on it.

    An executor on another device has a table with these methods, and vectors that add, subtract, and have ``abs``,
    ``min``, ``max`` and ``copy``.

    Parameters
    ----------
    executor : Executor
        Does the backups.
    pairs : ndarray of int
        The pairs, ascending.
    control : bool
        Whether only the best action of each state counts.
    rows : int, optional
        Number of states that have pairs, if that is not all of them.
    """

    def __init__(self, executor: Executor, pairs: IntArray, control: bool, rows: int | None = None) -> None:
        self._executor, self._control = executor, control
        self.pairs = pairs.copy()
        self.q = np.full((executor.n_states if rows is None else rows, executor.n_actions), -np.inf)

    def back_up(self, value: FloatArray) -> float:
        """Write Q at ``value``, or upper bounds where only the best counts; return a bound on its rounding error."""
        if not self.pairs.size:
            return 0.0
        back_up = self._executor.back_up_best if self._control else self._executor.backup
        return back_up(value, self.pairs, self.q.reshape(-1))

    def residual(self, value: FloatArray, rest: FloatArray) -> float:
        """Write Q - V at V = ``value`` + ``rest``; see ``MeanRows.residual``."""
        return float(self._executor.rows.residual(value, rest, self.pairs, self.q.reshape(-1)))

    def of_pairs(self) -> FloatArray:
        """Return Q of the pairs."""
        return self.q.reshape(-1)[self.pairs]

    def best(self) -> tuple[FloatArray, IntArray, float]:
        """Return the best of Q in each state, its actions, and the widest distance to another one."""
        best, actions = np.empty(self.q.shape[0]), np.empty(self.q.shape[0], np.int64)
        return best, actions, greedy(self.q, best, actions)

    def drop(self, value: FloatArray, distance: float) -> None:
        """Drop the pairs whose Q is further than ``distance`` below ``value`` of their state."""
        self.pairs = self.pairs[: keep_close(self.q, value, distance, self.pairs)]

    def linearise(self, value: FloatArray, actions: IntArray) -> Chain:
        """Return the chain that takes ``actions`` [S] and touches the backup at ``value``."""
        n_states, n_actions = self.q.shape
        chain: Chain = self._executor.linearise(value, np.arange(0, n_states * n_actions, n_actions) + actions)
        return chain
