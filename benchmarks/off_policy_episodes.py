"""Off-policy evaluation of episodes where the truth is known: bias, spread and coverage of every estimator.

``python -m benchmarks off_policy_episodes --logs 500 --workers 2`` simulates logs in four worlds, evaluates a policy
close to the one that acted and one that is far from it, and writes a table in Markdown. ``--page`` writes it as a page.

- **ICU-Sepsis** (Choudhary et al.): 716 states, 25 actions, clinicians treat 2,000 admissions; survival is the return.
  The policy does in a twentieth of the decisions (near), or in nine tenths (far), what the best policy does.
- **chain**: 20 steps forward or back on a line of 20 states, with a reward at its end and noise.
- **grid**: 5 x 5 cells with slips, a goal, pits and a cost for each step, until the end.
- **CartPole**: the physics of Gymnasium's CartPole for 50 steps, with states that are cells of the four numbers, so
  that they are not Markov; the truth is simulated with 200,000 episodes.

Chunks of logs are units of work, so that the result does not depend on the number of workers; with ``--folder``
finished chunks are kept and not done again. A run in another place can so be carried on, or made into a page, here. A
world whose package is not installed (icu-sepsis) is left out, and said to be.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks._study import one_thread

ESTIMATORS = ("is", "wis", "pdis", "wpdis", "dr", "wdr", "mis", "fqe", "model")
CHUNK = 10  # logs in a unit of work
COLLAPSED = 0.01  # effective share of the episodes below which weights have collapsed
COVERED = (0.93, 0.97)  # wanted coverage of the recommended estimate


class World(NamedTuple):
    """A process with two policies."""

    discount: float
    episodes: int
    policy: Any  # the target
    truth: float
    log: Callable[[int, np.random.Generator], dict[str, Any]]
    keywords: dict[str, Any]


# -- tabular worlds ----------------------------------------------------------------------------------------


class Process(NamedTuple):
    """A known process: states S and later are ends."""

    move: np.ndarray  # [S, A, S + ends]
    reward: np.ndarray  # [S, A, S + ends]
    start: np.ndarray  # [S]
    noise: float
    horizon: int | None

    def value(self, policy: np.ndarray, discount: float) -> float:
        """Return the expected return of a policy [S, A]."""
        S = self.move.shape[0]
        chain = np.einsum("sa,sat->st", policy, self.move)[:, :S]
        earned = np.einsum("sa,sat,sat->s", policy, self.move, self.reward)
        if self.horizon is None:
            return float(self.start @ np.linalg.solve(np.eye(S) - discount * chain, earned))
        v = np.zeros(S)
        for _ in range(self.horizon):
            v = earned + discount * chain @ v
        return float(self.start @ v)

    def log(self, acting: np.ndarray, episodes: int, rng: np.random.Generator) -> dict[str, Any]:
        """Return the log of a policy [S, A]."""
        S = self.move.shape[0]
        choices, moves = acting.cumsum(axis=1), self.move.cumsum(axis=2)
        state = np.searchsorted(self.start.cumsum(), rng.random(episodes) * self.start.sum(), side="right")
        episode, rows, step = np.arange(episodes), [], 0
        while state.size and (self.horizon is None or step < self.horizon):
            action = (choices[state] <= (rng.random(state.size) * choices[state, -1])[:, None]).sum(axis=1)
            row = moves[state, action]
            target = (row <= (rng.random(state.size) * row[:, -1])[:, None]).sum(axis=1)
            reward = self.reward[state, action, target] + self.noise * rng.standard_normal(state.size)
            chance = acting[state, action]
            rows.append((episode, np.full(state.size, step), state, action, reward, chance, target >= S))
            on = target < S
            episode, state, step = episode[on], target[on], step + 1
        names = ("episode", "step", "state", "action", "reward", "propensity", "done")
        return {name: np.concatenate(parts) for name, parts in zip(names, zip(*rows, strict=True), strict=True)}


def _mixed(one: np.ndarray, other: np.ndarray, share: float) -> np.ndarray:
    return np.asarray((1.0 - share) * one + share * other)


def _tabular(
    process: Process, acting: np.ndarray, target: np.ndarray, discount: float, episodes: int, **keywords: Any
) -> World:
    truth = process.value(target, discount)
    return World(discount, episodes, target, truth, lambda n, rng: process.log(acting, n, rng), keywords)


def chain(distance: str) -> World:
    """Return the chain: forward succeeds with 0.8, back always; reward at the end, and a small one at the start."""
    S, H = 20, 20
    move, reward = np.zeros((S, 2, S)), np.zeros((S, 2, S))
    for s in range(S):
        move[s, 1, min(s + 1, S - 1)] += 0.8
        move[s, 1, s] += 0.2
        move[s, 0, max(s - 1, 0)] = 1.0
        reward[s] = 0.1 * (s == 0) + s / S + 1.0 * (s == S - 1)
    start = np.zeros(S)
    start[:10] = 0.1
    acting = np.full((S, 2), 0.5)
    forward = np.eye(2)[np.ones(S, dtype=np.int64)]
    share = {"near": 0.2, "far": 0.95}[distance]
    return _tabular(Process(move, reward, start, 0.5, H), acting, _mixed(acting, forward, share), 0.98, 1000)


def grid(distance: str) -> World:
    """Return the grid of 5 x 5 cells: the goal earns 1, two pits cost 1, and a step costs 0.02."""
    size = 5
    cells = [(x, y) for x in range(size) for y in range(size)]
    ends = {(4, 4): 1.0, (1, 3): -1.0, (3, 1): -1.0}
    live = [cell for cell in cells if cell not in ends]
    index = {cell: i for i, cell in enumerate([*live, *ends])}
    steps = ((0, 1), (1, 0), (0, -1), (-1, 0))
    S = len(live)
    move, reward = np.zeros((S, 4, len(index))), np.zeros((S, 4, len(index)))
    for cell in live:
        for a in range(4):
            for turn, chance in ((0, 0.8), (1, 0.1), (3, 0.1)):
                dx, dy = steps[(a + turn) % 4]
                to = (min(max(cell[0] + dx, 0), 4), min(max(cell[1] + dy, 0), 4))
                move[index[cell], a, index[to]] += chance
                reward[index[cell], a, index[to]] = ends.get(to, 0.0) - 0.02
    start = np.zeros(S)
    start[[index[0, 0], index[0, 1], index[1, 0]]] = 1.0 / 3.0
    good = _greedy(move[:, :, :S], (move * reward).sum(axis=2), 0.99)
    acting = _mixed(np.full((S, 4), 0.25), good, 0.5)
    target = _mixed(acting, good, 0.3) if distance == "near" else np.full((S, 4), 0.25)
    return _tabular(Process(move, reward, start, 0.0, None), acting, target, 0.99, 1000)


def _greedy(move: np.ndarray, reward: np.ndarray, discount: float) -> np.ndarray:
    """Return the best policy [S, A] of a process that ends."""
    S, A = reward.shape
    policy = np.zeros(S, dtype=np.int64)
    while True:
        own = np.arange(S), policy
        value = np.linalg.solve(np.eye(S) - discount * move[own], reward[own])
        q = reward + discount * (move @ value)
        better = q.argmax(axis=1)
        better = np.where(q[np.arange(S), better] > q[own] + 1e-12, better, policy)
        if (better == policy).all():
            return np.eye(A)[policy]
        policy = better


def icu(distance: str) -> World:
    """Return ICU-Sepsis, with survival as the return."""
    from benchmarks.icu import DEATH, SURVIVAL, truth

    known = truth()
    n = known.alive
    move = np.concatenate((known.move[:n, :, :n], known.move[:n, :, DEATH : SURVIVAL + 1]), axis=2)
    reward = np.zeros_like(move)
    reward[:, :, n + SURVIVAL - DEATH] = 1.0
    acting = known.expert[:n]
    earned = np.where(acting > 0.0, (move * reward).sum(axis=2), -1.0)
    best = _greedy(move[:, :, :n], earned, 1.0)
    share = {"near": 0.05, "far": 0.9}[distance]
    process = Process(move, reward, known.start[:n] / known.start[:n].sum(), 0.0, None)
    return _tabular(process, acting, _mixed(acting, best, share), 0.999, 2000)


# -- CartPole ----------------------------------------------------------------------------------------------


def _push(points: np.ndarray, gain: float) -> np.ndarray:
    """Return the probability of pushing to the right, by position, velocity, angle and angular velocity."""
    return np.asarray(1.0 / (1.0 + np.exp(-gain * (points @ np.array([0.1, 0.3, 4.0, 1.0])))))


def _physics(points: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the next numbers [n, 4] of CartPole, and which episodes are over."""
    x, speed, angle, turning = points.T
    force = np.where(right, 10.0, -10.0)
    cos, sin = np.cos(angle), np.sin(angle)
    pull = (force + 0.05 * turning**2 * sin) / 1.1
    bend = (9.8 * sin - cos * pull) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
    push = pull - 0.05 * bend * cos / 1.1
    after = np.stack((x + 0.02 * speed, speed + 0.02 * push, angle + 0.02 * turning, turning + 0.02 * bend), axis=1)
    return after, (abs(after[:, 0]) > 2.4) | (abs(after[:, 2]) > 12.0 * np.pi / 180.0)


