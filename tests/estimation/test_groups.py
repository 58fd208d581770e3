"""Several groups in one log, and priors from another log: closed forms, limits and a simulation."""

import numpy as np
import pandas as pd
import pytest
from refusals import refused
from scipy import stats

import prudent as pr
from prudent.errors import DataError, ParameterError
from prudent.estimation.groups import learn_similarity, log_evidence, pooled_priors


def sites(rng, alike, sizes=(200, 30, 400), S=4, A=2):
    """Return a log of sites whose rows are drawn around common ones; ``alike`` is the true similarity."""
    common, rows = rng.dirichlet(np.ones(S), (S, A)), []
    for site, size in zip("abcdefgh", sizes, strict=False):
        theta = common if alike == np.inf else rng.gamma(np.maximum(alike * common, 1e-3))
        theta = theta / theta.sum(axis=-1, keepdims=True)
        state = rng.integers(0, S, size)
        action = rng.integers(0, A, size)
        following = [rng.choice(S, p=theta[s, a]) for s, a in zip(state, action, strict=True)]
        rows.append(pd.DataFrame({"site": site, "state": state, "action": action, "next_state": following}))
    log = pd.concat(rows, ignore_index=True)
    return log.assign(reward=(log["next_state"] == 0).astype(float))


def test_evidence_is_that_of_dirichlet_multinomials(rng):
    """Against SciPy's law of the counts of a pair, which has a multinomial coefficient more."""
    pair = np.repeat([0, 1, 2], [3, 2, 4])
    base, counts = rng.random(9) + 0.1, rng.integers(0, 9, (3, 9)).astype(float)
    for kappa in (0.0, 0.7, 12.0, np.inf):
        priors = pooled_priors(counts, pair, base, kappa)
        total = 0.0
        for g in range(3):
            for p in range(3):
                n, alpha = counts[g, pair == p], priors[g, pair == p]
                law = stats.dirichlet_multinomial(alpha, int(n.sum()))
                ways = stats.multinomial(int(n.sum()), np.full(n.size, 1 / n.size)).logpmf(n) + n.sum() * np.log(n.size)
                total += law.logpmf(n.astype(int)) - ways
        assert log_evidence(counts, pair, base, kappa) == pytest.approx(total, rel=1e-9)


def test_outcomes_that_nobody_saw_count_as_one(rng):
    pair = np.repeat([0, 1, 2], 6)
    base, counts = rng.random(18) + 0.1, rng.integers(0, 2, (3, 18)) * rng.integers(1, 9, (3, 18)).astype(float)
    counts[:, rng.random(18) < 0.4] = 0.0
    found = learn_similarity(tuple("abc"), counts, pair, base)
    direct = [log_evidence(counts, pair, base, kappa) for kappa in found.grid]
    np.testing.assert_allclose(found.evidence, direct, rtol=1e-10)
    top = log_evidence(counts, pair, base, found.similarity)
    assert top >= max(direct) - 1e-9
    assert top - direct[0] == pytest.approx(found.evidence_over_apart, abs=1e-9)


def test_priors_go_from_apart_to_one(rng):
    pair = np.repeat([0, 1], 3)
    base, counts = np.full(6, 0.3), rng.integers(0, 50, (3, 6)).astype(float)
    np.testing.assert_array_equal(pooled_priors(counts, pair, base, 0.0), np.tile(base, (3, 1)))
    others = counts.sum(axis=0) - counts
    np.testing.assert_allclose(pooled_priors(counts, pair, base, np.inf), base + others)
    np.testing.assert_allclose(pooled_priors(counts, pair, base, 1e12), base + others, rtol=1e-6)
    for kappa in (0.1, 3.0, 100.0):
        borrowed = pooled_priors(counts, pair, base, kappa) - base
        masses = np.stack([borrowed[:, pair == p].sum(axis=1) for p in (0, 1)])
        assert (masses <= kappa + 1e-9).all()
        assert (borrowed <= others + 1e-9).all()
    # two sites: N observations elsewhere are worth the half of N and kappa, in series
    two = pooled_priors(counts[:2], pair, base, 8.0)[0] - base
    n = counts[1, pair == 0].sum()
    discounted = n * 8 / (8 + n)
    assert two[pair == 0].sum() == pytest.approx(discounted * 8 / (8 + discounted))


def test_similarity_is_learned(rng):
    found = []
    for alike in (2.0, 20.0, np.inf):
        log = sites(rng, alike, sizes=(600,) * 6)
        model, posteriors = pr.from_log(log, 0.9, group="site")
        found.append(model.summary.pooling.similarity)
        assert list(posteriors) == list("abcdef")
    assert found[0] < found[1] < found[2]
    assert 0.5 < found[0] < 8
    assert found[2] > 100


