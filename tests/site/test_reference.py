"""Every public name is on one page of the reference, and nothing else is."""

import importlib
import re
from collections import Counter
from pathlib import Path
from types import ModuleType

import prudent as pr

PAGES = Path(__file__).parents[2] / "docs" / "reference"
ROOMS = ("agents", "analysis", "bandits", "envs", "errors", "evaluation", "exact", "experiments", "models")
ROOMS += ("planning", "posteriors", "risk", "simulation", "theory")


def public():
    """Return the shortest public path of every name."""
    top = {name for name in pr.__all__ if name != "__version__" and not isinstance(getattr(pr, name), ModuleType)}
    deeper = {
        f"{room}.{name}"
        for room in ROOMS
        for name in importlib.import_module(f"prudent.{room}").__all__
        if name not in top
    }
    return top | deeper


def test_every_public_name_is_in_the_reference_once():
    listed = Counter(
        name
        for page in PAGES.glob("*.md")
        for name in re.findall(r"^::: prudent\.(\S+)$", page.read_text(), re.MULTILINE)
    )
    assert sorted(public() - set(listed)) == []
    assert sorted(set(listed) - public()) == []
    assert [name for name, count in listed.items() if count > 1] == []
