"""Explanations of the action in one state: what the data says about each action, one step ahead.

For the action a of state s let b be its source and y_k = r(s, a, k) + gamma V(next(s, a, k)) the worth of outcome k
at the values V of the solution. The worth of the action, Z = sum_k theta[b, k] y_k, is as unknown as theta[b] is; its
posterior is what the solver compares. With theta[b] ~ Dirichlet(psi), total n, means p_k = psi_k / n:

    mean          mu = sum_k p_k y_k
    variance      sum_k p_k (y_k - mu)^2 / (n + 1)
    quantiles     and CVaR_alpha with its tail means t_k = E[theta_k | tail], without sampling (``prudent.exact``)
    drivers       mu - CVaR = sum_k (t_k - p_k)(mu - y_k): what outcome k adds to the price of caution

**What would change the choice**, all at the V of the solution:

- m more observations of a rival at its present frequencies make its counts psi (1 + m/n): the same mean, less
  doubt. CVaR rises with m towards mu, so the smallest m at which the rival overtakes is found by doubling and
  bisection, and there is none if mu of the rival is no better than CVaR of the chosen action.
- m more observations of the chosen action that all end in its worst plausible outcome (the lowest y_k among outcomes
  of mean probability 1% or more) make its counts psi + m e_k. The smallest m at which the best rival overtakes is
  found in the same way.

Where both actions draw from one source, data moves both: then m is the first crossing seen at 1, 2, 4, 8, ...,
refined by bisection; and so it is where an outcome that is worse still is too unlikely to be plausible.

Without a Dirichlet posterior, or with another risk measure than CVaR, the same numbers come from posterior draws.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, SupportsFloat

import numpy as np

from ..display.explanation import ActionView, OutcomeView, sentences
from ..errors import ConvergenceWarning, ParameterError
from ..exact import cvar_dirichlet, dirichlet_tail
from ..models.mdp import MDP
from ..models.uncertain import UncertainMDP
from ..posteriors.dirichlet import DirichletPosterior
from ..risk import RiskMeasure
from ..types import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)  # probabilities of the quantiles in the table
PLAUSIBLE_PROBABILITY = 0.01  # least mean probability of a plausible outcome
MAX_OBSERVATIONS = 2**30  # beyond a billion observations the choice does not change for practical purposes
POSTERIOR_DRAWS = 100_000  # draws where there is no exact answer
MAX_DRAWN_NUMBERS = 10_000_000  # bound on draws times sources times outcomes
TIE_TOLERANCE = 1e-10  # relative difference below which values are equal
DENSITY_EDGES = np.concatenate(([0.001, 0.003], np.linspace(0.01, 0.99, 79), [0.997, 0.999]))  # probabilities


@dataclass(frozen=True, repr=False)
class Explanation:
    """Why a policy takes its action in one state; prints as words.

    Made by ``prudent.planning.Solution.explain``.

    Attributes
    ----------
    state, action : hashable
        The state, and the action that the policy takes there.
    probability : float
        Probability with which the policy takes this action.
    alpha : float or None
        Level of CVaR; None for known models and other risk measures.
    risk : str
        What ``value`` of an action is.
    actions : tuple of ActionView
        The chosen action first, then its rivals, best first.
    overtaken_after : int or None
        Observations of the chosen action that all end in ``worst_outcome``, after which it is no longer the best.
    worst_outcome : OutcomeView or None
        The worst plausible outcome of the chosen action.
    draws : int or None
        Posterior draws behind the numbers; None where they are exact.
    kept : dict or None
        Probabilities of the other actions that a policy takes which has to stay close to a baseline; None without one.

    Examples
    --------
    >>> from prudent import BayesianRiskMDP, DirichletPosterior, UncertainMDP
    >>> model = UncertainMDP.direct([[0.0, 0.0], [1.0, 1.0]], 0.9, states=["ill", "well"], actions=["old", "new"])
    >>> prior = [[1, 1], [1, 1], [1, 1], [1, 1]]
    >>> posterior = DirichletPosterior([[60, 40], [1, 2], [50, 50], [60, 40]], prior=prior)
    >>> why = BayesianRiskMDP(model, posterior, alpha=0.9).solve().explain("ill")
    >>> why.action, why.overtakes_after
    ('old', 3)
    >>> print(why)
    In 'ill' the policy takes 'old'.
    It is worth 3.116 with caution, 3.199 on average (standard deviation 0.048); 98 observations.
    The cautious value is CVaR at level 0.9: the average over the worst 10% of what the data leaves possible.
    In its bad cases 'well' is less likely (31.6%, on average 40.0%), 'ill' is more likely (68.4%, on average 60.0%).
    Next best is 'new', worth 3.012 with caution, 3.462 on average (standard deviation 0.232); 1 observation.
    On average 'new' would be better by 0.263, but less is known of it, and its bad cases are worse.
    What would change the choice, if later states keep their values:
    - 3 more observations of 'new', if they are like those so far;
    - 47 more observations of 'old' that all end in 'ill', its worst plausible outcome.
    """

    state: Any
    action: Any
    probability: float
    alpha: float | None
    risk: str
    actions: tuple[ActionView, ...]
    overtaken_after: int | None = None
    worst_outcome: OutcomeView | None = None
    draws: int | None = None
    kept: dict[Any, float] | None = None

    @property
    def rival(self) -> ActionView | None:
        """The best other action, or None where there is no choice."""
        return self.actions[1] if len(self.actions) > 1 else None

    @property
    def overtakes_after(self) -> int | None:
        """The fewest observations of one rival, like those so far, after which it beats the chosen action."""
        return min((a.overtakes_after for a in self.actions[1:] if a.overtakes_after is not None), default=None)

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table with one row for each action, the chosen one first.

        Returns
        -------
        pandas.DataFrame
            Columns ``action``, ``chosen``, ``value`` and ``gap``; under a posterior also ``mean``, ``sd``, quantiles
            ``q05`` to ``q95``, ``evidence``, ``total_count`` and ``overtakes_after``.
        """
        import pandas

        rows: list[dict[str, Any]] = []
        for view in self.actions:
            gap = self.actions[0].value - view.value
            rows.append({"action": view.action, "chosen": view.chosen, "value": view.value, "gap": gap})
            if self.risk != "value":
                quantiles = {f"q{round(100 * probability):02d}": x for probability, x in view.quantiles.items()}
                rows[-1] |= {"mean": view.mean, "sd": view.sd, **quantiles, "evidence": view.evidence}
                rows[-1] |= {"total_count": view.total_count, "overtakes_after": view.overtakes_after}
        table = pandas.DataFrame(rows)
        return table.astype({"overtakes_after": "Int64"}) if "overtakes_after" in table else table

    def outcomes(self, action: Hashable | None = None) -> pandas.DataFrame:
        """Return a table of the outcomes of one action, those that drive its tail first.

        Parameters
        ----------
        action : hashable, optional
            Name of the action. By default the chosen one.

        Returns
        -------
        pandas.DataFrame
            One row for each outcome, with the fields of ``OutcomeView``.

        Raises
        ------
        ParameterError
            If the state does not admit ``action``.
        """
        import pandas

        views = [view for view in self.actions if view.action == action or (action is None and view.chosen)]
        if not views:
            names = ", ".join(repr(view.action) for view in self.actions)
            message = f"action is {action!r}, expected one of {names}"
            raise ParameterError(message, code="unknown-action", argument="action", value=action)
        return pandas.DataFrame(views[0].outcomes, columns=OutcomeView._fields)

    def plot(self) -> Figure:
        """Draw the posterior of each action's one-step value, and what drives the tail of the chosen one.

        Returns
        -------
        matplotlib.figure.Figure
            One panel for the actions, one for the outcomes of the chosen action.
        """
        from ..display.figures import explanation

        densities = [_density(view) for view in self.actions[: explanation.SHOWN_ACTIONS]]
        return explanation.draw(self.state, self.risk, self.actions, densities).to_matplotlib()

    def __repr__(self) -> str:
        return "\n".join(sentences(**vars(self)))


