"""The file that says what to sweep over, in TOML.

    replications = 200
    seeds = [1, 2]
    episodes = 400

    [[environment]]
    kind = "frozen_lake"
    p_h = [0.1, 0.2, 0.6, 0.8]

    [[agent]]
    kind = "brps_rl"
    alpha = [0.0, 0.5, 0.9, 0.99]

A list gives the values to try; where a table has several lists, all combinations are tried. A value that is itself a
list is written inside another list: ``slip = [[0.2, 0.3]]`` is one value. Every agent meets every
environment with every seed.

Keys of the file:

    replications     independent runs of each agent on each environment with each seed (needed)
    seeds            a seed or a list of them (1)
    episodes         the length of a run in episodes, for environments with states (400)
    episode_length   steps in an episode (10)
    horizon          the length of a run in steps, for bandits (needed there)
    points           how many times of a run are recorded, evenly spaced (20)
    levels           risk levels at which BR-regret is measured as well (none)
    baseline         the label of the agent that others are compared with (the first)
    confidence       of all intervals (0.95)
    keep             "runs", or "summary": means, variances, quantiles and covariances instead of every run ("runs")
    pairing          how agents share random numbers: by "step", or by use of each "source" of the model ("step")
    title            a line for the dataset and the figure

Keys of ``[[environment]]``: ``kind``, the options of that function of ``prudent.envs`` (frozen_lake, inventory,
random_model, river_swim; gaussian_bandit, bounded_bandit, logistic_bandit), and perhaps ``label``. Environments are
all bandits or all with states. Keys of ``[[agent]]``: ``kind``, the options of that function of ``prudent``
(brps_rl, ts_rl, certainty_equivalence, worst_case, optimistic_vi; for bandits brps_cmab, brps_cmab_clipped,
brps_cmab_inflated, thompson_sampling, thompson_sampling_inflated), and perhaps ``label``.

A ``kind`` may also be a function of your own, ``"package.module:function"``, that returns a ``prudent.envs.Problem`` or
an environment for bandits; the settings of an agent; or a function that makes an agent from a model (for bandits from
n_arms, dim and rng). A class of agents may be named as well: its further arguments are the options. Python must find
the module, also on the workers of a cluster. A spec can thus run code, so the caller must allow each module by name
(``allow_modules``, ``--allow-module``); a package allows the modules in it. The function itself must be defined in an
allowed module.
"""

from __future__ import annotations

import inspect
import itertools
import json
import math
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._support.checks import instance_of, one_of, open_probability, risk_level, whole_number
from .._support.datasets import LARGEST_VARIABLE, has_large_files
from .._support.toml import TooLargeError, read_toml
from ..agents.optimistic_vi import OptimisticSettings
from ..agents.sampling_settings import SamplingSettings
from ..bandits.settings import BanditSettings
from ..envs.bandits import BanditEnvironment
from ..envs.linear_bandit import LinearBanditEnv
from ..envs.problem import Problem
from ..errors import DataError, ParameterError, PrudentError
from ..types import PathLike
from .runs.simulation import Component, SimulationRun, forget_made, made
from .study import Coordinates

ENVIRONMENTS = (
    "frozen_lake",
    "inventory",
    "random_model",
    "river_swim",
    "gaussian_bandit",
    "bounded_bandit",
    "logistic_bandit",
)
AGENTS = {
    "prudent.agents": ("brps_rl", "ts_rl", "certainty_equivalence", "worst_case", "optimistic_vi"),
    "prudent.bandits": (
        "brps_cmab",
        "brps_cmab_clipped",
        "brps_cmab_inflated",
        "thompson_sampling",
        "thompson_sampling_inflated",
    ),
}
PATHS = {
    "environment": {name: f"prudent.envs:{name}" for name in ENVIRONMENTS},
    "agent": {name: f"{room}:{name}" for room, names in AGENTS.items() for name in names},
}
LENGTHS = ("episodes", "episode_length", "horizon", "points")
KEYS = (
    *("replications", "seeds", *LENGTHS, "levels", "baseline", "confidence", "keep", "pairing", "title"),
    *("environment", "agent"),
)
MOST_MEMBERS = 10_000  # environments, or agents
MOST_RUNS = 1_000_000  # environments x agents x seeds


