"""How often the checks of a log are right: `python -m benchmarks.check STUDY --logs N --workers W`, STUDY being

- ``alarms``: logs of random models that are Markov. How often does each test say otherwise at 5%, the family of tests
  at 1%, and how often is there a serious finding?
- ``worlds``: the same logs. True values of the policies at the level that honest values recommend and at the level that
  returns over the posterior recommend; how often the intervals hold the truth
- ``noisy``: as ``worlds``, with rewards to which noise is added; ``timed``: with transitions that take 1, 2 or 5 units
- ``power``: logs of models that are not Markov: two hidden types of patients, a hidden state that lasts, drift,
  CartPole with its velocities left out. How often is there a finding, and a serious one?
- ``icu``: ICU-Sepsis with 10,000 admissions: time, honest values and the true discounted survival

Logs are independent, each with its own seed, so the result does not depend on the number of workers. ``--keep FILE``
keeps what every log said, so that a study goes on where it was stopped. The last lines compare the means with what must
hold (``LIMITS``); the exit status is 1 if a limit is missed.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._study import one_thread, results

if __name__ == "__main__":
    one_thread()

import numpy as np
import pandas

import prudent as pr
from prudent.analysis.check import CheckReport

LEVELS = (0.0, 0.5, 0.9)
SHAPES = ((6, 2, 300, 10), (10, 3, 300, 10), (20, 3, 200, 15), (8, 2, 100, 12))  # states, actions, episodes, steps
DISCOUNT = 0.95
DURATIONS = (1, 2, 5)


class World(NamedTuple):
    """A random model: in ``ends`` the process stops."""

    move: np.ndarray  # [S, A, S]
    reward: np.ndarray  # [S, A]
    start: np.ndarray  # [S]
    logging: np.ndarray  # [S, A]
    ends: bool  # whether state 0 is terminal
    noise: float = 0.0  # standard deviation of a reward
    lasting: np.ndarray | None = None  # [S, A, 3] chances of the durations

    @classmethod
    def random(
        cls, rng: np.random.Generator, states: int, actions: int, ends: bool, noise: float = 0.0, timed: bool = False
    ) -> World:
        """Draw a model."""
        start = rng.dirichlet(np.ones(states))
        if ends:
            start[0] = 0.0
        return cls(
            rng.dirichlet(np.full(states, 0.5), size=(states, actions)),
            rng.random((states, actions)),
            start / start.sum(),
            rng.dirichlet(np.full(actions, 2.0), size=states),
            ends,
            noise,
            rng.dirichlet(np.ones(len(DURATIONS)), size=(states, actions)) if timed else None,
        )

    def log(self, rng: np.random.Generator, episodes: int, steps: int) -> pandas.DataFrame:
        """Return a log of the logging policy."""
        who = np.arange(episodes)
        state = _draw(np.tile(self.start, (episodes, 1)), rng)
        parts = []
        for t in range(steps):
            action = _draw(self.logging[state], rng)
            target = _draw(self.move[state, action], rng)
            parts.append(np.stack((who, np.full(who.size, t), state, action, target), axis=1))
            on = target > 0 if self.ends else np.ones(who.size, dtype=bool)
            who, state = who[on], target[on]
        rows = np.concatenate(parts)
        table = pandas.DataFrame(rows, columns=["episode", "step", "state", "action", "next_state"])
        table["reward"] = self.reward[rows[:, 2], rows[:, 3]]
        if self.noise:
            table["reward"] += self.noise * rng.normal(size=len(table))
        if self.lasting is not None:
            table["took"] = np.array(DURATIONS)[_draw(self.lasting[rows[:, 2], rows[:, 3]], rng)]
        return table

    def value(self, weights: np.ndarray) -> float:
        """Return the true value of a policy, chances of actions [S, A]."""
        later = 1.0 if self.lasting is None else self.lasting @ DISCOUNT ** (np.array(DURATIONS) - 1.0)
        move, reward = np.einsum("sa,sat->st", weights * later, self.move), (weights * self.reward).sum(axis=1)
        if self.ends:
            move[0], reward[0] = 0.0, 0.0
        return float(self.start @ np.linalg.solve(np.eye(reward.size) - DISCOUNT * move, reward))


def _draw(chances: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a draw from each row."""
    cumulated = chances.cumsum(axis=1)
    return np.minimum(
        (cumulated <= rng.random(len(chances))[:, None] * cumulated[:, -1:]).sum(axis=1), chances.shape[1] - 1
    )


