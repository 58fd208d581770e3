"""Public calls with arguments that nobody tuned: ``_fuzz.py SEED BEGIN END [--workers N] [--faults FILE]``.

A call takes good arguments of an entry point (``_fuzz_calls``) and replaces some of them by strange ones: numbers from
1e-320 to 1e308, NaN, strings, None, arrays of wrong shape. It must end in an exception or a warning of ours, or in a
result that is finite and obeys the law of its entry point.

A call is given by the seed and its number, whichever process makes it, so ``_fuzz.py SEED 4711 4712`` repeats one.
``--faults FILE`` writes a line of JSON for each fault, ``--minutes M`` begins no calls after that time, and ``--only
WORD,WORD`` makes only calls whose names contain one of the words (call 7 is then another one). A process that dies or
hangs is replaced; its calls are made once more one by one, and the call at fault is named.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np

from prudent.errors import PrudentError, PrudentWarning

STRANGE = (
    *(0.0, 1.0, -1.0, 0.5, 1e-320, 1e-154, 1e-9, 1e9, 1e60, 1e154, 1e300, 1.7e308, -1e308),
    *(float("nan"), float("inf"), -float("inf"), 0, 1, -1, 3, 10**14, 10**30, -(10**30), True, None),
    *("", "a", "1", "0.5", "nan", "\0", b"x", (), [], {}, {1}, [1], [1, 2], [None], ["a", 1], [[1.0, 2.0]]),
    *([[1.0], [1.0, 2.0]], object(), 1j, np.datetime64("2020-01-01"), np.array("text"), np.array([], dtype=object)),
)
CHUNK = 500  # calls that a process makes at a time
LONGEST = 10.0  # seconds of processor time that a call may take
COMPILING = 400.0  # seconds more that the first calls of a process may take, if kernels are compiled
SIZES = (0, 1, 2, -1, 10**14, 10**30, 0.5, 2.0, 1e14, float("nan"), float("inf"), True, None, "3", [2], 1j)


class Call(NamedTuple):
    """An entry point, its good arguments, what its result must obey, and how often it is called."""

    function: Callable[..., Any]
    good: Callable[[np.random.Generator], dict[str, Any]]
    law: Callable[[dict[str, Any], Any], str]  # what is wrong with a result, or ""
    share: float = 1.0
    sizes: tuple[str, ...] = ()  # arguments that say how much work there is


def number(rng: np.random.Generator) -> float:
    """Return a number of any size and sign."""
    return float(10.0 ** rng.uniform(-320, 308)) * float(rng.choice([-1.0, 1.0]))


def strange(rng: np.random.Generator, good: Any) -> Any:
    """Return something else in place of a good argument."""
    kind = rng.integers(6)
    if isinstance(good, list) and good and isinstance(good[0], str | dict | tuple):
        return [good[0], STRANGE[rng.integers(len(STRANGE))], *good[2:]] if kind > 2 else good[:-1]
    array = isinstance(good, np.ndarray) or (isinstance(good, list) and bool(good))
    if kind == 0 or (isinstance(good, str) and kind < 5):
        return STRANGE[rng.integers(len(STRANGE))]
    if kind == 1:
        return number(rng)
    if kind == 2 and array:  # of the same shape, with a strange entry
        changed = np.array(good, dtype=float)
        changed.reshape(-1)[rng.integers(changed.size)] = rng.choice([np.nan, np.inf, number(rng), -1.0, 0.0])
        return changed
    if kind == 3 and array:
        with np.errstate(over="ignore"):
            return np.asarray(good, dtype=float) * abs(number(rng))
    if kind == 4 and array:
        return np.full(np.shape(good), number(rng))
    if kind == 5 and isinstance(good, float):  # near by
        return float(np.nextafter(good, rng.choice([-np.inf, np.inf])))
    shape = tuple(rng.integers(0, 4, rng.integers(0, 4)).tolist())
    return rng.standard_normal(shape)


def drawn(calls: dict[str, Call], seed: int, index: int) -> tuple[str, dict[str, Any], np.random.Generator]:
    """Return an entry point and its arguments; the same for the same numbers."""
    rng = np.random.default_rng([seed, index])
    chances = np.array([call.share for call in calls.values()])
    name = list(calls)[rng.choice(chances.size, p=chances / chances.sum())]
    given = calls[name].good(rng)
    for key in given:
        if rng.random() < 0.35:
            lot = SIZES[rng.integers(len(SIZES))]
            given[key] = lot if key in calls[name].sizes else strange(rng, given[key])
    return name, given, rng


def one_call(calls: dict[str, Call], seed: int, index: int, *, alone: bool = True) -> str | None:
    """Make one call; return what is wrong with how it ended, or None.

    Where ``alone``, half of the calls go on after a warning of ours, and any other warning is wrong. Filters of
    warnings belong to the process, so that threads leave them as they are.
    """
    name, given, _ = drawn(calls, seed, index)
    shown = f"call {index}: {name}({' '.join(str(given).split())[:900]})"
    try:
        if alone and index % 2:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found = calls[name].function(**given)
            foreign = [str(each.message) for each in caught if not isinstance(each.message, PrudentWarning)]
            if foreign:
                return f"{shown} warned: {foreign[0]}"
            if caught:
                return None
        else:
            found = calls[name].function(**given)
    except (PrudentError, PrudentWarning, ModuleNotFoundError):  # of optional packages
        return None
    except Exception as error:  # anything else is a fault of ours
        return f"{shown} raised {type(error).__name__}: {error}"
    try:
        with warnings.catch_warnings() if alone else _nothing():
            if alone:
                warnings.simplefilter("ignore")
            wrong = calls[name].law(given, found)
    except Exception as error:
        wrong = f"its law raised {type(error).__name__}: {error}"
    return f"{shown} returned {str(found)[:300]}: {wrong}" if wrong else None


class _nothing:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def faults(calls: dict[str, Call], seed: int, begin: int, end: int) -> list[str]:
    """Return what is wrong with the calls of a range; warnings are errors in half of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = (one_call(calls, seed, index) for index in range(begin, end))
        return [fault for fault in found if fault is not None]


