"""Clicks and counts in LinearBandit: exact chances, restarts, the Laplace posteriors, the learned prior."""

import copy
import math
import threading

import numpy as np
import pytest
from _learned import learned
from refusals import refused
from scipy import stats
from scipy.special import expit

import prudent as pr
from prudent._numerics.glm import mean_odds, sd_odds
from prudent.bandits.belief.glm import until_next
from prudent.bandits.kernels.layout import put_sums

ARMS, DIM = 4, 3
KINDS = {"bernoulli": pr.posteriors.LogisticPosterior, "poisson": pr.posteriors.PoissonPosterior}


def played(kind, rows=400, seed=1, **options):
    """Return a bandit that has learned from random rows, and the rows."""
    rng = np.random.default_rng(seed)
    bandit = pr.LinearBandit(ARMS, DIM, rewards=kind, rng=seed, **options)
    contexts, arms = rng.standard_normal((rows, DIM)), rng.integers(ARMS, size=rows)
    scores = -1.0 + 0.3 * arms + 0.5 * contexts[:, 0] * (arms - 1.5)
    rewards = (rng.random(rows) < expit(scores)).astype(float) if kind == "bernoulli" else rng.poisson(np.exp(scores))
    return bandit, contexts, arms, np.asarray(rewards, dtype=float)


