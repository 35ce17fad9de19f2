"""Sessions and logs: what a run leaves behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import headwater as hw
from headwater.core.record import rebuild
from headwater.store import Appended, SQLiteStore
from headwater.testing import ScriptedModel
from headwater.testing.laws import check_events
from headwater.testing.scripted import call, say, wait
from tests.agents.support import run


@hw.tool
async def look(q: str) -> str:
    """Look."""
    return f"found {q}"


def test_a_second_turn_sees_the_first() -> None:
    model = ScriptedModel(["Nice to meet you, Ada.", "You are Ada."])

    async def main() -> None:
        agent = hw.SimpleAgent(model=model, instructions="Be kind.")
        await agent.call_async("I am Ada.", session="s")
        assert (await agent.call_async("Who am I?", session="s")).text == "You are Ada."
        texts = [getattr(m, "text", "") for m in model.requests[1].messages]
        assert texts == ["Be kind.", "I am Ada.", "Nice to meet you, Ada.", "Who am I?"]

    run(main)


def test_sessions_are_apart_and_no_session_remembers_nothing() -> None:
    model = ScriptedModel(["a", "b", "c"])

    async def main() -> None:
        agent = hw.SimpleAgent(model=model)
        await agent.call_async("one", session="s")
        await agent.call_async("two", session="t")
        await agent.call_async("three")
        assert [len(r.messages) for r in model.requests] == [1, 1, 1]

    run(main)


def test_the_window_cuts_what_is_sent_and_not_what_is_stored() -> None:
    model = ScriptedModel([str(n) for n in range(6)])

    async def main() -> None:
        agent = hw.SimpleAgent(model=model, window=3)
        for n in range(6):
            await agent.call_async(f"q{n}", session="s")
        assert [len(r.messages) for r in model.requests] == [1, 3, 3, 3, 3, 3]
        assert len((await agent.load_session("s")).messages) == 12

    run(main)


def test_runs_on_one_session_wait_for_each_other() -> None:
    async def main() -> None:
        go, asked = asyncio.Event(), asyncio.Event()
        model = ScriptedModel([lambda _: (asked.set(), [say("One"), wait(go), say(".")])[1], "Two."])
        agent = hw.SimpleAgent(model=model)
        first = asyncio.create_task(agent.call_async("first", session="s"))
        second = asyncio.create_task(agent.call_async("second", session="s"))
        await asked.wait()
        for _ in range(20):  # as many turns of the loop as the second run would have needed to ask
            await asyncio.sleep(0)
        assert len(model.requests) == 1
        go.set()
        assert (await first).text == "One."
        assert (await second).text == "Two."
        assert len(model.requests[1].messages) == 3

    run(main)


def test_a_busy_session_is_refused_where_that_is_asked_for() -> None:
    async def main() -> None:
        go, asked = asyncio.Event(), asyncio.Event()
        model = ScriptedModel([lambda _: (asked.set(), [say("One"), wait(go)])[1], "Two."])
        agent = hw.SimpleAgent(model=model)
        first = asyncio.create_task(agent.call_async("first", session="s"))
        await asked.wait()
        with pytest.raises(hw.SessionBusy) as caught:
            await agent.call_async("second", session="s", on_busy="refuse")
        assert caught.value.run_end is not None
        go.set()
        await first
        assert len((await agent.load_session("s")).messages) == 2

    run(main)


def test_a_waiting_run_that_is_cancelled_lets_the_next_one_in() -> None:
    async def main() -> None:
        go = asyncio.Event()
        agent = hw.SimpleAgent(model=ScriptedModel([[say("One"), wait(go)], "Three."]))
        first = asyncio.create_task(agent.call_async("first", session="s"))
        second = asyncio.create_task(agent.call_async("second", session="s"))
        third = asyncio.create_task(agent.call_async("third", session="s"))
        for _ in range(10):
            await asyncio.sleep(0)
        second.cancel()
        go.set()
        await first
        assert (await third).text == "Three."
        with pytest.raises(asyncio.CancelledError):
            await second

    run(main)


def test_synchronous_runs_of_two_threads_on_one_session_take_turns() -> None:
    model = ScriptedModel(["a", "b", "c", "d"])
    agent = hw.SimpleAgent(model=model)

    async def main() -> None:
        await asyncio.gather(*(asyncio.to_thread(agent.call, f"q{n}", session="s") for n in range(4)))
        assert len((await agent.load_session("s")).messages) == 8
        assert sorted(len(r.messages) for r in model.requests) == [1, 3, 5, 7]

    asyncio.run(main())


def script() -> ScriptedModel:
    return ScriptedModel([[say("Looking. "), call("look", {"q": "a"}), call("look", {"q": "b"})], [say("Do", "ne.")]])


def test_a_store_on_disk_keeps_session_and_log_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "headwater.db"

    async def main() -> None:
        agent = hw.ReActAgent(model=script(), tools=[look], store=path)
        async with agent.stream("Go.", session="s") as stream:
            events = [e async for e in stream]
        await agent.aclose()

        store = SQLiteStore(path)
        assert await store.runs("s") == [stream.run_id]
        log = await store.read(stream.run_id)
        assert log == events
        check_events(log)
        stored = (await store.load("s")).messages
        replayed = rebuild(e for e in log if e.type not in ("reason.delta", "reason.call"))
        assert tuple(replayed.messages) == stored
        assert len(stored) == 5
        await store.aclose()

    run(main)


def test_what_happens_is_in_the_log_before_its_effect(tmp_path: Path) -> None:
    path = tmp_path / "headwater.db"
    seen: list[list[str]] = []
    store = SQLiteStore(path)

    @hw.tool
    async def peek(q: str, ctx: hw.ToolContext) -> str:
        """Peek."""
        seen.append([e.type for e in await store.read(ctx.run_id)])
        return q

    async def main() -> None:
        agent = hw.ReActAgent(model=ScriptedModel([[call("peek", {"q": "a"})], "Done."]), tools=[peek], store=store)
        await agent.call_async("Go.")
        await store.aclose()

    run(main)
    assert seen[0][-1] == "tool.start"


def test_a_log_that_cannot_be_written_ends_the_run_as_failed(tmp_path: Path) -> None:
    class Failing(hw.MemoryStore):
        appended = 0

        async def append(self, *args: object, **keywords: object) -> Appended:
            self.appended += 1
            if self.appended == 2:
                raise hw.StoreError("The disk is full.")
            return await super().append(*args, **keywords)  # pyright: ignore[reportArgumentType]

    async def main() -> None:
        agent = hw.ReActAgent(model=script(), tools=[look], store=Failing())
        with pytest.raises(hw.RunError, match="disk is full"):
            await agent.call_async("Go.")

    run(main)


def test_none_goes_on_with_the_session_as_it_is() -> None:
    model = ScriptedModel(["a", "b"])

    async def main() -> None:
        agent = hw.SimpleAgent(model=model)
        await agent.call_async("one", session="s")
        await agent.call_async(None, session="s")
        assert len(model.requests[1].messages) == 2

    run(main)


def test_call_works_inside_a_running_loop() -> None:
    async def main() -> str:
        return hw.SimpleAgent(model=ScriptedModel(["Hello."])).call("Hi").text

    assert asyncio.run(main()) == "Hello."


def test_what_a_model_said_before_it_fell_silent_is_in_the_log_all_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        store = SQLiteStore(tmp_path / "x.db")
        model = ScriptedModel([[say("a", "b"), wait(asyncio.Event())]])
        stream = hw.SimpleAgent(model=model, store=store).stream("Hi")
        reader = asyncio.create_task(stream.response())
        async for event in store.tail(stream.run_id):
            if isinstance(event, hw.ReasonDeltaEvent) and event.text == "b":
                break
        await stream.cancel()
        with pytest.raises(hw.RunCancelled):
            await reader
        await store.aclose()

    run(main)
