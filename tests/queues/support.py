"""A queue in memory that may be made to fail, agents to publish, and how to read what was published."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import headwater as hw
from headwater.errors import QueueError
from headwater.events import AgentEvent
from headwater.queues import Entry, Queue, Retries, StreamReader, read_stream
from headwater.testing import ScriptedModel, call, say, think

T = TypeVar("T")

QUICK = Retries(tries=40, first=0.01, longest=0.1)
"""For servers that come back within a second or two."""
AT_ONCE = Retries(tries=50, first=0.0, longest=0.0)


class MemoryQueue:
    """What `Queue` asks for, in a list. `fault` is called before and after each append, and may raise."""

    def __init__(self, fault: Callable[[], None] = lambda: None) -> None:
        self.entries: dict[str, list[Entry]] = {}
        self._fault = fault
        self._more = asyncio.Event()

    async def position(self, run_id: str) -> int:
        await asyncio.sleep(0)
        self._fault()
        entries = self.entries.get(run_id)
        return entries[-1].seq if entries else 0

    async def append(self, run_id: str, after: int, entries: Sequence[Entry]) -> int:
        await asyncio.sleep(0)
        self._fault()
        kept = self.entries.setdefault(run_id, [])
        if (kept[-1].seq if kept else 0) == after:
            kept.extend(entries)
            self._more.set()
            self._more = asyncio.Event()
        self._fault()
        await asyncio.sleep(0)
        return kept[-1].seq if kept else 0

    async def read(self, run_id: str, after: int) -> AsyncIterator[Sequence[Entry]]:
        while True:
            more = self._more
            if page := [entry for entry in self.entries.get(run_id, ()) if entry.seq > after]:
                after = page[-1].seq
                yield page
            else:
                await more.wait()

    async def aclose(self) -> None:
        pass


class Faults:
    """Fails at the calls whose turn it is."""

    def __init__(self, turns: Sequence[bool]) -> None:
        self._turns = iter(turns)

    def __call__(self) -> None:
        if next(self._turns, False):
            raise QueueError("down", code="unreachable", retryable=True)


def run(main: Coroutine[Any, Any, T], seconds: float = 60) -> T:
    """Run a test's coroutine; a hang fails it."""

    async def patient() -> T:
        async with asyncio.timeout(seconds):
            return await main

    return asyncio.run(patient())


@hw.tool
def weather(city: str) -> str:
    """Weather."""
    return f"{city}: 4 degrees"


@hw.tool(requires_approval=True)
def transfer(to: str) -> str:
    """Move money."""
    return f"sent to {to}"


def meteorologist(**settings: Any) -> hw.ReActAgent:
    """An agent with thinking, a preamble, a call and an answer."""
    replies = [
        [think("Hm, ", "let me ", "look."), say("I will ", "look."), call("weather", {"city": "Oslo"}, cut=5)],
        [say("It is ", "4 ", "degrees ", "in Oslo.")],
    ]
    return hw.ReActAgent("met", model=ScriptedModel(replies * 9), tools=[weather], **settings)


def banker(**settings: Any) -> hw.ReActAgent:
    replies = [[call("transfer", {"to": "b"})], [say("Sent ", "it.")]]
    return hw.ReActAgent("bank", model=ScriptedModel(replies), tools=[transfer], **settings)


def reader(queue: Queue, run_id: str, **settings: Any) -> StreamReader:
    given: dict[str, Any] = {"idle_timeout": 20.0, "retries": QUICK, **settings}
    return read_stream(run_id, queue=queue, **given)


async def events_of(reader: StreamReader) -> list[AgentEvent]:
    """What comes, to the end."""
    return [event async for event in reader]


async def events_and_error(reader: StreamReader) -> tuple[list[AgentEvent], Exception | None]:
    """What comes, and what is raised after it."""
    events: list[AgentEvent] = []
    try:
        await _add(reader, events)
    except hw.HeadwaterError as error:
        return events, error
    return events, None


async def _add(reader: StreamReader, events: list[AgentEvent]) -> None:
    async for event in reader:
        events += (event,)


def text_of(events: Sequence[AgentEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, hw.ReasonDeltaEvent) and not event.is_thinking)


def numbers_of(events: Sequence[AgentEvent]) -> list[int]:
    return [event.seq for event in events]
