"""What every risk measure must obey, over a registry of all of them."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import prudent as pr
from prudent import exact, risk
from prudent.risk import CVaR, Mean, MeanCVaR, Mixture, ModifiedCVaR, RiskMeasure, Spectral, VaR, WorstCase
from prudent.testing import check_risk


def square_root(u):
    return u**0.5


def two_lines(u):
    return min(2.0 * u, 0.5 + 0.5 * u, 1.0)


MEASURES = {
    "mean": Mean(),
    "worst case": WorstCase(),
    "CVaR": CVaR(0.9),
    "CVaR, odd level": CVaR(0.37),
    "CVaR, neutral": CVaR(0.0),
    "CVaR, optimistic": CVaR(-0.8),
    "VaR": VaR(0.75),
    "VaR, optimistic": VaR(-0.75),
    "mean and CVaR": MeanCVaR(0.9, weight=0.25),
    "mixture": Mixture([0.0, 0.5, 0.95], [0.2, 0.5, 0.3]),
    "mixture of both signs": Mixture([0.9, -0.9], [0.5, 0.5]),
    "modified CVaR": ModifiedCVaR(0.5),
    "spectral": Spectral(square_root),
    "spectral, lines": Spectral(two_lines),
    "spectral, pieces": Spectral(square_root, pieces=8),
}
EQUIVALENTS = [risk.EntropicRisk(0.7), risk.EntropicRisk(-3.0), risk.EntropicRisk(0.0), risk.Expectile(0.1)]
COHERENT = {name for name in MEASURES if "VaR" not in name.split(",")[0].split() and "optimistic" not in name}
COHERENT = (COHERENT | {"CVaR", "CVaR, odd level", "CVaR, neutral", "mean and CVaR"}) - {
    "mixture of both signs",
    "modified CVaR",
    "VaR",
}
every_measure = pytest.mark.parametrize("name", MEASURES)
draws = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30).map(np.array)


def test_every_public_measure_is_registered():
    classes = {getattr(risk, name) for name in risk.__all__}
    public = {each for each in classes if isinstance(each, type) and issubclass(each, RiskMeasure)}
    equivalents = {each for each in public if issubclass(each, risk.CertaintyEquivalent)}
    assert public - equivalents - {RiskMeasure} == {type(measure) for measure in MEASURES.values()}
    assert equivalents - {risk.CertaintyEquivalent} == {type(measure) for measure in EQUIVALENTS}


@every_measure
@pytest.mark.parametrize("n", [2, 3, 10, 101])
def test_weights_are_probabilities_of_sorted_draws(name, n):
    measure = MEASURES[name]
    weights, outermost = measure.weights(n), measure.outermost(n)
    assert weights.shape == (n,)
    assert (weights >= 0.0).all()
    assert weights.sum() == pytest.approx(1.0)
    assert outermost.weights[-1] > 0.0
    ordered = weights if outermost.sign > 0.0 else weights[::-1]
    np.testing.assert_allclose(ordered[: outermost.weights.size], outermost.weights)
    assert not ordered[outermost.weights.size :].any()
    lowest = measure.lowest_weights(n)
    np.testing.assert_array_equal(lowest, weights[: lowest.size])


@every_measure
@given(z=draws, shift=st.floats(-100.0, 100.0), scale=st.floats(0.01, 100.0))
@settings(max_examples=20)
def test_translation_homogeneity_bounds_and_order(name, z, shift, scale):
    measure = MEASURES[name]
    value, size = measure(z), 1.0 + abs(z).max()
    assert value == pytest.approx(float(measure.weights(z.size) @ np.sort(z)), abs=1e-9 * size)
    assert z.min() - 1e-9 * size <= value <= z.max() + 1e-9 * size
    assert measure(z + shift) == pytest.approx(value + shift, abs=1e-8 * (size + abs(shift)))
    assert measure(scale * z) == pytest.approx(scale * value, abs=1e-8 * size * scale)
    assert measure(z[::-1]) == pytest.approx(value, abs=1e-9 * size)
    assert measure(z + abs(np.sin(z))) >= value - 1e-9 * size


@pytest.mark.parametrize("name", sorted(COHERENT))
@given(z=draws)
@settings(max_examples=20)
def test_coherent_measures_are_superadditive_and_averse(name, z):
    measure, other = MEASURES[name], np.roll(z, 1)[::-1]
    size = 1.0 + abs(z).max()
    assert measure(z + other) >= measure(z) + measure(other) - 1e-8 * size
    assert measure(z) <= z.mean() + 1e-9 * size


@every_measure
def test_axes_are_reduced(name):
    measure, z = MEASURES[name], np.random.default_rng(3).normal(size=(4, 5, 6))
    for axis in (0, 1, 2, -1):
        found = measure(z, axis=axis)
        assert found.shape == np.delete(z.shape, axis).tolist() or found.shape == tuple(np.delete(z.shape, axis))
        first = np.moveaxis(z, axis, -1)[0, 0]
        assert found[0, 0] == pytest.approx(measure(first))


@every_measure
def test_an_exact_form_is_the_limit_of_many_draws_or_is_refused(name):
    measure = MEASURES[name]
    if name in ("modified CVaR", "spectral"):
        with pytest.raises(pr.errors.ParameterError):
            measure.exact_form()
        return
    form = measure.exact_form()
    assert form.weights.sum() == pytest.approx(1.0)
    assert (abs(form.levels) <= 1.0).all()
    values, counts = np.array([0.0, 1.0, 4.0]), np.array([2.0, 3.0, 1.5])
    exactly = exact.risk_dirichlet(values, counts, measure)
    assert exactly.means @ values == pytest.approx(float(exactly.value), abs=1e-9)
    if name == "worst case":
        return
    z = np.random.default_rng(4).dirichlet(counts, 200_000) @ values
    # the standard error is below 0.02: a false alarm has probability below 1e-6
    assert measure(z) == pytest.approx(float(exactly.value), abs=0.1)


@every_measure
def test_measures_are_values(name):
    measure = MEASURES[name]
    for twin in (copy.copy(measure), copy.deepcopy(measure), pickle.loads(pickle.dumps(measure))):
        assert twin == measure
        assert hash(twin) == hash(measure)
        assert repr(twin) == repr(measure)


@every_measure
def test_a_problem_takes_every_measure(name):
    model = pr.UncertainMDP.direct([[0.0, 0.1], [1.0, 0.8]], 0.8)
    problem = pr.BayesianRiskMDP(model, model.prior(), risk=MEASURES[name])
    solution = problem.solve() if problem.is_exact else problem.solve(draws=20, rng=1)
    assert solution.converged
    assert 0.0 <= solution.value.min() <= solution.value.max() <= 5.0 + 1e-9


@pytest.mark.parametrize("measure", [*EQUIVALENTS, *MEASURES.values()], ids=lambda measure: type(measure).__name__)
def test_public_suite_accepts_ours(measure, seed):
    check_risk(measure, rng=seed)