def _cells(points: np.ndarray) -> np.ndarray:
    cuts = ([0.0], [0.0], [-0.1, -0.03, 0.0, 0.03, 0.1], [-0.6, -0.2, 0.2, 0.6])
    code = np.zeros(len(points), dtype=np.int64)
    for column, edges in zip(points.T, cuts, strict=True):
        code = code * (len(edges) + 1) + np.searchsorted(edges, column)
    return code


def _poles(gain: float, episodes: int, rng: np.random.Generator, steps: int = 50) -> dict[str, Any]:
    points = rng.uniform(-0.05, 0.05, (episodes, 4))
    episode, rows = np.arange(episodes), []
    for step in range(steps):
        chance = _push(points, gain)
        right = rng.random(len(points)) < chance
        after, over = _physics(points, right)
        own = np.where(right, chance, 1.0 - chance)
        rows.append((episode, np.full(len(points), step), points, right.astype(np.int64), own, over))
        episode, points = episode[~over], after[~over]
        if not episode.size:
            break
    episode, step, points, action, own, over = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    log = {"episode": episode, "step": step, "action": action, "reward": np.ones(len(action)), "propensity": own}
    log |= {"done": over, "state": _cells(points)}
    return log | dict(zip(("x", "speed", "angle", "turning"), points.T, strict=True))


