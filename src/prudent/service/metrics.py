"""Metrics for Prometheus."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counters and gauges of a server, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        made: dict[str, Any] = {"registry": self.registry}
        self.decisions = Counter(
            "prudent_decisions",
            "Decisions by slot, arm (empty for items) and answer",
            ["slot", "arm", "answer"],
            **made,
        )
        self.rewards = Counter("prudent_rewards", "Rewards by slot and answer", ["slot", "status"], **made)
        self.requests = Counter("prudent_requests", "Requests by path and HTTP status", ["path", "status"], **made)
        self.seconds = Histogram("prudent_request_seconds", "Time to answer", ["path"], buckets=_SECONDS, **made)
        self.lag = Gauge("prudent_lag_entries", "Entries that the replica has not learned", ["slot"], **made)
        self.lag_seconds = Gauge("prudent_lag_seconds", "Age of the oldest such entry", ["slot"], **made)
        self.pending = Gauge("prudent_pending", "Decisions without a learned reward", ["slot"], **made)
        self.findings = Gauge("prudent_findings", "Findings of check by kind", ["slot", "kind"], **made)
        self.share = Gauge(
            "prudent_exploration_share", "Mean of one minus propensity since the start", ["slot"], **made
        )
        self._children: dict[tuple[Any, ...], Any] = {}
        self._explored: dict[str, tuple[float, int]] = {}
        self._kinds: dict[str, set[str]] = {}

    def child(self, metric: Any, *labels: str) -> Any:
        """Return the metric with labels, looked up once."""
        key = (id(metric), *labels)
        found = self._children.get(key)
        if found is None:
            found = self._children[key] = metric.labels(*labels)
        return found

    def decided(self, slot: str, arm: Any, answer: str, propensity: float | None) -> None:
        """Count a decision."""
        self.child(self.decisions, slot, str(arm), answer).inc()
        if propensity is not None:
            rest = max(0.0, 1.0 - propensity)
            total, count = self._explored.get(slot, (0.0, 0))
            self._explored[slot] = (total + rest, count + 1)

    def found(self, slot: str, kinds: list[str]) -> None:
        """Set the numbers of findings of a slot; a kind that was found before and is not any more gets 0."""
        known = self._kinds.setdefault(slot, set())
        known.update(kinds)
        for kind in known:
            self.child(self.findings, slot, kind).set(kinds.count(kind))

    def text(self) -> bytes:
        """Return the page of metrics."""
        for slot, (total, count) in self._explored.items():
            self.child(self.share, slot).set(total / count)
        return generate_latest(self.registry)
