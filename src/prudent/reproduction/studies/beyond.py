"""Beyond the paper: BR-regret on Frozen Lake by the exact operator, and the optimistic algorithm of the theory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..claims import BEYOND, Data, claim, gap
from ..rules import Samples
from ..runs.base import Arrays
from ..runs.simulation import Component, SimulationRun
from ..scale import Scale
from ..study import Coordinates, Parts, Quantity, Study, Table, curve, curves, stacked
from ._lake import AGENTS, COORDS, REGRET, brps, lake

POINTS = 12  # episodes that are recorded
METRIC = 0.9  # level at which BR-regret is measured
OWN, OPTIMIST = f"BRPS-RL {METRIC}", "optimistic VI 0.9"
WIDE: dict[str, Any] = {"columns": 1, "size": [5.6, 3.4]}


def _plan(scale: Scale) -> dict[Coordinates, SimulationRun]:
    def run(agent: Component, alphas: tuple[float, ...]) -> SimulationRun:
        sizes = (scale.beyond_episodes, POINTS)
        return SimulationRun(scale.beyond_replications, lake(0.1), agent, *sizes, geometric=True, alphas=alphas)

    # the optimist changes its policy within an episode, so a BR-regret of the episode's policy would not be its own
    plan: dict[Coordinates, SimulationRun] = {(agent,): run(brps(alpha), (METRIC,)) for agent, alpha in AGENTS.items()}
    return plan | {(OPTIMIST,): run(Component.of("prudent.agents:optimistic_vi", alpha=0.9), ())}


def _assemble(scale: Scale, results: Mapping[Coordinates, Arrays]) -> Parts:
    values, coords = stacked(("agent",), _plan(scale), results, ("regret", "br_regret"))
    del coords["level"]
    return {**values, "br_regret": values["br_regret"][..., 0, :]}, coords


@claim("beyond-br-regret-lake", f"On Frozen Lake too, {OWN} has less BR-regret at {METRIC:g} than TS-RL", BEYOND)
def _less_br_regret(data: Data) -> Samples:
    quantity = f"BR-regret of an episode, mean over the grid: TS-RL minus {OWN}"
    return {quantity: gap(data.br_regret.mean("episode"), "TS-RL", OWN)}


@claim(
    "beyond-optimism-costs",
    "The optimistic algorithm of the appendix, with its regret bound, has more regret than BRPS-RL and TS-RL",
    BEYOND,
)
def _optimism_costs(data: Data) -> Samples:
    last = data.regret.isel(episode=-1)
    return {f"{OPTIMIST} minus {agent}": gap(last, OPTIMIST, agent) for agent in ("TS-RL", OWN)}


STUDY = Study(
    name="beyond",
    order=90,
    title="Beyond the paper: BR-regret on Frozen Lake, and optimism",
    setting="BR-regret of agents on Frozen Lake, which takes the exact Bayesian-risk operator, and the optimistic "
    "value iteration of the paper’s theory beside posterior sampling.",
    variables={"regret": REGRET, "br_regret": Quantity("BR-regret in the episode", "reward", REGRET.dims)},
    coords=COORDS,
    plan=_plan,
    assemble=_assemble,
    claims=(_less_br_regret, _optimism_costs),
    figures=(
        curves(
            "beyond-br-regret",
            f"BR-regret on Frozen Lake at level {METRIC:g}",
            "Nothing about this figure: the paper measures BR-regret in bandits only.",
            [curve("br_regret", f"BR-regret of single episodes at level {METRIC:g}")],
            **WIDE,
        ),
        curves(
            "beyond-optimism",
            "Optimism and posterior sampling",
            "Optimistic value iteration has a regret bound; the paper does not run it.",
            [curve("regret", "Conventional regret", log=True)],
            **WIDE,
        ),
    ),
    tables=(
        Table(
            "agents",
            "BR-regret of an episode, mean over the recorded episodes",
            {"variable": "br_regret", "head": "BR-regret", "over": "mean"},
        ),
        Table("agents", "Conventional regret", {"variable": "regret", "head": "regret"}),
    ),
)
