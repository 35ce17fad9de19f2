"""Values of A2A 1.0 made from ours, in the protocol's JSON form: parts, messages, statuses, what waits for a person."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

import msgspec

from headwater.events import AgentEvent, HITLTask, Outcome, Response, RunEndEvent, event_to_dict
from headwater.messages import MediaPart, TextPart, UserMessage
from headwater.serve.blobs import Blobs
from headwater.serve.waiting import waiting_name

Json: TypeAlias = dict[str, Any]

EXTENSION = "urn:headwater:a2a:run:v1"
"""Under this key `metadata` has what the protocol has no field for; whoever asks for it gets the run's events too."""

SUBMITTED = "TASK_STATE_SUBMITTED"
WORKING = "TASK_STATE_WORKING"
INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"
COMPLETED = "TASK_STATE_COMPLETED"
FAILED = "TASK_STATE_FAILED"
CANCELED = "TASK_STATE_CANCELED"
REJECTED = "TASK_STATE_REJECTED"
TERMINAL = frozenset({COMPLETED, FAILED, CANCELED, REJECTED})

OVER: dict[Outcome, str] = {
    Outcome.COMPLETED: COMPLETED,
    Outcome.SUSPENDED: INPUT_REQUIRED,
    Outcome.FAILED: FAILED,
    Outcome.CANCELLED: CANCELED,
}
"""The states of outcomes that say it all; of the others see `state_of`."""

LEVELS = 32
"""How deep data may be nested: the protocol's readers give up at 100 levels of messages, of which a value has two."""

_SCHEMA_KINDS = ("answer", "reject", "skip")
_APPROVAL_KINDS = ("approve", "edit", "reject", "skip", "respond", "always")


def state_of(end: RunEndEvent) -> str:
    """The task's state after a segment of its run.

    A run that a limit ended is complete if it came to an answer, and has failed without one. One that a hook refused is
    rejected; one that a person ended, by refusing a call or by going on with something else, is cancelled.
    """
    match end.outcome:
        case Outcome.LIMIT:
            return COMPLETED if end.response.text or end.response.output is not None else FAILED
        case Outcome.REJECTED:
            return CANCELED if end.error is None else REJECTED
        case outcome:
            return OVER[outcome]


def ours(**fields: Any) -> Json:
    """`metadata` under our key; what is empty is left out."""
    found = {name: msgspec.to_builtins(value) for name, value in fields.items() if value not in (None, "", (), {})}
    return {EXTENSION: found}


def native(event: AgentEvent) -> Json:
    """`metadata` with an event as it is."""
    return {EXTENSION: {"event": shallow(event_to_dict(event))}}


def shallow(value: Any, levels: int = LEVELS) -> Any:
    """A JSON value as it may go into data or metadata: what lies deeper than `levels` is the text of its JSON."""
    match value:
        case dict() | list() if not levels:
            return msgspec.json.encode(value).decode()
        case dict():
            return {name: shallow(one, levels - 1) for name, one in cast("Json", value).items()}
        case list():
            return [shallow(one, levels - 1) for one in cast("list[Any]", value)]
        case _:
            return value


def timestamp(seconds: float) -> str:
    """A time, given in Unix seconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def media(item: MediaPart, blobs: Blobs) -> Json:
    """A part of media: its bytes, or where they are."""
    found: Json = {"raw": item.data} if _is_base64(item) else {"url": blobs.media(item)}
    if item.media_type:
        found["mediaType"] = item.media_type
    if item.name:
        found["filename"] = item.name
    return found


def _is_base64(item: MediaPart) -> bool:
    if item.url or item.ref or not item.data:
        return False
    try:
        base64.b64decode(item.data, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def said(task_id: str, context_id: str, number: str, parts: Sequence[Json], metadata: Json | None = None) -> Json:
    """A message of the agent."""
    return _message("ROLE_AGENT", task_id, context_id, number, parts, metadata)


def asked(task_id: str, context_id: str, number: str, parts: Sequence[Json], metadata: Json | None = None) -> Json:
    """A message of the user."""
    return _message("ROLE_USER", task_id, context_id, number, parts, metadata)


def _message(
    role: str, task_id: str, context_id: str, number: str, parts: Sequence[Json], metadata: Json | None
) -> Json:
    found: Json = {
        "messageId": f"{task_id}:{number}",
        "taskId": task_id,
        "contextId": context_id,
        "role": role,
        "parts": list(parts),
    }
    if metadata:
        found["metadata"] = metadata
    return found


def parts_of(message: UserMessage, blobs: Blobs) -> list[Json]:
    """What a user has said."""
    found = [{"text": part.text} if isinstance(part, TextPart) else media(part, blobs) for part in message.parts]
    return found or [{"text": ""}]


def waiting(tasks: Sequence[HITLTask], run_id: str) -> list[Json]:
    """What waits for a person: a sentence and a data part for each call, and how to answer.

    Calls of members are named by the root's run too: that is what a decision names.
    """
    parts: list[Json] = []
    for task in tasks:
        parts += [{"text": _sentence(task)}, {"data": _data(task, run_id), "mediaType": "application/json"}]
    return [*parts, {"text": how_to_answer(tasks)}]


def _sentence(task: HITLTask) -> str:
    if task.schema is not None:
        return task.question
    why = f" ({task.reason})" if task.reason else ""
    return f"{task.tool_name} {msgspec.json.encode(task.args).decode()} waits for approval{why}."


def _data(task: HITLTask, run_id: str) -> Json:
    found: Json = {
        "type": "approval" if task.schema is None else "question",
        "id": waiting_name(task, run_id),
        "callId": task.call_id,
        "toolName": task.tool_name,
        "args": shallow(task.args),
        "digest": task.digest,
        "path": list(task.path),
        "decisions": list(_APPROVAL_KINDS if task.schema is None else _SCHEMA_KINDS),
    }
    if task.schema is not None:
        found |= {"question": task.question, "schema": shallow(task.schema)}
    if task.reason:
        found["reason"] = task.reason
    if task.expires_at is not None:
        found["expiresAt"] = timestamp(task.expires_at)
    return found


def how_to_answer(tasks: Sequence[HITLTask]) -> str:
    """What an answer may look like, in one sentence."""
    if len(tasks) == 1:
        if tasks[0].schema is not None:
            return "Answer in words, or with a data part that has the answer."
        return 'Answer "approve" or "reject: why", or with a data part that has a decision.'
    every = ' or, for all of them, "approve all" or "reject all: why"' if all(t.schema is None for t in tasks) else ""
    return f"Answer with a data part for each, which has its id and a decision{every}."


def ended(response: Response[Any], end: RunEndEvent) -> Json:
    """What `metadata` says of a segment's end."""
    return ours(outcome=end.outcome, rounds=response.rounds, usage=end.usage, error=end.error)
