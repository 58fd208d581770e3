"""Evaluation of policies from logs: off-policy estimates, replay of learners, choice of settings."""

from __future__ import annotations

from .confidence import ConfidenceSequence, confidence_sequence
from .confidence_differences import DifferenceSequence
from .episodes.result import EpisodeEstimates
from .estimates import OffPolicyEstimates
from .learned_policy import LearnedPolicy
from .loggers import balanced_propensities
from .off_policy import off_policy
from .policy_learning import learn_policy
from .replay import Replay, replay
from .slates import SlateEstimates, off_policy_slates
from .tune import Tuning, tune

__all__ = [
    "ConfidenceSequence",
    "DifferenceSequence",
    "EpisodeEstimates",
    "LearnedPolicy",
    "OffPolicyEstimates",
    "Replay",
    "SlateEstimates",
    "Tuning",
    "balanced_propensities",
    "confidence_sequence",
    "learn_policy",
    "off_policy",
    "off_policy_slates",
    "replay",
    "tune",
]
