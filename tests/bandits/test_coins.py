"""Clicks without context: Beta posteriors, exact chances, restarts."""

import numpy as np
import pytest
from _learned import learned
from refusals import refused
from scipy import integrate, stats

import prudent as pr


def coins(seed=1, **options):
    bandit = pr.LinearBandit(["a", "b", "c"], dim=0, rewards="bernoulli", rng=seed, **options)
    arms = ["a"] * 10 + ["b"] * 6 + ["c"] * 2
    return bandit.update(np.empty((18, 0)), arms, [1, 0] * 5 + [1, 1, 1, 0, 0, 0] + [1, 0])


def test_posteriors_are_beta():
    bandit = coins()
    assert bandit.posterior("a") == pr.posteriors.BetaPosterior(6.0, 6.0)
    law = stats.beta(4, 4)
    mean, sd = bandit.predict(arms=["b"], response=True)
    np.testing.assert_allclose([mean[0], sd[0]], [law.mean(), law.std()], rtol=1e-12)
    odds, spread = bandit.predict([[], []], ["b"])
    draws = [integrate.quad(lambda x, k=k: law.pdf(x) * np.log(x / (1 - x)) ** k, 0, 1)[0] for k in (1, 2)]
    np.testing.assert_allclose(odds[:, 0], draws[0], atol=1e-9)
    np.testing.assert_allclose(spread[:, 0], np.sqrt(draws[1] - draws[0] ** 2), rtol=1e-7)


def test_score_is_cvar_of_the_log_odds():
    bandit = coins()
    law = stats.beta(2, 2)
    for alpha in (0.5, 0.9):
        edge = law.ppf(1 - alpha)
        part = integrate.quad(lambda x: law.pdf(x) * np.log(x / (1 - x)), 0, edge, epsabs=1e-12)[0]
        np.testing.assert_allclose(bandit.score(arms=["c"], alpha=alpha), part / (1 - alpha), rtol=1e-7)
    np.testing.assert_allclose(bandit.score(alpha=0.0), bandit.predict()[0])


def test_two_arms_in_closed_form():
    """Beta(2, 1) beats Beta(1, 1) with the chance 2/3."""
    bandit = pr.LinearBandit(2, dim=0, rewards="bernoulli", alpha=0.0).update(None, 0, 1)
    np.testing.assert_allclose(bandit.propensities(), [2 / 3, 1 / 3], rtol=1e-9)
    np.testing.assert_allclose(bandit.select().propensities, [2 / 3, 1 / 3], rtol=1e-9)


@pytest.mark.parametrize("options", [{}, {"alpha": 0.7, "min_propensity": 0.1}, {"alpha": 0.0}])
def test_propensities_by_repeated_choices(options):
    """A chi-squared test at 1e-6, for a batch and for single decisions."""
    bandit = coins(**options)
    eligible = ["c", "a"]
    chances = bandit.propensities(None, eligible)
    batch = bandit.copy(stream=0).select(np.empty((20_000, 0)), eligible)
    np.testing.assert_allclose(batch.propensities[0], chances, rtol=1e-12)
    np.testing.assert_allclose(batch.propensity[0], chances[eligible.index(batch.arm[0])], rtol=1e-12)
    single = [bandit.select(None, eligible) for _ in range(2000)]
    assert single[0].propensity == pytest.approx(chances[eligible.index(single[0].arm)], rel=1e-12)
    for chosen in (batch.arm, np.array([decision.arm for decision in single])):
        counts = np.array([(chosen == arm).sum() for arm in eligible])
        assert stats.chisquare(counts, chances * counts.sum()).pvalue > 1e-6


