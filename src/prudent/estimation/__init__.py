"""From a log of transitions to a model and its posterior."""

from __future__ import annotations

from .from_log import from_log
from .summary import LogSummary

__all__ = ["LogSummary", "from_log"]
