"""Four bandit algorithms: BRPS-CMAB and Thompson sampling, each plain and with the wide sampling of the bounds.

TS_nu and BRPS_nu sample with sd (3/4) sqrt(6 ln T) and (3/4) sqrt(6 ln 2T), times the width of the reading.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

from ..claims import Data, Statement, gap
from ..rules import Samples
from ..runs.base import Arrays
from ..runs.simulation import SimulationRun
from ..scale import Scale
from ..study import Coordinates, Parts, Study, Table, curve, curves, stacked
from ._bandit import AS_WRITTEN, BR_REGRET, BR_TABLE, COORDS_BY_LEVEL, DIMS, LEVELS, READINGS, REGRET, WORDS, bandit

METRIC = 0.8  # level of the agents, and of their BR-regret
SHOWN = tuple(READINGS)[:2]  # readings in the figure
MEASURES = {"br_regret": "BR-regret", "regret": "conventional regret"}


def _plan(scale: Scale) -> dict[Coordinates, SimulationRun]:
    narrow, wide = (0.75 * math.sqrt(6.0 * math.log(factor * scale.horizon)) for factor in (1.0, 2.0))
    agents = {"BRPS-CMAB 0.8": (METRIC, 1.0), "BRPS-CMAB_nu 0.8": (METRIC, wide)}
    agents |= {"TS-CMAB": (0.0, 1.0), "TS-CMAB_nu": (0.0, narrow)}
    return {
        (name, agent): bandit(scale, alpha, reading, sd)
        for name, reading in READINGS.items()
        for agent, (alpha, sd) in agents.items()
    }


def _assemble(scale: Scale, results: Mapping[Coordinates, Arrays]) -> Parts:
    values, coords = stacked(DIMS, _plan(scale), results, ("regret", "br_regret"))
    # the runs are shared with bandit-br, which needs all levels
    values["br_regret"] = values["br_regret"][..., [LEVELS.index(METRIC)], :]
    return values, {**coords, "level": [METRIC]}


def _costs(measure: str, label: str, data: Data) -> Samples:
    last = data[measure].isel(time=-1)
    last = last.sel(level=METRIC) if "level" in last.dims else last
    return {
        f"{label} of {wide} minus that of {plain}": gap(last, wide, plain)
        for wide in ("BRPS-CMAB_nu 0.8", "TS-CMAB_nu")
        for plain in ("BRPS-CMAB 0.8", "TS-CMAB")
    }


CLAIMS = tuple(
    Statement(
        f"bandit-wide-sampling-costs-{measure.replace('_', '-')}",
        f"Both variants with inflated sampling have more {label} than BRPS-CMAB 0.8 and TS-CMAB",
        f"Bandit study, figure of {label} of four algorithms",
        partial(_costs, measure, label),
    )
    for measure, label in MEASURES.items()
)

FIGURE = curves(
    "bandit-four",
    "Four bandit algorithms, cumulative regret",
    "The ν variants explore far too much: both lose clearly to plain BRPS-CMAB and TS-CMAB, in "
    "BR-regret and in conventional regret alike. The paper drops them from there on.",
    [
        curve("br_regret", f"BR-regret at level {METRIC:g}, {AS_WRITTEN}", log=True, level=METRIC, reading=AS_WRITTEN),
        *(curve("regret", f"Conventional regret, {reading}", log=True, reading=reading) for reading in SHOWN),
    ],
    columns=3,
)

STUDY = Study(
    name="bandit-four",
    order=10,
    title="Bandit: four algorithms",
    setting="Ten arms, three features, linear rewards with unit noise. Plain BRPS-CMAB and Thompson sampling (TS-CMAB) "
    "beside their ν variants, which widen the sampling by the factor that the regret bounds ask for. Regret is on "
    "a logarithmic scale.",
    variables={"regret": REGRET, "br_regret": BR_REGRET},
    coords=COORDS_BY_LEVEL,
    plan=_plan,
    assemble=_assemble,
    claims=CLAIMS,
    figures=(FIGURE,),
    tables=(BR_TABLE, Table("agents", "Conventional regret,", {"variable": "regret", "across": "reading", "head": ""})),
    readings=WORDS,
)
