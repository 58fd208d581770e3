"""Solvers with a certificate: value iteration and safeguarded Newton.

Let T be a Bellman operator of :mod:`prudent.planning.operators`, for control or for a fixed policy: monotone, and
shifted by g c when c is added to V. Here g = gamma (1 - leak), and the leak, what a row lacks to sum to one, lies in
a known interval (exactly zero under a posterior, unless outcomes end the process). With lo, hi the extremes of TV - V
the fixed point obeys MacQueen's bounds

    TV + lower <= V* <= TV + upper,      upper = hi g/(1 - g),   lower = lo g/(1 - g),

with the least leak where that widens the bounds and the greatest elsewhere. A solution is the middle of these bounds,
and ``error_bound`` half their distance plus what rounding can add. It holds for the numbers as given:

- g/(1 - g) is as wrong as g divided by 1 - g. Hence 1 - g is (1 - gamma) + gamma leak, where nothing cancels but what
  the model itself cancels, leaks come from compensated sums, and the quotients are rounded outwards. Rows that sum to
  more than 1/gamma leave no bound at all, and are refused.
- The operator's own error eta enters TV and the residual TV - V, in all as eta/(1 - g).

So the bound cannot fall below about eta/(1 - g). A solver that meets this floor goes on in twice the precision where
the operator can (a known model): V is then a pair of numbers, its residual a compensated sum, and each step a
correction (I - gamma P)^-1 (TV - V), which is iterative refinement. What is left is the rounding of the answer itself.
Other operators stop at the floor and say so.

Value iteration repeats V <- TV, for a number of sweeps (as the paper does) or until the bound meets a tolerance; then
V also moves to the middle of its bounds where rows sum to one, which changes a constant and not the course.

Newton solves the chain that touches T at V (greedy actions and, under CVaR, the outcome probabilities of the
tail). For a known model that is policy iteration, which always ends. A max-min problem has no such guarantee, so
there Newton may lapse a few times in a row, never far above the best point so far; then sweeps from that point,
which always contract, take over for a while. Actions that the bounds prove suboptimal are dropped along the way.
Chains of up to 300 states are solved directly, larger ones by BiCGStab, started from V, to a fraction of the current
distance: a small one where backups cost far more than products with the chain.

For control the operator may answer with upper bounds in place of Q for actions that are not the best of their state
(see "the screen" in :mod:`prudent.planning.operators`). All of the above reads Q in three ways only: the greatest of a
state and its place, which are exact, and Q < TV - distance, which an upper bound proves as well. Nothing else of Q
enters, so the certificate is the same. ``Solution.q`` does not show such bounds: it is worked out when it is read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._numerics import krylov
from .._numerics.compensated import EPS, two_sums
from .._support.checks import FloatArray, IntArray
from .._support.progress import Progress
from ..errors import ModelError
from .operators import Operator

__all__ = ["End", "Iteration", "Point", "Reason"]

DIGITS = 1e-10  # of the largest value: the tolerance by default
LAPSES = 5  # Newton steps in a row that may fail to improve on the best point
UPHILL = 10.0  # and by how much they may lie above it
SHARE = 0.02  # of the tolerance that the backups' own error may take
PATIENCE = 50  # and how many other steps, which always end, may fail to
INNER = 0.01  # a Krylov solve stops at this fraction of the outer residual: more would be lost in the next step,
FINE = 1e-4  # which is worth avoiding where a step is costly


class Point(NamedTuple):
    """A value function V and what one backup told about the fixed point."""

    value: FloatArray  # [S] V
    swept: FloatArray  # [S] TV
    change: FloatArray  # [S] TV - V
    actions: IntArray  # [S] greedy at V
    lower: float  # TV + lower <= V* <= TV + upper, were it not for rounding
    upper: float
    noise: float  # what rounding can add to the distance from V*
    residual: float
    rest: FloatArray | None = None  # [S] in twice the precision V is value + rest

    @property
    def width(self) -> float:
        """Distance between the bounds."""
        return self.upper - self.lower

    @property
    def middle(self) -> float:
        """Middle of the bounds."""
        return 0.5 * (self.lower + self.upper)

    @property
    def error(self) -> float:
        """Certified error of the middle of the bounds."""
        return 0.5 * self.width + self.noise

    @property
    def at_floor(self) -> bool:
        """Whether rounding is all that is left to shrink."""
        return 0.5 * self.width <= self.noise

    def moved(self, shift: float) -> FloatArray:
        """Return TV + ``shift``, rounded once."""
        return self.swept + shift if self.rest is None else self.value + (self.change + (self.rest + shift))


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
    """Repeated backups of one operator, for control or for one policy."""

    def __init__(self, operator: Operator, admissible: npt.NDArray[np.bool_], actions: npt.NDArray[Any] | None) -> None:
        self.operator = operator
        self.fixed = actions
        n_states, n_actions = admissible.shape
        first_pair = np.arange(0, n_states * n_actions, n_actions)
        self.admissible = admissible
        self.mixed = False  # whether the policy [S, A] chooses at random
        if actions is None:
            self.every_pair = np.flatnonzero(admissible)
        elif actions.ndim == 2:
            self.mixed = True
            self.every_pair = np.flatnonzero(actions)
            self.shares = actions.reshape(-1)[self.every_pair]
            self.rows = np.searchsorted(self.every_pair, first_pair)  # where the pairs of each state begin
        else:
            self.every_pair = first_pair + actions
        # Q - V of a single action is no small number: mixtures are not refined
        self.refines = operator.refines and not self.mixed
        self.table = operator.table(self.every_pair, actions is None)
        self.iterations = 0
        self.digits = DIGITS  # of the largest value: the tolerance where none is given
        least, greatest = operator.leaks
        self.wide, self.narrow = _reach(operator.discount, least, 1.0), _reach(operator.discount, greatest, -1.0)
        # where a shift of V by a constant shifts TV - V by a constant, such a constant does no harm
        self.conservative = self.wide <= 1.001 * self.narrow
        # policy iteration ends, but the bounds may widen before: it needs hardly a safeguard, and by elimination none
        self.lapses, self.uphill = (PATIENCE, np.inf) if self.refines else (LAPSES, UPHILL)
        self.always_ends = self.refines and n_states <= krylov.DENSE

    def at(self, value: FloatArray) -> Point:
        """Back ``value`` up once and bound the fixed point."""
        eta = self.table.back_up(value)
        swept, actions, widest_gap = self._best()
        if self.mixed:  # shares were rounded, products and sums are
            eta += (self.operator.n_actions + 4.0) * EPS * float(abs(self.table.of_pairs()).max())
        change = swept - value
        lower, upper, noise, residual = self._bounds(change, eta)
        top = float(abs(swept).max()) + max(abs(lower), abs(upper))
        noise += 0.51 * EPS * top  # the answer is rounded once more
        point = Point(value, swept, change, actions, lower, upper, noise, residual)
        # Q* <= Q + upper and V* >= TV + lower: actions further apart than that are suboptimal for good
        enough = point.width + 2.0 * noise + 4.0 * EPS * top
        if widest_gap > enough:
            self.table.drop(swept, enough)
        return point

    def at_pair(self, value: FloatArray, rest: FloatArray) -> Point:
        """As :meth:`at` for V = ``value`` + ``rest``, in twice the precision."""
        eta = self.table.residual(value, rest)
        change, actions, _ = self._best()
        lower, upper, noise, residual = self._bounds(change, eta)
        swept = value + (rest + change)
        small = max(abs(lower), abs(upper)) + float((abs(rest) + abs(change)).max())
        noise += 0.51 * EPS * (float(abs(swept).max()) + 4.0 * small)  # the answer is rounded, its parts before
        return Point(value, swept, change, actions, lower, upper, noise, residual, rest)

    def _best(self) -> tuple[FloatArray, IntArray, float]:
        """Count a backup; return the best of q for each state, its actions, and the widest distance to another one."""
        self.iterations += 1
        if self.fixed is None:
            return self.table.best()
        q = self.table.of_pairs()
        return np.add.reduceat(self.shares * q, self.rows) if self.mixed else q, self.fixed, 0.0

    def _bounds(self, change: FloatArray, error: float) -> tuple[float, float, float, float]:
        """Return lower, upper, noise and residual for a TV - V that is ``change`` but for ``error`` and a rounding."""
        low, high = float(change.min()), float(change.max())
        error += EPS * max(abs(low), abs(high))
        lower = low * (self.wide if low < 0.0 else self.narrow)
        upper = high * (self.wide if high > 0.0 else self.narrow)
        noise = error * (1.0 + self.wide) + 3.0 * EPS * max(abs(lower), abs(upper))
        return lower, upper, noise, 0.5 * (high - low) if self.conservative else max(abs(low), abs(high))

    def q_at(self, point: Point, shift: float) -> FloatArray:
        """Return Q [S, A] at ``point`` + ``shift``: all admissible actions for control, the policy's for evaluation."""
        q = np.where(self.admissible, np.nan, -np.inf)
        if point.rest is None:
            self.operator.backup(point.value, self.every_pair, q.reshape(-1))
            return q + shift
        self.operator.residual(point.value, point.rest, self.every_pair, q.reshape(-1))
        return point.value[:, None] + (q + (point.rest + shift)[:, None])

    def sweep(self, value: FloatArray, sweeps: int) -> End:
        """Apply the operator ``sweeps`` times, as the paper does, and certify the result."""
        value = self.operator.vector(value)
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
        value = self.operator.vector(value)
        self.operator.tell = lambda done: progress.show(f"backup {self.iterations + 1}, {done:.0%} of it done")
        aim = self.digits * float(abs(value).max()) if tol is None else tol
        self.operator.accuracy = SHARE * aim / (1.0 + self.wide)
        best = self.at(value)
        point = best
        stale = 0  # backups since the last new best
        sweeps, penance = 0, 1  # sweeps still to do; how many the next failure of Newton costs
        patience = LAPSES if newton else PATIENCE
        stuck = best.at_floor  # the floor rises with V: a point on it may be worse than one from before
        while not (reason := self._reason(best, tol, cap, stuck)):
            if sweeps > 0 or not newton:
                sweeps -= 1
                value = self._shifted(point)
            elif self.always_ends or (stale < self.lapses and point.width <= self.uphill * best.width):
                value = self._newton(point)
            else:
                value = self._shifted(best)
                sweeps, penance = penance - 1, min(2 * penance, 64)
                stale = 0
            before, point = point, self.at(value)
            if point.error < best.error:
                best, stale = point, 0
            else:
                stale += 1
            stuck = point.at_floor or (stale >= patience and best.width <= 100.0 * best.noise)
            if newton and self.always_ends and stale > 1:  # policies get better and better, but for rounding
                stuck |= not (value > before.value).any() or bool((value < before.value).any())
            progress.show(f"backup {self.iterations}, error bound {best.error:.1e}")
        if self.refines and not (reason.converged or reason.capped):
            best, reason = self._refined(best, tol, cap, newton, progress)
        progress.close()
        self.operator.tell = None  # and so let go of all that it holds, when nobody needs it any more
        return End(best, best.middle, best.error, self.iterations, reason)

    def _refined(
        self, best: Point, tol: float | None, cap: int, newton: bool, progress: Progress
    ) -> tuple[Point, Reason]:
        """Go on from ``best``, where rounding stopped it, in twice the precision."""
        value, rest = best.moved(best.middle), np.zeros(best.value.size)
        stale = 0
        while True:
            point = self.at_pair(value, rest)
            best, stale = (point, 0) if point.error < best.error else (best, stale + 1)
            progress.show(f"backup {self.iterations}, error bound {best.error:.1e}")
            if reason := self._reason(best, tol, cap, point.at_floor or stale >= PATIENCE):
                return best, reason
            step = point.change + point.middle if self.conservative else point.change
            if newton:
                step = self._chain_values(point, point.change, step)
            value, rest = two_sums(value, rest + step)

    def _reason(self, best: Point, tol: float | None, cap: int, stuck: bool) -> Reason | None:
        """Return why to stop, if so."""
        if tol is None:
            tol = self.digits * float(abs(best.swept + best.middle).max())
        if best.error <= tol:
            message = f"error bound {best.error:.2g} <= {tol:.2g} after {_backups(self.iterations)}"
            return Reason(True, False, message)
        if stuck:
            floor = f"error bound {best.error:.2g} is as small as rounding allows"
            return Reason(False, False, f"{floor}; {tol:.2g} would need more than 64-bit floats")
        if self.iterations >= cap:
            message = f"stopped at the cap of {_backups(cap)} with error bound {best.error:.2g} > {tol:.2g}"
            return Reason(False, True, message)
        return None

    def _newton(self, point: Point) -> FloatArray:
        """Return the values of the chain that touches the operator at ``point``."""
        return self._chain_values(point, None, self._shifted(point))

    def _chain_values(self, point: Point, reward: FloatArray | None, guess: FloatArray) -> FloatArray:
        """Return the values of the chain that touches the operator at ``point``, with another reward if given."""
        if self.mixed:
            chain = self._mixture(self.operator.linearise(point.value, self.every_pair))
        else:
            chain = self.table.linearise(point.value, point.actions)
        if reward is not None:
            chain = chain._replace(reward=reward)
        fraction = FINE if self.operator.costly else INNER
        target = max(fraction * point.residual, 0.1 * point.noise / (1.0 + self.wide))
        return chain.values(self.operator.discount, guess, target, self.conservative)

    def _mixture(self, chain: krylov.Chain) -> krylov.Chain:
        """Return the chain over states of one over the pairs that the policy takes."""
        data = chain.data * np.repeat(self.shares, np.diff(chain.indptr))
        indptr = np.append(chain.indptr[self.rows], chain.indptr[-1])
        return krylov.Chain(indptr, chain.indices, data, np.add.reduceat(self.shares * chain.reward, self.rows))

    def _shifted(self, point: Point) -> FloatArray:
        """Return TV, moved to the middle of its bounds where a shift of V is a shift of TV."""
        return point.swept + point.middle if self.conservative else point.swept


def _reach(discount: float, leak: float, outwards: float) -> float:
    """Return g/(1 - g) for g = gamma (1 - leak), rounded up (``outwards`` = 1) or down (-1)."""
    gap = (1.0 - discount) + discount * leak
    gap -= outwards * 4.0 * EPS * ((1.0 - discount) + discount * abs(leak))
    if not gap > 0.0:
        raise ModelError(
            f"rows sum to as much as 1 + {-leak:.3g}, and at discount {discount!r} more than 1 + "
            f"{(1.0 - discount) / discount:.3g} leaves no finite value; normalise the rows or lower the discount"
        )
    return max(0.0, discount * (1.0 - leak)) / gap * (1.0 + outwards * 4.0 * EPS)


def _backups(count: int) -> str:
    return f"{count} backup{'s' * (count != 1)}"
