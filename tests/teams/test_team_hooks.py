"""Hooks of a team hold for its own model and for each member."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import headwater as hw
from headwater.agents.team import TeamAgent
from headwater.chat.request import ModelRequest
from headwater.core.team.hierarchical import Hierarchical
from headwater.core.team.sequential import Sequential
from headwater.events import AgentEvent, RunEndEvent
from headwater.hooks import HookCall, HookContext, HookError, NeedsApproval, input_guard, output_guard, tool_guard
from headwater.testing import ScriptedModel, call, check_events, say
from tests.agents.support import run


@hw.tool
async def note(text: str) -> str:
    """Note."""
    return f"noted {text}"


def pair(first: ScriptedModel, second: ScriptedModel, **settings: Any) -> TeamAgent:
    members = [hw.ReActAgent("ann", model=first, tools=[note]), hw.SimpleAgent("bob", model=second)]
    return TeamAgent("duo", members, Sequential(), **settings)


async def events_of(stream: hw.Run[Any]) -> list[AgentEvent]:
    events = [event async for event in stream]
    check_events(events)
    return events


def end_of(events: list[AgentEvent]) -> RunEndEvent:
    end = events[-1]
    assert isinstance(end, RunEndEvent)
    return end


class Observer:
    def __init__(self) -> None:
        self.seen: list[AgentEvent] = []
        self.requests: list[tuple[str, ...]] = []

    def on_event(self, ctx: HookContext, event: AgentEvent) -> None:
        assert ctx.origin == event.origin
        self.seen.append(event)

    def before_model(self, ctx: HookContext, request: ModelRequest) -> None:
        self.requests.append(ctx.path)


def test_a_teams_observer_sees_every_event_of_the_tree_once() -> None:
    async def main() -> None:
        observer = Observer()
        ann = hw.ReActAgent(
            "ann", model=ScriptedModel([[call("note", {"text": "x"})], "A."]), tools=[note], hooks=[observer]
        )
        bob = hw.SimpleAgent("bob", model=ScriptedModel(["B."]))
        team = TeamAgent("duo", [ann, bob], Sequential(), hooks=[observer])
        events = await events_of(team.stream("Go.", hooks=[observer]))
        assert observer.seen == events
        assert Counter(observer.requests) == {("duo", "ann"): 2, ("duo", "bob"): 1}

    run(main)


@pytest.mark.parametrize("per_run", [False, True])
def test_an_input_guard_of_a_team_keeps_a_prompt_from_every_member(per_run: bool) -> None:
    def not_rude(text: str) -> str | None:
        return "Please be kind." if "idiot" in text else None

    async def main() -> None:
        first, second = ScriptedModel(["A."]), ScriptedModel(["B."])
        guards = [input_guard(not_rude)]
        team = pair(first, second, hooks=() if per_run else guards)
        more: dict[str, Any] = {"hooks": guards} if per_run else {}
        end = end_of(await events_of(team.stream("Go, idiot.", session="s", **more)))
        assert (end.outcome, end.response.text) == (hw.Outcome.REJECTED, "Please be kind.")
        assert end.error is not None
        assert end.error.kind == "input_refused"
        assert first.requests == second.requests == []
        assert (await team.load_session("s")).messages == ()

    run(main)


def test_what_a_guard_withdraws_of_a_member_is_not_the_teams_answer() -> None:
    def no_key(text: str) -> str | None:
        return "a key" if "sk-1" in text else None

    async def main() -> None:
        team = pair(ScriptedModel(["The key is sk-1."]), ScriptedModel([]), hooks=[output_guard(no_key, text="No.")])
        end = end_of(await events_of(team.stream("Go.", session="s")))
        assert (end.outcome, end.response.text) == (hw.Outcome.REJECTED, "No.")
        assert [message.text for message in (await team.load_session("s")).messages] == ["Go.", "No."]

    run(main)


def test_the_supervisors_turns_are_guarded_as_well() -> None:
    def no_key(text: str) -> str | None:
        return "a key" if "sk-1" in text else None

    async def main() -> None:
        supervisor = ScriptedModel([[say("sk-1")], [say("sk-1"), call("finish", {"answer": "Done."})]])
        ann = hw.SimpleAgent("ann", model=ScriptedModel([]))
        team = TeamAgent(
            "team", [ann], Hierarchical(), model=supervisor, hooks=[output_guard(no_key, text="No.", retries=1)]
        )
        events = await events_of(team.stream("Go."))
        assert (end_of(events).outcome, end_of(events).response.text) == (hw.Outcome.REJECTED, "No.")
        assert len(supervisor.requests) == 2

    run(main)


@pytest.mark.parametrize("method", ["before_model", "after_model", "check_text"])
def test_what_a_hook_raises_about_the_supervisor_fails_the_team(method: str) -> None:
    class Raises:
        pass

    def raises(*_: Any) -> None:
        raise ValueError("no good")

    async def main() -> None:
        hook: Any = Raises()
        setattr(hook, method, raises)
        ann = hw.SimpleAgent("ann", model=ScriptedModel([]))
        supervisor = ScriptedModel([[say("Hm."), call("finish", {"answer": "Done."})]])
        team = TeamAgent("team", [ann], Hierarchical(), model=supervisor, hooks=[hook])
        stream = team.stream("Go.")
        with pytest.raises(HookError, match=f"failed in {method}: ValueError: no good"):
            await stream.response()

    run(main)


def test_a_teams_tool_guard_asks_a_person_for_a_members_call() -> None:
    def ask(call: HookCall) -> NeedsApproval:
        return NeedsApproval("always")

    async def main() -> None:
        first = ScriptedModel([[call("note", {"text": "x"})], "A."])
        team = pair(first, ScriptedModel(["B."]), hooks=[tool_guard(ask)])
        waiting = await team.call_async("Go.", session="s")
        assert [(task.tool_name, task.reason, task.path) for task in waiting.pending] == [
            ("note", "always", ("duo", "ann"))
        ]
        response = await team.resume_async([hw.Approve(waiting.pending[0].call_id)], session="s")
        assert response.text == "B."
        assert first.requests[1].messages[-1].text == "noted x"

    run(main)


def test_an_agents_hooks_hold_for_agents_that_are_its_tools() -> None:
    async def main() -> None:
        observer = Observer()
        inner = hw.SimpleAgent("ann", model=ScriptedModel(["A."]))
        model = ScriptedModel([[call("ask_ann", {"task": "Go."})], "Done."])
        outer = hw.ReActAgent("boss", model=model, tools=[inner.as_tool("ask_ann")], hooks=[observer])
        events = await events_of(outer.stream("Go."))
        assert end_of(events).response.text == "Done."
        assert observer.seen == events
        assert Counter(observer.requests) == {("boss",): 2, ("boss", "ann"): 1}

    run(main)
