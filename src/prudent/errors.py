"""What prudent raises. Every message names the place and the value at fault.

All of them are ``ValueError``s, so code that knows nothing of prudent still catches them.
"""

from __future__ import annotations

__all__ = [
    "CautionWarning",
    "ClusterError",
    "ConvergenceWarning",
    "DataError",
    "ModelError",
    "ParameterError",
    "PosteriorError",
    "PrudentError",
    "StateFileError",
]


class PrudentError(ValueError):
    """Base of every error that prudent raises on purpose."""


class ParameterError(PrudentError):
    """An argument is wrong: a risk level out of range, an unknown state, a policy that does not fit the model, ..."""


class ModelError(PrudentError):
    """A model contradicts itself: a row that does not sum to one, an unknown next state, ..."""


class PosteriorError(PrudentError):
    """The parameters of a prior or posterior are not those of a distribution, or do not fit the model."""


class DataError(PrudentError):
    """Observed data cannot have come from the model: an unknown state, an impossible transition, a NaN, ..."""


class StateFileError(PrudentError):
    """A state file is truncated, damaged, of another kind or made by a later version of prudent."""


class ClusterError(PrudentError):
    """A cluster failed: its scheduler is gone, its workers run other software, or all of them died of some work."""


class ConvergenceWarning(UserWarning):
    """A solver stopped before it reached the tolerance asked for, or an exact row is coarser than ten digits."""


class CautionWarning(UserWarning):
    """More caution bought nothing: a higher risk level earns less than a lower one, on average and in the tail."""
