"""What the model reads of returned values and exceptions, and what progress may hold."""

from __future__ import annotations

import base64
import datetime
import json
import pathlib
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from headwater.errors import ToolError, UsageError
from headwater.events import ToolStatus
from headwater.messages import MediaPart
from headwater.tools import ToolContext, ToolResult, ToolStopped
from headwater.tools.outcome import outcome_of, outcome_of_error


class Model(BaseModel):
    when: datetime.date


class Record(msgspec.Struct):
    x: int


@dataclass
class Point:
    x: int
    model: Model


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain \u4f60\u597d", "plain \u4f60\u597d"),
        ("", ""),
        (None, "(no result)"),
        (True, "true"),
        (3, "3"),
        (2**70, str(2**70)),
        (1.5, "1.5"),
        ({"a": [1, None, "\u4f60"]}, '{"a":[1,null,"\u4f60"]}'),
        ({1: "int key", (1, 2): float("nan")}, '{"1":"int key","(1, 2)":null}'),
        ({None: 1, True: 2}, '{"null":1,"true":2}'),
        ([], "[]"),
        (("a", 1), '["a",1]'),
        (Model(when=datetime.date(2030, 1, 2)), '{"when":"2030-01-02"}'),
        ([Point(1, Model(when=datetime.date(2030, 1, 2)))], '[{"x":1,"model":{"when":"2030-01-02"}}]'),
        (Record(1), '{"x":1}'),
        (Colour.RED, "red"),
        (datetime.date(2030, 1, 2), "2030-01-02"),
        (pathlib.PurePosixPath("/a/b"), "/a/b"),
        ({"path": pathlib.PurePosixPath("/a")}, '{"path":"/a"}'),
        (range(3), "[0,1,2]"),
        ("lone \ud800", "lone ?"),
    ],
)
def test_values_become_text(value: Any, text: str) -> None:
    outcome = outcome_of(value)
    assert outcome.status is ToolStatus.OK
    assert outcome.text == text
    outcome.text.encode()


def test_json_that_holds_invalid_unicode_is_escaped() -> None:
    text = outcome_of({"a": "\ud800"}).text
    text.encode()
    assert json.loads(text) == {"a": "\ud800"}


def test_media_alone_or_in_a_list_is_media_with_a_text() -> None:
    image = MediaPart(media_type="image/png", data="eA==", name="plot.png")
    alone = outcome_of(image)
    assert (alone.media, alone.text) == ((image,), "(image/png plot.png)")
    mixed = outcome_of(["Here it is", image, {"w": 3}])
    assert (mixed.media, mixed.text) == ((image,), 'Here it is\n{"w":3}')


def test_bytes_are_media_of_the_kind_their_first_bytes_say() -> None:
    png = b"\x89PNG\r\n\x1a\n\x00"
    outcome = outcome_of(png)
    assert outcome.media == (MediaPart(media_type="image/png", data=base64.b64encode(png).decode()),)
    assert outcome.text == "(image/png)"
    assert outcome_of(b"RIFF\x00\x00\x00\x00WEBP").media[0].media_type == "image/webp"
    assert outcome_of(b"\x00").media[0].media_type == ""


def test_tool_result_says_it_all() -> None:
    image = MediaPart(url="http://localhost/x.png")
    fine = outcome_of(ToolResult("done", media=(image,)))
    assert (fine.status, fine.text, fine.media, fine.error) == (ToolStatus.OK, "done", (image,), None)
    bad = outcome_of(ToolResult("no such port", is_error=True))
    assert bad.status is ToolStatus.ERROR
    assert bad.error is not None
    assert (bad.error.kind, bad.error.message) == ("ToolError", "no such port")


def test_values_whose_own_code_fails_are_error_outcomes() -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    outcome = outcome_of(Broken())
    assert outcome.status is ToolStatus.ERROR
    assert outcome.text == "The tool ran, but its result cannot be shown: RuntimeError: no text"
    loop: list[Any] = []
    loop.append(loop)
    assert outcome_of(loop).text.startswith("The tool ran, but its result cannot be shown: RecursionError")
    assert "emit_progress" in outcome_of(x for x in "ab").text


def test_exceptions_are_class_and_message_without_a_traceback() -> None:
    try:
        raise ValueError("bad port")
    except ValueError as error:
        outcome = outcome_of_error(error)
    assert (outcome.status, outcome.text) == (ToolStatus.ERROR, "ValueError: bad port")
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.message) == ("ValueError", "ValueError: bad port")
    assert outcome_of_error(TimeoutError()).text == "TimeoutError"
    assert outcome_of_error(ToolError("Try Oslo.")).text == "Try Oslo."


def test_a_group_of_exceptions_is_its_members() -> None:
    group = ExceptionGroup("tasks", [ValueError("a"), ExceptionGroup("more", [ToolError("b")])])
    assert outcome_of_error(group).text == "ValueError: a; b"
    single = outcome_of_error(ExceptionGroup("tasks", [ValueError("a")]))
    assert single.error is not None
    assert single.error.kind == "ValueError"


def test_an_exception_without_a_usable_message_is_its_class() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert outcome_of_error(Mute()).text == "Mute"


def test_progress_is_a_snapshot_of_json() -> None:
    seen: list[Any] = []
    context = ToolContext(on_progress=seen.append, on_custom=lambda name, data: seen.append((name, data)))
    data = {"done": [1, float("nan")], "point": Point(1, Model(when=datetime.date(2030, 1, 2)))}
    context.emit_progress(data)
    data["done"] = []
    context.emit("step", {1})
    assert seen == [{"done": [1, None], "point": {"x": 1, "model": {"when": "2030-01-02"}}}, ("step", [1])]


def test_progress_that_is_not_json_is_refused_where_it_is_emitted() -> None:
    seen: list[Any] = []
    context = ToolContext(on_progress=seen.append)
    loop: list[Any] = []
    loop.append(loop)
    for bad in (object(), {(1, 2): 3}, {"x": lambda: 1}, "\ud800", loop):
        with pytest.raises(UsageError, match="Progress data must be a JSON value"):
            context.emit_progress(bad)
    with pytest.raises(UsageError, match="event 'step' must be a JSON value: object objects have no JSON form"):
        context.emit("step", object())
    assert seen == []


def test_a_context_has_an_idempotency_key_and_a_flag() -> None:
    context = ToolContext(run_id="r1", call_id="c1", attempt=2)
    assert context.idempotency_key == "r1/c1"
    assert not context.cancelled
    context.raise_if_cancelled()
    context.flag.is_set = True
    assert context.cancelled
    with pytest.raises(ToolStopped):
        context.raise_if_cancelled()
    assert not issubclass(ToolStopped, Exception)
