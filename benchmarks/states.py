"""Numbers to states in worlds that nobody tuned to: ``python -m benchmarks states --workers 16``.

Each world (``_worlds.py``) writes logs by a sensible but imperfect policy. ``from_log(..., features=...)`` chooses
states and a risk level by held-out episodes; the policy is then played in the simulator against the policy of the log,
with the same random numbers. Reported for each world, over all logs and over those without a serious finding:

- how often the policy is better than that of the log, and by how much (in standard deviations of an episode);
- promised minus true value, and honest minus true value, each divided by its own standard error.

``--naive`` takes instead what a hasty analyst would do: the main column rounded to whole units, or twelve quantile bins
of every column; every pair that was tried, and the posterior mean. Reported is how often the policy is worse than that
of the log by more than two standard errors, and how often the check is serious then.

``--keep FILE`` keeps what became of every log, so that a study goes on where it was stopped. Worlds of Gymnasium need
that package; without it ``--worlds`` must name others.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ._study import results

LOGS = 30
EPISODES = 200  # that judge a policy in the simulator
NAIVE_BINS = 12  # of each column, for ``--naive``
NAIVE = ("rounded", "bins")
TARGET = 0.9  # share of logs without a serious finding in which the policy must be better
NOTICED = 0.95  # share of harmful hasty designs in which the check must be serious


class Verdict(NamedTuple):
    """One log."""

    world: str
    seed: int
    serious: tuple[str, ...]
    design: str
    alpha: float
    states: int
    gain: float  # of the policy over that of the log, in the simulator
    error: float  # its standard error
    spread: float  # standard deviation of the returns of an episode under the log's policy
    promised: float  # minus true, standardised
    honest: float  # minus true, standardised
    seconds: float


class Hasty(NamedTuple):
    """What became of a hasty design in one log."""

    world: str
    design: str
    seed: int
    states: int
    gain: float  # of the policy over that of the log, in the simulator
    error: float  # its standard error
    serious: tuple[str, ...]
    seconds: float

    @property
    def harmful(self) -> bool:
        """Whether the policy is worse than that of the log by more than two standard errors."""
        return self.gain < -2.0 * self.error


def naive_states(design: str, world: Any, log: dict[str, Any]) -> Any:
    """Return the state map of a hasty analyst."""
    import prudent as pr

    if design == "bins":
        return pr.StateMap(world.features, method="quantiles", bins=NAIVE_BINS, min_rows=1)
    column, unit = world.unit
    whole = np.unique(np.round(np.asarray(log[column]) / unit))
    cuts = {column: (unit * (whole[1:] - 0.5)).tolist()}
    return pr.StateMap((column,), method="cuts", cuts=cuts, min_rows=1)


def judge_naive(task: tuple[str, str, int, int]) -> Hasty:
    """Write a log and play the policy of a hasty design; return its gain and the serious findings."""
    name, design, seed, episodes = task
    import prudent as pr

    from . import _worlds

    began = time.process_time()
    world = _worlds.WORLDS[name]()
    _, log = _worlds.play(world, world.logging, world.episodes, np.random.default_rng([seed, 0]))
    how = {"states": naive_states(design, world, log), "min_count": 1, "truncated": "drop"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, posterior = pr.from_log(log, world.discount, **how)
        solution = pr.BayesianRiskMDP(model, posterior, 0.0).solve(threads=1)
        report = pr.check(log, world.discount, alphas=[0.0], threads=1, **how)
    gain, error = played(world, model.summary.state_map, solution, seed, episodes)[:2]
    found = tuple(dict.fromkeys(each.code for each in report.serious))
    return Hasty(name, design, seed, model.n_states, gain, error, found, time.process_time() - began)


def played(world: Any, states: Any, solution: Any, seed: int, episodes: int) -> tuple[float, float, Any, Any]:
    """Return the gain of a policy over that of the log in the simulator, its error, and the returns of both."""
    from . import _worlds

    chosen = dict(zip(solution.states, solution.policy_names, strict=True))
    actions = np.array([world.actions.index(chosen.get(state) or world.actions[0]) for state in states.states])
    code = Coder(states, world.features)

    def policy(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return actions[code(x)]

    ours, _ = _worlds.play(world, policy, episodes, np.random.default_rng([seed, 1]), whole=True)
    theirs, _ = _worlds.play(world, world.logging, episodes, np.random.default_rng([seed, 1]), whole=True)
    both = float(np.hypot(ours.std(), theirs.std()) / episodes**0.5)
    return float(ours.mean() - theirs.mean()), both, ours, theirs


def judge(task: tuple[str, int, int]) -> Verdict:
    """Write a log, choose states and a policy, and play it."""
    name, seed, episodes = task
    import prudent as pr

    from . import _worlds

    world = _worlds.WORLDS[name]()
    _, log = _worlds.play(world, world.logging, world.episodes, np.random.default_rng([seed, 0]))
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, posterior = pr.from_log(log, world.discount, features=world.features)
        choice = model.summary.state_choice
        problem = pr.BayesianRiskMDP(model, posterior, choice.alpha)
        solution = problem.solve(threads=1)
        report = pr.check(log, world.discount, states=choice, alphas=[choice.alpha], threads=1)
        returns = pr.posterior_returns(
            model, posterior, {"policy": solution}, start=model.summary.starts, draws=200, rng=1, threads=1
        )
    seconds = time.perf_counter() - began
    states = model.summary.state_map
    gain, both, ours, theirs = played(world, states, solution, seed, episodes)
    draws = returns["returns"].sel(policy="policy").to_numpy()
    error = float(ours.std() / episodes**0.5)
    found = tuple(dict.fromkeys(each.code for each in report.serious))
    best = choice.honest.at(design=choice.design, alpha=choice.alpha)[0]
    return Verdict(
        name, seed, found, choice.design, choice.alpha, len(states.states),
        gain, both, float(theirs.std()),
        float((draws.mean() - ours.mean()) / np.hypot(draws.std(), error)),
        float((choice.honest.honest[best] - ours.mean()) / np.hypot(choice.honest.error[best], error)), seconds,
    )  # fmt: skip


class Coder:
    """Numbers of states of observations [n, D]."""

    def __init__(self, states: Any, names: tuple[str, ...]) -> None:
        self.states, self.names = states, names

    def __call__(self, x: np.ndarray) -> np.ndarray:
        from prudent.data.feature_columns import Feature

        return self.states.codes({name: Feature(x[:, i], True) for i, name in enumerate(self.names)})[0]


def main(arguments: list[str]) -> int:
    """Run the study; return 1 if a world misses the target."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks states", description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--logs", type=int, default=LOGS)
    parser.add_argument("--episodes", type=int, default=EPISODES, help="that judge a policy in the simulator")
    parser.add_argument("--worlds", help="some of them, with commas between")
    parser.add_argument("--first", type=int, default=0, help="seed of the first log")
    parser.add_argument(
        "--naive", action="store_true", help="rounded columns and fine bins, and what the check says of them"
    )
    parser.add_argument("--keep", type=Path, help="a file for what was found so far, from which a run goes on")
    parser.add_argument("--designs", default=",".join(NAIVE), help="of --naive, with commas between")
    asked = parser.parse_args(arguments)
    from . import _worlds

    names = asked.worlds.split(",") if asked.worlds else list(_worlds.WORLDS)
    tasks = [(name, asked.first + i, asked.episodes) for i in range(asked.logs) for name in names]
    if asked.naive:
        designs = asked.designs.split(",")
        hasty = [(name, design, seed, episodes) for name, seed, episodes in tasks for design in designs]
        return _naive([_hasty(said) for said in results(judge_naive, hasty, asked.workers, asked.keep)])
    verdicts = [_verdict(said) for said in results(judge, tasks, asked.workers, asked.keep)]
    for verdict in verdicts:
        print(_line(verdict))
    print()
    met = [_summary(name, [v for v in verdicts if v.world == name]) for name in names]
    quiet = [v for v in verdicts if not v.serious]
    share = np.mean([v.gain > 0.0 for v in quiet]) if quiet else float("nan")
    print(
        f"all worlds: {len(quiet)} of {len(verdicts)} logs without a serious finding, better in {share:.0%} of them; "
        f"at least {TARGET:.0%} must be: {'met' if share >= TARGET else 'MISSED'}"
    )
    return int(not all(met))


