"""How well bandits learn: ours at the default against other libraries, at their defaults and at the best setting found.

Three datasets of scikit-learn as bandits (one pass, several shuffles), clicks of 1 to 5%, and drift. Every agent faces
the same rows, contexts and noise; each run of clicks is another problem. Where an environment knows its mean rewards,
agents are compared by their regret, which has much less noise than clicks. ``python -m benchmarks bandit_peers`` takes
about three minutes on two quiet cores, ``python -m benchmarks.bandit_peers whole`` half an hour: five shuffles, 40,000
clicks, six runs.

The best settings were found by trying those of ``TRIED`` on the digits and on the clicks
(``python -m benchmarks.bandit_peers digits TRIED``). Any other bandit is put to the test by its name:
``python -m benchmarks.bandit_peers clicks "prudent.LinearBandit(rewards='bernoulli')"``.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

import prudent as pr
from prudent._support.intervals import mean_and_half_width
from prudent.envs import LinearBanditEnv, classification, drifting, logistic_bandit
from prudent.simulation import simulate_bandit

from ._timing import Row, absent, show

Maker = Callable[[int, int, np.random.Generator], Any]
PLACES = ("digits", "wine", "cancer", "clicks", "drift")
LIMIT = 60.0  # seconds of the processor after which an agent starts no further run, unless the whole is asked for


class Size(NamedTuple):
    """How long an environment is played, to the end if None, and how often."""

    horizon: int | None
    runs: int


SHORT = {
    "digits": Size(None, 2),
    "wine": Size(None, 5),
    "cancer": Size(None, 5),
    "clicks": Size(6000, 3),
    "drift": Size(4000, 3),
}
WHOLE = {name: Size(None, 5) for name in ("digits", "wine", "cancer")} | {
    "clicks": Size(40_000, 6),
    "drift": Size(4000, 6),
}


class Peer:
    """Another library's bandit behind our two methods."""

    def __init__(self, choose: Callable[[np.ndarray], int], learn: Callable[[np.ndarray, int, float], Any]) -> None:
        self._choose, self.update = choose, learn

    def select(self, context: Any) -> Any:
        return SimpleNamespace(arm=int(self._choose(np.asarray(context))))


def mabwiser(policy: str, **options: Any) -> Maker:
    def make(n_arms: int, dim: int, rng: np.random.Generator) -> Peer:
        from mabwiser.mab import MAB, LearningPolicy

        arms = list(range(n_arms))
        bandit = MAB(arms, getattr(LearningPolicy, policy)(**options), seed=int(rng.integers(2**31)))
        bandit.fit(arms, [0.0] * n_arms, np.zeros((n_arms, dim + 1)))  # it cannot start from nothing; zeros say nothing
        row = with_constant
        return Peer(lambda x: bandit.predict(row(x)), lambda x, a, r: bandit.partial_fit([a], [r], row(x)))

    return make


def contextualbandits(policy: str, **options: Any) -> Maker:
    def make(n_arms: int, dim: int, rng: np.random.Generator) -> Peer:
        online = importlib.import_module("contextualbandits.online")
        bandit = getattr(online, policy)(n_arms, random_state=int(rng.integers(2**31)), **options)
        return Peer(
            lambda x: bandit.predict(x[np.newaxis])[0],
            lambda x, a, r: bandit.partial_fit(x[np.newaxis], np.array([a]), np.array([r])),
        )

    return make


def bayesianbandits(learner: str, forgetting: float | None = None, **options: Any) -> Maker:
    def make(n_arms: int, dim: int, rng: np.random.Generator) -> Peer:
        import bayesianbandits as bb

        extra = {} if forgetting is None else {"forgetting": bb.ExponentialForgetting(forgetting)}
        arms = [bb.Arm(i, learner=getattr(bb, learner)(**options, **extra)) for i in range(n_arms)]
        bandit = bb.ContextualAgent(arms, bb.ThompsonSampling(), random_seed=int(rng.integers(2**31)))
        row = with_constant

        def learn(x: np.ndarray, a: int, r: float) -> None:
            bandit.select_for_update(a).update(row(x), np.array([r]))

        return Peer(lambda x: bandit.pull(row(x))[0], learn)

    return make


