"""A tool's question at a terminal: asked for as its schema has it, until the answer fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

from headwater.cli.safe import escape, visible
from headwater.cli.terminal import Terminal
from headwater.core.decisions import Decision, Respond, Skip
from headwater.events import HITLTask
from headwater.tools.check import answer_problem

_NULL = {"type": "null"}
_YES_NO = {"y": True, "yes": True, "n": False, "no": False}


def answer(task: HITLTask, schema: dict[str, Any], out: Terminal) -> Decision:
    """The person's answer to the task's question; an empty line leaves it unanswered, and the call ends there."""
    form, may_be_null = _form(schema)
    prompt, read = _reader(form, out)
    out.line("(empty: none)" if may_be_null else "(empty: no answer, and the call ends)", "dim")
    while True:
        text = input(prompt).strip()
        if not text:
            return Respond(task.call_id, value=None, digest=task.digest) if may_be_null else _skip(task)
        try:
            value = read(text)
        except ValueError as error:
            out.line(str(error), "red")
            continue
        problem = answer_problem(value, schema)
        if not problem:
            return Respond(task.call_id, value=value, digest=task.digest)
        out.line(visible(problem), "red")


def _skip(task: HITLTask) -> Decision:
    return Skip(task.call_id, digest=task.digest)


def _form(schema: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """The schema without its null, and whether it had one."""
    options: Any = schema.get("anyOf")
    if not isinstance(options, list):
        return schema, schema == _NULL
    rest: list[Any] = [option for option in cast("list[Any]", options) if option != _NULL]
    has_null = len(rest) < len(cast("list[Any]", options))
    return (cast("dict[str, Any]", rest[0]) if len(rest) == 1 else {"anyOf": rest}), has_null


def _reader(form: dict[str, Any], out: Terminal) -> tuple[str, Callable[[str], Any]]:
    """The prompt for a form, and what reads an answer to it (raising `ValueError`, with what to say)."""
    choices: Any = form.get("enum")
    if isinstance(choices, list) and choices:
        return _choice(cast("list[Any]", choices), out)
    match form.get("type"):
        case "boolean":
            return "[y]es / [n]o: ", _read_yes_no
        case "string":
            return "answer: ", str
        case "integer" | "number":
            return f"{form['type']}: ", _read_json
        case _:
            out.line(escape(msgspec.json.encode(form).decode()), "dim")
            return "answer as JSON: ", _read_json


def _choice(choices: Sequence[Any], out: Terminal) -> tuple[str, Callable[[str], Any]]:
    """The choices, numbered: an answer is one of them, or its number."""
    shown = [choice if isinstance(choice, str) else msgspec.json.encode(choice).decode() for choice in choices]
    for number, text in enumerate(shown, 1):
        out.line(f"  {number}  {escape(text)}")

    def read(text: str) -> Any:
        if text in shown:
            return choices[shown.index(text)]
        if text.isdecimal() and 1 <= int(text) <= len(choices):
            return choices[int(text) - 1]
        raise ValueError(f"one of these, or its number from 1 to {len(choices)}")

    return "which: ", read


def _read_yes_no(text: str) -> bool:
    if text.lower() not in _YES_NO:
        raise ValueError("y or n")
    return _YES_NO[text.lower()]


def _read_json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError as error:
        raise ValueError(f"no JSON: {error}") from error
