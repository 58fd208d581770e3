"""`prudent sweep`: agents on environments, as a file says, without Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .screen import Bar, Chunk, Cluster, Workers, console, import_from_here
from .screen import table as screen_table

if TYPE_CHECKING:
    import pandas
    import xarray


def sweep(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.toml", help="What to sweep over; see below.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results (default: sweep/NAME of the spec).", show_default=False)
    ] = None,
    workers: Workers = None,
    chunk: Chunk = None,
    cluster: Cluster = None,
    allow_module: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Module whose functions the file may run; repeat it for more."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print files and table as JSON.")] = False,
) -> None:
    """Run every agent on every environment with every seed; write a dataset, a table and a figure.

    SPEC.toml says what to run:

    \b
        replications = 200
        seeds = [1, 2]
        episodes = 400              # bandits: horizon = 10000
        [\\[environment]]
        kind = "frozen_lake"        # random_model, gaussian_bandit, module:function, ...
        p_h = [0.1, 0.2, 0.6, 0.8]  # a list gives the values to try
        [\\[agent]]
        kind = "brps_rl"            # ts_rl, optimistic_vi, brps_cmab, module:function, ...
        alpha = [0.0, 0.5, 0.9]

    Also: episode_length (10), points (recorded times, 20), levels (of BR-regret), baseline (a label), confidence
    (0.95), title. A module:function runs only if you allow its module, which may lie in this folder:
    --allow-module NAME.
    """
    from ..display.words import visible
    from ..reproduction import compared
    from ..reproduction import sweep as run
    from ..reproduction.sweep_spec import read_spec

    if allow_module:
        import_from_here()
    plan = read_spec(spec, allow_module or ())
    folder = Path("sweep") / spec.stem if out is None else out
    with Bar("sweep") as bar:
        data = run(plan, folder, workers, chunk=chunk, progress=bar, cluster=cluster)
    if plan.keep == "runs":
        _draw(data, folder)
    table = compared(data)
    drawn = plan.keep == "runs"
    files = {kind: str(folder / f"sweep.{kind}") for kind in ("nc", "csv", "tex", *(["png"] if drawn else []))}
    if as_json:
        rows = json.loads(table.to_json(orient="records", double_precision=15))
        print(json.dumps({"files": files, "table": rows}, indent=1))
        return
    _show(table, plan.baseline, plan.confidence)
    print(visible(f"Dataset: {files['nc']}\nTable: {files['csv']}, {files['tex']}"))
    if drawn:
        print(visible(f"Figure: {files['png']}"))


def _show(table: pandas.DataFrame, baseline: str, confidence: float) -> None:
    from rich.markup import escape

    from ..display.words import plus_minus, visible

    numbers = (str(table["metric"].iloc[0]).replace("_", " "), f"less {escape(visible(baseline))}")
    shown = screen_table("environment", "agent", *numbers, right=numbers)
    before = ""
    for row in table.to_dict("records"):
        lead = ""
        if row["agent"] != baseline:
            lead = _mark(row, plus_minus(row["difference"], row["difference_high"] - row["difference"]))
        environment = "" if row["environment"] == before else row["environment"]
        names = (escape(visible(name)) for name in (environment, row["agent"]))
        shown.add_row(*names, plus_minus(row["mean"], row["high"] - row["mean"]), lead)
        before = row["environment"]
    screen = console()
    screen.print(shown)
    runs = int(table["runs"].iloc[0])
    screen.print(f"{runs} runs each; intervals at {confidence:.4g}, for all differences together")


def _mark(row: dict[Any, Any], text: str) -> str:
    """Return a difference in green where it is good beyond doubt, in red where it is bad."""
    good = 1 if row["metric"] == "total_reward" else -1
    sides = (row["difference_low"], row["difference_high"])
    if all(good * side > 0 for side in sides):
        return f"[green]{text}[/]"
    return f"[red]{text}[/]" if all(good * side < 0 for side in sides) else text


def _draw(data: xarray.Dataset, folder: Path) -> None:
    """Write the figure: a panel for each environment, a curve for each agent."""
    from ..display.words import visible
    from ..reproduction.report.figures import KINDS
    from ..reproduction.sweeps import metric_of

    metric = metric_of(data)
    shown = {axis: [visible(str(name)) for name in data[axis].values] for axis in ("environment", "agent")}
    data = data.assign_coords({axis: (axis, names) for axis, names in shown.items()})
    along = data[metric].dims[-1]
    runs = data[[metric]].drop_vars(["seed", "replication"])
    runs = runs.stack(run=("seed", "replication"), create_index=False).rename(run="replication")
    runs = runs.transpose("environment", "agent", "replication", along)
    panels = [
        {"variable": metric, "title": str(name), "where": {"environment": name}} for name in data.environment.values
    ]
    columns = min(2, len(panels))
    KINDS["curves"](runs, "sweep", str(data.attrs["title"]), panels=panels, columns=columns).save(folder)
