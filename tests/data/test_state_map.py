"""State maps: cuts, quantiles, trees and clusters; names and order; plain rules against NumPy; files."""

import json
import pickle
import sys
from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

import prudent as pr
from prudent.data.state_map import StateMap
from prudent.errors import DataError, ParameterError, StateFileError

WARD = {
    "pressure": [65, 80, 90, 110, 72, 120, 99, 100],
    "trend": ["falling", "falling", "rising", "falling", "rising", "rising", "falling", "rising"],
}


def ward(**settings):
    return StateMap(["pressure", "trend"], method="cuts", cuts={"pressure": [70, 100]}, min_rows=1, **settings)


def steps(rng, episodes=40, length=12):
    """A walk whose drift is chosen by the action, with a category, a cyclic and a partly missing column."""
    rows = []
    for e in range(episodes):
        x = rng.normal()
        for t in range(length):
            action = rng.choice(["left", "right"])
            odd = None if rng.random() < 0.1 else float(rng.normal() * 1e6)
            rows.append((e, t, x, rng.choice(["a", "b"]), (3 * t + e) % 24, odd, action, -abs(x), t == length - 1))
            x += (0.5 if action == "right" else -0.5) + 0.1 * rng.normal()
    return pd.DataFrame(rows, columns=["episode", "step", "x", "kind", "hour", "odd", "action", "reward", "done"])


FEATURES = ["x", "kind", "hour", "odd"]
METHODS = {
    "tree": {"method": "tree", "n_states": 24},
    "quantiles": {"method": "quantiles", "bins": 3},
    "clusters": {"method": "clusters", "n_states": 9},
}


@pytest.fixture
def log(rng):
    return steps(rng)


# --- names and order -------------------------------------------------------------------------------------


def test_names_are_readable_and_in_order():
    states = ward().fit(WARD)
    assert states.states == (
        "pressure below 70, falling",
        "pressure 70-99, falling",
        "pressure 70-99, rising",
        "pressure 100 or more, falling",
        "pressure 100 or more, rising",
    )
    assert list(states.states) != sorted(states.states)
    assert states.transform({"pressure": [69, 70, 99, 100], "trend": ["falling"] * 4}).tolist() == [
        "pressure below 70, falling",
        "pressure 70-99, falling",
        "pressure 70-99, falling",
        "pressure 100 or more, falling",
    ]


def test_missing_values_are_a_value_of_their_own():
    states = StateMap(["p"], method="cuts", cuts={"p": [10]}, min_rows=1).fit({"p": [5, None, 12, np.nan, 13]})
    assert states.states == ("p below 10", "p 10 or more", "p missing")
    assert states.transform({"p": [np.nan, 5]}).tolist() == ["p missing", "p below 10"]
    assert states.locate({"p": None}) == ("p missing", None)


def test_cyclic_columns_join_the_end_to_the_beginning():
    hours = {"hour": [23, 0, 1, 2, 6, 8, 10, 12, 14, 16, 18, 20]}
    states = StateMap(["hour"], method="cuts", cuts={"hour": [6, 22]}, cyclic={"hour": 24}, min_rows=1).fit(hours)
    assert states.states == ("hour 22-5", "hour 6-21")
    assert states.transform({"hour": [23, 24, 47, 5, 6, -1]}).tolist() == [
        *["hour 22-5"] * 4,
        "hour 6-21",
        "hour 22-5",
    ]


def test_a_tree_can_split_over_midnight(rng):
    """Rewards differ between 22 and 4; a tree that sees hours on a line would need two pieces."""
    hour = rng.integers(0, 24, 3_000)
    night = (hour >= 22) | (hour < 4)
    log = {
        "episode": np.repeat(np.arange(600), 5),
        "hour": hour,
        "action": rng.choice(["a", "b"], 3_000),
        "reward": np.where(night, 5.0, 0.0),
        "done": np.ones(3_000, dtype=bool),
    }
    states = StateMap(["hour"], n_states=4, cyclic={"hour": 24}).fit(log)
    assert not set(states.transform(log)[night]) & set(states.transform(log)[~night])


def test_scale_does_not_matter(rng):
    log = steps(rng)
    small = StateMap(FEATURES, **METHODS["tree"]).fit(log).transform(log)
    big = log.assign(x=log["x"] * 1e6)
    large = StateMap(FEATURES, **METHODS["tree"]).fit(big).transform(big)
    same = pd.crosstab(small, large)  # cuts are rounded, which may move single rows
    assert same.max(axis=1).sum() >= 0.97 * len(log)


def test_numbers_beyond_single_precision_are_kept_apart(rng):
    """Trees of scikit-learn see single precision, in which these numbers are one."""
    x = 1.6e9 + rng.integers(0, 8, 2_000)
    log = {"episode": np.arange(2_000), "x": x, "action": rng.choice(["a", "b"], 2_000), "done": [True] * 2_000}
    log["reward"] = np.where(x >= 1.6e9 + 4, 1.0, 0.0)
    states = StateMap(["x"], n_states=2).fit(log)
    assert states.states == ("x below 1600000004", "x 1600000004 or more") or len(states.states) == 2
    assert len(set(states.transform(log)[x < 1.6e9 + 4])) == 1


@pytest.mark.parametrize("method", METHODS)
def test_states_do_not_depend_on_later_rows_or_rewards(method, log, rng):
    """The state of a row is a function of its features alone: other rows, the order and the reward change nothing."""
    states = StateMap(FEATURES, **METHODS[method]).fit(log)
    every = states.transform(log)
    order = rng.permutation(len(log))
    changed = log.iloc[order].assign(reward=rng.normal(size=len(log)), action="left")
    assert (states.transform(changed) == every[order]).all()
    assert (states.transform(log[FEATURES].iloc[:7]) == every[:7]).all()


