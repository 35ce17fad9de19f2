"""Markdown that is still being written, cut into what is finished and what may still change; pure.

Top-level blocks are finished at the line that ends them, items of a list at the next one, code line by line. What a
line does is read off the line itself, so that a long block costs no more than a short one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

_FENCE = re.compile(r"^( {0,3})(`{3,}|~{3,})[ \t]*([^`\n]*)$")
_HEADING = re.compile(r"^ {0,3}#{1,6}(?:[ \t]|$)")
_RULE = re.compile(r"^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$")
_UNDERLINE = re.compile(r"^ {0,3}(?:-+|=+)[ \t]*$")
_QUOTE = re.compile(r"^ {0,3}>")
_ITEM = re.compile(r"^( {0,3})([-*+]|\d{1,9}[.)])(?:[ \t]|$)")


class Block(msgspec.Struct, frozen=True):
    """A finished piece of Markdown. `is_joined`: it goes on with the list of the block before."""

    source: str
    is_joined: bool = False


class Code(msgspec.Struct, frozen=True):
    """A line of code in a fence, or the fence itself, as `part` says. `info` stands behind the opening fence."""

    line: str
    part: Literal["open", "line", "close"]
    info: str = ""


Chunk: TypeAlias = Block | Code


class Blocks:
    """Feed it text; `rest` is what may still change."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._open = ""
        self._fence = ""
        self._info = ""
        self._item = ""
        self._indent = 0
        self._continues = False
        self._after_blank = False

    @property
    def rest(self) -> str:
        """What has been fed and is not finished."""
        return "\n".join([*self._lines, self._open])

    @property
    def is_code(self) -> bool:
        """Whether what comes next is a line of code."""
        return bool(self._fence)

    def feed(self, text: str) -> list[Chunk]:
        """What is finished now."""
        *lines, self._open = (self._open + text).split("\n")
        return [chunk for line in lines for chunk in self._line(line)]

    def close(self) -> list[Chunk]:
        """The rest, which is finished because nothing follows."""
        last, self._open = self._open, ""
        found = list(self._line(last)) if last.strip() else []
        found += self._end()
        self._fence = ""
        return found

    def _line(self, line: str) -> Iterator[Chunk]:
        if self._fence:
            is_end = line.strip().startswith(self._fence) and not line.strip().strip(self._fence[0])
            yield Code(line, "close" if is_end else "line", self._info)
            if is_end:
                self._fence = ""
            return
        if not line.strip():
            if self._item:
                self._lines.append(line)
                self._after_blank = True
            else:
                yield from self._end()
            return
        if self._item and self._goes_on(line):
            self._lines.append(line)
            self._after_blank = False
            return
        item = _ITEM.match(line) if not _RULE.match(line) else None
        if item is not None:
            was_item = bool(self._item)
            yield from self._end()
            # Another sign begins another list, but nobody sees that.
            self._item, self._indent, self._continues = item[2], item.end(), was_item
            self._lines.append(line)
            self._after_blank = False
            return
        yield from self._other(line)

    def _other(self, line: str) -> Iterator[Chunk]:
        fence = _FENCE.match(line)
        if fence is not None:
            yield from self._end()
            self._fence, self._info = fence[2], fence[3].strip()
            yield Code(line, "open", self._info)
        elif self._lines and not self._item and _UNDERLINE.match(line):
            self._lines.append(line)
            yield from self._end()
        elif _HEADING.match(line) or _RULE.match(line):
            yield from self._end()
            yield Block(line)
        else:
            if self._item or (_QUOTE.match(line) and self._lines and not _QUOTE.match(self._lines[0])):
                yield from self._end()
            self._lines.append(line)

    def _goes_on(self, line: str) -> bool:
        """Whether a line belongs to the item that is open: it is indented, or goes on with its paragraph."""
        indent = len(line) - len(line.lstrip(" \t"))
        if indent >= min(2, self._indent) and indent > 0:
            return True
        if self._after_blank:
            return False
        return not any(rule.match(line) for rule in (_ITEM, _FENCE, _HEADING, _RULE, _QUOTE))

    def _end(self) -> list[Chunk]:
        source = "\n".join(self._lines).strip("\n")
        is_joined, self._continues = self._continues, False
        self._lines, self._item, self._after_blank = [], "", False
        return [Block(source, is_joined)] if source.strip() else []
