"""Any order and partition of answers and approvals comes to the same history, and each effect happens once."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.core.decisions import Approve, Decision, Reject, Respond, Skip
from headwater.events import HITLTask, ToolCallEndEvent, ToolStatus
from headwater.messages import ToolMessage
from headwater.store.memory import MemoryStore
from headwater.testing import ScriptedModel, check_events
from headwater.testing.scripted import call, say
from tests.agents.support import run
from tests.agents.test_approvals_hard import sendable

SCHEMAS: tuple[tuple[Any, Any], ...] = ((str, "text"), (bool, True), (int, 3), (list[int], [1, 2]))
"""Types and answers that fit them, a pair for each question of a call."""


class Planned(msgspec.Struct, frozen=True):
    """One call: its tool, how often it asks, whether it needs approval first, and what a person decides, in order."""

    tool: str
    questions: int
    held: bool
    decisions: tuple[str, ...]


@st.composite
def plans(draw: st.DrawFn) -> list[Planned]:
    planned: list[Planned] = []
    for _ in range(draw(st.integers(1, 5))):
        questions, held = draw(st.integers(0, 3)), draw(st.booleans())
        decisions: list[str] = []
        for number in range(held + questions):
            is_approval = held and number == 0
            goes_on = "approve" if is_approval else "answer"
            decision = draw(st.sampled_from([goes_on, goes_on, goes_on, "reject", "skip"]))
            if is_approval and decision == "skip":
                decision = draw(st.sampled_from(["skip", "respond"]))
            decisions.append(decision)
            if decision != goes_on:
                break
        planned.append(Planned(draw(st.sampled_from(["read", "write", "sync"])), questions, held, tuple(decisions)))
    return planned


class World:
    """The tools of a batch, and what they did."""

    def __init__(self, planned: list[Planned]) -> None:
        self.planned = planned
        self.done: list[int] = []
        self.decided: dict[str, int] = {}

    def tools(self) -> list[Any]:
        def held(args: dict[str, Any]) -> bool:
            return self.planned[int(args["n"])].held

        @hw.tool(effect="read", requires_approval=held)
        async def read(n: int, ctx: hw.ToolContext) -> str:
            """Read."""
            answers: list[Any] = [
                await ctx.ask(f"{k} of {n}?", SCHEMAS[k][0]) for k in range(self.planned[n].questions)
            ]
            return f"read {n} {answers}"

        @hw.tool(ask_first=True, requires_approval=held)
        async def write(n: int, ctx: hw.ToolContext) -> str:
            """Write."""
            answers: list[Any] = [
                await ctx.ask(f"{k} of {n}?", SCHEMAS[k][0]) for k in range(self.planned[n].questions)
            ]
            self.done.append(n)
            return f"wrote {n} {answers}"

        @hw.tool(ask_first=True, requires_approval=held, serial=True)
        def sync(n: int, ctx: hw.ToolContext) -> str:
            """Write, one after the other."""
            answers: list[Any] = [ctx.ask_sync(f"{k} of {n}?", SCHEMAS[k][0]) for k in range(self.planned[n].questions)]
            self.done.append(n)
            return f"wrote {n} {answers}"

        return [read, write, sync]

    def script(self) -> list[Any]:
        calls = [call(one.tool, {"n": n}, id=f"w{n}", cut=3) for n, one in enumerate(self.planned)]
        return [[say("Well. "), *calls], "The end."]

    def decide(self, task: HITLTask) -> Decision:
        """The next decision about a call, whenever it is made."""
        n = int(task.args["n"])
        number = self.decided.get(task.call_id, 0)
        self.decided[task.call_id] = number + 1
        match self.planned[n].decisions[number]:
            case "approve":
                return Approve(task.call_id, digest=task.digest)
            case "reject":
                return Reject(f"w{n}", "no", digest=task.digest)
            case "skip":
                return Skip(task.call_id, "later")
            case "respond":
                return Respond(task.call_id, "mine")
            case _:
                asked = int(task.question.partition(" ")[0])
                return Respond(task.call_id, digest=task.digest, value=SCHEMAS[asked][1])


async def history(world: World, choose: Any) -> tuple[Any, list[hw.AgentEvent]]:
    """Run it, deciding about those tasks that `choose` takes; every segment in an agent of its own."""
    store, model = MemoryStore(), ScriptedModel(world.script())
    stream = hw.ReActAgent(model=model, tools=world.tools(), store=store).stream("Go.", session="s")
    for _ in itertools.count():
        async with stream:
            async for _event in stream:
                pass
        end = stream.end
        assert end is not None
        if end.outcome is not hw.Outcome.SUSPENDED:
            break
        agent = hw.ReActAgent(model=model, tools=world.tools(), store=store)
        decisions = [world.decide(task) for task in choose(end.response.pending)]
        stream = agent.resume_stream(decisions, session="s")
    log = await store.read(stream.run_id)
    check_events(log)
    return (await store.load("s")).messages, log


@settings(max_examples=80, deadline=None)
@given(plans(), st.data())
def test_any_order_and_partition_of_answers_and_approvals_gives_the_same_history(
    planned: list[Planned], data: st.DataObject
) -> None:
    def some(tasks: tuple[HITLTask, ...]) -> list[HITLTask]:
        shuffled = data.draw(st.permutations(tasks))
        return shuffled[: data.draw(st.integers(1, len(shuffled)))]

    async def main() -> None:
        one, other = World(planned), World(planned)
        messages, log = await history(one, some)
        all_at_once, _ = await history(other, list)
        assert messages == all_at_once
        sendable(messages)
        assert sum(isinstance(message, ToolMessage) for message in messages) == len(planned)
        ended = {n for n, p in enumerate(planned) if not {"reject", "skip", "respond"} & set(p.decisions)}
        assert sorted(one.done) == sorted(n for n in ended if planned[n].tool != "read")
        assert len([e for e in log if isinstance(e, hw.ReasonStartEvent)]) == 2
        waits = [e for e in log if isinstance(e, ToolCallEndEvent) and e.status is ToolStatus.SUSPENDED]
        asked = sum(len(p.decisions) - p.held for p in planned)
        assert len(waits) == asked

    run(main)
