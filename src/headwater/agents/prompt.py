"""What a user may pass as a prompt, as messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from headwater.errors import UsageError
from headwater.messages import (
    AssistantMessage,
    MediaPart,
    Message,
    Prompt,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
    user,
)

_MESSAGES = (SystemMessage, UserMessage, AssistantMessage, ToolMessage)


def prompt_messages(prompt: Prompt | None, *, has_session: bool) -> tuple[Message, ...]:
    """The messages that a prompt stands for. Raises `UsageError` for anything else than a prompt."""
    if prompt is None:
        if not has_session:
            raise UsageError("Without a prompt there must be a session to go on with: pass session=... or a prompt.")
        return ()
    if isinstance(prompt, str):
        return (user(prompt),)
    if isinstance(prompt, UserMessage):
        return (prompt,)
    items: list[Any] = list(cast("Sequence[Any]", prompt)) if _is_list(prompt) else []
    if items and all(isinstance(item, _MESSAGES) for item in items):
        return tuple(items)
    if items and all(isinstance(item, TextPart | MediaPart) for item in items):
        return (UserMessage(parts=tuple(items)),)
    raise UsageError(
        "A prompt is text, a UserMessage, its parts (TextPart, MediaPart) or several messages, not "
        f"{_kind(prompt)}. Dicts in OpenAI's form: use headwater.chat.openai_messages.messages_from_openai."
    )


def _kind(value: Any) -> str:
    name = type(value).__name__
    if name not in ("list", "tuple"):
        return name
    kinds = dict.fromkeys(type(item).__name__ for item in value)
    return f"a {name} of {' and '.join(kinds)}" if kinds else f"an empty {name}"


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence)
