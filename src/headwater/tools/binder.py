"""From the arguments a model wrote to the arguments a function receives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from headwater.errors import UsageError
from headwater.tools.check import Checker
from headwater.tools.problems import BoundArguments, arguments_error, copy_json
from headwater.tools.signature import Param, enclosing_locals, is_context, read_params, resolve_params, where

if TYPE_CHECKING:
    from headwater.tools.schema import ModelOfParams


class Binder(Protocol):
    """What a tool knows about its parameters."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON Schema of the arguments, an object."""
        ...

    @property
    def context_names(self) -> tuple[str, ...]:
        """Names of the parameters that receive the `ToolContext`."""
        ...

    def bind(self, tool_name: str, args: dict[str, Any]) -> BoundArguments:
        """Validated arguments. Raises `ToolArgumentsError`."""
        ...


def _undefined(head: str, error: NameError) -> UsageError:
    return UsageError(
        f"{head}: an annotation uses {error.name or error}, which is not defined there: define it, or import it "
        "outside of `if TYPE_CHECKING`"
    )


class SignatureBinder:
    """Parameters read from a function's signature.

    They are resolved when the tool is made. If an annotation names something that is not defined yet, as classes
    further down a module are, that is put off to the first use. Raises `UsageError` as early as it can.
    """

    def __init__(self, function: Callable[..., Any], name: str, docs: dict[str, str], *, is_method: bool) -> None:
        self._function = function
        self._head = f"Tool {name!r} ({where(function)})"
        self._docs = docs
        self._params: tuple[Param, ...] = read_params(function, name, skip_first=is_method)
        self._names: dict[str, Any] = {}
        self._built: tuple[ModelOfParams, tuple[str, ...]] | None = None
        try:
            self._built = self._build({})
        except NameError:
            self._names = enclosing_locals(function)
            try:
                self._built = self._build(self._names)
                self._names = {}
            except NameError:
                pass  # retried at the first use, which raises if it is still undefined

    @property
    def parameters(self) -> dict[str, Any]:
        return self._ready()[0].parameters

    @property
    def context_names(self) -> tuple[str, ...]:
        return self._ready()[1]

    def bind(self, tool_name: str, args: dict[str, Any]) -> BoundArguments:
        return self._ready()[0].bind(tool_name, args)

    def _ready(self) -> tuple[ModelOfParams, tuple[str, ...]]:
        if self._built is None:
            try:
                self._built = self._build({**self._names, **enclosing_locals(self._function)})
            except NameError as error:
                raise _undefined(self._head, error) from error
            self._names = {}
        return self._built

    def _build(self, names: dict[str, Any]) -> tuple[ModelOfParams, tuple[str, ...]]:
        from headwater.tools.schema import ModelOfParams  # slow to import, needed by those who have tools only

        params = resolve_params(self._function, self._params, names)
        context = tuple(p.name for p in params if is_context(p.annotation))
        visible = [p for p in params if p.name not in context]
        return ModelOfParams(self._head, visible, self._docs, names), context


class SchemaBinder:
    """Parameters given as a JSON Schema; the function receives the arguments as one dict."""

    def __init__(self, parameters: dict[str, Any], context_names: tuple[str, ...], *, validate: bool) -> None:
        self.parameters = parameters
        self.context_names = context_names
        self._checker = Checker(parameters) if validate else None

    def bind(self, tool_name: str, args: dict[str, Any]) -> BoundArguments:
        if self._checker and (found := self._checker.found(args)):
            raise arguments_error(tool_name, found)
        return BoundArguments(args=(copy_json(args),))


def context_params(function: Callable[..., Any], name: str) -> tuple[str, ...]:
    """Names of the `ToolContext` parameters of a function that takes its arguments as one dict."""
    params = read_params(function, name, skip_first=True)
    try:
        resolved = resolve_params(function, params, enclosing_locals(function))
    except NameError as error:
        raise _undefined(f"Tool {name!r} ({where(function)})", error) from error
    return tuple(p.name for p in resolved if is_context(p.annotation))
