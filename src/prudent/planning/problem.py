"""The Bayesian risk MDP: a model, a posterior and a risk level, solved exactly or by posterior draws."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Self, Unpack, cast, overload

import numpy as np
import numpy.typing as npt

from .._numerics.compensated import EPS
from .._numerics.compile import default_threads
from .._support.checks import axes_of, generator, instance_of, refuse, require_shape, whole_number
from ..data.labels import Names
from ..errors import ModelError, ParameterError, PosteriorError
from ..models.base import held
from ..models.mdp import MDP
from ..models.uncertain import UncertainMDP
from ..posteriors.dirichlet import DirichletPosterior
from ..posteriors.scalar import BetaPosterior, NormalPosterior
from ..risk import CertaintyEquivalent, CVaR, RiskMeasure, form_of, measure_of
from ..types import FloatArray, IntArray, PolicyLike, RngLike, TableLike, TerminalLike
from .base import Ended, Evidence, PlanningProblem, with_rewards
from .draw_blocks import KEPT_BYTES, GivenDraws, SlotDraws
from .equivalent_rows import EquivalentDirichletRows, EquivalentDrawRows
from .execute.executor import Executor
from .execute.threads import Threads
from .explain import Explanation, draws_of_sources, explain_exact, explain_sampled
from .from_draws import DrawsLike, check_draws, models_of_table, read_draws
from .learning import LearningPlan, learning_plan
from .luck_rows import LuckDrawRows, inner_values, knows_luck, luck_of, luck_rows
from .noisy_rows import NoisyRows
from .options import SolverOptions
from .row_risks import DirichletRows, DrawRows, MeanRows
from .solution import Solution
from .solve import ControlKeywords, SolveKeywords, evaluate, solve
from .undiscounted import ended_uncertain
from .unknown_rewards import RewardsLike, unknown_rewards


class BayesianRiskMDP(PlanningProblem):
    """A model whose probabilities have a posterior, valued by the risk of that posterior.

    The value of a policy obeys V(s) = rho( r(s, pi(s)) + gamma E[V(s')] ), the risk rho being taken over the posterior
    of the model at every step (the paper's Bayesian-risk Bellman equation); the optimal value maximises over
    actions as well. By default rho is CVaR_alpha. It is evaluated exactly, without draws, as are all measures that have
    an exact form: CVaR of both signs, their mixtures, and quantiles.

    Parameters
    ----------
    model : UncertainMDP
        The known part of the problem.
    posterior : DirichletPosterior or array_like of shape (B, K), optional
        The posterior of the sources, or its counts; or draws as an xarray or ArviZ object.
    alpha : float, optional
        Risk level in (-1, 1). 0 is risk-neutral (the posterior mean), 0.9 values every step by the mean of the worst
        tenth of the posterior, -0.9 by that of the best tenth.
    risk : RiskMeasure, optional
        Another measure instead of CVaR, e.g. ``VaR(0.9)`` or ``MeanCVaR(0.9, weight=0.5)``. Quantiles, mixtures of
        CVaRs and ``prudent.risk.EntropicRisk`` are evaluated exactly; a distortion that bends everywhere needs
        ``draws`` or ``pieces`` (see ``prudent.risk.Spectral``), and so do other certainty equivalents need ``draws``.
    reward_posterior : NormalPosterior, BetaPosterior or "certain", optional
        Unknown mean rewards [S, A], which are added to the rewards of the model. By default those of the model
        (``model.reward_posterior``, which ``from_log`` makes where rewards of the same transition vary); "certain"
        ignores these. Normal ones are exact for CVaR and its mixtures; others need ``draws``. Terminal and absorbing
        states (never left, whatever the action) earn no such reward, unless there are no others.
    outcome_risk : RiskMeasure, optional
        Risk over the outcome of a step, within each model that is possible: ``CVaR`` of either sign, a mixture of
        CVaRs, or ``prudent.risk.EntropicRisk``. V(s) = rho( sigma( r + gamma V(s') ) ): rho over the posterior, sigma
        over the outcome. By default the mean. It is exact for CVaRs at level 0 of the posterior, or if no source has
        more than three outcomes (two for a mixture over outcomes); else it needs ``draws``.
    draws : array_like of shape (N, B, K), DataArray, Dataset or ArviZ object, optional
        Posterior draws instead of a posterior. An xarray object has dimensions chain and draw (and source, outcome).
        Every solution is then the one for these draws.
    variable : str, optional
        Name of the draws in a Dataset with several variables.

    Attributes
    ----------
    risk : RiskMeasure
        The risk measure.
    alpha : float or None
        Its level, if it is CVaR.

    Raises
    ------
    ModelError
        If ``model`` is no UncertainMDP.
    PosteriorError
        If posterior or draws do not fit the model.
    ParameterError
        If ``alpha`` or ``risk`` is invalid, or arguments exclude each other.

    References
    ----------
    Wang and Zhou, *Online Bayesian Risk-Averse Reinforcement Learning*.

    Examples
    --------
    State 1 pays. From state 0, action 0 has led there in 40 of 100 cases; action 1 in one of two. The risk level
    decides:

    >>> from prudent import BayesianRiskMDP, DirichletPosterior, UncertainMDP
    >>> model = UncertainMDP.direct([[0.0, 0.0], [1.0, 1.0]], discount=0.9)
    >>> posterior = DirichletPosterior([[60, 40], [1, 1], [50, 50], [60, 40]])
    >>> [BayesianRiskMDP(model, posterior, alpha).solve().policy.tolist() for alpha in (0.0, 0.9)]
    [[1, 0], [0, 0]]
    """

    model: UncertainMDP

    def __init__(
        self,
        model: UncertainMDP,
        posterior: DirichletPosterior | DrawsLike | None = None,
        alpha: float | None = None,
        *,
        risk: RiskMeasure | None = None,
        reward_posterior: RewardsLike = None,
        outcome_risk: RiskMeasure | None = None,
        draws: DrawsLike | None = None,
        variable: str | None = None,
    ) -> None:
        hint = "; a known model has no posterior, use prudent.solve" if isinstance(model, MDP) else ""
        self.model = instance_of(model, "model", UncertainMDP, hint, error=ModelError)
        self.risk: RiskMeasure = measure_of(alpha, risk)
        self.alpha: float | None = self.risk.alpha if isinstance(self.risk, CVaR) else None
        self.outcome_risk, self._luck = outcome_risk, luck_of(outcome_risk)
        if (posterior is None) == (draws is None):
            message = "give either posterior or draws, and not both"
            raise ParameterError(
                message, code="missing-argument" if draws is None else "conflicting-arguments", argument="posterior"
            )
        if draws is None and (hasattr(posterior, "dims") or hasattr(posterior, "posterior")):
            posterior, draws = None, posterior
        self.posterior: DirichletPosterior | None = None
        self.draws: FloatArray | None = None
        if draws is not None or variable is not None:
            self.draws = read_draws(draws, model, variable)
            self._given = self._packed(self.draws)
        else:
            if not isinstance(posterior, DirichletPosterior) and hasattr(posterior, "sample"):
                message = f"posterior is {posterior!r}, no Dirichlet; give draws=posterior.sample(1000, rng)"
                raise PosteriorError(message, code="wrong-type", argument="posterior", value=posterior)
            counts = cast(npt.ArrayLike, posterior)
            given = posterior if isinstance(posterior, DirichletPosterior) else DirichletPosterior(counts)
            self.posterior = self._fitting(given)
        self.reward_posterior = unknown_rewards(self.model, reward_posterior)

    def _fitting(self, posterior: DirichletPosterior) -> DirichletPosterior:
        """Return the posterior, with the source of terminal states where it was left out; refuse what does not fit."""
        mask = self.model.outcome_mask
        if posterior.counts.shape != mask.shape:
            counts, prior = (self.model.with_end(rows) for rows in (posterior.counts, posterior.prior))
            require_shape(counts, "posterior", mask.shape, "[B, K]", error=PosteriorError)
            posterior = DirichletPosterior(counts, prior=prior)
        stray, absent = (posterior.counts > 0.0) & ~mask, "0, as this source has no such outcome"
        refuse(stray, posterior.counts, "counts", absent, error=PosteriorError, code="unknown-outcome")
        if not posterior.naming.same_as(self.model.naming):
            message = "posterior has sources or outcomes with other names than the model"
            raise PosteriorError(message, code="other-names", argument="posterior")
        return posterior

    @property
    def risk_name(self) -> str:  # type: ignore[override]
        """The risk measure as code."""
        return (
            repr(self.risk) if self._luck is None else f"{self.risk!r} over models, {self.outcome_risk!r} over outcomes"
        )

    @classmethod
    def from_table(
        cls,
        table: TableLike,
        discount: float,
        alpha: float | None = None,
        *,
        risk: RiskMeasure | None = None,
        states: Names = None,
        actions: Names = None,
        terminal: TerminalLike = None,
        columns: Mapping[str, Any] | None = None,
    ) -> BayesianRiskMDP:
        """Return the problem whose posterior draws are the models of one table.

        Parameters
        ----------
        table : str, path, DataFrame, dict of columns, structured array or rows
            Columns state, action, next_state, probability, reward and sample, the number of the model that the row
            belongs to; rows in that order. Every sample lists every pair. The outcomes of a pair are the (next state,
            reward) that occur for it in any sample.
        discount : float
            Discount factor in [0, 1].
        alpha : float, optional
            As for the class.
        risk : RiskMeasure, optional
            As for the class.
        states, actions : sequence of hashable, optional
            As for ``prudent.UncertainMDP.from_table``.
        terminal : iterable or mapping, optional
            As for ``prudent.UncertainMDP.from_table``.
        columns : mapping of str to str, optional
            Names of these columns in the table.

        Returns
        -------
        BayesianRiskMDP
            The problem, with ``draws`` [N, B, K].

        Examples
        --------
        >>> from prudent import BayesianRiskMDP
        >>> rows = [(0, 0, 0, 0.9, 1.0, 1), (0, 0, 1, 0.1, 0.0, 1), (1, 0, 1, 1.0, 0.0, 1),
        ...         (0, 0, 0, 0.5, 1.0, 2), (0, 0, 1, 0.5, 0.0, 2), (1, 0, 1, 1.0, 0.0, 2)]
        >>> problem = BayesianRiskMDP.from_table(rows, discount=0.9, alpha=0.5)
        >>> problem.draws.shape, problem.solve().value.round(4)
        ((2, 2, 2), array([0.9091, 0.    ]))
        """
        model, theta = models_of_table(table, states, actions, discount, held(terminal), columns)
        return cls(model, alpha=alpha, risk=risk, draws=theta)

    @overload
    def solve(
        self,
        draws: npt.ArrayLike | None = None,
        rng: RngLike = None,
        *,
        learning: Literal[False] = False,
        **keywords: Unpack[ControlKeywords],
    ) -> Solution: ...
    @overload
    def solve(self, *, learning: Literal[True], **keywords: Unpack[ControlKeywords]) -> LearningPlan: ...
    def solve(
        self,
        draws: npt.ArrayLike | None = None,
        rng: RngLike = None,
        *,
        learning: bool = False,
        **keywords: Unpack[ControlKeywords],
    ) -> Solution | LearningPlan:
        """Compute the optimal Bayesian-risk values and policy.

        Parameters
        ----------
        draws : int or array_like of shape (N, B, K), optional
            Posterior draws. By default the risk is evaluated exactly.
        rng : int or numpy.random.Generator, optional
            Seed or generator for ``draws``.
        learning : bool, default=False
            With a horizon: update the posterior on the way, so that the plan values what it will learn. Takes ``tol``,
            ``horizon``, ``terminal_value``, ``exclude`` and ``start``, where the plan begins (by default any state that
            is not terminal). With a number of ``draws`` a plan that is too large is exact for its first steps, and
            bounded from below and above after that.
        **keywords : dict
            ``tol``, ``horizon``, ``terminal_value``, ``objective``, ``exclude``, ``baseline``, ``min_visits``,
            ``epsilon``, ``initial_value``, ``threads``, ``client``, ``options``, ``method``, ``sweeps``,
            ``max_iterations`` and ``device`` of ``prudent.solve``.

        Returns
        -------
        Solution or LearningPlan
            As ``prudent.solve`` returns it; with ``learning`` a plan whose actions depend on what was observed.

        Raises
        ------
        ParameterError
            If a plan that learns has no horizon or too many nodes, or the problem is not one of a Dirichlet posterior
            with known rewards and a risk measure that is evaluated exactly.
        """
        if not learning:
            return solve(self, draws=draws, rng=rng, **keywords)
        exact = self.posterior if self.is_exact and self.reward_posterior is None and self._luck is None else None
        return learning_plan(self, exact, self.risk, {"draws": draws, "rng": rng, **keywords})

    def evaluate(
        self,
        policy: PolicyLike,
        draws: npt.ArrayLike | None = None,
        rng: RngLike = None,
        **keywords: Unpack[SolveKeywords],
    ) -> Solution:
        """Compute the Bayesian-risk values of a policy.

        Parameters
        ----------
        policy : array_like, mapping, DataFrame or Solution
            As for ``prudent.evaluate``.
        draws : int or array_like of shape (N, B, K), optional
            As for ``solve``.
        rng : int or numpy.random.Generator, optional
            As for ``solve``.
        **keywords : dict
            As for ``prudent.evaluate``.

        Returns
        -------
        Solution
            As ``prudent.evaluate`` returns it.

        Examples
        --------
        >>> from prudent import BayesianRiskMDP, UncertainMDP
        >>> model = UncertainMDP.direct([[0.0, 0.0], [1.0, 1.0]], discount=0.5)
        >>> problem = BayesianRiskMDP(model, model.prior(), alpha=0.5)
        >>> problem.evaluate([[0.5, 0.5], [1.0, 0.0]]).value.round(6)
        array([0.25, 1.25])
        """
        return evaluate(self, policy, draws=draws, rng=rng, **keywords)

    # -- what solvers ask for ------------------------------------------------------------------------------

    def undiscounted(
        self, policy: PolicyLike | None, draws: npt.ArrayLike | None, rng: RngLike, threads: int | None
    ) -> Ended:
        """Return the model and the operator of a process that is not discounted but ends.

        Parameters
        ----------
        policy : array_like, mapping or Solution, optional
            Policy to evaluate; None for the best one.
        draws : int or array_like of shape (N, B, K), optional
            Posterior draws; None evaluates the risk exactly.
        rng : int or numpy.random.Generator, optional
            Seed or generator for ``draws``.
        threads : int, optional
            Number of threads. By default all cores.

        Returns
        -------
        Ended
            Model, operator and first guess.

        Raises
        ------
        ParameterError
            If the risk measure is not coherent.
        ModelError
            If the process may go on for ever.
        """
        equivalent = isinstance(self.risk, CertaintyEquivalent) or (self._luck is not None and not self._luck.cautious)
        if equivalent or (np.diff(self.risk.lowest_weights(1_000)) > 1e-12).any():
            message = f"horizon must be given: at discount 1 {self.risk!r} has no endless value, it is not coherent"
            raise ParameterError(message, code="missing-argument", argument="horizon")
        stream = generator(rng) if axes_of(draws) == 0 and draws is not None else rng

        def operator_of(model: UncertainMDP, times: bool) -> Executor:
            twin = copy.copy(self)
            twin.model = model
            if times:
                twin.reward_posterior = None
            if self.draws is not None:
                twin._given = twin._packed(self.draws)
            return twin.operator(draws, copy.deepcopy(stream), threads)

        return ended_uncertain(self.model, self._mean_theta(), policy, operator_of)

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
            If the risk is not CVaR at a level of at least 0 under a Dirichlet posterior.
        """
        from .cluster import cluster_operator

        exact = self.is_exact and self.reward_posterior is None and self._luck is None
        if draws is not None or rng is not None or not exact or self.alpha is None or self.alpha < 0.0:
            message = (
                "client is for exact solves of CVaR at levels of at least 0 under a Dirichlet posterior, with rewards "
                "that are known (reward_posterior='certain')"
            )
            raise ParameterError(message, code="conflicting-arguments", argument="client")
        self.model.require_unit_durations("solves on a cluster")
        if threads is not None:
            message = "threads cannot be combined with client: the workers have their own threads"
            raise ParameterError(message, code="conflicting-arguments", argument="threads")
        if self.alpha == 0.0:  # a known model, solved in no time
            return nullcontext(self._mean_operator())
        assert self.posterior is not None
        return cluster_operator(self.model, self.posterior.counts, self.alpha, client, options)

    def first_guess(self, operator: Executor) -> Executor:  # noqa: D102
        # without an approximation the values under the posterior mean are cheap, and close at a rough tolerance
        return operator.approximation() or self._mean_operator()

    def snapshot(self, draws: npt.ArrayLike | None = None) -> Self:  # noqa: D102
        twin = copy.copy(self)
        twin.posterior = None if self.posterior is None else self.posterior.copy()
        twin.reward_posterior = None if self.reward_posterior is None else self.reward_posterior.copy()
        if axes_of(draws) > 0:
            twin.draws = read_draws(draws, self.model)
        return twin

    @property
    def is_mean(self) -> bool:  # noqa: D102
        return self.alpha == 0.0 and self.draws is None and self._luck is None

    @property
    def mean_roundings(self) -> float:  # noqa: D102
        return 0.5 * self.model.n_outcomes + 2.0

    @property
    def solved_draws(self) -> FloatArray | None:  # noqa: D102
        return None if self.posterior is None else self.draws

    def evidence(self, actions: IntArray) -> Evidence | None:  # noqa: D102
        if self.posterior is None:
            return None
        sources = self.model.source[np.arange(actions.size), actions]
        counts, prior = self.posterior.counts, self.posterior.prior
        return Evidence((counts - prior).sum(axis=1)[sources], counts.sum(axis=1)[sources])

    def explain_state(self, value: FloatArray, state: int, chosen: int, q: FloatArray | None = None) -> Explanation:
        """Return why an action is taken in one state: exactly for CVaR of a Dirichlet posterior, else by draws.

        Parameters
        ----------
        value : ndarray of shape (S,)
            Values of the next states.
        state : int
            Index of the state.
        chosen : int
            Index of the action that is taken.
        q : ndarray of shape (A,), optional
            Not used: the values of the actions are computed with their posteriors.

        Returns
        -------
        Explanation
            The explanation.
        """
        plain = self.reward_posterior is None and self._luck is None
        if self.draws is None and self.is_exact and self.alpha is not None and plain:
            assert self.posterior is not None
            return explain_exact(self.model, self.posterior, self.alpha, value, state, chosen)

        sources = np.unique(self.model.source[state, self.model.admissible[state]])
        if self.draws is not None:
            posterior, theta = None, self.draws[:, sources]
        else:
            assert self.posterior is not None
            posterior, theta = self.posterior, draws_of_sources(self.posterior, sources)
        rewards = self._reward_draws(theta.shape[0], np.random.default_rng(1))  # the same question has the same answer
        of = (self.model, self.risk, theta, rewards, posterior, value, state, chosen)
        if self._luck is None:
            return explain_sampled(*of, self.alpha)
        found = explain_sampled(*of, None, inner=partial(inner_values, self._luck))
        return replace(found, risk=self.risk_name)

    def _packed(self, theta: FloatArray) -> tuple[GivenDraws, tuple[float, float]]:
        """Return checked draws [N, B, K] by slots, and bounds on what their rows lack to sum to one."""
        leaks = check_draws(theta, self.model, theta.shape[2] * EPS)
        return GivenDraws(self.model, theta), leaks

    @property
    def is_exact(self) -> bool:
        """Whether the problem can be solved without draws."""
        if self.posterior is None or isinstance(self.reward_posterior, BetaPosterior):
            return False
        if isinstance(self.risk, CertaintyEquivalent):
            return self.risk.knows_dirichlet and self.reward_posterior is None and self._luck is None
        try:
            form = form_of(self.risk)
        except ParameterError:
            return False
        if self._luck is not None:
            certain = self.reward_posterior is None and self.risk.gap == 0.0
            return certain and knows_luck(self.posterior.counts, form, self._luck)
        return self.reward_posterior is None or not (form.quantile or self.risk.gap > 0.0)

    def mean_mdp(self) -> MDP:
        """Return the known model at the posterior mean, which is the problem at level 0.

        Returns
        -------
        MDP
            The model with mean probabilities and rewards.

        Examples
        --------
        >>> from prudent import BayesianRiskMDP, UncertainMDP
        >>> BayesianRiskMDP(UncertainMDP.direct([[0.0], [1.0]], discount=0.9), [[1, 3], [1, 1]], 0.9).mean_mdp().dense()
        array([[[0.25, 0.75]],
               [[0.5 , 0.5 ]]])
        """
        mean = self.model.mdp(self._mean_theta())
        if self.reward_posterior is None:
            return mean
        entries, extra = self.model.entries, self.quieted(self.reward_posterior.mean())
        if not extra.any():
            return mean
        same = {name: getattr(mean, name) for name in ("termination", "states", "actions")}
        known = MDP(mean.transition, mean.reward + extra, mean.discount, admissible=self.model.source >= 0, **same)
        known.admissible = mean.admissible
        earned = entries.reward + extra.reshape(-1)[entries.pairs()]
        known.keep_outcomes(entries._replace(reward=earned), self._mean_theta())
        known.arrival_value = mean.arrival_value
        known.has_durations, known.lost_durations = mean.has_durations, mean.lost_durations
        return known

    def _mean_operator(self) -> Executor:
        return Threads(MeanRows.of_outcomes(self.with_mean_rewards(), self._mean_theta()))

    def with_mean_rewards(self) -> UncertainMDP:
        """Return the model with the means of the unknown rewards.

        Returns
        -------
        UncertainMDP
            The model itself, if these are zero.
        """
        extra = None if self.reward_posterior is None else self.quieted(self.reward_posterior.mean())
        return self.model if extra is None else with_rewards(self.model, extra)

    def _noisy_rows(self, posterior: DirichletPosterior) -> NoisyRows:
        """Return the exact operator with normal rewards."""
        form = None if isinstance(self.risk, CertaintyEquivalent) else form_of(self.risk)
        if form is None or form.quantile or self.risk.gap > 0.0:
            what: str | None = f"{self.risk!r} of unknown rewards"
        else:
            normal = isinstance(self.reward_posterior, NormalPosterior)
            what = None if normal else "unknown rewards that are not normal"
        if what is not None or form is None:
            message = f"draws must be given: {what} have no exact operator, e.g. draws=1000"
            raise ParameterError(message, code="missing-argument", argument="draws")
        assert self.reward_posterior is not None
        sd = self.quieted(np.sqrt(self.reward_posterior.variance()))
        return NoisyRows(self.with_mean_rewards(), posterior.counts, sd, form)

    def _mean_theta(self) -> FloatArray:
        if self.draws is not None:
            mean: FloatArray = self.draws.mean(axis=0)
            return mean / mean.sum(axis=1, keepdims=True)
        assert self.posterior is not None
        return self.posterior.mean()

    def operator(self, draws: npt.ArrayLike | None = None, rng: RngLike = None, threads: int | None = None) -> Executor:
        """Return a new Bellman operator of the problem.

        Parameters
        ----------
        draws : int or array_like of shape (N, B, K), optional
            Posterior draws; None evaluates the risk exactly. A problem made from draws takes no others.
        rng : int or numpy.random.Generator, optional
            Seed or generator for ``draws``, and for draws of the reward posterior.
        threads : int, optional
            Number of threads. By default all cores.

        Returns
        -------
        Executor
            The operator that a solver iterates.

        Raises
        ------
        ParameterError
            If ``draws`` are missing or not allowed, or ``rng`` has no use.
        """
        model = self.model
        workers = default_threads() if threads is None else whole_number(threads, "threads")
        if self.posterior is None and draws is not None:
            message = "draws cannot be given for a problem made from draws: it has no posterior to draw others from"
            raise ParameterError(message, code="conflicting-arguments", argument="draws")
        given = self.posterior is None or (draws is not None and axes_of(draws) > 0)
        if rng is not None and self.reward_posterior is None and (given or draws is None):
            reason = "when the draws are given" if given else "for an exact solve"
            message = f"rng is only used with a number of draws; omit it {reason}"
            raise ParameterError(message, code="conflicting-arguments", argument="rng")
        if draws is None and self.posterior is not None:
            if self._luck is not None:
                exact = self.posterior.counts if self.is_exact else None
                return Threads(luck_rows(model, exact, self.risk, self.outcome_risk, self._luck), workers)
            if isinstance(self.risk, CertaintyEquivalent) and self.risk.knows_dirichlet:
                if self.reward_posterior is not None:
                    return Threads(self._noisy_rows(self.posterior), workers)
                return Threads(EquivalentDirichletRows(model, self.posterior.counts, self.risk), workers)
            form, gap = form_of(self.risk), self.risk.gap  # which says so if there is none
            if not form.quantile and (form.levels == 0.0).all() and gap == 0.0:
                return self._mean_operator()
            if self.reward_posterior is not None:
                return Threads(self._noisy_rows(self.posterior), workers)
            return Threads(DirichletRows(model, self.posterior.counts, form, gap=gap), workers)
        # with draws of the caller the same question has the same answer, drawn rewards included
        random = np.random.default_rng(1) if rng is None and given else generator(rng)
        made: GivenDraws | SlotDraws
        if self.posterior is None:
            made, leaks = self._given
        elif given:
            made, leaks = self._packed(read_draws(draws, model))
        else:
            counts = model.entries.pack(self.posterior.counts)
            made = SlotDraws(model.entries, counts, whole_number(draws, "draws", memory=64.0), random, KEPT_BYTES)
            rounding = (model.n_outcomes + 4.0) * EPS  # of the division by the total
            leaks = (-rounding, rounding)
        rewards = self._reward_draws(made.n, random)
        if self._luck is not None:
            return Threads(LuckDrawRows(model, made, self.risk, self._luck, rewards, leaks), workers)
        if isinstance(self.risk, CertaintyEquivalent):
            return Threads(EquivalentDrawRows(model, made, self.risk, rewards, leaks), workers)
        return Threads(DrawRows(model, made, self.risk, rewards, leaks), workers)

    def _reward_draws(self, n: int, random: np.random.Generator) -> FloatArray | None:
        """Return what the posterior of the rewards adds to them, [N, S, A]."""
        if self.reward_posterior is None:
            return None
        return self.quieted(self.reward_posterior.sample(n, random))

    def quieted(self, rewards: FloatArray) -> FloatArray:
        """Return rewards of a reward posterior, zero where nothing is earned by deciding.

        Parameters
        ----------
        rewards : ndarray of shape (..., S, A)
            Rewards of all pairs.

        Returns
        -------
        ndarray of shape (..., S, A)
            Zero in terminal and absorbing states, see the class.
        """
        quiet = self.model.terminal | self.model.absorbing
        quiet = self.model.terminal if quiet.all() else quiet  # a bandit is all absorbing states
        return np.where(quiet[:, np.newaxis], 0.0, rewards)
