"""The laws of the event stream hold for any course of a run, wherever it is cut."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.chat.events import ModelEvent, RefusalDelta, ThinkingDelta, ThinkingEcho
from headwater.core.policy import Limits, Retry
from headwater.core.record import rebuild
from headwater.core.signals import Cancel
from headwater.core.signals import Fail as FailRun
from headwater.errors import ErrorInfo
from headwater.events import FinishReason, Outcome, RunEndEvent, ToolStatus, decode_event, encode_event
from headwater.messages import AssistantMessage, ToolMessage
from headwater.testing.laws import check_events
from headwater.tools.outcome import ToolOutcome
from headwater.tools.tool import tool
from tests.core.simulate import Fail, Simulation, Turn, call, finish, text


@tool(effect="read")
def read(q: str) -> str:
    """Read."""
    return q


@tool
def write(q: str) -> str:
    """Write."""
    return q


@tool(serial=True)
def alone(q: str) -> str:
    """Alone."""
    return q


@tool(return_direct=True)
def direct(q: str) -> str:
    """Direct."""
    return q


TOOLS = [read, write, alone, direct]
OUTCOMES = {
    "read": ToolOutcome(status=ToolStatus.OK, text="read"),
    "write": ToolOutcome(status=ToolStatus.ERROR, text="it broke", error=ErrorInfo(kind="ValueError", message="x")),
}
BROKEN = ErrorInfo(kind="connection_error", message="broken", retryable=True)
REFUSED = ErrorInfo(kind="http_error", message="refused", status=400)
FRAGMENTS = [
    ['{"q":', '"a"}'],
    ['{"q":"a"}'],
    ['{"q":"a"', "}", " x"],
    ['{"q":'],
    [],
    ["{}"],
    ['{"q":"a"}', '{"q":"b"}'],
]

fragments = st.sampled_from(FRAGMENTS)
names = st.sampled_from(["read", "write", "alone", "direct", "nobody"])


@st.composite
def turns(draw: st.DrawFn) -> Turn:
    """One model turn: text, thinking and calls in any order, then a finish, an abrupt end or a failure."""
    steps: list[ModelEvent | Fail] = []
    slots = 0
    for kind in draw(st.lists(st.sampled_from(["text", "think", "refuse", "call", "echo"]), max_size=5)):
        match kind:
            case "text":
                steps.extend(text("a", "b"))
            case "think":
                steps.append(ThinkingDelta("hm"))
            case "refuse":
                steps.append(RefusalDelta("no"))
            case "echo":
                steps.append(ThinkingEcho({"signature": "s"}))
            case _:
                wire_id = draw(st.sampled_from(["", "same", f"id{slots}"]))
                steps.extend(call(slots, draw(names), *draw(fragments), id=wire_id))
                slots += 1
    end = draw(st.sampled_from(["finish", "finish", "finish", "length", "silent", "broken", "refused"]))
    match end:
        case "finish":
            steps.extend(finish())
        case "length":
            steps.extend(finish(FinishReason.LENGTH))
        case "broken":
            steps.append(Fail(BROKEN))
        case "refused":
            steps.append(Fail(REFUSED))
        case _:
            pass
    return steps


def check(sim: Simulation) -> None:
    """All laws, and what they are for: a history that may be sent, and a log that rebuilds it."""
    assert sim.machine.ended
    check_events(sim.events)
    end = sim.events[-1]
    assert isinstance(end, RunEndEvent)
    open_calls: list[str] = []
    for message in sim.machine.record.messages:
        if isinstance(message, AssistantMessage):
            assert open_calls == []
            open_calls = [p.call_id for p in message.calls]
        elif isinstance(message, ToolMessage):
            assert open_calls
            assert message.call_id == open_calls.pop(0)
    assert open_calls == []
    log = [decode_event(encode_event(e)) for e in sim.events if e.type not in ("reason.delta", "reason.call")]
    replayed = rebuild(log)
    assert replayed.messages == sim.machine.record.messages
    assert replayed.outcome is end.outcome


def simulate(data: st.DataObject, retry: Retry) -> tuple[Simulation, Callable[[int], int]]:
    script = data.draw(st.lists(turns(), min_size=1, max_size=4))
    limits = Limits(
        max_rounds=data.draw(st.sampled_from([1, 2, None])), on_limit=data.draw(st.sampled_from(["answer", "error"]))
    )
    sim = Simulation(script, TOOLS, outcomes=OUTCOMES, limits=limits, retry=retry, commits=data.draw(st.booleans()))
    sim.start()

    def choose(count: int) -> int:
        return data.draw(st.integers(0, count - 1)) if count > 1 else 0

    return sim, choose


retries = st.builds(Retry, retries=st.integers(0, 2), after_output=st.sampled_from(["fail", "discard"]))


@settings(max_examples=300, deadline=None)
@given(st.data(), retries)
def test_any_script_in_any_order_obeys_the_laws(data: st.DataObject, retry: Retry) -> None:
    sim, choose = simulate(data, retry)
    sim.run(choose)
    check(sim)


@settings(max_examples=300, deadline=None)
@given(st.data(), retries, st.integers(0, 40), st.booleans())
def test_a_cancel_or_a_failure_at_any_position_obeys_the_laws(
    data: st.DataObject, retry: Retry, position: int, cancelled: bool
) -> None:
    sim, choose = simulate(data, retry)
    for _ in range(position):
        if not sim.step(choose):
            break
    was_over = sim.machine.ended
    sim.send(Cancel("stop") if cancelled else FailRun(ErrorInfo(kind="store_error", message="disk full")))
    sim.run(choose)
    check(sim)
    end = sim.events[-1]
    assert isinstance(end, RunEndEvent)
    if not was_over and end.outcome not in (Outcome.CANCELLED, Outcome.FAILED):
        # The run was already being stored as what it came to when the cancel arrived.
        assert sim.committed
