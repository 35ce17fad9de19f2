"""The last lines of a terminal, drawn over again: what is above stays, and is never drawn twice.

A terminal that was made narrower has broken the lines that stand in it, so how many rows are to be taken back is
reckoned from their lengths and the width of now.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"


class Region:
    """Composes what is written: finished text above, the region below. The cursor stays at the end of the last line."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._cells: list[int] = []
        self._hidden = False

    @property
    def is_drawn(self) -> bool:
        """Whether something stands there that has to be taken away."""
        return bool(self._cells)

    def compose(self, done: str, lines: Sequence[Text]) -> str:
        """What to write to take the region away, put `done` (whole lines) there, and draw these lines below."""
        before = self._taken_away()
        self._cells = [cell_len(line.plain) for line in lines]
        if not lines:
            after = _SHOW if self._hidden else ""
            self._hidden = False
            return before + done + after
        drawn = "\n".join(self.render(line) for line in lines)
        hide = "" if self._hidden else _HIDE
        self._hidden = True
        return hide + before + done + drawn

    def render(self, line: Text) -> str:
        """A line as it is written, without its end; the terminal breaks it if it is too long."""
        with self._console.capture() as capture:
            self._console.print(line, end="", soft_wrap=True)
        return capture.get()

    def _taken_away(self) -> str:
        if not self._cells:
            return ""
        width = max(1, self._console.width)
        rows = sum(max(1, -(-cells // width)) for cells in self._cells)
        # Row by row: to clear from the screen's first row on, some terminals scroll what is cleared into the history.
        return "\r\x1b[2K" + "\x1b[1A\x1b[2K" * (rows - 1)
