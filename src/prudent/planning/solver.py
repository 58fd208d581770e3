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

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypedDict, Unpack, overload

import numpy as np
import numpy.typing as npt

from .._numerics import krylov
from .._numerics.compensated import EPS, two_sums
from .._support.checks import BoolArray, FloatArray, IntArray, finite_array, positive, whole_number
from .._support.progress import Progress
from ..errors import ConvergenceWarning, ModelError, ParameterError
from ..models.mdp import MDP
from ..models.uncertain import UncertainMDP
from .finite_solution import FiniteSolution
from .horizon import refuse_options, solve_finite
from .objectives import Objective
from .operators import ExpectedOperator, Operator
from .solution import Ahead, Solution
from .undiscounted import ended_mdp, with_all_actions

if TYPE_CHECKING:
    from .problem import BayesianRiskMDP
    from .return_risk import RiskSolution

__all__ = [
    "Guess",
    "SolverKeywords",
    "SolverOptions",
    "evaluate",
    "placed",
    "q_when_read",
    "rough_guess",
    "solve",
    "solve_operator",
]


DIGITS = 1e-10  # of the largest value: the tolerance by default
ROUGH = 1e-6  # tolerance of a first guess
FEW_DIGITS, FEW_BACKUPS = 1e-4, 20  # of one by an operator that is itself no better, and may not even converge
LAPSES = 5  # Newton steps in a row that may fail to improve on the best point
UPHILL = 10.0  # and by how much they may lie above it
SHARE = 0.02  # of the tolerance that the backups' own error may take
PATIENCE = 50  # and how many other steps, which always end, may fail to
INNER = 0.01  # a Krylov solve stops at this fraction of the outer residual: more would be lost in the next step,
FINE = 1e-4  # which is worth avoiding where a step is costly
CAP = {"newton": 1_000, "value_iteration": 1_000_000}
DEVICES = ("cpu", "gpu")


class SolverKeywords(TypedDict, total=False):
    """The fields of :class:`SolverOptions` that solvers take as keywords, next to ``tol``."""

    method: str
    sweeps: int | None
    max_iterations: int | None
    device: str


@dataclass(frozen=True)
class SolverOptions:
    """How to solve; every solver takes one as ``options``, or the same names as keywords.

    tol : bound on the error of every value. By default ten digits of the largest one.
    method : ``"newton"`` (policy iteration that stops on certified bounds) or ``"value_iteration"``.
    sweeps : exactly so many sweeps of value iteration, as the paper does, instead of a tolerance.
    max_iterations : the most backups. A solver that stops there warns. By default 1,000 for Newton, 1,000,000 for value
        iteration.
    device : ``"cpu"``, or ``"gpu"`` for an NVIDIA GPU (``pip install "prudent[gpu]"``): the model goes there once, all
        iterations stay there, and the certificate is the same. Worth it from some ten thousand states on.

    >>> quick = SolverOptions(tol=1e-3)
    >>> solve(MDP([[[1.0], [1.0]]], [[1.0, 2.0]], discount=0.5), options=quick).policy
    array([1])
    """

    tol: float | None = None
    method: str = "newton"
    sweeps: int | None = None
    max_iterations: int | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.tol is not None:
            positive(self.tol, "tol")
        if self.method not in CAP:
            raise ParameterError(f"method must be one of {', '.join(map(repr, CAP))}, got {self.method!r}")
        if self.device not in DEVICES:
            raise ParameterError(f"device must be one of {', '.join(map(repr, DEVICES))}, got {self.device!r}")
        if self.sweeps is not None:
            whole_number(self.sweeps, "sweeps")
        if self.max_iterations is not None:
            whole_number(self.max_iterations, "max_iterations")
        if self.sweeps is not None and (self.tol is not None or self.max_iterations is not None):
            other = "tol" if self.tol is not None else "max_iterations"
            raise ParameterError(f"give sweeps or {other}, not both: sweeps are done whatever the error is")

    @classmethod
    def chosen(cls, options: Self | None, tol: float | None, keywords: SolverKeywords) -> Self:
        """Return ``options``, or those that the keywords say; to give both is an error."""
        if options is None:
            return cls(tol, **keywords)
        if not isinstance(options, cls):
            raise ParameterError(f"options must be SolverOptions, got {options!r}")
        if tol is not None or keywords:
            named = "tol" if tol is not None else next(iter(keywords))
            raise ParameterError(f"give either options or {named}, and not both")
        return options

    @property
    def cap(self) -> int:
        """The most backups."""
        return CAP[self.method] if self.max_iterations is None else self.max_iterations


