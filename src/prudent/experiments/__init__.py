"""The paper's experiments: what they are, a runner that survives interruptions, and what they say about its claims."""

from __future__ import annotations

from .claims import Claim
from .paper import EXPERIMENTS, SCALES, Experiment, judge
from .runner import load, run
from .spec import Scale

__all__ = ["EXPERIMENTS", "SCALES", "Claim", "Experiment", "Scale", "judge", "load", "run"]
