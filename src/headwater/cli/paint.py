"""A run on a terminal: finished blocks go up into the scrollback, once; below stands what is still moving.

What may turn out to be a preamble is held below until that is known, as long as there is room for it. Nothing is
written between two ticks: a tick composes one piece of output, so that nothing flickers and fast streams cost little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, TypeAlias

from rich.cells import cell_len
from rich.text import Text

from headwater.cli import changes as to
from headwater.cli.blocks import Block, Blocks, Chunk, Code
from headwater.cli.changes import Change, Kind, Lane
from headwater.cli.markdown import code_lines, markdown_lines, styled_lines
from headwater.cli.moving import Running, moving_lines
from headwater.cli.plain import STYLES, TONES, lane_prefix, note_line
from headwater.cli.region import Region
from headwater.cli.terminal import Terminal
from headwater.cli.view import Status
from headwater.cli.words import plan_lines, seconds, tool_lines
from headwater.cli.wrap import line_spans

_Section: TypeAlias = Literal["", "text", "commentary", "thinking", "tools", "note", "withdrawn"]
Draw: TypeAlias = Callable[[int], list[Text]]
"""The lines of something in a number of cells."""

_HUNG = frozenset({"tools", "commentary", "thinking"})
"""What tools stand below without an empty line."""
_LEAST = 20
_ENOUGH = 40
"""So much is committed at once at most before it is written."""
_TAIL = 4000
"""Characters at the end of what is being said that are looked at for its last lines."""
_WORDS = 200


class _Flow:
    """What one run is saying in its turn."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.begin(is_open=False)

    def begin(self, *, is_open: bool) -> None:
        self.is_open = is_open
        self.section: _Section = "text"
        self.committed = 0
        self.held: list[Chunk] = []
        self.blocks = Blocks()
        self.kind: Kind = "text"
        self.thought = ""
        self.code: list[str] = []
        self.fresh: list[str] = []
        self.info = ""

    @property
    def tail(self) -> str:
        """The end of what is said and not committed."""
        if self.thought:
            return self.thought[-_TAIL:]
        parts = [chunk.source if isinstance(chunk, Block) else chunk.line for chunk in self.held]
        return "\n\n".join([*parts, self.blocks.rest])[-_TAIL:].strip("\n")


