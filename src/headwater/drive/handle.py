"""What the caller holds: a run to iterate, to ask for its response, and to cancel."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from headwater.core.answer import OutputRule
from headwater.core.hooks.values import HOOK_ERROR
from headwater.drive.driver import Driver
from headwater.drive.lanes import Lanes
from headwater.drive.opening import INSIDE, Opening
from headwater.drive.partial import PartialOutput
from headwater.drive.pieces import FinalText, Pieces, VisibleText, only
from headwater.drive.sync import SyncRun
from headwater.errors import ErrorInfo, RunError, UsageError, error_from_info
from headwater.events import AgentEvent, Event, Outcome, OutputT_co, Response, RunEndEvent

E = TypeVar("E", bound=Event)

LEFT = "the consumer left the stream"

_READ = "This run was read to its end; its result is run.response(), a new run is agent.stream(...)."
_OPENED_ASYNC = "This run was opened with 'async with': read it with 'async for', or open it with 'with' to use 'for'."


class Run(Generic[OutputT_co]):
    """One execution of an agent, read while it happens.

    Iterate it (`async for`, or `for` in synchronous code) for every event, the last one a `RunEndEvent`; if the run
    failed, iteration then raises the failure. `async with` (or `with`) ends the run on leaving: the connection is
    closed and tools are cancelled before control returns. Reading is what drives it: a consumer that does not read
    holds the model back.

    A run is made by `agent.stream(...)` and can be read once: to begin again after its end raises `UsageError`. What
    a loop left unread can still be read by another one.
    """

    def __init__(
        self, run_id: str, open_driver: Callable[[Opening], Awaitable[Driver]], output: OutputRule | None = None
    ) -> None:
        self.run_id = run_id
        self._output = output
        self._open_driver = open_driver
        self._opening = Opening()
        self._opened: asyncio.Future[None] | None = None
        self._driver: Driver | None = None
        self._end: RunEndEvent | None = None
        self._raised = False
        self._was_read = False

    def __repr__(self) -> str:
        driver, end = self._driver, self._end
        agent = f"{driver.machine.origin.agent}, " if driver is not None else ""
        state = "not begun" if driver is None else "ended" if driver.finished else "running"
        return f"Run({self.run_id}, {agent}{end.outcome if end is not None else state})"

    if not TYPE_CHECKING:  # a type checker refuses it by itself

        def __await__(self):
            raise UsageError(
                "A run is not awaited but read: async with agent.stream(...) as run: async for event in run: ... "
                "For its response alone: await agent.call_async(...)."
            )

    @property
    def end(self) -> RunEndEvent | None:
        """The last event, once it has been read."""
        return self._end

    @property
    def is_over(self) -> bool:
        """Whether the run has ended and nothing of it is left; events may still wait to be read."""
        return self._driver is not None and self._driver.finished

    @property
    def is_kept(self) -> bool:
        """Whether the events are written to a log; a reader here may see one before it stands there."""
        return self._driver is not None and self._driver.is_kept

    # -- asynchronous -------------------------------------------------------------------------------------------

    def __aiter__(self) -> Run[OutputT_co]:
        self.check_unread()
        return self

    async def __anext__(self) -> AgentEvent:
        driver = self._driver
        if driver is None:
            driver = await self._start()
        ready = driver.ready
        while not ready:
            if driver.finished:
                raise self._stop()
            await driver.step()
        event = ready.popleft()
        if type(event) is RunEndEvent:
            self._note_end(event)
        return event

    async def __aenter__(self) -> Run[OutputT_co]:
        if self._driver is None:
            await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def cancel(self, reason: str = "cancelled by the caller") -> None:
        """End the run: returns when the connection is closed and the tools are over.

        Iterating on yields the rest of the events, up to `run.end`. A run that has not begun is over as soon as it
        does. Called by one of the run's own tools it returns at once, and the tool is cancelled like the others.
        Raises `UsageError` on another event loop than the run's.
        """
        await self._close(reason)
        self._was_read = False

    async def aclose(self) -> None:
        """End the run if it is not over; what `async with` does on leaving."""
        await self._close(LEFT)
        self._was_read = False

    async def response(self) -> Response[OutputT_co]:
        """Read to the end and return what the run comes to.

        Raises the run's error, with `.run_end` attached, for the outcomes `failed` and `cancelled`, and `UsageError`
        where one of the run's own tools would wait for it.
        """
        if self.run_id in INSIDE.get():
            raise UsageError("A tool cannot wait for the response of the run that it belongs to.")
        driver = self._driver or await self._start()
        while True:
            while driver.ready:
                event = driver.ready.popleft()
                if type(event) is RunEndEvent:
                    self._note_end(event)
            if driver.finished:
                break
            await driver.step()
        self._was_read = True
        return self._result()

    async def next_batch(self) -> list[AgentEvent]:
        """All events that are there, at least one; an empty list at the end. For bridges and transports.

        Does not raise for a failed run.
        """
        driver = self._driver or await self._start()
        while not driver.ready:
            if driver.finished:
                return []
            await driver.step()
        batch = list(driver.ready)
        driver.ready.clear()
        for event in batch:
            if type(event) is RunEndEvent:
                self._note_end(event)
        return batch

    def lanes(self) -> Lanes:
        """One stream for each run: the team's, then each member's as it begins. `async for lane in run.lanes(): ...`

        Read lanes side by side, a task each; whoever waits drives the run.
        """
        return Lanes(self)

    def text(self) -> Pieces[str]:
        """Visible text as it comes, preambles included; of a team that of all members, as they speak."""
        return Pieces(self, VisibleText())

    def final_text(self) -> Pieces[str]:
        """Text of the answer only, never a preamble: held back until the round's mode is known."""
        return Pieces(self, FinalText())

    def partial(self) -> Pieces[OutputT_co]:
        """The answer as it grows, with `output_type`: values of it, each other than the one before, the last one whole.

        A value is there once everything that its type requires is. If the model is asked again for an answer that
        fits, it grows anew. Raises `UsageError` without `output_type`.
        """
        if self._output is None:
            raise UsageError("partial() gives the answer as its type: pass output_type= to the agent or the run.")
        return Pieces(self, PartialOutput(self._output))

    def of_type(self, *classes: type[E]) -> Pieces[E]:
        """Only events of these classes."""
        return Pieces(self, only(*classes))

    # -- synchronous --------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[AgentEvent]:
        self._check_not_async()
        self.check_unread()
        return self._read()

    def _read(self) -> Iterator[AgentEvent]:
        with SyncRun(self) as run:
            yield from run
        self._was_read = True

    def __enter__(self) -> SyncRun[OutputT_co]:
        self._check_not_async()
        self._sync = SyncRun(self)
        return self._sync.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sync.__exit__(kind, error, trace)

    # -- inside -------------------------------------------------------------------------------------------------

    def check_unread(self) -> None:
        """Raise `UsageError` if a reader has come to the end already: another loop would be silently empty."""
        # Who cancels reads what is left, and that may be nothing.
        if self._was_read:
            raise UsageError(_READ)

    def _check_not_async(self) -> None:
        """Raise `UsageError` where a blocking read would wait for the loop that it blocks."""
        driver = self._driver
        if driver is None or driver.finished:
            return
        try:
            driver.check_loop()
        except (RuntimeError, UsageError):
            return  # no loop runs in this thread, or another one than the run's
        raise UsageError(_OPENED_ASYNC)

    async def _start(self) -> Driver:
        while (driver := self._driver) is None:
            if self._opened is not None:
                await asyncio.shield(self._opened)
                continue
            self._opened = opened = asyncio.get_running_loop().create_future()
            try:
                driver = self._driver = await self._open_driver(self._opening)
            finally:
                self._opened = None
                opened.set_result(None)
            self.run_id = driver.machine.origin.run_id
            try:
                await driver.step()
            except BaseException:
                await self._close(LEFT)
                raise
        return driver

    def _note_end(self, event: RunEndEvent) -> None:
        # A run's own end; the ends of its members come through here as well.
        if event.origin.run_id == self.run_id:
            self._end = event

    def _stop(self) -> Exception:
        """What iteration ends with: the failure once, then StopAsyncIteration."""
        return self.last_failure() or StopAsyncIteration()

    def last_failure(self) -> Exception | None:
        """What iteration raises after the last event: the error of a failed run, once."""
        self._was_read = True
        if self._raised:
            return None
        self._raised = True
        if self._driver is not None and self._driver.failure is not None:
            return self._driver.failure
        error = self.failure()
        return None if error is None or error.kind == "cancelled" else error

    def failure(self) -> RunError | None:
        """The error of a run that ended `failed` or `cancelled`; None otherwise, or if it has not ended."""
        error = failure_of(self._end)
        if error is not None and error.kind == HOOK_ERROR and self._driver is not None:
            error.__cause__ = self._driver.cause
        return error

    def _result(self) -> Response[OutputT_co]:
        error = self.failure()
        if error is not None:
            raise error
        if self._driver is not None and self._driver.failure is not None:
            raise self._driver.failure
        if self._end is None:
            raise UsageError("The run's end was read by somebody else; ask one reader for the response.")
        response: Response[Any] = self._end.response
        if self._output is None or self._driver is None or self._end.outcome not in (Outcome.COMPLETED, Outcome.LIMIT):
            return response
        # Events are plain JSON; the caller gets the value itself.
        return msgspec.structs.replace(response, output=self._driver.machine.output)

    async def _close(self, reason: str) -> None:
        """Close the driver, and see it through even if the caller is cancelled meanwhile."""
        if self._driver is None:
            self._opening.cancel(reason)
            if self._opened is not None:
                await asyncio.shield(self._opened)
        driver = self._driver
        if driver is None or driver.finished:
            return
        driver.check_loop()
        if self.run_id in INSIDE.get():
            driver.cancel(reason)  # whoever waits for this tool must not be waited for by it
            return
        work = asyncio.get_running_loop().create_task(driver.close(reason))
        cancelled: asyncio.CancelledError | None = None
        while not work.done():
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError as error:
                if work.cancelled():
                    raise
                cancelled = error
        work.result()
        if cancelled is not None:
            raise cancelled

    def __del__(self) -> None:
        driver = self._driver
        if driver is not None and not driver.finished:
            driver.abandon(LEFT)


def failure_of(end: RunEndEvent | None) -> RunError | None:
    """The error that a run's last event stands for, if it ended `failed` or `cancelled`."""
    if end is None or end.outcome not in (Outcome.FAILED, Outcome.CANCELLED):
        return None
    info = end.error or ErrorInfo(kind="internal_error", message=f"The run ended {end.outcome}.")
    error = error_from_info(info)
    error.run_end = end
    return error
