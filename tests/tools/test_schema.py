"""The schema that a model sees, and the functions that cannot have one."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, cast

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from headwater.errors import UsageError
from headwater.tools import ToolContext, Toolset, as_tool, tool


def schema(function: Callable[..., Any]) -> dict[str, Any]:
    return as_tool(function).parameters


def properties(function: Callable[..., Any]) -> dict[str, Any]:
    return schema(function)["properties"]


def test_a_plain_function_becomes_a_closed_object_without_titles() -> None:
    @tool(effect="read", timeout=10)
    async def weather(city: str, days: int = 1) -> str:
        """Current weather and forecast of a city.

        Args:
            city: City name, in any language.
            days: How many days ahead, 1 to 7.
        """
        return f"{city} {days}"

    assert (weather.name, weather.description) == ("weather", "Current weather and forecast of a city.")
    assert (weather.effect, weather.timeout, weather.is_async) == ("read", 10, True)
    assert weather.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "City name, in any language."},
            "days": {"type": "integer", "default": 1, "description": "How many days ahead, 1 to 7."},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


def test_a_function_without_parameters_has_an_empty_closed_object() -> None:
    def clock() -> str:
        return ""

    assert schema(clock) == {"type": "object", "properties": {}, "additionalProperties": False}


def test_literals_enums_and_lists() -> None:
    class Unit(Enum):
        METRIC = "metric"
        US = "us"

    def f(side: Literal["left", "right"], unit: Unit, tags: list[str], pair: tuple[int, str]) -> None: ...

    assert properties(f) == {
        "side": {"type": "string", "enum": ["left", "right"]},
        "unit": {"type": "string", "enum": ["metric", "us"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "pair": {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "minItems": 2,
            "maxItems": 2,
        },
    }


def test_an_optional_parameter_is_shown_as_one_that_may_be_left_out() -> None:
    def f(a: int | None = None, b: str | int | None = None, c: int | None = 3, d: Any = None) -> None: ...

    f.__annotations__["d"] = "int"  # `d: int = None`, as many people write it
    assert properties(f) == {
        "a": {"type": "integer"},
        "b": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "c": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": 3},
        "d": {"type": "integer"},
    }
    assert as_tool(f).bind({"a": None, "d": None}).kwargs == {"a": None, "b": None, "c": 3, "d": None}


def test_a_parameter_that_may_be_null_but_not_left_out_says_so() -> None:
    def f(a: int | None) -> None: ...

    assert schema(f)["required"] == ["a"]
    assert properties(f)["a"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}


def test_models_dataclasses_and_typed_dicts_stand_in_place() -> None:
    class Port(BaseModel):
        """Where a ship calls."""

        title: str
        depth: float = Field(default=2.5, ge=0, description="Metres")

    @dataclass
    class Leg:
        start: Port
        end: Port

    class Options(TypedDict):
        fast: bool

    def plan(legs: list[Leg], options: Options) -> None:
        """Plan a voyage.

        Args:
            legs: In order.
        """

    port = {
        "type": "object",
        "description": "Where a ship calls.",
        "properties": {
            "title": {"type": "string"},
            "depth": {"type": "number", "default": 2.5, "minimum": 0, "description": "Metres"},
        },
        "required": ["title"],
        "additionalProperties": False,
    }
    assert schema(plan) == {
        "type": "object",
        "properties": {
            "legs": {
                "type": "array",
                "description": "In order.",
                "items": {
                    "type": "object",
                    "properties": {"start": port, "end": port},
                    "required": ["start", "end"],
                    "additionalProperties": False,
                },
            },
            "options": {
                "type": "object",
                "properties": {"fast": {"type": "boolean"}},
                "required": ["fast"],
                "additionalProperties": False,
            },
        },
        "required": ["legs", "options"],
        "additionalProperties": False,
    }


class Node(BaseModel):
    name: str
    children: list[Node] = []


def test_only_types_that_contain_themselves_are_references() -> None:
    def grow(root: Node) -> None: ...

    found = schema(grow)
    assert found["properties"]["root"] == {"$ref": "#/$defs/Node"}
    assert found["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    assert "title" not in found["$defs"]["Node"]


def test_discriminated_unions_are_plain_any_of() -> None:
    class Cat(BaseModel):
        kind: Literal["cat"]

    class Dog(BaseModel):
        kind: Literal["dog"]

    def adopt(pet: Annotated[Cat | Dog, Field(discriminator="kind")]) -> None: ...

    pet = properties(adopt)["pet"]
    assert set(pet) == {"anyOf"}
    assert [option["properties"]["kind"]["const"] for option in pet["anyOf"]] == ["cat", "dog"]
    assert isinstance(as_tool(adopt).bind({"pet": {"kind": "dog"}}).kwargs["pet"], Dog)


def test_field_settings_and_descriptions_beside_the_type_win_over_the_docstring() -> None:
    def f(
        a: Annotated[int, Field(ge=1, le=7, description="from Field")],
        b: Annotated[str, "from a string"],
        c: int = Field(default=4, description="as default"),
        d: int = Field(description="required"),
    ) -> None:
        """Do.

        Args:
            a: from the docstring
            b: from the docstring
            c: from the docstring
        """

    assert schema(f)["required"] == ["a", "b", "d"]
    assert properties(f) == {
        "a": {"type": "integer", "minimum": 1, "maximum": 7, "description": "from Field"},
        "b": {"type": "string", "description": "from a string"},
        "c": {"type": "integer", "default": 4, "description": "as default"},
        "d": {"type": "integer", "description": "required"},
    }
    assert as_tool(f).bind({"a": 1, "b": "x", "d": 2}).kwargs["c"] == 4


def test_an_alias_is_the_name_for_the_model_and_not_for_the_function() -> None:
    def f(from_: Annotated[str, Field(alias="from")]) -> None: ...

    assert list(properties(f)) == ["from"]
    assert as_tool(f).bind({"from": "here"}).kwargs == {"from_": "here"}


def test_names_that_models_of_pydantic_reserve_are_ordinary_parameters() -> None:
    def f(json: str, schema: str, copy: bool, model_config: str, model_name: str, _private: int = 0) -> None: ...

    assert list(properties(f)) == ["json", "schema", "copy", "model_config", "model_name", "_private"]


def test_a_default_without_a_json_form_is_used_but_not_shown() -> None:
    marker = object()

    def f(a: Any = marker) -> Any:
        return a

    made = as_tool(f)
    assert made.parameters["properties"] == {"a": {}}
    assert made.bind({}).kwargs["a"] is marker


def test_the_context_parameter_is_hidden_whatever_its_name() -> None:
    def f(a: int, whatever: ToolContext, other: ToolContext | None = None) -> Any:
        return (a, whatever, other)

    made = as_tool(f)
    assert list(made.parameters["properties"]) == ["a"]
    context = ToolContext(call_id="c1")
    assert made.invoke(made.bind({"a": 1}), context) == (1, context, context)


def test_types_may_be_local_to_the_function_that_defines_the_tool() -> None:
    class Kind(Enum):
        A = "a"

    @dataclass
    class Item:
        kind: Kind

    @tool
    def use(items: list[Item]) -> None: ...

    assert use.bind({"items": [{"kind": "a"}]}).kwargs == {"items": [Item(Kind.A)]}


@tool
def _forward(where: _DefinedBelow) -> None: ...


class _DefinedBelow(BaseModel):
    x: int


def test_types_may_be_defined_after_the_tool() -> None:
    assert _forward.parameters["properties"]["where"]["properties"] == {"x": {"type": "integer"}}


def test_a_return_annotation_for_type_checkers_only_is_no_matter() -> None:
    def f(a: int) -> None: ...

    f.__annotations__["return"] = "NotImported"
    assert list(properties(f)) == ["a"]


class Shop:
    """Sells things."""

    def __init__(self, name: str) -> None:
        self.name = name

    def price(self, sku: str) -> str:
        """The price of an article."""
        return f"{self.name}:{sku}"

    @tool(effect="read")
    async def stock(self, sku: str) -> str:
        """How many are left."""
        return f"{self.name}:{sku}"

    async def __call__(self, order: str) -> str:
        return f"{self.name}:{order}"


def test_bound_methods_callable_objects_and_partials_are_tools() -> None:
    shop = Shop("s")
    price = as_tool(shop.price)
    assert (price.name, price.description, list(price.parameters["properties"])) == (
        "price",
        "The price of an article.",
        ["sku"],
    )
    whole = as_tool(shop)
    assert (whole.name, whole.description, whole.is_async) == ("Shop", "Sells things.", True)
    assert list(whole.parameters["properties"]) == ["order"]

    def move(source: str, target: str, count: int = 1) -> tuple[str, str, int]:
        """Move things."""
        return source, target, count

    part = as_tool(functools.partial(move, "a", target="b"))
    assert (part.name, part.description, list(part.parameters["properties"])) == ("move", "Move things.", ["count"])
    assert part.invoke(part.bind({"count": "2"}), ToolContext()) == ("a", "b", 2)


def test_a_decorated_method_is_a_tool_of_each_instance() -> None:
    first, second = Shop("a"), Shop("b")
    assert list(first.stock.parameters["properties"]) == ["sku"]
    assert first.stock.is_async
    tools = Toolset([first.stock])
    assert tools.get("stock") is not None
    coroutine = second.stock("x")
    with pytest.raises(StopIteration) as stop:
        coroutine.send(None)
    assert stop.value.value == "b:x"
    with pytest.raises(UsageError, match=r"method without its object.*instance\.stock"):
        Toolset([Shop.stock])


def test_a_tool_is_still_the_function() -> None:
    @tool(name="add_up", description="Adds.", serial=True, return_direct=True)
    def add(a: int, b: int = 2) -> int:
        """Another text."""
        return a + b

    assert add(1) == 3
    assert (add.name, add.description, add.serial, add.return_direct) == ("add_up", "Adds.", True, True)
    assert add.__doc__ == "Another text."
    assert as_tool(add) is add


class Opaque:
    pass


def test_signatures_that_cannot_work_are_refused_with_what_to_change() -> None:
    def unannotated(x: str) -> None: ...

    del unannotated.__annotations__["x"]

    def star(*paths: str) -> None: ...

    def stars(**options: str) -> None: ...

    def positional(x: str, /) -> None: ...

    def opaque(fine: int, thing: Opaque) -> None: ...

    def nested(things: list[Opaque]) -> None: ...

    def function(callback: Callable[[int], int]) -> None: ...

    def generator(x: int) -> Iterator[int]:
        yield x

    expected: list[tuple[Callable[..., Any], str]] = [
        (unannotated, r"parameter 'x' has no annotation: write its type, such as `x: str`"),
        (star, r"\*paths, which JSON cannot fill: take a list"),
        (stars, r"\*\*options, which tells a model nothing: name the parameters"),
        (positional, r"positional-only, but arguments come by name: remove the `/`"),
        (opaque, r"opaque\): parameter 'thing' has the type Opaque.*ToolContext\.deps"),
        (nested, r"parameter 'things' has the type list\[.*Opaque\]"),
        (function, r"parameter 'callback'"),
        (generator, r"is a generator: return the result.*emit_progress"),
        (lambda: 1, r"cannot be a tool's name.*pass `name=`"),
        (Shop, r"cannot be a tool: pass a function"),
        (threading.Lock().acquire, r"signature|annotation"),
    ]
    for bad, message in expected:
        with pytest.raises(UsageError, match=message):
            as_tool(bad)


def test_a_name_that_is_never_defined_fails_when_an_agent_takes_the_tool() -> None:
    def f(x: int) -> None: ...

    f.__annotations__["x"] = "NeverDefined"
    made = as_tool(f)
    with pytest.raises(UsageError, match=r"NeverDefined.*outside of `if TYPE_CHECKING`"):
        Toolset([made])


def test_options_are_checked() -> None:
    def f() -> None: ...

    with pytest.raises(UsageError, match="effect 'none' must be one of read, idempotent, write"):
        tool(effect=cast("Any", "none"))(f)
    with pytest.raises(UsageError, match="timeout 0 must be seconds above 0"):
        tool(timeout=0)(f)
    with pytest.raises(UsageError, match="'get weather'"):
        tool(name="get weather")(f)
    with pytest.raises(UsageError, match="cannot be a tool's name"):
        tool(name="x" * 65)(f)


def test_two_tools_of_one_name_are_refused_naming_both() -> None:
    def one() -> None: ...

    def two() -> None: ...

    with pytest.raises(UsageError) as caught:
        Toolset([tool(name="same")(one), tool(name="same")(two)])
    assert f"{__name__}:test_two_tools_of_one_name_are_refused_naming_both.<locals>.one" in str(caught.value)
    assert "<locals>.two" in str(caught.value)


def test_a_toolset_keeps_the_order_and_finds_by_name() -> None:
    def b() -> None: ...

    def a() -> None: ...

    tools = Toolset([b, a])
    assert [t.name for t in tools] == ["b", "a"]
    assert tools.names == ("b", "a")
    assert len(tools) == 2
    assert "a" in tools
    assert tools.get("c") is None
