"""Rewards that vary: their means are uncertain, and that is part of the answer by default, exactly for CVaR."""

import warnings

import mpmath
import numpy as np
import pandas as pd
import pytest
from refusals import refused

import prudent as pr
from prudent._numerics.dirichlet_tail import SCRATCH
from prudent._numerics.noisy_tail import noisy_tail_of_row
from prudent.errors import CautionWarning, ParameterError, PosteriorError
from prudent.estimation import from_log
from prudent.posteriors import BetaPosterior, NormalPosterior
from prudent.risk import MeanCVaR, VaR


def noisy_cvar(values, counts, sd, alpha, accuracy=0.0):
    """Return CVaR of w.values + sd N, a bound on its error, and the tail means."""
    values, counts = np.asarray(values, dtype=float), np.asarray(counts, dtype=float)
    q, work = np.empty(values.size), np.empty((SCRATCH, values.size))
    result, x, _, error = noisy_tail_of_row(values, counts, float(sd), 1.0 - alpha, np.nan, accuracy, work, q)
    return result, error, q, x


# --- one row ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "sd", "alpha"),
    [
        pytest.param((1.5, 2.5), 0.5, 0.9, marks=pytest.mark.slow),
        pytest.param((0.5, 1.5), 0.2, 0.9, marks=pytest.mark.slow),
        pytest.param((0.5, 30.5), 0.05, 0.5, marks=pytest.mark.slow),
        ((2, 2), 5.0, 0.9),
        ((3, 2), 0.05, 0.9),
        ((0.5, 0.5), 0.1, 0.5),
        ((1, 1), 0.3, 0.999),
        ((0.1, 0.2), 0.03, 0.7),
    ],
)
def test_two_outcomes_in_thirty_digits(counts, sd, alpha):
    """A Beta law and a normal: the maximum over x of x - E[(x - Z)+]/p, integrated by mpmath."""
    found, error, q, x = noisy_cvar([-1.0, 1.0], counts, sd, alpha)
    with mpmath.workdps(30):
        a, b, s = (mpmath.mpf(number) for number in (*counts, sd))
        p = 1 - mpmath.mpf(alpha)
        # t = u^(1/b) at 0 and in the same way at 1 takes the ends of the density away
        pieces = [0, 0.001, 0.01, 0.05, 0.2, 0.4, 0.5]

        def mean(g):
            low = mpmath.quad(lambda u: g(u ** (1 / b)) * (1 - u ** (1 / b)) ** (a - 1) / b, [c**b for c in pieces])
            high = mpmath.quad(
                lambda u: g(1 - u ** (1 / a)) * (1 - u ** (1 / a)) ** (b - 1) / a, [c**a for c in pieces]
            )
            return (low + high) / mpmath.beta(a, b)

        def shortfall(t):
            d = (x - (2 * t - 1)) / s
            return s * (d * mpmath.ncdf(d) + mpmath.npdf(d))

        below = mean(lambda t: mpmath.ncdf((x - (2 * t - 1)) / s))
        top = x - mean(shortfall) / p
        slope = mean(lambda t: mpmath.npdf((x - (2 * t - 1)) / s) / s)
        top += (p - below) ** 2 / (2 * p * slope)  # x is the quantile but for rounding
    tolerance = max(error, 2e-12)
    assert abs(found - float(top)) <= tolerance
    assert error < 1e-10
    assert q.sum() == pytest.approx(1.0)


def test_a_certain_outcome_and_noise_are_a_normal():
    for sd in (1e-8, 1.0, 1e6):
        for values in ([3.0], [3.0, 3.0]):
            found, error, _, _ = noisy_cvar(values, np.ones(len(values)), sd, 0.9)
            assert found == pytest.approx(pr.exact.cvar_normal(3.0, sd, 0.9), rel=1e-13)
            assert abs(found - pr.exact.cvar_normal(3.0, sd, 0.9)) <= 4.0 * error


def test_noise_in_the_limit(rng):
    values, counts = rng.normal(size=4), rng.gamma(1.0, 2.0, size=4) + 0.3
    plain = pr.exact.cvar_dirichlet(values, counts, 0.9)
    assert noisy_cvar(values, counts, 1e-9, 0.9)[0] == pytest.approx(plain, abs=1e-8)
    mean = counts @ values / counts.sum()
    spread = float(counts @ (values - mean) ** 2 / counts.sum() / (counts.sum() + 1.0))
    wide = noisy_cvar(values, counts, 1e3, 0.9)[0]
    assert wide == pytest.approx(pr.exact.cvar_normal(mean, np.sqrt(1e6 + spread), 0.9), abs=1e-5)
    assert noisy_cvar(values, counts, 0.3, 0.0)[0] == pytest.approx(mean)


