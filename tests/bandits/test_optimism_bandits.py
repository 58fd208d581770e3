"""Bandits at negative levels: the highest of n draws, drawn directly, and the exact chances of what they choose."""

import numpy as np
import pytest
from refusals import refused
from scipy import stats

import prudent as pr
from prudent._numerics.order_statistics import lowest_normals_into, lowest_students_into
from prudent.bandits import BanditSettings, LinearBandit, SharedLinearBandit
from prudent.bandits.law import BetaLaw
from prudent.bandits.law.score_law import score_law
from prudent.exact import cvar_normal
from prudent.schedules import Decay, Falling

ALARM = 1e-6  # of every test here, in all


def agree(counts, chances, tests=1):
    """Pearson's test of counts against chances, in which cells of less than 10 are merged."""
    total = counts.sum()
    small = chances * total < 10.0
    seen = np.append(counts[~small], counts[small].sum())
    expected = np.append(chances[~small], chances[small].sum()) * total
    kept = expected > 1e-9
    assert seen[~kept].sum() == 0
    seen, expected = seen[kept], expected[kept]
    if seen.size > 1:
        assert stats.chi2.sf((((seen - expected) ** 2) / expected).sum(), seen.size - 1) > ALARM / tests


def taught(alpha=None, seed=1, **options):
    bandit = LinearBandit(4, dim=2, alpha=alpha, rng=seed, **options)
    rng = np.random.default_rng(5)
    for arm, pulls in enumerate((1, 3, 20, 6)):
        x = rng.uniform(0.0, 1.0, (pulls, 2))
        bandit.update(x, [arm] * pulls, np.clip(x @ [0.5, 0.3] + 0.1 * arm + 0.3 * rng.standard_normal(pulls), -1, 2))
    return bandit


# -- draws ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("freedom", [None, 5.0])
def test_highest_draws_have_the_law_of_the_highest(freedom):
    """The first and second highest of 7: Kolmogorov's test of each, false alarm 1e-6 for both."""
    rng, n = np.random.default_rng(3), 7
    draws = rng.random((20_000, 2))
    for row in draws:
        if freedom is None:
            lowest_normals_into(row, -n, row)
        else:
            lowest_students_into(row, -n, row, freedom)
    assert (draws[:, 0] >= draws[:, 1]).all()
    law = stats.norm if freedom is None else stats.t(freedom)
    for k in range(2):
        assert stats.kstest(stats.beta.cdf(law.cdf(draws[:, k]), n - k, k + 1), "uniform").pvalue > 0.5 * ALARM


def test_highest_is_minus_the_lowest_and_finite_at_the_ends():
    for n in (1, 2, 10, 10**12):
        for u in (0.0, 2.0**-53, 1e-12, 0.3, 0.5, 1.0 - 2.0**-53):
            high, low = np.array([u]), np.array([1.0 - u])
            lowest_normals_into(high, -n, high)
            assert np.isfinite(high[0])
            if 0.0 < u < 1.0 and 1.0 - (1.0 - u) == u:
                lowest_normals_into(low, n, low)
                assert high[0] == pytest.approx(-low[0], rel=1e-9, abs=1e-12)


# -- chances -------------------------------------------------------------------------------------------------


CASES = {
    "half": BanditSettings(-0.5),
    "nine tenths": BanditSettings(-0.9),
    "two draws": BanditSettings(-0.7),
    "many draws": BanditSettings(-0.8, draws=20),
    "modified": BanditSettings(-0.7, estimator="modified"),
    "clipped": BanditSettings(-0.8, clip=True),
    "clipped pair": BanditSettings(-0.7, clip=True),
    "clipped pair, near 1": BanditSettings(-0.3, clip=True),
    "floor": BanditSettings(-0.9, min_propensity=0.05),
    "inflated": BanditSettings(-0.5, delta=0.1),
}


