"""Acting on observations: by a solution and the state map of its log, or by a file of plain Python."""

from __future__ import annotations

import inspect
import pprint
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.checks import one_of
from ..data import state_rules
from ..data.labels import plain_name
from ..data.state_map import StateMap
from ..errors import DataError, ParameterError
from ..models.log_summary import LogSummary

if TYPE_CHECKING:
    import numpy.typing as npt

UNSEEN = ("nearest", "log", "refuse")


def summary_of(model: Any) -> tuple[LogSummary, StateMap]:
    """Return the summary of the log of a model and its state map, or raise."""
    summary = getattr(model, "summary", None)
    if summary is None or summary.state_map is None:
        message = "the model has no state map for an observation; estimate it by from_log(..., features=[...])"
        raise ParameterError(message, code="no-state-map", argument="observation")
    return summary, summary.state_map


def act(
    model: Any, policy: npt.NDArray[Any], actions: tuple[Any, ...], observation: Mapping[str, Any], unseen: str
) -> Any:
    """Return the action of a policy [S] or [S, A] for an observation."""
    one_of(unseen, "unseen", UNSEEN)
    summary, states = summary_of(model)
    place = states.locate(observation)
    s = model.state_labels.find(place.state)
    reason = place.unseen if s >= 0 else place.unseen or f"no row of this log is in {place.state!r}"
    if reason is not None and unseen == "refuse":
        message = f"nothing in the log is like this observation: {reason}"
        raise DataError(message, code="unseen-observation", argument="observation")
    if s < 0 or (reason is not None and unseen == "log"):
        return summary.most_tried(place.state)
    choice = policy[s]
    return actions[int(np.argmax(choice)) if np.ndim(choice) else int(choice)]


def names_of(policy: npt.NDArray[Any], actions: tuple[Any, ...], terminal: npt.NDArray[np.bool_]) -> tuple[Any, ...]:
    """Return the names of the actions of a policy [S] or [S, A]: None in terminal states, chances where mixed."""
    return tuple(None if over else _name_of(choice, actions) for choice, over in zip(policy, terminal, strict=True))


def _name_of(choice: Any, actions: tuple[Any, ...]) -> Any:
    """Return the name of an action, or of those with a probability above zero."""
    if np.ndim(choice):
        return {actions[a]: float(choice[a]) for a in np.flatnonzero(choice)}
    return actions[choice]


def policy_code(solution: Any, unseen: str = "nearest") -> str:
    """Return a file of plain Python with a function ``act(observation)``, which needs no package.

    Parameters
    ----------
    solution : Solution
        A solution of a model from ``from_log`` with features, without a time axis.
    unseen : {"nearest", "log", "refuse"}, default="nearest"
        What ``act`` does by default for an observation like nothing in the log, see ``Solution.act``.

    Returns
    -------
    str
        Source code. It holds the rules of the state map, the action of each state and what the log did there.

    Raises
    ------
    ParameterError
        If the model has no state map, or the solution has a time axis.

    Examples
    --------
    >>> import prudent as pr
    >>> log = {"episode": [1, 1, 2, 2], "level": [1, 5, 2, 6], "action": ["up", "down"] * 2, "reward": [0, 1, 0, 1],
    ...        "done": [0, 1, 0, 1]}
    >>> states = pr.StateMap(["level"], method="cuts", cuts={"level": [4]}, min_rows=1)
    >>> model, posterior = pr.from_log(log, 0.9, states=states, min_count=1)
    >>> names = {}
    >>> exec(policy_code(pr.BayesianRiskMDP(model, posterior, alpha=0).solve()), names)
    >>> names["act"]({"level": 3})
    'up'
    """
    one_of(unseen, "unseen", UNSEEN)
    problem = solution.problem
    summary, states = summary_of(None if problem is None else problem.model)
    if solution.horizon is not None:
        message = "policy_code is not for a horizon, whose policy depends on time; use a solution without one"
        raise ParameterError(message, code="time-axis", method="policy_code")
    chosen = dict(zip(solution.states, solution.chosen.tolist(), strict=True))
    usual = [plain_name(summary.most_tried(name)) for name in states.states]
    known = [
        plain_name(solution.actions[chosen[name]]) if name in chosen else usual[i]
        for i, name in enumerate(states.states)
    ]
    body = inspect.getsource(state_rules).partition('"""\n\n')[2]
    parts = {
        "RULES": states.rules,
        "ACTIONS": known,
        "LOG_ACTIONS": usual,
        "SEEN": [name in chosen for name in states.states],
        "UNSEEN": unseen,
    }
    values = "\n".join(
        f"{name} = {pprint.pformat(value, width=116, compact=True, sort_dicts=False)}" for name, value in parts.items()
    )
    return f"{_HEAD}{body}\n\n{values}\n{_TAIL}"


_HEAD = '''"""A policy that was worked out from a log by prudent: act(observation) returns what to do.

observation is a dict with a value for each of the columns in RULES["columns"], None where it is missing. What to do
for an observation like nothing in the log: "nearest" (as in the nearest state), "log" (what the log did there most
often) or "refuse" (a LookupError). This file needs Python 3.8 or later and no package.
"""

'''

_TAIL = '''

def state(observation):
    """Return the name of the nearest state, and why the log has nothing like the observation (None if it has)."""
    place, reason = locate(RULES, observation)
    return RULES["states"][place], reason


def act(observation, unseen=UNSEEN):
    """Return what to do."""
    place, reason = locate(RULES, observation)
    if not SEEN[place]:
        reason = reason or "no row of the log is in " + RULES["states"][place]
    if reason and unseen == "refuse":
        raise LookupError("nothing in the log is like this observation: " + reason)
    return LOG_ACTIONS[place] if reason and unseen == "log" else ACTIONS[place]


if __name__ == "__main__":
    import json
    import sys

    given = sys.argv[1] if len(sys.argv) == 2 else ""
    usage = "give one observation as JSON: " + json.dumps({column["name"]: "..." for column in RULES["columns"]})
    try:
        observed = json.loads(given)
    except ValueError as fault:
        sys.exit(f"the observation is no JSON ({fault}); {usage}")
    if not isinstance(observed, dict):
        sys.exit(f"the observation is {observed!r}, expected an object; {usage}")
    try:
        print(act(observed))
    except KeyError as fault:
        sys.exit(f"the observation has no column {fault}; {usage}")
    except (LookupError, ValueError) as fault:
        sys.exit(str(fault))
'''
