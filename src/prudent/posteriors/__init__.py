"""Posteriors: categorical outcomes, Bernoulli and normal rewards, linear rewards with normal noise, clicks and counts.

All classes have the same interface. The constructor takes the prior; ``update`` takes one observation or a batch,
changes the posterior in place and returns it, or raises and changes nothing; ``updated`` returns a new one instead;
``mean``, ``variance`` (entry by entry), ``covariance`` and ``sample`` describe it; ``merge`` combines what two
posteriors with the same prior have learned from separate data; ``prior`` is the prior in the terms of the constructor;
``save`` and ``load`` keep it in a file, in which nothing can be executed. `Posterior` is the base class for
your own.

Each posterior keeps sums over the data:

- Dirichlet: counts psi[b, k], the prior's plus the observed; theta[b] ~ Dirichlet(psi[b]).
- Beta: prior successes and failures plus the observed.
- Normal mean, known noise: with rho = (sd / noise_sd)^2 and n rewards, precision (1 + n rho) / sd^2 and mean
  prior mean + rho * sum(reward - prior mean) / (1 + n rho).
- Linear (the paper's Gaussian update): V = prior precision + sum s s', b = sum s r, and
  theta ~ Normal(V^-1 b, nu^2 V^-1). V is the precision: its inverse is the covariance, and shrinks with data.
- Clicks and counts (Laplace, not conjugate): the same sums, in which each reward is replaced by a normal observation
  around the mode. ``update`` is approximate there and depends a little on the order; ``refit`` is exact.
"""

from __future__ import annotations

from .base import Posterior
from .dirichlet import DirichletPosterior
from .glm import LogisticPosterior, PoissonPosterior
from .grouped import GroupedPosterior
from .groups import Group
from .linear import LinearGaussianPosterior
from .scalar import BetaPosterior, NormalPosterior

__all__ = [
    "BetaPosterior",
    "DirichletPosterior",
    "Group",
    "GroupedPosterior",
    "LinearGaussianPosterior",
    "LogisticPosterior",
    "NormalPosterior",
    "PoissonPosterior",
    "Posterior",
]
