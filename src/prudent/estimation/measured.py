"""States that look like measurements: a model of them has hardly any data for each, whatever its certificate says."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DataError
from .counts import often_tried, sums
from .rows import LogRows

AS_THEY_ARE = "as they are"
FEW_STATES = 20  # so many may have few data each
SELDOM = 10.0  # times that each state is left on average, for numbers that are not whole
ONCE_SHARE = 1.0 / 3.0  # of the admissible pairs
UNIQUE_SHARE = 0.9  # of the names
SHORT_MOVE = 0.25  # of the distance of typical rows: numbers that only name states move further


def refuse_measurements(read: LogRows, threshold: float) -> None:
    """Raise if the states of a log look like measurements, or like names of single rows.

    ``threshold`` is the number of times that an admissible pair was tried.
    """
    S, A = read.shape
    visits = sums(read.state * A + read.action, read.times, S * A).reshape(S, A)
    left = visits.sum(axis=1)
    acting = np.flatnonzero(left)
    if acting.size <= FEW_STATES:
        return
    names = read.by_state.names_at(acting)
    once = float(np.mean(visits[often_tried(visits, threshold)[0]] <= 1.0))
    shown = ", ".join(map(repr, names[:3]))
    if all(_is_number(name) for name in names):
        whole = all(_is_whole(name) for name in names)
        few = float(np.mean(left[acting] <= 2.0))
        if not whole and left[acting].mean() < SELDOM:
            reason = f"not whole, and each is left {left[acting].mean():.2g} times on average"
        elif few > 0.5:
            reason = f"of which {few:.0%} are left only once or twice"
        elif once > ONCE_SHARE and _moves_little(read):
            reason = (
                f"which change little from row to row, and {once:.0%} of the pairs of state and action were seen once"
            )
        else:
            return
        message = (
            f"the {acting.size:,} states of {read.held.table} look like measurements: numbers ({shown}, ...), "
            f"{reason}. Policies from so little data for each are not to be trusted. Make fewer states, by bins of "
            "these numbers or from columns with features=[...]; if they are states all the same: states='as they are'"
        )
    elif np.mean(left[acting] <= 1.0) > UNIQUE_SHARE:
        message = (
            f"of the {acting.size:,} states of {read.held.table} ({shown}, ...) {np.mean(left[acting] <= 1.0):.0%} are "
            "left only once: they look like names of single rows. A state must come back; if these do: "
            "states='as they are'"
        )
    else:
        return
    raise DataError(message, code="measured-states", argument="states", value=acting.size)


def _moves_little(read: LogRows) -> bool:
    """Return whether next states are near states as numbers are: then these are amounts and no mere labels."""
    names = read.by_state.names
    plain = (_is_number(name) and not isinstance(name, tuple) for name in names)
    numbers = np.array([float(name) if is_plain else np.nan for name, is_plain in zip(names, plain, strict=True)])  # type: ignore[arg-type]
    here, then = numbers[read.state], numbers[read.target]
    moved = abs(then - here)[~np.isnan(then - here)]
    apart = abs(np.sort(here) - np.roll(np.sort(here), here.size // 2))
    return bool(moved.size and np.median(moved) < SHORT_MOVE * np.nanmedian(apart))


def _is_number(name: Any) -> bool:
    if isinstance(name, tuple):
        return bool(name) and all(map(_is_number, name))
    return isinstance(name, int | float | np.integer | np.floating) and not isinstance(name, bool)


def _is_whole(name: Any) -> bool:
    return all(map(_is_whole, name)) if isinstance(name, tuple) else float(name).is_integer()
