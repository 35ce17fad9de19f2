"""Values of AG-UI made from ours: messages, interrupts, results, plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from headwater.errors import ErrorInfo
from headwater.events import AgentEvent, HITLTask, Outcome, Response, ToolCallEndEvent, ToolStatus, event_to_dict
from headwater.messages import MediaPart, Usage
from headwater.serve.agui.dialect import Dialect
from headwater.serve.blobs import Blobs
from headwater.serve.waiting import waiting_name

_ENVELOPE = ("v", "seq", "ts", "origin", "round", "type")
_APPROVAL = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "editedArgs": {"type": "object"}, "reason": {"type": "string"}},
    "required": ["approved"],
}


def ours(**fields: Any) -> dict[str, Any]:
    """`metadata` with what the protocol has no field for; what is empty is left out."""
    return {"headwater": {key: msgspec.to_builtins(value) for key, value in fields.items() if value not in (None, "")}}


def body(event: AgentEvent) -> dict[str, Any]:
    """An event's own fields, without its envelope."""
    return {key: value for key, value in event_to_dict(event).items() if key not in _ENVELOPE}


def plan(steps: Sequence[str], index: int, stage: str = "") -> dict[str, Any]:
    """The content of a `PLAN` activity: each step with its status."""
    status = ["completed" if n < index else "in_progress" if n == index else "pending" for n in range(len(steps))]
    shown = [{"description": step, "status": state} for step, state in zip(steps, status, strict=True)]
    return {"steps": shown, "index": index, **({"stage": str(stage)} if stage else {})}


def media(part: MediaPart, blobs: Blobs, tool_call: str = "") -> dict[str, Any]:
    """The content of a `MEDIA` activity; what is inline is a data URL."""
    content: dict[str, Any] = {"url": blobs.media(part)}
    if part.media_type:
        content["mediaType"] = part.media_type
    if part.name:
        content["name"] = part.name
    if tool_call:
        content["toolCallId"] = tool_call
    return content


def result_text(event: ToolCallEndEvent, blobs: Blobs) -> str:
    """A tool's result as people read it: the event has no error flag, so that a failure says so in words."""
    text = blobs.text(event)
    return text if event.status is ToolStatus.OK else f"[{event.status}] {text}"


def result_parts(text: str, items: Sequence[MediaPart], blobs: Blobs) -> list[dict[str, Any]]:
    """A result of several parts: the text, then what came with it."""
    return [{"type": "text", "text": text}, *(_part(item, blobs) for item in items)]


def _part(item: MediaPart, blobs: Blobs) -> dict[str, Any]:
    major = item.media_type.partition("/")[0]
    kind = major if major in ("image", "audio", "video") else "document"
    if item.url or item.ref:
        mime = {"mimeType": item.media_type} if item.media_type else {}
        return {"type": kind, "source": {"type": "url", "value": blobs.media(item), **mime}}
    mime_type = item.media_type or "application/octet-stream"
    return {"type": kind, "source": {"type": "data", "value": item.data, "mimeType": mime_type}}


def tool_detail(event: ToolCallEndEvent) -> dict[str, Any]:
    return ours(status=event.status, executed=event.executed, error=event.error, attempt=event.attempt)


def usage(total: Usage) -> dict[str, Any]:
    """The `usage` field of a run's end, absent where nothing was counted."""
    counts = {
        "inputTokens": total.input_tokens,
        "outputTokens": total.output_tokens,
        "totalTokens": total.total_tokens,
        "reasoningTokens": total.reasoning_tokens,
        "cachedInputTokens": total.cached_input_tokens,
    }
    counted = {name: count for name, count in counts.items() if count}
    return {"usage": [counted]} if counted else {}


def result(response: Response[Any]) -> dict[str, Any]:
    """What a run comes to: its text, and its output where it has a type."""
    found: dict[str, Any] = {"text": response.text, "outcome": response.outcome.value}
    if response.output is not None:
        found["output"] = response.output
    if response.error is not None:
        found["error"] = msgspec.to_builtins(response.error)
    return found


def interrupt(task: HITLTask, root: str, run_ids: Mapping[tuple[str, ...], str], dialect: Dialect) -> dict[str, Any]:
    """One call that waits for a person; `run_ids` are the runs by their place in the tree."""
    run_id = run_ids.get(task.path, root)
    found: dict[str, Any] = {
        "id": waiting_name(task, root),
        "reason": "tool_call" if task.schema is None else "input_required",
        "message": task.question or f"Run {task.tool_name}?",
        "toolCallId": f"{run_id}:{task.call_id}",
        "responseSchema": _APPROVAL if task.schema is None else _answer(task.schema),
        "metadata": ours(
            call_id=task.call_id, tool_name=task.tool_name, args=task.args, digest=task.digest, path=task.path
        ),
    }
    if task.expires_at is not None:
        found["expiresAt"] = datetime.fromtimestamp(task.expires_at, UTC).isoformat()
    if dialect.subagents and run_id != root:
        found["subagentRunId"] = run_id
    return found


def _answer(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an answer to a tool's question: what it asks for, under a name."""
    return {"type": "object", "properties": {"answer": schema}, "required": ["answer"]}


def failure(outcome: Outcome, error: ErrorInfo | None) -> dict[str, Any]:
    """The fields `message` and `code` of an error."""
    if error is None:
        return {"message": f"The run ended {outcome}.", "code": outcome.value}
    return {"message": error.message, "code": error.kind}
