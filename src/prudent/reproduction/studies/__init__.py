"""The studies, one file each: a module here whose name begins with no underscore holds a ``STUDY``.

Modules with an underscore hold what several studies share. What the paper leaves open is decided in them once.
"""

from __future__ import annotations

import importlib
import pkgutil

from ...errors import ParameterError
from ..study import Study

__all__ = ["STUDIES", "study_of"]


def _found() -> list[Study]:
    names = [module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")]
    return [importlib.import_module(f"{__name__}.{name}").STUDY for name in names]


STUDIES: dict[str, Study] = {study.name: study for study in sorted(_found(), key=lambda study: study.order)}
"""All studies by name, in the order in which they are listed and shown."""
OWN = frozenset(STUDIES)
"""Names of the studies of this package."""


def study_of(name: str) -> str:
    """Return the name of a study of this package, or of one elsewhere, ``"module:STUDY"``, which joins ``STUDIES``.

    Parameters
    ----------
    name : str
        Name of a study, or the module and the variable that hold one.

    Returns
    -------
    str
        Name of the study.

    Raises
    ------
    ParameterError
        If there is no such study, or it has the name of another one.

    Examples
    --------
    >>> study_of("limit-law")
    'limit-law'
    """
    if name in STUDIES:
        return name
    known = ", ".join(STUDIES)
    if ":" not in name:
        text = f"names has {name!r}, expected some of {known}, or module:STUDY"
        raise ParameterError(text, code="unknown-option", argument="names", value=name)
    try:
        study = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        text = f"names has {name!r}, which cannot be imported: {error}"
        raise ParameterError(text, code="unknown-option", argument="names", value=name) from None
    if not isinstance(study, Study):
        text = f"names has {name!r}, which is {study!r}, expected a prudent.reproduction.Study"
        raise ParameterError(text, code="wrong-type", argument="names", value=name)
    if study.name in OWN:
        text = f"names has {name!r}, a study that is called {study.name!r} like one of ours; give it another name"
        raise ParameterError(text, code="duplicate-label", argument="names", value=study.name)
    STUDIES[study.name] = study
    return study.name
