"""What a queue is to a publisher and to a reader: a place that keeps each run's events in order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import msgspec

from headwater.errors import UsageError

PAGE = 256
"""Events that are published, or read, at once."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """An event as a queue keeps it. `data` is its JSON, the bytes that server-sent events and WebSockets carry.

    (`run_id`, `seq`) of a root run names it once for all. It follows on the event numbered `after` (0: it is the first
    one): what a reader has that is older lacks something.
    """

    run_id: str
    seq: int
    after: int
    data: bytes


class Keep(msgspec.Struct, frozen=True):
    """How much of a run a queue keeps: its last `events` (None: all; Redis keeps somewhat more), for `seconds` (None:
    for ever). In Redis that is the time after the last event, in NATS the age of each.

    A reader that comes too late for an event is told so.
    """

    events: int | None = None
    seconds: float | None = 7 * 24 * 3600.0

    def __post_init__(self) -> None:
        if self.events is not None and self.events < 1:
            raise UsageError("Keep: events is at least 1, or None")
        if self.seconds is not None and self.seconds < 1:
            raise UsageError("Keep: seconds is at least 1, or None")


class Queue(Protocol):
    """Where runs are published: the three methods and the end that another queue has to have.

    Errors are `QueueError`, `retryable` where the same call may succeed later.
    """

    async def position(self, run_id: str) -> int:
        """The number of the run's last event that was ever put here, as far as is known; 0 if there is none."""
        ...

    async def append(self, run_id: str, after: int, entries: Sequence[Entry]) -> int:
        """Put entries behind the event numbered `after`; returns the position that this comes to.

        The test of the position and the putting are one step that nothing comes between: where another event is the
        last one, by another publisher or by this call whose answer was lost, nothing is put and its number returned. A
        queue that takes entries one by one tests before each, and may stop after any.
        """
        ...

    def read(self, run_id: str, after: int) -> AsyncIterator[Sequence[Entry]]:
        """The run's entries numbered above `after`, in order, in pages that are not empty; waits for more without end.

        It is closed by its reader, and raises `QueueError` where the queue is lost: then another one goes on.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections that it has made itself."""
        ...
