"""Average reward: the gain of a process that runs for ever, certified, and the bias of the policy that reaches it.

Let T be a Bellman backup without a discount whose rows sum to one: monotone, and shifted by c when c is added to its
argument. With lo, hi the extremes of Th - h, T^n h lies between h + n lo and h + n hi, for any h. So the gain, the
limit of T^n h / n and of (1 - gamma) V_gamma, obeys

    lo <= gain <= hi.

This holds for a known model, a policy, and every risk of a posterior that is monotone and translation equivariant
(CVaR, quantiles, mixtures of them, entropic risk). The iteration of ``prudent.planning.newton`` looks for the h at
which the two meet: ``Average`` has other bounds and another chain to solve, and all else is the same, on threads and on
a GPU. For a bounded discount the bound says |(1 - gamma) V_gamma - gain| <= (hi - lo) / 2 + (1 - gamma) (max h - min h).

**The step.** With the greedy actions (and tail probabilities) P at h, a Newton step solves (I - P) d = Th - h - gain.
That matrix is singular, once for each closed class of P. Solved is (I - gamma P) d instead, gamma = ``NEAR_ONE``: it
leaves an error of (1 - gamma) P d, which the next step removes, and needs no knowledge of the classes. A sweep goes
half way, h + (Th - h - gain) / 2, which converges for periodic chains as well.

**Several gains (multichain).** If the process can be confined to several sets of states, the gain depends on where it
begins. A known model is then solved in parts. Its end components (``prudent.planning.components``) have one gain each.
In the quotient, where each component is one state in which one may stop and be paid its gain, every process ends, so
that the gains of all states are values of ``prudent.planning.undiscounted``, with its certificate. An end of the process
is a component with gain 0.

**Bias.** The bias of a policy with transition matrix P, reward r and gain g is the solution of h = r - g + P h whose mean
under the stationary law of each closed class of P is 0: what beginning in a state is worth beyond the gain of all
steps. Let xi bound the expected time to reach a fixed state of some class. If h solves the equation up to e, and m the
stationary equation up to f, the error of h is at most 2 xi (e + f max|h|).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from .._numerics.compensated import EPS
from .._support.checks import finite_array, require_shape
from .._support.notices import warn_caller
from ..errors import ConvergenceWarning, ModelError, ParameterError
from ..models.mdp import MDP
from ..types import BoolArray, FloatArray, IntArray, PolicyLike, RngLike
from .base import PlanningProblem
from .certificate import Point
from .chain import DENSE, MAX_PRODUCTS, Chain, chain_values, sparse_elimination
from .components import Components, end_components
from .execute.executor import Executor
from .execute.threads import Threads
from .fixed_point import Guess, on_device
from .horizon import taken_pairs
from .known_problem import KnownProblem
from .newton import DIGITS, SURE_FAILURES, End, Iteration
from .options import SolverOptions
from .row_risks import MeanRows
from .solution import Solution
from .stationary import solve_stationary
from .undiscounted import ending_leaks

NEAR_ONE = 1.0 - 1e-9  # discount of the chains of Newton steps
FIRST_GAPS = (1e-4, 1e-6, 1e-8)  # 1 - discount of the first guess, and of later ones where the one before fails
FIRST_DIGITS = 1e-3  # relative tolerance of the first guess
FIRST_BACKUPS = 20  # cap of its backups; later ones may use all that are left
ATTEMPT = 60  # backups from a first guess, before another is tried
ROW_ROUNDING = 1e-15  # sums of rows that are closer to one are rounded
LAW_STEPS = 30  # corrections of a stationary law
SMALL_GAIN = 1e-2  # of the largest reward: smaller gains are wanted to fewer digits
CONSERVED = 1e-9  # of the largest gain: an action that loses no more conserves the gain
SAME = 1e-12  # of the largest gain: gains of components that are closer are the same


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
        matrix = sparse.csr_array((chain.data, chain.indices, chain.indptr), shape=(size, size))
        if not self._narrow:
            step = chain.values(discount, guess, target, True)
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


def _size(reward: FloatArray) -> float:
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
) -> Gains:
    """Return the gain, from first guesses at discounts closer and closer to 1; ``near(discount)`` is their operator."""
    found = None
    for gap in FIRST_GAPS:
        last = gap == FIRST_GAPS[-1]
        cap = options.cap if last else min(options.cap, ATTEMPT)
        if guess is None or found is not None:
            rough = near(1.0 - gap)
            if rough is not None:
                most = min(FIRST_BACKUPS, options.cap - 1) if found is None else options.cap
                guess = first_guess(on_device(rough, options), admissible, actions, most, guess)
                cap = min(options.cap, max(cap, guess.iterations + ATTEMPT))
        found = constant_gain(operator, admissible, actions, replace(options, max_iterations=cap), scale, guess)
        if not found.end.reason.capped or cap == options.cap:
            break
        guess = Guess(found.relative, found.end.iterations)
    assert found is not None
    return found


# -- known models ------------------------------------------------------------------------------------------


class Known(NamedTuple):
    """Rows of a known model without a discount; P pairs s*A + a."""

    transition: sparse.csr_array  # (S*A) x S
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
            matrix = sparse.csr_array(
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
        shares = sparse.csr_array(parts, shape=(n_states, n_states * n_actions))
        mixed = sparse.csr_array(shares @ self.transition)
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
        matrix = (sparse.diags_array(kept.astype(np.float64)) @ self.transition[rows]).tocsr()
        matrix.eliminate_zeros()
        part = matrix[:, states].tocsr()
        part.sort_indices()
        reward, shape = np.where(kept, self.reward.reshape(-1)[rows], 0.0), (states.size, n_actions)
        return Known(part, reward.reshape(shape), kept.reshape(shape), np.zeros(rows.size), self.leaks, self.roundings)

    def executor(self, discount: float = 1.0, leaks: tuple[float, float] | None = None) -> Threads:
        """Return the operator."""
        indices, indptr = _index(self.transition)
        narrow = sparse.csr_array(
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


def _index(matrix: sparse.csr_array) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    return matrix.indices, matrix.indptr


class Answer(NamedTuple):
    """Gains of all states, a policy that reaches them, and how it was found."""

    gain: FloatArray  # [S]
    error: float
    policy: npt.NDArray[Any]  # [S]
    iterations: int
    converged: bool
    message: str
    capped: bool = False


def known_answer(rows: Known, options: SolverOptions, guess: Guess | None = None) -> Answer:
    """Return the gains of a known model, the same in all states or not."""
    parts = rows.components()
    if parts.count == 1 and not parts.ends:
        found = gain_by_stages(
            rows.executor(), rows.executor, rows.admissible, None, options, _size(rows.reward), guess
        )
        gain = np.full(rows.reward.shape[0], found.gain)
        reason = found.end.reason
        return Answer(
            gain, found.error, found.actions, found.end.iterations, reason.converged, reason.message, reason.capped
        )
    return _several_gains(rows, parts, options)


def _several_gains(rows: Known, parts: Components, options: SolverOptions) -> Answer:
    """Return the gains of a multichain model: one for each end component, then those of the quotient."""
    gain, error, iterations, converged = np.zeros(parts.count), 0.0, 0, True
    single = np.bincount(parts.of_state[parts.of_state >= 0], minlength=parts.count) == 1
    own = np.where(parts.inside.reshape(rows.reward.shape), rows.reward, -np.inf).max(axis=1)
    settled = np.flatnonzero(parts.of_state >= 0)
    alone = settled[single[parts.of_state[settled]]]
    gain[parts.of_state[alone]] = own[alone]
    for number in np.flatnonzero(~single).tolist():
        part = rows.restricted(parts.states(number), parts.inside)
        found = gain_by_stages(part.executor(), part.executor, part.admissible, None, options, _size(rows.reward))
        gain[number], error = found.gain, max(error, found.error)
        iterations, converged = iterations + found.end.iterations, converged and found.end.reason.converged
    value, above = _quotient_values(rows, parts, gain, options)
    iterations += above.iterations
    gains = value[_quotient_state(parts)]
    policy = _conserving_policy(rows, gains, error + above.error_bound)
    total = error + above.error_bound
    found = "one gain" if np.ptp(gains) <= SAME * abs(gains).max(initial=0.0) else "several gains (multichain)"
    message = f"{found}, error bound {total:.2g}, from {parts.count} end component{'s' * (parts.count != 1)}"
    return Answer(gains, total, policy, iterations, converged and above.converged, message)


def _quotient_state(parts: Components) -> IntArray:
    """Return the state of the quotient of each state [S]: those of components first."""
    free = parts.of_state < 0
    number = parts.of_state.copy()
    number[free] = parts.count + np.arange(int(free.sum()))
    return number


def _quotient_values(
    rows: Known, parts: Components, gain: FloatArray, options: SolverOptions
) -> tuple[FloatArray, Solution]:
    """Return the values of the quotient, and its solution: one may stop in a component, and be paid its gain."""
    number, n_actions = _quotient_state(parts), rows.reward.shape[1]
    size = int(number.max()) + 1
    pairs = np.flatnonzero(rows.admissible.reshape(-1) & ~parts.inside)
    owner = number[pairs // n_actions]
    order = np.argsort(owner, kind="stable")
    pairs, owner = pairs[order], owner[order]
    place = np.arange(pairs.size) - np.searchsorted(owner, owner)  # number of the pair among those of its owner
    width = int(place.max(initial=-1)) + 1 + (parts.count > 0)  # the last action stops in a component
    merged = sparse.csr_array((np.ones(number.size), (np.arange(number.size), number)), shape=(number.size, size))
    leaving = sparse.csr_array(rows.transition[pairs] @ merged).tocoo()
    steps = sparse.coo_array(
        (leaving.data, ((owner * width + place)[leaving.row], leaving.col)), shape=(size * width, size)
    ).tocsr()
    termination, reward = np.zeros((size, width)), np.zeros((size, width))
    termination[owner, place] = rows.ending[pairs]
    admissible = np.zeros((size, width), dtype=np.bool_)
    admissible[owner, place] = True
    stop = np.arange(parts.count)
    admissible[stop, -1], termination[stop, -1], reward[stop, -1] = True, 1.0, gain
    quotient = MDP(steps, reward, 1.0, termination=termination, admissible=admissible)
    solution = solve_stationary(KnownProblem(quotient), None, SolverOptions(tol=options.tol))
    return np.where(quotient.terminal, quotient.terminal_value, solution.value), solution


def _conserving_policy(rows: Known, gains: FloatArray, error: float) -> IntArray:
    """Return a policy [S] with these gains, the best of the actions that lose nothing of them."""
    size = float(abs(gains).max(initial=0.0))
    ahead = (rows.transition @ gains).reshape(rows.reward.shape)
    kept = rows.admissible & (ahead >= gains[:, None] - CONSERVED * size - 4.0 * error)
    kept[~kept.any(axis=1)] = rows.admissible[~kept.any(axis=1)]
    # what is earned beyond the gain, at a discount at which a lower gain cannot pay
    centred = rows._replace(reward=np.where(kept, rows.reward - gains[:, None], 0.0), admissible=kept)
    leaks = (min(rows.leaks[0], 0.0), 1.0) if rows.ending.any() else rows.leaks
    iteration = Iteration(centred.executor(NEAR_ONE, leaks), kept, None)
    end = iteration.to_tolerance(np.zeros(gains.size), None, SolverOptions().cap, newton=True)
    return np.asarray(end.point.actions)


# -- bias --------------------------------------------------------------------------------------------------


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
    for number in range(classes.count):
        states = classes.states(number)
        law[states], rest = stationary_law(matrix[states][:, states])
        off = max(off, rest)
        reference[states[np.argmax(law[states])]] = True

    def of_classes(values: FloatArray) -> FloatArray:
        """Return the means under the stationary laws; in a transient state, over the classes that it may come to."""
        means = np.bincount(classes.of_state[inside], weights=(law * values)[inside], minlength=classes.count)
        spread = np.zeros(size)
        spread[inside] = means[classes.of_state[inside]]
        if not inside.all():
            into = matrix[~inside]
            spread[~inside] = _until_reference(into[:, ~inside].tocsr(), into[:, inside] @ spread[inside])
        return spread

    gain = of_classes(reward)
    # from a reference state on, the bias is counted anew
    killed = (sparse.diags_array((~reference).astype(np.float64)) @ matrix).tocsr()
    killed.eliminate_zeros()
    h = _until_reference(killed, np.where(reference, 0.0, reward - gain))
    h = h - of_classes(h)
    # the gain of the chain is within this of ``gain`` too
    rest = 2.0 * float(abs(reward - gain + matrix @ h - h).max())
    roundings = (0.5 * int(np.diff(matrix.indptr).max(initial=0)) + 4.0 + rows.roundings) * EPS
    rest += 2.0 * roundings * (float(abs(reward).max()) + float(abs(h).max()))
    times = Known(killed, np.where(reference, 0.0, 1.0)[:, None], rows.admissible, np.zeros(size), (0.0, 1.0))
    try:
        leak = ending_leaks(times.executor(), _Shape(rows.admissible), np.zeros(size, np.int64), reference)[0]
    except ModelError:  # within rounding of several closed classes
        return Bias(h, np.inf)
    return Bias(h, 2.0 / leak * (rest + off * float(abs(h).max())))


class _Shape(NamedTuple):
    """What ``ending_leaks`` asks of a model."""

    admissible: BoolArray


def _until_reference(matrix: sparse.csr_array, reward: FloatArray) -> FloatArray:
    """Return the values of a chain that ends, to rounding."""
    size = reward.size
    if size <= DENSE:
        return np.asarray(np.linalg.solve(np.eye(size) - matrix.toarray(), reward))
    rows = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data
    value, rest = np.zeros(size), reward
    for _ in range(4):  # each from the residual of the one before
        step, target = np.zeros(size), 1e-12 * float(abs(rest).max())
        chain_values(Chain(*rows, rest), 1.0, step, target, False, MAX_PRODUCTS)
        if abs(rest + matrix @ step - step).max() > 0.1 * abs(rest).max():
            return sparse_elimination(matrix, reward)
        value = value + step
        rest = reward + matrix @ value - value
        if abs(rest).max() <= 8.0 * EPS * (abs(value).max() + abs(reward).max()):
            break
    return value


def stationary_law(matrix: sparse.csr_array) -> tuple[FloatArray, float]:
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
        law, before = np.full(size, 1.0 / size), np.inf
        for _ in range(LAW_STEPS):
            rest = back @ law - law
            rest -= rest.mean()
            total = float(abs(rest).sum())
            if total <= 4.0 * EPS or total > 0.5 * before:
                break
            before = total
            step = np.zeros(size)
            chain_values(Chain(*chain, rest), NEAR_ONE, step, 1e-6 * float(abs(rest).max()), False, MAX_PRODUCTS)
            if abs(rest + NEAR_ONE * (back @ step) - step).max() > 0.1 * abs(rest).max():
                step = sparse_elimination(back, rest, NEAR_ONE)
            law = law + step
            law /= law.sum()
    law = np.maximum(law, 0.0)
    law /= law.sum()
    rest = float(abs(law @ matrix - law).sum())
    return law, rest + (0.5 * int(np.diff(matrix.tocsc().indptr).max(initial=0)) + 2.0) * EPS


# -- solutions ---------------------------------------------------------------------------------------------


def solve_average(
    problem: PlanningProblem,
    policy: PolicyLike | None,
    options: SolverOptions,
    initial_value: npt.ArrayLike | None = None,
    draws: npt.ArrayLike | None = None,
    rng: RngLike = None,
    threads: int | None = None,
) -> Solution:
    """Return the gain of the best policy, or of ``policy``, and its bias; arguments as for ``prudent.solve``."""
    getattr(problem.model, "require_unit_durations", lambda who: None)("average rewards")
    if options.sweeps is not None:
        message = "sweeps are of value iteration with a discount; give tol or max_iterations for an average reward"
        raise ParameterError(message, code="conflicting-arguments", argument="sweeps")
    problem = problem.with_discount(1.0)
    model = problem.model
    guess = None
    if initial_value is not None:
        value = finite_array(initial_value, "initial_value", ndim=1, error=ParameterError)
        require_shape(value, "initial_value", (model.n_states,), "[S]", error=ParameterError)
        guess = Guess(value.copy(), 0)
    actions = None if policy is None else model.read_policy(policy)
    exact_mean = draws is None and problem.is_mean
    if exact_mean:
        operator = problem.operator(draws, rng, threads)  # which refuses what it cannot use
        rows = Known.of(problem.mean_mdp())._replace(roundings=problem.mean_roundings)
        return _known_solution(problem, rows, operator, actions, options, guess)
    return _risk_solution(problem, actions, options, guess, draws, rng, threads)


def _known_solution(
    problem: PlanningProblem,
    rows: Known,
    operator: Executor,
    actions: npt.NDArray[Any] | None,
    options: SolverOptions,
    guess: Guess | None,
) -> Solution:
    """Return the solution of a model that is valued by its mean."""
    chain = None if actions is None else rows.followed(actions)
    answer = known_answer(rows if chain is None else chain, options, guess)
    policy = answer.policy if actions is None else actions
    if chain is None:
        chain = rows.followed(policy)
    bias = bias_of(chain)
    q = (rows.reward.reshape(-1) + rows.transition @ bias.value).reshape(rows.reward.shape) - answer.gain[:, None]
    lost = answer.gain[:, None] - (rows.transition @ answer.gain).reshape(q.shape)
    worse = lost > CONSERVED * float(abs(answer.gain).max(initial=0.0)) + 4.0 * answer.error
    q = np.where(rows.admissible & ~worse, q, -np.inf)
    return _solution(problem, answer, policy, bias, q, rows.reward)


def _risk_solution(
    problem: PlanningProblem,
    actions: npt.NDArray[Any] | None,
    options: SolverOptions,
    guess: Guess | None,
    draws: npt.ArrayLike | None,
    rng: RngLike,
    threads: int | None,
) -> Solution:
    """Return the solution under a posterior, whose gain must be the same in all states."""
    model = problem.model
    operator = problem.operator(draws, rng, threads)
    parts = _possible(problem, actions)
    if parts.ends:
        message = (
            "the process may end, and then earns nothing any more: its average reward under a posterior is not defined "
            "here; omit objective for what it earns until then"
        )
        raise ModelError(message, code="process-ends", argument="objective")

    def near(discount: float) -> Executor | None:
        twin = problem.with_discount(discount)
        return None if draws is not None else twin.first_guess(twin.operator(None, None, threads))

    scale = _size(model.entries.reward)
    found = gain_by_stages(operator, near, model.admissible, actions, options, scale, guess)
    reason = found.end.reason
    if parts.count > 1 and not reason.converged and found.end.point.width > 100.0 * found.end.point.noise:
        low, high = -found.end.point.upper, -found.end.point.lower
        message = (
            f"the long run can be confined to {parts.count} sets of states, and the gain depends on the first state "
            f"(between {low:.4g} and {high:.4g}): a multichain model, which is solved only at level 0; exclude actions "
            "so that one set is left, or use a discount"
        )
        raise ModelError(message, code="several-gains", value=parts.count)
    relative = found.relative
    chain = _policy_chain(operator, relative, found.actions, model.n_actions)
    classes = chain.components()
    if classes.count == 1:
        states = classes.states(0)
        law, _ = stationary_law(chain.transition[states][:, states])
        relative = relative - float(law @ relative[states])
    gain = np.full(model.n_states, found.gain)
    answer = Answer(gain, found.error, found.actions, found.end.iterations, reason.converged, reason.message)
    q = np.full(model.admissible.shape, -np.inf)
    operator.accuracy = 1e-12 * float(abs(relative).max())
    operator.backup(relative, np.flatnonzero(model.admissible), q.reshape(-1))
    q = np.where(model.admissible, q - found.gain, -np.inf)
    kept = problem.snapshot(draws)
    return _solution(
        kept, answer._replace(capped=reason.capped), found.actions, Bias(relative, np.nan), q, model.entries.reward
    )


def _possible(problem: PlanningProblem, actions: npt.NDArray[Any] | None) -> Components:
    """Return the end components of the outcomes that can happen, of all actions or those of a policy."""
    outcomes, (n_states, n_actions) = problem.mean_mdp().outcomes(), problem.model.admissible.shape
    taken = problem.model.admissible.reshape(-1).copy()
    if actions is not None:
        taken[:] = False
        taken[taken_pairs(actions, n_actions)] = True
    pair = np.repeat(np.arange(taken.size), np.diff(outcomes.first))
    target = outcomes.next_state.astype(np.int64)
    if actions is not None:  # chance takes all of them: as one action
        used = taken[pair]
        return end_components(pair[used] // n_actions, target[used], np.ones(n_states, np.bool_), 1)
    return end_components(pair, target, taken, n_actions)


def _policy_chain(operator: Executor, value: FloatArray, policy: npt.NDArray[Any], n_actions: int) -> Known:
    """Return the chain of a policy that touches the backup at ``value``."""
    pairs, size = taken_pairs(policy, n_actions), value.size
    chain = operator.linearise(value, pairs)
    matrix = sparse.csr_array((chain.data, chain.indices, chain.indptr), shape=(pairs.size, size))
    matrix.sum_duplicates()
    if policy.ndim == 2:
        parts = (policy.reshape(-1)[pairs], (pairs // n_actions, np.arange(pairs.size)))
        matrix = sparse.csr_array(sparse.csr_array(parts, shape=(size, pairs.size)) @ matrix)
    every = np.ones((size, 1), np.bool_)
    return Known(matrix, np.zeros((size, 1)), every, np.zeros(size), (0.0, 0.0))


def _solution(
    problem: PlanningProblem,
    answer: Answer,
    policy: npt.NDArray[Any],
    bias: Bias,
    q: FloatArray,
    rewards: FloatArray,
) -> Solution:
    """Return the solution, and warn if the iteration was cut short or few digits are certain."""
    if answer.capped:
        facts = {"iterations": answer.iterations, "error_bound": answer.error}
        warn_caller(ConvergenceWarning(answer.message, code="iteration-cap", **facts))
    elif not answer.converged and answer.error > 2.0 * (promised := DIGITS * _size(np.append(answer.gain, rewards))):
        facts = {"iterations": answer.iterations, "error_bound": answer.error, "expected": promised}
        warn_caller(ConvergenceWarning(answer.message, code="few-digits", **facts))
    return Solution(
        value=answer.gain,
        policy=policy,
        q_source=q,
        residual=answer.error,
        error_bound=answer.error,
        iterations=answer.iterations,
        converged=answer.converged,
        message=answer.message,
        states=problem.model.states,
        actions=problem.model.actions,
        terminal=problem.model.terminal,
        problem=problem,
        bias=bias.value,
        bias_error=bias.error,
    )
