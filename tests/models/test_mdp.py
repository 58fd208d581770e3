"""Builders of MDP and UncertainMDP, against the arrays they should give and the errors they should raise."""

import contextlib
import subprocess
import sys
import tracemalloc
from collections import Counter
from types import SimpleNamespace

import gymnasium
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from refusals import refused
from scipy import sparse

from prudent.errors import ModelError, ParameterError, PosteriorError, PrudentError
from prudent.models.mdp import MDP
from prudent.models.uncertain import UncertainMDP


def random_mdp(seed, S=4, A=3):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(S), size=(S, A)) * (rng.random((S, A, S)) < 0.6)
    P[..., 0] += 1.0 - P.sum(axis=-1)
    return P, rng.normal(size=(S, A))


# --- MDP: forms of input ---------------------------------------------------------------------------------


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 4))
def test_every_form_of_transition_gives_the_same_model(seed, S, A):
    P, r = random_mdp(seed, S, A)
    model = MDP(P, r, 0.9)
    np.testing.assert_array_equal(model.dense(), P)
    by_action = P.swapaxes(0, 1)
    coo = sparse.coo_array(P.reshape(S * A, S))
    twice = sparse.coo_array(  # every entry stored as two halves, in reverse order
        (np.repeat(coo.data / 2, 2)[::-1], (np.repeat(coo.row, 2)[::-1], np.repeat(coo.col, 2)[::-1])),
        coo.shape,
    )
    for other in (
        MDP(P.tolist(), r.tolist(), 0.9),
        MDP(by_action, r, 0.9, actions_first=True),
        MDP(coo, r, 0.9),
        MDP(twice, r, 0.9),
        MDP(sparse.csc_matrix(coo), r, 0.9),
        MDP([sparse.csr_matrix(p) for p in by_action], r, 0.9),
        MDP(tuple(sparse.coo_array(p) for p in by_action), r, 0.9, actions_first=True),
    ):
        assert other == model


def test_there_is_one_canonical_representation():
    data, rows, cols = [0.5, 0.0, 0.25, 0.25, 1.0], [0, 0, 0, 0, 1], [1, 0, 0, 0, 1]
    given_matrix = sparse.coo_array((data, (np.array(rows), np.array(cols))), shape=(2, 2))
    mdp = MDP(given_matrix, [1, 2], 0)
    P = mdp.transition
    assert isinstance(P, sparse.csr_array)
    assert P.shape == (2, 2)
    assert (P.indices.dtype, P.indptr.dtype, P.data.dtype) == (np.int32, np.int32, np.float64)
    np.testing.assert_array_equal(P.indptr, [0, 2, 3])
    np.testing.assert_array_equal(P.indices, [0, 1, 1])
    np.testing.assert_array_equal(P.data, [0.5, 0.5, 1.0])
    assert mdp.reward.dtype == np.float64
    assert mdp.reward.flags.c_contiguous
    assert given_matrix.nnz == 5  # the caller's matrix is left alone


def test_a_model_does_not_change_with_the_arrays_it_was_made_from():
    P, r = random_mdp(1)
    mdp, matrix = MDP(P, r, 0.9), sparse.csr_array(P.reshape(12, 4))
    from_sparse = MDP(matrix, r, 0.9, admissible=np.ones((4, 3), bool), termination=np.zeros((4, 3)))
    uncertain = UncertainMDP.direct(r, 0.9)
    kept = [mdp.dense(), mdp.reward.copy(), from_sparse.dense(), uncertain.reward.copy()]
    P[:], r[:], matrix.data[:] = 7.0, 7.0, 7.0
    for before, now in zip(kept, (mdp.dense(), mdp.reward, from_sparse.dense(), uncertain.reward), strict=True):
        np.testing.assert_array_equal(before, now)


def test_reward_of_states_and_of_transitions():
    P, r = random_mdp(2)
    R = np.random.default_rng(3).normal(size=P.shape)
    np.testing.assert_array_equal(MDP(P, r[:, 0], 0.9).reward, np.repeat(r[:, :1], 3, axis=1))
    mean = np.einsum("sat,sat->sa", P, R)
    np.testing.assert_allclose(MDP(P, R, 0.9).reward, mean, atol=1e-15)
    first = MDP(P.swapaxes(0, 1), R.swapaxes(0, 1), 0.9, actions_first=True)
    np.testing.assert_allclose(first.reward, mean, atol=1e-15)
    assert MDP(P, pd.DataFrame(r), 0.9) == MDP(P, r, 0.9)


def test_what_a_row_lacks_may_be_a_rounding_below_zero():
    rows = np.array([[[0.1, 0.2, 0.7 + 2.3e-16]], [[0.5, 0.25, 0.0]], [[1.0, 0.0, 0.0]]])
    mdp = MDP(rows, [[1.0], [0.0], [0.0]], 0.9, termination=1.0 - rows.sum(axis=2))
    assert mdp.termination.tolist() == [[0.0], [0.25], [0.0]]
    with refused(ModelError, "probability-range", argument="termination", state=0, action=0):
        MDP(rows, [[1.0], [0.0], [0.0]], 0.9, termination=[[-1e-9], [0.25], [0.0]])


def test_termination_completes_the_rows():
    P, r = random_mdp(4)
    end = np.random.default_rng(5).random((4, 3))
    mdp = MDP(P * (1 - end[..., None]), r, 0.9, termination=end)
    np.testing.assert_array_equal(mdp.termination, end)
    np.testing.assert_allclose(mdp.dense().sum(axis=2) + end, 1.0, atol=1e-15)
    assert MDP(P, r, 0.9, termination=np.zeros((4, 3))).termination is None
    assert MDP(np.zeros((1, 1, 1)), [[2.0]], 0.9, termination=[[1.0]]).transition.nnz == 0


