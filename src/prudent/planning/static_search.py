"""Branch and bound over stationary deterministic policies: the best risk of the return over drawn models.

What is maximised is rho(R_1, ..., R_N), with R_i the return of ONE policy in model i. A node of the search is a set of
actions that are still allowed in each state. Bounds, all by what the models could reach with these actions:

- **own optima**: rho of the best return of each model, since rho is monotone;
- **tail weights**: with h_i the best values of model i and d_i the visits of a policy, R_i is the best return less the
  sum over states of d_i(s) (h_i(s) - q_i(s, pi(s))). The visits are at least the least ones of any allowed policy, and
  rho of a concave measure is a minimum over weights of the models. For fixed weights the best choice of actions then
  separates by states, so that every weights give a bound. Nodes use those of the own optima. The lowest bound is
  looked for by Polyak's steps (``tail_dual``), for randomised policies and for comparisons;
- **one state ahead**: for each state, the best over its actions of rho of the same expression with the loss of that
  state alone. It holds for every measure, and each action has weights of its own.

An action with which the bound is no more than the best policy found is dropped. ``docs/mathematics/posterior-risk.md``
has the proofs.
"""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._numerics.compile import over_rows
from .._support.progress import Progress
from ..risk import CertaintyEquivalent, RiskMeasure
from ..types import BoolArray, FloatArray, IntArray
from .drawn_chains import Chains, best_policies, deviations, least_visits, tail_dual

POLYAK = 60  # steps of the dual at a node
ROUNDS = 6  # times that a node is bounded anew after actions were dropped
HEAVY = 2e6  # operations from which threads are worth their start
MAX_CLIMBS = 400  # steps of a local search
EASY = 30  # nodes before least visits are computed, which takes more time than to bound a node

Policies = npt.NDArray[np.int32]


BOUNDS = ("own", "ahead", "tail", "visits")
"""Own optima; one state ahead by the least visits of the root; that and the dual of tail weights; one state ahead by
the least visits of a node. The last is used, the others are for comparisons."""


@dataclass(order=True)
class _Node:
    """A set of allowed actions, with what its parent knows."""

    key: tuple[float, int]  # minus the bound, number
    allowed: BoolArray = field(compare=False)
    policy: Policies = field(compare=False)
    least: FloatArray = field(compare=False)
    weights: FloatArray = field(compare=False)


class _Own(NamedTuple):
    """The best policy of each model among the allowed actions."""

    policy: Policies  # [N, R]
    value: FloatArray  # [N, R]
    loss: FloatArray  # [N, R, A] of other actions, one step ahead
    spent: FloatArray  # [N, R] discounted visits from the start


class _Relaxed(NamedTuple):
    """What the models could reach with the actions of a node."""

    bound: float
    allowed: BoolArray
    own: _Own
    weights: FloatArray  # [N] of the models
    choice: Policies  # [R] a policy to try


