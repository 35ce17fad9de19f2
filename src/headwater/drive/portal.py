"""One event loop in one background thread, alive while synchronous code uses it."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from headwater.errors import UsageError

T = TypeVar("T")


class LoopThread:
    """A loop in a daemon thread, from its making until `end`."""

    def __init__(self) -> None:
        self.users = 0
        self._failure: BaseException | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: set[Future[Any]] = set()
        self._is_over = False
        self._ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=self._main, name="headwater-loop", daemon=True)
        self._thread.start()
        try:
            self._loop, self._stop = self._ready.result()
        except BaseException:
            # An interrupt: nobody will ever use the thread.
            self._ready.add_done_callback(_stop_when_ready)
            raise

    @property
    def is_alive(self) -> bool:
        """Whether the loop may still do something; not in a child process that was forked."""
        return self._thread.is_alive() and self._failure is None and not self._is_over

    @property
    def is_current(self) -> bool:
        """Whether this code runs on the loop's own thread."""
        return self._thread is threading.current_thread()

    def _main(self) -> None:
        with asyncio.Runner() as runner:
            try:
                runner.run(self._wait())
            except BaseException as error:  # noqa: BLE001 SystemExit and the like of a tool; `call` raises it
                self._failure = error
        self._is_over = True
        for future in list(self._waiting):
            future.cancel()  # it came too late for the loop to take it up

    async def _wait(self) -> None:
        stop = asyncio.Event()
        self._ready.set_result((asyncio.get_running_loop(), stop))
        await stop.wait()

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the loop and wait for it; an interrupt of the waiting thread cancels it.

        Raises `UsageError` where waiting would never end.
        """
        if self.is_current:
            raise UsageError(
                "Synchronous code cannot wait here: this is the event loop that would have to do the work. In an async "
                "tool use `await agent.call_async(...)` or `async with agent.stream(...)`."
            )
        coroutine = work()
        try:
            if not self.is_alive:
                raise RuntimeError
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:
            coroutine.close()
            raise UsageError("The event loop of this run has ended, and the run with it.") from None
        self._waiting.add(future)
        try:
            if self._is_over:
                future.cancel()
            return future.result()
        except CancelledError:
            if self._failure is not None:
                raise self._failure from None
            raise
        except BaseException:
            future.cancel()
            raise
        finally:
            self._waiting.discard(future)

    def call_later(self, work: Callable[[], Coroutine[Any, Any, None]], *, then: Callable[[], None]) -> None:
        """Run a coroutine on the loop, from its own thread, without waiting for it."""

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            then()

        task = self._loop.create_task(work())
        self._tasks.add(task)
        task.add_done_callback(done)

    def end(self) -> None:
        """End the loop, and wait for that unless this is its own thread."""
        if not self._thread.is_alive():
            return
        try:
            self._loop.call_soon_threadsafe(self._stop.set)
        except RuntimeError:
            return  # it has ended by itself
        if not self.is_current:
            self._thread.join()


def _stop_when_ready(ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]) -> None:
    loop, stop = ready.result()
    loop.call_soon_threadsafe(stop.set)


# Reentrant: the collector may end a synchronous run, and so release its loop, anywhere.
_lock = threading.RLock()
_current: LoopThread | None = None


def acquire() -> LoopThread:
    """The loop, started for the first user. `release` it in the end."""
    global _current
    with _lock:
        if _current is None or not _current.is_alive:
            _current = LoopThread()
        _current.users += 1
        return _current


def acquire_here() -> LoopThread | None:
    """The loop thread that this code runs on, with one more user; None on every other thread."""
    with _lock:
        if _current is None or not _current.is_current:
            return None
        _current.users += 1
        return _current


def release(portal: LoopThread) -> None:
    """Stop being a user; the last one waits for the loop to have ended cleanly."""
    global _current
    with _lock:
        portal.users -= 1
        if portal.users > 0:
            return
        if _current is portal:
            _current = None
    portal.end()


@atexit.register
def _end_at_exit() -> None:
    """Daemon threads stand still while the interpreter ends: what waited for one then would wait for ever."""
    global _current
    with _lock:
        portal, _current = _current, None
    if portal is not None:
        portal.end()


def _forget() -> None:
    """In a forked child there are no other threads than the one that forked."""
    global _lock, _current
    _lock, _current = threading.RLock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
