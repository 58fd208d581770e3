"""The Bayesian risk MDP: a model, a posterior and a dial, solved exactly or by posterior draws."""

from __future__ import annotations

import copy
from typing import Any, Unpack

import numpy as np

from .._numerics.compensated import EPS
from .._numerics.compile import default_threads
from .._support.checks import FloatArray, finite_array, first_index, generator, risk_level, whole_number
from ..errors import ModelError, ParameterError, PosteriorError
from ..models.known import MDP
from ..models.uncertain import UncertainMDP
from ..posteriors.dirichlet import DirichletPosterior
from ..posteriors.scalar import BetaPosterior, NormalPosterior
from ..risk import CVaR, RiskMeasure
from .operators import ExactOperator, ExpectedOperator, Operator, SampledOperator
from .solution import Solution
from .solver import SolverKeywords, SolverOptions, rough_guess, solve_operator

__all__ = ["BayesianRiskMDP"]


class BayesianRiskMDP:
    """A Bayesian risk MDP: a model whose probabilities have a posterior, valued by the risk of that posterior.

    The value of a policy obeys V(s) = rho( r(s, pi(s)) + gamma E[V(s')] ), the risk rho being taken over the posterior
    of the model at every step (the paper's Bayesian-risk Bellman equation); the optimal value maximises over
    actions as well. By default rho is CVaR_alpha and evaluated exactly.

    Parameters
    ----------
    model : the known part, :class:`UncertainMDP`.
    posterior : :class:`DirichletPosterior`, or its counts [B, K].
    alpha : risk level in [0, 1); 0 is risk-neutral (the posterior mean).
    risk : another measure on posterior draws instead of CVaR_alpha, e.g. ``VaR(0.9)``; needs ``draws``.
    reward_posterior : unknown mean rewards [S, A], :class:`NormalPosterior` or :class:`BetaPosterior`, which
        are added to the rewards of the model; needs ``draws``.

    State 1 pays. From state 0, action 0 has led there in 40 of 100 cases; action 1 in one of two. The dial decides:

    >>> model = UncertainMDP.direct([[0.0, 0.0], [1.0, 1.0]], discount=0.9)
    >>> posterior = DirichletPosterior([[60, 40], [1, 1], [50, 50], [60, 40]])
    >>> [BayesianRiskMDP(model, posterior, alpha).solve().policy.tolist() for alpha in (0.0, 0.9)]
    [[1, 0], [0, 0]]
    """

    def __init__(
        self,
        model: UncertainMDP,
        posterior: DirichletPosterior | Any,
        alpha: float | None = None,
        *,
        risk: RiskMeasure | None = None,
        reward_posterior: NormalPosterior | BetaPosterior | None = None,
    ) -> None:
        if not isinstance(model, UncertainMDP):
            hint = "; a known model has no posterior, use prudent.solve" if isinstance(model, MDP) else ""
            raise ModelError(f"expected an UncertainMDP, got {type(model).__name__}{hint}")
        if (alpha is None) == (risk is None):
            raise ParameterError("give either a risk level alpha or a risk measure, and not both")
        self.model = model
        self.posterior = posterior if isinstance(posterior, DirichletPosterior) else DirichletPosterior(posterior)
        self.alpha = None if alpha is None else risk_level(alpha)
        self.risk: RiskMeasure
        if alpha is not None:
            self.risk = CVaR(alpha)
        elif isinstance(risk, RiskMeasure):
            self.risk = risk
        else:
            raise ParameterError(f"risk must be a risk measure such as CVaR(0.9), got {risk!r}")
        self.reward_posterior = reward_posterior
        self.draws: Any = None  # [N, B, K] in the problem that a solution keeps, where they were given
        self._check_posteriors()

    def _check_posteriors(self) -> None:
        counts, mask = self.posterior.counts, self.model.outcome_mask
        if counts.shape != mask.shape:
            raise PosteriorError(f"posterior has counts of shape {counts.shape}, the model needs [B, K] = {mask.shape}")
        stray = (counts > 0.0) & ~mask
        if stray.any():
            b, k = (int(i) for i in np.argwhere(stray)[0])
            raise PosteriorError(f"counts[{b}, {k}] is {counts[b, k]}, but source {b} has no outcome {k} in the model")
        if self.reward_posterior is not None:
            shape = self.reward_posterior.mean().shape
            expected = (self.model.n_states, self.model.n_actions)
            if shape != expected:
                raise PosteriorError(f"reward_posterior has shape {shape}, the model needs [S, A] = {expected}")

    def solve(
        self,
        draws: int | Any = None,
        rng: Any = None,
        *,
        tol: float | None = None,
        start: Any = None,
        threads: int | None = None,
        options: SolverOptions | None = None,
        **keywords: Unpack[SolverKeywords],
    ) -> Solution:
        """Return the optimal Bayesian-risk values and policy, certified to ``tol``.

        Parameters
        ----------
        draws : None evaluates CVaR exactly. An int asks for that many posterior draws from ``rng`` (the paper's
            approximate operator; the certificate is then about the fixed point for these draws). An array [N, B, K]
            gives the draws themselves.
        rng : a seed or a Generator, for draws.
        threads : how many to use, by default all cores.
        tol, start, method, sweeps, max_iterations, options : as for :func:`prudent.solve`.
        """
        chosen = SolverOptions.chosen(options, tol, keywords)
        return self._fixed_point(None, self._operator(draws, rng, threads), chosen, start, draws)

    def evaluate(
        self,
        policy: Any,
        draws: int | Any = None,
        rng: Any = None,
        *,
        tol: float | None = None,
        start: Any = None,
        threads: int | None = None,
        options: SolverOptions | None = None,
        **keywords: Unpack[SolverKeywords],
    ) -> Solution:
        """Return the Bayesian-risk values of ``policy`` [S]; everything else as for :meth:`solve`."""
        chosen = SolverOptions.chosen(options, tol, keywords)
        return self._fixed_point(policy, self._operator(draws, rng, threads), chosen, start, draws)

    def _check_draws(self, theta: FloatArray) -> tuple[float, float]:
        """Refuse what are no probabilities; return bounds on what rows lack to sum to one."""
        sums = theta.sum(axis=2)
        off = abs(sums - 1.0) > 1e-9
        if off.any():
            raise PosteriorError(f"draws{first_index(off)} sums to {sums[off][0]:.12g}, expected 1")
        stray = (theta < 0.0) | ((theta > 0.0) & ~self.model.outcome_mask)
        if stray.any():
            raise PosteriorError(
                f"draws{first_index(stray)} is {theta[stray][0]}: negative, or no outcome of that source in the model"
            )
        rounding = theta.shape[2] * EPS
        return 1.0 - float(sums.max()) - rounding, 1.0 - float(sums.min()) + rounding

    def _fixed_point(self, policy: Any, operator: Operator, options: SolverOptions, start: Any, draws: Any) -> Solution:
        guess = None
        if options.method == "newton" and options.sweeps is None and start is None:
            # the values under the posterior mean are cheap, close, and good enough at a rough tolerance
            guess = rough_guess(self._mean_operator(), self.model, policy, options.cap)
        return solve_operator(operator, self.model, policy, options, start, guess, self._as_it_is(draws))

    def _as_it_is(self, draws: Any) -> BayesianRiskMDP:
        """Return a copy with the draws that were given: a solution must not change when a posterior learns."""
        twin = copy.copy(self)
        twin.posterior = self.posterior.copy()
        twin.reward_posterior = None if self.reward_posterior is None else self.reward_posterior.copy()
        if np.ndim(draws) > 0:
            twin.draws = draws
        return twin

    @property
    def is_exact(self) -> bool:
        """Whether the problem can be solved without draws."""
        return self.reward_posterior is None and self.alpha is not None

    def mean_mdp(self) -> MDP:
        """Return the known model at the posterior mean: what remains of the problem at level 0.

        >>> BayesianRiskMDP(UncertainMDP.direct([[0.0], [1.0]], discount=0.9), [[1, 3], [1, 1]], 0.9).mean_mdp().dense()
        array([[[0.25, 0.75]],
               [[0.5 , 0.5 ]]])
        """
        theta = self.posterior.mean() if self.draws is None else np.mean(self.draws, axis=0)
        mean = self.model.mdp(theta)
        if self.reward_posterior is None:
            return mean
        return MDP(
            mean.transition,
            mean.reward + self.reward_posterior.mean(),
            mean.discount,
            termination=mean.termination,
            admissible=mean.admissible,
            states=mean.states,
            actions=mean.actions,
        )

    def _mean_operator(self) -> ExpectedOperator:
        return ExpectedOperator.of_outcomes(self.model, self.posterior.mean())

    def _operator(self, draws: Any, rng: Any, threads: int | None) -> Operator:
        model = self.model
        workers = default_threads() if threads is None else whole_number(threads, "threads")
        if rng is not None and (draws is None or (np.ndim(draws) > 0 and self.reward_posterior is None)):
            reason = "CVaR is evaluated exactly" if draws is None else "the draws are given"
            raise ParameterError(f"rng has nothing to draw: {reason}")
        if draws is None:
            if self.reward_posterior is not None:
                raise ParameterError("unknown rewards have no exact operator; give draws, e.g. draws=1000")
            if self.alpha is None:
                raise ParameterError(f"only CVaR has an exact operator; give draws for {self.risk!r}, e.g. draws=1000")
            if self.alpha == 0.0:
                return self._mean_operator()
            return ExactOperator(model, self.posterior.counts, self.alpha, workers)
        random = generator(rng)
        if np.ndim(draws) == 0:
            theta = self.posterior.sample(whole_number(draws, "draws"), random)
            rounding = (theta.shape[2] + 4.0) * EPS  # of the division by the total
            leaks = (-rounding, rounding)
        else:
            theta = finite_array(draws, "draws", ndim=3, error=PosteriorError)
            if theta.shape[0] == 0 or theta.shape[1:] != model.outcome_mask.shape:
                raise PosteriorError(
                    f"draws has shape {theta.shape}, expected [N, B, K] = (N, {model.n_sources}, {model.n_outcomes})"
                )
            leaks = self._check_draws(theta)
        rewards = None if self.reward_posterior is None else self.reward_posterior.sample(theta.shape[0], random)
        return SampledOperator(model, theta, self.risk, rewards, workers, leaks)
