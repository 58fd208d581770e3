"""The certificate of a solution: MacQueen's bounds on the fixed point, and the floor that rounding sets.

Let T be a Bellman backup of ``prudent.planning.rows``, for control or for a fixed policy: monotone, and shifted by
g c when c is added to V. Here g = gamma (1 - leak), and the leak, what a row lacks to sum to one, lies in a known
interval (exactly zero under a posterior, unless outcomes end the process). With lo, hi the extremes of TV - V the fixed
point obeys MacQueen's bounds

    TV + lower <= V* <= TV + upper,      upper = hi g/(1 - g),   lower = lo g/(1 - g),

with the least leak where that widens the bounds and the greatest elsewhere. A solution is the middle of these bounds,
and ``error_bound`` half their distance plus what rounding can add. It holds for the numbers as given:

- g/(1 - g) is as wrong as g divided by 1 - g. Hence 1 - g is (1 - gamma) + gamma leak, where nothing cancels but what
  the model itself cancels, leaks come from compensated sums, and the quotients are rounded outwards. Rows that sum to
  more than 1/gamma leave no bound at all, and are refused.
- The backup's own error eta enters TV and the residual TV - V, in all as eta/(1 - g).

So the bound cannot fall below about eta/(1 - g), the floor.
"""

from __future__ import annotations

from typing import NamedTuple

from .._numerics.compensated import EPS
from .._support.checks import FloatArray, IntArray
from ..errors import ModelError


class Point(NamedTuple):
    """A value function V and the bounds on the fixed point V* that one backup gives."""

    value: FloatArray  # [S] V
    swept: FloatArray  # [S] TV
    change: FloatArray  # [S] TV - V
    actions: IntArray  # [S] greedy at V
    lower: float  # TV + lower <= V* <= TV + upper, but for rounding
    upper: float
    noise: float  # bound on the effect of rounding on the distance from V*
    residual: float  # the size of TV - V
    rest: FloatArray | None = None  # [S] in twice the precision V is value + rest

    @property
    def width(self) -> float:
        """Distance between the bounds."""
        return self.upper - self.lower

    @property
    def middle(self) -> float:
        """Middle of the bounds."""
        return 0.5 * (self.lower + self.upper)

    @property
    def error(self) -> float:
        """Certified error of the middle of the bounds."""
        return 0.5 * self.width + self.noise

    @property
    def at_floor(self) -> bool:
        """Whether rounding is all that is left to shrink."""
        return 0.5 * self.width <= self.noise

    def moved(self, shift: float) -> FloatArray:
        """Return TV + ``shift``, rounded once."""
        return self.swept + shift if self.rest is None else self.value + (self.change + (self.rest + shift))


class Certificate:
    """The factors g/(1 - g) of MacQueen's bounds for one discount and one interval of leaks.

    Attributes
    ----------
    widest : float
        g/(1 - g) for the least leak, rounded up.
    narrowest : float
        g/(1 - g) for the greatest leak, rounded down.
    conservative : bool
        Whether a shift of V by a constant shifts TV - V by a constant, so that such a constant does no harm.
    """

    def __init__(self, discount: float, leaks: tuple[float, float]) -> None:
        """``leaks`` are the least and the greatest."""
        self.widest, self.narrowest = _reach(discount, leaks[0], 1.0), _reach(discount, leaks[1], -1.0)
        self.conservative = self.widest <= 1.001 * self.narrowest

    def bounds(self, change: FloatArray, error: float) -> tuple[float, float, float, float]:
        """Return lower, upper, noise and residual of a ``Point`` whose TV - V is ``change`` up to ``error``."""
        low, high = float(change.min()), float(change.max())
        error += EPS * max(abs(low), abs(high))
        lower = low * (self.widest if low < 0.0 else self.narrowest)
        upper = high * (self.widest if high > 0.0 else self.narrowest)
        noise = error * (1.0 + self.widest) + 3.0 * EPS * max(abs(lower), abs(upper))
        return lower, upper, noise, 0.5 * (high - low) if self.conservative else max(abs(low), abs(high))


def _reach(discount: float, leak: float, outwards: float) -> float:
    """Return g/(1 - g) for g = gamma (1 - leak), rounded up (``outwards`` = 1) or down (-1)."""
    gap = (1.0 - discount) + discount * leak
    gap -= outwards * 4.0 * EPS * ((1.0 - discount) + discount * abs(leak))
    if not gap > 0.0:
        message = (
            f"rows sum to as much as 1 + {-leak:.3g}, and at discount {discount!r} more than 1 + "
            f"{(1.0 - discount) / discount:.3g} leaves no finite value; normalise the rows or lower the discount"
        )
        raise ModelError(message, code="row-sum-above-one", value=1.0 - leak, discount=discount)
    return max(0.0, discount * (1.0 - leak)) / gap * (1.0 + outwards * 4.0 * EPS)
