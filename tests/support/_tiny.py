"""The experiments at a size for tests."""

from __future__ import annotations

import hashlib
from pathlib import Path

from prudent.reproduction import STUDIES, Scale

TINY = Scale(
    "tiny",
    bandit_replications=6,
    horizon=200,
    lake_replications=4,
    lake_looks=2,
    few_lakes=2,
    episodes=24,
    long_replications=3,
    few_long=2,
    long_episodes=40,
    limit_replications=4,
    sizes=(200, 1000),
    draws=50,
    beyond_replications=2,
    beyond_episodes=4,
    schedule_replications=3,
    schedule_episodes=12,
    few_schedules=2,
    schedule_long_episodes=40,
    timing_replications=2,
    timing_episodes=3,
    loop_episodes=1,
    static_replications=3,
    static_timed=2,
    learning_replications=3,
)
REPEATABLE = [name for name, study in STUDIES.items() if not any(run.timed for run in study.plan(TINY).values())]


def digests(out: Path) -> dict[str, str]:
    """Return the SHA-256 of every dataset."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(out.glob("*.nc"))}
