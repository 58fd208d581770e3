"""The command ``prudent``: decide from a log, serve decisions, reproduce the paper, sweep over agents, compile.

Exit codes: 0 done, 1 failed (no space, a folder that cannot be written, a lost cluster, a defect), 2 a mistake in the
call, 130 interrupted by Ctrl-C.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from . import compare as cli_compare
from . import log as cli_log
from . import serve as cli_serve
from . import sweep as cli_sweep
from . import verify as cli_verify
from .errors import in_options
from .screen import Bar, Chunk, Cluster, Workers, console, import_from_here, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    import xarray

    from ..reproduction import Claim

FAILED, MISTAKE, INTERRUPTED = 1, 2, 130


class _Commands(typer.core.TyperGroup):
    """The commands; Ctrl-C in any of them has an exit code of its own."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # which older versions of typer call 'Aborted', with exit code 1
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Decisions that hedge against what the data has not yet taught.",
)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Show the version and leave.")] = False) -> None:
    if version:
        import prudent

        print(f"prudent {prudent.__version__}")
        raise typer.Exit


_FROM_A_LOG = "From a log"
app.command(
    "solve",
    rich_help_panel=_FROM_A_LOG,
    epilog="Examples:\n\n"
    "  prudent solve log.csv --discount 0.99 --terminal discharged,died\n\n"
    "  prudent solve log.csv --terminal discharged=1,died=-1 --rewards 0 --alpha 0,0.9 --min-count 5 --out policy\n\n"
    "  prudent solve visits.parquet --columns state=ward,next_state=ward_after --end home\n\n"
    "A name that holds a comma stands in double quotes.",
)(cli_log.solve_log)
app.command(
    "check",
    rich_help_panel=_FROM_A_LOG,
    epilog="Example:\n\n  prudent check log.csv --discount 0.99 --terminal discharged,died --strict",
)(cli_log.check_log)
app.command(
    rich_help_panel=_FROM_A_LOG, epilog="Example:\n\n  prudent explain log.csv ill --terminal well,dead --alpha 0,0.9"
)(cli_log.explain)
app.command(
    "next-data",
    rich_help_panel=_FROM_A_LOG,
    epilog="Example:\n\n  prudent next-data log.csv --terminal well,dead --observations 20",
)(cli_log.next_data)
app.command(
    "compare",
    rich_help_panel=_FROM_A_LOG,
    epilog="Example, a year after `prudent solve log.csv --out policy`:\n\n  prudent compare policy new_log.csv",
)(cli_compare.compare_log)


@app.command(
    epilog="Examples:\n\n"
    "  prudent reproduce\n\n"
    "  prudent reproduce --scale paper --out results\n\n"
    "  prudent reproduce limit-law bandit-br --seed 7\n\n"
    "Ctrl-C is safe: the same command goes on from there."
)
def reproduce(
    experiment: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names from `prudent list`, or module:STUDY for one of yours; all of ours if left out.",
            show_default=False,
        ),
    ] = None,
    scale: Annotated[str, typer.Option(help="quick: minutes, fewer replications; paper: as in the paper.")] = "quick",
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results (default: reproduction/SCALE).", show_default=False)
    ] = None,
    workers: Workers = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 1,
    chunk: Chunk = None,
    cluster: Cluster = None,
    manifest: Annotated[
        bool, typer.Option(help="Write manifest.json: commit, versions, machine, seeds, hashes of all files.")
    ] = False,
    compare: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Compare the datasets with a manifest; fail if they differ."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print files and claims as JSON.")] = False,
) -> None:
    """Run the paper's experiments and write datasets, claims and a report."""
    from ..reproduction import load_datasets, run
    from ..reproduction.manifest import differences, write_manifest

    if any(":" in name for name in experiment or ()):
        import_from_here()
    folder = Path("reproduction") / scale if out is None else out
    with Bar("experiments") as bar:
        files = run(experiment or (), scale, folder, workers, seed, chunk=chunk, progress=bar, cluster=cluster)
    datasets = load_datasets(folder)
    claims, page = _conclude(folder, datasets)
    if manifest:
        files["manifest"] = write_manifest(folder, datasets)
    different = differences(folder, compare) if compare is not None else []
    if as_json:
        record = {
            "report": str(page),
            "datasets": {name: str(path) for name, path in files.items() if name != "manifest"},
            "claims": [{"id": claim.id, "verdict": claim.verdict} for claim in claims],
            **({"manifest": str(files["manifest"])} if manifest else {}),
            **({"different": different} if compare is not None else {}),
        }
        print(json.dumps(record, indent=1))
    else:
        _show_claims(claims)
        print(f"Report: {page}")
        if manifest:
            print(f"Manifest: {files['manifest']}")
        for line in different:
            print(f"Differs from {compare}: {line}")
        if compare is not None and not different:
            print(f"All repeatable datasets are those of {compare}")
    if different:
        raise typer.Exit(FAILED)


app.command(
    epilog="Examples:\n\n"
    "  prudent sweep docs/sweep.toml --out results\n\n"
    "  prudent sweep big.toml --cluster tcp://10.0.0.1:8786\n\n"
    "Ctrl-C is safe: the same command goes on from there, also after a change of replications or a new agent."
)(cli_sweep.sweep)


