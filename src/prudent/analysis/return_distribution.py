"""Distribution of the return of policies, given by draws: mean, spread, quantiles and CVaR with standard errors.

``prudent.analysis.posterior_returns`` and ``prudent.analysis.returns`` both describe their draws with
``ReturnDistribution``. The standard errors of mean, standard deviation and quantiles are those of
``_support.intervals``. That of the CVaR is the standard error of the mean of x - (x - z_i)+ / (1 - alpha), where x is
the edge of the tail and z_i are the draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._support.checks import open_probability, probability, risk_level
from .._support.intervals import Estimate, estimate_mean, estimate_quantiles, estimate_standard_deviation
from ..display.figures import returns as figures
from ..display.figures.base import Figure
from ..errors import DataError
from ..risk import CVaR
from ..types import ArrayLike, FloatArray, Label

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.figure import Figure as Canvas

QUANTILES = (0.05, 0.5, 0.95)
TAIL_ALPHA = 0.9


@dataclass(frozen=True, eq=False, repr=False)
class ReturnDistribution:
    """Distribution of the return of one or several policies, given by draws.

    Parameters
    ----------
    draws : ndarray [N, J]
        Returns of J policies. Entries of one row belong together: the same posterior draw, or the same run.
    policies : tuple
        Names of the policies.
    start : str
        Start of the process in words.
    risk_value : ndarray [J], optional
        Bayesian-risk value of each policy from the start, NaN where it has none.

    See Also
    --------
    posterior_returns : Returns over the posterior, as a labelled dataset.
    returns : Simulated returns in a known model.

    Examples
    --------
    >>> distribution = ReturnDistribution(np.arange(1.0, 101.0)[:, np.newaxis], ("a",), "state 0")
    >>> distribution.mean().value, distribution.cvar(0.9).value
    (array([50.5]), array([5.5]))
    >>> distribution.to_pandas()[["mean", "5%", "cvar"]]
        mean    5%  cvar
    a   50.5  5.95   5.5
    """

    draws: FloatArray
    policies: tuple[Label, ...]
    start: str
    risk_value: FloatArray | None = None

    @classmethod
    def from_dataset(cls, data: xarray.Dataset) -> ReturnDistribution:
        """Return the distributions in a dataset of ``posterior_returns``.

        Parameters
        ----------
        data : xarray.Dataset
            Result of ``posterior_returns``.

        Returns
        -------
        ReturnDistribution
            Its draws by policy.

        Raises
        ------
        DataError
            If a variable is missing.
        """
        missing = sorted({"returns", "quantile", "risk_value"} - set(getattr(data, "data_vars", ())))
        if missing:
            message = f"expected a dataset of posterior_returns; it has no variable {missing[0]!r}"
            raise DataError(message, code="missing-variable", column=missing[0])
        names = tuple(data.policy.values.tolist())
        return cls(np.asarray(data.returns.values), names, data.attrs["start"], np.asarray(data.risk_value.values))

    def mean(self) -> Estimate:
        """Return the mean return of each policy with its standard error.

        Returns
        -------
        Estimate
            ``value`` and ``error``, arrays [J].
        """
        return estimate_mean(self.draws)

    def standard_deviation(self) -> Estimate:
        """Return the standard deviation of the return of each policy with its standard error.

        Returns
        -------
        Estimate
            ``value`` and ``error``, arrays [J].
        """
        return estimate_standard_deviation(self.draws)

    def quantiles(self, quantiles: Sequence[float] = QUANTILES) -> Estimate:
        """Return quantiles of the return with their standard errors.

        Parameters
        ----------
        quantiles : sequence of float, default=(0.05, 0.5, 0.95)
            Probabilities in [0, 1].

        Returns
        -------
        Estimate
            ``value`` and ``error``, arrays [Q, J].
        """
        return estimate_quantiles(self.draws, read_quantiles(quantiles))

    def cvar(self, tail_alpha: float = TAIL_ALPHA) -> Estimate:
        """Return the mean over the worst ``1 - tail_alpha`` of the draws with its standard error.

        Parameters
        ----------
        tail_alpha : float, default=0.9
            Level of the CVaR in (-1, 1).

        Returns
        -------
        Estimate
            ``value`` and ``error``, arrays [J]. The error is NaN with fewer than two draws in the tail.
        """
        alpha = risk_level(tail_alpha, "tail_alpha")
        value, error = estimate_mean(cvar_terms(self.draws, alpha))
        in_tail = CVaR(alpha).outermost(self.draws.shape[0]).weights.size
        return Estimate(value, error if in_tail > 1 else np.full_like(error, np.nan))

    def interval(self, confidence: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Return the interval between two quantiles that holds the return with this probability.

        Parameters
        ----------
        confidence : float, default=0.9
            Probability in (0, 1) of the interval; both tails have the same.

        Returns
        -------
        low : ndarray [J]
            Lower ends of the intervals.
        high : ndarray [J]
            Upper ends of the intervals.
        """
        tail = 0.5 * (1.0 - open_probability(confidence, "confidence"))
        low, high = np.quantile(self.draws, [tail, 1.0 - tail], axis=0)
        return low, high

    def to_pandas(self, quantiles: Sequence[float] = QUANTILES, tail_alpha: float = TAIL_ALPHA) -> pandas.DataFrame:
        """Return a table with a row for each policy.

        Parameters
        ----------
        quantiles : sequence of float, default=(0.05, 0.5, 0.95)
            Probabilities of the quantiles, which become columns such as ``5%``.
        tail_alpha : float, default=0.9
            Level of the CVaR.

        Returns
        -------
        DataFrame
            Columns mean, sd and cvar, each followed by its standard error (``mean_se``, ...), and the quantiles.
        """
        import pandas

        parts = {"mean": self.mean(), "sd": self.standard_deviation(), "cvar": self.cvar(tail_alpha)}
        columns: dict[str, FloatArray] = {}
        for name, part in parts.items():
            columns |= {name: part.value, f"{name}_se": part.error}
        points = self.quantiles(quantiles).value
        columns |= {f"{100 * q:g}%": row for q, row in zip(read_quantiles(quantiles), points, strict=True)}
        return pandas.DataFrame(columns, index=pandas.Index(list(self.policies), tupleize_cols=False))

    def figure(self, quantile: float = 0.05, tail_alpha: float = TAIL_ALPHA) -> Figure:
        """Return the densities of the returns, one row for each policy, as panels for a page.

        Parameters
        ----------
        quantile : float, default=0.05
            Probability of the quantile to mark.
        tail_alpha : float, default=0.9
            Level of the CVaR to mark.

        Returns
        -------
        prudent.display.figures.base.Figure
            Figure with one panel.
        """
        return figures.draw(
            self.draws,
            self.policies,
            mean=self.mean().value,
            cvar=self.cvar(tail_alpha).value,
            quantile=self.quantiles([quantile]).value[0],
            risk_value=np.full(len(self.policies), np.nan) if self.risk_value is None else self.risk_value,
            tail_alpha=tail_alpha,
            probability=quantile,
            start=self.start,
        )

    def plot(self, quantile: float = 0.05, tail_alpha: float = TAIL_ALPHA) -> Canvas:
        """Plot the densities of the returns, one row for each policy.

        Parameters
        ----------
        quantile : float, default=0.05
            Probability of the quantile to mark.
        tail_alpha : float, default=0.9
            Level of the CVaR to mark.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.
        """
        return self.figure(quantile, tail_alpha).to_matplotlib()

    def __repr__(self) -> str:
        means = ", ".join(f"{value:.5g}" for value in self.mean().value[:5]) + ", ..." * (len(self.policies) > 5)
        return f"ReturnDistribution({self.draws.shape[0]:,} draws from {self.start}, mean {means})"


