"""Messages in the form of OpenAI's chat completions, both ways."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from headwater.chat.arguments import is_object, parse_arguments
from headwater.chat.profile import Profile
from headwater.errors import UsageError
from headwater.messages import (
    AssistantMessage,
    AssistantPart,
    MediaPart,
    Message,
    RefusalPart,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    UserMessage,
    UserPart,
)

_to_json = msgspec.json.Encoder().encode
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
LONGEST_NAME = 64
"""Characters that endpoints accept in the name of a function."""


def message_to_openai(message: Message, profile: Profile) -> dict[str, Any]:
    """One message as the endpoint takes it. It does not look at its neighbours: `history.sendable` does."""
    match message:
        case SystemMessage():
            return {"role": profile.system_role, "content": message.text}
        case UserMessage():
            out: dict[str, Any] = {"role": "user", "content": _user_content(message.parts)}
            if message.name:
                out["name"] = message.name
            return out
        case AssistantMessage():
            return _assistant(message, profile)
        case ToolMessage():
            return {"role": "tool", "tool_call_id": message.id, "content": message.text}


def wire_arguments(call: ToolCallPart) -> str:
    """What goes back as the arguments of a call: always the text of one JSON object.

    The raw text if it is one, else the object it was read as, else `{}`: servers refuse what they were content to
    write, and the call's result tells the model what was wrong.
    """
    if is_object(call.arguments):
        return call.arguments
    return _to_json(call.args).decode() if call.args else "{}"


def _assistant(message: AssistantMessage, profile: Profile) -> dict[str, Any]:
    # A refusal goes back as text: most endpoints take no `refusal`, and an empty message even less.
    text = "".join([p.text for p in message.parts if type(p) is TextPart or type(p) is RefusalPart])
    calls = [p for p in message.parts if type(p) is ToolCallPart]
    out: dict[str, Any] = {"role": "assistant"}
    if text.strip():
        out["content"] = text
    elif not calls:
        out["content"] = _described_media(message.parts)
    elif profile.tool_call_content != "absent":
        out["content"] = None if profile.tool_call_content == "null" else ""
    if profile.thinking_in_history == "always" or (calls and profile.thinking_in_history == "with_tool_calls"):
        _add_thinking(out, message.parts, profile.thinking_field)
    for part in message.parts:
        if type(part) is MediaPart and part.media_type.startswith("audio/") and part.raw and "id" in part.raw:
            out["audio"] = {"id": part.raw["id"]}
    if message.echo:
        out.update(message.echo)
    if calls:
        out["tool_calls"] = [_call(call) for call in calls]
    return out


def _call(call: ToolCallPart) -> dict[str, Any]:
    # A model may call what no endpoint takes back as a name.
    name = _NOT_IN_NAMES.sub("_", call.name)[:LONGEST_NAME] or "unknown"
    out: dict[str, Any] = {
        "id": call.id,
        "type": "function",
        "function": {"name": name, "arguments": wire_arguments(call)},
    }
    if call.echo:
        out.update(call.echo)
    return out


def _add_thinking(out: dict[str, Any], parts: Sequence[AssistantPart], field: str) -> None:
    """Thinking goes back as one text, even an empty one, and opaque fields as they came; equal keys hold one list."""
    thinking = [p for p in parts if type(p) is ThinkingPart]
    if any(p.text or not p.echo for p in thinking):
        out[field] = "".join([p.text for p in thinking])
    merged: dict[str, Any] = {}
    for part in thinking:
        for key, value in (part.echo or {}).items():
            before = merged.get(key)
            merged[key] = [*before, *value] if isinstance(before, list) and isinstance(value, list) else value
    out.update(merged)


def _described_media(parts: Sequence[AssistantPart]) -> str:
    """What stands for an answer of media only: endpoints take no media of an assistant, and no empty message."""
    return " ".join([f"[{p.media_type or 'media'}]" for p in parts if type(p) is MediaPart])


def _user_content(parts: Sequence[UserPart]) -> str | list[dict[str, Any]]:
    if all(type(p) is TextPart for p in parts):
        return "".join([cast("TextPart", p).text for p in parts])
    return [{"type": "text", "text": p.text} if type(p) is TextPart else _media(cast("MediaPart", p)) for p in parts]


def _media(part: MediaPart) -> dict[str, Any]:
    if part.raw and "type" in part.raw:
        return part.raw
    kind = part.media_type.partition("/")[0]
    url = part.url or f"data:{part.media_type or 'application/octet-stream'};base64,{part.data}"
    if kind == "audio":
        sound = part.media_type.partition("/")[2].removeprefix("x-")
        data = part.data or part.url
        return {"type": "input_audio", "input_audio": {"data": data, "format": {"mpeg": "mp3"}.get(sound, sound)}}
    if kind == "image" or (not kind and part.url):
        return {"type": "image_url", "image_url": {"url": url}}
    if kind == "video":
        return {"type": "video_url", "video_url": {"url": url}}
    return {"type": "file", "file": {"filename": part.name or "file", "file_data": url}}


def messages_from_openai(history: Iterable[Mapping[str, Any]]) -> list[Message]:
    """Read a conversation in the form of chat completions.

    The ids of calls are kept as wire ids; they are our call ids too where that is unambiguous. Fields of an assistant
    message that are not known are kept in `echo` and go back as they are. Raises `UsageError` for what is no message,
    with its position.
    """
    reader = _Reader()
    for position, raw in enumerate(history):
        try:
            reader.read(raw)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            why = f"{error.args[0]!r} is missing" if type(error) is KeyError else str(error)
            raise UsageError(f"history[{position}] is no chat-completions message: {why}") from error
    return reader.messages


_ASSISTANT_FIELDS = frozenset(
    {"role", "content", "refusal", "tool_calls", "function_call", "reasoning_content", "reasoning", "name"}
    | {"reasoning_details", "annotations", "audio"}
)
_CALL_FIELDS = frozenset({"id", "type", "function", "index"})


class _Reader:
    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._call_ids: set[str] = set()
        self._open: list[ToolCallPart] = []

    def read(self, raw: Mapping[str, Any]) -> None:
        match raw["role"]:
            case "system" | "developer":
                self.messages.append(SystemMessage(text=_text(raw.get("content"))))
            case "user":
                self.messages.append(UserMessage(parts=_user_parts(raw.get("content")), name=raw.get("name") or ""))
            case "assistant":
                self.messages.append(self._assistant(raw))
            case "tool" | "function":
                self.messages.append(self._result(raw))
            case role:
                raise ValueError(f"unknown role {role!r}")

    def _assistant(self, raw: Mapping[str, Any]) -> AssistantMessage:
        parts: list[AssistantPart] = []
        thinking = raw.get("reasoning_content") or raw.get("reasoning")
        details = raw.get("reasoning_details")
        if thinking or details or raw.get("reasoning_content") == "":
            echo = {"reasoning_details": details} if details else None
            parts.append(ThinkingPart(text=thinking or "", echo=echo))
        content = raw.get("content")
        for item in [content] if isinstance(content, str) else cast("list[Any]", content or []):
            parts += _assistant_part(item)
        if raw.get("refusal"):
            parts.append(RefusalPart(text=raw["refusal"]))
        if raw.get("audio"):
            parts.append(MediaPart(media_type="audio/*", raw=raw["audio"]))
        calls = list(cast("list[Mapping[str, Any]]", raw.get("tool_calls") or []))
        if raw.get("function_call"):
            calls.append({"function": raw["function_call"]})
        self._open = [self._call(call) for call in calls]
        rest = {k: v for k, v in raw.items() if k not in _ASSISTANT_FIELDS}
        return AssistantMessage(parts=(*parts, *self._open), echo=rest or None)

    def _call(self, raw: Mapping[str, Any]) -> ToolCallPart:
        function = raw["function"]
        arguments = function.get("arguments") or ""
        if not isinstance(arguments, str):
            arguments = _to_json(arguments).decode()
        wire = raw.get("id") or ""
        call_id, number = wire or "call", 2
        while call_id in self._call_ids:
            call_id, number = f"{wire or 'call'}#{number}", number + 1
        self._call_ids.add(call_id)
        args, error, _ = parse_arguments([arguments])
        echo = {k: v for k, v in raw.items() if k not in _CALL_FIELDS}
        return ToolCallPart(call_id, wire, function["name"], arguments, args, error, echo or None)

    def _result(self, raw: Mapping[str, Any]) -> ToolMessage:
        wire, name = raw.get("tool_call_id") or "", raw.get("name") or ""
        for i, call in enumerate(self._open):
            if call.id == wire and (wire or not name or call.name == name):
                del self._open[i]
                return ToolMessage(call_id=call.call_id, id=wire, name=call.name, text=_text(raw.get("content")))
        return ToolMessage(call_id=wire, id=wire, name=name, text=_text(raw.get("content")))


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join([str(part["text"]) for part in content])


def _user_parts(content: Any) -> tuple[UserPart, ...]:
    if content is None or isinstance(content, str):
        return (TextPart(text=content),) if content else ()
    return tuple([_user_part(item) for item in content])


def _user_part(raw: Mapping[str, Any]) -> UserPart:
    kind = raw["type"]
    if kind == "text":
        return TextPart(text=raw["text"])
    url = str(raw["image_url"]["url"]) if kind == "image_url" else ""
    data_type = url[5:].partition(";")[0] if url.startswith("data:") else ""
    return MediaPart(media_type=data_type, url=url, raw=dict(raw))


def _assistant_part(item: Any) -> Iterable[AssistantPart]:
    match item:
        case str():
            return [TextPart(text=item)] if item else []
        case {"type": "text", "text": text}:
            return [TextPart(text=text)]
        case {"type": "refusal", "refusal": text}:
            return [RefusalPart(text=text)]
        case {"type": "thinking", "thinking": text}:
            return [ThinkingPart(text=text if isinstance(text, str) else _text(text))]
        case dict():
            return [MediaPart(raw=cast("dict[str, Any]", item))]
        case _:
            raise ValueError(f"content part {item!r}")
