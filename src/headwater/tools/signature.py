"""What a callable says about itself: name, parameters, annotations, whether it is async."""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from headwater.errors import UsageError
from headwater.tools.context import ToolContext

MISSING: Any = inspect.Parameter.empty


@dataclass(frozen=True)
class Param:
    """One parameter; `annotation` as it is written (maybe a string), `default` is `MISSING` if there is none."""

    name: str
    annotation: Any
    default: Any


def unwrap_partial(function: Callable[..., Any]) -> Callable[..., Any]:
    """The callable under any `functools.partial`."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def underlying(function: Callable[..., Any]) -> Any:
    """The Python function whose annotations, globals and docstring count."""
    inner = unwrap_partial(function)
    if not inspect.isroutine(inner):
        inner = getattr(type(inner), "__call__", inner)  # noqa: B004  # the attribute itself is wanted, not a test
    return inspect.unwrap(getattr(inner, "__func__", inner))


def where(function: Callable[..., Any]) -> str:
    """`module:qualname` of a callable, for messages."""
    inner = unwrap_partial(function)
    owner = inner if inspect.isroutine(inner) else type(inner)
    name = getattr(owner, "__qualname__", None) or getattr(owner, "__name__", repr(owner))
    return f"{getattr(owner, '__module__', None) or '?'}:{name}"


def default_name(function: Callable[..., Any]) -> str:
    """The function's name, or the class's of a callable object."""
    inner = unwrap_partial(function)
    return str(getattr(inner, "__name__", None) or type(inner).__name__)


def docstring_of(function: Callable[..., Any]) -> str | None:
    """The docstring of the function, of a callable object's `__call__`, or of its class."""
    inner = unwrap_partial(function)
    doc = getattr(underlying(inner), "__doc__", None)
    return doc if doc or inspect.isroutine(inner) else type(inner).__doc__


def is_async_callable(function: Callable[..., Any]) -> bool:
    """Whether calling it gives an awaitable, by its kind or by its return annotation."""
    inner = unwrap_partial(function)
    call = inner if inspect.isroutine(inner) else getattr(type(inner), "__call__", None)  # noqa: B004
    if inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(call):
        return True
    try:
        returns = _resolve(underlying(function), getattr(underlying(function), "__annotations__", {}).get("return"), {})
    except (NameError, TypeError, AttributeError, SyntaxError):
        return False  # imported for type checkers only: no concern of ours
    return (get_origin(returns) or returns) in (Awaitable, Coroutine)


def is_unbound_method(function: Callable[..., Any]) -> bool:
    """Whether it is a method that a decorator sees inside the class body, before there is an instance."""
    if not inspect.isfunction(function):
        return False
    owner = function.__qualname__.rpartition(".")[0]
    first = next(iter(inspect.signature(function).parameters.values()), None)
    return bool(
        owner
        and not owner.endswith("<locals>")
        and first is not None
        and first.name in ("self", "cls")
        and first.annotation is MISSING
    )


def read_params(function: Callable[..., Any], name: str, *, skip_first: bool) -> tuple[Param, ...]:
    """The parameters that a caller fills in. Raises `UsageError`, which says what to change, for some kinds."""
    head = f"Tool {name!r} ({where(function)})"
    if inspect.isgeneratorfunction(underlying(function)) or inspect.isasyncgenfunction(underlying(function)):
        raise UsageError(
            f"{head} is a generator: return the result, and report what happens on the way with "
            "ToolContext.emit_progress instead of yield"
        )
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{head} has no signature to read: wrap it in a function with annotated parameters") from error
    bound = function.keywords if isinstance(function, functools.partial) else {}
    found: list[Param] = []
    for param in list(signature.parameters.values())[1 if skip_first else 0 :]:
        if param.name in bound:
            continue  # functools.partial has filled it in: none of the model's business
        what = f"{head}: parameter {param.name!r}"
        match param.kind:
            case inspect.Parameter.VAR_POSITIONAL:
                raise UsageError(f"{what} is *{param.name}, which JSON cannot fill: take a list instead, `list[...]`")
            case inspect.Parameter.VAR_KEYWORD:
                raise UsageError(
                    f"{what} is **{param.name}, which tells a model nothing: name the parameters, or take a dict"
                )
            case inspect.Parameter.POSITIONAL_ONLY:
                raise UsageError(f"{what} is positional-only, but arguments come by name: remove the `/`")
            case _:
                pass
        if param.annotation is MISSING:
            raise UsageError(f"{what} has no annotation: write its type, such as `{param.name}: str`")
        found.append(Param(param.name, param.annotation, param.default))
    return tuple(found)


def enclosing_locals(function: Callable[..., Any]) -> dict[str, Any]:
    """The local names of the functions and classes, still running, that `function` is written in."""
    inner = underlying(function)
    code = getattr(inner, "__code__", None)
    if code is None:
        return {}
    parts = str(inner.__qualname__).split(".")
    outer = {".".join(parts[:n]) for n in range(1, len(parts))}
    frames: list[types.FrameType] = []
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename == code.co_filename and frame.f_code.co_qualname in outer:
            frames.append(frame)
        frame = frame.f_back
    names: dict[str, Any] = {}
    for frame in reversed(frames):
        names.update(frame.f_locals)
    return names


def _resolve(inner: Any, annotation: Any, names: dict[str, Any]) -> Any:
    """The type behind an annotation. Raises `NameError` for what is not defined (yet)."""
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    closure = getattr(inner, "__closure__", None) or ()
    free = getattr(getattr(inner, "__code__", None), "co_freevars", ())
    for name, cell in zip(free, closure, strict=False):
        try:
            names = {name: cell.cell_contents, **names}
        except ValueError:
            continue  # an empty cell: the name is assigned later
    globalns = getattr(inner, "__globals__", {})
    return typing.get_type_hints(holder, globalns=globalns, localns=names, include_extras=True)["it"]


def resolve_params(function: Callable[..., Any], params: tuple[Param, ...], names: dict[str, Any]) -> tuple[Param, ...]:
    """The parameters with their annotations evaluated. Raises `NameError` for a name that is not defined (yet)."""
    inner = underlying(function)
    return tuple(Param(p.name, _resolve(inner, p.annotation, names), p.default) for p in params)


def is_context(annotation: Any) -> bool:
    """Whether a parameter is the call's context: `ToolContext`, also in `Annotated` or a union with None."""
    if annotation is ToolContext:
        return True
    origin = get_origin(annotation)
    if origin is Annotated or origin is Union or origin is types.UnionType:
        return any(is_context(part) for part in get_args(annotation))
    return False
