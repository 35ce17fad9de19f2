"""Random trees of teams under random failures, cancels, suspensions and decisions: the laws hold, the log rebuilds."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.core.decisions import Approve, Decision, Reject, Respond, Skip
from headwater.core.team.record import Tree
from headwater.events import HITLDecidedEvent, NodeStartEvent, ToolCallEndEvent, ToolCallStartEvent, ToolStatus, tree
from headwater.store.base import Store
from headwater.store.memory import MemoryStore
from headwater.store.sqlite import SQLiteStore
from headwater.teams import TeamAgent
from headwater.testing import check_events
from tests.agents.support import run
from tests.conftest import ROOT
from tests.teams.chaos import Ledger, agent_of
from tests.teams.dying_trees import FileLedger


def decision_of(rng: random.Random, task: Any) -> Decision:
    call = task.call_id
    return rng.choice(
        [
            Approve(call),
            Approve(call),
            Approve(call, digest=task.digest),
            Reject(call, "no"),
            Skip(call),
            Respond(call, "mine"),
        ]
    )


async def read(stream: hw.Run[Any], rng: random.Random, stop_at: int) -> tuple[hw.RunEndEvent, list[hw.AgentEvent]]:
    """A segment to its end; with `stop_at` it is cancelled, or left, after so many events."""
    seen: list[hw.AgentEvent] = []
    leaves = rng.random() < 0.4
    try:
        async with stream:
            async for event in stream:
                seen.append(event)
                if len(seen) == stop_at and not stream.is_over:
                    if leaves:
                        break
                    await stream.cancel()
        async for event in stream:
            seen.append(event)  # noqa: PERF401 what comes before an error counts
    except hw.RunError:
        pass
    assert stream.end is not None
    assert seen[-1] is stream.end
    return stream.end, seen


class Life:
    """The life of one random run, in as many processes as there are segments."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.depth = self.rng.randrange(1, 4)
        self.ledger = Ledger()
        self.store: Store = MemoryStore()
        self.session: str | None = self.rng.choice([None, "s"])

    def agent(self) -> TeamAgent[Any]:
        return agent_of(self.seed, self.depth, self.ledger, self.store)

    def stop(self) -> int:
        return self.rng.randrange(1, 120) if self.rng.random() < 0.2 else 0

    async def live(self) -> list[hw.AgentEvent]:
        stream = self.agent().stream("Find stone.", session=self.session)
        run_id = stream.run_id
        end, told = await read(stream, self.rng, self.stop())
        end, more = await self.go_on(run_id, end)
        log = await self.store.read(run_id)
        assert log == [*told, *more] or end.outcome is hw.Outcome.REJECTED
        self.judge(log, end)
        return log

    async def go_on(
        self, run_id: str, end: hw.RunEndEvent, *, has_session: bool = True
    ) -> tuple[hw.RunEndEvent, list[hw.AgentEvent]]:
        """Decide about what waits, some of it at a time, until nothing does."""
        rng, told = self.rng, list[hw.AgentEvent]()
        for _ in range(20):
            if end.outcome is not hw.Outcome.SUSPENDED:
                break
            check_events(await self.store.read(run_id))
            waiting = end.response.pending
            assert waiting
            if self.session and has_session and rng.random() < 0.1:
                # A new prompt dismisses what waits, anywhere in the tree.
                await read(self.agent().stream("Find law.", session=self.session), rng, 0)
                last = (await self.store.read(run_id))[-1]
                assert isinstance(last, hw.RunEndEvent)
                assert last.outcome is hw.Outcome.REJECTED
                return last, []
            decisions = [decision_of(rng, task) for task in rng.sample(waiting, rng.randint(1, len(waiting)))]
            resumed = self.agent().resume_stream(decisions, run_id=run_id)
            end, seen = await read(resumed, rng, self.stop())
            told += seen
        return end, told

    async def die(self, log: list[hw.AgentEvent]) -> None:
        """The process dies after some event; another one goes on, and what has begun to happen does not again."""
        cut = log[: self.rng.randrange(1, len(log) + 1)]
        run_id = cut[0].origin.run_id
        self.store, self.ledger = MemoryStore(), Ledger()
        epoch = await self.store.open_epoch(run_id)
        await self.store.append(run_id, cut, epoch=epoch, step="run", wseq=1)
        begun = [e for e in cut if isinstance(e, ToolCallStartEvent)]
        self.ledger.ran = [(e.tool_name, e.origin.run_id, e.call_id) for e in begun if e.tool_name in Ledger.WRITES]
        if isinstance(cut[-1], hw.RunEndEvent) and cut[-1].origin.run_id == run_id:
            if cut[-1].outcome is not hw.Outcome.SUSPENDED:
                return
            end: hw.RunEndEvent = cut[-1]
            has_session = False  # what waits had been stored before this; only the log is copied here
        else:
            has_session = True
            resumed = self.agent().resume_stream([], run_id=run_id, recover=True)
            end, _ = await read(resumed, self.rng, 0)
        end, _ = await self.go_on(run_id, end, has_session=has_session)
        self.judge(await self.store.read(run_id), end)

    def judge(self, log: list[hw.AgentEvent], end: hw.RunEndEvent) -> None:
        check_events(log)
        whole = tree(self.rng.sample(log, len(log)))
        for event in log:
            one = whole.find(event.origin.run_id)
            assert one is not None
            assert event in one.events
            if isinstance(event, NodeStartEvent):
                member = whole.find(event.member_run_id)
                assert member is None or member in one.inner
                assert member is None or member.origin.path == (*event.origin.path, event.member)
        assert {run.run_id for run in whole.inner} == {
            event.origin.run_id for event in log if event.origin.parent_run_id == whole.run_id
        }
        Tree(log)
        twice = [one for one, times in Counter(self.ledger.ran).items() if times > 1]
        assert not twice, f"an effect happened twice: {twice}"
        decided = {(e.origin.run_id, e.call_id): e.decision for e in log if isinstance(e, HITLDecidedEvent)}
        for event in log:
            if isinstance(event, ToolCallEndEvent) and event.tool_name == "pay" and event.status is ToolStatus.OK:
                # What a person answered in its place was not executed.
                assert not event.executed or decided[event.origin.run_id, event.call_id] == "approve"
        if end.error is not None:
            assert end.error.kind not in ("internal_error", "usage_error"), end.error


