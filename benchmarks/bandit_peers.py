"""How well bandits learn: ours at the default against other libraries, at their defaults and at the best setting found.

34 datasets (``_bandit_data``: real and generated ones inside packages) as bandits, at most 500 rows in ten shuffles,
and worlds with a known truth (``_bandit_worlds``). Every agent faces the same rows, contexts and noise. A share is what
an agent earned beyond uniform choices, over what an oracle would have earned beyond them.

The best setting of a library is searched among those of ``PEERS``, for each dataset anew: for the odd shuffles by what
it earned in the even ones, and the other way round. So it is the library at its best without the luck of the winner.

Each agent on each dataset is one job, whose result is a file in ``build/bandit_peers`` (``BANDIT_PEERS`` names another
folder): what is done is not done again, shuffle by shuffle (``BANDIT_PEERS_RUNS`` of them, 10 unless it is set). Parts
can be run elsewhere, ``python -m benchmarks.bandit_peers part 2 8``, and ``... page`` writes the tables of the page, of
the datasets that all agents have played. ``python -m benchmarks bandit_peers`` takes about half an hour on two cores
that do nothing else: 25 of the 34 datasets took 25 minutes of processor time. Ours takes 3 for all, and
coba 10 for the digits, since it crosses 64 features with ten arms.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import sys
import warnings
from collections import deque
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import prudent as pr
from prudent._support.intervals import mean_and_half_width
from prudent._support.streams import replication_streams
from prudent.simulation import adapt_bandit

from ._bandit_data import DATASETS, STEPS
from ._bandit_worlds import WORLDS
from ._timing import Row, absent, show

Maker = Callable[[int, int, np.random.Generator], Any]
RUNS = int(os.environ.get("BANDIT_PEERS_RUNS", "10"))
CLOSE = 0.03  # of share


def mabwiser(policy: str, **options: Any) -> Maker:
    def make(n_arms: int, dim: int, rng: np.random.Generator) -> Any:
        from mabwiser.mab import MAB, LearningPolicy

        chosen = getattr(LearningPolicy, policy)(**options)
        return adapt_bandit(MAB(list(range(n_arms)), chosen, seed=int(rng.integers(2**31))), n_arms)

    return make


def contextualbandits(policy: str, **options: Any) -> Maker:
    def make(n_arms: int, dim: int, rng: np.random.Generator) -> Any:
        online = importlib.import_module("contextualbandits.online")
        return adapt_bandit(getattr(online, policy)(n_arms, random_state=int(rng.integers(2**31)), **options), n_arms)

    return make


def bayesianbandits(learner: str, **options: Any) -> Maker:
    def make(n_arms: int, dim: int, rng: np.random.Generator) -> Any:
        import bayesianbandits as bb

        arms = [bb.Arm(i, learner=getattr(bb, learner)(**options)) for i in range(n_arms)]
        return adapt_bandit(
            bb.ContextualAgent(arms, bb.ThompsonSampling(), random_seed=int(rng.integers(2**31))), n_arms
        )

    return make


def vowpalwabbit(options: str = "") -> Maker:
    def make(n_arms: int, dim: int, rng: np.random.Generator) -> Any:
        import vowpalwabbit as vw

        kind = options if "_adf" in options else f"--cb_explore {n_arms} {options}"
        return adapt_bandit(vw.Workspace(f"{kind} --quiet --random_seed {int(rng.integers(2**31))}"), n_arms, rng=rng)

    return make


def coba(learner: str, **options: Any) -> Maker:
    def make(n_arms: int, dim: int, rng: np.random.Generator) -> Any:
        import coba

        return adapt_bandit(getattr(coba, learner)(**options), n_arms, rng=rng)

    return make


def ours(**options: Any) -> Maker:
    return lambda n_arms, dim, rng: pr.LinearBandit(n_arms, dim, rng=rng, **options)


OURS: dict[str, Maker] = {
    "default": ours(),
    "Thompson sampling": ours(exploration=1.0, interactions="none"),
    'exploration="auto"': ours(interactions="none"),
    'interactions="auto"': ours(exploration=1.0),
}
PEERS: dict[str, dict[str, Maker]] = {  # the first one is the default
    "mabwiser": {
        "LinUCB": mabwiser("LinUCB"),
        "LinUCB 0.3": mabwiser("LinUCB", alpha=0.3),
        "LinGreedy 0": mabwiser("LinGreedy", epsilon=0.0),
    },
    "contextualbandits": {
        "LinUCB": contextualbandits("LinUCB"),
        "LinUCB 0.1": contextualbandits("LinUCB", alpha=0.1),
        "LinUCB 0.3": contextualbandits("LinUCB", alpha=0.3),
    },
    "bayesianbandits": {
        "NIG": bayesianbandits("NormalInverseGammaRegressor"),
        "Normal 10": bayesianbandits("NormalRegressor", alpha=1.0, beta=10.0),
        "Normal 100": bayesianbandits("NormalRegressor", alpha=1.0, beta=100.0),
        "empirical": bayesianbandits("EmpiricalBayesNormalRegressor"),
    },
    "vowpalwabbit": {
        "default": vowpalwabbit(),
        "squarecb": vowpalwabbit("--cb_explore_adf --squarecb -q CA"),
        "squarecb, pairs": vowpalwabbit("--cb_explore_adf --squarecb -q CA --cubic CCA"),
        "epsilon 0.01": vowpalwabbit("--epsilon 0.01"),
        "epsilon 0.01, l 2": vowpalwabbit("--epsilon 0.01 -l 2"),
        "cover": vowpalwabbit("--cover 4"),
    },
    "coba": {
        "LinUCB": coba("LinUCBLearner"),
        "LinUCB 0.3": coba("LinUCBLearner", alpha=0.3),
        "LinTS": coba("LinTSLearner"),
    },
}
AGENTS = {("ours", name): maker for name, maker in OURS.items()} | {
    (library, name): maker for library, makers in PEERS.items() for name, maker in makers.items()
}
WORLD_PEERS = {  # they take seconds
    ("mabwiser", "LinUCB 0.3"),
    ("contextualbandits", "LinUCB 0.3"),
    ("bayesianbandits", "NIG"),
    ("bayesianbandits", "Normal 100"),
    ("vowpalwabbit", "squarecb"),
    ("vowpalwabbit", "squarecb, pairs"),
    ("coba", "LinUCB 0.3"),
}
WORLD_OURS: dict[str, dict[str, Maker]] = {
    "drift": {"half_life=500": ours(half_life=500)},
    "rare clicks": {'rewards="bernoulli"': ours(rewards="bernoulli")},
}


# -- jobs --------------------------------------------------------------------------------------------------


def played(env: Any, maker: Maker, steps: int, run: int, delay: int = 0) -> float:
    """Return the share of one run; a reward is learned ``delay`` decisions later."""
    env_rng, agent_rng = replication_streams(1, run)
    stage = env.start(env_rng) if hasattr(env, "start") else env
    bandit = maker(env.n_arms, env.dim, agent_rng)
    earned = uniform = best = 0.0
    waiting: deque[tuple[Any, int, float]] = deque()
    for t in range(1, steps + 1):
        context = stage.context(t, env_rng)
        arm = bandit.select(context).arm
        waiting.append((context, arm, stage.reward(t, context, arm, env_rng)))
        if len(waiting) > delay:
            bandit.update(*waiting.popleft())
        means = stage.mean_rewards(t, context)
        earned, uniform, best = earned + means[arm], uniform + means.mean(), best + means.max()
    return float((earned - uniform) / (best - uniform))


def makers_of(place: str) -> dict[tuple[str, str], Maker]:
    """Return the agents that play a dataset or a world."""
    more = {("ours", name): maker for name, maker in WORLD_OURS.get(place, {}).items()}
    return AGENTS | more


def shares(place: str, library: str, setting: str, found: list[float]) -> list[float]:
    """Return the shares of the runs of one agent, of which the first ones were ``found`` before."""
    maker, found = makers_of(place)[library, setting], list(found)
    made = None if place in WORLDS else DATASETS[place]()
    for run in range(len(found), RUNS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if made is not None:
                found.append(played(made, maker, min(made.steps, STEPS), run))
            else:
                world = WORLDS[place]
                found.append(played(world.make(run), maker, world.steps, run, world.delay))
    return found


def folder() -> Path:
    """Return where results are kept."""
    return Path(os.environ.get("BANDIT_PEERS", "build/bandit_peers"))


def file_of(place: str, library: str, setting: str) -> Path:
    clean = "".join(c if c.isalnum() or c in ".-" else "_" for c in f"{place}--{library}--{setting}")
    return folder() / f"{clean}.json"


def kept(path: Path) -> Any:
    """Return the shares that a file holds, or why there are none."""
    return json.loads(path.read_text())["shares"] if path.exists() else []


def one_job(place: str, library: str, setting: str) -> None:
    """Run a job and keep its result; why it failed is a result too."""
    path = file_of(place, library, setting)
    try:
        result: Any = shares(place, library, setting, kept(path))
    except Exception as error:  # the others still count
        result = f"{type(error).__name__}: {error}"[:200]
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps({"place": place, "library": library, "setting": setting, "shares": result}))
    part.replace(path)


def jobs() -> list[tuple[str, str, str]]:
    """Return all jobs that can be run here."""
    there = {name: importlib.util.find_spec(name) is not None for name in {*PEERS, "sklearn", "statsmodels", "river"}}
    places = [place for place in DATASETS if there.get(place.split()[0], True)] + list(WORLDS)
    listed = [(place, *key) for place in places for key in makers_of(place) if key[0] == "ours" or there[key[0]]]
    return [job for job in listed if job[0] not in WORLDS or job[1] == "ours" or job[1:] in WORLD_PEERS]


def play_all(wanted: list[tuple[str, str, str]], workers: int) -> None:
    """Run the jobs that have no result yet."""
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    left = [job for job in wanted if len(kept(file_of(*job))) < RUNS]  # an error is longer
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        waiting = {pool.submit(one_job, *job): job for job in left}
        for i, done in enumerate(as_completed(waiting), 1):
            done.result()
            print(f"{i} of {len(left)}: {', '.join(waiting[done])}", file=sys.stderr, flush=True)


def results() -> dict[str, dict[tuple[str, str], np.ndarray]]:
    """Return the shares [run] by place and agent, as far as there are any."""
    found: dict[str, dict[tuple[str, str], np.ndarray]] = {}
    for path in sorted(folder().glob("*.json")):
        entry = json.loads(path.read_text())
        if not isinstance(entry["shares"], str) and len(entry["shares"]) >= RUNS:
            key = entry["library"], entry["setting"]
            found.setdefault(entry["place"], {})[key] = np.array(entry["shares"][:RUNS])
    return found


def played_by_all(found: dict[str, dict[tuple[str, str], np.ndarray]]) -> dict[str, dict[tuple[str, str], np.ndarray]]:
    """Return the results on the datasets that as many agents have played as any other one."""
    there = {place: found[place] for place in DATASETS if place in found}
    most = max(map(len, there.values()), default=0)
    return {place: value for place, value in there.items() if len(value) == most}


# -- what they say -----------------------------------------------------------------------------------------


def best_of(found: dict[tuple[str, str], np.ndarray], library: str) -> np.ndarray | None:
    """Return the shares of a library at its best setting, chosen by the other half of the runs."""
    several = [value for (name, _), value in found.items() if name == library]
    if not several:
        return None
    table, halves = np.array(several), np.arange(RUNS) % 2
    chosen = [int(table[:, halves != half].mean(axis=1).argmax()) for half in (0, 1)]
    return table[[chosen[half] for half in halves], np.arange(RUNS)]


def default_of(found: dict[tuple[str, str], np.ndarray], library: str) -> np.ndarray | None:
    return found.get((library, next(iter(PEERS[library]))))


def ranks(mine: str, peers: Callable[..., Any], places: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the ranks of ours and of the libraries, one for each dataset; 1 is the best."""
    libraries = [name for name in PEERS if all(peers(found, name) is not None for found in places.values())]
    rows = [
        [found["ours", mine].mean(), *(peers(found, name).mean() for name in libraries)] for found in places.values()
    ]
    order = np.array(
        [[1 + sum(b > a for b in row) + 0.5 * (sum(b == a for b in row) - 1) for a in row] for row in rows]
    )
    return dict(zip(["ours", *libraries], order.T, strict=True))


