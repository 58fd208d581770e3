"""Arms with normal rewards: the belief is a normal law given the noise, exact and conjugate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._numerics.triangles import triangle_of
from ..._support.checks import FloatArray, one_of
from ..._support.state import Arrays
from ...errors import DataError, ParameterError
from ...posteriors.linear import LinearGaussianPosterior, require_sums
from ..kernels import layout as col
from ..kernels.layout import BY_ARM, SHARED
from ..kernels.step import noise_of, refresh
from ..settings import BanditSettings
from .arm_state import LEAST_GAIN
from .arms import LEAST_WEIGHT, ArmBelief
from .base import require_state

_NOISES = {"shared": SHARED, "by arm": BY_ARM}


class GaussianArms(ArmBelief):
    """Belief about A arms with normal rewards: s'theta_a plus noise.

    Parameters
    ----------
    count : int
        Number of arms.
    prior : ndarray of float, [D, D]
        Prior precision, constant feature included, in units of the noise.
    intercept : bool
        Whether the first feature is constant.
    noise_sd : float or None
        Sd of the noise; None to learn it.
    noise : {"shared", "by arm"}, default="shared"
        Whether a learned noise is that of all arms, or each arm has its own.
    """

    def __init__(
        self, count: int, prior: FloatArray, intercept: bool, noise_sd: float | None, noise: str = "shared"
    ) -> None:
        one_of(noise, "noise", _NOISES)
        if noise == "by arm" and noise_sd is not None:
            message = "give noise_sd or noise='by arm', not both: a noise that is given is that of all arms"
            raise ParameterError(message, code="conflicting-arguments", argument="noise")
        self.noise = noise
        super().__init__(count, prior, intercept, noise_sd, _NOISES[noise])

    def check(self, settings: BanditSettings) -> None:
        """Raise an error if settings do not suit this belief; see ``Belief.check``."""
        if self._unit_sd is None and settings.sampling_sd is not None:
            message = "sampling_sd is in units of the reward: give noise_sd too, or leave both out"
            raise ParameterError(message, code="conflicting-arguments", argument="sampling_sd")
        if self.noise == "by arm" and (settings.weights.size > 1 or settings.clip):
            message = "noise='by arm' takes levels of the form 1 - 1/n (0, 0.5, 0.75, 0.8, 0.9, ...), and no clipping"
            raise ParameterError(message, code="conflicting-arguments", argument="noise")

    def forget(self, factor: float) -> None:
        """Multiply all evidence by a factor; see ``Belief.forget``."""
        arms = self.table
        pool, weights = arms.pool, arms.parts[:, col.WEIGHT]
        pool[col.GAIN] *= factor
        if pool[col.GAIN] < LEAST_GAIN:  # the sums fade, by a power of two, which rounds nothing
            scale = 2.0 ** math.frexp(pool[col.GAIN])[1] if pool[col.GAIN] > LEAST_WEIGHT else 0.0
            gone = weights * scale < LEAST_WEIGHT
            col.scale_sums(arms, scale)
            for sums in (arms.extra, weights):
                sums *= scale
            arms.gram[gone], arms.lost[gone], weights[gone] = 0.0, 0, 0.0
            pool[col.GAIN] = pool[col.GAIN] / scale if scale > 0.0 else 1.0
        arms.prior[:] = triangle_of(self.priors) / pool[col.GAIN]
        arms.marks[:, col.STALE] = 1
        pool[col.DIRTY] = 1.0

    def solve_again(self) -> None:
        """Take what was solved from the sums to be unknown; see ``Belief.solve_again``."""
        self.table.marks[:, col.STALE], self.table.pool[col.DIRTY] = 1, 1.0

    @property
    def noise_sd(self) -> float | None:
        """Sd of the noise, given or learned; None while it is unknown."""
        refresh(self.table, np.empty(0, dtype=np.int64))
        sd = float(self.table.pool[col.NOISE])
        return sd if sd > 0.0 else None

    def posterior(self, row: int) -> LinearGaussianPosterior:
        """Return a copy of the posterior of theta of one arm; see ``Belief.posterior``."""
        arms = self.table
        refresh(arms, np.empty(0, dtype=np.int64))
        noise = float(noise_of(arms, row))
        if not noise > 0.0:
            raise DataError("the noise is unknown before two different rewards have been seen", code="unknown-noise")
        which = arms.marks[row, col.WHICH]
        start = arms.start[which].copy()
        if which == 0 and arms.centred:
            start[0] = arms.pool[col.CENTRE]
        gram = arms.pool[col.GAIN] * col.sums_of(arms, row)
        return LinearGaussianPosterior.of_sums(self.priors[which].copy(), noise, gram, start)

    def options(self) -> dict[str, Any]:
        """Return what was given when the belief was made; see ``Belief.options``."""
        return super().options() | {"noise_sd": self._unit_sd, "noise": self.noise}

    def values(self) -> dict[str, Any]:
        """Return the numbers of a state file that are not arrays; see ``Belief.values``."""
        return super().values() | {"noise_sd": self._unit_sd, "noise": self.noise}

    def arrays(self) -> Arrays:
        """Return the arrays of a state file; see ``Belief.arrays``."""
        # A root that was updated with rewards is in no file. What goes on must be what a load would go on with.
        updated = self.table.parts[:, col.UPDATES] > 0.0
        if updated.any():
            self.table.marks[updated, col.STALE], self.table.pool[col.DIRTY] = 1, 1.0
        return super().arrays()

    def _require_sums(self, arrays: Arrays) -> None:
        require_sums(arrays["gram"], arrays["pulls"])
        weights = arrays["weights"]
        same = (np.abs(arrays["gram"][:, 0, 0, 0] - weights) <= 1e-6 * weights).all()
        require_state(same or not self.intercept, "weights that are not those of the rewards")
