"""Rules of the house: short files, no cycles of imports, private attributes stay private, arguments have types.

Where the code does not keep a rule yet, the number here is what is left. It may only fall.
"""

from __future__ import annotations

import ast
import itertools
from pathlib import Path

import _public
import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "prudent"
TESTS = sorted((ROOT / "tests").rglob("*.py"))
FILES = sorted(SOURCE.rglob("*.py"))
TREES = {file: ast.parse(file.read_text()) for file in FILES}
MAX_LINES = 650
MAX_PRIVATE = 26
MAX_ANY = 40
MAX_WORDING = 23  # assertions in tests that match the wording of a message


def name_of(file):
    """Return the path of a file within the library."""
    return file.relative_to(SOURCE).as_posix()


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_no_file_is_long(file):
    assert file.read_text().count("\n") <= MAX_LINES


# -- private attributes ------------------------------------------------------------------------------------


def private_accesses(tree):
    """Return the accesses to private attributes of other objects: not by self, cls or super(), nor of NamedTuples."""
    public = {"_fields", "_replace", "_asdict", "_make"}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_"):
            continue
        if node.attr.startswith("__") or node.attr in public:
            continue
        owner = node.value
        is_self = isinstance(owner, ast.Name) and owner.id in ("self", "cls")
        is_super = isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name) and owner.func.id == "super"
        if not is_self and not is_super:
            yield node


def test_private_attributes_are_left_alone():
    accesses = [f"{name_of(file)}:{node.lineno}" for file, tree in TREES.items() for node in private_accesses(tree)]
    assert len(accesses) <= MAX_PRIVATE, accesses


# -- types -------------------------------------------------------------------------------------------------


def test_few_public_parameters_are_any():
    untyped = [
        f"{room}.{path}({name})"
        for room, module in _public.rooms().items()
        for path, member in _public.members(module).items()
        for name, parameter in _public.parameters(member).items()
        if str(parameter.annotation).replace("typing.", "").removesuffix(" | None") == "Any"
    ]
    assert len(untyped) <= MAX_ANY, untyped


# -- imports -----------------------------------------------------------------------------------------------


def imports():
    """Return which modules each module imports, within functions and for type checkers too."""
    modules = {}
    for file in FILES:
        parts = file.relative_to(SOURCE.parent).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    graph = {}
    for module, file in modules.items():
        package = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
        graph[module] = set()
        for node in ast.walk(TREES[file]):
            if isinstance(node, ast.ImportFrom):
                base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
                source = ".".join(filter(None, (base, node.module)))
                paths = {f"{source}.{alias.name}" for alias in node.names}
                graph[module] |= {path if path in modules else source for path in paths}
            elif isinstance(node, ast.Import):
                graph[module] |= {alias.name for alias in node.names}
        graph[module] = (graph[module] & set(modules)) - {module}
    return graph


def knots(graph):
    """Return the strongly connected components of more than one module (Tarjan)."""
    order, low, stack, components = {}, {}, [], []
    count = itertools.count()

    def visit(module):
        order[module] = low[module] = next(count)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in order:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], order[other])
        if low[module] == order[module]:
            start = stack.index(module)
            component = stack[start:]
            del stack[start:]
            if len(component) > 1:
                components.append(sorted(component))

    for module in sorted(graph):
        if module not in order:
            visit(module)
    return components


def test_no_module_imports_itself_through_others():
    assert knots(imports()) == []


def test_knots_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set()}
    assert knots(graph) == [["a", "b", "c"]]


# -- rooms and tests ---------------------------------------------------------------------------------------


def test_every_room_has_tests_and_is_on_the_map():
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}
    assert {room for room in rooms if not {room, room.lstrip("_")} & folders} == set()
    map_of_rooms = (ROOT / "CONTRIBUTING.md").read_text()
    assert {room for room in rooms if f"      {room}/ " not in map_of_rooms} == set()


def test_tests_match_codes_and_not_wording():
    words = [
        f"{file.name}:{node.value.lineno}"
        for file in TESTS
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.keyword) and node.arg == "match"
    ]
    assert len(words) <= MAX_WORDING, words


def test_every_generator_of_a_test_has_a_seed_that_is_printed():
    unseeded = [
        f"{file.name}:{node.lineno}"
        for file in TESTS
        if file.name != "conftest.py"
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if (node.func.attr == "default_rng" and not node.args and not node.keywords) or node.func.attr == "randbits"
    ]
    assert unseeded == []
