"""Reading a run from a queue: its events, each once and in order, and whether they came to an end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from headwater.drive.inbox import Inbox
from headwater.drive.retries import Retries
from headwater.errors import Compacted, QueueError, StreamBroken, UsageError
from headwater.events import AgentEvent, Outcome, RunEndEvent, decode_event
from headwater.events.numbers import first_number
from headwater.queues.base import Entry, Queue
from headwater.queues.choice import choose

if TYPE_CHECKING:
    from nats.aio.client import Client as NatsClient
    from redis.asyncio import Redis

Until: TypeAlias = Literal["segment", "run"]
"""Where reading ends: also where the run waits for a person, or with the run for good."""


def read_stream(
    run_id: str,
    *,
    after: int = 0,
    until: Until = "segment",
    redis_stream: str = "",
    redis: Redis | str | None = None,
    nats_subject: str = "",
    nats: NatsClient | str | None = None,
    queue: Queue | None = None,
    idle_timeout: float | None = 60.0,
    retries: Retries | None = None,
) -> StreamReader:
    """Read a run from the queue that `publish` puts it into: its events numbered above `after`, then those to come.

    A run that nobody has published yet is waited for. `idle_timeout` is seconds: where nothing comes for so long, its
    publisher may be dead, and `StreamBroken` is raised; None waits for ever, and a run may be silent for as long as its
    slowest tool. `retries` are for lost connections.
    """
    if after < 0:
        raise UsageError(f"after is the number of an event, or 0 for all, not {after}.")
    own, owned = choose(queue, redis_stream, redis, nats_subject, nats)
    return StreamReader(run_id, own, after, until, idle_timeout, retries or Retries(), owned=owned)


class StreamReader:
    """A run's events from a queue, each once and in order: `async for event in reader: ...`.

    It ends with the run's end, or where the run waits for a person (`until`), and then raises the failure of a run that
    failed, as a run of this process does. Raises `StreamBroken` where the end does not come (`no_end`), where the queue
    does not keep what comes next any more (`gap`) or has something else (`unreadable`), `Compacted` where `after` lies
    in the middle of a joined delta, and `QueueError` where the queue could not be had again. What was read stands;
    iterating on tries again. Leave it with `aclose`, or by `async with`, if you do not read to the end.
    """

    def __init__(
        self,
        run_id: str,
        queue: Queue,
        after: int,
        until: Until,
        idle_timeout: float | None,
        retries: Retries,
        *,
        owned: bool,
    ) -> None:
        self.run_id = run_id
        self._queue = queue
        self._after = after
        self._until: Until = until
        self._idle_timeout = idle_timeout
        self._retries = retries
        self._owned = owned
        self._inbox = Inbox(run_id, self._fetch)
        self._pages: AsyncIterator[Sequence[Entry]] | None = None
        self._failed = 0
        self._trouble: StreamBroken | Compacted | None = None

    def __repr__(self) -> str:
        state = self.end.outcome if self.end is not None else f"after {self._after}"
        return f"StreamReader({self.run_id}, {state})"

    @property
    def end(self) -> RunEndEvent | None:
        """The last `run.end` that has been received."""
        return self._inbox.end

    @property
    def after(self) -> int:
        """The number of the last event that was received: where another reader would go on."""
        return self._after

    def __aiter__(self) -> StreamReader:
        return self

    async def __anext__(self) -> AgentEvent:
        return await self._inbox.next()

    async def __aenter__(self) -> StreamReader:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop reading. What has been received can still be read."""
        self._inbox.is_over = True
        await self._leave()
        if self._owned:
            await self._queue.aclose()

    # -- inside -------------------------------------------------------------------------------------------------

    async def _fetch(self) -> None:
        """Receive a page, or try to; raises what is to be told."""
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            raise trouble
        try:
            page = await self._page()
        except QueueError as error:
            self._failed += 1
            wait = self._retries.wait(self._failed, error)
            if wait is None:
                self._failed = 0
                raise
            await asyncio.sleep(wait)
            return
        self._failed = 0
        try:
            for entry in page:
                self._take(entry)
        except (StreamBroken, Compacted) as error:
            await self._leave()
            self._trouble = error  # after what came before it
        end = self._inbox.end
        if end is not None and end.seq == self._after and await self._is_last(end):
            await self.aclose()

    async def _page(self) -> Sequence[Entry]:
        if self._pages is None:
            self._pages = self._queue.read(self.run_id, self._after)
        patience = asyncio.timeout(self._idle_timeout)
        try:
            async with patience:
                page = await anext(self._pages, None)
            if page is None:
                raise QueueError(f"{self._queue!r} stopped reading.", code="unreachable", retryable=True)
        except TimeoutError:
            await self._leave()
            if not patience.expired():
                raise
            raise await self._silence() from None
        except BaseException:
            await self._leave()
            raise
        return page

    def _take(self, entry: Entry) -> None:
        if entry.seq <= self._after:
            return  # it came before
        if entry.after > self._after:
            raise StreamBroken(
                f"The queue does not have run {self.run_id!r} after {self._after}, only after {entry.after}: the rest "
                f"is not kept any more. Read it from there with after={entry.after}, or from the run's log.",
                code="gap",
            )
        try:
            event = decode_event(entry.data)
        except msgspec.MsgspecError as error:
            raise StreamBroken(
                f"Event {entry.seq} of run {self.run_id!r} cannot be read: {error}. Check both versions of headwater.",
                code="unreadable",
            ) from error
        if first_number(event) <= self._after:
            raise Compacted(self.run_id, self._after, entry.seq, "read it again from the beginning, with after=0")
        self._after = event.seq
        self._inbox.take(event)

    async def _is_last(self, end: RunEndEvent) -> bool:
        """The last event that came is an end; whether it is where reading ends."""
        if end.outcome is not Outcome.SUSPENDED:
            return True
        # It may have gone on long ago.
        return self._until == "segment" and await self._retries.trying(self._position) <= end.seq

    async def _position(self) -> int:
        return await self._queue.position(self.run_id)

    async def _silence(self) -> StreamBroken:
        at = await self._retries.trying(self._position)
        there = f"ends with {at}" if at else "is not there"
        return StreamBroken(
            f"Nothing came of run {self.run_id!r} for {self._idle_timeout:g} s: in {self._queue!r} it {there} and has "
            "no end. Its publisher may have died, or a tool takes long (raise idle_timeout). Go on with "
            f"after={self._after}.",
            code="no_end",
            retryable=True,
        )

    async def _leave(self) -> None:
        pages, self._pages = self._pages, None
        close = getattr(pages, "aclose", None)
        if close is not None:
            await close()
