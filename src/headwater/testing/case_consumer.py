"""The reader of one run: what it notes, where it sleeps, when it cancels or leaves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from headwater.chat.events import CallArguments, ModelEvent, RefusalDelta, TextDelta, ThinkingDelta
from headwater.chat.request import ModelRequest
from headwater.drive.handle import Run
from headwater.drive.ports import Model
from headwater.events import AgentEvent, ReasonDeltaEvent, ToolArgsDeltaEvent
from headwater.testing.case_data import CaseError
from headwater.testing.case_json import Json
from headwater.testing.case_resume import is_between
from headwater.testing.case_seen import RunSeen, SeenEvent, means

_QUIET = 10
"""Looks at the model, 20 ms apart, without anything new: then it is held back."""


class Gauge:
    """How many deltas the model has handed over, in all and at most at once, and how many were waiting to be read."""

    def __init__(self) -> None:
        self.given = 0
        self.biggest = 0
        self.most: int | None = None
        self.is_over = False
        self.full_when_closed = False


class CountingModel:
    """A model whose deltas are counted as they are handed over."""

    def __init__(self, model: Model, gauge: Gauge) -> None:
        self._model = model
        self._gauge = gauge

    @property
    def name(self) -> str:
        return self._model.name

    async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
        """The model's stream; leaving it closes that one."""
        inner = self._model.stream(request)
        try:
            async for batch in inner:
                size = sum(isinstance(e, TextDelta | ThinkingDelta | RefusalDelta | CallArguments) for e in batch)
                self._gauge.biggest = max(self._gauge.biggest, size)
                self._gauge.given += size
                yield batch
            self._gauge.is_over = True
        finally:
            close = getattr(inner, "aclose", None)
            if close is not None:
                await close()


class Agenda:
    """What a case wants done, and after which events: one list for all runs, worked off in its order.

    An action with `run` counts the events of that run only. An event is counted for every action that it fits, so that
    `nth` does not depend on when the action's turn comes.
    """

    def __init__(self, actions: Sequence[Json]) -> None:
        self.left = list(actions)
        self._counts = [0] * len(self.left)

    def due(self, run: int, names: frozenset[str], agent: str) -> Json | None:
        """What to do after an event of the `run`-th run with these names; None: nothing."""
        for i, action in enumerate(self.left):
            after = action.get("after")
            if action.get("run", run) == run and (after is None or means(str(after), names, agent)):
                self._counts[i] += 1
        head = self.left[0] if self.left else None
        if head is None or head.get("run", run) != run or self._counts[0] < int(head.get("nth", 1)):
            return None
        return self._next()

    def met(self) -> Json | None:
        """What to do now that nothing more comes by itself: the next action, if its event has been seen."""
        head = self.left[0] if self.left else None
        if head is None or ("after" in head and self._counts[0] < int(head.get("nth", 1))):
            return None
        return self._next()

    def _next(self) -> Json:
        self._counts.pop(0)
        return self.left.pop(0)


class Consumer:
    """Reads one run and does what the case tells its reader to do; `later` is what is to be done after its end."""

    def __init__(
        self,
        run: Run | None,
        seen: RunSeen,
        *,
        number: int,
        agenda: Agenda,
        pause: Json,
        gauge: Gauge | None,
        close_when_full: bool,
        tasks_since: Callable[[set[asyncio.Task[Any]]], list[str]],
    ) -> None:
        self._run = run
        self._seen = seen
        self._number = number
        self._agenda = agenda
        self._gauge = gauge
        self._close_when_full = close_when_full
        self._tasks_since = tasks_since
        self._namer = seen.namer
        self.later: list[Json] = []
        self._row: tuple[frozenset[str], str] | None = None
        self._taken = 0
        self._sleeps = float(pause.get("sleeps_s") or 0)
        self._sleepy_events = int(pause.get("for_first_events", 10**9 if self._sleeps else 0))

    async def read(self) -> None:
        before, handle = asyncio.all_tasks(), self._run
        if handle is None:
            raise RuntimeError("there is no run to read")
        async with handle as run:
            async for event in run:
                self._note(event)
                if self._close_when_full and self._taken == 1:
                    await self._until_full()
                    self._stop_begins()
                    break
                action = self._due(event)
                if action == "close_stream":
                    self._stop_begins()
                    break
                if action == "cancel":
                    self._stop_begins()
                    await run.cancel()
                    self._stopped(before)
                if len(self._seen.events) <= self._sleepy_events and self._sleeps:
                    await asyncio.sleep(self._sleeps)
                    self._measure()
            else:
                return
        self._stopped(before)
        async for event in handle:
            self._note(event)

    def _note(self, event: AgentEvent) -> None:
        self._seen.events.append(SeenEvent(time.monotonic(), event))
        if isinstance(event, ReasonDeltaEvent):
            self._taken += event.has_text
        elif isinstance(event, ToolArgsDeltaEvent):
            self._taken += bool(event.args)

    def _due(self, event: AgentEvent) -> str | None:
        """What the case wants the reader to do after this event; what waits for the run's end is noted in `later`."""
        self._namer.learn(event)
        names, origin = self._namer.names(event), event.origin
        row = (names, origin.run_id)
        in_row = names <= {"text", "thinking"} and row == self._row
        if names:
            self._row = row
        action = self._agenda.due(self._number, frozenset() if in_row else names, origin.agent)
        if action is None or not is_between(action):
            return None if action is None else str(action["do"])
        self.later.append(action)
        return None

    def replay(self) -> None:
        """Take the events in `seen`, which somebody else has read, for the agenda."""
        for one in self._seen.events:
            if (action := self._due(one.event)) is not None:
                raise CaseError(f"{action} is not possible in another process")

    def _stop_begins(self) -> None:
        self._seen.stopped_at = time.monotonic()

    def _stopped(self, before: set[asyncio.Task[Any]]) -> None:
        if self._seen.stopped_at is not None and self._seen.stop_took is None:
            self._seen.stop_took = time.monotonic() - self._seen.stopped_at
            self._seen.tasks_left = self._tasks_since(before)

    def _measure(self) -> None:
        if self._gauge is not None:
            held = self._gauge.given - self._taken
            self._gauge.most = max(self._gauge.most or 0, held)

    async def _until_full(self) -> None:
        """Wait until the model has not handed over anything for a while, although it has not finished."""
        gauge = self._gauge
        if gauge is None:
            raise RuntimeError("close_when_full needs a gauge")
        last, quiet = -1, 0
        while quiet < _QUIET:
            await asyncio.sleep(0.02)
            quiet = quiet + 1 if gauge.given == last else 0
            last = gauge.given
        gauge.full_when_closed = gauge.given > self._taken and not gauge.is_over
