"""Tags at the start of an answer."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.chat.thinking import TAGS, ThinkSplitter, held_back

Mode = Literal["auto", "open", "none"]


def split(pieces: list[str], mode: Mode = "auto") -> tuple[str, str]:
    """(thinking, text) of an answer in pieces."""
    splitter = ThinkSplitter(mode)
    found = [piece for text in pieces for piece in splitter.feed(text)] + splitter.flush()
    assert all(text for _, text in found)
    return "".join(t for thinking, t in found if thinking), "".join(t for thinking, t in found if not thinking)


@pytest.mark.parametrize(("opener", "closer"), TAGS)
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_tagged_block_at_the_start_is_thinking(opener: str, closer: str, size: int) -> None:
    answer = f" \n{opener}\nweigh it: a < b{closer}\n\nTake 5 < 7 </think> [x]"
    pieces = [answer[i : i + size] for i in range(0, len(answer), size)]
    assert split(pieces) == ("\nweigh it: a < b", "Take 5 < 7 </think> [x]")


def test_text_flows_at_once_when_it_can_be_no_tag() -> None:
    splitter = ThinkSplitter("auto")
    assert splitter.feed("<th") == []
    assert splitter.feed("e end") == [(False, "<the end")]
    assert splitter.passing


def test_thinking_flows_but_for_what_may_close_it() -> None:
    splitter = ThinkSplitter("auto")
    assert splitter.feed("<think>a <") == [(True, "a ")]
    assert splitter.feed(" b </th") == [(True, "< b ")]
    assert splitter.feed("ink> \nyes") == [(False, "yes")]


def test_a_tag_later_in_the_answer_is_text() -> None:
    assert split(["Use <think>", "x</think> here"]) == ("", "Use <think>x</think> here")


def test_white_space_without_a_tag_is_text() -> None:
    assert split(["\n", " hi"]) == ("", "\n hi")
    assert split(["\n "]) == ("", "\n ")


def test_empty_thinking_is_none_and_a_second_block_counts() -> None:
    assert split(["<think>\n\n</think>\n\nHi"]) == ("", "Hi")
    assert split(["<think></think>\n<think>why</think> Hi"]) == ("why", "Hi")


def test_an_unclosed_block_is_thinking_to_the_end() -> None:
    assert split(["<think>half </thi"]) == ("half </thi", "")


def test_open_answers_begin_inside_the_thinking() -> None:
    assert split(["The tide.\n", "</thi", "nk>\n\nHigh"], "open") == ("The tide.\n", "High")
    assert split(["<thi", "nk>", "why</think>so"], "open") == ("why", "so")
    assert split(["a <b> c", "</think>"], "open") == ("a <b> c", "")


def test_none_leaves_tags_in_the_text() -> None:
    assert split(["<think>a</think>b"], "none") == ("", "<think>a</think>b")


def test_what_is_held_back_is_the_longest_beginning_of_a_marker() -> None:
    assert held_back("abc<to", ("<tool_call>", "<t>")) == 3
    assert held_back("abc<tx", ("<tool_call>",)) == 0
    assert held_back("<<", ("<<<a", "<b")) == 2


PIECES = st.lists(
    st.sampled_from(
        ["<think>", "</think>", "<", "</", "think>", "<thin", "k>", "a", " ", "\n", "[THINK]", "</thinking>"]
    ),
    max_size=12,
)


@given(PIECES, st.lists(st.integers(1, 5), max_size=30), st.sampled_from(["auto", "open", "none"]))
def test_any_cut_comes_to_the_same_and_loses_no_letter(pieces: list[str], cuts: list[int], mode: Mode) -> None:
    answer = "".join(pieces)
    parts: list[str] = []
    at = 0
    for cut in cuts:
        parts.append(answer[at : at + cut])
        at += cut
    thinking, text = split([*parts, answer[at:]], mode)
    assert (thinking, text) == split([answer], mode)
    assert (thinking + text).count("a") == answer.count("a")
