"""Warnings that point at the line of the caller, however deep inside the library they are issued."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

_PACKAGE = str(Path(__file__).resolve().parent.parent)


def warn_caller(warning: Warning) -> None:
    """Issue ``warning`` at the innermost line outside this package.

    Parameters
    ----------
    warning : Warning
        The warning, with its message, code and fields.
    """
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level + 1)
