"""Hooks as an agent's user meets them: order, what they may say, what becomes of their errors."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

import headwater as hw
from headwater.chat.request import ModelRequest
from headwater.core.budget import Budget
from headwater.core.decisions import Always, Approve, Reject
from headwater.errors import UsageError, model_error
from headwater.hooks import HookCall, HookContext, HookError, LogHook, ModelTurn, NeedsApproval, Refuse, Withdraw
from headwater.messages import SystemMessage, ToolMessage, user
from headwater.testing import ScriptedModel, call, check_events, fail, say, usage, wait
from tests.agents.support import run


@hw.tool
async def note(text: str) -> str:
    """Note."""
    return f"noted {text}"


@hw.tool(effect="read")
async def look(where: str) -> str:
    """Look."""
    return f"saw {where}"


@hw.tool
async def broken() -> str:
    """Break."""
    raise KeyError("lost")


async def events_of(stream: hw.Run[Any]) -> list[hw.AgentEvent]:
    events = [event async for event in stream]
    check_events(events)
    return events


def ends(events: list[hw.AgentEvent]) -> dict[str, hw.ToolCallEndEvent]:
    return {event.call_id: event for event in events if isinstance(event, hw.ToolCallEndEvent)}


def end_of(events: list[hw.AgentEvent]) -> hw.RunEndEvent:
    end = events[-1]
    assert isinstance(end, hw.RunEndEvent)
    return end


class Told:
    """Writes down what it is asked, as `name:method`; async or not."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log

    def before_model(self, ctx: HookContext, request: ModelRequest) -> None:
        self.log.append(f"{self.name}:before_model {ctx.round}")

    def after_model(self, ctx: HookContext, turn: ModelTurn) -> None:
        self.log.append(f"{self.name}:after_model {turn.message.text}")

    def before_tool(self, ctx: HookContext, call: HookCall) -> None:
        self.log.append(f"{self.name}:before_tool {call.name}")

    def after_tool(self, ctx: HookContext, call: HookCall, outcome: Any) -> None:
        self.log.append(f"{self.name}:after_tool {outcome.text}")


class AsyncTold(Told):
    async def before_model(self, ctx: HookContext, request: ModelRequest) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] both forms are hooks
        await asyncio.sleep(0)
        super().before_model(ctx, request)

    async def after_tool(self, ctx: HookContext, call: HookCall, outcome: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] both forms are hooks
        await asyncio.sleep(0)
        super().after_tool(ctx, call, outcome)


# -- order ----------------------------------------------------------------------------------------------------------


def test_hooks_are_asked_in_order_going_in_and_in_reverse_coming_out() -> None:
    log: list[str] = []
    model = ScriptedModel([[say("Hm."), call("note", {"text": "x"})], "Done."])
    agent = hw.ReActAgent(model=model, tools=[note], hooks=[Told("a", log), AsyncTold("b", log)])
    assert agent.call("Go.", hooks=[Told("c", log)]).text == "Done."
    assert log == [
        *(f"{name}:before_model 1" for name in "abc"),
        *(f"{name}:after_model Hm." for name in "cba"),
        *(f"{name}:before_tool note" for name in "abc"),
        *(f"{name}:after_tool noted x" for name in "cba"),
        *(f"{name}:before_model 2" for name in "abc"),
        *(f"{name}:after_model Done." for name in "cba"),
    ]


def test_calls_of_a_turn_are_judged_in_their_order_before_any_of_them_starts() -> None:
    class Judge:
        def __init__(self) -> None:
            self.log: list[str] = []

        async def before_tool(self, ctx: HookContext, call: HookCall) -> None:
            await asyncio.sleep(0)
            self.log.append(call.call_id)

        def on_event(self, ctx: HookContext, event: hw.AgentEvent) -> None:
            if isinstance(event, hw.ActionStartEvent):
                self.log.append(event.type)

    judge = Judge()
    model = ScriptedModel([[call("note", {"text": "1"}), call("look", {"where": "x"})], "Done."])
    hw.ReActAgent(model=model, tools=[note, look], hooks=[judge]).call("Go.")
    assert judge.log == ["r1c1", "r1c2", "action.start"]


