"""Whether a log can answer what the target would have earned, estimator by estimator, and which estimate to take.

An estimate answers if nothing of the following is found.

- Weights (is to wdr): too few episodes count (``ess``), one episode has too much of all weight (``dominant-weight``),
  weights do not average one (``mean-weight``), the target does what the log never did (``uncovered``), or one episode
  makes up much of the variance (``dominant-episode``).
- States (mis, fqe, model): the same for the rows that count, and states must be Markov. The log can show that they are
  not where the weights answer: then the difference to wdr must be within its error (``model-check``). Where the weights
  do not answer, nothing in the log speaks for the states (``unchecked``), unless the caller says that they are Markov.

The recommended estimate is the first that answers of wdr, dr, wpdis, fqe, mis. The limits are those at which intervals
still cover in simulation: ``python -m benchmarks off_policy_episodes``. They are about weights rather than about the
influence of episodes: a log that happens to lack the one episode with a large influence would pass such a test, and be
wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ...types import FloatArray
from .weights import effective

FEWEST = 20  # episodes
SMALLEST = 50.0  # effective number of episodes or rows
SHARE = 0.15  # effective number, relative to that of the log,
ENOUGH = 1000.0  # below this one
LARGEST = 0.1  # share of one episode in all weight
DOMINANT = 0.5  # share of one episode in the variance
UNCOVERED = 0.01  # share of the target's choices that the log never made
STRAY = 5.0  # standard errors of the mean weight
APART = 3.0  # standard errors between an estimate by states and one by weights
EARNED = 0.9  # share of the rewards that decides which step counts
PREFERRED = ("wdr", "dr", "wpdis", "fqe", "mis")


class Reason(NamedTuple):
    """Why an estimate does not answer; empty if it does."""

    code: str
    text: str


class Facts(NamedTuple):
    """What is known of one estimate.

    Attributes
    ----------
    ess, largest : float
        Effective number of episodes or rows, and the largest share of one.
    size : int
        Number of episodes or rows.
    influence : float64 [n]
        Influence of each episode.
    uncovered : float
        Share of the target's choices that the log never made.
    """

    ess: float
    largest: float
    size: int
    influence: FloatArray
    uncovered: float


def overlap(facts: Facts, what: str) -> Reason | None:
    """Return the first reason against an estimate from its weights."""
    if facts.influence.size < FEWEST:
        return Reason("few-episodes", f"{facts.influence.size} episodes are too few, at least {FEWEST} are needed")
    if not facts.ess > 0.0:
        return Reason("no-overlap", "the log never does what the policy does")
    if facts.uncovered > UNCOVERED:
        share = f"{facts.uncovered:.1%} of what the policy does was never done in the log"
        return Reason("uncovered", share)
    if facts.ess < max(SMALLEST, min(SHARE * facts.size, ENOUGH)):
        return Reason("ess", f"the {facts.size:,} {what} count like {facts.ess:.3g}")
    if facts.largest > LARGEST:
        return Reason("dominant-weight", f"a single one of the {what} has {facts.largest:.0%} of all weight")
    squares = facts.influence**2
    if squares.sum() > 0.0 and squares.max() > DOMINANT * squares.sum():
        share = f"{squares.max() / squares.sum():.0%}"
        return Reason("dominant-episode", f"a single episode makes up {share} of the variance")
    return None


def mean_weight(weights: FloatArray) -> Reason | None:
    """Return the reason against weights [n, H] whose mean is not one at some step."""
    means = weights.mean(axis=0)
    errors = weights.std(axis=0) / math.sqrt(weights.shape[0])
    off = abs(means - 1.0) > STRAY * errors + 0.01  # estimated propensities are smoothed
    if not off.any():
        return None
    step = int(np.argmax(off))
    text = f"weights average {means[step]:.3g} at step {step}, expected 1: propensities are wrong, or the log too thin"
    return Reason("mean-weight", text)


def model_check(
    value: float, influence: FloatArray, other: float, other_influence: FloatArray, name: str
) -> Reason | None:
    """Return the reason against an estimate by states that differs from one by weights."""
    apart = influence - other_influence
    error = float(apart.std(ddof=1)) / math.sqrt(apart.size)
    if abs(value - other) <= APART * error + 1e-12 * max(abs(value), abs(other)):
        return None
    ratio = abs(value - other) / max(error, 1e-300)
    text = f"it differs from {name} by {ratio:.1f} standard errors: states are not Markov"
    return Reason("model-check", text)


UNCHECKED = Reason("unchecked", "weights do not answer, so nothing shows that states are Markov (markov=True says so)")


def per_decision_ess(weights: FloatArray, rewards: FloatArray, alive: FloatArray) -> float:
    """Return the effective number of episodes at the step up to which nine tenths of the rewards are earned.

    ``rewards`` [n, H] are discounted and ``alive`` [n, H] says which exist. What a step counts is the sum of the
    absolute differences of its rewards to the mean reward.
    """
    centre = rewards.sum() / alive.sum()
    spread = (abs(rewards - centre) * alive).sum(axis=0)
    if not spread.sum() > 1e-12 * abs(rewards).sum():
        spread = alive.sum(axis=0)
    step = int(np.searchsorted(np.cumsum(spread), EARNED * spread.sum()))
    return effective(weights[:, min(step, weights.shape[1] - 1)])


def recommended(reasons: Mapping[str, Reason | None]) -> str | None:
    """Return the estimate to take, None if none answers."""
    return next((name for name in PREFERRED if name in reasons and reasons[name] is None), None)
