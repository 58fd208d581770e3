"""Every public name is on one page of the reference, and nothing else is."""

import re
from collections import Counter
from pathlib import Path
from types import ModuleType

import _public

import prudent as pr

PAGES = Path(__file__).parents[2] / "docs" / "reference"


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


def test_every_public_name_is_in_the_reference_once():
    listed = Counter(
        name
        for page in PAGES.glob("*.md")
        for name in re.findall(r"^::: prudent\.(\S+)$", page.read_text(), re.MULTILINE)
    )
    members = public()
    assert sorted(paths[0] for paths in members if not any(path in listed for path in paths)) == []
    assert sorted(paths for paths in members if sum(listed[path] for path in paths) > 1) == []
    assert sorted(set(listed) - {path for paths in members for path in paths}) == []
