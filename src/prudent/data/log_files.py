"""What an exported log says of itself: feature names, arms and settings of the bandit that wrote it."""

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

from .._support.output import plain_cell
from ..errors import DataError
from .source import context_columns

META = "prudent"  # name of the metadata of a Parquet file, and of the attribute of a DataFrame
_SCHEMA = 1


def beside(path: Path) -> Path:
    """Return the file that says what a CSV or JSON lines file is.

    >>> beside(Path("log.csv")).name
    'log.csv.meta.json'
    """
    return path.with_name(path.name + ".meta.json")


def about_of(log: Any) -> dict[str, Any] | None:
    """Return what a log says of itself; None if it says nothing.

    A log is a file that ``Journal.export`` wrote, a DataFrame of ``Journal.to_pandas``, a pyarrow table, or a Journal.
    """
    found: Any = None
    if isinstance(log, (str, os.PathLike)):
        path = Path(log)
        if path.suffix.lower() in (".parquet", ".pq") and path.is_file():
            found = _metadata(import_module("pyarrow.parquet").read_schema(path))
        elif beside(path).is_file():
            found = beside(path).read_text()
    elif callable(getattr(log, "about", None)):
        found = log.about()
    elif isinstance(getattr(log, "attrs", None), dict):
        found = log.attrs.get(META)
    elif hasattr(log, "schema"):
        found = _metadata(log.schema)
    if found is None:
        return None
    try:
        values = json.loads(found) if isinstance(found, (str, bytes)) else dict(found)
        schema = values["schema"]
    except (KeyError, TypeError, ValueError) as error:
        text = f"log has metadata that cannot be read: {error!r}"
        raise DataError(text, code="wrong-format", argument="log") from error
    if schema != _SCHEMA:
        text = f"log has the schema {schema!r}, this prudent reads {_SCHEMA}"
        raise DataError(text, code="wrong-version", argument="log", value=schema, expected=_SCHEMA)
    return values


def _metadata(schema: Any) -> Any:
    return (getattr(schema, "metadata", None) or {}).get(META.encode())


def logged(log: Any, features: Any, *names: str) -> tuple[dict[str, Any] | None, list[Any]]:
    """Return what a log says of itself, and its contexts and further columns, of which the last are the rewards.

    Of a log that was exported, rows without a reward are left out, and contexts have the names of their features.
    """
    about = about_of(log)
    if about is None:
        return None, context_columns(log, features, *names)
    table = log.to_pandas() if callable(getattr(log, "about", None)) else log
    columns = context_columns(table, None, *names)
    kept = [i for i, reward in enumerate(columns[-1]) if reward not in (None, "") and reward == reward]
    contexts, *others = ([column[i] for i in kept] for column in columns)
    contexts = [json.loads(each) if isinstance(each, str) else list(each) for each in contexts]
    others[-1] = [float(reward) for reward in others[-1]]
    if len(others) > 1:
        others[0] = _arms(others[0], about.get("arms") or [])
    known = about.get("features")
    if features is not None and known is not None and sorted(features) != sorted(known):
        text = f"features are {list(features)}, and those of the log are {known}"
        raise DataError(text, code="different-features", argument="features")
    named: Any = contexts if known is None else {name: [row[i] for row in contexts] for i, name in enumerate(known)}
    return about, [named, *others]


def _arms(found: list[Any], known: list[Any]) -> list[Any]:
    """Return arms as they were.

    Names of several types are JSON in a Parquet file. In a CSV file all are text, with an apostrophe before those that
    a spreadsheet would take for a formula.
    """
    names = set(known)
    if all(arm in names for arm in found):
        return found
    texts: dict[Any, Any] = {plain_cell(str(arm)): arm for arm in known}
    texts |= {json.dumps(arm): arm for arm in known} | {str(arm): arm for arm in known}
    return [texts.get(arm, arm) for arm in found]
