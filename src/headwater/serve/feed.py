"""A run's log as its readers in this process see it: read once for all of them, each of them a number.

A reader first catches up from the store, page by page. At the log's end it shares a `Feed`: one task that tails the log
and keeps the last events, encoded once. A reader that falls out of what the feed keeps goes back to the store; there,
where it is a page or more behind, it gets adjacent deltas joined.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import Literal, TypeAlias

from headwater.errors import Compacted, HeadwaterError
from headwater.events import AgentEvent, Outcome, RunEndEvent, encode_event
from headwater.events.numbers import first_number
from headwater.store.base import Store
from headwater.store.joining import merge

PAGE = 256
"""Events that a reader gets at once; one that has so many to catch up with is behind."""
MAX_ITEMS = 2048
MAX_BYTES = 4 * 1024 * 1024
"""What a feed keeps of a run for its readers."""
LOOK = 0.5
"""Seconds between looks whether another process went on with a run that waits for a person."""

Until: TypeAlias = Literal["run", "segment", "one"]
"""Where a cursor ends: with the run for good; also where it waits for a person; or with the segment it begins in."""


class Item:
    """An event and its encoded form, which all readers share. `is_snapshot`: it replaces what came before."""

    __slots__ = ("__dict__", "event")

    def __init__(self, event: AgentEvent) -> None:
        self.event = event

    @property
    def seq(self) -> int:
        return self.event.seq

    @cached_property
    def data(self) -> bytes:
        """The event's JSON."""
        return encode_event(self.event)


class Closing(HeadwaterError):
    """The server goes down, and its streams end; what is read can be read on elsewhere."""


class Feed:
    """What is new in a run's log, above the number at which it began."""

    def __init__(self, store: Store, run_id: str, after: int) -> None:
        self._store = store
        self.run_id = run_id
        self.floor = after
        """Whoever has read up to here, or further, finds the rest in the feed."""
        self.head = after
        self.error: Exception | None = None
        self.is_over = False
        self.readers: set[Cursor] = set()
        self._items: deque[Item] = deque()
        self._bytes = 0
        self._poked = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._pump())

    def above(self, after: int) -> list[Item] | None:
        """The next items above a number, at most a page; None if the feed does not have them all."""
        if after < self.floor or after > self.head:
            return None
        items = self._items
        if not items or items[-1].seq <= after:
            return []
        at = bisect_right(items, after, key=_seq) if items[0].seq <= after else 0
        if first_number(items[at].event) <= after:
            return None  # it was joined, and the reader has had a part of it: the store tells which
        return [items[i] for i in range(at, min(at + PAGE, len(items)))]

    def poke(self) -> None:
        """Look at once whether a waiting run has gone on."""
        self._poked.set()

    def wake(self) -> None:
        for reader in self.readers:
            reader.wake()

    def stop(self) -> None:
        self._task.cancel()

    async def _pump(self) -> None:
        try:
            while not self.is_over:
                end: Outcome | None = None
                try:
                    async for event in self._store.tail(self.run_id, self.head):
                        self._take(Item(event))
                        end = _root_end(event, self.run_id)
                except Compacted as gap:
                    self._leap(gap.kept_after)
                    continue
                self.is_over = end not in (None, Outcome.SUSPENDED) or await self._is_over_or_goes_on()
        except Exception as error:  # noqa: BLE001 each reader gets it
            self.error = error
        self.wake()

    async def _is_over_or_goes_on(self) -> bool:
        """Whether the run ended for good before what was read; comes back if not when there may be more of it."""
        info = await self._store.run_info(self.run_id)
        if info is None or info.last_seq > self.head:
            return False  # somebody went on with it since the last look, or it is gone
        if info.state == "suspended":
            await self._resumed()
        return info.state == "ended"

    async def _resumed(self) -> None:
        while True:
            self._poked.clear()
            info = await self._store.run_info(self.run_id)
            if info is None or info.last_seq > self.head:
                return
            try:
                async with asyncio.timeout(LOOK):
                    await self._poked.wait()
            except TimeoutError:
                continue

    def _leap(self, seq: int) -> None:
        """What comes before a number is not there one by one any more: readers that need it get a snapshot."""
        self._items.clear()
        self._bytes = 0
        self.floor = self.head = seq
        self.wake()

    def _take(self, item: Item) -> None:
        self._items.append(item)
        self._bytes += len(item.data)
        self.head = item.seq
        while len(self._items) > MAX_ITEMS or (self._bytes > MAX_BYTES and len(self._items) > 1):
            dropped = self._items.popleft()
            self._bytes -= len(dropped.data)
            self.floor = dropped.seq
        self.wake()