@cache
def _pole_truth(gain: float) -> float:
    log = _poles(gain, 200_000, np.random.default_rng(3))
    return float(np.bincount(log["episode"], 0.98 ** log["step"]).mean())


def cartpole(distance: str) -> World:
    """Return CartPole with a logit controller; the target reacts a little more, or much more."""
    gain = {"near": 0.6, "far": 4.0}[distance]

    def policy(frame: Any) -> np.ndarray:
        right = _push(frame[["x", "speed", "angle", "turning"]].to_numpy(), gain)
        return np.column_stack([1.0 - right, right])

    return World(0.98, 1000, policy, _pole_truth(gain), lambda n, rng: _poles(0.4, n, rng), {})


WORLDS: dict[str, Callable[[str], World]] = {"ICU-Sepsis": icu, "chain": chain, "grid": grid, "CartPole": cartpole}
NEEDED = {"ICU-Sepsis": "icu_sepsis"}  # packages that worlds are read from
SETTINGS = [(name, distance) for name in WORLDS for distance in ("near", "far")]


# -- the study ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _world(number: int) -> World:
    """Return the world of a setting, the last one kept."""
    name, distance = SETTINGS[number]
    return WORLDS[name](distance)


def measure(number: int, chunk: int, count: int, markov: bool, folder: Path | None) -> list[dict[str, Any]]:
    """Return what was found in some logs of a setting."""
    file = None if folder is None else folder / f"{number}-{chunk}-{int(markov)}-{count}.json"
    if file is not None and file.exists():
        return list(json.loads(file.read_text(encoding="utf-8")))
    from prudent import off_policy

    warnings.simplefilter("ignore")
    world = _world(number)
    rng = np.random.default_rng(np.random.SeedSequence(31, spawn_key=(number, chunk)))
    found = []
    for _ in range(count):
        log = world.log(world.episodes, rng)
        keywords = {"discount": world.discount, "markov": markov, "draws": 500, "rng": rng, **world.keywords}
        result = off_policy(log, world.policy, **keywords)
        table = result.table
        record = {column: [_short(x) for x in table[column]] for column in ("estimate", "low", "high")}
        record |= {column: table[column].tolist() for column in ("answers", "code")}
        record |= {"recommended": result.recommended, "collapsed": float(table.loc["is", "ess"]) / result.n}
        found.append(record)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.with_suffix(".part").write_text(json.dumps(found), encoding="utf-8")
        file.with_suffix(".part").replace(file)
    return found


