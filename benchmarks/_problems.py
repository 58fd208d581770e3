"""Problems that several benchmarks share."""

from __future__ import annotations

import numpy as np

import prudent as pr


def large_problem(n_states: int) -> pr.BayesianRiskMDP:
    """Return a problem with ten actions, each with five next states of its own and some twenty observations."""
    rng = np.random.default_rng(4)
    shape = (n_states, 10)
    source = np.arange(n_states * 10).reshape(shape)
    model = pr.UncertainMDP(source, rng.integers(0, n_states, (*shape, 5)), rng.random(shape), discount=0.95)
    return pr.BayesianRiskMDP(model, pr.DirichletPosterior(1.0 + rng.poisson(3.0, (n_states * 10, 5))), 0.9)
