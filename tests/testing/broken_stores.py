"""Stores that break one rule each, and otherwise do what they should."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec

from headwater.errors import Compacted, StoreError, VersionConflict
from headwater.events import AgentEvent, RunEndEvent
from headwater.messages import Message
from headwater.store import (
    Appended,
    Blob,
    MemoryStore,
    Retention,
    RunInfo,
    SessionData,
    Snapshot,
    Swept,
)


class TakesAnyVersion(MemoryStore):
    async def commit(self, session_id: str, expected_version: int, **more: Any) -> int:
        return await super().commit(session_id, (await self.load(session_id)).version, **more)


class KeepsOnlyOneVersionConflictAtATime(MemoryStore):
    """Tests the version, and lets others in before it writes."""

    async def commit(self, session_id: str, expected_version: int, **more: Any) -> int:
        import asyncio

        version = (await self.load(session_id)).version
        if version != expected_version:
            raise VersionConflict("no")
        await asyncio.sleep(0)
        return await super().commit(session_id, (await self.load(session_id)).version, **more)


class SharesData(MemoryStore):
    """Gives out, and takes in, the caller's own objects."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.shared: dict[str, dict[str, Any]] = {}

    async def commit(
        self,
        session_id: str,
        expected_version: int,
        *,
        append: Sequence[Message] = (),
        data: dict[str, Any] | None = None,
    ) -> int:
        version = await super().commit(session_id, expected_version, append=append, data=data)
        if data is not None:
            self.shared[session_id] = data
        return version

    async def load(self, session_id: str) -> SessionData:
        loaded = await super().load(session_id)
        return msgspec.structs.replace(loaded, data=self.shared.get(session_id, {}))


class ForgetsMessages(MemoryStore):
    async def commit(self, session_id: str, expected_version: int, **more: Any) -> int:
        if expected_version:
            more["append"] = ()
        return await super().commit(session_id, expected_version, **more)


class ListsSessionsAtRandom(MemoryStore):
    async def sessions(self) -> list[str]:
        return sorted(await super().sessions())


class AppendsTwice(MemoryStore):
    """Takes a repeated append for a mistake."""

    async def append(self, run_id: str, events: Sequence[AgentEvent], **writer: Any) -> Appended:
        if events and (await self.snapshot(run_id)).seq >= events[0].seq:
            raise StoreError("I have that")
        return await super().append(run_id, events, **writer)


class FencesNobody(MemoryStore):
    async def append(self, run_id: str, events: Sequence[AgentEvent], *, epoch: int, **writer: Any) -> Appended:
        log = self._logs.get(run_id)
        return await super().append(run_id, events, epoch=log.epoch if log else epoch, **writer)


class FencesNoAttempt(MemoryStore):
    async def append(
        self, run_id: str, events: Sequence[AgentEvent], *, step: str, attempt: int = 1, **writer: Any
    ) -> Appended:
        return await super().append(run_id, events, step=f"{step}#{attempt}", attempt=1, **writer)


class TakesOverBlindly(MemoryStore):
    async def open_epoch(self, run_id: str, *, after: int | None = None) -> int:
        return await super().open_epoch(run_id)


class WritesHalf(MemoryStore):
    """Where an append is refused, its first event may be there."""

    async def append(self, run_id: str, events: Sequence[AgentEvent], **writer: Any) -> Appended:
        try:
            return await super().append(run_id, events, **writer)
        except StoreError:
            last = (await self.snapshot(run_id)).seq
            if events and events[0].seq == last + 1:
                await super().append(run_id, events[:1], **writer)
            raise


class ReadsBackwards(MemoryStore):
    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[AgentEvent]:
        events = await super().read(run_id, after)
        return events if limit is None else events[-limit:]


class RepeatsJoinedText(MemoryStore):
    """A cursor inside a joined delta gets all of it."""

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[AgentEvent]:
        log = self._logs.get(run_id)
        events = [e for e in (log.events if log else []) if e.seq > after]
        await super().read(run_id, after, limit)
        return events[:limit]


class HidesGaps(MemoryStore):
    """A cursor that is too old gets what is left, and is not told."""

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[AgentEvent]:
        try:
            return await super().read(run_id, after, limit)
        except Compacted:
            return [e for e in self._logs[run_id].events if e.seq > after][:limit]


