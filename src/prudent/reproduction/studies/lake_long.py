"""Regret on Frozen Lake in the long term: many more episodes than the paper's figures show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..intervals import INCONCLUSIVE, Claim, Finding, differences
from ..run import Arrays
from ..scale import Scale
from ..study import Study, judged
from ._lake import (
    BY_READING,
    COORDS,
    P_H,
    READING,
    WORDS,
    LakeRun,
    by_reading,
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


def _plan(scale: Scale) -> tuple[LakeRun, ...]:
    return lakes(scale.long_replications, scale.few_long, scale.long_episodes, POINTS, SAFE)


def _assemble(scale: Scale, results: list[Arrays]) -> tuple[dict[str, Any], dict[str, Any]]:
    return by_reading(_plan(scale), results)


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
    return Finding(differences(pairs, readings), "" if last >= LONG else INCONCLUSIVE)


def _claims(data: xarray.Dataset) -> list[Claim]:
    return [
        judged(
            data,
            WORDS,
            "lake-high-level-costs-late",
            "In the long term too high a risk level costs: in a safe lake (p_h = 0.6, 0.8) BRPS-RL 0.99 ends with more "
            "regret than moderate levels",
            "Frozen Lake study, result 3",
            _costs,
        )
    ]


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
    assemble=_assemble,
    claims=_claims,
    figures=(FIGURE,),
    tables=tables_by_p_h(),
)
