"""Fragments to calls."""

from __future__ import annotations

import msgspec
import pytest

from headwater.chat.calls import CallAssembler
from headwater.chat.events import CallArguments, CallEcho, CallName, CallOpen, ModelEvent

TOOLS = frozenset({"clock", "search", "search_docs", "tide_table"})


class F(msgspec.Struct, frozen=True):
    """A fragment."""

    index: int | None = None
    id: str = ""
    name: str = ""
    arguments: str = ""
    beside: bool = False


def events(*fragments: F, tools: frozenset[str] = TOOLS) -> list[ModelEvent]:
    out: list[ModelEvent] = []
    calls = CallAssembler(tools)
    for fragment in fragments:
        calls.add(fragment.index, fragment.id, fragment.name, fragment.arguments, out, beside=fragment.beside)
    calls.close(out)
    return out


def calls(*fragments: F, tools: frozenset[str] = TOOLS) -> list[tuple[str, str, str]]:
    """(id, name, arguments) of each call; checks the order of its events."""
    found: dict[int, list[str]] = {}
    for event in events(*fragments, tools=tools):
        match event:
            case CallOpen(slot=slot):
                assert slot == len(found)
                found[slot] = []
            case CallName(slot=slot, id=id, name=name):
                old = found[slot]
                assert not old or (old[0] == "" and old[1] == name)
                found[slot] = [id, name, old[2] if old else ""]
            case CallArguments(slot=slot, text=text):
                assert text
                assert found[slot], "arguments before the name"
                found[slot][2] += text
            case _:
                raise AssertionError(event)
    return [(id, name, arguments) for id, name, arguments in found.values()]


@pytest.mark.parametrize("index", [0, None])
def test_a_new_id_with_a_name_is_a_new_call_on_whatever_index(index: int | None) -> None:
    assert calls(
        F(index, "a", "clock"), F(index, "", "", "{}"), F(index, "b", "clock"), F(index, "", "", '{"x":1}')
    ) == [("a", "clock", "{}"), ("b", "clock", '{"x":1}')]


def test_fragments_of_open_calls_may_alternate() -> None:
    assert calls(
        F(0, "a", "clock"), F(1, "b", "search_docs"), F(0, "", "", "{"), F(1, "", "", "["), F(0, "", "", "}")
    ) == [("a", "clock", "{}"), ("b", "search_docs", "[")]


def test_a_known_id_continues_its_call_whatever_the_index() -> None:
    assert calls(
        F(0, "a", "clock", "{1"),
        F(0, "b", "clock", "{2"),
        F(5, "a", "", "3"),
        F(None, "b", "", "4"),
        F(9, "a", "clock", "5"),
    ) == [("a", "clock", "{135"), ("b", "clock", "{24")]


def test_one_id_for_two_tools_on_two_indexes_is_two_calls() -> None:
    assert calls(F(0, "0", "clock", "{}"), F(1, "0", "search_docs", "{}")) == [
        ("0", "clock", "{}"),
        ("0", "search_docs", "{}"),
    ]


def test_one_id_for_two_calls_on_two_indexes_is_two_calls_even_of_one_tool() -> None:
    one, two = '{"p":1}', '{"p":2}'
    expected = [("0", "tide_table", one), ("0", "tide_table", two)]
    assert calls(F(0, "0", "tide_table", one), F(1, "0", "tide_table", two)) == expected
    assert calls(F(0, "0", "tide_table"), F(0, "0", "", one), F(1, "0", "tide_table"), F(1, "0", "", two)) == expected
    assert calls(F(0, "0", "tide_table", one), F(1, "0", "tide_table", two[:3]), F(1, "0", "", two[3:])) == expected
    assert calls(F(0, "0", "clock"), F(1, "0", "tide_table"), F(1, "", "", one)) == [
        ("0", "clock", ""),
        ("0", "tide_table", one),
    ]


def test_the_first_id_wins_where_every_fragment_has_its_own() -> None:
    assert calls(F(0, "a", "clock"), F(0, "b", "", "{"), F(0, "c", "", "}")) == [("a", "clock", "{}")]


@pytest.mark.parametrize("index", [0, None])
def test_a_fragment_from_the_middle_of_arguments_is_no_call_whatever_its_id(index: int | None) -> None:
    fragments = F(index, "a", "clock", '{"a":'), F(index, "b", "clock", "1"), F(index, "c", "clock", "}")
    assert calls(*fragments) == [("a", "clock", '{"a":1}')]
    assert calls(*fragments, F(index, "d", "clock", "{"), F(index, "e", "clock", "}")) == [
        ("a", "clock", '{"a":1}'),
        ("d", "clock", "{}"),
    ]
    assert calls(*fragments, F(index, "d", "clock", "7")) == [("a", "clock", '{"a":1}'), ("d", "clock", "7")]


def test_an_index_that_counts_fragments_still_continues_the_last_call() -> None:
    assert calls(F(0, "a", "clock"), F(1, "", "", "{"), F(2, "", "", "}")) == [("a", "clock", "{}")]


