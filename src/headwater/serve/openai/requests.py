"""What a client of chat completions asks for: a run on the whole conversation, or a word about what waits.

The request carries the conversation, so that the run has no session. Its messages are the client's, also those that
say they are the assistant's; the agent's own instructions come first. What the client would have the model do that an
agent cannot (its own tools, several choices) is refused rather than left out in silence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from headwater.chat.openai_messages import messages_from_openai
from headwater.core.decisions import Approve, Decision, Reject, Respond
from headwater.errors import UsageError
from headwater.messages import AssistantMessage, Message, TextPart, UserMessage
from headwater.serve.adapter import BadRequest, Decide, Intent, StartRun
from headwater.serve.openai.options import ChatOptions
from headwater.serve.waiting import Waiting, read_waiting_name

T = TypeVar("T")

_MARK = re.compile(r"\[(approval|question) ([^\s\]]+)\]")
_APPROVED = re.compile(r"\s*approved?[.!]?\s*", re.IGNORECASE)
_REJECTED = re.compile(r"\s*reject(?:ed)?\b[\s:;,.!-]*(.*)", re.IGNORECASE | re.DOTALL)
_THOUGHT = re.compile(r"<think>.*?</think>\s*", re.DOTALL)


class StreamOptions(msgspec.Struct, frozen=True):
    """How the client wants the stream."""

    include_usage: bool | None = None


class Form(msgspec.Struct, frozen=True):
    """How the client wants the answer."""

    model: str = ""
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @property
    def wants_usage(self) -> bool:
        return self.stream_options is not None and bool(self.stream_options.include_usage)


class ChatRequest(msgspec.Struct, frozen=True):
    """The body of a request; its other fields are not read."""

    messages: list[dict[str, Any]]
    model: str = ""
    n: int | None = None
    tools: list[Any] | None = None
    functions: list[Any] | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None


def read_form(body: bytes) -> Form:
    """How the answer to a request is wanted. Raises `BadRequest`."""
    return read_body(body, Form, "a chat completion")


def read_body(body: bytes, kind: type[T], what: str) -> T:
    """The body of a request for `what`. Raises `BadRequest`."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise BadRequest(f"This is no request for {what}: {error}.", code="invalid_request") from error


def read_chat(body: bytes, options: ChatOptions) -> Intent:
    """What a request asks for. Raises `BadRequest` for what cannot be read or done."""
    read_form(body)
    found = read_body(body, ChatRequest, "a chat completion")
    if found.tools or found.functions:
        raise BadRequest("An agent has its own tools: leave `tools` out.", code="unsupported_parameter")
    if found.n not in (None, 1):
        raise BadRequest("An agent gives one answer: leave `n` out.", code="unsupported_parameter")
    messages = _messages(found.messages, options)
    if options.approvals == "text":
        decided = decisions_in(messages)
        if decided is not None:
            return decided
    return StartRun(found.model, tuple(messages), overrides=_overrides(found, options))


def _messages(given: Sequence[dict[str, Any]], options: ChatOptions) -> list[Message]:
    try:
        messages = messages_from_openai(given)
    except UsageError as error:
        raise BadRequest(str(error), code="invalid_request") from error
    if not messages or not isinstance(messages[-1], UserMessage):
        raise BadRequest("The last message must be the user's.", code="invalid_request")
    if options.reasoning_field == "think_tags":
        return [_without_thoughts(message) for message in messages]
    return messages


def _without_thoughts(message: Message) -> Message:
    """The message without what the answer had in tags: models are not shown their earlier thinking as text."""
    if not isinstance(message, AssistantMessage):
        return message
    parts = tuple(TextPart(_THOUGHT.sub("", p.text)) if isinstance(p, TextPart) else p for p in message.parts)
    return msgspec.structs.replace(message, parts=parts)


def _overrides(found: ChatRequest, options: ChatOptions) -> dict[str, Any]:
    asked = {"temperature": found.temperature, "max_tokens": found.max_completion_tokens or found.max_tokens}
    return allowed_settings(asked, options)


def allowed_settings(asked: Mapping[str, Any], options: ChatOptions) -> dict[str, Any]:
    """Of what a client asks for a run, what it may set."""
    return {name: asked[name] for name in options.client_settings if asked.get(name) is not None}


# -- approvals in words -----------------------------------------------------------------------------------------------


def mark(kind: str, name: str) -> str:
    """Names what waits in an answer's text, so that the next request says what it is about."""
    return f"[{kind} {name}]"


def decisions_in(messages: Sequence[Message]) -> Decide | None:
    """What the last message decides, if the answer before it asked; None if it is about something else.

    "approve" alone approves all that was asked about, "reject" with or without a reason rejects it; a question takes
    any text as its answer.
    """
    last, before = messages[-1], messages[-2] if len(messages) > 1 else None
    if not isinstance(last, UserMessage) or not isinstance(before, AssistantMessage):
        return None
    asked = [(kind, read_waiting_name(name)) for kind, name in _MARK.findall(before.text)]
    waiting = [(kind, one) for kind, one in asked if one is not None]
    if not waiting or len({one.run_id for _, one in waiting}) > 1:
        return None
    decisions = [_decision(kind, one, last.text) for kind, one in waiting]
    decided = tuple(decision for decision in decisions if decision is not None)
    return Decide(decided, run_id=waiting[0][1].run_id) if len(decided) == len(waiting) else None


def _decision(kind: str, waiting: Waiting, said: str) -> Decision | None:
    if rejected := _REJECTED.fullmatch(said):
        return Reject(waiting.call_id, rejected[1].strip(), digest=waiting.digest)
    if kind == "question":
        return Respond(waiting.call_id, said, digest=waiting.digest)
    return Approve(waiting.call_id, digest=waiting.digest) if _APPROVED.fullmatch(said) else None
