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
list stands in another list: ``slip = [[0.2, 0.3]]`` is one value. Every agent meets every environment with every seed.

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
    title            a line for the dataset and the figure

Keys of ``[[environment]]``: ``kind``, the options of that function of :mod:`prudent.envs` (frozen_lake, inventory,
random_model, river_swim; gaussian_bandit, bounded_bandit, logistic_bandit), and perhaps ``label``. Environments are
all bandits or all with states. Keys of ``[[agent]]``: ``kind``, the options of that function of :mod:`prudent`
(brps_rl, ts_rl, certainty_equivalence, worst_case, optimistic_vi; for bandits brps_cmab, brps_cmab_clipped,
brps_cmab_inflated, thompson_sampling, thompson_sampling_inflated), and perhaps ``label``.

A ``kind`` may also be a function of your own, ``"package.module:function"``, that returns a ``prudent.envs.Problem`` or
an environment for bandits, or the settings of an agent. Python must find the module, also on the workers of a cluster.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import itertools
import json
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .._support.checks import open_probability, risk_level, whole_number
from ..agents.optimistic_vi import OptimisticSettings
from ..agents.sampling_settings import SamplingSettings
from ..bandits.settings import BanditSettings
from ..envs.bandits import BanditEnvironment
from ..envs.linear_bandit import LinearBanditEnv
from ..envs.problem import Problem
from ..errors import DataError, ParameterError, PrudentError

__all__ = ["Member", "SweepSpec", "made", "read_spec"]

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
KEYS = ("replications", "seeds", *LENGTHS, "levels", "baseline", "confidence", "title", "environment", "agent")
MOST = 2**31 - 2**20  # bytes of a variable in NetCDF-3


@dataclass(frozen=True)
class Member:
    """An environment or an agent of a sweep: what makes it, its options as JSON, and its label."""

    path: str  # module:function
    options: str  # JSON
    label: str
    code: str = ""  # a digest of the user's own module

    def make(self) -> Any:
        """Return the environment, or the settings of the agent; the same object for the same member."""
        return made(self.path, self.options)


@cache
def made(path: str, options: str) -> Any:
    """Return what the function at ``path`` makes of ``options``."""
    return _function(path)(**json.loads(options))


def _function(path: str) -> Callable[..., Any]:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


@dataclass(frozen=True)
class SweepSpec:
    """What to sweep over, read and checked; :func:`read_spec` makes it."""

    environments: tuple[Member, ...]
    agents: tuple[Member, ...]
    seeds: tuple[int, ...]
    replications: int
    steps: int  # of a run: episodes, or steps of a bandit
    episode_length: int  # 0 for bandits
    points: int
    levels: tuple[float, ...]
    baseline: str
    confidence: float
    title: str

    @property
    def bandits(self) -> bool:
        """Whether the environments are bandits."""
        return self.episode_length == 0


def read_spec(source: str | os.PathLike[str] | Mapping[str, Any]) -> SweepSpec:
    """Return the sweep that a TOML file describes, or a mapping with the same keys.

    >>> spec = read_spec({"replications": 5, "environment": [{"kind": "frozen_lake", "p_h": [0.1, 0.2]}],
    ...                   "agent": [{"kind": "ts_rl"}, {"kind": "brps_rl", "alpha": [0.5, 0.9]}]})
    >>> [member.label for member in spec.environments]
    ['frozen_lake p_h=0.1', 'frozen_lake p_h=0.2']
    >>> [member.label for member in spec.agents]
    ['TS-RL', 'BRPS-RL 0.5', 'BRPS-RL 0.9']
    """
    if isinstance(source, Mapping):
        return _Reader("the spec", dict(source)).spec()
    path = Path(source)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is no TOML: {error}") from None
    return _Reader(str(path), content).spec()


