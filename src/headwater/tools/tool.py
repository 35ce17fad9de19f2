"""A tool: a function with a name, a schema and what running it means."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, ParamSpec, TypeVar, cast, get_args, overload

from headwater.errors import ToolArgumentsError, UsageError
from headwater.tools.binder import Binder, SchemaBinder, SignatureBinder, context_params
from headwater.tools.context import ToolContext
from headwater.tools.docstring import parse_docstring
from headwater.tools.problems import BoundArguments
from headwater.tools.signature import (
    default_name,
    docstring_of,
    is_async_callable,
    is_unbound_method,
    where,
)

P = ParamSpec("P")
R = TypeVar("R")

Effect = Literal["read", "idempotent", "write"]
"""What running a tool means: no side effect; safe to repeat with the same key; a side effect."""

Approval = bool | Callable[[dict[str, Any]], bool]
"""Whether a person must agree: always, never, or depending on the arguments."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what the chat completions endpoints accept
_WRAPPER_FIELDS = ("__name__", "__qualname__", "__module__", "__doc__")


@dataclass(frozen=True, eq=False, kw_only=True)
class Tool(Generic[P, R]):
    """A function that a model may call; calling the tool calls the function.

    `effect` says what running it means (default `write`), `timeout` is seconds for one attempt (None: no limit),
    `serial` keeps it from running beside other calls, `return_direct` ends the run with its text. `ask_first` is the
    promise of a tool of effect `write` that it asks (`ToolContext.ask`) before it does anything; without it such a tool
    cannot ask. With `agent` what is executed is a run of that agent, and the function makes its prompt. `is_async`
    tools run on the event loop, others in a thread. Make one with `tool`, `as_tool` or
    `Tool.from_schema`.
    """

    name: str
    description: str
    function: Callable[P, R]
    binder: Binder = field(repr=False)
    effect: Effect = "write"
    timeout: float | None = None
    serial: bool = False
    return_direct: bool = False
    requires_approval: Approval = False
    ask_first: bool = False
    is_async: bool = False
    is_unbound: bool = False
    agent: Any = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UsageError(
                f"{self.name!r} ({where(self.function)}) cannot be a tool's name: endpoints accept 1 to 64 letters, "
                "digits, _ and -; pass `name=`"
            )
        if self.effect not in get_args(Effect):
            raise UsageError(f"Tool {self.name!r}: effect {self.effect!r} must be one of {', '.join(get_args(Effect))}")
        if self.timeout is not None and not self.timeout > 0:
            raise UsageError(f"Tool {self.name!r}: timeout {self.timeout!r} must be seconds above 0, or None")
        if self.ask_first and self.effect != "write":
            raise UsageError(
                f"Tool {self.name!r}: ask_first is for effect='write'; with effect={self.effect!r} it may ask anyway"
            )
        for name in _WRAPPER_FIELDS:
            object.__setattr__(self, name, getattr(self.function, name, None))
        object.__setattr__(self, "__wrapped__", self.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Tool[..., R]:
        """`tool` on a method: the attribute of an instance is a tool bound to it."""
        if instance is None or not self.is_unbound:
            return self
        bound: Callable[..., R] = cast("Any", self.function).__get__(instance, owner)
        return replace(cast("Tool[..., R]", self), function=bound, is_unbound=False)

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON Schema of the arguments. Raises `UsageError` if an annotation names something undefined."""
        return self.binder.parameters

    @property
    def may_ask(self) -> bool:
        """Whether it can be run again with the answer to a question, and has the context that asks."""
        return (self.effect != "write" or self.ask_first) and bool(self.binder.context_names)

    def bind(self, args: dict[str, Any]) -> BoundArguments:
        """Validate arguments that a model wrote; runs nothing.

        Numbers in strings and the like are converted. Raises `ToolArgumentsError`, whose message is for the model.
        """
        if not isinstance(cast("object", args), dict):
            raise ToolArgumentsError(f"{self.name} was not run: its arguments must be a JSON object")
        return self.binder.bind(self.name, args)

    def invoke(self, bound: BoundArguments, context: ToolContext) -> Any:
        """Call the function; returns its value or awaitable, raises what it raises."""
        function = cast("Callable[..., Any]", self.function)
        names = self.binder.context_names
        if not names:
            return function(*bound.args, **bound.kwargs)
        return function(*bound.args, **bound.kwargs, **dict.fromkeys(names, context))

    @staticmethod
    def from_schema(
        function: Callable[..., Any],
        parameters: dict[str, Any],
        *,
        name: str | None = None,
        description: str | None = None,
        effect: Effect = "write",
        timeout: float | None = None,
        serial: bool = False,
        return_direct: bool = False,
        requires_approval: Approval = False,
        ask_first: bool = False,
        validate: bool = True,
    ) -> Tool[..., Any]:
        """A tool whose parameters are a JSON Schema, not a signature.

        `function` gets the arguments as one dict, and the context if it has a parameter annotated `ToolContext`.
        With `validate` the arguments are checked against the schema's common keywords, and never converted.
        """
        chosen = default_name(function) if name is None else name
        if not isinstance(cast("object", parameters), dict) or parameters.get("type", "object") != "object":
            raise UsageError(f"Tool {chosen!r}: parameters must be a JSON Schema of type object")
        schema: dict[str, Any] = {"type": "object", "properties": {}, **parameters}
        return Tool(
            name=chosen,
            description=parse_docstring(docstring_of(function)).description if description is None else description,
            function=function,
            binder=SchemaBinder(schema, context_params(function, chosen), validate=validate),
            effect=effect,
            timeout=timeout,
            serial=serial,
            return_direct=return_direct,
            requires_approval=requires_approval,
            ask_first=ask_first,
            is_async=is_async_callable(function),
        )


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "write",
    timeout: float | None = None,
    serial: bool = False,
    return_direct: bool = False,
    requires_approval: Approval = False,
    ask_first: bool = False,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "write",
    timeout: float | None = None,
    serial: bool = False,
    return_direct: bool = False,
    requires_approval: Approval = False,
    ask_first: bool = False,
) -> Any:
    """Make a function a tool: `@tool` or `@tool(effect="read", timeout=10)`; also on methods.

    Every parameter needs an annotation; `*args`, `**kwargs`, positional-only parameters and generators are refused
    with `UsageError`. The docstring (Google, numpy or Sphinx style) describes the tool and its parameters. Options are
    those of `Tool`; `description` replaces the docstring's.
    """

    def make(function: Callable[..., Any]) -> Tool[..., Any]:
        if not callable(cast("object", function)) or isinstance(function, type):
            raise UsageError(f"{function!r} cannot be a tool: pass a function or an object with __call__")
        doc = parse_docstring(docstring_of(function))
        chosen = default_name(function) if name is None else name
        is_method = is_unbound_method(function)
        return Tool(
            name=chosen,
            description=doc.description if description is None else description,
            function=function,
            binder=SignatureBinder(function, chosen, doc.params, is_method=is_method),
            effect=effect,
            timeout=timeout,
            serial=serial,
            return_direct=return_direct,
            requires_approval=requires_approval,
            ask_first=ask_first,
            is_async=is_async_callable(function),
            is_unbound=is_method,
        )

    return make if function is None else make(function)


def as_tool(obj: Tool[..., Any] | Callable[..., Any]) -> Tool[..., Any]:
    """A tool as it is, or a tool made of a function, bound method, callable object or `functools.partial`."""
    if isinstance(obj, Tool):
        return cast("Tool[..., Any]", obj)
    return tool(obj)


def asking_refused(tool: Tool[..., Any]) -> str:
    """Why a tool may not ask a person anything; empty if it may."""
    if tool.effect != "write" or tool.ask_first:
        return ""
    return (
        f"{tool.name} asked a question, but it cannot be run a second time with the answer: its effect is 'write'. If "
        "it asks before it does anything, say so with @tool(ask_first=True)."
    )
