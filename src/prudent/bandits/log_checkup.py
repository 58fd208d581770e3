"""What the rows of a log tell beyond the sums that a bandit keeps.

Whether products or thresholds of features predict rewards (the search of ``interactions="auto"``, with a higher
hurdle); whether rewards of some arms are missing more often than those of others (a chi-square test); whether they come
later (the test of Kruskal and Wallis on ranks). The level of the last two is that of ``checkup``. Decisions whose
rewards may still come are left out: those younger than 99% of the delays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .._support.checks import BoolArray, FloatArray, IntArray
from ..data.source import TableSource
from ..errors import DataError
from .belief.terms import found_terms
from .checkup import FALSE_ALARM, Finding

_CAUTION = 16.0  # evidence that terms must have beyond their number
_MOST_ROWS = 4096
_FEW = 20  # rows of an arm in the test of delays
_RIPE = 0.99


def log_findings(
    log: Any, points: FloatArray, rows: IntArray, rewards: FloatArray, arms: Sequence[Any], names: Sequence[str]
) -> Iterator[Finding]:
    """Yield the findings on a log with contexts [T,D], arms by row [T], and rewards [T], NaN where there is none.

    ``names`` are those of the features. Delays are those between the columns ``time`` and ``reward_time``.
    """
    from scipy.stats import rankdata

    there = np.isfinite(rewards)
    held = TableSource(log, "log").column_names or ()
    times = delays = None
    if "time" in held and "reward_time" in held:
        names = "time", "reward_time"
        begun, ended = map(_seconds, TableSource(log, "log").cells(*names), names)
        times, delays = begun, np.where(there, ended - begun, np.nan)
    kept = np.flatnonzero(there)[-_MOST_ROWS:]
    if len(kept) >= 2 * points.shape[1]:
        ones = np.ones(len(kept))
        with np.errstate(all="ignore"):
            given = points[kept], rows[kept]
            terms = found_terms(*given, rewards[kept], ones, True, _CAUTION)
            ranked = found_terms(*given, rankdata(rewards[kept]), ones, True, _CAUTION) if terms.size else terms
        if terms.size and ranked.size:  # a few large rewards make terms of the one, but not of the other
            listed = ", ".join(terms.named(names)[:3])
            text = f'rewards depend on {listed}, which no linear model knows. Use interactions="auto".'
            yield Finding("interactions", text)
    ripe = np.ones(len(rows), dtype=np.bool_)
    if times is not None and delays is not None and np.isfinite(delays).any():
        ripe = times <= np.nanmax(times) - np.nanquantile(delays, _RIPE)
    yield from _missing(rows[ripe], there[ripe], arms)
    if delays is not None:
        yield from _late(rows, delays, arms)


def _seconds(column: Sequence[Any], name: str) -> FloatArray:
    """Return times as seconds, NaN where there is none."""
    if all(value is None or isinstance(value, (int, float)) for value in column):
        numbers = np.array([np.nan if value is None else float(value) for value in column])
        return np.where(np.isfinite(numbers), numbers, np.nan)
    import pandas

    try:
        times = pandas.to_datetime(pandas.Series(list(column)), utc=True, format="ISO8601")
        return ((times - pandas.Timestamp(0, tz="UTC")) / pandas.Timedelta(seconds=1)).to_numpy(dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        message = f"column {name!r} of the log holds what is no time: {error}"[:300]
        raise DataError(message, code="not-a-time", argument="log", column=name) from None


def _missing(rows: IntArray, there: BoolArray, arms: Sequence[Any]) -> Iterator[Finding]:
    from scipy.stats import chi2_contingency

    table = np.array([[(there & (rows == a)).sum(), (~there & (rows == a)).sum()] for a in range(len(arms))])
    own = np.flatnonzero(table.sum(axis=1) >= _FEW)
    if len(own) < 2 or not table[own].sum(axis=0).all():
        return
    expected = table[own].sum(axis=1)[:, np.newaxis] * table[own].sum(axis=0) / table[own].sum()
    own = own[expected.min(axis=1) >= 5.0]
    if len(own) < 2 or not chi2_contingency(table[own]).pvalue < FALSE_ALARM:
        return
    share = table[own, 1] / table[own].sum(axis=1)
    high, low = own[share.argmax()], own[share.argmin()]
    text = (
        f"{share.max():.0%} of the rewards of arm {arms[high]!r} are missing, and {share.min():.0%} of those of arm "
        f"{arms[low]!r}. If they are missing because they are poor, or 0, learn them as what they are."
    )
    yield Finding("missing", text)


def _late(rows: IntArray, delays: FloatArray, arms: Sequence[Any]) -> Iterator[Finding]:
    from scipy.stats import kruskal

    groups = {a: delays[(rows == a) & np.isfinite(delays)] for a in range(len(arms))}
    groups = {a: group for a, group in groups.items() if len(group) >= _FEW}
    every = np.concatenate(list(groups.values())) if groups else np.empty(0)
    if len(groups) < 2 or every.min() == every.max() or not kruskal(*groups.values()).pvalue < FALSE_ALARM:
        return
    medians = {a: float(np.median(group)) for a, group in groups.items()}
    slow, fast = max(medians, key=lambda a: medians[a]), min(medians, key=lambda a: medians[a])
    text = (
        f"rewards of arm {arms[slow]!r} come {medians[slow]:.4g} seconds after the decision, those of arm "
        f"{arms[fast]!r} after {medians[fast]:.4g} (medians). Until they come, the slower arm looks less tried than it "
        "is: learn only from decisions that are old enough for both."
    )
    yield Finding("delay", text)
