"""What the outcomes of an uncertain model lead to and earn, in memory in proportion to the outcomes that exist.

Source b has ``begin[b + 1] - begin[b]`` outcomes, its slots; their numbers, which may have gaps, are in ``outcome``. A
pair has an entry for each slot of its source, in the same order: slot ``begin[b] + j`` is entry ``first[p] + j``.
What is known of a source (counts, probabilities, draws) is packed by slots, what is known of a pair by entries.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from .._support.checks import BoolArray, FloatArray, IntArray, finite_array, index_array, integer_array, require_shape
from ..errors import ModelError

NONE, END = -1, -2  # in place of a next state: no such outcome; the process ends


_MOST_OUTCOMES = 2**31 - 1


def read_entries(
    pairs: int, pair: Any, outcome: Any, next_state: Any, reward: Any, duration: Any
) -> tuple[IntArray, IntArray, npt.NDArray[Any], FloatArray, FloatArray | None]:
    """Return the fields of entries of ``pairs`` pairs as arrays [E]; raise unless they fit together."""
    found = (
        index_array(pair, "pair", pairs, ModelError),
        index_array(outcome, "outcome", _MOST_OUTCOMES, ModelError),
        integer_array(next_state, "next_state", ndim=1, error=ModelError),
        finite_array(reward, "reward", ndim=1, error=ModelError),
        None if duration is None else finite_array(duration, "duration", ndim=1, error=ModelError),
    )
    for array, name in zip(found, ("pair", "outcome", "next_state", "reward", "duration"), strict=True):
        if array is not None:
            require_shape(array, name, (found[0].size,), "[E]", error=ModelError)
    return found


class Entries(NamedTuple):
    """The known part of an uncertain model; P = S*A pairs, B sources, E entries, F slots."""

    source: IntArray  # [P], -1 where inadmissible
    first: IntArray  # [P + 1]
    next_state: npt.NDArray[np.int32]  # [E], -2 where the process ends
    reward: FloatArray  # [E]
    begin: IntArray  # [B + 1]
    outcome: npt.NDArray[np.int32]  # [F]
    discount: float
    n_actions: int

    def sizes(self) -> IntArray:
        """Return the number of entries of each pair [P]."""
        return np.diff(self.first)

    def pairs(self) -> IntArray:
        """Return the pair of each entry [E]."""
        return np.repeat(np.arange(self.source.size), self.sizes())

    def slots(self) -> IntArray:
        """Return the slot of each entry [E]."""
        shift = np.where(self.source >= 0, self.begin[self.source], 0) - self.first[:-1]
        return np.arange(self.next_state.size) + np.repeat(shift, self.sizes())

    def pack(self, values: npt.NDArray[Any]) -> Any:
        """Return values [..., B, K] by slots, [..., F]."""
        n_sources, n_outcomes = values.shape[-2:]
        if self.outcome.size == n_sources * n_outcomes:  # each source has them all
            return values.reshape(*values.shape[:-2], -1).copy()
        return values[..., np.repeat(np.arange(self.begin.size - 1), np.diff(self.begin)), self.outcome]

    def spread(self, values: npt.NDArray[Any], n_outcomes: int, fill: float) -> Any:
        """Return values by entries [E] as an array [P, K]."""
        dense = np.full((self.source.size, n_outcomes), fill, dtype=values.dtype)
        dense[self.pairs(), self.outcome[self.slots()]] = values
        return dense

    def mask(self, n_outcomes: int) -> BoolArray:
        """Return which outcomes the sources have [B, K]."""
        mask = np.zeros((self.begin.size - 1, n_outcomes), dtype=np.bool_)
        mask[np.repeat(np.arange(self.begin.size - 1), np.diff(self.begin)), self.outcome] = True
        return mask

    def of_pairs(self, pairs: IntArray) -> tuple[IntArray, IntArray]:
        """Return the entries of some pairs, one after the other, and where those of each begin [len(pairs) + 1]."""
        sizes = self.first[pairs + 1] - self.first[pairs]
        starts = np.concatenate(([0], np.cumsum(sizes)))
        return np.arange(starts[-1]) + np.repeat(self.first[pairs] - starts[:-1], sizes), starts


class Outcomes(NamedTuple):
    """What one step of a known model can bring, pair by pair; P = S*A pairs."""

    first: IntArray  # [P + 1]
    next_state: npt.NDArray[np.int32]  # [E], -2 where the process ends
    reward: FloatArray  # [E]
    chance: FloatArray  # [E] above zero


def likely_outcomes(entries: Entries, theta: FloatArray) -> Outcomes:
    """Return the outcomes of an uncertain model that have a probability above zero under ``theta`` [B, K]."""
    chance = entries.pack(theta)[entries.slots()]
    used = chance > 0.0
    sizes = np.bincount(entries.pairs()[used], minlength=entries.source.size)
    first = np.concatenate(([0], np.cumsum(sizes)))
    return Outcomes(first, entries.next_state[used], entries.reward[used], chance[used])


def expected_model(
    entries: Entries, theta: FloatArray, n_states: int | None = None, survival: FloatArray | None = None
) -> tuple[scipy.sparse.csr_array, FloatArray, FloatArray]:
    """Return the transition matrix (S*A) x S, the mean rewards and the chances to end [S, A] under ``theta`` [B, K].

    The entries may be those of some states of a model with ``n_states``, by default they are all of it.

    A row has an entry for each outcome of positive probability that does not end the process; outcomes that lead to the
    same state are not added up. ``survival`` [E] multiplies the probabilities; what that takes away is a chance to end.
    """
    n_pairs, shape = entries.source.size, (-1, entries.n_actions)
    weights, pairs = entries.pack(theta)[entries.slots()], entries.pairs()
    goes_on = (weights > 0.0) & (entries.next_state >= 0)
    ends = np.cumsum(np.bincount(pairs[goes_on], minlength=n_pairs))
    kept = weights if survival is None else weights * survival
    rows = (kept[goes_on], entries.next_state[goes_on], np.concatenate(([0], ends)))
    matrix = scipy.sparse.csr_array(rows, shape=(n_pairs, n_states or n_pairs // entries.n_actions))
    reward = np.bincount(pairs, weights=weights * entries.reward, minlength=n_pairs)
    over = entries.next_state == END
    ending = np.bincount(pairs[over], weights=weights[over], minlength=n_pairs)
    if survival is not None:
        lost = weights[~over] * (1.0 - survival[~over])
        ending = ending + np.bincount(pairs[~over], weights=lost, minlength=n_pairs)
    ending = np.minimum(ending, 1.0)  # where all outcomes end, their chances may add up to a little more
    return matrix, reward.reshape(shape).astype(np.float64), ending.reshape(shape).astype(np.float64)