@pytest.mark.parametrize("kind", KINDS)
def test_with_a_given_prior_it_is_the_laplace_posterior(kind):
    bandit, contexts, arms, rewards = played(kind, prior_precision=2.0, intercept=False)
    bandit.update(contexts, arms, rewards)
    for arm in range(ARMS):
        mine = arms == arm
        alone = KINDS[kind](DIM, 2.0).update(contexts[mine], rewards[mine])
        np.testing.assert_allclose(bandit.posterior(arm).mean(), alone.mean(), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(bandit.posterior(arm).covariance(), alone.covariance(), rtol=1e-9)
        mean, sd = bandit.predict(contexts[:5], [arm])
        np.testing.assert_allclose(np.stack([mean[:, 0], sd[:, 0]]), alone.predict(contexts[:5]), rtol=1e-9)
        chance, _ = bandit.predict(contexts[:5], [arm], response=True)
        np.testing.assert_allclose(chance[:, 0], alone.reward(contexts[:5]), rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prior", [None, 2.0])
def test_rows_are_learned_like_single_rewards(kind, prior):
    batch, contexts, arms, rewards = played(kind, prior_precision=prior)
    single = batch.copy()
    batch.update(contexts, arms, rewards)
    for point, arm, reward in zip(contexts, arms, rewards, strict=True):
        single.update(point, int(arm), reward)
    assert batch.to_bytes() == single.to_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_refit_finds_the_mode_under_the_learned_prior(kind):
    """The mode solves P (theta - m) = sum s (y - mu): with what the posterior itself says of its prior."""
    bandit, contexts, arms, rewards = played(kind, rows=2000)
    log = {"context": contexts, "arm": arms, "reward": rewards}
    bandit.update(contexts[:100], arms[:100], rewards[:100]).refit(log)
    assert bandit.pulls == dict(enumerate(np.bincount(arms).tolist()))
    link = expit if kind == "bernoulli" else np.exp
    for arm in range(ARMS):
        posterior, mine = bandit.posterior(arm), arms == arm
        design = np.column_stack([np.ones(mine.sum()), contexts[mine]])
        mode = posterior.mean()
        mu = link(design @ mode)
        slope = posterior.prior @ (mode - posterior.prior_mean) - design.T @ (rewards[mine] - mu)
        assert np.abs(slope).max() < 1e-4  # the prior was learned once more, by less than a millionth
        curve = mu * (1.0 - mu) if kind == "bernoulli" else mu
        precision = posterior.prior + design.T @ (curve[:, None] * design)
        np.testing.assert_allclose(posterior.precision, precision, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_refit_under_a_given_prior_is_exact(kind):
    bandit, contexts, arms, rewards = played(kind, prior_precision=1.5, intercept=False)
    weights = np.random.default_rng(2).random(len(arms))
    bandit.refit(list(zip(contexts.tolist(), arms.tolist(), rewards.tolist(), strict=True)), weights=weights)
    for arm in range(ARMS):
        mine = arms == arm
        exact = KINDS[kind](DIM, 1.5).refit(contexts[mine], rewards[mine], weights=weights[mine])
        np.testing.assert_allclose(bandit.posterior(arm).mean(), exact.mean(), rtol=1e-9, atol=1e-12)


def test_online_learning_stays_close_to_the_mode():
    """Clicks of 1 to 5 percent: within one sd of the exact mode, and sds within a quarter, though the prior moves."""
    env = pr.envs.logistic_bandit(3, 6, (0.01, 0.05))
    rng = np.random.default_rng(3)
    contexts, arms = rng.standard_normal((6000, 6)), rng.integers(3, size=6000)
    rewards = np.array([env.reward(1, s, a, rng) for s, a in zip(contexts, arms, strict=True)])
    bandit = pr.LinearBandit(3, 6, rewards="bernoulli").update(contexts, arms, rewards)
    exact = bandit.copy().refit({"context": contexts, "arm": arms, "reward": rewards})
    for arm in range(3):
        one, two = bandit.posterior(arm), exact.posterior(arm)
        assert (np.abs(one.mean() - two.mean()) < np.sqrt(two.variance())).all()
        ratio = np.sqrt(one.variance() / two.variance())
        assert ((ratio > 0.75) & (ratio < 1.25)).all()


def test_the_learned_prior_finds_level_and_sizes():
    """Arms drawn from a prior: learned from 60,000 rewards, sds are within 25 percent, 5 sds of their estimates."""
    rng = np.random.default_rng(4)
    arms, dim, level, own, slope = 40, 10, -1.0, 0.7, 0.2
    theta = np.column_stack([level + own * rng.standard_normal(arms), slope * rng.standard_normal((arms, dim))])
    contexts, pulled = rng.standard_normal((60_000, dim)), rng.integers(arms, size=60_000)
    scores = theta[pulled, 0] + (contexts * theta[pulled, 1:]).sum(axis=1)
    rewards = (rng.random(60_000) < expit(scores)).astype(float)
    prior = pr.LinearBandit(arms, dim, rewards="bernoulli").update(contexts, pulled, rewards).posterior(0)
    sds = np.diagonal(prior.prior) ** -0.5
    assert abs(prior.prior_mean[0] - level) < 5.5 * own / math.sqrt(arms)
    assert abs(math.log(sds[0] / own)) < 5.5 / math.sqrt(2 * arms)
    assert abs(math.log(sds[1] / slope)) < 5.5 / math.sqrt(2 * arms * dim) + 0.05
    assert not prior.prior_mean[1:].any()
    assert len(set(sds[1:].tolist())) == 1


@pytest.mark.parametrize("options", [{}, {"alpha": 0.7}, {"alpha": 0.0, "min_propensity": 0.05, "first_pulls": 3}])
def test_propensities_by_repeated_choices(options):
    """A chi-squared test at 1e-6, for a batch and for single decisions."""
    bandit, contexts, arms, rewards = played("bernoulli", rows=60, **options)
    bandit.update(contexts, arms, rewards)
    point, eligible = contexts[0], [0, 2, 3]
    chances = bandit.propensities(point, eligible)
    assert abs(chances.sum() - 1.0) < 1e-9
    batch = bandit.copy(stream=0).select(np.tile(point, (20_000, 1)), eligible)
    np.testing.assert_allclose(batch.propensities[:2], [chances, chances], rtol=1e-6)
    single = [bandit.select(point, eligible) for _ in range(4000)]
    np.testing.assert_allclose(single[0].propensities, chances, rtol=1e-6, atol=1e-12)
    for chosen in (batch.arm, np.array([decision.arm for decision in single])):
        counts = np.array([(chosen == arm).sum() for arm in eligible])
        assert stats.chisquare(counts, chances * counts.sum()).pvalue > 1e-6


def test_first_pulls_come_first():
    bandit = pr.LinearBandit(3, 1, rewards="bernoulli", first_pulls=2, rng=1)
    chosen = [bandit.select([1.0]).arm for _ in range(6)]
    assert sorted(chosen) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"prior_precision": 3.0}, {"half_life": 50}, {"intercept": False}])
