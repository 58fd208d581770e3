"""What every solution can do, over a registry of solutions of every kind."""

import copy
import dataclasses
import io
import json
import pickle

import numpy as np
import pandas as pd
import pytest
from refusals import refused, warned

import prudent as pr

NAMES = {"states": ["low", "mid", "high"], "actions": ["stay", "go"]}


def uncertain(discount=0.9, **names):
    reward = [[0.0, 0.1], [0.5, 0.2], [1.0, 0.8]]
    return pr.UncertainMDP.direct(reward, discount, **(names or NAMES))


def problem(alpha=0.9, **keywords):
    counts = np.random.default_rng(1).uniform(0.5, 9.0, (6, 3))
    return pr.BayesianRiskMDP(
        uncertain(), pr.DirichletPosterior(counts, prior=0.5 * np.ones((6, 3))), alpha, **keywords
    )


def problem_with_durations(alpha=0.9):
    rng, pairs = np.random.default_rng(3), np.repeat(np.arange(6), 3)
    model = pr.UncertainMDP.from_entries(
        np.arange(6).reshape(3, 2),
        pairs,
        np.tile(np.arange(3), 6),
        np.tile(np.arange(3), 6),
        rng.normal(size=18),
        0.9,
        duration=rng.integers(1, 5, 18).astype(float),
        **NAMES,
    )
    return pr.BayesianRiskMDP(model, pr.DirichletPosterior(rng.uniform(0.5, 9.0, (6, 3))), alpha)


def known():
    return problem().mean_mdp()


HALF = np.full((3, 2), 0.5)
SPLIT = pr.MDP(np.eye(3)[[0, 1, 1]][:, None], [1, 2, 3], 0.9)
SOLUTIONS = {
    "known": lambda: pr.solve(known()),
    "known, unnamed": lambda: pr.solve(pr.MDP(known().transition, known().reward, 0.9)),
    "known, by sweeps": lambda: pr.solve(known(), sweeps=3),
    "known, evaluated": lambda: pr.evaluate(known(), ["go"] * 3),
    "known, random policy": lambda: pr.evaluate(known(), HALF),
    "known, horizon": lambda: pr.solve(known(), horizon=4),
    "known, horizon, random policy": lambda: pr.evaluate(known(), HALF, horizon=4),
    "entropic": lambda: pr.solve(known(), objective=pr.Entropic(0.5), start="low"),
    "EVaR with a horizon": lambda: pr.solve(known(), objective=pr.EVaR(0.5), horizon=3),
    "entropic, random policy": lambda: pr.evaluate(known(), HALF, objective=pr.Entropic(0.5), horizon=3),
    "exact": lambda: problem().solve(),
    "exact, neutral": lambda: problem(0.0).solve(),
    "exact, optimistic": lambda: problem(-0.5).solve(),
    "exact, evaluated": lambda: problem().evaluate(HALF),
    "exact, horizon": lambda: problem().solve(horizon=3, terminal_value={"high": 1.0}),
    "quantile": lambda: pr.BayesianRiskMDP(uncertain(), np.ones((6, 3)), risk=pr.VaR(0.8)).solve(),
    "draws": lambda: problem().solve(draws=40, rng=1),
    "given draws": lambda: pr.BayesianRiskMDP(
        uncertain(), draws=np.random.default_rng(2).dirichlet(np.ones(3), (20, 6)), alpha=0.5
    ).solve(),
    "undiscounted": lambda: pr.solve(pr.MDP([[[0.5, 0.5], [0.0, 1.0]], [[0.0, 1.0]] * 2], [[1, 2], [0, 0]], 1.0)),
    "average": lambda: pr.solve(known(), objective="average"),
    "average, random policy": lambda: pr.evaluate(known(), HALF, objective="average"),
    "average, careful": lambda: problem().solve(objective="average"),
    "average, several gains": lambda: pr.solve(
        pr.MDP(np.eye(3)[[0, 1, 1]][:, None], [1, 2, 3], 0.9), objective="average"
    ),
    "durations": lambda: problem_with_durations(0.0).solve(),
    "durations, careful": lambda: problem_with_durations().solve(),
    "durations, horizon": lambda: problem_with_durations(0.0).solve(horizon=3),
    "durations, careful, horizon": lambda: problem_with_durations().solve(horizon=3),
    "durations, average": lambda: problem_with_durations(0.0).solve(objective="average"),
    "durations, average, careful": lambda: problem_with_durations().solve(objective="average"),
    "at one time": lambda: pr.solve(known(), horizon=4).at(1),
}
every_solution = pytest.mark.parametrize("kind", SOLUTIONS)


@every_solution
def test_shapes_agree(kind):
    solution = SOLUTIONS[kind]()
    lead = () if solution.horizon is None else (solution.horizon,)
    states = solution.value.shape[-1]
    assert solution.value.shape == ((states,) if not lead else (lead[0] + 1, states))
    assert solution.chosen.shape == (*lead, states)
    assert solution.policy.shape[: len(lead) + 1] == (*lead, states)
    assert solution.q.shape[:-1] == (*lead, states)
    assert solution.error_bound >= 0.0
    assert isinstance(solution.converged, bool)
    assert solution.iterations >= 1
    names = solution.policy_names
    assert len(names) == (states if not lead else lead[0])
    assert solution.policy_at(0).shape[0] == states