def test_what_is_given_for_inadmissible_pairs_is_not_looked_at():
    P, r = random_mdp(6)
    allowed = np.ones((4, 3), bool)
    allowed[1, 2] = allowed[3, 0] = False
    end = np.zeros((4, 3))
    clean = MDP(P, r, 0.9, admissible=allowed)
    assert clean.dense()[~allowed].sum() == 0
    assert (clean.reward[~allowed] == 0).all()
    np.testing.assert_array_equal(clean.dense()[allowed], P[allowed])
    P[1, 2], P[3, 0], r[1, 2], r[3, 0], end[1, 2] = np.nan, -3.0, np.nan, np.inf, np.nan
    assert MDP(P, r, 0.9, admissible=allowed, termination=end) == clean
    assert MDP(sparse.csr_array(P.reshape(12, 4)), r, 0.9, admissible=allowed.astype(int)) == clean
    R = np.repeat(r[:, :, None], 4, axis=2)
    np.testing.assert_allclose(MDP(P, R, 0.9, admissible=allowed).reward, clean.reward, atol=1e-15)


def test_rows_are_never_renormalised():
    row = np.array([0.3333333333] * 3)
    mdp = MDP(np.broadcast_to(row, (3, 1, 3)), np.zeros(3), 0.9)
    np.testing.assert_array_equal(mdp.dense()[0, 0], row)


def test_names_find_their_index():
    P, r = random_mdp(7)
    mdp = MDP(P, r, 0.9, states=["a", ("b", 1), 7, np.int64(9)], actions=np.array(["x", "y", "z"]))
    assert [mdp.state_index(name) for name in ("a", ("b", 1), 7, 9)] == [0, 1, 2, 3]
    assert mdp.actions == ("x", "y", "z")
    assert mdp.action_index("z") == 2
    plain = MDP(P, r, 0.9, states=range(4))
    assert plain.states == (0, 1, 2, 3)
    assert plain == MDP(P, r, 0.9)
    assert plain.state_index(3) == 3


@pytest.mark.parametrize("label", [4, -1, "a", 1.5, None, [1]])
def test_unknown_names_are_refused(label):
    P, r = random_mdp(8)
    with refused(ParameterError, "unknown-state", argument="state", value=label):
        MDP(P, r, 0.9).state_index(label)
    with refused(ParameterError, "unknown-action", argument="action", value=label):
        MDP(P, r, 0.9, actions="xyz").action_index(label)


def test_a_policy_by_name_or_by_index():
    P, r = random_mdp(16)
    plain, named = MDP(P, r, 0.9), MDP(P, r, 0.9, actions=["x", ("y", 1), 0])
    for policy in ([0, 1, 2, 0], np.array([0, 1, 2, 0], dtype=np.int8), pd.Series([0, 1, 2, 0])):
        indices = plain.policy_indices(policy)
        assert indices.dtype == np.int64
        assert indices.tolist() == [0, 1, 2, 0]
    assert named.policy_indices(["x", ("y", 1), 0, "x"]).tolist() == [0, 1, 2, 0]
    assert named.policy_indices(np.array([0, 1, 2, 0])).tolist() == [0, 1, 2, 0]  # an array holds indices
    letters = MDP(P, r, 0.9, actions="xyz")
    assert letters.policy_indices(np.array(["x", "z", "y", "x"])).tolist() == [0, 2, 1, 0]
    assert letters.policy_indices([0, 2, "y", 0]).tolist() == [0, 2, 1, 0]


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ([0, 1, 2], "wrong-shape"),
        ([0, 1, 2, 3], "index-range"),
        ([0, 1, -1, 0], "index-range"),
        ([0, 2, 1, 0], "inadmissible-action"),
        (["x", "fly", "x", "x"], "unknown-action"),
        ([0.5, 0, 0, 0], "not-an-integer"),
        (None, "wrong-type"),
    ],
)
def test_bad_policies_are_refused(policy, code):
    P, r = random_mdp(16)
    allowed = np.ones((4, 3), dtype=bool)
    allowed[1, 2] = False
    with refused(ParameterError, code):
        MDP(P, r, 0.9, actions="xyz", admissible=allowed).policy_indices(policy)


def test_equality_sees_every_part():
    P, r = random_mdp(9)
    mdp = MDP(P, r, 0.9)
    end = np.full((4, 3), 0.25)
    others = [
        MDP(P[:, ::-1], r, 0.9),
        MDP(P, r + 1, 0.9),
        MDP(P, r, 0.8),
        MDP(0.75 * P, r, 0.9, termination=end),
        MDP(P, r, 0.9, admissible=[[1, 1, 0]] * 3 + [[1, 1, 1]]),
        MDP(P, r, 0.9, states="abcd"),
        MDP(P[:, :2], r[:, :2], 0.9),
        "mdp",
    ]
    for i, one in enumerate([mdp, *others]):
        assert [one == other for other in [mdp, *others]] == [i == j for j in range(len(others) + 1)]
    with pytest.raises(TypeError):
        hash(mdp)


def test_repr_is_one_helpful_line():
    P, r = random_mdp(10, S=2, A=1)
    assert repr(MDP(np.ones((1, 1, 1)), [1.0], 0.5)) == "MDP(1 state, 1 action, 1 transition, discount 0.5)"
    mdp = MDP(P * 0.5, r, 0.5, termination=[[0.5], [0.5]])
    assert repr(mdp) == f"MDP(2 states, 1 action, {np.count_nonzero(P)} transitions, steps that end, discount 0.5)"


