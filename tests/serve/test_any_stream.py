"""Whatever a run does, and wherever it is cut, what an adapter writes is closed and legal for every client version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.core.signals import Cancel
from headwater.core.signals import Fail as FailRun
from headwater.errors import ErrorInfo, model_error
from headwater.events import (
    AgentEvent,
    AgentKind,
    HITLTask,
    NodeEndEvent,
    NodeStartEvent,
    Origin,
    Outcome,
    Response,
    RunEndEvent,
    RunStartEvent,
)
from headwater.serve.a2a import A2AStream
from headwater.serve.adapter import Followed
from headwater.serve.agui import COMPAT, COMPAT_SUBAGENTS, MODERN, AguiStream
from headwater.serve.openai import ChatOptions, ChatStream, ResponseStream
from headwater.serve.vercel import VERSIONS, VercelStream
from headwater.testing import ScriptedModel, check_events
from headwater.testing.scripted import Item, call, fail, refuse, say, think
from tests.core.test_laws import retries, simulate
from tests.serve import a2a_rules, agui_rules, vercel_rules
from tests.serve.openai_response_rules import response_breaches
from tests.serve.openai_rules import chat_breaches
from tests.serve.record_golden import read, segments


def check(events: Sequence[AgentEvent], end: int | None = None) -> None:
    """The output of all adapters for all versions; with `end` the stream is cut after so many events."""
    fed = events if end is None else events[:end]
    for dialect in (MODERN, COMPAT, COMPAT_SUBAGENTS):
        agui = AguiStream("thread", "run", dialect, [{"id": "u", "role": "user", "content": "Go."}])
        out = [one for event in fed for one in agui.feed(event)]
        if end is not None:
            out += agui.cut("shutdown", "The server is going down.")
        assert agui_rules.breaches(out, dialect) == []
    for major, version in VERSIONS.items():
        ui = VercelStream(version)
        out = [one for event in fed for one in ui.feed(event)]
        if end is not None:
            out += ui.cut("The server is going down.")
        assert vercel_rules.breaches(out, major) == []
    for part in segments(fed) or [fed]:
        cut = end is not None and not ends(part)
        assert chat_breaches(chatted(part, ChatStream(LIVE, ""), cut=cut)) == []
        assert chat_breaches(chatted(part, ChatStream(HELD, "", usage=True), cut=cut), usage=True) == []
        assert response_breaches(responded(part, cut=cut)) == []
    check_tasks(events, end)


def check_tasks(events: Sequence[AgentEvent], end: int | None) -> None:
    """As a task: legal up to the cut, and whoever comes there has in the end what the first reader has."""
    cut = len(events) if end is None else end
    live, extension = ((False, False), (True, False), (False, True))[len(events) % 3]
    stream = A2AStream(events[0].origin.root_run_id, "context", live=live, extension=extension)
    items: list[dict[str, Any]] = [{"task": stream.task()}]
    for event in events[:cut]:
        items += stream.feed(event)
    assert a2a_rules.breaches(items, is_whole=end is None) == []
    late: list[dict[str, Any]] = [{"task": stream.task()}]
    for event in events[cut:]:
        late += stream.feed(event)
    assert a2a_rules.breaches(late) == []
    first, second = (a2a_rules.accumulated(told) for told in ([*items, *late[1:]], late))
    assert a2a_rules.contents(first) == a2a_rules.contents(second) == a2a_rules.contents(stream.task())
    assert first["status"] == second["status"]
    last = events[-1]
    assert isinstance(last, RunEndEvent)
    if last.outcome in (Outcome.COMPLETED, Outcome.LIMIT):
        answer = [part for part in a2a_rules.contents(first).get("answer", ()) if isinstance(part, str)]
        assert "".join(answer) == last.response.text


LIVE = ChatOptions(tools="text", approvals="text")
HELD = ChatOptions("think_tags", final_only=True)


def ends(part: Sequence[AgentEvent]) -> bool:
    """Whether the root's `run.end` is there."""
    return any(isinstance(e, RunEndEvent) and e.origin.run_id == e.origin.root_run_id for e in part)