def vowpalwabbit(options: str = "") -> Maker:
    def make(n_arms: int, dim: int, rng: np.random.Generator) -> Peer:
        import vowpalwabbit as vw

        together = "_adf" in options
        kind = options if together else f"--cb_explore {n_arms} {options}"
        space = vw.Workspace(f"{kind} --quiet --random_seed {int(rng.integers(2**31))}")
        chances = np.ones(n_arms) / n_arms

        def example(x: np.ndarray, label: str = "", arm: int = -1) -> Any:
            told = " ".join(f"{i}:{value:.7g}" for i, value in enumerate(x) if value)
            if not together:
                return f"{label} | {told}"
            lines = [f"shared |C {told}", *(f"{label if a == arm else ''} |A a{a}" for a in range(n_arms))]
            return lines

        def choose(x: np.ndarray) -> int:
            chances[:] = space.predict(example(x))
            chances[:] /= chances.sum()
            return int(rng.choice(n_arms, p=chances))

        def learn(x: np.ndarray, a: int, r: float) -> None:
            space.learn(example(x, f"{0 if together else a + 1}:{-r}:{chances[a]}", a))

        return Peer(choose, learn)

    return make


def with_constant(x: np.ndarray) -> np.ndarray:
    """Return a row with a constant feature, for libraries that have no intercept."""
    return np.append(x, 1.0)[np.newaxis]


def ours(**options: Any) -> Maker:
    return lambda n_arms, dim, rng: pr.LinearBandit(n_arms, dim, rng=rng, **options)


# a name begins with the module that must be there
DEFAULTS: dict[str, Maker] = {
    "mabwiser LinTS": mabwiser("LinTS"),
    "mabwiser LinUCB": mabwiser("LinUCB"),
    "contextualbandits LinTS": contextualbandits("LinTS"),
    "contextualbandits LinUCB": contextualbandits("LinUCB"),
    "bayesianbandits NIG": bayesianbandits("NormalInverseGammaRegressor"),
    "vowpalwabbit": vowpalwabbit(),
}
TRIED: dict[str, Maker] = {
    "mabwiser LinUCB 0.1": mabwiser("LinUCB", alpha=0.1),
    "mabwiser LinUCB 0.3": mabwiser("LinUCB", alpha=0.3),
    "mabwiser LinGreedy 0": mabwiser("LinGreedy", epsilon=0.0),
    "contextualbandits LinUCB 0.1": contextualbandits("LinUCB", alpha=0.1),
    "contextualbandits LinUCB 0.3": contextualbandits("LinUCB", alpha=0.3),
    "bayesianbandits Normal 10": bayesianbandits("NormalRegressor", alpha=1.0, beta=10.0),
    "bayesianbandits Normal 100": bayesianbandits("NormalRegressor", alpha=1.0, beta=100.0),
    "bayesianbandits empirical": bayesianbandits("EmpiricalBayesNormalRegressor"),
    "bayesianbandits GLM": bayesianbandits("BayesianGLM"),
    "vowpalwabbit squarecb": vowpalwabbit("--cb_explore_adf --squarecb -q CA"),
    "vowpalwabbit cover": vowpalwabbit("--cover 4"),
    "vowpalwabbit epsilon 0.01": vowpalwabbit("--epsilon 0.01"),
    "vowpalwabbit epsilon 0.01, l 2": vowpalwabbit("--epsilon 0.01 -l 2"),
}


def datasets() -> dict[str, Any]:
    from sklearn.datasets import load_breast_cancer, load_digits, load_wine
    from sklearn.preprocessing import scale

    points, labels = load_digits(return_X_y=True)
    found = {"digits": classification(points / 16.0, labels)}
    for name, load in (("wine", load_wine), ("cancer", load_breast_cancer)):
        points, labels = load(return_X_y=True)
        found[name] = classification(scale(points), labels)
    return found


