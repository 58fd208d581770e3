"""Journal of decisions and rewards on disk, for one process or many."""

from __future__ import annotations

from .audit import Verification
from .journal import Journal

__all__ = ["Journal", "Verification"]