class Fault(NamedTuple):
    """What is wrong with one call."""

    seed: int
    call: int
    text: str
    only: str

    def line(self) -> str:
        """Return a line of JSON, with the command that repeats the call."""
        repeat = f"python tests/support/_fuzz.py {self.seed} {self.call} {self.call + 1}"
        repeat += f" --only '{self.only}'" if self.only else ""
        return json.dumps({"seed": self.seed, "call": self.call, "fault": self.text, "repeat": repeat})


def chunk(seed: int, begin: int, end: int, only: str = "", *, cold: bool = False) -> list[Fault]:
    """Make a range of calls; return what is wrong, calls that take too long among it unless kernels are compiled."""
    from _fuzz_more import CALLS

    calls = {name: call for name, call in CALLS.items() if any(word in name for word in only.split(","))}
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for index in range(begin, end):
            clock = time.process_time()
            fault = one_call(calls, seed, index)
            spent = time.process_time() - clock
            if fault is None and spent > LONGEST and not cold:
                fault = f"call {index}: {drawn(calls, seed, index)[0]} took {spent:.0f} s"
            if fault is not None:
                found.append(Fault(seed, index, fault, only))
    return found


def _child(pipe: Any) -> None:
    cold = True
    while (asked := pipe.recv()) is not None:
        pipe.send(chunk(*asked, cold=cold))
        cold = False


class Worker:
    """A process that makes calls; it may die or hang without harm to the others."""

    def __init__(self, patience: float) -> None:
        self.pipe, theirs = get_context("spawn").Pipe()
        self.process = get_context("spawn").Process(target=_child, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.asked, self.since, self.patience = (0, 0, 0, ""), 0.0, patience

    def ask(self, seed: int, begin: int, end: int, only: str) -> None:
        """Begin a range of calls."""
        self.asked, self.since = (seed, begin, end, only), time.monotonic()
        self.pipe.send(self.asked)

    def answer(self, limit: float) -> list[Fault] | None:
        """Return the faults of the range, [] with ``process`` ended if it died or hangs, None while it goes on."""
        try:
            if self.pipe.poll(0.0):
                self.patience = 0.0
                return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            return []
        if time.monotonic() - self.since > limit + self.patience:
            self.process.kill()
            self.process.join()
            return []
        return None


def main(seed: int, begin: int, end: int, workers: int, faults_to: str, minutes: float, only: str) -> int:
    """Make a range of calls, print what is wrong and how far it has come, and return the number of faults."""
    clock, made, wrong, said = time.monotonic(), 0, 0, 0
    waiting = [(first, min(end, first + CHUNK)) for first in range(begin, end, CHUNK)][::-1]
    print(f"seed {seed}: calls {begin} to {end} in {workers} processes", flush=True)
    crew: list[Worker] = [Worker(COMPILING) for _ in range(min(workers, len(waiting)))]
    idle, busy = list(crew), []
    while busy or (waiting and time.monotonic() - clock < 60.0 * minutes):
        while idle and waiting and time.monotonic() - clock < 60.0 * minutes:
            idle[-1].ask(seed, *waiting.pop(), only)
            busy.append(idle.pop())
        time.sleep(0.02)
        for worker in list(busy):
            first, last = worker.asked[1:3]
            found = worker.answer(60.0)
            if found is None:
                continue
            busy.remove(worker)
            if worker.process.is_alive():
                idle.append(worker)
                made += last - first
            else:
                code, size = worker.process.exitcode, (last - first + 9) // 10
                if last - first == 1:
                    text = f"call {first}: the process ended with {code} or hung"
                    found, made = [Fault(seed, first, text, only)], made + 1
                else:
                    print(f"calls {first} to {last}: the process ended with {code} or hung", flush=True)
                    waiting += [(part, min(last, part + size)) for part in range(first, last, size)]
                idle.append(Worker(60.0))
            for fault in found:
                wrong += 1
                print(fault.text, flush=True)
                if faults_to:
                    with open(faults_to, "a") as file:
                        print(fault.line(), file=file)
        if made // 10_000 > said or not (busy or waiting):
            said = made // 10_000
            print(f"seed {seed}: {made} calls, {wrong} faults, {time.monotonic() - clock:.0f} s", flush=True)
    for worker in idle:
        worker.pipe.send(None)
        worker.process.join()
    print(f"seed {seed}: {made} of {end - begin} calls, {wrong} faults, {time.monotonic() - clock:.0f} s in all")
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="make public calls with strange arguments")
    for number in ("seed", "begin", "end"):
        parser.add_argument(number, type=int)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--faults", dest="faults_to", default="", help="file to which a line of JSON is added for each fault"
    )
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no calls after this time")
    parser.add_argument("--only", default="", help="words, one of which is in the name of a call")
    raise SystemExit(min(1, main(**vars(parser.parse_args()))))
