"""CVaR and VaR without sampling, for the posteriors that the Bayesian-risk Bellman equation and the bandits need.

CVaR_alpha(X) is the mean of the worst 1 - alpha of X, the left tail (Wang and Zhou, section on the
Bayesian risk-averse formulation):

    CVaR_alpha(X) = max_x { x - E[(x - X)+] / (1 - alpha) },

the maximum being at the (1 - alpha)-quantile. For a normal X both terms are elementary; for a normal clipped to [0,
1] they are integrals of its cdf; for the mean w.v of values v under Dirichlet weights w they are contour integrals,
which ``prudent._numerics.dirichlet_tail`` evaluates to about eleven digits of the tail. The paper calls this last
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
from ._support.checks import finite_array, first_index, first_place, refuse, risk_levels
from .errors import ConvergenceWarning, DataError, PosteriorError
from .risk import CertaintyEquivalent, RiskMeasure, form_of
from .types import ArrayLike, FloatArray

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

LARGE = 1e150  # values above are scaled
SHARP = 1e-10  # largest error bound without a warning, in units of the range of the values


def cvar_normal(mean: ArrayLike, sd: ArrayLike, alpha: ArrayLike) -> FloatArray:
    """Return CVaR of a normal variable.

    Parameters
    ----------
    mean : array_like
        Mean.
    sd : array_like
        Standard deviation, at least 0.
    alpha : array_like
        Risk level in (-1, 1). All arguments broadcast.

    Returns
    -------
    float or ndarray
        CVaR, in the broadcast shape.

    Raises
    ------
    DataError
        If `sd` is negative, a number is not finite, or the result is too large for a float.
    ParameterError
        If `alpha` is not in (-1, 1).

    Examples
    --------
    >>> cvar_normal(0.0, 1.0, [0.9, 0.0, -0.9]).round(6) + 0.0
    array([-1.754983,  0.      ,  1.754983])
    """
    mean, sd, tail, sign = _normal_arguments(mean, sd, alpha)
    with np.errstate(over="ignore"):
        return _require_no_overflow(mean - sign * (sd * (normal_tail(tail)[1] / tail)), sd)


def var_normal(mean: ArrayLike, sd: ArrayLike, alpha: ArrayLike) -> FloatArray:
    """Return VaR of a normal variable: its (1 - alpha)-quantile.

    At a negative level it is the |alpha|-quantile. At level 0 it is the highest value, hence infinite if sd > 0.

    Parameters
    ----------
    mean : array_like
        Mean.
    sd : array_like
        Standard deviation, at least 0.
    alpha : array_like
        Risk level in (-1, 1). All arguments broadcast.

    Returns
    -------
    float or ndarray
        Quantile, in the broadcast shape.

    Raises
    ------
    DataError
        If `sd` is negative, a number is not finite, or the result is too large for a float.
    ParameterError
        If `alpha` is not in (-1, 1).

    Examples
    --------
    >>> var_normal(0.0, 1.0, [0.9, -0.9]).round(6)
    array([-1.281552,  1.281552])
    """
    mean, sd, tail, sign = _normal_arguments(mean, sd, alpha)
    quantile = np.where((sd > 0.0) | (tail < 1.0), normal_tail(tail)[0], 0.0)
    with np.errstate(over="ignore"):
        found = mean + sign * np.where(sd > 0.0, sd, 0.0 * sd) * quantile
    _require_no_overflow(np.where(np.isinf(quantile), 0.0, found), sd)
    return found


def cvar_clipped_normal(mean: ArrayLike, sd: ArrayLike, alpha: ArrayLike) -> FloatArray:
    """Return CVaR of a normal variable that is clipped to [0, 1].

    Clipping puts atoms at 0 and 1; it is the posterior of Assumption 6.2 of the regret analysis, whose
    "truncated" normal is min{1, max{Y, 0}}.

    Parameters
    ----------
    mean : array_like
        Mean.
    sd : array_like
        Standard deviation, at least 0.
    alpha : array_like
        Risk level in (-1, 1). All arguments broadcast.

    Returns
    -------
    float or ndarray
        CVaR, in the broadcast shape.

    Raises
    ------
    DataError
        If `sd` is negative or a number is not finite.
    ParameterError
        If `alpha` is not in (-1, 1).

    Examples
    --------
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
    return np.where(sign > 0.0, out, 1.0 - out)[()] + 0.0  # no minus zero


