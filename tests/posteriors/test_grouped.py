"""Posteriors of outcomes that were seen only in part: trees, mixtures and the Gibbs sampler agree with integrals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special

import prudent as pr
from prudent.posteriors import DirichletPosterior, Group, GroupedPosterior
from prudent.posteriors import groups as kinds
from tests.support.refusals import refused


def by_quadrature(counts, groups, power):
    """Moments of a source with three outcomes, by an integral over the simplex."""

    def density(y, x, k):
        theta = np.array([x, y, 1.0 - x - y])
        if (theta <= 0.0).any():
            return 0.0
        log = ((counts - 1.0) * np.log(theta)).sum() + sum(m * np.log(theta[list(g)].sum()) for g, m in groups.items())
        return np.exp(log) * (theta[k] ** power if k >= 0 else 1.0)

    whole, *parts = (
        integrate.dblquad(density, 0.0, 1.0, 0.0, lambda x: 1.0 - x, args=(k,), epsabs=1e-10)[0] for k in (-1, 0, 1, 2)
    )
    return np.array(parts) / whole


@pytest.mark.parametrize("groups", [{(0, 1): 5.0}, {(0, 1): 3.0, (1, 2): 4.0}, {(0, 1): 2.0, (0, 2): 1.0, (1, 2): 3.0}])
def test_moments_are_those_of_the_density(groups):
    counts = np.array([2.0, 1.5, 3.0])
    mean, variance = kinds.grouped_source(counts, groups).moments()
    np.testing.assert_allclose(mean, by_quadrature(counts, groups, 1), atol=1e-7)
    np.testing.assert_allclose(variance + mean**2, by_quadrature(counts, groups, 2), atol=1e-7)


def test_a_tree_is_the_mixture_over_all_ways():
    counts = np.array([1.0, 2.0, 0.5, 3.0, 0.0])
    nested = {(0, 1): 4.0, (0, 1, 2): 3.0}
    for one, two in zip(kinds._Tree(counts, nested).moments(), kinds._Mixture(counts, nested).moments(), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-12)
    assert isinstance(kinds.grouped_source(counts, nested), kinds._Tree)


@given(
    st.lists(st.tuples(st.sets(st.integers(0, 3), min_size=2, max_size=3), st.integers(1, 3)), min_size=1, max_size=3)
)
@settings(max_examples=30, deadline=None)
def test_draws_have_the_moments_whatever_the_groups(listed):
    """Means of 4,000 draws within 6 standard errors: a false alarm in 10^8 for each number."""
    groups: dict = {}
    for outcomes, count in listed:
        groups[tuple(sorted(outcomes))] = groups.get(tuple(sorted(outcomes)), 0.0) + count
    counts = np.array([0.7, 2.0, 1.0, 4.0])
    mean, variance = kinds._Mixture(counts, groups).moments()
    for source in (kinds.grouped_source(counts, groups), kinds.GroupedSource(counts, groups)):
        draws = source.sample(4_000, np.random.default_rng(1))
        np.testing.assert_allclose(draws.sum(axis=1), 1.0)
        assert (abs(draws.mean(axis=0) - mean) <= 6.0 * np.sqrt(variance / 4_000)).all()


def test_what_says_nothing_changes_nothing():
    plain = DirichletPosterior([[1.0, 2.0, 0.0]])
    grouped = GroupedPosterior(plain.counts, [Group(0, (0, 1), 100.0)])
    np.testing.assert_allclose(grouped.mean(), plain.mean())
    np.testing.assert_array_equal(grouped.dirichlet().counts, plain.counts)
    assert grouped.ambiguous.tolist() == [100.0]


def test_one_outcome_that_is_possible_is_known():
    grouped = GroupedPosterior([[1.0, 0.0, 1.0]], [Group(0, (0, 1), 3.0)])
    assert grouped.counts.tolist() == [[4.0, 0.0, 1.0]]
    assert not grouped.ambiguous.any()
    with refused(pr.errors.DataError, "impossible-outcome", source=0):
        GroupedPosterior([[1.0, 0.0, 1.0]], [Group(0, (1,), 3.0)])


def test_counts_that_replace_it_are_not_surer():
    grouped = GroupedPosterior([[12.0, 1.0, 3.0, 2.0]], [Group(0, (1, 2), 9.0), Group(0, (2, 3), 4.0)])
    replaced = grouped.dirichlet()
    np.testing.assert_allclose(replaced.mean(), grouped.mean())
    assert (replaced.variance() >= grouped.variance() - 1e-12).all()


# -- logs ----------------------------------------------------------------------------------------------------


def corridor():
    """Two cells. A move succeeds (outcome 0), fails (1) or goes back (2); at the left end the last two look alike."""
    next_state = [[[1, 0, 0]], [[1, 1, 0]]]
    return pr.UncertainMDP([[0], [0]], next_state, np.zeros((2, 1, 3)), discount=0.9)


def test_tally_keeps_what_is_ambiguous_apart():
    model = corridor()
    counts, groups = model.tally([(0, 0, 0), (0, 0, 0), (0, 0, 1), (1, 0, 0), (0, 0, 0, 1)], model.prior())
    assert counts.tolist() == [[2.0, 2.0, 2.0]]
    assert groups == [Group(0, (1, 2), 2.0)]


def test_order_of_rows_does_not_matter(rng):
    model = corridor()
    log = model.trajectory([[0.5, 0.3, 0.2]], [0, 0], 50, rng=1)[:, :3]
    there, back = (pr.DirichletPosterior.from_log(model, rows, indices=True) for rows in (log, log[::-1]))
    np.testing.assert_allclose(there.counts, back.counts)
    assert there.ambiguous.sum() > 0


def quantiles_of(posterior, k, rng):
    if isinstance(posterior, GroupedPosterior):
        return np.quantile(posterior.sample(4_000, rng)[:, 0, k], [0.005, 0.995])
    a, total = posterior.counts[0, k], posterior.counts[0].sum()
    return special.betaincinv(a, total - a, [0.005, 0.995])


@pytest.mark.parametrize("kind", [pr.DirichletPosterior, GroupedPosterior])
def test_intervals_around_ambiguous_outcomes_cover_the_truth(kind, seed):
    """99% intervals of an outcome that is nearly always ambiguous cover 0.3 in at least 95% of 150 logs.

    Splitting counts by their means gave (0.354, 0.394). With a coverage of 99% the chance of fewer than 143 is 1e-4.
    """
    # moves that fail and moves that go back look alike but in one step of twenty, whose outcome was written down
    model = pr.UncertainMDP([[0]], [[[0, 0, 0]]], np.zeros((1, 1, 3)), discount=0.9)
    covered = 0
    for trial in range(150):
        rng = np.random.default_rng([seed, trial])
        theta = rng.dirichlet([1.0, 1.0, 1.0])
        outcome = rng.choice(3, 400, p=theta)
        known = (rng.random(400) < 0.05) | (outcome == 0)
        counts = 1.0 + np.bincount(outcome[known], minlength=3)
        grouped = GroupedPosterior([counts], [Group(0, (1, 2), float((~known).sum()))])
        low, high = quantiles_of(grouped if kind is GroupedPosterior else grouped.dirichlet(), 1, rng)
        covered += low <= theta[1] <= high
    assert model.n_outcomes == 3
    assert covered >= 143


def test_explanations_say_that_counts_are_approximate():
    model = pr.UncertainMDP(
        [[0], [0]], [[[1, 0, 0]], [[1, 1, 0]]], [[[0.0, 0.0, 0.0]], [[1.0, 1.0, 0.0]]], discount=0.9
    )
    posterior = pr.DirichletPosterior.from_log(model, [(0, 0, 0)] * 4 + [(0, 0, 1)])
    why = pr.BayesianRiskMDP(model, posterior, alpha=0.5).solve().explain(0)
    assert why.actions[0].ambiguous == 4.0
    assert "approximate" in str(why)
    assert "ambiguous" in repr(posterior)
    known = pr.DirichletPosterior.from_log(model, [(0, 0, 1)])
    assert "approximate" not in str(pr.BayesianRiskMDP(model, known, alpha=0.5).solve().explain(0))


def test_ambiguous_observations_are_saved_and_merged(tmp_path):
    model = corridor()
    one = pr.DirichletPosterior.from_log(model, [(0, 0, 0), (0, 0, 1)])
    one.save(tmp_path / "posterior")
    again = pr.DirichletPosterior.load(tmp_path / "posterior")
    assert again == one
    assert again.ambiguous.tolist() == [1.0]
    draws = GroupedPosterior.from_log(model, [(0, 0, 0), (0, 0, 1)]).sample(50, 1)
    assert pr.BayesianRiskMDP(model, alpha=0.5, draws=draws).solve().converged
