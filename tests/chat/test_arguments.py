"""Reading the raw arguments of a call."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headwater.chat.arguments import is_object, looks_complete, parse_arguments

keys = st.text(max_size=4)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(keys, values, max_size=4)


@st.composite
def object_texts(draw: st.DrawFn) -> tuple[dict[str, Any], str]:
    value = draw(objects)
    return value, json.dumps(value, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1])))


def cut(text: str, places: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(p % (len(text) + 1) for p in places)})
    return [text[a:b] for a, b in pairwise(edges)]


def are_snapshots(fragments: list[str]) -> bool:
    parts = [f for f in fragments if f]
    return len(parts) > 1 and all(b.startswith(a) for a, b in pairwise(parts))


@given(object_texts(), st.lists(st.integers(0, 200), max_size=6))
def test_any_object_in_any_fragments_reads_as_itself(drawn: tuple[dict[str, Any], str], places: list[int]) -> None:
    value, text = drawn
    parsed = parse_arguments(cut(text, places))
    assert parsed.args == value
    assert (parsed.error, parsed.repaired) == (None, False)
    assert looks_complete(text)
    assert is_object(text)


@given(object_texts(), st.integers(1, 10_000), st.lists(st.integers(0, 200), max_size=6))
def test_an_object_that_is_cut_anywhere_is_truncated_and_never_an_object(
    drawn: tuple[dict[str, Any], str], at: int, places: list[int]
) -> None:
    text = drawn[1]
    prefix = text[: 1 + at % (len(text) - 1)]
    assume(prefix != text)
    fragments = cut(prefix, places)
    assume(not are_snapshots(fragments))
    parsed = parse_arguments(fragments)
    assert parsed.args is None
    assert parsed.error == "truncated"
    assert not is_object(prefix)


@given(st.lists(st.text(), max_size=5))
def test_nothing_that_a_model_writes_makes_it_raise(fragments: list[str]) -> None:
    parsed = parse_arguments(fragments)
    assert (parsed.args is None) == (parsed.error is not None)


@given(st.text(alphabet='{}[]":,\\ue1.-tfn \n', max_size=30))
def test_json_like_rubbish_is_never_an_object_that_json_does_not_know(text: str) -> None:
    parsed = parse_arguments([text])
    if parsed.args is not None and not parsed.repaired and text.strip():
        assert json.loads(text) == parsed.args


@given(objects, st.lists(st.integers(0, 200), min_size=1, max_size=6))
def test_snapshots_read_as_the_last_one(value: dict[str, Any], places: list[int]) -> None:
    text = json.dumps(value)
    ends = sorted({1 + p % len(text) for p in places} | {len(text)})
    parsed = parse_arguments([text[:end] for end in ends])
    assert parsed.args == value


@given(objects, st.integers(1, 2))
def test_double_encoding_is_unwrapped_up_to_twice(value: dict[str, Any], times: int) -> None:
    text = json.dumps(value)
    for _ in range(times):
        text = json.dumps(text)
    assert parse_arguments([text]) == (value, None, True)
    assert parse_arguments([text[:-1]]) == (None, "truncated", False)


@given(objects, st.integers(1, 300))
def test_an_object_followed_by_its_own_beginning_is_read_once(value: dict[str, Any], length: int) -> None:
    assume(value)
    text = json.dumps(value)
    assert parse_arguments([text, (text * 3)[:length]]).args == value


@given(st.text(st.characters(max_codepoint=0x1F)))
def test_raw_control_characters_in_a_string_are_kept(raw: str) -> None:
    assert parse_arguments([f'{{"body":"a{raw}b"}}']).args == {"body": f"a{raw}b"}


@pytest.mark.parametrize(
    ("fragments", "args"),
    [
        ([], {}),
        ([""], {}),
        ([" \n", ""], {}),
        (["{}"], {}),
        (["{ }"], {}),
        (['{"a":', "1}"], {"a": 1}),
        (['{"a":123456789012345678901234567890}'], {"a": 123456789012345678901234567890}),
        (['{"a":1,"a":2}'], {"a": 2}),
        ([' {"a":"\u2028"}\n'], {"a": "\u2028"}),
        # a backslash that begins no escape; \u without four digits; a valid escape stays one
        ([r'{"p":"C:\data\q1","r":"\d+\n"}'], {"p": r"C:\data\q1", "r": "\\d+\n"}),
        ([r'{"p":"\users\u00e4\u12"}'], {"p": "\\users\u00e4\\u12"}),
        # snapshots
        (['{"sku":', '{"sku":"K-7",', '{"sku":"K-7","qty":2}'], {"sku": "K-7", "qty": 2}),
        (["", '{"q":"an', '{"q":"anchor\n"}'], {"q": "anchor\n"}),
        (['{"a":1', '{"a":1}', '{"a":1}'], {"a": 1}),
        # the beginning of a deeper object would look the same; the rule says snapshots
        (['{"a":', '{"a":1}'], {"a": 1}),
        # spare closers, the object again, a leading empty object
        (['{"row":2}}'], {"row": 2}),
        (['{"row":[2]}]} }\n'], {"row": [2]}),
        (['{"q":"fog horn"}', '{"q":"fog'], {"q": "fog horn"}),
        (['{"q":"x"}\n{"q":"x"}\n'], {"q": "x"}),
        (['{"q":"x",', '"n":[1]}', '{"n": [1], "q": "x"}'], {"q": "x", "n": [1]}),
        (["{}", '{"sku":"A-1"}'], {"sku": "A-1"}),
        (['{}{ }\n{"sku":"A-1"}}'], {"sku": "A-1"}),
        (["{}{}"], {}),
        (["{}}"], {}),
        # two faults at once
        (['"{\\"body\\":\\"a\nb\\"}"'], {"body": "a\nb"}),
        (['{"body":"a\nb"}}'], {"body": "a\nb"}),
    ],
)
def test_what_is_read(fragments: list[str], args: dict[str, Any]) -> None:
    parsed = parse_arguments(fragments)
    assert parsed.args == args
    assert parsed.error is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"path":"plan.md","body":"First line\\nSecond li', "truncated"),
        ('{"path":"C:\\"}', "truncated"),
        ("{", "truncated"),
        ('{"a', "truncated"),
        ('{"a":-', "truncated"),
        ('{"a":1.', "truncated"),
        ('{"a":1e+', "truncated"),
        ('{"a":tru', "truncated"),
        ('{"a":[1,2', "truncated"),
        ('{"a":"\\', "truncated"),
        ('{"a":"\\u00', "truncated"),
        ('{}{"sku":', "truncated"),
        ("{}{", "truncated"),
        ('"{\\"a\\":1', "truncated"),
        ('"{\\"a\\":"', "truncated"),
        ('{"a":' * 50_000, "truncated"),
        ('{"a":1}{"a":2}', "multiple_values"),
        ('{"a":1}{"a":1.0}', "multiple_values"),
        ('{"a":1}{ "a":true}', "multiple_values"),
        ('{"a":1}{ "a":1}{ "a":1}', "multiple_values"),
        ('{"a":1}{"b":', "multiple_values"),
        ('{"a":1} 5', "multiple_values"),
        ("1 2", "multiple_values"),
        ("[1]", "not_object"),
        ("5", "not_object"),
        ("null", "not_object"),
        ('"Paris"', "not_object"),
        ('"{Paris}"', "not_object"),
        (json.dumps(json.dumps(json.dumps('{"a":1}'))), "not_object"),
        ("weather in Paris", "invalid_json"),
        ("{'a':1}", "invalid_json"),
        ('{"a":1,}', "invalid_json"),
        ('{"a" 1}', "invalid_json"),
        ('{"a":01}', "invalid_json"),
        ('{"a":1} and so on', "invalid_json"),
        ('{"a":1},{"b":2}', "invalid_json"),
        ('{"a":NaN}', "invalid_json"),
        ('{"a":Infinity}', "invalid_json"),
        ('{"a":1e400}', "invalid_json"),
        ('{"a":"\\ud800"}', "invalid_json"),
        ('{"a":"\ud800"}', "invalid_json"),
        ('```json\n{"a":1}\n```', "invalid_json"),
        ("]", "invalid_json"),
        ('{"a":' * 50_000 + "1" + "}" * 50_000, "invalid_json"),
    ],
)
def test_what_is_an_error(text: str, error: str) -> None:
    assert parse_arguments([text]) == (None, error, False)


def test_snapshots_whose_last_is_cut_off_are_truncated() -> None:
    assert parse_arguments(['{"q":"an', '{"q":"anch', '{"q":"anchor"']).error == "truncated"


@pytest.mark.parametrize("text", ["", " ", "{", '{"a":1', '{"a":1},', "[1]", '"{}"', "x{}"])
def test_what_cannot_be_whole_does_not_look_complete(text: str) -> None:
    assert not looks_complete(text)


def test_thousands_of_repetitions_are_read_in_linear_time() -> None:
    assert parse_arguments(["{}" * 100_000 + '{"a":1}']).args == {"a": 1}
    assert parse_arguments(['{"a":1}' * 50_000]).args == {"a": 1}