@kernel
def _clipped_cvars(mean, sd, tail, quantile, out):
    for i in range(out.shape[0]):
        out[i] = clipped_normal_cvar(mean[i], sd[i], tail[i], quantile[i], True)


class DirichletTail(NamedTuple):
    """Worst 1 - alpha of a Dirichlet mean, or the best 1 - |alpha|; leading axes are those of the arguments.

    Attributes
    ----------
    cvar : ndarray of shape (...)
        CVaR.
    tail_means : ndarray of shape (..., K)
        E[w | tail]. It sums to one, reproduces `cvar`, and is the gradient of `cvar` in the values.
    quantile : ndarray of shape (...)
        Where the tail begins.
    start : ndarray of shape (...)
        Starting point for the next call with similar values.
    error : ndarray of shape (...)
        Bound on the error of `cvar`.
    """

    cvar: FloatArray
    tail_means: FloatArray
    quantile: FloatArray
    start: FloatArray
    error: FloatArray


class DirichletQuantile(NamedTuple):
    """Quantile of a Dirichlet mean; leading axes are those of the arguments.

    Attributes
    ----------
    var : ndarray of shape (...)
        Quantile.
    means : ndarray of shape (..., K)
        E[w | w.values = var]. It sums to one, reproduces `var`, and is the gradient of `var` in the values.
    start : ndarray of shape (...)
        Starting point for the next call with similar values.
    error : ndarray of shape (...)
        Bound on the error of `var`.
    """

    var: FloatArray
    means: FloatArray
    start: FloatArray
    error: FloatArray


class DirichletRisk(NamedTuple):
    """Risk of a Dirichlet mean; leading axes are those of the arguments.

    Attributes
    ----------
    value : ndarray of shape (...)
        Risk.
    means : ndarray of shape (..., K)
        Gradient of `value` in the values; it sums to one.
    error : ndarray of shape (...)
        Bound on the error of `value`.
    """

    value: FloatArray
    means: FloatArray
    error: FloatArray


def risk_dirichlet(
    values: ArrayLike, counts: ArrayLike, risk: RiskMeasure, *, threads: int | None = None
) -> DirichletRisk:
    """Return a risk measure of a Dirichlet mean, without draws, and its gradient.

    Parameters
    ----------
    values : array_like of shape (..., K)
        Values of the K outcomes.
    counts : array_like of shape (..., K)
        Dirichlet parameters, which broadcast against `values`. An outcome with count zero has probability zero.
    risk : RiskMeasure
        CVaR, VaR, a mixture of CVaRs (a measure with an ``exact_form``), or ``prudent.risk.EntropicRisk``.
    threads : int, optional
        Number of threads that share the rows. The default is one for each core.

    Returns
    -------
    DirichletRisk
        Risk, gradient and error bound.

    Raises
    ------
    PosteriorError
        If a count is negative, or all counts of a row are zero.
    ParameterError
        If `risk` has no exact form.

    Warns
    -----
    ConvergenceWarning
        If a row has fewer than ten digits.

    Examples
    --------
    >>> from prudent.risk import MeanCVaR
    >>> risk_dirichlet([0.0, 1.0], [1.0, 1.0], MeanCVaR(0.9, weight=0.5)).value.round(10)
    np.float64(0.275)
    """
    if isinstance(risk, CertaintyEquivalent):
        v, psi = np.broadcast_arrays(*_read_rows(values, counts))
        rows = (np.array(v).reshape(-1, v.shape[-1]), np.array(psi).reshape(-1, v.shape[-1]))
        answer = risk.of_dirichlet(*rows)
        _warn_of_coarse_rows(repr(risk), answer.error.reshape(v.shape[:-1]), v, psi)
        return DirichletRisk(
            answer.value.reshape(v.shape[:-1])[()],
            answer.means.reshape(v.shape),
            answer.error.reshape(v.shape[:-1])[()],
        )
    levels, weights, quantile = form_of(risk)
    value: Any = 0.0
    means: Any = 0.0
    error: Any = 0.0
    for level, weight in zip(levels, weights, strict=True):
        part = _dirichlet(values, counts, level, None, threads, quantile)
        value = value + weight * part.cvar
        means = means + weight * part.tail_means
        error = error + abs(weight) * part.error
    if risk.gap > 0.0:  # of the lines that replace a distortion
        error = error + risk.gap * _spread(*_read_rows(values, counts))[0]
    return DirichletRisk(value, means, error)


