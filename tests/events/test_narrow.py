"""The specialised names are the general classes, narrowed by the kind of agent."""

from __future__ import annotations

import msgspec
import pytest

from headwater.events import (
    AgentEvent,
    AgentKind,
    Outcome,
    ReasonDeltaEvent,
    RunEndEvent,
    RunStartEvent,
    SimpleDeltaEvent,
    SimpleEndEvent,
    SimpleStartEvent,
    SupervisorDeltaEvent,
    TeamEndEvent,
    TeamStartEvent,
    decode_event,
    encode_event,
)
from tests.events.samples import full

NARROWED: list[tuple[type[AgentEvent], type[AgentEvent], AgentKind]] = [
    (SimpleStartEvent, RunStartEvent, AgentKind.SIMPLE),
    (TeamStartEvent, RunStartEvent, AgentKind.TEAM),
    (SimpleDeltaEvent, ReasonDeltaEvent, AgentKind.SIMPLE),
    (SupervisorDeltaEvent, ReasonDeltaEvent, AgentKind.TEAM),
    (SimpleEndEvent, RunEndEvent, AgentKind.SIMPLE),
    (TeamEndEvent, RunEndEvent, AgentKind.TEAM),
]


@pytest.mark.parametrize(("narrow", "general", "kind"), NARROWED)
def test_isinstance_looks_at_class_and_kind(
    narrow: type[AgentEvent], general: type[AgentEvent], kind: AgentKind
) -> None:
    for event in full():
        for one in AgentKind:
            moved = msgspec.structs.replace(event, origin=msgspec.structs.replace(event.origin, agent_kind=one))
            for seen in (moved, decode_event(encode_event(moved))):
                assert isinstance(seen, narrow) == (type(seen) is general and one is kind)


def test_match_takes_the_narrowed_names() -> None:
    starts = [event for event in full() if isinstance(event, RunStartEvent)]
    match starts[0]:
        case TeamStartEvent():
            pytest.fail("a simple agent is no team")
        case SimpleStartEvent():
            pass
        case _:
            pytest.fail("a simple agent's start is a SimpleStartEvent")


def test_a_delta_is_a_view_of_a_block_and_knows_its_text() -> None:
    deltas = [event for event in full() if isinstance(event, ReasonDeltaEvent)]
    assert [delta.has_text for delta in deltas] == [delta.chat_type.endswith("DELTA") for delta in deltas]
    assert [delta.is_thinking for delta in deltas] == [delta.chat_type.startswith("THINKING") for delta in deltas]
    for delta in deltas:
        assert delta.chat_event.type is delta.chat_type
        assert (delta.chat_event.block_id, delta.chat_event.text, delta.chat_event.media) == (
            delta.block_id,
            delta.text,
            delta.media,
        )


def test_only_completed_is_normal() -> None:
    (end,) = [event for event in full() if isinstance(event, RunEndEvent)]
    assert end.is_abnormal
    for outcome in Outcome:
        assert msgspec.structs.replace(end, outcome=outcome).is_abnormal == (outcome.value != "completed")
