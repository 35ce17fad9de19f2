"""Cancels at odd moments: before the run has begun, while it waits, from within its tools, by the end of the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.chat.events import ModelEvent, TextDelta
from headwater.chat.request import ModelRequest
from headwater.messages import AssistantMessage, Message
from headwater.store.sqlite import SQLiteStore
from headwater.testing import ScriptedModel
from headwater.testing.laws import check_events
from headwater.testing.scripted import call, say, wait
from tests.agents.support import run


@hw.tool
async def look(q: str) -> str:
    """Look."""
    await asyncio.sleep(0)
    return q


@hw.tool(effect="read")
async def peek(q: str) -> str:
    """Peek."""
    await asyncio.sleep(0)
    return q


@hw.tool
def think(q: str) -> str:
    """Think."""
    return q


def script() -> ScriptedModel:
    return ScriptedModel(
        [
            [say("Hm. "), call("look", {"q": "a"}), call("peek", {"q": "b"}), call("think", {"q": "c"})],
            [say("Do", "ne.")],
        ]
    )


def end_of(events: Sequence[hw.AgentEvent]) -> hw.RunEndEvent:
    last = events[-1]
    assert isinstance(last, hw.RunEndEvent)
    return last


def test_a_task_cancelled_after_any_turn_of_the_loop_leaves_a_whole_log_and_a_free_session(tmp_path: Path) -> None:
    async def cancelled_after(turns: int) -> bool:
        store = SQLiteStore(tmp_path / f"{turns}.db")
        agent = hw.ReActAgent(model=script(), tools=[look, peek, think], store=store)

        async def consume() -> None:
            async with agent.stream("Go.", session="s") as stream:
                async for _ in stream:
                    pass

        task = asyncio.create_task(consume())
        for _ in range(turns):
            await asyncio.sleep(0)
        was_done = task.done()
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            assert not was_done
        for run_id in await store.runs("s"):
            log = await store.read(run_id)
            check_events(log)
            assert end_of(log).outcome in (hw.Outcome.CANCELLED, hw.Outcome.COMPLETED)
        assert (await agent.call_async("More.", session="s", model=ScriptedModel(["Yes."]))).text == "Yes."
        await store.aclose()
        return was_done

    turns = 0
    while not run(lambda n=turns: cancelled_after(n)):
        turns += 1 if turns < 30 else 11
    assert turns > 20


def test_a_cancel_while_the_run_waits_for_its_session_ends_it_there() -> None:
    async def main() -> None:
        go, asked = asyncio.Event(), asyncio.Event()
        model = ScriptedModel([lambda _: (asked.set(), [say("One"), wait(go)])[1], "Two."])
        agent = hw.SimpleAgent(model=model)
        first = asyncio.create_task(agent.call_async("first", session="s"))
        await asked.wait()
        waiting = agent.stream("second", session="s")
        events: list[hw.AgentEvent] = []

        async def read() -> None:
            events.extend([e async for e in waiting])

        reader = asyncio.create_task(read())
        await asyncio.sleep(0)
        await waiting.cancel("enough")
        await reader
        assert [e.type for e in events] == ["run.start", "run.end"]
        check_events(events)
        end = end_of(events)
        assert end.outcome is hw.Outcome.CANCELLED
        assert end.error is not None
        assert end.error.message == "enough"
        go.set()
        await first
        assert len(model.requests) == 1
        assert len((await agent.load_session("s")).messages) == 2
        assert (await agent.call_async("third", session="s")).text == "Two."

    run(main)


@pytest.mark.parametrize("session", [None, "s"])
def test_a_run_cancelled_before_it_was_read_never_asks_the_model(session: str | None) -> None:
    async def main() -> None:
        model = ScriptedModel(["Never."])
        stream = hw.SimpleAgent(model=model).stream("Hi", session=session)
        await stream.cancel("changed my mind")
        await stream.cancel("again")
        events = [e async for e in stream]
        assert [e.type for e in events] == ["run.start", "run.end"]
        assert end_of(events).outcome is hw.Outcome.CANCELLED
        with pytest.raises(hw.RunCancelled, match="changed my mind"):
            await stream.response()
        assert model.requests == []

    run(main)


def test_two_tasks_that_begin_to_read_a_run_open_it_once(tmp_path: Path) -> None:
    async def main() -> None:
        model = ScriptedModel([[say("a", "b", "c")]])
        agent = hw.SimpleAgent(model=model, store=tmp_path / "x.db")
        stream = agent.stream("Hi", session="s")
        seen: list[int] = []

        async def read() -> None:
            async for event in stream:
                seen.append(event.seq)  # noqa: PERF401 the order in which all readers see them is what counts

        await asyncio.gather(read(), read(), read())
        assert seen == list(range(1, len(seen) + 1))
        assert len(model.requests) == 1
        await agent.aclose()

    run(main)


def test_a_reader_that_gives_up_while_opening_leaves_it_to_the_next(tmp_path: Path) -> None:
    async def main() -> None:
        agent = hw.SimpleAgent(model=ScriptedModel([[say("a", "b", "c")]]), store=tmp_path / "x.db")
        stream = agent.stream("Hi", session="s")
        first = asyncio.create_task(stream.next_batch())
        second = asyncio.create_task(stream.response())
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).text == "abc"
        with pytest.raises(asyncio.CancelledError):
            await first
        await agent.aclose()

    run(main)


def test_an_async_tool_may_cancel_its_own_run() -> None:
    async def main() -> None:
        streams: list[hw.Run] = []

        @hw.tool
        async def stop(q: str) -> str:
            """Stop."""
            await streams[0].cancel("by the tool")
            await asyncio.Event().wait()
            return q

        agent = hw.ReActAgent(model=ScriptedModel([[call("stop", {"q": "a"})]]), tools=[stop], thread_grace=60)
        streams.append(agent.stream("Go."))
        events = [e async for e in streams[0]]
        check_events(events)
        assert end_of(events).outcome is hw.Outcome.CANCELLED
        ends = [e for e in events if isinstance(e, hw.ToolCallEndEvent)]
        assert [e.status for e in ends] == [hw.ToolStatus.CANCELLED]

    run(main)


def test_a_synchronous_tool_may_cancel_its_own_run() -> None:
    streams: list[hw.SyncRun] = []

    @hw.tool
    def stop(q: str, ctx: hw.ToolContext) -> str:
        """Stop."""
        streams[0].cancel("by the tool")
        while True:  # as a tool in the middle of its work does
            ctx.raise_if_cancelled()

    agent = hw.ReActAgent(model=ScriptedModel([[call("stop", {"q": "a"})]]), tools=[stop], thread_grace=60)
    with agent.stream("Go.") as stream:
        streams.append(stream)
        events = list(stream)
    assert end_of(events).outcome is hw.Outcome.CANCELLED
    ends = [e for e in events if isinstance(e, hw.ToolCallEndEvent)]
    assert [e.status for e in ends] == [hw.ToolStatus.CANCELLED]


def test_a_tool_that_would_wait_for_its_own_run_is_told_so() -> None:
    async def main() -> None:
        streams: list[hw.Run] = []

        @hw.tool
        async def ask(q: str) -> str:
            """Ask."""
            return (await streams[0].response()).text

        model = ScriptedModel([[call("ask", {"q": "a"})], lambda r: r.messages[-1].text])
        agent = hw.ReActAgent(model=model, tools=[ask])
        streams.append(agent.stream("Go."))
        assert "cannot wait for the response of the run" in (await streams[0].response()).text

    run(main)


def test_a_tool_that_would_wait_for_the_session_of_its_own_run_is_told_so() -> None:
    async def main() -> None:
        inner = hw.SimpleAgent(model=ScriptedModel(["Elsewhere."]))

        @hw.tool
        async def nest(session: str) -> str:
            """Nest."""
            return (await agent.call_async("inner", session=session, model=inner.settings.model)).text

        calls = [call("nest", {"session": "s"}), call("nest", {"session": "t"})]
        model = ScriptedModel([calls, lambda r: "|".join(m.text for m in r.messages[-2:])])
        agent = hw.ReActAgent(model=model, tools=[nest])
        refused, answered = (await agent.call_async("Go.", session="s")).text.split("|")
        assert "held by the run that this code belongs to" in refused
        assert answered == "Elsewhere."

    run(main)


class FromWithin:
    """A model that raises a cancellation of its own."""

    name = "within"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
        yield [TextDelta("a")]
        raise asyncio.CancelledError


def test_a_cancellation_that_a_model_makes_up_fails_the_run_and_does_not_hang_it() -> None:
    async def main() -> None:
        with pytest.raises(hw.RunError, match="was cancelled, and not by the run"):
            await hw.SimpleAgent(model=FromWithin()).call_async("Hi")

    run(main)


class Deaf:
    """A model that does not end when it is cancelled, until it is let go."""

    name = "deaf"

    def __init__(self) -> None:
        self.let_go = asyncio.Event()
        self.over = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
        yield [TextDelta("a")]
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                continue
        self.over.set()


def test_a_model_that_does_not_end_is_waited_for_no_longer_than_a_tool() -> None:
    async def main() -> None:
        model = Deaf()
        agent = hw.ReActAgent(model=model, thread_grace=0.05)
        async with agent.stream("Hi") as stream:
            async for piece in stream.text():
                assert piece == "a"
                break
        assert stream.is_over
        model.let_go.set()
        await model.over.wait()
        await asyncio.sleep(0)

    run(main)


class Broken:
    """A model whose events are none."""

    name = "broken"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
        yield [TextDelta("a")]
        yield Odd()
        await asyncio.Event().wait()


class Odd(list[ModelEvent]):
    """A batch that fails when it is read."""

    def __iter__(self) -> Any:
        raise ZeroDivisionError


def test_what_breaks_the_machine_itself_is_raised_and_leaves_nothing_behind() -> None:
    async def main() -> None:
        agent = hw.SimpleAgent(model=Broken())
        stream = agent.stream("Hi", session="s")
        with pytest.raises(ZeroDivisionError):
            await anext(e async for e in stream if e.type == "run.end")
        assert stream.is_over
        with pytest.raises(ZeroDivisionError):
            await stream.response()
        assert (await agent.call_async("Again.", session="s", model=ScriptedModel(["Yes."]))).text == "Yes."

    run(main)


class Slow(hw.MemoryStore):
    """The first commit is written before its caller hears of it, or not at all; it never hears of it."""

    def __init__(self, writes: bool) -> None:
        super().__init__()
        self.writes = writes
        self.committing = asyncio.Event()

    async def commit(
        self,
        session_id: str,
        expected_version: int,
        *,
        append: Sequence[Message] = (),
        data: dict[str, Any] | None = None,
    ) -> int:
        if not self.committing.is_set():
            self.committing.set()
            if self.writes:
                await super().commit(session_id, expected_version, append=append, data=data)
            await asyncio.Event().wait()
        return await super().commit(session_id, expected_version, append=append, data=data)


@pytest.mark.parametrize("writes", [False, True])
def test_a_loop_whose_tasks_are_all_cancelled_during_the_commit_stores_the_messages_once(writes: bool) -> None:
    async def main() -> None:
        store = Slow(writes)
        agent = hw.SimpleAgent(model=ScriptedModel(["a"]), store=store)
        task = asyncio.create_task(agent.call_async("x", session="s"))
        await store.committing.wait()
        for other in asyncio.all_tasks() - {asyncio.current_task()}:
            other.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [m.text for m in (await store.load("s")).messages] == ["x", "a"]
        [run_id] = await store.runs()
        assert end_of(await store.read(run_id)).outcome is hw.Outcome.COMPLETED

    run(main)


def test_a_commit_that_is_cancelled_before_it_has_begun_is_made_all_the_same() -> None:
    async def main() -> None:
        agent = hw.SimpleAgent(model=ScriptedModel(["a"]))
        stream = agent.stream("x", session="s")
        async for event in stream:
            if isinstance(event, hw.ReasonEndEvent):
                break
        [commit] = asyncio.all_tasks() - {asyncio.current_task()}
        commit.cancel()
        assert (await stream.response()).text == "a"
        assert len((await agent.load_session("s")).messages) == 2

    run(main)


@pytest.mark.parametrize("held", [False, True])
def test_a_run_that_is_left_when_its_loop_ends_is_closed_and_frees_its_session(held: bool) -> None:
    agent = hw.SimpleAgent(model=ScriptedModel([["a", wait(asyncio.Event())], "Two."]))
    kept: list[hw.Run] = []

    async def leave() -> None:
        stream = agent.stream("x", session="s")
        if held:
            kept.append(stream)
        async for event in stream:
            if isinstance(event, hw.ReasonDeltaEvent) and event.text:
                return

    asyncio.run(leave())

    async def more() -> None:
        assert (await agent.call_async("y", session="s")).text == "Two."
        partial = (await agent.load_session("s")).messages[1]
        assert isinstance(partial, AssistantMessage)
        assert (partial.text, partial.interrupted) == ("a", True)

    run(more)


def test_a_session_whose_loop_was_closed_in_the_middle_of_a_run_is_free_again() -> None:
    agent = hw.SimpleAgent(model=ScriptedModel([["a"], "Two."]))

    async def leave() -> hw.Run:
        stream = agent.stream("x", session="s")
        await stream.__anext__()
        return stream

    loop = asyncio.new_event_loop()
    left = loop.run_until_complete(leave())
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    del left
    assert run(lambda: agent.call_async("y", session="s")).text == "Two."


def test_a_run_is_not_touched_from_another_event_loop() -> None:
    async def main() -> None:
        agent = hw.SimpleAgent(model=ScriptedModel([["a", wait(asyncio.Event())]]))
        stream = agent.stream("x")
        await stream.__anext__()
        problems: list[str] = []

        def elsewhere() -> None:
            for work in (stream.cancel, stream.response):
                with pytest.raises(hw.UsageError, match="another event loop") as caught:
                    asyncio.run(work())
                problems.append(str(caught.value))

        thread = threading.Thread(target=elsewhere)
        await asyncio.to_thread(lambda: (thread.start(), thread.join()))
        assert len(problems) == 2
        await stream.cancel()
        assert [e async for e in stream][-1].type == "run.end"

    run(main)
