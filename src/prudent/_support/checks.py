"""Checks at the edge of the library. Kernels trust what has passed here.

Every function returns its argument in the form that the library works with, or raises one of our errors. The message
names the argument (``name``), the place in it and the value there. ``error`` says whose fault it is: ``ParameterError``
for a setting, ``DataError`` for data, ``ModelError`` and ``PosteriorError`` for what defines a model or a belief.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError, ParameterError, PrudentError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
SUM_TOLERANCE = 1e-9  # how far the sum of a distribution may be from one


# -- numbers -----------------------------------------------------------------------------------------------


def risk_level(alpha: Any, name: str = "alpha", *, cautious: bool = False) -> float:
    """Return ``alpha`` as a float in (-1, 1), where minus zero is zero; or in [0, 1), if it must be ``cautious``.

    This and ``risk_levels`` are the only places that know what a level may be.
    """
    if cautious:
        hint = "; there is no optimism here"
        return (
            _number(alpha, name, "a risk level in [0, 1)", lambda level: 0.0 <= level < 1.0, "alpha-range", hint) + 0.0
        )
    return _number(alpha, name, "a risk level in (-1, 1)", lambda level: -1.0 < level < 1.0, "alpha-range", _DIAL) + 0.0


def risk_levels(alpha: Any, name: str = "alpha") -> FloatArray:
    """Return risk levels in (-1, 1) as an array, in which minus zero is zero."""
    levels = finite_array(alpha, name, error=ParameterError)
    wrong = abs(levels) >= 1.0
    if wrong.any():
        risk_level(levels[wrong][0], name + first_index(wrong))  # which raises
    return levels + 0.0


_DIAL = "; 0 is the mean, 0.9 the mean of the worst tenth, -0.9 that of the best tenth"


def discount_factor(discount: Any, *, one: bool = False) -> float:
    """Return ``discount`` as a float in [0, 1), or in [0, 1] if it may be ``one``."""
    within = "[0, 1]" if one else "[0, 1)"
    return _number(
        discount,
        "discount",
        f"a discount factor in {within}",
        lambda number: 0.0 <= number < 1.0 or (one and number == 1.0),
        "discount-range",
    )


def probability(value: Any, name: str) -> float:
    """Return ``value`` as a float in [0, 1]."""
    return _number(value, name, "a probability in [0, 1]", lambda number: 0.0 <= number <= 1.0, "probability-range")


def open_probability(value: Any, name: str) -> float:
    """Return ``value`` as a float in (0, 1): the chance that a guarantee fails, say."""
    return _number(value, name, "a probability in (0, 1)", lambda number: 0.0 < number < 1.0, "probability-range")


def positive(value: Any, name: str) -> float:
    """Return ``value`` as a finite float above zero."""
    return _number(value, name, "a positive number", lambda number: 0.0 < number < np.inf, "not-positive")


def _number(value: Any, name: str, meaning: str, fits: Callable[[float], bool], code: str, hint: str = "") -> float:
    try:
        # True is not one, and "0.9" not a number: whoever writes them has mixed up two arguments
        number = math.nan if isinstance(value, (bool, np.bool_, str, bytes)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if math.isnan(number):
        raise ParameterError(
            f"{name} must be {meaning}, got {value!r}{hint}", code="not-a-number", argument=name, value=value
        )
    if not fits(number):
        raise ParameterError(f"{name} must be {meaning}, got {number!r}{hint}", code=code, argument=name, value=number)
    return number


def flag(value: Any, name: str) -> bool:
    """Return a truth value."""
    if not isinstance(value, (bool, np.bool_)):
        raise ParameterError(
            f"{name} must be True or False, got {value!r}", code="not-a-bool", argument=name, value=value
        )
    return bool(value)


def whole_number(value: Any, name: str, minimum: int = 1, maximum: int | None = None) -> int:
    """Return ``value`` as an int between ``minimum`` and ``maximum``; floats and booleans are refused."""
    try:
        number = None if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise ParameterError(
            f"{name} must be a whole number, got {value!r}", code="not-an-integer", argument=name, value=value
        )
    if number < minimum:
        raise ParameterError(
            f"{name} must be at least {minimum}, got {number}", code="integer-range", argument=name, value=number
        )
    if maximum is not None and number > maximum:
        raise ParameterError(
            f"{name} must be at most {maximum}, got {number}", code="integer-range", argument=name, value=number
        )
    return number


# -- arrays ------------------------------------------------------------------------------------------------


def finite_array(
    values: Any, name: str, *, ndim: int | None = None, error: type[PrudentError] = DataError
) -> FloatArray:
    """Return ``values`` as a contiguous float64 array with no NaN or infinity."""
    try:
        array = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise error(
            f"{name} must be an array of numbers, got {type(values).__name__}", code="not-numbers", argument=name
        ) from None
    except OverflowError:
        raise error(
            f"{name} holds a whole number too large for a float, expected finite numbers",
            code="not-finite",
            argument=name,
        ) from None
    if np.ndim(values) == 0:  # ascontiguousarray makes a scalar one-dimensional
        array = array.reshape(())
    if ndim is not None and array.ndim != ndim:
        raise error(
            f"{name} must have {ndim} axes, got shape {array.shape}",
            code="wrong-shape",
            argument=name,
            value=array.shape,
        )
    finite = np.isfinite(array)
    if not finite.all():
        refuse(~finite, array, name, "a finite number", error=error, code="not-finite")
    return array


def non_negative_array(
    values: Any, name: str, *, ndim: int | None = None, error: type[PrudentError] = DataError
) -> FloatArray:
    """Return ``values`` as a contiguous float64 array of finite numbers >= 0."""
    array = finite_array(values, name, ndim=ndim, error=error)
    refuse(array < 0.0, array, name, "a number >= 0", error=error, code="negative")
    return array


def distribution(
    values: Any, name: str, *, ndim: int | None = None, error: type[PrudentError] = DataError
) -> FloatArray:
    """Return ``values`` as float64 probabilities: none is negative, and the last axis sums to one within 1e-9."""
    array = non_negative_array(values, name, ndim=ndim, error=error)
    require_sum_of_one(array, name, error=error)
    return array


def require_sum_of_one(array: FloatArray, name: str, *, error: type[PrudentError] = DataError) -> None:
    """Raise unless the last axis sums to one within 1e-9."""
    total = np.asarray(array.sum(axis=-1))
    off = np.abs(total - 1.0) > SUM_TOLERANCE
    if off.any():
        value, place = float(total[off][0]), first_place(off)
        message = f"{name}{first_index(off)} sums to {value!r}, expected 1"
        raise error(message, code="sum-not-one", argument=name, index=place, value=value)


def index_array(values: Any, name: str, size: int, error: type[PrudentError] = DataError) -> IntArray:
    """Return ``values`` as an int64 array of indices in ``range(size)``; negative ones are refused."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise error(
            f"{name} must hold whole numbers, got {type(values).__name__}", code="not-an-integer", argument=name
        ) from None
    if array.dtype.kind not in "iu" and array.size:
        raise error(f"{name} must hold whole numbers, got {array.dtype} values", code="not-an-integer", argument=name)
    outside = (array < 0) | (array >= size)
    refuse(outside, array, name, f"a whole number from 0 to {size - 1}", error=error, code="index-range")
    return np.ascontiguousarray(array, dtype=np.int64).reshape(array.shape)


