"""Legal streams pass; every law catches what breaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from headwater.core.record import RunRecord, rebuild
from headwater.errors import ErrorInfo
from headwater.events import (
    ActionEndEvent,
    ActionStartEvent,
    AgentEvent,
    ChatEventType,
    ContextSizeEvent,
    CustomEvent,
    HITLDecidedEvent,
    HITLPendingEvent,
    NodeEndEvent,
    Outcome,
    ReasonDeltaEvent,
    ReasonDiscardEvent,
    ReasonEndEvent,
    ReasonStartEvent,
    RoundMode,
    RoundModeEvent,
    RunEndEvent,
    RunStartEvent,
    ToolArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolProgressEvent,
    ToolStatus,
)
from headwater.messages import AssistantMessage, Message, TextPart, ThinkingPart, ToolMessage, Usage, UserMessage
from headwater.testing import law_record
from headwater.testing.laws import LawViolation, Violation, check_events, find_violations
from tests.testing import streams
from tests.testing.tape import Tape, renumber

Stream = Callable[[], list[AgentEvent]]


def laws(events: list[AgentEvent]) -> set[str]:
    return {violation.law for violation in find_violations(events)}


def position(events: list[AgentEvent], kind: type[AgentEvent], nth: int = 0) -> int:
    return [n for n, event in enumerate(events) if type(event) is kind][nth]


def changed(events: list[AgentEvent], kind: type[AgentEvent], nth: int = 0, **fields: Any) -> list[AgentEvent]:
    n = position(events, kind, nth)
    return [*events[:n], msgspec.structs.replace(events[n], **fields), *events[n + 1 :]]


def without(events: list[AgentEvent], kind: type[AgentEvent], nth: int = 0) -> list[AgentEvent]:
    n = position(events, kind, nth)
    return renumber([*events[:n], *events[n + 1 :]])


def moved(events: list[AgentEvent], start: int, to: int) -> list[AgentEvent]:
    rest = [*events[:start], *events[start + 1 :]]
    return renumber([*rest[:to], events[start], *rest[to:]])


@pytest.mark.parametrize("stream", streams.LEGAL, ids=lambda stream: stream.__name__)
def test_a_legal_stream_passes(stream: Stream) -> None:
    assert find_violations(stream()) == []
    check_events(stream())


def bound(events: list[AgentEvent]) -> list[int]:
    """Positions of events that laws bind: the others may be absent, or what they say is void."""
    free = (ContextSizeEvent, ToolProgressEvent, CustomEvent, HITLDecidedEvent, HITLPendingEvent)
    discards = [n for n, event in enumerate(events) if isinstance(event, ReasonDiscardEvent)]
    void = range(discards[-1] if discards else 0)
    return [
        n
        for n, event in enumerate(events)
        if not isinstance(event, free)
        and not (n in void and getattr(event, "text", getattr(event, "args", "")) and event.type.startswith("reason."))
    ]


@pytest.mark.parametrize("stream", streams.LEGAL, ids=lambda stream: stream.__name__)
def test_no_event_that_matters_can_be_dropped_unnoticed(stream: Stream) -> None:
    events = stream()
    for n in bound(events):
        assert find_violations(renumber([*events[:n], *events[n + 1 :]])), f"{events[n].type} {n + 1} dropped"


@pytest.mark.parametrize("stream", streams.LEGAL, ids=lambda stream: stream.__name__)
def test_no_event_that_matters_can_come_twice_unnoticed(stream: Stream) -> None:
    events = stream()
    for n in bound(events):
        assert find_violations(renumber([*events[: n + 1], *events[n:]])), f"{events[n].type} {n + 1} doubled"


@pytest.mark.parametrize("stream", streams.LEGAL, ids=lambda stream: stream.__name__)
def test_a_stream_that_breaks_off_anywhere_has_no_run_end(stream: Stream) -> None:
    events = stream()
    ends = {n for n, event in enumerate(events) if isinstance(event, RunEndEvent) and event.run_id == "root"}
    for n in range(1, len(events)):
        found = find_violations(events[:n])
        if n - 1 in ends:
            assert found == []
        else:
            assert Violation("L1", n, "run root has no run.end") in found
            assert {violation.law for violation in found} == {"L1"}


def test_check_events_raises_an_assertion_that_lists_every_breach() -> None:
    events = streams.react()[:-1]
    events[0] = msgspec.structs.replace(events[0], seq=7)
    with pytest.raises(LawViolation) as caught:
        check_events(events)
    assert isinstance(caught.value, AssertionError)
    assert [v.law for v in caught.value.violations] == ["L2", "L2", "L1"]
    assert "3 breaches of the laws\nL2 at 7: run.start begins at 7; 1 comes next" in str(caught.value)


def test_no_events_are_no_stream() -> None:
    assert laws([]) == {"L1"}


def test_several_root_runs_in_one_stream_are_judged_apart() -> None:
    def other(event: AgentEvent) -> AgentEvent:
        origin = msgspec.structs.replace(event.origin, run_id="other", root_run_id="other")
        if isinstance(event, RunEndEvent):
            response = msgspec.structs.replace(event.response, run_id="other")
            return msgspec.structs.replace(event, origin=origin, response=response)
        return msgspec.structs.replace(event, origin=origin)

    one, two = streams.simple(), [other(event) for event in streams.react()]
    mixed = [event for pair in zip(one, two, strict=False) for event in pair] + two[len(one) :]
    assert find_violations(mixed) == []
    assert [v.message for v in find_violations(mixed[:-1])] == ["run other has no run.end"]


def test_a_law_of_ones_own_is_given_each_root_run() -> None:
    def brief(events: list[AgentEvent] | Any) -> list[Violation]:
        return [Violation("brief", events[-1].seq, "too long")] if len(events) > 3 else []

    assert [v.law for v in find_violations(streams.simple(), also=[brief])] == ["brief"]
    assert [v.law for v in find_violations(streams.failed()[:2], also=[brief])] == ["L1"]


# -- L1 -------------------------------------------------------------------------------------------------------------


def test_l1_a_resumed_segment_says_so_and_a_first_one_does_not() -> None:
    assert laws(changed(streams.suspended(), RunStartEvent, 1, resumed=False)) == {"L1"}
    assert laws(changed(streams.react(), RunStartEvent, 0, resumed=True)) == {"L1"}


def test_l1_a_member_left_open_by_its_segment_is_seen() -> None:
    tape = Tape()
    root = tape.run()
    root.start()
    root.node("n", "child")
    child = tape.run("child", root)
    child.start()
    root.noded("n", "child")
    root.end()
    assert {"L1", "L6"} == laws(tape.events)


def test_l1_a_member_outside_a_segment_is_seen() -> None:
    tape = Tape()
    root = tape.run()
    tape.run("child", root).start()
    root.start()
    root.end()
    assert laws(tape.events) == {"L1"}


# -- L2 -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seq", [0, 4, 6, 100])
def test_l2_a_number_that_does_not_follow_is_seen(seq: int) -> None:
    assert laws(changed(streams.react(), ReasonDeltaEvent, 1, seq=seq)) == {"L2"}


def test_l2_merged_deltas_cover_their_range() -> None:
    events = streams.simple()
    at = position(events, ReasonDeltaEvent, 5)
    one, two = events[at : at + 2]
    assert isinstance(one, ReasonDeltaEvent)
    assert isinstance(two, ReasonDeltaEvent)
    merged = msgspec.structs.replace(two, text=one.text + two.text, first_seq=one.seq)
    assert find_violations([*events[:at], merged, *events[at + 2 :]]) == []
    narrow = msgspec.structs.replace(merged, first_seq=two.seq)
    assert laws([*events[:at], narrow, *events[at + 2 :]]) == {"L2"}
    assert laws([*events[:at], one, merged, *events[at + 2 :]]) >= {"L2"}


# -- L3 -------------------------------------------------------------------------------------------------------------


def test_l3_nothing_follows_the_end_and_nothing_precedes_the_start() -> None:
    events = streams.react()
    assert laws(renumber([*events, events[1]])) == {"L3"}
    assert laws(renumber([events[1], *events])) == {"L3"}
    team = streams.team()
    end = next(n for n, e in enumerate(team) if isinstance(e, RunEndEvent) and e.run_id == "helper")
    stray = CustomEvent(1, 1, 0.0, team[end].origin, 1, "late")
    assert laws(renumber([*team[: end + 1], stray, *team[end + 1 :]])) == {"L3"}


def test_l3_a_tool_runs_inside_its_action_unless_it_is_eager() -> None:
    events = streams.react()
    assert "L3" in laws(changed(events, ToolCallStartEvent, 0, eager=False))
    assert "L3" in laws(changed(events, ToolCallStartEvent, 1, eager=True))
    eager_end = position(events, ToolCallEndEvent, 1)
    action_end = position(events, ActionEndEvent)
    assert "L3" in laws(moved(events, eager_end, action_end))


def test_l3_an_eager_call_ends_before_the_discard() -> None:
    events = streams.discarded()
    assert "L3" in laws(moved(events, position(events, ToolCallEndEvent), position(events, ReasonDiscardEvent)))


def test_l3_an_eager_call_is_one_that_the_model_has_written() -> None:
    events = streams.react()
    assert "L3" in laws(moved(events, position(events, ToolCallStartEvent), position(events, ToolArgsDeltaEvent)))


def test_l3_attempts_of_a_call_count_up_and_do_not_overlap() -> None:
    assert laws(changed(streams.eager_changed(), ToolCallStartEvent, 1, attempt=1)) >= {"L3"}
    assert laws(changed(streams.eager_changed(), ToolCallStartEvent, 1, attempt=3)) >= {"L3"}
    events = streams.eager_changed()
    assert "L3" in laws(moved(events, position(events, ToolCallEndEvent), position(events, ToolCallStartEvent, 1)))


def test_l3_start_and_end_are_of_one_round_and_one_run() -> None:
    assert laws(changed(streams.react(), ToolCallEndEvent, 0, round=2)) == {"L3"}
    assert laws(changed(streams.react(), ReasonEndEvent, 0, round=2)) >= {"L3"}
    assert laws(changed(streams.react(), ActionEndEvent, 0, round=2)) >= {"L3"}
    events = streams.team()
    right = next(e.origin for e in events if e.run_id == "right")
    at = next(n for n, e in enumerate(events) if isinstance(e, ReasonEndEvent) and e.run_id == "left")
    assert "L3" in laws([*events[:at], msgspec.structs.replace(events[at], origin=right), *events[at + 1 :]])


def test_l3_rounds_and_attempts_of_turns_count_up() -> None:
    assert laws(changed(streams.discarded(), ReasonStartEvent, 1, attempt=1)) == {"L3"}
    tape = Tape()
    run = tape.run()
    run.start()
    run.round = 1
    run.answer("x")
    assert laws(tape.events) == {"L3"}


def test_l3_actions_and_turns_do_not_overlap() -> None:
    events = streams.react()
    assert "L3" in laws(moved(events, position(events, ReasonEndEvent), position(events, ActionStartEvent)))
    assert "L3" in laws(moved(events, position(events, ActionEndEvent), position(events, ReasonStartEvent, 1)))


def test_l3_blocks_are_contiguous_and_closed() -> None:
    events = streams.simple()
    starts = [n for n, e in enumerate(events) if isinstance(e, ReasonDeltaEvent) and e.chat_type.endswith("START")]
    assert laws(moved(events, starts[1], starts[0] + 1)) >= {"L3"}
    ends = [n for n, e in enumerate(events) if isinstance(e, ReasonDeltaEvent) and e.chat_type.endswith("END")]
    assert laws(moved(events, ends[-1], position(events, ReasonEndEvent))) >= {"L3"}
    assert laws(changed(events, ReasonDeltaEvent, 1, block_id="b9")) >= {"L3"}
    assert laws(changed(events, ReasonDeltaEvent, 1, chat_type=ChatEventType.TEXT_DELTA)) >= {"L3"}


def test_l3_a_block_id_is_used_once() -> None:
    tape = Tape()
    run = tape.run()
    run.start()
    run.reason()
    run.block("TEXT", "a")
    run.blocks = 0
    run.block("TEXT", "b")
    run.reasoned()
    run.end(text="ab")
    assert laws(tape.events) == {"L3"}


def test_l3_the_mode_comes_once_before_the_call_and_agrees_with_the_end() -> None:
    events = streams.react()
    assert laws(changed(events, ReasonEndEvent, 0, mode=RoundMode.FINAL_ANSWER)) >= {"L3"}
    assert laws(changed(events, RoundModeEvent, 0, mode=RoundMode.FINAL_ANSWER)) >= {"L3"}
    assert laws(moved(events, position(events, RoundModeEvent), position(events, ToolArgsDeltaEvent))) == {"L3"}
    at = position(events, RoundModeEvent)
    assert laws(renumber([*events[: at + 1], *events[at:]])) == {"L3"}


def test_l3_a_person_is_asked_when_nothing_is_under_way() -> None:
    events = streams.suspended()
    pending = next(n for n, e in enumerate(events) if e.type == "hitl.pending")
    assert laws(moved(events, pending, position(events, ActionEndEvent))) == {"L3"}


# -- L4 -------------------------------------------------------------------------------------------------------------


def test_l4_deltas_add_up_to_the_message() -> None:
    assert laws(changed(streams.simple(), ReasonDeltaEvent, 1, text="other")) == {"L4"}
    swapped = AssistantMessage(parts=(TextPart("It rains."), ThinkingPart("hm, well"), TextPart("See?")))
    assert "L4" in laws(changed(streams.simple(), ReasonEndEvent, 0, message=swapped))
    shorter = AssistantMessage(parts=(ThinkingPart("hm, well"), TextPart("It rains.See?")))
    assert "L4" in laws(changed(streams.simple(), ReasonEndEvent, 0, message=shorter))


def test_l4_a_part_without_text_needs_no_deltas() -> None:
    events = streams.simple()
    end = events[position(events, ReasonEndEvent)]
    assert isinstance(end, ReasonEndEvent)
    signed = AssistantMessage(parts=(*end.message.parts, ThinkingPart("", echo={"signature": "x"})))
    assert find_violations(changed(events, ReasonEndEvent, 0, message=signed)) == []


def test_l4_argument_fragments_add_up_to_the_arguments() -> None:
    assert laws(changed(streams.react(), ToolArgsDeltaEvent, 1, args="{")) == {"L4"}
    assert laws(changed(streams.react(), ToolArgsDeltaEvent, 2, tool_name="other")) == {"L4"}


def test_l3_a_call_begins_once_and_without_arguments() -> None:
    events = streams.react()
    assert laws(without(events, ToolArgsDeltaEvent)) == {"L3"}
    at = position(events, ToolArgsDeltaEvent)
    assert laws(renumber([*events[: at + 1], *events[at:]])) == {"L3"}


def test_l4_media_is_kept() -> None:
    assert laws(changed(streams.simple(), ReasonDeltaEvent, 8, media=None)) == {"L4"}


def test_l4_what_was_streamed_of_a_call_is_in_the_message() -> None:
    tape = Tape()
    run = tape.run()
    run.start()
    run.reason()
    run.call("c1", "weather", "{}")
    run.parts.clear()
    run.mode = RoundMode.TOOL_CALL
    run.reasoned()
    run.end()
    assert laws(tape.events) == {"L3", "L4", "response"}


# -- L5 -------------------------------------------------------------------------------------------------------------


def test_l5_every_call_gets_a_start_and_an_end() -> None:
    events = streams.react()
    only = [e for e in events if getattr(e, "call_id", "") != "c2" or isinstance(e, ToolArgsDeltaEvent)]
    assert "L5" in laws(renumber(only))


def test_l5_a_call_may_wait_only_while_the_run_is_suspended() -> None:
    events = streams.suspended()
    first = events[: position(events, RunEndEvent) + 1]
    assert find_violations(first) == []
    end = first[-1]
    assert isinstance(end, RunEndEvent)
    response = msgspec.structs.replace(end.response, outcome=Outcome.REJECTED)
    assert laws(changed(first, RunEndEvent, 0, outcome=Outcome.REJECTED, response=response)) == {"L5"}


def test_l5_the_last_attempt_decides() -> None:
    events = streams.suspended()
    suspended_again = changed(events, ToolCallEndEvent, 2, status=ToolStatus.SUSPENDED)
    assert laws(suspended_again) == {"L5"}


def test_l5_results_are_in_call_order() -> None:
    assert laws(changed(streams.react(), ActionEndEvent, 0, calls=("c2", "c1"))) == {"L5"}
    assert laws(changed(streams.react(), ActionEndEvent, 0, calls=("c1",))) == {"L5"}
    events = streams.react()
    start = events[position(events, ActionStartEvent)]
    assert isinstance(start, ActionStartEvent)
    assert "L3" in laws(changed(events, ActionStartEvent, 0, calls=tuple(reversed(start.calls))))


# -- L6 -------------------------------------------------------------------------------------------------------------


def test_l6_a_member_begins_inside_what_caused_it() -> None:
    events = streams.team()
    helper = next(n for n, e in enumerate(events) if isinstance(e, RunStartEvent) and e.run_id == "helper")
    tool = position(events, ToolCallStartEvent)
    assert "L6" in laws(moved(events, helper, tool))
    other = [*events[:helper], msgspec.structs.replace(events[helper], cause_call_id="c9"), *events[helper + 1 :]]
    assert "L6" in laws(other)
    nowhere = [*events[:helper], msgspec.structs.replace(events[helper], cause_call_id=""), *events[helper + 1 :]]
    assert "L6" in laws(nowhere)


def test_l6_a_member_ends_inside_what_caused_it() -> None:
    events = streams.team()
    left_end = next(n for n, e in enumerate(events) if isinstance(e, RunEndEvent) and e.run_id == "left")
    node_end = position(events, NodeEndEvent)
    assert laws(moved(events, left_end, node_end)) == {"L6"}
    helper_end = next(n for n, e in enumerate(events) if isinstance(e, RunEndEvent) and e.run_id == "helper")
    tool_end = position(events, ToolCallEndEvent)
    assert laws(moved(events, helper_end, tool_end)) == {"L6"}


def test_l6_a_parent_is_open() -> None:
    events = streams.team()
    helper = next(n for n, e in enumerate(events) if isinstance(e, RunStartEvent) and e.run_id == "helper")
    origin = msgspec.structs.replace(events[helper].origin, parent_run_id="nobody")
    assert "L6" in laws([*events[:helper], msgspec.structs.replace(events[helper], origin=origin)])


# -- L8 -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [UserMessage, AssistantMessage, ToolMessage])
def test_l8_a_history_that_is_rebuilt_otherwise_is_seen(lost: type[Message], monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(events: Iterable[AgentEvent], run_id: str | None = None) -> RunRecord:
        record = rebuild(events, run_id)
        record.messages.remove(next(message for message in record.messages if type(message) is lost))
        return record

    monkeypatch.setattr(law_record, "rebuild", forgetful)
    assert laws(streams.react()) == {"L8"}


def test_l8_an_outcome_that_is_rebuilt_otherwise_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def hopeful(events: Iterable[AgentEvent], run_id: str | None = None) -> RunRecord:
        record = rebuild(events, run_id)
        record.outcome = Outcome.COMPLETED
        return record

    monkeypatch.setattr(law_record, "rebuild", hopeful)
    assert laws(streams.react()) == set()
    assert laws(streams.failed()) == {"L8"}


# -- L7, origin, response -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [object(), {1, 2}, b"bytes", (1, 2), float("nan"), {1: 2}])
def test_l7_live_objects_and_what_json_changes_are_seen(data: Any) -> None:
    assert laws(changed(streams.react(), CustomEvent, 0, data=data)) == {"L7"}


def test_l7_plain_json_passes() -> None:
    data: dict[str, Any] = {"a": [1, 2.5, None, True, "北京"], "b": {}}
    assert find_violations(changed(streams.react(), CustomEvent, 0, data=data)) == []


def test_an_event_of_a_run_has_the_runs_origin() -> None:
    events = streams.react()
    origin = msgspec.structs.replace(events[3].origin, agent="other")
    assert laws([*events[:3], msgspec.structs.replace(events[3], origin=origin), *events[4:]]) == {"origin"}


def ended(events: list[AgentEvent], **fields: Any) -> list[AgentEvent]:
    """The stream with fields of the last response replaced."""
    end = events[-1]
    assert isinstance(end, RunEndEvent)
    return [*events[:-1], msgspec.structs.replace(end, response=msgspec.structs.replace(end.response, **fields))]


@pytest.mark.parametrize(
    "fields",
    [
        {"text": "other"},
        {"usage": Usage(input_tokens=1)},
        {"outcome": Outcome.LIMIT},
        {"run_id": "other"},
        {"rounds": 1},
    ],
)
def test_the_response_says_what_happened(fields: dict[str, Any]) -> None:
    assert laws(ended(streams.react(), **fields)) == {"response"}


def test_the_run_ends_with_the_sum_of_its_turns() -> None:
    assert laws(changed(streams.react(), RunEndEvent, 0, usage=Usage())) == {"response"}
    assert laws(changed(streams.react(), ReasonEndEvent, 0, usage=None)) == {"response"}


def test_a_failure_says_why() -> None:
    assert laws(changed(streams.failed(), RunEndEvent, 0, error=None)) == {"response"}
    assert laws(changed(streams.failed(), RunEndEvent, 0, error=ErrorInfo(kind="x", message="x"))) == set()


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("text c1", True),
        ("text c1\n\ntext c2\n\ntext c3", True),
        ("text c2\n\ntext c1", False),
        ("", False),
        ("text", False),
    ],
)
def test_a_tool_that_ends_the_run_gives_the_answer(text: str, right: bool) -> None:
    assert laws(ended(streams.direct(), text=text)) == (set() if right else {"response"})
