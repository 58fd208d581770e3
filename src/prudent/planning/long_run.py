"""Rows of a known model without a discount, stationary laws and biases; see ``prudent.planning.average``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from .._numerics.compensated import EPS
from ..errors import ModelError
from ..models.mdp import MDP
from ..types import BoolArray, FloatArray, IntArray
from .chain import DENSE, Chain, chain_values, most_products, sparse_elimination
from .components import Components, end_components
from .execute.threads import Threads
from .gain_iteration import NEAR_ONE
from .row_risks import MeanRows
from .undiscounted import ending_leaks

ROW_ROUNDING = 1e-15  # sums of rows that are closer to one are rounded
LAW_STEPS = 30  # corrections of a stationary law


class Known(NamedTuple):
    """Rows of a known model without a discount; P pairs s*A + a."""

    transition: scipy.sparse.csr_array  # (S*A) x S
    reward: FloatArray  # [S, A]
    admissible: BoolArray  # [S, A]
    ending: FloatArray  # [S*A] probability of a last step
    leaks: tuple[float, float]
    roundings: float = 0.0

    @classmethod
    def of(cls, mdp: MDP) -> Known:
        """Return the rows of a model."""
        ending = np.zeros(mdp.reward.size) if mdp.termination is None else mdp.termination.reshape(-1)
        matrix, total = mdp.transition, np.asarray(mdp.transition.sum(axis=1)).reshape(-1)
        off = np.divide(1.0 - ending, total, out=np.ones(total.size), where=total > 0.0)
        if abs(off - 1.0).max() > ROW_ROUNDING:  # rows that do not quite sum to one are divided by their sums
            matrix = scipy.sparse.csr_array(
                (matrix.data * np.repeat(off, np.diff(matrix.indptr)), *_index(matrix)), matrix.shape
            )
        longest = int(np.diff(matrix.indptr).max(initial=0))
        leak = min(ROW_ROUNDING, float(abs(off - 1.0).max())) + (0.5 * longest + 2.0) * EPS
        return cls(matrix, mdp.reward, mdp.admissible, ending, (-leak, leak), 1.0)

    def followed(self, policy: npt.NDArray[Any]) -> Known:
        """Return the chain of a policy, [S] or [S, A], as rows with one action."""
        n_states, n_actions = self.reward.shape
        if policy.ndim == 1:
            pairs = np.arange(n_states) * n_actions + policy
            rows, reward, ending = self.transition[pairs], self.reward.reshape(-1)[pairs], self.ending[pairs]
            return Known(rows, reward[:, None], np.ones((n_states, 1), np.bool_), ending, self.leaks, self.roundings)
        state, action = np.nonzero(policy)
        parts = (policy[state, action], (state, state * n_actions + action))
        shares = scipy.sparse.csr_array(parts, shape=(n_states, n_states * n_actions))
        mixed = scipy.sparse.csr_array(shares @ self.transition)
        mixed.sort_indices()
        reward, every = (shares @ self.reward.reshape(-1))[:, None], np.ones((n_states, 1), np.bool_)
        low, high = self.leaks
        leaks = (low - n_actions * EPS, high + n_actions * EPS)
        return Known(mixed, reward, every, shares @ self.ending, leaks, n_actions + 1.0)

    def restricted(self, states: IntArray, pairs: BoolArray) -> Known:
        """Return some ``states`` with those of their ``pairs`` [S*A] that do not leave them."""
        n_actions = self.reward.shape[1]
        rows = (states[:, None] * n_actions + np.arange(n_actions)).reshape(-1)
        kept = pairs[rows]
        matrix = (scipy.sparse.diags_array(kept.astype(np.float64)) @ self.transition[rows]).tocsr()
        matrix.eliminate_zeros()
        part = matrix[:, states].tocsr()
        part.sort_indices()
        reward, shape = np.where(kept, self.reward.reshape(-1)[rows], 0.0), (states.size, n_actions)
        return Known(part, reward.reshape(shape), kept.reshape(shape), np.zeros(rows.size), self.leaks, self.roundings)

    def shortened(self, durations: FloatArray, shortest: float) -> Known:
        """Return steps that all take the time ``shortest``, with the gain of steps that take ``durations`` [S, A]."""
        share, n_actions = (shortest / durations).reshape(-1), durations.shape[1]
        pairs = np.flatnonzero(self.admissible)
        stays = (np.maximum(1.0 - share, 0.0)[pairs], (pairs, pairs // n_actions))
        matrix = scipy.sparse.diags_array(share) @ self.transition + scipy.sparse.csr_array(
            stays, shape=self.transition.shape
        )
        matrix = scipy.sparse.csr_array(matrix)
        matrix.eliminate_zeros()
        matrix.sort_indices()
        low, high = self.leaks
        return self._replace(
            transition=matrix,
            reward=np.where(self.admissible, self.reward / durations, 0.0),
            ending=share * self.ending,
            leaks=(low - 4.0 * EPS, high + 4.0 * EPS),
            roundings=self.roundings + 4.0,
        )

    def executor(self, discount: float = 1.0, leaks: tuple[float, float] | None = None) -> Threads:
        """Return the operator."""
        indices, indptr = _index(self.transition)
        narrow = scipy.sparse.csr_array(
            (self.transition.data, indices.astype(np.int32), indptr.astype(np.int64)), shape=self.transition.shape
        )
        bounds = self.leaks if leaks is None else leaks
        return Threads(MeanRows(narrow, np.ascontiguousarray(self.reward), discount, bounds, self.roundings))

    def components(self) -> Components:
        """Return the end components."""
        pair = np.repeat(np.arange(self.reward.size), np.diff(self.transition.indptr))
        last = np.flatnonzero(self.ending)
        target = np.concatenate((self.transition.indices, np.full(last.size, -1)))
        taken = self.admissible.reshape(-1)
        return end_components(np.concatenate((pair, last)), target, taken, self.reward.shape[1])


def _index(matrix: scipy.sparse.csr_array) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    return matrix.indices, matrix.indptr


class Bias(NamedTuple):
    """The bias of a chain, and a bound on its error."""

    value: FloatArray  # [S]
    error: float


def bias_of(rows: Known) -> Bias:
    """Return the bias of a chain (rows with one action)."""
    matrix, reward, size = rows.transition.tocsr(), rows.reward.reshape(-1), rows.reward.size
    classes = rows.components()
    inside = classes.of_state >= 0
    reference, law, off = np.zeros(size, dtype=np.bool_), np.zeros(size), 0.0
    for number in range(classes.number):
        states = classes.states(number)
        law[states], rest = stationary_law(matrix[states][:, states])
        off = max(off, rest)
        reference[states[np.argmax(law[states])]] = True

    def of_classes(values: FloatArray) -> FloatArray:
        """Return the means under the stationary laws; in a transient state, over the classes that it may come to."""
        means = np.bincount(classes.of_state[inside], weights=(law * values)[inside], minlength=classes.number)
        spread = np.zeros(size)
        spread[inside] = means[classes.of_state[inside]]
        if not inside.all():
            into = matrix[~inside]
            spread[~inside] = _until_reference(into[:, ~inside].tocsr(), into[:, inside] @ spread[inside])
        return spread

    gain = of_classes(reward)
    # from a reference state on, the bias is counted anew
    killed = (scipy.sparse.diags_array((~reference).astype(np.float64)) @ matrix).tocsr()
    killed.eliminate_zeros()
    h = _until_reference(killed, np.where(reference, 0.0, reward - gain))
    h = h - of_classes(h)
    # the gain of the chain is within this of ``gain`` too
    rest = 2.0 * float(abs(reward - gain + matrix @ h - h).max())
    roundings = (0.5 * int(np.diff(matrix.indptr).max(initial=0)) + 4.0 + rows.roundings) * EPS
    rest += 2.0 * roundings * (float(abs(reward).max()) + float(abs(h).max()))
    times = Known(killed, np.where(reference, 0.0, 1.0)[:, None], rows.admissible, np.zeros(size), (0.0, 1.0))
    try:
        leak = ending_leaks(times.executor(), rows.admissible, np.zeros(size, np.int64), reference)[0]
    except ModelError:  # within rounding of several closed classes
        return Bias(h, np.inf)
    return Bias(h, 2.0 / leak * (rest + off * float(abs(h).max())))


def _until_reference(matrix: scipy.sparse.csr_array, reward: FloatArray) -> FloatArray:
    """Return the values of a chain that ends, to rounding."""
    size = reward.size
    if size <= DENSE:
        return np.asarray(np.linalg.solve(np.eye(size) - matrix.toarray(), reward))
    rows = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data
    value, rest = np.zeros(size), reward
    for _ in range(4):  # each from the residual of the one before
        step, target = np.zeros(size), 1e-12 * float(abs(rest).max())
        chain_values(Chain(*rows, rest), 1.0, step, target, False, most_products(size, matrix.nnz))
        if abs(rest + matrix @ step - step).max() > 0.1 * abs(rest).max():
            return sparse_elimination(matrix, reward)
        value = value + step
        rest = reward + matrix @ value - value
        if abs(rest).max() <= 8.0 * EPS * (abs(value).max() + abs(reward).max()):
            break
    return value


def stationary_law(matrix: scipy.sparse.csr_array) -> tuple[FloatArray, float]:
    """Return the stationary law [S] of a chain with one closed class, and the error of its equation in total.

    ``law = law @ matrix``; by elimination up to ``DENSE`` states, else by corrections at a discount near 1.
    """
    size = matrix.shape[0]
    if size <= DENSE:
        system = np.eye(size) - matrix.toarray().T
        system[-1] = 1.0
        law = np.linalg.solve(system, np.eye(size)[-1])
    else:
        back = matrix.T.tocsr()
        chain = back.indptr.astype(np.int64), back.indices.astype(np.int32), back.data
        law, before, products = np.full(size, 1.0 / size), np.inf, most_products(size, matrix.nnz)
        for _ in range(LAW_STEPS):
            rest = back @ law - law
            rest -= rest.mean()
            total = float(abs(rest).sum())
            if total <= 4.0 * EPS or total > 0.5 * before:
                break
            before = total
            step = np.zeros(size)
            chain_values(Chain(*chain, rest), NEAR_ONE, step, 1e-6 * float(abs(rest).max()), False, products)
            if abs(rest + NEAR_ONE * (back @ step) - step).max() > 0.1 * abs(rest).max():
                step = sparse_elimination(back, rest, NEAR_ONE)
            law = law + step
            law /= law.sum()
    law = np.maximum(law, 0.0)
    law /= law.sum()
    rest = float(abs(law @ matrix - law).sum())
    return law, rest + (0.5 * int(np.diff(matrix.tocsc().indptr).max(initial=0)) + 2.0) * EPS
