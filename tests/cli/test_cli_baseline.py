"""Baselines and excluded actions on the command line."""

from __future__ import annotations

import json

import pandas
import pytest

from prudent.cli.main import main

ROWS = "ill,wait,ill,0,60 ill,wait,dead,0,20 ill,wait,well,1,30 ill,drug,well,1,3 ill,drug,dead,0,1"
TERMINAL = ("--terminal", "well,dead", "--draws", "30", "--start", "ill")


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text("state,action,next_state,reward,count\n" + ROWS.replace(" ", "\n") + "\n")

    def run(command, *arguments):
        code = main([command, "log.csv", *arguments])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return code, printed.out, printed.err

    return run


def test_today_is_on_the_screen_and_in_the_files(call, tmp_path):
    code, out, _ = call("solve", *TERMINAL, "--alpha", "0")
    assert code == 0
    assert "against today" in out
    assert "What matters most" in out
    record = json.loads((tmp_path / "policy" / "policy.json").read_text())
    assert record["today"]["changes"][0]["action"] == "drug"
    assert record["levels"][0]["probability_better"] > 0.5
    assert pandas.read_csv(tmp_path / "policy" / "policy.csv")["today"].dropna().tolist() == ["wait 96%, drug 4%"]
    assert "wait 96%, drug 4%" in out
    assert "Compared with today" in (tmp_path / "policy" / "report.html").read_text()
    code, out, _ = call("solve", *TERMINAL, "--alpha", "0", "--baseline", "none")
    assert code == 0
    assert "today" not in out


def test_policies_stay_close(call, tmp_path):
    code, out, _ = call("solve", *TERMINAL, "--alpha", "0", "--baseline-min-count", "10")
    assert code == 0
    assert "wait (9" in out
    (row,) = pandas.read_csv(tmp_path / "policy" / "policy.csv").dropna(subset="action").to_dict("records")
    assert row["action"] == "wait"
    assert row["probability"] == pytest.approx(row["today_share"], abs=1e-12)
    code, out, _ = call("explain", "ill", *TERMINAL[:2], "--alpha", "0", "--baseline-epsilon", "0.05")
    assert code == 0
    assert "baseline" in out


def test_a_baseline_comes_from_a_file(call, tmp_path):
    (tmp_path / "today.csv").write_text("state,action,probability\nill,wait,0.5\nill,drug,0.5\n")
    code, _, _ = call("solve", *TERMINAL, "--alpha", "0", "--baseline", "today.csv")
    record = json.loads((tmp_path / "policy" / "policy.json").read_text())
    assert code == 0
    assert record["today"]["policy"][0]["probabilities"] == {"drug": 0.5, "wait": 0.5}
    (tmp_path / "today.csv").write_text("state,action\nill,wait\nill,wait\n")
    code, _, error = call("solve", *TERMINAL, "--baseline", "today.csv")
    assert code == 2
    assert "--baseline" in error
    (tmp_path / "today.csv").write_text("state,action\nill,prayer\n")
    code, _, error = call("solve", *TERMINAL, "--baseline", "today.csv")
    assert code == 2
    assert "prayer" in error
    code, _, error = call("solve", *TERMINAL, "--baseline", "nowhere.csv")
    assert code == 2
    assert "nowhere.csv" in error
    code, _, error = call("solve", *TERMINAL, "--baseline", "none", "--baseline-min-count", "3")
    assert code == 2
    assert "baseline" in error


def test_what_is_excluded_is_not_advised(call):
    code, out, _ = call("next-data", *TERMINAL[:2], "--json")
    assert json.loads(out)["ranking"][0]["action"] == "drug"
    for option in ("--exclude", "--exclude-data"):
        code, out, _ = call("next-data", *TERMINAL[:2], "--json", option, "ill=drug")
        assert code == 0
        assert all(row["action"] != "drug" for row in json.loads(out)["ranking"])
    code, out, _ = call("explain", "ill", *TERMINAL[:2], "--alpha", "0", "--exclude", "ill=drug")
    assert code == 0
    assert "takes 'wait'" in out
    assert "drug" not in out
    for wrong in ("ill", "ill=prayer", "sick=drug", "ill=drug,ill=wait"):
        code, _, error = call("solve", *TERMINAL, "--exclude", wrong)
        assert code == 2
        assert "exclude" in error


def test_a_site_learns_from_others(call, tmp_path):
    rows = [f"{site},{row}" for site in ("1", "2") for row in ROWS.split()]
    (tmp_path / "log.csv").write_text("site,state,action,next_state,reward,count\n" + "\n".join(rows) + "\n")
    code, out, _ = call("explain", "ill", *TERMINAL[:2], "--alpha", "0", "--group", "site=2")
    assert code == 0
    assert "110 observations" in out
    for wrong in ("site", "site=3", "=2", "ward=2"):
        code, _, error = call("explain", "ill", *TERMINAL[:2], "--group", wrong)
        assert code == 2
        assert "--group" in error or "ward" in error
    (tmp_path / "other.csv").write_text("state,action,next_state,reward,count\n" + ROWS.replace(" ", "\n") + "\n")
    (tmp_path / "log.csv").write_text("state,action,next_state,reward,count\nill,wait,well,1,5\nill,drug,well,1,1\n")
    code, out, _ = call("explain", "ill", *TERMINAL[:2], "--alpha", "0", "--prior-from", "other.csv")
    assert code == 0
    assert "observation" in out
