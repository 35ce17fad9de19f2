"""What happens between two looks at a run is not missed."""

from __future__ import annotations

import asyncio

import headwater as hw
from headwater.serve.feed import Cursor, Feeds
from headwater.store import MemoryStore, RunInfo
from headwater.testing import ScriptedModel, call
from tests.serve.support import transfer


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
