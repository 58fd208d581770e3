"""Journal of decisions and rewards in a store, for one process, many, or many machines."""

from __future__ import annotations

from .audit import Verification
from .journal import Journal
from .replica import Lag

__all__ = ["Journal", "Lag", "Verification"]
