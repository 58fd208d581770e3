"""Questions about policies with a horizon, with policies that depend on time, and at discount 1: by enumeration."""

import numpy as np
import pytest
from refusals import refused

import prudent as pr
from prudent.errors import ModelError, ParameterError

S, A = 4, 2


def random_model(rng, discount=0.95, ends=True):
    """A direct model; the last state is terminal if it ``ends``, and every action may lead there."""
    terminal = {S - 1: 2.0} if ends else None
    return pr.UncertainMDP.direct(rng.normal(size=(S, A)), discount, terminal=terminal)


def draws_of(rng, model, n=7):
    return rng.dirichlet(
        np.full(model.n_outcomes, 0.7), (n, model.n_sources - 1 if model.terminal.any() else model.n_sources)
    )


def whole(model, theta):
    return np.stack([model.with_end(one) for one in theta])


@pytest.mark.parametrize("discount", [0.9, 1.0])
def test_returns_with_a_horizon_are_those_of_every_drawn_model(rng, discount):
    model = random_model(rng, discount)
    theta = whole(model, draws_of(rng, model))
    timed = rng.dirichlet(np.ones(A), (5, S))
    plan = pr.BayesianRiskMDP(model, draws=theta, alpha=0.5).solve(horizon=5, terminal_value={0: 3.0})
    policies = {"plan": plan, "random": timed, "always": [1] * S}
    data = pr.posterior_returns(model, theta, policies, start=1, horizon=5, terminal_value={0: 3.0})
    for i, one in enumerate(theta):
        mdp = model.mdp(one)
        for name, policy in policies.items():
            exact = pr.evaluate(mdp, policy, horizon=5, terminal_value={0: 3.0}).value[0, 1]
            assert float(data.returns.sel(policy=name)[i]) == pytest.approx(exact, abs=1e-12)
        best = pr.solve(mdp, horizon=5, terminal_value={0: 3.0}).value[0, 1]
        assert float(data.optimal[i]) == pytest.approx(best, abs=1e-12)
    assert data.attrs["horizon"] == 5
    assert data.attrs["error_bound"] < 1e-12
    assert float(data.risk_value.sel(policy="plan")) == plan.value[0, 1]
    own = pr.posterior_returns(model, theta, {"plan": plan}, start=1, terminal_value={0: 3.0}, regret=False)
    np.testing.assert_allclose(own.returns[:, 0], data.returns.sel(policy="plan"), atol=1e-13)  # its own horizon


def test_returns_at_discount_one_are_those_of_every_drawn_model(rng):
    model = random_model(rng, 1.0)
    theta = whole(model, draws_of(rng, model))
    policies = {"a": [0] * S, "mixed": rng.dirichlet(np.ones(A), S)}
    data = pr.posterior_returns(model, theta, policies, start=0)
    for i, one in enumerate(theta):
        mdp = model.mdp(one)
        for name, policy in policies.items():
            exact = pr.evaluate(mdp, policy)
            off = abs(float(data.returns.sel(policy=name)[i]) - exact.value[0])
            assert off <= data.attrs["error_bound"] + exact.error_bound
        best = pr.solve(mdp)
        assert abs(float(data.optimal[i]) - best.value[0]) <= data.attrs["error_bound"] + best.error_bound
    assert data.attrs["error_bound"] < 1e-6 * abs(data.returns).max()


def test_states_where_nothing_is_earned_any_more_are_an_end(rng):
    support = np.ones((3, 2, 3), dtype=bool)
    support[2, :, :2] = False  # state 2 is never left, and earns nothing
    model = pr.UncertainMDP.direct([[1.0, 0.5], [2.0, -1.0], [0.0, 0.0]], 1.0, support=support)
    counts = np.where(model.outcome_mask, 2.0, 0.0)
    data = pr.posterior_returns(model, counts, [[0, 1, 0]], start=0, draws=50, rng=1)
    profile = pr.risk_profile(model, counts, (0.0, 0.5), start=0, draws=50, rng=1)
    assert np.isfinite(data.returns).all()
    assert np.isfinite(profile.to_pandas()[["mean", "cvar"]].to_numpy()).all()


def test_a_process_that_goes_on_is_refused(rng):
    model = random_model(rng, 1.0, ends=False)
    with refused(ModelError, "endless-process"):
        pr.posterior_returns(model, model.prior(), [0] * S)
    with refused(ParameterError, "missing-argument", argument="horizon"):
        pr.posterior_returns(model, model.prior(), [0] * S, terminal_value=1.0)
    with refused(ParameterError, "policy-too-short", argument="policy"):
        pr.posterior_returns(model, model.prior(), np.full((2, S, A), 0.5), horizon=3)


def test_unknown_rewards_add_up_over_the_steps():
    """One state, one action: the return of T steps is T times the mean reward of the draw."""
    model = pr.UncertainMDP.direct([[2.0]], 1.0)
    unknown = pr.posteriors.NormalPosterior(mean=[[1.0]], sd=[[0.5]], noise_sd=[[1.0]])
    asked = {"draws": 40, "rng": 3, "reward_posterior": unknown, "regret": False}
    one, six = (pr.posterior_returns(model, np.ones((1, 1)), [0], horizon=t, **asked).returns for t in (1, 6))
    np.testing.assert_allclose(six, 6.0 * one, rtol=1e-12)
    assert float(one.std()) > 0.1


