"""Products and thresholds that are found by evidence: what is found, what it earns, and that nothing else changes."""

import numpy as np
import pytest
from refusals import refused
from scipy import stats

import prudent as pr
from prudent.bandits import LinearBandit
from prudent.bandits.belief.terms import Terms, found_terms
from prudent.bandits.belief.trial import squares_saved
from prudent.errors import ParameterError, PrudentWarning, StateFileError

TINY = 1e-6  # chance of a false alarm


def xor(rng, size=300, noise=0.3, dim=4):
    x = rng.integers(0, 2, (size, dim)).astype(float)
    rows = rng.integers(0, 2, size)
    return x, rows, ((x[:, 0] != x[:, 1]) == rows) + noise * rng.normal(size=size)


def steps(rng, size=600):
    x, rows = rng.normal(size=(size, 3)), rng.integers(0, 2, size)
    return x, rows, ((x[:, 1] > 0.4) == rows) + 0.3 * rng.normal(size=size)


def wide(rng, size=300, **options):
    x, rows, rewards = xor(rng, size)
    return LinearBandit(2, 4, interactions="auto", rng=3, **options).update(x, rows, rewards)


def test_the_product_is_found_by_name(rng):
    x, rows, rewards = xor(rng)
    bandit = LinearBandit(2, features=["a", "b", "c", "d"], interactions="auto").update(x, rows, rewards)
    assert bandit.interactions_found == ("a x b",)
    assert bandit.to_xarray()["feature"].values.tolist() == ["intercept", "a", "b", "c", "d", "a x b"]
    assert "a x b" in str(bandit.explain(x[0]))


def test_a_threshold_is_found_near_its_place(rng):
    x, rows, rewards = steps(rng)
    terms = found_terms(x, rows, rewards, np.ones(len(x)), True)
    assert terms.feature[0].tolist() == [1, -1]
    assert abs(terms.mean[1] + terms.sd[1] * terms.cut[0, 0] - 0.4) < 0.3


def test_evidence_is_that_of_a_regression_in_full(rng):
    """What a term changes is the log evidence of two regressions of scratch, computed without any shortcut."""
    x, rows, rewards = xor(rng, 80, noise=1.0)
    terms = found_terms(x, rows, rewards, np.ones(80), True, caution=-50.0)  # takes what it can
    wide = terms.expanded(np.column_stack([np.ones(80), x]), 1)
    z = (x - x.mean(axis=0)) / x.std(axis=0)

    def evidence(count, ridge):
        total, target = 0.0, rewards - rewards.mean()
        square = 0.0
        for arm in (0, 1):
            own = rows == arm
            design = np.column_stack([np.ones(80), z, wide[:, 5 : 5 + count]])[own]
            prior = np.diag([1.0, *[ridge] * 4, *terms.precision[:count]])
            inside = np.eye(own.sum()) + design @ np.linalg.inv(prior) @ design.T
            total -= 0.5 * np.linalg.slogdet(inside)[1]
            square += target[own] @ np.linalg.solve(inside, target[own])
        return total - 0.5 * 79 * np.log(square)

    gains = []
    for ridge in (0.01, 0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0):
        gains.append((evidence(0, ridge), evidence(1, ridge) - evidence(0, ridge)))
    gain = max(gains)[1]
    candidates = 6  # pairs of four binary features
    one = found_terms(x, rows, rewards, np.ones(80), True, caution=gain - np.log(candidates) - 1e-6)
    none = found_terms(x, rows, rewards, np.ones(80), True, caution=gain - np.log(candidates) + 1e-6)
    assert one.size >= 1
    assert none.size == 0


def test_without_evidence_every_decision_is_that_of_the_plain_bandit(rng):
    plain, auto = (LinearBandit(3, 4, rng=5, interactions=word) for word in ("none", "auto"))
    theta = rng.normal(size=(3, 4))
    for _ in range(300):
        x = rng.normal(size=4)
        one, two = plain.select(x), auto.select(x)
        assert (one.arm, one.score, one.propensity) == (two.arm, two.score, two.propensity)
        reward = float(theta[one.arm] @ x + rng.normal())
        plain.update(x, one.arm, reward)
        auto.update(x, two.arm, reward)
        if auto.interactions_found:  # by chance: one in some thousand searches
            return
    assert plain.noise_sd == auto.noise_sd


def test_one_by_one_in_batches_and_after_a_save_are_equal(rng, tmp_path):
    x, rows, rewards = xor(rng)
    whole = LinearBandit(2, 4, interactions="auto", rng=3).update(x, rows, rewards)
    single = LinearBandit(2, 4, interactions="auto", rng=3)
    for t in range(300):
        single.update(x[t], int(rows[t]), float(rewards[t]))
        if t == 150:
            single.save(tmp_path / "bandit.state")
            single = LinearBandit.load(tmp_path / "bandit.state")
    assert single.interactions_found == whole.interactions_found != ()
    np.testing.assert_array_equal(single.predict(x[:5]), whole.predict(x[:5]))
    assert single.to_bytes() == whole.to_bytes()


