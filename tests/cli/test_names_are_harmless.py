"""Names from a log cannot run in a spreadsheet or steer a terminal; files that are bombs end in one line."""

from __future__ import annotations

import base64
import re

import pandas as pd
import pytest
from refusals import refused

import prudent as pr
from prudent import from_log
from prudent._support.output import plain_cell, write_table
from prudent.analysis import study_log
from prudent.cli.main import main
from prudent.display.words import visible
from prudent.errors import DataError, ParameterError, PrudentError
from prudent.reproduction.sweep_spec import read_spec
from prudent.service.server import read_config


def test_formulas_in_tables_are_texts(tmp_path):
    names = ["=cmd|' /C calc'!A0", "+1+2", "-2+3", "@SUM(A1)", "\tx", "\rx", "plain", "-1.5", "a=b"]
    write_table(tmp_path / "table.csv", pd.DataFrame({"=state": names, "value": range(len(names))}))
    read = pd.read_csv(tmp_path / "table.csv", dtype=str)
    assert read.columns[0] == "'=state"
    assert all(cell.startswith("'") for cell in read["'=state"][:6])
    assert read["'=state"][6:].tolist() == ["plain", "-1.5", "a=b"]


@pytest.mark.parametrize("before", ["", " ", "\n", "\x00", "\ufeff", "\u200b", "\u00a0"])
@pytest.mark.parametrize("name", ["=1+2", "\uff1d1+2", "\uff0bA1", "\uff20SUM(A1)"])
def test_formulas_behind_what_is_not_shown_are_texts(before, name):
    assert plain_cell(before + name).startswith("'")


def test_the_table_in_a_page_has_no_formulas(tmp_path):
    """The page offers policy.csv for download."""
    rows = [("=cmd|' /C calc'!A0", "+wait", "well", 1.0, 5), ("=cmd|' /C calc'!A0", "drug", "well", 0.5, 5)]
    study = study_log(*from_log(rows, 0.9, terminal=["well"]), (0.0,), draws=4)
    page = study.report(tmp_path / "page.html").read_text()
    tables = [base64.b64decode(part).decode() for part in re.findall(r"data:text/csv[^,]*;base64,([\w+/=]+)", page)]
    assert any("'=cmd" in table and "'+wait" in table for table in tables)
    assert not any(line.startswith(("=", "+")) for table in tables for line in re.split("[,\n]", table))


def test_control_characters_are_written_out():
    assert visible("a\x1b]0;x\x07b\x9b31m\u202e") == "a\\x1b]0;x\\x07b\\x9b31m\\u202e"
    assert visible("ü 漢 \n\t") == "ü 漢 \n\t"


def test_an_error_about_a_name_does_not_steer_the_terminal(tmp_path, capsys):
    (tmp_path / "log.csv").write_text("state,action,next_state,reward\n\x1b[31mred,a,\x1b[31mred,x\n")
    assert main(["solve", str(tmp_path / "log.csv"), "--discount", "0.9", "--out", str(tmp_path / "out")]) != 0
    said = capsys.readouterr()
    assert "\x1b[31mred" not in said.out + said.err


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a = " + "[" * 5000 + "]" * 5000, "wrong-format"),
        ("a = " + "9" * 5000, "wrong-format"),
        ("# " + "x" * 2**20, "too-large"),
    ],
)
def test_toml_bombs_end_in_one_line(tmp_path, text, code):
    (tmp_path / "plan.toml").write_text(text)
    with refused(DataError, code):
        read_spec(tmp_path / "plan.toml")


def test_a_grid_that_explodes_is_refused():
    values = list(range(100))
    agent = {"kind": "brps_rl", "alpha": values, "draws": values, "sweeps": values}
    with refused(ParameterError, "too-large", value=10**6):
        read_spec({"replications": 1, "environment": [{"kind": "frozen_lake", "p_h": 0.1}], "agent": [agent]})


# -- what is printed of names from files -------------------------------------------------------------------------------

