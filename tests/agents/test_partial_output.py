"""`run.partial()`: the answer as it grows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.chat.profile import OutputMode
from headwater.errors import InvalidOutput
from headwater.teams import Sequential, TeamAgent
from headwater.testing import ScriptedModel, call, say
from headwater.tools.output import Output
from tests.agents.outputs import Invoice, Line, Movie, Point
from tests.agents.support import run as run_async

GOOD = {"number": "A1", "lines": [{"name": "tea", "price": 12.5}, {"name": "jam", "price": 3}], "note": "so"}
STEPS = [
    Invoice(number=""),
    Invoice(number="A"),
    Invoice(number="A1"),
    Invoice(number="A1", lines=[Line(name="tea", price=12.5)]),
    Invoice(number="A1", lines=[Line(name="tea", price=12.5), Line(name="jam", price=3)]),
    Invoice(number="A1", lines=[Line(name="tea", price=12.5), Line(name="jam", price=3)], note=""),
    Invoice(number="A1", lines=[Line(name="tea", price=12.5), Line(name="jam", price=3)], note="s"),
    Invoice(number="A1", lines=[Line(name="tea", price=12.5), Line(name="jam", price=3)], note="so"),
]


def agent(*replies: Any, mode: OutputMode = "prompt", output_type: Any = Invoice) -> hw.SimpleAgent[Any]:
    return hw.SimpleAgent(model=ScriptedModel(replies), output_mode=mode, output_type=output_type)


@pytest.mark.parametrize("mode", ["native", "prompt", "tool"])
def test_values_grow_and_none_comes_twice(mode: OutputMode) -> None:
    text = json.dumps(GOOD)
    reply = [call("final_answer", text, cut=1)] if mode == "tool" else [say(text, cut=1)]
    assert list(agent(reply, mode=mode).stream("Go.").partial()) == STEPS


def test_asynchronous_code_reads_the_same_and_gets_the_response_after_it() -> None:
    async def main() -> None:
        run = agent([say("Here:\n```json\n" + json.dumps(GOOD) + "\n```\nBye {}.", cut=1)]).stream("Go.")
        async with run:
            assert [value async for value in run.partial()] == STEPS
            assert (await run.response()).output == STEPS[-1]

    run_async(main)


def test_in_a_with_block_the_response_follows_too() -> None:
    with agent([say(json.dumps(GOOD), cut=7)]).stream("Go.") as run:
        values = list(run.partial())
        assert values[-1] == run.response().output == STEPS[-1]


def test_a_number_is_there_when_it_is_over() -> None:
    values = list(agent([say('{"x": 123, "y": 45}', cut=1)], output_type=Point).stream("Go.").partial())
    assert values == [Point(123), Point(123, 45)]


def test_a_list_grows_by_whole_items_and_a_dict_by_its_keys() -> None:
    reply = [say('{"value": [{"title": "Ran", "year": 1985}, {"title": "Ikiru", "year": 1952}]}', cut=1)]
    values = list(agent(reply, output_type=list[Movie]).stream("Go.").partial())
    assert [len(value) for value in values] == [0, 1, 2]
    reply = [say('{"a": 1, "b": 2}', cut=1)]
    assert list(agent(reply, output_type=dict[str, int]).stream("Go.").partial())[-1] == {"a": 1, "b": 2}


def test_after_an_answer_that_does_not_fit_the_next_one_grows_anew() -> None:
    replies = [[say('{"number": "B", "lines": 3}', cut=1)], [say('{"number": "C"}', cut=1)]]
    values = list(agent(*replies).stream("Go.").partial())
    assert [value.number for value in values] == ["", "B", "", "C"]


def test_a_failure_is_raised_after_what_came_before_it() -> None:
    values = iter(agent(*['{"number": "B", "lines": 3}'] * 2).stream("Go.").partial())
    assert next(values) == Invoice(number="B")
    with pytest.raises(InvalidOutput):
        next(values)


def test_without_a_type_there_is_nothing_to_grow() -> None:
    run = hw.SimpleAgent(model=ScriptedModel(["hi"])).stream("Go.")
    with pytest.raises(hw.UsageError, match="output_type"):
        run.partial()


LINES = st.builds(Line, name=st.text(max_size=5), price=st.floats(0, 1e6))
INVOICES = st.builds(
    Invoice, number=st.text(max_size=8), lines=st.lists(LINES, max_size=3), note=st.none() | st.text(max_size=5)
)
INVOICE = Output(Invoice)


@given(INVOICES, st.sampled_from([None, 2]))
def test_every_beginning_of_an_answer_validates_or_waits_and_lines_are_never_half(
    invoice: Invoice, indent: int | None
) -> None:
    text = invoice.model_dump_json(indent=indent)
    for end in range(len(text) + 1):
        partial = INVOICE.partial(text[:end])
        if partial is None:
            continue
        value = partial[1]
        assert invoice.number.startswith(value.number) or "\\" in text
        for grown, whole in zip(value.lines, invoice.lines, strict=False):
            assert grown.price == pytest.approx(whole.price)
    whole = INVOICE.partial(text)
    assert whole is not None
    assert whole[1] == invoice


def test_a_teams_value_is_there_once_it_is_known() -> None:
    writer = hw.SimpleAgent("writer", model=ScriptedModel([json.dumps(GOOD)]))
    with TeamAgent("desk", [writer], Sequential(), output_type=Invoice).stream("Write it.") as stream:
        assert list(stream.partial()) == [STEPS[-1]]
