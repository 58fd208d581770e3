"""The case study: ICU-Sepsis (716 states, 25 actions), from a log of the clinicians to policies, returns and a page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest
from _child import environment

import prudent as pr
from benchmarks.icu import DEATH, LEVELS, SURVIVAL, admissions, plans, problem, truth
from prudent.cli.main import main

HERE = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def log():
    return admissions(250, np.random.default_rng(0))


def by_steps(weights, steps=1_000):
    """Return the probability to survive by following the distribution of patients, step by step."""
    known = truth()
    chain = np.einsum("sa,sat->st", weights[:DEATH], known.move[:DEATH])
    here, survived = known.start[:DEATH].copy(), 0.0
    for _ in range(steps):
        survived += here @ chain[:, SURVIVAL]
        here = here @ chain[:, :DEATH]
        if here.sum() < 1e-12:
            break
    return survived


def test_true_survival_is_what_happens_to_patients():
    known = truth()
    assert known.survival(known.expert) == pytest.approx(by_steps(known.expert), abs=1e-9)
    patients = 4_000
    ends = admissions(patients, np.random.default_rng(1))[:, 2]
    survived, p = int((ends == SURVIVAL).sum()), known.survival(known.expert)
    assert survived + (ends == DEATH).sum() == patients
    assert abs(survived - patients * p) < 5.0 * np.sqrt(patients * p * (1.0 - p)) + 1  # false alarm below 1e-6


def test_policies_of_a_small_log(log):
    known, (model, posterior) = truth(), problem(log)
    assert posterior.prior.sum(axis=1) == pytest.approx(1.0)  # one observation for each pair
    # what was seen after a state is possible after each of its actions
    s = int(log[0, 0])
    after = set(log[log[:, 0] == s, 2].tolist())
    names = model.states or tuple(range(model.n_states))
    at = names.index(s)
    for a in np.flatnonzero(model.source[at] >= 0):
        targets = model.next_state[at, a]
        assert {names[t] for t in targets[targets >= 0]} == after
    found = plans(model, posterior)
    values = [found[alpha].value for alpha in LEVELS]
    assert (values[0] >= values[1] - 1e-6).all()
    assert (values[1] >= values[2] - 1e-6).all()
    best = known.best()
    for solution in found.values():
        weights = known.followed(solution)
        assert weights.sum(axis=1)[:DEATH] == pytest.approx(1.0)
        survival = known.survival(weights)
        assert survival == pytest.approx(by_steps(weights), abs=1e-9)
        assert 0.5 < survival < best + 1e-9
    returns = pr.posterior_returns(model, posterior, found, draws=40, rng=0, regret=False, threads=1)
    assert ((returns.returns.values >= 0.0) & (returns.returns.values <= 1.0)).all()
    # the Bayesian-risk value of a careful policy lies below what it returns under any draw
    assert float(returns.risk_value[2]) < float(returns.returns[:, 2].min())


def page_of(log, folder, *options):
    file = folder / "icu.csv"
    pandas.DataFrame(log, columns=["state", "action", "next_state"]).to_csv(file, index=False)
    end = f"{DEATH}=0,{SURVIVAL}=1"
    shared = ["--terminal", end, "--rewards", "0", "--support", "state", "--out", str(folder / "out")]
    code = main(["solve", str(file), *shared, *options])
    assert code == 0
    table = pandas.read_csv(folder / "out" / "policy.csv")
    assert len(table) == len(set(log[:, [0, 2]].ravel().tolist())) * table["alpha"].nunique()
    return (folder / "out" / "report.html").read_text(), table


def test_page_of_a_small_log(log, tmp_path, capsys):
    page, _ = page_of(log, tmp_path, "--alpha", "0", "--draws", "20", "--discount", "0.9")
    printed = capsys.readouterr().out
    assert "more states" in printed
    assert f"{len(log):,} rows" in page


def measured(*arguments):
    command = [sys.executable, "-m", "benchmarks.icu", "measure", *arguments]
    told = subprocess.run(command, cwd=HERE, env=environment(), capture_output=True, text=True, check=True).stdout
    seconds = [float(each) for each in re.findall(r"([\d.]+) s of CPU", told)]
    return seconds, float(re.search(r"peak (\d+) MB", told)[1])


@pytest.mark.slow
def test_ten_thousand_admissions_in_time_and_memory():
    """Exact at every level in less than a minute of one core and 500 MB; with 1,000 draws in less than 1 GiB."""
    seconds, peak = measured("exact")
    assert len(seconds) == len(LEVELS)
    assert max(seconds) < 60.0
    assert peak < 500
    _, peak = measured("1000")
    assert peak < 1024


@pytest.mark.slow
def test_page_of_ten_thousand_admissions(tmp_path):
    log = admissions(10_000, np.random.default_rng(0))
    page, table = page_of(log, tmp_path, "--discount", "0.999", "--draws", "300")
    assert "What to measure next" in page
    known = truth()
    for alpha, part in table.groupby("alpha"):
        weights = known.expert.copy()
        for state, action in part[["state", "action"]].dropna().astype(int).itertuples(index=False):
            weights[state] = np.eye(25)[action]
        assert known.survival(weights) > known.survival(known.expert), alpha
