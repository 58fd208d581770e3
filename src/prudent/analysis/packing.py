"""Models, posteriors and solutions as values that JSON can hold and arrays: what a decision file keeps.

Every value is written by its kind, so that reading gives the same one: a tuple stays a tuple, a key may be a number.
Classes are named, and only those that are listed here can be made: nothing in a file is executed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from .._support.state import Arrays
from ..data.state_map import StateMap
from ..errors import ModelError, ParameterError
from ..models.builders import Steps
from ..models.entries import END
from ..models.log_summary import LogSummary, Pooling, SupportChange
from ..models.mdp import MDP
from ..models.uncertain import UncertainMDP
from ..planning.base import AtMost, Constraint, DeferredQ
from ..planning.known_problem import KnownProblem
from ..planning.objectives import Entropic, EVaR
from ..planning.problem import BayesianRiskMDP
from ..planning.solution import Solution
from ..planning.stay_close import Allowed
from ..posteriors import BetaPosterior, DirichletPosterior, NormalPosterior
from ..posteriors.base import Posterior
from ..risk import CVaR, MeanCVaR, VaR
from ..risk.equivalents import EntropicRisk, Expectile
from ..risk.measures import Mean, Mixture, WorstCase
from ..types import FloatArray

RECORDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        Allowed, AtMost, Constraint, CVaR, DeferredQ, Entropic, EntropicRisk, EVaR, Expectile, LogSummary, Mean,
        MeanCVaR, Mixture, Pooling, Solution, SupportChange, VaR, WorstCase,
    )
}  # fmt: skip
POSTERIORS: dict[str, type[Posterior]] = {
    kind.__name__: kind for kind in (BetaPosterior, DirichletPosterior, NormalPosterior)
}
LEFT_OUT = {"state_choice": None}  # fields that are not kept: how a state map was chosen


class StoredQ:
    """Values of actions of a plan, in place of the backups that computed them.

    Parameters
    ----------
    q : ndarray of shape (T, S, A)
        Values of actions.
    """

    def __init__(self, q: FloatArray) -> None:
        self.q = q

    def __call__(self, value: FloatArray, step: int) -> FloatArray:
        """Return the values of actions at one step; ``value`` is not used."""
        return np.asarray(self.q[step])


class Packer:
    """What was packed so far: arrays by number."""

    def __init__(self) -> None:
        self.arrays: Arrays = {}

    def array(self, values: Any) -> dict[str, Any]:
        """Return the record of an array."""
        given = np.asarray(values)
        kind = given.dtype.kind
        if kind in "OU":  # labels
            return {"labels": [self.pack(part) for part in given.ravel().tolist()], "shape": list(given.shape)}
        if kind not in "biuf":
            message = f"solution has an array of {given.dtype}, which a decision file cannot hold"
            raise ParameterError(message, code="wrong-type", argument="solution", value=str(given.dtype))
        name = str(len(self.arrays))
        self.arrays[name] = given.astype(np.float64 if kind == "f" else np.int64)
        return {"array": name, "dtype": given.dtype.name}

    def pack(self, value: Any) -> Any:
        """Return a value as JSON."""
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, np.generic):
            return self.pack(value.item())
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.ndarray):
            return self.array(value)
        if isinstance(value, Posterior):
            return self._posterior(value)
        if isinstance(value, MDP):
            return self._mdp(value)
        if isinstance(value, UncertainMDP):
            return self._uncertain(value)
        if isinstance(value, KnownProblem):
            return {"known": self.pack(value.model)}
        if isinstance(value, BayesianRiskMDP):
            return self._problem(value)
        if isinstance(value, StateMap):
            return {"state_map": self.pack(value.to_dict())}
        if type(value).__name__ in RECORDS and RECORDS[type(value).__name__] is type(value):
            return {"record": type(value).__name__, "fields": self.pack(self._fields(value))}
        if isinstance(value, tuple | list):
            return {"tuple" if isinstance(value, tuple) else "list": [self.pack(part) for part in value]}
        if isinstance(value, Mapping):
            return {"dict": [[self.pack(key), self.pack(part)] for key, part in value.items()]}
        message = f"solution has a {type(value).__name__}, which a decision file cannot hold: {value!r:.100}"
        raise ParameterError(message, code="wrong-type", argument="solution", value=type(value).__name__)

    def _fields(self, value: Any) -> dict[str, Any]:
        if not is_dataclass(value):
            return dict(value._asdict())
        found = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        found |= {name: kept for name, kept in LEFT_OUT.items() if name in found}
        if isinstance(value, Solution) and callable(value.q_source):
            found["q_source"] = {"plan": value.q}
        return found

    def _posterior(self, posterior: Posterior) -> dict[str, Any]:
        name = type(posterior).__name__
        if POSTERIORS.get(name) is not type(posterior):
            message = f"posterior is a {name}, which a decision file cannot hold; it can: {', '.join(POSTERIORS)}"
            raise ParameterError(message, code="wrong-type", argument="posterior", value=name)
        values, arrays = posterior.state()
        return {"posterior": name, "values": self.pack(values), "arrays": self.pack(dict(arrays))}

    def _mdp(self, mdp: MDP) -> dict[str, Any]:
        mdp.require_unit_durations("decision files")
        kept = {"discount": mdp.discount, "reward": mdp.reward, "outcomes": tuple(mdp.outcomes()), "notes": mdp.notes}
        names = {
            what: None if labels.numbered else labels.names
            for what, labels in (("states", mdp.state_labels), ("actions", mdp.action_labels))
        }
        return {"mdp": self.pack(kept | names)}

    def _uncertain(self, model: UncertainMDP) -> dict[str, Any]:
        entries, terminal = model.entries, model.terminal
        S, A = model.admissible.shape
        pairs = entries.pairs()
        used = ~terminal[pairs // A]
        kept = {
            "source": np.where(terminal[:, np.newaxis], -1, model.source),
            "pair": pairs[used],
            "outcome": entries.outcome[entries.slots()][used].astype(np.int64),
            "next_state": entries.next_state[used].astype(np.int64),
            "reward": entries.reward[used],
            "discount": model.discount,
            **model.names(),
            "terminal": tuple(
                zip(np.flatnonzero(terminal).tolist(), model.terminal_value[terminal].tolist(), strict=True)
            ),
            "duration": None if model.duration is None else model.duration[used],
            "notes": model.notes,
            "summary": summary_or_none(model),
        }
        barred = (model.source >= 0) & ~model.admissible & ~terminal[:, np.newaxis]
        sizes = (S, A, model.n_outcomes)
        return {"uncertain": self.pack(kept), "barred": self.pack(np.flatnonzero(barred)), "sizes": self.pack(sizes)}

    def _problem(self, problem: BayesianRiskMDP) -> dict[str, Any]:
        kept = {
            "model": problem.model,
            "posterior": problem.posterior,
            "risk": problem.risk,
            "reward_posterior": problem.reward_posterior,
            "draws": problem.draws,
        }
        return {"problem": self.pack(kept)}


class Unpacker:
    """Make values from their records.

    Parameters
    ----------
    arrays : dict of str to ndarray
        The arrays of the file.
    """

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays

    def unpack(self, record: Any) -> Any:
        """Return the value of a record; one of another form raises KeyError, TypeError or ValueError."""
        if not isinstance(record, dict):
            return record
        known: dict[str, Callable[[dict[str, Any]], Any]] = {
            "array": lambda r: self.arrays[r["array"]].astype(_dtype(r["dtype"])),
            "labels": self._labels,
            "float": lambda r: {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[r["float"]],
            "tuple": lambda r: tuple(map(self.unpack, r["tuple"])),
            "list": lambda r: list(map(self.unpack, r["list"])),
            "dict": lambda r: {self.unpack(key): self.unpack(part) for key, part in r["dict"]},
            "posterior": self._posterior,
            "mdp": self._mdp,
            "uncertain": self._uncertain,
            "known": lambda r: KnownProblem(self.unpack(r["known"])),
            "problem": self._problem,
            "state_map": lambda r: StateMap.from_dict(self.unpack(r["state_map"])),
            "record": self._record,
        }
        first = next(iter(record), "")
        return known[first](record)

    def _labels(self, record: dict[str, Any]) -> Any:
        found = np.empty(len(record["labels"]), dtype=object)
        found[:] = list(map(self.unpack, record["labels"]))
        return found.reshape(record["shape"])

    def _record(self, record: dict[str, Any]) -> Any:
        kind, values = RECORDS[record["record"]], self.unpack(record["fields"])
        if kind is Solution and isinstance(values["q_source"], dict):
            values["q_source"] = StoredQ(values["q_source"]["plan"])
        return kind(**values)

    def _posterior(self, record: dict[str, Any]) -> Posterior:
        return POSTERIORS[record["posterior"]].from_state(self.unpack(record["values"]), self.unpack(record["arrays"]))

    def _mdp(self, record: dict[str, Any]) -> MDP:
        kept = self.unpack(record["mdp"])
        S, A = kept["reward"].shape
        first, target, reward, chance = kept["outcomes"]
        pair = np.repeat(np.arange(S * A), np.diff(first))
        ends = target == END
        steps = Steps(pair // A, pair % A, np.where(ends, pair // A, target), chance, reward, ends)
        names = {what: kept[what] for what in ("states", "actions")}
        return MDP.of_steps(steps, (S, A), kept["discount"], kept["notes"], kept["reward"], **names)

    def _uncertain(self, record: dict[str, Any]) -> UncertainMDP:
        kept = self.unpack(record["uncertain"])
        S, A, K = self.unpack(record["sizes"])
        states = kept["states"] if kept["states"] is not None else range(S)
        over = {states[s]: value for s, value in kept.pop("terminal")}
        model = UncertainMDP.from_entries(**kept, terminal=over or None)
        model.n_outcomes = K
        barred = self.unpack(record["barred"])
        pairs = [(model.states[pair // A], model.actions[pair % A]) for pair in barred.tolist()]
        return model.without(pairs) if pairs else model

    def _problem(self, record: dict[str, Any]) -> BayesianRiskMDP:
        kept = self.unpack(record["problem"])
        if kept["reward_posterior"] is None:
            kept["reward_posterior"] = "certain"
        return BayesianRiskMDP(**kept)


def summary_or_none(model: MDP | UncertainMDP) -> LogSummary | None:
    """Return the summary of the log of a model, None if it was not made from one."""
    try:
        return model.summary
    except ModelError:
        return None


def _dtype(name: str) -> Any:
    if name not in ("bool", "int8", "int16", "int32", "int64", "float32", "float64"):
        raise ValueError(f"an array of {name}")
    return name