# -- one state ---------------------------------------------------------------------------------------------


class _StateRows:
    """The admissible actions A' of one state, with where their outcomes lead and what these are worth."""

    def __init__(
        self, model: UncertainMDP, posterior: DirichletPosterior | None, value: FloatArray, state: int, chosen: int
    ) -> None:
        self.model, self.posterior = model, posterior
        self.actions = np.flatnonzero(model.admissible[state])
        self.best = int(np.argmax(self.actions == chosen))  # index of the chosen action among these
        pairs = state * model.n_actions + self.actions
        self.sources: IntArray = model.entries.source[pairs]
        self.targets = np.stack([model.leads(pair) for pair in pairs.tolist()])  # [A', K]
        of = model.entries
        reward = np.zeros(self.targets.shape)
        for row, pair, b in zip(reward, pairs, self.sources, strict=True):
            row[of.outcome[of.begin[b] : of.begin[b + 1]]] = of.reward[of.first[pair] : of.first[pair + 1]]
        later = np.where(self.targets >= 0, value[np.maximum(self.targets, 0)], 0.0)  # negative: none, or the end
        if model.survival is not None:
            for row, pair, b in zip(later, pairs, self.sources, strict=True):
                row[of.outcome[of.begin[b] : of.begin[b + 1]]] *= model.survival[of.first[pair] : of.first[pair + 1]]
        self.worth: FloatArray = reward + model.discount * later  # [A', K]

    def view(
        self, i: int, quantiles: FloatArray, chances: FloatArray, tail: FloatArray, **numbers: SupportsFloat
    ) -> ActionView:
        """Return what is known of an action; its possible outcomes with the largest contribution first."""
        outcomes = [self.outcome(i, int(k), chances, tail) for k in np.flatnonzero(chances > 0.0)]
        values: dict[str, Any] = {name: float(number) for name, number in numbers.items()}
        if self.posterior is not None:
            counts, prior = (rows[self.sources[i]].sum() for rows in (self.posterior.counts, self.posterior.prior))
            values |= {"evidence": float(counts) - float(prior), "total_count": float(counts)}
            values["ambiguous"] = float(self.posterior.ambiguous[self.sources[i]])
        return ActionView(
            action=self.model.actions[self.actions[i]],
            chosen=i == self.best,
            quantiles=dict(zip(QUANTILES, quantiles.tolist(), strict=True)),
            outcomes=tuple(sorted(outcomes, key=lambda outcome: (-outcome.contribution, -outcome.probability))),
            **values,
        )

    def outcome(self, i: int, k: int, chances: FloatArray, tail: FloatArray) -> OutcomeView:
        """Return outcome k of an action with mean probabilities ``chances`` [K] and tail means ``tail`` [K]."""
        target, worth = int(self.targets[i, k]), self.worth[i]
        labels = self.model.naming.outcomes
        names = None if labels is None else labels[int(self.sources[i])].names
        return OutcomeView(
            outcome=k if names is None else names[k],
            next_state=None if target < 0 else self.model.states[target],
            value=float(worth[k]),
            probability=float(chances[k]),
            tail_probability=float(tail[k]),
            contribution=float((tail[k] - chances[k]) * (chances @ worth - worth[k])),
        )


