"""Evaluation of policies from logs of bandits: off-policy estimates, replay of learners, choice of settings."""

from __future__ import annotations

from .confidence_sequences import confidence_sequence
from .estimates import OffPolicyEstimates
from .off_policy import off_policy
from .replay import Replay, replay
from .tune import Tuning, tune

__all__ = ["OffPolicyEstimates", "Replay", "Tuning", "confidence_sequence", "off_policy", "replay", "tune"]
