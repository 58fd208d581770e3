"""What is done today, compared with new policies: where they differ, and how much that matters.

Let b be the baseline, pi a new policy, and d the discounted numbers of visits of pi to the states, in the model at the
posterior mean. Then

    R(pi) - R(b) = sum over s of d(s) * ( sum_a pi(a | s) Q_b(s, a) - V_b(s) )

(the performance difference lemma): each state contributes what pi gains there in one step, if today's policy follows,
times how often pi is there. The contributions of all states add up to the difference exactly, so they order the states
by how much they matter. With a horizon the sum is over times as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.columns import as_column
from ..display.words import mixture
from ..models.mdp import MDP
from ..models.uncertain import UncertainMDP
from ..planning.drawn_policies import Belief
from ..planning.ends import find_over
from ..planning.known_problem import KnownProblem
from ..planning.model_draws import Layout, visits
from ..planning.solve import evaluate
from ..types import FloatArray, Label

if TYPE_CHECKING:
    import pandas
    import xarray

SAME = 1e-9  # probabilities that are closer than this are the same


@dataclass(frozen=True, eq=False, repr=False)
class Today:
    """What is done today, next to the policies of several risk levels.

    Attributes
    ----------
    policy : ndarray [S, A]
        Probabilities of actions of the baseline.
    returns : xarray.Dataset
        Result of ``posterior_returns`` with the levels and, as the last policy, ``"today"``, on the same draws.
    contributions : ndarray [L, S]
        What each state contributes to the difference between the mean return of a level and that of today, in the model
        at the posterior mean; see the module.
    differences : ndarray [L]
        That difference: the sum of the contributions.
    """

    policy: FloatArray
    returns: xarray.Dataset
    contributions: FloatArray
    differences: FloatArray

    def row(self, name: str) -> float:
        """Return a number of today's policy.

        Parameters
        ----------
        name : str
            A variable of ``returns``.

        Returns
        -------
        float
            Its value for today.
        """
        return float(self.returns[name].values[-1])

    def changes(
        self, level: int, policy: FloatArray, states: tuple[Label, ...], actions: tuple[Label, ...], shares: FloatArray
    ) -> pandas.DataFrame:
        """Return the states where a policy differs from today's, those that matter most first.

        Parameters
        ----------
        level : int
            Index of the risk level.
        policy : ndarray [S, A]
            Its probabilities of actions.
        states, actions : tuple
            Names.
        shares : ndarray [S]
            Share of time that it spends in each state.

        Returns
        -------
        DataFrame
            Columns state, action (the likeliest of the new policy), probability, today (the action of today, or the
            shares of several: "wait 60%, drug 40%"), today_share (how often today's policy takes the new action),
            time_share and contribution.
        """
        import pandas

        differs = np.flatnonzero(abs(policy - self.policy).max(axis=1) > SAME)
        gain = self.contributions[level]
        order = differs[np.lexsort((differs, -shares[differs], -abs(gain[differs])))]
        new = policy[order].argmax(axis=1)
        rows: dict[str, Any] = {
            "state": as_column([states[s] for s in order]),
            "action": as_column([actions[a] for a in new]),
            "probability": policy[order, new],
            "today": as_column([mixture(actions, chances) for chances in self.policy[order].tolist()]),
            "today_share": self.policy[order, new],
            "time_share": shares[order],
            "contribution": gain[order],
        }
        return pandas.DataFrame(rows)


def mean_policy(visits: FloatArray, policy: FloatArray) -> FloatArray:
    """Return what a policy [T, S, A] does in each state [S, A], averaged over its visits [T, S]; else at time 0."""
    share = visits / np.maximum(visits.sum(axis=0), 1e-300)
    mean = np.einsum("ts,tsa->sa", share, policy)
    return np.where(mean.sum(axis=1, keepdims=True) > 0.5, mean, policy[0])


def contributions(
    mean: MDP, policy: FloatArray, today: FloatArray, visits: FloatArray, final: FloatArray | None = None
) -> FloatArray:
    """Return what each state contributes to the difference of the returns of two policies [S, A], see the module.

    ``visits`` [S] are those of ``policy``. With a horizon ``policy`` is [T, S, A], ``visits`` [T, S], and ``final`` [S]
    is what states are worth after it.
    """
    problem = KnownProblem(mean)
    if policy.ndim == 2:
        base = evaluate(mean, today).value
        gains = visits * _ahead(problem, policy, base, base)
    else:
        values = evaluate(mean, today, horizon=policy.shape[0], terminal_value=final).value
        steps = zip(policy, visits, values[:-1], values[1:], strict=True)
        gains = sum(visited * _ahead(problem, step, now, then) for step, visited, now, then in steps)
    return np.asarray(np.where(mean.terminal, 0.0, gains))


def _ahead(problem: KnownProblem, policy: FloatArray, now: FloatArray, then: FloatArray) -> FloatArray:
    """Return what one step of ``policy`` [S, A] gains over values ``now`` [S], if values ``then`` [S] follow."""
    q = problem.q_values(then)
    return np.asarray((np.where(policy > 0.0, q, 0.0) * policy).sum(axis=1) - now)


def mean_visits(model: UncertainMDP, belief: Belief, policy: FloatArray, start: FloatArray, known: MDP) -> FloatArray:
    """Return the discounted numbers of visits [S] of a policy [S, A], or [T, S] of one [T, S, A], in the mean model."""
    if policy.ndim == 3:
        spent = np.empty(policy.shape[:2])
        at = start
        for time, weights in enumerate(policy):
            spent[time] = at
            at = model.discount * ((at[:, np.newaxis] * weights).reshape(-1) @ known.transition)
        return spent
    possible = belief.mean > 0.0
    layout = Layout.of(model, possible)
    if model.discount == 1.0:  # visits end where nothing is earned any more
        over = find_over(model, known.outcomes(), policy)[layout.pair // layout.n_actions]
        layout = layout._replace(target=np.where(over, -1, layout.target))
    visited, states = np.zeros(model.n_states), layout.reached(start, policy)
    visited[states] = visits(layout.chain(states, policy), start[states], belief.mean[possible], model.discount)
    return visited
