"""Items of a request's input as messages, and messages as items.

Items that a server sent are understood when they come back: messages, reasoning, MCP calls. They are the client's word
about the past, as the assistant's messages of chat completions are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

from headwater.chat.openai_messages import messages_from_openai
from headwater.errors import UsageError
from headwater.messages import (
    AssistantMessage,
    MediaPart,
    Message,
    RefusalPart,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    UserMessage,
)
from headwater.serve.adapter import BadRequest
from headwater.serve.blobs import Blobs

Json: TypeAlias = dict[str, Any]


def messages_of(items: Sequence[Any]) -> list[Message]:
    """The messages that some items come to. Raises `BadRequest`, with the item's position, for what is none."""
    reader = _Reader()
    for position, item in enumerate(items):
        try:
            reader.read(item)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            why = f"{error.args[0]!r} is missing" if type(error) is KeyError else str(error)
            raise BadRequest(f"input[{position}] cannot be read: {why}.", code="invalid_request") from error
    reader.flush()
    try:
        return messages_from_openai(reader.out)
    except UsageError as error:
        raise BadRequest(str(error), code="invalid_request") from error


class _Reader:
    """Makes chat messages of items: what an assistant thought, said and called in a row is one message."""

    def __init__(self) -> None:
        self.out: list[Json] = []
        self._turn: Json = {}
        self._results: list[Json] = []

    def read(self, item: Any) -> None:
        if not isinstance(item, dict):
            raise ValueError(f"an item is an object, not {item!r:.60}")
        given = cast("Json", item)
        match given.get("type") or "message":
            case "message":
                self._message(given)
            case "reasoning":
                said: list[Json] = given.get("content") or given.get("summary") or []
                self._part_of_turn()["reasoning_content"] = "".join([str(part["text"]) for part in said])
            case "mcp_call":
                self._mcp_call(given)
            case "function_call":
                self._calls().append(_call(given["call_id"], given))
            case "function_call_output":
                self.flush()
                self.out.append(_result(given["call_id"], _text(given["output"])))
            case "mcp_approval_request" | "mcp_approval_response" | "mcp_list_tools":
                pass  # of the past: what came of it is in the calls
            case kind:
                raise ValueError(f"items of the type {kind!r:.60} are not supported")

    def flush(self) -> None:
        """The assistant's turn is over."""
        if self._turn:
            self.out.append({"role": "assistant", "content": None, **self._turn})
        self.out += self._results
        self._turn, self._results = {}, []

    def _part_of_turn(self) -> Json:
        """The assistant's message, to which something other than a call is added."""
        if "tool_calls" in self._turn:
            self.flush()
        return self._turn

    def _calls(self) -> list[Json]:
        return self._turn.setdefault("tool_calls", [])

    def _message(self, item: Json) -> None:
        content = item["content"]
        match item["role"]:
            case "assistant":
                parts = [{"type": "text", "text": content}] if isinstance(content, str) else map(_said, content)
                self._part_of_turn().setdefault("content", []).extend(parts)
            case "user":
                self.flush()
                parts = content if isinstance(content, str) else [_part(part) for part in content]
                self.out.append({"role": "user", "content": parts})
            case "system" | "developer":
                self.flush()
                self.out.append({"role": "system", "content": _text(content)})
            case role:
                raise ValueError(f"unknown role {role!r:.60}")

    def _mcp_call(self, item: Json) -> None:
        error, output = item.get("error"), item.get("output")
        if error is None and output is None:
            return  # it was not run there
        self._calls().append(_call(item["id"], item))
        self._results.append(_result(item["id"], _error_text(error) if output is None else _text(output)))


def _call(call_id: str, item: Json) -> Json:
    return {"id": call_id, "type": "function", "function": {"name": item["name"], "arguments": item["arguments"]}}


def _result(call_id: str, text: str) -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def _error_text(error: Any) -> str:
    match error:
        case str():
            return error
        case {"message": str(message)}:
            return message
        case {"content": content}:
            return _text(content)
        case _:
            return "The call failed."


def _text(content: Any) -> str:
    """Content that has to be text."""
    return content if isinstance(content, str) else "".join([str(part["text"]) for part in content])


def _said(part: Any) -> Json:
    match part:
        case {"type": "output_text" | "input_text" | "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "refusal", "refusal": str(text)}:
            return {"type": "refusal", "refusal": text}
        case _:
            raise ValueError(f"content of the type {_type(part)!r:.60} is not supported in an assistant's message")


def _part(part: Any) -> Json:
    """A part of a user's message, in the form of chat completions."""
    match part:
        case {"type": "input_text" | "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "input_image", "image_url": str(url)}:
            detail = part.get("detail")
            return {"type": "image_url", "image_url": {"url": url, **({"detail": detail} if detail else {})}}
        case {"type": "input_file", "file_data": str(data)}:
            return {"type": "file", "file": {"filename": part.get("filename") or "file", "file_data": data}}
        case {"type": "input_image" | "input_file"}:
            raise ValueError("a file is given as data or, an image, by its address: there are no uploaded files")
        case _:
            raise ValueError(f"content of the type {_type(part)!r:.60} is not supported in a user's message")


def _type(part: Any) -> Any:
    return cast("Json", part).get("type") if isinstance(part, dict) else part


# -- the other way ----------------------------------------------------------------------------------------------------


def items_of(messages: Sequence[Message], tail: str, blobs: Blobs) -> list[Json]:
    """Messages as items of an input; `tail` makes their ids."""
    return [
        {"id": f"item_{tail}_{number}", **item}
        for number, item in enumerate(item for message in messages for item in _items(message, blobs))
    ]


def _items(message: Message, blobs: Blobs) -> Iterator[Json]:
    match message:
        case SystemMessage(text=text):
            yield _message_item("system", [{"type": "input_text", "text": text}])
        case UserMessage(parts=parts):
            yield _message_item("user", [_input_part(part, blobs) for part in parts])
        case ToolMessage(id=name, text=text):
            yield {"type": "function_call_output", "call_id": name, "output": text, "status": "completed"}
        case AssistantMessage(parts=parts):
            for part in parts:
                yield from _assistant_items(part)


def _assistant_items(part: Any) -> Iterator[Json]:
    match part:
        case TextPart(text=text):
            yield _message_item("assistant", [{"type": "output_text", "text": text, "annotations": []}])
        case RefusalPart(text=text):
            yield _message_item("assistant", [{"type": "refusal", "refusal": text}])
        case ThinkingPart(text=text):
            yield {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": text}]}
        case ToolCallPart(id=name, name=tool, arguments=arguments):
            yield {"type": "function_call", "call_id": name, "name": tool, "arguments": arguments or "{}"}
        case _:
            pass


def _message_item(role: str, content: list[Json]) -> Json:
    return {"type": "message", "role": role, "status": "completed", "content": content}


def _input_part(part: TextPart | MediaPart, blobs: Blobs) -> Json:
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.text}
    raw: Mapping[str, Any] = part.raw or {}
    if raw.get("type") == "image_url":
        return {"type": "input_image", "image_url": raw["image_url"]["url"], "detail": "auto"}
    if part.media_type.startswith("image/"):
        return {"type": "input_image", "image_url": blobs.media(part), "detail": "auto"}
    held: Mapping[str, Any] = raw.get("file") or {}
    data = held.get("file_data")
    return {
        "type": "input_file",
        "filename": held.get("filename") or part.name or "file",
        **({"file_data": data} if data else {"file_url": blobs.media(part)}),
    }
