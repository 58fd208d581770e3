"""``Features``: codes of cells against closed forms, and the laws of what is learned while rows stream by."""

from __future__ import annotations

import json
import math
from collections import namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from zlib import crc32

import numpy as np
import pandas as pd
import pytest
from refusals import refused

import prudent as pr
from prudent.errors import DataError, ParameterError

COUNTRIES = ["DE", "FR", "US", "IT", "PL"]


def made_rows(rng, count):
    """Return rows with every kind of cell, missing ones included."""
    return [
        {
            "country": None if rng.random() < 0.1 else COUNTRIES[int(rng.integers(5))],
            "price": float("nan") if rng.random() < 0.1 else float(rng.normal(50.0, 10.0)),
            "visits": int(rng.integers(0, 10_000)),
            "hour": float(rng.uniform(0.0, 24.0)),
            "when": datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=float(rng.uniform(0, 1e6))),
            "tags": [str(tag) for tag in rng.choice(["a", "b", "c", "d"], int(rng.integers(0, 4)), replace=False)],
            "age": float(rng.integers(18, 90)),
            "vip": bool(rng.integers(2)),
        }
        for _ in range(count)
    ]


def made_features(**options):
    kinds = {
        "country": "category",
        "price": "number",
        "visits": "count",
        "hour": "hour",
        "when": "time",
        "tags": "tags",
        "age": "bins",
        "vip": "flag",
    }
    return pr.Features(kinds, cross=[("country", "tags"), ("country", "price"), ("price", "visits")], **options)


def named(features, row):
    """Return the code of a row by names of places, without zeros."""
    code = features.transform(row)
    return {features.names[i]: code[i] for i in np.flatnonzero(code)}


# -- codes -------------------------------------------------------------------------------------------------


def test_a_number_is_on_the_scale_of_median_and_quartiles(rng):
    values = rng.normal(7.0, 3.0, 501)
    features = pr.Features.fit({"x": values})
    low, centre, high = np.quantile(values, [0.25, 0.5, 0.75])
    expected = (values - centre) / ((high - low) * 0.7413)
    np.testing.assert_allclose(features.transform({"x": values})[:, 0], expected, rtol=1e-13, atol=1e-13)
    assert features.transform({"x": 1e9}).tolist() == [10.0]
    assert features.transform({"x": -(10**18)}).tolist() == [-10.0]


def test_the_unit_of_a_number_does_not_matter(rng):
    values = rng.lognormal(0.0, 1.0, 200)
    one, other = pr.Features.fit({"x": values}), pr.Features.fit({"x": 1000.0 * values - 5.0})
    np.testing.assert_allclose(one.transform({"x": values}), other.transform({"x": 1000.0 * values - 5.0}), atol=1e-9)


def test_counts_are_logarithms():
    features = pr.Features(visits={"kind": "count", "centre": 1.0, "scale": 2.0, "missing": False})
    assert features.transform({"visits": 99}).tolist() == [(math.log(100.0) - 1.0) / 2.0]


def test_cycles_and_times():
    features = pr.Features(h="hour", d="weekday", t="time")
    assert named(features, {"h": 6, "d": None})["h sin"] == 1.0
    assert named(features, {"h": 6})["d missing"] == 1.0
    day, moment = 2.0 * math.pi * 17.5 / 24.0, datetime(2026, 3, 4, 17, 30)  # a Wednesday
    week = 2.0 * math.pi * (2.0 + 17.5 / 24.0) / 7.0
    expected = [math.sin(day), math.cos(day), math.sin(week), math.cos(week)]
    place = features.names.index("t day sin")
    seconds = moment.replace(tzinfo=UTC).timestamp()
    far = moment.replace(tzinfo=timezone(timedelta(hours=9)))  # its own clock counts
    for cell in (moment, far, "2026-03-04T17:30", seconds, np.datetime64("2026-03-04T17:30"), pd.Timestamp(moment)):
        np.testing.assert_allclose(features.transform({"t": cell})[place : place + 4], expected, atol=1e-9)
    hour = features.transform({"t": 17.5})[place : place + 4]
    np.testing.assert_allclose(hour, [*expected[:2], 0.0, 0.0], atol=1e-12)
    only_date = features.transform({"t": date(2026, 3, 4)})[place : place + 4]
    np.testing.assert_allclose(only_date, [0.0, 0.0, math.sin(5 * math.pi / 7), math.cos(5 * math.pi / 7)], atol=1e-12)


def test_bins_hold_equal_shares(rng):
    values = rng.permutation(800) * 1.0
    code = pr.Features.fit({"x": values}, x={"kind": "bins", "bins": 8, "missing": False}).transform({"x": values})
    assert code.sum(axis=0).tolist() == [100.0] * 8
    given = pr.Features(x={"kind": "bins", "edges": [0.0, 10.0], "missing": False})
    assert given.transform({"x": [-1.0, 0.0, 9.9, 10.0]}).argmax(axis=1).tolist() == [0, 1, 1, 2]
    assert given.names == ("x < 0", "0 <= x < 10", "x >= 10")


