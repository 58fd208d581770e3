"""Chances of slates: at every place, as a set and in order, against other integrals and repeated decisions."""

import itertools

import numpy as np
import pytest
from refusals import refused
from scipy import integrate, stats

import prudent as pr
from prudent.bandits.law.normal import NormalLaw, ScoreRule
from prudent.errors import ParameterError


def law_of(means, sds, n=1, weights=(1.0,), floor=0.0):
    moments = np.stack([means, sds, sds, np.zeros(len(means))])
    return NormalLaw(moments, ScoreRule(floor, n, weights, False, None), sort=True)


CASES = {
    "alike": (np.zeros(4), np.ones(4)),
    "spread": (np.array([0.0, 0.3, -0.2, 1.0, 0.5]), np.array([1.0, 0.5, 2.0, 0.7, 0.1])),
    "sharp": (np.array([0.0, 0.001, 0.5, -1.0]), np.array([1.0, 1e-3, 1e-4, 3.0])),
}


@pytest.mark.parametrize("floor", [0.0, 0.05])
@pytest.mark.parametrize(("n", "weights"), [(1, (1.0,)), (5, (1.0,)), (-3, (1.0,)), (4, (0.5, 0.5))])
@pytest.mark.parametrize("case", CASES)
def test_chances_of_slates_add_up(case, n, weights, floor):
    """Orders of a set add up to the set, sets with an arm to its inclusion, orders to placements, and all to one."""
    law, size = law_of(*CASES[case], n, weights, floor), len(CASES[case][0])
    for top in (2, 3):
        orders = {order: law.slate_chance(np.array(order), True) for order in itertools.permutations(range(size), top)}
        sets = {
            chosen: law.slate_chance(np.array(chosen), False) for chosen in itertools.combinations(range(size), top)
        }
        placed, included = law.placed(top, 1, None), law.included(top, 1, None)
        assert sum(orders.values()) == pytest.approx(1.0, abs=1e-10)
        for chosen, chance in sets.items():
            assert sum(orders[order] for order in itertools.permutations(chosen)) == pytest.approx(chance, abs=1e-10)
        for arm in range(size):
            assert sum(chance for chosen, chance in sets.items() if arm in chosen) == pytest.approx(
                included.chance[arm], abs=1e-10
            )
            for place in range(top):
                found = sum(chance for order, chance in orders.items() if order[place] == arm)
                assert found == pytest.approx(placed.chance[place, arm], abs=1e-10)
        np.testing.assert_allclose(placed.chance[0], law.chances(), atol=1e-11)
        np.testing.assert_array_equal(placed.error, 0.0)


def test_three_normal_scores_by_another_integral():
    """P(0 > 1 > 2) by the bivariate normal law of the differences."""
    means, sds = np.array([0.4, 0.1, -0.3]), np.array([1.0, 0.6, 1.5])
    differences = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])
    covariance = differences @ np.diag(sds**2) @ differences.T
    law = stats.multivariate_normal(-differences @ means, covariance, seed=1)
    expected = law.cdf(np.zeros(2))
    assert law_of(means, sds).slate_chance(np.array([0, 1]), True) == pytest.approx(expected, abs=1e-7)
    norm = [stats.norm(mean, sd) for mean, sd in zip(means, sds, strict=True)]
    second = integrate.quad(lambda x: norm[1].pdf(x) * norm[0].sf(x) * norm[2].cdf(x), -15, 15, epsabs=1e-13)[0]
    second += integrate.quad(lambda x: norm[1].pdf(x) * norm[2].sf(x) * norm[0].cdf(x), -15, 15, epsabs=1e-13)[0]
    assert law_of(means, sds).placed(2, 1, None).chance[1, 1] == pytest.approx(second, abs=1e-11)


