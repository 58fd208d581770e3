"""Measures of one's own: weights are checked, equivalents are solved, approximations are in the error bound."""

import mpmath
import numpy as np
import pytest

import prudent as pr
from prudent.risk import CertaintyEquivalent, CVaR, EntropicRisk, Expectile, RiskMeasure, Spectral
from prudent.risk.base import ExactForm
from prudent.risk.equivalents import EquivalentRows
from prudent.testing import check_risk
from tests.support.refusals import refused


def with_weights(weights):
    class Given(RiskMeasure):
        def tail_weights(self, n):
            return np.asarray(weights)

    return Given()


def small_problem(rng, risk, discount=0.9, states=4, actions=2):
    model = pr.UncertainMDP.direct(rng.normal(size=(states, actions)), discount=discount)
    counts = rng.gamma(1.0, 2.0, (states * actions, states)) + 0.1
    return pr.BayesianRiskMDP(model, pr.DirichletPosterior(counts), risk=risk)


# -- weights -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "code"),
    [
        ([0.5, 0.48], "sum-not-one"),
        ([np.nan, 0.5], "not-finite"),
        ([1.5, -0.5], "negative"),
        ([], "wrong-shape"),
        ([0.1] * 10, "wrong-shape"),
        ([[0.5, 0.5]], "wrong-shape"),
    ],
)
def test_weights_that_are_no_distribution_are_refused_wherever_they_are_taken(weights, code, rng):
    measure = with_weights(weights)
    with refused(pr.errors.ParameterError, code):
        measure([1.0, 2.0, 3.0])
    with refused(pr.errors.ParameterError, code):
        small_problem(rng, measure).solve(draws=3, rng=1)
    with refused(pr.errors.ParameterError, code):
        pr.agents.SamplingSettings(risk=measure, draws=3).plan()


def test_weights_that_almost_sum_to_one_are_normalised():
    assert with_weights([0.5, 0.5 + 1e-10]).weights(2).sum() == 1.0


@pytest.mark.parametrize("name", ["__call__", "weights", "lowest_weights", "outermost"])
def test_a_measure_cannot_override_what_solvers_would_ignore(name):
    with refused(pr.errors.ParameterError, "final-method", value=name):
        type("Ignored", (RiskMeasure,), {name: lambda self, *arguments: 0.0})


@pytest.mark.parametrize(
    ("form", "code"),
    [
        (ExactForm(np.array([0.9, 0.5]), np.array([0.5, 0.48]), False), "sum-not-one"),
        (ExactForm(np.array([0.9, 0.0]), np.array([-0.5, 1.5]), False), "negative"),
        (ExactForm(np.array([0.9, 0.5]), np.array([-0.1, 1.1]), True), "negative"),
        (ExactForm(np.array([1.0]), np.array([1.0]), False), "alpha-range"),
        (ExactForm(np.array([np.nan]), np.array([1.0]), False), "not-finite"),
    ],
)
def test_exact_forms_that_are_not_monotone_are_refused(form, code, rng):
    class Given(RiskMeasure):
        def tail_weights(self, n):
            return np.ones(1)

        def exact_form(self):
            return form

    with refused(pr.errors.ParameterError, code):
        small_problem(rng, Given()).solve()
    with refused(pr.errors.ParameterError, code):
        pr.exact.risk_dirichlet([0.0, 1.0], [1.0, 1.0], Given())


def test_a_convex_distortion_has_negative_weights_and_is_monotone(rng):
    convex = Spectral(lambda u: max(0.5 * u, 1.5 * u - 0.5))  # counts good outcomes more
    assert (convex.exact_form().weights < 0.0).any()
    assert small_problem(rng, convex).solve().converged


# -- approximated measures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "distortion", [lambda u: 1.0 - (1.0 - u) ** 2, lambda u: u**3, lambda u: u * u * (3.0 - 2.0 * u)]
)
@pytest.mark.parametrize("pieces", [1, 4, 25])
def test_gap_bounds_the_distance_of_lines(distortion, pieces):
    fine = np.linspace(0.0, 1.0, 20_001)
    lines = np.interp(fine, np.arange(pieces + 1) / pieces, [distortion(i / pieces) for i in range(pieces + 1)])
    true = abs(np.array([distortion(u) for u in fine]) - lines).max()
    assert true <= Spectral(distortion, pieces=pieces).gap <= 4.0 * true + 1e-12