@dataclass(frozen=True)
class SweepSpec:
    """What to sweep over, read and checked by ``read_spec``.

    Attributes
    ----------
    environments, agents : tuple of Component
        Environments and agents, with their labels.
    seeds : tuple of int
        Seeds.
    replications : int
        Replications of each agent on each environment with each seed.
    steps : int
        Length of a replication: episodes, or decisions of a bandit.
    episode_length : int
        Steps in an episode.
    points : int
        Number of recorded times.
    levels : tuple of float
        Risk levels at which BR-regret is measured.
    baseline : str
        Label of the agent that others are compared with.
    confidence : float
        Confidence of all intervals.
    keep : str
        Whether the dataset has every run, or a summary.
    pairing : str
        How agents share random numbers.
    title : str
        Title of the dataset and the figure.
    """

    environments: tuple[Component, ...]
    agents: tuple[Component, ...]
    seeds: tuple[int, ...]
    replications: int
    steps: int
    episode_length: int
    points: int
    levels: tuple[float, ...]
    baseline: str
    confidence: float
    keep: str
    pairing: str
    title: str

    @property
    def largest(self) -> int:
        """Size of the largest variable of the dataset, with every run, in bytes."""
        rows = len(self.environments) * len(self.agents) * len(self.seeds) * self.replications
        return 8 * rows * self.points * max(1, len(self.levels))

    def runs(self) -> dict[Coordinates, SimulationRun]:
        """Return the runs by environment, agent and seed."""
        options: dict[str, Any] = {
            "alphas": self.levels,
            "episode_length": self.episode_length,
            "pairing": self.pairing,
        }
        return {
            (environment.label, agent.label, seed): SimulationRun(
                self.replications, environment, agent, self.steps, self.points, seed=seed, **options
            )
            for environment in self.environments
            for agent in self.agents
            for seed in self.seeds
        }


def read_spec(source: PathLike | Mapping[str, Any], allow_modules: Sequence[str] = ()) -> SweepSpec:
    """Return the sweep that a TOML file describes, or a mapping with the same keys.

    Parameters
    ----------
    source : path-like or mapping
        The file, or its content.
    allow_modules : sequence of str, optional
        Modules and packages whose functions the spec may name as a ``kind``. The default is none.

    Returns
    -------
    SweepSpec
        The sweep.

    Raises
    ------
    DataError
        If the file cannot be read or is not TOML.
    ParameterError
        If a key or a value is wrong; the fields ``argument`` and ``value`` tell which.

    Examples
    --------
    >>> spec = read_spec({"replications": 5, "environment": [{"kind": "frozen_lake", "p_h": [0.1, 0.2]}],
    ...                   "agent": [{"kind": "ts_rl"}, {"kind": "brps_rl", "alpha": [0.5, 0.9]}]})
    >>> [member.label for member in spec.environments]
    ['frozen_lake p_h=0.1', 'frozen_lake p_h=0.2']
    >>> [member.label for member in spec.agents]
    ['TS-RL', 'BRPS-RL 0.5', 'BRPS-RL 0.9']
    """
    forget_made()
    if isinstance(source, Mapping):
        return _Reader("the spec", dict(source), allow_modules).spec()
    path = Path(source)
    try:
        content = read_toml(path)
    except OSError as error:
        message = f"cannot read {path}: {error.strerror or error}"
        raise DataError(message, code="unreadable-file", path=str(path)) from None
    except TooLargeError as error:
        raise DataError(f"{path} is no sweep file: {error}", code="too-large", path=str(path)) from None
    except ValueError as error:
        raise DataError(f"{path} is not TOML: {error}", code="wrong-format", path=str(path)) from None
    return _Reader(str(path), content, allow_modules).spec()