def _short(number: float) -> float:
    """Return a number with eight digits, which is what files keep."""
    return float(f"{number:.8g}")


class Summary(NamedTuple):
    """What many logs of a setting say."""

    lines: list[str]
    yes: int  # logs whose verdict is yes
    covered: int  # of these, intervals of the recommended estimate that contain the truth
    collapsed: int  # logs whose weights collapsed
    refused: int  # of these, logs whose verdict is no


def summarise(number: int, found: list[dict[str, Any]]) -> Summary:
    """Return the lines of the table of a setting."""
    name, distance = SETTINGS[number]
    truth = _world(number).truth
    value, low, high = (np.array([row[key] for row in found], dtype=np.float64) for key in ("estimate", "low", "high"))
    answers = np.array([row["answers"] for row in found])
    inside = (low <= truth) & (truth <= high)
    best = [row["recommended"] for row in found]
    yes = np.array([one is not None for one in best])
    covered = sum(bool(inside[i, ESTIMATORS.index(one)]) for i, one in enumerate(best) if one is not None)
    collapsed = np.array([row["collapsed"] for row in found]) < COLLAPSED
    lines = []
    for e, estimator in enumerate(ESTIMATORS):
        good = np.isfinite(value[:, e])
        if not good.any():
            lines.append(f"| {name}, {distance} | {estimator} | | | | | 0% |")
            continue
        bias, spread = value[good, e].mean() - truth, value[good, e].std()
        width = np.median(high[good, e] - low[good, e])
        cells = f"{bias:+.4f} | {spread:.4f} | {inside[:, e].mean():.1%} | {width:.4f} | {answers[:, e].mean():.0%}"
        lines.append(f"| {name}, {distance} | {estimator} | {cells} |")
    return Summary(lines, int(yes.sum()), covered, int(collapsed.sum()), int((collapsed & ~yes).sum()))


