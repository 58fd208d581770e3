"""The command line: what it prints and what it returns."""

from __future__ import annotations

import json
import sys

import pytest
from _tiny import TINY

from prudent import __version__
from prudent.cli.main import main
from prudent.reproduction import SCALES, STUDIES
from prudent.reproduction.store import Store


@pytest.fixture
def call(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setitem(SCALES, "quick", TINY)

    def run(*arguments):
        code = main([str(each) for each in arguments])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        # a fresh installation says once that it compiles
        notes = [line for line in printed.err.splitlines(keepends=True) if "compiling kernels" not in line]
        return code, printed.out, "".join(notes)

    return run


def test_version_and_help(call):
    assert call("--version") == (0, f"prudent {__version__}\n", "")
    code, text, _ = call("reproduce", "--help")
    assert code == 0
    for option in ("--scale", "--out", "--workers", "--seed", "--cluster", "--json"):
        assert option in text
    assert "prudent reproduce --scale paper --out results" in text
    code, text, _ = call("--help")
    assert code == 0
    assert all(command in text for command in ("reproduce", "list", "report", "compile"))


def test_list(call):
    code, text, _ = call("list")
    assert code == 0
    assert all(name in text for name in STUDIES)
    code, text, _ = call("list", "--json")
    assert [each["name"] for each in json.loads(text)] == list(STUDIES)
    assert all(each["title"] and each["paper_says"] and each["figures"] for each in json.loads(text))


def test_reproduce_and_report(call, tmp_path):
    out = tmp_path / "results"
    code, text, error = call("reproduce", "optimal-policy", "--out", out, "--workers", 1)
    assert (code, error) == (0, "")
    assert text.rstrip().endswith(f"Report: {out / 'report.html'}")
    assert "reproduced when p_h is" in " ".join(text.split())
    assert (out / "report.html").stat().st_size > 1000
    assert (out / "optimal-policy.nc").exists()
    assert json.loads((out / "claims.json").read_text())[0]["id"] == "optimal-policy-table"
    (out / "claims.json").unlink()
    (out / "report.html").unlink()
    code, text, _ = call("report", out)
    assert code == 0
    assert f"Report: {out / 'report.html'}" in text
    assert (out / "claims.json").exists()


def test_json(call, tmp_path):
    code, text, _ = call("reproduce", "optimal-policy", "--out", tmp_path, "--json", "--seed", 9)
    found = json.loads(text)
    assert code == 0
    assert found["datasets"] == {"optimal-policy": str(tmp_path / "optimal-policy.nc")}
    (claim,) = found["claims"]
    assert claim["id"] == "optimal-policy-table"
    assert claim["verdict"].startswith("reproduced when p_h is from ")
    assert found["report"] == str(tmp_path / "report.html")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "nope"], "EXPERIMENT has 'nope', expected some of bandit-four"),
        (["reproduce", "--scale", "huge"], "--scale must be one of 'quick', 'paper', got 'huge'"),
        (["reproduce", "--workers", "0"], "--workers must be at least 1, got 0"),
        (["reproduce", "--seed", "-3"], "--seed must be at least 0, got -3"),
        (["reproduce", "--workers", "many"], "Invalid value for '--workers'"),
        (["report", "nowhere"], "there are no results in nowhere"),
        (["bogus"], "No such command 'bogus'"),
        (["reproduce", "--bogus"], "No such option"),
    ],
)
def test_mistakes(call, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, _, error = call(*arguments)
    assert code == 2
    assert message in error
    assert not list(tmp_path.iterdir())


def test_a_missing_cluster_is_a_mistake(call, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    code, _, error = call("reproduce", "optimal-policy", "--out", tmp_path, "--cluster", "tcp://here:1")
    assert code == 2
    assert "needs dask.distributed" in error


def test_failures(call, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, error = call("reproduce", "optimal-policy", "--out", tmp_path / "file" / "out")
    assert code == 1
    assert error.startswith("prudent: cannot write to the folder")
    with Store(tmp_path / "busy", print):
        code, _, error = call("reproduce", "optimal-policy", "--out", tmp_path / "busy")
    assert code == 1
    assert "another run is writing to" in error