def test_propensities_are_those_of_repeated_decisions(rng):
    bandit, point = wide(rng, 70, exploration=1.0), np.array([0.0, 1.0, 1.0, 0.0])
    assert bandit.interactions_found
    chances = bandit.propensities(point)
    many = bandit.select(np.tile(point, (200_000, 1)))
    counts = np.bincount(many.arm.astype(int), minlength=2)
    assert stats.chisquare(counts, chances * counts.sum()).pvalue > TINY


@pytest.mark.parametrize(("scale", "shift"), [(1e3, 0.0), (1.0, -50.0), (1e-4, 7.0)])
def test_terms_do_not_depend_on_scale_and_shift(rng, scale, shift):
    x, rows, rewards = steps(rng)
    plain = found_terms(x, rows, rewards, np.ones(len(x)), True)
    moved = found_terms(scale * x + shift, rows, 30.0 * rewards - 4.0, np.ones(len(x)), True)
    np.testing.assert_array_equal(plain.feature, moved.feature)
    np.testing.assert_array_equal(plain.kind, moved.kind)
    np.testing.assert_allclose(plain.cut, moved.cut, atol=1e-6)


def test_terms_settle_and_rows_are_dropped(rng):
    bandit = LinearBandit(2, 4, interactions="auto", rng=3)
    for _ in range(6):
        x, rows, rewards = xor(rng, 1000)
        bandit.update(x, rows, rewards)
    assert bandit.belief.settled
    assert bandit.belief.arrays()["kept_points"].size == 0
    again = LinearBandit.from_bytes(bandit.to_bytes())
    np.testing.assert_array_equal(again.predict(x[:3]), bandit.predict(x[:3]))


def test_it_earns_what_an_oracle_earns(rng):
    bandit, theirs = LinearBandit(2, 6, interactions="auto", rng=3), 0.0
    for _ in range(1500):
        x = rng.integers(0, 2, 6).astype(float)
        arm = bandit.select(x).arm
        right = float((x[0] != x[1]) == arm)
        bandit.update(x, arm, right + 0.3 * rng.normal())
        theirs += right
    assert (theirs / 1500 - 0.5) / 0.5 > 0.9


def test_arms_come_and_go(rng):
    bandit = wide(rng, 200)
    bandit.add_arm("new").update(np.eye(4), ["new"] * 4, [1.0, 2.0, 3.0, 4.0])
    bandit.remove_arm(0)
    x, rows, rewards = xor(rng, 300)
    bandit.update(x[rows == 1], [1] * int(rows.sum()), rewards[rows == 1])
    again = LinearBandit.from_bytes(bandit.to_bytes())
    np.testing.assert_array_equal(again.propensities(x[0]), bandit.propensities(x[0]))


def test_evidence_that_fades_is_learned_again_as_faded(rng):
    bandit = wide(rng, 100, half_life=50)
    for _ in range(200):
        x, rows, rewards = xor(rng, 1)
        bandit.select(x[0])
        bandit.update(x[0], int(rows[0]), float(rewards[0]))
    assert bandit.interactions_found
    assert LinearBandit.from_bytes(bandit.to_bytes()).noise_sd == bandit.noise_sd


def same_state(one, two):
    """Return whether what two bandits have learned is the same to the last bit."""
    mine, theirs = one.belief.arrays(), two.belief.arrays()
    assert mine.keys() == theirs.keys()
    return one.belief.values() == two.belief.values() and all(np.array_equal(mine[key], theirs[key]) for key in mine)


@pytest.mark.parametrize("size", [3, 40, 400, 5000])
def test_merging_learns_what_the_others_have_kept_in_the_order_of_merging(size, rng):
    """Two workers since a common ancestor: as if one bandit had learned the rewards of one after the other."""
    x, rows, rewards = xor(rng, 3 * size)
    base = LinearBandit(2, 4, interactions="auto", rng=3).update(x[:size], rows[:size], rewards[:size])
    workers = [base.copy(stream=k) for k in range(2)]
    parts = [slice(size, 2 * size), slice(2 * size, 3 * size)]
    for worker, part in zip(workers, parts, strict=True):
        worker.update(x[part], rows[part], rewards[part])
    together = base.copy()
    for part in parts:
        together.update(x[part], rows[part], rewards[part])
    merged = base.copy()
    for worker in workers:
        merged.merge(worker, since=base)
    assert size == 5000 or same_state(merged, together)
    np.testing.assert_allclose(merged.predict(x[:3]), together.predict(x[:3]), rtol=1e-9)
    assert merged.interactions_found == together.interactions_found
    assert size < 400 or merged.interactions_found == ("x0 x x1",)


