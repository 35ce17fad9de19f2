"""The two protocols that keep things: sessions (conversations) and event logs (what happened in a run)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from headwater.events import AgentEvent
from headwater.messages import Message


class SessionData(msgspec.Struct, frozen=True):
    """A conversation as stored. `version` counts commits (0: never stored); `data` holds plan, rules, pending tasks."""

    session_id: str
    version: int = 0
    messages: tuple[Message, ...] = ()
    data: dict[str, Any] = {}


@runtime_checkable
class SessionStore(Protocol):
    """Keeps conversations. All writes are atomic; errors are `StoreError`."""

    async def load(self, session_id: str) -> SessionData:
        """The session, or an empty one of version 0."""
        ...

    async def commit(
        self,
        session_id: str,
        expected_version: int,
        *,
        append: Sequence[Message] = (),
        data: dict[str, Any] | None = None,
    ) -> int:
        """Append messages and replace `data` (None: leave it); returns the new version.

        Raises `VersionConflict` if the stored version is not `expected_version`; then nothing is changed.
        """
        ...

    async def delete(self, session_id: str) -> None:
        """Forget the session; unknown ids are no error."""
        ...

    async def sessions(self) -> list[str]:
        """The ids of all sessions, the most recently committed first."""
        ...

    async def aclose(self) -> None:
        """Flush and release; calling it twice is allowed."""
        ...


@runtime_checkable
class EventLog(Protocol):
    """Append-only log of a root run's events, in the order of `seq` (1, 2, 3 ... without a gap).

    A writer is (`step`, `attempt`); `wseq` counts its appends from 1. `epoch` is what `open_epoch` returned to this
    process. Errors are `StoreError`.
    """

    async def open_epoch(self, run_id: str, *, after: int | None = None) -> int:
        """Start writing to a run's log: a number that grows by one at each (re)start and fences older writers.

        With `after` only if the log ends with that number: raises `Fenced` if somebody else has written meanwhile,
        and then nobody is fenced.
        """
        ...

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
        """Append events whose numbers follow on; returns the last `seq` of the log.

        Idempotent on (run, step, attempt, wseq): an append that is already there changes nothing and is answered like
        the first time. Raises `Fenced` if a newer epoch was opened, or a newer attempt of the step has written, and
        `StoreError` if the numbers leave a gap. `wseq` begins again at 1 with each epoch and each attempt. Empty
        `events` only check the fences and count no `wseq`.
        """
        ...

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[AgentEvent]:
        """Events with `seq` above `after`, oldest first."""
        ...

    def tail(self, run_id: str, after: int = 0) -> AsyncIterator[AgentEvent]:
        """Events with `seq` above `after`, then new ones as they come; ends after the root run's `run.end`.

        A `run.end` after which the log goes on (the run was resumed) does not end it; a run that has no events yet is
        waited for.
        """
        ...

    async def runs(self, session_id: str | None = None) -> list[str]:
        """Ids of the logged runs (of a session), the oldest first."""
        ...


@runtime_checkable
class Store(SessionStore, EventLog, Protocol):
    """Both in one, which is what the stores of this package are."""


def conflict_message(session_id: str, expected: int, stored: int) -> str:
    """The sentence of a `VersionConflict`."""
    return (
        f"Session {session_id!r} is at version {stored}, not {expected}: somebody else committed to it first. "
        "Load it again and retry"
    )
