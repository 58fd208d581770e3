"""Regret on Frozen Lake in the long term: many more episodes than the paper's figures show."""

from __future__ import annotations

from functools import partial

from ..claims import Data, Statement, until
from ..rules import Samples
from ..runs.simulation import SimulationRun
from ..scale import Scale
from ..study import Coordinates, Study
from ._lake import BY_READING, COORDS_BY_READING, WORDS, figure_by_p_h, gaps, lakes, tables_by_p_h

POINTS = 200  # episodes that are recorded
LONG = 1_000  # episodes: what "long term" means to us
SAFE = (0.6, 0.8)  # p_h of the lakes that the claim is about


def _plan(scale: Scale) -> dict[Coordinates, SimulationRun]:
    return lakes(scale.long_replications, scale.few_long, scale.long_episodes, POINTS, SAFE)


def costs_late(episodes: int | None, data: Data) -> Samples:
    """Return by how much BRPS-RL 0.99 has more regret than moderate levels after some episodes (default: all)."""
    last = int(data.episode.values[-1]) if episodes is None else episodes
    pairs = [(p, "BRPS-RL 0.99", moderate) for p in SAFE for moderate in ("BRPS-RL 0.5", "BRPS-RL 0.8")]
    return gaps(data, pairs, last)


_costs = Statement(
    "lake-high-level-costs-late",
    "In the long term too high a risk level costs: in a safe lake (p_h = 0.6, 0.8) BRPS-RL 0.99 ends with more "
    "regret than moderate levels",
    "Frozen Lake study, result 3",
    partial(costs_late, None),
    short=lambda data: until(LONG, int(data.episode.values[-1]), "episodes"),
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
    coords=COORDS_BY_READING,
    plan=_plan,
    claims=(_costs,),
    figures=(FIGURE,),
    tables=tables_by_p_h(),
    readings=WORDS,
)
