"""The table of off-policy estimates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from .._support.checks import one_of
from ..display.figures import off_policy as figures
from ..types import ArmLike, FloatArray, IntArray
from .estimators import ESTIMATORS, R, estimates_at
from .limits import Ranges, limits_of
from .moments import Moments
from .tables import EstimateTable

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


class Trace(NamedTuple):
    """Sums at the points of a curve."""

    centre: float
    marks: IntArray  # [G] numbers of rows
    snapshots: Sequence[Moments]  # [G]
    chosen: FloatArray  # [G, A] mean probabilities of the target between marks
    logged: FloatArray  # [G, A] shares of the logged arms between marks
    ranges: Ranges

    def frame(self, values: Any, columns: Sequence[Any]) -> pandas.DataFrame:
        """Return a table with a row for each point."""
        import pandas

        return pandas.DataFrame(values, columns=list(columns), index=pandas.Index(self.marks, name="rows"))


@dataclass(frozen=True, eq=False, repr=False)
class OffPolicyEstimates(EstimateTable):
    """Table of off-policy estimates: the result of ``off_policy``.

    It reads like a DataFrame: ``estimates.loc["dr", "low"]``, ``estimates["estimate"]``, ``estimates["dr"]``.

    Attributes
    ----------
    table : DataFrame
        A row for each estimator with columns estimate, low, high and ess.
    confidence : float
        Confidence of the intervals.
    interval : str
        "bernstein" or "normal".
    n : int
        Number of rows that count.
    left_out : int
        Number of rows that were skipped because they have no reward.
    arms : tuple
        Names of the arms.
    value, value_low, value_high : float
        Mean reward of the log with its interval.
    rewarded : int
        Number of rows with a weight above zero and a reward that is not zero, on which the estimates rest.
    reward_model : str
        Description of the reward model.
    clip, switch : float
        Bounds on the weights of ``clipped_ips`` and ``switch_dr``.
    reward_range : tuple of float
        Range of the rewards that the intervals assume.
    max_weight : float
        Largest weight that they assume.
    observed : tuple of str
        Which of "rewards" and "weights" were bounded by what the log shows.
    warnings : tuple of str
        Reasons to doubt the estimates, in words.
    warning_codes : tuple of str
        Their codes: skipped-rows, no-overlap, never-logged, uncovered, mean-weight, poor-overlap, dominant-row,
        few-rewards, constant-reward.
    trace : Trace
        Sums at the points of the curves.

    See Also
    --------
    off_policy : Estimate the value of a policy.

    Examples
    --------
    >>> from prudent import off_policy
    >>> log = [([1.0], arm, float(arm == "b"), 0.5) for arm in "ab" * 200]
    >>> estimates = off_policy(log, {"a": 0.25, "b": 0.75})
    >>> float(estimates.loc["ips", "estimate"]), estimates.value, estimates.warnings
    (0.75, 0.5, ())
    """

    table: pandas.DataFrame
    confidence: float
    interval: str
    n: int
    left_out: int
    arms: tuple[ArmLike, ...]
    value: float
    value_low: float
    value_high: float
    rewarded: int
    reward_model: str
    clip: float
    switch: float
    reward_range: tuple[float, float]
    max_weight: float
    observed: tuple[str, ...]
    warnings: tuple[str, ...]
    warning_codes: tuple[str, ...]
    trace: Trace

    def __repr__(self) -> str:
        seen = f" ({' and '.join(self.observed)} as seen)" if self.observed else ""
        logged = f"{self.value:.6g} [{self.value_low:.6g}, {self.value_high:.6g}]"
        ranges = f"rewards in [{self.reward_range[0]:g}, {self.reward_range[1]:g}], weights up to {self.max_weight:.4g}"
        lines = [
            f"Off-policy estimates from {self.n:,} rows, {self.interval} intervals at {self.confidence:g}",
            self.table.to_string(float_format=lambda x: f"{x:.6g}"),
            f"log itself: {logged}; reward model: {self.reward_model}",
            f"{ranges}{seen}; clip {self.clip:.4g}, switch {self.switch:.4g}",
        ]
        return "\n".join([*lines, *(f"warning: {sentence}" for sentence in self.warnings)])

    # -- over time -----------------------------------------------------------------------------------------

    def curve(self, estimator: str = "dr") -> pandas.DataFrame:
        """Return an estimate from the rows up to each of at most 200 points, beside the mean reward of the log.

        Parameters
        ----------
        estimator : str, default="dr"
            Name of a row of the table.

        Returns
        -------
        DataFrame
            Columns estimate, low, high, logged, logged_low and logged_high, indexed by the number of rows.

        Raises
        ------
        ParameterError
            If there is no such estimator.

        Examples
        --------
        >>> from prudent import off_policy
        >>> log = [([1.0], arm, float(arm == "b"), 0.5) for arm in "ab" * 200]
        >>> off_policy(log, "b").curve("ips").loc[400].round(3).tolist()
        [1.0, 0.836, 1.0, 0.5, 0.418, 0.582]
        """
        one_of(estimator, "estimator", ESTIMATORS)
        rows = []
        for moments in self.trace.snapshots:
            known = (moments, self.trace.centre, self.trace.ranges, self.confidence)
            value = estimates_at(moments.mean, self.trace.centre)[estimator].value
            logged = self.trace.centre + float(moments.mean[R])
            ends = (limits_of(name, *known, interval=self.interval, planned=self.n) for name in (estimator, "logged"))
            rows.append([value, *next(ends), logged, *next(ends)])
        return self.trace.frame(rows, ["estimate", "low", "high", "logged", "logged_low", "logged_high"])

    def propensities(self) -> pandas.DataFrame:
        """Return the target's mean probability of each arm in the rows between points of the curve.

        Returns
        -------
        DataFrame
            A column for each arm, indexed by the number of rows.

        Examples
        --------
        >>> from prudent import off_policy
        >>> log = [([1.0], arm, float(arm == "b"), 0.5) for arm in "ab" * 200]
        >>> off_policy(log, {"a": 0.25, "b": 0.75}).propensities().loc[400].tolist()
        [0.25, 0.75]
        """
        return self.trace.frame(self.trace.chosen, self.arms)

    def plot(self, kind: str = "estimates", estimator: str = "dr") -> Figure:
        """Plot the estimates, or how they develop over the rows of the log.

        Parameters
        ----------
        kind : {"estimates", "reward", "propensities"}, default="estimates"
            The table with its intervals; an estimate over the rows; or the arms' probabilities over the rows.
        estimator : str, default="dr"
            Estimator of ``kind="reward"``.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.

        Raises
        ------
        ParameterError
            If there is no such kind or estimator.

        Examples
        --------
        >>> from prudent import off_policy
        >>> log = [([1.0], arm, float(arm == "b"), 0.5) for arm in "ab" * 200]
        >>> len(off_policy(log, "b").plot().axes)
        1
        """
        one_of(kind, "kind", ("estimates", "reward", "propensities"))
        if kind == "estimates":
            figure = figures.draw_estimates(self.table, self.value, self.confidence)
        elif kind == "reward":
            figure = figures.draw_reward(self.curve(estimator), estimator, self.confidence)
        else:
            logged = self.trace.frame(self.trace.logged, self.arms)
            figure = figures.draw_propensities(self.propensities(), logged)
        return figure.to_matplotlib()