def _explanation(model: MDP | UncertainMDP, state: int, views: list[ActionView], **fields: Any) -> Explanation:
    """Return an explanation with the chosen action first and its rivals by value."""
    ordered = sorted(views, key=lambda view: (not view.chosen, -view.value))
    return Explanation(model.states[state], ordered[0].action, 1.0, actions=tuple(ordered), **fields)


def explain_known(model: MDP, state: int, chosen: int, q: FloatArray) -> Explanation:
    """Return the explanation of a known model, from the values ``q`` [A] of the actions."""
    admitted = np.flatnonzero(model.admissible[state])
    views = [ActionView(model.actions[a], a == chosen, float(q[a]), float(q[a])) for a in admitted]
    return _explanation(model, state, views, alpha=None, risk="value")


def explain_sets(
    model: UncertainMDP,
    theta: FloatArray,
    chances: FloatArray,
    starts: IntArray,
    value: FloatArray,
    state: int,
    chosen: int,
    risk: str,
) -> Explanation:
    """Return the explanation of sets of probabilities with centre ``theta`` [B, K].

    ``chances`` are what nature chooses, those of the i-th admissible action from ``starts[i]`` on.
    """
    rows = _StateRows(model, None, value, state, chosen)
    entries, views = model.entries, []
    for i, b in enumerate(rows.sources.tolist()):
        own = np.zeros(model.n_outcomes)
        own[entries.outcome[entries.begin[b] : entries.begin[b + 1]]] = chances[starts[i] : starts[i + 1]]
        worth, centre = rows.worth[i], theta[b]
        shown = np.flatnonzero((centre > 0.0) | (own > 0.0))
        outcomes = [rows.outcome(i, int(k), centre, own) for k in shown]
        ordered = tuple(sorted(outcomes, key=lambda view: (-view.contribution, -view.probability)))
        name = model.actions[rows.actions[i]]
        view = ActionView(name, i == rows.best, float(own @ worth), float(centre @ worth), outcomes=ordered)
        views.append(view)
    return _explanation(model, state, views, alpha=None, risk=risk)


