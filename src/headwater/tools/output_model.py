"""JSON Schema and validation of an answer's type, by pydantic. Imported at the first use only: it is slow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import msgspec
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

from headwater.tools.described import described
from headwater.tools.output_schema import strict_schema
from headwater.tools.problems import Problem
from headwater.tools.schema import problems_of
from headwater.tools.tidy import Schema, tidy_schema, tidy_value

KEY = "value"
"""An answer that is no JSON object is asked for as the only value of one."""


class ModelOfOutput:
    """The schema of an answer and its validator. `wraps`: the answer is the value of `KEY` in an object.

    Raises `UsageError` for a type that JSON Schema cannot describe.
    """

    def __init__(self, output_type: Any) -> None:
        self._adapter, schema = described(output_type, "output_type")
        full = tidy_value(schema, keep_null=True)
        self.wraps = full.get("type") != "object"
        if self.wraps:
            self.schema = _wrapped(tidy_value(schema))
            self.strict = strict_schema(_wrapped(full))
        else:
            self.schema = tidy_schema(schema)
            self.strict = strict_schema(full)

    def judge(self, text: str) -> tuple[Any, Any] | list[Problem]:
        """The value and its plain JSON form, or what is wrong with valid JSON."""
        try:
            given: Any = msgspec.json.decode(text)
        except msgspec.MsgspecError as error:
            return [Problem("the answer", f"cannot be read ({error})")]
        found: list[Problem] = []
        if self.wraps and isinstance(given, dict) and cast("dict[str, Any]", given).keys() == {KEY}:
            inner = cast("dict[str, Any]", given)[KEY]
            judged = self._judge(to_json(inner).decode(), inner, KEY)
            if isinstance(judged, tuple):
                return judged
            found = judged
        # A model that answers with the bare value has said what it means as well.
        judged = self._judge(text, given, "the answer")
        return found or judged if isinstance(judged, list) else judged

    def _judge(self, text: str, given: Any, name: str) -> tuple[Any, Any] | list[Problem]:
        try:
            value = self._adapter.validate_json(text)
        except ValidationError as error:
            return problems_of(error, given, root=name)
        except Exception as error:  # noqa: BLE001 a validator of the user's own that fails in its own way
            return [Problem(name, f"cannot be validated ({type(error).__name__}: {error})")]
        return value, self._plain(value, given)

    def _plain(self, value: Any, given: Any) -> Any:
        try:
            return msgspec.json.decode(self._adapter.dump_json(value, by_alias=True, warnings="none"))
        except (PydanticSerializationError, msgspec.MsgspecError, ValueError):
            return given  # a type that can be read and not written: what the model wrote is its JSON form

    def partial(self, text: str) -> tuple[Any, Any] | None:
        """The data and the value of an answer that is still being written; None while nothing of it validates.

        What stands last and does not fit yet is left out.
        """
        try:
            data: Any = from_json(text, allow_partial="trailing-strings")
        except ValueError:
            return None
        if self.wraps and isinstance(data, dict) and cast("dict[str, Any]", data).keys() <= {KEY}:
            if KEY not in data:
                return None
            data = cast("dict[str, Any]", data)[KEY]
        for shorter in _shortened(data):
            try:
                value = self._adapter.validate_json(to_json(shorter), experimental_allow_partial="trailing-strings")
            except Exception:  # noqa: BLE001 what is not complete may fail in any way
                continue
            return shorter, value
        return None


def _wrapped(schema: Schema) -> Schema:
    body = {key: value for key, value in schema.items() if key != "$defs"}
    out: Schema = {"type": "object", "properties": {KEY: body}, "required": [KEY], "additionalProperties": False}
    if "$defs" in schema:
        out["$defs"] = schema["$defs"]
    return out


def _shortened(data: Any) -> Iterator[Any]:
    """The data, then the data without its last leaf, without the container of that, and so on, changed in place."""
    yield data
    path: list[Any] = []
    at = data
    while isinstance(at, dict | list) and at:
        path.append(at)
        items = cast("dict[str, Any] | list[Any]", at)
        at = items[next(reversed(items))] if isinstance(items, dict) else items[-1]
    for container in reversed(path):
        if isinstance(container, dict):
            cast("dict[str, Any]", container).popitem()
        else:
            container.pop()
        yield data
