"""BR-regret of BRPS-CMAB and Thompson sampling, at three risk levels of the metric."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from ..intervals import Claim, claim, differences
from ..run import Arrays, Run, stacked
from ..scale import Scale
from ..study import Study, curve, curves
from ._bandit import AGENTS, BR_REGRET, BR_TABLE, COORDS, LEVEL, LEVELS, REGRET, bandit, places

if TYPE_CHECKING:
    import xarray


def _plan(scale: Scale) -> tuple[Run, ...]:
    return tuple(bandit(scale, alpha) for alpha in AGENTS.values())


def _assemble(scale: Scale, results: list[Arrays]) -> tuple[dict[str, Any], dict[str, Any]]:
    return (
        {name: stacked(results, name) for name in ("regret", "br_regret")},
        {"agent": list(AGENTS), "level": list(LEVELS), **places(scale)},
    )


def _claims(data: xarray.Dataset) -> list[Claim]:
    gaps = {
        level: data.br_regret.sel(agent="TS-CMAB", level=level).values
        - data.br_regret.sel(agent=f"BRPS-CMAB {level}", level=level).values
        for level in data.level.values.tolist()
    }  # [R, T]
    times = data.time.values
    moments = [times.size // 4 - 1, times.size // 2 - 1, times.size - 1] if times.size >= 4 else [times.size - 1]
    beats = [
        (f"BR-regret at {level}, t = {times[i]}: TS-CMAB minus BRPS-CMAB {level}", gap[:, i])
        for level, gap in gaps.items()
        for i in moments
    ]
    narrows = [
        (f"gap at level {high} minus gap at level {low}", gaps[high][:, -1] - gaps[low][:, -1])
        for low, high in itertools.pairwise(sorted(gaps))
    ]
    source = "Bandit study, figure of BR-regret by risk level"
    return [
        claim(
            "bandit-br-beats-ts",
            "BRPS-CMAB has less BR-regret than TS-CMAB at each of the three risk levels, throughout",
            source,
            differences(beats),
        ),
        claim(
            "bandit-br-gap-narrows",
            "The gap in BR-regret between TS-CMAB and BRPS-CMAB narrows as the risk level falls",
            source,
            differences(narrows),
        ),
    ]


FIGURE = curves(
    "bandit-br",
    "Cumulative BR-regret by risk level",
    "BRPS-CMAB has less BR-regret than Thompson sampling at all three levels: it aims at just "
    "that. The gap narrows as the level falls towards 0, where the two are the same algorithm.",
    [
        curve("br_regret", f"BR-regret at level {level:g}", agents=["TS-CMAB", f"BRPS-CMAB {level}"], level=level)
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
    plan=_plan,
    assemble=_assemble,
    claims=_claims,
    figures=(FIGURE,),
    tables=(BR_TABLE,),
)