def test_a_restart_goes_on_bit_for_bit(kind, options, tmp_path):
    bandit, contexts, arms, rewards = played(kind, **options)
    bandit.update(contexts[:100], arms[:100], rewards[:100]).add_arm("new", like=[0, 1]).add_arm("other")
    bandit.save(tmp_path / "state")
    again = pr.LinearBandit.load(tmp_path / "state")
    for one in (bandit, again):
        one.chosen = []
        for t in range(100, 220):
            decision = one.select(contexts[t])
            one.chosen.append((decision.arm, decision.score))
            one.update(contexts[t], decision.arm, rewards[t])
    assert bandit.chosen == again.chosen
    assert bandit.to_bytes() == again.to_bytes()
    assert copy.copy(bandit).to_bytes() == bandit.to_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_forgetting(kind):
    """As if every reward had counted a quarter from the first: close to the mode of such a log."""
    bandit, contexts, arms, rewards = played(kind, prior_precision=2.0)
    log = {"context": contexts, "arm": arms, "reward": rewards}
    faded = bandit.refit(log).forget(0.25).copy()
    exact = bandit.copy().refit(log, weights=np.full(len(arms), 0.25))
    for arm in range(ARMS):
        one, two = faded.posterior(arm), exact.posterior(arm)
        assert (np.abs(one.mean() - two.mean()) < 0.2 * np.sqrt(two.variance())).all()
        np.testing.assert_allclose(np.sqrt(one.variance() / two.variance()), 1.0, atol=0.1)
    mean, sd = bandit.forget(0.0).predict(contexts[:3])
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)
    np.testing.assert_allclose(sd[:, 0] ** 2, (1.0 + (contexts[:3] ** 2).sum(axis=1)) / 2.0, rtol=1e-9)


def test_forgetting_is_exact_in_one_context():
    """Thousand zeros and three ones in one context: the mode and the precision of half of them, to 1e-6."""
    clicks = [1.0] * 3 + [0.0] * 1000
    bandit = pr.LinearBandit(1, 0, rewards="bernoulli", prior_precision=1.0)
    bandit.update(np.empty((1003, 0)), [0] * 1003, clicks).forget(0.5)
    exact = pr.posteriors.LogisticPosterior(1).refit(np.ones((1003, 1)), clicks, weights=np.full(1003, 0.5))
    np.testing.assert_allclose(bandit.posterior(0).mean(), exact.mean(), rtol=1e-3)
    np.testing.assert_allclose(bandit.posterior(0).variance(), exact.variance(), rtol=2e-3)


@pytest.mark.parametrize("rate", [0.0, 1e-4, 0.9999])
def test_hardly_any_clicks_or_hardly_anything_else(rate):
    """The level goes as far as that of the whole log, within an sd."""
    rng = np.random.default_rng(8)
    contexts, arms = rng.standard_normal((20_000, 4)), rng.integers(3, size=20_000)
    rewards = (rng.random(20_000) < rate).astype(float)
    bandit = pr.LinearBandit(3, 4, rewards="bernoulli").update(contexts, arms, rewards)
    exact = bandit.copy().refit({"context": contexts, "arm": arms, "reward": rewards})
    for arm in range(3):
        one, two = bandit.posterior(arm), exact.posterior(arm)
        assert abs(one.mean()[0] - two.mean()[0]) < np.sqrt(two.variance()[0])
        assert 0.6 < np.sqrt(one.variance()[0] / two.variance()[0]) < 1.4


