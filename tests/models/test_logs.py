"""Counting logs of transitions, against a slow reference, and drawing them, against their distribution."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from prudent.errors import DataError, ModelError, ParameterError, PosteriorError
from prudent.models.log_reader import LogReader
from prudent.models.transitions import add_log
from prudent.models.uncertain import UncertainMDP


def random_model(rng, S, A, K, B):
    """A model in which outcomes often share a next state, so that logs are ambiguous."""
    source = np.unique(rng.integers(0, B, (S, A)), return_inverse=True)[1].reshape(S, A)
    mask = rng.random((B, K)) < 0.7
    mask[:, rng.integers(K)] = True
    next_state = np.where(mask[source], rng.integers(0, S, (S, A, K)), -1)
    return UncertainMDP(source, next_state, rng.normal(size=(S, A, K)), 0.9)


def random_log(rng, model, rows):
    log = []
    for _ in range(rows):
        s, a = int(rng.integers(model.n_states)), int(rng.integers(model.n_actions))
        k = int(rng.choice(np.flatnonzero(model.next_state[s, a] >= 0)))
        log.append((s, a, int(model.next_state[s, a, k]), k if rng.random() < 0.3 else None))
    return log


def slow_count(model, log, prior):
    """The rule in exact arithmetic: one Fraction per count, row after row."""
    counts = [[Fraction(value) for value in row] for row in prior.tolist()]
    for s, a, target, outcome in log:
        row = counts[model.source[s, a]]
        if outcome is None:
            able = [k for k in range(model.n_outcomes) if model.next_state[s, a, k] == target]
            mean = {k: row[k] / sum(row) for k in able}
            shares = {k: mean[k] / sum(mean.values()) for k in able}
        else:
            shares = {outcome: Fraction(1)}
        for k, share in shares.items():
            row[k] += share
    return np.array([[float(value) for value in row] for row in counts])


seeds = st.integers(0, 2**32 - 1)
sizes = st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 5), st.integers(1, 3))


@settings(deadline=None, max_examples=60)
@given(seeds, sizes, st.integers(0, 12))
def test_counts_are_those_of_the_slow_reference(seed, size, rows):
    rng = np.random.default_rng(seed)
    model = random_model(rng, *size)
    log = random_log(rng, model, rows)
    prior = np.where(model.outcome_mask, rng.integers(1, 9, model.outcome_mask.shape) / 4, 0.0)
    before = prior.copy()
    counts = model.count(log, prior)
    np.testing.assert_allclose(counts, slow_count(model, log, prior), rtol=1e-13)
    np.testing.assert_array_equal(prior, before)
    assert math.isclose((counts - prior).sum(), rows, abs_tol=1e-12)
    # Rows one at a time, online or through the front door, give the same bits.
    online, stepwise = prior.copy(), prior
    for s, a, target, outcome in log:
        add_log(model.entries, online, np.array([[s, a, target, -1 if outcome is None else outcome]]))
        stepwise = model.count([(s, a, target, outcome)], stepwise)
    np.testing.assert_array_equal(online, counts)
    np.testing.assert_array_equal(stepwise, counts)


@settings(deadline=None, max_examples=30)
@given(seeds, sizes, st.integers(0, 30))
def test_known_outcomes_are_counted_exactly_in_any_order(seed, size, rows):
    rng = np.random.default_rng(seed)
    model = random_model(rng, *size)
    theta = model.prior() / model.prior().sum(axis=1, keepdims=True)
    log = model.trajectory(theta, rng.integers(0, model.n_actions, model.n_states), rows, rng=rng)
    expected = model.prior(0.5)
    np.add.at(expected, (model.source[log[:, 0], log[:, 1]], log[:, 3]), 1.0)
    np.testing.assert_array_equal(model.count(log, model.prior(0.5)), expected)
    np.testing.assert_array_equal(model.count(rng.permutation(log), model.prior(0.5)), expected)


def test_a_direct_model_has_no_ambiguity():
    rng = np.random.default_rng(1)
    model = UncertainMDP.direct(np.zeros((5, 2)), 0.9)
    log = np.column_stack([rng.integers(0, 5, 200), rng.integers(0, 2, 200), rng.integers(0, 5, 200)])
    expected = model.prior(0.1)
    np.add.at(expected, (log[:, 0] * 2 + log[:, 1], log[:, 2]), 1.0)
    np.testing.assert_array_equal(model.count(log, model.prior(0.1)), expected)


def test_every_make_of_log_counts_the_same():
    model = UncertainMDP([[0], [0]], [[[0, 0, 1]], [[1, 0, 0]]], np.zeros((2, 1)), 0.9)
    rows = [(0, 0, 0, 1), (0, 0, 0, None), (0, 0, 1, None), (1, 0, 0, 2)]
    prior = np.array([[1.0, 2.0, 3.0]])
    # By hand: outcome 1; then 1 : 3 shared as 1/4, 3/4; then outcome 2, the only one; then outcome 2.
    expected = [[1.25, 3.75, 5.0]]
    columns = dict(zip(("state", "action", "next_state", "outcome"), zip(*rows, strict=True), strict=True))
    frame = pd.DataFrame(columns)  # its outcomes are floats with NaN
    with_gaps = np.array([[np.nan if cell is None else cell for cell in row] for row in rows])
    kinds = [("state", "i8"), ("action", "i8"), ("next_state", "i8"), ("outcome", "i8")]
    minus_one = [tuple(-1 if cell is None else cell for cell in row) for row in rows]
    short = [(0, 0, 0, 1), (0, 0, 0), [0, 0, 1], np.array([1, 0, 0, 2])]
    nullable = frame.astype({"outcome": "Int64"}).sample(frac=1.0, random_state=3).sort_index()
    for log in (
        rows,
        iter(rows),
        columns,
        frame,
        nullable,
        with_gaps,
        np.array(minus_one),
        np.array(minus_one, dtype=np.int8),
        np.array(minus_one, dtype=kinds),
        np.array(rows, dtype=object),
        short,
    ):
        np.testing.assert_array_equal(model.count(log, prior), expected)
    for empty in ([], np.empty((0, 3)), frame[:0], {"state": [], "action": [], "next_state": []}):
        np.testing.assert_array_equal(model.count(empty, prior), prior)


def named_walk():
    """A walk on three named places, pushed by -1, 0 or 1: labels that look like gaps and like indices."""
    places = ["low", "mid", "top"]

    def push(place, action, drawn):
        return places[min(max(places.index(place) + drawn, 0), 2)], 0.0

    return UncertainMDP.from_dynamics(push, places, ["go"], [-1, 0, 1], 0.9)


def test_a_log_of_names():
    model = named_walk()
    prior = np.array([[1.0, 1.0, 2.0]])
    log = [
        ("low", "go", "mid"),
        ("mid", "go", "low", -1),
        ("low", "go", "low", None),
        ("top", "go", "top", 1),
    ]
    # 'low' to 'mid' is 1; -1 is a label here; staying at 'low' is -1 or 0 with counts 2 : 1; then 1.
    np.testing.assert_allclose(model.count(log, prior), [[2 + 2 / 3, 1 + 1 / 3, 4.0]], rtol=1e-15)
    full = [(*log[0], None), *log[1:]]
    frame = pd.DataFrame(full, columns=["state", "action", "next_state", "outcome"])
    np.testing.assert_array_equal(model.count(frame, prior), model.count(log, prior))
    np.testing.assert_array_equal(model.count(np.array([row[:3] for row in log[:1]]), prior), [[1, 1, 3]])
    assert model.compatible("low", "go", "low").tolist() == [0, 1]


def test_a_trajectory_is_counted_by_index():
    model = named_walk()
    log = model.trajectory([[0.25, 0.25, 0.5]], [0, 0, 0], 50, state=1, rng=2)
    expected = model.prior() + np.bincount(log[:, 3], minlength=3)
    np.testing.assert_array_equal(model.count(log, model.prior(), indices=True), expected)
    with refused(DataError, "unknown-state", column="state", row=0):
        model.count(log, model.prior())


ODD_ROWS = [
    *[("low", "go", "mid", None), ("low", "go", "mid", 1), ("mid", "go", "low", -1), ("mid", "go", "mid", np.nan)],
    *[(0, 0, 1, 2), (2, 0, 2, None), (0, 0, 1.0, np.int8(2)), (0, 0, 1, -1), (0, 0, 1, np.nan), (0, 0, 1, 3)],
    *[("low", "go", "top", None), ("low", "go", "mid", 0), ("mid", "fly", "top", None), ("mid", "go", "up", None)],
    *[("mid", "go", "top", 5), ([1], "go", "top", None), (9, 0, 1, None), (0, 0, 2, None), (0, 0, 1, -2)],
]


@pytest.mark.parametrize("indices", [False, True])
@pytest.mark.parametrize("row", ODD_ROWS, ids=str)
def test_one_row_is_read_as_a_log_of_one_row(row, indices):
    """Agents read rows one by one, in a form that costs less: with the same result, or the same complaint."""
    model = named_walk()
    found = []
    for read in (lambda reader: reader.row(*row, model.prior()), lambda reader: reader.rows([row], model.prior())[0]):
        try:
            found.append(read(LogReader(model, indices)).tolist())
        except DataError as fault:
            found.append(str(fault).removeprefix("log row 0: "))
    assert found[0] == found[1]


def test_splitting_depends_on_the_rows_before():
    model = UncertainMDP([[0], [0]], [[[0, 0]], [[0, 1]]], np.zeros((2, 1)), 0.9)
    unclear, clear = (0, 0, 0), (1, 0, 1)
    np.testing.assert_allclose(model.count([unclear, clear], model.prior()), [[1.5, 2.5]])
    np.testing.assert_allclose(model.count([clear, unclear], model.prior()), [[4 / 3, 8 / 3]])


# --- what cannot be counted ------------------------------------------------------------------------------


def lake():
    """Action 1 is not admissible in state 1, outcome 2 does not exist for source 1."""
    source = [[0, 1], [0, -1], [1, 1]]
    next_state = [[[0, 1, 1], [0, 2, -1]], [[2, 1, 1], [0, 0, 0]], [[2, 2, -1], [1, 0, -1]]]
    return UncertainMDP(source, next_state, np.zeros((3, 2)), 0.9)


GOOD = [(0, 0, 1), (0, 1, 2, 1)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((3, 0, 1), "unknown-state"),
        ((-1, 0, 1), "unknown-state"),
        ((0.5, 0, 1), "unknown-state"),
        ((np.nan, 0, 1), "unknown-state"),
        ((None, 0, 1), "unknown-state"),
        (("a", 0, 1), "unknown-state"),
        (([0], 0, 1), "unknown-state"),
        ((0, 2, 1), "unknown-action"),
        ((0, 0, 9), "unknown-state"),
        ((0, 0, np.nan), "unknown-state"),
        ((0, 0, np.inf), "unknown-state"),
        ((1, 1, 0), "inadmissible-action"),
        ((0, 0, 2), "impossible-transition"),
        ((0, 0, 1, 3), "unknown-outcome"),
        ((0, 0, 1, -2), "unknown-outcome"),
        ((0, 0, 1, "slip"), "unknown-outcome"),
        ((0, 0, 1, 0), "impossible-transition"),
        ((0, 1, 2, 2), "impossible-transition"),
        ((0, 0), "row-width"),
        ((0, 0, 1, 1, 1), "row-width"),
        ("abc", "row-width"),
        (5, "row-width"),
    ],
)
def test_impossible_rows_are_named_and_nothing_is_counted(row, message):
    model = lake()
    prior = model.prior()
    with refused(DataError, message):
        model.count([*GOOD, row], prior)
    np.testing.assert_array_equal(prior, model.prior())


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (np.zeros((2, 5)), "wrong-shape"),
        (np.zeros(3), "wrong-shape"),
        ((0, 0, 1), "row-width"),
        (5, "wrong-type"),
        (None, "wrong-type"),
        (
            {"state": [0], "action": [0]},
            "missing-column",
        ),
        (pd.DataFrame({"place": [0]}), "missing-column"),
        ({"state": [0, 0], "action": [0], "next_state": [1, 1]}, "wrong-shape"),
        (np.array([[0, 0, 1], [0, np.nan, 1]]), "unknown-action"),
        (np.array([[0, 0, 1], [0, 0, -1]]), "unknown-state"),
    ],
)
def test_logs_that_are_no_logs(log, message):
    with refused(DataError, message):
        lake().count(log, lake().prior())


def test_a_prior_of_zero_makes_an_outcome_impossible():
    model = lake()
    prior = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
    with refused(DataError, "impossible-transition", row=1, state=0, action=0):
        model.count([(0, 0, 0), (0, 0, 1)], prior)
    with refused(DataError, "impossible-transition", row=0, state=0, action=0):
        model.count([(0, 0, 1, 2)], prior)
    prior[0, 2] = 1.0  # then outcome 1 still gets nothing
    np.testing.assert_array_equal(model.count([(0, 0, 1)], prior), [[1, 0, 2], [1, 1, 0]])


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ([[1, 1, 1], [1, -1, 0]], "negative"),
        ([[1, np.nan, 1], [1, 1, 0]], "not-finite"),
        ([[1, 1, 1]], "wrong-shape"),
        ("flat", "not-numbers"),
    ],
)
def test_bad_priors_are_refused(prior, message):
    with refused(PosteriorError, message):
        lake().count(GOOD, prior)


def test_named_models_name_what_is_wrong():
    model = named_walk()
    for row, message in [
        (("low", "go", "top"), "impossible-transition"),
        (("mid", "go", "top", 0), "impossible-transition"),
        (("mid", "go", "top", 5), "unknown-outcome"),
        (("mid", "fly", "top"), "unknown-action"),
    ]:
        with refused(DataError, message):
            model.count([row], model.prior())


def test_compatible_wants_an_admissible_pair():
    model = lake()
    assert model.compatible(0, 0, 1).tolist() == [1, 2]
    assert model.compatible(0, 0, 2).tolist() == []
    with refused(ParameterError, "inadmissible-action", state=1, action=1):
        model.compatible(1, 1, 0)
    with refused(ParameterError, "unknown-state", argument="next_state"):
        model.compatible(0, 0, 5)


# --- trajectories ----------------------------------------------------------------------------------------

THETA = np.array([[0.5, 0.2, 0.3], [0.9, 0.1, 0.0]])


def test_a_trajectory_obeys_the_dynamics():
    model = lake()
    policy = np.array([1, 0, 1])
    log = model.trajectory(THETA, policy, 500, state=2, rng=3)
    assert log.dtype == np.int64
    s, a, target, k = log.T
    assert s[0] == 2
    np.testing.assert_array_equal(a, policy[s])
    np.testing.assert_array_equal(target, model.next_state[s, a, k])
    np.testing.assert_array_equal(s[1:], target[:-1])
    np.testing.assert_array_equal(model.trajectory(THETA, policy, 100, state=2, rng=3), log[:100])
    np.testing.assert_array_equal(model.trajectory(THETA, policy, 500, state=2, rng=np.random.default_rng(3)), log)
    assert model.trajectory(THETA, policy, 0).shape == (0, 4)
    assert model.trajectory(THETA, policy, 3).shape == (3, 4)


def test_drawn_outcomes_have_the_probabilities_of_theta(rng):
    """Hoeffding: each of 3 frequencies of n draws is off by more than eps with probability 2 exp(-2 n eps^2).

    With n = 100,000 and eps = 0.0095 the false-alarm probability of the test is below 1e-7; probabilities
    that are off by 0.02 are missed with less than 1e-9.
    """
    theta = np.array([[0.5, 0.2, 0.3]])
    model = UncertainMDP([[0]], [[[0, 0, 0]]], [[0.0]], 0.9)
    log = model.trajectory(theta, [0], 100_000, rng=rng)
    frequency = np.bincount(log[:, 3], minlength=3) / len(log)
    assert np.abs(frequency - theta[0]).max() < 0.0095


def test_rounding_never_draws_an_impossible_outcome():
    """Ten times 0.1 sums to less than one: what is left belongs to the last possible outcome."""
    theta = np.array([[0.0] + [0.1] * 10 + [0.0]])

    class Largest(np.random.Generator):
        def random(self, size=None):
            return np.full(size, np.nextafter(1.0, 0.0))

    class Smallest(np.random.Generator):
        def random(self, size=None):
            return np.zeros(size)

    model = UncertainMDP([[0]], np.zeros((1, 1, 12), int), [[0.0]], 0.9)
    assert np.cumsum(theta)[-1] < 1.0
    assert model.trajectory(theta, [0], 1, rng=Largest(np.random.PCG64()))[0, 3] == 10
    assert model.trajectory(theta, [0], 1, rng=Smallest(np.random.PCG64()))[0, 3] == 1


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"policy": [0, 1, 0]},
            ParameterError,
            "inadmissible-action",
        ),
        (
            {"policy": [0, 0, 2]},
            ParameterError,
            "index-range",
        ),
        (
            {"policy": [-1, 0, 0]},
            ParameterError,
            "index-range",
        ),
        ({"policy": [0, 0]}, ParameterError, "wrong-shape"),
        (
            {"policy": [0.0, 0.0, 0.0]},
            ParameterError,
            "not-an-integer",
        ),
        ({"state": 3}, ParameterError, "unknown-state"),
        ({"state": "a"}, ParameterError, "unknown-state"),
        ({"steps": -1}, ParameterError, "integer-range"),
        ({"policy": 0}, ParameterError, "wrong-type"),
        ({"policy": [[0], [0], [0]]}, ParameterError, "wrong-shape"),
        ({"policy": [[0], [0, 1], [0]]}, ParameterError, "not-an-integer"),
        ({"rng": "x"}, ParameterError, "not-an-rng"),
        ({"steps": 1.5}, ParameterError, "not-an-integer"),
        ({"theta": [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]}, ModelError, "no-such-outcome"),
    ],
)
def test_bad_trajectories_are_refused(arguments, error, message):
    with refused(error, message):
        lake().trajectory(**({"theta": THETA, "policy": [0, 0, 0], "steps": 5} | arguments))
