"""Rules of a state map in plain Python: from one observation to the number of its state.

This module needs nothing but the standard library. ``StateMap.locate`` calls it, and ``policy_code`` copies its source
into the file ``act.py`` that ``prudent solve`` writes, so that both do the same. ``StateMap.transform`` does it for
many rows at once.

Rules are plain values, as JSON holds them::

    columns    what each column holds: {"name", "kind": "number" | "cyclic" | "category", ...}
    partition  {"kind": "grid", "cuts": [...], "cells": [...]}
               {"kind": "tree", "terms": [...], "nodes": [[term, cut, left, right] or [state], ...]}
               {"kind": "clusters", "terms": [...], "centres": [[...], ...]}

A term is a number made from one column: ``["value", column, centre, scale]``, ``["missing", column]``,
``["is", column, value]``, ``["turned", column]`` (half a period later), ``["cos", column, weight]``, ``["sin", ...]``.
"""

import math
from typing import Any


def locate(rules: Any, observation: Any) -> Any:
    """Return the number of the nearest state, and why the log has nothing like it (None if it has)."""
    cells, reasons = [], []
    for column in rules["columns"]:
        value, reason = read_cell(column, observation)
        cells.append(value)
        if reason:
            reasons.append(reason)
    partition = rules["partition"]
    if partition["kind"] == "grid":
        state, reason = find_cell(rules["columns"], partition, cells)
        if reason and not reasons:
            reasons.append(reason)
    elif partition["kind"] == "tree":
        state = find_leaf(rules["columns"], partition, cells)
    else:
        state = find_centre(rules["columns"], partition, cells)
    return state, "; ".join(reasons) or None


def read_cell(column: Any, observation: Any) -> Any:
    """Return the value of a column (None if it is missing), and why the log has nothing like it."""
    name = column["name"]
    if name not in observation:
        raise KeyError(name)
    value = observation[name]
    if is_missing(value):
        reason = None if column["missing"] else f"{name} is missing, and never is in the log"
        return None, reason
    if column["kind"] == "category":
        value = plain_label(value)
        known = value in column["values"]
        return value, None if known else f"{name} is {value!r}, which is not in the log"
    value = number_of(name, value)
    if column["kind"] == "cyclic":
        if math.isinf(value):
            raise ValueError(f"{name} is {value}, expected a finite number")
        return value % column["period"], None
    if not column["least"] <= value <= column["most"]:
        seen = f"{column['low']:g} to {column['high']:g} in the log"
        return min(max(value, column["least"]), column["most"]), f"{name} is {value:g}, and {seen}"
    return value, None


def number_of(name: Any, value: Any) -> Any:
    """Return the number that the value of a column is."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        decimal = isinstance(value, str) and value.count(",") == 1 and value.replace(",", "").strip(" +-").isdecimal()
        remedy = "write it with a decimal point" if decimal else "or None where it is missing"
        raise ValueError(f"{name} is {value!r}, expected a number; {remedy}") from None


def is_missing(value: Any) -> bool:
    """Return whether a cell is empty: None, NaN, an empty text, or pandas' NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return value.strip() == "" if isinstance(value, str) else bool(value != value)


def plain_label(value: Any) -> Any:
    """Return a category: a text without blanks around it, an integer where it is one; True and False are texts."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, str):
        value = value.strip()
        if value.lstrip("-").isdecimal() and str(int(value)) == value:
            return int(value)
        return value
    if isinstance(value, bool):
        return str(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def find_cell(columns: Any, partition: Any, cells: Any) -> Any:
    """Return the state of a cell of a grid, or the nearest one that the log has."""
    bins = []
    for i, column in enumerate(columns):
        cuts, value = partition["cuts"][i], cells[i]
        if value is None:
            bins.append(-1)
        elif column["kind"] == "category":
            bins.append(column["values"].index(value) if value in column["values"] else -2)
        else:
            above = sum(cut <= value for cut in cuts)
            bins.append(above % len(cuts) if column["kind"] == "cyclic" and cuts else above)
    best, least = 0, math.inf
    for state, cell in enumerate(partition["cells"]):
        far = 0.0
        for i, column in enumerate(columns):
            far += bin_distance(column["kind"], len(partition["cuts"][i]), bins[i], cell[i])
        if far < least:
            best, least = state, far
    return best, "no row of the log has these values together" if least > 0.0 else None


def bin_distance(kind: str, cuts: int, one: int, two: int) -> float:
    """Return how far apart two bins of a column are: 1 from one end to the other, or to a missing value."""
    if one == two:
        return 0.0
    if one < 0 or two < 0 or kind == "category":
        return 1.0
    steps = abs(one - two)
    return 2.0 * min(steps, cuts - steps) / cuts if kind == "cyclic" else steps / cuts


def term_value(columns: Any, term: Any, cells: Any) -> float:
    """Return the number that a term makes of its column."""
    kind, value = term[0], cells[term[1]]
    column = columns[term[1]]
    if kind == "missing":
        return 1.0 if value is None else 0.0
    if kind == "is":
        return 1.0 if value is not None and value == term[2] else 0.0
    if value is None:
        value = column["fill"]
    if kind == "value":
        return float((value - term[2]) / term[3])
    if kind == "turned":
        return float((value + column["period"] / 2.0) % column["period"])
    angle = 2.0 * math.pi * value / column["period"]
    return float(term[2]) * (math.cos(angle) if kind == "cos" else math.sin(angle))


def find_leaf(columns: Any, partition: Any, cells: Any) -> int:
    """Return the leaf of a tree: left below the cut, right from the cut on."""
    nodes, place = partition["nodes"], 0
    while len(nodes[place]) > 1:
        term, cut, left, right = nodes[place]
        place = left if term_value(columns, partition["terms"][term], cells) < cut else right
    return int(nodes[place][0])


def find_centre(columns: Any, partition: Any, cells: Any) -> int:
    """Return the cluster with the nearest centre."""
    point = [term_value(columns, term, cells) for term in partition["terms"]]
    best, least = 0, math.inf
    for state, centre in enumerate(partition["centres"]):
        far = 0.0
        for i, one in enumerate(point):
            far += (one - centre[i]) ** 2
        if far < least:
            best, least = state, far
    return best
