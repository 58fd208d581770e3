"""Regret on Frozen Lake by risk level, for four chances to leave a hole."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from ..._support.checks import FloatArray
from ..intervals import (
    INCONCLUSIVE,
    NOT_REPRODUCED,
    REPRODUCED,
    Claim,
    Interval,
    claim,
    differences,
    mean_interval,
    ratio_interval,
    side,
    verdict,
)
from ..run import Arrays
from ..scale import Scale
from ..study import Study
from ._lake import COORDS, P_H, REGRET, LakeRun, by_p_h, figure_by_p_h, lakes, regret, table_by_p_h

if TYPE_CHECKING:
    import xarray

SHORT = 20  # episodes: what "short term" means to us
LEVELS = (0.5, 0.8, 0.9, 0.99)
PRINTED = {0.1: 0.99, 0.2: 0.9, 0.6: 0.8, 0.8: 0.8}  # the best level by p_h


def _plan(scale: Scale) -> tuple[LakeRun, ...]:
    return lakes(scale.lake_replications, scale.episodes, scale.episodes)


def _assemble(scale: Scale, results: list[Arrays]) -> tuple[dict[str, Any], dict[str, Any]]:
    return by_p_h(_plan(scale), results)


def _claims(data: xarray.Dataset) -> list[Claim]:
    chances = data.p_h.values.tolist()
    study = "Frozen Lake study"
    beats = [
        (
            f"p_h = {p}: TS-RL minus BRPS-RL {level}",
            regret(data, p, "TS-RL") - regret(data, p, f"BRPS-RL {level}"),
        )
        for p in chances
        for level in (0.5, 0.8, 0.9)
    ]
    short = [
        (
            f"p_h = {p}, after {SHORT} episodes: TS-RL minus BRPS-RL 0.99",
            regret(data, p, "TS-RL", SHORT) - regret(data, p, "BRPS-RL 0.99", SHORT),
        )
        for p in (0.6, 0.8)
    ]
    first, then = _gain(data, "TS-RL", "BRPS-RL 0.9"), _gain(data, "BRPS-RL 0.9", "BRPS-RL 0.99")
    less = mean_interval("p_h = 0.1: gain from TS-RL to BRPS-RL 0.9 less that from 0.9 to 0.99", first - then, 2)
    gain = mean_interval("p_h = 0.1: gain from BRPS-RL 0.9 to BRPS-RL 0.99", then, 2)
    slight = -1 if side(gain, 0.0, math.inf) < 0 else side(less, 0.0, math.inf)
    share = ratio_interval("that gain as a share of the regret at 0.9", then, regret(data, 0.1, "BRPS-RL 0.9"), 2)
    return [
        claim(
            "lake-brps-beats-ts",
            "BRPS-RL at 0.5, 0.8 and 0.9 has less regret than TS-RL for every p_h",
            f"{study}, result 1",
            differences(beats),
        ),
        *_best_levels(data, chances),
        claim(
            "lake-high-level-pays-early",
            "In the short term a very high risk level pays even in a safe lake: BRPS-RL 0.99 begins with less regret "
            "than TS-RL at p_h = 0.6 and 0.8",
            f"{study}, result 3",
            differences(short),
        ),
        claim(
            "lake-0.99-gains-little",
            "At p_h = 0.1 the step from 0.9 to 0.99 gains little: less than that from Thompson sampling to 0.9 (that "
            "it gains at all is part of the claim about the best levels)",
            f"{study}, result 4",
            [less, gain, share],
            test="paired Student t intervals, 99% for both gains: the second step gains less than the first, and the "
            "interval of its own gain does not lie below 0",
            verdict=verdict(slight),
        ),
    ]


def _gain(data: xarray.Dataset, before: str, after: str) -> FloatArray:
    return regret(data, 0.1, before) - regret(data, 0.1, after)


def _best_levels(data: xarray.Dataset, chances: list[float]) -> list[Claim]:
    """Judge which risk level is best at each p_h, and whether that level falls as p_h rises."""
    source = "Frozen Lake study, result 2"
    found = {p: {level: regret(data, p, f"BRPS-RL {level}") for level in LEVELS} for p in chances}
    pairs = [
        (f"p_h = {p}: BRPS-RL {level} minus BRPS-RL {PRINTED[p]}", found[p][level] - found[p][PRINTED[p]])
        for p in chances
        for level in LEVELS
        if level != PRINTED[p]
    ]
    # levels that may be the best: no other one is better beyond doubt
    count = len(chances) * len(LEVELS) * (len(LEVELS) - 1) // 2
    may = {
        p: [
            a
            for a in LEVELS
            if not any(
                side(mean_interval("", found[p][a] - found[p][b], count), 0.0, math.inf) > 0 for b in LEVELS if b != a
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
        claim(
            "lake-best-level",
            "The best of the levels 0.5, 0.8, 0.9, 0.99 is 0.99, 0.9, 0.8, 0.8 at p_h = 0.1, 0.2, 0.6, 0.8",
            source,
            differences(pairs),
        ),
        claim(
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


FIGURE = figure_by_p_h(
    "lake-regret",
    "Cumulative regret on Frozen Lake",
    "BRPS-RL at levels 0.5, 0.8 and 0.9 beats Thompson sampling for every p_h. The best of the "
    "four levels falls as holes become harmless: 0.99, 0.9, 0.8, 0.8 for p_h = 0.1, 0.2, 0.6, 0.8.",
)

STUDY = Study(
    name="lake-regret",
    order=40,
    title="Frozen Lake: regret by risk level",
    setting="A 4×4 lake with slippery ice, four holes and a goal. What is unknown: the slip, the chance p_h to climb "
    "out of a hole, and where the game restarts. An episode is ten steps; regret is exact in the true model.",
    variables={"regret": REGRET._replace(dims=("p_h", *REGRET.dims))},
    coords={**COORDS, "p_h": P_H},
    plan=_plan,
    assemble=_assemble,
    claims=_claims,
    figures=(FIGURE,),
    tables=(table_by_p_h(),),
)
