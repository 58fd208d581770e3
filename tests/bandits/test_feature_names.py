"""Contexts that say which number is which: put into order, checked by name, and remembered."""

import collections
import json
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from _learned import learned
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

import prudent as pr
from prudent._support.state import state_parts
from prudent.bandits import LinearBandit, SharedLinearBandit
from prudent.data.features import read_named
from prudent.errors import DataError, ParameterError, StateFileError
from prudent.journal import Journal

NAMES = ("age", "price", "size")
POINT = {"age": 3.0, "price": -1.0, "size": 0.5}
Item = collections.namedtuple("Item", ["size", "age", "price"])
FIELDS = np.dtype([("size", float), ("age", float), ("price", float)])


def turned(order):
    return {name: POINT[name] for name in order}


ONE = [
    turned(["size", "age", "price"]),
    pd.Series(turned(["price", "age", "size"])),
    pd.Series(turned(["price", "age", "size"]), dtype=object),
    Item(**POINT),
    np.array([(0.5, 3.0, -1.0)], dtype=FIELDS)[0],
    pd.Series({2: 0.5, 0: 3.0, 1: -1.0}),  # numbers are positions
    collections.ChainMap({"age": 3.0}, {"price": -1.0, "size": 0.5}),
]
FRAME = pd.DataFrame([turned(["size", "price", "age"]), {"age": 1.0, "price": 2.0, "size": 0.0}])
ROWS = [[3.0, -1.0, 0.5], [1.0, 2.0, 0.0]]
MANY = [
    FRAME,
    FRAME.astype(object),
    pa.table(FRAME),
    FRAME.to_dict("records"),
    FRAME.to_dict("list"),
    FRAME["price"].to_frame().join(FRAME[["age", "size"]]),
    [FRAME.iloc[0], FRAME.iloc[1][list(NAMES)]],
    [ROWS[0], dict(zip(NAMES, ROWS[1], strict=True))],
    FRAME.to_records(index=False),
    np.array(FRAME.to_dict("records"), dtype=object),
    pd.Series(FRAME.to_dict("records"), index=["u", "v"]),
    [Item(**POINT), Item(age=1.0, price=2.0, size=0.0)],
    pd.DataFrame(ROWS)[[2, 0, 1]],
]


def pair(**options):
    """A bandit with names, and one without."""
    made = [LinearBandit(["a", "b"], rng=4, **options, **each) for each in ({"features": NAMES}, {"dim": 3})]
    return [bandit.update(np.eye(3), ["a", "b", "a"], [1.0, 0.0, 1.0]) for bandit in made]


