"""What a `useChat` client asks for: a run to begin, or decisions about what waits.

The transcript in the request comes from a browser and is not believed: the session in the store is the conversation.
Of the transcript only the user message at its end is read, or, if an assistant message stands there, which approvals it
answers. An approval's id binds the answer to the run, the call and the arguments that were shown; `input` and `output`
that a client sends along are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from headwater.core.decisions import Always, Approve, Decision, Reject, Respond, Skip
from headwater.messages import MediaPart, TextPart, UserMessage, UserPart
from headwater.serve.adapter import BadRequest
from headwater.serve.waiting import Waiting, read_waiting_name


class UIMessage(msgspec.Struct, frozen=True):
    """A message of the transcript; its other fields are not read."""

    role: str
    parts: list[Any] = []


class Answer(msgspec.Struct, frozen=True):
    """A decision that a page sends itself, in the body's `decisions`: approvals know no edited arguments.

    `id` is what the `data` of a `data-hitl` part calls itself; `decision` is `approve`, `reject`, `skip`, `respond` or
    `always`. `value` is the answer to a tool's question, where that is not text.
    """

    id: str
    decision: str
    args: dict[str, Any] | None = None
    message: str = ""
    value: Any = msgspec.UNSET


class ChatRequest(msgspec.Struct, frozen=True):
    """The body of a request."""

    id: str
    messages: list[UIMessage] = []
    trigger: str = "submit-message"
    decisions: list[Answer] = []


def read_request(body: bytes) -> ChatRequest:
    """The request's body. Raises `BadRequest` for anything else."""
    try:
        found = msgspec.json.decode(body, type=ChatRequest)
    except msgspec.MsgspecError as error:
        raise BadRequest(f"This is no request of useChat: {error}.", status=422, code="invalid_input") from error
    if not found.id:
        raise BadRequest("The chat's id must not be empty.", status=422, code="invalid_input")
    if found.trigger == "regenerate-message":
        raise BadRequest(
            "An answer cannot be made again: the server keeps the conversation. Send the message once more.",
            status=409,
            code="regenerate_unsupported",
        )
    return found


def decisions_of(found: ChatRequest) -> tuple[Decision, ...]:
    """The decisions in the request; empty if it is a new message."""
    if found.decisions:
        return tuple(_answered(answer) for answer in found.decisions)
    last = found.messages[-1] if found.messages else None
    if last is None or last.role != "assistant":
        return ()
    decided = tuple(_approvals(last.parts))
    if not decided:
        raise BadRequest("The last message answers no approval and is not the user's.", status=422, code="no_prompt")
    return decided


def _approvals(parts: Sequence[Any]) -> Iterator[Decision]:
    for part in parts:
        match part:
            case {"state": "approval-responded", "approval": {"id": str(name), "approved": bool(approved), **rest}}:
                waiting = _waiting(name)
                reason = rest.get("reason")
                text = reason if isinstance(reason, str) else ""
                if approved:
                    yield Approve(waiting.call_id, comment=text, digest=waiting.digest)
                else:
                    yield Reject(waiting.call_id, text, digest=waiting.digest)
            case _:
                pass


def _answered(answer: Answer) -> Decision:
    waiting = _waiting(answer.id)
    match answer.decision:
        case "approve":
            return Approve(waiting.call_id, answer.args, answer.message, digest=waiting.digest)
        case "reject":
            return Reject(waiting.call_id, answer.message, digest=waiting.digest)
        case "skip":
            return Skip(waiting.call_id, answer.message, digest=waiting.digest)
        case "respond":
            return Respond(waiting.call_id, answer.message, digest=waiting.digest, value=answer.value)
        case "always":
            return Always(waiting.call_id, comment=answer.message, digest=waiting.digest)
        case _:
            raise BadRequest(f"{answer.decision!r} is no decision.", status=422, code="invalid_answer")


def _waiting(name: str) -> Waiting:
    waiting = read_waiting_name(name)
    if waiting is None:
        raise BadRequest(f"No approval is called {name!r}.", status=409, code="unknown_approval")
    return waiting


def prompt_of(found: ChatRequest) -> UserMessage:
    """The user message at the end of the transcript: the one thing in it that is new."""
    last = found.messages[-1] if found.messages else None
    if last is None or last.role != "user":
        raise BadRequest("The last message must be the user's.", status=422, code="no_prompt")
    parts = tuple(part for item in last.parts if (part := _part(item)) is not None)
    if not parts:
        raise BadRequest("The last message says nothing.", status=422, code="no_prompt")
    return UserMessage(parts=parts)


def _part(item: Any) -> UserPart | None:
    """A part of a message; None for what is not for the model. Raises `BadRequest` for what is no part."""
    match item:
        case {"type": "text", "text": str(text)}:
            return TextPart(text) if text else None
        case {"type": "file", "url": str(url), "mediaType": str(media_type)}:
            name = item.get("filename")
            return _file(url, media_type, name if isinstance(name, str) else "")
        case {"type": str(kind)} if kind != "file":
            return None
        case _:
            raise BadRequest("A part of the last message cannot be read.", status=422, code="invalid_input")


def _file(url: str, media_type: str, name: str) -> MediaPart:
    if not url.startswith("data:"):
        return MediaPart(media_type=media_type, url=url, name=name)
    head, comma, data = url.partition(",")
    if not comma or not head.endswith(";base64"):
        raise BadRequest("A file must be a base64 data URL or a web address.", status=422, code="invalid_input")
    return MediaPart(media_type=media_type, data=data, name=name)
