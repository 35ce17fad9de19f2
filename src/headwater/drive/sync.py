"""The bridge from synchronous code: one event loop in one thread, alive while there is a synchronous run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from headwater.events import AgentEvent, Event, Response

if TYPE_CHECKING:
    from headwater.drive.handle import Run
    from headwater.drive.pieces import Pieces

T = TypeVar("T")
E = TypeVar("E", bound=Event)


class _Portal:
    """A loop in a daemon thread, started for the first user and ended after the last one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None

    def acquire(self) -> None:
        """Become a user; `call` works until `release`."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                ready: Future[None] = Future()
                self._thread = threading.Thread(
                    target=lambda: asyncio.run(self._main(ready)), name="headwater-loop", daemon=True
                )
                self._thread.start()
                ready.result()

    def release(self) -> None:
        """Stop being a user; the last one waits for the loop to have ended cleanly."""
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._loop is not None and self._stop is not None and self._thread is not None:
                self._loop.call_soon_threadsafe(self._stop.set)
                if self._thread is not threading.current_thread():
                    self._thread.join()
                self._loop = self._stop = self._thread = None

    async def _main(self, ready: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = stop = asyncio.Event()
        ready.set_result(None)
        await stop.wait()

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the loop and wait for it; an interrupt of the waiting thread cancels it."""
        if self._loop is None:
            raise RuntimeError("the portal is closed")
        future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


_portal = _Portal()


def run_sync(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end from synchronous code, also where this thread already runs a loop (notebooks)."""
    _portal.acquire()
    try:
        return _portal.call(work)
    finally:
        _portal.release()


class SyncRun:
    """A `Run` for synchronous code: `with agent.stream(...) as run: for event in run: ...`.

    The run goes on in a background thread while the caller works on an event; leaving the block ends it.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._open = False

    @property
    def run_id(self) -> str:
        return self._run.run_id

    def __enter__(self) -> SyncRun:
        _portal.acquire()
        self._open = True
        try:
            _portal.call(self._run.__aenter__)
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            _portal.call(self._run.aclose)
        finally:
            self._leave()

    def _leave(self) -> None:
        if self._open:
            self._open = False
            _portal.release()

    def __iter__(self) -> Iterator[AgentEvent]:
        while batch := _portal.call(self._run.next_batch):
            yield from batch
        error = self._run.failure()
        if error is not None and error.kind != "cancelled":
            raise error

    def response(self) -> Response:
        """Read to the end and return what the run comes to; raises like `Run.response`."""
        return _portal.call(self._run.response)

    def cancel(self, reason: str = "cancelled by the caller") -> None:
        """End the run: returns when the connection is closed and the tools are over."""

        async def cancel() -> None:
            await self._run.cancel(reason)

        _portal.call(cancel)

    def text(self) -> Iterator[str]:
        """Visible text as it comes, preambles included."""
        return self._pieces(self._run.text())

    def final_text(self) -> Iterator[str]:
        """Text of the answer only, never a preamble."""
        return self._pieces(self._run.final_text())

    def of_type(self, *classes: type[E]) -> Iterator[E]:
        """Only events of these classes."""
        return self._pieces(self._run.of_type(*classes))

    def _pieces(self, pieces: Pieces[T]) -> Iterator[T]:
        for event in self:
            yield from pieces.picker(event)
