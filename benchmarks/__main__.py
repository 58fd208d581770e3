"""Run the benchmarks: ``make bench``, or ``python -m benchmarks core bandit.peers`` for some of them.

- ``python -m benchmarks`` runs what takes under 15 minutes on two quiet cores, and names what became slower by more
  than 20% since ``benchmarks/table.json``, relative to what it is compared with in the same run
- ``python -m benchmarks --list`` says what there is; pieces that take long run when they are named
- ``--write`` puts what was measured into ``benchmarks/table.json``
- ``python -m benchmarks states --workers N`` is a study of states made from numbers, see ``benchmarks/states.py``
- ``python -m benchmarks coverage --workers 16`` simulates logs and says how often intervals contain the truth
- ``python -m benchmarks off_policy_episodes --workers 2`` does the same for off-policy evaluation of episodes
- ``python -m benchmarks revenue --runs 40 --workers 16`` compares beliefs about revenue, see ``benchmarks/revenue.py``
- ``--page docs/benchmarks.md`` writes the page from the table, and rows of other pages that quote it; runs nothing
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Run what the arguments say; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="suites or pieces; without any, those that run by default")
    parser.add_argument("--list", action="store_true", help="say what there is, and what it takes")
    parser.add_argument("--write", action="store_true", help="put the results into the table")
    parser.add_argument("--page", type=Path, help="write this page from the table; runs nothing but coverage")
    parser.add_argument("--table", type=Path, help="the table to compare with, and to write")
    parser.add_argument("--small", action="store_true", help="gpu: without the largest problems")
    parser.add_argument("--workers", type=int, default=1, help="coverage: number of processes")
    parser.add_argument("--logs", type=int, default=2000, help="coverage: logs simulated in each setting")
    parser.add_argument("--keep", type=Path, help="coverage: folder of finished chunks, from which a run goes on")
    if arguments[:1] == ["states"]:  # a study with options of its own
        os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"
        from benchmarks import states

        return states.main(arguments[1:])
    if arguments[:1] == ["off_policy_episodes"]:
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
            os.environ[name] = "1"
        from benchmarks import off_policy_episodes

        return off_policy_episodes.main(arguments[1:])
    if arguments[:1] == ["revenue"] and len(arguments) > 1:  # with options of its own
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
            os.environ[name] = "1"
        from benchmarks import revenue

        return revenue.main(arguments[1:])
    asked = parser.parse_args(arguments)

    # one thread for everybody, before anything loads a BLAS
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    from benchmarks import _page, _quotes, _run, _table, coverage

    if asked.names == ["coverage"]:
        return coverage.main(asked.workers, asked.logs, asked.page, asked.keep)
    table = asked.table or _table.COMMITTED
    if asked.list:
        print(_run.listing())
        return 0
    if asked.page:
        _page.write(_table.load(table), asked.page)
        if table == _table.COMMITTED:
            _quotes.write(_table.load(table))
        return 0
    return _run.run(asked.names, table, write=asked.write)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