@overload
def solve(
    mdp: MDP,
    tol: float | None = None,
    *,
    horizon: None = None,
    terminal: None = None,
    objective: None = None,
    start: Any = None,
    options: SolverOptions | None = None,
    **keywords: Unpack[SolverKeywords],
) -> Solution: ...


@overload
def solve(
    mdp: MDP,
    tol: float | None = None,
    *,
    objective: Objective,
    horizon: int | None = ...,
    terminal: Any = ...,
    start: Any = ...,
) -> RiskSolution: ...


@overload
def solve(mdp: MDP, tol: float | None = None, *, horizon: int, terminal: Any = None) -> FiniteSolution: ...


def solve(
    mdp: MDP,
    tol: float | None = None,
    *,
    horizon: int | None = None,
    terminal: Any = None,
    objective: Objective | None = None,
    start: Any = None,
    options: SolverOptions | None = None,
    **keywords: Unpack[SolverKeywords],
) -> Solution | FiniteSolution:
    """Return the optimal values and policy of a known model, certified to ``tol``.

    Parameters
    ----------
    mdp : the model. At discount 1, and without a horizon, it must end whatever is done, or come to states where nothing
        is earned any more; or going on for ever must cost without end.
    tol : bound on the error of every value. By default ten digits of the largest one.
    horizon : solve for so many steps: values [T + 1, S] and a policy [T, S] that depend on time, a
        :class:`FiniteSolution`. The discount may be 1.
    terminal : what states are worth after the horizon: values [S] or one number, for all states; or a mapping, which
        leaves those that it does not name as they are: 0, and terminal states what arriving there is worth.
    objective : ``Entropic(beta)`` or ``EVaR(alpha)`` of the discounted return, instead of its mean: a
        :class:`RiskSolution`, whose policy depends on time. Without a horizon it is that of endlessly many
        steps. Where the model knows the rewards of single transitions they are random, as they should; a reward [S, A]
        is taken as certain. For EVaR, what the search over beta may miss is by default a thousandth of the difference
        between the mean and the worst. (Under a posterior: ``solve(problem.mean_mdp(), objective=...)``.)
    start : a first guess of the values [S]. With an objective: where the process begins, a state, a mapping from states
        to probabilities, or probabilities [S]; by default every state that is not terminal is equally likely.
    method : ``"newton"`` (policy iteration that stops on certified bounds) or ``"value_iteration"``.
    sweeps : exactly so many sweeps of value iteration instead of a tolerance.
    max_iterations : the most backups. A solver that stops there warns.
    device : ``"cpu"`` or ``"gpu"``, see :class:`SolverOptions`.
    options : ``tol``, ``method``, ``sweeps``, ``max_iterations`` and ``device`` as one :class:`SolverOptions`.

    >>> machine = MDP([[[0.9, 0.1], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]], [[5.0, 4.0], [0.0, -3.0]], discount=0.9)
    >>> solution = solve(machine)
    >>> solution.policy, solution.value.round(6)
    (array([0, 1]), array([43.394495, 36.055046]))
    >>> solve(machine, horizon=2).value
    array([[9.05, 1.5 ],
           [5.  , 0.  ],
           [0.  , 0.  ]])
    """
    return _solved(mdp, None, tol, horizon, terminal, objective, start, options, keywords)


@overload
def evaluate(
    mdp: MDP,
    policy: Any,
    tol: float | None = None,
    *,
    horizon: None = None,
    terminal: None = None,
    objective: None = None,
    start: Any = None,
    options: SolverOptions | None = None,
    **keywords: Unpack[SolverKeywords],
) -> Solution: ...


@overload
def evaluate(
    mdp: MDP,
    policy: Any,
    tol: float | None = None,
    *,
    objective: Objective,
    horizon: int | None = ...,
    terminal: Any = ...,
    start: Any = ...,
) -> RiskSolution: ...


