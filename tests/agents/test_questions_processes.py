"""Questions survive the death of the process that asked, and are answered from the log alone."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import headwater as hw
from headwater.core.decisions import Approve, Respond
from headwater.messages import ToolMessage
from headwater.testing import check_events
from tests.agents import asking
from tests.agents.support import run
from tests.agents.test_approvals_crashes import lines_of
from tests.agents.test_approvals_hard import sendable
from tests.conftest import ROOT


def step(store: Path, ledger: Path, name: str, *, kill: bool) -> str:
    """Run one step in a process of its own; returns its line. With `kill` it dies by SIGKILL."""
    command = [sys.executable, "-m", "tests.agents.asking", str(store), str(ledger), name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().strip()
            if kill:
                process.send_signal(signal.SIGKILL)
            process.wait(20)
            assert process.returncode == (-signal.SIGKILL if kill else 0)
        finally:
            process.kill()
    return line


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "ledger"
    path.touch()
    monkeypatch.setitem(asking.LEDGER, "path", path)
    return path


async def judged(agent: hw.ReActAgent) -> list[str]:
    """The results in the history, which can be sent; the whole log is lawful."""
    (run_id,) = await agent.store.runs("s")
    check_events(await agent.store.read(run_id))
    messages = (await agent.load_session("s")).messages
    sendable(messages)
    return [message.text for message in messages if isinstance(message, ToolMessage)]


def test_answers_in_other_processes_run_each_tool_to_its_effect_once(tmp_path: Path, ledger: Path) -> None:
    store = tmp_path / "store.db"
    assert step(store, ledger, "ask", kill=True) == "suspended a:How much for a? b:How much for b? c:"
    line = step(store, ledger, "first", kill=True)
    assert line == "suspended a:Really 7 for a? b:Really 9 for b? c:"
    assert step(store, ledger, "second", kill=True) == "suspended c:"
    assert ledger.read_text() == "a 7\n"
    assert step(store, ledger, "third", kill=False) == "completed Paid."
    assert ledger.read_text() == "a 7\nclose x\n"

    async def main() -> None:
        agent = asking.agent_of(store)
        results = await judged(agent)
        assert results[0] == "sent 7 to a"
        assert results[1].endswith("(Really 9 for b?) and went no further: the answer was refused. Reason: too much")
        assert results[2] == "closed x"
        await agent.aclose()

    run(main)


def test_a_question_of_a_process_that_died_before_it_was_put_is_put_after_recovery(
    tmp_path: Path, ledger: Path
) -> None:
    store = tmp_path / "store.db"
    assert step(store, ledger, "die", kill=True) == ""

    async def main() -> None:
        agent = asking.agent_of(store, "Done.")
        response = await agent.resume_async([], session="s")
        assert [(task.id, task.question) for task in response.pending] == [("a", "How much for a?")]
        assert lines_of(ledger) == ["wait", "wait"]
        await agent.resume_async([Respond("a", "7")], session="s")
        assert (await agent.resume_async([Approve("a")], session="s")).text == "Done."
        assert await judged(agent) == ["sent 7 to a", "waited"]
        assert lines_of(ledger) == ["wait", "wait", "a 7"]
        await agent.aclose()

    run(main)
