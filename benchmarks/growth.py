"""How time and memory grow: exponents fitted over at least four sizes of each dimension, one thread.

The exponent is the slope of log time (on the processor, the median of some repeats) over log size, by least squares,
with its standard error. Memory is the peak of making the problem and solving it, above what the process had after a
tiny one, in a child process that is forked for each size; where all of it is below 4 MB no exponent is fitted.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import prudent as pr
from prudent.simulation.bandits import simulate_bandit

from ._table import Fit
from ._timing import median_times

LEAST_MEGABYTES = 4.0


class Job(NamedTuple):
    """A problem of any size: ``make(n)`` returns the work that is timed."""

    name: str
    dimension: str
    sizes: tuple[int, ...]
    expected: str  # time; memory
    make: Callable[[int], Callable[[], Any]]
    repeats: int = 5


def exponent(sizes: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Return the slope of log value over log size by least squares, and its standard error."""
    x, y = np.log(np.asarray(sizes, float)), np.log(np.asarray(values, float))
    x = x - x.mean()
    slope = float(x @ (y - y.mean()) / (x @ x))
    rest = y - y.mean() - slope * x
    return slope, float(math.sqrt(rest @ rest / (len(x) - 2) / (x @ x)))


def known_model(states: int, actions: int, outcomes: int) -> pr.MDP:
    rng = np.random.default_rng(0)
    pairs = states * actions
    chance = rng.random((pairs, outcomes))
    chance /= chance.sum(axis=1, keepdims=True)
    columns = rng.integers(0, states, (pairs, outcomes), dtype=np.int32)
    starts = np.arange(0, pairs * outcomes + 1, outcomes)
    matrix = sparse.csr_array((chance.ravel(), columns.ravel(), starts), shape=(pairs, states))
    return pr.MDP(matrix, rng.random((states, actions)), 0.95)


def unknown_model(states: int, actions: int, outcomes: int) -> pr.BayesianRiskMDP:
    rng = np.random.default_rng(4)
    shape = (states, actions)
    source = np.arange(states * actions).reshape(shape)
    target = rng.integers(0, states, (*shape, outcomes))
    model = pr.UncertainMDP(source, target, rng.random(shape), discount=0.95)
    counts = 1.0 + rng.poisson(3.0, (states * actions, outcomes))
    return pr.BayesianRiskMDP(model, pr.DirichletPosterior(counts), 0.9)


def known(states: int = 2000, actions: int = 5, outcomes: int = 5) -> Callable[[], Any]:
    mdp = known_model(states, actions, outcomes)
    return lambda: pr.solve(mdp)


def exact(states: int = 400, actions: int = 5, outcomes: int = 5) -> Callable[[], Any]:
    problem = unknown_model(states, actions, outcomes)
    return lambda: problem.solve(threads=1)


def sampled(draws: int) -> Callable[[], Any]:
    problem = unknown_model(200, 5, 5)
    return lambda: problem.solve(draws=draws, rng=0, threads=1)


def horizon(steps: int) -> Callable[[], Any]:
    mdp = known_model(2000, 5, 5)
    return lambda: pr.solve(mdp, horizon=steps)


def bandit(arms: int = 10, features: int = 10) -> Callable[[], Any]:
    rng = np.random.default_rng(0)
    contexts, rewards = rng.random((20, features)), rng.random(20).tolist()
    made = pr.LinearBandit(arms, features, alpha=0.5, rng=0)
    made.update(rng.random((2 * arms, features)), np.arange(2 * arms) % arms, rng.random(2 * arms))

    def decide() -> None:
        for context, reward in zip(contexts, rewards, strict=True):
            made.update(context, made.select(context).arm, reward)

    return decide


def bandit_steps(steps: int) -> Callable[[], Any]:
    environment = pr.envs.gaussian_bandit()
    agent = pr.bandits.brps_cmab(0.9)
    return lambda: simulate_bandit(environment, agent, horizon=steps, replications=1, threads=1)