@overload
def evaluate(
    mdp: MDP, policy: Any, tol: float | None = None, *, horizon: int, terminal: Any = None
) -> FiniteSolution: ...


def evaluate(
    mdp: MDP,
    policy: Any,
    tol: float | None = None,
    *,
    horizon: int | None = None,
    terminal: Any = None,
    objective: Objective | None = None,
    start: Any = None,
    options: SolverOptions | None = None,
    **keywords: Unpack[SolverKeywords],
) -> Solution | FiniteSolution:
    """Return the values of ``policy`` in a known model, certified to ``tol``; the rest as for :func:`solve`.

    ``policy`` is one action for each state, or probabilities of actions [S, A], also as a DataFrame or a nested mapping
    (see :meth:`MDP.policy_matrix`); ``Solution.policy`` is then [S, A]. With a horizon or an objective it may depend on
    time: a :class:`FiniteSolution`, actions [T, S], probabilities [T, S, A], or a list of policies. At discount 1, and
    without a horizon, it is enough that the process ends under this policy.

    >>> evaluate(MDP([[[1.0], [1.0]]], [[1.0, 2.0]], discount=0.5), [0]).value
    array([2.])
    >>> evaluate(MDP([[[1.0], [1.0]]], [[1.0, 2.0]], discount=0.5), [[0.5, 0.5]]).value
    array([3.])
    """
    return _solved(mdp, policy, tol, horizon, terminal, objective, start, options, keywords)


def _solved(
    mdp: MDP,
    policy: Any,
    tol: float | None,
    horizon: int | None,
    terminal: Any,
    objective: Objective | None,
    start: Any,
    options: SolverOptions | None,
    keywords: SolverKeywords,
) -> Solution | FiniteSolution:
    """Solve a known model, or evaluate a policy in it: endless, for a horizon, or by the risk of the return."""
    known = _known(mdp)
    if objective is not None:
        from .return_risk import solve_static

        refuse_options({"options": options, **keywords}, "an objective")
        return solve_static(mdp, objective, start, horizon, terminal, tol, policy)
    if horizon is not None:
        refuse_options({"start": start, "options": options, **keywords})
        return solve_finite(known, mdp, policy, horizon, terminal, tol, mdp)
    if terminal is not None:
        raise ParameterError("terminal is what states are worth after a horizon; give horizon as well")
    chosen = SolverOptions.chosen(options, tol, keywords)
    if mdp.discount == 1.0:
        ended = ended_mdp(mdp, policy)
        guess = None if chosen.sweeps is not None else Guess(ended.guess, 0)
        solution = solve_operator(ended.operator, ended.model, policy, chosen, start, guess, problem=mdp)
        return solution if ended.left_out is None else with_all_actions(mdp, solution, ended.left_out)
    return solve_operator(known, mdp, policy, chosen, start, problem=mdp)


def _known(mdp: MDP) -> ExpectedOperator:
    if not isinstance(mdp, MDP):
        hint = "; use BayesianRiskMDP(model, posterior, alpha)" if isinstance(mdp, UncertainMDP) else ""
        raise ModelError(f"expected an MDP, got {type(mdp).__name__}{hint}")
    return ExpectedOperator(mdp.transition, mdp.reward, mdp.discount, mdp.leaks)


class Guess(NamedTuple):
    """A first guess of the values, and the backups it took."""

    value: FloatArray  # [S]
    iterations: int


def rough_guess(operator: Operator, model: MDP | UncertainMDP, policy: Any, options: SolverOptions) -> Guess:
    """Return rough values of an operator that is cheaper than the one to solve, in fewer backups than there may be."""
    cap = options.cap
    tol: float | None = ROUGH
    if operator.rough:
        tol, cap = None, min(cap, FEW_BACKUPS)
    if cap < 2:
        return Guess(np.zeros(model.n_states), 0)
    iteration = _Iteration(placed(operator, options), model.admissible, _actions(model, policy))
    iteration.digits = FEW_DIGITS
    end = iteration.to_tolerance(np.zeros(model.n_states), tol, cap - 1, newton=True)
    return Guess(np.asarray(end.point.moved(end.shift)), end.iterations)


def placed(operator: Operator, options: SolverOptions) -> Operator:
    """Return the operator on the device that is asked for."""
    if options.device == "cpu":
        return operator
    from .gpu import on_gpu

    return on_gpu(operator)


