"""What a running tool is given besides its arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headwater.tools.jsonvalue import json_snapshot


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
        """Emit a `custom` event of this name; `data` as in `emit_progress`."""
        self.on_custom(name, json_snapshot(data, f"The data of the event {name!r}"))

    @property
    def cancelled(self) -> bool:
        """Whether the tool is to stop: it was cancelled, ran out of time, or its arguments were superseded."""
        return self.flag.is_set

    def raise_if_cancelled(self) -> None:
        """Raise `ToolStopped` if the tool is to stop. For loops of synchronous tools; async tools are cancelled."""
        if self.flag.is_set:
            raise ToolStopped
