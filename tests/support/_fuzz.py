"""Public calls with arguments that nobody tuned: ``_fuzz.py SEED BEGIN END``.

A call takes good arguments of an entry point (``_fuzz_calls``) and replaces some of them by strange ones: numbers from
1e-320 to 1e308, NaN, strings, None, arrays of wrong shape. It must end in an exception or a warning of ours, or in a
result that is finite and obeys the law of its entry point.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from prudent.errors import PrudentError, PrudentWarning

STRANGE = (
    *(0.0, 1.0, -1.0, 0.5, 1e-320, 1e-154, 1e-9, 1e9, 1e60, 1e154, 1e300, 1.7e308, -1e308),
    *(float("nan"), float("inf"), -float("inf"), 0, 1, -1, 3, 10**14, 10**30, -(10**30), True, None),
    *("", "a", "1", "0.5", "nan", "\0", b"x", (), [], {}, {1}, [1], [1, 2], [None], ["a", 1], [[1.0, 2.0]]),
    *([[1.0], [1.0, 2.0]], object(), 1j, np.datetime64("2020-01-01"), np.array("text"), np.array([], dtype=object)),
)
SIZES = (0, 1, 2, -1, 10**14, 10**30, 0.5, 2.0, 1e14, float("nan"), float("inf"), True, None, "3", [2], 1j)


class Call(NamedTuple):
    """An entry point, its good arguments, what its result must obey, and how often it is called."""

    function: Callable[..., Any]
    good: Callable[[np.random.Generator], dict[str, Any]]
    law: Callable[[dict[str, Any], Any], str]  # what is wrong with a result, or ""
    share: float = 1.0
    sizes: tuple[str, ...] = ()  # arguments that say how much work there is


def number(rng: np.random.Generator) -> float:
    """Return a number of any size and sign."""
    return float(10.0 ** rng.uniform(-320, 308)) * float(rng.choice([-1.0, 1.0]))


def strange(rng: np.random.Generator, good: Any) -> Any:
    """Return something else in place of a good argument."""
    kind = rng.integers(6)
    if isinstance(good, list) and good and isinstance(good[0], str):
        return [good[0], STRANGE[rng.integers(len(STRANGE))], *good[2:]] if kind > 2 else good[:-1]
    array = isinstance(good, np.ndarray) or (isinstance(good, list) and bool(good))
    if kind == 0 or (isinstance(good, str) and kind < 5):
        return STRANGE[rng.integers(len(STRANGE))]
    if kind == 1:
        return number(rng)
    if kind == 2 and array:  # of the same shape, with a strange entry
        changed = np.array(good, dtype=float)
        changed.reshape(-1)[rng.integers(changed.size)] = rng.choice([np.nan, np.inf, number(rng), -1.0, 0.0])
        return changed
    if kind == 3 and array:
        with np.errstate(over="ignore"):
            return np.asarray(good, dtype=float) * abs(number(rng))
    if kind == 4 and array:
        return np.full(np.shape(good), number(rng))
    if kind == 5 and isinstance(good, float):  # near by
        return float(np.nextafter(good, rng.choice([-np.inf, np.inf])))
    shape = tuple(rng.integers(0, 4, rng.integers(0, 4)).tolist())
    return rng.standard_normal(shape)


def drawn(calls: dict[str, Call], seed: int, index: int) -> tuple[str, dict[str, Any], np.random.Generator]:
    """Return an entry point and its arguments; the same for the same numbers."""
    rng = np.random.default_rng([seed, index])
    chances = np.array([call.share for call in calls.values()])
    name = list(calls)[rng.choice(chances.size, p=chances / chances.sum())]
    given = calls[name].good(rng)
    for key in given:
        if rng.random() < 0.35:
            lot = SIZES[rng.integers(len(SIZES))]
            given[key] = lot if key in calls[name].sizes else strange(rng, given[key])
    return name, given, rng


def one_call(calls: dict[str, Call], seed: int, index: int, *, alone: bool = True) -> str | None:
    """Make one call; return what is wrong with how it ended, or None.

    Where ``alone``, half of the calls go on after a warning of ours, and any other warning is wrong. Filters of
    warnings belong to the process, so that threads leave them as they are.
    """
    name, given, _ = drawn(calls, seed, index)
    shown = f"call {index}: {name}({' '.join(str(given).split())[:900]})"
    try:
        if alone and index % 2:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found = calls[name].function(**given)
            foreign = [str(each.message) for each in caught if not isinstance(each.message, PrudentWarning)]
            if foreign:
                return f"{shown} warned: {foreign[0]}"
            if caught:
                return None
        else:
            found = calls[name].function(**given)
    except (PrudentError, PrudentWarning):
        return None
    except Exception as error:  # anything else is a fault of ours
        return f"{shown} raised {type(error).__name__}: {error}"
    try:
        with warnings.catch_warnings() if alone else _nothing():
            if alone:
                warnings.simplefilter("ignore")
            wrong = calls[name].law(given, found)
    except Exception as error:
        wrong = f"its law raised {type(error).__name__}: {error}"
    return f"{shown} returned {str(found)[:300]}: {wrong}" if wrong else None


class _nothing:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def faults(calls: dict[str, Call], seed: int, begin: int, end: int) -> list[str]:
    """Return what is wrong with the calls of a range; warnings are errors in half of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = (one_call(calls, seed, index) for index in range(begin, end))
        return [fault for fault in found if fault is not None]


def main(seed: int, begin: int, end: int) -> int:
    """Make a range of calls, print what is wrong and how far it has come, and return the number of faults."""
    from _fuzz_calls import CALLS

    clock, wrong = time.monotonic(), 0
    for first in range(begin, end, 1_000):
        last = min(end, first + 1_000)
        for fault in faults(CALLS, seed, first, last):
            wrong += 1
            print(fault, flush=True)
        if last % 10_000 == 0 or last == end:
            spent = time.monotonic() - clock
            print(f"seed {seed}: calls {begin} to {last}, {wrong} faults, {spent:.0f} s", flush=True)
    return wrong


if __name__ == "__main__":
    raise SystemExit(min(1, main(*map(int, sys.argv[1:]))))
