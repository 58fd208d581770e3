"""The base of the laws of scores: what a bandit believes of the scores that decide next, and the chances they give."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..._support.checks import FloatArray, IntArray
from ...errors import ParameterError

_ENTRIES = 2**20  # numbers of a sample held at a time


class Chances(NamedTuple):
    """Probabilities and their standard errors, which are 0 where probabilities are exact.

    Attributes
    ----------
    chance : ndarray of float, [k]
        Probabilities.
    error : ndarray of float, [k]
        Standard errors.
    """

    chance: FloatArray
    error: FloatArray


class Law(ABC):
    """Joint law of the scores of k arms, in one context or in T contexts.

    The arm with the highest score is chosen, except that a floor mixes in uniform choices. A law is what a
    ``prudent.bandits.belief.Belief`` says of the next decision: it has no random state and does not change.

    Attributes
    ----------
    floor : float
        Smallest probability of an arm: with k times this probability the choice is uniform.
    """

    floor: float = 0.0

    @property
    @abstractmethod
    def mean(self) -> FloatArray:
        """Posterior means of the scores, [k] or [T, k]."""

    @property
    @abstractmethod
    def sd(self) -> FloatArray:
        """Posterior standard deviations of the scores, [k] or [T, k]; infinite while the noise is unknown."""

    @abstractmethod
    def chances(self) -> FloatArray:
        """Return the probability of every arm to be chosen, [k] or [T, k].

        Returns
        -------
        ndarray of float
            Probabilities, which sum to one in every context.
        """

    def chance(self, place: int) -> float:
        """Return the probability that one arm is chosen.

        Parameters
        ----------
        place : int
            Position of the arm.

        Returns
        -------
        float
            Its probability.
        """
        return float(self.chances()[place])

    def chance_rows(self, places: IntArray) -> FloatArray:
        """Return the probability of one arm for each of T contexts.

        Parameters
        ----------
        places : ndarray of int, [T]
            Positions of the arms.

        Returns
        -------
        ndarray of float, [T]
            Their probabilities.
        """
        return np.asarray(np.take_along_axis(self.chances(), places[:, np.newaxis], axis=1)[:, 0])

    def error(self, place: int) -> float:
        """Return the standard error of ``chance``.

        Parameters
        ----------
        place : int
            Position of the arm.

        Returns
        -------
        float
            0 if the probability is exact.
        """
        return 0.0

    @abstractmethod
    def response(self) -> tuple[FloatArray, FloatArray]:
        """Return posterior mean and sd of the expected reward, [k] or [T, k] each.

        Returns
        -------
        tuple of ndarray of float
            Means and standard deviations.
        """

    @abstractmethod
    def shortfall(self, alpha: float) -> FloatArray:
        """Return CVaR of s'theta at a risk level, [k] or [T, k].

        Parameters
        ----------
        alpha : float
            Risk level in (-1, 1).

        Returns
        -------
        ndarray of float
            What the drawn scores estimate.
        """

    @abstractmethod
    def sample(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Return simulated scores of one context.

        Parameters
        ----------
        count : int
            Number N of simulated decisions.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ndarray of float, [N, k]
            Scores.
        """

    def uniform(self) -> IntArray | None:
        """Return the positions of the arms between which the choice is uniform by rule; None if scores decide.

        Returns
        -------
        ndarray of int or None
            Positions.
        """
        return None

    def decisions(self, count: int, rng: np.random.Generator) -> IntArray:
        """Return the positions of the arms that simulated decisions choose.

        Parameters
        ----------
        count : int
            Number N of simulated decisions.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ndarray of int, [N]
            Positions.
        """
        among = self.uniform()
        if among is not None:
            return rng.choice(among, count)
        size = self.mean.shape[-1]
        scores = self.sample(count, rng)
        chosen = np.where(scores == scores.max(axis=1, keepdims=True), rng.random(scores.shape), -1.0).argmax(axis=1)
        return np.where(rng.random(count) < size * self.floor, rng.integers(size, size=count), chosen)

    def included(self, top: int, draws: int, rng: np.random.Generator) -> Chances:
        """Return the probability of every arm to be among the ``top`` highest, from simulated decisions.

        One more decision is counted in which all arms are equal, so that no probability is zero.

        Parameters
        ----------
        top : int
            Length of the slate.
        draws : int
            Number of simulated decisions.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        Chances
            Probabilities [k] and standard errors [k].
        """
        size = self.mean.shape[-1]
        hits = np.full(size, top / size)
        for scores in self.samples(draws, rng):
            chosen = scores.argmax(axis=1) if top == 1 else np.argpartition(-scores, top - 1, axis=1)[:, :top]
            hits += np.bincount(chosen.reshape(-1), minlength=size)
        chance = hits / (draws + 1.0)
        return self.mixed(Chances(chance, np.sqrt(chance * (1.0 - chance) / (draws + 1.0))), top)

    def placed(self, top: int, draws: int, rng: np.random.Generator) -> Chances:
        """Return the probability of every arm to have each of the ``top`` highest scores, from simulated decisions.

        One more decision is counted in which all arms are equal, so that no probability is zero.

        Parameters
        ----------
        top : int
            Length of the slate.
        draws : int
            Number of simulated decisions.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        Chances
            Probabilities [top, k] and standard errors [top, k].
        """
        size = self.mean.shape[-1]
        hits = np.full((top, size), 1.0 / size)
        for scores in self.samples(draws, rng):
            order = np.argsort(-scores, axis=1)[:, :top]
            for place in range(top):
                hits[place] += np.bincount(order[:, place], minlength=size)
        chance = hits / (draws + 1.0)
        return self.mixed(Chances(chance, np.sqrt(chance * (1.0 - chance) / (draws + 1.0))))

    def slate_chance(self, places: IntArray, ordered: bool) -> float:
        """Return the probability of a slate.

        Parameters
        ----------
        places : ndarray of int, [top]
            Positions of the arms, highest score first.
        ordered : bool
            Whether in this order, or in any.

        Returns
        -------
        float
            Its probability.

        Raises
        ------
        ParameterError
            If it is not known: scores are not independent.
        """
        if places.size == 1:
            return self.chance(int(places[0]))
        message = "probabilities of slates are known for independent draws of normal scores (draws='independent')"
        raise ParameterError(message, code="no-propensity", argument="draws")

    def samples(self, draws: int, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Yield simulated scores [N, k], as many at a time as fit in memory.

        Parameters
        ----------
        draws : int
            Number of simulated decisions in all.
        rng : numpy.random.Generator
            Source of randomness.

        Yields
        ------
        ndarray of float, [N, k]
            Scores.
        """
        rows = max(1, _ENTRIES // self.sample_entries)
        for done in range(0, draws, rows):
            yield self.sample(min(rows, draws - done), rng)

    @property
    def sample_entries(self) -> int:
        """Numbers that one simulated decision takes in memory."""
        return int(self.mean.shape[-1])

    def mixed(self, scored: Chances, top: int = 1) -> Chances:
        """Return probabilities with the floor mixed in, given those of a slate that scores decide.

        Parameters
        ----------
        scored : Chances
            Probabilities without the floor.
        top : int, default=1
            Length of the slate.

        Returns
        -------
        Chances
            Probabilities with the floor.
        """
        kept = max(1.0 - self.mean.shape[-1] * self.floor, 0.0)
        return Chances(top * self.floor + kept * scored.chance, kept * scored.error)


def outer_mean(draws: FloatArray, weights: FloatArray, n: int) -> FloatArray:
    """Return the weighted lowest of draws [T,n,k], as [T,k]; the highest if ``n`` is below zero."""
    if n < 0:
        return -outer_mean(-draws, weights, -n)
    if weights.size == 1:
        return weights[0] * draws.min(axis=1)
    return np.einsum("tms,m->ts", np.sort(draws, axis=1)[:, : weights.size], weights)
