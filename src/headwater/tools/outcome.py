"""How one attempt of a call ended, and how returned values and exceptions become what the model reads."""

from __future__ import annotations

import base64
import inspect
from typing import Any, cast

import msgspec

from headwater.errors import ErrorInfo, ToolError
from headwater.events import HITLTask, Question, ToolStatus
from headwater.messages import MediaPart
from headwater.tools.asking import ToolSuspended
from headwater.tools.jsonvalue import json_text, safe_text

NO_RESULT = "(no result)"
"""What the model reads when a tool returns None."""


class ToolResult(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Return it from a tool to say exactly what the model reads, with media, or that the call failed."""

    text: str = ""
    media: tuple[MediaPart, ...] = ()
    is_error: bool = False


class ToolOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The end of one attempt: what `tool.end` carries.

    `text` is what the model reads. `executed` is false if the tool's code never ran. `duration` is seconds. `error`
    names the exception's class in `kind`, or `timeout`; `exception` is what the tool raised, and stands
    in no event. An attempt that is `suspended` has no result: it waits for the
    answer to its `question`, or for what is `pending` inside it (see `ToolSuspended`).
    """

    status: ToolStatus
    text: str = ""
    media: tuple[MediaPart, ...] = ()
    error: ErrorInfo | None = None
    executed: bool = True
    duration: float = 0.0
    question: Question | None = None
    pending: tuple[HITLTask, ...] = ()
    exception: BaseException | None = None


_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
)


def _media_type(data: bytes) -> str:
    if data[:4] == b"RIFF":
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(data[8:12], "")
    return next((name for magic, name in _MAGIC if data.startswith(magic)), "")


def _media_line(part: MediaPart) -> str:
    return f"({' '.join(word for word in (part.media_type or 'file', part.name or part.url) if word)})"


def _as_media(data: bytes) -> MediaPart:
    raw = bytes(data)
    return MediaPart(media_type=_media_type(raw), data=base64.b64encode(raw).decode())


def _with_media(items: list[Any]) -> ToolOutcome:
    """A list that holds media: its other items are text, a line each."""
    media = tuple(item for item in items if type(item) is MediaPart)
    rest = [item for item in items if type(item) is not MediaPart]
    lines = [item if isinstance(item, str) else json_text(item) for item in rest] or [_media_line(m) for m in media]
    return ToolOutcome(status=ToolStatus.OK, text=safe_text("\n".join(lines)), media=media)


def outcome_of(value: Any) -> ToolOutcome:
    """The outcome of a tool that returned `value`.

    Text stands as it is; None reads `(no result)`; `MediaPart`, alone or in a list, and bytes become media;
    `ToolResult` says it all; anything else is compact JSON, where what has no JSON form stands as its `str()`. An
    exception of the value's own code is an error outcome.
    """
    try:
        return _outcome_of(value)
    except Exception as error:  # noqa: BLE001  # __str__, serializers and properties of the user's objects run here
        return outcome_of_error(error, "The tool ran, but its result cannot be shown: ")


def _outcome_of(value: Any) -> ToolOutcome:
    if isinstance(value, str):
        return ToolOutcome(status=ToolStatus.OK, text=safe_text(str(value)))
    if value is None:
        return ToolOutcome(status=ToolStatus.OK, text=NO_RESULT)
    if type(value) is ToolResult:
        text = safe_text(value.text)
        if value.is_error:
            error = ErrorInfo(kind="ToolError", message=text)
            return ToolOutcome(status=ToolStatus.ERROR, text=text, media=value.media, error=error)
        return ToolOutcome(status=ToolStatus.OK, text=text, media=value.media)
    if type(value) is MediaPart:
        return _with_media([value])
    if isinstance(value, bytes | bytearray | memoryview):
        return _with_media([_as_media(cast("bytes", value))])
    if isinstance(value, list | tuple):
        items = list(cast("list[Any]", value))
        value = items
        if any(type(item) is MediaPart for item in items):
            return _with_media(items)
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        raise TypeError("it is a generator; return a list, and report progress with ToolContext.emit_progress")
    text = json_text(value)
    if text.startswith('"'):  # dates, paths, enums: their text, without quotes
        decoded = msgspec.json.decode(text)
        text = decoded if isinstance(decoded, str) else text
    return ToolOutcome(status=ToolStatus.OK, text=text)


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return [leaf for inner in group.exceptions for leaf in _leaves(inner)]
    return [error]


def _describe(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception:  # noqa: BLE001  # an exception whose own __str__ fails still has a class
        message = ""
    if isinstance(error, ToolError):
        return message or "ToolError"
    name = type(error).__name__
    return f"{name}: {message}" if message else name


def describe_error(error: BaseException) -> str:
    """What the model reads of an exception: class and message, of `ToolError` the message as it is, no traceback."""
    return safe_text("; ".join(_describe(leaf) for leaf in _leaves(error)))


def error_info(error: BaseException) -> ErrorInfo:
    """The exception as a value; `kind` is its class name. A group of one is that one."""
    leaves = _leaves(error)
    only = leaves[0] if len(leaves) == 1 else error
    return ErrorInfo(kind=type(only).__name__, message=describe_error(error))


def outcome_of_error(error: BaseException, lead: str = "") -> ToolOutcome:
    """The outcome of a tool that raised `error`; `lead` stands before what the model reads."""
    waits = [leaf for leaf in _leaves(error) if isinstance(leaf, ToolSuspended)]
    if waits and len(waits) == len(_leaves(error)):
        return _suspended(waits)
    info = error_info(error)
    return ToolOutcome(status=ToolStatus.ERROR, text=lead + info.message, error=info, exception=error)


def _suspended(waits: list[ToolSuspended]) -> ToolOutcome:
    """The outcome of an attempt that waits; of several questions asked at once the first is put first."""
    asked = [wait.question for wait in waits if wait.question is not None]
    first = min(asked, key=lambda question: question.number, default=None)
    return ToolOutcome(
        status=ToolStatus.SUSPENDED,
        text="Waits for a person." if first is None else f"Waits for an answer: {first.text}",
        question=first,
        pending=tuple(task for wait in waits for task in wait.pending),
    )


def is_suspended(outcome: ToolOutcome) -> bool:
    """Whether the attempt has no result and its call will be run again."""
    return outcome.status is ToolStatus.SUSPENDED


def without_fault(outcome: ToolOutcome, fault: str) -> ToolOutcome:
    """The outcome of a tool that returned although it did what must not count as a result (`fault`, empty: nothing)."""
    if not fault:
        return outcome
    return ToolOutcome(status=ToolStatus.ERROR, text=fault, error=ErrorInfo(kind="UsageError", message=fault))
