"""The return of the target in the Bayesian model of a log: its posterior distribution.

The model and its posterior are those of ``from_log``, and the returns those of ``posterior_returns``. Where the target
does what the log never did in a state, the model does what the log did there. The shares of the first states are drawn
by the Bayesian bootstrap.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...analysis.posterior_returns import posterior_returns
from ...errors import ModelError
from ...estimation.from_log import from_log
from ...types import FloatArray
from .log import UNKNOWN, EpisodeLog


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
    horizon = log.longest if log.horizon is None and not stationary else log.horizon
    plan = weights(0) if stationary else np.stack([weights(step) for step in range(log.longest)])
    plan[..., ~acting, 0] = 1.0
    found = posterior_returns(model, posterior, plan, begin, draws, rng, horizon=horizon, regret=False)
    returns = found["returns"].to_numpy()[:, 0]
    shares = rng.standard_exponential((draws, log.n))
    values = start[log.state[log.first]]
    return np.asarray(returns + shares @ (values - values.mean()) / shares.sum(axis=1))
