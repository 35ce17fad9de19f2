"""A type as its JSON Schema, by pydantic. Imported at the first use only: it is slow."""

from __future__ import annotations

import inspect
from typing import Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError

from headwater.errors import UsageError
from headwater.tools.schema import SchemaGenerator
from headwater.tools.tidy import Schema


def described(given: Any, name: str) -> tuple[TypeAdapter[Any], Schema]:
    """The validator of a type and its schema, as pydantic has it.

    Raises `UsageError`, which calls the type `name`, if JSON Schema cannot describe it.
    """
    if inspect.isroutine(given):  # pydantic would validate a call's arguments, and make the call
        raise UsageError(f"{name}={given.__qualname__} is a function, not a type.")
    shown = given.__qualname__ if isinstance(given, type) else str(given)
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(given)
        return adapter, adapter.json_schema(schema_generator=SchemaGenerator)
    except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema) as error:
        raise UsageError(
            f"{name}={shown} cannot be described by a JSON Schema: use plain types, pydantic models, dataclasses, "
            "TypedDicts, Enums, and unions of them."
        ) from error
    except (PydanticUserError, NameError) as error:
        text = getattr(error, "message", str(error))
        raise UsageError(f"{name}={shown} cannot be used: {text}") from error
