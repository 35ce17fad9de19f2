"""The one thread that owns a SQLite connection, so that a slow disk never stalls an event loop."""

from __future__ import annotations

import asyncio
import atexit
import queue
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from headwater.errors import StoreError
from headwater.store.bells import Bells
from headwater.store.cancels import Watches

T = TypeVar("T")

IDLE = 5.0
"""Seconds without work after which the thread closes the connection and ends; the next job starts it again."""
POLL = 0.01
"""Seconds between looks at what other processes wrote, while somebody tails."""
CANCEL_POLL = 0.25
"""Seconds between looks at what other processes want cancelled, while runs are watched."""
EXIT_GRACE = 5.0
"""Seconds that the interpreter's exit waits for writes under way."""


class _Job:
    __slots__ = ("future", "loop", "work")

    def __init__(
        self,
        work: Callable[[sqlite3.Connection], Any],
        loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[Any],
    ) -> None:
        self.work = work
        self.loop = loop
        self.future = future

    def settle(self, result: Any, error: BaseException | None) -> None:
        try:
            self.loop.call_soon_threadsafe(_settle, self.future, result, error)
        except RuntimeError:
            # The loop is closed, so nobody waits for this result any more.
            return


class DatabaseThread:
    """Runs jobs in order on one thread, for any number of event loops.

    The thread starts with the first job and ends after `IDLE` seconds without one, at `aclose`, at `stop` (when its
    store is collected) and at the interpreter's exit. `connect` is called on the thread; `explain` turns what SQLite
    raises into `StoreError`. While `bells` hang, it looks every `POLL` seconds whether another connection has written,
    and rings them; while runs are watched, it looks every `CANCEL_POLL` seconds, and tells whose cancel `cancelled`
    finds.
    """

    def __init__(
        self,
        name: str,
        bells: Bells,
        watches: Watches,
        *,
        connect: Callable[[], sqlite3.Connection],
        explain: Callable[[sqlite3.Error], StoreError],
        cancelled: Callable[[sqlite3.Connection, Iterable[str]], list[tuple[str, str]]],
    ) -> None:
        self._name = name
        self._bells = bells
        self._watches = watches
        self._cancelled = cancelled
        self._connect = connect
        self._explain = explain
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        # Reentrant: the collector may end a store, and so call `stop`, anywhere.
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._closing: list[_Job] = []
        self._data_version: int | None = None
        self._next_look = 0.0
        self._next_check = 0.0
        self._unchecked = True
        """Whether something may have been written since cancels were looked for."""
        _THREADS.add(self)

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do `work` on the thread. Cancelling the caller does not withdraw it: a write asked for is written."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._put(_Job(work, loop, future))
        return await future

    def check_soon(self) -> None:
        """Look for cancels at once: somebody began to watch. Raises `StoreError` if the store is closed."""
        self._unchecked = True
        self._next_check = 0.0
        self.post(_nothing)

    def post(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Do `work` on the thread, and have nobody wait for it; what it raises is told to the event loop's handler.

        On an event loop only. Raises `StoreError` if the store is closed.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        future.add_done_callback(_tell)
        self._put(_Job(work, loop, future))

    def _put(self, job: _Job) -> None:
        with self._lock:
            if self._closed:
                raise StoreError(f"The store {self._name} is closed")
            self._jobs.put(job)
            if self._thread is None or not self._thread.is_alive():  # not alive: this process was forked
                self._thread = threading.Thread(target=self._main, name=f"headwater {self._name}", daemon=True)
                self._thread.start()

    async def aclose(self) -> None:
        """Finish the jobs that were asked for, close the connection, end the thread."""
        loop = asyncio.get_running_loop()
        with self._lock:
            thread = self.stop()
            if thread is None:
                return
            ended: asyncio.Future[None] = loop.create_future()
            self._closing.append(_Job(_nothing, loop, ended))
        await ended
        thread.join()

    def stop(self) -> threading.Thread | None:
        """Like `aclose`, without waiting: returns the thread that is about to end, if it is another one."""
        with self._lock:
            self._closed = True
            thread = self._thread
            if thread is None:
                return None
            self._jobs.put(None)
            return None if thread is threading.current_thread() else thread

    def _main(self) -> None:
        connection: sqlite3.Connection | None = None
        try:
            while True:
                connection, wait = self._look_around(connection)
                try:
                    job = self._jobs.get(timeout=wait)
                except queue.Empty:
                    if self._may_end():
                        return
                    continue
                if job is None:
                    return
                connection = self._perform(job, connection)
                # Nothing of a job may outlive it here: it holds its store, and the store's end ends this thread.
                del job
        finally:
            _discard(connection)
            with self._lock:
                if self._thread is threading.current_thread():
                    self._thread = None
                closing, self._closing = self._closing, []
            for job in closing:
                job.settle(None, None)

    def _may_end(self) -> bool:
        with self._lock:
            if not self._jobs.empty() or self._bells or self._watches:
                return False
            self._thread = None
            return True

    def _perform(self, job: _Job, connection: sqlite3.Connection | None) -> sqlite3.Connection | None:
        try:
            if connection is None:
                connection = self._connect()
                self._data_version = None
            result = job.work(connection)
        except sqlite3.Error as error:
            job.settle(None, self._translate(error))
            return _discard(connection)
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller, who gets it
            job.settle(None, error)
        else:
            job.settle(result, None)
        return connection

    def _look_around(self, connection: sqlite3.Connection | None) -> tuple[sqlite3.Connection | None, float]:
        """Look what other connections wrote, if it is time; also returns the seconds until it is again."""
        now = time.monotonic()
        if self._bells and now >= self._next_look:
            connection = self._look(connection)
            self._next_look = now + POLL
        if self._watches and now >= self._next_check:
            connection = self._check(connection)
            self._next_check = now + CANCEL_POLL
        wait = IDLE
        if self._watches:
            wait = self._next_check - now
        if self._bells:
            wait = min(wait, self._next_look - now)
        return connection, max(0.0, wait)

    def _look(self, connection: sqlite3.Connection | None) -> sqlite3.Connection | None:
        try:
            if connection is None:
                connection = self._connect()
                self._data_version = None
            version: int = connection.execute("PRAGMA data_version").fetchone()[0]
        except (sqlite3.Error, StoreError):
            # Whoever tails reads again and gets the error there.
            self._bells.ring_all()
            return _discard(connection)
        if version != self._data_version:
            self._data_version = version
            self._unchecked = True
            self._bells.ring_all()
        return connection

    def _check(self, connection: sqlite3.Connection | None) -> sqlite3.Connection | None:
        connection = self._look(connection)
        if connection is None or not self._unchecked:
            return connection
        # First: who begins to watch meanwhile is looked for the next time.
        self._unchecked = False
        try:
            found = self._cancelled(connection, self._watches.runs())
        except sqlite3.Error:
            # Whoever writes gets the error there; the next look is made on another connection.
            self._unchecked = True
            return _discard(connection)
        for run_id, reason in found:
            self._watches.tell(run_id, reason)
        return connection

    def _translate(self, error: sqlite3.Error) -> StoreError:
        told = self._explain(error)
        told.__cause__ = error
        return told


def _discard(connection: sqlite3.Connection | None) -> None:
    """Close a connection that failed: the next job opens a new one and finds out whether the trouble is over."""
    if connection is not None:
        connection.close()


def _nothing(connection: sqlite3.Connection) -> None:
    """The work of who only waits for the end."""


def _tell(future: asyncio.Future[None]) -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        message = "Something that was to be stored was not"
        future.get_loop().call_exception_handler({"message": message, "exception": error})


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


_THREADS: weakref.WeakSet[DatabaseThread] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    threads = [database.stop() for database in list(_THREADS)]
    for thread in threads:
        if thread is not None:
            thread.join(EXIT_GRACE)
