"""Markdown as lines of a terminal: the width is kept, code is whole, and nothing in it is markup for the terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from headwater.cli.markdown import code_lines, markdown_lines


def plain(source: str, width: int = 40) -> list[str]:
    return [line.plain for line in markdown_lines(source, width)]


def styles(source: str) -> dict[str, str]:
    """The styled pieces of the first line."""
    (line,) = markdown_lines(source, 60)
    return {line.plain[span.start : span.end]: str(span.style) for span in line.spans if str(span.style)}


def test_emphasis_code_and_headings_are_styled_and_their_signs_gone() -> None:
    assert plain("# Big *news*\n\nA **bold** `x` ~~no~~.") == ["Big news", "", "A bold x no."]
    assert styles("A **bold** `x` ~~no~~.") == {"bold": "bold", "x": "cyan", "no": "strike"}


def test_markup_of_the_terminal_library_and_html_are_text() -> None:
    assert plain("[red]a[/red] <b>b</b> :smile:") == ["[red]a[/red] <b>b</b> :smile:"]
    assert plain("<img src=x onerror=y>") == ["<img src=x onerror=y>"]


def test_entities_are_no_way_around_the_gate() -> None:
    shown = "\n".join(plain("&#27;[31m &#x9b;5m &#x202e;x &#13;y", 80))
    assert not any(ord(c) < 32 and c != "\n" for c in shown)
    assert "<U+202E>x" in shown


def test_links_show_where_they_lead_and_images_are_named() -> None:
    assert plain("[bank](https://evil.example/x) ![pic](http://e.example/?d=1)", 90) == [
        "bank (https://evil.example/x) [image: pic] (http://e.example/?d=1)"
    ]
    assert plain("<https://a.example>") == ["https://a.example"]


def test_lists_hang_under_their_text_and_nest() -> None:
    assert plain("- one two three four\n  1. deep\n  2. deeper\n- end", 16) == [
        "• one two three",
        "  four",
        "  1. deep",
        "  2. deeper",
        "• end",
    ]
    assert plain("7. seven") == ["7. seven"]


def test_tables_have_columns_that_fit_also_in_chinese() -> None:
    table = "| 城市 | temp |\n|:--|--:|\n| 北京 | 31 |\n| Shanghai | a very long note about it all |"
    lines = plain(table, 30)
    assert lines[0].split() == ["城市", "temp"]
    assert max(map(cell_len, lines)) <= 30
    assert sum("Shanghai" in line for line in lines) == 1


def test_code_is_not_wrapped_and_keeps_its_text_in_any_language() -> None:
    line = "print('" + "x" * 60 + "')"
    assert plain(f"```python\n{line}\n\n  y\n```", 30) == [line, "", "  y"]
    assert [one.plain for one in code_lines(["a\tb", "", "c"], "nosuchlanguage")] == ["a\tb", "", "c"]
    assert [one.plain for one in code_lines(["", "x = 1", ""], "python", ["'''"])] == ["", "x = 1", ""]


def test_structured_answers_are_not_taken_for_markdown() -> None:
    assert plain('{"a": "*b* _c_",\n "d": [1]}') == ['{"a": "*b* _c_",', ' "d": [1]}']


def test_chinese_wraps_anywhere_but_before_a_closing_mark() -> None:
    lines = plain("北京今天晴最高三十一度明天更热，后天也热。Python 很好", 28)
    assert lines == ["北京今天晴最高三十一度明天更", "热，后天也热。Python 很好"]


@given(st.text("ab*_`[]()<>&#|-+ \n北，1.", max_size=60), st.integers(20, 50))
def test_any_text_has_lines_that_fit_and_no_control_codes(text: str, width: int) -> None:
    for line in markdown_lines(text, width):
        assert "\x1b" not in line.plain
        assert "\n" not in line.plain
        if "```" not in text and "    " not in text:
            assert cell_len(line.plain) <= width + 4


@pytest.mark.parametrize("source", ["", " ", "\n", "***", "| |\n|-|"])
def test_next_to_nothing_is_no_error(source: str) -> None:
    plain(source)
