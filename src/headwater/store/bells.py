"""Waking those who tail a log, from whatever thread or event loop it was written."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from headwater.errors import StoreError
from headwater.events import AgentEvent

PAGE = 256
"""Events that a tail reads at once."""


class Bell:
    """A flag that one waiting coroutine owns; `ring` may be called from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def ring(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:
            # The loop is closed, so nobody waits here any more.
            return

    def clear(self) -> None:
        self._event.clear()

    async def wait(self) -> None:
        await self._event.wait()


class Bells:
    """The bells of all who tail, by run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_run: dict[str, set[Bell]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_run)

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._by_run

    def hang(self, run_id: str) -> Bell:
        bell = Bell()
        with self._lock:
            self._by_run.setdefault(run_id, set()).add(bell)
        return bell

    def take_down(self, run_id: str, bell: Bell) -> None:
        with self._lock:
            bells = self._by_run.get(run_id)
            if bells is not None:
                bells.discard(bell)
                if not bells:
                    del self._by_run[run_id]

    def ring(self, run_id: str) -> None:
        if run_id in self._by_run:
            with self._lock:
                bells = list(self._by_run.get(run_id, ()))
            for bell in bells:
                bell.ring()

    def ring_all(self) -> None:
        for run_id in list(self._by_run):
            self.ring(run_id)


class Page(msgspec.Struct, frozen=True, gc=False):
    """A part of a log: at most `PAGE` events, whether they end its segment, and whether the log is there at all."""

    events: list[AgentEvent]
    ended: bool
    exists: bool = True


NO_LOG = Page([], False, False)


async def follow(
    bells: Bells, run_id: str, after: int, read: Callable[[int], Awaitable[Page]]
) -> AsyncIterator[AgentEvent]:
    """Yield what is after a number, then what comes, up to the `run.end` of the root run.

    Raises `StoreError` if the log was there and is gone.
    """
    bell = bells.hang(run_id)
    existed = after > 0
    try:
        while True:
            # Cleared before reading: what is written during the read rings again.
            bell.clear()
            page = await read(after)
            for event in page.events:
                yield event
                after = event.seq
            if len(page.events) >= PAGE:
                continue
            if page.ended:
                return
            if existed and not page.exists:
                raise StoreError(f"The run {run_id!r} is not here any more: its log was deleted")
            existed = page.exists
            await bell.wait()
    finally:
        bells.take_down(run_id, bell)
