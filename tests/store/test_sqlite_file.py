"""The SQLite file itself: what is in it, who may use it, and what goes wrong with it."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading
from pathlib import Path

import pytest

from headwater.errors import StoreError, UsageError
from headwater.events import CustomEvent
from headwater.messages import user
from headwater.store import MemoryStore, SQLiteStore, open_store
from headwater.store import thread as store_thread
from headwater.testing.stores.samples import collect, deltas, numbers, origin, run, start


def failing(path: Path, busy_timeout: float = 10.0) -> str:
    """What the first operation on this path says."""

    async def main() -> str:
        store = SQLiteStore(path, busy_timeout=busy_timeout)
        with pytest.raises(StoreError) as caught:
            await store.commit("s", 0, append=[user("a")])
        await store.aclose()
        return str(caught.value)

    return run(main())


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("headwater ")]


def test_everything_is_in_one_file_with_a_write_ahead_log(tmp_path: Path) -> None:
    path = tmp_path / "a b" / "store.db"
    path.parent.mkdir()

    async def main() -> None:
        store = SQLiteStore(path)
        await store.commit("s", 0, append=[user("a"), user("b")])
        epoch = await store.open_epoch("r1")
        await store.append("r1", [start(1)], epoch=epoch, step="run", wseq=1)
        await store.aclose()

    run(main())
    db = sqlite3.connect(path)
    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables == {"runs", "events", "writers", "sessions", "messages", "blobs", "holds"}
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert db.execute("SELECT body FROM messages WHERE position = 1").fetchone()[0].startswith('{"role":"user"')
    assert db.execute("SELECT json_extract(body, '$.type') FROM events").fetchone() == ("run.start",)
    db.close()
    assert [p.name for p in path.parent.iterdir()] == ["store.db"]


def test_what_was_stored_is_there_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def write() -> None:
        store = SQLiteStore(path, synchronous="FULL")
        await store.commit("s", 0, append=[user("a")], data={"x": 1})
        epoch = await store.open_epoch("r1")
        await store.append("r1", [start(1), *deltas(2, 5)], epoch=epoch, step="run", wseq=1)
        await store.aclose()

    async def read() -> None:
        store = SQLiteStore(path)
        assert (await store.load("s")).messages == (user("a"),)
        assert await store.read("r1") == [start(1), *deltas(2, 5)]
        assert await store.open_epoch("r1") == 2
        await store.aclose()

    run(write())
    run(read())


def test_a_commit_writes_only_what_is_new(tmp_path: Path) -> None:
    async def main() -> None:
        store = SQLiteStore(tmp_path / "store.db")
        version = await store.commit("s", 0, append=[user("x" * 200)] * 5000)
        changes = await store._database.run(lambda db: db.total_changes)
        await store.commit("s", version, append=[user("y")])
        assert await store._database.run(lambda db: db.total_changes) - changes <= 3
        await store.aclose()

    run(main())


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    said = failing(tmp_path / "nowhere" / "store.db")
    assert said.startswith(f"The store {tmp_path}/nowhere/store.db cannot be opened: there is no folder")
    assert "Make it, or give another path" in said


def test_a_folder_that_is_a_file_and_a_file_that_is_a_folder_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert f"{tmp_path}/file is not a folder" in failing(tmp_path / "file" / "store.db")
    assert "the path is a folder" in failing(tmp_path)


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a file system that refuses new files")
def test_a_file_system_that_takes_no_files_is_an_error_with_advice() -> None:
    said = failing(Path("/proc/store.db"))
    assert said.startswith("The store /proc/store.db cannot be opened: this user may not")


def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    text = "Notes to myself, longer than the header of a database would be.\n" * 50
    path.write_text(text)
    assert "is not a SQLite database" in failing(path)
    assert path.read_text() == text


def test_the_database_of_another_program_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE runs (x)")
    db.commit()
    db.close()
    before = path.read_bytes()
    assert "is the database of another program" in failing(path)
    assert path.read_bytes() == before


def test_a_file_of_a_newer_version_is_refused_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    run(SQLiteStore(path).commit("s", 0))
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version=99")
    db.close()
    said = failing(path)
    assert "newer headwater (schema 99; this one knows 2)" in said
    assert "upgrade headwater" in said


def test_a_damaged_file_is_said_so(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def fill() -> None:
        store = SQLiteStore(path)
        await store.commit("s", 0, append=[user("x" * 500)] * 200)
        await store.aclose()

    run(fill())
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)
    assert "is damaged" in failing(path)


def test_unreadable_content_is_an_error_that_names_the_place(tmp_path: Path) -> None:
    async def main() -> None:
        store = SQLiteStore(tmp_path / "store.db")
        await store.commit("s", 0, append=[user("a")])
        epoch = await store.open_epoch("r1")
        await store.append("r1", [start(1)], epoch=epoch, step="run", wseq=1)
        await store._database.run(lambda db: db.execute("UPDATE messages SET body = '{'").rowcount)
        await store._database.run(lambda db: db.execute("""UPDATE events SET body = '{"type": "plan"}'""").rowcount)
        with pytest.raises(StoreError, match="unreadable at session 's'"):
            await store.load("s")
        with pytest.raises(StoreError, match="unreadable at run 'r1', event 1"):
            await store.read("r1")
        await store.aclose()

    run(main())


def test_a_locked_file_is_waited_for_and_then_said_so(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    run(SQLiteStore(path).commit("s", 0))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert "stayed locked by another program for 0.05 s" in failing(path, busy_timeout=0.05)
    other.execute("ROLLBACK")
    other.close()


def test_a_full_disk_keeps_nothing_of_the_write_and_the_store_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        store = SQLiteStore(tmp_path / "store.db")
        await store.commit("s", 0, append=[user("a")])
        # What SQLite answers on a full disk it also answers at this limit of its own.
        await store._database.run(lambda db: db.execute("PRAGMA max_page_count=1").fetchall())
        with pytest.raises(StoreError, match="the disk is full"):
            await store.commit("s", 1, append=[user("x" * 10**6)])
        loaded = await store.load("s")
        assert (loaded.version, loaded.messages) == (1, (user("a"),))
        assert await store.commit("s", 1, append=[user("x" * 10**6)]) == 2
        await store.aclose()

    run(main())


def test_what_has_no_json_form_is_refused_by_name(tmp_path: Path) -> None:
    async def main() -> None:
        store = SQLiteStore(tmp_path / "store.db")
        epoch = await store.open_epoch("r1")
        live = CustomEvent(v=1, seq=1, ts=0.0, origin=origin(), round=0, name="x", data=object())
        with pytest.raises(StoreError, match="event custom 1: it has no JSON form"):
            await store.append("r1", [live], epoch=epoch, step="run", wseq=1)
        with pytest.raises(StoreError, match="session 's': it has no JSON form"):
            await store.commit("s", 0, data={"lock": threading.Lock()})
        with pytest.raises(StoreError, match="no JSON form"):
            await store.commit("s", 0, append=[user("half a pair: \ud83d")])
        await store.aclose()

    run(main())


def test_a_closed_store_says_so_also_to_those_who_tail(tmp_path: Path) -> None:
    async def main() -> None:
        store = SQLiteStore(tmp_path / "store.db")
        reader = asyncio.create_task(collect(store.tail("r1")))
        await store.open_epoch("r1")
        await store.aclose()
        with pytest.raises(StoreError, match="is closed"):
            await reader
        with pytest.raises(StoreError, match="is closed"):
            await store.load("s")
        await store.aclose()

    run(main())


def test_the_thread_ends_with_the_store(tmp_path: Path) -> None:
    name = f"headwater {tmp_path / 'store.db'}"
    store = SQLiteStore(tmp_path / "store.db")
    assert name not in threads()
    run(store.sessions())
    (running,) = [t for t in threading.enumerate() if t.name == name]
    del store
    gc.collect()
    running.join(10)
    assert not running.is_alive()


def test_closing_waits_for_the_thread(tmp_path: Path) -> None:
    async def main() -> None:
        store = SQLiteStore(tmp_path / "store.db")
        await store.sessions()
        assert f"headwater {store.path}" in threads()
        await store.aclose()
        assert f"headwater {store.path}" not in threads()

    run(main())


def test_an_idle_thread_ends_and_the_next_operation_starts_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_thread, "IDLE", 0.001)

    async def main() -> None:
        store = SQLiteStore(tmp_path / "store.db")
        for version in range(5):
            assert await store.commit("s", version) == version + 1
            thread = store._database._thread
            if thread is not None:
                await asyncio.to_thread(thread.join, 10)
                assert not thread.is_alive()
        assert (await store.load("s")).version == 5
        await store.aclose()

    run(main())


def test_a_cancelled_append_is_written_all_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        store = SQLiteStore(tmp_path / "store.db")
        epoch = await store.open_epoch("r1")
        gate = threading.Event()
        held = asyncio.create_task(store._database.run(lambda db: gate.wait(10)))
        writing = asyncio.create_task(store.append("r1", [start(1)], epoch=epoch, step="run", wseq=1))
        await asyncio.sleep(0)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        gate.set()
        await held
        assert numbers(await store.read("r1")) == [1]
        await store.aclose()

    run(main())


def test_a_slow_disk_does_not_stall_the_event_loop(tmp_path: Path) -> None:
    async def main() -> None:
        store = SQLiteStore(tmp_path / "store.db")
        gate = threading.Event()
        slow = asyncio.create_task(store._database.run(lambda db: gate.wait(10)))
        writing = asyncio.create_task(store.commit("s", 0))
        for _ in range(1000):
            await asyncio.sleep(0)
        assert (slow.done(), writing.done()) == (False, False)
        gate.set()
        assert await writing == 1
        await slow
        await store.aclose()

    run(main())


def test_open_store_takes_paths_and_stores_and_explains_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    for spec in (path, str(path)):
        store = open_store(spec)
        assert isinstance(store, SQLiteStore)
        assert store.path == path
        assert open_store(store) is store
    assert isinstance(open_store(":memory:"), MemoryStore)
    with pytest.raises(UsageError, match="no store for postgresql://"):
        open_store("postgresql://x/y")
    with pytest.raises(UsageError, match="not 5"):
        open_store(5)  # pyright: ignore[reportArgumentType] - what an untyped caller may do
    with pytest.raises(UsageError, match=r"MemoryStore\(\)"):
        SQLiteStore(":memory:")
    with pytest.raises(UsageError, match="NORMAL"):
        SQLiteStore(path, synchronous="OFF")  # pyright: ignore[reportArgumentType] - what an untyped caller may do


def test_a_relative_path_is_fixed_when_the_store_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert SQLiteStore("store.db").path == tmp_path / "store.db"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert SQLiteStore("~/store.db").path == tmp_path / "store.db"
