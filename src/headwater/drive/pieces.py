"""A view of a run that reads the same from asynchronous and from synchronous code."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from typing import Generic, Protocol, TypeVar

from headwater.events import (
    AgentEvent,
    AgentKind,
    ChatEventType,
    Event,
    Outcome,
    ReasonDeltaEvent,
    ReasonDiscardEvent,
    ReasonStartEvent,
    RoundMode,
    RoundModeEvent,
    RunEndEvent,
    RunStartEvent,
)

T = TypeVar("T")
E = TypeVar("E", bound=Event)


class Readable(Protocol):
    """What can be read both ways: a run, or a cursor on its log."""

    def __aiter__(self) -> AsyncIterator[AgentEvent]: ...

    def __iter__(self) -> Iterator[AgentEvent]: ...


Picker = Callable[[AgentEvent], list[T]]
"""Turns one event into the pieces it stands for (mostly none or one)."""


class Pieces(Generic[T]):
    """Pieces of a run: `async for` and `for` both work, once."""

    def __init__(self, run: Readable, picker: Picker[T]) -> None:
        self._run = run
        self.picker = picker

    def __aiter__(self) -> AsyncIterator[T]:
        return self._pieces(aiter(self._run))

    async def _pieces(self, events: AsyncIterator[AgentEvent]) -> AsyncGenerator[T, None]:
        picker = self.picker
        async for event in events:
            for piece in picker(event):
                yield piece

    def __iter__(self) -> Iterator[T]:
        return self._pick(iter(self._run))

    def _pick(self, events: Iterator[AgentEvent]) -> Iterator[T]:
        picker = self.picker
        for event in events:
            yield from picker(event)


def only(*classes: type[E]) -> Picker[E]:
    """Events of these classes."""

    def pick(event: AgentEvent) -> list[E]:
        return [event] if isinstance(event, classes) else []

    return pick


class VisibleText:
    """Text as it comes, preambles included. Of a team's run it is that of its members too; what agents say that are
    tools is a part of calls, and left out.
    """

    def __init__(self) -> None:
        self._inside: set[str] = set()

    def __call__(self, event: AgentEvent) -> list[str]:
        cls = type(event)
        if cls is ReasonDeltaEvent:
            return _text(event) if event.origin.run_id not in self._inside else []
        if isinstance(event, RunStartEvent) and (event.cause_call_id or event.origin.parent_run_id in self._inside):
            self._inside.add(event.origin.run_id)
        return []


def _text(event: AgentEvent) -> list[str]:
    if type(event) is ReasonDeltaEvent and event.chat_type is ChatEventType.TEXT_DELTA:
        return [event.text]
    return []


class FinalText:
    """Text of the answer only: held back until the round's mode is known, live once it is an answer.

    What a team answers is known at its end: it comes in one piece.
    """

    def __init__(self) -> None:
        self._held: list[str] = []
        self._mode = RoundMode.UNKNOWN

    def __call__(self, event: AgentEvent) -> list[str]:
        cls = type(event)
        if event.origin.parent_run_id:
            return []
        if event.origin.agent_kind is AgentKind.TEAM:
            has_answer = isinstance(event, RunEndEvent) and event.outcome in (Outcome.COMPLETED, Outcome.LIMIT)
            return [event.response.text] if isinstance(event, RunEndEvent) and has_answer else []
        if cls is ReasonDeltaEvent:
            text = _text(event)
            if not text or self._mode is RoundMode.FINAL_ANSWER:
                return text
            if self._mode is RoundMode.UNKNOWN:
                self._held.extend(text)
        elif isinstance(event, RoundModeEvent):
            self._mode = event.mode
            held, self._held = self._held, []
            if self._mode is RoundMode.FINAL_ANSWER:
                return held
        elif cls is ReasonStartEvent or cls is ReasonDiscardEvent:
            self._held = []
            self._mode = RoundMode.UNKNOWN
        return []