@every_solution
def test_tables_files_and_words(kind, tmp_path):
    solution = SOLUTIONS[kind]()
    rows = solution.value.shape[-1] * (solution.horizon or 1)
    table = solution.to_pandas()
    assert len(table) == rows
    assert {"state", "action", "value"} <= set(table)
    solution.to_csv(tmp_path / "policy.csv")
    assert len(pd.read_csv(tmp_path / "policy.csv")) == rows
    record = json.loads(solution.to_json(tmp_path / "policy.json"), parse_constant=pytest.fail)
    assert [row["value"] for row in record["policy"]] == table["value"].tolist()
    assert record["certificate"]["error_bound"] == solution.error_bound
    data = solution.to_xarray()
    assert data["value"].shape == solution.value.shape
    assert data.attrs["error_bound"] == solution.error_bound
    text = repr(solution)
    assert text.startswith("Solution(")
    assert solution.message in text
    assert "\n" not in text


@every_solution
def test_figures(kind):
    figure = SOLUTIONS[kind]().plot()
    figure.savefig(io.BytesIO())
    assert figure.axes[0].get_title()


@every_solution
def test_an_objective_is_in_every_record(kind):
    solution = SOLUTIONS[kind]()
    record = json.loads(solution.to_json())["certificate"]
    assert ("objective" in record) == (solution.objective is not None)
    assert np.isnan(solution.objective_value) == (solution.objective is None)
    if solution.objective is not None:
        assert repr(solution.objective) in repr(solution)
        assert solution.start.sum() == pytest.approx(1.0)


@every_solution
def test_an_explanation_or_a_clear_refusal(kind):
    solution = SOLUTIONS[kind]()
    state = 0 if solution.states is None else solution.states[0]
    if solution.horizon is not None and solution.objective is not None:
        with refused(pr.errors.ParameterError, "time-axis", method="explain"):
            solution.explain(state)
    elif solution.problem is None:
        with refused(pr.errors.ParameterError, "no-problem"):
            solution.explain(state)
    else:
        why = solution.explain(state)
        assert why.state == state
        assert why.actions[0].action == why.action
        assert len(why.to_pandas()) == len(solution.actions)
        assert str(why).startswith("In ")
        if solution.horizon is not None:
            last = solution.explain(state, time=solution.horizon - 1)
            q = solution.q[-1, 0]
            assert [view.value for view in last.actions] == pytest.approx(
                [q.max(), q.min()]
                if solution.policy.ndim == 2
                else sorted(q, key=lambda x: x != q[solution.chosen[-1, 0]]),
                abs=1e-9,
            )
        else:
            with refused(pr.errors.ParameterError, "no-time-axis", argument="time"):
                solution.explain(state, time=0)
        why.plot().savefig(io.BytesIO())


@every_solution
def test_copies_are_equal_and_fields_cannot_be_set(kind):
    solution = SOLUTIONS[kind]()
    for twin in (copy.copy(solution), copy.deepcopy(solution), pickle.loads(pickle.dumps(solution))):
        np.testing.assert_array_equal(twin.value, solution.value)
        np.testing.assert_allclose(twin.q, solution.q, rtol=1e-12)  # rows start where the last backup ended
    with pytest.raises(dataclasses.FrozenInstanceError):
        solution.value = np.zeros(3)


@every_solution
def test_a_solution_is_a_policy(kind):
    solution = SOLUTIONS[kind]()
    if solution.states != tuple(NAMES["states"]):
        pytest.skip("of another model")
    again = pr.evaluate(known(), solution, horizon=solution.horizon)
    np.testing.assert_allclose(again.policy.sum(), solution.policy.sum())


@every_solution
def test_results_never_solve(kind, monkeypatch):
    """Reading a result makes at most backups: no iteration starts."""
    solution = SOLUTIONS[kind]()

    def fail(*arguments, **keywords):
        raise AssertionError("a result has solved something")

    monkeypatch.setattr("prudent.planning.newton.Iteration.to_tolerance", fail)
    monkeypatch.setattr("prudent.planning.newton.Iteration.sweep", fail)
    solution.q, solution.to_pandas(), solution.to_json(), solution.to_xarray(), solution.plot()
    if solution.horizon is None and solution.problem is not None:
        solution.explain(0 if solution.states is None else solution.states[0])


def test_other_solutions_add_their_columns():
    careful = problem()
    solution, mean = careful.solve(), careful.mean_mdp()
    table = solution.to_pandas(neutral=pr.solve(mean), at_mean=pr.evaluate(mean, solution))
    extra = [name for name in table if name not in set(solution.to_pandas())]
    assert extra == ["posterior_mean_value", "differs_from_neutral"]
    assert (table["posterior_mean_value"] > table["value"]).all()


@pytest.mark.parametrize(
    "call",
    [
        lambda: pr.solve(known(), max_iterations=1),
        lambda: pr.evaluate(known(), [0, 0, 0], tol=1e-300, method="value_iteration", max_iterations=2),
        lambda: problem().solve(max_iterations=1),
        lambda: problem().evaluate([0, 0, 0], draws=10, rng=1, method="value_iteration", max_iterations=2),
        lambda: pr.solve(problem(), max_iterations=1),
    ],
)
def test_warnings_point_at_the_caller(call):
    with warned(pr.errors.ConvergenceWarning, "iteration-cap") as caught:
        call()
    assert [warning.filename for warning in caught] == [__file__]


def test_one_state_of_a_large_model_is_explained_without_the_others():
    """No dense arrays [S, A, K], and no names of outcomes but those of the state."""
    environment = pr.envs.random_model(3_000, 3, branching=4, rng=0)
    model = environment.model
    solution = pr.BayesianRiskMDP(model, model.prior(), 0.5).solve(tol=1e-2, threads=1)
    solution.explain(5)
    assert not {"next_state", "reward"} & set(vars(model))  # the dense arrays, which are made when they are read