class Feeds:
    """The feeds of the runs that somebody reads at their end."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.is_closing = False
        self._feeds: dict[str, Feed] = {}
        self.cursors: set[Cursor] = set()

    def find(self, run_id: str) -> Feed | None:
        return self._feeds.get(run_id)

    def join(self, cursor: Cursor) -> Feed:
        """The run's feed, begun where this cursor stands if there is none yet."""
        feed = self._feeds.get(cursor.run_id)
        if feed is None:
            feed = self._feeds[cursor.run_id] = Feed(self.store, cursor.run_id, cursor.after)
        feed.readers.add(cursor)
        return feed

    def leave(self, cursor: Cursor) -> None:
        self.cursors.discard(cursor)
        feed = self._feeds.get(cursor.run_id)
        if feed is None:
            return
        feed.readers.discard(cursor)
        if not feed.readers:
            del self._feeds[cursor.run_id]
            feed.stop()

    def poke(self, run_id: str) -> None:
        if (feed := self._feeds.get(run_id)) is not None:
            feed.poke()

    def close(self) -> None:
        """Every cursor ends with `Closing`; new ones do at once."""
        self.is_closing = True
        for cursor in list(self.cursors):
            cursor.wake()


class Cursor:
    """One reader of a run: where it stands, and what it waits for. `close` it in the end."""

    def __init__(
        self,
        feeds: Feeds,
        run_id: str,
        after: int,
        until: Until,
        *,
        on_close: Callable[[], None] | None = None,
        on_silence: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.run_id = run_id
        self.after = after
        self.is_over = False
        """Whether there is nothing more; set when `next` returns nothing."""
        self.snapshot_at: int | None = None
        """If set, what `next` has just returned is the whole run up to this number, whatever was read before."""
        self._feeds = feeds
        self._until = until
        self._on_close = on_close
        self._on_silence = on_silence
        self._ended: Outcome | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._has_left = False
        feeds.cursors.add(self)

    async def next(self, patience: float) -> Sequence[Item]:
        """What comes next; nothing if nothing came for `patience` seconds, or if there is nothing more.

        Raises `Closing` if the server goes down, and `StoreError`.
        """
        self.snapshot_at = None
        deadline = asyncio.get_running_loop().time() + patience
        while not self._has_left:
            if self._feeds.is_closing:
                raise Closing("The server is closing its streams.")
            if self._until == "one" and self._ended is not None:
                break  # what comes next is another segment
            if items := await self._more():
                if self._until == "one":
                    items = _segment_of(items, self.run_id, self.after)
                last = items[-1]
                self.after = last.seq if self.snapshot_at is None else self.snapshot_at
                self._ended = _root_end(last.event, self.run_id)
                return items
            feed = self._feeds.join(self)
            if feed.head > self.after:
                continue  # it came just now
            if self._is_at_its_end(feed):
                break
            if not await self._wait(deadline):
                if self._on_silence is not None:
                    await self._on_silence()
                return ()
        self.is_over = True
        return ()

    async def _more(self) -> list[Item]:
        """What is there above `after`, at most a page."""
        feed = self._feeds.find(self.run_id)
        items = feed.above(self.after) if feed is not None else None
        return await self._stored() if items is None else items

    async def _stored(self) -> list[Item]:
        store = self._feeds.store
        try:
            events = await store.read(self.run_id, self.after, limit=PAGE)
        except Compacted:
            snapshot = await store.snapshot(self.run_id)
            self.snapshot_at = snapshot.seq
            events = list(snapshot.events)
        if len(events) >= PAGE:
            events = [event for event, _ in merge((event, None) for event in events)]
        return [Item(event) for event in events]

    def _is_at_its_end(self, feed: Feed) -> bool:
        if self._ended is not None and (self._until != "run" or self._ended is not Outcome.SUSPENDED):
            return True
        if feed.error is not None:
            raise feed.error
        return feed.is_over and self.after >= feed.head

    async def _wait(self, deadline: float) -> bool:
        loop = asyncio.get_running_loop()
        self._waiter = waiter = loop.create_future()
        timer = loop.call_at(deadline, self.wake)
        try:
            await waiter
        finally:
            self._waiter = None
            timer.cancel()
        return loop.time() < deadline

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def leave(self) -> None:
        """The reader is gone: `next` comes back, with nothing more."""
        self._has_left = True
        self.wake()

    @property
    def has_left(self) -> bool:
        return self._has_left

    def close(self) -> None:
        self._feeds.leave(self)
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()


def _root_end(event: AgentEvent, run_id: str) -> Outcome | None:
    """How the segment ended, if the event is its end."""
    return event.outcome if isinstance(event, RunEndEvent) and event.origin.run_id == run_id else None


def _segment_of(items: list[Item], run_id: str, after: int) -> list[Item]:
    """The items up to the first end of a segment above a number."""
    for at, item in enumerate(items, 1):
        if item.seq > after and _root_end(item.event, run_id) is not None:
            return items[:at]
    return items


def _seq(item: Item) -> int:
    return item.seq