def environment(place: str, run: int) -> Any:
    """Return an environment; that of clicks is another one in every run."""
    if place == "clicks":
        return logistic_bandit(10, 20, (0.01, 0.05), rng=run)
    if place == "drift":
        theta = np.random.default_rng(run).standard_normal((5, 5))
        before, after = LinearBanditEnv(theta, noise_sd=0.5), LinearBanditEnv(-theta, noise_sd=0.5)
        return drifting(before, after, at=2000)
    return datasets()[place]


def one_job(place: str, maker: Maker, size: Size, limit: float = math.inf) -> np.ndarray:
    """Return the mean reward of each run, or minus the mean regret where that is known.

    After ``limit`` seconds of the processor no further run is begun.
    """
    found: list[float] = []
    began = time.process_time()
    while len(found) < size.runs and (not found or time.process_time() - began < limit):
        run = len(found)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            played = simulate_bandit(
                environment(place, run),
                {"it": maker},
                horizon=size.horizon,
                replications=1,
                first_replication=run,
                rng=1,
            )
        steps = float(played.time[-1])
        value = played.reward[0, 0, -1] if place in REQUIRED else -played.regret[0, 0, -1] / steps
        found.append(float(value))
    return np.array(found)


# -- what is run -------------------------------------------------------------------------------------------

REQUIRED = {"digits": 0.80, "wine": 0.85, "cancer": 0.93}
BEST: dict[str, dict[str, Maker]] = {
    "digits": {
        name: TRIED[name]
        for name in (
            "mabwiser LinUCB 0.3",
            "contextualbandits LinUCB 0.3",
            "bayesianbandits empirical",
            "vowpalwabbit squarecb",
        )
    },
    "clicks": {
        "mabwiser LinUCB": DEFAULTS["mabwiser LinUCB"],
        **{
            name: TRIED[name]
            for name in (
                "contextualbandits LinUCB 0.3",
                "bayesianbandits empirical",
                "bayesianbandits GLM",
                "vowpalwabbit squarecb",
            )
        },
    },
    "drift": {
        "bayesianbandits forgetting": bayesianbandits("NormalInverseGammaRegressor", forgetting=0.995),
        "contextualbandits LinUCB": DEFAULTS["contextualbandits LinUCB"],
        "vowpalwabbit squarecb": TRIED["vowpalwabbit squarecb"],
    },
}
OURS: dict[str, dict[str, Maker]] = {  # the first one counts
    "digits": {
        "default, alpha 0": ours(),
        "alpha 0.5": ours(alpha=0.5),
        "exploration 0.5": ours(exploration=0.5),
        "exploration 0.3": ours(exploration=0.3),
    },
    "clicks": {
        "bernoulli": ours(rewards="bernoulli"),
        "bernoulli, alpha 0": ours(rewards="bernoulli", alpha=0.0),
        "bernoulli, exploration 0.5": ours(rewards="bernoulli", alpha=0.0, exploration=0.5),
        "gaussian": ours(),
    },
    "drift": {"half-life 200": ours(half_life=200), "no half-life": ours()},
}


def run(whole: bool = False) -> list[Row]:
    """Play all, in two processes; results are shown as they come."""
    sizes = WHOLE if whole else SHORT
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    found: dict[tuple[str, str, str], np.ndarray | str] = {}
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        waiting = {}
        for place in PLACES:
            for side, agents in agents_of(place).items():
                for name in agents:
                    key = place, side, name
                    if side != "ours" and importlib.util.find_spec(name.split()[0]) is None:
                        found[key] = "not installed"
                        continue
                    limit = math.inf if whole else LIMIT
                    waiting[pool.submit(_listed, *key, sizes[place], limit)] = key
                    found[key] = ""  # in this order
        for i, done in enumerate(as_completed(waiting), 1):
            key = waiting[done]
            found[key] = value = done.result()
            told = value if isinstance(value, str) else _shown(value)
            print(f"{i} of {len(waiting)}: {', '.join(key)}: {told}", file=sys.stderr, flush=True)
    rows: list[Row] = []
    for place in PLACES:
        rows += _judged(place, {(side, name): value for (at, side, name), value in found.items() if at == place})
    return rows


