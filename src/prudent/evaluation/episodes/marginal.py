r"""Marginalised importance sampling: weights of states at each step in place of weights of whole episodes.

With rho the ratio of the two probabilities of the action, the weight of state s at step t is

    w_0(s) = 1,    w_t+1(s') = mean of w_t(s_t) rho_t over the episodes that are in s' at step t + 1,

an estimate of the ratio of the chances of being in s' under the target and in the log (Xie, Ma and Wang 2019). The
estimate is sum_t gamma^t N_t / D_t, with N_t the mean of w_t(s_t) rho_t r_t and D_t the mean of w_t(s_t) rho_t over all
episodes, in which an episode that is over keeps its last weight. Where every state is visited once at a step it is
``wpdis``. It needs states that are Markov, and no probabilities that are the same at all steps.

The influence of an episode comes from the same recursion backwards, with rewards gamma^t (r_t - N_t / D_t) / D_t:

    U_t(s) = mean over the episodes in s at step t of rho_t (reward_t + U_t+1(s_t+1)),
    psi_i  = U_0(s_i0) + sum_t w_t(s_it) (rho_it (reward_it + U_t+1(s_it+1)) - U_t(s_it)).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...types import FloatArray
from .log import EpisodeLog
from .weights import LARGEST_LOG

LARGEST = float(np.exp(LARGEST_LOG))  # of a weight


class Marginal(NamedTuple):
    """The estimate.

    Attributes
    ----------
    value : float
        Estimate; NaN if the log never does what the target does at some step.
    influence : float64 [n]
        Influence of each episode.
    weight : float64 [M]
        Weight of each row.
    """

    value: float
    influence: FloatArray
    weight: FloatArray


def by_step(log: EpisodeLog, ratio: FloatArray, discount: float) -> Marginal:
    """Return the estimate with weights of states at each step."""
    assert log.state is not None
    assert log.by_state is not None
    S, H, n = log.by_state.size, log.longest, log.n
    order = np.argsort(log.place, kind="stable")
    cuts = np.searchsorted(log.place[order], np.arange(H + 1))
    last = log.place == log.lengths[log.episode] - 1
    before, weight = np.ones(log.row.size), np.zeros(log.row.size)
    kept = np.zeros(n)  # last weights of episodes that are over
    rate, below = np.zeros(H), np.zeros(H)
    for t in range(H):
        rows = order[cuts[t] : cuts[t + 1]]
        weight[rows] = np.minimum(before[rows] * ratio[rows], LARGEST)
        below[t] = (weight[rows].sum() + kept.sum()) / n
        if not below[t] > 0.0:
            return Marginal(np.nan, np.full(n, np.nan), weight)
        rate[t] = (weight[rows] @ log.reward[rows]) / n / below[t]
        kept[log.episode[rows[last[rows]]]] = weight[rows[last[rows]]]
        on = rows[~last[rows]]
        there = log.state[on + 1]
        total, count = np.bincount(there, weight[on], S), np.bincount(there, minlength=S)
        before[on + 1] = (total / np.maximum(count, 1))[there]
    factor = discount ** np.arange(H)
    value = float(factor @ rate)
    # the reward of the last row of an episode that is over has the terms of the steps after it
    loss = factor * rate / below
    after = np.append(np.cumsum(loss[::-1])[::-1], 0.0)
    earned = factor[log.place] * log.reward / below[log.place] - loss[log.place]
    earned = earned - np.where(last, after[log.place + 1], 0.0)
    ahead, influence = np.zeros(log.row.size), np.zeros(n)
    for t in range(H - 1, -1, -1):
        rows = order[cuts[t] : cuts[t + 1]]
        gain = ratio[rows] * (earned[rows] + ahead[rows])
        here = log.state[rows]
        mean = (np.bincount(here, gain, S) / np.maximum(np.bincount(here, minlength=S), 1))[here]
        influence[log.episode[rows]] += before[rows] * (gain - mean)
        if t:
            ahead[rows - 1] = mean
        else:
            influence[log.episode[rows]] += mean
    return Marginal(value, influence, weight)
