"""A tool asks a person: the call waits, and is run again with the answer."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, field_validator

import headwater as hw
from headwater.core.decisions import Approve, Reject, Respond, Skip
from headwater.errors import DecisionError
from headwater.events import HITLDecidedEvent, HITLPendingEvent, HITLTask, ToolCallEndEvent, ToolStatus
from headwater.messages import ToolMessage
from headwater.testing import ScriptedModel, check_events
from headwater.testing.scripted import call, say
from headwater.tools.asking import Asking, ToolSuspended
from tests.agents.support import run

RAN: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


@hw.tool(effect="read")
async def balance(ctx: hw.ToolContext) -> str:
    """Read a balance."""
    account = await ctx.ask("Which account?", Literal["main", "savings"])
    RAN.append(account)
    return f"{account}: 12 EUR"


@hw.tool(ask_first=True)
def transfer(amount: int, ctx: hw.ToolContext) -> str:
    """Move money."""
    to = ctx.ask_sync("To whom?")
    if not ctx.ask_sync(f"Send {amount} to {to}?", bool):
        return "Not sent."
    RAN.append(f"{amount} to {to}")
    return f"Sent {amount} to {to}."


@hw.tool
async def note(text: str) -> str:
    """Note."""
    RAN.append(text)
    return "noted"


@hw.tool(requires_approval=True)
async def gate(name: str) -> str:
    """Open a gate."""
    RAN.append(name)
    return "open"


def agent_of(*calls: Any, tools: Any = (balance, transfer, note, gate), **settings: Any) -> hw.ReActAgent:
    return hw.ReActAgent(model=ScriptedModel([list(calls), "Done.", "Next."]), tools=tools, **settings)


async def events_of(stream: hw.Run) -> list[hw.AgentEvent]:
    async with stream:
        return [event async for event in stream]


def end_of(events: list[hw.AgentEvent]) -> hw.RunEndEvent:
    assert isinstance(events[-1], hw.RunEndEvent)
    return events[-1]


def tasks_of(events: list[hw.AgentEvent]) -> list[HITLTask]:
    return list(end_of(events).response.pending)


async def results_of(agent: hw.ReActAgent) -> list[str]:
    return [m.text for m in (await agent.load_session("s")).messages if isinstance(m, ToolMessage)]


async def result_of(tool: Any, *decisions: Any, args: dict[str, Any] | None = None) -> ToolCallEndEvent:
    """How the only call of a tool ends; the decisions come one by one."""
    agent = agent_of(call(tool.name, args or {}, id="a"), tools=[tool])
    events = await events_of(agent.stream("Go.", session="s"))
    for decision in decisions:
        events += await events_of(agent.resume_stream([decision], session="s"))
    check_events(events)
    return [event for event in events if isinstance(event, ToolCallEndEvent)][-1]


def test_a_tool_asks_and_goes_on_with_the_answer() -> None:
    async def main() -> None:
        agent = agent_of(call("balance", {}, id="b"), call("note", {"text": "x"}, id="n"))
        first = await events_of(agent.stream("Go.", session="s"))
        assert end_of(first).outcome is hw.Outcome.SUSPENDED
        (task,) = tasks_of(first)
        assert (task.call_id, task.question) == ("r1c1", "Which account?")
        assert task.schema == {"enum": ["main", "savings"], "type": "string"}
        session = await agent.load_session("s")
        assert session.is_pending
        assert session.pending == (task,)
        assert RAN == ["x"]
        second = await events_of(agent.resume_stream([Respond("b", "savings", task.digest, "ada")], session="s"))
        check_events([*first, *second])
        kinds = [event.type for event in second]
        assert kinds[:6] == ["run.start", "hitl.decided", "action.start", "tool.start", "tool.end", "action.end"]
        (decided,) = [event for event in second if isinstance(event, HITLDecidedEvent)]
        assert (decided.decision, decided.answer, decided.by) == ("answer", "savings", "ada")
        assert RAN == ["x", "savings"]
        assert await results_of(agent) == ["savings: 12 EUR", "noted"]
        assert end_of(second).response.text == "Done."

    run(main)


def test_a_synchronous_tool_asks_several_times_and_has_its_effect_once() -> None:
    async def main() -> None:
        agent = agent_of(call("transfer", {"amount": 5}, id="t"))
        events = await events_of(agent.stream("Go.", session="s"))
        events += await events_of(agent.resume_stream([Respond("t", "ann")], session="s"))
        assert [task.question for task in tasks_of(events)] == ["Send 5 to ann?"]
        events += await events_of(agent.resume_stream([Approve("t")], session="s"))
        check_events(events)
        assert RAN == ["5 to ann"]
        assert await results_of(agent) == ["Sent 5 to ann."]
        ends = [event for event in events if isinstance(event, ToolCallEndEvent)]
        assert [(e.attempt, e.status) for e in ends] == [
            (1, ToolStatus.SUSPENDED),
            (2, ToolStatus.SUSPENDED),
            (3, ToolStatus.OK),
        ]

    run(main)


def test_a_run_without_a_session_is_answered_by_its_id() -> None:
    async def main() -> None:
        agent = agent_of(call("balance", {}))
        response = await agent.call_async("Go.")
        assert response.outcome is hw.Outcome.SUSPENDED
        assert (await agent.resume_async([Respond("r1c1", "main")], run_id=response.run_id)).text == "Done."

    run(main)


def test_questions_and_approvals_wait_together_and_are_decided_in_any_order() -> None:
    async def main() -> None:
        agent = agent_of(call("gate", {"name": "east"}, id="g"), call("balance", {}, id="b"))
        events = await events_of(agent.stream("Go.", session="s"))
        assert [(t.id, t.schema is None) for t in tasks_of(events)] == [("g", True), ("b", False)]
        (pending,) = [event for event in events if isinstance(event, HITLPendingEvent)]
        assert list(pending.tasks) == tasks_of(events)
        events += await events_of(agent.resume_stream([Respond("b", "main")], session="s"))
        events += await events_of(agent.resume_stream([Approve("g")], session="s"))
        check_events(events)
        assert await results_of(agent) == ["open", "main: 12 EUR"]

    run(main)


class Trip(BaseModel):
    to: str
    days: int = Field(ge=1)
    class_: Literal["first", "second"] = "second"

    @field_validator("to")
    @classmethod
    def known(cls, value: str) -> str:
        if value == "Atlantis":
            raise ValueError("nobody knows where that is")
        return value


@dataclass
class Size:
    width: int
    height: int | None = None


@pytest.mark.parametrize(
    ("schema", "value", "shown"),
    [
        (str, "yes", "'yes'"),
        (bool, False, "False"),
        (int, 3, "3"),
        (int | None, None, "None"),
        (Literal["a", "b"], "b", "'b'"),
        (list[int], [1, 2], "[1, 2]"),
        (Size, {"width": 2}, "Size(width=2, height=None)"),
        (Trip, {"to": "Oslo", "days": 2}, "Trip(to='Oslo', days=2, class_='second')"),
        ({"type": "object", "properties": {"x": {"type": "number"}}}, {"x": 1.5}, "{'x': 1.5}"),
    ],
)
def test_an_answer_is_a_value_of_what_was_asked_for(schema: Any, value: Any, shown: str) -> None:
    @hw.tool(effect="read")
    async def ask(ctx: hw.ToolContext) -> str:
        """Ask."""
        return repr(await ctx.ask("What?", schema))

    async def main() -> None:
        assert (await result_of(ask, Respond("a", value=value))).text == shown

    run(main)


def test_an_answer_that_does_not_fit_is_refused_and_changes_nothing() -> None:
    async def main() -> None:
        agent = agent_of(call("balance", {}, id="b"))
        await agent.call_async("Go.", session="s")
        before = await agent.load_session("s")
        log = await agent.store.read(before.run_id)
        with pytest.raises(DecisionError, match=r"Which account\?.* should be one of") as caught:
            await agent.resume_async([Respond("b", "kitchen")], session="s")
        assert caught.value.kind == "invalid_answer"
        assert await agent.load_session("s") == before
        assert await agent.store.read(before.run_id) == log
        assert (await agent.resume_async([Respond("b", "main")], session="s")).text == "Done."

    run(main)


def test_what_only_the_type_knows_to_be_wrong_is_asked_for_again_with_the_reason() -> None:
    @hw.tool(effect="read")
    async def plan(ctx: hw.ToolContext) -> str:
        """Plan."""
        first = await ctx.ask("Who goes?")
        trip = await ctx.ask("Where to?", Trip)
        return f"{first} to {trip.to}"

    async def main() -> None:
        agent = agent_of(call("plan", {}, id="p"), tools=[plan])
        events = await events_of(agent.stream("Go.", session="s"))
        for answer in ("Ann", {"to": "Atlantis", "days": 1}):
            events += await events_of(agent.resume_stream([Respond("p", value=answer)], session="s"))
        (task,) = tasks_of(events)
        assert task.question == 'Where to? (to: nobody knows where that is; given: "Atlantis")'
        again = Respond("p", value={"to": "Oslo", "days": 1}, digest=task.digest)
        events += await events_of(agent.resume_stream([again], session="s"))
        check_events(events)
        assert await results_of(agent) == ["Ann to Oslo"]

    run(main)


@pytest.mark.parametrize(
    ("decision", "status"), [(Reject("t", "no"), ToolStatus.DENIED), (Skip("t"), ToolStatus.SKIPPED)]
)
def test_who_does_not_answer_ends_the_call(decision: Any, status: ToolStatus) -> None:
    async def main() -> None:
        agent = agent_of(call("transfer", {"amount": 5}, id="t"))
        events = await events_of(agent.stream("Go.", session="s"))
        events += await events_of(agent.resume_stream([decision], session="s"))
        check_events(events)
        end = [event for event in events if isinstance(event, ToolCallEndEvent)][-1]
        assert (end.status, end.executed, RAN) == (status, False, [])
        assert "To whom?" in end.text

    run(main)


def test_refusing_to_answer_ends_the_run_where_the_policy_says_so() -> None:
    async def main() -> None:
        agent = agent_of(call("balance", {}, id="b"), on_reject="end")
        await agent.call_async("Go.", session="s")
        assert (await agent.resume_async([Reject("b")], session="s")).outcome is hw.Outcome.REJECTED

    run(main)


def test_a_question_expires() -> None:
    async def main() -> None:
        agent = agent_of(call("balance", {}, id="b"), approval_expires_in=0.0)
        await agent.call_async("Go.", session="s")
        assert (await agent.resume_async([Respond("b", "main")], session="s")).text == "Done."
        assert await results_of(agent) == [
            "The call asked a person (Which account?) and went no further: nobody answered in time."
        ]
        assert RAN == []

    run(main)


def test_a_new_prompt_dismisses_a_question() -> None:
    async def main() -> None:
        agent = agent_of(call("balance", {}, id="b"))
        events = await events_of(agent.stream("Go.", session="s"))
        assert (await agent.call_async("Else.", session="s")).text == "Done."
        log = await agent.store.read(events[0].run_id)
        check_events(log)
        assert end_of(log).outcome is hw.Outcome.REJECTED
        (text,) = await results_of(agent)
        assert "something else" in text
        assert not (await agent.load_session("s")).is_pending

    run(main)


def test_a_detached_run_is_answered_from_its_id(tmp_path: Path) -> None:
    async def main() -> None:
        agent = agent_of(call("balance", {}, id="b"), store=tmp_path / "runs.db")
        run_id = agent.start("Go.")
        waiting = await agent.attach(run_id).response()
        assert [task.question for task in waiting.pending] == ["Which account?"]
        await agent.decide(run_id, [Respond("b", "main")])
        assert (await agent.attach(run_id).response()).text == "Done."
        check_events(await agent.store.read(run_id))
        await agent.aclose()

    run(main)


def test_a_second_answer_is_refused() -> None:
    async def main() -> None:
        agent = agent_of(call("balance", {}, id="b"), call("gate", {"name": "x"}, id="g"))
        await agent.call_async("Go.", session="s")
        await agent.resume_async([Respond("b", "main")], session="s")
        with pytest.raises(DecisionError) as caught:
            await agent.resume_async([Respond("b", "savings")], session="s")
        assert caught.value.kind == "already_decided"

    run(main)


def test_a_tool_that_has_begun_early_may_ask() -> None:
    async def main() -> None:
        @hw.tool(effect="read")
        async def look(where: str, ctx: hw.ToolContext) -> str:
            """Look."""
            return f"{where} {await ctx.ask('How far?', int)}"

        agent = agent_of(call("look", {"where": "up"}, id="l", cut=3), say("."), tools=[look])
        events = await events_of(agent.stream("Go.", session="s"))
        start = next(event for event in events if isinstance(event, hw.ToolCallStartEvent))
        assert start.eager
        events += await events_of(agent.resume_stream([Respond("l", "3")], session="s"))
        check_events(events)
        assert await results_of(agent) == ["up 3"]

    run(main)


def test_a_serial_tool_that_waits_for_its_answer_lets_the_next_one_run() -> None:
    async def main() -> None:
        @hw.tool(effect="idempotent", serial=True, timeout=5)
        async def book(seat: str, ctx: hw.ToolContext) -> str:
            """Book."""
            if seat == "a":
                await ctx.ask("Window?", bool)
            RAN.append(seat)
            return seat

        agent = agent_of(call("book", {"seat": "a"}, id="a"), call("book", {"seat": "b"}), tools=[book])
        events = await events_of(agent.stream("Go.", session="s"))
        assert RAN == ["b"]
        events += await events_of(agent.resume_stream([Approve("a")], session="s"))
        check_events(events)
        assert RAN == ["b", "a"]

    run(main)


def test_the_wait_is_no_part_of_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    @hw.tool(effect="read", timeout=30)
    async def slow(ctx: hw.ToolContext) -> str:
        """Slow."""
        return await ctx.ask("What?")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        timers: list[asyncio.TimerHandle] = []
        call_later = loop.call_later

        def spied(delay: float, *args: Any, **kwargs: Any) -> asyncio.TimerHandle:
            handle = call_later(delay, *args, **kwargs)
            if delay == slow.timeout:
                timers.append(handle)
            return handle

        monkeypatch.setattr(loop, "call_later", spied)
        agent = agent_of(call("slow", {}, id="s"), tools=[slow])
        await agent.call_async("Go.", session="s")
        assert [timer.cancelled() for timer in timers] == [True]
        await agent.resume_async([Respond("s", "that")], session="s")
        assert [timer.cancelled() for timer in timers] == [True, True]

    run(main)


def test_a_cancel_while_others_run_leaves_no_question_behind() -> None:
    async def main() -> None:
        entered = asyncio.Event()

        @hw.tool
        async def hang() -> str:
            """Hang."""
            entered.set()
            await asyncio.Event().wait()
            return ""

        agent = agent_of(call("balance", {}, id="b"), call("hang", {}, id="h"), tools=[balance, hang])
        events: list[hw.AgentEvent] = []
        async with agent.stream("Go.", session="s") as stream:
            async for event in stream:
                events.append(event)
                if isinstance(event, ToolCallEndEvent) and event.status is ToolStatus.SUSPENDED:
                    await entered.wait()
                    await stream.cancel()
        check_events(events)
        assert end_of(events).outcome is hw.Outcome.CANCELLED
        assert len(await results_of(agent)) == 2
        assert not (await agent.load_session("s")).is_pending

    run(main)


# -- what cannot be asked -------------------------------------------------------------------------------------------


def test_a_writing_tool_that_does_not_promise_to_ask_first_cannot_ask() -> None:
    @hw.tool
    async def write(ctx: hw.ToolContext) -> str:
        """Write."""
        RAN.append("wrote")
        return await ctx.ask("Sure?")

    async def main() -> None:
        end = await result_of(write)
        assert end.status is ToolStatus.ERROR
        assert "ask_first=True" in end.text
        assert RAN == ["wrote"]

    run(main)


def test_a_promise_that_makes_no_sense_is_refused_where_it_is_given() -> None:
    with pytest.raises(hw.UsageError, match="effect='write'"):

        @hw.tool(effect="read", ask_first=True)
        def read(ctx: hw.ToolContext) -> str:
            """Read."""
            return ctx.ask_sync("What?")

    @hw.tool(ask_first=True)
    def blind() -> str:
        """Blind."""
        return ""

    with pytest.raises(hw.UsageError, match="ToolContext"):
        agent_of(tools=[blind])


@pytest.mark.parametrize("swallows", [False, True])
def test_a_tool_that_asks_something_else_the_second_time_is_an_error(swallows: bool) -> None:
    asked: list[str] = []

    @hw.tool(effect="read")
    async def fickle(ctx: hw.ToolContext) -> str:
        """Fickle."""
        asked.append(f"Question {len(asked)}?")
        try:
            return await ctx.ask(asked[-1])
        except hw.UsageError:
            if swallows:
                return "never mind"
            raise

    async def main() -> None:
        end = await result_of(fickle, Respond("a", "this"))
        assert end.status is ToolStatus.ERROR
        assert "'Question 1?' as question 1 of the call, 'Question 0?' before" in end.text
        assert "same questions in the same order" in end.text

    run(main)


def test_a_tool_that_catches_everything_and_goes_on_without_the_answer_is_an_error() -> None:
    @hw.tool(effect="read")
    async def deaf(ctx: hw.ToolContext) -> str:
        """Deaf."""
        try:
            return await ctx.ask("What?")
        except BaseException:  # noqa: BLE001 that is what it does wrong
            return "whatever"

    async def main() -> None:
        end = await result_of(deaf)
        assert end.status is ToolStatus.ERROR
        assert "went on without the answer" in end.text

    run(main)


def test_only_the_tool_itself_asks_and_in_its_own_way() -> None:
    @hw.tool(effect="read")
    def awaits(ctx: hw.ToolContext) -> Any:
        """Await."""
        return ctx.ask("What?")

    @hw.tool(effect="read")
    def nested(ctx: hw.ToolContext) -> str:
        """Nested."""
        said: list[str] = []

        def other() -> None:
            try:
                ctx.ask_sync("What?")
            except hw.UsageError as error:
                said.append(str(error))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return said[0]

    @hw.tool(effect="read")
    async def threaded(ctx: hw.ToolContext) -> str:
        """Threaded."""
        return await asyncio.to_thread(ctx.ask_sync, "What?")

    async def main() -> None:
        assert "use ask_sync()" in (await result_of(awaits)).text
        for tool in (nested, threaded):
            assert "from another thread than its own" in (await result_of(tool)).text

    run(main)


def test_a_question_after_the_end_of_the_call_is_an_error() -> None:
    kept: list[hw.ToolContext] = []

    @hw.tool(effect="read")
    async def leaks(ctx: hw.ToolContext) -> str:
        """Leak."""
        kept.append(ctx)
        return "over"

    async def main() -> None:
        await result_of(leaks)
        with pytest.raises(hw.UsageError, match="after its call had ended"):
            await kept[0].ask("What?")

    run(main)


@pytest.mark.parametrize(
    ("question", "schema"), [("", str), ("  ", str), ("What?", test_a_question_expires), ("What?", object())]
)
def test_what_is_no_question_is_an_error(question: str, schema: Any) -> None:
    @hw.tool(effect="read")
    async def ask(ctx: hw.ToolContext) -> str:
        """Ask."""
        return await ctx.ask(question, schema)

    async def main() -> None:
        end = await result_of(ask)
        assert (end.status, end.text.partition(":")[0]) == (ToolStatus.ERROR, "UsageError")

    run(main)


def test_questions_asked_at_once_are_put_one_after_the_other() -> None:
    @hw.tool(effect="read")
    async def both(ctx: hw.ToolContext) -> str:
        """Both."""

        async def one(question: str) -> str:
            return await ctx.ask(question)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(question)) for question in ("A?", "B?")]
        return " ".join(task.result() for task in tasks)

    async def main() -> None:
        assert (await result_of(both, Respond("a", "1"), Respond("a", "2"))).text == "1 2"

    run(main)


def test_a_tool_is_tried_out_without_a_run() -> None:
    async def main() -> None:
        assert await balance(hw.ToolContext(asking=Asking.scripted("main"))) == "main: 12 EUR"
        assert transfer(3, hw.ToolContext(asking=Asking.scripted("bob", False))) == "Not sent."
        with pytest.raises(ToolSuspended) as caught:
            transfer(3, hw.ToolContext(asking=Asking.scripted("bob")))
        assert caught.value.question is not None
        assert caught.value.question.text == "Send 3 to bob?"
        with pytest.raises(hw.UsageError, match="outside of a run"):
            await balance(hw.ToolContext())

    run(main)
