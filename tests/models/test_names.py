"""Nothing silently wrong: what has a name goes by its name, in posteriors, policies and logs."""

import pickle

import numpy as np
import pandas as pd
import pytest
from refusals import refused

import prudent as pr
from prudent.errors import DataError, ModelError, ParameterError, PosteriorError


def dice(faces=(1, 2, 3, 4)):
    return pr.UncertainMDP.from_dynamics(lambda state, action, eyes: (0, eyes), [0], ["roll"], faces, 0.9)


def ward(**options):
    """Two named states, two named actions, each pair its own source."""
    return pr.UncertainMDP.direct(
        [[0.0, 0.1], [1.0, 0.9]], 0.9, states=["ill", "well"], actions=["wait", "treat"], **options
    )


# --- posteriors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("many", [list, np.array, pd.Series, tuple])
def test_outcomes_are_labels_and_not_positions(many):
    posterior = pr.DirichletPosterior.for_model(dice())
    posterior.update(source=0, outcome=many([1, 2, 3]))
    np.testing.assert_array_equal(posterior.counts, [[2, 2, 2, 1]])
    with refused(DataError, "unknown-outcome", value=0, index=(1,)):
        posterior.update(0, many([1, 0]))
    with refused(DataError, "unknown-outcome", value=0, index=(0,)):
        posterior.update(0, 0)
    np.testing.assert_array_equal(posterior.counts, [[2, 2, 2, 1]])
    posterior.update(0, many([0, 3]), indices=True)
    np.testing.assert_array_equal(posterior.counts, [[3, 2, 2, 2]])


def test_shifted_labels_never_land_one_place_off():
    """Labels 1..n and positions 0..n-1 overlap: every count must be where its label is."""
    for faces in ([1, 2, 3, 4], [0, 1, 2, 3], [4, 3, 2, 1], ["4", "3", "2", "1"], [True, False], [(1, 2), (0, 1)]):
        posterior = pr.DirichletPosterior.for_model(words(faces))
        for k, face in enumerate(faces):
            expected = posterior.counts.copy()
            expected[0, k] += 1
            np.testing.assert_array_equal(posterior.updated(0, face).counts, expected)
            np.testing.assert_array_equal(posterior.updated(0, [face]).counts, expected)


def words(faces):
    return pr.UncertainMDP.from_dynamics(lambda state, action, face: (0, 0.0), [0], ["roll"], faces, 0.9)


def test_a_direct_model_calls_sources_by_pair_and_outcomes_by_next_state():
    model = ward(support=[[[1, 1], [0, 1]], [[1, 1], [0, 1]]])
    assert model.sources == (("ill", "wait"), ("ill", "treat"), ("well", "wait"), ("well", "treat"))
    assert model.outcomes == (("ill", "well"), ("well",), ("ill", "well"), ("well",))
    posterior = pr.DirichletPosterior.for_model(model)
    posterior.update(("ill", "treat"), "well").update([("well", "wait"), ("ill", "wait")], ["well", "ill"], [3, 0.5])
    np.testing.assert_array_equal(posterior.counts, [[1.5, 1], [2, 0], [1, 4], [1, 0]])
    log = [("ill", "treat", "well"), *[("well", "wait", "well")] * 3]
    np.testing.assert_array_equal(posterior.counts[1:], pr.DirichletPosterior.from_log(model, log).counts[1:])
    with refused(DataError, "unknown-source", value=3):
        posterior.update(3, "well")
    with refused(DataError, "unknown-outcome", value="ill"):
        posterior.update(("ill", "treat"), "ill")
    assert posterior.sources == model.sources


def test_packed_next_states_are_labels_even_without_names():
    """With a support, outcome 0 of a pair may be state 2: the label is the state."""
    model = pr.UncertainMDP.direct(np.zeros((3, 1)), 0.9, support=[[[0, 1, 1]], [[1, 0, 0]], [[1, 1, 1]]])
    posterior = pr.DirichletPosterior.for_model(model).update((0, 0), [2, 2, 1])
    np.testing.assert_array_equal(posterior.counts[0], [2, 3, 0])
    with refused(DataError, "unknown-outcome", value=0):
        posterior.update((0, 0), 0)
    rows = [(0, 0, 2, 2), (2, 0, 1, 1)]
    np.testing.assert_array_equal(model.count(rows, model.prior()), [[1, 2, 0], [1, 0, 0], [1, 2, 1]])
    with refused(DataError, "unknown-outcome", column="outcome", row=0):
        model.count([(0, 0, 1, 0)], model.prior())


