"""The iteration for a gain: bounds by the extremes of Th - h, and Newton steps that correct h.

``prudent.planning.average`` has the mathematics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from .._numerics.compensated import EPS
from ..errors import ModelError
from ..types import BoolArray, FloatArray
from .certificate import Point
from .chain import DENSE, Chain, most_products, sparse_elimination
from .execute.executor import Executor
from .fixed_point import Guess, on_device
from .newton import SURE_FAILURES, End, Iteration
from .options import SolverOptions

NEAR_ONE = 1.0 - 1e-9  # discount of the chains of Newton steps
FIRST_GAPS = (1e-4, 1e-6, 1e-8)  # 1 - discount of the first guess, and of later ones where the one before fails
FIRST_DIGITS = 1e-3  # relative tolerance of the first guess
FIRST_BACKUPS = 20  # cap of its backups; later ones may use all that are left
ATTEMPT = 60  # backups from a first guess, before another is tried
BRIEF = 12  # backups from a first guess, before policies are solved for instead
SMALL_GAIN = 1e-2  # of the largest reward: smaller gains are wanted to fewer digits


class Span:
    """The bounds of a gain: extremes of Th - h. The names are those of ``prudent.planning.certificate.Certificate``.

    A ``Point`` has the bounds of minus the gain, so that the middle of its bounds takes the gain from Th.
    """

    widest = 0.0
    conservative = True

    def bounds(self, change: Any, error: float) -> tuple[float, float, float, float]:
        """Return lower, upper, noise and residual of a ``Point`` whose Th - h is ``change`` up to ``error``."""
        low, high = float(change.min()), float(change.max())
        return -high, -low, error + EPS * max(abs(low), abs(high)), 0.5 * (high - low)


class _Solved(Iteration):
    """An iteration whose large chains are eliminated where BiCGStab fails: long and narrow ones, hardly filled."""

    _narrow = False  # whether BiCGStab has failed

    def _values_at(self, chain: Any, discount: float, guess: Any, target: float) -> Any:
        """Return the values of a chain at a discount."""
        if not isinstance(chain, Chain) or chain.reward.size <= DENSE:
            return chain.values(discount, guess, target, True)
        size = chain.reward.size
        matrix = scipy.sparse.csr_array((chain.data, chain.indices, chain.indptr), shape=(size, size))
        if not self._narrow:
            step = chain.values(discount, guess, target, True, most_products(size, matrix.nnz))
            self._narrow = bool(np.ptp(chain.reward + discount * (matrix @ step) - step) > 4.0 * target)
        return sparse_elimination(matrix, chain.reward, discount) if self._narrow else step

    def _chain_values(self, point: Point, reward: FloatArray | None, guess: FloatArray) -> FloatArray:
        """Return the values of the chain that touches the backup at ``point``."""
        chain, target = self._touching(point)
        chain = chain if reward is None else chain.with_reward(reward)
        values: FloatArray = self._values_at(chain, self.executor.discount, guess, target)
        return values


class Average(_Solved):
    """The iteration for a gain: another certificate, and chains that are solved for a correction."""

    scale = 1.0  # size of the rewards, which the default tolerance is relative to

    def __init__(self, executor: Executor, admissible: BoolArray, actions: npt.NDArray[Any] | None) -> None:
        """``actions`` are those of a policy to evaluate, [S] or [S, A]."""
        super().__init__(executor, admissible, actions)
        self.drops, self.always_ends = False, False  # values of later points are not bounded by the span
        if self.refines:  # policy iteration
            self.most_failures, self.growth = SURE_FAILURES, np.inf
        self.refines = False
        # rows that do not quite sum to one are taken as if divided by their sums
        self._leak = max(abs(leak) for leak in executor.leaks)

    def make_certificate(self) -> Span:
        """Return the bounds of a gain."""
        return Span()

    def at(self, value: FloatArray) -> Point:
        """Back ``value`` up once and bound the gain."""
        point = super().at(value)
        return point._replace(noise=point.noise + self._leak * float(abs(value).max()))

    def _default_tolerance(self, best: Point) -> float:
        return self.digits * max(abs(best.middle), SMALL_GAIN * self.scale)

    def _shifted(self, point: Point) -> FloatArray:
        """Return h half way to Th - gain."""
        return self._centred(point.value + (point.change + point.middle) * 0.5)

    def _chain_values(self, point: Point, reward: FloatArray | None, guess: FloatArray) -> FloatArray:
        """Return h corrected by the chain that touches the backup."""
        chain, target = self._touching(point)
        zero = self.executor.vector(np.zeros(point.value.size))
        step = self._values_at(chain.with_reward(point.change + point.middle), NEAR_ONE, zero, target)
        return self._centred(point.value + step)

    @staticmethod
    def _centred(value: Any) -> Any:
        return value + -0.5 * (float(value.min()) + float(value.max()))


class Gains(NamedTuple):
    """A constant gain, where the iteration stopped."""

    gain: float
    error: float
    relative: FloatArray  # [S] h, centred
    actions: npt.NDArray[Any]  # [S] or [S, A]
    end: End


def constant_gain(
    executor: Executor,
    admissible: BoolArray,
    actions: npt.NDArray[Any] | None,
    options: SolverOptions,
    scale: float,
    guess: Guess | None = None,
) -> Gains:
    """Return the gain of an operator without a discount that has only one, or bounds of its gains.

    ``scale`` is the size of the rewards, which the default tolerance is relative to.
    """
    operator = on_device(executor, options)
    iteration = Average(operator, admissible, actions)
    value = np.zeros(admissible.shape[0]) if guess is None else guess.value
    iteration.scale, iteration.iterations = scale, 0 if guess is None else guess.iterations
    with np.errstate(over="ignore", invalid="ignore"):
        end = iteration.to_tolerance(value, options.tol, options.cap, newton=options.method == "newton")
    relative = np.asarray(end.point.value)
    error = end.error + executor.measure_error(relative)
    if not (np.isfinite(relative).all() and np.isfinite(error)):
        message = "the relative values of this model are too large for 64-bit floats; measure rewards in a larger unit"
        raise ModelError(message, code="overflow", argument="reward")
    return Gains(-end.shift, error, relative, np.asarray(end.point.actions), end)


def size_of(reward: FloatArray) -> float:
    """Return the size of rewards; 1 if all are zero."""
    return float(abs(reward).max(initial=0.0)) or 1.0


def first_guess(executor: Executor, admissible: BoolArray, actions: Any, cap: int, before: Guess | None) -> Guess:
    """Return relative values of an operator with a discount near 1, roughly, as a first guess."""
    iteration = _Solved(executor, admissible, actions)
    start = Guess(np.zeros(admissible.shape[0]), 0) if before is None else before
    iteration.digits, iteration.iterations = FIRST_DIGITS, start.iterations
    with np.errstate(over="ignore", invalid="ignore"):
        end = iteration.to_tolerance(start.value, None, cap, newton=True)
        value = np.asarray(end.point.moved(end.shift))
        value = value - 0.5 * (value.min() + value.max())
    return Guess(value if np.isfinite(value).all() else start.value, end.iterations)


def gain_by_stages(
    operator: Executor,
    near: Callable[[float], Executor | None],
    admissible: BoolArray,
    actions: npt.NDArray[Any] | None,
    options: SolverOptions,
    scale: float,
    guess: Guess | None = None,
    brief: bool = False,
) -> Gains:
    """Return the gain, from first guesses at discounts closer and closer to 1; ``near(discount)`` is their operator.

    A ``brief`` search ends after a few backups from the first guess.
    """
    found, attempt = None, BRIEF if brief else ATTEMPT
    for gap in FIRST_GAPS:
        last = gap == FIRST_GAPS[-1]
        cap = options.cap if last else min(options.cap, attempt)
        if guess is None or found is not None:
            rough = near(1.0 - gap)
            if rough is not None:
                most = min(FIRST_BACKUPS, options.cap - 1) if found is None else options.cap
                guess = first_guess(on_device(rough, options), admissible, actions, most, guess)
                cap = min(options.cap, max(cap, guess.iterations + attempt))
        found = constant_gain(operator, admissible, actions, replace(options, max_iterations=cap), scale, guess)
        if brief or not found.end.reason.capped or cap == options.cap:
            break
        guess = Guess(found.relative, found.end.iterations)
    assert found is not None
    return found
