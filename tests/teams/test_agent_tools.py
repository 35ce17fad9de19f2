"""Agents as tools: whose run a call is, and how far a cancel, a timeout, a failure and a budget reach."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

import headwater as hw
from headwater.chat.request import ModelRequest
from headwater.core.budget import Budget
from headwater.errors import model_error
from headwater.teams import Parallel, TeamAgent
from headwater.testing import check_events
from headwater.testing.scripted import Reply, ScriptedModel, call, fail, say, usage
from tests.agents.support import run
from tests.teams.protocols import member


def chief(tool: Any, *answers: Reply, **settings: Any) -> hw.ReActAgent[None]:
    """An agent that asks the tool `scout` once, and then answers."""
    replies = answers or ([say("I ask. "), call("scout", {"task": "Look."})], "So it is.")
    return hw.ReActAgent("chief", model=ScriptedModel(replies), tools=[tool], **settings)


async def read(agent: hw.ReActAgent[None], cancel_at: int | None = None) -> list[hw.AgentEvent]:
    events: list[hw.AgentEvent] = []
    with suppress(hw.RunError):
        async with agent.stream("Well?") as stream:
            async for event in stream:
                events.append(event)
                if len(events) == cancel_at:
                    await stream.cancel()
                    assert stream.is_over
    return events


def tool_end(events: list[hw.AgentEvent], name: str = "scout") -> hw.ToolCallEndEvent:
    return next(e for e in events if isinstance(e, hw.ToolCallEndEvent) and e.tool_name == name)


def echo(request: ModelRequest) -> str:
    return request.messages[-1].text


def scouts() -> TeamAgent[None]:
    return TeamAgent("scout", [member("ann"), member("bob")], Parallel())


@pytest.mark.parametrize("make", [lambda: member("scout"), scouts], ids=["agent", "team"])
def test_a_call_is_a_run_inside_it_and_its_text_the_result(make: Any) -> None:
    events = run(lambda: read(chief(make().as_tool())))
    check_events(events)
    start = next(e for e in events if isinstance(e, hw.RunStartEvent) and e.origin.agent == "scout")
    end = tool_end(events)
    assert start.cause_call_id == end.call_id
    assert start.origin.path == ("chief", "scout")
    inner = next(e for e in events if isinstance(e, hw.RunEndEvent) and e.run_id == start.run_id)
    assert end.text == inner.response.text != ""
    assert events[-1].origin.agent == "chief"


@pytest.mark.parametrize("make", [lambda: member("scout"), scouts], ids=["agent", "team"])
def test_a_cancel_at_any_event_ends_the_run_inside_the_call(make: Any) -> None:
    async def main() -> None:
        whole = len(await read(chief(make().as_tool())))
        for position in range(1, whole):
            events = await read(chief(make().as_tool()), cancel_at=position)
            check_events(events)
            begun = {e.run_id for e in events if isinstance(e, hw.RunStartEvent)}
            assert begun == {e.run_id for e in events if isinstance(e, hw.RunEndEvent)}

    run(main, seconds=60)


def test_a_timeout_ends_the_run_and_the_caller_goes_on() -> None:
    @hw.tool
    async def hang() -> str:
        """Take for ever."""
        await asyncio.Event().wait()
        return "never"

    slow = hw.ReActAgent("scout", model=ScriptedModel([[call("hang")]]), tools=[hang])
    events = run(lambda: read(chief(slow.as_tool(timeout=0.1))))
    check_events(events)
    assert tool_end(events).status is hw.ToolStatus.TIMEOUT
    end = events[-1]
    assert isinstance(end, hw.RunEndEvent)
    assert end.response.text == "So it is."


def test_a_failure_of_the_agent_is_an_error_that_the_caller_reads() -> None:
    broken = hw.SimpleAgent("scout", model=ScriptedModel([[fail(model_error("http_error", "no key", status=401))]]))
    events = run(lambda: read(chief(broken.as_tool())))
    check_events(events)
    end = tool_end(events)
    assert end.status is hw.ToolStatus.ERROR
    assert "no key" in end.text
    last = events[-1]
    assert isinstance(last, hw.RunEndEvent)
    assert last.outcome is hw.Outcome.COMPLETED


def test_what_the_agent_spends_counts_for_the_callers_budget() -> None:
    spender = hw.SimpleAgent("scout", model=ScriptedModel([[say("Here."), usage(900, 100)]]))
    events = run(lambda: read(chief(spender.as_tool(), budget=Budget(tokens=500))))
    check_events(events)
    end = events[-1]
    assert isinstance(end, hw.RunEndEvent)
    assert end.outcome is hw.Outcome.LIMIT
    assert end.error is not None
    assert end.error.kind == "budget_tokens"


def test_two_calls_of_one_agent_are_two_runs_at_once() -> None:
    calls = [call("scout", {"task": "North."}), call("scout", {"task": "South."})]
    scout = hw.SimpleAgent("scout", model=ScriptedModel([echo, echo]))
    events = run(lambda: read(chief(scout.as_tool(), calls, "Done.")))
    check_events(events)
    ends = [e for e in events if isinstance(e, hw.ToolCallEndEvent)]
    assert sorted(e.text for e in ends) == ["North.", "South."]
    first_end = events.index(ends[0])
    starts = [n for n, e in enumerate(events) if isinstance(e, hw.RunStartEvent) and e.origin.agent == "scout"]
    assert len(starts) == 2
    assert max(starts) < first_end


def test_the_callers_text_has_nothing_of_the_agents() -> None:
    async def main() -> None:
        said = "".join([piece async for piece in chief(member("scout").as_tool()).stream("Well?").text()])
        assert said == "I ask. So it is."

    run(main)