def verdict(mine: np.ndarray, other: np.ndarray) -> str:
    """Return whether ours wins, loses or neither, by a 95% interval of the differences of the runs."""
    gap, half = mean_and_half_width(mine - other, 0.95)
    return "win" if gap > half else "loss" if gap < -half else "tie"


def judged(places: dict[str, Any], mine: str) -> list[Row]:
    """Return the rows of one of our settings over all datasets."""
    rows = []
    for word, peers in (("at their defaults", default_of), ("at their best", best_of)):
        table = ranks(mine, peers, places)
        means = {name: float(values.mean()) for name, values in table.items()}
        if len(means) < 2:
            continue
        rival = min((name for name in means if name != "ours"), key=lambda name: means[name])
        half = mean_and_half_width(table["ours"], 0.95)[1]
        note = f"+- {half:.2f} over {len(places)} datasets; the others: " + ", ".join(
            f"{name} {value:.2f}" for name, value in means.items() if name != "ours"
        )
        met = means["ours"] <= means[rival]
        asked = "the best" if mine == "default" else "for the record"
        rows.append(
            Row(f"mean rank, {mine}, others {word}", means["ours"], means[rival], asked, met, note, unit="rank")
        )
    gaps = {
        place: max(float(best_of(found, name).mean()) for name in PEERS if best_of(found, name) is not None)
        - float(found["ours", mine].mean())
        for place, found in places.items()
    }
    worst = max(gaps, key=lambda place: gaps[place])
    behind = sum(gap > CLOSE for gap in gaps.values())
    note = f"{worst}; {behind} datasets with more than {100 * CLOSE:.0f} points"
    why = "the best of all libraries and settings on each dataset"
    rows.append(
        Row(
            f"furthest behind, {mine}",
            100 * gaps[worst],
            100 * CLOSE,
            "<= 3 points",
            gaps[worst] <= CLOSE,
            note,
            unit="points",
            why=why,
            fixed=True,
        )
    )
    return rows