def test_a_large_sparse_model_is_built_without_loops():
    """A thousand times the states take about as many calls of Python functions."""

    def calls(S, A=10, k=5):
        columns = np.random.default_rng(11).integers(0, S, S * A * k)
        P = sparse.csr_array((np.full(S * A * k, 1 / k), columns, np.arange(0, S * A * k + 1, k)), shape=(S * A, S))
        made = Counter()
        sys.setprofile(lambda frame, event, argument: made.update([event]))
        try:
            mdp = MDP(P, np.zeros((S, A)), 0.9)
        finally:
            sys.setprofile(None)
        assert mdp.transition.has_canonical_format
        return made["call"] + made["c_call"]

    assert calls(10_000) < 1.5 * calls(10)


# --- MDP: errors -----------------------------------------------------------------------------------------


def bad_mdp(**changes):
    P, r = random_mdp(12)
    arguments = {"transition": P, "reward": r, "discount": 0.9} | changes
    return MDP(**arguments)


def changed(array, place, value):
    array = np.array(array, dtype=float)
    array[place] = value
    return array


P0, R0 = random_mdp(12)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"transition": changed(P0, (1, 2, 3), np.nan)}, "probability-range"),
        ({"transition": changed(P0, (1, 2, 3), -0.25)}, "probability-range"),
        ({"transition": changed(P0, (1, 2, 3), np.inf)}, "probability-range"),
        ({"transition": changed(P0, (3, 1), 0.2)}, "sum-not-one"),
        ({"transition": changed(P0, (3, 1), 0)}, "sum-not-one"),
        ({"transition": P0[:3]}, "wrong-shape"),
        ({"transition": P0.swapaxes(0, 1)}, "wrong-shape"),
        ({"actions_first": True}, "wrong-shape"),
        ({"transition": P0[0]}, "wrong-shape"),
        ({"transition": "P"}, "not-numbers"),
        ({"transition": [[[1.0, 0.0]], [[1.0]]]}, "not-numbers"),
        ({"transition": np.ones((0, 3, 0))}, "empty"),
        ({"transition": np.ones((4, 0, 4))}, "empty"),
        ({"transition": sparse.eye_array(3, 2)}, "wrong-shape"),
        (
            {"transition": sparse.csr_array(P0.reshape(12, 4)), "actions_first": True},
            "conflicting-arguments",
        ),
        (
            {"transition": [sparse.eye_array(3), sparse.eye_array(4)]},
            "wrong-shape",
        ),
        (
            {"transition": [sparse.eye_array(2), np.eye(2)]},
            "wrong-shape",
        ),
        (
            {"transition": sparse.csr_array(([1.0] * 12, [9] * 12, range(13)), shape=(12, 4))},
            "wrong-format",
        ),
        ({"reward": changed(R0, (2, 1), np.nan)}, "not-finite"),
        ({"reward": R0[:, :2]}, "wrong-shape"),
        ({"reward": R0[:2, 0]}, "wrong-shape"),
        ({"reward": P0[:, :2]}, "wrong-shape"),
        ({"reward": 1.0}, "wrong-shape"),
        ({"reward": [["x"]]}, "not-numbers"),
        ({"reward": P0, "transition": P0 / 2, "termination": np.full((4, 3), 0.5)}, "conflicting-arguments"),
        (
            {"termination": np.full((4, 3), 0.5)},
            "sum-not-one",
        ),
        (
            {"termination": changed(np.zeros((4, 3)), (1, 1), -0.5)},
            "probability-range",
        ),
        (
            {"termination": changed(np.zeros((4, 3)), (1, 1), 1.5)},
            "probability-range",
        ),
        (
            {"termination": changed(np.zeros((4, 3)), (1, 1), np.nan)},
            "not-finite",
        ),
        ({"termination": [0.0]}, "wrong-shape"),
        ({"admissible": [[1, 1, 1]] * 2 + [[0, 0, 0], [1, 1, 1]]}, "no-action"),
        ({"admissible": [[1, 0, 1]] * 4, "actions": "xyz"}, "unused-action"),
        ({"admissible": [[1, 1, 1]]}, "wrong-shape"),
        (
            {"admissible": changed(np.ones((4, 3)), (1, 1), 0.5)},
            "not-a-bool",
        ),
        ({"admissible": [["yes"] * 3] * 4}, "not-a-bool"),
        ({"admissible": [[1], [1, 2]]}, "not-a-bool"),
        ({"states": "abc"}, "name-count"),
        ({"states": "abca"}, "duplicate-name"),
        ({"actions": ["x", [1], "z"]}, "not-hashable"),
    ],
)
def test_bad_models_are_refused_with_place_and_value(changes, code):
    with refused(ModelError, code):
        bad_mdp(**changes)


@pytest.mark.parametrize("discount", [1.1, -0.1, np.nan, "x"])
def test_bad_discounts_are_refused(discount):
    code = "discount-range" if discount in (1.1, -0.1) else "not-a-number"
    with refused(ParameterError, code, argument="discount"):
        bad_mdp(discount=discount)
    with refused(ParameterError, code, argument="discount"):
        UncertainMDP.direct(R0, discount)


def test_messages_use_names_where_there_are_some():
    with refused(ModelError, "probability-range", argument="transition"):
        bad_mdp(transition=changed(P0, (1, 2, 3), np.nan), states="abcd", actions="xyz")


# --- MDP: tables and Gymnasium ---------------------------------------------------------------------------


def table_of(P, R):
    s, a, t = np.nonzero(P)
    return {"state": s, "action": a, "next_state": t, "probability": P[s, a, t], "reward": R[s, a, t]}