def test_a_category_without_a_slot_goes_where_its_hash_says():
    features = pr.Features(country={"kind": "category", "values": ["DE"], "shared": 5, "missing": False})
    assert features.transform({"country": "DE"}).tolist() == [1, 0, 0, 0, 0, 0]
    assert features.transform({"country": "Österreich"}).argmax() == 1 + crc32("Österreich".encode()) % 5
    assert features.transform({"country": None}).tolist() == [0.0] * 6


def test_numbers_are_categories_by_value():
    features = pr.Features(code="category").learn([{"code": 3}, {"code": "x"}])
    for cell in (3, 3.0, "3", np.int64(3), np.float64(3.0)):
        assert named(features, {"code": cell}) == {"code=3": 1.0}


def test_tags_and_missing_cells():
    features = pr.Features(tags={"kind": "tags", "separator": "|"}).learn([{"tags": "b|a"}])
    assert named(features, {"tags": {"a", "b"}}) == named(features, {"tags": "a|b|a"}) == {"tags=a": 1.0, "tags=b": 1.0}
    assert named(features, {"tags": []}) == {}
    for row in ({"tags": None}, {"tags": float("nan")}, {"tags": pd.NA}, {}):
        assert named(features, row) == {"tags missing": 1.0}


def test_a_cross_is_the_product_of_its_columns():
    features = pr.Features(
        {"a": "category", "b": "category", "x": {"kind": "number", "centre": 0.0, "scale": 2.0}, "y": "flag"},
        cross=[("a", "b"), ("a", "x"), ("x", "y"), ("a", "b", "x")],
    ).learn({"a": "p", "b": "q", "x": 3.0, "y": 1})
    code = named(features, {"a": "p", "b": "q", "x": 5.0, "y": 2})
    assert {name: code[name] for name in code if " x " in name} == {
        "a x b=p x q": 1.0,
        "a x x=p": 2.5,
        "x x y": 5.0,
        "a x b x x=p x q": 2.5,
    }
    assert not [name for name in named(features, {"a": "p", "x": 5.0}) if "a x b" in name]  # b is missing


# -- rows --------------------------------------------------------------------------------------------------


def test_all_kinds_of_rows_have_one_code(rng):
    rows = made_rows(rng, 40)
    features = made_features().fit(rows)
    expected = np.stack([features.transform(row) for row in rows])
    Record = namedtuple("Record", list(rows[0]))
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    frame = pd.DataFrame(rows)
    tables = (rows, tuple(rows), columns, frame, [Record(**row) for row in rows], pd.Series(rows), frame.iloc[:, ::-1])
    for table in tables:
        np.testing.assert_array_equal(features.transform(table), expected)
    np.testing.assert_array_equal(features.transform(frame.iloc[3]), expected[3])

    @dataclass
    class Visit:
        x: float
        y: str

    small = pr.Features(x="flag", y={"kind": "category", "values": ["u", "v"]})
    array = np.array([(1.0, "v"), (2.0, "u")], dtype=[("x", float), ("y", "U1")])
    np.testing.assert_array_equal(small.transform(array), small.transform([Visit(1.0, "v"), Visit(2.0, "u")]))
    np.testing.assert_array_equal(small.transform(array[0]), small.transform({"x": 1.0, "y": "v"}))


def test_rows_without_names_are_left_alone():
    features = pr.Features(x="flag")
    assert all(features.encode(given) is None for given in ([1.0], np.ones(2), None, [[1.0], [2.0]], 3.0))
    with refused(DataError, "no-names"):
        features.transform([1.0])
    with refused(DataError, "no-names", index=(1,)):
        features.transform([{"x": 1}, [1.0]])


@pytest.mark.parametrize(
    ("kind", "cell", "code"),
    [
        ("number", "3", "not-a-number"),
        ("number", math.inf, "not-finite"),
        ("number", 10**400, "not-finite"),
        ("count", -1, "negative"),
        ("category", {"a"}, "not-a-category"),
        ("tags", 3, "not-tags"),
        ("time", "noon", "not-a-time"),
        ("time", True, "not-a-time"),
        ("time", 1e15, "not-a-time"),
        ("hour", "noon", "not-a-number"),
        ("bins", object(), "not-a-number"),
    ],
)
def test_wrong_cells_are_refused(kind, cell, code):
    features = pr.Features(column=kind)
    with refused(DataError, code, column="column"):
        features.learn({"column": cell}).transform({"column": cell})
    with refused(DataError, code, column="column", index=(1,)):
        features.transform([{"column": None}, {"column": cell}])


