"""The OpenAPI description, made of the routes, their docstrings, and the structs that they read and write."""

from __future__ import annotations

import inspect
import re
from importlib.metadata import version
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.routing import Route

from headwater import api
from headwater.events import AgentEvent
from headwater.serve import native
from headwater.serve.problems import TITLES, Problem
from headwater.serve.sessions import MOST


class _Shape(msgspec.Struct, frozen=True):
    """What an operation reads and answers; `answers` are statuses, `errors` those of problems."""

    body: type | None = None
    answers: dict[int, Any] = {}
    errors: tuple[int, ...] = ()
    query: tuple[str, ...] = ()


_ANY = (401, 403, 421, 431)
_POST = (400, 413, 415, 422)

SHAPES: dict[str, _Shape] = {
    "agents": _Shape(answers={200: native.AgentList}),
    "begin": _Shape(native.NewRun, {202: native.Begun}, (*_POST, 404, 409, 429, 503)),
    "view_run": _Shape(answers={200: native.RunView}, errors=(404, 503)),
    "events": _Shape(
        answers={200: "text/event-stream", 204: None}, errors=(400, 404, 429, 503), query=("after", "until")
    ),
    "one_event": _Shape(answers={200: "event"}, errors=(404, 503)),
    "decide": _Shape(native.Decisions, {202: native.Begun}, (*_POST, 404, 409, 503)),
    "cancel": _Shape(native.Cancelling, {200: native.RunView}, (*_POST, 404, 503)),
    "blob": _Shape(answers={200: "application/octet-stream"}, errors=(404, 503)),
    "list_sessions": _Shape(answers={200: api.SessionList}, errors=(400, 503), query=("limit", "before")),
    "view_session": _Shape(answers={200: native.SessionView}, errors=(404, 503)),
    "_openapi": _Shape(answers={200: "application/json"}),
    "exchange": _Shape(native.Token, {204: None}, (*_POST,)),
}
"""By the name of the route."""

_QUERY: dict[str, dict[str, Any]] = {
    "after": {
        "description": "The number of the last event that the reader has; `Last-Event-ID` goes before it.",
        "schema": {"type": "integer", "minimum": 0},
    },
    "limit": {
        "description": "How many at most.",
        "schema": {"type": "integer", "minimum": 1, "maximum": MOST, "default": 50},
    },
    "before": {
        "description": "`next` of the page before; without it the first page.",
        "schema": {"type": "string"},
    },
    "until": {
        "description": "`segment` ends the stream also where the run waits for a person.",
        "schema": {"enum": ["run", "segment"], "default": "run"},
    },
}

_REF = "#/components/schemas/{name}"


def describe(app: Starlette) -> dict[str, Any]:
    """The description of an application's native routes, as OpenAPI 3.1."""
    structs = {
        shape for one in SHAPES.values() for shape in (one.body, *one.answers.values()) if isinstance(shape, type)
    }
    kinds: list[Any] = [*sorted(structs | {Problem}, key=lambda struct: struct.__name__), AgentEvent]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    paths: dict[str, Any] = {}
    for route in app.routes:
        if isinstance(route, Route) and route.name in SHAPES:
            for method in sorted((route.methods or set()) - {"HEAD"}):
                path = re.sub(r":\w+}", "}", route.path)
                paths.setdefault(path, {})[method.lower()] = _operation(app, route, SHAPES[route.name])
    return {
        "openapi": "3.1.0",
        "info": {"title": "headwater", "version": version("headwater")},
        "paths": paths,
        "components": {
            "schemas": {**components, "Event": schemas[-1]},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"bearer": []}, {}],
    }


def _operation(app: Starlette, route: Route, shape: _Shape) -> dict[str, Any]:
    documented = getattr(route.endpoint, "_handler", route.endpoint)
    doc = inspect.getdoc(documented) or ""
    operation: dict[str, Any] = {
        "operationId": route.name.strip("_"),
        "summary": doc.partition("\n")[0],
        "description": doc,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in route.param_convertors
        ]
        + [{"name": name, "in": "query", **_QUERY[name]} for name in shape.query],
        "responses": {str(status): _answer(status, kind) for status, kind in shape.answers.items()},
    }
    for status in sorted({*_ANY, *shape.errors}):
        content = {"application/problem+json": {"schema": {"$ref": _REF.format(name="Problem")}}}
        operation["responses"][str(status)] = {"description": TITLES[status], "content": content}
    if shape.body is not None:
        schema = {"$ref": _REF.format(name=shape.body.__name__)}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return operation


def _answer(status: int, kind: Any) -> dict[str, Any]:
    if kind is None:
        return {"description": "Nothing more" if status == 204 else "Done"}
    if isinstance(kind, type):
        ref = {"$ref": _REF.format(name=kind.__name__)}
        return {"description": kind.__name__, "content": {"application/json": {"schema": ref}}}
    event = {"$ref": _REF.format(name="Event")}
    content: dict[str, Any] = {
        "text/event-stream": {"schema": {"type": "string"}, "x-data": event},
        "event": {"schema": event},
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        "application/json": {"schema": {"type": "object"}},
    }
    return {"description": "OK", "content": {"application/json" if kind == "event" else kind: content[kind]}}
