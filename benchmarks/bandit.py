"""Linear bandits: a decision and its reward against other libraries, latency, batches, the compiled simulation."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from prudent.bandits import LinearBandit, brps_cmab, thompson_sampling
from prudent.envs import gaussian_bandit
from prudent.simulation.bandits import simulate_bandit

from ._timing import Row, absent, median_times, tried

N_ARMS, DIM = 10, 3
Step = Callable[[np.ndarray, list[float]], Any]  # context [D] and the reward that each arm would pay


def data(steps: int) -> tuple[np.ndarray, list[list[float]]]:
    rng = np.random.default_rng(0)
    contexts = rng.random((steps, DIM))
    return contexts, (contexts @ gaussian_bandit().theta.T + rng.standard_normal((steps, 1))).tolist()


def mabwiser_step() -> Step:
    from mabwiser.mab import MAB, LearningPolicy

    bandit = MAB(list(range(N_ARMS)), LearningPolicy.LinTS(alpha=1.0))
    bandit.fit(list(range(N_ARMS)), [0.0] * N_ARMS, np.ones((N_ARMS, DIM)))  # it cannot start from the prior

    def step(context: np.ndarray, rewards: list[float]) -> None:
        row = context[np.newaxis]
        arm = bandit.predict(row)
        bandit.partial_fit([arm], [rewards[arm]], row)

    return step


def contextualbandits_step() -> Step:
    from contextualbandits.online import LinTS

    bandit = LinTS(N_ARMS, lambda_=1.0, fit_intercept=False, beta_prior=None, njobs=1)
    bandit.partial_fit(np.ones((N_ARMS, DIM)), np.arange(N_ARMS), np.zeros(N_ARMS))

    def step(context: np.ndarray, rewards: list[float]) -> None:
        row = context[np.newaxis]
        arm = bandit.predict(row)
        bandit.partial_fit(row, arm, np.array([rewards[int(arm[0])]]))

    return step


def bayesianbandits_step() -> Step:
    from bayesianbandits import Arm, ContextualAgent, NormalRegressor, ThompsonSampling

    arms = [Arm(i, learner=NormalRegressor(alpha=1.0, beta=1.0)) for i in range(N_ARMS)]
    bandit = ContextualAgent(arms, ThompsonSampling(), random_seed=0)

    def step(context: np.ndarray, rewards: list[float]) -> None:
        row = context[np.newaxis]
        (arm,) = bandit.pull(row)
        bandit.update(row, np.array([rewards[arm]]))

    return step


def coba_step() -> Step:
    from coba.learners import LinTSLearner

    bandit = LinTSLearner(v=1.0, features=["ax"])  # one-hot arms times context: a theta for each arm
    arms = [tuple(int(i == j) for j in range(N_ARMS)) for i in range(N_ARMS)]

    def step(context: np.ndarray, rewards: list[float]) -> None:
        row = tuple(context.tolist())
        arm, propensity, *rest = bandit.predict(row, arms)
        bandit.learn(row, arm, rewards[arm.index(1)], propensity, *rest)

    return step


def vowpalwabbit_step() -> Step:
    import vowpalwabbit

    space = vowpalwabbit.Workspace(f"--cb_explore {N_ARMS} --quiet --random_seed 1")  # its default: epsilon-greedy
    rng = np.random.default_rng(0)

    def step(context: np.ndarray, rewards: list[float]) -> None:
        row = " ".join(f"{i}:{x:.7g}" for i, x in enumerate(context))
        chances = np.array(space.predict(f"| {row}"))
        arm = int(rng.choice(N_ARMS, p=chances / chances.sum()))
        space.learn(f"{arm + 1}:{-rewards[arm]}:{chances[arm]} | {row}")

    return step


PEERS = {
    "mabwiser": mabwiser_step,
    "contextualbandits": contextualbandits_step,
    "bayesianbandits": bayesianbandits_step,
    "coba": coba_step,
    "vowpalwabbit": vowpalwabbit_step,
}


def our_step(alpha: float, propensity: bool) -> Step:
    bandit = LinearBandit(N_ARMS, DIM, alpha=alpha, noise_sd=1.0, intercept=False, rng=0)

    def step(context: np.ndarray, rewards: list[float]) -> None:
        decision = bandit.select(context)
        if propensity:
            _ = decision.propensity
        bandit.update(context, decision.arm, rewards[decision.arm])

    return step


def loop(step: Step, steps: int) -> Callable[[], None]:
    contexts, rewards = data(steps)

    def run() -> None:
        for context, paid in zip(contexts, rewards, strict=True):
            step(context, paid)

    return run


def against_peers(peers: Mapping[str, Callable[[], Step]] = PEERS) -> list[Row]:
    """Each side has its own bandit; a peer that cannot be imported or fails in its first steps is reported as such."""
    long, short = 5000, 200
    failures: list[Row] = []
    ready: dict[str, Callable[[], None]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, make in peers.items():
            job, failed = tried(f"  against {name}", lambda make=make: loop(make(), short))
            if not failed:
                _, failed = tried(f"  against {name}", job)
            failures += failed
            if not failed:
                ready[name] = job
        samplers = [name for name in ready if name != "vowpalwabbit"]  # it keeps no posterior, and has a row of its own
        if not samplers:
            return [absent("select + update", "no peer that samples from a posterior runs here"), *failures]
        jobs = [loop(our_step(0.0, False), long), loop(our_step(0.9, False), long), loop(our_step(0.9, True), long)]
        times = median_times(*jobs, *ready.values(), repeats=5)
    plain, careful, exact = (time / long for time in times[:3])
    found = {name: time / short for name, time in zip(ready, times[3:], strict=True)}
    fastest = min(samplers, key=lambda name: found[name])
    best = found[fastest]
    rows = [
        Row("select + update, Thompson", plain, best, ">= 50", best >= 50 * plain, fastest),
        Row("select + update, alpha 0.9", careful, best, ">= 50", best >= 50 * careful, fastest),
        Row("  with exact propensity", exact, best, ">= 10", best >= 10 * exact, fastest),
    ]
    notes = {"vowpalwabbit": "no posterior: epsilon-greedy, its default; contexts as text"}
    return [
        *rows,
        *(
            Row(f"  against {name}", plain, time, "for the record", True, notes.get(name, ""))
            for name, time in found.items()
        ),
        *failures,
    ]


def simulation() -> list[Row]:
    env, steps = gaussian_bandit(), 20_000

    def simulated(agent: Any) -> Callable[[], Any]:
        return lambda: simulate_bandit(env, agent, horizon=steps, replications=1, threads=1)

    calls = loop(our_step(0.0, False), steps)
    times = median_times(calls, simulated(thompson_sampling()), simulated(brps_cmab(0.99)), repeats=5)
    per_call, thompson, careful = (time / steps for time in times)
    note = "with regret and BR-regret at three levels"
    return [
        Row("compiled simulation, a step", thompson, per_call, ">= 3", per_call >= 3 * thompson, note),
        Row(
            "  at alpha 0.99, against Thompson sampling",
            careful,
            thompson,
            ">= 1/1.6",
            careful <= 1.6 * thompson,
            "does not grow with n",
            why="the lowest of many draws takes a longer formula than one draw",
        ),
    ]


def latency() -> list[Row]:
    """Time single calls on the processor: default settings, 20 arms, 20 features, a reward after each decision."""
    rng, steps = np.random.default_rng(0), 20_000
    contexts = rng.random((steps, 20))
    rewards = (contexts[:, 0] + rng.standard_normal(steps)).tolist()
    bandit = LinearBandit(20, 20, rng=0).update(contexts[:2000], rng.integers(0, 20, 2000), rewards[:2000])
    took = np.empty(steps)
    for i, context in enumerate(contexts):
        began = time.thread_time()
        decision = bandit.select(context)
        took[i] = time.thread_time() - began
        bandit.update(context, decision.arm, rewards[i])
    usual, rare = np.percentile(took, [50, 99.9])
    decisions = [bandit.select(context) for context in contexts[:200]]
    every, one = median_times(
        lambda: [decision.propensities for decision in decisions],
        lambda: [bandit.select(context).propensity for context in contexts[:200]],
        repeats=20,
        clock=time.thread_time,
    )
    every, one = every / len(decisions), one / len(decisions)
    return [
        Row("select, 20 arms, d = 20, p50", usual, 12e-6, "<= 12 us", usual <= 12e-6, fixed=True),
        Row("  p99.9", rare, 200e-6, "<= 200 us", rare <= 200e-6, fixed=True),
        Row("  with the propensity of the arm", one, 60e-6, "for the record", True, fixed=True),
        Row("propensities of 20 arms", every, 60e-6, "<= 60 us", every <= 60e-6, fixed=True),
    ]


def many_features() -> list[Row]:
    rng = np.random.default_rng(0)
    contexts = rng.standard_normal((32, 1000))
    bandit = LinearBandit(10, 1000, rng=0).update(contexts[:20], np.arange(20) % 10, contexts[:20, 0])

    def decide() -> None:
        for context in contexts:
            bandit.update(context, bandit.select(context).arm, float(context[0]))

    (together,) = median_times(decide, repeats=3, clock=time.thread_time)
    ours = together / len(contexts)
    return [Row("10 arms, d = 1,000, select + update", ours, 0.01, "< 10 ms", ours < 0.01, fixed=True)]


def many_arms() -> list[Row]:
    rng = np.random.default_rng(0)
    bandit = LinearBandit(1000, 50, alpha=0.9, noise_sd=1.0, intercept=False, rng=0)
    contexts = rng.random((20, 50))
    bandit.update(rng.random((5000, 50)), rng.integers(0, 1000, 5000), rng.random(5000))

    def decide() -> None:
        for context in contexts:
            bandit.update(context, bandit.select(context).arm, 1.0)

    (time,) = median_times(decide, repeats=5)
    ours = time / len(contexts)
    return [Row("1,000 arms, d = 50, a decision", ours, 0.01, "< 10 ms", ours < 0.01, fixed=True)]


def batch() -> list[Row]:
    rng = np.random.default_rng(0)
    bandit = LinearBandit(10, 20, alpha=0.9, noise_sd=1.0, intercept=False, rng=0)
    contexts = rng.random((10_000, 20))
    bandit.update(contexts[:5000], rng.integers(0, 10, 5000), rng.random(5000))
    single, together = median_times(
        lambda: [bandit.select(context) for context in contexts],
        lambda: bandit.select(contexts),
        repeats=9,
        clock=time.process_time,  # of all threads
    )
    ours, other = together / len(contexts), single / len(contexts)
    return [Row("batch of 10,000, d = 20, a context", ours, other, ">= 25", other >= 25 * ours, "against one by one")]


PIECES = {
    "peers": against_peers,
    "latency": latency,
    "simulation": simulation,
    "sizes": lambda: [*many_arms(), *many_features()],
    "batch": batch,
}
