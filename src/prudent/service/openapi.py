"""The description of the interface: OpenAPI 3.1, made from the types of the bodies."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from .bodies import CopyBody, DecideBatch, DecideBody, RewardBatch, RewardBody, SlotSpec
from .experiment_routes import BODIES, EXAMPLES, experiment_paths

_SLOT = {"name": "slot", "in": "path", "required": True, "schema": {"type": "string"}, "example": "homepage"}
_PROBLEMS = {
    "400": "The body is not JSON",
    "401": "No key, or an unknown one",
    "403": "The key does not have the role",
    "404": "No such slot or decision",
    "405": "No such method",
    "409": "The key of the request was used with another body; or the slot is paused, archived or there already",
    "413": "The body is too large",
    "422": "Invalid data",
    "429": "Too many requests with this key",
    "503": "The store is away, or the server starts or stops",
}
_EXAMPLES: dict[str, Any] = {
    "SlotSpec": {"arms": ["red", "blue"], "features": ["age", "visits"], "rewards": "bernoulli", "fallback": "red"},
    "DecideBody": {"context": {"age": 0.3, "visits": 1.0}, "key": "request-17", "note": {"user": "u17"}},
    "DecideBatch": {"requests": [{"context": [0.3, 1.0]}, {"context": [0.1, 0.0], "arms": ["red", "blue"]}]},
    "RewardBody": {"id": "1-284015c94cec78a3", "reward": 1.0},
    "RewardBatch": {"rewards": [{"id": "1-284015c94cec78a3", "reward": 1.0}]},
    "CopyBody": {"to": "homepage-2"},
}
_ID = "1-284015c94cec78a3"


def _object(example: Any, required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required.split(), "properties": properties, "examples": [example]}


def _list(of: str) -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{of}"}}


_TEXT, _NUMBER, _WHOLE, _OBJECT = {"type": "string"}, {"type": "number"}, {"type": "integer"}, {"type": "object"}
_DECIDED = {"id": _ID, "arm": "blue", "propensity": 0.62}
_REFUSED = {
    "type": "urn:prudent:error:unknown-slot", "title": "Not found", "status": 404, "detail": "there is no slot 'x'",
    "code": "unknown-slot", "fields": {"slot": "x"}, "instance": "5f1c0c3ad2c94e86",
}  # fmt: skip
_MADE = {
    "slot": "homepage", "state": "active", "version": 1, "created": 1795000000.0, "changed": 1795000000.0,
    "spec": _EXAMPLES["SlotSpec"], "available": True,
}  # fmt: skip
_ANSWERS = {
    "Decision": _object(
        _DECIDED, "id arm propensity", id={"type": ["string", "null"]}, arm={"type": ["string", "integer"]},
        propensity={"type": ["number", "null"]}, fallback={"type": "boolean"},
        slate={"type": "array", "items": {"type": ["string", "integer"]}}, ids={"type": "array", "items": _TEXT},
        time=_NUMBER, context={"type": "array"}, arms={"type": "array"}, score=_NUMBER, version=_OBJECT,
    ),
    "Problem": _object(
        _REFUSED, "type title status detail code fields instance", type=_TEXT, title=_TEXT, status=_WHOLE,
        detail=_TEXT, code=_TEXT, fields=_OBJECT, instance=_TEXT,
    ),
    "Slot": _object(
        _MADE, "slot state version created changed spec available", slot=_TEXT,
        state={"enum": ["active", "paused", "archived"]}, version=_WHOLE, created=_NUMBER, changed=_NUMBER,
        spec=_OBJECT, available={"type": "boolean"},
    ),
    "Slots": _object({"slots": [_MADE]}, "slots", slots=_list("Slot")),
    "Decisions": _object(
        {"decisions": [_DECIDED, {"error": _REFUSED}]}, "decisions",
        decisions={"type": "array", "items": {"anyOf": [{"$ref": "#/components/schemas/Decision"}, _OBJECT]}},
    ),
    "Status": _object({"status": "ok"}, "status", status=_TEXT),
    "Statuses": _object(
        {"answers": [{"status": "ok"}, {"error": _REFUSED}]}, "answers", answers={"type": "array", "items": _OBJECT}
    ),
    "Explanation": _object(
        {"id": _ID, "text": "blue was chosen ...", "arms": []}, "id text arms", id=_TEXT, text=_TEXT,
        arms={"type": "array", "items": _OBJECT},
    ),
    "Findings": _object(
        {"rewards": 120, "findings": []}, "rewards findings", rewards=_WHOLE,
        findings={"type": "array", "items": _OBJECT},
    ),
}  # fmt: skip


@cache
def openapi(batch: int) -> dict[str, Any]:
    """Return the description, for a server that takes batches of a size."""
    kinds = [SlotSpec, DecideBody, DecideBatch, RewardBody, RewardBatch, CopyBody, *BODIES]
    _, schemas = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    for name, example in {**_EXAMPLES, **EXAMPLES}.items():
        schemas[name]["examples"] = [example]
    schemas["DecideBatch"]["properties"]["requests"]["maxItems"] = batch
    schemas["RewardBatch"]["properties"]["rewards"]["maxItems"] = batch
    schemas |= _ANSWERS
    one = "/v1/slots/{slot}"
    made = {"201": {"$ref": "#/components/schemas/Slot"}}
    lines = "application/jsonl"
    number = {"type": "number"}
    decision_id = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    hours = {"name": "hours", "in": "query", "schema": {"type": "number", "exclusiveMinimum": 0, "maximum": 1000000}}
    since = {"name": "since", "in": "query", "schema": number}
    paths: dict[str, dict[str, Any]] = {
        "/v1/slots": {"get": _operation("List the slots", "read", answer="Slots")},
        one: {
            "put": _operation("Create a slot, or change its arms", "admin", "SlotSpec", "Slot", also=made),
            "get": _operation("Describe a slot", "read", answer="Slot"),
        },
        f"{one}/decide": {"post": _operation("Decide", "decide", "DecideBody", "Decision")},
        f"{one}/decide/batch": {"post": _operation("Decide for several", "decide", "DecideBatch", "Decisions")},
        f"{one}/reward": {"post": _operation("Report a reward", "reward", "RewardBody", "Status")},
        f"{one}/reward/batch": {"post": _operation("Report several rewards", "reward", "RewardBatch", "Statuses")},
        f"{one}/pause": {"post": _operation("Take rewards and no decisions", "admin", answer="Slot")},
        f"{one}/archive": {"post": _operation("Close a slot; its journal stays", "admin", answer="Slot")},
        f"{one}/restore": {"post": _operation("Open a slot again", "admin", answer="Slot")},
        f"{one}/copy": {"post": _operation("Copy what was learned", "admin", "CopyBody", "Slot", status="201")},
        f"{one}/check": {"get": _operation("Findings: what may go wrong", "read", answer="Findings")},
        f"{one}/summary": {"get": _operation("Shares of arms and mean rewards over time", "read", more=[hours])},
        f"{one}/export": {"get": _operation("All decisions as JSON lines", "admin", more=[since], kind=lines)},
        one + "/explain/{id}": {"get": _operation("Why", "read", answer="Explanation", more=[decision_id])},
        "/healthz": {"get": _operation("The process answers", None)},
        "/readyz": {"get": _operation("Decisions can be taken", None)},
        "/metrics": {"get": _operation("Metrics for Prometheus", "read", kind="text/plain")},
        "/openapi.json": {"get": _operation("This description", None)},
    }  # fmt: skip
    paths |= experiment_paths(_operation)
    for path, operations in paths.items():
        if "{slot}" in path:
            for operation in operations.values():
                operation["parameters"] = [_SLOT, *operation.get("parameters", [])]
    return {
        "openapi": "3.1.0",
        "info": {"title": "prudent serve", "version": "1", "description": "Decisions with exact propensities."},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(
    summary: str,
    role: str | None,
    body: str | None = None,
    answer: str | None = None,
    *,
    also: dict[str, Any] | None = None,
    status: str = "200",
    more: list[Any] | None = None,
    kind: str = "application/json",
) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{answer}"} if answer else {"type": "object"}
    answers = {status: schema, **(also or {})}
    responses: dict[str, Any] = {
        each: {"description": "Done", "content": {kind: {"schema": one if kind == "application/json" else {}}}}
        for each, one in answers.items()
    }
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for each, text in _PROBLEMS.items():
        responses[each] = {"description": text, "content": problem}
    found: dict[str, Any] = {"summary": summary, "responses": responses}
    if role is not None:
        found |= {"security": [{"key": []}], "description": f"Needs a key with the role {role} or admin."}
    if body is not None:
        content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{body}"}}}
        found["requestBody"] = {"required": True, "content": content}
    if more:
        found["parameters"] = more
    return found