def test_the_tail_of_a_call_may_have_another_index_than_its_head() -> None:
    assert calls(F(0, "a", "clock", "{}"), F(0, "b", "search_docs"), F(1, "", "", '{"q":'), F(1, "", "", "1}")) == [
        ("a", "clock", "{}"),
        ("b", "search_docs", '{"q":1}'),
    ]


def test_a_name_in_pieces_is_known_when_arguments_begin() -> None:
    fragments = F(0, "a", "sea"), F(0, "", "rch_"), F(0, "", "docs"), F(0, "", "", "{}")
    assert events(*fragments) == [CallOpen(0), CallName(0, "a", "search_docs"), CallArguments(0, "{}")]
    assert calls(*fragments, tools=frozenset()) == [("a", "search_docs", "{}")]


def test_a_known_name_that_cannot_grow_is_out_at_once_and_one_that_can_waits() -> None:
    out: list[ModelEvent] = []
    assembler = CallAssembler(TOOLS)
    assembler.add(0, "a", "search", "", out)
    assert out == [CallOpen(0)]
    assembler.add(0, "", "_docs", "", out)
    assert out[1:] == [CallName(0, "a", "search_docs")]


def test_a_name_that_could_grow_is_out_when_another_call_opens() -> None:
    assert events(F(0, "a", "search"), F(1, "b", "clock")) == [
        CallOpen(0),
        CallName(0, "a", "search"),
        CallOpen(1),
        CallName(1, "b", "clock"),
    ]


def test_repeated_and_cumulative_names_are_one_name() -> None:
    assert calls(F(0, "a", "clock"), F(0, "a", "clock", "{"), F(0, "a", "clock", "}")) == [("a", "clock", "{}")]
    assert calls(F(0, "a", "sea"), F(0, "a", "search_"), F(0, "a", "search_docs", "{}")) == [("a", "search_docs", "{}")]


def test_arguments_that_come_before_the_name_are_kept() -> None:
    assert calls(F(0, "a"), F(0, "", "", '{"q"'), F(0, "a", "search_docs", ":1"), F(0, "", "", "}")) == [
        ("a", "search_docs", '{"q":1}')
    ]


def test_an_id_that_comes_after_the_name_is_told() -> None:
    assert events(F(0, "", "clock", "{"), F(0, "a", "", "}")) == [
        CallOpen(0),
        CallName(0, "", "clock"),
        CallArguments(0, "{"),
        CallName(0, "a", "clock"),
        CallArguments(0, "}"),
    ]


@pytest.mark.parametrize("index", [0, None])
def test_calls_without_ids_on_one_index_are_told_apart_by_name(index: int | None) -> None:
    assert calls(F(index, "", "clock", "{}"), F(index, "", "tide_table", '{"p":1}')) == [
        ("", "clock", "{}"),
        ("", "tide_table", '{"p":1}'),
    ]
    assert calls(F(index, "", "clock"), F(index, "", "tide_table")) == [("", "clock", ""), ("", "tide_table", "")]


def test_whole_calls_of_one_tool_without_ids_are_two_calls() -> None:
    assert calls(F(0, "", "tide_table", '{"p":1}'), F(0, "", "tide_table", '{"p":2}')) == [
        ("", "tide_table", '{"p":1}'),
        ("", "tide_table", '{"p":2}'),
    ]


def test_a_name_that_is_repeated_alone_opens_a_call_only_if_another_object_follows() -> None:
    whole = F(0, "", "tide_table"), F(0, "", "", '{"p":1}'), F(0, "", "tide_table")
    assert calls(*whole) == [("", "tide_table", '{"p":1}')]
    assert calls(*whole, F(0, "", "", '{"p":'), F(0, "", "", "2}")) == [
        ("", "tide_table", '{"p":1}'),
        ("", "tide_table", '{"p":2}'),
    ]


def test_named_entries_of_one_list_without_index_and_id_are_calls_of_their_own() -> None:
    assert calls(F(None, "", "clock", "{}"), F(None, "", "clock", "{}", True), F(None, "", "", "", True)) == [
        ("", "clock", "{}"),
        ("", "clock", "{}"),
    ]


def test_snapshots_of_a_call_without_an_id_stay_one_call() -> None:
    assert calls(F(0, "", "clock", '{"a"'), F(0, "", "clock", '{"a":1}')) == [("", "clock", '{"a"{"a":1}')]
    assert calls(F(0, "", "clock", "{}"), F(0, "", "clock", '{"a":1}')) == [("", "clock", '{}{"a":1}')]


def test_entries_that_say_nothing_open_nothing() -> None:
    assert events(F(0), F(None)) == []


def test_a_call_whose_name_never_comes_is_not_lost() -> None:
    assert calls(F(0, "a", "", "{}")) == [("a", "", "{}")]


def test_opaque_fields_follow_their_call() -> None:
    out: list[ModelEvent] = []
    CallAssembler(TOOLS).add(0, "a", "clock", "{}", out, {"extra_content": {"s": 1}})
    assert out[-1] == CallEcho(0, {"extra_content": {"s": 1}})