class RichPainter:
    """Draws changes of one run. `folds`: thinking is one line when it is over, else it stays whole."""

    def __init__(
        self,
        out: Terminal,
        status: Status,
        *,
        names: Sequence[str] = (),
        folds: bool = True,
        note: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._out = out
        self._status = status
        self._folds = folds
        self._note = note
        self._clock = clock
        self._began = clock()
        self._cells = max((cell_len(name) for name in names), default=0)
        self._region = Region(out.console)
        self._flows: dict[str, _Flow] = {}
        self._running: dict[tuple[str, str], Running] = {}
        self._writing: dict[str, tuple[Lane, str, int]] = {}
        self._done: list[str] = []
        self._last: tuple[str | None, _Section] = (None, "")
        self._drawn: list[Text] = []
        self._drawn_at = 0

    def apply(self, change: Change) -> None:
        """Take a change; it is drawn at the next tick."""
        flow = self._flow(change.lane)
        match change:
            case to.Piece():
                self._piece(flow, change)
            case to.BlockDone(kind=kind, seconds=took):
                self._block_done(flow, kind, took)
            case to.Turn(is_open=is_open):
                flow.begin(is_open=is_open)
            case to.ModeKnown(is_commentary=is_commentary):
                self._mode_known(flow, is_commentary)
            case to.Withdrawn(reason=reason):
                self._withdraw(flow, reason)
            case to.TurnDone(lane=lane):
                self._writing.pop(lane.run_id, None)
                self._let_go(flow)
            case to.Writing(lane=lane, tool=tool, characters=characters):
                self._writing[lane.run_id] = (lane, tool, characters)
            case to.ToolBegun(lane=lane, call_id=call_id, tool=tool, args=args):
                self._writing.pop(lane.run_id, None)
                self._running[lane.run_id, call_id] = Running(lane, tool, args, self._clock())
            case to.ToolMoved(lane=lane, call_id=call_id, text=text, share=share):
                running = self._running.get((lane.run_id, call_id))
                if running is not None:
                    running.text, running.share = text, share
            case to.ToolDone(lane=lane, event=event, args=args, is_seen=is_seen):
                self._running.pop((lane.run_id, event.call_id), None)
                if is_seen:
                    return
                self._commit(lane, "tools", lambda width: tool_lines(self._out, event, args, width))
            case to.PlanNow(lane=lane, steps=steps, index=index):
                self._commit(lane, "note", lambda _: plan_lines(self._out.glyphs, steps, index))
            case to.Note(lane=lane, text=text, tone=tone):
                line = note_line(self._out, change, TONES[tone])
                self._commit(lane, "note", lambda width: _wrapped(line, width))
            case to.Asked(lane=lane, text=text):
                self._commit(lane, "note", lambda width: _asked(self._out, text, width))
            case to.LaneDone(lane=lane, is_root=is_root):
                self._let_go(flow)
                if is_root:
                    self.close()

    def tick(self) -> None:
        """Write what was committed, and draw below it what moves."""
        self._commit_all_code()
        self._write(self._moving())

    def close(self) -> None:
        """Write everything, and take away what moved."""
        for flow in self._flows.values():
            self._let_go(flow)
        self._commit_all_code()
        self._running.clear()
        self._writing.clear()
        self._write([])

    # -- what is said -------------------------------------------------------------------------------------------

    def _flow(self, lane: Lane) -> _Flow:
        flow = self._flows.get(lane.run_id)
        if flow is None:
            self._cells = max(self._cells, cell_len(lane.label))
            flow = self._flows[lane.run_id] = _Flow(lane)
        return flow

    def _piece(self, flow: _Flow, piece: to.Piece) -> None:
        flow.kind = piece.kind
        if piece.kind == "thinking" and self._folds:
            # The beginning names it later, the end shows it now; the middle may be long.
            keep = f"{flow.thought}{piece.text}"
            flow.thought = keep if len(keep) < 2 * _TAIL else f"{keep[:_WORDS]}\n{keep[-_TAIL:]}"
            return
        for chunk in flow.blocks.feed(piece.text):
            self._finished(flow, chunk)

    def _block_done(self, flow: _Flow, kind: Kind, took: float) -> None:
        if kind == "thinking" and self._folds:
            words, flow.thought = " ".join(flow.thought[:_WORDS].split()), ""
            self._commit(flow.lane, "thinking", lambda width: [_folded(self._out, took, words, width)])
            return
        for chunk in flow.blocks.close():
            self._finished(flow, chunk)
        flow.blocks = Blocks()

    def _finished(self, flow: _Flow, chunk: Chunk) -> None:
        if not flow.is_open or flow.kind != "text" or isinstance(chunk, Code):
            self._release(flow)
            self._say(flow, chunk)
            return
        flow.held.append(chunk)
        while flow.held and len(styled_lines(flow.tail, self._room(flow.lane))) > self._tail_room:
            self._say(flow, flow.held.pop(0))

    def _release(self, flow: _Flow) -> None:
        held, flow.held = flow.held, []
        for chunk in held:
            self._say(flow, chunk)

    def _let_go(self, flow: _Flow) -> None:
        """The turn is over, or cut off: what is left of it is final."""
        if flow.thought:
            self._block_done(flow, "thinking", 0.0)
        for chunk in flow.blocks.close():
            self._finished(flow, chunk)
        self._release(flow)
        self._commit_code(flow)
        flow.begin(is_open=False)

    def _mode_known(self, flow: _Flow, is_commentary: bool) -> None:
        flow.is_open = False
        if is_commentary:
            if flow.committed:
                shown = Text(f"{self._out.glyphs.aside} what stands above was said before calling tools", "dim italic")
                self._commit(flow.lane, "commentary", lambda _: [shown], joined=True)
            flow.section = "commentary"
        self._release(flow)

    def _withdraw(self, flow: _Flow, reason: str) -> None:
        self._commit_code(flow)
        chunks = [*flow.held, *flow.blocks.close()]
        struck = "\n\n".join(one.source if isinstance(one, Block) else one.line for one in chunks) or flow.thought
        self._writing.pop(flow.lane.run_id, None)
        if struck.strip():
            self._commit(flow.lane, "withdrawn", lambda width: styled_lines(struck, width, "dim strike"))
        above = ", with what stands above" if flow.committed else ""
        note = Text(f"{self._out.glyphs.back} withdrawn{above}: {reason}. Trying again.", "yellow")
        self._commit(flow.lane, "withdrawn", lambda width: _wrapped(note, width), joined=bool(struck.strip()))
        flow.begin(is_open=False)

    def _say(self, flow: _Flow, chunk: Chunk) -> None:
        """Commit a finished chunk of text."""
        style = STYLES[flow.kind] if flow.section == "text" else "dim"
        section: _Section = "thinking" if flow.kind == "thinking" else flow.section
        flow.committed += 1
        if isinstance(chunk, Block):
            draw = partial(self._prose, chunk.source, style, section == "commentary")
            self._commit(flow.lane, section, draw, joined=chunk.is_joined)
            return
        if chunk.part == "line":
            flow.fresh.append(chunk.line)  # the colours of several lines cost no more than those of one
            flow.info = chunk.info
            return
        self._commit_code(flow)
        flow.code = []
        fence = Text(chunk.line, "dim")
        self._commit(flow.lane, section, lambda _: [fence], joined=chunk.part == "close", code=True)

    def _commit_code(self, flow: _Flow) -> None:
        """Commit lines of code that wait for it."""
        fresh, before = flow.fresh, flow.code
        if fresh:
            flow.fresh, flow.code = [], [*before, *fresh][-_ENOUGH:]
            section: _Section = flow.section if flow.kind == "text" else "thinking"
            self._commit(flow.lane, section, lambda _: code_lines(fresh, flow.info, before), joined=True, code=True)

    def _commit_all_code(self) -> None:
        for flow in self._flows.values():
            self._commit_code(flow)

    def _prose(self, source: str, style: str, is_aside: bool, width: int) -> list[Text]:
        mark = f"{self._out.glyphs.aside} " if is_aside else ""
        lines = markdown_lines(source, width - len(mark), ascii_only=self._out.glyphs.is_ascii)
        for line in lines:
            line.stylize_before(style)
        return [Text.assemble((mark, "dim"), line) for line in lines] if mark else lines

    # -- committing and drawing ---------------------------------------------------------------------------------

    def _commit(self, lane: Lane, section: _Section, draw: Draw, joined: bool = False, code: bool = False) -> None:
        """Have lines written above what moves, for good."""
        if not code:
            self._commit_all_code()
        prefix = lane_prefix(self._out, lane, self._cells)
        lines = [*self._gap(lane, section, joined), *draw(self._room(lane))]
        whole: list[Text] = []
        for line in lines:
            if code and prefix and cell_len(line.plain) > self._room(lane):
                whole += _wrapped(line, self._room(lane))
            else:
                whole.append(line)
        self._last = (lane.label, section)
        self._done += [self._region.render(Text.assemble(*prefix, line) if prefix else line) for line in whole]
        if len(self._done) > _ENOUGH:
            self._write(self._moving())

    def _gap(self, lane: Lane, section: _Section, joined: bool) -> list[Text]:
        """The empty line in front of what is committed next, if there is to be one."""
        label, last = self._last
        if label is None:
            return []
        if label != lane.label:
            self._done.append("")
            return []
        if joined or (section == "tools" and last in _HUNG):
            return []
        if lane.label and "text" not in (section, last):
            return []
        return [Text()]

    @property
    def _tail_room(self) -> int:
        """Lines that may be drawn over again for what is being said."""
        return min(6, max(3, self._out.console.height // 2 - 2))

    def _room(self, lane: Lane) -> int:
        if not lane.label:
            return self._out.width
        return max(_LEAST, self._out.width - max(self._cells, cell_len(lane.label)) - 3)

    def _moving(self) -> list[Text]:
        """What stands below: what is being said, what runs, and how the run stands."""
        growing: list[Text] = []
        speaking = [flow for flow in self._flows.values() if flow.tail.strip()]
        share = max(1, self._tail_room // max(1, len(speaking)))
        for flow in speaking:
            style = STYLES["thinking"] if flow.thought else "dim" if flow.section == "commentary" else STYLES[flow.kind]
            prefix = lane_prefix(self._out, flow.lane, self._cells)
            most = min(3, share) if flow.thought else share
            lines = styled_lines(flow.tail, self._room(flow.lane), style)[-most:]
            growing += [Text.assemble(*prefix, line) if prefix else line for line in lines]
        if growing and self._last[0] is not None:
            growing.insert(0, Text())
        return [
            *growing,
            *moving_lines(
                self._out,
                list(self._running.values()),
                list(self._writing.values()),
                self._status,
                elapsed=self._clock() - self._began,
                now=self._clock(),
                is_quiet=not growing,
                note=self._note,
            ),
        ]

    def _write(self, moving: list[Text]) -> None:
        same = moving == self._drawn and self._drawn_at == self._out.console.width
        if same and not self._done:
            return
        done = "".join(f"{line}\n" for line in self._done)
        self._done.clear()
        self._drawn, self._drawn_at = moving, self._out.console.width
        self._out.raw(self._region.compose(done, [self._fitted(line) for line in moving]), passes=not done)

    def _fitted(self, line: Text) -> Text:
        """The line in one row."""
        line = line.copy()
        line.truncate(self._out.width, overflow="ellipsis" if not self._out.glyphs.is_ascii else "crop")
        return line


def _wrapped(line: Text, width: int) -> list[Text]:
    return [line[start:end] for start, end in line_spans(line.plain, width) if start < end] or [Text()]


def _asked(out: Terminal, text: str, width: int) -> list[Text]:
    lines = styled_lines(text.strip(), width - 2, "bold")
    return [Text.assemble((f"{out.glyphs.said} ", "bold cyan"), line) for line in lines]


def _folded(out: Terminal, took: float, words: str, width: int) -> Text:
    """Thinking that is over, in one line."""
    head = f"{out.glyphs.thought} thought{f' {seconds(took)}' if took >= 0.1 else ''}{out.glyphs.dot}"
    return Text(head + out.cut(words, max(_LEAST, width - cell_len(head))), "dim italic")
