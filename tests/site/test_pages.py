"""Every block of code on the site runs and prints what the page shows; the checker itself can fail."""

from pathlib import Path

import matplotlib as mpl
import pytest
from _pages import agrees, blocks_of, run

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "gallery" not in path.relative_to(DOCS).parts)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_page_runs_as_it_is_printed(page, tmp_path, monkeypatch):
    mpl.use("agg")
    monkeypatch.chdir(tmp_path)
    run(page, tmp_path)


@pytest.mark.parametrize(
    ("expected", "got", "same"),
    [
        ("a 1.25", "a   1.254\n", True),
        ("a 1.25", "a 1.27", False),
        ("[1.5 2.5]", "[1.5\n 2.6]", True),
        ("12 of 20", "13 of 20", False),
        ("1,234 rows", "1,234 rows", True),
        ("1e-10", "2e-10", True),
        ("first\n...\nlast 2", "first\nx\ny\nlast 2", True),
        ("first\n...\nlast 2", "first\nx\ny", False),
        ("state_1 x2", "state_1 x3", False),
    ],
)
def test_what_is_shown_is_what_is_printed(expected, got, same):
    assert agrees(expected, got) is same


def test_blocks_and_what_they_print():
    fences = [("python", "print(1)"), ("text", "1"), ("py", "no"), ("text", "no"), ("bash", "ls"), ("text", "no")]
    text = "".join(f"```{language}\n{code}\n```\n" + "talk\n" * (language == "bash") for language, code in fences)
    assert blocks_of(text) == [("python", "print(1)", "1"), ("bash", "ls", None)]
