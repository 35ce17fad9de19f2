"""Typed parts of an answer's content."""

from __future__ import annotations

from typing import Any

from headwater.chat.chunks import flat_text

_THINKING = frozenset({"thinking", "reasoning", "reasoning_content", "redacted_thinking", "thought"})
_TEXT = frozenset({"text", "output_text", ""})
_SAID = frozenset({"type", "thinking", "text", "reasoning", "summary", "content", "closed", "index"})


def thinking_text(part: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Text and opaque fields of a thinking part; None if it is another kind of part."""
    if part.get("type") not in _THINKING:
        return None
    text = ""
    for key in ("thinking", "reasoning", "text", "summary", "content"):
        if found := flat_text(part.get(key)):
            text = found
            break
    echo = {k: v for k, v in part.items() if k not in _SAID and v is not None and v != ""}
    return text, echo


def part_text(part: dict[str, Any]) -> str | None:
    """Text of a text part; None if it is another kind of part."""
    kind = part.get("type", "")
    text = part.get("text")
    if kind in _TEXT or (isinstance(text, str) and not isinstance(part.get("refusal"), str)):
        return flat_text(text) or ""
    return None
