"""What an argument ``reward_posterior`` stands for."""

from __future__ import annotations

from typing import TypeAlias

from .._support.checks import one_of, require_shape
from ..errors import PosteriorError
from ..models.uncertain import UncertainMDP
from ..posteriors.scalar import BetaPosterior, NormalPosterior

RewardsLike: TypeAlias = "NormalPosterior | BetaPosterior | str | None"
"""Unknown mean rewards [S, A]: a posterior; None for those of the model; "certain" for none."""


def unknown_rewards(model: UncertainMDP, given: RewardsLike) -> NormalPosterior | BetaPosterior | None:
    """Return the posterior of mean rewards that an argument ``reward_posterior`` stands for, or None."""
    if isinstance(given, str):
        one_of(given, "reward_posterior", ("certain",))
        return None
    found = model.reward_posterior if given is None else given
    if found is not None:
        require_shape(found.mean(), "reward_posterior", model.admissible.shape, "[S, A]", error=PosteriorError)
    return found
