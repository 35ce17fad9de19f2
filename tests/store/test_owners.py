"""Which processes live, and what is held for them: by locks of the kernel, whatever becomes of a process."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from headwater.store import SessionHolds, SQLiteStore
from headwater.store import owners as owners_module
from headwater.store.owners import Owners
from headwater.store.thread import CANCEL_POLL
from headwater.testing.stores.runs import Told
from headwater.testing.stores.samples import delta, deltas, end, numbers, run, start
from tests.store.test_sqlite_processes import line, process

pytestmark = pytest.mark.skipif(owners_module.fcntl is None, reason="this system has no file locks")


def test_a_killed_process_is_known_to_be_dead_and_one_that_is_stopped_to_live(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def is_alive(store: SQLiteStore) -> bool | None:
        info = await store.run_info("r1")
        assert info is not None
        return info.is_alive

    async def main() -> None:
        store = SQLiteStore(path)
        with process("hold", path, "s1", "r1") as holder:
            assert await asyncio.to_thread(line, holder) == "held by None"
            assert await is_alive(store)
            holder.send_signal(signal.SIGSTOP)
            assert await is_alive(store)
            assert await store.hold_session("s1", "r2") == "r1"
            holder.kill()
            holder.wait()
        assert await is_alive(store) is False
        assert await is_alive(store) is False
        assert await store.hold_session("s1", "r2") is None
        await store.aclose()

    run(main())
    assert [p.name for p in tmp_path.iterdir()] == ["store.db"]


def test_a_session_is_held_by_one_process_until_it_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def main() -> None:
        store = SQLiteStore(path)
        assert isinstance(store, SessionHolds)
        assert await store.hold_session("s1", "r0") is None
        assert await store.hold_session("s1", "r1") is None, "this process keeps its own runs apart"
        with process("hold", path, "s1", "r2") as other:
            assert await asyncio.to_thread(line, other) == "held by r1"
        store.release_session("s1", "r0")
        with process("hold", path, "s1", "r2") as other:
            assert await asyncio.to_thread(line, other) == "held by r1", "only the run that has it lets go"
        store.release_session("s1", "r1")
        assert await store.sessions() == []
        with process("hold", path, "s1", "r2") as other:
            assert await asyncio.to_thread(line, other) == "held by None"
            assert await store.hold_session("s1", "r1") == "r2"
            assert await store.hold_session("s2", "r1") is None
            other.communicate("\n", timeout=20)
        assert await store.hold_session("s1", "r1") is None
        await store.aclose()

    run(main())


def test_a_run_that_is_over_has_no_owner_and_one_of_this_store_has(tmp_path: Path) -> None:
    async def main() -> None:
        store = SQLiteStore(tmp_path / "store.db")
        epoch = await store.open_epoch("r1")
        await store.append("r1", [start(1)], epoch=epoch, step="run", wseq=1)
        info = await store.run_info("r1")
        assert info is not None
        assert info.is_alive
        assert [i.is_alive for i in await store.run_infos()] == [True]
        second = SQLiteStore(tmp_path / "store.db")
        seen = await second.run_info("r1")
        assert seen is not None
        assert seen.is_alive
        await store.append("r1", [end(2)], epoch=epoch, step="run", wseq=2)
        info = await store.run_info("r1")
        assert info is not None
        assert info.is_alive is False
        await store.open_epoch("r1")
        await store.append("r1", [start(3)], epoch=2, step="run", wseq=1)
        await store.aclose()
        seen = await second.run_info("r1")
        assert seen is not None
        assert (seen.state, seen.is_alive) == ("running", False), "its store was closed in the middle"
        await second.aclose()

    run(main())


def test_without_locks_nothing_is_known_and_nothing_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners_module, "fcntl", None)

    async def main() -> None:
        one, other = SQLiteStore(tmp_path / "store.db"), SQLiteStore(tmp_path / "store.db")
        await one.open_epoch("r1")
        info = await other.run_info("r1")
        assert info is not None
        assert info.is_alive is None
        assert await one.hold_session("s1", "r1") is None
        assert await other.hold_session("s1", "r2") is None
        one.release_session("s1", "r1")
        await one.aclose()
        await other.aclose()

    run(main())


def test_a_folder_that_cannot_be_made_is_like_no_locks(tmp_path: Path) -> None:
    (tmp_path / "store.db-owners").write_text("in the way")
    owners = Owners(str(tmp_path / "store.db"))
    assert owners.me() is None
    assert owners.is_alive("somebody") is None
    owners.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_does_not_keep_its_parent_alive(tmp_path: Path) -> None:
    parent = Owners(str(tmp_path / "store.db"))
    watcher = Owners(str(tmp_path / "store.db"))
    name = parent.me()
    may_end, let_end = os.pipe()
    is_up, say_up = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(let_end)
        os.write(say_up, b".")
        os.read(may_end, 1)  # until the test lets go
        os._exit(0)
    try:
        os.close(may_end)
        assert os.read(is_up, 1) == b"."
        assert watcher.is_alive(name)
        # What the kernel does when a process ends, and no more: the name stays in the folder.
        assert parent._file is not None  # pyright: ignore[reportPrivateUsage] there is no other way to play dead
        os.close(parent._file)  # pyright: ignore[reportPrivateUsage]
        assert watcher.is_alive(name) is False
    finally:
        os.close(let_end)
        os.waitpid(child, 0)


def test_a_cancel_of_another_process_is_told_in_time_to_who_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def main() -> None:
        store = SQLiteStore(path)
        epoch = await store.open_epoch("r1")
        await store.append("r1", [start(1)], epoch=epoch, step="run", wseq=1)
        told = Told()
        store.watch_cancel("r1", told)
        with process("cancel", path, "r1") as other:
            assert await asyncio.to_thread(line, other) == "True"
            asked = time.monotonic()
            await told.wait()
            # Looked for each 0.25 s; the rest is for a busy machine.
            assert time.monotonic() - asked < CANCEL_POLL + 2
        assert told.reasons == ["from another process"]
        appended = await store.append("r1", [delta(2)], epoch=epoch, step="run", wseq=2)
        assert appended.cancel == "from another process"
        await store.aclose()

    run(main())


def test_a_process_that_is_killed_while_it_joins_leaves_a_log_without_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    said = 0
    for kill_after in (5, 12, 40):
        with process("write-and-join", path) as writer:
            for _ in range(kill_after):
                said = int(line(writer))
            writer.kill()
            assert writer.stdout is not None
            for rest in writer.stdout.read().split("\n")[:-1]:
                said = int(rest)

        async def look(said: int = said) -> None:
            store = SQLiteStore(path)
            events = await store.read("r1")
            last = events[-1].seq
            assert said <= last <= said + 7
            assert last % 7 == 0
            text = "".join(getattr(event, "text", "") for event in events)
            assert text == "".join(f"{seq} " for seq in range(1, last + 1))
            for after in (1, last // 2, last - 3):
                rest = await store.read("r1", after)
                assert "".join(getattr(event, "text", "") for event in rest) == "".join(
                    f"{seq} " for seq in range(after + 1, last + 1)
                )
            info = await store.run_info("r1")
            assert info is not None
            assert (info.last_seq, info.compacted) == (last, 0)
            assert len(events) < last
            await store.aclose()

        run(look())


def test_a_file_of_the_first_schema_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def write() -> None:
        store = SQLiteStore(path)
        epoch = await store.open_epoch("r1")
        await store.append("r1", [start(1), *deltas(2, 4), end(5)], epoch=epoch, step="run", wseq=1)
        await store.open_epoch("empty")
        await store.aclose()

    run(write())
    downgrade(path)

    async def look() -> None:
        store = SQLiteStore(path)
        info = await store.run_info("r1")
        assert info is not None
        assert (info.session_id, info.agent, info.state, info.outcome) == ("s1", "a", "ended", "completed")
        assert (info.started, info.updated, info.last_seq, info.is_alive) == (1.0, 5.0, 5, False)
        empty = await store.run_info("empty")
        assert empty is not None
        assert (empty.state, empty.last_seq, empty.is_alive) == ("running", 0, None)
        assert numbers(await store.read("r1")) == [1, 2, 3, 4, 5]
        assert await store.merge("r1") == 3
        await store.put_blob("r1", b"data", "text/plain")
        await store.aclose()

    run(look())


def downgrade(path: Path) -> None:
    """Make of a file what the first version had written."""
    import sqlite3

    db = sqlite3.connect(path)
    db.executescript(
        """
        DROP TABLE blobs; DROP TABLE holds; DROP INDEX runs_over; DROP INDEX runs_unmerged;
        ALTER TABLE events DROP COLUMN cuts;
        PRAGMA user_version = 1;
        """
    )
    later = [row[1] for row in db.execute("PRAGMA table_info(runs)")][6:]
    for column in later:
        db.execute(f"ALTER TABLE runs DROP COLUMN {column}")
    left = [row[1] for row in db.execute("PRAGMA table_info(runs)")]
    assert left == ["id", "run_id", "session_id", "epoch", "last_seq", "ended"]
    db.commit()
    db.close()