class _Reader:
    """Reads one spec; every error names the file and the key."""

    def __init__(self, file: str, content: dict[str, Any]) -> None:
        self.file, self.content = file, content

    def fail(self, key: str, problem: str) -> ParameterError:
        return ParameterError(f"{self.file}: {key} {problem}")

    def checked(self, key: str, check: Callable[[Any, str], Any], default: Any = None) -> Any:
        """Return the value of a key as ``check`` returns it."""
        value = self.content.get(key, default)
        if value is None:
            raise self.fail(key, "is missing")
        try:
            return check(value, key)
        except PrudentError as error:
            raise ParameterError(f"{self.file}: {error}") from None

    def each(self, key: str, check: Callable[[Any, str], Any], default: Any) -> tuple[Any, ...]:
        """Return a value or a list of them, all different."""
        given = self.content.get(key, default)
        values = given if isinstance(given, list) else [given]
        try:
            found = tuple(check(value, f"{key}[{i}]") for i, value in enumerate(values))
        except PrudentError as error:
            raise ParameterError(f"{self.file}: {error}") from None
        for i, value in enumerate(found):
            if value in found[:i]:
                raise self.fail(f"{key}[{i}]", f"is {value!r}, which is there already")
        return found

    def text(self, key: str, default: str) -> str:
        value = self.content.get(key, default)
        if not isinstance(value, str):
            raise self.fail(key, f"is {value!r}, expected a text")
        return value

    def spec(self) -> SweepSpec:
        for key in self.content:
            if key not in KEYS:
                raise self.fail(str(key), f"is no key of a sweep, expected some of {', '.join(KEYS)}")
        environments, agents = self.members("environment"), self.members("agent")
        bandits = self.family(environments, agents)
        for key, belongs in (("horizon", bandits), ("episodes", not bandits), ("episode_length", not bandits)):
            if key in self.content and not belongs:
                other = "episodes" if bandits is False else "horizon"
                kind = "bandits" if bandits else "environments with states"
                raise self.fail(key, f"is not for {kind}; give {other}")
        replications = self.checked("replications", whole_number)
        steps = self.checked("horizon", whole_number) if bandits else self.checked("episodes", whole_number, 400)
        seeds = self.each("seeds", lambda value, name: whole_number(value, name, 0), 1)
        levels = self.each("levels", risk_level, [])
        if levels and bandits and not all(isinstance(each.make(), LinearBanditEnv) for each in environments):
            raise self.fail("levels", "need linear bandits: other bandits have no BR-regret")
        if not seeds:
            raise self.fail("seeds", "is empty")
        points = min(steps, self.checked("points", whole_number, 20))
        rows = len(environments) * len(agents) * len(seeds) * replications
        if 8 * rows * points * max(1, len(levels)) > MOST:
            most = MOST // (8 * rows * max(1, len(levels)))
            raise self.fail("points", f"is {points}, which is more than a NetCDF file can hold; expected up to {most}")
        labels = [member.label for member in agents]
        baseline = self.text("baseline", labels[0])
        if baseline not in labels:
            raise self.fail("baseline", f"is {baseline!r}, expected one of the agents: {', '.join(map(repr, labels))}")
        return SweepSpec(
            environments,
            agents,
            seeds,
            replications,
            steps,
            0 if bandits else self.checked("episode_length", whole_number, 10),
            points,
            levels,
            baseline,
            self.checked("confidence", open_probability, 0.95),
            self.text("title", ""),
        )

    def members(self, key: str) -> tuple[Member, ...]:
        """Return all environments, or all agents: a member for each combination of options."""
        tables = self.content.get(key)
        if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
            raise self.fail(key, f"must be there as tables: [[{key}]]")
        found: list[Member] = []
        for i, table in enumerate(tables):
            found += self.combinations(key, f"{key}[{i}]", dict(table))
        labels = [member.label for member in found]
        for i, label in enumerate(labels):
            if label in labels[:i]:
                raise self.fail(key, f"has two called {label!r}; give one of them a label of its own")
        return tuple(found)

    def combinations(self, key: str, place: str, table: dict[str, Any]) -> list[Member]:
        kind = table.pop("kind", None)
        known = PATHS[key]
        own = isinstance(kind, str) and ":" in kind
        if not own and kind not in known:
            expected = f"one of {', '.join(known)}, or module:function"
            what = "is missing" if kind is None else f"is {kind!r}"
            raise self.fail(f"{place}.kind", f"{what}, expected {expected}")
        path = str(kind) if own else known[str(kind)]
        try:
            function = _function(path)
            accepted = inspect.signature(function).parameters
        except (ImportError, AttributeError, ValueError, TypeError) as error:
            raise self.fail(f"{place}.kind", f"is {kind!r}, which cannot be had: {error}") from None
        name = table.pop("label", None)
        if not isinstance(name, str | None):
            raise self.fail(f"{place}.label", f"is {name!r}, expected a text")
        for option in table:
            if option not in accepted and not any(each.kind is each.VAR_KEYWORD for each in accepted.values()):
                raise self.fail(
                    f"{place}.{option}", f"is no option of {kind}, expected some of {', '.join(accepted) or 'none'}"
                )
        if kind == "random_model" and "rng" not in table:
            raise self.fail(f"{place}.rng", "is missing: a random model needs a seed to be the same every time")
        varied = {option: value for option, value in table.items() if isinstance(value, list)}
        for option, value in varied.items():
            if not value:
                raise self.fail(f"{place}.{option}", "is an empty list: there is nothing to try")
        code = _digest(function) if own else ""
        found = []
        for values in itertools.product(*varied.values()):
            options = table | dict(zip(varied, values, strict=True))
            try:
                text = json.dumps(options, sort_keys=True)
            except TypeError:
                bad = next(option for option, value in options.items() if not isinstance(value, _PLAIN))
                raise self.fail(f"{place}.{bad}", f"is {options[bad]!r}, expected a number, a text or a list") from None
            try:
                thing = made(path, text)
            except (PrudentError, TypeError, ValueError) as error:
                said = ", ".join(f"{option} = {value!r}" for option, value in options.items())
                raise self.fail(place, f"({said}) cannot be made: {error}") from None
            if name is None and key == "agent":
                label = str(getattr(thing, "label", kind))
            else:  # what is tried tells those of one name apart
                shown = options if name is None else {option: options[option] for option in varied}
                told = [f"{option}={_short(value)}" for option, value in shown.items()]
                label = " ".join([str(kind).rpartition(":")[2] if name is None else name, *told])
            found.append(Member(path, text, label, code))
        return found

    def family(self, environments: tuple[Member, ...], agents: tuple[Member, ...]) -> bool:
        """Return whether these are bandits; all of them must be, or none."""
        kinds = [_kind(member.make(), Problem, BanditEnvironment) for member in environments]
        for member, kind in zip(environments, kinds, strict=True):
            if kind is None:
                raise self.fail("environment", f"{member.label!r} is {member.make()!r}, expected a Problem or a bandit")
        bandits = kinds[0] == 1
        if len(set(kinds)) > 1:
            one, other = (environments[kinds.index(kind)].label for kind in (0, 1))
            raise self.fail("environment", f"has states in {one!r} and a bandit in {other!r}; sweep over one kind only")
        for member in agents:
            kind = _kind(member.make(), SamplingSettings | OptimisticSettings, BanditSettings)
            if kind != int(bandits):
                expected = "settings of a bandit, such as brps_cmab" if bandits else "one for states, such as brps_rl"
                raise self.fail("agent", f"{member.label!r} is {member.make()!r}, expected {expected}")
        return bandits


_PLAIN = (bool, int, float, str, list, dict)


def _kind(thing: Any, *kinds: Any) -> int | None:
    """Return the place of the first of ``kinds`` that ``thing`` is."""
    return next((i for i, kind in enumerate(kinds) if isinstance(thing, kind)), None)


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _digest(function: Callable[..., Any]) -> str:
    """Return a digest of the file that holds a function, so that new code never meets old numbers."""
    try:
        return hashlib.sha256(Path(inspect.getfile(function)).read_bytes()).hexdigest()[:16]
    except (TypeError, OSError):
        return ""
