"""The process of ``prudent serve``: options, logs, signals, the event loop."""

from __future__ import annotations

import gc
import ipaddress
import json
import logging
import secrets
import signal
import socket
import sys
import time
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .._support.checks import one_of, positive
from .._support.toml import read_toml
from ..errors import ParameterError
from ..types import PathLike
from .app import Limits, application
from .auth import Keys
from .problems import ServiceError, problem_bytes
from .registry import Registry
from .slots import Slots

_LOG = logging.getLogger("prudent.serve")
_YOUNG = 20_000  # objects that are made before cycles among them are looked for: requests leave few
_SWITCH = 0.002  # seconds after which a thread that decides lets the event loop run


def serve(
    store: str,
    host: str = "127.0.0.1",
    port: int = 8000,
    keys: PathLike | None = None,
    *,
    synchronous: str = "FULL",
    timeout: float = 5.0,
    limits: Limits | None = None,
    log_level: str = "info",
) -> None:
    """Serve until SIGTERM or SIGINT; see ``prudent serve --help``."""
    if keys is None and not _is_loopback(host):
        text = f"host {host} can be reached from other machines: give keys, or serve on 127.0.0.1"
        raise ParameterError(text, code="missing-keys", argument="keys", value=host)
    one_of(synchronous, "synchronous", ("FULL", "NORMAL"))
    one_of(log_level, "log_level", ("debug", "info", "warning", "error", "critical"))
    positive(timeout, "timeout")
    _log_to_stderr(log_level)
    _require_free(host, port)
    limits = limits or Limits()
    known = Keys(keys, limits.rate)
    slots = Slots(Registry(store, synchronous, timeout), limits.arms)
    app = application(slots, known, limits)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: known.reload())
    sys.setswitchinterval(_SWITCH)
    options: dict[str, Any] = {"log_config": None, "access_log": False, "server_header": False, "date_header": False}
    options |= {"proxy_headers": False, "http": _Protocol}
    config = uvicorn.Config(app, host, port, lifespan="on", timeout_graceful_shutdown=10, backlog=1024, **options)
    _Server(config).run()


class _Protocol(HttpToolsProtocol):
    """The protocol of a connection; what is no HTTP is answered as a problem."""

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be read as a request, and close the connection."""
        name = secrets.token_hex(8)
        status, body = problem_bytes(ServiceError("this is not a request of HTTP/1.1", code="not-http"), name)
        head = f"HTTP/1.1 {status} Bad Request\r\nx-request-id: {name}\r\ncontent-type: application/problem+json\r\n"
        head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        line = {"time": round(time.time(), 3), "request": name, "status": status, "code": "not-http"}
        _LOG.info(json.dumps(line))
        self.transport.write(head.encode() + body)
        self.transport.close()


class _Server(uvicorn.Server):
    """The server; it says where it listens."""

    async def startup(self, sockets: Any = None) -> None:
        """Open the slots and listen."""
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # what is there now stays until the end
        gc.set_threshold(_YOUNG)
        if self.started:
            where = f"http://{self.config.host}:{self.config.port}"
            _LOG.warning(json.dumps({"time": round(time.time(), 3), "listening": where}))


def read_config(path: PathLike) -> dict[str, Any]:
    """Return the options of a file: those of ``prudent serve``, and a table [limits]."""
    try:
        table = read_toml(path)
    except (OSError, ValueError) as error:
        reason = f"it is not TOML: {error}" if isinstance(error, ValueError) else error.strerror or str(error)
        raise ParameterError(f"{path}: {reason}", code="config-file", argument="config") from None
    limits = table.pop("limits", {})
    known = {
        "store": str,
        "host": str,
        "port": int,
        "keys": str,
        "synchronous": str,
        "timeout": float,
        "log_level": str,
    }
    allowed = {"body": int, "arms": int, "batch": int, "rate": float}
    for found, names, place in ((table, known, ""), (limits, allowed, "limits.")):
        for name, value in found.items():
            kind = names.get(name)
            right = isinstance(value, (int, float) if kind is float else kind or ()) and not isinstance(value, bool)
            if not right or (place and value < 0):
                text = f"{path}: {place}{name} = {value!r} is not an option; there are {', '.join(names)}"
                raise ParameterError(text, code="config-file", argument="config", value=name)
    return {**table, "limits": Limits(**limits)}


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _require_free(host: str, port: int) -> None:
    """Raise unless a server can listen there; it looks before the slots are opened."""
    if not 0 < port < 2**16:  # the system would take the rest of a division
        raise ParameterError(
            f"port must be from 1 to {2**16 - 1}, got {port}", code="port", argument="port", value=port
        )
    try:
        for family, kind, number, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            with socket.socket(family, kind, number) as found:
                found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                found.bind(address)
    except (OSError, OverflowError) as error:
        text = f"cannot listen on port {port} of {host}: {error}"
        raise ParameterError(text, code="port", argument="port", value=port) from None


def _log_to_stderr(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("prudent.serve")
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(level.upper())
    below = logging.StreamHandler(sys.stderr)
    below.setFormatter(_Lines())
    logging.captureWarnings(True)
    for name in ("uvicorn.error", "psycopg", "py.warnings"):
        other = logging.getLogger(name)
        other.handlers, other.propagate = [below], False
        other.setLevel(max(logging.WARNING, logger.level))


class _Lines(logging.Formatter):
    """What the HTTP server, the driver of the database and warnings say, as lines of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a line."""
        told = {"time": round(record.created, 3), "from": record.name, "said": record.getMessage()[:500]}
        return json.dumps(told | ({"error": self.formatException(record.exc_info)} if record.exc_info else {}))
