"""What every store knows of its runs: their state, who wants them to end, how long they are kept, their blobs."""

from __future__ import annotations

import asyncio

import pytest

from headwater.errors import StoreError
from headwater.events import Outcome
from headwater.store import BlobStore, Retention, RunInfo, RunRegistry, Store, Swept
from headwater.testing.stores.making import MakeStore
from headwater.testing.stores.samples import collect, delta, end, numbers, run, start


async def begin(store: Store, run_id: str = "r1", session_id: str = "s1") -> int:
    epoch = await store.open_epoch(run_id)
    await store.append(run_id, [start(1, run_id, session_id)], epoch=epoch, step="run", wseq=1)
    return epoch


class Told:
    """What somebody who watches a run is told."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self._told = asyncio.Event()

    def __call__(self, reason: str) -> None:
        self.reasons.append(reason)
        self._told.set()

    async def wait(self) -> None:
        await self._told.wait()


class RunRegistrySuite:
    """What a `RunRegistry` and a `BlobStore` do."""

    def test_a_store_keeps_runs_and_blobs(self, make_store: MakeStore) -> None:
        store = make_store()
        assert isinstance(store, RunRegistry)
        assert isinstance(store, BlobStore)

    def test_a_runs_state_is_told_from_its_beginning_to_its_end(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            assert await store.run_info("r1") is None
            epoch = await store.open_epoch("r1")
            opened = await store.run_info("r1")
            assert opened is not None
            assert (opened.state, opened.last_seq, opened.started) == ("running", 0, 0.0)
            await store.append("r1", [start(1), delta(2)], epoch=epoch, step="run", wseq=1)
            running = RunInfo(
                run_id="r1",
                session_id="s1",
                agent="a",
                state="running",
                outcome=None,
                started=1.0,
                updated=2.0,
                last_seq=2,
            )
            info = await store.run_info("r1")
            assert info is not None
            assert (info.run_id, info.session_id, info.agent, info.state) == ("r1", "s1", "a", "running")
            assert (info.outcome, info.started, info.updated, info.last_seq) == (None, 1.0, 2.0, running.last_seq)
            assert (info.compacted, info.cancel) == (0, None)
            await store.append("r1", [end(3, outcome=Outcome.SUSPENDED)], epoch=epoch, step="run", wseq=2)
            info = await store.run_info("r1")
            assert info is not None
            assert (info.state, info.outcome) == ("suspended", Outcome.SUSPENDED)
            await store.append("r1", [start(4)], epoch=epoch, step="run", wseq=3)
            info = await store.run_info("r1")
            assert info is not None
            assert (info.state, info.outcome) == ("running", None)
            await store.append("r1", [end(5, outcome=Outcome.FAILED)], epoch=epoch, step="run", wseq=4)
            info = await store.run_info("r1")
            assert info is not None
            assert (info.state, info.outcome, info.started, info.updated) == ("ended", Outcome.FAILED, 1.0, 5.0)
            await store.aclose()

        run(main())

    def test_runs_are_listed_page_by_page_the_newest_first(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            for n in range(1, 8):
                await begin(store, f"r{n}", "even" if n % 2 == 0 else "odd")
            await store.open_epoch("without events")
            first = await store.run_infos(limit=3)
            assert [info.run_id for info in first] == ["r7", "r6", "r5"]
            second = await store.run_infos(limit=3, before="r5")
            assert [info.run_id for info in second] == ["r4", "r3", "r2"]
            assert [info.run_id for info in await store.run_infos(before="r2")] == ["r1"]
            assert await store.run_infos(before="r1") == []
            odd = await store.run_infos("odd", limit=2)
            assert [info.run_id for info in odd] == ["r7", "r5"]
            assert [info.run_id for info in await store.run_infos("odd", before="r5")] == ["r3", "r1"]
            assert await store.run_infos("none") == []
            assert await store.run_infos(limit=0) == []
            await store.aclose()

        run(main())

    def test_each_append_tells_that_a_cancel_was_asked_for_and_is_written_all_the_same(
        self, make_store: MakeStore
    ) -> None:
        async def main() -> None:
            store = make_store()
            epoch = await begin(store)
            assert await store.request_cancel("r1", "the user left")
            assert await store.request_cancel("r1", "too late to be the reason")
            appended = await store.append("r1", [delta(2)], epoch=epoch, step="run", wseq=2)
            assert (appended.last_seq, appended.cancel) == (2, "the user left")
            again = await store.append("r1", [delta(2)], epoch=epoch, step="run", wseq=2)
            assert (again.last_seq, again.cancel) == (2, "the user left")
            empty = await store.append("r1", [], epoch=epoch, step="run", wseq=3)
            assert empty.cancel == "the user left"
            other = await store.append("r1", [delta(3)], epoch=epoch, step="another", wseq=1)
            assert other.cancel == "the user left"
            await store.append("r1", [end(4, outcome=Outcome.CANCELLED)], epoch=epoch, step="run", wseq=3)
            assert numbers(await store.read("r1")) == [1, 2, 3, 4]
            info = await store.run_info("r1")
            assert info is not None
            assert info.cancel == "the user left"
            assert not await store.request_cancel("r1", "it is over")
            await store.aclose()

        run(main())

    def test_what_is_unknown_or_over_cannot_be_cancelled_and_what_waits_can(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            assert not await store.request_cancel("nobody", "x")
            await store.open_epoch("opened")
            assert await store.request_cancel("opened", "before its first event")
            epoch = await begin(store)
            await store.append("r1", [end(2, outcome=Outcome.SUSPENDED)], epoch=epoch, step="run", wseq=2)
            assert await store.request_cancel("r1", "while it waits")
            epoch = await store.open_epoch("r1", after=2)
            appended = await store.append("r1", [start(3)], epoch=epoch, step="run", wseq=1)
            assert appended.cancel == "while it waits"
            await store.aclose()

        run(main())

    def test_who_watches_a_run_is_told_of_a_cancel_once(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            epoch = await begin(store)
            one, other, ended, late = Told(), Told(), Told(), Told()
            store.watch_cancel("r1", one)
            store.watch_cancel("r2", other)
            store.watch_cancel("r1", ended)()
            await store.append("r1", [delta(2)], epoch=epoch, step="run", wseq=2)
            assert one.reasons == []
            await store.request_cancel("r1", "enough")
            await one.wait()
            await store.request_cancel("r1", "really")
            await store.append("r1", [delta(3)], epoch=epoch, step="run", wseq=3)
            end_watch = store.watch_cancel("r1", late)
            await late.wait()
            assert [told.reasons for told in (one, other, ended, late)] == [["enough"], [], [], ["enough"]]
            end_watch()
            end_watch()
            await store.aclose()

        run(main())

    def test_a_watch_of_a_loop_that_was_closed_harms_nobody(self, make_store: MakeStore) -> None:
        store = make_store()
        told = Told()

        async def watch() -> None:
            await begin(store)
            store.watch_cancel("r1", told)

        async def cancel() -> None:
            assert await store.request_cancel("r1", "x")
            await store.aclose()

        run(watch())
        run(cancel())
        assert told.reasons == []

    def test_a_deleted_run_is_gone_with_its_blobs_and_its_writer_and_reader_are_told(
        self, make_store: MakeStore
    ) -> None:
        async def main() -> None:
            store = make_store()
            epoch = await begin(store)
            ref = await store.put_blob("r1", b"data", "text/plain")
            reading = asyncio.create_task(collect(store.tail("r1")))
            waiting = asyncio.create_task(collect(store.tail("r1", after=1)))
            await asyncio.sleep(0)
            assert await store.delete_run("r1")
            for reader in (reading, waiting):
                with pytest.raises(StoreError):
                    await reader
            assert not await store.delete_run("r1")
            assert (await store.read("r1"), await store.runs(), await store.run_info("r1")) == ([], [], None)
            assert await store.get_blob("r1", ref) is None
            with pytest.raises(StoreError):
                await store.append("r1", [delta(2)], epoch=epoch, step="run", wseq=2)
            assert await begin(store) == 1
            assert await store.get_blob("r1", ref) is None
            await store.aclose()

        run(main())

    def test_a_sweep_deletes_and_merges_what_has_ended_for_good_in_time(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store(retention=Retention(keep=100, merge_after=10))
            for run_id, outcome in [("done", Outcome.COMPLETED), ("waits", Outcome.SUSPENDED), ("runs", None)]:
                epoch = await begin(store, run_id)
                events = [delta(2, "a", run_id=run_id), delta(3, "b", run_id=run_id)]
                await store.append(run_id, events, epoch=epoch, step="run", wseq=2)
                if outcome is not None:
                    await store.append(run_id, [end(4, run_id, outcome)], epoch=epoch, step="run", wseq=3)
            assert await store.sweep(now=13.9) == Swept()
            assert await store.sweep(now=14.0) == Swept(merged=("done",))
            assert numbers(await store.read("done")) == [1, 3, 4]
            assert await store.sweep(now=15.0) == Swept()
            assert await store.sweep(now=104.0) == Swept(deleted=("done",))
            assert await store.runs() == ["waits", "runs"]
            assert numbers(await store.read("waits")) == [1, 2, 3, 4]
            await store.aclose()

        run(main())

    def test_nothing_is_deleted_unless_it_is_asked_for(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            epoch = await begin(store)
            await store.append("r1", [end(2)], epoch=epoch, step="run", wseq=2)
            assert (await store.sweep(now=1e12)).deleted == ()
            assert await store.runs() == ["r1"]
            await store.aclose()

        run(main())

    def test_a_blob_comes_back_under_the_name_that_its_data_has_in_its_run(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            await begin(store)
            await begin(store, "r2")
            data = bytes(range(256)) * 1000
            ref = await store.put_blob("r1", data, "image/png")
            assert await store.put_blob("r1", data, "image/png") == ref
            assert await store.put_blob("r1", data, "image/jpeg") != ref
            assert await store.put_blob("r1", b"", "image/png") != ref
            blob = await store.get_blob("r1", ref)
            assert blob is not None
            assert (blob.data, blob.media_type) == (data, "image/png")
            assert await store.get_blob("r2", ref) is None
            assert await store.get_blob("nobody", ref) is None
            with pytest.raises(StoreError):
                await store.put_blob("nobody", data, "image/png")
            await store.aclose()

        run(main())

    @pytest.mark.parametrize(
        "ref",
        ["", ".", "..", "../r2/x", "/etc/passwd", "%2e%2e", "a\x00b", "r1", "x" * 10_000, "' OR 1=1 --", "é\ud800"],
    )
    def test_a_name_that_is_none_finds_nothing_whatever_it_looks_like(self, make_store: MakeStore, ref: str) -> None:
        async def main() -> None:
            store = make_store()
            await begin(store)
            await store.put_blob("r1", b"data", "text/plain")
            assert await store.get_blob("r1", ref) is None
            await store.aclose()

        run(main())

    def test_sessions_are_found_by_their_newest_runs_a_page_at_a_time(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            for run_id, session_id in [
                ("r1", "ann/x"),
                ("r2", "bob/x"),
                ("r3", "ann/y"),
                ("r4", ""),
                ("r5", "ann/x"),
                ("r6", "ann/z"),
                ("r7", "ann%"),
            ]:
                await begin(store, run_id, session_id)
            await store.open_epoch("r8")  # it has no events yet

            async def page(prefix: str = "", before: str | None = None, limit: int = 50) -> list[str]:
                return [info.run_id for info in await store.latest_runs(prefix, before=before, limit=limit)]

            assert await page() == ["r7", "r6", "r5", "r3", "r2"]
            assert await page("ann/") == ["r6", "r5", "r3"]
            assert await page("ann/", limit=2) == ["r6", "r5"]
            # r1 is older, but ann/x has been on the first page.
            assert await page("ann/", before="r5", limit=2) == ["r3"]
            assert await page("ann/", before="r3") == []
            assert await page("%") == []
            assert await page("carl/") == []
            assert await page(before="gone") == await page()
            assert await page(limit=0) == []
            info = (await store.latest_runs("bob/"))[0]
            assert (info.session_id, info.state, info.agent) == ("bob/x", "running", "a")
            await store.aclose()

        run(main())