def explain_exact(
    model: UncertainMDP, posterior: DirichletPosterior, alpha: float, value: FloatArray, state: int, chosen: int
) -> Explanation:
    """Return the explanation under CVaR of a Dirichlet posterior, without draws."""
    rows = _StateRows(model, posterior, value, state, chosen)
    worth, sources, best = rows.worth, rows.sources, rows.best
    counts = posterior.counts[sources]  # [A', K]
    tail = dirichlet_tail(worth, counts, alpha)
    total = counts.sum(axis=1)
    chances = counts / total[:, None]
    mean = np.einsum("ak,ak->a", chances, worth)
    sd = np.sqrt(np.einsum("ak,ak->a", chances, (worth - mean[:, None]) ** 2) / (total + 1.0))
    quantiles = dirichlet_quantiles(worth, counts, np.array(QUANTILES))
    slack = TIE_TOLERANCE * float(abs(worth).max())

    def first_lead(i: int, source: int, grown: Callable[[FloatArray, FloatArray], FloatArray]) -> int | None:
        """Return the number of further observations of ``source`` after which action i beats the chosen one."""

        def lead(m: FloatArray) -> FloatArray:
            rival, own = (
                cvar_dirichlet(worth[j], grown(counts[j], m) if sources[j] == source else counts[j], alpha)
                for j in (i, best)
            )
            return np.asarray(rival - own - slack)

        return _first_lead(lead)

    rivals = [i for i in range(sources.size) if i != best]
    # the CVaR of a rival rises with m towards its mean, and never reaches it
    rising = [i for i in rivals if mean[i] > tail.cvar[best] or sources[i] == sources[best]]
    views = [
        rows.view(i, quantiles[i], chances[i], tail.tail_means[i], value=tail.cvar[i], mean=mean[i], sd=sd[i])
        for i in range(sources.size)
    ]
    for i in rising:  # m more observations at the present frequencies
        after = first_lead(i, sources[i], lambda psi, m: psi * (1.0 + m[:, None] / psi.sum()))
        views[i] = replace(views[i], overtakes_after=after)
    risk = "mean" if alpha == 0.0 else f"CVaR at level {alpha:g}"
    if not rivals:
        return _explanation(model, state, views, alpha=alpha, risk=risk)
    plausible = chances[best] >= min(PLAUSIBLE_PROBABILITY, chances[best].max())
    k = int(np.argmin(np.where(plausible, worth[best], np.inf)))
    rival = max(rivals, key=lambda i: tail.cvar[i])
    return _explanation(
        model,
        state,
        views,
        alpha=alpha,
        risk=risk,
        overtaken_after=first_lead(rival, sources[best], lambda psi, m: psi + m[:, None] * (np.arange(psi.size) == k)),
        worst_outcome=rows.outcome(best, k, chances[best], tail.tail_means[best]),
    )