def chatted(part: Sequence[AgentEvent], stream: ChatStream, *, cut: bool) -> list[dict[str, Any]]:
    out = [one for event in part for one in stream.feed(event)]
    return out + (stream.cut("shutdown", "The server is going down.") if cut else [])


def responded(part: Sequence[AgentEvent], *, cut: bool) -> list[dict[str, Any]]:
    if not part:
        return ResponseStream(Followed("run_root", "agent")).cut("shutdown", "The server is going down.")
    origin, after = part[0].origin, part[0].seq - 1
    stream = ResponseStream(Followed(origin.root_run_id, origin.agent, resumed=after > 0, after=after))
    out = [one for event in part for one in stream.feed(event)]
    so_far = stream.response()
    assert msgspec.json.decode(msgspec.json.encode(so_far)) == so_far
    return out + (stream.cut("shutdown", "The server is going down.") if cut else [])


cuts = st.one_of(st.none(), st.integers(0, 60))


def run_of(data: st.DataObject, retry: hw.Retry) -> list[AgentEvent]:
    """The events of any run, perhaps ended by a cancel or a failure at any position."""
    sim, choose = simulate(data, retry)
    how = data.draw(st.sampled_from(["whole", "cancel", "fail"]))
    if how == "whole":
        sim.run(choose)
        return sim.events
    for _ in range(data.draw(st.integers(0, 40))):
        if not sim.step(choose):
            break
    sim.send(Cancel("stop") if how == "cancel" else FailRun(ErrorInfo(kind="store_error", message="disk full")))
    sim.run(choose)
    return sim.events


@settings(max_examples=200, deadline=None)
@given(st.data(), retries, cuts)
def test_any_run_leaves_every_adapter_closed_and_legal(data: st.DataObject, retry: hw.Retry, cut: int | None) -> None:
    check(run_of(data, retry), cut)


# -- teams ------------------------------------------------------------------------------------------------------------


def as_member(root: Origin, number: int, name: str, events: Sequence[AgentEvent]) -> list[AgentEvent]:
    """A run's events as those of a member of `root`, with the node that it is."""
    end = events[-1]
    assert isinstance(end, RunEndEvent)
    origin = msgspec.structs.replace(
        end.origin, agent=name, path=(*root.path, name), root_run_id=root.run_id, parent_run_id=root.run_id
    )
    node, run_id = f"n{number}", origin.run_id
    return [
        NodeStartEvent(1, 0, 0.0, root, 0, node_id=node, member=name, member_run_id=run_id),
        *(msgspec.structs.replace(event, origin=origin) for event in events),
        NodeEndEvent(1, 0, 0.0, root, 0, node_id=node, member=name, member_run_id=run_id, outcome=end.outcome),
    ]


def renamed(number: int, events: Sequence[AgentEvent]) -> list[AgentEvent]:
    """The same run under another id: simulated runs share one."""
    run_id = f"run_member{number}"
    origin = msgspec.structs.replace(events[0].origin, run_id=run_id, root_run_id=run_id)
    found = [msgspec.structs.replace(event, origin=origin) for event in events]
    end = found[-1]
    assert isinstance(end, RunEndEvent)
    found[-1] = msgspec.structs.replace(end, response=msgspec.structs.replace(end.response, run_id=run_id))
    return found


