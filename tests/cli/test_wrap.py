"""Lines are broken between words, however the text is cut into pieces."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from headwater.cli.wrap import Back, Wrapper, wrapped

WIDTH = 30


def screen(*pieces: str) -> list[str]:
    """The lines that a terminal shows."""
    wrapper = Wrapper()
    lines = [""]
    for piece in pieces:
        for written in wrapper.feed(piece, WIDTH):
            if isinstance(written, Back):
                line = lines[-1]
                assert written.cells <= cell_len(line)
                while cell_len(line) > cell_len(lines[-1]) - written.cells:
                    line = line[:-1]
                lines[-1] = line
            else:
                first, *rest = written.split("\n")
                lines[-1] += first
                lines += rest
    return lines


def test_a_word_that_does_not_fit_goes_to_the_next_line_as_a_whole() -> None:
    assert screen("The weather in Beijing and Shanghai is fine.") == [
        "The weather in Beijing and ",
        "Shanghai is fine.",
    ]


def test_a_word_that_grows_too_long_is_taken_back() -> None:
    assert screen("The weather in Beijing and Sh", "ang", "hai") == ["The weather in Beijing and ", "Shanghai"]


def test_chinese_breaks_anywhere_but_not_before_a_closing_mark() -> None:
    line = "北京今天晴最高三十一度明天更"
    assert cell_len(line) == 28
    assert screen(f"{line}热，后天也热") == [line, "热，后天也热"]
    assert screen(f"{line}，", "后天也热") == [f"{line}，", "后天也热"]
    assert screen(f"{line}。”", "后") == [f"{line}。", "”后"]


def test_a_long_word_is_broken_where_the_line_ends() -> None:
    assert screen("x" * 70) == ["x" * 28, "x" * 28, "x" * 14]


def test_an_items_lines_stand_under_its_text() -> None:
    assert screen("- one two three four five six seven") == ["- one two three four five ", "  six seven"]


def test_code_and_tables_are_left_to_the_terminal() -> None:
    code = "```python\nprint('a very long line of code that goes on')\n```"
    table = "| a | b | c | d | e | f | g | h | i | j |"
    assert screen(f"{code}\n{table}\nshort") == [*code.split("\n"), table, "short"]
    assert screen("```x\n", "a b c d e f g h i j k l m n o p\n", "```\n", "one two three four five six seven")[-2:] == [
        "one two three four five six ",
        "seven",
    ]


WORDS = st.lists(st.text("ab北，é", min_size=1, max_size=9), min_size=1, max_size=30).map(" ".join)


@given(WORDS, st.lists(st.integers(1, 5), max_size=40))
def test_any_cut_shows_the_same_text_and_no_line_is_too_long(text: str, sizes: list[int]) -> None:
    pieces: list[str] = []
    rest = text
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    lines = screen(*pieces, rest)
    assert re.sub(r"\s", "", "".join(lines)) == re.sub(r"\s", "", text)
    assert max(map(cell_len, lines)) <= WIDTH
    assert lines == screen(text)
    assert lines == wrapped(text, WIDTH).split("\n")
