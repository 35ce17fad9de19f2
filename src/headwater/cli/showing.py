"""A run shown: its events through the view to a painter, plain or for a terminal that can draw over a line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from headwater.cli.changes import Change
from headwater.cli.plain import PlainPainter
from headwater.cli.terminal import Terminal
from headwater.cli.view import View
from headwater.events import AgentEvent


class Painter(Protocol):
    """Draws what changes."""

    def apply(self, change: Change) -> None: ...

    def tick(self) -> None:
        """Time has passed: draw what moves, and what waits to be drawn."""
        ...

    def close(self) -> None:
        """Draw the rest; also of a run that stops in the middle."""
        ...


class Showing:
    """Shows one run; call it with each event, `tick` it ten times a second or so, and `close` it in any case.

    `is_told`: the reader is not the one who asks and decides. `names` are those whose width lanes keep. `note` stands
    in the status line. `leaves`: an interrupt ends the reading, not the run. `watch` is called with each event.
    """

    def __init__(
        self,
        out: Terminal,
        *,
        is_told: bool = False,
        names: Sequence[str] = (),
        folds: bool = True,
        note: str = "",
        leaves: bool = False,
        watch: Callable[[AgentEvent], None] | None = None,
    ) -> None:
        self._watch = watch
        self._view = View(is_told=is_told)
        if leaves:
            self._view.status.interrupt = "Ctrl-C leaves"
        self.moves = out.live
        if out.live:
            from headwater.cli.paint import RichPainter  # with Markdown, which plain output does without

            self._painter: Painter = RichPainter(out, self._view.status, names=names, folds=folds, note=note)
        else:
            self._painter = PlainPainter(out, names)

    def __call__(self, event: AgentEvent) -> None:
        """Show an event, or nothing if there is nothing to see in it."""
        if self._watch is not None:
            self._watch(event)
        for change in self._view.feed(event):
            self._painter.apply(change)

    def tick(self) -> None:
        self._painter.tick()

    def stopping(self) -> None:
        """The run has been asked to end."""
        self._view.status.interrupt = "stopping, Ctrl-C again quits"

    def close(self) -> None:
        self._painter.close()
