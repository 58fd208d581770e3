"""The pages of the reference on the command line and on files leave nothing out."""

import re
from pathlib import Path

import pytest
import typer.main

from prudent.cli.main import app, main

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
COMMANDS = typer.main.get_command(app).commands
SHARED = "Options that say how a log is read"


def section(page, title):
    """Return the text of a section of a page, without those after it."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page, flags=re.DOTALL | re.MULTILINE)
    assert found, f"the page has no section {title!r}"
    return found[1]


def rows_of(text):
    """Return the cells of each row of tables that begins with an option, by the option."""
    rows = (line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `--"))
    return {re.match(r"`(--[a-z-]+)", cells[0])[1]: cells for cells in rows}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_its_options_are_on_the_page(name):
    page = (REFERENCE / "command-line.md").read_text()
    assert f"[`prudent {name}`](#{name})" in page
    own = rows_of(section(page, name))
    told = (rows_of(section(page, SHARED)) if name in ("solve", "check", "explain", "next-data") else {}) | own
    options = {
        option: parameter
        for parameter in COMMANDS[name].params
        for option in parameter.opts
        if option.startswith("--") and option != "--help"
    }
    assert set(own) <= set(options)
    assert set(told) == set(options)
    for option, parameter in options.items():
        if isinstance(parameter.default, (str, int, float, Path)) and not isinstance(parameter.default, bool):
            assert str(parameter.default) == told[option][1].strip(" `"), option


def test_arguments_are_on_the_page():
    page = (REFERENCE / "command-line.md").read_text()
    for name, command in COMMANDS.items():
        for parameter in command.params:
            if not parameter.opts[0].startswith("-"):
                assert (parameter.metavar or parameter.name).upper() in section(page, name).upper(), parameter.name


def test_every_environment_variable_is_on_the_page():
    page = (REFERENCE / "files.md").read_text()
    source = "\n".join(file.read_text() for file in (ROOT / "src").rglob("*.py"))
    told = set(re.findall(r"^\| `([A-Z_]+)` \|", section(page, "Environment variables"), flags=re.MULTILINE))
    ours = set(re.findall(r"\bPRUDENT_[A-Z_]+", source))
    read = set(re.findall(r"""(?:environ(?:\.get)?[\[(]|getenv\()["']([A-Z_]+)""", source))
    assert ours | read <= told
    assert {name for name in told if name.startswith("PRUDENT_")} == ours


def test_every_column_of_logs_and_every_key_of_sweeps_is_on_the_page():
    from prudent.evaluation.logs import COLUMNS
    from prudent.reproduction.sweep_spec import KEYS, PATHS

    page = (REFERENCE / "files.md").read_text()
    for title, names in {
        "Logs of transitions": ("state", "action", "next_state", "reward", "count", "episode", "step"),
        "Logs of decisions": COLUMNS,
        "sweep.toml": (*KEYS, *PATHS["environment"], *PATHS["agent"]),
    }.items():
        text = section(page, title)
        for name in names:
            assert f"`{name}`" in text or f"`[[{name}]]`" in text, name


def test_what_solve_writes_is_on_the_page(tmp_path):
    import csv
    import json

    log = tmp_path / "log.csv"
    log.write_text("state,action,next_state,reward\nill,wait,dead,0\nill,drug,well,1\nill,wait,well,1\n")
    call = ["solve", str(log), "--terminal", "well,dead", "--draws", "20", "--out", str(tmp_path / "out")]
    assert main(call) == 0
    text = section((REFERENCE / "files.md").read_text(), "What `prudent solve` writes")
    for file in (tmp_path / "out").iterdir():
        assert f"`{file.name}" in text, file
    for file in (tmp_path / "out" / "figures").iterdir():
        assert f"`{file.stem}`" in text, file
    with (tmp_path / "out" / "policy.csv").open() as table:
        columns = next(csv.reader(table))
    for name in (*columns, *json.loads((tmp_path / "out" / "policy.json").read_text())):
        assert f"`{name}`" in text, name