def _verdict(said: list[Any]) -> Verdict:
    verdict = Verdict(*said)
    return verdict._replace(serious=tuple(verdict.serious))


def _hasty(said: list[Any]) -> Hasty:
    verdict = Hasty(*said)
    return verdict._replace(serious=tuple(verdict.serious))


def _naive(found: list[Hasty]) -> int:
    """Print what became of hasty policies; return 1 if the check misses too many harmful ones."""
    for v in found:
        mark = "HARMFUL" if v.harmful else "better " if v.gain > 2.0 * v.error else "       "
        print(
            f"{v.world:12} log {v.seed:3} {v.design:8} {v.states:5} states  {mark} {v.gain:8.2f} ± {v.error:.2f}  "
            f"{v.seconds:5.1f} s  {', '.join(v.serious)}"
        )
    print()
    for world, design in dict.fromkeys((v.world, v.design) for v in found):
        mine = [v for v in found if (v.world, v.design) == (world, design)]
        bad = [bool(v.serious) for v in mine if v.harmful]
        quiet = sum(not v.serious for v in mine)
        print(
            f"{world:12} {design:8} harmful in {len(bad)} of {len(mine)} logs, serious in {sum(bad)} of these; "
            f"{quiet} logs without a serious finding"
        )
    bad = [bool(v.serious) for v in found if v.harmful]
    worlds = len({v.world for v in found if v.harmful})
    met = sum(bad) >= NOTICED * len(bad)
    print(
        f"all: the check is serious in {sum(bad)} of {len(bad)} logs of {worlds} worlds where a hasty design does "
        f"harm; at least {NOTICED:.0%} must be: {'met' if met else 'MISSED'}"
    )
    return int(not met)


