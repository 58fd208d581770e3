"""The interface between solvers and the problems that they solve.

A ``PlanningProblem`` is a tabular model together with the Bellman operator that values it. Solvers ask it for
operators and know nothing else of it, so that known models and models with a posterior share one way: problem, solver,
operator, rows. Nothing here imports a solver.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from .._support.checks import finite_number
from .._support.progress import Progress
from ..errors import ParameterError
from ..models.mdp import MDP
from ..models.uncertain import UncertainMDP
from ..risk.measures import CVaR
from ..types import BoolArray, FloatArray, IntArray, PairsLike, RngLike
from .execute.executor import Executor
from .explain import Explanation
from .options import SolverOptions


class Evidence(NamedTuple):
    """How much data stands behind one action of each state.

    Attributes
    ----------
    observed : ndarray of shape (S,)
        Observations of the source of the action, beyond the prior.
    total : ndarray of shape (S,)
        The same with the prior.
    """

    observed: FloatArray
    total: FloatArray


@dataclass(frozen=True)
class DeferredQ:
    """Where a solver stopped, from which Q is computed on first access.

    Attributes
    ----------
    value : ndarray of shape (S,)
        Values of the next states.
    shift : float
        Difference between the solution and a backup of ``value``.
    accuracy : float
        Error that an entry of Q may have.
    threads : int
        Number of threads of the backup.
    """

    value: FloatArray
    shift: float
    accuracy: float
    threads: int


class RunnersUp(NamedTuple):
    """The best other action of each state.

    Attributes
    ----------
    action : ndarray of int of shape (S,)
        Index of the best action that is not chosen.
    gap : ndarray of shape (S,)
        How much less it is worth one step ahead; NaN where there is no other action.
    """

    action: IntArray
    gap: FloatArray


@dataclass(frozen=True)
class AtMost:
    """A bound on a cost, for ``prudent.solve(costs=, at_most=)``.

    Parameters
    ----------
    bound : float
        What the discounted cost from the start may be at most.
    risk : CVaR, optional
        ``CVaR(alpha)`` bounds the mean of the expected cost over the worst ``1 - alpha`` of the posterior, where it
        is highest. By default its expectation is bounded.

    Raises
    ------
    ParameterError
        If ``bound`` is no finite number, or ``risk`` is not a CVaR with a level from 0.

    Examples
    --------
    >>> from prudent import CVaR
    >>> from prudent.planning import AtMost
    >>> AtMost(2.0, CVaR(0.9))
    AtMost(bound=2.0, risk=CVaR(alpha=0.9))
    """

    bound: float
    risk: CVaR | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", finite_number(self.bound, "bound"))
        if self.risk is not None and (not isinstance(self.risk, CVaR) or self.risk.alpha < 0.0):
            message = f"risk must be CVaR(alpha) with alpha >= 0, or None for the expected cost; got {self.risk!r}"
            raise ParameterError(message, code="wrong-type", argument="risk", value=self.risk)

    @property
    def alpha(self) -> float:
        """Level of the CVaR; 0 for the expectation."""
        return 0.0 if self.risk is None else self.risk.alpha


class Constraint(NamedTuple):
    """What bounds on costs lead to, see ``prudent.solve``.

    Attributes
    ----------
    at_most : dict of AtMost
        The bounds, by the names of the costs.
    cost : dict of float
        The costs of the mixture from the start: expectations, or CVaRs over the posterior where these are bounded.
    multiplier : dict of float
        Return that one unit of each bound is worth; 0 where a bound does not bind.
    objective_value : float
        Return of the mixture from the start.
    upper_bound, gap : float
        No policy that keeps the bounds earns more than ``upper_bound``; ``gap`` is the difference. With a CVaR this
        bound is that of somebody who knows the model of each draw, which no policy may reach.
    policies : tuple of ndarray of int of shape (S,)
        Deterministic policies, at most one more than there are costs: one of them is chosen once, at the beginning.
    probabilities : tuple of float
        With these probabilities.
    draws : int
        Draws of the posterior that returns and costs are taken over; 0 if they are of one model.
    """

    at_most: dict[Any, AtMost]
    cost: dict[Any, float]
    multiplier: dict[Any, float]
    objective_value: float
    upper_bound: float
    gap: float
    policies: tuple[IntArray, ...]
    probabilities: tuple[float, ...]
    draws: int = 0


class OutOfSample(NamedTuple):
    """What a policy is worth under fresh draws of a posterior, which it was not chosen by.

    Attributes
    ----------
    value, error : float
        The risk of its returns, and the standard error of that number.
    draws : int
        Number of fresh draws.
    """

    value: float
    error: float
    draws: int


class PolicySearch(NamedTuple):
    """How the best policy for a ``PosteriorRisk`` was searched for.

    Attributes
    ----------
    upper_bound, gap : float
        No policy that was allowed is worth more under the draws; ``gap`` is what the policy found may lack.
    draws, nodes : int
        Number of models, and of sets of policies that were bounded.
    seconds : float
        Time of the search.
    root_bounds : dict
        Upper bounds before anything was split, by name.
    returns : ndarray of shape (N,)
        Return of the policy in each model.
    out_of_sample : OutOfSample or None
        What the policy is worth under fresh draws; None where the problem was made from draws.
    resume : callable
        Goes on with the search, see ``Solution.resume``.
    """

    upper_bound: float
    gap: float
    draws: int
    nodes: int
    seconds: float
    root_bounds: dict[str, float]
    returns: FloatArray
    out_of_sample: OutOfSample | None
    resume: Any


class Ended(NamedTuple):
    """A process that ends without discounting, ready for the solver.

    Attributes
    ----------
    model : MDP or UncertainMDP
        The model in which the states where the process is over are terminal.
    operator : Executor
        Its operator, with a leak that certifies its values.
    guess : ndarray of shape (S,)
        Values to start from.
    left_out : ndarray of bool of shape (S, A), optional
        Actions that are still to be proved worse than the others.
    """

    model: MDP | UncertainMDP
    operator: Executor
    guess: FloatArray
    left_out: BoolArray | None = None


class PlanningProblem(ABC):
    """A tabular model and the Bellman operator that values it.

    Attributes
    ----------
    model : MDP or UncertainMDP
        States, actions, rewards and where steps can lead.
    risk_name : str or None
        The risk measure in words; None for a known model.
    """

    model: MDP | UncertainMDP
    risk_name: str | None = None

    @abstractmethod
    def operator(self, draws: npt.ArrayLike | None = None, rng: RngLike = None, threads: int | None = None) -> Executor:
        """Return a new Bellman operator of the problem.

        Parameters
        ----------
        draws : int or array_like of shape (N, B, K), optional
            Posterior draws; None evaluates the risk exactly.
        rng : int or numpy.random.Generator, optional
            Seed or generator for draws.
        threads : int, optional
            Number of threads. By default all cores.

        Returns
        -------
        Executor
            The operator that a solver iterates.
        """

    @abstractmethod
    def undiscounted(self, policy: Any, draws: npt.ArrayLike | None, rng: RngLike, threads: int | None) -> Ended:
        """Return the model and the operator of a process that is not discounted but ends.

        Parameters
        ----------
        policy : array_like, mapping or Solution, optional
            Policy to evaluate; None for the best one.
        draws : int or array_like of shape (N, B, K), optional
            Posterior draws; None evaluates the risk exactly.
        rng : int or numpy.random.Generator, optional
            Seed or generator for draws.
        threads : int, optional
            Number of threads. By default all cores.

        Returns
        -------
        Ended
            Model, operator and first guess.
        """

    @abstractmethod
    def mean_mdp(self) -> MDP:
        """Return the known model at the posterior mean; a known model returns itself.

        Returns
        -------
        MDP
            The model.
        """

    @abstractmethod
    def explain_state(self, value: FloatArray, state: int, chosen: int, q: FloatArray | None = None) -> Explanation:
        """Return why an action is taken in one state.

        Parameters
        ----------
        value : ndarray of shape (S,)
            Values of the next states.
        state : int
            Index of the state.
        chosen : int
            Index of the action that is taken.
        q : ndarray of shape (A,), optional
            Values of the actions, where they are known already.

        Returns
        -------
        Explanation
            The explanation.
        """

    def first_guess(self, operator: Executor) -> Executor | None:
        """Return a cheaper operator whose fixed point is close to that of another.

        Parameters
        ----------
        operator : Executor
            The operator to solve.

        Returns
        -------
        Executor or None
            None if there is no such operator.
        """
        return None

    def on_cluster(
        self, client: Any, options: SolverOptions, draws: npt.ArrayLike | None, rng: RngLike, threads: int | None
    ) -> AbstractContextManager[Executor]:
        """Return a context in which the workers of a cluster do the backups.

        Parameters
        ----------
        client : dask.distributed.Client, cluster object or str
            The cluster, or the address of its scheduler.
        options : SolverOptions
            Settings of the solver.
        draws : int or array_like, optional
            Not allowed with a cluster.
        rng : int or numpy.random.Generator, optional
            Not allowed with a cluster.
        threads : int, optional
            Not allowed with a cluster.

        Returns
        -------
        context manager of Executor
            The operator, while the cluster is in use.

        Raises
        ------
        ParameterError
            If the problem cannot be solved on a cluster.
        """
        message = "client is only for exact solves of a BayesianRiskMDP; omit it for a known model"
        raise ParameterError(message, code="conflicting-arguments", argument="client")

    def without(self, exclude: PairsLike) -> Self:
        """Return the problem with fewer admissible actions.

        Parameters
        ----------
        exclude : PairsLike
            What must not be done, as for ``prudent.solve``.

        Returns
        -------
        PlanningProblem
            A copy.

        Raises
        ------
        ParameterError
            If a state or action is unknown, or a state is left without an action.
        """
        twin = copy.copy(self)
        twin.model = self.model.without(exclude)
        return twin

    def with_discount(self, discount: float) -> Self:
        """Return the problem with another discount.

        Parameters
        ----------
        discount : float
            Discount factor in [0, 1].

        Returns
        -------
        PlanningProblem
            A copy.
        """
        twin = copy.copy(self)
        twin.model = self.model.with_discount(discount)
        return twin

    def net_of_gain(self, gain: float) -> Self:
        """Return the problem whose steps earn their reward less ``gain`` for each unit of time, without a discount.

        Its values ahead of the bias of an average reward are what actions are compared by.

        Parameters
        ----------
        gain : float
            Average reward of a unit of time.

        Returns
        -------
        PlanningProblem
            A copy, in which all steps take one unit of time.
        """
        twin = self.with_discount(1.0)
        model = copy.copy(twin.model)
        if isinstance(model, MDP):
            model.reward = np.where(model.admissible, model.reward - gain, model.reward)
        else:
            entries, durations = model.entries, 1.0 if model.duration is None else model.duration
            model.entries, model.duration = entries._replace(reward=entries.reward - gain * durations), None
        twin.model = model
        return twin

    @property
    def is_mean(self) -> bool:
        """Whether the problem is valued by the mean of its return in one model, without draws."""
        return False

    @property
    def mean_roundings(self) -> float:
        """Rounding errors of a row of ``mean_mdp`` before it is used, in units of the spacing of floats at 1."""
        return 0.0

    def snapshot(self, draws: npt.ArrayLike | None = None) -> Self:
        """Return the problem as it is now: later updates of a posterior do not change it.

        Parameters
        ----------
        draws : array_like of shape (N, B, K), optional
            Draws that a solve was given, which the copy holds.

        Returns
        -------
        PlanningProblem
            A copy.
        """
        return self

    @property
    def solved_draws(self) -> FloatArray | None:
        """Draws that a solve was given next to the posterior, which Q must use as well."""
        return None

    def evidence(self, actions: IntArray) -> Evidence | None:
        """Return the data behind one action of each state.

        Parameters
        ----------
        actions : ndarray of int of shape (S,)
            Indices of actions.

        Returns
        -------
        Evidence or None
            None where it is not known.
        """
        return None

    def q_values(
        self,
        value: FloatArray,
        *,
        pairs: BoolArray | None = None,
        best_only: bool = False,
        shift: float = 0.0,
        accuracy: float = 0.0,
        threads: int | None = None,
    ) -> FloatArray:
        """Compute what actions are worth one step ahead of given values, by one backup.

        Parameters
        ----------
        value : ndarray of shape (S,)
            Values of the next states.
        pairs : ndarray of bool of shape (S, A), optional
            The pairs to compute. By default all admissible ones.
        best_only : bool, default=False
            Whether only the greatest entry of each state has to be exact; the others are then upper bounds below it.
        shift : float, default=0
            Added to every entry.
        accuracy : float, default=0
            Error that an entry may have if that makes the backup cheaper. 0 asks for the least.
        threads : int, optional
            Number of threads. By default all cores.

        Returns
        -------
        ndarray of shape (S, A)
            Q; minus infinity at all other pairs.
        """
        asked = self.model.admissible if pairs is None else pairs
        operator = self.operator(self.solved_draws, None, threads)
        progress = Progress("comparing actions")
        operator.accuracy = accuracy
        operator.tell = lambda done: progress.show(f"{done:.0%} done")
        q = np.full(asked.shape, -np.inf)
        back_up = operator.back_up_best if best_only else operator.backup
        back_up(value, np.flatnonzero(asked), q.reshape(-1))
        progress.close()
        return np.where(asked, with_terminal_values(self.model, q + shift), -np.inf)


def with_rewards(model: UncertainMDP, extra: FloatArray) -> UncertainMDP:
    """Return a model whose pairs earn ``extra`` [S, A] besides; the model itself if that is zero."""
    if not extra.any():
        return model
    twin, entries = copy.copy(model), model.entries
    twin.entries = entries._replace(reward=entries.reward + extra.reshape(-1)[entries.pairs()])
    return twin


def with_terminal_values(model: MDP | UncertainMDP, q: FloatArray) -> FloatArray:
    """Return ``q`` [S, A] with the values of terminal states, which are known without solving."""
    if not model.terminal.any():
        return q
    return np.where(model.terminal[:, None] & model.admissible, model.terminal_value[:, None], q)
