"""A log beyond its bounds: it gets smaller, and whoever reads it is told where it is not what it was."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.errors import Compacted
from headwater.events import AgentEvent
from headwater.store import Retention, Store
from headwater.store.joining import MAX_TEXT
from headwater.testing.stores.making import MakeStore
from headwater.testing.stores.samples import collect, delta, deltas, end, numbers, run, start
from headwater.testing.stores.streams import Said, content, events_of


async def write(store: Store, *batches: list[AgentEvent]) -> None:
    epoch = await store.open_epoch("r1")
    for wseq, batch in enumerate(batches, 1):
        await store.append("r1", batch, epoch=epoch, step="run", wseq=wseq)


def in_turns(count: int) -> list[Said]:
    """Two members that talk at the same time: nothing of one member stands side by side."""
    return [("text", f"m{1 + n % 2}", "n1", f"{n} ") for n in range(count)]


class RetentionSuite:
    """What a log does beyond its bounds, and what its readers are told."""

    def test_a_log_that_grows_beyond_its_bound_is_merged_and_no_reader_notices(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store(retention=Retention(max_events=50))
            await write(store, [start(1)], *([delta(seq, f"{seq} ")] for seq in range(2, 1001)))
            events = await store.read("r1")
            assert len(events) <= 60
            for after in range(1, 1000, 37):
                rest = await store.read("r1", after)
                text = "".join(getattr(event, "text", "") for event in rest)
                assert text == "".join(f"{seq} " for seq in range(after + 1, 1001))
            info = await store.run_info("r1")
            assert info is not None
            assert (info.last_seq, info.compacted) == (1000, 0)
            await store.aclose()

        run(main())

    def test_a_log_is_bounded_by_its_bytes_as_well(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store(retention=Retention(max_bytes=100_000))
            await write(store, [start(1)], *(deltas(2 + 100 * n, 101 + 100 * n) for n in range(30)))
            events = await store.read("r1")
            assert len(events) < 1000
            assert events[-1].seq == 3001
            await store.aclose()

        run(main())

    def test_what_cannot_be_merged_is_compacted_and_older_cursors_are_told(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store(retention=Retention(max_events=40))
            log = events_of(1, in_turns(400))
            await write(store, *(log[at : at + 10] for at in range(0, 400, 10)))
            info = await store.run_info("r1")
            assert info is not None
            assert 300 < info.compacted < 400
            snapshot = await store.snapshot("r1")
            assert len(snapshot.events) <= 100
            assert snapshot.seq == 400
            assert content(snapshot.events) == content(log)
            for after in (0, 1, info.compacted - 1):
                with pytest.raises(Compacted) as caught:
                    await store.read("r1", after)
                assert caught.value.kept_after == info.compacted
                with pytest.raises(Compacted):
                    await collect(store.tail("r1", after))
            rest = await store.read("r1", info.compacted)
            assert rest == log[info.compacted :]
            await store.aclose()

        run(main())

    def test_a_reader_that_is_too_slow_is_told_and_goes_on_with_a_snapshot(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store(retention=Retention(max_events=40))
            log = events_of(1, in_turns(400))
            epoch = await store.open_epoch("r1")
            await store.append("r1", log[:300], epoch=epoch, step="run", wseq=1)
            info = await store.run_info("r1")
            assert info is not None
            got: list[AgentEvent] = []

            async def read(after: int) -> None:
                async for event in store.tail("r1", after):
                    got.append(event)
                    if event.seq == after + 1:
                        for wseq, at in enumerate(range(300, 400, 10), 2):
                            await store.append("r1", log[at : at + 10], epoch=epoch, step="run", wseq=wseq)

            with pytest.raises(Compacted):
                await read(info.compacted)
            assert got == log[info.compacted : got[-1].seq]
            snapshot = await store.snapshot("r1")
            await store.append("r1", [end(401)], epoch=epoch, step="run", wseq=12)
            rest = await collect(store.tail("r1", snapshot.seq))
            assert numbers(rest) == [401]
            assert content([*snapshot.events, *rest]) == content([*log, end(401)])
            await store.aclose()

        run(main())

    def test_of_progress_the_last_is_kept_and_what_is_no_delta_always(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store(retention=Retention(max_events=20))
            what: list[Said] = [
                ("progress", "m1", "n1", str(n)) if n % 10 else ("custom", "m1", "n1", str(n)) for n in range(100)
            ]
            log = events_of(1, what)
            await write(store, *(log[at : at + 10] for at in range(0, 100, 10)))
            kept: list[Any] = [event for event in (await store.snapshot("r1")).events if event.type == "custom"]
            assert [event.data for event in kept] == [str(n) for n in range(0, 100, 10)]
            assert len((await store.snapshot("r1")).events) < 50
            assert (await store.snapshot("r1")).events[-1] == log[-1]
            await store.aclose()

        run(main())

    def test_merging_stops_at_its_number_and_at_its_size(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            await write(store, [start(1), *deltas(2, 10), *(delta(seq, "x" * 5000) for seq in range(11, 21)), end(21)])
            assert await store.merge("r1", 5) == 18
            assert numbers(await store.read("r1"))[:3] == [1, 5, 6]
            count = await store.merge("r1")
            events = await store.read("r1")
            assert count == len(events) == (await store.merge("r1"))
            assert all(len(getattr(event, "text", "")) <= MAX_TEXT for event in events)
            assert "".join(getattr(event, "text", "") for event in events) == "2 3 4 5 6 7 8 9 10 " + "x" * 50_000
            assert await store.merge("nobody") == 0
            await store.aclose()

        run(main())

    def test_a_snapshot_of_nothing_is_empty(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            snapshot = await store.snapshot("nobody")
            assert (snapshot.seq, snapshot.events) == (0, ())
            await store.aclose()

        run(main())