@pytest.mark.parametrize("name", CASES)
def test_chances_at_negative_levels_are_those_of_decisions(name):
    """40,000 decisions in one context, in a batch and one by one."""
    bandit = taught(settings=CASES[name], noise_sd=0.3)
    chances = bandit.propensities([0.6, 0.4])
    assert chances.sum() == pytest.approx(1.0, abs=1e-9)
    frozen = CASES[name].delta is not None  # whose draws widen with every decision
    rows = 2_000 if frozen else 40_000
    batch = bandit.copy(7).select(np.tile([0.6, 0.4], (rows, 1)))
    if not frozen:
        agree(np.bincount(batch.arms, minlength=4), chances, tests=2 * len(CASES))
    few = bandit.copy(9).select(np.tile([0.6, 0.4], (3, 1)))
    if not frozen:
        np.testing.assert_allclose(few.propensities, np.tile(chances, (3, 1)), atol=1e-9)
    one = bandit.copy(8)
    decisions = [one.copy(i).select([0.6, 0.4]) if frozen else one.select([0.6, 0.4]) for i in range(2_000)]
    agree(np.bincount([d.arm for d in decisions], minlength=4), chances, tests=2 * len(CASES))
    assert decisions[0].propensity == pytest.approx(chances[decisions[0].arm], abs=1e-9)


@pytest.mark.parametrize("options", [{"noise": "by arm"}, {}, {"rewards": "poisson"}])
def test_chances_with_learned_noise_and_counts(options):
    bandit = LinearBandit(3, dim=1, alpha=-0.8, rng=1, **options)
    rng = np.random.default_rng(2)
    for arm in range(3):
        pulls = 3 + 5 * arm
        bandit.update(rng.random((pulls, 1)), [arm] * pulls, rng.poisson(1.0 + arm, pulls).astype(float))
    chances = bandit.propensities([0.5])
    batch = bandit.copy(4).select(np.full((40_000, 1), 0.5))
    agree(np.bincount(batch.arms, minlength=3), chances, tests=3)


def test_coins_without_context():
    bandit = LinearBandit(3, dim=0, alpha=-0.7, rewards="bernoulli", rng=1)
    bandit.update(np.empty((6, 0)), [0, 0, 0, 1, 1, 2], [1, 0, 0, 1, 1, 0])
    chances = bandit.propensities()
    batch = bandit.copy(2).select(np.empty((40_000, 0)))
    agree(np.bincount(batch.arms, minlength=3), chances)
    assert (bandit.score(alpha=-0.9) > bandit.score(alpha=0.0)).all()
    # the score of a success at -a is minus that of a failure at a
    a, b = np.array([2.0, 3.0]), np.array([1.0, 5.0])
    for level in (0.7, 0.9):
        one, two = BetaLaw(a, b, -level), BetaLaw(b, a, level)
        u = np.array([0.2, 0.7])
        np.testing.assert_allclose(one.draw(u), -two.draw(1.0 - u), rtol=1e-9)


@pytest.mark.parametrize("draws", ["independent", "joint"])
def test_shared_bandit_is_curious_at_negative_levels(draws):
    bandit = SharedLinearBandit(dim=1, alpha=-0.9, noise_sd=1.0, intercept=False, draws=draws, rng=3)
    items = np.array([[1.0], [0.5], [2.0]])
    counts = np.zeros(3)
    for _ in range(2_000):
        counts[bandit.select(items).arm] += 1
    chances = bandit.propensities(items) if hasattr(bandit, "propensities") else None
    assert counts[2] > max(counts[0], counts[1])  # of what is less known more is hoped
    if draws == "independent" and chances is not None:
        agree(counts, chances)
    assert bandit.score(items)[2] == pytest.approx(float(cvar_normal(0.0, 2.0, -0.9)))


