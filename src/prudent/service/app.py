"""The web application: paths, keys, limits, answers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import re
import secrets
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ..bandits.decision import Decision
from ..errors import DataError, ParameterError, PrudentError, PrudentWarning
from .auth import Caller, Keys
from .bodies import CopyBody, DecideBatch, DecideBody, RewardBatch, RewardBody, SlotSpec, reader
from .experiment_routes import ExperimentRoutes
from .metrics import Metrics
from .openapi import openapi
from .problems import ServiceError, problem_bytes, problem_of
from .registry import SlotRow
from .slots import Slot, Slots, away
from .summary import summary

_LOG = logging.getLogger("prudent.serve")
_JSON = "application/json"
_PROBLEM = "application/problem+json"
_LOCAL = (b"127.0.0.1", b"localhost", b"[::1]")
_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_encode = msgspec.json.encode
_LINES = 1000  # of an export that are read at a time
_REFRESH = 1.0  # seconds between looks at the registry
_MEASURE = 15.0  # seconds between measurements of pending rewards and findings


@dataclass(frozen=True)
class Limits:
    """Limits of requests."""

    body: int = 1_000_000  # bytes
    arms: int = 1000
    batch: int = 1000
    rate: float = 0.0  # requests a second of a key; 0 is no limit


class Service:
    """Endpoints of a server, over its slots.

    Parameters
    ----------
    slots : Slots
        The slots.
    keys : Keys
        The keys of callers.
    limits : Limits
        Limits of requests.
    """

    def __init__(self, slots: Slots, keys: Keys, limits: Limits) -> None:
        self.slots, self.keys, self.limits = slots, keys, limits
        self.metrics = Metrics()
        self._name, self._count = secrets.token_hex(5), itertools.count(1)  # ids of requests
        self.ready: BaseException | None = ServiceError("the server is starting", code="starting")
        self._tasks: list[asyncio.Task[None]] = []
        self._read_decide, self._read_decides = reader(DecideBody), reader(DecideBatch)
        self._read_reward, self._read_rewards = reader(RewardBody), reader(RewardBatch)
        self._read_spec, self._read_copy = reader(SlotSpec), reader(CopyBody)

    # -- life ----------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def life(self, app: Starlette) -> AsyncIterator[None]:
        """Open the slots, look after them, and close them at the end."""
        await self._look()
        self._tasks = [asyncio.create_task(self._watch()), asyncio.create_task(self._measure())]
        try:
            yield
        finally:
            self.ready = ServiceError("the server is stopping", code="stopping")
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.to_thread(self.slots.close)

    async def _look(self) -> None:
        try:
            await asyncio.to_thread(self.slots.check_store)
            error: Exception | None = None
        except (PrudentError, OSError) as failure:
            error = failure
        except Exception as failure:  # keep watching, and say so
            _LOG.exception(json.dumps({"failed": "watch"}))
            error = failure
        if (error is None) != (self.ready is None):
            state = {"time": round(time.time(), 3), "ready": error is None}
            _LOG.warning(json.dumps(state | ({} if error is None else {"error": str(error)[:500]})))
        self.ready = error

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_REFRESH)
            await self._look()

    async def _measure(self) -> None:
        while True:
            for name, slot in list(self.slots.open.items()):
                try:
                    await asyncio.to_thread(self._measured, name, slot)
                except (PrudentError, OSError):  # readiness says so
                    continue
                except Exception:  # go on with the others, and say so
                    _LOG.exception(json.dumps({"slot": name, "failed": "measure"}))
            await asyncio.sleep(_MEASURE)

    def _measured(self, name: str, slot: Slot) -> None:
        self.slots.experiments.act(slot)
        lag, counts = slot.journal.lag, slot.journal.counts
        self.metrics.child(self.metrics.lag, name).set(lag.entries)
        self.metrics.child(self.metrics.lag_seconds, name).set(lag.seconds)
        self.metrics.child(self.metrics.pending, name).set(max(0, counts["decisions"] - counts["rewards"]))
        self.metrics.found(name, [finding.kind for finding in slot.journal.bandit.check()])

    # -- one request ---------------------------------------------------------------------------------------

    def endpoint(self, role: str | None, work: Callable[[Request], Awaitable[Any]], path: str) -> Any:
        """Return an endpoint that checks the key, answers errors as problems, counts and logs."""
        seconds = self.metrics.seconds.labels(path)

        async def answer(request: Request) -> Response:
            began = time.perf_counter()
            headers = dict(request.scope["headers"])
            given = headers.get(b"x-request-id", b"").decode("latin-1")
            name = given if given and _ID.fullmatch(given) else f"{self._name}{next(self._count):x}"
            caller: Caller | None = None
            error: BaseException | None = None
            try:
                if role is not None:
                    caller = self.keys.caller(headers.get(b"authorization"), role)
                    if self.keys.open:
                        _require_here(headers)
                    request.state.caller = caller
                found = await work(request)
                response = found if isinstance(found, Response) else Response(_encode(found), 200, media_type=_JSON)
            except ClientDisconnect:
                response = Response(status_code=499)  # nobody reads it
            except Exception as failure:
                error = failure
                status, body = problem_bytes(failure, name)
                response = Response(body, status, media_type=_PROBLEM)
                if status == 401:
                    response.headers["www-authenticate"] = "Bearer"
                if status in (429, 503):
                    fields = failure.fields if isinstance(failure, PrudentError) else {}
                    response.headers["retry-after"] = str(fields.get("retry_after", 1))
            response.headers["x-request-id"] = name
            elapsed = time.perf_counter() - began
            seconds.observe(elapsed)
            self.metrics.child(self.metrics.requests, path, str(response.status_code)).inc()
            self._log(request, path, name, caller, response.status_code, elapsed, error)
            if error is not None:
                error.__traceback__ = None  # the same error may be the answer to many requests
            return response

        return answer

    def _log(
        self, request: Request, path: str, name: str, caller: Caller | None, status: int, elapsed: float,
        error: BaseException | None,
    ) -> None:  # fmt: skip
        level = logging.ERROR if status == 500 else logging.WARNING if status == 503 else logging.INFO
        if not _LOG.isEnabledFor(level):
            return
        record = {
            "time": round(time.time(), 3),
            "request": name,
            "method": request.method,
            "path": path,
            "slot": request.path_params.get("slot", "")[:64] or None,
            "key": None if caller is None else caller.name,
            "status": status,
            "ms": round(1000.0 * elapsed, 3),
        }
        if error is not None:
            record["code"] = getattr(error, "code", type(error).__name__)
            if status == 503:
                record["error"] = str(error)[:500]
        _LOG.log(level, json.dumps(record), exc_info=error if status == 500 else None)

    async def body(self, request: Request) -> bytes:
        """Return the body of a request, if it is not too large."""
        most, chunks, size, more = self.limits.body, [], 0, True
        while more and size <= most:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            chunk = message.get("body", b"")
            chunks.append(chunk)
            size += len(chunk)
            more = message.get("more_body", False)
        if size > most:
            text = f"the body is larger than {most} bytes"
            raise ServiceError(text, code="body-too-large", expected=most)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    # -- decisions and rewards -----------------------------------------------------------------------------

    def _checked(self, body: DecideBody) -> dict[str, Any]:
        context = body.context
        several = isinstance(context, list) and bool(context) and isinstance(context[0], list | dict)
        for argument, count in (("arms", len(body.arms or ())), ("context", len(context or ()) if several else 0)):
            if count > self.limits.arms:
                text = f"{argument} holds {count} entries; this server takes {self.limits.arms} at most"
                raise DataError(text, code="too-many-arms", argument=argument, expected=self.limits.arms)
        return {"context": body.context, "arms": body.arms, "top": body.top, "key": body.key, "note": body.note}

    def _deciding(self, request: Request) -> Slot:
        slot = self.slots.find(request.path_params["slot"])
        if slot.row.state == "paused":
            text = f"slot {slot.row.name!r} is paused: it takes rewards and no decisions"
            raise ServiceError(text, code="slot-paused", slot=slot.row.name)
        return slot

    def _answer(self, slot: Slot, body: DecideBody, found: Any) -> dict[str, Any] | BaseException:
        """Return the answer for a decision or an error; of a store that is away the fallback arm."""
        if not isinstance(found, Decision):
            fallback = self._fallback(slot.row, slot.spec, body) if away(found) else None
            return found if fallback is None else fallback
        items = found.ids is not None
        self.metrics.decided(slot.row.name, "" if items else found.arm, "decided", found.propensity)
        answer = {"id": found.id, "arm": found.arm, "propensity": found.propensity}
        if found.ids is not None:
            answer |= {"slate": list(found.slate), "ids": list(found.ids)}
        if body.detail:
            details = found.to_dict()
            answer |= {key: details[key] for key in ("time", "context", "arms", "score", "version")}
            if items:
                answer |= {key: details[key] for key in ("scores", "candidates")}
        return answer

    def _fallback(self, row: SlotRow, spec: SlotSpec, body: DecideBody) -> dict[str, Any] | None:
        """Return the answer with the fallback arm of an active slot; None if it has none that is eligible."""
        arm = spec.fallback
        if arm is None or row.state != "active" or (body.arms is not None and arm not in body.arms):
            return None
        self.metrics.decided(row.name, arm, "fallback", None)
        return {"id": None, "arm": arm, "propensity": 1.0, "fallback": True}

    async def decide(self, request: Request) -> Any:
        """Decide for one request."""
        body: DecideBody = self._read_decide(await self.body(request))
        (answer,) = await self._decided(request, [body])
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def decide_batch(self, request: Request) -> Any:
        """Decide for several requests, each of which has an answer of its own."""
        bodies = self._read_decides(await self.body(request)).requests
        self._require_batch(len(bodies), "requests")
        return {"decisions": [_or_problem(one) for one in await self._decided(request, bodies)]}

    async def _decided(self, request: Request, bodies: list[DecideBody]) -> list[dict[str, Any] | BaseException]:
        """Return the answers to requests for decisions: all decisions go through here."""
        asked = [self._checked(body) for body in bodies]
        try:
            slot = self._deciding(request)
        except (PrudentError, OSError) as error:  # the journal could not be opened, say
            row = self.slots.rows.get(request.path_params["slot"])
            if row is None or not away(error):
                raise
            spec = msgspec.json.decode(row.spec, type=SlotSpec)
            return [self._fallback(row, spec, body) or error for body in bodies]
        found = await slot.submit("decide", asked)
        return [self._answer(slot, body, one) for body, one in zip(bodies, found, strict=True)]

    async def reward(self, request: Request) -> Any:
        """Take one reward."""
        (status,) = await self._rewarded(request, [self._read_reward(await self.body(request))])
        if isinstance(status, BaseException):
            raise status
        return {"status": status}

    async def reward_batch(self, request: Request) -> Any:
        """Take several rewards, each of which has an answer of its own."""
        bodies = self._read_rewards(await self.body(request)).rewards
        self._require_batch(len(bodies), "rewards")
        found = await self._rewarded(request, bodies)
        return {"answers": [{"status": one} if isinstance(one, str) else _or_problem(one) for one in found]}

    async def _rewarded(self, request: Request, bodies: list[RewardBody]) -> list[str | BaseException]:
        """Return the statuses of rewards: all rewards go through here."""
        slot = self.slots.find(request.path_params["slot"])
        found: list[str | BaseException] = await slot.submit("reward", [(b.id, b.reward, b.metric) for b in bodies])
        for one in found:
            status = one if isinstance(one, str) else getattr(one, "code", "error")
            self.metrics.child(self.metrics.rewards, slot.row.name, status).inc()
        return found

    def _require_batch(self, size: int, argument: str) -> None:
        if size > self.limits.batch:
            text = f"{argument} holds {size} entries; this server takes {self.limits.batch} at most"
            raise DataError(text, code="batch-too-large", argument=argument, expected=self.limits.batch)

    # -- slots ---------------------------------------------------------------------------------------------

    async def put_slot(self, request: Request) -> Any:
        """Create or change a slot."""
        spec = self._read_spec(await self.body(request))
        row, new = await asyncio.to_thread(self.slots.put, request.path_params["slot"], spec)
        return Response(_encode(self.slots.describe(row)), 201 if new else 200, media_type=_JSON)

    async def get_slots(self, request: Request) -> Any:
        """List the slots."""
        return {"slots": [self.slots.describe(row) for row in self.slots.rows.values()]}

    async def get_slot(self, request: Request) -> Any:
        """Describe a slot."""
        return self.slots.describe(self.slots.row(request.path_params["slot"]))

    def changing(self, state: str) -> Callable[[Request], Awaitable[Any]]:
        """Return an endpoint that gives a slot a state."""

        async def change(request: Request) -> Any:
            row = await asyncio.to_thread(self.slots.set_state, request.path_params["slot"], state)
            return self.slots.describe(row)

        return change

    async def copy_slot(self, request: Request) -> Any:
        """Copy what a slot has learned to a new one."""
        body = self._read_copy(await self.body(request))
        row = await asyncio.to_thread(self.slots.copy, request.path_params["slot"], body.to)
        return Response(_encode(self.slots.describe(row)), 201, media_type=_JSON)

    # -- what is known -------------------------------------------------------------------------------------

    async def explain(self, request: Request) -> Any:
        """Explain a decision."""
        slot = self.slots.find(request.path_params["slot"])
        journal, id = self.slots.experiments.locate(slot, request.path_params["id"])
        why = await asyncio.to_thread(journal.explain, id)
        table = await asyncio.to_thread(lambda: why.arms_to_pandas().reset_index())
        return {"id": request.path_params["id"], "text": str(why), "arms": json.loads(table.to_json(orient="records"))}

    async def check(self, request: Request) -> Any:
        """Return the findings of check."""
        journal = self.slots.find(request.path_params["slot"]).journal
        found = await asyncio.to_thread(lambda: journal.bandit.check())
        return {"rewards": found.rewards, "findings": [one._asdict() for one in found]}

    async def summary(self, request: Request) -> Any:
        """Return what the page shows."""
        journal = self.slots.find(request.path_params["slot"]).journal
        text = request.query_params.get("hours", "24")
        try:
            hours = float(text)
        except ValueError:
            hours = float("nan")
        if not 0.0 < hours <= 1e6:
            raise ParameterError(f"hours must be a positive number, got {text[:50]!r}", code="hours", argument="hours")
        return await asyncio.to_thread(summary, journal, hours)

    async def export(self, request: Request) -> Any:
        """Return all decisions as JSON lines."""
        journal = self.slots.find(request.path_params["slot"]).journal
        text = request.query_params.get("since")
        try:
            since = None if text is None else float(text)
        except ValueError:
            raise ParameterError(
                f"since must be seconds since 1970, got {text!r:.50}", code="since", argument="since"
            ) from None
        rows: Any = journal.rows(since=since, damaged="skip")

        def some() -> bytes:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrudentWarning)  # of damaged rows, which are left out
                return b"".join(json.dumps(row).encode() + b"\n" for row in itertools.islice(rows, _LINES))

        first = await asyncio.to_thread(some)  # an error of the store is answered as one

        async def lines() -> AsyncIterator[bytes]:
            chunk = first
            try:
                while chunk:
                    yield chunk
                    chunk = await asyncio.to_thread(some)
            finally:
                rows.close()

        return StreamingResponse(lines(), media_type="application/jsonl")

    async def healthz(self, request: Request) -> Any:
        """Say that the process answers: the empty endpoint."""
        return Response(b'{"status":"ok"}', media_type=_JSON)

    async def readyz(self, request: Request) -> Any:
        """Say whether decisions can be taken: kernels compiled, replicas caught up, store writable."""
        if self.ready is not None:
            raise self.ready
        if self.slots.failing():
            raise ServiceError("the store of a slot is away", code="store-away")
        return {"status": "ready", "slots": len(self.slots.open), "keys": self.keys.failure or "ok"}

    async def show_metrics(self, request: Request) -> Any:
        """Return metrics."""
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def show_openapi(self, request: Request) -> Any:
        """Return the description of this interface."""
        return openapi(self.limits.batch)

    async def page(self, request: Request) -> Any:
        """Return the web page and its files."""
        name = request.path_params.get("file", "index.html")
        kinds = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
        if name not in _FILES:
            raise ServiceError(f"there is no file {name[:60]!r}", code="unknown-path")
        response = Response(_FILES[name], media_type=kinds[name.rpartition(".")[2]])
        response.headers["content-security-policy"] = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'"
        response.headers["x-content-type-options"] = "nosniff"
        response.headers["referrer-policy"] = "no-referrer"
        return response


def _read_files() -> dict[str, bytes]:
    folder = files("prudent.service") / "page"
    names = ("index.html", "page.css", "page.js", "experiment.js")
    return {name: (folder / name).read_bytes() for name in names}


_FILES = _read_files()


def _or_problem(found: Any) -> Any:
    return {"error": problem_of(found, "")} if isinstance(found, BaseException) else found


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


def application(slots: Slots, keys: Keys, limits: Limits | None = None) -> Starlette:
    """Return the ASGI application of a server."""
    service = Service(slots, keys, limits or Limits())
    one = "/v1/slots/{slot}"
    table: list[tuple[str, str, str | None, Callable[[Request], Awaitable[Any]]]] = [
        ("POST", f"{one}/decide", "decide", service.decide),
        ("POST", f"{one}/reward", "reward", service.reward),
        ("GET", "/healthz", None, service.healthz),
        ("POST", f"{one}/decide/batch", "decide", service.decide_batch),
        ("POST", f"{one}/reward/batch", "reward", service.reward_batch),
        ("GET", "/readyz", None, service.readyz),
        ("GET", "/metrics", "read", service.show_metrics),
        ("GET", "/openapi.json", None, service.show_openapi),
        ("GET", "/v1/slots", "read", service.get_slots),
        ("PUT", one, "admin", service.put_slot),
        ("GET", one, "read", service.get_slot),
        ("POST", f"{one}/pause", "admin", service.changing("paused")),
        ("POST", f"{one}/archive", "admin", service.changing("archived")),
        ("POST", f"{one}/restore", "admin", service.changing("active")),
        ("POST", f"{one}/copy", "admin", service.copy_slot),
        ("GET", one + "/explain/{id}", "read", service.explain),
        ("GET", f"{one}/check", "read", service.check),
        ("GET", f"{one}/summary", "read", service.summary),
        ("GET", f"{one}/export", "admin", service.export),
        ("GET", "/", None, service.page),
        ("GET", "/page/{file}", None, service.page),
        *ExperimentRoutes(slots.find, slots.experiments, service.body, slots.refresh).table(),
    ]
    by_path: dict[str, dict[str, Any]] = {}
    for method, path, role, work in table:
        by_path.setdefault(path, {})[method] = service.endpoint(role, work, path)

    async def other(request: Request) -> Any:
        raise ServiceError(f"there is no path {request.url.path[:100]!r}", code="unknown-path")

    async def wrong(request: Request) -> Any:
        text = f"{request.method[:20]} is not a method of {request.url.path[:100]}"
        raise ServiceError(text, code="wrong-method", value=request.method[:20])

    not_allowed = service.endpoint(None, wrong, "wrong method")

    def route(path: str, methods: dict[str, Any]) -> Route:
        async def dispatch(request: Request) -> Response:
            method = "GET" if request.method == "HEAD" else request.method
            response: Response = await methods.get(method, not_allowed)(request)
            if response.status_code == 405:
                response.headers["allow"] = ", ".join(methods)
            return response

        found = Route(path, dispatch)
        found.methods = None  # all of them: what is not allowed is answered as a problem
        return found

    routes = [route(path, methods) for path, methods in by_path.items()]
    rest = Route("/{path:path}", service.endpoint(None, other, "unknown"))
    rest.methods = None
    app = Starlette(routes=[*routes, rest], lifespan=service.life)
    app.state.service = service
    return app
