"""What is wrong with arguments, in words for a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from headwater.errors import ToolArgumentsError
from headwater.tools.jsonvalue import json_text, safe_text

_GIVEN_CHARS = 80
_MOST = 10
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


class BoundArguments(msgspec.Struct, frozen=True):
    """Validated arguments, as the function receives them; the context is added at the call."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong: where, what, and the offending value (`msgspec.UNSET`: nothing to show)."""

    path: str
    text: str
    given: Any = msgspec.UNSET

    def line(self) -> str:
        if self.given is msgspec.UNSET:
            return f"- {self.path}: {self.text}"
        shown = json_text(self.given)
        if len(shown) > _GIVEN_CHARS:
            shown = shown[:_GIVEN_CHARS] + "..."
        return f"- {self.path}: {self.text}; given: {shown}"


def lines_of(problems: Sequence[Problem]) -> str:
    """A line for each problem, for a person."""
    return safe_text("\n".join(problem.line().removeprefix("- ") for problem in problems[:_MOST]))


def join_path(parts: Sequence[str | int]) -> str:
    """`items[0].name`; keys that are no plain names stand in brackets."""
    out = ""
    for part in parts:
        if isinstance(part, str) and _IDENTIFIER.fullmatch(part):
            out += f".{part}" if out else part
        else:
            out += f"[{json_text(part)}]"
    return out or "arguments"


def unknown_argument(path: str, allowed: Sequence[str]) -> Problem:
    """A name that the tool does not have."""
    names = ", ".join(allowed)
    return Problem(path, f"unknown argument; allowed: {names}" if names else "unknown argument; the tool takes none")


def arguments_error(tool_name: str, problems: Sequence[Problem]) -> ToolArgumentsError:
    """The error whose message is what the model reads: a line for each problem."""
    lines = [problem.line() for problem in problems[:_MOST]]
    if len(problems) > _MOST:
        lines.append(f"- and {len(problems) - _MOST} more")
    return ToolArgumentsError(safe_text("\n".join([f"{tool_name} was not run, its arguments do not fit:", *lines])))


def copy_json(value: Any) -> Any:
    """A copy of JSON data that shares no container with it."""
    if type(value) is dict:
        return {key: copy_json(item) for key, item in cast("dict[str, Any]", value).items()}
    if type(value) is list:
        return [copy_json(item) for item in cast("list[Any]", value)]
    return value
