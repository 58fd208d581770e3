"""Semi-Markov models, and the ordinary models in which long transitions wait state by state."""

import numpy as np

import prudent as pr
from prudent.models.builders import own_sources, places_in


def random_model(rng, S=5, A=2, K=4, discount=0.93, longest=4, ends=True):
    """Return a semi-Markov model and its posterior; the last state is terminal, or there is none."""
    acting = S - ends
    pair = np.repeat(np.arange(acting * A), K)
    target = rng.integers(S, size=pair.size)
    reward, duration = rng.normal(size=pair.size), rng.integers(1, longest + 1, size=pair.size).astype(float)
    if not ends:  # all states are connected
        target[::K] = (np.arange(S * A) // A + 1) % S
    admissible = np.ones((S, A), dtype=bool)
    admissible[acting:] = False
    model = pr.UncertainMDP.from_entries(
        own_sources(admissible),
        pair,
        places_in(pair),
        target,
        reward,
        discount,
        terminal={S - 1: 2.0} if ends else None,
        duration=duration,
    )
    counts = model.with_end(rng.gamma(1.0, 3.0, size=(acting * A, K)) + 0.2)
    return model, pr.DirichletPosterior(counts)


def waiting(model, posterior):
    """Return the ordinary model in which a transition of duration d waits d - 1 steps, state by state."""
    e, S, A = model.entries, model.n_states, model.n_actions
    acting = int((~model.terminal).sum())  # these are the first ones
    ahead = {}  # (state, steps to go) -> number of a state where one waits
    for target, length in zip(e.next_state, model.duration, strict=True):
        for left in range(1, int(length)):
            if target >= 0:
                ahead.setdefault((int(target), left), S + len(ahead))
    size, K = S + len(ahead), model.n_outcomes
    source = np.full((size, A), -1)
    source[:acting] = model.source[:acting]
    next_state, reward = np.full((size, A, K), -1), np.zeros((size, A, K))
    for p in range(acting * A):
        s, a = divmod(p, A)
        for k, j in enumerate(range(e.first[p], e.first[p + 1])):
            wait = int(model.duration[j]) - 1
            next_state[s, a, k] = ahead[int(e.next_state[j]), wait] if wait else e.next_state[j]
            reward[s, a, k] = e.reward[j]
    counts = [*posterior.counts[: acting * A]]
    for (target, left), state in ahead.items():
        source[state, 0] = len(counts)
        next_state[state, 0, 0] = ahead[target, left - 1] if left > 1 else target
        counts.append(np.eye(1, K)[0])
    terminal = {s: float(model.terminal_value[s]) for s in range(acting, S)} or None
    plain = pr.UncertainMDP(source, next_state, reward, model.discount, terminal=terminal)
    return plain, pr.DirichletPosterior(plain.with_end(np.array(counts)))