def test_every_make_of_table_gives_back_the_model():
    P, _ = random_mdp(13)
    R = np.random.default_rng(14).normal(size=P.shape)
    expected = MDP(P, R, 0.9)
    table = table_of(P, R)
    rows = list(zip(*(column.tolist() for column in table.values()), strict=True))
    frame = pd.DataFrame(table)
    shuffled = frame.sample(frac=1.0, random_state=1)
    halves = pd.concat([frame.assign(probability=frame.probability / 2)] * 2)
    for form in (
        table,
        frame,
        rows,
        iter(rows),
        np.array(rows),
        frame.to_records(index=False),
        shuffled,
        halves,
    ):
        mdp = MDP.from_table(form, 0.9)
        np.testing.assert_allclose(mdp.dense(), P, atol=1e-15)
        np.testing.assert_allclose(mdp.reward, expected.reward, atol=1e-15)
        assert (mdp.states, mdp.actions, mdp.termination) == ((0, 1, 2, 3), (0, 1, 2), None)


def test_labels_of_a_table():
    def states(*labels, **options):
        rows = [(label, "go", labels[0], 1.0, 0.0) for label in labels]
        return MDP.from_table(rows, 0.5, **options).states

    assert states("b", "c", "a") == ("a", "b", "c")
    assert states(3, 1, 2) == (1, 2, 3)
    assert states(2, 1, 0) == states(2.0, 1.0, 0.0) == (0, 1, 2)
    assert states("b", 3, "a") == ("b", 3, "a")  # cannot be compared: as first seen
    assert states((1, 0), (0, 1)) == ((0, 1), (1, 0))
    assert states("b", "a", states=["b", "a"]) == ("b", "a")
    text = MDP.from_table(pd.DataFrame([("b", "x", "a", 1, 1), ("a", "x", "a", 1, 2)], columns=COLUMNS), 0.5)
    assert text.states == ("a", "b")
    np.testing.assert_array_equal(text.reward, [[2.0], [1.0]])


COLUMNS = ["state", "action", "next_state", "probability", "reward"]


def test_pairs_never_listed_are_inadmissible():
    mdp = MDP.from_table([(0, 0, 1, 1.0, 5.0), (1, 1, 0, 0.25, 4.0), (1, 1, 1, 0.75, 8.0)], 0.9)
    np.testing.assert_array_equal(mdp.admissible, [[True, False], [False, True]])
    np.testing.assert_array_equal(mdp.reward, [[5.0, 0.0], [0.0, 7.0]])
    assert repr(mdp) == "MDP(2 states, 2 actions, 2 inadmissible pairs, 3 transitions, discount 0.9)"


GOOD = [(0, 0, 1, 1.0, 5.0), (1, 0, 0, 1.0, 4.0)]


@pytest.mark.parametrize(
    ("table", "code"),
    [
        ([], "no-rows"),
        (np.empty((0, 5)), "no-rows"),
        (7, "wrong-type"),
        ([*GOOD, (1, 2)], "row-width"),
        (["abcde"], "row-width"),
        (np.ones((2, 4)), "wrong-shape"),
        (np.ones(5), "wrong-shape"),
        (dict.fromkeys(COLUMNS[:4], (0,)), "missing-column"),
        (
            dict.fromkeys(COLUMNS[:4], (0,)) | {"reward": [1, 2]},
            "wrong-shape",
        ),
        ([*GOOD, (1, 0, 0, np.nan, 4.0)], "not-finite"),
        ([*GOOD, (1, 0, 0, 0.5, "much")], "not-finite"),
        ([*GOOD, (None, 0, 0, 0.5, 1.0)], "unknown-state"),
        ([*GOOD, (0, 0, np.nan, 0.5, 1.0)], "unknown-state"),
        ([*GOOD, (0, [1], 0, 0.5, 1.0)], "not-hashable"),
        ([*GOOD, (0, 1, 1, 0.5, 1.0)], "sum-not-one"),
        ([*GOOD, (0, 1, 2, 1.0, 1.0)], "no-action"),
        (
            [*GOOD, (0, 1, 1, -1.0, 1.0), (0, 1, 1, 2.0, 1.0)],
            "probability-range",
        ),
    ],
)
def test_bad_tables_are_refused_with_row_and_value(table, code):
    with refused(ModelError, code):
        MDP.from_table(table, 0.9)


def test_tables_must_keep_to_the_names_given():
    with refused(ModelError, "unknown-state"):
        MDP.from_table(GOOD, 0.9, states=[0])
    with refused(ModelError, "unknown-state"):
        MDP.from_table([("a", 0, "b", 1.0, 0.0)], 0.9, states="ac")
    many = [(i, 0, i, 1.0, 0.0) for i in range(9)]
    with refused(ModelError, "unknown-state"):
        MDP.from_table(many, 0.9, states="abcdef")


def iterate_table(P, S, A, discount, sweeps):
    """Value iteration straight from Gymnasium's table, without anything of ours."""
    V = np.zeros(S)
    for _ in range(sweeps):
        Q = np.zeros((S, A))
        for s in range(S):
            for a in range(A):
                Q[s, a] = sum(p * (r + discount * (0.0 if end else V[t])) for p, t, r, end in P[s][a])
        V = Q.max(axis=1)
    return V


