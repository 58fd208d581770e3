"""Draws the figures of the site's pages into docs/figures/. Those of the gallery come from its examples."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent / "figures"


def main() -> None:
    """Draw all of them."""
    FOLDER.mkdir(exist_ok=True)


if __name__ == "__main__":
    main()