@pytest.mark.parametrize("cell", [3.0, "DE", np.array(2.0), {"a": 1}])
def test_a_table_of_columns_has_lists(cell):
    with refused(DataError, "wrong-shape", argument="context", column="x"):
        pr.Features.fit({"y": [1.0, 2.0], "x": cell})
    with refused(DataError, "wrong-shape", column="x"):
        pr.Features(y="number", x="category").transform({"y": [1.0, 2.0], "x": cell})


def test_a_wrong_cell_of_an_exported_row_is_named():
    features = pr.Features(price="number")
    row = dict.fromkeys(features.names, 0.5)
    assert features.transform([row]).tolist() == [[0.5, 0.5]]
    with refused(DataError, "not-a-number", column="price missing", index=(1,)):
        features.transform([row, row | {"price missing": "no"}])


def test_an_infinite_category_is_a_text():
    features = pr.Features(x={"kind": "category", "values": ["inf", "1"], "shared": 0, "missing": False})
    assert features.transform([{"x": math.inf}, {"x": 1.0}])[:, :2].tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_unknown_columns_are_refused_or_ignored():
    with refused(DataError, "different-features", unknown=["prize"]):
        pr.Features(price="flag").transform({"prize": 3.0})
    assert pr.Features(price="flag", extra="ignore").transform({"price": 3.0, "id": [1, 2]}).tolist() == [3.0, 0.0]


@pytest.mark.parametrize(
    ("columns", "options", "code"),
    [
        ({}, {}, "missing-argument"),
        ({"x": "integer"}, {}, "unknown-kind"),
        ({"x": 3}, {}, "unknown-kind"),
        ({"x": {"kind": "number", "slots": 3}}, {}, "unknown-option"),
        ({"x": {"kind": "number", "centre": 3.0}}, {}, "missing-argument"),
        ({"x": {"kind": "bins", "edges": [2.0, 1.0]}}, {}, "not-ascending"),
        ({"x": {"kind": "category", "values": ["a", "a"]}}, {}, "duplicate-name"),
        ({"x": "number"}, {"cross": [("x", "y")]}, "unknown-name"),
        ({"x": "number"}, {"cross": [("x",)]}, "wrong-type"),
        ({"x": "number"}, {"cross": 3}, "wrong-type"),
        ({"x": "number"}, {"cross": [("x", {"y"})]}, "unknown-name"),
        ({"x": {"kind": "bins", "edges": ["a"]}}, {}, "not-a-number"),
        ({"x": {"kind": "bins", "edges": np.array([2.0, 1.0])}}, {}, "not-ascending"),
        ({"x": "number"}, {"extra": "keep"}, None),
    ],
)
def test_wrong_declarations_are_refused(columns, options, code):
    with refused(ParameterError, code) if code else pytest.raises(ParameterError):
        pr.Features(columns, **options)


# -- what is learned ---------------------------------------------------------------------------------------


def test_a_place_never_changes_its_meaning(rng):
    """From the first row on in which a place is not zero, codes of rows that were learned do not change there."""
    features, rows, codes = made_features(), made_rows(rng, 150), []
    for row in rows:
        codes.append(features.encode_and_learn(row))
        if len(codes) % 30 == 0:
            early, late = np.array(codes), features.transform(rows[: len(codes)])
            alive = np.logical_or.accumulate(early != 0.0, axis=0)  # from the first row on that had the place
            assert (early == late)[alive].all()
            assert (early[early != late] == 0.0).all()
    assert features.learned()["columns"].keys() == {"country", "price", "visits", "tags", "age"}


def test_learning_rows_at_once_is_learning_them_in_turn(rng):
    rows = made_rows(rng, 120)
    one, other = made_features(), made_features()
    one.learn(rows)
    for row in rows:
        other.encode_and_learn(row)
    assert one == other
    assert one.digest == other.digest
    np.testing.assert_array_equal(one.transform(rows), other.transform(rows))


def test_memory_is_bounded(rng):
    features = pr.Features(id="category", x="number", b="bins", tags="tags", cross=[("id", "tags")])
    for i in range(3000):
        features.learn({"id": f"user {i}", "x": 1.0, "b": 1.0, "tags": [f"tag {i}"]})  # no scale ever
    assert len(json.dumps(features.to_dict())) < 4000
    assert sum(map(len, features.seen().values())) == 30 + 80
    assert features.transform({"x": 1.0})[features.names.index("x")] == 0.0


def test_a_scale_waits_until_a_column_has_changed():
    features = pr.Features(x={"kind": "number", "rows": 5})
    for _ in range(20):
        assert features.encode_and_learn({"x": 3.0}).tolist() == [0.0, 0.0]
    assert features.encode_and_learn({"x": 4.0})[0] != 0.0
    assert features.learned()["columns"]["x"][0] == 3.0


