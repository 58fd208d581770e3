"""Base class of posteriors: a prior, plus sums over data.

Two posteriors with the same prior merge by adding what each has learned, and are equal if priors and sums are equal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

from .._support.checks import FloatArray, first_index, first_place
from .._support.state import Arrays, Load, State, require_like, restore, write_state
from ..errors import DataError, PosteriorError
from ..types import PathLike, RngLike

_STATE_VERSION = 1


class Posterior(ABC):
    """Base class of conjugate posteriors, for extension.

    A subclass names its arrays in `sums` and `fixed` and defines `update`, `mean`, `variance`, `sample` and `summary`.
    In return it has `updated`, `copy`, `merge`, `save`, `load`, ``==`` and ``repr``. Its constructor takes the arrays
    of `fixed` in their order; otherwise it overrides `from_prior`.

    Attributes
    ----------
    sums : tuple of str
        Names of the array attributes that data is added to.
    fixed : tuple of str
        Names of the array attributes that hold the prior and other constants. If ``"x"`` is one of the `sums` and has
        a value before data, that value is in ``"prior_x"``.

    See Also
    --------
    DirichletPosterior : Unknown categorical distributions.
    BetaPosterior : Unknown success probabilities.
    NormalPosterior : Unknown means with known noise.
    LinearGaussianPosterior : Unknown coefficients of a linear reward.

    Examples
    --------
    A complete subclass is in the how-to guide "Your own parts".
    """

    sums: ClassVar[tuple[str, ...]]
    fixed: ClassVar[tuple[str, ...]]
    load = Load()

    @abstractmethod
    def update(self, *observed: Any, **named: Any) -> Self:
        """Add observations in place.

        Parameters
        ----------
        *observed, **named : object
            One observation or a batch, as the subclass defines them.

        Returns
        -------
        Posterior
            This posterior.

        Raises
        ------
        DataError
            If an observation is invalid. Nothing is changed then.
        """

    def updated(self, *observed: Any, **named: Any) -> Self:
        """Return a new posterior with the observations added; this one is not changed.

        Parameters
        ----------
        *observed, **named : object
            Observations, as for `update`.

        Returns
        -------
        Posterior
            The new posterior.

        Examples
        --------
        >>> from prudent.posteriors import BetaPosterior
        >>> one = BetaPosterior(1, 1)
        >>> one.updated((), 1), one
        (BetaPosterior(successes=2.0, failures=1.0), BetaPosterior(successes=1.0, failures=1.0))
        """
        return self.copy().update(*observed, **named)

    @abstractmethod
    def mean(self) -> FloatArray:
        """Return the posterior mean.

        Returns
        -------
        ndarray of float
            Mean of every unknown number.
        """

    @abstractmethod
    def variance(self) -> FloatArray:
        """Return the posterior variance.

        Returns
        -------
        ndarray of float
            Variance of every entry of `mean`.
        """

    @abstractmethod
    def sample(self, n: int, rng: RngLike = None) -> FloatArray:
        """Draw from the posterior.

        Parameters
        ----------
        n : int
            Number of draws N.
        rng : int, Generator or None, optional
            Source of randomness.

        Returns
        -------
        ndarray of float
            Draws [N, ...], each with the shape of `mean`.
        """

    @abstractmethod
    def summary(self) -> dict[str, Any]:
        """Return the names and values that ``repr`` prints.

        Returns
        -------
        dict of str to object
            Values by name, in order.
        """

    # -- what subclasses may override ----------------------------------------------------------------------

    @classmethod
    def from_prior(cls, *fixed: Any) -> Self:
        """Return the posterior before data, for `load`.

        Parameters
        ----------
        *fixed : ndarray
            The arrays of `fixed`, in order.

        Returns
        -------
        Posterior
            A posterior without data.
        """
        return cls(*fixed)

    def learned(self, name: str) -> FloatArray:
        """Return the part of a sum that is data, for `merge`.

        Parameters
        ----------
        name : str
            One of `sums`.

        Returns
        -------
        ndarray of float
            The sum without its value before data.
        """
        total: FloatArray = getattr(self, name)
        return total - getattr(self, f"prior_{name}") if f"prior_{name}" in self.fixed else total

    def combined(self, name: str, amount: FloatArray) -> FloatArray:
        """Return a sum with the data of another posterior added, for `merge`.

        Parameters
        ----------
        name : str
            One of `sums`.
        amount : ndarray of float
            What the other posterior has learned.

        Returns
        -------
        ndarray of float
            The new sum.
        """
        total: FloatArray = getattr(self, name)
        return total + amount

    def check(self) -> None:  # noqa: B027  # a hook: by default there is nothing more to check
        """Check the sums of a state file, which are finite and have the right shape already.

        Raises
        ------
        PosteriorError
            If no data can have these sums.
        """

    # -- copies and merging --------------------------------------------------------------------------------

    def copy(self) -> Self:
        """Return an equal posterior that learns independently.

        Returns
        -------
        Posterior
            The copy.
        """
        twin = object.__new__(type(self))
        twin.__dict__.update(
            {name: value.copy() if name.lstrip("_") in self.sums else value for name, value in self.__dict__.items()}
        )
        return twin

    def merge(self, other: Self) -> Self:
        """Return the posterior given the data of both.

        Parameters
        ----------
        other : Posterior
            A posterior of the same class with the same prior, which has learned from other data.

        Returns
        -------
        Posterior
            A new posterior.

        Raises
        ------
        PosteriorError
            If class or prior differ.

        Examples
        --------
        >>> from prudent.posteriors import BetaPosterior
        >>> one, two = BetaPosterior(1, 1).update((), 1), BetaPosterior(1, 1).update((), [0, 1])
        >>> one.merge(two)
        BetaPosterior(successes=3.0, failures=2.0)
        """
        if type(other) is not type(self):
            kinds = type(self).__name__, type(other).__name__
            text = f"cannot merge a {kinds[0]} with a {kinds[1]}"
            raise PosteriorError(text, code="wrong-type", value=kinds[1], expected=kinds[0])
        for name in self.fixed:
            mine, theirs = np.asarray(getattr(self, name)), np.asarray(getattr(other, name))
            if mine.shape != theirs.shape:
                text = f"cannot merge: {name} has shapes {mine.shape} and {theirs.shape}"
                raise PosteriorError(text, code="prior-mismatch", argument=name, value=theirs.shape)
            differ = np.asarray(mine != theirs)
            if differ.any():
                one, two = mine[differ][0], theirs[differ][0]
                text = f"cannot merge: {name}{first_index(differ)} is {one} here and {two} there"
                raise PosteriorError(text, code="prior-mismatch", argument=name, index=first_place(differ), value=two)
        merged = self.copy()
        for name in self.sums:
            setattr(merged, name, self.combined(name, other.learned(name)))
        return merged

    # -- state files ---------------------------------------------------------------------------------------

    def save(self, path: PathLike) -> None:
        """Write the posterior to a file, names included.

        The file is replaced atomically. Nothing in it can be executed. `load` of the same class reads it.

        Parameters
        ----------
        path : path-like
            Where to write.

        Examples
        --------
        >>> import tempfile
        >>> from prudent.posteriors import BetaPosterior
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     BetaPosterior([1.0, 2.0], 1.0).save(f"{folder}/chances.state")
        ...     BetaPosterior.load(f"{folder}/chances.state")
        BetaPosterior(successes=[1., 2.], failures=[1., 1.])
        """
        write_state(path, type(self).__name__, _STATE_VERSION, *self.state(), type(self).from_state)

    def state(self) -> State:
        """Return the values and arrays that `save` writes.

        Returns
        -------
        values : dict
            Values that JSON can hold.
        arrays : dict of str to ndarray
            The arrays of `sums` and `fixed`.
        """
        return {}, {name: np.asarray(getattr(self, name)) for name in (*self.sums, *self.fixed)}

    @classmethod
    def from_state(cls, values: dict[str, Any], arrays: Arrays) -> Self:
        """Return the posterior with a given state.

        Parameters
        ----------
        values : dict
            Values of `state`.
        arrays : dict of str to ndarray
            Arrays of `state`.

        Returns
        -------
        Posterior
            The posterior.

        Raises
        ------
        ValueError
            If no posterior has this state.
        """
        posterior = cls.from_prior(*(arrays[name] for name in cls.fixed))
        require_like(arrays, Posterior.state(posterior)[1])
        for name in cls.sums:
            setattr(posterior, name, arrays[name])
        posterior.check()
        return posterior

    @classmethod
    def read(cls, path: PathLike) -> Self:
        """Return the posterior of a state file; the same as `load` of the class.

        Parameters
        ----------
        path : path-like
            File that `save` wrote.

        Returns
        -------
        Posterior
            The posterior.
        """
        return restore(path, cls.__name__, _STATE_VERSION, cls.from_state)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in (*self.sums, *self.fixed))

    __hash__ = None  # type: ignore[assignment]  # it changes with data

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={_short(value)}" for name, value in self.summary().items())
        return f"{type(self).__name__}({shown})"


def _short(value: Any) -> str:
    text = np.array2string(np.asarray(value), separator=", ", threshold=12, edgeitems=2, floatmode="maxprec")
    return " ".join(text.split())


def equal_lengths(**arrays: Any) -> list[Any]:
    """Return numbers and arrays [T] as arrays of one shape."""
    lengths = {name: array.shape for name, array in arrays.items() if array.ndim}
    if len(set(lengths.values())) > 1 or any(len(shape) > 1 for shape in lengths.values()):
        listed = ", ".join(f"{name} {shape}" for name, shape in lengths.items())
        text = f"expected numbers or arrays [T] of equal length, got shapes {listed}"
        raise DataError(text, code="wrong-shape", value=lengths)
    return [np.atleast_1d(array) for array in np.broadcast_arrays(*arrays.values())]


def writable(array: FloatArray) -> FloatArray:
    """Return the array, or a copy if it is read-only, so that kernels are compiled for one kind of array."""
    return np.require(array, requirements=["C", "W"])
