"""Laws of the scores that decide: what they draw, and the exact probability of every arm.

A ``prudent.bandits.belief.Belief`` gives the law of the next decision. ``LAWS`` lists the members.
"""

from __future__ import annotations

from .base import Chances, Law
from .beta import BetaLaw
from .joint import JointLaw
from .normal import NormalLaw, NormalRows

__all__ = ["LAWS", "BetaLaw", "Chances", "JointLaw", "Law", "NormalLaw", "NormalRows"]

LAWS: dict[str, type[Law]] = {"normal": NormalLaw, "rows": NormalRows, "beta": BetaLaw, "joint": JointLaw}
"""Laws of scores by name."""