def test_frozen_features_learn_nothing(rng):
    features = made_features().learn(made_rows(rng, 10)).freeze()
    digest, rows = features.digest, made_rows(rng, 100)
    code = features.transform(rows)
    features.learn(rows)
    np.testing.assert_array_equal(features.encode_and_learn(rows), code)
    assert features.digest == digest
    assert features.frozen
    assert not features.notice(rows)


def test_to_dict_and_back(rng):
    rows = made_rows(rng, 60)
    for count in (0, 5, 60):
        features = made_features().learn(rows[:count])
        text = json.dumps(features.to_dict())
        again = pr.Features.from_dict(json.loads(text)).resume(json.loads(json.dumps(features.seen())))
        assert again == features
        assert again.digest == features.digest
        assert again.names == features.names
        np.testing.assert_array_equal(again.learn(rows).transform(rows), features.learn(rows).transform(rows))


def test_what_is_not_features_is_refused(rng):
    features = made_features().learn(made_rows(rng, 50))
    values = features.to_dict()
    with refused(DataError, "wrong-version"):
        pr.Features.from_dict(values | {"version": 99})
    with refused(DataError, "wrong-format"):
        pr.Features.from_dict({"version": 1})
    learned = features.learned()
    for wrong in (
        {},
        learned | {"cross": []},
        learned | {"columns": {"unknown": 1}},
        learned | {"columns": {"price": [0.0, -1.0]}},
        learned | {"columns": {"country": ["a", "a"]}},
        learned | {"columns": {"country": list(map(str, range(99)))}},
        learned | {"columns": {"age": [2.0, 1.0]}},
        learned | {"columns": {"hour": 3}},
    ):
        before = features.digest
        with refused(DataError, "wrong-format"):
            features.take(wrong)
        assert features.digest == before


def test_other_events_have_other_digests():
    one, other = pr.Features(c="category"), pr.Features(c="category")
    assert one.digest == other.digest != pr.Features(c={"kind": "category", "slots": 17}).digest
    assert one.learn([{"c": "a"}, {"c": "b"}]).digest != other.learn([{"c": "b"}, {"c": "a"}]).digest


# -- samples -----------------------------------------------------------------------------------------------


def test_kinds_are_inferred(rng):
    sample = [row | {"day": row["when"].date().isoformat(), "zero": int(row["vip"])} for row in made_rows(rng, 200)]
    features = pr.Features.fit(sample, hour="hour")
    assert features.declared() == {
        "hour": "cycle", "country": "category", "price": "number", "visits": "count", "when": "time", "tags": "tags",
        "age": "count", "vip": "number", "day": "time", "zero": "number",
    }  # fmt: skip
    assert {name for name in features.names if name.endswith("missing")} == {
        "hour missing", "country missing", "price missing",
    }  # fmt: skip
    most = pd.Series([row["country"] for row in sample]).value_counts()
    first = [name for name in features.names if name.startswith("country=")]
    assert most[[name.partition("=")[2] for name in first]].is_monotonic_decreasing


@pytest.mark.parametrize(
    ("sample", "code"),
    [([], "no-rows"), ([[1.0]], "no-rows"), ([{"x": None}], "empty-column"), ([{"x": 1}, {"x": "a"}], "mixed-column")],
)
def test_samples_that_say_nothing_are_refused(sample, code):
    with refused(DataError, code):
        pr.Features.fit(sample)


def test_a_sample_is_also_a_file(tmp_path, rng):
    frame = pd.DataFrame({"x": rng.normal(size=50), "c": rng.choice(["a", "b"], 50)})
    frame.to_csv(tmp_path / "sample.csv", index=False)
    assert pr.Features.fit(tmp_path / "sample.csv").declared() == {"x": "number", "c": "category"}


def test_products_of_different_labels_have_different_labels_and_places(rng):
    """Texts with the separator of products, with quotes, and with names of other columns in them."""
    texts = ["x", "x x", "a x b", "a", "b", "a x", "x b", '"a"', '"a x b"', "a=b", " x ", "b x c", "c"]
    features = pr.Features(
        {"a": {"kind": "category", "slots": 20}, "a=b": {"kind": "category", "slots": 20}},
        cross=[{"columns": ("a", "a=b"), "slots": 200}],
    )
    rows = [{"a": one, "a=b": two} for one in texts for two in texts]
    features.fit(rows)
    codes = features.encode(rows)
    assert len({code.tobytes() for code in codes}) == len(rows)
    crossed = codes[:, [name.startswith("a x a=b=") for name in features.names]]
    assert crossed.shape[1] == len(rows) == int((crossed.sum(axis=0) == 1.0).sum())
    assert len(set(features.names)) == features.dim