@pytest.mark.parametrize("discount", [0.5, 0.95])
def test_the_error_bound_covers_the_lines_that_replace_a_distortion(discount, rng):
    distortion = lambda u: 1.0 - (1.0 - u) ** 2  # noqa: E731
    for _ in range(5):
        problem = small_problem(rng, Spectral(distortion, pieces=400), discount)
        sharp, horizon = problem.solve(), problem.solve(horizon=4)
        for pieces in (1, 3, 10):
            twin = pr.BayesianRiskMDP(problem.model, problem.posterior, risk=Spectral(distortion, pieces=pieces))
            for exact, rough in ((sharp, twin.solve()), (horizon, twin.solve(horizon=4))):
                off = abs(rough.value - exact.value).max()
                assert off <= rough.error_bound + exact.error_bound
                assert rough.error_bound <= 100.0 * off + exact.error_bound


def test_the_error_of_a_row_covers_the_lines(rng):
    values, counts = rng.normal(size=5), rng.gamma(1.0, 1.0, 5) + 0.1
    rough, sharp = (
        pr.exact.risk_dirichlet(values, counts, Spectral(lambda u: 1.0 - (1.0 - u) ** 2, pieces=n)) for n in (2, 500)
    )
    assert 0.0 < abs(rough.value - sharp.value) <= rough.error


# -- certainty equivalents -------------------------------------------------------------------------------------


def entropic_by_mpmath(values, counts, beta):
    """Sum the power series of the multivariate confluent hypergeometric function with 60 digits."""
    with mpmath.workdps(60):
        numbers = [mpmath.mpf(float(v)) for v in values]
        psi, strength = [mpmath.mpf(float(c)) for c in counts], mpmath.mpf(float(beta))
        high = max(numbers) if beta > 0 else min(numbers)
        x = [strength * (high - v) for v in numbers]
        powers, sums, series = [mpmath.mpf(1)] * len(x), [None], [mpmath.mpf(1)]
        total, rising, j = mpmath.mpf(1), mpmath.mpf(1), 0
        while True:
            j += 1
            powers = [p * v for p, v in zip(powers, x, strict=True)]
            sums.append(sum(c * p for c, p in zip(psi, powers, strict=True)))
            series.append(sum(sums[i] * series[j - i] for i in range(1, j + 1)) / j)
            rising *= sum(psi) + j - 1
            total += series[j] / rising
            if j > max(x) and series[j] / rising < mpmath.mpf(10) ** -50 * total:
                return high - mpmath.log(total) / strength


@pytest.mark.parametrize("strength", [1e-9, 1e-3, 0.5, 0.999, 1.001, 7.0, 59.0, 61.0, 200.0])
def test_entropic_risk_of_a_dirichlet_mean_has_all_digits(strength, rng):
    for _ in range(4):
        n = int(rng.integers(2, 6))
        counts = 10.0 ** rng.uniform(-3.0, 6.0, n)
        values = rng.normal(size=n) * 10.0 ** rng.uniform(-3.0, 3.0)
        spread = np.ptp(values)
        for sign in (1.0, -1.0):
            beta = sign * strength / spread
            found = pr.exact.risk_dirichlet(values, counts, EntropicRisk(beta))
            off = float(abs(entropic_by_mpmath(values, counts, beta) - mpmath.mpf(float(found.value))))
            assert off <= found.error
            assert found.error <= 1e-11 * spread + 1e-14 * abs(values).max()
            assert found.means.sum() == pytest.approx(1.0, abs=1e-12)


def test_two_outcomes_are_kummer_s_function():
    for a, b, beta in ((0.3, 2.0, 5.0), (40.0, 1.0, -2.0), (1.0, 1.0, 300.0)):
        known = -mpmath.log(mpmath.hyp1f1(a, a + b, -beta)) / beta
        found = pr.exact.risk_dirichlet([1.0, 0.0], [a, b], EntropicRisk(beta)).value
        assert found == pytest.approx(float(known), abs=1e-14)


def test_entropic_gradient_is_the_derivative(rng):
    values, counts, step = rng.normal(size=4), rng.gamma(1.0, 2.0, 4) + 0.1, 1e-6
    for beta in (0.3, 4.0, 100.0):
        risk = EntropicRisk(beta)
        found = pr.exact.risk_dirichlet(values, counts, risk).means
        moved = pr.exact.risk_dirichlet(values + step * np.eye(4), counts, risk).value
        back = pr.exact.risk_dirichlet(values - step * np.eye(4), counts, risk).value
        np.testing.assert_allclose(found, (moved - back) / (2.0 * step), atol=1e-7)


