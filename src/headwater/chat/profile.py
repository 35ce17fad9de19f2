"""Endpoint profiles: how providers differ, as data. This is the only place where provider names stand.

A `Profile` says how to read and write one endpoint's chat completions. Users make their own with
`Profile(...)` or `msgspec.structs.replace(profile, ...)`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Dialect = Literal["hermes", "deepseek", "dsml", "mistral", "bare_json"]
"""Ways in which models write calls as text."""


class Profile(msgspec.Struct, frozen=True, omit_defaults=True):
    """How an endpoint speaks.

    Reading: `think` is `auto` (a think tag at the very start of the answer is thinking), `open` (the answer begins
    inside the thinking; only the closing tag comes) or `none` (tags are text). `text_tool_calls` names the dialects in
    which calls written as text are read; none by default.

    Writing: `thinking_in_history` says when thinking goes back: `with_tool_calls` (assistant turns that have calls),
    `always`, `never`; `thinking_field` is its key. `tool_call_content` is what stands as `content` beside tool calls.
    `merge_user_messages` joins neighbouring user messages; `assistant_after_tool` puts a short assistant message
    between a tool result and a user message, for endpoints that refuse that order. `stream_usage` asks for usage in
    the stream. `max_tokens_field`, `system_role` are the endpoint's names. `body` is merged into every request.
    """

    name: str = "default"
    think: Literal["auto", "open", "none"] = "auto"
    text_tool_calls: tuple[Dialect, ...] = ()
    thinking_in_history: Literal["with_tool_calls", "always", "never"] = "with_tool_calls"
    thinking_field: str = "reasoning_content"
    tool_call_content: Literal["null", "empty", "absent"] = "null"
    merge_user_messages: bool = False
    assistant_after_tool: bool = False
    stream_usage: bool = True
    max_tokens_field: str = "max_tokens"
    system_role: str = "system"
    body: dict[str, Any] = {}


DEFAULT_PROFILE = Profile()
