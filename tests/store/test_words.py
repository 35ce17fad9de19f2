"""What the stores of headwater say when something is refused: what happened, and what to do."""

from __future__ import annotations

import pytest

from headwater.errors import Compacted, Fenced, StoreError, VersionConflict
from headwater.store import Retention
from headwater.testing.stores import MakeStore
from headwater.testing.stores.retention import in_turns, write
from headwater.testing.stores.samples import collect, delta, run, start
from headwater.testing.stores.streams import events_of


def test_a_commit_on_another_version_names_both(make_store: MakeStore) -> None:
    async def main() -> None:
        store = make_store()
        await store.commit("s", 0)
        for stale in (0, 2, -1):
            with pytest.raises(VersionConflict, match=f"at version 1, not {stale}"):
                await store.commit("s", stale)
        await store.aclose()

    run(main())


def test_a_stale_writer_is_told_why(make_store: MakeStore) -> None:
    async def main() -> None:
        store = make_store()
        with pytest.raises(StoreError, match="open_epoch"):
            await store.append("r1", [start(1)], epoch=1, step="run", wseq=1)
        await store.open_epoch("r1")
        with pytest.raises(StoreError, match="open_epoch"):
            await store.append("r1", [start(1)], epoch=2, step="run", wseq=1)
        await store.append("r1", [start(1)], epoch=1, step="a", attempt=2, wseq=1)
        with pytest.raises(Fenced, match="attempt 2"):
            await store.append("r1", [delta(2)], epoch=1, step="a", attempt=1, wseq=1)
        with pytest.raises(StoreError, match="in the log already, with other events"):
            await store.append("r1", [start(1), delta(2)], epoch=1, step="a", attempt=2, wseq=1)
        with pytest.raises(Fenced, match="not taken over"):
            await store.open_epoch("r1", after=5)
        await store.open_epoch("r1")
        with pytest.raises(Fenced, match="epoch 1 is over, epoch 2"):
            await store.append("r1", [delta(2)], epoch=1, step="a", attempt=2, wseq=2)
        await store.aclose()

    run(main())


def test_what_is_gone_or_unknown_is_told(make_store: MakeStore) -> None:
    async def main() -> None:
        store = make_store(retention=Retention(max_events=40))
        with pytest.raises(StoreError, match="no run 'nobody'"):
            await store.put_blob("nobody", b"x", "text/plain")
        log = events_of(1, in_turns(200))
        await write(store, *(log[at : at + 10] for at in range(0, 200, 10)))
        with pytest.raises(Compacted, match="snapshot"):
            await store.read("r1", 1)
        await store.delete_run("r1")
        with pytest.raises(StoreError, match="deleted"):
            await collect(store.tail("r1", 200))
        await store.aclose()

    run(main())
