"""Checks at the edge of the library. Kernels trust what has passed here.

Every function returns its argument in the form that the library works with, or raises one of our errors. The message
names the argument (``name``), the index in it and the value there. ``error`` says whose fault it is: ``ParameterError``
for a setting, ``DataError`` for data, ``ModelError`` and ``PosteriorError`` for what defines a model or a belief.
"""

from __future__ import annotations

import inspect
import math
import operator
import reprlib
from collections.abc import Callable, Collection, Hashable, Sized
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ..errors import DataError, ModelError, ParameterError, PrudentError
from .memory import require_memory

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Kind = TypeVar("Kind")
SUM_TOLERANCE = 1e-9  # how far the sum of a distribution may be from one


# -- numbers -----------------------------------------------------------------------------------------------


def risk_level(alpha: Any, name: str = "alpha", *, cautious: bool = False) -> float:
    """Return ``alpha`` as a float in (-1, 1), where minus zero is zero; or in [0, 1), if it must be ``cautious``.

    This and ``risk_levels`` are the only functions that know what a level may be.
    """
    within, hint = ("[0, 1)", _NO_OPTIMISM) if cautious else ("(-1, 1)", _DIAL)

    def fits(level: float) -> bool:
        return -1.0 < level < 1.0 and not (cautious and level < 0.0)

    return _number(alpha, name, f"a risk level in {within}", fits, "alpha-range", hint) + 0.0


def risk_levels(alpha: Any, name: str = "alpha") -> FloatArray:
    """Return risk levels in (-1, 1) as an array, in which minus zero is zero."""
    levels = finite_array(alpha, name, error=ParameterError)
    wrong = abs(levels) >= 1.0
    if wrong.any():
        risk_level(levels[wrong][0], name + first_index(wrong))  # which raises
    return levels + 0.0


_NO_OPTIMISM = "; there is no optimism here"
_DIAL = "; 0 is the mean, 0.9 the mean of the worst tenth, -0.9 that of the best tenth"


def discount_factor(discount: Any, *, one: bool = False) -> float:
    """Return ``discount`` as a float in [0, 1), or in [0, 1] if it may be ``one``."""
    meaning = f"a discount factor in [0, 1{']' if one else ')'}"
    return _number(discount, "discount", meaning, lambda x: 0.0 <= x < 1.0 or (one and x == 1.0), "discount-range")


def probability(value: Any, name: str) -> float:
    """Return ``value`` as a float in [0, 1]."""
    return _number(value, name, "a probability in [0, 1]", lambda number: 0.0 <= number <= 1.0, "probability-range")


def open_probability(value: Any, name: str) -> float:
    """Return ``value`` as a float in (0, 1): the chance that a guarantee fails, say."""
    return _number(value, name, "a probability in (0, 1)", lambda number: 0.0 < number < 1.0, "probability-range")


def positive(value: Any, name: str) -> float:
    """Return ``value`` as a finite float above zero."""
    return _number(value, name, "a positive number", lambda number: 0.0 < number < np.inf, "not-positive")


def finite_number(value: Any, name: str) -> float:
    """Return ``value`` as a finite float."""
    return _number(value, name, "a finite number", math.isfinite, "not-finite")


