"""A decision as a file: what was decided, from which data, with which settings; to be acted on and compared later."""

from __future__ import annotations

import datetime
import hashlib
import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._support.output import write
from .._support.state import Arrays, read_state, write_state
from ..errors import ParameterError, StateFileError
from ..models.mdp import MDP
from ..models.uncertain import UncertainMDP
from ..planning.acting import policy_code
from ..planning.base import PlanningProblem
from ..planning.problem import BayesianRiskMDP
from ..planning.solution import Solution
from ..posteriors import DirichletPosterior
from ..types import PathLike
from .packing import Packer, Unpacker, summary_or_none

KIND, VERSION = "decision", 1
FILE, CODE, POLICY = "decision.state", "act.py", "policy.json"


@dataclass(frozen=True, eq=False)
class SavedDecision:
    """A decision that was saved, as ``prudent.load`` returns it.

    Attributes
    ----------
    solution : Solution
        The solution: values, policy, certificate, and the problem that it solves.
    settings : dict
        Settings that were given to ``save``.
    log : dict
        Name, size in bytes and SHA-256 of the log, as far as they were given; empty without a log.
    date : str
        When it was saved, UTC.
    version : str
        The version of prudent that saved it.

    See Also
    --------
    save : Write such a file.
    """

    solution: Solution
    settings: dict[str, Any]
    log: dict[str, Any]
    date: str
    version: str

    @property
    def problem(self) -> PlanningProblem:
        """The problem that was solved."""
        assert self.solution.problem is not None
        return self.solution.problem

    @property
    def model(self) -> MDP | UncertainMDP:
        """The model."""
        return self.problem.model

    @property
    def posterior(self) -> DirichletPosterior | None:
        """The posterior, None for a known model or one that is given by draws."""
        return self.problem.posterior if isinstance(self.problem, BayesianRiskMDP) else None

    def act(self, observation: Mapping[str, Any], unseen: str = "nearest") -> Any:
        """Return the action for an observation, as ``Solution.act`` does.

        Parameters
        ----------
        observation : mapping
            A value for each column of the state map.
        unseen : {"nearest", "log", "refuse"}, default="nearest"
            What to do for an observation like nothing in the log.

        Returns
        -------
        hashable
            The action.
        """
        return self.solution.act(observation, unseen=unseen)

    def is_of(self, log: PathLike) -> bool:
        """Return whether a file is the log that this decision was made from, byte by byte.

        Parameters
        ----------
        log : path-like
            The file.

        Returns
        -------
        bool
            Whether size and SHA-256 are the same.
        """
        return bool(self.log) and all(identity(log)[key] == self.log[key] for key in ("bytes", "sha256"))

    def __repr__(self) -> str:
        name = f", log {self.log['name']!r}" if self.log else ""
        return f"SavedDecision({self.solution!r}, saved {self.date} by prudent {self.version}{name})"


def identity(log: PathLike) -> dict[str, Any]:
    """Return name, size and SHA-256 of a file.

    Parameters
    ----------
    log : path-like
        The file.

    Returns
    -------
    dict
        ``name``, ``bytes``, ``sha256``.
    """
    with open(log, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"name": Path(log).name, "bytes": file.tell(), "sha256": digest}


