"""The protocols that keep things: sessions (conversations), event logs (what happened in a run), runs, blobs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from headwater.errors import StoreError, UsageError
from headwater.events import AgentEvent, Outcome
from headwater.messages import Message


class SessionData(msgspec.Struct, frozen=True):
    """A conversation as stored. `version` counts commits (0: never stored); `data` holds plan, rules, pending tasks."""

    session_id: str
    version: int = 0
    messages: tuple[Message, ...] = ()
    data: dict[str, Any] = {}


class Appended(msgspec.Struct, frozen=True, gc=False):
    """What an append comes to: the last number it wrote, and why the run is to be cancelled (None: it is not)."""

    last_seq: int
    cancel: str | None = None


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """A run from its first event on, with everything joined that may be; `read(after=seq)` goes on after it.

    It obeys the laws of a stream but for the gaps in its numbers: a delta that was joined into an earlier one has left
    its number unused. A reader that had got further forgets what it had and takes this instead.
    """

    seq: int
    events: tuple[AgentEvent, ...]


RunState = Literal["running", "suspended", "ended"]
"""`suspended` runs wait for a person. A `running` one may be dead: see `RunInfo.is_alive`."""


class RunInfo(msgspec.Struct, frozen=True, gc=False):
    """What is known of a run without reading its log.

    `started` and `updated` are the times (Unix seconds) of its first and last event, 0 while there is none; `agent` is
    the root's. `outcome` is that of its last segment, None while one is under way. `cancel` is the reason of a cancel
    that was asked for. `compacted` is the number up to which cursors get a snapshot (0: none do). `is_alive` says
    whether a process that lives has begun the segment under way, which it may have given up; False after the end, None
    where the store cannot tell.
    """

    run_id: str
    session_id: str
    agent: str
    state: RunState
    outcome: Outcome | None
    started: float
    updated: float
    last_seq: int
    compacted: int = 0
    cancel: str | None = None
    is_alive: bool | None = None


class Retention(msgspec.Struct, frozen=True):
    """How long and how much of a run is kept. Times are seconds after the run's end, that is, after it has ended for
    good: running and suspended runs are kept.

    `keep`: when `sweep` deletes it (None: never). `merge_after`: when `sweep` joins its deltas. A log that exceeds
    `max_events` or `max_bytes` (about; media and long results are elsewhere) is merged at once, and compacted if that
    does not do; what no delta is always stays.
    """

    keep: float | None = None
    merge_after: float | None = 60.0
    max_events: int = 200_000
    max_bytes: int = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        if self.max_events < 1 or self.max_bytes < 1:
            raise UsageError("Retention: max_events and max_bytes are at least 1")
        if (self.keep is not None and self.keep < 0) or (self.merge_after is not None and self.merge_after < 0):
            raise UsageError("Retention: keep and merge_after are seconds, 0 or more, or None")

    @property
    def window(self) -> int:
        """How many events are joined in one go, so that nobody waits long for it."""
        return max(2, min(1024, self.max_events // 4))


class Swept(msgspec.Struct, frozen=True, gc=False):
    """What a sweep did: ids of the runs that are gone, and of those whose deltas were joined."""

    deleted: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()


class Blob(msgspec.Struct, frozen=True, gc=False):
    """Bytes that an event only names, and their MIME type."""

    data: bytes
    media_type: str


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
class SessionHolds(Protocol):
    """What a session store has besides if it is shared by processes: one run at a time in all of them."""

    async def hold_session(self, session_id: str, run_id: str) -> str | None:
        """Have the session for a run of this process; else the id of the run of another process that has it.

        A hold ends with `release_session`, and with its process: it is no lease, and no clock is asked. Runs of one
        process queue among themselves; another hold of the same process takes the place of the one before.
        """
        ...

    def release_session(self, session_id: str, run_id: str) -> None:
        """Let runs of other processes have the session; done soon. If this run does not have it, nothing changes."""
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
    ) -> Appended:
        """Append events whose numbers follow on.

        Idempotent on (run, step, attempt, wseq): an append that is already there changes nothing and is answered like
        the first time. Raises `Fenced` if a newer epoch was opened, or a newer attempt of the step has written, and
        `StoreError` if the numbers leave a gap. `wseq` begins again at 1 with each epoch and each attempt. Empty
        `events` only check the fences and count no `wseq`. A cancelled run's events are written like others, so that
        its writer can close it; `Appended.cancel` tells it to.
        """
        ...

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[AgentEvent]:
        """Events with `seq` above `after`, oldest first.

        Numbers may have been joined meanwhile. Where `after` lies inside such a range the first event is what is left
        of it, so that a cursor gets each piece of text once. Raises `Compacted` if some of these events are not kept
        one by one any more: then `snapshot` has them.
        """
        ...

    def tail(self, run_id: str, after: int = 0) -> AsyncIterator[AgentEvent]:
        """Events with `seq` above `after`, then new ones as they come; ends after the root run's `run.end`.

        A `run.end` after which the log goes on (the run was resumed) does not end it; a run that has no events yet is
        waited for. Raises `Compacted` like `read`, also later if this reader is too slow, and `StoreError` if the run
        is deleted.
        """
        ...

    async def snapshot(self, run_id: str) -> Snapshot:
        """The whole run so far, whatever has been joined in it; empty, with number 0, if there is none."""
        ...

    async def merge(self, run_id: str, upto: int | None = None) -> int:
        """Join adjacent deltas numbered up to `upto` (None: all) that belong to one block or one call's arguments.

        Returns how many events the log holds now. No cursor notices but by the ranges (`first_seq` to `seq`).
        """
        ...

    async def runs(self, session_id: str | None = None) -> list[str]:
        """Ids of the logged runs (of a session), the oldest first."""
        ...


@runtime_checkable
class RunRegistry(Protocol):
    """The runs whose events are logged: their state, asking for their end, and how long they are kept."""

    async def run_info(self, run_id: str) -> RunInfo | None:
        """The run's state, at the cost of a look-up; None for an unknown one."""
        ...

    async def run_infos(
        self, session_id: str | None = None, *, before: str | None = None, limit: int = 50
    ) -> list[RunInfo]:
        """Runs that have events (of a session), the newest first; `before` is the last one of the page before."""
        ...

    async def latest_runs(self, prefix: str = "", *, before: str | None = None, limit: int = 50) -> list[RunInfo]:
        """Of each session whose name begins with `prefix` the newest run that has events, the newest first.

        Runs without a session are left out. `before` is the last one of the page before.
        """
        ...

    async def request_cancel(self, run_id: str, reason: str) -> bool:
        """Ask whoever writes the run, in whatever process, to end it; the first reason stays.

        False if there is no such run or it has ended for good. A suspended run that is resumed later learns of it then;
        until it is resumed nobody acts on it.
        """
        ...

    def watch_cancel(self, run_id: str, tell: Callable[[str], None]) -> Callable[[], None]:
        """Have `tell` called with the reason, once, on the running event loop, when a cancel of the run is asked for.

        At once if it had been asked for before; within about 0.25 s if another process asks. Returns what ends the
        watching, and may be called twice.
        """
        ...

    async def delete_run(self, run_id: str) -> bool:
        """Forget the run: events, writers, blobs. False if there is none. Whoever writes it gets a `StoreError`."""
        ...

    async def sweep(self, now: float) -> Swept:
        """Delete and merge what is due by the store's `Retention` at the time `now` (Unix seconds)."""
        ...


