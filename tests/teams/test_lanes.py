"""Who said what: the tree of runs from events in any order, a stream for each member, and the order of time."""

from __future__ import annotations

import asyncio
import random
import time
import weakref

import pytest

import headwater as hw
from headwater.chat.request import ModelRequest
from headwater.core.budget import Budget
from headwater.drive import lanes
from headwater.drive.lanes import Lane
from headwater.errors import UsageError
from headwater.events import NodeEndEvent, ReasonDeltaEvent, RunTree, tree
from headwater.teams import Parallel, Sequential, TeamAgent
from headwater.testing import check_events
from headwater.testing.scripted import Script, ScriptedModel, call, say, usage, wait
from tests.agents.support import run
from tests.teams.protocols import member, nested


async def read(team: TeamAgent[None]) -> list[hw.AgentEvent]:
    async with team.stream("Is it clear?") as stream:
        return [event async for event in stream]


def shape(one: RunTree) -> object:
    return one.origin.path, one.outcome, [shape(inner) for inner in one.inner]


def test_shuffled_events_of_teams_in_teams_come_to_the_tree_that_they_were() -> None:
    events = run(lambda: read(nested()))
    check_events(events)
    shuffled = list(events)
    random.Random(7).shuffle(shuffled)
    whole = tree(shuffled)
    assert whole == tree(events)
    done = hw.Outcome.COMPLETED
    names: list[list[object]] = [
        [(("all", f"team_{n}", f"{name}_{n}"), done, []) for name in ("ann", "bob", "cid")] for n in "xyz"
    ]
    assert shape(whole) == (("all",), done, [(("all", f"team_{n}"), done, names[i]) for i, n in enumerate("xyz")])
    for team in whole.inner:
        assert {one.node_id for one in team.inner} == {"n1", "n2", "n3"}
        for one in team.inner:
            said = "".join(e.text for e in one.events if isinstance(e, ReasonDeltaEvent))
            assert said == f"Let me look. {one.origin.agent} says fine."
            assert {e.run_id for e in one.events} == {one.run_id}


def test_call_ids_and_block_ids_are_unique_in_the_tree() -> None:
    events = run(lambda: read(nested()))
    calls = [event.call_id for event in events if isinstance(event, hw.ToolCallStartEvent)]
    assert len(calls) == len(set(calls)) == 9
    blocks = {(e.block_id, e.run_id) for e in events if isinstance(e, ReasonDeltaEvent)}
    assert len({block for block, _ in blocks}) == len(blocks)


def test_each_member_has_a_lane_that_ends_with_its_run() -> None:
    async def main() -> None:
        seen: dict[str, list[str]] = {}

        async with nested().stream("Go.") as stream, asyncio.TaskGroup() as group:

            async def show(lane: Lane) -> None:
                events = [event async for event in lane]
                seen[events[0].run_id] = [event.type for event in events]

            async for lane in stream.lanes():
                group.create_task(show(lane))
        assert len(seen) == 13
        for kinds in seen.values():
            assert (kinds[0], kinds[-1]) == ("run.start", "run.end")
            assert kinds.count("run.end") == 1

    run(main)


def test_a_lane_that_nobody_has_keeps_nothing_and_one_that_is_not_read_says_what_it_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lanes, "LIMIT", 50)

    async def main() -> None:
        async with talkers().stream("Go.") as stream:
            kept: dict[str, Lane] = {}
            dropped: list[weakref.ref[Lane]] = []
            async for lane in stream.lanes():
                if lane.origin.agent == "bob":
                    dropped.append(weakref.ref(lane))
                else:
                    kept[lane.origin.agent] = lane
                del lane
            assert [reference() for reference in dropped] == [None]
            with pytest.raises(UsageError, match=r"crew/ann was not read while 50 events came"):
                await anext(kept["ann"])
            assert (await anext(kept["crew"])).type == "run.start"  # few enough

    run(main)


def talkers() -> TeamAgent:
    words = [say(*("word " for _ in range(200)))]
    members = [hw.SimpleAgent(name, model=ScriptedModel([words])) for name in ("ann", "bob")]
    return TeamAgent("crew", members, Parallel())


def test_members_run_at_once_and_are_heard_while_others_run() -> None:
    async def main() -> None:
        @hw.tool
        async def work() -> str:
            """Take a second."""
            await asyncio.sleep(1)
            return "done"

        def worker(name: str) -> hw.ReActAgent[None]:
            return hw.ReActAgent(name, model=ScriptedModel([[say("I begin."), call("work")], "Done."]), tools=[work])

        began = time.monotonic()
        events = await read(TeamAgent("crew", [worker("ann"), worker("bob"), worker("cid")], Parallel()))
        assert time.monotonic() - began < 1.6
        check_events(events)
        first_end = next(n for n, event in enumerate(events) if isinstance(event, NodeEndEvent))
        heard = {e.origin.agent for e in events[:first_end] if isinstance(e, ReasonDeltaEvent) and e.text}
        assert heard == {"ann", "bob", "cid"}

    run(main)


