"""What a risk measure of one's own must obey, tried on random draws."""

from __future__ import annotations

import numpy as np

from .._support.checks import generator, instance_of
from ..errors import ConformanceError, ParameterError
from ..types import FloatArray, RngLike
from .base import RiskMeasure, form_of
from .equivalents import CertaintyEquivalent

_SIZES = (1, 2, 3, 10, 101)
_LAWS = ("bounds", "translation", "order", "monotone", "gradient")
_TOLERANCE = 1e-9  # of the range of the draws


def check_risk(measure: RiskMeasure, *, trials: int = 200, rng: RngLike = 0) -> tuple[str, ...]:
    """Look for a counterexample to what solvers assume of a risk measure.

    A measure must be monotone (no draw can rise and the measure fall) and translation equivariant (a constant added
    to all draws is added to the measure): then the Bellman operator contracts, and the error bound of a solution
    holds. Its weights are no distribution otherwise, its gradient must be one, and what it computes without draws must
    be what draws come to.

    Parameters
    ----------
    measure : RiskMeasure
        The measure.
    trials : int, default=200
        Number of random samples.
    rng : int or numpy.random.Generator, default=0
        Source of randomness.

    Returns
    -------
    tuple of str
        The laws that were tried.

    Raises
    ------
    ConformanceError
        With the field ``law``, if a counterexample is found.

    Examples
    --------
    >>> from prudent.errors import ConformanceError
    >>> from prudent.risk import CertaintyEquivalent, VaR
    >>> check_risk(VaR(0.9))
    ('bounds', 'translation', 'order', 'monotone', 'gradient', 'exact form')
    >>> class MeanLessVariance(CertaintyEquivalent):
    ...     def of_draws(self, draws):
    ...         return draws.mean(axis=0) - draws.var(axis=0)
    >>> try:
    ...     check_risk(MeanLessVariance())
    ... except ConformanceError as error:
    ...     print(error.fields["law"])
    bounds
    """
    instance_of(measure, "measure", RiskMeasure)  # type: ignore[type-abstract]
    random = generator(rng)
    sizes = [n for n in _SIZES if _has(measure, n)]
    if not sizes:
        _fail(measure, "weights", f"has no value for any number of draws among {_SIZES}")
    for trial in range(trials):
        n = sizes[trial % len(sizes)]
        scale = 10.0 ** random.uniform(-3.0, 3.0)
        draws = scale * (random.normal(size=n) if trial % 2 else random.integers(-2, 3, n).astype(float))
        _check_draws(measure, draws, scale, random)
    if isinstance(measure, CertaintyEquivalent):
        if not measure.knows_dirichlet:
            return _LAWS
        _check_dirichlet(measure, random)
        return (*_LAWS, "of_dirichlet")
    try:
        form = form_of(measure)
    except ParameterError as error:
        if error.code != "no-exact-form":
            raise
        return _LAWS
    # the law with the quantiles 0.5/n, 1.5/n, ...: uniform draws, whose CVaRs and quantiles are known
    n = 20_000
    given = float(measure((np.arange(n) + 0.5) / n))
    tail = 1.0 - abs(form.levels)
    low = tail if form.quantile else 0.5 * tail
    known = float(form.weights @ np.where(np.signbit(form.levels), 1.0 - low, low))
    if abs(given - known) > 2e-4:
        _fail(
            measure,
            "exact form",
            f"has an exact form with {known:.6g} for a uniform law, but draws of it give {given:.6g}",
        )
    return (*_LAWS, "exact form")


def _has(measure: RiskMeasure, n: int) -> bool:
    """Return whether a measure takes n draws: some need two."""
    try:
        measure(np.zeros(n))
    except ParameterError as error:
        if error.code == "integer-range":
            return False
        raise
    return True


def _check_draws(measure: RiskMeasure, draws: FloatArray, scale: float, random: np.random.Generator) -> None:
    value, room = float(measure(draws)), _TOLERANCE * (1.0 + abs(draws).max() / scale) * scale
    if not draws.min() - room <= value <= draws.max() + room:
        _fail(measure, "bounds", f"is {value!r}, outside of its draws {draws.tolist()}")
    shift = scale * random.normal()
    if abs(float(measure(draws + shift)) - value - shift) > room + _TOLERANCE * abs(shift):
        _fail(measure, "translation", f"does not rise by {shift!r} if that is added to the draws {draws.tolist()}")
    if abs(float(measure(random.permutation(draws))) - value) > room:
        _fail(measure, "order", f"depends on the order of the draws {draws.tolist()}")
    for rise in (random.exponential(size=draws.size), np.eye(draws.size)[random.integers(draws.size)]):
        for size in (1e-4 * scale, scale, 100.0 * scale):
            if float(measure(draws + size * rise)) < value - room:
                _fail(
                    measure,
                    "monotone",
                    f"is not monotone: it falls if {(size * rise).tolist()} is added to {draws.tolist()}",
                )
    slopes = measure.gradient(draws)
    if slopes.shape != draws.shape or not (slopes >= -1e-12).all() or abs(slopes.sum() - 1.0) > 1e-9:
        _fail(
            measure,
            "gradient",
            f"has a gradient {slopes.tolist()} that is no distribution at the draws {draws.tolist()}",
        )


def _check_dirichlet(measure: CertaintyEquivalent, random: np.random.Generator) -> None:
    """Compare ``of_dirichlet`` with draws: 20 rows, each with a false alarm in about a million."""
    values, counts = random.normal(size=(20, 4)), random.gamma(1.0, 3.0, (20, 4)) + 0.05
    answer = measure.of_dirichlet(values, counts)
    for i in range(20):
        parts = [float(measure(random.dirichlet(counts[i], 5_000) @ values[i])) for _ in range(20)]
        # the estimate from 5,000 draws has a bias of the order of its variance
        error = np.std(parts, ddof=1) / np.sqrt(20.0)
        if abs(np.mean(parts) - answer.value[i]) > 7.0 * error + answer.error[i] + 1e-3 * np.ptp(values[i]):
            _fail(measure, "of_dirichlet", f"is {answer.value[i]:.6g} without draws, and {np.mean(parts):.6g} by draws")
        if abs(answer.means[i].sum() - 1.0) > 1e-9 or (answer.means[i] < -1e-12).any():
            _fail(
                measure, "gradient", f"has a gradient {answer.means[i].tolist()} that is no distribution, without draws"
            )


def _fail(measure: RiskMeasure, law: str, message: str) -> None:
    raise ConformanceError(f"{measure!r} {message}", code="risk-law", argument="measure", law=law)