@pytest.mark.parametrize("name", ["FrozenLake-v1", "Taxi-v3", "CliffWalking-v1", "CliffWalkingSlippery-v1"])
def test_gymnasium_environments_keep_their_values(name):
    env = gymnasium.make(name)
    mdp = MDP.from_gymnasium(env, 0.95)
    S, A = int(env.observation_space.n), int(env.action_space.n)
    assert (mdp.n_states, mdp.n_actions) == (S, A)
    P, V = mdp.dense(), np.zeros(S)
    assert mdp.termination.max() > 0.3
    np.testing.assert_allclose(P.sum(axis=2) + mdp.termination, 1.0, atol=1e-12)
    sweeps = 60
    for _ in range(sweeps):
        V = (mdp.reward + mdp.discount * P @ V).max(axis=1)
    np.testing.assert_allclose(V, iterate_table(env.unwrapped.P, S, A, 0.95, sweeps), rtol=1e-12, atol=1e-12)
    assert MDP.from_gymnasium(name, 0.95) == mdp


def fake_env(table, states=2, actions=1):
    space = {
        "observation_space": SimpleNamespace(n=states, start=0),
        "action_space": SimpleNamespace(n=actions, start=0),
    }
    return SimpleNamespace(P=table, **space)


def test_reading_an_environment_needs_no_gymnasium():
    table = {0: {0: [(0.5, 1, 2.0, False), (0.5, 0, 4.0, True)]}, 1: {0: [(1.0, 1, 0.0, False)]}}
    mdp = MDP.from_gymnasium(fake_env(table), 0.9)
    assert mdp == MDP([[[0, 0.5]], [[0, 1]]], [[3.0], [0.0]], 0.9, termination=[[0.5], [0.0]])
    code = "import sys, prudent.models; sys.exit('gymnasium' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("env", "code"),
    [
        (fake_env(None), "missing-column"),
        (
            fake_env({0: {0: [(1.0, 0)]}}),
            "wrong-format",
        ),
        (fake_env({}), "wrong-format"),
        (fake_env({0: [[(1.0, 0, 0.0, False)]]}), "wrong-format"),
        (fake_env({0: {0: [(1.0, 2, 0.0, False)]}}), "index-range"),
        (fake_env({5: {0: [(1.0, 1, 0.0, False)]}}), "index-range"),
        (fake_env({0: {1: [(1.0, 1, 0.0, False)]}}), "index-range"),
        (
            fake_env({0: {0: [(0.5, 1, 0.0, False)]}, 1: {0: [(1.0, 1, 0.0, True)]}}),
            "sum-not-one",
        ),
        (fake_env({0: {0: [(1.0, 1, 0.0, False)]}}), "no-action"),
        (object(), "wrong-type"),
    ],
)
def test_environments_we_cannot_read_say_so(env, code):
    with refused(ModelError, code):
        MDP.from_gymnasium(env, 0.9)


@pytest.mark.parametrize("name", ["CartPole-v1", "Blackjack-v1", "Pendulum-v1"])
def test_environments_with_other_spaces_say_so(name):
    with refused(ModelError, "wrong-type"):
        MDP.from_gymnasium(gymnasium.make(name), 0.9)


def test_an_unknown_id_is_named():
    with refused(ModelError, "unknown-environment"):
        MDP.from_gymnasium("NoSuchLake-v0", 0.9)


# --- UncertainMDP: builders ------------------------------------------------------------------------------


def slippery(discount=0.9, **options):
    """Two sources: a slip with three outcomes where state 2 is not, and a door with two in state 2."""
    source = [[0, 0], [0, -1], [1, 1]]
    next_state = [[[0, 1, 2], [1, 1, 0]], [[2, 2, 1], [7, 7, 7]], [[2, 0, -1], [2, 2, -1]]]
    reward = np.arange(18.0).reshape(3, 2, 3)
    return UncertainMDP(source, next_state, reward, discount, **options)


THETA = np.array([[0.5, 0.25, 0.25], [0.125, 0.875, 0.0]])


def test_the_arrays_of_an_uncertain_model():
    model = slippery()
    assert (model.n_states, model.n_actions, model.n_outcomes, model.n_sources) == (3, 2, 3, 2)
    assert (model.source.dtype, model.next_state.dtype, model.reward.dtype) == (
        np.int64,
        np.int32,
        np.float64,
    )
    for array in (model.source, model.next_state, model.reward):
        assert array.flags.c_contiguous
    np.testing.assert_array_equal(model.admissible, [[1, 1], [1, 0], [1, 1]])
    np.testing.assert_array_equal(model.outcome_mask, [[1, 1, 1], [1, 1, 0]])
    np.testing.assert_array_equal(model.next_state[1, 1], [-1, -1, -1])
    assert model.reward[1, 1].tolist() == [0, 0, 0]
    assert model.reward[2, 0].tolist() == [12, 13, 0]
    np.testing.assert_array_equal(model.prior(2), [[2, 2, 2], [2, 2, 0]])
    assert repr(model) == (
        "UncertainMDP(3 states, 2 actions, 1 inadmissible pair, 2 sources, up to 3 outcomes, discount 0.9)"
    )


