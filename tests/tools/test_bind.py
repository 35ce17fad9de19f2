"""Arguments that a model wrote: what fits, and what the model is told if they do not."""

from __future__ import annotations

from enum import Enum
from typing import Any, cast

import pytest
from pydantic import BaseModel, field_validator

from headwater.errors import ToolArgumentsError, UsageError
from headwater.tools import Tool, ToolContext, as_tool


class Unit(Enum):
    METRIC = "metric"


class Stop(BaseModel):
    port: str
    hours: int = 1


def trip(stops: list[Stop], unit: Unit, notes: dict[str, int] | None = None) -> None: ...


TRIP = as_tool(trip)


def refusal(made: Tool[..., Any], args: Any) -> list[str]:
    with pytest.raises(ToolArgumentsError) as caught:
        made.bind(args)
    first, *rest = str(caught.value).split("\n")
    assert first == f"{made.name} was not run, its arguments do not fit:"
    return rest


def test_the_function_receives_validated_values() -> None:
    bound = TRIP.bind({"stops": [{"port": "Oslo", "hours": "3"}], "unit": "metric"})
    assert bound.args == ()
    assert bound.kwargs == {"stops": [Stop(port="Oslo", hours=3)], "unit": Unit.METRIC, "notes": None}


def test_each_problem_is_a_line_with_path_fault_and_value() -> None:
    args = {"stops": [{"hours": "soon"}, 7], "unit": "cubits", "notes": {"a b": "x"}, "stop": []}
    assert refusal(TRIP, args) == [
        "- stops[0].port: required, but missing",
        '- stops[0].hours: should be a valid integer, unable to parse string as an integer; given: "soon"',
        "- stops[1]: should be an object; given: 7",
        "- unit: should be 'metric'; given: \"cubits\"",
        '- notes["a b"]: should be a valid integer, unable to parse string as an integer; given: "x"',
        "- stop: unknown argument; allowed: stops, unit, notes",
    ]


def test_a_tool_without_parameters_says_so() -> None:
    def clock() -> None: ...

    assert refusal(as_tool(clock), {"zone": 1}) == ["- zone: unknown argument; the tool takes none"]


def test_paths_do_not_show_the_inner_names_of_unions() -> None:
    def f(value: int | list[int]) -> None: ...

    lines = refusal(as_tool(f), {"value": ["x"]})
    assert [line.split(":")[0] for line in lines] == ["- value", "- value[0]"]


def test_long_values_and_long_lists_of_problems_are_cut() -> None:
    def f(numbers: list[int]) -> None: ...

    lines = refusal(as_tool(f), {"numbers": ["x" * 500] * 50})
    assert len(lines) == 11
    assert lines[-1] == "- and 40 more"
    assert all(len(line) < 200 for line in lines)


def test_a_refusal_is_valid_unicode_whatever_was_given() -> None:
    def f(text: int) -> None: ...

    with pytest.raises(ToolArgumentsError) as caught:
        as_tool(f).bind({"text": "\ud800"})
    str(caught.value).encode()


def test_validators_of_the_user_that_raise_anything_are_a_refusal() -> None:
    class Odd(BaseModel):
        x: int

        @field_validator("x")
        @classmethod
        def check(cls, value: int) -> int:
            if value == 1:
                raise ValueError("one is taken")
            raise KeyError("lookup")

    def f(odd: Odd) -> None: ...

    assert refusal(as_tool(f), {"odd": {"x": 1}}) == ["- odd.x: one is taken; given: 1"]
    assert refusal(as_tool(f), {"odd": {"x": 2}}) == ["- arguments: cannot be validated (KeyError: 'lookup')"]


def test_a_tool_that_changes_its_arguments_does_not_change_the_record() -> None:
    def f(data: dict[str, Any], anything: Any) -> None:
        data["inner"].append(1)
        anything.clear()

    args: dict[str, Any] = {"data": {"inner": []}, "anything": {"k": 1}}
    made = as_tool(f)
    made.invoke(made.bind(args), ToolContext())
    assert args == {"data": {"inner": []}, "anything": {"k": 1}}


def test_mutable_defaults_are_not_shared_between_calls() -> None:
    def f(items: list[int] = []) -> list[int]:  # noqa: B006
        items.append(1)
        return items

    made = as_tool(f)
    assert made.invoke(made.bind({}), ToolContext()) == [1]
    assert made.invoke(made.bind({}), ToolContext()) == [1]


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(ToolArgumentsError, match="must be a JSON object"):
        TRIP.bind(cast("Any", [1]))


def same(args: dict[str, Any]) -> dict[str, Any]:
    return args


SEAT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "row": {"type": "integer", "minimum": 1},
        "side": {"enum": ["left", "right"]},
        "who": {"$ref": "#/$defs/Person"},
        "tags": {"type": "array", "items": {"type": ["string", "null"]}},
        "when": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["day"]}]},
    },
    "required": ["row"],
    "additionalProperties": False,
    "$defs": {"Person": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
}


def test_a_tool_from_a_schema_gets_the_arguments_as_one_dict() -> None:
    def seat(args: dict[str, Any], ctx: ToolContext) -> Any:
        """Reserve a seat."""
        return args, ctx

    made = Tool.from_schema(seat, SEAT, effect="read")
    assert (made.name, made.description, made.effect, made.parameters) == ("seat", "Reserve a seat.", "read", SEAT)
    given = {"row": 3, "who": {"name": "Ada", "age": 9}, "tags": ["a", None], "when": {"day": 1}}
    context = ToolContext()
    received = made.invoke(made.bind(given), context)
    assert received == (given, context)
    assert received[0] is not given


def test_arguments_are_checked_against_a_schema_from_elsewhere() -> None:
    made = Tool.from_schema(same, SEAT, name="seat", description="")
    given: dict[str, Any] = {"row": 0, "side": "top", "who": {}, "tags": [1], "when": {}, "x": 1}
    assert refusal(made, given) == [
        "- row: should be at least 1; given: 0",
        "- side: should be one of ['left', 'right']; given: \"top\"",
        "- who.name: required, but missing",
        "- tags[0]: should be string or null; given: 1",
        "- when.day: required, but missing",
        "- x: unknown argument; allowed: row, side, who, tags, when",
    ]
    assert refusal(made, {"row": True}) == ["- row: should be integer; given: true"]
    assert refusal(made, {}) == ["- row: required, but missing"]
    assert made.bind({"row": 2.0}).args == ({"row": 2.0},)


def test_a_schema_that_is_odd_itself_refuses_nothing() -> None:
    for odd in (
        {"properties": {"a": {"enum": 3}}},
        {"properties": {"a": {"$ref": "#/$defs/none"}}},
        {"allOf": [{"$ref": "#"}]},
        {"properties": {"a": {"minimum": "x", "type": "thing"}}},
        {"required": 3},
    ):
        made = Tool.from_schema(same, odd, name="t", description="")
        assert made.bind({"a": 1}).args == ({"a": 1},)


def test_a_tool_from_a_schema_may_leave_the_checking_to_itself() -> None:
    made = Tool.from_schema(same, SEAT, name="t", description="", validate=False)
    assert made.bind({"row": "x"}).args == ({"row": "x"},)
    with pytest.raises(UsageError, match="JSON Schema of type object"):
        Tool.from_schema(same, {"type": "array"}, name="t")
