"""Calls written as text: read where a profile asks for it, otherwise not looked for.

Complete blocks that name a known tool become calls, and nothing of their markup is shown. Everything else stays text,
character by character. Only what may still become markup is held back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from headwater.chat.markup import DIALECTS, Block, BlockReader, MakeReader
from headwater.chat.thinking import held_back
from headwater.chat.written import JsonSpan, TextCall, call_in

__all__ = ["DialectReader", "TextCall", "dialect_reader"]

Items = list[str | TextCall]

_MAX_REJECTED = 100
"""Markers that turn out to be text, after which an answer is not searched any more: models that have fallen into
repeating themselves write thousands, and each would be followed to the end."""


def dialect_reader(dialects: Sequence[str], tool_names: frozenset[str]) -> DialectReader | None:
    """A reader for an answer in which calls of these tools may stand; None if there is nothing to look for."""
    if not dialects or not tool_names:
        return None
    return DialectReader(dialects, tool_names)


class DialectReader:
    """Read one answer's text: `feed` its pieces; `flush` when something else comes or it is over."""

    def __init__(self, dialects: Sequence[str], tool_names: frozenset[str]) -> None:
        self._names = tool_names
        self._bare = BareJson(tool_names) if "bare_json" in dialects else None
        self._makers: dict[str, MakeReader] = {}
        for dialect in dialects:
            if dialect in DIALECTS:
                markers, maker = DIALECTS[dialect]
                self._makers |= dict.fromkeys(markers, maker)
        self._markers = tuple(self._makers)
        longest_first = sorted(self._markers, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        self._firsts = frozenset(marker[0] for marker in self._markers)
        self._buffer = ""
        self._block: BlockReader | None = None
        self._marker = ""
        self._fences = Fences()
        self._gap: str | None = None  # white space after a call: dropped unless text follows
        self._rejected = 0

    def feed(self, text: str) -> Items:
        """What is certain now."""
        if self._bare is not None:
            released = self._bare.feed(text)
            if released is None:
                return []
            self._bare = None
            text = released
        out: Items = []
        self._read(text, out)
        return out

    def flush(self, *, final: bool) -> Items:
        """Hand out what is held back. `final`: the answer is over, so an answer of bare JSON is complete."""
        out: Items = []
        if self._bare is not None:
            bare, self._bare = self._bare, None
            call = bare.call() if final else None
            if call is not None:
                return [call]
            self._read(bare.text, out)
        while self._block is not None:
            self._take(self._block.end(self._buffer), out)
            self._scan(out)
        self._say(self._buffer, out)
        self._buffer = ""
        return out

    def _read(self, text: str, out: Items) -> None:
        if not self._buffer and self._firsts.isdisjoint(text):
            self._say(text, out)
            return
        self._buffer += text
        self._scan(out)

    def _scan(self, out: Items) -> None:
        """Read the buffer until more text is needed."""
        while self._buffer:
            if self._block is not None:
                block = self._block.feed(self._buffer)
                if block is None:
                    return
                self._take(block, out)
                continue
            searched = self._markers and self._rejected < _MAX_REJECTED
            found = self._pattern.search(self._buffer) if searched else None
            if found is None:
                keep = len(self._buffer) - held_back(self._buffer, self._markers)
                self._say(self._buffer[:keep], out)
                self._buffer = self._buffer[keep:]
                return
            self._say(self._buffer[: found.start()], out)
            self._buffer = self._buffer[found.start() :]
            self._marker = found.group()
            if self._fences.quoted:
                self._release(out)
            else:
                self._block = self._makers[self._marker](self._marker, self._names)

    def _take(self, block: Block, out: Items) -> None:
        self._block = None
        if not block.length:
            self._rejected += 1
            self._release(out)
            return
        for item in block.items:
            if isinstance(item, str):
                self._say(item, out)
            else:
                out.append(item)
                self._gap = ""
        self._buffer = self._buffer[block.length :]

    def _release(self, out: Items) -> None:
        """The marker is text after all."""
        self._say(self._marker, out)
        self._buffer = self._buffer[len(self._marker) :]

    def _say(self, text: str, out: Items) -> None:
        if self._gap is not None:
            text = self._gap + text
            if not text.strip():
                self._gap = text
                return
            self._gap = None
        if text:
            self._fences.see(text)
            out.append(text)


class Fences:
    """Follow code fences and inline code in the text: markup inside them is an example, not a call."""

    __slots__ = ("_fence", "_inline", "_mark")

    def __init__(self) -> None:
        self._fence = ""
        self._mark = ""  # the first characters of the line that are no white space, at most three
        self._inline = False  # an odd number of backticks has come in the line

    def see(self, text: str) -> None:
        """The next piece of the text."""
        first, *lines = text.split("\n")
        self._go_on(first)
        for line in lines:
            self._end_line()
            self._go_on(line)

    @property
    def quoted(self) -> bool:
        """Whether what comes next stands inside code."""
        return bool(self._fence) or self._inline or self._mark in ("```", "~~~")

    def _go_on(self, text: str) -> None:
        if len(self._mark) < 3:
            self._mark = (self._mark + text if self._mark else text.lstrip())[:3]
        if text.count("`") % 2:
            self._inline = not self._inline

    def _end_line(self) -> None:
        if self._mark in ("```", "~~~"):
            if not self._fence:
                self._fence = self._mark
            elif self._mark == self._fence:
                self._fence = ""
        self._mark = ""
        self._inline = False


_KEYS = ("name", "arguments", "parameters", "type", "function", "id")
_FRONT = re.compile(r'\{\s*(?:"([^"\\]*)("?))?')
_VALUE = re.compile(r'\s*:\s*(?:"([^"\\]*)("?))?')


class BareJson:
    """An answer that is one JSON object and nothing else may be a call: held back until it cannot be one any more."""

    __slots__ = ("_end", "_names", "_span", "text")

    def __init__(self, names: frozenset[str]) -> None:
        self.text = ""
        self._names = names
        self._span: JsonSpan | None = None
        self._end = -1

    def feed(self, text: str) -> str | None:
        """All of the text if it is no call; None while it may be one."""
        self.text += text
        if self._span is None:
            start = len(self.text) - len(self.text.lstrip())
            may_be = self._front(self.text, start)
            if may_be is None:
                return None
            if not may_be:
                return self.text
            self._span = JsonSpan(start)
        if self._end < 0:
            self._end = self._span.end(self.text)
        if self._end >= 0 and self.text[self._end :].strip():
            return self.text
        return None

    def call(self) -> TextCall | None:
        """The call that the whole answer is; None if it is none."""
        if self._end < 0 or self.text[self._end :].strip():
            return None
        return call_in(self.text[: self._end].strip(), self._names, need_arguments=True)

    def _front(self, text: str, start: int) -> bool | None:
        """Whether the text can begin a call, by its first key and name; None while that is open."""
        if start >= len(text):
            return None
        found = _FRONT.match(text, start)
        if found is None:
            return False
        key, closed = found.groups()
        if key is None:
            return None if found.end() == len(text) else False
        if not closed:
            return None if found.end() == len(text) and any(k.startswith(key) for k in _KEYS) else False
        if key != "name":
            return key in _KEYS
        value = _VALUE.match(text, found.end())
        if value is None:
            return False if text[found.end() :].strip() else None
        name, closed = value.groups()
        if name is None:
            return None if value.end() == len(text) else False
        if closed:
            return name in self._names
        return None if value.end() == len(text) and any(n.startswith(name) for n in self._names) else False
