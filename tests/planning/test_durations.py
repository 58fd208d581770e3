"""Semi-Markov models: the discount of a transition is discount ** duration, exactly, certificates included."""

import mpmath
import numpy as np
import pytest
from _durations import random_model, waiting
from refusals import refused

import prudent as pr
from prudent.errors import ParameterError
from prudent.planning import SolverOptions

ALPHAS = (0.0, 0.5, 0.9, -0.6)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_durations_are_steps_of_waiting(rng, alpha):
    for _ in range(5):
        model, posterior = random_model(rng)
        S, options = model.n_states, SolverOptions(tol=1e-11)
        one = pr.BayesianRiskMDP(model, posterior, alpha)
        other = pr.BayesianRiskMDP(*waiting(model, posterior), alpha)
        ours, theirs = one.solve(options=options), other.solve(options=options)
        assert abs(ours.value - theirs.value[:S]).max() <= ours.error_bound + theirs.error_bound
        np.testing.assert_array_equal(ours.policy[: S - 1], theirs.policy[: S - 1])
        np.testing.assert_allclose(ours.q[: S - 1], theirs.q[: S - 1], atol=1e-9)
        shares = rng.dirichlet(np.ones(model.n_actions), S)
        shares[-1] = [1.0, 0.0]
        mixed = np.zeros((theirs.value.size, 2))
        mixed[:, 0], mixed[:S] = 1.0, shares
        followed, same = one.evaluate(shares, options=options), other.evaluate(mixed, options=options)
        assert abs(followed.value - same.value[:S]).max() <= followed.error_bound + same.error_bound


def test_certificates_hold_in_forty_digits(rng):
    """At level 0 the answer is a linear system, here in 40 digits; at discounts near one and for long durations."""
    for discount, longest in ((0.5, 3), (0.99, 30), (0.9999, 8), (0.9, 200)):
        model, posterior = random_model(rng, discount=discount, longest=longest)
        problem = pr.BayesianRiskMDP(model, posterior, 0.0)
        solution = problem.evaluate([0] * model.n_states)
        e, S = model.entries, model.n_states
        with mpmath.workdps(40):
            matrix, gain = mpmath.eye(S), mpmath.zeros(S, 1)
            for s in range(S - 1):
                p = s * model.n_actions
                counts = [mpmath.mpf(float(c)) for c in posterior.counts[e.source[p]]]
                for c, j in zip(counts, range(e.first[p], e.first[p + 1]), strict=True):
                    chance = c / mpmath.fsum(counts)
                    gain[s] += chance * mpmath.mpf(float(e.reward[j]))
                    power = mpmath.mpf(discount) ** mpmath.mpf(float(model.duration[j]))
                    matrix[s, int(e.next_state[j])] -= chance * power
            gain[S - 1] = 2
            exact = mpmath.lu_solve(matrix, gain)
            off = max(abs(mpmath.mpf(float(v)) - x) for v, x in zip(solution.value, exact, strict=True))
        assert float(off) <= solution.error_bound
        mean = pr.evaluate(problem.mean_mdp(), [0] * S)
        np.testing.assert_allclose(mean.value, solution.value, rtol=1e-9)


@pytest.mark.parametrize("alpha", [0.5, 0.9])
def test_bounds_hold_after_any_number_of_sweeps(rng, alpha):
    for _ in range(5):
        model, posterior = random_model(rng, discount=0.97, longest=9)
        problem = pr.BayesianRiskMDP(model, posterior, alpha)
        best = problem.solve(options=SolverOptions(tol=1e-11))
        for sweeps in (1, 2, 5, 20):
            rough = problem.solve(sweeps=sweeps)
            assert abs(rough.value - best.value).max() <= rough.error_bound + best.error_bound


def test_draws_read_durations_too(rng):
    model, posterior = random_model(rng)
    theta = posterior.sample(40, rng)
    plain, same = waiting(model, posterior)
    more = np.zeros((40, *same.counts.shape))
    more[..., 0] = 1.0
    more[:, : theta.shape[1] - 1] = theta[:, :-1]
    ours = pr.BayesianRiskMDP(model, draws=theta, alpha=0.8).solve(options=SolverOptions(tol=1e-11))
    theirs = pr.BayesianRiskMDP(plain, draws=more, alpha=0.8).solve(options=SolverOptions(tol=1e-11))
    assert abs(ours.value - theirs.value[: model.n_states]).max() <= ours.error_bound + theirs.error_bound
    returns = pr.posterior_returns(model, theta, {"it": ours}, start=0, regret=False)["returns"].values[:, 0]
    by_hand = [pr.evaluate(model.mdp(row), ours.policy).value[0] for row in theta]
    np.testing.assert_allclose(returns, by_hand, rtol=1e-9)


def test_a_horizon_counts_decisions(rng):
    model, posterior = random_model(rng)
    value = np.append(np.zeros(model.n_states - 1), 2.0)
    problem = pr.BayesianRiskMDP(model, posterior, 0.5)
    solution = problem.solve(horizon=3)
    e = model.entries
    for t in (2, 1, 0):
        q = np.full(e.source.size, -np.inf)
        for p in np.flatnonzero(e.sizes()[: -model.n_actions]):
            part = slice(e.first[p], e.first[p + 1])
            y = e.reward[part] + 0.93 ** model.duration[part] * value[e.next_state[part]]
            q[p] = pr.exact.cvar_dirichlet(y, posterior.counts[e.source[p]], 0.5)
        value = np.append(q.reshape(-1, model.n_actions).max(axis=1)[:-1], 2.0)
        np.testing.assert_allclose(solution.value[t], value, rtol=1e-12)


