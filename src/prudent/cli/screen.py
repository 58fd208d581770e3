"""What the commands show on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from typing import Annotated, Any, Self

import typer

from ..display.words import visible

# options of the commands that run replications
Workers = Annotated[int | None, typer.Option(help="Threads (default: one for each core).", show_default=False)]
Chunk = Annotated[
    int | None,
    typer.Option(
        help="Replications computed and kept at a time (default: about a second of work).", show_default=False
    ),
]
Cluster = Annotated[str | None, typer.Option(help="Address of a dask scheduler to work there.", show_default=False)]


def import_from_here() -> None:
    """Let Python find modules in the working folder, as it does for scripts and ``python -m``."""
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())


def console(stderr: bool = False) -> Any:
    """Return a console of rich."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def table(*columns: str, right: Collection[str] = (), **options: Any) -> Any:
    """Return a table of rich with these columns, of which some are aligned to the right."""
    from rich.table import Table

    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        shown.add_column(column, justify="right" if column in right else "left", **options)
    return shown


class Bar:
    """A progress bar with the time left, on stderr and only on a terminal."""

    def __init__(self, what: str) -> None:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        self._what, self._console = what, console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def begin(self, total: float, done: float) -> None:
        """See ``prudent.reproduction.runner.Progress``."""
        self._task = self._progress.add_task(self._what, total=total)
        self._progress.update(self._task, completed=done)
        if 0.005 * total < done < total:
            self.say(f"taking up an earlier run, {done / total:.0%} of the work is there")

    def advance(self, what: str, amount: float) -> None:
        """See ``prudent.reproduction.runner.Progress``."""
        shown = self._what if what == self._what else f"{self._what} ({what})"
        self._progress.update(self._task, advance=amount, description=shown)

    def say(self, message: str) -> None:
        """See ``prudent.reproduction.runner.Progress``."""
        self._console.print(visible(f"prudent: {message}"), markup=False, soft_wrap=True)
