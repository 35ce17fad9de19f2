"""A store in memory: sessions and event logs that live as long as the object."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from headwater.errors import VersionConflict
from headwater.events import AgentEvent
from headwater.messages import Message
from headwater.store.base import (
    Appended,
    Blob,
    Retention,
    RunInfo,
    SessionData,
    Snapshot,
    Swept,
    conflict_message,
    unknown_run,
)
from headwater.store.bells import NO_LOG, PAGE, Bells, Page, follow
from headwater.store.cancels import Watches
from headwater.store.fence import RunHead, WriterHead, admit, check_end
from headwater.store.joining import snapshot_of
from headwater.store.memory_log import Log

AT_ONCE = 4096
"""Events that a snapshot joins on the event loop; a thread joins more."""


class _Session:
    __slots__ = ("data", "messages", "version")

    def __init__(self) -> None:
        self.version = 0
        self.messages: list[Message] = []
        self.data: dict[str, Any] = {}


class MemoryStore:
    """Sessions and event logs in memory, for tests and for programs that need nothing after they end.

    Usable from several threads and event loops. Of the runs that are over, the logs of the last `max_runs` are kept
    (None: all); those of running and suspended ones, and what somebody tails, always are. `retention` bounds each log.
    """

    def __init__(self, *, max_runs: int | None = 100, retention: Retention | None = None) -> None:
        self.retention = retention or Retention()
        self._max_runs = max_runs
        self._lock = threading.Lock()
        self._bells = Bells()
        self._watches = Watches()
        self._sessions: dict[str, _Session] = {}
        self._logs: dict[str, Log] = {}
        self._done: dict[str, None] = {}

    async def load(self, session_id: str) -> SessionData:
        """The session, or an empty one of version 0."""
        with self._lock:
            stored = self._sessions.get(session_id)
            if stored is None:
                return SessionData(session_id=session_id)
            return SessionData(
                session_id=session_id,
                version=stored.version,
                messages=tuple(stored.messages),
                data=copy.deepcopy(stored.data),
            )

    async def commit(
        self,
        session_id: str,
        expected_version: int,
        *,
        append: Sequence[Message] = (),
        data: dict[str, Any] | None = None,
    ) -> int:
        """Append messages and replace `data`; returns the new version. Raises `VersionConflict`."""
        kept = None if data is None else copy.deepcopy(data)
        with self._lock:
            session = self._sessions.get(session_id) or _Session()
            if session.version != expected_version:
                raise VersionConflict(conflict_message(session_id, expected_version, session.version))
            session.version += 1
            session.messages.extend(append)
            if kept is not None:
                session.data = kept
            # Out and in again: the dict's order is the order of commits.
            self._sessions.pop(session_id, None)
            self._sessions[session_id] = session
            return session.version

    async def delete(self, session_id: str) -> None:
        """Forget the session; unknown ids are no error."""
        with self._lock:
            self._sessions.pop(session_id, None)

    async def sessions(self) -> list[str]:
        """The ids of all sessions, the most recently committed first."""
        with self._lock:
            return list(reversed(self._sessions))

    async def open_epoch(self, run_id: str, *, after: int | None = None) -> int:
        """Start writing to a run's log; fences older writers. Raises `Fenced` if it does not end `after` that."""
        with self._lock:
            log = self._logs.get(run_id)
            check_end(run_id, log.last_seq if log is not None else 0, after)
            if log is None:
                log = self._logs[run_id] = Log(run_id)
            log.epoch += 1
            return log.epoch

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
        with self._lock:
            log = self._logs.get(run_id)
            head = None if log is None else RunHead(log.epoch, log.last_seq)
            writer = None if log is None else log.writers.get(step)
            is_new = admit(run_id, head, writer, events, epoch=epoch, step=step, attempt=attempt, wseq=wseq)
            if log is None:
                raise unknown_run(run_id)
            if not is_new:
                return Appended(events[-1].seq if events else log.last_seq, log.cancel)
            log.extend(events, self.retention)
            log.writers[step] = WriterHead(epoch, attempt, wseq)
            self._retain(run_id, log)
        self._bells.ring(run_id)
        return Appended(events[-1].seq, log.cancel)

    def _retain(self, run_id: str, log: Log) -> None:
        if not log.is_done:
            self._done.pop(run_id, None)
            return
        self._done[run_id] = None
        if self._max_runs is None or len(self._done) <= self._max_runs:
            return
        excess = len(self._done) - self._max_runs
        unread = [done for done in self._done if done not in self._bells]
        for done in unread[:excess]:
            del self._done[done], self._logs[done]

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[AgentEvent]:
        """Events with `seq` above `after`, oldest first. Raises `Compacted`."""
        with self._lock:
            log = self._logs.get(run_id)
            return [] if log is None else log.after(after, limit)

    async def _page(self, run_id: str, after: int) -> Page:
        with self._lock:
            log = self._logs.get(run_id)
            return NO_LOG if log is None else Page(log.after(after, PAGE), log.outcome is not None)

    def tail(self, run_id: str, after: int = 0) -> AsyncIterator[AgentEvent]:
        """Events with `seq` above `after`, then new ones as they come; ends after the root run's `run.end`."""
        return follow(self._bells, run_id, after, lambda seq: self._page(run_id, seq))

    async def snapshot(self, run_id: str) -> Snapshot:
        """The whole run so far, whatever has been joined in it."""
        with self._lock:
            log = self._logs.get(run_id)
            events = [] if log is None else log.events.copy()
        if len(events) > AT_ONCE:
            return await asyncio.to_thread(snapshot_of, events)
        return snapshot_of(events)

    async def merge(self, run_id: str, upto: int | None = None) -> int:
        """Join adjacent deltas numbered up to `upto` (None: all); returns how many events the log holds now."""
        after = 0
        while True:
            with self._lock:
                log = self._logs.get(run_id)
                if log is None:
                    return 0
                upto = log.last_seq if upto is None else min(upto, log.last_seq)
                if after < upto:
                    after = log.merge(after, upto, self.retention.window)
                if after >= upto:
                    log.is_merged = log.is_merged or upto == log.last_seq
                    return len(log.events)
            await asyncio.sleep(0)  # another window in the loop's next turn

    async def runs(self, session_id: str | None = None) -> list[str]:
        """Ids of the logged runs (of a session), the oldest first."""
        with self._lock:
            return [
                run_id
                for run_id, log in self._logs.items()
                if log.events and (session_id is None or log.session_id == session_id)
            ]

    async def run_info(self, run_id: str) -> RunInfo | None:
        """The run's state; None for an unknown one."""
        with self._lock:
            log = self._logs.get(run_id)
            return None if log is None else log.info()

    async def run_infos(
        self, session_id: str | None = None, *, before: str | None = None, limit: int = 50
    ) -> list[RunInfo]:
        """Runs that have events (of a session), the newest first; `before` is the last one of the page before."""
        found: list[RunInfo] = []
        with self._lock:
            waiting = before is not None and before in self._logs
            for run_id, log in reversed(self._logs.items()):
                if waiting:
                    waiting = run_id != before
                elif len(found) >= limit:
                    break
                elif log.events and (session_id is None or log.session_id == session_id):
                    found.append(log.info())
        return found

    async def latest_runs(self, prefix: str = "", *, before: str | None = None, limit: int = 50) -> list[RunInfo]:
        """The newest run of each session whose name begins with `prefix`, the newest first."""
        found: list[RunInfo] = []
        seen: set[str] = set()
        with self._lock:
            waiting = before is not None and before in self._logs
            for run_id, log in reversed(self._logs.items()):
                is_newest = bool(log.events and log.session_id) and log.session_id not in seen
                if is_newest:
                    seen.add(log.session_id)
                if waiting:
                    waiting = run_id != before
                elif len(found) >= limit:
                    break
                elif is_newest and log.session_id.startswith(prefix):
                    found.append(log.info())
        return found

    async def request_cancel(self, run_id: str, reason: str) -> bool:
        """Ask whoever writes the run to end it; False if there is none or it has ended for good."""
        with self._lock:
            log = self._logs.get(run_id)
            if log is None or log.is_done:
                return False
            if log.cancel is None:
                log.cancel = reason
        self._watches.tell(run_id, log.cancel)
        return True

    def watch_cancel(self, run_id: str, tell: Callable[[str], None]) -> Callable[[], None]:
        """Have `tell` called once, on the running event loop, when a cancel of the run is asked for."""
        end = self._watches.add(run_id, tell)
        # Asked after it was added: a request in between tells it as well.
        log = self._logs.get(run_id)
        if log is not None and log.cancel is not None:
            self._watches.tell(run_id, log.cancel)
        return end

    async def delete_run(self, run_id: str) -> bool:
        """Forget the run: events, writers, blobs. False if there is none."""
        with self._lock:
            self._done.pop(run_id, None)
            found = self._logs.pop(run_id, None) is not None
        self._bells.ring(run_id)
        return found

    async def sweep(self, now: float) -> Swept:
        """Delete and merge what is due by `retention` at the time `now` (Unix seconds)."""
        keep, merge_after = self.retention.keep, self.retention.merge_after
        with self._lock:
            ages = {run_id: now - log.events[-1].ts for run_id, log in self._logs.items() if log.is_done}
            old = [run_id for run_id, age in ages.items() if keep is not None and age >= keep]
            due = [
                run_id
                for run_id, age in ages.items()
                if merge_after is not None and age >= merge_after and not self._logs[run_id].is_merged
            ]
        deleted = [run_id for run_id in old if await self.delete_run(run_id)]
        merged = [run_id for run_id in due if run_id not in deleted and await self.merge(run_id)]
        return Swept(tuple(deleted), tuple(merged))

    async def put_blob(self, run_id: str, data: bytes, media_type: str) -> str:
        """Keep data of a run, and return the name to find it by. Raises `StoreError` if the run is unknown."""
        with self._lock:
            log = self._logs.get(run_id)
            if log is None:
                raise unknown_run(run_id)
            return log.put_blob(data, media_type)

    async def get_blob(self, run_id: str, ref: str) -> Blob | None:
        """The blob of that name; None if this run has none."""
        with self._lock:
            log = self._logs.get(run_id)
            return None if log is None or log.blobs is None else log.blobs.get(ref)

    async def aclose(self) -> None:
        """Nothing to release; what is stored stays readable."""
