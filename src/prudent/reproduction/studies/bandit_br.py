"""BR-regret of BRPS-CMAB and Thompson sampling, at three risk levels of the metric."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from ..claims import Finding, Statement, differences
from ..study import Study, curve, curves, on_grid
from ._bandit import AS_WRITTEN, BR_REGRET, BR_TABLE, COORDS, DIMS, LEVEL, LEVELS, REGRET, WORDS, every_agent

if TYPE_CHECKING:
    import xarray


def _gaps(data: xarray.Dataset) -> dict[float, Any]:
    """Return how much more BR-regret Thompson sampling has than the agent of each level: [R, T] by level."""
    return {
        level: data.br_regret.sel(agent="TS-CMAB", level=level).values
        - data.br_regret.sel(agent=f"BRPS-CMAB {level}", level=level).values
        for level in data.level.values.tolist()
    }


def _beats(data: xarray.Dataset, readings: int) -> Finding:
    times = data.time.values
    moments = [times.size // 4 - 1, times.size // 2 - 1, times.size - 1] if times.size >= 4 else [times.size - 1]
    pairs = [
        (f"BR-regret at {level}, t = {times[i]}: TS-CMAB minus BRPS-CMAB {level}", gap[:, i])
        for level, gap in _gaps(data).items()
        for i in moments
    ]
    return Finding(differences(pairs, readings))


def _narrows(data: xarray.Dataset, readings: int) -> Finding:
    gaps = _gaps(data)
    pairs = [
        (f"gap at level {high} minus gap at level {low}", gaps[high][:, -1] - gaps[low][:, -1])
        for low, high in itertools.pairwise(sorted(gaps))
    ]
    return Finding(differences(pairs, readings))


SOURCE = "Bandit study, figure of BR-regret by risk level"
CLAIMS = (
    Statement(
        "bandit-br-beats-ts",
        "BRPS-CMAB has less BR-regret than TS-CMAB at each of the three risk levels, throughout",
        SOURCE,
        _beats,
    ),
    Statement(
        "bandit-br-gap-narrows",
        "The gap in BR-regret between TS-CMAB and BRPS-CMAB narrows as the risk level falls",
        SOURCE,
        _narrows,
    ),
)

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
    coords={**COORDS, "level": LEVEL},
    plan=every_agent,
    assemble=on_grid(every_agent, DIMS, "regret", "br_regret"),
    claims=CLAIMS,
    figures=(FIGURE,),
    tables=(BR_TABLE,),
    readings=WORDS,
)
