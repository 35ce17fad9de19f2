"""Planning through the whole agent: tools, board, response, session, approvals, and a plan that must be finished."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.core.plan import PLAN_TOOL_NAMES
from headwater.core.record import rebuild
from headwater.events import PlanEvent, PlanStage, ReasonStartEvent
from headwater.messages import AssistantMessage, ToolMessage, UserMessage
from headwater.store.sqlite import SQLiteStore
from headwater.testing import ScriptedModel, ScriptedRequest, check_events
from headwater.testing.scripted import Calls, Reply, call, say
from tests.agents.support import call_chunk, chunk, finish_chunk, model_at, run
from tests.drive.server import DONE, Exchange, Server


@hw.tool
async def look(q: str) -> str:
    """Look."""
    return f"found {q}"


@hw.tool(requires_approval=True)
async def send(to: str) -> str:
    """Send."""
    return f"sent to {to}"


def create(*steps: str) -> Calls:
    return call("create_plan", {"steps": list(steps)})


def progress(index: int) -> Calls:
    return call("update_plan_progress", {"next_plan_index": index})


def agent_of(*replies: Reply, **settings: Any) -> tuple[hw.ReActAgent, ScriptedModel]:
    model = ScriptedModel(replies)
    return hw.ReActAgent(model=model, tools=[look, send], planning=True, **settings), model


async def events_of(stream: hw.Run) -> list[hw.AgentEvent]:
    async with stream:
        events = [event async for event in stream]
    check_events(events)
    return events


def end_of(events: list[hw.AgentEvent]) -> hw.RunEndEvent:
    end = events[-1]
    assert isinstance(end, hw.RunEndEvent)
    return end


def board(request: ScriptedRequest) -> list[str]:
    """The marked lines of the last message."""
    last = request.messages[-1]
    assert isinstance(last, UserMessage)
    return [line for line in last.text.splitlines() if line.startswith("[")]


def test_the_model_has_the_plan_tools_sees_its_board_last_and_the_response_has_the_plan() -> None:
    async def main() -> None:
        agent, model = agent_of([create("look", "tell")], [call("look", {"q": "rain"}), progress(1)], "It rains.")
        events = await events_of(agent.stream("Weather?"))
        assert model.requests[0].tool_names == ["look", "send", *PLAN_TOOL_NAMES]
        assert isinstance(model.requests[0].messages[-1], UserMessage)
        assert model.requests[0].messages[-1].text == "Weather?"
        assert board(model.requests[1]) == ["[>] 0. look", "[ ] 1. tell"]
        assert board(model.requests[2]) == ["[x] 0. look", "[>] 1. tell"]
        assert [(e.stage, e.index) for e in events if isinstance(e, PlanEvent)] == [
            (PlanStage.CREATE, 0),
            (PlanStage.PROGRESS, 1),
        ]
        response = end_of(events).response
        assert (response.plan, response.plan_index, response.text) == (("look", "tell"), 1, "It rains.")

    run(main)


def test_the_board_is_never_stored() -> None:
    async def main() -> None:
        agent, model = agent_of([create("look", "tell")], "Later.")
        await agent.call_async("Go.", session="s")
        stored = (await agent.load_session("s")).messages
        assert [type(m) for m in stored] == [UserMessage, AssistantMessage, ToolMessage, AssistantMessage]
        assert model.requests[1].messages[-1] not in stored
        assert model.requests[1].messages[:-1] == stored[:-1]

    run(main)


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_plan_that_is_not_finished_is_carried_to_the_next_run_of_its_session(tmp_path: Path, on_disk: bool) -> None:
    async def main() -> None:
        store = SQLiteStore(tmp_path / "s.db") if on_disk else None
        agent, model = agent_of([create("look", "tell")], [progress(1)], "So far.", "Not yet.", store=store)
        await agent.call_async("Go.", session="s")
        session = await agent.load_session("s")
        assert (session.plan, session.plan_index) == (("look", "tell"), 1)
        events = await events_of(agent.stream("And now?", session="s"))
        assert board(model.requests[3]) == ["[x] 0. look", "[>] 1. tell"]
        start = events[0]
        assert isinstance(start, hw.RunStartEvent)
        assert (start.plan, start.plan_index) == (("look", "tell"), 1)
        assert end_of(events).response.plan == ("look", "tell")
        await agent.aclose()

    run(main)


def test_a_finished_plan_stays_in_the_session_and_is_not_carried_over() -> None:
    async def main() -> None:
        agent, model = agent_of([create("look")], [progress(1)], "Done.", "You are welcome.")
        await agent.call_async("Go.", session="s")
        response = await agent.call_async("Thanks.", session="s")
        assert model.requests[3].last_user_text == "Thanks."
        assert (response.plan, response.plan_index) == ((), 0)
        session = await agent.load_session("s")
        assert (session.plan, session.plan_index) == (("look",), 1)

    run(main)


def test_a_cancelled_run_leaves_its_plan_and_other_sessions_have_none() -> None:
    async def main() -> None:
        agent, model = agent_of([create("look", "tell")], [say("Let", " me")], "Fresh.")
        async with agent.stream("Go.", session="s") as stream:
            async for event in stream:
                if isinstance(event, hw.ReasonDeltaEvent):
                    break
        assert (await agent.load_session("s")).plan == ("look", "tell")
        await agent.call_async("Go.", session="t")
        assert model.requests[-1].last_user_text == "Go."

    run(main)


def test_a_run_without_planning_neither_sees_nor_changes_the_plan_of_the_session() -> None:
    async def main() -> None:
        agent, model = agent_of([create("look", "tell")], "Later.", "Plain.", "Hm.")
        await agent.call_async("Go.", session="s")
        response = await agent.call_async("Just talk.", session="s", planning=False)
        assert response.plan == ()
        assert model.requests[2].tool_names == ["look", "send"]
        assert model.requests[2].last_user_text == "Just talk."
        assert (await agent.load_session("s")).plan == ("look", "tell")
        await agent.call_async("Go on.", session="s")
        assert board(model.requests[3]) == ["[>] 0. look", "[ ] 1. tell"]

    run(main)


def test_a_plan_outlives_the_wait_for_a_person() -> None:
    async def main() -> None:
        agent, model = agent_of(
            [create("ask", "send"), progress(1), call("send", {"to": "Ada"}, id="x")], [progress(2)], "Sent."
        )
        first = await events_of(agent.stream("Go.", session="s"))
        assert end_of(first).outcome is hw.Outcome.SUSPENDED
        assert (end_of(first).response.plan, end_of(first).response.plan_index) == (("ask", "send"), 1)
        session = await agent.load_session("s")
        assert session.is_pending
        assert (session.plan, session.plan_index) == (("ask", "send"), 1)
        async with agent.resume_stream([hw.Approve("x")], session="s") as stream:
            second = [event async for event in stream]
        check_events([*first, *second])
        assert board(model.requests[1]) == ["[x] 0. ask", "[>] 1. send"]
        assert end_of(second).response.plan_index == 2
        record = rebuild([*first, *second])
        assert record.plan is not None
        assert record.plan.is_finished
        assert (await agent.load_session("s")).plan_index == 2

    run(main)


def test_a_rule_that_holds_everything_back_holds_no_plan_tool_back() -> None:
    async def main() -> None:
        def everything(name: str, args: dict[str, Any]) -> bool:
            return True

        agent, _ = agent_of([create("look")], "Done.", needs_approval=everything)
        response = await agent.call_async("Go.")
        assert response.outcome is hw.Outcome.COMPLETED
        assert response.plan == ("look",)

    run(main)


def test_an_agent_may_plan_without_tools_of_its_own() -> None:
    model = ScriptedModel([[create("think", "write")], [progress(2)], "Written."])

    async def main() -> None:
        events = await events_of(hw.ReActAgent(model=model, planning=True).stream("An essay."))
        assert model.requests[0].tool_names == list(PLAN_TOOL_NAMES)
        assert end_of(events).response.plan_index == 2

    run(main)


@pytest.mark.parametrize("name", PLAN_TOOL_NAMES)
def test_a_tool_of_ones_own_may_not_have_a_plan_tools_name(name: str) -> None:
    own = hw.tool(name=name)(lambda: "mine")
    with pytest.raises(hw.UsageError, match=name):
        hw.ReActAgent(model=ScriptedModel([]), tools=[own], planning=True)
    agent = hw.ReActAgent(model=ScriptedModel([]), tools=[own])
    with pytest.raises(hw.UsageError, match=name):
        agent.stream("Go.", planning=True)


def test_a_plan_that_must_be_finished_needs_planning() -> None:
    with pytest.raises(hw.UsageError, match="planning=True"):
        hw.ReActAgent(model=ScriptedModel([]), plan_must_finish=True)


def test_an_early_answer_is_streamed_and_kept_but_is_not_the_answer() -> None:
    replies: list[Reply] = [[create("look", "tell")], "Probably rain.", [progress(2)], "It rains."]

    async def main() -> None:
        agent, model = agent_of(*replies, plan_must_finish=True)
        events = await events_of(agent.stream("Weather?", session="s"))
        assert [e.again for e in events if isinstance(e, ReasonStartEvent)] == ["", "", "plan", ""]
        assert end_of(events).response.text == "It rains."
        last = model.requests[2].messages[-1]
        assert isinstance(last, UserMessage)
        assert "steps 0 to 1 are not finished" in last.text
        stored = (await agent.load_session("s")).messages
        assert last not in stored
        texts = [m.text for m in stored if isinstance(m, AssistantMessage) and m.text]
        assert texts == ["Probably rain.", "It rains."]

        agent, _ = agent_of(*replies, plan_must_finish=True)
        assert [piece async for piece in agent.stream("Weather?").text()] == ["Probably rain.", "It rains."]
        agent, _ = agent_of(*replies, plan_must_finish=True)
        assert [piece async for piece in agent.stream("Weather?").final_text()] == ["It rains."]

    run(main)


def test_the_same_plan_over_the_wire_leaves_the_beginning_of_each_request_as_it_was() -> None:
    bodies: list[bytes] = []

    def answer(*frames: bytes, reason: str) -> Any:
        async def play(exchange: Exchange) -> None:
            bodies.append(exchange.body)
            await exchange.head()
            for frame in frames:
                await exchange.chunk(frame)
            await exchange.chunk(finish_chunk(reason))
            await exchange.chunk(DONE)
            await exchange.end()

        return play

    async def main() -> None:
        make = call_chunk(0, '{"steps":["look","tell"]}', id="a", name="create_plan")
        move = call_chunk(0, '{"next_plan_index":2}', id="b", name="update_plan_progress")
        async with Server(
            answer(make, reason="tool_calls"),
            answer(move, reason="tool_calls"),
            answer(chunk(content="Done."), reason="stop"),
        ) as server:
            agent = hw.ReActAgent(model=model_at(server), tools=[look], planning=True, instructions="Be kind.")
            response = await agent.call_async("Go.")
        assert (response.text, response.plan_index) == ("Done.", 2)

    run(main)
    sent = [json.loads(body)["messages"] for body in bodies]
    assert [len(messages) for messages in sent] == [2, 5, 7]
    assert sent[1][-1]["role"] == sent[2][-1]["role"] == "user"
    assert "[>] 0. look" in sent[1][-1]["content"]
    assert "[x] 1. tell" in sent[2][-1]["content"]
    assert bodies[1].startswith(bodies[0].removesuffix(b"]}"))
    without_tail = bodies[1][: bodies[1].rindex(b',{"role":"user"')]
    assert bodies[2].startswith(without_tail)
