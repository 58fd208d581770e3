"""Off-policy evaluation against obp's numbers, enumerated expectations, explicit formulas, and simulated logs."""

from __future__ import annotations

import itertools
import json
import math
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest
from refusals import refused, warned
from scipy import stats

import prudent as pr
from prudent.errors import DataError, OverlapWarning, ParameterError, PrudentError
from prudent.evaluation import off_policy

OBP = json.loads((Path(__file__).parents[1] / "golden" / "obp.json").read_text())


def simulated(n, rng, arms=3, dim=2, noise=1.0):
    """Return a log of a softmax policy on a linear world, a target [T,A], and the mean rewards [T,A]."""
    theta = np.arange(1.0, arms * dim + 1.0).reshape(arms, dim) / (arms * dim)
    x = rng.standard_normal((n, dim))
    behaviour = np.exp(x @ theta.T * 0.5)
    behaviour /= behaviour.sum(axis=1, keepdims=True)
    target = np.exp(-x @ theta.T * 0.5)
    target /= target.sum(axis=1, keepdims=True)
    arm = (behaviour.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=arms - 1)
    means = 0.5 + x @ theta.T
    reward = means[np.arange(n), arm] + noise * rng.standard_normal(n)
    log = {"context": x, "arm": arm, "reward": reward, "propensity": behaviour[np.arange(n), arm]}
    return log, target, means


def estimates(found):
    return found.to_pandas()["estimate"].to_numpy()


