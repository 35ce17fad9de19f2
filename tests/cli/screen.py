"""Terminals for tests: a stream that claims to be one, and what its last rows look like."""

from __future__ import annotations

import io
import re

from rich.cells import cell_len

_CODE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b\[?|[\r\n]|[^\x1b\r\n]")


class Screen(io.StringIO):
    """A stream that claims to be a terminal."""

    encoding = "utf-8"  # pyright: ignore[reportAssignmentType]  # a property there

    def isatty(self) -> bool:
        return True


def rows_of(text: str, width: int) -> list[str]:
    """The rows that a terminal without a bottom shows after `text`, up to the last one that is not empty.

    It obeys what this package writes, and no more.
    """
    rows: list[list[str]] = [[]]
    row = column = 0
    for found in _CODE.finditer(text):
        whole, number, code = found[0], found[1], found[2]
        if whole == "\r":
            column = 0
        elif whole == "\n":
            row, column = row + 1, 0
        elif code == "A":
            row -= int(number or 1)
        elif whole == "\x1b[2K":
            rows[row].clear()
        elif code in ("m", "h", "l"):
            continue
        elif whole.startswith("\x1b"):
            raise AssertionError(f"a foreign control code: {text[found.start() : found.start() + 12]!r}")
        else:
            cells = cell_len(whole)
            if column + cells > width:
                row, column = row + 1, 0
            while len(rows) <= row:
                rows.append([])
            line = rows[row]
            line += [" "] * (column - len(line))
            line[column:] = [whole, *[""] * (cells - 1)]
            column += cells
        while len(rows) <= row:
            rows.append([])
    shown = ["".join(row).rstrip() for row in rows]
    while shown and not shown[-1]:
        shown.pop()
    return shown
