"""Messages in the form of chat completions, both ways."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from headwater.chat.history import sendable
from headwater.chat.openai_messages import LONGEST_NAME, message_to_openai, messages_from_openai, wire_arguments
from headwater.chat.profile import DEFAULT_PROFILE, Profile
from headwater.errors import UsageError
from headwater.messages import (
    AssistantMessage,
    MediaPart,
    Message,
    RefusalPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    UserMessage,
)
from tests.chat.conversations import assert_strict, conversations

CALL = ToolCallPart(call_id="r1c1", id="x", name="clock", arguments="{}", args={})


def wire(message: Message, **profile: Any) -> dict[str, Any]:
    return message_to_openai(message, Profile(**profile))


@pytest.mark.parametrize(
    ("raw", "args", "sent"),
    [
        ('{"a": 1}', {"a": 1}, '{"a": 1}'),
        (' {"a":1}\n', {"a": 1}, ' {"a":1}\n'),
        ('"{\\"a\\":1}"', {"a": 1}, '{"a":1}'),
        ('{"a":1}}', {"a": 1}, '{"a":1}'),
        ('{"a":', None, "{}"),
        ("", {}, "{}"),
        ("", None, "{}"),
        ("[1]", None, "{}"),
    ],
)
def test_arguments_go_back_as_one_object(raw: str, args: dict[str, Any] | None, sent: str) -> None:
    assert wire_arguments(ToolCallPart(call_id="c", id="c", name="n", arguments=raw, args=args)) == sent


def test_content_beside_calls_is_what_the_profile_says() -> None:
    call = AssistantMessage(parts=(CALL,))
    assert wire(call)["content"] is None
    assert wire(call, tool_call_content="empty")["content"] == ""
    assert "content" not in wire(call, tool_call_content="absent")
    spoken = AssistantMessage(parts=(TextPart(text="Let me "), CALL, TextPart(text="look.")))
    assert wire(spoken, tool_call_content="absent")["content"] == "Let me look."


def test_thinking_goes_back_when_the_profile_says_so_with_its_opaque_fields() -> None:
    echo = {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}
    thought = (ThinkingPart(text="hm", echo=echo), ThinkingPart(text="!", echo=echo))
    answer, call = AssistantMessage(parts=(*thought, TextPart(text="a"))), AssistantMessage(parts=(*thought, CALL))
    assert "reasoning_content" not in wire(answer)
    assert "reasoning_details" not in wire(answer)
    assert wire(call)["reasoning_content"] == "hm!"
    assert wire(call)["reasoning_details"] == echo["reasoning_details"] * 2
    assert wire(answer, thinking_in_history="always", thinking_field="reasoning")["reasoning"] == "hm!"
    never = wire(call, thinking_in_history="never")
    assert not {"reasoning_content", "reasoning_details"} & never.keys()


def test_empty_thinking_goes_back_as_empty_text_and_opaque_thinking_without_text_as_it_came() -> None:
    assert wire(AssistantMessage(parts=(ThinkingPart(text=""), CALL)))["reasoning_content"] == ""
    opaque = wire(AssistantMessage(parts=(ThinkingPart(text="", echo={"signature": "s"}), CALL)))
    assert opaque["signature"] == "s"
    assert "reasoning_content" not in opaque


def test_opaque_fields_of_calls_and_messages_go_back_untouched() -> None:
    signed = ToolCallPart("c", "x", "clock", "{}", {}, None, {"extra_content": {"google": {"thought_signature": "s"}}})
    sent = wire(AssistantMessage(parts=(signed,), echo={"annotations": [1]}))
    assert sent["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "s"}}
    assert sent["annotations"] == [1]


def test_a_refusal_and_an_answer_of_media_have_a_content() -> None:
    assert wire(AssistantMessage(parts=(RefusalPart(text="No."),))) == {"role": "assistant", "content": "No."}
    both = AssistantMessage(parts=(TextPart(text="Hm. "), RefusalPart(text="No.")))
    assert wire(both)["content"] == "Hm. No."
    assert wire(AssistantMessage(parts=(MediaPart(media_type="image/png", data="A"),)))["content"] == "[image/png]"
    voice = AssistantMessage(parts=(TextPart(text="Hi"), MediaPart(media_type="audio/wav", raw={"id": "audio_1"})))
    assert wire(voice)["audio"] == {"id": "audio_1"}


def test_names_that_no_endpoint_takes_back_are_replaced() -> None:
    names = ["clock", "functions.clock", "get weather\n", "", "\u5929\u6c14", "n" * 80]
    calls = tuple(ToolCallPart(call_id=str(i), id=str(i), name=n) for i, n in enumerate(names))
    sent = wire(AssistantMessage(parts=calls))["tool_calls"]
    assert [c["function"]["name"] for c in sent] == [
        "clock",
        "functions_clock",
        "get_weather_",
        "unknown",
        "__",
        "n" * LONGEST_NAME,
    ]


def test_user_content_is_a_string_or_a_list_of_parts() -> None:
    assert wire(UserMessage(parts=(TextPart(text="a"), TextPart(text="b")), name="ann")) == {
        "role": "user",
        "content": "ab",
        "name": "ann",
    }
    media = (
        TextPart(text="look"),
        MediaPart(url="https://example.org/x"),
        MediaPart(media_type="image/png", data="AAAA"),
        MediaPart(media_type="audio/mpeg", data="BBBB"),
        MediaPart(media_type="video/mp4", url="https://example.org/v"),
        MediaPart(media_type="application/pdf", data="CCCC", name="a.pdf"),
        MediaPart(raw={"type": "image_url", "image_url": {"url": "u", "detail": "low"}}),
    )
    assert wire(UserMessage(parts=media))["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "https://example.org/x"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "input_audio", "input_audio": {"data": "BBBB", "format": "mp3"}},
        {"type": "video_url", "video_url": {"url": "https://example.org/v"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,CCCC"}},
        {"type": "image_url", "image_url": {"url": "u", "detail": "low"}},
    ]


HISTORY: list[dict[str, Any]] = [
    {"role": "system", "content": "s"},
    {
        "role": "user",
        "content": [{"type": "text", "text": "q"}, {"type": "image_url", "image_url": {"url": "u", "detail": "low"}}],
    },
    {
        "role": "assistant",
        "content": "Let me look.",
        "reasoning_content": "hm",
        "tool_calls": [
            {"id": "h1", "type": "function", "function": {"name": "clock", "arguments": "{}"}},
            {"id": "h2", "type": "function", "function": {"name": "tide", "arguments": '{"port":"Oban"}'}, "sig": "s"},
        ],
    },
    {"role": "tool", "tool_call_id": "h1", "content": "12:00"},
    {"role": "tool", "tool_call_id": "h2", "content": "high"},
    {"role": "assistant", "content": "done", "annotation_of_theirs": 1},
    {"role": "user", "content": "thanks", "name": "ann"},
]


def test_a_history_that_is_brought_along_goes_out_as_it_came() -> None:
    read = messages_from_openai(HISTORY)
    assert [message_to_openai(m, DEFAULT_PROFILE) for m in sendable(read, DEFAULT_PROFILE)] == HISTORY
    call = read[2].calls[1] if isinstance(read[2], AssistantMessage) else None
    assert call is not None
    assert (call.id, call.args, call.args_error) == ("h2", {"port": "Oban"}, None)
    assert isinstance(read[4], ToolMessage)
    assert (read[4].call_id, read[4].name) == (call.call_id, "tide")


def test_a_history_of_any_age_is_read() -> None:
    old: list[dict[str, Any]] = [
        {"role": "developer", "content": [{"type": "text", "text": "s"}]},
        {"role": "assistant", "content": None, "function_call": {"name": "clock", "arguments": ""}},
        {"role": "function", "name": "clock", "content": "12:00"},
        {"role": "assistant", "content": [{"type": "text", "text": "It is "}, {"type": "refusal", "refusal": "no"}]},
        {"role": "assistant", "tool_calls": [{"id": "x", "function": {"name": "f", "arguments": {"a": 1}}}]},
        {"role": "assistant", "tool_calls": [{"id": "x", "function": {"name": "f", "arguments": '{"a":'}}]},
        {"role": "tool", "tool_call_id": "x", "content": [{"type": "text", "text": "r"}]},
    ]
    read = messages_from_openai(old)
    sent = [message_to_openai(m, DEFAULT_PROFILE) for m in sendable(read, DEFAULT_PROFILE)]
    assert_strict(sent)
    assert [m["role"] for m in sent] == ["system", *["assistant", "tool"], "assistant", *["assistant", "tool"] * 2]
    assert sent[2]["content"] == "12:00"
    assert sent[-1] == {"role": "tool", "tool_call_id": sent[-2]["tool_calls"][0]["id"], "content": "r"}
    assert sent[4]["tool_calls"][0]["function"]["arguments"] == '{"a":1}'
    last = read[5]
    assert isinstance(last, AssistantMessage)
    assert (last.calls[0].call_id, last.calls[0].args_error) == ("x#2", "truncated")


@given(conversations)
def test_what_was_sent_can_be_brought_along_again(history: list[Message]) -> None:
    sent = [message_to_openai(m, DEFAULT_PROFILE) for m in sendable(history, DEFAULT_PROFILE)]
    again = sendable(messages_from_openai(json.loads(json.dumps(sent))), DEFAULT_PROFILE)
    assert_strict([message_to_openai(m, DEFAULT_PROFILE) for m in again])
    assert [m for m in sent if m["role"] == "tool"] == [
        message_to_openai(m, DEFAULT_PROFILE) for m in again if isinstance(m, ToolMessage)
    ]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"content": "x"}, "'role' is missing"),
        ({"role": "robot", "content": "x"}, "unknown role 'robot'"),
        ({"role": "assistant", "tool_calls": [{"id": "x"}]}, "'function' is missing"),
        ({"role": "user", "content": 5}, "not iterable"),
    ],
)
def test_what_is_no_message_is_a_usage_error_that_says_where(bad: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=rf"history\[1\].*{why}"):
        messages_from_openai([{"role": "user", "content": "q"}, bad])
