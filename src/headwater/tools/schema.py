"""JSON Schema and validation of a function's parameters, by pydantic. Imported at the first use only: it is slow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast, get_args, get_origin

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from headwater.errors import UsageError
from headwater.tools.problems import BoundArguments, Problem, arguments_error, copy_json, join_path, unknown_argument
from headwater.tools.signature import MISSING, Param
from headwater.tools.tidy import tidy_schema

_OWN_STEP = ("missing", "extra_forbidden")  # their last step is not in the arguments
_OBJECTS = ("dict_type", "model_type", "model_attributes_type", "dataclass_type", "dataclass_exact_type")


class SchemaGenerator(GenerateJsonSchema):
    """Writes the schemas of what models fill in."""

    # A default without a JSON form is simply not shown; the function still gets it.
    ignored_warning_kinds = {*GenerateJsonSchema.ignored_warning_kinds, "non-serializable-default"}  # noqa: RUF012


class ModelOfParams:
    """The schema of one function's parameters and their validator.

    `names` are local names that forward references inside the types may need. Raises `NameError` where one is not
    defined (yet), and `UsageError` for a type that JSON Schema cannot describe.
    """

    def __init__(self, head: str, params: Sequence[Param], docs: Mapping[str, str], names: dict[str, Any]) -> None:
        fields = {p.name: _annotation(p, docs.get(p.name)) for p in params}
        try:
            self._adapter = _adapter(fields, names)
            schema = self._adapter.json_schema(schema_generator=SchemaGenerator)
        except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema) as error:
            raise UsageError(_blame(head, params, fields, names)) from error
        except PydanticUserError as error:
            raise UsageError(f"{head}: {error.message}") from error
        self.parameters = tidy_schema(schema)
        self._allowed: tuple[str, ...] = tuple(self.parameters["properties"])

    def bind(self, tool_name: str, args: dict[str, Any]) -> BoundArguments:
        """Validated arguments. Raises `ToolArgumentsError`."""
        try:
            given = copy_json(args)  # a tool that changes its arguments must not change the record
            return BoundArguments(kwargs=self._adapter.validate_python(given))
        except ValidationError as error:
            raise arguments_error(tool_name, problems_of(error, args, self._allowed)) from error
        except Exception as error:  # a validator of the user's own that fails in its own way
            text = f"cannot be validated ({type(error).__name__}: {error})"
            raise arguments_error(tool_name, [Problem("arguments", text)]) from error


def problems_of(
    error: ValidationError, given: Any, allowed: Sequence[str] | None = None, root: str = ""
) -> list[Problem]:
    """What is wrong with JSON data, in words for a model. `allowed` are the names that a tool takes (None: it is no
    tool's arguments), `root` is what the whole of it is called."""
    found: list[Problem] = []
    for item in error.errors(include_url=False, include_context=False):
        kind = item["type"]
        steps = _path(item["loc"], given, keep_last=kind in _OWN_STEP)
        path = join_path(steps) if steps or not root else root
        if kind == "missing":
            found.append(Problem(path, "required, but missing"))
        elif kind == "extra_forbidden":
            top = len(item["loc"]) == 1 and allowed is not None
            found.append(unknown_argument(path, allowed or ()) if top else Problem(path, "unknown field"))
        elif kind in _OBJECTS:
            found.append(Problem(path, "should be an object", item["input"]))
        else:
            text = item["msg"].removeprefix("Input ").removeprefix("Value error, ")
            found.append(Problem(path, text, item["input"]))
    return found


def _path(loc: tuple[int | str, ...], args: Any, *, keep_last: bool) -> list[int | str]:
    """The steps of `loc` that are steps in `args`; pydantic puts the names of union members and validators between."""
    path: list[int | str] = []
    at = args
    for i, step in enumerate(loc):
        if isinstance(at, dict) and step in at:
            at = cast("dict[Any, Any]", at)[step]
        elif isinstance(at, list) and isinstance(step, int) and step < len(cast("list[Any]", at)):
            at = cast("list[Any]", at)[step]
        elif not (keep_last and i == len(loc) - 1):
            continue
        path.append(step)
    return path


def _annotation(param: Param, doc: str | None) -> Any:
    """The parameter as a field: its type, the docstring's description first so that the user's own wins, its default.

    A plain string in `Annotated` is a description.
    """
    base, extras = param.annotation, cast("tuple[Any, ...]", ())
    if get_origin(base) is Annotated:
        base, *rest = get_args(base)
        extras = tuple(Field(description=item) if isinstance(item, str) else item for item in rest)
    if param.default is None:
        base = base | None if base is not None else base  # `x: int = None` means it, and models send null for it
    ours = (Field(description=doc),) if doc else ()
    if isinstance(param.default, FieldInfo):
        extras = (*extras, param.default)
    elif param.default is not MISSING:
        extras = (*extras, Field(default=param.default))
    meta = (*ours, *extras)
    return Annotated[(base, *meta)] if meta else base  # pyright: ignore[reportInvalidTypeForm]


def _adapter(fields: dict[str, Any], names: dict[str, Any]) -> TypeAdapter[dict[str, Any]]:
    shape = cast("Any", TypedDict)("Arguments", fields)
    shape.__pydantic_config__ = ConfigDict(extra="forbid", defer_build=True)
    adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(shape)
    adapter.rebuild(raise_errors=True, _types_namespace=names)
    return adapter


def _blame(head: str, params: Sequence[Param], fields: dict[str, Any], names: dict[str, Any]) -> str:
    """The message that names the parameter whose type cannot be offered to a model."""
    for param in params:
        try:
            _adapter({param.name: fields[param.name]}, names).json_schema(schema_generator=SchemaGenerator)
        except (PydanticUserError, PydanticCustomError):
            plain = isinstance(param.annotation, type) and get_origin(param.annotation) is None
            shown = param.annotation.__qualname__ if plain else str(param.annotation)
            return (
                f"{head}: parameter {param.name!r} has the type {shown}, which JSON Schema cannot describe: use plain "
                "types, a pydantic model, a dataclass, a TypedDict or an Enum; what the model does not fill in comes "
                "through ToolContext.deps"
            )
    return f"{head}: its parameters have types that JSON Schema cannot describe"
