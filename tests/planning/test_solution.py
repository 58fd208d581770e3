"""Solutions as tables, files and figures."""

import dataclasses
import datetime
import io
import json

import numpy as np
import pandas as pd
import pytest
from refusals import refused

import prudent as pr


def clinic():
    """Three states with names, one of them with a single action; a log and its posterior."""
    model = pr.UncertainMDP.direct(
        [[0.0, -0.1], [1.0, 0.8], [0.0, 0.0]],
        0.9,
        admissible=[[True, True], [True, True], [True, False]],
        states=["ill", "well", "gone"],
        actions=["wait", "treat"],
    )
    log = [("ill", "wait", "ill")] * 20 + [("ill", "wait", "well")] * 10 + [("ill", "treat", "well")] * 2
    log += [("well", "wait", "well")] * 15 + [("well", "wait", "ill")] * 5 + [("gone", "wait", "gone")] * 9
    return model, pr.DirichletPosterior.from_log(model, log, prior=model.prior(0.5))


def test_the_table_holds_what_each_column_says():
    model, posterior = clinic()
    problem = pr.BayesianRiskMDP(model, posterior, 0.9)
    solution, neutral = problem.solve(), pr.solve(problem.mean_mdp())
    at_mean = pr.evaluate(problem.mean_mdp(), solution)
    table = solution.to_pandas(neutral=neutral, at_mean=at_mean).set_index("state")
    rows = np.arange(3)
    mean = model.mdp(posterior.mean())
    chain = mean.dense()[rows, solution.policy]
    expected = np.linalg.solve(np.eye(3) - 0.9 * chain, mean.reward[rows, solution.policy])
    np.testing.assert_allclose(table["posterior_mean_value"], expected, rtol=1e-9)
    np.testing.assert_array_equal(table["value"], solution.value)
    assert (table["value"] < table["posterior_mean_value"]).all()
    assert table["action"].tolist() == list(solution.policy_names)
    assert pd.isna(table.loc["gone", "runner_up"])
    assert np.isnan(table.loc["gone", "gap"])
    for state in ("ill", "well"):
        s = model.state_index(state)
        assert table.loc[state, "gap"] == pytest.approx(abs(solution.q[s, 0] - solution.q[s, 1]))
        assert {table.loc[state, "runner_up"], table.loc[state, "action"]} == {"wait", "treat"}
    counted = {"wait": 30.0, "treat": 2.0}
    assert table.loc["ill", "evidence"] == counted[table.loc["ill", "action"]]
    assert table.loc["ill", "total_count"] == counted[table.loc["ill", "action"]] + 1.5
    neutral = pr.BayesianRiskMDP(model, posterior, 0.0).solve()
    assert table["differs_from_neutral"].tolist() == (neutral.policy != solution.policy).tolist()
    assert table["differs_from_neutral"].any()  # two lucky treatments convince the neutral policy only


def test_equally_good_actions_do_not_differ_from_neutral():
    model = pr.UncertainMDP.direct([[1.0, 1.0]], 0.9)
    problem = pr.BayesianRiskMDP(model, [[1.0], [1.0]], 0.9)
    table = problem.evaluate([1]).to_pandas(neutral=pr.solve(problem.mean_mdp()))
    assert not table["differs_from_neutral"].any()
    assert table["gap"].tolist() == [0.0]


def test_a_known_model_has_the_columns_that_make_sense():
    mdp = pr.MDP([[[1.0], [1.0]]], [[1.0, 2.0]], 0.5)
    table = pr.solve(mdp).to_pandas()
    assert list(table) == ["state", "action", "value", "runner_up", "gap"]
    assert table.iloc[0].tolist() == [0, 1, 4.0, 0, 1.0]
    given = pr.evaluate(mdp, [0]).to_pandas()
    assert given.iloc[0].tolist() == [0, 0, 2.0, 1, -1.0]


def test_an_evaluated_policy_is_compared_with_the_best_other_action():
    model, posterior = clinic()
    problem = pr.BayesianRiskMDP(model, posterior, 0.9)
    best = problem.solve()
    other = [1 - best.policy[0], best.policy[1], 0]
    table = problem.evaluate(other).to_pandas()
    assert table["gap"][0] < 0.0
    draws = posterior.sample(50, rng=0)
    assert problem.evaluate(other, draws=draws).to_pandas()["gap"][0] < 0.0
    bent = pr.Spectral(lambda u: 1 - (1 - u) ** 2)  # it has no exact form
    free = pr.BayesianRiskMDP(model, posterior, risk=bent).evaluate(other, draws=50, rng=0).to_pandas()
    assert free["gap"].isna().all()  # the draws are gone, and with them what other actions are worth