def test_rewards_that_do_not_depend_on_the_outcome():
    model = UncertainMDP([[0], [0]], [[[0, 1]], [[1, 0]]], [[3.0], [4.0]], 0.9)
    np.testing.assert_array_equal(model.reward, [[[3, 3]], [[4, 4]]])
    unused = slippery().reward.copy()
    unused[1, 1], unused[2, :, 2] = np.nan, np.inf
    clean = slippery()
    assert UncertainMDP(clean.source, clean.next_state, unused, 0.9) == clean


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1), st.data())
def test_mdp_of_theta_is_the_sum_over_outcomes(seed, data):
    rng = np.random.default_rng(seed)
    S, A, K, B = (data.draw(st.integers(1, 4)) for _ in range(4))
    source = rng.integers(0, B, (S, A))
    source = np.unique(source, return_inverse=True)[1].reshape(S, A)
    mask = rng.random((B, K)) < 0.7
    mask[:, rng.integers(K)] = True
    next_state = np.where(mask[source], rng.integers(0, S, (S, A, K)), -1)
    reward = rng.normal(size=(S, A, K))
    model = UncertainMDP(source, next_state, reward, 0.9)
    theta = rng.random(mask.shape) * mask
    theta = (theta / theta.sum(axis=1, keepdims=True))[: model.n_sources]
    P, r = np.zeros((S, A, S)), np.zeros((S, A))
    for s, a, k in np.ndindex(S, A, K):
        if next_state[s, a, k] >= 0:
            P[s, a, next_state[s, a, k]] += theta[source[s, a], k]
            r[s, a] += theta[source[s, a], k] * reward[s, a, k]
    mdp = model.mdp(theta)
    np.testing.assert_allclose(mdp.dense(), P, atol=1e-15)
    np.testing.assert_allclose(mdp.reward, r, atol=1e-14)


def test_mdp_of_theta_keeps_names_and_admissible_actions():
    mdp = slippery(states="abc", actions="xy").mdp(THETA)
    assert (mdp.states, mdp.actions) == (("a", "b", "c"), ("x", "y"))
    np.testing.assert_array_equal(mdp.admissible, [[1, 1], [1, 0], [1, 1]])
    np.testing.assert_array_equal(mdp.dense()[0, 1], [0.25, 0.75, 0.0])
    np.testing.assert_array_equal(mdp.dense()[2, 0], [0.875, 0.0, 0.125])


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 3))
def test_direct_reads_theta_as_the_transition_matrix(seed, S, A):
    P, r = random_mdp(seed, S, A)
    model = UncertainMDP.direct(r, 0.9)
    np.testing.assert_array_equal(model.source, np.arange(S * A).reshape(S, A))
    np.testing.assert_array_equal(model.next_state, np.broadcast_to(np.arange(S), (S, A, S)))
    np.testing.assert_allclose(model.mdp(P.reshape(S * A, S)).dense(), P, atol=1e-15)
    R = np.random.default_rng(seed).normal(size=P.shape)
    np.testing.assert_array_equal(UncertainMDP.direct(R, 0.9).reward, R)
    # On its support the same model has fewer outcomes, and its theta are the positive entries.
    compact = UncertainMDP.direct(R, 0.9, support=P > 0)
    theta = np.zeros((S * A, compact.n_outcomes))
    for row, p in zip(theta, P.reshape(S * A, S), strict=True):
        row[: np.count_nonzero(p)] = p[p > 0]
    assert compact.n_outcomes == np.count_nonzero(P, axis=2).max()
    mdp = compact.mdp(theta)
    np.testing.assert_array_equal(mdp.dense(), P)
    np.testing.assert_allclose(mdp.reward, MDP(P, R, 0.9).reward, atol=1e-14)


def test_direct_numbers_sources_densely_around_inadmissible_pairs():
    allowed = np.array([[1, 0], [1, 1]])
    model = UncertainMDP.direct([[1.0, np.nan], [2.0, 3.0]], 0.9, admissible=allowed, states="ab", actions="xy")
    np.testing.assert_array_equal(model.source, [[0, -1], [1, 2]])
    np.testing.assert_array_equal(model.next_state[0, 1], [-1, -1])
    support = np.array([[[0, 1], [0, 0]], [[1, 1], [1, 0]]])
    compact = UncertainMDP.direct(np.ones((2, 2)), 0.9, admissible=allowed, support=support)
    np.testing.assert_array_equal(compact.next_state, [[[1, -1], [-1, -1]], [[0, 1], [0, -1]]])


def test_direct_models_take_no_more_than_their_arrays():
    S, A = 400, 5
    tracemalloc.start()
    model = UncertainMDP.direct(np.zeros((S, A)), 0.9)
    now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    arrays = model.next_state.nbytes + model.reward.nbytes
    assert arrays == S * A * S * 12
    # The number of each outcome is another four bytes; checks need a few more for a while.
    assert now < arrays * 17 / 12
    assert peak < arrays * 2


def test_from_mdp_keeps_the_support():
    P, r = random_mdp(15)
    mdp = MDP(P, r, 0.9, admissible=[[1, 1, 1]] * 3 + [[1, 0, 1]], states="abcd")
    model = UncertainMDP.from_mdp(mdp)
    expected = UncertainMDP.direct(r, 0.9, support=P > 0, admissible=mdp.admissible, states="abcd")
    assert model == expected
    ends = UncertainMDP.from_mdp(MDP([[[1, 0]], [[0, 0.5]]], [1, 2], 0.9, termination=[[0], [0.5]]))
    assert ends.next_state.tolist() == [[[0, -1]], [[1, -2]]]


def stock(level, order, demand):
    left = max(level + order - demand, 0)
    return left, 3.0 * (level + order - left) - order


def test_from_dynamics_tabulates_the_function():
    model = UncertainMDP.from_dynamics(
        stock, range(5), range(3), [0, 2, 3], 0.9, admissible=lambda level, order: level + order <= 4
    )
    assert (model.states, model.actions, model.outcomes) == (tuple(range(5)), (0, 1, 2), ((0, 2, 3),))
    for s, a in np.ndindex(5, 3):
        assert model.admissible[s, a] == (s + a <= 4)
        assert model.source[s, a] == (0 if s + a <= 4 else -1)
        if s + a <= 4:
            steps = [stock(s, a, demand) for demand in (0, 2, 3)]
            assert list(zip(model.next_state[s, a], model.reward[s, a], strict=True)) == steps


