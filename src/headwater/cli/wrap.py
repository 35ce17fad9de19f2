"""Where lines break: between words, anywhere in scripts that have none, never before a closing mark."""

from __future__ import annotations

import re

from rich.cells import cell_len

_CLOSING = "，。、；：！？）】》」』”’…,.;:!?)\\]}%"
_OPENING = "（【《「『“‘(\\[{"
_WIDE = "\u1100-\u11ff\u2e80-\ud7ff\uf900-\ufaff\ufe30-\uffee\U00020000-\U0003ffff"
_UNIT = re.compile(f"\\s+|[{_OPENING}]*[{_WIDE}][{_CLOSING}]*|[^\\s{_WIDE}]+[，。、；：！？）】》」』”’…]*")
"""A space, a character of a script that breaks anywhere with the marks that stay with it, or a piece of a word."""
_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_FENCE = "```"
_VERBATIM = ("    ", "\t", "|")
"""How lines of code and tables begin: the terminal breaks them, so that they are copied whole."""
_LEAST = 8


def line_spans(text: str, width: int, indent: int = 0) -> list[tuple[int, int]]:
    """Beginning and end of each line that a paragraph takes in `width` cells; from the second on `indent` fewer.

    Spaces at which a line breaks belong to none. A word longer than a line is broken where the line ends.
    """
    room = max(_LEAST, width)
    spans: list[tuple[int, int]] = []
    start = end = column = 0
    for unit in _UNIT.finditer(text):
        if unit[0].isspace():
            continue
        cells, gap = cell_len(unit[0]), cell_len(text[end : unit.start()])
        if column and column + gap + cells > room:
            spans.append((start, end))
            room = max(_LEAST, width - indent)
            start, column, gap = unit.start(), 0, 0
        if cells > room - column - gap:
            # Longer than a whole line.
            for at in range(unit.start(), unit.end()):
                wide = cell_len(text[at])
                if column + gap + wide > room:
                    spans.append((start, at))
                    room = max(_LEAST, width - indent)
                    start, column, gap = at, 0, 0
                column, gap = column + gap + wide, 0
        else:
            column += gap + cells
        end = unit.end()
    spans.append((start, end if end > start else len(text)))
    return spans


def wrapped(text: str, width: int) -> str:
    """A whole text, broken for lines of `width` cells; the lines of a list's item stand under its text."""
    lines: list[str] = []
    in_fence = False
    for line in text.split("\n"):
        is_fence = line.lstrip().startswith(_FENCE)
        if in_fence or is_fence or line.startswith(_VERBATIM):
            lines.append(line)
            in_fence ^= is_fence
            continue
        item = _ITEM.match(line)
        indent = min(item.end(), width // 4) if item is not None else 0
        for number, (start, end) in enumerate(line_spans(line, width, indent)):
            lines.append(" " * indent * bool(number) + line[start:end])
    return "\n".join(lines)
