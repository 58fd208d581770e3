"""Off-policy estimates of slates: obp's numbers, enumerated expectations, and what is refused."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from refusals import refused

import prudent as pr
from prudent.errors import DataError
from prudent.evaluation import off_policy_slates

OBP = json.loads((Path(__file__).parents[1] / "golden" / "obp_slates.json").read_text())


def test_obp_agrees():
    """Numbers of obp 0.5.5, written by ``python -m benchmarks.off_policy tests/golden/obp_slates.json slates``."""
    found = off_policy_slates(OBP["log"])
    assert len(OBP["obp"]) == 7
    for name, value in OBP["obp"].items():
        assert found.loc[name, "estimate"] == pytest.approx(value, rel=1e-10)


def world(cascade):
    """Return chances of arms [K, A] by position of logger and target, and mean rewards of slates."""
    logger = np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3]])
    target = np.array([[0.1, 0.2, 0.7], [0.6, 0.2, 0.2]])

    def mean(slate, k):
        own = 0.2 + 0.3 * slate[k] - 0.1 * k
        return own + (0.4 * (slate[0] == 2) if cascade and k == 1 else 0.0)

    return logger, target, mean


def draw(rng, count, cascade):
    logger, target, mean = world(cascade)
    arms = np.stack([rng.choice(3, count, p=chances) for chances in logger], axis=1)
    rewards = np.array([[mean(slate, k) for k in range(2)] for slate in arms]) + rng.normal(size=arms.shape)
    rows = np.arange(2)
    return {
        "slate": np.repeat(np.arange(count), 2),
        "position": np.tile(rows, count),
        "reward": rewards.reshape(-1),
        "propensity": logger[rows, arms].reshape(-1),
        "target": target[rows, arms].reshape(-1),
    }


@pytest.mark.parametrize(
    ("cascade", "right"), [(False, {"sips", "iips", "rips", "cascade_dr"}), (True, {"sips", "rips", "cascade_dr"})]
)
def test_estimators_are_unbiased_where_they_say_so(rng, cascade, right):
    """20,000 slates against the enumerated value: six standard errors, 2e-9 each; the others are far off."""
    _, target, mean = world(cascade)
    truth = sum(
        target[0, a] * target[1, b] * (mean((a, b), 0) + mean((a, b), 1))
        for a, b in itertools.product(range(3), repeat=2)
    )
    found = off_policy_slates(draw(rng, 20_000, cascade), confidence=1.0 - 2e-9)
    for name in ("sips", "iips", "rips", "cascade_dr"):
        inside = found.loc[name, "low"] <= truth <= found.loc[name, "high"]
        assert inside == (name in right), name
        if name != "cascade_dr":
            width = found.loc[name, "high"] - found.loc[name, "low"]
            assert abs(found.loc[f"sn_{name}", "estimate"] - found.loc[name, "estimate"]) < width
    assert found.loc["rips", "ess"] <= found.loc["iips", "ess"] <= 20_000


def test_the_log_itself_and_slates_of_different_lengths(rng):
    log = draw(rng, 300, True)
    same = off_policy_slates(log | {"target": log["propensity"]})
    for name in ("sips", "iips", "rips", "sn_sips", "sn_iips", "sn_rips"):
        assert same.loc[name, "estimate"] == pytest.approx(same.value)
    keep = (log["position"] == 0) | (log["slate"] % 3 > 0)
    short = {name: column[keep] for name, column in log.items()}
    found = off_policy_slates(short | {"target": short["propensity"]})
    assert found.loc["sn_rips", "estimate"] == pytest.approx(short["reward"].sum() / 300)
    order = rng.permutation(len(short["slate"]))
    shuffled = off_policy_slates({name: column[order] for name, column in short.items()})
    plain = off_policy_slates(short)
    assert shuffled.loc["rips", "estimate"] == pytest.approx(plain.loc["rips", "estimate"], rel=1e-12)
    assert plain.plot().axes
    assert "slates of up to 2 positions" in repr(plain)


def test_what_is_refused(rng):
    log = draw(rng, 20, False)
    with refused(DataError, "missing-column", column="target"):
        off_policy_slates({name: column for name, column in log.items() if name != "target"})
    with refused(DataError, "value-range", column="propensity", row=3):
        off_policy_slates(log | {"propensity": np.where(np.arange(40) == 3, 0.0, log["propensity"])})
    with refused(DataError, "value-range", column="position", row=1):
        off_policy_slates(log | {"position": np.zeros(40)})
    with refused(DataError, "value-range", column="reward", row=0):
        off_policy_slates(log | {"reward": np.where(np.arange(40) == 0, np.nan, log["reward"])})
    with refused(DataError, "underflow", argument="reward"):
        off_policy_slates(log | {"reward": 1e-200 * np.asarray(log["reward"])})
    with refused(DataError, "missing-column", column="target_prediction"):
        off_policy_slates(log | {"prediction": log["reward"]})
    assert pr.evaluation.SlateEstimates is type(off_policy_slates(log))
