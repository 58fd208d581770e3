"""Robust models: every pair has a set of probabilities, and the worst (or the best) of it counts.

``RobustMDP`` puts weighted L1 balls around a known model or a posterior mean; ``IntervalMDP`` has bounds on every
probability. Both are planning problems as ``prudent.BayesianRiskMDP`` is: same solver, certificate, GPU. Credible
regions of a posterior are sets too, so that Bayesian risk and robustness can be compared at the same coverage.
"""

from __future__ import annotations

import copy
from typing import Any, Self, Unpack

import numpy as np
import numpy.typing as npt

from .._numerics.compile import default_threads
from .._support.checks import flag, instance_of, non_negative_array, refuse, require_shape, whole_number
from ..errors import ModelError, ParameterError, PosteriorError
from ..models.mdp import MDP
from ..models.uncertain import UncertainMDP
from ..posteriors.dirichlet import DirichletPosterior
from ..types import (
    ArrayLike,
    BoolArray,
    FloatArray,
    PolicyLike,
    RngLike,
)
from .base import Ended, PlanningProblem
from .credible import ball_radii
from .execute.executor import Executor
from .execute.threads import Threads
from .explain import Explanation, explain_sets
from .row_risks import MeanRows
from .set_rows import SetRows, Sets
from .solution import Solution
from .solve import ControlKeywords, SolveKeywords, evaluate, solve
from .undiscounted import ended_uncertain

SUM_SLACK = 1e-9  # by which the bounds of a pair may miss one, as rows of an MDP may


