"""CVaR and VaR without sampling, for the posteriors that the Bayesian-risk Bellman equation and the bandits need.

CVaR_alpha(X) is the mean of the worst 1 - alpha of X, the left tail (Wang and Zhou, section on the
Bayesian risk-averse formulation):

    CVaR_alpha(X) = max_x { x - E[(x - X)+] / (1 - alpha) },

the maximum being at the (1 - alpha)-quantile. For a normal X both terms are elementary; for a normal clipped to [0,
1] they are integrals of its cdf; for the mean w.v of values v under Dirichlet weights w they are contour integrals,
which :mod:`prudent._numerics.dirichlet_tail` evaluates to about eleven digits of the tail. The paper calls this last
one too hard to evaluate, and samples. VaR_alpha(X) is that quantile itself.

A negative level is optimism, by symmetry: at -a the mean of the best 1 - a (or the a-quantile), which is minus CVaR
(or VaR) at a of -X. Arrays of levels may mix both.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ._numerics.compile import default_threads, kernel, over_rows
from ._numerics.dirichlet_tail import SCRATCH, quantile_of_row, tail_of_row, tails_of
from ._numerics.normal import clipped_normal_cvar, normal_tail
from ._support.checks import FloatArray, finite_array, first_index, risk_levels
from .errors import ConvergenceWarning, DataError, PosteriorError

__all__ = [
    "DirichletQuantile",
    "DirichletRisk",
    "DirichletTail",
    "cvar_clipped_normal",
    "cvar_dirichlet",
    "cvar_normal",
    "dirichlet_quantile",
    "dirichlet_tail",
    "risk_dirichlet",
    "var_dirichlet",
    "var_normal",
]

SHARP = 1e-10  # a bound on the error above this, in units of the range of the values, is warned of


def cvar_normal(mean: Any, sd: Any, alpha: Any) -> FloatArray:
    """Return CVaR_alpha of Normal(mean, sd^2); arguments broadcast.

    >>> cvar_normal(0.0, 1.0, [0.9, 0.0, -0.9]).round(6) + 0.0
    array([-1.754983,  0.      ,  1.754983])
    """
    mean, sd, tail, sign = _normal_arguments(mean, sd, alpha)
    return mean - sign * (sd * normal_tail(tail)[1] / tail)


def var_normal(mean: Any, sd: Any, alpha: Any) -> FloatArray:
    """Return VaR_alpha of Normal(mean, sd^2), its (1 - alpha)-quantile; arguments broadcast.

    At a negative level it is the |alpha|-quantile. At level 0 it is the highest value, hence infinite if sd > 0.

    >>> var_normal(0.0, 1.0, [0.9, -0.9]).round(6)
    array([-1.281552,  1.281552])
    """
    mean, sd, tail, sign = _normal_arguments(mean, sd, alpha)
    quantile = normal_tail(tail)[0]
    return mean + sign * np.where(sd > 0.0, sd, 0.0 * sd) * np.where((sd > 0.0) | (tail < 1.0), quantile, 0.0)


def cvar_clipped_normal(mean: Any, sd: Any, alpha: Any) -> FloatArray:
    """Return CVaR_alpha of Normal(mean, sd^2) clipped to [0, 1]; arguments broadcast.

    Clipping puts atoms at 0 and 1; it is the posterior of Assumption 6.2 of the regret analysis, whose
    "truncated" normal is min{1, max{Y, 0}}.

    >>> round(float(cvar_clipped_normal(0.5, 0.2, 0.9)), 6)
    0.153012
    >>> float(cvar_clipped_normal(-3.0, 1.0, 0.5))
    0.0
    """
    mean, sd, tail, sign = np.broadcast_arrays(*_normal_arguments(mean, sd, alpha))
    mean = np.where(sign > 0.0, mean, 1.0 - mean)  # one minus a clipped number is one minus it, clipped
    out = np.empty(mean.shape)
    flat = [np.array(row).reshape(-1) for row in (mean, sd, tail, normal_tail(tail)[0])]
    _clipped_cvars(flat[0], flat[1], flat[2], flat[3], out.reshape(-1))
    return np.where(sign > 0.0, out, 1.0 - out)[()]


@kernel
def _clipped_cvars(mean, sd, tail, quantile, out):
    for i in range(out.shape[0]):
        out[i] = clipped_normal_cvar(mean[i], sd[i], tail[i], quantile[i], True)


class DirichletTail(NamedTuple):
    """The worst 1 - alpha of a Dirichlet mean, or the best 1 - |alpha|; leading axes are those of the arguments."""

    cvar: FloatArray  # [...]
    tail_means: FloatArray  # [..., K] E[w | tail]: sums to one, reproduces cvar, and is its gradient in the values
    quantile: FloatArray  # [...] where the tail begins
    start: FloatArray  # [...] give it to the next call with similar values
    error: FloatArray  # [...] bound on the error of cvar


class DirichletQuantile(NamedTuple):
    """The quantile of a Dirichlet mean; leading axes are those of the arguments."""

    var: FloatArray  # [...]
    means: FloatArray  # [..., K] E[w | w.values = var]: sums to one, reproduces var, and is its gradient in the values
    start: FloatArray  # [...] give it to the next call with similar values
    error: FloatArray  # [...] bound on the error of var


class DirichletRisk(NamedTuple):
    """A measure of risk of a Dirichlet mean; leading axes are those of the arguments."""

    value: FloatArray  # [...]
    means: FloatArray  # [..., K] its gradient in the values, which sums to one
    error: FloatArray  # [...] bound on the error of value


def risk_dirichlet(values: Any, counts: Any, risk: Any, *, threads: int | None = None) -> DirichletRisk:
    """Return a risk measure of w.values for w ~ Dirichlet(counts), without draws, and its gradient.

    ``risk`` is CVaR, VaR or a mixture of CVaRs: see ``exact_form`` of the measures in :mod:`prudent.risk`. Shapes as
    for :func:`cvar_dirichlet`.

    >>> from prudent.risk import MeanCVaR
    >>> risk_dirichlet([0.0, 1.0], [1.0, 1.0], MeanCVaR(0.9, weight=0.5)).value.round(10)
    np.float64(0.275)
    """
    levels, weights, quantile = risk.exact_form()
    value: Any = 0.0
    means: Any = 0.0
    error: Any = 0.0
    for level, weight in zip(levels, weights, strict=True):
        part = _dirichlet(values, counts, level, None, threads, quantile)
        value = value + weight * part.cvar
        means = means + weight * part.tail_means
        error = error + abs(weight) * part.error
    return DirichletRisk(value, means, error)


def cvar_dirichlet(values: Any, counts: Any, alpha: Any, *, threads: int | None = None) -> FloatArray:
    """Return CVaR_alpha of w.values for w ~ Dirichlet(counts), good to ten digits of the range of the values.

    ``values`` and ``counts`` are [..., K] and broadcast against each other, ``alpha`` against their leading axes.
    An outcome with count zero cannot happen. Rows are shared out over ``threads``. Ten digits hold for counts from 1e-4
    to 1e9 and levels to 0.9999; a row that is known less well, which happens beyond, is named by a
    :class:`~prudent.errors.ConvergenceWarning`.

    >>> round(float(cvar_dirichlet([0.0, 1.0], [1.0, 1.0], 0.9)), 10)  # uniform on [0, 1]
    0.05
    """
    return _dirichlet(values, counts, risk_levels(alpha), None, threads, False).cvar


def var_dirichlet(values: Any, counts: Any, alpha: Any, *, threads: int | None = None) -> FloatArray:
    """Return VaR_alpha of w.values for w ~ Dirichlet(counts): its (1 - alpha)-quantile, or |alpha|-quantile below zero.

    Shapes as for :func:`cvar_dirichlet`; at ``alpha = 0`` it is the highest value. A quantile is as sharp as the
    distribution function is steep: to ten digits of the range of the values where it is not flat, and a row where it is
    is named by a :class:`~prudent.errors.ConvergenceWarning`.

    >>> round(float(var_dirichlet([0.0, 1.0], [1.0, 1.0], 0.9)), 10)  # uniform on [0, 1]
    0.1
    """
    return _dirichlet(values, counts, risk_levels(alpha), None, threads, True).cvar


def dirichlet_tail(
    values: Any, counts: Any, alpha: Any, *, start: Any = None, threads: int | None = None
) -> DirichletTail:
    """Return CVaR_alpha of w.values for w ~ Dirichlet(counts) together with the tail means of w.

    Shapes as for :func:`cvar_dirichlet`. ``start`` is the field of that name of an earlier result: a warm start
    for the same rows with somewhat different values. ``error`` never exceeds the distance from the mean to the lowest
    value, between which CVaR lies.

    >>> tail = dirichlet_tail([0.0, 1.0, 5.0], [2.0, 1.0, 3.0], 0.8)
    >>> bool(abs(tail.tail_means @ [0.0, 1.0, 5.0] - tail.cvar) < 1e-10)
    True
    """
    return _dirichlet(values, counts, risk_levels(alpha), start, threads, False)


def dirichlet_quantile(
    values: Any, counts: Any, alpha: Any, *, start: Any = None, threads: int | None = None
) -> DirichletQuantile:
    """Return VaR_alpha of w.values for w ~ Dirichlet(counts) together with the means of w given that quantile.

    Shapes as for :func:`cvar_dirichlet`, ``start`` as for :func:`dirichlet_tail`.

    >>> there = dirichlet_quantile([0.0, 1.0, 5.0], [2.0, 1.0, 3.0], 0.8)
    >>> there.var.round(8), there.means.round(4)
    (np.float64(1.85624151), array([0.452 , 0.2209, 0.3271]))
    """
    found = _dirichlet(values, counts, risk_levels(alpha), start, threads, True)
    return DirichletQuantile(found.cvar, found.tail_means, found.start, found.error)


def _dirichlet(
    values: Any, counts: Any, level: FloatArray, start: Any, threads: int | None, quantile: bool
) -> DirichletTail:
    """Do the work of the functions above, whose callers are two frames up; VaR takes the place of CVaR if asked for."""
    v = finite_array(values, "values")
    psi = finite_array(counts, "counts", error=PosteriorError)
    if v.ndim == 0 or psi.ndim == 0 or v.shape[-1] != psi.shape[-1]:
        raise PosteriorError(
            f"values and counts must end in the same number of outcomes, got {v.shape} and {psi.shape}"
        )
    if (psi < 0.0).any():
        raise PosteriorError(f"counts{first_index(psi < 0.0)} is {psi[psi < 0.0][0]}, expected at least 0")
    empty = psi.sum(-1) <= 0.0
    if empty.any():
        raise PosteriorError(f"counts{first_index(empty)} has total 0, expected at least one positive count")
    lead = np.broadcast_shapes(v.shape[:-1], psi.shape[:-1], level.shape)
    n_outcomes = v.shape[-1]
    rows = int(np.prod(lead, dtype=np.int64))

    def flat(array: npt.ArrayLike, *trailing: int) -> FloatArray:
        # writable as well as contiguous: a read-only array would be one more signature to compile
        return np.require(np.broadcast_to(array, lead + trailing), requirements=["C", "W"]).reshape(rows, *trailing)

    first = flat(np.nan if start is None else np.asarray(start, dtype=np.float64)).copy()
    found, border, error = np.empty(rows), np.empty(rows), np.empty(rows)
    means = np.empty((rows, n_outcomes))
    tail, sign = tails_of(level, quantile)
    signed = np.broadcast_to(sign, lead)[..., np.newaxis] * v
    given = (flat(signed, n_outcomes), flat(psi, n_outcomes), flat(tail), quantile)
    over_rows(
        lambda i, j: _tails(i, j, *given, first, found, means, border, error),
        rows,
        threads or default_threads(),
        smallest=64,
    )
    _warn_of_coarse_rows("VaR" if quantile else "CVaR", error.reshape(lead), v, psi)
    return DirichletTail(
        sign * found.reshape(lead)[()],
        means.reshape(*lead, n_outcomes),
        sign * border.reshape(lead)[()],
        first.reshape(lead)[()],
        error.reshape(lead)[()],
    )


def _warn_of_coarse_rows(what: str, error: FloatArray, values: FloatArray, counts: FloatArray) -> None:
    """Warn if a bound exceeds SHARP times the range of the values that can happen and their own rounding."""
    v, possible = np.broadcast_arrays(values, counts > 0.0)
    high, low = (f(v, axis=-1, where=possible, initial=i) for f, i in ((np.max, -np.inf), (np.min, np.inf)))
    spread = high - low
    coarse = error > SHARP * spread + 4.0 * np.spacing(np.maximum(abs(low), abs(high)))
    if coarse.any():
        worst = (error / np.where(coarse, spread, 1.0))[coarse][0]
        warnings.warn(
            f"{what} of row{first_index(coarse)} is known to {worst:.1e} of the range of its values only; "
            f"{int(coarse.sum())} of {coarse.size} rows are coarser than {SHARP:g}",
            ConvergenceWarning,
            stacklevel=4,
        )


@kernel
def _tails(first, last, values, counts, tail, quantile, start, found, means, border, error):
    work = np.empty((SCRATCH, values.shape[1]))
    for i in range(first, last):
        row = (values[i], counts[i], tail[i], start[i], 0.0, work, means[i])
        found[i], border[i], start[i], error[i] = quantile_of_row(*row) if quantile else tail_of_row(*row)


def _normal_arguments(mean: Any, sd: Any, alpha: Any) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return mean, sd, the mass of the tail and its side: 1 is below, -1 above."""
    mean = finite_array(mean, "mean")
    sd = finite_array(sd, "sd")
    if (sd < 0.0).any():
        raise DataError(f"sd{first_index(sd < 0.0)} is {sd[sd < 0.0][0]}, expected at least 0")
    level = risk_levels(alpha)
    return mean, sd, 1.0 - abs(level), np.where(level < 0.0, -1.0, 1.0)
