"""Solutions as tables, datasets and records. They are read, never solved."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.checks import whole_number
from ..data.labels import is_numbered, label_array, plain_name
from ..errors import ParameterError
from ..models.mdp import MDP
from .acting import names_of
from .base import DeferredQ, PlanningProblem, RunnersUp
from .explain import Explanation

if TYPE_CHECKING:
    import pandas
    import xarray

    from ..display.figures.base import Figure as Panels


def _names(solution: Any, policy: Any) -> tuple[Any, ...]:
    return names_of(policy, solution.actions, solution.terminal)


def _is_random(solution: Any) -> bool:
    return bool(solution.policy.ndim > solution.value.ndim)


def table_of(solution: Any, neutral: Any, at_mean: Any) -> pandas.DataFrame:
    """Return the table of ``Solution.to_pandas``."""
    import pandas

    chosen = solution.chosen
    columns: dict[str, Any] = {}
    if solution.horizon is not None:
        columns["time"] = np.repeat(np.arange(solution.horizon), len(solution.states))
    columns["state"] = np.tile(label_array(solution.states, len(solution.states)), solution.horizon or 1)
    columns["action"] = label_array([name for step in np.atleast_2d(chosen) for name in _names(solution, step)])
    if _is_random(solution):
        columns["probability"] = solution.policy.max(axis=-1).ravel()
    if solution.horizon is not None:
        columns["value"] = solution.value[:-1].ravel()
        return _whole_actions(pandas.DataFrame(columns).infer_objects(), solution)
    columns["value"] = solution.value
    if solution.bias is not None:
        columns["bias"] = solution.bias
    if at_mean is not None:
        columns["posterior_mean_value"] = at_mean.value
    second, gap = solution.runners_up()
    columns["runner_up"] = label_array(
        [None if np.isnan(lead) else name for name, lead in zip(_names(solution, second), gap, strict=True)]
    )
    columns["gap"] = gap
    evidence = None if solution.problem is None else solution.problem.evidence(chosen)
    if evidence is not None:
        columns["evidence"], columns["total_count"] = evidence
    if neutral is not None:
        columns["differs_from_neutral"] = solution.differs_from(neutral)
    return _whole_actions(pandas.DataFrame(columns).infer_objects(), solution)


def _whole_actions(table: pandas.DataFrame, solution: Any) -> pandas.DataFrame:
    """Return the table with actions that are whole numbers as such, 1 and not 1.0, where some states have none."""
    if all(type(name) is int for name in solution.actions):
        for column in ("action", "runner_up"):
            if column in table and table[column].isna().any() and not table[column].isna().all():
                table[column] = table[column].astype("Int64")
    return table


def dataset_of(solution: Any) -> xarray.Dataset:
    """Return the dataset of ``Solution.to_xarray``."""
    import xarray

    actions = label_array(solution.actions, len(solution.actions))
    axes = ("state",) if solution.horizon is None else ("step", "state")
    data: dict[str, Any] = {
        "value": (axes if solution.horizon is None else ("time", "state"), solution.value),
        "policy": ((*axes, "action"), solution.policy) if _is_random(solution) else (axes, actions[solution.policy]),
    }
    coords: dict[str, Any] = {"state": label_array(solution.states, len(solution.states))}
    if solution.horizon is None:
        data["q"] = (("state", "action"), solution.q)
    else:
        coords |= {"time": np.arange(solution.horizon + 1), "step": np.arange(solution.horizon)}
    if solution.horizon is None or _is_random(solution):
        coords["action"] = actions
    return xarray.Dataset(data, coords=coords, attrs=_certificate(solution) | {"converged": int(solution.converged)})


def record_of(solution: Any) -> dict[str, Any]:
    """Return the record of ``Solution.to_json``."""
    states = [plain_name(name) for name in solution.states]
    rows: list[dict[str, Any]] = []
    for time, step in enumerate(np.atleast_2d(solution.chosen)):
        values = solution.value if solution.horizon is None else solution.value[time]
        for state, action, value in zip(states, _names(solution, step), values, strict=True):
            row: dict[str, Any] = {} if solution.horizon is None else {"time": time}
            rows.append(row | {"state": state, "action": plain_name(action), "value": float(value)})
    if _is_random(solution):
        for row, chances in zip(rows, solution.policy.reshape(-1, solution.policy.shape[-1]).tolist(), strict=True):
            row["probabilities"] = chances
    record: dict[str, Any] = {
        "actions": [plain_name(name) for name in solution.actions],
        "policy": rows,
        "certificate": _certificate(solution),
    }
    if solution.problem is not None:
        record["discount"] = solution.problem.model.discount
        if solution.problem.risk_name is not None:
            record["risk"] = solution.problem.risk_name
    if solution.constraint is not None:
        record["bounds"] = _bounds(solution.constraint)
    return record


def _certificate(solution: Any) -> dict[str, Any]:
    """Return how a solution was found."""
    fields = ("residual", "error_bound", "iterations", "converged", "message")
    record: dict[str, Any] = {name: getattr(solution, name) for name in fields}
    if solution.objective is not None:
        record |= {
            "objective": repr(solution.objective),
            "objective_value": solution.objective_value,
            "beta": solution.beta,
        }
    if solution.search is not None:
        record |= {"upper_bound": solution.upper_bound, "gap": solution.gap, "nodes": solution.search.nodes}
    if solution.bias is not None:
        record["average_reward"] = 1
    return record


def q_of(q: Any, chosen: Any, problem: PlanningProblem | None) -> Any:
    """Return Q of one action in each state [S], from Q [S, A] or by a backup of these."""
    rows = np.arange(chosen.size)
    if isinstance(q, DeferredQ):
        assert problem is not None
        asked = np.zeros(problem.model.admissible.shape, dtype=np.bool_)
        asked[rows, chosen] = True
        q = problem.q_values(**vars(q), pairs=asked & problem.model.admissible)
    return np.asarray(q[rows, chosen])


def runners_up_of(q: Any, chosen: Any, problem: PlanningProblem | None) -> RunnersUp:
    """Return the best other action of each state, from Q [S, A] or by a backup."""
    rows, worth = np.arange(chosen.size), q_of(q, chosen, problem)
    if isinstance(q, DeferredQ):
        assert problem is not None
        asked = problem.model.admissible.copy()
        asked[rows, chosen] = False
        others = problem.q_values(**vars(q), pairs=asked, best_only=True)
    else:
        others = np.where(np.isnan(q), -np.inf, q)
        others[rows, chosen] = -np.inf
    second = others.argmax(axis=1)
    best = others[rows, second]
    return RunnersUp(second, np.where(np.isfinite(best), worth - best, np.nan))


def explanation_of(
    solution: Any, problem: PlanningProblem, ahead: Any, stored: Any, state: Hashable, time: int | None
) -> Explanation:
    """Return what ``Solution.explain`` does, with the values ``ahead`` [S] and Q if it is ``stored``."""
    if solution.search is not None:
        message = "explain is about the risk of one step; for a PosteriorRisk read q, the risk of one other action"
        raise ParameterError(message, code="no-explanation", method="explain")
    if solution.horizon is None and time is not None:
        message = "time is only for solutions with a horizon; this one is the same at all times"
        raise ParameterError(message, code="no-time-axis", argument="time", value=time)
    policy, random = solution.policy, _is_random(solution)
    if solution.horizon is not None:
        step = 0 if time is None else whole_number(time, "time", 0, solution.horizon - 1)
        ahead, policy = solution.value[step + 1], np.asarray(solution.policy[step])
    s = problem.model.state_index(state)
    if solution.terminal[s]:
        message = f"{problem.model.state_labels.show(s)} is terminal: there is nothing to choose"
        raise ParameterError(message, code="terminal-state", argument="state", value=state, state=state)
    chosen = int(policy[s].argmax() if random else policy[s])
    probability = float(policy[s, chosen]) if random else 1.0
    stored = stored if solution.horizon is None else None
    q = stored[s] if isinstance(stored, np.ndarray) and not np.isnan(stored[s]).any() else None
    if solution.bias is not None:
        if np.ndim(solution.gain) and not isinstance(problem.model, MDP):
            message = "explain is for an average reward that is the same in all states; here it depends on the first"
            raise ParameterError(message, code="several-gains", method="explain")
        problem = problem if np.ndim(solution.gain) else problem.net_of_gain(solution.gain)
    kept = None
    if solution.allowed is not None:
        kept = {solution.actions[a]: float(policy[s, a]) for a in np.flatnonzero(policy[s]) if a != chosen}
    return replace(problem.explain_state(ahead, s, chosen, q), probability=probability, kept=kept)


def _bounds(constraint: Any) -> list[dict[str, Any]]:
    """Return the bounds on costs, one record each."""
    return [
        {
            "cost": plain_name(name),
            "at_most": bound.bound,
            "alpha": bound.alpha,
            "found": constraint.cost[name],
            "multiplier": constraint.multiplier[name],
        }
        for name, bound in constraint.at_most.items()
    ]


def panels_of(solution: Any) -> Panels:
    """Return the panels of ``Solution.plot``."""
    from ..display.figures import policy

    actions = np.where(solution.terminal, policy.TERMINAL, solution.chosen)
    state_names, action_names = (None if is_numbered(names) else names for names in (solution.states, solution.actions))
    if solution.horizon is not None:
        return policy.draw_plan(solution.value, actions, state_names, action_names, likeliest=_is_random(solution))
    gap = solution.runners_up().gap
    if _is_random(solution):  # to the value of the mixture, which is not that of its likeliest action
        gap = gap + (solution.value if solution.bias is None else solution.bias) - solution.q_of(solution.chosen)
    quantity = "value" if solution.bias is None else "bias"
    return policy.draw(
        (solution.value if solution.bias is None else solution.bias),
        actions,
        gap,
        state_names,
        action_names,
        solution.policy_names,
        quantity,
    )