def plot_returns(data: xarray.Dataset) -> Canvas:
    """Plot the distribution of the true return of each policy, one above the other.

    Marked are the mean, the lowest of the quantiles, the CVaR and, for a policy that came as a ``Solution``, its
    Bayesian-risk value, which takes the risk again at every step and may lie far to the left of all returns.

    Parameters
    ----------
    data : xarray.Dataset
        Result of ``posterior_returns``.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Raises
    ------
    DataError
        If `data` is not a dataset of ``posterior_returns``.

    Examples
    --------
    >>> import prudent as pr
    >>> model = pr.UncertainMDP.direct([[0.0, 0.2], [1.0, 0.0]], discount=0.9)
    >>> figure = plot_returns(pr.analysis.posterior_returns(model, model.prior(), {"a": [0, 0], "b": [1, 0]}, rng=0))
    >>> len(figure.axes)
    1
    """
    return returns_figure(data).to_matplotlib()


def returns_figure(data: xarray.Dataset) -> Figure:
    """Return the figure of ``plot_returns`` as panels for a page."""
    distribution = ReturnDistribution.from_dataset(data)
    return distribution.figure(float(data.probability.values[0]), float(data.attrs["tail_alpha"]))


def read_quantiles(quantiles: ArrayLike) -> list[float]:
    """Return probabilities of quantiles as floats in [0, 1]."""
    return [probability(quantile, "quantiles") for quantile in np.asarray(quantiles, dtype=object).ravel().tolist()]


def cvar_terms(draws: FloatArray, alpha: float) -> FloatArray:
    """Return numbers [N, ...] whose mean is the CVaR of the draws, and the error of that mean that of the CVaR.

    Those of paired draws are paired: the error of a difference of two CVaRs is that of the mean of their difference.

    >>> float(cvar_terms(np.array([1.0, 2.0, 3.0, 4.0]), 0.5).mean())
    1.5
    """
    if alpha < 0.0:
        return -cvar_terms(-draws, -alpha)
    last = CVaR(alpha).lowest_weights(draws.shape[0]).size - 1
    edge = np.partition(draws, last, axis=0)[last]
    return np.asarray(edge - np.maximum(edge - draws, 0.0) / (1.0 - alpha))
