"""Why this action: what the data says about each action of a state, one step ahead.

For the action a of state s let b be its source and y_k = r(s, a, k) + gamma V(next(s, a, k)) the worth of outcome k
at the values V of the solution. The worth of the action, Z = sum_k theta[b, k] y_k, is as unknown as theta[b] is; its
posterior is what the solver compares. With theta[b] ~ Dirichlet(psi), total n, means p_k = psi_k / n:

    mean          mu = sum_k p_k y_k
    variance      sum_k p_k (y_k - mu)^2 / (n + 1)
    quantiles     and CVaR_alpha with its tail means t_k = E[theta_k | tail], without sampling (:mod:`prudent.exact`)
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

import math
import warnings
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._support.checks import FloatArray
from ..errors import ConvergenceWarning, ParameterError
from ..exact import cvar_dirichlet, dirichlet_tail
from ..models.mdp import MDP
from ..posteriors.dirichlet import DirichletPosterior

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    from .problem import BayesianRiskMDP
    from .solution import Solution

__all__ = [
    "ActionView",
    "Explanation",
    "OutcomeView",
    "dirichlet_quantiles",
    "explain",
    "in_words",
    "outcome_in_words",
    "worth_of_outcomes",
]

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)  # of the quantiles in the table
PLAUSIBLE = 0.01  # the least mean probability of an outcome that "could well happen"
MOST = 2**30  # observations; beyond a billion the choice does not change for practical purposes
DRAWS = 100_000  # of the posterior, where there is no exact answer
MOST_NUMBERS = 10_000_000  # in these draws
SAME = 1e-10  # values closer than this, relative to their size, are equal


class OutcomeView(NamedTuple):
    """One outcome of an action."""

    outcome: Any  # its name, or its number
    next_state: Any  # by name; None where the process ends
    value: float  # what it is worth: reward and discounted value of the next state
    probability: float  # on average over the posterior
    tail_probability: float  # on average over the bad cases that the risk measure looks at
    contribution: float  # to mean - risk value; these add up


@dataclass(frozen=True)
class ActionView:
    """What the posterior says about one action, one step ahead of the values of the solution."""

    action: Any
    chosen: bool
    value: float  # what the solution compares: the risk (CVaR) of the one-step value
    mean: float
    sd: float = 0.0
    quantiles: dict[float, float] = field(default_factory=dict)  # of the one-step value; none in a known model
    evidence: float | None = None  # observations of its source beyond the prior
    total_count: float | None = None  # the same with the prior
    outcomes: tuple[OutcomeView, ...] = ()  # largest contribution first
    overtakes_after: int | None = None  # observations of it, like those so far, after which it beats the chosen one


@dataclass(frozen=True, repr=False)
class Explanation:
    """Why a policy takes its action in one state; prints as words.

    Made by :meth:`Solution.explain`. ``actions`` holds the chosen action first, then its rivals, best first.

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
    probability: float  # with which the policy takes this action
    level: float | None  # of CVaR; None for known models and other risk measures
    risk: str  # what ``value`` of an action is
    actions: tuple[ActionView, ...]
    overtaken_after: int | None  # observations of the chosen action that all end in ``worst_outcome``
    worst_outcome: OutcomeView | None  # the worst plausible one of the chosen action
    draws: int | None  # posterior draws behind the numbers; None where they are exact

    @property
    def rival(self) -> ActionView | None:
        """The best other action, or None where there is no choice."""
        return self.actions[1] if len(self.actions) > 1 else None

    @property
    def overtakes_after(self) -> int | None:
        """The fewest observations of one rival, like those so far, after which it beats the chosen action."""
        return min((a.overtakes_after for a in self.actions[1:] if a.overtakes_after is not None), default=None)

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table with one row for each action, the chosen one first."""
        import pandas

        rows = []
        for view in self.actions:
            row = {
                "action": view.action,
                "chosen": view.chosen,
                "value": view.value,
                "gap": self.actions[0].value - view.value,
            }
            if self.risk != "value":
                row |= {"mean": view.mean, "sd": view.sd}
                row |= {f"q{round(100 * level):02d}": x for level, x in view.quantiles.items()}
                row |= {"evidence": view.evidence, "total_count": view.total_count}
                row["overtakes_after"] = view.overtakes_after
            rows.append(row)
        table = pandas.DataFrame(rows)
        if "overtakes_after" in table:
            table["overtakes_after"] = table["overtakes_after"].astype("Int64")
        return table

    def outcomes(self, action: Hashable | None = None) -> pandas.DataFrame:
        """Return a table of the outcomes of ``action``, by default the chosen one, what drives its tail first."""
        import pandas

        found = [view for view in self.actions if view.action == action or (action is None and view.chosen)]
        if not found:
            known = ", ".join(repr(view.action) for view in self.actions)
            raise ParameterError(f"action is {action!r}, expected one of {known}")
        return pandas.DataFrame(found[0].outcomes, columns=OutcomeView._fields)

    def plot(self) -> Figure:
        """Return a figure: the posterior of the worth of each action, and what drives the tail of the chosen one."""
        from .figures import explanation_figure

        return explanation_figure(self)

    def __repr__(self) -> str:
        return "\n".join(_words(self))


# -- making one --------------------------------------------------------------------------------------------


def explain(solution: Solution, state: Hashable) -> Explanation:
    """Return why ``solution`` does what it does in ``state``; see :meth:`Solution.explain`."""
    problem = solution._known_problem()
    model = solution._model
    s = model.state_index(state)
    if solution._terminal[s]:
        raise ParameterError(f"{model.state_labels.show(s)} is terminal: there is nothing to choose")
    chosen = int(solution.chosen[s])
    here = _Place(solution, s, chosen)
    if isinstance(problem, MDP):
        views, risk, worst, after, draws = here.known(), "value", None, None, None
    elif problem.draws is None and problem.is_exact and problem.alpha is not None:
        views, worst, after = here.exact(problem)
        risk, draws = "mean" if problem.alpha == 0.0 else f"CVaR at level {problem.alpha:g}", None
    else:
        views, draws = here.sampled(problem)
        risk, worst, after = repr(problem.risk), None, None
    order = sorted(range(len(views)), key=lambda i: (not views[i].chosen, -views[i].value))
    return Explanation(
        state=here.state_name(s),
        action=here.action_name(chosen),
        probability=1.0 if solution.policy.ndim == 1 else float(solution.policy[s, chosen]),
        level=None if isinstance(problem, MDP) else problem.alpha,
        risk=risk,
        actions=tuple(views[i] for i in order),
        overtaken_after=after,
        worst_outcome=worst,
        draws=draws,
    )


def worth_of_outcomes(model: Any, value: FloatArray, pairs: Any) -> FloatArray:
    """Return what each outcome of ``pairs`` (numbers s*A + a, any shape) is worth [..., K]; 0 where there is none."""
    targets = model.next_state.reshape(-1, model.n_outcomes)[pairs]
    later = np.where(targets >= 0, value[np.maximum(targets, 0)], 0.0)  # below zero: no such outcome, or the end
    return model.reward.reshape(-1, model.n_outcomes)[pairs] + model.discount * later


class _Place:
    """One state of a solution, and the actions that it admits."""

    def __init__(self, solution: Solution, state: int, chosen: int) -> None:
        self.solution, self.state, self.chosen = solution, state, chosen
        self.model = solution._model
        self.actions = np.flatnonzero(self.model.admissible[state])

    def state_name(self, s: int) -> Any:
        return s if self.model.states is None else self.model.states[s]

    def action_name(self, a: Any) -> Any:
        return int(a) if self.model.actions is None else self.model.actions[a]

    def known(self) -> list[ActionView]:
        """Return the actions of a known model, which are worth what they are worth."""
        worth = self.solution._whole_q()[self.state]
        return [
            ActionView(self.action_name(a), a == self.chosen, float(worth[a]), float(worth[a])) for a in self.actions
        ]

    def exact(self, problem: BayesianRiskMDP) -> tuple[list[ActionView], OutcomeView | None, int | None]:
        """Return the actions under a Dirichlet posterior, the worst plausible outcome, and when it would tell."""
        assert problem.posterior is not None
        alpha = float(problem.alpha or 0.0)
        worth, sources = self._worth(), self.model.source[self.state, self.actions]
        counts = problem.posterior.counts[sources]  # [A', K]
        tail = dirichlet_tail(worth, counts, alpha)
        total = counts.sum(axis=1)
        chances = counts / total[:, None]
        mean = np.einsum("ak,ak->a", chances, worth)
        sd = np.sqrt(np.einsum("ak,ak->a", chances, (worth - mean[:, None]) ** 2) / (total + 1.0))
        quantiles = dirichlet_quantiles(worth, counts, np.array(LEVELS))
        best = int(np.argmax(self.actions == self.chosen))
        slack = SAME * float(abs(worth).max())

        def when(i: int, moved: int, grown: Callable[[FloatArray, FloatArray], FloatArray]) -> int | None:
            """Return after how many observations of the source ``moved`` action i beats the chosen one."""

            def lead(m: FloatArray) -> FloatArray:
                one, two = (
                    cvar_dirichlet(worth[j], grown(counts[j], m) if sources[j] == moved else counts[j], alpha)
                    for j in (i, best)
                )
                return np.asarray(one - two - slack)

            return _first(lead)

        rivals = [i for i in range(sources.size) if i != best]
        # its CVaR rises with m, but never to its mean
        rising = [i for i in rivals if mean[i] > tail.cvar[best] or sources[i] == sources[best]]
        views = [
            ActionView(
                action=self.action_name(a),
                chosen=i == best,
                value=float(tail.cvar[i]),
                mean=float(mean[i]),
                sd=float(sd[i]),
                quantiles=dict(zip(LEVELS, quantiles[i].tolist(), strict=True)),
                **self._evidence(problem, sources[i]),
                outcomes=self._outcomes(i, worth[i], chances[i], tail.tail_means[i]),
                overtakes_after=when(i, sources[i], _like_so_far) if i in rising else None,
            )
            for i, a in enumerate(self.actions)
        ]
        if not rivals:
            return views, None, None
        plausible = chances[best] >= min(PLAUSIBLE, chances[best].max())
        k = int(np.argmin(np.where(plausible, worth[best], np.inf)))
        after = when(max(rivals, key=lambda i: tail.cvar[i]), sources[best], lambda psi, m: _all_in(k, psi, m))
        return views, self._outcome(best, k, worth[best], chances[best], tail.tail_means[best]), after

    def sampled(self, problem: BayesianRiskMDP) -> tuple[list[ActionView], int]:
        """Return the actions under posterior draws, and how many these are."""
        worth = self._worth()
        sources, place = np.unique(self.model.source[self.state, self.actions], return_inverse=True)
        if problem.draws is not None:
            theta = np.asarray(problem.draws, dtype=np.float64)[:, sources]
        else:
            assert problem.posterior is not None
            few = max(1_000, min(DRAWS, MOST_NUMBERS // (sources.size * worth.shape[1])))
            theta = DirichletPosterior(problem.posterior.counts[sources]).sample(few, np.random.default_rng(0))
        n = theta.shape[0]
        extra = np.zeros((n, self.actions.size))
        if problem.reward_posterior is not None:
            # a seed of our own: the same question has the same answer
            drawn = problem.quieted(problem.reward_posterior.sample(n, np.random.default_rng(1)))
            extra = drawn[:, self.state, self.actions]
        weights = problem.risk.lowest_weights(n)
        views = []
        for i, a in enumerate(self.actions):
            own = theta[:, place[i]]
            z = own @ worth[i] + extra[:, i]
            low = np.argsort(z, kind="stable")[: weights.size]
            views.append(
                ActionView(
                    action=self.action_name(a),
                    chosen=bool(a == self.chosen),
                    value=float(weights @ z[low]),
                    mean=float(z.mean()),
                    sd=float(z.std()),
                    quantiles=dict(zip(LEVELS, np.quantile(z, LEVELS).tolist(), strict=True)),
                    **({} if problem.draws is not None else self._evidence(problem, sources[place[i]])),
                    outcomes=self._outcomes(i, worth[i], own.mean(axis=0), weights @ own[low]),
                )
            )
        return views, n

    def _worth(self) -> FloatArray:
        """Return what each outcome of each action is worth [A', K]."""
        return worth_of_outcomes(self.model, self.solution.value, self.state * self.model.n_actions + self.actions)

    @staticmethod
    def _evidence(problem: BayesianRiskMDP, source: int) -> dict[str, Any]:
        if problem.posterior is None:
            return {}
        total = float(problem.posterior.counts[source].sum())
        return {"evidence": total - float(problem.posterior.prior[source].sum()), "total_count": total}

    def _outcomes(self, i: int, worth: FloatArray, chances: FloatArray, tail: FloatArray) -> tuple[OutcomeView, ...]:
        """Return the outcomes that can happen, what adds most to the price of caution first."""
        views = [self._outcome(i, int(k), worth, chances, tail) for k in np.flatnonzero(chances > 0.0)]
        return tuple(sorted(views, key=lambda view: (-view.contribution, -view.probability)))

    def _outcome(self, i: int, k: int, worth: FloatArray, chances: FloatArray, tail: FloatArray) -> OutcomeView:
        s, a = self.state, int(self.actions[i])
        target = int(self.model.next_state[s, a, k])
        names = self.model.outcomes
        return OutcomeView(
            outcome=k if names is None else names[int(self.model.source[s, a])][k],
            next_state=None if target < 0 else self.state_name(target),
            value=float(worth[k]),
            probability=float(chances[k]),
            tail_probability=float(tail[k]),
            contribution=float((tail[k] - chances[k]) * (chances @ worth - worth[k])),
        )


def dirichlet_quantiles(worth: FloatArray, counts: FloatArray, levels: FloatArray) -> FloatArray:
    """Return the quantiles [A', Q] of w.worth for w ~ Dirichlet(counts), [A', K] each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it speaks of CVaR
        return dirichlet_tail(worth[:, None], counts[:, None], 1.0 - levels).quantile


def _like_so_far(counts: FloatArray, m: FloatArray) -> FloatArray:
    """Return counts [M, K] after m more observations at the present frequencies."""
    return counts * (1.0 + m[:, None] / counts.sum())


def _all_in(k: int, counts: FloatArray, m: FloatArray) -> FloatArray:
    """Return counts [M, K] after m more observations of outcome k."""
    return counts + m[:, None] * (np.arange(counts.size) == k)


def _first(lead: Callable[[FloatArray], FloatArray]) -> int | None:
    """Return the least whole m with ``lead(m) > 0`` if the lead grows with m, or else the first that doubling meets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # at a billion counts some digits are gone
        tried = np.concatenate(([0.0], 2.0 ** np.arange(MOST.bit_length())))
        ahead = lead(tried) > 0.0
        if not ahead.any():
            return None
        i = int(np.argmax(ahead))
        low, high = (int(tried[i - 1]), int(tried[i])) if i else (-1, 0)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if lead(np.array([float(middle)]))[0] > 0.0 else (middle, high)
    return high


# -- words -------------------------------------------------------------------------------------------------


def _words(why: Explanation) -> list[str]:
    """Return the sentences of an explanation."""
    chosen, rival = why.actions[0], why.rival
    number = _format(why)
    share = "" if why.probability == 1.0 else f" with probability {why.probability:.3g}"
    lines = [f"In {in_words('state', why.state)} the policy takes {in_words('action', why.action)}{share}."]
    lines.append(f"It is worth {_worth_in_words(why, chosen, number)}.")
    if why.level:
        lines.append(
            f"The {'cautious' if why.level > 0.0 else 'optimistic'} value is CVaR at level {why.level:g}: the average "
            f"over the {'worst' if why.level > 0.0 else 'best'} {100.0 * (1.0 - abs(why.level)):.3g}% of what the data "
            "leaves possible."
        )
    elif why.risk not in ("value", "mean"):
        mood = "cautious" if chosen.value <= chosen.mean else "optimistic"
        lines.append(f"The {mood} value is {why.risk} of {why.draws:,} posterior draws.")
    lines += _tail_in_words(chosen)
    if rival is None:
        return [*lines, "No other action is admissible there."]
    other = in_words("action", rival.action)
    if rival.value > chosen.value:
        lines.append(f"At these values it is not the best: {other} is worth {_worth_in_words(why, rival, number)}.")
        return lines
    lines.append(f"Next best is {other}, worth {_worth_in_words(why, rival, number)}.")
    if rival.mean > chosen.mean:
        less = "less is known of it, and " if (rival.total_count or 0.0) < (chosen.total_count or 0.0) else ""
        lines.append(
            f"On average {other} would be better by {number(rival.mean - chosen.mean)}, "
            + (
                f"but {less}its bad cases are worse."
                if chosen.value <= chosen.mean
                else "but its good cases are worse."
            )
        )
    if why.risk != "value" and why.draws is None:
        lines += _changes_in_words(why)
    return lines


def _worth_in_words(why: Explanation, view: ActionView, number: Callable[[float], str]) -> str:
    if why.risk == "value":
        return number(view.value)
    average = f"{number(view.mean)} on average (standard deviation {number(view.sd)})"
    told = average
    if why.risk != "mean":
        told = f"{number(view.value)} with {'caution' if view.value <= view.mean else 'optimism'}, {average}"
    if view.total_count is None or view.evidence is None:
        return told
    if all(not other.evidence for other in why.actions):  # a posterior that does not tell data from prior
        return f"{told}; total count {view.total_count:.6g}"
    return f"{told}; {_observations(view.evidence)}"


def _tail_in_words(view: ActionView) -> list[str]:
    """Return which outcomes make the bad cases bad, or the good ones good."""
    price = view.mean - view.value
    outcomes = view.outcomes if price > 0.0 else view.outcomes[::-1]
    drivers = [o for o in outcomes if price != 0.0 and o.contribution / price >= 0.1][:3]
    if not drivers:
        return []
    told = ", ".join(
        f"{outcome_in_words(view, o)} is {'more' if o.tail_probability > o.probability else 'less'} likely "
        f"({o.tail_probability:.1%}, on average {o.probability:.1%})"
        for o in drivers
    )
    return [f"In its {'bad' if price > 0.0 else 'good'} cases {told}."]


def _changes_in_words(why: Explanation) -> list[str]:
    """Return what would change the choice."""
    lines = ["What would change the choice, if later states keep their values:"]
    soonest, chosen = why.overtakes_after, in_words("action", why.action)
    if soonest is not None:
        rival = next(a for a in why.actions[1:] if a.overtakes_after == soonest)
        count = _observations(soonest, "more ")
        lines.append(f"- {count} of {in_words('action', rival.action)}, if they are like those so far;")
    elif why.level:
        lines.append("- no number of further observations of another action, if they are like those so far;")
    else:
        lines.append("- no further observations that are like those so far: the averages stay;")
    if why.worst_outcome is not None:
        worst = f"{outcome_in_words(why.actions[0], why.worst_outcome)}, its worst plausible outcome"
        if why.overtaken_after is None:
            lines.append(f"- not even {chosen} ending from now on in {worst}.")
        else:
            count = _observations(why.overtaken_after, "more ")
            ends = "that ends" if why.overtaken_after == 1 else "that all end"
            lines.append(f"- {count} of {chosen} {ends} in {worst}.")
    return lines


def in_words(what: str, name: Any) -> str:
    """Return a name, or ``state 3`` where it is a number."""
    return f"{what} {name}" if isinstance(name, int) else repr(name)


def outcome_in_words(view: ActionView, outcome: OutcomeView) -> str:
    """Return the state that an outcome leads to, and the outcome itself where that does not tell it apart."""
    where = "the end" if outcome.next_state is None else in_words("state", outcome.next_state)
    alone = sum(other.next_state == outcome.next_state for other in view.outcomes) == 1
    says_it_all = isinstance(outcome.outcome, int) or outcome.outcome == outcome.next_state
    return where if alone and says_it_all else f"outcome {outcome.outcome!r} (to {where})"


def _observations(count: float, more: str = "") -> str:
    shown = f"{count:,.0f}" if count == round(count) else f"{count:,.4g}"
    return f"{shown} {more}observation{'s' * (count != 1)}"


def _format(why: Explanation) -> Callable[[float], str]:
    """Return how to write values: with the digits that tell the first two actions apart."""
    chosen = why.actions[0]
    sizes = [abs(chosen.value), chosen.sd, abs(chosen.mean - chosen.value)]
    if why.rival is not None:
        sizes.append(abs(chosen.value - why.rival.value))
    top = max(sizes)
    least = min((size for size in sizes if size > 1e-9 * top), default=1.0)
    decimals = max(1 - math.floor(math.log10(least)), 0)
    return lambda x: f"{x:,.{decimals}f}" if abs(x) < 1e9 and decimals <= 12 else f"{x:.6g}"
