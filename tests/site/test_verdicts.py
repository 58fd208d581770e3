"""Verdicts on pages: tables and counts are those of docs/verdicts.json, and error rates those that are promised."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from pathlib import Path

import pytest

from benchmarks import verdicts
from prudent.reproduction import SCALES, STUDIES, Verdict, run
from prudent.reproduction.error_rates import measured

ROOT = Path(__file__).parents[2]
SUMMARY = json.loads(verdicts.SUMMARY.read_text(encoding="utf-8"))
RULES = {statement.id: statement.rule for study in STUDIES.values() for statement in study.claims}


def test_the_page_has_the_tables_of_the_file():
    text = verdicts.PAGE.read_text(encoding="utf-8")
    rates = json.loads(verdicts.RATES.read_text(encoding="utf-8"))
    assert len(verdicts.MARK.findall(text)) == 4
    assert verdicts.page(text, SUMMARY, rates) == text


def test_counts_are_those_of_the_claims():
    assert [claim["id"] for claim in SUMMARY["claims"]] == list(RULES)
    for whose in ("paper", "ours"):
        for verdict in map(str, Verdict):
            kinds = [claim["kind"] for claim in SUMMARY["claims"] if claim["whose"] == whose]
            assert SUMMARY["counts"][whose][verdict] == kinds.count(verdict)


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md"])
def test_the_readme_and_the_changelog_have_the_counts(name):
    """Their sentence, in the order of the verdicts."""
    text = " ".join((ROOT / name).read_text(encoding="utf-8").split())
    words = r"of (?:the paper's )?(\d+)(?: claims|,) (\d+) are reproduced as written, "
    words += r"(\d+) under another reading, (\d+) under none, (\d+) stays? undecided"
    found = re.search(words, text)
    assert found is not None
    counts = SUMMARY["counts"]["paper"]
    undecided = counts["compatible"] + counts["inconclusive at this scale"]
    expected = (counts["reproduced"], counts["reproduced when"], counts["not reproduced"], undecided)
    assert tuple(map(int, found.groups())) == (sum(counts.values()), *expected)


def test_measured_error_rates_are_as_promised():
    """2,000 studies in each world of every rule, under every reading, and at most 1% of them reproduced."""
    rates = measured()
    assert set(rates) == {claim for claim, rule in RULES.items() if rule is not None}
    readings = {claim["id"]: {"", *claim["readings"]} for claim in SUMMARY["claims"]}
    for claim, its in rates.items():
        assert set(its) == readings[claim], claim
        for rate in its.values():
            assert rate.studies >= 2_000, claim
            assert rate.largest <= 0.01, claim


@pytest.mark.slow
def test_error_rates_of_all_claims(tmp_path):
    """All claims with the noise and the sizes of the paper's scale, without long runs and further looks."""
    scale = dataclasses.replace(SCALES["paper"], lake_looks=1, schedule_long_episodes=1_000, draws=1_000)
    run(scale=scale, out=tmp_path)
    assert verdicts.rates(tmp_path, os.cpu_count() or 1, 2_000, tmp_path / "rates.json") == 0