@pytest.mark.parametrize("factor", [2.0**-10, 2.0**10])
def test_the_unit_of_features_hardly_matters(factor):
    bandit, contexts, arms, rewards = played("bernoulli", rows=3000)
    other = bandit.copy().update(factor * contexts, arms, rewards)
    mean, sd = bandit.update(contexts, arms, rewards).predict(contexts[:20])
    again, spread = other.predict(factor * contexts[:20])
    assert (np.abs(again - mean) < 1.0 * sd).all()
    assert ((spread / sd > 0.7) & (spread / sd < 1.4)).all()


def test_late_rewards_count_less():
    """A reward that is one half-life old, and half a weight by hand."""
    import datetime as dt

    bandit = pr.LinearBandit(1, 1, rewards="bernoulli", prior_precision=1.0, half_life=dt.timedelta(hours=1))
    bandit.update([1.0], 0, 1, time=3600.0 * 32).update([2.0], 0, 1, time=3600.0 * 31)
    plain = pr.LinearBandit(1, 1, rewards="bernoulli", prior_precision=1.0)
    log = {"context": [[1.0], [2.0]], "arm": [0, 0], "reward": [1, 1]}
    exact = plain.refit(log, weights=[1.0, 0.5]).posterior(0).mean()
    assert np.abs(bandit.posterior(0).mean() - exact).max() < 0.05
    assert np.abs(plain.refit(log).posterior(0).mean() - exact).max() > 0.05


def test_merging_adds_the_evidence():
    base, contexts, arms, rewards = played("bernoulli", rows=1200)
    base.update(contexts[:400], arms[:400], rewards[:400])
    one, two = base.copy(stream=0), base.copy(stream=1)
    one.update(contexts[400:800], arms[400:800], rewards[400:800])
    two.update(contexts[800:], arms[800:], rewards[800:]).add_arm("new").update(contexts[0], "new", 1)
    one.merge(two, since=base)
    whole = base.copy().update(contexts[400:], arms[400:], rewards[400:])
    assert one.pulls == {**whole.pulls, "new": 1}
    for arm in range(ARMS):
        merged, learned = one.posterior(arm), whole.posterior(arm)
        assert (np.abs(merged.mean() - learned.mean()) < 0.5 * np.sqrt(learned.variance())).all()
        np.testing.assert_allclose(np.sqrt(merged.variance() / learned.variance()), 1.0, atol=0.25)
    other = pr.LinearBandit(ARMS, DIM, rewards="poisson")
    with refused(pr.errors.ParameterError, "different-settings", argument="other"):
        one.merge(other, since=None)


def test_sums_that_take_too_much_are_mended():
    """A direction that would cost the whole prior says nothing afterwards, and the mean stays."""
    bandit = pr.LinearBandit(1, 2, rewards="bernoulli", prior_precision=1.0, intercept=False).update([1.0, 0.5], 0, 1)
    arms = bandit.belief.table
    mean = arms.mean[0].copy()
    sums = np.zeros((2, 3, 3))
    sums[0, :2, :2] = [[5.0, 0.0], [0.0, -0.9]]
    sums[0, 2, :2] = mean + sums[0, :2, :2] @ mean  # of the same mean
    put_sums(arms, 0, sums)
    bandit.belief._solve()
    np.testing.assert_allclose(bandit.posterior(0).precision, np.diag([6.0, 1.0]), atol=1e-12)
    np.testing.assert_allclose(bandit.posterior(0).mean(), mean, rtol=1e-12)


def test_a_journal_of_clicks(tmp_path):
    path = tmp_path / "journal"
    rng = np.random.default_rng(5)
    with pr.Journal(path, pr.LinearBandit(["a", "b"], 2, rewards="bernoulli", rng=2), snapshot_every=60) as live:
        for _ in range(50):
            decision = live.select(rng.standard_normal(2))
            live.reward(decision.id, float(rng.random() < 0.3))
        with refused(pr.errors.DataError, "wrong-reward", argument="reward"):
            live.reward(live.select([1.0, 2.0]).id, 0.5)
        with refused(pr.errors.DataError, "wrong-reward", argument="reward"):
            live.reward([decision.id, decision.id], [1, 2])
        state = learned(live.bandit)
        live.verify()
    with pr.Journal(path) as live:
        assert learned(live.bandit) == state


