"""The nodes of plans that learn: a state with the numbers of times that each unknown outcome was seen.

A node is one integer: the state, and the counts in mixed radix. Nodes with equal content are one node.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..models.uncertain import UncertainMDP
from ..types import FloatArray, IntArray


class PairTable(NamedTuple):
    """What the admissible pairs can bring, padded to K outcomes; R pairs, ordered by state."""

    action: IntArray  # [R]
    begin: IntArray  # [S + 1] pairs of a state
    next_state: IntArray  # [R, K], negative where nothing follows
    reward: FloatArray  # [R, K]
    counts: FloatArray  # [R, K], zero for padding
    digit: IntArray  # [R, K] place of the outcome in the code of a node, or -1 where nothing is learned

    @classmethod
    def of(cls, model: UncertainMDP, counts: FloatArray) -> tuple[PairTable, IntArray]:
        """Return the table of a model under Dirichlet counts [B, K], and the slot of each digit [C]."""
        entries = model.entries
        packed, slots = entries.pack(counts), entries.slots()
        possible = packed > 0.0
        source = np.repeat(np.arange(entries.begin.size - 1), np.diff(entries.begin))
        unknown = possible & (np.bincount(source[possible], minlength=counts.shape[0])[source] > 1)
        used = np.zeros(possible.size, dtype=np.bool_)  # slots of sources that a pair has
        used[slots] = True
        learned = np.flatnonzero(unknown & used)
        place = np.full(possible.size, -1)
        place[learned] = np.arange(learned.size)
        pairs = np.flatnonzero(model.admissible)
        kept = possible[slots] & np.isin(entries.pairs(), pairs)
        row = np.searchsorted(pairs, entries.pairs()[kept])
        sizes = np.bincount(row, minlength=pairs.size)
        column = np.arange(row.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        shape = (pairs.size, int(sizes.max()))

        def spread(values: npt.NDArray[Any], fill: float) -> npt.NDArray[Any]:
            dense = np.full(shape, fill, dtype=values.dtype)
            dense[row, column] = values
            return dense

        begin = np.searchsorted(pairs, np.arange(model.n_states + 1) * model.n_actions)
        where = slots[kept]
        return cls(
            pairs % model.n_actions,
            begin,
            spread(entries.next_state[kept].astype(np.int64), -1),
            spread(entries.reward[kept], 0.0),
            spread(packed[where], 0.0),
            spread(place[where], -1),
        ), learned


class Layer(NamedTuple):
    """The nodes of one time, and the rows of their actions."""

    code: npt.NDArray[Any]  # [M] sorted
    first: IntArray  # [M + 1] rows of a node
    pair: IntArray  # [N] pair of each row
    child: IntArray  # [N, K] node of the next layer, -1 where nothing follows


def _ranges(begin: IntArray, end: IntArray) -> tuple[IntArray, IntArray]:
    """Return begin[0], ..., end[0] - 1, begin[1], ... and where the numbers of each range begin."""
    sizes = end - begin
    first = np.concatenate(([0], np.cumsum(sizes)))
    return np.arange(first[-1]) + np.repeat(begin - first[:-1], sizes), first


class Nodes:
    """The codes of nodes: state + S times the counts of learned outcomes in radix T + 1."""

    def __init__(self, table: PairTable, n_states: int, n_digits: int, horizon: int) -> None:
        self.table, self.n_states, self.horizon = table, n_states, horizon
        bits = math.log2(n_states) + n_digits * math.log2(horizon + 1.0)
        weights = [n_states * (horizon + 1) ** place for place in range(n_digits)]
        self.weights = np.array([*weights, 0], dtype=np.int64 if bits < 62.0 else object)  # the last: nothing learned

    def seen(self, code: npt.NDArray[Any], digits: IntArray) -> FloatArray:
        """Return how often the outcomes ``digits`` were seen at nodes of the same shape; zero for digit -1."""
        return np.where(digits >= 0, code // np.maximum(self.weights[digits], 1) % (self.horizon + 1), 0).astype(float)

    def most_parents(self, horizon: int) -> FloatArray:
        """Return how many outcomes of nodes may lead to the same node of each time [T], at most.

        A node that has seen t outcomes has at most t digits above zero. So an outcome that led to it had one of these
        digits, or none, and its pair and its place in it are one of those that lead to the state with that digit.
        """
        table, digits = self.table, self.weights.size
        follows = table.next_state >= 0
        key, ways = np.unique(table.next_state[follows] * digits + table.digit[follows] + 1, return_counts=True)
        state, none = key // digits, key % digits == 0
        untaught = np.bincount(state[none], ways[none], self.n_states)
        order = np.lexsort((-ways[~none], state[~none]))
        state, ways = state[~none][order], ways[~none][order]
        first = np.searchsorted(state, state)
        summed = np.concatenate(([0], np.cumsum(ways)))
        most = np.zeros(horizon)
        most[0] = untaught.max()
        rank = np.arange(state.size) - first
        near = rank < horizon - 1
        np.maximum.at(most, rank[near] + 1, (untaught[state] + summed[1:] - summed[first])[near])
        return np.maximum(np.maximum.accumulate(most), 1.0)

    def layer(self, code: npt.NDArray[Any]) -> tuple[Layer, npt.NDArray[Any]]:
        """Return the rows of some nodes, and the codes of the next layer."""
        table = self.table
        state = (code % self.n_states).astype(np.int64)
        pair, first = _ranges(table.begin[state], table.begin[state + 1])
        node = np.repeat(np.arange(code.size), np.diff(first))
        follows = table.next_state[pair] >= 0
        after = code[node, None] + (table.next_state[pair] - state[node, None]) + self.weights[table.digit[pair]]
        later, inverse = np.unique(after[follows], return_inverse=True)
        child = np.full(after.shape, -1)
        child[follows] = inverse
        return Layer(code, first, pair, child), later