def team_of(data: st.DataObject, retry: hw.Retry) -> list[AgentEvent]:
    """Up to three members' runs, woven into one stream in any order."""
    root = Origin("run_root", "run_root", "team", AgentKind.TEAM, ("team",))
    count = data.draw(st.integers(1, 3))
    lanes = [as_member(root, n, f"member{n}", renamed(n, run_of(data, retry))) for n in range(count)]
    woven: list[AgentEvent] = [RunStartEvent(1, 0, 0.0, root, 0, input=())]
    while lanes:
        lane = lanes[data.draw(st.integers(0, len(lanes) - 1))]
        woven.append(lane.pop(0))
        lanes = [lane for lane in lanes if lane]
    response: Response[Any] = Response("Done.", Outcome.COMPLETED, root.run_id)
    woven.append(RunEndEvent(1, 0, 0.0, root, 0, outcome=Outcome.COMPLETED, response=response))
    return [msgspec.structs.replace(event, seq=n) for n, event in enumerate(woven, 1)]


@settings(max_examples=100, deadline=None)
@given(st.data(), retries, cuts)
def test_any_parallel_team_leaves_every_adapter_closed_and_legal(
    data: st.DataObject, retry: hw.Retry, cut: int | None
) -> None:
    events = team_of(data, retry)
    check_events(events)
    check(events, cut)


# -- people -----------------------------------------------------------------------------------------------------------


@hw.tool
async def look(q: str, ctx: hw.ToolContext) -> str:
    """Look."""
    ctx.emit_progress({"q": q})
    return q


@hw.tool(requires_approval=True)
async def send(q: str) -> str:
    """Send."""
    return f"sent {q}"


DECIDE: list[Callable[[HITLTask], Any]] = [
    lambda task: hw.Approve(task.call_id),
    lambda task: hw.Approve(task.call_id, args={"q": "edited"}),
    lambda task: hw.Reject(task.call_id, "no"),
    lambda task: hw.Skip(task.call_id),
    lambda task: hw.Respond(task.call_id, "I did."),
]

names = st.sampled_from(["look", "send", "send"])
calls: st.SearchStrategy[Item] = st.sampled_from("ab").flatmap(lambda q: names.map(lambda name: call(name, {"q": q})))
broken = model_error("connection_error", "broken", retryable=True)
items: st.SearchStrategy[Item] = st.one_of(
    calls, calls, st.just(say("a", "b")), st.just(think("hm")), st.just(refuse("no")), st.just(fail(broken))
)


@settings(max_examples=100, deadline=None)
@given(st.data(), retries, st.lists(st.lists(items, max_size=4), min_size=1, max_size=4), cuts)
def test_any_course_of_approvals_leaves_every_adapter_closed_and_legal(
    data: st.DataObject, retry: hw.Retry, script: list[list[Item]], cut: int | None
) -> None:
    retry = msgspec.structs.replace(retry, base=0)

    async def main() -> list[AgentEvent]:
        model = ScriptedModel([*script, *["Well."] * 20])
        agent = hw.ReActAgent(name="clerk", model=model, tools=[look, send], retry=retry, max_rounds=4)
        events = await read(agent.stream("Go.", session="s"))
        while isinstance(end := events[-1], RunEndEvent) and end.outcome is Outcome.SUSPENDED:
            waiting = end.response.pending
            some = waiting[: data.draw(st.integers(1, len(waiting)))]
            decisions = [data.draw(st.sampled_from(DECIDE))(task) for task in some]
            events += await read(agent.resume_stream(decisions, session="s"))
        return events

    events = asyncio.run(main())
    check_events(events)
    check(events, cut)
    for part in segments(events):
        for dialect in (MODERN, COMPAT):
            agui = AguiStream("thread", "run", dialect)
            assert agui_rules.breaches([one for e in part for one in agui.feed(e)], dialect) == []
        for major, version in VERSIONS.items():
            ui = VercelStream(version)
            assert vercel_rules.breaches([one for e in part for one in ui.feed(e)], major) == []
        assert chat_breaches(chatted(part, ChatStream(LIVE, ""), cut=False)) == []
        assert chat_breaches(chatted(part, ChatStream(HELD, ""), cut=False)) == []
        assert response_breaches(responded(part, cut=False)) == []