@pytest.mark.parametrize("context", ONE, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("options", [{"noise_sd": 1.0}, {"rewards": "bernoulli"}, {"half_life": 9, "first_pulls": 1}])
def test_a_context_is_put_into_order(context, options):
    named, plain = pair(**options)
    for _ in range(3):
        one, two = named.select(context), plain.select(list(POINT.values()))
        assert (one.arm, one.score, one.context.tolist()) == (two.arm, two.score, two.context.tolist())
        named.update(context, one.arm, 1.0)
        plain.update(two.context, two.arm, 1.0)
    for name in ("propensities", "predict", "score"):
        np.testing.assert_array_equal(getattr(named, name)(context), getattr(plain, name)(list(POINT.values())))
    assert named.name_features(NAMES).to_bytes() == plain.name_features(NAMES).to_bytes()


@pytest.mark.parametrize("contexts", MANY, ids=lambda each: type(each).__name__)
def test_contexts_are_put_into_order(contexts):
    named, plain = pair()
    one, two = named.select(contexts), plain.select(ROWS)
    np.testing.assert_array_equal(one.mean, two.mean)
    np.testing.assert_array_equal(one.arm, two.arm)
    named.update(contexts, ["a", "b"], [1.0, 3.0])
    plain.update(ROWS, ["a", "b"], [1.0, 3.0])
    np.testing.assert_array_equal(named.propensities(contexts), plain.propensities(ROWS))
    assert named.to_bytes() == plain.name_features(NAMES).to_bytes()


@settings(max_examples=60, deadline=None)
@given(st.permutations(NAMES), st.permutations(NAMES), st.sampled_from(["dict", "frame", "rows"]))
def test_the_order_in_which_features_are_told_does_not_matter(first, then, kind):
    make = {
        "dict": lambda names: turned(names),
        "frame": lambda names: pd.DataFrame([turned(names)]),
        "rows": lambda names: [turned(names), turned(NAMES)],
    }[kind]
    known = read_named(make(first), None, "context")
    assert known.names == tuple(first)
    again = read_named(make(then), known.names, "context")
    assert again.names == known.names
    np.testing.assert_array_equal(again.values, known.values)


def test_names_are_those_first_seen_by_a_call_that_worked():
    bandit = LinearBandit(2, 3, rng=1)
    bandit.propensities(POINT), bandit.predict(POINT), bandit.explain(POINT)
    for wrong in (POINT | {"age": np.nan}, {"age": 1.0}, POINT | {"more": 1.0}, POINT | {"age": "old"}):
        with pytest.raises(DataError):
            bandit.select(wrong)
        with pytest.raises(DataError):
            bandit.update(wrong, 0, 1.0)
    with refused(ParameterError, "unknown-arm", argument="arms[0]"):
        bandit.select(POINT, arms=[7])
    with refused(DataError, "not-a-number", argument="reward"):
        bandit.update(POINT, 0, "much")
    assert bandit.features is None
    assert bandit.select(POINT).context.tolist() == [3.0, -1.0, 0.5]
    assert bandit.features == NAMES
    shared = SharedLinearBandit(3)
    with refused(DataError, "wrong-shape", argument="reward"):
        shared.update(POINT, None, [1.0, 2.0])
    with refused(ParameterError, "integer-range", argument="top"):
        shared.select([POINT], top=2)
    assert shared.features is None
    assert shared.update(POINT, None, 1.0).features == NAMES


WRONG = [
    ({"age": 1.0, "price": 1.0}, "context lacks 'size'; the features are 'age', 'price', 'size'"),
    (POINT | {"colour": 1.0}, "context has 'colour' besides"),
    ({"age": 1.0, "price": 1.0, "Size": 1.0}, "context lacks 'size' and has 'Size' besides"),
    (POINT | {"age": "old"}, "context['age'] is 'old', expected a number"),
    (POINT | {"price": np.inf}, "context['price'] is inf, expected a finite number"),
    (POINT | {"price": 10**400}, "context['price'] is 1000"),
    ([POINT, turned(["age", "size"])], "context[1] lacks 'price'"),
    ([POINT, [1.0, 2.0]], "context[1] has shape (2,), expected (3,)"),
    (FRAME.assign(age=[1.0, np.nan]), "context[1]['age'] is nan"),
    (FRAME.assign(age=["1", "new"]), "context['age'] is 'new' in row 1"),
    (FRAME.drop(columns="age"), "context lacks 'age'"),
    (FRAME.set_axis(["age", "age", "size"], axis=1), "context has two features called 'age'"),
    ({"age": [1.0], "price": [1.0, 2.0], "size": [1.0]}, "context['price'] has shape (2,), unlike context['age']"),
    ({"age": [1.0], "price": 1.0, "size": [1.0]}, "context['price'] has shape (), unlike context['age']"),
    (pd.DataFrame(np.ones((2, 4))), "context has shape (2, 4), expected (3,) or (T, 3)"),
    ({"age": pd.NA, "price": 1.0, "size": 1.0}, "context['age'] is <NA>, expected a number"),
    ([10**400, 1.0, 2.0], "context holds a whole number too large for a float"),
]


@pytest.mark.parametrize(("context", "message"), WRONG, ids=lambda each: each if isinstance(each, str) else "")
def test_what_is_wrong_is_told_by_name(context, message):
    named, _ = pair(noise_sd=1.0)
    before = named.to_bytes()
    for call in (named.select, named.propensities, lambda context: named.update(context, ["a", "b"], [1.0, 1.0])):
        with pytest.raises(DataError, match=re.escape(message)):
            call(context)
    assert named.to_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"features": ["a", "b", "a"]}, "duplicate-name"),
        ({"features": "ab"}, "wrong-type"),
        ({"features": 3}, "wrong-type"),
        ({"features": ["a", "intercept"]}, "duplicate-name"),
        ({"dim": 3, "features": ["a"]}, "wrong-shape"),
        ({}, "missing-argument"),
    ],
)
def test_wrong_names(arguments, code):
    for make in (lambda **options: LinearBandit(2, **options), SharedLinearBandit):
        with refused(ParameterError, code):
            make(**arguments)
    with refused(ParameterError, "duplicate-name"):
        SharedLinearBandit(features=["offset"], offsets=True)
    assert LinearBandit(2, features=["intercept"], intercept=False).dim == 1
    with refused(ParameterError, "wrong-shape", argument="features"):
        LinearBandit(2, 2).name_features(["a"])


