"""Event streams to join: random ones, and what has to be the same about them however they are joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
from hypothesis import strategies as st

from headwater.events import (
    AgentEvent,
    AgentKind,
    ChatEventType,
    CustomEvent,
    Origin,
    ReasonDeltaEvent,
    ReasonStartEvent,
    ToolArgsDeltaEvent,
    ToolProgressEvent,
)

Said: TypeAlias = tuple[str, str, str, str]
"""What somebody says: kind (`text`, `thinking`, `args`, `progress`, `custom`, `turn`), member, name, text."""

said = st.tuples(
    st.sampled_from(["text", "text", "text", "thinking", "args", "args", "progress", "custom", "turn"]),
    st.sampled_from(["m1", "m2"]),
    st.sampled_from(["n1", "n2"]),
    st.sampled_from(["", "a", "bc", "дом", "x" * 9000]),
)
"""Not a legal stream, but all that joining has to cope with."""


def event_of(seq: int, what: Said) -> AgentEvent:
    kind, member, name, text = what
    origin = Origin(
        run_id=member, root_run_id="r1", agent=member, agent_kind=AgentKind.REACT, path=("a", member), session_id="s1"
    )
    head = (1, seq, float(seq), origin, 1)
    match kind:
        case "text":
            return ReasonDeltaEvent(*head, chat_type=ChatEventType.TEXT_DELTA, block_id=name, text=text)
        case "thinking":
            return ReasonDeltaEvent(*head, chat_type=ChatEventType.THINKING_DELTA, block_id=f"t{name}", text=text)
        case "args":
            return ToolArgsDeltaEvent(*head, call_id=name, tool_name="tool", args=text)
        case "progress":
            return ToolProgressEvent(*head, call_id=name, data=text)
        case "turn":
            return ReasonStartEvent(*head, model="m", attempt=1)
        case _:
            return CustomEvent(*head, name=name, data=text)


def events_of(first: int, what: Sequence[Said]) -> list[AgentEvent]:
    return [event_of(first + n, one) for n, one in enumerate(what)]


def side_by_side(events: Sequence[AgentEvent]) -> list[tuple[tuple[str, object], str]]:
    """The stream with all that stands side by side and belongs together in one: the same however it was merged."""
    out: list[tuple[tuple[str, object], str]] = []
    for event in events:
        key, text = _key(event), _text(event)
        if out and isinstance(event, ReasonDeltaEvent | ToolArgsDeltaEvent) and out[-1][0] == key:
            out[-1] = (key, out[-1][1] + text)
        else:
            out.append((key, text))
    return [(key, text) for key, text in out if text or key[0] not in ("text", "args")]


def content(events: Sequence[AgentEvent]) -> dict[object, str]:
    """What each block and call of each turn comes to, and every other event but progress: what compacting keeps."""
    out: dict[object, str] = {}
    turns: dict[str, int] = {}
    for event in events:
        member = event.origin.run_id
        if isinstance(event, ReasonStartEvent):
            turns[member] = turns.get(member, 0) + 1
        if isinstance(event, ReasonDeltaEvent | ToolArgsDeltaEvent):
            key = (turns.get(member, 0), _key(event))
            out[key] = out.get(key, "") + _text(event)
        elif not isinstance(event, ToolProgressEvent):
            out["other", event.seq] = event.type
    return {key: text for key, text in out.items() if text}


def _text(event: AgentEvent) -> str:
    match event:
        case ReasonDeltaEvent(text=text):
            return text
        case ToolArgsDeltaEvent(args=args):
            return args
        case _:
            return ""


def _key(event: AgentEvent) -> tuple[str, object]:
    run_id = event.origin.run_id
    match event:
        case ReasonDeltaEvent(chat_type=kind, block_id=block_id):
            return "text", (run_id, kind, block_id)
        case ToolArgsDeltaEvent(call_id=call_id):
            return "args", (run_id, call_id)
        case _:
            return "other", msgspec.to_builtins(event)
