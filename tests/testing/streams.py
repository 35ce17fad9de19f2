"""Legal streams of every shape."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from headwater.events import ActionEndEvent, AgentEvent, AgentKind, FinishReason, Outcome, Question, ToolStatus
from headwater.messages import Usage
from tests.testing.tape import USAGE, Tape


def simple() -> list[AgentEvent]:
    tape = Tape()
    run = tape.run(kind=AgentKind.SIMPLE)
    run.start()
    run.size()
    run.reason()
    run.block("THINKING", "hm, ", "well")
    run.block("TEXT", "It ", "rains.")
    run.media("https://example.org/rain.png")
    run.block("TEXT", "See?")
    run.reasoned()
    run.end(text="It rains.See?")
    return tape.events


def refusal() -> list[AgentEvent]:
    tape = Tape()
    run = tape.run()
    run.start()
    run.reason()
    run.block("REFUSAL", "No", ".")
    run.reasoned(FinishReason.CONTENT_FILTER)
    run.end()
    return tape.events


def react() -> list[AgentEvent]:
    """A preamble, two parallel calls of which the first is eager, and the answer."""
    tape = Tape()
    run = tape.run()
    run.start()
    run.size()
    run.reason()
    run.block("TEXT", "I look.")
    run.call("c1", "weather", '{"city":', ' "X"}', args={"city": "X"})
    run.tool("c1", "weather", eager=True)
    run.progress("c1")
    run.call("c2", "search", "{}", args={})
    run.reasoned(FinishReason.TOOL_CALLS)
    run.action()
    run.tool("c2", "search")
    run.tooled("c2", "search")
    run.custom()
    run.tooled("c1", "weather")
    run.acted()
    run.size()
    run.answer("Sun", ".")
    return tape.events


def eager_changed() -> list[AgentEvent]:
    """Later fragments change an eager call's arguments: its outcome is void and it runs again."""
    tape = Tape()
    run = tape.run()
    run.start()
    run.reason()
    run.call("c1", "weather", '{"city": "X"}', '{"city": "Y"}', args={"city": "Y"})
    run.tool("c1", "weather", eager=True)
    run.tooled("c1", "weather", ToolStatus.CANCELLED)
    run.reasoned(FinishReason.TOOL_CALLS)
    run.action()
    run.tool("c1", "weather", attempt=2)
    run.tooled("c1", "weather", attempt=2)
    run.acted()
    run.answer("Sun.")
    return tape.events


def discarded() -> list[AgentEvent]:
    tape = Tape()
    run = tape.run()
    run.start()
    run.reason()
    run.block("TEXT", "I lo")
    run.call("c1", "weather", "{}")
    run.tool("c1", "weather", eager=True)
    run.tooled("c1", "weather", ToolStatus.CANCELLED)
    run.discard()
    run.reason(again=True)
    run.block("TEXT", "It rains.")
    run.reasoned()
    run.end(text="It rains.")
    return tape.events


def direct() -> list[AgentEvent]:
    """Two tools whose texts are the answer, and one that is not."""
    tape = Tape()
    run = tape.run()
    run.start()
    run.reason()
    for call_id in ("c1", "c2", "c3"):
        run.call(call_id, "report", "{}", args={})
    run.reasoned(FinishReason.TOOL_CALLS)
    run.action()
    for call_id in ("c1", "c2", "c3"):
        run.tool(call_id, "report")
    for call_id in ("c3", "c1", "c2"):
        run.tooled(call_id, "report", text=f"text {call_id}")
    run.acted()
    run.end(text="text c1\n\ntext c3")
    return tape.events


def cancelled() -> list[AgentEvent]:
    """Cut off in the middle of a turn: the call it had begun is answered without being run."""
    tape = Tape()
    run = tape.run()
    run.start()
    run.reason()
    run.block("TEXT", "I lo")
    run.call("c1", "weather", '{"ci')
    run.reasoned(FinishReason.CANCELLED, interrupted=True)
    run.action()
    run.tool("c1", "weather")
    run.tooled("c1", "weather", ToolStatus.SKIPPED)
    run.acted()
    run.end(Outcome.CANCELLED)
    return tape.events


def failed() -> list[AgentEvent]:
    tape = Tape()
    run = tape.run()
    run.start()
    run.reason()
    run.reasoned(FinishReason.ERROR, interrupted=True)
    run.end(Outcome.FAILED)
    return tape.events


def suspended() -> list[AgentEvent]:
    """Of two calls one waits for a person; a tool suspends itself; after the decision, the answer."""
    tape = Tape()
    run = tape.run()
    run.start()
    run.reason()
    run.call("c1", "read", "{}", args={})
    run.call("c2", "write", "{}", args={})
    run.call("c3", "ask", "{}", args={})
    run.reasoned(FinishReason.TOOL_CALLS)
    run.action("c1", "c3")
    run.tool("c1", "read")
    run.tooled("c1", "read")
    run.tool("c3", "ask")
    run.tooled("c3", "ask", ToolStatus.SUSPENDED)
    run.acted("c1")
    run.pending("c2")
    run.end(Outcome.SUSPENDED)
    run.start(resumed=True)
    run.decided("c2")
    run.action("c2", "c3")
    run.tool("c2", "write")
    run.tool("c3", "ask", attempt=2)
    run.tooled("c3", "ask", attempt=2)
    run.tooled("c2", "write", ToolStatus.DENIED)
    run.acted("c2", "c3")
    run.answer("Done.")
    return tape.events


