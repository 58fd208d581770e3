"""The gain of a unit of time where steps have durations, under a risk of the posterior.

Let T_g be the backup without a discount in which a transition that earns r and takes the time d earns r - g d. It is
monotone and shifted by c when c is added to its argument, so that it has a gain e(g) with the bounds of
``prudent.planning.gain_iteration``. If g grows by x, every backup falls by at least x times the shortest and at most x
times the longest duration, and so does e. So e has one root, the gain of a unit of time: the g with T_g h = h, which is
the limit of (1 - gamma) V_gamma. With e(g) in [lo, hi] it lies in

    [g + lo / d, g + hi / d'],    d the longest duration if lo > 0 and else the shortest, d' the other way round.

The root is looked for by the secant through the last two g, within the bounds so far; each search for e(g) begins with
the h of the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .._numerics.compensated import EPS
from ..types import FloatArray
from .fixed_point import Guess
from .gain_iteration import SMALL_GAIN, Gains, size_of
from .newton import DIGITS, reason_to_stop
from .options import SolverOptions

MOST_RATES = 60  # values of g that are tried
ROUGH = 1e-2  # of what is open: error of e(g) while g may still be far away
Search = Callable[[float, SolverOptions, Guess | None], Gains]


def timed_gain(
    search: Search, rewards: FloatArray, durations: FloatArray, options: SolverOptions, guess: Guess | None
) -> tuple[Gains, float]:
    """Return the gain of a unit of time with its h, and the g of the last search.

    ``search(g, options, guess)`` finds e(g). ``rewards`` and ``durations`` are those of all transitions.
    """
    shortest, longest, slope = float(durations.min()), float(durations.max()), float(durations.mean())
    size, small = float(abs(rewards).max(initial=0.0)), SMALL_GAIN * size_of(rewards / durations)
    low, high, rate, before = -np.inf, np.inf, 0.0, None
    reason = None
    for tried in range(1, MOST_RATES + 1):
        width, aim = high - low, _aim(options, rate, small)
        rough = ROUGH * (width if np.isfinite(width) else small / SMALL_GAIN)
        found = search(rate, replace(options, tol=max(0.25 * aim, rough) * shortest), guess)
        error = found.error + EPS * (size + 2.0 * abs(rate) * longest)  # r - g d is rounded
        least, most = found.gain - error, found.gain + error
        low = max(low, rate + least / (longest if least > 0.0 else shortest))
        high = min(high, rate + most / (shortest if most > 0.0 else longest))
        gain, error = 0.5 * (low + high), 0.5 * (high - low) + EPS * abs(low + high)
        lost = high - low > 0.5 * width and not (found.end.reason.converged or found.end.reason.capped)
        stuck = lost or tried == MOST_RATES  # by several gains, or rounding
        reason = reason_to_stop(error, _aim(options, gain, small), found.end.iterations, options.cap, stuck)
        if reason is not None:
            break
        if before is not None:
            slope = min(max((before[1] - found.gain) / (rate - before[0]), shortest), longest)
        guess, before = Guess(found.relative, found.end.iterations), (rate, found.gain)
        ahead = rate + found.gain / slope
        rate = ahead if low < ahead < high else gain
    assert reason is not None
    return found._replace(gain=gain, error=error, end=found.end._replace(reason=reason)), rate


def _aim(options: SolverOptions, gain: float, small: float) -> float:
    """Return the error that is wanted."""
    return DIGITS * max(abs(gain), small) if options.tol is None else options.tol
