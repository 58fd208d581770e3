"""Check a document against the part of JSON Schema that our schemas use."""

from __future__ import annotations

from typing import Any

TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}
KNOWN = {"$schema", "$defs", "$ref", "title", "description", "type", "required", "properties", "additionalProperties"}
KNOWN |= {"items", "minimum", "maximum"}


def faults(value: Any, schema: dict[str, Any], root: dict[str, Any], place: str = "$") -> list[str]:
    """Return where a value does not fit a schema; a keyword that is not known here is a fault as well."""
    found = [f"{place}: unknown keyword {word}" for word in schema.keys() - KNOWN]
    if "$ref" in schema:
        found += faults(value, root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root, place)
    if "type" in schema:
        kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        if not any(isinstance(value, TYPES[kind]) and (kind == "boolean" or value is not True) for kind in kinds):
            return [*found, f"{place}: {value!r} is no {kinds}"]
    if isinstance(value, dict):
        allowed = schema.get("properties", {})
        found += [f"{place}: {name} is missing" for name in schema.get("required", []) if name not in value]
        if schema.get("additionalProperties") is False:
            found += [f"{place}: {name} is not allowed" for name in value.keys() - allowed.keys()]
        for name, part in value.items():
            found += faults(part, allowed.get(name, {}), root, f"{place}.{name}")
    if isinstance(value, list) and "items" in schema:
        for i, part in enumerate(value):
            found += faults(part, schema["items"], root, f"{place}[{i}]")
    if isinstance(value, int | float):
        below, above = schema.get("minimum", value), schema.get("maximum", value)
        found += [] if below <= value <= above else [f"{place}: {value} is out of range"]
    return found
