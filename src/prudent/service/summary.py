"""What the page shows of a slot: shares of arms and mean rewards over time, with bands that always hold."""

from __future__ import annotations

import time
from itertools import islice
from typing import Any

import numpy as np

from ..evaluation.confidence_sequences import Sums, interval_of_sums
from ..journal import Journal

_ROWS = 20_000  # decisions that are read, at most
_POINTS = 40  # of a curve


def summary(journal: Journal, hours: float, confidence: float = 0.95) -> dict[str, Any]:
    """Return counts, and curves of the decisions of the last hours.

    The band of an arm is a confidence sequence for the mean of its rewards in the period: it holds at all times
    together. Bounds of rewards are those of the kind of rewards, or else the lowest and highest seen, and then the band
    is approximate.
    """
    now = time.time()
    since = now - 3600.0 * hours
    rows = list(islice(journal.rows(since=since, damaged="skip"), _ROWS + 1))
    truncated = len(rows) > _ROWS
    rows = [row for row in rows[:_ROWS] if row.get("place", 0) == 0]
    kind = journal.bandit.reward_kind
    edges = np.linspace(rows[0]["time"], rows[-1]["time"], _POINTS + 1)[1:] if rows else np.empty(0)
    arms = sorted({str(row["arm"]) for row in rows})
    times = np.array([row["time"] for row in rows])
    chosen = np.array([str(row["arm"]) for row in rows])
    ends = np.searchsorted(times, edges, side="right") if rows else np.empty(0, dtype=int)
    rewards = np.array([np.nan if row["reward"] is None else float(row["reward"]) for row in rows])
    known = ~np.isnan(rewards)
    bounds = _bounds(kind, rewards[known])
    curves = {arm: _curve(chosen == arm, rewards, known, ends, bounds, confidence) for arm in arms}
    late = [row["reward_time"] - row["time"] for row in rows if row.get("reward_time") is not None]
    pending = [row["time"] for row in rows if row["reward"] is None]
    return {
        "since": since,
        "decisions": len(rows),
        "rewards": int(known.sum()),
        "truncated": truncated,
        "pending": len(pending),
        "oldest_pending_seconds": now - pending[0] if pending else 0.0,
        "delay_seconds": _quantiles(late),
        "confidence": confidence,
        "bounds": list(bounds) if bounds else None,
        "bounds_assumed": kind != "bernoulli",
        "times": edges.tolist(),
        "arms": curves,
    }


def _bounds(kind: str, rewards: Any) -> tuple[float, float] | None:
    if kind == "bernoulli":
        return 0.0, 1.0
    if len(rewards) == 0 or rewards.min() == rewards.max():
        return None
    return float(rewards.min()), float(rewards.max())


def _curve(
    mask: Any, rewards: Any, known: Any, ends: Any, bounds: tuple[float, float] | None, confidence: float
) -> dict[str, Any]:
    share, mean, low, high = [], [], [], []
    for end in ends:
        share.append(float(mask[:end].mean()) if end else 0.0)
        values = rewards[:end][mask[:end] & known[:end]]
        mean.append(float(values.mean()) if len(values) else None)
    counts = [int((mask[:end] & known[:end]).sum()) for end in ends]
    values = rewards[mask & known]
    if bounds is not None and len(values):
        asked = sorted({count for count in counts if count})
        by_count = _band(values, bounds, asked, confidence)
        low = [by_count[count][0] if count else None for count in counts]
        high = [by_count[count][1] if count else None for count in counts]
    return {
        "decisions": int(mask.sum()),
        "rewards": len(values),
        "share": share,
        "mean": mean,
        "low": low,
        "high": high,
    }


def _band(
    values: Any, bounds: tuple[float, float], counts: list[int], confidence: float
) -> dict[int, tuple[float, float]]:
    """Return limits for the mean after some numbers of rewards; see ``prudent.evaluation.confidence_sequences``."""
    low, width = bounds[0], bounds[1] - bounds[0]
    unit = (values - low) / width
    first, second = unit.cumsum(), (unit * unit).cumsum()
    found, best = {}, (0.0, 1.0)
    for n in counts:
        a, b = float(first[n - 1]), float(second[n - 1])

        def sums(m: Any, n: int = n, a: float = a, b: float = b) -> Sums:
            return Sums(a - n * m, b - 2.0 * m * a + n * m * m, -m, 1.0 - m, n)

        least, most = interval_of_sums(sums, a / n, 0.0, 1.0, 1.0, confidence, None)
        best = (max(best[0], float(least)), min(best[1], float(most)))
        found[n] = (low + width * best[0], low + width * best[1])
    return found


def _quantiles(values: list[float]) -> dict[str, float] | None:
    if not values:
        return None
    found = np.quantile(values, [0.5, 0.9, 0.99])
    return dict(zip(("p50", "p90", "p99"), map(float, found), strict=True))