def solve_operator(
    operator: Operator,
    model: MDP | UncertainMDP,
    policy: Any,
    options: SolverOptions,
    start: Any = None,
    guess: Guess | None = None,
    problem: MDP | BayesianRiskMDP | None = None,
) -> Solution:
    """Return the fixed point of ``operator`` on ``model``, for control or (``policy`` [S]) evaluation.

    It starts from the caller's ``start`` [S], or else from our own ``guess``, or else from zero. The solution keeps
    ``problem`` for those who ask it why.
    """
    operator = placed(operator, options)
    iteration = _Iteration(operator, model.admissible, _actions(model, policy))
    if start is not None:
        value = _checked_start(start, model.n_states)
    elif guess is not None:
        value, iteration.iterations = guess
    else:
        value = np.zeros(model.n_states)
    if options.sweeps is not None:
        end = iteration.sweep(value, options.sweeps)
    else:
        end = iteration.to_tolerance(value, options.tol, options.cap, newton=options.method == "newton")
    if end.reason.capped:
        warnings.warn(end.reason.message, ConvergenceWarning, stacklevel=4)
    at = end.point
    value = np.asarray(at.moved(end.shift))
    if model.terminal.any():  # known without solving
        value[model.terminal] = model.terminal_value[model.terminal]
    q: Any = Ahead(np.asarray(at.value), end.shift, operator.accuracy, operator.threads)
    if not operator.puts_off_q or policy is not None or problem is None:
        q = _whole(model, iteration.q_at(at, end.shift))
    return Solution(
        value=value,
        policy=np.asarray(at.actions),
        q=q,
        residual=at.residual,
        error_bound=end.error,
        iterations=end.iterations,
        converged=end.reason.converged,
        message=end.reason.message,
        states=model.states,
        actions=model.actions,
        terminal=model.terminal,
        _problem=problem,
    )


def q_when_read(problem: MDP | BayesianRiskMDP, ahead: Ahead, asked: BoolArray, *, best: bool = False) -> FloatArray:
    """Return Q [S, A] one step ahead of where a solver stopped, where it is ``asked`` for [S, A]; elsewhere -inf.

    With ``best`` only the greatest of each state need be Q, and the others are below it.
    """
    model: MDP | UncertainMDP
    operator: Operator
    if isinstance(problem, MDP):
        model, operator = problem, _known(problem)
    else:
        model, operator = problem.model, problem._operator(None, None, ahead.threads)
    progress = Progress("comparing actions")
    operator.accuracy = ahead.accuracy
    operator.tell = lambda done: progress.show(f"{done:.0%} done")
    q = np.full(asked.shape, -np.inf)
    back_up = operator.back_up_best if best else operator.backup
    back_up(ahead.value, np.flatnonzero(asked), q.reshape(-1))
    progress.close()
    return np.where(asked, _whole(model, q + ahead.shift), -np.inf)


def _whole(model: MDP | UncertainMDP, q: FloatArray) -> FloatArray:
    """Return ``q`` [S, A] with what is known of terminal states without solving."""
    if not model.terminal.any():
        return q
    return np.where(model.terminal[:, None] & model.admissible, model.terminal_value[:, None], q)


class _Point(NamedTuple):
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
        return self.upper - self.lower

    @property
    def middle(self) -> float:
        return 0.5 * (self.lower + self.upper)

    @property
    def error(self) -> float:
        return 0.5 * self.width + self.noise

    @property
    def at_floor(self) -> bool:
        """Whether rounding is all that is left to shrink."""
        return 0.5 * self.width <= self.noise

    def moved(self, shift: float) -> FloatArray:
        """Return TV + ``shift``, rounded once."""
        return self.swept + shift if self.rest is None else self.value + (self.change + (self.rest + shift))


class _Reason(NamedTuple):
    """Why an iteration stopped."""

    converged: bool
    capped: bool
    message: str


class _End(NamedTuple):
    """Where an iteration stopped, and why."""

    point: _Point
    shift: float  # the answer is TV + shift
    error: float
    iterations: int
    reason: _Reason


