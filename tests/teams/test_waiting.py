"""Members that ask a person: the team waits as one, and goes on anywhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.core.decisions import Approve, Reject
from headwater.errors import DecisionError
from headwater.events import AgentEvent, HITLDecidedEvent, NodeStartEvent
from headwater.teams import TeamAgent
from headwater.testing import check_events
from tests.agents.support import run
from tests.conftest import ROOT
from tests.teams.waiting import PAID, asking, deep, flat

Make = Callable[..., TeamAgent[Any]]


@pytest.fixture(autouse=True)
def _nobody_is_paid() -> None:
    PAID.clear()


async def log_of(store: hw.MemoryStore, run_id: str) -> list[AgentEvent]:
    return await store.read(run_id)


async def copied(events: Sequence[AgentEvent]) -> hw.MemoryStore:
    """A store whose log has just these events."""
    store = hw.MemoryStore()
    run_id = events[0].origin.root_run_id
    epoch = await store.open_epoch(run_id)
    await store.append(run_id, list(events), epoch=epoch, step="run", attempt=1, wseq=1)
    return store


@pytest.mark.parametrize("make", [flat, deep, asking])
def test_a_team_waits_when_its_members_do_and_goes_on_in_another_agent(make: Make) -> None:
    async def main() -> None:
        store = hw.MemoryStore()
        waiting = await make(store).call_async("Pay.", session="s")
        assert waiting.outcome is hw.Outcome.SUSPENDED
        assert PAID == []
        tasks = {task.args["to"]: task for task in waiting.pending}
        assert set(tasks) == {"ann", "bob"}
        assert tasks["ann"].path[-2:] == ("bank", "ann")
        assert len({task.call_id for task in waiting.pending}) == 2
        session = await make(store).load_session("s")
        assert session.is_pending
        assert [message.text for message in session.messages if isinstance(message, hw.UserMessage)] == ["Pay."]

        partly = await make(store).resume_async([Approve(tasks["ann"].call_id)], session="s")
        assert partly.outcome is hw.Outcome.SUSPENDED
        assert [task.call_id for task in partly.pending] == [tasks["bob"].call_id]
        assert PAID == ["ann"]
        with pytest.raises(DecisionError, match="decided already"):
            await make(store).resume_async([Approve(tasks["ann"].call_id)], session="s")

        response = await make(store).resume_async([Reject(tasks["bob"].call_id, "not him")], session="s")
        assert response.outcome is hw.Outcome.COMPLETED, response.error
        assert PAID == ["ann"]
        log = await log_of(store, response.run_id)
        check_events(log)
        assert [e.decision for e in log if isinstance(e, HITLDecidedEvent)] == ["approve", "reject"]
        again = [e for e in log if isinstance(e, NodeStartEvent) and e.member == "ann"]
        assert [e.attempt for e in again] == ([] if make is asking else [1, 2])
        assert len({e.run_id for e in log if isinstance(e, hw.RunStartEvent) and e.origin.agent == "ann"}) == 1
        session = await make(store).load_session("s")
        assert not session.is_pending
        assert session.messages[-1].text == response.text
        if make is not asking:
            path = "ann" if make is flat else "bank/ann"
            assert [m.text for m in session.members[path]][-1] == "ann: paid ann"

    run(main)


@pytest.mark.parametrize("make", [flat, deep, asking])
def test_a_new_prompt_dismisses_what_waits_anywhere_in_the_team(make: Make) -> None:
    async def main() -> None:
        store = hw.MemoryStore()
        waiting = await make(store).call_async("Pay.", session="s")
        response = await make(store).call_async("Do not.", session="s")
        assert response.outcome is hw.Outcome.SUSPENDED
        log = await log_of(store, waiting.run_id)
        check_events(log)
        assert isinstance(log[-1], hw.RunEndEvent)
        assert log[-1].outcome is hw.Outcome.REJECTED
        assert {e.decision for e in log if isinstance(e, HITLDecidedEvent)} == {"dismissed"}
        assert PAID == []

    run(main)


@pytest.mark.parametrize("make", [flat, deep, asking])
def test_a_team_goes_on_from_any_prefix_of_its_log_as_after_a_crash(make: Make) -> None:
    async def main() -> None:
        store = hw.MemoryStore()
        waiting = await make(store).call_async("Pay.")
        whole = await log_of(store, waiting.run_id)
        for count in range(1, len(whole) + 1):
            PAID.clear()
            left = await copied(whole[:count])
            response = await make(left).resume_async([], run_id=waiting.run_id, recover=True)
            assert response.outcome is hw.Outcome.SUSPENDED, (count, response)
            decisions = [Approve(task.call_id) for task in response.pending]
            response = await make(left).resume_async(decisions, run_id=waiting.run_id)
            assert response.outcome is hw.Outcome.COMPLETED, (count, response.error)
            assert sorted(PAID) == ["ann", "bob"], count
            check_events(await log_of(left, waiting.run_id))

    run(main, seconds=120)


@pytest.mark.parametrize("make", [flat, deep, asking])
def test_a_crash_while_decisions_are_carried_out_repeats_no_payment(make: Make) -> None:
    async def main() -> None:
        store = hw.MemoryStore()
        waiting = await make(store).call_async("Pay.")
        begun = len(await log_of(store, waiting.run_id))
        decisions = [Approve(task.call_id) for task in waiting.pending]
        await make(store).resume_async(decisions, run_id=waiting.run_id)
        whole = await log_of(store, waiting.run_id)
        for count in range(begun + 1, len(whole)):
            PAID.clear()
            left = await copied(whole[:count])
            run_id = waiting.run_id
            paid = {e.call_id for e in whole[:count] if isinstance(e, hw.ToolCallStartEvent) and e.tool_name == "pay"}
            decided = {e.call_id for e in whole[:count] if isinstance(e, HITLDecidedEvent)}
            rest = [one for one in decisions if one.call_id not in decided]
            response = await make(left).resume_async(rest, run_id=run_id, recover=True)
            assert response.outcome is hw.Outcome.COMPLETED, (count, response)
            assert len(PAID) == 2 - len(paid), count
            check_events(await log_of(left, run_id))

    run(main, seconds=120)


@pytest.mark.parametrize("name", ["flat", "deep", "asking"])
def test_decisions_reach_members_whose_process_was_killed(name: str, tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    command = [sys.executable, "-m", "tests.teams.waiting", path, name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "suspended"
        finally:
            process.kill()

    async def main() -> None:
        team = {"flat": flat, "deep": deep, "asking": asking}[name](path)
        pending = (await team.load_session("s")).pending
        assert len(pending) == 2
        response = await team.resume_async([Approve(task.call_id) for task in pending], session="s")
        assert response.outcome is hw.Outcome.COMPLETED, response.error
        assert sorted(PAID) == ["ann", "bob"]
        check_events(await team.store.read(response.run_id))
        await team.aclose()

    run(main)
