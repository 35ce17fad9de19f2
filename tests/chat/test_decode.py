"""A chat-completions stream to model events."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from headwater.chat.completions import CompletionsDecoder
from headwater.chat.events import (
    CallArguments,
    CallEcho,
    CallName,
    CallOpen,
    Finish,
    MediaDone,
    ModelEvent,
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
    ThinkingEcho,
    UsageSeen,
)
from headwater.chat.profile import DEFAULT_PROFILE, Profile
from headwater.errors import ModelError
from headwater.events import FinishReason
from headwater.messages import MediaPart, Usage

DONE = b"data: [DONE]\n\n"


def frame(value: Any) -> bytes:
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


def delta(finish: str | None = None, /, **fields: Any) -> bytes:
    return frame({"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]})


def decode(
    *blocks: bytes, profile: Profile = DEFAULT_PROFILE, tools: frozenset[str] = frozenset(), content_type: str = ""
) -> tuple[list[ModelEvent], ModelError | None]:
    """Events and error of an answer; checks that single bytes come to the same once neighbours are merged."""
    results: list[tuple[list[ModelEvent], ModelError | None]] = []
    body = b"".join(blocks)
    for step in (len(body) or 1, 1):
        decoder = CompletionsDecoder(profile, tools, content_type=content_type)
        events: list[ModelEvent] = []
        for at in range(0, len(body), step):
            events += decoder.feed(body[at : at + step])
        events += decoder.close()
        assert decoder.done
        assert decoder.feed(b"data: {}\n\n") == decoder.close() == []
        results.append((events, decoder.error))
    (events, error), (again, error_again) = results
    assert events == again
    assert str(error) == str(error_again)
    return events, error


def read(*blocks: bytes, profile: Profile = DEFAULT_PROFILE, tools: frozenset[str] = frozenset()) -> list[ModelEvent]:
    """Events of an answer that ends well, without its `Finish`."""
    events, error = decode(*blocks, DONE, profile=profile, tools=tools)
    assert error is None
    assert isinstance(events[-1], Finish)
    return events[:-1]


def failure(*blocks: bytes, content_type: str = "") -> ModelError:
    _, error = decode(*blocks, content_type=content_type)
    assert error is not None
    return error


# ---- text, thinking, refusals, media


def test_all_fields_of_a_delta_count() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "clock", "arguments": "{}"}}
    assert read(delta("tool_calls", reasoning="why", content="Look", refusal="no", tool_calls=[call])) == [
        ThinkingDelta("why"),
        TextDelta("Look"),
        RefusalDelta("no"),
        CallOpen(0),
        CallName(0, "a", "clock"),
        CallArguments(0, "{}"),
    ]


def test_one_thinking_field_counts_and_details_are_kept_as_whole_blocks() -> None:
    def detail(**fields: Any) -> list[dict[str, Any]]:
        return [{"type": "reasoning.text", "index": 0, **fields}]

    assert read(
        delta(reasoning_content="a", reasoning="a", reasoning_details=detail(text="a")),
        delta(reasoning="b", reasoning_details=detail(text="b")),
        delta(reasoning_details=detail(text="c")),
        delta(content="x", reasoning_details=detail(signature="S", text=None)),
        delta(reasoning_details=[{"type": "reasoning.encrypted", "index": 1, "data": "E"}]),
    ) == [
        ThinkingDelta("a"),
        ThinkingDelta("b"),
        ThinkingDelta("c"),
        TextDelta("x"),
        ThinkingEcho(
            {
                "reasoning_details": [
                    {"type": "reasoning.text", "index": 0, "text": "abc", "signature": "S"},
                    {"type": "reasoning.encrypted", "index": 1, "data": "E"},
                ]
            }
        ),
    ]


def test_blocks_of_one_list_without_an_index_stay_apart() -> None:
    details = [{"type": "reasoning.summary", "summary": "a"}, {"type": "reasoning.summary", "summary": "b"}]
    assert read(delta(reasoning_details=details)) == [ThinkingDelta("ab"), ThinkingEcho({"reasoning_details": details})]


def test_opaque_fields_of_thinking_and_calls_are_kept() -> None:
    signed = {"google": {"thought_signature": "T"}}
    call = {"index": 0, "id": "a", "function": {"name": "clock", "arguments": "{}"}, "extra_content": signed}
    events = read(delta(reasoning_opaque="O", reasoning_text="hm"), delta(tool_calls=[call]))
    assert events[:2] == [ThinkingDelta("hm"), ThinkingEcho({"reasoning_opaque": "O"})]
    assert events[-1] == CallEcho(0, {"extra_content": signed})


def test_content_may_be_a_list_of_parts() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    sound = {"type": "audio", "audio": {"url": "http://x/y.mp3"}}
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "closed": True, "signature": "S"}
    assert read(
        delta(content=[thinking, {"type": "text", "text": "a"}, "b", {"type": "reference", "reference_ids": [1]}]),
        delta(content=[picture, {"type": "refusal", "refusal": "no"}, None, 5]),
        delta(content="c", images=[sound]),
    ) == [
        ThinkingDelta("hm"),
        ThinkingEcho({"signature": "S"}),
        TextDelta("a"),
        TextDelta("b"),
        MediaDone(MediaPart("image/png", data="AAAA", raw=picture)),
        RefusalDelta("no"),
        TextDelta("c"),
        MediaDone(MediaPart("audio/*", url="http://x/y.mp3", raw=sound)),
    ]


def test_sound_in_fragments_is_one_medium() -> None:
    events = read(
        delta(audio={"id": "s", "transcript": "Hel"}), delta(audio={"data": "AAE="}), delta(audio={"data": "Ag=="})
    )
    assert events == [MediaDone(MediaPart("audio/*", data="AAEC", raw={"id": "s", "transcript": "Hel"}))]


def test_a_whole_message_is_read_where_no_delta_came_before() -> None:
    message: dict[str, Any] = {"role": "assistant", "content": "Hi", "tool_calls": []}
    assert read(frame({"choices": [{"message": message, "finish_reason": "stop"}]})) == [TextDelta("Hi")]
    both: dict[str, Any] = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "message": message}]}
    assert read(frame(both), frame({"choices": [{"index": 0, "delta": {}, "message": message}]})) == [TextDelta("Hi")]


def test_think_tags_are_split_and_a_call_ends_what_was_held_back() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "clock"}}
    assert read(delta(content="<think>a</think>"), delta(content="\n"), delta(content="b")) == [
        ThinkingDelta("a"),
        TextDelta("b"),
    ]
    assert read(delta(content="<thi"), delta(tool_calls=[call]))[:2] == [TextDelta("<thi"), CallOpen(0)]
    opened = Profile(think="open")
    assert read(delta(content="a</think>b"), profile=opened) == [ThinkingDelta("a"), TextDelta("b")]


def test_calls_written_as_text_are_read_by_profile_only() -> None:
    body = delta(content='Ok <tool_call>{"name":"clock","arguments":{}}</tool_call>')
    tools = frozenset({"clock"})
    assert read(body, profile=Profile(text_tool_calls=("hermes",)), tools=tools) == [
        TextDelta("Ok "),
        CallOpen(0),
        CallName(0, "", "clock"),
        CallArguments(0, "{}"),
    ]
    assert read(body, tools=tools) == [TextDelta('Ok <tool_call>{"name":"clock","arguments":{}}</tool_call>')]


def test_legacy_function_calls_are_calls() -> None:
    assert read(delta(function_call={"name": "clock", "arguments": ""}), delta(function_call={"arguments": "{}"})) == [
        CallOpen(0),
        CallName(0, "", "clock"),
        CallArguments(0, "{}"),
    ]


def test_only_choice_0_counts() -> None:
    choices = [{"index": n, "delta": {"content": str(n)}} for n in (1, 0, 2)]
    assert read(frame({"choices": choices})) == [TextDelta("0")]
    assert read(*[frame({"choices": [choice]}) for choice in choices]) == [TextDelta("0")]


def other(index: int, finish: str | None, **fields: Any) -> bytes:
    return frame({"choices": [{"index": index, "delta": fields, "finish_reason": finish}]})


@pytest.mark.parametrize("done", [DONE, b""])
def test_an_answer_that_is_never_called_choice_0_is_no_empty_success(done: bytes) -> None:
    events, error = decode(other(1, None, content="a"), other(1, "stop", content="b"), done)
    assert error is None
    assert events == [TextDelta("a"), TextDelta("b"), Finish(FinishReason.STOP, "stop")]
    events, error = decode(
        other(1, None, content="a"), other(2, None, content="x"), other(1, "stop", content="b"), done
    )
    assert events[:-1] == [TextDelta("a"), TextDelta("b")]
    counted = [other(197, None, content="a"), other(198, None, content="b"), other(199, "length")]
    events, error = decode(*counted, done)
    assert error is None
    assert events == [TextDelta("a"), TextDelta("b"), Finish(FinishReason.LENGTH, "length")]
    assert failure(other(1, None, content="a"), other(1, "error"), done).kind == "provider_error"


# ---- odd types


ODD: list[dict[str, Any]] = [
    {"choices": [{"index": "0", "delta": {"content": "x"}}]},
    {"choices": {"index": 0, "delta": {"content": "x"}}},
    {"choices": [None, {"delta": {"content": "x", "tool_calls": {}, "reasoning": 0.0}}]},
    {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": ""}], "usage": "", "error": None},
    {"choices": [{"index": 0, "delta": {"content": {"type": "text", "text": "x"}}, "error": {}}], "error": ""},
    {"choices": [{"index": 0, "delta": {"content": [{"type": "text", "text": {"value": "x"}}]}}]},
    {"choices": [{"index": 0, "text": "x"}]},
    {"choices": [{"index": 0, "text": "x", "delta": None, "usage": 4}]},
]


@pytest.mark.parametrize("chunk", ODD)
def test_odd_types_do_not_hide_what_is_there(chunk: dict[str, Any]) -> None:
    assert [e for e in read(frame(chunk)) if type(e) is not ThinkingDelta] == [TextDelta("x")]


def test_arguments_as_an_object_are_its_text_and_null_is_absent() -> None:
    function: dict[str, Any] = {"name": "clock", "arguments": None}
    assert read(
        delta(tool_calls=[{"index": 0.0, "id": 7, "function": function}]),
        delta(tool_calls=[{"index": "0", "function": {"arguments": {"a": ["é", 1]}}}]),
    ) == [CallOpen(0), CallName(0, "7", "clock"), CallArguments(0, '{"a":["é",1]}')]


def test_a_call_may_stand_without_its_function_and_a_name_with_white_space() -> None:
    entry = {"index": 0, "id": "a", "name": " clock\n", "arguments": "{}"}
    assert read(delta(tool_calls=[entry])) == [CallOpen(0), CallName(0, "a", "clock"), CallArguments(0, "{}")]


def test_two_calls_in_one_list_without_index_and_id_are_two() -> None:
    entry = {"function": {"name": "clock", "arguments": "{}"}}
    events = read(delta(tool_calls=[entry, entry]))
    assert [e for e in events if isinstance(e, CallOpen)] == [CallOpen(0), CallOpen(1)]


def test_an_answer_whose_thinking_has_a_field_does_not_begin_inside_thinking() -> None:
    profile = Profile(think="open")
    thinking, text = delta(reasoning_content="hm"), delta(content="High.")
    assert read(thinking, text, profile=profile) == [ThinkingDelta("hm"), TextDelta("High.")]
    assert read(delta(content="hm</think>"), text, profile=profile) == [ThinkingDelta("hm"), TextDelta("High.")]
    tagged = delta(content="<think>x</think>High.")
    assert read(thinking, tagged, profile=profile)[1:] == [ThinkingDelta("x"), TextDelta("High.")]


def test_heartbeats_with_a_name_are_skipped_whatever_they_hold() -> None:
    beats = b"event: ping\ndata: keep-alive\n\nevent: heartbeat\ndata: 12:00:03\n\nevent: ping\n\n"
    assert read(beats, delta(content="a"), beats) == [TextDelta("a")]


def test_invalid_utf8_and_raw_control_characters_do_not_end_the_answer() -> None:
    body = b'{"choices":[{"index":0,"delta":{"content":"a\xff\tb"}}]}'
    assert read(frame(body)) == [TextDelta("a\ufffd\tb")]


def test_halves_of_a_character_in_two_chunks_are_one_character() -> None:
    assert read(delta(content="a\ud83d"), delta(content="\ude00b")) == [TextDelta("a"), TextDelta("😀b")]


LONE = "\ud83d"
OPAQUE: list[dict[str, Any]] = [
    {
        "choices": [
            {"index": 0, "delta": {"reasoning_details": [{"type": "t", "data": LONE}], "extra_content": {"k": [LONE]}}}
        ]
    },
    {
        "choices": [
            {
                "index": 0,
                "delta": {"tool_calls": [{"id": LONE, "function": {"name": LONE}, "extra_content": {LONE: 1}}]},
            }
        ]
    },
    {"choices": [{"index": 0, "delta": {"images": [{"type": "image_url", "image_url": {"url": "x", "n": LONE}}]}}]},
    {"choices": [{"index": 0, "delta": {"content": [{"type": "thinking", "thinking": LONE, "sig": LONE}]}}]},
    {"choices": [], "usage": {"prompt_tokens": 1, LONE: {"a": LONE}}},
    {"error": {"message": [{"a": LONE}], "code": LONE}},
    {"error": {LONE: 1}},
    {"choices": [{"index": 0, "delta": {}, "error": {"message": LONE, "code": LONE}}]},
    {"code": LONE, "message": LONE},
]


@pytest.mark.parametrize("chunk", OPAQUE)
def test_a_lone_half_of_a_character_never_leaves_the_decoder(chunk: dict[str, Any]) -> None:
    events, error = decode(frame(chunk), DONE)
    for event in events:
        msgspec.json.encode(event)
    if error is not None:
        msgspec.json.encode(error.info())
    assert len(events) > 1 or error is not None


def test_events_without_a_blank_line_between_and_data_written_twice_are_read() -> None:
    one, two = delta(content="a").strip(), delta(content="b").strip()
    assert read(one + b"\n" + two + b"\n\n", b"data: " + delta(content="c")) == [TextDelta(t) for t in "abc"]
    assert decode(one + b"\n" + two + b"\ndata: [DONE]\n")[1] is None
    events, error = decode(one + b"\n" + two[:-9])
    assert events == [TextDelta("a")]
    assert error is not None
    assert error.kind == "stream_truncated"


# ---- usage and finish


def test_usage_is_read_under_its_names_and_told_when_it_changes() -> None:
    first = {"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 2}}
    second = {"input_tokens": 3, "output_tokens": 5, "total_tokens": 9, "reasoning_tokens": 4}
    assert read(
        frame({"choices": [], "usage": first}),
        frame({"choices": None, "usage": first}),
        frame({"choices": [{"index": 0, "delta": {}, "usage": second}]}),
        frame({"choices": [], "x_groq": {"usage": second}}),
        frame({"choices": [], "usage": {"prompt_tokens": None}}),
        frame({"choices": [], "usage": {}}),
    ) == [
        UsageSeen(Usage(3, 1, 4, cached_input_tokens=2, details=first)),
        UsageSeen(Usage(3, 5, 9, reasoning_tokens=4, details=second)),
    ]


def test_token_counts_may_be_text() -> None:
    (seen,) = read(frame({"choices": [], "usage": {"prompt_tokens": "3", "completion_tokens": "4"}}))
    assert isinstance(seen, UsageSeen)
    assert (seen.usage.input_tokens, seen.usage.output_tokens) == (3, 4)


@pytest.mark.parametrize(
    ("raws", "reason", "raw"),
    [
        ([], FinishReason.STOP, ""),
        (["stop"], FinishReason.STOP, "stop"),
        (["end_turn"], FinishReason.STOP, "end_turn"),
        (["function_call"], FinishReason.TOOL_CALLS, "function_call"),
        (["MAX_TOKENS"], FinishReason.LENGTH, "MAX_TOKENS"),
        (["sensitive"], FinishReason.CONTENT_FILTER, "sensitive"),
        (["banana"], FinishReason.STOP, "banana"),
        (["tool_calls", "stop"], FinishReason.TOOL_CALLS, "tool_calls"),
        (["banana", "stop", "length", "max_tokens"], FinishReason.LENGTH, "length"),
    ],
)
def test_one_finish_the_strongest_the_first_of_equals(raws: list[str], reason: FinishReason, raw: str) -> None:
    events, error = decode(delta(), *[delta(r) for r in raws], DONE)
    assert error is None
    assert events == [Finish(reason, raw)]


def test_text_in_and_after_the_finishing_chunk_counts_and_the_end_of_the_body_ends_it() -> None:
    events, error = decode(delta("stop", content="a"), delta(content="b"))
    assert error is None
    assert events == [TextDelta("a"), TextDelta("b"), Finish(FinishReason.STOP, "stop")]


def test_nothing_is_read_after_done() -> None:
    events, _ = decode(delta(content="a"), DONE, delta(content="b"))
    assert events == [TextDelta("a"), Finish(FinishReason.STOP, "")]


def test_the_last_frame_counts_without_its_blank_line_and_not_if_it_is_cut() -> None:
    events, error = decode(delta("stop", content="a").rstrip())
    assert error is None
    assert events[0] == TextDelta("a")
    events, error = decode(delta(content="a"), delta("stop", content="b")[:-20])
    assert events == [TextDelta("a")]
    assert error is not None
    assert error.kind == "stream_truncated"


def test_chunks_that_only_report_success_or_progress_are_no_errors() -> None:
    for chunk in ({"code": 0, "message": "Success"}, {"code": "OK", "message": "x"}, {"type": "ping"}, {"id": "x"}):
        assert read(frame(chunk), delta(content="a")) == [TextDelta("a")]


def test_finished_and_data_events_are_for_whoever_waits() -> None:
    decoder = CompletionsDecoder(DEFAULT_PROFILE)
    decoder.feed(b": ping\n\ndata: : ping\n\ndata:\n\ndata: null\n\n" + frame({"choices": None}))
    assert decoder.data_events == 0
    decoder.feed(delta(content=""))
    assert (decoder.data_events, decoder.finished) == (1, False)
    decoder.feed(delta("stop"))
    assert (decoder.data_events, decoder.finished, decoder.done) == (2, True, False)
    decoder.feed(frame({"choices": [], "usage": {"prompt_tokens": 1}}))
    assert decoder.data_events == 3
    assert decoder.close() == [Finish(FinishReason.STOP, "stop")]
