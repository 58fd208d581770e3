"""Clicks and counts of items that share one theta: those of one arm whose context is that of the item.

**Places.** An item with the chance a of a click where it is looked at has the chance q = e_p a at place p of a slate,
with e_p the chance that the place is looked at, relative to the first one (Chuklin, Markov and de Rijke, *Click Models
for Web Search*, 2015: the position-based model). The logarithms u_p of e_2, e_3, ... are coefficients like those of the
features, in one normal belief with them: what low places show of an item is then not held against it, and what is not
known of e_p makes clicks there say less. With the log odds eta = s'theta of a, q moves by
dq = q ((1 - a) d eta + d u_p), hence its log odds by (1 - a) / (1 - q) d eta + 1 / (1 - q) d u_p. So a click is learned
as one with the log odds of q in a context of these factors: linear around the mean, with the information of the exact
likelihood (but factors are at most ``_LARGEST_FACTOR``, which counts likely clicks for less). Rates of counts are
products too: their logarithm is s'theta + u_p exactly. Before data e_p is about 1 / sqrt(p), halfway between no effect
and 1 / p, both within 1.2 sds for slates of five. Decisions compare items in one and the same place, by s'theta alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Self

import numpy as np

from ..._numerics.glm import COUNTS
from ..._support.checks import FloatArray, IntArray
from ..._support.state import Arrays
from ...errors import ParameterError
from ..kernels.items import triangle_moments
from ..kernels.layout import priors_of, roots_of, totals_of
from .base import POSTERIORS, Match
from .glm import GlmArms
from .items import NO_ITEMS, ItemBelief, Theta

_PLACE_SD = 0.7  # of the logarithm of the chance that a place is looked at, before data
_LARGEST_FACTOR = 2.0  # which rewards are learned with: a likely click would count for more than all before it
_LIKELIEST = 0.95  # chance of a click at a place that rewards are learned with
_MOST = 500.0  # whose exponential is taken


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
    places : int, default=1
        Places of a slate whose chances to be looked at are learned.
    """

    def __init__(
        self,
        rewards: str,
        dim: int,
        prior: FloatArray | None = None,
        intercept: bool = True,
        draws: str = "independent",
        places: int = 1,
    ) -> None:
        super().__init__(intercept, draws)
        self.places, self._dim = places, dim
        self._usual = -0.5 * np.log(np.arange(1.0, places + 1.0))
        more = np.full(places - 1, _PLACE_SD)
        if prior is not None:
            prior = np.block([[prior, np.zeros((dim, more.size))], [np.zeros((more.size, dim)), np.diag(more**-2.0)]])
        self.arm = GlmArms(1, rewards, dim + more.size, prior, intercept, more)
        self.reward_kind, self.link = rewards, self.arm.link

    def learn(self, contexts: FloatArray, rows: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        """Learn rewards; see ``Belief.learn``. ``rows`` are the places of the items on slates, if they are learned."""
        arm = np.zeros(len(contexts), dtype=np.int64)
        if self.places == 1:
            self.arm.learn(contexts, arm, rewards, weights)
            return
        with nullcontext() if len(contexts) == 1 else self.arm.all_or_none():
            for t in range(len(contexts)):
                row, offset = self._placed(contexts[t], int(rows[t]))
                one = slice(t, t + 1)
                self.arm.learn_shifted(row[np.newaxis], arm[:1], rewards[one], weights[one], np.array([offset]))

    def _placed(self, context: FloatArray, place: int) -> tuple[FloatArray, float]:
        """Return the context of all coefficients in which an item is learned at a place, and the offset (see above)."""
        row = self._wide(context[np.newaxis])[0]
        if place == 0:
            return row, 0.0
        own, mean = self._dim + place - 1, self.arm.table.mean[0]
        usual = self._usual[place]
        if self.link == COUNTS:
            row[own] = 1.0
            return row, usual
        log_odds = float(context @ mean[: self._dim])
        miss = 1.0 / (1.0 + math.exp(min(log_odds, _MOST)))  # 1 - a
        click = min(math.exp(min(usual + float(mean[own]), _MOST)) * (1.0 - miss), _LIKELIEST)
        factor = min(1.0 / (1.0 - click), _LARGEST_FACTOR)
        row *= miss * factor
        row[own] = factor
        return row, math.log(click / (1.0 - click)) - float(row @ mean)

    def _wide(self, rows: FloatArray) -> FloatArray:
        """Return contexts [T,D] with zeros for the places."""
        return np.concatenate([rows, np.zeros((len(rows), self.places - 1))], axis=1)

    def looked_at(self) -> tuple[FloatArray, FloatArray]:
        """Return means and sds [places] of the logarithms of the chances that places are looked at.

        Returns
        -------
        tuple of ndarray of float
            Relative to the first place, whose are zero.
        """
        mean, covariance = self.arm.table.mean[0], self._covariance()
        sds = np.sqrt(np.diagonal(covariance)[self._dim :])
        return self._usual + np.append(0.0, mean[self._dim :]), np.append(0.0, sds)

    def _covariance(self) -> FloatArray:
        root = roots_of(self.arm.table, 0)
        return np.asarray(root.T @ root)

    def may_refuse(self, contexts: FloatArray) -> bool:
        """Return whether contexts may be too large to learn from; see ``Belief.may_refuse``."""
        return self.arm.may_refuse(contexts)

    def may_overflow(self, contexts: FloatArray) -> bool:
        """Return whether scores may not be finite; see ``Belief.may_overflow``."""
        return self.arm.may_overflow(contexts)

    def fit(self, contexts: FloatArray, rows: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        """Replace what was learned by the exact Laplace posterior of a log; see ``Belief.fit``."""
        if self.places > 1:
            message = "a bandit that learns places is not refitted: logs for refit say nothing of places"
            raise ParameterError(message, code="conflicting-arguments", argument="places")
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
        mean, root = self.arm.table.mean[0], roots_of(self.arm.table, 0)
        if self.places > 1:
            mean, root = mean[: self._dim], np.asarray(np.linalg.qr(root[:, : self._dim], mode="r"))
        return Theta(mean, root, 1.0)

    def _knows_noise(self) -> bool:
        return True  # it has no noise

    def moments(self, features: FloatArray, rows: IntArray) -> FloatArray:
        """Return posterior means and sds of the scores of items; see ``ItemBelief.moments``."""
        table, moments = self.arm.table, np.empty((2, len(features)))
        features = features if self.places == 1 else self._wide(features)
        triangle_moments(features, self.intercept, table.root[0], table.mean[0], moments)
        return moments

    def design_sums(self) -> FloatArray:
        """Return the weighted sums of s s' over the contexts of all rewards; see ``ItemBelief.design_sums``."""
        return np.asarray(totals_of(self.arm.table, 0)[: self._dim, : self._dim])

    def posterior(self, row: int) -> Any:
        """Return a copy of the posterior of theta; see ``Belief.posterior``."""
        if self.places == 1:
            return self.arm.posterior(0)
        size, table = self._dim, self.arm.table
        prior, start = priors_of(table)[0, :size, :size], table.start[0, :size].copy()
        precision = np.linalg.inv(self._covariance()[:size, :size])
        sums = np.zeros((2, size + 1, size + 1))
        sums[0, :size, :size] = 0.5 * (precision + precision.T) - prior
        sums[0, :size, size] = sums[0, size, :size] = precision @ table.mean[0, :size] - prior @ start
        return POSTERIORS[self.reward_kind].of_sums(prior.copy(), 1.0, sums, start)

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
        return self.arm.options() | {"draws": self.draws, "places": self.places}

    @property
    def axes(self) -> dict[str, str]:
        """Type and sizes of the arrays of a state file; see ``Belief.axes``."""
        return self.arm.axes if self.places == 1 else {}  # places come after the features

    def values(self) -> dict[str, Any]:
        """Return the numbers of a state file that are not arrays; see ``Belief.values``."""
        return self.arm.values() | {"draws": self.draws} | ({"places": self.places} if self.places > 1 else {})

    def arrays(self) -> Arrays:
        """Return the arrays of a state file; see ``Belief.arrays``."""
        return self.arm.arrays()

    def restore(self, values: dict[str, Any], arrays: Arrays) -> None:
        """Take the state of a file; see ``Belief.restore``."""
        self.arm.restore(values, arrays)
