"""Calls written as text."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.chat.dialects import TextCall, dialect_reader

TOOLS = frozenset({"clock", "search_docs", "tide_table"})
Item = str | tuple[str, object]
Example = tuple[str, str, list[Item]]


def read(text: str, *dialects: str, size: int = 0, final: bool = True) -> list[Item]:
    """Text (neighbours joined) and calls (name, arguments) of an answer, in pieces of `size`."""
    reader = dialect_reader(dialects, TOOLS)
    assert reader is not None
    items: list[str | TextCall] = []
    step = size or len(text) or 1
    for at in range(0, len(text), step):
        items += reader.feed(text[at : at + step])
    items += reader.flush(final=final)
    out: list[Item] = []
    for item in items:
        if isinstance(item, TextCall):
            out.append((item.name, json.loads(item.arguments) if item.arguments else None))
        elif out and isinstance(last := out[-1], str):
            out[-1] = last + item
        else:
            out.append(item)
    return out


def read_all_ways(text: str, *dialects: str) -> list[Item]:
    whole = read(text, *dialects)
    for size in (1, 2, 3, 7):
        assert read(text, *dialects, size=size) == whole
    return whole


V3 = (
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>tide_table\n```json\n"
    '{"port": "Ayr"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>clock\n```json\n{}\n```'
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
)
V31 = (
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>search_docs<｜tool▁sep｜>{"q":"a ``` b"}<｜tool▁call▁end｜>'
    "<｜tool▁calls▁end｜>"
)
DSML = (
    '<｜DSML｜function_calls>\n<｜DSML｜invoke name="search_docs">\n<｜DSML｜parameter name="q" string="true">a < "b"\n'
    '</｜DSML｜parameter>\n<｜DSML｜parameter name="n" string="false">[1, 2]</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
    '<｜DSML｜invoke name="clock">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>'
)


TWO: list[Item] = [("search_docs", {"q": 'a < "b"\n', "n": [1, 2]}), ("clock", None)]
CALLS: list[Example] = [
    ("hermes", '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>', [("clock", {})]),
    ("hermes", '<tool_call>{"name":"clock"}</tool_call>', [("clock", None)]),
    ("hermes", '<tool_call>{"name":"clock","arguments":"{\\"a\\":1}"}</tool_call>', [("clock", {"a": 1})]),
    (
        "hermes",
        'Go. <tool_call>{"name":"search_docs","parameters":{"q":"</tool_call> {"}}</tool_call>\n'
        '<tool_call>{"name":"clock","arguments":{}}}</tool_call>\n\nOne moment.',
        ["Go. ", ("search_docs", {"q": "</tool_call> {"}), ("clock", {}), "\n\nOne moment."],
    ),
    (
        "hermes",
        '<tool_call>[{"name":"clock","arguments":{}},{"name":"tide_table","arguments":{"p":1}}]</tool_call>',
        [("clock", {}), ("tide_table", {"p": 1})],
    ),
    ("deepseek", "Right." + V3, ["Right.", ("tide_table", {"port": "Ayr"}), ("clock", {})]),
    ("deepseek", V31, [("search_docs", {"q": "a ``` b"})]),
    ("deepseek", V31.replace("▁", "_").replace("｜", "|"), [("search_docs", {"q": "a ``` b"})]),
    ("deepseek", V31.removesuffix("<｜tool▁calls▁end｜>"), [("search_docs", {"q": "a ``` b"})]),
    (
        "deepseek",
        "<｜tool▁call▁begin｜>clock<｜tool▁sep｜>{}<｜tool▁call▁end｜> Then.",
        [("clock", {}), " Then."],
    ),
    ("dsml", "Ok " + DSML, ["Ok ", *TWO]),
    ("dsml", DSML.replace("function_calls", "tool_calls"), TWO),
    ("dsml", DSML.replace("｜", "||"), TWO),
    (
        "dsml",
        '<|DSML|invoke name="tide_table">{"port": "Ayr"}</|DSML|invoke>.',
        [("tide_table", {"port": "Ayr"}), "."],
    ),
    (
        "mistral",
        'A[TOOL_CALLS] [{"name":"clock","arguments":{}},{"name":"tide_table","arguments":{"p":"]"},"id":"x"}]',
        ["A", ("clock", {}), ("tide_table", {"p": "]"})],
    ),
    (
        "mistral",
        '[TOOL_CALLS]clock[ARGS]{}[TOOL_CALLS]tide_table[CALL_ID]abc123XYZ[ARGS]{"p": 1} done',
        [("clock", {}), ("tide_table", {"p": 1}), " done"],
    ),
    ("mistral", '[TOOL_CALLS]tide_table{"p": {"q": 2}}', [("tide_table", {"p": {"q": 2}})]),
    ("bare_json", '\n{"name": "tide_table", "parameters": {"p": 1}}\n', [("tide_table", {"p": 1})]),
    ("bare_json", '{"type":"function","name":"clock","arguments":{}}', [("clock", {})]),
    ("bare_json", '{"type":"function","function":{"name":"clock","arguments":{"a":1}}}', [("clock", {"a": 1})]),
]


@pytest.mark.parametrize(("dialect", "text", "expected"), CALLS)
def test_complete_blocks_that_name_known_tools_are_calls(dialect: str, text: str, expected: list[Item]) -> None:
    assert read_all_ways(text, dialect) == expected


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("hermes", "Use the <tool_call> tag, then {json} and </tool_call>."),
        ("hermes", '<tool_call>{"name":"nobody","arguments":{}}</tool_call> after'),
        ("hermes", '<tool_call>{"name":"clock","arguments":{}}'),
        ("hermes", '<tool_call>{"name":"clock","argu'),
        ("hermes", 'Send:\n```\n<tool_call>{"name":"clock","arguments":{}}</tool_call>\n```\nnot yet'),
        ("hermes", 'Write `<tool_call>{"name":"clock"}</tool_call>` for that'),
        ("hermes", "a <too"),
        ("deepseek", V31.replace("search_docs", "nobody")),
        ("deepseek", "<｜tool▁calls▁begin｜> are tokens"),
        ("deepseek", '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>clock<｜tool▁sep｜>{"a'),
        ("dsml", DSML.replace("search_docs", "x").replace("clock", "y")),
        ("dsml", "<｜DSML｜function_calls> is a tag"),
        ("dsml", '<｜DSML｜function_calls>\n<｜DSML｜invoke name="clock">'),
        ("mistral", "The [TOOL_CALLS] token is special; [x] is not."),
        ("mistral", "[TOOL_CALLS]nobody{}"),
        ("mistral", '[TOOL_CALLS] [{"name":"clock","arguments":{}},{"name":"nobody","arguments":{}}]'),
        ("mistral", '[TOOL_CALLS] [{"name":"clock","argume'),
        ("bare_json", '{"name": "nobody", "arguments": {}}'),
        ("bare_json", '{"name": "clock", "rev": 2}'),
        ("bare_json", '{"name": "clock", "arguments": {}} is how'),
        ("bare_json", 'This: {"name": "clock", "arguments": {}}'),
        ("bare_json", '```json\n{"name": "clock", "arguments": {}}\n```'),
        ("bare_json", '{"name": "clock", "arguments": {"a": 1}'),
        ("bare_json", '[{"name": "clock", "arguments": {}}]'),
        ("bare_json", "{not json}"),
        ("bare_json", ""),
        ("bare_json", " "),
    ],
)
def test_everything_else_stays_text_letter_by_letter(dialect: str, text: str) -> None:
    assert "".join(str(i) for i in read_all_ways(text, dialect)) == text


def test_bare_json_is_released_as_soon_as_it_can_be_no_call() -> None:
    for text in ('{"city', '{"name": "no', "{ 1", '{"name": 4', "Hi"):
        reader = dialect_reader(("bare_json",), TOOLS)
        assert reader is not None
        assert reader.feed(text) == [text]
    reader = dialect_reader(("bare_json",), TOOLS)
    assert reader is not None
    assert reader.feed('{"na') == reader.feed('me": "clo') == []


def test_text_flows_but_for_what_may_become_markup() -> None:
    reader = dialect_reader(("hermes", "mistral"), TOOLS)
    assert reader is not None
    assert reader.feed("plain") == ["plain"]
    assert reader.feed(" a <too") == [" a "]
    assert reader.feed("l> b [T") == ["<tool> b "]
    assert reader.feed("OOL_CALLS] is") == ["[TOOL_CALLS]", " is"]


def test_an_answer_that_goes_on_with_something_else_is_no_bare_call() -> None:
    assert read('{"name": "clock", "arguments": {}}', "bare_json", final=False) == [
        '{"name": "clock", "arguments": {}}'
    ]


def test_arguments_that_are_no_strict_json_go_on_as_they_are() -> None:
    reader = dialect_reader(("hermes",), TOOLS)
    assert reader is not None
    raw = '{"q": "\\d+ \n x"}'
    items = reader.feed('<tool_call>{"name": "search_docs", "arguments": ' + raw + "}</tool_call>")
    assert items == [TextCall("search_docs", raw)]


def test_nothing_is_looked_for_without_a_dialect_or_without_tools() -> None:
    assert dialect_reader((), TOOLS) is None
    assert dialect_reader(("hermes",), frozenset()) is None


@pytest.mark.parametrize(
    "again",
    [
        '<tool_call>{"name":"clock","arguments":{',
        "[TOOL_CALLS]clock{",
        '<｜DSML｜invoke name="clock"><｜DSML｜parameter name="a">',
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>",
        "a`b",
        "{",
    ],
)
def test_an_answer_that_repeats_itself_is_text_and_costs_no_more_than_its_length(again: str) -> None:
    def seconds(times: int) -> float:
        text = again * times
        start = time.process_time()
        assert "".join(str(item) for item in read(text, "hermes", "mistral", "dsml", "deepseek", size=50)) == text
        return time.process_time() - start

    assert seconds(1500) < max(1.0, 25 * seconds(150))


def test_a_long_call_in_small_pieces_is_read_once() -> None:
    reader = dialect_reader(("hermes",), TOOLS)
    assert reader is not None
    reader.feed('<tool_call>{"name": "search_docs", "arguments": {"q": "')
    for _ in range(20_000):
        assert reader.feed("line {x} ") == []
    items = reader.feed('"}}</tool_call>')
    assert [type(i) for i in items] == [TextCall]


MARKUP = (
    '<tool_call>|</tool_call>|{"name":"clock"|,"arguments":{|}|}}|[TOOL_CALLS]|clock|[ARGS]|<｜tool▁calls▁begin｜>'
    "|<｜tool▁call▁begin｜>|<｜tool▁sep｜>|<｜tool▁call▁end｜>|<｜tool▁calls▁end｜>"
    '|<｜DSML｜invoke name="clock">|</｜DSML｜invoke>|`|```|\n| |<|[|"|a'
)
PIECES = st.lists(st.sampled_from(MARKUP.split("|")), max_size=14)


@given(PIECES, st.lists(st.integers(1, 9), max_size=30))
def test_any_cut_comes_to_the_same(pieces: list[str], cuts: Sequence[int]) -> None:
    text = "".join(pieces)
    dialects = ("hermes", "deepseek", "dsml", "mistral", "bare_json")
    reader = dialect_reader(dialects, TOOLS)
    assert reader is not None
    items: list[str | TextCall] = []
    at = 0
    for cut in cuts:
        items += reader.feed(text[at : at + cut])
        at += cut
    items += [*reader.feed(text[at:]), *reader.flush(final=True)]
    whole = dialect_reader(dialects, TOOLS)
    assert whole is not None
    assert _merged(items) == _merged([*whole.feed(text), *whole.flush(final=True)])
    if not any(isinstance(i, TextCall) for i in items):
        assert _merged(items) == ([text] if text else [])


def _merged(items: list[str | TextCall]) -> list[str | TextCall]:
    out: list[str | TextCall] = []
    for item in items:
        if out and isinstance(item, str) and isinstance(last := out[-1], str):
            out[-1] = last + item
        else:
            out.append(item)
    return out
