"""How well bandits learn: ours at the default against other libraries, at their defaults and at the best setting found.

Three datasets of scikit-learn as bandits (one pass, five shuffles), clicks of 1 to 5%, and drift. Every agent faces the
same rows, contexts and noise. The best settings were found by trying those of ``TRIED`` on the digits and on the clicks
(``python -m benchmarks.bandit_peers digits TRIED``). Any other bandit is put to the test by its name:
``python -m benchmarks.bandit_peers clicks "prudent.LinearBandit(rewards='bernoulli')"``.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np

import prudent as pr
from prudent.bandits.play import play
from prudent.envs import LinearBanditEnv, classification, drifting, logistic_bandit

from ._timing import Row

Maker = Callable[[int, int, np.random.Generator], Any]
SHUFFLES = 5


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
    return lambda n_arms, dim, rng: pr.LinearBandit(n_arms, dim, seed=rng, **options)


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


def environments() -> dict[str, tuple[Any, int | None, int]]:
    """Return each environment with its horizon and the number of runs."""
    found: dict[str, tuple[Any, int | None, int]] = {name: (env, None, SHUFFLES) for name, env in datasets().items()}
    found["clicks"] = (logistic_bandit(10, 20, (0.01, 0.05)), 40_000, 1)
    theta = np.random.default_rng(0).standard_normal((5, 5))
    before, after = LinearBanditEnv(theta, noise_sd=0.5), LinearBanditEnv(-theta, noise_sd=0.5)
    found["drift"] = (drifting(before, after, at=2000), 4000, 4)
    return found


def one_job(place: str, maker: Maker, runs: int | None = None, horizon: int | None = None) -> np.ndarray:
    """Return the mean reward of each run."""
    env, length, count = environments()[place]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = play(env, {"it": maker}, horizon=horizon or length, replications=runs or count, seed=1)
    return found.reward.values[0, :, -1]


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
    "digits": {"alpha 0": ours(), "alpha 0.5": ours(alpha=0.5)},
    "clicks": {
        "bernoulli": ours(rewards="bernoulli"),
        "bernoulli, alpha 0": ours(rewards="bernoulli", alpha=0.0),
        "gaussian": ours(),
    },
    "drift": {"half-life 200": ours(half_life=200), "no half-life": ours()},
}


def run() -> list[Row]:
    rows: list[Row] = []
    with ProcessPoolExecutor(2) as pool:
        waiting = {}
        for place in ("digits", "wine", "cancer", "clicks", "drift"):
            kind = "digits" if place in REQUIRED else place
            sides = {"ours": OURS[kind], "default": DEFAULTS if place in REQUIRED else {}, "best": BEST[kind]}
            for side, agents in sides.items():
                for name in agents:
                    if side == "ours" or importlib.util.find_spec(name.split()[0]) is not None:
                        waiting[place, side, name] = pool.submit(_listed, place, kind, side, name)
        found: dict[tuple[str, str, str], np.ndarray | str] = {}
        for key, future in waiting.items():
            found[key] = value = future.result()
            print(*key, value if isinstance(value, str) else _shown(value), sep=", ", file=sys.stderr, flush=True)
    for place in ("digits", "wine", "cancer", "clicks", "drift"):
        rows += _judged(place, {(side, name): value for (at, side, name), value in found.items() if at == place})
    return rows


def _listed(place: str, kind: str, side: str, name: str) -> np.ndarray | str:
    """Run one agent of the lists above, in a process that has its own; say why if it cannot run."""
    maker = {"ours": OURS[kind], "default": DEFAULTS, "best": BEST[kind]}[side][name]
    try:
        return one_job(place, maker)
    except Exception as error:  # the others still count
        return f"{type(error).__name__}: {error}"


def _judged(place: str, found: dict[tuple[str, str], np.ndarray | str]) -> list[Row]:
    means = {key: float(np.mean(value)) for key, value in found.items() if not isinstance(value, str)}
    mine = next(key for key in found if key[0] == "ours")
    if mine not in means:
        return [Row(f"{place}, {mine[1]}", math.nan, math.nan, "to run", False, str(found[mine]))]
    rivals = {key: mean for key, mean in means.items() if key[0] == ("default" if place in REQUIRED else "best")}
    if not rivals:
        return [Row(f"{place}, {mine[1]}", means[mine], math.nan, "a peer", False, "no peer is installed", "")]
    rival = max(rivals, key=lambda key: rivals[key])
    if place in REQUIRED:
        floor = REQUIRED[place]
        met = means[mine] >= floor and means[mine] > means[rival]
        told = f">= {floor}, above every default"
    else:
        told = "the best of them, within the interval"
        met = means[mine] >= means[rival] - _half_width(place, found[mine], found[rival])
    rows = [
        Row(f"{place}, {mine[1]}", means[mine], means[rival], told, met, f"{rival[1]}; ours {_shown(found[mine])}", "")
    ]
    for key, value in found.items():
        if key != mine and key in means:
            side = "" if key[0] == "ours" else f", {key[0]}"
            rows.append(Row(f"  {key[1]}{side}", means[mine], means[key], "for the record", True, _shown(value), ""))
        elif key != mine:
            rows.append(Row(f"  {key[1]}", means[mine], math.nan, "for the record", True, str(value), ""))
    return rows


def _half_width(place: str, one: Any, two: Any) -> float:
    """Return half the 99% interval of the difference of means: of paired runs, or of clicks in a single run."""
    if len(one) > 1:
        from prudent._support.intervals import mean_and_half_width

        return float(mean_and_half_width(one - two, 0.99)[1])
    steps = environments()[place][1] or 1
    return 2.58 * math.sqrt(sum(float(p[0] * (1.0 - p[0])) for p in (one, two)) / steps)


def _shown(values: Any) -> str:
    spread = f" +- {values.std(ddof=1) / math.sqrt(len(values)):.3f}" if len(values) > 1 else ""
    return f"{values.mean():.4f}{spread}"


def named(text: str) -> Maker:
    """Return the bandit that ``package.Class(option=value)`` names."""
    import ast

    call = ast.parse(text, mode="eval").body
    options = {each.arg or "": ast.literal_eval(each.value) for each in getattr(call, "keywords", [])}
    module, _, name = ast.unparse(getattr(call, "func", call)).rpartition(".")
    made = getattr(importlib.import_module(module), name)
    return lambda n_arms, dim, rng: made(n_arms, dim, seed=rng, **options)


if __name__ == "__main__":
    for wanted in sys.argv[2:]:
        several = TRIED if wanted == "TRIED" else {wanted: named(wanted)}
        for label, maker in several.items():
            print(f"{sys.argv[1]:8} {label:40} {_shown(one_job(sys.argv[1], maker))}", flush=True)
