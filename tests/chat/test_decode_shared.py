"""The handed streams, cut in every way: the same events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.chat.completions import CompletionsDecoder
from headwater.chat.events import (
    CallArguments,
    CallName,
    CallOpen,
    ModelEvent,
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
)
from headwater.chat.profile import Profile

Seen = tuple[list[Any], tuple[str, str, object] | None]


def read(blocks: Iterable[bytes], profile: Profile, tools: frozenset[str]) -> Seen:
    """Events with neighbours of one kind merged, and the error."""
    decoder = CompletionsDecoder(profile, tools)
    events: list[ModelEvent] = []
    for block in blocks:
        events += decoder.feed(block)
    events += decoder.close()
    assert decoder.done
    merged: list[Any] = []
    for event in events:
        key = (type(event), getattr(event, "slot", None))
        if isinstance(event, (TextDelta, ThinkingDelta, RefusalDelta, CallArguments)):
            if merged and merged[-1][0] == key:
                merged[-1] = (key, merged[-1][1] + event.text)
            else:
                merged.append((key, event.text))
        else:
            merged.append((key, event))
    error = decoder.error
    return merged, (error.kind, error.message, error.code) if error is not None else None


def cut(body: bytes, at: Sequence[int]) -> list[bytes]:
    return [body[a:b] for a, b in pairwise([0, *sorted(set(at) - {0, len(body)}), len(body)])]


class Stream(msgspec.Struct):
    name: str
    body: bytes
    profile: Profile
    tools: frozenset[str]
    offsets: list[int]


@cache
def streams(shared: Path) -> list[Stream]:
    """Every chat-completions stream at hand: cases, recordings, the embedded model's."""
    found: list[Stream] = []
    for case_file in sorted((shared / "cases").glob("*/case.json")):
        case = json.loads(case_file.read_bytes())
        if case["level"] != "sse" or case.get("protocol"):
            continue
        profile = msgspec.convert(case["request"].get("profile") or {}, Profile)
        tools = frozenset(str(tool["name"]) for tool in case["request"]["tools"])
        chunks = case_file.with_name("chunks.json")
        chunks_at: list[int] = json.loads(chunks.read_bytes())["offsets"] if chunks.is_file() else []
        found += [
            Stream(case_file.parent.name, body.read_bytes(), profile, tools, chunks_at)
            for body in sorted(case_file.parent.glob("stream.*"))
        ]
    for folder in (shared / "transcripts", shared / "local-model" / "transcripts"):
        found += [
            Stream(str(path), path.read_bytes(), Profile(), frozenset(), []) for path in sorted(folder.rglob("*.sse"))
        ]
    assert found
    return found


def test_whole_by_chunks_by_sevens_and_byte_by_byte_are_the_same(shared_dir: Path) -> None:
    for stream in streams(shared_dir):
        body = stream.body
        whole = read([body], stream.profile, stream.tools)
        for at in (stream.offsets, range(0, len(body), 7), range(min(len(body), 20_000))):
            assert read(cut(body, list(at)), stream.profile, stream.tools) == whole, stream.name


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_cut_of_any_stream_is_the_same(shared_dir: Path, data: st.DataObject) -> None:
    stream = data.draw(st.sampled_from(streams(shared_dir)))
    at = data.draw(st.lists(st.integers(0, len(stream.body)), max_size=30))
    whole = read([stream.body], stream.profile, stream.tools)
    assert read(cut(stream.body, at), stream.profile, stream.tools) == whole


@given(data=st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_stream_cut_off_anywhere_gives_the_beginning_and_an_end(shared_dir: Path, data: st.DataObject) -> None:
    stream = data.draw(st.sampled_from(streams(shared_dir)))
    size = data.draw(st.integers(0, len(stream.body)))
    events, error = read([stream.body[:size]], stream.profile, stream.tools)
    ended = bool(events) and type(events[-1][1]).__name__ == "Finish"
    assert ended != (error is not None)
    opened = [e for _, e in events if isinstance(e, CallOpen)]
    named = {e.slot for _, e in events if isinstance(e, CallName)}
    assert named == {e.slot for e in opened}
