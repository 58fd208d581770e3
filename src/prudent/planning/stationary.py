"""Solutions without a horizon: the fixed point of a discounted problem, or of one that ends."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy.typing as npt

from ..errors import ParameterError
from ..types import PolicyLike, RngLike
from .base import PlanningProblem
from .fixed_point import Guess, on_device, rough_guess, solve_operator
from .options import SolverOptions
from .solution import Solution
from .stay_close import Allowed
from .undiscounted import with_all_actions


def solve_stationary(
    problem: PlanningProblem,
    policy: PolicyLike | None = None,
    options: SolverOptions | None = None,
    initial_value: npt.ArrayLike | None = None,
    draws: npt.ArrayLike | None = None,
    rng: RngLike = None,
    threads: int | None = None,
    client: Any = None,
    allowed: Allowed | None = None,
) -> Solution:
    """Return the optimal values, or those of ``policy``; arguments as for ``prudent.solve``."""
    options = SolverOptions() if options is None else options
    if client is not None and problem.model.discount == 1.0:
        message = "client is for discounted problems; omit it at discount 1"
        raise ParameterError(message, code="conflicting-arguments", argument="client")
    if allowed is not None:
        _refuse_constraint(problem, options, client)
    if problem.model.discount == 1.0:
        ended = problem.undiscounted(policy, draws, rng, threads)
        guess = None if options.sweeps is not None else Guess(ended.guess, 0)
        kept = problem.snapshot(draws)
        solution = solve_operator(ended.operator, ended.model, policy, options, initial_value, guess, kept)
        return solution if ended.left_out is None else with_all_actions(problem.mean_mdp(), solution, ended.left_out)
    with (
        nullcontext(problem.operator(draws, rng, threads))
        if client is None
        else problem.on_cluster(client, options, draws, rng, threads)
    ) as operator:
        guess = None
        operator = on_device(operator, options)  # once: its approximation shares what is there
        if options.method == "newton" and options.sweeps is None and initial_value is None:
            rough = problem.first_guess(operator)
            guess = None if rough is None else rough_guess(rough, problem.model, policy, options, allowed)
        kept = problem.snapshot(draws)
        return solve_operator(operator, problem.model, policy, options, initial_value, guess, kept, allowed=allowed)


def _refuse_constraint(problem: PlanningProblem, options: SolverOptions, client: Any) -> None:
    """Raise where a baseline cannot be stayed close to."""
    where = ""
    if options.device == "gpu":
        where = 'on device="gpu"'
    elif client is not None:
        where = "on a cluster"
    elif problem.model.discount == 1.0:
        where = "at discount 1 without a horizon"
    if where:
        message = f"baseline with min_visits or epsilon cannot be solved {where}; omit it, or solve on threads with a "
        message += "discount below 1 or a horizon"
        raise ParameterError(message, code="conflicting-arguments", argument="baseline")