@runtime_checkable
class BlobStore(Protocol):
    """Keeps data that is too big for events. A blob belongs to a run, and is gone when that is deleted."""

    async def put_blob(self, run_id: str, data: bytes, media_type: str) -> str:
        """Keep data, and return the name to find it by: an opaque word, the same for the same data of the run.

        Raises `StoreError` if the run is unknown.
        """
        ...

    async def get_blob(self, run_id: str, ref: str) -> Blob | None:
        """The blob of that name; None if this run has none, whatever the name looks like."""
        ...


@runtime_checkable
class Store(SessionStore, EventLog, RunRegistry, BlobStore, Protocol):
    """All in one, which is what the stores of this package are."""


def blob_name(data: bytes, media_type: str) -> str:
    """The name of a blob: it tells nothing, and the same data has the same one, so that a repeated `put` is none."""
    import hashlib  # where it is needed: most programs keep no blobs

    digest = hashlib.blake2b(data, digest_size=16, key=media_type.encode()[:64])
    return f"blob_{digest.hexdigest()}"


def is_blob_name(ref: str) -> bool:
    """Whether there can be a blob of this name; others are not even looked for."""
    return ref.startswith("blob_") and ref[5:].isascii() and ref[5:].isalnum()


def unknown_run(run_id: str) -> StoreError:
    """What keeping something for a run that is not there comes to."""
    return StoreError(f"There is no run {run_id!r} here: call open_epoch() first")


def conflict_message(session_id: str, expected: int, stored: int) -> str:
    """The sentence of a `VersionConflict`."""
    return (
        f"Session {session_id!r} is at version {stored}, not {expected}: somebody else committed to it first. "
        "Load it again and retry"
    )