def test_outcomes_that_cannot_happen_and_constants():
    assert pr.exact.risk_dirichlet([3.0, -9.0, 3.0], [1.0, 0.0, 2.0], EntropicRisk(2.0)).value == 3.0
    assert pr.exact.risk_dirichlet([7.0], [1.0], EntropicRisk(-1.0)).value == 7.0


def swept(problem, draws, sweeps):
    """Values by plain sweeps over the draws."""
    model = problem.model
    reward, value = model.mdp(draws[0]).reward, np.zeros(model.n_states)
    chain = draws.reshape(draws.shape[0], *reward.shape, model.n_states)
    for _ in range(sweeps):
        value = np.asarray(problem.risk(reward + model.discount * (chain @ value))).max(axis=1)
    return value


class HalfwayToWorst(CertaintyEquivalent):
    def of_draws(self, draws):
        return 0.5 * (draws.mean(axis=0) + draws.min(axis=0))


@pytest.mark.parametrize(
    "measure",
    [EntropicRisk(2.0), EntropicRisk(-5.0), Expectile(0.05), HalfwayToWorst()],
    ids=["2", "-5", "expectile", "own"],
)
def test_equivalents_of_draws_are_solved(measure, rng):
    problem = small_problem(rng, measure)
    theta = problem.posterior.sample(40, rng)
    found = problem.solve(draws=theta)
    assert found.converged
    np.testing.assert_allclose(found.value, swept(problem, theta, 400), atol=found.error_bound + 1e-12)
    value = problem.evaluate(found.policy, draws=theta).value
    np.testing.assert_allclose(value, found.value, atol=1e-8)
    assert "on average" in str(found.explain(0))


class MeanLessDeviation(CertaintyEquivalent):
    def of_draws(self, draws):
        return draws.mean(axis=0) - draws.std(axis=0)


class Shrunk(CertaintyEquivalent):
    def of_draws(self, draws):
        return 0.9 * draws.mean(axis=0)


class Optimist(CertaintyEquivalent):  # of outcomes, and no draws
    def of_draws(self, draws):
        return draws.mean(axis=0)

    def of_dirichlet(self, values, counts):
        found = values.max(axis=1) - values.min(axis=1)
        return EquivalentRows(found, np.full(values.shape, 1.0 / values.shape[1]), np.zeros(len(values)))


class NaiveLogMeanExp(CertaintyEquivalent):  # overflows for large draws, which the model does not have
    def of_draws(self, draws):
        return -np.log(np.exp(-draws).mean(axis=0))


def test_a_measure_that_breaks_the_certificate_is_refused_before_the_solve(rng):
    for measure, law in ((MeanLessDeviation(), "monotone"), (Shrunk(), "translation")):
        with refused(pr.errors.ConformanceError, "risk-law", argument="risk", law=law):
            small_problem(rng, measure).solve(draws=50, rng=1)
    with refused(pr.errors.ConformanceError, "risk-law", argument="risk", law="translation"):
        small_problem(rng, Optimist()).solve()
    assert small_problem(rng, NaiveLogMeanExp()).solve(draws=50, rng=1).converged


@pytest.mark.slow
def test_certificates_of_equivalents_are_never_false(seed):
    """2,000 random models: the exact values lie within the bound of values that were stopped early."""
    for trial in range(2_000):
        rng = np.random.default_rng([seed, trial])
        drawn = rng.integers(2)  # or exact, without draws
        measure = EntropicRisk(10.0 ** rng.uniform(-3.0, 2.0))
        if drawn:
            measure = [measure, Expectile(rng.uniform(0.01, 0.99)), HalfwayToWorst()][rng.integers(3)]
        problem = small_problem(rng, measure, discount=rng.uniform(0.1, 0.99))
        draws = {"draws": problem.posterior.sample(20, rng)} if drawn else {}
        sharp = problem.solve(**draws)
        for options in ({"sweeps": int(rng.integers(1, 20))}, {"tol": 10.0 ** rng.uniform(-6.0, 0.0)}):
            rough = problem.solve(**draws, **options)
            assert abs(rough.value - sharp.value).max() <= rough.error_bound + sharp.error_bound


