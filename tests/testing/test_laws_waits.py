"""What the laws say of attempts that end `suspended`."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headwater.events import (
    AgentEvent,
    HITLDecidedEvent,
    HITLPendingEvent,
    Outcome,
    RunEndEvent,
    ToolCallEndEvent,
    ToolStatus,
)
from headwater.testing import law_record
from headwater.testing.laws import find_violations
from tests.testing import streams
from tests.testing.tape import Tape, renumber


def told(events: list[AgentEvent]) -> list[str]:
    return [str(violation) for violation in find_violations(renumber(events))]


def changed(events: list[AgentEvent], kind: type[AgentEvent], nth: int, **fields: Any) -> list[AgentEvent]:
    at = [n for n, event in enumerate(events) if type(event) is kind][nth]
    return [*events[:at], msgspec.structs.replace(events[at], **fields), *events[at + 1 :]]


def test_a_question_is_put_and_only_a_question() -> None:
    events = streams.asked()
    tasks = next(e for e in events if isinstance(e, HITLPendingEvent)).tasks
    (said,) = told(changed(events, HITLPendingEvent, 0, tasks=tasks[:1]))[:1]
    assert "does not put the question of call c1" in said
    (said,) = told(
        changed(events, HITLPendingEvent, 0, tasks=(*tasks, msgspec.structs.replace(tasks[1], call_id="c9")))
    )
    assert "call c9, which has asked none" in said


def test_a_call_runs_again_only_when_its_question_is_answered() -> None:
    events = streams.asked()
    at = next(n for n, e in enumerate(events) if isinstance(e, HITLDecidedEvent))
    assert any("before its question was answered" in one for one in told([*events[:at], *events[at + 1 :]]))
    assert any("approves call c1" in one for one in told(changed(events, HITLDecidedEvent, 0, decision="approve")))
    assert any("has asked nothing" in one for one in told(changed(events, HITLDecidedEvent, 0, call_id="c2")))


def test_only_a_suspended_attempt_asks() -> None:
    assert any(
        "waits for a person all the same" in one
        for one in told(changed(streams.asked(), ToolCallEndEvent, 0, status=ToolStatus.OK))
    )


@pytest.mark.parametrize("executed", [True, False])
def test_a_suspended_call_opens_again_in_its_segment_only_to_be_closed(executed: bool) -> None:
    tape = Tape()
    run = tape.run()
    run.start()
    run.reason()
    run.call("c1", "helper", "{}", args={})
    run.reasoned()
    run.action()
    run.tool("c1", "helper")
    run.holds("c1", "helper")
    run.tool("c1", "helper", attempt=2)
    run.tooled("c1", "helper", ToolStatus.OK if executed else ToolStatus.SKIPPED, attempt=2)
    run.acted()
    run.answer("Done.")
    assert bool(told(tape.events)) is executed


def test_others_inside_are_nobodys_business_here() -> None:
    tape = Tape()
    run = tape.run()
    run.start()
    run.reason()
    run.call("c1", "helper", "{}", args={})
    run.reasoned()
    run.action()
    run.tool("c1", "helper")
    run.holds("c1", "helper")
    run.put(streams.ActionEndEvent(*run.head(), ()))
    run.pending("c1")
    run.end(Outcome.SUSPENDED)
    assert any("inside which others wait" in one for one in told(tape.events))


def test_l8_what_waits_is_rebuilt() -> None:
    events = streams.inside()
    events = events[: [n for n, e in enumerate(events) if isinstance(e, RunEndEvent)][1] + 1]
    assert isinstance(events[-1], RunEndEvent)
    assert law_record.check_record(events) == []
    other = msgspec.structs.replace(events[-1].response, pending=())
    said = law_record.check_record(changed(events, RunEndEvent, 1, response=other))
    assert [str(one) for one in said] == [f"L8 at {len(events)}: run root: rebuilt without deltas, other tasks wait"]
