"""Approvals survive the death of the process that waited."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

from headwater.chat.encode import RequestEncoder
from headwater.chat.profile import DEFAULT_PROFILE
from headwater.chat.request import ModelRequest, RequestOptions
from headwater.core.decisions import REJECTED
from headwater.messages import AssistantMessage, Message, ToolMessage
from headwater.store.sqlite import SQLiteStore
from headwater.testing import check_events
from tests.conftest import ROOT


def step(store: Path, ledger: Path, name: str, *, kill: bool) -> str:
    """Run one step in a process of its own; returns its line. With `kill` it then dies by SIGKILL."""
    command = [sys.executable, "-m", "tests.agents.approving", str(store), str(ledger), name]
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


def test_decisions_in_other_processes_run_each_approved_tool_once_with_what_was_approved(tmp_path: Path) -> None:
    store, ledger = tmp_path / "store.db", tmp_path / "ledger"
    assert step(store, ledger, "suspend", kill=True) == "suspended"
    assert not ledger.exists()
    assert step(store, ledger, "first", kill=True) == "suspended c"
    assert ledger.read_text() == "a 7\n"
    assert step(store, ledger, "second", kill=False) == "completed Paid."
    assert ledger.read_text() == "a 7\nc 10\n"

    async def read() -> tuple[list[Message], list[str]]:
        opened = SQLiteStore(store)
        messages = list((await opened.load("s")).messages)
        (run_id,) = await opened.runs("s")
        log = await opened.read(run_id)
        check_events(log)
        await opened.aclose()
        return messages, [event.type for event in log]

    messages, kinds = asyncio.run(read())
    assert kinds.count("run.start") == kinds.count("run.end") == 3
    assert kinds.count("reason.start") == 2
    results = [(m.id, m.text) for m in messages if isinstance(m, ToolMessage)]
    assert results == [("a", "sent 7 to a"), ("b", f"{REJECTED} Reason: not him"), ("c", "sent 10 to c")]
    turn = messages[1]
    assert isinstance(turn, AssistantMessage)
    assert turn.calls[0].args == {"to": "a", "amount": 7}
    body = RequestEncoder(DEFAULT_PROFILE, "m").body(ModelRequest(messages, (), RequestOptions(), {}))
    assert b"interrupted" not in body
