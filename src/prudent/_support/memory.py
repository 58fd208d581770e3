"""Refusal of what does not fit into memory, before anything is allocated."""

from __future__ import annotations

import os

from ..errors import ParameterError


def memory() -> float:
    """Return the bytes of memory of this machine; infinity where the system does not tell."""
    if hasattr(os, "sysconf") and {"SC_PAGE_SIZE", "SC_PHYS_PAGES"} <= set(os.sysconf_names):
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    return float("inf")


def require_memory(needed: float, what: str, advice: str, **fields: object) -> None:
    """Raise if ``needed`` bytes are more than there are; ``advice`` says what to do."""
    if needed > memory():
        text = f"{what} need {needed / 2**30:.3g} GiB, more than there is; {advice}"
        raise ParameterError(text, code="not-enough-memory", **fields)
