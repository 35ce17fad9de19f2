"""The numbers that an event stands for in its run."""

from __future__ import annotations

from headwater.events.types import AgentEvent, ReasonDeltaEvent, ToolArgsDeltaEvent, UnknownEvent


def first_number(event: AgentEvent) -> int:
    """The first number an event covers: `first_seq` of a merged delta, else `seq`."""
    if isinstance(event, ReasonDeltaEvent | ToolArgsDeltaEvent):
        return event.seq if event.first_seq is None else event.first_seq
    if isinstance(event, UnknownEvent) and event.extra:
        first = event.extra.get("first_seq")
        return first if isinstance(first, int) else event.seq
    return event.seq
