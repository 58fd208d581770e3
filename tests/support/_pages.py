"""Runs a page of the documentation as a reader would: block by block, from top to bottom, in an empty folder.

- ```python blocks run in one namespace, ```bash blocks line by line in a shell that finds `prudent`;
- a ```text block right after one of these is what it prints: whitespace counts as one blank, numbers agree to one unit
  of their last printed digit, and `...` stands for anything;
- other languages (```py and ```sh for what cannot run here: clusters, GPUs, installing) are left alone.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", flags=re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])")


def blocks_of(text):
    """Return (language, code, what it prints or None) of every block that runs, and the text between blocks."""
    found = []
    last_end, last_runs = -1, False
    for fence in FENCE.finditer(text):
        indent, language, body = fence.groups()
        body = "\n".join(line.removeprefix(indent) for line in body.splitlines())
        follows = last_runs and not text[last_end : fence.start()].strip()
        if language == "text" and follows:
            found[-1] = (*found[-1][:2], body)
        last_runs = language in ("python", "bash")
        if last_runs:
            found.append((language, body, None))
        last_end = fence.end()
    return found


def agrees(expected, got):
    """Return whether what was printed is what the page shows."""
    pattern, numbers, at = "", [], 0
    for found in NUMBER.finditer(expected):
        pattern += _escaped(expected[at : found.start()]) + r"([-+]?[\d,]+(?:\.\d+)?(?:e[-+]?\d+)?)"
        numbers.append(found[0])
        at = found.end()
    pattern += _escaped(expected[at:])
    match = re.fullmatch(rf"\s*{pattern}\s*", got, flags=re.DOTALL)
    return bool(match) and all(_close(*pair) for pair in zip(numbers, match.groups(), strict=True))


def _escaped(text):
    parts = [re.sub(r"(\\ |\s|\\\n)+", r"\\s+", re.escape(part)) for part in text.split("...")]
    return ".*?".join(parts)


def _close(shown, found):
    shown, found = shown.replace(",", ""), found.replace(",", "")
    mantissa, _, exponent = shown.partition("e")
    digits = len(mantissa.partition(".")[2])
    unit = 10.0 ** (int(exponent or 0) - digits) if "." in mantissa or exponent else 0.0
    return abs(float(shown) - float(found)) <= 1.001 * unit


def run(page, folder, replaced=()):
    """Run a page in ``folder``, with some of its text replaced; raise what goes wrong, with the block at fault."""
    text = Path(page).read_text()
    for long, short in replaced:
        assert long in text, long
        text = text.replace(long, short)
    names = {"__name__": "__main__"}
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for language, code, expected in blocks_of(text):
        if language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, f"{Path(page).name}: {code[:60]!r}", "exec", dont_inherit=True), names)
            got = printed.getvalue()
        else:
            done = subprocess.run(
                ["bash", "-euc", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
            got = done.stdout
        if expected is not None:
            assert agrees(expected, got), f"{code}\n-- shown:\n{expected}\n-- printed:\n{got}"
    return names