def _line(v: Verdict) -> str:
    mark = "better" if v.gain > 0.0 else "WORSE "
    return (
        f"{v.world:12} log {v.seed:3} {v.design:13} {v.states:4} states alpha {v.alpha:3g}  {mark} {v.gain:8.2f} ± "
        f"{v.error:.2f} ({v.gain / v.spread:+.2f} sd)  promised-true {v.promised:+5.1f}  honest-true {v.honest:+5.1f}  "
        f"{v.seconds:4.1f} s  {', '.join(v.serious)}"
    )


def _summary(name: str, verdicts: list[Verdict]) -> bool:
    """Print a line for a world; return whether it meets the target."""
    quiet = [v for v in verdicts if not v.serious]
    better = [v.gain > 0.0 for v in quiet]
    text = f"{name:12} {len(quiet):3} of {len(verdicts)} logs without a serious finding"
    if quiet:
        text += f": better in {np.mean(better):4.0%}, gain {np.mean([v.gain / v.spread for v in quiet]):+.2f} sd"
    gain = [v.gain > 0.0 for v in verdicts if "no-improvement" not in v.serious]
    if gain:
        text += f"; {len(gain)} with evidence of a gain, Markov tests aside: better in {np.mean(gain):4.0%}"
    text += f"; all logs: better in {np.mean([v.gain > 0.0 for v in verdicts]):4.0%}"
    for title in ("promised", "honest"):
        z = np.array([getattr(v, title) for v in verdicts])
        text += f"; {title}-true {z.mean():+.2f} (sd {z.std():.2f})"
    print(text)
    return not quiet or float(np.mean(better)) >= TARGET


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
