"""Small helpers for JSON that is not ours: typed access, comparison, display."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

Json: TypeAlias = dict[str, Any]


def as_object(value: Any) -> Json:
    """`value` if it is an object, else an empty one."""
    return cast("Json", value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """`value` if it is an array, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_objects(value: Any) -> list[Json]:
    """The objects of an array; what is no object in it is left out."""
    return [cast("Json", item) for item in as_list(value) if isinstance(item, dict)]


def text_of(content: Any) -> str:
    """The text of a message's `content`, which may be a string or a list of parts."""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in as_objects(content))


def loads(text: Any) -> Any:
    """The value of JSON text; text that is none becomes a pair that equals no JSON value."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return ("not JSON", text)


def same_json(a: Any, b: Any) -> bool:
    """Equal as JSON: like `==`, but true is not 1."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        left, right = cast("Json", a), cast("Json", b)
        return left.keys() == right.keys() and all(same_json(left[k], right[k]) for k in left)
    if isinstance(a, list) and isinstance(b, list):
        xs, ys = cast("list[Any]", a), cast("list[Any]", b)
        return len(xs) == len(ys) and all(map(same_json, xs, ys))
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def show(value: Any, limit: int = 400) -> str:
    """A value for a report, on one line."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"
