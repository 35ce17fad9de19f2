"""What readers of a run that goes on elsewhere have in common: events are fetched, and handed out one by one."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from headwater.drive.handle import failure_of
from headwater.errors import UsageError
from headwater.events import AgentEvent, Response, RunEndEvent


class Inbox:
    """Events of the run `run_id` that were fetched and not read yet, and how it ended.

    `fetch` waits until there is more and gives it to `take`, in order, or sets `is_over` where nothing more will come.
    What it raises is raised to whoever reads, and reading on fetches again.
    """

    def __init__(self, run_id: str, fetch: Callable[[], Awaitable[None]]) -> None:
        self.events: deque[AgentEvent] = deque()
        self.end: RunEndEvent | None = None
        """The last `run.end` of the run itself that was fetched."""
        self.is_over = False
        self._run_id = run_id
        self._fetch = fetch
        self._raised = False

    def take(self, event: AgentEvent) -> None:
        """Put in the next event."""
        self.events.append(event)
        if type(event) is RunEndEvent and event.origin.run_id == self._run_id:
            self.end = event

    async def next(self) -> AgentEvent:
        """The next event; at the end the failure of a run that failed, once, then `StopAsyncIteration`."""
        while not self.events:
            if self.is_over:
                raise self.last_failure() or StopAsyncIteration()
            await self._fetch()
        return self.events.popleft()

    async def batch(self) -> list[AgentEvent]:
        """All events that are there, at least one; an empty list at the end."""
        while not self.events and not self.is_over:
            await self._fetch()
        batch = list(self.events)
        self.events.clear()
        return batch

    async def response(self, otherwise: str) -> Response[Any]:
        """Read to the end and return what the run came to. Raises the error of a run that failed or was cancelled, and
        `UsageError(otherwise)` where the end was not among the events.
        """
        while await self.batch():
            pass
        error = failure_of(self.end)
        if error is not None:
            raise error
        if self.end is None:
            raise UsageError(otherwise)
        return self.end.response

    def last_failure(self) -> Exception | None:
        """What iteration raises after the last event: the error of a failed run, once."""
        if self._raised:
            return None
        self._raised = True
        error = failure_of(self.end)
        return None if error is None or error.kind == "cancelled" else error
