"""The weak-convergence theorem: closed forms, and simulated exact values at large N."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from refusals import refused
from scipy import stats

import prudent as pr
from prudent.envs.frozen_lake import frozen_lake
from prudent.envs.random_model import random_model
from prudent.errors import ModelError, ParameterError
from prudent.theory import limit_law, stationary_distribution

LEVELS = (0.0, 0.5, 0.9, 0.99)


class Study:
    """A known model, its optimal policy, and simulated Bayesian-risk values under direct parametrisation."""

    def __init__(self, mdp):
        self.mdp, self.S = mdp, mdp.n_states
        self.policy = pr.solve(mdp, tol=1e-12).policy
        self.chain = mdp.dense()[np.arange(self.S), self.policy]
        self.value = pr.evaluate(mdp, self.policy, tol=1e-14).value
        self.visits = stationary_distribution(self.chain)
        # one action: only the pairs of the policy matter for its value
        self.model = pr.UncertainMDP.direct(mdp.reward[np.arange(self.S), self.policy][:, None], mdp.discount)
        self.J = np.linalg.inv(np.eye(self.S) - mdp.discount * self.chain)

    def sample(self, alpha, N, size, seed):
        """Return sqrt(N) (V^psi - V) [size, S] and its linear part, which has mean zero, for fixed visits per state."""
        rng = np.random.default_rng(seed)
        visits = np.round(self.visits * N).astype(np.int64)
        found, linear = np.empty((size, self.S)), np.empty((size, self.S))
        for i in range(size):
            seen = np.array([rng.multinomial(n, p / p.sum()) for n, p in zip(visits, self.chain, strict=True)])
            brmdp = pr.BayesianRiskMDP(self.model, 1.0 + seen, alpha)
            own = brmdp.evaluate(np.zeros(self.S, dtype=int), initial_value=self.value, tol=1e-13, threads=1).value
            found[i] = np.sqrt(N) * (own - self.value)
            off = seen / visits[:, None] - self.chain
            linear[i] = np.sqrt(N) * self.J @ (self.mdp.discount * off @ self.value)
        return found, linear


LAKE = Study(frozen_lake(0.1).mdp())
OTHER = Study(random_model(5, 2, discount=0.7, rng=8).mdp())


def compared(study, alpha, N, size, seed):
    """Simulated values against the limit, for all states: z of the means, variance ratios, Kolmogorov-Smirnov p, and by
    how much the correlations are off."""
    found, _ = study.sample(alpha, N, size, seed)
    law = limit_law(study.mdp, study.policy, alpha)
    sd = np.sqrt(np.diag(law.cov))
    z = (found.mean(axis=0) - law.mean) / (sd / np.sqrt(size))
    ratio = found.var(axis=0, ddof=1) / sd**2
    fit = np.array([stats.kstest((found[:, s] - law.mean[s]) / sd[s], "norm").pvalue for s in range(study.S)])
    return z, ratio, fit, np.corrcoef(found.T) - law.cov / np.outer(sd, sd)


@pytest.mark.parametrize("study", [LAKE, OTHER], ids=["lake", "random"])
@pytest.mark.parametrize("alpha", LEVELS)
def test_limit_law_matches_simulated_values(study, alpha):
    """300 values at N = 10^10, all states: false alarm below 1e-6 for each line.

    At N = 10^8 the prior still shows where visits are rare: in the lake's state 0, with 0.8% of them, by 0.15
    standard deviations (measured; 0.015 at N = 10^10).
    """
    z, ratio, fit, off = compared(study, alpha, 10**10, 300, seed=1)
    assert abs(z).max() < 6
    assert ((ratio > chi2_over_df(1e-8, 299)) & (ratio < chi2_over_df(1 - 1e-8, 299))).all()
    assert fit.min() > 1e-8
    assert abs(off).max() < 6 / np.sqrt(300)  # the standard error of a correlation is at most 1 / sqrt(300)


@pytest.mark.slow
@pytest.mark.parametrize("study", [LAKE, OTHER], ids=["lake", "random"])
@pytest.mark.parametrize("alpha", LEVELS)
def test_limit_law_at_full_size(study, alpha):
    """2,000 values at N = 10^8: false alarm below 1e-6 for each line.

    Mean and shape for state 10 (the last one of the other model), see above; spread and correlations for all states.
    A mean that is off by 0.2 standard deviations, or a variance off by a third, is found all but surely.
    """
    z, ratio, fit, off = compared(study, alpha, 10**8, 2000, seed=2)
    s = min(10, study.S - 1)
    print(
        f"alpha {alpha}: z {z[s]:.2f}, variance ratio {ratio[s]:.3f}, KS p {fit[s]:.3f}; all states: |z| up to "
        f"{abs(z).max():.2f}, ratios {ratio.min():.3f} to {ratio.max():.3f}, KS p from {fit.min():.4f}, "
        f"correlations off by up to {abs(off).max():.3f}"
    )
    assert abs(z[s]) < 6  # 5 would do, but for the bias that is left at this N
    assert ((ratio > chi2_over_df(1e-8, 1999)) & (ratio < chi2_over_df(1 - 1e-8, 1999))).all()
    assert fit[s] > 1e-7
    assert abs(off).max() < 6 / np.sqrt(2000)


def chi2_over_df(p, df):
    """The p-quantile of a sample variance in units of the true one."""
    return stats.chi2(df).ppf(p) / df


def bias(study, alpha, N, size):
    """Mean of sqrt(N) (V^psi - V) less its limit [S]; the linear part is taken out, its mean is exactly zero."""
    found, linear = study.sample(alpha, N, size, seed=N)
    left = found - linear - limit_law(study.mdp, study.policy, alpha).mean
    return left.mean(axis=0), left.std(axis=0, ddof=1) / np.sqrt(size)


def test_bias_at_ten_thousand():
    """The prior still shows: -1.12 on a limit mean of -4.9 at N = 10^4, state 10, alpha 0.9.

    The standard error is 0.018, and the mean may be off by eight of them.
    """
    assert limit_law(LAKE.mdp, LAKE.policy, 0.9).mean[10] == pytest.approx(-4.9, abs=0.02)
    mean, error = bias(LAKE, 0.9, 10**4, 60)
    assert mean[10] == pytest.approx(-1.12, abs=0.15)
    assert error[10] < 0.05


@pytest.mark.slow
def test_bias_falls_as_the_inverse_root_of_n():
    sizes = 10 ** np.arange(4, 9)
    measured = np.array([bias(LAKE, 0.9, int(N), 400) for N in sizes])  # [5, 2, S]
    s = 10
    slope = np.polyfit(np.log(sizes), np.log(-measured[:, 0, s]), 1)[0]
    print("bias", measured[:, 0, s], "standard errors", measured[:, 1, s], "exponent", slope)
    assert abs(slope + 0.5) < 0.15


def test_closed_form_of_two_states():
    """A coin decides the next state: sigma by hand, with visits given."""
    p, gamma, alpha = 0.3, 0.6, 0.8
    mdp = pr.MDP([[[1 - p, p]], [[1 - p, p]]], reward=[0.0, 1.0], discount=gamma)
    mean, cov = limit_law(mdp, [0, 0], alpha, visits=[0.2, 0.5])
    tail = stats.norm.pdf(stats.norm.ppf(alpha)) / (1 - alpha)
    sigma = np.sqrt(p * (1 - p) / np.array([0.2, 0.5]))  # the two values differ by exactly 1
    J = np.eye(2) + gamma / (1 - gamma) * np.array([[1 - p, p], [1 - p, p]])
    assert mean == pytest.approx(-gamma * tail * J @ sigma, rel=1e-12)
    assert cov == pytest.approx(gamma**2 * J @ np.diag(sigma**2) @ J.T, rel=1e-12)


def test_risk_neutral_has_no_drift_and_aversion_grows():
    means = [limit_law(LAKE.mdp, LAKE.policy, alpha).mean for alpha in LEVELS]
    assert means[0] == pytest.approx(0.0, abs=1e-15)
    assert all((more < less).all() for less, more in itertools.pairwise(means))
    covs = [limit_law(LAKE.mdp, LAKE.policy, alpha).cov for alpha in LEVELS]
    assert all((cov == covs[0]).all() for cov in covs)
    assert np.linalg.eigvalsh(covs[0]).min() > -1e-12


def test_stationary_visits():
    p = stationary_distribution(LAKE.chain)
    assert p @ LAKE.chain == pytest.approx(p, abs=1e-13)
    assert p.sum() == pytest.approx(1.0)
    given = limit_law(LAKE.mdp, LAKE.policy, 0.9, visits=p)
    assert given.mean == pytest.approx(limit_law(LAKE.mdp, LAKE.policy, 0.9).mean)
    assert stationary_distribution([[0.0, 1.0], [0.0, 1.0]]).tolist() == [0.0, 1.0]  # a transient state


def test_certain_states_need_no_visits():
    mdp = pr.MDP([[[0, 1, 0]], [[0, 0.5, 0.5]], [[0, 0.5, 0.5]]], reward=[1.0, 0.0, 1.0], discount=0.5)
    mean, cov = limit_law(mdp, [0, 0, 0], 0.5)
    assert np.isfinite(mean).all()
    assert mean[0] == pytest.approx(0.5 * mean[1])
    assert cov[0, 0] == pytest.approx(0.25 * cov[1, 1])


@pytest.mark.parametrize(
    ("options", "error", "code", "fields"),
    [
        ({"alpha": 1.0}, ParameterError, "alpha-range", {"argument": "alpha", "value": 1.0}),
        ({"visits": [0.5, 0.5]}, ParameterError, "wrong-shape", {"argument": "visits", "value": (2,)}),
        ({"visits": np.full(16, 0.1)}, ParameterError, "sum-not-one", {"argument": "visits", "value": 1.6}),
        (
            {"visits": [-0.1] + [0.05] * 15},
            ParameterError,
            "negative",
            {"argument": "visits", "index": (0,), "value": -0.1},
        ),
        (
            {"visits": [0.0] + [0.05] * 15},
            ParameterError,
            "no-limit",
            {"argument": "visits", "index": (0,), "value": 0.0},
        ),
        ({"mdp": frozen_lake().model}, ParameterError, "missing-argument", {"argument": "theta"}),
        ({"mdp": "lake"}, ModelError, "wrong-type", {"argument": "mdp"}),
        ({"mdp": pr.MDP.from_gymnasium("FrozenLake-v1", 0.9)}, ModelError, "ending-steps", {}),
    ],
)
def test_bad_input(options, error, code, fields):
    given = {"mdp": LAKE.mdp, "policy": LAKE.policy, "alpha": 0.5} | options
    with refused(error, code, **fields):
        limit_law(**given)


def test_a_policy_of_another_size():
    with pytest.raises(ParameterError):
        limit_law(LAKE.mdp, [0, 0], 0.5)


def test_a_chain_must_be_a_chain():
    with refused(ModelError, "sum-not-one", argument="chain", index=(1,), value=0.9):
        stationary_distribution([[0.5, 0.5], [0.4, 0.5]])
    with refused(ModelError, "negative", argument="chain", index=(0, 1), value=-0.5):
        stationary_distribution([[1.5, -0.5], [0.5, 0.5]])
    with refused(ModelError, "wrong-shape", argument="chain", value=(1, 2), expected=(1, 1)):
        stationary_distribution([[0.5, 0.5]])


def test_two_recurrent_classes():
    with refused(ModelError, "several-classes"):
        stationary_distribution(np.eye(2))


def test_a_direct_model_has_the_law_of_its_mdp(rng):
    model = pr.UncertainMDP.direct(rng.normal(size=(4, 2)), discount=0.8)
    theta = rng.dirichlet(np.ones(4), 8)
    policy = [0, 1, 1, 0]
    own, shared = (
        pr.theory.limit_law(model.mdp(theta), policy, 0.7),
        pr.theory.limit_law(model, policy, 0.7, theta=theta),
    )
    np.testing.assert_allclose(own.mean, shared.mean)
    np.testing.assert_allclose(own.cov, shared.cov)


def test_shared_sources_are_wrong_together(seed):
    """Frozen Lake with 10^6 observations of each source: mean and covariance of 400 exact values.

    Means within 5 standard errors, variances within 5 of theirs (a false alarm in 10^6 for each of 32 numbers).
    """
    model, theta = pr.envs.frozen_lake(p_h=0.2)[:2]
    policy = pr.solve(model.mdp(theta)).policy
    rng = np.random.default_rng(seed)
    n = 10**6
    law = pr.theory.limit_law(model, policy, 0.9, visits=np.full(model.n_sources, 1.0 / model.n_sources), theta=theta)
    known = pr.evaluate(model.mdp(theta), policy).value
    found = []
    for _ in range(400):
        counts = np.array([rng.multinomial(n // model.n_sources, row) for row in theta])
        counts = np.where(np.asarray(model.prior()) > 0.0, counts + 1.0, 0.0)
        value = pr.BayesianRiskMDP(model, counts, alpha=0.9).evaluate(policy).value
        found.append(np.sqrt(n) * (value - known))
    found = np.array(found)
    sd = np.sqrt(np.diag(law.cov))
    assert (abs(found.mean(axis=0) - law.mean) <= 5.0 * sd / 20.0 + 0.01 * abs(law.mean)).all()
    assert (abs(found.var(axis=0) / sd**2 - 1.0) <= 5.0 * np.sqrt(2.0 / 400) + 0.02).all()


def test_an_uncertain_model_needs_its_truth():
    model = pr.UncertainMDP.direct([[0.0], [1.0]], discount=0.9)
    with refused(pr.errors.ParameterError, "missing-argument", argument="theta"):
        pr.theory.limit_law(model, [0, 0], 0.5)
    with refused(pr.errors.ParameterError, "conflicting-arguments", argument="theta"):
        pr.theory.limit_law(model.mdp([[0.5, 0.5]] * 2), [0, 0], 0.5, theta=[[0.5, 0.5]] * 2)
