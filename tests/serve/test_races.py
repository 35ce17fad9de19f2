"""What happens between two looks at a run is not missed."""

from __future__ import annotations

import asyncio

import headwater as hw
from headwater.serve.feed import Cursor, Feeds
from headwater.store import MemoryStore, Retention, RunInfo
from headwater.testing import ScriptedModel, call
from tests.serve.support import transfer
from tests.serve.test_streams import long_work


class Late(MemoryStore):
    """A store in which a run goes on just before anybody is told how it stands."""

    agent: hw.ReActAgent | None = None

    async def run_info(self, run_id: str) -> RunInfo | None:
        agent, self.agent = self.agent, None
        if agent is not None:
            await agent.resume_async([hw.Approve("r1c1")], run_id=run_id)
        return await super().run_info(run_id)


def test_a_reader_at_the_end_of_a_segment_sees_the_next_one_whenever_it_comes() -> None:
    async def main() -> None:
        store = Late()
        model = ScriptedModel([[call("transfer", {"to": "b"})], "Sent."])
        agent = hw.ReActAgent(model=model, tools=[transfer], store=store)
        end = (await agent.call_async("Pay.")).run_id
        last = (await store.read(end))[-1].seq
        cursor = Cursor(Feeds(store), end, last, "run")
        store.agent = agent  # it goes on between the reader's look at the log and that at the run's state
        seen: list[hw.AgentEvent] = []
        while not cursor.is_over:
            seen += [item.event for item in await cursor.next(5)]
        cursor.close()
        assert seen == await store.read(end, last)
        assert isinstance(seen[-1], hw.RunEndEvent)
        assert seen[-1].response.text == "Sent."

    asyncio.run(asyncio.wait_for(main(), 20))


class Behind(MemoryStore):
    """A store that has nothing new for its first reader, and then has compacted what that reader has had."""

    is_first = True

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[hw.AgentEvent]:
        if after and self.is_first:
            self.is_first = False
            return []
        return await super().read(run_id, after, limit)


def test_a_reader_whose_place_is_compacted_while_it_waits_gets_a_snapshot_on_the_same_connection() -> None:
    async def main() -> None:
        store = Behind(retention=Retention(max_events=60))
        model = ScriptedModel([[call("long_work")], "Done."])
        run_id = (await hw.ReActAgent(model=model, tools=[long_work], store=store).call_async("Go.")).run_id
        info = await store.run_info(run_id)
        assert info is not None
        assert info.compacted > 1
        cursor = Cursor(Feeds(store), run_id, 1, "run")
        items = await cursor.next(5)
        assert cursor.snapshot_at == info.last_seq
        assert tuple(item.event for item in items) == (await store.snapshot(run_id)).events
        assert await cursor.next(5) == ()
        assert cursor.is_over
        cursor.close()

    asyncio.run(asyncio.wait_for(main(), 20))
