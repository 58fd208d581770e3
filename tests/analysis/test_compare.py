"""A saved decision beside a new log: p-values that keep their rate, changes that matter, states nobody knew."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from refusals import refused
from scipy import stats

import prudent as pr
from prudent.analysis import compare
from prudent.errors import ParameterError

S, A = 5, 2


def world(rng):
    return rng.dirichlet(np.full(S, 2.0), (S, A)), rng.normal(size=(S, A)).round(1)


def log_of(rng, theta, reward, episodes, names="s"):
    """Return a log of episodes of ten random actions, which begin in the first state."""
    rows = []
    for episode in range(episodes):
        s = 0
        for step in range(10):
            a = int(rng.integers(A))
            target = int(rng.choice(S, p=theta[s, a]))
            rows.append((episode, step, f"{names}{s}", f"a{a}", f"{names}{target}", reward[s, a]))
            s = target
    return pd.DataFrame(rows, columns=["episode", "step", "state", "action", "next_state", "reward"])


def read(log):
    """Read a log; the last state of an episode may be one that no row leaves."""
    return pr.from_log(log, 0.9, truncated="mean")


def decided(log, alpha=0.5):
    model, posterior = read(log)
    solution = pr.BayesianRiskMDP(model, posterior, alpha=alpha).solve()
    return pr.analysis.SavedDecision(solution, {}, {}, "2026-01-01", "0")


def test_p_values_keep_their_rate_if_nothing_changed(rng):
    found = []
    for _ in range(80):
        theta, reward = world(rng)
        old = decided(log_of(rng, theta, reward, 6))
        found.append(compare(old, *read(log_of(rng, theta, reward, 9)), draws=2, simulations=39).p_value)
    # 80 p-values, each at most 0.1 with probability at most 0.1; false-alarm rate of this test below 1e-4
    assert sum(p <= 0.1 for p in found) <= stats.binom.isf(1e-4, 80, 0.1)


def test_a_change_is_found_where_it_is(rng):
    theta, reward = world(rng)
    old = decided(log_of(rng, theta, reward, 60))
    changed = theta.copy()
    changed[2, 1] = np.roll(np.sort(theta[2, 1]), 2)
    changed[2, 1] = 0.0
    changed[2, 1, int(theta[2, 1].argmin())] = 1.0
    found = compare(old, *read(log_of(rng, changed, reward, 60)))
    assert found.p_value <= 0.002
    worst = found.pairs.loc[found.pairs["p_value"].idxmin()]
    assert (worst["state"], worst["action"]) == ("s2", "a1")
    assert not found.holds
    assert "s2, a1" in str(found)


def test_the_same_log_changes_nothing(rng):
    theta, reward = world(rng)
    log = log_of(rng, theta, reward, 40)
    old = decided(log)
    found = compare(old, *read(log))
    assert found.holds
    assert found.p_value == 1.0
    assert not len(found.changes)
    assert found.unknown == 0.0
    assert found.uncovered_share == 0.0
    np.testing.assert_allclose(
        found.returns.iloc[0],
        found.returns.iloc[1],
        atol=4 * found.returns["high"].sub(found.returns["low"]).max() / np.sqrt(2000),
    )
    assert found.agreement > 0.01


def test_contributions_of_changes_add_up(rng):
    theta, reward = world(rng)
    old = decided(log_of(rng, theta, reward, 12))
    model, posterior = read(log_of(rng, theta, reward, 200))
    found = compare(old, model, posterior, draws=50)
    mean = pr.BayesianRiskMDP(model, posterior, alpha=0.0).mean_mdp()
    start = model.start_distribution(model.summary.starts)
    best = pr.BayesianRiskMDP(model, posterior, alpha=0.5).solve()
    values = [
        start @ pr.evaluate(mean, policy).value
        for policy in (best.policy, dict(zip(old.solution.states, old.solution.policy_names, strict=True)))
    ]
    assert found.changes["contribution"].sum() == pytest.approx(values[0] - values[1], abs=1e-9)


def test_the_figure_shows_returns_and_changes(rng):
    theta, reward = world(rng)
    old = decided(log_of(rng, theta, reward, 20))
    for new in (reward, -reward):
        found = compare(old, *read(log_of(rng, theta, new, 20)), draws=20, simulations=19)
        axes = found.plot().axes
        assert len(axes) == 1 + bool(len(found.changes))
        assert [text.get_text() for text in axes[0].get_yticklabels()] == list(found.returns.index)
        if len(found.changes):
            widths = [bar.get_width() for bar in axes[1].patches]
            np.testing.assert_allclose(widths, found.changes["contribution"][:12])


def test_new_and_gone_states_are_named(rng):
    theta, reward = world(rng)
    old = decided(log_of(rng, theta, reward, 30))
    log = log_of(rng, theta, reward, 30).replace({"s3": "t3"})
    found = compare(old, *read(log), draws=50)
    assert found.new_states == ("t3",)
    assert found.gone_states == ("s3",)
    assert found.uncovered_share > 0.0
    assert not found.holds
    assert found.unknown > 0.0
    assert "1 state only the new log has: t3." in found.lines()
    log.loc[log.index[::7], "action"] = "weld"
    assert "1 action only the new log has: weld." in compare(old, *read(log), draws=50).lines()


def test_other_decisions_are_refused(rng, tmp_path):
    theta, reward = world(rng)
    model, posterior = read(log_of(rng, theta, reward, 30))
    known = pr.solve(pr.MDP([[[1.0]]], [1.0], 0.9))
    pr.save(tmp_path, known)
    with refused(ParameterError, "wrong-kind", argument="old"):
        compare(tmp_path, model, posterior)
    for_ever = pr.BayesianRiskMDP(model, posterior, 0.0).solve(objective="average")
    pr.save(tmp_path, for_ever, model=model, posterior=posterior)
    with refused(ParameterError, "wrong-kind", argument="old"):
        compare(tmp_path, model, posterior)
    shared = pr.UncertainMDP([[0], [0]], [[[0, 1]], [[0, 1]]], [[0.0]] * 2, 0.9)
    with refused(ParameterError, "shared-sources", argument="model"):
        compare(decided(log_of(rng, theta, reward, 5)), shared, pr.DirichletPosterior([[1.0, 1.0]]))