def cvar_dirichlet(values: ArrayLike, counts: ArrayLike, alpha: ArrayLike, *, threads: int | None = None) -> FloatArray:
    """Return CVaR of a Dirichlet mean w.values, w ~ Dirichlet(counts), to ten digits of the range of the values.

    Ten digits hold for counts from 1e-4 to 1e9 and levels to 0.9999.

    Parameters
    ----------
    values : array_like of shape (..., K)
        Values of the K outcomes.
    counts : array_like of shape (..., K)
        Dirichlet parameters, which broadcast against `values`. An outcome with count zero has probability zero.
    alpha : array_like
        Risk level in (-1, 1). It broadcasts against the leading axes.
    threads : int, optional
        Number of threads that share the rows. The default is one for each core.

    Returns
    -------
    float or ndarray
        CVaR, in the broadcast shape of the leading axes.

    Raises
    ------
    PosteriorError
        If a count is negative, or all counts of a row are zero.
    ParameterError
        If `alpha` is not in (-1, 1).

    Warns
    -----
    ConvergenceWarning
        If a row has fewer than ten digits.

    Examples
    --------
    >>> round(float(cvar_dirichlet([0.0, 1.0], [1.0, 1.0], 0.9)), 10)  # uniform on [0, 1]
    0.05
    """
    return _dirichlet(values, counts, risk_levels(alpha), None, threads, False).cvar


def var_dirichlet(values: ArrayLike, counts: ArrayLike, alpha: ArrayLike, *, threads: int | None = None) -> FloatArray:
    """Return VaR of a Dirichlet mean w.values, w ~ Dirichlet(counts): its (1 - alpha)-quantile.

    At a negative level it is the |alpha|-quantile, and at level 0 the highest value. It has ten digits of the range of
    the values where the distribution function is not flat.

    Parameters
    ----------
    values : array_like of shape (..., K)
        Values of the K outcomes.
    counts : array_like of shape (..., K)
        Dirichlet parameters, which broadcast against `values`. An outcome with count zero has probability zero.
    alpha : array_like
        Risk level in (-1, 1). It broadcasts against the leading axes.
    threads : int, optional
        Number of threads that share the rows. The default is one for each core.

    Returns
    -------
    float or ndarray
        Quantile, in the broadcast shape of the leading axes.

    Raises
    ------
    PosteriorError
        If a count is negative, or all counts of a row are zero.
    ParameterError
        If `alpha` is not in (-1, 1).

    Warns
    -----
    ConvergenceWarning
        If a row has fewer than ten digits.

    Examples
    --------
    >>> round(float(var_dirichlet([0.0, 1.0], [1.0, 1.0], 0.9)), 10)  # uniform on [0, 1]
    0.1
    """
    return _dirichlet(values, counts, risk_levels(alpha), None, threads, True).cvar


