"""Names from a log cannot run in a spreadsheet or steer a terminal; files that are bombs end in one line."""

from __future__ import annotations

import base64
import re

import pandas as pd
import pytest
from refusals import refused

from prudent import from_log
from prudent._support.output import plain_cell, write_table
from prudent.analysis import study_log
from prudent.cli.main import main
from prudent.display.words import visible
from prudent.errors import DataError, ParameterError
from prudent.reproduction.sweep_spec import read_spec


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
