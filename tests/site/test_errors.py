"""Every error and warning of ours carries a code that is written out where it is made, and the page lists all codes."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from prudent import errors

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))
import codes  # noqa: E402

SITES = list(codes.sites())
ROOMS = sorted({site.path.split("/")[0] for site in SITES})


@pytest.mark.parametrize("room", ROOMS)
def test_every_error_has_a_code(room):
    bare = [f"{site.path}:{site.line}" for site in SITES if site.path.split("/")[0] == room and site.code is None]
    assert bare == []


def test_codes_are_nouns_in_kebab_case():
    kebab = re.compile(r"[a-z]+(-[a-z]+)*")
    assert [site for site in SITES if site.code is not None and not kebab.fullmatch(site.code)] == []


def test_every_code_is_in_the_table():
    rows = re.findall(r"^\| `([a-z-]+)` \|", codes.table(), flags=re.MULTILINE)
    assert sorted(rows) == sorted({site.code for site in SITES if site.code is not None})
    assert Counter(rows).most_common(1)[0][1] == 1
    assert (DOCS / "reference" / "errors.md").read_text().count(codes.MARK) == 1


def test_every_class_is_known():
    assert set(errors.__all__) == codes.CLASSES


def test_an_error_without_a_code_is_found(tmp_path):
    (tmp_path / "room.py").write_text(
        "raise ParameterError('no')\n"
        "raise ParameterError('yes', code='alpha-range', argument='alpha')\n"
        "warnings.warn('no', ConvergenceWarning)\n"
        "def check(value, code):\n    raise ParameterError('passed on', code=code)\n"
        "check(1, 'not-positive')\n"
        "raise ParameterError('no', code=whatever)\n"
    )
    found = [(site.line, site.code) for site in codes.sites(tmp_path)]
    assert found == [(1, None), (2, "alpha-range"), (3, None), (6, "not-positive"), (7, None)]