class StaticSearch:
    """The search for one problem; it can be gone on with."""

    def __init__(
        self, chains: Chains, admissible: BoolArray, risk: RiskMeasure, threads: int, bounds: str = BOUNDS[-1]
    ) -> None:
        self.chains, self.admissible, self.risk, self.threads = chains, admissible, risk, threads
        self.bounds = BOUNDS.index(bounds)
        self.n_draws, (self.n_states, self.n_actions) = chains.data.shape[0], admissible.shape
        self.every = np.arange(self.n_draws)
        weighted = not isinstance(risk, CertaintyEquivalent)
        self.sorted_weights = risk.weights(self.n_draws) if weighted else np.empty(0)
        self.concave = weighted and bool((np.diff(self.sorted_weights) <= 1e-15).all())
        self.best, self.policy = -np.inf, np.zeros(self.n_states, np.int32)
        self.nodes, self.seconds, self.residual = 0, 0.0, 0.0
        self.root_bounds: dict[str, float] = {}
        self._open: list[_Node] = []
        self._closed = -np.inf  # highest bound of what was given up within the tolerance
        self._count = 0
        self._tried: set[bytes] = set()
        self.tol = 0.0

    # -- what policies return ------------------------------------------------------------------------------

    def _over(self, work: Any, which: IntArray, cost: float) -> list[Any]:
        """Call ``work`` with all of some models; on threads if ``cost``, the operations for each, is worth it."""
        if self.threads == 1 or cost * which.size < HEAVY:
            return [work(which)]
        return over_rows(lambda begin, end: work(which[begin:end]), which.size, self.threads)

    def _settle(self, allowed: BoolArray, own: _Own, which: IntArray) -> None:
        """Compute the best policies of some models among the allowed actions, from those that are there."""

        def work(part: IntArray) -> float:
            return best_policies(self.chains, allowed, *own, part)

        self.residual = max([self.residual, *self._over(work, which, 2.0 * self.n_states**3)])

    def _own(self, policy: Policies) -> _Own:
        """Return room for the best policies of all models, with policies [N, R] or [R] to start from."""
        shape = (self.n_draws, self.n_states)
        first = np.broadcast_to(policy, shape).astype(np.int32)
        return _Own(first, np.empty(shape), np.empty((*shape, self.n_actions)), np.empty(shape))

    def evaluate(self, policy: IntArray | Policies) -> FloatArray:
        """Return the returns of a policy [R] under all draws."""
        chosen = np.zeros(self.admissible.shape, dtype=np.bool_)
        chosen[np.arange(self.n_states), policy] = True
        own = self._own(policy.astype(np.int32))
        self._settle(chosen, own, self.every)
        return np.asarray(own.value @ self.chains.start)

    def improve(self, policy: IntArray | Policies) -> float:
        """Change a policy state by state while its risk grows, and keep it if it is the best; return its risk."""
        now = policy.astype(np.int32)
        returns, changed = np.empty(self.n_draws), np.empty((self.admissible.size, self.n_draws))

        def work(part: IntArray) -> None:
            deviations(self.chains, now, self.admissible, returns, changed, part)

        worth = -np.inf
        for _ in range(MAX_CLIMBS):
            self._over(work, self.every, 2.0 * self.n_states**3)
            worth = float(self.risk(returns))
            self._take(now, worth)
            key = now.tobytes()
            if key in self._tried:
                break
            self._tried.add(key)
            pairs = np.flatnonzero(self.admissible)
            risks = np.asarray(self.risk(changed[pairs], axis=1))
            at = int(risks.argmax())
            if not risks[at] > worth + 1e-13 * abs(worth):
                break
            now[pairs[at] // self.n_actions] = pairs[at] % self.n_actions
        return worth

    def _take(self, policy: Policies, worth: float) -> None:
        if worth > self.best:
            self.best, self.policy = worth, policy.copy()

    # -- bounds --------------------------------------------------------------------------------------------

    def _lift(self, allowed: BoolArray, policy: Policies, least: FloatArray, which: IntArray) -> FloatArray:
        """Return the least visits of the states with a choice, by the allowed actions, in some models."""
        targets = np.flatnonzero(allowed.sum(axis=1) > 1)
        higher = least.copy()

        def work(part: IntArray) -> None:
            least_visits(self.chains, allowed, targets, policy, higher, part)

        self._over(work, which, 6.0 * targets.size * self.n_states**3)
        return higher

    def _relaxed(self, node: _Node) -> _Relaxed | None:
        """Bound a node, dropping actions; None if it holds nothing better than the best policy."""
        allowed, q, own = node.allowed, node.weights, self._own(node.policy)
        bound, choice, lifted = -node.key[0], self.policy, bool(node.least.any())
        for _ in range(ROUNDS):
            states = np.flatnonzero(allowed.sum(axis=1) > 1)
            state, action = np.nonzero(allowed[states])
            pairs, first = states[state] * self.n_actions + action, np.searchsorted(state, np.arange(states.size + 1))
            if self.concave:  # by the weights of the parent first, for which few models count
                heavy = np.flatnonzero(q > 0.0)
                self._settle(allowed, own, heavy)
                lost = q[heavy] @ (own.value[heavy] @ self.chains.start)
                if states.size and lifted and self.bounds >= 2:
                    by_pair = q[heavy] @ self._losses(own, node.least, pairs, heavy)
                    lost -= np.minimum.reduceat(by_pair, first[:-1]).sum()
                bound = min(bound, float(lost))
                if bound <= self.target:
                    return None
            self._settle(allowed, own, np.flatnonzero(q <= 0.0) if self.concave else self.every)
            worth = own.value @ self.chains.start
            bound = min(bound, float(self.risk(worth)))
            if bound <= self.target:
                return None
            choice = self._compromise(allowed, own, worth)
            if not states.size or not lifted:
                break
            lost = self._losses(own, node.least, pairs, self.every)
            risks = np.asarray(self.risk(worth[:, None] - lost))
            dropped = risks <= self.target
            bound = min(bound, float(np.maximum.reduceat(risks, first[:-1]).min()))
            if bound <= self.target:
                return None
            if not self.concave or self.bounds != 2:
                q = np.asarray(self.risk.gradient(worth))
            elif not dropped.any():  # else the rest is bounded anew
                chosen, q = first[:-1].copy(), q.copy()
                by_pair = np.ascontiguousarray(lost.T)
                args = (worth, by_pair, first, self.sorted_weights, q, self.target, POLYAK, True, dropped, chosen)
                bound = min(bound, tail_dual(*args))
                choice[states] = action[chosen]
            if bound <= self.target:
                return None
            if not dropped.any():
                break
            allowed = allowed.copy()
            allowed.reshape(-1)[pairs[dropped]] = False
            choice = np.where(allowed[np.arange(choice.size), choice], choice, allowed.argmax(axis=1)).astype(np.int32)
        return _Relaxed(bound, allowed, own, q, choice)

    def mixed_bound(self) -> float:
        """Return an upper bound for policies that choose at random: at the root, with all actions."""
        node = self._root
        bound = -node.key[0]
        if not self.concave:
            return bound
        own = self._own(node.policy)
        self._settle(node.allowed, own, self.every)
        pairs = np.flatnonzero(node.allowed)
        first = np.searchsorted(pairs // self.n_actions, np.arange(self.n_states + 1))
        least = self._lift(node.allowed, own.policy, node.least, self.every)
        by_pair = np.ascontiguousarray(self._losses(own, least, pairs, self.every).T)
        worth, q, none = own.value @ self.chains.start, node.weights.copy(), np.zeros(pairs.size, dtype=np.bool_)
        args = (worth, by_pair, first, self.sorted_weights, q, self.best, 10 * POLYAK, False, none, first[:-1].copy())
        return min(bound, tail_dual(*args))

    def _losses(self, own: _Own, least: FloatArray, pairs: IntArray, which: IntArray) -> FloatArray:
        """Return what pairs lose at least in some models: least visits times the loss of one step, [n, J]."""
        states, actions = pairs // self.n_actions, pairs % self.n_actions
        return np.asarray(own.loss[which[:, None], states, actions] * least[which[:, None], states])

    def _compromise(self, allowed: BoolArray, own: _Own, worth: FloatArray) -> Policies:
        """Return the actions [R] that lose least, by the weights of the models' own optima."""
        q = np.asarray(self.risk.gradient(worth))
        some = np.flatnonzero(q)
        lost = np.einsum("n,nr,nra->ra", q[some], own.spent[some], np.where(allowed, own.loss[some], 0.0))
        return np.asarray(np.where(allowed, lost, np.inf).argmin(axis=1), dtype=np.int32)

    @property
    def target(self) -> float:
        """What a node must promise to be worth looking at."""
        return self.best + self.tol

    @property
    def upper_bound(self) -> float:
        """No policy is worth more, but for rounding."""
        left = -self._open[0].key[0] if self._open else -np.inf
        return max(self.best, self._closed, left)

    # -- search --------------------------------------------------------------------------------------------

    def begin(self, tol: float | None, policies: list[Any]) -> None:
        """Improve some policies, and bound all of them."""
        for policy in policies:
            self.improve(policy)
        shape = (self.n_draws, self.n_states)
        own = self._own(self.policy)
        self._settle(self.admissible, own, self.every)
        worth = own.value @ self.chains.start
        self.tol = 1e-8 * float(np.abs(worth).max()) if tol is None else tol
        bound = float(self.risk(worth))
        least = np.zeros(shape)
        if self.bounds > 0 and (self.bounds < 3 or not self.concave):
            least = self._lift(self.admissible, own.policy, least, self.every)
        weights = np.asarray(self.risk.gradient(worth))
        self.root_bounds["own optima"] = bound
        self._root = _Node((-bound, 0), self.admissible, own.policy, least, weights)
        self._push(bound, self.admissible, own.policy, least, weights)

    def _push(self, bound: float, allowed: BoolArray, policy: Policies, least: FloatArray, weights: FloatArray) -> None:
        heapq.heappush(self._open, _Node((-bound, self._count), allowed, policy, least, weights))
        self._count += 1

    def run(self, time_limit: float | None = None, max_nodes: int | None = None) -> str | None:
        """Search until no better policy can exist; return why it stopped before that, if it did."""
        began, progress, nodes = time.perf_counter(), Progress("posterior risk"), self.nodes
        why = None
        while self._open and -self._open[0].key[0] > self.target:
            if time_limit is not None and time.perf_counter() - began > time_limit:
                why = f"after {time_limit:g} seconds"
                break
            if max_nodes is not None and self.nodes - nodes >= max_nodes:
                why = f"after {max_nodes:,} nodes"
                break
            self._expand(heapq.heappop(self._open))
            gap = self.upper_bound - self.best
            progress.show(f"{self.nodes:,} nodes, {len(self._open):,} left, gap {gap:.2g} of {self.best:.6g}")
        if why is None:
            self._closed = max([self._closed, *(-node.key[0] for node in self._open)])
            self._open.clear()
        progress.close()
        self.seconds += time.perf_counter() - began
        return why

    def _expand(self, node: _Node) -> None:
        """Bound a node, try the policy that it suggests, and split it."""
        self.nodes += 1
        found = self._relaxed(node)
        if found is not None:
            self._try(found)
            if self.bounds == 3 and self.concave and found.bound > self.target and self.nodes > EASY:
                heavy = np.flatnonzero(found.weights)
                least = self._lift(found.allowed, found.own.policy, node.least, heavy)
                node = _Node((-found.bound, node.key[1]), found.allowed, found.own.policy, least, found.weights)
                found = self._relaxed(node)
        if found is None or found.bound <= self.target:
            self._closed = max(self._closed, min(-node.key[0], self.target))
            return
        state = self._branch(found, node.least)
        if state is None:  # one policy is left
            self._take(found.choice, float(self.risk(self.evaluate(found.choice))))
            return
        for action in np.flatnonzero(found.allowed[state]):
            allowed = found.allowed.copy()
            allowed[state] = False
            allowed[state, action] = True
            self._push(found.bound, allowed, found.own.policy, node.least, found.weights)

    def _try(self, found: _Relaxed) -> None:
        """Look for a better policy near the one that a bound suggests."""
        if found.choice.tobytes() in self._tried:
            return
        worth = float(self.risk(self.evaluate(found.choice)))
        if worth > self.best - 0.5 * (found.bound - self.best):
            self.improve(found.choice)
        else:
            self._tried.add(found.choice.tobytes())

    def _branch(self, found: _Relaxed, least: FloatArray) -> int | None:
        """Return the state where fixing the action is likely to lower the bound most; None if all are fixed."""
        states = np.flatnonzero(found.allowed.sum(axis=1) > 1)
        if not states.size:
            return None
        loss = np.where(found.allowed[states], found.own.loss[:, states], 0.0)
        barred = np.where(found.allowed[states], 0.0, np.inf)
        heavy = found.weights > 0.0
        q, spent = found.weights[heavy], found.own.spent[np.ix_(heavy, states)]
        true = (np.einsum("n,nr,nra->ra", q, spent, loss[heavy]) + barred).min(axis=1)
        score = true - (np.einsum("n,nr,nra->ra", q, least[np.ix_(heavy, states)], loss[heavy]) + barred).min(axis=1)
        if not (score > 1e-14 * max(1.0, abs(found.bound))).any():
            score = spent.sum(axis=0) * loss[heavy].max(axis=2).sum(axis=0) + 1e-300
        return int(states[score.argmax()])
