"""Errors as answers: application/problem+json (RFC 9457) with the codes and fields of prudent."""

from __future__ import annotations

from typing import Any

import msgspec

from ..errors import DataError, JournalError, ParameterError, PrudentError, StateFileError

_STATUS_OF_CODE = {
    "key-reused": 409,
    "slot-exists": 409,
    "slot-changed": 409,
    "slot-paused": 409,
    "slot-archived": 409,
    "unknown-slot": 404,
    "unknown-path": 404,
    "unknown-decision": 404,
    "unknown-experiment": 404,
    "experiment-ended": 409,
    "no-earlier": 409,
    "wrong-method": 405,
    "missing-key": 401,
    "unknown-key": 401,
    "wrong-role": 403,
    "body-too-large": 413,
    "rate-exceeded": 429,
    "not-json": 400,
    "not-http": 400,
    "wrong-host": 403,
    "overloaded": 503,
    "catching-up": 503,
    "starting": 503,
    "stopping": 503,
}
_TITLES = {
    400: "Cannot be read",
    401: "Key missing or unknown",
    403: "Not allowed with this key",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    413: "Body too large",
    422: "Invalid data",
    429: "Too many requests",
    500: "Internal error",
    503: "Store or server away",
}
_PRIVATE = ("path",)  # of the server, of no use to a client


class ServiceError(PrudentError):
    """A request that the service refuses; its code gives the HTTP status.

    Parameters
    ----------
    message : str
        Text for people.
    code : str, optional
        Code of the fault.
    **fields : object
        The facts behind the message.
    """

    default_code = "service"


def status_of(error: BaseException) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, PrudentError):
        if error.code in _STATUS_OF_CODE:
            return _STATUS_OF_CODE[error.code]
        if isinstance(error, JournalError | StateFileError):
            return 503
        if isinstance(error, DataError | ParameterError | ServiceError):
            return 422
    return 503 if isinstance(error, OSError) else 500


def problem_of(error: BaseException, request: str) -> dict[str, Any]:
    """Return the body of a problem+json answer."""
    status = status_of(error)
    code = error.code if isinstance(error, PrudentError) else ("store-away" if status == 503 else "internal")
    detail = str(error) if isinstance(error, PrudentError) else "see the log of the server"
    if status == 503 and isinstance(error, JournalError | StateFileError):
        detail = "the store cannot be used now; see the log of the server, and try again"  # it may name hosts and paths
    fields = error.fields if isinstance(error, PrudentError) else {}
    return {
        "type": f"urn:prudent:error:{code}",
        "title": _TITLES.get(status, "Error"),
        "status": status,
        "detail": detail[:1000],
        "code": code,
        "fields": {name: _plain(value) for name, value in fields.items() if name not in _PRIVATE},
        "instance": request,
    }


def problem_bytes(error: BaseException, request: str) -> tuple[int, bytes]:
    """Return status and body of a problem+json answer."""
    body = problem_of(error, request)
    return body["status"], msgspec.json.encode(body)


def _plain(value: Any) -> Any:
    """Return what JSON can hold."""
    if value is None or isinstance(value, bool | int | str):
        if isinstance(value, int) and abs(value) >= 2**53:
            return str(value)[:200]
        return value[:200] if isinstance(value, str) else value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else repr(value)
    if isinstance(value, list | tuple) and len(value) <= 20:
        return [_plain(one) for one in value]
    return repr(value)[:200]
