"""The limit law of Bayesian-risk values (weak convergence), by simulation of the data.

Each replication observes one trajectory of the optimal policy in the true lake; its first N steps are the data of size
N. Values are computed from posterior draws as in the paper, and exactly.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from functools import partial

import numpy as np

from ...types import FloatArray
from ..claims import Data, Statement, claim
from ..distributions import Distance
from ..rules import Interval, Samples, mean_intervals
from ..runs.base import Arrays
from ..runs.limit_law import LimitRun, true_lake
from ..scale import Scale
from ..study import Coordinates, Figure, Parts, Quantity, Study, Table, quantities

ESCAPE, ALPHA, STATE = 0.1, 0.9, 10  # p_h, the risk level, and the state whose value is studied
CLOSE = 0.2  # Kolmogorov distance: what "converges" must have reached at the largest size


def _plan(scale: Scale) -> dict[Coordinates, LimitRun]:
    return {(): LimitRun(scale.limit_replications, ESCAPE, ALPHA, STATE, scale.sizes, scale.draws)}


def _assemble(scale: Scale, results: Mapping[Coordinates, Arrays]) -> Parts:
    law = true_lake(ESCAPE, ALPHA).law
    variables = {
        "scaled_error": results[()]["scaled_error"].transpose(1, 2, 0),
        "limit_mean": float(law.mean[STATE]),
        "limit_sd": math.sqrt(law.cov[STATE, STATE]),
    }
    replications = np.arange(scale.limit_replications)
    return variables, {"method": ["sampled", "exact"], "size": np.array(scale.sizes), "replication": replications}


def _scores(method: str, data: Data) -> dict[str, FloatArray]:
    """Return the errors in standard deviations of the limit law from its mean [R], by size."""
    errors = data.scaled_error.sel({"method": method}).values
    sizes = data["size"].values.tolist()
    scores = (errors - float(data.limit_mean)) / float(data.limit_sd)
    return {f"N = {n}": row for n, row in zip(sizes, scores, strict=True)}


def _moments(method: str, data: Data) -> list[Interval]:
    """Return mean and standard deviation of the scores, which those of the law would make 0 and 1."""
    scores = _scores(method, data)
    means = {f"{n}: mean error less the limit's, in its standard deviations": row for n, row in scores.items()}
    spreads = [
        Interval(f"{n}: standard deviation over the limit's", float(row.std(ddof=1))) for n, row in scores.items()
    ]
    return [each for pair in zip(mean_intervals(means), spreads, strict=True) for each in pair]


@claim(
    "limit-error-negative-and-falling",
    "The Bayesian-risk value lies below the true one on average, by less as data accumulate",
    "Weak-convergence theorem and conclusion",
)
def _below_and_rising(data: Data) -> Samples:
    sizes = data["size"].values
    errors = data.scaled_error.sel({"method": "exact"}).values / np.sqrt(sizes.astype(np.float64))[:, np.newaxis]
    below = {f"N = {n}: V* minus V_N": -row for n, row in zip(sizes, errors, strict=True)}
    pairs = itertools.pairwise(zip(sizes, errors, strict=True))
    return below | {f"V_N at N = {n} minus V_N at N = {m}": more - fewer for (m, fewer), (n, more) in pairs}


CLAIMS = (
    *(
        Statement(
            f"limit-law-{method}",
            f"sqrt(N) (V_N - V*) tends to the normal law of the theorem as N grows, values {words}",
            "Normality study, densities and Q-Q plots",
            partial(_scores, method),
            Distance(CLOSE),
            also=partial(_moments, method),
        )
        for method, words in (("sampled", "from posterior draws"), ("exact", "exact"))
    ),
    _below_and_rising,
)
ERROR = {"variable": "scaled_error", "mean": "limit_mean", "sd": "limit_sd"}

STUDY = Study(
    name="limit-law",
    order=80,
    title="The limit law of Bayesian-risk values",
    setting="N transitions under the optimal policy, a posterior for each transition row, Bayesian-risk values at "
    "level 0.9, in state 10. “Sampled” takes CVaR over posterior draws as the paper does, “exact” has no "
    "sampling noise.",
    variables={
        "scaled_error": Quantity(
            "sqrt(N) (V_N - V*) in state 10", "discounted reward", ("method", "size", "replication")
        ),
        "limit_mean": Quantity("mean of the limit law", "discounted reward"),
        "limit_sd": Quantity("standard deviation of the limit law", "discounted reward"),
    },
    coords={
        **quantities("replication", method="evaluation of the Bayesian risk"),
        "size": Quantity("number of observations N", "observations"),
    },
    plan=_plan,
    assemble=_assemble,
    claims=CLAIMS,
    figures=(
        Figure(
            "densities",
            "limit-law-density",
            "Density of the scaled error",
            "As N grows, √N (V_N − V*) tends to a normal law, whose mean and variance the theorem "
            "on weak convergence gives: the empirical density settles on the theoretical one.",
            {**ERROR, "panel": "N =", "label": rf"$\sqrt{{N}}\,(V_N - V^*)$ in state {STATE}"},
        ),
        Figure(
            "quantiles",
            "limit-law-qq",
            "Q-Q plot against the limit law",
            "The quantiles of 500 replications come to lie on the line of the theoretical ones.",
            {**ERROR, "panel": "N ="},
        ),
    ),
    tables=(Table("law", f"The scaled error √N (V_N − V*) in state {STATE}", {**ERROR, "row": "N ="}),),
)
