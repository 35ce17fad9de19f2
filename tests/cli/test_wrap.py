"""Lines are broken between words, and between any characters where a script has none."""

from __future__ import annotations

import itertools
import re

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from headwater.cli.wrap import line_spans, wrapped

WIDTH = 28


def lines(text: str) -> list[str]:
    return wrapped(text, WIDTH).split("\n")


def test_a_word_that_does_not_fit_goes_to_the_next_line_as_a_whole() -> None:
    assert lines("The weather in Beijing and Shanghai is fine.") == [
        "The weather in Beijing and",
        "Shanghai is fine.",
    ]


def test_chinese_breaks_anywhere_but_not_before_a_closing_mark_or_behind_an_opening_one() -> None:
    line = "北京今天晴最高三十一度明天更"
    assert cell_len(line) == 28
    assert lines(f"{line}热，后天也热") == [line, "热，后天也热"]
    assert lines(f"{line}，后天也热") == [line[:-1], f"{line[-1]}，后天也热"]
    assert lines(f"{line[:-1]}（热）") == [line[:-1], "（热）"]


def test_a_long_word_is_broken_where_the_line_ends() -> None:
    assert lines("x" * 70) == ["x" * 28, "x" * 28, "x" * 14]


def test_an_items_lines_stand_under_its_text() -> None:
    assert lines("- one two three four five six seven") == ["- one two three four five", "  six seven"]


def test_code_and_tables_are_left_to_the_terminal() -> None:
    code = "```python\nprint('a very long line of code that goes on')\n```"
    table = "| a | b | c | d | e | f | g | h | i | j |"
    assert lines(f"{code}\n{table}\nshort") == [*code.split("\n"), table, "short"]


WORDS = st.lists(st.text("ab北，é（", min_size=1, max_size=9), min_size=1, max_size=30).map(" ".join)


@given(WORDS, st.integers(8, 40), st.integers(0, 4))
def test_no_character_is_lost_and_no_line_is_too_long(text: str, width: int, indent: int) -> None:
    spans = line_spans(text, width, indent)
    shown = [text[start:end] for start, end in spans]
    assert re.sub(r"\s", "", "".join(shown)) == re.sub(r"\s", "", text)
    assert max(map(cell_len, shown)) <= max(8, width)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
