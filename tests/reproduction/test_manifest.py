"""The manifest of a reproduction, and claims as tables for papers."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from refusals import refused

import prudent
from prudent._support.machine import machine
from prudent.errors import DataError
from prudent.reproduction import STUDIES, claims_latex, claims_table, judge, load_datasets, manifest, write_manifest
from prudent.reproduction.export import escaped
from prudent.reproduction.manifest import differences

PACKAGE = Path(prudent.__file__).parent


@pytest.fixture
def copy(tiny_run, tmp_path):
    for file in tiny_run.glob("*.nc"):
        shutil.copy(file, tmp_path)
    return tmp_path


def test_manifest_has_what_the_files_are(copy):
    written = json.loads(write_manifest(copy).read_text())
    found = manifest(copy)
    assert {**written, "written": ""} == {**found, "written": ""}
    assert set(found["datasets"]) == set(STUDIES)
    for name, entry in found["datasets"].items():
        content = (copy / f"{name}.nc").read_bytes()
        assert entry["sha256"] == hashlib.sha256(content).hexdigest()
        assert (entry["bytes"], entry["scale"], entry["seed"]) == (len(content), "tiny", 5)
        assert entry["repeatable"] == (name != "computing-time")
    assert {"numpy", "scipy", "numba", "python"} <= set(found["versions"])
    assert found["machine"]["cores"] == machine()["cores"] >= 1


def git(folder, *arguments):
    command = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@y", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def told_commit(source, **variables):
    """Return what a copy of the package says of its commit, and whether it says that files were changed."""
    code = "import runpy, sys; m = runpy.run_path(sys.argv[1]); print(m['commit'](), m['changed']())"
    command = [sys.executable, "-c", code, str(source / "_support" / "machine.py")]
    told = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | variables).stdout
    found, files = told.rstrip("\n").split(" ")
    return found, files == "True"


def committed(folder):
    git(folder, "init", "--quiet")
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "x")
    return git(folder, "rev-parse", "HEAD")


def copied(folder):
    shutil.copytree(PACKAGE / "_support", folder / "_support", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_the_commit_is_that_of_our_own_checkout(tmp_path):
    """Also with a hook's environment, in a worktree, and told apart from changes since."""
    source = copied(tmp_path / "repo" / "src" / "prudent")
    (tmp_path / "repo" / "pyproject.toml").write_text('[project]\nname = "prudent"\n')
    assert told_commit(source) == ("", False)
    here = committed(tmp_path / "repo")
    (tmp_path / "other").mkdir()
    committed(tmp_path / "other")
    assert told_commit(source) == (here, False)
    assert told_commit(source, GIT_DIR=str(tmp_path / "other" / ".git")) == (here, False)
    git(tmp_path / "repo", "worktree", "add", "--quiet", str(tmp_path / "tree"))
    assert told_commit(tmp_path / "tree" / "src" / "prudent") == (here, False)
    (source / "new.py").touch()
    assert told_commit(source) == (here, True)


def test_a_copy_inside_another_repository_has_no_commit(tmp_path):
    """Installed, unpacked and vendored copies, tracked there or not; the other repository may be our own."""
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "prudent"\n')
    installed = copied(tmp_path / ".venv" / "lib" / "python3.11" / "site-packages" / "prudent")
    unpacked = copied(tmp_path / "prudent-1.0" / "src" / "prudent")
    shutil.copy(tmp_path / "pyproject.toml", tmp_path / "prudent-1.0")
    committed(tmp_path)
    assert told_commit(installed) == told_commit(unpacked) == ("", False)
    foreign = tmp_path / "foreign"
    vendored = copied(foreign / "src" / "prudent")
    (foreign / "pyproject.toml").write_text('[project]\nname = "theirs"\n')
    committed(foreign)
    assert told_commit(vendored) == ("", False)
    assert told_commit(installed, PATH="") == ("", False)  # without git


def test_differences_from_a_manifest(copy):
    file = write_manifest(copy)
    assert differences(copy, file) == []
    (copy / "beyond.nc").write_bytes(b"other")
    (copy / "lake-long.nc").unlink()
    (copy / "computing-time.nc").write_bytes(b"times are never the same")
    assert sorted(differences(copy, file)) == ["beyond: other bytes", "lake-long: there is no dataset"]
    with refused(DataError, "missing-file", path=str(copy / "none.json")):
        differences(copy, copy / "none.json")
    for content in ("{}", "[]", "not JSON", '{"datasets": {"beyond": 3}}'):
        file.write_text(content)
        with refused(DataError, "wrong-format", path=str(file)):
            differences(copy, file)


def test_tables_have_every_interval(tiny_run):
    claims = judge(load_datasets(tiny_run))
    table = claims_table(claims)
    assert len(table) == sum(
        len(claim.evidence) + sum(len(other["evidence"]) for other in claim.readings) for claim in claims
    )
    for claim in claims:
        rows = table[(table.claim == claim.id) & (table.reading == "")]
        assert rows.estimate.fillna(0.0).tolist() == [item["estimate"] or 0.0 for item in claim.evidence]
        assert set(rows.verdict) == {str(claim.as_written)}
        assert set(rows.error_rate) == {claim.error}
    text = claims_latex(claims)
    assert text.count(r" \\") == len(claims) + 1
    assert all(escaped(claim.statement) in text for claim in claims)
    body = text.replace("\\\\", "").replace("\\&", "").replace("\\%", "").replace("\\_", "")
    assert body.count("&") == 3 * (len(claims) + 1)
    assert "_" not in body
