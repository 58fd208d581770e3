"""Posterior draws by the kernel that agents use."""

import numpy as np

from prudent._numerics.dirichlet_draws import draw_theta


def draws_of(counts, n, seed):
    theta = np.zeros((*counts.shape, n))
    draw_theta(np.random.default_rng(seed), counts, theta, n, np.empty(n))
    return np.moveaxis(theta, -1, 0)  # [N, B, K]