def test_a_state_has_at_least_min_rows(log):
    for method in METHODS.values():
        states = StateMap(FEATURES, min_rows=15, **method).fit(log)
        left = log[log["step"] < 12]
        assert pd.Series(states.transform(left)).value_counts().min() >= 15


# --- plain rules -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=25)
@given(data=st.data())
def test_plain_rules_agree_with_numpy(method, data):
    log = steps(np.random.default_rng(5))
    states = fitted(method)
    cuts = [node[1] for node in states.rules["partition"].get("nodes", []) if len(node) > 1]
    cuts += [cut for column in states.rules["partition"].get("cuts", []) for cut in column]
    number = st.one_of(st.floats(-1e7, 1e7), st.sampled_from([*cuts, 0.0]), st.none(), st.floats(-4, 4))
    row = {
        "x": data.draw(number),
        "kind": data.draw(st.sampled_from(["a", "b", "never seen", None, ""])),
        "hour": data.draw(st.one_of(st.integers(-50, 50), st.none())),
        "odd": data.draw(number),
    }
    table = pd.DataFrame([{**row, "kind": row["kind"]}, log[FEATURES].iloc[0].to_dict()])
    known, strange = states.transform(table)[0], states.transform(table, unseen="none")[0] is None
    place = states.locate(row)
    assert (place.state, place.unseen is not None) == (known, strange)


FITTED = {}


def fitted(method):
    if method not in FITTED:
        FITTED[method] = StateMap(FEATURES, **METHODS[method]).fit(steps(np.random.default_rng(5)))
    return FITTED[method]


def test_what_nobody_has_seen_is_said(log):
    states = StateMap(FEATURES, **METHODS["tree"]).fit(log)
    row = {"x": 0.0, "kind": "a", "hour": 3, "odd": None}
    assert states.locate(row).unseen is None
    assert "kind" in states.locate(row | {"kind": "z"}).unseen
    assert "x is missing" in states.locate(row | {"x": None}).unseen
    assert "x is 900" in states.locate(row | {"x": 900}).unseen
    with refused(DataError, "unseen-observation"):
        states.transform(pd.DataFrame([row | {"x": 900}]), unseen="refuse")
    with refused(DataError, "missing-column", column="x"):
        states.locate({"kind": "a"})
    with refused(DataError, "not-finite"):
        states.locate(row | {"x": "many"})


# --- files -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_map_survives_json_and_pickle(method, log):
    states = fitted(method)
    again = StateMap.from_dict(json.loads(json.dumps(states.to_dict())))
    assert again == states
    assert hash(again) == hash(states)
    assert pickle.loads(pickle.dumps(states)) == states
    assert (again.transform(log) == states.transform(log)).all()
    plain = StateMap(FEATURES, **METHODS[method])
    assert StateMap.from_dict(plain.to_dict()) == plain != states


def test_damaged_records_are_refused():
    record = ward().fit(WARD).to_dict()
    with refused(StateFileError, "damaged-file"):
        StateMap.from_dict({"features": ["x"]})
    with refused(StateFileError, "damaged-file"):
        StateMap.from_dict(record | {"features": ["pressure"], "cuts": {}})
    with refused(StateFileError, "wrong-version", value=99):
        StateMap.from_dict(record | {"rules": record["rules"] | {"format": 99}})


def test_a_map_is_immutable_and_says_what_it_is():
    plain = ward()
    states = plain.fit(WARD)
    assert plain.states == ()
    with pytest.raises(FrozenInstanceError):
        states.method = "tree"
    assert repr(plain) == "StateMap(pressure, trend by given cuts, not fitted)"
    assert repr(states).startswith("StateMap(pressure, trend by given cuts, 5 states: pressure below 70, falling;")
    with refused(ParameterError, "not-fitted"):
        plain.transform(WARD)
    assert pr.StateMap is StateMap


# --- wrong input -----------------------------------------------------------------------------------------


def test_wrong_arguments_are_refused(log):
    with refused(ParameterError, "empty", argument="features"):
        StateMap([])
    with refused(ParameterError, "wrong-type", argument="features"):
        StateMap("pressure")
    with refused(ParameterError, "unknown-feature", argument="cyclic", value="hour"):
        StateMap(["x"], cyclic={"hour": 24})
    with refused(ParameterError, "not-increasing"):
        StateMap(["x"], cuts={"x": [3, 1]})
    with refused(ParameterError, "missing-cuts", value="kind2"):
        StateMap(["kind2"], method="cuts").fit({"kind2": [1.0, 2.0]})
    with refused(DataError, "missing-column", column="nothing"):
        StateMap(["nothing"]).fit(log)
    with refused(DataError, "missing-column", column="action"):
        StateMap(["x"]).fit({"x": [1.0, 2.0] * 20})
    with refused(DataError, "not-finite", column="x"):
        StateMap(["x"], method="quantiles").fit({"x": [1.0, np.inf]})
    with refused(DataError, "wrong-type", column="day"):
        StateMap(["day"], method="quantiles").fit({"day": pd.date_range("2020-01-01", periods=3)})
    with refused(DataError, "no-rows"):
        StateMap(["x"], method="quantiles").fit({"x": []})


def test_trees_say_how_to_install_scikit_learn(log, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with refused(ParameterError, "missing-package", package="scikit-learn"):
        StateMap(["x"]).fit(log)
    assert StateMap(["x"], method="quantiles").fit(log).states


def test_texts_of_numbers_are_numbers(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("p;ward\n1,5;x\n2,5;y\n;x\n")
    states = StateMap(["p", "ward"], method="quantiles", bins=2, min_rows=1).fit(path)
    assert states.states == ("p below 2, x", "p 2 or more, y", "p missing, x")
