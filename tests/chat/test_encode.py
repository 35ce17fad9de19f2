"""The body of a request: its form, and that writing it step by step is the same as writing it at once."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.chat.encode import RequestEncoder
from headwater.chat.history import sendable
from headwater.chat.openai_messages import message_to_openai
from headwater.chat.profile import DEFAULT_PROFILE, Profile
from headwater.chat.request import ModelRequest, RequestOptions, ToolSpec
from headwater.errors import UsageError
from headwater.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    UserMessage,
    assistant,
    user,
)
from tests.chat.conversations import assert_strict, conversations

CLOCK = ToolSpec(name="clock", description="The time now", parameters={"type": "object", "properties": {}})
PROFILES = [
    DEFAULT_PROFILE,
    Profile(merge_user_messages=True, tool_call_content="empty", thinking_in_history="always"),
    Profile(assistant_after_tool=True, tool_call_content="absent", thinking_in_history="never"),
]


def request(
    messages: list[Message],
    options: RequestOptions | None = None,
    tools: tuple[ToolSpec, ...] = (),
    cache: dict[str, Any] | None = None,
    tail: tuple[Message, ...] = (),
) -> ModelRequest:
    return ModelRequest(messages, tools, options or RequestOptions(), {} if cache is None else cache, tail)


def body(
    messages: list[Message],
    options: RequestOptions | None = None,
    tools: tuple[ToolSpec, ...] = (),
    profile: Profile = DEFAULT_PROFILE,
) -> dict[str, Any]:
    return json.loads(RequestEncoder(profile, "m-1").body(request(messages, options, tools)))


@given(conversations, st.lists(st.integers(1, 4), min_size=1, max_size=8), st.sampled_from(PROFILES))
def test_a_conversation_written_step_by_step_is_the_one_written_at_once(
    history: list[Message], steps: list[int], profile: Profile
) -> None:
    encoder = RequestEncoder(profile, "m-1")
    growing: list[Message] = []
    cache: dict[str, Any] = {}
    left = list(history)
    while True:
        data = encoder.body(request(growing, cache=cache))
        assert data == RequestEncoder(profile, "m-1").body(request(list(growing)))
        sent = json.loads(data)["messages"]
        assert sent == [message_to_openai(m, profile) for m in sendable(growing, profile)]
        assert_strict(sent)
        if not left:
            break
        step = steps.pop(0) if steps else 1
        growing.extend(left[:step])
        del left[:step]


@given(conversations, st.lists(conversations.map(lambda ms: ms[:3]), min_size=1, max_size=8), st.sampled_from(PROFILES))
def test_a_tail_goes_out_after_the_messages_and_leaves_no_trace(
    history: list[Message], tails: list[list[Message]], profile: Profile
) -> None:
    encoder = RequestEncoder(profile, "m-1")
    growing: list[Message] = []
    cache: dict[str, Any] = {}
    for tail in tails:
        growing.extend(history[:2])
        del history[:2]
        data = encoder.body(request(growing, cache=cache, tail=tuple(tail)))
        assert data == RequestEncoder(profile, "m-1").body(request([*growing, *tail]))
        assert_strict(json.loads(data)["messages"])
        assert encoder.body(request(growing, cache=cache)) == RequestEncoder(profile, "m-1").body(request(growing))


def test_with_a_tail_nothing_that_was_encoded_is_encoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[str] = []

    def counting(message: Message, profile: Profile) -> dict[str, Any]:
        encoded.append(message.text)
        return message_to_openai(message, profile)

    monkeypatch.setattr("headwater.chat.encode.message_to_openai", counting)
    cache: dict[str, Any] = {}
    history: list[Message] = [SystemMessage(text="s"), user("q"), assistant("a")]
    encoder = RequestEncoder(DEFAULT_PROFILE, "m")
    plain = encoder.body(request(history, cache=cache))
    with_tail = encoder.body(request(history, cache=cache, tail=(user("note 1"),)))
    history.append(user("r"))
    encoder.body(request(history, cache=cache, tail=(user("note 2"),)))
    assert encoded == ["q", "a", "s", "note 1", "r", "note 2"]
    assert with_tail.startswith(plain.removesuffix(b"]}"))


def test_a_tail_is_merged_where_the_profile_asks_for_it_in_that_request_only() -> None:
    encoder = RequestEncoder(Profile(merge_user_messages=True), "m")
    cache: dict[str, Any] = {}
    history: list[Message] = [user("q")]
    merged = json.loads(encoder.body(request(history, cache=cache, tail=(user("note"),))))["messages"]
    assert merged == [{"role": "user", "content": "q\n\nnote"}]
    assert json.loads(encoder.body(request(history, cache=cache)))["messages"] == [{"role": "user", "content": "q"}]


@given(conversations, conversations)
def test_a_conversation_that_begins_differently_is_written_anew(one: list[Message], two: list[Message]) -> None:
    encoder = RequestEncoder(DEFAULT_PROFILE, "m-1")
    cache: dict[str, Any] = {}
    encoder.body(request(one, cache=cache))
    assert encoder.body(request(two, cache=cache)) == encoder.body(request(two))
    assert encoder.body(request(two[:1], cache=cache)) == encoder.body(request(two[:1]))


def test_two_encoders_may_share_the_cache_of_a_run() -> None:
    cache: dict[str, Any] = {}
    history: list[Message] = [user("q"), AssistantMessage(parts=(ToolCallPart("a", "a", "clock", "{}"),))]
    bodies = [
        json.loads(RequestEncoder(p, "m").body(request(history, cache=cache)))["messages"][1]
        for p in PROFILES
        for _ in "12"
    ]
    assert [b.get("content", "absent") for b in bodies] == [None, None, "", "", "absent", "absent"]


def test_an_open_call_is_closed_in_what_is_sent_and_gets_its_result_when_it_comes() -> None:
    encoder = RequestEncoder(DEFAULT_PROFILE, "m")
    cache: dict[str, Any] = {}
    history: list[Message] = [user("q"), AssistantMessage(parts=(ToolCallPart("a", "a", "clock", "{}"),))]
    first = json.loads(encoder.body(request(history, cache=cache)))["messages"]
    history.append(ToolMessage(call_id="a", id="a", name="clock", text="12:00"))
    second = json.loads(encoder.body(request(history, cache=cache)))["messages"]
    assert "interrupted" in first[2]["content"]
    assert second[2] == {"role": "tool", "tool_call_id": "a", "content": "12:00"}


def test_the_plain_request() -> None:
    assert body([SystemMessage(text="s"), user("hi"), assistant("yes")]) == {
        "model": "m-1",
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "yes"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert "stream_options" not in body([user("hi")], profile=Profile(stream_usage=False))
    assert (
        body([SystemMessage(text="s")], profile=Profile(system_role="developer"))["messages"][0]["role"] == "developer"
    )
    assert body([])["messages"] == []


def test_every_option_has_its_field() -> None:
    options = RequestOptions(
        temperature=0.0,
        top_p=0.9,
        max_tokens=100,
        stop=("END",),
        seed=7,
        reasoning_effort="low",
        response_format={"type": "json_object"},
        parallel_tool_calls=False,
        tool_choice="required",
        extra={"top_k": 3, "stream": False, "messages": [], "seed": 8},
    )
    profile = Profile(max_tokens_field="max_completion_tokens", body={"enable_thinking": True, "top_p": 0.1})
    got = body([user("hi")], options, (CLOCK,), profile)
    assert {k: v for k, v in got.items() if k not in {"messages", "tools", "stream_options"}} == {
        "model": "m-1",
        "enable_thinking": True,
        "temperature": 0.0,
        "top_p": 0.9,
        "max_completion_tokens": 100,
        "stop": ["END"],
        "seed": 8,
        "reasoning_effort": "low",
        "response_format": {"type": "json_object"},
        "parallel_tool_calls": False,
        "tool_choice": "required",
        "top_k": 3,
        "stream": True,
    }


def test_tools_are_offered_and_without_them_nothing_speaks_of_tools() -> None:
    options = RequestOptions(tool_choice="clock", parallel_tool_calls=True)
    got = body([user("hi")], options, (CLOCK,))
    assert got["tools"] == [
        {
            "type": "function",
            "function": {"name": "clock", "description": "The time now", "parameters": CLOCK.parameters},
        }
    ]
    assert got["tool_choice"] == {"type": "function", "function": {"name": "clock"}}
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & body([user("hi")], options).keys()
    extra = RequestOptions(extra={"tool_choice": "auto", "tools": []})
    assert not {"tools", "tool_choice"} & body([user("hi")], extra).keys()


def test_options_and_tools_may_change_from_request_to_request() -> None:
    encoder = RequestEncoder(DEFAULT_PROFILE, "m")
    cache: dict[str, Any] = {}
    history: list[Message] = [user("q")]
    assert "tools" in json.loads(encoder.body(request(history, tools=(CLOCK,), cache=cache)))
    assert "tools" not in json.loads(encoder.body(request(history, cache=cache)))
    warm = request(history, RequestOptions(temperature=1.0), cache=cache)
    assert json.loads(encoder.body(warm))["temperature"] == 1.0


def test_what_json_cannot_hold_is_a_usage_error_in_options_and_replaced_in_texts() -> None:
    with pytest.raises(UsageError, match="JSON"):
        body([user("hi")], RequestOptions(extra={"x": object()}))
    assert body([user("a\ud800b")])["messages"][0]["content"] == "a?b"


def test_a_request_at_a_thousand_messages_costs_little_more_than_at_twenty() -> None:
    def turn(i: int) -> list[Message]:
        call = ToolCallPart(f"c{i}", f"c{i}", "clock", '{"a":1}', {"a": 1})
        return [
            UserMessage(parts=(TextPart(text="go on"),)),
            AssistantMessage(parts=(TextPart(text="Let me look. " * 5), call)),
            ToolMessage(call_id=f"c{i}", id=f"c{i}", name="clock", text="result " * 20),
        ]

    def best(turns: int) -> float:
        encoder = RequestEncoder(DEFAULT_PROFILE, "m")
        options, history, cache = RequestOptions(), [m for i in range(turns) for m in turn(i)], dict[str, Any]()
        encoder.body(request(history, options, cache=cache))
        times: list[float] = []
        for i in range(turns, turns + 20):
            history.extend(turn(i))
            began = time.perf_counter()
            encoder.body(request(history, options, cache=cache))
            times.append(time.perf_counter() - began)
        return min(times)

    assert best(330) < 20 * best(6)