class _Reader:
    """Reads one spec; every error names the file and the key."""

    def __init__(self, file: str, content: dict[str, Any], allowed: Sequence[str]) -> None:
        self.file, self.content, self.allowed = file, content, tuple(allowed)

    def fail(self, key: str, problem: str, code: str, value: object = None) -> ParameterError:
        return ParameterError(f"{self.file}: {key} {problem}", code=code, argument=key, value=value)

    def checked(self, check: Callable[..., Any], value: Any, key: str, *options: Any) -> Any:
        """Return a value as ``check`` of it, its key and ``options`` does; its errors name the file."""
        try:
            return check(value, key, *options)
        except PrudentError as error:
            raise type(error)(f"{self.file}: {error}", code=error.code, **error.fields) from None

    def value(self, key: str, check: Callable[..., Any], default: Any = None, *options: Any) -> Any:
        """Return the value of a key, checked."""
        value = self.content.get(key, default)
        if value is None:
            raise self.fail(key, "is missing", "missing-argument")
        return self.checked(check, value, key, *options)

    def values(self, key: str, check: Callable[..., Any], default: Any, *options: Any) -> tuple[Any, ...]:
        """Return a value or a list of them, all different."""
        content = self.content.get(key, default)
        items = content if isinstance(content, list) else [content]
        values = tuple(self.checked(check, item, f"{key}[{i}]", *options) for i, item in enumerate(items))
        for i, value in enumerate(values):
            if value in values[:i]:
                raise self.fail(f"{key}[{i}]", f"is {value!r}, a duplicate", "duplicate", value)
        return values

    def spec(self) -> SweepSpec:
        for key in self.content:
            if key not in KEYS:
                raise self.fail(str(key), f"is not a key of a sweep; expected some of {', '.join(KEYS)}", "unknown-key")
        environments, agents = self.members("environment"), self.members("agent")
        bandits = self.are_bandits(environments, agents)
        for key, belongs in (("horizon", bandits), ("episodes", not bandits), ("episode_length", not bandits)):
            if key in self.content and not belongs:
                kind, other = ("bandits", "horizon") if bandits else ("environments with states", "episodes")
                raise self.fail(key, f"is not for {kind}; give {other}", "conflicting-arguments")
        replications = self.value("replications", whole_number)
        steps = self.value("horizon", whole_number) if bandits else self.value("episodes", whole_number, 400)
        seeds = self.values("seeds", whole_number, 1, 0)
        levels = self.values("levels", risk_level, [])
        if levels and bandits and not all(isinstance(member.make(), LinearBanditEnv) for member in environments):
            raise self.fail("levels", "need linear bandits: other bandits have no BR-regret", "conflicting-arguments")
        if not seeds:
            raise self.fail("seeds", "is empty", "missing-argument")
        points = min(steps, self.value("points", whole_number, 20))
        n_runs = len(environments) * len(agents) * len(seeds)
        if n_runs > MOST_RUNS:
            problem = f"asks for {n_runs} runs (environments x agents x seeds), expected at most {MOST_RUNS}"
            raise self.fail("agent", problem, "too-large", n_runs)
        labels = [member.label for member in agents]
        spec = SweepSpec(
            environments,
            agents,
            seeds,
            replications,
            steps,
            self.value("episode_length", whole_number, 10),
            points,
            levels,
            self.value("baseline", one_of, labels[0], labels),
            self.value("confidence", open_probability, 0.95),
            self.value("keep", one_of, "runs", ("runs", "summary")),
            self.value("pairing", one_of, "step", ("step", "source")),
            self.value("title", instance_of, "", str),
        )
        if spec.pairing == "source" and bandits:
            raise self.fail("pairing", "by source is for environments with states", "conflicting-arguments")
        if spec.keep == "summary" and levels:
            raise self.fail("levels", "are not in a summary; leave out keep", "conflicting-arguments")
        if spec.keep == "runs" and spec.largest > LARGEST_VARIABLE and not has_large_files():
            problem = (
                f"asks for variables of {spec.largest / 2**30:.3g} GiB, more than a NetCDF-3 file can hold; set "
                "keep = \"summary\", or install what NetCDF-4 needs: pip install 'prudent[large]'"
            )
            raise self.fail("replications", problem, "too-large", replications)
        return spec

    def members(self, key: str) -> tuple[Component, ...]:
        """Return all environments, or all agents: a component for each combination of options."""
        tables = self.content.get(key)
        if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
            raise self.fail(key, f"must be there as tables: [[{key}]]", "missing-argument")
        members: list[Component] = []
        total = sum(math.prod(len(value) for value in table.values() if isinstance(value, list)) for table in tables)
        if total > MOST_MEMBERS:
            problem = f"asks for {total} combinations of options, expected at most {MOST_MEMBERS}"
            raise self.fail(key, problem, "too-large", total)
        for i, table in enumerate(tables):
            members += self.combinations(key, f"{key}[{i}]", dict(table))
        labels = [member.label for member in members]
        for i, label in enumerate(labels):
            if label in labels[:i]:
                raise self.fail(key, f"has two called {label!r}; give one of them its own label", "duplicate", label)
        return tuple(members)

    def combinations(self, key: str, section: str, table: dict[str, Any]) -> list[Component]:
        kind = table.pop("kind", None)
        path = self.path(key, section, kind)
        name = table.pop("label", None)
        if name is not None:
            self.checked(instance_of, name, f"{section}.label", str)
        self.check_options(section, kind, path, table)
        varied = {option: value for option, value in table.items() if isinstance(value, list)}
        members = []
        number = math.prod(len(values) for values in varied.values())
        if number > MAX_MEMBERS:
            problem = f"has {number:,} combinations, expected at most {MAX_MEMBERS:,}"
            raise self.fail(section, problem, "too-large", number)
        for values in itertools.product(*varied.values()):
            options = table | dict(zip(varied, values, strict=True))
            try:
                text = json.dumps(options, sort_keys=True)
            except TypeError:
                wrong = next(option for option, value in options.items() if not isinstance(value, _PLAIN))
                problem = f"is {options[wrong]!r}, expected a number, a string or a list"
                raise self.fail(f"{section}.{wrong}", problem, "wrong-type", options[wrong]) from None
            try:
                thing = made(path, text)
            except (PrudentError, TypeError, ValueError, MemoryError, OverflowError) as error:
                shown = ", ".join(f"{option} = {value!r}" for option, value in options.items())
                problem = f"({shown}) cannot be made: {error}"
                raise self.fail(section, problem, getattr(error, "code", "wrong-type")) from None
            if name is None and key == "agent" and hasattr(thing, "label"):
                label = str(thing.label)
            else:  # the options that vary tell those of one name apart
                varying = options if name is None else {option: options[option] for option in varied}
                texts = [f"{option}={_short(value)}" for option, value in varying.items()]
                label = " ".join([str(kind).rpartition(":")[2] if name is None else name, *texts])
            members.append(Component(path, text, label))
        return members

    def path(self, key: str, section: str, kind: Any) -> str:
        """Return the path of the function that a ``kind`` names."""
        paths = PATHS[key]
        own = isinstance(kind, str) and ":" in kind
        if not own and kind not in paths:
            problem = "is missing" if kind is None else f"is {kind!r}"
            problem += f", expected one of {', '.join(paths)}, or module:function"
            raise self.fail(f"{section}.kind", problem, "missing-argument" if kind is None else "unknown-option", kind)
        if not own:
            return paths[str(kind)]
        self.allow(section, kind, kind.partition(":")[0])
        return str(kind)

    def allow(self, section: str, kind: str, module: str) -> None:
        """Refuse functions of modules that the caller does not allow."""
        if not any(f"{module}.".startswith(f"{name}.") for name in self.allowed):
            problem = (
                f"is {kind!r}, a function of the module {module!r}, which a sweep file may only run if you allow it: "
                f"--allow-module {module}, or allow_modules=[{module!r}]"
            )
            raise self.fail(f"{section}.kind", problem, "module-not-allowed", kind)

    def check_options(self, section: str, kind: Any, path: str, table: dict[str, Any]) -> None:
        """Refuse options that the function does not take."""
        try:
            function = pkgutil.resolve_name(path)
            if kind == path:  # an allowed module may hold functions of others
                self.allow(section, kind, str(getattr(function, "__module__", None)))
            accepted = inspect.signature(function).parameters
        except ParameterError:
            raise
        except (ImportError, AttributeError, ValueError, TypeError) as error:
            problem = f"is {kind!r}, which cannot be imported: {error}"
            raise self.fail(f"{section}.kind", problem, "unknown-option", kind) from None
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values())
        for option, value in table.items():
            if option not in accepted and not takes_any:
                problem = f"is not an option of {kind}; expected some of {', '.join(accepted) or 'none'}"
                raise self.fail(f"{section}.{option}", problem, "unknown-key")
            if value == []:
                raise self.fail(f"{section}.{option}", "is an empty list", "missing-argument", value)
        if kind == "random_model" and "rng" not in table:
            problem = "is missing: a random model needs a seed to be the same every time"
            raise self.fail(f"{section}.rng", problem, "missing-argument")

    def are_bandits(self, environments: tuple[Component, ...], agents: tuple[Component, ...]) -> bool:
        """Return whether these are bandits; all of them must be, or none."""
        first = environments[0]
        bandits = isinstance(first.make(), BanditEnvironment)
        for member in environments:
            thing = member.make()
            if not isinstance(thing, Problem | BanditEnvironment):
                problem = f"{member.label!r} is {thing!r}, expected a Problem or a bandit"
                raise self.fail("environment", problem, "wrong-type")
            if isinstance(thing, BanditEnvironment) != bandits:
                one, other = (member, first) if bandits else (first, member)
                problem = f"has states in {one.label!r} and a bandit in {other.label!r}; sweep over one kind only"
                raise self.fail("environment", problem, "conflicting-arguments")
        expected = "settings of a bandit, such as brps_cmab" if bandits else "one for states, such as brps_rl"
        expected += ", or a function that makes an agent"
        for member in agents:
            own = BanditSettings if bandits else SamplingSettings | OptimisticSettings
            if not isinstance(member.make(), own) and not callable(member.make()):
                problem = f"{member.label!r} is {member.make()!r}, expected {expected}"
                raise self.fail("agent", problem, "wrong-type")
        return bandits


MAX_MEMBERS = 10_000  # environments or agents of one table
_PLAIN = (bool, int, float, str, list, dict)


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
