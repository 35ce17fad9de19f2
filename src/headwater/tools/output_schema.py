"""The form of a JSON schema that endpoints enforce strictly: every property required, every object closed.

What such an endpoint does not take (platform.openai.com/docs/guides/structured-outputs) is said in the description
instead, so that whatever fits the strict form fits the schema but for that.
"""

from __future__ import annotations

import json
from typing import Any, cast

from headwater.tools.tidy import Schema

_KEPT = frozenset({"type", "enum", "const", "description", "$ref"})
_FREE = frozenset({"default", "examples", "deprecated", "readOnly", "writeOnly"})
"""What may be left out without a word: it allows or forbids nothing."""
_TOLD = frozenset(
    {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "format",
        "minItems",
        "maxItems",
        "uniqueItems",
        "contentEncoding",
        "contentMediaType",
    }
)


class _Unfit(Exception):
    """The schema has no strict form."""


def strict_schema(schema: Schema) -> Schema | None:
    """The strict form of a tidied schema that kept its nulls; None if it has none (free keys, tuples and the like)."""
    try:
        out = _strict({key: value for key, value in schema.items() if key != "$defs"})
        if "$defs" in schema:
            out["$defs"] = {name: _strict(item) for name, item in schema["$defs"].items()}
    except _Unfit:
        return None
    return out


def _strict(node: Any) -> Schema:
    if not isinstance(node, dict):
        raise _Unfit
    schema = cast("Schema", node)
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    out: Schema = {}
    told: list[str] = []
    for key, value in schema.items():
        if key in _KEPT:
            out[key] = value
        elif key in _TOLD:
            told.append(f"{key}: {json.dumps(value, ensure_ascii=False)}")
        elif key == "properties":
            out[key] = {name: _strict(item) for name, item in cast("Schema", value).items()}
        elif key == "items":
            out[key] = _strict(value)
        elif key == "anyOf":
            out[key] = [_strict(item) for item in cast("list[Any]", value)]
        elif key not in _FREE and key not in ("required", "additionalProperties"):
            raise _Unfit
    if not (out.keys() & {"type", "enum", "const", "anyOf"}) or isinstance(out.get("type"), list):
        raise _Unfit
    if out.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            raise _Unfit
        properties = cast("Schema", out.setdefault("properties", {}))
        out["required"] = list(properties)
        out["additionalProperties"] = False
    if told:
        out["description"] = f"{out.get('description', '')} ({', '.join(told)})".strip()
    return out
