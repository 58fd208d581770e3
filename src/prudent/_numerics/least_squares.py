"""Kernels of the linear-Gaussian posterior: the sums of its data, and the solution of the normal equations.

The Gaussian update of the paper is V = P + sum s s' and b = sum s r with the posterior Normal(V^-1 b, nu^2 V^-1). Both
sums are blocks of the gram matrix, the sum of z z' with z = (s, r). The matrix is a compensated sum, a running total
and its rounding error, because a plain sum loses the small eigenvalues of nearly collinear contexts.

Matrices are triangles or square arrays in one row (``triangles``): total, rounding errors, the prior precision P and
the root of V^-1. Rounding errors are numbers, or their halves.

An observation of weight w enters as sqrt(w) z. The gram matrix also has the sum of squared residuals: with a prior mean
m, the normal-inverse-gamma update needs q = sum (r - s'm)^2 - g'V^-1 g with g = sum s (r - s'm). Both terms are
computed from the sums in twice the working precision, so that rewards far from zero, such as 1,000,001 and 1,000,002,
lose no digits.

From ``LARGE`` features on, kernels take the same sums in the same order, and so with the same bits, but several at a
time: the loops become vector instructions, and numbers read from memory are used more than once.

If the pivots of V show that its small eigenvalues depend on the last digits, V is factored in twice the working
precision and the mean is refined iteratively. A posterior after a million nearly collinear contexts is then as accurate
as after one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._support.checks import FloatArray
from .compensated import two_product, two_sum
from .compile import inlined, kernel, lean
from .copying import put
from .triangles import entry_of, error_of, half_of, is_square, keeps_halves, row_of

LARGE = 64  # number of features from which each reward updates the root instead of factoring V again
_PANEL = 32  # rows of a panel, which stays in the cache while the other rows are updated with it
_LARGEST_PIVOT_RATIO = 1e4  # larger ratios would cost more than four of sixteen digits in double precision


@lean
def add_observation(total: Any, rest: Any, context: FloatArray, reward: float, weight: float) -> None:
    """Add weight z z' for z = (context, reward) to the sums, ``total`` and its rounding errors ``rest``."""
    dim = context.shape[0]
    length = math.sqrt(weight)
    last = length * reward
    square = is_square(total, dim + 1)
    for i in range(dim + 1):
        left = length * context[i] if i < dim else last
        start = i * (dim + 1) if square else i * (i + 1) // 2
        sums, errors = total[start : start + dim + 1], rest[start : start + dim + 1]
        add_row(sums, errors, left, length, context, dim if square else min(i + 1, dim))
        if i == dim:  # residuals may be much smaller than rewards
            add_term(sums, errors, dim, last * last, two_product(last, last)[1])
        elif square:
            add_term(sums, errors, dim, left * last, 0.0)


@lean
def add_row(sums: Any, errors: Any, left: float, length: float, context: FloatArray, size: int) -> None:
    """Add ``left`` times ``length`` times the first numbers of a context to a row of sums and their rounding errors."""
    for j in range(size):  # without calls: that becomes vector code
        before, term = sums[j], left * (length * context[j])
        total = before + term
        back = total - before
        lost = error_of(errors[j]) + ((before - (total - back)) + (term - back))
        if keeps_halves(errors):  # of an error that is as small as can be
            sums[j] = total + lost
            errors[j] = half_of(lost - ((total + lost) - total))
        else:
            sums[j] = total
            errors[j] = lost


@lean
def add_term(sums: Any, errors: Any, j: int, term: float, more: float) -> None:
    """Add a term, and ``more`` that is lost beside it, to an entry of a row of sums and their rounding errors."""
    total, lost = two_sum(sums[j], term)
    lost = (error_of(errors[j]) + lost) + more
    if keeps_halves(errors):
        total, lost = two_sum(total, lost)
        errors[j] = half_of(lost)
    else:
        errors[j] = lost
    sums[j] = total


@lean
def add_observations(total: Any, rest: Any, contexts: FloatArray, rewards: FloatArray) -> None:
    """Add rewards [T] in contexts [T,D], in order."""
    for t in range(contexts.shape[0]):
        add_observation(total, rest, contexts[t], rewards[t], 1.0)


