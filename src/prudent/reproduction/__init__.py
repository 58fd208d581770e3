"""The experiments of the paper: studies, a runner that survives interruptions, claims and the report."""

from __future__ import annotations

from .claims import Claim, Verdict
from .runner import conclude, judge, load, run
from .scale import SCALES, Scale
from .studies import STUDIES
from .study import Study
from .sweep import compared, sweep

__all__ = [
    "SCALES",
    "STUDIES",
    "Claim",
    "Scale",
    "Study",
    "Verdict",
    "compared",
    "conclude",
    "judge",
    "load",
    "run",
    "sweep",
]
