"""What the answer to a question has to be. Imported at the first question only: pydantic is slow."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from pydantic import ValidationError

from headwater.tools.check import ANSWER, answer_problem
from headwater.tools.described import described
from headwater.tools.output import Invalid, Judged, Valid
from headwater.tools.problems import lines_of
from headwater.tools.schema import problems_of
from headwater.tools.tidy import tidy_value


class AnswerForm:
    """A type that pydantic can describe, or a JSON Schema as a dict. Raises `UsageError` for anything else.

    `schema` is plain JSON, as a log gives it back.
    """

    def __init__(self, given: Any) -> None:
        self._adapter = None
        if isinstance(given, dict):
            schema = cast("dict[str, Any]", given)
        else:
            self._adapter, schema = described(given, "schema")
            schema = tidy_value(schema, keep_null=True)
        self.schema: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(schema))

    def judge(self, value: Any) -> Judged:
        """The answer as a value of the type, or what is wrong with it."""
        if self._adapter is None:
            problem = answer_problem(value, self.schema)
            return Invalid(problem) if problem else Valid(value, value)
        try:
            return Valid(self._adapter.validate_json(msgspec.json.encode(value)), value)
        except ValidationError as error:
            return Invalid(lines_of(problems_of(error, value, root=ANSWER)))
        except Exception as error:  # noqa: BLE001 a validator of the user's own that fails in its own way
            return Invalid(f"it cannot be validated ({type(error).__name__}: {error})")
