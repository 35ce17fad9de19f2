"""Calls written as text (stub)."""

from __future__ import annotations

import msgspec


class TextCall(msgspec.Struct, frozen=True, gc=False):
    """A call that stood in the text."""

    name: str
    arguments: str


class DialectReader:
    def feed(self, text: str) -> list[str | TextCall]:
        return [text]

    def flush(self, *, final: bool) -> list[str | TextCall]:
        return []


def dialect_reader(dialects: tuple[str, ...], tool_names: frozenset[str]) -> DialectReader | None:
    """A reader; None if there is nothing to look for."""
    return None
