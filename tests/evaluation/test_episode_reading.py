"""Logs of episodes, policies of all kinds, propensities, intervals, verdicts, and what is refused."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from refusals import refused, warned

import prudent as pr
from prudent.errors import DataError, OverlapWarning, ParameterError
from prudent.evaluation import EpisodeEstimates, replay, tune
from prudent.evaluation.episodes.intervals import (
    Resamples,
    betting_limit,
    bootstrap,
    bootstrap_mean,
    safe_limits,
    student,
)
from prudent.evaluation.episodes.log import read_episodes
from prudent.evaluation.episodes.weights import RatioSum

STATES, ACTIONS = ("calm", "busy", "jammed"), ("wait", "work")
MOVE = np.array(
    [[[0.7, 0.2, 0.1], [0.5, 0.4, 0.1]], [[0.2, 0.4, 0.4], [0.6, 0.3, 0.1]], [[0.1, 0.2, 0.7], [0.3, 0.4, 0.3]]]
)
REWARD = np.array([[1.0, 0.8], [0.5, 0.6], [-1.0, -0.5]])
ACTING = np.array([[0.6, 0.4], [0.5, 0.5], [0.4, 0.6]])
BETTER = np.array([[0.7, 0.3], [0.3, 0.7], [0.2, 0.8]])


def simulated(episodes, rng, steps=5, acting=ACTING):
    """Return a log of fixed length as a DataFrame, with two columns of numbers that tell the state."""
    state = rng.integers(0, 3, episodes)
    parts = []
    for t in range(steps):
        action = (rng.random(episodes) >= acting[state, 0]).astype(int)
        reward = REWARD[state, action] + 0.3 * rng.standard_normal(episodes)
        rows = {"episode": np.arange(episodes), "step": t, "state": np.array(STATES)[state], "reward": reward}
        rows |= {"action": np.array(ACTIONS)[action], "propensity": acting[state, action]}
        rows |= {"load": state + 0.2 * rng.standard_normal(episodes), "alarm": state == 2}
        parts.append(pd.DataFrame(rows))
        state = (MOVE[state, action].cumsum(axis=1) < rng.random((episodes, 1))).sum(axis=1).clip(max=2)
    return pd.concat(parts, ignore_index=True)


def true_value(policy, discount=0.9, steps=5):
    v = np.zeros(3)
    for _ in range(steps):
        v = (policy * (REWARD + discount * MOVE @ v)).sum(axis=1)
    return v.mean()


def evaluated(log, policy, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)
        return pr.off_policy(log, policy, **{"discount": 0.9, "draws": 200, **keywords})


def table_of(policy):
    return {s: dict(zip(ACTIONS, row, strict=True)) for s, row in zip(STATES, policy.tolist(), strict=True)}


# -- what is refused ---------------------------------------------------------------------------------------


def test_rows_of_episodes_are_not_independent_decisions(rng):
    log = {"arm": [0, 1] * 50, "reward": [0.0, 1.0] * 50, "propensity": [0.5] * 100, "context": [[1.0]] * 100}
    assert pr.off_policy(log, 1).n == 100
    for name in ("episode", "trajectory_id"):
        held = log | {name: np.arange(100) // 2}
        with refused(DataError, "episodes", argument="episode", column=name):
            pr.off_policy(held, 1)
        with refused(DataError, "episodes", column=name):
            replay(held, pr.LinearBandit(2, dim=1, rng=1))
        with refused(DataError, "episodes", column=name):
            tune(held, {"alpha": [0.0, 0.5]})
        assert pr.off_policy(held, 1, episode=False).loc["ips", "estimate"] == pytest.approx(1.0)
    with refused(ParameterError, "missing-argument", argument="discount"):
        pr.off_policy(log | {"episode": 1}, 1, episode="episode")


def test_arguments_for_the_other_kind_of_log(rng):
    log = simulated(30, rng)
    with refused(ParameterError, "conflicting-arguments", argument="clip"):
        pr.off_policy(log, "work", discount=0.9, clip=3.0)
    with refused(ParameterError, "conflicting-arguments", argument="markov"):
        pr.off_policy({"arm": [0], "reward": [1.0], "propensity": [1.0]}, 0, markov=True)
    with refused(ParameterError, "conflicting-arguments", argument="episode"):
        pr.off_policy(log, "work", discount=0.9, episode=False)
    with refused(ParameterError, "discount-range", argument="discount"):
        pr.off_policy(log, "work", discount=1.5)
    with refused(ParameterError, "unknown-option", argument="interval"):
        pr.off_policy(log, "work", discount=0.9, interval="bernstein")


@pytest.mark.parametrize(
    ("change", "code", "fields"),
    [
        (lambda log: log.drop(index=6), "gap", {"column": "step"}),
        (lambda log: pd.concat([log, log.iloc[[3]]]), "duplicate-row", {"column": "step"}),
        (lambda log: log.assign(propensity=0.0), "probability-range", {"column": "propensity"}),
        (lambda log: log.assign(reward=np.nan), "not-finite", {"column": "reward"}),
        (lambda log: log.assign(state=log["state"].where(log["step"] != 2)), "missing-value", {"column": "state"}),
        (lambda log: log.assign(action=log["action"].where(log["step"] != 1)), "missing-value", {"column": "action"}),
        (lambda log: log.assign(done=log["step"] == 1), "terminal-state", {"column": "done"}),
        (lambda log: log.assign(count=2), "value-range", {"column": "count"}),
        (lambda log: log[log["episode"] == 0], "few-episodes", {"argument": "log"}),
        (lambda log: log.drop(columns="episode"), "missing-column", {"column": "episode"}),
        (lambda log: log.iloc[:0], "no-rows", {"argument": "log"}),
    ],
)
def test_wrong_logs(change, code, fields, rng):
    log = simulated(4, rng).sort_values(["episode", "step"], ignore_index=True)
    with refused(DataError, code, **fields):
        pr.off_policy(change(log), "work", discount=0.9)


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ("run", "unknown-action"),
        ({"calm": "wait"}, "missing-state"),
        (np.array([[0.5, 0.5], [0.5, 0.6], [0.5, 0.5]]), "sum-not-one"),
        (lambda frame: np.full((len(frame), 3), 1 / 3), "wrong-shape"),
        (lambda row: {"wait": 0.5, "jump": 0.5}, "unknown-action"),
        (lambda row: row["no such column"], "policy-failed"),
    ],
)
def test_wrong_policies(policy, code, rng):
    with refused(ParameterError, code):
        pr.off_policy(simulated(30, rng), policy, discount=0.9)


def test_probabilities_of_a_function_are_checked(rng):
    with refused(DataError, "sum-not-one", argument="target"):
        pr.off_policy(simulated(30, rng), lambda frame: np.full((len(frame), 2), 0.6), discount=0.9)
    with refused(DataError, "zero-propensity", argument="logging_policy"):
        pr.off_policy(simulated(30, rng), "work", discount=0.9, logging_policy="work")
    with refused(ParameterError, "conflicting-arguments", argument="propensities"):
        pr.off_policy(simulated(30, rng), "work", discount=0.9, logging_policy="uniform", propensities="counts")


# -- how episodes end --------------------------------------------------------------------------------------


def test_how_episodes_end():
    rows = {"episode": [1, 1, 1, 2, 2], "state": list("xyzxy"), "action": [0, 1, 0, 1, 0], "reward": [0.0] * 5}
    over = read_episodes(rows, episode=None)  # of unequal length, and nothing says otherwise: they are over
    assert (over.horizon, over.ended.tolist(), over.target.tolist()) == (None, [True, True], [1, 2, 3, 1, 3])
    flagged = rows | {"done": [False, False, False, False, True]}
    limited = read_episodes(flagged, episode=None)  # the longer one is not over: three steps are the limit
    assert (limited.horizon, limited.ended.tolist(), limited.target.tolist()) == (3, [False, True], [1, 2, -1, 1, 3])
    cut = rows | {"done": [False, False, True, False, False]}
    with refused(DataError, "unfinished-episode", argument="unfinished", value=2):
        read_episodes(cut, episode=None)
    assert read_episodes(cut, episode=None, unfinished="drop").lengths.tolist() == [3]
    assert read_episodes(cut, episode=None, unfinished="end").ended.tolist() == [True, True]
    short = read_episodes(cut, episode=None, horizon=2)
    assert (short.horizon, short.lengths.tolist(), short.ended.tolist()) == (2, [2, 2], [False, False])
    named = rows | {"next_state": ["y", "z", "dead", "y", "home"]}
    ends = read_episodes(named, episode=None, terminal=["dead", "home"])
    assert (ends.horizon, ends.target.tolist()) == (None, [1, 2, 3, 1, 3])
    marked = {name: [*column, None] for name, column in rows.items()} | {"episode": [1, 1, 1, 2, 2, 2]}
    marked["state"][-1] = "dead"
    assert read_episodes(marked | {"done": [0, 0, 1, 0, 0, 0]}, episode=None).ended.tolist() == [True, True]


def test_the_same_log_in_other_forms(rng, tmp_path):
    log = simulated(40, rng)
    first = evaluated(log, table_of(BETTER))["estimate"].drop("model").to_numpy()
    log.to_csv(tmp_path / "log.csv", index=False)
    renamed = log.rename(columns={"episode": "patient", "reward": "r", "state": "ward"})
    columns = {"reward": "r", "state": "ward"}
    forms = [
        evaluated(tmp_path / "log.csv", table_of(BETTER)),
        evaluated(log.to_dict("list"), table_of(BETTER)),
        evaluated(log.to_dict("records"), table_of(BETTER)),
        evaluated(renamed, table_of(BETTER), episode="patient", columns=columns),
    ]
    for found in forms:
        assert found["estimate"].drop("model").to_numpy() == pytest.approx(first, rel=1e-12)


# -- policies ----------------------------------------------------------------------------------------------


def test_policies_of_all_kinds_agree(rng):
    log = simulated(60, rng)
    rows = BETTER[[STATES.index(s) for s in log["state"]]]
    ordered = BETTER[[STATES.index(s) for s in sorted(STATES)]]
    kinds = {
        "dict": table_of(BETTER),
        "array": ordered,
        "frame": pd.DataFrame(BETTER, index=list(STATES), columns=list(ACTIONS)),
        "by row": rows,
        "function of the table": lambda frame: BETTER[[STATES.index(s) for s in frame["state"]]],
        "function of a row": lambda row: table_of(BETTER)[row["state"]],
        "by time": np.stack([ordered] * 5),
    }
    first = evaluated(log, kinds["dict"]).table["estimate"].drop("model").to_numpy()
    for name, policy in kinds.items():
        assert evaluated(log, policy).table["estimate"].drop("model").to_numpy() == pytest.approx(first, rel=1e-9), name


def test_a_solution_and_actions_by_state(rng):
    log = simulated(300, rng)
    model, posterior = pr.from_log(log.drop(columns=["propensity", "load", "alarm"]), 0.9)
    solution = pr.BayesianRiskMDP(model, posterior, alpha=0.0).solve()
    plan = dict(zip(solution.states, solution.policy_names, strict=True))
    one, other = evaluated(log, solution), evaluated(log, plan)
    assert one["estimate"].drop("model").to_numpy() == pytest.approx(other["estimate"].drop("model").to_numpy())
    more = plan | {"a state that the log never saw": "work"}
    assert evaluated(log, more)["estimate"].loc["wis"] == pytest.approx(one["estimate"].loc["wis"])


def test_numbered_states_go_by_number(rng):
    """An array has a row for each state by its number, also if the log never was in some of them."""
    log = simulated(60, rng)
    numbers = log.assign(state=log["state"].map({"calm": 1, "busy": 4, "jammed": 6}), action=log["action"] == "work")
    numbers["action"] = numbers["action"].astype(int)
    policy = np.full((8, 2), 0.5)
    policy[[1, 4, 6]] = BETTER
    found = evaluated(numbers, policy)["estimate"].drop("model").to_numpy()
    assert found == pytest.approx(evaluated(log, table_of(BETTER))["estimate"].drop("model").to_numpy(), rel=1e-9)


def test_columns_without_states(rng):
    """A log of columns alone: propensities by a logit, values by trees."""
    log = simulated(100, rng, steps=3).drop(columns=["state", "propensity"])
    found = evaluated(log, lambda frame: np.where(frame["load"] > 0.5, "work", "wait"), folds=2)
    assert found.propensities == "logit of columns"
    assert found.calibration_error < 0.15
    assert found.q_model.startswith("ExtraTreesRegressor")
    assert found.loc["mis", "code"] == found.loc["model", "code"] == "no-states"
    assert np.isfinite(found.loc["fqe", "estimate"])
    assert found.loc["fqe", "low"] <= found.loc["dr", "low"]


def test_fitted_q_with_a_regressor_is_the_table_of_states(rng):
    """A tree that can split every state from the others is the table: same values up to the cross-fit."""
    from sklearn.tree import DecisionTreeRegressor

    log = simulated(800, rng)
    log["code"] = log["state"].map({s: i for i, s in enumerate(STATES)})
    exact = evaluated(log, table_of(BETTER))
    fitted = evaluated(log, table_of(BETTER), q_model=DecisionTreeRegressor(), features=["code"])
    assert fitted.loc["fqe", "estimate"] == pytest.approx(exact.loc["fqe", "estimate"], abs=0.05)
    assert fitted.loc["dr", "estimate"] == pytest.approx(exact.loc["dr", "estimate"], abs=0.02)


def test_a_state_map_gives_states(rng):
    log = simulated(200, rng)
    states = pr.StateMap(["load"], method="cuts", cuts={"load": [0.5, 1.5]}, min_rows=1)
    found = evaluated(
        log.drop(columns="state"), lambda frame: np.where(frame["load"] > 0.5, "work", "wait"), states=states
    )
    assert np.isfinite(found.loc["mis", "estimate"])
    assert np.isfinite(found.loc["fqe", "estimate"])  # the policy is one of these states


# -- propensities ------------------------------------------------------------------------------------------


def test_estimated_propensities(rng):
    log = simulated(2000, rng)
    known = evaluated(log, table_of(BETTER))
    counted = evaluated(log.drop(columns="propensity"), table_of(BETTER))
    logit = evaluated(log, table_of(BETTER), propensities="logit", features=["state"])
    assert known.propensities == "the log"
    assert known.calibration is None
    for found in (counted, logit):
        assert found.calibration_error < 0.03
        assert found.calibration["rows"].sum() == 2 * len(log)
        for name in ("wpdis", "wdr"):
            apart = abs(found.loc[name, "estimate"] - known.loc[name, "estimate"])
            assert apart < 4.0 * known.loc[name, "error"], (found.propensities, name)
    given = evaluated(log.drop(columns="propensity"), table_of(BETTER), logging_policy=table_of(ACTING))
    assert given["estimate"].drop("model").to_numpy() == pytest.approx(known["estimate"].drop("model").to_numpy())


# -- intervals ---------------------------------------------------------------------------------------------


def test_betting_limits_hold_for_heavy_tails():
    """Weights of which one in a thousand is 500: limits at 95% miss in at most 5% of 150 samples (false alarm 1e-6)."""
    rng = np.random.default_rng(3)
    missed = 0
    for _ in range(150):
        weights = np.where(rng.random(300) < 0.001, 500.5, 0.5)  # mean 1
        found = safe_limits(weights, rng.random(300), (0.0, 1.0), 0.95)
        missed += not found.low <= 0.5 <= found.high
    assert missed <= 23
    assert betting_limit(np.zeros(10), 0.05) == 0.0


def test_studentised_intervals_of_normal_means_are_students(rng):
    values = rng.standard_normal((4000, 1))
    estimate = RatioSum(values, None)
    found = bootstrap(estimate, Resamples(4000, 2000, rng), 0.95)
    plain = student(estimate.value, estimate.influence, 0.0, 0.95)
    assert found.low == pytest.approx(plain.low, abs=0.25 * plain.error)  # quantiles of 2,000 replicates: sd 0.06
    assert found.high == pytest.approx(plain.high, abs=0.25 * plain.error)
    ratio = RatioSum(values + 3.0, np.exp(0.5 * rng.standard_normal((4000, 1))))
    drawn = bootstrap(ratio, Resamples(4000, 500, rng), 0.95)
    assert drawn.low < ratio.value < drawn.high


def test_quantiles_of_replicates_are_those_of_one_more_draw(rng):
    # the score of the log and 199 replicates are exchangeable: it is within the ranks 5 and 195 with chance 190 / 200
    influence = rng.normal(size=40)
    influence -= influence.mean()
    chunks = Resamples(40, 199, rng)
    (counts,) = list(chunks)
    means = counts @ influence / 40.0
    scores = np.sort(means / np.sqrt((counts @ influence**2 / 40.0 - means**2) / 40.0))
    found = bootstrap_mean(1.0, influence, 0.0, chunks, 0.95)
    own = np.sqrt(influence @ influence / 40.0**2)  # the error with n in place of n - 1
    assert (found.low, found.high) == pytest.approx((1.0 - scores[194] * own, 1.0 - scores[4] * own), rel=1e-12)


def test_chunks_that_are_drawn_again_are_the_same(rng, monkeypatch):
    seed = int(rng.integers(2**32))
    kept = list(Resamples(50, 20, np.random.default_rng(seed)))
    monkeypatch.setattr("prudent.evaluation.episodes.intervals.KEPT", 10)
    again = Resamples(50, 20, np.random.default_rng(seed))
    for one, other in zip(kept, list(again), strict=True):
        assert (one == other).all()
    assert (np.concatenate(list(again)).sum(axis=1) == 50).all()


@pytest.mark.slow
def test_intervals_of_the_recommended_estimate_cover():
    """95% intervals cover in 91 to 99% of 300 logs (false alarm 1e-3 at 95%)."""
    rng = np.random.default_rng(11)
    covered = []
    for _ in range(300):
        found = evaluated(simulated(300, rng), table_of(BETTER))
        assert found.recommended is not None
        row = found.loc[found.recommended]
        covered.append(row["low"] <= true_value(BETTER) <= row["high"])
    assert 0.91 <= np.mean(covered) <= 0.99


# -- the verdict -------------------------------------------------------------------------------------------


def test_verdict_of_a_log_that_can_answer(rng):
    found = evaluated(simulated(600, rng), table_of(BETTER))
    assert found.answers
    assert found.recommended == "wdr"
    assert found.table["answers"].all()
    for name in found.index:
        assert abs(found.loc[name, "estimate"] - true_value(BETTER)) < 5.5 * found.loc[name, "error"], name
    assert isinstance(found, EpisodeEstimates)
    assert "take wdr" in repr(found)
    assert found.to_xarray().sizes == {"estimator": 9, "step": 5, "measure": 6}
    assert len(found.plot().axes) == len(found.plot("steps").axes) == 1
    assert found.by_step["ess"].is_monotonic_decreasing


def test_verdict_where_weights_collapse(rng):
    log = simulated(400, rng, steps=25)
    sure = {"calm": "wait", "busy": "work", "jammed": "work"}
    with warned(OverlapWarning, "overlap"):
        found = pr.off_policy(log, sure, discount=0.99, draws=100)
    assert not found.answers
    assert not found.table["answers"].any()
    assert found.loc["fqe", "code"] == "unchecked"
    trusting = evaluated(log, sure, discount=0.99, markov=True)
    assert trusting.recommended == "fqe"
    policy = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert abs(trusting.loc["fqe", "estimate"] - true_value(policy, 0.99, 25)) < 5.0 * trusting.loc["fqe", "error"]


def test_verdict_of_actions_that_the_log_never_shows(rng):
    log = simulated(200, rng)
    found = evaluated(log, {s: {"wait": 0.5, "work": 0.3, "call": 0.2} for s in STATES})
    assert not found.answers
    assert set(found["code"]) == {"uncovered"}


def test_verdict_of_wrong_propensities(rng):
    log = simulated(1000, rng)
    log["propensity"] *= 0.8  # so that weights average 1.25 ** (t + 1)
    found = evaluated(log, table_of(BETTER))
    assert set(found["code"].iloc[:6]) == {"mean-weight"}
    assert not found.answers


def test_states_that_are_not_markov_are_found_out(rng):
    """What happens depends on the first action, which the state does not tell."""
    n = 3000
    first, second = rng.integers(0, 2, (2, n))
    log = pd.DataFrame({"episode": np.repeat(np.arange(n), 2), "state": ["start", "later"] * n})
    log["action"] = np.stack([first, second], axis=1).reshape(-1)
    log["reward"] = np.stack([np.zeros(n), np.where(first == second, 1.0, 0.0)], axis=1).reshape(-1)
    log["propensity"] = 0.5
    found = evaluated(log, {"start": {0: 0.2, 1: 0.8}, "later": {0: 0.2, 1: 0.8}}, discount=1.0)
    assert found.loc["wdr", "estimate"] == pytest.approx(0.68, abs=5.0 * found.loc["wdr", "error"])
    assert found.loc["fqe", "code"] == found.loc["mis", "code"] == "model-check"
    assert found.recommended == "wdr"


def test_a_process_that_need_not_end(rng):
    """At discount 1 a policy under which the process never ends has no value in the table of states."""
    n = 60
    rounds = rng.geometric(0.5, n)  # of states a and b, until action 1 in b ends the episode
    log = pd.DataFrame(
        {"episode": np.repeat(np.arange(n), 2 * rounds), "state": ["a", "b"] * rounds.sum(), "reward": 1.0}
    )
    last = log["episode"] != log["episode"].shift(-1)
    log["action"] = last.astype(int)
    found = evaluated(log, {"a": 0, "b": 0}, discount=1.0)
    assert found.loc["fqe", "code"] == found.loc["model", "code"] == "never-ends"
    assert not found.answers
    discounted = evaluated(log, {"a": 0, "b": 0}, discount=0.9)
    assert discounted.loc["fqe", "estimate"] == pytest.approx(10.0)
    logged = evaluated(log, "logged", discount=1.0)
    assert logged.loc["fqe", "estimate"] == pytest.approx(2.0 * rounds.mean())


def test_faults_of_a_log_are_named_with_their_place(rng):
    """A row that is there twice, a missing episode, the row of a wrong action, and where a function failed."""
    frame, asked = simulated(30, rng), {"discount": 0.9}
    twice = pd.concat([frame, frame.iloc[[4]]], ignore_index=True)
    with refused(DataError, "duplicate-row", row=150) as caught:
        pr.off_policy(twice, "work", **asked)
    assert "step is 0, which episode 4 has already" in str(caught.value)
    lost = frame.astype({"episode": object})
    lost.loc[3, "episode"] = np.nan
    with refused(DataError, "unknown-episode", row=3) as caught:
        pr.off_policy(lost, "work", **asked)
    assert "episode is missing (nan)" in str(caught.value)
    frame.loc[77, "load"] = 99.0
    with refused(ParameterError, "unknown-action", argument="target", value="jump") as caught:
        pr.off_policy(frame, lambda row: "jump" if row["load"] == 99.0 else "work", **asked)
    assert "in log row 77 gives the action 'jump'" in str(caught.value)
    with refused(ParameterError, "policy-failed", argument="target", row=0) as caught:
        pr.off_policy(frame, lambda row: row["sev"], **asked)
    assert all(name in str(caught.value) for name in frame)
