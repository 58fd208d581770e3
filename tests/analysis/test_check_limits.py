"""Checks of policies that must keep to something: a group, another log, exclusions, a baseline."""

from __future__ import annotations

import json

import numpy as np
import pandas
import pytest

import prudent as pr
from prudent.analysis.check import _limits
from prudent.cli.main import main
from prudent.estimation.counts import Transitions
from prudent.estimation.parts import Learner
from prudent.estimation.rows import read_log


def ward(rng: np.random.Generator, episodes: int, chance: dict[str, float], site: str = "here") -> pandas.DataFrame:
    """Return a log of a ward in which each action heals with some chance and earns 1 then; states come at random."""
    rows = []
    for episode in range(episodes):
        for step in range(6):
            action = str(rng.choice(list(chance)))
            healed = rng.random() < chance[action]
            rows.append((f"{site} {episode}", step, "ill", action, "ill", float(healed), site))
    return pandas.DataFrame(rows, columns=["episode", "step", "state", "action", "next_state", "reward", "site"])


CHANCE = {"drug": 0.9, "wait": 0.5, "pray": 0.2}


def values(report, alpha=0.0):
    at = report.honest.at(alpha=alpha)[0]
    return report.honest.promised[at], report.honest.honest[at]


def test_honest_values_are_of_policies_without_what_is_excluded():
    log = ward(np.random.default_rng(1), 60, CHANCE)
    free, barred = (pr.check(log, 0.5, alphas=[0.0], exclude=e) for e in (None, {"ill": "drug"}))
    # the world has one state: a policy that always takes one action earns its chance at every step
    for report, action in ((free, "drug"), (barred, "wait")):
        rows = log[log["action"] == action]
        assert values(report)[1] == pytest.approx(2.0 * rows["reward"].mean(), abs=0.03)
    assert values(barred)[0] < 1.2 < values(free)[0]


def test_a_part_that_tried_only_what_is_excluded_follows_the_log():
    log = ward(np.random.default_rng(2), 20, {"drug": 0.9})
    with pytest.raises(pr.errors.ParameterError) as caught:
        pr.check(log, 0.5, exclude={"ill": "drug"})
    assert caught.value.code == "no-action"
    log.loc[log["episode"] == "here 3", "action"] = "wait"
    report = pr.check(log, 0.5, alphas=[0.0], exclude={"ill": "drug"})
    best = report.honest.at(alpha=0.0)[0]
    # one half has the episode to learn from, the other one to judge by: nobody can say what waiting earns
    assert report.honest.unknown[best] == pytest.approx(1.0)
    assert report.honest.honest[best] == pytest.approx(report.honest.honest[report.honest.log_of(best)])


def test_honest_values_are_of_policies_that_stay_close():
    log = ward(np.random.default_rng(3), 60, CHANCE)
    # nobody has so many observations: all policies are the baseline, and earn what it earns
    report = pr.check(log, 0.5, alphas=[0.0, 0.9], min_visits=1e9)
    done = report.honest.honest[report.honest.log_of(0)]
    for alpha in (0.0, 0.9):
        assert values(report, alpha)[1] == pytest.approx(done, abs=0.02)
    given = {"ill": {"pray": 0.5, "wait": 0.5}}
    report = pr.check(log, 0.5, alphas=[0.0], baseline=given, min_visits=1e9)
    means = log.groupby("action")["reward"].mean()
    assert values(report)[1] == pytest.approx(means["pray"] + means["wait"], abs=0.03)
    # with a small budget the policy lies between the baseline and the best
    some = pr.check(log, 0.5, alphas=[0.0], epsilon=0.05)
    assert done + 0.02 < values(some)[1] < values(pr.check(log, 0.5, alphas=[0.0]))[1] - 0.02


def test_a_group_is_judged_by_its_own_episodes():
    rng = np.random.default_rng(4)
    north = ward(rng, 40, {"drug": 0.8, "wait": 0.4}, "north")
    south = ward(rng, 40, {"drug": 0.1, "wait": 0.4}, "south")
    log = pandas.concat((north, south), ignore_index=True)
    for name, part, best in (("north", north, "drug"), ("south", south, "wait")):
        report = pr.check(log, 0.5, alphas=[0.0], group=("site", name), rewards="outcomes")
        own = part.loc[part["action"] == best, "reward"].mean()
        assert values(report)[1] == pytest.approx(2.0 * own, abs=0.04)
        done = report.honest.log_of(0)
        assert report.honest.honest[done] == pytest.approx(2.0 * part["reward"].mean(), abs=0.04)
        assert report.honest.promised[done] == pytest.approx(2.0 * part["reward"].mean(), abs=0.04)


def test_the_policies_of_a_group_learn_from_the_others_as_from_log_does():
    rng = np.random.default_rng(5)
    log = pandas.concat([ward(rng, 30, CHANCE, site) for site in ("north", "south", "west")], ignore_index=True)
    model, posteriors = pr.from_log(log, 0.5, group="site")
    solution = pr.BayesianRiskMDP(model, posteriors["south"], 0.9, reward_posterior="certain").solve()

    read = read_log(log, None, None, None, (), (), None, group="site")
    limits = _limits(read, ("site", "south"), None, "log", None, None)
    learner = Learner.of(read, Transitions.of(read, False), 0.5, 1.0, "state", 1, "mean", limits, read.times)
    assert np.allclose(np.sort(learner.posterior.counts.sum(axis=1)), np.sort(posteriors["south"].counts.sum(axis=1)))
    alone = pr.BayesianRiskMDP(learner.model, learner.posterior, 0.9, reward_posterior="certain").solve()
    assert alone.value[0] == pytest.approx(solution.value[0], rel=1e-9)


def test_another_log_is_in_the_prior_and_never_judges():
    rng = np.random.default_rng(6)
    log, last_year = ward(rng, 30, CHANCE), ward(rng, 300, {"drug": 0.2, "wait": 0.2, "pray": 0.2}, "old")
    report = pr.check(log, 0.5, alphas=[0.0], prior_from=last_year)
    assert report.honest.influence.shape[1] == 30
    assert not report.honest.by_rows
    assert values(report)[1] == pytest.approx(2.0 * log.loc[log["action"] == "drug", "reward"].mean(), abs=0.06)


def test_what_does_not_fit_together_is_refused():
    log = ward(np.random.default_rng(7), 20, CHANCE)
    with pytest.raises(pr.errors.ParameterError) as caught:
        pr.check(log, 0.5, group="site")
    assert caught.value.code == "wrong-format"
    with pytest.raises(pr.errors.ParameterError):
        pr.check(log, 0.5, exclude={"ill": "dance"})
    with pytest.raises(pr.errors.ParameterError):
        pr.check(log, 0.5, baseline="yesterday", min_visits=3)


@pytest.mark.parametrize("command", ["check", pytest.param("solve", marks=pytest.mark.slow)])
def test_the_command_line_checks_the_policy_that_it_writes(tmp_path, capsys, command):
    log = ward(np.random.default_rng(8), 40, CHANCE)
    log.to_csv(tmp_path / "log.csv", index=False)
    shared = [str(tmp_path / "log.csv"), "--discount", "0.5", "--exclude", "ill=drug", "--alpha", "0"]
    assert main([command, *shared, "--out", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    record = json.loads((tmp_path / "out" / "check.json").read_text())
    expected = 2.0 * log.loc[log["action"] == "wait", "reward"].mean()
    assert record["honest"][0]["honest"] == pytest.approx(expected, abs=0.04)