def test_a_context_says_which_run_it_is_and_keeps_what_hooks_put_there() -> None:
    class Seen:
        def before_model(self, ctx: HookContext, request: ModelRequest) -> None:
            ctx.state["requests"] = ctx.state.get("requests", 0) + 1

        def after_model(self, ctx: HookContext, turn: ModelTurn) -> None:
            ctx.emit(
                "turn", {"requests": ctx.state["requests"], "who": [ctx.agent, ctx.session_id, *ctx.path, ctx.deps]}
            )

    async def main() -> None:
        agent = hw.ReActAgent("ann", model=ScriptedModel([[call("note", {"text": "x"})], "Done."]), tools=[note])
        stream = agent.stream("Go.", session="s", deps=7, hooks=[Seen()])
        customs = [event for event in await events_of(stream) if isinstance(event, hw.CustomEvent)]
        assert [(event.name, event.round, event.data) for event in customs] == [
            ("turn", number, {"requests": number, "who": ["ann", "s", "ann", 7]}) for number in (1, 2)
        ]

    run(main)


# -- model requests -------------------------------------------------------------------------------------------------


def test_a_changed_request_goes_out_and_is_no_part_of_the_history() -> None:
    class Brief:
        def before_model(self, ctx: HookContext, request: ModelRequest) -> ModelRequest:
            messages = [SystemMessage(text="Be brief."), *request.messages]
            return msgspec.structs.replace(request, messages=messages, options=hw.RequestOptions(seed=ctx.round))

    async def main() -> None:
        model = ScriptedModel([[call("note", {"text": "x"})], "Done."])
        agent = hw.ReActAgent(model=model, tools=[note], hooks=[Brief()])
        await events_of(agent.stream("Go.", session="s"))
        assert [request.options.seed for request in model.requests] == [1, 2]
        assert all(request.messages[0] == SystemMessage(text="Be brief.") for request in model.requests)
        kept = (await agent.load_session("s")).messages
        assert [type(message) for message in kept].count(SystemMessage) == 0
        assert kept[0] == user("Go.")

    run(main)


def test_each_hook_sees_the_request_as_those_before_left_it() -> None:
    class Adds:
        def __init__(self, word: str) -> None:
            self.word = word
            self.seen = 0

        def before_model(self, ctx: HookContext, request: ModelRequest) -> ModelRequest:
            self.seen = len(request.messages)
            return msgspec.structs.replace(request, messages=[*request.messages, user(self.word)])

    first, second = Adds("one"), Adds("two")
    model = ScriptedModel(["Done."])
    hw.SimpleAgent(model=model, hooks=[first, second]).call("Go.")
    assert (first.seen, second.seen) == (1, 2)
    assert [message.text for message in model.requests[0].messages] == ["Go.", "one", "two"]


def test_a_request_is_shown_again_when_it_is_made_again() -> None:
    log: list[str] = []
    busy = model_error("http_error", "busy", status=503, retryable=True)
    model = ScriptedModel([[fail(busy)], "Done."])
    hw.SimpleAgent(model=model, retry=hw.Retry(base=0.0), hooks=[Told("a", log)]).call("Go.")
    assert log == ["a:before_model 1", "a:before_model 1", "a:after_model Done."]


