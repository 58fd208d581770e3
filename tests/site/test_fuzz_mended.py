"""What fuzzed calls have found: calls that once ended in an error of another library, a silent NaN or wrong digits."""

import numpy as np
import pytest
from refusals import refused

import prudent as pr
from prudent import evaluation, exact, posteriors, risk, theory
from prudent.errors import DataError, ModelError, ParameterError, PosteriorError
from prudent.planning import BayesianRiskMDP

RAGGED = [[1.0], [1.0, 2.0]]
LAKE = pr.envs.frozen_lake(0.2)
MODEL = pr.UncertainMDP.direct([[0.0, 1.0], [1.0, 0.0]], 0.9)


def scaled(size):
    return pr.UncertainMDP.direct(size * np.array([[0.0, 1.0], [1.0, 0.5]]), 0.9)


@pytest.mark.parametrize("total", [1e-3, 1e-10, 1e-50, 1e-160, 1e-313])
def test_entropic_risk_of_tiny_counts(total):
    """In the limit one outcome has everything: -(1/b) log sum p_k exp(-b v_k)."""
    values, shares, beta = np.array([0.81, -1.13, 1.14]), np.array([0.2, 0.3, 0.5]), 0.4
    found = exact.risk_dirichlet(values, total * shares, risk.EntropicRisk(beta))
    limit = -np.log(shares @ np.exp(-beta * values)) / beta
    assert float(found.value) == pytest.approx(
        limit, abs=2.0 * total + (1e-12 if total > 1e-300 else 1e-6)
    )  # subnormal shares are rounded


@pytest.mark.parametrize("size", [1e-308, 1e150, 1e300, 1e307])
@pytest.mark.parametrize(
    "call",
    [
        lambda model: pr.returns(model.mdp(model.prior() / 2.0), [0, 1], start=0, horizon=3, replications=5, rng=1),
        lambda model: pr.posterior_returns(model, model.prior(), [0, 1], draws=5, rng=1),
        lambda model: pr.risk_profile(model, model.prior(), [0.0], draws=5, rng=1),
        lambda model: pr.value_of_data(model, model.prior(), 0.5, replications=4, rng=1),
        lambda model: pr.simulate((model, model.prior() / 2.0), pr.brps_rl(0.5), episodes=2, replications=2),
        lambda model: theory.limit_law(model.mdp(model.prior() / 2.0), [0, 1], 0.5),
    ],
    ids=["returns", "posterior_returns", "risk_profile", "value_of_data", "simulate", "limit_law"],
)
def test_rewards_whose_squares_overflow_or_vanish(call, size):
    with refused(ModelError, "overflow" if size > 1.0 else "underflow", argument="reward"):
        call(scaled(size))


@pytest.mark.parametrize(
    ("error", "code", "call"),
    [
        (ParameterError, "unknown-option", lambda: pr.LinearBandit(2, 1, rewards=np.zeros((2, 2)))),
        (ParameterError, "unknown-option", lambda: pr.SharedLinearBandit(2, rewards=np.array([]))),
        (ParameterError, "value-range", lambda: pr.SharedLinearBandit(2, offsets=True, offset_precision=1e-320)),
        (ParameterError, "integer-range", lambda: pr.returns(LAKE.mdp(), np.zeros(16, int), horizon=10**30)),
        (ParameterError, "wrong-type", lambda: pr.posterior_returns(MODEL, MODEL.prior(), np.array(1.0))),
        (DataError, "wrong-type", lambda: posteriors.GroupedPosterior([[1.0]], [posteriors.Group(0, (0, 1), 3.0)])),
        (DataError, "too-large", lambda: posteriors.LinearGaussianPosterior(2).predict([1e200, 1e200])),
        (DataError, "too-large", lambda: posteriors.LinearGaussianPosterior(2).update([1e11, 1.3e11], 1.0)),
        (DataError, "too-large", lambda: posteriors.NormalPosterior([0.0], 1.0, 1.0).update(0, 1e300)),
        (ModelError, "wrong-shape", lambda: theory.stationary_distribution(np.empty((0, 0)))),
        (ModelError, "sum-not-one", lambda: theory.stationary_distribution(np.full((3, 3), 1e308))),
    ],
)
def test_strange_arguments_are_refused(error, code, call):
    with refused(error, code):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: pr.brps_rl(RAGGED),
        lambda: posteriors.LinearGaussianPosterior(2, RAGGED),
        lambda: pr.envs.frozen_lake(0.1, slip=RAGGED),
        lambda: pr.returns(LAKE.mdp(), np.zeros(16, int), start=RAGGED, horizon=2),
        lambda: pr.from_log({"state": ["a"], "action": 1.0, "next_state": ["a"], "reward": [0.0]}, 0.9),
        lambda: evaluation.replay(
            {"arm": [["a"], "b"], "reward": [1.0, 0.0], "propensity": [0.5, 0.5], "context": [[1.0], [0.0]]},
            pr.LinearBandit(["a", "b"], 1),
        ),
    ],
)
def test_ragged_lists_and_columns_are_refused(call):
    with pytest.raises((ParameterError, DataError, PosteriorError)):
        call()


@pytest.mark.parametrize("measure", [risk.EntropicRisk(0.5), risk.EntropicRisk(1.7e308), risk.Expectile(0.3)])
@pytest.mark.parametrize("size", [1e-151, 1.0, 1e147, 1.7e307])
def test_equivalents_of_huge_draws_lie_among_them(measure, size, rng):
    for draws in (np.full(9, size), size * rng.normal(size=9)):
        assert draws.min() - 1e-9 * size <= measure(draws) <= draws.max() + 1e-9 * size


def test_draws_of_tiny_ambiguous_counts_are_probabilities():
    posterior = posteriors.GroupedPosterior(np.full((1, 3), 1e-316), [posteriors.Group(0, (0, 1), 3.0)])
    assert posterior.sample(4, rng=1).sum(axis=-1) == pytest.approx(1.0)


def test_values_of_ordinary_rewards_are_still_solved():
    assert np.isfinite(BayesianRiskMDP(scaled(1e60), MODEL.prior(), 0.5).solve().value).all()