def dirichlet_tail(
    values: ArrayLike,
    counts: ArrayLike,
    alpha: ArrayLike,
    *,
    start: ArrayLike | None = None,
    threads: int | None = None,
) -> DirichletTail:
    """Return CVaR of a Dirichlet mean w.values, w ~ Dirichlet(counts), with the tail means of w.

    Parameters
    ----------
    values : array_like of shape (..., K)
        Values of the K outcomes.
    counts : array_like of shape (..., K)
        Dirichlet parameters, which broadcast against `values`. An outcome with count zero has probability zero.
    alpha : array_like
        Risk level in (-1, 1). It broadcasts against the leading axes.
    start : array_like, optional
        Field ``start`` of an earlier result for the same rows with similar values.
    threads : int, optional
        Number of threads that share the rows. The default is one for each core.

    Returns
    -------
    DirichletTail
        CVaR, its gradient, the quantile and an error bound. The bound never exceeds the distance from the mean to the
        lowest value, between which CVaR lies.

    Raises
    ------
    PosteriorError
        If a count is negative, or all counts of a row are zero.
    ParameterError
        If `alpha` is not in (-1, 1).

    Warns
    -----
    ConvergenceWarning
        If a row has fewer than ten digits.

    Examples
    --------
    >>> tail = dirichlet_tail([0.0, 1.0, 5.0], [2.0, 1.0, 3.0], 0.8)
    >>> bool(abs(tail.tail_means @ [0.0, 1.0, 5.0] - tail.cvar) < 1e-10)
    True
    """
    return _dirichlet(values, counts, risk_levels(alpha), start, threads, False)


def dirichlet_quantile(
    values: ArrayLike,
    counts: ArrayLike,
    alpha: ArrayLike,
    *,
    start: ArrayLike | None = None,
    threads: int | None = None,
) -> DirichletQuantile:
    """Return VaR of a Dirichlet mean w.values, w ~ Dirichlet(counts), with the means of w given that quantile.

    Parameters
    ----------
    values : array_like of shape (..., K)
        Values of the K outcomes.
    counts : array_like of shape (..., K)
        Dirichlet parameters, which broadcast against `values`. An outcome with count zero has probability zero.
    alpha : array_like
        Risk level in (-1, 1). It broadcasts against the leading axes.
    start : array_like, optional
        Field ``start`` of an earlier result for the same rows with similar values.
    threads : int, optional
        Number of threads that share the rows. The default is one for each core.

    Returns
    -------
    DirichletQuantile
        Quantile, its gradient and an error bound.

    Raises
    ------
    PosteriorError
        If a count is negative, or all counts of a row are zero.
    ParameterError
        If `alpha` is not in (-1, 1).

    Warns
    -----
    ConvergenceWarning
        If a row has fewer than ten digits.

    Examples
    --------
    >>> result = dirichlet_quantile([0.0, 1.0, 5.0], [2.0, 1.0, 3.0], 0.8)
    >>> result.var.round(8), result.means.round(4)
    (np.float64(1.85624151), array([0.452 , 0.2209, 0.3271]))
    """
    found = _dirichlet(values, counts, risk_levels(alpha), start, threads, True)
    return DirichletQuantile(found.cvar, found.tail_means, found.start, found.error)


def _dirichlet(
    values: ArrayLike,
    counts: ArrayLike,
    level: FloatArray,
    start: ArrayLike | None,
    threads: int | None,
    quantile: bool,
) -> DirichletTail:
    """Return the tail of Dirichlet means, with VaR in place of CVaR for ``quantile``; called by the functions above."""
    v, psi = _read_rows(values, counts)
    lead = _broadcast({"values": v.shape[:-1], "counts": psi.shape[:-1], "alpha": level.shape})
    n_outcomes = v.shape[-1]
    rows = int(np.prod(lead, dtype=np.int64))

    def flat(array: npt.ArrayLike, *trailing: int) -> FloatArray:
        # writable as well as contiguous: a read-only array would be one more signature to compile
        return np.require(np.broadcast_to(array, lead + trailing), requirements=["C", "W"]).reshape(rows, *trailing)

    # values so large that their differences overflow are scaled, by a power of two, which is exact
    size = np.where(psi > 0.0, np.abs(v), 0.0).max(axis=-1, initial=0.0)
    scale = np.where(size > LARGE, np.exp2(np.floor(np.log2(np.maximum(size, 1.0)))), 1.0)
    v = np.where(psi > 0.0, v, 0.0) / scale[..., np.newaxis]
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
    with np.errstate(over="ignore"):  # an error bound of the largest numbers may be infinite
        return DirichletTail(
            sign * scale * found.reshape(lead)[()],
            means.reshape(*lead, n_outcomes),
            sign * scale * border.reshape(lead)[()],
            first.reshape(lead)[()],
            scale * error.reshape(lead)[()],
        )


