"""Rules of a state map for many rows at once: the same as ``state_rules``, in NumPy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..types import BoolArray, FloatArray, IntArray
from .feature_columns import Feature
from .state_rules import bin_distance


def numbers_of(column: Mapping[str, Any], feature: Feature) -> tuple[FloatArray, BoolArray]:
    """Return a column as numbers, NaN where it is missing, categories by position (-2 if unknown); what is unseen."""
    gone = feature.missing
    strange = gone & (not column["missing"])
    if column["kind"] == "category":
        places = {value: float(i) for i, value in enumerate(column["values"])}
        values = np.array([places.get(value, -2.0) for value in feature.cells.tolist()])
        values[gone] = np.nan
        return values, strange | (values == -2.0)
    values = feature.cells.astype(np.float64)
    if column["kind"] == "cyclic":
        return np.mod(values, column["period"]), strange
    clipped = np.clip(values, column["least"], column["most"])
    return clipped, strange | (~gone & (clipped != values))


def term_column(columns: list[dict[str, Any]], term: list[Any], cells: list[FloatArray]) -> FloatArray:
    """Return the numbers that a term of the rules makes of its column."""
    kind, column, values = term[0], columns[term[1]], cells[term[1]]
    if kind == "missing":
        return np.isnan(values).astype(np.float64)
    if kind == "is":
        return np.asarray(values == column["values"].index(term[2]), dtype=np.float64)
    values = np.where(np.isnan(values), column["fill"], values)
    if kind == "value":
        return np.asarray((values - term[2]) / term[3])
    if kind == "turned":
        return np.mod(values + column["period"] / 2.0, column["period"])
    angle = 2.0 * math.pi * values / column["period"]
    return np.asarray(term[2] * (np.cos(angle) if kind == "cos" else np.sin(angle)))


def grid_states(
    columns: list[dict[str, Any]], partition: Mapping[str, Any], cells: list[FloatArray]
) -> tuple[IntArray, BoolArray]:
    """Return the state of each row, and which rows are in no cell of the grid."""
    bins = []
    for column, cuts, values in zip(columns, partition["cuts"], cells, strict=True):
        if column["kind"] == "category":
            codes = np.where(np.isnan(values), -1, values).astype(np.int64)
        else:
            codes = np.searchsorted(np.asarray(cuts, dtype=np.float64), values, side="right")
            if column["kind"] == "cyclic" and cuts:
                codes %= len(cuts)
            codes[np.isnan(values)] = -1
        bins.append(codes)
    distinct, which = np.unique(np.stack(bins, axis=1), axis=0, return_inverse=True)
    known = {tuple(cell): state for state, cell in enumerate(partition["cells"])}
    states, off = np.zeros(len(distinct), dtype=np.int64), np.zeros(len(distinct), dtype=np.bool_)
    kinds = [(column["kind"], len(cuts)) for column, cuts in zip(columns, partition["cuts"], strict=True)]
    for i, cell in enumerate(map(tuple, distinct.tolist())):
        if cell in known:
            states[i] = known[cell]
            continue
        off[i] = True
        far = [
            sum(bin_distance(*kind, one, two) for kind, one, two in zip(kinds, cell, other, strict=True))
            for other in partition["cells"]
        ]
        states[i] = int(np.argmin(far))
    which = which.reshape(-1)
    return states[which], off[which]


def leaf_states(nodes: list[list[Any]], terms: FloatArray) -> IntArray:
    """Return the leaf of each row."""
    states = np.zeros(len(terms), dtype=np.int64)
    todo = [(0, np.arange(len(terms)))]
    while todo:
        place, rows = todo.pop()
        node = nodes[place]
        if len(node) == 1:
            states[rows] = node[0]
            continue
        left = terms[rows, node[0]] < node[1]
        todo += [(node[2], rows[left]), (node[3], rows[~left])]
    return states


def centre_states(centres: FloatArray, terms: FloatArray) -> IntArray:
    """Return the nearest centre of each row."""
    states = np.zeros(len(terms), dtype=np.int64)
    for first in range(0, len(terms), 4096):
        part = terms[first : first + 4096]
        far = np.zeros((len(part), len(centres)))
        for j in range(terms.shape[1]):  # in the order of the plain rules, so that ties are broken alike
            far += (part[:, j, np.newaxis] - centres[:, j]) ** 2
        states[first : first + 4096] = far.argmin(axis=1)
    return states
