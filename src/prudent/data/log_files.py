"""What an exported log says of itself: feature names, arms and settings of the bandit that wrote it."""

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import DataError

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
