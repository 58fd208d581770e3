"""Off-policy estimates of SCOPE-RL, for the tests.

``pip install --no-deps scope-rl==0.2.1`` and ``python -m benchmarks.scope_rl tests/golden/scope_rl.json`` write a small
log of episodes and what SCOPE-RL makes of it. Its estimators need NumPy and scikit-learn alone; what its package
imports besides (torch, d3rlpy, gym) is replaced by empty modules.
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

NAMES = {
    "is": "TrajectoryWiseImportanceSampling",
    "wis": "SelfNormalizedTIS",
    "pdis": "PerDecisionImportanceSampling",
    "wpdis": "SelfNormalizedPDIS",
    "dr": "DoublyRobust",
    "wdr": "SelfNormalizedDR",
}


class _Empty(types.ModuleType):
    """A module in which every name is an empty class."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def _package() -> Any:
    """Return SCOPE-RL's module of estimators."""
    found = importlib.util.find_spec("scope_rl")
    assert found is not None, "pip install --no-deps scope-rl==0.2.1"
    assert found.submodule_search_locations
    root = Path(found.submodule_search_locations[0])
    for name in ("d3rlpy", "d3rlpy.preprocessing", "d3rlpy.dataset", "gym", "gym.spaces", "torch", "tqdm", "tqdm.auto"):
        sys.modules.setdefault(name, _Empty(name))
    for name, folder in (("", root), (".ope", root / "ope"), (".ope.discrete", root / "ope" / "discrete")):
        package = types.ModuleType(f"scope_rl{name}")
        package.__path__ = [str(folder)]
        sys.modules[f"scope_rl{name}"] = package
    return importlib.import_module("scope_rl.ope.discrete.basic_estimators")


def _policy(rng: np.random.Generator, states: int, actions: int) -> Any:
    """Return probabilities [S, A] with three digits."""
    chances = rng.dirichlet(np.full(actions, 4.0), states).round(3)
    chances[:, -1] = 1.0 - chances[:, :-1].sum(axis=1)
    return chances.round(3)


def main(file: Path) -> None:
    """Write the log and the estimates."""
    basic = _package()
    rng = np.random.default_rng(8)
    episodes, steps, states, actions, discount = 40, 5, 4, 3, 0.9
    behaviour, target = _policy(rng, states, actions), _policy(rng, states, actions)
    q = rng.normal(0.0, 0.2, (states, actions)).round(3)
    state = rng.integers(0, states, episodes * steps)
    action = (behaviour[state].cumsum(axis=1) < rng.random((state.size, 1))).sum(axis=1).clip(max=actions - 1)
    reward = rng.normal(0.05, 0.3, state.size).round(3)
    common = {
        "step_per_trajectory": steps,
        "action": action,
        "reward": reward,
        "pscore": behaviour[state, action],
        "evaluation_policy_action_dist": target[state],
        "gamma": discount,
    }
    found = {
        ours: float(getattr(basic, theirs)().estimate_policy_value(**common, state_action_value_prediction=q[state]))
        for ours, theirs in NAMES.items()
    }
    record = {
        "made by": "python -m benchmarks.scope_rl, SCOPE-RL 0.2.1",
        "discount": discount,
        "steps": steps,
        "state": state.tolist(),
        "action": action.tolist(),
        "reward": reward.tolist(),
        "behaviour": behaviour.tolist(),
        "target": target.tolist(),
        "q": q.tolist(),
        "found": found,
    }
    file.write_text(json.dumps(record) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
