"""One file, several processes, some of which die."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.errors import Fenced
from headwater.store import SQLiteStore
from headwater.testing.stores.samples import delta, numbers, run

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def process(*args: str | Path) -> Generator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.store.process", *map(str, args)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def line(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline().strip()


async def check_after_kill(path: Path, seq: int, version: int) -> None:
    """What was acknowledged is there, and of what came after it, all of a write or nothing."""
    store = SQLiteStore(path)
    seqs = numbers(await store.read("r1"))
    assert seqs == list(range(1, len(seqs) + 1))
    assert len(seqs) % 3 == 0
    assert seq <= len(seqs) <= seq + 3
    session = await store.load("s1")
    assert version <= session.version <= version + 1
    assert len(session.messages) == 2 * session.version
    assert session.data == {"version": session.version}
    await store.aclose()


def test_a_killed_writer_leaves_a_contiguous_log_and_a_consistent_session(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    acknowledged_seq = acknowledged_version = 0
    for kill_after in (1, 7, 30):
        with process("write-for-ever", path) as writer:
            for _ in range(kill_after):
                acknowledged_seq, acknowledged_version = map(int, line(writer).split())
            # Somewhere in the middle of what it does next.
            writer.kill()
            assert writer.stdout is not None
            for rest in writer.stdout.read().split("\n"):
                if rest.count(" ") == 1 and all(rest.split()):
                    acknowledged_seq, acknowledged_version = map(int, rest.split())

        run(check_after_kill(path, acknowledged_seq, acknowledged_version))
    check = sqlite3.connect(path)
    assert check.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    check.close()


def test_two_processes_racing_on_one_session_lose_no_commit(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with process("race", path, "40") as one, process("race", path, "40") as two:
        assert (line(one), line(two)) == ("ready", "ready")
        for racer in (one, two):
            assert racer.stdin is not None
            racer.stdin.write("go\n")
            racer.stdin.flush()
        outputs = [racer.communicate(timeout=60) for racer in (one, two)]
    assert [(out.startswith("conflicts "), error) for out, error in outputs] == [(True, "")] * 2

    async def look() -> None:
        store = SQLiteStore(path)
        session = await store.load("s1")
        assert session.version == len(session.messages) == 80
        assert len(set(session.messages)) == 80
        await store.aclose()

    run(look())


def test_many_processes_may_make_the_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    racers = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.store.process", "race", str(path), "5"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for _ in range(4)
    ]
    for racer in racers:
        assert line(racer) == "ready"
    outputs = [racer.communicate("go\n", timeout=60) for racer in racers]
    assert [error for _, error in outputs] == [""] * 4
    assert [racer.returncode for racer in racers] == [0] * 4

    async def look() -> None:
        store = SQLiteStore(path)
        assert (await store.load("s1")).version == 20
        await store.aclose()

    run(look())


def test_a_tail_sees_at_once_what_another_process_writes(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def main() -> None:
        store = SQLiteStore(path)
        await store.sessions()
        with process("write-on-request", path) as writer:
            assert await asyncio.to_thread(line, writer) == "ready"
            assert writer.stdin is not None
            asked: list[float] = []
            waits: list[float] = []
            async for event in store.tail("r1"):
                if asked:
                    waits.append(time.monotonic() - asked[-1])
                if event.seq < 20:
                    asked.append(time.monotonic())
                    writer.stdin.write("\n")
                    writer.stdin.flush()
                elif event.seq == 20:
                    writer.stdin.close()
            assert numbers(await store.read("r1")) == list(range(1, 22))
            # Polled each 10 ms; the median leaves room for a busy machine.
            assert sorted(waits)[len(waits) // 2] < 0.2
            # What another process took over may not be written to from here.
            assert await store.open_epoch("r1") == 2
            with pytest.raises(Fenced):
                await store.append("r1", [delta(22)], epoch=1, step="run", wseq=22)
        await store.aclose()

    run(main())


def test_a_program_that_does_not_close_its_store_ends_at_once_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-m", "tests.store.process", "leave-open", str(path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - began < 10

    async def look() -> None:
        store = SQLiteStore(path)
        assert numbers(await store.read("r1")) == [1, 2, 3, 4]
        await store.aclose()

    run(look())


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs users to forbid something to")
@pytest.mark.parametrize("existing", [False, True])
def test_a_folder_that_may_not_be_written_is_said_so(tmp_path: Path, existing: bool) -> None:
    # pytest's own folders are closed to other users, so that nobody could not even look into them.
    for folder in [tmp_path, *tmp_path.parents]:
        if folder.stat().st_uid == os.geteuid() and "pytest-of-" in str(folder):
            folder.chmod(0o755)
    path = tmp_path / "store.db"
    if existing:
        run(SQLiteStore(path).commit("s0", 0))
    if os.geteuid() != 0:
        if existing:
            path.chmod(0o444)
        tmp_path.chmod(0o555)
    try:
        with process("refuse", path) as refused:
            said = line(refused)
    finally:
        tmp_path.chmod(0o755)
    assert said.startswith(f"StoreError: The store {path} ")
    assert ("read-only" if existing else "may not make or write") in said
    assert "MemoryStore()" in said