def explain_sampled(
    model: UncertainMDP,
    risk: RiskMeasure,
    theta: FloatArray,
    rewards: FloatArray | None,
    posterior: DirichletPosterior | None,
    value: FloatArray,
    state: int,
    chosen: int,
    alpha: float | None,
    inner: Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]] | None = None,
) -> Explanation:
    """Return the explanation from posterior draws.

    ``theta`` are draws [N, B', K] of the sources of the state, ascending; ``rewards``, if there are any, draws
    [N, S, A] of unknown rewards; ``posterior`` is the posterior behind the draws, if it is known. ``inner(theta, y)``
    returns the risk over outcomes [N] and their weights in it [N, K], where that is not the mean.
    """
    rows = _StateRows(model, posterior, value, state, chosen)
    index = np.unique(rows.sources, return_inverse=True)[1]
    n = theta.shape[0]
    extra = np.zeros((n, rows.actions.size)) if rewards is None else rewards[:, state, rows.actions]
    views = []
    for i in range(rows.actions.size):
        own = theta[:, index[i]]
        inside, tail = (own @ rows.worth[i], own) if inner is None else inner(own, rows.worth[i])
        z = inside + extra[:, i]
        numbers = {"value": float(risk(z)), "mean": z.mean(), "sd": z.std()}
        views.append(rows.view(i, np.quantile(z, QUANTILES), own.mean(axis=0), risk.gradient(z) @ tail, **numbers))
    return _explanation(model, state, views, alpha=alpha, risk=repr(risk), draws=n)


def draws_of_sources(posterior: DirichletPosterior, sources: IntArray) -> FloatArray:
    """Return posterior draws [N, B', K] of some sources; the same call has the same answer."""
    counts = posterior.counts[sources]
    n = max(1_000, min(POSTERIOR_DRAWS, MAX_DRAWN_NUMBERS // counts.size))
    return DirichletPosterior(counts).sample(n, np.random.default_rng(0))


# -- what would change the choice --------------------------------------------------------------------------


def dirichlet_quantiles(worth: FloatArray, counts: FloatArray, probabilities: FloatArray) -> FloatArray:
    """Return the quantiles [A', Q] of w.worth for w ~ Dirichlet(counts), [A', K] each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is about CVaR
        return dirichlet_tail(worth[:, None], counts[:, None], 1.0 - probabilities).quantile


def _first_lead(lead: Callable[[FloatArray], FloatArray]) -> int | None:
    """Return the least whole m with ``lead(m) > 0`` if the lead grows with m, or else the first that doubling meets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # at a billion counts some digits are gone
        tried = np.concatenate(([0.0], 2.0 ** np.arange(MAX_OBSERVATIONS.bit_length())))
        ahead = lead(tried) > 0.0
        if not ahead.any():
            return None
        i = int(np.argmax(ahead))
        low, high = (int(tried[i - 1]), int(tried[i])) if i else (-1, 0)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if lead(np.array([float(middle)]))[0] > 0.0 else (middle, high)
    return high


def _density(view: ActionView) -> tuple[FloatArray, FloatArray]:
    """Return places and heights of the posterior density, from exact quantiles; empty where there is none."""
    empty = np.empty(0)
    if view.total_count is None or not view.sd > 0.0:
        return empty, empty
    worth = np.array([[outcome.value for outcome in view.outcomes]])
    counts = np.array([[outcome.probability * view.total_count for outcome in view.outcomes]])
    x = dirichlet_quantiles(worth, counts, DENSITY_EDGES)[0]
    wide = np.diff(x) > 1e-9 * np.ptp(x)
    if wide.sum() < 3:
        return empty, empty
    height = np.zeros(wide.size)
    np.divide(np.diff(DENSITY_EDGES), np.diff(x), out=height, where=wide)
    height = np.minimum(height, 6.0 / (x[-1] - x[0] + 1e-300))  # a spike would flatten everything else
    return 0.5 * (x[1:] + x[:-1]), height
