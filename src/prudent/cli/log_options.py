"""Options that say how a log is read, the same for every command that takes one, and the texts that they are."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..data.labels import Labels
from ..errors import DataError, ParameterError

if TYPE_CHECKING:
    from ..data.state_map import StateMap
    from ..models.uncertain import UncertainMDP
    from ..posteriors.dirichlet import DirichletPosterior


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
            help="With --features: auto, tree:N, quantiles:N, clusters:N, or a policy.json whose states to take over. "
            "'as they are' accepts states that look like measurements."
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
    group: Annotated[
        str | None,
        typer.Option(metavar="COLUMN=NAME", help="A column of groups (sites), and the one that this is about."),
    ] = None
    prior_from: Annotated[
        str | None, typer.Option(metavar="FILE", help="Another log, such as last year's, for the prior.")
    ] = None
    end: Annotated[str | None, typer.Option(help="The terminal state of rows without a next state.")] = None
    duration: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="How long transitions take: discount ** duration.")
    ] = None
    gaps: Annotated[
        str,
        typer.Option(help="Uneven steps in an episode: error, cut (ends there), fill (repeat), duration (takes long)."),
    ] = "error"
    truncated: Annotated[
        str, typer.Option(help="Rows into states never left: error, drop, mean (lead where others of their state do).")
    ] = "error"
    start: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATE,STATE=CHANCE",
            help="Where it begins (default: as the log's episodes do, else evenly in all states).",
        ),
    ] = None
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE=ACTION,...", help="What must not be done, nor measured."),
    ] = None
    exclude_data: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE=ACTION,...", help="What must not be tried for the sake of data."),
    ] = None
    baseline: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="What is done today: log, none, or a file with state, action and perhaps probability.",
        ),
    ] = "log"
    baseline_min_count: Annotated[
        float | None,
        typer.Option(help="Actions seen fewer times in a state keep the probability of the baseline."),
    ] = None
    baseline_epsilon: Annotated[
        float | None,
        typer.Option(help="How far a state may be from the baseline: sum of |change| / sqrt(times seen)."),
    ] = None
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")] = 1
    threads: Annotated[int | None, typer.Option(help="Threads (default: one for each core).", show_default=False)] = (
        None
    )
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False

    def read(self) -> tuple[UncertainMDP, DirichletPosterior]:
        """Return the model of the log and its posterior."""
        from ..estimation import from_log

        asked = self.group_of()
        column = None if asked is None else asked[0]
        model, posterior = from_log(self.log, group=column, prior_from=self.prior_from, **self.arguments())
        if not isinstance(posterior, dict):
            return model, posterior
        assert asked is not None
        return model, posterior[_written(Labels("group", posterior, len(posterior)), asked[1], "--group")]

    def group_of(self, model: UncertainMDP | None = None) -> tuple[str, Any] | None:
        """Return the column of groups and the group that this is about, as the model spells it."""
        if not self.group:
            return None
        column, sign, name = self.group.rpartition("=")
        if not (sign and column):
            raise _mistake("--group", self.group, "COLUMN=NAME, for example site=north")
        if model is None or model.summary.pooling is None:
            return column, name
        names = model.summary.pooling.names
        return column, _written(Labels("group", names, len(names)), name, "--group")

    def limits(self, model: UncertainMDP) -> dict[str, Any]:
        """Return what policies keep to, for ``check``."""
        close = self.close(model)
        barred = {"exclude": self.pairs(model, "exclude")}
        return barred | close | ({"baseline": self.today(model) or "log"} if close else {})

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
            "duration": self.duration,
            "gaps": self.gaps,
            "truncated": self.truncated,
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

    def pairs(self, model: UncertainMDP, option: str) -> list[tuple[Any, Any]] | None:
        """Return the pairs of ``exclude`` or ``exclude_data`` by the names of the model."""
        items, flag = items_of(getattr(self, option) or []), "--" + option.replace("_", "-")
        pairs = []
        for item in items:
            state, sign, action = item.rpartition("=")
            if not sign:
                raise _mistake(flag, item, "STATE=ACTION, for example ill=drug")
            pairs.append((label_of(model, state.strip(), flag), action_of(model, action.strip(), flag)))
        return pairs or None

    def today(self, model: UncertainMDP) -> Any:
        """Return the baseline: "log", None, or the policy of a file."""
        if self.baseline in ("log", "none"):
            return None if self.baseline == "none" else "log"
        return policy_of_file(model, self.baseline)

    def close(self, model: UncertainMDP) -> dict[str, Any]:
        """Return how policies have to stay close to the baseline; nothing if they need not."""
        if self.baseline_min_count is None and self.baseline_epsilon is None:
            return {}
        return {"min_visits": self.baseline_min_count, "epsilon": self.baseline_epsilon}

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
    return _written(model.state_labels, text, what)


def action_of(model: UncertainMDP, text: str, what: str) -> Any:
    """Return the name of an action that was written as ``text``."""
    return _written(model.action_labels, text, what)


def policy_of_file(model: UncertainMDP, path: str) -> dict[Any, dict[Any, float]]:
    """Return the policy of a file with the columns state, action and perhaps probability."""
    from ..data.source import TableSource

    held = TableSource(path, "--baseline").read(("state", "action"), named=("probability",))
    chances = held.numbers("probability") if "probability" in held else [1.0] * held.size
    policy: dict[Any, dict[Any, float]] = {}
    for state, action, chance in zip(held["state"], held["action"], chances, strict=True):
        row = policy.setdefault(label_of(model, str(state), "--baseline"), {})
        if action is None or action != action:  # of terminal states
            continue
        name = action_of(model, str(action), "--baseline")
        if name in row:
            raise _mistake("--baseline", path, f"one row for {name!r} in {state!r}", "duplicate-row")
        row[name] = float(chance)
    return policy


def _written(labels: Labels, text: str, what: str) -> Any:
    """Return the label that was written as ``text``."""
    for name in (text, _number(text, int), _number(text)):
        if name is not None and labels.find(name) >= 0:
            return name
    raise _mistake(what, text, labels.expected(), labels.unknown_code)


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


def final_values_of(text: str | None, model: UncertainMDP) -> Any:
    """Return what states are worth after a horizon: None, one number, or a mapping from states."""
    if text is None or _number(text) is not None:
        return None if text is None else _number(text)
    pairs = [name_and_number(item) for item in items_of([text])]
    if not pairs or any(worth is None for _, worth in pairs):
        raise _mistake("--terminal-value", text, "a number, or numbers of states, for example well=10,ill=0")
    return {label_of(model, name, "--terminal-value"): worth for name, worth in pairs}


def levels_of(text: str) -> list[float]:
    """Return risk levels with commas between them, ascending."""
    from .._support.checks import risk_level

    levels = [_number(item) for item in items_of([text])]
    if not levels or any(level is None for level in levels):
        raise _mistake("--alpha", text, "risk levels in (-1, 1), for example 0,0.5,0.9")
    return sorted({risk_level(level, "--alpha") for level in levels})
