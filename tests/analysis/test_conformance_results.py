"""What every result of analysis and evaluation can do: a new result joins these tests by a line in RESULTS."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import cache
from typing import Any

import matplotlib.figure
import numpy as np
import pandas
import pytest
import xarray

import prudent as pr
from prudent.analysis import log_study

LOG = [
    ("ill", "wait", "ill", 0, 60),
    ("ill", "wait", "dead", 0, 20),
    ("ill", "drug", "well", 1, 2),
    ("ill", "drug", "dead", 0, 1),
    ("ill", "wait", "well", 1, 30),
]


def clinic():
    return pr.from_log(LOG, 0.95, terminal=["well", "dead"])


def decisions(n=400):
    rng = np.random.default_rng(3)
    arm = rng.integers(0, 2, n)
    x = rng.random((n, 2))
    return {"context": x, "arm": arm, "reward": x[np.arange(n), arm], "propensity": np.full(n, 0.5)}


def simulated_returns():
    mdp = pr.MDP([[[0.9, 0.1]], [[0.0, 1.0]]], [[1.0], [0.0]], discount=0.9)
    return pr.returns(mdp, [0, 0], start=0, replications=100, rng=1)


def slates():
    chance = np.tile([0.8, 0.5, 0.2, 0.5], 100)
    log = {"slate": np.arange(400) // 2, "position": np.arange(400) % 2, "reward": np.tile([1.0, 0.0, 0.0, 1.0], 100)}
    return log | {"propensity": np.full(400, 0.5), "target": chance}


def episodes():
    rng = np.random.default_rng(5)
    drug = rng.integers(2, size=600)
    ill = ["ill"] * 600
    log = {"episode": np.arange(600) // 10, "state": ill, "action": drug, "next_state": ill}
    return log | {"reward": (rng.random(600) < 0.3 + 0.4 * drug).astype(float)}


def compared():
    """Return a comparison in which the drug turned out to be good."""
    solution = pr.BayesianRiskMDP(*clinic(), alpha=0.9).solve()
    saved = pr.analysis.SavedDecision(solution, {}, {}, "2026-01-01", "0")
    rows = [*LOG, ("ill", "drug", "well", 1, 200)]
    return pr.analysis.compare(saved, *pr.from_log(rows, 0.95, terminal=["well", "dead"]), draws=50, simulations=39)


RESULTS: dict[str, Callable[[], Any]] = {
    "Returns": simulated_returns,
    "ReturnDistribution": lambda: simulated_returns().distribution,
    "RiskProfile": lambda: pr.risk_profile(*clinic(), alphas=(0.0, 0.9), draws=50, rng=1),
    "ValueOfData": lambda: pr.value_of_data(*clinic(), alpha=0.5, observations=3, rng=1),
    "CheckReport": lambda: pr.check(episodes(), discount=0.9),
    "DecisionComparison": lambda: compared(),
    "EpisodeEstimates": lambda: pr.off_policy(episodes(), "uniform", discount=0.9),
    "LearnedPolicy": lambda: pr.learn_policy(decisions(), kinds=["arm", "split"]),
    "LogStudy": lambda: pr.analysis.study_log(*clinic(), (0.0, 0.9), draws=50),
    "OffPolicyEstimates": lambda: pr.off_policy(decisions(), {0: 0.25, 1: 0.75}),
    "Replay": lambda: pr.evaluation.replay(decisions(), pr.LinearBandit(2, 2)),
    "SlateEstimates": lambda: pr.evaluation.off_policy_slates(slates()),
    "Tuning": lambda: pr.evaluation.tune(decisions(), {"alpha": [0.0, 0.9]}, runs=4),
}
WITH_DATASET = sorted(set(RESULTS) - {"ReturnDistribution", "LogStudy", "CheckReport", "DecisionComparison"})
WITH_PLOT = sorted(set(RESULTS) - {"LogStudy", "DecisionComparison"})


@cache
def result(name):
    return RESULTS[name]()


def test_every_public_result_is_registered():
    """A class with ``to_pandas`` in the two rooms is a result."""
    rooms = (pr.analysis, pr.evaluation)
    classes = {name for room in rooms for name in room.__all__ if hasattr(getattr(room, name), "to_pandas")}
    assert classes == set(RESULTS)


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_repr_is_short_and_names_no_address(name):
    text = repr(result(name))
    assert text
    assert len(text) < 4_000
    assert text.count("\n") < 40
    assert " at 0x" not in text


@pytest.mark.parametrize("name", ["RiskProfile", "ValueOfData"])
def test_repr_builds_no_table(name, monkeypatch):
    thing = result(name)
    monkeypatch.setattr(type(thing), "to_pandas", None)
    assert repr(thing)


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_to_pandas_is_a_new_table_each_time(name):
    thing = result(name)
    table = thing.to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert len(table) or name == "CheckReport"  # which may have no finding
    assert len(set(table.columns)) == len(table.columns)
    before = table.copy()
    del table[table.columns[0]]
    pandas.testing.assert_frame_equal(thing.to_pandas(), before)


@pytest.mark.parametrize("name", WITH_DATASET)
def test_to_xarray_is_a_labelled_dataset(name):
    data = result(name).to_xarray()
    assert isinstance(data, xarray.Dataset)
    assert data.sizes
    assert data.data_vars


@pytest.mark.parametrize("name", WITH_PLOT)
def test_plot_returns_a_figure(name):
    figure = result(name).plot()
    assert isinstance(figure, matplotlib.figure.Figure)
    assert figure.axes


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_a_result_survives_pickling(name):
    thing = result(name)
    again = pickle.loads(pickle.dumps(thing))
    assert type(again) is type(thing)
    assert repr(again) == repr(thing)
    pandas.testing.assert_frame_equal(again.to_pandas(), thing.to_pandas())


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_a_result_has_documented_attributes(name):
    doc = type(result(name)).__doc__
    assert "Attributes\n" in doc or "Parameters\n" in doc


# -- a study -----------------------------------------------------------------------------------------------


@pytest.fixture
def solved(monkeypatch):
    """Return the list of risk levels that are solved from now on."""
    levels = []
    original = pr.BayesianRiskMDP.solve

    def solve(self, *args, **options):
        levels.append(self.alpha)
        return original(self, *args, **options)

    monkeypatch.setattr(pr.BayesianRiskMDP, "solve", solve)
    return levels


@pytest.mark.parametrize("alphas", [(0.0, 0.5, 0.9), (0.5, 0.9)])
def test_a_study_and_its_page_solve_each_level_once(alphas, solved, tmp_path):
    study = pr.analysis.study_log(*clinic(), alphas, draws=50)
    study.to_pandas()
    study.record()
    study.report(tmp_path / "page.html")
    assert sorted(solved) == sorted({0.0, *alphas})


def test_a_study_of_many_sources_does_not_solve_again(solved, monkeypatch):
    monkeypatch.setattr(log_study, "MANY_SOURCES", 1)
    pr.analysis.study_log(*clinic(), (0.5, 0.9), draws=50)
    assert sorted(solved) == [0.0, 0.5, 0.9]


def test_a_given_solution_gives_the_same_value_of_data():
    model, posterior = clinic()
    own = pr.value_of_data(model, posterior, 0.5, 3, rng=1)
    given = pr.value_of_data(
        model, posterior, 0.5, 3, rng=1, solution=pr.BayesianRiskMDP(model, posterior, 0.5).solve()
    )
    np.testing.assert_array_equal(own.gain, given.gain)
    np.testing.assert_array_equal(own.value_change, given.value_change)


def test_a_study_writes_its_page(tmp_path):
    study = result("LogStudy")
    path = study.report(tmp_path / "page.html", name="clinic.csv", settings={"seed": 1})
    page = path.read_text()
    assert page.startswith("<!DOCTYPE html>") or page.startswith("<!doctype html>")
    assert "clinic.csv" in page
    assert "drug" in page
    assert page.count("<svg") >= 4
