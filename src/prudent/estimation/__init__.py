"""Estimation of a model and its posterior from a log of transitions."""

from __future__ import annotations

from ..models.log_summary import LogSummary, SupportChange
from .from_log import from_log

__all__ = ["LogSummary", "SupportChange", "from_log"]
