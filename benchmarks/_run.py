"""What is run, in which order and how long: every piece on its own, so that one that fails does not stop the rest."""

from __future__ import annotations

import importlib
import math
import resource
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from . import _table
from ._table import Slower, Table
from ._timing import QUIET, Row, absent, calibration, number, share_of_processor, show

BUDGET = 15 * 60.0  # seconds on two quiet cores

# Pieces in the order in which they run, and the seconds they take. The one that measures the peak of this process comes
# before those that need much memory for other reasons, and what loads JAX comes last.
DEFAULT: dict[str, float] = {
    "growth": 45.0,
    "core.exact_rows": 6.0,
    "core.sampled": 14.0,
    "core.exact_lake": 2.0,
    "core.noisy_rows": 4.0,
    "core.mass_one": 2.0,
    "core.inner_solver": 2.0,
    "core.start_up": 30.0,
    "first_contact": 120.0,
    "core.large": 85.0,
    "limits": 10.0,
    "bandit.peers": 12.0,
    "bandit.latency": 2.0,
    "bandit.simulation": 3.0,
    "bandit.sizes": 4.0,
    "bandit.batch": 3.0,
    "shared.items": 2.0,
    "shared.clicks": 3.0,
    "journal": 40.0,
    "features": 6.0,
    "off_policy": 5.0,
    "rl.in_a_loop": 3.0,
    "rl.own_agent": 1.0,
    "rl.sweeps": 18.0,
    "rl.thompson": 8.0,
    "rl.threads": 15.0,
    "analysis.returns": 10.0,
    "analysis.long_log": 40.0,
    "value_of_data": 35.0,
    "posterior_risk.small": 45.0,
    "posterior_risk.large": 60.0,
    "learning": 15.0,
    "robust": 24.0,
    "average": 30.0,
    "core.plain": 90.0,
}
BY_NAME: dict[str, float] = {
    "late_rewards": 90.0,
    "revenue": 60.0,
    "bandit_peers": 1800.0,
    "bandit_check": 180.0,
    "cluster": 600.0,
    "paper": 300.0,
    "gpu": 300.0,
}


def listing() -> str:
    """Return what there is, and what it takes."""
    lines = [f"by default, {sum(DEFAULT.values()):.0f} s of {BUDGET:.0f} s on two quiet cores"]
    lines += [f"  {name:20}{seconds:6.0f} s" for name, seconds in DEFAULT.items()]
    lines += ["when it is named"]
    lines += [f"  {name:20}{seconds:6.0f} s" for name, seconds in BY_NAME.items()]
    return "\n".join(lines)


def chosen(names: Iterable[str]) -> list[str]:
    """Return the pieces that names ask for: a piece, or a suite with all of its pieces.

    >>> chosen(["journal", "rl.threads"])
    ['journal', 'rl.threads']
    """
    everything = [*DEFAULT, *BY_NAME]
    found: list[str] = []
    for name in names:
        its = [piece for piece in everything if piece == name or piece.startswith(f"{name}.")]
        if not its:
            raise SystemExit(f"no benchmark is called {name!r}; there are {', '.join(everything)}")
        found += its
    return found or list(DEFAULT)


def work_of(piece: str) -> Callable[[], list[Any]]:
    """Return the function of a piece."""
    suite, _, part = piece.partition(".")
    module = importlib.import_module(f"benchmarks.{suite}")
    return module.PIECES[part] if part else module.run


def measure(piece: str, work: Callable[[], list[Any]] | None = None) -> dict[str, Any]:
    """Run one piece; if it raises, its entry has one row that says so."""
    share, unit = share_of_processor(), calibration()
    began, used = time.perf_counter(), _processor()
    items: list[Any]
    try:
        items = (work or work_of(piece))()
    except Exception as error:  # one piece must not stop the rest
        items = [absent(piece, error)]
    seconds = time.perf_counter() - began
    used = _processor() - used
    entry = _table.piece_of(items, seconds, 0.5 * (unit + calibration()))
    return {**entry, "processor": used, "share": min(share, share_of_processor())}


def unmeasured(found: Table) -> dict[str, float]:
    """Return the pieces that ran while other programs took the processors, and the share that was left for them."""
    return {name: piece["share"] for name, piece in found["pieces"].items() if piece.get("share", 1.0) < QUIET}


