"""How a run is shown where a protocol has no words for thinking, tools and people."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import msgspec

from headwater.errors import UsageError

ReasoningField: TypeAlias = Literal["reasoning_content", "reasoning", "think_tags", "off"]
"""Where thinking goes: into a field of that name, into `<think>` tags in the content, or nowhere."""
ShowTools: TypeAlias = Literal["reasoning", "text", "off"]
"""Where the server's own tool calls are told of, a line each."""
Approvals: TypeAlias = Literal["explain", "text"]
"""What is said of calls that wait for a person: that they were not run, or a question that the next turn answers."""
ClientSetting: TypeAlias = Literal["temperature", "max_tokens", "instructions"]
"""What requests may set of a run; `instructions` replace the agent's, and only requests for responses have them."""


class ChatOptions(msgspec.Struct, frozen=True):
    """How runs are shown, and what requests may set; see `openai`. Raises `UsageError` for what is no option."""

    reasoning_field: ReasoningField = "reasoning_content"
    tools: ShowTools = "reasoning"
    approvals: Approvals = "explain"
    final_only: bool = False
    client_settings: tuple[ClientSetting, ...] = ()
    blobs: str = "/runs"

    def __post_init__(self) -> None:
        _check("reasoning_field", self.reasoning_field, ReasoningField)
        _check("tools", self.tools, ShowTools)
        _check("approvals", self.approvals, Approvals)
        for name in self.client_settings:
            _check("client_settings", name, ClientSetting)


def _check(name: str, value: str, allowed: Any) -> None:
    if value not in get_args(allowed):
        raise UsageError(f"{name} must be one of {', '.join(get_args(allowed))}, not {value!r}.")
