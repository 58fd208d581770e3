"""The return of the target in the Bayesian model of a log: its posterior distribution.

The model and its posterior are those of ``from_log``. Discounted returns without a horizon are those of
``posterior_returns``; with a horizon, or at discount 1, the values of every drawn model are computed backwards. Where
the target does what the log never did in a state, the model does what the log did there. The share of the first states
is drawn by the Bayesian bootstrap.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._numerics.dirichlet_draws import draw_slots
from ..._support.checks import generator
from ...analysis.posterior_returns import posterior_returns
from ...errors import ModelError
from ...estimation.from_log import from_log
from ...models.uncertain import UncertainMDP
from ...planning.model_draws import Layout
from ...posteriors.dirichlet import DirichletPosterior
from ...types import FloatArray
from .log import UNKNOWN, EpisodeLog

SETTLED = 1e-10  # of what is left of a process at discount 1
LONGEST = 100_000  # steps of a process at discount 1


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
        returns = _backwards(model, posterior, weights, begin, log.horizon, stationary, discount, draws, rng)
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
    edges = np.flatnonzero(np.diff(layout.pair, prepend=-1))  # entries are sorted by pair
    pairs = layout.pair[edges]
    earned = np.add.reduceat(chance * layout.reward[:, np.newaxis], edges, axis=0) + extra[pairs]
    goes = np.where(layout.target >= 0, layout.target, S)
    value = np.zeros((S + 1, draws))
    onto = np.flatnonzero(np.diff(pairs // A, prepend=-1))
    limit = LONGEST if horizon is None else horizon
    for left in range(limit):
        step = 0 if stationary else max(limit - 1 - left, 0)
        share = weights(step).reshape(-1)[pairs][:, np.newaxis]
        q = earned + discount * np.add.reduceat(chance * value[goes], edges, axis=0)
        after = np.zeros_like(value)
        after[pairs[onto] // A] = np.add.reduceat(share * q, onto, axis=0)
        change = float(abs(after - value).max())
        value = after
        if horizon is None and change <= SETTLED * max(float(abs(value).max()), 1e-300):
            break
    else:
        if horizon is None:
            message = "the process does not end in some drawn models"
            raise ModelError(message, code="never-ends")
    return np.asarray(begin @ value[:S])
