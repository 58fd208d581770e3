"""Policies learned from logs: the search, the bound, the honest value, and the object in words and in files."""

import numpy as np
import pandas as pd
import pytest
from refusals import refused
from scipy import stats

import prudent as pr
from prudent.errors import DataError, ParameterError, StateFileError
from prudent.evaluation import LearnedPolicy
from prudent.evaluation.policy_search import Linear, Scores, _TreeSearch, best_rule, bound_of, choose


def means_of(kind, x):
    """Return the mean rewards [T, 3] of a world."""
    if kind == "xor":
        same = x[:, 0] * x[:, 1] > 0.0
        return np.stack([0.1 + 0.6 * same, 0.1 + 0.6 * ~same, np.full(len(x), 0.3)], axis=1)
    if kind == "linear":
        return 1.0 / (1.0 + np.exp(-2.0 * np.stack([x[:, 0] + x[:, 1], x[:, 2] - x[:, 0], 0.0 * x[:, 0]], axis=1)))
    return np.full((len(x), 3), 0.3)


def log_of(kind, rng, size=2000, dim=4):
    """Return a log with random propensities, and a function of the true value of a policy."""
    x = rng.normal(size=(size, dim))
    p = rng.dirichlet(np.full(3, 4.0), size=size)
    arms = (rng.random((size, 1)) > p.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    rows = np.arange(size)
    rewards = (rng.random(size) < means_of(kind, x)[rows, arms]).astype(float)
    fresh = rng.normal(size=(20_000, dim))
    truth = means_of(kind, fresh)

    def value(policy):
        return float(truth[np.arange(len(truth)), policy(fresh)].mean())

    return {"context": x, "arm": arms, "reward": rewards, "propensity": p[rows, arms]}, value


@pytest.mark.parametrize(("kind", "chosen", "share"), [("xor", "tree", 0.93), ("linear", "linear", 0.9)])
def test_worlds_with_a_known_best_policy(rng, kind, chosen, share):
    """The value is within six standard errors of the honest one (1e-9), and most of the possible gain is found."""
    log, value = log_of(kind, rng, 3000)
    policy = pr.learn_policy(log, kinds=["arm", chosen])
    assert policy.kind == chosen
    x = rng.normal(size=(20_000, 4))
    best, none = means_of(kind, x).max(axis=1).mean(), means_of(kind, x).mean(axis=0).max()
    assert value(policy) > none + share * (best - none) - 0.01
    error = policy.estimates.table.loc["dr", ["low", "high"]].diff().iloc[1] / 2
    assert abs(policy.value - value(policy)) < 2.0 * error
    assert policy.low <= policy.value <= policy.high


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::prudent.errors.OverlapWarning")
def test_honest_values_are_covered_where_nothing_can_be_learned(rng):
    """All policies are worth 0.3; intervals at 0.95 contain it in 100 logs all but at most 16 times (1e-5)."""
    missed = 0
    for _ in range(100):
        log, _ = log_of("none", rng, 400)
        policy = pr.learn_policy(log, interval="normal")
        missed += not policy.low <= 0.3 <= policy.high
    assert missed <= 16


def test_honest_values_do_not_use_their_own_rewards(rng):
    """Other rewards in one fold change the policies of the other folds, not those that are evaluated in it."""
    log, _ = log_of("linear", rng, 500)
    base = pr.learn_policy(log, folds=2, kinds=["split"])
    other = dict(log, reward=np.where(np.arange(500) % 2 == 0, 1.0 - log["reward"], log["reward"]))
    from prudent.evaluation import policy_learning as room

    def chosen(given):
        held = room._held(given, room.Layout(), None)
        return room._Learner(held, ("split",), 0.95, 2, None, _Silent()).honest()["learned"]

    before, after = chosen(log), chosen(other)
    np.testing.assert_array_equal(before[::2], after[::2])
    assert base.n == 500


class _Silent:
    def show(self, text):
        """Say nothing."""


def test_the_best_tree_is_that_of_all_trees(rng):
    """Against trees of depth 2 tried one by one, with thresholds at the same quantiles."""
    x, values = rng.integers(0, 4, size=(120, 2)).astype(float), rng.normal(size=(120, 2))
    search = _TreeSearch(Scores(x, values, None, 1.0), 2)
    search._least = 1

    def leaf(rows):
        return values[rows].sum(axis=0).max() if rows.any() else 0.0

    def one(rows):
        cuts = [(d, t) for d in range(2) for t in search._edges[d]]
        sums = [leaf(rows & (x[:, d] <= t)) + leaf(rows & (x[:, d] > t)) for d, t in cuts]
        return max([leaf(rows), *sums])

    whole = np.ones(120, dtype=bool)
    best = max(one(whole & (x[:, d] <= t)) + one(whole & (x[:, d] > t)) for d in range(2) for t in search._edges[d])
    tree = search.best(values)
    found = values[np.arange(120), choose(tree, x, None)].sum()
    assert found == pytest.approx(max(best, one(whole)), rel=1e-9)


def test_the_bound_is_maximised_and_not_the_mean(rng):
    """An arm with a slightly higher mean and a huge spread loses to a safe one; every kind finds the better bound."""
    size = 2000
    values = np.column_stack([rng.normal(1.0, 0.1, size), rng.normal(1.2, 30.0, size)])
    scores, z = Scores(rng.normal(size=(size, 2)), values, None, 1.0), float(stats.norm.ppf(0.95))
    singles = [bound_of(Linear(np.array([[1.0, 0, 0], [0, 0, 0]])[::s]), scores, z).lower for s in (1, -1)]
    for kind in ("arm", "split", "tree", "linear"):
        assert bound_of(best_rule(kind, scores, z), scores, z).lower >= max(singles) - 1e-12


@pytest.mark.parametrize(("factor", "shift"), [(1e6, 0.0), (1e-3, 50.0), (3.0, -1e4)])
def test_scale_and_zero_of_rewards_do_not_matter(rng, factor, shift):
    log, _ = log_of("linear", rng, 600)
    log["propensity"] = np.full(600, 1 / 3)
    base = pr.learn_policy(log)
    other = pr.learn_policy(dict(log, reward=factor * log["reward"] + shift))
    x = rng.normal(size=(2000, 4))
    assert other.kind == base.kind
    assert (other(x) == base(x)).mean() > 0.999
    assert other.value == pytest.approx(factor * base.value + shift, rel=1e-6)


def test_names_eligible_arms_files_and_words(rng, tmp_path):
    log, _ = log_of("linear", rng, 400, dim=3)
    frame = pd.DataFrame(log["context"], columns=["age", "price", "hour"])
    frame["arm"] = np.array(["a", "b", "c"])[log["arm"]]
    frame["reward"], frame["propensity"] = log["reward"], log["propensity"]
    policy = pr.learn_policy(frame, features=["age", "price", "hour"], kinds=["linear"])
    assert policy.features == ("age", "price", "hour")
    assert policy.act({"price": 0.0, "hour": 0.0, "age": 3.0}) == policy.act([3.0, 0.0, 0.0])
    assert policy.act([3.0, 0.0, 0.0], arms=["b"]) == "b"
    np.testing.assert_array_equal(policy.propensities([3.0, 0.0, 0.0], ["b", "c"]).sum(), 1.0)
    policy.save(tmp_path / "policy.state")
    again = LearnedPolicy.load(tmp_path / "policy.state")
    x = rng.normal(size=(50, 3))
    assert again(x).tolist() == policy(x).tolist()
    pd.testing.assert_frame_equal(again.table, policy.table)
    assert (again.value, again.low, again.kind) == (policy.value, policy.low, policy.kind)
    reordered = frame[["hour", "price", "age", "arm", "reward", "propensity"]]
    one, two = (pr.off_policy(table, again).loc["dr", "estimate"] for table in (frame, reordered))
    assert one == pytest.approx(two, rel=1e-9)
    assert "score of a" in repr(policy)
    assert policy.plot().axes
    assert list(policy.to_pandas().index) == ["learned", "linear"]
    content = bytearray((tmp_path / "policy.state").read_bytes())
    content[-40] ^= 1
    (tmp_path / "bad.state").write_bytes(bytes(content))
    with pytest.raises(StateFileError):
        LearnedPolicy.load(tmp_path / "bad.state")


def test_arms_that_are_not_eligible_are_not_chosen(rng):
    x, left_out = rng.normal(size=(600, 4)), rng.integers(0, 3, 600)
    sets = [[arm for arm in range(3) if arm != out] for out in left_out.tolist()]
    arms = np.array([rng.choice(members) for members in sets])
    rewards = (rng.random(600) < means_of("linear", x)[np.arange(600), arms]).astype(float)
    log = {"context": x, "arm": arms, "reward": rewards, "propensity": np.full(600, 0.5)}
    policy = pr.learn_policy(log | {"arms": sets})
    assert np.isfinite([policy.value, policy.low, policy.high]).all()
    chances = pr.off_policy(log | {"arms": sets}, policy)
    assert np.isfinite(chances.loc["dr", "estimate"])


def test_features_of_all_kinds(rng):
    size = 600
    pairs = zip(rng.choice(["de", "fr"], size), rng.normal(40, 9, size), strict=True)
    rows = [{"country": str(country), "age": float(age)} for country, age in pairs]
    arms = rng.choice(["a", "b"], size)
    good = np.array([row["country"] == "de" for row in rows]) == (arms == "a")
    log = [
        {"context": row, "arm": str(arm), "reward": float(win), "propensity": 0.5}
        for row, arm, win in zip(rows, arms, good, strict=True)
    ]
    policy = pr.learn_policy(log, features=pr.Features(country="category", age="number"), kinds=["arm", "split"])
    assert policy.act({"country": "de", "age": 30.0}) == "a"
    assert policy.act({"country": "fr", "age": 30.0}) == "b"
    assert policy.value > 0.95


def test_what_is_refused(rng):
    log, _ = log_of("linear", rng, 300)
    with refused(ParameterError, "unknown-option", argument="kinds"):
        pr.learn_policy(log, kinds=["forest"])
    with refused(ParameterError, "empty", argument="kinds"):
        pr.learn_policy(log, kinds=[])
    with refused(DataError, "too-few-rows", argument="log"):
        pr.learn_policy({name: column[:50] for name, column in log.items()})
    with refused(DataError, "missing-column", column="propensity"):
        pr.learn_policy({name: log[name] for name in ("context", "arm", "reward")})
    with refused(ParameterError, "missing-column", column="context"):
        pr.learn_policy({name: log[name] for name in ("arm", "reward", "propensity")})
    policy = pr.learn_policy(log, kinds=["arm"])
    with refused(ParameterError, "unknown-arm", argument="arms"):
        policy.act([0.0] * 4, arms=[7])


def test_constants_and_repeated_values_make_no_cells(rng):
    log, _ = log_of("linear", rng, 400)
    log["context"][:, 1] = 1.0
    log["context"][:, 2] = np.repeat([0.0, 1.0], 200)
    for kind in ("split", "tree", "linear"):
        policy = pr.learn_policy(log, kinds=[kind])
        assert policy.low <= policy.value <= policy.high


def test_rules_leave_out_what_a_narrower_threshold_implies(rng):
    points = rng.random((3000, 1))
    best = np.digitize(points[:, 0], [0.3, 0.6])
    arms = rng.integers(0, 3, len(points))
    log = {
        "context": points,
        "arm": np.array(["a", "b", "c"])[arms],
        "reward": (arms == best).astype(float),
        "propensity": np.full(len(points), 1 / 3),
    }
    learned = pr.learn_policy(log, kinds=["tree"])
    rules = learned.rules()
    assert [rule.rpartition(": ")[2] for rule in rules] == ["a", "b", "c"]
    assert sum(" and " in rule for rule in rules) == 1  # the one between two thresholds
    said = [rule.rpartition(": ")[0].replace("x0", "x") for rule in rules]
    for x in np.linspace(0.005, 0.995, 100):
        (place,) = [i for i, rule in enumerate(said) if eval(rule, {"x": x})]
        assert learned.propensities([[x]])[0, place] == 1.0
