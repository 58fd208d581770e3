"""Files of bmdp-tool: one text with the bounds of all transition probabilities of an interval MDP.

    number of states
    number of actions
    number of accepting states
    the accepting states, one a line
    state action next_state lower upper       one line for each transition, numbers from 0 on

Rewards, names and the discount have no place there; what prudent writes has them in a second file, PATH.json.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..._support.checks import number_array, require_shape
from ..._support.files import write_atomically
from ..._support.memory import require_memory
from ...errors import ModelError, ParameterError
from ...types import ArrayLike, FloatArray, IntArray, PathLike
from ..base import TabularModel
from ..builders import Arguments, Steps, pair_sums
from ..entries import END, Outcomes
from .choices import chosen_discount, described, read_description

COLUMNS = ("state", "action", "next state", "lower bound", "upper bound")


class IntervalLines(NamedTuple):
    """Bounds on transition probabilities [M]."""

    pair: IntArray  # s*A + a
    target: IntArray
    lower: FloatArray
    upper: FloatArray


class BmdpFile(NamedTuple):
    """What a file says."""

    shape: tuple[int, int]  # states and actions
    accepting: IntArray  # [n] states
    lines: IntervalLines
    described: dict[str, Any]  # discount, names, and rewards where prudent wrote them


def write_bmdp(
    path: PathLike,
    model: TabularModel,
    lines: IntervalLines,
    accepting: IntArray,
    reward: FloatArray,
    values: FloatArray | None,
) -> None:
    """Write a model with ``reward`` [M] of its lines; ``values`` are those of accepting states, if these end it."""
    import pandas

    A = model.n_actions
    table = {"s": lines.pair // A, "a": lines.pair % A, "t": lines.target, "l": lines.lower, "u": lines.upper}
    text = pandas.DataFrame(table).to_csv(None, sep=" ", header=False, index=False, lineterminator="\n")
    head = "\n".join(map(str, (model.n_states, A, accepting.size, *accepting.tolist())))
    write_atomically(Path(path), f"{head}\n{text}".encode())
    more: dict[str, Any] = {"reward": reward.tolist(), "terminal": None if values is None else values.tolist()}
    write_atomically(_side(path), json.dumps(described(model, -1) | more).encode())


def read_bmdp(path: PathLike) -> BmdpFile:
    """Read a file, and the one beside it if there is one."""
    import pandas

    file = Path(path)
    try:
        with open(file, encoding="utf-8") as content:
            numbers: list[str] = []
            above = 0  # lines of the header
            while len(numbers) < 3 or len(numbers) < 3 + _whole(numbers[2], above, file):
                line = content.readline()
                above += 1
                if not line:
                    raise _fault(file, above, "the file ends before its list of accepting states does")
                numbers += line.split()
        head = [_whole(number, 1 + i, file) for i, number in enumerate(numbers)]
        rows = pandas.read_csv(
            file,
            sep=r"\s+",
            names=[*COLUMNS, "more"],
            skiprows=above,
            index_col=False,
            dtype=dict.fromkeys(COLUMNS[:3], np.float64) | dict.fromkeys((*COLUMNS[3:], "more"), str),
            keep_default_na=False,
            na_values={"more": ""},
        )
        columns = [rows[name].to_numpy() for name in COLUMNS[:3]]
        # texts, which NumPy turns into the nearest numbers
        columns += [rows[name].to_numpy(object).astype(np.float64) for name in COLUMNS[3:]]
    except ModelError:
        raise
    except OSError as fault:
        message = f"{file} cannot be read: {fault.strerror}"
        raise ModelError(message, code="wrong-format", path=str(file)) from None
    except pandas.errors.EmptyDataError:
        rows = pandas.DataFrame({name: np.empty(0) for name in (*COLUMNS, "more")})
        columns = [np.empty(0)] * len(COLUMNS)
    except (ValueError, UnicodeDecodeError) as fault:
        raise _first_fault(file, above, str(fault)) from None
    if len(head) != 3 + head[2]:
        raise _fault(file, above, f"it lists {len(head) - 3} accepting states, and its third line says {head[2]}")
    S, A = head[:2]
    require_memory(16.0 * S * A, "path", f"{path}, with {S:,} states and {A:,} actions,")
    if float(S) * A * S >= 2.0**62:
        raise _fault(file, 2, f"{S:,} states and {A:,} actions are too many")
    accepting = np.array([min(place, S) for place in head[3:]], dtype=np.int64)
    if accepting.size and accepting.max() >= S:
        place = int(np.argmax(accepting >= S))
        raise _fault(file, 4 + place, f"accepting state {head[3 + place]} is not among the {S} states")
    _check(file, above, columns, rows["more"].notna().to_numpy(), (S, A, S))
    state, action, target = (column.astype(np.int64) for column in columns[:3])
    lines = IntervalLines(state * A + action, target, columns[3], columns[4])
    keys = lines.pair * S + target
    order = np.argsort(keys, kind="stable")
    twice = np.flatnonzero(np.diff(keys[order]) == 0)
    if twice.size:
        row = int(order[twice + 1].min())
        raise _fault(
            file, _line(file, above, row), f"the transition {state[row]} {action[row]} {target[row]} is there twice"
        )
    return BmdpFile((S, A), accepting, lines, _beside(path, lines.pair.size))


# -- known models ------------------------------------------------------------------------------------------


def known_bmdp(path: PathLike, discount: float | None, reward: ArrayLike | None) -> Arguments:
    """Read a file without intervals; return the arguments of ``MDP.of_steps``."""
    file = read_bmdp(path)
    (S, A), lines, known = file.shape, file.lines, file.described
    wide = lines.lower != lines.upper
    if wide.any():
        row = int(np.argmax(wide))
        message = (
            f"{path} has intervals: {lines.lower[row]!r} to {lines.upper[row]!r} for the transition "
            f"{lines.pair[row] // A} {lines.pair[row] % A} {lines.target[row]}; read it with IntervalMDP.from_bmdp"
        )
        raise ModelError(message, code="intervals", path=str(path), value=float(lines.lower[row]))
    earned = np.zeros(lines.pair.size)
    ends, paid = np.zeros(S, dtype=np.bool_), np.zeros(S)
    if reward is not None:
        given = number_array(reward, "reward", error=ModelError)
        if given.ndim == 1:
            given = np.repeat(given[:, np.newaxis], A, axis=1)
        require_shape(given, "reward", (S, A), "[S, A]", error=ModelError)
        earned = given.reshape(-1)[lines.pair]
    elif known:
        earned = known["reward"]
    if reward is None and known.get("terminal", ()) is not None:
        ends[file.accepting] = True
        paid[file.accepting] = known.get("terminal", 1.0)
    kept = ~ends[lines.pair // A]
    last = np.flatnonzero(ends)
    state = np.append((lines.pair // A)[kept], last)
    steps = Steps(
        state,
        np.append((lines.pair % A)[kept], np.zeros(last.size, np.int64)),
        np.append(lines.target[kept], last),
        np.append(lines.lower[kept], np.ones(last.size)),
        np.append(earned[kept], paid[last]),
        ends[state],
    )
    names = {"states": known.get("states"), "actions": known.get("actions")}
    # the same for all lines of a pair, and not a rounded mean of them, where rewards belong to pairs
    means, mine = np.zeros(S * A), steps.state * A + steps.action
    means[mine] = steps.reward
    if (means[mine] != steps.reward).any():
        means = pair_sums(mine, steps.probability * steps.reward, (S, A)).reshape(-1)
    return {
        "steps": steps,
        "shape": (S, A),
        "reward": means.reshape(S, A),
        "discount": chosen_discount(discount, known, str(path)),
        **names,
    }


def write_known_bmdp(path: PathLike, model: TabularModel, outcomes: Outcomes) -> None:
    """Write a known model."""
    pair = np.repeat(np.arange(model.admissible.size), np.diff(outcomes.first))
    terminal = model.terminal[pair // model.n_actions]
    if ((outcomes.next_state == END) & ~terminal).any():
        message = "path: steps that end the process have no place in a file of bmdp-tool, but in terminal states"
        raise ParameterError(message, code="unwritable-step", argument="path")
    first = terminal & np.append(True, np.diff(pair // model.n_actions) != 0)  # one line for a terminal state
    kept = ~terminal | first
    pair, chance, target = pair[kept], outcomes.chance[kept], outcomes.next_state[kept].astype(np.int64)
    lines = IntervalLines(pair, np.where(target == END, pair // model.n_actions, target), chance, chance)
    listed = np.flatnonzero(model.terminal)
    write_bmdp(path, model, lines, listed, outcomes.reward[kept], model.terminal_value[listed])


# -- faults ------------------------------------------------------------------------------------------------


def _check(file: Path, above: int, columns: list[Any], more: Any, sizes: tuple[int, int, int]) -> None:
    """Raise for the first line that is no transition."""
    lower, upper = columns[3:]
    wrong = [(more, "has more than five numbers")]
    wrong += [(np.isnan(column), f"has no {name}") for column, name in zip(columns, COLUMNS, strict=True)]
    for column, name, size in zip(columns, COLUMNS, sizes, strict=False):
        outside = ~((column >= 0.0) & (column < size) & (column == np.floor(column)))
        wrong.append((outside, f"has a {name} that is no number from 0 to {size - 1}"))
    wrong.append((~((lower >= 0.0) & (lower <= upper) & (upper <= 1.0)), "needs 0 <= lower <= upper <= 1"))
    faults = [(int(np.argmax(bad)), text) for bad, text in wrong if bad.any()]
    if faults:
        row = min(place for place, _ in faults)
        text = next(text for place, text in faults if place == row)
        raise _fault(file, _line(file, above, row), f"it {text}")


def _beside(path: PathLike, n_lines: int) -> dict[str, Any]:
    """Return what the second file says; nothing if there is none, or it is not ours."""
    side = _side(path)
    if not side.exists():
        return {}
    try:
        content = json.loads(side.read_bytes())
        found = read_description(content, str(side))
        if found:
            reward = np.array(content["reward"], dtype=np.float64)
            values = None if content["terminal"] is None else np.array(content["terminal"], dtype=np.float64)
            if reward.shape != (n_lines,):
                raise ValueError(f"it has {reward.size} rewards for {n_lines} transitions")
            found |= {"reward": reward, "terminal": values}
    except (ValueError, KeyError, TypeError, RecursionError) as fault:
        raise ModelError(f"{side} cannot be read: {fault}", code="wrong-format", path=str(side)) from None
    return found


def _side(path: PathLike) -> Path:
    given = Path(path)
    return given.with_name(given.name + ".json")


def _whole(text: str, line: int, file: Path) -> int:
    if not text.isdecimal():
        raise _fault(file, line, f"expected a whole number, got {text!r}")
    return int(text)


def _line(file: Path, above: int, row: int) -> int:
    """Return the number of the line of a transition: empty lines count, and are no transitions."""
    with open(file, encoding="utf-8") as content:
        for number, line in enumerate(content, 1):
            if number > above and line.strip():
                if row == 0:
                    return number
                row -= 1
    return above


def _first_fault(file: Path, above: int, text: str) -> ModelError:
    """Return the error of the first line that does not hold five numbers."""
    with open(file, encoding="utf-8", errors="replace") as content:
        for number, line in enumerate(content, 1):
            if number > above and (words := line.split()):
                try:
                    if len(list(map(float, words))) == len(COLUMNS):
                        continue
                except ValueError:
                    pass
                return _fault(file, number, f"expected five numbers, got {line.strip()[:80]!r}")
    return _fault(file, above, text)


def _fault(file: Path, line: int, text: str) -> ModelError:
    return ModelError(f"{file}, line {line}: {text}", code="wrong-format", path=str(file), line=line)