def test_sources_of_dynamics_and_tables_have_names():
    noise = {"tide": ["in", "out"], "wind": ["calm", "gust", "storm"]}
    model = pr.UncertainMDP.from_dynamics(
        lambda s, a, drawn: (s, 0.0), [0, 1], ["row"], noise, 0.9, source=lambda s, a: "wind" if s else "tide"
    )
    posterior = pr.DirichletPosterior.for_model(model).update(["wind", "tide", "wind"], ["storm", "in", "storm"])
    np.testing.assert_array_equal(posterior.counts, [[2, 1, 0], [1, 1, 3]])
    table = pd.DataFrame({"s": [0, 0], "a": [5, 5], "outcome": ["x", "y"], "next": [0, 0], "r": [1, 2], "source": "b"})
    assert pr.UncertainMDP.from_table(table, 0.9).sources == ("b",)
    agent = pr.PosteriorSamplingAgent(model, rng=1)
    assert agent.posterior.sources == model.sources == ("tide", "wind")


def test_posteriors_with_names_of_their_own():
    posterior = pr.DirichletPosterior([[1, 1, 0], [1, 1, 1]], sources=["a", "b"], outcomes=["xy", "xyz"])
    posterior.update(["a", "b"], "y")
    np.testing.assert_array_equal(posterior.counts, [[1, 2, 0], [1, 2, 1]])
    assert posterior.merge(posterior.copy()).outcomes == (("x", "y"), ("x", "y", "z"))
    other = pr.DirichletPosterior([[1, 1, 0], [1, 1, 1]], sources=["a", "c"], outcomes=["xy", "xyz"])
    with refused(PosteriorError, "name-mismatch"):
        posterior.merge(other)
    with refused(PosteriorError, "name-count", argument="outcomes"):
        pr.DirichletPosterior([[1, 1, 0], [1, 1, 1]], outcomes=["xy", "xy"])
    with refused(PosteriorError, "name-count", argument="outcomes"):
        pr.DirichletPosterior([[1, 1], [1, 1]], outcomes=["xy"])
    with refused(ModelError, "duplicate-name"):
        pr.DirichletPosterior([[1, 1]], outcomes=[["x", "x"]])


def test_a_posterior_of_another_model_is_refused(tmp_path):
    """Two models of the same shape: only the names tell them apart."""
    model = ward()
    turned = pr.UncertainMDP.direct([[0.0, 0.1], [1.0, 0.9]], 0.9, states=["well", "ill"], actions=["wait", "treat"])
    posterior = pr.DirichletPosterior.for_model(model).update(("ill", "treat"), "well", 5)
    with refused(PosteriorError, "other-names"):
        pr.BayesianRiskMDP(turned, posterior, alpha=0.5)
    posterior.save(tmp_path / "p")
    again = pr.DirichletPosterior.load(tmp_path / "p")
    pr.BayesianRiskMDP(model, again, alpha=0.5)
    pr.BayesianRiskMDP(ward(), again.copy(), alpha=0.5)
    pr.BayesianRiskMDP(turned, posterior.counts, alpha=0.5)  # numbers alone have no names
    copy = pickle.loads(pickle.dumps(posterior))
    assert (copy.sources, copy == posterior, copy.naming.same_as(posterior.naming)) == (model.sources, True, True)


def test_updated_leaves_the_old_one_alone():
    made = [
        (pr.DirichletPosterior([1.0, 1.0]), (0, 1)),
        (pr.posteriors.BetaPosterior([1.0], 1.0), (0, 1)),
        (pr.posteriors.NormalPosterior([0.0], 1.0, 1.0), (0, 2.0)),
        (pr.posteriors.LinearGaussianPosterior(1), ([1.0], 2.0)),
    ]
    for posterior, observed in made:
        before = posterior.copy()
        new = posterior.updated(*observed)
        assert posterior == before
        assert new != before
        assert posterior.update(*observed) is posterior
        assert new == posterior


# --- policies --------------------------------------------------------------------------------------------


def named_mdp():
    return pr.MDP(
        np.full((3, 2, 3), 1 / 3), np.arange(6.0).reshape(3, 2), 0.9, states=["a", "b", "c"], actions=["stay", "go"]
    )


@pytest.mark.parametrize(
    "policy",
    [
        {"c": "go", "a": "go", "b": "stay"},
        pd.Series({"c": "go", "a": "go", "b": "stay"}),
        pd.Series(["go", "go", "stay"], index=pd.Index(["c", "a", "b"], name="state")),
        ["go", "stay", "go"],
        np.array([1, 0, 1]),
    ],
    ids=str,
)
def test_policies_go_by_the_name_of_the_state(policy):
    mdp = named_mdp()
    assert mdp.policy_indices(policy).tolist() == [1, 0, 1]
    np.testing.assert_array_equal(pr.evaluate(mdp, policy).value, pr.evaluate(mdp, [1, 0, 1]).value)


