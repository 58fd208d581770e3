"""Assert that a call is refused with a stable code and fields, whatever the wording of the message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from prudent.errors import PrudentError, PrudentWarning


@contextmanager
def refused(kind: type[PrudentError], code: str, **fields: Any) -> Iterator[pytest.ExceptionInfo[PrudentError]]:
    """Check that the block raises ``kind`` with this code and, among its fields, these.

    The message must name the argument in question, if there is one.
    """
    with pytest.raises(kind) as caught:
        yield caught
    check(caught.value, code, fields)


@contextmanager
def warned(kind: type[PrudentWarning], code: str, **fields: Any) -> Iterator[Any]:
    """Check that the block issues the warning ``kind`` with this code and, among its fields, these."""
    with pytest.warns(kind) as caught:
        yield caught
    found = [each.message for each in caught if isinstance(each.message, kind) and each.message.code == code]
    assert found, [str(each.message) for each in caught]
    check(found[0], code, fields)


def check(error: Any, code: str, fields: dict[str, Any]) -> None:
    """Compare the code and fields of an error or warning."""
    assert error.code == code, f"code {error.code!r}, expected {code!r}: {error}"
    found = {name: error.fields.get(name, "absent") for name in fields}
    assert found == fields, f"fields {error.fields!r}: {error}"
    argument = error.fields.get("argument")
    assert argument is None or str(argument) in str(error), f"{argument!r} is not named: {error}"
