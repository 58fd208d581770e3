"""Regret on Frozen Lake by risk level, for four chances to leave a hole."""

from __future__ import annotations

import itertools
import math

from ..claims import Data, Finding, Interval, Samples, Verdict, claim, mean_interval, ratio_interval, side, verdict
from ..runs.simulation import SimulationRun
from ..scale import Scale
from ..study import Coordinates, Study
from ._lake import BY_READING, COORDS_BY_READING, WORDS, figure_by_p_h, gaps, lakes, regret, tables_by_p_h

SHORT = 20  # episodes: what "short term" means to us
POINTS = 80  # episodes that are recorded
LEVELS = (0.5, 0.8, 0.9, 0.99)
PRINTED = {0.1: 0.99, 0.2: 0.9, 0.6: 0.8, 0.8: 0.8}  # the best level by p_h


def _plan(scale: Scale) -> dict[Coordinates, SimulationRun]:
    return lakes(scale.lake_replications, scale.few_lakes, scale.episodes, POINTS)


RESULT = "Frozen Lake study, result {}"


@claim("lake-brps-beats-ts", "BRPS-RL at 0.5, 0.8 and 0.9 has less regret than TS-RL for every p_h", RESULT.format(1))
def _beats(data: Data, readings: int) -> Samples:
    chances = data.p_h.values.tolist()
    return gaps(data, [(p, "TS-RL", f"BRPS-RL {level}") for p in chances for level in (0.5, 0.8, 0.9)])


@claim(
    "lake-high-level-pays-early",
    "In the short term a very high risk level pays even in a safe lake: BRPS-RL 0.99 begins with less regret "
    "than TS-RL at p_h = 0.6 and 0.8",
    RESULT.format(3),
)
def _pays_early(data: Data, readings: int) -> Samples:
    return gaps(data, [(p, "TS-RL", "BRPS-RL 0.99") for p in (0.6, 0.8)], SHORT)


@claim(
    "lake-0.99-gains-little",
    "At p_h = 0.1 the step from 0.9 to 0.99 gains little: less than that from Thompson sampling to 0.9 (that "
    "it gains at all is part of the claim about the best levels)",
    RESULT.format(4),
    test="paired Student t intervals, 99% for both gains: the second step gains less than the first, and the "
    "interval of its own gain does not lie below 0",
)
def _gains_little(data: Data, readings: int) -> Finding:
    thompson, high, higher = (regret(data, 0.1, agent) for agent in ("TS-RL", "BRPS-RL 0.9", "BRPS-RL 0.99"))
    first, then, count = thompson - high, high - higher, 2 * readings
    less = mean_interval("p_h = 0.1: gain from TS-RL to BRPS-RL 0.9 less that from 0.9 to 0.99", first - then, count)
    gain = mean_interval("p_h = 0.1: gain from BRPS-RL 0.9 to BRPS-RL 0.99", then, count)
    share = ratio_interval("that gain as a share of the regret at 0.9", then, high, count)
    slight = -1 if side(gain, 0.0, math.inf) < 0 else side(less, 0.0, math.inf)
    return Finding([less, gain, share], verdict(slight), decisive=0)


# -- which level is the best -------------------------------------------------------------------------------

SETS = (
    "sets of levels that no other beats, by paired Student t intervals, 99% for all of them together: each is a "
    "confidence set for the best level"
)


def _comparisons(data: Data, readings: int) -> int:
    """Return the number of pairs of levels that are compared, over all p_h and readings."""
    return readings * data.p_h.size * math.comb(len(LEVELS), 2)


def _may_be_best(data: Data, readings: int) -> dict[float, list[float]]:
    """Return the levels that may be the best at each p_h: no other one is better beyond doubt."""
    may = {}
    for p in sorted(data.p_h.values.tolist()):
        ends = {level: regret(data, p, f"BRPS-RL {level}") for level in LEVELS}
        worse = {
            a
            for a, b in itertools.permutations(LEVELS, 2)
            if side(mean_interval("", ends[a] - ends[b], _comparisons(data, readings)), 0.0, math.inf) > 0
        }
        may[p] = [level for level in LEVELS if level not in worse]
    return may


@claim(
    "lake-best-level",
    "The best of the levels 0.5, 0.8, 0.9, 0.99 is 0.99, 0.9, 0.8, 0.8 at p_h = 0.1, 0.2, 0.6, 0.8",
    RESULT.format(2),
    test=f"{SETS}; reproduced if at every p_h the printed level is in the set and some other is not, not reproduced "
    "if at some p_h it is not in the set",
)
def _best_level(data: Data, readings: int) -> Finding:
    """Judge the printed levels: each is an estimate, so it is to lie in a confidence set that leaves something out."""
    may = _may_be_best(data, readings)
    pairs = [(p, f"BRPS-RL {level}", f"BRPS-RL {PRINTED[p]}") for p in may for level in LEVELS if level != PRINTED[p]]
    count = _comparisons(data, readings)
    worse = [mean_interval(quantity, values, count) for quantity, values in gaps(data, pairs).items()]
    among = sum(PRINTED[p] in levels for p, levels in may.items())
    sets = "; ".join(f"{p}: {_listed(levels)}" for p, levels in may.items())
    words = f"levels that may be the best, at p_h = {sets}. The printed level is among them in so many"
    sharp = all(len(levels) < len(LEVELS) for levels in may.values())
    reached = Verdict.NOT_REPRODUCED if among < len(may) else Verdict.REPRODUCED if sharp else Verdict.INCONCLUSIVE
    return Finding([Interval(words, among), *worse], reached, decisive=0)


def _listed(levels: list[float]) -> str:
    return ", ".join(map(str, levels))


@claim(
    "lake-best-level-falls",
    "The best risk level falls as p_h rises",
    RESULT.format(2),
    test=f"{SETS}; reproduced if all of the set at the lowest p_h lies above all of that at the highest, not "
    "reproduced if no choice from the sets falls",
)
def _falls(data: Data, readings: int) -> Finding:
    """Judge whether the best level falls from the most dangerous lake to the safest, and rises nowhere for certain."""
    may = _may_be_best(data, readings)
    sets = list(may.values())
    evidence = [
        Interval(f"p_h = {p}: levels that may be the best ({_listed(levels)}), how many", len(levels))
        for p, levels in may.items()
    ]
    highest = [max(sets[0])]  # the highest levels that one can choose from the sets so that they never rise
    for levels in sets[1:]:
        highest.append(max((level for level in levels if level <= highest[-1]), default=-math.inf))
    if highest[-1] == -math.inf or min(sets[-1]) >= highest[0]:  # no choice, or none that falls
        return Finding(evidence, Verdict.NOT_REPRODUCED, decisive=len(sets) - 1)
    return Finding(evidence, Verdict.REPRODUCED if min(sets[0]) > max(sets[-1]) else Verdict.INCONCLUSIVE, decisive=0)


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
    claims=(_beats, _best_level, _falls, _pays_early, _gains_little),
    figures=(FIGURE,),
    tables=tables_by_p_h(),
    readings=WORDS,
)