ITEMS = {"tea": {"size": 1.0, "price": 2.0}, "jam": {"price": 1.0, "size": 3.0}}
TABLE = pd.DataFrame.from_dict(ITEMS, orient="index")


@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("items", [ITEMS, TABLE, TABLE[["price", "size"]], pd.Series(ITEMS)], ids=["0", "1", "2", "3"])
def test_items_are_put_into_order(items, offsets):
    named = SharedLinearBandit(features=["price", "size"], noise_sd=1.0, offsets=offsets, rng=2)
    plain = SharedLinearBandit(2, noise_sd=1.0, offsets=offsets, rng=2)
    rows = [[2.0, 1.0], [1.0, 3.0]]
    for _ in range(4):
        one, two = named.select(items, top=2), plain.select(rows, arms=["tea", "jam"], top=2)
        assert (one.slate, one.scores.tolist()) == (two.slate, two.scores.tolist())
        named.update(pd.DataFrame(one.chosen, columns=["price", "size"]), one.slate, [1.0, 0.0])
        plain.update(two.chosen, two.slate, [1.0, 0.0])
    np.testing.assert_array_equal(named.propensities(items), plain.propensities(rows, ["tea", "jam"]))
    assert named.to_bytes() == plain.name_features(["price", "size"]).to_bytes()
    assert named.explain(items).features[1:3] == ("price", "size")
    with refused(DataError, "different-features"):
        named.select({"tea": ITEMS["tea"], "jam": {"price": 1.0}})
    with refused(DataError, "ambiguous-table", argument="context"):
        SharedLinearBandit(2).update({"tea": [1.0, 2.0], "jam": [2.0, 3.0]}, None, [1.0, 2.0])


# -- what remembers names ----------------------------------------------------------------------------------


@pytest.mark.parametrize("bandit", [LinearBandit(2, features=NAMES), SharedLinearBandit(features=NAMES)])
def test_names_survive_copies_and_files(bandit, tmp_path):
    bandit.save(tmp_path / "state")
    kind = type(bandit)
    for again in (
        bandit.copy(),
        bandit.copy(stream=1),
        kind.load(tmp_path / "state"),
        kind.from_bytes(bandit.to_bytes()),
    ):
        assert again.features == NAMES
        with refused(DataError, "different-features"):
            again.update({"price": 1.0, "size": 2.0}, 0, 1.0)
    values, arrays = bandit.state()
    for forged in (["a", "b"], ["a", "a", "b"], ["a", "b", 3], "abc", ["a", "b", "intercept"], 5):
        content = b"".join(state_parts(bandit._KIND, bandit._VERSION, values | {"features": forged}, arrays))
        with pytest.raises(StateFileError):
            kind.from_bytes(content)


def test_names_survive_a_merge_and_contradictions_are_refused():
    base = LinearBandit(2, 3, rng=1)
    one, two, three = base.copy(stream=0), base.copy(stream=1), base.copy(stream=2)
    two.update(POINT, 0, 1.0)
    three.update(turned(["size", "price", "age"]), 0, 1.0)
    assert one.merge(two, since=base).features == NAMES
    before = one.to_bytes()
    with refused(ParameterError, "different-features", argument="other"):
        one.merge(three, since=base)
    assert one.to_bytes() == before


