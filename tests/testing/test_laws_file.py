"""Recorded streams are read from JSON lines and from server-sent events."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.errors import UsageError
from headwater.events import AgentEvent, encode_event
from headwater.testing.laws import Violation, verify_file
from headwater.wire.sse import encode_frame
from tests.testing import streams


def as_json_lines(events: list[AgentEvent]) -> bytes:
    return b"".join(encode_event(event) + b"\n" for event in events)


def as_sse(events: list[AgentEvent]) -> bytes:
    frames = [encode_frame(event.type, encode_event(event), str(event.seq)) for event in events]
    return b": hello\n\n" + b": still here\n\n".join(frames) + b"data: [DONE]\n\n"


def as_bare_data(events: list[AgentEvent]) -> bytes:
    return b"\r\n".join(b"data: " + encode_event(event) for event in events)


FORMATS = [as_json_lines, as_sse, as_bare_data]


@pytest.mark.parametrize("write", FORMATS)
@pytest.mark.parametrize("stream", streams.LEGAL, ids=lambda stream: stream.__name__)
def test_a_recorded_legal_stream_passes(
    tmp_path: Path, write: Callable[[list[AgentEvent]], bytes], stream: Callable[[], list[AgentEvent]]
) -> None:
    path = tmp_path / "run"
    path.write_bytes(write(stream()))
    assert verify_file(path) == []


@pytest.mark.parametrize("write", FORMATS)
def test_a_recorded_breach_is_found(tmp_path: Path, write: Callable[[list[AgentEvent]], bytes]) -> None:
    events = streams.react()
    path = tmp_path / "run"
    path.write_bytes(write([*events[:5], *events[6:]]))
    assert {violation.law for violation in verify_file(path)} == {"L2", "L3"}


def test_a_file_that_breaks_off_has_no_run_end_and_its_torn_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_bytes(as_json_lines(streams.react())[:-40])
    found = verify_file(path)
    assert [violation.law for violation in found] == ["L7", "L1"]
    assert "is no event" in found[0].message
    assert found[1].message == "run root has no run.end"


def test_what_is_no_event_is_named_and_the_rest_still_judged(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_bytes(b"Hello\n" + as_json_lines(streams.simple()) + b'{"type": "plan"}\n\xff\xfe\n')
    found = verify_file(path)
    assert [violation.law for violation in found] == ["L7", "L7", "L7"]
    assert "Hello" in found[0].message


def test_an_empty_file_is_no_stream(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_bytes(b"")
    assert verify_file(path) == [Violation("L1", 0, "there are no events")]


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        verify_file(tmp_path / "nowhere")