def test_merging_with_arms_that_came_and_went(rng):
    x, _, rewards = xor(rng, 120)
    base = LinearBandit(["a", "b", "c"], 4, interactions="auto", rng=3)
    names = np.array(["a", "b", "c"])[rng.integers(0, 3, 120)]
    base.update(x[:40], names[:40], rewards[:40])
    one, two = base.copy(stream=0).remove_arm("b"), base.copy(stream=1).add_arm("d").remove_arm("a")
    chosen = [two.select(x[t], ["c", "d"]).arm for t in range(80, 120)]
    two.update(x[80:], chosen, rewards[80:])
    kept = names[:40] != "b"
    both = LinearBandit(["a", "c", "d"], 4, interactions="auto", rng=3)
    both.update(x[:40][kept], names[:40][kept], rewards[:40][kept]).update(x[80:], chosen, rewards[80:])
    merged = one.merge(two, since=base)
    assert merged.arms == both.arms
    assert merged.pulls == both.pulls
    np.testing.assert_allclose(merged.predict(x[:3]), both.predict(x[:3]), rtol=1e-9)
    tries = {arm: two.clock()["tries"][arm] for arm in ("c", "d")} | {"a": base.pulls["a"]}
    assert merged.clock()["tries"] == tries
    again = LinearBandit.from_bytes(merged.to_bytes())
    np.testing.assert_array_equal(again.predict(x[:3]), merged.predict(x[:3]))


def test_merging_refuses_what_does_not_come_from_the_ancestor(rng):
    x, rows, rewards = xor(rng, 60)
    make = lambda part: LinearBandit(2, 4, interactions="auto", rng=3).update(x[part], rows[part], rewards[part])  # noqa: E731
    base, other = make(slice(0, 30)), make(slice(10, 60))
    for since in (base, make(slice(0, 60))):
        with refused(ParameterError, "not-an-ancestor", argument="since"):
            base.copy().merge(other, since=since)
    settled = wide(rng, 6000)
    assert settled.belief.settled
    with refused(ParameterError, "not-an-ancestor", argument="since"):
        base.copy().merge(other, since=settled)


def test_merging_settled_bandits_with_equal_terms_adds_their_sums(rng):
    base = wide(rng, 6000)
    assert base.belief.settled
    one, two = base.copy(stream=0), base.copy(stream=1)
    x, rows, rewards = xor(rng, 50)
    one.update(x[:25], rows[:25], rewards[:25])
    two.update(x[25:], rows[25:], rewards[25:])
    both = base.copy().update(x, rows, rewards)
    assert both.interactions_found
    np.testing.assert_allclose(one.merge(two, since=base).predict(x[:3]), both.predict(x[:3]), rtol=1e-9)


def test_merging_a_settled_bandit_with_other_terms_is_that_of_bandits_without(rng):
    """What is left is what plain bandits would know, and a warning says so."""
    x, rows, rewards = xor(rng, 9000)
    auto, plain = (
        [
            LinearBandit(2, 4, interactions=word, rng=3).update(x[p], rows[p], rewards[p])
            for p in (slice(300), slice(300, 9000))
        ]
        for word in ("auto", "none")
    )
    assert auto[1].belief.settled
    assert not auto[0].belief.settled
    with pytest.warns(PrudentWarning) as told:
        merged = auto[0].merge(auto[1], since=None)
    assert [warning.message.code for warning in told] == ["different-features"]
    plain[0].merge(plain[1], since=None)
    np.testing.assert_allclose(merged.predict(x[:5]), plain[0].predict(x[:5]), rtol=1e-9)
    assert merged.interactions_found == ()
    assert merged.n_rewards == 9000
    again = LinearBandit.from_bytes(merged.update(x[:50], rows[:50], rewards[:50]).to_bytes())
    np.testing.assert_array_equal(again.predict(x[:5]), merged.predict(x[:5]))