QUESTION = Question("Which?", {"type": "string"})


def asked() -> list[AgentEvent]:
    """A tool asks beside one that waits for approval; the question is answered first, and another follows."""
    tape = Tape()
    run = tape.run()
    run.start()
    run.reason()
    run.call("c1", "ask", "{}", args={})
    run.call("c2", "write", "{}", args={})
    run.reasoned(FinishReason.TOOL_CALLS)
    run.action("c1")
    run.tool("c1", "ask")
    run.asks("c1", "ask", QUESTION)
    run.put(ActionEndEvent(*run.head(), ()))
    run.pending("c2", c1=QUESTION)
    run.end(Outcome.SUSPENDED)
    run.start(resumed=True)
    run.decided("c1", "answer", "this")
    run.action("c1")
    run.tool("c1", "ask", attempt=2)
    again = msgspec.structs.replace(QUESTION, number=1)
    run.asks("c1", "ask", again, attempt=2)
    run.put(ActionEndEvent(*run.head(), ()))
    run.pending("c2", c1=again)
    run.end(Outcome.SUSPENDED)
    run.start(resumed=True)
    run.decided("c2")
    run.decided("c1", "answer", "that")
    run.action()
    run.tool("c1", "ask", attempt=3)
    run.tool("c2", "write")
    run.tooled("c2", "write")
    run.tooled("c1", "ask", attempt=3)
    run.acted()
    run.answer("Done.")
    return tape.events


def inside() -> list[AgentEvent]:
    """An agent that is a tool has to wait: its task is told by its own run, and the call opens again with it."""
    tape = Tape()
    run = tape.run()
    run.start()
    run.reason()
    run.call("c1", "helper", "{}", args={})
    run.reasoned(FinishReason.TOOL_CALLS)
    run.action()
    run.tool("c1", "helper")
    child = tape.run("child", run)
    child.start(cause="c1")
    child.reason()
    child.call("c1", "write", "{}", args={})
    child.reasoned(FinishReason.TOOL_CALLS)
    child.pending("c1")
    child.end(Outcome.SUSPENDED)
    run.holds("c1", "helper", *child.waiting.values())
    run.put(ActionEndEvent(*run.head(), ()))
    run.end(Outcome.SUSPENDED)
    run.start(resumed=True)
    run.action()
    run.tool("c1", "helper", attempt=2)
    child.start(resumed=True, cause="c1")
    child.decided("c1")
    child.action()
    child.tool("c1", "write")
    child.tooled("c1", "write")
    child.acted()
    child.answer("Written.")
    run.tooled("c1", "helper", attempt=2)
    run.acted()
    run.answer("Done.")
    return tape.events


def team() -> list[AgentEvent]:
    """Two members side by side, one of which calls an agent as a tool; the first is resumed after a suspension."""
    tape = Tape()
    root = tape.run(kind=AgentKind.TEAM)
    left, right = tape.run("left", root), tape.run("right", root)
    root.start()
    root.node("n1", "left")
    root.node("n2", "right")
    left.start()
    right.start()
    left.reason()
    right.reason()
    left.block("TEXT", "L")
    right.call("c1", "helper", "{}", args={})
    right.reasoned(FinishReason.TOOL_CALLS)
    left.reasoned()
    right.action()
    right.tool("c1", "helper")
    helper = tape.run("helper", right, AgentKind.SIMPLE)
    helper.start(cause="c1")
    left.end(Outcome.SUSPENDED, text="L")
    root.noded("n1", "left", Outcome.SUSPENDED)
    helper.answer("H")
    right.tooled("c1", "helper", text="H")
    right.acted()
    right.answer("R")
    root.noded("n2", "right")
    root.end(Outcome.SUSPENDED, usage=Usage(input_tokens=40, output_tokens=20, total_tokens=60), rounds=4)
    root.start(resumed=True)
    root.node("n1", "left", attempt=2)
    left.start(resumed=True)
    left.answer("L2")
    root.noded("n1", "left", attempt=2)
    root.end(text="L2R", usage=Usage(input_tokens=50, output_tokens=25, total_tokens=75), rounds=5)
    return tape.events


def limit() -> list[AgentEvent]:
    tape = Tape()
    run = tape.run()
    run.start()
    run.reason()
    run.call("c1", "weather", "{}", args={})
    run.reasoned(FinishReason.TOOL_CALLS)
    run.action()
    run.tool("c1", "weather")
    run.tooled("c1", "weather", ToolStatus.TIMEOUT)
    run.acted()
    run.reason()
    run.block("TEXT", "So far.")
    run.reasoned()
    run.end(Outcome.LIMIT, text="So far.", usage=USAGE + USAGE)
    return tape.events


LEGAL: list[Callable[[], list[AgentEvent]]] = [
    simple,
    refusal,
    react,
    eager_changed,
    discarded,
    direct,
    cancelled,
    failed,
    suspended,
    asked,
    inside,
    team,
    limit,
]
