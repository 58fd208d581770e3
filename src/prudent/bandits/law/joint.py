"""The law of scores of items that share the draws of theta."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._support.checks import FloatArray
from .base import Chances, outer_mean
from .normal import DrawnLaw, ScoreRule

_SAMPLED = 4096  # decisions that chances are sampled from


class Design(NamedTuple):
    """What the scores of k items are made of: rows'theta + shift + spread times a normal of the item's own."""

    rows: FloatArray  # [k,D] features less those of the offsets
    shifts: FloatArray  # [k] means of the offsets
    spreads: FloatArray  # [k] sds of the offsets


class JointLaw(DrawnLaw):
    """Law of scores made of draws of theta that all items share; probabilities are sampled.

    Parameters
    ----------
    moments : ndarray of float, [2, k]
        Posterior means and sds of the scores.
    design : Design
        What the scores are made of.
    mean : ndarray of float, [D]
        Posterior mean of theta.
    root : ndarray of float, [D, D]
        Matrix whose transpose times itself is the covariance of the draws of theta.
    rule : ScoreRule
        How scores are made of draws.
    """

    def __init__(
        self, moments: FloatArray, design: Design, mean: FloatArray, root: FloatArray, rule: ScoreRule
    ) -> None:
        super().__init__(moments, rule)
        self._design, self._theta, self._root = design, mean, root

    @property
    def uniforms_needed(self) -> int:
        """Number of uniforms, or standard normals, that the scores of one decision are made of."""
        own = self._design.shifts.size if self._design.spreads.any() else 0
        return abs(self._rule.n) * (self._theta.size + own)

    @property
    def sample_entries(self) -> int:
        """Numbers that one simulated decision takes in memory."""
        return self.uniforms_needed + abs(self._rule.n) * self._moments.shape[1]

    def scores(self, normals: FloatArray) -> FloatArray:
        """Return scores made of standard normals: CVaR, item by item, of what n draws of theta say.

        Parameters
        ----------
        normals : ndarray of float, [N, uniforms_needed]
            Standard normals.

        Returns
        -------
        ndarray of float, [N, k]
            Scores.
        """
        count, dim, n = len(normals), self._theta.size, abs(self._rule.n)
        theta = self._theta + normals[:, : n * dim].reshape(count, n, dim) @ self._root
        draws = self._design.shifts + theta @ self._design.rows.T  # [T,n,k]
        if self._design.spreads.any():
            draws += self._design.spreads * normals[:, n * dim :].reshape(draws.shape)
        return outer_mean(draws, np.array(self._rule.weights), self._rule.n)

    def draw(self, uniforms: FloatArray, top: int) -> FloatArray:
        """Return scores made of uniforms.

        Parameters
        ----------
        uniforms : ndarray of float, [uniforms_needed]
            Numbers in [0, 1).
        top : int
            How many of the highest scores are needed. All are computed.

        Returns
        -------
        ndarray of float, [k]
            Scores.
        """
        from scipy.special import ndtri

        return self.scores(ndtri(np.maximum(uniforms, 2.0**-54))[np.newaxis])[0]

    def sample(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Return simulated scores [N, k]."""
        return self.scores(rng.standard_normal((count, self.uniforms_needed)))

    def _first(self) -> Chances:
        return self.included(1, _SAMPLED, np.random.default_rng(0))

    def chances(self) -> FloatArray:
        """Return the sampled probability of every item to come first, [k]."""
        return self._first().chance

    def error(self, place: int) -> float:
        """Return the standard error of ``chance``."""
        return float(self._first().error[place])
