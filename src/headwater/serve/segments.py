"""Segments of a run as what a client names: whether there is one, whether anything came after it, and a reader who has
had a part of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec

from headwater.errors import Compacted
from headwater.events import AgentEvent, ReasonDeltaEvent, RunEndEvent, RunStartEvent, ToolArgsDeltaEvent
from headwater.events.numbers import first_number
from headwater.serve.adapter import Segment, Translator
from headwater.serve.problems import Refused, not_found
from headwater.store.base import Store
from headwater.wire.sse import Frame

PAGE = 256


async def check_segment(store: Store, segment: Segment) -> None:
    """Raises `Refused` (404) if no segment of the run begins there."""
    if segment.after == 0:
        return
    async for event in _events(store, segment.run_id, segment.after):
        if event.seq > segment.after:
            if _is_start(event) and event.seq == segment.after + 1:
                return
            break
    raise not_found("run")


async def session_after(store: Store, session: str, segment: Segment) -> str:
    """The session, if a run may follow this segment there. Raises `Refused` (400) if something else did already."""
    if not session:
        raise Refused(400, "not_kept", "What it belongs to was not kept as a conversation, so nothing can follow it.")
    infos = await store.run_infos(session, limit=1)
    is_last = bool(infos) and infos[0].run_id == segment.run_id
    if is_last:
        async for event in _events(store, segment.run_id, segment.after + 1):
            is_last = is_last and not (_is_start(event) and event.seq > segment.after + 1)
    if not is_last:
        raise Refused(400, "not_last", "The conversation has gone on since: it can be continued at its end only.")
    return session


async def catch_up(store: Store, segment: Segment, upto: int, translator: Translator) -> tuple[list[Frame], int]:
    """Feed a translator the events of a segment up to a number, or to just before the segment's end.

    Returns what it makes of them, and the number after which to read on. Raises `Refused` (410) if the log does not
    tell any more what came after that number and what before.
    """
    frames, after = list(translator.open()), segment.after
    while after < upto:
        try:
            events = await store.read(segment.run_id, after, limit=PAGE)
        except Compacted:
            raise Refused(410, "compacted", "The events are not kept one by one any more: read it whole.") from None
        for event in events:
            if first_number(event) > upto or _is_end(event):
                return frames, after
            part = event if event.seq <= upto else await _beginning(store, event, upto)
            if part is None:
                break  # more was joined to it just now: read it again
            frames += translator.feed(part)
            after = part.seq
        else:
            if len(events) < PAGE:
                break
    return frames, after


async def _beginning(store: Store, event: AgentEvent, upto: int) -> AgentEvent | None:
    """What a joined delta has of the numbers up to `upto`; the store tells what comes after. None if it has changed."""
    [rest] = await store.read(event.origin.root_run_id, upto, limit=1)
    match event, rest:
        case _ if rest.seq != event.seq:
            return None
        case ReasonDeltaEvent(text=text), ReasonDeltaEvent(text=left):
            return msgspec.structs.replace(event, text=text[: len(text) - len(left)], seq=upto)
        case ToolArgsDeltaEvent(args=text), ToolArgsDeltaEvent(args=left):
            return msgspec.structs.replace(event, args=text[: len(text) - len(left)], seq=upto)
        case _:
            return event


async def _events(store: Store, run_id: str, after: int) -> AsyncIterator[AgentEvent]:
    """The events above a number, up to now."""
    while True:
        try:
            events: Sequence[AgentEvent] = await store.read(run_id, after, limit=PAGE)
        except Compacted:
            events = [event for event in (await store.snapshot(run_id)).events if event.seq > after]
        for event in events:
            yield event
        if len(events) < PAGE:
            return
        after = events[-1].seq


def _is_start(event: AgentEvent) -> bool:
    return isinstance(event, RunStartEvent) and event.origin.run_id == event.origin.root_run_id


def _is_end(event: AgentEvent) -> bool:
    return isinstance(event, RunEndEvent) and event.origin.run_id == event.origin.root_run_id
