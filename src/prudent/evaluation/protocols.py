"""Types of the arguments that describe policies and reward models of bandits."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ..errors import ParameterError
from ..types import ArrayLike, PolicyFunction

if TYPE_CHECKING:
    import pandas

__all__ = ["Learner", "Regressor", "RewardModelLike", "TargetLike", "require_choice"]


class Learner(Protocol):
    """A bandit: an object that decides and learns, such as a ``prudent.LinearBandit``."""

    @property
    def arms(self) -> Any:
        """Names of the arms."""

    def select(self, context: Any, arms: Any = ..., /) -> Any:
        """Return a decision with an ``arm``."""

    def update(self, context: Any, arm: Any, reward: Any, /) -> Any:
        """Learn a reward."""


class Regressor(Protocol):
    """A regression or classification model as in scikit-learn."""

    def fit(self, X: Any, y: Any, /) -> Any:
        """Fit the model to contexts and rewards."""

    def predict(self, X: Any, /) -> Any:
        """Return predictions of rewards."""


TargetLike: TypeAlias = "ArrayLike | pandas.DataFrame | Mapping[Any, float] | PolicyFunction | Learner"
"""Policy of a bandit: a bandit, probabilities [T, A], arms [T], a function of contexts, an arm, or a dict."""
RewardModelLike: TypeAlias = "ArrayLike | pandas.DataFrame | Regressor | None"
"""Predictions [T, A], an unfitted object with fit and predict, or None for the default."""


def require_choice(value: str, choices: Collection[str], argument: str) -> None:
    """Raise unless ``value`` is one of the choices."""
    if value not in choices:
        raise ParameterError(
            f"{argument} must be one of {list(choices)}, got {value!r}",
            code="unknown-option",
            argument=argument,
            value=value,
        )
