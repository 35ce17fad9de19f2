"""A run as server-sent events: LF framing, numbers as ids, a heartbeat in silence, and an end that says why."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec
from starlette.types import Receive, Scope, Send

from headwater.errors import StoreError
from headwater.serve.adapter import CloseReason, Translator
from headwater.serve.feed import Closing, Cursor, Item
from headwater.serve.hub import Limits
from headwater.wire.sse import Frame, encode_frame

_log = logging.getLogger("headwater.serve")

HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
}
OPENING = b": headwater\n\n"
"""Sent at once, so that proxies pass the headers on and the reader knows that it is connected."""
RETRY = b"retry: 1000\n\n"
PING = b": ping\n\n"
CLOSING = b": stream.closing\n\n"
PATIENCE = 60.0


class Framer(Protocol):
    """What a stream is made of: bytes for its beginning, for items, and for its end."""

    def open(self) -> bytes: ...

    def items(self, items: Sequence[Item], snapshot_at: int | None) -> bytes: ...

    def close(self, why: CloseReason) -> bytes: ...


class EventStream:
    """An ASGI response that sends a run to one reader. It closes the cursor, on every path.

    A reader that takes nothing for `limits.send_timeout` seconds is dropped. It ends with the cursor, with the comment
    `stream.closing` when the server goes down, and silently when the reader leaves.
    """

    def __init__(
        self, cursor: Cursor, framer: Framer, limits: Limits, headers: Mapping[str, str] | None = None
    ) -> None:
        self._cursor = cursor
        self._framer = framer
        self._limits = limits
        self._headers = {**HEADERS, **(headers or {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        cursor = self._cursor
        watch = asyncio.get_running_loop().create_task(_watch(receive, cursor))
        try:
            await self._stream(send)
        except (TimeoutError, OSError):
            return  # the reader is gone, or takes nothing; it can come back
        finally:
            watch.cancel()
            cursor.close()

    async def _stream(self, send: Send) -> None:
        cursor, framer = self._cursor, self._framer
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self._headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})
        await self._send(send, OPENING + framer.open())
        try:
            while not cursor.is_over:
                items = await cursor.next(self._limits.heartbeat)
                if items:
                    await self._send(send, framer.items(items, cursor.snapshot_at))
                elif not cursor.is_over:
                    await self._send(send, PING)
            last = framer.close("end")
        except Closing:
            last = CLOSING + framer.close("shutdown")
        except Exception as error:  # noqa: BLE001 the answer has begun: its end is all that can be told
            _log.error("Reading run %s failed", cursor.run_id, exc_info=error)
            last = framer.close("failed")
        if not cursor.has_left:
            await self._send(send, last, more=False)

    async def _send(self, send: Send, body: bytes, *, more: bool = True) -> None:
        if body or not more:
            async with asyncio.timeout(self._limits.send_timeout):
                await send({"type": "http.response.body", "body": body, "more_body": more})


async def _watch(receive: Receive, cursor: Cursor) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    cursor.leave()


class NativeFramer:
    """Events as they are: one frame each, `id` their number.

    `stream.snapshot` says that the next `count` events are the whole run up to `seq`, and that what was read before is
    to be forgotten; only the last of them has an id, so that a reader that is cut off meanwhile begins again.
    """

    def __init__(self, run_id: str, limit: int) -> None:
        self._run_id = run_id
        self._limit = limit

    def open(self) -> bytes:
        return RETRY

    def items(self, items: Sequence[Item], snapshot_at: int | None) -> bytes:
        if snapshot_at is None:
            return b"".join([encode_frame("", event_json(item, self._limit), str(item.seq)) for item in items])
        last = len(items) - 1
        frames = [encode_frame("", snapshot_json(self._run_id, snapshot_at, len(items)))]
        for at, item in enumerate(items):
            frames.append(encode_frame("", event_json(item, self._limit), str(snapshot_at) if at == last else ""))
        return b"".join(frames)

    def close(self, why: CloseReason) -> bytes:
        return b": stream.end\n\n" if why == "end" else b""


class TranslatedEvents:
    """What a protocol adapter makes of the events above the number `after`, each of which it is fed once.

    `opened` is what it has made of those before, if it was fed them already.
    """

    def __init__(self, translator: Translator, after: int, opened: Sequence[Frame] | None = None) -> None:
        self.translator = translator
        self._after = after
        self._opened = opened
        self._was_fed = opened is not None

    def open(self) -> Sequence[Frame]:
        return self.translator.open() if self._opened is None else self._opened

    def feed(self, items: Sequence[Item], snapshot_at: int | None) -> list[Frame]:
        """The frames of these items. Raises `StoreError` for a snapshot that takes the place of what was fed."""
        if snapshot_at is not None:
            if self._was_fed:
                raise StoreError("The reader is so slow that the log does not have event by event what comes next")
            items = [item for item in items if item.seq > self._after]  # no block goes on behind the end of a segment
        self._was_fed = True
        feed = self.translator.feed
        return [frame for item in items for frame in feed(item.event)]


class TranslatedFramer:
    """The same as bytes of a stream."""

    def __init__(self, translator: Translator, after: int, opened: Sequence[Frame] | None = None) -> None:
        self._events = TranslatedEvents(translator, after, opened)

    def open(self) -> bytes:
        return _bytes(self._events.open())

    def items(self, items: Sequence[Item], snapshot_at: int | None) -> bytes:
        return _bytes(self._events.feed(items, snapshot_at))

    def close(self, why: CloseReason) -> bytes:
        return _bytes(self._events.translator.close(why))


async def collect(cursor: Cursor, events: TranslatedEvents, receive: Receive, *, at_once: bool = False) -> bytes:
    """Read a run to its end and return what a translator makes of it, as one body. Closes the cursor.

    With `at_once` only what there is by now is read. Raises `Closing` and `StoreError`; comes back early if the client
    leaves.
    """
    watch = asyncio.get_running_loop().create_task(_watch(receive, cursor))
    translator = events.translator
    try:
        frames = list(translator.open())
        while not cursor.is_over:
            items = await cursor.next(0 if at_once else PATIENCE)
            frames.extend(events.feed(items, cursor.snapshot_at))
            if at_once and not items:
                break
        frames.extend(translator.close("end" if cursor.is_over else "now"))
        return b"".join([frame.data for frame in frames])
    finally:
        watch.cancel()
        cursor.close()


def _bytes(frames: Sequence[Frame]) -> bytes:
    return b"".join([encode_frame(frame.event, frame.data, frame.id) for frame in frames])


def event_json(item: Item, limit: int) -> bytes:
    """An event's JSON; of one that is larger than `limit` bytes only where it can be fetched."""
    data = item.data
    if len(data) <= limit:
        return data
    event = item.event
    return msgspec.json.encode(
        {
            "v": event.v,
            "seq": event.seq,
            "ts": event.ts,
            "type": "stream.oversize",
            "event_type": event.type,
            "bytes": len(data),
            "ref": f"/runs/{event.origin.root_run_id}/events/{event.seq}",
        }
    )


def snapshot_json(run_id: str, seq: int, count: int) -> bytes:
    """What announces a snapshot."""
    return msgspec.json.encode({"v": 1, "type": "stream.snapshot", "run_id": run_id, "seq": seq, "count": count})
