"""Opaque fields that go back to the endpoint untouched: signatures, encrypted blocks, lists of thinking blocks."""

from __future__ import annotations

from typing import Any, cast

from headwater.chat.chunks import CallDelta, Delta, flat_text
from headwater.chat.events import ModelEvent, ThinkingEcho

_TEXT_KEYS = ("text", "summary", "thinking")
_SAME = ("type", "index", "id", "format")


class DetailsBuffer:
    """Join the pieces of lists such as `reasoning_details` until something else than thinking comes.

    Hundreds of fragments of one block become one, as the endpoint would have sent it without streaming.
    """

    __slots__ = ("_lists", "pending")

    def __init__(self) -> None:
        self.pending = False
        self._lists: dict[str, list[dict[str, Any]]] = {}

    def add(self, key: str, entries: list[dict[str, Any]]) -> str:
        """Keep a delta's entries; returns the text in them."""
        self.pending = True
        kept = self._lists.setdefault(key, [])
        text = ""
        for entry in entries:
            text += next((t for k in _TEXT_KEYS if (t := flat_text(entry.get(k)))), "")
            if not kept or not _join(kept[-1], entry):
                kept.append(dict(entry))
        return text

    def flush(self, out: list[ModelEvent]) -> None:
        """Hand out what is kept."""
        self.pending = False
        lists, self._lists = self._lists, {}
        out.append(ThinkingEcho(cast("dict[str, Any]", lists)))


def _join(last: dict[str, Any], entry: dict[str, Any]) -> bool:
    """Append `entry` to `last` if it is a further piece of the same block."""
    for key in _SAME:
        if entry.get(key) is not None and last.get(key) is not None and entry[key] != last[key]:
            return False
    if entry.get("type") != last.get("type") or last.get("signature"):
        return False
    if not any(isinstance(entry.get(k), str) for k in (*_TEXT_KEYS, "signature")):
        return False
    for key, value in entry.items():
        if key in _TEXT_KEYS and isinstance(value, str):
            before = last.get(key)
            last[key] = before + value if isinstance(before, str) else value
        elif value is not None:
            last[key] = value
    return True


def opaque_fields(delta: Delta) -> dict[str, Any] | None:
    """Single opaque fields of the thinking in a delta; None if there are none."""
    if (
        delta.reasoning_opaque is None
        and delta.reasoning_signature is None
        and delta.encrypted_content is None
        and delta.extra_content is None
    ):
        return None
    fields = {
        "reasoning_opaque": delta.reasoning_opaque,
        "reasoning_signature": delta.reasoning_signature,
        "encrypted_content": delta.encrypted_content,
        "extra_content": delta.extra_content,
    }
    return {k: v for k, v in fields.items() if v} or None


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
