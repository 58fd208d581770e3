"""Decisions as files: read back equal, acted on without the library, refused when damaged or forged."""

from __future__ import annotations

import importlib.resources
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from _schema import faults
from refusals import refused

import prudent as pr
from prudent.errors import ParameterError, StateFileError
from prudent.planning import AtMost
from prudent.risk import EntropicRisk, Expectile

LOG = [
    ("ill", "wait", "ill", 0.0, 60),
    ("ill", "wait", "well", 1.0, 30),
    ("ill", "drug", "well", 1.0, 3),
    ("ill", "drug", "ill", 0.0, 2),
    ("weak", "drug", "ill", 0.0, 3),
    ("weak", "wait", "weak", 0.5, 4),
    ("ill", "wait", "weak", 0.5, 2),
]


def made(**options):
    return pr.from_log(LOG, 0.9, terminal={"well": 3.0}, **options)


def same(one, other):
    """Compare two solutions, and what they are made from."""
    assert other.problem.model == one.problem.model
    np.testing.assert_array_equal(one.value, other.value)
    np.testing.assert_array_equal(one.policy, other.policy)
    np.testing.assert_array_equal(one.q, other.q)
    assert one.policy_names == other.policy_names
    assert repr(one) == repr(other)
    if one.horizon is None:
        pd.testing.assert_frame_equal(one.to_pandas(), other.to_pandas())
    else:
        np.testing.assert_allclose(one.at(1).q, other.at(1).q, rtol=1e-12)  # backups start from where others ended


RISKS = [
    {"alpha": 0.0},
    {"alpha": -0.5},
    {"risk": pr.VaR(0.5)},
    {"risk": pr.MeanCVaR(0.5, 0.9)},
    {"risk": EntropicRisk(2.0)},
]


@pytest.mark.parametrize("risk", RISKS, ids=lambda risk: repr(next(iter(risk.values()))))
@pytest.mark.parametrize(
    "options",
    [{}, {"horizon": 3}, {"baseline": "log", "min_visits": 5}, {"exclude": {"ill": "drug"}}],
    ids=["plain", "horizon", "baseline", "exclude"],
)
def test_decisions_are_read_back_equal(tmp_path, risk, options):
    problem = pr.BayesianRiskMDP(*made(), **risk)
    found = problem.solve(**options)
    pr.save(tmp_path, found)
    same(found, pr.load(tmp_path).solution)
    assert (pr.load(tmp_path).model.admissible == found.problem.model.admissible).all()


def test_draws_unknown_rewards_and_durations_are_kept(tmp_path):
    model, posterior = made()
    draws = posterior.sample(20, 1)
    found = pr.BayesianRiskMDP(model, alpha=0.5, draws=draws).solve()
    pr.save(tmp_path, found)
    same(found, pr.load(tmp_path).solution)
    noisy = pd.DataFrame(
        {"state": ["a"] * 6, "action": ["x", "y"] * 3, "next_state": ["a", "b"] * 3, "reward": [1, 2, 1.5, 2.5, 3, 2],
         "duration": [1, 2, 3, 1, 2, 2]}
    )  # fmt: skip
    model, posterior = pr.from_log(noisy, 0.9, terminal=["b"], duration="duration")
    found = pr.BayesianRiskMDP(model, posterior, alpha=0.5).solve()
    pr.save(tmp_path, found)
    again = pr.load(tmp_path)
    same(found, again.solution)
    assert (again.model.reward_posterior is None) == (model.reward_posterior is None)
    assert str(again.model.summary) == str(model.summary)


def test_known_models_are_kept(tmp_path):
    found = pr.solve(pr.MDP.from_gymnasium("FrozenLake-v1", 0.99))
    pr.save(tmp_path, found)
    same(found, pr.load(tmp_path).solution)
    objective = pr.solve(pr.MDP.from_gymnasium("FrozenLake-v1", 0.99), objective=pr.EVaR(0.5), horizon=4, start=0)
    pr.save(tmp_path, objective)
    again = pr.load(tmp_path).solution
    assert again.objective_value == objective.objective_value
    assert again.objective == objective.objective


def features():
    rng = np.random.default_rng(4)
    level = rng.integers(0, 10, 60)
    return pd.DataFrame(
        {
            "episode": np.repeat(np.arange(20), 3),
            "level": level,
            "action": np.where(rng.random(60) < 0.5, "up", "down"),
            "reward": level / 10.0,
            "done": [0, 0, 1] * 20,
        }
    )


