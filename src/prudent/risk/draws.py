"""CVaR of draws, and the lowest of many normal draws."""

from __future__ import annotations

import math

import numpy as np

from .._numerics.order_statistics import lowest_normals_rows
from .._support.checks import first_index, generator, non_negative_array, risk_level, whole_number
from .._support.memory import require_memory
from ..errors import DataError
from ..types import ArrayLike, FloatArray, RngLike
from .base import draws_along, plain
from .draw_rule import MOST_DRAWS
from .measures import CVaR, ModifiedCVaR


def cvar(draws: ArrayLike, alpha: float, axis: int = 0, weights: ArrayLike | None = None) -> float | FloatArray:
    """Return CVaR of draws: the mean of the lowest 1 - alpha of them.

    Of N equally likely draws it takes the m = N (1 - alpha) lowest, the last one by its fraction. At a negative level
    it is the mean of the highest 1 - |alpha|.

    Parameters
    ----------
    draws : array_like
        Draws, finite numbers.
    alpha : float
        Risk level in (-1, 1).
    axis : int, default=0
        Axis of the N draws.
    weights : array_like, optional
        Probabilities of the draws, not necessarily normalised: one per draw [N], or an array that broadcasts to the
        shape of `draws`. By default all draws are equally likely.

    Returns
    -------
    float or ndarray
        CVaR, in the shape of `draws` without `axis`.

    Raises
    ------
    ParameterError
        If `alpha` is not in (-1, 1) or `axis` does not exist.
    DataError
        If there is no draw, a number is not finite, or a weight is negative.

    Examples
    --------
    >>> cvar([4.0, 1.0, 3.0, 2.0], alpha=0.5)
    1.5
    >>> cvar([[4.0, 0.0], [1.0, 9.0], [3.0, 9.0]], alpha=0.5)      # the lowest draw and half of the next
    array([1.6667, 3.    ])
    >>> cvar([4.0, 1.0], alpha=0.5, weights=[1.0, 3.0])
    1.0
    """
    level = risk_level(alpha)
    if weights is None:
        return CVaR(level)(draws, axis)
    values, axis = draws_along(draws, axis)
    sign = CVaR(level).sign
    chances = np.moveaxis(_probability_weights(weights, values.shape, axis), axis, 0)
    low = sign * np.moveaxis(values, axis, 0)
    order = np.argsort(low, axis=0)
    low = np.take_along_axis(low, order, axis=0)
    chances = np.take_along_axis(chances, order, axis=0)
    mass = np.cumsum(chances, axis=0)
    tail = (1.0 - abs(level)) * mass[-1]
    # The max-form at the quantile. It is flat there, so rounding in the choice of the draw does no harm.
    position = np.argmax(mass >= tail, axis=0)
    quantile = np.take_along_axis(low, position[np.newaxis], axis=0)[0]
    shortfall = (chances * np.maximum(quantile - low, 0.0)).sum(axis=0)
    return plain(sign * (quantile - shortfall / tail))


def modified_cvar(draws: ArrayLike, alpha: float, axis: int = 0) -> float | FloatArray:
    """Return the paper's modified CVaR estimator of draws.

    Parameters
    ----------
    draws : array_like
        Draws, finite numbers.
    alpha : float
        Risk level in (-1, 1).
    axis : int, default=0
        Axis of the draws.

    Returns
    -------
    float or ndarray
        Estimate, in the shape of `draws` without `axis`.

    See Also
    --------
    ModifiedCVaR : The estimator as a risk measure.

    Examples
    --------
    >>> modified_cvar([3.0, 1.0, 2.0], alpha=0.5), modified_cvar([3.0, 1.0, 2.0], alpha=0.6)
    (1.0, 2.0)
    """
    return ModifiedCVaR(alpha)(draws, axis)


def _probability_weights(weights: ArrayLike, shape: tuple[int, ...], axis: int) -> FloatArray:
    """Return ``weights`` broadcast to ``shape``, the largest along ``axis`` scaled to one."""
    array = non_negative_array(weights, "weights")
    if array.ndim == 1:  # one weight per draw, whichever axis the draws are on
        array = array.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    try:
        array = np.broadcast_to(array, shape)
    except ValueError:
        message = f"weights has shape {np.shape(weights)}, which is not ({shape[axis]},) nor broadcasts to {shape}"
        fields = {"argument": "weights", "value": np.shape(weights), "expected": shape}
        raise DataError(message, code="wrong-shape", **fields) from None
    largest = array.max(axis=axis, keepdims=True)
    if not (largest > 0.0).all():
        index = first_index(np.squeeze(largest == 0.0, axis=axis))
        message = f"weights sum to zero along axis {axis}" + (f" at {index}" if index else "")
        raise DataError(message, code="sum-zero", argument="weights")
    return array / largest


def lowest_normals(n: int, m: int, size: int | tuple[int, ...] | None = None, rng: RngLike = None) -> FloatArray:
    """Draw the lowest of n independent standard normals; the cost does not grow with n.

    Parameters
    ----------
    n : int
        Number of normals, at most 2**53.
    m : int
        How many of the lowest are drawn, at most `n`.
    size : int or tuple of int, optional
        Independent repetitions, in the leading axes. By default there is one, without an axis.
    rng : RngLike, optional
        Seed or Generator.

    Returns
    -------
    ndarray of shape (*size, m)
        The `m` lowest normals, ascending along the last axis.

    Raises
    ------
    ParameterError
        If `n` or `m` is out of range.

    Examples
    --------
    >>> lowest = lowest_normals(10**12, 2, size=1000, rng=7)
    >>> lowest.shape, bool((lowest[:, 0] <= lowest[:, 1]).all())
    ((1000, 2), True)
    """
    n = whole_number(n, "n", maximum=MOST_DRAWS)
    m = whole_number(m, "m", maximum=n)
    lengths = () if size is None else size if isinstance(size, tuple) else (size,)
    shape = (*(whole_number(length, "size", minimum=0) for length in lengths), m)
    require_memory(8.0 * math.prod(shape), "size", size)
    draws = generator(rng).random(shape)
    lowest_normals_rows(draws.reshape(-1, m), n)
    return draws
