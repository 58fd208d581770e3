"""``Features`` and transformers of scikit-learn in front of bandits, journals, evaluation and slots of the service."""

from __future__ import annotations

import gc
import json

import numpy as np
import pandas as pd
import pytest
from refusals import refused
from scipy import sparse

import prudent as pr
from prudent.errors import DataError, ParameterError, PrudentError
from prudent.evaluation import replay, tune
from prudent.service.bodies import SlotSpec

CROSS = [{"columns": ("country", "device"), "slots": 8, "shared": 2}]
FEW = {"slots": 5, "shared": 2}
KINDS = {
    "country": {"kind": "category", **FEW},
    "device": {"kind": "category", **FEW},
    "price": {"kind": "number", "rows": 20},
    "tags": {"kind": "tags", **FEW},
}


def made_features():
    return pr.Features(KINDS, cross=CROSS)


def made_rows(rng, count):
    return [
        {
            "country": str(rng.choice(["DE", "FR", "US", "IT"])),
            "device": str(rng.choice(["phone", "desk"])),
            "price": None if rng.random() < 0.1 else float(rng.lognormal(3.0, 1.0)),
            "tags": [str(tag) for tag in rng.choice(["new", "sale", "gift"], int(rng.integers(3)), replace=False)],
        }
        for _ in range(count)
    ]


def played(bandit, rows, rng):
    for row in rows:
        decision = bandit.select(row)
        bandit.update(row, decision.arm, float(rng.random() + (row["country"] == "DE") * (decision.arm == "a")))
    return bandit


def test_decisions_are_those_of_the_encoded_rows(rng, seed):
    """A bandit with Features decides as one that is given the codes, draw by draw."""
    rows, features = made_rows(rng, 50), made_features()
    one = pr.LinearBandit(["a", "b"], features=features, rng=seed)
    other = pr.LinearBandit(["a", "b"], features.dim, rng=seed)
    for row in rows:
        code = features.encode_and_learn(row)
        first, second = one.select(row), other.select(code)
        assert (first.arm, first.score, first.propensity) == (second.arm, second.score, second.propensity)
        reward = float(rng.normal())
        one.update(row, first.arm, reward)
        other.update(features.encode_and_learn(row), second.arm, reward)
    assert one.features == features.names
    assert features.dim == one.dim
    np.testing.assert_array_equal(one.propensities(rows), other.propensities(features.transform(rows)))
    np.testing.assert_array_equal(one.predict(pd.DataFrame(rows))[0], other.predict(features.transform(rows))[0])
    assert one.explain(rows[0]).arm == other.explain(features.transform(rows[0])).arm
    assert made_features().digest != one.encoder.digest == features.digest


def test_what_only_asks_learns_nothing(rng):
    bandit = pr.LinearBandit(2, features=made_features(), noise_sd=1.0)
    digest = bandit.encoder.digest
    for ask in (bandit.propensities, bandit.predict, bandit.score, bandit.explain):
        ask(made_rows(rng, 1)[0])
    assert bandit.encoder.digest == digest
    assert bandit.select(made_rows(rng, 1)[0]).arm in (0, 1)
    assert bandit.encoder.digest != digest


def test_a_late_scale_leaves_beliefs_right(rng):
    """A column that was silent has its prior when it comes alive, whatever was learned before."""
    bandit = pr.LinearBandit(1, features=pr.Features(x={"kind": "number", "rows": 10, "missing": False}), noise_sd=1.0)
    values = rng.normal(5.0, 2.0, 9)
    for value in values:
        bandit.update({"x": float(value)}, 0, 3.0 + float(value))
    assert bandit.posterior(0).mean()[1] == 0.0
    assert bandit.posterior(0).covariance()[1].tolist() == [0.0, 1.0]
    bandit.update({"x": 9.0}, 0, 12.0)
    assert bandit.posterior(0).covariance()[1, 1] < 1.0


def test_items_with_crosses_of_user_and_item(rng, seed):
    features = pr.Features(user="category", item="category", price="number", cross=[("user", "item")])
    bandit, plain = pr.SharedLinearBandit(features=features, rng=seed), None
    for i in range(60):
        items = {f"item {j}": {"user": f"u{i % 3}", "item": f"item {j}", "price": float(j)} for j in range(4)}
        decision = bandit.select(items, top=2)
        assert decision.candidates.shape == (4, features.dim)
        bandit.update([items[name] for name in decision.slate], decision.slate, [float(rng.random()), 0.0])
        if plain is None:
            plain = decision.candidates
    assert "user x item=u0 x item 1" in bandit.features
    assert abs(bandit.propensities(items).sum() - 1.0) < 1e-9
    loaded = pr.SharedLinearBandit.from_bytes(bandit.to_bytes())
    assert loaded.select(items).score == bandit.select(items).score
    frame = pd.DataFrame(items.values(), index=list(items))
    assert bandit.select(frame).arm in items
    log = pd.DataFrame([row | {"reward": 1.0} for row in items.values()])
    assert pr.SharedLinearBandit.from_log(log, features=features).n_rewards == 4