@settings(max_examples=60, deadline=None)
@example(1066)  # dies between the end of a node and the result of the call that asked for it
@example(961847958)  # dies when a member goes on, before what waits inside its call is opened again
@example(2287504532)  # dies after a team inside has come to its limit while a member of it waited
@example(770175221)  # dies when of two members that a supervisor gave work to one has begun
@example(677745747)  # dies when the calls of a supervisor are closed because of a limit, before the end
@given(st.integers(0, 2**32))
def test_random_trees_keep_the_laws(seed: int) -> None:
    async def main() -> None:
        life = Life(seed)
        log = await life.live()
        await life.die(log)

    run(main, seconds=60)


@pytest.mark.parametrize(("seed", "left"), [(n, 3 + n * 7 % 40) for n in range(8)])
def test_a_tree_whose_process_is_killed_goes_on_in_another_one_and_repeats_no_effect(
    seed: int, left: int, tmp_path: Path
) -> None:
    store, ledger = tmp_path / "store.db", tmp_path / "ledger"
    ledger.touch()
    command = [sys.executable, "-m", "tests.teams.dying_trees", str(store), str(ledger), str(seed), str(left)]
    code = subprocess.run(command, cwd=ROOT, timeout=60, check=False).returncode
    assert code in (0, -signal.SIGKILL)

    async def main() -> None:
        life = Life(seed)
        life.depth, life.ledger, life.store = 3, FileLedger(ledger), SQLiteStore(store)
        (run_id,) = await life.store.runs("s")
        log = await life.store.read(run_id)
        begun = {(e.tool_name, e.origin.run_id, e.call_id) for e in log if isinstance(e, ToolCallStartEvent)}
        assert {tuple(line.split()) for line in ledger.read_text().splitlines()} <= begun
        end = log[-1]
        if not isinstance(end, hw.RunEndEvent) or end.origin.run_id != run_id:
            end, _ = await read(life.agent().resume_stream([], run_id=run_id, recover=True), life.rng, 0)
        end, _ = await life.go_on(run_id, end)
        life.ledger.ran = [(tool, run, call) for tool, run, call in map(str.split, ledger.read_text().splitlines())]
        life.judge(await life.store.read(run_id), end)
        await life.store.aclose()

    run(main, seconds=60)
