"""Does the model hold? Findings about logs whose truth is known."""

from __future__ import annotations

import json

import numpy as np
import pandas
import pytest
from refusals import refused

import prudent as pr
from benchmarks.check import World, _patients
from prudent.cli.main import main
from prudent.errors import DataError, ParameterError


def codes(findings):
    return {finding.code for finding in findings}


@pytest.fixture(scope="module")
def two_types():
    """300 patients of two hidden types: the drug that helps one harms the other."""
    return _patients(np.random.default_rng(1), "two types", 0.3)


@pytest.fixture
def markov(rng):
    return World.random(rng, 6, 2, ends=False).log(rng, 200, 10)


def test_hidden_types_of_patients_are_found(two_types):
    report = pr.check(two_types, 0.95, terminal=[0])
    assert "heterogeneity" in codes(report.serious)
    finding = next(each for each in report.findings if each.code == "heterogeneity")
    assert finding.value <= finding.threshold == finding.false_alarm == 0.01
    with refused(DataError, "serious-finding", findings=tuple(each.code for each in report.serious)):
        pr.check(two_types, 0.95, terminal=[0], strict=True)


def test_drift_is_found(rng):
    report = pr.check(_patients(rng, "drift", 0.3), 0.95, terminal=[0])
    assert "drift" in codes(report.findings)


def test_states_that_are_noise_are_a_serious_finding(rng):
    size = 800
    state, action = rng.integers(100, size=size + 1), rng.integers(3, size=size)
    table = {"episode": np.arange(size) // 10, "state": state[:-1], "action": action, "next_state": state[1:]}
    report = pr.check(table | {"reward": rng.normal(size=size)}, 0.9, alphas=[0.0])
    assert "promise" in codes(report.serious)


def test_a_markov_log_agrees_with_its_model(markov):
    report = pr.check(markov, 0.9)
    # P values below 1e-6 of eleven tests, or a promise off by three standard errors without a gain: below 1e-5
    assert min(test.p for test in report.tests) > 1e-6
    assert "promise" not in codes(report.serious)
    assert report.gain().value > -3.0 * report.gain().error


def test_the_episode_that_decides_is_named():
    rows = [(e, "ill", "wait", "well", 1.0) for e in range(12)] + [
        (12 + e, "ill", "drug", "well", 0.9) for e in range(11)
    ]
    rows.append((99, "ill", "drug", "well", 9.0))  # without it, waiting is better
    table = pandas.DataFrame(rows, columns=["episode", "state", "action", "next_state", "reward"])
    report = pr.check(table, 0.9, terminal=["well"], alphas=[0.0])
    finding = next(each for each in report.findings if each.code == "one-episode")
    assert "99" in finding.message
    assert finding.severity == "note"


def test_without_episodes_the_report_says_so(markov):
    report = pr.check(markov.drop(columns=["episode", "step"]), 0.9)
    assert "by-rows" in codes(report.findings)
    assert {test.past for test in report.tests} == {"half"}


def test_a_column_that_may_be_the_episodes_is_named(markov, tmp_path):
    path = tmp_path / "visits.csv"
    markov.rename(columns={"episode": "patient"}).drop(columns="step").to_csv(path, index=False)
    finding = next(each for each in pr.check(path, 0.9).findings if each.code == "by-rows")
    assert "'patient'" in finding.message
    assert pr.check(path, 0.9, columns={"episode": "patient"}).honest.by_rows is False


def test_the_record_has_the_promised_keys(two_types):
    record = pr.check(two_types, 0.95, terminal=[0]).to_dict()
    assert {tuple(each) for each in record["findings"]} == {("code", "severity", "value", "threshold", "message")}
    assert {tuple(each) for each in record["honest"]} == {("alpha", "design", "promised", "honest", "low", "high")}
    assert record["recommended"]["alpha"] in (0.0, 0.5, 0.9)
    json.dumps(record, allow_nan=False)


def test_profile_recommends_by_honest_values(markov):
    report = pr.check(markov, 0.9, alphas=(0.0, 0.9))
    model, posterior = pr.from_log(markov, 0.9)
    profile = pr.risk_profile(model, posterior, (0.0, 0.9), draws=50, rng=1, honest=report.honest)
    assert profile.recommended == report.recommended.alpha
    assert "by honest values" in repr(profile)
    other = pr.check(markov, 0.9, alphas=(0.3,)).honest
    with refused(ParameterError, "unknown-option", argument="honest"):
        pr.risk_profile(model, posterior, (0.0, 0.9), draws=50, rng=1, honest=other)


def test_commands_write_the_check_and_strict_refuses(two_types, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    two_types.to_csv("log.csv", index=False)
    options = ["log.csv", "--terminal", "0", "--discount", "0.95", "--alpha", "0,0.9"]
    assert main(["check", *options, "--out", "out"]) == 0
    assert "Serious, heterogeneity" in capsys.readouterr().out
    record = json.loads((tmp_path / "out" / "check.json").read_text())
    assert record["findings"][0]["severity"] == "serious"
    page = (tmp_path / "out" / "check.html").read_text()
    assert "Does the model" in page
    assert "Nothing hidden decided who got which action." in page
    assert main(["check", *options, "--out", "out", "--strict"]) == 2
    capsys.readouterr()
    assert main(["solve", *options, "--draws", "50", "--out", "solved"]) == 0
    assert "Check: serious, " in capsys.readouterr().out
    page = (tmp_path / "solved" / "report.html").read_text()
    assert "by data that it was not chosen from it earns" in page
    assert page.index("How sure this is") < page.index("What is assumed") < page.index("Details: ")
    assert page.index("The numbers of this page may be wrong") < page.index("Recommended is the policy")
    level = json.loads((tmp_path / "solved" / "check.json").read_text())["recommended"]["alpha"]
    assert json.loads((tmp_path / "solved" / "policy.json").read_text())["recommended"] == level
    assert main(["solve", *options, "--out", "strict", "--strict"]) == 2
    assert (tmp_path / "strict" / "check.json").exists()
    assert not (tmp_path / "strict" / "policy.csv").exists()
