"""Linear contextual bandits with a risk dial: one engine, and the algorithms of the paper as settings of it.

Each arm has an unknown theta_a [D] and pays s'theta_a + noise in context s; its posterior is
Normal(V_a^-1 b_a, nu^2 V_a^-1) with the PRECISION V_a = P + sum s s' (the paper's Gaussian update; where it prints
V_a as a covariance, its proofs have the inverse). To decide, Algorithm 2 (BRPS-CMAB) draws n values of s'theta_a for
every arm from Normal(s'V_a^-1 b_a, nu^2 s'V_a^-1 s), estimates CVaR_alpha from them, and pulls the arm with the
highest estimate. Its relatives are settings of the same engine:

- ``brps_cmab``: Algorithm 2 at a risk level alpha;
- ``brps_cmab_clipped``: Algorithm 2', draws clipped to [0, 1] (the paper says truncated);
- ``brps_cmab_inflated``: Algorithm 2'', nu replaced by nu_t = (3/4) sqrt(d ln(4t/delta)) or by a number;
- ``thompson_sampling``: alpha = 0 and one draw;
- ``thompson_sampling_inflated``: the same with nu replaced.

Only the lowest draws count, and they are drawn directly (``prudent.risk``): under the draw rule
n = ceil(1/(1-alpha)) one or two for each arm at any alpha, where the algorithm as printed draws n.

``LinearBandit`` decides and learns in a product, ``prudent.simulation.simulate_bandit`` on an environment
with known truth; both call the same kernels (``kernels``). ``SharedLinearBandit`` has one theta for all items,
which it knows by their features; ``SparseLinearBandit`` has arms with very many features. They are a ``Bandit``: it
checks what users give and holds a belief
(``prudent.bandits.belief``), which learns and gives the law of the next scores (``prudent.bandits.law``), from
which exact propensities follow. ``prudent.Journal`` writes decisions and rewards down before they count.
"""

from __future__ import annotations

from ..schedules import Decay
from .bandit import LinearBandit
from .base import Bandit
from .belief import Belief, HurdlePosterior
from .decision import Decision
from .law import Law
from .settings import (
    BanditSettings,
    brps_cmab,
    brps_cmab_clipped,
    brps_cmab_inflated,
    thompson_sampling,
    thompson_sampling_inflated,
)
from .shared import SharedLinearBandit
from .sparse import SparseLinearBandit

__all__ = [
    "Bandit",
    "BanditSettings",
    "Belief",
    "Decay",
    "Decision",
    "HurdlePosterior",
    "Law",
    "LinearBandit",
    "SharedLinearBandit",
    "SparseLinearBandit",
    "brps_cmab",
    "brps_cmab_clipped",
    "brps_cmab_inflated",
    "thompson_sampling",
    "thompson_sampling_inflated",
]
