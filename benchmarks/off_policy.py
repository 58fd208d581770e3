"""Off-policy estimates against the Open Bandit Pipeline (obp), number by number.

``python -m benchmarks.off_policy FILE`` writes a small log and what obp makes of it, for the tests; with ``slates``
behind the file, a log of slates.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np

from prudent.evaluation import off_policy

from ._timing import Row, absent, median_times

CLIP, SWITCH = 1.5, 1.2


def small_log(rows: int, arms: int, seed: int = 0) -> dict[str, Any]:
    """Return a log with table target and table predictions, as arrays."""
    rng = np.random.default_rng(seed)
    behaviour, target = rng.dirichlet(np.full(arms, 2.0), rows), rng.dirichlet(np.full(arms, 2.0), rows)
    arm = (behaviour.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1).clip(max=arms - 1)
    return {
        "arm": arm,
        "reward": rng.normal(1.0 + arm, 1.0),
        "propensity": behaviour[np.arange(rows), arm],
        "target": target,
        "predictions": rng.normal(1.0, 1.0, (rows, arms)) + np.arange(arms),
    }


def small_slates(slates: int, positions: int, arms: int, seed: int = 0) -> dict[str, Any]:
    """Return a log of slates with a row for each position, with predictions [N, K, A] and the target's chances."""
    rng = np.random.default_rng(seed)
    shape = (slates, positions, arms)
    logger, target = rng.dirichlet(np.full(arms, 2.0), shape[:2]), rng.dirichlet(np.full(arms, 2.0), shape[:2])
    arm = (logger.cumsum(axis=2) < rng.random((*shape[:2], 1))).sum(axis=2).clip(max=arms - 1)
    predictions = rng.normal(1.0, 1.0, shape)
    own = {"propensity": logger, "target": target, "prediction": predictions}
    rows: dict[str, Any] = {
        "slate": np.repeat(np.arange(slates), positions),
        "position": np.tile(np.arange(positions), slates),
        "reward": rng.normal(1.0 + arm, 1.0).reshape(-1),
    }
    rows |= {name: np.take_along_axis(table, arm[:, :, np.newaxis], axis=2).reshape(-1) for name, table in own.items()}
    rows["target_prediction"] = (target * predictions).sum(axis=2).reshape(-1)
    return {"rows": rows, "arm": arm, "target": target, "predictions": predictions}


def slates_of_obp(log: dict[str, Any], obp: Any) -> dict[str, float]:
    """Return obp's estimates of slates under our names."""
    rows, (_, size, arms) = log["rows"], log["target"].shape
    upto = {name: rows[name].reshape(-1, size).cumprod(axis=1) for name in ("propensity", "target")}
    same = {"slate_id": rows["slate"], "reward": rows["reward"], "position": rows["position"]}
    known = {"": [np.repeat(upto[name][:, -1], size) for name in upto], "_item_position": [rows[name] for name in upto]}
    known["_cascade"] = [upto[name].reshape(-1) for name in upto]
    found = {}
    for name, kind, ending in (
        ("sips", "StandardIPS", ""),
        ("iips", "IndependentIPS", "_item_position"),
        ("rips", "RewardInteractionIPS", "_cascade"),
    ):
        chances = dict(zip((f"pscore{ending}", f"evaluation_policy_pscore{ending}"), known[ending], strict=True))
        for first, start in (("", "Slate"), ("sn_", "SelfNormalizedSlate")):
            found[first + name] = float(
                getattr(obp, start + kind)(len_list=size).estimate_policy_value(**same, **chances)
            )
    found["cascade_dr"] = float(
        obp.SlateCascadeDoublyRobust(len_list=size, n_unique_action=arms).estimate_policy_value(
            **same,
            action=log["arm"].reshape(-1),
            pscore_cascade=known["_cascade"][0],
            evaluation_policy_pscore_cascade=known["_cascade"][1],
            q_hat=log["predictions"].reshape(-1),
            evaluation_policy_action_dist=log["target"].reshape(-1),
        )
    )
    return found


