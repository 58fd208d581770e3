"""The Bayesian risk MDP: a model, a posterior and a dial, solved exactly or by posterior draws."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Unpack, overload

import numpy as np

from .._numerics.compensated import EPS
from .._numerics.compile import default_threads
from .._support.checks import FloatArray, generator, whole_number
from ..data.labels import Names
from ..errors import ModelError, ParameterError, PosteriorError
from ..models.base import held
from ..models.mdp import MDP
from ..models.uncertain import UncertainMDP
from ..posteriors.dirichlet import DirichletPosterior
from ..posteriors.scalar import BetaPosterior, NormalPosterior
from ..risk import CVaR, RiskMeasure, measure_of
from .draw_blocks import KEPT_BYTES, GivenDraws, SlotDraws
from .execute.executor import Executor
from .execute.threads import Threads
from .finite_solution import FiniteSolution
from .fixed_point import Guess, placed, rough_guess, solve_operator
from .from_draws import check_draws, models_of_table, read_draws
from .horizon import refuse_options, solve_finite
from .options import SolverKeywords, SolverOptions
from .row_risks import DirichletRows, DrawRows, MeanRows
from .solution import Solution
from .undiscounted import Ended, ended_uncertain

__all__ = ["BayesianRiskMDP"]


class BayesianRiskMDP:
    """A Bayesian risk MDP: a model whose probabilities have a posterior, valued by the risk of that posterior.

    The value of a policy obeys V(s) = rho( r(s, pi(s)) + gamma E[V(s')] ), the risk rho being taken over the posterior
    of the model at every step (the paper's Bayesian-risk Bellman equation); the optimal value maximises over
    actions as well. By default rho is CVaR_alpha. It is evaluated exactly, without draws, as all measures are that have
    an exact form: CVaR of both signs, their mixtures, and quantiles.

    Parameters
    ----------
    model : the known part, :class:`UncertainMDP`.
    posterior : :class:`DirichletPosterior`, or its counts [B, K]; or draws as an xarray or ArviZ object.
    alpha : risk level in (-1, 1); 0 is risk-neutral (the posterior mean), 0.9 values every step by the mean of the
        worst tenth of the posterior, -0.9 by that of the best tenth.
    risk : another measure instead of CVaR_alpha, e.g. ``VaR(0.9)`` or ``MeanCVaR(0.9, weight=0.5)``. Quantiles and
        mixtures of CVaRs are evaluated exactly; a distortion that bends everywhere needs ``draws`` (see
        :class:`~prudent.risk.Spectral`).
    reward_posterior : unknown mean rewards [S, A], :class:`NormalPosterior` or :class:`BetaPosterior`, which
        are added to the rewards of the model; needs ``draws``. Terminal and absorbing states (never left, whatever the
        action) earn no such reward, unless there are no others.
    draws : posterior draws theta [N, B, K] instead of a posterior, where these are all there is: an array, a DataArray
        or Dataset with dimensions chain and draw (and source, outcome), or an ArviZ object. Then every solution is
        the one for these draws.
    variable : the name of the draws in a Dataset with several variables.

    State 1 pays. From state 0, action 0 has led there in 40 of 100 cases; action 1 in one of two. The dial decides:

    >>> model = UncertainMDP.direct([[0.0, 0.0], [1.0, 1.0]], discount=0.9)
    >>> posterior = DirichletPosterior([[60, 40], [1, 1], [50, 50], [60, 40]])
    >>> [BayesianRiskMDP(model, posterior, alpha).solve().policy.tolist() for alpha in (0.0, 0.9)]
    [[1, 0], [0, 0]]
    """

    def __init__(
        self,
        model: UncertainMDP,
        posterior: DirichletPosterior | Any = None,
        alpha: float | None = None,
        *,
        risk: RiskMeasure | None = None,
        reward_posterior: NormalPosterior | BetaPosterior | None = None,
        draws: Any = None,
        variable: str | None = None,
    ) -> None:
        if not isinstance(model, UncertainMDP):
            hint = "; a known model has no posterior, use prudent.solve" if isinstance(model, MDP) else ""
            raise ModelError(f"expected an UncertainMDP, got {type(model).__name__}{hint}")
        self.risk: RiskMeasure = measure_of(alpha, risk)
        self.alpha: float | None = self.risk.alpha if isinstance(self.risk, CVaR) else None
        self.model = model
        if (posterior is None) == (draws is None):
            raise ParameterError("give either a posterior or draws from one, and not both")
        if draws is None and (hasattr(posterior, "dims") or hasattr(posterior, "posterior")):
            posterior, draws = None, posterior
        self.posterior: DirichletPosterior | None = None
        self.draws: FloatArray | None = None
        if draws is not None:
            self.draws = read_draws(draws, model, variable)
        elif variable is not None:
            raise ParameterError("variable chooses from a dataset of draws, but there is none")
        else:
            self.posterior = posterior if isinstance(posterior, DirichletPosterior) else DirichletPosterior(posterior)
        self.reward_posterior = reward_posterior
        self._check_posteriors()

    def _check_posteriors(self) -> None:
        if self.draws is not None:
            self._given = self._packed(self.draws)
        else:
            self._check_counts()
        if self.reward_posterior is not None:
            shape = self.reward_posterior.mean().shape
            expected = (self.model.n_states, self.model.n_actions)
            if shape != expected:
                raise PosteriorError(f"reward_posterior has shape {shape}, the model needs [S, A] = {expected}")

    def _check_counts(self) -> None:
        assert self.posterior is not None
        counts, mask = self.posterior.counts, self.model.outcome_mask
        if counts.shape != mask.shape:
            whole = self.model.with_end(counts)
            if whole.shape != mask.shape:
                raise PosteriorError(
                    f"posterior has counts of shape {counts.shape}, the model needs [B, K] = {mask.shape}"
                )
            self.posterior = DirichletPosterior(whole, prior=self.model.with_end(self.posterior.prior))
            counts = whole
        stray = (counts > 0.0) & ~mask
        if stray.any():
            b, k = (int(i) for i in np.argwhere(stray)[0])
            raise PosteriorError(f"counts[{b}, {k}] is {counts[b, k]}, but source {b} has no outcome {k} in the model")
        if not self.posterior.naming.same_as(self.model.naming):
            raise PosteriorError("posterior has sources or outcomes with other names than the model")

    @classmethod
    def from_table(
        cls,
        table: Any,
        discount: float,
        alpha: float | None = None,
        *,
        risk: RiskMeasure | None = None,
        states: Names = None,
        actions: Names = None,
        terminal: Any = None,
        columns: Mapping[str, Any] | None = None,
    ) -> BayesianRiskMDP:
        """Return the problem whose posterior draws are the models of one table.

        Its columns are state, action, next_state, probability, reward and sample, the number of the model that the row
        belongs to: a DataFrame, a dict of columns, a structured array, or rows in that order. Every sample lists
        every pair. The outcomes of a pair are the (next state, reward) that occur for it in any sample. ``states``,
        ``actions`` and ``terminal`` are those of :meth:`UncertainMDP.from_table`, ``columns`` maps these names to
        those of the table.

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
        draws: int | Any = None,
        rng: Any = None,
        *,
        horizon: None = None,
        terminal: None = None,
        tol: float | None = None,
        start: Any = None,
        threads: int | None = None,
        client: Any = None,
        options: SolverOptions | None = None,
        **keywords: Unpack[SolverKeywords],
    ) -> Solution: ...

    @overload
    def solve(
        self,
        draws: int | Any = None,
        rng: Any = None,
        *,
        horizon: int,
        terminal: Any = None,
        tol: float | None = None,
        threads: int | None = None,
    ) -> FiniteSolution: ...

    def solve(
        self,
        draws: int | Any = None,
        rng: Any = None,
        *,
        horizon: int | None = None,
        terminal: Any = None,
        tol: float | None = None,
        start: Any = None,
        threads: int | None = None,
        client: Any = None,
        options: SolverOptions | None = None,
        **keywords: Unpack[SolverKeywords],
    ) -> Solution | FiniteSolution:
        """Return the optimal Bayesian-risk values and policy, certified to ``tol``.

        Parameters
        ----------
        draws : None evaluates the risk exactly. An int asks for that many posterior draws from ``rng`` (the paper's
            approximate operator; the certificate is then about the fixed point for these draws). An array [N, B, K]
            gives the draws themselves. A problem that was made from draws uses all of them, and takes no others.
        rng : a seed or a Generator, for draws.
        horizon, terminal : solve for so many steps, the risk being taken anew at each of them, and what states are
            worth after them, as for :func:`prudent.solve`: a :class:`FiniteSolution`. The same draws serve all steps.
        threads : how many to use, by default all cores.
        client : has the workers of a dask cluster do the backups of an exact solve, each for some of the states: a
            Client of dask.distributed, a cluster object, or the address of a scheduler. For models that do not fit into
            one machine there is :class:`prudent.planning.ClusterModel`.
        tol, start, method, sweeps, max_iterations, device, options : as for :func:`prudent.solve`.

        At discount 1, and without a horizon, the process must end whatever is done.
        """
        return self._solved(None, draws, rng, horizon, terminal, tol, start, threads, client, options, keywords)

    @overload
    def evaluate(
        self,
        policy: Any,
        draws: int | Any = None,
        rng: Any = None,
        *,
        horizon: None = None,
        terminal: None = None,
        tol: float | None = None,
        start: Any = None,
        threads: int | None = None,
        client: Any = None,
        options: SolverOptions | None = None,
        **keywords: Unpack[SolverKeywords],
    ) -> Solution: ...

    @overload
    def evaluate(
        self,
        policy: Any,
        draws: int | Any = None,
        rng: Any = None,
        *,
        horizon: int,
        terminal: Any = None,
        tol: float | None = None,
        threads: int | None = None,
    ) -> FiniteSolution: ...

    def evaluate(
        self,
        policy: Any,
        draws: int | Any = None,
        rng: Any = None,
        *,
        horizon: int | None = None,
        terminal: Any = None,
        tol: float | None = None,
        start: Any = None,
        threads: int | None = None,
        client: Any = None,
        options: SolverOptions | None = None,
        **keywords: Unpack[SolverKeywords],
    ) -> Solution | FiniteSolution:
        """Return the Bayesian-risk values of ``policy``; everything else as for :meth:`solve`.

        ``policy`` is one action for each state, or probabilities of actions [S, A] (see
        :meth:`UncertainMDP.policy_matrix`). The value is then V(s) = sum_a pi(a | s) Q(s, a): the risk is taken for
        each pair, before the mean over actions.

        >>> model = UncertainMDP.direct([[0.0, 0.0], [1.0, 1.0]], discount=0.5)
        >>> problem = BayesianRiskMDP(model, model.prior(), alpha=0.5)
        >>> problem.evaluate([[0.5, 0.5], [1.0, 0.0]]).value.round(6)
        array([0.25, 1.25])
        """
        return self._solved(policy, draws, rng, horizon, terminal, tol, start, threads, client, options, keywords)

    def _solved(
        self,
        policy: Any,
        draws: Any,
        rng: Any,
        horizon: int | None,
        terminal: Any,
        tol: float | None,
        start: Any,
        threads: int | None,
        client: Any,
        options: SolverOptions | None,
        keywords: SolverKeywords,
    ) -> Solution | FiniteSolution:
        if horizon is not None:
            refuse_options({"start": start, "client": client, "options": options, **keywords})
            operator = self._operator(draws, rng, threads)
            return solve_finite(operator, self.model, policy, horizon, terminal, tol, self._as_it_is(draws))
        if terminal is not None:
            raise ParameterError("terminal is what states are worth after a horizon; give horizon as well")
        chosen = SolverOptions.chosen(options, tol, keywords)
        if client is not None:
            return self._solved_there(policy, client, chosen, start, draws, rng, threads)
        if self.model.discount == 1.0:
            ended = self._ended(policy, draws, rng, threads)
            guess = None if chosen.sweeps is not None else Guess(ended.guess, 0)
            return solve_operator(ended.operator, ended.model, policy, chosen, start, guess, self._as_it_is(draws))
        return self._fixed_point(policy, self._operator(draws, rng, threads), chosen, start, draws)

    def _ended(self, policy: Any, draws: Any, rng: Any, threads: int | None) -> Ended:
        """Return the model and the operator of a process that is not discounted but ends; see :mod:`.proper`."""
        weights = self.risk.lowest_weights(1_000)
        if (np.diff(weights) > 1e-12).any():
            raise ParameterError(f"at discount 1 {self.risk!r} needs a horizon: it is not coherent")
        stream = generator(rng) if np.ndim(draws) == 0 and draws is not None else rng

        def operator_of(model: UncertainMDP, times: bool) -> Executor:
            twin = copy.copy(self)
            twin.model = model
            if times:
                twin.reward_posterior = None
            if self.draws is not None:
                twin._given = twin._packed(self.draws)
            return twin._operator(draws, copy.deepcopy(stream), threads)

        return ended_uncertain(self.model, self._mean_theta(), policy, operator_of)

    def _solved_there(
        self, policy: Any, client: Any, options: SolverOptions, start: Any, draws: Any, rng: Any, threads: Any
    ) -> Solution:
        from .cluster import solve_there

        if self.model.discount == 1.0:
            raise ParameterError("client is for discounted problems; at discount 1 leave it out")
        if draws is not None or rng is not None or not self.is_exact or self.alpha is None or self.alpha < 0.0:
            raise ParameterError(
                "client is for exact solves of CVaR at levels from 0 on, under a Dirichlet posterior; leave it out here"
            )
        if threads is not None:
            raise ParameterError("give client or threads, and not both: the cluster has threads of its own")
        if self.alpha == 0.0:  # a known model, solved in no time
            return self._fixed_point(policy, self._mean_operator(), options, start, None)
        return solve_there(self, policy, client, options, start)

    def _packed(self, theta: FloatArray) -> tuple[GivenDraws, tuple[float, float]]:
        """Return checked draws [N, B, K] by slots, and bounds on what their rows lack to sum to one."""
        leaks = check_draws(theta, self.model, theta.shape[2] * EPS)
        return GivenDraws(self.model, theta), leaks

    def _fixed_point(self, policy: Any, operator: Executor, options: SolverOptions, start: Any, draws: Any) -> Solution:
        guess = None
        operator = placed(operator, options)  # once: its approximation shares what is there
        if options.method == "newton" and options.sweeps is None and start is None:
            # without an approximation the values under the posterior mean are cheap, and close at a rough tolerance
            rough = operator.approximation() or self._mean_operator()
            guess = rough_guess(rough, self.model, policy, options)
        return solve_operator(operator, self.model, policy, options, start, guess, self._as_it_is(draws))

    def _as_it_is(self, draws: Any) -> BayesianRiskMDP:
        """Return a copy with the draws that were given: a solution must not change when a posterior learns."""
        twin = copy.copy(self)
        twin.posterior = None if self.posterior is None else self.posterior.copy()
        twin.reward_posterior = None if self.reward_posterior is None else self.reward_posterior.copy()
        if np.ndim(draws) > 0:
            twin.draws = draws
        return twin

    @property
    def is_exact(self) -> bool:
        """Whether the problem can be solved without draws."""
        if self.posterior is None or self.reward_posterior is not None:
            return False
        try:
            self.risk.exact_form()
        except ParameterError:
            return False
        return True

    def mean_mdp(self) -> MDP:
        """Return the known model at the posterior mean: what remains of the problem at level 0.

        >>> BayesianRiskMDP(UncertainMDP.direct([[0.0], [1.0]], discount=0.9), [[1, 3], [1, 1]], 0.9).mean_mdp().dense()
        array([[[0.25, 0.75]],
               [[0.5 , 0.5 ]]])
        """
        mean = self.model.mdp(self._mean_theta())
        if self.reward_posterior is None:
            return mean
        entries, extra = self.model.entries, self.quieted(self.reward_posterior.mean())
        known = MDP(
            mean.transition,
            mean.reward + extra,
            mean.discount,
            termination=mean.termination,
            admissible=mean.admissible,
            states=mean.states,
            actions=mean.actions,
        )
        earned = entries.reward + extra.reshape(-1)[entries.pairs()]
        known.keep_outcomes(entries._replace(reward=earned), self._mean_theta())
        known.arrival_value = mean.arrival_value
        return known

    def _mean_operator(self) -> Executor:
        return Threads(MeanRows.of_outcomes(self.model, self._mean_theta()))

    def _mean_theta(self) -> FloatArray:
        if self.draws is not None:
            mean: FloatArray = self.draws.mean(axis=0)
            return mean / mean.sum(axis=1, keepdims=True)
        assert self.posterior is not None
        return self.posterior.mean()

    def _operator(self, draws: Any, rng: Any, threads: int | None) -> Executor:
        model = self.model
        workers = default_threads() if threads is None else whole_number(threads, "threads")
        if self.posterior is None and draws is not None:
            raise ParameterError("draws were given with the problem, which has no posterior to draw others from")
        given = self.posterior is None or (draws is not None and np.ndim(draws) > 0)
        if rng is not None and self.reward_posterior is None and (given or draws is None):
            reason = "the draws are given" if given else "the risk is evaluated exactly"
            raise ParameterError(f"rng has nothing to draw: {reason}")
        if draws is None and self.posterior is not None:
            if self.reward_posterior is not None:
                raise ParameterError("unknown rewards have no exact operator; give draws, e.g. draws=1000")
            form = self.risk.exact_form()  # which says so if there is none
            if not form.quantile and (form.levels == 0.0).all():
                return self._mean_operator()
            return Threads(DirichletRows(model, self.posterior.counts, form), workers)
        random = generator(rng)
        made: GivenDraws | SlotDraws
        if self.posterior is None:
            made, leaks = self._given
        elif given:
            made, leaks = self._packed(read_draws(draws, model))
        else:
            counts = model.entries.pack(self.posterior.counts)
            made = SlotDraws(model.entries, counts, whole_number(draws, "draws"), random, KEPT_BYTES)
            rounding = (model.n_outcomes + 4.0) * EPS  # of the division by the total
            leaks = (-rounding, rounding)
        return Threads(DrawRows(model, made, self.risk, self._reward_draws(made.n, random), leaks), workers)

    def _reward_draws(self, n: int, random: np.random.Generator) -> FloatArray | None:
        """Return what the posterior of the rewards adds to them, [N, S, A]."""
        if self.reward_posterior is None:
            return None
        return self.quieted(self.reward_posterior.sample(n, random))

    def quieted(self, rewards: FloatArray) -> FloatArray:
        """Return rewards [..., S, A] of a posterior, zero where nothing is earned by deciding: see the class."""
        quiet = self.model.terminal | self.model.absorbing
        quiet = self.model.terminal if quiet.all() else quiet  # a bandit is all absorbing states
        return np.where(quiet[:, np.newaxis], 0.0, rewards)
