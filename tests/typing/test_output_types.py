"""What a type checker knows of `Response.output`; checked by pyright, and true when it runs as well."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Literal, assert_type

from pydantic import Field

import headwater as hw
from headwater.drive.pieces import Pieces
from headwater.testing import ScriptedModel
from tests.agents.outputs import Invoice, Movie, Point, Refusal


def model(*answers: object) -> ScriptedModel:
    return ScriptedModel([answer if isinstance(answer, str) else json.dumps(answer) for answer in answers])


def test_without_a_type_the_output_is_none() -> None:
    agent = hw.ReActAgent(model=model("hi", "hi"))
    assert_type(agent, hw.ReActAgent[None])
    assert_type(agent.call("Go."), hw.Response[None])
    output = hw.SimpleAgent(model=model("hi")).call("Go.").output
    assert_type(output, None)


def test_the_output_has_the_agents_type() -> None:
    agent = hw.SimpleAgent(model=model({"x": 1}, {"x": 2}, {"x": 3}), output_type=Point)
    assert_type(agent, hw.SimpleAgent[Point])
    assert_type(agent.call("Go.").output, Point)
    run = agent.stream("Go.")
    assert_type(run, hw.Run[Point])
    with run as entered:
        assert_type(entered, hw.SyncRun[Point])
        assert_type(entered.partial(), Iterator[Point])
        assert_type(entered.response(), hw.Response[Point])
    pieces = agent.stream("Go.").partial()
    assert_type(pieces, Pieces[Point])
    assert [point.x for point in pieces] == [3]


def test_types_that_are_no_classes_are_known_too() -> None:
    invoice: Any = {"value": {"reason": "no"}}
    assert_type(
        hw.SimpleAgent(model=model(invoice), output_type=Invoice | Refusal).call("Go.").output, Invoice | Refusal
    )
    assert_type(hw.SimpleAgent(model=model("[1]"), output_type=list[int]).call("Go.").output, list[int])
    assert_type(hw.SimpleAgent(model=model('"a"'), output_type=Literal["a", "b"]).call("Go.").output, Literal["a", "b"])
    assert_type(hw.SimpleAgent(model=model("3"), output_type=Annotated[int, Field(gt=2)]).call("Go.").output, int)
    assert_type(hw.SimpleAgent(model=model("null"), output_type=int | None).call("Go.").output, int | None)
    assert_type(
        hw.SimpleAgent(model=model({"title": "Ran", "year": 1985}), output_type=Movie).call("Go.").output, Movie
    )


def test_a_runs_own_type_wins() -> None:
    agent = hw.SimpleAgent(model=model("3", "3", "plain"), output_type=Point)
    assert_type(agent.call("Go.", output_type=int).output, int)
    assert_type(agent.stream("Go.", output_type=int), hw.Run[int])
    assert_type(agent.call("Go.", output_type=None, model=model("hi")).output, None)


async def is_known_of_asynchronous_code(agent: hw.ReActAgent[Point]) -> None:
    assert_type(await agent.call_async("Go."), hw.Response[Point])
    assert_type(await agent.resume_async([], session="s"), hw.Response[Point])
    assert_type(agent.resume([], session="s", output_type=int), hw.Response[int])
    async with agent.stream("Go.") as run:
        assert_type(run, hw.Run[Point])
        assert_type(aiter(run.partial()), AsyncIterator[Point])
        assert_type(await run.response(), hw.Response[Point])
    anything: hw.Response = await agent.call_async("Go.")
    assert_type(anything.output, Any)
