"""The tool with which a model reads again what was cut out of a result. It is answered inside the run machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from headwater.chat.request import ToolSpec
from headwater.core.context.steps import RELOAD, reference
from headwater.errors import ErrorInfo, ToolArgumentsError
from headwater.events import ToolStatus
from headwater.messages import Message, ToolMessage
from headwater.tools.outcome import ToolOutcome
from headwater.tools.tool import Tool, tool

MOST = 8000
"""Characters that one call gives at most."""


@cache
def _tool() -> Tool[..., Any]:
    """Made at the first use: reading a signature loads what a run without this tool may not need."""
    return tool(effect="read")(reload_result)


def reload_result(ref: str, start: int = 0, end: int | None = None) -> tuple[str, int, int | None]:
    """Read a part of a tool result that was shortened: its note says under which ref, and what was left out.

    Args:
        ref: The name of the result, as its note has it.
        start: The first character that is wanted; the text begins at 0.
        end: The character before which to stop. At most 8000 characters come at once.
    """
    return ref, start, end


def reload_spec() -> ToolSpec:
    """The tool as the model sees it."""
    made = _tool()
    return ToolSpec(made.name, made.description, made.parameters)


def reload(conversation: Sequence[Message], args: dict[str, Any]) -> ToolOutcome:
    """What a call with these arguments comes to."""
    made = _tool()
    try:
        bound = made.bind(args)
    except ToolArgumentsError as error:
        return _wrong(str(error), "invalid_arguments")
    ref, start, end = made.function(*bound.args, **bound.kwargs)
    message = _find(conversation, ref)
    if message is None:
        return _wrong(f"There is no shortened result {ref!r}. Use a ref from the note in one.", "unknown_ref")
    length = len(message.text)
    first = max(0, start)
    last = min(length if end is None else end, length)
    if first >= last:
        return _wrong(f"Nothing stands there: {ref} has {length} characters, start must be before end.", "empty_range")
    stop = min(last, first + MOST)
    text = message.text[first:stop]
    if stop < last:
        text += f"\n[characters {first} to {stop} of {length}; go on with start={stop}]"
    return ToolOutcome(ToolStatus.OK, text)


def _find(conversation: Sequence[Message], ref: str) -> ToolMessage | None:
    number = ref.strip()[1:]
    place = int(number) if number.isdecimal() else len(conversation)
    message = conversation[place] if place < len(conversation) else None
    return message if type(message) is ToolMessage and reference(place) == ref.strip() else None


def _wrong(text: str, kind: str) -> ToolOutcome:
    return ToolOutcome(ToolStatus.ERROR, text, error=ErrorInfo(kind=kind, message=text))


__all__ = ["MOST", "RELOAD", "reload", "reload_spec"]