@pytest.mark.parametrize("rewards", ["gaussian", "bernoulli"])
def test_repeated_decisions_have_these_chances(rewards, rng):
    """A million slates of a bandit in one state. False alarm: 1e-6 for 2 + 2 * 6 + 6 numbers, two sides each."""
    bandit = pr.SharedLinearBandit(2, rewards=rewards, alpha=0.5, min_propensity=0.02, rng=rng)
    features = rng.normal(size=(6, 2))
    bandit.update(features, None, (rng.random(6) < 0.5).astype(float))
    decision = bandit.select(features, top=2)
    count, law = 1_000_000, decision._law
    slates = np.argsort(-law.sample(count, rng), axis=1)[:, :2]
    uniform = rng.random(count) < 6 * 0.02
    slates[uniform] = np.argsort(rng.random((int(uniform.sum()), 6)), axis=1)[:, :2]
    chosen = np.array([list(decision.arms).index(arm) for arm in decision.slate])
    placed, included = decision.placement().chance, decision.inclusion().chance
    checks = [((slates == chosen).all(axis=1).mean(), decision.slate_propensity)]
    checks.append(((np.sort(slates, axis=1) == np.sort(chosen)).all(axis=1).mean(), decision.set_propensity))
    for arm in range(6):
        checks.append(((slates == arm).any(axis=1).mean(), included[arm]))
        checks += [((slates[:, place] == arm).mean(), placed[place, arm]) for place in range(2)]
    limit = stats.norm.isf(1e-6 / (2 * len(checks)))
    for found, chance in checks:
        assert abs(found - chance) <= limit * np.sqrt(chance * (1.0 - chance) / count) + 1e-9


def test_slates_that_are_drawn_have_these_chances(rng):
    """The same with slates that ``select`` itself draws. False alarm: 1e-6 for 8 numbers, two sides each."""
    bandit = pr.SharedLinearBandit(1, noise_sd=1.0, min_propensity=0.05, rng=rng)
    features = np.array([[1.0], [-0.5], [0.3]])
    decisions = [bandit.select(features, top=2) for _ in range(20_000)]
    slates = np.array([decision.slate for decision in decisions])
    first = decisions[0]
    checks = [((slates == slates[0]).all(axis=1).mean(), first.slate_propensity)]
    checks.append(((np.sort(slates, axis=1) == np.sort(slates[0])).all(axis=1).mean(), first.set_propensity))
    placed = first.placement().chance
    checks += [((slates[:, place] == arm).mean(), placed[place, arm]) for place in range(2) for arm in range(3)]
    limit = stats.norm.isf(1e-6 / (2 * len(checks)))
    for found, chance in checks:
        assert abs(found - chance) <= limit * np.sqrt(chance * (1.0 - chance) / len(slates))


def test_slates_before_the_noise_is_known_are_uniform():
    decision = pr.SharedLinearBandit(1, rng=0).select([[1.0], [2.0], [3.0], [4.0]], top=3)
    assert decision.slate_propensity == pytest.approx(1 / 24)
    assert decision.set_propensity == pytest.approx(1 / 4)
    np.testing.assert_allclose(decision.placement().chance, 0.25)


def test_a_slate_of_one_is_an_arm():
    decision = pr.SharedLinearBandit(1, noise_sd=1.0, rng=0).select([[1.0], [2.0]])
    assert decision.slate_propensity == decision.set_propensity == decision.propensity
    arm = pr.LinearBandit(3, 1, noise_sd=1.0, rng=0).select([1.0])
    assert arm.slate_propensity == arm.propensity
    np.testing.assert_allclose(arm.placement().chance[0], arm.propensities, atol=1e-11)


def test_joint_draws_are_sampled_and_their_slates_refused(rng):
    bandit = pr.SharedLinearBandit(2, noise_sd=1.0, draws="joint", rng=0)
    decision = bandit.select(rng.normal(size=(4, 2)), top=2)
    chance, error = decision.placement(draws=4000)
    np.testing.assert_allclose(chance.sum(axis=1), 1.0)
    assert (error > 0.0).all()
    with refused(ParameterError, "no-propensity", argument="draws"):
        _ = decision.slate_propensity
    left = bandit.select(rng.normal(size=(4, 2)), top=2, propensity=False)
    assert left.slate_propensity is None
    assert left.set_propensity is None
    with refused(ParameterError, "no-propensity"):
        left.placement()


def test_many_candidates_include_as_few_do(rng):
    """Inclusion is sampled where candidates times the square of the length are more than a million: six sds."""
    law = law_of(rng.normal(size=120), rng.uniform(0.5, 1.0, size=120))
    exact = law.placed(100, 1, None).chance.sum(axis=0)
    sampled, error = law.included(100, 500, np.random.default_rng(1))
    assert (error > 0.0).any()
    assert (np.abs(sampled - exact) <= 6.0 * error + 1e-6).all()