def test_from_dynamics_with_several_sources_and_labels():
    def move(place, action, drawn):
        if drawn == "calm":
            return ("sea", 0), 1.0
        return (place[0], {"in": 0, "out": 1}.get(drawn, place[1])), 0.5

    model = UncertainMDP.from_dynamics(
        move,
        states=[("sea", 0), ("sea", 1)],
        actions=["row"],
        noise={"tide": ["in", "out"], "wind": ["calm", "gust", "storm"]},
        discount=0.9,
        source=lambda place, action: "wind" if place[1] else "tide",
    )
    assert model.outcomes == (("in", "out"), ("calm", "gust", "storm"))
    np.testing.assert_array_equal(model.source, [[0], [1]])
    np.testing.assert_array_equal(model.next_state, [[[0, 1, -1]], [[0, 1, 1]]])
    np.testing.assert_array_equal(model.reward, [[[0.5, 0.5, 0]], [[1, 0.5, 0.5]]])
    np.testing.assert_array_equal(model.compatible(("sea", 1), "row", ("sea", 1)), [1, 2])
    one = UncertainMDP.from_dynamics(stock, [0, 1], [0], {"demand": [0, 1]}, 0.9)
    plain = UncertainMDP.from_dynamics(stock, [0, 1], [0], [0, 1], 0.9)
    np.testing.assert_array_equal(one.next_state, plain.next_state)
    assert (one.sources, plain.sources, one == plain) == (("demand",), None, False)
    assert one.outcomes is None


def dynamic(function=stock, states=(0, 1), actions=(0,), noise=(0, 1), **options):
    return UncertainMDP.from_dynamics(function, states, actions, noise, 0.9, **options)


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (
            lambda: dynamic(actions=[0, 1]),
            "unknown-state",
        ),
        (lambda: dynamic(lambda s, a, k: 5), "wrong-type"),
        (lambda: dynamic(lambda s, a, k: (0, "x")), "wrong-type"),
        (
            lambda: dynamic(lambda s, a, k: (0, np.nan)),
            "not-finite",
        ),
        (lambda: dynamic(noise={"a": [0], "b": [1]}), "missing-argument"),
        (lambda: dynamic(noise={}), "missing-argument"),
        (
            lambda: dynamic(noise={"a": [0], "b": [0]}, source=lambda s, a: "a"),
            "unused-source",
        ),
        (
            lambda: dynamic(noise={"a": [0], "b": [0]}, source=lambda s, a: "c"),
            "unknown-source",
        ),
        (lambda: dynamic(noise=[]), "no-outcome"),
        (lambda: dynamic(noise=[0, 0]), "duplicate-name"),
        (lambda: dynamic(admissible=lambda s, a: s == 0), "no-action"),
        (lambda: dynamic(states=[]), "empty"),
    ],
)
def test_bad_dynamics_are_refused_with_the_call(build, code):
    with refused(ModelError, code):
        build()


def rows_of(model):
    return [
        (s, a, k, int(model.next_state[s, a, k]), float(model.reward[s, a, k]), int(model.source[s, a]))
        for s, a, k in np.ndindex(model.next_state.shape)
        if model.next_state[s, a, k] >= 0
    ]


def test_an_uncertain_model_survives_its_table():
    model = slippery()
    rows = rows_of(model)
    assert UncertainMDP.from_table(rows, 0.9) == model
    names = ["state", "action", "outcome", "next_state", "reward", "source"]
    frame = pd.DataFrame(rows, columns=names)
    assert UncertainMDP.from_table(frame.sample(frac=1.0, random_state=2), 0.9) == model
    frame["source"] = frame.source.map({0: "slip", 1: "door"})  # sorted: door comes first
    frame["outcome"] = frame.outcome.map(lambda k: "lmr"[k])
    named = UncertainMDP.from_table(frame, 0.9)
    assert named.outcomes == (("l", "m"), ("l", "m", "r"))
    np.testing.assert_array_equal(named.source, np.where(model.admissible, 1 - model.source, -1))
    np.testing.assert_array_equal(named.next_state, model.next_state)


def test_without_sources_a_table_has_one():
    rows = [(s, 0, k, (s + k) % 3, float(k)) for s in range(3) for k in (-1, 1)]
    model = UncertainMDP.from_table(rows, 0.9)
    assert model.outcomes == ((-1, 1),)
    np.testing.assert_array_equal(model.next_state[:, 0], [[2, 1], [0, 2], [1, 0]])
    assert model.n_sources == 1


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda rows: [*rows, rows[1]], "duplicate-row"),
        (
            lambda rows: [*rows[:-1], (*rows[-1][:5], 0)],
            "conflicting-rows",
        ),
        (
            lambda rows: rows[1:],
            "unequal-outcomes",
        ),
        (lambda rows: [(*rows[0][:2], None, *rows[0][3:]), *rows[1:]], "unknown-outcome"),
        (lambda rows: [(*rows[0][:5], None), *rows[1:]], "unknown-source"),
        (lambda rows: [(*rows[0][:4], "x", 0), *rows[1:]], "not-finite"),
        (lambda rows: [], "no-rows"),
        (lambda rows: [(1, 2, 3)], "row-width"),
    ],
)
def test_bad_tables_of_dynamics_are_refused(change, code):
    with refused(ModelError, code):
        UncertainMDP.from_table(change(rows_of(slippery())), 0.9)


# --- UncertainMDP: errors --------------------------------------------------------------------------------


