"""Regret on Frozen Lake in the long term: many more episodes than the paper's figures show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..intervals import INCONCLUSIVE, Claim, claim, differences
from ..run import Arrays
from ..scale import Scale
from ..study import Study
from ._lake import COORDS, P_H, REGRET, LakeRun, by_p_h, figure_by_p_h, lakes, regret, table_by_p_h

if TYPE_CHECKING:
    import xarray

POINTS = 200  # episodes that are recorded
LONG = 4_000  # episodes: what "long term" means to us


def _plan(scale: Scale) -> tuple[LakeRun, ...]:
    return lakes(scale.long_replications, scale.long_episodes, POINTS)


def _assemble(scale: Scale, results: list[Arrays]) -> tuple[dict[str, Any], dict[str, Any]]:
    return by_p_h(_plan(scale), results)


def _claims(data: xarray.Dataset) -> list[Claim]:
    last = int(data.episode.values[-1])
    costs = [
        (
            f"p_h = {p}, after {last} episodes: BRPS-RL 0.99 minus BRPS-RL {level}",
            regret(data, p, "BRPS-RL 0.99") - regret(data, p, f"BRPS-RL {level}"),
        )
        for p in (0.6, 0.8)
        for level in (0.5, 0.8)
    ]
    return [
        claim(
            "lake-high-level-costs-late",
            "In the long term too high a risk level costs: in a safe lake (p_h = 0.6, 0.8) BRPS-RL 0.99 ends with more "
            "regret than moderate levels",
            "Frozen Lake study, result 3",
            differences(costs),
            verdict="" if last >= LONG else INCONCLUSIVE,
        )
    ]


FIGURE = figure_by_p_h(
    "lake-long",
    "Cumulative regret on Frozen Lake, long runs",
    "Too high a level costs much regret in the long run, though it may pay in the short run, "
    "while data is scarce, even where exploring is safe.",
)

STUDY = Study(
    name="lake-long",
    order=50,
    title="Frozen Lake: the long term",
    setting="The same agents for many more episodes.",
    variables={"regret": REGRET._replace(dims=("p_h", *REGRET.dims))},
    coords={**COORDS, "p_h": P_H},
    plan=_plan,
    assemble=_assemble,
    claims=_claims,
    figures=(FIGURE,),
    tables=(table_by_p_h(),),
)
