"""What an AG-UI client asks for: a `RunAgentInput` as a run to begin, or as decisions about what waits.

The transcript in the request comes from a browser and is not believed: the session in the store is the conversation,
and only the user message at the end of the transcript is taken from it. What waits is named by interrupt ids, which
bind an answer to the run, the call and the arguments that were shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from headwater.core.decisions import Always, Approve, Decision, Reject, Respond, Skip
from headwater.messages import MediaPart, TextPart, UserMessage, UserPart
from headwater.serve.adapter import BadRequest
from headwater.serve.waiting import read_waiting_name


class ResumeEntry(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to one interrupt."""

    interrupt_id: str
    status: str
    payload: Any = None


class RunAgentInput(msgspec.Struct, frozen=True, rename="camel"):
    """The body of a request; `state`, `tools`, `context` and `forwardedProps` are not read."""

    thread_id: str
    run_id: str
    messages: list[dict[str, Any]] = []
    protocol_version: str | None = None
    parent_run_id: str | None = None
    resume: list[ResumeEntry] | None = None


def read_input(body: bytes) -> RunAgentInput:
    """The request's body. Raises `BadRequest` for anything else."""
    try:
        found = msgspec.json.decode(body, type=RunAgentInput)
    except msgspec.MsgspecError as error:
        raise BadRequest(f"This is no RunAgentInput: {error}.", status=422, code="invalid_input") from error
    if not found.thread_id or not found.run_id:
        raise BadRequest("threadId and runId must not be empty.", status=422, code="invalid_input")
    return found


def prompt_of(found: RunAgentInput) -> UserMessage:
    """The user message at the end of the transcript: the one thing in it that is new."""
    last = found.messages[-1] if found.messages else {}
    if last.get("role") != "user":
        raise BadRequest(
            "The last message must be the user's: the conversation before it is kept by the server.",
            status=422,
            code="no_prompt",
        )
    content = last.get("content")
    raw = cast("list[Any]", content) if isinstance(content, list) else [{"type": "text", "text": content}]
    parts = tuple(part for item in raw if (part := _part(item)) is not None)
    if not parts:
        raise BadRequest("The last message says nothing.", status=422, code="no_prompt")
    return UserMessage(parts=parts)


def _part(item: Any) -> UserPart | None:
    """A part of a message; None for an empty text. Raises `BadRequest` for what is no part."""
    match item:
        case {"type": "text", "text": str(text)}:
            return TextPart(text) if text else None
        case {"type": "image" | "audio" | "video" | "document" as kind, "source": {"type": "data", "value": str(data)}}:
            return MediaPart(media_type=_mime(item["source"], f"{kind}/*"), data=data)
        case {"type": "image" | "audio" | "video" | "document", "source": {"type": "url", "value": str(url)}}:
            return MediaPart(media_type=_mime(item["source"], ""), url=url)
        case {"type": "binary", "data": str(data)}:
            return MediaPart(media_type=_mime(item, "application/octet-stream"), data=data)
        case {"type": "binary", "url": str(url)}:
            return MediaPart(media_type=_mime(item, ""), url=url)
        case _:
            raise BadRequest("A part of the last message cannot be read.", status=422, code="invalid_input")


def _mime(source: dict[str, Any], otherwise: str) -> str:
    found = source.get("mimeType")
    return found if isinstance(found, str) and found else otherwise


def decisions_of(entries: Sequence[ResumeEntry]) -> tuple[Decision, ...]:
    """The answers as decisions, each bound to what was shown."""
    return tuple(_decision(entry) for entry in entries)


def _decision(entry: ResumeEntry) -> Decision:
    named = read_waiting_name(entry.interrupt_id)
    if named is None:
        raise BadRequest(f"No interrupt is called {entry.interrupt_id!r}.", status=409, code="unknown_interrupt")
    _, call_id, digest = named
    if entry.status == "cancelled":
        return Skip(call_id, digest=digest)
    match entry.payload:
        case {"decision": "always", **rest}:
            return Always(call_id, same_args=rest.get("same_args") is True, digest=digest)
        case {"decision": "skip", **rest}:
            return Skip(call_id, _text(rest), digest=digest)
        case {"approved": True, **rest}:
            return Approve(call_id, _edited(rest), _text(rest), digest=digest)
        case {"approved": False, **rest}:
            return Reject(call_id, _text(rest), digest=digest)
        case True:
            return Approve(call_id, digest=digest)
        case False:
            return Reject(call_id, digest=digest)
        case {"answer": answer}:
            return Respond(call_id, value=answer, digest=digest)
        case str(text) | {"text": str(text)} if text:
            return Respond(call_id, text, digest=digest)
        case _:
            raise BadRequest(
                f"The answer to interrupt {entry.interrupt_id!r} cannot be read: send a payload with `approved` "
                "(and `editedArgs` or `reason`), with `answer`, or with `text`.",
                status=422,
                code="invalid_answer",
            )


def _edited(payload: dict[str, Any]) -> dict[str, Any] | None:
    edited = payload.get("editedArgs")
    if edited is None:
        return None
    if not isinstance(edited, dict):
        raise BadRequest("editedArgs must be an object.", status=422, code="invalid_answer")
    return cast("dict[str, Any]", edited)


def _text(payload: dict[str, Any]) -> str:
    for name in ("reason", "message", "comment"):
        if isinstance(payload.get(name), str):
            return payload[name]
    return ""
