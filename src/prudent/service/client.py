"""Clients of the service: one that waits and one for asyncio, with retries that decide and learn once."""

from __future__ import annotations

import asyncio
import json
import random
import secrets
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, Self
from urllib.parse import quote

import numpy as np

from .._support.checks import instance_of, positive, whole_number
from ..bandits.decision import Arm, Decision
from ..errors import DataError, JournalError, ParameterError, PrudentError
from ..journal import Journal
from ..types import ContextLike

_RETRIED = (429, 502, 503, 504)
_MOST_RETRIES = 1000  # an hour or more
_LONGEST = 86_400.0  # seconds that a request may wait; sockets do not take any number
_Call = tuple[str, str, Any]  # method, path, body


class Client:
    """Client of a decision service, or of a journal in this process.

    A request that fails or times out is sent again. Decisions carry a key, so a repeated request gives the same
    decision, and a reward is learned once however often it is reported.

    Parameters
    ----------
    target : str or Journal or mapping of str to Journal
        Address of the server, such as ``"http://127.0.0.1:8000"``; or a journal that stands for every slot, or journals
        by slot, so that tests need no server.
    key : str, optional
        Key for the header ``Authorization: Bearer KEY``.
    timeout : float, default=5
        Seconds to wait for an answer, for each try; at most a day.
    retries : int, default=3
        How often a request is sent again, at most 1,000 times.

    Raises
    ------
    ParameterError
        If `target` is neither an address nor a journal, or httpx is not installed.

    Examples
    --------
    >>> import tempfile
    >>> import prudent as pr
    >>> folder = tempfile.TemporaryDirectory()
    >>> live = pr.Journal(f"{folder.name}/j", pr.LinearBandit(["red", "blue"], dim=1, rng=7))
    >>> with pr.Client(live) as client:
    ...     decision = client.decide("homepage", [0.5], arms=["red"])
    ...     decision.arm, client.reward("homepage", decision.id, 1.0), client.reward("homepage", decision.id, 1.0)
    ('red', 'ok', 'duplicate')
    >>> live.close(), folder.cleanup()
    (None, None)
    """

    def __init__(
        self,
        target: str | Journal | Mapping[str, Journal],
        key: str | None = None,
        *,
        timeout: float = 5.0,
        retries: int = 3,
    ) -> None:
        self._journals = None if isinstance(target, str) else target
        self._retries = whole_number(retries, "retries", 0, _MOST_RETRIES)
        self._http = _connected("Client", target, key, timeout) if isinstance(target, str) else None
        if self._http is None and not isinstance(target, Journal | Mapping):
            text = f"target must be the address of a server, a Journal or journals by slot, got {target!r}"
            raise ParameterError(text, code="wrong-type", argument="target", value=target)

    def _run(self, steps: Generator[_Call, Any, Any]) -> Any:
        """Send what ``steps`` asks for, with retries, and return its result."""
        http = self._http
        assert http is not None
        try:
            call = _encoded(*next(steps))
            for attempt in range(self._retries + 1):
                status, body, wait = 0, None, 0.0
                try:
                    response = http.request(call[0], call[1], content=call[2], headers=_JSON)
                    status, body, wait = _read(response)
                except _httpx().HTTPError as error:
                    body = _away(error)
                if (status and status not in _RETRIED) or attempt == self._retries:
                    break
                time.sleep(_pause(attempt, wait))
            steps.send((status, body))
        except StopIteration as end:
            return end.value
        raise AssertionError("one call is one request")

    def _journal(self, slot: str) -> Journal:
        journals = self._journals
        instance_of(slot, "slot", str)
        if isinstance(journals, Journal):
            return journals
        if journals is None or slot not in journals:
            raise ParameterError(f"there is no slot {slot!r}", code="unknown-slot", argument="slot", value=slot)
        return journals[slot]

    def decide(
        self,
        slot: str,
        context: ContextLike | None = None,
        arms: Iterable[Arm] | None = None,
        top: int | None = None,
        *,
        key: str | None = None,
        note: Mapping[str, Any] | None = None,
    ) -> Decision:
        """Choose among the eligible arms of a slot.

        Parameters
        ----------
        slot : str
            Name of the slot.
        context : context
            Context, as of ``Journal.select``.
        arms : iterable, optional
            Eligible arms, by default all.
        top : int, optional
            Length of the slate of a slot of items.
        key : str, optional
            Key of the request; the default is a random one.
        note : mapping, optional
            What is stored with the decision.

        Returns
        -------
        Decision
            With ``arm``, ``propensity`` and ``id``. Of a fallback, while the store is away, ``id`` is None.

        Raises
        ------
        DataError
            If the server refuses the request; code and fields are those of the server.
        JournalError
            If the server or its store is away.
        """
        request = _request(context, arms, top, secrets.token_hex(16) if key is None else key, note)
        if self._http is None:
            return _first(self._journal(slot).select_each([request]))
        return self._run(_deciding(slot, request))

    def decide_many(self, slot: str, requests: Sequence[Mapping[str, Any]]) -> list[Decision | PrudentError]:
        """Choose for several requests, in one request to the server.

        Parameters
        ----------
        slot : str
            Name of the slot.
        requests : sequence of mapping
            Arguments of `decide` for one decision each.

        Returns
        -------
        list of Decision or PrudentError
            For each request its decision or its error.

        Raises
        ------
        JournalError
            If the server or its store is away.
        """
        wanted = _requests(requests)
        if self._http is None:
            return self._journal(slot).select_each(wanted)
        return self._run(_deciding_many(slot, wanted))

    def reward(self, slot: str, id: str, reward: float, metric: str | None = None) -> str:
        """Report the reward of a decision.

        Parameters
        ----------
        slot : str
            Name of the slot.
        id : str
            Id of the decision.
        reward : float
            Its reward.
        metric : str, optional
            Name of a guardrail metric of the slot's experiment; the default is the reward itself.

        Returns
        -------
        str
            As of ``Journal.reward``.

        Raises
        ------
        DataError
            If the reward is not valid.
        JournalError
            If the server or its store is away.
        """
        if self._http is None:
            _require_no_metric(metric)
            return str(self._journal(slot).reward(instance_of(id, "id", str), reward))
        return self._run(_rewarding(slot, id, reward, metric))

    def reward_many(self, slot: str, rewards: Sequence[tuple[str, float]]) -> list[str | PrudentError]:
        """Report several rewards, in one request to the server.

        Parameters
        ----------
        slot : str
            Name of the slot.
        rewards : sequence of (str, float)
            Ids and rewards.

        Returns
        -------
        list of str or PrudentError
            For each reward its status or its error.

        Raises
        ------
        JournalError
            If the server or its store is away.
        """
        pairs = _pairs(rewards)
        if not pairs:
            return []
        if self._http is None:
            return self._journal(slot).reward_each(pairs)
        return self._run(_rewarding_many(slot, pairs))

    def put_slot(self, slot: str, **spec: object) -> dict[str, Any]:
        """Create a slot, or change its arms and fallback; needs a key with the role admin.

        Parameters
        ----------
        slot : str
            Name of the slot.
        **spec : object
            Options of the slot: ``arms``, ``features``, ``rewards``, ``fallback`` and so on.

        Returns
        -------
        dict
            What the server says of the slot.

        Raises
        ------
        DataError
            If the server refuses the spec.
        ParameterError
            If this client has no server.
        """
        if self._http is None:
            raise ParameterError("put_slot needs a server", code="no-server", argument="slot", value=slot)
        return self._run(_plain("PUT", _path(slot), spec))

    def close(self) -> None:
        """Close the connections; a journal stays open."""
        if self._http is not None:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient:
    """The client for asyncio: as ``Client``, with methods to be awaited.

    Parameters
    ----------
    target : str or Journal or mapping of str to Journal
        As of ``Client``.
    key : str, optional
        As of ``Client``.
    timeout : float, default=5
        As of ``Client``.
    retries : int, default=3
        As of ``Client``.

    Raises
    ------
    ParameterError
        If `target` is neither an address nor a journal, or httpx is not installed.
    """

    def __init__(
        self,
        target: str | Journal | Mapping[str, Journal],
        key: str | None = None,
        *,
        timeout: float = 5.0,
        retries: int = 3,
    ) -> None:
        self._local = None if isinstance(target, str) else Client(target, timeout=timeout, retries=retries)
        self._retries = whole_number(retries, "retries", 0, _MOST_RETRIES)
        self._http: Any = _connected("AsyncClient", target, key, timeout) if isinstance(target, str) else None

    async def _run(self, steps: Generator[_Call, Any, Any]) -> Any:
        try:
            call = _encoded(*next(steps))
            for attempt in range(self._retries + 1):
                status, body, wait = 0, None, 0.0
                try:
                    response = await self._http.request(call[0], call[1], content=call[2], headers=_JSON)
                    status, body, wait = _read(response)
                except _httpx().HTTPError as error:
                    body = _away(error)
                if (status and status not in _RETRIED) or attempt == self._retries:
                    break
                await asyncio.sleep(_pause(attempt, wait))
            steps.send((status, body))
        except StopIteration as end:
            return end.value
        raise AssertionError("one call is one request")

    async def decide(
        self,
        slot: str,
        context: ContextLike | None = None,
        arms: Iterable[Arm] | None = None,
        top: int | None = None,
        *,
        key: str | None = None,
        note: Mapping[str, Any] | None = None,
    ) -> Decision:
        """Choose among the eligible arms of a slot; see ``Client.decide``.

        Parameters
        ----------
        slot : str
            Name of the slot.
        context : context
            Context.
        arms : iterable, optional
            Eligible arms, by default all.
        top : int, optional
            Length of a slate.
        key : str, optional
            Key of the request.
        note : mapping, optional
            What is stored with the decision.

        Returns
        -------
        Decision
            The decision.
        """
        if self._local is not None:
            return await asyncio.to_thread(self._local.decide, slot, context, arms, top, key=key, note=note)
        request = _request(context, arms, top, secrets.token_hex(16) if key is None else key, note)
        return await self._run(_deciding(slot, request))

    async def reward(self, slot: str, id: str, reward: float, metric: str | None = None) -> str:
        """Report the reward of a decision; see ``Client.reward``.

        Parameters
        ----------
        slot : str
            Name of the slot.
        id : str
            Id of the decision.
        reward : float
            Its reward.
        metric : str, optional
            Name of a guardrail metric.

        Returns
        -------
        str
            Status.
        """
        if self._local is not None:
            return await asyncio.to_thread(self._local.reward, slot, id, reward, metric)
        return await self._run(_rewarding(slot, id, reward, metric))

    async def decide_many(self, slot: str, requests: Sequence[Mapping[str, Any]]) -> list[Decision | PrudentError]:
        """Choose for several requests, in one request to the server; see ``Client.decide_many``.

        Parameters
        ----------
        slot : str
            Name of the slot.
        requests : sequence of mapping
            Arguments of `decide` for one decision each.

        Returns
        -------
        list of Decision or PrudentError
            For each request its decision or its error.
        """
        wanted = [_request(**{**_EMPTY, "key": secrets.token_hex(16), **request}) for request in requests]
        if self._local is not None:
            return await asyncio.to_thread(self._local.decide_many, slot, wanted)
        return await self._run(_deciding_many(slot, wanted))

    async def reward_many(self, slot: str, rewards: Sequence[tuple[str, float]]) -> list[str | PrudentError]:
        """Report several rewards, in one request to the server; see ``Client.reward_many``.

        Parameters
        ----------
        slot : str
            Name of the slot.
        rewards : sequence of (str, float)
            Ids and rewards.

        Returns
        -------
        list of str or PrudentError
            For each reward its status or its error.
        """
        if self._local is not None:
            return await asyncio.to_thread(self._local.reward_many, slot, rewards)
        return await self._run(_rewarding_many(slot, rewards))

    async def put_slot(self, slot: str, **spec: object) -> dict[str, Any]:
        """Create a slot, or change it; see ``Client.put_slot``.

        Parameters
        ----------
        slot : str
            Name of the slot.
        **spec : object
            Options of the slot.

        Returns
        -------
        dict
            What the server says of the slot.

        Raises
        ------
        ParameterError
            If this client has no server.
        """
        if self._local is not None:
            return self._local.put_slot(slot, **spec)
        return await self._run(_plain("PUT", _path(slot), spec))

    async def aclose(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


# -- requests and answers, for both clients ----------------------------------------------------------------

_EMPTY: dict[str, Any] = {"context": None, "arms": None, "top": None, "key": None, "note": None}
_JSON = {"content-type": "application/json"}


def _requests(requests: Any) -> list[dict[str, Any]]:
    """Return several requests; raise if one has arguments that `decide` does not have."""
    if not isinstance(requests, Sequence) or not all(isinstance(request, Mapping) for request in requests):
        text = f"requests must be a list of mappings, got {requests!r}"[:300]
        raise ParameterError(text, code="wrong-type", argument="requests")
    for place, request in enumerate(requests):
        other = next((name for name in request if name not in _EMPTY), None)
        if other is not None:
            text = f"requests[{place}] has {other!r}, which is none of {', '.join(_EMPTY)}"
            raise ParameterError(text, code="unknown-name", argument="requests", index=(place,), value=other)
    return [_request(**{**_EMPTY, "key": secrets.token_hex(16), **request}) for request in requests]


def _pairs(rewards: Any) -> list[tuple[str, float]]:
    try:
        return [(id, reward) for id, reward in rewards]
    except (TypeError, ValueError):
        text = f"rewards must be pairs of an id and a reward, got {rewards!r}"[:300]
        raise ParameterError(text, code="wrong-type", argument="rewards") from None


def _request(context: Any, arms: Any, top: int | None, key: str | None, note: Any) -> dict[str, Any]:
    several = isinstance(arms, Iterable) and not isinstance(arms, (str, bytes, np.ndarray))
    return {
        "context": _listed(context),
        "arms": [_listed(arm) for arm in arms] if several else _listed(arms),
        "top": top,
        "key": key,
        "note": dict(note) if isinstance(note, Mapping) else note,
    }


def _listed(value: Any) -> Any:
    """Return plain lists, dicts and numbers."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {name: _listed(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_listed(one) for one in value]
    return value


def _deciding(slot: str, request: dict[str, Any]) -> Generator[_Call, Any, Decision]:
    status, body = yield "POST", _path(slot, "/decide"), request | {"detail": True}
    return _decision(_checked(status, body))


def _deciding_many(slot: str, requests: list[dict[str, Any]]) -> Generator[_Call, Any, Any]:
    bodies = [request | {"detail": True} for request in requests]
    status, body = yield "POST", _path(slot, "/decide/batch"), {"requests": bodies}
    found = _checked(status, body)["decisions"]
    return [_error(one["error"]) if "error" in one else _decision(one) for one in found]


def _rewarding(slot: str, id: str, reward: float, metric: str | None) -> Generator[_Call, Any, str]:
    body: dict[str, Any] = {"id": id, "reward": _listed(reward)}
    status, answer = yield "POST", _path(slot, "/reward"), body if metric is None else body | {"metric": metric}
    return str(_checked(status, answer)["status"])


def _rewarding_many(slot: str, rewards: Sequence[tuple[str, float]]) -> Generator[_Call, Any, Any]:
    bodies = [{"id": id, "reward": _listed(reward)} for id, reward in rewards]
    status, body = yield "POST", _path(slot, "/reward/batch"), {"rewards": bodies}
    return [_error(one["error"]) if "error" in one else one["status"] for one in _checked(status, body)["answers"]]


def _plain(method: str, path: str, body: Any) -> Generator[_Call, Any, Any]:
    status, answer = yield method, path, body
    return _checked(status, answer)


def _decision(answer: Mapping[str, Any]) -> Decision:
    """Return the decision of an answer."""
    slate = answer.get("slate", [answer["arm"]])
    arms = tuple(answer.get("arms") or slate)
    items = answer.get("candidates")
    candidates = None if items is None else np.array(items, dtype=np.float64)
    seen = answer.get("version", {"decisions": 0, "rewards": 0})
    context = np.array(answer.get("context") or [], dtype=np.float64)
    law: Any = None
    version = (seen["decisions"], seen["rewards"])
    like = Decision(arms, 0, 0.0, law, context, version, True, candidates)
    scores = answer.get("scores") or [answer.get("score", float("nan"))]
    found = Decision.recorded(arms, [arms.index(arm) for arm in slate], scores, answer["propensity"], like)
    found.id, found.time = answer["id"], answer.get("time", found.time)
    if "ids" in answer:
        found.ids = tuple(answer["ids"])
    return found


def _first(found: list[Any]) -> Decision:
    if isinstance(found[0], PrudentError):
        raise found[0]
    return found[0]


def _require_no_metric(metric: str | None) -> None:
    if metric is not None:
        text = f"metric is {metric!r}, and a journal has no experiment with guardrail metrics"
        raise DataError(text, code="unknown-metric", argument="metric", value=metric)


def _checked(status: int, body: Any) -> Any:
    if status in (200, 201) and isinstance(body, dict):
        return body
    raise body if isinstance(body, PrudentError) else _error(body, status)


def _error(problem: Any, status: int | None = None) -> PrudentError:
    """Return the error that a problem describes."""
    if not isinstance(problem, dict) or "code" not in problem:
        problem = {"code": "no-answer", "detail": f"the server answered {status} without a problem", "status": status}
    number = problem.get("status") or 0
    kind = JournalError if number >= 500 or number == 429 else DataError if number in (409, 422) else ParameterError
    fields = {**problem.get("fields", {}), "status": number}
    return kind(problem.get("detail", ""), code=problem["code"], **fields)


def _read(response: Any) -> tuple[int, Any, float]:
    try:
        body = response.json()
    except ValueError:
        body = None
    wait = response.headers.get("retry-after", "0")
    return response.status_code, body, float(wait) if wait.isdigit() else 0.0


def _away(error: Exception) -> JournalError:
    return JournalError(f"the server cannot be reached: {error!r}"[:300], code="server-away")


def _pause(attempt: int, wait: float) -> float:
    return max(min(wait, 10.0), min(5.0, 0.05 * 2.0 ** min(attempt, 10)) * random.uniform(0.5, 1.5))


def _path(slot: str, rest: str = "") -> str:
    return f"/v1/slots/{quote(instance_of(slot, 'slot', str), safe='', errors='replace')}{rest}"


def _encoded(method: str, path: str, body: Any) -> tuple[str, str, bytes]:
    """Return a request with its body as JSON."""
    try:
        return method, path, json.dumps(body, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        message = f"the body of the request holds what JSON cannot say: {error}"[:300]
        raise DataError(message, code="not-json", argument="body") from None


def _connected(kind: str, address: str, key: str | None, timeout: float) -> Any:
    """Return a client of httpx."""
    httpx, seconds = _httpx(), positive(timeout, "timeout")
    if seconds > _LONGEST:
        message = f"timeout must be at most {_LONGEST:.0f} seconds, got {timeout}"
        raise ParameterError(message, code="value-range", argument="timeout", value=timeout)
    try:
        return getattr(httpx, kind)(base_url=address, headers=_headers(key), timeout=seconds)
    except (httpx.InvalidURL, TypeError, ValueError) as error:  # UnicodeEncodeError of a key is one of these
        message = f"target or key cannot be used for a connection: {error}"[:300]
        raise ParameterError(message, code="wrong-address", argument="target", value=address) from None


def _headers(key: str | None) -> dict[str, str]:
    return {} if key is None else {"authorization": f"Bearer {key}"}


def _httpx() -> Any:
    try:
        import httpx
    except ImportError:
        text = "a client of a server needs httpx: pip install prudent[serve]"
        raise ParameterError(text, code="missing-package", argument="target") from None
    return httpx
