"""The base of beliefs: what a bandit has learned of its arms or items, and what it says of the next decision."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np

from ..._support.checks import FloatArray, IntArray, first_index
from ..._support.state import Arrays
from ...errors import DataError, ParameterError
from ...posteriors.glm import LogisticPosterior, PoissonPosterior
from ...posteriors.linear import MOST_INFLATED
from ..kernels.layout import shape_of
from ..law.base import Law
from ..law.normal import ScoreRule
from ..settings import BanditSettings

NEW = -1  # as ``here`` of a match
LARGEST_MOMENT = 1e150  # of a posterior: its square must not overflow
ROUNDED = 0.05  # by which the variance of a coefficient may exceed that before data
POSTERIORS: dict[str, type[LogisticPosterior] | type[PoissonPosterior]] = {
    "bernoulli": LogisticPosterior,
    "poisson": PoissonPosterior,
}


class Match(NamedTuple):
    """One row of another belief to merge: where it is there, where it was since, and where it goes.

    Attributes
    ----------
    there : int
        Row of the other belief.
    was : int or None
        Row of the common ancestor, None if it had none.
    here : int or None
        Row of this belief; -1 to add one, None to leave it out.
    """

    there: int
    was: int | None
    here: int | None


class Belief(ABC):
    """What is known of arms or items: sums of their rewards, and the posterior that follows from them.

    A belief knows its arms by row, 0, 1, ...; the bandit knows their names. It trusts its input, which the bandit has
    checked. It has no random state. Beliefs are copied with ``copy.deepcopy``.

    Attributes
    ----------
    reward_kind : {"gaussian", "bernoulli", "poisson"}
        What rewards are.
    intercept : bool
        Whether contexts start with a constant feature.
    """

    reward_kind: str = "gaussian"
    intercept: bool
    expands = False  # whether terms are made of contexts
    keeps = False  # whether rows are kept

    def _expanded(self, point: FloatArray) -> FloatArray | None:
        """Return a context without the constant feature with terms, or None if it is not usable."""
        return point

    def _remember(self, point: FloatArray, row: int, reward: float, weight: float) -> None:  # noqa: B027
        """Keep a row."""

    # -- what is learned -----------------------------------------------------------------------------------

    @abstractmethod
    def learn(self, contexts: FloatArray, rows: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        """Learn rewards, all of them or none.

        Parameters
        ----------
        contexts : ndarray of float, [T, D]
            Contexts, constant feature included.
        rows : ndarray of int, [T]
            Rows of the arms.
        rewards, weights : ndarray of float, [T]
            Rewards, and how often each counts.
        """

    def may_refuse(self, contexts: FloatArray) -> bool:
        """Return whether ``learn`` may refuse contexts that are finite, because posteriors would be out of range.

        Parameters
        ----------
        contexts : ndarray of float, [T, D]
            Contexts.

        Returns
        -------
        bool
            False if it cannot.
        """
        return self.may_overflow(contexts)

    def may_overflow(self, contexts: FloatArray) -> bool:
        """Return whether a decision in finite contexts may be refused, because scores would not be finite.

        Parameters
        ----------
        contexts : ndarray of float, [T, D]
            Contexts.

        Returns
        -------
        bool
            False if it cannot.
        """
        return False

    @abstractmethod
    def forget(self, factor: float) -> None:
        """Multiply all evidence by a factor; the prior stays.

        Parameters
        ----------
        factor : float
            Number from 0 to 1.
        """

    def fit(self, contexts: FloatArray, rows: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        """Replace what was learned by the exact posterior of a log.

        Parameters
        ----------
        contexts : ndarray of float, [T, D]
            Contexts, constant feature included.
        rows : ndarray of int, [T]
            Rows of the arms.
        rewards, weights : ndarray of float, [T]
            Rewards, and how often each counts.
        """
        message = "refit is for clicks and counts: what is learned of normal rewards is exact already"
        raise ParameterError(message, code="refit-exact")

    @abstractmethod
    def contradiction(self, other: Self, since: Self | None, matches: Sequence[Match]) -> Match | None:
        """Return the first row by which ``other`` does not come from ``since``, or None.

        Parameters
        ----------
        other, since : Belief
            What is to be merged, and the common ancestor.
        matches : sequence of Match
            The rows of ``other``.

        Returns
        -------
        Match or None
            The row that contradicts it.
        """

    @abstractmethod
    def merge(self, other: Self, since: Self | None, matches: Sequence[Match]) -> None:
        """Add what another belief has learned since a common ancestor.

        Parameters
        ----------
        other, since : Belief
            What is to be merged, and the common ancestor; None if ``other`` began without data.
        matches : sequence of Match
            The rows of ``other``.
        """

    @property
    def any_reward(self) -> bool:
        """Whether every finite number is a reward."""
        return self.reward_kind not in POSTERIORS

    def require(self, reward: Any, values: FloatArray) -> None:
        """Raise an error unless these can be rewards.

        Parameters
        ----------
        reward : object
            What the user gave.
        values : ndarray of float, [T]
            The same as numbers.

        Raises
        ------
        DataError
            If one is not of the kind of rewards.
        """
        if self.any_reward:
            return
        strange, wanted = POSTERIORS[self.reward_kind].strange(values), POSTERIORS[self.reward_kind].wanted
        if strange.any():
            index, value = first_index(strange) if np.ndim(reward) else "", float(values[strange][0])
            message = f"reward{index} is {value:.17g}, expected {wanted} (rewards={self.reward_kind!r})"
            raise DataError(message, code="wrong-reward", argument="reward", value=value, expected=wanted)

    def check(self, settings: BanditSettings) -> None:  # noqa: B027
        """Raise an error if settings do not suit this belief.

        Parameters
        ----------
        settings : BanditSettings
            Settings of a bandit.

        Raises
        ------
        ParameterError
            If they do not.
        """

    # -- what it says --------------------------------------------------------------------------------------

    @abstractmethod
    def law(self, contexts: FloatArray, rows: IntArray, settings: BanditSettings, t: int) -> Law:
        """Return the law of the scores of decision ``t`` = 1, 2, ...

        Parameters
        ----------
        contexts : ndarray of float
            Contexts [T, D] of arms, or features [k, D] of items; without the constant feature for items.
        rows : ndarray of int, [k]
            Rows of the eligible arms; -1 for an item that is not known.
        settings : BanditSettings
            Settings of that decision.
        t : int
            Number of the decision.

        Returns
        -------
        Law
            Law of the scores.
        """

    @abstractmethod
    def coefficients(self) -> tuple[FloatArray, FloatArray]:
        """Return means [A, D] and covariances [A, D, D] of theta; infinite while the noise is unknown.

        Returns
        -------
        tuple of ndarray of float
            Means and covariances.
        """

    @abstractmethod
    def posterior(self, row: int) -> Any:
        """Return a copy of the posterior of theta.

        Parameters
        ----------
        row : int
            Row of the arm.

        Returns
        -------
        Posterior
            Of the kind that suits the rewards.
        """

    @property
    @abstractmethod
    def pulls(self) -> IntArray:
        """Number of rewards of every row, [A]."""

    @property
    @abstractmethod
    def n_rewards(self) -> int:
        """Number of rewards seen."""

    @property
    @abstractmethod
    def noise_sd(self) -> float | None:
        """Sd of the noise, given or learned; None while it is unknown, and for clicks and counts."""

    @property
    @abstractmethod
    def faded(self) -> bool:
        """Whether evidence has been forgotten, so that beliefs cannot be merged."""

    def summary(self) -> dict[str, Any]:
        """Return what is known, as plain arrays.

        Returns
        -------
        dict
            ``mean`` [A, D], ``covariance`` [A, D, D], ``pulls`` [A] and ``noise_sd``.
        """
        mean, covariance = self.coefficients()
        return {"mean": mean, "covariance": covariance, "pulls": self.pulls, "noise_sd": self.noise_sd}

    @property
    def axes(self) -> dict[str, str]:
        """Types and sizes of the arrays of a state file, as ``"float64 A D+1"``; empty if features cannot be added."""
        return {}

    def widened(
        self, values: dict[str, Any], arrays: Arrays, count: int, precision: float
    ) -> tuple[dict[str, Any], Arrays]:
        """Return a state of this belief with more features, which were 0 until now.

        Parameters
        ----------
        values : dict
            What ``values`` returned.
        arrays : dict of str to ndarray
            What ``arrays`` returned.
        count : int
            Number of new features.
        precision : float
            Prior precision of their coefficients.

        Returns
        -------
        tuple of dict
            Values and arrays for ``restore``.
        """
        return values, widened(arrays, self.axes, count, precision)

    def solve_again(self) -> None:  # noqa: B027
        """Take what was solved from the sums to be unknown, so that it is solved again when it is needed."""

    # -- state ---------------------------------------------------------------------------------------------

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """Return what was given when the belief was made: beliefs with equal options can be merged.

        Returns
        -------
        dict
            Values that JSON can hold.
        """

    @abstractmethod
    def values(self) -> dict[str, Any]:
        """Return the numbers of a state file that are not arrays.

        Returns
        -------
        dict
            Values that JSON can hold.
        """

    @abstractmethod
    def arrays(self) -> Arrays:
        """Return the arrays of a state file.

        Returns
        -------
        dict of str to ndarray
            Arrays by name.
        """

    @abstractmethod
    def restore(self, values: dict[str, Any], arrays: Arrays) -> None:
        """Take the state of a file.

        Parameters
        ----------
        values : dict
            What ``values`` returned.
        arrays : dict of str to ndarray
            What ``arrays`` returned.

        Raises
        ------
        ValueError
            If it cannot be the state of such a belief.
        """


def require_arrays(arrays: Arrays, schema: dict[str, str], sizes: dict[str, int]) -> None:
    """Raise unless arrays are as a schema declares them: a type and sizes, such as ``"float64 A D+1"``."""
    for name, declared in schema.items():
        kind, _, dims = declared.partition(" ")
        array, shape = arrays[name], shape_of(dims, sizes)
        expected = f"{name} is an array {array.shape} of {array.dtype}, expected {kind} {shape}"
        require_state(array.shape == shape and array.dtype == np.dtype(kind), expected)


def widened(arrays: Arrays, axes: dict[str, str], count: int, precision: float) -> Arrays:
    """Return the arrays of a state with ``count`` more features, of which nothing is known but the prior precision.

    Features are the last of an axis but for what ``axes`` adds to them: in ``D+1`` one number follows them.
    """
    found = dict(arrays)
    for name, declared in axes.items():
        for axis, size in enumerate(declared.split()[1:]):
            if size[0] == "D":
                end = found[name].shape[axis] - int(size[2:] or 0)
                found[name] = np.insert(found[name], [end] * count, 0.0, axis=axis)
    for name, value in (("prior_precision", precision), ("root", precision**-0.5)):
        if name in axes:
            own = arrays[name].shape[-1] - int(axes[name].split()[-1][2:] or 0) + np.arange(count)
            found[name][..., own, own] = value
    return found


def require_state(valid: Any, message: str) -> None:
    """Raise an error unless what a state file says can be."""
    if not valid:
        raise ValueError(message)


def largest_of(array: FloatArray) -> float:
    """Return the largest size of numbers, of which there are some, without room for the sizes of all."""
    return max(float(np.maximum.reduce(array, axis=None)), -float(np.minimum.reduce(array, axis=None)))


def all_usable(*arrays: np.ndarray[Any, Any]) -> bool:
    """Return whether all numbers of a posterior are finite and small enough to square."""
    return all(bool((np.abs(array) <= LARGEST_MOMENT).all()) for array in arrays)  # NaN is not


def prior_variances(priors: FloatArray) -> FloatArray:
    """Return the variances [J,D] of prior precisions [J,D,D], on whatever scales the features are."""
    sizes = np.sqrt(np.diagonal(priors, axis1=1, axis2=2))
    scaled = priors / (sizes[:, :, np.newaxis] * sizes[:, np.newaxis])
    try:
        with np.errstate(over="ignore"):  # of a precision that is nearly zero
            return np.asarray(np.diagonal(np.linalg.inv(scaled), axis1=1, axis2=2) / sizes**2)
    except np.linalg.LinAlgError:
        return np.full(sizes.shape, math.inf)


def ordinary(precision: FloatArray) -> bool:
    """Return whether a prior precision [D,D] can be inverted with enough digits left, and its moments squared."""
    variances = prior_variances(precision[np.newaxis])[0]
    diagonal = np.diagonal(precision)
    return all_usable(precision, variances) and bool((np.abs(diagonal * variances) <= MOST_INFLATED).all())


def longer(array: np.ndarray[Any, Any], count: int = 1) -> np.ndarray[Any, Any]:
    """Return the array with ``count`` more rows of zeros, in place if there is room behind it."""
    size, room = len(array) + count, array.base
    if not isinstance(room, np.ndarray) or room.shape[1:] != array.shape[1:] or len(room) < size:
        room = np.zeros((size + size // 4 + 8, *array.shape[1:]), dtype=array.dtype)
        room[: len(array)] = array
    room[len(array) : size] = 0
    return room[:size]


@lru_cache(256)  # it takes as long as a decision
def score_rule(settings: BanditSettings, link: int | None) -> ScoreRule:
    """Return how scores are made of draws by settings of one decision."""
    weights = tuple(settings.weights.tolist())
    return ScoreRule(settings.min_propensity, settings.signed_draws, weights, settings.clip, link, settings.share)