def main(arguments: list[str]) -> int:
    """Run the study, print its tables, and write them as a page; return 1 if coverage is not as wanted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks off_policy_episodes")
    parser.add_argument("--logs", type=int, default=500, help="logs simulated in each setting")
    parser.add_argument("--far", type=int, help="logs of the settings with a policy that is far, else as many")
    parser.add_argument("--workers", type=int, default=1, help="number of processes")
    parser.add_argument("--folder", type=Path, help="where finished chunks are kept")
    parser.add_argument("--page", type=Path, help="write this page")
    parser.add_argument("--only", nargs="+", default=list(WORLDS), help="some of the worlds")
    parser.add_argument("--distance", choices=("near", "far"), help="only the policy that is near, or far")
    parser.add_argument("--markov", action="store_true", help="say that states are Markov")
    asked = parser.parse_args(arguments)
    one_thread()
    left_out = [name for name, package in NEEDED.items() if importlib.util.find_spec(package) is None]
    for name in left_out:
        print(f"{name} is left out: pip install {NEEDED[name].replace('_', '-')}", file=sys.stderr)
    numbers = [
        n
        for n, (name, distance) in enumerate(SETTINGS)
        if name in asked.only and name not in left_out and asked.distance in (None, distance)
    ]
    logs = {"near": asked.logs, "far": asked.logs if asked.far is None else asked.far}
    units = [
        (number, chunk, min(CHUNK, count - chunk * CHUNK), asked.markov, asked.folder)
        for number in numbers
        for count in [logs[SETTINGS[number][1]]]
        for chunk in range(-(-count // CHUNK))
    ]
    results: dict[int, list[dict[str, Any]]] = {number: [] for number in numbers}
    shown = time.monotonic()
    with ProcessPoolExecutor(asked.workers) as pool:
        found = zip(units, pool.map(measure, *zip(*units, strict=True)), strict=True)
        for done, (unit, records) in enumerate(found, 1):
            results[unit[0]] += records
            if sys.stderr.isatty() or time.monotonic() > shown + 30.0:
                shown = time.monotonic()
                print(f"{done} of {len(units)} chunks", file=sys.stderr, end="\r" if sys.stderr.isatty() else "\n")
    lines = ["| setting | estimator | bias | spread | coverage | width | answers |", "|---" * 2 + "|---:" * 5 + "|"]
    verdicts = ["| setting | verdict yes | recommended covers | weights collapsed | of these refused |"]
    verdicts += ["|---|---:|---:|---:|---:|"]
    fine = True
    for number, records in results.items():
        one = summarise(number, records)
        lines += one.lines
        cover = "" if not one.yes else f"{one.covered / one.yes:.1%}"
        refused = "" if not one.collapsed else f"{one.refused / one.collapsed:.1%}"
        shares = f"{one.yes:,} of {len(records):,} | {cover} | {one.collapsed:,} | {refused}"
        verdicts.append(f"| {', '.join(SETTINGS[number])} | {shares} |")
        slack = 2.6 * np.sqrt(0.05 * 0.95 / max(one.yes, 1))  # of simulation
        fine &= not one.yes or COVERED[0] - slack <= one.covered / one.yes
        fine &= not one.collapsed or one.refused >= 0.95 * one.collapsed
    text = "\n".join([*verdicts, "", *lines])
    print(text)
    if asked.page is not None:
        asked.page.write_text(PAGE.format(**logs) + text + "\n", encoding="utf-8")
    return int(not fine)


PAGE = """# Off-policy evaluation of episodes

How good the estimates of [`off_policy`][prudent.off_policy] are where the truth is known. {near:,} logs were simulated
where the policy is near the one that acted, and {far:,} where it is far, each of 1,000 episodes (2,000 in ICU-Sepsis),
and evaluated with 95% intervals. `python -m benchmarks off_policy_episodes --logs {near} --far {far} --workers 16
--page docs/off-policy-episodes.md` simulates them and writes this page, in about 70 minutes of processor time.

- **ICU-Sepsis**: 716 states, 25 actions; clinicians treat patients, and the return is survival. The policy does in a
  twentieth of the decisions (near), or in nine tenths (far), what the best policy does.
- **Chain**: 20 steps on a line of 20 states. The log goes forward in half of the steps, the policy in 60% (near) or
  97.5% (far).
- **Grid**: 5 x 5 cells with slips, a goal and pits. The policy is better than the one that acted (near), or random
  (far).
- **CartPole**: 50 steps of its physics, with states that are cells of the four numbers, so that they are not Markov.
  The policy is a function of the four numbers; it reacts a little more than the one that acted (near), or much more
  (far).

The verdict says whether a log can answer, and recommends an estimate. Weights have *collapsed* where the episodes of
the log count like less than 1% of them.

"""