def _processor() -> float:
    """Return the seconds that this process and its children have had on processors."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def run(names: list[str], path: Path, write: bool = False) -> int:
    """Run pieces, compare them with the table and show what was found; return 1 if something is not as it should be."""
    before = _table.load(path)
    found = _table.empty()
    pieces = chosen(names)
    began = time.perf_counter()
    for i, piece in enumerate(pieces, 1):
        expected = (DEFAULT | BY_NAME)[piece]
        _say(f"[{i}/{len(pieces)}] {piece} (some {expected:.0f} s) ...")
        found["pieces"][piece] = measure(piece)
        now = found["pieces"][piece]
        took = f"{now['seconds']:.1f} s, on processors {now['processor']:.1f} s"
        _say(f"    took {took}; {time.perf_counter() - began:.0f} s in all")
        display(piece, _table.items_of(found["pieces"][piece]))
    worse = confirmed(before, found, BUDGET - (time.perf_counter() - began))
    busy = unmeasured(found)
    passed = time.perf_counter() - began
    print("\nseconds: " + ", ".join(f"{name} {piece['seconds']:.0f}" for name, piece in found["pieces"].items()))
    print(f"{passed:.0f} s in all" + (f", budget {BUDGET:.0f} s" if not names else ""))
    of_piece = {name: _table.items_of(piece) for name, piece in found["pieces"].items()}
    rows = [row for items in of_piece.values() for row in items if isinstance(row, Row)]
    late = [row for name in busy for row in of_piece[name] if isinstance(row, Row) and row.unit == "s"]
    unmet = [row.name.strip() for row in rows if not row.met and row not in late]
    gone = [f"{row.name.strip()} ({row.missing})" for row in rows if row.missing]
    for title, lines in (
        ("not available", gone),
        ("figures not met", unmet),
        ("could not measure, other programs took the processors", [f"{n} ({s:.0%} was left)" for n, s in busy.items()]),
        ("slower by more than 20% than in the table", [str(one) for one in worse]),
    ):
        print(f"\n{title}: " + ("none" if not lines else ""))
        for line in lines:
            print(f"  {line}")
    if write:
        quiet = {name: piece for name, piece in found["pieces"].items() if name not in busy}
        table = _table.merged(before, {**found, "pieces": quiet}, whole=not names and not busy)
        known = {name: piece for name, piece in table["pieces"].items() if name in DEFAULT | BY_NAME}
        _table.save({**table, "pieces": known}, path)
        print(f"\nwritten to {path}")
    return int(bool(unmet or worse))


def confirmed(before: Table, found: Table, left: float) -> list[Slower]:
    """Return what is slower, the pieces in question run once more if there is time: it has to be slower twice."""
    busy = unmeasured(found)
    worse = [one for one in _table.slower(before, found) if one.piece not in busy]
    for piece in dict.fromkeys(one.piece for one in worse):
        took = found["pieces"][piece]["seconds"]
        if took > left:
            _say(f"{piece} looks slower; no time to run it again")
            continue
        _say(f"{piece} looks slower: once more ({took:.0f} s)")
        again = measure(piece)
        left -= again["seconds"]
        if unmeasured({**found, "pieces": {piece: again}}):
            found["pieces"][piece] = again
            worse = [one for one in worse if one.piece != piece]
            continue
        still = {one.name for one in _table.slower(before, {**found, "pieces": {piece: again}})}
        worse = [one for one in worse if one.piece != piece or one.name in still]
    return worse


def display(piece: str, items: list[Any]) -> None:
    """Print the items of a piece."""
    if isinstance(items[0], Row):
        show(piece, items)
    elif isinstance(items[0], _table.Fit):
        print(f"\n{piece}: exponents of time and memory")
        for fit in items:
            sizes = f"{fit.sizes[0]:,} to {fit.sizes[-1]:,}"
            print(
                f"{fit.job:44} {fit.dimension:13} {sizes:20} time {exponent(fit.time_exponent, fit.time_error):14} "
                f"memory {exponent(fit.memory_exponent, fit.memory_error):14} expected {fit.expected}"
            )
    else:
        print(f"\n{piece}: against the machine's measured rates")
        for limit in items:
            times = f"{number(limit.seconds, 's')} of which {number(limit.least, 's')}"
            print(f"{limit.kernel:58} {100 * limit.fraction:5.0f}%  {times}: {limit.work}, {limit.rate}  {limit.note}")
    sys.stdout.flush()


def exponent(value: float, error: float) -> str:
    """Return an exponent with its standard error.

    >>> exponent(1.0234, 0.031)
    '1.02 ± 0.03'
    """
    return "-" if math.isnan(value) else f"{value:.2f} ± {error:.2f}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
