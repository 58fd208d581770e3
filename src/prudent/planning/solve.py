"""Solve a known model, or evaluate a policy in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, overload

from ..errors import ParameterError
from ..models.mdp import MDP
from .finite_solution import FiniteSolution
from .fixed_point import Guess, known_operator, solve_operator
from .horizon import refuse_options, solve_finite
from .objectives import Objective
from .options import SolverKeywords, SolverOptions
from .solution import Solution
from .undiscounted import ended_mdp, with_all_actions

if TYPE_CHECKING:
    from .return_risk import RiskSolution

__all__ = ["evaluate", "solve"]


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
    known = known_operator(mdp)
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
