"""Ignorance and luck at once: rows against draws, and certificates against values in many digits.

``python -m benchmarks.luck --rows 100 --models 2000 --workers 16 --out FOLDER``

**Rows.** One row of each: two to eight outcomes with counts from 0.05 to 1e6, CVaRs of either tail, mixtures of them,
entropic risk and means on both sides, beside 10^7 draws of plain NumPy (``_luck_reference``). A row is judged by its
distance in standard errors of the draws; five of them have a false alarm in 6e-7 of the rows. Rows that the library
samples are solved with 50,000 draws of its own, whose standard errors count as well.

**Certificates.** Random models of one or two states, one or two actions, shared sources, ties, zero counts, ends and
rewards of very different sizes: the fixed point is enclosed in many digits by closed forms. From the computed values v
one Newton step is made with the chances of 20,000 draws, and from its values w one application of the operator gives
the fixed point within the largest residual over 1 - gamma. A certificate is false where v is farther from the
enclosure than it says.

Every row and every model is a line of JSON in FOLDER/luck.jsonl, written when it is done; a run that was stopped goes
on with what is missing. What fails is printed at once. Unit i depends on the seed and on i only.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

import prudent as pr
from prudent.errors import ConvergenceWarning
from prudent.risk import EntropicRisk, RiskMeasure

from ._luck_reference import Floats, Mixture, Number, Value, lucks, reference, risk_of

CHUNK = 500_000  # draws at once
SAMPLED = 50_000  # draws of the library where it samples
LIMIT = 5.0  # standard errors
COUNTS = (0.05, 0.1, 0.3, 0.5, 1.0, 2.0, 7.5, 30.0, 400.0, 1e4, 1e6)
KINDS = ("three", "two", "mean", "known luck", "entropic", "many")


def level_of(rng: np.random.Generator) -> float:
    """Return a level in (-1, 1), not close to 0."""
    return float(rng.choice([-0.95, -0.8, -0.5, -0.2, 0.2, 0.5, 0.8, 0.9, 0.95, 0.99]))


def measure_of(mixture: Mixture | float) -> RiskMeasure:
    """Return the measure of the library."""
    if isinstance(mixture, float):
        return EntropicRisk(mixture)
    if len(mixture) == 1:
        return pr.CVaR(mixture[0][0])
    (level, _), (zero, weight) = mixture
    if zero != 0.0:
        raise ValueError("a mixture is that of a CVaR and the mean")
    return pr.MeanCVaR(level, weight=weight)


def mixture_of(rng: np.random.Generator, level: float, share: float) -> Mixture:
    """Return a CVaR, mixed with the mean in a share of the cases."""
    if rng.random() < share:
        weight = float(np.round(rng.uniform(0.1, 0.9), 2))
        return [(level, 1.0 - weight), (0.0, weight)]
    return [(level, 1.0)]


# -- rows against draws ------------------------------------------------------------------------------------


def random_row(kind: str, rng: np.random.Generator) -> tuple[Floats, Floats, Mixture | float, Mixture | float]:
    """Return outcomes, counts, the risk over the posterior and the risk of the outcome."""
    size = {"three": 3, "two": 2}.get(kind) or int(rng.integers(2 if kind != "many" else 4, 9))
    y, psi = rng.normal(size=size), rng.choice(COUNTS, size)
    if kind == "three":
        psi = np.maximum(psi, 0.1)  # what the library evaluates without draws
    if rng.random() < 0.2:
        y[0] = y[-1]
    scale = float(rng.choice([1.0, 1e-3, 1e4]))
    outer: Mixture | float = mixture_of(rng, level_of(rng), 0.3)
    inner: Mixture | float = mixture_of(rng, level_of(rng), 0.3 if kind in ("two", "mean", "many") else 0.0)
    beta = float(rng.choice([-3.0, -0.5, 0.5, 2.0])) / scale
    if kind == "mean":
        outer = [(0.0, 1.0)]
    elif kind == "known luck":
        inner = [(0.0, 1.0)]
        outer = outer if rng.random() < 0.7 else beta
    elif kind == "entropic":
        if rng.random() < 0.7:
            inner = beta
        else:
            outer = beta
    return scale * y, psi, outer, inner


def row(number: int, seed: int, draws: int) -> dict[str, Any]:
    """Judge one row by draws."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, number)))
    kind = KINDS[number % len(KINDS)]
    y, psi, outer, inner = random_row(kind, rng)
    model = pr.UncertainMDP([[0]], [[[0] * y.size]], [[y]], 0.0)
    problem = pr.BayesianRiskMDP(model, [psi], risk=measure_of(outer), outcome_risk=measure_of(inner))
    exact = problem.is_exact
    if exact:
        found = problem.solve(threads=1)
    else:
        found = problem.solve(draws=SAMPLED, rng=rng, threads=1)
    z = np.empty(draws)
    for begin in range(0, draws, CHUNK):
        size = min(CHUNK, draws - begin)
        z[begin : begin + size] = lucks(y, rng.dirichlet(psi, size), inner)
    by_draws = risk_of(z, outer)
    more = 0.0 if exact else draws / SAMPLED
    error = by_draws.error * np.sqrt(1.0 + more)
    slack = by_draws.unseen * (1.0 + more) + found.error_bound + 1e-9 * float(abs(y).max())
    off = abs(float(found.value[0]) - by_draws.value)
    return {
        "row": number, "kind": kind, "exact": exact, "y": y.tolist(), "psi": psi.tolist(), "outer": outer,
        "inner": inner, "value": float(found.value[0]), "draws": by_draws.value, "error": error,
        "errors": LIMIT * off / (LIMIT * error + slack), "false": bool(off > LIMIT * error + slack),
    }  # fmt: skip