def _number(value: Any, name: str, meaning: str, fits: Callable[[float], bool], code: str, hint: str = "") -> float:
    try:
        # True is not one, and "0.9" not a number: whoever writes them has mixed up two arguments
        number = math.nan if isinstance(value, (bool, np.bool_, str, bytes, np.complexfloating)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if math.isnan(number):
        message = f"{name} must be {meaning}, got {value!r}{hint}"
        raise ParameterError(message, code="not-a-number", argument=name, value=value)
    if not fits(number):
        raise ParameterError(f"{name} must be {meaning}, got {number!r}{hint}", code=code, argument=name, value=number)
    return number


def flag(value: Any, name: str) -> bool:
    """Return a truth value."""
    if not isinstance(value, (bool, np.bool_)):
        message = f"{name} must be True or False, got {value!r}"
        raise ParameterError(message, code="not-a-bool", argument=name, value=value)
    return bool(value)


def whole_number(
    value: Any, name: str, minimum: int = 1, maximum: int | None = None, *, memory: float | None = None
) -> int:
    """Return ``value`` as an int between ``minimum`` and ``maximum``; floats and booleans are refused.

    ``memory`` is how many bytes each unit takes: a number for which there is not enough memory is refused.
    """
    try:
        number = None if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        message = f"{name} must be a whole number, got {value!r}"
        raise ParameterError(message, code="not-an-integer", argument=name, value=value)
    if number < minimum or (maximum is not None and number > maximum):
        bound = f"at least {minimum}" if number < minimum else f"at most {maximum}"
        message = f"{name} must be {bound}, got {number}"
        raise ParameterError(message, code="integer-range", argument=name, value=number)
    if memory is not None:
        require_memory(memory * number if number < 2**60 else math.inf, name, number)
    return number


def require_scale(rewards: npt.ArrayLike, who: str, *, error: type[PrudentError] = ModelError) -> None:
    """Raise if the variance of returns would overflow or vanish in ``who``: rewards of 1e300, or all below 1e-75."""
    largest = float(np.abs(rewards).max(initial=0.0))
    message = f"the largest reward is {largest:g}: for {who} measure rewards in a unit of their own size"
    if largest > 1e75:
        raise error(message, code="overflow", argument="reward", value=largest)
    if 0.0 < largest < 1e-75:
        raise error(message, code="underflow", argument="reward", value=largest)


def one_of(value: Any, name: str, options: Collection[Any], *, error: type[PrudentError] = ParameterError) -> Any:
    """Return ``value`` if it is one of ``options``."""
    if not isinstance(value, Hashable) or value not in options:
        message = f"{name} must be one of {', '.join(map(repr, options))}, got {reprlib.repr(value)}"
        raise error(message, code="unknown-option", argument=name, value=value, expected=list(options))
    return value


def instance_of(
    value: Any, name: str, kind: type[Kind], hint: str = "", *, error: type[PrudentError] = ParameterError
) -> Kind:
    """Return ``value`` if it is a ``kind``. ``hint`` ends the message with what to do otherwise."""
    if not isinstance(value, kind):
        message = f"{name} must be of type {kind.__name__}, got {reprlib.repr(value)}{hint}"
        raise error(message, code="wrong-type", argument=name, value=value, expected=kind.__name__)
    return value


def items_of(values: Any, name: str, *, error: type[PrudentError] = ParameterError) -> list[Any]:
    """Return the items of a list or another iterable that is no text."""
    try:
        return list(None if isinstance(values, (str, bytes)) else values)  # type: ignore[arg-type]
    except TypeError:
        message = f"{name} must be a list, got {reprlib.repr(values)}"
        raise error(message, code="wrong-type", argument=name, value=values) from None


# -- arrays ------------------------------------------------------------------------------------------------


def axes_of(values: Any) -> int:
    """Return the number of axes; 1 for a list of lists of different lengths, which is no array.

    >>> axes_of(1.0), axes_of([[1.0]]), axes_of([[1.0], [1.0, 2.0]])
    (0, 2, 1)
    """
    try:
        return np.ndim(values)
    except ValueError:
        return 1


def finite_array(
    values: Any, name: str, *, ndim: int | None = None, error: type[PrudentError] = DataError
) -> FloatArray:
    """Return ``values`` as a contiguous float64 array with no NaN or infinity."""
    array = np.asarray(number_array(values, name, error=error), order="C")
    if ndim is not None:
        require_axes(array, name, ndim, error)
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


def require_sum_of_one(array: FloatArray, name: str, *, error: type[PrudentError] = DataError) -> FloatArray:
    """Raise unless the last axis sums to one within 1e-9; return the sums."""
    with np.errstate(over="ignore"):
        total = np.asarray(array.sum(axis=-1))
    off = np.abs(total - 1.0) > SUM_TOLERANCE
    if off.any():
        value = float(total[off][0])
        message = f"{name}{first_index(off)} sums to {value!r}, expected 1"
        raise error(message, code="sum-not-one", argument=name, index=first_place(off), value=value)
    return total


def index_array(values: Any, name: str, size: int, error: type[PrudentError] = DataError) -> IntArray:
    """Return ``values`` as an int64 array of indices in ``range(size)``; negative ones are refused."""
    array = _array_of("whole numbers", values, name, error, code="not-an-integer")
    if array.size:
        _require_integers(array, name, error)
    outside = (array < 0) | (array >= size)
    refuse(outside, array, name, f"a whole number from 0 to {size - 1}", error=error, code="index-range")
    return np.asarray(array, dtype=np.int64, order="C")


def generator(rng: Any, name: str = "rng") -> np.random.Generator:
    """Return ``rng`` as a Generator: one is passed through, an int is a seed, None asks the system."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        message = f"{name} must be a numpy Generator, a seed or None, got {rng!r}"
        raise ParameterError(message, code="not-an-rng", argument=name, value=rng) from None


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


def require_length(values: Sized, name: str, expected: int, per: str, *, error: type[PrudentError] = DataError) -> None:
    """Raise unless ``values`` has the expected length; ``per`` says one per what."""
    if len(values) != expected:
        message = f"{name} has {len(values)} entries, expected {expected}, one per {per}"
        raise error(message, code="wrong-shape", argument=name, value=len(values), expected=expected)


def first_index(mask: BoolArray) -> str:
    """Return the index of the first True as text: ``[3, 1]`` (empty for a scalar)."""
    return str(list(first_place(mask))) if mask.ndim else ""


def first_place(mask: BoolArray) -> tuple[int, ...]:
    """Return the index of the first True; nothing if the mask is empty."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), mask.shape)) if mask.ndim and mask.size else ()


def number_array(values: Any, name: str, *, error: type[PrudentError] = DataError) -> FloatArray:
    """Return ``values`` as a float64 array; NaN passes, for callers that do not look at every entry."""
    try:
        return _array_of("numbers", values, name, error, np.float64, code="not-numbers")
    except OverflowError:
        raise error(f"{name} holds a whole number too large for a float", code="not-finite", argument=name) from None


def integer_array(
    values: Any, name: str, *, ndim: int, error: type[PrudentError] = DataError
) -> npt.NDArray[np.integer[Any]]:
    """Return ``values`` as an array of some integer type; floats are refused."""
    array = _array_of("whole numbers", values, name, error, code="not-an-integer")
    _require_integers(array, name, error)
    require_axes(array, name, ndim, error)
    return array


def mask_array(
    values: Any, name: str, shape: tuple[int, ...], letters: str, *, error: type[PrudentError] = DataError
) -> BoolArray:
    """Return a copy of ``values`` as a bool array of this shape; 0 and 1 pass for False and True."""
    array = _array_of("bools", values, name, error, code="not-a-bool")
    strange = ~np.isin(array, (0, 1))
    if array.dtype.kind not in "biuf" or strange.any():
        value = repr(array[strange].tolist()[0]) if strange.any() else f"dtype {array.dtype}"
        message = f"{name}{first_index(strange)} is {value}, expected True or False"
        raise error(message, code="not-a-bool", argument=name, index=first_place(strange))
    require_shape(array, name, shape, letters, error=error)
    return array.astype(np.bool_)


def _array_of(
    what: str, values: Any, name: str, error: type[PrudentError], dtype: type | None = None, *, code: str
) -> npt.NDArray[Any]:
    """Return ``values`` as an array, or raise an error that says what it should hold."""
    try:
        if dtype is not None and getattr(getattr(values, "dtype", None), "kind", "") == "c":  # NumPy would only warn
            raise TypeError
        return np.asarray(values, dtype=dtype)
    except (TypeError, ValueError):
        message = f"{name} must be an array of {what}, got {type(values).__name__}"
        raise error(message, code=code, argument=name) from None


def _require_integers(array: npt.NDArray[Any], name: str, error: type[PrudentError]) -> None:
    if array.dtype.kind not in "iu":
        message = f"{name} must hold whole numbers, got {array.dtype} values"
        raise error(message, code="not-an-integer", argument=name)


def require_axes(array: npt.NDArray[Any], name: str, ndim: int, error: type[PrudentError]) -> None:
    """Raise unless an array has ``ndim`` axes."""
    if array.ndim != ndim:
        message = f"{name} must have {ndim} axes, got shape {array.shape}"
        raise error(message, code="wrong-shape", argument=name, value=array.shape)


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


def takes(function: Callable[..., Any], count: int) -> bool:
    """Return whether a function can be called with so many positional arguments, as far as Python can tell.

    >>> takes(lambda state, action: None, 2), takes(lambda state: None, 2)
    (True, False)
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # it is not written in Python
        return True
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True
