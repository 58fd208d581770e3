"""Another set of features keeps what was learned, takes late rewards of the old one, and ``verify`` repeats both."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from prudent.bandits import LinearBandit, SharedLinearBandit
from prudent.errors import DataError, ParameterError
from prudent.journal import Journal

KINDS = {
    "given noise": lambda names: LinearBandit(["a", "b"], features=names, noise_sd=0.5, rng=1),
    "learned noise": lambda names: LinearBandit(["a", "b"], features=names, rng=1),
    "interactions": lambda names: LinearBandit(["a", "b"], features=names, interactions="auto", rng=1),
    "by arm": lambda names: LinearBandit(["a", "b"], features=names, noise="by arm", rng=1),
    "no intercept": lambda names: LinearBandit(["a", "b"], features=names, intercept=False, half_life=50, rng=1),
    "clicks": lambda names: LinearBandit(
        ["a", "b"], features=names, rewards="bernoulli", prior_precision=2.0, min_propensity=0.1, rng=1
    ),
    "counts": lambda names: LinearBandit(["a", "b"], features=names, rewards="poisson", prior_precision=2.0, rng=1),
}


def rewards_of(bandit, rng, size):
    if bandit.reward_kind == "gaussian":
        return rng.normal(size=size)
    return rng.integers(0, 2, size).astype(float)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bandit_that_migrates_is_one_that_had_all_features_from_the_start(kind, rng):
    """Features that are new were 0, and those that are retired are 0 from then on."""
    ours, other = KINDS[kind](["x", "y"]), KINDS[kind](["x", "y", "z"])
    before, after = rng.normal(size=(30, 2)), rng.normal(size=(30, 2))
    arms, rewards = rng.choice(["a", "b"], 60).tolist(), rewards_of(ours, rng, 60)
    ours.update(before, arms[:30], rewards[:30]).migrate(["z", "x"])
    other.update(np.insert(before, 2, 0.0, axis=1), arms[:30], rewards[:30])
    assert (ours.features, ours.retired, ours.dim) == (("x", "y", "z"), ("y",), 3)
    for i, (x, z) in enumerate(after, 30):
        ours.update({"z": z, "x": x}, arms[i], rewards[i])
        other.update([x, 0.0, z], arms[i], rewards[i])
    points = rng.normal(size=(20, 3))
    for one, two in zip(ours.predict(points), other.predict(points), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-7, atol=1e-9)
    again = type(ours).from_bytes(ours.to_bytes())
    assert again.retired == ("y",)
    assert again.predict(points)[0].tolist() == ours.predict(points)[0].tolist()


@pytest.mark.parametrize("rewards", ["gaussian", "bernoulli"])
@pytest.mark.parametrize("dim", [2, 40])
def test_items_migrate(rewards, dim, rng):
    names = [f"x{i}" for i in range(dim)]
    options = {"rewards": rewards, "prior_precision": 2.0, "rng": 1}
    if rewards == "gaussian":
        options["offsets"] = dim == 2
    ours = SharedLinearBandit(features=names, **options)
    other = SharedLinearBandit(features=[*names, "new"], **options)
    points, values = rng.normal(size=(50, dim)), rewards_of(ours, rng, 50)
    items = rng.integers(0, 5, 50).tolist()
    ours.update(points, items, values).migrate([*names[1:], "new"])
    other.update(np.insert(points, dim, 0.0, axis=1), items, values)
    more, values = rng.normal(size=(20, dim + 1)), rewards_of(ours, rng, 20)
    for bandit in (ours, other):
        bandit.update(more, items[:20], values)
    for one, two in zip(ours.predict(more[:4], list("pqrs")), other.predict(more[:4], list("pqrs")), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=5)
@given(data=st.data())
def test_late_rewards_of_any_schema_are_learned_and_verified(kind, data, tmp_path_factory):
    path = tmp_path_factory.mktemp("journal") / "j.db"
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    names, late, learned = ["x", "y"], [], []
    with Journal(path, KINDS[kind](names), snapshot_every=5, synchronous="NORMAL") as live, Journal(path) as other:
        for _ in range(data.draw(st.integers(2, 4))):
            for turn in range(6):
                point = {name: float(rng.normal()) for name in names}
                decision = (live, other)[turn % 2].select(point)
                late.append((decision.id, decision.arm, point))
            for at in sorted(rng.choice(len(late), 3, replace=False).tolist(), reverse=True):
                id, arm, point = late.pop(at)
                value = float(rng.integers(0, 2))
                assert other.reward(id, value) == "ok"
                learned.append((arm, point, value))
            names = data.draw(st.permutations(["x", "y", "z", "w"])).copy()[: data.draw(st.integers(1, 4))]
            live.migrate(names, prior_precision=2.0)
        assert live.verify() == other.verify() == len(late) + len(learned)
        full = live.bandit.features
        rows = list(live.rows())
        assert {len(row["context"]) for row in rows} == {len(full)}
        bandit = live.bandit
        assert bandit.n_rewards == len(learned)
    with Journal(path) as live:
        assert live.verify() == len(rows)
    if kind == "given noise":
        precision = np.diag([1.0, *(1.0 if name in "xy" else 2.0 for name in full)])
        exact = LinearBandit(["a", "b"], features=full, noise_sd=0.5, prior_precision=precision)
        for arm, point, value in learned:
            exact.update([point.get(name, 0.0) for name in full], arm, value)
        points = rng.normal(size=(5, len(full)))
        for one, two in zip(bandit.predict(points), exact.predict(points), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-7, atol=1e-9)


def test_what_cannot_migrate_is_refused():
    bandit = LinearBandit(2, features=["x", "y"], prior_precision=np.diag([1.0, 2.0, 3.0]))
    with refused(ParameterError, "missing-argument", argument="prior_precision"):
        bandit.migrate(["x", "z"])
    with refused(ParameterError, "duplicate-name", argument="features"):
        bandit.migrate(["x", "x"])
    assert (bandit.dim, bandit.retired) == (2, ())
    bandit.migrate(["x"])  # nothing is new
    with refused(DataError, "different-features", missing=["x"]):
        bandit.select({"y": 1.0})
    with refused(ParameterError, "no-features", argument="features"):
        LinearBandit(2, dim=1).migrate(["x"])
    with refused(ParameterError, "no-features", argument="features"):
        LinearBandit(2, features=["x", "y"], rewards="hurdle").migrate(["x", "z"])
    bandit.migrate(["x", "y"])
    assert bandit.retired == ()


def test_a_forged_state_with_retired_features_is_refused():
    bandit = LinearBandit(2, features=["x", "y"]).migrate(["x"])
    values, arrays = bandit.state()
    for forged in (["z"], [["x"]], [1]):
        with pytest.raises((ValueError, TypeError)):
            LinearBandit._restored(values | {"retired": forged}, arrays)
    assert LinearBandit._restored(values, arrays).retired == ("y",)
