"""Conventional regret of BRPS-CMAB and Thompson sampling, as written and under other readings."""

from __future__ import annotations

from functools import partial

import numpy as np

from ..claims import Data, Statement, gap, until
from ..rules import Interval, Samples
from ..study import Study, Table, curve, curves
from ._bandit import COORDS, READINGS, REGRET, WORDS, every_agent

HORIZON = 200_000  # steps of the paper's bandits
EARLY = 50_000
OWN = "BRPS-CMAB 0.9"


def _beats(level: float, data: Data) -> Samples:
    last = data.regret.isel(time=-1)
    rival = f"BRPS-CMAB {level}"
    return {f"TS-CMAB minus {rival} at t = {int(last.time)}": gap(last, "TS-CMAB", rival)}


def _against_rivals(moment: int, sign: float, data: Data) -> Samples:
    """Return by how much BRPS-CMAB 0.9 has more regret (sign 1) or less (-1) than each of the others at a moment."""
    regret = data.regret.sel(time=min(moment, int(data.time[-1])), method="nearest")
    rivals = [agent for agent in data.agent.values.tolist() if agent != OWN]
    pairs = [(OWN, rival) if sign > 0 else (rival, OWN) for rival in rivals]
    return {f"{more} minus {less} at t = {int(regret.time)}": gap(regret, more, less) for more, less in pairs}


def _lowest_until(data: Data) -> Interval:
    """Return the last of the first recorded steps at which BRPS-CMAB 0.9 has the lowest mean regret; 0: never."""
    means = data.regret.mean("replication")
    lowest = (means.sel(agent=OWN) <= means.min("agent")).values
    steps = [0, *data.time.values.tolist()]
    last = steps[lowest.size if lowest.all() else int(np.argmin(lowest))]
    return Interval("BRPS-CMAB 0.9 has the lowest mean regret of all up to t =", last)


def _until(moment: int, data: Data) -> str:
    return until(moment, int(data.time[-1]), "steps")


SOURCE = "Bandit study, figure of conventional regret by risk level"
CLAIMS = (
    *(
        Statement(
            f"bandit-regret-{level}-beats-ts",
            f"BRPS-CMAB {level} has less conventional regret than TS-CMAB after {HORIZON:,} steps",
            SOURCE,
            partial(_beats, level),
            short=partial(_until, HORIZON),
        )
        for level in (0.5, 0.8)
    ),
    Statement(
        "bandit-regret-0.9-highest-late",
        f"BRPS-CMAB 0.9 has the highest conventional regret of all after {HORIZON:,} steps",
        SOURCE,
        partial(_against_rivals, HORIZON, 1.0),
        short=partial(_until, HORIZON),
    ),
    Statement(
        "bandit-regret-0.9-lowest-early",
        f"BRPS-CMAB 0.9 has the lowest conventional regret of all around {EARLY:,} steps",
        SOURCE,
        partial(_against_rivals, EARLY, -1.0),
        short=partial(_until, EARLY),
        also=lambda data: [_lowest_until(data)],
    ),
)

FIGURE = curves(
    "bandit-conventional",
    "Conventional cumulative regret by risk level",
    "At levels 0.5 and 0.8 BRPS-CMAB ends below Thompson sampling. At 0.9 it does best "
    "in the beginning, around step 50,000, and worst at the end, at step 200,000.",
    [curve("regret", reading[:1].upper() + reading[1:], reading=reading) for reading in READINGS],
    columns=3,
)

STUDY = Study(
    name="bandit-conventional",
    order=30,
    title="Bandit: conventional regret by risk level",
    setting="Regret against the arm that is truly best. Beside the paper as written stand two other readings: sampling "
    "four times as wide as the posterior, from the first step on or after three pulls of each arm.",
    variables={"regret": REGRET},
    coords=COORDS,
    plan=every_agent,  # the runs of bandit-br
    claims=CLAIMS,
    figures=(FIGURE,),
    tables=(Table("agents", "Conventional regret,", {"variable": "regret", "across": "reading", "head": ""}),),
    readings=WORDS,
)
