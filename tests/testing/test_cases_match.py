"""How the case runner compares: sequences, messages, histories, orders."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.testing.case_json import same_json
from headwater.testing.case_match import MessageRules, compare_sequence, normal_sequence, pairing_errors

Message = dict[str, Any]


def text(value: str) -> Message:
    return {"type": "text", "text": value}


def tool_call(wire_id: str, **more: Any) -> Message:
    return {"type": "tool_call", "id": wire_id, "name": "t", "args": {}, "runnable": True, **more}


STOP = {"type": "finish", "reason": "stop"}


def call(wire_id: str, arguments: str = "{}", name: str = "t") -> Message:
    return {"id": wire_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def turn(*calls: Message, content: str | None = None) -> Message:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def result(wire_id: str, content: str = "ok") -> Message:
    return {"role": "tool", "tool_call_id": wire_id, "content": content}


def user(content: str) -> Message:
    return {"role": "user", "content": content}


def same(want: list[Message], have: list[Message], *, end_only: bool = False, **rules: Any) -> bool:
    return not MessageRules(rules).compare(want, have, end_only=end_only)


# --- sequences -------------------------------------------------------------------------------------------------------


def test_neighbours_are_merged_and_white_space_is_left_out() -> None:
    parts = [text("a"), text("b"), text(" \n"), {"type": "thinking", "text": " "}, STOP]
    assert normal_sequence(parts) == [text("ab \n"), STOP]


def test_trim_compares_texts_stripped() -> None:
    assert compare_sequence([text(" a ")], [text("a")], trim=True) == []
    assert compare_sequence([text(" a ")], [text("a")]) != []


def test_a_star_is_a_new_id_that_is_used_once() -> None:
    assert compare_sequence([tool_call("*"), tool_call("*")], [tool_call("x"), tool_call("y")]) == []
    assert compare_sequence([tool_call("*"), tool_call("*")], [tool_call("x"), tool_call("x")]) != []
    assert compare_sequence([tool_call("*"), tool_call("b")], [tool_call("b"), tool_call("b")]) != []
    assert compare_sequence([tool_call("*")], [tool_call("")]) != []


def test_runnable_is_true_unless_said_otherwise() -> None:
    want = {k: v for k, v in tool_call("a").items() if k != "runnable"}
    assert compare_sequence([want], [tool_call("a")]) == []
    assert compare_sequence([want], [tool_call("a", runnable=False)]) != []


def test_a_missing_and_a_surplus_part_are_differences() -> None:
    assert len(compare_sequence([text("a"), STOP], [text("a")])) == 1
    assert len(compare_sequence([text("a")], [text("a"), STOP])) == 1


def test_true_is_not_one() -> None:
    assert not same_json({"a": True}, {"a": 1})
    assert same_json({"a": 1.0}, {"a": 1})


# --- messages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [None, "", "absent"])
def test_missing_contents_are_equal_unless_exact(content: str | None) -> None:
    have = turn(call("a"))
    have.pop("content") if content == "absent" else have.update(content=content)
    want = turn(call("a"))
    assert same([want], [have])
    assert same([want], [have], exact_content=True) == (content is None)


def test_arguments_compare_as_json() -> None:
    assert same([turn(call("a", '{"x":1,"y":2}'))], [turn(call("a", '{"y": 2, "x": 1}'))])
    assert not same([turn(call("a", '{"x":1}'))], [turn(call("a", '{"x":2}'))])
    assert not same([turn(call("a", '{"x":1}'))], [turn(call("a", '{"x":1'))])


def test_any_object_is_enough_where_the_case_says_so() -> None:
    assert same([turn(call("a", "{}"))], [turn(call("a", '{"x":1}'))], any_object_as_arguments=["a"])
    assert not same([turn(call("a", "{}"))], [turn(call("a", "[1]"))], any_object_as_arguments=["a"])
    assert not same([turn(call("b", "{}"))], [turn(call("b", '{"x":1}'))], any_object_as_arguments=["a"])


def test_a_star_is_any_text_that_is_not_empty() -> None:
    assert same([result("a", "*")], [result("a", "something")])
    assert not same([result("a", "*")], [result("a", "")])
    assert same([result("a", "*")], [result("a", "")], may_be_empty=["a"])


def test_ids_may_be_renamed_but_consistently() -> None:
    want = [turn(call("a"), call("b")), result("a"), result("b")]
    assert same(want, [turn(call("x"), call("y")), result("x"), result("y")], ids_may_be_renamed=True)
    assert not same(want, [turn(call("x"), call("y")), result("y"), result("x")], ids_may_be_renamed=True)
    assert not same(want, [turn(call("x"), call("x")), result("x"), result("x")], ids_may_be_renamed=True)
    assert not same(want, [turn(call("x"), call("y")), result("x"), result("y")])


def test_only_the_last_messages_count_where_the_end_is_compared() -> None:
    assert same([user("b")], [user("a"), user("b")], end_only=True)
    assert not same([user("b")], [user("a"), user("b")])


def test_one_instruction_may_follow_and_no_more() -> None:
    want = [turn(call("a")), result("a")]
    assert same(want, [*want, user("Answer now.")], end_only=True, may_add_after="one instruction message")
    assert not same(want, [*want, user("Answer"), user("now.")], end_only=True, may_add_after="one instruction message")
    assert not same(want, [*want, result("b")], end_only=True, may_add_after="one instruction message")
    assert not same(want, [*want, user("Answer now.")], end_only=True)


def test_a_partial_answer_may_carry_a_mark() -> None:
    have: Message = {"role": "assistant", "content": "Half [interrupted]"}
    want: Message = {"role": "assistant", "content": "Half"}
    assert same([want], [have], may_mark=["assistant"])
    assert not same([want], [have])


def test_text_parts_equal_the_same_text() -> None:
    assert same([user("ab")], [{"role": "user", "content": [{"type": "text", "text": "ab"}]}])


def test_a_key_too_many_is_a_difference() -> None:
    assert not same([{"role": "assistant", "content": "a"}], [{"role": "assistant", "content": "a", "reasoning": "b"}])


# --- the pairing rule ------------------------------------------------------------------------------------------------


def test_a_history_in_which_each_call_has_its_result_is_sendable() -> None:
    history = [user("a"), turn(call("1"), call("2")), result("1"), result("2"), {"role": "assistant", "content": "b"}]
    assert pairing_errors(history) == []


@pytest.mark.parametrize(
    "history",
    [
        [turn(call("1"))],
        [turn(call("1")), user("a")],
        [result("1")],
        [turn(call("1")), result("2")],
        [turn(call("1")), result("1"), result("1")],
        [turn(call("1"), call("2")), result("2"), result("1")],
        [turn(call("1"), call("1")), result("1"), result("1")],
        [turn(call("")), result("")],
        [turn(call("1", "{")), result("1")],
        [turn(call("1", "[]")), result("1")],
        [turn(call("1")), {"role": "tool", "tool_call_id": "1"}],
        [{"role": "assistant", "content": ""}],
    ],
)
def test_what_a_strict_endpoint_refuses_breaks_the_pairing_rule(history: list[Message]) -> None:
    assert pairing_errors(history)
