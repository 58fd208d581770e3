"""Beyond the paper: BR-regret on Frozen Lake by the exact operator, and the optimistic algorithm of the theory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..intervals import BEYOND, Claim, claim, differences
from ..run import Arrays, stacked
from ..scale import Scale
from ..study import Quantity, Study, Table, curve, curves
from ._lake import AGENTS, COORDS, REGRET, LakeRun

if TYPE_CHECKING:
    import xarray

POINTS = 12  # episodes that are recorded
METRIC = 0.9  # level at which BR-regret is measured
OWN, OPTIMIST = f"BRPS-RL {METRIC}", "optimistic VI 0.9"
WIDE: dict[str, Any] = {"columns": 1, "size": [5.6, 3.4]}


def _plan(scale: Scale) -> tuple[LakeRun, ...]:
    def lake(alpha: float, levels: tuple[float, ...] = (METRIC,), optimistic: bool = False) -> LakeRun:
        return LakeRun(
            scale.beyond_replications,
            0.1,
            alpha,
            scale.beyond_episodes,
            POINTS,
            geometric=True,
            br_levels=levels,
            optimistic=optimistic,
        )

    # the optimist changes its policy within an episode, so a BR-regret of the episode's policy would not be its own
    return (*(lake(alpha) for alpha in AGENTS.values()), lake(0.9, (), optimistic=True))


def _assemble(scale: Scale, results: list[Arrays]) -> tuple[dict[str, Any], dict[str, Any]]:
    regret = stacked(results, "regret")
    br_regret = np.full_like(regret, np.nan)
    br_regret[:-1] = stacked(results[:-1], "br_regret")[..., 0]
    return (
        {"regret": regret, "br_regret": br_regret},
        {
            "agent": [*AGENTS, OPTIMIST],
            "replication": np.arange(scale.beyond_replications),
            "episode": _plan(scale)[0].grid,
        },
    )


def _claims(data: xarray.Dataset) -> list[Claim]:
    total = data.br_regret.mean("episode")
    last = data.regret.isel(episode=-1)
    return [
        claim(
            "beyond-br-regret-lake",
            f"On Frozen Lake too, {OWN} has less BR-regret at {METRIC:g} than TS-RL",
            BEYOND,
            differences(
                [
                    (
                        f"BR-regret of an episode, mean over the grid: TS-RL minus {OWN}",
                        total.sel(agent="TS-RL").values - total.sel(agent=OWN).values,
                    )
                ]
            ),
        ),
        claim(
            "beyond-optimism-costs",
            "The optimistic algorithm of the appendix, with its regret bound, has more regret than BRPS-RL and TS-RL",
            BEYOND,
            differences(
                [
                    (f"{OPTIMIST} minus {agent}", last.sel(agent=OPTIMIST).values - last.sel(agent=agent).values)
                    for agent in ("TS-RL", OWN)
                ]
            ),
        ),
    ]


STUDY = Study(
    name="beyond",
    order=90,
    title="Beyond the paper: BR-regret on Frozen Lake, and optimism",
    setting="BR-regret of agents on Frozen Lake, which takes the exact Bayesian-risk operator, and the optimistic "
    "value iteration of the paper’s theory beside posterior sampling.",
    variables={
        "regret": REGRET,
        "br_regret": Quantity("BR-regret in the episode", "reward", REGRET.dims),
    },
    coords=COORDS,
    plan=_plan,
    assemble=_assemble,
    claims=_claims,
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
