"""Questions about a policy: returns over the posterior against the ways one would write them by hand."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

import prudent as pr
from prudent.analysis import posterior_returns

from ._timing import Row, best_times

DRAWS = 50


def by_splu(model: pr.UncertainMDP, posterior: pr.DirichletPosterior, policy: np.ndarray) -> np.ndarray:
    """Return the mean values of a policy under each draw: NumPy's Dirichlet draws and SciPy's sparse elimination."""
    rng = np.random.default_rng(0)
    states = np.arange(model.n_states)
    source, target, gain = model.source[states, policy], model.next_state[states, policy], model.reward[states, policy]
    rows = np.repeat(states, target.shape[1])
    returns = np.empty(DRAWS)
    for i in range(DRAWS):
        theta = rng.standard_gamma(posterior.counts[source])
        theta /= theta.sum(axis=1, keepdims=True)
        chain = sparse.csc_array((theta.ravel(), (rows, target.ravel())), shape=(states.size, states.size))
        lower = splu(sparse.eye_array(states.size, format="csc") - model.discount * chain)
        returns[i] = lower.solve((theta * gain).sum(axis=1)).mean()
    return returns


def by_solve(model: pr.UncertainMDP, posterior: pr.DirichletPosterior) -> list[float]:
    """Return the best mean values under each draw: one known model after the other."""
    return [float(pr.solve(model.mdp(theta)).value.mean()) for theta in posterior.sample(DRAWS, 0)]


def run() -> list[Row]:
    problem = pr.envs.random_model(700, 10, branching=10, rng=0, discount=0.99)
    model, posterior = problem.model, pr.DirichletPosterior(problem.model.prior(1.5))
    policy = pr.solve(problem.mdp()).policy
    shared = {"start": None, "draws": DRAWS, "rng": 0, "threads": 1}
    ours, other = best_times(
        lambda: posterior_returns(model, posterior, policy, regret=False, **shared),
        lambda: by_splu(model, posterior, policy),
        repeats=3,
    )
    rows = [
        Row("returns of a policy, 700 states, 50 draws: SciPy by hand", ours, other, "10 times", other >= 10 * ours)
    ]
    ours, other = best_times(
        lambda: posterior_returns(model, posterior, policy, **shared), lambda: by_solve(model, posterior), repeats=3
    )
    rows.append(
        Row("and the best policy of each draw: solve(model.mdp(theta))", ours, other, "1.5 times", other >= 1.5 * ours)
    )
    return rows
