"""A run as plain lines, for pipes, files and terminals that can do no more: what is written stays written.

An agent that speaks alone is written as it speaks. Where several do, lines are written whole, with whose they are in
front, because two that grow at the same time cannot share a stream. Text that turns out to be a preamble stands
directly above the tools it announces; an answer stands by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from rich.cells import cell_len
from rich.text import Text

from headwater.cli import changes as to
from headwater.cli.changes import Change, Kind, Lane
from headwater.cli.terminal import Terminal
from headwater.cli.words import plan_lines, tool_lines
from headwater.cli.wrap import wrapped

_Section: TypeAlias = Literal["", "text", "thinking", "refusal", "tools", "note"]

STYLES: dict[Kind, str] = {"text": "", "thinking": "dim italic", "refusal": "yellow"}
TONES: dict[to.Tone, str] = {"info": "dim", "warning": "yellow", "strong": "bold"}
COLOURS = ("cyan", "magenta", "green", "yellow", "blue")
_THINKING_MARK = "| "
"""Begins each line of thinking where nothing can be dim."""
_LEAST = 20


class PlainPainter:
    """Writes changes of one run. `names` are those whose width the lanes keep."""

    def __init__(self, out: Terminal, names: Sequence[str] = ()) -> None:
        self._out = out
        self._cells = max((cell_len(name) for name in names), default=0)
        self._section: _Section = ""
        self._written_by: str | None = None
        self._line_open = False
        self._interrupted = False
        self._commentary = False
        self._lines: dict[str, tuple[Lane, str, Kind]] = {}

    def apply(self, change: Change) -> None:
        """Write what is to be seen of it."""
        match change:
            case to.Piece(lane=lane, kind=kind, text=text, begins=begins):
                if lane.label:
                    self._grow(lane, kind, text)
                else:
                    self._stream(lane, kind, text, begins)
            case to.Turn():
                self._commentary = False
            case to.ModeKnown(is_commentary=is_commentary):
                self._commentary = is_commentary
            case to.TurnDone(lane=lane):
                self._end(lane)
            case to.Withdrawn(lane=lane, reason=reason):
                text = f"{self._out.glyphs.back} withdrawn: {reason}. Trying again."
                self._put(lane, "note", [Text(text, "yellow")])
            case to.ToolDone(lane=lane, event=event, args=args, is_seen=False):
                self._put(lane, "tools", tool_lines(self._out, event, args, self._room(lane)))
            case to.PlanNow(lane=lane, steps=steps, index=index):
                self._put(lane, "note", plan_lines(self._out.glyphs, steps, index))
            case to.Note(lane=lane, text=text, tone=tone):
                self._put(lane, "note", [note_line(self._out, change, TONES[tone])])
            case to.Asked(lane=lane, text=text):
                marked = [Text(f"{self._out.glyphs.said} {line}", "bold") for line in text.strip().split("\n")]
                self._put(lane, "note", marked)
            case to.LaneDone(lane=lane):
                self._end(lane)
            case _:
                pass

    def tick(self) -> None:
        """Nothing moves here."""

    def close(self) -> None:
        """End all lines; also for a run that stops in the middle of them."""
        for lane, _, _ in list(self._lines.values()):
            self._end(lane)
        self._end_line()

    # -- an agent alone -----------------------------------------------------------------------------------------

    def _stream(self, lane: Lane, kind: Kind, text: str, begins: bool) -> None:
        if begins or self._section != kind or self._interrupted:
            if not begins:
                text = text.lstrip()
            self._begin(lane, kind)
        if kind == "thinking" and not self._out.styled:
            text = ("" if self._line_open else _THINKING_MARK) + text.replace("\n", f"\n{_THINKING_MARK}")
        self._out.write(text, STYLES[kind])
        self._line_open = True

    def _begin(self, lane: Lane, section: _Section) -> None:
        """Go to a new line, with an empty one before it where something else begins."""
        self._end_line()
        is_hung = section == "tools" and (self._section == "tools" or (self._section == "text" and self._commentary))
        if lane.label:
            is_hung = self._written_by == lane.label
        if self._written_by is not None and not is_hung:
            self._out.line()
        self._section, self._written_by, self._interrupted = section, lane.label, False

    def _end_line(self) -> None:
        if self._line_open:
            self._out.line()
        self._line_open = False

    def _end(self, lane: Lane) -> None:
        """End the line that this run is writing."""
        if not lane.label:
            self._end_line()
            return
        _, line, kind = self._lines.pop(lane.run_id, (lane, "", "text"))
        if line.strip():
            self._write(lane, line, kind)

    # -- several ------------------------------------------------------------------------------------------------

    def _grow(self, lane: Lane, kind: Kind, text: str) -> None:
        if lane.run_id in self._lines and self._lines[lane.run_id][2] != kind:
            self._end(lane)
        _, line, _ = self._lines.get(lane.run_id, (lane, "", kind))
        *whole, line = (line + text).split("\n")
        for one in whole:
            self._write(lane, one, kind)
        self._lines[lane.run_id] = (lane, line, kind)

    def _write(self, lane: Lane, line: str, kind: Kind) -> None:
        """A line of text; the empty ones between paragraphs are left out."""
        shown = wrapped(line.rstrip(), self._room(lane)) if self._out.is_terminal else line.rstrip()
        lines = [Text(one, STYLES[kind]) for one in shown.split("\n") if one.strip()]
        if lines:
            self._lay(lane, kind, lines)

    # -- both ---------------------------------------------------------------------------------------------------

    def _put(self, lane: Lane, section: _Section, lines: Sequence[Text]) -> None:
        self._end(lane)
        self._lay(lane, section, lines)

    def _lay(self, lane: Lane, section: _Section, lines: Sequence[Text]) -> None:
        self._begin(lane, section)
        self._interrupted = True
        self._cells = max(self._cells, cell_len(lane.label))
        for line in lines:
            self._out.line(Text.assemble(*lane_prefix(self._out, lane, self._cells), line))

    def _room(self, lane: Lane) -> int:
        """Cells for a line of this lane."""
        if not lane.label:
            return self._out.width
        return max(_LEAST, self._out.width - max(self._cells, cell_len(lane.label)) - 3)


def lane_prefix(out: Terminal, lane: Lane, cells: int) -> tuple[tuple[str, str], ...]:
    """Whose a line is, in `cells` cells and a bar; nothing for an agent that speaks alone."""
    if not lane.label:
        return ()
    space = " " * (cells - cell_len(lane.label))
    return ((f"{lane.label}{space} {out.glyphs.bar} ", COLOURS[lane.number % len(COLOURS)]),)


def note_line(out: Terminal, note: to.Note, style: str) -> Text:
    """A note with its sign."""
    signs = {"prompt": out.glyphs.prompt, "off": out.glyphs.off}
    if note.sign == "media":
        return Text(note.text, "cyan")
    return Text(f"{signs[note.sign]} {note.text}" if note.sign in signs else note.text, style)
