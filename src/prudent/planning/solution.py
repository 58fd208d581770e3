"""What a solver returns: values, a policy and a certificate, labelled by the names of the model.

A solution keeps the problem that was solved, as it was then. What needs more than the numbers at hand (the values under
the posterior mean, the neutral policy, an explanation) is worked out when it is asked for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._support.checks import BoolArray, FloatArray, IntArray, integer_array, refuse, require_shape
from .._support.output import write
from ..data.labels import is_numbered
from ..errors import ModelError, ParameterError
from ..models.mdp import MDP

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.figure import Figure

    from .explain import Explanation
    from .problem import BayesianRiskMDP

__all__ = ["Ahead", "Solution"]


class Ahead(NamedTuple):
    """Where a solver stopped, in place of Q one step ahead of it, which is worked out when it is read."""

    value: FloatArray  # [S]
    shift: float  # from there to the solution
    accuracy: float  # of Q
    threads: int


@dataclass(frozen=True, eq=False)
class Solution:
    """A value function with its certificate, as :func:`solve` and :class:`BayesianRiskMDP` return it."""

    value: FloatArray  # [S]
    policy: npt.NDArray[Any]  # [S] the greedy action; or the policy that was evaluated, [S] or probabilities [S, A]
    q: FloatArray  # [S, A] one step ahead of value; minus infinity where an action is not admissible. Of an exact
    # solution under a posterior it is worked out when it is read: for one action of each state see ``q_of``
    residual: float  # largest |TV - V| where the solver stopped, V shifted to the middle of its bounds
    error_bound: float  # certified: no entry of value is further than this from the fixed point
    iterations: int  # backups of the whole model, those of a first guess included
    converged: bool  # error_bound <= tol; with a given number of sweeps: the sweeps were done
    message: str  # why the solver stopped
    states: tuple[Any, ...] | None = None
    actions: tuple[Any, ...] | None = None
    terminal: BoolArray | None = None  # [S] True where there is nothing to decide
    _problem: MDP | BayesianRiskMDP | None = field(default=None, repr=False)  # as it was when it was solved

    @property
    def policy_names(self) -> tuple[Any, ...]:
        """The policy by the names of its actions (numbers where actions have no names); None in terminal states.

        Where it chooses at random, the actions that it takes with their probabilities.
        """
        over = np.zeros(self.value.size, dtype=np.bool_) if self.terminal is None else self.terminal
        return tuple(None if ended else self._called(choice) for choice, ended in zip(self.policy, over, strict=True))

    def _called(self, choice: Any) -> Any:
        """Return the name of an action, or of those with a probability above zero."""
        if np.ndim(choice):
            return {self._called(a): float(choice[a]) for a in np.flatnonzero(choice)}
        return int(choice) if self.actions is None else self.actions[choice]

    @property
    def chosen(self) -> IntArray:
        """The action in each state [S], as an index; the likeliest one where the policy has probabilities."""
        return self.policy if self.policy.ndim == 1 else self.policy.argmax(axis=1)

    def to_xarray(self) -> xarray.Dataset:
        """Return value, policy and q labelled by state and action, the certificate as attributes.

        A policy with probabilities [S, A] is labelled by both.
        """
        import xarray

        actions = self._names(self.actions, self._n_actions)
        policy = ("state", actions[self.policy]) if self.policy.ndim == 1 else (("state", "action"), self.policy)
        return xarray.Dataset(
            {"value": ("state", self.value), "policy": policy, "q": (("state", "action"), self.q)},
            coords={"state": self._names(self.states, self.value.size), "action": actions},
            attrs=self._certificate() | {"converged": int(self.converged)},
        )

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table with one row for each state.

        state, action : by name where there are names. ``probability`` follows if the policy has probabilities; the
            action is then the likeliest.
        value : as certified: under a Bayesian risk MDP the risk is taken anew at every step, so that this is far below
            what the policy returns on average.
        posterior_mean_value : what the same policy returns in the model at the posterior mean.
        runner_up, gap : the best other action, and how much less it is worth one step ahead. A negative gap says
            that it is worth more, which happens where a given policy was evaluated.
        evidence : observations of the source behind the chosen action, beyond the prior. A posterior made from counts
            alone does not tell data from prior, and has none; see ``total_count``.
        total_count : the same with the prior.
        differs_from_neutral : whether the risk-neutral policy has another action, which is worth more on average.

        A known model has the columns that make sense. The table may solve the problem at level 0 once.

        >>> from prudent import BayesianRiskMDP, DirichletPosterior, UncertainMDP
        >>> model = UncertainMDP.direct([[0.0, 0.0], [1.0, 1.0]], discount=0.9, states=["low", "high"])
        >>> log = [("low", 0, "high"), ("low", 0, "low"), ("low", 1, "high"), ("high", 0, "high"), ("high", 1, "low")]
        >>> posterior = DirichletPosterior.from_log(model, log)
        >>> table = BayesianRiskMDP(model, posterior, 0.5).solve().to_pandas()
        >>> table[["state", "action", "runner_up", "evidence"]].values.tolist()
        [['low', 1, 0, 1.0], ['high', 0, 1, 1.0]]
        """
        import pandas

        here = np.arange(self.value.size)
        chosen = self.chosen
        columns: dict[str, Any] = {
            "state": self._names(self.states, self.value.size),
            "action": _labels(self._action_names(chosen)),
        }
        if self.policy.ndim == 2:
            columns["probability"] = self.policy[here, chosen]
        columns["value"] = self.value
        if not isinstance(self._problem, MDP | None):
            columns["posterior_mean_value"] = self.posterior_mean_value
        second, gap = self._runners_up()
        names = zip(self._action_names(second), np.isnan(gap), strict=True)
        columns["runner_up"] = _labels([None if alone else name for name, alone in names])
        columns["gap"] = gap
        if not isinstance(self._problem, MDP | None):
            posterior, source = self._problem.posterior, self._problem.model.source[here, chosen]
            if posterior is not None:
                columns["evidence"] = (posterior.counts - posterior.prior).sum(axis=1)[source]
                columns["total_count"] = posterior.counts.sum(axis=1)[source]
            with suppress(ModelError):  # at discount 1 a policy may end where others go on for ever
                columns["differs_from_neutral"] = self._differs_from_neutral()
        table = pandas.DataFrame(columns).infer_objects()
        if is_numbered(self.actions) and not table["runner_up"].isna().all():
            table["runner_up"] = table["runner_up"].astype("Int64")
        return table

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write :meth:`to_pandas` to ``path``, whole or not at all; numbers in full precision."""
        write(Path(path), self.to_pandas().to_csv(index=False).encode())

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return policy, values, names and certificate as JSON, and write it to ``path`` if one is given.

        ``policy`` lists an object for each state, with ``state``, ``action`` and ``value``, and ``probabilities`` of
        all actions if the policy has them. What JSON cannot hold becomes what is nearest: a tuple a list, a date a
        string.

        >>> from prudent import MDP, solve
        >>> text = solve(MDP([[[1.0], [1.0]]], [[1.0, 2.0]], discount=0.5, actions=["wait", "go"])).to_json()
        >>> json.loads(text)["policy"]
        [{'state': 0, 'action': 'go', 'value': 4.0}]
        """
        rows: list[dict[str, Any]] = [
            {"state": _plain(state), "action": _plain(action), "value": float(value)}
            for state, action, value in zip(
                self._names(self.states, self.value.size), self._action_names(self.chosen), self.value, strict=True
            )
        ]
        if self.policy.ndim == 2:
            for row, chances in zip(rows, self.policy.tolist(), strict=True):
                row["probabilities"] = chances
        whole: dict[str, Any] = {
            "actions": [_plain(name) for name in self._names(self.actions, self._n_actions)],
            "policy": rows,
            "certificate": self._certificate(),
        }
        if self._problem is not None:
            whole["discount"] = self._model.discount
        if not isinstance(self._problem, MDP | None):
            whole["risk"] = repr(self._problem.risk)
        text = json.dumps(whole, allow_nan=False, ensure_ascii=False, indent=1)
        if path is not None:
            write(Path(path), text.encode())
        return text

    def plot(self) -> Figure:
        """Return a figure of values and actions: a line for each of up to 40 states; of more, values by action.

        It is a figure of matplotlib: ``solution.plot().savefig("policy.png")``.
        """
        from .figures import solution_figure

        return solution_figure(self)

    def explain(self, state: Hashable) -> Explanation:
        """Return why the policy does what it does in ``state``: in words, as a table and as a figure.

        See :class:`Explanation`.
        """
        from .explain import explain

        return explain(self, state)

    def q_of(self, actions: Any) -> FloatArray:
        """Return q of one action for each state [S]: those entries of ``q``, without working out the others.

        ``actions`` [S] are positions, as in ``policy``.

        >>> from prudent import MDP, solve
        >>> solve(MDP([[[1.0], [1.0]]], [[1.0, 2.0]], discount=0.5)).q_of([0])
        array([3.])
        """
        chosen = integer_array(actions, "actions", ndim=1, error=ParameterError)
        require_shape(chosen, "actions", self.value.shape, "[S]", error=ParameterError)
        outside = (chosen < 0) | (chosen >= self._n_actions)
        refuse(outside, chosen, "actions", f"an action from 0 to {self._n_actions - 1}", error=ParameterError)
        here, q = np.arange(self.value.size), self.__dict__["q"]
        if isinstance(q, Ahead):
            asked = np.zeros((self.value.size, self._n_actions), dtype=np.bool_)
            asked[here, chosen] = True
            q = self._work_out(q, asked & self._model.admissible)
        found: FloatArray = q[here, chosen]
        return found

    # -- what is worked out when asked ---------------------------------------------------------------------

    @cached_property
    def posterior_mean_value(self) -> FloatArray:
        """What the policy is worth in the model at the posterior mean [S]; in a known model its value."""
        from .solve import evaluate

        if isinstance(self._problem, MDP):
            return self.value
        return evaluate(self._mean_mdp, self.policy, start=self.value).value

    @cached_property
    def neutral(self) -> Solution:
        """The solution at the posterior mean, which is that of level 0; of a known model, its optimum."""
        from .solve import solve

        return solve(self._mean_mdp)

    @cached_property
    def _mean_mdp(self) -> MDP:
        problem = self._known_problem()
        return problem if isinstance(problem, MDP) else problem.mean_mdp()

    @property
    def _model(self) -> Any:
        problem = self._known_problem()
        return problem if isinstance(problem, MDP) else problem.model

    def _known_problem(self) -> MDP | BayesianRiskMDP:
        if self._problem is None:
            raise ParameterError("this solution was not made by a solver: the problem that it solves is not known")
        return self._problem

    @property
    def _n_actions(self) -> int:
        return self.q.shape[1] if self._problem is None else int(self._model.n_actions)

    def _whole_q(self) -> FloatArray:
        """Return q with all admissible actions, also where a given policy was evaluated."""
        if not np.isnan(self.q).any():
            return self.q
        from .solve import solve

        if isinstance(self._problem, MDP):
            return solve(self._problem, horizon=1, terminal=self.value).at(0).q
        if self._problem is None or (self._problem.draws is None and not self._problem.is_exact):
            return self.q  # the draws are gone
        draws = None if self._problem.posterior is None else self._problem.draws
        return self._problem.solve(draws, horizon=1, terminal=self.value).at(0).q

    def _runners_up(self) -> tuple[IntArray, FloatArray]:
        """Return the best other action of each state, and how much less it is worth; NaN where there is none."""
        here, ahead = np.arange(self.value.size), self.__dict__["q"]
        if isinstance(ahead, Ahead):  # the best but one, then, and no others
            asked = self._model.admissible.copy()
            asked[here, self.chosen] = False
            others, worth = self._work_out(ahead, asked, best=True), self.q_of(self.chosen)
        else:
            q = self._whole_q()
            others, worth = np.where(np.isnan(q), -np.inf, q), q[here, self.chosen]
            others[here, self.chosen] = -np.inf
        second = others.argmax(axis=1)
        best = others[here, second]
        return second, np.where(np.isfinite(best), worth - best, np.nan)

    def _differs_from_neutral(self) -> BoolArray:
        """Return where the neutral action is another one and better by more than rounding can make it."""
        q, here = self.neutral.q, np.arange(self.value.size)
        slack = 1e-9 * float(abs(self.neutral.value).max()) + 4.0 * self.neutral.error_bound
        return q[here, self.chosen] < self.neutral.value - slack

    def _following(self, policy: IntArray) -> Solution:
        """Return the same values with another policy [S] that reaches them."""
        same = {each.name: self.__dict__[each.name] for each in fields(self)}
        return Solution(**same | {"policy": policy})

    # -- names ---------------------------------------------------------------------------------------------

    def _action_names(self, actions: IntArray) -> list[Any]:
        """Return the names of an action for each state, None in a terminal state."""
        names = actions.tolist() if self.actions is None else [self.actions[a] for a in actions]
        return [None if end else name for name, end in zip(names, self._terminal, strict=True)]

    def _work_out(self, ahead: Ahead, asked: BoolArray, *, best: bool = False) -> FloatArray:
        """Return Q that was put off, where it is ``asked`` for."""
        from .fixed_point import q_when_read

        return q_when_read(self._known_problem(), ahead, asked, best=best)

    @property
    def _terminal(self) -> BoolArray:
        """Which states are terminal [S], so that there is nothing to choose."""
        return np.zeros(self.value.size, dtype=np.bool_) if self.terminal is None else self.terminal

    @staticmethod
    def _names(names: tuple[Any, ...] | None, size: int) -> npt.NDArray[Any]:
        return np.arange(size) if names is None or is_numbered(names) else _labels(names)

    def _certificate(self) -> dict[str, Any]:
        return {
            "residual": self.residual,
            "error_bound": self.error_bound,
            "iterations": self.iterations,
            "converged": self.converged,
            "message": self.message,
        }

    def __repr__(self) -> str:
        return (
            f"Solution({self.value.size} states, value {self.value.min():.6g} to {self.value.max():.6g}, "
            f"{self.message})"
        )


class _WhenRead:
    """The field ``q`` of a solution: an array, or an :class:`Ahead` until it is read for the first time."""

    def __get__(self, solution: Solution | None, owner: type | None = None) -> Any:
        if solution is None:
            return self
        q = solution.__dict__["q"]
        if isinstance(q, Ahead):
            q = solution.__dict__["q"] = solution._work_out(q, solution._model.admissible)
        return q

    def __set__(self, solution: Solution, q: Any) -> None:
        solution.__dict__["q"] = q


Solution.q = _WhenRead()  # type: ignore[assignment]  # after the decorator, to which it would be a default


def _labels(names: Any) -> npt.NDArray[Any]:
    """Return names as a one-dimensional array, also where each name is a tuple."""
    array = np.empty(len(names), dtype=object)
    array[:] = names
    return array


def _plain(name: Any) -> Any:
    """Return a name as JSON can hold it."""
    if isinstance(name, np.generic):
        name = name.item()
    if isinstance(name, tuple | list | frozenset):
        return [_plain(part) for part in name]
    if isinstance(name, float) and not np.isfinite(name):
        return str(name)
    return name if name is None or isinstance(name, bool | int | float | str) else str(name)