@lean
def solve_posterior(total: Any, rest: Any, prior: FloatArray, root: FloatArray, mean: FloatArray) -> None:
    """Write ``root``, lower triangular with V^-1 = root' root, and ``mean`` [D] = V^-1 b."""
    dim = mean.shape[0]
    careful = factor_precision(total, rest, prior, root, dim)
    sums, errors = row_of(total, dim, dim + 1), row_of(rest, dim, dim + 1)
    for i in range(dim):
        mean[i] = sums[i] + error_of(errors[i])
    _apply_inverse(root, mean)
    if careful:
        _refine_mean(total, rest, prior, root, mean)


@kernel
def add_to_square(gram: FloatArray, contexts: FloatArray, rewards: FloatArray) -> None:
    """Add rewards [T] in contexts [T,D] to sums and their rounding errors in square arrays [2,D+1,D+1]."""
    add_observations(gram[0].reshape(-1), gram[1].reshape(-1), contexts, rewards)


@kernel
def solve_square(gram: FloatArray, prior: FloatArray, root: FloatArray, mean: FloatArray) -> None:
    """Write ``root`` [D,D] and ``mean`` [D], given sums in square arrays [2,D+1,D+1]."""
    solve_posterior(gram[0].reshape(-1), gram[1].reshape(-1), prior.reshape(-1), root.reshape(-1), mean)


@lean
def factor_precision(total: Any, rest: Any, prior: FloatArray, root: FloatArray, dim: int) -> bool:
    """Write ``root``; return whether that needed twice the precision, so that solutions must be refined."""
    largest = 0.0
    for i in range(dim):
        row, given, sums, errors = (
            row_of(root, i, dim),
            row_of(prior, i, dim),
            row_of(total, i, dim + 1),
            row_of(rest, i, dim + 1),
        )
        for j in range(i + 1):
            row[j] = (given[j] + sums[j]) + error_of(errors[j])
        largest = max(largest, row[i])
    if dim >= LARGE:
        careful = not _factor_large(root, dim)
        if careful:
            _factor_carefully(total, rest, prior, root, dim)
        _invert_large(root, dim)
        return careful
    # Cholesky, V = L L', row by row and in place
    least = math.inf
    for i in range(dim):
        row = row_of(root, i, dim)
        for j in range(i):
            value, other = row[j], row_of(root, j, dim)
            for k in range(j):
                value -= row[k] * other[k]
            row[j] = value / other[j]
        pivot = row[i]
        for k in range(i):
            pivot -= row[k] * row[k]
        least = min(least, pivot)
        if least * _LARGEST_PIVOT_RATIO <= largest:
            break
        row[i] = math.sqrt(pivot)
    careful = least * _LARGEST_PIVOT_RATIO <= largest
    if careful:
        _factor_carefully(total, rest, prior, root, dim)
    _invert_triangle(root, dim)
    return careful


