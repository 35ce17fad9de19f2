"""A cursor on a run's log, which reads like the run itself: from this process or another one, as often as one likes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType
from typing import Generic, TypeVar

import msgspec

from headwater.agents.detached import is_lost
from headwater.core.answer import OutputRule
from headwater.drive.inbox import Inbox
from headwater.drive.opening import INSIDE
from headwater.drive.partial import PartialOutput
from headwater.drive.pieces import FinalText, Pieces, VisibleText, only
from headwater.drive.sync import SyncRun
from headwater.errors import Compacted, RunError, UnknownRun, UsageError
from headwater.events import AgentEvent, Event, Outcome, OutputT_co, Response, RunEndEvent
from headwater.store.base import Store
from headwater.tools.output import Valid

E = TypeVar("E", bound=Event)

PAGE = 256
"""Events that are read at once."""

APPEARS_IN = 5.0
"""Seconds that a run of another process is waited for which has nothing in the log yet."""

LOOK = 2.0
"""Seconds of silence after which it is asked whether the run's process still lives."""


class AttachedRun(Generic[OutputT_co]):
    """A run that goes on elsewhere, or is over, read from its log: all events with a number above `after`.

    It is read like a `Run` (`async for` or `for`, `text()`, `final_text()`, `of_type()`, `response()`), ends with the
    `run.end` of the segment that is the last one by then, and raises the failure of a run that failed. Leaving it
    leaves the run alone, and nobody is held back by a reader that is slow. Raises `UnknownRun` where it is read,
    `RunError` (`process_died`) where the log will never go on because the store knows that its process died, and
    `StoreError`, which is `Compacted` for a reader that is older than what the log keeps event by event; one that reads
    from the beginning gets what is kept instead. Made by `agent.attach(...)`.
    """

    def __init__(
        self,
        run_id: str,
        after: int,
        store: Store,
        *,
        is_here: Callable[[], bool],
        cancel: Callable[[str], Awaitable[None]],
        output: OutputRule | None = None,
    ) -> None:
        self.run_id = run_id
        self._after = after
        self._store = store
        self._is_here = is_here
        self._cancel = cancel
        self._output = output
        self._inbox = Inbox(run_id, self._fetch)
        self._sync: SyncRun[OutputT_co] | None = None

    def __repr__(self) -> str:
        state = self.end.outcome if self.end is not None else f"after {self._after}"
        return f"AttachedRun({self.run_id}, {state})"

    @property
    def end(self) -> RunEndEvent | None:
        """The last event, once it has been read."""
        return self._inbox.end

    @property
    def after(self) -> int:
        """The number of the last event that was fetched: where another reader would go on."""
        return self._after

    @property
    def is_over(self) -> bool:
        """Whether the end has been fetched from the log; events may still wait to be read."""
        return self._inbox.is_over

    def reader(self, after: int) -> AttachedRun[OutputT_co]:
        """Another reader of the same run, of what comes after another number."""
        return AttachedRun(
            self.run_id, after, self._store, is_here=self._is_here, cancel=self._cancel, output=self._output
        )

    # -- asynchronous -------------------------------------------------------------------------------------------

    def __aiter__(self) -> AttachedRun[OutputT_co]:
        return self

    async def __anext__(self) -> AgentEvent:
        return await self._inbox.next()

    async def __aenter__(self) -> AttachedRun[OutputT_co]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop reading; the run goes on. What has been fetched can still be read."""
        self._inbox.is_over = True

    async def cancel(self, reason: str = "cancelled by the caller") -> None:
        """End the run, like `Agent.cancel`; iterating on yields the rest."""
        await self._cancel(reason)

    async def next_batch(self) -> list[AgentEvent]:
        """All events that are there, at least one; an empty list at the end. Does not raise for a failed run."""
        return await self._inbox.batch()

    async def response(self) -> Response[OutputT_co]:
        """Read to the end and return what the run comes to; raises like `Run.response`."""
        if self.run_id in INSIDE.get():
            raise UsageError("A tool cannot wait for the response of the run that it belongs to.")
        otherwise = "The run's end is not among what is read here: attach with a smaller after=."
        return self._typed(await self._inbox.response(otherwise))

    def text(self) -> Pieces[str]:
        """Visible text as it comes, preambles included."""
        return Pieces(self, VisibleText())

    def final_text(self) -> Pieces[str]:
        """Text of the answer only, never a preamble."""
        return Pieces(self, FinalText())

    def partial(self) -> Pieces[OutputT_co]:
        """The answer as it grows, like `Run.partial`; read from the beginning of a turn it is whole."""
        if self._output is None:
            raise UsageError("partial() gives the answer as its type: the agent has no output_type.")
        return Pieces(self, PartialOutput(self._output))

    def of_type(self, *classes: type[E]) -> Pieces[E]:
        """Only events of these classes."""
        return Pieces(self, only(*classes))

    # -- synchronous --------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[AgentEvent]:
        with SyncRun(self) as run:
            yield from run

    def __enter__(self) -> SyncRun[OutputT_co]:
        self._sync = SyncRun(self)
        return self._sync.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sync is not None:
            self._sync.__exit__(kind, error, trace)

    # -- inside -------------------------------------------------------------------------------------------------

    def check_unread(self) -> None:
        """A cursor goes on where it stands: reading it again is no mistake."""

    def last_failure(self) -> Exception | None:
        """What iteration raises after the last event: the error of a failed run, once."""
        return self._inbox.last_failure()

    async def _fetch(self) -> None:
        """Wait until there is more in the log, or its end."""
        try:
            events = await self._store.read(self.run_id, self._after, limit=PAGE) or await self._wait()
        except Compacted:
            if self._after:
                raise  # what this reader has had does not go on with what there is
            events = (await self._store.snapshot(self.run_id)).events
        if not events:
            self._inbox.is_over = True
            return
        last = events[-1]
        self._after = last.seq
        for event in events:
            self._inbox.take(event)
        if last is self._inbox.end:
            self._inbox.is_over = len(events) < PAGE

    async def _wait(self) -> list[AgentEvent]:
        """The next event, alone; nothing if there will be none."""
        while True:
            is_here = self._is_here()
            info = None if is_here else await self._store.run_info(self.run_id)
            is_dead = (
                info is not None
                and info.state == "running"
                and (info.is_alive is False or is_lost(self._store, self.run_id))
            )
            if info is not None and is_dead and info.last_seq == self._after:
                raise RunError(
                    f"The run {self.run_id!r} died, with its process or because its store failed: its log ends at "
                    f"{self._after}. Go on with it, agent.resume([], run_id={self.run_id!r}, recover=True), or end it "
                    "with agent.cancel().",
                    kind="process_died",
                )
            is_certain = is_here or info is not None
            tail = self._store.tail(self.run_id, self._after)
            patience = asyncio.timeout(LOOK if is_certain else APPEARS_IN)
            try:
                async with patience:
                    return [await anext(tail)]
            except StopAsyncIteration:
                return []
            except TimeoutError:
                if not patience.expired():
                    raise
                if not is_certain:
                    raise UnknownRun(f"There is no run {self.run_id!r} in this store.") from None
            finally:
                close = getattr(tail, "aclose", None)
                if close is not None:
                    await close()

    def _typed(self, response: Response[OutputT_co]) -> Response[OutputT_co]:
        """Events are plain JSON; the caller gets the value itself."""
        if self._output is None or response.outcome not in (Outcome.COMPLETED, Outcome.LIMIT):
            return response
        judged = self._output.output.judge_json(response.output)
        return msgspec.structs.replace(response, output=judged.value) if isinstance(judged, Valid) else response
