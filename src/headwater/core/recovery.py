"""The end of a segment whose process died: what is known of its calls, and what is not.

A turn that was being written is withdrawn. A call that ran is run again if that is safe, by its tool's `effect`;
otherwise it ends `unknown`, and is never run again without being asked. A call that had not begun still will.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from headwater.core.outbox import Outbox
from headwater.core.record import CLOSED_BY
from headwater.core.texts import not_run, outcome_unknown
from headwater.errors import ErrorInfo
from headwater.events import (
    ActionEndEvent,
    ReasonDeltaEvent,
    ReasonDiscardEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolStatus,
)
from headwater.messages import ToolCallPart
from headwater.tools.tool import Tool

DIED = "the process that ran it died"


def close_segment(out: Outbox, tools: Mapping[str, Tool[..., Any]], *, runs_members: bool = False) -> None:
    """Emit what closes everything that is open, up to but without the `run.end`.

    With `runs_members` the run's calls are runs of members, which say themselves what may be repeated.
    """
    record = out.record
    for start in [record.starts[call_id] for call_id in record.starts if call_id in record.running]:
        _close_call(out, start, tools.get(start.tool_name), repeats=runs_members)
    if record.is_reasoning:
        block = record.open_block
        if block is not None:
            closing = CLOSED_BY[block.chat_type]
            out.events.append(ReasonDeltaEvent(*out.head(), closing, block.block_id))
        error = ErrorInfo(kind="interrupted", message=f"The model's turn was cut off: {DIED}.")
        out.emit(ReasonDiscardEvent(*out.head(), record.attempt, error.message, error))
    if record.acting is not None:
        for call_id in record.acting:
            if call_id not in record.ends and call_id not in record.waiting.parked:
                _close_unopened(out, record.calls[call_id])
        ended = tuple(call_id for call_id in record.acting if call_id in record.ends)
        out.emit(ActionEndEvent(*out.head(), ended))


def _close_unopened(out: Outbox, part: ToolCallPart) -> None:
    """Close a call that the open action has not come to; what waits inside it since an earlier segment still does."""
    attempt = out.record.attempts.get(part.call_id, 0) + 1
    inside = out.record.waiting.inside.get(part.call_id, ())
    out.emit(ToolCallStartEvent(*out.head(), part.call_id, part.name, part.args, attempt))
    end = ToolCallEndEvent(*out.head(), part.call_id, part.name, ToolStatus.SUSPENDED, not_run(DIED), attempt, False)
    out.emit(msgspec.structs.replace(end, pending=inside))


def _close_call(out: Outbox, start: ToolCallStartEvent, tool: Tool[..., Any] | None, *, repeats: bool) -> None:
    head = (*out.head(), start.call_id, start.tool_name)
    if out.record.is_reasoning:
        text = not_run("the model's turn did not come to a proper end")
        out.emit(ToolCallEndEvent(*head, ToolStatus.CANCELLED, text, start.attempt))
    elif repeats or (tool is not None and (tool.effect != "write" or tool.agent is not None)):
        out.emit(ToolCallEndEvent(*head, ToolStatus.SUSPENDED, f"Cut off: {DIED}.", start.attempt))
    else:
        text = outcome_unknown(start.tool_name)
        error = ErrorInfo(kind="unknown", message=text)
        out.emit(ToolCallEndEvent(*head, ToolStatus.UNKNOWN, text, start.attempt, error=error))
