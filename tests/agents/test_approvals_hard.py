"""Approvals where it is hard: other rules, other sessions, other processes, two at once, broken stores."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

import headwater as hw
from headwater.chat.encode import RequestEncoder
from headwater.chat.profile import DEFAULT_PROFILE
from headwater.chat.request import ModelRequest, RequestOptions
from headwater.core.decisions import Always, Approve, Reject, Respond, Skip
from headwater.errors import DecisionError, SessionBusy, StoreError, UsageError, model_error
from headwater.events import HITLDecidedEvent, HITLPendingEvent, Response
from headwater.messages import AssistantMessage, Message, ToolMessage
from headwater.store.memory import MemoryStore
from headwater.testing import ScriptedModel, check_events
from headwater.testing.case_match import pairing_errors
from headwater.testing.scripted import call, fail
from tests.agents.support import run

RAN: list[str] = []


@hw.tool
async def note(text: str) -> str:
    """Note."""
    RAN.append(f"note {text}")
    return "noted"


@hw.tool(requires_approval=True)
async def gate(name: str) -> str:
    """Open a gate."""
    RAN.append(f"gate {name}")
    return f"{name} is open"


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


def always(name: str, args: dict[str, Any]) -> bool:
    return True


def two_gates() -> ScriptedModel:
    return ScriptedModel([[call("gate", {"name": "a"}, id="a"), call("gate", {"name": "b"}, id="b")], "Done.", "Next."])


def agent_of(model: ScriptedModel, **settings: Any) -> hw.ReActAgent:
    return hw.ReActAgent(model=model, tools=settings.pop("tools", [note, gate]), **settings)


async def events_of(stream: hw.Run) -> list[hw.AgentEvent]:
    async with stream:
        return [event async for event in stream]


async def kind_of(awaited: Any) -> str:
    with pytest.raises(DecisionError) as caught:
        await awaited
    return caught.value.kind


def sendable(messages: tuple[Message, ...]) -> None:
    body = RequestEncoder(DEFAULT_PROFILE, "m").body(ModelRequest(messages, (), RequestOptions(), {}))
    assert b"interrupted" not in body
    assert pairing_errors(msgspec.json.decode(body)["messages"]) == []


# --- what waits goes on waiting --------------------------------------------------------------------------------------


def test_a_call_that_waits_is_not_run_by_an_agent_whose_rules_would_not_have_held_it() -> None:
    async def main() -> None:
        store = MemoryStore()
        plain = hw.tool(note.function)
        strict = agent_of(
            ScriptedModel([[call("note", {"text": "1"}, id="a"), call("note", {"text": "2"}, id="b")]]),
            tools=[plain],
            needs_approval=always,
            store=store,
        )
        await strict.call_async("Go.", session="s")
        lax = agent_of(ScriptedModel(["Done."]), tools=[plain], store=store)
        response = await lax.resume_async([Approve("a")], session="s")
        assert [task.id for task in response.pending] == ["b"]
        assert RAN == ["note 1"]

    run(main)


def test_a_predicate_is_asked_once_a_call_and_its_first_answer_stands() -> None:
    asked: list[str] = []

    def moody(name: str, args: dict[str, Any]) -> bool:
        asked.append(args["text"])
        return len(asked) % 2 == 1

    async def main() -> None:
        agent = agent_of(
            ScriptedModel([[call("note", {"text": "1"}, id="a"), call("note", {"text": "2"}, id="b")], "Done."]),
            needs_approval=moody,
        )
        response = await agent.call_async("Go.", session="s")
        assert [task.id for task in response.pending] == ["a"]
        assert RAN == ["note 2"]
        assert asked == ["1", "2"]

    run(main)


def test_a_reading_tool_that_has_begun_early_is_not_asked_about_afterwards() -> None:
    asked: list[str] = []

    @hw.tool(effect="read")
    async def look(text: str) -> str:
        """Look."""
        RAN.append(f"look {text}")
        return "seen"

    def late(name: str, args: dict[str, Any]) -> bool:
        asked.append(name)
        return len(asked) > 1

    async def main() -> None:
        agent = agent_of(
            ScriptedModel([[call("look", {"text": "1"}, cut=3)], "Done."]), tools=[look], needs_approval=late
        )
        events = await events_of(agent.stream("Go.", session="s"))
        check_events(events)
        assert RAN == ["look 1"]
        assert isinstance(events[-1], hw.RunEndEvent)
        assert events[-1].outcome is hw.Outcome.COMPLETED

    run(main)


@pytest.mark.parametrize("raises", [ValueError("no"), KeyError("no"), RecursionError()])
def test_a_predicate_that_raises_holds_the_call_back(raises: Exception) -> None:
    def broken(name: str, args: dict[str, Any]) -> bool:
        raise raises

    async def main() -> None:
        agent = agent_of(ScriptedModel([[call("note", {"text": "1"}, id="a")], "Done."]), needs_approval=broken)
        assert (await agent.call_async("Go.", session="s")).outcome is hw.Outcome.SUSPENDED
        assert (await agent.resume_async([Approve("a")], session="s")).text == "Done."
        assert RAN == ["note 1"]

    run(main)


def test_always_counts_from_now_on_in_the_same_run_too() -> None:
    async def main() -> None:
        replies = [[call("gate", {"name": "a"}, id="a")], [call("gate", {"name": "b"}, id="b")], "Done."]
        agent = agent_of(ScriptedModel(replies))
        await agent.call_async("Go.", session="s")
        assert (await agent.resume_async([Always("a")], session="s")).text == "Done."
        assert RAN == ["gate a", "gate b"]

    run(main)


def test_always_with_the_same_args_lets_no_other_arguments_through() -> None:
    async def main() -> None:
        first = [[call("gate", {"name": "a"}, id="a")], "One."]
        then = [[call("gate", {"name": "a"}, id="x"), call("gate", {"name": "b"}, id="y")]]
        agent = agent_of(ScriptedModel([*first, *then]))
        await agent.call_async("Go.", session="s")
        await agent.resume_async([Always("a", same_args=True)], session="s")
        response = await agent.call_async("Again.", session="s")
        assert [task.args for task in response.pending] == [{"name": "b"}]
        assert RAN == ["gate a", "gate a"]

    run(main)


def test_always_does_not_decide_about_what_waits_beside_it() -> None:
    async def main() -> None:
        agent = agent_of(two_gates())
        await agent.call_async("Go.", session="s")
        response = await agent.resume_async([Always("a")], session="s")
        assert [task.id for task in response.pending] == ["b"]
        assert RAN == ["gate a"]

    run(main)


# --- which run, which session ----------------------------------------------------------------------------------------


def test_a_run_named_without_its_session_is_stored_in_it_all_the_same() -> None:
    async def main() -> None:
        agent = agent_of(two_gates())
        waiting = await agent.call_async("Go.", session="s")
        response = await agent.resume_async([Approve("a"), Skip("b")], run_id=waiting.run_id)
        assert response.text == "Done."
        session = await agent.load_session("s")
        assert not session.is_pending
        assert len(session.messages) == 5
        sendable(session.messages)

    run(main)


def test_a_run_is_not_resumed_in_another_session() -> None:
    async def main() -> None:
        agent = agent_of(two_gates())
        waiting = await agent.call_async("Go.", session="s")
        assert await kind_of(agent.resume_async([Approve("a")], session="t", run_id=waiting.run_id)) == "unknown_run"
        assert RAN == []
        assert (await agent.load_session("t")).messages == ()
        assert (await agent.load_session("s")).is_pending

    run(main)


def test_two_sessions_wait_beside_each_other() -> None:
    async def main() -> None:
        calls = [call("gate", {"name": "x"}, id="same")]
        agent = agent_of(ScriptedModel([calls, calls, "For t.", "For s."]))
        await agent.call_async("Go.", session="s")
        await agent.call_async("Go.", session="t")
        assert (await agent.resume_async([Approve("same")], session="t")).text == "For t."
        assert (await agent.load_session("s")).is_pending
        assert (await agent.resume_async([Reject("same")], session="s")).text == "For s."

    run(main)


def test_decisions_on_a_run_without_a_session() -> None:
    async def main() -> None:
        agent = agent_of(two_gates())
        first = await events_of(agent.stream("Go."))
        run_id = first[0].run_id
        second = await events_of(agent.resume_stream([Approve("a")], run_id=run_id))
        third = await events_of(agent.resume_stream([Reject("b")], run_id=run_id))
        check_events([*first, *second, *third])
        assert await kind_of(agent.resume_async([Approve("b")], run_id=run_id)) == "already_decided"
        assert RAN == ["gate a"]

    run(main)


def test_waiting_runs_outlive_the_retention_of_a_store_in_memory() -> None:
    async def main() -> None:
        replies = [[call("gate", {"name": "a"}, id="a")], *[[call("note", {"text": "x"})], "Ok."] * 5, "Done."]
        agent = agent_of(ScriptedModel(replies), store=MemoryStore(max_runs=2))
        waiting = await agent.call_async("Go.", session="s")
        for n in range(5):
            await agent.call_async("Other.", session=f"other {n}")
        assert (await agent.resume_async([Approve("a")], run_id=waiting.run_id)).text == "Done."

    run(main)


@pytest.mark.parametrize("decisions", [["a"], [{"call_id": "a"}], "a", Approve("a"), None, [None]])
def test_what_is_no_list_of_decisions_is_wrong_usage(decisions: Any) -> None:
    with pytest.raises(UsageError, match="decision"):
        agent_of(two_gates()).resume_stream(decisions, session="s")


def test_a_resume_that_decides_nothing_is_refused_and_changes_nothing() -> None:
    async def main() -> None:
        agent = agent_of(two_gates())
        waiting = await agent.call_async("Go.", session="s")
        log = await agent.store.read(waiting.run_id)
        assert await kind_of(agent.resume_async([], session="s")) == "nothing_decided"
        assert await agent.store.read(waiting.run_id) == log

    run(main)


def test_a_resume_without_decisions_settles_what_has_expired() -> None:
    async def main() -> None:
        agent = agent_of(two_gates(), approval_expires_in=0.0)
        await agent.call_async("Go.", session="s")
        assert (await agent.resume_async([], session="s")).text == "Done."
        assert RAN == []

    run(main)


@pytest.mark.parametrize(
    "decision", [Skip("a"), Respond("a", "I did it."), Always("a"), Approve("a", args={"name": "z"})]
)
def test_a_decision_that_comes_too_late_does_not_count(decision: Any) -> None:
    async def main() -> None:
        agent = agent_of(two_gates(), approval_expires_in=0.0)
        first = await events_of(agent.stream("Go.", session="s"))
        second = await events_of(agent.resume_stream([decision], session="s"))
        check_events([*first, *second])
        assert [e.decision for e in second if isinstance(e, HITLDecidedEvent)] == ["expired", "expired"]
        assert (await agent.load_session("s")).allowed == ()
        assert RAN == []

    run(main)


# --- results, limits, rounds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decision", "text"),
    [
        (Approve("d"), "x!"),
        (Approve("d", args={"name": "y"}), "y!"),
        (Respond("d", "mine"), "mine"),
        (Reject("d"), "No."),
    ],
)
def test_a_tool_that_ends_the_run_may_have_to_wait(decision: Any, text: str) -> None:
    @hw.tool(requires_approval=True, return_direct=True)
    async def direct(name: str) -> str:
        """Direct."""
        return f"{name}!"

    async def main() -> None:
        agent = agent_of(ScriptedModel([[call("direct", {"name": "x"}, id="d")], "No."]), tools=[direct])
        first = await events_of(agent.stream("Go.", session="s"))
        second = await events_of(agent.resume_stream([decision], session="s"))
        check_events([*first, *second])
        assert isinstance(second[-1], hw.RunEndEvent)
        assert second[-1].response.text == text
        sendable((await agent.load_session("s")).messages)

    run(main)


@pytest.mark.parametrize(("on_limit", "outcome"), [("answer", "limit"), ("error", "failed")])
def test_the_calls_of_the_last_round_may_wait(on_limit: Any, outcome: str) -> None:
    async def main() -> None:
        agent = agent_of(two_gates(), max_rounds=1, on_limit=on_limit)
        first = await events_of(agent.stream("Go.", session="s"))
        try:
            second = await events_of(agent.resume_stream([Approve("a"), Reject("b")], session="s"))
        except hw.LimitError:
            second = (await agent.store.read(first[0].run_id))[len(first) :]
        check_events([*first, *second])
        assert isinstance(second[-1], hw.RunEndEvent)
        assert str(second[-1].outcome) == outcome
        session = await agent.load_session("s")
        assert not session.is_pending
        sendable(session.messages)

    run(main)


def test_the_model_may_fail_after_a_decision_and_the_session_goes_on() -> None:
    async def main() -> None:
        broken = model_error("protocol_error", "broken")
        agent = agent_of(ScriptedModel([[call("gate", {"name": "a"}, id="a")], [fail(broken)], "Fine."]))
        first = await events_of(agent.stream("Go.", session="s"))
        with pytest.raises(hw.ModelError):
            await agent.resume_async([Approve("a")], session="s")
        check_events(await agent.store.read(first[0].run_id))
        assert not (await agent.load_session("s")).is_pending
        assert (await agent.call_async("Go on.", session="s")).text == "Fine."
        sendable((await agent.load_session("s")).messages)

    run(main)


def test_serial_early_failing_and_waiting_calls_in_one_round() -> None:
    @hw.tool(effect="read")
    async def look(q: str) -> str:
        """Look."""
        RAN.append(f"look {q}")
        return q

    @hw.tool(serial=True, requires_approval=True)
    async def slow(q: str) -> str:
        """Slow."""
        RAN.append(f"slow {q}")
        return q

    @hw.tool
    async def bad(q: str) -> str:
        """Bad."""
        raise LookupError(q)

    async def main() -> None:
        calls = [
            call("look", {"q": "1"}, id="l"),
            call("slow", {"q": "2"}, id="s1"),
            call("nothing", {}, id="n"),
            call("bad", {"q": "3"}, id="b"),
            call("slow", {"q": 4}, id="odd"),
            call("slow", "{", id="cut"),
            call("slow", {"q": "5"}, id="s2"),
        ]
        agent = agent_of(ScriptedModel([calls, "Done."]), tools=[look, slow, bad])
        first = await events_of(agent.stream("Go.", session="s"))
        assert isinstance(first[-1], hw.RunEndEvent)
        assert [task.id for task in first[-1].response.pending] == ["s1", "s2"]
        second = await events_of(agent.resume_stream([Approve("s2"), Approve("s1")], session="s"))
        check_events([*first, *second])
        assert RAN == ["look 1", "slow 2", "slow 5"]
        messages = (await agent.load_session("s")).messages
        assert [m.id for m in messages if isinstance(m, ToolMessage)] == ["l", "s1", "n", "b", "odd", "cut", "s2"]
        sendable(messages)

    run(main)


def test_calls_of_one_provider_id_are_decided_one_by_one() -> None:
    async def main() -> None:
        replies = [[call("gate", {"name": "a"}, id="x"), call("gate", {"name": "b"}, id="x")], "Done."]
        agent = agent_of(ScriptedModel(replies))
        waiting = await agent.call_async("Go.", session="s")
        first, second = waiting.pending
        assert first.id != second.id
        await agent.resume_async([Reject(first.call_id)], session="s")
        assert (await agent.resume_async([Approve(second.id)], session="s")).text == "Done."
        assert RAN == ["gate b"]

    run(main)


@pytest.mark.parametrize(
    "raw", ['{"name": "\\ud800"}', '{"name": "a", "n": 123456789012345678901234567890}', '{"name": NaN}']
)
def test_odd_arguments_wait_or_fail_and_never_break_the_run(raw: str) -> None:
    async def main() -> None:
        agent = agent_of(ScriptedModel([[call("gate", raw, id="a")], "Done."]))
        first = await events_of(agent.stream("Go.", session="s"))
        end = first[-1]
        assert isinstance(end, hw.RunEndEvent)
        if end.outcome is hw.Outcome.SUSPENDED:
            assert msgspec.json.decode(msgspec.json.encode(end.response), type=Response) == end.response
            first += await events_of(agent.resume_stream([Approve("a")], session="s"))
        check_events(first)
        assert isinstance(first[-1], hw.RunEndEvent)
        assert first[-1].outcome is hw.Outcome.COMPLETED

    run(main)


def test_what_waits_is_the_same_after_writing_and_reading() -> None:
    async def main() -> None:
        agent = agent_of(two_gates(), approval_expires_in=60.0)
        response = await agent.call_async("Go.", session="s")
        assert msgspec.json.decode(msgspec.json.encode(response), type=Response) == response
        assert (await agent.load_session("s")).pending == response.pending
        assert all(task.expires_at and task.expires_at - task.created_at == 60.0 for task in response.pending)

    run(main)


# --- synchronous, busy, refused --------------------------------------------------------------------------------------


def test_a_prompt_is_refused_synchronously_while_something_waits() -> None:
    agent = agent_of(two_gates(), on_pending="refuse")
    assert agent.call("Go.", session="s").outcome is hw.Outcome.SUSPENDED
    with pytest.raises(DecisionError) as caught:
        agent.call("Else.", session="s")
    assert caught.value.kind == "pending"
    with pytest.raises(DecisionError):
        list(agent.stream("Else.", session="s"))
    assert agent.resume([Approve("a"), Approve("b")], session="s").text == "Done."
    assert RAN == ["gate a", "gate b"]


def test_a_resume_waits_its_turn_in_the_session_or_is_refused() -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    @hw.tool(requires_approval=True)
    async def hold(name: str) -> str:
        """Hold."""
        RAN.append(name)
        entered.set()
        await leave.wait()
        return name

    async def main() -> None:
        calls = [call("hold", {"name": "a"}, id="a"), call("hold", {"name": "b"}, id="b")]
        agent = agent_of(ScriptedModel([calls, "Done."]), tools=[hold], store=MemoryStore())
        eager = agent_of(ScriptedModel([]), tools=[hold], store=agent.store, on_busy="refuse")
        await agent.call_async("Go.", session="s")
        first = asyncio.create_task(agent.resume_async([Approve("a")], session="s"))
        await entered.wait()
        with pytest.raises(SessionBusy):
            await eager.resume_async([Approve("b")], session="s")
        second = asyncio.create_task(agent.resume_async([Approve("b")], session="s"))
        twice = asyncio.create_task(agent.resume_async([Approve("a")], session="s"))
        await asyncio.sleep(0)
        leave.set()
        assert [task.id for task in (await first).pending] == ["b"]
        assert (await second).text == "Done."
        assert await kind_of(twice) == "already_decided"
        assert RAN == ["a", "b"]

    run(main)


def test_two_resumes_at_once_of_a_run_without_session_run_the_tool_once() -> None:
    async def main() -> None:
        agent = agent_of(ScriptedModel([[call("gate", {"name": "a"}, id="a")], "Done.", "Done."]))
        waiting = await agent.call_async("Go.")
        results = await asyncio.gather(
            *(agent.resume_async([Approve("a")], run_id=waiting.run_id) for _ in range(3)), return_exceptions=True
        )
        assert RAN == ["gate a"]
        assert [r.text for r in results if isinstance(r, Response)] == ["Done."]
        check_events(await agent.store.read(waiting.run_id))

    run(main)


@pytest.mark.parametrize("leaves", [False, True])
def test_a_cancel_at_any_event_of_a_resumed_segment(leaves: bool) -> None:
    async def segment(position: int) -> int:
        calls = [
            call("gate", {"name": "a"}, id="a"),
            call("note", {"text": "n"}, id="n"),
            call("gate", {"name": "b"}, id="b"),
        ]
        agent = agent_of(ScriptedModel([calls, "All done.", "Next."]))
        events = await events_of(agent.stream("Go.", session="s"))
        stream = agent.resume_stream([Approve("a"), Reject("b", "no")], session="s")
        seen = 0
        async with stream:
            async for event in stream:
                events.append(event)
                seen += 1
                if seen == position:
                    if leaves:
                        break
                    await stream.cancel()
        events += [event async for event in stream]
        check_events(events)
        assert events == await agent.store.read(stream.run_id)
        assert stream.end is not None
        assert stream.end.outcome in (hw.Outcome.CANCELLED, hw.Outcome.COMPLETED)
        assert RAN.count("gate a") <= 1
        assert "gate b" not in RAN
        assert not (await agent.load_session("s")).is_pending
        assert (await agent.call_async("Go on.", session="s")).text in ("Next.", "All done.")
        messages = (await agent.load_session("s")).messages
        body = RequestEncoder(DEFAULT_PROFILE, "m").body(ModelRequest(messages, (), RequestOptions(), {}))
        assert pairing_errors(msgspec.json.decode(body)["messages"]) == []
        return seen

    async def main() -> None:
        position = 1
        while await segment(position) >= position:
            RAN.clear()
            position += 1
        assert position > 15

    run(main, 60)


# --- stores that break -----------------------------------------------------------------------------------------------


class BrokenOnce(MemoryStore):
    """A store whose next commit fails."""

    breaks = False

    async def commit(self, *args: Any, **kwargs: Any) -> int:
        if self.breaks:
            self.breaks = False
            raise StoreError("full")
        return await super().commit(*args, **kwargs)


def test_a_session_whose_waiting_run_could_not_be_stored_goes_on() -> None:
    async def main() -> None:
        store = BrokenOnce()
        agent = agent_of(two_gates(), store=store)
        await agent.call_async("Go.", session="s")
        store.breaks = True
        with pytest.raises(hw.RunError):
            await agent.resume_async([Approve("a"), Reject("b")], session="s")
        assert RAN == ["gate a"]
        assert (await agent.call_async("Go on.", session="s")).text == "Next."
        session = await agent.load_session("s")
        assert not session.is_pending
        results = [m.text for m in session.messages if isinstance(m, ToolMessage)]
        assert results[0] == "a is open"
        sendable(session.messages)

    run(main)


def test_a_session_whose_dismissal_could_not_be_stored_goes_on() -> None:
    async def main() -> None:
        store = BrokenOnce()
        agent = agent_of(two_gates(), store=store)
        await agent.call_async("Go.", session="s")
        store.breaks = True
        with pytest.raises(hw.RunError):
            await agent.call_async("Else.", session="s")
        assert (await agent.call_async("Go on.", session="s")).text == "Done."
        sendable((await agent.load_session("s")).messages)
        assert RAN == []

    run(main)


# --- long logs -------------------------------------------------------------------------------------------------------


def test_ten_thousand_events_are_no_burden_for_a_resume(tmp_path: Path) -> None:
    async def main() -> None:
        text = [piece for n in range(10_000) for piece in (f"{n} ",)]
        from headwater.testing.scripted import say

        replies = [[say(*text), call("gate", {"name": "a"}, id="a")], "Done."]
        agent = agent_of(ScriptedModel(replies), store=tmp_path / "store.db")
        await agent.call_async("Go.", session="s")
        began = asyncio.get_running_loop().time()
        assert (await agent.resume_async([Approve("a")], session="s")).text == "Done."
        assert asyncio.get_running_loop().time() - began < 3.0
        await agent.aclose()

    run(main)


def test_a_run_that_waits_again_and_again_names_each_task_once() -> None:
    async def main() -> None:
        agent = agent_of(two_gates())
        events = await events_of(agent.stream("Go.", session="s"))
        created = next(e.tasks for e in events if isinstance(e, HITLPendingEvent))
        events += await events_of(agent.resume_stream([Approve("a")], session="s"))
        again = [e.tasks for e in events if isinstance(e, HITLPendingEvent)][-1]
        assert again == created[1:]
        turn = (await agent.load_session("s")).messages[1]
        assert isinstance(turn, AssistantMessage)
        assert len(turn.calls) == 2
        check_events(events)

    run(main)
