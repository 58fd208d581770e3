"""The public names: all of them resolve, are documented and few; each is defined in one room only."""

import ast
import importlib
from collections import Counter
from pathlib import Path

import pytest

import prudent as pr

STUB = Path(pr.__file__).with_suffix(".pyi")
STUB_NAMES = {
    alias.asname or alias.name: node.module
    for node in ast.parse(STUB.read_text()).body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}
ROOMS = sorted(path.parent.name for path in STUB.parent.glob("[a-z]*/__init__.py"))


@pytest.mark.parametrize("name", sorted(STUB_NAMES))
def test_every_name_of_the_stub_resolves_and_is_documented(name):
    assert name in pr.__all__
    member = getattr(pr, name)
    assert member.__doc__
    room = STUB_NAMES[name]
    expected = importlib.import_module(f"prudent.{name}") if room is None else getattr(pr_room(room), name)
    assert member is expected


def pr_room(room):
    """Return a room as a module."""
    return importlib.import_module(f"prudent.{room}")


def test_few_names_at_the_top():
    assert sorted(pr.__all__) == sorted(STUB_NAMES)
    assert len(pr.__all__) <= 52
    assert set(pr.__all__) <= set(dir(pr))


@pytest.mark.parametrize("room", ROOMS)
def test_every_name_that_a_room_exports_resolves(room):
    module = pr_room(room)
    for name in getattr(module, "__all__", ()):
        assert hasattr(module, name), name


def test_no_name_is_exported_by_two_rooms():
    exported = Counter(name for room in ROOMS for name in getattr(pr_room(room), "__all__", ()))
    assert [name for name, count in exported.items() if count > 1] == []


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'prudent' has no attribute 'nonsense'"):
        pr.nonsense  # noqa: B018
