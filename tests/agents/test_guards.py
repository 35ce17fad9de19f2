"""Budgets, loop detection and fallback models, as an agent's user meets them."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

import headwater as hw
from headwater.chat.events import ModelEvent, TextDelta
from headwater.chat.request import ModelRequest, RequestOptions
from headwater.core.budget import Budget, Price
from headwater.core.decisions import Approve
from headwater.core.loops import LOOP_HINT, LoopGuard
from headwater.core.outbox import RunConfig
from headwater.core.run import RunMachine
from headwater.core.signals import Start
from headwater.drive.driver import Driver
from headwater.drive.ports import DriverConfig
from headwater.errors import UsageError, model_error
from headwater.events import AgentKind, Origin, ReasonEndEvent
from headwater.messages import ToolMessage, user
from headwater.testing import ScriptedModel, check_events
from headwater.testing.scripted import call, fail, say, usage, wait
from tests.agents.support import run

SOON = 0.05
"""Seconds of a budget that runs out while something hangs; nothing waits for it but the run itself."""


@hw.tool
async def note(text: str) -> str:
    """Note."""
    return "noted"


@hw.tool(requires_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return "paid"


@hw.tool
async def hang() -> str:
    """Hang."""
    await asyncio.Event().wait()
    return "never"


def notes(count: int, tokens: int = 10) -> list[Any]:
    """Replies that call `note` and then answer."""
    return [*([call("note", {"text": str(n)}), usage(tokens, 0)] for n in range(count)), "Done."]


async def events_of(stream: hw.Run) -> list[hw.AgentEvent]:
    events = [event async for event in stream]
    check_events(events)
    return events


def kind_of(response: hw.Response) -> str:
    assert response.outcome is hw.Outcome.LIMIT
    assert response.error is not None
    return response.error.kind


def test_a_spent_budget_is_returned_and_not_raised() -> None:
    model = ScriptedModel(notes(5))
    response = hw.ReActAgent(model=model, tools=[note], budget=Budget(tokens=20)).call("Go.")
    assert kind_of(response) == "budget_tokens"
    assert response.error is not None
    assert response.error.message == "The run's budget of 20 tokens is spent."
    assert len(model.requests) == 2


def test_a_run_may_have_another_budget_or_none() -> None:
    agent = hw.ReActAgent(model="local", tools=[note], budget=Budget(tool_calls=0))
    assert agent.call("Go.", model=ScriptedModel(notes(2)), budget=None).outcome is hw.Outcome.COMPLETED
    assert kind_of(agent.call("Go.", model=ScriptedModel(notes(2)))) == "budget_tool_calls"
    assert kind_of(agent.call("Go.", model=ScriptedModel(notes(2)), budget=Budget(rounds=1))) == "budget_rounds"


def test_each_run_has_its_budget_and_the_session_goes_on_after_a_limit() -> None:
    model = ScriptedModel([*notes(1)[:1], "Hello again."])
    agent = hw.ReActAgent(model=model, tools=[note], budget=Budget(tokens=10))
    assert kind_of(agent.call("Go.", session="s")) == "budget_tokens"
    assert agent.call("And now?", session="s").text == "Hello again."
    results = [m for m in model.requests[1].messages if isinstance(m, ToolMessage)]
    assert [m.text for m in results] == ["The call was not run: The run's budget of 10 tokens is spent."]


# -- time -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [hw.SimpleAgent, hw.ReActAgent])
def test_a_model_that_hangs_is_left_when_the_time_is_over(kind: Any) -> None:
    async def main() -> None:
        model = ScriptedModel([[say("Once upon"), wait(asyncio.Event())]])
        events = await events_of(kind(model=model, budget=Budget(seconds=SOON)).stream("A story."))
        end = events[-1]
        assert isinstance(end, hw.RunEndEvent)
        assert kind_of(end.response) == "budget_seconds"
        assert end.response.text == "Once upon"
        assert model.closed == 1

    run(main)


def test_a_tool_that_hangs_is_stopped_when_the_time_is_over() -> None:
    async def main() -> None:
        model = ScriptedModel([[call("hang"), call("note", {"text": "x"})]])
        agent = hw.ReActAgent(model=model, tools=[hang, note], budget=Budget(seconds=SOON))
        events = await events_of(agent.stream("Go."))
        ends = {e.tool_name: e.status for e in events if isinstance(e, hw.ToolCallEndEvent)}
        assert ends == {"hang": hw.ToolStatus.CANCELLED, "note": hw.ToolStatus.OK}
        end = events[-1]
        assert isinstance(end, hw.RunEndEvent)
        assert kind_of(end.response) == "budget_seconds"
        assert len(model.requests) == 1

    run(main)


def test_a_synchronous_tool_is_told_and_its_result_is_kept() -> None:
    told = threading.Event()

    @hw.tool
    def work(ctx: hw.ToolContext) -> str:
        """Work until told to stop."""
        while not ctx.cancelled:
            told.wait(0.001)
        return "as far as I got"

    response = hw.ReActAgent(model=ScriptedModel([[call("work")]]), tools=[work], budget=Budget(seconds=SOON)).call(
        "Go."
    )
    assert kind_of(response) == "budget_seconds"


def test_a_pause_before_a_retry_is_cut_short() -> None:
    async def main() -> None:
        busy = model_error("http_error", "busy", status=503, retryable=True, retry_after=50.0)
        model = ScriptedModel([[fail(busy)]])
        events = await events_of(hw.SimpleAgent(model=model, budget=Budget(seconds=SOON)).stream("Hi."))
        end = events[-1]
        assert isinstance(end, hw.RunEndEvent)
        assert kind_of(end.response) == "budget_seconds"

    run(main)


class Endless:
    """A model that says one word and then nothing; `left` is set when its stream is closed."""

    name = "endless"

    def __init__(self) -> None:
        self.left = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
        try:
            yield [TextDelta("word")]
            await asyncio.Event().wait()
        finally:
            self.left.set()


def test_what_runs_is_stopped_in_time_even_if_nobody_reads() -> None:
    stopped = asyncio.Event()

    @hw.tool(effect="read")
    async def watch(what: str) -> str:
        """Watch."""
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    async def main() -> None:
        model = Endless()
        async with hw.SimpleAgent(model=model, budget=Budget(seconds=SOON)).stream("Hi.") as stream:
            async for event in stream:
                if isinstance(event, hw.ReasonDeltaEvent):
                    break
            await model.left.wait()  # nobody reads meanwhile
            rest = [event async for event in stream]
        assert isinstance(rest[-1], hw.RunEndEvent)
        assert kind_of(rest[-1].response) == "budget_seconds"

        agent = hw.ReActAgent(
            model=ScriptedModel([[call("watch", {"what": "x"})]]), tools=[watch], budget=Budget(seconds=SOON)
        )
        async with agent.stream("Hi.") as stream:
            async for event in stream:
                if isinstance(event, hw.ToolCallStartEvent):
                    break
            await stopped.wait()
            rest = [event async for event in stream]
        assert isinstance(rest[-1], hw.RunEndEvent)
        assert kind_of(rest[-1].response) == "budget_seconds"

    run(main)


def test_time_is_that_of_the_drivers_clock() -> None:
    now = 1_000_000.0

    @hw.tool
    async def sleep(seconds: int) -> str:
        """Let time pass."""
        nonlocal now
        now += seconds
        return "slept"

    async def main() -> list[hw.AgentEvent]:
        model = ScriptedModel([[call("sleep", {"seconds": 40})], [call("sleep", {"seconds": 40})], "Never asked for."])
        origin = Origin(run_id="run_1", root_run_id="run_1", agent="a", agent_kind=AgentKind.REACT, path=("a",))
        config = RunConfig(origin=origin, model_name=model.name, tools={"sleep": sleep}, budget=Budget(seconds=60.0))
        driver = Driver(
            RunMachine(config),
            DriverConfig(model, (), RequestOptions(), contextvars.copy_context(), clock=lambda: now),
        )
        driver.start(Start((user("Go."),)))
        while not driver.finished:
            await driver.step()
        assert len(model.requests) == 2
        return list(driver.ready)

    events = run(main)
    check_events(events)
    end = events[-1]
    assert isinstance(end, hw.RunEndEvent)
    assert kind_of(end.response) == "budget_seconds"
    assert end.duration == 80.0


def test_a_run_that_ends_in_time_leaves_no_timer_behind() -> None:
    async def main() -> None:
        stream = hw.SimpleAgent(model=ScriptedModel(["Hi."]), budget=Budget(seconds=3600)).stream("Hi.")
        assert (await stream.response()).outcome is hw.Outcome.COMPLETED
        driver = stream._driver
        assert driver is not None
        deadline = driver._root._deadline
        assert deadline is not None
        assert deadline.cancelled()

    run(main)


# -- across segments ------------------------------------------------------------------------------------------------


def test_what_a_suspended_run_has_spent_counts_when_it_goes_on_elsewhere(tmp_path: Path) -> None:
    async def main() -> None:
        store = tmp_path / "agent.db"
        script = [[call("note", {"text": "a"}), call("pay", {"amount": 1}, id="p"), call("pay", {"amount": 2}, id="q")]]
        budget = Budget(tool_calls=2)
        first = hw.ReActAgent(model=ScriptedModel(script), tools=[note, pay], store=store, budget=budget)
        events = [event async for event in first.stream("Go.", session="s")]
        await first.aclose()
        second = hw.ReActAgent(model=ScriptedModel([]), tools=[note, pay], store=store, budget=budget)
        events += [event async for event in second.resume_stream([Approve("p"), Approve("q")], session="s")]
        check_events(events)
        ends = [(e.text, e.executed) for e in events if isinstance(e, hw.ToolCallEndEvent)]
        assert ends[:1] == [("noted", True)]
        assert sorted(executed for _, executed in ends) == [False, True, True]
        end = events[-1]
        assert isinstance(end, hw.RunEndEvent)
        assert kind_of(end.response) == "budget_tool_calls"
        assert [m.text for m in (await second.load_session("s")).messages if isinstance(m, ToolMessage)] == [
            "noted", "paid", "The call was not run: The run's budget of 2 tool calls is spent.",
        ]  # fmt: skip
        await second.aclose()

    run(main)


# -- money ----------------------------------------------------------------------------------------------------------


def test_every_model_that_may_be_asked_needs_a_price() -> None:
    dear, cheap, unknown = (ScriptedModel([], name=name) for name in ("dear", "cheap", "unknown"))
    budget = Budget(money=0.5, prices={"dear": (2.0, 8.0, 0.5), "cheap": Price(input=0.1, output=0.4)})
    agent = hw.SimpleAgent(model=dear, fallback=[cheap], budget=budget)
    with pytest.raises(UsageError, match="'unknown' is not known"):
        hw.SimpleAgent(model=dear, fallback=[unknown], budget=budget)
    with pytest.raises(UsageError, match="'unknown' is not known"):
        agent.stream("Hi.", model=unknown)
    with pytest.raises(UsageError, match="'dear', 'cheap' is not known"):
        agent.stream("Hi.", budget=Budget(money=1))


def test_money_is_counted_with_the_price_of_the_model_that_answered() -> None:
    dear = ScriptedModel([[fail(model_error("http_error", "no credit", status=402))]], name="dear")
    cheap = ScriptedModel(notes(4, tokens=1_000_000), name="cheap")
    agent = hw.ReActAgent(
        model=dear, fallback=[cheap], tools=[note], budget=Budget(money=2.0, prices={"dear": (50, 50), "cheap": (1, 1)})
    )
    assert kind_of(agent.call("Go.")) == "budget_money"
    assert len(cheap.requests) == 2


# -- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"budget": 500}, "budget must be a Budget"),
        ({"budget": Budget(tokens=-1)}, "budget.tokens"),
        ({"budget": Budget(rounds=1.5)}, "budget.rounds"),  # pyright: ignore[reportArgumentType] - that is what is tested
        ({"budget": Budget(seconds=float("nan"))}, "budget.seconds"),
        ({"budget": Budget(money=1)}, "price"),
        ({"loop": 3}, "loop must be a LoopGuard"),
        ({"loop": LoopGuard(repeats=1)}, "loop.repeats"),
        ({"loop": LoopGuard(repeats=4, window=3)}, "loop.window"),
        ({"loop": LoopGuard(ignore="poll")}, "loop.ignore"),  # pyright: ignore[reportArgumentType] - that is what is tested
        ({"fallback": "openai:gpt-5-mini"}, "fallback must be a list"),
        ({"fallback": ["nosuch:model"]}, "nosuch"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        hw.ReActAgent(model=ScriptedModel([]), **settings)
    with pytest.raises(UsageError, match=message):
        hw.ReActAgent(model=ScriptedModel([])).stream("Hi.", **settings)


# -- loops ----------------------------------------------------------------------------------------------------------


def test_a_model_that_goes_in_circles_is_told_and_then_stopped() -> None:
    again = [call("note", {"text": "same"})]
    model = ScriptedModel([again, again, again])
    response = hw.ReActAgent(model=model, tools=[note], loop=LoopGuard(repeats=2)).call("Go.", session="s")
    assert kind_of(response) == "loop"
    assert [m.text for m in model.requests[2].messages[-1:]] == [LOOP_HINT]
    assert all(LOOP_HINT not in getattr(m, "text", "") for request in model.requests[:2] for m in request.messages)


def test_the_guard_may_be_given_for_one_run() -> None:
    again = [call("note", {"text": "same"})]
    agent = hw.ReActAgent(model="local", tools=[note])
    script = [again, again, again, "Done."]
    assert agent.call("Go.", model=ScriptedModel(script)).outcome is hw.Outcome.COMPLETED
    assert kind_of(agent.call("Go.", model=ScriptedModel(script), loop=LoopGuard(repeats=2))) == "loop"


# -- fallback -------------------------------------------------------------------------------------------------------


def test_another_model_answers_and_events_say_which() -> None:
    async def main() -> None:
        first = ScriptedModel([[fail(model_error("http_error", "no such key", status=401))]], name="first")
        second = ScriptedModel([[call("note", {"text": "x"})], "Done."], name="second")
        agent = hw.ReActAgent(model=first, tools=[note], fallback=[second])
        stream = agent.stream("Go.")
        assert "".join([piece async for piece in stream.final_text()]) == "Done."
        assert (len(first.requests), len(second.requests)) == (1, 2)
        assert second.requests[0].messages == first.requests[0].messages

        again = ScriptedModel([[fail(model_error("http_error", "no such key", status=401))]], name="first")
        second = ScriptedModel(["Hi."], name="second")
        events = await events_of(agent.stream("Go.", model=again, fallback=[second]))
        assert [e.model for e in events if isinstance(e, hw.ReasonStartEvent)] == ["first", "second"]
        assert [e.reason for e in events if isinstance(e, hw.ReasonDiscardEvent)] == ["no such key"]

    run(main)


def test_a_model_that_raises_something_foreign_has_a_fallback_too() -> None:
    class Broken:
        name = "broken"

        async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
            raise ZeroDivisionError
            yield []

    assert hw.SimpleAgent(model=Broken(), fallback=[ScriptedModel(["Hi."])]).call("Hi.").text == "Hi."


def test_a_cancellation_that_a_model_makes_up_is_no_reason_to_ask_another() -> None:
    class Cancelled:
        name = "cancelled"

        async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
            raise asyncio.CancelledError
            yield []

    async def main() -> None:
        other = ScriptedModel(["Hi."])
        with pytest.raises(hw.RunError, match="'cancelled' was cancelled, and not by the run"):
            await hw.SimpleAgent(model=Cancelled(), fallback=[other]).call_async("Hi.")
        assert other.requests == []

    run(main)


def test_the_first_model_is_asked_first_in_each_run() -> None:
    broken = model_error("http_error", "down", status=500)
    first = ScriptedModel([[fail(broken)], "I am back."], name="first")
    second = ScriptedModel(["Hello."], name="second")
    agent = hw.SimpleAgent(model=first, fallback=[second], retry=hw.Retry(retries=0))
    assert [agent.call("Hi.").text for _ in range(2)] == ["Hello.", "I am back."]


def test_a_failure_of_all_models_is_raised_with_the_last_error() -> None:
    models = [ScriptedModel([[fail(model_error("http_error", f"no {n}", status=400))]], name=f"m{n}") for n in range(3)]
    with pytest.raises(hw.ModelHTTPError, match="no 2") as caught:
        hw.SimpleAgent(model=models[0], fallback=models[1:]).call("Hi.")
    assert caught.value.run_end is not None


def test_an_event_of_a_discarded_attempt_says_what_it_took() -> None:
    async def main() -> None:
        broken = model_error("stream_truncated", "cut off")
        model = ScriptedModel([[say("Half"), usage(7, 3), fail(broken)]], name="first")
        agent = hw.SimpleAgent(model=model, fallback=[ScriptedModel([["All.", usage(1, 1)]])])
        events = await events_of(agent.stream("Hi.", retry=hw.Retry(after_output="discard")))
        [discard] = [e for e in events if isinstance(e, hw.ReasonDiscardEvent)]
        assert discard.usage == hw.Usage(input_tokens=7, output_tokens=3, total_tokens=10)
        [turn] = [e for e in events if isinstance(e, ReasonEndEvent)]
        end = events[-1]
        assert isinstance(end, hw.RunEndEvent)
        assert end.response.text == turn.message.text == "All."
        assert end.usage == msgspec.structs.replace(hw.Usage(), input_tokens=8, output_tokens=4, total_tokens=12)

    run(main)
