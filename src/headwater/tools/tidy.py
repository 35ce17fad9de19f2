"""JSON Schema the way models read it best: no titles, no references where none is needed, closed objects."""

from __future__ import annotations

from typing import Any, cast

Schema = dict[str, Any]

_MAPS = ("properties", "patternProperties", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")
_PREFIX = "#/$defs/"


def _refs(node: Any) -> set[str]:
    """Names of the definitions that a schema refers to."""
    if isinstance(node, dict):
        schema = cast("Schema", node)
        ref = schema.get("$ref")
        own = {ref.removeprefix(_PREFIX)} if isinstance(ref, str) else set[str]()
        return own.union(*(_refs(item) for item in schema.values()))
    if isinstance(node, list):
        return set[str]().union(*(_refs(item) for item in cast("list[Any]", node)))
    return set()


def _recursive(defs: dict[str, Schema]) -> set[str]:
    """Names of the definitions that reach themselves."""
    direct = {name: _refs(schema) & defs.keys() for name, schema in defs.items()}
    found: set[str] = set()
    for name in defs:
        seen: set[str] = set()
        todo = list(direct[name])
        while todo:
            reached = todo.pop()
            if reached not in seen:
                seen.add(reached)
                todo.extend(direct[reached])
        if name in seen:
            found.add(name)
    return found


def _without_null(schema: Schema) -> Schema:
    """An optional property that may be left out: its null variant and `default: null` say nothing more."""
    options = schema.get("anyOf")
    if schema.get("default", ...) is not None or not isinstance(options, list):
        return schema
    rest = [option for option in cast("list[Schema]", options) if option != {"type": "null"}]
    outer = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
    return {**rest[0], **outer} if len(rest) == 1 else {"anyOf": rest, **outer}


class _Tidy:
    def __init__(self, defs: dict[str, Schema], *, keep_null: bool = False) -> None:
        self.defs = defs
        self.keep_null = keep_null
        self.kept = _recursive(defs)

    def schema(self, node: Any) -> Any:
        if not isinstance(node, dict):
            return node  # true, false
        out: Schema = {}
        for key, value in cast("Schema", node).items():
            if key in ("title", "discriminator", "$defs"):
                continue
            if key in _MAPS:
                out[key] = {name: self.schema(item) for name, item in value.items()}
            elif key in _LISTS:
                out["anyOf" if key == "oneOf" else key] = [self.schema(item) for item in value]
            elif key in _SINGLE:
                out[key] = self.schema(value)
            else:
                out[key] = value
        name = str(out.get("$ref", "")).removeprefix(_PREFIX)
        if name in self.defs and name not in self.kept:
            del out["$ref"]
            out = {**self.schema(self.defs[name]), **out}
        if isinstance(out.get("properties"), dict):
            required = cast("list[str]", out.get("required", []))
            properties = cast("dict[str, Schema]", out["properties"])
            if not self.keep_null:
                out["properties"] = {k: p if k in required else _without_null(p) for k, p in properties.items()}
            out.setdefault("additionalProperties", False)
        return out


def tidy_schema(schema: Schema) -> Schema:
    """The schema of an object, tidied: same meaning but for null, which optional properties no longer advertise.

    Definitions are put in place; those that contain themselves stay in `$defs`.
    """
    tidy = _Tidy(cast("dict[str, Schema]", schema.get("$defs", {})))
    body = tidy.schema(schema)
    out: Schema = {"type": "object", "properties": body.pop("properties", {})}
    if body.get("required"):
        out["required"] = body.pop("required")
    out["additionalProperties"] = body.pop("additionalProperties", False)
    out.update({key: value for key, value in body.items() if key != "required"})
    if tidy.kept:
        out["$defs"] = {name: tidy.schema(tidy.defs[name]) for name in tidy.defs if name in tidy.kept}
    return out


def tidy_value(schema: Schema, *, keep_null: bool = False) -> Schema:
    """The schema of any value, tidied like that of an object; `keep_null` keeps the null of optional properties."""
    tidy = _Tidy(cast("dict[str, Schema]", schema.get("$defs", {})), keep_null=keep_null)
    out: Schema = tidy.schema(schema)
    if tidy.kept:
        out["$defs"] = {name: tidy.schema(tidy.defs[name]) for name in tidy.defs if name in tidy.kept}
    return out
