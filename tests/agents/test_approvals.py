"""A person in the loop: what waits, what is decided, and what happens then."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.core.decisions import REJECTED, Always, Approve, Decision, Reject, Respond, Skip
from headwater.errors import DecisionError
from headwater.messages import AssistantMessage, ToolMessage
from headwater.testing import ScriptedModel, check_events
from headwater.testing.scripted import call, say
from tests.agents.support import run

RAN: list[tuple[str, dict[str, Any]]] = []


@hw.tool
async def note(text: str) -> str:
    """Note."""
    RAN.append(("note", {"text": text}))
    return "noted"


@hw.tool(requires_approval=True)
async def gate(name: str) -> str:
    """Open a gate."""
    RAN.append(("gate", {"name": name}))
    return f"{name} is open"


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


def model() -> ScriptedModel:
    return ScriptedModel(
        [
            [
                say("Right. "),
                call("note", {"text": "before"}, id="n"),
                call("gate", {"name": "east"}, id="e"),
                call("gate", {"name": "west"}, id="w"),
            ],
            "Done.",
            "Next.",
        ]
    )


def agent_of(scripted: ScriptedModel, **settings: Any) -> hw.ReActAgent:
    return hw.ReActAgent(model=scripted, tools=[note, gate], **settings)


async def events_of(stream: hw.Run) -> list[hw.AgentEvent]:
    async with stream:
        return [event async for event in stream]


def test_the_others_run_and_the_run_ends_suspended_after_what_waits_was_named() -> None:
    async def main() -> None:
        agent = agent_of(model())
        events = await events_of(agent.stream("Go.", session="s"))
        check_events(events)
        kinds = [e.type for e in events]
        assert kinds[-4:] == ["tool.end", "action.end", "hitl.pending", "run.end"]
        assert [e.call_id for e in events if isinstance(e, hw.ToolCallStartEvent)] == ["r1c1"]
        end = events[-1]
        assert isinstance(end, hw.RunEndEvent)
        assert end.outcome is hw.Outcome.SUSPENDED
        assert [(t.call_id, t.id, t.args) for t in end.response.pending] == [
            ("r1c2", "e", {"name": "east"}),
            ("r1c3", "w", {"name": "west"}),
        ]
        session = await agent.load_session("s")
        assert session.is_pending
        assert session.run_id == end.run_id
        assert [type(m).__name__ for m in session.messages] == ["UserMessage", "AssistantMessage"]

    run(main)


def test_resuming_runs_only_what_was_decided_and_asks_the_model_when_all_is_in() -> None:
    async def main() -> None:
        scripted = model()
        agent = agent_of(scripted)
        first = await events_of(agent.stream("Go.", session="s"))
        second = await events_of(agent.resume_stream([Approve("w")], session="s"))
        assert len(scripted.requests) == 1
        third = await events_of(agent.resume_stream([Reject("r1c2", "storm")], session="s"))
        check_events([*first, *second, *third])
        assert [e.seq for e in [*first, *second, *third]] == list(range(1, len(first) + len(second) + len(third) + 1))
        kinds = [e.type for e in second]
        assert kinds == [
            "run.start",
            "hitl.decided",
            "action.start",
            "tool.start",
            "tool.end",
            "action.end",
            "hitl.pending",
            "run.end",
        ]
        assert {e.run_id for e in [*first, *second, *third]} == {first[0].run_id}
        end = third[-1]
        assert isinstance(end, hw.RunEndEvent)
        assert end.outcome is hw.Outcome.COMPLETED
        assert end.response.text == "Done."
        assert RAN == [("note", {"text": "before"}), ("gate", {"name": "west"})]
        sent = scripted.requests[1].messages
        assert [m.text for m in sent if isinstance(m, ToolMessage)] == [
            "noted",
            f"{REJECTED} Reason: storm",
            "west is open",
        ]
        session = await agent.load_session("s")
        assert not session.is_pending
        assert tuple(sent) == session.messages[:-1]

    run(main)


def test_edited_arguments_are_checked_and_stand_in_the_history() -> None:
    async def main() -> None:
        scripted = model()
        agent = agent_of(scripted)
        await agent.call_async("Go.", session="s")
        with pytest.raises(DecisionError, match="name") as caught:
            await agent.resume_async([Approve("e", args={"name": 3, "x": 1})], session="s")
        assert caught.value.kind == "invalid_arguments"
        assert RAN == [("note", {"text": "before"})]
        await agent.resume_async([Approve("e", args={"name": "north"}), Approve("w")], session="s")
        assert RAN[1:] == [("gate", {"name": "north"}), ("gate", {"name": "west"})]
        message = scripted.requests[1].messages[1]
        assert isinstance(message, AssistantMessage)
        assert message.calls[1].arguments == '{"name":"north"}'

    run(main)


@pytest.mark.parametrize(
    ("decision", "kind"),
    [
        (Approve("nobody"), "unknown_call"),
        (Approve("n"), "already_decided"),
        (Approve("e", digest="0123456789abcdef"), "digest_mismatch"),
    ],
)
def test_a_decision_that_may_not_stand_changes_nothing(decision: Decision, kind: str) -> None:
    async def main() -> None:
        agent = agent_of(model())
        await agent.call_async("Go.", session="s")
        before = await agent.load_session("s")
        log = await agent.store.read(before.run_id)
        with pytest.raises(DecisionError) as caught:
            await agent.resume_async([Approve("w"), decision], session="s")
        assert caught.value.kind == kind
        assert await agent.load_session("s") == before
        assert await agent.store.read(before.run_id) == log
        assert RAN == [("note", {"text": "before"})]

    run(main)


def test_a_second_decision_is_refused_while_others_wait_and_after_the_end() -> None:
    async def main() -> None:
        agent = agent_of(model())
        await agent.call_async("Go.", session="s")
        await agent.resume_async([Approve("w")], session="s")
        with pytest.raises(DecisionError) as caught:
            await agent.resume_async([Approve("w")], session="s")
        assert caught.value.kind == "already_decided"
        await agent.resume_async([Skip("e")], session="s")
        with pytest.raises(DecisionError) as caught:
            await agent.resume_async([Approve("w")], session="s")
        assert caught.value.kind == "already_decided"
        with pytest.raises(DecisionError) as caught:
            await agent.resume_async([Approve("w")], session="elsewhere")
        assert caught.value.kind == "unknown_run"
        assert RAN == [("note", {"text": "before"}), ("gate", {"name": "west"})]

    run(main)


def test_a_digest_of_what_was_shown_is_accepted() -> None:
    async def main() -> None:
        agent = agent_of(model())
        response = await agent.call_async("Go.", session="s")
        decisions = [Approve(task.call_id, digest=task.digest, by="ada") for task in response.pending]
        events = await events_of(agent.resume_stream(decisions, session="s"))
        from headwater.events import HITLDecidedEvent

        assert [e.by for e in events if isinstance(e, HITLDecidedEvent)] == ["ada", "ada"]
        assert len(RAN) == 3

    run(main)


def test_a_persons_text_is_the_result_and_a_skipped_call_says_so() -> None:
    async def main() -> None:
        scripted = model()
        agent = agent_of(scripted)
        await agent.call_async("Go.", session="s")
        await agent.resume_async([Respond("e", "It is open already."), Skip("w")], session="s")
        results = [m for m in scripted.requests[1].messages if isinstance(m, ToolMessage)]
        assert results[1].text == "It is open already."
        assert not results[1].is_error
        assert "skip" in results[2].text
        assert RAN == [("note", {"text": "before"})]

    run(main)


def test_always_is_kept_in_the_session() -> None:
    async def main() -> None:
        scripted = ScriptedModel([[call("gate", {"name": "a"}, id="x")], "One.", [call("gate", {"name": "b"})], "Two."])
        agent = agent_of(scripted)
        await agent.call_async("Go.", session="s")
        assert (await agent.resume_async([Always("x")], session="s")).text == "One."
        assert (await agent.call_async("Again.", session="s")).text == "Two."
        assert RAN == [("gate", {"name": "a"}), ("gate", {"name": "b"})]
        assert (await agent.load_session("s")).allowed[0].tool == "gate"

    run(main)


def test_a_new_prompt_dismisses_what_waits_with_results_that_say_so() -> None:
    async def main() -> None:
        scripted = model()
        agent = agent_of(scripted)
        first = await events_of(agent.stream("Go.", session="s"))
        assert (await agent.call_async("Something else.", session="s")).text == "Done."
        results = [m.text for m in scripted.requests[1].messages if isinstance(m, ToolMessage)]
        assert results[0] == "noted"
        assert all("something else" in text for text in results[1:])
        log = await agent.store.read(first[0].run_id)
        check_events(log)
        end = log[-1]
        assert isinstance(end, hw.RunEndEvent)
        assert end.outcome is hw.Outcome.REJECTED
        assert not (await agent.load_session("s")).is_pending

    run(main)


def test_a_new_prompt_is_refused_where_that_is_asked_for() -> None:
    async def main() -> None:
        agent = agent_of(model(), on_pending="refuse")
        await agent.call_async("Go.", session="s")
        with pytest.raises(DecisionError) as caught:
            await agent.call_async("Something else.", session="s")
        assert caught.value.kind == "pending"
        assert (await agent.resume_async([Approve("e"), Approve("w")], session="s")).text == "Done."

    run(main)


def test_an_expired_task_counts_as_refused() -> None:
    async def main() -> None:
        scripted = model()
        agent = agent_of(scripted, approval_expires_in=0.0)
        await agent.call_async("Go.", session="s")
        response = await agent.resume_async([Approve("e")], session="s")
        assert response.text == "Done."
        assert RAN == [("note", {"text": "before"})]
        results = [m.text for m in scripted.requests[1].messages if isinstance(m, ToolMessage)]
        assert "in time" in results[1]

    run(main)


def test_rejecting_goes_on_unless_the_policy_ends_the_run() -> None:
    async def main() -> None:
        agent = agent_of(model(), on_reject="end")
        await agent.call_async("Go.", session="s")
        response = await agent.resume_async([Approve("e"), Reject("w")], session="s")
        assert response.outcome is hw.Outcome.REJECTED

    run(main)


def test_a_rule_on_name_and_arguments_holds_a_call_back() -> None:
    async def main() -> None:
        scripted = ScriptedModel([[call("note", {"text": "secret"}), call("note", {"text": "plain"})], "Done."])
        agent = hw.ReActAgent(
            model=scripted, tools=[note], needs_approval=lambda name, args: args.get("text") == "secret"
        )
        response = await agent.call_async("Go.")
        assert response.outcome is hw.Outcome.SUSPENDED
        assert RAN == [("note", {"text": "plain"})]
        response = await agent.resume_async([Approve("r1c1")], run_id=response.run_id)
        assert response.text == "Done."

    run(main)


def test_a_cancel_while_a_decided_tool_runs_closes_what_still_waits() -> None:
    async def main() -> None:
        entered = asyncio.Event()

        @hw.tool(requires_approval=True)
        async def hang(name: str) -> str:
            """Hang."""
            entered.set()
            await asyncio.Event().wait()
            return name

        scripted = ScriptedModel([[call("hang", {"name": "a"}, id="a"), call("hang", {"name": "b"}, id="b")]])
        agent = hw.ReActAgent(model=scripted, tools=[hang])
        first = await events_of(agent.stream("Go.", session="s"))
        second: list[hw.AgentEvent] = []
        async with agent.resume_stream([Approve("a")], session="s") as stream:
            async for event in stream:
                second.append(event)
                if isinstance(event, hw.ToolCallStartEvent):
                    await entered.wait()
                    await stream.cancel()
        check_events([*first, *second])
        session = await agent.load_session("s")
        assert not session.is_pending
        assert [type(m).__name__ for m in session.messages] == [
            "UserMessage",
            "AssistantMessage",
            "ToolMessage",
            "ToolMessage",
        ]

    run(main)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_order_and_partition_of_decisions_gives_the_same_history(data: st.DataObject) -> None:
    kinds = data.draw(
        st.lists(st.sampled_from(["approve", "edit", "reject", "skip", "respond"]), min_size=1, max_size=4)
    )
    made: list[Decision] = []
    for n, kind in enumerate(kinds):
        name = f"c{n}"
        made.append(
            {
                "approve": Approve(name),
                "edit": Approve(name, args={"name": f"edited {n}"}),
                "reject": Reject(name, "no"),
                "skip": Skip(name),
                "respond": Respond(name, f"text {n}"),
            }[kind]
        )
    script = [call("gate", {"name": str(n)}, id=f"c{n}") for n in range(len(kinds))]
    order = data.draw(st.permutations(made))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(made)))) | {len(made)})
    batches = [order[a:b] for a, b in itertools.pairwise([0, *cuts])]

    async def history(parts: list[list[Decision]]) -> Any:
        agent = agent_of(ScriptedModel([[*script, call("note", {"text": "x"}, id="note")], "Done."]))
        events = await events_of(agent.stream("Go.", session="s"))
        for batch in parts:
            events += await events_of(agent.resume_stream(batch, session="s"))
        check_events(events)
        return (await agent.load_session("s")).messages

    async def main() -> None:
        assert await history(batches) == await history([made])

    run(main)


def test_another_agent_object_resumes_from_the_store_alone(tmp_path: Path) -> None:
    path = tmp_path / "headwater.db"

    async def suspend() -> None:
        agent = agent_of(model(), store=path)
        assert (await agent.call_async("Go.", session="s")).outcome is hw.Outcome.SUSPENDED
        await agent.aclose()

    async def decide() -> None:
        scripted = ScriptedModel(["Done."])
        agent = agent_of(scripted, store=path)
        response = await agent.resume_async([Approve("e"), Approve("w")], session="s")
        assert response.text == "Done."
        assert len(scripted.requests[0].messages) == 5
        await agent.aclose()

    run(suspend)
    RAN.clear()
    run(decide)
    assert RAN == [("gate", {"name": "east"}), ("gate", {"name": "west"})]
