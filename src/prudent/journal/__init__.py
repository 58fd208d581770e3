"""Decisions and rewards on disk: written before they count, for one process or many."""

from __future__ import annotations

from .journal import Journal

__all__ = ["Journal"]