def test_an_event_of_a_member_reaches_the_reader_while_another_is_silent() -> None:
    async def main() -> None:
        gate = asyncio.Event()
        silent = hw.SimpleAgent("ann", model=ScriptedModel([[wait(gate), say("Now.")]]))
        talks = hw.SimpleAgent("bob", model=ScriptedModel([[say("Hello."), say("World.")]]))
        async with TeamAgent("crew", [silent, talks], Parallel()).stream("Go.") as stream:
            async for event in stream:
                if isinstance(event, hw.RunEndEvent) and event.origin.agent == "bob":
                    gate.set()  # nothing of ann's has come by now, and bob is through
            assert (await stream.response()).text == "ann:\nNow.\n\nbob:\nHello.World."

    run(main)


def test_a_budget_is_shared_by_the_team() -> None:
    def answer(request: ModelRequest) -> Script:
        return [say("Well."), usage(60, 40)]

    def writer(name: str) -> hw.SimpleAgent[None]:
        return hw.SimpleAgent(name, model=ScriptedModel([answer] * 5))

    members = [writer("ann"), writer("bob"), writer("cid")]
    events = run(lambda: read(TeamAgent("desk", members, Sequential(), budget=Budget(tokens=150))))
    check_events(events)
    end = events[-1]
    assert isinstance(end, hw.RunEndEvent)
    assert end.outcome is hw.Outcome.LIMIT
    assert end.error is not None
    assert end.error.kind == "budget_tokens"
    assert end.usage.total_tokens == 200
    assert end.response.text == "Well."


def test_a_deadline_cuts_the_whole_team_off() -> None:
    @hw.tool
    async def hang() -> str:
        """Take for ever."""
        await asyncio.Event().wait()
        return "never"

    def stuck(name: str) -> hw.ReActAgent[None]:
        return hw.ReActAgent(name, model=ScriptedModel([[call("hang")]]), tools=[hang])

    inner = TeamAgent("inner", [stuck("cid")], Sequential())
    team = TeamAgent("desk", [stuck("ann"), member("bob"), inner], Parallel(), budget=Budget(seconds=0.3))
    events = run(lambda: read(team))
    check_events(events)
    end = events[-1]
    assert isinstance(end, hw.RunEndEvent)
    assert end.outcome is hw.Outcome.LIMIT
    assert end.error is not None
    assert end.error.kind == "budget_seconds"


def test_a_cancel_waits_for_a_tool_that_blocks_its_thread_and_closes_everything() -> None:
    async def main() -> None:
        started = asyncio.Event()
        loop = asyncio.get_running_loop()

        @hw.tool
        def block() -> str:
            """Block a thread for longer than the grace."""
            loop.call_soon_threadsafe(started.set)
            time.sleep(0.6)
            return "late"

        @hw.tool
        async def sleep() -> str:
            """Sleep."""
            await asyncio.sleep(60)
            return "never"

        ann = hw.ReActAgent("ann", model=ScriptedModel([[call("block")]]), tools=[block], thread_grace=0.2)
        bob = hw.ReActAgent("bob", model=ScriptedModel([[call("sleep")]]), tools=[sleep])
        events: list[hw.AgentEvent] = []
        async with TeamAgent("desk", [ann, bob, member("cid")], Parallel()).stream("Go.") as stream:
            async for event in stream:
                events.append(event)
                if started.is_set() and not stream.is_over:
                    await stream.cancel()
                    assert stream.is_over
        check_events(events)
        ends = {e.tool_name: e.status for e in events if isinstance(e, hw.ToolCallEndEvent)}
        assert ends["block"] is hw.ToolStatus.INTERRUPTED
        assert ends["sleep"] is hw.ToolStatus.CANCELLED

    run(main)


def test_text_and_the_final_text_of_a_team() -> None:
    async def main() -> None:
        def team() -> TeamAgent[None]:
            return TeamAgent("desk", [member("ann"), member("bob")], Sequential())

        assert [piece async for piece in team().stream("Go.").final_text()] == ["bob says fine."]
        said = "".join([piece async for piece in team().stream("Go.").text()])
        assert said == "Let me look. ann says fine.Let me look. bob says fine."

    run(main)