def test_a_group_has_its_own_data_and_the_model_of_all(rng):
    log = sites(rng, 5.0)
    log = log[~((log["site"] == "b") & (log["action"] == 1))]  # never tried there
    model, posteriors = pr.from_log(log, 0.9, group="site")
    whole, pooled = pr.from_log(log.drop(columns="site"), 0.9)
    assert model.states == whole.states
    assert (model.admissible == whole.admissible).all()
    assert (model.source[:, 1] >= 0).all()  # admissible by what others saw
    own = {site: posterior.counts - posterior.prior for site, posterior in posteriors.items()}
    np.testing.assert_allclose(sum(own.values()), pooled.counts - pooled.prior, atol=1e-9)
    for site, part in log.groupby("site"):
        assert own[site].sum() == pytest.approx(len(part))
        assert (posteriors[site].prior >= pooled.prior - 1e-12).all()
    assert own["b"][model.source[:, 1]].sum() == pytest.approx(0.0, abs=1e-9)
    assert posteriors["b"].prior[model.source[:, 1]].sum() > pooled.prior[model.source[:, 1]].sum()
    pooling = model.summary.pooling
    assert pooling.observations == (200, len(log[log["site"] == "b"]), 400)
    assert "groups" in str(model.summary)
    assert 0 < min(pooling.weights) <= max(pooling.weights) < 1
    assert pooling.evidence_over_apart >= 0
    assert pooling.evidence_over_pooled >= 0
    policy = pr.planning.log_policy(model, posteriors["b"])
    assert (policy[:, 1] == 0).all()  # of this site, which never took it
    solution = pr.BayesianRiskMDP(model, posteriors["b"], 0.5).solve(baseline="log", min_visits=3)
    assert (solution.policy[:, 1] == 0).all()


def test_a_prior_comes_from_another_log(rng):
    log = sites(rng, 10.0, sizes=(40, 500))
    this, other = (log[log["site"] == site].drop(columns="site") for site in "ab")
    model, posterior = pr.from_log(this, 0.9, prior_from=other)
    grouped, posteriors = pr.from_log(log, 0.9, group="site")
    assert (posterior.counts - posterior.prior).sum() == pytest.approx(40)
    assert model.summary.rows == 40
    assert model.summary.used == 40
    kappa = model.summary.pooling.similarity
    counts = np.stack([p.counts - p.prior for p in posteriors.values()])  # [2, B, K]
    pair = np.repeat(np.arange(counts.shape[1]), counts.shape[2])
    base = pr.from_log(log.drop(columns="site"), 0.9)[1].prior
    flat = counts.reshape(2, -1), pair, base.reshape(-1)
    np.testing.assert_allclose(pooled_priors(*flat, kappa, range(1))[0], posterior.prior.reshape(-1), atol=1e-9)
    again = learn_similarity(("a", "b"), flat[0][:, flat[2] > 0], pair[flat[2] > 0], base[base > 0], range(1))
    assert kappa == pytest.approx(again.similarity)
    assert model.states == grouped.states


def test_two_logs_share_names_and_ends():
    """A state, an action or an end that only one log has."""
    this = [("ill", "wait", "ill", 0), ("ill", "wait", "well", 1)]
    other = [("ill", "drug", "dead", 0), ("ill", "wait", "well", 1), ("weak", "wait", "ill", 0)]
    model, posterior = pr.from_log(this, 0.9, prior_from=other, terminal=["well", "dead"])
    assert model.states == ("dead", "ill", "weak", "well")
    assert model.actions == ("drug", "wait")
    assert (posterior.counts - posterior.prior).sum() == pytest.approx(2)


def test_wrong_groups_are_refused():
    log = pd.DataFrame({"site": ["a", "b", "a"], "state": [0, 1, 0], "action": 0, "next_state": [1, 0, 1]})
    with refused(DataError, "missing-column"):
        pr.from_log(log, 0.9, group="hospital")
    with refused(DataError, "missing-column", argument="group"):
        pr.from_log([(0, 0, 0)], 0.9, group="site")
    with refused(DataError, "one-group", argument="group", value="a"):
        pr.from_log(log.assign(site="a"), 0.9, group="site")
    with refused(DataError, "missing-value", column="group", row=1):
        pr.from_log(log.assign(site=["a", None, "b"]), 0.9, group="site")
    with refused(ParameterError, "conflicting-arguments", argument="prior_from"):
        pr.from_log(log, 0.9, group="site", prior_from=log)
    with refused(DataError, "missing-column", argument="prior_from"):
        pr.from_log(log, 0.9, prior_from=log.assign(reward=1.0))
    with refused(DataError, "no-file", argument="prior_from"):
        pr.from_log(log, 0.9, prior_from="nowhere.csv")


def test_intervals_cover_where_one_fit_for_all_does_not(rng):
    """90% intervals of the mean of a row at sites that differ.

    Of 480 intervals (not independent: 48 logs of 10) with a true coverage of 0.85, fewer than 0.72 are covered with a
    probability far below 1e-6 even if only 100 of them were independent.
    """
    pair, base, v = np.repeat(np.arange(10), 3), np.full(30, 1 / 3), np.array([0.0, 0.5, 1.0])
    hits = {"alike": [], "one": []}
    for _ in range(48):
        mu = rng.dirichlet(np.ones(3), 10)
        theta = np.stack([[rng.dirichlet(8 * row + 1e-3) for row in mu] for _ in range(4)])
        sizes = rng.integers(2, 40, (4, 10))
        counts = np.array(
            [[rng.multinomial(n, t) for n, t in zip(*part, strict=True)] for part in zip(sizes, theta, strict=False)]
        )
        counts = counts.reshape(4, 30).astype(float)
        kappa = learn_similarity(tuple("abcd"), counts, pair, base).similarity
        for name, similarity in (("alike", kappa), ("one", np.inf)):
            after = (pooled_priors(counts, pair, base, similarity) + counts)[0].reshape(10, 3)
            for row, truth in zip(after, theta[0] @ v, strict=True):
                low, high = np.quantile(rng.dirichlet(row, 300) @ v, [0.05, 0.95])
                hits[name].append(low <= truth <= high)
    assert np.mean(hits["alike"]) > 0.72 > 0.65 > np.mean(hits["one"])
