"""Off-policy evaluation of slates: several arms shown at positions 1, ..., K, with a reward at each.

Slate i shows arm a_k at position k, with the reward r_k. Let p_k be the chance of a_k given the context and the arms
above it, m_k its chance at that position whatever is above, and p'_k, m'_k the same for the target. With
u_k = m'_k / m_k and w_k = product of p'_j / p_j over j <= k, the estimates are means over slates of the sums over k of

    sips          w_K r_k                                       unbiased
    iips          u_k r_k                                       if a reward depends on its own arm and position alone
    rips          w_k r_k                                       if it depends on its own arm and those above (cascade)
    cascade_dr    w_k (r_k - q_k) + w_(k-1) q'_k                the same, whatever the predictions

and sn_sips, sn_iips, sn_rips the first three with weights over their mean, position by position. q_k predicts the
reward of a_k, and q'_k is the mean prediction over the target's arms at position k. Without predictions both are the
mean reward of the position in other folds.

Formulas as in Li et al. (KDD 2018), McInerney et al. (KDD 2020) and Kiyohara et al. (WSDM 2022);
``python -m benchmarks.off_policy FILE`` compares them with the Open Bandit Pipeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.checks import open_probability, require_scale, whole_number
from .._support.intervals import normal_half_width
from ..data.source import TableSource
from ..display.figures import off_policy as figures
from ..errors import DataError
from ..types import FloatArray, IntArray, TableLike
from .off_policy import LARGEST_WEIGHT
from .tables import EstimateTable

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

ESTIMATORS = ("sips", "iips", "rips", "sn_sips", "sn_iips", "sn_rips", "cascade_dr")
_COLUMNS = ("slate", "position", "reward", "propensity", "target")
_OPTIONAL = ("propensity_at_position", "target_at_position", "prediction", "target_prediction")


@dataclass(frozen=True, eq=False, repr=False)
class SlateEstimates(EstimateTable):
    """Table of off-policy estimates of slates: the result of ``off_policy_slates``.

    Attributes
    ----------
    table : DataFrame
        A row for each estimator with columns estimate, low, high and ess, the effective number of slates.
    confidence : float
        Confidence of the intervals.
    n : int
        Number of slates.
    positions : int
        Largest number of positions of a slate.
    value : float
        Mean reward of a logged slate.

    See Also
    --------
    off_policy_slates : Estimate what another policy of slates would have earned.
    """

    table: pandas.DataFrame
    confidence: float
    n: int
    positions: int
    value: float

    def __repr__(self) -> str:
        return "\n".join(
            [
                f"Off-policy estimates from {self.n:,} slates of up to {self.positions} positions, normal intervals at "
                f"{self.confidence:g}",
                self.table.to_string(float_format=lambda x: f"{x:.6g}"),
                f"log itself: {self.value:.6g} a slate",
            ]
        )

    def plot(self) -> Figure:
        """Plot the estimates with their intervals, beside the mean reward of a logged slate.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.
        """
        return figures.draw_estimates(self.table, self.value, self.confidence).to_matplotlib()


def off_policy_slates(
    log: TableLike, *, columns: Mapping[str, str] | None = None, confidence: float = 0.95, folds: int = 5
) -> SlateEstimates:
    """Estimate what another policy of slates would have earned, from a log with a row for each position.

    Parameters
    ----------
    log : DataFrame, dict of columns, path or pyarrow table
        A row for each position of each slate, with the columns ``slate`` (which slate), ``position`` (0 is the first),
        ``reward``, ``propensity`` (the chance of the arm that was shown, given those above it) and ``target`` (the same
        for the target policy). If there are any: ``propensity_at_position`` and ``target_at_position``, the chances
        whatever is above, by default the same; ``prediction`` and ``target_prediction``, predicted rewards of the arm
        that was shown, and in the mean over the arms of the target.
    columns : dict, optional
        Names of the columns that differ from the default.
    confidence : float, default=0.95
        Confidence of the intervals, which are normal: slates are taken to be independent.
    folds : int, default=5
        Number of folds of the mean rewards that stand in for predictions.

    Returns
    -------
    SlateEstimates
        A table with the rows sips, iips, rips, sn_sips, sn_iips, sn_rips and cascade_dr.

    Raises
    ------
    DataError
        If a column is missing or not numbers, a chance is not a probability, or a position occurs twice in a slate.
    ParameterError
        If an argument is out of range.

    See Also
    --------
    off_policy : Evaluate a policy of single decisions.

    References
    ----------
    Li et al. (2018), Offline evaluation of ranking policies with click models.
    McInerney, Brost, Chandar, Mehrotra, Carterette (2020), Counterfactual evaluation of slate recommendations.
    Kiyohara et al. (2022), Doubly robust off-policy evaluation for ranking policies under the cascade behavior model.

    Examples
    --------
    >>> import prudent as pr
    >>> log = {"slate": [i // 2 for i in range(400)], "position": [0, 1] * 200, "reward": [1.0, 0.0, 0.0, 1.0] * 100,
    ...        "propensity": [0.5] * 400, "target": [0.8, 0.5, 0.2, 0.5] * 100}
    >>> pr.evaluation.off_policy_slates(log)["iips"].round(3).tolist()[:1]
    [1.3]
    """
    import pandas

    level = open_probability(confidence, "confidence")
    shares = whole_number(folds, "folds", minimum=2, maximum=10_000)
    cells = _read(log, dict(columns or {}))
    slates, positions = _places(cells)
    count, size = int(slates.max()) + 1, int(positions.max()) + 1

    def placed(values: FloatArray, empty: float) -> FloatArray:
        """Return values [N, K]: a row for each slate."""
        found = np.full((count, size), empty)
        found[slates, positions] = values
        return found

    there = placed(np.ones(len(slates)), 0.0)
    reward = placed(cells["reward"], 0.0)
    with np.errstate(over="ignore"):
        alone: FloatArray = placed(cells["target_at_position"] / cells["propensity_at_position"], 1.0)
        upto: FloatArray = placed(cells["target"] / cells["propensity"], 1.0).cumprod(axis=1)
    if not (alone.max() <= LARGEST_WEIGHT and upto.max() <= LARGEST_WEIGHT):
        message = f"weights of log are above {LARGEST_WEIGHT:g}: propensities are too small"
        raise DataError(message, code="weight-range", argument="log")
    weights: dict[str, FloatArray] = {"sips": np.repeat(upto[:, -1:], size, axis=1), "iips": alone, "rips": upto}
    own, mean = _predictions(cells, placed, reward, there, shares)
    before = np.concatenate([np.ones((count, 1)), upto[:, :-1]], axis=1)
    rows: dict[str, Any] = {}
    for name, w in weights.items():
        sums = (w * reward * there).sum(axis=1)
        rows[name] = _row(float(sums.mean()), sums, w, there, level)
        top, base = np.asarray((w * reward * there).sum(axis=0)), np.asarray((w * there).sum(axis=0))
        ratio = np.divide(top, base, out=np.zeros(size), where=base > 0.0)
        seen = there.mean(axis=0)
        value = float((ratio * seen).sum())
        share = np.divide(seen * count, base, out=np.zeros(size), where=base > 0.0)
        influence = (w * (reward - ratio) * there * share).sum(axis=1) + value
        rows[f"sn_{name}"] = _row(value, influence, w, there, level)
    sums = ((upto * (reward - own) + before * mean) * there).sum(axis=1)
    rows["cascade_dr"] = _row(float(sums.mean()), sums, upto, there, level)
    table = pandas.DataFrame.from_dict({name: rows[name] for name in ESTIMATORS}, orient="index")
    return SlateEstimates(table.rename_axis("estimator"), level, count, size, float((reward * there).sum() / count))


def _row(value: float, sums: FloatArray, weights: FloatArray, there: FloatArray, confidence: float) -> dict[str, float]:
    """Return a row of the table, from what each slate adds."""
    count = len(sums)
    half = normal_half_width(float(sums.var(ddof=1)), count, confidence) if count > 1 else np.inf
    squares = (weights**2 * there).sum(axis=0)
    worth = np.divide((weights * there).sum(axis=0) ** 2, squares, out=np.zeros(len(squares)), where=squares > 0.0)
    return {"estimate": value, "low": value - half, "high": value + half, "ess": float(worth.min())}


def _read(log: TableLike, names: dict[str, str]) -> dict[str, Any]:
    """Return the columns of a log, checked; chances at positions are by default those given what is above."""
    import pandas

    source = TableSource(log, "log")
    held = [] if source.column_names is None else list(source.column_names)
    wanted = [*_COLUMNS, *(name for name in _OPTIONAL if names.get(name, name) in held)]
    for name in wanted:
        if names.get(name, name) not in held:
            message = f"log has no column {names.get(name, name)!r}; its columns are {held}"
            raise DataError(message, code="missing-column", argument="log", column=names.get(name, name))
    cells: dict[str, Any] = dict(zip(wanted, source.cells(*(names.get(name, name) for name in wanted)), strict=True))
    for name in wanted[1:]:
        numbers = np.asarray(pandas.to_numeric(pandas.Series(list(cells[name])), errors="coerce"), dtype=np.float64)
        chance = name.startswith(("propensity", "target")) and not name.endswith("prediction")
        good = np.isfinite(numbers) & (np.abs(numbers) <= 1e100)
        if chance:
            good = (numbers >= 0.0) & (numbers <= 1.0 + 1e-9) & ((numbers > 0.0) | name.startswith("target"))
        if not good.all():
            row = int(np.argmin(good))
            kind = "a probability" + (" above 0" if name.startswith("propensity") else "") if chance else "a number"
            message = f"log row {row}: {name} is {list(cells[name])[row]!r}, expected {kind}"
            raise DataError(message, code="value-range", column=names.get(name, name), row=row, expected=kind)
        cells[name] = numbers
    if not len(cells["reward"]):
        raise DataError("log is empty: it has no rows", code="no-rows", argument="log")
    require_scale(cells["reward"], "evaluation of a log", error=DataError)
    cells.setdefault("propensity_at_position", cells["propensity"])
    cells.setdefault("target_at_position", cells["target"])
    return cells


def _places(cells: dict[str, Any]) -> tuple[IntArray, IntArray]:
    """Return the number of the slate and the position of each row."""
    import pandas

    try:
        slates = pandas.factorize(pandas.Series(list(cells["slate"])))[0]
    except TypeError as error:  # a list, say
        message = f"log: column 'slate' holds cells that are no names: {error}"
        raise DataError(message, code="wrong-type", argument="log", column="slate") from None
    positions = np.clip(cells["position"], -1.0, 10_000.0).astype(np.int64)
    bad = (positions != cells["position"]) | (positions < 0) | (positions >= 10_000) | (slates < 0)
    twice = pandas.DataFrame({"slate": slates, "position": positions}).duplicated().to_numpy()
    if (bad | twice).any():
        row = int(np.argmax(bad | twice))
        kind = "a slate and a position 0, 1, ... that occurs once in it"
        own = f"slate {list(cells['slate'])[row]!r} has the position {cells['position'][row]}"
        message = f"log row {row}: {own}, expected {kind}"
        raise DataError(message, code="value-range", column="position", row=row, expected=kind)
    size = np.bincount(slates, minlength=slates.max() + 1)
    highest = np.zeros(len(size), dtype=np.int64)
    np.maximum.at(highest, slates, positions)
    if (highest + 1 != size).any():
        slate = int(np.argmax(highest + 1 != size))
        row = int(np.argmax(slates == slate))
        message = f"log row {row}: its slate has {size[slate]} rows and the position {highest[slate]}: some are missing"
        raise DataError(message, code="value-range", column="position", row=row, expected="no gaps")
    return np.asarray(slates, dtype=np.int64), positions


def _predictions(
    cells: dict[str, Any], placed: Any, reward: FloatArray, there: FloatArray, folds: int
) -> tuple[FloatArray, FloatArray]:
    """Return predictions [N, K] of the arms that were shown, and in the mean over those of the target."""
    if "prediction" in cells and "target_prediction" in cells:
        return placed(cells["prediction"], 0.0), placed(cells["target_prediction"], 0.0)
    if "prediction" in cells or "target_prediction" in cells:
        message = "log needs both prediction and target_prediction, or neither"
        raise DataError(message, code="missing-column", argument="log", column="target_prediction")
    fold = np.arange(len(reward)) % folds
    found = np.zeros_like(reward)
    for f in range(folds):
        others = fold != f
        seen = there[others].sum(axis=0)
        means = np.divide((reward * there)[others].sum(axis=0), seen, out=np.zeros(len(seen)), where=seen > 0.0)
        found[fold == f] = means
    return found, found