@pytest.mark.filterwarnings("ignore::prudent.errors.CautionWarning")  # some random models do not pay for caution
@pytest.mark.parametrize(("discount", "horizon"), [(0.95, 6), (1.0, 6), (1.0, None)])
def test_a_profile_compares_levels_and_today(rng, discount, horizon):
    model = random_model(rng, discount)
    posterior = pr.DirichletPosterior(model.with_end(rng.gamma(1.0, 4.0, ((S - 1) * A, S)) + 0.2))
    today = rng.dirichlet(np.ones(A), S)
    start = {0: 0.5, 1: 0.5}
    profile = pr.risk_profile(
        model, posterior, (0.0, 0.5, 0.9), start=start, draws=200, rng=1, horizon=horizon, baseline=today
    )
    first = model.start_distribution(start)
    mean = pr.BayesianRiskMDP(model, posterior, 0.0).mean_mdp()
    base = pr.evaluate(mean, today, horizon=horizon).value
    for i, alpha in enumerate(profile.alphas):
        solution = profile.solutions[alpha]
        exact = pr.BayesianRiskMDP(model, posterior, alpha).solve(horizon=horizon)
        np.testing.assert_allclose(solution.value, exact.value, atol=1e-8)
        own = pr.evaluate(mean, solution, horizon=horizon).value
        gain = first @ (own - base if horizon is None else own[0] - base[0])
        # the contributions of all states add up to the difference at the posterior mean
        assert profile.today.contributions[i].sum() == pytest.approx(gain, abs=1e-8)
        assert 0.0 <= profile.time_differs[i] <= 1.0
        assert profile.occupancy[i].sum() == pytest.approx(1.0)
    assert len(profile.changes()) <= S - 1
    assert {"time_differs", "difference"} <= set(profile.to_pandas())
    profile.to_xarray(), profile.plot(), repr(profile)


def test_visits_with_a_horizon_by_simulation(rng):
    """Shares of time by simulated runs; a false alarm has probability below 1e-6 (5 standard errors of 8 shares)."""
    model = random_model(rng, 1.0)
    posterior = pr.DirichletPosterior(model.with_end(rng.gamma(1.0, 4.0, ((S - 1) * A, S)) + 0.2))
    profile = pr.risk_profile(model, posterior, (0.5,), start=0, draws=20, rng=1, horizon=5)
    mdp = pr.BayesianRiskMDP(model, posterior, 0.0).mean_mdp()
    P, plan, runs = mdp.dense(), profile.solutions[0.5].policy, 20_000
    at, visited = np.zeros(runs, dtype=int), np.zeros((runs, S + 1))
    for time in range(5):
        visited[np.arange(runs), at] += 1.0
        live = at < S
        rows = np.zeros((runs, S + 1))
        rows[live, :S] = P[at[live], plan[time, at[live]]]
        rows[:, S] = np.maximum(1.0 - rows[:, :S].sum(axis=1), 0.0)
        at = (rows.cumsum(axis=1) < rng.random(runs)[:, None]).sum(axis=1).clip(max=S)
    counts = visited[:, :S]
    shares = counts.mean(axis=0) / counts.sum(axis=1).mean()
    spread = 5.5 * (counts - counts.sum(axis=1, keepdims=True) * shares).std(axis=0) / np.sqrt(runs)
    assert (abs(shares - profile.occupancy[0]) <= spread / counts.sum(axis=1).mean() + 1e-9).all()


def brute_value_of_data(model, counts, alpha, source, m, start, horizon):
    """Gain and change of the value by all data sets of two outcomes, each solved with the public solver."""
    first = model.start_distribution(start)
    keys = {} if horizon is None else {"horizon": horizon}

    def at_start(solution):
        return float(first @ (solution.value if horizon is None else solution.value[0]))

    def solved(psi):
        return pr.BayesianRiskMDP(model, psi, alpha).solve(**keys)

    now, gain, change = solved(counts), 0.0, 0.0
    places = np.flatnonzero(counts[source])
    a, b = counts[source, places]
    for k in range(m + 1):
        chance = np.exp([_log_choose(m, k) + _log_beta(a + k, b + m - k) - _log_beta(a, b)])[0]
        psi = counts.copy()
        psi[source, places] += [k, m - k]
        then, mean = solved(psi), pr.BayesianRiskMDP(model, psi, 0.0).mean_mdp()
        better, same = (at_start(pr.evaluate(mean, plan, **keys)) for plan in (then, now))
        gain += chance * (better - same)
        change += chance * (at_start(then) - at_start(now))
    return gain, change


def _log_choose(n, k):
    from math import lgamma

    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def _log_beta(a, b):
    from math import lgamma

    return lgamma(a) + lgamma(b) - lgamma(a + b)


@pytest.mark.parametrize(("discount", "horizon"), [(0.9, 4), (1.0, 4), (1.0, None)])
@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_the_value_of_data_is_that_of_all_data_sets(rng, alpha, discount, horizon):
    support = np.zeros((3, 2, 3), dtype=bool)
    support[0, 0, [0, 2]] = support[0, 1, [1, 2]] = support[1, 0, [0, 2]] = support[1, 1, [1, 2]] = True
    model = pr.UncertainMDP.direct(rng.normal(size=(3, 2)), discount, support=support, terminal={2: 1.0})
    counts = model.with_end(np.where(model.outcome_mask, rng.uniform(1.0, 4.0, model.outcome_mask.shape), 0.0)[:4])
    found = pr.value_of_data(model, counts, alpha, 3, start=0, horizon=horizon, threads=1)
    table = found.to_pandas().set_index("source")
    for source in range(4):
        name = model.sources[source]
        gain, change = brute_value_of_data(model, counts, alpha, source, 3, 0, horizon)
        row = table.loc[[name]].iloc[0]
        if row["method"] in ("exact", "sampled"):
            assert row["gain"] == pytest.approx(gain, abs=2e-4 * max(1.0, abs(gain)) if horizon is None else 1e-7)
            assert row["value_change"] == pytest.approx(change, abs=2e-3 if horizon is None else 1e-6)
        else:
            assert gain == pytest.approx(0.0, abs=1e-6)
