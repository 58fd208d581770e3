"""Why an item comes first: parts that add up, and a lead whose sd is that of one theta for both items."""

import re

import numpy as np
import pandas as pd
import pytest
from refusals import refused
from scipy.special import ndtr

from prudent.bandits import SharedLinearBandit
from prudent.errors import DataError, ParameterError

ROWS = np.array([[1.0, 0.5], [0.2, -1.0], [1.0, 0.4]])
NAMES = ["tea", "coffee", "juice"]


def learned(**options):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(60, 2))
    arms = rng.choice(["tea", "coffee"], 60).tolist()
    rewards = rows @ [1.0, -0.5] + 0.8 * (np.array(arms) == "tea") + rng.normal(size=60)
    return SharedLinearBandit(2, rng=1, **options).update(rows, arms, rewards)


@pytest.mark.parametrize("options", [{}, {"offsets": True}, {"intercept": False}, {"offsets": True, "draws": "joint"}])
def test_parts_add_up_and_the_lead_is_that_of_one_theta(options):
    bandit = learned(**options)
    why = bandit.name_features(["price", "age"]).explain(ROWS, arms=NAMES)
    mean, sd = bandit.predict(ROWS, NAMES)
    table = why.to_pandas()
    first, second = NAMES.index(why.arm), NAMES.index(why.rival.arm)
    assert table["contribution"].sum() == pytest.approx(mean[first], abs=1e-12)
    assert table["rival"].sum() == pytest.approx(mean[second], abs=1e-12)
    assert table["lead"].sum() == pytest.approx(mean[first] - mean[second], abs=1e-12)
    expected = ["intercept"] * bandit.intercept + ["price", "age"] + ["offset"] * options.get("offsets", False)
    assert list(table.index) == expected
    covariance = bandit.to_xarray()["covariance"].values
    if not options.get("offsets"):
        rows = np.column_stack([np.ones(3), ROWS]) if bandit.intercept else ROWS
        gap = rows[first] - rows[second]
        assert why.spread == pytest.approx(np.sqrt(gap @ covariance @ gap), rel=1e-9)
        assert why.spread < np.hypot(sd[first], sd[second])
    assert why.better == pytest.approx(ndtr((mean[first] - mean[second]) / why.spread))


def test_offsets_are_a_feature_of_their_own():
    """Against one regression with an indicator for each item."""
    rng = np.random.default_rng(2)
    rows, arms = rng.normal(size=(30, 2)), rng.choice(NAMES, 30).tolist()
    rewards = rng.normal(size=30)
    bandit = SharedLinearBandit(2, noise_sd=0.5, offsets=True, offset_precision=2.0).update(rows, arms, rewards)
    one = np.array([[float(arm == name) for name in NAMES] for arm in arms])
    whole = np.column_stack([np.ones(30), rows, one])
    covariance = 0.25 * np.linalg.inv(np.diag([1.0, 1.0, 1.0, 2.0, 2.0, 2.0]) + whole.T @ whole)
    mean = covariance @ whole.T @ rewards / 0.25
    why = bandit.explain(ROWS, "coffee", arms=NAMES)
    first, second = 1, NAMES.index(why.rival.arm)
    table = why.to_pandas()
    assert table.loc["offset", "coefficient"] == pytest.approx(mean[3 + first], rel=1e-10)
    assert table.loc["offset", "coefficient_sd"] == pytest.approx(np.sqrt(covariance[3 + first, 3 + first]), rel=1e-10)
    points = np.column_stack([np.ones(3), ROWS, np.eye(3)])
    gap = points[first] - points[second]
    assert why.spread == pytest.approx(np.sqrt(gap @ covariance @ gap), rel=1e-10)


def test_words():
    bandit = learned(offsets=True, alpha=0.5)
    frame = pd.DataFrame(ROWS, index=NAMES, columns=["price", "age"])
    bandit.name_features(["price", "age"])
    told = str(bandit.explain(frame))
    assert "known from 60 rewards of all items" in told
    assert "of its own" in told
    assert not re.search(r"-0(\.0*)?(?![\d.])", told)  # minus zero
    assert "price" in str(bandit.explain(frame, arm="coffee"))
    assert str(bandit.explain(frame, arm="juice")).startswith("'juice' would be chosen with the chance")
    assert "only eligible arm" in str(bandit.explain(ROWS[:1], arms=["tea"]))
    before = bandit.to_bytes()
    bandit.explain(frame)
    assert bandit.to_bytes() == before
    unknown = SharedLinearBandit(2).explain(ROWS)
    assert "Choices are uniform until two different rewards have been seen." in str(unknown)
    assert unknown.better == 0.5
    assert len(unknown.to_pandas()) == 3
    same = learned().explain(ROWS[[0, 0]])  # two items with the same features
    assert same.better == 0.5
    assert "(sd 0.000)" in str(same)


@pytest.mark.parametrize(
    ("call", "error", "code"),
    [
        (lambda b: b.explain(ROWS, "milk", arms=NAMES), ParameterError, "unknown-arm"),
        (lambda b: b.explain(ROWS[0], arms=NAMES), DataError, "wrong-shape"),
        (lambda b: b.name_features(["price"]), ParameterError, "wrong-shape"),
        (lambda b: b.name_features(["price", "offset"]), ParameterError, "duplicate-name"),
        (lambda b: b.explain(ROWS), ParameterError, "missing-argument"),
    ],
)
def test_bad_calls(call, error, code):
    with refused(error, code):
        call(learned(offsets=True))
