"""What only the store in memory does."""

from __future__ import annotations

import asyncio

from headwater.events import Outcome
from headwater.store import MemoryStore
from headwater.testing.stores.samples import collect, end, numbers, run, start


def test_logs_of_old_finished_runs_are_dropped_but_not_of_those_that_wait_or_are_read() -> None:
    async def log(store: MemoryStore, run_id: str, outcome: Outcome | None) -> None:
        epoch = await store.open_epoch(run_id)
        await store.append(run_id, [start(1, run_id)], epoch=epoch, step="run", wseq=1)
        if outcome is not None:
            await store.append(run_id, [end(2, run_id, outcome)], epoch=epoch, step="run", wseq=2)

    async def main() -> None:
        store = MemoryStore(max_runs=2)
        await log(store, "running", None)
        await log(store, "suspended", Outcome.SUSPENDED)
        tail = store.tail("read")
        reading = asyncio.ensure_future(anext(tail))
        await log(store, "read", Outcome.COMPLETED)
        assert (await reading).seq == 1
        for n in range(5):
            await log(store, f"done {n}", Outcome.COMPLETED)
        assert await store.runs() == ["running", "suspended", "read", "done 4"]
        assert numbers(await collect(tail)) == [2]
        await log(store, "done 5", Outcome.FAILED)
        assert await store.runs() == ["running", "suspended", "done 4", "done 5"]

    run(main())


def test_all_logs_are_kept_on_request() -> None:
    async def main() -> None:
        store = MemoryStore(max_runs=None)
        for n in range(200):
            epoch = await store.open_epoch(f"r{n}")
            await store.append(f"r{n}", [start(1), end(2, f"r{n}")], epoch=epoch, step="run", wseq=1)
        assert len(await store.runs()) == 200

    run(main())
