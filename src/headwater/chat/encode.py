"""The body of a chat-completions request, at the cost of the messages that are new."""

from __future__ import annotations

import json
from operator import is_
from typing import Any

import msgspec

from headwater.chat.history import Outgoing
from headwater.chat.openai_messages import message_to_openai
from headwater.chat.profile import Profile
from headwater.chat.request import ModelRequest, RequestOptions, ToolSpec
from headwater.errors import UsageError
from headwater.messages import Message, SystemMessage

_encode = msgspec.json.Encoder().encode
_OURS = ("messages", "stream")


class RequestEncoder:
    """Writes the requests of one model and profile; may be shared by any number of runs.

    What it has encoded of a run's conversation is kept in the request's `cache`, so that the next request encodes only
    what was appended, and otherwise joins bytes. A conversation that does not begin with the same message objects is
    encoded anew. The tail leaves no trace in it. The result is always that of encoding
    `sendable([*messages, *tail])`.
    """

    def __init__(self, profile: Profile, model: str) -> None:
        self.profile = profile
        self.model = model
        self._cache_key = f"completions:{id(self)}"

    def body(self, request: ModelRequest) -> bytes:
        """The request's JSON, UTF-8. Raises `UsageError` if options or tools hold what JSON cannot."""
        encoded = request.cache.get(self._cache_key)
        # The owner is compared because the id of an encoder that is gone may come again.
        if type(encoded) is not _Encoded or encoded.owner is not self or not encoded.is_prefix_of(request):
            encoded = request.cache[self._cache_key] = _Encoded(self)
        return b"".join((encoded.head(request), encoded.messages(request), b"]}"))


class _Encoded:
    """What is known of one run: its messages so far, and the bytes of each that goes out."""

    def __init__(self, owner: RequestEncoder) -> None:
        self.owner = owner
        self._seen: list[Message] = []
        self._outgoing = Outgoing(owner.profile)
        self._bytes: list[bytes] = []
        self._stale: set[int] = set()
        self._system: tuple[SystemMessage | None, bytes] = (None, b"")
        self._head: tuple[tuple[ToolSpec, ...], RequestOptions, bytes] | None = None

    def is_prefix_of(self, request: ModelRequest) -> bool:
        messages = request.messages
        return len(messages) >= len(self._seen) and all(map(is_, self._seen, messages))

    def messages(self, request: ModelRequest) -> bytes:
        outgoing, profile = self._outgoing, self.owner.profile
        for message in request.messages[len(self._seen) :]:
            self._seen.append(message)
            changed = outgoing.push(message)
            if changed is not None and changed < len(self._bytes):
                self._stale.add(changed)
        for slot in self._stale:
            self._bytes[slot] = _encode_message(message_to_openai(outgoing.messages[slot], profile))
        self._stale.clear()
        for message in outgoing.messages[len(self._bytes) :]:
            self._bytes.append(_encode_message(message_to_openai(message, profile)))
        encoded = self._bytes
        if request.tail:
            outgoing, encoded = self._with_tail(request.tail)
        joined = b",".join(encoded)
        system = outgoing.system
        if system is None:
            return joined
        if self._system[0] is not system:
            self._system = (system, _encode_message(message_to_openai(system, profile)))
        return b",".join((self._system[1], joined)) if joined else self._system[1]

    def _with_tail(self, tail: tuple[Message, ...]) -> tuple[Outgoing, list[bytes]]:
        """What goes out with the tail after the messages; what is kept of them stays as it is."""
        outgoing, encoded, profile = self._outgoing.copy(), list(self._bytes), self.owner.profile
        for message in tail:
            changed = outgoing.push(message)
            if changed is not None:
                del encoded[changed:]
        new = outgoing.messages[len(encoded) :]
        encoded.extend(_encode_message(message_to_openai(message, profile)) for message in new)
        return outgoing, encoded

    def head(self, request: ModelRequest) -> bytes:
        """Everything up to the messages, encoded again only if tools or options have changed."""
        known = self._head
        if known is not None and known[0] is request.tools and known[1] == request.options:
            return known[2]
        fields = request_fields(self.owner.model, self.owner.profile, request.options, request.tools)
        try:
            data = _encode(fields)
        except (TypeError, ValueError, UnicodeEncodeError) as error:
            raise UsageError(f"The request's options or tools cannot be written as JSON: {error}") from error
        data = data[:-1] + b',"messages":['
        self._head = (request.tools, request.options, data)
        return data


def _encode_message(fields: dict[str, Any]) -> bytes:
    try:
        return _encode(fields)
    except UnicodeEncodeError:
        # Half a surrogate pair, from a file name or a text cut in two: no JSON in UTF-8 can hold it.
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def request_fields(
    model: str, profile: Profile, options: RequestOptions, tools: tuple[ToolSpec, ...]
) -> dict[str, Any]:
    """All of a request's body but the messages.

    `options.extra` wins over the other options, these over the profile's `body`. Without tools there is no
    `tool_choice` and no `parallel_tool_calls` either: endpoints refuse them alone.
    """
    settings = {
        "temperature": options.temperature,
        "top_p": options.top_p,
        profile.max_tokens_field: options.max_tokens,
        "stop": list(options.stop) or None,
        "seed": options.seed,
        "reasoning_effort": options.reasoning_effort,
        "response_format": options.response_format,
    }
    fields: dict[str, Any] = {"model": model, **profile.body}
    fields.update((key, value) for key, value in settings.items() if value is not None)
    if tools:
        fields["tools"] = [_tool(tool) for tool in tools]
        if options.tool_choice is not None:
            fields["tool_choice"] = _tool_choice(options.tool_choice, tools)
        if options.parallel_tool_calls is not None:
            fields["parallel_tool_calls"] = options.parallel_tool_calls
    if profile.stream_usage:
        fields["stream_options"] = {"include_usage": True}
    fields.update(options.extra or {})
    for key in _OURS:
        fields.pop(key, None)
    if not fields.get("tools"):
        for key in ("tools", "tool_choice", "parallel_tool_calls"):
            fields.pop(key, None)
    fields["stream"] = True
    return fields


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = tool.parameters
    return {"type": "function", "function": function}


def _tool_choice(choice: Any, tools: tuple[ToolSpec, ...]) -> Any:
    """`auto`, `none`, `required` and dicts as they are; the name of an offered tool asks for that tool."""
    if any(tool.name == choice for tool in tools):
        return {"type": "function", "function": {"name": choice}}
    return choice
