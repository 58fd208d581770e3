"""Conventional regret of BRPS-CMAB and Thompson sampling, with sampling as in the paper and wider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..intervals import INCONCLUSIVE, Claim, claim, differences
from ..run import Arrays, Run, stacked
from ..scale import Scale
from ..study import Quantity, Study, Table, curve, curves
from ._bandit import AGENTS, COORDS, LEVELS, REGRET, bandit, places

if TYPE_CHECKING:
    import xarray

WIDTHS = (1.0, 2.0, 3.0)  # of sampling, in standard deviations of the posterior
HORIZON = 200_000  # steps of the paper's bandits
EARLY = 50_000


def _plan(scale: Scale) -> tuple[Run, ...]:
    # at width 1 these are the runs of bandit-br
    return tuple(
        bandit(scale, alpha, width, LEVELS if width == 1.0 else ()) for width in WIDTHS for alpha in AGENTS.values()
    )


def _assemble(scale: Scale, results: list[Arrays]) -> tuple[dict[str, Any], dict[str, Any]]:
    regret = stacked(results, "regret")
    return (
        {"regret": regret.reshape(len(WIDTHS), len(AGENTS), *regret.shape[1:])},
        {"nu": list(WIDTHS), "agent": list(AGENTS), **places(scale)},
    )


def _claims(data: xarray.Dataset) -> list[Claim]:
    claims = []
    horizon = int(data.time.values[-1])
    for nu in data.nu.values.tolist():
        regret = data.regret.sel(nu=nu)
        last = {agent: regret.sel(agent=agent).isel(time=-1).values for agent in regret.agent.values.tolist()}
        early = regret.sel(time=min(EARLY, horizon), method="nearest")
        source = "Bandit study, figure of conventional regret by risk level"
        where, tag = "", ""
        if nu != 1.0:
            source += f"; here with sampling {nu:g} times as wide, which is not in the paper"
            where, tag = f" (sampling sd times {nu:g})", f"-nu{nu:g}"
        rivals = [agent for agent in last if agent != "BRPS-CMAB 0.9"]
        found = {
            f"bandit-regret-{level}-beats-ts": (
                f"BRPS-CMAB {level} has less conventional regret than TS-CMAB",
                [(f"TS-CMAB minus BRPS-CMAB {level} at t = {horizon}", last["TS-CMAB"] - last[f"BRPS-CMAB {level}"])],
            )
            for level in (0.5, 0.8)
        } | {
            "bandit-regret-0.9-highest-late": (
                f"BRPS-CMAB 0.9 has the highest conventional regret of all after {HORIZON:,} steps",
                [(f"BRPS-CMAB 0.9 minus {a} at t = {horizon}", last["BRPS-CMAB 0.9"] - last[a]) for a in rivals],
            ),
            "bandit-regret-0.9-lowest-early": (
                f"BRPS-CMAB 0.9 has the lowest conventional regret of all around {EARLY:,} steps",
                [
                    (
                        f"{a} minus BRPS-CMAB 0.9 at t = {int(early.time)}",
                        early.sel(agent=a).values - early.sel(agent="BRPS-CMAB 0.9").values,
                    )
                    for a in rivals
                ],
            ),
        }
        for name, (statement, pairs) in found.items():
            verdict = "" if horizon >= HORIZON else INCONCLUSIVE
            claims.append(claim(name + tag, statement + where, source, differences(pairs), verdict=verdict))
    return claims


FIGURE = curves(
    "bandit-conventional",
    "Conventional cumulative regret by risk level",
    "At levels 0.5 and 0.8 BRPS-CMAB ends below Thompson sampling. At 0.9 it does best "
    "in the beginning, around step 50,000, and worst at the end, at step 200,000.",
    [curve("regret", f"Sampling sd × {nu:g}" + (" (the paper’s)" if nu == 1 else ""), nu=nu) for nu in WIDTHS],
    columns=3,
)

STUDY = Study(
    name="bandit-conventional",
    order=30,
    title="Bandit: conventional regret by risk level",
    setting="Regret against the arm that is truly best. Sampling with the posterior’s own sd is the paper’s setting; "
    "the other panels widen it, to see whether the order of the algorithms depends on it.",
    variables={"regret": REGRET._replace(dims=("nu", *REGRET.dims))},
    coords={**COORDS, "nu": Quantity("sd of sampling", "standard deviations of the posterior")},
    plan=_plan,
    assemble=_assemble,
    claims=_claims,
    figures=(FIGURE,),
    tables=(
        Table("agents", "Conventional regret by sampling sd,", {"variable": "regret", "across": "nu", "head": "sd ×"}),
    ),
)