class L1Ball:
    """Sets of probabilities: all q with sum_k w_k abs(q_k - p_k) <= radius, p being the centre.

    Parameters
    ----------
    radius : float or array_like of shape (S, A) or (B,)
        Radius of all sets, of those of pairs, or of those of sources. Without weights 2 is everything.
    weights : array_like of shape (S,) or (B, K), optional
        Weights above 0 of next states (1 for the end of the process), or of the outcomes of sources. By default 1.
    centre : DirichletPosterior or array_like of shape (B, K), optional
        Centre of the sets around an uncertain model: probabilities, or the posterior whose mean it is. A known model is
        its own centre.

    Raises
    ------
    ParameterError
        If a radius is below 0, or a weight is not above 0.

    See Also
    --------
    RobustMDP : The problem that such sets make of a model.

    Examples
    --------
    >>> from prudent import MDP, L1Ball
    >>> from prudent.planning import RobustMDP
    >>> mdp = MDP([[[0.5, 0.5]], [[0.0, 1.0]]], reward=[[1.0], [0.0]], discount=0.9)
    >>> [round(float(RobustMDP(mdp, L1Ball(radius)).solve().value[0]), 6) for radius in (0.0, 0.2, 2.0)]
    [1.818182, 1.5625, 1.0]
    """

    radius: float | FloatArray
    weights: FloatArray | None
    centre: DirichletPosterior | FloatArray | None

    def __init__(
        self, radius: ArrayLike, weights: ArrayLike | None = None, centre: DirichletPosterior | ArrayLike | None = None
    ) -> None:
        given = non_negative_array(radius, "radius", error=ParameterError)
        if given.ndim > 2:
            message = f"radius must be a number or have the axes [S, A] or [B], got shape {given.shape}"
            raise ParameterError(message, code="wrong-shape", argument="radius", value=given.shape)
        self.radius = float(given) if given.ndim == 0 else given
        self.weights = None
        if weights is not None:
            self.weights = non_negative_array(weights, "weights", error=ParameterError)
            bad = self.weights == 0.0
            refuse(bad, self.weights, "weights", "above 0", error=ParameterError, code="value-range")
        self.centre = None
        if centre is not None:
            self.centre = (
                centre
                if isinstance(centre, DirichletPosterior)
                else non_negative_array(centre, "centre", ndim=2, error=PosteriorError)
            )

    @classmethod
    def credible(
        cls,
        posterior: DirichletPosterior | ArrayLike,
        coverage: float = 0.9,
        *,
        joint: bool = True,
        weights: ArrayLike | None = None,
        draws: int = 10_000,
        rng: RngLike = None,
    ) -> L1Ball:
        """Return balls around the posterior mean that hold the truth with a given posterior probability.

        Parameters
        ----------
        posterior : DirichletPosterior or array_like of shape (B, K)
            The posterior, or its counts.
        coverage : float, default=0.9
            Posterior probability in (0, 1) that all sources lie in their balls.
        joint : bool, default=True
            Whether this is about all sources at once; otherwise it is about each of them.
        weights : array_like of shape (B, K), optional
            As for the class.
        draws : int, default=10_000
            Draws of each source. A radius is an order statistic of their distances, so high that it is enough with
            probability 1 - 1e-6 over the draws of all sources, or a bound that needs no draws, if that is less.
        rng : int or numpy.random.Generator, optional
            Seed or generator.

        Returns
        -------
        L1Ball
            Radii [B], with the posterior mean as the centre.

        Examples
        --------
        >>> from prudent import L1Ball
        >>> ball = L1Ball.credible([[30.0, 10.0], [3.0, 1.0]], 0.9, rng=0)
        >>> ball.radius.round(1)
        array([0.3, 0.8])
        """
        given = posterior if isinstance(posterior, DirichletPosterior) else DirichletPosterior(posterior)
        ball = cls(0.0, weights)
        if ball.weights is not None:
            require_shape(ball.weights, "weights", given.counts.shape, "[B, K]", error=ParameterError)
        count = whole_number(draws, "draws", memory=32.0 * given.counts.shape[1])
        radii = ball_radii(given, coverage, flag(joint, "joint"), ball.weights, count, rng)
        return cls(radii, weights, given.copy())

    def __repr__(self) -> str:
        radius = float(np.max(self.radius, initial=0.0))
        up_to = "" if isinstance(self.radius, float) else "up to "
        return f"L1Ball({up_to}{radius:.6g}{'' if self.weights is None else ', weighted'})"

    def sets(self, model: UncertainMDP, centre: FloatArray, possible: BoolArray) -> Sets:
        """Return the sets of a model by slots.

        Parameters
        ----------
        model : UncertainMDP
            The model.
        centre : ndarray of shape (F,)
            Probabilities by slots.
        possible : ndarray of bool of shape (F,)
            Outcomes that are possible at all.

        Returns
        -------
        Sets
            The balls.

        Raises
        ------
        ParameterError
            If the shape of radii or weights does not fit the model.
        """
        entries, n_sources = model.entries, model.n_sources
        source = np.repeat(np.arange(n_sources), np.diff(entries.begin))
        radius = np.zeros(n_sources)
        last = n_sources - int(model.terminal.any())  # the source of terminal states is certain
        if isinstance(self.radius, float):
            radius[:last] = self.radius
        elif self.radius.ndim == 1:
            if self.radius.size != n_sources:  # the source of terminal states may be left out
                require_shape(self.radius, "radius", (last,), "[B]", error=ParameterError)
            radius[:last] = self.radius[:last]
        else:
            require_shape(self.radius, "radius", model.source.shape, "[S, A]", error=ParameterError)
            used = model.source >= 0
            radius[model.source[used]] = self.radius[used]
            refuse(
                used & (radius[np.maximum(model.source, 0)] != self.radius) & ~model.terminal[:, np.newaxis],
                self.radius,
                "radius",
                "the same for all pairs that share a source",
                error=ParameterError,
                code="unequal-outcomes",
            )
            radius[last:] = 0.0
        weight = np.ones(entries.outcome.size)
        if self.weights is not None and self.weights.ndim == 1:
            require_shape(self.weights, "weights", (model.n_states,), "[S]", error=ParameterError)
            slots, target = entries.slots(), entries.next_state
            weight[slots] = np.where(target >= 0, self.weights[np.maximum(target, 0)], 1.0)
        elif self.weights is not None:
            given = model.with_end(self.weights)
            require_shape(given, "weights", (n_sources, model.n_outcomes), "[B, K]", error=ParameterError)
            weight = np.ascontiguousarray(given[source, entries.outcome])
        return Sets(centre, np.where(possible, weight, 0.0), radius, 1.0)


