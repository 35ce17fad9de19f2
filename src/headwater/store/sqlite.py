"""A store in one SQLite file: sessions and event logs, shared by all processes of one machine."""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from headwater.errors import StoreError, UsageError, VersionConflict
from headwater.events import AgentEvent, decode_event, encode_event
from headwater.messages import Message, decode_message, encode_message
from headwater.store.base import SessionData, conflict_message
from headwater.store.bells import PAGE, Bells, follow
from headwater.store.fence import RunHead, WriterHead, admit, check_end, ends_segment
from headwater.store.schema import Synchronous, connect, explain, transaction
from headwater.store.thread import DatabaseThread

T = TypeVar("T")


class SQLiteStore:
    """Sessions and event logs in one file (write-ahead log; not for network disks).

    The file is made at first use; its folder must exist. All database work is done on one thread of the store's own,
    so the event loop never waits for the disk; the store may be used from several event loops. With `synchronous`
    `"NORMAL"` a crash of the program loses nothing and a loss of power may lose the last writes, never the file;
    `"FULL"` keeps these too. `busy_timeout` is in seconds. Writes are atomic, and done even if the caller is cancelled
    while waiting. Every error is a `StoreError` that names the file.
    """

    def __init__(self, path: str | Path, *, synchronous: Synchronous = "NORMAL", busy_timeout: float = 10.0) -> None:
        if str(path) in {":memory:", ""}:
            raise UsageError("SQLiteStore needs the path of a file; MemoryStore() is the store in memory")
        if synchronous not in ("NORMAL", "FULL"):
            raise UsageError(f'synchronous is "NORMAL" or "FULL", not {synchronous!r}')
        name = os.path.abspath(os.path.expanduser(path))
        self.path = Path(name)
        self.place = f"sqlite:{os.path.realpath(name)}"
        """The same for every store on this file: what their sessions have in common."""
        self._bells = Bells()
        self._database = DatabaseThread(
            name,
            self._bells,
            connect=partial(connect, name, synchronous, busy_timeout),
            explain=partial(explain, name, busy_timeout),
        )
        # The thread must not keep the store alive, so it knows nothing of it; the store's end ends the thread.
        weakref.finalize(self, self._database.stop)

    def __repr__(self) -> str:
        return f"SQLiteStore({str(self.path)!r})"

    async def load(self, session_id: str) -> SessionData:
        """The session, or an empty one of version 0."""

        def work(db: sqlite3.Connection) -> SessionData:
            # One snapshot: no commit comes between the two tables.
            with transaction(db, "DEFERRED"):
                row = db.execute("SELECT version, data FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
                if row is None:
                    return SessionData(session_id=session_id)
                rows = db.execute(
                    "SELECT body FROM messages WHERE session_id = ? ORDER BY position", (session_id,)
                ).fetchall()
            where = f"session {session_id!r}"
            return SessionData(
                session_id=session_id,
                version=row[0],
                messages=tuple(self._read(decode_message, body, where) for (body,) in rows),
                data=self._read(_DATA.decode, row[1], where),
            )

        return await self._database.run(work)

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
        bodies = [self._write(encode_message, message, what) for message in append]
        new_data = None if data is None else self._write(msgspec.json.encode, data, what)

        def work(db: sqlite3.Connection) -> int:
            with transaction(db):
                row = db.execute(
                    "SELECT version, messages, data FROM sessions WHERE session_id = ?", (session_id,)
                ).fetchone()
                version, count, old_data = row or (0, 0, "{}")
                if version != expected_version:
                    raise VersionConflict(conflict_message(session_id, expected_version, version))
                db.executemany(
                    "INSERT INTO messages VALUES (?, ?, ?)",
                    [(session_id, count + i, body) for i, body in enumerate(bodies)],
                )
                db.execute(
                    "INSERT OR REPLACE INTO sessions VALUES "
                    "(?, ?, ?, (SELECT coalesce(max(touched), 0) + 1 FROM sessions), ?)",
                    (session_id, version + 1, count + len(bodies), old_data if new_data is None else new_data),
                )
            return version + 1

        return await self._database.run(work)

    async def delete(self, session_id: str) -> None:
        """Forget the session; unknown ids are no error."""

        def work(db: sqlite3.Connection) -> None:
            with transaction(db):
                db.execute("DELETE FROM messages WHERE session_id = ?", (session_id,))
                db.execute("DELETE FROM sessions WHERE session_id = ?", (session_id,))

        await self._database.run(work)

    async def sessions(self) -> list[str]:
        """The ids of all sessions, the most recently committed first."""

        def work(db: sqlite3.Connection) -> list[str]:
            return [row[0] for row in db.execute("SELECT session_id FROM sessions ORDER BY touched DESC")]

        return await self._database.run(work)

    async def open_epoch(self, run_id: str, *, after: int | None = None) -> int:
        """Start writing to a run's log; fences older writers. Raises `Fenced` if it does not end `after` that."""

        def work(db: sqlite3.Connection) -> int:
            with transaction(db):
                row = db.execute("SELECT last_seq FROM runs WHERE run_id = ?", (run_id,)).fetchone()
                check_end(run_id, row[0] if row else 0, after)
                return db.execute(
                    "INSERT INTO runs (run_id, epoch) VALUES (?, 1) "
                    "ON CONFLICT (run_id) DO UPDATE SET epoch = epoch + 1 RETURNING epoch",
                    (run_id,),
                ).fetchall()[0][0]

        return await self._database.run(work)

    async def append(
        self,
        run_id: str,
        events: Sequence[AgentEvent],
        *,
        epoch: int,
        step: str,
        attempt: int = 1,
        wseq: int,
    ) -> int:
        """Append events whose numbers follow on; returns the last `seq`. Raises `Fenced` or `StoreError`."""
        events = tuple(events)
        bodies = [self._write(encode_event, event, f"event {event.type} {event.seq}") for event in events]

        def work(db: sqlite3.Connection) -> int:
            with transaction(db):
                row = db.execute("SELECT id, epoch, last_seq FROM runs WHERE run_id = ?", (run_id,)).fetchone()
                run, head = (row[0], RunHead(row[1], row[2])) if row else (0, None)
                found = db.execute(
                    "SELECT epoch, attempt, wseq FROM writers WHERE run = ? AND step = ?", (run, step)
                ).fetchone()
                writer = WriterHead(*found) if found else None
                if not admit(run_id, head, writer, events, epoch=epoch, step=step, attempt=attempt, wseq=wseq):
                    return events[-1].seq if events else row[2]
                last = events[-1]
                db.executemany(
                    "INSERT INTO events VALUES (?, ?, ?)",
                    [(run, event.seq, body) for event, body in zip(events, bodies, strict=True)],
                )
                db.execute("INSERT OR REPLACE INTO writers VALUES (?, ?, ?, ?, ?)", (run, step, epoch, attempt, wseq))
                db.execute(
                    "UPDATE runs SET last_seq = ?, ended = ?, "
                    "session_id = CASE last_seq WHEN 0 THEN ? ELSE session_id END WHERE id = ?",
                    (last.seq, int(ends_segment(run_id, last)), events[0].origin.session_id, run),
                )
            self._bells.ring(run_id)
            return last.seq

        return await self._database.run(work)

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[AgentEvent]:
        """Events with `seq` above `after`, oldest first."""
        return (await self._page(run_id, after, -1 if limit is None else max(0, limit)))[0]

    async def _page(self, run_id: str, after: int, limit: int) -> tuple[list[AgentEvent], bool]:
        def work(db: sqlite3.Connection) -> tuple[list[AgentEvent], bool]:
            rows = db.execute(
                "SELECT seq, body FROM runs JOIN events ON run = id WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?",
                (run_id, after, limit),
            ).fetchall()
            events = [self._read(decode_event, body, f"run {run_id!r}, event {seq}") for seq, body in rows]
            at = rows[-1][0] if rows else after
            # Asked second: an append in between makes it false or leaves it about an event that was read.
            ended = db.execute(
                "SELECT 1 FROM runs WHERE run_id = ? AND ended = 1 AND last_seq <= ?", (run_id, at)
            ).fetchone()
            return events, ended is not None

        return await self._database.run(work)

    def tail(self, run_id: str, after: int = 0) -> AsyncIterator[AgentEvent]:
        """Events with `seq` above `after`, then new ones as they come; ends after the root run's `run.end`.

        Appends of this store wake it at once, those of other processes within about 10 ms.
        """
        return follow(self._bells, run_id, after, lambda seq: self._page(run_id, seq, PAGE))

    async def runs(self, session_id: str | None = None) -> list[str]:
        """Ids of the logged runs (of a session), the oldest first."""

        def work(db: sqlite3.Connection) -> list[str]:
            rows = db.execute(
                "SELECT run_id FROM runs WHERE last_seq > 0 AND coalesce(session_id = ?, TRUE) ORDER BY id",
                (session_id,),
            )
            return [row[0] for row in rows]

        return await self._database.run(work)

    async def aclose(self) -> None:
        """Finish what was asked for, close the file, end the thread. The store cannot be used afterwards."""
        await self._database.aclose()
        # Whoever tails reads again and is told that the store is closed.
        self._bells.ring_all()

    def _write(self, encode: Callable[[Any], bytes], value: Any, what: str) -> str:
        try:
            return encode(value).decode()
        except (TypeError, ValueError, RecursionError) as error:
            raise StoreError(f"The store {self.path} cannot keep {what}: it has no JSON form ({error})") from error

    def _read(self, decode: Callable[[str], T], body: str, where: str) -> T:
        try:
            return decode(body)
        except (msgspec.MsgspecError, TypeError, ValueError) as error:
            raise StoreError(f"The store {self.path} holds something unreadable at {where}: {error}") from error


_DATA: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])
