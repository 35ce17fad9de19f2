"""What a running tool is given besides its arguments."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, overload

from headwater.errors import UsageError
from headwater.events import TEAM_NOTES
from headwater.tools.asking import Asking
from headwater.tools.jsonvalue import json_snapshot

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")


def check_custom_name(name: str) -> None:
    """Raise `UsageError` for a name of a custom event that only teams give."""
    if name.startswith(TEAM_NOTES):
        raise UsageError(
            f"A custom event cannot be named {name!r}: names that begin with {TEAM_NOTES!r} are for what teams note. "
            "Choose another one."
        )


class ToolStopped(BaseException):
    """Raised by `ToolContext.raise_if_cancelled` inside a tool that is to stop.

    Not an `Exception`, so that a tool's own `except Exception` does not keep it running.
    """


class StopFlag:
    """Set once, by the executor, when the tool is to stop; read from any thread."""

    __slots__ = ("is_set",)

    def __init__(self) -> None:
        self.is_set = False


def _drop(_data: Any) -> None:
    pass


def _drop_named(_name: str, _data: Any) -> None:
    pass


def _nobody() -> Asking:
    return Asking(refusal="There is nobody to ask outside of a run; a test passes asking=Asking.scripted(...).")


async def _given(value: Any) -> Any:
    return value


@dataclass(frozen=True, eq=False, kw_only=True)
class ToolContext:
    """The call as the tool sees it. A parameter annotated `ToolContext` receives it and is not shown to the model.

    `deps` is what the caller passed as `deps=`. The methods may be called from any thread. Everything has a default,
    so that a test can call a tool with `ToolContext()`.
    """

    session_id: str = ""
    run_id: str = ""
    call_id: str = ""
    attempt: int = 1
    tool_name: str = ""
    agent: str = ""
    deps: Any = None
    flag: StopFlag = field(default_factory=StopFlag, repr=False)
    on_progress: Callable[[Any], None] = field(default=_drop, repr=False)
    on_custom: Callable[[str, Any], None] = field(default=_drop_named, repr=False)
    asking: Asking = field(default_factory=_nobody, repr=False)

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this call: hand it to services that drop repeated requests."""
        return f"{self.run_id}/{self.call_id}"

    def emit_progress(self, data: Any) -> None:
        """Report progress: a `tool.progress` event with a snapshot of `data`, at once.

        `data` is a JSON value, or dataclasses, msgspec structs and pydantic models made of such. Raises `UsageError`
        for anything else. After the tool has ended, or was given up, it does nothing.
        """
        self.on_progress(json_snapshot(data, "Progress data"))

    def emit(self, name: str, data: Any = None) -> None:
        """Emit a `custom` event of this name; `data` as in `emit_progress`. Names that begin with `team.` are taken."""
        check_custom_name(name)
        self.on_custom(name, json_snapshot(data, f"The data of the event {name!r}"))

    @overload
    def ask(self, question: str) -> Coroutine[Any, Any, str]: ...
    @overload
    def ask(self, question: str, schema: TypeForm[T]) -> Coroutine[Any, Any, T]: ...
    @overload
    def ask(self, question: str, schema: dict[str, Any]) -> Coroutine[Any, Any, Any]: ...
    def ask(self, question: str, schema: Any = str) -> Coroutine[Any, Any, Any]:
        """Ask a person, and return the answer: `answer = await ctx.ask("Which account?", Literal["main", "other"])`.

        `schema` is a type that pydantic can describe, or a JSON Schema as a dict; the answer is a value of it. Nothing
        waits inside the tool: the first time the call ends here and the run is suspended. Once the question is
        answered (`Respond`), maybe in another process, the tool is run again from its beginning, and this returns the
        answer. So what stands before a question is done again. A tool may ask several times; it has to ask the same
        questions in the same order each time.

        Only for tools of effect `read` or `idempotent`, and of effect `write` with `ask_first=True`; only from the
        tool itself, not from other threads. Otherwise it raises `UsageError`.
        """
        self.raise_if_cancelled()
        return _given(self.asking.ask(question, schema, is_sync=False))

    @overload
    def ask_sync(self, question: str) -> str: ...
    @overload
    def ask_sync(self, question: str, schema: TypeForm[T]) -> T: ...
    @overload
    def ask_sync(self, question: str, schema: dict[str, Any]) -> Any: ...
    def ask_sync(self, question: str, schema: Any = str) -> Any:
        """`ask` for synchronous tools."""
        self.raise_if_cancelled()
        return self.asking.ask(question, schema, is_sync=True)

    @property
    def cancelled(self) -> bool:
        """Whether the tool is to stop: it was cancelled, ran out of time, or its arguments were superseded."""
        return self.flag.is_set

    def raise_if_cancelled(self) -> None:
        """Raise `ToolStopped` if the tool is to stop. For loops of synchronous tools; async tools are cancelled."""
        if self.flag.is_set:
            raise ToolStopped
