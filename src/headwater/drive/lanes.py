"""The events of a tree of runs, one stream for each run: for those who show members side by side."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from typing import TYPE_CHECKING

from headwater.errors import UsageError
from headwater.events import AgentEvent, Origin, RunEndEvent

if TYPE_CHECKING:
    from headwater.drive.handle import Run

LIMIT = 10_000
"""Events that a lane keeps for a reader that does not come."""


class Lane:
    """The events of one run, in order, up to its `run.end`; read it with `async for`, once.

    A lane that is dropped keeps nothing. One that is held and not read while 10,000 events come loses them, and reading
    it raises `UsageError`.
    """

    def __init__(self, origin: Origin, lanes: Lanes) -> None:
        self.origin = origin
        self._lanes = lanes
        self._ready: deque[AgentEvent] = deque()
        self._is_over = False
        self._is_lost = False

    def __repr__(self) -> str:
        return f"Lane({'/'.join(self.origin.path)}, {self.origin.run_id})"

    def add(self, event: AgentEvent) -> None:
        """Take the run's next event."""
        if not self._is_lost:
            self._ready.append(event)
            if len(self._ready) > LIMIT:
                self._is_lost = True
                self._ready.clear()
        if type(event) is RunEndEvent:
            self._is_over = True

    def __aiter__(self) -> Lane:
        return self

    async def __anext__(self) -> AgentEvent:
        while not self._ready:
            if self._is_lost:
                raise UsageError(
                    f"The lane of {'/'.join(self.origin.path)} was not read while {LIMIT} events came, and has lost "
                    "them: read each lane in a task of its own, or do not keep it."
                )
            if self._is_over or not await self._lanes.read():
                raise StopAsyncIteration
        return self._ready.popleft()


class Lanes:
    """The lanes of a run, each as its run begins, the run's own first; read it with `async for`, once.

    Whoever waits for an event drives the run for all. What is not read yet waits in its lane, as long as somebody has
    that. After the last lane a failure of the run is raised, as iteration of the run itself does.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._new: deque[Lane] = deque()
        self._lanes: dict[str, weakref.ref[Lane]] = {}
        self._reading: asyncio.Future[None] | None = None
        self._is_over = False

    def __aiter__(self) -> Lanes:
        self._run.check_unread()
        return self

    async def __anext__(self) -> Lane:
        while not self._new:
            if not await self.read():
                raise self._run.last_failure() or StopAsyncIteration()
        return self._new.popleft()

    async def read(self) -> bool:
        """Have something happen; false if nothing will any more."""
        if self._reading is not None:
            await asyncio.shield(self._reading)
            return True
        if self._is_over:
            return False
        self._reading = reading = asyncio.get_running_loop().create_future()
        try:
            batch = await self._run.next_batch()
        finally:
            self._reading = None
            reading.set_result(None)
        self._is_over = not batch
        for event in batch:
            known = self._lanes.get(event.origin.run_id)
            if known is None:
                lane = Lane(event.origin, self)
                self._lanes[event.origin.run_id] = weakref.ref(lane)
                self._new.append(lane)
            elif (lane := known()) is None:
                continue  # nobody can read it any more
            lane.add(event)
        return bool(batch)
