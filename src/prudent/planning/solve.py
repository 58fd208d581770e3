"""Solve a problem, or evaluate a policy in it: one pair of functions for known models and Bayesian risk MDPs."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Unpack

import numpy.typing as npt

from .._support.checks import one_of
from ..errors import ParameterError
from ..models.mdp import MDP
from ..types import PairsLike, PolicyLike, RngLike, StartLike, TerminalValueLike
from .average import solve_average
from .base import AtMost, PlanningProblem
from .constrained import solve_constrained
from .horizon import solve_horizon
from .known_problem import KnownProblem
from .objectives import Objective, PosteriorRisk
from .options import SolverKeywords, SolverOptions
from .posterior_risk import solve_posterior_risk
from .return_risk import solve_objective
from .solution import Solution
from .stationary import solve_stationary
from .stay_close import read_allowed

if TYPE_CHECKING:
    from distributed import Client


class SolveKeywords(SolverKeywords, total=False):
    """Keywords of ``solve`` and ``evaluate``, which the methods of a problem take as well."""

    tol: float | None
    horizon: int | None
    terminal_value: TerminalValueLike
    objective: Objective | str | None
    start: StartLike
    initial_value: npt.ArrayLike | None
    threads: int | None
    client: Client | str | Any
    options: SolverOptions | None


class ControlKeywords(SolveKeywords, total=False):
    """Keywords of ``solve``: those of ``evaluate``, and what a policy may do."""

    exclude: PairsLike
    baseline: PolicyLike | str | None
    min_visits: float | None
    epsilon: float | None
    costs: Mapping[Any, npt.ArrayLike] | None
    at_most: Mapping[Any, float | AtMost] | None
    time_limit: float | None


def solve(
    problem: MDP | PlanningProblem,
    tol: float | None = None,
    *,
    horizon: int | None = None,
    terminal_value: TerminalValueLike = None,
    objective: Objective | str | None = None,
    start: StartLike = None,
    exclude: PairsLike = None,
    baseline: PolicyLike | str | None = None,
    min_visits: float | None = None,
    epsilon: float | None = None,
    costs: Mapping[Any, npt.ArrayLike] | None = None,
    at_most: Mapping[Any, float | AtMost] | None = None,
    initial_value: npt.ArrayLike | None = None,
    draws: npt.ArrayLike | None = None,
    rng: RngLike = None,
    threads: int | None = None,
    client: Client | str | Any = None,
    time_limit: float | None = None,
    options: SolverOptions | None = None,
    **keywords: Unpack[SolverKeywords],
) -> Solution:
    """Compute the optimal values and policy of a problem, certified to a tolerance.

    Parameters
    ----------
    problem : MDP or BayesianRiskMDP
        What to solve. At discount 1, and without a horizon, the process must end whatever is done, or come to states
        where nothing is earned any more; in an MDP it is enough that going on for ever costs without end.
    tol : float, optional
        Bound on the error of every value. By default ten digits of the largest one.

    horizon : int, optional
        Number of steps T. The solution has a time axis: values [T + 1, S] and a policy [T, S]. The discount may be 1.
        Under a posterior the risk is taken anew at each step, and the same draws serve all steps.
    terminal_value : array_like of shape (S,), float or mapping, optional
        What states are worth after the horizon: values for all states, one number, or a mapping, which leaves the
        states that it does not name as they are: 0, and terminal states what arriving there is worth.
    objective : "average", Entropic, EVaR or PosteriorRisk, optional
        ``"average"`` is the average reward of a step (of a unit of time where steps have durations) in a process that
        runs for ever, whatever the discount of the model: ``Solution.gain``, and the bias of the policy that reaches
        it. Under a posterior it is the limit of (1 - discount) times the value. Entropic and EVaR are risks of the
        discounted return to maximise, instead of its mean, in an MDP. The policy depends on time. Without
        a horizon the return is that of endlessly many steps. Where the model knows the rewards of single transitions
        they are random; a reward [S, A] is taken as certain. For EVaR, the search over beta may by default miss a
        thousandth of the difference between the mean and the worst return. (Under a posterior:
        ``solve(problem.mean_mdp(), objective=...)``.) ``PosteriorRisk(CVaR(0.9))`` is the risk over the posterior of
        the return that one stationary policy has in each model, of a BayesianRiskMDP: ``Solution.objective_value`` with
        ``upper_bound`` and ``gap``, by branch and bound. Without ``draws`` sets of up to 1,000 draws are solved,
        growing until the value under fresh draws (``Solution.search.out_of_sample``) is close.
    start : hashable, mapping or array_like of shape (S,), optional
        Where the process begins, for an objective: a state, a mapping from states to probabilities, or probabilities.
        By default every state that is not terminal is equally likely.

    exclude : dict or list of pairs, optional
        What must not be done: ``{state: action}``, ``{state: [action, ...]}`` or pairs (state, action).
    baseline : "log" or policy, optional
        Policy to stay close to where there are few data (a BayesianRiskMDP): ``"log"`` is the one that produced the
        data (``prudent.planning.log_policy``). The solution is the best policy among those that are close, with the
        same certificate, and ``Solution.policy`` has probabilities [S, A]. Of excluded actions the baseline takes
        none: it is the baseline given that. Needs ``min_visits`` or ``epsilon``, or both.
    min_visits : float, optional
        A pair that was seen fewer times than this keeps exactly the probability that the baseline gives it; the rest
        of the mass goes to the best of the other actions (SPIBB). 0 is no constraint, infinity is the baseline.
    epsilon : float, optional
        Bound on the sum over actions of ``abs(pi(a) - b(a)) / sqrt(n(a))`` in every state, b being the baseline and
        n(a) the number of observations (Soft-SPIBB). A pair that was never seen keeps the probability of the baseline.
    costs : mapping, optional
        Other rewards that are bounded: ``{name: array}``, each of shape (S, A), or (S,) if it does not depend on the
        action. In an MDP, or at level 0.
    at_most : mapping, optional
        Bounds on their discounted sums from ``start``: ``{name: number}`` for an expectation, or
        ``{name: AtMost(number, CVaR(alpha))}`` for the mean over the worst of the posterior
        (``prudent.planning.AtMost``; ``draws``, by default 200, are then drawn by ``rng``). The solution is the best
        policy that keeps them, with probabilities [S, A] where a bound binds; ``Solution.constraint`` has the
        multipliers, the duality gap, and the deterministic policies of which it is a mixture.

    Returns
    -------
    Solution
        Values, policy and certificate.

    Other Parameters
    ----------------
    initial_value : array_like of shape (S,), optional
        First guess of the values.

    draws : int or array_like of shape (N, B, K), optional
        Posterior draws of a BayesianRiskMDP. By default the risk is evaluated exactly. An int asks for that many draws
        from ``rng`` (the paper's approximate operator; the certificate is then about the fixed point for these draws).
        A problem that was made from draws uses all of them, and takes no others.
    rng : int or numpy.random.Generator, optional
        Seed or generator for ``draws``.

    threads : int, optional
        Number of threads under a posterior. By default all cores.
    client : dask.distributed.Client, cluster object or str, optional
        Cluster, or the address of its scheduler, whose workers do the backups of an exact solve of CVaR under a
        posterior, each for some of the states. For models that do not fit into one machine there is
        ``prudent.planning.ClusterModel``.
    time_limit : float, optional
        Seconds after which the search for a PosteriorRisk stops, looked at between nodes; ``max_iterations`` is its
        number of nodes, ``tol`` its gap. ``Solution.resume`` goes on.
    options : SolverOptions, optional
        ``tol`` and the keywords below as one object.
    **keywords : dict
        ``method``, ``sweeps``, ``max_iterations`` and ``device``, see ``prudent.planning.SolverOptions``.

    Raises
    ------
    ModelError
        If ``problem`` is of another type, or has no finite values.
    ParameterError
        If an argument is invalid, or arguments exclude each other.

    Warns
    -----
    ConvergenceWarning
        If the solver stopped at ``max_iterations``.

    See Also
    --------
    evaluate : Compute the values of a given policy.

    Examples
    --------
    >>> from prudent import MDP, solve
    >>> machine = MDP([[[0.9, 0.1], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]], [[5.0, 4.0], [0.0, -3.0]], discount=0.9)
    >>> solution = solve(machine)
    >>> solution.policy, solution.value.round(6)
    (array([0, 1]), array([43.394495, 36.055046]))
    >>> solve(machine, horizon=2).value
    array([[9.05, 1.5 ],
           [5.  , 0.  ],
           [0.  , 0.  ]])

    On average the machine earns 4.27 in a step, and a working one is worth 7.27 more than a broken one:

    >>> for_ever = solve(machine, objective="average")
    >>> round(for_ever.gain, 6), for_ever.bias.round(6)
    (4.272727, array([ 0.661157, -6.61157 ]))

    The policy for the entropic risk of a bet depends on beta:

    >>> from prudent import Entropic
    >>> bet = MDP([[[0, 1, 0], [0, 0.5, 0.5]], [[0, 1, 0]] * 2, [[0, 0, 1]] * 2],
    ...           reward=[[[0, 1, 0], [0, 4, -1]], [[0, 0, 0]] * 2, [[0, 0, 0]] * 2], discount=0.9)
    >>> [int(solve(bet, objective=Entropic(beta), start=0).policy[0, 0]) for beta in (0.1, 2.0)]
    [1, 0]

    The drug has been given twice, so that its probability stays as it is in the log. Or it must not be given:

    >>> from prudent import BayesianRiskMDP, from_log
    >>> log = [("ill", "wait", "ill", 0, 60), ("ill", "wait", "well", 1, 30), ("ill", "drug", "well", 1, 2)]
    >>> trial = BayesianRiskMDP(*from_log(log, 0.95, terminal=["well"]), alpha=0)
    >>> solve(trial, baseline="log", min_visits=5).policy.round(3)
    array([[0.022, 0.978],
           [1.   , 0.   ]])
    >>> solve(trial).policy_names, solve(trial, exclude={"ill": "drug"}).policy_names
    (('drug', None), ('wait', None))
    """
    asked = (tol, horizon, terminal_value, objective, start, initial_value, draws, rng, threads, client, options)
    if isinstance(objective, PosteriorRisk):
        given = {"horizon": horizon, "terminal_value": terminal_value, "baseline": baseline, "costs": costs}
        _refuse(given | {"at_most": at_most, "client": client, "initial_value": initial_value}, "a PosteriorRisk")
        settings = SolverOptions.chosen(options, tol, keywords)
        one = problem if exclude is None or not isinstance(problem, PlanningProblem) else problem.without(exclude)
        return solve_posterior_risk(one, objective, start, draws, rng, threads, time_limit, settings)
    _refuse({"time_limit": time_limit}, "anything but objective=PosteriorRisk(...)")
    if costs is not None or at_most is not None:
        given = {"horizon": horizon, "terminal_value": terminal_value, "objective": objective, "baseline": baseline}
        _refuse(given | {"client": client, "initial_value": initial_value}, "costs")
        known = problem if isinstance(problem, PlanningProblem) else KnownProblem(problem)
        known = known if exclude is None else known.without(exclude)
        return solve_constrained(known, costs, at_most, start, SolverOptions.chosen(options, tol, keywords), draws, rng)
    return _run(problem, None, *asked, keywords, (exclude, baseline, min_visits, epsilon))


def evaluate(
    problem: MDP | PlanningProblem,
    policy: PolicyLike,
    tol: float | None = None,
    *,
    horizon: int | None = None,
    terminal_value: TerminalValueLike = None,
    objective: Objective | str | None = None,
    start: StartLike = None,
    initial_value: npt.ArrayLike | None = None,
    draws: npt.ArrayLike | None = None,
    rng: RngLike = None,
    threads: int | None = None,
    client: Client | str | Any = None,
    options: SolverOptions | None = None,
    **keywords: Unpack[SolverKeywords],
) -> Solution:
    """Compute the values of a policy, certified to a tolerance.

    Under a posterior the value of a random policy is V(s) = sum_a pi(a | s) Q(s, a): the risk is taken for each pair,
    before the mean over actions. At discount 1, and without a horizon, it is enough that the process ends under this
    policy.

    Parameters
    ----------
    problem : MDP or BayesianRiskMDP
        Where to evaluate the policy.
    policy : array_like, mapping, DataFrame or Solution
        One action for each state, or probabilities of actions [S, A], also as a DataFrame or a nested mapping (see
        ``prudent.MDP.policy_matrix``); ``Solution.policy`` is then [S, A]. With a horizon or an objective it may
        depend on time: a Solution with a time axis, actions [T, S], probabilities [T, S, A], or a list of policies.
        Probabilities of a state must sum to one within 1e-9, and are divided by their sum.
    tol : float, optional
        Bound on the error of every value. By default ten digits of the largest one.
    horizon : int, optional
        As for ``solve``.
    terminal_value : array_like of shape (S,), float or mapping, optional
        As for ``solve``.
    objective : "average", Entropic or EVaR, optional
        As for ``solve``.
    start : hashable, mapping or array_like of shape (S,), optional
        As for ``solve``.

    Returns
    -------
    Solution
        Values, the policy and a certificate.

    Other Parameters
    ----------------
    initial_value : array_like of shape (S,), optional
        As for ``solve``.
    draws : int or array_like of shape (N, B, K), optional
        As for ``solve``.
    rng : int or numpy.random.Generator, optional
        As for ``solve``.
    threads : int, optional
        As for ``solve``.
    client : dask.distributed.Client, cluster object or str, optional
        As for ``solve``.
    options : SolverOptions, optional
        As for ``solve``.
    **keywords : dict
        As for ``solve``.

    Raises
    ------
    ModelError
        If ``problem`` is of another type, or the policy has no finite value.
    ParameterError
        If an argument is invalid, or arguments exclude each other.

    See Also
    --------
    solve : Compute an optimal policy.

    Examples
    --------
    >>> from prudent import MDP, evaluate
    >>> evaluate(MDP([[[1.0], [1.0]]], [[1.0, 2.0]], discount=0.5), [0]).value
    array([2.])
    >>> evaluate(MDP([[[1.0], [1.0]]], [[1.0, 2.0]], discount=0.5), [[0.5, 0.5]]).value
    array([3.])
    """
    asked = (tol, horizon, terminal_value, objective, start, initial_value, draws, rng, threads, client, options)
    return _run(problem, policy, *asked, keywords)


def _run(
    given: MDP | PlanningProblem,
    policy: PolicyLike | None,
    tol: float | None,
    horizon: int | None,
    terminal_value: TerminalValueLike,
    objective: Objective | str | None,
    start: StartLike,
    initial_value: npt.ArrayLike | None,
    draws: npt.ArrayLike | None,
    rng: RngLike,
    threads: int | None,
    client: Any,
    options: SolverOptions | None,
    keywords: SolverKeywords,
    closeness: tuple[PairsLike, PolicyLike | str | None, float | None, float | None] = (None, None, None, None),
) -> Solution:
    """Solve a problem or evaluate a policy: without end, for a horizon, or by the risk of the return."""
    problem = given if isinstance(given, PlanningProblem) else KnownProblem(given)
    unknown = [name for name in keywords if name not in SolverKeywords.__annotations__]
    if unknown:
        name, taken = ("solve", ControlKeywords) if policy is None else ("evaluate", SolveKeywords)
        close = get_close_matches(unknown[0], taken.__annotations__, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise TypeError(f"{name}() got an unexpected argument {unknown[0]!r}{hint}")
    exclude, baseline, min_visits, epsilon = closeness
    full = problem
    if exclude is not None:
        _refuse({"client": client}, "exclude")
        problem = problem.without(exclude)
    allowed = read_allowed(baseline, min_visits, epsilon, full, problem)
    free = allowed is not None and allowed.leaves_free(problem.model.admissible)
    iterative = {"initial_value": initial_value, "client": client, "options": options, **keywords}
    if isinstance(objective, str):
        one_of(objective, "objective", ("average",))
        others = {"horizon": horizon, "terminal_value": terminal_value, "start": start, "client": client}
        _refuse(others | {"baseline": baseline}, "an average reward")
        settings = SolverOptions.chosen(options, tol, keywords)
        return solve_average(problem, policy, settings, initial_value, draws, rng, threads)
    if objective is not None:
        _refuse(iterative | {"draws": draws, "rng": rng, "threads": threads, "baseline": baseline}, "an objective")
        if not isinstance(problem, KnownProblem):
            message = "objective is for known models; use solve(problem.mean_mdp(), objective=...)"
            raise ParameterError(message, code="conflicting-arguments", argument="objective")
        if horizon is None:
            _refuse({"terminal_value": terminal_value}, "an objective without a horizon")
        return solve_objective(problem, objective, start, horizon, terminal_value, tol, policy)
    if start is not None:
        message = "start says where the process begins, for an objective; a first guess of values is initial_value"
        raise ParameterError(message, code="conflicting-arguments", argument="start")
    if horizon is not None:
        _refuse(iterative, "a horizon")
        solution = solve_horizon(
            problem, policy, horizon, terminal_value, tol, draws, rng, threads, None if free else allowed
        )
        return solution.as_mixture(allowed) if free else solution
    if terminal_value is not None:
        message = "terminal_value says what states are worth after a horizon; give horizon as well"
        raise ParameterError(message, code="missing-argument", argument="horizon")
    settings = SolverOptions.chosen(options, tol, keywords)
    asked = (initial_value, draws, rng, threads, client)
    if free:
        return solve_stationary(problem, policy, settings, *asked).as_mixture(allowed)
    return solve_stationary(problem, policy, settings, *asked, allowed)


def _refuse(arguments: dict[str, Any], context: str) -> None:
    """Raise for arguments that cannot be combined with ``context``."""
    for name, value in arguments.items():
        if value is not None:
            message = f"{name} cannot be combined with {context}"
            raise ParameterError(message, code="conflicting-arguments", argument=name)
