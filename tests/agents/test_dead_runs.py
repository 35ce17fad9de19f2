"""Runs whose process was killed: their readers are told, and whoever wants can end them."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import RunError
from headwater.testing import ScriptedModel, check_events
from tests.agents.killed import running
from tests.agents.support import run

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")


def test_a_run_whose_process_died_is_cancelled_with_its_turn_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with running(path) as other:
        other.kill()

    async def main() -> None:
        agent = hw.ReActAgent("bank", model=ScriptedModel(["Three."]), store=path)
        await agent.cancel(other.run_id, "nobody runs it")
        info = await agent.store.run_info(other.run_id)
        assert info is not None
        assert (info.state, info.outcome) == ("ended", hw.Outcome.CANCELLED)
        log = await agent.store.read(other.run_id)
        check_events(log)
        assert isinstance(log[-1], hw.RunEndEvent)
        assert log[-1].error is not None
        assert log[-1].error.message == "nobody runs it"
        await agent.cancel(other.run_id, "again")  # changes nothing
        assert await agent.store.read(other.run_id) == log

        await agent.call_async("Sure?", session="s")
        asked, said, result, *rest = (await agent.load_session("s")).messages
        assert (asked.text, said.text) == ("Hello.", "I will look.")
        assert "not known what became of this call" in result.text
        assert [message.text for message in rest] == ["Sure?", "Three."]
        await agent.aclose()

    run(main)


def test_a_reader_of_a_run_whose_process_dies_gets_what_is_there_and_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.db"

    async def main(other_run: str) -> None:
        agent = hw.ReActAgent("bank", model=ScriptedModel([]), store=path)
        seen: list[hw.AgentEvent] = []

        async def read_on() -> None:
            async for event in agent.attach(other_run):
                seen.append(event)
                if event.type == "tool.start":
                    other.kill()

        with pytest.raises(RunError, match="resume") as caught:
            await read_on()
        assert caught.value.kind == "process_died"
        assert seen == await agent.store.read(other_run)
        await agent.aclose()

    with running(path) as other:
        run(lambda: main(other.run_id))
