"""The command ``compare``: a decision of ``prudent solve`` beside a new log."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..display.words import visible
from ..errors import ParameterError
from .log_options import LogOptions
from .screen import console, table

if TYPE_CHECKING:
    from ..analysis.saved_decision import SavedDecision

FOLDER = "decision"  # beside the page of ``prudent solve``
SHOWN = 10


def settings_of(options: LogOptions) -> dict[str, Any]:
    """Return how a log was read, as settings of a decision that is saved."""
    kept = {field.name: getattr(options, field.name) for field in fields(options)}
    return {"options": {name: value for name, value in kept.items() if name not in ("log", "as_json", "threads")}}


def compare_log(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="The folder that prudent solve wrote.")],
    log: Annotated[str, typer.Argument(metavar="NEW_LOG", help="A newer log, with the columns of the old one.")],
    out: Annotated[Path | None, typer.Option(help="Folder for changes.csv, pairs.csv and returns.csv.")] = None,
    draws: Annotated[int, typer.Option(help="Posterior draws, for what the policies earn.")] = 2_000,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    threads: Annotated[int | None, typer.Option(help="Number of threads.")] = None,
) -> None:
    """Say what a new log changes: in the data, in values, in actions; and whether the old promise still holds."""
    from rich.markup import escape

    from .._support.output import prepare, write_table
    from ..analysis.decision_comparison import compare
    from ..analysis.saved_decision import load
    from ..estimation import from_log

    saved = load(old / FOLDER if (old / FOLDER).is_dir() else old)
    options = replace(_options(saved, log), threads=threads)
    arguments = options.arguments()
    states = saved.model.summary.state_map
    if states is not None:
        arguments |= {"features": None, "states": states}
    model, posterior = from_log(log, **arguments)
    found = compare(saved, model, posterior, draws=draws, rng=seed, threads=threads)
    source = visible(str(saved.log.get("name", "a log without a name")))
    print(visible(f"Decision of {saved.date[:10]}, from {source}; new log {Path(log).name}."))
    if saved.is_of(log):
        print("This is the very log that the decision was made from.")
    for line in found.lines():
        print(visible(line))
    if len(found.changes):
        shown = table("state", "old", "new", "share of time", "worth", right=("share of time", "worth"))
        for row in found.changes.head(SHOWN).itertuples():
            words = (str(row.state), str(row.old), str(row.new), f"{row.time_share:.1%}", f"{row.contribution:.4g}")
            shown.add_row(*(escape(visible(word)) for word in words))
        console().print(shown)
        if len(found.changes) > SHOWN:
            print(f"... and {len(found.changes) - SHOWN} more states.")
    if out is not None:
        prepare(out)
        returns = found.returns.reset_index(names="policy")
        tables = {"changes.csv": found.changes, "pairs.csv": found.pairs, "returns.csv": returns}
        for name, frame in tables.items():
            write_table(out / name, frame)
        print(visible(f"Tables: {', '.join(str(out / name) for name in tables)}"))


def _options(saved: SavedDecision, log: str) -> LogOptions:
    """Return the options by which the old log was read, for the new one."""
    kept = saved.settings.get("options")
    known = {field.name for field in fields(LogOptions)}
    if not isinstance(kept, dict) or not set(kept) <= known:
        message = "old does not say how its log was read: it was not written by prudent solve; use analysis.compare"
        raise ParameterError(message, code="missing-argument", argument="old")
    if kept.get("group") or kept.get("prior_from"):
        message = "old learned from several groups or from another log; use analysis.compare with such a posterior"
        raise ParameterError(message, code="conflicting-arguments", argument="old")
    return LogOptions(log=log, **kept)
