"""The paper's experiments: what they are, a runner that survives interruptions, and what they say about its claims."""

from __future__ import annotations

from .intervals import Claim
from .runner import judge, load, run
from .scale import SCALES, Scale
from .studies import STUDIES
from .study import Study

__all__ = ["SCALES", "STUDIES", "Claim", "Scale", "Study", "judge", "load", "run"]
