"""Places of a slate: what a bandit of items says of how likely they are to be looked at, and what it must be told."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._support.checks import FloatArray, IntArray, probability, require_length, whole_number
from ..errors import DataError, ParameterError
from .base import Bandit
from .belief.items import ItemBelief

MOST_PLACES = 1000


class ItemPlaces(Bandit):
    """Base class of bandits of items, whose belief may know places."""

    _belief: ItemBelief

    @property
    def places(self) -> int | None:
        """Number of places of a slate whose chances to be looked at are learned, if they are."""
        return self._belief.places if self._belief.places > 1 else None

    def looked_at(self, confidence: float = 0.95) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return how likely the places of a slate are to be looked at, relative to the first one.

        Parameters
        ----------
        confidence : float, default=0.95
            Probability of the intervals.

        Returns
        -------
        tuple of ndarray of float, [places]
            Posterior medians, and lower and upper ends of intervals. Without `places` there is one, and all are 1.

        Examples
        --------
        >>> from prudent.bandits import SharedLinearBandit
        >>> bandit = SharedLinearBandit(dim=1, rewards="bernoulli", places=2)
        >>> bandit.update([[1.0]] * 40, None, [1.0, 0.0] * 20, place=[0] * 20 + [1] * 20).n_rewards
        40
        >>> chance, low, high = bandit.looked_at()
        >>> bool(low[1] < chance[1] < high[1]), float(chance[0])
        (True, 1.0)
        """
        from scipy.special import ndtri

        level = probability(confidence, "confidence")
        with self._lock:
            mean, sd = self._belief.looked_at()
            width = float(ndtri(0.5 + 0.5 * level)) * sd
            return np.exp(mean), np.exp(mean - width), np.exp(mean + width)

    def _checked_top(self, top: int, size: int) -> int:
        """Return the length of a slate of so many candidates, or raise."""
        top = whole_number(top, "top", maximum=size)
        if self.places is not None and top > self.places:
            message = f"top is {top}, but the chances to be looked at are learned of {self.places} places"
            raise ParameterError(message, code="too-many-places", argument="top", value=top, expected=self.places)
        return top

    def _learned_places(self, place: Any, count: int) -> IntArray | None:
        """Return the places [T] of rewards, if the bandit learns places."""
        if self.places is None:
            return None
        if place is None:
            message = "place is missing: this bandit learns how likely places are to be looked at"
            raise DataError(message, code="missing-argument", argument="place")
        given = [place] if np.ndim(place) == 0 else list(place)
        require_length(given, "place", count, "reward")
        return np.array([whole_number(one, "place", 0, self.places - 1) for one in given])
