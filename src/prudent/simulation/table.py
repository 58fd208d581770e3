"""Tables of simulations and sweeps: means with intervals, paired differences, and what pairing gained."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.checks import FloatArray, one_of, open_probability
from .._support.intervals import student_factor
from .._support.output import table_text
from ..display.words import plus_minus, visible
from ..errors import DataError, ParameterError
from ..types import PathLike

if TYPE_CHECKING:
    import pandas
    import xarray

METRICS = ("regret", "total_reward")
COLUMNS = ["mean", "low", "high", "difference", "difference_low", "difference_high", "correlation", "gain", "runs"]
_SPECIAL = str.maketrans({c: f"\\{c}" for c in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\~{}", "^": r"\^{}"})


@dataclass(frozen=True, eq=False)
class RegretTable:
    """Means of agents with intervals, and their differences from a baseline.

    Attributes
    ----------
    frame : pandas.DataFrame
        One row for each agent (and environment, in a sweep). ``mean``, ``low``, ``high``: the metric at the end, with
        Student's interval for this mean alone. ``difference``, ``difference_low``, ``difference_high``: the same minus
        the baseline in the same replications, with intervals that hold for all differences together (Bonferroni).
        ``correlation``: with the baseline over replications. ``gain``: how many times more replications independent
        runs would need for an interval of the same width. ``runs``: number of replications.
    metric : str
        ``"regret"`` or ``"total_reward"``.
    baseline : str
        Label of the agent that others are compared with.
    confidence : float
        Confidence of the intervals.
    """

    frame: pandas.DataFrame
    metric: str
    baseline: str
    confidence: float

    def to_csv(self, path: PathLike | None = None) -> str:
        """Return the table as CSV, with all digits.

        Parameters
        ----------
        path : path-like, optional
            File to write as well.

        Returns
        -------
        str
            The text.
        """
        return _written(table_text(self.frame), path)

    def to_latex(self, path: PathLike | None = None) -> str:
        """Return the table for LaTeX, in the style of the package booktabs.

        Parameters
        ----------
        path : path-like, optional
            File to write as well.

        Returns
        -------
        str
            The text: means and differences with the half widths of their intervals.
        """
        keys = [name for name in self.frame.columns if name not in COLUMNS]
        what = self.metric.replace("_", " ")
        head = [*keys, what, f"less {self.baseline}", "runs"]
        lines = [
            f"% intervals at {self.confidence:.4g}; those of differences hold together",
            r"\begin{tabular}{" + "l" * len(keys) + "rrr}",
            r"\toprule",
            " & ".join(text.translate(_SPECIAL) for text in head) + r" \\",
            r"\midrule",
        ]
        for row in self.frame.to_dict("records"):
            cells = [str(row[name]).translate(_SPECIAL) for name in keys]
            cells.append(_latex(row["mean"], row["high"] - row["mean"]))
            lead = row["difference"]
            cells.append("" if np.isnan(lead) else _latex(lead, row["difference_high"] - lead))
            lines.append(" & ".join([*cells, str(int(row["runs"]))]) + r" \\")
        return _written("\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""]), path)

    def to_pandas(self) -> pandas.DataFrame:
        """Return a copy of the table.

        Returns
        -------
        pandas.DataFrame
            The rows.
        """
        return self.frame.copy()

    def __repr__(self) -> str:
        table = visible(self.frame.to_string(index=False))
        return f"RegretTable({self.metric}, intervals at {self.confidence:.4g})\n{table}"


def regret_table(
    data: xarray.Dataset, *, baseline: str | None = None, confidence: float = 0.95, metric: str | None = None
) -> RegretTable:
    """Return means with intervals of the agents of a simulation or a sweep, for a paper or a spreadsheet.

    Parameters
    ----------
    data : xarray.Dataset
        What `prudent.simulate` (with runs or a summary), `simulate_bandit` or `prudent.reproduction.sweep` returned.
    baseline : str, optional
        Label of the agent that others are compared with. The default is the first.
    confidence : float, default=0.95
        Confidence of the intervals.
    metric : {"regret", "total_reward"}, optional
        What is compared, at the end of the runs. The default is regret, if all agents have one.

    Returns
    -------
    RegretTable
        The table, with ``to_csv`` and ``to_latex``.

    Raises
    ------
    ParameterError
        If there is no such agent or metric.
    DataError
        If `data` has neither regret nor total reward.

    Examples
    --------
    >>> import prudent as pr
    >>> lake, agents = pr.envs.frozen_lake(0.2), [pr.agents.ts_rl(), pr.brps_rl(0.9)]
    >>> runs = pr.simulate(lake, agents, episodes=50, replications=40, pairing="source")
    >>> table = regret_table(runs)
    >>> table.frame.agent.tolist(), table.frame.runs.tolist()
    (['TS-RL', 'BRPS-RL 0.9'], [40, 40])
    """
    import pandas

    level = open_probability(confidence, "confidence")
    labels = [str(label) for label in data.agent.values]
    reference = labels[0] if baseline is None else one_of(baseline, "baseline", labels)
    chosen = _metric(data, metric)
    cells = list(_cells(data, chosen))
    comparisons = max(1, len(cells) * (len(labels) - 1))
    rows: list[tuple[Any, ...]] = []
    for names, means, covariance, count in cells:
        base = labels.index(reference)
        for i, label in enumerate(labels):
            own = _interval(means[i], covariance[i, i], count, level, 1)
            lead: tuple[float, ...] = (np.nan,) * 5
            if i != base:
                spread = covariance[i, i] + covariance[base, base] - 2.0 * covariance[i, base]
                apart = covariance[i, i] + covariance[base, base]
                scale = float(np.sqrt(covariance[i, i] * covariance[base, base]))
                lead = (
                    *_interval(means[i] - means[base], spread, count, level, comparisons),
                    covariance[i, base] / scale if scale > 0.0 else np.nan,
                    apart / spread if spread > 0.0 else np.nan,
                )
            rows.append((*names, label, *own, *lead, count))
    keys = ["environment"] if "environment" in data.dims else []
    frame = pandas.DataFrame(rows, columns=[*keys, "agent", *COLUMNS])
    return RegretTable(frame, chosen, reference, level)


def _metric(data: xarray.Dataset, metric: str | None) -> str:
    """Return what to compare, or raise if the data does not have it."""
    known = [name for name in METRICS if {name, f"{name}_mean"} & set(data.data_vars)]
    if "reward" in data and "total_reward" not in known:
        known.append("total_reward")
    if not known:
        message = f"data has neither regret nor total_reward, only {', '.join(map(str, data.data_vars))}"
        raise DataError(message, code="missing-column", argument="data")
    if metric is not None:
        return str(one_of(metric, "metric", known))
    if "regret" in known and not np.isnan(_ends(data, "regret")).any():
        return "regret"
    if "total_reward" not in known:
        raise ParameterError("metric: not all agents have a regret", code="missing-argument", argument="metric")
    return "total_reward"


def _ends(data: xarray.Dataset, metric: str) -> FloatArray:
    """Return the metric at the end of each run, [..., agent, ..., replication], or the means of a summary."""
    if f"{metric}_mean" in data:
        return np.asarray(data[f"{metric}_mean"].values[..., -1])
    if metric == "total_reward" and metric not in data:
        return np.asarray(data["reward"].sum(str(data["reward"].dims[-1])).values)
    return np.asarray(data[metric].isel({data[metric].dims[-1]: -1}).values)


def _cells(data: xarray.Dataset, metric: str) -> Any:
    """Yield for each environment its name, means [A], covariances [A, A] and the number of replications."""
    if f"{metric}_mean" in data:
        means, spread = data[f"{metric}_mean"].values[..., -1], data[f"{metric}_covariance"].values
        counts = data["replications"].values
        if "environment" not in data.dims:
            yield (), means, spread, int(counts.min())
        else:
            for i, name in enumerate(data.environment.values):
                yield (str(name),), means[i], spread[i], int(counts[i].min())
        return
    ends = _ends(data, metric)
    if "environment" not in data.dims:
        yield (), *_moments(ends)
        return
    for name, runs in zip(data.environment.values, ends, strict=True):
        yield (str(name),), *_moments(runs.reshape(len(runs), -1))


def _moments(runs: FloatArray) -> tuple[FloatArray, FloatArray, int]:
    """Return means and covariances of runs [A, R], of the replications that all agents have."""
    good = runs[:, ~np.isnan(runs).all(axis=0)]
    count = good.shape[1]
    spread = np.atleast_2d(np.cov(good)) if count > 1 else np.full((len(runs), len(runs)), np.nan)
    return good.mean(axis=1), spread, count


def _interval(mean: float, variance: float, count: int, confidence: float, comparisons: int) -> tuple[float, ...]:
    """Return a mean with Student's interval, without bounds if there is one replication."""
    if count < 2:
        return float(mean), -np.inf, np.inf
    half = np.sqrt(max(variance, 0.0) / count) * student_factor(count, confidence, comparisons)
    return float(mean), float(mean - half), float(mean + half)


def _latex(value: float, half: float) -> str:
    text = plus_minus(value, half).replace("−", "-").replace("±", r"\pm")
    return f"${text}$"


def _written(text: str, path: PathLike | None) -> str:
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text
