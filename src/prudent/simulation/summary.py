"""Means, variances, quantiles and covariances of replications that are not kept, in memory that does not grow.

Replications are computed in blocks, all agents of a block together, and each block is added to running statistics. The
blocks are fixed, so the numbers do not depend on threads or on a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._support.checks import FloatArray, IntArray
from .._support.running import Moments, Quantiles

POINTS = 20  # episodes of which there are quantiles
BLOCK_BYTES = 2**26  # of the arrays of a block, for all agents
MOST = 10_000  # replications in a block

Block = Callable[[int, int], list[dict[str, npt.NDArray[Any]]]]
"""Function of the first replication and of their number that returns the arrays of each agent."""


def block_size(agents: int, episodes: int) -> int:
    """Return the number of replications in a block."""
    return max(1, min(MOST, BLOCK_BYTES // (16 * agents * episodes)))


def summarised(
    compute: Block, agents: int, episodes: int, first: int, replications: int, quantiles: Sequence[float]
) -> tuple[dict[str, tuple[tuple[str, ...], Any]], dict[str, Any]]:
    """Return variables and coordinates of a dataset of statistics; ``compute`` gives ``regret`` and ``reward``.

    Parameters
    ----------
    compute : callable
        Computes a block.
    agents, episodes : int
        Sizes of the arrays.
    first, replications : int
        Number of the first replication, and how many there are.
    quantiles : sequence of float
        Probabilities.

    Returns
    -------
    variables, coords : dict
        Parts of the dataset.
    """
    at: IntArray = np.unique(np.linspace(0, episodes - 1, min(POINTS, episodes)).round().astype(np.int64))
    names = ("regret", "reward")
    moments = {name: [Moments(episodes) for _ in range(agents)] for name in names}
    sketches = {name: [Quantiles(at.size) for _ in range(agents)] for name in names}
    joint = {name: Moments(agents, covariance=True) for name in names}
    size = block_size(agents, episodes)
    for start in range(0, replications, size):
        parts = compute(first + start, min(size, replications - start))
        for name in names:
            totals = [part[name] if name == "regret" else part[name].cumsum(axis=1) for part in parts]
            for i, rows in enumerate(totals):
                moments[name][i].add(rows)
                sketches[name][i].add(rows[:, at])
            joint[name].add(np.stack([rows[:, -1] for rows in totals], axis=1))
    variables: dict[str, tuple[tuple[str, ...], Any]] = {}
    for name in names:
        stem = "regret" if name == "regret" else "total_reward"
        variables[f"{stem}_mean"] = (("agent", "episode"), np.stack([each.mean for each in moments[name]]))
        variables[f"{stem}_variance"] = (("agent", "episode"), np.stack([each.variance for each in moments[name]]))
        found: FloatArray = np.stack([each.at(list(quantiles)) for each in sketches[name]])
        variables[f"{stem}_quantile"] = (("agent", "quantile", "quantile_episode"), found)
        variables[f"{stem}_covariance"] = (("agent", "other_agent"), joint[name].variance)
    variables["replications"] = (("agent",), np.full(agents, replications))
    return variables, {"quantile": list(quantiles), "quantile_episode": at}
