"""The result of a solver: values, a policy and a certificate, labelled by the names of the model.

A solution for a horizon has a time axis, one of an objective says what the objective is worth. It solves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._support.checks import index_array, require_shape, whole_number
from .._support.output import write, write_table
from ..errors import ParameterError
from ..models.base import plural
from ..types import BoolArray, FloatArray, IntArray, PathLike, RngLike, StartLike
from .acting import act, names_of
from .base import Constraint, DeferredQ, PlanningProblem, PolicySearch, RunnersUp
from .certificate_file import Certifiable
from .explain import Explanation
from .objectives import Objective
from .solution_page import Reported
from .solution_tables import dataset_of, explanation_of, panels_of, q_of, record_of, runners_up_of, table_of
from .stay_close import Allowed

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.figure import Figure

    from ..display.figures.base import Figure as Panels
    from .simplify import Simplified


@dataclass(frozen=True, eq=False, repr=False)
class Solution(Reported, Certifiable):
    """Values and a policy with a certificate, as ``prudent.solve`` and ``prudent.evaluate`` return them.

    Shapes are those without a horizon. With a horizon of T steps ``value`` is [T + 1, S], ``policy`` [T, S] (or
    [T, S, A]) and ``q`` [T, S, A]: ``value[t, s]`` is what the remaining T - t steps are worth in state s, discounted
    to time t.

    Attributes
    ----------
    value : ndarray of shape (S,) or (T + 1, S)
        Value of each state; its gain for an average reward. With an objective, ``value[t]`` is the entropic risk at
        parameter ``beta * discount**t`` of what is still to come at time t.
    policy : ndarray of shape (S,), (S, A), (T, S) or (T, S, A)
        The best action of each state, by index; or the policy that was evaluated, also as probabilities.
    q_source : ndarray, DeferredQ or callable
        Where ``q`` comes from. Use ``q`` instead.
    residual : float
        Largest ``|TV - V|`` where the solver stopped, V shifted to the middle of its bounds; 0 with a horizon.
    error_bound : float
        Certified: no entry of ``value`` is further than this from the truth. With an objective the bound is about
        ``objective_value`` and ``value[0]``.
    iterations : int
        Backups of the whole model, those of a first guess included.
    converged : bool
        Whether ``error_bound``, or a ``gap``, is at most the tolerance; with ``sweeps``, whether they were done.
    message : str
        Why the solver stopped.
    states, actions : tuple
        Names of states and actions.
    terminal : ndarray of bool of shape (S,)
        Terminal states, in which there is nothing to decide.
    problem : PlanningProblem or None
        The problem as it was when it was solved.
    later : ndarray, optional
        What to do from time T on, if the process goes on, [S] or [S, A].
    objective : Objective, optional
        The risk measure of the return, if one was given.
    objective_value : float
        What the objective is worth at ``start``; NaN without an objective.
    beta : float
        Parameter of the entropic risk. For EVaR the one at which it is attained.
    start : ndarray of shape (S,), optional
        Probabilities of the first state, with an objective.
    allowed : Allowed, optional
        What a baseline allows, if the policy was to stay close to one.
    constraint : Constraint, optional
        The bounds on costs, if any were given, with their multipliers.
    bias : ndarray of shape (S,), optional
        For an average reward, what beginning in each state is worth beyond the gain of all steps.
    bias_error : float
        Bound on the error of ``bias``; NaN under a risk of a posterior, where only the gain is certified.
    search : PolicySearch, optional
        How the policy was searched for, if the objective is a ``PosteriorRisk``. Then ``value`` is the risk of the
        return from each state, and ``q`` that of one other action first.

    See Also
    --------
    prudent.solve : Compute an optimal policy.
    prudent.evaluate : Compute the values of a given policy.

    Examples
    --------
    >>> from prudent import MDP, solve
    >>> stay, go = [[1, 0], [0, 1]], [[0, 1], [1, 0]]
    >>> mdp = MDP([stay, go], reward=[[1, 0], [3, 0]], discount=1.0, actions_first=True, actions=["stay", "go"])
    >>> plan = solve(mdp, horizon=3)
    >>> plan.value
    array([[6., 9.],
           [3., 6.],
           [1., 3.],
           [0., 0.]])
    >>> plan.policy_names[0], plan.policy_names[2]
    (('go', 'stay'), ('stay', 'stay'))
    """

    value: FloatArray
    policy: npt.NDArray[Any]
    q_source: FloatArray | DeferredQ | Callable[[FloatArray, int], FloatArray]
    residual: float
    error_bound: float
    iterations: int
    converged: bool
    message: str
    states: tuple[Any, ...]
    actions: tuple[Any, ...]
    terminal: BoolArray
    problem: PlanningProblem | None = None
    later: npt.NDArray[Any] | None = None
    objective: Objective | None = None
    objective_value: float = np.nan
    beta: float = 0.0
    start: FloatArray | None = None
    allowed: Allowed | None = None
    constraint: Constraint | None = None
    bias: FloatArray | None = None
    bias_error: float = np.nan
    search: PolicySearch | None = None

    @property
    def gain(self) -> float | FloatArray:
        """Average reward of a step (a unit of time with durations); [S] if it depends on the first state; else NaN."""
        if self.bias is None:
            return np.nan
        same = np.ptp(self.value) <= 2.0 * self.error_bound
        return float(self.value[0]) if same else self.value

    @property
    def upper_bound(self) -> float:
        """What no allowed policy exceeds, of a ``PosteriorRisk`` or with a bound on a cost; NaN for other solutions."""
        return float(getattr(self.search or self.constraint, "upper_bound", np.nan))

    @property
    def gap(self) -> float:
        """What ``upper_bound`` leaves open; NaN for other solutions."""
        return float(getattr(self.search or self.constraint, "gap", np.nan))

    def resume(self, time_limit: float | None = None, max_iterations: int | None = None) -> Solution:
        """Go on with the search for the best policy where it stopped.

        Parameters
        ----------
        time_limit : float, optional
            Seconds. By default the search ends when its gap is closed.
        max_iterations : int, optional
            Number of nodes.

        Returns
        -------
        Solution
            A policy at least as good, with an upper bound at most as high.

        Raises
        ------
        ParameterError
            If the objective is no ``PosteriorRisk``.
        """
        if self.search is None:
            message = "resume is for solutions of objective=PosteriorRisk(...): only these have a search to go on with"
            raise ParameterError(message, code="no-search", method="resume")
        return self.search.resume(time_limit, max_iterations)

    @property
    def _ahead(self) -> FloatArray:
        """Values [S] of next states that actions are compared by."""
        return self.value if self.bias is None else self.bias

    # -- time ----------------------------------------------------------------------------------------------

    @property
    def horizon(self) -> int | None:
        """Number of steps T; None without a time axis."""
        return None if self.value.ndim == 1 else int(self.policy.shape[0])

    def policy_at(self, time: int) -> npt.NDArray[Any]:
        """Return the policy at one time.

        Parameters
        ----------
        time : int
            Time step from 0. A policy without a time axis is the same at all times.

        Returns
        -------
        ndarray of shape (S,) or (S, A)
            The policy at that time; from T on ``later``, if there is one.
        """
        if self.horizon is None:
            return self.policy
        step = whole_number(time, "time", 0, self.horizon - 1 if self.later is None else None)
        return self.later if self.later is not None and step >= self.horizon else np.asarray(self.policy[step])

    def at(self, time: int) -> Solution:
        """Return the solution at one time of a horizon, without a time axis.

        Parameters
        ----------
        time : int
            Time step from 0 to T - 1.

        Returns
        -------
        Solution
            Values [S], policy [S] or [S, A] and Q [S, A], by one backup.

        Raises
        ------
        ParameterError
            If the solution has no time axis, or ``time`` is out of range.

        Examples
        --------
        >>> from prudent import MDP, solve
        >>> solve(MDP([[[1.0], [1.0]]], [[1.0, 2.0]], discount=0.5), horizon=2).at(0).q
        array([[2., 3.]])
        """
        if self.horizon is None or not callable(self.q_source):
            message = "time is only for solutions with a horizon; this one is the same at all times"
            raise ParameterError(message, code="no-time-axis", argument="time", value=time)
        step = whole_number(time, "time", 0, self.horizon - 1)
        return replace(
            self,
            value=self.value[step],
            policy=np.asarray(self.policy[step]),
            q_source=self.q_source(self.value[step + 1], step),
            iterations=self.horizon - step,
            message=f"step {step} of {self.horizon}: {self.message}",
            problem=None,
            later=None,
            objective=None,
            objective_value=np.nan,
        )

    # -- what actions are worth ----------------------------------------------------------------------------

    @cached_property
    def q(self) -> FloatArray:
        """Values of actions one step ahead, [S, A] or [T, S, A]; minus infinity where an action is not admissible.

        Of an exact solution under a posterior, and of a horizon, Q is computed by backups when it is first read, and
        kept. For one action of each state see ``q_of``.
        """
        if isinstance(self.q_source, DeferredQ):
            return self._problem.q_values(**vars(self.q_source))
        if callable(self.q_source):
            return np.stack([self.q_source(self.value[t + 1], t) for t in range(self.policy.shape[0])])
        return self.q_source

    def q_of(self, actions: npt.ArrayLike) -> FloatArray:
        """Compute Q of one action in each state, without the other actions.

        Parameters
        ----------
        actions : array_like of int of shape (S,)
            Indices of actions, as in ``policy``.

        Returns
        -------
        ndarray of shape (S,)
            Those entries of ``q``.

        Raises
        ------
        ParameterError
            If an index is out of range, or the solution has a time axis.

        Examples
        --------
        >>> from prudent import MDP, solve
        >>> solve(MDP([[[1.0], [1.0]]], [[1.0, 2.0]], discount=0.5)).q_of([0])
        array([3.])
        """
        self._require_no_time("q_of")
        chosen = index_array(actions, "actions", len(self.actions), ParameterError)
        require_shape(chosen, "actions", self.value.shape, "[S]", error=ParameterError)
        return np.asarray(q_of(self._stored_q(), chosen, self.problem))

    def runners_up(self) -> RunnersUp:
        """Compute the best other action of each state, by one backup where Q is not stored.

        Returns
        -------
        RunnersUp
            The actions and how much less they are worth. A negative gap says that the other action is worth more, which
            happens where a given policy was evaluated.

        Raises
        ------
        ParameterError
            If the solution has a time axis.

        Examples
        --------
        >>> from prudent import MDP, solve
        >>> solve(MDP([[[1.0], [1.0]]], [[1.0, 2.0]], discount=0.5)).runners_up()
        RunnersUp(action=array([0]), gap=array([1.]))
        """
        self._require_no_time("runners_up")
        q = self._stored_q()
        return runners_up_of(q if isinstance(q, DeferredQ) else self._q_of_all_actions(), self.chosen, self.problem)

    def _stored_q(self) -> Any:
        """Return Q if it is known, and otherwise (and with a horizon) the inputs from which it is computed."""
        return self.q_source if callable(self.q_source) else self.__dict__.get("q", self.q_source)

    def _q_of_all_actions(self) -> FloatArray:
        """Return Q with all admissible actions, also where a given policy was evaluated."""
        if self.problem is None or not np.isnan(self.q).any():
            return self.q
        try:
            return self.problem.q_values(self._ahead, accuracy=2e-12 * float(abs(self._ahead).max()))
        except ParameterError:  # the draws of the solve are gone
            return self.q

    # -- names ---------------------------------------------------------------------------------------------

    @property
    def chosen(self) -> IntArray:
        """Index of the action in each state, [S] or [T, S]; the likeliest one where the policy has probabilities."""
        return self.policy.argmax(axis=-1) if self._is_random else self.policy

    @property
    def policy_names(self) -> tuple[Any, ...]:
        """The policy by the names of its actions; None in terminal states.

        Where it chooses at random, the actions that it takes with their probabilities. With a horizon, one such tuple
        for each time.
        """
        if self.horizon is None:
            return names_of(self.policy, self.actions, self.terminal)
        return tuple(names_of(step, self.actions, self.terminal) for step in self.policy)

    def with_policy(self, policy: IntArray) -> Solution:
        """Return the same values with another policy that reaches them.

        Parameters
        ----------
        policy : ndarray of int of shape (S,)
            Indices of actions.

        Returns
        -------
        Solution
            A copy with that policy.
        """
        return replace(self, policy=policy, q_source=self._stored_q())

    def as_mixture(self, allowed: Allowed | None) -> Solution:
        """Return the solution with its policy as probabilities.

        Parameters
        ----------
        allowed : Allowed or None
            What a baseline allowed.

        Returns
        -------
        Solution
            A copy whose policy is [S, A], or [T, S, A] with a horizon.
        """
        return replace(self, policy=np.eye(len(self.actions))[self.policy], q_source=self._stored_q(), allowed=allowed)

    def act(self, observation: Mapping[str, Any], *, unseen: str = "nearest", time: int = 0) -> Any:
        """Return what to do for an observation, by the state map of the log.

        Parameters
        ----------
        observation : mapping
            Values of the features by name, None where one is missing: ``{"pressure": 143, "trend": "falling"}``.
        unseen : {"nearest", "log", "refuse"}, default="nearest"
            What to do for an observation like nothing in the log (see ``StateMap``): what the policy does in the
            nearest state, what the log did there most often, or raise.
        time : int, default=0
            Time step, of a policy with a horizon.

        Returns
        -------
        hashable
            Name of the action; the likeliest one where the policy has probabilities.

        Raises
        ------
        DataError
            If a feature is missing or wrong, or nothing like the observation was seen and ``unseen`` is "refuse".
        ParameterError
            If the model does not come from ``from_log`` with features.
        """
        return act(self._problem.model, self.policy_at(time), self.actions, observation, unseen)

    # -- tables --------------------------------------------------------------------------------------------

    def to_pandas(self, *, neutral: Solution | None = None, at_mean: Solution | None = None) -> pandas.DataFrame:
        """Return a table with one row for each state, or for each time and state.

        Nothing is solved. Columns that need another solution are there if it is given.

        Parameters
        ----------
        neutral : Solution, optional
            The risk-neutral solution, ``solve(problem.mean_mdp())``. Adds the column ``differs_from_neutral``.
        at_mean : Solution, optional
            The same policy in the model at the posterior mean, ``evaluate(problem.mean_mdp(), solution)``. Adds the
            column ``posterior_mean_value``.

        Returns
        -------
        pandas.DataFrame
            Columns:

            - ``time`` with a horizon;
            - ``state`` and ``action`` by name; if the policy has probabilities, the likeliest and its ``probability``;
            - ``value`` as certified, and ``bias`` for an average reward. Under a Bayesian risk MDP the risk is taken
              anew at every step, so that this is far below what the policy returns on average;
            - ``posterior_mean_value``: what the policy returns in the model at the posterior mean;
            - ``runner_up``, ``gap``: the best other action, how much less it is worth one step ahead (``runners_up``);
            - ``evidence``: observations of the source behind the chosen action, beyond the prior. A posterior made
              from counts alone does not tell data from prior, and has none;
            - ``total_count``: the same with the prior;
            - ``differs_from_neutral``: whether the risk-neutral policy has another action, worth more on average.

            A known model, and a horizon, have the columns that make sense.

        Examples
        --------
        >>> from prudent import BayesianRiskMDP, DirichletPosterior, UncertainMDP
        >>> model = UncertainMDP.direct([[0.0, 0.0], [1.0, 1.0]], discount=0.9, states=["low", "high"])
        >>> log = [("low", 0, "high"), ("low", 0, "low"), ("low", 1, "high"), ("high", 0, "high"), ("high", 1, "low")]
        >>> posterior = DirichletPosterior.from_log(model, log)
        >>> table = BayesianRiskMDP(model, posterior, 0.5).solve().to_pandas()
        >>> table[["state", "action", "runner_up", "evidence"]].values.tolist()
        [['low', 1, 0, 1.0], ['high', 0, 1, 1.0]]
        """
        return table_of(self, neutral, at_mean)

    def differs_from(self, neutral: Solution) -> BoolArray:
        """Return where a risk-neutral solution has another action that is better on average.

        Parameters
        ----------
        neutral : Solution
            The solution at the posterior mean, ``solve(problem.mean_mdp())``, or at level 0.

        Returns
        -------
        ndarray of bool of shape (S,)
            True where the chosen action is worth less in ``neutral`` than its own, by more than rounding.
        """
        slack = 1e-9 * float(abs(neutral.value).max()) + 4.0 * neutral.error_bound
        return np.asarray(neutral.q_of(self.chosen) < neutral.value - slack)

    def to_xarray(self) -> xarray.Dataset:
        """Return value, policy and q labelled by state and action, the certificate as attributes.

        Returns
        -------
        xarray.Dataset
            ``value`` (state), ``policy`` (state) by name or (state, action) as probabilities, ``q`` (state, action).
            With a horizon, ``value`` (time, state) with times 0 to T, ``policy`` (step, state) with steps 0 to T - 1,
            and no ``q``.
        """
        return dataset_of(self)

    def to_csv(self, path: PathLike, *, neutral: Solution | None = None, at_mean: Solution | None = None) -> None:
        """Write ``to_pandas`` as CSV, atomically and with numbers in full precision.

        Parameters
        ----------
        path : str or PathLike
            File to write.
        neutral, at_mean : Solution, optional
            As for ``to_pandas``.
        """
        write_table(Path(path), self.to_pandas(neutral=neutral, at_mean=at_mean))

    def to_json(self, path: PathLike | None = None) -> str:
        """Return policy, values, names and certificate as JSON.

        Parameters
        ----------
        path : str or PathLike, optional
            File to write as well.

        Returns
        -------
        str
            An object whose ``policy`` lists an object for each state (and time), with ``state``, ``action`` and
            ``value``, and ``probabilities`` of all actions if the policy has them. What JSON cannot hold becomes what
            is nearest: a tuple a list, a date a string.

        Examples
        --------
        >>> from prudent import MDP, solve
        >>> text = solve(MDP([[[1.0], [1.0]]], [[1.0, 2.0]], discount=0.5, actions=["wait", "go"])).to_json()
        >>> json.loads(text)["policy"]
        [{'state': 0, 'action': 'go', 'value': 4.0}]
        """
        text = json.dumps(record_of(self), allow_nan=False, ensure_ascii=False, indent=1)
        if path is not None:
            write(Path(path), text.encode())
        return text

    # -- pictures and reasons ------------------------------------------------------------------------------

    def plot(self) -> Figure:
        """Draw values and actions.

        Returns
        -------
        matplotlib.figure.Figure
            A line for each of up to 40 states, values by action for more. With a horizon, what is done when and where,
            and how values fall towards the end.
        """
        return self.panels().to_matplotlib()

    def panels(self) -> Panels:
        """Return the panels of ``plot``, for a page.

        Returns
        -------
        prudent.display.figures.base.Figure
            Panels and a legend.
        """
        return panels_of(self)

    def explain(self, state: Hashable, time: int | None = None) -> Explanation:
        """Return why the policy takes its action in one state: in words, as a table and as a figure.

        Parameters
        ----------
        state : hashable
            Name of the state.
        time : int, optional
            Time step of a policy with a horizon, by default 0.

        Returns
        -------
        Explanation
            Prints as words; only this state is looked at.

        Raises
        ------
        ParameterError
            If the state is unknown or terminal, or the solution has no problem, or a time axis and an objective.
        """
        if self.objective is not None:
            self._require_no_time("explain")
        return explanation_of(self, self._problem, self._ahead, self._stored_q(), state, time)

    def simplify(
        self,
        max_rules: int = 4,
        columns: Any = None,
        *,
        form: str = "list",
        start: StartLike = None,
        draws: int = 500,
        rng: RngLike = 0,
    ) -> Simplified:
        """Return short lists of rules, or small trees, that lose least of the return of this policy, as sentences.

        Parameters
        ----------
        max_rules : int, default=4
            Maximum number of rules, the last one ("otherwise") included, or of leaves of a tree; at most 12.
        columns : list of str, mapping or DataFrame, optional
            What rules may speak of: some of the columns of the state map, or ``{name: values}`` with a value for each
            state (a sequence, or a mapping from states). By default all columns of the state map, or the names of
            states (numbers, parts of tuples). With a horizon also ``"step"``, unless this is a list without it.
        form : {"list", "tree"}, default="list"
            A list is tried in order; the rules of a tree hold one at a time, and each can be read alone.
        start : hashable, mapping or array_like of shape (S,), optional
            Where the process begins, as for ``prudent.posterior_returns``.
        draws : int, default=500
            Number of posterior draws of the losses.
        rng : int or numpy.random.Generator, default=0
            Seed or generator of these.

        Returns
        -------
        Simplified
            The best found of each number of rules, with what it loses. It prints as sentences.

        Raises
        ------
        ParameterError
            If an argument is invalid, or the solution is for an average reward, has no problem, or goes on after T.

        Examples
        --------
        >>> import numpy as np
        >>> from prudent import MDP, solve
        >>> up, down = np.eye(6)[[1, 2, 3, 4, 5, 5]], np.eye(6)[[0, 0, 1, 2, 3, 4]]
        >>> reward, names = [[0, 1]] * 3 + [[1, 0]] * 3, {"actions_first": True, "actions": ["up", "down"]}
        >>> solve(MDP([up, down], reward, discount=0.5, **names)).simplify(max_rules=3).sentences()
        ['If state is below 3: down.', 'Otherwise: up.']
        """
        from .simplify import simplify_policy

        return simplify_policy(self, self._problem, max_rules, columns, form, start, draws, rng)

    # -- parts ---------------------------------------------------------------------------------------------

    @property
    def _problem(self) -> PlanningProblem:
        if self.problem is None:
            message = "this solution does not hold the problem that it solves, which this call needs"
            raise ParameterError(message, code="no-problem")
        return self.problem

    @property
    def _is_random(self) -> bool:
        """Whether the policy has probabilities of actions."""
        return self.policy.ndim > self.value.ndim

    def _require_no_time(self, method: str) -> None:
        if self.horizon is not None:
            way_out = "use at(time), or a solution without one"
            message = f"{method} is not for a horizon, whose policy depends on time; {way_out}"
            raise ParameterError(message, code="time-axis", method=method)

    def __repr__(self) -> str:
        first = self.value if self.horizon is None else self.value[0]
        values = f"{first.min():.6g} to {first.max():.6g}"
        parts = [plural(first.size, "state"), f"{'value' if self.bias is None else 'gain'} {values}"]
        if self.horizon is not None:
            parts = [plural(self.horizon, "step"), parts[0], f"value at the start {values}"]
        if self.objective is not None:
            parts = [f"{self.objective!r} = {self.objective_value:.8g}", *parts[:-1]]
        return f"Solution({', '.join(parts)}, {self.message})"
