"""Whatever a model says and wherever a run is cut: the laws hold, the log rebuilds it, the next request is accepted."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.chat.profile import DEFAULT_PROFILE
from headwater.core.record import rebuild
from headwater.messages import Message
from headwater.store.sqlite import SQLiteStore
from headwater.testing.laws import check_events
from tests.agents.strict import Strict
from tests.agents.support import model_at, run
from tests.drive.server import Server

WAYS = ["read", "read", "break", "cancel", "task", "response", "batches"]


@hw.tool(effect="read")
async def peek(q: str, n: int = 0) -> str:
    """Peek."""
    await asyncio.sleep(0)
    return q


@hw.tool
def act(q: str, ctx: hw.ToolContext) -> str:
    """Act."""
    ctx.emit_progress(q)
    return q


@hw.tool(serial=True)
async def alone(q: str, ctx: hw.ToolContext) -> str:
    """Alone."""
    ctx.emit("mine", {"q": q})
    await asyncio.sleep(0.001)
    return q


@hw.tool(return_direct=True, effect="read")
def direct(q: str) -> str:
    """Direct."""
    return f"direct {q}"


@hw.tool(timeout=0.01, effect="read")
def slow(q: str, ctx: hw.ToolContext) -> str:
    """Slow."""
    while not ctx.cancelled:
        time.sleep(0.001)
    return q


@hw.tool
async def broken(q: str) -> str:
    """Broken."""
    raise ValueError(q)


TOOLS = [peek, act, alone, direct, slow, broken]


async def turn(agent: hw.ReActAgent, rng: random.Random) -> list[hw.AgentEvent]:
    """One run, read or left in one of the ways; returns all its events."""
    way, position = rng.choice(WAYS), rng.randrange(1, 40)
    stream = agent.stream("Go.", session="s", buffer=rng.choice([1, 3, 256]))
    events: list[hw.AgentEvent] = []

    async def read() -> None:
        async with stream:
            if way == "response":
                await stream.response()
                return
            while way == "batches" and (batch := await stream.next_batch()):
                events.extend(batch)
            async for event in stream:
                events.append(event)
                if len(events) == position:
                    if way == "break":
                        break
                    if way == "cancel":
                        await stream.cancel()
                    if way == "task" and (task := asyncio.current_task()) is not None:
                        task.cancel()

    async def rest() -> None:
        async for event in stream:
            events.append(event)  # noqa: PERF401 what comes before an error counts

    failures: list[hw.RunError] = []
    for part in (read, rest):
        try:
            await asyncio.create_task(part())
        except asyncio.CancelledError:
            assert way == "task"
        except hw.RunError as error:
            failures.append(error)
        assert stream.is_over
    assert all(error.run_end is stream.end for error in failures)
    if way == "response":
        assert stream.end is not None
        return []
    assert events[-1] is stream.end
    return events


async def conversation(seed: int, path: Path, *, alternating: bool, logged: bool) -> None:
    rng = random.Random(seed)
    endpoint = Strict(rng, alternating=alternating)
    profile = msgspec.structs.replace(DEFAULT_PROFILE, merge_user_messages=alternating)
    store = SQLiteStore(path) if logged else None
    async with Server(*[endpoint] * 500) as server:
        agent = hw.ReActAgent(
            model=model_at(server, profile=profile, end_grace=0.05),
            tools=TOOLS,
            instructions="Be brief.",
            max_rounds=rng.choice([1, 2, 3, None]),
            on_limit=rng.choice(["answer", "error"]),
            retry=hw.Retry(retries=1, base=0, after_output=rng.choice(["fail", "discard"])),
            window=rng.choice([4, 20, None]),
            store=store,
        )
        stored: tuple[Message, ...] = ()
        for _ in range(5):
            events = await turn(agent, rng)
            if events:
                check_events(events)
            messages = (await agent.load_session("s")).messages
            assert messages[: len(stored)] == stored
            if store is not None:
                run_id = (await store.runs("s"))[-1]
                log = await store.read(run_id)
                assert not events or log == events
                check_events(log)
                record = rebuild(e for e in log if e.type not in ("reason.delta", "reason.call"))
                added = messages[len(stored) :]
                assert added in (tuple(record.messages), ())
                if not added:
                    assert record.round == 0  # cancelled before it had begun
            stored = messages
        await agent.aclose()
    assert endpoint.refused == []


@pytest.mark.parametrize("logged", [False, True])
@pytest.mark.parametrize("alternating", [False, True])
def test_any_conversation_stays_lawful_rebuildable_and_sendable(alternating: bool, logged: bool) -> None:
    @settings(max_examples=25, deadline=None)
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            run(lambda: conversation(seed, Path(folder) / "x.db", alternating=alternating, logged=logged), seconds=30)

    check()
