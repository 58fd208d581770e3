"""Regret on Frozen Lake by risk level, for four chances to leave a hole."""

from __future__ import annotations

from functools import partial

from ...types import FloatArray
from ..claims import Data, Statement, claim
from ..rules import Samples, ratio_interval
from ..runs.simulation import SimulationRun
from ..scale import Scale
from ..study import Coordinates, Study
from ._lake import BY_READING, COORDS_BY_READING, WORDS, figure_by_p_h, gaps, lakes, regret, tables_by_p_h

SHORT = 20  # episodes: what "short term" means to us
POINTS = 80  # episodes that are recorded


def _plan(scale: Scale) -> dict[Coordinates, SimulationRun]:
    return lakes(scale.lake_replications, scale.few_lakes, scale.episodes, POINTS)


RESULT = "Frozen Lake study, result {}"


@claim("lake-brps-beats-ts", "BRPS-RL at 0.5, 0.8 and 0.9 has less regret than TS-RL for every p_h", RESULT.format(1))
def _beats(data: Data) -> Samples:
    chances = data.p_h.values.tolist()
    return gaps(data, [(p, "TS-RL", f"BRPS-RL {level}") for p in chances for level in (0.5, 0.8, 0.9)])


def pays_early(episodes: int, data: Data) -> Samples:
    """Return by how much BRPS-RL 0.99 has less regret than Thompson sampling in safe lakes after some episodes."""
    return gaps(data, [(p, "TS-RL", "BRPS-RL 0.99") for p in (0.6, 0.8)], episodes)


_pays_early = Statement(
    "lake-high-level-pays-early",
    "In the short term a very high risk level pays even in a safe lake: BRPS-RL 0.99 begins with less regret "
    "than TS-RL at p_h = 0.6 and 0.8",
    RESULT.format(3),
    partial(pays_early, SHORT),
)


@claim(
    "lake-0.99-gains-little",
    "At p_h = 0.1 the step from 0.9 to 0.99 gains little: something, but less than that from Thompson sampling to 0.9",
    RESULT.format(4),
    also=lambda data: [ratio_interval("the gain from 0.9 to 0.99 as a share of the regret at 0.9", *_last_step(data))],
)
def _gains_little(data: Data) -> Samples:
    gain, high = _last_step(data)
    first = regret(data, 0.1, "TS-RL") - high
    return {
        "p_h = 0.1: gain from TS-RL to BRPS-RL 0.9 less that from 0.9 to 0.99": first - gain,
        "p_h = 0.1: gain from BRPS-RL 0.9 to BRPS-RL 0.99": gain,
    }


def _last_step(data: Data) -> tuple[FloatArray, FloatArray]:
    """Return what 0.99 gains over 0.9 at p_h = 0.1 [R], and the regret of 0.9 [R]."""
    high = regret(data, 0.1, "BRPS-RL 0.9")
    return high - regret(data, 0.1, "BRPS-RL 0.99"), high


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
    "out of a hole, and where the game restarts. An episode is ten steps; regret is exact in the true model. On the "
    "left each hole has its own unknown chance, on the right all holes have the same one, as it is written: in truth "
    "p_h either way.",
    variables={"regret": BY_READING},
    coords=COORDS_BY_READING,
    plan=_plan,
    claims=(_beats, _pays_early, _gains_little),
    figures=(FIGURE,),
    tables=tables_by_p_h(),
    readings=WORDS,
)
