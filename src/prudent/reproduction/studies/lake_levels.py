"""The best risk level on Frozen Lake for four chances to leave a hole: replications are added until it is decided.

Levels next to each other differ by little, and the paper's 500 replications cannot always tell which is the best. So
the study looks at its data several times, with up to 36 times as many replications. After each look it goes on with the
lakes whose best level is open, as long as a claim is. The error rate is split evenly among the looks (``BestOptions``),
so that stopping as soon as it is decided is allowed for.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from ..choices import BestOptions
from ..claims import Data, Statement
from ..rules import Samples
from ..runs.simulation import SimulationRun
from ..scale import Scale
from ..study import Coordinates, Figure, Study
from ._lake import (
    AS_WRITTEN,
    BY_HOLE,
    BY_READING,
    COORDS_BY_READING,
    ESCAPES,
    FULL,
    TITLES,
    WORDS,
    brps,
    lake,
    tables_by_p_h,
)

LEVELS = (0.5, 0.8, 0.9, 0.99)
PRINTED = (0.99, 0.9, 0.8, 0.8)  # the best level by p_h
MULTIPLES = (1, 4, 12, 36)  # replications of the looks, in multiples of the first
AGENTS = {f"BRPS-RL {level}": level for level in LEVELS}
Cell = tuple[str, float]  # a reading and a p_h


def _sized(scale: Scale, sizes: Mapping[Cell, int]) -> dict[Coordinates, SimulationRun]:
    """Return the runs of all levels on the lakes, with so many replications of each."""
    return {
        (reading, p_h, agent): SimulationRun(count, lake(p_h, reading), brps(level), scale.episodes, 1)
        for (reading, p_h), count in sizes.items()
        for agent, level in AGENTS.items()
    }


def _plan(scale: Scale) -> dict[Coordinates, SimulationRun]:
    few = min(scale.few_lakes, scale.lake_replications)
    sizes = {(each, p): scale.lake_replications if each in FULL else few for each in WORDS for p in ESCAPES}
    return _sized(scale, sizes)


def _further(scale: Scale, data: Data) -> dict[Coordinates, SimulationRun] | None:
    """Return the runs of the next look; None if the claims are decided, or there are no more looks."""
    looks = [multiple * scale.lake_replications for multiple in MULTIPLES[: scale.lake_looks]]
    there = data.regret.isel(agent=0, episode=-1).notnull().sum("replication")
    sizes = {(str(r), float(p)): int(there.sel(reading=r, p_h=p)) for r in data.reading.values for p in data.p_h.values}
    wanted = dict(sizes)
    for statement in CLAIMS:
        for reading, (_, found, error) in zip(WORDS, statement.cases(data, WORDS).values(), strict=True):
            assert statement.rule is not None
            for group in statement.rule.undecided(found, error) if reading in FULL else ():
                cell = reading, NAMES[group]
                wanted[cell] = next((size for size in looks if size > sizes[cell]), sizes[cell])
    return None if wanted == sizes else _sized(scale, wanted)


# -- claims ------------------------------------------------------------------------------------------------

NAMES = {f"p_h = {p}": p for p in ESCAPES}


def _ends(data: Data) -> Samples:
    """Return the regret [R, levels] at the end, by p_h; replications differ."""
    last = data.regret.sel(agent=list(AGENTS)).isel(episode=-1).transpose("p_h", "replication", "agent")
    return {name: last.sel(p_h=p).dropna("replication").values for name, p in NAMES.items()}


def _is_printed(levels: tuple[float, ...]) -> bool:
    return levels == PRINTED


def _falls(levels: tuple[float, ...]) -> bool:
    """Return whether levels never rise, and fall from the first to the last."""
    return all(after <= before for before, after in itertools.pairwise(levels)) and levels[-1] < levels[0]


SOURCE = "Frozen Lake study, result 2"
CLAIMS = (
    Statement(
        "lake-best-level",
        "The best of the levels 0.5, 0.8, 0.9, 0.99 is 0.99, 0.9, 0.8, 0.8 at p_h = 0.1, 0.2, 0.6, 0.8",
        SOURCE,
        _ends,
        BestOptions(LEVELS, PRINTED, _is_printed, MULTIPLES),
    ),
    Statement(
        "lake-best-level-falls",
        "The best risk level falls as p_h rises",
        SOURCE,
        _ends,
        BestOptions(LEVELS, PRINTED, _falls, MULTIPLES),
    ),
)

FIGURE = Figure(
    "excess",
    "lake-levels",
    "What the other levels cost",
    "The best of the four levels is 0.99, 0.9, 0.8, 0.8 for p_h = 0.1, 0.2, 0.6, 0.8.",
    {
        "variable": "regret",
        "across": "p_h",
        "label": "regret beyond the best level’s",
        "panels": [{"title": TITLES[reading], "where": {"reading": reading}} for reading in (BY_HOLE, AS_WRITTEN)],
    },
)

STUDY = Study(
    name="lake-levels",
    order=45,
    title="Frozen Lake: the best risk level",
    setting="Regret of four risk levels after the same number of episodes as above: which of them is the best? "
    f"Replications are added, at up to {len(MULTIPLES)} looks, on the lakes where this is open.",
    variables={"regret": BY_READING},
    coords=COORDS_BY_READING,
    plan=_plan,
    further=_further,
    claims=CLAIMS,
    figures=(FIGURE,),
    tables=tables_by_p_h(),
    readings=WORDS,
)
