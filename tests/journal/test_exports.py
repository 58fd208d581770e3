"""Exports say what they are, and bandits that are made from them read features, arms and settings back."""

from __future__ import annotations

import csv

import numpy as np
import pandas as pd
import pytest
from refusals import refused

from prudent.bandits import LinearBandit, SharedLinearBandit
from prudent.errors import DataError
from prudent.evaluation import off_policy
from prudent.journal import Journal

FORMATS = ("parquet", "csv", "jsonl")


def exported(tmp_path, bandit, arms=None):
    """Return a journal's bandit, its DataFrame and the files of its export."""
    rng = np.random.default_rng(1)
    with Journal(tmp_path / "j", bandit, synchronous="NORMAL") as live:
        for i in range(40):
            values = {"age": rng.normal(), "price": rng.normal()}
            context = values if arms is None else {name: {**values, "age": rng.normal()} for name in arms}
            decision = live.select(context)
            if i % 5:  # some have no reward
                live.reward(decision.id, float(rng.normal() + 2.0 * decision.context[0]))
        files = [tmp_path / f"log.{suffix}" for suffix in FORMATS]
        for file in files:
            live.export(file)
        return live.bandit, live.to_pandas(), files


@pytest.mark.parametrize("names", [["a", "b"], [3, 5], ["a", 7]], ids=str)
def test_a_bandit_from_its_own_export_knows_features_arms_and_settings(tmp_path, names):
    options = {"features": ["price", "age"], "alpha": 0.7, "min_propensity": 0.1, "noise_sd": 1.0}
    bandit, frame, files = exported(tmp_path, LinearBandit(names, rng=2, **options))
    point = {"age": 1.0, "price": -1.0}
    for log in (frame, *files):
        again = LinearBandit.from_log(log)
        assert again.features == ("price", "age")
        assert (again.arms, again.settings, again.pulls) == (bandit.arms, bandit.settings, bandit.pulls)
        np.testing.assert_allclose(again.predict(point), bandit.predict(point), rtol=1e-9)
        swapped = LinearBandit.from_log(log, features=["age", "price"])  # another order is put right by the names
        np.testing.assert_allclose(swapped.predict(point)[0], bandit.predict(point)[0], rtol=1e-6)
        assert LinearBandit.from_log(log, alpha=0.0).alpha == 0.0
        with refused(DataError, "different-features", argument="features"):
            LinearBandit.from_log(log, features=["age", "size"])


def test_items_from_their_own_export(tmp_path):
    bandit, frame, files = exported(tmp_path, SharedLinearBandit(features=["price", "age"], rng=2), arms=["x", "y"])
    point = [{"age": 1.0, "price": -1.0}]
    for log in (frame, *files):
        again = SharedLinearBandit.from_log(log)
        assert again.features == ("price", "age")
        np.testing.assert_allclose(again.predict(point), bandit.predict(point), rtol=1e-9)


def test_metadata_is_checked(tmp_path):
    _, frame, files = exported(tmp_path, LinearBandit(["a", "b"], features=["price", "age"], rng=2))
    frame.attrs["prudent"]["schema"] = 99
    with refused(DataError, "wrong-version", argument="log", value=99):
        LinearBandit.from_log(frame)
    (tmp_path / "log.csv.meta.json").write_text("{")
    with refused(DataError, "wrong-format", argument="log"):
        LinearBandit.from_log(files[1])
    plain = pd.DataFrame({"context": [[1.0], [2.0]], "arm": ["a", "b"], "reward": [1.0, 0.0]})
    assert LinearBandit.from_log(plain).features is None  # no metadata, no names


def test_a_bandit_that_learned_by_position_refuses_names(tmp_path):
    bandit = LinearBandit(["a", "b"], 2).update([1.0, 2.0], "a", 1.0)
    for call in (lambda: bandit.select({"x": 1.0, "y": 2.0}), lambda: bandit.update({"x": 1.0, "y": 2.0}, "a", 1.0)):
        with refused(DataError, "learned-by-position", argument="context"):
            call()
    assert bandit.features is None
    assert bandit.name_features(["x", "y"]).select({"y": 2.0, "x": 1.0}).context.tolist() == [1.0, 2.0]
    with Journal(tmp_path / "p", LinearBandit(["a", "b"], 2)) as live:
        live.reward(live.select([1.0, 2.0]).id, 1.0)
        with refused(DataError, "learned-by-position", argument="context"):
            live.select({"x": 1.0, "y": 2.0})
        live.name_features(["x", "y"])
        live.select({"y": 1.0, "x": 2.0})
        assert live.verify() == 2


@pytest.mark.filterwarnings("ignore::prudent.errors.OverlapWarning")
def test_arms_that_look_like_formulas_are_safe_in_csv_and_read_back(tmp_path):
    arms = ["=1+2", "plain", "@x", "-cmd|' /C calc'!A0", "-1.5"]
    with Journal(tmp_path / "j", LinearBandit(arms, dim=1, rng=1)) as live:
        for i in range(40):
            live.reward(live.select([1.0]).id, float(i % 3))
        live.export(tmp_path / "log.csv")
        bandit = live.bandit
    with open(tmp_path / "log.csv", newline="") as file:
        cells = {row["arm"] for row in csv.DictReader(file)}
    assert cells == {"'=1+2", "plain", "'@x", "'-cmd|' /C calc'!A0", "-1.5"}
    assert LinearBandit.from_log(tmp_path / "log.csv").pulls == bandit.pulls
    assert off_policy(tmp_path / "log.csv", bandit).table.estimate.between(0.0, 3.0).all()
