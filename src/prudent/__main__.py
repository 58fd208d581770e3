"""``python -m prudent`` is the command ``prudent``; see ``prudent.cli.main``."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code.

    All it needs is imported in here, so that Ctrl-C is one line from the first moment on.
    """
    try:
        from .cli.main import main

        return main(arguments)
    except KeyboardInterrupt:
        print("prudent: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
