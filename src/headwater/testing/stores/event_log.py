"""What every event log does."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any, cast

import pytest

from headwater.errors import Fenced, StoreError
from headwater.events import AgentEvent, Outcome
from headwater.store import EventLog, SessionStore
from headwater.testing.stores.making import MakeStore
from headwater.testing.stores.samples import collect, delta, deltas, end, numbers, run, start


class EventLogSuite:
    """What an `EventLog` does."""

    def test_a_store_is_both_protocols(self, make_store: MakeStore) -> None:
        store = make_store()
        assert isinstance(store, SessionStore)
        assert isinstance(store, EventLog)

    def test_what_was_appended_is_read_back_equal_and_in_order(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            epoch = await store.open_epoch("r1")
            written = [start(1), *deltas(2, 9), end(10)]
            assert (await store.append("r1", written[:4], epoch=epoch, step="run", wseq=1)).last_seq == 4
            assert (await store.append("r1", written[4:], epoch=epoch, step="run", wseq=2)).last_seq == 10
            assert await store.read("r1") == written
            assert await store.read("r1", after=4) == written[4:]
            assert await store.read("r1", after=4, limit=2) == written[4:6]
            assert await store.read("r1", after=10) == []
            assert await store.read("r1", limit=0) == []
            assert await store.read("nobody") == []
            await store.aclose()

        run(main())

    def test_epochs_count_up_and_fence_older_writers(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            first = await store.open_epoch("r1")
            await store.append("r1", [start(1)], epoch=first, step="run", wseq=1)
            second = await store.open_epoch("r1")
            assert (first, second) == (1, 2)
            assert await store.open_epoch("r2") == 1
            with pytest.raises(Fenced):
                await store.append("r1", [delta(2)], epoch=first, step="run", wseq=2)
            with pytest.raises(Fenced):
                await store.append("r1", [start(1)], epoch=first, step="run", wseq=1)
            with pytest.raises(Fenced):
                await store.append("r1", [], epoch=first, step="run", wseq=2)
            assert (await store.append("r1", [delta(2)], epoch=second, step="run", wseq=1)).last_seq == 2
            assert numbers(await store.read("r1")) == [1, 2]
            await store.aclose()

        run(main())

    def test_a_log_is_taken_over_only_where_it_was_read_to_its_end(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            assert await store.open_epoch("r1", after=0) == 1
            await store.append("r1", [start(1), delta(2)], epoch=1, step="run", wseq=1)
            for wrong in (0, 1, 3):
                with pytest.raises(Fenced):
                    await store.open_epoch("r1", after=wrong)
            # Whoever was refused has fenced nobody.
            await store.append("r1", [delta(3)], epoch=1, step="run", wseq=2)
            assert await store.open_epoch("r1", after=3) == 2
            with pytest.raises(Fenced):
                await store.append("r1", [delta(4)], epoch=1, step="run", wseq=3)
            with pytest.raises(Fenced):
                await store.open_epoch("nobody", after=1)
            assert await store.read("nobody") == []
            await store.aclose()

        run(main())

    def test_a_newer_attempt_of_a_step_fences_the_older_one_only(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            epoch = await store.open_epoch("r1")
            await store.append("r1", [start(1)], epoch=epoch, step="a", attempt=1, wseq=1)
            await store.append("r1", [delta(2)], epoch=epoch, step="b", attempt=1, wseq=1)
            await store.append("r1", [delta(3)], epoch=epoch, step="a", attempt=2, wseq=1)
            with pytest.raises(Fenced):
                await store.append("r1", [delta(4)], epoch=epoch, step="a", attempt=1, wseq=2)
            assert (await store.append("r1", [delta(4)], epoch=epoch, step="b", attempt=1, wseq=2)).last_seq == 4
            await store.aclose()

        run(main())

    def test_an_append_that_is_repeated_changes_nothing_and_answers_the_same(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            epoch = await store.open_epoch("r1")
            assert (await store.append("r1", [start(1)], epoch=epoch, step="run", wseq=1)).last_seq == 1
            assert (await store.append("r1", deltas(2, 3), epoch=epoch, step="run", wseq=2)).last_seq == 3
            assert (await store.append("r1", deltas(4, 4), epoch=epoch, step="run", wseq=3)).last_seq == 4
            assert (await store.append("r1", deltas(2, 3), epoch=epoch, step="run", wseq=2)).last_seq == 3
            assert (await store.append("r1", deltas(4, 4), epoch=epoch, step="run", wseq=3)).last_seq == 4
            assert numbers(await store.read("r1")) == [1, 2, 3, 4]
            with pytest.raises(StoreError):
                await store.append("r1", deltas(5, 6), epoch=epoch, step="run", wseq=3)
            await store.aclose()

        run(main())

    def test_an_empty_append_only_checks_the_fence(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            epoch = await store.open_epoch("r1")
            assert (await store.append("r1", [], epoch=epoch, step="run", wseq=1)).last_seq == 0
            assert (await store.append("r1", [start(1)], epoch=epoch, step="run", wseq=1)).last_seq == 1
            assert (await store.append("r1", [], epoch=epoch, step="run", wseq=2)).last_seq == 1
            assert (await store.append("r1", [delta(2)], epoch=epoch, step="run", wseq=2)).last_seq == 2
            await store.aclose()

        run(main())

    @pytest.mark.parametrize(
        ("events", "wseq"),
        [
            ([delta(3)], 2),
            ([delta(1)], 2),
            ([delta(2), delta(4)], 2),
            ([delta(2), delta(2)], 2),
            ([delta(5, first_seq=3)], 2),
            ([delta(2, first_seq=3)], 2),
            ([delta(2)], 3),
            ([delta(2)], 0),
        ],
    )
    def test_a_gap_is_refused_and_nothing_of_the_append_is_kept(
        self, make_store: MakeStore, events: list[AgentEvent], wseq: int
    ) -> None:
        async def main() -> None:
            store = make_store()
            epoch = await store.open_epoch("r1")
            await store.append("r1", [start(1)], epoch=epoch, step="run", wseq=1)
            with pytest.raises(StoreError) as caught:
                await store.append("r1", events, epoch=epoch, step="run", wseq=wseq)
            assert type(caught.value) is StoreError
            assert numbers(await store.read("r1")) == [1]
            assert (await store.append("r1", [delta(2)], epoch=epoch, step="run", wseq=2)).last_seq == 2
            await store.aclose()

        run(main())

    def test_a_merged_delta_covers_its_range(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            epoch = await store.open_epoch("r1")
            merged = [start(1), delta(7, "long", first_seq=2), delta(8)]
            assert (await store.append("r1", merged, epoch=epoch, step="run", wseq=1)).last_seq == 8
            assert await store.read("r1") == merged
            assert numbers(await store.read("r1", after=7)) == [8]
            await store.aclose()

        run(main())

    def test_an_epoch_that_was_never_opened_is_an_error(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            with pytest.raises(StoreError):
                await store.append("r1", [start(1)], epoch=1, step="run", wseq=1)
            await store.open_epoch("r1")
            with pytest.raises(StoreError):
                await store.append("r1", [start(1)], epoch=2, step="run", wseq=1)
            assert await store.runs() == []
            await store.aclose()

        run(main())

    def test_runs_are_listed_oldest_first_and_by_session(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            for run_id, session_id in [("r2", "s1"), ("r1", "s2"), ("r3", "s1")]:
                epoch = await store.open_epoch(run_id)
                await store.append(run_id, [start(1, run_id, session_id)], epoch=epoch, step="run", wseq=1)
            assert await store.runs() == ["r2", "r1", "r3"]
            assert await store.runs("s1") == ["r2", "r3"]
            assert await store.runs("nobody") == []
            await store.aclose()

        run(main())

    def test_tail_gives_what_is_there_and_then_what_comes_up_to_the_end(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            epoch = await store.open_epoch("r1")
            await store.append("r1", [start(1), delta(2)], epoch=epoch, step="run", wseq=1)
            got: list[int] = []
            async with asyncio.timeout(10):
                async for event in store.tail("r1", after=1):
                    got.append(event.seq)
                    # The next one is written only when this one was read: nothing is held back.
                    if event.seq < 600:
                        await store.append("r1", [delta(event.seq + 1)], epoch=epoch, step="run", wseq=event.seq)
                    elif event.seq == 600:
                        await store.append("r1", [end(601)], epoch=epoch, step="run", wseq=600)
            assert got == list(range(2, 602))
            assert numbers(await collect(store.tail("r1", after=598))) == [599, 600, 601]
            assert await collect(store.tail("r1", after=601)) == []
            await store.aclose()

        run(main())

    def test_tail_waits_for_a_run_that_has_not_begun(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            reader = asyncio.create_task(collect(store.tail("r1")))
            epoch = await store.open_epoch("r1")
            assert not reader.done()
            await store.append("r1", [start(1), end(2)], epoch=epoch, step="run", wseq=1)
            assert numbers(await reader) == [1, 2]
            await store.aclose()

        run(main())

    def test_tail_goes_on_over_a_resumption_and_ends_at_the_last_run_end(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            epoch = await store.open_epoch("r1")
            await store.append("r1", [start(1), end(2, outcome=Outcome.SUSPENDED)], epoch=epoch, step="run", wseq=1)
            assert numbers(await collect(store.tail("r1"))) == [1, 2]
            epoch = await store.open_epoch("r1")
            await store.append("r1", [start(3)], epoch=epoch, step="run", wseq=1)
            reader = asyncio.create_task(collect(store.tail("r1")))
            await store.append("r1", [end(4)], epoch=epoch, step="run", wseq=2)
            assert numbers(await reader) == [1, 2, 3, 4]
            await store.aclose()

        run(main())

    def test_the_end_of_a_child_run_does_not_end_the_tail(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            epoch = await store.open_epoch("r1")
            await store.append("r1", [start(1), end(2, run_id="child")], epoch=epoch, step="run", wseq=1)
            async with aclosing(cast("Any", store.tail("r1"))) as tail:
                assert [(await anext(tail)).seq, (await anext(tail)).seq] == [1, 2]
                waiting = asyncio.ensure_future(anext(tail))
                await store.append("r1", [end(3)], epoch=epoch, step="run", wseq=2)
                assert (await waiting).seq == 3
                with pytest.raises(StopAsyncIteration):
                    await anext(tail)
            await store.aclose()

        run(main())

    def test_many_readers_each_get_every_event_once(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            readers = [asyncio.create_task(collect(store.tail("r1", after=n))) for n in range(8)]
            epoch = await store.open_epoch("r1")
            await store.append("r1", [start(1)], epoch=epoch, step="run", wseq=1)
            for n in range(50):
                await store.append("r1", deltas(2 + 10 * n, 11 + 10 * n), epoch=epoch, step="run", wseq=2 + n)
            await store.append("r1", [end(502)], epoch=epoch, step="run", wseq=52)
            for n, got in enumerate(await asyncio.gather(*readers)):
                assert numbers(got) == list(range(1 + n, 503))
            await store.aclose()

        run(main())

    def test_a_tail_that_is_cancelled_leaves_no_task_behind(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            before = asyncio.all_tasks()
            reader = asyncio.create_task(collect(store.tail("r1")))
            await store.open_epoch("r1")
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
            assert asyncio.all_tasks() == before
            await store.aclose()

        run(main())

    def test_a_store_serves_several_event_loops_at_once(self, make_store: MakeStore) -> None:
        store = make_store()

        async def write() -> None:
            epoch = await store.open_epoch("r1")
            await store.append("r1", [start(1)], epoch=epoch, step="run", wseq=1)
            for seq in range(2, 40):
                await store.append("r1", [delta(seq)], epoch=epoch, step="run", wseq=seq)
            await store.append("r1", [end(40)], epoch=epoch, step="run", wseq=40)

        async def both() -> tuple[list[AgentEvent], None]:
            # The writer runs on a loop of its own, in a thread.
            return await asyncio.gather(collect(store.tail("r1")), asyncio.to_thread(run, write()))

        got, _ = run(both())
        assert numbers(got) == list(range(1, 41))
        run(store.aclose())

    def test_closing_twice_is_allowed(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            await store.open_epoch("r1")
            await store.aclose()
            await store.aclose()

        run(main())
