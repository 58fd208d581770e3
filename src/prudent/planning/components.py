"""End components of a model: sets of states that some choice of actions keeps the process in, and mixes.

A set of states with some of their actions is an end component if these actions never leave it and lead from every state
of it to every other one. In the long run a process is in one of them, whatever is done. Those that are part of no
larger one do not overlap. They depend only on which transitions are possible, so they are the same for every draw of a
posterior and for every tail of it.

They are found by repetition: the strongly connected components of the graph of all actions that are left, less the
actions that may leave their component.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from .._support.checks import BoolArray, IntArray


class Components(NamedTuple):
    """The maximal end components of a model."""

    number: int
    of_state: IntArray  # [S] number of the component of a state, -1 where it is in none
    inside: BoolArray  # [S*A] the pairs that stay in the component of their state
    ends: bool  # whether some step may end the process

    def states(self, which: int) -> IntArray:
        """Return the states of a component."""
        return np.flatnonzero(self.of_state == which)


def end_components(pair: IntArray, target: IntArray, taken: BoolArray, n_actions: int) -> Components:
    """Return the maximal end components of the pairs ``taken`` [S*A].

    ``pair`` and ``target`` [M] are the possible steps; a target below zero ends the process.
    """
    n_states = taken.size // n_actions
    inside, used = taken.copy(), taken[pair]
    pair, target = pair[used], target[used]
    ends = bool((target < 0).any())
    inside[pair[target < 0]] = False
    while True:
        left = inside[pair]
        pair, target = pair[left], target[left]
        state = pair // n_actions
        graph = scipy.sparse.csr_array((np.ones(pair.size, np.int8), (state, target)), shape=(n_states, n_states))
        label = scipy.sparse.csgraph.connected_components(graph, directed=True, connection="strong")[1]
        leaving = label[state] != label[target]
        if not leaving.any():
            break
        inside[pair[leaving]] = False
    stays = np.zeros(n_states, dtype=np.bool_)
    stays[np.flatnonzero(inside) // n_actions] = True
    of_state = np.full(n_states, -1)
    numbers, of_state[stays] = np.unique(label[stays], return_inverse=True)
    return Components(numbers.size, of_state, inside, ends)
