"""The manifest of a reproduction, and claims as tables for papers."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess

import pytest
from refusals import refused

from prudent._support.machine import commit, machine
from prudent.errors import DataError
from prudent.reproduction import STUDIES, claims_latex, claims_table, judge, load, manifest, write_manifest
from prudent.reproduction.export import escaped
from prudent.reproduction.manifest import differences


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


def test_the_commit_is_that_of_git():
    found = commit()
    if found is None:  # not a checkout
        return
    told = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    assert found["id"] == told


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
    claims = judge(load(tiny_run))
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