class _Iteration:
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

    def at(self, value: FloatArray) -> _Point:
        """Back ``value`` up once and bound the fixed point."""
        eta = self.table.back_up(value)
        swept, actions, widest_gap = self._best()
        if self.mixed:  # shares were rounded, products and sums are
            eta += (self.operator.n_actions + 4.0) * EPS * float(abs(self.table.of_pairs()).max())
        change = swept - value
        lower, upper, noise, residual = self._bounds(change, eta)
        top = float(abs(swept).max()) + max(abs(lower), abs(upper))
        noise += 0.51 * EPS * top  # the answer is rounded once more
        point = _Point(value, swept, change, actions, lower, upper, noise, residual)
        # Q* <= Q + upper and V* >= TV + lower: actions further apart than that are suboptimal for good
        enough = point.width + 2.0 * noise + 4.0 * EPS * top
        if widest_gap > enough:
            self.table.drop(swept, enough)
        return point

    def at_pair(self, value: FloatArray, rest: FloatArray) -> _Point:
        """As :meth:`at` for V = ``value`` + ``rest``, in twice the precision."""
        eta = self.table.residual(value, rest)
        change, actions, _ = self._best()
        lower, upper, noise, residual = self._bounds(change, eta)
        swept = value + (rest + change)
        small = max(abs(lower), abs(upper)) + float((abs(rest) + abs(change)).max())
        noise += 0.51 * EPS * (float(abs(swept).max()) + 4.0 * small)  # the answer is rounded, its parts before
        return _Point(value, swept, change, actions, lower, upper, noise, residual, rest)

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

    def q_at(self, point: _Point, shift: float) -> FloatArray:
        """Return Q [S, A] at ``point`` + ``shift``: all admissible actions for control, the policy's for evaluation."""
        q = np.where(self.admissible, np.nan, -np.inf)
        if point.rest is None:
            self.operator.backup(point.value, self.every_pair, q.reshape(-1))
            return q + shift
        self.operator.residual(point.value, point.rest, self.every_pair, q.reshape(-1))
        return point.value[:, None] + (q + (point.rest + shift)[:, None])

    def sweep(self, value: FloatArray, sweeps: int) -> _End:
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
        return _End(point, 0.0, error, self.iterations, _Reason(True, False, message))

    def to_tolerance(self, value: FloatArray, tol: float | None, cap: int, newton: bool) -> _End:
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
        return _End(best, best.middle, best.error, self.iterations, reason)

    def _refined(
        self, best: _Point, tol: float | None, cap: int, newton: bool, progress: Progress
    ) -> tuple[_Point, _Reason]:
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

    def _reason(self, best: _Point, tol: float | None, cap: int, stuck: bool) -> _Reason | None:
        """Return why to stop, if so."""
        if tol is None:
            tol = self.digits * float(abs(best.swept + best.middle).max())
        if best.error <= tol:
            message = f"error bound {best.error:.2g} <= {tol:.2g} after {_backups(self.iterations)}"
            return _Reason(True, False, message)
        if stuck:
            floor = f"error bound {best.error:.2g} is as small as rounding allows"
            return _Reason(False, False, f"{floor}; {tol:.2g} would need more than 64-bit floats")
        if self.iterations >= cap:
            message = f"stopped at the cap of {_backups(cap)} with error bound {best.error:.2g} > {tol:.2g}"
            return _Reason(False, True, message)
        return None

    def _newton(self, point: _Point) -> FloatArray:
        """Return the values of the chain that touches the operator at ``point``."""
        return self._chain_values(point, None, self._shifted(point))

    def _chain_values(self, point: _Point, reward: FloatArray | None, guess: FloatArray) -> FloatArray:
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

    def _shifted(self, point: _Point) -> FloatArray:
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


def _actions(model: MDP | UncertainMDP, policy: Any) -> npt.NDArray[Any] | None:
    """Return the actions [S] or the probabilities [S, A] of a policy to evaluate, or None for control."""
    return None if policy is None else model.read_policy(policy)


def _checked_start(start: Any, n_states: int) -> FloatArray:
    """Return the caller's first guess as an array of our own."""
    value = finite_array(start, "start", ndim=1, error=ParameterError)
    if value.size != n_states:
        raise ParameterError(f"start has {value.size} values, the model has {n_states} states")
    return value.copy()
