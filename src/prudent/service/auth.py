"""Keys of callers: roles, hashes, rotation without restart, and a limit of requests a second.

The file is TOML::

    [keys]
    decide = "a long random text"                    # role = key
    shop = {role = ["decide", "reward"], key = "..."}
    ops = {role = "admin", sha256 = "64 hexadecimal digits"}

Only SHA-256 digests are kept in memory. A presented key is hashed, and its digest is compared with all others in
constant time. The file is read again when it changes, at most a second later; a file that cannot be read leaves the old
keys in force.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import time
from typing import Any, NamedTuple

from .._support.toml import read_toml
from ..errors import ParameterError
from ..types import PathLike
from .problems import ServiceError

_LOG = logging.getLogger("prudent.serve")
ROLES = ("read", "decide", "reward", "admin")
_LOOK = 1.0  # seconds between looks at the file


class Caller(NamedTuple):
    """Who sends a request: the name of the key and its roles."""

    name: str
    roles: frozenset[str]


_ANYBODY = Caller("anybody", frozenset(ROLES))


class Keys:
    """The keys of a file.

    Parameters
    ----------
    path : path-like or None
        The file; None lets everybody do everything.
    rate : float, default=0
        Requests a second of one key, on average over a second; 0 is no limit.
    """

    def __init__(self, path: PathLike | None, rate: float = 0.0) -> None:
        self._path, self._rate = path, rate
        self._known: list[tuple[bytes, Caller]] = []
        self._stamp: Any = None
        self._looked = time.monotonic()
        self._tokens: dict[str, tuple[float, float]] = {}
        self.failure: str | None = None
        if path is not None:
            self._stamp = self._stamp_of() if os.path.exists(path) else None
            self._known = read_keys(path)

    @property
    def open(self) -> bool:
        """Whether there are no keys: everybody may do everything."""
        return self._path is None

    def _stamp_of(self) -> Any:
        assert self._path is not None
        found = os.stat(self._path)
        return found.st_mtime_ns, found.st_size, found.st_ino

    def reload(self) -> None:
        """Read the file again; keep the old keys if it cannot be read."""
        if self._path is None:
            return
        try:
            stamp = self._stamp_of()
            self._known, self._stamp, self.failure = read_keys(self._path), stamp, None
            _LOG.warning(json.dumps({"time": round(time.time(), 3), "keys": "read", "count": len(self._known)}))
        except (OSError, ParameterError) as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Keep the old keys, and say why, once."""
        if self.failure != str(error):
            _LOG.error(json.dumps({"time": round(time.time(), 3), "keys": "kept", "error": str(error)[:500]}))
        self.failure = str(error)

    def look(self) -> None:
        """Read the file again if it has changed, at most once a second."""
        now = time.monotonic()
        if self._path is None or now - self._looked <= _LOOK:
            return
        self._looked = now
        try:
            if self._stamp_of() != self._stamp:
                self.reload()
        except OSError as error:
            self._fail(error)

    def caller(self, header: bytes | None, role: str) -> Caller:
        """Return who sent a request with this header; raise unless the key has the role."""
        if self._path is None:
            caller = _ANYBODY
        else:
            self.look()
            caller = self._found(header)
        if role not in caller.roles and "admin" not in caller.roles:
            text = f"this key has the role {', '.join(sorted(caller.roles))}; the request needs {role}"
            raise ServiceError(text, code="wrong-role", expected=role)
        if self._rate:
            self._spend(caller.name)
        return caller

    def _found(self, header: bytes | None) -> Caller:
        if header is None or header[:7].lower() != b"bearer ":
            text = "send a key in the header Authorization: Bearer KEY"
            raise ServiceError(text, code="missing-key")
        digest = hashlib.sha256(header[7:].strip()).digest()
        caller = None
        for known, one in self._known:  # all of them, so that the time tells nothing
            if hmac.compare_digest(known, digest):
                caller = one
        if caller is None:
            raise ServiceError("this key is not known", code="unknown-key")
        return caller

    def _spend(self, name: str) -> None:
        """Take a token from the bucket of a key, which holds those of a second."""
        now = time.monotonic()
        tokens, since = self._tokens.get(name, (max(1.0, self._rate), now))
        tokens = min(max(1.0, self._rate), tokens + (now - since) * self._rate)
        if tokens < 1.0:
            self._tokens[name] = (tokens, now)
            text = f"more than {self._rate:g} requests a second with this key; try again later"
            raise ServiceError(text, code="rate-exceeded", retry_after=max(1, round((1.0 - tokens) / self._rate)))
        self._tokens[name] = (tokens - 1.0, now)


def read_keys(path: PathLike) -> list[tuple[bytes, Caller]]:
    """Return digests and callers of a file of keys."""

    def wrong(text: str, **fields: Any) -> ParameterError:
        return ParameterError(f"{os.fspath(path)}: {text}", code="keys-file", argument="keys", **fields)

    try:
        table = read_toml(path).get("keys")
    except OSError as error:
        raise wrong(f"it cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise wrong(f"it is not TOML: {error}") from None
    if not isinstance(table, dict) or not table:
        raise wrong('it has no table [keys] with lines such as decide = "KEY"')
    found: list[tuple[bytes, Caller]] = []
    for name, given in table.items():
        entry = {"role": name, "key": given} if isinstance(given, str) else given
        if not isinstance(entry, dict) or len({"key", "sha256"} & set(entry)) != 1 or set(entry) - {
            "role", "key", "sha256"
        }:  # fmt: skip
            raise wrong(f"keys.{name} must be a key or have role and either key or sha256", value=name)
        roles = entry.get("role", name)
        roles = [roles] if isinstance(roles, str) else roles
        if not isinstance(roles, list) or not roles or not all(role in ROLES for role in roles):
            raise wrong(f"the role of keys.{name} must be of {', '.join(ROLES)}", value=name)
        text = entry.get("key", entry.get("sha256"))
        if not isinstance(text, str) or len(text) < 1:
            raise wrong(f"keys.{name} must hold a text", value=name)
        try:
            digest = hashlib.sha256(text.encode()).digest() if "key" in entry else bytes.fromhex(text)
        except ValueError:
            digest = b""
        if len(digest) != 32:
            raise wrong(f"keys.{name}.sha256 must be 64 hexadecimal digits", value=name)
        if any(digest == known for known, _ in found):
            raise wrong(f"keys.{name} has the key of another line", value=name)
        found.append((digest, Caller(name, frozenset(roles))))
    return found
