"""Four bandit algorithms: BRPS-CMAB and Thompson sampling, each plain and with the wide sampling of the bounds.

TS_nu and BRPS_nu sample with sd (3/4) sqrt(6 ln T) and (3/4) sqrt(6 ln 2T).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..intervals import Claim, claim, differences
from ..run import Arrays, Run, stacked
from ..scale import Scale
from ..study import Study, Table, curve, curves
from ._bandit import BR_REGRET, BR_TABLE, COORDS, LEVEL, LEVELS, REGRET, bandit, places

if TYPE_CHECKING:
    import xarray

METRIC = 0.8  # level of the agents, and of their BR-regret


def _four(scale: Scale) -> dict[str, Run]:
    narrow, wide = (0.75 * math.sqrt(6.0 * math.log(factor * scale.horizon)) for factor in (1.0, 2.0))
    return {
        "BRPS-CMAB 0.8": bandit(scale, METRIC),
        "BRPS-CMAB_nu 0.8": bandit(scale, METRIC, wide),
        "TS-CMAB": bandit(scale, 0.0),
        "TS-CMAB_nu": bandit(scale, 0.0, narrow),
    }


def _plan(scale: Scale) -> tuple[Run, ...]:
    return tuple(_four(scale).values())


def _assemble(scale: Scale, results: list[Arrays]) -> tuple[dict[str, Any], dict[str, Any]]:
    place = LEVELS.index(METRIC)  # the runs are shared with bandit-br, which wants all levels
    return (
        {
            "regret": stacked(results, "regret"),
            "br_regret": stacked(results, "br_regret")[:, :, place : place + 1],
        },
        {"agent": list(_four(scale)), "level": [METRIC], **places(scale)},
    )


def _claims(data: xarray.Dataset) -> list[Claim]:
    claims = []
    for measure, label, source in (
        ("br_regret", "BR-regret", "Bandit study, figure of BR-regret of four algorithms"),
        ("regret", "conventional regret", "Bandit study, figure of conventional regret of four algorithms"),
    ):
        last = data[measure].isel(time=-1)
        last = last.sel(level=METRIC) if "level" in last.dims else last
        pairs = [
            (f"{label} of {wide} minus that of {plain}", last.sel(agent=wide).values - last.sel(agent=plain).values)
            for wide in ("BRPS-CMAB_nu 0.8", "TS-CMAB_nu")
            for plain in ("BRPS-CMAB 0.8", "TS-CMAB")
        ]
        claims.append(
            claim(
                f"bandit-wide-sampling-costs-{measure.replace('_', '-')}",
                f"Both variants with inflated sampling have more {label} than BRPS-CMAB 0.8 and TS-CMAB",
                source,
                differences(pairs),
            )
        )
    return claims


FIGURE = curves(
    "bandit-four",
    "Four bandit algorithms, cumulative regret",
    "The ν variants explore far too much: both lose clearly to plain BRPS-CMAB and TS-CMAB, in "
    "BR-regret and in conventional regret alike. The paper drops them from there on.",
    [
        curve("br_regret", f"BR-regret at level {METRIC:g}", log=True, level=METRIC),
        curve("regret", "Conventional regret", log=True),
    ],
)

STUDY = Study(
    name="bandit-four",
    order=10,
    title="Bandit: four algorithms",
    setting="Ten arms, three features, linear rewards with unit noise. Plain BRPS-CMAB and Thompson sampling (TS-CMAB) "
    "beside their ν variants, which widen the sampling by the factor that the regret bounds ask for. Regret is on "
    "a logarithmic scale.",
    variables={"regret": REGRET, "br_regret": BR_REGRET},
    coords={**COORDS, "level": LEVEL},
    plan=_plan,
    assemble=_assemble,
    claims=_claims,
    figures=(FIGURE,),
    tables=(BR_TABLE, Table("agents", "Conventional regret", {"variable": "regret", "head": "regret"})),
)