def generator(rng: Any, name: str = "rng") -> np.random.Generator:
    """Return ``rng`` as a Generator: one is passed through, an int is a seed, None asks the system."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise ParameterError(
            f"{name} must be a numpy Generator, a seed or None, got {rng!r}",
            code="not-an-rng",
            argument=name,
            value=rng,
        ) from None


def refuse(
    bad: Any,
    array: npt.NDArray[Any],
    name: str,
    expected: str,
    *,
    error: type[PrudentError] = DataError,
    code: str = "value-range",
) -> None:
    """Raise if ``bad`` is True somewhere: ``name[3, 1] is VALUE, expected ...``."""
    mask = np.asarray(bad)
    if mask.any():
        value = array[mask][0]
        message = f"{name}{first_index(mask)} is {value}, expected {expected}"
        raise error(message, code=code, argument=name, index=first_place(mask), value=value, expected=expected)


def first_index(mask: BoolArray) -> str:
    """Return the place of the first True, written as an index: ``[3, 1]`` (empty for a scalar)."""
    return str(list(first_place(mask))) if mask.ndim else ""


def first_place(mask: BoolArray) -> tuple[int, ...]:
    """Return the index of the first True."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), mask.shape)) if mask.ndim else ()


def number_array(values: Any, name: str, *, error: type[PrudentError] = DataError) -> FloatArray:
    """Return ``values`` as a float64 array; NaN passes, for callers that do not look at every entry."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise error(
            f"{name} must be an array of numbers, got {type(values).__name__}", code="not-numbers", argument=name
        ) from None
    except OverflowError:
        raise error(f"{name} holds a whole number too large for a float", code="not-finite", argument=name) from None


def integer_array(
    values: Any, name: str, *, ndim: int, error: type[PrudentError] = DataError
) -> npt.NDArray[np.integer[Any]]:
    """Return ``values`` as an array of some integer type; floats are refused."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise error(
            f"{name} must be an array of whole numbers, got {type(values).__name__}",
            code="not-an-integer",
            argument=name,
        ) from None
    if array.dtype.kind not in "iu":
        raise error(
            f"{name} must be an array of whole numbers, got dtype {array.dtype}", code="not-an-integer", argument=name
        )
    if array.ndim != ndim:
        raise error(
            f"{name} must have {ndim} axes, got shape {array.shape}",
            code="wrong-shape",
            argument=name,
            value=array.shape,
        )
    return array


def mask_array(
    values: Any, name: str, shape: tuple[int, ...], letters: str, *, error: type[PrudentError] = DataError
) -> BoolArray:
    """Return a copy of ``values`` as a bool array of this shape; 0 and 1 pass for False and True."""
    try:
        array = np.array(values)
    except ValueError:
        raise error(
            f"{name} must be an array of bools, got {type(values).__name__}", code="not-a-bool", argument=name
        ) from None
    if array.dtype != np.bool_:
        strange = ~np.isin(array, (0, 1))
        if array.dtype.kind not in "iuf" or strange.any():
            found = repr(array[strange].tolist()[0]) if strange.any() else f"dtype {array.dtype}"
            message = f"{name}{first_index(strange)} is {found}, expected True or False"
            raise error(message, code="not-a-bool", argument=name, index=first_place(strange))
    require_shape(array, name, shape, letters, error=error)
    return array.astype(np.bool_)


def require_shape(
    array: npt.NDArray[Any],
    name: str,
    shape: tuple[int, ...],
    letters: str,
    *,
    error: type[PrudentError] = DataError,
) -> None:
    """Raise unless ``array`` has this shape; ``letters`` names its axes, as in ``[S, A]``."""
    if array.shape != shape:
        message = f"{name} has shape {array.shape}, expected {letters} = {shape}"
        raise error(message, code="wrong-shape", argument=name, value=array.shape, expected=shape)
