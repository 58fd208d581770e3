"""The first call after an installation: processor time of a new process, with nothing compiled on this machine.

The wheel with compiled kernels (``make wheel``) is built and installed into an environment of its own. Then every entry
point runs in three new processes, beside one that only imports pandas, SciPy and matplotlib. Files that Numba
writes are counted and removed between two runs: there should be none. The wheel without kernels follows, one run of
each. ``prudent compile`` compiles everything from nothing on the way; it is timed by the clock, on all cores.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from pathlib import Path

from ._timing import Row

ROOT = Path(__file__).resolve().parents[1]
RUNS = 3
LIMIT = 4.0  # times the imports; the page may take twice that
AHEAD = 40.0  # seconds for all kernels, on two cores
IMPORTS = "import pandas, scipy.stats, matplotlib.pyplot"
_START = "import prudent as pr\n"
_EXACT = (
    _START
    + """model = pr.UncertainMDP.direct([[0.0, 0.1], [1.0, 0.0]], discount=0.9)
posterior = pr.DirichletPosterior.from_log(model, [(0, 0, 1), (1, 1, 0)])
pr.BayesianRiskMDP(model, posterior, alpha=0.9).solve().value
"""
)
CALLS: dict[str, str] = {
    "exact Bayesian risk, two states": _EXACT,
    "known model, 50 states": _START + "pr.solve(pr.envs.random_model(50, 3, branching=3, rng=0).mdp()).value",
    "decision of a bandit and its propensity": _START
    + "pr.LinearBandit(['red', 'blue'], dim=3, rng=1).select([1.0, 2.0, 3.0]).propensity",
    "slate of two of three items": _START
    + "pr.SharedLinearBandit(3, rng=1).select([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], top=2).propensity",
}
LOG = """state,action,next_state,reward,count
fair,wait,fair,0,40
fair,wait,good,0,30
fair,wait,died,0,4
fair,treat,good,-1,12
fair,treat,fair,-1,4
good,wait,home,0,50
good,wait,fair,0,20
good,treat,home,-1,10
"""
PAGE = ("-m", "prudent", "solve", "log.csv", "--discount", "0.9", "--terminal", "home=10,died=-10", "--out", "plan")


def _processor_seconds(python: Path, *arguments: str, folder: Path) -> float:
    """Return user and system seconds of one run of Python and of its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NUMBA_"))}
    done = subprocess.run([str(python), *arguments], cwd=folder, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{arguments}\n{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _forget(package: Path) -> int:
    """Remove the kernels that calls have left beside the source; return how many there were."""
    compiled = list(package.rglob("__pycache__/*.nb?"))
    for file in compiled:
        file.unlink()
    return sum(file.suffix == ".nbi" for file in compiled)


def _install(folder: Path, kernels: Path | None) -> tuple[Path, Path]:
    """Return the Python of a new environment with a new wheel in it, and the folder of the package."""
    chosen = {} if kernels is None else {"PRUDENT_KERNELS": str(kernels)}
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder / "dist"), str(ROOT)]
    if subprocess.run([sys.executable, "-c", "import hatchling"], capture_output=True, check=False).returncode:
        build.remove("--no-isolation")
    subprocess.run(build, env=os.environ | chosen, check=True, capture_output=True)
    venv.create(folder / "env", with_pip=False)
    home = folder / "env" / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    (wheel,) = (folder / "dist").glob("*.whl")
    shutil.unpack_archive(wheel, home, format="zip")
    (home / "others.pth").write_text(sysconfig.get_path("purelib"))  # what the wheel needs
    return folder / "env" / "bin" / "python", home / "prudent"


def run() -> list[Row]:
    """Measure all entry points with the wheel that has kernels and with the one that has none."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "log.csv").write_text(LOG)
        kernels = folder / "kernels"
        script = [sys.executable, str(ROOT / "release" / "kernels.py"), str(kernels)]
        began = time.perf_counter()
        subprocess.run(script, check=True, capture_output=True)
        ahead = time.perf_counter() - began
        (folder / "with").mkdir()
        python, package = _install(folder / "with", kernels)
        calls = {name: ("-c", code) for name, code in CALLS.items()} | {"`prudent solve` of a small log": PAGE}
        took: dict[str, list[float]] = {call: [] for call in ("imports", *calls)}
        left: dict[str, int] = dict.fromkeys(calls, 0)
        for _ in range(RUNS):
            took["imports"].append(_processor_seconds(python, "-c", IMPORTS, folder=folder))
            for call, arguments in calls.items():
                took[call].append(_processor_seconds(python, *arguments, folder=folder))
                left[call] = max(left[call], _forget(package))
        imports = statistics.median(took["imports"])
        found = []
        for call in calls:
            ours, limit = statistics.median(took[call]), LIMIT * (2.0 if call.startswith("`") else 1.0)
            note = f"{left[call]} kernels compiled"
            required = f"at most {limit:g} times the imports"
            met = ours <= limit * imports and left[call] == 0
            found.append(Row(f"first call: {call}", ours, imports, required, met, note, counts=False))
        (folder / "without").mkdir()
        python, package = _install(folder / "without", None)
        for call, arguments in calls.items():
            bare, number = _processor_seconds(python, *arguments, folder=folder), _forget(package)
            note = f"{number} kernels compiled"
            found.append(Row(f"wheel without kernels: {call}", bare, imports, "", True, note, counts=False))
        met = ahead < AHEAD
        found.append(Row("`prudent compile`, all kernels", ahead, AHEAD, f"under {AHEAD:g} s", met, fixed=True))
        return found
