"""The studies, one file each: a module here whose name begins with no underscore holds a ``STUDY``.

Modules with an underscore hold what several studies share. What the paper leaves open is decided in them once.
"""

from __future__ import annotations

import importlib
import pkgutil

from ..study import Study

__all__ = ["STUDIES"]


def _found() -> list[Study]:
    names = [module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")]
    return [importlib.import_module(f"{__name__}.{name}").STUDY for name in names]


STUDIES: dict[str, Study] = {study.name: study for study in sorted(_found(), key=lambda study: study.order)}
"""All studies by name, in the order in which they are listed and shown."""
