"""How much items differ beyond their features, learned: its evidence, what it earns, and that it is kept."""

import numpy as np
import pytest

from prudent.bandits import SharedLinearBandit
from prudent.bandits.belief.offset_precision import _PRECISIONS, CAUTION, WEAKEST, likeliest_precision


def rewards_of(rng, own, size=400, items=30, noise=0.5):
    features, offsets = rng.normal(size=(items, 3)), own * rng.normal(size=items)
    which = rng.integers(items, size=size)
    x = features[which]
    return x, which, x @ [1.0, -0.5, 0.2] + 3.0 + offsets[which] + noise * rng.normal(size=size)


def sums_of(x, which, rewards, items=30):
    z = np.column_stack([np.ones(len(x)), x, rewards])
    return z.T @ z, np.array([z[which == i].sum(axis=0) for i in range(items)]), np.bincount(which, minlength=items)


@pytest.mark.parametrize("noise_sd", [None, 0.5])
@pytest.mark.parametrize("own", [0.0, 0.2, 1.0])
def test_the_evidence_is_that_of_all_rewards_together(rng, noise_sd, own):
    """Beside the density of the rewards as one vector; the level has a prior of sd 1e3 there, a flat one here."""
    x, which, rewards = rewards_of(rng, own, 80, 12)
    raw, z, counts = sums_of(x, which, rewards, 12)
    prior, design = np.diag([1.0, 2.0, 2.0, 2.0]), np.column_stack([np.ones(80), x])
    before = np.diag([1e6 if noise_sd is None else 1.0, 0.5, 0.5, 0.5])

    def evidence(q):
        spread = np.eye(80) + design @ before @ design.T + (which[:, None] == which) / q
        square = rewards @ np.linalg.solve(spread, rewards)
        last = 79 * np.log(square) if noise_sd is None else square / noise_sd**2
        return -0.5 * np.linalg.slogdet(spread)[1] - 0.5 * last

    found = likeliest_precision(raw, z, counts.astype(float), prior, True, noise_sd)
    best = max(map(evidence, _PRECISIONS))
    sure = best > evidence(WEAKEST) + CAUTION
    assert evidence(found) == pytest.approx(best if sure else evidence(WEAKEST), abs=1e-2)


def test_items_that_do_not_differ_have_no_offsets_and_items_that_do_have_theirs(rng):
    x, which, rewards = rewards_of(rng, 0.0, 2000)
    names = which.tolist()
    alike = SharedLinearBandit(3, offsets=True, rng=1).update(x, names, rewards)
    plain = SharedLinearBandit(3, rng=1).update(x, None, rewards)
    assert alike.belief.offset_precision >= 100.0  # of noise: one in twenty is below the weakest
    np.testing.assert_allclose(
        alike.predict(x[:9], names[:9] if len(set(names[:9])) == 9 else range(9))[0], plain.predict(x[:9])[0], atol=0.15
    )
    x, which, rewards = rewards_of(rng, 1.0, 2000)
    apart = SharedLinearBandit(3, offsets=True, rng=1).update(x, which.tolist(), rewards)
    assert 0.1 <= apart.belief.offset_precision <= 1.0  # the truth is 0.25


def test_unit_and_zero_of_rewards_do_not_matter(rng):
    x, which, rewards = rewards_of(rng, 0.3)
    one = SharedLinearBandit(3, offsets=True, rng=1).update(x, which.tolist(), rewards)
    two = SharedLinearBandit(3, offsets=True, rng=1).update(x, which.tolist(), 40.0 * rewards - 700.0)
    assert one.belief.offset_precision == two.belief.offset_precision < WEAKEST
    rows = rng.normal(size=(5, 3))
    np.testing.assert_allclose(one.propensities(rows, range(5)), two.propensities(rows, range(5)), rtol=1e-6)


def test_one_by_one_in_batches_and_after_a_save_are_equal(rng, tmp_path):
    x, which, rewards = rewards_of(rng, 0.6, 150)
    whole = SharedLinearBandit(3, offsets=True, rng=3).update(x, which.tolist(), rewards)
    single = SharedLinearBandit(3, offsets=True, rng=3)
    for t in range(150):
        single.update(x[t], int(which[t]), float(rewards[t]))
        if t == 70:
            single.save(tmp_path / "bandit.state")
            single = SharedLinearBandit.load(tmp_path / "bandit.state")
    assert single.belief.offset_precision == whole.belief.offset_precision < WEAKEST
    np.testing.assert_allclose(single.predict(x[:1], [which[0]]), whole.predict(x[:1], [which[0]]), rtol=1e-9)


def test_bandits_that_learned_other_precisions_are_merged(rng):
    x, which, rewards = rewards_of(rng, 0.6, 600)
    names, base = which.tolist(), SharedLinearBandit(3, offsets=True, rng=3)
    base.update(x[:200], names[:200], rewards[:200])
    one, two = base.copy(stream=0), base.copy(stream=1)
    one.update(x[200:300], names[200:300], rewards[200:300])
    two.update(x[300:], names[300:], rewards[300:])
    merged, q = one.merge(two, since=base), one.belief.offset_precision
    given = SharedLinearBandit(3, offsets=True, offset_precision=q, rng=3).update(x, names, rewards)
    np.testing.assert_allclose(merged.predict(x[:1], names[:1]), given.predict(x[:1], names[:1]), rtol=1e-7)
    assert merged.n_rewards == 600


def test_a_precision_that_is_given_stays(rng):
    x, which, rewards = rewards_of(rng, 0.6)
    bandit = SharedLinearBandit(3, offsets=True, offset_precision=2.0).update(x, which.tolist(), rewards)
    assert bandit.belief.offset_precision == 2.0