def test_laws_of_two_clipped_draws_sum_to_one():
    rng = np.random.default_rng(0)
    for n, weights in ((-4, (5 / 6, 1 / 6)), (-2, (0.7, 0.3)), (4, (5 / 6, 1 / 6))):
        law = score_law(n, weights, True)
        for _ in range(20):
            means, sds = rng.uniform(-0.5, 1.5, (1, 5)), 10.0 ** rng.uniform(-2, 1, (1, 5))
            each = [law.chance(means[0], sds[0], k) for k in range(5)]
            assert sum(each) == pytest.approx(1.0, abs=1e-8)


# -- settings ------------------------------------------------------------------------------------------------


def test_negative_levels_in_settings_scores_and_files(tmp_path):
    assert BanditSettings(-0.9).label == "BRPS(-0.9)"
    assert (BanditSettings(-0.9).n, BanditSettings(-0.9).signed_draws) == (10, -10)
    assert BanditSettings(-0.0) == BanditSettings(0.0)
    bandit = taught(-0.9, noise_sd=1.0)
    x = [0.5, 0.5]
    mean, sd = bandit.predict(x)
    np.testing.assert_allclose(bandit.score(x), mean + 1.7549833193248687 * sd, rtol=1e-12)
    np.testing.assert_allclose(bandit.score(x, alpha=0.9), mean - 1.7549833193248687 * sd, rtol=1e-12)
    fresh = LinearBandit(2, dim=1)
    assert (fresh.score([1.0], alpha=-0.5) == np.inf).all()
    assert (fresh.score([1.0], alpha=0.5) == -np.inf).all()
    bandit.save(tmp_path / "b.state")
    again = LinearBandit.load(tmp_path / "b.state")
    assert again.alpha == -0.9
    assert [again.select(x).arm for _ in range(50)] == [bandit.select(x).arm for _ in range(50)]
    repr(bandit.explain(x))


def test_schedules_in_bandits(tmp_path):
    rising = Decay(-0.9, half=5)
    assert [round(rising.at(t), 3) for t in (1, 6, 50)] == [-0.9, -0.5, 0.0]
    for schedule in (rising, Falling(0.9, scale=5), Falling(-0.9, scale=2)):
        bandit = taught(schedule, noise_sd=1.0)
        arms = []
        for t in range(1, 21):
            assert bandit.alpha == schedule.at(t)
            arms.append(bandit.select([0.5, 0.5]).arm)
            if t == 10:
                bandit.save(tmp_path / "s.state")
        again = LinearBandit.load(tmp_path / "s.state")
        assert again.settings == bandit.settings
        assert [again.select([0.5, 0.5]).arm for _ in range(10)] == arms[10:]
    own = taught(lambda t, visits: 0.9 if t < 5 else -0.5, noise_sd=1.0)
    assert own.alpha == 0.9
    for _ in range(5):
        own.select([0.5, 0.5])
    assert own.alpha == -0.5
    with refused(pr.errors.ParameterError, "not-savable"):
        own.save(tmp_path / "f.state")
    with refused(pr.errors.ParameterError, "conflicting-arguments", argument="alpha"):
        taught(Falling(0.9, 5, unseen=0.0))
    with refused(pr.errors.ParameterError, "alpha-range", argument="alpha"):
        taught(lambda t, visits: 2.0).select([0.5, 0.5])


def test_simulated_bandits_are_optimistic_too():
    runs = pr.simulation.simulate_bandit(
        pr.envs.gaussian_bandit(), [pr.bandits.brps_cmab(-0.8), pr.bandits.thompson_sampling()], horizon=200,
        replications=4,
        alphas=[-0.9, 0.0, 0.9], times=[200], threads=1,
    )  # fmt: skip
    assert np.isfinite(runs.br_regret).all()
    assert (runs.br_regret >= -1e-9).all()
    clipped = pr.simulation.simulate_bandit(
        pr.envs.bounded_bandit(), [pr.bandits.brps_cmab_clipped(-0.8)], horizon=100, replications=2, alphas=[-0.5, 0.5],
        times=[100], threads=1,
    )  # fmt: skip
    assert (clipped.br_regret >= -1e-9).all()