def test_a_policy_with_probabilities_shows_its_likeliest_action():
    model, posterior = clinic()
    solution = pr.BayesianRiskMDP(model, posterior, 0.9).solve()
    mixed = dataclasses.replace(solution, policy=np.array([[0.3, 0.7], [0.6, 0.4], [1.0, 0.0]]))
    assert mixed.policy_names == ({"wait": 0.3, "treat": 0.7}, {"wait": 0.6, "treat": 0.4}, {"wait": 1.0})
    assert mixed.to_pandas()["action"].tolist() == ["treat", "wait", "wait"]
    assert json.loads(mixed.to_json())["policy"][0]["probabilities"] == [0.3, 0.7]
    assert mixed.to_xarray().policy.dims == ("state", "action")
    assert mixed.explain("ill").probability == 0.7


def test_a_terminal_state_has_no_action():
    model, posterior = clinic()
    solution = dataclasses.replace(
        pr.BayesianRiskMDP(model, posterior, 0.9).solve(), terminal=np.array([False, False, True])
    )
    assert solution.policy_names[2] is None
    assert solution.to_pandas()["action"].isna().tolist() == [False, False, True]
    assert json.loads(solution.to_json())["policy"][2]["action"] is None
    with refused(pr.errors.ParameterError, "terminal-state", state="gone"):
        solution.explain("gone")
    solution.plot().savefig(io.BytesIO())


def test_a_csv_file_reads_back_as_the_table(tmp_path):
    model, posterior = clinic()
    solution = pr.BayesianRiskMDP(model, posterior, 0.9).solve()
    solution.to_csv(tmp_path / "deep" / "policy.csv")
    back = pd.read_csv(tmp_path / "deep" / "policy.csv")
    pd.testing.assert_frame_equal(back, solution.to_pandas(), check_dtype=False)


def test_a_json_file_holds_policy_values_certificate_and_names(tmp_path):
    day = datetime.date(2024, 2, 29)
    mdp = pr.MDP(
        np.eye(3)[:, None],
        [1.0, 2.0, 3.0],
        0.5,
        states=[("a", (1, 2.5)), day, float("inf")],
        actions=["Größe"],
    )
    solution = pr.solve(mdp)
    text = solution.to_json(tmp_path / "policy.json")
    assert (tmp_path / "policy.json").read_text(encoding="utf-8") == text
    whole = json.loads(text, parse_constant=pytest.fail)
    assert [row["state"] for row in whole["policy"]] == [["a", [1, 2.5]], "2024-02-29", "inf"]
    assert [row["value"] for row in whole["policy"]] == solution.value.tolist()
    assert whole["actions"] == ["Größe"]
    assert whole["certificate"]["error_bound"] == solution.error_bound
    assert whole["certificate"]["converged"] is True
    assert whole["discount"] == 0.5
    risky = pr.BayesianRiskMDP(*clinic(), 0.9).solve().to_json()
    assert json.loads(risky)["risk"] == "CVaR(alpha=0.9)"


def test_a_file_that_cannot_be_written_is_our_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(pr.errors.StoreError):
        pr.solve(pr.MDP([[[1.0]]], [[1.0]], 0.5)).to_json(tmp_path / "file" / "policy.json")


@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize(("states", "actions"), [(1, 1), (10, 3), (41, 2), (1000, 12)])
def test_figures_of_few_and_many_states(states, actions, names):
    rng = np.random.default_rng(0)
    model = pr.envs.random_model(states, actions, branching=min(3, states), rng=rng).mdp()
    if names:
        model = pr.MDP(
            model.transition,
            model.reward,
            0.9,
            states=[("ward $", s) for s in range(states)],
            actions=[f"a very long name of an action, number {a}" for a in range(actions)],
        )
    canvas = pr.solve(model).plot()
    canvas.savefig(io.BytesIO())
    assert canvas.axes[0].get_title()


def test_a_solution_made_by_hand_says_what_is_missing():
    solution = dataclasses.replace(pr.solve(pr.MDP([[[1.0]]], [[1.0]], 0.5)), problem=None)
    assert list(solution.to_pandas()) == ["state", "action", "value", "runner_up", "gap"]
    assert "discount" not in json.loads(solution.to_json())
    with refused(pr.errors.ParameterError, "no-problem"):
        solution.explain(0)
