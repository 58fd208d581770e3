"""The pages about the mathematics and numbers: their names exist, the paper has its rows, published values are met."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import prudent as pr
from benchmarks.icu import SURVIVAL, truth
from prudent.reproduction import STUDIES

DOCS = Path(__file__).parents[2] / "docs"
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
    for file, test in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text):
        assert f"def {test}(" in (DOCS.parent / file).read_text(), test


@pytest.mark.parametrize("part", PARTS)
def test_every_part_of_the_paper_has_a_row(part):
    # a row may be of several parts, and may say more: "(8), (9)", "7.2, Figure 4", "Theorem 3, probability"
    whole = re.compile(rf"(?<![\w.]){re.escape(part)}(?![\w.'])")
    assert any(whole.search(row[0]) and len(row) >= 3 and row[2].strip() for row in ROWS)


def test_every_study_of_the_paper_has_a_row():
    for name, study in STUDIES.items():
        assert f"prudent reproduce {name}`" in PAPER or "Beyond the paper" in study.title, name


def test_icu_sepsis_has_its_published_baselines():
    """Survival 0.78, 0.78 and 0.88, and 9.45, 9.22 and 10.99 steps, of random, clinicians' and optimal policies.

    Ours are exact; published lengths differ from them by up to 0.02.
    """
    known = truth()
    n = known.alive
    rows = sparse.csr_array(known.move[:n, :, :n].reshape(-1, n))
    ends = known.move[:n, :, n:].sum(axis=2)
    lives = pr.MDP(rows, known.move[:n, :, SURVIVAL], 1.0, termination=ends)
    steps = pr.MDP(rows, np.ones((n, 25)), 1.0, termination=ends)
    policies = {"random": np.full((n, 25), 0.04), "clinicians": known.expert[:n], "best": pr.solve(lives).policy}
    found = {
        name: [float(known.start[:n] @ pr.evaluate(model, policy).value) for model in (lives, steps)]
        for name, policy in policies.items()
    }
    assert found["random"] == pytest.approx([0.7801, 9.462], abs=6e-4)
    assert found["clinicians"] == pytest.approx([0.7818, 9.238], abs=6e-4)
    assert found["best"] == pytest.approx([0.8751, 10.992], abs=6e-4)
    published = {"random": (0.78, 9.45), "clinicians": (0.78, 9.22), "best": (0.88, 10.99)}
    for name, (survival, length) in published.items():
        assert found[name][0] == pytest.approx(survival, abs=0.005)
        assert found[name][1] == pytest.approx(length, abs=0.025)
