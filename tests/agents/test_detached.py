"""Detached runs: they outlive their readers, are read from anywhere, and leave nothing behind."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.agents.detached import detached_runs, end_detached, find_detached
from headwater.errors import DecisionError, UnknownRun
from headwater.events import AgentEvent, HITLPendingEvent, encode_event
from headwater.store.base import Store
from headwater.testing import ScriptedModel, call, check_events, say, think, wait
from tests.agents.support import run


@hw.tool
def weather(city: str) -> str:
    """Weather."""
    return f"{city}: 4 degrees"


@hw.tool(requires_approval=True)
def transfer(to: str) -> str:
    """Move money."""
    return f"sent to {to}"


STORES = ["memory", "sqlite"]


def make_store(kind: str, path: Path) -> Store:
    return hw.MemoryStore() if kind == "memory" else hw.SQLiteStore(path / "runs.db")


async def over(store: Store) -> None:
    """Nothing that was begun goes on, or will for long."""
    for left in detached_runs(store):
        assert await left.wait(5)
    assert detached_runs(store) == []


async def events_of(attached: Any) -> list[AgentEvent]:
    return [event async for event in attached]


@pytest.mark.parametrize("kind", STORES)
def test_start_returns_at_once_and_the_run_can_be_read_from_its_beginning(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store = make_store(kind, tmp_path)
        model = ScriptedModel([[think("hm"), call("weather", {"city": "Oslo"})], [say("Four ", "degrees.")]])
        agent = hw.ReActAgent(model=model, tools=[weather], store=store)
        run_id = agent.start("Weather?", session="s", owner="ann", labels={"ticket": 7})
        assert model.requests == []  # nothing has had a chance to happen
        events = await events_of(agent.attach(run_id))
        check_events(events)
        start = events[0]
        assert isinstance(start, hw.RunStartEvent)
        assert (start.owner, start.labels, start.origin.run_id) == ("ann", {"ticket": 7}, run_id)
        assert [piece async for piece in agent.attach(run_id).text()] == ["Four ", "degrees."]
        response = await agent.attach(run_id).response()
        assert (response.text, response.outcome) == ("Four degrees.", hw.Outcome.COMPLETED)
        assert [e.seq async for e in agent.attach(run_id, after=events[4].seq)] == [e.seq for e in events[5:]]
        ends = [e.text async for e in agent.attach(run_id).of_type(hw.ToolCallEndEvent)]
        assert ends == ["Oslo: 4 degrees"]
        await over(store)
        await agent.aclose()

    run(main)


@pytest.mark.parametrize("kind", STORES)
def test_a_reader_that_leaves_leaves_the_run_alone(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store = make_store(kind, tmp_path)
        gate = asyncio.Event()
        agent = hw.SimpleAgent(model=ScriptedModel([[say("one"), wait(gate), say("two")]]), store=store)
        run_id = agent.start("Tell.")
        async with agent.attach(run_id) as reader:
            async for piece in reader.text():
                assert piece == "one"
                break
        assert find_detached(store, run_id) is not None
        gate.set()
        assert (await agent.attach(run_id).response()).text == "onetwo"
        await agent.aclose()

    run(main)


def test_a_slow_reader_delays_neither_the_run_nor_a_fast_one() -> None:
    async def main() -> None:
        pieces = [f"{n} " for n in range(2000)]  # more than any buffer holds
        agent = hw.SimpleAgent(model=ScriptedModel([[say(*pieces)]]), store=":memory:")
        run_id = agent.start("Count.")
        slow = agent.attach(run_id)
        first = await anext(slow)
        fast = [piece async for piece in agent.attach(run_id).text()]
        assert fast == pieces
        await over(agent.store)
        rest = [event async for event in slow]
        check_events([first, *rest])

    run(main)


def test_two_readers_get_the_same_bytes() -> None:
    async def main() -> None:
        agent = hw.SimpleAgent(model=ScriptedModel([[think("a", "b"), say("c", "d")]]), store=":memory:")
        run_id = agent.start("x")
        one, two = await asyncio.gather(events_of(agent.attach(run_id)), events_of(agent.attach(run_id)))
        assert [encode_event(e) for e in one] == [encode_event(e) for e in two]

    run(main)


def test_an_agent_without_a_store_keeps_a_detached_run_in_memory() -> None:
    async def main() -> None:
        agent = hw.SimpleAgent(model=ScriptedModel(["Hi.", "Ho."]))
        run_id = agent.start("x")
        assert (await agent.attach(run_id).response()).text == "Hi."
        await agent.call_async("y")
        assert await agent.store.runs() == [run_id]

    run(main)


def test_a_failure_is_the_runs_end_and_is_raised_where_it_is_read() -> None:
    async def main() -> None:
        def refuse(request: Any) -> str:
            raise ValueError("no")

        agent = hw.SimpleAgent(model=ScriptedModel([refuse]), store=":memory:")
        run_id = agent.start("x")
        with pytest.raises(hw.RunError, match="no") as raised:
            await events_of(agent.attach(run_id))
        events = await agent.store.read(run_id)
        check_events(events)
        assert raised.value.run_end == events[-1]
        with pytest.raises(hw.RunError):
            await agent.attach(run_id).response()

    run(main)


def test_what_goes_wrong_before_the_first_request_is_in_the_log_too() -> None:
    async def main() -> None:
        gate = asyncio.Event()
        model = ScriptedModel([[wait(gate), say("a")], [call("transfer", {"to": "b"})]])
        agent = hw.ReActAgent(model=model, tools=[transfer], store=":memory:")
        first = agent.start("x", session="s")
        await anext(agent.attach(first))
        refused = agent.start("y", session="s", on_busy="refuse")
        with pytest.raises(hw.SessionBusy):
            await agent.attach(refused).response()
        gate.set()
        await agent.attach(first).response()
        waiting = agent.start("z", session="s")
        assert (await agent.attach(waiting).response()).outcome is hw.Outcome.SUSPENDED
        not_dismissed = agent.start("w", session="s", on_pending="refuse")
        with pytest.raises(hw.SessionBusy, match="waits for decisions"):
            await agent.attach(not_dismissed).response()
        await over(agent.store)

    run(main)


def test_wrong_settings_are_refused_at_once() -> None:
    agent = hw.SimpleAgent(model=ScriptedModel([]))
    with pytest.raises(hw.UsageError):
        agent.start("x", max_tokens=0)
    with pytest.raises(hw.UsageError):
        agent.attach("")
    with pytest.raises(hw.UsageError):
        agent.attach("run_x", after=-1)
    assert detached_runs(agent.store) == []


def test_an_unknown_run_is_no_endless_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.agents.attached.APPEARS_IN", 0.01)

    async def main() -> None:
        agent = hw.SimpleAgent(model=ScriptedModel([]), store=":memory:")
        with pytest.raises(UnknownRun, match="run_none"):
            await agent.attach("run_none").response()
        with pytest.raises(UnknownRun):
            await agent.cancel("run_none")

    run(main)


def test_a_run_that_waits_for_its_session_is_no_unknown_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.agents.attached.APPEARS_IN", 0.0)

    async def main() -> None:
        gate = asyncio.Event()
        agent = hw.SimpleAgent(model=ScriptedModel([[wait(gate), say("a")], "b"]), store=":memory:")
        agent.start("x", session="s")
        second = agent.start("y", session="s")
        reader = asyncio.create_task(agent.attach(second).response())
        await asyncio.sleep(0.01)
        gate.set()
        assert (await reader).text == "b"

    run(main)


@pytest.mark.parametrize("kind", STORES)
def test_cancel_ends_the_run_and_its_reader_sees_the_end(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store = make_store(kind, tmp_path)
        gate = asyncio.Event()
        agent = hw.SimpleAgent(model=ScriptedModel([[say("part"), wait(gate)]]), store=store)
        run_id = agent.start("x", session="s")
        reader = agent.attach(run_id)
        events = [await anext(reader) for _ in range(3)]
        await agent.cancel(run_id, "enough")
        await over(store)
        events += [event async for event in reader]
        check_events(events)
        end = events[-1]
        assert isinstance(end, hw.RunEndEvent)
        assert end.outcome is hw.Outcome.CANCELLED
        assert end.error is not None
        assert end.error.message == "enough"
        await agent.cancel(run_id)  # over: nothing changes
        assert len(await store.read(run_id)) == len(events)
        await agent.aclose()

    run(main)


def test_a_run_that_waits_for_a_person_can_be_cancelled() -> None:
    async def main() -> None:
        agent = hw.ReActAgent(model=ScriptedModel([[call("transfer", {"to": "b"})], "next"]), tools=[transfer])
        run_id = agent.start("x", session="s")
        suspended = await agent.attach(run_id).response()
        assert suspended.outcome is hw.Outcome.SUSPENDED
        await agent.cancel(run_id, "never mind")
        events = await agent.store.read(run_id)
        check_events(events)
        end = events[-1]
        assert isinstance(end, hw.RunEndEvent)
        assert end.outcome is hw.Outcome.CANCELLED
        assert not (await agent.load_session("s")).is_pending
        with pytest.raises(DecisionError):
            await agent.decide(run_id, [hw.Approve(suspended.pending[0].call_id)])
        assert (await agent.call_async("y", session="s")).text == "next"

    run(main)


@pytest.mark.parametrize("kind", STORES)
def test_decide_goes_on_detached_and_a_second_decision_is_refused(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store = make_store(kind, tmp_path)
        agent = hw.ReActAgent(
            model=ScriptedModel([[call("transfer", {"to": "b"})], "Sent."]), tools=[transfer], store=store
        )
        run_id = agent.start("x", session="s")
        events = await events_of(agent.attach(run_id))
        pending = next(e for e in events if isinstance(e, HITLPendingEvent))
        with pytest.raises(DecisionError):
            await agent.decide(run_id, [hw.Approve("nothing")])
        await agent.decide(run_id, [hw.Approve(pending.tasks[0].call_id, by="ann")])
        events += await events_of(agent.attach(run_id, after=events[-1].seq))
        check_events(events)
        assert (await agent.attach(run_id).response()).text == "Sent."
        with pytest.raises(DecisionError, match="already"):
            await agent.decide(run_id, [hw.Approve(pending.tasks[0].call_id)])
        await over(store)
        await agent.aclose()

    run(main)


def test_a_run_begun_inside_a_tool_is_no_part_of_the_outer_one() -> None:
    async def main() -> None:
        inner = hw.SimpleAgent(model=ScriptedModel(["inner"]), store=":memory:")
        started: list[str] = []

        @hw.tool
        async def begin() -> str:
            """Begin."""
            started.append(inner.start("go", session="s"))
            return (await inner.attach(started[0]).response()).text

        outer = hw.ReActAgent(model=ScriptedModel([[call("begin")], "done"]), tools=[begin], store=inner.store)
        # The same session: the inner run waits for the outer one's end, so it must not be waited for inside.
        response = await outer.call_async("x", session="other")
        assert response.text == "done"
        events = await inner.store.read(started[0])
        assert events[0].origin.parent_run_id == ""
        check_events(events)

    run(main)


def test_closing_the_agent_ends_what_goes_on() -> None:
    async def main() -> None:
        agent = hw.SimpleAgent(model=ScriptedModel([[say("a"), wait(asyncio.Event())]]), store=":memory:")
        run_id = agent.start("x")
        await anext(agent.attach(run_id))
        await agent.aclose()
        await over(agent.store)
        end = (await agent.store.read(run_id))[-1]
        assert isinstance(end, hw.RunEndEvent)
        assert end.outcome is hw.Outcome.CANCELLED

    run(main)


def test_what_ends_in_time_by_itself_is_let() -> None:
    async def main() -> None:
        gate = asyncio.Event()
        replies = [[wait(gate), say("a")], [wait(asyncio.Event())]]
        agent = hw.SimpleAgent(model=ScriptedModel(replies), store=":memory:")
        quick, endless = agent.start("x"), agent.start("y")
        await anext(agent.attach(endless))
        asyncio.get_running_loop().call_soon(gate.set)
        assert await end_detached(agent.store, wait=0.2) == [endless]
        assert (await agent.attach(quick).response()).text == "a"

    run(main)


def test_the_end_of_the_loop_ends_the_run_and_its_log_says_so(tmp_path: Path) -> None:
    agent = hw.SimpleAgent(model=ScriptedModel([[say("a"), wait(asyncio.Event())]]), store=tmp_path / "x.db")

    async def main() -> str:
        run_id = agent.start("x")
        async for event in agent.attach(run_id):
            if isinstance(event, hw.ReasonDeltaEvent) and event.has_text:
                break
        return run_id

    run_id = asyncio.run(main())
    assert detached_runs(agent.store) == []
    events = asyncio.run(hw.SQLiteStore(tmp_path / "x.db").read(run_id))
    check_events(events)
    end = events[-1]
    assert isinstance(end, hw.RunEndEvent)
    # Whichever of its tasks the end of the loop reached first.
    assert end.outcome in (hw.Outcome.CANCELLED, hw.Outcome.FAILED)


def test_synchronous_code_starts_and_reads_without_a_loop() -> None:
    agent = hw.SimpleAgent(model=ScriptedModel([[say("one ", "two")]]), store=":memory:")
    run_id = agent.start("x")
    with agent.attach(run_id) as reader:
        assert list(reader.text()) == ["one ", "two"]
        assert reader.response().text == "one two"
    assert [type(e) for e in agent.attach(run_id)][-1] is hw.RunEndEvent
    assert list(agent.attach(run_id).final_text()) == ["one ", "two"]
    deadline = time.monotonic() + 5
    while any(thread.name == "headwater-loop" for thread in threading.enumerate()):
        assert time.monotonic() < deadline, "the loop of synchronous code has nothing left to do"
        time.sleep(0.001)
    assert detached_runs(agent.store) == []


def test_a_run_begun_by_a_synchronous_call_outlives_it() -> None:
    inner = hw.SimpleAgent(model=ScriptedModel([[say("a"), say("b")]]), store=":memory:")
    started: list[str] = []

    @hw.tool
    async def begin() -> str:
        """Begin."""
        started.append(inner.start("go"))
        return "begun"

    outer = hw.ReActAgent(model=ScriptedModel([[call("begin")], "done"]), tools=[begin])
    assert outer.call("x").text == "done"
    with inner.attach(started[0]) as reader:
        assert reader.response().text == "ab"


def test_a_run_is_cancelled_from_another_thread_and_loop() -> None:
    agent = hw.SimpleAgent(model=ScriptedModel([[say("a"), wait(asyncio.Event())]]), store=":memory:")
    run_id = agent.start("x")  # on the loop of synchronous code
    asyncio.run(agent.cancel(run_id, "from afar"))
    assert detached_runs(agent.store) == []
    with pytest.raises(hw.RunCancelled, match="from afar"), agent.attach(run_id) as reader:
        reader.response()


def test_a_typed_answer_is_a_value_of_its_type_where_it_is_read_from_the_log() -> None:
    async def main() -> None:
        agent = hw.SimpleAgent(model=ScriptedModel(['{"value": [1, 2]}']), output_type=list[int], store=":memory:")
        run_id = agent.start("x")
        response = await agent.attach(run_id).response()
        assert response.output == [1, 2]
        assert [value async for value in agent.attach(run_id).partial()][-1] == [1, 2]

    run(main)


def test_another_process_reads_a_run_while_it_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    source = f"""
        import sys, headwater as hw
        from headwater.testing import ScriptedModel
        agent = hw.SimpleAgent(model=ScriptedModel([]), store={str(path)!r})
        with agent.attach(sys.argv[1]) as run:
            for piece in run.text():
                print(piece, flush=True)
            print(run.response().outcome)
    """

    async def main() -> None:
        gate = asyncio.Event()
        agent = hw.SimpleAgent(model=ScriptedModel([[say("one"), wait(gate), say("two")]]), store=path)
        run_id = agent.start("x")
        other = await asyncio.create_subprocess_exec(
            sys.executable, "-W", "error", "-c", textwrap.dedent(source), run_id, stdout=subprocess.PIPE
        )
        assert other.stdout is not None
        assert await other.stdout.readline() == b"one\n"  # while the run waits
        gate.set()
        assert await other.stdout.read() == b"two\ncompleted\n"
        assert await other.wait() == 0
        await agent.aclose()

    run(main)
