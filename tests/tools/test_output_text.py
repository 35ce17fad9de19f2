"""Which JSON an answer is read as, and which is not guessed at."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, Field

from headwater.errors import UsageError
from headwater.tools.output import Invalid, Output, Valid
from headwater.tools.output_text import NoJSON, find_json, growing_json
from tests.agents.outputs import Invoice, Node


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('  \n{"a": 1}\n', {"a": 1}),
        ("[1, 2]", [1, 2]),
        ("7", 7),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('```\n{"a": 1}\n```', {"a": 1}),
        ('Use {braces}:\n```json\n{"a": 1}\n```\nDone {}.', {"a": 1}),
        ('```python\nprint(1)\n```\nand\n```json\n{"a": 1}\n```', {"a": 1}),
        ('```json\n{"a": "```"}\n```', {"a": "```"}),
        ('The answer is {"a": {"b": [1]}}. Bye!', {"a": {"b": [1]}}),
        ('{"a": 1}\n\nIs there anything else?', {"a": 1}),
        ('{"a": "one\ntwo\tthree"}', {"a": "one\ntwo\tthree"}),
        ('{"a": 123456789012345678901234567890}', {"a": 123456789012345678901234567890}),
    ],
)
def test_plain_json_is_found(text: str, value: Any) -> None:
    found = find_json(text)
    assert isinstance(found, str)
    assert json.loads(found) == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no JSON object"),
        ("It is three.", "no JSON object"),
        ('{"a": 1', "no valid JSON"),
        ('{"a": 1} {"a": 2}', "no valid JSON"),
        ('First {"a": 1}, then {"a": 2}.', "no valid JSON"),
        ('```json\n{"a": 1}\n```\n```json\n{"a": 2}\n```', "several blocks"),
        ("{'a': 1}", "no valid JSON"),
        ('{"a": 1,}', "no valid JSON"),
        ('{"a": NaN}', "no valid JSON"),
        ("[" * 20_000 + "]" * 20_000, "nested too deeply"),
    ],
)
def test_what_is_not_plain_is_not_guessed(text: str, problem: str) -> None:
    found = find_json(text)
    assert isinstance(found, NoJSON)
    assert problem in found.problem


@pytest.mark.parametrize(
    ("text", "growing"),
    [
        ("", ""),
        ("Well", ""),
        ("Here:\n```js", ""),
        ('Here:\n```json\n{"a": "b', '{"a": "b'),
        ('```json\n{"a": 1}\n```\nBye', '{"a": 1}\n'),
        ('So {"a": [', '{"a": ['),
        ('{"a": 12', '{"a": '),
        ("-3.5e", ""),
    ],
)
def test_growing_json_begins_where_json_begins_and_holds_no_open_number(text: str, growing: str) -> None:
    assert growing_json(text) == growing


class Limited(BaseModel):
    """Something."""

    name: str = Field(min_length=2, description="Its name")
    rank: int = Field(3, ge=1)
    home: dict[str, int] = {}


class Closed(BaseModel):
    name: str = Field(min_length=2, pattern="a+")
    rank: int = 3


def test_the_strict_form_requires_everything_and_says_in_words_what_it_cannot() -> None:
    assert Output(Limited).strict is None
    assert Output(Closed).strict == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": '(minLength: 2, pattern: "a+")'},
            "rank": {"type": "integer"},
        },
        "required": ["name", "rank"],
        "additionalProperties": False,
    }
    assert Output(tuple[int, str]).strict is None
    assert Output(Any).strict is None


def test_what_fits_the_strict_form_fits_the_type() -> None:
    strict = Output(Invoice).strict
    assert strict is not None
    assert strict["properties"]["note"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert isinstance(Output(Invoice).judge_text('{"number": "a", "lines": [], "note": null}'), Valid)
    recursive = Output(Node).strict
    assert recursive is not None
    assert recursive["$defs"]["Node"]["required"] == ["name", "children"]


def test_a_problem_names_its_place_and_what_was_given() -> None:
    judged = Output(Invoice).judge_text('{"number": "a", "lines": [{"name": "x"}, 3]}')
    assert judged == Invalid(
        "it does not fit:\n- lines[0].price: required, but missing\n- lines[1]: should be an object; given: 3"
    )
    judged = Output(list[int]).judge_text('{"value": [1, "x"]}')
    assert isinstance(judged, Invalid)
    assert "[1]: should be a valid integer" in judged.problem


def test_text_that_utf8_cannot_carry_is_a_problem_of_the_answer() -> None:
    assert isinstance(Output(Invoice).judge_text('{"number": "\\ud800"}'), Invalid)
    assert isinstance(Output(Invoice).judge_args({"number": "\ud800"}), Invalid)
    assert isinstance(Output(float).judge_args({"value": float("nan")}), Invalid)


@pytest.mark.parametrize("output_type", [lambda: 0, "Missing", complex | range])
def test_a_type_that_no_schema_describes_is_refused(output_type: Any) -> None:
    with pytest.raises(UsageError, match="output_type="):
        Output(output_type)
