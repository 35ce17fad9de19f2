"""What readers of a queue get: each event once, an end or a failure that says what is missing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

import headwater as hw
from headwater.errors import Compacted, QueueError, StreamBroken, UsageError
from headwater.events import AgentEvent, encode_event
from headwater.queues import Entry, Keep, Queue, publish, read_stream
from headwater.store import MemoryStore
from headwater.testing import ScriptedModel, say
from headwater.testing.stores.samples import delta, deltas, end, start
from tests.queues.conftest import OpenQueue
from tests.queues.support import (
    AT_ONCE,
    Faults,
    MemoryQueue,
    events_and_error,
    events_of,
    meteorologist,
    numbers_of,
    reader,
    run,
)


def entries(events: Sequence[AgentEvent], after: int = 0) -> list[Entry]:
    out: list[Entry] = []
    for event in events:
        out.append(Entry("r1", event.seq, after, encode_event(event)))
        after = event.seq
    return out


class Unordered(MemoryQueue):
    """A queue that delivers pages as it is told to, as one that delivers at least once may."""

    def __init__(self, *pages: list[Entry]) -> None:
        super().__init__()
        self.pages = pages

    async def read(self, run_id: str, after: int):  # pyright: ignore[reportIncompatibleMethodOverride, reportUnknownParameterType] a test's
        for page in self.pages:
            yield page
        await asyncio.Event().wait()


def test_a_stream_without_an_end_is_a_failure_that_says_how_to_go_on(open_queue: OpenQueue) -> None:
    async def main() -> None:
        async with open_queue() as queue:
            await queue.append("r1", 0, entries([start(1), *deltas(2, 4)]))
            stream = reader(queue, "r1", idle_timeout=0.3)
            seen, raised = await events_and_error(stream)
            assert isinstance(raised, StreamBroken)
            assert (raised.code, raised.retryable) == ("no_end", True)
            assert "ends with 4 and has no end" in str(raised)
            assert "after=4" in str(raised)
            assert numbers_of(seen) == [1, 2, 3, 4]
            # Somebody publishes the rest, and the same reader goes on.
            await queue.append("r1", 4, entries([delta(5), end(6)], after=4))
            assert numbers_of(await events_of(stream)) == [5, 6]

    run(main())


def test_a_run_that_was_never_published_is_a_failure_too(open_queue: OpenQueue) -> None:
    async def main() -> None:
        async with open_queue() as queue:
            with pytest.raises(StreamBroken, match="is not there"):
                await anext(reader(queue, "r1", idle_timeout=0.3))

    run(main())


def test_a_reader_that_waits_gets_what_is_published_later(open_queue: OpenQueue) -> None:
    async def main() -> None:
        async with open_queue() as queue, open_queue() as other:
            waiting = asyncio.create_task(events_of(reader(other, "r1")))
            await asyncio.sleep(0)
            await queue.append("r1", 0, entries([start(1)]))
            await queue.append("r1", 1, entries([delta(2), end(3)], after=1))
            assert numbers_of(await waiting) == [1, 2, 3]

    run(main())


def test_reading_goes_on_from_any_number(open_queue: OpenQueue) -> None:
    async def main() -> None:
        agent = meteorologist(store=MemoryStore())
        run_id = (await agent.call_async("Weather?")).run_id
        logged = await agent.store.read(run_id)
        async with open_queue() as queue:
            await publish(agent.attach(run_id), queue=queue)
            for at in range(0, len(logged), 5):
                assert await events_of(reader(queue, run_id, after=logged[at].seq)) == logged[at + 1 :]

    run(main())


def test_many_readers_read_side_by_side(open_queue: OpenQueue) -> None:
    async def main() -> None:
        agent = meteorologist(store=MemoryStore())
        run_id = agent.start("Weather?")
        async with open_queue() as queue:
            readers = [asyncio.create_task(events_of(reader(queue, run_id))) for _ in range(10)]
            await publish(agent.attach(run_id), queue=queue)
            logged = await agent.store.read(run_id)
            assert await asyncio.gather(*readers) == [logged] * 10

    run(main())


@pytest.mark.parametrize("kept", [50, 1])
def test_what_is_not_kept_any_more_is_a_gap_that_readers_are_told_of(real_queue: OpenQueue, kept: int) -> None:
    async def main() -> None:
        events = [start(1), *deltas(2, 999), end(1000)]
        async with real_queue(Keep(events=kept)) as queue:
            at = 0
            for n in range(0, 1000, 100):
                at = await queue.append("r1", at, entries(events[n : n + 100], at))
            assert at == 1000
            with pytest.raises(StreamBroken, match="not kept any more") as caught:
                await anext(reader(queue, "r1"))
            assert caught.value.code == "gap"
            assert numbers_of(await events_of(reader(queue, "r1", after=999))) == [1000]
            # What is not kept is not put there again.
            assert await queue.append("r1", 0, entries(events[:3])) == 1000

    run(main())


def test_what_came_before_a_gap_is_read_before_it_is_told_of() -> None:
    async def main() -> None:
        queue = Unordered([*entries([start(1), delta(2)]), *entries([delta(7)], after=6)])
        stream = reader(queue, "r1")
        assert numbers_of([await anext(stream), await anext(stream)]) == [1, 2]
        with pytest.raises(StreamBroken, match="only after 6"):
            await anext(stream)

    run(main())


def test_entries_that_come_twice_are_read_once() -> None:
    async def main() -> None:
        one, two, three, four = entries([start(1), delta(2), delta(3), end(4)])
        queue = Unordered([one, two], [two], [one, two, three], [three, four, four])
        events = await events_of(reader(queue, "r1"))
        assert numbers_of(events) == [1, 2, 3, 4]

    run(main())


def test_a_reader_in_the_middle_of_a_joined_delta_is_told_to_begin_again() -> None:
    async def main() -> None:
        queue = Unordered(entries([start(1), delta(6, "abcde", first_seq=2), end(7)]))
        with pytest.raises(Compacted, match="after=0"):
            await anext(reader(queue, "r1", after=4))

    run(main())


def test_what_is_no_event_is_unreadable() -> None:
    async def main() -> None:
        queue = Unordered([Entry("r1", 1, 0, b'{"type": 1}')])
        with pytest.raises(StreamBroken, match="cannot be read") as caught:
            await anext(reader(queue, "r1"))
        assert caught.value.code == "unreadable"

    run(main())


def test_what_somebody_else_writes_is_told(real_queue: OpenQueue) -> None:
    async def main() -> None:
        async with real_queue() as queue:
            await foreign(queue)
            with pytest.raises(QueueError, match="somebody else writes there"):
                await anext(reader(queue, "r1"))

    run(main())


async def foreign(queue: Queue) -> None:
    """Something that is not headwater's, where a run's events would be."""
    from headwater.queues import NatsQueue, RedisQueue

    if isinstance(queue, RedisQueue):
        await queue._redis.xadd(queue.key("r1"), {"hello": "world"}, id="1-0")
        return
    assert isinstance(queue, NatsQueue)
    await queue.position("r1")
    assert queue._client is not None
    await queue._client.jetstream().publish(queue.subject_of("r1"), b"hello")


def test_a_queue_that_fails_now_and_then_is_read_to_the_end() -> None:
    class Failing(MemoryQueue):
        def __init__(self) -> None:
            super().__init__()
            self.faults = Faults([True, False] * 20)

        async def read(self, run_id: str, after: int):  # pyright: ignore[reportIncompatibleMethodOverride, reportUnknownParameterType] a test's
            self.faults()
            async for page in super().read(run_id, after):
                yield page[:1]
                self.faults()

    async def main() -> None:
        queue = Failing()
        await queue.append("r1", 0, entries([start(1), *deltas(2, 9), end(10)]))
        assert numbers_of(await events_of(reader(queue, "r1", retries=AT_ONCE))) == list(range(1, 11))

    run(main())


def test_a_queue_that_stops_reading_is_tried_again_and_given_up() -> None:
    class Stopping(MemoryQueue):
        tried = 0

        async def read(self, run_id: str, after: int):  # pyright: ignore[reportIncompatibleMethodOverride, reportUnknownParameterType] a test's
            self.tried += 1
            for page in ():
                yield page

    async def main() -> None:
        queue = Stopping()
        with pytest.raises(QueueError, match="stopped reading"):
            await anext(reader(queue, "r1", retries=AT_ONCE))
        assert queue.tried == AT_ONCE.tries

    run(main())


def test_an_event_larger_than_the_server_takes_is_told(nats: object) -> None:
    async def main() -> None:
        from headwater.queues import NatsQueue
        from tests.programs import Server

        assert isinstance(nats, Server)
        agent = hw.SimpleAgent("x", model=ScriptedModel([[say("x" * 2_000_000)]]), store=MemoryStore())
        run_id = (await agent.call_async("Tell.")).run_id
        queue = NatsQueue(nats.url, "large")
        with pytest.raises(QueueError, match="max_payload") as caught:
            await publish(agent.attach(run_id), queue=queue)
        assert caught.value.code == "too_large"
        await queue.aclose()

    run(main())


def test_after_is_a_number_of_an_event() -> None:
    with pytest.raises(UsageError, match="after"):
        read_stream("r1", after=-1, queue=MemoryQueue())
