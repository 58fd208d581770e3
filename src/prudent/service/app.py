"""The web application: paths, keys, limits, answers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ..bandits.decision import Decision
from ..errors import DataError, ParameterError, PrudentError, PrudentWarning
from .auth import Keys
from .bodies import CopyBody, DecideBatch, DecideBody, RewardBatch, RewardBody, SlotSpec, reader
from .experiment_routes import ExperimentRoutes
from .metrics import Metrics
from .openapi import openapi
from .problems import ServiceError, problem_of
from .registry import SlotRow
from .requests import Endpoint, Requests
from .slots import Slot, Slots, away
from .summary import summary

_LOG = logging.getLogger("prudent.serve")
_JSON = "application/json"
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
        self.requests = Requests(keys, self.metrics, slots, limits.body)
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
        pending = max(0, counts["decisions"] - counts["rewards"])
        kinds = [finding.kind for finding in slot.journal.bandit.check()]
        self.metrics.measured(name, lag.entries, lag.seconds, pending, kinds)

    # -- decisions and rewards -----------------------------------------------------------------------------

    def _checked(self, body: DecideBody) -> dict[str, Any]:
        context, arms, most = body.context, body.arms, self.limits.arms
        if arms is not None and len(arms) > most:
            raise _too_many("arms", len(arms), most)
        if type(context) is list and len(context) > most and isinstance(context[0], list | dict):
            raise _too_many("context", len(context), most)
        if arms is None and body.top is None and body.key is None and body.note is None:
            return {"context": context}
        return {"context": context, "arms": arms, "top": body.top, "key": body.key, "note": body.note}

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
        items, arm, propensity = found.ids is not None, found.arm, found.propensity
        self.metrics.decided(slot.row.name, "" if items else arm, "decided", propensity)
        answer = {"id": found.id, "arm": arm, "propensity": propensity}
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
        body: DecideBody = self._read_decide(await self.requests.body(request))
        (answer,) = await self._decided(request, [body])
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def decide_batch(self, request: Request) -> Any:
        """Decide for several requests, each of which has an answer of its own."""
        bodies = self._read_decides(await self.requests.body(request)).requests
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
        (status,) = await self._rewarded(request, [self._read_reward(await self.requests.body(request))])
        if isinstance(status, BaseException):
            raise status
        return {"status": status}

    async def reward_batch(self, request: Request) -> Any:
        """Take several rewards, each of which has an answer of its own."""
        bodies = self._read_rewards(await self.requests.body(request)).rewards
        self._require_batch(len(bodies), "rewards")
        found = await self._rewarded(request, bodies)
        return {"answers": [{"status": one} if isinstance(one, str) else _or_problem(one) for one in found]}

    async def _rewarded(self, request: Request, bodies: list[RewardBody]) -> list[str | BaseException]:
        """Return the statuses of rewards: all rewards go through here."""
        slot = self.slots.find(request.path_params["slot"])
        found: list[str | BaseException] = await slot.submit("reward", [(b.id, b.reward, b.metric) for b in bodies])
        for one in found:
            status = one if isinstance(one, str) else getattr(one, "code", "error")
            self.metrics.rewarded(slot.row.name, status)
        return found

    def _require_batch(self, size: int, argument: str) -> None:
        if size > self.limits.batch:
            text = f"{argument} holds {size} entries; this server takes {self.limits.batch} at most"
            raise DataError(text, code="batch-too-large", argument=argument, expected=self.limits.batch)

    # -- slots ---------------------------------------------------------------------------------------------

    async def put_slot(self, request: Request) -> Any:
        """Create or change a slot."""
        spec = self._read_spec(await self.requests.body(request))
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
        body = self._read_copy(await self.requests.body(request))
        row = await asyncio.to_thread(self.slots.copy, request.path_params["slot"], body.to)
        return Response(_encode(self.slots.describe(row)), 201, media_type=_JSON)

    # -- what is known -------------------------------------------------------------------------------------

    async def explain(self, request: Request) -> Any:
        """Explain a decision."""
        slot, id = self.slots.find(request.path_params["slot"]), request.path_params["id"]
        try:
            why = await asyncio.to_thread(slot.decider.explain, id)
        except ParameterError as error:
            if error.code != "unknown-decision":
                raise
            text = f"slot {slot.row.name!r} has no decision {id[:60]!r}: it was dropped, or is of another slot"
            raise ServiceError(text, code="unknown-decision", argument="id", value=id[:60]) from None
        table = await asyncio.to_thread(lambda: why.arms_to_pandas().reset_index())
        return {"id": id, "text": str(why), "arms": json.loads(table.to_json(orient="records"))}

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
        """Return all decisions as JSON lines, also those of the parts of an experiment and of earlier champions."""
        decider = self.slots.find(request.path_params["slot"]).decider
        text = request.query_params.get("since")
        try:
            since = None if text is None else float(text)
        except ValueError:
            raise ParameterError(
                f"since must be seconds since 1970, got {text!r:.50}", code="since", argument="since"
            ) from None
        rows: Any = decider.rows(since)

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
        self.keys.look()
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
        kinds = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
        if name not in _FILES:
            raise ServiceError(f"there is no file {name[:60]!r}", code="unknown-path")
        response = Response(_FILES[name], media_type=kinds[name.rpartition(".")[2]])
        response.headers["content-security-policy"] = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'"
        response.headers["x-content-type-options"] = "nosniff"
        response.headers["referrer-policy"] = "no-referrer"
        return response


def _read_files() -> dict[str, bytes]:
    folder = files("prudent.service") / "page"
    names = ("index.html", "page.css", "page.js", "experiment.js", "icon.svg")
    return {name: (folder / name).read_bytes() for name in names}


_FILES = _read_files()


def _too_many(argument: str, count: int, most: int) -> DataError:
    text = f"{argument} holds {count} entries; this server takes {most} at most"
    return DataError(text, code="too-many-arms", argument=argument, expected=most)


def _or_problem(found: Any) -> Any:
    return {"error": problem_of(found, "")} if isinstance(found, BaseException) else found


def application(slots: Slots, keys: Keys, limits: Limits | None = None) -> Application:
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
        *ExperimentRoutes(slots.find, slots.experiments, service.requests.body, slots.refresh).table(),
    ]
    by_path: dict[str, dict[str, Endpoint]] = {}
    for method, path, role, work in table:
        by_path.setdefault(path, {})[method] = Endpoint(service.requests, role, work, path)
    paths: dict[str, ASGIApp] = {path: _Path(service.requests, methods) for path, methods in by_path.items()}
    paths["/{path:path}"] = Endpoint(service.requests, None, _no_path, "unknown")
    routes = [_route(path, app) for path, app in paths.items()]
    hot = {verb: by_path[f"{one}/{verb}"]["POST"] for verb in ("decide", "reward")}
    return Application(Starlette(routes=routes, lifespan=service.life), hot)


class Application:
    """The ASGI application of a server.

    Decisions and rewards are nearly all requests. They are found by the parts of their path and answered at once; the
    rest goes through the middleware and the routes of Starlette.

    Parameters
    ----------
    starlette : Starlette
        What answers the rest, and opens and closes the slots.
    hot : dict of str to Endpoint
        Endpoints of ``POST /v1/slots/{slot}/VERB``, by verb.
    """

    def __init__(self, starlette: Starlette, hot: dict[str, Endpoint]) -> None:
        self._starlette, self._hot = starlette, hot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or begin and end the life of the server."""
        if scope["type"] == "http" and scope["path"][:1] != "/":  # as of OPTIONS *
            scope["path"] = f"/{scope['path']}"
        if scope["type"] == "http" and scope["method"] == "POST":
            parts = scope["path"].split("/")
            if len(parts) == 5 and parts[3] and parts[1] == "v1" and parts[2] == "slots":
                endpoint = self._hot.get(parts[4])
                if endpoint is not None:
                    scope["path_params"] = {"slot": parts[3]}
                    await endpoint(scope, receive, send)
                    return
        await self._starlette(scope, receive, send)


class _Path:
    """The endpoints of one path, by method."""

    def __init__(self, requests: Requests, methods: dict[str, Endpoint]) -> None:
        self._methods = methods | ({"HEAD": methods["GET"]} if "GET" in methods else {})
        self._wrong = Endpoint(requests, None, _no_method, "wrong method")
        self._allowed = tuple(methods)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["allowed"] = self._allowed
        await self._methods.get(scope["method"], self._wrong)(scope, receive, send)


def _route(path: str, app: ASGIApp) -> Route:
    found = Route(path, app)
    found.methods = None  # all of them: what is not allowed is answered as a problem
    return found


async def _no_path(request: Request) -> Any:
    raise ServiceError(f"there is no path {request.url.path[:100]!r}", code="unknown-path")


async def _no_method(request: Request) -> Any:
    method, allowed = request.method[:20], request.scope["allowed"]
    text = f"{method} is not a method of {request.url.path[:100]}; use {' or '.join(allowed)}"
    raise ServiceError(text, code="wrong-method", value=method, expected=list(allowed))