def test_names_show_where_features_do():
    bandit = LinearBandit(["a", "b"], features=NAMES, noise_sd=1.0)
    contexts = pd.DataFrame({"size": np.tile([0.0, 2.0], 20), "price": 100.0 * np.arange(40), "age": np.ones(40)})
    bandit.update(contexts, ["a", "b"] * 20, np.arange(40) % 3)
    assert bandit.to_xarray()["feature"].values.tolist() == ["intercept", *NAMES]
    assert bandit.explain([1.0, 2.0, 3.0]).features == ("intercept", *NAMES)
    assert bandit.copy().name_features(["x", "y", "z"]).explain([1.0, 2.0, 3.0]).features == (
        "intercept",
        "x",
        "y",
        "z",
    )
    ticks = [label.get_text() for label in bandit.plot().axes[1].get_yticklabels()]
    assert ticks == list(NAMES)
    said = str(bandit.check())
    assert "feature 'age' is always 1" in said
    assert "feature 'price' varies" in said
    assert "feature 'size'" in said
    shared = SharedLinearBandit(features=NAMES, noise_sd=1.0).update(contexts, None, np.arange(40) % 3)
    assert shared.to_xarray()["feature"].values.tolist() == ["intercept", *NAMES]


def test_logs_with_names():
    log = pd.DataFrame({"price": [1.0, 2.0], "age": [3.0, 4.0], "arm": ["a", "b"], "reward": [1.0, 2.0]})
    plain = LinearBandit.from_log([([3.0, 1.0], "a", 1.0), ([4.0, 2.0], "b", 2.0)], rng=1).name_features(
        ["age", "price"]
    )
    rows = [({"age": 3.0, "price": 1.0}, "a", 1.0), ({"price": 2.0, "age": 4.0}, "b", 2.0)]
    for given_log, options in ((log, {"features": ["age", "price"]}), (rows, {})):
        assert LinearBandit.from_log(given_log, rng=1, **options).to_bytes() == plain.to_bytes()
    with refused(DataError, "missing-column"):
        LinearBandit.from_log(log, features=["age", "prize"])
    shared = SharedLinearBandit.from_log(log, features=["age", "price"], rng=1)
    again = SharedLinearBandit.from_log([(context, reward) for context, _, reward in rows], rng=1)
    assert shared.to_bytes() == again.to_bytes()
    assert shared.features == ("age", "price")
    clicks = LinearBandit.from_log(rows, rewards="poisson", rng=1)
    assert clicks.refit([row[::1] for row in rows[::-1]]).features == ("age", "price")


# -- journals ----------------------------------------------------------------------------------------------


def test_a_journal_remembers_names(tmp_path):
    path = tmp_path / "j"
    with Journal(path, LinearBandit(["a", "b"], 3, rng=5), synchronous="NORMAL", snapshot_every=3) as live:
        live.select([1.0, 2.0, 3.0])
        for wrong in (POINT | {"age": np.nan}, [POINT, {"age": 1.0}]):
            with pytest.raises(DataError):
                live.select(wrong)
        assert live.bandit.features is None
        decision = live.select(POINT)
        assert decision.context.tolist() == [3.0, -1.0, 0.5]
        live.reward(decision.id, 2.0)
        assert [each.context.tolist() for each in live.select(FRAME)] == ROWS
        with refused(DataError, "different-features"):
            live.select({"age": 1.0, "price": 1.0})
        with Journal(path) as other:
            assert other.bandit.features == NAMES
            assert learned(other.bandit) == learned(live.bandit)
        before = learned(live.bandit)
    for again in (None, LinearBandit(["a", "b"], 3), LinearBandit(["a", "b"], features=NAMES)):
        with Journal(path, again) as live:
            assert learned(live.bandit) == before
            assert live.verify() == 4
            assert [row["context"] for row in live.rows()][1:] == [ROWS[0], *ROWS]
    with refused(ParameterError, "bandit-mismatch", argument="bandit"):
        Journal(path, LinearBandit(["a", "b"], features=["price", "age", "size"]))
    with Journal(path) as live:
        live.name_features(["u", "v", "w"])
        live.add_arm("c")
    with Journal(path, LinearBandit(["a", "b", "c"], 3)) as live:  # today's arms, and nothing said of names
        assert live.bandit.features == ("u", "v", "w")


