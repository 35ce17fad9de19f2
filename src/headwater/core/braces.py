"""Whether an object that arrives in fragments may be complete: its braces, counted as they come."""

from __future__ import annotations

import re

_MARKS = re.compile(r'[\\"{}]')


class Braces:
    """Counts the braces of a JSON text outside of its strings, each fragment once.

    Arguments may be complete only where the first brace is closed. Looking for that costs a fragment, and parsing
    what there is each time a brace comes would cost the square of the arguments.
    """

    __slots__ = ("_depth", "_escaped", "_in_string")

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def close(self, text: str) -> bool:
        """Take the next fragment; true if the outermost brace was closed in it."""
        closed = False
        at = 1 if self._escaped and text else 0
        if text:
            self._escaped = False
        while (found := _MARKS.search(text, at)) is not None:
            at = found.end()
            match found[0]:
                case "\\":
                    self._escaped = self._in_string and at == len(text)
                    at += self._in_string
                case '"':
                    self._in_string = not self._in_string
                case "{" if not self._in_string:
                    self._depth += 1
                case "}" if not self._in_string:
                    self._depth -= 1
                    closed = closed or self._depth <= 0
                case _:
                    pass
        return closed
