"""Posterior draws from other tools: arrays, ArviZ and xarray datasets, tables with a column of sample numbers.

All become theta float64 [N, B, K], one set of outcome probabilities for each draw.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .._support.checks import finite_array, one_of, refuse, require_sum_of_one
from ..data.labels import Labels, Names
from ..data.source import TableSource
from ..data.transitions import TransitionTable
from ..errors import ModelError, ParameterError, PosteriorError
from ..models.builders import own_sources, places_in
from ..models.uncertain import UncertainMDP
from ..types import FloatArray, TableLike

if TYPE_CHECKING:
    import xarray

DrawsLike: TypeAlias = "npt.ArrayLike | xarray.DataArray | xarray.Dataset"
"""Posterior draws [N, B, K]: an array, or an xarray or ArviZ object with dimensions chain and draw."""

SAMPLES = ("chain", "draw", "sample")  # dimensions that number draws


def read_draws(given: Any, model: UncertainMDP, variable: str | None = None) -> FloatArray:
    """Return the draws of ``model`` as float64 [N, B, K]; the row of terminal states may be left out.

    An xarray object has dimensions chain and draw (or sample), which become N, and two more: ``source`` and ``outcome``
    by these names, or else in that order. With one source, its dimension may be missing. A Dataset, or an ArviZ object
    that has one as ``posterior``, needs ``variable`` if it has several.
    """
    given = getattr(given, "posterior", given)  # ArviZ
    if hasattr(given, "to_dataset") and not hasattr(given, "dims"):  # a node of a tree
        given = given.to_dataset()
    if hasattr(given, "data_vars"):
        names = list(given.data_vars)
        if variable is None and len(names) != 1:
            message = f"variable must say which of {names} are the draws"
            raise ParameterError(message, code="missing-argument", argument="variable", expected=names)
        given = given[names[0] if variable is None else one_of(variable, "variable", names)]
    elif variable is not None:
        message = "variable chooses from a dataset of draws, but there is none"
        raise ParameterError(message, code="conflicting-arguments", argument="variable")
    if hasattr(given, "dims"):
        given = _stacked(given, model)
    theta = model.with_end(finite_array(given, "draws", ndim=3, error=PosteriorError))
    if theta.shape[0] == 0 or theta.shape[1:] != (model.n_sources, model.n_outcomes):
        message = f"draws has shape {theta.shape}, expected [N, B, K] = (N, {model.n_sources}, {model.n_outcomes})"
        raise PosteriorError(message, code="wrong-shape", argument="draws", value=theta.shape)
    return theta


def _stacked(array: Any, model: UncertainMDP) -> Any:
    """Return a DataArray as an array [N, B, K]."""
    drawn = [dim for dim in array.dims if dim in SAMPLES]
    rest = [dim for dim in array.dims if dim not in SAMPLES]
    if not drawn:
        message = f"draws has dimensions {array.dims}, expected some of {SAMPLES} among them"
        raise PosteriorError(message, code="wrong-dimensions", argument="draws", value=array.dims)
    if len(rest) == 1 and model.n_sources - bool(model.terminal.any()) == 1:
        array = array.expand_dims("source")
        rest = ["source", rest[0]]
    if len(rest) != 2:
        message = f"draws has dimensions {array.dims}, expected source and outcome next to {drawn}"
        raise PosteriorError(message, code="wrong-dimensions", argument="draws", value=array.dims)
    if set(rest) == {"source", "outcome"}:
        rest = ["source", "outcome"]
    for dim in rest:
        labels = array.coords[dim].values if dim in array.coords else None
        if labels is not None and sorted(labels.tolist(), key=repr) == sorted(range(labels.size), key=repr):
            array = array.sortby(dim)  # numbers say which one it is, in whatever order they come
    array = array.transpose(*drawn, *rest)
    return np.asarray(array.values).reshape(-1, *array.shape[len(drawn) :])


def models_of_table(
    table: TableLike, states: Names, actions: Names, discount: float, terminal: Any, columns: Mapping[str, Any] | None
) -> tuple[UncertainMDP, FloatArray]:
    """Read a long table: state, action, next_state, probability, reward, sample; return a model and draws [N, B, K].

    Every pair is a source, whose outcomes are the (next state, reward) that any sample has for it.
    """
    names = ("state", "action", "next_state", "probability", "reward", "sample")
    held = TableSource(table, error=ModelError).read(names, columns=columns)
    if not held.size:
        raise ModelError(f"{held.table} has no rows", code="no-rows")
    read = TransitionTable.of(held, states, actions, error=ModelError)
    by_sample = Labels.of("sample", None, held["sample"])
    n = held.indices("sample", by_sample)
    chance, reward = held.probabilities(), held.numbers("reward")
    # an outcome of a pair is a next state with a reward; rows that agree in both add up
    steps = np.stack((read.pair, read.next_state, (reward + 0.0).view(np.int64)))
    (pair, target, bits), which = np.unique(steps, axis=1, return_inverse=True)
    source = own_sources((np.bincount(pair, minlength=read.shape[0] * read.shape[1]) > 0).reshape(read.shape))
    outcome = places_in(pair)
    earned = np.ascontiguousarray(bits).view(np.float64)
    labels: dict[str, Any] = {"states": read.states.names, "actions": read.actions.names, "terminal": terminal}
    model = UncertainMDP.from_entries(source, pair, outcome, target, earned, discount, **labels)
    theta = np.zeros((by_sample.size, model.n_sources, model.n_outcomes))
    b = model.source.reshape(-1)[read.pair]
    used = ~model.terminal[read.state]
    np.add.at(theta, (n[used], b[used], outcome[which.reshape(-1)[used]]), chance[used])
    _require_rows(theta, model, by_sample)
    if model.terminal.any():
        theta[:, -1, 0] = 1.0
    return model, theta


def _require_rows(theta: FloatArray, model: UncertainMDP, by_sample: Labels) -> None:
    own = model.n_sources - bool(model.terminal.any())
    sums = theta[:, :own].sum(axis=2)
    off = abs(sums - 1.0) > 1e-9
    if off.any():
        n, b = (int(i) for i in np.argwhere(off)[0])
        pair = model.pair_name(np.flatnonzero(model.source.reshape(-1) == b)[0])
        total = float(sums[n, b])
        fault = "has no row" if total == 0.0 else f"has probabilities that sum to {total!r}, expected 1"
        raise ModelError(
            f"{pair} {fault} in {by_sample.show(n)}",
            code="missing-row" if total == 0.0 else "sum-not-one",
            column="probability",
            index=(n, b),
            value=total,
        )


def check_draws(theta: FloatArray, model: UncertainMDP, rounding: float) -> tuple[float, float]:
    """Refuse what are no probabilities; return bounds on what rows lack to sum to one."""
    sums = require_sum_of_one(theta, "draws", error=PosteriorError)
    stray, fitting = (theta < 0.0) | ((theta > 0.0) & ~model.outcome_mask), "a probability, 0 without such an outcome"
    refuse(stray, theta, "draws", fitting, error=PosteriorError, code="unknown-outcome")
    return 1.0 - float(sums.max()) - rounding, 1.0 - float(sums.min()) + rounding
