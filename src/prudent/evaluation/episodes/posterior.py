"""The return of the target in the Bayesian model of a log: its posterior distribution.

The model and its posterior are those of ``from_log``. Discounted returns without a horizon are those of
``posterior_returns``; with a horizon the values of every drawn model are computed backwards, and at discount 1 each
drawn model is a linear system. Where the target does what the log never did in a state, the model does what the log did
there. The shares of the first states are drawn by the Bayesian bootstrap.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from ..._numerics.dirichlet_draws import draw_slots
from ..._support.checks import generator
from ...analysis.posterior_returns import posterior_returns
from ...errors import ModelError
from ...estimation.from_log import from_log
from ...models.uncertain import UncertainMDP
from ...planning.model_draws import Layout
from ...posteriors.dirichlet import DirichletPosterior
from ...types import FloatArray, IntArray
from .log import UNKNOWN, EpisodeLog

SYSTEMS = 100  # draws where each takes a linear system of its own


def model_returns(
    log: EpisodeLog,
    by_state: Callable[[int], FloatArray],
    stationary: bool,
    discount: float,
    start: FloatArray,
    draws: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Return draws [N] of the return; ``start`` [S] are values of the first states, for the spread of their mean.

    Raises ``PrudentError`` if the log has no model of states.
    """
    assert log.state is not None
    assert log.target is not None
    assert log.by_state is not None
    S = log.by_state.size
    rows = np.flatnonzero(log.target != UNKNOWN)
    table = {
        "state": log.state[rows],
        "action": log.action[rows],
        "next_state": log.target[rows],
        "reward": log.reward[rows],
    }
    ends = [S] if (log.target[rows] == S).any() else []
    model, posterior = from_log(
        table, discount, terminal=ends, states=range(S + len(ends)), actions=range(log.by_action.size), truncated="drop"
    )
    states, actions = np.array(model.state_labels.names), np.array(model.action_labels.names)
    acting = states < S
    visits = np.zeros((S + 1, log.by_action.size))
    np.add.at(visits, (log.state, log.action), 1.0)

    def weights(step: int) -> FloatArray:
        """Return the target [S, A] in the order of the model, with what was never done as the log did."""
        chances = np.zeros((states.size, actions.size))
        chances[acting] = by_state(step)[states[acting]][:, actions]
        chances = np.where(model.admissible, chances, 0.0)
        usual = np.where(model.admissible, visits[np.ix_(states, actions)], 0.0)
        usual /= np.maximum(usual.sum(axis=1, keepdims=True), 1e-300)
        return np.asarray(chances + np.clip(1.0 - chances.sum(axis=1, keepdims=True), 0.0, 1.0) * usual)

    place = np.full(S, -1)
    place[states[acting]] = np.flatnonzero(acting)
    first = place[log.state[log.first]]
    if (first < 0).any():
        message = "a first state of an episode has no row whose next state is known"
        raise ModelError(message, code="unknown-state")
    begin = np.bincount(first, minlength=states.size) / log.n
    if log.horizon is None and discount < 1.0 and stationary:
        chances = weights(0)
        chances[~acting, 0] = 1.0
        found = posterior_returns(model, posterior, chances, begin, draws, rng, regret=False)
        returns = found["returns"].to_numpy()[:, 0]
    else:
        draws = draws if log.horizon is not None else min(draws, SYSTEMS)
        horizon = log.horizon if stationary or log.horizon is not None else log.longest
        returns = _backwards(model, posterior, weights, begin, horizon, stationary, discount, draws, rng)
    shares = rng.standard_exponential((draws, log.n))
    values = start[log.state[log.first]]
    return np.asarray(returns + shares @ (values - values.mean()) / shares.sum(axis=1))


def _backwards(
    model: UncertainMDP,
    posterior: DirichletPosterior,
    weights: Callable[[int], FloatArray],
    begin: FloatArray,
    horizon: int | None,
    stationary: bool,
    discount: float,
    draws: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Return the return of a policy in each drawn model, by steps."""
    packed = model.entries.pack(posterior.counts)
    possible = packed > 0.0
    layout = Layout.of(model, possible)
    sizes = np.bincount(np.repeat(np.arange(model.entries.begin.size - 1), np.diff(model.entries.begin))[possible])
    theta = np.empty((int(possible.sum()), draws))
    draw_slots(generator(rng), packed[possible], np.concatenate(([0], np.cumsum(sizes))), theta, np.empty(draws))
    chance = theta[layout.place]  # [E, N]
    S, A = layout.n_states, layout.n_actions
    extra = np.zeros((S * A, 1))
    if model.reward_posterior is not None:
        drawn = model.reward_posterior.sample(draws, rng)
        extra = np.where((model.terminal | model.absorbing)[:, np.newaxis], 0.0, drawn).reshape(draws, -1).T
    goes = np.where(layout.target >= 0, layout.target, S)
    links, which = np.unique(layout.pair // A * (S + 1) + goes, return_inverse=True)
    order = np.argsort(which, kind="stable")
    link_edges = np.flatnonzero(np.diff(which[order], prepend=-1))
    state_edges = np.flatnonzero(np.diff(links // (S + 1), prepend=-1))
    acting = links[state_edges] // (S + 1)

    def chain(step: int) -> tuple[FloatArray, FloatArray]:
        """Return the probabilities of moves between states [L, N], and what states earn [S', N]."""
        share = weights(step)
        moved = (share.reshape(-1)[layout.pair][:, np.newaxis] * chance)[order]
        earned = moved * layout.reward[order][:, np.newaxis]
        moved, earned = (np.add.reduceat(part, link_edges, axis=0) for part in (moved, earned))
        own = (share[..., np.newaxis] * extra.reshape(S, A, -1)).sum(axis=1)
        return moved, np.add.reduceat(earned, state_edges, axis=0) + own[acting]

    moved, earned = chain(0)
    if horizon is None:
        return _solved(links, S, moved, earned, acting, begin, discount)
    value = np.zeros((S + 1, draws))
    for left in range(horizon):
        if not stationary:
            moved, earned = chain(horizon - 1 - left)
        after = np.zeros_like(value)
        ahead = np.add.reduceat(moved * value[links % (S + 1)], state_edges, axis=0)
        after[acting] = earned + discount * ahead
        value = after
    return np.asarray(begin @ value[:S])


def _solved(
    links: IntArray,
    size: int,
    moved: FloatArray,
    earned: FloatArray,
    acting: IntArray,
    begin: FloatArray,
    discount: float,
) -> FloatArray:
    """Return the return of a process that ends, from a linear system for each draw."""
    row, column = np.divmod(links, size + 1)
    inside = column < size
    returns = np.empty(moved.shape[1])
    for j in range(returns.size):
        gain = np.zeros(size)
        gain[acting] = earned[:, j]
        chain = sparse.csc_array((moved[inside, j], (row[inside], column[inside])), shape=(size, size))
        try:
            value = splu(sparse.csc_array(sparse.eye_array(size) - discount * chain)).solve(gain)
        except RuntimeError as fault:
            message = "the process does not end in some drawn models"
            raise ModelError(message, code="never-ends") from fault
        returns[j] = begin @ value
    return returns