def agents_of(place: str) -> dict[str, dict[str, Maker]]:
    """Return our agents, the others at their defaults, and at the best settings found."""
    kind = "digits" if place in REQUIRED else place
    return {"ours": OURS[kind], "default": DEFAULTS if place in REQUIRED else {}, "best": BEST[kind]}


def _listed(place: str, side: str, name: str, size: Size, limit: float) -> np.ndarray | str:
    """Run one agent of the lists above, in a process that has its own; say why if it cannot run."""
    try:
        return one_job(place, agents_of(place)[side][name], size, limit)
    except Exception as error:  # the others still count
        return f"failed, {type(error).__name__}: {error}"[:200]


def _judged(place: str, found: dict[tuple[str, str], np.ndarray | str]) -> list[Row]:
    """Return a row that says whether ours at the default is good enough, and one for every other agent."""
    mine = next(key for key in found if key[0] == "ours")
    ran = {key: value for key, value in found.items() if not isinstance(value, str)}
    if mine not in ran:
        return [absent(f"{place}, {mine[1]}", str(found[mine]))]
    own, unit = ran[mine], "" if place in REQUIRED else "regret"
    sign = 1.0 if place in REQUIRED else -1.0
    rivals = {key: value.mean() for key, value in ran.items() if key[0] == ("default" if unit == "" else "best")}
    if not rivals:
        return [absent(f"{place}, {mine[1]}", "no peer is there")]
    rival = max(rivals, key=lambda key: rivals[key])
    if place in REQUIRED:
        floor = REQUIRED[place]
        met = bool(own.mean() >= floor and own.mean() > rivals[rival])
        told = f">= {floor}, above every default"
    else:
        told, met = "the best of them, within the interval", _lead(own, ran[rival])[1] >= 0.0
    note = f"{rival[1]}; lead {_told_lead(own, ran[rival])}"
    options = {"unit": unit, "higher": place in REQUIRED, "why": "set by hand after looking at this data"}
    rows = [Row(f"{place}, {mine[1]}", sign * own.mean(), sign * rivals[rival], told, met, note, **options)]
    for key, value in found.items():
        if key == mine:
            continue
        name = f"  {place}: {key[1]}" + ("" if key[0] == "ours" else f", {key[0]}")
        if isinstance(value, str):
            rows.append(absent(name, value))
        else:
            note = f"lead of ours {_told_lead(own, value)}"
            mean = sign * value.mean()
            rows.append(Row(name, sign * own.mean(), mean, "for the record", True, note, **options))
    return rows


def _lead(own: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """Return the mean difference over the runs that both have played, and the upper end of its 99% interval."""
    both = min(len(own), len(other))
    gap = own[:both] - other[:both]
    if both < 2:
        return float(gap.mean()), float(gap.mean())
    mean, half = mean_and_half_width(gap, 0.99)
    return float(mean), float(mean + half)


def _told_lead(own: np.ndarray, other: np.ndarray) -> str:
    lead, upper = _lead(own, other)
    return f"{lead:+.4f} +- {upper - lead:.4f} ({min(len(own), len(other))} runs)"


def _shown(values: np.ndarray) -> str:
    spread = f" +- {values.std(ddof=1) / math.sqrt(len(values)):.4f}" if len(values) > 1 else ""
    return f"{values.mean():.4f}{spread}"


def named(text: str) -> Maker:
    """Return the bandit that ``package.Class(option=value)`` names."""
    import ast

    call = ast.parse(text, mode="eval").body
    options = {each.arg or "": ast.literal_eval(each.value) for each in getattr(call, "keywords", [])}
    module, _, name = ast.unparse(getattr(call, "func", call)).rpartition(".")
    made = getattr(importlib.import_module(module), name)
    return lambda n_arms, dim, rng: made(n_arms, dim, rng=rng, **options)


if __name__ == "__main__":
    place, *wanted = sys.argv[1:] or ["short"]
    if place in ("short", "whole"):
        show("How well bandits learn", run(whole=place == "whole"))
    for each in wanted:
        several = TRIED if each == "TRIED" else {each: named(each)}
        for label, maker in several.items():
            print(f"{place:8} {label:40} {_shown(one_job(place, maker, SHORT[place]))}", flush=True)
