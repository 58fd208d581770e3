"""The result of off-policy evaluation of episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..._support.checks import one_of
from ...display.figures import off_policy as figures
from ..tables import EstimateTable

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.figure import Figure

SHOWN = ["estimate", "low", "high", "ess", "answers"]


@dataclass(frozen=True, eq=False, repr=False)
class EpisodeEstimates(EstimateTable):
    """Table of off-policy estimates from episodes: the result of ``off_policy`` with a discount.

    It reads like a DataFrame: ``found.loc["wdr", "low"]``, ``found["estimate"]``, ``found["wdr"]``.

    Attributes
    ----------
    table : DataFrame
        A row for each estimator (is, wis, pdis, wpdis, dr, wdr, mis, fqe, model) with columns estimate, low, high, ess
        (effective number of episodes, of rows for mis and fqe), answers (whether the log can answer), error (standard
        error), largest (largest share of one episode or row in all weight), safe_low and safe_high (limits that need
        no normality, for is and wis), code and reason (why it does not answer).
    by_step : DataFrame
        For each step: the number of episodes that last so long, ess, the largest weight, its share and the mean weight.
    returns : DataFrame
        Quantiles and CVaR of the return of an episode under the target with their intervals, and those of the log.
    recommended : str or None
        The estimate to take; None if the log cannot answer.
    verdict : str
        Whether the log can answer, in words.
    answers : bool
        The same.
    value, value_low, value_high : float
        Mean return of the log with its interval.
    confidence : float
        Confidence of the intervals.
    interval : str
        "bootstrap" or "normal".
    discount : float
        Discount factor.
    horizon : int or None
        Number of steps after which episodes stop; None if they go on until the process ends.
    n, rows, dropped : int
        Numbers of episodes and rows that are used, and of episodes that are not.
    propensities : str
        Where the propensities come from.
    calibration : DataFrame or None
        For estimated propensities: predicted and observed frequencies of actions in episodes that were left out.
    calibration_error : float
        Their mean difference; NaN if propensities are not estimated.
    q_model : str
        Where the values in dr, wdr and fqe come from.
    return_range : tuple of float
        Range of returns that safe_low and safe_high assume.
    range_observed : bool
        Whether it is that of the log.

    See Also
    --------
    off_policy : Estimate the value of a policy.

    Examples
    --------
    >>> from prudent import off_policy
    >>> log = {"episode": [i // 2 for i in range(400)], "state": ["new", "old"] * 200, "action": ["call", "mail"] * 200,
    ...        "reward": [0.0, 1.0, 0.0, 3.0] * 100}
    >>> log["action"][1::4] = ["call"] * 100
    >>> found = off_policy(log, {"new": "call", "old": "mail"}, discount=1.0)
    >>> found.recommended, round(float(found.loc["wdr", "estimate"]), 3), found.value
    ('wdr', 3.0, 2.0)
    """

    table: pandas.DataFrame
    by_step: pandas.DataFrame
    returns: pandas.DataFrame
    recommended: str | None
    verdict: str
    value: float
    value_low: float
    value_high: float
    confidence: float
    interval: str
    discount: float
    horizon: int | None
    n: int
    rows: int
    dropped: int
    propensities: str
    calibration: pandas.DataFrame | None
    calibration_error: float
    q_model: str
    return_range: tuple[float, float]
    range_observed: bool

    @property
    def answers(self) -> bool:
        """Whether the log can answer."""
        return self.recommended is not None

    def to_xarray(self) -> xarray.Dataset:
        """Return the tables as one dataset over ``estimator``, ``step`` and ``measure``.

        Returns
        -------
        xarray.Dataset
            The columns of ``table``, those of ``by_step`` as step_..., and those of ``returns`` as return_....

        Examples
        --------
        >>> from prudent import off_policy
        >>> log = {"episode": [i // 2 for i in range(400)], "state": ["new", "old"] * 200, "action": ["call"] * 400,
        ...        "reward": [0.0, 1.0, 0.0, 3.0] * 100}
        >>> dict(off_policy(log, "logged", discount=1.0).to_xarray().sizes)
        {'estimator': 9, 'step': 2, 'measure': 6}
        """
        table = self.table.to_xarray()
        steps, measures = self.by_step.to_xarray(), self.returns.to_xarray()
        table = table.merge(steps.rename({name: f"step_{name}" for name in steps.data_vars}))
        table = table.merge(measures.rename({name: f"return_{name}" for name in measures.data_vars}))
        return table.assign_attrs(
            value=self.value, confidence=self.confidence, n=self.n, recommended=self.recommended or ""
        )

    def plot(self, kind: str = "estimates") -> Figure:
        """Plot the estimates with the mean return of the log, or the effective number of episodes by step.

        Parameters
        ----------
        kind : {"estimates", "steps"}, default="estimates"
            What to plot.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.

        Raises
        ------
        ParameterError
            If there is no such kind.

        Examples
        --------
        >>> from prudent import off_policy
        >>> log = {"episode": [i // 2 for i in range(400)], "state": ["new", "old"] * 200, "action": ["call"] * 400,
        ...        "reward": [0.0, 1.0, 0.0, 3.0] * 100}
        >>> len(off_policy(log, "logged", discount=1.0).plot().axes)
        1
        """
        one_of(kind, "kind", ("estimates", "steps"))
        if kind == "steps":
            return figures.draw_steps(self.by_step, self.n).to_matplotlib()
        return figures.draw_episode_estimates(self.table, self.value, self.confidence, self.recommended).to_matplotlib()

    def __repr__(self) -> str:
        shown = self.table[SHOWN].copy()
        shown["answers"] = ["yes" if answers else "no" for answers in shown["answers"]]
        steps = "" if self.horizon is None else f", {self.horizon} steps each at most"
        calibrated = "" if self.calibration is None else f" (calibration error {self.calibration_error:.2g})"
        lines = [
            f"Off-policy estimates from {self.n:,} episodes ({self.rows:,} rows{steps}), discount {self.discount:g}, "
            f"{self.interval} intervals at {self.confidence:g}",
            shown.to_string(float_format=lambda x: f"{x:.6g}"),
            f"log itself: {self.value:.6g} [{self.value_low:.6g}, {self.value_high:.6g}]; propensities: "
            f"{self.propensities}{calibrated}; values: {self.q_model}",
            f"verdict: {self.verdict}",
        ]
        reasons = self.table.loc[~self.table["answers"], "reason"]
        for reason in dict.fromkeys(reasons):
            names = ", ".join(reasons.index[reasons == reason])
            lines.append(f"{names}: {reason}")
        return "\n".join(lines)
