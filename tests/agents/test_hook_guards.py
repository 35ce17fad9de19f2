"""Input, output and tool guards, as an agent's user meets them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

import headwater as hw
from headwater.core.budget import Budget
from headwater.errors import UsageError
from headwater.hooks import HookCall, NeedsApproval, Replace, Withdraw, input_guard, output_guard, tool_guard
from headwater.messages import ToolMessage
from headwater.teams import Swarm, TeamAgent
from headwater.testing import ScriptedModel, call, check_events, say, think, usage, wait
from tests.agents.support import run

SECRET = "sk-12345678"


@hw.tool
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def no_keys(text: str) -> str | None:
    return "It had a key in it." if re.search(r"sk-\d{8}", text) else None


def masks_keys(text: str) -> Replace | None:
    masked = re.sub(r"sk-\d{8}", "(key)", text)
    return Replace(masked) if masked != text else None


async def events_of(stream: hw.Run[Any]) -> list[hw.AgentEvent]:
    events = [event async for event in stream]
    check_events(events)
    return events


def end_of(events: list[hw.AgentEvent]) -> hw.RunEndEvent:
    end = events[-1]
    assert isinstance(end, hw.RunEndEvent)
    return end


def texts(events: list[hw.AgentEvent]) -> list[str]:
    """The text of each attempt of a turn."""
    found: list[str] = []
    for event in events:
        if isinstance(event, hw.ReasonStartEvent):
            found.append("")
        elif isinstance(event, hw.ReasonDeltaEvent):
            found[-1] += event.text
    return found


# -- input ----------------------------------------------------------------------------------------------------------


async def not_rude(text: str) -> str | None:
    await asyncio.sleep(0)
    return "Please be kind." if "idiot" in text else None


@pytest.mark.parametrize("kind", [hw.SimpleAgent, hw.ReActAgent])
def test_a_refused_prompt_reaches_no_model_neither_now_nor_later(kind: Any) -> None:
    async def main() -> None:
        model = ScriptedModel(["Hello.", "Fine."])
        agent = kind(model=model, hooks=[input_guard(not_rude)])
        await agent.call_async("Hi.", session="s")
        refused = await agent.call_async("Answer, idiot.", session="s")
        assert (refused.outcome, refused.text) == (hw.Outcome.REJECTED, "Please be kind.")
        assert refused.error.kind == "input_refused"
        assert "not_rude" in refused.error.message
        assert (await agent.call_async("How are you?", session="s")).text == "Fine."
        sent = [message.text for message in model.requests[1].messages]
        assert sent == ["Hi.", "Hello.", "How are you?"]

    run(main)


def test_an_input_guard_is_asked_once_in_a_run_about_what_is_new() -> None:
    asked: list[str] = []
    model = ScriptedModel(["Hello.", [call("pay", {"amount": 1})], "Paid."])
    agent = hw.ReActAgent(model=model, tools=[pay], hooks=[input_guard(asked.append)])
    agent.call("Hi.", session="s")
    agent.call("Pay.", session="s")
    assert asked == ["Hi.", "Pay."]


def test_a_guard_of_a_run_does_not_put_those_of_the_agent_away() -> None:
    agent = hw.SimpleAgent(model=ScriptedModel(["Hello."]), hooks=[input_guard(not_rude)])
    assert agent.call("idiot", hooks=[input_guard(lambda _: None)]).outcome is hw.Outcome.REJECTED


# -- output ---------------------------------------------------------------------------------------------------------


def test_text_is_given_out_while_the_model_talks_and_only_its_end_is_held_back() -> None:
    async def main() -> None:
        gate = asyncio.Event()
        model = ScriptedModel([[say("It is raining in Oslo, "), wait(gate), say("and cold.")]])
        agent = hw.SimpleAgent(model=model, hooks=[output_guard(no_keys, look_back=10)])
        pieces: list[str] = []
        async with agent.stream("Weather?") as stream:
            async for piece in stream.final_text():
                pieces.append(piece)
                gate.set()  # the model says no more before its first text has been read
        assert pieces[0] == "It is raining"
        assert "".join(pieces) == "It is raining in Oslo, and cold."

    run(main)


def test_a_withdrawn_answer_is_void_and_the_run_ends_with_another_text() -> None:
    async def main() -> None:
        model = ScriptedModel([[say(f"Your key is {SECRET}, keep it.", cut=3), usage(5, 6)]])
        guard = output_guard(no_keys, look_back=10, text="I cannot say that.")
        agent = hw.SimpleAgent(model=model, hooks=[guard])
        events = await events_of(agent.stream("My key?", session="s"))
        withdrawn, instead = texts(events)
        assert "Your key is ".startswith(withdrawn)
        assert withdrawn != ""
        assert instead == "I cannot say that."
        (discard,) = [event for event in events if isinstance(event, hw.ReasonDiscardEvent)]
        assert discard.reason == "It had a key in it."
        assert discard.error is not None
        assert discard.error.kind == "output_refused"
        end = end_of(events)
        assert (end.outcome, end.response.text) == (hw.Outcome.REJECTED, "I cannot say that.")
        assert end.error == discard.error
        assert model.closed == 1
        kept = (await agent.load_session("s")).messages
        assert [message.text for message in kept] == ["My key?", "I cannot say that."]

    run(main)


def test_the_model_may_be_asked_again_and_is_told_why() -> None:
    async def main() -> None:
        model = ScriptedModel([f"It is {SECRET}.", f"It is not {SECRET}.", "I do not know it."])
        agent = hw.SimpleAgent(model=model, hooks=[output_guard(no_keys, look_back=10, retries=2)])
        events = await events_of(agent.stream("My key?", session="s"))
        assert end_of(events).outcome is hw.Outcome.COMPLETED
        assert end_of(events).response.text == "I do not know it."
        assert [event.attempt for event in events if isinstance(event, hw.ReasonStartEvent)] == [1, 2, 3]
        told = model.requests[2].messages[-1].text
        assert told.startswith("Your last answer was withdrawn and is void: It had a key in it.")
        assert [message.text for message in (await agent.load_session("s")).messages] == [
            "My key?",
            "I do not know it.",
        ]

    run(main)


def test_the_model_is_asked_again_no_more_often_than_allowed_and_never_beyond_the_budget() -> None:
    replies = [[say(f"It is {SECRET}."), usage(10, 0)] for _ in range(5)]
    guard = output_guard(no_keys, retries=2)
    model = ScriptedModel(replies)
    assert hw.SimpleAgent(model=model, hooks=[guard]).call("My key?").outcome is hw.Outcome.REJECTED
    assert len(model.requests) == 3
    model = ScriptedModel([[usage(10, 0), say(f"It is {SECRET}.")] for _ in range(5)])
    response = hw.SimpleAgent(model=model, budget=Budget(tokens=10), hooks=[guard]).call("My key?")
    assert response.outcome is hw.Outcome.REJECTED
    assert len(model.requests) == 1


def test_text_may_be_replaced_for_the_reader_and_the_history() -> None:
    async def main() -> None:
        model = ScriptedModel([[say(f"Your key is {SECRET}, keep {SECRET}.", cut=4)]])
        agent = hw.SimpleAgent(model=model, hooks=[output_guard(masks_keys, look_back=10)])
        events = await events_of(agent.stream("My key?", session="s"))
        assert texts(events) == ["Your key is (key), keep (key)."]
        assert end_of(events).response.text == "Your key is (key), keep (key)."
        assert (await agent.load_session("s")).messages[-1].text == "Your key is (key), keep (key)."

    run(main)


def test_a_preamble_is_judged_too_and_its_calls_are_void_with_it() -> None:
    started: list[str] = []

    @hw.tool(effect="read")
    async def look(where: str) -> str:
        """Look."""
        started.append(where)
        return "seen"

    async def main() -> None:
        replies = [[call("look", {"where": "x"}), say(f"with {SECRET}"), say(".")], "I looked."]
        agent = hw.ReActAgent(model=ScriptedModel(replies), tools=[look], hooks=[output_guard(no_keys, retries=1)])
        events = await events_of(agent.stream("Look.", session="s"))
        assert end_of(events).response.text == "I looked."
        assert [message.text for message in (await agent.load_session("s")).messages] == ["Look.", "I looked."]
        (start,) = [event for event in events if isinstance(event, hw.ToolCallStartEvent)]
        assert start.eager

    run(main)


def test_a_guard_may_hold_the_whole_text_until_it_is_complete() -> None:
    async def main() -> None:
        shown: list[str] = []

        def check(text: str) -> str | None:
            shown.append(text)
            return None if "please" in text else "Say please."

        model = ScriptedModel([[say("Sit ", "down.")], [say("Sit down, ", "please.")]])
        agent = hw.SimpleAgent(model=model, hooks=[output_guard(check, look_back=None, retries=1)])
        assert texts(await events_of(agent.stream("Go."))) == ["", "Sit down, please."]
        assert shown == ["Sit down.", "Sit down, please."]

    run(main)


@pytest.mark.parametrize("thinking", [False, True])
def test_thinking_is_judged_where_the_guard_says_so(thinking: bool) -> None:
    model = ScriptedModel([[think(f"The key is {SECRET}."), say("I will not say.")]])
    response = hw.SimpleAgent(model=model, hooks=[output_guard(no_keys, thinking=thinking)]).call("My key?")
    assert response.outcome is (hw.Outcome.REJECTED if thinking else hw.Outcome.COMPLETED)


def test_what_is_held_when_a_run_is_cancelled_is_not_given_out() -> None:
    async def main() -> None:
        model = ScriptedModel([[say("Your key is sk-1234"), wait(asyncio.Event())]])
        stream = hw.SimpleAgent(model=model, hooks=[output_guard(no_keys, look_back=10)]).stream("My key?")
        events: list[hw.AgentEvent] = []
        async for event in stream:
            events.append(event)
            if isinstance(event, hw.ReasonDeltaEvent) and event.text:
                break
        await stream.cancel()
        events += [event async for event in stream]
        check_events(events)
        assert end_of(events).outcome is hw.Outcome.CANCELLED
        assert texts(events) == ["Your key "]
        assert end_of(events).response.text == "Your key "

    run(main)


def test_a_withdrawn_answer_leaves_no_trace_in_final_text_that_was_not_read_yet() -> None:
    async def main() -> None:
        model = ScriptedModel([f"It is {SECRET} and more of it.", "I do not know."])
        agent = hw.ReActAgent(model=model, tools=[pay], hooks=[output_guard(no_keys, look_back=0, retries=1)])
        stream = agent.stream("My key?")
        assert [piece async for piece in stream.final_text()] == ["I do not know."]

    run(main)


def test_partial_values_begin_anew_after_a_withdrawal() -> None:
    async def main() -> None:
        first, second = '{"items": ["a", "' + SECRET + '"]}', '{"items": ["b"]}'
        model = ScriptedModel([[say(first, cut=4)], [say(second, cut=4)]])
        guard = output_guard(no_keys, look_back=10, retries=1)
        agent = hw.SimpleAgent(model=model, output_type=dict[str, list[str]], output_mode="prompt", hooks=[guard])
        stream = agent.stream("Go.")
        seen = [value async for value in stream.partial()]
        assert seen[-1] == {"items": ["b"]}
        assert not any(SECRET in str(value) for value in seen)
        assert (await stream.response()).output == {"items": ["b"]}

    run(main)


def test_an_output_guard_in_a_thread_of_its_own_reads_the_same_from_synchronous_code() -> None:
    model = ScriptedModel([f"It is {SECRET}."])
    agent = hw.SimpleAgent(model=model, hooks=[output_guard(no_keys, text="No.")])
    with agent.stream("My key?") as stream:
        assert "".join(stream.final_text()) == "No."


# -- tools ----------------------------------------------------------------------------------------------------------


def small(call: HookCall) -> str | NeedsApproval | None:
    if call.args["amount"] > 100:
        return "At most 100."
    return NeedsApproval("more than 10") if call.args["amount"] > 10 else None


async def slowly_small(call: HookCall) -> str | NeedsApproval | None:
    await asyncio.sleep(0)
    return small(call)


@pytest.mark.parametrize("check", [small, slowly_small])
def test_a_tool_guard_lets_run_refuses_or_asks_a_person(check: Callable[[HookCall], Any]) -> None:
    calls = [call("pay", {"amount": amount}) for amount in (1, 50, 500)]
    model = ScriptedModel([calls, "Done."])
    agent = hw.ReActAgent(model=model, tools=[pay], hooks=[tool_guard(check)])
    waiting = agent.call("Pay.", session="s")
    assert [(task.args, task.reason) for task in waiting.pending] == [({"amount": 50}, "more than 10")]
    assert agent.resume([hw.Approve(waiting.pending[0].call_id)], session="s").text == "Done."
    results = [m.text for m in model.requests[1].messages if isinstance(m, ToolMessage)]
    assert results == ["paid 1", "paid 50", "At most 100."]


def test_a_tool_guard_is_asked_about_its_tools_only() -> None:
    @hw.tool
    async def other() -> str:
        """Another."""
        return "done"

    asked: list[str] = []
    model = ScriptedModel([[call("pay", {"amount": 1}), call("other")], "Done."])
    guard = tool_guard(lambda call: asked.append(call.name), tools=["pay"])
    hw.ReActAgent(model=model, tools=[pay, other], hooks=[guard]).call("Go.")
    assert asked == ["pay"]


def pays(*names: str) -> Any:
    return tool_guard(lambda call: None, tools=names)


@pytest.mark.parametrize(
    "make",
    [
        lambda: hw.ReActAgent(model=ScriptedModel([]), tools=[pay], hooks=[pays("pay", "pya")]),
        lambda: hw.SimpleAgent(model=ScriptedModel([]), hooks=[pays("pya")]),
        lambda: hw.ReActAgent(model=ScriptedModel([]), tools=[pay]).call("Go.", hooks=[pays("pya")]),
        lambda: TeamAgent(
            "t", [hw.ReActAgent("a", model=ScriptedModel([]), tools=[pay])], Swarm(), hooks=[pays("pya")]
        ),
    ],
)
def test_a_tool_guard_of_a_tool_that_there_is_not_is_refused_by_name(make: Callable[[], Any]) -> None:
    with pytest.raises(UsageError, match="a tool named 'pya', which there is not") as refused:
        make()
    assert ("Is 'pay' meant?" in str(refused.value)) == ("Tools: pay" in str(refused.value))


def test_a_tool_guard_may_be_for_what_runs_inside() -> None:
    member = hw.ReActAgent("a", model=ScriptedModel(["Done."]), tools=[pay])
    TeamAgent("t", [member, hw.SimpleAgent("b", model=ScriptedModel([]))], Swarm(), hooks=[pays("pay", "raise_task")])
    hw.ReActAgent(model=ScriptedModel([]), tools=[member.as_tool("ask_a")], hooks=[pays("pay", "ask_a")])
    hw.ReActAgent(model=ScriptedModel([]), planning=True, hooks=[pays("create_plan")])


# -- what is no guard -----------------------------------------------------------------------------------------------


async def not_plain(_: str) -> Withdraw | None:
    return None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: output_guard(not_plain), "The output guard not_plain must be a plain function"),  # pyright: ignore[reportArgumentType] that is what is tested
        (lambda: input_guard("no"), "A guard is made of a function, not 'no'"),  # pyright: ignore[reportArgumentType] that is what is tested
        (lambda: hw.SimpleAgent(model=ScriptedModel([]), hooks=[output_guard(no_keys, look_back=-1)]), "look_back"),
    ],
)
def test_what_is_no_guard_is_refused_where_it_is_made(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()
