"""Beliefs: what a bandit has learned, behind one interface.

A ``Belief`` learns, forgets, merges, gives the law of the next scores, and goes to and from a state file. A bandit
checks what users give and knows names; the belief does the rest. ``BELIEFS`` lists the members.
"""

from __future__ import annotations

from .arms import ArmBelief
from .base import Belief, Match
from .beta import BetaArms
from .gaussian import GaussianArms
from .glm import GlmArms
from .glm_items import GlmItems
from .hurdle import HurdleArms, HurdlePosterior
from .items import GaussianItems, ItemBelief
from .sparse import SparseArms
from .wide import WideArms

__all__ = [
    "BELIEFS",
    "ArmBelief",
    "Belief",
    "BetaArms",
    "GaussianArms",
    "GaussianItems",
    "GlmArms",
    "GlmItems",
    "HurdleArms",
    "HurdlePosterior",
    "ItemBelief",
    "Match",
    "SparseArms",
    "WideArms",
]

BELIEFS: dict[str, type[Belief]] = {
    "gaussian arms": GaussianArms,
    "glm arms": GlmArms,
    "beta arms": BetaArms,
    "hurdle arms": HurdleArms,
    "gaussian items": GaussianItems,
    "glm items": GlmItems,
    "sparse arms": SparseArms,
    "wide arms": WideArms,
}
"""Beliefs by name."""