def test_a_saved_bandit_goes_on_as_before(rng, tmp_path):
    rows = made_rows(rng, 40)
    bandit = played(pr.LinearBandit(["a", "b"], features=made_features(), rng=1), rows[:8], rng)  # no scale yet
    bandit.save(tmp_path / "state")
    again = pr.LinearBandit.load(tmp_path / "state")
    one, other = np.random.default_rng(1), np.random.default_rng(1)
    played(bandit, rows[8:], one)
    played(again, rows[8:], other)
    assert again.encoder == bandit.encoder
    assert "price" in again.encoder.learned()["columns"]
    np.testing.assert_array_equal(again.predict(rows)[0], bandit.predict(rows)[0])


def test_a_log_is_learned_by_its_columns(rng):
    rows = made_rows(rng, 100)
    log = pd.DataFrame([row | {"arm": "ab"[i % 2], "reward": float(i % 5)} for i, row in enumerate(rows)])
    bandit = pr.LinearBandit.from_log(log, features=made_features())
    features = made_features().learn(rows)
    by_hand = pr.LinearBandit(["a", "b"], features.dim).update(features.transform(rows), log["arm"], log["reward"])
    np.testing.assert_allclose(bandit.predict(rows)[0], by_hand.predict(features.transform(rows))[0], atol=1e-12)


def test_bandits_with_other_codes_are_not_merged(rng):
    base = pr.LinearBandit(["a", "b"], features=made_features(), rng=1)
    one, two = base.copy(stream=0), base.copy(stream=1)
    played(one, made_rows(rng, 5), rng)
    played(two, made_rows(rng, 5), rng)
    with refused(ParameterError, "different-features", argument="other"):
        one.merge(two, since=base)
    fitted = pr.LinearBandit(["a", "b"], features=made_features().fit(made_rows(rng, 100)).freeze(), rng=1)
    one, two = fitted.copy(stream=0), fitted.copy(stream=1)
    played(one, made_rows(rng, 5), rng)
    assert played(two, made_rows(rng, 5), rng).merge(one, since=fitted).n_rewards == 10


def test_names_come_from_the_columns():
    bandit = pr.LinearBandit(2, features=made_features())
    with refused(ParameterError, "conflicting-arguments", argument="features"):
        bandit.name_features([f"x{i}" for i in range(bandit.dim)])
    with refused(ParameterError, "no-features"):
        pr.LinearBandit(2, dim=1).learn_features({})


# -- rows and sparse rows ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        sparse.csr_matrix,
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in (sparse.csr_array, sparse.coo_matrix)),
    ],
)
def test_sparse_rows_are_rows(made, rng, seed):
    points = rng.random((5, 3)) * (rng.random((5, 3)) < 0.5)
    one, other = pr.LinearBandit(2, dim=3, rng=seed), pr.LinearBandit(2, dim=3, rng=seed)
    one.update(made(points), [0, 1, 0, 1, 0], rng.random(5))
    other.update(points, [0, 1, 0, 1, 0], np.zeros(5))
    assert one.select(made(points)).arm.shape == (5,)
    single = one.select(made(points[:1]))
    assert single.arm in (0, 1)
    assert single.propensity == one.propensities(points[0])[single.arm] or 0.0 < single.propensity < 1.0
    assert one.update(made(points[:1]), single.arm, 1.0).n_rewards == 6
    items = pr.SharedLinearBandit(dim=3, rng=seed).update(made(points), None, rng.random(5))
    assert items.select(made(points), top=2).chosen.shape == (2, 3)


def test_a_row_vector_takes_one_arm_and_one_reward():
    bandit = pr.LinearBandit(["a", "b"], dim=2).update([[1.0, 2.0]], "a", 3.0)
    assert bandit.pulls == {"a": 1, "b": 0}
    assert len(bandit.select([[1.0, 2.0]]).arm) == 1


# -- journals ----------------------------------------------------------------------------------------------