class RobustMDP(PlanningProblem):
    """A model whose probabilities are only known to lie in sets, valued by the worst (or the best) of these.

    Each pair has its own set, from which nature chooses anew at every step. The optimal value obeys
    V(s) = max_a min_q sum_k q_k (r(s, a, k) + gamma V(next(s, a, k))).

    Parameters
    ----------
    model : MDP or UncertainMDP
        The model. In a known model only the next states that have a probability are possible; an uncertain one says
        which outcomes there are.
    sets : L1Ball
        The sets. Around an uncertain model they need a centre.
    optimistic : bool, default=False
        Whether the best of each set counts instead of the worst.

    Attributes
    ----------
    model : UncertainMDP
        The model; each pair of a known one has its own source.
    sets : Sets
        The sets by slots of ``model.entries``.
    optimistic : bool
        Whether the best counts.

    Raises
    ------
    ModelError
        If ``model`` is no model.
    ParameterError
        If the sets do not fit.

    See Also
    --------
    IntervalMDP : Bounds on every probability.
    prudent.BayesianRiskMDP : A posterior, valued by its risk.

    Examples
    --------
    Action 0 stays at work for little, action 1 for more but ends it sooner. The wider the sets, the better is action 1:

    >>> from prudent import MDP, L1Ball
    >>> from prudent.planning import RobustMDP
    >>> mdp = MDP([[[0.9, 0.1], [0.5, 0.5]], [[0.0, 1.0]] * 2], reward=[[1.0, 2.0], [0.0, 0.0]], discount=0.9)
    >>> [RobustMDP(mdp, L1Ball(radius)).solve().policy[0].item() for radius in (0.0, 0.1, 1.0)]
    [0, 0, 1]
    """

    model: UncertainMDP
    sets: Sets
    optimistic: bool
    _called: str

    def __init__(self, model: MDP | UncertainMDP, sets: L1Ball, *, optimistic: bool = False) -> None:
        ball = instance_of(sets, "sets", L1Ball)
        if isinstance(model, MDP):
            model.require_unit_durations("robust models")
            if ball.centre is not None:
                message = "sets must have no centre around a known model, which is its own centre"
                raise ParameterError(message, code="conflicting-arguments", argument="sets")
            uncertain, centre = _of_known(model)
            possible = np.ones(centre.size, dtype=np.bool_)
        else:
            uncertain = instance_of(model, "model", UncertainMDP, error=ModelError)
            centre, possible = _centre(uncertain, ball.centre)
        self._take(uncertain, ball.sets(uncertain, centre, possible), centre, optimistic, repr(ball))

    def _take(self, model: UncertainMDP, sets: Sets, centre: FloatArray, optimistic: bool, called: str) -> None:
        """Keep the parts of the problem; ``centre`` [F] are probabilities in the sets."""
        self.model, self.sets, self._centre = model, sets, centre
        self.optimistic, self._called = flag(optimistic, "optimistic"), called
        if self.optimistic:
            self.sets = sets._replace(sign=-1.0)

    @property
    def risk_name(self) -> str:  # type: ignore[override]
        """What counts, in words."""
        return f"{'best' if self.optimistic else 'worst'} case of {self._called}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.risk_name}, {self.model!r})"

    def solve(
        self, draws: npt.ArrayLike | None = None, rng: RngLike = None, **keywords: Unpack[ControlKeywords]
    ) -> Solution:
        """Compute the optimal robust values and policy.

        Parameters
        ----------
        draws : None, optional
            Not allowed: sets have no draws.
        rng : None, optional
            Not allowed.
        **keywords : dict
            As for ``prudent.solve``.

        Returns
        -------
        Solution
            As ``prudent.solve`` returns it.
        """
        return solve(self, draws=draws, rng=rng, **keywords)

    def evaluate(
        self,
        policy: PolicyLike,
        draws: npt.ArrayLike | None = None,
        rng: RngLike = None,
        **keywords: Unpack[SolveKeywords],
    ) -> Solution:
        """Compute the robust values of a policy.

        Parameters
        ----------
        policy : array_like, mapping, DataFrame or Solution
            As for ``prudent.evaluate``.
        draws : None, optional
            Not allowed: sets have no draws.
        rng : None, optional
            Not allowed.
        **keywords : dict
            As for ``prudent.evaluate``.

        Returns
        -------
        Solution
            As ``prudent.evaluate`` returns it.
        """
        return evaluate(self, policy, draws=draws, rng=rng, **keywords)

    def optimist(self) -> Self:
        """Return the problem in which the best of each set counts.

        Returns
        -------
        RobustMDP
            A copy.
        """
        twin = copy.copy(self)
        twin.optimistic, twin.sets = True, self.sets._replace(sign=-1.0)
        return twin

    def covers(self, theta: ArrayLike) -> BoolArray:
        """Return which of some probabilities lie in all sets, within rounding.

        Parameters
        ----------
        theta : array_like of shape (..., B, K)
            Outcome probabilities, such as draws of a posterior.

        Returns
        -------
        ndarray of bool
            For each of them.

        Examples
        --------
        >>> from prudent import IntervalMDP
        >>> problem = IntervalMDP([[[0.2, 0.2]], [[0.0, 1.0]]], [[[0.8, 0.8]], [[0.0, 1.0]]], [[1.0], [0.0]], 0.9)
        >>> problem.covers([[[0.5, 0.5], [1.0, 0.0]], [[0.9, 0.1], [1.0, 0.0]]])
        array([ True, False])
        """
        given = self.model.with_end(non_negative_array(theta, "theta", error=ParameterError))
        expected = (self.model.n_sources, self.model.n_outcomes)
        if given.ndim < 2 or given.shape[-2:] != expected:
            require_shape(given, "theta", (*given.shape[:-2], *expected), "[..., B, K]", error=ParameterError)
        chances, of, slack = self.model.entries.pack(given), self.sets, 1e-12
        if not of.radius.size:
            return np.asarray(((chances >= of.low - slack) & (chances <= of.high + slack)).all(axis=-1))
        begin = self.model.entries.begin[:-1]
        far = np.add.reduceat(of.high * abs(chances - of.low), begin, axis=-1)
        return np.asarray((far <= of.radius + slack).all(axis=-1))

    # -- what solvers ask for ------------------------------------------------------------------------------

    def operator(  # noqa: D102
        self, draws: npt.ArrayLike | None = None, rng: RngLike = None, threads: int | None = None
    ) -> Threads:
        for name, value in (("draws", draws), ("rng", rng)):
            if value is not None:
                message = f"{name} is only for a BayesianRiskMDP; sets of probabilities have no posterior to draw from"
                raise ParameterError(message, code="conflicting-arguments", argument=name)
        workers = default_threads() if threads is None else whole_number(threads, "threads")
        return Threads(SetRows(self.model, self.sets), workers)

    def first_guess(self, operator: Executor) -> Executor:  # noqa: D102
        return Threads(MeanRows.of_outcomes(self.model, self._theta()))

    def undiscounted(  # noqa: D102
        self, policy: PolicyLike | None, draws: npt.ArrayLike | None, rng: RngLike, threads: int | None
    ) -> Ended:
        self.operator(draws, rng, threads)  # which refuses draws

        def operator_of(model: UncertainMDP, times: bool) -> Executor:
            # times are those of the set that delays the end, for the optimist too
            sets = self.sets._replace(sign=1.0) if times else self.sets
            return Threads(SetRows(model, sets), default_threads() if threads is None else threads)

        possible = self.sets.high > 0.0
        share = np.where(possible, 1.0, 0.0)
        return ended_uncertain(self.model, self._spread(share), policy, operator_of)

    def mean_mdp(self) -> MDP:
        """Return the known model at the centre of the sets.

        Returns
        -------
        MDP
            The model. The centre of intervals shares out what the lower bounds leave, by the widths.
        """
        return self.model.mdp(self._theta())

    def explain_state(self, value: FloatArray, state: int, chosen: int, q: FloatArray | None = None) -> Explanation:  # noqa: D102
        rows = SetRows(self.model, self.sets)
        pairs = state * self.model.n_actions + np.flatnonzero(self.model.admissible[state])
        chances, _, starts = rows.chosen(value, pairs)
        return explain_sets(self.model, self._theta(), chances, starts, value, state, chosen, self.risk_name)

    def _theta(self) -> FloatArray:
        return self._spread(self._centre)

    def _spread(self, values: FloatArray) -> FloatArray:
        """Return numbers by slots as an array [B, K]."""
        entries = self.model.entries
        dense = np.zeros((self.model.n_sources, self.model.n_outcomes))
        dense[np.repeat(np.arange(self.model.n_sources), np.diff(entries.begin)), entries.outcome] = values
        return dense


