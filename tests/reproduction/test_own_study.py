"""A study from outside the package: chunks, resume, judge and report, by `prudent reproduce module:STUDY`."""

from __future__ import annotations

import json

import pytest
from refusals import refused

from prudent.cli.main import main
from prudent.errors import ParameterError
from prudent.reproduction import STUDIES, run
from prudent.reproduction.studies import OWN

TEXT = """
import numpy as np
from prudent.reproduction.claims import claim
from prudent.reproduction.runs.simulation import Component, SimulationRun
from prudent.reproduction.study import Quantity, Study, curve, curves, quantities

LAKE = Component.of("prudent.envs:frozen_lake", p_h=0.2)

class Stubborn:
    def __init__(self, model):
        self.policy = model.admissible.argmax(axis=1)
    def reset(self, rng):
        pass
    def act(self, state):
        return self.policy[state]
    def observe(self, *row):
        pass

AGENTS = {"stubborn": Component.of(__name__ + ":Stubborn"), "ours": Component.of("prudent.agents:brps_rl", alpha=0.9)}

def plan(scale):
    return {(name,): SimulationRun(20, LAKE, agent, 30, 3) for name, agent in AGENTS.items()}

@claim("learning-helps", "Who learns regrets less", "ours")
def helps(data):
    last = data.regret.isel(episode=-1)
    return {"stubborn minus ours": last.sel(agent="stubborn").values - last.sel(agent="ours").values}

STUDY = Study(
    name="own-study", order=1000, title="Learning helps", setting="A lake.",
    variables={"regret": Quantity("cumulative regret", "", ("agent", "replication", "episode"))},
    coords=quantities("replication", agent="agent", episode="episode"),
    plan=plan, claims=(helps,),
    figures=(curves("own", "Regret", "Nothing: it is ours.", [curve("regret", "a lake")]),), tables=(),
)
OTHER = 3
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "own_study_one.py").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [path for path in __import__("sys").path if path])
    yield "own_study_one"
    STUDIES.pop("own-study", None)


def test_the_command_runs_a_study_of_the_working_folder(module, tmp_path, capsys):
    command = ["reproduce", f"{module}:STUDY", "--out", "out", "--workers", "1", "--chunk", "7", "--json"]
    assert main(command) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["claims"][0]["id"] == "learning-helps"
    assert shown["claims"][0]["verdict"] == "compatible"  # by too few replications to be sure
    assert set(shown["datasets"]) == {"own-study"}
    assert "Learning helps" in (tmp_path / "out" / "report.html").read_text()
    chunks = {file: file.stat().st_mtime_ns for file in (tmp_path / "out").glob("chunks/*/*.chunk")}
    assert len(chunks) == 6
    first = (tmp_path / "out" / "own-study.nc").read_bytes()
    assert main(command) == 0
    assert {file: file.stat().st_mtime_ns for file in chunks} == chunks
    assert (tmp_path / "out" / "own-study.nc").read_bytes() == first
    STUDIES.pop("own-study")
    assert main(["report", "out", "--study", f"{module}:STUDY"]) == 0


def test_what_is_no_study(module, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name, code in (
        ("nothing", "unknown-option"),
        ("no.such:STUDY", "unknown-option"),
        (f"{module}:NOTHING", "unknown-option"),
        (f"{module}:OTHER", "wrong-type"),
        ("prudent.reproduction.studies.limit_law:STUDY", "duplicate-label"),
    ):
        with refused(ParameterError, code, argument="names"):
            run([name], out=tmp_path / "out")
    assert set(STUDIES) == OWN
