"""A store in memory: sessions and event logs that live as long as the object."""

from __future__ import annotations

import copy
import threading
from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence
from typing import Any

from headwater.errors import VersionConflict
from headwater.events import AgentEvent, Outcome, RunEndEvent
from headwater.messages import Message
from headwater.store.base import SessionData, conflict_message
from headwater.store.bells import PAGE, Bells, follow
from headwater.store.fence import RunHead, WriterHead, admit, check_end, ends_segment


class _Session:
    __slots__ = ("data", "messages", "version")

    def __init__(self) -> None:
        self.version = 0
        self.messages: list[Message] = []
        self.data: dict[str, Any] = {}


class _Log:
    __slots__ = ("epoch", "events", "session_id", "writers")

    def __init__(self) -> None:
        self.epoch = 0
        self.events: list[AgentEvent] = []
        self.session_id = ""
        self.writers: dict[str, WriterHead] = {}

    @property
    def last_seq(self) -> int:
        return self.events[-1].seq if self.events else 0

    def after(self, seq: int, limit: int | None) -> list[AgentEvent]:
        start = bisect_right(self.events, seq, key=_seq)
        return self.events[start : None if limit is None else start + max(0, limit)]

    def is_over(self, run_id: str) -> bool:
        return bool(self.events) and ends_segment(run_id, self.events[-1])

    def is_done(self, run_id: str) -> bool:
        """Over for good: a suspended run is waited for."""
        last = self.events[-1] if self.events else None
        return type(last) is RunEndEvent and last.origin.run_id == run_id and last.outcome is not Outcome.SUSPENDED


class MemoryStore:
    """Sessions and event logs in memory, for tests and for programs that need nothing after they end.

    Usable from several threads and event loops. Of the runs that are over, the logs of the last `max_runs` are kept
    (None: all); those of running and suspended ones, and what somebody tails, always are.
    """

    def __init__(self, *, max_runs: int | None = 100) -> None:
        self._max_runs = max_runs
        self._lock = threading.Lock()
        self._bells = Bells()
        self._sessions: dict[str, _Session] = {}
        self._logs: dict[str, _Log] = {}
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
            known = self._logs.get(run_id)
            check_end(run_id, known.last_seq if known is not None else 0, after)
            log = self._logs.setdefault(run_id, _Log())
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
    ) -> int:
        """Append events whose numbers follow on; returns the last `seq`. Raises `Fenced` or `StoreError`."""
        with self._lock:
            log = self._logs.get(run_id)
            head = None if log is None else RunHead(log.epoch, log.last_seq)
            writer = None if log is None else log.writers.get(step)
            if not admit(run_id, head, writer, events, epoch=epoch, step=step, attempt=attempt, wseq=wseq):
                return events[-1].seq if events else (head.last_seq if head else 0)
            if log is None:
                return 0
            if not log.events:
                log.session_id = events[0].origin.session_id
            log.events.extend(events)
            log.writers[step] = WriterHead(epoch, attempt, wseq)
            self._retain(run_id, log)
        self._bells.ring(run_id)
        return events[-1].seq

    def _retain(self, run_id: str, log: _Log) -> None:
        if not log.is_done(run_id):
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
        """Events with `seq` above `after`, oldest first."""
        with self._lock:
            log = self._logs.get(run_id)
            return [] if log is None else log.after(after, limit)

    async def _page(self, run_id: str, after: int) -> tuple[list[AgentEvent], bool]:
        with self._lock:
            log = self._logs.get(run_id)
            return ([], False) if log is None else (log.after(after, PAGE), log.is_over(run_id))

    def tail(self, run_id: str, after: int = 0) -> AsyncIterator[AgentEvent]:
        """Events with `seq` above `after`, then new ones as they come; ends after the root run's `run.end`."""
        return follow(self._bells, run_id, after, lambda seq: self._page(run_id, seq))

    async def runs(self, session_id: str | None = None) -> list[str]:
        """Ids of the logged runs (of a session), the oldest first."""
        with self._lock:
            return [
                run_id
                for run_id, log in self._logs.items()
                if log.events and (session_id is None or log.session_id == session_id)
            ]

    async def aclose(self) -> None:
        """Nothing to release; what is stored stays readable."""


def _seq(event: AgentEvent) -> int:
    return event.seq
