"""What a run has to come to: a type, its JSON Schema, and whether what a model wrote is a value of it."""

from __future__ import annotations

import json
import re
from typing import Any, TypeAlias

import msgspec

from headwater.tools.jsonvalue import safe_text
from headwater.tools.output_text import NoJSON, find_json, growing_json
from headwater.tools.problems import Problem

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MOST = 10


class Valid(msgspec.Struct, frozen=True):
    """The answer fits: the value, and its plain JSON form."""

    value: Any
    json: Any


class Invalid(msgspec.Struct, frozen=True):
    """The answer does not fit; `problem` is written for the model: a clause, or lines after a colon."""

    problem: str


Judged: TypeAlias = Valid | Invalid


class Output:
    """An answer's type: a pydantic model, dataclass, TypedDict, union, `list[...]`, `Literal`, primitive ...

    `schema` is a JSON Schema object; `strict` is the form of it that endpoints enforce strictly, None if it has none.
    Raises `UsageError` for a type that cannot be described.
    """

    def __init__(self, output_type: Any) -> None:
        from headwater.tools.output_model import ModelOfOutput  # slow to import, needed by those who use it only

        self._model = ModelOfOutput(output_type)
        self.output_type = output_type
        self.schema = self._model.schema
        self.strict = self._model.strict
        self.name = "answer"
        """A name for endpoints that ask for one: the class's, or `answer`."""
        if isinstance(output_type, type) and output_type.__module__ != "builtins":
            name = output_type.__name__
            self.name = name if _NAME.fullmatch(name) else self.name

    def judge_text(self, text: str) -> Judged:
        """Judge an answer in text, by the JSON in it."""
        found = find_json(text)
        return Invalid(found.problem) if isinstance(found, NoJSON) else self._judge(found)

    def judge_args(self, args: dict[str, Any]) -> Judged:
        """Judge an answer that came as a call's arguments."""
        return self._judge(json.dumps(args))

    def judge_json(self, value: Any) -> Judged:
        """Judge an answer that is plain JSON already, such as `Response.output` of an event."""
        return self._judge(json.dumps(value))

    def _judge(self, text: str) -> Judged:
        judged = self._model.judge(text)
        return Valid(*judged) if isinstance(judged, tuple) else Invalid(_lines(judged))

    def partial(self, text: str) -> tuple[Any, Any] | None:
        """Of an answer that is still being written, the data so far and its value; None while there is none."""
        text = growing_json(text)
        return self._model.partial(text) if text else None


def _lines(problems: list[Problem]) -> str:
    lines = [problem.line() for problem in problems[:_MOST]]
    if len(problems) > _MOST:
        lines.append(f"- and {len(problems) - _MOST} more")
    return safe_text("\n".join(["it does not fit:", *lines]))