def run() -> list[Row]:
    """Play what is not done yet in two processes, and judge all."""
    play_all(jobs(), 2)
    found = results()
    places = played_by_all(found)
    if not places:
        return [absent("datasets", "none is there")]
    rows = [row for mine in OURS for row in judged(places, mine)]
    for place in WORLDS:
        if place not in found:
            continue
        own = found[place]["ours", "default"]
        floor = {"xor": 0.95, "xor, clicks": 0.95, "threshold": 0.93}.get(place)
        rivals = [value for name in PEERS if (value := best_of(found[place], name)) is not None]
        rival = max((float(value.mean()) for value in rivals), default=math.nan)
        if place.startswith("linear"):
            floor = float(found[place]["ours", 'exploration="auto"'].mean()) - 0.01
        asked, met = ("for the record", True) if floor is None else (f">= {floor:.3f}", bool(own.mean() >= floor))
        note = ", ".join(
            f"{name} {value.mean():.3f}" for (which, name), value in found[place].items() if which == "ours"
        )
        why = "the best of all libraries and settings"
        rows.append(
            Row(f"{place}, default", float(own.mean()), rival, asked, met, note, unit="share", higher=True, why=why)
        )
    return rows


def page() -> str:
    """Return the tables of the page, in Markdown."""
    found = results()
    places, columns, lines = played_by_all(found), list(OURS), []
    for title, there in (("dataset", list(places)), ("world", [place for place in WORLDS if place in found])):
        libraries = [name for name in PEERS if all(best_of(found[place], name) is not None for place in there)]
        lines += [f"| {title} | " + " | ".join([*columns, *libraries]) + " |", "|---|" + "---|" * (4 + len(libraries))]
        for place in there:
            own = [found[place].get(("ours", name)) for name in columns]
            best = [best_of(found[place], name) for name in libraries]
            cells = ["" if value is None else f"{value.mean():.3f}" for value in (*own, *best)]
            lines.append(f"| {place} | " + " | ".join(cells) + " |")
        lines.append("")
    libraries = [name for name in PEERS if all(best_of(value, name) is not None for value in places.values())]
    lines += ["| ours | others at their | mean rank | " + " | ".join(libraries) + " | wins, ties, losses |"]
    lines += ["|---|---|---|" + "---|" * (len(libraries) + 1)]
    for mine, (word, peers) in product(OURS, (("defaults", default_of), ("best", best_of))):
        table = ranks(mine, peers, places)
        told = [f"{mean:.2f} +- {half:.2f}" for mean, half in (mean_and_half_width(table[n], 0.95) for n in table)]
        pairs = [
            verdict(value["ours", mine], other)
            for value in places.values()
            for name in libraries
            if (other := peers(value, name)) is not None
        ]
        counts = ", ".join(str(pairs.count(kind)) for kind in ("win", "tie", "loss"))
        lines.append(f"| {mine} | {word} | " + " | ".join(told) + f" | {counts} |")
    return "\n".join(lines)


if __name__ == "__main__":
    what, *more = sys.argv[1:] or ["all"]
    if what == "part":  # number and count of parts, and of processes
        number, count, *workers = map(int, more)
        play_all(jobs()[number - 1 :: count], workers[0] if workers else 1)
    elif what == "page":
        print(page())
    else:
        show("How well bandits learn", run())
