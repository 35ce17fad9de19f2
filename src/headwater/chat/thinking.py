"""Thinking that stands in the answer's text between tags: `<think>...</think>` and its kin.

A tag counts only at the very start of the answer (after white space), as DESIGN "Thinking" says: later in the text it
is something the model talks about.
"""

from __future__ import annotations

from typing import Literal

TAGS: tuple[tuple[str, str], ...] = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
)
"""Opening and closing tags, by family of models."""

_CLOSERS = tuple(close for _, close in TAGS)

Piece = tuple[bool, str]
"""(is thinking, text)."""


def held_back(text: str, markers: tuple[str, ...]) -> int:
    """How many characters at the end of `text` may still become one of `markers`: the longest proper prefix there."""
    longest = 0
    for marker in markers:
        first = marker[0]
        start = len(text) - min(len(text), len(marker) - 1)
        at = text.find(first, start)
        while at >= 0:
            if len(text) - at <= longest:
                break
            if marker.startswith(text[at:]):
                longest = len(text) - at
                break
            at = text.find(first, at + 1)
    return longest


class ThinkSplitter:
    """Split an answer's text into thinking and text, however its pieces are cut.

    `passing` is true once no tag can come any more: then text is answer text as it is, and `feed` need not be called.
    Only what may still become a tag is held back. White space around a tag at the start, and after a closing tag, is
    not answer text. With mode `open` the answer begins inside the thinking, unless thinking comes `elsewhere` first.
    """

    __slots__ = ("_buffer", "_closers", "_inside", "_lead", "_thought", "passing")

    def __init__(self, mode: Literal["auto", "open", "none"]) -> None:
        self.passing = mode == "none"
        self._inside = mode == "open"
        self._closers = _CLOSERS  # which tags end the thinking: all until an opening tag has said which
        self._buffer = ""
        self._lead = "" if mode == "open" else None  # white space at the start of a thinking block, until text comes
        self._thought = False  # a thinking block has ended: white space before the answer is not part of it

    def elsewhere(self) -> None:
        """Thinking came in a field of its own: then an answer that has not begun does not begin inside it."""
        if self._inside and self._closers is _CLOSERS and not self._buffer and self._lead == "":
            self._inside = False
            self._lead = None

    def feed(self, text: str) -> list[Piece]:
        """The pieces that are certain now."""
        if self.passing:
            return [(False, text)] if text else []
        out: list[Piece] = []
        self._buffer += text
        while self._buffer and self._step(out):
            pass
        return out

    def flush(self) -> list[Piece]:
        """The answer is over, or something else than text follows: hand out what was held back."""
        rest = (self._lead or "") + self._buffer
        self._buffer = ""
        if self._inside:
            if not rest.strip():
                return []
            self._lead = None
        else:
            self.passing = True
            if self._thought:
                rest = rest.lstrip()
        return [(self._inside, rest)] if rest else []

    def _step(self, out: list[Piece]) -> bool:
        """Move on by one decision; false if more text is needed."""
        if not self._inside:
            return self._outside(out)
        # With mode "open" an opening tag at the start is tolerated.
        if self._lead is not None and self._closers is _CLOSERS and (more := self._opening()) is not None:
            return more
        return self._thinking(out)

    def _opening(self) -> bool | None:
        """True: an opening tag was taken. False: there may be one, more text is needed. None: there is none."""
        stripped = self._buffer.lstrip()
        for opener, closer in TAGS:
            if stripped.startswith(opener):
                self._inside = True
                self._closers = (closer,)
                self._buffer = stripped[len(opener) :]
                self._lead = ""
                return True
        return None if stripped and not any(opener.startswith(stripped) for opener, _ in TAGS) else False

    def _outside(self, out: list[Piece]) -> bool:
        if (more := self._opening()) is not None:
            return more
        out.append((False, self._buffer.lstrip() if self._thought else self._buffer))
        self._buffer = ""
        self.passing = True
        return False

    def _thinking(self, out: list[Piece]) -> bool:
        buffer = self._buffer
        found = [(at, close) for close in self._closers if (at := buffer.find(close)) >= 0]
        if not found:
            keep = len(buffer) - held_back(buffer, self._closers)
            self._buffer = buffer[keep:]
            self._think(buffer[:keep], out)
            return False
        at, close = min(found)
        self._think(buffer[:at], out)
        self._buffer = buffer[at + len(close) :]
        self._inside = False
        self._thought = True
        self._lead = None
        return True

    def _think(self, text: str, out: list[Piece]) -> None:
        if self._lead is not None:  # thinking that is nothing but white space is none
            text = self._lead + text
            if not text.strip():
                self._lead = text
                return
            self._lead = None
        if text:
            out.append((True, text))