def test_many_data_and_wide_noise():
    """Most of the range has no mass, and is not looked at."""
    for counts in ((534.0, 20_841.0), (0.5, 1e6), (1e9, 1e9)):
        mean = counts[1] / sum(counts)
        own = np.sqrt(mean * (1.0 - mean) / (sum(counts) + 1.0))
        for sd in (1e-3, 1.0, 1e4):
            found, error, _, _ = noisy_cvar([0.0, 1.0], counts, sd, 0.999)
            normal = pr.exact.cvar_normal(mean, np.hypot(own, sd), 0.999)
            assert found == pytest.approx(normal, abs=error + 0.2 * own)  # but for skewness


def test_ten_million_draws(rng):
    """Within five standard errors: a false alarm in one of a million runs."""
    values, counts, sd, p = np.array([0.0, 1.0, 4.0]), np.array([2.5, 1.2, 0.4]), 0.7, 0.2
    found, _, q, x = noisy_cvar(values, counts, sd, 1.0 - p)
    sums = np.zeros(2)
    tails = np.zeros(3)
    for _ in range(10):
        w = rng.dirichlet(counts, 1_000_000)
        z = w @ values + sd * rng.normal(size=w.shape[0])
        short = x - np.maximum(x - z, 0.0) / p
        sums += short.sum(), (short**2).sum()
        tails += w[z <= x].sum(axis=0)
    mean = sums[0] / 1e7
    deviation = np.sqrt((sums[1] / 1e7 - mean**2) / 1e7)
    assert abs(mean - found) <= 5.0 * deviation
    np.testing.assert_allclose(q, tails / tails.sum(), atol=5e-3)


def test_the_gradient_is_that_of_the_risk(rng):
    values, counts = rng.normal(size=5), rng.gamma(1.0, 3.0, size=5) + 0.5
    _, _, q, _ = noisy_cvar(values, counts, 0.4, 0.8)
    for k in range(5):
        step = 1e-5 * np.eye(5)[k]
        slope = (noisy_cvar(values + step, counts, 0.4, 0.8)[0] - noisy_cvar(values - step, counts, 0.4, 0.8)[0]) / 2e-5
        assert slope == pytest.approx(q[k], abs=1e-5)


def test_less_accuracy_is_as_good_as_it_says(rng):
    for _ in range(20):
        values, counts = rng.normal(size=4), rng.gamma(0.5, 3.0, size=4) + 0.1
        sd, alpha = float(rng.gamma(1.0, 0.3)) + 1e-3, float(rng.uniform(0.1, 0.99))
        fine, error, _, _ = noisy_cvar(values, counts, sd, alpha)
        for accuracy in (1e-3, 1e-6, 1e-9):
            rough, bound, _, _ = noisy_cvar(values, counts, sd, alpha, accuracy)
            assert abs(rough - fine) <= bound + error


# --- whole models ----------------------------------------------------------------------------------------


def noisy_log(rng, size=120, S=3, A=2, sd=1.0):
    s, a = rng.integers(S, size=size), rng.integers(A, size=size)
    ends = rng.random(size) < 0.15
    ends[0] = True
    target = np.where(ends, "end", np.char.add("s", rng.integers(S, size=size).astype(str)))
    frame = {"state": np.char.add("s", s.astype(str)), "action": np.char.add("a", a.astype(str)), "next_state": target}
    return pd.DataFrame(frame | {"reward": s - a + sd * rng.normal(size=size)})


def test_noise_is_in_the_answer_by_default(rng):
    model, posterior = from_log(noisy_log(rng), 0.9, terminal=["end"])
    assert model.reward_posterior is model.summary.reward_posterior
    unknown = pr.BayesianRiskMDP(model, posterior, 0.9)
    certain = pr.BayesianRiskMDP(model, posterior, 0.9, reward_posterior="certain")
    solution = unknown.solve()
    assert solution.converged
    assert unknown.is_exact
    assert (solution.value[1:] < certain.solve().value[1:]).all()
    given = pr.BayesianRiskMDP(model, posterior, 0.9, reward_posterior=model.summary.reward_posterior)
    np.testing.assert_array_equal(given.solve().value, solution.value)
    np.testing.assert_allclose(
        pr.BayesianRiskMDP(model, posterior, 0.0).solve().value,
        pr.BayesianRiskMDP(model, posterior, 0.0, reward_posterior="certain").solve().value,
    )
    with refused(ParameterError, "unknown-option", argument="reward_posterior"):
        pr.BayesianRiskMDP(model, posterior, 0.9, reward_posterior="sure")
    with refused(PosteriorError, "wrong-shape", argument="reward_posterior"):
        pr.BayesianRiskMDP(model, posterior, 0.9, reward_posterior=NormalPosterior([0.0], 1.0, 1.0))