# -- certificates ------------------------------------------------------------------------------------------


class Case:
    """A random model, and its operator in many digits."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.kind = str(rng.choice(["three", "three", "two", "mean"]))
        S, A = int(rng.integers(1, 3)), int(rng.integers(1, 3))
        K = {"three": 3, "two": 2}.get(self.kind) or int(rng.integers(2, 6))
        B = int(rng.integers(1, S * A + 1))  # shared where there are fewer than pairs
        self.source = np.concatenate((np.arange(B), rng.integers(0, B, S * A - B)))[rng.permutation(S * A)]
        self.source = self.source.reshape(S, A)
        self.scale = float(rng.choice([1.0, 1e-6, 1e6]))
        self.reward = rng.normal(size=(S, A, K)) * self.scale + float(rng.choice([0.0, 0.0, 1e3 * self.scale]))
        if rng.random() < 0.2:
            self.reward[..., 0] = self.reward[..., -1]
        self.follows = rng.integers(0, S, (S, A, K))
        if rng.random() < 0.2:
            self.follows[rng.random((S, A, K)) < 0.3] = -2
        self.discount = float(rng.choice([0.0, 0.5, 0.9, 0.99]))
        self.counts = self._counts(rng, B, K)
        alpha, level = (float(np.round(rng.uniform(-0.95, 0.99), 3)) for _ in range(2))
        self.outer: Mixture = [(0.0, 1.0)] if self.kind == "mean" else mixture_of(rng, alpha, 0.2)
        self.inner: Mixture = mixture_of(rng, level, 0.0 if self.kind == "three" else 0.3)

    def _counts(self, rng: np.random.Generator, B: int, K: int) -> Floats:
        if self.kind == "three":  # two whole ones, which polynomials can integrate, and any third
            counts = rng.choice([1.0, 1.0, 2.0, 3.0, 5.0, 12.0], (B, K))
            other = np.where(rng.random(B) < 0.5, rng.choice([0.1, 0.3, 0.5, 7.5, 30.0, 400.0, 1e4], B), 0.0)
            other = np.where(other > 0.0, other, np.exp(rng.uniform(np.log(0.1), np.log(500.0), B)))
            counts[np.arange(B), rng.integers(0, K, B)] = other
        else:
            counts = rng.choice([0.05, 0.3, 1.0, 2.0, 7.5, 30.0, 400.0], (B, K)) * rng.uniform(1.0, 3.0, (B, K))
        if rng.random() < 0.2:  # an outcome that is known to be impossible
            counts[np.arange(B), rng.integers(0, K, B)] = 0.0
        return counts

    def solve(self, tol: float) -> pr.Solution:
        """Return the solution of the library."""
        model = pr.UncertainMDP(self.source, self.follows, self.reward, self.discount)
        problem = pr.BayesianRiskMDP(
            model, self.counts, risk=measure_of(self.outer), outcome_risk=measure_of(self.inner)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # values close to 0 have no ten digits
            return problem.solve(tol=tol * self.scale, threads=1)

    def backup(self, value: list[Number]) -> tuple[list[Number], list[int], Number]:
        """Return the operator's values, its actions, and how far they may be off."""
        found, actions, doubt = [], [], mp.mpf(0)
        for s, (rewards, follows) in enumerate(zip(self.reward, self.follows, strict=True)):
            rows: list[Value] = []
            for a, (earned, after) in enumerate(zip(rewards.tolist(), follows.tolist(), strict=True)):
                y = [
                    mp.mpf(r) + (mp.mpf(self.discount) * value[t] if t >= 0 else 0)
                    for r, t in zip(earned, after, strict=True)
                ]
                rows.append(reference(y, self.counts[self.source[s, a]].tolist(), self.outer, self.inner))
            best = max(range(len(rows)), key=lambda a: rows[a].value)
            found.append(rows[best].value)
            actions.append(best)
            doubt = max(doubt, *(one.doubt for one in rows))
        return found, actions, doubt

    def chances(self, value: Floats, actions: list[int], rng: np.random.Generator) -> Floats:
        """Return about how much each next state counts [S, S], by draws."""
        chain = np.zeros((value.size, value.size))
        for s, a in enumerate(actions):
            after = self.follows[s, a]
            y = self.reward[s, a] + self.discount * np.where(after >= 0, value[np.maximum(after, 0)], 0.0)
            theta = rng.dirichlet(self.counts[self.source[s, a]], 20_000)
            reach = max(float(np.ptp(y)), 1e-300)
            base = risk_of(lucks(y, theta, self.inner), self.outer).value
            for k, t in enumerate(after.tolist()):
                if t >= 0:
                    nudged = y.copy()
                    nudged[k] += 1e-5 * reach
                    chain[s, t] += (risk_of(lucks(nudged, theta, self.inner), self.outer).value - base) / (1e-5 * reach)
        return np.clip(chain, 0.0, 1.0)


