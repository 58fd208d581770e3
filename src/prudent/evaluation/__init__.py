"""Evaluation of policies from logs: off-policy estimates, replay of learners, choice of settings."""

from __future__ import annotations

from .confidence import ConfidenceSequence, confidence_sequence
from .confidence_differences import DifferenceSequence
from .episodes.result import EpisodeEstimates
from .estimates import OffPolicyEstimates
from .off_policy import off_policy
from .replay import Replay, replay
from .tune import Tuning, tune

__all__ = [
    "ConfidenceSequence",
    "DifferenceSequence",
    "EpisodeEstimates",
    "OffPolicyEstimates",
    "Replay",
    "Tuning",
    "confidence_sequence",
    "off_policy",
    "replay",
    "tune",
]
