"""The bridge to synchronous code: threads, nesting, leaving, interrupts, forks and the interpreter's exit."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import headwater as hw
from headwater.drive.sync import run_sync
from headwater.testing import ScriptedModel
from headwater.testing.laws import check_events
from headwater.testing.scripted import call, fail, say, wait


def endless() -> hw.SimpleAgent:
    return hw.SimpleAgent(model=ScriptedModel([["a", "b", wait(asyncio.Event())]]))


def first_text(events: Iterator[hw.AgentEvent]) -> str:
    return next(e.text for e in events if isinstance(e, hw.ReasonDeltaEvent) and e.text)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
        assert not thread.is_alive()


def test_many_threads_call_at_once() -> None:
    def calls(number: int) -> list[str]:
        agent = hw.SimpleAgent(model=ScriptedModel([f"{number}.{n}" for n in range(20)]))
        return [agent.call("Hi").text for _ in range(20)]

    with ThreadPoolExecutor(20) as pool:
        results = list(pool.map(calls, range(20)))
    assert results == [[f"{number}.{n}" for n in range(20)] for number in range(20)]


def test_a_synchronous_tool_may_call_an_agent() -> None:
    inner = hw.SimpleAgent(model=ScriptedModel(["one", "two"]))

    @hw.tool
    def delegate(q: str) -> str:
        """Delegate."""
        return inner.call(q).text

    model = ScriptedModel([[call("delegate", {"q": "a"}), call("delegate", {"q": "b"})], "Done."])
    assert hw.ReActAgent(model=model, tools=[delegate]).call("Go.").text == "Done."
    assert sorted(m.text for m in model.requests[1].messages[-2:]) == ["one", "two"]


def test_an_async_tool_that_would_block_the_loop_it_runs_on_is_told_so() -> None:
    inner = hw.SimpleAgent(model=ScriptedModel(["never"]))

    @hw.tool
    async def delegate(q: str) -> str:
        """Delegate."""
        return inner.call(q).text

    model = ScriptedModel([[call("delegate", {"q": "a"})], lambda r: r.messages[-1].text])
    assert "use `await agent.call_async(...)`" in hw.ReActAgent(model=model, tools=[delegate]).call("Go.").text


def test_what_was_not_read_in_the_block_is_read_after_it() -> None:
    with endless().stream("x") as stream:
        events = iter(stream)
        assert first_text(events) == "a"
    rest = list(stream)
    assert rest[-1].type == "run.end"
    with pytest.raises(hw.UsageError, match="read to its end"):
        iter(stream)
    with pytest.raises(hw.RunCancelled):
        stream.response()
    stream.cancel()


def test_the_block_is_entered_once_and_needed() -> None:
    agent = endless()
    with agent.stream("x") as stream, pytest.raises(hw.UsageError, match="entered already"):
        stream.__enter__()
    never_entered = hw.SyncRun(agent.stream("x"))
    with pytest.raises(hw.UsageError, match="inside its `with` block"):
        next(iter(never_entered))


def test_a_failure_is_raised_once_after_all_events() -> None:
    error = hw.ModelHTTPError("No.", kind="http_error", status=400)
    with hw.SimpleAgent(model=ScriptedModel([[say("a"), fail(error)]])).stream("x") as stream:
        events: list[hw.AgentEvent] = []
        with pytest.raises(hw.ModelHTTPError, match="No"):
            events.extend(stream)
        with pytest.raises(hw.UsageError, match="read to its end"):
            iter(stream)
        with pytest.raises(hw.ModelHTTPError):
            stream.response()


def test_a_loop_left_early_ends_the_run() -> None:
    model = ScriptedModel([["a", "b", wait(asyncio.Event())]] * 2)
    agent = hw.SimpleAgent(model=model)
    for event in agent.stream("x", session="s"):
        if isinstance(event, hw.ReasonDeltaEvent) and event.text:
            break
    for piece in agent.stream("x", session="s").text():
        assert piece == "a"
        break
    assert model.closed == 2


def test_what_a_loop_leaves_in_a_block_is_read_by_the_next_one() -> None:
    agent = hw.SimpleAgent(model=ScriptedModel([[say("Once upon a time.", cut=1)]]))
    with agent.stream("x") as stream:
        events: list[hw.AgentEvent] = []
        while not events or not isinstance(events[-1], hw.RunEndEvent):
            for event in stream:
                events.append(event)
                break
    check_events(events)
    assert "".join(e.text for e in events if isinstance(e, hw.ReasonDeltaEvent)) == "Once upon a time."


def test_an_exception_in_the_block_ends_the_run_and_passes() -> None:
    model = ScriptedModel([["a", wait(asyncio.Event())]])

    def read() -> None:
        with hw.SimpleAgent(model=model).stream("x") as stream:
            assert first_text(iter(stream)) == "a"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read()
    assert model.closed == 1


def test_a_generator_collected_on_the_loops_own_thread_ends_its_run() -> None:
    model = ScriptedModel([["a", wait(asyncio.Event())]])

    class Cycle:
        def __init__(self) -> None:
            self.itself = self
            self.events = iter(hw.SimpleAgent(model=model).stream("x"))
            assert first_text(self.events) == "a"

    async def collect() -> None:
        gc.collect()

    gc.collect()
    gc.disable()
    try:
        Cycle()
        run_sync(collect)
    finally:
        gc.enable()
    assert hw.SimpleAgent(model=ScriptedModel(["Alive."])).call("x").text == "Alive."
    for thread in threading.enumerate():
        if thread.name == "headwater-loop":
            thread.join(5)
    assert model.closed == 1


def test_sys_exit_in_an_async_tool_reaches_the_caller() -> None:
    @hw.tool
    async def leave(q: str) -> str:
        """Leave."""
        sys.exit(q)

    agent = hw.ReActAgent(model=ScriptedModel([[call("leave", {"q": "bye"})]]), tools=[leave])
    with pytest.raises(SystemExit, match="bye"):
        agent.call("Go.")
    assert hw.SimpleAgent(model=ScriptedModel(["Alive."])).call("x").text == "Alive."


def test_events_are_all_there_and_in_order() -> None:
    with hw.SimpleAgent(model=ScriptedModel([[say(*"abcdefghij" * 100)]])).stream("x", buffer=1) as stream:
        events = list(stream)
    check_events(events)


def script(text: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a new interpreter, warnings being errors."""
    head = """
        import asyncio, os, signal, sys
        import headwater as hw
        from headwater.testing import ScriptedModel
        from headwater.testing.scripted import say, wait
        endless = hw.SimpleAgent(model=ScriptedModel([["a", wait(asyncio.Event())]]))
    """
    source = textwrap.dedent(head) + textwrap.dedent(text)
    command = [sys.executable, "-X", "dev", "-W", "error", "-W", "ignore::DeprecationWarning", "-c", source]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize(
    "held",
    ["held = iter(endless.stream('x')); next(held)", "held = endless.stream('x').__enter__(); next(iter(held))"],
)
def test_a_run_that_is_held_when_the_interpreter_ends_does_not_hang_it(held: str) -> None:
    done = script(f"{held}\nprint('over')")
    assert (done.returncode, done.stdout) == (0, "over\n"), done.stderr
    assert done.stderr == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("session", ["None", "'s'"])
