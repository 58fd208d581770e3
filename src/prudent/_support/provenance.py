"""Where numbers come from: versions, commit and processor, for the attributes of datasets."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from .machine import processor
from .versions import stamp, versions


def provenance() -> dict[str, str]:
    """Return the versions of the software, digest and commit of our source, and the processor.

    >>> sorted(provenance())
    ['commit', 'processor', 'source', 'versions']
    """
    return {
        "versions": json.dumps(versions(), sort_keys=True),
        "source": stamp()["source"],
        "commit": commit(Path(__file__).parent),
        "processor": processor(),
    }


@cache
def commit(folder: Path) -> str:
    """Return the commit of the git repository that a folder is in, as 40 digits; empty if there is none."""
    for parent in (folder, *folder.parents):
        place = parent / ".git"
        try:
            if place.is_file():  # a worktree: "gitdir: PATH"
                place = (parent / place.read_text().partition(":")[2].strip()).resolve()
            if place.is_dir():
                return _head(place)
        except OSError:
            return ""
    return ""


def _head(place: Path) -> str:
    """Return what HEAD of a git folder points at."""
    head = (place / "HEAD").read_text().strip()
    if not head.startswith("ref: "):
        return head
    name = head.removeprefix("ref: ")
    common = place / "commondir"
    folders = [place, (place / common.read_text().strip()).resolve()] if common.is_file() else [place]
    for folder in folders:
        if (folder / name).is_file():
            return (folder / name).read_text().strip()
        packed = folder / "packed-refs"
        for line in packed.read_text().splitlines() if packed.is_file() else ():
            if line.endswith(f" {name}"):
                return line.split()[0]
    return ""