def test_first_pulls_and_their_chances():
    bandit = pr.LinearBandit(3, dim=0, rewards="bernoulli", first_pulls=2, rng=3)
    batch = bandit.copy().select(np.empty((8, 0)))
    single = [bandit.select() for _ in range(8)]
    assert sorted(decision.arm for decision in single[:6]) == [0, 0, 1, 1, 2, 2]
    assert sorted(batch.arm[:6].tolist()) == [0, 0, 1, 1, 2, 2]
    assert single[0].propensity == pytest.approx(1 / 3)
    assert batch.propensity[0] == pytest.approx(1 / 3)
    np.testing.assert_allclose(single[7].propensities.sum(), 1.0)
    assert batch.score.shape == (8,)
    assert batch.mean.shape == batch.sd.shape == (8, 3)


def test_a_restart_goes_on_bit_for_bit(tmp_path):
    bandit = coins(half_life=40)
    bandit.save(tmp_path / "state")
    again = pr.LinearBandit.load(tmp_path / "state")
    for one in (bandit, again):
        one.scores = [one.update(None, one.select().arm, t % 2).select().score for t in range(100)]
    assert bandit.scores == again.scores
    assert bandit.to_bytes() == again.to_bytes()


def test_forgetting_merging_refitting():
    base = coins()
    faded = base.copy().forget(0.5).posterior("a")
    assert faded == pr.posteriors.BetaPosterior(3.5, 3.5)
    other = base.copy(stream=1).update(None, "c", 1).update(None, "c", 1)
    assert base.copy().merge(other, since=base).posterior("c") == pr.posteriors.BetaPosterior(4.0, 2.0)
    log = [([], "a", 1), ([], "b", 0), ([], "a", 1)]
    again = base.copy().refit(log)
    assert again.posterior("a") == pr.posteriors.BetaPosterior(3.0, 1.0)
    assert again.pulls == {"a": 2, "b": 1, "c": 0}
    assert pr.LinearBandit.from_log(log, rewards="bernoulli").posterior("b") == pr.posteriors.BetaPosterior(1.0, 2.0)


def test_a_journal(tmp_path):
    with pr.Journal(tmp_path / "journal", coins()) as live:
        for t in range(20):
            assert live.reward(live.select([]).id, t % 2) == "ok"
        state = learned(live.bandit)
        live.verify()
    with pr.Journal(tmp_path / "journal") as live:
        assert learned(live.bandit) == state


def test_what_is_refused():
    with refused(pr.errors.ParameterError, "conflicting-arguments", argument="like"):
        coins().add_arm("d", like=["a"])
    with refused(pr.errors.ParameterError, "conflicting-arguments", argument="draws"):
        coins(settings=pr.bandits.brps_cmab(0.5, draws=7))
    with refused(pr.errors.DataError, "wrong-shape", argument="context"):
        coins().select([1.0])
    with refused(pr.errors.DataError, "wrong-reward", argument="reward"):
        coins().update(None, "a", 2)
    assert coins().add_arm("d").posterior("d") == pr.posteriors.BetaPosterior(1.0, 1.0)
    assert coins().remove_arm("a").arms == ("b", "c")
    laplace = coins(prior_precision=1.0)
    assert isinstance(laplace.posterior("a"), pr.posteriors.LogisticPosterior)


def test_it_explains_itself():
    why = coins().explain()
    assert "chance of a 1" in repr(why)
    assert why.to_pandas().index.tolist() == ["intercept"]
    assert coins().to_xarray().sizes["arm"] == 3
    assert coins().plot().axes


def test_forged_files():
    meta, arrays = coins().state()
    for name, change in {"gram": 0.5, "weights": 1.0}.items():
        forged = {key: value.copy() for key, value in arrays.items()} | {name: arrays[name] + change}
        with pytest.raises((ValueError, pr.errors.PrudentError)):
            pr.LinearBandit._restored(meta, forged)
    for kind in ("given", "learned", None):
        with pytest.raises((ValueError, KeyError, pr.errors.PrudentError)):
            pr.LinearBandit._restored(
                {**meta, "belief": {**meta["belief"], "prior": kind}},
                {key: value.copy() for key, value in arrays.items()},
            )
