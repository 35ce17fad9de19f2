"""Processes that die between a decision and its result: nothing hangs, no side effect happens blindly again."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

import headwater as hw
from headwater.core.decisions import Approve, Reject
from headwater.errors import DecisionError
from headwater.events import ToolCallEndEvent, ToolStatus
from headwater.messages import ToolMessage
from headwater.store import Appended, MemoryStore, RunInfo, SQLiteStore
from headwater.testing import ScriptedModel, check_events
from headwater.testing.scripted import call
from tests.agents import dying
from tests.agents.support import run
from tests.agents.test_approvals_hard import sendable
from tests.conftest import ROOT


def step(store: Path, ledger: Path, name: str) -> int:
    command = [sys.executable, "-m", "tests.agents.dying", str(store), str(ledger), name]
    return subprocess.run(command, cwd=ROOT, timeout=30, check=False).returncode


def lines_of(ledger: Path) -> list[str]:
    return ledger.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "ledger"
    path.touch()
    monkeypatch.setitem(dying.PLACE, "ledger", path)
    return path


class Blind(SQLiteStore):
    """Cannot tell which processes live."""

    async def run_info(self, run_id: str) -> RunInfo | None:
        info = await super().run_info(run_id)
        return None if info is None else msgspec.structs.replace(info, is_alive=None)


async def whole_log(agent: hw.ReActAgent) -> list[hw.AgentEvent]:
    (run_id,) = await agent.store.runs("s")
    return await agent.store.read(run_id)


@pytest.mark.parametrize("knows", [True, False], ids=["liveness is known", "unknown"])
@pytest.mark.parametrize("killer", ["transfer", "publish"])
def test_a_tool_that_was_running_when_its_process_died_is_run_again_only_if_that_is_safe(
    killer: str, knows: bool, tmp_path: Path, ledger: Path
) -> None:
    store = tmp_path / "store.db"
    assert step(store, ledger, killer) == 0
    assert step(store, ledger, "decided") == -signal.SIGKILL

    async def main() -> None:
        agent = dying.agent_of(SQLiteStore(store) if knows else Blind(store), "Done.", "Next.")
        before = await whole_log(agent)
        with pytest.raises(DecisionError) as caught:
            await agent.resume_async([Approve("a")], session="s")
        assert caught.value.kind == "already_decided"
        if not knows:
            with pytest.raises(DecisionError, match="recover=True") as caught:
                await agent.resume_async([Reject("b")], session="s")
            assert caught.value.kind == "running"
            with pytest.raises(DecisionError) as caught:
                await agent.call_async("Else.", session="s")
            assert caught.value.kind == "running"
        assert await whole_log(agent) == before
        session = await agent.load_session("s")
        assert [task.id for task in session.pending] == ["b"]

        response = await agent.resume_async([Reject("b")], session="s", recover=not knows)
        assert response.text == "Done."
        log = await whole_log(agent)
        check_events(log)
        messages = (await agent.load_session("s")).messages
        sendable(messages)
        results = {m.id: m.text for m in messages if isinstance(m, ToolMessage)}
        unknown = [e.call_id for e in log if isinstance(e, ToolCallEndEvent) and e.status is ToolStatus.UNKNOWN]
        if killer == "transfer":
            assert unknown == ["r1c1"]
            assert "not known" in results["a"]
            assert results["p"] == "published p"
            assert lines_of(ledger).count("transfer killer") == 1
        else:
            # The other one ran beside it; whether its end was still written is a matter of luck.
            assert unknown == ([] if results["a"] == "sent to a" else ["r1c1"])
            assert results["p"] == "published killer"
            assert lines_of(ledger).count("transfer a") == 1
            assert lines_of(ledger).count("publish killer") == 2
        assert (await agent.call_async("Go on.", session="s")).text == "Next."
        await agent.aclose()

    run(main)


def test_a_process_that_dies_after_any_event_of_a_resumed_segment_leaves_a_run_that_goes_on(
    tmp_path: Path, ledger: Path
) -> None:
    asked = tmp_path / "asked.db"
    assert step(asked, ledger, "suspend") == 0
    position = 0
    while True:
        store = tmp_path / f"store{position}.db"
        for path in tmp_path.glob("asked.db*"):
            shutil.copy(path, tmp_path / path.name.replace("asked", f"store{position}"))
        ledger.write_text("")
        code = step(store, ledger, str(position))
        if code == 0:
            break
        assert code == -signal.SIGKILL

        async def main(path: Path = store) -> None:
            agent = dying.agent_of(path, "Done.", "Next.")
            waiting = (await agent.load_session("s")).pending
            decisions = [Approve(task.call_id) for task in waiting]
            await agent.resume_async(decisions, session="s")
            log = await whole_log(agent)
            check_events(log)
            session = await agent.load_session("s")
            assert not session.is_pending
            assert not session.run_id
            assert len(session.messages) == 6
            sendable(session.messages)
            lines = lines_of(ledger)
            assert lines.count("transfer a") <= 1
            assert lines.count("transfer b") <= 1
            ends = {e.call_id: e for e in log if isinstance(e, ToolCallEndEvent)}
            for name, call_id in (("a", "r1c1"), ("b", "r1c2")):
                if ends[call_id].status is ToolStatus.OK:
                    assert lines.count(f"transfer {name}") == 1
                else:
                    assert ends[call_id].status is ToolStatus.UNKNOWN
            assert ends["r1c3"].status is ToolStatus.OK
            assert (await agent.call_async("Go on.", session="s")).text in ("Next.", "Done.")
            await agent.aclose()

        run(main)
        position += 1
    assert position > 15


class Slow(MemoryStore):
    """A store in which the next append waits."""

    def __init__(self) -> None:
        super().__init__()
        self.gate: asyncio.Event | None = None
        self.arrived = asyncio.Event()

    async def append(self, run_id: str, events: Sequence[hw.AgentEvent], **settings: Any) -> Appended:
        gate, self.gate = self.gate, None
        if gate is not None:
            self.arrived.set()
            await gate.wait()
        return await super().append(run_id, events, **settings)


@pytest.mark.parametrize("session", ["s", None])
def test_who_is_overtaken_before_its_first_word_runs_nothing_and_stores_nothing(session: str | None) -> None:
    ran: list[str] = []

    @hw.tool(requires_approval=True)
    async def gate(name: str) -> str:
        """Gate."""
        ran.append(name)
        return name

    async def main() -> None:
        store = Slow()
        # Two places: the two agents do not know of each other's turn, like two processes.
        first = hw.ReActAgent(
            model=ScriptedModel([[call("gate", {"name": "x"}, id="x")], "Lost."]), tools=[gate], store=store
        )
        second = hw.ReActAgent(model=ScriptedModel(["Won."]), tools=[gate], store=other(store))
        waiting = await first.call_async("Go.", session=session)
        release = store.gate = asyncio.Event()
        target: dict[str, Any] = {"session": session} if session else {"run_id": waiting.run_id}
        overtaken = asyncio.create_task(first.resume_async([Approve("x")], **target))
        await store.arrived.wait()
        assert (await second.resume_async([Approve("x")], **target)).text == "Won."
        release.set()
        with pytest.raises(hw.RunError, match="epoch"):
            await overtaken
        assert ran == ["x"]
        log = await store.read(waiting.run_id)
        check_events(log)
        assert isinstance(log[-1], hw.RunEndEvent)
        assert log[-1].response.text == "Won."
        if session:
            messages = (await first.load_session(session)).messages
            assert len(messages) == 4
            sendable(messages)

    run(main)


def other(store: MemoryStore) -> MemoryStore:
    """The same store as another object."""
    twin = MemoryStore()
    vars(twin).update(vars(store))
    return twin


def test_who_comes_while_a_decided_call_runs_elsewhere_disturbs_nothing() -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    @hw.tool(requires_approval=True)
    async def hold(name: str) -> str:
        """Hold."""
        entered.set()
        await leave.wait()
        return name

    async def main() -> None:
        store = MemoryStore()
        calls = [call("hold", {"name": "x"}, id="x"), call("hold", {"name": "y"}, id="y")]
        first = hw.ReActAgent(model=ScriptedModel([calls]), tools=[hold], store=store)
        second = hw.ReActAgent(model=ScriptedModel(["Done."]), tools=[hold], store=other(store))
        await first.call_async("Go.", session="s")
        running = asyncio.create_task(first.resume_async([Approve("x")], session="s"))
        await entered.wait()
        kinds: list[str] = []
        for decision in (Approve("x"), Approve("y")):
            with pytest.raises(DecisionError) as caught:
                await second.resume_async([decision], session="s")
            kinds.append(caught.value.kind)
        assert kinds == ["already_decided", "running"]
        leave.set()
        assert [task.id for task in (await running).pending] == ["y"]
        assert (await second.resume_async([Approve("y")], session="s")).text == "Done."

    run(main)