def _read_rows(values: ArrayLike, counts: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return values and counts of Dirichlet rows, checked."""
    v = finite_array(values, "values")
    psi = finite_array(counts, "counts", error=PosteriorError)
    if v.ndim == 0 or psi.ndim == 0 or v.shape[-1] != psi.shape[-1]:
        message = f"values and counts must end in the same number of outcomes, got {v.shape} and {psi.shape}"
        raise PosteriorError(message, code="wrong-shape", argument="counts", value=psi.shape, expected=v.shape)
    refuse(psi < 0.0, psi, "counts", "at least 0", error=PosteriorError, code="negative")
    empty = np.asarray(~(psi > 0.0).any(axis=-1))
    if empty.any():
        message = f"counts{first_index(empty)} has total 0, expected at least one positive count"
        raise PosteriorError(message, code="sum-zero", argument="counts", index=first_place(empty))
    if psi.shape[-1] == 0:
        message = f"counts must have at least one outcome in each row, got shape {psi.shape}"
        raise PosteriorError(message, code="wrong-shape", argument="counts", value=psi.shape)
    return v, psi


def _spread(values: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the range of the values that can happen in each row, and the largest absolute one."""
    v, possible = np.broadcast_arrays(values, counts > 0.0)
    high, low = (f(v, axis=-1, where=possible, initial=i) for f, i in ((np.max, -np.inf), (np.min, np.inf)))
    return high - low, np.maximum(abs(low), abs(high))


def _warn_of_coarse_rows(what: str, error: FloatArray, values: FloatArray, counts: FloatArray) -> None:
    """Warn if a bound exceeds SHARP times the range of the values that can happen and their own rounding."""
    spread, size = _spread(values, counts)
    coarse = ~(error <= SHARP * spread + 4.0 * np.spacing(size))  # NaN is coarse
    if coarse.any():
        worst = (error / np.where(coarse & (spread > 0.0), spread, 1.0))[coarse][0]
        message = (
            f"{what} of row{first_index(coarse)} is known to {worst:.1e} of the range of its values only; "
            f"{int(coarse.sum())} of {coarse.size} rows are coarser than {SHARP:g}"
        )
        fields = {"index": first_place(coarse), "value": float(worst), "rows": int(coarse.sum())}
        warnings.warn(ConvergenceWarning(message, code="coarse-rows", **fields), stacklevel=4)


@kernel
def _tails(first, last, values, counts, tail, quantile, start, found, means, border, error):
    work = np.empty((SCRATCH, values.shape[1]))
    for i in range(first, last):
        row = (values[i], counts[i], tail[i], start[i], 0.0, work, means[i])
        found[i], border[i], start[i], error[i] = quantile_of_row(*row) if quantile else tail_of_row(*row)


def _broadcast(shapes: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape to which arguments broadcast."""
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        message = f"the shapes of these arguments do not broadcast: {listed}"
        raise DataError(message, code="wrong-shape", value=tuple(shapes.values())) from None


def _require_no_overflow(found: FloatArray, sd: FloatArray) -> FloatArray:
    """Return ``found`` if all of it is finite."""
    infinite = ~np.isfinite(found)
    refuse(infinite, np.broadcast_to(sd, infinite.shape), "sd", "a smaller one: the risk overflows", code="overflow")
    return found


def _normal_arguments(
    mean: ArrayLike, sd: ArrayLike, alpha: ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return mean, sd, the mass of the tail and its side: 1 is below, -1 above."""
    mean = finite_array(mean, "mean")
    sd = finite_array(sd, "sd")
    refuse(sd < 0.0, sd, "sd", "at least 0", code="negative")
    level = risk_levels(alpha)
    _broadcast({"mean": mean.shape, "sd": sd.shape, "alpha": level.shape})
    return mean, sd, 1.0 - abs(level), np.where(level < 0.0, -1.0, 1.0)
