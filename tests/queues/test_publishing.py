"""What is published: the frames of the run, each once and in order, whoever publishes it and however often."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.agents import attached
from headwater.client import Client
from headwater.errors import Compacted, QueueError, UnknownRun, UsageError
from headwater.events import AgentEvent, encode_event
from headwater.queues import Entry, Retries, publish
from headwater.serve import BackgroundServer, create_app
from headwater.store import MemoryStore, Retention
from headwater.testing import ScriptedModel, call, check_events, fail, say, wait
from tests.queues.conftest import OpenQueue
from tests.queues.support import (
    AT_ONCE,
    MemoryQueue,
    banker,
    events_and_error,
    events_of,
    meteorologist,
    numbers_of,
    reader,
    run,
    text_of,
)


async def entries_of(open_queue: OpenQueue, run_id: str, upto: int) -> list[Entry]:
    """What a queue holds of a run, up to a number."""
    found: list[Entry] = []
    async with open_queue() as queue:
        pages = queue.read(run_id, 0)
        while not found or found[-1].seq < upto:
            found.extend(await anext(pages))
        await pages.aclose()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue] a generator
    return found


def test_the_frames_are_those_of_the_wire_format_in_order_and_once(open_queue: OpenQueue) -> None:
    async def main() -> None:
        agent = meteorologist(store=MemoryStore())
        run_id = agent.start("Weather?")
        async with open_queue() as queue:
            last = await publish(agent.attach(run_id), queue=queue)
        logged = await agent.store.read(run_id)
        assert last == logged[-1].seq
        entries = await entries_of(open_queue, run_id, last)
        assert [entry.data for entry in entries] == [encode_event(event) for event in logged]
        assert [entry.seq for entry in entries] == numbers_of(logged)
        assert [entry.after for entry in entries] == [0, *numbers_of(logged)[:-1]]
        assert {entry.run_id for entry in entries} == {run_id}
        async with open_queue() as queue:
            events = await events_of(reader(queue, run_id))
        check_events(events)
        assert events == logged

    run(main())


def test_events_come_to_readers_while_the_run_goes_on(open_queue: OpenQueue) -> None:
    async def main() -> None:
        gate = asyncio.Event()
        agent = hw.SimpleAgent(
            "x", model=ScriptedModel([[say("Once "), wait(gate), say("upon.")]]), store=MemoryStore()
        )
        run_id = agent.start("Tell.")
        async with open_queue() as queue, open_queue() as other:
            publishing = asyncio.create_task(publish(agent.attach(run_id), queue=queue))
            stream = reader(other, run_id)
            seen: list[AgentEvent] = []
            async for event in stream:
                seen.append(event)
                if text_of(seen) == "Once ":
                    gate.set()  # it would wait for ever if this had not come
            assert text_of(seen) == "Once upon."
            assert await publishing == seen[-1].seq
            check_events(seen)

    run(main())


def test_a_run_that_is_published_again_is_there_once(open_queue: OpenQueue) -> None:
    async def main() -> None:
        agent = meteorologist(store=MemoryStore())
        run_id = agent.start("Weather?")
        ends: list[int] = []
        for _ in range(3):
            async with open_queue() as queue:
                ends.append(await publish(agent.attach(run_id), queue=queue))
        assert len(set(ends)) == 1
        assert len(await entries_of(open_queue, run_id, ends[0])) == len(await agent.store.read(run_id))

    run(main())


def test_publishers_side_by_side_put_each_event_there_once(open_queue: OpenQueue) -> None:
    async def main() -> None:
        gate = asyncio.Event()
        story = [say("abcdefghij" * 20, cut=1), wait(gate), say("klmnop" * 20, cut=1)]
        agent = hw.SimpleAgent("x", model=ScriptedModel([story]), store=MemoryStore())
        run_id = agent.start("Tell.")
        async with open_queue() as a, open_queue() as b, open_queue() as c:
            together = asyncio.gather(*(publish(agent.attach(run_id), queue=queue) for queue in (a, b, c)))
            await agent.store.merge(run_id)  # each may see another shape of the same text
            gate.set()
            ends = await together
        assert len(set(ends)) == 1
        async with open_queue() as queue:
            events = await events_of(reader(queue, run_id))
        check_events(events)
        assert text_of(events) == "abcdefghij" * 20 + "klmnop" * 20

    run(main())


def test_a_publisher_that_begins_again_goes_on_in_the_middle_of_what_the_log_has_joined(open_queue: OpenQueue) -> None:
    async def main() -> None:
        agent = hw.SimpleAgent("x", model=ScriptedModel([[say("Once upon a time.", cut=1)]]), store=MemoryStore())
        run_id = (await agent.call_async("Tell.")).run_id
        logged = await agent.store.read(run_id)
        async with open_queue() as queue:
            first = [Entry(run_id, e.seq, e.seq - 1, encode_event(e)) for e in logged[:9]]
            assert await queue.append(run_id, 0, first) == logged[8].seq  # and it died
        before = len(logged)
        assert await agent.store.merge(run_id) < before
        async with open_queue() as queue:
            await publish(agent.attach(run_id), queue=queue)
            events = await events_of(reader(queue, run_id))
        check_events(events)
        assert text_of(events) == "Once upon a time."
        assert len(events) < before

    run(main())


def test_a_log_that_was_compacted_is_published_as_it_is_kept(open_queue: OpenQueue) -> None:
    @hw.tool
    async def busy(ctx: hw.ToolContext) -> str:
        """Report all the time."""
        for n in range(60):
            ctx.emit_progress(n)
        return "done"

    async def main() -> None:
        store = MemoryStore(retention=Retention(max_events=8))
        model = ScriptedModel([[call("busy")], "Done."])
        agent = hw.ReActAgent(model=model, tools=[busy], store=store)
        run_id = (await agent.call_async("Go.")).run_id
        info = await store.run_info(run_id)
        assert info is not None
        assert info.compacted > 1
        kept = await store.snapshot(run_id)
        async with open_queue() as queue:
            await publish(agent.attach(run_id), queue=queue)
            assert await events_of(reader(queue, run_id)) == list(kept.events)  # numbers that are unused are no gap
        with pytest.raises(Compacted):
            await publish(agent.attach(run_id, after=1), queue=MemoryQueue())

    run(main())


def test_a_run_that_waits_for_a_person_is_published_in_two_goes(open_queue: OpenQueue, tmp_path: Path) -> None:
    async def main() -> None:
        agent = banker(store=tmp_path / "runs.db")
        run_id = agent.start("Pay.", session="s")
        async with open_queue() as queue:
            await publish(agent.attach(run_id), queue=queue)
            first = await events_of(reader(queue, run_id))
            assert isinstance(first[-1], hw.RunEndEvent)
            assert first[-1].outcome == "suspended"
            across = reader(queue, run_id, until="run")
            seen = [await anext(across) for _ in first]
            call_id = (await agent.load_session("s")).pending[0].call_id
            await agent.decide(run_id, [hw.Approve(call_id)])
            last = await publish(agent.attach(run_id), queue=queue)
            seen += await events_of(across)
            assert seen == await agent.store.read(run_id)
            assert seen[-1].seq == last
            check_events(seen)
            # Who comes later reads both segments in one, and who is at the suspension has something to wait for.
            assert await events_of(reader(queue, run_id)) == seen
            assert await events_of(reader(queue, run_id, after=first[-1].seq)) == seen[len(first) :]
        await agent.aclose()

    run(main())


def test_the_failure_of_a_run_is_published_and_raised_to_its_readers(open_queue: OpenQueue) -> None:
    async def main() -> None:
        error = hw.ModelError("broken", kind="provider_error")
        agent = hw.SimpleAgent("x", model=ScriptedModel([[say("Once"), fail(error)]]), store=MemoryStore())
        run_id = agent.start("Tell.")
        async with open_queue() as queue:
            await publish(agent.attach(run_id), queue=queue)
            stream = reader(queue, run_id)
            seen, raised = await events_and_error(stream)
        assert isinstance(raised, hw.ModelError)
        assert str(raised) == "broken"
        assert raised.run_end == stream.end == seen[-1]
        assert raised.run_end is not None
        assert raised.run_end.outcome == "failed"

    run(main())


def test_a_run_without_a_log_is_published_while_its_publisher_drives_it(open_queue: OpenQueue) -> None:
    async def main() -> None:
        async with open_queue() as queue, meteorologist().stream("Weather?") as running:
            last = await publish(running, queue=queue)
            events = await events_of(reader(queue, running.run_id))
        check_events(events)
        assert events[-1].seq == last
        assert text_of(events) == "I will look.It is 4 degrees in Oslo."

    run(main())


def test_the_cancelled_publisher_of_a_run_without_a_log_publishes_its_end(open_queue: OpenQueue) -> None:
    async def main() -> None:
        agent = hw.SimpleAgent("x", model=ScriptedModel([[say("Once "), wait(asyncio.Event())]]))
        async with open_queue() as queue, open_queue() as other, agent.stream("Tell.") as running:
            publishing = asyncio.create_task(publish(running, queue=queue))
            stream = reader(other, running.run_id)
            seen = [await anext(stream)]
            while text_of(seen) != "Once ":
                seen.append(await anext(stream))
            publishing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await publishing
            seen += await events_of(stream)
        check_events(seen)
        assert isinstance(seen[-1], hw.RunEndEvent)
        assert seen[-1].outcome == "cancelled"

    run(main())


def test_a_run_whose_log_may_be_behind_its_reader_is_not_published_from_there() -> None:
    async def main() -> None:
        queue = MemoryQueue()
        async with meteorologist(store=MemoryStore()).stream("Weather?") as running:
            with pytest.raises(UsageError, match=r"agent\.attach"):
                await publish(running, queue=queue)
        assert not queue.entries

    run(main())


def test_only_a_run_with_a_log_has_several_publishers() -> None:
    async def main() -> None:
        queue = MemoryQueue()
        async with meteorologist().stream("Weather?") as running:
            queue.entries[running.run_id] = [Entry(running.run_id, 3, 0, b"{}")]
            with pytest.raises(QueueError, match="another publisher") as caught:
                await publish(running, queue=queue)
        assert caught.value.code == "moved"

    run(main())


def test_a_run_that_nobody_knows_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attached, "APPEARS_IN", 0.05)

    async def main() -> None:
        agent = meteorologist(store=MemoryStore())
        nowhere = agent.attach("run_nowhere")
        with pytest.raises(UnknownRun):
            await publish(nowhere, queue=MemoryQueue())

    run(main())


def test_a_run_of_a_server_is_published_as_its_client_reads_it() -> None:
    async def main(url: str) -> None:
        queue = MemoryQueue()
        async with Client(url) as client:
            run_id = (await client.start("met", "Weather?")).run_id
            given_up = asyncio.create_task(publish(client.events(run_id), queue=queue))
            await asyncio.sleep(0)
            given_up.cancel()
            await asyncio.wait([given_up])
            await publish(client.events(run_id), queue=queue)
            events = [event async for event in client.events(run_id)]
        assert [entry.data for entry in queue.entries[run_id]] == [encode_event(event) for event in events]

    with BackgroundServer(create_app(meteorologist())) as server:
        run(main(server.url))


def test_a_slow_queue_holds_a_run_that_is_driven_back() -> None:
    async def main() -> None:
        room = asyncio.Event()

        class Slow(MemoryQueue):
            async def append(self, run_id: str, after: int, entries: object) -> int:
                await room.wait()
                return await super().append(run_id, after, entries)  # pyright: ignore[reportArgumentType] the same

        said = 0

        class Counting(ScriptedModel):
            async def stream(self, request):  # pyright: ignore[reportMissingParameterType, reportIncompatibleMethodOverride, reportUnknownParameterType] a test's
                nonlocal said
                async for batch in super().stream(request):
                    said += 1
                    yield batch

        agent = hw.SimpleAgent("x", model=Counting([[say("x" * 5000, cut=1)]]), buffer=64)
        queue = Slow()
        async with agent.stream("Tell.") as running:
            publishing = asyncio.create_task(publish(running, queue=queue))
            before = -1
            while said != before or not said:
                before = said
                for _ in range(50):
                    await asyncio.sleep(0)
            assert said < 200  # of 5000
            room.set()
            await publishing
        events = await events_of(reader(queue, running.run_id))
        assert text_of(events) == "x" * 5000

    run(main())


def test_a_publisher_that_is_far_behind_joins_deltas() -> None:
    async def main() -> None:
        agent = hw.SimpleAgent("x", model=ScriptedModel([[say("x" * 5000, cut=1)]]), store=MemoryStore())
        run_id = (await agent.call_async("Tell.")).run_id
        queue = MemoryQueue()
        await publish(agent.attach(run_id), queue=queue)
        assert len(queue.entries[run_id]) < 300  # a page is one entry, but for the last one
        events = await events_of(reader(queue, run_id))
        check_events(events)
        assert text_of(events) == "x" * 5000

    run(main())


def test_a_queue_that_stays_away_is_an_error_after_a_bounded_number_of_tries() -> None:
    async def main() -> None:
        tried = 0

        def down() -> None:
            nonlocal tried
            tried += 1
            raise QueueError("down", code="unreachable", retryable=True)

        agent = meteorologist(store=MemoryStore())
        run_id = (await agent.call_async("Weather?")).run_id
        with pytest.raises(QueueError, match="down"):
            await publish(agent.attach(run_id), queue=MemoryQueue(down), retries=Retries(tries=3, first=0.0))
        assert tried == 3

    run(main())


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1", "nats://127.0.0.1:1"])
def test_a_server_that_is_not_there_is_an_error_that_says_so(url: str) -> None:
    async def main() -> None:
        agent = meteorologist(store=MemoryStore())
        run_id = (await agent.call_async("Weather?")).run_id
        kind = "redis_stream" if url.startswith("redis") else "nats_subject"
        where: dict[str, Any] = {kind: "a", url[: url.index(":")]: url}
        with pytest.raises(QueueError, match=r"connection to (Redis|NATS) failed") as caught:
            await publish(agent.attach(run_id), retries=Retries(tries=2, first=0.0), **where)
        assert caught.value.retryable
        assert caught.value.code == "unreachable"

    run(main())


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ({}, "one queue"),
        ({"redis_stream": "a"}, "For Redis give both"),
        ({"nats": "nats://127.0.0.1"}, "For NATS give both"),
        ({"redis_stream": "a", "redis": "redis://127.0.0.1", "queue": MemoryQueue}, "one queue"),
        ({"redis_stream": "a", "redis": "127.0.0.1:6379"}, "A Redis URL"),
        ({"nats_subject": "a.*", "nats": "nats://127.0.0.1"}, "without wildcards"),
    ],
)
def test_a_queue_that_is_not_named_or_twice_is_a_usage_error(where: dict[str, object], says: str) -> None:
    async def main() -> None:
        given = {name: value() if value is MemoryQueue else value for name, value in where.items()}
        agent = meteorologist(store=MemoryStore())
        with pytest.raises(UsageError, match=says):
            await publish(agent.attach("run_x"), retries=AT_ONCE, **given)  # pyright: ignore[reportArgumentType] wrong on purpose

    run(main())
