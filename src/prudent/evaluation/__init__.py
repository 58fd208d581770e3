"""Evaluation of policies from logs: off-policy estimates, replay of learners, choice of settings."""

from __future__ import annotations

from .confidence_sequences import confidence_sequence
from .episodes.result import EpisodeEstimates
from .estimates import OffPolicyEstimates
from .off_policy import off_policy
from .replay import Replay, replay
from .tune import Tuning, tune

__all__ = [
    "EpisodeEstimates",
    "OffPolicyEstimates",
    "Replay",
    "Tuning",
    "confidence_sequence",
    "off_policy",
    "replay",
    "tune",
]
