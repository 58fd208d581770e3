"""Regret on Frozen Lake in the long term: many more episodes than the paper's figures show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..claims import Finding, Statement, Verdict, differences
from ..runs.simulation import SimulationRun
from ..scale import Scale
from ..study import Coordinates, Study, on_grid
from ._lake import (
    BY_READING,
    COORDS,
    P_H,
    READING,
    WORDS,
    figure_by_p_h,
    lakes,
    regret,
    tables_by_p_h,
)

if TYPE_CHECKING:
    import xarray

POINTS = 200  # episodes that are recorded
LONG = 1_000  # episodes: what "long term" means to us
SAFE = (0.6, 0.8)  # p_h of the lakes that the claim is about


def _plan(scale: Scale) -> dict[Coordinates, SimulationRun]:
    return lakes(scale.long_replications, scale.few_long, scale.long_episodes, POINTS, SAFE)


def _costs(data: xarray.Dataset, readings: int) -> Finding:
    last = int(data.episode.values[-1])
    pairs = [
        (
            f"p_h = {p}, after {last} episodes: BRPS-RL 0.99 minus BRPS-RL {level}",
            regret(data, p, "BRPS-RL 0.99") - regret(data, p, f"BRPS-RL {level}"),
        )
        for p in SAFE
        for level in (0.5, 0.8)
    ]
    return Finding(differences(pairs, readings), None if last >= LONG else Verdict.INCONCLUSIVE)


CLAIMS = (
    Statement(
        "lake-high-level-costs-late",
        "In the long term too high a risk level costs: in a safe lake (p_h = 0.6, 0.8) BRPS-RL 0.99 ends with more "
        "regret than moderate levels",
        "Frozen Lake study, result 3",
        _costs,
    ),
)

FIGURE = figure_by_p_h(
    "lake-long",
    "Cumulative regret on Frozen Lake, long runs",
    "Too high a level costs much regret in the long run, though it may pay in the short run, "
    "while data is scarce, even where exploring is safe.",
    SAFE,
)

STUDY = Study(
    name="lake-long",
    order=50,
    title="Frozen Lake: the long term",
    setting="The same agents for many more episodes, on the lakes that are safe to explore.",
    variables={"regret": BY_READING},
    coords={**COORDS, "p_h": P_H, "reading": READING},
    plan=_plan,
    assemble=on_grid(_plan, ("reading", "p_h", "agent"), "regret"),
    claims=CLAIMS,
    figures=(FIGURE,),
    tables=tables_by_p_h(),
    readings=WORDS,
)
