"""PRISM's explicit files: NAME.tra lists transitions, NAME.srew and NAME.trew rewards, NAME.lab labels of states.

They are texts of numbers, one entry a line. What they have no place for (names of states, the
discount) stands in NAME.json.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..._support.files import write_atomically
from ..._support.memory import require_memory
from ...errors import ModelError
from ...types import FloatArray, IntArray, PathLike
from ..base import TabularModel
from ..builders import Arguments
from .choices import Choices, chosen_discount, described, known_choices, mean_rewards, read_description


def write_prism(path: PathLike, model: TabularModel, choices: Choices, start: int) -> None:
    """Write a model; ``start`` is the index of its initial state."""
    S, C, M = choices.n_states, choices.state.size, choices.target.size
    choice, place = choices.choice, choices.places()
    assert choices.action is not None
    words = [str(name) for name in model.actions]
    if len(set(words)) < len(words) or not all(word.isidentifier() for word in words):
        words = [f"a{a}" for a in range(len(words))]
    moves = {"state": choices.state[choice], "choice": place[choice], "target": choices.target}
    called = np.array(words, dtype=object)[choices.action[choice]]
    _write(path, ".tra", f"{S} {C} {M}", {**moves, "probability": choices.probability, "action": called})
    earned = choices.reward[choice] if choices.branch_reward is None else choices.branch_reward
    paid = {name: column[earned != 0.0] for name, column in {**moves, "reward": earned}.items()}
    _write(path, ".trew", f"{S} {C} {paid['reward'].size}", paid)
    labels = f'0="init" 1="deadlock" 2="end"\n{start}: 0\n'
    if choices.end >= 0:
        labels += f"{choices.end}: 2\n"
    write_atomically(_file(path, ".lab"), labels.encode())
    write_atomically(_file(path, ".json"), json.dumps(described(model, choices.end)).encode())


def known_prism(path: PathLike, discount: float | None, costs: bool) -> Arguments:
    """Read a model; return the arguments of ``MDP.of_steps``."""
    moves = _Table(_file(path, ".tra"), ("state", "choice", "target", "probability", "action"))
    S = moves.header[0]
    require_memory(64.0 * S, "path", f"{moves.file}, with {S:,} states,")
    state, choice, target = moves.indices("state", S), moves.indices("choice"), moves.indices("target", S)
    order = np.lexsort((choice, state))
    state, choice, target, chance = state[order], choice[order], target[order], moves.numbers("probability")[order]
    begin = np.flatnonzero(np.append(True, (np.diff(state) != 0) | (np.diff(choice) != 0))) if state.size else order
    first = np.append(begin, state.size)
    said = moves.header[1:] if moves.with_choices else (begin.size, *moves.header[1:])
    for what, count, expected in zip(("choices", "transitions"), (begin.size, state.size), said, strict=True):
        if count != expected:
            raise moves.fault(f"it has {count:,} {what}, and its first line says {expected:,}")
    means, single, notes = _rewards(path, S, first, state, choice, target, chance, -1.0 if costs else 1.0)
    description: dict[str, Any] = {}
    side = _file(path, ".json")
    if side.exists():
        try:
            description = read_description(json.loads(side.read_bytes()), str(side))
        except (ValueError, RecursionError) as fault:
            raise ModelError(f"{side} cannot be read: {fault}", code="wrong-format", path=str(side)) from None
    action, actions = moves.actions(order[begin], description)
    end = S - 1 if description.get("end") else -1
    choices = Choices(S, state[begin], action, means, first, target, chance, single, end)
    found = known_choices(choices, description.get("states"), actions, notes)
    return found | {"discount": chosen_discount(discount, description, str(moves.file))}


def _rewards(
    path: PathLike,
    S: int,
    first: IntArray,
    state: IntArray,
    choice: IntArray,
    target: IntArray,
    chance: FloatArray,
    sign: float,
) -> tuple[FloatArray, FloatArray | None, tuple[str, ...]]:
    """Return mean rewards of choices, rewards of branches where they differ, and notes."""
    single = np.zeros(state.size)
    files = [file for suffix in (".srew", ".trew") if (file := _file(path, suffix)).exists()]
    for file in files:
        if file.suffix == ".srew":
            table = _Table(file, ("state", "reward"))
            paid = np.zeros(S)
            paid[table.indices("state", S)] = table.numbers("reward")
            single += paid[state]
            continue
        table = _Table(file, ("state", "choice", "target", "reward"))
        n = int(choice.max(initial=0)) + 1
        if float(S) * n * S >= 2.0**62:
            raise table.fault(f"{S:,} states and choices up to {n - 1:,} are too many")
        keys, which = np.unique((state * n + choice) * S + target, return_inverse=True)
        wanted = (table.indices("state", S) * n + table.indices("choice", n)) * S + table.indices("target", S)
        at = np.searchsorted(keys, wanted)
        absent = np.append(keys, -1)[at] != wanted
        if absent.any():
            row = int(np.argmax(absent))
            raise table.fault(f"entry {row + 1} is about a transition that {_file(path, '.tra')} does not have")
        single += np.bincount(at, weights=table.numbers("reward"), minlength=keys.size)[which]
    single *= sign
    means = mean_rewards(single, chance, first)
    differ = (single != np.repeat(means, np.diff(first))).any()
    return means, single if differ else None, () if files else ("there are no files of rewards: all are zero",)


class _Table:
    """A file with a line of sizes and lines of entries, separated by blanks."""

    def __init__(self, file: Path, columns: tuple[str, ...]) -> None:
        import pandas

        self.file = file
        try:
            with open(file, encoding="utf-8") as lines:
                above = 0
                for line in lines:
                    above += 1
                    if line.strip() and not line.startswith("#"):
                        break
            self.header = tuple(map(int, line.split())) if above else ()
            self.with_choices = "choice" in columns and len(self.header) == 3
            self.columns = tuple(name for name in columns if name != "choice" or self.with_choices)
            self.rows = pandas.read_csv(
                file,
                sep=r"\s+",
                names=list(self.columns),
                skiprows=above,
                comment="#",
                dtype=str,
                keep_default_na=False,
            )  # texts, which NumPy turns into the nearest numbers
        except FileNotFoundError:
            raise self.fault("there is no such file") from None
        except pandas.errors.EmptyDataError:
            self.rows = pandas.DataFrame({name: [] for name in self.columns})
        except (ValueError, OSError) as fault:
            raise self.fault(str(fault)) from None
        if len(self.header) not in (2, 3) or min(self.header) < 0:
            raise self.fault(f"its first line has the sizes {self.header}, expected two or three")

    def fault(self, text: str) -> ModelError:
        """Return the error that says what is wrong with the file."""
        message = f"{self.file} cannot be read: {text}"
        return ModelError(message, code="wrong-format", path=str(self.file))

    def indices(self, name: str, size: int | None = None) -> IntArray:
        """Return a column of numbers from 0 on, below ``size``; a Markov chain has one choice in each state."""
        if name not in self.columns:
            return np.zeros(len(self.rows), dtype=np.int64)
        found = self.numbers(name)
        if not ((found >= 0.0) & (found == np.floor(found)) & (found < (2.0**53 if size is None else size))).all():
            expected = "numbers from 0 on" if size is None else f"numbers from 0 to {size - 1}"
            raise self.fault(f"the column of {name}s must hold {expected}")
        return found.astype(np.int64)

    def numbers(self, name: str) -> FloatArray:
        """Return a column of numbers."""
        try:
            found = self.rows[name].to_numpy(object).astype(np.float64)
        except (ValueError, TypeError):
            raise self.fault(f"the column {name} must hold numbers") from None
        if not np.isfinite(found).all():
            raise self.fault(f"the column {name} has no number in entry {int(np.argmax(~np.isfinite(found))) + 1}")
        return found

    def actions(self, rows: IntArray, description: dict[str, Any]) -> tuple[IntArray | None, tuple[Any, ...] | None]:
        """Return the action of each choice, which begins at one of ``rows``, and the names of actions."""
        words = self.rows["action"].to_numpy(object)[rows]
        if not all(words):  # choices without an action
            return None, None
        names = description.get("actions")
        if description:
            known = [str(name) for name in names] if names is not None else []
            numbered = {f"a{a}": a for a in range(len(words))} | {word: a for a, word in enumerate(known)}
            if all(word in numbered for word in words):
                return np.array([numbered[word] for word in words], dtype=np.int64), names
        called, action = np.unique(words.astype(str), return_inverse=True)
        return action.astype(np.int64), tuple(called.tolist())


def _file(path: PathLike, suffix: str) -> Path:
    """Return one of the files of a model; ``path`` may name any of them."""
    given = Path(path)
    stem = given.name
    for known in (".tra", ".trew", ".srew", ".lab", ".json"):
        stem = stem.removesuffix(known)
    return given.with_name(stem + suffix)


def _write(path: PathLike, suffix: str, header: str, columns: dict[str, Any]) -> None:
    import pandas

    text = pandas.DataFrame(columns).to_csv(None, sep=" ", header=False, index=False, lineterminator="\n")
    write_atomically(_file(path, suffix), f"{header}\n{text}".encode())
