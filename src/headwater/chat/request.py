"""What is asked of a model, independent of the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headwater.errors import UsageError
from headwater.messages import Message


class ToolSpec(msgspec.Struct, frozen=True, gc=False):
    """A tool as the model sees it. `parameters` is a JSON Schema object."""

    name: str
    description: str
    parameters: dict[str, Any]


def _check_type(name: str, value: object, kind: Any, words: str) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, kind)):
        raise UsageError(f"{name} must be {words}, or None, not {value!r}.")


class RequestOptions(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Settings of a request. None leaves the endpoint's default; `extra` goes into the body as it is.

    Raises `UsageError` for a value of another type than the setting's.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = None
    response_format: dict[str, Any] | None = None
    extra: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        for name in ("temperature", "top_p"):
            _check_type(name, getattr(self, name), int | float, "a number")
        for name in ("max_tokens", "seed"):
            _check_type(name, getattr(self, name), int, "a whole number")
        if isinstance(self.stop, str):
            raise UsageError(f"stop must be several texts, such as ({self.stop!r},).")
        for name in ("response_format", "extra"):
            _check_type(name, getattr(self, name), dict, "a dict")

    def override(self, other: RequestOptions) -> RequestOptions:
        """These options, with what `other` sets replacing what is set here; `extra` is merged."""
        changes = {f: getattr(other, f) for f in self.__struct_fields__ if getattr(other, f) not in (None, ())}
        if self.extra and other.extra:
            changes["extra"] = {**self.extra, **other.extra}
        return msgspec.structs.replace(self, **changes)


class ModelRequest(msgspec.Struct, gc=False):
    """One request.

    `messages` is the conversation, system message first; the run appends to the same list between requests and never
    changes what is in it. `tail` comes after it in this request only: it is never stored, and the next request may
    have another one. `tools` is empty when none are offered. `cache` is a dict that lives as long as the run: a model
    may keep encoded messages there, under a key of its own, so that each request costs only its new messages.
    """

    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...]
    options: RequestOptions
    cache: dict[str, Any]
    tail: tuple[Message, ...] = ()

    @property
    def conversation(self) -> list[Message]:
        """All that is sent: the messages, then the tail."""
        return [*self.messages, *self.tail]
