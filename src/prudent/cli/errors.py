"""Errors of the library in terms of the command line.

The library names its arguments. The codes and the fields of an error tell which option is meant, and which would help.
"""

from __future__ import annotations

import shlex
from typing import Any

from ..errors import PrudentError
from .log_options import LOG_OPTIONS, name_and_number

OPTIONS = {
    "names": "EXPERIMENT",
    "rng": "--seed",
    "min_visits": "--baseline-min-count",
    "epsilon": "--baseline-epsilon",
} | {
    argument: f"--{argument.replace('_', '-')}"
    for argument in ("scale", "workers", "chunk", "cluster", "draws", "observations", *LOG_OPTIONS)
}
"""Options by the arguments of the library that they become."""


def in_options(error: PrudentError) -> str:
    """Return the message of an error with options in place of arguments, and the options that would help.

    Parameters
    ----------
    error : PrudentError
        Error of the library.

    Returns
    -------
    str
        The message.

    Examples
    --------
    >>> from prudent.errors import DataError, ParameterError
    >>> in_options(ParameterError("min_count must be positive", argument="min_count"))
    '--min-count must be positive'
    >>> in_options(DataError("log.csv has no column 'action'", code="missing-column", column="action"))
    "log.csv has no column 'action' (on the command line: --columns action=NAME)"
    """
    message, fields = str(error), error.fields
    argument, column = str(fields.get("argument", "")), fields.get("column")
    if argument in OPTIONS and message.startswith(argument):
        message = OPTIONS[argument] + message[len(argument) :]
    hint = ""
    if error.code == "missing-column" and column == "reward":
        hint = "--rewards 0, --rewards FILE or --columns reward=NAME"
    elif error.code == "missing-column" and column == "state":
        hint = "--columns state=NAME, or --features NAME,NAME,..."
    elif error.code == "gap":
        hint = "--gaps cut, --gaps fill, --gaps duration, or --duration COLUMN"
    elif error.code == "missing-column" and "group" in (argument, column):
        hint = "--group COLUMN=NAME"
    elif error.code == "missing-column" and argument != "rewards":
        hint = f"--columns {fields.get('role', column)}=NAME"
    elif error.code == "missing-value" and column == "next_state":
        hint = "--end NAME"
    elif error.code == "dead-end":
        names = _names(fields["states"])
        hint = f"--terminal {names} if the process ends there, or --absorbing {names} if it stays; STATE=VALUE adds "
        hint += "what that is worth; --truncated drop or --truncated mean if the log stops before the process does"
    elif error.code == "feature-role":
        hint = f"--columns {fields['role']}=NAME"
    elif error.code == "measured-states":
        hint = "--features NAME,NAME,..., or --states 'as they are'"
    return f"{message} (on the command line: {hint})" if hint else message


def _names(states: Any) -> str:
    """Return names of states as the value of an option, quoted for a shell."""
    texts = [f"{name}=0" if name_and_number(str(name))[1] is not None else str(name) for name in states]
    return shlex.quote(",".join(f'"{text}"' if "," in text else text for text in texts))
