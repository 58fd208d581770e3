"""Bounds on what nodes of a plan that learns are worth, where the plan is too large to be exact.

Let V_t(s, psi) be the value of a node with n steps to go. For a node with counts psi, theta is drawn from Dir(psi):

- **Models revealed, above.** Who is told theta earns at least as much on average: at level 0, V <= E[V*_theta], the
  best value of n steps in the drawn model. A measure that is at most the mean is at most that, step by step.
- **Posterior fixed, below.** A policy of the n steps that does not look at what is observed earns E[V^pi_theta], which
  is at most the best: at level 0 V >= E[V^pi_theta], pi being best at the mean of the posterior. (Its value with a
  posterior that is drawn anew at every step is no bound: uses of one source are not independent.) A measure that is at
  least the mean, as at negative levels, is at least that.
- **The worst and the best that can happen**, for measures on the other side of the mean: a monotone measure lies
  between the least and the greatest possible outcome at every step, max_a min_k and max_a max_k.

The means over theta are those of draws. Their intervals are those of Student's law, at such a level that, by
Bonferroni's inequality, all of them hold at once with probability ``CONFIDENCE``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from .._numerics.compile import over_rows
from .._support.progress import Progress
from ..models.uncertain import UncertainMDP
from ..risk import CertaintyEquivalent, RiskMeasure
from ..types import FloatArray, IntArray
from .model_draws import Layout, Rows, plan_returns

CONFIDENCE = 0.999
UNITS = 1_000  # draws of a measure that are compared with its mean


class LeafBounds(NamedTuple):
    """Bounds on the values of nodes."""

    low: FloatArray  # [M]
    high: FloatArray  # [M]


class Leaves(NamedTuple):
    """Nodes with steps to go."""

    state: IntArray  # [M]
    counts: FloatArray  # [M, F] by slots


def sides(risk: RiskMeasure) -> tuple[bool, bool]:
    """Return whether a measure is at most, and whether it is at least, the mean."""
    if isinstance(risk, CertaintyEquivalent):
        return False, False
    rises = np.diff(risk.weights(UNITS))
    return bool((rises <= 1e-15).all()), bool((rises >= -1e-15).all())


def leaf_bounds(
    model: UncertainMDP,
    risk: RiskMeasure,
    leaves: Leaves,
    steps: int,
    final: FloatArray,
    draws: int,
    rng: np.random.Generator,
    threads: int,
) -> LeafBounds:
    """Return bounds on the values of nodes with ``steps`` to go, after which states are worth ``final`` [S]."""
    possible = leaves.counts.max(axis=0, initial=0.0) > 0.0
    layout = Layout.of(model, possible)
    every = np.arange(model.n_states)
    rows = layout.pairs(every, model.admissible.astype(np.float64))
    below_mean, above_mean = sides(risk)
    worst, best = (_extreme(rows, model, steps, final, sign) for sign in (-1.0, 1.0))
    low, high = worst[leaves.state], best[leaves.state]
    if not (below_mean or above_mean):
        return LeafBounds(low, high)
    begin = model.entries.begin
    source = np.repeat(np.arange(begin.size - 1), np.diff(begin))[possible]
    first = np.flatnonzero(np.diff(source, prepend=-1))
    group = np.searchsorted(source[first], source)
    seeds = rng.integers(2**63, size=leaves.state.size)
    width = float(scipy.special.stdtrit(draws - 1, 1.0 - 0.5 * (1.0 - CONFIDENCE) / max(leaves.state.size, 1)))
    progress = Progress("bounds of the plan")
    done = 0

    def work(start: int, end: int) -> None:
        nonlocal done
        for leaf in range(start, end):
            counts = leaves.counts[leaf][possible]
            theta = np.random.default_rng(seeds[leaf]).standard_gamma(counts, (draws, counts.size)) + 1e-300
            theta *= counts > 0.0
            theta /= np.add.reduceat(theta, first, axis=1)[:, group]
            at = np.zeros(model.n_states)
            at[leaves.state[leaf]] = 1.0
            found = np.empty(draws)

            def returned(plan: FloatArray) -> FloatArray:
                plan_returns(rows, at, model.discount, steps, plan, final, theta, np.empty((0, 0)), found)  # noqa: B023
                return found  # noqa: B023

            if below_mean:
                told = returned(np.empty((0, 0, 0)))
                above = float(told.mean() + width * told.std(ddof=1) / np.sqrt(draws))
                high[leaf] = min(high[leaf], above)
            if above_mean:
                mean = counts / np.add.reduceat(counts, first)[group]
                kept = returned(_mean_plan(rows, model, steps, final, mean))
                below = float(kept.mean() - width * kept.std(ddof=1) / np.sqrt(draws))
                low[leaf] = max(low[leaf], below)
            done += 1
            progress.show(f"{done:,} of {leaves.state.size:,} nodes")

    over_rows(work, leaves.state.size, threads)
    progress.close()
    return LeafBounds(low, high)


def _ahead(rows: Rows, value: FloatArray, discount: float) -> FloatArray:
    """Return what each entry brings: its reward and the discounted next value."""
    return np.asarray(rows.earning + discount * rows.weight * value[rows.indices])


def _extreme(rows: Rows, model: UncertainMDP, steps: int, final: FloatArray, sign: float) -> FloatArray:
    """Return the value [S] of the best actions if every outcome is the worst (sign -1) or the best (1) possible."""
    filled = np.flatnonzero(np.diff(rows.indptr) > 0)
    value = final
    for _ in range(steps):
        each = sign * _ahead(rows, value, model.discount)
        q = np.full(model.admissible.size, -np.inf)
        q[filled] = sign * np.maximum.reduceat(each, rows.indptr[filled])
        value = q.reshape(model.admissible.shape).max(axis=1)
    return value


def _mean_plan(rows: Rows, model: UncertainMDP, steps: int, final: FloatArray, mean: FloatArray) -> FloatArray:
    """Return the best plan [T, S, A] in the model at the mean of a posterior."""
    chance = mean[rows.place]
    filled = np.flatnonzero(np.diff(rows.indptr) > 0)
    plan = np.zeros((steps, *model.admissible.shape))
    value, states = final, np.arange(model.n_states)
    for time in range(steps - 1, -1, -1):
        q = np.full(model.admissible.size, -np.inf)
        q[filled] = np.add.reduceat(chance * _ahead(rows, value, model.discount), rows.indptr[filled])
        table = q.reshape(model.admissible.shape)
        choice = table.argmax(axis=1)
        plan[time, states, choice] = 1.0
        value = table[states, choice]
    return plan
