"""Leaving a stream early ends the run: connection, tasks and tools are gone, and the session holds the truth."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from typing import Any

import pytest

import headwater as hw
from headwater.messages import AssistantMessage
from headwater.testing import ScriptedModel
from headwater.testing.laws import check_events
from headwater.testing.scripted import call, say, wait
from tests.agents.support import chunk, model_at, run
from tests.drive.server import Exchange, Server, stream_of

CLOSE_SECONDS = 0.05


class Endless:
    """An answer that says two pieces and then nothing, until the client leaves."""

    def __init__(self) -> None:
        self.closed_at: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def __call__(self, exchange: Exchange) -> None:
        await exchange.head()
        await exchange.chunk(chunk(content="Once upon "))
        await exchange.chunk(chunk(content="a time"))
        self.closed_at.set_result(await exchange.gone())


async def by_break_in_a_block(agent: hw.SimpleAgent) -> None:
    async with agent.stream("Tell.", session="s") as stream:
        async for piece in stream.text():
            if piece == "a time":
                break


async def by_break_in_a_bare_loop(agent: hw.SimpleAgent) -> None:
    async for event in agent.stream("Tell.", session="s"):
        if isinstance(event, hw.ReasonDeltaEvent) and event.text == "a time":
            break


async def by_break_in_a_bare_text_loop(agent: hw.SimpleAgent) -> None:
    async for piece in agent.stream("Tell.", session="s").text():
        if piece == "a time":
            break


async def by_cancel(agent: hw.SimpleAgent) -> None:
    async with agent.stream("Tell.", session="s") as stream:
        async for piece in stream.text():
            if piece == "a time":
                await stream.cancel()
                rest = [e async for e in stream]
                assert rest[-1].type == "run.end"


async def by_an_exception(agent: hw.SimpleAgent) -> None:
    async def reader() -> None:
        async with agent.stream("Tell.", session="s") as stream:
            async for piece in stream.text():
                if piece == "a time":
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await reader()


async def by_cancelling_the_task(agent: hw.SimpleAgent) -> None:
    seen = asyncio.Event()

    async def reader() -> None:
        async with agent.stream("Tell.", session="s") as stream:
            async for piece in stream.text():
                if piece == "a time":
                    seen.set()

    task = asyncio.create_task(reader())
    await seen.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


WAYS: list[Any] = [
    by_break_in_a_block,
    by_break_in_a_bare_loop,
    by_break_in_a_bare_text_loop,
    by_cancel,
    by_an_exception,
    by_cancelling_the_task,
]


@pytest.mark.parametrize("leave", WAYS)
def test_leaving_closes_the_connection_and_keeps_the_partial_text(leave: Any) -> None:
    async def main() -> None:
        endless = Endless()
        async with Server(endless, stream_of(chunk(content="The end."))) as server:
            agent = hw.SimpleAgent(model=model_at(server))
            threads = threading.active_count()
            await leave(agent)
            left_at = asyncio.get_running_loop().time()
            closed_at = await endless.closed_at
            assert closed_at - left_at < CLOSE_SECONDS
            # A bare loop is closed by its finalizer: the next run on the session waits for that.
            response = await agent.call_async("And then?", session="s")
            assert response.text == "The end."
            assert threading.active_count() == threads
            session = await agent.load_session("s")
            partial = session.messages[1]
            assert isinstance(partial, AssistantMessage)
            assert partial.text == "Once upon a time"
            assert partial.interrupted
            sent = json.loads(server.exchanges[1].body)["messages"]
            assert [m["role"] for m in sent] == ["user", "assistant", "user"]

    run(main)
    gc.collect()


@hw.tool
async def forever(city: str) -> str:
    """Never returns."""
    await asyncio.Event().wait()
    return city


def test_leaving_while_a_tool_runs_leaves_a_history_that_a_strict_endpoint_accepts() -> None:
    async def main() -> None:
        model = ScriptedModel([[say("Hm. "), call("forever", {"city": "Oslo"})], "Fine."])
        agent = hw.ReActAgent(model=model, tools=[forever])
        async with agent.stream("Go.", session="s") as stream:
            async for event in stream:
                if isinstance(event, hw.ToolCallStartEvent):
                    break
        assert stream.run_id
        assert (await agent.call_async("Again.", session="s")).text == "Fine."
        assert [type(m).__name__ for m in model.requests[1].messages] == [
            "UserMessage",
            "AssistantMessage",
            "ToolMessage",
            "UserMessage",
        ]

    run(main)


def make_model() -> ScriptedModel:
    return ScriptedModel(
        [
            [say("Let me see. "), call("read", {"q": "a"}, cut=4), call("write", {"q": "b"})],
            [say("And ", "done.")],
            "Next.",
        ]
    )


@hw.tool(effect="read")
async def read(q: str) -> str:
    """Read."""
    await asyncio.sleep(0)
    return q


@hw.tool
async def write(q: str, ctx: hw.ToolContext) -> str:
    """Write."""
    ctx.emit_progress({"half": True})
    await asyncio.sleep(0)
    return q


async def collect(position: int | None, how: str) -> list[hw.AgentEvent]:
    """Run to the event at `position`, then leave, cancel, or let the task be cancelled; returns all events."""
    model = make_model()
    agent = hw.ReActAgent(model=model, tools=[read, write])
    events: list[hw.AgentEvent] = []

    async def consume() -> None:
        async with agent.stream("Go.", session="s") as stream:
            try:
                async for event in stream:
                    events.append(event)
                    if len(events) == position:
                        if how == "cancel":
                            await stream.cancel()
                        elif how == "task":
                            task = asyncio.current_task()
                            assert task is not None
                            task.cancel()
                        else:
                            break
            finally:
                await stream.aclose()
                events.extend([e async for e in stream])

    task = asyncio.create_task(consume())
    try:
        await task
    except asyncio.CancelledError:
        assert how == "task"
    last = events[-1]
    assert isinstance(last, hw.RunEndEvent)
    check_events(events)
    assert model.closed == len(model.requests)
    session = await agent.load_session("s")
    roles = [m.__struct_config__.tag for m in session.messages]
    if position is None or last.outcome is hw.Outcome.COMPLETED:
        assert roles == ["user", "assistant", "tool", "tool", "assistant"]
    else:
        # whatever was cut, each call has its result
        assert roles.count("tool") in (0, 1, 2)
    model_next = ScriptedModel(["Next."])
    assert (await agent.call_async("More.", session="s", model=model_next)).text == "Next."
    return events


@pytest.mark.parametrize("how", ["break", "cancel", "task"])
def test_leaving_at_every_event_obeys_the_laws(how: str) -> None:
    total = len(run(lambda: collect(None, "break")))
    assert total > 25
    for position in range(1, total):
        run(lambda at=position: collect(at, how))


def test_call_equals_what_the_stream_ends_with() -> None:
    async def main() -> None:
        agent = hw.ReActAgent(model=make_model(), tools=[read, write])
        called = await agent.call_async("Go.")
        agent = hw.ReActAgent(model=make_model(), tools=[read, write])
        async with agent.stream("Go.") as stream:
            events = [e async for e in stream]
        last = events[-1]
        assert isinstance(last, hw.RunEndEvent)
        agent = hw.ReActAgent(model=make_model(), tools=[read, write])
        async with agent.stream("Go.") as stream:
            response = await stream.response()
        import msgspec

        plain = [msgspec.structs.replace(r, run_id="") for r in (called, last.response, response)]
        assert plain[0] == plain[1] == plain[2]

    run(main)


def test_cancelling_from_another_task_ends_the_run_under_its_reader() -> None:
    async def main() -> None:
        never = asyncio.Event()
        agent = hw.SimpleAgent(model=ScriptedModel([[say("Once"), wait(never)]]))
        stream = agent.stream("Tell.")
        said = asyncio.Event()
        events: list[hw.AgentEvent] = []

        async def reader() -> None:
            async for event in stream:
                events.append(event)
                if isinstance(event, hw.ReasonDeltaEvent) and event.has_text:
                    said.set()

        task = asyncio.create_task(reader())
        await said.wait()
        await stream.cancel("enough")
        await task
        last = events[-1]
        assert isinstance(last, hw.RunEndEvent)
        assert last.outcome is hw.Outcome.CANCELLED
        assert last.error is not None
        assert last.error.message == "enough"

    run(main)
