"""Docstrings of everything public are complete by the rules of numpydoc, which pyproject.toml lists."""

from __future__ import annotations

import enum
import re
import tomllib
from pathlib import Path

import _public
import pytest
from numpydoc.docscrape import get_doc_object
from numpydoc.validate import validate

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["numpydoc_validation"]
LEFT_OUT = set(SETTINGS["checks"]) - {"all"}
SOURCE = ROOT / "src" / "prudent"
ROOMS = _public.rooms()


def faults(room):
    """Return what is wrong with the docstrings of a room: path, code of the check and message."""
    found = []
    for path, member in _public.members(ROOMS[room]).items():
        full = f"prudent.{room}.{path}"
        documented = _attributes(member)
        for code, message in validate(full)["errors"]:
            if code in LEFT_OUT:
                continue
            if code == "PR01" and isinstance(member, type):
                # the fields of a dataclass are its parameters: a result documents them once, as attributes
                missing = {name for name in re.findall(r"'(\w+)'", message) if not name.startswith("_")}
                if missing <= documented or issubclass(member, enum.Enum):
                    continue
                if not {"__init__", "__new__"} & set(vars(member)):  # documented by the class that has it
                    continue
            found.append(f"{path}: {code} {message}")
    return found


def _attributes(member):
    if not isinstance(member, type) or not member.__doc__:
        return set()
    rows = get_doc_object(member)["Attributes"]
    return {name.strip() for row in rows for name in row.name.split(",")}


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_docstrings_of_a_room_are_complete(room):
    wrong = faults(room)
    assert not wrong, "\n".join(wrong)


def test_docstrings_have_no_sphinx_roles():
    """Neither help() nor the site resolves :class: and the like: names are in double backticks."""
    roles = [
        f"{name_of(file)}: {role}"
        for file in sorted(SOURCE.rglob("*.py"))
        for role in re.findall(r":(?:class|func|meth|mod|attr|data|exc):`[^`]+`", file.read_text())
    ]
    assert roles == []


def name_of(file):
    """Return the path of a file within the library."""
    return file.relative_to(SOURCE).as_posix()


def test_a_missing_table_is_a_fault(monkeypatch):
    def bare(alpha, draws):
        """Return something."""

    bare.__module__ = "prudent.risk"
    monkeypatch.setattr(ROOMS["risk"], "bare", bare, raising=False)
    monkeypatch.setattr(ROOMS["risk"], "__all__", ["bare"])
    assert {fault.split()[1] for fault in faults("risk")} >= {"PR01"}