def test_a_journal_of_items_remembers_names(tmp_path):
    path = tmp_path / "j"
    tables = [TABLE, TABLE[["price", "size"]].rename(index={"tea": "rum"})]
    with Journal(path, SharedLinearBandit(2, offsets=True, rng=5), synchronous="NORMAL") as live:
        with refused(DataError, "different-features"):
            live.select([TABLE, TABLE.rename(columns={"price": "prize"})])
        assert live.bandit.features is None
        slates = live.select(tables, top=2)
        assert [each.arms for each in slates] == [("tea", "jam"), ("rum", "jam")]
        assert [each.candidates.tolist() for each in slates] == [[[1.0, 2.0], [3.0, 1.0]]] * 2
        live.reward(slates[0].ids, [1.0, 2.0])
        assert live.select(ITEMS).candidates.tolist() == [[1.0, 2.0], [3.0, 1.0]]
        assert live.bandit.features == ("size", "price")
        before = learned(live.bandit)
    with Journal(path) as live:
        assert learned(live.bandit) == before
        assert live.verify() == 3


# -- evaluation --------------------------------------------------------------------------------------------


def logged(rows=400):
    rng = np.random.default_rng(8)
    table = pd.DataFrame({"price": rng.random(rows), "age": rng.random(rows), "arm": rng.choice(["a", "b"], rows)})
    return table.assign(reward=np.where(table["arm"] == "a", table["age"], table["price"]), propensity=0.5)


def test_evaluation_matches_features_by_name(tmp_path):
    table = logged()
    bandit = LinearBandit.from_log(table[:200], features=["age", "price"], rng=1)
    right = pr.off_policy(table, bandit, features=["age", "price"])
    nested = [
        {"context": {"price": row.price, "age": row.age}, "arm": row.arm, "reward": row.reward, "propensity": 0.5}
        for row in table.itertuples()
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, nested)))
    texts = table.assign(context=[json.dumps(row["context"]) for row in nested])
    for log, options in (
        (table, {"features": ["price", "age"]}),
        (table, {}),  # the bandit knows its columns
        (nested, {}),
        (nested, {"block": 7}),
        (tmp_path / "log.jsonl", {}),
        (texts, {}),
    ):
        found = pr.off_policy(log, bandit, **options)
        np.testing.assert_allclose(found.loc["ips"], right.loc["ips"], rtol=1e-12)
    fresh = LinearBandit(["a", "b"], features=["age", "price"], rng=1)
    runs = [
        pr.evaluation.replay(table, fresh, features=order).mean for order in (["age", "price"], ["price", "age"], None)
    ]
    assert runs[0] == runs[1] == runs[2]
    for call in (pr.off_policy, pr.evaluation.replay):
        with refused(DataError, "different-features"):
            call(table, bandit, features=["age", "reward"])
        with refused(DataError, "missing-column", argument="log"):
            call(table.drop(columns="price"), bandit)
        with refused(ParameterError, "missing-column", argument="log"):
            call(table.drop(columns=["price", "age"]), bandit)
    with refused(DataError, "different-features"):
        pr.off_policy([*nested[:11], nested[11] | {"context": {"price": 1.0}}], bandit, block=4)
    grid = {"noise_sd": [1.0, 2.0], "features": [("age", "price")]}
    one, two = (
        pr.evaluation.tune(table, grid, runs=2, features=order).means for order in (["age", "price"], ["price", "age"])
    )
    np.testing.assert_array_equal(one, two)


@pytest.mark.filterwarnings("ignore::prudent.evaluation.off_policy.OverlapWarning")
def test_evaluation_of_a_journal_knows_its_names(tmp_path):
    table = logged(60)
    with Journal(tmp_path / "j", LinearBandit(["a", "b"], 2, rng=5), synchronous="NORMAL") as live:
        for decision, reward in zip(live.select(table[["price", "age"]]), table["reward"], strict=True):
            live.reward(decision.id, reward)
        bandit = live.bandit.copy()
        turned_bandit = LinearBandit.from_log(table, features=["age", "price"], rng=1)
        straight = LinearBandit.from_log(table, features=["price", "age"], rng=1)
        for target in (bandit, turned_bandit):
            pr.off_policy(live, target)
        one, two = (pr.off_policy(live, target).loc["ips", "estimate"] for target in (turned_bandit, straight))
        assert one == pytest.approx(two, rel=1e-6)
