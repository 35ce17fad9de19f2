"""Attempts that end `suspended`: what they wait for is told, and their calls open again when it is there (L5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from headwater.events import (
    HITLDecidedEvent,
    HITLPendingEvent,
    Question,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolStatus,
)


class _Parked(msgspec.Struct, frozen=True):
    """A call whose last attempt, with these arguments, was suspended in this segment."""

    args: dict[str, Any] | None
    segment: int
    question: Question | None


class WaitCheck:
    """Follows the suspended attempts of one run. `say` takes a message and the law."""

    def __init__(self, say: Callable[[str, str], None]) -> None:
        self._say = say
        self._starts: dict[str, ToolCallStartEvent] = {}
        self._parked: dict[str, _Parked] = {}
        self._closes_only: dict[str, str] = {}
        """Open attempts that may not run, and why."""

    def turn(self) -> None:
        """A model turn begins: what a withdrawn one has asked is void."""
        self._parked.clear()

    def start(self, event: ToolCallStartEvent, segment: int) -> None:
        """A `tool.start`; other arguments than those of the suspended attempt make a question void."""
        self._starts[event.call_id] = event
        parked = self._parked.pop(event.call_id, None)
        if parked is None or parked.args != event.args:
            return
        if parked.question is not None:
            self._closes_only[event.call_id] = f"before its question was answered ({parked.question.text})"
        elif parked.segment == segment:
            self._closes_only[event.call_id] = "in the segment in which it was suspended"

    def end(self, event: ToolCallEndEvent, segment: int) -> None:
        """A `tool.end`."""
        call_id = event.call_id
        what = f"tool.end of call {call_id}, attempt {event.attempt},"
        why = self._closes_only.pop(call_id, None)
        if why is not None and event.executed:
            self._say(f"{what} says that the call ran again {why}", "L5")
        if event.status is ToolStatus.SUSPENDED:
            start = self._starts.get(call_id)
            self._parked[call_id] = _Parked(start.args if start is not None else None, segment, event.question)
        elif event.question is not None or event.pending:
            self._say(f"{what} is {event.status}, and waits for a person all the same", "L5")

    def pending(self, event: HITLPendingEvent) -> None:
        """A `hitl.pending`: every open question is among what waits, and nothing else is called one."""
        tasks = {task.call_id: task for task in event.tasks}
        for call_id, parked in self._parked.items():
            task = tasks.get(call_id)
            if task is not None and task.args != parked.args:
                continue
            if parked.question is None and task is not None:
                self._say(f"hitl.pending names call {call_id}, inside which others wait", "L5")
            elif parked.question is not None and (task is None or task.schema != parked.question.schema):
                self._say(f"hitl.pending does not put the question of call {call_id}", "L5")
        for call_id, task in tasks.items():
            if task.schema is not None and call_id not in self._parked:
                self._say(f"hitl.pending puts a question of call {call_id}, which has asked none", "L5")

    def decided(self, event: HITLDecidedEvent) -> None:
        """A `hitl.decided`: an answer has its question."""
        parked = self._parked.get(event.call_id)
        asks = parked is not None and parked.question is not None
        if event.decision == "answer" and not asks:
            self._say(f"hitl.decided answers call {event.call_id}, which has asked nothing", "L5")
        elif asks and event.decision in ("approve", "always"):
            self._say(f"hitl.decided approves call {event.call_id}, which waits for an answer", "L5")
        if asks:
            del self._parked[event.call_id]
