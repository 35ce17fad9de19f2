"""Whatever a queue does to its publishers: each event is there once, in order, with nothing missing."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.queues import publish
from headwater.store import MemoryStore
from headwater.testing import ScriptedModel, check_events, say
from tests.queues.support import AT_ONCE, Faults, MemoryQueue, events_of, reader, run, text_of

TURNS = st.lists(st.booleans(), max_size=40)


@given(turns=TURNS, cuts=st.lists(st.integers(1, 30), max_size=4), merges=st.lists(st.integers(0, 60), max_size=3))
@settings(max_examples=60)
def test_lost_requests_and_answers_publishers_that_die_and_others_beside_them(
    turns: list[bool], cuts: list[int], merges: list[int]
) -> None:
    story = "abcdefghijklmnopqrstuvwxyz" * 2

    async def main() -> None:
        agent = hw.SimpleAgent("x", model=ScriptedModel([[say(story, cut=1)]]), store=MemoryStore())
        run_id = (await agent.call_async("Tell.")).run_id
        queue = MemoryQueue(Faults(turns))
        ends: list[int] = []

        async def publish_here() -> None:
            ends.append(await publish(agent.attach(run_id), queue=queue, retries=AT_ONCE))

        for steps in cuts:  # publishers that die after so many steps
            dying = asyncio.create_task(publish_here())
            for _ in range(steps):
                await asyncio.sleep(0)
            dying.cancel()
            await asyncio.wait([dying])
        together = [asyncio.create_task(publish_here()) for _ in range(3)]
        for upto in merges:
            await asyncio.sleep(0)
            await agent.store.merge(run_id, upto)
        await asyncio.gather(*together)
        assert len(set(ends)) == 1
        events = await events_of(reader(queue, run_id))
        check_events(events)
        assert text_of(events) == story
        after = [entry.after for entry in queue.entries[run_id]]
        assert after == [0, *(entry.seq for entry in queue.entries[run_id])][: len(after)]

    run(main())


@given(turns=TURNS)
@settings(max_examples=30)
def test_lost_requests_and_answers_while_a_run_without_a_log_goes_on(turns: list[bool]) -> None:
    async def main() -> None:
        agent = hw.SimpleAgent("x", model=ScriptedModel([[say("Once upon a time.", cut=1)]]))
        queue = MemoryQueue(Faults(turns))
        async with agent.stream("Tell.") as running:
            await publish(running, queue=queue, retries=AT_ONCE)
        events = await events_of(reader(queue, running.run_id))
        check_events(events)
        assert text_of(events) == "Once upon a time."

    run(main())


def test_a_queue_that_has_lost_its_end_gets_it_again() -> None:
    async def main() -> None:
        agent = hw.SimpleAgent("x", model=ScriptedModel([[say("Once upon a time.", cut=1)]]), store=MemoryStore())
        run_id = (await agent.call_async("Tell.")).run_id
        queue = MemoryQueue()
        await publish(agent.attach(run_id), queue=queue)
        del queue.entries[run_id][5:]  # a server that had not written it yet
        await publish(agent.attach(run_id), queue=queue)
        events = await events_of(reader(queue, run_id))
        check_events(events)
        assert text_of(events) == "Once upon a time."

    run(main())