def test_threads_lose_nothing():
    bandit, contexts, arms, rewards = played("bernoulli", rows=200, prior_precision=1.0)

    def work():
        for t in range(200):
            bandit.select(contexts[t])
            bandit.update(contexts[t], int(arms[t]), rewards[t])

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert bandit.decisions == 800
    assert sum(bandit.pulls.values()) == 800


def test_chances_and_rates():
    """Against plain quadrature."""
    mean, sd = np.array([-3.0, 0.5, -8.0, 2.0]), np.array([0.3, 0.9, 2.5, 30.0])
    z = np.linspace(-12.0, 12.0, 400_001)
    density = stats.norm.pdf(z) * (z[1] - z[0])
    chances = expit(mean[:, None] + sd[:, None] * z)
    centre = chances @ density
    np.testing.assert_allclose(mean_odds(mean, sd), centre, rtol=1e-9)
    np.testing.assert_allclose(sd_odds(mean, sd), np.sqrt(((chances - centre[:, None]) ** 2) @ density), rtol=1e-8)
    bandit = pr.LinearBandit(1, 1, rewards="poisson", prior_precision=4.0, intercept=False)
    rate, spread = bandit.predict([1.0], response=True)
    law = stats.lognorm(0.5)
    np.testing.assert_allclose([rate[0], spread[0]], [law.mean(), law.std()], rtol=1e-12)


def test_without_context():
    bandit = pr.LinearBandit(["a", "b"], dim=0, rewards="poisson", rng=1)
    for _ in range(30):
        decision = bandit.select()
        bandit.update(None, decision.arm, 3 if decision.arm == "a" else 1)
    assert bandit.propensities().argmax() == 0
    plain = pr.LinearBandit(2, dim=0, rng=1).update(np.empty((4, 0)), [0, 0, 1, 1], [1.0, 2.0, 5.0, 6.0])
    assert plain.predict([])[0][1] > plain.predict(None)[0][0]
    with refused(pr.errors.ParameterError, "integer-range", argument="dim"):
        pr.LinearBandit(2, dim=0, intercept=False)


@pytest.mark.parametrize(
    ("kind", "reward", "said"),
    [
        ("bernoulli", 0.5, "reward is 0.5, expected 0 or 1"),
        ("bernoulli", -1, "reward is -1, expected 0 or 1"),
        ("bernoulli", math.nan, "finite"),
        ("poisson", 1.5, "reward is 1.5, expected a count"),
        ("poisson", -2, "reward is -2, expected a count"),
        ("poisson", math.inf, "finite"),
        ("poisson", 1e17, "expected a count"),
    ],
)
def test_rewards_that_cannot_be(kind, reward, said):
    bandit = pr.LinearBandit(2, 1, rewards=kind, rng=1)
    before = bandit.to_bytes()
    with pytest.raises(pr.errors.DataError, match=said):
        bandit.update([1.0], 0, reward)
    with pytest.raises(pr.errors.DataError, match=r"reward\[1\]"):
        bandit.update([[1.0], [1.0]], [0, 1], [1, reward])
    with pytest.raises(pr.errors.DataError, match=r"reward\[1\]"):
        bandit.refit([([1.0], 0, 1), ([1.0], 0, reward)])
    assert bandit.to_bytes() == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"noise_sd": 1.0}, "noise_sd does not go with"),
        ({"noise": "by arm"}, "noise does not go with"),
        ({"rewards": "binary"}, "rewards must be one of"),
        ({"rewards": 3}, "rewards must be one of"),
        ({"settings": pr.bandits.brps_cmab_clipped(0.5)}, "clip does not go with"),
    ],
)
def test_options_that_do_not_go_together(options, said):
    with pytest.raises(pr.errors.ParameterError, match=said):
        pr.LinearBandit(2, 1, **{"rewards": "bernoulli", **options})