def test_entropic_solution_equals_sweeps_with_mpmath(rng):
    problem = small_problem(rng, EntropicRisk(3.0), discount=0.6, states=3)
    counts, reward = problem.posterior.counts, problem.model.mdp(problem.posterior.mean()).reward
    value = np.zeros(3)
    for _ in range(50):
        q = [
            [r + float(entropic_by_mpmath(0.6 * value, counts[2 * s + a], 3.0)) for a, r in enumerate(reward[s])]
            for s in range(3)
        ]
        value = np.max(q, axis=1)
    np.testing.assert_allclose(problem.solve(tol=1e-12).value, value, atol=1e-10)


def test_levels_meet_at_the_mean_and_the_worst_case(rng):
    neutral = small_problem(rng, EntropicRisk(0.0))
    twin = pr.BayesianRiskMDP(neutral.model, neutral.posterior, alpha=0.0)
    np.testing.assert_allclose(neutral.solve().value, twin.solve().value, atol=1e-9)
    values = [
        pr.BayesianRiskMDP(neutral.model, neutral.posterior, risk=EntropicRisk(b)).solve().value for b in (-9, 0, 9)
    ]
    assert (values[0] > values[1]).all()
    assert (values[1] > values[2]).all()


def test_equivalents_say_where_they_do_not_fit(rng):
    with refused(pr.errors.ParameterError, "no-exact-form"):
        small_problem(rng, Expectile(0.1)).solve()
    with refused(pr.errors.ParameterError, "no-weights"):
        pr.agents.SamplingSettings(risk=EntropicRisk(1.0), draws=5).plan()
    with refused(pr.errors.ParameterError, "missing-argument", argument="horizon"):
        small_problem(rng, EntropicRisk(1.0), discount=1.0).solve()
    assert small_problem(rng, EntropicRisk(1.0), discount=1.0).solve(horizon=3).converged
    for beta in (np.inf, "x", None):
        with refused(pr.errors.ParameterError, "not-finite", argument="beta"):
            EntropicRisk(beta)


def test_an_equivalent_with_a_wrong_answer_is_refused(rng):
    for answer, code in (([1.0, 2.0, 3.0], "wrong-shape"), (np.nan, "not-finite")):
        broken = type("Broken", (CertaintyEquivalent,), {"of_draws": lambda self, draws, a=answer: np.asarray(a)})()
        with refused(pr.errors.ParameterError, code, argument="of_draws"):
            broken([1.0, 2.0])


# -- the public suite ------------------------------------------------------------------------------------------


class Wrong(CertaintyEquivalent):
    def __init__(self, function, slopes=None):
        self.function, self.slopes = function, slopes

    def of_draws(self, draws):
        return self.function(draws)

    def gradient(self, draws):
        return super().gradient(draws) if self.slopes is None else self.slopes(np.asarray(draws))


@pytest.mark.parametrize(
    ("measure", "law"),
    [
        (Wrong(lambda z: np.maximum(z.min(axis=0), z.mean(axis=0) - z.std(axis=0))), "monotone"),
        (Wrong(lambda z: np.cbrt(z).mean(axis=0) ** 3), "translation"),
        (Wrong(lambda z: z[0]), "order"),
        (Wrong(lambda z: z.max(axis=0) + 1.0), "bounds"),
        (Wrong(lambda z: z.mean(axis=0), lambda z: np.zeros(z.shape)), "gradient"),
    ],
)
def test_the_suite_finds_broken_measures(measure, law, seed):
    with refused(pr.errors.ConformanceError, "risk-law", law=law):
        check_risk(measure, rng=seed)


def test_the_suite_finds_an_exact_form_of_another_measure(seed):
    class Mixed(RiskMeasure):
        def tail_weights(self, n):
            return np.full(n, 1.0 / n)

        def exact_form(self):
            return CVaR(0.5).exact_form()

    with refused(pr.errors.ConformanceError, "risk-law", law="exact form"):
        check_risk(Mixed(), rng=seed)


def test_the_suite_finds_a_dirichlet_form_of_another_measure(seed):
    class Other(EntropicRisk):
        def of_dirichlet(self, values, counts):
            return EntropicRisk(2.0 * self.beta).of_dirichlet(values, counts)

    with refused(pr.errors.ConformanceError, "risk-law", law="of_dirichlet"):
        check_risk(Other(2.0), rng=seed)