def _of_known(mdp: MDP) -> tuple[UncertainMDP, FloatArray]:
    """Return a known model with a source for each pair, and the probabilities by slots."""
    model = UncertainMDP.from_mdp(mdp)
    pairs, _, _, chances = mdp.likely_steps()
    chances = chances[~mdp.terminal[pairs // mdp.n_actions]]
    return model, np.append(chances, 1.0) if mdp.terminal.any() else chances


def _centre(model: UncertainMDP, centre: Any) -> tuple[FloatArray, BoolArray]:
    """Return the probabilities by slots that a posterior or an array stands for, and which outcomes are possible."""
    if centre is None:
        message = "sets must have a centre around an UncertainMDP: L1Ball(radius, centre=posterior)"
        raise ParameterError(message, code="missing-argument", argument="centre")
    counted = isinstance(centre, DirichletPosterior)
    given = model.with_end(non_negative_array(centre.mean() if counted else centre, "centre", error=PosteriorError))
    shape = (model.n_sources, model.n_outcomes)
    require_shape(given, "centre", shape, "[B, K]", error=PosteriorError)
    stray = (given > 0.0) & ~model.outcome_mask
    absent = "0, as this source has no such outcome"
    refuse(stray, given, "centre", absent, error=PosteriorError, code="unknown-outcome")
    off = abs(given.sum(axis=1) - 1.0) > SUM_SLACK
    if off.any():
        b = int(np.argmax(off))
        message = f"centre of source {b} sums to {given[b].sum():.12g}, expected 1"
        raise PosteriorError(message, code="sum-not-one", source=b, value=float(given[b].sum()))
    chances = np.ascontiguousarray(model.entries.pack(given))
    return chances, chances > 0.0 if counted else np.ones(chances.size, dtype=np.bool_)
