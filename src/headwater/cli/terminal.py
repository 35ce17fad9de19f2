"""Writing to a terminal, a pipe or a file: styles only where they are wanted, and never a foreign control code."""

from __future__ import annotations

import os
import re
import sys
from typing import Literal, TextIO, TypeAlias

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook, RenderResult
from rich.control import Control
from rich.measure import Measurement
from rich.segment import Segment
from rich.status import Status
from rich.text import Text

from headwater.cli.safe import one_line, visible

# Errors name the arguments of Python calls; here they are options.
_ARGUMENT = re.compile(r"\b(base_url|api_key|max_rounds)\b=?")

Format: TypeAlias = Literal["plain", "rich"]

_PIPE_WIDTH = 160
"""Cells of a shortened line where there is no terminal to fit."""


class _Safe:
    """Renders something, and makes visible what a terminal would obey, wherever it came from."""

    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._inner, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, self._inner)


class _Guard(RenderHook):
    """The last gate, which all that is printed passes. Sources make their text safe before, so widths are right."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [one if isinstance(one, Control) else _Safe(one) for one in renderables]


class _Console(Console):
    def on_broken_pipe(self) -> None:
        # Not Rich's own exit: the run is ended first.
        raise BrokenPipeError("whoever read the output is gone")


class Glyphs:
    """The few signs that are drawn, in ASCII where the encoding has no others."""

    def __init__(self, fancy: bool) -> None:
        self.is_ascii = not fancy
        self.ok = "✓" if fancy else "+"
        self.bad = "✗" if fancy else "x"
        self.off = "–" if fancy else "-"
        self.back = "↺" if fancy else "<"
        self.more = "…" if fancy else "..."
        self.dot = " · " if fancy else ", "
        self.prompt = "›" if fancy else ">"
        self.bar = "│" if fancy else "|"
        self.todo = "○" if fancy else "o"
        self.said = "❯" if fancy else ">"
        self.aside = "┆" if fancy else "|"
        self.thought = "∴" if fancy else "*"
        self.spinner = "dots" if fancy else "line"
        self.frames = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏" if fancy else "-\\|/"


class Terminal:
    """One output stream.

    `form` asks for plain output or that of a terminal; by default a terminal that can gets its own, unless `NO_COLOR`
    asks for none. `is_terminal` is whether somebody looks at it, `styled` whether colours and dimming are written,
    `live` whether a line may be drawn over again.
    """

    def __init__(self, stream: TextIO, form: Format | None = None) -> None:
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]  # checked above
        plain = form == "plain" or (form is None and bool(os.environ.get("NO_COLOR")))
        self.console = _Console(
            file=stream,
            force_terminal=False if plain else True if form == "rich" else None,
            color_system=None if plain else "auto",
            highlight=False,
            markup=False,
            emoji=False,
            soft_wrap=True,
        )
        self.console.push_render_hook(_Guard())
        self.is_terminal = stream.isatty()
        self.styled = self.console.is_terminal and not self.console.is_dumb_terminal
        self.live = self.styled and (self.is_terminal or form == "rich")
        self.glyphs = Glyphs(_can_write("✓✗–↺…·›│○❯┆∴⠋•▌", stream))
        self._status: Status | None = None
        self._has_gap = False

    @property
    def width(self) -> int:
        """Cells that a shortened line may take."""
        return self.console.width - 1 if self.is_terminal else _PIPE_WIDTH

    def write(self, text: str, style: str = "") -> None:
        """Write text as it is, with no line end added."""
        self.settle()
        self._has_gap = False
        if style and self.styled:
            self.console.print(Text(text, style=style, end=""), end="")
        else:
            self.raw(visible(text))  # much text comes this way, in small pieces

    def raw(self, text: str, *, passes: bool = False) -> None:
        """Write what this package has rendered itself, at once. `passes`: nothing of it stays."""
        self._has_gap = self._has_gap and passes
        self.console.file.write(text)
        self.console.file.flush()

    def line(self, text: Text | str = "", style: str = "") -> None:
        """Write a line."""
        line = text if isinstance(text, Text) else Text(text, style=style)
        self._has_gap = not line.plain
        self.console.print(line, soft_wrap=not self.is_terminal)

    def gap(self) -> None:
        """Write an empty line, unless the last one is empty."""
        if not self._has_gap:
            self.line()

    def error(self, message: str) -> None:
        """The one line that says what went wrong, in the words of the command line."""
        message = _ARGUMENT.sub(lambda found: "--" + found[1].replace("_", "-"), visible(message))
        self.line(Text.assemble(("headwater: error: ", "bold red"), (" ".join(message.split()), "red")))

    def busy(self, text: str) -> None:
        """Show what is being waited for, on a line that goes away; nothing where it could not go away."""
        if not self.live:
            return
        line = Text(self.cut(one_line(text), self.width - 4), style="dim")
        if self._status is None:
            self._status = Status(
                line, console=self.console, spinner=self.glyphs.spinner, spinner_style="dim", refresh_per_second=8
            )
            self._status.start()
        else:
            self._status.update(line)

    def settle(self) -> None:
        """Take the line of `busy` away."""
        status, self._status = self._status, None
        if status is not None:
            status.stop()

    def cut(self, text: str, cells: int) -> str:
        """The text in at most so many cells, with a sign where it goes on."""
        if cell_len(text) <= cells:
            return text
        more = self.glyphs.more
        return set_cell_size(text, max(0, cells - len(more))).rstrip() + more


def _can_write(text: str, stream: TextIO) -> bool:
    try:
        text.encode(stream.encoding or "utf-8")  # none: it holds text, not bytes
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def output_terminal(form: str | None = None) -> Terminal:
    """Standard output, in the form that was asked for."""
    return Terminal(sys.stdout, "rich" if form == "rich" else "plain" if form == "plain" else None)


def error_terminal() -> Terminal:
    """Standard error."""
    return Terminal(sys.stderr)