def _random_log(seed: int, **kind: Any) -> tuple[World, pandas.DataFrame, dict[str, Any]]:
    rng = np.random.default_rng([22, seed])
    states, actions, episodes, steps = SHAPES[seed % len(SHAPES)]
    world = World.random(rng, states, actions, ends=bool(seed // len(SHAPES) % 2), **kind)
    options: dict[str, Any] = {"terminal": [0]} if world.ends else {}
    if world.lasting is not None:
        options["duration"] = "took"
    return world, world.log(rng, episodes, steps), options


def alarms(seed: int) -> dict[str, float]:
    """Return what the check of one log of a Markov world says."""
    _, log, options = _random_log(seed)
    report = pr.check(log, DISCOUNT, rng=seed, threads=1, **options)
    said = {f"5%: {test.past}, {test.what}": float(test.raw_p <= 0.05) for test in report.tests}
    said["1%: any test, adjusted"] = float(min(test.p for test in report.tests) <= 0.01)
    said["any serious finding"] = float(bool(report.serious))
    codes = ("worse-than-log", "promise", "coverage", "few-rows", "one-episode", "heterogeneity", "drift")
    said |= {f"finding: {code}": float(code in {each.code for each in report.findings}) for code in codes}
    return said | {f"serious: {code}": float(code in {each.code for each in report.serious}) for code in codes[:3]}


def worlds(seed: int, **kind: Any) -> dict[str, float]:
    """Return true values of recommended policies of one log of a Markov world, and whether intervals hold the truth."""
    world, log, options = _random_log(seed, **kind)
    report = pr.check(log, DISCOUNT, alphas=LEVELS, rng=seed, threads=1, **options)
    model, posterior = pr.from_log(log, DISCOUNT, **options)
    profile = pr.risk_profile(model, posterior, LEVELS, start=model.summary.starts, draws=500, rng=seed, threads=1)
    true = {}
    for alpha, solution in profile.solutions.items():
        weights = world.logging.copy()
        names = range(model.n_states) if solution.states is None else solution.states
        for state, action in zip(names, solution.policy_names, strict=True):
            if action is not None:
                weights[state] = np.eye(weights.shape[1])[action]
        true[alpha] = world.value(weights)
    logged = world.value(world.logging)
    values = report.honest
    held = {
        f"interval of level {cell.alpha:g} holds the true value": float(
            values.low[i] <= true[cell.alpha] <= values.high[i]
        )
        for i, cell in enumerate(values.cells)
        if cell.alpha is not None
    }
    last = values.log_of(values.best)
    return held | {
        "interval of the log holds the true value": float(values.low[last] <= logged <= values.high[last]),
        "honest recommendation less that of returns over the posterior": true[report.recommended.alpha]
        - true[profile.recommended],
        "honest recommendation less the log": true[report.recommended.alpha] - logged,
        "honest recommendation is not worse than the log": float(true[report.recommended.alpha] >= logged),
        "promised less true": float(values.promised[values.best]) - true[report.recommended.alpha],
        "any serious finding": float(bool(report.serious)),
    }


# -- worlds that are not Markov ----------------------------------------------------------------------------


def _patients(rng: np.random.Generator, kind: str, strength: float = 0.25) -> pandas.DataFrame:
    """Return 300 patients: health 0 (dead) to 4; a hidden type, or a hidden state, decides which drug helps."""
    rows = []
    for e in range(300):
        hidden, state = rng.integers(2), rng.integers(2, 5)
        for t in range(10):
            if kind == "hidden state" and rng.random() < 0.2:
                hidden = 1 - hidden
            if kind == "drift":
                hidden = int(e >= 150)
            action = rng.integers(2)
            up = rng.random() < 0.5 + strength * (1 if action == hidden else -1)
            target = min(4, state + 1) if up else state - 1
            rows.append((e, t, state, action, target, float(target >= 3) - 5.0 * (target == 0)))
            state = target
            if state == 0:
                break
    return pandas.DataFrame(rows, columns=["episode", "step", "state", "action", "next_state", "reward"])


def _cart(rng: np.random.Generator) -> pandas.DataFrame:
    """Return CartPole episodes whose states are 60 bins of the angle alone."""
    import gymnasium

    env, rows = gymnasium.make("CartPole-v1"), []
    for e in range(100):
        seen, _ = env.reset(seed=int(rng.integers(2**31)))
        for t in range(150):
            action = int(seen[2] + 0.3 * seen[3] + 0.3 * rng.normal() > 0.0)
            after, reward, over, _, _ = env.step(action)
            angles = [int(np.clip((each[2] + 0.21) / 0.007, 0, 59)) for each in (seen, after)]
            rows.append((e, t, angles[0], action, 60 if over else angles[1], reward))
            seen = after
            if over:
                break
    return pandas.DataFrame(rows, columns=["episode", "step", "state", "action", "next_state", "reward"])


def power(seed: int) -> dict[str, float]:
    """Return whether findings are made in one log of each world that is not Markov."""
    said: dict[str, float] = {}
    makers: dict[str, Callable[[np.random.Generator], pandas.DataFrame]] = {
        kind: lambda rng, kind=kind: _patients(rng, kind) for kind in ("two types", "hidden state", "drift")
    }
    for kind, make in (makers | {"CartPole, angle only": _cart}).items():
        rng = np.random.default_rng([23, seed])
        ends = [60] if kind.startswith("Cart") else [0]
        report = pr.check(make(rng), DISCOUNT, terminal=ends, rng=seed, threads=1)
        found = [each for each in report.findings if each.code.startswith(("markov", "hetero", "drift"))]
        said[f"{kind}: a finding about the states"] = float(bool(found))
        said[f"{kind}: serious"] = float(any(each.severity == "serious" for each in found))
    return said


# -- ICU-Sepsis --------------------------------------------------------------------------------------------


def _admitted(count: int, rng: np.random.Generator) -> pandas.DataFrame:
    """Return a log of admissions with their numbers."""
    from .icu import truth

    known = truth()
    who, state = np.arange(count), _draw(np.tile(known.start, (count, 1)), rng)
    parts, t = [], 0
    while who.size:
        action = _draw(known.expert[state], rng)
        target = _draw(known.move[state, action], rng)
        parts.append(np.stack((who, np.full(who.size, t), state, action, target), axis=1))
        on = target < known.alive
        who, state, t = who[on], target[on], t + 1
    return pandas.DataFrame(np.concatenate(parts), columns=["episode", "step", "state", "action", "next_state"])


def icu(seed: int, count: int = 10_000) -> tuple[CheckReport, dict[str, float]]:
    """Check a log of ICU-Sepsis; return whether intervals hold the true discounted survival."""
    from .icu import DEATH, DISCOUNT, SURVIVAL, plans, truth

    known, log = truth(), _admitted(count, np.random.default_rng([24, seed]))
    terminal = {DEATH: 0.0, SURVIVAL: 1.0}
    began, spent = time.perf_counter(), time.process_time()
    report = pr.check(log, DISCOUNT, terminal=terminal, rewards=0, rng=seed)
    said = {"seconds": time.perf_counter() - began, "of CPU": time.process_time() - spent}
    said |= {"any serious finding": float(bool(report.serious))}
    model, posterior = pr.from_log(log, DISCOUNT, terminal=terminal, rewards=0)
    n = known.alive
    for alpha, solution in plans(model, posterior).items():
        weights = known.followed(solution)
        chain = np.einsum("sa,sat->st", weights[:n], known.move[:n])
        value = np.linalg.solve(np.eye(n) - DISCOUNT * chain[:, :n], DISCOUNT * chain[:, SURVIVAL])
        true, at = float(known.start[:n] @ value), report.honest.at(alpha=alpha)[0]
        said[f"level {alpha:g}: honest"], said[f"level {alpha:g}: true"] = float(report.honest.honest[at]), true
        said[f"level {alpha:g}: in the interval"] = float(report.honest.low[at] <= true <= report.honest.high[at])
    return report, said


def _icu(seed: int) -> dict[str, float]:
    return icu(seed)[1]


STUDIES: dict[str, Callable[[int], dict[str, float]]] = {
    "alarms": alarms,
    "worlds": worlds,
    "noisy": functools.partial(worlds, noise=0.5),
    "timed": functools.partial(worlds, timed=True),
    "power": power,
    "icu": _icu,
}


# what must hold: by study and the beginning of a line, the least or the most that its mean may be
LIMITS: dict[str, dict[str, tuple[str, float]]] = {
    "alarms": {"5%": ("most", 0.05), "1%": ("most", 0.01), "any serious finding": ("most", 0.05)},
    "worlds": {
        "interval": ("least", 0.9),
        "honest recommendation less": ("least", 0.0),
        "any serious finding": ("most", 0.05),
    },
    "icu": {"seconds": ("most", 120.0)} | {f"level {level:g}:": ("least", 0.9) for level in LEVELS},
}
LIMITS["noisy"] = LIMITS["timed"] = LIMITS["worlds"]
ALLOWED = 3.0  # standard errors by which a mean may miss its limit


def judged(task: tuple[str, int]) -> dict[str, float]:
    """Return what one log says in a study."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pr.errors.CautionWarning)
        return STUDIES[task[0]](task[1])


def study(
    name: str, logs: int, workers: int, first: int = 0, keep: Path | None = None
) -> dict[str, tuple[float, float, int]]:
    """Return the mean, its standard error and the number of logs of everything that a study says."""
    said = results(judged, [(name, seed) for seed in range(first, first + logs)], workers, keep)
    counted: Counter[str] = Counter(key for each in said for key in each)
    means = {}
    for key, number in counted.items():
        values = np.array([each[key] for each in said if key in each])
        means[key] = float(values.mean()), float(values.std() / np.sqrt(number)), number
    return means


def missed(name: str, means: dict[str, tuple[float, float, int]]) -> list[str]:
    """Print how the means of a study stand to their limits; return what misses one by more than chance allows."""
    found = []
    for start, (kind, limit) in LIMITS.get(name, {}).items():
        for key, (mean, error, number) in means.items():
            if not key.startswith(start) or key.endswith((": honest", ": true")):
                continue
            # a share without any spread is still not known exactly
            spread = max(error, float(np.sqrt(limit * (1.0 - limit) / number))) if 0.0 < limit < 1.0 else error
            met = mean >= limit - ALLOWED * spread if kind == "least" else mean <= limit + ALLOWED * spread
            found += [] if met else [key]
            print(f"{'met' if met else 'MISSED':6}  {key}: {mean:.4g}, at {kind} {limit:g} (within {ALLOWED:g} errors)")
    return found


def table(means: dict[str, tuple[float, float, int]]) -> str:
    """Return the means as a table in Markdown."""
    lines = ["| what | mean | standard error | logs |", "|---|---:|---:|---:|"]
    return "\n".join(lines + [f"| {key} | {mean:.4g} | {error:.2g} | {n} |" for key, (mean, error, n) in means.items()])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.check", description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=sorted(STUDIES))
    parser.add_argument("--logs", type=int, default=100)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--first", type=int, default=0, help="seed of the first log")
    parser.add_argument("--keep", type=Path, help="a file for what was found so far, from which a run goes on")
    asked = parser.parse_args()
    began = time.perf_counter()
    answer = study(asked.study, asked.logs, asked.workers, asked.first, asked.keep)
    print(table(answer), end="\n\n")
    failures = missed(asked.study, answer)
    print(f"{asked.logs} logs in {time.perf_counter() - began:.0f} s with {asked.workers} workers")
    sys.exit(bool(failures))
