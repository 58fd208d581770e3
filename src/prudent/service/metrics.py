"""Metrics for Prometheus.

A request adds to plain numbers; ``prometheus_client`` writes them when somebody asks. Its own counters take a lock and
check labels at each step, which is several microseconds of a decision. All counts are made in the thread of the event
loop; values of gauges are replaced whole.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_BOUNDS = [*map(str, _SECONDS), "+Inf"]
Labels = tuple[str, ...]


class Metrics(Collector):
    """Counts and gauges of a server, in a registry of their own."""

    def __init__(self) -> None:
        self._decisions: dict[tuple[str, Any, str], int] = defaultdict(int)  # slot, arm, answer
        self._rewards: dict[Labels, int] = defaultdict(int)  # slot, status
        self._requests: dict[tuple[str, int], int] = defaultdict(int)  # path, status
        self._seconds: dict[str, list[int]] = defaultdict(lambda: [0] * len(_BOUNDS))  # path
        self._sums: dict[str, float] = defaultdict(float)  # path
        self._explored: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])  # slot: sum of 1 - propensity, count
        self._gauges: dict[str, dict[Labels, float]] = {
            "lag_entries": {}, "lag_seconds": {}, "pending": {}, "findings": {}
        }  # fmt: skip
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests[path, status] += 1
        self._seconds[path][bisect_left(_SECONDS, seconds)] += 1
        self._sums[path] += seconds

    def decided(self, slot: str, arm: Any, answer: str, propensity: float | None) -> None:
        """Count a decision."""
        self._decisions[slot, arm, answer] += 1
        if propensity is not None:
            explored = self._explored[slot]
            explored[0] += max(0.0, 1.0 - propensity)
            explored[1] += 1.0

    def rewarded(self, slot: str, status: str) -> None:
        """Count a reward."""
        self._rewards[slot, status] += 1

    def measured(self, slot: str, lag_entries: int, lag_seconds: float, pending: int, kinds: list[str]) -> None:
        """Set the gauges of a slot; a kind of finding that was found before and is not any more gets 0."""
        for name, value in (("lag_entries", lag_entries), ("lag_seconds", lag_seconds), ("pending", pending)):
            self._gauges[name][slot,] = value
        findings = {key: 0.0 if key[0] == slot else count for key, count in self._gauges["findings"].items()}
        self._gauges["findings"] = findings | {(slot, kind): float(kinds.count(kind)) for kind in kinds}

    def collect(self) -> Iterator[Any]:
        """Yield what ``prometheus_client`` writes."""
        families: list[tuple[str, str, list[str], dict[Any, int]]] = [
            ("decisions", "Decisions by slot, arm (empty for items) and answer", ["slot", "arm", "answer"],
             self._decisions),
            ("rewards", "Rewards by slot and answer", ["slot", "status"], self._rewards),
            ("requests", "Requests by path and HTTP status", ["path", "status"], self._requests),
        ]  # fmt: skip
        for name, text, labels, counts in families:
            counter = CounterMetricFamily(f"prudent_{name}", text, labels=labels)
            totals: dict[Labels, int] = defaultdict(int)  # arms 1 and "1" have one label
            for key, count in list(counts.items()):
                totals[tuple(map(str, key))] += count
            for shown, count in totals.items():
                counter.add_metric(shown, count)
            yield counter
        histogram = HistogramMetricFamily("prudent_request_seconds", "Time to answer", labels=["path"])
        for path, numbers in list(self._seconds.items()):
            total, buckets = 0, []
            for bound, count in zip(_BOUNDS, numbers, strict=True):
                total += count
                buckets.append((bound, total))
            histogram.add_metric([path], buckets, self._sums[path])
        yield histogram
        shares = {(slot,): total / count for slot, (total, count) in list(self._explored.items())}
        for name, text, labels, values in (
            ("lag_entries", "Entries that the replica has not learned", ["slot"], self._gauges["lag_entries"]),
            ("lag_seconds", "Age of the oldest such entry", ["slot"], self._gauges["lag_seconds"]),
            ("pending", "Decisions without a learned reward", ["slot"], self._gauges["pending"]),
            ("findings", "Findings of check by kind", ["slot", "kind"], self._gauges["findings"]),
            ("exploration_share", "Mean of one minus propensity since the start", ["slot"], shares),
        ):
            gauge = GaugeMetricFamily(f"prudent_{name}", text, labels=labels)
            for shown, value in list(values.items()):
                gauge.add_metric(shown, value)
            yield gauge

    def text(self) -> bytes:
        """Return the page of metrics."""
        return generate_latest(self._registry)
