"""Opaque fields that go back to the endpoint untouched: signatures, encrypted blocks, lists of thinking blocks."""

from __future__ import annotations

from typing import Any, cast

from headwater.chat.chunks import CallDelta, Delta, flat_text
from headwater.chat.events import ModelEvent, ThinkingEcho

_TEXT_KEYS = ("text", "summary", "thinking")
_SAME = ("id", "format")


class DetailsBuffer:
    """Join the pieces of lists such as `reasoning_details` over the whole answer.

    Hundreds of fragments of one block become one, as the endpoint would have sent it without streaming: a signature
    holds for the whole text and may come in a fragment of its own, after the answer has begun.
    """

    __slots__ = ("_lists",)

    def __init__(self) -> None:
        self._lists: dict[str, list[dict[str, Any]]] = {}

    def add(self, key: str, entries: list[dict[str, Any]]) -> str:
        """Keep a delta's entries; returns the text in them."""
        kept = self._lists.setdefault(key, [])
        text = ""
        for n, entry in enumerate(entries):
            text += next((t for k in _TEXT_KEYS if (t := flat_text(entry.get(k)))), "")
            # Without an index only neighbours can be pieces of one block, and not those of one list.
            near = kept if entry.get("index") is not None else kept[-1:] if n == 0 else []
            if not any(_join(before, entry) for before in reversed(near)):
                kept.append(dict(entry))
        return text

    def flush(self, out: list[ModelEvent]) -> None:
        """Hand out what is kept."""
        if self._lists:
            lists, self._lists = self._lists, {}
            out.append(ThinkingEcho(cast("dict[str, Any]", lists)))


def _join(last: dict[str, Any], entry: dict[str, Any]) -> bool:
    """Append `entry` to `last` if it is a further piece of the same block."""
    if entry.get("index") != last.get("index") or entry.get("type") != last.get("type"):
        return False
    if any(entry.get(k) is not None and last.get(k) is not None and entry[k] != last[k] for k in _SAME):
        return False
    if last.get("signature") or not any(isinstance(entry.get(k), str) for k in (*_TEXT_KEYS, "signature")):
        return False
    for key, value in entry.items():
        if key in _TEXT_KEYS and isinstance(value, str):
            before = last.get(key)
            last[key] = before + value if isinstance(before, str) else value
        elif value is not None:
            last[key] = value
    return True


def opaque_fields(delta: Delta) -> dict[str, Any]:
    """Single opaque fields of the thinking in a delta."""
    fields = {
        "reasoning_opaque": delta.reasoning_opaque,
        "reasoning_signature": delta.reasoning_signature,
        "encrypted_content": delta.encrypted_content,
        "extra_content": delta.extra_content,
    }
    return {k: v for k, v in fields.items() if v}


def call_echo(entry: CallDelta) -> dict[str, Any] | None:
    """Opaque fields of a call's fragment; None if there are none."""
    if entry.extra_content is None and entry.thought_signature is None and entry.provider_specific_fields is None:
        return None
    fields = {
        "extra_content": entry.extra_content,
        "thought_signature": entry.thought_signature,
        "provider_specific_fields": entry.provider_specific_fields,
    }
    return {k: v for k, v in fields.items() if v} or None
