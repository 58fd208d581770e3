"""Triangles and halves: the same matrices in half of the memory, and sums that keep more digits than a double."""

from fractions import Fraction

import numpy as np
import pytest

from prudent._numerics.least_squares import add_observations, add_to_root, solve_posterior
from prudent._numerics.triangles import (
    diagonal_of,
    errors_of,
    flat,
    halves_of,
    lower_of,
    size_of,
    symmetric_of,
    triangle_of,
)


@pytest.mark.parametrize("dim", [1, 2, 5, 63, 64, 70])
def test_triangles_solve_as_square_arrays_do(dim, rng):
    """The same sums give the same bits, in both ways of factoring (fewer than 64 features, and more)."""
    contexts, rewards = rng.normal(size=(2 * dim, dim)), rng.normal(size=2 * dim)
    prior = np.diag(rng.uniform(0.5, 2.0, size=dim))
    size = (dim + 1) * (dim + 2) // 2
    total, rest = np.zeros(size), np.zeros(size, dtype=np.uint32)
    add_observations(total, rest, contexts, rewards)
    square = [symmetric_of(total), symmetric_of(errors_of(rest))]
    root, mean = np.empty(dim * (dim + 1) // 2), np.empty(dim)
    solve_posterior(total, rest, triangle_of(prior), root, mean)
    other, expected = np.empty((dim, dim)), np.empty(dim)
    solve_posterior(*flat(*square, prior, other), expected)
    np.testing.assert_array_equal(lower_of(root), other)
    np.testing.assert_array_equal(mean, expected)
    add_to_root(root, contexts[0], 0.7)
    add_to_root(other.reshape(-1), contexts[0], 0.7)
    np.testing.assert_array_equal(lower_of(root), other)
    np.testing.assert_array_equal(other, np.tril(other))
    precision = prior + contexts.T @ contexts + 0.7 * np.outer(contexts[0], contexts[0])
    np.testing.assert_allclose(other.T @ other, np.linalg.inv(precision), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e50])
def test_sums_with_halves_of_errors_have_seventy_bits(scale, rng):
    """Of exact products, on any scale: what is lost in 2,000 sums is some 2,000 times 2^-75 of them at most."""
    contexts = scale * rng.integers(1, 2**20, size=(2000, 1)).astype(float)
    contexts = np.round(contexts / scale) * 2.0 ** np.round(np.log2(scale))  # exact squares
    total, rest = np.zeros(3), np.zeros(3, dtype=np.uint32)
    add_observations(total, rest, contexts, np.zeros(2000))
    exact = sum(Fraction(float(x)) ** 2 for x in contexts[:, 0])
    found = Fraction(float(total[0])) + Fraction(float(errors_of(rest)[0]))
    assert abs(found - exact) <= exact * Fraction(2000, 2**75)
    assert float(exact) == total[0]


def test_halves_round_to_the_nearest(rng):
    numbers = rng.normal(size=1000) * 10.0 ** rng.uniform(-300, 300, size=1000)
    back = errors_of(halves_of(numbers))
    assert (np.abs(back - numbers) <= 2.0**-21 * np.abs(numbers)).all()
    np.testing.assert_array_equal(halves_of(back), halves_of(numbers))
    np.testing.assert_array_equal(errors_of(halves_of(np.zeros(2))), 0.0)


@pytest.mark.parametrize("dim", [1, 2, 7, 301])
def test_triangles_hold_rows(dim, rng):
    matrix = rng.normal(size=(2, dim, dim))
    matrix += matrix.swapaxes(1, 2)
    triangle = triangle_of(matrix)
    assert triangle.shape == (2, dim * (dim + 1) // 2)
    assert size_of(triangle.shape[1]) == dim
    np.testing.assert_array_equal(symmetric_of(triangle), matrix)
    np.testing.assert_array_equal(lower_of(triangle), np.tril(matrix))
    np.testing.assert_array_equal(triangle[:, diagonal_of(dim)], np.diagonal(matrix, axis1=1, axis2=2))
