"""What a logged policy says about another one: off-policy evaluation, replay, tuning.

``off_policy`` weights the rows of a log to judge a fixed policy, ``replay`` judges a bandit that learns on the
way, ``tune`` compares settings of one. Logs are read by ``logs``, in blocks and in bounded memory; ``policies``
reads targets, ``reward_models`` predicts what an arm would have paid, ``moments`` holds the sums and intervals.
"""

from __future__ import annotations

from .off_policy import OffPolicyEstimates, off_policy
from .replay import Replay, replay
from .tune import Tuning, tune

__all__ = ["OffPolicyEstimates", "Replay", "Tuning", "off_policy", "replay", "tune"]
