"""The draw rule: how many draws a risk level needs."""

from __future__ import annotations

import math

from .._support.checks import risk_level

MOST_DRAWS = 2**53
_ROUNDING = 2.0**-52  # largest difference of a level from the decimal number that it stands for


def sample_size(alpha: float) -> int:
    """Return the number of draws that the paper uses at a risk level.

    It is n = ceil(1 / (1 - |alpha|)). A level within two units in the last place of 1 - 1/n counts as 1 - 1/n.

    Parameters
    ----------
    alpha : float
        Risk level in (-1, 1).

    Returns
    -------
    int
        Number of draws n.

    Raises
    ------
    ParameterError
        If `alpha` is not in (-1, 1).

    Examples
    --------
    >>> [sample_size(a) for a in (0, 0.5, 0.7, 0.8, 0.9, 0.99, 0.999, -0.9)]
    [1, 2, 4, 5, 10, 100, 1000, 10]
    """
    level = abs(risk_level(alpha))
    inverse = 1.0 / (1.0 - level)
    return round(inverse) if is_whole(level) else math.ceil(inverse)


def sample_size_is_exact(alpha: float) -> bool:
    """Return whether 1 / (1 - |alpha|) is a whole number, so that ``sample_size`` does not round up.

    Parameters
    ----------
    alpha : float
        Risk level in (-1, 1).

    Returns
    -------
    bool
        Whether the draw rule is exact at this level.

    Examples
    --------
    >>> sample_size_is_exact(0.9), sample_size_is_exact(0.7)
    (True, False)
    """
    return is_whole(abs(risk_level(alpha)))


def is_whole(level: float) -> bool:
    """Return whether 1 / (1 - level) is a whole number, for a level in [0, 1)."""
    return tail_count(round(1.0 / (1.0 - level)), level) == 1.0


def tail_count(n: int, level: float) -> float:
    """Return m = n (1 - level), as a whole number when only the rounding of ``level`` separates them."""
    count = n * (1.0 - level)
    nearest = float(round(count))
    if nearest >= 1.0 and abs(count - nearest) <= n * _ROUNDING:
        return nearest
    return count