def estimators(module: str = "estimators") -> Any:
    """Return a module of obp's estimators; its package imports far more than they need, torch among it."""
    found = importlib.util.find_spec("obp")
    if found is None or not found.submodule_search_locations:
        return None
    torch = types.ModuleType("torch")
    torch.Tensor = torch.tensor = object  # type: ignore[attr-defined]  # only its annotations are read
    sys.modules.setdefault("torch", torch)
    root = Path(found.submodule_search_locations[0])
    for name, folder in (("obp", root), ("obp.ope", root / "ope")):
        package = types.ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package
    return importlib.import_module(f"obp.ope.{module}")


def of_obp(log: dict[str, Any], obp: Any) -> dict[str, float]:
    """Return obp's estimates under our names."""
    inputs = {
        "reward": log["reward"],
        "action": log["arm"],
        "pscore": log["propensity"],
        "action_dist": log["target"][:, :, np.newaxis],
        "position": np.zeros(len(log["arm"]), dtype=int),
    }
    predictions = {"estimated_rewards_by_reg_model": log["predictions"][:, :, np.newaxis]}
    asked = {
        "ips": obp.InverseProbabilityWeighting(),
        "snips": obp.SelfNormalizedInverseProbabilityWeighting(),
        "clipped_ips": obp.InverseProbabilityWeighting(lambda_=CLIP),
        "dm": obp.DirectMethod(),
        "dr": obp.DoublyRobust(),
        "sndr": obp.SelfNormalizedDoublyRobust(),
        "switch_dr": obp.SwitchDoublyRobust(lambda_=SWITCH),
    }
    return {name: float(one.estimate_policy_value(**inputs, **predictions)) for name, one in asked.items()}


def ours(log: dict[str, Any]) -> dict[str, float]:
    rows = {name: log[name] for name in ("arm", "reward", "propensity")}
    found = off_policy(rows, log["target"], reward_model=log["predictions"], clip=CLIP, switch=SWITCH)
    return {name: float(value) for name, value in found["estimate"].items()}


def run() -> list[Row]:
    obp = estimators()
    if obp is None:
        return [absent("off-policy estimates, against obp", "obp is not installed")]
    log = small_log(100_000, 10)
    theirs, mine = of_obp(log, obp), ours(log)
    gap = max(abs(mine[name] - theirs[name]) for name in theirs)
    times = median_times(lambda: ours(log), lambda: of_obp(log, obp), repeats=3)
    return [
        Row("7 estimates, largest difference to obp", gap, 1e-10, "<= 1e-10", gap <= 1e-10, unit="", fixed=True),
        Row(
            "  100,000 rows, with our intervals",
            *times,
            ">= 0.3",
            times[1] >= 0.3 * times[0],
            "obp without",
            why="every estimate has a standard error and an interval; obp's point estimates have none",
        ),
    ]


if __name__ == "__main__":
    if sys.argv[2:] == ["slates"]:
        shown = small_slates(12, 3, 4, seed=1)
        said = {
            "made by": "python -m benchmarks.off_policy FILE slates, with obp 0.5.5",
            "log": {name: values.tolist() for name, values in shown["rows"].items()},
            "obp": slates_of_obp(shown, estimators("estimators_slate")),
        }
        Path(sys.argv[1]).write_text(json.dumps(said, indent=1) + "\n")
        sys.exit(0)
    made_of = small_log(25, 3, seed=1)
    content = {
        "made by": "python -m benchmarks.off_policy, with obp 0.5.5",
        "clip": CLIP,
        "switch": SWITCH,
        **{name: value.tolist() for name, value in made_of.items()},
        "obp": of_obp(made_of, estimators()),
    }
    Path(sys.argv[1]).write_text(json.dumps(content, indent=1) + "\n")
