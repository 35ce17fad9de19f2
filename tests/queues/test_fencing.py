"""What a queue does with a publisher that is behind: it puts nothing there, and says what is."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.events import AgentEvent, encode_event
from headwater.queues import Entry, Keep, Queue
from headwater.testing.stores.samples import delta, deltas, start
from tests.queues.conftest import OpenQueue
from tests.queues.support import run


def entries(events: Sequence[AgentEvent], after: int = 0) -> list[Entry]:
    out: list[Entry] = []
    for event in events:
        out.append(Entry("r1", event.seq, after, encode_event(event)))
        after = event.seq
    return out


async def held(queue: Queue, upto: int) -> list[int]:
    found: list[int] = []
    pages = queue.read("r1", 0)
    async for page in pages:
        found.extend(entry.seq for entry in page)
        if found[-1] >= upto:
            break
    return found


def test_a_publisher_that_is_behind_puts_nothing_there_and_is_told_the_position(open_queue: OpenQueue) -> None:
    async def main() -> None:
        async with open_queue() as one, open_queue() as other:
            assert (await one.position("r1"), await other.position("r1")) == (0, 0)
            first = entries([start(1), *deltas(2, 5)])
            assert await one.append("r1", 0, first) == 5
            # The other one still thinks that nothing is there: the same events, and another shape of them.
            assert await other.append("r1", 0, first) == 5
            assert await one.append("r1", 5, entries(deltas(6, 7), after=5)) == 7
            joined = entries([delta(9, "3 4 5 6 7 8 9 ", first_seq=3)], after=2)
            assert await other.append("r1", 2, joined) == 7
            assert await other.append("r1", 5, entries(deltas(6, 9), after=5)) == 7
            assert await other.append("r1", 7, entries(deltas(8, 8), after=7)) == 8
            assert await one.append("r1", 7, entries([delta(9, "8 9 ", first_seq=8)], after=7)) == 8
            assert await held(one, 8) == list(range(1, 9))

    run(main())


def test_an_append_whose_answer_was_lost_is_made_again_without_effect(open_queue: OpenQueue) -> None:
    async def main() -> None:
        async with open_queue() as before:
            assert await before.append("r1", 0, entries([start(1), *deltas(2, 9)])) == 9
        async with open_queue() as after:  # a client that knows nothing of it
            assert await after.append("r1", 0, entries([start(1), *deltas(2, 9)])) == 9
            assert await after.append("r1", 9, entries(deltas(10, 10), after=9)) == 10
            assert await held(after, 10) == list(range(1, 11))

    run(main())


def test_runs_do_not_see_each_other(open_queue: OpenQueue) -> None:
    async def main() -> None:
        async with open_queue() as queue:
            assert await queue.append("r1", 0, entries([start(1), *deltas(2, 3)])) == 3
            assert await queue.position("r2") == 0
            assert await queue.append("r2", 0, [Entry("r2", 1, 0, encode_event(start(1, "r2")))]) == 1
            assert await queue.position("r1") == 3

    run(main())


def test_what_is_not_kept_any_more_is_remembered(real_queue: OpenQueue) -> None:
    async def main() -> None:
        async with real_queue(Keep(events=1)) as queue:
            for n in range(0, 600, 200):
                assert await queue.append("r1", n, entries(deltas(n + 1, n + 200), after=n)) == n + 200
        async with real_queue(Keep(events=1)) as other:
            assert await other.append("r1", 0, entries(deltas(1, 5))) == 600

    run(main())