def bad_uncertain(place=None, value=None, field="next_state", **changes):
    model = slippery()
    arguments = {
        "source": model.source,
        "next_state": model.next_state,
        "reward": model.reward,
        "discount": 0.9,
    }
    if place is not None:
        arguments[field] = arguments[field].copy()
        arguments[field][place] = value
    return UncertainMDP(**(arguments | changes))


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"place": (0, 0), "value": -2, "field": "source"}, "index-range"),
        (
            {"place": (0, 0), "value": 10**12, "field": "source"},
            "unused-source",
        ),
        ({"place": 1, "value": -1, "field": "source"}, "no-action"),
        (
            {"source": [[0, 0], [0, 0], [0, 1]]},
            "unequal-outcomes",
        ),
        ({"place": (0, 1, 2), "value": 3}, "index-range"),
        ({"place": (0, 1, 2), "value": -3}, "index-range"),
        (
            {"place": (2, 1, 2), "value": 0},
            "unequal-outcomes",
        ),
        (
            {"place": (0, 1, 2), "value": -1},
            "unequal-outcomes",
        ),
        ({"place": 2, "value": -1}, "no-outcome"),
        (
            {"next_state": np.zeros((3, 2, 3))},
            "not-an-integer",
        ),
        ({"next_state": np.zeros((3, 2), int)}, "wrong-shape"),
        (
            {"next_state": np.zeros((3, 3, 1), int)},
            "wrong-shape",
        ),
        ({"next_state": np.zeros((3, 2, 0), int), "reward": np.zeros((3, 2))}, "no-outcome"),
        ({"source": [[0], [1, 2]]}, "not-an-integer"),
        ({"source": np.zeros((0, 2), int)}, "empty"),
        ({"place": (2, 1, 1), "value": np.nan, "field": "reward"}, "not-finite"),
        ({"reward": np.zeros((2, 2))}, "wrong-shape"),
        ({"reward": np.zeros(3)}, "wrong-shape"),
        ({"outcomes": ["abc"]}, "name-count"),
        ({"outcomes": ["abc", "abc"]}, "name-count"),
        ({"outcomes": ["aba", "ab"]}, "duplicate-name"),
    ],
)
def test_bad_uncertain_models_are_refused(changes, code):
    with refused(ModelError, code):
        bad_uncertain(**changes)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"reward": [1.0]}, "wrong-shape"),
        ({"reward": np.zeros((2, 3, 4))}, "wrong-shape"),
        ({"reward": [[1.0], [np.inf]]}, "not-finite"),
        ({"reward": [[1.0], [1.0]], "support": [[[1, 1]], [[0, 0]]]}, "no-outcome"),
        ({"reward": [[1.0]], "support": [[[0]]]}, "no-outcome"),
        ({"reward": [[1.0]], "support": [[1]]}, "wrong-shape"),
        ({"reward": [[1.0]], "admissible": [[False]]}, "no-action"),
        ({"reward": np.zeros((0, 2))}, "empty"),
    ],
)
def test_bad_direct_models_are_refused(arguments, code):
    with refused(ModelError, code):
        UncertainMDP.direct(discount=0.9, **arguments)


@pytest.mark.parametrize(
    ("place", "value", "code"),
    [
        ((0, 1), 0.5, "sum-not-one"),
        ((1, 0), -0.5, "negative"),
        ((1, 2), 0.5, "no-such-outcome"),
        ((1, 1), np.nan, "not-finite"),
    ],
)
def test_bad_theta_is_refused(place, value, code):
    theta = changed(THETA, place, value)
    with refused(ModelError, code):
        slippery().mdp(theta)
    with refused(ModelError, code):
        slippery().trajectory(theta, [0, 0, 0], 5)


def test_theta_and_prior_must_have_the_shape_of_the_model():
    with refused(ModelError, "wrong-shape", argument="theta"):
        slippery().mdp(THETA[:1])
    with refused(ModelError, "wrong-shape", argument="theta"):
        slippery().mdp(THETA[0])
    with refused(PosteriorError, "no-such-outcome", argument="prior"):
        slippery().count([], np.ones((2, 3)))
    for count in (0, -1.0, np.inf, "x"):
        with refused(ParameterError, "not-a-number" if count == "x" else "not-positive", argument="count"):
            slippery().prior(count)


def test_equality_of_uncertain_models_sees_every_part():
    model = slippery()
    assert model == slippery(states=range(3), outcomes=[range(3), range(2)])
    others = [
        slippery(0.8),
        slippery(states="abc"),
        slippery(outcomes=["abc", range(2)]),
        bad_uncertain((0, 0, 0), 1),
        bad_uncertain((0, 0, 0), 99.0, field="reward"),
        MDP(P0, R0, 0.9),
    ]
    for i, one in enumerate([model, *others]):
        assert [one == other for other in [model, *others]] == [i == j for j in range(len(others) + 1)]


@settings(deadline=None, max_examples=60)
@given(
    hnp.arrays(np.float64, st.tuples(*[st.integers(0, 3)] * 3), elements=st.sampled_from([0, 0.5, 1, -1, np.nan])),
    hnp.arrays(np.int64, st.tuples(*[st.integers(0, 3)] * 2), elements=st.integers(-3, 4)),
    hnp.arrays(np.int64, st.tuples(*[st.integers(0, 3)] * 3), elements=st.integers(-3, 4)),
)
def test_whatever_the_arrays_models_are_built_or_refused_by_us(P, source, next_state):
    for build in (
        lambda: MDP(P, np.zeros(P.shape[:2]), 0.9),
        lambda: MDP(P, P, 0.9, actions_first=True),
        lambda: UncertainMDP(source, next_state, np.zeros(source.shape), 0.9),
    ):
        with contextlib.suppress(PrudentError):
            assert build().reward.flags.c_contiguous
