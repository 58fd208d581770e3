"""Exceptions and warnings of prudent.

Every error is a ``ValueError``, so code that does not know prudent still catches it. Each error and warning has a
stable ``code`` and the facts behind its message as ``fields``. Programs and tests should match these: the wording of
a message may improve at any time.

A code is a short noun phrase in kebab case that names what is wrong, such as ``"alpha-range"`` or
``"unknown-state"``. Call sites that report the same fault share a code. Usual fields are ``argument`` (the parameter
as the caller wrote it), ``value`` (what was given), ``index`` (where in it), ``expected``, ``line`` (of a file),
``column``, ``state``, ``action``, ``arm`` and ``path``.

Examples
--------
>>> import prudent as pr
>>> try:
...     pr.CVaR(alpha=1.5)
... except pr.errors.ParameterError as error:
...     print(error.code, error.fields["value"])
alpha-range 1.5
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "CautionWarning",
    "ClusterError",
    "ConformanceError",
    "ConvergenceWarning",
    "DataError",
    "JournalError",
    "ModelError",
    "OverlapWarning",
    "ParameterError",
    "PosteriorError",
    "PrudentError",
    "PrudentWarning",
    "StateFileError",
    "StoreError",
]


class _Coded(Exception):
    """Base of errors and warnings: a message, a stable code and the facts behind the message."""

    default_code: ClassVar[str] = "error"

    def __init__(self, message: str = "", *, code: str = "", **fields: object) -> None:
        # names from files may hold escape sequences, which would steer the terminal that shows a traceback
        shown = (sign if sign.isprintable() or sign in "\n\t" else repr(sign)[1:-1] for sign in message)
        super().__init__(message if message.isprintable() else "".join(shown))
        self.code = code or self.default_code
        self.fields = fields


class PrudentError(_Coded, ValueError):
    """Base of every error that prudent raises on purpose.

    Parameters
    ----------
    message : str
        Text for people. It names the argument, the place and the value at fault.
    code : str, optional
        Stable identifier of the fault, in kebab case. The default is the code of the class.
    **fields : object
        The facts behind the message.

    Attributes
    ----------
    code : str
        Stable identifier of the fault.
    fields : dict of str to object
        The facts behind the message, for instance ``{"argument": "alpha", "value": 1.5}``.
    """


class ParameterError(PrudentError):
    """An argument is wrong, for instance a risk level out of range, an unknown state or a policy of another model."""

    default_code = "parameter"


class ModelError(PrudentError):
    """A model is inconsistent, for instance a row of probabilities that does not sum to one."""

    default_code = "model"


class PosteriorError(PrudentError):
    """The parameters of a prior or posterior are invalid, or do not fit the model."""

    default_code = "posterior"


class DataError(PrudentError):
    """Observed data is invalid or impossible under the model, for instance an unknown state or a NaN."""

    default_code = "data"


class StateFileError(PrudentError):
    """A state file is truncated, damaged, of another kind, or written by a later version of prudent."""

    default_code = "state-file"


class StoreError(PrudentError):
    """An output folder cannot be used: no permission, no space, or another run is writing to it."""

    default_code = "store"


class JournalError(PrudentError):
    """Input or output on a journal failed (disk full, permission, lock timeout, closed). It is safe to retry."""

    default_code = "journal"


class ClusterError(PrudentError):
    """A cluster failed: no scheduler, workers with other software, or workers that died."""

    default_code = "cluster"


class ConformanceError(PrudentError):
    """A class of yours does not keep to the protocol that it is meant for; the code names the rule."""

    default_code = "conformance"


class PrudentWarning(_Coded, UserWarning):
    """Base of every warning that prudent issues.

    Parameters
    ----------
    message : str
        Text for people. It names the argument, the place and the value at fault.
    code : str, optional
        Stable identifier of the fault, in kebab case. The default is the code of the class.
    **fields : object
        The facts behind the message.

    Attributes
    ----------
    code : str
        Stable identifier of the fault.
    fields : dict of str to object
        The facts behind the message, for instance ``{"argument": "alpha", "value": 1.5}``.
    """


class ConvergenceWarning(PrudentWarning):
    """A solver stopped before it reached the tolerance, or an exact row has fewer than ten digits."""

    default_code = "convergence"


class CautionWarning(PrudentWarning):
    """A higher risk level earns less than a lower one, on average and in the tail."""

    default_code = "caution"


class OverlapWarning(PrudentWarning):
    """The log and the policy to be evaluated overlap too little for a reliable estimate."""

    default_code = "overlap"
