"""`prudent solve`, `check`, `explain` and `next-data`: from a log to a decision, without Python.

The options that say how a log is read are those of ``LogOptions``, for all of them.
"""

from __future__ import annotations

import csv
import inspect
import json
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..display.words import plural
from ..errors import DataError, ParameterError
from .screen import table

if TYPE_CHECKING:
    from ..analysis.check import CheckReport
    from ..analysis.log_study import LogStudy
    from ..data.state_map import StateMap
    from ..models.uncertain import UncertainMDP
    from ..posteriors.dirichlet import DirichletPosterior

SHOWN_STATES = 30  # states in the table on the screen


@dataclass(frozen=True)
class LogOptions:
    """How a log is read: the same options in every command that takes one."""

    log: Annotated[
        str,
        typer.Argument(metavar="LOG", help="A CSV or Parquet file: state, action, next_state, and perhaps reward, ..."),
    ]
    discount: Annotated[float, typer.Option(help="What a reward one step later is worth, in [0, 1).")] = 0.99
    terminal: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATE,STATE=VALUE", help="States where the process ends, and what that is worth (default 0)."
        ),
    ] = None
    absorbing: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE,STATE=REWARD", help="States where it stays for ever, and the reward of a step."),
    ] = None
    min_count: Annotated[
        float | None,
        typer.Option(
            help="Actions tried fewer times in a state are not considered there (default: 1, with --features 5).",
            show_default=False,
        ),
    ] = None
    prior: Annotated[
        str, typer.Option(help="Number of observations that the prior is worth for each pair of state and action.")
    ] = "1"
    support: Annotated[
        str,
        typer.Option(help="Next states that are possible: seen after the action, after any action of the state, all."),
    ] = "state"
    rewards: Annotated[
        str,
        typer.Option(help="mean: of each transition; outcomes: each reward seen is possible; a number; a CSV file."),
    ] = "mean"
    features: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN,...", help="Columns of numbers and categories that say what state a row is in."),
    ] = None
    states: Annotated[
        str | None,
        typer.Option(
            help="With --features: auto, tree:N, quantiles:N, clusters:N, or a policy.json whose states to take over."
        ),
    ] = None
    cyclic: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=PERIOD,...", help="Features that start again after a period: hour=24."),
    ] = None
    categorical: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN,...", help="Features whose numbers are labels.")
    ] = None
    columns: Annotated[
        list[str] | None, typer.Option(metavar="state=COLUMN,...", help="What the columns are called in the file.")
    ] = None
    end: Annotated[str | None, typer.Option(help="The terminal state of rows without a next state.")] = None
    start: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATE,STATE=CHANCE",
            help="Where it begins (default: as the log's episodes do, else evenly in all states).",
        ),
    ] = None
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")] = 1
    threads: Annotated[int | None, typer.Option(help="Threads (default: one for each core).", show_default=False)] = (
        None
    )
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False

    def read(self) -> tuple[UncertainMDP, DirichletPosterior]:
        """Return the model of the log and its posterior."""
        from ..estimation import from_log

        return from_log(self.log, **self.arguments())

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that say how the log is read."""
        if Path(self.log).is_dir():
            message = f"{self.log} is a folder, expected a CSV or Parquet file"
            raise DataError(message, code="wrong-format", path=self.log)
        mass, constant = _number(self.prior), _number(self.rewards)
        if mass is None:
            raise _mistake("--prior", self.prior, "a number")
        return {
            "discount": self.discount,
            "terminal": _values(self.terminal),
            "absorbing": _values(self.absorbing),
            "min_count": self.min_count,
            "prior": mass,
            "support": self.support,
            "rewards": self.rewards if constant is None else constant,
            "features": None if self.features is None else self.feature_map(),
            "states": self.state_map(),
            "columns": _column_names(self.columns),
            "end": self.end,
        }

    def feature_map(self) -> StateMap:
        """Return the features and what is known of them."""
        from ..data.state_map import StateMap

        periods = dict(map(name_and_number, items_of(self.cyclic or [])))
        for name, period in periods.items():
            if period is None:
                raise _mistake("--cyclic", name, "COLUMN=PERIOD, for example hour=24")
        labels = tuple(items_of(self.categorical or []))
        return StateMap(tuple(items_of(self.features or [])), cyclic=periods, categorical=labels)

    def state_map(self) -> StateMap | str | None:
        """Return what makes states of the features: a map, "auto", or None where states are in a column."""
        word = self.states
        if word is not None and word.endswith(".json"):
            return _saved_map(word)
        if self.features is None:
            for option in ("cyclic", "categorical"):
                if getattr(self, option):
                    raise _mistake(f"--{option}", ",".join(getattr(self, option)), "--features as well")
        if word in (None, "auto", "as they are"):
            return word
        method, sign, count = (word or "").partition(":")
        size = _number(count, int)
        if method not in ("tree", "quantiles", "clusters") or (sign and size is None) or self.features is None:
            raise _mistake("--states", str(word), "with --features: auto, tree:N, quantiles:N, clusters:N, policy.json")
        sizes = {} if size is None else {"bins" if method == "quantiles" else "n_states": size}
        return replace(self.feature_map(), method=method, **sizes)

    def common(self, model: UncertainMDP) -> dict[str, Any]:
        """Return the options of all analyses."""
        return {"start": self.begins(model), "rng": self.seed, "threads": self.threads}

    def begins(self, model: UncertainMDP) -> Any:
        """Return where the process starts, by the names of the model."""
        if not self.start:
            return model.summary.starts  # None without episodes
        pairs = [name_and_number(item) for item in items_of(self.start)]
        without = [name for name, chance in pairs if chance is None]
        if 0 < len(without) < len(pairs):
            raise _mistake("--start", ",".join(self.start), "a chance for every state, or for none")
        return {label_of(model, name): 1.0 / len(pairs) if without else chance for name, chance in pairs}


LOG_OPTIONS = [field.name for field in fields(LogOptions) if field.name not in ("log", "seed", "as_json")]
"""Options that have the names of arguments of the library."""


def label_of(model: UncertainMDP, text: str, what: str = "--start") -> Any:
    """Return the name of a state that was written as ``text``: the text, or the number that it is."""
    labels = model.state_labels
    for name in (text, _number(text, int), _number(text)):
        if name is not None and labels.find(name) >= 0:
            return name
    raise _mistake(what, text, labels.expected(), "unknown-state")


def _saved_map(path: str) -> StateMap:
    """Return the state map of a policy.json."""
    from ..data.state_map import StateMap

    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        raise DataError(f"--states: cannot read {path}: {fault}", code="no-file", path=path) from None
    if not isinstance(record, dict) or "state_map" not in record:
        raise DataError(f"--states: {path} has no state map", code="wrong-format", path=path)
    return StateMap.from_dict(record["state_map"])


def _mistake(option: str, value: str, expected: str, code: str = "wrong-format") -> ParameterError:
    """Return the error of an option whose value cannot be read."""
    return ParameterError(f"{option} is {value!r}, expected {expected}", code=code, argument=option, value=value)


def _number(text: str, kind: type[int] | type[float] = float) -> Any:
    """Return the number that ``text`` is; None if it is none, or NaN."""
    try:
        number = kind(text)
    except ValueError:
        return None
    return number if number == number else None


def items_of(values: list[str]) -> list[str]:
    """Return the items of comma-separated texts; an item in double quotes may hold commas."""
    items = [item.strip() for text in values for item in next(csv.reader([text], skipinitialspace=True), [])]
    return [item for item in items if item]


def name_and_number(item: str) -> tuple[str, float | None]:
    """Return the two parts of ``name=number``; an item that does not end in a number is a name."""
    name, sign, value = item.rpartition("=")
    amount = _number(value) if sign and name else None
    return (item, None) if amount is None else (name.strip(), amount)


def _values(values: list[str] | None) -> dict[str, float]:
    """Return names and their numbers, 0 by default; later numbers replace earlier ones."""
    numbers: dict[str, float] = {}
    for name, value in map(name_and_number, items_of(values or [])):
        if value is not None or name not in numbers:  # --terminal a,b --terminal b=-1 is one list
            numbers[name] = 0.0 if value is None else value
    return numbers


def _column_names(values: list[str] | None) -> dict[str, str | None] | None:
    names: dict[str, str | None] = {}
    for item in items_of(values or []):
        name, sign, theirs = item.partition("=")
        if not sign:
            raise _mistake("--columns", item, "NAME=COLUMN, for example state=patient_state")
        names[name.strip()] = theirs.strip() or None
    return names or None


def levels_of(text: str) -> list[float]:
    """Return risk levels with commas between them, ascending."""
    from .._support.checks import risk_level

    levels = [_number(item) for item in items_of([text])]
    if not levels or any(level is None for level in levels):
        raise _mistake("--alpha", text, "risk levels in (-1, 1), for example 0,0.5,0.9")
    return sorted({risk_level(level, "--alpha") for level in levels})


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
    ] = "0,0.5,0.9",
    draws: Annotated[int, typer.Option(help="Posterior draws, for what the policies really earn.")] = 2_000,
    observations: Annotated[int, typer.Option(help="For what to measure next: how many more.")] = 10,
    out: Annotated[Path, typer.Option(help="Folder for policy.csv, policy.json, figures and report.html.")] = Path(
        "policy"
    ),
    strict: Annotated[bool, typer.Option("--strict", help="A serious finding of the check is an error.")] = False,
) -> None:
    """Work out what to do in each state, from a log, at several levels of caution; write tables and a page."""
    from .._support.output import prepare, write
    from ..analysis.check import refuse_serious
    from ..analysis.log_study import study_log
    from ..planning.acting import policy_code

    levels = levels_of(alpha)
    model, posterior = options.read()
    common = options.common(model)
    prepare(out)
    model.require_discounted("questions about returns over the posterior")
    report, checked = _checked(options, levels, common["start"], model)
    if strict and report is not None and report.serious:
        write(out / "check.json", checked.encode())
        refuse_serious(report)
    study = study_log(model, posterior, levels, draws=draws, observations=observations, check=report, **common)
    policies = study.to_pandas()
    name = Path(options.log).name
    record = study.record(name)
    for figure in study.figures().values():
        figure.save(out / "figures")
    listed = {option: value for option, value in vars(options).items() if option not in ("log", "as_json", "threads")}
    settings = {option.replace("_", "-"): value for option, value in listed.items()}
    page = study.report(out / "report.html", name=name, settings=settings)
    write(out / "policy.csv", policies.to_csv(index=False).encode())
    text = _json(record)
    write(out / "policy.json", text.encode())
    if model.summary.state_map is not None:
        code = policy_code(study.profile.solutions[study.profile.recommended])
        write(out / "act.py", code.encode())
    write(out / "check.json", checked.encode())
    if options.as_json:
        print(text)
        return
    _show(study, policies, record)
    print(f"Page: {page}")
    print(f"Tables: {out / 'policy.csv'}, {out / 'policy.json'}, {out / 'check.json'}")
    if model.summary.state_map is not None:
        print(f"Policy as plain Python: {out / 'act.py'}, act(observation) -> action")


@takes_a_log
def check_log(
    options: LogOptions,
    alpha: Annotated[str, typer.Option(metavar="A,A,...", help="Risk levels to compare.")] = "0,0.5,0.9",
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
    report = check(options.log, alphas=levels, start=begin, rng=options.seed, threads=options.threads, **arguments)
    text = _json(report.to_dict())
    write(out / "check.json", text.encode())
    page = report.report(out / "check.html", name=Path(options.log).name)
    if options.as_json:
        print(text)
    else:
        _show_check(report)
        print(f"Page: {page}")
        print(f"Table: {out / 'check.json'}")
    if strict:
        refuse_serious(report)


def _start_of(options: LogOptions) -> Any:
    """Return where the process begins, before there is a model: by the names as they are written."""
    if not options.start:
        return None
    pairs = [name_and_number(item) for item in items_of(options.start)]
    return {name: 1.0 / len(pairs) if chance is None else chance for name, chance in pairs}


def _checked(
    options: LogOptions, levels: list[float], start: Any, model: UncertainMDP
) -> tuple[CheckReport | None, str]:
    """Check the log; return the report, None for a log that is too short to be split, and check.json."""
    from ..analysis.check import check

    given: dict[str, Any] = {"start": start if options.start else None, "rng": options.seed, "threads": options.threads}
    arguments, summary = options.arguments(), model.summary
    if summary.state_map is not None:  # chosen before
        arguments |= {"features": None, "states": summary.state_choice or summary.state_map}
    try:
        report = check(options.log, alphas=levels, **given, **arguments)
    except DataError as error:
        if error.code != "few-episodes":
            raise
        short = {"code": error.code, "severity": "note", "value": 0, "threshold": 0, "message": f"{error}."}
        return None, _json({"findings": [short], "honest": [], "recommended": {}})
    return report, _json(report.to_dict())


@takes_a_log
def explain(
    options: LogOptions,
    state: Annotated[str, typer.Argument(metavar="STATE", help="A state of the log.")],
    alpha: Annotated[str, typer.Option(metavar="A,A,...", help="Risk levels.")] = "0.9",
) -> None:
    """Say why the policy does what it does in a state: what is known of each action, what would change it."""
    from ..planning.problem import BayesianRiskMDP

    levels = levels_of(alpha)
    model, posterior = options.read()
    name = label_of(model, state, "STATE")
    value, reasons = None, {}
    for level in levels:
        solution = BayesianRiskMDP(model, posterior, level).solve(initial_value=value, threads=options.threads)
        value, reasons[level] = solution.value, solution.explain(name)
    if options.as_json:
        tables = {f"{level:g}": json.loads(why.to_pandas().to_json(orient="records")) for level, why in reasons.items()}
        print(_json({"state": state, "levels": tables}))
        return
    _print_rows(model)
    for level, why in reasons.items():
        print(f"\nRisk level {level:g}" + (", no caution" if level == 0.0 else "") + ":")
        print(why)


@takes_a_log
def next_data(
    options: LogOptions,
    alpha: Annotated[float, typer.Option(help="The risk level of the policy.")] = 0.0,
    observations: Annotated[int, typer.Option(help="How many more, of one pair.")] = 10,
) -> None:
    """Say what to measure next: by how much more observations of each action in each state would better the policy."""
    from ..analysis.log_study import next_data as worked_out

    (level,) = levels_of(str(alpha))
    model, posterior = options.read()
    record = worked_out(model, posterior, level, observations, **options.common(model)).record()
    if options.as_json:
        print(_json(record))
        return
    _print_rows(model)
    print(f"\n{observations:,} more observations of one action in one state, at risk level {level:g}.")
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

    right = ("value", "seen", "gain", "±", "may change")
    shown = table(*columns, right=right, overflow="ellipsis", no_wrap=True)
    for row in rows:
        shown.add_row(*(escape(template.format(**row)) for template in columns.values()))
    Console(highlight=False, width=None if sys.stdout.isatty() else 80).print(shown)


def _print_rows(model: UncertainMDP) -> None:
    summary = model.summary
    dropped = sum(summary.dropped.values())
    why = ": " + ", ".join(f"{count:,} {reason}" for reason, count in summary.dropped.items()) if dropped else ""
    print(f"{plural(summary.rows, 'row')} read, {summary.used:,} used, {dropped:,} dropped{why}.")
    for note in summary.notes:
        print(textwrap.fill(f"Note: {note}.", 100))


def _show_check(report: CheckReport) -> None:
    """Print findings, honest values and what is assumed."""
    from ..analysis.profile import honest_lines

    record = report.to_dict()
    for finding in record["findings"]:
        print(textwrap.fill(f"{finding['severity'].capitalize()}, {finding['code']}: {finding['message']}", 100))
    if not record["findings"]:
        print("The checks found nothing against the model.")
    print("\nPromised: in the model that chose the policy. Honest: by the episodes that it was not chosen from.\n")
    best = record["recommended"]
    keys = ("design", "alpha", "prior", "support")
    marks = ["  <- recommended" if all(row[k] == best[k] for k in keys) else "" for row in record["cells"]]
    _print_table(HONEST, [row | {"mark": mark} for row, mark in zip(record["cells"], marks, strict=True)])
    for line in honest_lines(report.honest):
        print(f"{line[:1].upper()}{line[1:]}.")
    print("Assumed: " + " ".join(record["assumed"]))


def _show(study: LogStudy, policies: Any, record: dict[str, Any]) -> None:
    """Print the policy: a line for each state, all of them or the most visited."""
    from ..analysis.profile import honest_lines

    _print_rows(study.model)
    if study.check is not None:
        print(textwrap.shorten(f"Check: {study.check.worst}", 118, placeholder=" ..."))
    level = study.profile.recommended
    by_level = {alpha: part.reset_index(drop=True) for alpha, part in policies.groupby("alpha")}
    chosen = by_level[level]
    acting = chosen["action"].notna().to_numpy() & ~study.model.absorbing
    order = acting.nonzero()[0]
    if order.size > SHOWN_STATES:
        order = order[(-chosen["time_share"].to_numpy()[order]).argsort(kind="stable")][:SHOWN_STATES]
    print(f"\nRecommended risk level: {level:g}. What to do there, and where other levels differ:\n")
    rows = []
    for i in order.tolist():
        actions = {alpha: part["action"].iloc[i] for alpha, part in by_level.items()}
        others = [f"{alpha:g}: {action}" for alpha, action in actions.items() if action != actions[level]]
        rows.append(chosen.iloc[i].to_dict() | {"others": ", ".join(others)})
    _print_table(POLICY, rows)
    hidden = int(acting.sum()) - order.size
    if hidden:
        print(f"... and {hidden:,} more states; shown are those where the policy spends most of its time.")
    print("\nvalue: the Bayesian-risk value. It takes the risk anew at every step, so it is no forecast. Forecast:\n")
    marks = {True: "  <- recommended", False: ""}
    _print_table(LEVELS, [row | {"mark": marks[bool(row["recommended"])]} for row in record["levels"]])
    worst = f"the mean of the worst {1.0 - record['tail']:.0%} that the data leaves possible"
    print(f"From {record['start']}; bad cases: {worst}.")
    print("Both assume that the model holds.")
    if study.profile.honest is not None:
        values = record["check"]["recommended"]
        print(
            f"Honest value, by data that the policy was not chosen from: {values['honest']:.5g} "
            f"({values['low']:.5g} to {values['high']:.5g})."
        )
        for line in honest_lines(study.profile.honest):
            print(f"{line[:1].upper()}{line[1:]}.")
    for said in study.warnings:
        print(f"Caution: {said}.")


# -- files -------------------------------------------------------------------------------------------------


def _json(record: dict[str, Any]) -> str:
    """Return a record as JSON: null in the place of NaN, plain numbers in that of NumPy's."""
    text = json.dumps(record, default=lambda value: value.item() if hasattr(value, "item") else str(value))
    finite = json.loads(text, parse_constant=lambda _: None)
    return json.dumps(finite, allow_nan=False, ensure_ascii=False, indent=1)
