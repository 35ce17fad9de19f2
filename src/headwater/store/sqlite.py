"""A store in one SQLite file: sessions, event logs and blobs, shared by all processes of one machine."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from headwater.errors import UsageError
from headwater.events import AgentEvent, encode_event
from headwater.messages import Message, encode_message
from headwater.store import sqlite_log, sqlite_runs, sqlite_sessions
from headwater.store.base import Appended, Blob, Retention, RunInfo, SessionData, Snapshot, Swept, is_blob_name
from headwater.store.bells import PAGE, Bells, Page, follow
from headwater.store.cancels import Watches
from headwater.store.joining import snapshot_of
from headwater.store.owners import Owners
from headwater.store.schema import Synchronous, connect, explain
from headwater.store.sqlite_log import Batch
from headwater.store.sqlite_rows import Rows
from headwater.store.thread import DatabaseThread

READ_AT_ONCE = 1024
"""Events that one job reads; others' jobs come in between."""


class SQLiteStore:
    """Sessions, event logs and blobs in one file (write-ahead log; not for network disks).

    The file is made at first use; its folder must exist. All database work is done on one thread of the store's own,
    so the event loop never waits for the disk; the store may be used from several event loops. With `synchronous`
    `"NORMAL"` a crash of the program loses nothing and a loss of power may lose the last writes, never the file;
    `"FULL"` keeps these too. `busy_timeout` is in seconds. `retention` bounds each log and says what `sweep` does.
    Writes are atomic, and done even if the caller is cancelled while waiting. Every error is a `StoreError` that names
    the file.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        synchronous: Synchronous = "NORMAL",
        busy_timeout: float = 10.0,
        retention: Retention | None = None,
    ) -> None:
        if str(path) in {":memory:", ""}:
            raise UsageError("SQLiteStore needs the path of a file; MemoryStore() is the store in memory")
        if synchronous not in ("NORMAL", "FULL"):
            raise UsageError(f'synchronous is "NORMAL" or "FULL", not {synchronous!r}')
        name = os.path.abspath(os.path.expanduser(path))
        self.path = Path(name)
        self.place = f"sqlite:{os.path.realpath(name)}"
        """The same for every store on this file: what their sessions have in common."""
        self.retention = retention or Retention()
        self._rows = Rows(name)
        self._owners = Owners(name)
        self._bells = Bells()
        self._watches = Watches()
        self._database = DatabaseThread(
            name,
            self._bells,
            self._watches,
            connect=partial(connect, name, synchronous, busy_timeout),
            explain=partial(explain, name, busy_timeout),
            cancelled=sqlite_runs.cancelled,
        )
        # The thread must not keep the store alive, so it knows nothing of it; the store's end ends the thread.
        weakref.finalize(self, self._database.stop)
        weakref.finalize(self, self._owners.close)

    def __repr__(self) -> str:
        return f"SQLiteStore({str(self.path)!r})"

    # -- sessions -----------------------------------------------------------------------------------------------

    async def load(self, session_id: str) -> SessionData:
        """The session, or an empty one of version 0."""
        return await self._database.run(lambda db: sqlite_sessions.load(db, self._rows, session_id))

    async def commit(
        self,
        session_id: str,
        expected_version: int,
        *,
        append: Sequence[Message] = (),
        data: dict[str, Any] | None = None,
    ) -> int:
        """Append messages and replace `data`; returns the new version. Raises `VersionConflict`."""
        what = f"session {session_id!r}"
        bodies = [self._rows.write(encode_message, message, what) for message in append]
        kept = None if data is None else self._rows.write(msgspec.json.encode, data, what)
        return await self._database.run(
            lambda db: sqlite_sessions.commit(db, session_id, expected_version, bodies, kept)
        )

    async def delete(self, session_id: str) -> None:
        """Forget the session; unknown ids are no error."""
        await self._database.run(lambda db: sqlite_sessions.delete(db, session_id))

    async def sessions(self) -> list[str]:
        """The ids of all sessions, the most recently committed first."""
        return await self._database.run(sqlite_sessions.sessions)

    async def hold_session(self, session_id: str, run_id: str) -> str | None:
        """Have the session for a run, as long as this process lives; else the id of the run that has it."""
        return await self._database.run(lambda db: sqlite_sessions.hold(db, self._owners, session_id, run_id))

    def release_session(self, session_id: str, run_id: str) -> None:
        """Let runs of other processes have the session; done soon."""
        self._database.post(lambda db: sqlite_sessions.let_go(db, self._owners, session_id, run_id))

    # -- event logs ---------------------------------------------------------------------------------------------

    async def open_epoch(self, run_id: str, *, after: int | None = None) -> int:
        """Start writing to a run's log; fences older writers. Raises `Fenced` if it does not end `after` that."""
        return await self._database.run(lambda db: sqlite_log.open_epoch(db, run_id, after, self._owners.me()))

    async def append(
        self,
        run_id: str,
        events: Sequence[AgentEvent],
        *,
        epoch: int,
        step: str,
        attempt: int = 1,
        wseq: int,
    ) -> Appended:
        """Append events whose numbers follow on. Raises `Fenced` or `StoreError`."""
        events = tuple(events)
        bodies = [self._rows.write(encode_event, event, f"event {event.type} {event.seq}") for event in events]
        batch = Batch(run_id, events, tuple(bodies), epoch, step, attempt, wseq)

        def work(db: sqlite3.Connection) -> tuple[Appended, bool]:
            done = sqlite_log.append(db, batch, self.retention)
            self._bells.ring(run_id)
            return done

        appended, too_large = await self._database.run(work)
        if too_large:
            await self._shrink(run_id, len(events))
        return appended

    async def _shrink(self, run_id: str, added: int) -> None:
        """Join windows of the oldest events, in proportion to what was added: no writer waits for a whole log."""
        for _ in range(2 + 2 * (added // self.retention.window)):
            if not await self._database.run(lambda db: sqlite_log.shrink(db, self._rows, run_id, self.retention)):
                return

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[AgentEvent]:
        """Events with `seq` above `after`, oldest first. Raises `Compacted`."""
        found: list[AgentEvent] = []
        while True:
            size = READ_AT_ONCE if limit is None else min(READ_AT_ONCE, limit - len(found))
            if size <= 0:
                return found
            events = (await self._page(run_id, after, size)).events
            found += events
            if len(events) < size:
                return found
            after = events[-1].seq

    async def _page(self, run_id: str, after: int, limit: int) -> Page:
        return await self._database.run(lambda db: sqlite_log.page(db, self._rows, run_id, after, limit))

    def tail(self, run_id: str, after: int = 0) -> AsyncIterator[AgentEvent]:
        """Events with `seq` above `after`, then new ones as they come; ends after the root run's `run.end`.

        Appends of this store wake it at once, those of other processes within about 10 ms.
        """
        return follow(self._bells, run_id, after, lambda seq: self._page(run_id, seq, PAGE))

    async def snapshot(self, run_id: str) -> Snapshot:
        """The whole run so far, whatever has been joined in it."""
        events: list[AgentEvent] = []
        compacted = 0
        while True:
            after = events[-1].seq if events else 0
            found, upto = await self._database.run(partial(self._part, run_id=run_id, after=after))
            if upto > max(compacted, after) and events:
                # What has been read may have been joined with what has not: once more.
                events, compacted = [], upto
                continue
            compacted = max(compacted, upto)
            events += found
            if len(found) < READ_AT_ONCE:
                return await asyncio.to_thread(snapshot_of, events)

    def _part(self, db: sqlite3.Connection, *, run_id: str, after: int) -> tuple[list[AgentEvent], int]:
        return sqlite_log.part(db, self._rows, run_id, after, READ_AT_ONCE)

    async def merge(self, run_id: str, upto: int | None = None) -> int:
        """Join adjacent deltas numbered up to `upto` (None: all); returns how many events the log holds now."""
        size = self.retention.window
        after: int | None = 0
        count = 0
        while after is not None:
            work = partial(sqlite_log.merge_part, rows=self._rows, run_id=run_id, after=after, upto=upto, size=size)
            after, count = await self._database.run(work)
        return count

    async def runs(self, session_id: str | None = None) -> list[str]:
        """Ids of the logged runs (of a session), the oldest first."""
        return await self._database.run(lambda db: sqlite_runs.run_ids(db, session_id))

    # -- runs ---------------------------------------------------------------------------------------------------

    async def run_info(self, run_id: str) -> RunInfo | None:
        """The run's state; None for an unknown one."""
        return await self._database.run(lambda db: sqlite_runs.info(db, self._owners, run_id))

    async def run_infos(
        self, session_id: str | None = None, *, before: str | None = None, limit: int = 50
    ) -> list[RunInfo]:
        """Runs that have events (of a session), the newest first; `before` is the last one of the page before."""
        return await self._database.run(lambda db: sqlite_runs.infos(db, self._owners, session_id, before, limit))

    async def latest_runs(self, prefix: str = "", *, before: str | None = None, limit: int = 50) -> list[RunInfo]:
        """The newest run of each session whose name begins with `prefix`, the newest first."""
        return await self._database.run(lambda db: sqlite_runs.latest(db, self._owners, prefix, before, limit))

    async def request_cancel(self, run_id: str, reason: str) -> bool:
        """Ask whoever writes the run to end it; False if there is none or it has ended for good."""
        told = await self._database.run(lambda db: sqlite_runs.request_cancel(db, run_id, reason))
        if told is not None:
            self._watches.tell(run_id, told)
        return told is not None

    def watch_cancel(self, run_id: str, tell: Callable[[str], None]) -> Callable[[], None]:
        """Have `tell` called once, on the running event loop, when a cancel of the run is asked for.

        This store tells at once, those of other processes within `CANCEL_POLL` seconds.
        """
        end = self._watches.add(run_id, tell)
        self._database.check_soon()
        return end

    async def delete_run(self, run_id: str) -> bool:
        """Forget the run: events, writers, blobs. False if there is none."""
        found = await self._database.run(lambda db: sqlite_runs.delete_run(db, run_id))
        self._bells.ring(run_id)
        return found

    async def sweep(self, now: float) -> Swept:
        """Delete and merge what is due by `retention` at the time `now` (Unix seconds)."""
        deleted: list[str] = []
        merged: list[str] = []
        while old := await self._database.run(lambda db: sqlite_runs.old_runs(db, self.retention, now)):
            deleted += [run_id for run_id in old if await self.delete_run(run_id)]
        while due := await self._database.run(lambda db: sqlite_runs.unmerged_runs(db, self.retention, now)):
            merged += [run_id for run_id in due if await self.merge(run_id)]
        return Swept(tuple(deleted), tuple(merged))

    # -- blobs --------------------------------------------------------------------------------------------------

    async def put_blob(self, run_id: str, data: bytes, media_type: str) -> str:
        """Keep data of a run, and return the name to find it by. Raises `StoreError` if the run is unknown."""
        return await self._database.run(lambda db: sqlite_runs.put_blob(db, run_id, data, media_type))

    async def get_blob(self, run_id: str, ref: str) -> Blob | None:
        """The blob of that name; None if this run has none."""
        if not is_blob_name(ref):
            return None
        return await self._database.run(lambda db: sqlite_runs.get_blob(db, run_id, ref))

    async def aclose(self) -> None:
        """Finish what was asked for, close the file, end the thread. The store cannot be used afterwards."""
        await self._database.aclose()
        self._owners.close()
        # Whoever tails reads again and is told that the store is closed.
        self._bells.ring_all()
