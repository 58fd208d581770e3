"""How to cite: the same paper and the same version wherever it stands."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

import prudent

ROOT = Path(__file__).parents[2]
PAPER = "2509.14077"


@pytest.mark.parametrize("name", ["CITATION.cff", ".zenodo.json", "docs/howto/supplement.md"])
def test_the_paper_has_its_year_and_number(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "Online" in text
    assert set(re.findall(r"\b\d{4}\.\d{5}\b", text)) == {PAPER}
    assert "2025" in text


def test_the_library_has_its_version():
    zenodo = json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))
    assert zenodo["version"] == prudent.__version__
    assert f"\nversion: {prudent.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version = {{{prudent.__version__}}}" in (ROOT / "docs/howto/supplement.md").read_text(encoding="utf-8")


def test_the_recipe_of_conda_has_the_version_and_the_requirements_of_the_wheel():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    recipe = yaml.safe_load((ROOT / "release" / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    assert recipe["context"]["version"] == project["version"] == prudent.__version__
    assert project["requires-python"] == f">={recipe['context']['python_min']}"
    needed = {name.replace(" ", "") for name in recipe["requirements"]["run"]} - {"python>=${{python_min}}"}
    asked = {name.replace("matplotlib>", "matplotlib-base>") for name in project["dependencies"] if ";" not in name}
    assert needed == asked
