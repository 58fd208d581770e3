"""What the paper concludes from its experiments, each conclusion with a verdict that the data give.

Replications of different agents with the same number face the same randomness, so agents are compared by the
differences within replications: Student's t intervals for their means, at 99% for all comparisons of a claim together
(Bonferroni). A claim is reproduced if every interval lies on the side that it says, not reproduced if any lies on
the other side, and inconclusive otherwise. Claims about a point in time that a run does not reach are inconclusive.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray

__all__ = ["INCONCLUSIVE", "NOT_REPRODUCED", "REPRODUCED", "Claim", "Interval", "judge", "mean_interval", "verdict_of"]

REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE = "reproduced", "not reproduced", "inconclusive at this scale"
CONFIDENCE = 0.99
HORIZON = 200_000  # steps of the paper's bandits
EARLY = 50_000
SHORT = 20  # episodes: what "short term" means to us
ALIKE = 2.0  # times are alike within this factor
LONG = 4_000  # episodes: what "long term" means to us
CLOSE = 0.2  # Kolmogorov distance: what "converges" must have reached at the largest size
STUDENT = "paired Student t intervals of mean differences, 99% for all of them together (Bonferroni)"


@dataclass(frozen=True)
class Interval:
    """A measured quantity with its interval; no interval if it is exact."""

    quantity: str
    estimate: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Claim:
    """A conclusion of the paper: statement, where it stands, verdict, test and the numbers behind it."""

    id: str
    statement: str
    source: str
    verdict: str
    test: str
    evidence: tuple[dict[str, Any], ...]


def mean_interval(quantity: str, values: Any, comparisons: int = 1, confidence: float = CONFIDENCE) -> Interval:
    """Return the mean of ``values`` [R] with Student's interval, for one of several ``comparisons``.

    >>> found = mean_interval("x", [1.0, 2.0, 3.0], confidence=0.95)
    >>> round(found.estimate, 3), round(found.low, 3), round(found.high, 3)
    (2.0, -0.484, 4.484)
    """
    from scipy.special import stdtrit

    sample = np.asarray(values, dtype=np.float64)
    mean = float(sample.mean())
    if sample.size < 2:
        return Interval(quantity, mean, -math.inf, math.inf)
    error = float(sample.std(ddof=1)) / math.sqrt(sample.size)
    half = error * float(stdtrit(sample.size - 1, 1.0 - (1.0 - confidence) / (2.0 * comparisons)))
    return Interval(quantity, mean, mean - half, mean + half)


def verdict_of(intervals: Sequence[Interval]) -> str:
    """Return the verdict on the claim that all these quantities are positive.

    >>> verdict_of([Interval("x", 1.0, 0.5, 1.5), Interval("y", 1.0, -0.5, 2.5)])
    'inconclusive at this scale'
    """
    sides = [_side(each, 0.0, math.inf) for each in intervals]
    return _three(min(sides))


def _side(each: Interval, least: float, most: float) -> int:
    """Return 1 if the interval lies strictly between the two, -1 if it lies apart from them, else 0."""
    low = each.estimate if each.low is None else each.low
    high = each.estimate if each.high is None else each.high
    if least < low and high < most:
        return 1
    return -1 if high < least or low > most else 0


def judge(datasets: dict[str, xarray.Dataset], timings: dict[str, Any]) -> list[Claim]:
    """Return the paper's claims about the experiments that are there, those that do not reproduce first.

    >>> judge({}, {})
    []
    """
    claims: list[Claim] = []
    for name, chapter in _CHAPTERS.items():
        if name in datasets:
            claims += chapter(datasets[name])
    if "samples" in timings.get("computing-time", {}):
        claims += _computing_time(timings["computing-time"])
    order = [NOT_REPRODUCED, INCONCLUSIVE, REPRODUCED]
    return sorted(claims, key=lambda claim: order.index(claim.verdict))


def _claim(
    name: str, statement: str, source: str, intervals: Sequence[Interval], *, test: str = STUDENT, verdict: str = ""
) -> Claim:
    evidence = tuple(
        {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(each).items()}
        for each in intervals
    )
    return Claim(name, statement, source, verdict or verdict_of(intervals), test, evidence)


def _differences(pairs: Sequence[tuple[str, Any]]) -> list[Interval]:
    return [mean_interval(quantity, values, len(pairs)) for quantity, values in pairs]


# -- bandits -----------------------------------------------------------------------------------------------


def _bandit_four(data: xarray.Dataset) -> list[Claim]:
    claims = []
    for measure, label, source in (
        ("br_regret", "BR-regret", "Bandit study, figure of BR-regret of four algorithms"),
        ("regret", "conventional regret", "Bandit study, figure of conventional regret of four algorithms"),
    ):
        last = data[measure].isel(time=-1)
        last = last.sel(level=0.8) if "level" in last.dims else last
        pairs = [
            (f"{label} of {wide} minus that of {plain}", last.sel(agent=wide).values - last.sel(agent=plain).values)
            for wide in ("BRPS-CMAB_nu 0.8", "TS-CMAB_nu")
            for plain in ("BRPS-CMAB 0.8", "TS-CMAB")
        ]
        claims.append(
            _claim(
                f"bandit-wide-sampling-costs-{measure.replace('_', '-')}",
                f"Both variants with inflated sampling have more {label} than BRPS-CMAB 0.8 and TS-CMAB",
                source,
                _differences(pairs),
            )
        )
    return claims


def _bandit_br(data: xarray.Dataset) -> list[Claim]:
    gaps = {
        level: data.br_regret.sel(agent="TS-CMAB", level=level).values
        - data.br_regret.sel(agent=f"BRPS-CMAB {level}", level=level).values
        for level in data.level.values.tolist()
    }  # [R, T]
    times = data.time.values
    places = [times.size // 4 - 1, times.size // 2 - 1, times.size - 1] if times.size >= 4 else [times.size - 1]
    beats = [
        (f"BR-regret at {level}, t = {times[i]}: TS-CMAB minus BRPS-CMAB {level}", gap[:, i])
        for level, gap in gaps.items()
        for i in places
    ]
    levels = sorted(gaps)
    narrows = [
        (f"gap at level {high} minus gap at level {low}", gaps[high][:, -1] - gaps[low][:, -1])
        for low, high in itertools.pairwise(levels)
    ]
    source = "Bandit study, figure of BR-regret by risk level"
    return [
        _claim(
            "bandit-br-beats-ts",
            "BRPS-CMAB has less BR-regret than TS-CMAB at each of the three risk levels, throughout",
            source,
            _differences(beats),
        ),
        _claim(
            "bandit-br-gap-narrows",
            "The gap in BR-regret between TS-CMAB and BRPS-CMAB narrows as the risk level falls",
            source,
            _differences(narrows),
        ),
    ]


def _bandit_conventional(data: xarray.Dataset) -> list[Claim]:
    claims = []
    horizon = int(data.time.values[-1])
    for nu in data.nu.values.tolist():
        regret = data.regret.sel(nu=nu)
        last = {agent: regret.sel(agent=agent).isel(time=-1).values for agent in regret.agent.values.tolist()}
        early = regret.sel(time=min(EARLY, horizon), method="nearest")
        source = "Bandit study, figure of conventional regret by risk level"
        where, tag = "", ""
        if nu != 1.0:
            source += f"; here with sampling {nu:g} times as wide, which is not in the paper"
            where, tag = f" (sampling sd times {nu:g})", f"-nu{nu:g}"
        rivals = [agent for agent in last if agent != "BRPS-CMAB 0.9"]
        found = {
            "bandit-regret-0.5-beats-ts": (
                "BRPS-CMAB 0.5 has less conventional regret than TS-CMAB",
                [(f"TS-CMAB minus BRPS-CMAB 0.5 at t = {horizon}", last["TS-CMAB"] - last["BRPS-CMAB 0.5"])],
            ),
            "bandit-regret-0.8-beats-ts": (
                "BRPS-CMAB 0.8 has less conventional regret than TS-CMAB",
                [(f"TS-CMAB minus BRPS-CMAB 0.8 at t = {horizon}", last["TS-CMAB"] - last["BRPS-CMAB 0.8"])],
            ),
            "bandit-regret-0.9-highest-late": (
                f"BRPS-CMAB 0.9 has the highest conventional regret of all after {HORIZON:,} steps",
                [(f"BRPS-CMAB 0.9 minus {a} at t = {horizon}", last["BRPS-CMAB 0.9"] - last[a]) for a in rivals],
            ),
            "bandit-regret-0.9-lowest-early": (
                f"BRPS-CMAB 0.9 has the lowest conventional regret of all around {EARLY:,} steps",
                [
                    (
                        f"{a} minus BRPS-CMAB 0.9 at t = {int(early.time)}",
                        early.sel(agent=a).values - early.sel(agent="BRPS-CMAB 0.9").values,
                    )
                    for a in rivals
                ],
            ),
        }
        for name, (statement, pairs) in found.items():
            verdict = "" if horizon >= HORIZON else INCONCLUSIVE
            claims.append(_claim(name + tag, statement + where, source, _differences(pairs), verdict=verdict))
    return claims


# -- Frozen Lake -------------------------------------------------------------------------------------------


def _regret(data: xarray.Dataset, p_h: float, agent: str, episode: int | None = None) -> Any:
    chosen = data.regret.sel(p_h=p_h, agent=agent)
    return (chosen.isel(episode=-1) if episode is None else chosen.sel(episode=episode, method="nearest")).values


def _lake_regret(data: xarray.Dataset) -> list[Claim]:
    chances = data.p_h.values.tolist()
    study = "Frozen Lake study"
    beats = [
        (
            f"p_h = {p}: TS-RL minus BRPS-RL {level}",
            _regret(data, p, "TS-RL") - _regret(data, p, f"BRPS-RL {level}"),
        )
        for p in chances
        for level in (0.5, 0.8, 0.9)
    ]
    short = [
        (
            f"p_h = {p}, after {SHORT} episodes: TS-RL minus BRPS-RL 0.99",
            _regret(data, p, "TS-RL", SHORT) - _regret(data, p, "BRPS-RL 0.99", SHORT),
        )
        for p in (0.6, 0.8)
    ]
    first, then = (_step(data, "TS-RL", "BRPS-RL 0.9"), _step(data, "BRPS-RL 0.9", "BRPS-RL 0.99"))
    less = mean_interval("p_h = 0.1: gain from TS-RL to BRPS-RL 0.9 less that from 0.9 to 0.99", first - then, 2)
    gain = mean_interval("p_h = 0.1: gain from BRPS-RL 0.9 to BRPS-RL 0.99", then, 2)
    slight = _side(less, 0.0, math.inf)
    slight = -1 if _side(gain, 0.0, math.inf) < 0 else slight
    share = _ratio_interval("that gain as a share of the regret at 0.9", then, _regret(data, 0.1, "BRPS-RL 0.9"), 2)
    return [
        _claim(
            "lake-brps-beats-ts",
            "BRPS-RL at 0.5, 0.8 and 0.9 has less regret than TS-RL for every p_h",
            f"{study}, result 1",
            _differences(beats),
        ),
        *_best_levels(data, chances),
        _claim(
            "lake-high-level-pays-early",
            "In the short term a very high risk level pays even in a safe lake: BRPS-RL 0.99 begins with less regret "
            "than TS-RL at p_h = 0.6 and 0.8",
            f"{study}, result 3",
            _differences(short),
        ),
        _claim(
            "lake-0.99-gains-little",
            "At p_h = 0.1 the step from 0.9 to 0.99 gains little: less than that from Thompson sampling to 0.9 (that "
            "it gains at all is part of the claim about the best levels)",
            f"{study}, result 4",
            [less, gain, share],
            test="paired Student t intervals, 99% for both gains: the second step gains less than the first, and the "
            "interval of its own gain does not lie below 0",
            verdict=_three(slight),
        ),
    ]


def _step(data: xarray.Dataset, before: str, after: str) -> Any:
    return _regret(data, 0.1, before) - _regret(data, 0.1, after)


def _ratio_interval(quantity: str, above: Any, below: Any, comparisons: int = 2) -> Interval:
    """Return the interval of a ratio of means, by the delta method: the mean of ``above - ratio below`` is zero."""
    ratio = float(np.mean(above) / np.mean(below))
    around = mean_interval("", (np.asarray(above) - ratio * np.asarray(below)) / np.mean(below), comparisons)
    return Interval(quantity, ratio, ratio + float(around.low or 0.0), ratio + float(around.high or 0.0))


def _best_levels(data: xarray.Dataset, chances: list[float]) -> list[Claim]:
    """Judge which risk level is best at each p_h, and whether that level falls as p_h rises."""
    levels = (0.5, 0.8, 0.9, 0.99)
    printed = dict(zip((0.1, 0.2, 0.6, 0.8), (0.99, 0.9, 0.8, 0.8), strict=True))
    source = "Frozen Lake study, result 2"
    pairs = [
        (
            f"p_h = {p}: BRPS-RL {level} minus BRPS-RL {printed[p]}",
            _regret(data, p, f"BRPS-RL {level}") - _regret(data, p, f"BRPS-RL {printed[p]}"),
        )
        for p in chances
        for level in levels
        if level != printed[p]
    ]
    # levels that may be the best: no other one is better beyond doubt
    count = len(chances) * len(levels) * (len(levels) - 1) // 2
    regret = {p: {level: _regret(data, p, f"BRPS-RL {level}") for level in levels} for p in chances}
    may = {
        p: [
            a
            for a in levels
            if not any(
                _side(mean_interval("", regret[p][a] - regret[p][b], count), 0.0, math.inf) > 0
                for b in levels
                if b != a
            )
        ]
        for p in chances
    }
    rising = sorted(chances)
    falls = all(min(may[p]) >= max(may[q]) for p, q in itertools.pairwise(rising))
    falls = falls and min(may[rising[0]]) > max(may[rising[-1]])
    possible = _falling_choice([may[p] for p in rising])
    evidence = [
        Interval(f"p_h = {p}: levels that may be the best, from and to", min(may[p]), min(may[p]), max(may[p]))
        for p in rising
    ]
    return [
        _claim(
            "lake-best-level",
            "The best of the levels 0.5, 0.8, 0.9, 0.99 is 0.99, 0.9, 0.8, 0.8 at p_h = 0.1, 0.2, 0.6, 0.8",
            source,
            _differences(pairs),
        ),
        _claim(
            "lake-best-level-falls",
            "The best risk level falls as p_h rises",
            source,
            evidence,
            test="sets of levels that no other beats by paired Student t intervals, 99% for all of them together; "
            "reproduced if every choice from the sets falls, not reproduced if none does",
            verdict=REPRODUCED if falls else INCONCLUSIVE if possible else NOT_REPRODUCED,
        ),
    ]


def _falling_choice(sets: list[list[float]]) -> bool:
    """Return whether one can choose a level from each set so that they never rise and fall at least once."""
    below = math.inf
    choice = []
    for each in sets:
        allowed = [level for level in each if level <= below]
        if not allowed:
            return False
        below = max(allowed)
        choice.append(below)
    return min(sets[-1]) < choice[0]


def _lake_long(data: xarray.Dataset) -> list[Claim]:
    last = int(data.episode.values[-1])
    costs = [
        (
            f"p_h = {p}, after {last} episodes: BRPS-RL 0.99 minus BRPS-RL {level}",
            _regret(data, p, "BRPS-RL 0.99") - _regret(data, p, f"BRPS-RL {level}"),
        )
        for p in (0.6, 0.8)
        for level in (0.5, 0.8)
    ]
    return [
        _claim(
            "lake-high-level-costs-late",
            "In the long term too high a risk level costs: in a safe lake (p_h = 0.6, 0.8) BRPS-RL 0.99 ends with more "
            "regret than moderate levels",
            "Frozen Lake study, result 3",
            _differences(costs),
            verdict="" if last >= LONG else INCONCLUSIVE,
        )
    ]


def _optimal_policy(data: xarray.Dataset) -> list[Claim]:
    printed, value, q = data.paper_policy.values, data.q.values.max(axis=1), data.q.values
    cells = np.flatnonzero(printed >= 0)
    loss = value[cells] - q[cells, printed[cells]]
    side = round(math.sqrt(value.size))
    names = [str(name) for name in data.action.values]
    evidence = [Interval("cells whose printed action is optimal", int((loss <= 1e-9).sum()))]
    for cell, lost in zip(cells, loss, strict=True):
        if lost > 1e-9:
            place = f"[{cell // side},{cell % side}]"
            best = names[int(q[cell].argmax())]
            evidence += [
                Interval(f"value of {names[printed[cell]]} in {place}, as printed", float(q[cell, printed[cell]])),
                Interval(f"value of {best} in {place}", float(value[cell])),
            ]
    return [
        _claim(
            "optimal-policy-table",
            f"The printed actions are optimal in all {cells.size} cells at p_h = 0.1",
            "Normality study, table of the optimal policy",
            evidence,
            test="exact: values by a linear solve, certified to 1e-12",
            verdict=REPRODUCED if (loss <= 1e-9).all() else NOT_REPRODUCED,
        )
    ]


# -- the limit law -----------------------------------------------------------------------------------------


def _limit_law(data: xarray.Dataset) -> list[Claim]:
    claims = []
    sizes = data["size"].values.tolist()
    count = data.sizes["replication"]
    for method, words in (("sampled", "from posterior draws"), ("exact", "exact")):
        errors = data.scaled_error.sel({"method": method})
        scores = (errors.values - float(data.limit_mean)) / float(data.limit_sd)  # [sizes, R]
        band = math.sqrt(math.log(2.0 * len(sizes) / (1.0 - CONFIDENCE)) / (2.0 * count))
        far = [_kolmogorov(row) for row in scores]
        evidence = [
            Interval(f"N = {n}: Kolmogorov distance to the limit law", d, max(0.0, d - band), min(1.0, d + band))
            for n, d in zip(sizes, far, strict=True)
        ]
        for n, row in zip(sizes, scores, strict=True):
            evidence.append(
                mean_interval(f"N = {n}: mean error less the limit's, in its standard deviations", row, len(sizes))
            )
            evidence.append(Interval(f"N = {n}: standard deviation over the limit's", float(row.std(ddof=1))))
        near, nearer = _side(evidence[len(sizes) - 1], -math.inf, CLOSE), far[0] - far[-1]
        falls = 1 if nearer > 2.0 * band else -1 if nearer < -2.0 * band else 0
        sides = min(near, falls)
        claims.append(
            _claim(
                f"limit-law-{method}",
                f"sqrt(N) (V_N - V*) tends to the normal law of the theorem as N grows, values {words}",
                "Normality study, densities and Q-Q plots",
                evidence,
                test="Dvoretzky-Kiefer-Wolfowitz bands of the Kolmogorov distance, 99% together: it falls from the "
                f"smallest N to the largest, and lies below {CLOSE:g} there",
                verdict=_three(sides),
            )
        )
    errors = (
        data.scaled_error.sel({"method": "exact"}).values / np.sqrt(np.asarray(sizes, dtype=np.float64))[:, np.newaxis]
    )
    pairs = [(f"N = {n}: V* minus V_N", -row) for n, row in zip(sizes, errors, strict=True)]
    pairs += [
        (f"V_N at N = {more} minus V_N at N = {few}", errors[i + 1] - errors[i])
        for i, (few, more) in enumerate(itertools.pairwise(sizes))
    ]
    claims.append(
        _claim(
            "limit-error-negative-and-falling",
            "The Bayesian-risk value lies below the true one on average, by less as data accumulate",
            "Weak-convergence theorem and conclusion",
            _differences(pairs),
        )
    )
    return claims


def _kolmogorov(scores: Any) -> float:
    """Return the largest distance between the empirical distribution of ``scores`` and the standard normal."""
    from scipy.special import ndtr

    n = scores.size
    chances = ndtr(np.sort(scores))
    return float(max((np.arange(1, n + 1) / n - chances).max(), (chances - np.arange(n) / n).max()))


# -- beyond, and times -------------------------------------------------------------------------------------


def _beyond(data: xarray.Dataset) -> list[Claim]:
    total = data.br_regret.mean("episode")
    level = float(data.br_regret.attrs.get("level", 0.9))
    own = f"BRPS-RL {level:g}"
    last = data.regret.isel(episode=-1)
    optimist = str(data.agent.values[-1])
    return [
        _claim(
            "beyond-br-regret-lake",
            f"On Frozen Lake too, {own} has less BR-regret at {level:g} than TS-RL",
            "beyond the paper",
            _differences(
                [
                    (
                        f"BR-regret of an episode, mean over the grid: TS-RL minus {own}",
                        total.sel(agent="TS-RL").values - total.sel(agent=own).values,
                    )
                ]
            ),
        ),
        _claim(
            "beyond-optimism-costs",
            "The optimistic algorithm of the appendix, with its regret bound, has more regret than BRPS-RL and TS-RL",
            "beyond the paper",
            _differences(
                [
                    (f"{optimist} minus {agent}", last.sel(agent=optimist).values - last.sel(agent=agent).values)
                    for agent in ("TS-RL", own)
                ]
            ),
        ),
    ]


def _computing_time(times: dict[str, Any]) -> list[Claim]:
    paper: dict[str, float] = times["paper_seconds"]
    samples = {method: {a: np.array(s) for a, s in each.items()} for method, each in times["samples"].items()}
    agents = list(samples["sweeps"])
    source = "Frozen Lake study, result 4 and table of computing times"
    ours = samples["sweeps"]
    rising = [
        (f"seconds of {after} minus those of {before}", ours[after] - ours[before])
        for before, after in itertools.pairwise(agents)
    ]
    ratios = [
        _ratio_interval(
            f"{agent} over {agents[0]} (paper: {paper[agent] / paper[agents[0]]:.2f})", ours[agent], ours[agents[0]], 4
        )
        for agent in agents[1:]
    ]
    sides = [
        _side(each, paper[agent] / paper[agents[0]] / ALIKE, paper[agent] / paper[agents[0]] * ALIKE)
        for agent, each in zip(agents[1:], ratios, strict=True)
    ]
    eight = _ratio_interval("BRPS-RL 0.99 over BRPS-RL 0.9 (paper: 7.48)", ours["BRPS-RL 0.99"], ours["BRPS-RL 0.9"], 1)
    newton = samples["newton"]
    faster = [
        _ratio_interval(f"{agent}: 100 sweeps over our solver", ours[agent], newton[agent], len(agents))
        for agent in agents
    ]
    delta = "intervals of ratios of means (delta method), 99% for all of them together"
    return [
        _claim(
            "time-rises-with-level", "The higher the risk level, the more computing time", source, _differences(rising)
        ),
        _claim(
            "time-eight-fold",
            "Level 0.99 takes about eight times as long as level 0.9",
            source,
            [eight],
            test=f"{delta}, within a factor {ALIKE:g} of 8",
            verdict=_three(_side(eight, 8.0 / ALIKE, 8.0 * ALIKE)),
        ),
        _claim(
            "time-table-ratios",
            "Computing times stand to that of Thompson sampling as in the table",
            source,
            ratios,
            test=f"{delta}, within a factor {ALIKE:g} of the table's",
            verdict=_three(min(sides)),
        ),
        _claim(
            "beyond-time-our-solver",
            "Our solver takes less time than the paper's 100 sweeps at every level",
            "beyond the paper",
            faster,
            test=f"{delta}, above 1",
            verdict=_three(min(_side(each, 1.0, math.inf) for each in faster)),
        ),
    ]


def _three(side: int) -> str:
    return (INCONCLUSIVE, REPRODUCED, NOT_REPRODUCED)[side]


_CHAPTERS: dict[str, Callable[[Any], list[Claim]]] = {
    "bandit-four": _bandit_four,
    "bandit-br": _bandit_br,
    "bandit-conventional": _bandit_conventional,
    "lake-regret": _lake_regret,
    "lake-long": _lake_long,
    "optimal-policy": _optimal_policy,
    "limit-law": _limit_law,
    "beyond": _beyond,
}
