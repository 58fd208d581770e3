"""What may be said of an experiment at any time: confidence sequences of its parts, and what its rules recommend."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bandits.bandit import LinearBandit
from ..evaluation.confidence import ConfidenceSequence
from ..evaluation.confidence_differences import DifferenceSequence
from .experiment_specs import CHALLENGER, CHAMPION, HOLDOUT, ExperimentState, Guardrail

Rows = dict[str, list[dict[str, Any]]]


def statistics(
    state: ExperimentState, rows: Rows, metrics: dict[str, dict[str, float]], bandit: LinearBandit
) -> dict[str, Any]:
    """Return means of parts, differences, shadows and guardrails with intervals, and the recommended action.

    Parameters
    ----------
    state : ExperimentState
        The experiment.
    rows : dict of str to list of dict
        Decisions of its parts since its start.
    metrics : dict of str to dict of str to float
        Values of metrics by name and decision.
    bandit : LinearBandit
        The champion, whose floors bound importance weights.

    Returns
    -------
    dict
        Values that JSON can hold.
    """
    spec = state.spec
    bounds = spec.reward_range or ((0.0, 1.0) if bandit.reward_kind == "bernoulli" else None)
    how: dict[str, Any] = {"confidence": spec.confidence, "planned": spec.planned}
    how |= {"kind": "normal"} if bounds is None else {"kind": "bernstein", "value_range": bounds}
    values = {part: [row["reward"] for row in found if row["reward"] is not None] for part, found in rows.items()}
    found: dict[str, Any] = {
        "status": state.status,
        "confidence": spec.confidence,
        "asymptotic": bounds is None,
        "parts": {part: {"decisions": len(rows[part])} | _mean(values[part], how) for part in rows},
        "differences": {},
        "shadows": {name: _shadow(name, rows[CHAMPION], bandit, bounds, state) for name in spec.shadows},
        "guardrails": {},
        "recommended": None,
        "reason": "",
        "done": None,
    }
    for one, other in ((CHALLENGER, CHAMPION), (CHAMPION, HOLDOUT), (CHALLENGER, HOLDOUT)):
        if one in rows and other in rows:
            found["differences"][f"{one} - {other}"] = _difference(values[one], values[other], how)
    gain = found["differences"].get(f"{CHALLENGER} - {CHAMPION}")
    if gain is not None and spec.stop_below is not None and gain["high"] < spec.stop_below:
        found |= {"recommended": "stop", "reason": f"challenger - champion is below {spec.stop_below}: {_text(gain)}"}
    if gain is not None and spec.promote_above is not None and gain["low"] > spec.promote_above:
        text = f"challenger - champion is above {spec.promote_above}: {_text(gain)}"
        found |= {"recommended": "promote", "reason": text}
    for name, guardrail in spec.guardrails.items():
        seen = _guarded(guardrail, rows, metrics.get(name, {}), spec.confidence, spec.planned)
        found["guardrails"][name] = seen
        if seen["breached"]:
            found |= {"recommended": "pause", "reason": f"guardrail {name}: {seen['breached']}"}
    return found


def _mean(values: list[float], how: dict[str, Any]) -> dict[str, Any]:
    found = ConfidenceSequence(**how).update(values) if values else ConfidenceSequence(**how)
    low, high = found.interval()
    return {"rewards": len(values), "mean": _number(found.mean), "low": _number(low), "high": _number(high)}


def _difference(one: list[float], other: list[float], how: dict[str, Any]) -> dict[str, Any]:
    found = DifferenceSequence(**how).update(1, one).update(0, other)
    low, high = found.interval()
    return {"estimate": _number(found.difference), "low": low, "high": high}


def _shadow(
    name: str,
    rows: list[dict[str, Any]],
    bandit: LinearBandit,
    bounds: tuple[float, float] | None,
    state: ExperimentState,
) -> dict[str, Any]:
    """Return how much more a shadow would have earned than the champion, by importance weights."""
    arms = bandit.arms
    least = float(bandit.limits.ends(arms)[0].min()) if bandit.limits else bandit.settings.min_propensity
    if bounds is None or not least > 0.0:
        missing = "reward_range" if bounds is None else "min_propensity of every arm"
        return {"rewards": 0, "missing": missing, "estimate": None, "low": None, "high": None}
    found = ConfidenceSequence(
        "bernstein", value_range=bounds, largest_weight=1.0 / least, relative=True,
        confidence=state.spec.confidence, planned=state.spec.planned,
    )  # fmt: skip
    weights, values = [], []
    for row in rows:
        chances = row["note"]["experiment"].get("shadows", {}).get(name)
        if row["reward"] is not None and chances and row["propensity"] >= least:
            weights.append(min(chances.get(str(row["arm"]), 0.0) / row["propensity"], 1.0 / least))
            values.append(row["reward"])
    if values:
        found.update(np.array(values), np.array(weights))
    low, high = found.interval()
    return {"rewards": len(values), "missing": None, "estimate": _number(found.mean), "low": low, "high": high}


def _guarded(
    guardrail: Guardrail, rows: Rows, reports: dict[str, float], confidence: float, planned: int | None
) -> dict[str, Any]:
    """Return intervals of a metric, and why it is breached. A decision without a report has the lowest value."""
    how: dict[str, Any] = {"kind": "bernstein", "value_range": guardrail.range, "confidence": confidence}
    how["planned"] = planned
    values = {}
    for part, found in rows.items():
        mark = "" if part == CHAMPION else f"{part}~"
        values[part] = [reports.get(f"{mark}{row['id']}", guardrail.range[0]) for row in found]
    parts = {part: _mean(one, how) for part, one in values.items()}
    breached = ""
    if guardrail.at_most is not None:
        for part, one in parts.items():
            if one["low"] is not None and one["low"] > guardrail.at_most:
                breached = f"mean of the {part} is above {guardrail.at_most}: {_text(one)}"
    difference = None
    if CHALLENGER in values:
        difference = _difference(values[CHALLENGER], values[CHAMPION], how)
        if guardrail.worse_by is not None and difference["low"] > guardrail.worse_by:
            breached = f"challenger - champion is above {guardrail.worse_by}: {_text(difference)}"
    return {"parts": parts, "challenger - champion": difference, "breached": breached}


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _text(found: dict[str, Any]) -> str:
    return f"{found['low']:.4g} to {found['high']:.4g}"
