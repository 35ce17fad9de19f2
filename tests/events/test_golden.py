"""The wire format is what `golden.jsonl` says: changing it is a decision, not an accident.

To record a decision: `python -m tests.events.test_golden`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headwater.events import EVENT_CLASSES, AgentEvent, UnknownEvent, decode_event, encode_event, event_to_dict
from tests.events.samples import full, sparse

GOLDEN = Path(__file__).parent / "golden.jsonl"
SAMPLES = [*full(), *sparse()]


def golden() -> list[bytes]:
    return GOLDEN.read_bytes().splitlines() if GOLDEN.exists() else []


def as_json(event: AgentEvent) -> dict[str, Any]:
    """`event_to_dict`, with its tuples as the lists they are in JSON."""
    return json.loads(json.dumps(event_to_dict(event)))


def name(event: AgentEvent) -> str:
    return f"{event.seq} {event.type}"


def test_there_is_a_sample_of_every_class_with_every_field() -> None:
    seen: dict[str, set[str]] = {}
    for event in full():
        for field in msgspec.structs.fields(type(event)):
            default = field.default
            if field.name != "extra" and getattr(event, field.name) != default:
                seen.setdefault(event.type, set()).add(field.name)
    for type_name, cls in EVENT_CLASSES.items():
        assert seen[type_name] == {field.name for field in msgspec.structs.fields(cls)} - {"extra"}, type_name


@pytest.mark.parametrize(("event", "line"), list(zip(SAMPLES, golden(), strict=True)), ids=map(name, SAMPLES))
def test_an_event_is_written_as_ever(event: AgentEvent, line: bytes) -> None:
    assert encode_event(event) == line
    assert json.loads(line) == as_json(event)
    assert b"\n" not in line
    assert json.loads(line)["type"] == event.type


@pytest.mark.parametrize("line", golden(), ids=map(name, SAMPLES))
def test_what_was_written_is_read_back_and_nothing_is_lost(line: bytes) -> None:
    event = decode_event(line)
    assert event in SAMPLES
    assert encode_event(event) == line
    assert decode_event(line.decode()) == decode_event(json.loads(line)) == event


def test_fields_that_this_version_does_not_know_are_kept() -> None:
    for event in SAMPLES:
        later = {**as_json(event), "v": 2, "colour": "blue", "nested": {"a": [1]}}
        read = decode_event(later)
        assert type(read) is type(event)
        assert read.extra is not None
        assert read.extra["colour"] == "blue"
        assert json.loads(encode_event(read)) == as_json(read) == later


def test_types_that_this_version_does_not_know_are_kept() -> None:
    later: dict[str, Any] = {**as_json(full()[0]), "type": "run.paused", "why": "lunch", "extra": {"deep": 1}}
    read = decode_event(later)
    assert isinstance(read, UnknownEvent)
    assert (read.type, read.run_id, read.seq) == ("run.paused", "run_2", 1)
    assert json.loads(encode_event(read)) == later


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "7",
        "[]",
        "{}",
        '{"type": 7}',
        '{"type": "plan"}',
        '{"type": "?", "v": 1}',
        '{"type": "plan", "v": 1, "seq": "x"}',
        "{",
    ],
)
def test_what_is_no_event_is_refused(bad: str) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode_event(bad)


def test_events_cannot_be_changed() -> None:
    for event in SAMPLES:
        with pytest.raises(AttributeError):
            event.seq = 9  # pyright: ignore[reportAttributeAccessIssue] - that it cannot be set is what is tested


if __name__ == "__main__":
    GOLDEN.write_bytes(b"".join(encode_event(event) + b"\n" for event in SAMPLES))
