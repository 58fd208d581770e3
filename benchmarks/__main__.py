"""Run the benchmarks: ``make bench``, or ``python -m benchmarks core`` for some of them."""

from __future__ import annotations

import importlib
import os
import sys

SUITES = ("core", "bandit", "rl", "analysis", "value_of_data", "journal", "shared", "off_policy", "bandit_peers")

if __name__ == "__main__":
    # one thread for everybody, before anything loads a BLAS
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    from benchmarks._timing import show

    failed = 0
    for suite in [name for name in sys.argv[1:] if not name.startswith("--")] or SUITES:
        rows = importlib.import_module(f"benchmarks.{suite}").run()
        show(suite, rows)
        failed += sum(not row.met for row in rows)
    print(f"\n{failed} figure{'s' * (failed != 1)} not met" if failed else "\nall figures met")
    sys.exit(failed > 0)
