"""Beliefs about items that share one theta and are known by their features.

The mathematics is in ``prudent.bandits.kernels.items``.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ..._numerics.compensated import two_sums
from ..._numerics.least_squares import LARGE, add_to_root, add_to_square, solve_square
from ..._support.checks import FloatArray, IntArray, one_of, whole_number
from ..._support.state import LARGEST_COUNT, Arrays, require_counts
from ...errors import DataError, ParameterError, PosteriorError
from ...posteriors.linear import LinearGaussianPosterior, require_sums, resolved
from ..kernels.items import centre_on_items, fade_sums, item_moments, solve_level
from ..kernels.step import LARGEST, WIDE, free_rewards
from ..law.base import Law
from ..law.joint import Design, JointLaw
from ..law.normal import NormalLaw
from ..settings import BanditSettings
from .arms import LEAST_WEIGHT
from .base import (
    NEW,
    ROUNDED,
    Belief,
    Match,
    all_usable,
    largest_of,
    longer,
    prior_variances,
    require_arrays,
    require_state,
    score_rule,
)
from .glm import until_next
from .offset_precision import WEAKEST, likeliest_precision

_MOST_ABSORBED = 1000  # rewards after which the root of many features is solved again
_LEAST_SPREAD = 1e-13  # of the largest sd or mean: the least sd of a draw, so that no two scores are tied
NO_ITEMS = np.empty(0, dtype=np.int64)


class Theta(NamedTuple):
    """Posterior of theta: Normal(mean, noise^2 root' root)."""

    mean: FloatArray  # [D]
    root: FloatArray  # [D,D]
    noise: float  # 0 while it is unknown


class ItemSums(NamedTuple):
    """Sums over the rewards z = (x, r) of items."""

    raw: FloatArray  # [2,D+1,D+1] of z z'
    z: FloatArray  # [I,D+1] of the z of every item with an offset
    weights: FloatArray  # [I] of their rewards
    counts: IntArray  # [I] of their rewards
    bounds: tuple[float, float]  # the lowest and the highest reward
    weight: float  # of all rewards


class ItemBelief(Belief):
    """Belief about items that share one theta; a base class.

    Rows are those of items with offsets, something of their own beside what their features say.

    Parameters
    ----------
    intercept : bool
        Whether a constant feature is put before those of an item.
    draws : {"independent", "joint"}
        Whether every item draws its score from its own marginal, or all from common draws of theta.
    """

    link: int | None = None
    offsets: bool = False
    places: int = 1  # of a slate whose chances to be looked at are learned

    def __init__(self, intercept: bool, draws: str) -> None:
        one_of(draws, "draws", ("independent", "joint"))
        self.intercept, self.draws = intercept, draws

    @abstractmethod
    def theta(self) -> Theta:
        """Return the posterior of theta.

        Returns
        -------
        Theta
            Mean, root and noise.
        """

    def looked_at(self) -> tuple[FloatArray, FloatArray]:
        """Return means and sds [places] of the logarithms of the chances that places are looked at: one place, zeros.

        Returns
        -------
        tuple of ndarray of float
            Relative to the first place.
        """
        return np.zeros(1), np.zeros(1)

    def _knows_noise(self) -> bool:
        return self.theta().noise > 0.0

    @abstractmethod
    def moments(self, features: FloatArray, rows: IntArray) -> FloatArray:
        """Return posterior means and sds of the scores of items.

        Parameters
        ----------
        features : ndarray of float, [k, dim]
            Features, without the constant.
        rows : ndarray of int, [k]
            Rows of the items, -1 for those without.

        Returns
        -------
        ndarray of float, [2, k]
            Means and sds.
        """

    def design(self, features: FloatArray, rows: IntArray) -> Design:
        """Return what the scores of items are made of; spreads are in units of the noise.

        Parameters
        ----------
        features : ndarray of float, [k, dim]
            Features, without the constant.
        rows : ndarray of int, [k]
            Rows of the items, -1 for those without.

        Returns
        -------
        Design
            Rows that theta meets, and shifts and spreads of the offsets.
        """
        return Design(self.with_constant(features), np.zeros(len(features)), np.zeros(len(features)))

    @abstractmethod
    def design_sums(self) -> FloatArray:
        """Return the sums of s s' over the contexts of all rewards, constant feature included.

        Returns
        -------
        ndarray of float, [D, D]
            Sums.
        """

    def with_constant(self, features: FloatArray) -> FloatArray:
        """Return features with the constant before them, if there is one.

        Parameters
        ----------
        features : ndarray of float, [k, dim]
            Features.

        Returns
        -------
        ndarray of float, [k, D]
            A new array.
        """
        return np.concatenate([np.ones((len(features), int(self.intercept))), features], axis=1)

    def check(self, settings: BanditSettings) -> None:
        """Raise an error if settings do not suit this belief; see ``Belief.check``."""
        for name in ("clip", "sampling_sd", "delta", "first_pulls"):
            if getattr(settings, name):
                message = f"{name} is not for items that share their coefficients"
                raise ParameterError(message, code="conflicting-arguments", argument=name)

    def law(self, contexts: FloatArray, rows: IntArray, settings: BanditSettings, t: int) -> Law:
        """Return the law of the scores of items with features [k, dim]; see ``Belief.law``."""
        moments, rule = self.moments(contexts, rows), score_rule(settings, self.link)
        scale = settings.width(1)
        if self.draws == "joint" and (theta := self.theta()).noise > 0.0:
            design = self.design(contexts, rows)
            scaled = Design(design.rows, design.shifts, scale * theta.noise * design.spreads)
            return JointLaw(moments, scaled, theta.mean.copy(), scale * theta.noise * theta.root, rule)
        drawn = np.empty((4, moments.shape[1]))
        drawn[:2], drawn[3] = moments, 0.0
        if self._knows_noise():
            np.maximum(moments[1], max(_LEAST_SPREAD * largest_of(moments), 1e-300), out=drawn[2])
            drawn[2] *= scale
        else:
            drawn[2] = np.nan  # the choice is uniform
        return NormalLaw(drawn, rule, sort=True)

    def coefficients(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean [1, D] and the covariance [1, D, D] of theta; see ``Belief.coefficients``."""
        theta = self.theta()
        covariance = self.posterior(0).covariance() if theta.noise > 0.0 else np.full(theta.root.shape, math.inf)
        return theta.mean[np.newaxis].copy(), covariance[np.newaxis]

    def add_rows(self, count: int) -> None:
        """Add items with offsets.

        Parameters
        ----------
        count : int
            How many.
        """

    def keep_rows(self, count: int) -> None:
        """Remove items with offsets that were added last.

        Parameters
        ----------
        count : int
            How many stay.
        """


class GaussianItems(ItemBelief):
    """Belief about items with normal rewards: x'theta plus noise, and an offset of the item if it has one.

    Parameters
    ----------
    prior : ndarray of float, [D, D]
        Prior precision of theta, constant feature included, in units of the noise.
    intercept : bool
        Whether a constant feature is put before those of an item.
    noise_sd : float or None
        Sd of the noise; None to learn it.
    draws : {"independent", "joint"}, default="independent"
        How scores are drawn.
    offset_precision : float or "learned", optional
        Prior precision of the offsets, in units of the noise; None for items without offsets.
    """

    schema: ClassVar[dict[str, str]] = {
        "prior_precision": "float64 D D",
        "gram": "float64 2 D+1 D+1",
        "item_means": "float64 I D+1",
        "item_weights": "float64 I",
        "item_counts": "int64 I",
    }

    def __init__(
        self,
        prior: FloatArray,
        intercept: bool,
        noise_sd: float | None,
        draws: str = "independent",
        offset_precision: float | str | None = None,
    ) -> None:
        super().__init__(intercept, draws)
        self.offsets, self._weighs = offset_precision is not None, isinstance(offset_precision, str)
        self._prior, self._noise_sd = prior, noise_sd
        self._offset_precision = WEAKEST if isinstance(offset_precision, str) else offset_precision or 0.0
        size = len(prior)
        self._wide = WIDE * float(np.diagonal(prior).min())
        self._rewards = 0
        self._weight = 0.0  # of the rewards: their number, less what has faded
        self._range = (math.inf, -math.inf)  # the lowest and the highest reward
        self._gram = np.zeros((2, size + 1, size + 1))
        self._root, self._mean, self._noise = np.empty((size, size)), np.empty(size), 0.0
        self._level = 0.0  # the learned prior mean of the intercept
        self._stale = True  # root does not know the latest rewards
        self._unsolved = True  # nor do mean and noise
        self._absorbed = 0
        self._item_means = np.zeros((0, size + 1))  # of the items with offsets
        self._item_weights = np.zeros(0)
        self._item_counts = np.zeros(0, dtype=np.int64)

    # -- what is learned -----------------------------------------------------------------------------------

    def add_rows(self, count: int) -> None:
        """Add items with offsets; see ``ItemBelief.add_rows``."""
        items = (self._item_means, self._item_weights, self._item_counts)
        self._item_means, self._item_weights, self._item_counts = (longer(array, count) for array in items)

    def keep_rows(self, count: int) -> None:
        """Remove items with offsets that were added last; see ``ItemBelief.keep_rows``."""
        self._item_means, self._item_weights = self._item_means[:count], self._item_weights[:count]
        self._item_counts = self._item_counts[:count]

    def learn(self, contexts: FloatArray, rows: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        """Learn rewards; see ``Belief.learn``. ``rows`` of items without offsets is not read."""
        if not rewards.size:
            return
        if not self.may_refuse(contexts):
            self._learn_all(contexts, rows, rewards, weights)
            return
        with self._all_or_none():
            self._learn_all(contexts, rows, rewards, weights)
            self._stale = True  # solved from the sums, as after a load
            self._solve()
            precision = np.diagonal(self._prior) + np.diagonal(self._gram[0])[:-1]
            if all_usable(self._root) and not resolved(precision, self._root):
                message = "context has features that cannot be told apart in double precision: scale them"
                raise DataError(message, code="too-large", argument="context")

    def may_overflow(self, contexts: FloatArray) -> bool:
        """Return whether scores may not be finite; see ``Belief.may_overflow``. Such contexts are checked to learn."""
        largest = largest_of(contexts) if contexts.size else 0.0
        if self._item_means.size:
            largest = max(largest, largest_of(self._item_means))
        return bool(largest * largest > self._wide)

    @contextmanager
    def _all_or_none(self) -> Iterator[None]:
        """Put everything back if the block raises an error, or leaves a posterior that cannot be used."""
        whole = copy.deepcopy(self.__dict__)
        try:
            with np.errstate(all="ignore"):
                yield
                self._solve()
            fault = self._fault()
            if fault:
                message = f"context is too large beside what is known: {fault}; scale the features"
                raise DataError(message, code="too-large", argument="context")
        except BaseException:
            self.__dict__.update(whole)
            raise

    def _fault(self) -> str:
        """Return why decisions cannot be taken from the posterior, which is solved; "" if they can."""
        solved = (self._root, 1.0 / np.diagonal(self._root), self._mean, np.array([self._noise, self._level]))
        if not all_usable(*solved, (self._noise or 1.0) * self._root, self._item_means, self._gram):
            return "the moments of the posterior would be too large or too small to square"
        before = prior_variances(self._prior[np.newaxis])[0]
        certain = ((self._root**2).sum(axis=0) <= (1.0 + ROUNDED) * before).all()
        return "" if certain else "a coefficient would be less certain than before data, from rounding"

    @property
    def offset_precision(self) -> float:
        """Prior precision of the offsets, given or as learned so far; 0 without offsets."""
        return self._offset_precision

    def _learn_all(self, contexts: FloatArray, rows: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        """Learn rewards, and each time there are a quarter more, how much items differ."""
        first, size = 0, len(rewards)
        while first < size:
            last = min(size, first + until_next(self._rewards, len(self._prior))) if self._weighs else size
            part = slice(first, last)
            self._learn(contexts[part], rows[part], rewards[part], weights[part])
            if self._weighs and until_next(self._rewards - 1, len(self._prior)) == 1:
                self._weigh()
            first = last

    def _weigh(self) -> None:
        """Learn the prior precision of the offsets, and put the sums in its terms."""
        sums = self.sums()
        about = self._prior, self.intercept, self._noise_sd
        with np.errstate(all="ignore"):
            precision = likeliest_precision(sums.raw.sum(axis=0), sums.z, sums.weights, *about)
        if precision != self._offset_precision:
            self._offset_precision = precision
            self._take_sums(sums.raw, sums.z)

    def _take_sums(self, raw: FloatArray, z: FloatArray) -> None:
        """Take the sums of all rewards and those of the items, whose weights are there already."""
        a = self._offset_precision + self._item_weights
        if a.size:
            self._item_means[:] = means = z / a[:, np.newaxis]
            raw = np.stack(two_sums(raw[0], raw[1] - _squares(a, means)))
        self._gram = np.ascontiguousarray(raw)
        self._stale = self._unsolved = True

    def _learn(self, contexts: FloatArray, rows: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        self._extend_range(float(rewards.min()), float(rewards.max()))
        contexts, rewards = contexts.copy(), rewards.copy()
        if self.offsets:
            items = (rows, self._item_means, self._item_weights, self._offset_precision)
            centre_on_items(contexts, rewards, weights, *items)
            np.add.at(self._item_counts, rows, 1)
        elif (weights != 1.0).any():
            contexts, rewards = np.sqrt(weights)[:, np.newaxis] * contexts, np.sqrt(weights) * rewards
        add_to_square(self._gram, contexts, rewards)
        if len(self._prior) >= LARGE and not self._stale and self._absorbed + len(contexts) <= _MOST_ABSORBED:
            for row in contexts:
                add_to_root(self._root.reshape(-1), row, 1.0)
            self._absorbed += len(contexts)
        else:
            self._stale = True
        self._unsolved = True
        self._rewards += len(rewards)
        self._weight += float(weights.sum())

    def _extend_range(self, low: float, high: float) -> None:
        self._range = min(low, self._range[0]), max(high, self._range[1])

    def forget(self, factor: float) -> None:
        """Multiply all evidence by a factor; see ``Belief.forget``."""
        if factor * self._weight < LEAST_WEIGHT:
            factor = 0.0
        fade_sums(self._gram, factor)
        if self.offsets and factor > 0.0:
            q = self._offset_precision
            means, totals = self._item_means, self._item_weights
            growth = (q + totals) / (q + factor * totals)
            back = (math.sqrt(factor * (1.0 - factor) * q) * np.sqrt(growth))[:, np.newaxis] * means
            add_to_square(self._gram, np.ascontiguousarray(back[:, :-1]), np.ascontiguousarray(back[:, -1]))
            means *= (factor * growth)[:, np.newaxis]
        elif self.offsets:
            self._item_means[:] = 0.0
        self._item_weights *= factor
        self._weight *= factor
        self._stale = self._unsolved = True

    def sums(self) -> ItemSums:
        """Return the sums over all rewards z = (x, r), which those of two beliefs add up to.

        Returns
        -------
        ItemSums
            Copies.
        """
        means, weights = self._item_means, self._item_weights
        a = self._offset_precision + weights
        raw = np.stack(two_sums(self._gram[0], self._gram[1] + _squares(a, means)))
        return ItemSums(raw, a[:, np.newaxis] * means, weights.copy(), self.pulls.copy(), self._range, self._weight)

    def contradiction(self, other: Self, since: Self | None, matches: Sequence[Match]) -> Match | None:
        """Return the first row by which ``other`` does not come from ``since``; see ``Belief.contradiction``."""
        if since is None:
            return None
        now, past = other.sums(), since.sums()
        for match in matches:
            if match.was is not None and now.counts[match.there] < past.counts[match.was]:
                return match
        news, slack = now.raw[0] - past.raw[0], 1e-9 * np.diagonal(now.raw[0]) + 1e-300
        torn = now.weight < past.weight or (np.diagonal(news) < -slack).any()
        return Match(-1, None, None) if torn or (now.weight == past.weight and np.any(news != 0.0)) else None

    def merge(self, other: Self, since: Self | None, matches: Sequence[Match]) -> None:
        """Add what another belief has learned since a common ancestor; see ``Belief.merge``.

        Sums of z z' over all rewards z = (x, r) add up, and so do the sums of the z of every item. What the items take
        from the former, a m m' with a = q + weight and m = (sum of z) / a, is taken out again with the new a and m.
        """
        with self._all_or_none():
            self._merge(other, since, matches)

    def _merge(self, other: Self, since: Self | None, matches: Sequence[Match]) -> None:
        mine, theirs, past = self.sums(), other.sums(), None if since is None else since.sums()
        rows = []
        for match in matches:
            if match.here == NEW:
                self.add_rows(1)
            rows.append(len(self.pulls) - 1 if match.here == NEW else match.here)
        raw, z = mine.raw, longer(mine.z, len(self.pulls) - len(mine.weights))
        for sign, sums in ((1.0, theirs), (-1.0, past)):
            if sums is None:
                continue
            total, lost = two_sums(raw[0], sign * sums.raw[0])
            raw = np.stack(two_sums(total, raw[1] + sign * sums.raw[1] + lost))
            for match, row in zip(matches, rows, strict=True):
                place = match.there if sign > 0.0 else match.was
                if place is not None and row is not None:
                    z[row] += sign * sums.z[place]
                    self._item_weights[row] += sign * sums.weights[place]
                    self._item_counts[row] += int(sign) * sums.counts[place]
            self._weight += sign * sums.weight
        self._rewards = round(self._weight)  # nothing has faded
        self._extend_range(*theirs.bounds)
        self._take_sums(raw, z)

    # -- what it says --------------------------------------------------------------------------------------

    def _solve(self) -> None:
        """Bring root, mean and noise up to date with the sums."""
        if not self._unsolved:
            return
        if self._stale:
            solve_square(self._gram, self._prior, self._root, self._mean)
            self._stale, self._absorbed = False, 0
        learned = self._noise_sd is None
        square, self._level = solve_level(self._gram, self._prior, self._root, learned and self.intercept, self._mean)
        if not learned:
            self._noise = self._noise_sd or 0.0
        elif self._range[0] < self._range[1]:
            free = free_rewards(self._weight, self.intercept)
            self._noise = math.sqrt(square / free) if free > 0.0 else 0.0
        self._unsolved = False

    def solve_again(self) -> None:
        """Take what was solved from the sums to be unknown; see ``Belief.solve_again``."""
        self._stale = self._unsolved = True

    def theta(self) -> Theta:
        """Return the posterior of theta; see ``ItemBelief.theta``."""
        self._solve()
        return Theta(self._mean, self._root, self._noise)

    def moments(self, features: FloatArray, rows: IntArray) -> FloatArray:
        """Return posterior means and sds of the scores of items; see ``ItemBelief.moments``."""
        self._solve()
        moments = np.empty((2, len(features)))
        items = (rows if self.offsets else NO_ITEMS, self._item_means, self._item_weights, self._offset_precision)
        item_moments(features, self.intercept, *items, self._root, self._mean, moments)
        if self._noise > 0.0:
            moments[1] *= self._noise
        else:
            moments[1] = np.inf
        return moments

    def design(self, features: FloatArray, rows: IntArray) -> Design:
        """Return what the scores of items are made of; see ``ItemBelief.design``."""
        if not self.offsets:
            return super().design(features, rows)
        old, means, totals = rows >= 0, np.zeros((len(rows), self._item_means.shape[1])), np.zeros(len(rows))
        means[old], totals[old] = self._item_means[rows[old]], self._item_weights[rows[old]]
        design = self.with_constant(features) - means[:, :-1]
        return Design(design, means[:, -1], 1.0 / np.sqrt(self._offset_precision + totals))

    def design_sums(self) -> FloatArray:
        """Return the sums of s s' over the contexts of all rewards; see ``ItemBelief.design_sums``."""
        return np.asarray(self.sums().raw.sum(axis=0)[:-1, :-1])

    def posterior(self, row: int) -> LinearGaussianPosterior:
        """Return a copy of the posterior of theta; see ``Belief.posterior``.

        It has the moments that decisions are taken from, given the noise. What was learned of the prior mean of the
        intercept is put among the data, since the prior of the copy has mean zero.
        """
        noise = self.theta().noise
        if noise == 0.0:
            message = "the noise is unknown before two different rewards were seen; give noise_sd"
            raise PosteriorError(message, code="unknown-noise")
        gram = self._gram.copy()
        gram[0, :-1, -1] += self._level * self._prior[:, 0]
        gram[0, -1, :-1] = gram[0, :-1, -1]
        return LinearGaussianPosterior.of_sums(self._prior, noise, gram)

    @property
    def pulls(self) -> IntArray:
        """Number of rewards of every item with an offset, [I]."""
        return self._item_counts

    @property
    def n_rewards(self) -> int:
        """Number of rewards seen."""
        return self._rewards

    @property
    def noise_sd(self) -> float | None:
        """Sd of the noise, given or learned; None while it is unknown."""
        return self.theta().noise or None

    @property
    def faded(self) -> bool:
        """Whether evidence has been forgotten."""
        return self._weight != self._rewards

    # -- state ---------------------------------------------------------------------------------------------

    def options(self) -> dict[str, Any]:
        """Return what was given when the belief was made; see ``Belief.options``."""
        precision = "learned" if self._weighs else self._offset_precision
        given = {"noise_sd": self._noise_sd, "draws": self.draws, "offset_precision": precision}
        return given | {"rewards": "gaussian", "prior_precision": self._prior.tolist()}

    @property
    def axes(self) -> dict[str, str]:
        """Types and sizes of the arrays of a state file; see ``Belief.axes``."""
        return self.schema | ({"root": "float64 D D"} if self.arrays()["root"].size else {})

    def values(self) -> dict[str, Any]:
        """Return the numbers of a state file that are not arrays; see ``Belief.values``."""
        kept = len(self._prior) >= LARGE and not self._stale  # else it is solved from the sums
        return {
            "rewards": "gaussian",
            "prior": "given",
            "noise_sd": self._noise_sd,
            "draws": self.draws,
            "offset_precision": self._offset_precision if self.offsets else None,
            **({"offsets": "learned"} if self._weighs else {}),
            "count": self._rewards,
            "weight": self._weight,
            "range": list(self._range) if self._rewards else None,
            "absorbed": self._absorbed if kept else 0,
        }

    def arrays(self) -> Arrays:
        """Return the arrays of a state file; see ``Belief.arrays``."""
        kept = len(self._prior) >= LARGE and not self._stale
        return {
            "prior_precision": self._prior,
            "gram": self._gram,
            "root": self._root if kept else np.empty((0, 0)),
            "item_means": self._item_means,
            "item_weights": self._item_weights,
            "item_counts": self._item_counts,
        }

    def restore(self, values: dict[str, Any], arrays: Arrays) -> None:
        """Take the state of a file; see ``Belief.restore``."""
        counts, weights, root = arrays["item_counts"], arrays["item_weights"], arrays["root"]
        require_arrays(arrays, self.schema, {"D": len(self._prior), "I": len(counts)})
        require_state(root.ndim == 2 and root.dtype == np.float64, f"root is an array {root.shape} of {root.dtype}")
        self._rewards = whole_number(values["count"], "count", 0, LARGEST_COUNT)
        if self._weighs:
            self._offset_precision = number = values["offset_precision"]
            require_state(isinstance(number, float) and 0.0 < number <= WEAKEST, f"offset_precision is {number!r}")
        self._gram = arrays["gram"]
        require_sums(self._gram[np.newaxis], np.array([self._rewards]))
        bounds, rewards = values["range"], self._rewards
        low, high = (0.0, 0.0) if bounds is None else bounds
        possible = (bounds is None) == (rewards == 0) and -LARGEST <= low <= high <= LARGEST
        require_state(possible and (low == high or rewards > 1), f"the range of {rewards} rewards is {bounds!r}")
        self._range = (math.inf, -math.inf) if bounds is None else (low, high)
        require_counts(counts, "item_counts")
        require_state(all_usable(arrays["item_means"]), "a mean that is no number")
        counted = int(counts.sum()) == rewards and (counts > 0).all()
        require_state(counted or not self.offsets, f"items with {counts.tolist()} rewards, expected {rewards} in all")
        require_state(self.offsets or not counts.size, "items of a bandit without offsets")
        light = ((weights >= 0.0) & (weights <= 1.000001 * counts)).all()
        require_state(light, f"items with {counts.tolist()} rewards and the weights {weights.tolist()}")
        items = (arrays["item_means"], weights, counts)
        self._item_means, self._item_weights, self._item_counts = (array.copy() for array in items)
        self._weight = weight = values["weight"]
        total = weights.sum() if self.offsets else self._gram[0, 0, 0] if self.intercept else weight
        same = 0.0 <= weight <= 1.000001 * rewards and abs(total - weight) <= 1e-6 * weight
        require_state(same, f"{rewards} rewards of the weight {weight!r}, which is not that of the sums")
        self._restore_root(root, values["absorbed"])
        stale = self._stale
        self._solve()
        fault = self._fault()
        require_state(not fault, fault)
        self._stale = self._unsolved = stale

    def _restore_root(self, root: FloatArray, absorbed: Any) -> None:
        """Take the root of many features as it was, if it is one of the sums; else it is solved from them."""
        size = len(self._prior)
        self._absorbed = whole_number(absorbed, "absorbed", 0, _MOST_ABSORBED)
        if root.shape == (0, 0) and absorbed == 0:
            return
        require_state(root.shape == (size, size) and size >= LARGE, f"a root of shape {root.shape} for {size} features")
        precision = (self._prior + self._gram[0, :-1, :-1]) + self._gram[1, :-1, :-1]
        rounding = 1e3 * np.finfo(np.float64).eps * (np.abs(root) @ np.abs(precision) @ np.abs(root).T)
        away = (np.abs(root @ precision @ root.T - np.eye(size)) - rounding).max()
        same = not np.triu(root, 1).any() and away < 1e-6
        require_state(same, f"the root is not that of the sums: it is off by {away}")
        self._root, self._stale = root, False


def _squares(weights: FloatArray, rows: FloatArray) -> FloatArray:
    """Return the weighted sum of the products m m' of rows m [I,D], symmetric to the last bit."""
    total = (weights[:, np.newaxis] * rows).T @ rows
    return np.asarray(0.5 * (total + total.T))
