"""Logs of several policies: propensities by the balance heuristic.

If logger l wrote the share s_l of the rows, a row is as good as drawn from the mixture of the loggers. Its weight under
the mixture, with the propensity sum of s_l p_l(a|x), is unbiased as well, and never larger than 1 / s_l times the
weight under logger l (Veach and Guibas, SIGGRAPH 1995; Agarwal et al., KDD 2017).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ..data.source import TableSource
from ..errors import DataError, ParameterError
from ..types import FloatArray, TableLike
from .logs import BLOCK, BanditLog, Layout, feature_columns
from .policies import TargetLike, arms_of, policy_of, reading_of


def balanced_propensities(
    log: TableLike,
    loggers: Mapping[Any, TargetLike],
    *,
    logger: str = "logger",
    features: Sequence[str] | None = None,
    columns: Mapping[str, Any] | None = None,
) -> FloatArray:
    """Return the propensities of a log of several policies by the balance heuristic.

    Put them into the column ``propensity`` of the log, for ``off_policy`` or ``learn_policy``.

    Parameters
    ----------
    log : DataFrame, dict of columns, path, pyarrow table or list of dicts
        The decisions, as for ``off_policy``, with a column that names the policy that acted.
    loggers : mapping of str to bandit, array_like, callable, str or dict
        The policies by name, each as a target of ``off_policy``.
    logger : str, default="logger"
        Name of the column.
    features : sequence of str, optional
        The columns of a wide table that make the context.
    columns : dict, optional
        Names of the columns that differ from the default.

    Returns
    -------
    ndarray of float, [T]
        For each row the chance of its arm under every logger, weighted by the share of its rows.

    Raises
    ------
    DataError
        If the log is malformed, or no logger gives an arm that was logged a chance.
    ParameterError
        If a row names a logger that is not there.

    Examples
    --------
    >>> import prudent as pr
    >>> log = [{"arm": arm, "reward": 1.0, "logger": name} for name, arm in zip("oonn", "abbb")]
    >>> pr.evaluation.balanced_propensities(log, {"o": {"a": 0.8, "b": 0.2}, "n": {"a": 0.1, "b": 0.9}})
    array([0.45, 0.55, 0.55, 0.55])
    """
    if isinstance(log, (list, tuple)) and len(log) and not isinstance(log[0], Mapping):
        message = f"log has rows without names, and the column {logger!r} is needed: give dicts, or a table"
        raise DataError(message, code="missing-column", argument="log", column=logger)
    (cells,) = TableSource(log, "log").cells(logger)
    names = [cell.item() if isinstance(cell, np.generic) else cell for cell in cells]
    for row, name in enumerate(names):
        if not isinstance(name, Hashable) or name not in loggers:
            message = f"log row {row}: the policy {name!r} is not one of loggers {list(loggers)[:8]}"
            raise ParameterError(message, code="unknown-option", argument="loggers", value=name)
    shares = {name: names.count(name) / len(names) for name in loggers}
    first = [arm for policy in loggers.values() for arm in arms_of(policy)]
    reading = next((found for found in map(reading_of, loggers.values()) if found is not None), None)
    layout = Layout(feature_columns(features), columns, None, 0.0, BLOCK, False, reading)
    with BanditLog(log, layout, first) as read:
        policies = [(shares[name], policy_of(policy, read, "loggers")) for name, policy in loggers.items()]
        found = []
        for block in read.blocks():
            at = np.arange(len(block)), block.arms
            chances = np.sum([share * chances(block)[at] for share, chances in policies], axis=0)
            if not (chances > 0.0).all():
                row = int(block.rows[int(np.argmin(chances > 0.0))])
                message = f"log row {row}: none of loggers gives the arm that was chosen a chance"
                raise DataError(message, code="zero-propensity", argument="loggers", index=row)
            found.append(chances)
    return np.concatenate(found)