def test_a_decision_acts_with_and_without_the_library(tmp_path):
    states = pr.StateMap(["level"], method="cuts", cuts={"level": [3, 6]}, min_rows=1)
    model, posterior = pr.from_log(features(), 0.9, states=states, min_count=1)
    found = pr.BayesianRiskMDP(model, posterior, alpha=0.5).solve()
    log = tmp_path / "log.csv"
    features().to_csv(log, index=False)
    pr.save(tmp_path / "decision", found, log=log, settings={"alpha": 0.5, "why": ("a", 1)})
    again = pr.load(tmp_path / "decision")
    assert again.settings == {"alpha": 0.5, "why": ("a", 1)}
    assert again.log["name"] == "log.csv"
    assert again.is_of(log)
    log.write_text(log.read_text() + "\n")
    assert not again.is_of(log)
    code = "import json, act; print(json.dumps([act.act({'level': x}) for x in (1, 4, 9)]))"
    run = subprocess.run([sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, '.'); {code}"],
                         cwd=tmp_path / "decision", capture_output=True, text=True, check=True)  # fmt: skip
    assert json.loads(run.stdout) == [again.act({"level": x}) for x in (1, 4, 9)]
    policy = json.loads((tmp_path / "decision" / "policy.json").read_text())
    assert [row["action"] for row in policy["policy"]] == list(found.policy_names)


def test_what_cannot_be_kept_is_refused(tmp_path):
    model, posterior = made()
    found = pr.BayesianRiskMDP(model, posterior, risk=pr.Spectral(lambda u: min(2 * u, 1.0))).solve()
    with refused(ParameterError, "wrong-type", argument="solution"):
        pr.save(tmp_path, found)
    with refused(ParameterError, "wrong-type", argument="solution"):
        pr.save(tmp_path, {"a": 1})
    good = pr.BayesianRiskMDP(model, posterior, risk=Expectile(0.2)).solve(draws=50, rng=1)
    with refused(ParameterError, "other-model", argument="model"):
        pr.save(tmp_path, good, model=pr.from_log(LOG[:5], 0.9, terminal=["well"])[0])
    with refused(ParameterError, "other-model", argument="posterior"):
        pr.save(tmp_path, good, posterior=pr.DirichletPosterior(posterior.counts + 1.0))
    assert not list(tmp_path.iterdir())
    pr.save(tmp_path, good, model=model, posterior=posterior)


def test_damaged_and_forged_files_are_refused(tmp_path, rng):
    import hashlib

    pr.save(tmp_path, pr.BayesianRiskMDP(*made(), alpha=0.5).solve())
    file = tmp_path / "decision.state"
    content = file.read_bytes()
    for size in (0, 10, len(content) // 2):
        file.write_bytes(content[:size])
        with pytest.raises(StateFileError):
            pr.load(tmp_path)
    for _ in range(60):  # with a check sum that fits
        forged = bytearray(content[:-32])
        place = int(rng.integers(20, len(forged)))
        forged[place] = int(rng.integers(32, 127))
        file.write_bytes(bytes(forged) + hashlib.sha256(forged).digest())
        try:
            found = pr.load(file)
        except StateFileError:
            continue
        assert found.solution.states == ("ill", "weak", "well") or found.solution.value.size == 3
    with pytest.raises(FileNotFoundError):
        pr.load(tmp_path / "absent")


def test_bounds_on_costs_are_kept(tmp_path):
    model, posterior = made()
    asked = {"at_most": {"drugs": AtMost(0.5, pr.CVaR(0.8))}, "start": "ill", "draws": 20, "rng": 1}
    cost = np.tile(np.array(model.actions) == "drug", (model.n_states, 1)).astype(float)
    found = pr.BayesianRiskMDP(model, posterior, alpha=0.0).solve(costs={"drugs": cost}, **asked)
    pr.save(tmp_path, found)
    again = pr.load(tmp_path).solution.constraint
    assert again._replace(policies=()) == found.constraint._replace(policies=())
    np.testing.assert_array_equal(again.policies, found.constraint.policies)


def test_every_kind_of_policy_fits_the_schema(tmp_path):
    text = importlib.resources.files("prudent.planning").joinpath("policy.schema.json").read_text(encoding="utf-8")
    schema = json.loads(text)
    model, posterior = made()
    problem = pr.BayesianRiskMDP(model, posterior, alpha=0.5)
    mean = pr.BayesianRiskMDP(model, posterior, alpha=0.0)
    known = pr.MDP([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.3, 0.7]]], [[1.0, 0.0], [0.0, 2.0]], 0.9)
    solutions = [
        problem.solve(),
        problem.solve(horizon=3),
        problem.solve(baseline="log", min_visits=4),
        mean.solve(costs={"x": np.ones(model.n_states)}, at_most={"x": 50.0}),
        pr.solve(known, objective="average"),
        pr.solve(known, objective=pr.EVaR(0.5), start=0),
    ]
    for solution in solutions:
        pr.save(tmp_path, solution)
        record = json.loads((tmp_path / "policy.json").read_text())
        assert faults(record, schema, schema) == []
    assert faults(record | {"policy": [{"state": "ill", "act": 1}]}, schema, schema)
    assert faults({}, schema, schema)