@pytest.mark.parametrize("kind", [hw.SimpleAgent, hw.ReActAgent])
def test_a_refused_request_is_not_made_and_its_text_is_the_answer(kind: Any) -> None:
    class Never:
        def before_model(self, ctx: HookContext, request: ModelRequest) -> Refuse:
            return Refuse("Not today.")

    async def main() -> None:
        log: list[str] = []
        model = ScriptedModel(["Yes."])
        agent = kind(model=model, hooks=[Never(), Told("a", log)])
        stream = agent.stream("Go.", session="s")
        text = "".join([piece async for piece in stream.final_text()])
        assert text == "Not today."
        assert stream.end.outcome is hw.Outcome.REJECTED
        assert stream.end.error.kind == "input_refused"
        assert stream.end.error.message == "The hook Never refused the request, so it was not made."
        assert stream.end.response.text == "Not today."
        assert stream.end.response.usage == hw.Usage()
        assert model.requests == []
        assert log == []
        assert (await agent.load_session("s")).messages == ()

    run(main)


def test_a_request_refused_later_keeps_what_was_done_before() -> None:
    class Once:
        def before_model(self, ctx: HookContext, request: ModelRequest) -> Refuse | None:
            return Refuse("Enough.") if ctx.round == 2 else None

    async def main() -> None:
        agent = hw.ReActAgent(model=ScriptedModel([[call("note", {"text": "x"})]]), tools=[note], hooks=[Once()])
        events = await events_of(agent.stream("Go.", session="s"))
        assert end_of(events).outcome is hw.Outcome.REJECTED
        assert end_of(events).response.rounds == 2
        kept = (await agent.load_session("s")).messages
        assert [message.text for message in kept] == ["Go.", "", "noted x", "Enough."]

    run(main)


def test_a_turn_may_be_withdrawn_after_it_was_said_and_before_its_calls_run() -> None:
    class Judge:
        async def after_model(self, ctx: HookContext, turn: ModelTurn) -> Withdraw | None:
            await asyncio.sleep(0)
            if turn.message.calls:
                return Withdraw("No tools, please.", retries=1)
            return None

    async def main() -> None:
        replies = [[say("Let me."), call("look", {"where": "x"}), usage(3, 4)], "Done."]
        model = ScriptedModel(replies)
        agent = hw.ReActAgent(model=model, tools=[look], hooks=[Judge()])
        events = await events_of(agent.stream("Go.", session="s"))
        assert [
            event.type for event in events if event.type.startswith("reason.d") or event.type == "action.start"
        ] == [
            *["reason.delta"] * 3,
            "reason.discard",
            *["reason.delta"] * 3,
        ]
        assert end_of(events).outcome is hw.Outcome.COMPLETED
        assert end_of(events).usage.total_tokens == 7
        assert "No tools, please." in model.requests[1].messages[-1].text
        assert [message.text for message in (await agent.load_session("s")).messages] == ["Go.", "Done."]

    run(main)


# -- tool calls -----------------------------------------------------------------------------------------------------