RED, BELL, CSI, BACK = "\x1b[31mred", "\x1b]0;title\x07", "\x9b31mz", "\u202eevil"
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def log(rng):
    states = [RED, BELL, CSI, BACK]
    rows = [
        {"episode": e, "step": t, "state": states[(e + t) % 4], "action": [RED, BELL][(e * t) % 2], "reward": float(t)}
        for e in range(12)
        for t in range(6)
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    "words",
    [
        ("solve", "--out", "out"),
        ("check",),
        ("check", "--json"),
        ("explain", "--start", "nobody" + RED),
        ("next-data", "--json"),
        ("solve", "--discount", "2"),
    ],
    ids=" ".join,
)
def test_commands_print_no_escape_sequences(log, tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    file = f"log{RED}.csv"
    log.to_csv(file, index=False)
    main([words[0], file, *([] if "--discount" in words else ["--discount", "0.9"]), *words[1:]])
    said = capsys.readouterr()
    assert said.out + said.err
    assert STEERS.search(said.out + said.err) is None


def test_results_print_no_escape_sequences(log, rng, tmp_path):
    model, posterior = from_log(log, 0.9)
    solution = pr.BayesianRiskMDP(model, posterior, 0.5).solve()
    bandit = pr.LinearBandit([RED, BELL], features=["f" + RED, "g" + BELL], rng=1)
    bandit.update([[1.0, 2.0], [2.0, 1.0], [0.0, 1.0]], [RED, BELL, RED], [1.0, 2.0, 3.0])
    decisions = {
        "arm": [RED, BELL] * 100,
        "reward": rng.random(200),
        "propensity": [0.5] * 200,
        "f" + RED: rng.random(200),
    }
    runs = pr.simulate(pr.envs.river_swim(3), {RED: pr.brps_rl(0.0), BELL: pr.brps_rl(0.5)}, episodes=2, replications=2)
    features = pr.Features({"c" + RED: "category"}, cross=[])
    for shown in (
        solution,
        model,
        solution.simplify(2, draws=5),
        solution.explain(RED),
        pr.risk_profile(model, posterior, [0.0], draws=10),
        bandit,
        bandit.explain([1.0, 2.0]),
        bandit.check(),
        bandit.select([1.0, 2.0]),
        pr.learn_policy(decisions, features=["f" + RED], kinds=["arm", "split"]),
        pr.off_policy(decisions, {RED: 0.5, BELL: 0.5}),
        pr.simulation.regret_table(runs),
        features,
    ):
        for text in (str(shown), repr(shown)):
            assert STEERS.search(text) is None, text


@pytest.mark.parametrize(
    "call",
    [
        lambda: pr.MDP.from_umb(f"no{RED}"),
        lambda: from_log(f"no{BELL}.csv", 0.9),
        lambda: pr.LinearBandit([RED, RED], 2),
        lambda: read_config(f"no{CSI}"),
        lambda: read_spec({"replications": 2, "environment": [{"kind": BACK}], "agent": [{"kind": "ts_rl"}]}),
    ],
)
def test_errors_hold_no_escape_sequences(call):
    with pytest.raises(PrudentError) as caught:
        call()
    assert STEERS.search(str(caught.value)) is None


def test_the_table_in_the_page_of_a_solution_has_no_formulas(tmp_path):
    solution = pr.solve(pr.MDP([[[1.0]]], [[0.0]], 0.9, states=["=1+2"], actions=["+wait"]))
    page = solution.report(tmp_path / "page.html").read_text()
    (table,) = [base64.b64decode(part).decode() for part in re.findall(r"data:text/csv[^,]*;base64,([\w+/=]+)", page)]
    assert "'=1+2" in table
    assert not any(cell.startswith(("=", "+")) for cell in re.split("[,\n]", table))


def test_labels_of_a_sweep_do_not_steer_the_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(
        'replications = 2\nepisodes = 2\n[[environment]]\nkind = "river_swim"\nlabel = "[red]\\u001b[31m"\n'
        '[[agent]]\nkind = "ts_rl"\nlabel = "A\\u001b]0;x\\u0007"\n'
    )
    assert main(["sweep", "s.toml"]) == 0
    said = capsys.readouterr()
    assert "[red]" in said.out
    assert STEERS.search(said.out + said.err) is None
