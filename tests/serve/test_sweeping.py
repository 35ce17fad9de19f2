"""Servers keep their store small: at the start and now and then, beside the serving, whatever goes wrong."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from pathlib import Path

import aiohttp
import pytest

import headwater as hw
from headwater.errors import StoreError, UsageError
from headwater.serve import create_app
from headwater.serve.sweeping import swept
from headwater.store import MemoryStore, Retention, SQLiteStore, Swept
from headwater.testing import ScriptedModel, check_events, say
from headwater.testing.stores.samples import deltas, end, run, start
from tests.serve.support import begin, events_in, read, serving, talk


class Watched(MemoryStore):
    """A store that tells of its sweeps; the first `fails` of them fail."""

    def __init__(self, fails: int = 0) -> None:
        super().__init__(retention=Retention(keep=0.0, merge_after=0.0))
        self.times: list[float] = []
        self._fails = fails
        self._more = threading.Condition()

    async def sweep(self, now: float) -> Swept:
        try:
            if len(self.times) < self._fails:
                raise StoreError("the disk is full")
            return await super().sweep(now)
        finally:
            with self._more:
                self.times.append(now)
                self._more.notify_all()

    def wait_for(self, count: int) -> None:
        with self._more:
            assert self._more.wait_for(lambda: len(self.times) >= count, 20)


def agent(store: MemoryStore | SQLiteStore) -> hw.SimpleAgent:
    return hw.SimpleAgent("teller", model=ScriptedModel([[say("Once upon a time.", cut=1)]] * 50), store=store)


async def finished(store: MemoryStore | SQLiteStore, run_id: str = "r1") -> None:
    epoch = await store.open_epoch(run_id)
    events = [start(1, run_id), *deltas(2, 20, run_id), end(21, run_id)]
    await store.append(run_id, events, epoch=epoch, step="run", wseq=1)


def test_a_server_sweeps_when_it_starts_and_not_again_before_its_time() -> None:
    store = Watched()
    run(finished(store))
    before = time.time()
    with serving(agent(store)):
        store.wait_for(1)
    assert len(store.times) == 1
    assert before <= store.times[0] <= time.time()
    assert run(store.runs()) == []


def test_a_server_sweeps_again_and_again() -> None:
    store = Watched()
    with serving(agent(store), sweep_every=0.01):
        store.wait_for(1)
        asyncio.run(finished(store))
        store.wait_for(len(store.times) + 2)
        assert run(store.runs()) == []


def test_a_sweep_that_fails_is_logged_and_tried_again_while_runs_go_on(caplog: pytest.LogCaptureFixture) -> None:
    store = Watched(fails=3)
    with caplog.at_level(logging.ERROR, "headwater.serve"), serving(agent(store), sweep_every=0.01) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url)
            await read(client, server.url, run_id)

        store.wait_for(4)
        store.retention = Retention(keep=None)
        talk(main)
    failures = [record for record in caplog.records if "disk is full" in record.getMessage()]
    assert len(failures) == 3


def test_a_server_that_is_told_not_to_does_not_sweep() -> None:
    store = Watched()
    with serving(agent(store), sweep_every=None) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url)
            await read(client, server.url, run_id)

        talk(main)
    assert store.times == []


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_an_interval_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(UsageError, match="sweep_every"):
        create_app(agent(MemoryStore()), sweep_every=seconds)


def test_leaving_waits_for_the_sweep_under_way_to_stop() -> None:
    class Endless(MemoryStore):
        stopped = False

        async def sweep(self, now: float) -> Swept:
            try:
                await asyncio.Event().wait()
            finally:
                self.stopped = True
            return Swept()

    async def main() -> None:
        store = Endless()
        async with swept(store, 1.0):
            await asyncio.sleep(0)
        assert store.stopped

    run(main())


def test_two_servers_sweep_one_file_while_runs_are_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    keep = Retention(keep=None, merge_after=0.0)
    first, second = SQLiteStore(path, retention=keep), SQLiteStore(path, retention=keep)
    with serving(agent(first), sweep_every=0.001) as one, serving(agent(second), sweep_every=0.001) as two:

        async def main(client: aiohttp.ClientSession) -> None:
            for _ in range(10):
                ids = [await begin(client, server.url) for server in (one, two)]
                for run_id in ids:
                    for server in (one, two):
                        events = events_in(await read(client, server.url, run_id))
                        check_events(events)
                        text = "".join(getattr(e, "text", "") for e in events if isinstance(e, hw.ReasonDeltaEvent))
                        assert text == "Once upon a time."

        talk(main, 60)


def test_two_servers_delete_what_is_due_once_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def main() -> None:
        stores = [SQLiteStore(path, retention=Retention(keep=10.0, merge_after=0.0)) for _ in range(3)]
        for n in range(40):
            await finished(stores[0], f"old{n}")
        epoch = await stores[0].open_epoch("live")
        await stores[0].append("live", [start(1, "live")], epoch=epoch, step="run", wseq=1)
        swept_by = await asyncio.gather(*(store.sweep(1000.0) for store in stores))
        deleted = [run_id for done in swept_by for run_id in done.deleted]
        assert sorted(deleted) == sorted(f"old{n}" for n in range(40))
        assert await stores[1].runs() == ["live"]
        for store in stores:
            await store.aclose()

    run(main())
