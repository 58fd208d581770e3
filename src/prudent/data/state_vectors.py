"""Rules of a state map for many rows at once: the same as ``state_rules``, in NumPy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..types import BoolArray, FloatArray, IntArray
from .feature_columns import Feature

MOST_DISTANCES = 1_000_000  # between cells of a grid, in memory at a time


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
    states = np.array([known.get(cell, -1) for cell in map(tuple, distinct.tolist())], dtype=np.int64)
    off = states < 0
    kinds = [(column["kind"], len(cuts)) for column, cuts in zip(columns, partition["cuts"], strict=True)]
    states[off] = _nearest_cells(kinds, distinct[off], np.array(partition["cells"], dtype=np.int64))
    which = which.reshape(-1)
    return states[which], off[which]


def _nearest_cells(kinds: list[tuple[str, int]], asked: IntArray, cells: IntArray) -> IntArray:
    """Return the nearest of ``cells`` [C, D] to each of ``asked`` [n, D], the first of several; both are bins."""
    nearest = np.zeros(len(asked), dtype=np.int64)
    size = max(1, MOST_DISTANCES // len(cells))
    for first in range(0, len(asked), size):
        part = asked[first : first + size]
        far = np.zeros((len(part), len(cells)))
        for j, (kind, cuts) in enumerate(kinds):  # in the order of the plain rules, so that ties are broken alike
            far += _bin_distances(kind, cuts, part[:, j, np.newaxis], cells[:, j])
        nearest[first : first + size] = far.argmin(axis=1)
    return nearest


def _bin_distances(kind: str, cuts: int, one: IntArray, two: IntArray) -> FloatArray:
    """Return ``bin_distance`` of all pairs of bins."""
    steps = np.abs(one - two)
    if kind == "category" or cuts == 0:
        return np.asarray(steps > 0, dtype=np.float64)
    far = 2.0 * np.minimum(steps, cuts - steps) / cuts if kind == "cyclic" else steps / cuts
    return np.where((steps > 0) & ((one < 0) | (two < 0)), 1.0, far)


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
