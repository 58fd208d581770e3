"""BR-regret of BRPS-CMAB and Thompson sampling, at three risk levels of the metric."""

from __future__ import annotations

import itertools
from typing import Any

from ..claims import Data, claim, gap
from ..rules import Samples
from ..study import Study, curve, curves
from ._bandit import AS_WRITTEN, BR_REGRET, BR_TABLE, COORDS_BY_LEVEL, LEVELS, REGRET, WORDS, every_agent

SOURCE = "Bandit study, figure of BR-regret by risk level"


def _gaps(data: Data) -> dict[float, Any]:
    """Return how much more BR-regret Thompson sampling has than the agent of each level: [R, T] by level."""
    levels = data.level.values.tolist()
    return {level: gap(data.br_regret.sel(level=level), "TS-CMAB", f"BRPS-CMAB {level}") for level in levels}


@claim(
    "bandit-br-beats-ts",
    "BRPS-CMAB has less BR-regret than TS-CMAB at each of the three risk levels, throughout",
    SOURCE,
)
def _beats(data: Data) -> Samples:
    times = data.time.values
    moments = [times.size // 4 - 1, times.size // 2 - 1, times.size - 1] if times.size >= 4 else [times.size - 1]
    return {
        f"BR-regret at {level}, t = {times[i]}: TS-CMAB minus BRPS-CMAB {level}": gaps[:, i]
        for level, gaps in _gaps(data).items()
        for i in moments
    }


@claim(
    "bandit-br-gap-narrows",
    "The gap in BR-regret between TS-CMAB and BRPS-CMAB narrows as the risk level falls",
    SOURCE,
)
def _narrows(data: Data) -> Samples:
    gaps = _gaps(data)
    return {
        f"gap at level {high} minus gap at level {low}": gaps[high][:, -1] - gaps[low][:, -1]
        for low, high in itertools.pairwise(sorted(gaps))
    }


FIGURE = curves(
    "bandit-br",
    "Cumulative BR-regret by risk level",
    "BRPS-CMAB has less BR-regret than Thompson sampling at all three levels: it aims at just "
    "that. The gap narrows as the level falls towards 0, where the two are the same algorithm.",
    [
        curve(
            "br_regret",
            f"BR-regret at level {level:g}",
            agents=["TS-CMAB", f"BRPS-CMAB {level}"],
            level=level,
            reading=AS_WRITTEN,
        )
        for level in LEVELS
    ],
    columns=3,
)

STUDY = Study(
    name="bandit-br",
    order=20,
    title="Bandit: BR-regret by risk level",
    setting="BR-regret compares the chosen arm with the best by CVaR of the agent’s own posterior, at the level of the "
    "panel. Each panel has Thompson sampling and the agent that was made for this level.",
    variables={"regret": REGRET, "br_regret": BR_REGRET},
    coords=COORDS_BY_LEVEL,
    plan=every_agent,
    claims=(_beats, _narrows),
    figures=(FIGURE,),
    tables=(BR_TABLE,),
    readings=WORDS,
)
