"""Runs that nobody has to read: a task sees each through, its log is what readers read, and the process knows them all.

A detached run lives as long as its event loop. Begun without one it lives on the loop of synchronous code, which then
goes on until the run is over or the interpreter ends. What is left when a loop ends is cancelled; its log says so.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Container, Coroutine
from contextvars import copy_context
from typing import Any, TypeAlias

from headwater.agents.turns import place_of
from headwater.drive.handle import Run
from headwater.drive.live import LOOP_ENDED
from headwater.drive.opening import INSIDE
from headwater.drive.portal import LoopThread, acquire, acquire_here, release
from headwater.errors import RunError, StoreError
from headwater.store.base import Store

Key: TypeAlias = tuple[str | int, str]
"""Where the log is kept, and the run."""


class DetachedRun:
    """A run of this process that goes on by itself; made by `launch`."""

    def __init__(self, run: Run[Any], store: Store) -> None:
        self.run_id = run.run_id
        self.store = store
        self._run = run
        self._loop = asyncio.get_running_loop()
        self._portal: LoopThread | None = acquire_here()
        context = copy_context()
        context.run(INSIDE.set, ())  # it belongs to no run: whoever began it does not wait for it
        with _lock:
            _runs[self._key] = self
        self._task = self._loop.create_task(self._see_through(), context=context)
        self._task.add_done_callback(self._over)

    @property
    def _key(self) -> Key:
        return place_of(self.store), self.run_id

    async def _see_through(self) -> None:
        run = self._run
        try:
            while await run.next_batch():
                pass
        except asyncio.CancelledError:
            await run.cancel(LOOP_ENDED)
            raise
        failure = run.last_failure()
        if failure is None or (isinstance(failure, RunError) and failure.kind != "store_error"):
            return
        if not await self._has_end():
            raise failure  # its readers cannot know

    async def _has_end(self) -> bool:
        """Whether the log says that the segment is over."""
        try:
            info = await self.store.run_info(self.run_id)
        except StoreError:
            return False
        return info is not None and info.state != "running"

    def _over(self, task: asyncio.Task[None]) -> None:
        with _lock:
            if _runs.get(self._key) is self:
                del _runs[self._key]
        if not task.cancelled() and (error := task.exception()) is not None:
            with _lock:
                _lost[self._key] = None
                while len(_lost) > LOST:
                    del _lost[next(iter(_lost))]
            self._loop.call_exception_handler(
                {"message": f"The detached run {self.run_id} is over, and its log does not say so", "exception": error}
            )
        if self._portal is not None:
            release(self._portal)

    async def cancel(self, reason: str) -> None:
        """End the run; returns when nothing of it is left. From any event loop."""
        await self._there(self._cancel(reason))

    async def _cancel(self, reason: str) -> None:
        await self._run.cancel(reason)
        await self._wait()

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait at most so long for the run to be over; whether it is. From any event loop."""
        return await self._there(self._wait(seconds))

    async def _wait(self, seconds: float | None = None) -> bool:
        if self.run_id not in INSIDE.get():  # one of its tools, which would wait for itself
            await asyncio.wait([self._task], timeout=seconds)
        return self._task.done()

    async def _there(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do it on the run's own loop."""
        if asyncio.get_running_loop() is self._loop:
            return await work
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            return True  # its loop has ended, and the run with it
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return True  # its loop ended meanwhile, as that of synchronous code does after its last run


_lock = threading.Lock()
_runs: dict[Key, DetachedRun] = {}
_lost: dict[Key, None] = {}

LOST = 4096
"""How many runs are remembered whose store failed before their logs had an end."""


def launch(run: Run[Any], store: Store) -> DetachedRun:
    """Let a run go on by itself, on the running loop, or on that of synchronous code."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        portal = acquire()
        try:
            return portal.call(lambda: _launched(run, store))
        finally:
            release(portal)
    return DetachedRun(run, store)


async def _launched(run: Run[Any], store: Store) -> DetachedRun:
    return DetachedRun(run, store)


def find_detached(store: Store, run_id: str) -> DetachedRun | None:
    """The run, if this process runs it detached; None otherwise, also when it is over."""
    with _lock:
        return _runs.get((place_of(store), run_id))


def is_lost(store: Store, run_id: str) -> bool:
    """Whether the run went on detached in this process and is over, though its log, which failed, does not say so."""
    with _lock:
        return (place_of(store), run_id) in _lost


def close_lost(store: Store, run_id: str) -> None:
    """The log of a lost run has its end now."""
    with _lock:
        _lost.pop((place_of(store), run_id), None)


def detached_runs(store: Store) -> list[DetachedRun]:
    """The detached runs that this process runs on a store."""
    place = place_of(store)
    with _lock:
        return [run for (where, _), run in _runs.items() if where == place]


async def end_detached(
    store: Store, *, wait: float = 0.0, reason: str = "the process ends", only: Container[str] | None = None
) -> list[str]:
    """End the detached runs of this process on a store; what ends by itself within `wait` seconds is let.

    With `only` those of these ids. Returns the ids of those that were cancelled, when nothing of them is left.
    """
    runs = [run for run in detached_runs(store) if only is None or run.run_id in only]
    if wait > 0:
        ended = await asyncio.gather(*(run.wait(wait) for run in runs))
        runs = [run for run, is_over in zip(runs, ended, strict=True) if not is_over]
    await asyncio.gather(*(run.cancel(reason) for run in runs))
    return [run.run_id for run in runs]


def _forget() -> None:
    """In a forked child nothing goes on."""
    global _lock
    _lock = threading.Lock()
    _runs.clear()
    _lost.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
