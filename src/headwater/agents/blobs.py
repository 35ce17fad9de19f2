"""Long results and media stand in a log by reference: out of events into blobs, and back when a run is rebuilt.

The model, the session and who reads the run where it runs have the whole; only the log's events are light.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from headwater.errors import StoreError
from headwater.events import (
    AgentEvent,
    ReasonDeltaEvent,
    ReasonEndEvent,
    ReasonStartEvent,
    RunEndEvent,
    RunStartEvent,
    ToolArgsDeltaEvent,
    ToolCallEndEvent,
)
from headwater.messages import AssistantMessage, MediaPart, Message, ToolMessage, UserMessage
from headwater.store.base import BlobStore, Store

MAX_TEXT = 256 * 1024
"""Characters of a tool's result that an event holds; of a longer one it holds the beginning."""
KEPT = 4096
"""Characters of that beginning."""
MAX_MEDIA = 32 * 1024
"""Characters of base64 that an event holds."""
TEXT = "text/plain; charset=utf-8"

BYTES = "application/octet-stream"

OfMedia: TypeAlias = Callable[[MediaPart], Awaitable[MediaPart]]
OfResult: TypeAlias = Callable[[ToolCallEndEvent], Awaitable[ToolCallEndEvent]]


async def lighten(blobs: BlobStore, run_id: str, events: Sequence[AgentEvent]) -> Sequence[AgentEvent]:
    """The events with what is big in them kept as blobs of the run. Raises `StoreError`."""
    if not any(map(_is_heavy, events)):
        return events

    async def part(media: MediaPart) -> MediaPart:
        if len(media.data) <= MAX_MEDIA:
            return media
        data = await asyncio.to_thread(_bytes_of, media.data)
        if data is None:
            return media
        ref = await blobs.put_blob(run_id, data, media.media_type or BYTES)
        return msgspec.structs.replace(media, data="", ref=ref)

    async def result(event: ToolCallEndEvent) -> ToolCallEndEvent:
        if len(event.text) <= MAX_TEXT:
            return event
        ref = await blobs.put_blob(run_id, event.text.encode(), TEXT)
        return msgspec.structs.replace(event, text=event.text[:KEPT], ref=ref)

    return [await _change(event, part, result) for event in events]


async def restore(blobs: BlobStore, run_id: str, events: Sequence[AgentEvent]) -> Sequence[AgentEvent]:
    """The events with everything back in them. Raises `StoreError` if a blob is gone."""
    if not any(map(_is_light, events)):
        return events

    async def load(ref: str) -> bytes:
        blob = await blobs.get_blob(run_id, ref)
        if blob is None:
            raise StoreError(f"The log of run {run_id!r} names a blob {ref!r} that is gone: the run cannot go on")
        return blob.data

    async def part(media: MediaPart) -> MediaPart:
        if not media.ref or media.data:
            return media
        data = base64.b64encode(await load(media.ref)).decode()
        return msgspec.structs.replace(media, data=data, ref="")

    async def result(event: ToolCallEndEvent) -> ToolCallEndEvent:
        if not event.ref:
            return event
        return msgspec.structs.replace(event, text=(await load(event.ref)).decode(), ref="")

    return [await _change(event, part, result) for event in events]


async def read_whole(store: Store, run_id: str) -> Sequence[AgentEvent]:
    """All events of a run, of which a resume is made. Raises `StoreError`."""
    return await restore(store, run_id, (await store.snapshot(run_id)).events)


def _bytes_of(text: str) -> bytes | None:
    """What base64 stands for; None if it is written in a way that could not be restored to the letter."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if base64.b64encode(data).decode() == text else None


def _is_heavy(event: AgentEvent) -> bool:
    if type(event) is ToolArgsDeltaEvent or (type(event) is ReasonDeltaEvent and event.media is None):
        return False
    if isinstance(event, ToolCallEndEvent) and len(event.text) > MAX_TEXT:
        return True
    return any(len(part.data) > MAX_MEDIA for part in _media(event))


def _is_light(event: AgentEvent) -> bool:
    if type(event) is ToolArgsDeltaEvent or (type(event) is ReasonDeltaEvent and event.media is None):
        return False
    return bool(isinstance(event, ToolCallEndEvent) and event.ref) or any(part.ref for part in _media(event))


def _media(event: AgentEvent) -> Iterable[MediaPart]:
    match event:
        case ReasonDeltaEvent(media=MediaPart() as part):
            yield part
        case ToolCallEndEvent(media=media):
            yield from media
        case ReasonEndEvent(message=message):
            yield from message.media
        case RunEndEvent(response=response) if response.message is not None:
            yield from response.message.media
        case RunStartEvent(input=messages) | ReasonStartEvent(input=messages):
            for message in messages:
                yield from _of_message(message)
        case _:
            return


def _of_message(message: Message) -> Iterable[MediaPart]:
    match message:
        case UserMessage(parts=parts) | AssistantMessage(parts=parts):
            for part in parts:
                if isinstance(part, MediaPart):
                    yield part
        case ToolMessage(media=media):
            yield from media
        case _:
            return


async def _change(event: AgentEvent, part: OfMedia, result: OfResult) -> AgentEvent:
    """The event with every media part, and a tool's result, changed."""
    replace = msgspec.structs.replace
    match event:
        case ReasonDeltaEvent(media=MediaPart() as media):
            return replace(event, media=await part(media))
        case ToolCallEndEvent(media=media):
            return await result(replace(event, media=await _parts(media, part)))
        case ReasonEndEvent(message=message):
            return replace(event, message=await _message(message, part))
        case RunEndEvent(response=response) if response.message is not None:
            return replace(event, response=replace(response, message=await _message(response.message, part)))
        case RunStartEvent(input=messages) | ReasonStartEvent(input=messages):
            return replace(event, input=tuple([await _message(message, part) for message in messages]))
        case _:
            return event


async def _message(message: Message, part: OfMedia) -> Message:
    match message:
        case UserMessage(parts=parts) | AssistantMessage(parts=parts):
            return msgspec.structs.replace(message, parts=await _parts(parts, part))
        case ToolMessage(media=media):
            return msgspec.structs.replace(message, media=await _parts(media, part))
        case _:
            return message


async def _parts(parts: Iterable[object], part: OfMedia) -> tuple[object, ...]:
    return tuple([await part(one) if isinstance(one, MediaPart) else one for one in parts])
