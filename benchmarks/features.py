"""Features: dicts of ten columns to numbers, against a ColumnTransformer of scikit-learn that does the same."""

from __future__ import annotations

import numpy as np
import pandas as pd

from prudent.bandits import LinearBandit, SparseLinearBandit
from prudent.data import Features

from ._timing import Row, absent, median_times

ROWS = 1000
CATEGORIES = ("country", "device", "plan", "source")
NUMBERS = ("price", "age", "visits", "orders", "rating", "hours")


def rows_of(count: int) -> list[dict[str, object]]:
    rng = np.random.default_rng(0)
    rows: list[dict[str, object]] = []
    for _ in range(count):
        row: dict[str, object] = {name: f"{name} {rng.integers(8)}" for name in CATEGORIES}
        rows.append(row | {name: float(rng.lognormal()) for name in NUMBERS})
    return rows


def many_features() -> list[Row]:
    """Return what a decision between 10 arms costs with 100,000 features, of which 30 are not zero."""
    rng = np.random.default_rng(0)
    columns = {f"c{i}": {"kind": "category", "slots": 0, "shared": 3333, "missing": False} for i in range(30)}
    bandit = SparseLinearBandit(10, features=Features(columns), rng=1)
    contexts = [{name: f"value {rng.integers(10_000)}" for name in columns} for _ in range(ROWS)]
    bandit.update(contexts, [i % 10 for i in range(ROWS)], rng.normal(size=ROWS))
    codes = [bandit.select(context).context for context in contexts[:200]]
    named, packed, chance = median_times(
        lambda: [bandit.select(context) for context in contexts[:200]],
        lambda: [bandit.select(code) for code in codes],
        lambda: [bandit.select(code).propensity for code in codes],
    )
    names = ("a dict", "its code", "its code, with the propensity")
    return [
        Row(f"100,000 features, {name}", took / 200, 200e-6, "<= 200 us", took / 200 <= 200e-6, "10 arms", fixed=True)
        for name, took in zip(names, (named, packed, chance), strict=True)
    ]


def run() -> list[Row]:
    rows = rows_of(ROWS)
    features = Features.fit(rows)
    try:
        from sklearn.compose import ColumnTransformer
        from sklearn.preprocessing import OneHotEncoder, RobustScaler
    except ImportError as error:
        return [absent("a dict of ten columns", error)]
    theirs = ColumnTransformer(
        [
            ("categories", OneHotEncoder(handle_unknown="ignore"), list(CATEGORIES)),
            ("numbers", RobustScaler(), list(NUMBERS)),
        ]
    ).fit(pd.DataFrame(rows))
    few, one = rows[:20], rows[0]
    alone, other = median_times(
        lambda: [features.encode_and_learn(row) for row in rows],
        lambda: [theirs.transform(pd.DataFrame([row])) for row in few],
        repeats=7,
    )
    many, others = median_times(lambda: features.transform(rows), lambda: theirs.transform(pd.DataFrame(rows)))
    bandit = LinearBandit(5, features=features, rng=1)
    bandit.update(rows, [i % 5 for i in range(ROWS)], [float(i % 3) for i in range(ROWS)])
    code = bandit.select(one).context
    with_names, plain = median_times(
        lambda: [bandit.select(one) for _ in range(200)], lambda: [bandit.select(code) for _ in range(200)]
    )
    note = f"ten columns, {features.dim} numbers, one thread"
    return [
        *many_features(),
        Row("a dict to numbers", alone / ROWS, other / 20, ">= 100", other / 20 >= 100 * alone / ROWS, note),
        Row("a row of a batch", many / ROWS, others / ROWS, "none", True, "a vectorised batch there", counts=False),
        Row("select of a dict", with_names / 200, plain / 200, "none", True, "of its code there", counts=False),
    ]