def test_a_context_too_large_for_the_sums_leaves_nothing_behind():
    bandit = pr.LinearBandit(1, 1, rewards="bernoulli", rng=1)
    before = bandit.to_bytes()
    with refused(pr.errors.DataError, "too-large", argument="context"):
        bandit.update([[1.0], [1e100]], [0, 0], [1, 0])
    with refused(pr.errors.DataError, "too-large", argument="context"):
        bandit.update([1e100], 0, 0)
    assert bandit.to_bytes() == before


def test_only_clicks_are_refitted():
    with refused(pr.errors.ParameterError, "refit-exact"):
        pr.LinearBandit(1, 1).refit([([1.0], 0, 1.0)])


def test_a_wrong_scale_is_noticed():
    rng = np.random.default_rng(6)
    bandit = pr.LinearBandit(1, 2, rewards="bernoulli")
    bandit.update(rng.standard_normal((60, 2)) * [1.0, 1e-3], [0] * 60, rng.integers(2, size=60))
    assert [finding.kind for finding in bandit.check()] == ["scales"]


def test_the_prior_is_learned_ever_more_rarely():
    times = [count for count in range(1, 2000) if until_next(count - 1, 5) == 1]
    assert times[:5] == [16, 20, 25, 31, 38]
    ratios = np.diff(times) / times[:-1]
    assert ((ratios > 0.2) & (ratios < 0.26)).all()


def test_state_files_that_were_forged():
    bandit, contexts, arms, rewards = played("bernoulli", rows=50)
    meta, arrays = bandit.update(contexts, arms, rewards).state()
    for name, change in {
        "root": lambda a: a * 1.1,
        "mean": lambda a: a + 0.1,
        "gram": lambda a: a + 1.0,
        "prior_mean": lambda a: a + 1.0,
        "prior_precision": lambda a: -a,
    }.items():
        with pytest.raises((ValueError, pr.errors.PrudentError)):
            pr.LinearBandit._restored(meta, {**{k: v.copy() for k, v in arrays.items()}, name: change(arrays[name])})
    for kind in ("poisson?", None, "gaussian"):
        with pytest.raises((ValueError, KeyError, pr.errors.PrudentError)):
            pr.LinearBandit._restored(
                {**meta, "belief": {**meta["belief"], "rewards": kind}}, {k: v.copy() for k, v in arrays.items()}
            )
    with pytest.raises(ValueError, match="prior is"):
        pr.LinearBandit._restored(
            {**meta, "belief": {**meta["belief"], "prior": "other"}}, {k: v.copy() for k, v in arrays.items()}
        )


@pytest.mark.parametrize("kind", KINDS.values())
def test_posteriors_of_clicks_are_saved(kind, tmp_path):
    rng = np.random.default_rng(7)
    posterior = kind(2).update(rng.standard_normal((30, 2)), rng.integers(2, size=30))
    posterior.save(tmp_path / "state")
    assert kind.load(tmp_path / "state") == posterior
    bandit = pr.LinearBandit(1, 2, rewards="bernoulli").update(rng.standard_normal((30, 2)), [0] * 30, [0, 1, 1] * 10)
    learned = bandit.posterior(0)
    learned.save(tmp_path / "learned")
    loaded = pr.posteriors.LogisticPosterior.load(tmp_path / "learned")  # solved anew from its sums
    np.testing.assert_allclose(loaded.mean(), learned.mean(), rtol=1e-13)


def test_a_normal_posterior_with_a_prior_mean_is_saved(tmp_path):
    bandit = pr.LinearBandit(1, 1).update([[1.0], [2.0]], [0, 0], [5.0, 7.0])
    bandit.posterior(0).save(tmp_path / "state")
    assert pr.posteriors.LinearGaussianPosterior.load(tmp_path / "state") == bandit.posterior(0)