def certificate(number: int, seed: int) -> dict[str, Any]:
    """Judge the certificate of one model."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1, number)))
    case = Case(rng)
    found = case.solve(float(rng.choice([1e-4, 1e-10])))
    with mp.workdps(40):
        value = [mp.mpf(x) for x in found.value.tolist()]
        near, radius = value, mp.inf
        for _ in range(4):
            applied, actions, doubt = case.backup(near)
            off = [x - y for x, y in zip(applied, near, strict=True)]
            radius = (max(abs(x) for x in off) + doubt) / (1 - mp.mpf(case.discount))
            gap = max(abs(x - y) for x, y in zip(value, near, strict=True))
            if radius <= mp.mpf(found.error_bound) / 50:
                break
            if case.discount == 0.0:
                near = applied
                continue
            chain = case.chances(np.array([float(x) for x in near]), actions, rng)
            matrix = mp.matrix((np.eye(len(near)) - case.discount * chain).tolist())
            near = [x + y for x, y in zip(near, mp.lu_solve(matrix, mp.matrix(off)), strict=True)]
        bound = mp.mpf(found.error_bound)
        return {
            "model": number, "kind": case.kind, "states": len(value), "bound": found.error_bound,
            "share": float(gap / bound), "doubt": float(radius / bound), "judged": bool(radius <= bound / 10),
            "false": bool(gap - radius > bound),
        }  # fmt: skip


# -- the run -----------------------------------------------------------------------------------------------


def judged(job: tuple[str, int, int, int]) -> dict[str, Any]:
    """Judge a row or a model; what raises is a failure."""
    kind, number, seed, draws = job
    try:
        return row(number, seed, draws) if kind == "row" else certificate(number, seed)
    except Exception as error:
        return {kind: number, "false": True, "raised": repr(error)}


def mixed(rows: list[int], models: list[int]) -> Iterator[tuple[str, int]]:
    """Yield rows and models, a row after as many models as there are to a row."""
    step = max(1, len(models) // max(1, len(rows)))
    left = iter(models)
    for number in rows:
        yield "row", number
        yield from (("model", one) for one in itertools.islice(left, step))
    yield from (("model", one) for one in left)


def report(lines: list[dict[str, Any]]) -> str:
    """Return what was judged."""
    rows, models = ([line for line in lines if kind in line] for kind in ("row", "model"))
    said = []
    for kind in KINDS:
        own = [line for line in rows if line.get("kind") == kind]
        if own:
            off = np.array([line["errors"] for line in own])
            exact, false = sum(line["exact"] for line in own), sum(line["false"] for line in own)
            said.append(
                f"rows, {kind}: {len(own)}, {exact} of them without draws; {false} beyond {LIMIT:g} standard errors; "
                f"largest {off.max():.2f}, root of the mean square {np.sqrt((off**2).mean()):.2f}"
            )
    for kind in ("three", "two", "mean"):
        own = [line for line in models if line.get("kind") == kind]
        if own:
            sure = [line for line in own if line["judged"]]
            share = max((line["share"] for line in sure), default=0.0)
            said.append(
                f"models, {kind}: {len(own)}, {len(sure)} enclosed within a tenth of the bound; "
                f"{sum(line['false'] for line in own)} false certificates; largest error {share:.2g} of the bound"
            )
    raised = sum("raised" in line for line in lines)
    said.append(
        f"{len(rows)} rows, {len(models)} models, {sum(line['false'] for line in lines)} failures; {raised} raised"
    )
    return "\n".join(said)


def main() -> int:
    """Judge what is missing; return 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.luck", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--models", type=int, default=2_000)
    parser.add_argument("--draws", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=20261119)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing after these")
    parser.add_argument("--out", type=Path, help="folder of luck.jsonl")
    asked = parser.parse_args()
    began, file = time.monotonic(), asked.out / "luck.jsonl" if asked.out else None
    lines = []
    if file is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {(kind, line[kind]) for line in lines for kind in ("row", "model") if kind in line}
    wanted = mixed(list(range(asked.rows)), list(range(asked.models)))
    jobs = [(*job, asked.seed, asked.draws) for job in wanted if job not in done]
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    for number in range(len(KINDS)):
        row(number, 0, 1_000)  # compiles
    with ProcessPoolExecutor(asked.workers) as pool:
        waiting, left = set(), iter(jobs)
        while True:
            if time.monotonic() - began < asked.seconds:
                more = itertools.islice(left, 2 * asked.workers - len(waiting))
                waiting |= {pool.submit(judged, job) for job in more}
            if not waiting:
                break
            finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for one in finished:
                line = one.result()
                lines.append(line)
                if file is not None:
                    with file.open("a", encoding="utf-8") as out:
                        out.write(json.dumps(line) + "\n")
                if line["false"]:
                    print(json.dumps(line), file=sys.stderr, flush=True)
    print(report(lines))
    return int(any(line["false"] for line in lines))


if __name__ == "__main__":
    raise SystemExit(main())
