"""Checks arguments against a JSON Schema that came from elsewhere: the part of the standard that models break.

Keywords it does not know are no reason to refuse: the tool itself has the last word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

from headwater.tools.problems import Problem, join_path, lines_of, unknown_argument

Path = tuple[str | int, ...]

ANSWER = "the answer"
"""What the whole of a person's answer is called."""

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "number": (int, float),
    "integer": (int,),
}
_BOUNDS: dict[str, tuple[str, Callable[[float, float], bool]]] = {
    "minimum": ("at least", lambda value, bound: value >= bound),
    "maximum": ("at most", lambda value, bound: value <= bound),
    "exclusiveMinimum": ("above", lambda value, bound: value > bound),
    "exclusiveMaximum": ("below", lambda value, bound: value < bound),
}


def _is_type(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(name, (object,)))


def answer_problem(value: Any, schema: dict[str, Any]) -> str:
    """What is wrong with a person's answer as far as the schema tells; empty if nothing is."""
    found = Checker(schema).found(value)
    return lines_of([p if p.path != "arguments" else Problem(ANSWER, p.text, p.given) for p in found])


class Checker:
    """Finds what is wrong with a value. `root` is the whole schema, for local references."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root

    def found(self, value: Any) -> list[Problem]:
        """Everything that is wrong with `value`; nothing if the schema itself is odd, as the tool has the last word."""
        try:
            return list(self.problems(value))
        except (TypeError, AttributeError, ValueError, RecursionError):
            return []

    def problems(self, value: Any, schema: Any = None, path: Path = ()) -> Iterator[Problem]:
        """Everything that is wrong with `value`, the outermost first."""
        if schema is None:
            schema = self._root
        if not isinstance(schema, dict):
            return
        node = self._follow(cast("dict[str, Any]", schema))
        wanted = node.get("type")
        names = [wanted] if isinstance(wanted, str) else cast("list[str]", wanted or [])
        if names and not any(_is_type(value, name) for name in names):
            yield Problem(join_path(path), f"should be {' or '.join(names)}", value)
            return
        if "enum" in node and value not in node["enum"]:
            yield Problem(join_path(path), f"should be one of {node['enum']}", value)
        if "const" in node and value != node["const"]:
            yield Problem(join_path(path), f"should be {node['const']!r}", value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            for key, (words, holds) in _BOUNDS.items():
                bound = node.get(key)
                if isinstance(bound, int | float) and not isinstance(bound, bool) and not holds(value, bound):
                    yield Problem(join_path(path), f"should be {words} {bound}", value)
        for part in node.get("allOf", ()):
            yield from self.problems(value, part, path)
        yield from self._options(value, node, path)
        if isinstance(value, dict):
            yield from self._object(cast("dict[str, Any]", value), node, path)
        if isinstance(value, list) and isinstance(node.get("items"), dict):
            for i, item in enumerate(cast("list[Any]", value)[len(node.get("prefixItems", ())) :]):
                yield from self.problems(item, node["items"], (*path, i))

    def _options(self, value: Any, node: dict[str, Any], path: Path) -> Iterator[Problem]:
        options = node.get("anyOf") or node.get("oneOf")
        if not options:
            return
        all_found = [list(self.problems(value, option, path)) for option in options]
        if all(all_found):
            yield from max(all_found, key=lambda found: max(len(problem.path) for problem in found))

    def _object(self, value: dict[str, Any], node: dict[str, Any], path: Path) -> Iterator[Problem]:
        properties = cast("dict[str, Any]", node.get("properties", {}))
        for name in node.get("required", ()):
            if name not in value:
                yield Problem(join_path((*path, name)), "required, but missing")
        rest = node.get("additionalProperties", True)
        for name, item in value.items():
            if name in properties:
                yield from self.problems(item, properties[name], (*path, name))
            elif rest is False and "patternProperties" not in node:
                yield unknown_argument(join_path((*path, name)), tuple(properties))
            elif isinstance(rest, dict):
                yield from self.problems(item, rest, (*path, name))

    def _follow(self, node: dict[str, Any]) -> dict[str, Any]:
        for _ in range(20):  # a reference to itself must not hang us
            ref = node.get("$ref")
            if not isinstance(ref, str) or not ref.startswith("#/"):
                return node
            target: Any = self._root
            for step in ref[2:].split("/"):
                key = step.replace("~1", "/").replace("~0", "~")
                target = cast("dict[str, Any]", target).get(key) if isinstance(target, dict) else None
            if not isinstance(target, dict):
                return node
            node = {**cast("dict[str, Any]", target), **{k: v for k, v in node.items() if k != "$ref"}}
        return node
