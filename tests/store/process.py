"""Run by tests in processes of their own: `python -m tests.store.process WHAT FILE ...`."""

from __future__ import annotations

import asyncio
import os
import sys

from headwater.errors import StoreError, VersionConflict
from headwater.messages import user
from headwater.store import Retention, SQLiteStore
from headwater.testing.stores.samples import delta, deltas, end, start


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def write_for_ever(path: str) -> None:
    """Append three events and commit two messages at a time, and say so after each; never end."""
    store = SQLiteStore(path)
    data = await store.load("s1")
    version = data.version
    log = await store.read("r1")
    seq = log[-1].seq if log else 0
    epoch = await store.open_epoch("r1")
    for wseq in range(1, 10**9):
        appended = await store.append("r1", deltas(seq + 1, seq + 3), epoch=epoch, step="run", wseq=wseq)
        seq = appended.last_seq
        version = await store.commit("s1", version, append=[user("a"), user("b")], data={"version": version + 1})
        say(f"{seq} {version}")


async def race(path: str, count: int) -> None:
    """Commit `count` times, again after each conflict, and say how many conflicts there were."""
    store = SQLiteStore(path)
    conflicts = 0
    say("ready")
    await asyncio.to_thread(sys.stdin.readline)
    for n in range(count):
        while True:
            loaded = await store.load("s1")
            try:
                await store.commit("s1", loaded.version, append=[user(f"{os.getpid()} {n}")])
            except VersionConflict:
                conflicts += 1
            else:
                break
    await store.aclose()
    say(f"conflicts {conflicts}")


async def write_on_request(path: str) -> None:
    """Append one event for each line of input; the end of input ends the run."""
    store = SQLiteStore(path)
    epoch = await store.open_epoch("r1")
    seq = (await store.append("r1", [start(1)], epoch=epoch, step="run", wseq=1)).last_seq
    say("ready")
    while await asyncio.to_thread(sys.stdin.readline):
        seq += 1
        await store.append("r1", [delta(seq)], epoch=epoch, step="run", wseq=seq)
    await store.append("r1", [end(seq + 1)], epoch=epoch, step="run", wseq=seq + 1)
    await store.aclose()


async def refuse(path: str) -> None:
    """Try to write as a user who may not, and say what the error says."""
    if os.geteuid() == 0:
        # Root may write anywhere; nobody may not.
        os.setegid(65534)
        os.seteuid(65534)
    store = SQLiteStore(path)
    try:
        await store.commit("s1", 0, append=[user("a")])
    except StoreError as error:
        say(f"{type(error).__name__}: {error}")
    else:
        say("written")
    await store.aclose()


async def leave_open(path: str) -> None:
    """End without closing the store, with a tail under way."""
    store = SQLiteStore(path)
    epoch = await store.open_epoch("r1")

    async def read() -> None:
        async for event in store.tail("r1"):
            say(str(event.seq))

    reader = asyncio.create_task(read())
    for seq in range(1, 4):
        await store.append("r1", [delta(seq)], epoch=epoch, step="run", wseq=seq)
    # Asked for and not waited for: it is written all the same.
    writing = asyncio.create_task(store.append("r1", [delta(4)], epoch=epoch, step="run", wseq=4))
    await asyncio.sleep(0)
    writing.cancel()
    reader.cancel()


async def hold(path: str, session_id: str, run_id: str) -> None:
    """Begin a run, hold its session, say who has it otherwise; end with the input."""
    store = SQLiteStore(path)
    await store.open_epoch(run_id)
    say(f"held by {await store.hold_session(session_id, run_id)}")
    await asyncio.to_thread(sys.stdin.readline)
    await store.aclose()


async def write_and_join(path: str) -> None:
    """Append to a log that is bounded and merged all the time, and say so after each; never end."""
    store = SQLiteStore(path, retention=Retention(max_events=40))
    seq = (await store.snapshot("r1")).seq
    epoch = await store.open_epoch("r1")
    for wseq in range(1, 10**9):
        seq = (await store.append("r1", deltas(seq + 1, seq + 7), epoch=epoch, step="run", wseq=wseq)).last_seq
        if wseq % 3 == 0:
            await store.merge("r1", seq - 5)
        say(str(seq))


async def cancel(path: str, run_id: str) -> None:
    """Ask for the end of a run."""
    store = SQLiteStore(path)
    say(str(await store.request_cancel(run_id, "from another process")))
    await store.aclose()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write-for-ever", path]:
            asyncio.run(write_for_ever(path))
        case ["race", path, count]:
            asyncio.run(race(path, int(count)))
        case ["write-on-request", path]:
            asyncio.run(write_on_request(path))
        case ["refuse", path]:
            asyncio.run(refuse(path))
        case ["leave-open", path]:
            asyncio.run(leave_open(path))
        case ["hold", path, session_id, run_id]:
            asyncio.run(hold(path, session_id, run_id))
        case ["write-and-join", path]:
            asyncio.run(write_and_join(path))
        case ["cancel", path, run_id]:
            asyncio.run(cancel(path, run_id))
        case _:
            sys.exit("unknown")
