"""Publishing a run: its events in order and once, across lost connections, restarts and other publishers of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from headwater.drive.retries import Retries
from headwater.errors import HeadwaterError, QueueError, UsageError
from headwater.events import AgentEvent, encode_event
from headwater.queues.base import PAGE, Entry, Keep, Queue
from headwater.queues.choice import choose
from headwater.store.joining import merge

if TYPE_CHECKING:
    from nats.aio.client import Client as NatsClient
    from redis.asyncio import Redis

LAST_WORDS = 5.0
"""Seconds that a run's last events get to be published when its publisher is cancelled."""
CANCELLED = "its publisher was cancelled"


class Source(Protocol):
    """A run to publish: one that is read where it runs (`agent.stream(...)`)."""

    @property
    def run_id(self) -> str: ...

    async def next_batch(self) -> list[AgentEvent]:
        """What is there, at least one event; nothing at the end."""
        ...


class Reader(Source, Protocol):
    """One that may be left."""

    async def aclose(self) -> None: ...


@runtime_checkable
class LoggedSource(Source, Protocol):
    """A run that is read from its log, or from a server: `agent.attach(...)`, `client.events(...)`."""

    @property
    def after(self) -> int: ...

    def reader(self, after: int) -> Reader:
        """Another reader, of what comes after a number."""
        ...


@runtime_checkable
class LiveSource(Source, Protocol):
    """A run that its reader drives."""

    @property
    def is_kept(self) -> bool: ...

    async def cancel(self, reason: str = ...) -> None: ...


async def publish(
    run: Source,
    *,
    redis_stream: str = "",
    redis: Redis | str | None = None,
    nats_subject: str = "",
    nats: NatsClient | str | None = None,
    queue: Queue | None = None,
    keep: Keep | None = None,
    retries: Retries | None = None,
) -> int:
    """Publish a run's events to its end, and return the number of the last one in the queue.

    The queue is the Redis stream `redis_stream`:`run_id` of a client or URL `redis`, the subject
    `nats_subject`.`run_id` in JetStream of a client or URL `nats`, or `queue`. `keep` is how much of it stays there.

    `run` is best one that is read from its log, `agent.attach(run_id)`: then it does not matter who publishes it, how
    often and how many at once, or when they die and begin again. Each goes on behind what is in the queue, and each
    event is put there once, in order, the end too. It comes back at the end of the segment; for a run that waited for a
    person, publish it again. A run that `agent.stream(...)` drives is published while it happens, at the queue's pace,
    by one publisher; its agent has no store. If the publisher is cancelled, the run is, and its end published.

    At most a page of events is in memory. Where the publisher is a page behind, adjacent deltas are joined. A
    connection that is lost is tried again as `retries` says (10 times, about half a minute); then `QueueError` is
    raised, and another call goes on. Raises `UsageError`, and what reading the run raises, such as `UnknownRun`,
    `RunError` where the run's process died, `StoreError` and, if the log has joined what the queue has with what it has
    not, `Compacted`.
    """
    own, owned = choose(queue, redis_stream, redis, nats_subject, nats, keep)
    publisher = _Publisher(run, own, retries or Retries(tries=10))
    try:
        return await publisher.publish()
    finally:
        await publisher.leave()
        if owned:
            await own.aclose()


class _Publisher:
    def __init__(self, run: Source, queue: Queue, retries: Retries) -> None:
        self._run = run
        self._source = run
        self._reader: Reader | None = None
        self._queue = queue
        self._retries = retries
        self._run_id = run.run_id
        self._at = 0
        """The last number in the queue."""
        self._read = 0
        """The last number that was read from the run: what the next entry follows on."""
        self._batch: list[AgentEvent] = []
        self._pending: list[Entry] = []
        """What was read and is perhaps not in the queue yet."""

    async def publish(self) -> int:
        run = self._run
        self._at = await self._retries.trying(lambda: self._queue.position(self._run_id))
        if isinstance(run, LoggedSource):
            await self._go_on(max(self._at, run.after))
        elif self._at:
            raise self._moved("another publisher has it, and only a run that is read from its log has several")
        try:
            await self._all()
        except asyncio.CancelledError as cancelled:
            if isinstance(run, LiveSource) and not isinstance(run, LoggedSource):
                await self._last_words(run, cancelled)
            raise
        return self._at

    async def leave(self) -> None:
        """Close what was opened here."""
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.aclose()

    async def _go_on(self, after: int) -> None:
        assert isinstance(self._run, LoggedSource)
        await self.leave()
        self._source = self._reader = self._run.reader(after)
        self._read = after
        self._batch, self._pending = [], []

    async def _all(self) -> None:
        while True:
            await self._put_pending()
            if not self._batch:
                self._batch = await self._source.next_batch()
                if not self._batch:
                    return
                self._check_kept()
            self._pending, self._batch = self._entries(self._batch[:PAGE]), self._batch[PAGE:]

    def _check_kept(self) -> None:
        run = self._run
        if isinstance(run, LiveSource) and not isinstance(run, LoggedSource) and run.is_kept:
            raise UsageError(
                "The agent has a store, so its runs are published from their log, which may still lose what a reader "
                "here has seen: publish(agent.attach(agent.start(...)), ...)."
            )

    def _entries(self, events: Sequence[AgentEvent]) -> list[Entry]:
        if len(events) >= PAGE:  # behind
            events = [event for event, _ in merge((event, None) for event in events)]
        entries: list[Entry] = []
        for event in events:
            entries.append(Entry(self._run_id, event.seq, self._read, encode_event(event)))
            self._read = event.seq
        return entries

    async def _put_pending(self) -> None:
        """Have what was read in the queue, by whomever."""
        while pending := self._pending:
            at = await self._retries.trying(partial(self._queue.append, self._run_id, self._at, pending))
            left = [entry for entry in pending if entry.seq > at]
            if at == self._at and len(left) == len(pending):
                raise QueueError(
                    f"{self._queue!r} took nothing after {at} of run {self._run_id!r} and gave no reason.",
                    code="refused",
                )
            self._at, self._pending = at, left
            if all(entry.seq != at for entry in pending):
                # Others have put more there, or the queue has lost something.
                if not isinstance(self._run, LoggedSource):
                    raise self._moved("it has lost events, or another publisher has the run")
                await self._go_on(max(at, self._run.after))

    def _moved(self, why: str) -> QueueError:
        return QueueError(
            f"{self._queue!r} has run {self._run_id!r} up to {self._at} and not {self._read}: {why}. "
            "Publish it from its log: publish(agent.attach(run_id), ...).",
            code="moved",
        )

    async def _last_words(self, run: LiveSource, cancelled: asyncio.CancelledError) -> None:
        """A cancelled run ends with an event, and its readers wait for it."""
        try:
            async with asyncio.timeout(LAST_WORDS):
                await run.cancel(CANCELLED)
                await self._all()
        except (HeadwaterError, TimeoutError) as error:
            cancelled.add_note(f"The end of run {self._run_id!r} could not be published: {error!r}")
