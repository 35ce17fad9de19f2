"""Teams in which somebody decides, end to end: a supervisor, who has the conversation, or a graph's conditions."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import headwater as hw
from headwater.core.decisions import Approve
from headwater.drive.model import CompletionsModel
from headwater.errors import model_error
from headwater.events import (
    HandoffEvent,
    NodeEndEvent,
    NodeStartEvent,
    SupervisorDeltaEvent,
    ToolCallEndEvent,
)
from headwater.messages import ToolMessage
from headwater.teams import END, Graph, Handoff, Hierarchical, TeamAgent, handoff_to
from headwater.testing import check_events
from headwater.testing.scripted import Reply, ScriptedModel, call, fail, say, wait
from tests.agents.support import call_chunk, chunk, finish_chunk, run
from tests.drive.server import DONE, Exchange, Server
from tests.teams.protocols import member
from tests.teams.test_every_protocol import broken, events_of, the_end
from tests.teams.waiting import PAID, agent, pay


@pytest.fixture(autouse=True)
def _nobody_is_paid() -> None:
    PAID.clear()


def boss(*replies: Reply) -> ScriptedModel:
    return ScriptedModel(replies)


def delegate(name: str, task: str = "Do it.") -> Any:
    return call("delegate", {"member": name, "task": task})


DONE_CALL = call("finish", {"answer": "All clear."})


# A supervisor


def test_a_supervisor_reads_its_members_answers_as_the_results_of_its_calls() -> None:
    model = boss([delegate("ann", "North."), delegate("bob", "South.")], [DONE_CALL])
    team = TeamAgent("desk", [member("ann"), member("bob")], Hierarchical(), model=model)
    events = run(lambda: events_of(lambda: team))
    check_events(events)
    assert the_end(events).response.text == "All clear."
    results = [m for m in model.requests[1].messages if isinstance(m, ToolMessage)]
    assert [(m.name, m.text) for m in results] == [("delegate", "ann says fine."), ("delegate", "bob says fine.")]
    assert model.requests[0].tool_names == ["delegate", "finish"]
    assert model.requests[0].options.tool_choice is not None
    starts = [e for e in events if isinstance(e, NodeStartEvent)]
    ends = [e for e in events if isinstance(e, NodeEndEvent)]
    assert max(e.seq for e in starts) < min(e.seq for e in ends)


def test_a_supervisor_is_told_of_a_failure() -> None:
    model = boss([delegate("bob")], [DONE_CALL])
    team = TeamAgent("desk", [broken("bob")], Hierarchical(), model=model)
    events = run(lambda: events_of(lambda: team))
    check_events(events)
    assert the_end(events).outcome is hw.Outcome.COMPLETED
    (result,) = [m for m in model.requests[1].messages if isinstance(m, ToolMessage)]
    assert result.is_error
    assert "the key is refused" in result.text


def test_a_supervisor_that_fails_fails_the_team_and_ends_its_members() -> None:
    refusal = fail(model_error("http_error", "the key is refused", status=401))
    team = TeamAgent("desk", [member("ann")], Hierarchical(), model=boss([delegate("ann")], [refusal]))
    events = run(lambda: events_of(lambda: team))
    check_events(events)
    end = the_end(events)
    assert end.outcome is hw.Outcome.FAILED
    assert end.error is not None
    assert end.error.status == 401


def test_a_supervisor_without_a_choice_fails_the_team_and_says_why() -> None:
    team = TeamAgent("desk", [member("ann")], Hierarchical(corrections=1), model=boss(*[[delegate("dan")]] * 5))
    events = run(lambda: events_of(lambda: team))
    check_events(events)
    end = the_end(events)
    assert end.error is not None
    assert (end.outcome, end.error.kind) == (hw.Outcome.FAILED, "invalid_output")
    assert "no member named 'dan'" in end.error.message
    with pytest.raises(hw.RunError, match="no member named 'dan'"):
        TeamAgent("desk", [member("ann")], Hierarchical(corrections=0), model=boss([delegate("dan")])).call("Go.")


def test_what_a_supervisor_says_reaches_the_reader_while_it_speaks() -> None:
    async def main() -> None:
        gate = asyncio.Event()
        model = boss([delegate("ann")], [say("All "), wait(gate), say("is clear.")])
        team = TeamAgent("desk", [member("ann")], Hierarchical(forced=False), model=model)
        said: list[str] = []
        async with team.stream("Is it clear?") as stream:
            async for event in stream:
                if isinstance(event, SupervisorDeltaEvent) and event.text:
                    said.append(event.text)
                    gate.set()  # only what was read already lets the model go on
        assert said == ["All ", "is clear."]
        assert (await stream.response()).text == "All is clear."

    run(main)


def test_a_member_of_a_supervisor_waits_for_a_person_and_its_answer_is_the_calls_result() -> None:
    async def main() -> None:
        store = hw.MemoryStore()

        def make(*replies: Reply) -> tuple[TeamAgent[None], ScriptedModel]:
            model = boss(*replies)
            members = [agent("ann", "pay"), agent("bob", "look")]
            return TeamAgent("desk", members, Hierarchical(), model=model, store=store), model

        team, _ = make([delegate("ann"), delegate("bob")])
        waiting = await team.call_async("Pay.", session="s")
        assert waiting.outcome is hw.Outcome.SUSPENDED
        assert PAID == []
        (task,) = waiting.pending
        other, model = make([DONE_CALL])
        response = await other.resume_async([Approve(task.call_id)], session="s")
        assert (response.outcome, response.text, PAID) == (hw.Outcome.COMPLETED, "All clear.", ["ann"])
        results = [m.text for m in model.requests[0].messages if isinstance(m, ToolMessage)]
        assert results == ["ann: paid ann", "bob: bob is clear"]
        check_events(await store.read(waiting.run_id))

    run(main)


def test_an_endpoint_is_made_to_call_and_its_answer_streams_as_arguments() -> None:
    asked: list[dict[str, Any]] = []

    def reply(*frames: bytes, reason: str = "tool_calls") -> Any:
        async def answer(exchange: Exchange) -> None:
            asked.append(json.loads(exchange.body))
            await exchange.head()
            for one in (*frames, finish_chunk(reason), DONE):
                await exchange.chunk(one)
            await exchange.end()

        return answer

    async def main() -> None:
        first = reply(call_chunk(0, '{"member": "ANN", "task": "North."}', id="c1", name="delegate"))
        middle = reply(chunk(content="North is clear."), reason="stop")
        last = reply(call_chunk(0, '{"answer": "All cl', id="c2", name="finish"), call_chunk(0, 'ear."}'))
        async with Server(first, middle, last) as server:
            model = CompletionsModel("m", base_url=server.url)
            ann = hw.SimpleAgent("ann", model=model, description="Looks north.")
            team = TeamAgent("desk", [ann], Hierarchical(), model=model, instructions="Be quick.")
            response = await team.call_async("Is it clear?")
            assert response.text == "All clear."
        assert [one["role"] for one in asked[2]["messages"]] == [
            *(one["role"] for one in asked[0]["messages"]),
            "assistant",
            "tool",
        ]
        assert asked[2]["messages"][-1]["content"] == "North is clear."
        assert asked[0]["tool_choice"] == "required"
        assert any("Be quick." in str(one["content"]) for one in asked[0]["messages"])
        assert any("- ann: Looks north." in str(one["content"]) for one in asked[0]["messages"])
        assert "North." in asked[1]["messages"][-1]["content"]

    run(main)


# The conversation


def test_the_conversation_is_handed_on_whole_and_the_last_one_answers() -> None:
    desk = ScriptedModel([[say("One moment. "), call("transfer_to", {"member": "bob", "memo": "bill 7"})]])
    bills = ScriptedModel(["It is mended."])
    members = [hw.ReActAgent("ann", model=desk, instructions="You are ann."), hw.ReActAgent("bob", model=bills)]
    events = run(lambda: events_of(lambda: TeamAgent("desk", members, Handoff())))
    check_events(events)
    assert the_end(events).response.text == "It is mended."
    assert [(e.from_member, e.to_member, e.memo) for e in events if isinstance(e, HandoffEvent)] == [
        ("ann", "bob", "bill 7")
    ]
    seen = bills.requests[0].messages
    assert [type(m).__name__ for m in seen[-3:]] == ["UserMessage", "AssistantMessage", "ToolMessage"]
    assert not any(getattr(m, "text", "") == "You are ann." for m in seen)


def test_too_many_handoffs_fail_the_team_and_the_one_beyond_is_not_made() -> None:
    def pair() -> TeamAgent[None]:
        def one(name: str, other: str) -> hw.ReActAgent[None]:
            return hw.ReActAgent(name, model=ScriptedModel([[call(f"hand_to_{other}", {"reason": "yours"})]] * 9))

        passes = {a: [handoff_to(b, name=f"hand_to_{b}", memo="reason")] for a, b in (("a", "b"), ("b", "a"))}
        return TeamAgent("pair", [one("a", "b"), one("b", "a")], Handoff(max_handoffs=3, passes=passes))

    events = run(lambda: events_of(pair))
    check_events(events)
    end = the_end(events)
    assert end.error is not None
    assert (end.outcome, end.error.kind) == (hw.Outcome.FAILED, "max_handoffs")
    assert sum(isinstance(e, HandoffEvent) for e in events) == 3
    with pytest.raises(hw.RunError) as caught:
        pair().call("Who does it?")
    assert caught.value.kind == "max_handoffs"


def test_of_two_transfers_in_one_round_the_second_is_told_that_it_came_too_late() -> None:
    both = [call("transfer_to", {"member": "bob"}), call("transfer_to", {"member": "cid"})]
    members = [member("ann", both), member("bob", "I am bob."), member("cid", "I am cid.")]
    events = run(lambda: events_of(lambda: TeamAgent("desk", members, Handoff())))
    check_events(events)
    assert the_end(events).response.text == "I am bob."
    ends = [e for e in events if isinstance(e, ToolCallEndEvent)]
    assert [str(e.status) for e in ends] == ["ok", "error"]


def test_a_sticky_team_goes_on_with_who_answered_last_and_shares_the_conversation_once() -> None:
    async def main() -> None:
        desk = ScriptedModel([[call("transfer_to", {"member": "bob"})]])
        bills = ScriptedModel(["It is mended.", "You are welcome."])
        members = [hw.ReActAgent("ann", model=desk), hw.ReActAgent("bob", model=bills)]
        team = TeamAgent("desk", members, Handoff(sticky=True), shares_history=True, store=hw.MemoryStore())
        await team.call_async("My bill is wrong.", session="s")
        response = await team.call_async("Thank you.", session="s")
        assert response.text == "You are welcome."
        texts = [m.text for m in bills.requests[1].messages]
        assert texts == ["My bill is wrong.", "It is mended.", "Thank you."]

    run(main)


def test_who_has_the_conversation_waits_for_a_person_and_passes_it_on_afterwards() -> None:
    async def main() -> None:
        store = hw.MemoryStore()

        def make(*replies: Reply) -> TeamAgent[None]:
            bob = hw.ReActAgent("bob", model=ScriptedModel(replies), tools=[pay])
            return TeamAgent("desk", [member("ann", [to_bob]), bob, member("cid", "I am cid.")], Handoff(), store=store)

        to_bob = call("transfer_to", {"member": "bob"})
        waiting = await make([call("pay", {"to": "ann"})]).call_async("Pay.", session="s")
        (task,) = waiting.pending
        assert task.path[-1] == "bob"
        other = make([say("Paid. "), call("transfer_to", {"member": "cid"})])
        response = await other.resume_async([Approve(task.call_id)], session="s")
        assert (response.outcome, response.text, PAID) == (hw.Outcome.COMPLETED, "I am cid.", ["ann"])
        log = await store.read(waiting.run_id)
        check_events(log)
        assert [(e.from_member, e.to_member) for e in log if isinstance(e, HandoffEvent)] == [
            ("ann", "bob"),
            ("bob", "cid"),
        ]

    run(main)


# A graph


def test_a_race_cancels_its_loser_and_the_graph_goes_on() -> None:
    async def main() -> None:
        never = asyncio.Event()
        slow = member("slow", [wait(never), say("late")])
        graph = Graph().node("ask", "ann").node("quick", "bob").node("slow").node("take", "cid", join="any")
        graph.edge("ask", "quick", "slow").edge("quick", "take").edge("slow", "take")
        members = [member("ann"), member("bob"), slow, member("cid")]
        events = await events_of(lambda: TeamAgent("desk", members, graph))
        check_events(events)
        assert the_end(events).response.text == "cid says fine."
        ends = {e.member: e.outcome for e in events if isinstance(e, NodeEndEvent)}
        assert ends["slow"] is hw.Outcome.CANCELLED
        assert {e.label for e in events if isinstance(e, NodeStartEvent)} == {"ask", "quick", "slow", "take"}

    run(main)


def test_a_condition_that_raises_fails_the_team_naming_its_edge() -> None:
    graph = Graph().node("ann").node("bob").edge("ann", "bob", when=lambda result: result.output["x"] > 1)
    events = run(lambda: events_of(lambda: TeamAgent("desk", [member("ann"), member("bob")], graph)))
    check_events(events)
    error = the_end(events).error
    assert error is not None
    assert error.kind == "usage_error"
    assert "the edge 'ann' -> 'bob' failed with TypeError" in error.message


def test_a_graph_takes_the_way_of_a_failure_where_the_team_goes_on() -> None:
    graph = Graph().node("bob").node("ann").node("cid")
    graph.edge("bob", "ann", when=lambda result: result.is_ok).edge("bob", "cid", otherwise=True)
    members = [broken("bob"), member("ann"), member("cid")]
    events = run(lambda: events_of(lambda: TeamAgent("desk", members, graph, on_failure="continue")))
    check_events(events)
    assert the_end(events).response.text == "cid says fine."


def test_a_node_waits_for_a_person_while_the_other_branch_finishes_and_both_results_are_kept() -> None:
    async def main() -> None:
        store = hw.MemoryStore()

        def make() -> TeamAgent[None]:
            graph = Graph().node("pay", "ann").node("look", "bob").node("tell", "dan").start("pay", "look")
            graph.edge("pay", "tell").edge("look", "tell").edge("tell", END)
            return TeamAgent("desk", [agent("ann", "pay"), agent("bob", "look"), agent("dan")], graph, store=store)

        waiting = await make().call_async("Pay.", session="s")
        assert waiting.outcome is hw.Outcome.SUSPENDED
        (task,) = waiting.pending
        response = await make().resume_async([Approve(task.call_id)], session="s")
        assert (response.outcome, PAID) == (hw.Outcome.COMPLETED, ["ann"])
        log = await store.read(waiting.run_id)
        check_events(log)
        assert [e.member for e in log if isinstance(e, NodeStartEvent)] == ["ann", "bob", "ann", "dan"]

    run(main)
