"""Where numbers come from: versions, commit and processor, for the attributes of datasets."""

from __future__ import annotations

import json

from .machine import commit, processor
from .versions import stamp, versions


def provenance() -> dict[str, str]:
    """Return the versions of the software, digest and commit of our source, and the processor.

    >>> sorted(provenance())
    ['commit', 'processor', 'source', 'versions']
    """
    return {
        "versions": json.dumps(versions(), sort_keys=True),
        "source": stamp()["source"],
        "commit": commit(),
        "processor": processor(),
    }
