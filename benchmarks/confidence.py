"""Do confidence sequences hold, and how long do they take: ``python -m benchmarks.confidence --workers 2 --keep FILE``.

False alarms: experiments in which the truth is ever outside, with a look after every reward. An sd that is learned is
exact for normal rewards only; for the other laws its rate is printed without a limit. Stopping times: how many
rewards of each arm it takes until zero is outside, if the difference of two arms is half of the noise; a test with a
fixed size needs 2 (1.96 + 0.84)^2 / 0.25 = 63 rewards of each arm for a power of 80% at 5%, two-sided.

The experiments are simulated in pieces, each with random numbers of its own. What a piece has found is appended to the
file ``--keep``; run again, the command goes on with the pieces that are missing.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prudent.evaluation import DifferenceSequence
from prudent.evaluation.confidence import Bets, normal_widths
from prudent.evaluation.confidence_differences import bet_capitals, difference_widths, pair_capital
from prudent.evaluation.confidence_sequences import Sums, bet_sizes, log_capital

from ._study import results

FIXED = 2.0 * (1.959964 + 0.841621) ** 2 / 0.25  # rewards of each arm of a test with a fixed size
PIECE = 250  # experiments
Draw = Callable[[np.random.Generator, tuple[int, ...]], Any]


class Law(NamedTuple):
    """A law of rewards."""

    name: str
    mean: float
    sd: float
    draw: Draw
    bounded: bool


LAWS = [
    Law("Bernoulli 1%", 0.01, math.sqrt(0.0099), lambda rng, n: (rng.random(n) < 0.01).astype(float), True),
    Law("Bernoulli 50%", 0.5, 0.5, lambda rng, n: (rng.random(n) < 0.5).astype(float), True),
    Law("Beta(1/2, 2)", 0.2, math.sqrt(0.16 / 3.5), lambda rng, n: rng.beta(0.5, 2.0, n), True),
    Law("normal", 0.0, 1.0, lambda rng, n: rng.standard_normal(n), False),
]


def misses(kind: str, law: Law, x: Any, confidence: float = 0.95) -> Any:
    """Return for each row of rewards [E, N] whether the mean is ever outside the interval of ``kind``."""
    n = np.arange(1.0, x.shape[1] + 1.0)
    first, second = x.cumsum(axis=1), (x * x).cumsum(axis=1)
    if kind.startswith("normal"):
        sd = None if kind == "normal, sd learned" else law.sd if not law.bounded else 0.5
        variance = np.maximum(second / n - (first / n) ** 2, 0.0)
        half = normal_widths(n, variance, sd, confidence, 100)
        return (np.abs(first / n - law.mean) > half + 1e-12).any(axis=1)
    m = law.mean
    if kind == "bernstein":
        shares, weights = bet_sizes(confidence, x.shape[1])
        ends, count = (np.full(x.shape, -m), np.full(x.shape, 1 - m)), np.broadcast_to(n, x.shape)
        found = Sums(first - n * m, second - 2.0 * m * first + n * m * m, *ends, count)
        missed = np.zeros(len(x), dtype=bool)
        for sign in (1.0, -1.0):
            for part in np.array_split(np.arange(len(x)), max(1, x.size // 200_000)):
                chosen = Sums(*(one[part] for one in found))
                missed[part] |= (log_capital(chosen, shares, weights, sign) >= math.log(2 / (1 - confidence))).any(1)
        return missed
    bets = Bets(confidence, 1000)
    missed = np.zeros(len(x), dtype=bool)
    for sign, most in ((1.0, m), (-1.0, 1.0 - m)):
        capital = np.zeros((bets.sizes.size, len(x)))
        size = bets.allowed(np.array([most]))
        for t in range(x.shape[1]):
            capital += np.log1p(sign * size * (x[:, t] - m))
            missed |= np.logaddexp.reduce(capital, axis=0) >= bets.goal
    return missed


def adaptive(law: Law, experiments: int, looks: int, rng: np.random.Generator) -> dict[str, float]:
    """Return rates of misses of two equal arms that are assigned greedily with 10% exploration each.

    Rows: the difference by ``normal``; by ``bernstein`` the share in which the capital against the true pair of means
    is ever refuted, which is at least that of misses; by importance weights the mean of arm 1.
    """
    n, first, second = (np.zeros((2, experiments)) for _ in range(3))
    sd = law.sd if not law.bounded else 0.5
    names = ["difference, sd given", "difference, sd learned"]
    names += ["difference, bernstein", "mean of arm 1, by weights"] if law.bounded else []
    missed = {name: np.zeros(experiments, dtype=bool) for name in names}
    pair_bets, pair_weights = bet_sizes(0.95, 4 * looks)
    shares, weights = bet_sizes(0.95, looks)
    bets, sums = shares / 10.0, np.zeros((5, experiments))
    for _ in range(looks):
        means = first / np.maximum(n, 1.0)
        chance = np.where(means[1] > means[0], 0.9, np.where(means[1] < means[0], 0.1, 0.5))
        arm = (rng.random(experiments) < chance).astype(int)
        x = law.draw(rng, (experiments,))
        for i in (0, 1):
            chosen = arm == i
            n[i] += chosen
            first[i] += chosen * x
            second[i] += chosen * x * x
        both = (n > 1.0).all(axis=0)
        count = np.maximum(n, 1.0)
        variance = np.maximum(second / count - (first / count) ** 2, 0.0)
        d = np.abs(first[1] / count[1] - first[0] / count[0])
        for name, given in (("difference, sd given", sd), ("difference, sd learned", None)):
            half = difference_widths(count[1], count[0], variance[1], variance[0], given, 0.95, 100)
            missed[name] |= both & (d > half + 1e-12)
        if law.bounded:
            arms, mean = [np.stack([n[i], first[i], second[i]]) for i in (0, 1)], np.full(experiments, law.mean)
            for one, other in (arms, arms[::-1]):
                up, down = bet_capitals(one, mean, pair_bets, 1.0), bet_capitals(other, mean, pair_bets, -1.0)
                missed["difference, bernstein"] |= pair_capital(up, down, pair_weights) >= math.log(40.0)
            w = np.where(arm == 1, 1.0 / chance, 0.0)
            sums += [w, w * x, w * w, w * w * x, w * w * x * x]
            m = law.mean
            total, square = sums[1] - m * sums[0], sums[4] - 2.0 * m * sums[3] + m * m * sums[2]
            found = Sums(total, square, np.full(experiments, -10.0 * m), np.full(experiments, 10.0 * (1.0 - m)))
            for sign in (1.0, -1.0):
                missed["mean of arm 1, by weights"] |= log_capital(found, bets, weights, sign) >= math.log(40.0)
    return {name: float(one.mean()) for name, one in missed.items()}


def normal_stops(experiments: int, rng: np.random.Generator, *, sd: float | None, law: str, planned: int = 63) -> Any:
    """Return stopping times of ``normal`` differences of half the noise, with a look after every pair."""
    n = np.arange(1.0, 601.0)
    shape = (experiments, n.size)
    if law == "normal":
        x, y = rng.normal(0.5, 1.0, shape), rng.standard_normal(shape)
    else:
        x, y = (rng.random(shape) < 0.625).astype(float), (rng.random(shape) < 0.375).astype(float)  # sd 0.48 each
    (a, aa), (b, bb) = ((z.cumsum(axis=1) / n, (z * z).cumsum(axis=1) / n) for z in (x, y))
    half = difference_widths(n, n, np.maximum(aa - a * a, 0), np.maximum(bb - b * b, 0), sd, 0.95, planned)
    return _first(np.abs(a - b) > half)


def bernstein_stops(experiments: int, rng: np.random.Generator, chances: tuple[float, float], planned: int) -> Any:
    """Return stopping times of ``bernstein`` differences, with a look after every twentieth of the fixed size."""
    spread = sum(p * (1.0 - p) for p in chances)
    fixed = spread * (1.959964 + 0.841621) ** 2 / (chances[1] - chances[0]) ** 2
    step = max(1, round(fixed / 20.0))
    stops = []
    for _ in range(experiments):
        found, n = DifferenceSequence("bernstein", value_range=(0.0, 1.0), planned=planned), 0
        while n < 10 * fixed:
            for arm in (0, 1):
                found.update(arm, (rng.random(step) < chances[arm]).astype(float))
            n += step
            if found.interval()[0] > 0.0:
                break
        stops.append(n)
    return np.array(stops) / fixed * FIXED


def _first(hit: Any) -> Any:
    return np.where(hit.any(axis=1), hit.argmax(axis=1) + 1.0, np.inf)


STOPS: list[tuple[str, str, bool, Callable[[int, np.random.Generator], Any]]] = [
    ("normal", "normal, sd given", True, lambda n, rng: normal_stops(n, rng, sd=1.0, law="normal")),
    ("normal", "normal, sd learned", True, lambda n, rng: normal_stops(n, rng, sd=None, law="normal")),
    ("Bernoulli 37% 62%", "normal, sd 1/2", True, lambda n, rng: normal_stops(n, rng, sd=0.5, law="Bernoulli")),
    ("Bernoulli 37% 62%", "normal, sd learned", True, lambda n, rng: normal_stops(n, rng, sd=None, law="Bernoulli")),
    ("Bernoulli 37% 62%", "bernstein", True, lambda n, rng: bernstein_stops(n, rng, (0.375, 0.625), 63)),
    ("Bernoulli 1% 1.5%", "bernstein", False, lambda n, rng: bernstein_stops(n, rng, (0.01, 0.015), 8000)),
]


def piece(task: tuple[str, int, int, int, int, int]) -> Any:
    """Return misses by assignment and interval of some experiments of a law, or stopping times of a row of the table.

    A task is what is asked for, the number of the law or row, experiments, looks, the seed and the number of the piece.
    """
    what, number, experiments, looks, seed, part = task
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(what == "stops", number, part)))
    if what == "stops":
        return STOPS[number][3](experiments, rng).tolist()
    law = LAWS[number]
    kinds = ["bernstein", "betting"] if law.bounded else []
    x = law.draw(rng, (experiments, looks))
    alone = {kind: int(misses(kind, law, x).sum()) for kind in (*kinds, "normal, sd given", "normal, sd learned")}
    greedy = adaptive(law, experiments, looks, rng)
    return {"one arm": alone, "greedy": {kind: round(rate * experiments) for kind, rate in greedy.items()}}


def main() -> int:
    """Print both tables; return 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=10_000)
    parser.add_argument("--looks", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--keep", type=Path, default=None, help="file of the pieces")
    given = parser.parse_args()
    parts = [(part, min(PIECE, given.experiments - part)) for part in range(0, given.experiments, PIECE)]
    tasks = [("alarms", i, n, given.looks, given.seed, part) for part, n in parts for i in range(len(LAWS))]
    few = [(part, max(20, n // 50) if "bernstein" in row[1] else n) for row in STOPS for part, n in parts]
    rows = [i for i in range(len(STOPS)) for _ in parts]
    tasks += [("stops", i, n, 0, given.seed, part) for i, (part, n) in zip(rows, few, strict=True)]
    found, bad = dict(zip(tasks, results(piece, tasks, given.workers, given.keep), strict=True)), 0
    print(f"False alarms at 95%: {given.experiments:,} experiments, a look after each of {given.looks:,} rewards")
    print(f"{'rewards':15}{'assignment':14}{'interval':28}{'rate':>8}  limit 5%")
    for i, law in enumerate(LAWS):
        pieces = [said for task, said in found.items() if task[:2] == ("alarms", i)]
        for assignment, kinds in pieces[0].items():
            for kind in kinds:
                rate = sum(one[assignment][kind] for one in pieces) / given.experiments
                bad += _alarm(law, assignment, kind, rate)
    print("\nRewards of each arm until a difference of half the noise is found; a fixed size needs 63, limit 126")
    print(f"{'rewards':22}{'interval':28}{'median':>8}{'mean':>8}{'80%':>8}{'by 126':>9}")
    for i, (law_name, kind, limited, _) in enumerate(STOPS):
        stops = np.concatenate([said for task, said in found.items() if task[:2] == ("stops", i)])
        late = float(np.quantile(stops, 0.8))
        missed = limited and late > 2.0 * FIXED
        bad += missed
        share = float((stops <= 2.0 * FIXED).mean())
        note = ("  MISSED" if missed else "") if limited else "  (no limit; scaled to 63)"
        print(f"{law_name:22}{kind:28}{np.median(stops):8.0f}{np.mean(stops):8.0f}{late:8.0f}{share:9.1%}{note}")
    return int(bad > 0)


def _alarm(law: Law, assignment: str, kind: str, rate: float) -> bool:
    asymptotic = "learned" in kind and law.bounded
    missed = rate > 0.05 and not asymptotic
    note = "  MISSED" if missed else "  (asymptotic: no limit)" if asymptotic else ""
    print(f"{law.name:15}{assignment:14}{kind:28}{rate:8.2%}{note}", flush=True)
    return missed


if __name__ == "__main__":
    raise SystemExit(main())