def replications(runs: int) -> Callable[[], Any]:
    lake = pr.envs.frozen_lake(0.1)
    agent = pr.brps_rl(0.9)
    return lambda: pr.simulate(lake, agent, episodes=50, replications=runs, threads=1)


JOBS = (
    Job("known model, solve", "states", (4000, 8000, 16_000, 32_000, 64_000), "1; 1", lambda n: known(n, 10)),
    Job("known model, solve", "actions", (20, 40, 80, 160), "at most 1; 1", lambda n: known(2000, n)),
    Job("known model, solve", "outcomes", (20, 40, 80, 160), "at most 1; 1", lambda n: known(2000, 5, n)),
    Job("exact Bayesian risk, solve", "states", (1000, 2000, 4000, 8000), "1; 1", exact),
    Job("exact Bayesian risk, solve", "actions", (20, 40, 80, 160), "at most 1; 1", lambda n: exact(400, n)),
    Job("exact Bayesian risk, solve", "outcomes", (40, 80, 160, 320), "at most 1; 1", lambda n: exact(200, 5, n)),
    Job("CVaR of draws, solve", "draws", (125, 250, 500, 1000), "1; 1", sampled),
    Job("known model, finite horizon", "horizon", (100, 200, 400, 800), "1; 1", horizon),
    Job("bandit, select and update", "arms", (250, 500, 1000, 2000), "1; 1", lambda n: bandit(n, 30)),
    Job("bandit, select and update", "features", (64, 128, 256, 512), "2; 2", lambda n: bandit(10, n)),
    Job("bandit, simulation", "horizon", (40_000, 80_000, 160_000, 320_000), "1; 0", bandit_steps),
    Job("BRPS-RL on Frozen Lake, simulation", "replications", (20, 40, 80, 160), "1; at most 1", replications),
)


def peaks() -> list[list[float]]:
    """Return the megabytes of all sizes of all jobs: a child process for each, of a fresh process without other work.

    Large arrays are mapped one by one, so that what is freed is gone.
    """
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}
    command = [sys.executable, "-m", "benchmarks.growth"]
    ran = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return [[math.nan if x is None else x for x in job] for job in json.loads(ran.stdout)]


def peak(job: Job, size: int) -> float | None:
    """Return the megabytes that a job needs at its peak, above what there is after a run of a tiny size."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # never returns
        try:
            tiny(job)  # what is touched once, whatever the size
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")  # the peak starts anew
            before = _status("VmRSS")
            job.make(size)()
            os.write(writer, f"{_status('VmHWM') - before}".encode())
        except BaseException:
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return max(float(told), 1.0) / 1024.0 if told else None


def tiny(job: Job) -> None:
    """Run a job at a size that takes next to nothing."""
    job.make(max(2, job.sizes[0] // 10))()


def _status(field: str) -> float:
    """Return a number of /proc/self/status, in kB."""
    with open("/proc/self/status") as file:
        return next(float(line.split()[1]) for line in file if line.startswith(field + ":"))


def fit(job: Job, megabytes: list[float]) -> Fit:
    """Return the exponents of one job."""
    seconds = [median_times(job.make(n), repeats=job.repeats)[0] for n in job.sizes]
    memory = math.nan, math.nan
    if max(megabytes) >= LEAST_MEGABYTES:
        memory = exponent(job.sizes, megabytes)
    return Fit(
        job.name,
        job.dimension,
        list(job.sizes),
        seconds,
        megabytes,
        job.expected,
        *exponent(job.sizes, seconds),
        *memory,
    )


def run() -> list[Fit]:
    """Return all fits."""
    return [fit(job, megabytes) for job, megabytes in zip(JOBS, peaks(), strict=True)]


if __name__ == "__main__":
    for each in JOBS:
        tiny(each)  # load the kernels before the children need them
    print(json.dumps([[peak(each, size) for size in each.sizes] for each in JOBS]))
