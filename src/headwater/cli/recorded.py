"""Events that are there already, read like a run that goes on: at their pace, faster, or at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from headwater.events import AgentEvent

LONGEST = 3.0
"""Seconds of one pause at most, at any speed: nobody wants to see a person think for a week."""
_PAGE = 500


class RecordedRun:
    """A run of these events; `speed` None waits nowhere. A cancel ends the reading."""

    def __init__(self, events: Sequence[AgentEvent], speed: float | None = None) -> None:
        self._events = events
        self._speed = speed
        self._next: int = 0
        self._is_over = asyncio.Event()

    async def __aenter__(self) -> RecordedRun:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_over.set()

    async def cancel(self, reason: str = "") -> None:
        self._is_over.set()

    async def next_batch(self) -> list[AgentEvent]:
        """The events that are due next; an empty list at the end."""
        await asyncio.sleep(0)  # a signal may have come
        if self._next == len(self._events):
            return []
        begin: int = self._next
        if self._speed is None:
            self._next = min(begin + _PAGE, len(self._events))
        else:
            first = self._events[begin]
            if begin:
                await self._wait(min(LONGEST, (first.ts - self._events[begin - 1].ts) / self._speed))
            self._next = begin + 1
            while self._next < len(self._events) and self._events[self._next].ts <= first.ts:
                self._next += 1
        return [] if self._is_over.is_set() else list(self._events[begin : self._next])

    async def _wait(self, seconds: float) -> None:
        if seconds <= 0:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._is_over.wait()
        except TimeoutError:
            return
