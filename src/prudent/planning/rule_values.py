"""Returns of many policies of one known model, and what changing one of them in a state would gain, to first order.

With d the visits of a policy and A(s, a) what action a gains in one step over it, changing the states M gains about
the sum over M of d(s) A(s, a). With a horizon of T steps the states are the T S pairs of step and state: values and
visits of all pairs are one pass back and one pass forward.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from ..types import FloatArray, IntArray
from .chain import DENSE, Chain
from .ends import find_over

SETTLED = 1e-10  # of the largest value: smaller improvements do not count
MOST_POLICIES = 100  # that are tried for the best one
SMALLEST = 1e-300
DENSE_NUMBERS = 10_000_000  # entries of a transition matrix that is kept dense


class PolicyValues:
    """Returns from the start of policies of a known model, beside those of the policy ``full`` [S] and of the best."""

    def __init__(self, mdp: Any, full: IntArray, start: FloatArray) -> None:
        self.mdp, self.full, self.start = mdp, full.reshape(-1), start
        self.shape = full.shape
        self.admissible, self.terminal = mdp.admissible, mdp.terminal
        self.states, self.n_actions = np.arange(mdp.n_states), mdp.n_actions
        self.used = np.flatnonzero(mdp.admissible[~mdp.terminal].any(axis=0))
        size = mdp.n_states
        small = size <= DENSE and size * size * self.n_actions <= DENSE_NUMBERS
        self.dense = mdp.transition.toarray() if small else None
        self.known: dict[bytes, float] = {}
        self.begin()

    def begin(self) -> None:
        """Evaluate the whole policy."""
        self.over = self.mdp.terminal.copy()
        if self.mdp.discount == 1.0:
            self.over |= find_over(self.mdp, self.mdp.outcomes(), None, must_end=False)
        self.guess = np.zeros(self.full.size)
        self.guess = self.solved(self.full, False)
        self.value = float(self.start @ self.guess)

    def most(self) -> float:
        """Return a bound of the return of every policy, by policy iteration; infinite where it finds none."""
        policy, size = self.full.copy(), max(float(abs(self.guess).max()), SMALLEST)
        for _ in range(MOST_POLICIES):
            value = self.solved(policy, False)
            if not np.isfinite(value).all():
                return np.inf
            ahead = np.where(self.admissible, self.ahead(value).reshape(self.admissible.shape), -np.inf)
            better = np.where(self.over, 0.0, ahead.max(axis=1) - value)
            if better.max() <= SETTLED * size:
                rest = max(
                    float(better.max()), 0.0
                )  # at discount 1 no more than rounding, times the steps that are left
                steps = 1.0 / (1.0 - self.mdp.discount) if self.mdp.discount < 1.0 else float(self.visits(policy).sum())
                return float(self.start @ value) + rest * steps
            policy = np.where(better > 0.1 * SETTLED * size, ahead.argmax(axis=1), policy)
        return np.inf

    def worth(self, policy: IntArray) -> float:
        """Return the return of a policy from the start."""
        key = policy.tobytes()
        if key not in self.known:
            self.known[key] = float(self.start @ self.solved(policy, False))
        return self.known[key]

    def visits(self, policy: IntArray) -> FloatArray:
        """Return the discounted visits of a policy, zero where nothing is decided any more."""
        return np.where(self.over, 0.0, np.maximum(self.solved(policy, True), 0.0))

    def gains(self, policy: IntArray) -> FloatArray:
        """Return what each action [S, A] would gain in place of that of a policy, to first order."""
        value = self.solved(policy, False)
        lead = self.ahead(value).reshape(self.admissible.shape) - value[:, np.newaxis]
        return np.where(self.admissible, self.visits(policy)[:, np.newaxis] * lead, 0.0)

    def solved(self, policy: IntArray, back: bool) -> FloatArray:
        """Return the values [S] of a policy, or (``back``) its discounted visits from the start."""
        pairs = self.states * self.n_actions + policy
        reward = self.mdp.reward.reshape(-1)[pairs]
        if self.dense is not None:
            rows = np.where(self.over[:, np.newaxis], 0.0, self.dense[pairs])
            system = np.eye(policy.size) - self.mdp.discount * rows
            return np.asarray(np.linalg.solve(system.T if back else system, self.start if back else reward))
        matrix = self.mdp.transition[pairs]
        if self.mdp.discount == 1.0 and self.over.any():
            matrix = (scipy.sparse.diags_array((~self.over).astype(np.float64)) @ matrix).tocsr()
        right = self.start if back else reward
        matrix = matrix.T.tocsr() if back else matrix
        chain = Chain(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data, right)
        target = 1e-10 * float(abs(right).max())
        return chain.values(self.mdp.discount, np.zeros(policy.size) if back else self.guess, target, False)

    def ahead(self, value: FloatArray) -> FloatArray:
        """Return what actions [S A] are worth one step ahead of values [S]."""
        return np.asarray(self.mdp.reward.reshape(-1) + self.mdp.discount * (self.mdp.transition @ value))


class TimedPolicyValues(PolicyValues):
    """The same for a policy [T, S] of T steps; ``final`` [S] is what states are worth after the last step."""

    def __init__(self, mdp: Any, full: IntArray, start: FloatArray, final: FloatArray) -> None:
        self.steps, self.final = len(full), final
        super().__init__(mdp, full, start)

    def begin(self) -> None:
        """Evaluate the whole policy, with states and start repeated over the steps."""
        self.start = np.concatenate((self.start, np.zeros(self.full.size - self.start.size)))
        self.admissible = np.tile(self.mdp.admissible, (self.steps, 1))
        self.terminal = self.over = np.tile(self.mdp.terminal, self.steps)
        self.value = float(self.start @ self.solved(self.full, False))

    def most(self) -> float:
        """Return the return of the best policy."""
        later, ended = self.final, self.mdp.terminal
        for _ in range(self.steps):
            ahead = self.mdp.reward + self.mdp.discount * (self.mdp.transition @ later).reshape(self.mdp.reward.shape)
            best = np.where(self.mdp.admissible, ahead, -np.inf).max(axis=1)
            later = np.where(ended, self.mdp.terminal_value, best)
        return float(self.start[: self.states.size] @ later)

    def _rows(self, actions: IntArray) -> Any:
        """Return the matrix [S, S] of a policy [S] of one step."""
        pairs = self.states * self.n_actions + actions
        return self.mdp.transition[pairs] if self.dense is None else self.dense[pairs]

    def solved(self, policy: IntArray, back: bool) -> FloatArray:
        """Return the values [T S] of a policy [T S], or (``back``) its discounted visits from the start."""
        found = np.empty((self.steps, self.states.size))
        plan, discount, ended = policy.reshape(found.shape), self.mdp.discount, self.mdp.terminal
        if back:
            now = self.start[: self.states.size]
            for step, actions in enumerate(plan):
                found[step] = now
                now = discount * (self._rows(actions).T @ np.where(ended, 0.0, now))
            return found.reshape(-1)
        later = self.final
        for step in range(self.steps - 1, -1, -1):
            earned = self.mdp.reward[self.states, plan[step]]
            later = np.where(ended, self.mdp.terminal_value, earned + discount * (self._rows(plan[step]) @ later))
            found[step] = later
        return found.reshape(-1)

    def ahead(self, value: FloatArray) -> FloatArray:
        """Return what actions [T S A] are worth one step ahead of values [T S]."""
        later = np.vstack((value.reshape(self.steps, -1)[1:], self.final))
        return np.asarray(self.mdp.reward.reshape(1, -1) + self.mdp.discount * (self.mdp.transition @ later.T).T)
