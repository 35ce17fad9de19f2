"""Several processes on one store: turns stay whole, and a killed process leaves a session that goes on."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
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
