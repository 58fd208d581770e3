"""Simulated returns: against exact values and distributions, laws, reproducibility, and what is said if wrong."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from refusals import refused
from scipy import stats

import prudent as pr
from prudent.errors import ModelError, ParameterError

SIGMAS = 5.0  # of a mean: false alarm 6e-7

MDP = pr.MDP(
    [[[0.9, 0.1], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]],
    [[5, 4], [0, -3]],
    discount=0.9,
    states=["new", "worn"],
    actions=["use", "mend"],
)
COIN = pr.MDP([[[0.5, 0.5]], [[0.0, 1.0]]], reward=[[[1, 0]], [[0, 0]]], discount=1.0)  # heads before the first tail


def close(drawn, value):
    """Whether the mean of the returns is the value, up to chance and what was cut off."""
    error = drawn.std(ddof=1) / np.sqrt(drawn.size)
    return abs(drawn.mean() - value) <= SIGMAS * error + drawn.truncation + 1e-12


@pytest.mark.parametrize("policy", [["use", "mend"], [[0.3, 0.7], [0.5, 0.5]]])
def test_means_are_values(policy):
    value = pr.evaluate(MDP, policy).value
    for state in MDP.states:
        drawn = pr.returns(MDP, policy, start=state, replications=20_000, rng=1)
        assert close(drawn, value[MDP.state_index(state)])
        assert 0.0 < drawn.truncation <= 1e-6 * 50.0
    evenly = pr.returns(MDP, policy, replications=20_000, rng=2)
    assert close(evenly, value.mean())


def test_policies_over_time_and_final_values():
    plan = pr.solve(MDP, horizon=6, terminal_value={"worn": 20.0})
    drawn = pr.returns(MDP, plan, start="new", replications=20_000, terminal_value={"worn": 20.0}, rng=3)
    assert close(drawn, plan.value[0, 0])
    assert (drawn.steps == 6).all()
    assert drawn.truncation == 0.0
    chances = np.random.default_rng(0).dirichlet([1.0, 1.0], (4, 2))
    exact = pr.evaluate(MDP, chances, horizon=4)
    assert close(pr.returns(MDP, chances, start="worn", replications=20_000, rng=4), exact.value[0, 1])
    risky = pr.solve(MDP, objective=pr.Entropic(0.2), start="new")
    value = pr.evaluate(MDP, risky.later).value  # the mean from T' on
    assert value.shape == (2,)
    drawn = pr.returns(MDP, risky, start="new", replications=100_000, rng=5)
    below = risky.objective_value - SIGMAS * drawn.std() / np.sqrt(drawn.size)
    assert drawn.mean() > below  # the risk is below the mean


def test_the_distribution_is_the_right_one():
    drawn = pr.returns(COIN, [0, 0], start=0, replications=50_000, rng=6)
    counts = np.bincount(drawn.astype(int), minlength=8)
    counts = np.append(counts[:7], counts[7:].sum())
    chances = np.append(0.5 ** np.arange(1, 8), 0.5**7)
    assert stats.chisquare(counts, chances * drawn.size).pvalue > 1e-6
    assert (drawn.steps == drawn + 1).all()
    assert drawn.horizon is None
    # entropic risk of a geometric law
    beta = 1.3
    truth = -np.log(0.5 / (1.0 - 0.5 * np.exp(-beta))) / beta
    assert drawn.entropic(beta) == pytest.approx(truth, abs=0.02)  # 10 standard errors


def test_threads_do_not_matter_and_more_runs_keep_the_first():
    one, many = (pr.returns(MDP, [0, 1], start="new", replications=3000, rng=7, threads=n) for n in (1, 3))
    assert (one == many).all()
    fewer = pr.returns(MDP, [0, 1], start="new", replications=700, rng=7)
    assert (one[:700] == fewer).all()
    assert (one != pr.returns(MDP, [0, 1], start="new", replications=3000, rng=8)).any()
    assert (pr.returns(MDP, [0, 1], replications=5, rng=np.random.default_rng(1)).size) == 5


def test_laws_of_the_measures():
    drawn = pr.returns(MDP, [0, 1], start="new", replications=4000, rng=9)
    for alpha in (0.0, 0.3, 0.9, 0.99):
        assert drawn.min() <= drawn.evar(alpha) + 1e-9
        assert drawn.evar(alpha) <= drawn.cvar(alpha) + 1e-9
        assert drawn.cvar(alpha) <= drawn.mean() + 1e-9
        assert drawn.cvar(alpha) <= drawn.quantile(1.0 - alpha) + 1e-9
    assert drawn.evar(0.0) == pytest.approx(drawn.mean(), abs=1e-12)
    levels = [drawn.entropic(beta) for beta in (0.0, 1e-12, 0.1, 1.0, 1e6)]
    assert all(a >= b - 1e-9 for a, b in pairwise(levels))
    assert levels[0] == pytest.approx(levels[1], abs=1e-9)


def test_returns_are_arrays_that_know_what_they_are():
    drawn = pr.returns(MDP, [0, 1], start="new", replications=500, rng=10)
    assert isinstance(drawn, np.ndarray)
    assert type(drawn * 2.0) is np.ndarray
    assert type(drawn.mean()) is np.float64
    assert isinstance(np.mean(drawn), float)
    assert drawn[:3].truncation == drawn.truncation
    assert len(drawn.to_pandas()) == 500
    assert list(drawn.to_pandas().columns) == ["return", "steps"]
    table = drawn.summary(tail_alpha=0.5, quantiles=[0.1])
    assert table.estimate["CVaR 0.5"] == drawn.cvar(0.5)
    assert table.estimate["quantile 0.1"] == drawn.quantile(0.1)
    assert (drawn.quantile([0.1, 0.9]) == np.quantile(np.asarray(drawn), [0.1, 0.9])).all()
    assert "500 runs from state 'new'" in repr(drawn)
    assert len(drawn.plot().axes) == 1
    assert len(pr.returns(COIN, [0, 0], start=0, replications=500, rng=1).plot().axes) == 1
    assert len(pr.returns(COIN, [0, 0], start=0, replications=1, rng=1).plot().axes) == 1
    again = pickle.loads(pickle.dumps(drawn))
    assert (np.asarray(again) == np.asarray(drawn)).all()
    assert repr(again) == repr(drawn)
    assert (drawn[5:9].to_pandas().steps == drawn.steps[5:9]).all()
    assert drawn[drawn > drawn.mean()].cvar(0.5) > drawn.mean()


def test_runs_stop_where_nothing_more_is_earned():
    mdp = pr.MDP([[[0.0, 1.0]], [[0.0, 1.0]]], [1.0, 0.0], 0.999)
    drawn = pr.returns(mdp, [0, 0], start=0, replications=10, rng=0)
    assert (drawn.steps == 1).all()
    assert (drawn == 1.0).all()
    whole = pr.returns(mdp, [0, 0], start=0, replications=10, horizon=5, terminal_value={1: 2.0}, rng=0)
    assert (whole == 1.0 + 2.0 * 0.999**5).all()


def test_terminal_states_pay_on_arrival():
    game = pr.UncertainMDP(
        [[0], [-1], [-1]],
        [[[0, 1, 2]]] * 3,
        [[0.0]] * 3,
        discount=0.5,
        states=["play", "won", "lost"],
        terminal={"won": 1.0, "lost": -1.0},
    )
    mdp = game.mdp([[0.25, 0.5, 0.25]])
    value = pr.solve(mdp).value[0]
    assert close(pr.returns(mdp, [0, 0, 0], start="play", replications=20_000, rng=1), value)
    short = pr.returns(mdp, [0, 0, 0], start="play", horizon=1, replications=20_000, rng=1)
    assert set(short.tolist()) == {0.0, 0.5, -0.5}
    assert close(short, pr.solve(mdp, horizon=1).value[0, 0])


@pytest.mark.parametrize(
    ("code", "fields", "call"),
    [
        ("index-range", {}, lambda: pr.returns(MDP, [0, 2])),
        ("unknown-state", {"argument": "start"}, lambda: pr.returns(MDP, [0, 1], start="old")),
        ("integer-range", {"argument": "replications"}, lambda: pr.returns(MDP, [0, 1], replications=0)),
        ("integer-range", {"argument": "horizon"}, lambda: pr.returns(MDP, [0, 1], horizon=0)),
        ("conflicting-arguments", {"argument": "tol"}, lambda: pr.returns(MDP, [0, 1], horizon=3, tol=1.0)),
        ("not-positive", {"argument": "tol"}, lambda: pr.returns(MDP, [0, 1], tol=-1.0)),
        ("missing-argument", {"argument": "horizon"}, lambda: pr.returns(MDP, [0, 1], terminal_value=[1, 1])),
        ("policy-too-short", {"value": 3}, lambda: pr.returns(MDP, [[0, 1], [1, 1], [0, 0]], horizon=9)),
        ("not-an-rng", {"argument": "rng"}, lambda: pr.returns(MDP, [0, 1], rng="x")),
        ("too-many-steps", {"argument": "tol"}, lambda: pr.returns(pr.MDP([[[1.0]]], [1.0], 1.0 - 1e-10), [0])),
        ("probability-range", {"value": 1.5}, lambda: pr.returns(MDP, [0, 1], replications=9).quantile(1.5)),
    ],
)
def test_what_is_wrong_is_said(code, fields, call):
    with refused(ParameterError, code, **fields):
        call()


def test_an_uncertain_model_is_refused():
    with refused(ModelError, "wrong-type", argument="mdp"):
        pr.returns(pr.UncertainMDP.direct([[1.0]], 0.9), [0])
