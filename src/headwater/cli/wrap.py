"""Breaking lines between words while the words are still coming."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from rich.cells import cell_len

_TOKEN = re.compile(r"\n|[^\S\n]+|[^\s\u1100-\uffff]+|[\u1100-\uffff]")
"""A line end, a space, a piece of a word, or a character of a script that breaks anywhere."""
_CLOSING = frozenset("，。、；：！？）】》」』”’…")
"""What may not begin a line: it hangs over the end instead."""
_HANG = 2
"""Cells that stay free for it."""
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+")
_FENCE = "```"
_VERBATIM = (_FENCE, "    ", "\t", "|")
"""How lines of code and tables begin: the terminal breaks them, so that they are copied whole."""


class Back(NamedTuple):
    """Take back so many cells at the end of the line."""

    cells: int


def wrapped(text: str, width: int) -> str:
    """A whole text, broken for lines of `width` cells."""
    return "".join(piece for piece in Wrapper().feed(text, width) if isinstance(piece, str))


class Wrapper:
    """Turns pieces of text into what is written: text, and takings-back of a word that does not fit after all.

    `width` must leave the terminal's last column free, so that the terminal never breaks a line by itself.
    """

    def __init__(self) -> None:
        self._column = 0
        self._word = ""
        self._line = ""
        self._in_fence = False

    def feed(self, text: str, width: int) -> Iterator[str | Back]:
        """The next piece, for lines of `width` cells."""
        limit = max(16, width - _HANG)
        for token in _TOKEN.findall(text):
            if token == "\n":
                yield self._end_line()
            elif self._in_fence or self._line.startswith(_VERBATIM) or (not self._line and token in _VERBATIM):
                self._line += token
                yield token
            else:
                yield from self._place(token, limit)
                self._line += token

    def _end_line(self) -> str:
        if self._line.lstrip().startswith(_FENCE):
            self._in_fence = not self._in_fence
        self._column, self._word, self._line = 0, "", ""
        return "\n"

    def _place(self, token: str, limit: int) -> Iterator[str | Back]:
        cells = cell_len(token)
        fits = self._column + cells <= limit
        if token.isspace():
            self._word = ""
            if fits:
                self._column += cells
                yield token
            return
        is_word = token < "\u1100"
        before = self._word if is_word else ""
        self._word = before + token if is_word else ""
        if fits or (token in _CLOSING and self._column + cells <= limit + _HANG):
            self._column += cells
            yield token
            return
        indent = " " * self._indent(limit)
        if cell_len(indent + before + token) > limit:
            # A word longer than a line: broken where the line ends.
            yield from self._chop(token, limit)
            return
        if before:
            yield Back(cell_len(before))
        yield "\n" + indent + before + token
        self._column = cell_len(indent + before + token)

    def _chop(self, token: str, limit: int) -> Iterator[str]:
        for character in token:
            if self._column + cell_len(character) > limit:
                yield "\n"
                self._column = 0
            self._column += cell_len(character)
            yield character

    def _indent(self, limit: int) -> int:
        """Lines of a list's item stand under its text."""
        item = _ITEM.match(self._line)
        return min(item.end(), limit // 4) if item is not None else 0
