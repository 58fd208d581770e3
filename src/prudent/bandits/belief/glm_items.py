"""Clicks and counts of items that share one theta: those of one arm whose context is that of the item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ..._support.checks import FloatArray, IntArray
from ..._support.state import Arrays
from ..kernels.items import item_moments
from .base import Match
from .glm import GlmArms
from .items import NO_ITEMS, ItemBelief, Theta


class GlmItems(ItemBelief):
    """Belief about items whose rewards are clicks or counts: the belief about one arm, in contexts of the items.

    Parameters
    ----------
    rewards : {"bernoulli", "poisson"}
        Kind of rewards.
    dim : int
        Number of features D, constant feature included.
    prior : ndarray of float, [D, D], optional
        Prior precision; None to learn the prior.
    intercept : bool, default=True
        Whether a constant feature is put before those of an item.
    draws : {"independent", "joint"}, default="independent"
        How scores are drawn.
    """

    def __init__(
        self,
        rewards: str,
        dim: int,
        prior: FloatArray | None = None,
        intercept: bool = True,
        draws: str = "independent",
    ) -> None:
        super().__init__(intercept, draws)
        self.arm = GlmArms(1, rewards, dim, prior, intercept)
        self.reward_kind, self.link = rewards, self.arm.link

    def learn(self, contexts: FloatArray, rows: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        """Learn rewards; see ``Belief.learn``. ``rows`` is not read."""
        self.arm.learn(contexts, np.zeros(len(contexts), dtype=np.int64), rewards, weights)

    def may_refuse(self, contexts: FloatArray) -> bool:
        """Return whether contexts may be too large to learn from; see ``Belief.may_refuse``."""
        return self.arm.may_refuse(contexts)

    def may_overflow(self, contexts: FloatArray) -> bool:
        """Return whether scores may not be finite; see ``Belief.may_overflow``."""
        return self.arm.may_overflow(contexts)

    def fit(self, contexts: FloatArray, rows: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        """Replace what was learned by the exact Laplace posterior of a log; see ``Belief.fit``."""
        self.arm.fit(contexts, np.zeros(len(contexts), dtype=np.int64), rewards, weights)

    def forget(self, factor: float) -> None:
        """Multiply all evidence by a factor; see ``Belief.forget``."""
        self.arm.forget(factor)

    def contradiction(self, other: Self, since: Self | None, matches: Sequence[Match]) -> Match | None:
        """Return the first row by which ``other`` does not come from ``since``; see ``Belief.contradiction``."""
        return self.arm.contradiction(other.arm, None if since is None else since.arm, [self._match(since)])

    def merge(self, other: Self, since: Self | None, matches: Sequence[Match]) -> None:
        """Add what another belief has learned since a common ancestor; see ``Belief.merge``."""
        self.arm.merge(other.arm, None if since is None else since.arm, [self._match(since)])

    @staticmethod
    def _match(since: Any) -> Match:
        return Match(0, None if since is None else 0, 0)

    def theta(self) -> Theta:
        """Return the posterior of theta; see ``ItemBelief.theta``."""
        return Theta(self.arm.table.mean[0], self.arm.table.root[0], 1.0)

    def moments(self, features: FloatArray, rows: IntArray) -> FloatArray:
        """Return posterior means and sds of the scores of items; see ``ItemBelief.moments``."""
        theta, moments = self.theta(), np.empty((2, len(features)))
        nothing = (NO_ITEMS, np.zeros((0, theta.mean.size + 1)), np.zeros(0), 0.0)
        item_moments(features, self.intercept, *nothing, theta.root, theta.mean, moments)
        return moments

    def design_sums(self) -> FloatArray:
        """Return the weighted sums of s s' over the contexts of all rewards; see ``ItemBelief.design_sums``."""
        return np.asarray(self.arm.table.gram[0].sum(axis=0)[:-1, :-1])

    def posterior(self, row: int) -> Any:
        """Return a copy of the posterior of theta; see ``Belief.posterior``."""
        return self.arm.posterior(0)

    @property
    def pulls(self) -> IntArray:
        """Number of rewards of every item with an offset: there is none."""
        return NO_ITEMS

    @property
    def n_rewards(self) -> int:
        """Number of rewards seen."""
        return self.arm.n_rewards

    @property
    def noise_sd(self) -> float | None:
        """None: such rewards have no noise to be known."""
        return None

    @property
    def faded(self) -> bool:
        """Whether evidence has been forgotten."""
        return self.arm.faded

    def options(self) -> dict[str, Any]:
        """Return what was given when the belief was made; see ``Belief.options``."""
        return self.arm.options() | {"draws": self.draws}

    @property
    def axes(self) -> dict[str, str]:
        """Type and sizes of the arrays of a state file; see ``Belief.axes``."""
        return self.arm.axes

    def values(self) -> dict[str, Any]:
        """Return the numbers of a state file that are not arrays; see ``Belief.values``."""
        return self.arm.values() | {"draws": self.draws}

    def arrays(self) -> Arrays:
        """Return the arrays of a state file; see ``Belief.arrays``."""
        return self.arm.arrays()

    def restore(self, values: dict[str, Any], arrays: Arrays) -> None:
        """Take the state of a file; see ``Belief.restore``."""
        self.arm.restore(values, arrays)