def test_solutions_are_policies():
    mdp = named_mdp()
    solution = pr.solve(mdp)
    for policy in (solution, solution.to_xarray().policy, dict(zip("abc", solution.policy_names, strict=True))):
        np.testing.assert_array_equal(mdp.policy_indices(policy), solution.policy)
    turned = pr.MDP(np.full((3, 2, 3), 1 / 3), np.zeros((3, 2)), 0.9, states=["c", "b", "a"], actions=["go", "stay"])
    assert turned.policy_indices(solution).tolist() == [1 - a for a in solution.policy[::-1].tolist()]
    plain = pr.MDP(np.full((3, 2, 3), 1 / 3), np.zeros((3, 2)), 0.9)
    assert plain.policy_indices(pr.solve(plain)).tolist() == [0, 0, 0]
    with refused(ParameterError, "unknown-state", argument="a state of policy"):
        plain.policy_indices(solution)


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ({"a": "go", "b": "go"}, "missing-state"),
        ({"a": "go", "b": "go", "c": "go", "d": "go"}, "unknown-state"),
        ({0: "go", 1: "go", 2: "go"}, "unknown-state"),
        ({"a": "go", "b": 1, "c": "go"}, "unknown-action"),
        (pd.Series(["go"] * 4, index=list("abca")), "duplicate-name"),
        (pd.Series(["go"] * 3), "unknown-state"),
        ({}, "missing-state"),
    ],
)
def test_policies_that_miss_or_add_states_are_refused(policy, code):
    with refused(ParameterError, code):
        named_mdp().policy_indices(policy)


def test_a_list_does_not_mix_numbers_that_are_names_with_positions():
    mdp = pr.MDP(np.full((2, 3, 2), 0.5), np.zeros((2, 3)), 0.9, actions=[1, 2, 3])
    assert mdp.policy_indices([1, 3]).tolist() == [0, 2]
    with refused(ParameterError, "unknown-action", argument="policy[0]"):
        mdp.policy_indices([0, 1])


# --- counts in logs --------------------------------------------------------------------------------------


def test_a_count_column_is_a_row_that_often():
    model = pr.UncertainMDP([[0], [0]], [[[0, 0, 1]], [[1, 0, 0]]], np.zeros((2, 1)), 0.9)  # ambiguous next states
    rows = [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1)]
    times = [3, 2, 0, 4]
    long = [row for row, n in zip(rows, times, strict=True) for _ in range(n)]
    prior = np.array([[1.0, 2.0, 0.5]])
    frame = pd.DataFrame(rows, columns=["state", "action", "next_state"])
    for name in ("count", "Count"):
        np.testing.assert_allclose(model.count(frame.assign(**{name: times}), prior), model.count(long, prior))
    for name in ("weight", "n", "N", "freq", "counts", "frequency"):  # only if the caller says so
        np.testing.assert_array_equal(model.count(frame.assign(**{name: times}), prior), model.count(rows, prior))
        told = model.count(frame.assign(**{name: times}), prior, columns={"count": name})
        np.testing.assert_allclose(told, model.count(long, prior))
    halves = frame.assign(count=np.array(times) / 2)
    assert model.count(halves, prior).sum() == pytest.approx(3.5 + 4.5)
    np.testing.assert_array_equal(
        model.count(frame.assign(count=70.0), prior, columns={"count": None}), model.count(rows, prior)
    )
    for bad in (-1, np.nan, None, "many"):
        with refused(DataError, "negative" if bad == -1 else "not-finite", row=2, column="count"):
            model.count(frame.assign(count=[1, 1, bad, 1]), prior)
    series = pd.Series(times, index=pd.MultiIndex.from_tuples(rows, names=["state", "action", "next_state"]))
    np.testing.assert_allclose(model.count(series, prior), model.count(long, prior))
    grouped = pd.DataFrame(long, columns=["state", "action", "next_state"]).value_counts(sort=False)
    by_hand = pr.DirichletPosterior.from_log(model, grouped, prior=prior)
    assert by_hand == pr.DirichletPosterior.from_log(model, long, prior=prior)


def test_errors_name_the_index_label_besides_the_row():
    log = pd.DataFrame(
        {"state": ["ill", "ill"], "action": ["wait", "fly"], "next_state": ["well", "ill"]}, index=["mon", "tue"]
    )
    with refused(DataError, "unknown-action", column="action", row=1):
        ward().count(log, ward().prior())
    with refused(DataError, "unknown-action", column="action", row=1):
        ward().count(log.set_axis([3, 7]), ward().prior())
    with refused(DataError, "unknown-action", column="action", row=1):
        ward().count(log.reset_index(drop=True), ward().prior())
    with refused(DataError, "unknown-action", column="action", row=1):
        ward().count(log.set_axis(pd.MultiIndex.from_tuples([(0, "a"), (1, "b")])), ward().prior())
