"""A conversation in the words of chat completions, as stored messages."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.messages import (
    AssistantMessage,
    AssistantPart,
    Message,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    UserMessage,
)
from headwater.testing.case_data import CaseError
from headwater.testing.case_json import Json, as_object, as_objects, loads, text_of


def preset_messages(raw: Sequence[Json]) -> list[Message]:
    """The messages of a case's `history`. Raises `CaseError` for a role that is none."""
    names: dict[str, str] = {}
    out: list[Message] = []
    for n, message in enumerate(raw):
        role, text = message.get("role"), text_of(message.get("content"))
        if role == "user":
            out.append(UserMessage(parts=(TextPart(text=text),)))
        elif role in ("system", "developer"):
            out.append(SystemMessage(text=text))
        elif role == "tool":
            wire_id = str(message.get("tool_call_id", ""))
            out.append(ToolMessage(call_id=wire_id, id=wire_id, name=names.get(wire_id, ""), text=text))
        elif role == "assistant":
            out.append(_assistant(message, n, names))
        else:
            raise CaseError(f"history: message {n + 1} has the role {role!r}")
    return out


def _assistant(message: Json, n: int, names: dict[str, str]) -> AssistantMessage:
    parts: list[AssistantPart] = []
    if message.get("reasoning_content"):
        parts.append(ThinkingPart(text=str(message["reasoning_content"])))
    if text := text_of(message.get("content")):
        parts.append(TextPart(text=text))
    for call in as_objects(message.get("tool_calls")):
        function = as_object(call.get("function"))
        wire_id = str(call.get("id", ""))
        arguments = function.get("arguments")
        args = loads(arguments)
        names[wire_id] = str(function.get("name", ""))
        parts.append(
            ToolCallPart(
                call_id=wire_id or f"h{n}",
                id=wire_id,
                name=names[wire_id],
                arguments=str(arguments),
                args=as_object(args) if isinstance(args, dict) else None,
                args_error=None if isinstance(args, dict) else "invalid_json",
            )
        )
    return AssistantMessage(parts=tuple(parts))
