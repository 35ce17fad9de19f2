"""Random conversations, sendable or not, and a strict judge of what is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from headwater.messages import (
    AssistantMessage,
    AssistantPart,
    MediaPart,
    Message,
    RefusalPart,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    UserMessage,
)

ids = st.sampled_from(["", "a", "b", "c", "call00001", "call00002"])
words = st.sampled_from(["", " ", "hello", "Wetter \u00e4\u2028\U0001f30a", 'a "quoted" \\ text\n'])
raw_arguments = st.sampled_from(["", "{}", '{"a":1}', '{"a":', '{"a":1}}', "no", '"{\\"a\\":2}"', '{"a":"\n"}', "[1]"])
media = st.builds(
    MediaPart,
    media_type=st.sampled_from(["", "image/png", "audio/wav", "application/pdf", "video/mp4"]),
    url=st.sampled_from(["", "https://example.org/x"]),
    data=st.sampled_from(["", "AAAA"]),
    name=st.sampled_from(["", "x.pdf"]),
)
echoes = st.none() | st.just({"reasoning_details": [{"type": "x", "data": "opaque"}]})
calls = st.builds(
    ToolCallPart,
    call_id=ids,
    id=ids,
    name=st.sampled_from(["clock", "tide"]),
    arguments=raw_arguments,
    args=st.none() | st.just({"a": 3}),
    echo=st.none() | st.just({"extra_content": {"signature": "s"}}),
)
assistant_parts: st.SearchStrategy[AssistantPart] = st.one_of(
    st.builds(TextPart, text=words),
    st.builds(ThinkingPart, text=words, echo=echoes),
    st.builds(RefusalPart, text=words),
    calls,
    calls,
    media,
)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(SystemMessage, text=words),
    st.builds(
        UserMessage,
        parts=st.lists(st.one_of(st.builds(TextPart, text=words), media), max_size=2).map(tuple),
        name=st.sampled_from(["", "ann"]),
    ),
    st.builds(AssistantMessage, parts=st.lists(assistant_parts, max_size=4).map(tuple)),
    st.builds(ToolMessage, call_id=ids, id=ids, name=st.just("clock"), text=words),
    st.builds(ToolMessage, call_id=ids, id=ids, name=st.just("clock"), text=words),
)
conversations = st.lists(messages, max_size=14)


def assert_strict(sent: Sequence[dict[str, Any]]) -> None:
    """What the strictest endpoint asks of a list of messages in their wire form."""
    seen: set[str] = set()
    waiting: list[str] = []
    for i, message in enumerate(sent):
        role = message["role"]
        assert role != "system" or i == 0
        if role == "tool":
            assert waiting, "a result without a call, or one too many"
            assert message["tool_call_id"] == waiting.pop(0), "results in another order than the calls"
            assert type(message["content"]) is str
            continue
        assert not waiting, "an open call"
        if role == "assistant":
            waiting = [call["id"] for call in message.get("tool_calls", [])]
            assert all(waiting)
            assert len(set(waiting)) == len(waiting)
            assert not seen & set(waiting), "an id of an earlier message"
            seen |= set(waiting)
            assert waiting or message.get("content") or message.get("audio")
    assert not waiting, "an open call at the end"
