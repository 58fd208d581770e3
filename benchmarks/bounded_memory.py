"""Peak memory of simulations that keep summaries: ``python -m benchmarks.bounded_memory --keep FOLDER``.

Ten agents on RiverSwim, one episode of one step, with 10^4, 10^5 and 10^6 replications, each in a process of its own.
The memory of a run must not grow with the number of replications beyond one block of 10,000; the time does. What was
measured is kept in FOLDER, so that a command that was killed goes on where it was. When all sizes are there, the table
goes into ``docs/reference/simulation.md``. The command fails if the largest run took 5% more memory than the smallest.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from prudent._support.output import write

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "simulation.md"
MARK = re.compile(r"(<!-- bounded memory -->\n).*?(<!-- end -->)", flags=re.DOTALL)
SIZES = (10_000, 100_000, 1_000_000)
AGENTS = 10
RUN = """
import json, resource, sys, time
import prudent as pr
agents = {f"ts {i}": pr.agents.ts_rl() for i in range(%d)}
options = dict(episodes=1, episode_length=1, keep="summary", rng=1)
pr.simulate(pr.envs.river_swim(4), agents, replications=20, **options)
began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
runs = pr.simulate(pr.envs.river_swim(4), agents, replications=int(sys.argv[1]), **options)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"replications": int(runs.replications[0]), "seconds": time.process_time() - began,
                  "before_mib": before / 1024, "peak_mib": after / 1024}))
"""


def measured(replications: int, keep: Path) -> dict[str, Any]:
    """Return the seconds and the peak memory of a run in a process of its own, or what was measured before."""
    file = keep / f"bounded-memory-{replications}.json"
    if not file.exists():
        command = [sys.executable, "-c", RUN % AGENTS, str(replications)]
        write(file, subprocess.run(command, capture_output=True, check=True).stdout)
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as a table of the page."""
    lines = [f"| replications of {AGENTS} agents | peak memory | before the run | CPU time |", "|---|---|---|---|"]
    for row in rows:
        memory = f"{row['peak_mib']:.0f} MiB | {row['before_mib']:.0f} MiB"
        lines.append(f"| {row['replications']:,} | {memory} | {row['seconds']:.0f} s |")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Measure, print a line for each size, and put the table into the page; return 1 if memory grew."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bounded_memory", description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, required=True, help="folder for what is measured")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="numbers of replications")
    asked = parser.parse_args(arguments)
    keep: Path = asked.keep
    keep.mkdir(parents=True, exist_ok=True)
    rows = []
    for size in asked.sizes:
        rows.append(measured(size, keep))
        print(table(rows[-1:]).splitlines()[-1], flush=True)
    PAGE.write_text(MARK.sub(lambda mark: mark[1] + table(rows) + "\n" + mark[2], PAGE.read_text()), encoding="utf-8")
    return int(rows[-1]["peak_mib"] > 1.05 * rows[0]["peak_mib"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