def test_obp_agrees():
    log = {name: np.array(OBP[name]) for name in ("arm", "reward", "propensity")}
    target, predictions = np.array(OBP["target"]), np.array(OBP["predictions"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)
        found = off_policy(log, target, reward_model=predictions, clip=OBP["clip"], switch=OBP["switch"])
    assert list(found.index) == list(OBP["obp"])
    for name, value in OBP["obp"].items():
        assert found.loc[name, "estimate"] == pytest.approx(value, abs=1e-13)


def test_intervals_are_the_formulas():
    log, target, _ = simulated(500, np.random.default_rng(1))
    predictions = np.random.default_rng(2).random((500, 3))
    options = {"reward_model": predictions, "confidence": 0.9, "clip": 1.3, "switch": 1.2}
    found = off_policy(log, target, interval="normal", **options)
    rows = np.arange(500)
    w, r = target[rows, log["arm"]] / log["propensity"], log["reward"]
    q, v = predictions[rows, log["arm"]], (predictions * target).sum(axis=1)
    wc, ws = np.minimum(w, 1.3), np.where(w <= 1.2, w, 0.0)
    snips, sndr = (w * r).mean() / w.mean(), (w * (r - q)).mean() / w.mean()
    terms = {
        "ips": w * r,
        "snips": snips + w * (r - snips) / w.mean(),
        "clipped_ips": wc * r,
        "dm": v,
        "dr": v + w * (r - q),
        "sndr": v + sndr + w * (r - q - sndr) / w.mean(),
        "switch_dr": v + ws * (r - q),
    }
    z = stats.norm.ppf(0.95)
    for name, term in terms.items():
        half = z * term.std(ddof=1) / math.sqrt(500)
        assert found.loc[name, ["estimate", "low", "high"]].tolist() == pytest.approx(
            [term.mean(), term.mean() - half, term.mean() + half], rel=1e-10
        )
    for name, weight in (("ips", w), ("dr", w), ("clipped_ips", wc), ("switch_dr", ws)):
        assert found.loc[name, "ess"] == pytest.approx(weight.sum() ** 2 / (weight**2).sum(), rel=1e-10)


def test_ips_and_dr_are_unbiased_whatever_was_logged():
    """The expectation over all 256 logs of four rows is the truth, to rounding."""
    x = np.array([[0.5], [-1.0], [2.0], [0.1]])
    chance = np.array([0.3, 0.6, 0.5, 0.8])  # of arm 1
    target = np.array([0.9, 0.2, 0.4, 0.5])  # of arm 1
    pays = np.array([[0.2, 0.7], [0.4, 0.1], [0.5, 0.9], [0.3, 0.6]])  # chance of reward 1
    truth = ((1 - target) * pays[:, 0] + target * pays[:, 1]).mean()
    expected = np.zeros(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)
        for arms in itertools.product([0, 1], repeat=4):
            for rewards in itertools.product([0, 1], repeat=4):
                a, r, i = np.array(arms), np.array(rewards), np.arange(4)
                p = np.where(a == 1, chance, 1 - chance)
                weight = p.prod() * np.where(r == 1, pays[i, a], 1 - pays[i, a]).prod()
                log = {"context": x, "arm": a, "reward": r, "propensity": p}
                found = off_policy(log, np.column_stack([1 - target, target]), folds=3, arms=[0, 1])
                expected += weight * found.to_pandas().loc[["ips", "dr"], "estimate"].to_numpy()
    assert expected == pytest.approx([truth, truth], abs=1e-12)


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_intervals_cover_the_truth(count):
    """A correct 95% interval is refused with chance below 1e-6 for each estimator."""
    rng = np.random.default_rng(3)
    big = simulated(400_000, np.random.default_rng(4))
    truth = (big[1] * big[2]).sum(axis=1)
    error = truth.std() / math.sqrt(truth.size)
    names = ["ips", "snips", "dm", "dr", "sndr"]
    covered, sure = np.zeros(len(names)), np.zeros(len(names))
    for _ in range(count):
        log, target, _ = simulated(400, rng)
        table = off_policy(log, target, interval="normal").to_pandas().loc[names]
        safe = off_policy(log, target).to_pandas().loc[names]
        sure += ((safe.low < truth.mean()) & (truth.mean() < safe.high)).to_numpy()
        covered += ((table.low - 3 * error < truth.mean()) & (truth.mean() < table.high + 3 * error)).to_numpy()
    for name, hits in zip(names, covered, strict=True):
        assert stats.binomtest(int(hits), count, 0.95).pvalue > 1e-6, (name, hits)
    assert (sure >= 0.95 * count).all()


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """One log in many forms."""
    folder = tmp_path_factory.mktemp("logs")
    rng = np.random.default_rng(5)
    n = 300
    log, _, _ = simulated(n, rng)
    names = np.array(["red", "green", "blue"])[log["arm"]]
    rows = [
        {
            "context": x.tolist(),
            "arm": str(a),
            "reward": float(r),
            "propensity": float(p),
            "arms": ["red", "green", "blue"],
        }
        for x, a, r, p in zip(log["context"], names, log["reward"], log["propensity"], strict=True)
    ]
    frame = pd.DataFrame(rows)
    wide = frame.drop(columns=["context", "arms"]).assign(age=log["context"][:, 0], price=log["context"][:, 1])
    frame.to_parquet(folder / "log.parquet")
    frame.assign(context=frame.context.map(json.dumps), arms=frame.arms.map(json.dumps)).to_csv(folder / "log.csv")
    frame.to_json(folder / "log.jsonl", orient="records", lines=True, double_precision=15)
    with (folder / "exact.jsonl").open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    features = {"features": ["age", "price"]}
    return {
        "rows": (rows, {}),
        "frame": (frame, {}),
        "dict": (
            {"context": log["context"], "arm": names, "reward": log["reward"], "propensity": log["propensity"]},
            {},
        ),
        "tuples": ([(r["context"], r["arm"], r["reward"], r["propensity"]) for r in rows], {}),
        "generator": (lambda: (row for row in rows), {}),
        "parquet": (folder / "log.parquet", {}),
        "csv": (str(folder / "log.csv"), {}),
        "json lines": (folder / "exact.jsonl", {}),
        "parts": (lambda: pd.read_csv(folder / "log.csv", chunksize=100), {}),
        "batches": (lambda: pyarrow.Table.from_pandas(frame).to_batches(40), {}),
        "arrow": (pyarrow.Table.from_pandas(frame), {}),
        "wide": (wide, features),
        "other names": (
            wide.rename(columns={"arm": "action", "propensity": "p"}),
            features | {"columns": {"arm": "action", "propensity": "p"}},
        ),
    }


def choose(x):
    return np.where(x[:, 0] > 0, "green", "red")


def test_every_form_of_a_log_reads_the_same(logs):
    expected = estimates(off_policy(logs["frame"][0], choose))
    for form, (log, options) in logs.items():
        for block in (7, 16384):
            assert estimates(off_policy(log, choose, block=block, **options)) == pytest.approx(expected, rel=1e-12), (
                form
            )
    once = (row for row in logs["rows"][0])
    assert estimates(off_policy(once, choose)) == pytest.approx(expected, rel=1e-12)


def test_every_form_of_a_target_reads_the_same(logs):
    log = logs["frame"][0]
    x = np.array(log.context.tolist())
    table = np.column_stack([np.zeros(300), x[:, 0] > 0, x[:, 0] <= 0]).astype(float)  # blue, green, red
    expected = estimates(off_policy(log, choose))
    same = [
        table,
        table.astype(np.float32),
        pd.DataFrame(table, columns=["blue", "green", "red"]),
        pd.DataFrame(table[:, 1:], columns=["green", "red"]),
        choose(x),
        lambda points: np.column_stack([np.zeros(len(points)), points[:, 0] > 0, points[:, 0] <= 0]),
    ]
    for target in same:
        assert estimates(off_policy(log, target)) == pytest.approx(expected, rel=1e-12)
    always = estimates(off_policy(log, "red"))
    for target in ({"red": 1.0}, lambda points: np.full(len(points), "red")):
        assert estimates(off_policy(log, target)) == pytest.approx(always, rel=1e-12)
    third = estimates(off_policy(log, "uniform"))
    assert estimates(off_policy(log, dict.fromkeys(["red", "green", "blue"], 1 / 3))) == pytest.approx(third, rel=1e-9)


def test_the_logged_policy_earned_what_it_earned(logs):
    found = off_policy(logs["wide"][0], "logged", features=["age", "price"])
    mean = logs["wide"][0].reward.mean()
    assert found.value == pytest.approx(mean)
    assert found.to_pandas().loc[["ips", "snips", "dr", "sndr"], "estimate"].tolist() == pytest.approx([mean] * 4)
    assert found.loc["ips", "ess"] == pytest.approx(300)


def test_a_bandit_is_asked_for_its_chances_and_stays_as_it_is(logs, tmp_path):
    log = logs["frame"][0]
    x = np.array(log.context.tolist())
    bandit = pr.LinearBandit(["blue", "green", "red"], dim=2, noise_sd=1.0, rng=1).update(x, log.arm, log.reward)
    bandit.save(tmp_path / "before")
    found = off_policy(log, bandit)
    bandit.save(tmp_path / "after")
    assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes()
    assert estimates(found) == pytest.approx(estimates(off_policy(log, bandit.select(x).propensities)), rel=1e-10)


def test_eligible_arms():
    rng = np.random.default_rng(6)
    sets = [["a", "b"], ["b", "c"], ["a", "b", "c"]]
    rows = []
    for _ in range(400):
        arms = sets[rng.integers(3)]
        arm = str(rng.choice(arms))
        rows.append({"arm": arm, "arms": arms, "reward": float(arm == "c") + rng.random(), "propensity": 1 / len(arms)})
    found = off_policy(rows, "uniform")
    assert found.loc["ips", "estimate"] == pytest.approx(np.mean([row["reward"] for row in rows]))
    without = off_policy(
        [{k: v for k, v in row.items() if k != "propensity"} for row in rows], "uniform", logging_policy="uniform"
    )
    assert estimates(without) == pytest.approx(estimates(found))
    with refused(DataError, "ineligible-arm", argument="target", value=1.0):
        off_policy(rows, "a")
    bandit = pr.LinearBandit(["c", "b", "a"], dim=1, noise_sd=1.0, rng=0).update(
        [[1.0]] * 3, ["c", "b", "a"], [9, 0, 0]
    )
    judged = off_policy([row | {"context": [1.0]} for row in rows], bandit)
    weights = [
        bandit.select([1.0], row["arms"]).propensities[row["arms"].index(row["arm"])] * len(row["arms"]) for row in rows
    ]
    assert judged.loc["ips", "estimate"] == pytest.approx(
        np.mean([w * r["reward"] for w, r in zip(weights, rows, strict=True)])
    )


def test_units_of_rewards_change_nothing():
    log, target, _ = simulated(1000, np.random.default_rng(7))
    plain = off_policy(log, target).to_pandas()
    moved = off_policy(log | {"reward": 1e9 + log["reward"]}, target).to_pandas()
    for name in ("snips", "dm", "dr", "sndr"):  # ips does depend on the origin
        width, wide = plain.high[name] - plain.low[name], moved.high[name] - moved.low[name]
        assert wide == pytest.approx(width, rel=1e-4)
        assert moved.estimate[name] - 1e9 == pytest.approx(plain.estimate[name], abs=1e-5)
    scaled = off_policy(log | {"reward": 1e-6 * log["reward"], "context": 1e-5 * log["context"]}, target).to_pandas()
    assert (1e6 * scaled.estimate).tolist() == pytest.approx(plain.estimate.tolist(), rel=1e-8)


def test_a_reward_model_with_fit_and_predict():
    from sklearn.linear_model import LinearRegression, LogisticRegression

    log, target, _ = simulated(2000, np.random.default_rng(8))
    ridge, plain = off_policy(log, target), off_policy(log, target, reward_model=LinearRegression())
    assert plain.loc["dr", "estimate"] == pytest.approx(ridge.loc["dr", "estimate"], abs=0.02)
    clicks = log | {"reward": (log["reward"] > 0.5).astype(float)}
    one, two = off_policy(clicks, target), off_policy(clicks, target, reward_model=LogisticRegression())
    assert one.loc["dr", "estimate"] == pytest.approx(two.loc["dr", "estimate"], abs=0.02)
    assert one.loc["dm", "estimate"] == pytest.approx(two.loc["dm", "estimate"], abs=0.05)


def test_memory_is_bounded():
    """What a generator yields is not kept as Python objects, which would take 33 MB here."""

    def rows():
        rng = np.random.default_rng(9)
        for i in range(10_000):
            yield {"context": rng.random(100).tolist(), "arm": i % 3, "reward": float(i % 2), "propensity": 1 / 3}

    tracemalloc.start()
    found = off_policy(rows(), "uniform", block=500)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.n == 10_000
    assert peak < 20e6  # the rows would be 33 MB, the copy in binary is 8 MB


@pytest.mark.parametrize(
    ("target", "change", "code"),
    [
        ("c", {}, "no-overlap"),
        ({"a": 0.5, "c": 0.5}, {}, "never-logged"),
        ("a", {"propensity": [0.99, 0.5] * 50}, "mean-weight"),
        ("a", {"propensity": [0.5, 0.5] * 49 + [0.001, 0.5]}, "dominant-row"),
        ("a", {"reward": [1.0] * 100}, "constant-reward"),
        ("a", {"reward": [1.0, None] * 50}, "skipped-rows"),
    ],
)
def test_poor_overlap_is_said(target, change, code):
    log = {"arm": ["a", "b"] * 50, "reward": [0.0, 1.0, 2.0, 3.0] * 25, "propensity": [0.5] * 100} | change
    with warned(OverlapWarning, "overlap") as caught:
        found = off_policy(log, target, arms=["a", "b", "c"], missing_reward="skip")
    assert code in found.warning_codes
    assert caught[0].message.fields["value"] == found.warning_codes
    assert len(found.warnings) == len(found.warning_codes)
    assert any("warning" in line for line in repr(found).splitlines())


def test_rows_skipped_as_asked_are_said_without_a_warning():
    log = {"arm": ["a", "b"] * 100, "reward": [0.0, 1.0, 2.0, None] * 50, "propensity": [0.5] * 200}
    found = off_policy(log, "uniform", missing_reward="skip")  # warnings are errors here
    assert found.warning_codes == ("skipped-rows",)
    assert "50 of 200 rows" in repr(found)


def test_no_overlap_gives_no_number():
    log = {"arm": ["a"] * 10, "reward": np.arange(10.0), "propensity": [0.5] * 10}
    with warned(OverlapWarning, "overlap", value=("no-overlap",)):
        found = off_policy(log, "b", arms=["a", "b"])
    assert np.isnan(found.loc["ips", "estimate"])
    assert found.loc["dr", "low"] == -math.inf


def test_no_chance_under_the_logging_policy():
    log = {"arm": ["a", "b"] * 50, "reward": [0.0, 1.0] * 50}
    with warned(OverlapWarning, "overlap"):
        found = off_policy(log, {"a": 0.8, "c": 0.2}, logging_policy={"a": 0.5, "b": 0.5})
    assert "uncovered" in found.warning_codes
    assert any("20.0%" in sentence for sentence in found.warnings)
    with refused(DataError, "zero-propensity", argument="logging_policy", index=1, arm="b"):
        off_policy(log, "a", logging_policy="a")


LOG = {"context": [[1.0], [2.0], [3.0], [4.0]], "arm": ["a", "b", "a", "b"], "reward": [0.0, 1.0, 2.0, 3.0]}
LOG["propensity"] = [0.5] * 4


@pytest.mark.parametrize(
    ("change", "code", "fields"),
    [
        ({"reward": [0.0, 1.0, math.inf, 3.0]}, "value-range", {"row": 2, "column": "reward", "value": math.inf}),
        ({"reward": [0.0, 1.0, "much", 3.0]}, "value-range", {"row": 2, "column": "reward", "value": "much"}),
        ({"reward": [0.0, 1.0, 1e101, 3.0]}, "value-range", {"row": 2, "column": "reward", "value": 1e101}),
        ({"reward": [0.0, None, 2.0, 3.0]}, "missing-value", {"row": 1, "column": "reward"}),
        ({"propensity": [0.5, 0.5, 0.0, 0.5]}, "value-range", {"row": 2, "column": "propensity", "value": 0.0}),
        ({"propensity": [0.5, 1.5, 0.5, 0.5]}, "value-range", {"row": 1, "column": "propensity", "value": 1.5}),
        ({"propensity": [0.5, math.nan, 0.5, 0.5]}, "value-range", {"row": 1, "column": "propensity"}),
        ({"arm": ["a", None, "a", "b"]}, "value-range", {"row": 1, "column": "arm", "value": None}),
        ({"arm": ["a", "b", 2.5, "b"]}, "wrong-type", {"row": 2, "column": "arm", "value": 2.5}),
        ({"context": [[1.0], [2.0, 3.0], [3.0], [4.0]]}, "wrong-shape", {"row": 1, "value": [2.0, 3.0]}),
        ({"context": [[1.0], [math.nan], [3.0], [4.0]]}, "value-range", {"row": 1, "column": "context"}),
        ({"context": [[1.0], ["x"], [3.0], [4.0]]}, "not-finite", {"row": 1, "column": "context", "value": "x"}),
        ({"context": ["[1.0]", "[2.0", "[3.0]", "[4.0]"]}, "wrong-format", {"row": 1, "value": "[2.0"}),
        ({"arms": [["a", "b"], ["a"], ["a"], ["b"]]}, "ineligible-arm", {"row": 1, "value": ["a"]}),
        ({"arms": [["a", "a"], ["b"], ["a"], ["b"]]}, "duplicate-name", {"row": 0, "value": ["a", "a"]}),
        ({"arms": [3, 3, 3, 3]}, "wrong-type", {"row": 0, "column": "arms", "value": 3}),
        ({"reward": [0.0, 1.0]}, "wrong-shape", {"argument": "log"}),
        ({"n_rounds": 4}, "wrong-type", {"argument": "log", "column": "n_rounds"}),
        ({"position": None}, "wrong-type", {"argument": "log", "column": "position"}),
    ],
)
def test_a_faulty_log_is_refused_with_its_row(change, code, fields):
    with refused(DataError, code, **fields):
        off_policy(LOG | change, "b", block=2)


@pytest.mark.parametrize(
    ("error", "code", "options", "fields"),
    [
        (ParameterError, "unknown-arm", {"target": "z"}, {"argument": "target", "arm": "z"}),
        (ParameterError, "unknown-arm", {"target": {"a": 0.5, "z": 0.5}, "arms": ["a", "b"]}, {"arm": "z"}),
        (
            ParameterError,
            "unknown-arm",
            {"target": pd.DataFrame({"a": [1.0] * 4, "c": 0.0}), "arms": ["a", "b"]},
            {"arm": "c"},
        ),
        (ParameterError, "not-numbers", {"target": {"a": "half"}}, {"argument": "target['a']"}),
        (
            ParameterError,
            "ambiguous-policy",
            {"target": "uniform", "arms": ["a", "b", "uniform"]},
            {"value": "uniform"},
        ),
        (DataError, "sum-not-one", {"target": {"a": 0.5, "b": 0.6}}, {"row": 0, "value": 1.1}),
        (DataError, "probability-range", {"target": {"a": 1.5, "b": -0.5}}, {"row": 0, "value": 1.5}),
        (DataError, "not-numbers", {"target": np.full((4, 2), "x")}, {"argument": "target"}),
        (ParameterError, "wrong-shape", {"target": np.ones((3, 2))}, {"value": (3, 2), "expected": (4, 2)}),
        (ParameterError, "wrong-shape", {"target": np.ones((4, 3))}, {"value": (4, 3), "expected": (4, 2)}),
        (ParameterError, "wrong-shape", {"target": [[1.0], [0.5, 0.5]]}, {"argument": "target"}),
        (DataError, "wrong-shape", {"target": lambda x: np.ones((len(x), 3))}, {"value": (4, 3)}),
        (DataError, "unknown-arm", {"target": lambda x: np.full(len(x), "z")}, {"row": 0, "arm": "z"}),
        (DataError, "missing-column", {"target": "a", "features": ["size"]}, {"column": "size"}),
        (ParameterError, "unknown-option", {"target": "a", "columns": {"action": "arm"}}, {"value": "action"}),
        (DataError, "missing-column", {"target": "a", "columns": {"arm": "action"}}, {"column": "action"}),
        (DataError, "unknown-arm", {"target": "a", "arms": ["a"]}, {"row": 1, "arm": "b"}),
        (ParameterError, "unknown-option", {"target": "a", "missing_reward": "no"}, {"argument": "missing_reward"}),
        (DataError, "unknown-arm", {"target": pr.LinearBandit(["x"], 1)}, {"value": ("x",)}),
        (DataError, "wrong-shape", {"target": pr.LinearBandit(["a", "b"], 3)}, {}),
    ],
)
def test_an_argument_is_refused_with_its_fields(error, code, options, fields):
    with refused(error, code, **fields):
        off_policy(LOG, **options)


def test_a_bandit_without_propensities_is_refused():
    class Chooser:
        arms = ("a", "b")

        def select(self, context, arms=None):
            return "a"

    with refused(ParameterError, "wrong-type", argument="target", expected="propensities"):
        off_policy(LOG, Chooser())
    rows = [dict(zip(LOG, row, strict=True)) | {"arms": [row[1]]} for row in zip(*LOG.values(), strict=True)]
    with refused(DataError, "no-arms", argument="target", row=1):
        off_policy(rows, pr.LinearBandit(["a"], 1))


@pytest.mark.parametrize(
    ("error", "code", "options"),
    [
        (ParameterError, "probability-range", {"confidence": 1.0}),
        (ParameterError, "integer-range", {"folds": 1}),
        (ParameterError, "not-positive", {"clip": -1.0}),
        (DataError, "reward-range", {"reward_range": (0.0, 1.0)}),
        (ParameterError, "wrong-range", {"reward_range": (1.0, 0.0)}),
        (DataError, "weight-range", {"max_weight": 1.0}),
        (ParameterError, "wrong-type", {"reward_model": "ridge"}),
        (DataError, "not-finite", {"reward_model": np.full((4, 2), np.nan)}),
    ],
)
def test_an_option_is_refused_by_code(error, code, options):
    with refused(error, code, argument=next(iter(options))):
        off_policy(LOG, "a", **options)


def test_a_propensity_that_gives_an_enormous_weight_is_refused():
    with refused(DataError, "weight-range", index=1, value=1e200):
        off_policy(LOG | {"propensity": [0.5, 1e-200, 0.5, 0.5]}, "b")


@pytest.mark.parametrize("unit", [1e-80, 1e-200, 1e-308])
def test_rewards_whose_squares_vanish_are_refused(unit, rng):
    """Their intervals would have no width."""
    tiny = LOG | {"reward": [unit * reward for reward in LOG["reward"]]}
    steps = {"episode": [0, 0, 1, 1], "state": list("stst"), "action": list("abab"), "reward": tiny["reward"]}
    for log, call in (
        (tiny, lambda log: off_policy(log, "a")),
        (steps, lambda log: off_policy(log, {"s": "a", "t": "b"}, discount=0.9)),
        (tiny, pr.learn_policy),
        (tiny, lambda log: pr.evaluation.replay(log, pr.LinearBandit(["a", "b"], 0, rng=rng))),
    ):
        with refused(DataError, "underflow", argument="reward"):
            call(log)
    with refused(ParameterError, "underflow", argument="reward"):
        off_policy(LOG | {"reward": [0.0] * 4}, "a", reward_range=(0.0, unit))


@pytest.mark.parametrize(
    ("log", "code"),
    [
        ([], "no-rows"),
        ({"arm": [], "reward": [], "propensity": []}, "no-rows"),
        (3, "wrong-type"),
        ("nowhere.csv", "no-file"),
        ("log.xlsx", "no-file"),
        ([1, 2], "row-width"),
    ],
)
def test_what_is_no_log_is_refused(log, code):
    with refused(PrudentError, code):
        off_policy(log, "a")


def test_contexts_are_asked_for_where_they_are_needed():
    wide = pd.DataFrame({"age": [1.0, 2.0], "arm": ["a", "b"], "reward": [0.0, 1.0], "propensity": 0.5})
    with refused(ParameterError, "missing-column", argument="log", column="context"):
        off_policy(wide, pr.LinearBandit(["a", "b"], 1))
    with refused(DataError, "missing-column", column="propensity"):
        off_policy(wide.drop(columns="propensity"), "a")


def test_a_file_that_is_not_what_it_says(tmp_path):
    for name, code in (("log.parquet", "damaged-file"), ("log.jsonl", "wrong-format")):
        (tmp_path / name).write_bytes(b"\x00nonsense")
        with refused(DataError, code):
            off_policy(tmp_path / name, "a")


def test_arms_of_a_csv_file_are_those_of_the_bandit(tmp_path):
    frame = pd.DataFrame(
        {"context": ["[1.0]"] * 200, "arm": [1, 2] * 100, "reward": [0.0, 1.0] * 100, "propensity": 0.5}
    )
    frame.assign(arms='["1", "2"]').to_csv(tmp_path / "log.csv")
    for names in (["1", "2"], [1, 2]):
        found = off_policy(tmp_path / "log.csv", pr.LinearBandit(names, 1))
        assert found.arms == tuple(names)


def test_pictures():
    log, target, _ = simulated(2000, np.random.default_rng(10), arms=9)
    found = off_policy(log, target)
    for kind in ("estimates", "reward", "propensities"):
        assert found.plot(kind).axes
    assert found.curve("snips").estimate.iloc[-1] == pytest.approx(found.loc["snips", "estimate"])
    assert found.propensities().sum(axis=1).tolist() == pytest.approx([1.0] * 200)
    with refused(ParameterError, "unknown-option", argument="kind", value="pie"):
        found.plot("pie")
    with refused(ParameterError, "unknown-option", argument="estimator", value="magic"):
        found.curve("magic")
