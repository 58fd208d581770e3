"""The key of a run follows the modules that the run imports, and no others."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import prudent
from prudent._support.sources import imported_files, source_digest
from prudent.reproduction import STUDIES
from prudent.reproduction.runs.limit_law import LimitRun
from prudent.reproduction.runs.simulation import SimulationRun
from prudent.reproduction.studies._lake import brps, lake

LAKE = SimulationRun(3, lake(0.1), brps(0.9), 10, 5).modules
LIMIT = LimitRun(3, 0.1, 0.9, 10, (100,), 10).modules


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, without compiled files."""
    copy = tmp_path_factory.mktemp("source") / "prudent"
    shutil.copytree(Path(prudent.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    return copy


def changes(folder: Path, modules: set[str], file: str) -> bool:
    """Return whether the digest of some modules changes with a file."""
    path, before = folder / file, source_digest(modules, folder)
    content = path.read_bytes()
    path.write_bytes(content + b"# changed\n")
    try:
        return source_digest(modules, folder) != before
    finally:
        path.write_bytes(content)


@pytest.mark.parametrize("modules", [LAKE, LIMIT], ids=["lake", "limit law"])
def test_what_shows_results_leaves_the_key(folder: Path, modules: set[str]) -> None:
    texts = [file for room in ("cli", "display", "journal") for file in sorted((folder / room).rglob("*.py"))]
    studies = sorted((folder / "reproduction" / "studies").glob("*.py"))
    report = sorted((folder / "reproduction" / "report").glob("*.py"))
    others = [folder / "reproduction" / f"{name}.py" for name in ("claims", "runner", "store", "study", "sweep")]
    followed = set(imported_files(modules, folder).values())
    assert len(texts) > 20
    assert len(studies) > 10
    assert not followed & {*texts, *studies, *report, *others}
    for file in ("cli/log.py", "display/style.py", "journal/journal.py", "reproduction/studies/lake_regret.py"):
        assert not changes(folder, modules, file)


@pytest.mark.parametrize(
    ("modules", "file"),
    [
        (LAKE, "planning/newton.py"),
        (LAKE, "agents/sampling_settings.py"),
        (LAKE, "agents/optimistic_vi.py"),
        (LAKE, "envs/frozen_lake.py"),
        (LAKE, "simulation/loops.py"),
        (LAKE, "reproduction/runs/simulation.py"),
        (LIMIT, "planning/newton.py"),
        (LIMIT, "theory.py"),
        (LIMIT, "_numerics/dirichlet_tail.py"),
        (LIMIT, "reproduction/runs/limit_law.py"),
    ],
)
def test_what_computes_changes_the_key(folder: Path, modules: set[str], file: str) -> None:
    assert changes(folder, modules, file)


def test_a_module_that_no_run_imports_changes_no_key(folder: Path) -> None:
    assert not changes(folder, LAKE, "theory.py")
    assert not changes(folder, LIMIT, "agents/posterior_sampling.py")


def test_every_run_of_every_study_names_modules_of_its_own() -> None:
    from _tiny import TINY

    for study in STUDIES.values():
        for run in study.plan(TINY).values():
            assert "prudent.reproduction.runs.base" in run.modules
            assert not any(".studies" in module for module in imported_files(run.modules))
