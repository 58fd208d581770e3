"""``prudent verify``: check a certificate with the checker that shares no code with the solvers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def verify(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model file, or a folder of prudent.save.")],
    certificate: Annotated[Path, typer.Argument(metavar="CERTIFICATE", help="What solution.certificate wrote.")],
    rows: Annotated[
        int | None,
        typer.Option(min=0, help="Most rows to prove by integrals; the others are counted.", show_default=False),
    ] = None,
) -> None:
    """Check a certificate: are the values and the policy what it claims?

    Prints yes and what was proved, with exit code 0, or no and the reason, with exit code 1.
    """
    from ..certificates.checker import RefusedError, check
    from ..errors import ParameterError

    try:
        content = _model_of(model)
        print(f"yes: {check(content, certificate.read_bytes(), rows)}")
    except RefusedError as fault:
        print(f"no: {fault}")
        sys.exit(1)
    except ImportError as fault:
        raise ParameterError(str(fault), code="missing-package", argument="model") from None
    except OSError as fault:
        message = f"{fault.filename} cannot be read: {fault.strerror}"
        raise ParameterError(message, code="unreadable-file", argument=str(fault.filename)) from None


def _model_of(path: Path) -> bytes:
    """Return the content of a model file, or the one that a saved decision would have."""
    if not path.is_dir():
        return path.read_bytes()
    from ..analysis.saved_decision import load
    from ..planning.certificate_file import model_file

    problem = load(path).solution.problem
    assert problem is not None  # which every saved decision has
    return model_file(problem)