@kernel
def _factor_large(root: FloatArray, dim: int) -> bool:
    """Replace the lower triangle of V by L with V = L L'; return False, and stop, if that needs more precision.

    A pivot is compared with its own diagonal entry, so the scales of the features do not matter.
    """
    upper = np.empty((dim, dim))  # L'
    for i in range(dim):
        row = row_of(root, i, dim)
        for j in range(i + 1):
            upper[j, i] = row[j]
    for start in range(0, dim, _PANEL):
        stop = min(start + _PANEL, dim)
        for k in range(start, stop):
            row = upper[k, k:]
            for p in range(start, k):
                _subtract(row, upper[p, k], upper[p, k:])
            pivot, largest = row[0], max(1.0, row_of(root, k, dim)[k])
            if min(pivot, largest) * _LARGEST_PIVOT_RATIO <= largest:
                return False
            row[0] = math.sqrt(pivot)
            for j in range(1, row.shape[0]):
                row[j] /= row[0]
        for i in range(stop, dim):
            row = upper[i, i:]
            for k in range(start, start + 4 * ((stop - start) // 4), 4):
                a, b, c, d = upper[k, i:], upper[k + 1, i:], upper[k + 2, i:], upper[k + 3, i:]
                first, second, third, fourth = a[0], b[0], c[0], d[0]
                for j in range(row.shape[0]):
                    row[j] = (((row[j] - first * a[j]) - second * b[j]) - third * c[j]) - fourth * d[j]
    for i in range(dim):
        row = row_of(root, i, dim)
        for j in range(i + 1):
            row[j] = upper[j, i]
    return True


@lean
def _subtract(row: FloatArray, share: float, other: FloatArray) -> None:
    for j in range(row.shape[0]):
        row[j] -= share * other[j]


@kernel
def solve_residuals(
    total: Any,
    rest: Any,
    prior: FloatArray,
    root: FloatArray,
    careful: bool,
    start: FloatArray,
    step: FloatArray,
) -> float:
    """Write ``step`` [D] = V^-1 g, the posterior mean minus the prior mean ``start`` [D]; return q (see above)."""
    dim = step.shape[0]
    high, low = np.empty(dim), np.empty(dim)
    sums, errors = row_of(total, dim, dim + 1), row_of(rest, dim, dim + 1)
    square, lost = sums[dim], error_of(errors[dim])
    for i in range(dim):
        high[i], low[i] = sums[i], error_of(errors[i])
        for j in range(dim):
            if start[j] != 0.0:
                entry, error = entry_of(total, i, j, dim + 1), error_of(entry_of(rest, i, j, dim + 1))
                high[i], low[i] = _minus_product(high[i], low[i], entry, error, start[j], 0.0)
        if start[i] != 0.0:  # r'r - m'(b + g) is the sum of (r - s'm)^2
            square, lost = _minus_product(square, lost, start[i], 0.0, sums[i], error_of(errors[i]))
            square, lost = _minus_product(square, lost, start[i], 0.0, high[i], low[i])
    for i in range(dim):
        step[i] = high[i] + low[i]
    _apply_inverse(root, step)
    if careful:
        _refine(total, rest, prior, root, high, low, step)
    for i in range(dim):
        square, lost = _minus_product(square, lost, high[i], low[i], step[i], 0.0)
    return max(square + lost, 0.0)


@kernel
def solve_vector(total: Any, rest: Any, prior: FloatArray, root: FloatArray, careful: bool, vector: FloatArray) -> None:
    """Replace ``vector`` [D] by V^-1 vector."""
    given = vector.copy()
    _apply_inverse(root, vector)
    if careful:
        _refine(total, rest, prior, root, given, np.zeros_like(given), vector)


@kernel
def _refine_mean(total: Any, rest: Any, prior: FloatArray, root: FloatArray, mean: FloatArray) -> None:
    """Add V^-1 (b - V m) to the mean m."""
    dim = mean.shape[0]
    low = np.empty(dim)
    sums, errors = row_of(total, dim, dim + 1), row_of(rest, dim, dim + 1)
    for i in range(dim):
        low[i] = error_of(errors[i])
    _refine(total, rest, prior, root, sums[:dim], low, mean)


@lean
def _invert_triangle(root: FloatArray, dim: int) -> None:
    """Replace a lower triangle by its inverse, and what is above the diagonal of a square array by zeros."""
    wide = dim if is_square(root, dim) else 0  # of a row
    for i in range(dim):
        row = row_of(root, i, dim)
        diagonal = 1.0 / row[i]
        for j in range(i):
            value, place = 0.0, j * wide + j if wide else j * (j + 3) // 2
            for k in range(j, i):
                value -= row[k] * root[place]
                place += wide if wide else k + 1
            # this entry of row i may be overwritten: only those to its right are still needed
            row[j] = value * diagonal
        row[i] = diagonal
    _clear_above(root, dim)


@lean
def _clear_above(matrix: FloatArray, dim: int) -> None:
    if is_square(matrix, dim):
        for i in range(dim):
            for j in range(i + 1, dim):
                matrix[i * dim + j] = 0.0


@kernel
def _invert_large(root: FloatArray, dim: int) -> None:
    """Do the same for many features, in blocks of four rows."""
    rows = np.empty((4, dim))
    for start in range(0, dim, 4):
        stop = min(start + 4, dim)
        for i in range(start, stop):
            row = row_of(root, i, dim)
            put(rows[i - start], row[: i + 1])
            row[:] = 0.0
        for k in range(start):
            other = row_of(root, k, dim)[: k + 1]
            for i in range(start, stop):
                _subtract(row_of(root, i, dim)[: k + 1], rows[i - start, k], other)
        for i in range(start, stop):
            row, diagonal = row_of(root, i, dim), 1.0 / rows[i - start, i]
            for k in range(start, i):
                _subtract(row[: k + 1], rows[i - start, k], row_of(root, k, dim)[: k + 1])
            for j in range(i):
                row[j] *= diagonal
            row[i] = diagonal
    _clear_above(root, dim)


@inlined
def add_products(p: Any, q: Any, r: Any, s: Any, a: Any, b: Any, c: Any, d: Any, j: int, columns: Any) -> None:
    """Add four factors from ``j`` on of a, b, c, d each times four ``columns`` [D,W] from ``j`` on to p, q, r, s [W].

    16 products for 8 numbers read. Each sum is taken in the order of the columns.
    """
    one, two, three, four = columns[j], columns[j + 1], columns[j + 2], columns[j + 3]
    a0, a1, a2, a3 = a[j], a[j + 1], a[j + 2], a[j + 3]
    b0, b1, b2, b3 = b[j], b[j + 1], b[j + 2], b[j + 3]
    c0, c1, c2, c3 = c[j], c[j + 1], c[j + 2], c[j + 3]
    d0, d1, d2, d3 = d[j], d[j + 1], d[j + 2], d[j + 3]
    for t in range(p.shape[0]):
        w, x, y, z = one[t], two[t], three[t], four[t]
        p[t] = p[t] + a0 * w + a1 * x + a2 * y + a3 * z
        q[t] = q[t] + b0 * w + b1 * x + b2 * y + b3 * z
        r[t] = r[t] + c0 * w + c1 * x + c2 * y + c3 * z
        s[t] = s[t] + d0 * w + d1 * x + d2 * y + d3 * z


@lean
def lower_products(root: FloatArray, vector: FloatArray, result: FloatArray) -> None:
    """Write the product [D] of a lower triangular ``root`` and ``vector`` into ``result``."""
    dim = vector.shape[0]
    end = 4 * (dim // 4)
    for i in range(0, end, 4):
        a, b, c, d = row_of(root, i, dim), row_of(root, i + 1, dim), row_of(root, i + 2, dim), row_of(root, i + 3, dim)
        first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
        for j in range(i + 1):
            first += a[j] * vector[j]
            second += b[j] * vector[j]
            third += c[j] * vector[j]
            fourth += d[j] * vector[j]
        result[i] = first
        result[i + 1] = second + b[i + 1] * vector[i + 1]
        result[i + 2] = (third + c[i + 1] * vector[i + 1]) + c[i + 2] * vector[i + 2]
        result[i + 3] = ((fourth + d[i + 1] * vector[i + 1]) + d[i + 2] * vector[i + 2]) + d[i + 3] * vector[i + 3]
    for i in range(end, dim):
        value, row = 0.0, row_of(root, i, dim)
        for j in range(i + 1):
            value += row[j] * vector[j]
        result[i] = value


@kernel
def add_to_root(root: FloatArray, context: FloatArray, weight: float) -> None:
    """Update ``root`` from V to V + w s s' in D^2 operations.

    With p = sqrt(w) root s and I + p p' = C C', the root becomes C^-1 root. C has the diagonal sqrt(t_i / t_(i-1)) and
    below it the entries p_i p_j / sqrt(t_j t_(j-1)), where t_i = 1 + p_1^2 + ... + p_i^2: sums of positive numbers.
    The updates lose little: compared with 64-bit mantissas, the root of s'V^-1 s has a relative error of 1.5e-15 after
    4,096 updates with 100 features on scales from 0.01 to 100, and of 8e-13 after a million with 64 features; a fresh
    factorisation has 2e-16.
    """
    dim = context.shape[0]
    carried = np.zeros(dim)
    parts = np.empty(dim)
    lower_products(root, context if weight == 1.0 else math.sqrt(weight) * context, parts)
    total = 1.0
    for i in range(dim):
        before, part, row = total, parts[i], row_of(root, i, dim)
        total = before + part * part
        shrink = math.sqrt(before / total)
        share = part / math.sqrt(total * before)
        for j in range(i + 1):
            value = (row[j] - part * carried[j]) * shrink
            row[j] = value
            carried[j] += share * value


@lean
def _apply_inverse(root: FloatArray, vector: FloatArray) -> None:
    """Replace ``vector`` by root' root vector."""
    dim = vector.shape[0]
    if dim >= LARGE:
        _apply_large_inverse(root, vector)
        return
    for i in range(dim - 1, -1, -1):
        value, row = 0.0, row_of(root, i, dim)
        for j in range(i + 1):
            value += row[j] * vector[j]
        vector[i] = value
    wide = dim if is_square(root, dim) else 0
    for j in range(dim):
        value, place = 0.0, j * wide + j if wide else j * (j + 3) // 2
        for i in range(j, dim):
            value += root[place] * vector[i]
            place += wide if wide else i + 1
        vector[j] = value


@kernel
def _apply_large_inverse(root: FloatArray, vector: FloatArray) -> None:
    """Do the same row by row in memory order: the same sums in the same order."""
    dim = vector.shape[0]
    parts = np.empty(dim)
    lower_products(root, vector, parts)
    vector[:] = 0.0
    for i in range(dim):
        row, value = row_of(root, i, dim), parts[i]
        for j in range(i + 1):
            vector[j] += row[j] * value


# -- twice the precision: a number is the unevaluated sum of two -------------------------------------------


@lean
def _minus_product(high: float, low: float, a: float, a_low: float, b: float, b_low: float) -> tuple[float, float]:
    """Return (high, low) - (a, a_low) * (b, b_low)."""
    product, error = two_product(a, b)
    total, lost = two_sum(high, -product)
    return two_sum(total, low + (lost - (error + (a * b_low + a_low * b))))


@lean
def _precision_entry(total: Any, rest: Any, prior: FloatArray, i: int, j: int, dim: int) -> tuple[float, float]:
    entry, lost = two_sum(entry_of(total, i, j, dim + 1), entry_of(prior, i, j, dim))
    return two_sum(entry, lost + error_of(entry_of(rest, i, j, dim + 1)))


@kernel
def _factor_carefully(total: Any, rest: Any, prior: FloatArray, factor: FloatArray, dim: int) -> None:
    """Write the Cholesky factor of V, computed in twice the precision, into the lower triangle of ``factor``."""
    low = np.zeros((dim, dim))
    for i in range(dim):
        row = row_of(factor, i, dim)
        for j in range(i + 1):
            value, lost = _precision_entry(total, rest, prior, i, j, dim)
            entry, other = value, row_of(factor, j, dim)
            for k in range(j):
                value, lost = _minus_product(value, lost, row[k], low[i, k], other[k], low[j, k])
            if i == j:
                # V is at least the prior, so only rounding beyond 32 digits makes a pivot zero
                value = max(value, 1e-32 * entry)
                row[i] = math.sqrt(value)
                left, left_rest = _minus_product(value, lost, row[i], 0.0, row[i], 0.0)
                low[i, i] = (left + left_rest) / (2.0 * row[i])
            else:
                ratio = value / other[j]
                left, left_rest = _minus_product(value, lost, ratio, 0.0, other[j], low[j, j])
                row[j], low[i, j] = two_sum(ratio, (left + left_rest) / other[j])


@kernel
def _refine(
    total: Any,
    rest: Any,
    prior: FloatArray,
    root: FloatArray,
    high: FloatArray,
    low: FloatArray,
    solution: FloatArray,
) -> None:
    """Add V^-1 (g - V x) to the solution x of V x = g = high + low, the bracket in twice the precision."""
    dim = solution.shape[0]
    gap = np.empty(dim)
    for _ in range(2):
        for i in range(dim):
            value, lost = two_sum(high[i], low[i])
            for j in range(dim):
                entry, error = _precision_entry(total, rest, prior, i, j, dim)
                value, lost = _minus_product(value, lost, entry, error, solution[j], 0.0)
            gap[i] = value + lost
        _apply_inverse(root, gap)
        for i in range(dim):
            solution[i] += gap[i]
