"""Items: their moments, and slates without drawing the scores that cannot be among the highest, bit by bit."""

import numpy as np
import pytest

import prudent as pr
from prudent.bandits.kernels.items import draw_highest, draw_scores, item_moments
from prudent.bandits.law.normal import _draw_bounds


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 5, 7, 8, 9, 21])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("q", [0.0, 2.0])
def test_moments_are_products_and_lengths(rng, dim, intercept, q):
    size = dim + intercept
    root, mean = np.tril(rng.normal(size=(size, size))), rng.normal(size=size)
    for k in (1, 7, 8, 9, 63, 64, 65, 130):
        features = rng.normal(size=(k, dim))
        rows, centres, offsets = np.hstack([np.ones((k, int(intercept))), features]), np.zeros(k), np.zeros(k)
        places, own, totals = rng.integers(-1, 3, size=k), rng.normal(size=(3, size + 1)), rng.random(3)
        if q > 0.0:
            old = places >= 0
            rows[old] -= own[places[old], :-1]
            centres[old], offsets[:] = own[places[old], -1], 1.0 / q
            offsets[old] = 1.0 / (q + totals[places[old]])
        moments = np.empty((2, k))
        item_moments(features, intercept, places, own, totals, q, root, mean, moments)
        np.testing.assert_allclose(moments[0], centres + rows @ mean, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(moments[1], np.sqrt(offsets + ((rows @ root.T) ** 2).sum(axis=1)), rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 10, 1000, -1, -7])
@pytest.mark.parametrize("top", [1, 2, 10, 33])
def test_the_highest_scores_are_those_of_all_draws(rng, n, top):
    for case in range(60):
        k = int(rng.integers(34, 400))
        mean = rng.normal(size=k) * rng.choice([0.0, 1e-9, 1.0, 1e9])
        sd = rng.gamma(1.0, size=k) * rng.choice([0.0, 1e-12, 1.0, 1e6])
        if case % 3 == 0:  # ties
            mean, sd = np.round(mean, 1), np.zeros(k)
        uniforms = rng.random(k)
        uniforms[rng.integers(0, k, 3)] = [0.0, 1.0 - 2.0**-53, 0.5]
        full, found = np.empty(k), np.empty(k)
        draw_scores(mean, sd, n, np.ones(1), uniforms, full)
        assert draw_highest(mean, sd, n, _draw_bounds(n), top, uniforms, found)
        least = np.sort(full)[-top]
        assert (found[full >= least] == full[full >= least]).all()
        assert ((found == full) | (found == -np.inf)).all()


def test_few_of_many_items_are_drawn(rng):
    k = 1000
    mean, sd, uniforms, found = rng.normal(size=k), rng.gamma(4.0, 0.2, size=k), rng.random(k), np.empty(k)
    assert draw_highest(mean, sd, 1, _draw_bounds(1), 1, uniforms, found)
    assert np.isfinite(found).sum() <= 20


def test_an_infinite_spread_is_not_screened():
    ones = np.ones(40)
    assert not draw_highest(
        ones, np.where(np.arange(40) == 7, np.inf, 1.0), 1, _draw_bounds(1), 1, 0.5 * ones, ones.copy()
    )


@pytest.mark.parametrize("alpha", [0.0, 0.5, -0.5, 0.9])
@pytest.mark.parametrize("top", [1, 5])
def test_a_bandit_decides_as_without_the_screen(rng, monkeypatch, alpha, top):
    slates = []
    for few in (32, 10_000):  # the second one draws all scores
        monkeypatch.setattr("prudent.bandits.law.normal._FEW", few)
        bandit = pr.SharedLinearBandit(4, alpha=alpha, rng=5)
        data = np.random.default_rng(3)
        for _ in range(30):
            decision = bandit.select(data.normal(size=(200, 4)), top=top)
            slates.append((decision.slate, decision.score))
            bandit.update(decision.context, decision.arm, float(data.normal()))
    half = len(slates) // 2
    for (arms, scores), (others, alone) in zip(slates[:half], slates[half:], strict=True):
        assert arms == others
        np.testing.assert_array_equal(scores, alone)


def test_names_that_are_given_again_are_checked_when_they_change():
    bandit = pr.SharedLinearBandit(2, rng=1)
    names = tuple(f"item {i}" for i in range(40))
    features = np.random.default_rng(1).normal(size=(40, 2))
    for _ in range(2):
        assert bandit.select(features, arms=names).arm in names
    with pytest.raises(pr.errors.ParameterError):
        bandit.select(features[:39], arms=names)
    with pytest.raises(pr.errors.ParameterError):
        bandit.select(features, arms=(*names[:39], names[0]))
    assert bandit.select(features[:3]).arm in (0, 1, 2)
