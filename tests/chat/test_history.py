"""What of a conversation is sent, and what of it fits the window."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.chat.history import ACKNOWLEDGED, INTERRUPTED, sendable, window
from headwater.chat.profile import DEFAULT_PROFILE, Profile
from headwater.messages import (
    AssistantMessage,
    MediaPart,
    Message,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    UserMessage,
    assistant,
    user,
)
from tests.chat.conversations import conversations

MERGING = Profile(merge_user_messages=True)
FILLING = Profile(assistant_after_tool=True)


def calling(*names: str, text: str = "") -> AssistantMessage:
    """An assistant message that calls: `"a"` has that call id and wire id, `"a:x"` has wire id `x`."""
    parts = [ToolCallPart(call_id=n.split(":")[0], id=n.split(":")[-1], name="clock", arguments="{}") for n in names]
    return AssistantMessage(parts=(*((TextPart(text=text),) if text else ()), *parts))


def result(name: str, text: str = "ok") -> ToolMessage:
    return ToolMessage(call_id=name.split(":")[0], id=name.split(":")[-1], name="clock", text=text)


def shape(messages: Sequence[Message]) -> list[str]:
    """One word a message: `u:text`, `a:text`, `a[ids]`, `t:id=text`."""
    out: list[str] = []
    for m in messages:
        match m:
            case SystemMessage():
                out.append(f"s:{m.text}")
            case UserMessage():
                out.append(f"u:{m.text}")
            case AssistantMessage():
                out.append(f"a[{' '.join(c.id for c in m.calls)}]" if m.calls else f"a:{m.text}")
            case ToolMessage():
                out.append(f"t:{m.id}={'?' if m.text == INTERRUPTED else m.text}")
    return out


def test_a_sendable_history_is_sent_as_it_is() -> None:
    history = [SystemMessage(text="s"), user("q"), calling("a", "b"), result("a"), result("b"), assistant("done")]
    sent = sendable(history, DEFAULT_PROFILE)
    assert len(sent) == len(history)
    assert all(x is y for x, y in zip(sent[1:], history[1:], strict=True))
    assert sent[0] == history[0]


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([calling("a", "b"), result("a")], "a[a b] t:a=ok t:b=?"),
        ([calling("a"), user("hm"), calling("b")], "a[a] t:a=? u:hm a[b] t:b=?"),
        ([calling("a", "b", "c"), result("c"), result("a"), result("b")], "a[a b c] t:a=ok t:b=ok t:c=ok"),
        ([calling("a"), user("hm"), result("a", "late")], "a[a] t:a=late u:hm"),
        ([calling("a"), result("a", "1"), result("a", "2")], "a[a] t:a=1"),
        ([result("a"), user("q"), result("z"), calling("a")], "u:q a[a] t:a=?"),
        ([user("q"), assistant(""), assistant(" \n"), user("r")], "u:q u:r"),
        ([user("q"), AssistantMessage(parts=(ThinkingPart(text="hm"),), interrupted=True), user("r")], "u:q u:r"),
        ([user("q"), SystemMessage(text="x"), SystemMessage(text=""), SystemMessage(text="y")], "s:x\n\ny u:q"),
    ],
)
def test_what_is_repaired(history: list[Message], expected: str) -> None:
    assert " ".join(shape(sendable(history, DEFAULT_PROFILE))) == expected


def test_ids_that_come_again_are_renamed_with_their_results() -> None:
    turns = [calling("r1:x", "r2:x"), result("r2:x", "2"), result("r1:x", "1"), calling("r3:x"), result("r3:x", "3")]
    assert shape(sendable(turns, DEFAULT_PROFILE)) == [
        "a[x call00002]",
        "t:x=1",
        "t:call00002=2",
        "a[call00003]",
        "t:call00003=3",
    ]


def test_empty_ids_get_one_and_a_made_up_id_never_meets_a_given_one() -> None:
    turns = [calling("r1:call00002"), calling("r2:"), calling("r3:call00003")]
    ids = [c.id for m in sendable(turns, DEFAULT_PROFILE) if isinstance(m, AssistantMessage) for c in m.calls]
    assert ids == ["call00002", "call00003", "call00004"]


def test_results_without_a_call_id_of_ours_are_matched_by_the_wire_id() -> None:
    found = ToolMessage(call_id="unknown", id="x", name="clock", text="found")
    assert shape(sendable([calling("r1:x"), found], DEFAULT_PROFILE)) == ["a[x]", "t:x=found"]
    # r1 is known and has its result: a second one does not go to the other call of the same wire id
    twice = [calling("r1:x", "r2:x"), result("r1:x"), result("r1:x", "again")]
    assert shape(sendable(twice, DEFAULT_PROFILE)) == ["a[x call00002]", "t:x=ok", "t:call00002=?"]


def test_a_result_belongs_to_the_last_message_that_has_its_call() -> None:
    turns = [calling("x"), user("stop"), calling("x"), result("x", "1"), result("x", "2")]
    assert shape(sendable(turns, DEFAULT_PROFILE)) == ["a[x]", "t:x=?", "u:stop", "a[call00002]", "t:call00002=1"]


def test_an_answer_of_media_only_is_kept() -> None:
    picture = AssistantMessage(parts=(MediaPart(media_type="image/png", data="AAAA"),))
    assert sendable([user("draw"), picture], DEFAULT_PROFILE) == [user("draw"), picture]


def test_neighbouring_user_messages_are_merged_where_the_profile_asks_for_it() -> None:
    image = UserMessage(parts=(MediaPart(url="https://example.org/x"),))
    history = [user("a"), assistant(""), user("b"), image, UserMessage(parts=(TextPart(text="c"),), name="ann")]
    assert shape(sendable(history, MERGING)) == ["u:a\n\nb", "u:c"]
    assert len(sendable(history, DEFAULT_PROFILE)) == 4


def test_an_assistant_message_stands_after_a_result_where_the_profile_asks_for_it() -> None:
    history = [calling("a"), user("q"), calling("b"), result("b"), assistant("fine"), user("r")]
    assert shape(sendable(history, FILLING)) == [
        "a[a]",
        "t:a=?",
        f"a:{ACKNOWLEDGED}",
        "u:q",
        "a[b]",
        "t:b=ok",
        "a:fine",
        "u:r",
    ]


@given(conversations, st.sampled_from([DEFAULT_PROFILE, MERGING, FILLING]))
def test_sending_twice_changes_nothing_more(history: list[Message], profile: Profile) -> None:
    before = msgspec.json.encode(history)
    once = sendable(history, profile)
    assert sendable(once, profile) == once
    assert msgspec.json.encode(history) == before


ROUND = [
    user("one"),
    calling("w1", "w2"),
    result("w1"),
    result("w2"),
    assistant("First."),
    user("two"),
    assistant("Second."),
    user("three"),
]


@pytest.mark.parametrize(
    ("size", "first"),
    [(None, 0), (9, 0), (8, 0), (7, 5), (5, 5), (3, 5), (2, 7), (1, 7), (0, 7)],
)
def test_the_window_begins_at_a_turn_and_counts_all_but_system_messages(size: int | None, first: int) -> None:
    assert window(ROUND, size) == ROUND[first:]
    system = SystemMessage(text="s")
    assert window([system, *ROUND], size) == [system, *ROUND[first:]]
    assert window([system, *ROUND[:7]], size, ROUND[7:]) == [system, *ROUND[first:7]]


def test_the_prompt_is_counted_and_leaves_no_room_for_a_turn_that_does_not_fit_beside_it() -> None:
    assert window(ROUND[:5], 6, [user("two")]) == ROUND[:5]
    assert window(ROUND[:5], 5, [user("two")]) == []
    assert window(ROUND[:5], 1, ROUND[5:]) == []
    assert window(ROUND[:5], 5) == window(ROUND[:5], 2) == ROUND[:5]


def test_the_last_turn_stays_whole_however_long_it_is() -> None:
    long = [
        user("old"),
        assistant("x"),
        user("new"),
        *(m for i in range(9) for m in (calling(f"c{i}"), result(f"c{i}"))),
    ]
    assert window(long, 4) == long[2:]
    assert window(long[3:], 4) == long[3:]


@given(conversations, st.none() | st.integers(0, 15))
def test_a_window_is_the_end_of_the_conversation_and_within_its_size(history: list[Message], size: int | None) -> None:
    kept = window(history, size)
    system = [m for m in history if isinstance(m, SystemMessage)]
    rest = [m for m in history if not isinstance(m, SystemMessage)]
    kept_rest = [m for m in kept if not isinstance(m, SystemMessage)]
    assert [m for m in kept if isinstance(m, SystemMessage)] == system
    assert kept_rest == (rest[-len(kept_rest) :] if kept_rest else [])
    if len(kept_rest) < len(rest):
        assert isinstance(kept_rest[0], UserMessage)
        users = sum(isinstance(m, UserMessage) for m in kept_rest)
        assert size is not None
        assert len(kept_rest) <= size or users == 1