def test_what_depends_on_the_value_reads_durations(rng):
    model, posterior = random_model(rng)
    plain, same = waiting(model, posterior)
    ours, theirs = (pr.BayesianRiskMDP(m, p, 0.5).solve() for m, p in ((model, posterior), (plain, same)))
    np.testing.assert_allclose(
        ours.explain(0).to_pandas()[["value", "mean", "sd"]], theirs.explain(0).to_pandas()[["value", "mean", "sd"]]
    )
    data = {"observations": 2, "start": 0, "rng": 1}
    here, there = (pr.value_of_data(m, p, 0.5, **data) for m, p in ((model, posterior), (plain, same)))
    assert here.mean_return == pytest.approx(there.mean_return)
    for name in ("gain", "value_change", "switch"):
        gains = [dict(zip(found.source.tolist(), getattr(found, name), strict=True)) for found in (here, there)]
        for source in range(8):  # two observations of four outcomes are enumerated
            assert gains[0][source] == pytest.approx(gains[1][source], abs=1e-5)


def test_what_cannot_read_durations_says_so(rng):
    model, posterior = random_model(rng)
    with refused(ParameterError, "durations", argument="model"):
        pr.PosteriorSamplingAgent(model, alpha=0.5)
    with refused(ParameterError, "durations", argument="mdp"):
        pr.returns(model.mdp(posterior.mean()), [0] * 5, start=0, replications=3, rng=1)
    with refused(ParameterError, "durations", argument="mdp"):
        pr.solve(model.mdp(posterior.mean()), objective=pr.Entropic(0.5), start=0)
    with refused(ParameterError, "durations", argument="model"):
        pr.BayesianRiskMDP(model, posterior, 0.5).solve(client="tcp://nowhere:1")


def test_a_discount_of_one_ignores_durations(rng):
    model, posterior = random_model(rng, discount=1.0)
    plain = pr.UncertainMDP.from_entries(
        np.where(model.admissible & ~model.terminal[:, None], model.source, -1),
        model.entries.pairs(),
        model.entries.outcome[model.entries.slots()].astype(np.int64),
        model.entries.next_state,
        model.entries.reward,
        1.0,
        terminal={4: 2.0},
    )
    ours, theirs = (pr.BayesianRiskMDP(m, posterior, 0.5).solve(horizon=6) for m in (model, plain))
    np.testing.assert_array_equal(ours.value, theirs.value)


def test_bounds_on_costs_are_those_of_the_model_that_waits(rng):
    """The optimum under a bound on a discounted cost, by the ordinary model in which long transitions wait."""
    for discount in (0.93, 0.8):
        model, posterior = random_model(rng, discount=discount)
        plain, same = waiting(model, posterior)
        S = model.n_states
        cost = rng.random((S, 2))
        cost[-1] = 0.0
        more = np.zeros((plain.n_states, 2))
        more[:S] = cost
        one, other = pr.BayesianRiskMDP(model, posterior, 0.0), pr.BayesianRiskMDP(plain, same, 0.0)
        free = one.mean_mdp()
        free.reward = -cost
        least = -pr.solve(free).value[0]
        bound = 1.1 * least
        ours, theirs = (p.solve(costs={"c": c}, at_most={"c": bound}, start=0) for p, c in ((one, cost), (other, more)))
        assert ours.constraint.cost["c"] <= bound + 1e-9
        assert ours.constraint.gap <= 1e-7
        assert ours.constraint.objective_value == pytest.approx(theirs.constraint.objective_value, abs=1e-7)
        assert ours.constraint.multiplier["c"] == pytest.approx(theirs.constraint.multiplier["c"], abs=1e-6)


@pytest.mark.parametrize("horizon", [None, 4])
def test_forecasts_are_those_of_every_drawn_model(rng, horizon):
    """Returns, levels and the value of today's policy, by hand from the entries."""
    model, posterior = random_model(rng, longest=6)
    theta, e, S = posterior.sample(9, rng), model.entries, model.n_states
    policies = {"all 0": np.zeros(S, int), "mixed": np.column_stack([np.full(S, 0.25), np.full(S, 0.75)])}
    found = pr.posterior_returns(model, theta, policies, start=1, regret=False, horizon=horizon)["returns"]
    for name, policy in policies.items():
        shares = np.eye(2)[policy] if policy.ndim == 1 else policy
        for i, row in enumerate(theta):
            value = np.append(np.zeros(S - 1), 2.0)
            for _ in range(horizon or 600):
                q = np.zeros(S * 2)
                for p in range((S - 1) * 2):
                    part = slice(e.first[p], e.first[p + 1])
                    y = e.reward[part] + 0.93 ** model.duration[part] * value[e.next_state[part]]
                    q[p] = row[e.source[p]] @ y
                value = np.append((shares * q.reshape(S, 2)).sum(axis=1)[:-1], 2.0)
            assert found.sel(policy=name).values[i] == pytest.approx(value[1], abs=1e-9)
    profile = pr.risk_profile(model, theta, [0.0, 0.9], start=1, horizon=horizon)
    for alpha in (0.0, 0.9):
        plan = pr.BayesianRiskMDP(model, draws=theta, alpha=alpha).solve(horizon=horizon)
        own = pr.posterior_returns(model, theta, {"p": plan}, start=1, regret=False, horizon=horizon)["returns"]
        row = profile.to_pandas().loc[alpha]
        assert row["mean"] == pytest.approx(float(own.mean()), abs=1e-9)