@pytest.mark.parametrize("alpha", [0.5, 0.9, -0.5])
def test_certificates_with_noise(rng, alpha):
    """One more sweep, by the row function alone, must leave the solution where it is."""
    for _ in range(3):
        model, posterior = from_log(noisy_log(rng, 40), 0.8, terminal={"end": 2.0})
        problem, e = pr.BayesianRiskMDP(model, posterior, alpha), model.entries
        solution = problem.solve()
        sd = np.sqrt(model.reward_posterior.variance()).reshape(-1)
        sign, q = 1.0 if alpha > 0.0 else -1.0, np.full(e.source.size, -np.inf)
        for p in np.flatnonzero((model.admissible & ~model.terminal[:, None]).reshape(-1)):
            part = slice(e.first[p], e.first[p + 1])
            y = sign * (e.reward[part] + 0.8 * solution.value[e.next_state[part]])
            q[p] = sign * noisy_cvar(y, posterior.counts[e.source[p], : y.size], sd[p], abs(alpha))[0]
        swept = np.where(model.terminal, 2.0, q.reshape(model.admissible.shape).max(axis=1))
        assert abs(swept - solution.value).max() <= 1.8 * solution.error_bound + 1e-11
        rough = problem.solve(sweeps=2)
        assert abs(rough.value - solution.value).max() <= rough.error_bound + solution.error_bound


def test_exact_is_the_limit_of_draws(rng):
    model, posterior = from_log(noisy_log(rng), 0.9, terminal=["end"])
    exact = pr.BayesianRiskMDP(model, posterior, 0.8).solve().value
    drawn = [pr.BayesianRiskMDP(model, posterior, 0.8).solve(draws=4_000, rng=rng).value for _ in range(8)]
    error = np.std(drawn, axis=0, ddof=1) / np.sqrt(8)
    # the draws of one solve are biased by about 1/n of its spread; a t with 7 degrees of freedom beyond 12: 1e-5
    assert (abs(np.mean(drawn, axis=0) - exact) <= 12.0 * error + 0.02).all()


def test_mixtures_horizons_policies_and_ends(rng):
    model, posterior = from_log(noisy_log(rng), 0.9, terminal=["end"])
    parts = [pr.BayesianRiskMDP(model, posterior, alpha) for alpha in (0.0, 0.9)]
    policy = parts[1].solve().policy
    mixed = pr.BayesianRiskMDP(model, posterior, risk=MeanCVaR(0.9, weight=0.5))
    one = [p.solve(horizon=1).value[0] for p in (*parts, mixed)]
    assert (one[2] <= np.maximum(one[0], one[1]) + 1e-12).all()
    assert mixed.solve(tol=1e-7).converged
    np.testing.assert_allclose(parts[1].evaluate(policy).value, parts[1].solve().value, rtol=1e-9)
    far, near = parts[1].solve().value, parts[1].solve(horizon=30).value[0]
    assert (abs(far - near) <= 0.9**30 * abs(far).max() + 1e-9).all()
    free, counts = from_log(noisy_log(rng), 1.0, terminal=["end"])
    assert pr.BayesianRiskMDP(free, counts, 0.5).solve(tol=1e-7).converged
    for wrong in ({"risk": VaR(0.9)}, {"alpha": 0.5, "reward_posterior": BetaPosterior(np.ones((4, 2)), 1.0)}):
        with refused(ParameterError, "missing-argument", argument="draws"):
            pr.BayesianRiskMDP(model, posterior, **wrong).solve()
        assert pr.BayesianRiskMDP(model, posterior, **wrong).solve(draws=50, rng=1).converged


def test_certain_rewards_are_as_before(rng):
    log = noisy_log(rng, sd=0.0)
    model, posterior = from_log(log, 0.9, terminal=["end"])
    assert model.reward_posterior is None
    solution = pr.BayesianRiskMDP(model, posterior, 0.9).solve()
    again = pr.BayesianRiskMDP(model, posterior, 0.9, reward_posterior="certain").solve()
    np.testing.assert_array_equal(solution.value, again.value)