def save(
    path: PathLike,
    solution: Solution,
    *,
    model: MDP | UncertainMDP | None = None,
    posterior: DirichletPosterior | None = None,
    log: PathLike | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Path:
    """Write a decision into a folder: model, posterior, state map, solution, settings, and which log it came from.

    The folder has ``decision.state``, which ``load`` reads and nothing of which is executed; ``policy.json``, for other
    programs; and, if the model has a state map, ``act.py``: a function ``act(observation)`` in plain Python.

    Parameters
    ----------
    path : path-like
        The folder; it is made if it does not exist. Files of an older decision are replaced, each when it is whole.
    solution : Solution
        What ``solve`` returned. It knows its model and its posterior.
    model : MDP or UncertainMDP, optional
        The model, to make sure that it is that of the solution.
    posterior : DirichletPosterior, optional
        The posterior, likewise.
    log : path-like, optional
        The file that the model was estimated from; its name, size and SHA-256 are kept.
    settings : mapping, optional
        Anything that JSON can hold and that should be found again, by name.

    Returns
    -------
    pathlib.Path
        The file ``decision.state``.

    Raises
    ------
    ParameterError
        If the solution has no problem, is of another model or posterior than these, or has parts that cannot be
        written: risk measures or posteriors of your own.

    See Also
    --------
    load : Read it back.

    Examples
    --------
    >>> import tempfile
    >>> import prudent as pr
    >>> log = [("ill", "wait", "ill", 0), ("ill", "drug", "well", 1), ("ill", "drug", "ill", 0)]
    >>> model, posterior = pr.from_log(log, 0.9, terminal=["well"])
    >>> found = pr.BayesianRiskMDP(model, posterior, alpha=0.5).solve()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = save(folder, found, settings={"ward": 7})
    ...     again = load(folder)
    >>> again.solution.policy_names == found.policy_names, again.settings
    (True, {'ward': 7})
    """
    if not isinstance(solution, Solution) or solution.problem is None:
        message = f"solution must be what solve returned, with its problem, got {type(solution).__name__}"
        raise ParameterError(message, code="wrong-type", argument="solution", value=type(solution).__name__)
    if settings is not None and not isinstance(settings, Mapping):
        message = f"settings must be a mapping from names to values, got {settings!r:.100}"
        raise ParameterError(message, code="wrong-type", argument="settings", value=settings)
    if model is not None and solution.bias is not None:  # an average reward has no discount
        model = model.with_discount(1.0)
    _require_same(solution.problem, model, posterior)
    packer = Packer()
    values = {
        "solution": packer.pack(solution),
        "settings": packer.pack(dict(settings or {})),
        "log": {} if log is None else identity(log),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "version": str(importlib.import_module("prudent").__version__),
    }
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / FILE
    write_state(file, KIND, VERSION, values, packer.arrays)
    _made(file)  # what was written can be read
    solution.to_json(folder / POLICY)
    summary = summary_or_none(solution.problem.model)
    if solution.horizon is None and summary is not None and summary.state_map is not None:
        write(folder / CODE, policy_code(solution).encode())
    return file


def _require_same(problem: PlanningProblem, model: Any, posterior: Any) -> None:
    if model is not None and model != problem.model:
        message = f"model is another one than that of the solution: {model!r} and {problem.model!r}"
        raise ParameterError(message, code="other-model", argument="model")
    own = problem.posterior if isinstance(problem, BayesianRiskMDP) else None
    if posterior is not None and (own is None or not np.array_equal(posterior.counts, own.counts)):
        message = "posterior is another one than that of the solution"
        raise ParameterError(message, code="other-model", argument="posterior")


def load(path: PathLike) -> SavedDecision:
    """Read a decision that ``save`` wrote.

    Parameters
    ----------
    path : path-like
        The folder, or its file ``decision.state``.

    Returns
    -------
    SavedDecision
        The decision.

    Raises
    ------
    StateFileError
        If the file is damaged, of another kind or of a later version.

    See Also
    --------
    save : Write a decision.
    """
    if not isinstance(path, str | os.PathLike):
        message = f"path must be the path of a folder or file, got {path!r:.100}"
        raise ParameterError(message, code="wrong-type", argument="path", value=path)
    file = Path(path)
    return _made(file / FILE if file.is_dir() else file)


def _made(file: Path) -> SavedDecision:
    values, arrays = read_state(file, KIND, VERSION)
    try:
        return _decision(values, arrays)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError, OverflowError) as fault:
        message = f"{os.fspath(file)} holds no decision that can be made: {fault}"
        raise StateFileError(message[:500], code="damaged-file", path=os.fspath(file)) from fault


def _decision(values: dict[str, Any], arrays: Arrays) -> SavedDecision:
    make = Unpacker(arrays)
    solution = make.unpack(values["solution"])
    if not isinstance(solution, Solution):
        raise ValueError("it has no solution")
    return SavedDecision(
        solution=solution,
        settings=make.unpack(values["settings"]),
        log=dict(values["log"]),
        date=str(values["date"]),
        version=str(values["version"]),
    )
