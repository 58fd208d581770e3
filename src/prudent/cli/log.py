"""`prudent solve`, `check`, `explain` and `next-data`: from a log to a decision, without Python.

The options that say how a log is read are those of ``log_options.LogOptions``, for all of them.
"""

from __future__ import annotations

import inspect
import json
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..display.words import plural, visible
from ..errors import DataError
from .compare import FOLDER, settings_of
from .log_options import LogOptions, final_values_of, items_of, label_of, levels_of, name_and_number
from .screen import table

if TYPE_CHECKING:
    from ..analysis.check import CheckReport
    from ..analysis.log_study import LogStudy
    from ..models.uncertain import UncertainMDP
    from ..posteriors.dirichlet import DirichletPosterior

COMPARED = "0,0.5,0.9"  # that are compared
_ADVISED = ", which solve recommends"
SHOWN_STATES = 30  # states in the table on the screen
LEAST_WIDTH = 20  # of columns that are folded
PRINTED_WIDTH = 100  # where there is no terminal
SHOWN_CHANGES = 5  # states in the table of what changes most


# -- one set of options for all commands -------------------------------------------------------------------


def takes_a_log(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that has the options of ``LogOptions``, its first argument, as options of its own."""
    shared, own = (inspect.signature(source, eval_str=True).parameters.values() for source in (LogOptions, command))
    log, *others = shared
    # required arguments come first: LOG, then the command's own
    parameters = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in (log, *list(own)[1:], *others)]

    def run(**values: Any) -> None:
        options = LogOptions(**{field.name: values.pop(field.name) for field in fields(LogOptions)})
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from")  # names in other scripts
            command(options, **values)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


# -- the commands ------------------------------------------------------------------------------------------


@takes_a_log
def solve_log(
    options: LogOptions,
    alpha: Annotated[
        str, typer.Option(metavar="A,A,...", help="Risk levels: 0 is no caution, 0.9 looks at the worst 10%.")
    ] = COMPARED,
    horizon: Annotated[int | None, typer.Option(help="Number of steps after which it is over.")] = None,
    terminal_value: Annotated[
        str | None, typer.Option(metavar="X or S=X,...", help="What states are worth after the horizon.")
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            help="Posterior draws, for what the policies really earn. By default 2000, fewer in models of more than "
            "50,000 outcomes."
        ),
    ] = None,
    observations: Annotated[int, typer.Option(help="For what to measure next: how many more.")] = 10,
    out: Annotated[Path, typer.Option(help="Folder for policy.csv, policy.json, figures and report.html.")] = Path(
        "policy"
    ),
    unit: Annotated[str, typer.Option(help="What returns are measured in, for the page: 'euro per day'.")] = "",
    strict: Annotated[bool, typer.Option("--strict", help="A serious finding of the check is an error.")] = False,
) -> None:
    """Work out what to do in each state, from a log, at several levels of caution; write tables and a page."""
    from .._support.output import prepare, write, write_table
    from ..analysis.check import refuse_serious
    from ..analysis.log_study import study_log
    from ..analysis.saved_decision import save
    from ..planning.acting import policy_code

    levels = levels_of(alpha)
    model, posterior = options.read()
    common = options.common(model)
    prepare(out)
    worth = final_values_of(terminal_value, model)
    report, checked = _checked(options, levels, common["start"], model, horizon)
    if strict and report is not None and report.serious:
        write(out / "check.json", checked.encode())
        refuse_serious(report)
    study = study_log(
        model,
        posterior,
        levels,
        horizon=horizon,
        terminal_value=worth,
        draws=draws,
        observations=observations,
        exclude=options.pairs(model, "exclude"),
        exclude_data=options.pairs(model, "exclude_data"),
        baseline=options.today(model),
        check=report,
        **options.close(model),
        **common,
    )
    policies = study.to_pandas()
    name = Path(options.log).name
    record = study.record(name, unit)
    for figure in study.figures().values():
        figure.save(out / "figures")
    listed = {option: value for option, value in vars(options).items() if option not in ("log", "as_json", "threads")}
    settings = {option.replace("_", "-"): value for option, value in listed.items()}
    page = study.report(out / "report.html", name=name, unit=unit, settings=settings)
    write_table(out / "policy.csv", policies)
    text = _json(record)
    write(out / "policy.json", text.encode())
    if model.summary.state_map is not None and horizon is None:
        code = policy_code(study.profile.solutions[study.profile.recommended])
        write(out / "act.py", code.encode())
    write(out / "check.json", checked.encode())
    chosen = study.profile.solutions[study.profile.recommended]
    save(out / FOLDER, chosen, log=options.log, settings=settings_of(options))
    if options.as_json:
        print(text)
        return
    _show(study, study.first_step(), record)
    print(visible(f"Page: {page}"))
    print(visible(f"Tables: {out / 'policy.csv'}, {out / 'policy.json'}, {out / 'check.json'}"))
    print(visible(f"Decision, for prudent.load and prudent compare: {out / FOLDER}"))
    if model.summary.state_map is not None and horizon is None:
        print(visible(f"Policy as plain Python: {out / 'act.py'}, act(observation) -> action"))


@takes_a_log
def check_log(
    options: LogOptions,
    alpha: Annotated[str, typer.Option(metavar="A,A,...", help="Risk levels to compare.")] = COMPARED,
    out: Annotated[Path, typer.Option(help="Folder for check.json and check.html.")] = Path("check"),
    strict: Annotated[bool, typer.Option("--strict", help="A serious finding is an error.")] = False,
) -> None:
    """Say whether the model of a log holds: honest values, tests of the states, coverage; write a table and a page."""
    from .._support.output import prepare, write
    from ..analysis.check import check, refuse_serious

    levels = levels_of(alpha)
    arguments = options.arguments()
    prepare(out)
    begin = _start_of(options)
    limited: dict[str, Any] = {"group": options.group_of(), "prior_from": options.prior_from}
    if options.exclude or options.baseline_min_count is not None or options.baseline_epsilon is not None:
        model, _ = options.read()  # whose names the options are written in
        limited |= options.limits(model)
        if model.summary.state_map is not None:  # the states that they name
            arguments |= {"features": None, "states": model.summary.state_choice or model.summary.state_map}
    given = {"start": begin, "rng": options.seed, "threads": options.threads, **limited}
    report = check(options.log, alphas=levels, **given, **arguments)
    text = _json(report.to_dict())
    write(out / "check.json", text.encode())
    page = report.report(out / "check.html", name=Path(options.log).name)
    if options.as_json:
        print(text)
    else:
        _show_check(report)
        print(visible(f"Page: {page}"))
        print(visible(f"Table: {out / 'check.json'}"))
    if strict:
        refuse_serious(report)


def _start_of(options: LogOptions) -> Any:
    """Return where the process begins, before there is a model: by the names as they are written."""
    if not options.start:
        return None
    pairs = [name_and_number(item) for item in items_of(options.start)]
    return {name: 1.0 / len(pairs) if chance is None else chance for name, chance in pairs}


def _note(code: str, message: str) -> dict[str, Any]:
    """Return a finding that only says something."""
    return {"code": code, "severity": "note", "value": 0, "threshold": 0, "message": message}


def _checked(
    options: LogOptions, levels: list[float], start: Any, model: UncertainMDP, horizon: int | None
) -> tuple[CheckReport | None, str]:
    """Check the log; return the report, None for a log that is too short to be split, and check.json."""
    from ..analysis.check import check

    given: dict[str, Any] = {"rng": options.seed, "threads": options.threads}
    given["start"] = start if options.start else None
    given |= {"group": options.group_of(model), "prior_from": options.prior_from, **options.limits(model)}
    if horizon is not None or model.discount == 1.0:
        text = "Honest values are of policies without a horizon and with a discount: the log was not checked."
        return None, _json({"findings": [_note("horizon", text)], "honest": [], "recommended": {}})
    arguments, summary = options.arguments(), model.summary
    if summary.state_map is not None:  # chosen before
        arguments |= {"features": None, "states": summary.state_choice or summary.state_map}
    try:
        report = check(options.log, alphas=levels, **given, **arguments)
    except DataError as error:
        if error.code != "few-episodes":
            raise
        return None, _json({"findings": [_note(error.code, f"{error}.")], "honest": [], "recommended": {}})
    return report, _json(report.to_dict())


def _advised_level(
    options: LogOptions, model: UncertainMDP, posterior: DirichletPosterior, timed: dict[str, Any]
) -> float:
    """Return the risk level that ``solve`` recommends for the same log and options."""
    from ..analysis.log_study import advised_profile

    levels, common = levels_of(COMPARED), options.common(model)
    report, _ = _checked(options, levels, common["start"], model, timed["horizon"])
    limits = {"exclude": options.pairs(model, "exclude"), "baseline": options.today(model), **options.close(model)}
    profile = advised_profile(model, posterior, levels, check=report, **limits, **timed, **common)
    return float(profile.recommended)


@takes_a_log
def explain(
    options: LogOptions,
    state: Annotated[str, typer.Argument(metavar="STATE", help="A state of the log.")],
    alpha: Annotated[
        str | None, typer.Option(metavar="A,A,...", help="Risk levels. By default the one that solve recommends.")
    ] = None,
    horizon: Annotated[int | None, typer.Option(help="Number of steps, the first of which is explained.")] = None,
    terminal_value: Annotated[
        str | None, typer.Option(metavar="X or S=X,...", help="What states are worth after the horizon.")
    ] = None,
) -> None:
    """Say why the policy does what it does in a state: what is known of each action, what would change it."""
    from ..planning.problem import BayesianRiskMDP

    levels = None if alpha is None else levels_of(alpha)
    model, posterior = options.read()
    name = label_of(model, state, "STATE")
    timed = {"horizon": horizon, "terminal_value": final_values_of(terminal_value, model)}
    levels = [_advised_level(options, model, posterior, timed)] if levels is None else levels
    value, reasons, close = None, {}, options.close(model)
    limits = {"exclude": options.pairs(model, "exclude"), **close, **timed}
    if close:
        limits["baseline"] = options.today(model)
    for level in levels:
        solution = BayesianRiskMDP(model, posterior, level).solve(
            initial_value=value, threads=options.threads, **limits
        )
        value = solution.value if horizon is None else None
        reasons[level] = solution.explain(name, **({} if horizon is None else {"time": 0}))
    if options.as_json:
        tables = {f"{level:g}": json.loads(why.to_pandas().to_json(orient="records")) for level, why in reasons.items()}
        print(_json({"state": state, "summary": model.summary.lines(), "levels": tables}))
        return
    _print_rows(model)
    for level, why in reasons.items():
        print(
            f"\nRisk level {level:g}"
            + (", no caution" if level == 0.0 else "")
            + (_ADVISED if alpha is None else "")
            + ":"
        )
        print(visible(str(why)))


@takes_a_log
def next_data(
    options: LogOptions,
    alpha: Annotated[
        float | None, typer.Option(help="The risk level of the policy. By default the one that solve recommends.")
    ] = None,
    observations: Annotated[int, typer.Option(help="How many more, of one pair.")] = 10,
    horizon: Annotated[int | None, typer.Option(help="Number of steps after which it is over.")] = None,
    terminal_value: Annotated[
        str | None, typer.Option(metavar="X or S=X,...", help="What states are worth after the horizon.")
    ] = None,
) -> None:
    """Say what to measure next: by how much more observations of each action in each state would better the policy."""
    from ..analysis.log_study import level_of_data
    from ..analysis.log_study import next_data as worked_out

    given = None if alpha is None else levels_of(str(alpha))[0]
    model, posterior = options.read()
    timed = {"horizon": horizon, "terminal_value": final_values_of(terminal_value, model)}
    level = level_of_data(model, _advised_level(options, model, posterior, timed)) if given is None else given
    barred: dict[str, Any] = {name: options.pairs(model, name) for name in ("exclude", "exclude_data")}
    record = worked_out(model, posterior, level, observations, **barred, **timed, **options.common(model)).record()
    if options.as_json:
        print(_json({"summary": model.summary.lines()} | record))
        return
    _print_rows(model)
    why = _ADVISED if alpha is None else ""
    print(f"\n{observations:,} more observations of one action in one state, at risk level {level:g}{why}.")
    print(f"The policy now earns {record['mean_return']:.5g} if all probabilities are at their posterior means.")
    if not record["ranking"]:
        print("No such data can change what to do.")
    else:
        rows = [row | {"error": 1.96 * row["gain_error"]} for row in record["ranking"]]
        _print_table(GAINS, rows)
        print("gain: what the data adds to the mean return, because the decision is then made better.")
        print("may change: the chance that the policy becomes another one.")
    if record["left_out"]:
        looked = f"{record['sources'] - record['left_out']:,} of {record['sources']:,} pairs of state and action"
        print(f"Looked at {looked}, the likeliest to matter by a rough screen.")


# -- the screen --------------------------------------------------------------------------------------------


# templates of the cells, by column
POLICY = {
    "state": "{state}",
    "action": "{action}",
    "value": "{value:.5g}",
    "seen": "{evidence:,.6g}",
    "other levels": "{others}",
}
LEVELS = {
    "risk level": "{alpha:g}",
    "mean return": "{mean:.5g}",
    "bad cases": "{cvar:.5g}",
    "states that differ": "{states_differ:,}{mark}",
}
LEVELS_AND_TODAY = {
    "risk level": "{level}",
    "mean return": "{mean:.5g}",
    "bad cases": "{cvar:.5g}",
    "against today": "{ahead}",
    "better": "{better}",
    "": "{mark}",
}
NOT_COMPARED = {"level": "today", "ahead": "", "better": "", "mark": ""}
CHANGES = {
    "state": "{state}",
    "today": "{today}",
    "new": "{new}",
    "adds": "{contribution:+.3g}",
}
HONEST = {
    "states": "{design}",
    "risk level": "{alpha:g}{mark}",
    "promised": "{promised:.5g}",
    "honest": "{honest:.5g}",
    "interval": "{low:.5g} to {high:.5g}",
}
GAINS = {
    "state": "{state}",
    "action": "{action}",
    "gain": "{gain:.3g}",
    "±": "{error:.1g}",
    "may change": "{switch:.0%}",
    "seen": "{evidence:,.6g}",
}


def _print_table(columns: dict[str, str], rows: Iterable[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.markup import escape

    right = ("value", "seen", "gain", "±", "may change", "adds", "better")
    cells = [[visible(template.format(**row)) for template in columns.values()] for row in rows]
    shown = table(*columns, right=right, overflow="fold", no_wrap=True)
    # what to do must be seen whole: names of states and lists of other actions make way for it, over several lines
    for i, (name, column) in enumerate(zip(columns, shown.columns, strict=True)):
        column.no_wrap = name not in ("state", "states", "today", "other levels")
        widest = max((len(row[i]) for row in cells), default=0)
        column.min_width = max(len(name), widest) if column.no_wrap else min(max(len(name), widest), LEAST_WIDTH)
    for row in cells:
        shown.add_row(*map(escape, row))
    Console(highlight=False, width=None if sys.stdout.isatty() else PRINTED_WIDTH).print(shown)


def _print_rows(model: UncertainMDP) -> None:
    summary = model.summary
    dropped = sum(summary.dropped.values())
    why = ": " + ", ".join(f"{count:,} {reason}" for reason, count in summary.dropped.items()) if dropped else ""
    print(f"{plural(summary.rows, 'row')} read, {summary.used:,} used, {dropped:,} dropped{why}.")
    said = {"columns": "Columns", "rewards": "Rewards", "choices": "Note", "note": "Note"}
    for title, text in summary.lines():
        if title in said:
            print(textwrap.fill(visible(f"{said[title]}: {text}."), 100))


def _show_check(report: CheckReport) -> None:
    """Print findings, honest values and what is assumed."""
    from ..analysis.profile_rows import honest_lines

    record = report.to_dict()
    for title, text in record["reading"]:
        print(textwrap.fill(visible(f"{title.capitalize()}: {text}."), 100))
    print()
    for finding in record["findings"]:
        print(
            textwrap.fill(visible(f"{finding['severity'].capitalize()}, {finding['code']}: {finding['message']}"), 100)
        )
    if not record["findings"]:
        print("The checks found nothing against the model.")
    print("\nPromised: in the model that chose the policy. Honest: by the episodes that it was not chosen from.\n")
    best = record["recommended"]
    keys = ("design", "alpha", "prior", "support")
    marks = ["  <- recommended" if all(row[k] == best[k] for k in keys) else "" for row in record["cells"]]
    _print_table(HONEST, [row | {"mark": mark} for row, mark in zip(record["cells"], marks, strict=True)])
    for line in honest_lines(report.honest):
        print(f"{line[:1].upper()}{line[1:]}.")
    print(textwrap.fill("Assumed: " + " ".join(record["assumed"]), 100))


def _show(study: LogStudy, policies: Any, record: dict[str, Any]) -> None:
    """Print the policy: a line for each state, all of them or the most visited."""
    from ..analysis.profile_rows import honest_lines

    _print_rows(study.model)
    if study.check is not None:
        print(textwrap.fill(f"Check: {study.check.worst}", 118, subsequent_indent="  "))
    level = study.profile.recommended
    by_level = {alpha: part.reset_index(drop=True) for alpha, part in policies.groupby("alpha")}
    chosen = by_level[level]
    ends = study.model.absorbing & (study.model.admissible.sum(axis=1) <= 1)  # nothing to choose, and it stays there
    acting = chosen["action"].notna().to_numpy() & ~ends
    order = acting.nonzero()[0]
    if order.size > SHOWN_STATES:
        order = order[(-chosen["time_share"].to_numpy()[order]).argsort(kind="stable")][:SHOWN_STATES]
        order.sort()  # the states in their own order
    when = "there" if study.horizon is None else f"at the first of {plural(study.horizon, 'step')}"
    print(f"\nRecommended risk level: {level:g}. What to do {when}, and where other levels differ:\n")
    rows = []
    for i in order.tolist():
        actions = {alpha: part["action"].iloc[i] for alpha, part in by_level.items()}
        others = [f"{alpha:g}: {action}" for alpha, action in actions.items() if action != actions[level]]
        row = chosen.iloc[i].to_dict()
        rows.append(row | {"action": _mixed(row), "others": ", ".join(others)})
    _print_table(POLICY, rows)
    hidden = int(acting.sum()) - order.size
    if hidden:
        print(f"... and {hidden:,} more states; shown are those where the policy spends most of its time.")
    print("\nvalue: the Bayesian-risk value. It takes the risk anew at every step, so it is no forecast. Forecast:\n")
    marks = {True: "  <- recommended", False: ""}
    today = record["today"]
    levels = [row | {"mark": marks[bool(row["recommended"])]} for row in record["levels"]]
    if today is None:
        _print_table(LEVELS, levels)
    else:
        _print_table(LEVELS_AND_TODAY, [*map(_against_today, levels), today | NOT_COMPARED])
    worst = f"the mean of the worst {1.0 - record['tail']:.0%} that the data leaves possible"
    print(visible(f"From {record['start']}, discount {record['discount']:g}; bad cases: {worst}."))
    print("Both assume that the model holds.")
    if study.profile.honest is not None:
        values = record["check"]["recommended"]
        print(
            f"Honest value, by data that the policy was not chosen from: {values['honest']:.5g} "
            f"({values['low']:.5g} to {values['high']:.5g})."
        )
        for line in honest_lines(study.profile.honest):
            print(f"{line[:1].upper()}{line[1:]}.")
    if today is not None:
        print("today: what is done today; better: the chance that a level earns more than that.")
        if today["changes"]:
            changed = f"{today['states_changed']:,} state{'s' * (today['states_changed'] != 1)}"
            print(f"\nThe recommended policy differs from today's in {changed}. What matters most:\n")
            _print_table(CHANGES, [row | {"new": _mixed(row)} for row in today["changes"][:SHOWN_CHANGES]])
            print("adds: what the state adds to the difference of the mean returns.")
    for said in study.warnings:
        print(textwrap.fill(visible(f"Caution: {said}."), 100))


def _against_today(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a level with the texts of ``LEVELS_AND_TODAY``."""
    ahead = f"{row['difference']:+.4g} ± {1.96 * row['difference_se']:.1g}"
    texts = {"level": f"{row['alpha']:g}", "ahead": ahead, "better": f"{row['probability_better']:.0%}"}
    return row | texts


def _mixed(row: dict[str, Any]) -> str:
    """Return the action of a row, with its probability where the policy chooses at random."""
    share = row.get("probability", 1.0)
    return f"{row['action']}" if share > 0.9995 else f"{row['action']} ({share:.0%})"


# -- files -------------------------------------------------------------------------------------------------


def _json(record: dict[str, Any]) -> str:
    """Return a record as JSON: null in the place of NaN, plain numbers in that of NumPy's."""
    text = json.dumps(record, default=lambda value: value.item() if hasattr(value, "item") else str(value))
    finite = json.loads(text, parse_constant=lambda _: None)
    text = json.dumps(finite, allow_nan=False, ensure_ascii=False, indent=1)
    return "".join(sign if sign.isprintable() or sign == "\n" else json.dumps(sign)[1:-1] for sign in text)