def test_a_journal_records_what_features_learn(rng, tmp_path):
    rows = made_rows(rng, 24)
    with pr.Journal(tmp_path / "j", pr.LinearBandit(["a", "b"], features=made_features(), rng=3)) as live:
        with pr.Journal(tmp_path / "j") as other:  # as another process would
            for i, row in enumerate([*rows, *rows]):
                journal = (live, other)[i % 2]
                journal.reward(journal.select(row).id, float(i % 3))
            assert live.bandit.encoder == other.bandit.encoder
            batch = live.select(rows[:3])
            assert len(batch) == 3
        encoder = live.bandit.encoder
        assert encoder.learned()["columns"].keys() == {"country", "device", "price", "tags"}
        for row, journal_row in zip(rows[-5:], list(live.rows())[-8:-3], strict=True):
            assert journal_row["context"] == encoder.transform(row).tolist()
        assert live.verify() == 51
        live.record(rows[0], "a", propensity=0.5, reward=1.0)
        answers = live.select_each([{"context": rows[0]}, {"context": {"price": "?"}}, {"context": {"country": "XX"}}])
        assert [isinstance(answer, PrudentError) for answer in answers] == [False, True, False]
        assert "XX" in live.bandit.encoder.learned()["columns"]["country"]
        live.export(tmp_path / "log.parquet")
        assert pr.LinearBandit.from_log(tmp_path / "log.parquet").encoder == live.bandit.encoder
        then = live.as_of(batch[0].id)
        assert then.select(batch[0].context).score == pytest.approx(batch[0].score, rel=1e-9)
    with pr.Journal(tmp_path / "j", pr.LinearBandit(["a", "b"], features=made_features(), rng=3)) as live:
        assert live.verify() == 53
        digest = live.bandit.encoder.digest
    swapped = pr.Features(KINDS | {"price": {"kind": "count", "rows": 20}}, cross=CROSS)
    with refused(ParameterError, "bandit-mismatch"):
        pr.Journal(tmp_path / "j", pr.LinearBandit(["a", "b"], features=swapped))
    with refused(ParameterError, "bandit-mismatch"):
        pr.Journal(tmp_path / "j", pr.LinearBandit(["a", "b"], dim=made_features().dim))
    with pr.Journal(tmp_path / "j") as live:
        assert live.bandit.encoder.digest == digest


# -- evaluation --------------------------------------------------------------------------------------------


def test_logs_of_columns_are_evaluated_by_the_features_of_a_bandit(rng):
    rows = made_rows(rng, 400)
    arms = [str(arm) for arm in rng.choice(["a", "b"], 400)]
    rewards = [float(row["country"] == "DE" and arm == "a") for row, arm in zip(rows, arms, strict=True)]
    facts = {"arm": arms, "reward": rewards, "propensity": [0.5] * 400}
    log = pd.DataFrame(rows).assign(**facts)
    bandit = played(pr.LinearBandit(["a", "b"], features=made_features(), rng=1), rows[:100], rng)
    coded = pd.DataFrame(facts | {"context": bandit.encoder.transform(rows).tolist()})
    direct = pr.off_policy(log, bandit).to_pandas()
    pd.testing.assert_frame_equal(direct, pr.off_policy(coded, bandit).to_pandas())
    nested = pd.DataFrame(facts | {"context": rows})
    pd.testing.assert_frame_equal(direct, pr.off_policy(nested, bandit).to_pandas())
    modelled = pr.off_policy(log, "a", features=made_features()).to_pandas()
    assert np.isfinite(modelled.loc["dr", "estimate"])
    fresh = pr.LinearBandit(["a", "b"], features=made_features(), rng=2)
    run = replay(log, fresh)
    assert run.matched > 100
    assert run.bandit.encoder.learned()["columns"]["price"] == made_features().learn(rows).learned()["columns"]["price"]
    assert tune(log, {"noise_sd": [0.1, 30.0]} | {"features": [made_features()]}).matched.min() > 1


@pytest.mark.filterwarnings("ignore::prudent.errors.OverlapWarning")  # of few rewards
def test_a_log_of_other_features_is_refused(rng, tmp_path):
    rows = made_rows(rng, 30)
    with pr.Journal(tmp_path / "j", pr.LinearBandit(["a", "b"], features=made_features(), rng=3)) as live:
        for i, row in enumerate(rows):
            live.reward(live.select(row).id, float(i % 3))
        assert replay(live, pr.LinearBandit(["a", "b"], features=made_features(), rng=3)).matched > 0
        other = played(pr.LinearBandit(["a", "b"], features=made_features(), rng=1), rows[::-1], rng)
        with refused(ParameterError, "different-features", argument="log"):
            pr.off_policy(live, other)


