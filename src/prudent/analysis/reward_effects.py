"""What more observations teach of mean rewards that are not known for certain, and what their risk costs."""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np

from ..models.uncertain import UncertainMDP
from ..planning.execute.threads import Threads
from ..planning.noisy_rows import NoisyRows
from ..planning.problem import BayesianRiskMDP
from ..planning.row_risks import DirichletRows
from ..posteriors.scalar import NormalPosterior
from ..types import FloatArray, IntArray


class Learned(NamedTuple):
    """What data sets [R] on a source teach."""

    counts: FloatArray  # [R, K] of the source
    reward: FloatArray  # [R] by how much the mean reward of its pair moves
    relief: float  # by how much the risk of that mean reward shrinks

    def some(self, rows: IntArray) -> Learned:
        """Return some of the data sets."""
        return Learned(self.counts[rows], self.reward[rows], self.relief)


class RewardEffects(NamedTuple):
    """Rewards as they count at a risk level and on average, and the effect of data on one pair on them."""

    risk_model: UncertainMDP
    mean_model: UncertainMDP
    sd: FloatArray  # [S*A] of the move of the mean reward of each pair
    relief: FloatArray  # [S*A] by how much the risk of the mean reward shrinks


def reward_effects(problem: BayesianRiskMDP, value: FloatArray, m: int, threads: int) -> RewardEffects:
    """Return what m more observations of a pair teach of its mean reward, at the present values [S].

    The cost of not knowing it, the difference of Q with and without noise, is taken as it is at these values: it is
    part of the rewards of ``risk_model``, whose values are therefore the same. As values move it would change a little,
    with the spread of what outcomes are worth; that is neglected. A source that several pairs share says nothing of the
    reward of one of them.
    """
    model, alpha, noise = problem.with_mean_rewards(), float(problem.alpha or 0.0), problem.reward_posterior
    size = model.admissible.size
    if not isinstance(noise, NormalPosterior):
        return RewardEffects(model, model, np.zeros(size), np.zeros(size))
    source = model.entries.source
    own = (source >= 0) & (np.bincount(source[source >= 0], minlength=model.n_sources)[source] == 1)
    after = noise.copy()
    after.pulls += m * own.reshape(after.pulls.shape)
    before, then = (problem.quieted(belief.variance()) for belief in (noise, after))
    sd = np.sqrt(np.maximum(before - then, 0.0)).reshape(-1)
    if alpha == 0.0:
        return RewardEffects(model, model, sd, np.zeros(size))
    assert problem.posterior is not None
    form, every, counts = problem.risk.exact_form(), np.flatnonzero(model.admissible), problem.posterior.counts
    known, now, later = np.zeros((3, size))
    Threads(DirichletRows(model, counts, alpha, screens=False), threads).backup(value, every, known)
    for variance, q in ((before, now), (then, later)):
        Threads(NoisyRows(model, counts, np.sqrt(variance), form), threads).backup(value, every, q)
    return RewardEffects(with_rewards(model, every, (now - known)[every]), model, sd, later - now)


def with_rewards(model: UncertainMDP, pairs: IntArray, more: FloatArray) -> UncertainMDP:
    """Return the model in which ``pairs`` earn so much more."""
    if not more.any():
        return model
    extra = np.zeros(model.admissible.size)
    extra[pairs] = more
    twin, entries = copy.copy(model), model.entries
    twin.entries = entries._replace(reward=entries.reward + extra[entries.pairs()])
    return twin