class Says:
    """Answers `before_tool` with what is written down for the tool."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def before_tool(self, ctx: HookContext, call: HookCall) -> Any:
        self.asked.append((call.name, call.args))
        return self.answers.get(call.name)


def test_a_refused_call_is_not_run_and_the_model_reads_why() -> None:
    async def main() -> None:
        model = ScriptedModel([[call("note", {"text": "x"}), call("look", {"where": "y"})], "Done."])
        agent = hw.ReActAgent(model=model, tools=[note, look], hooks=[Says(note=Refuse("Not here."))])
        events = await events_of(agent.stream("Go."))
        refused, ran = ends(events)["r1c1"], ends(events)["r1c2"]
        assert (refused.status, refused.executed, refused.text) == (hw.ToolStatus.DENIED, False, "Not here.")
        assert refused.error is not None
        assert refused.error.kind == "refused"
        assert (ran.status, ran.text) == (hw.ToolStatus.OK, "saw y")
        results = [m for m in model.requests[1].messages if isinstance(m, ToolMessage)]
        assert [(m.text, m.is_error) for m in results] == [("Not here.", True), ("saw y", False)]

    run(main)


def test_a_hook_may_give_the_result_itself() -> None:
    async def main() -> None:
        cached, bad = hw.ToolResult("cached"), hw.ToolResult("too many", is_error=True)
        model = ScriptedModel([[call("note", {"text": "x"}), call("look", {"where": "y"})], "Done."])
        agent = hw.ReActAgent(model=model, tools=[note, look], hooks=[Says(note=cached, look=bad)])
        found = ends(await events_of(agent.stream("Go.")))
        assert [(e.status, e.executed, e.text) for e in found.values()] == [
            (hw.ToolStatus.OK, False, "cached"),
            (hw.ToolStatus.ERROR, False, "too many"),
        ]

    run(main)


def test_the_first_hook_that_settles_a_call_is_the_last_one_asked() -> None:
    first, second, third = Says(note=NeedsApproval()), Says(note=Refuse("No.")), Says(note=hw.ToolResult("yes"))
    model = ScriptedModel([[call("note", {"text": "x"})], "Done."])
    response = hw.ReActAgent(model=model, tools=[note], hooks=[first, second, third]).call("Go.")
    assert response.outcome is hw.Outcome.COMPLETED
    assert [len(hook.asked) for hook in (first, second, third)] == [1, 1, 0]
    assert model.requests[1].messages[-1].text == "No."


def test_hooks_are_not_asked_about_calls_that_could_not_run() -> None:
    says = Says()
    model = ScriptedModel(
        [[call("nobody"), call("note", "{"), call("note", {"wrong": 1}), call("note", {"text": "x"})], ""]
    )
    hw.ReActAgent(model=model, tools=[note], hooks=[says]).call("Go.")
    assert says.asked == [("note", {"text": "x"})]


def test_a_tool_that_a_hook_judges_does_not_start_early_and_others_do() -> None:
    class Only(Says):
        only_tools = ("look",)

    @hw.tool(effect="read")
    async def peek(where: str) -> str:
        """Peek."""
        return "peeked"

    async def main() -> None:
        calls = [call("look", {"where": "x"}), call("peek", {"where": "y"}), say("."), say(".")]
        agent = hw.ReActAgent(model=ScriptedModel([calls, "Done."]), tools=[look, peek], hooks=[Only()])
        events = await events_of(agent.stream("Go."))
        eager = {e.tool_name: e.eager for e in events if isinstance(e, hw.ToolCallStartEvent)}
        assert eager == {"look": False, "peek": True}

    run(main)


def test_a_result_may_be_replaced_before_anybody_reads_it() -> None:
    class Masks:
        def after_tool(self, ctx: HookContext, call: HookCall, outcome: Any) -> hw.ToolResult:
            return hw.ToolResult(outcome.text.replace("x", "*"))

    class Fails:
        def after_tool(self, ctx: HookContext, call: HookCall, outcome: Any) -> hw.ToolResult | None:
            return hw.ToolResult("not found", is_error=True) if call.name == "look" else None

    async def main() -> None:
        replies = [[call("note", {"text": "x"}), call("look", {"where": "x"}), call("broken")], "Done."]
        model = ScriptedModel(replies)
        agent = hw.ReActAgent(model=model, tools=[note, look, broken], hooks=[Masks(), Fails()])
        events = await events_of(agent.stream("Go."))
        assert [(e.status, e.text) for e in sorted(ends(events).values(), key=lambda e: e.call_id)] == [
            (hw.ToolStatus.OK, "noted *"),
            (hw.ToolStatus.ERROR, "not found"),
            (hw.ToolStatus.ERROR, "KeyError: 'lost'"),
        ]
        assert [m.text for m in model.requests[1].messages[-3:]] == ["noted *", "not found", "KeyError: 'lost'"]

    run(main)


# -- approvals are the same seam ------------------------------------------------------------------------------------


def test_a_demand_for_approval_suspends_the_run_and_a_decision_answers_it(tmp_path: Path) -> None:
    async def main() -> None:
        says = Says(note=NeedsApproval("It is public."))
        replies = [[call("note", {"text": "x"}), call("look", {"where": "y"})], "Done."]
        agent = hw.ReActAgent(model=ScriptedModel(replies), tools=[note, look], store=tmp_path / "s.db", hooks=[says])
        events = await events_of(agent.stream("Go.", session="s"))
        assert end_of(events).outcome is hw.Outcome.SUSPENDED
        (task,) = end_of(events).response.pending
        assert (task.tool_name, task.reason) == ("note", "It is public.")
        assert list(ends(events)) == ["r1c2"]
        decisions = [Approve(task.call_id, args={"text": "y"})]
        more = [event async for event in agent.resume_stream(decisions, session="s")]
        check_events([*events, *more])
        assert ends(more)["r1c1"].text == "noted y"
        assert end_of(more).response.text == "Done."
        # What was approved is judged once more, with the arguments that it runs with.
        assert says.asked == [("note", {"text": "x"}), ("look", {"where": "y"}), ("note", {"text": "y"})]
        await agent.aclose()

    run(main)


def test_a_demand_needs_no_store_that_the_user_names() -> None:
    agent = hw.ReActAgent(
        model=ScriptedModel([[call("note", {"text": "x"})], "Done."]), tools=[note], hooks=[Says(note=NeedsApproval())]
    )
    waiting = agent.call("Go.")
    assert waiting.outcome is hw.Outcome.SUSPENDED
    response = agent.resume([Reject(waiting.pending[0].call_id, "No.")], run_id=waiting.run_id)
    assert response.text == "Done."


def test_a_persons_approval_does_not_overrule_a_refusal() -> None:
    class Limit:
        def before_tool(self, ctx: HookContext, call: HookCall) -> NeedsApproval | Refuse:
            return Refuse("Too long.") if len(call.args["text"]) > 3 else NeedsApproval()

    async def main() -> None:
        model = ScriptedModel([[call("note", {"text": "x"})], "Done."])
        agent = hw.ReActAgent(model=model, tools=[note], hooks=[Limit()])
        await events_of(agent.stream("Go.", session="s"))
        more = [e async for e in agent.resume_stream([Approve("r1c1", args={"text": "much longer"})], session="s")]
        assert (ends(more)["r1c1"].executed, ends(more)["r1c1"].text) == (False, "Too long.")

    run(main)


def test_always_answers_the_demands_of_hooks_as_well() -> None:
    async def main() -> None:
        replies = [[call("note", {"text": "x"})], [call("note", {"text": "y"})], "Done."]
        agent = hw.ReActAgent(model=ScriptedModel(replies), tools=[note], hooks=[Says(note=NeedsApproval())])
        await events_of(agent.stream("Go.", session="s"))
        response = await agent.resume_async([Always("r1c1")], session="s")
        assert response.text == "Done."

    run(main)


def test_a_rule_is_not_asked_about_what_a_hook_has_refused() -> None:
    asked: list[str] = []

    def rule(name: str, args: dict[str, Any]) -> bool:
        asked.append(name)
        return True

    model = ScriptedModel([[call("note", {"text": "x"})], "Done."])
    agent = hw.ReActAgent(model=model, tools=[note], needs_approval=rule, hooks=[Says(note=Refuse("No."))])
    assert agent.call("Go.").outcome is hw.Outcome.COMPLETED
    assert model.requests[1].messages[-1].text == "No."


# -- events and errors ----------------------------------------------------------------------------------------------


def test_an_observer_sees_every_event_once_in_order_and_before_the_reader() -> None:
    class Observer:
        def __init__(self) -> None:
            self.seen: list[hw.AgentEvent] = []

        def on_event(self, ctx: HookContext, event: hw.AgentEvent) -> None:
            assert ctx.round == event.round
            self.seen.append(event)

    async def main() -> None:
        first, second = Observer(), Observer()
        model = ScriptedModel([[say("Hm.", cut=1), call("note", {"text": "x"}, cut=2)], "Done."])
        agent = hw.ReActAgent(model=model, tools=[note], hooks=[first, second])
        read: list[hw.AgentEvent] = []
        async for event in agent.stream("Go."):
            read.append(event)
            assert first.seen[: len(read)] == read
        assert first.seen == second.seen == read

    run(main)


def forty_two(*_: Any) -> int:
    return 42


class Raises:
    """Raises in the method that it is given."""

    def __init__(self, method: str) -> None:
        def raise_(*_: Any) -> None:
            raise ValueError("no good")

        setattr(self, method, raise_)


@pytest.mark.parametrize("method", ["before_model", "after_model", "before_tool", "after_tool", "check_text"])
def test_what_a_hook_raises_ends_the_run_with_an_error_of_its_own(method: str) -> None:
    async def main() -> None:
        model = ScriptedModel([[say("Hm."), call("note", {"text": "x"})], "Done."])
        agent = hw.ReActAgent(model=model, tools=[note], fallback=[ScriptedModel(["Other."])], hooks=[Raises(method)])  # pyright: ignore[reportArgumentType] its methods are made
        stream = agent.stream("Go.", session="s")
        events: list[hw.AgentEvent] = []
        while batch := await stream.next_batch():
            events += batch
        with pytest.raises(HookError) as raised:
            await stream.response()
        check_events(events)
        assert str(raised.value) == f"The hook Raises failed in {method}: ValueError: no good"
        assert raised.value.kind == "hook_error"
        assert raised.value.run_end is end_of(events)
        if method != "check_text":
            assert isinstance(raised.value.__cause__, ValueError)
        assert all(event.text != "noted x" for event in ends(events).values())

    run(main)


@pytest.mark.parametrize("method", ["before_model", "after_model", "before_tool", "after_tool", "check_text"])
def test_an_answer_that_a_hook_may_not_give_is_its_error(method: str) -> None:
    class Odd:
        pass

    odd = Odd()
    setattr(odd, method, forty_two)
    model = ScriptedModel([[say("Hm."), call("note", {"text": "x"})], "Done."])
    with pytest.raises(HookError, match=f"failed in {method}: TypeError: it returned 42; it may return "):
        hw.ReActAgent(model=model, tools=[note], hooks=[odd]).call("Go.")  # pyright: ignore[reportArgumentType] its methods are made


@pytest.mark.parametrize("method", ["on_event", "on_error"])
def test_an_observer_that_raises_is_heard_of_once_and_never_asked_again(method: str) -> None:
    async def main() -> None:
        told: list[dict[str, Any]] = []

        def handler(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            told.append(context)

        asyncio.get_running_loop().set_exception_handler(handler)
        model = ScriptedModel([[call("broken"), call("broken")], "Done."])
        agent = hw.ReActAgent(model=model, tools=[broken], hooks=[Raises(method)])  # pyright: ignore[reportArgumentType] its methods are made
        events = await events_of(agent.stream("Go."))
        assert end_of(events).outcome is hw.Outcome.COMPLETED
        (custom,) = [event for event in events if isinstance(event, hw.CustomEvent)]
        message = f"The hook Raises failed in {method}: ValueError: no good"
        assert (custom.name, custom.data) == ("hook_error", {"hook": "Raises", "method": method, "message": message})
        assert [type(context["exception"]) for context in told] == [ValueError]

    run(main)


def test_what_tools_models_and_hooks_raise_is_told_with_its_traceback() -> None:
    class Errors:
        def __init__(self) -> None:
            self.seen: list[tuple[str, str]] = []

        def on_error(self, ctx: HookContext, error: BaseException, call: HookCall | None) -> None:
            assert error.__traceback__ is not None
            self.seen.append((type(error).__name__, call.name if call else ""))

    errors = Errors()
    busy = model_error("http_error", "busy", status=503, retryable=True)
    model = ScriptedModel([[fail(busy)], [call("broken")], "Done."])
    agent = hw.ReActAgent(model=model, tools=[broken], retry=hw.Retry(base=0.0), hooks=[errors])
    agent.call("Go.")
    with pytest.raises(HookError):
        agent.call("Go.", hooks=[Raises("before_model")])  # pyright: ignore[reportArgumentType] its methods are made
    assert errors.seen == [("ModelHTTPError", ""), ("KeyError", "broken"), ("ValueError", "")]


def test_the_log_has_the_course_of_a_run_and_the_tracebacks(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    model = ScriptedModel([[say("secret"), call("broken"), usage(3, 4)], "Done."])
    response = hw.ReActAgent("ann", model=model, tools=[broken], hooks=[LogHook("test.log")]).call("Go.")
    lines = [record.getMessage() for record in caplog.records if record.name == "test.log"]
    begins = [line.removeprefix(f"run {response.run_id}") for line in lines]
    assert begins[0] == " of ann begins"
    assert begins[1].startswith(" round 1: tool_calls, 7 tokens, ")
    assert begins[2] == ", call r1c1 of broken: 'lost'"
    assert begins[3].startswith(" call r1c1 of broken: error, ")
    assert begins[-1].startswith(" ends: completed, ")
    assert "in broken" in caplog.text
    assert "secret" not in caplog.text


# -- cancelling -----------------------------------------------------------------------------------------------------


async def cancelled_at(stream: hw.Run[Any], moment: asyncio.Event) -> list[hw.AgentEvent]:
    """Read a run that is cancelled once the moment has come."""

    async def read() -> list[hw.AgentEvent]:
        events: list[hw.AgentEvent] = []
        while batch := await stream.next_batch():
            events += batch
        return events

    reading = asyncio.create_task(read())
    await moment.wait()
    await stream.cancel()
    events = await reading
    check_events(events)
    return events


class Hangs:
    """Waits for ever in the method that it is given, and notes that it was cancelled."""

    def __init__(self, method: str) -> None:
        self.reached = asyncio.Event()
        self.cancelled = False

        async def hang(*_: Any) -> None:
            self.reached.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled = True
                raise

        setattr(self, method, hang)


@pytest.mark.parametrize("method", ["before_model", "after_model", "before_tool", "after_tool"])
def test_a_hook_that_waits_is_cancelled_with_its_run(method: str) -> None:
    async def main() -> None:
        hangs: Any = Hangs(method)
        replies = [[say("Hm."), call("look", {"where": "x"})], "Done."]
        agent = hw.ReActAgent(model=ScriptedModel(replies), tools=[look], hooks=[hangs])
        stream = agent.stream("Go.", session="s")
        events = await cancelled_at(stream, hangs.reached)
        assert hangs.cancelled
        assert end_of(events).outcome is hw.Outcome.CANCELLED
        if method == "after_tool":  # what no hook has let through is not read, neither now nor later
            kept = (await agent.load_session("s")).messages
            assert not any("saw" in message.text for message in kept)

    run(main)


@pytest.mark.parametrize("method", ["before_model", "after_model", "before_tool", "after_tool"])
def test_a_hook_that_waits_is_left_when_the_time_is_over(method: str) -> None:
    async def main() -> None:
        hangs: Any = Hangs(method)
        replies = [[say("Hm."), call("note", {"text": "x"})], "Done."]
        agent = hw.ReActAgent(model=ScriptedModel(replies), tools=[note], budget=Budget(seconds=0.05), hooks=[hangs])
        events = await events_of(agent.stream("Go."))
        assert end_of(events).outcome is hw.Outcome.LIMIT
        assert hangs.cancelled

    run(main)


def test_a_hook_that_ignores_its_cancellation_does_not_hold_the_run() -> None:
    async def main() -> None:
        reached, release = asyncio.Event(), asyncio.Event()

        class Deaf:
            async def after_tool(self, ctx: HookContext, call: HookCall, outcome: Any) -> None:
                reached.set()
                while not release.is_set():
                    try:
                        await release.wait()
                    except asyncio.CancelledError:
                        continue

        model = ScriptedModel([[call("note", {"text": "x"})]])
        stream = hw.ReActAgent(model=model, tools=[note], thread_grace=0.01, hooks=[Deaf()]).stream("Go.")
        try:
            events = await cancelled_at(stream, reached)
        finally:
            release.set()
        assert ends(events)["r1c1"].text == "The tool ran, but the run was stopped before its result was passed on."
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    run(main)


def test_a_result_that_comes_after_a_cancel_is_not_given_out_unseen() -> None:
    async def main() -> None:
        log: list[str] = []
        reached = asyncio.Event()

        @hw.tool
        async def stubborn() -> str:
            """Finish all the same."""
            reached.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return "secret"
            return ""

        model = ScriptedModel([[call("stubborn")]])
        stream = hw.ReActAgent(model=model, tools=[stubborn], hooks=[Told("a", log)]).stream("Go.")
        events = await cancelled_at(stream, reached)
        assert "secret" not in ends(events)["r1c1"].text
        assert not any("after_tool" in line for line in log)

    run(main)


def test_a_hook_cancelled_by_somebody_else_is_the_runs_error() -> None:
    async def main() -> None:
        class Cancels:
            async def before_tool(self, ctx: HookContext, call: HookCall) -> None:
                raise asyncio.CancelledError

        model = ScriptedModel([[call("note", {"text": "x"})]])
        with pytest.raises(HookError, match="A hook was cancelled in before_tool, and not by the run"):
            await hw.ReActAgent(model=model, tools=[note], hooks=[Cancels()]).call_async("Go.")

    run(main)


def test_leaving_the_stream_cancels_a_request_that_a_hook_holds_up() -> None:
    async def main() -> None:
        gate = asyncio.Event()
        hangs: Any = Hangs("after_model")
        model = ScriptedModel([[say("Hm."), wait(gate)]])
        async with hw.SimpleAgent(model=model, hooks=[hangs]).stream("Go.") as stream:
            async for event in stream:
                if isinstance(event, hw.ReasonDeltaEvent):
                    break
        assert model.closed == 1
        assert not hangs.reached.is_set()

    run(main)


# -- what is no hook ------------------------------------------------------------------------------------------------


class Misspelt:
    def before_modell(self, ctx: HookContext, request: ModelRequest) -> None: ...
    def on_event(self, ctx: HookContext, event: hw.AgentEvent) -> None: ...


class AsyncObserver:
    async def on_event(self, ctx: HookContext, event: hw.AgentEvent) -> None: ...


class BadWidth:
    look_back = -1

    def check_text(self, text: str) -> None: ...


class OneTool:
    only_tools = "note"

    def before_tool(self, ctx: HookContext, call: HookCall) -> None: ...


@pytest.mark.parametrize(
    ("hooks", "message"),
    [
        (LogHook(), r"hooks must be a list of objects with hook methods, such as \[LogHook\(...\)\]"),
        ([object()], "is no hook: it has none of the methods before_model, after_model"),
        ([str.upper], "is no hook.*A function becomes one by input_guard, output_guard or tool_guard"),
        ([LogHook], r"A hook is an object, not a class: LogHook\(...\)"),
        ([Misspelt()], "'before_modell', which nobody calls: 'before_model' is meant"),
        ([AsyncObserver()], "on_event of the hook AsyncObserver must be a plain function"),
        ([BadWidth()], "look_back of the hook BadWidth must be a whole number or None, not -1"),
        ([OneTool()], "only_tools of the hook OneTool must be several names"),
    ],
)
def test_what_is_no_hook_is_refused_where_it_is_given(hooks: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        hw.ReActAgent(model=ScriptedModel([]), hooks=hooks)
    with pytest.raises(UsageError, match=message):
        hw.SimpleAgent(model=ScriptedModel([])).stream("Go.", hooks=hooks)
