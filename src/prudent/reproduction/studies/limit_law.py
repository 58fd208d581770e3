"""The limit law of Bayesian-risk values (weak convergence), by simulation of the data.

Each replication observes one trajectory of the optimal policy in the true lake; its first N steps are the data of size
N. Values are computed from posterior draws as in the paper, and exactly.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..._support.checks import FloatArray
from ..intervals import CONFIDENCE, Claim, Finding, Interval, claim, differences, mean_interval, side, verdict
from ..run import Arrays, Run
from ..scale import Scale
from ..study import Figure, Quantity, Study, Table

if TYPE_CHECKING:
    import xarray

ESCAPE, ALPHA, STATE = 0.1, 0.9, 10  # p_h, the risk level, and the state whose value is studied
CLOSE = 0.2  # Kolmogorov distance: what "converges" must have reached at the largest size


@dataclass(frozen=True)
class LimitRun(Run):
    """sqrt(N) (V_N - V*) in one state of Frozen Lake, from the first N steps of a trajectory of the optimal policy."""

    kind: ClassVar[str] = "limit"
    p_h: float
    alpha: float
    state: int
    sizes: tuple[int, ...]
    draws: int

    @property
    def seconds(self) -> float:
        """See :class:`Run`."""
        return 2e-8 * self.sizes[-1] + len(self.sizes) * (0.004 + 1.2e-5 * self.draws)

    def compute(self, seed: int, first: int, count: int) -> Arrays:
        """Return scaled_error [R, 2, sizes]: from ``draws`` posterior draws, and exact."""
        from ..._support.streams import replication_streams

        lake = true_lake(self.p_h, self.alpha)
        found = np.empty((count, 2, len(self.sizes)))
        for r in range(count):
            env, agent = replication_streams(seed, first + r)
            for i, (size, counts) in enumerate(zip(self.sizes, lake.counts(env, self.sizes), strict=True)):
                for j, draws in enumerate((self.draws, None)):
                    value = lake.value_of(counts, draws, agent)[self.state]
                    found[r, j, i] = np.sqrt(size) * (value - lake.value[self.state])
        return {"scaled_error": found}


class TrueLake:
    """The true Frozen Lake, its optimal policy, and Bayesian-risk values of that policy."""

    def __init__(self, p_h: float, alpha: float) -> None:
        from ...envs.frozen_lake import frozen_lake
        from ...models.uncertain import UncertainMDP
        from ...planning.solve import evaluate, solve
        from ...theory import limit_law

        self.alpha = alpha
        self.problem = frozen_lake(p_h)
        mdp = self.problem.mdp()
        states = np.arange(mdp.n_states)
        self.policy = solve(mdp, tol=1e-12).policy
        self.value = evaluate(mdp, self.policy, tol=1e-14).value
        self.law = limit_law(mdp, self.policy, alpha)
        self.course = self.problem.model.course(self.problem.theta, self.problem.start)
        # only the pairs of the policy matter for its value: one action
        self.model = UncertainMDP.direct(mdp.reward[states, self.policy][:, np.newaxis], mdp.discount)

    def counts(self, rng: np.random.Generator, sizes: tuple[int, ...]) -> list[FloatArray]:
        """Return the posterior counts [S, S] after the first ``sizes`` steps of one trajectory, priors of ones."""
        from ...models.transitions import walk

        n = self.value.size
        state, before, seen, found = self.problem.start, 0, np.ones(n * n), []
        for size in sizes:
            log = np.empty((size - before, 4), dtype=np.int64)
            uniforms = rng.random((size - before, 1))
            walk(self.course, self.policy, np.empty((0, 0)), uniforms, state, log)
            seen = seen + np.bincount(log[:, 0] * n + log[:, 2], minlength=n * n)
            found.append(seen.reshape(n, n))
            state, before = int(log[-1, 2]), size
        return found

    def value_of(self, counts: FloatArray, draws: int | None, rng: np.random.Generator) -> FloatArray:
        """Return the Bayesian-risk values [S] of the policy, from draws or exact."""
        from ...planning.problem import BayesianRiskMDP

        brmdp = BayesianRiskMDP(self.model, counts, self.alpha)
        policy = np.zeros(self.value.size, dtype=np.int64)
        source = None if draws is None else rng  # exact values have nothing to draw
        return brmdp.evaluate(policy, draws, source, initial_value=self.value, tol=1e-12, threads=1).value


@functools.lru_cache(maxsize=4)
def true_lake(p_h: float, alpha: float) -> TrueLake:
    """Return the lake, solved once for all chunks."""
    return TrueLake(p_h, alpha)


def _plan(scale: Scale) -> tuple[Run, ...]:
    return (LimitRun(scale.limit_replications, ESCAPE, ALPHA, STATE, scale.sizes, scale.draws),)


def _assemble(scale: Scale, results: list[Arrays]) -> tuple[dict[str, Any], dict[str, Any]]:
    law = true_lake(ESCAPE, ALPHA).law
    return (
        {
            "scaled_error": results[0]["scaled_error"].transpose(1, 2, 0),
            "limit_mean": float(law.mean[STATE]),
            "limit_sd": math.sqrt(law.cov[STATE, STATE]),
        },
        {
            "method": ["sampled", "exact"],
            "size": np.array(scale.sizes),
            "replication": np.arange(scale.limit_replications),
        },
    )


def _claims(data: xarray.Dataset) -> list[Claim]:
    claims = []
    sizes = data["size"].values.tolist()
    count = data.sizes["replication"]
    for method, words in (("sampled", "from posterior draws"), ("exact", "exact")):
        errors = data.scaled_error.sel({"method": method})
        scores = (errors.values - float(data.limit_mean)) / float(data.limit_sd)  # [sizes, R]
        band = math.sqrt(math.log(2.0 * len(sizes) / (1.0 - CONFIDENCE)) / (2.0 * count))
        far = [kolmogorov(row) for row in scores]
        evidence = [
            Interval(f"N = {n}: Kolmogorov distance to the limit law", d, max(0.0, d - band), min(1.0, d + band))
            for n, d in zip(sizes, far, strict=True)
        ]
        for n, row in zip(sizes, scores, strict=True):
            evidence.append(
                mean_interval(f"N = {n}: mean error less the limit's, in its standard deviations", row, len(sizes))
            )
            evidence.append(Interval(f"N = {n}: standard deviation over the limit's", float(row.std(ddof=1))))
        near, nearer = side(evidence[len(sizes) - 1], -math.inf, CLOSE), far[0] - far[-1]
        falls = 1 if nearer > 2.0 * band else -1 if nearer < -2.0 * band else 0
        claims.append(
            claim(
                f"limit-law-{method}",
                f"sqrt(N) (V_N - V*) tends to the normal law of the theorem as N grows, values {words}",
                "Normality study, densities and Q-Q plots",
                Finding(evidence, verdict(min(near, falls)), decisive=len(sizes) - 1),
                test="Dvoretzky-Kiefer-Wolfowitz bands of the Kolmogorov distance, 99% together: it falls from the "
                f"smallest N to the largest, and lies below {CLOSE:g} there",
            )
        )
    errors = (
        data.scaled_error.sel({"method": "exact"}).values / np.sqrt(np.asarray(sizes, dtype=np.float64))[:, np.newaxis]
    )
    pairs = [(f"N = {n}: V* minus V_N", -row) for n, row in zip(sizes, errors, strict=True)]
    pairs += [
        (f"V_N at N = {more} minus V_N at N = {few}", errors[i + 1] - errors[i])
        for i, (few, more) in enumerate(itertools.pairwise(sizes))
    ]
    claims.append(
        claim(
            "limit-error-negative-and-falling",
            "The Bayesian-risk value lies below the true one on average, by less as data accumulate",
            "Weak-convergence theorem and conclusion",
            differences(pairs),
        )
    )
    return claims


def kolmogorov(scores: FloatArray) -> float:
    """Return the largest distance between the empirical distribution of ``scores`` and the standard normal.

    >>> kolmogorov(np.zeros(1))
    0.5
    """
    from scipy.special import ndtr

    n = scores.size
    chances = ndtr(np.sort(scores))
    return float(max((np.arange(1, n + 1) / n - chances).max(), (chances - np.arange(n) / n).max()))


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
        "method": Quantity("evaluation of the Bayesian risk"),
        "size": Quantity("number of observations N", "observations"),
        "replication": Quantity("replication"),
    },
    plan=_plan,
    assemble=_assemble,
    claims=_claims,
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