app.command(
    epilog="Examples:\n\n"
    "  prudent serve --store sqlite:decisions --port 8000\n\n"
    "  prudent serve --store postgresql://prudent@db/prudent --host 0.0.0.0 --keys keys.toml"
)(cli_serve.serve)


app.command(epilog="Example:\n\n  prudent verify model.json certificate.json")(cli_verify.verify)


@app.command("list", epilog="Example:\n\n  prudent list --json")
def list_experiments(as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """List the experiments that `prudent reproduce` can run."""
    from ..reproduction import STUDIES

    if as_json:
        listed = [
            {
                "name": study.name,
                "title": study.title,
                "paper_says": study.paper_says,
                "figures": [figure.name for figure in study.figures],
            }
            for study in STUDIES.values()
        ]
        print(json.dumps(listed, indent=1))
        return
    shown = table("experiment", "what it shows")
    for study in STUDIES.values():
        shown.add_row(study.name, study.title)
    console().print(shown)


@app.command(epilog="Example:\n\n  prudent report reproduction/quick")
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="An output folder of `prudent reproduce`.")],
    study: Annotated[list[str] | None, typer.Option(metavar="MODULE:STUDY", help="A study of yours.")] = None,
) -> None:
    """Judge the claims and build the report again from the datasets in a folder."""
    from ..errors import ParameterError
    from ..reproduction import load_datasets
    from ..reproduction.studies import study_of

    if study:
        import_from_here()
    for name in study or ():
        study_of(name)
    datasets = load_datasets(folder)
    if not datasets:
        message = f"there are no results in {folder}; make some: prudent reproduce --out {folder}"
        raise ParameterError(message, code="missing-file", path=str(folder))
    print(f"Report: {_conclude(folder, datasets)[1]}")


def _conclude(folder: Path, datasets: Mapping[str, xarray.Dataset]) -> tuple[list[Claim], Path]:
    """Judge the claims and build the report from datasets that were read once."""
    from ..reproduction import conclude
    from ..reproduction.report import build

    return conclude(folder, datasets), build(folder, datasets)


@app.command("compile", epilog="Example:\n\n  prudent compile")
def compile_ahead() -> None:
    """Compile all kernels now and keep them, so that no later process has to wait for that."""
    import prudent

    from .compile import KERNELS, compile_all

    began = time.perf_counter()
    with Bar("compiling kernels") as bar:
        bar.begin(KERNELS, 0)
        compile_all(lambda line: print(line, flush=True), lambda: bar.advance("compiling kernels", 1))
    print(f"prudent {prudent.__version__}: kernels ready after {time.perf_counter() - began:.1f} s")


# -- the screen --------------------------------------------------------------------------------------------


def _show_claims(claims: list[Claim]) -> None:
    from ..reproduction import Verdict
    from ..reproduction.claims import BEYOND

    if not claims:
        return
    colours = {Verdict.NOT_REPRODUCED: "red", Verdict.INCONCLUSIVE: "yellow", Verdict.COMPATIBLE: "yellow"}
    shown = table("verdict", "claim")
    shown.columns[0].min_width, shown.columns[0].max_width = 14, 30
    for claim in claims:
        colour = colours.get(claim.kind, "green")
        ours = f"[dim]{BEYOND}:[/] " if claim.source == BEYOND else ""
        shown.add_row(f"[{colour}]{claim.verdict.removesuffix(' at this scale')}[/]", f"{ours}{claim.statement}")
    console().print(shown)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code, having said what is wrong in one line if something is.

    >>> main(["--version"]) # doctest: +ELLIPSIS
    prudent ...
    0
    """
    from ..display.words import visible
    from ..errors import ClusterError, PrudentError, StoreError

    code: Any = 0
    try:
        try:
            app(args=arguments, prog_name="prudent")
        except SystemExit as end:
            code = end.code or 0
        sys.stdout.flush()
    except PrudentError as error:
        code = FAILED if isinstance(error, StoreError | ClusterError) else MISTAKE
        print(f"prudent: {visible(in_options(error))}", file=sys.stderr)
    except OSError as error:  # a disk, a folder or the place of the output that fails
        code = FAILED
        _forget_output()
        what = f" ({error.filename})" if error.filename else ""
        print(visible(f"prudent: {error.strerror or error}{what}"), file=sys.stderr)
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        given = sys.argv[1:] if arguments is None else arguments
        resumes = any(command in given for command in ("reproduce", "sweep"))
        more = "; what was finished is kept, the same command goes on from there" if resumes else ""
        print(f"prudent: interrupted{more}", file=sys.stderr)
        _leave_threads()
    return int(code)


def _forget_output() -> None:
    """Drop what stdout still holds if it cannot be written; Python would try once more at the end and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _leave_threads() -> None:
    """End now if a thread is in the middle of a chunk: Python would wait for it, and nothing in it is worth that."""
    busy = [thread for thread in threading.enumerate() if thread.name.startswith("prudent")]
    for thread in busy:
        thread.join(0.1)
    if any(thread.is_alive() for thread in busy):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
