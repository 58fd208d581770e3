"""prudent compare: what a new log changes, read by the options of the old one."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import prudent as pr
from prudent.cli.main import app, main


def log_of(rng, theta, names="s"):
    """Return 60 episodes of ten steps with a column of measurements."""
    rows = []
    for episode in range(60):
        s = 0
        for step in range(10):
            a = int(rng.integers(2))
            target = int(rng.choice(3, p=theta[s, a]))
            rows.append(
                (episode, step, 10 * s + rng.integers(10), f"{names}{s}", f"a{a}", f"{names}{target}", float(s))
            )
            s = target
    return pd.DataFrame(rows, columns=["episode", "step", "level", "state", "action", "next_state", "reward"])


@pytest.fixture
def logs(rng, tmp_path):
    theta = rng.dirichlet(np.full(3, 3.0), (3, 2))
    changed = theta.copy()
    changed[1, :] = np.eye(3)[theta[1].argmin(axis=1)]
    for name, law in (("old", theta), ("new", changed)):
        log_of(rng, law).to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def run(*words):
    result = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_new_log_is_read_like_the_old_one_and_compared(logs):
    out = logs / "policy"
    given = ("--discount", 0.9, "--truncated", "mean", "--alpha", "0.5", "--draws", 100)
    run("solve", logs / "old.csv", *given, "--columns", "state=state", "--out", out)
    text = run("compare", out, logs / "new.csv", "--draws", 100, "--out", logs / "tables")
    assert "Transitions have changed" in text
    assert "s1" in text
    pairs = pd.read_csv(logs / "tables" / "pairs.csv")
    assert pairs["new"].sum() == 600.0
    assert set(pd.read_csv(logs / "tables" / "returns.csv").columns) == {"policy", "mean", "low", "high"}
    same = run("compare", out, logs / "old.csv", "--draws", 100)
    assert "the very log" in same
    assert "does the same everywhere" in same


def test_the_state_map_of_the_old_log_is_used(logs):
    out = logs / "policy"
    given = ("--discount", 0.9, "--truncated", "mean", "--alpha", "0.5", "--draws", 100)
    run("solve", logs / "old.csv", *given, "--features", "level", "--states", "quantiles:3", "--out", out)
    saved = pr.load(out / "decision")
    assert saved.model.summary.state_map is not None
    text = run("compare", out, logs / "new.csv", "--draws", 100)
    assert "transitions then" in text
    names = {row["state"] for row in json.loads((out / "decision" / "policy.json").read_text())["policy"]}
    assert names == set(saved.model.states)


def test_decisions_of_python_do_not_say_how_a_log_is_read(logs, capsys):
    model, posterior = pr.from_log(pd.read_csv(logs / "old.csv"), 0.9, truncated="mean")
    pr.save(logs / "mine", pr.BayesianRiskMDP(model, posterior, alpha=0.5).solve())
    assert main(["compare", str(logs / "mine"), str(logs / "new.csv")]) == 2
    assert "analysis.compare" in capsys.readouterr().err