@pytest.mark.parametrize("precision", [None, 3.0])
@pytest.mark.parametrize("size", [20, 200, 6000])
def test_new_features_were_zero_in_the_rows_that_are_kept(size, precision, rng):
    """A bandit that migrates is one that had all features from the start."""
    x, rows, rewards = xor(rng, size + 200)
    ours, other = (
        LinearBandit(2, features=list(names), interactions="auto", rng=3, prior_precision=precision)
        for names in ("abcd", "abcde")
    )
    late = rng.integers(0, 2, 200).astype(float)
    ours.update(x[:size], rows[:size], rewards[:size]).migrate(list("abce"), prior_precision=precision)
    other.update(np.insert(x[:size], 4, 0.0, axis=1), rows[:size], rewards[:size])
    assert (ours.features, ours.retired) == (tuple("abcde"), ("d",))
    if size == 200:
        assert ours.interactions_found == other.interactions_found == ("a x b",)
    points = np.column_stack([x[size:, :3], np.zeros(200), late])
    for t, point in enumerate(points):
        ours.update(dict(zip("abcde", point, strict=True)), int(rows[size + t]), float(rewards[size + t]))
    other.update(points, rows[size:], rewards[size:])
    np.testing.assert_allclose(ours.predict(points[:9]), other.predict(points[:9]), rtol=1e-7)
    assert ours.interactions_found == other.interactions_found
    again = LinearBandit.from_bytes(ours.to_bytes())
    np.testing.assert_array_equal(again.predict(points[:9]), ours.predict(points[:9]))


def test_a_journal_gives_the_same_bandit_again(rng, tmp_path):
    path = tmp_path / "journal.db"
    x, _, _ = xor(rng, 120)
    with pr.Journal(path, LinearBandit(2, 4, interactions="auto", rng=3)) as journal:
        for row in x:
            decision = journal.select(row)
            journal.reward(decision.id, float((row[0] != row[1]) == decision.arm) + 0.1 * rng.normal())
        before, names = journal.bandit.propensities(x[:5]), journal.bandit.interactions_found
    assert names
    with pr.Journal(path, LinearBandit(2, 4, interactions="auto", rng=3)) as journal:
        np.testing.assert_array_equal(journal.bandit.propensities(x[:5]), before)
        assert journal.bandit.interactions_found == names


def test_forged_terms_are_refused(rng):
    bandit = wide(rng, 100)
    arrays = bandit.belief.arrays()
    for name, bad in (("term_feature", 9), ("term_scale", 0.0), ("term_kind", 7), ("term_precision", -1.0)):
        forged = {key: value.copy() for key, value in arrays.items()}
        forged[name].flat[0] = bad
        with pytest.raises(ValueError):
            Terms.of(forged, 4)
    with pytest.raises(StateFileError):
        LinearBandit.from_bytes(bandit.to_bytes()[:-9])


def test_what_it_does_not_take():
    with refused(ParameterError, "conflicting-arguments", argument="interactions"):
        LinearBandit(2, 3, rewards="bernoulli", interactions="auto")
    with refused(ParameterError, "unknown-option", argument="interactions"):
        LinearBandit(2, 3, interactions="yes")


# -- trials ------------------------------------------------------------------------------------------------


def test_a_trial_compares_predictions_of_later_rewards(rng):
    """Beside posterior means of bandits that have learned the first rewards only."""
    x, rows, rewards = xor(rng, 120, noise=0.5)
    terms = found_terms(x[:80], rows[:80], rewards[:80], np.ones(80), True, caution=-50.0)
    design = np.column_stack([np.ones(120), x])
    wide, prior = terms.expanded(design, 1), terms.prior(np.eye(5), 1)
    level, low, high = rewards[:80].mean(), rewards[:80].min(), rewards[:80].max()
    weights = rng.uniform(0.5, 1.0, 120)
    found = squares_saved(design, wide, (np.eye(5), prior), rows, rewards, weights, 80, level)
    errors = []
    for features, precision in ((design, np.eye(5)), (wide, prior)):
        predicted = np.empty(40)
        for arm in (0, 1):
            own, new = np.flatnonzero(rows[:80] == arm), rows[80:] == arm
            root = np.linalg.cholesky(precision).T  # ridge regression as least squares with more rows
            more = np.vstack([np.sqrt(weights[own])[:, None] * features[own], root])
            target = np.concatenate([np.sqrt(weights[own]) * (rewards[own] - level), np.zeros(len(root))])
            predicted[new] = level + features[80:][new] @ np.linalg.lstsq(more, target, rcond=None)[0]
        errors.append((np.clip(predicted, low, high) - rewards[80:]) ** 2)
    np.testing.assert_allclose(found, weights[80:] * (errors[0] - errors[1]), atol=1e-9)


def test_terms_that_later_rewards_do_not_bear_out_are_not_taken(rng):
    """The first rewards follow a product, the later ones do not: evidence finds it, and the trial drops it."""
    x, rows, rewards = xor(rng, 30)
    late, where = rng.integers(0, 2, (60, 4)).astype(float), rng.integers(0, 2, 60)
    bandit = LinearBandit(2, 4, interactions="auto", rng=1).update(x, rows, rewards)
    terms = found_terms(x, rows, rewards, np.ones(30), True)
    assert terms.size or not bandit.interactions_found
    bandit.update(late, where, 0.3 * rng.normal(size=60))
    assert bandit.interactions_found == ()
