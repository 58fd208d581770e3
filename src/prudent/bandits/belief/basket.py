"""Amounts of purchases: arms with normal means, noises of their own, and a prior that they share and learn.

Purchases are few, and amounts differ most between arms that sell different things. So the noise of every arm is its
own, as far as data says so (``GaussianArms`` with ``noise="by arm"``), and the size of what arms and features change is
learned: before data beta_a ~ Normal((c, 0, ..., 0), nu^2 diag(u^2, v^2, ..., v^2)) in units of the noise nu. Given the
posteriors of the arms with means m_a and variances w_a in that unit, the evidence is stationary at (MacKay, Neural
Computation 4, 1992)

    u^2 = sum_a (m_a0 - c)^2 / sum_a g_a0,    v^2 = sum_aj m_aj^2 / sum_aj g_aj,    g = 1 - w / (that before data).

One such step is taken each time the number of purchases has grown by a quarter. Until data tells, u = 0.5 and v = 0.15,
over the size of a typical feature, have the weight of two coefficients.
"""

from __future__ import annotations

import numpy as np

from ..._numerics.triangles import triangle_of
from ..._support.checks import FloatArray, IntArray
from ...posteriors.linear import LinearGaussianPosterior
from ..kernels import layout as col
from ..kernels.step import noise_of, refresh
from .arms import ArmBelief
from .gaussian import GaussianArms
from .glm import until_next

_LEVEL_SD, _SLOPE_SD = 0.5, 0.15  # of an arm's level and of a coefficient before data, in units of the noise
_WEIGHT = 2.0  # coefficients that these are worth
_LEAST, _MOST = 0.02, 20.0  # of them, sds that are learned


class BasketArms(GaussianArms):
    """Belief about the mean amounts of purchases of A arms.

    Parameters
    ----------
    count : int
        Number of arms.
    dim : int
        Number of features D, constant feature included.
    prior : ndarray of float, [D, D], optional
        Prior precision in units of the noise; None to learn it.
    intercept : bool, default=True
        Whether the first feature is constant.
    """

    def __init__(self, count: int, dim: int, prior: FloatArray | None = None, intercept: bool = True) -> None:
        self._slopes = np.arange(dim) >= int(intercept)
        sds = np.where(self._slopes, _SLOPE_SD, _LEVEL_SD)
        super().__init__(count, np.diag(sds**-2.0) if prior is None else prior, intercept, None, "by arm")
        self.prior_origin = "learned" if prior is None else "given"

    def learn(self, contexts: FloatArray, rows: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        """Learn amounts, and the prior from time to time; see ``Belief.learn``."""
        if self.prior_origin == "given":
            super().learn(contexts, rows, rewards, weights)
            return
        first, size = 0, contexts.shape[1]
        with self.all_or_none():
            while first < len(contexts):
                last = min(len(contexts), first + until_next(int(self.table.pool[col.COUNT]), size))
                part = slice(first, last)
                super().learn(contexts[part], rows[part], rewards[part], weights[part])
                if until_next(int(self.table.pool[col.COUNT]) - 1, size) == 1:
                    self._learn_prior()
                first = last
            refresh(self.table, np.arange(len(self.table.mean)))

    def clear(self) -> None:
        """Take everything back that was learned; priors that arms have of their own stay."""
        arms = self.table
        for sums in (arms.gram, arms.lost, arms.extra):
            sums[:] = 0
        arms.parts[:, col.WEIGHT], arms.marks[:, col.PULLS], arms.marks[:, col.TRIES] = 0.0, 0, 0
        arms.pool[[col.LOW, col.HIGH]], arms.pool[col.GAIN] = (np.inf, -np.inf), 1.0
        arms.pool[[col.ORIGIN, col.LAST, col.COUNT]] = 0.0
        if self.prior_origin == "learned":
            sds = np.where(self._slopes, _SLOPE_SD, _LEVEL_SD)
            self.priors = np.concatenate([np.diag(sds**-2.0)[np.newaxis], self.priors[1:]])
        arms.prior[:] = triangle_of(self.priors)
        self.solve_again()

    def _learn_prior(self) -> None:
        """Take one step of the learning of the prior."""
        arms = self.table
        refresh(arms, np.arange(len(arms.mean)))
        mine = np.flatnonzero((arms.marks[:, col.WHICH] == 0) & (arms.marks[:, col.PULLS] > 0))
        noise = np.array([float(noise_of(arms, int(row))) for row in mine])
        if not mine.size or not (noise > 0.0).all():
            return
        means = arms.mean[mine].copy()
        if self.intercept:
            means[:, 0] -= arms.pool[col.CENTRE]
        means /= noise[:, np.newaxis]
        precision = np.diagonal(self.priors[0]).copy()
        shares = np.clip(1.0 - (col.roots_of(arms, mine) ** 2).sum(axis=1) * precision, 0.0, 1.0)
        squares = np.diagonal(col.totals_of(arms, mine), axis1=1, axis2=2).sum(axis=0)
        count = max(float(arms.parts[mine, col.WEIGHT].sum()), 1e-300)
        typical = float(np.median(squares[:-1][self._slopes])) / count if self._slopes.any() else 0.0
        size = np.sqrt(typical) if typical > 0.0 else 1.0
        for part, guess in ((~self._slopes, _LEVEL_SD), (self._slopes, _SLOPE_SD / size)):
            square = _WEIGHT * guess**2 + (means[:, part] ** 2).sum()
            sd = np.sqrt(square / (_WEIGHT + shares[:, part].sum()))
            precision[part] = np.clip(sd / guess, _LEAST, _MOST) ** -2.0 / guess**2
        self._take_prior(np.diag(precision))

    def _take_prior(self, precision: FloatArray) -> None:
        """Solve the arms again with another first prior."""
        self.priors = self.priors.copy()
        self.priors[0] = LinearGaussianPosterior(len(precision), precision).prior
        self.table.prior[0] = triangle_of(self.priors[0]) / self.table.pool[col.GAIN]
        self.solve_again()

    def same_prior(self, row: int, other: ArmBelief, there: int) -> bool:
        """Return whether an arm has the same prior here and there; see ``ArmBelief.same_prior``."""
        if self.prior_origin == "learned" and self.table.marks[row, col.WHICH] == other.table.marks[there, col.WHICH]:
            return True
        return super().same_prior(row, other, there)

    def _solve_merged(self) -> None:
        super()._solve_merged()
        if self.prior_origin == "learned":
            self._learn_prior()
            super()._solve_merged()
