"""Messages of a conversation: frozen values with a JSON form, independent of any provider.

A message is one of `SystemMessage`, `UserMessage`, `AssistantMessage`, `ToolMessage`, told apart by `role` in JSON.
Parts are told apart by `type`. Codecs in `headwater.chat` turn them into what an endpoint wants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec


class TextPart(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="text"):
    """Visible text."""

    text: str


class ThinkingPart(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="thinking"):
    """A model's reasoning.

    `echo` holds opaque fields (signatures, encrypted blocks, unknown keys) that go back to the endpoint untouched.
    """

    text: str
    echo: dict[str, Any] | None = None


class RefusalPart(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="refusal"):
    """Text with which the model declines to answer, where the endpoint marks it as such."""

    text: str


class MediaPart(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="media"):
    """An image, sound or file: by `url`, or as base64 `data`. `media_type` is a MIME type, `""` if unknown.

    `raw` is the endpoint's own object, kept for what the other fields do not say. In a log's events `ref` may name the
    blob of the run that holds the data.
    """

    media_type: str = ""
    url: str = ""
    data: str = ""
    name: str = ""
    raw: dict[str, Any] | None = None
    ref: str = ""


class ToolCallPart(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="call"):
    """One tool call.

    `call_id` is ours and unique in the run; `id` is what goes over the wire. `arguments` is the raw text as it was
    streamed. `args` is the object it was read as, or None with `args_error` = `truncated`, `multiple_values`,
    `not_object` or `invalid_json`: such a call is never run. `echo` holds opaque fields that go back untouched.
    """

    call_id: str
    id: str
    name: str
    arguments: str = ""
    args: dict[str, Any] | None = None
    args_error: str | None = None
    echo: dict[str, Any] | None = None


AssistantPart: TypeAlias = TextPart | ThinkingPart | RefusalPart | MediaPart | ToolCallPart
UserPart: TypeAlias = TextPart | MediaPart


class SystemMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="role", tag="system"):
    """Instructions."""

    text: str


class UserMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="role", tag="user"):
    """What a person (or the program) says."""

    parts: tuple[UserPart, ...]
    name: str = ""

    @property
    def text(self) -> str:
        return "".join(p.text for p in self.parts if isinstance(p, TextPart))


class AssistantMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="role", tag="assistant"):
    """One model turn, parts in the order in which they began.

    `interrupted` marks a turn that a cancel or an error cut off: its text is what had arrived by then.
    """

    parts: tuple[AssistantPart, ...]
    agent: str = ""
    interrupted: bool = False
    echo: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        return "".join(p.text for p in self.parts if isinstance(p, TextPart))

    @property
    def thinking(self) -> str:
        return "".join(p.text for p in self.parts if isinstance(p, ThinkingPart))

    @property
    def refusal(self) -> str:
        return "".join(p.text for p in self.parts if isinstance(p, RefusalPart))

    @property
    def calls(self) -> tuple[ToolCallPart, ...]:
        return tuple(p for p in self.parts if isinstance(p, ToolCallPart))

    @property
    def media(self) -> tuple[MediaPart, ...]:
        return tuple(p for p in self.parts if isinstance(p, MediaPart))


class ToolMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="role", tag="tool"):
    """The result of one call: `text` is what the model reads. `id` is the call's id on the wire."""

    call_id: str
    id: str
    name: str
    text: str
    is_error: bool = False
    media: tuple[MediaPart, ...] = ()


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage

Prompt: TypeAlias = str | UserMessage | Sequence[UserPart] | Sequence[Message]
"""What `call` and `stream` take: text, a user message, its parts, or several messages."""


class Usage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Tokens of one request, or a sum. `details` is the endpoint's own object of the last request."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0
    details: dict[str, Any] | None = None

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            total_tokens=self.total_tokens + other.total_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )


def user(text: str) -> UserMessage:
    """A user message of plain text."""
    return UserMessage(parts=(TextPart(text=text),))


def assistant(text: str) -> AssistantMessage:
    """An assistant message of plain text."""
    return AssistantMessage(parts=(TextPart(text=text),) if text else ())


_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
_LIST_DECODER: msgspec.json.Decoder[list[Message]] = msgspec.json.Decoder(list[Message])


def encode_message(message: Message) -> bytes:
    """The JSON form of a message. `decode_message` reads it back without loss."""
    return _ENCODER.encode(message)


def decode_message(data: bytes | str) -> Message:
    """Read one message from JSON. Raises `msgspec.ValidationError` if it is none."""
    return _DECODER.decode(data)


def encode_messages(messages: Sequence[Message]) -> bytes:
    """The JSON form of a list of messages."""
    return _ENCODER.encode(messages)


def decode_messages(data: bytes | str) -> list[Message]:
    """Read a list of messages from JSON. Raises `msgspec.ValidationError` if it is none."""
    return _LIST_DECODER.decode(data)
