"""Several processes on one store: turns stay whole, and a killed process leaves a session that goes on."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

import headwater as hw
from headwater.core.record import rebuild
from headwater.messages import AssistantMessage, ToolMessage, UserMessage
from headwater.store.sqlite import SQLiteStore
from headwater.testing import ScriptedModel
from headwater.testing.laws import check_events
from tests.agents.support import run

TURNS = 8

HEAD = """
    import asyncio, os, signal, sys
    import headwater as hw
    from headwater.testing import ScriptedModel
    from headwater.testing.scripted import call
    path, who = sys.argv[1:]

    @hw.tool
    async def look(q: str) -> str:
        "Look."
        if q == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(0)
        return q
"""


def start(path: Path, who: str, body: str) -> subprocess.Popen[bytes]:
    source = textwrap.dedent(HEAD) + textwrap.dedent(body)
    return subprocess.Popen([sys.executable, "-W", "error", "-c", source, str(path), who])


def test_processes_that_talk_in_one_session_keep_each_others_turns_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    talk = f"""
        replies = [r for n in range({TURNS}) for r in ([call("look", {{"q": f"{{who}}{{n}}"}})], f"{{who}}{{n}}")]
        agent = hw.ReActAgent(model=ScriptedModel(replies), tools=[look], store=path)
        for n in range({TURNS}):
            agent.call(f"{{who}}{{n}}", session="s")
    """
    processes = [start(path, who, talk) for who in "ABC"]
    try:
        assert [process.wait(60) for process in processes] == [0, 0, 0]
    finally:
        for process in processes:
            process.kill()

    async def look_back() -> None:
        store = SQLiteStore(path)
        messages = (await store.load("s")).messages
        turns = [messages[i : i + 4] for i in range(0, len(messages), 4)]
        assert sorted(turn[0].text for turn in turns) == [f"{who}{n}" for who in "ABC" for n in range(TURNS)]
        for question, asked, result, answer in turns:
            assert isinstance(question, UserMessage)
            assert isinstance(asked, AssistantMessage)
            assert isinstance(result, ToolMessage)
            assert isinstance(answer, AssistantMessage)
            assert result.text == answer.text == question.text
        for run_id in await store.runs("s"):
            check_events(await store.read(run_id))
        await store.aclose()

    run(look_back)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_a_session_goes_on_after_its_process_was_killed_in_the_middle_of_a_call(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    die = """
        replies = ["One.", [call("look", {"q": "die"})], "Never."]
        agent = hw.ReActAgent(model=ScriptedModel(replies), tools=[look], store=path)
        agent.call("first", session="s")
        agent.call("second", session="s")
    """
    with start(path, "", die) as dying:
        try:
            assert dying.wait(60) == -signal.SIGKILL
        finally:
            dying.kill()

    async def go_on() -> None:
        agent = hw.SimpleAgent(model=ScriptedModel(["Three."]), store=path)
        assert (await agent.call_async("third", session="s")).text == "Three."
        assert [m.text for m in (await agent.load_session("s")).messages] == ["first", "One.", "third", "Three."]
        # What had begun is known: the log ends with the start of the call, which nobody knows the end of.
        killed = (await agent.store.runs("s"))[1]
        log = await agent.store.read(killed)
        assert log[-1].type == "tool.start"
        assert rebuild(log).running == {"r1c1"}
        await agent.aclose()

    run(go_on)


def test_an_agent_works_in_a_loop_of_each_call_and_in_threads(tmp_path: Path) -> None:
    agent = hw.SimpleAgent(model=ScriptedModel(["a"] * 12), store=tmp_path / "x.db")
    for _ in range(3):
        asyncio.run(agent.call_async("Hi", session="s"))
        agent.call("Hi", session="s")

    async def more() -> None:
        await asyncio.gather(*(asyncio.to_thread(agent.call, "Hi", session="s") for _ in range(6)))
        assert len((await agent.load_session("s")).messages) == 24
        await agent.aclose()

    run(more)


HOLDING = """
    @hw.tool
    async def take_long() -> str:
        "Take long."
        print("began", flush=True)
        sys.stdin.readline()
        return "long"

    model = ScriptedModel([[call("take_long")], "A."])
    agent = hw.ReActAgent(model=model, tools=[take_long], store=path)
    print(agent.call("first", session="s").text, flush=True)
"""


@contextmanager
def holding(path: Path) -> Generator[subprocess.Popen[str]]:
    """A process whose run is inside a tool until it gets a line, or dies."""
    source = textwrap.dedent(HEAD) + textwrap.dedent(HOLDING)
    command = [sys.executable, "-W", "error", "-c", source, str(path), ""]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "began\n"
            yield process
        finally:
            process.kill()


def test_a_session_in_use_by_another_process_is_waited_for_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.db"

    async def main() -> None:
        model = ScriptedModel(["B.", "B."])
        agent = hw.SimpleAgent(model=model, store=path)
        with holding(path) as other:
            with pytest.raises(hw.SessionBusy, match="another process"):
                await agent.call_async("second", session="s", on_busy="refuse")
            waiting = asyncio.create_task(agent.call_async("second", session="s"))
            assert (await agent.call_async("else", session="s2")).text == "B.", "other sessions are free"
            assert not waiting.done()
            assert len(model.requests) == 1
            assert other.stdin is not None
            other.stdin.write("\n")
            other.stdin.flush()
            assert (await waiting).text == "B."
        messages = (await agent.load_session("s")).messages
        assert [m.text for m in messages] == ["first", "", "long", "A.", "second", "B."]
        await agent.aclose()

    run(main)


def test_a_run_that_waits_for_another_process_can_be_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "x.db"

    async def main() -> None:
        agent = hw.SimpleAgent(model=ScriptedModel(["B."]), store=path)
        with holding(path):
            stream = agent.stream("second", session="s")
            reading = asyncio.create_task(stream.response())
            await asyncio.sleep(0)
            await stream.cancel("enough")
            with pytest.raises(hw.RunCancelled, match="enough"):
                await reading
        assert (await agent.call_async("third", session="s")).text == "B.", "the other one was killed"
        await agent.aclose()

    run(main)


def test_who_resumes_a_run_of_a_dead_process_need_not_say_that_it_is_dead(tmp_path: Path) -> None:
    path = tmp_path / "x.db"

    async def main() -> None:
        @hw.tool(effect="read")
        def take_long() -> str:
            """Take long."""
            return "again"

        agent = hw.ReActAgent(model=ScriptedModel(["Recovered."]), tools=[take_long], store=path)
        with holding(path) as other:
            [run_id] = await agent.store.runs("s")
            info = await agent.store.run_info(run_id)
            assert info is not None
            assert info.is_alive
            other.kill()
        response = await agent.resume_async([], session="s")
        assert response.text == "Recovered."
        assert response.run_id == run_id
        check_events(await agent.store.read(run_id))
        messages = (await agent.load_session("s")).messages
        assert [m.text for m in messages] == ["first", "", "again", "Recovered."]
        await agent.aclose()

    run(main)