class LosesTextInMerging(MemoryStore):
    async def merge(self, run_id: str, upto: int | None = None) -> int:
        count = await super().merge(run_id, upto)
        log = self._logs.get(run_id)
        for at, event in enumerate(log.events if log else []):
            if getattr(event, "first_seq", None) and len(getattr(event, "text", "")) > 2:
                assert log is not None
                log.events[at] = msgspec.structs.replace(event, text=getattr(event, "text", "")[1:])  # type: ignore[call-arg]
        return count


class GrowsWithoutBound(MemoryStore):
    def __init__(self, *, retention: Retention | None = None) -> None:
        super().__init__()


class EndsAtAnyEnd(MemoryStore):
    """A tail ends with the first `run.end`, whoever's it is."""

    def tail(self, run_id: str, after: int = 0) -> AsyncIterator[AgentEvent]:
        inner = super().tail(run_id, after)

        async def cut() -> AsyncIterator[AgentEvent]:
            async for event in inner:
                yield event
                if isinstance(event, RunEndEvent):
                    return

        return cut()


class EndsBeforeItBegins(MemoryStore):
    """A tail of a run that has not begun is empty."""

    def tail(self, run_id: str, after: int = 0) -> AsyncIterator[AgentEvent]:
        inner = super().tail(run_id, after)

        async def impatient() -> AsyncIterator[AgentEvent]:
            if await self.run_info(run_id) is not None:
                async for event in inner:
                    yield event

        return impatient()


class HalfSnapshots(MemoryStore):
    async def snapshot(self, run_id: str) -> Snapshot:
        snapshot = await super().snapshot(run_id)
        return msgspec.structs.replace(snapshot, events=snapshot.events[1:])


class ForgetsCancels(MemoryStore):
    async def append(self, run_id: str, events: Sequence[AgentEvent], **writer: Any) -> Appended:
        return Appended((await super().append(run_id, events, **writer)).last_seq)


class RefusesTheCancelled(MemoryStore):
    async def append(self, run_id: str, events: Sequence[AgentEvent], **writer: Any) -> Appended:
        info = await self.run_info(run_id)
        if info is not None and info.cancel:
            raise StoreError("It was cancelled")
        return await super().append(run_id, events, **writer)


class TheLastReasonStays(MemoryStore):
    async def request_cancel(self, run_id: str, reason: str) -> bool:
        log = self._logs.get(run_id)
        if log is not None:
            log.cancel = None
        return await super().request_cancel(run_id, reason)


class TellsWatchersAgain(MemoryStore):
    async def request_cancel(self, run_id: str, reason: str) -> bool:
        found = await super().request_cancel(run_id, reason)
        for tell in self.told.get(run_id, []):
            tell(reason)
        return found

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.told: dict[str, list[Callable[[str], None]]] = {}

    def watch_cancel(self, run_id: str, tell: Callable[[str], None]) -> Callable[[], None]:
        self.told.setdefault(run_id, []).append(tell)
        return super().watch_cancel(run_id, tell)


class SweepsWhatGoesOn(MemoryStore):
    async def sweep(self, now: float) -> Swept:
        swept = await super().sweep(now)
        if self.retention.keep is None:
            return swept
        more = [run_id for run_id in await self.runs() if await self.delete_run(run_id)]
        return Swept((*swept.deleted, *more), swept.merged)


class SweepsNothing(MemoryStore):
    async def sweep(self, now: float) -> Swept:
        return Swept()


class OldestFirst(MemoryStore):
    async def run_infos(
        self, session_id: str | None = None, *, before: str | None = None, limit: int = 50
    ) -> list[RunInfo]:
        return list(reversed(await super().run_infos(session_id, before=before, limit=limit)))


class OneBlobForAll(MemoryStore):
    """Who has the name has the blob, whatever run it belongs to."""

    async def get_blob(self, run_id: str, ref: str) -> Blob | None:
        for other in await self.runs():
            if (found := await super().get_blob(other, ref)) is not None:
                return found
        return None


class KeepsWhatIsDeleted(MemoryStore):
    async def delete_run(self, run_id: str) -> bool:
        return await self.run_info(run_id) is not None


BROKEN: list[type[MemoryStore]] = [
    cls
    for cls in list(globals().values())
    if isinstance(cls, type) and issubclass(cls, MemoryStore) and cls is not MemoryStore
]
