"""Someone who follows a "Start here" page literally, in a fresh environment, gets what the page shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from _pages import blocks_of

ROOT = Path(__file__).parents[2]
START = ROOT / "docs" / "start"
PAGES = ("analyst", "engineer", "researcher")
INSTALL = re.compile(r"```sh\npip install ([^\n]+)\n```")
FOLLOW = """\
import sys
import prudent
from _pages import run
assert prudent.__file__.startswith(sys.prefix), prudent.__file__
run(sys.argv[1], ".")
"""


def done(*command, **options):
    """Run a command of the reader, who has no paths of ours; return what it prints."""
    theirs = {name: text for name, text in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    theirs["MPLBACKEND"] = "agg"  # there may be no screen
    ended = subprocess.run(
        [str(each) for each in command],
        env=theirs,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
        **options,
    )
    assert ended.returncode == 0, f"{ended.stdout[-4000:]}\n{ended.stderr[-4000:]}"
    return ended.stdout


@pytest.mark.parametrize("page", PAGES)
def test_a_page_starts_with_installing_and_a_result(page):
    text = (START / f"{page}.md").read_text()
    (install,) = INSTALL.findall(text)
    assert install.split()[0] == "prudent"
    _, code, printed = blocks_of(text)[0]
    assert text.index(code.splitlines()[0]) > text.index(install)
    assert len(printed.splitlines()) >= 3  # a result, not a greeting


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    done(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
    (found,) = folder.glob("prudent-*.whl")
    return found


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An environment with nothing in it, in which the pages are followed one after the other."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_a_start_page_can_be_followed_in_a_fresh_environment(page, wheel, environment, tmp_path):
    source = START / f"{page}.md"
    wanted = INSTALL.search(source.read_text())[1].split()
    done(environment, "-m", "pip", "install", "--quiet", *(wheel if name == "prudent" else name for name in wanted))
    tools, empty = tmp_path / "tools", tmp_path / "empty"
    tools.mkdir()
    empty.mkdir()
    shutil.copy(ROOT / "tests" / "support" / "_pages.py", tools)
    code = f"import sys; sys.path.insert(0, {str(tools)!r})\n{FOLLOW}"
    done(environment, "-c", code, source, cwd=empty)