# -- scikit-learn ------------------------------------------------------------------------------------------


def made_transformer(rows):
    compose, preprocessing = pytest.importorskip("sklearn.compose"), pytest.importorskip("sklearn.preprocessing")
    return compose.ColumnTransformer(
        [
            ("c", preprocessing.OneHotEncoder(handle_unknown="ignore"), ["country", "device"]),
            ("n", preprocessing.StandardScaler(), ["price"]),
        ]
    ).fit(pd.DataFrame(rows))


def sold(rng, count):
    return [{name: row[name] or 1.0 for name in ("country", "device", "price")} for row in made_rows(rng, count)]


def test_a_transformer_of_scikit_learn_takes_the_place_of_features(rng, seed, tmp_path):
    rows = sold(rng, 20)
    transformer = made_transformer(rows)
    codes = np.asarray(transformer.transform(pd.DataFrame(rows)))
    one = pr.LinearBandit(["a", "b"], features=transformer, rng=seed)
    other = pr.LinearBandit(["a", "b"], codes.shape[1], rng=seed)
    for row, code in zip(rows, codes, strict=True):
        first, second = one.select(row), other.select(code)
        assert (first.arm, first.propensity) == (second.arm, second.propensity)
        reward = float(rng.random())
        one.update(row, first.arm, reward)
        other.update(code, first.arm, reward)
    np.testing.assert_array_equal(one.propensities(pd.DataFrame(rows)), other.propensities(codes))
    assert one.features == tuple(transformer.get_feature_names_out())
    with pr.Journal(tmp_path / "j", one.copy()) as live:
        live.reward(live.select(rows[0]).id, 1.0)
        assert live.verify() == 1
    content = one.to_bytes()
    del one, first, live
    gc.collect()
    loaded = pr.LinearBandit.from_bytes(content)
    assert loaded.select(codes[0]).arm in ("a", "b")
    with refused(DataError, "no-transformer", argument="context"):
        loaded.select(rows[0])
    with refused(ParameterError, "different-features", argument="transformer"):
        loaded.attach(made_transformer(rows[:10]))
    assert loaded.attach(made_transformer(rows)).select(rows[0]).arm in ("a", "b")
    with refused(DataError, "not-transformed", argument="context"):
        loaded.select({"country": "DE"})


def test_a_transformer_must_be_fitted():
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    with refused(ParameterError, "not-fitted", argument="features"):
        pr.LinearBandit(2, features=preprocessing.OneHotEncoder())


def test_check_speaks_of_columns_and_not_of_places_that_wait_for_a_category(rng):
    bandit = pr.LinearBandit(["a", "b"], features=made_features(), rng=1)
    assert not played(bandit, made_rows(rng, 200), rng).check().findings
    same = [row | {"device": "phone"} for row in made_rows(rng, 200)]
    bandit = played(pr.LinearBandit(["a", "b"], features=made_features(), rng=1), same, rng)
    (finding,) = bandit.check()
    assert finding.kind == "constant"
    assert "column 'device'" in finding.text
    items = pr.SharedLinearBandit(features=made_features(), rng=1)
    items.update(same, None, rng.normal(size=len(same)))
    assert [found.kind for found in items.check()] == ["constant"]


@pytest.mark.parametrize(("cell", "shown"), [(-3, "-3"), (10**400, "a number out of range"), (True, "True")])
def test_a_cell_at_fault_is_shown(cell, shown):
    bandit = pr.LinearBandit(2, features=pr.Features(visits="count", tags="tags"), rng=1)
    column = "tags" if cell is True else "visits"
    with pytest.raises(DataError) as caught:
        bandit.select({column: cell})
    assert caught.value.fields["value"] == shown
    assert f"is {shown}," in str(caught.value)


# -- service -----------------------------------------------------------------------------------------------


def test_a_slot_declares_features_in_json():
    body = json.loads('{"country": "category", "price": {"kind": "number", "rows": 50}}')
    bandit = SlotSpec(arms=["a", "b"], features=body, cross=[["country", "price"]]).bandit(10)
    assert bandit.encoder.declared() == {"country": "category", "price": "number"}
    assert bandit.select({"country": "DE", "price": 3.0}).arm in ("a", "b")
    with refused(ParameterError, "conflicting-arguments", argument="cross"):
        SlotSpec(arms=["a"], features=["x"], cross=[["x", "y"]]).bandit(10)
    with refused(ParameterError, "slot-too-large"):
        SlotSpec(arms=100, features={"id": {"kind": "category", "shared": 5000}}).bandit(1000)
