"""One request: who sends it, its answer or problem, its count and its line in the log."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..errors import PrudentError
from .auth import Caller, Keys
from .metrics import Metrics
from .problems import ServiceError, problem_bytes
from .slots import Slots

Work = Callable[[Request], Awaitable[Any]]
_LOG = logging.getLogger("prudent.serve")
_LOCAL = (b"127.0.0.1", b"localhost", b"[::1]")
_ID = re.compile(rb"[A-Za-z0-9_.-]{1,64}")
_JSON = (b"content-type", b"application/json")
_PROBLEM = (b"content-type", b"application/problem+json")
_PAUSE = 0.25  # seconds between searches for slots that are not known
_encode = msgspec.json.encode


class Requests:
    """What the requests of a server share.

    Parameters
    ----------
    keys : Keys
        The keys of callers.
    metrics : Metrics
        Where they are counted.
    slots : Slots
        The slots of the server.
    largest : int
        Bytes of a body, at most.
    """

    def __init__(self, keys: Keys, metrics: Metrics, slots: Slots, largest: int) -> None:
        self.keys, self.metrics, self.slots, self._largest = keys, metrics, slots, largest
        self._name, self._count = secrets.token_hex(5), itertools.count(1)
        self._search: asyncio.Task[None] | None = None
        self._searched = 0.0

    def name(self, headers: dict[bytes, bytes]) -> bytes:
        """Return the id of a request: the one that it has, or a new one."""
        given = headers.get(b"x-request-id")
        if given is not None and _ID.fullmatch(given):
            return given
        return f"{self._name}{next(self._count):x}".encode()

    async def search(self) -> None:
        """Read the registry now, for a slot that is not known: another server may just have made it.

        Requests that ask meanwhile wait for the same look, and there is one every quarter of a second at most.
        """
        if self._search is None or (self._search.done() and time.monotonic() - self._searched > _PAUSE):
            self._searched = time.monotonic()
            self._search = asyncio.create_task(asyncio.to_thread(self.slots.refresh))
        with suppress(PrudentError, OSError):  # readiness says so
            await asyncio.shield(self._search)

    async def body(self, request: Request) -> bytes:
        """Return the body of a request, if it is not too large."""
        message = await request.receive()
        if not message.get("more_body") and message["type"] == "http.request":  # the usual case: one part
            body: bytes = message.get("body", b"")
        else:
            parts, size = [], 0
            while size <= self._largest:
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if not message.get("more_body", False):
                    break
                message = await request.receive()
            body = b"".join(parts)
        if len(body) > self._largest:
            text = f"the body is larger than {self._largest} bytes"
            raise ServiceError(text, code="body-too-large", expected=self._largest)
        return body


class Endpoint:
    """An ASGI application that checks the key, answers errors as problems, counts and logs.

    Parameters
    ----------
    requests : Requests
        What the requests of a server share.
    role : str or None
        Role that the key must have; None asks for no key.
    work : callable
        Returns a response, or what its body holds, for a request.
    path : str
        Path in metrics and logs.
    """

    def __init__(self, requests: Requests, role: str | None, work: Work, path: str) -> None:
        self._requests, self._role, self._work, self._path = requests, role, work, path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        began, shared = time.perf_counter(), self._requests
        headers = dict(scope["headers"])
        name = shared.name(headers)
        error: BaseException | None = None
        response: Response | None = None
        sent = [(b"x-request-id", name)]
        scope["caller"] = None
        try:
            if self._role is not None:
                scope["caller"] = shared.keys.caller(headers.get(b"authorization"), self._role)
                if shared.keys.open:
                    _require_here(headers)
                slot = scope["path_params"].get("slot")
                if slot is not None and slot not in shared.slots.rows:
                    await shared.search()
            found = await self._work(Request(scope, receive))
            if isinstance(found, Response):
                response, status = found, found.status_code
                response.raw_headers.extend(sent)
            else:
                status, body = 200, _encode(found)
                sent.append(_JSON)
        except ClientDisconnect:
            status, body = 499, b""  # nobody reads it
        except Exception as failure:
            error = failure
            status, body = problem_bytes(failure, name.decode())
            sent += [_PROBLEM, *_more_headers(status, failure)]
        elapsed = time.perf_counter() - began
        shared.metrics.answered(self._path, status, elapsed)
        level = logging.ERROR if status == 500 else logging.WARNING if status == 503 else logging.INFO
        if _LOG.isEnabledFor(level):
            _LOG.log(level, self._line(scope, name, status, elapsed, error), exc_info=error if status == 500 else None)
        if error is not None:
            error.__traceback__ = None  # the same error may be the answer to many requests
        if response is not None:
            await response(scope, receive, send)
            return
        sent.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": status, "headers": sent})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def _line(self, scope: Scope, name: bytes, status: int, elapsed: float, error: BaseException | None) -> str:
        """Return a line of the log, without keys and bodies."""
        caller: Caller | None = scope["caller"]
        record = {
            "time": round(time.time(), 3),
            "request": name.decode(),
            "method": scope["method"],
            "path": self._path,
            "slot": scope.get("path_params", {}).get("slot", "")[:64] or None,
            "key": None if caller is None else caller.name,
            "status": status,
            "ms": round(1000.0 * elapsed, 3),
        }
        if error is not None:
            record["code"] = getattr(error, "code", type(error).__name__)
            if status == 503:
                record["error"] = str(error)[:500]
        return json.dumps(record)


def _more_headers(status: int, error: BaseException) -> list[tuple[bytes, bytes]]:
    """Return the headers that a status asks for."""
    fields: dict[str, Any] = error.fields if isinstance(error, PrudentError) else {}
    if status == 401:
        return [(b"www-authenticate", b"Bearer")]
    if status in (429, 503):
        return [(b"retry-after", str(fields.get("retry_after", 1)).encode())]
    return [(b"allow", ", ".join(map(str, cast(Any, fields["expected"]))).encode())] if status == 405 else []


def _require_here(headers: dict[bytes, bytes]) -> None:
    """Raise unless a request without a key comes from a program of this machine, and not from a page of another site.

    A browser tells the name that it asked for, and the site of the page that asks.
    """
    given = headers.get(b"host", b"")
    host = given.rpartition(b":")[0] or given
    if host not in _LOCAL or headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
        shown = host[:60].decode("latin-1")
        text = f"this server has no keys: it answers requests to 127.0.0.1 or localhost only, got {shown!r}"
        raise ServiceError(text, code="wrong-host", value=shown)