def test_an_interval_of_noisy_rewards_has_a_width(rng):
    """One action, one outcome: the interval is that of the mean reward, not a single number."""
    rewards = 87.73 + 10.0 * rng.normal(size=25)
    model, posterior = from_log([("on", "go", "off", r) for r in rewards], 0.9, terminal=["off"])
    found = pr.posterior_returns(model, posterior, {"it": {"on": "go"}}, start="on", draws=20_000, rng=1)
    low, high = found["quantile"].sel(probability=[0.05, 0.95]).values[0]
    sd = np.sqrt(model.reward_posterior.variance()[model.state_index("on"), 0])
    assert sd == pytest.approx(np.std(rewards, ddof=1) / 5.0, rel=0.1)
    assert (high - low) / (2 * 1.6449 * sd) == pytest.approx(1.0, abs=0.05)
    careful = pr.BayesianRiskMDP(model, posterior, 0.9).solve().value[model.state_index("on")]
    assert careful == pytest.approx(pr.exact.cvar_normal(rewards.mean(), sd, 0.9), rel=1e-12)


def test_explanations_and_profiles_know_the_noise(rng):
    model, posterior = from_log(noisy_log(rng), 0.9, terminal=["end"])
    solution = pr.BayesianRiskMDP(model, posterior, 0.9).solve()
    why = solution.explain("s1")
    assert why.draws is not None
    assert f"{why.draws:,} posterior draws" in str(why)
    value = solution.value[model.state_index("s1")]
    assert why.actions[0].value == pytest.approx(value, abs=0.1)
    sure = pr.BayesianRiskMDP(model, posterior, 0.9, reward_posterior="certain").solve().explain("s1")
    assert why.actions[0].sd > sure.actions[0].sd
    warnings.simplefilter("ignore", CautionWarning)  # a random log may make caution a mistake
    profile = pr.risk_profile(model, posterior, (0.0, 0.9), draws=200, rng=1)
    np.testing.assert_array_equal(profile.solutions[0.9].policy, solution.policy)
    certain = pr.risk_profile(model, posterior, (0.0, 0.9), draws=200, rng=1, reward_posterior="certain")
    spread = [found.returns["sd"].values[0] for found in (profile, certain)]
    assert spread[0] > spread[1]


# --- more data -------------------------------------------------------------------------------------------


def test_the_value_of_rewards_in_closed_form(rng):
    """Two actions that end at once: E[max] of normals, after four more rewards of one of them."""
    rows = [("on", "a", "off", 1.0 + r) for r in (-1.0, 1.0) * 5] + [
        ("on", "b", "off", 1.1 + r) for r in (-1.0, 1.0) * 3
    ]
    model, posterior = from_log(rows, 0.9, terminal=["off"])
    s, later = model.state_index("on"), model.reward_posterior.copy()
    later.pulls += 4
    variance = (model.reward_posterior.variance() - later.variance())[s]
    means = [np.mean([row[3] for row in rows if row[1] == a]) for a in "ab"]
    found = pr.value_of_data(model, posterior, 0.0, 4, start="on", rng=rng, replications=4_000)
    gain = dict(zip(found.names, zip(found.gain, found.gain_error, strict=True), strict=True))
    for action, sd in zip("ab", np.sqrt(variance), strict=True):
        apart = abs(means[0] - means[1]) / sd
        expected = sd * float(mpmath.npdf(apart) - apart * mpmath.ncdf(-apart))
        mean, error = gain["on", action]
        assert abs(mean - expected) <= 5.5 * error
    certain = pr.value_of_data(model, posterior, 0.0, 4, start="on", rng=1, reward_posterior="certain")
    assert not certain.gain.any()
    careful = pr.value_of_data(model, posterior, 0.9, 4, start="on", rng=1)
    assert (careful.value_change[:2] > 0.0).all()


def test_data_effects_with_noise_by_solving_each(rng, monkeypatch):
    """The curve of a state and a solve for each data set must agree."""
    from prudent.analysis.data_effects import DataEffects, _NoCurve

    model, posterior = from_log(noisy_log(rng, 60), 0.8, terminal=["end"])
    asked = {"observations": 3, "start": "s0", "rng": 7, "replications": 20}
    quick = [pr.value_of_data(model, posterior, alpha, **asked) for alpha in (0.0, 0.7)]

    def none(*arguments):
        raise _NoCurve

    monkeypatch.setattr(DataEffects, "_along_a_curve", none)
    slow = [pr.value_of_data(model, posterior, alpha, **asked) for alpha in (0.0, 0.7)]
    for one, other in zip(quick, slow, strict=True):
        np.testing.assert_allclose(one.gain, other.gain, atol=1e-4)
        np.testing.assert_allclose(one.value_change, other.value_change, atol=1e-4)
