"""The pages about the mathematics: every name that they mention exists, and every part of the paper has its row."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from prudent.experiments import STUDIES

DOCS = Path(__file__).parent.parent / "docs"
PAGES = [*sorted((DOCS / "mathematics").glob("*.md")), DOCS / "numbers.md"]
PAPER = (DOCS / "mathematics" / "paper.md").read_text()
ROWS = [line.strip("| \n").split(" | ") for line in PAPER.splitlines() if line.startswith("| ")]
PARTS = [
    *(f"({number})" for number in range(1, 21)),
    *(f"Algorithm {name}" for name in ("1", "2", "2'", "2''", "3")),
    *(f"Theorem {number}" for number in range(1, 6)),
    *(f"Lemma {name}" for name in ("6.1", *(f"D.{i}" for i in range(1, 10)), "E.1", "E.2", "E.3")),
    *(f"Assumption {name}" for name in ("2.1", "3.1", "6.2")),
    *(f"Figure {number}" for number in range(1, 8)),
    *(f"Table {number}" for number in (1, 2)),
    "Appendix A",
    "Appendix B",
]


def found(name):
    """Return what a dotted name stands for."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            thing = getattr(thing, part)
        return thing
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_name_exists(page):
    text = page.read_text()
    names = {name for code in re.findall(r"`([^`\n]+)`", text) for name in re.findall(r"\bprudent(?:\.\w+)+", code)}
    if page.stem == "paper":
        assert len(names) > 50
    for name in names:
        found(name)
    for study in re.findall(r"`prudent reproduce ([a-z-]+)`", text):
        assert study in STUDIES, study
    for file in re.findall(r"`((?:prudent|tests|benchmarks)/[\w/]+\.py)`", text):
        inside = f"src/{file}" if file.startswith("prudent") else file
        assert (DOCS.parent / inside).is_file(), file
    for file, test in re.findall(r"`(tests/\w+\.py)::(\w+)`", text):
        assert f"def {test}(" in (DOCS.parent / file).read_text(), test


@pytest.mark.parametrize("part", PARTS)
def test_every_part_of_the_paper_has_a_row(part):
    # a row may be of several parts, and may say more: "(8), (9)", "7.2, Figure 4", "Theorem 3, probability"
    whole = re.compile(rf"(?<![\w.]){re.escape(part)}(?![\w.'])")
    assert any(whole.search(row[0]) and len(row) >= 3 and row[2].strip() for row in ROWS)


def test_every_study_of_the_paper_has_a_row():
    for name, study in STUDIES.items():
        assert f"prudent reproduce {name}`" in PAPER or "Beyond the paper" in study.title, name