def test_a_forked_child_calls_agents_while_the_parent_streams(session: str) -> None:
    done = script(f"""
        agent = hw.SimpleAgent(model=ScriptedModel([["a", wait(asyncio.Event())], "Child."]))
        with agent.stream("x", session={session}) as stream:
            next(iter(stream))
            pid = os.fork()
            if pid == 0:
                signal.alarm(10)
                os._exit(0 if agent.call("y", session={session}).text == "Child." else 3)
            assert os.waitpid(pid, 0)[1] == 0
        print("over")
    """)
    assert (done.returncode, done.stdout) == (0, "over\n"), done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals of this kind are POSIX")
@pytest.mark.parametrize("how", ["list(agent.stream('x', session='s'))", "agent.call('x', session='s')"])
def test_an_interrupt_ends_the_run_and_keeps_what_there_was(how: str) -> None:
    done = script(f"""
        def hit(request):
            os.kill(os.getpid(), signal.SIGINT)
            return [say("a"), wait(asyncio.Event())]
        agent = hw.SimpleAgent(model=ScriptedModel([hit]))
        try:
            {how}
        except KeyboardInterrupt:
            print("interrupted")
        messages = asyncio.run(agent.load_session("s")).messages
        print([m.text for m in messages])
    """)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("interrupted\n['x'"), done.stdout
