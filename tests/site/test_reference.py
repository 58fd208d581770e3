"""Every public name is on one page of the reference, and nothing else is."""

import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import _public
import pytest

import prudent as pr

PAGES = Path(__file__).parents[2] / "docs" / "reference"
sys.path.insert(0, str(PAGES.parent))
import members  # noqa: E402


def public():
    """Return the public paths of every public object, shortest first."""
    paths = {}
    for name in pr.__all__:
        if not isinstance(getattr(pr, name), ModuleType):
            paths.setdefault((name, id(getattr(pr, name))), []).append(name)
    for room, module in _public.rooms().items():
        for name in module.__all__:
            paths.setdefault((name, id(getattr(module, name))), []).append(f"{room}.{name}")
    return list(paths.values())


def listed():
    """Return how often each name is on a page of the reference, as the site has it."""
    pages = ((page.stem, page.read_text()) for page in PAGES.glob("*.md"))
    whole = (members.completed(room, text) if members.MARK in text else text for room, text in pages)
    return Counter(name for text in whole for name in members.LISTED.findall(text))


def test_every_public_name_is_in_the_reference_once():
    counts = listed()
    surface = public()
    assert sorted(paths[0] for paths in surface if not any(path in counts for path in paths)) == []
    assert sorted(paths for paths in surface if sum(counts[path] for path in paths) > 1) == []
    assert sorted(set(counts) - {path for paths in surface for path in paths}) == []


@pytest.mark.parametrize("room", sorted(_public.rooms()))
def test_every_room_has_a_page(room):
    assert members.MARK in (PAGES / f"{room}.md").read_text()
    assert f"reference/{room}.md" in (PAGES.parents[1] / "mkdocs.yml").read_text()
