"""A task as the event log has it: the whole of it at a moment, and what comes after that."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from a2a.types import Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent
from google.protobuf.json_format import ParseDict

from headwater.serve.a2a.answer import merged
from headwater.serve.a2a.call import Call
from headwater.serve.a2a.stream import A2AStream
from headwater.serve.a2a.values import Json
from headwater.serve.feed import Cursor, Until
from headwater.serve.problems import not_found

PATIENCE = 60.0


class View:
    """A task up to the event number `seq` of its run."""

    def __init__(self, call: Call, run_id: str, session: str) -> None:
        self.run_id = run_id
        self.seq = 0
        self._call = call
        self._session = session
        self.stream: A2AStream = self._begin()

    def _begin(self) -> A2AStream:
        return self._call.stream(self.run_id, self._session, extension=self._call.extension)

    def task(self) -> Task:
        """The task as it stands."""
        return task_of(self.stream.task())

    async def catch_up(self) -> None:
        """Take in what the log has now."""
        snapshot = await self._call.hub.store.snapshot(self.run_id)
        self.stream = self._begin()
        for event in snapshot.events:
            self.stream.feed(event)
        self.seq = snapshot.seq

    @asynccontextmanager
    async def reader(self, until: Until) -> AsyncGenerator[AsyncIterator[list[Json]]]:
        """The updates after `seq`, as they come: to the task's end, or to where it waits (`segment`).

        Whoever stops reading is not noticed by the run. Raises `Refused`, and while it is read what a log may raise.
        """
        call = self._call
        cursor = await call.hub.open(call.principal, self.run_id, self.seq, until)
        try:
            yield self._updates(cursor)
        finally:
            if cursor is not None:
                cursor.close()

    async def _updates(self, cursor: Cursor | None) -> AsyncIterator[list[Json]]:
        while cursor is not None and not cursor.is_over and not self.stream.is_over:
            items = await cursor.next(PATIENCE)
            if cursor.snapshot_at is None:
                updates = merged([update for item in items for update in self.stream.feed(item.event)])
            else:
                before, self.stream = self.stream, self._begin()
                for item in items:
                    self.stream.feed(item.event)
                updates = self.stream.again(before)
            self.seq = cursor.after
            if updates:
                yield updates

    async def read_on(self, until: Until) -> None:
        """Take in what comes, to the end of the task, or of its segment."""
        async with self.reader(until) as batches:
            async for _ in batches:
                pass


async def find_task(call: Call, run_id: str) -> View:
    """Somebody's task, as it stands. Raises `Refused` (404) if it is not theirs, or not this agent's."""
    whose = await call.hub.whose(call.principal, run_id)
    if whose.agent != call.agent:
        raise not_found("run")
    await call.hub.info(call.principal, run_id)  # it may be gone by now; one whose process has died is ended
    view = View(call, run_id, whose.session)
    await view.catch_up()
    return view


def task_of(found: Json) -> Task:
    return ParseDict(found, Task())


def event_of(update: Json) -> TaskStatusUpdateEvent | TaskArtifactUpdateEvent:
    """An update as the SDK has it."""
    status: Any = update.get("statusUpdate")
    if status is not None:
        return ParseDict(status, TaskStatusUpdateEvent())
    return ParseDict(update["artifactUpdate"], TaskArtifactUpdateEvent())
