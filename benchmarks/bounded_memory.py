"""Peak memory of simulations that keep summaries: ``python -m benchmarks.bounded_memory 10000 100000``.

Ten agents on RiverSwim, ten episodes of one step, each number of replications in a process of its own. The memory of a
run must not grow with the number of replications: the time does, and a line through it says what 10^6 would take.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

AGENTS = 10
RUN = """
import json, resource, sys, time
import prudent as pr
agents = {f"ts {i}": pr.agents.ts_rl() for i in range(%d)}
options = dict(episodes=10, episode_length=1, keep="summary", rng=1)
pr.simulate(pr.envs.river_swim(4), agents, replications=20, **options)
began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
runs = pr.simulate(pr.envs.river_swim(4), agents, replications=int(sys.argv[1]), **options)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"replications": int(runs.replications[0]), "seconds": time.process_time() - began,
                  "before_mib": before / 1024, "peak_mib": after / 1024}))
"""


def measured(replications: int) -> dict[str, Any]:
    """Return the seconds and the peak memory of a run in a process of its own."""
    command = [sys.executable, "-c", RUN % AGENTS, str(replications)]
    found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


def main(arguments: list[str]) -> int:
    """Measure the numbers of replications that are named, and print a line for each."""
    rows = [measured(int(each)) for each in arguments or ["10000", "100000"]]
    for row in rows:
        print(
            f"{row['replications']:>9,} replications x {AGENTS} agents: peak {row['peak_mib']:.0f} MiB "
            f"({row['before_mib']:.0f} before), {row['seconds']:.1f} s"
        )
    if len(rows) > 1:
        each = (rows[-1]["seconds"] - rows[0]["seconds"]) / (rows[-1]["replications"] - rows[0]["replications"])
        whole = rows[-1]["seconds"] + each * (1e6 - rows[-1]["replications"])
        print(f"1,000,000 replications would take about {whole:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
