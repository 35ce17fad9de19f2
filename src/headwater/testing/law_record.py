"""L8: without its deltas, a log still rebuilds the conversation and the plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from headwater.core.record import RunRecord, rebuild
from headwater.core.team.record import Tree
from headwater.errors import ErrorInfo
from headwater.events import (
    ActionEndEvent,
    AgentEvent,
    HITLDecidedEvent,
    Outcome,
    PlanEvent,
    ReasonDeltaEvent,
    ReasonEndEvent,
    ReasonStartEvent,
    RunEndEvent,
    RunStartEvent,
    ToolArgsDeltaEvent,
    ToolCallEndEvent,
)
from headwater.messages import AssistantMessage, Message, ToolCallPart, ToolMessage
from headwater.testing.law_report import Violation

_Line: TypeAlias = Message | tuple[str, str]
"""A message; of a tool's result, the call's id and the text."""


def check_record(events: Sequence[AgentEvent]) -> list[Violation]:
    """Hold what the run record makes of the boundary events against what they say one by one.

    The events must obey the other laws.
    """
    found: list[Violation] = []
    teams = Tree([e for e in events if not isinstance(e, ReasonDeltaEvent | ToolArgsDeltaEvent)]).teams
    for run_id in dict.fromkeys(event.run_id for event in events):
        kept = [e for e in events if e.run_id == run_id and not isinstance(e, ReasonDeltaEvent | ToolArgsDeltaEvent)]
        record = rebuild(kept, run_id)
        rebuilt = [_line(message) for message in record.messages]
        told = list(_told(kept))
        seq = kept[-1].seq
        if rebuilt != told:
            at = next((n for n, pair in enumerate(zip(rebuilt, told, strict=False)) if pair[0] != pair[1]), len(told))
            found.append(Violation("L8", seq, f"run {run_id}: rebuilt without deltas, message {at + 1} is another one"))
        if record.outcome is not Outcome.SUSPENDED:
            found += [
                Violation("L8", seq, f"run {run_id}: in the rebuilt history call {call_id} has no result")
                for call_id in _open_calls(record.messages)
            ]
        end, turns = kept[-1], sum(isinstance(event, ReasonEndEvent) for event in kept)
        if isinstance(end, RunEndEvent) and (record.outcome, record.turns) != (end.outcome, turns):
            found.append(Violation("L8", seq, f"run {run_id}: rebuilt as {record.outcome} after {record.turns} rounds"))
        waits = teams[run_id].pending if run_id in teams else record.waiting.tasks
        waits = waits if record.outcome is Outcome.SUSPENDED else ()
        if isinstance(end, RunEndEvent) and end.response.pending != waits:
            found.append(Violation("L8", seq, f"run {run_id}: rebuilt without deltas, other tasks wait"))
        found += _plan(kept, record)
    return found


def _plan(events: Sequence[AgentEvent], record: RunRecord) -> Iterable[Violation]:
    """The plan that was last told must be the one that is rebuilt, and the one in the response."""
    told: tuple[tuple[str, ...], int] = ((), 0)
    for event in events:
        match event:
            case RunStartEvent(plan=steps, plan_index=index) if not event.resumed:
                told = steps, index
            case PlanEvent(steps=steps, index=index):
                told = steps, index
            case RunEndEvent(response=response) if (response.plan, response.plan_index) != told:
                said = f"run {event.run_id}: the response's plan is not the last one told"
                yield Violation("response", event.seq, said)
            case _:
                pass
    rebuilt = ((), 0) if record.plan is None else (record.plan.steps, record.plan.index)
    if rebuilt != told:
        yield Violation("L8", events[-1].seq, f"run {events[-1].run_id}: rebuilt without deltas, the plan is another")


def _line(message: Message) -> _Line:
    return (message.call_id, message.text) if isinstance(message, ToolMessage) else message


def _told(events: Iterable[AgentEvent]) -> list[_Line]:
    """The conversation read off the events one by one; results stand together once the turn has all of them."""
    lines: list[_Line] = []
    texts: dict[str, str] = {}
    turn: AssistantMessage | None = None
    at = 0
    acted: set[str] = set()
    for event in events:
        match event:
            case RunStartEvent(input=messages) | ReasonStartEvent(input=messages):
                lines.extend(messages)
            case ReasonEndEvent(error=ErrorInfo(kind="input_refused")) if turn is None:
                turn = event.message
                lines.clear()  # what no model was shown is not kept
            case ReasonEndEvent(message=message):
                turn, at = message, len(lines)
                acted.clear()
                if message.parts:
                    lines.append(message)
            case HITLDecidedEvent(call_id=call_id, args=args) if turn is not None and args is not None:
                turn = _edited(turn, call_id, args)
                lines[at] = turn
            case ToolCallEndEvent(call_id=call_id, text=text):
                texts[call_id] = text
            case ActionEndEvent(calls=call_ids) if turn is not None:
                acted.update(call_ids)
                if len(acted) == len(turn.calls):
                    lines.extend((call.call_id, texts[call.call_id]) for call in turn.calls)
            case _:
                pass
    return lines


def _edited(turn: AssistantMessage, call_id: str, args: dict[str, Any]) -> AssistantMessage:
    """The turn with a person's arguments in one of its calls."""
    parts = [
        msgspec.structs.replace(part, args=args, arguments=msgspec.json.encode(args).decode())
        if isinstance(part, ToolCallPart) and part.call_id == call_id and part.args != args
        else part
        for part in turn.parts
    ]
    return msgspec.structs.replace(turn, parts=tuple(parts))


def _open_calls(messages: Iterable[Message]) -> list[str]:
    waiting: dict[str, None] = {}
    for message in messages:
        if isinstance(message, AssistantMessage):
            waiting.update(dict.fromkeys(call.call_id for call in message.calls))
        elif isinstance(message, ToolMessage):
            waiting.pop(message.call_id, None)
    return list(waiting)
