"""The outer iteration: value iteration and safeguarded Newton, stopped by the certificate.

The same iteration serves known models, posteriors, policies and control, on threads, a GPU or a cluster: an executor of
``prudent.planning.execute`` backs V up, and ``prudent.planning.certificate`` bounds the fixed point.

An iteration that meets the floor of the certificate goes on in twice the precision where the rows can (a known model):
V is then a pair of numbers, its residual a compensated sum, and each step a correction (I - gamma P)^-1 (TV - V), which
is iterative refinement. What is left is the rounding of the answer itself. Other risks stop at the floor and say so.

Value iteration repeats V <- TV, for a number of sweeps (as the paper does) or until the bound meets a tolerance; then
V also moves to the middle of its bounds where rows sum to one, which changes a constant and not the course.

Newton solves the chain that touches T at V (greedy actions and, under CVaR, the outcome probabilities of the tail). For
a known model that is policy iteration, which always ends. A max-min problem has no such guarantee, so there Newton may
fail to improve a few times in a row, never far above the best point so far; then sweeps from that point, which always
contract, take over for a while. Actions that the bounds prove suboptimal are dropped along the way. Chains are solved
by ``prudent.planning.chain``, started from V, to a fraction of the current distance: a small one where backups cost
far more than products with the chain.

For control a backup may give upper bounds in place of Q for actions that are not the best of their state (see "the
screen" in ``prudent.planning.rows``). All of the above reads Q in three ways only: the greatest of a state and its
place, which are exact, and Q < TV - distance, which an upper bound proves as well. Nothing else of Q enters, so the
certificate is the same. ``Solution.q`` does not show such bounds: it is computed when it is read.

Two other loops take Newton steps, and stay separate: that of ``prudent.planning.inner`` runs inside compiled
simulations, without a certificate and without Python between the steps; that of ``prudent.planning.model_draws``
solves thousands of drawn models in compiled code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._numerics.compensated import EPS, two_sums
from .._support.checks import FloatArray, IntArray
from .._support.progress import Progress
from .certificate import Certificate, Point
from .chain import DENSE, Chain
from .execute.executor import Executor
from .stay_close import Allowed

DIGITS = 1e-10  # default tolerance, relative to the largest value
NEWTON_FAILURES = 5  # Newton steps in a row that may fail to improve on the best point, if Newton need not converge
NEWTON_GROWTH = 10.0  # factor by which such a step may exceed the width of the bounds of the best point
SURE_FAILURES = 50  # steps in a row that may fail to improve on the best point, for iterations that always converge
MOST_SWEEPS = 64  # maximum number of sweeps after a failure of Newton; the number doubles from 1
NEAR_FLOOR = 100.0  # bounds narrower than this multiple of the rounding noise are at the floor once steps fail
BACKUP_SHARE = 0.02  # share of the tolerance that the error of the backups may take
CHAIN_FRACTION = 0.01  # fraction of the outer residual to which a chain is solved; the next step would lose more
COSTLY_CHAIN_FRACTION = 1e-4  # the same if a backup costs far more than products with the chain


class Reason(NamedTuple):
    """Why an iteration stopped."""

    converged: bool
    capped: bool
    message: str


class End(NamedTuple):
    """Where an iteration stopped, and why."""

    point: Point
    shift: float  # the answer is TV + shift
    error: float
    iterations: int
    reason: Reason


class Iteration:
    """Repeated backups by one executor, for control, for control within allowed mixtures, or for one policy."""

    def __init__(
        self,
        executor: Executor,
        admissible: npt.NDArray[np.bool_],
        actions: npt.NDArray[Any] | None,
        allowed: Allowed | None = None,
    ) -> None:
        """``actions`` are those of a policy to evaluate, [S] or [S, A]; ``allowed`` constrains control."""
        self.executor = executor
        self.fixed, self.allowed = actions, allowed
        n_states, n_actions = admissible.shape
        self.first_pair = np.arange(0, n_states * n_actions, n_actions)
        self.admissible = admissible
        # whether the policy [S, A] chooses at random
        self.mixed = allowed is not None or (actions is not None and actions.ndim == 2)
        self.certain: Any = None  # table of the pairs whose Q must be known although they are not the best
        if actions is None:
            self.every_pair = np.flatnonzero(admissible)
            only_best = admissible if allowed is None else allowed.only_best
            self.table = executor.table(np.flatnonzero(only_best), True)
            if allowed is not None:
                self.certain = executor.table(np.flatnonzero(allowed.used & ~only_best), False)
                self.certain.q = self.table.q  # one array for both
        else:
            self.every_pair = np.flatnonzero(actions) if self.mixed else self.first_pair + actions
            self.table = executor.table(self.every_pair, False)
        # Q - V of a single action is no small number: mixtures are not refined
        self.refines = executor.refines and not self.mixed
        self.iterations = 0
        self.digits = DIGITS  # of the largest value: the tolerance where none is given
        self.certificate: Any = self.make_certificate()
        # policy iteration ends, but the bounds may widen before: it needs hardly a safeguard, and by elimination none
        self.most_failures, self.growth = NEWTON_FAILURES, NEWTON_GROWTH
        if self.refines:
            self.most_failures, self.growth = SURE_FAILURES, np.inf
        self.always_ends = self.refines and n_states <= DENSE
        self.drops = True  # whether bounds prove actions suboptimal for good

    def make_certificate(self) -> Any:
        """Return what bounds the answer of the iteration."""
        return Certificate(self.executor.discount, self.executor.leaks)

    def at(self, value: FloatArray) -> Point:
        """Back ``value`` up once and bound the fixed point."""
        eta = self.table.back_up(value)
        if self.certain is not None:
            eta = max(eta, self.certain.back_up(value))
        swept, actions, widest_gap, rounding = self._best()
        eta += rounding
        change = swept - value
        lower, upper, noise, residual = self.certificate.bounds(change, eta)
        top = float(abs(swept).max()) + max(abs(lower), abs(upper))
        noise += 0.51 * EPS * top  # the answer is rounded once more
        point = Point(value, swept, change, actions, lower, upper, noise, residual)
        # Q* <= Q + upper and V* >= TV + lower: actions further apart than that are suboptimal for good
        enough = point.width + 2.0 * noise + 4.0 * EPS * top
        if self.drops and widest_gap > enough:
            self.table.drop(swept if self.allowed is None else self.allowed.best_free(self.table.q), enough)
        return point

    def at_pair(self, value: FloatArray, rest: FloatArray) -> Point:
        """As ``at`` for V = ``value`` + ``rest``, in twice the precision."""
        eta = self.table.residual(value, rest)
        change, actions, _, _ = self._best()
        lower, upper, noise, residual = self.certificate.bounds(change, eta)
        swept = value + (rest + change)
        small = max(abs(lower), abs(upper)) + float((abs(rest) + abs(change)).max())
        noise += 0.51 * EPS * (float(abs(swept).max()) + 4.0 * small)  # the answer is rounded, its parts before
        return Point(value, swept, change, actions, lower, upper, noise, residual, rest)

    def _best(self) -> tuple[FloatArray, npt.NDArray[Any], float, float]:
        """Count a backup; return the best of q for each state, its actions, the widest distance to another, the error.

        The error is that of mixing q: shares were rounded, products and sums are.
        """
        self.iterations += 1
        if self.allowed is not None:
            value, policy, error = self.allowed.best(self.table.q)
            return value, policy, 0.0 if self.allowed.is_soft else np.inf, error
        if self.fixed is None:
            return *self.table.best(), 0.0
        q = self.table.of_pairs()
        if not self.mixed:
            return q, self.fixed, 0.0, 0.0
        rows, shares = self._shares(self.fixed, self.every_pair)
        rounding = (self.executor.n_actions + 4.0) * EPS * float(abs(q).max())
        return np.add.reduceat(shares * q, rows), self.fixed, 0.0, rounding

    def _shares(self, policy: npt.NDArray[Any], pairs: IntArray) -> tuple[IntArray, FloatArray]:
        """Return where the pairs of each state begin in ``pairs``, those that the policy takes, and their shares."""
        return np.searchsorted(pairs, self.first_pair), policy.reshape(-1)[pairs]

    def q_at(self, point: Point, shift: float) -> FloatArray:
        """Return Q [S, A] at ``point`` + ``shift``: all admissible actions for control, the policy's for evaluation."""
        q = np.where(self.admissible, np.nan, -np.inf)
        if point.rest is None:
            self.executor.backup(point.value, self.every_pair, q.reshape(-1))
            return q + shift
        self.executor.rows.residual(point.value, point.rest, self.every_pair, q.reshape(-1))
        return point.value[:, None] + (q + (point.rest + shift)[:, None])

    def sweep(self, value: FloatArray, sweeps: int) -> End:
        """Back up ``sweeps`` times, as the paper does, and certify the result."""
        value = self.executor.vector(value)
        progress = Progress("sweeping")
        for _ in range(sweeps):
            point = self.at(value)
            value = point.swept
            progress.show(f"sweep {self.iterations} of {sweeps}, error bound {point.error:.1e}")
        progress.close()
        error = max(abs(point.lower), abs(point.upper)) + point.noise
        message = f"stopped after {sweeps} sweep{'s' * (sweeps > 1)} as asked"
        return End(point, 0.0, error, self.iterations, Reason(True, False, message))

    def to_tolerance(self, value: FloatArray, tol: float | None, cap: int, newton: bool) -> End:
        """Iterate until the certified error is at most ``tol``, rounding forbids more, or ``cap`` backups are done."""
        progress = Progress("solving")
        value = self.executor.vector(value)
        self.executor.tell = lambda done: progress.show(f"backup {self.iterations + 1}, {done:.0%} of it done")
        aim = self.digits * float(abs(value).max()) if tol is None else tol
        self.executor.accuracy = BACKUP_SHARE * aim / (1.0 + self.certificate.widest)
        best = self.at(value)
        point = best
        failures = 0  # backups since the last new best
        sweeps, next_sweeps = 0, 1  # sweeps still to do; how many the next failure of Newton costs
        most_failures = NEWTON_FAILURES if newton else SURE_FAILURES
        stuck = best.at_floor  # the floor rises with V: a point on it may be worse than one from before
        while not (reason := self._reason(best, tol, cap, stuck)):
            if sweeps > 0 or not newton:
                sweeps -= 1
                value = self._shifted(point)
            elif self.always_ends or (failures < self.most_failures and point.width <= self.growth * best.width):
                value = self._chain_values(point, None, self._shifted(point))
            else:
                value = self._shifted(best)
                sweeps, next_sweeps = next_sweeps - 1, min(2 * next_sweeps, MOST_SWEEPS)
                failures = 0
            before, point = point, self.at(value)
            if point.error < best.error:
                best, failures = point, 0
            else:
                failures += 1
            stuck = point.at_floor or (failures >= most_failures and best.width <= NEAR_FLOOR * best.noise)
            if newton and self.always_ends and failures > 1:  # policies get better and better, but for rounding
                stuck |= not (value > before.value).any() or bool((value < before.value).any())
            progress.show(f"backup {self.iterations}, error bound {best.error:.1e}")
        if self.refines and not (reason.converged or reason.capped):
            best, reason = self._refined(best, tol, cap, newton, progress)
        progress.close()
        self.executor.tell = None  # it holds a reference to this iteration, and so to the model
        return End(best, best.middle, best.error, self.iterations, reason)

    def _refined(
        self, best: Point, tol: float | None, cap: int, newton: bool, progress: Progress
    ) -> tuple[Point, Reason]:
        """Go on from ``best``, where rounding stopped it, in twice the precision."""
        value, rest = best.moved(best.middle), np.zeros(best.value.size)
        failures = 0
        while True:
            point = self.at_pair(value, rest)
            best, failures = (point, 0) if point.error < best.error else (best, failures + 1)
            progress.show(f"backup {self.iterations}, error bound {best.error:.1e}")
            if reason := self._reason(best, tol, cap, point.at_floor or failures >= SURE_FAILURES):
                return best, reason
            step = point.change + point.middle if self.certificate.conservative else point.change
            if newton:
                step = self._chain_values(point, point.change, step)
            value, rest = two_sums(value, rest + step)

    def _reason(self, best: Point, tol: float | None, cap: int, stuck: bool) -> Reason | None:
        """Return why to stop, if so."""
        if tol is None:
            tol = self._default_tolerance(best)
        return reason_to_stop(best.error, tol, self.iterations, cap, stuck)

    def _default_tolerance(self, best: Point) -> float:
        """Return the tolerance where none is given."""
        return self.digits * float(abs(best.swept + best.middle).max())

    def _chain_values(self, point: Point, reward: FloatArray | None, guess: FloatArray) -> FloatArray:
        """Return the values of the chain that touches the backup at ``point``, with another reward if given."""
        chain, target = self._touching(point)
        if reward is not None:
            chain = chain.with_reward(reward)
        values: FloatArray = chain.values(self.executor.discount, guess, target, self.certificate.conservative)
        return values

    def _touching(self, point: Point) -> tuple[Any, float]:
        """Return the chain that touches the backup at ``point``, and the residual to which it is worth solving."""
        if self.mixed:
            pairs = np.flatnonzero(point.actions)
            chain = self._mixture(self.executor.linearise(point.value, pairs), *self._shares(point.actions, pairs))
        else:
            chain = self.table.linearise(point.value, point.actions)
        fraction = COSTLY_CHAIN_FRACTION if self.executor.costly else CHAIN_FRACTION
        return chain, max(fraction * point.residual, 0.1 * point.noise / (1.0 + self.certificate.widest))

    def _mixture(self, chain: Chain, rows: IntArray, shares: FloatArray) -> Chain:
        """Return the chain over states of one over the pairs that the policy takes."""
        data = chain.data * np.repeat(shares, np.diff(chain.indptr))
        indptr = np.append(chain.indptr[rows], chain.indptr[-1])
        return Chain(indptr, chain.indices, data, np.add.reduceat(shares * chain.reward, rows))

    def _shifted(self, point: Point) -> FloatArray:
        """Return TV, moved to the middle of its bounds where a shift of V is a shift of TV."""
        return point.swept + point.middle if self.certificate.conservative else point.swept


def reason_to_stop(error: float, tol: float, iterations: int, cap: int, stuck: bool) -> Reason | None:
    """Return why to stop with an error bound, if so; ``stuck`` says that rounding hides what is left."""
    if error <= tol:
        return Reason(True, False, f"error bound {error:.2g} <= {tol:.2g} after {_backups(iterations)}")
    if stuck:
        floor = f"error bound {error:.2g} is as small as rounding allows"
        return Reason(False, False, f"{floor}; {tol:.2g} would need more than 64-bit floats")
    if iterations >= cap:
        return Reason(False, True, f"stopped at the cap of {_backups(cap)} with error bound {error:.2g} > {tol:.2g}")
    return None


def _backups(count: int) -> str:
    return f"{count} backup{'s' * (count != 1)}"
