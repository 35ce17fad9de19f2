"""A team's events as lanes: each line has in front whose it is, so that members who work at once read apart.

Lines are written whole, when they are full or end, because two that grow at the same time cannot share a terminal;
what is being written meanwhile shows on the line that goes away.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.cells import cell_len
from rich.text import Text

from headwater.cli.render import PlainRenderer, short_call, tool_lines
from headwater.cli.terminal import Terminal, clean
from headwater.cli.wrap import wrapped
from headwater.events import (
    AgentEvent,
    AgentKind,
    ChatEventType,
    HandoffEvent,
    NodeEndEvent,
    NodeStartEvent,
    Outcome,
    ReasonDeltaEvent,
    ReasonDiscardEvent,
    ReasonEndEvent,
    RunEndEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue")
_STYLES = {ChatEventType.THINKING_DELTA: "dim italic", ChatEventType.REFUSAL_DELTA: "yellow"}
_SPOKEN = frozenset({ChatEventType.TEXT_DELTA, *_STYLES})


class _Lane(msgspec.Struct):
    """One member's run: its name, its colour, and the line that it is writing."""

    name: str
    colour: str
    line: str = ""
    style: str = ""


class RunRenderer:
    """Shows one run as its kind of agent is best shown: a team in lanes, others plainly."""

    def __init__(self, out: Terminal) -> None:
        self._out = out
        self._renderer: PlainRenderer | LaneRenderer | None = None

    def __call__(self, event: AgentEvent) -> None:
        """Show an event; the first one decides how."""
        if self._renderer is None:
            is_team = event.origin.agent_kind is AgentKind.TEAM
            self._renderer = LaneRenderer(self._out) if is_team else PlainRenderer(self._out)
        self._renderer(event)

    def close(self) -> None:
        """End the last line."""
        if self._renderer is not None:
            self._renderer.close()


class LaneRenderer:
    """Shows one run of a team; call it with each event. `names` are those whose width the lanes keep."""

    def __init__(self, out: Terminal, names: Sequence[str] = ()) -> None:
        self._out = out
        self._cells = max((cell_len(name) for name in names), default=0)
        self._lanes: dict[str, _Lane] = {}
        self._nodes: dict[str, str] = {}
        self._running: dict[tuple[str, str], ToolCallStartEvent] = {}
        self._last = ""

    def __call__(self, event: AgentEvent) -> None:
        """Show an event, or nothing if there is nothing to see in it."""
        run_id = event.origin.run_id
        match event:
            case NodeStartEvent(member_run_id=member_run_id, label=label):
                self._nodes[member_run_id] = label
            case ReasonDeltaEvent(chat_type=kind) if kind in _SPOKEN:
                self._say(self._lane(event), clean(event.text), _STYLES.get(kind, ""))
            case ReasonEndEvent():
                self._end_line(self._lane(event))
            case ReasonDiscardEvent(reason=reason):
                self._line(self._lane(event), Text(f"{self._out.glyphs.back} withdrawn: {clean(reason)}", "yellow"))
            case ToolCallStartEvent(call_id=call_id):
                self._running[run_id, call_id] = event
                self._busy(self._lane(event), short_call(event.tool_name, event.args))
            case ToolCallEndEvent(call_id=call_id):
                start = self._running.pop((run_id, call_id), None)
                for line in tool_lines(self._out, event, start.args if start is not None else None):
                    if line is not None:
                        self._line(self._lane(event), line)
            case HandoffEvent(to_member=target, memo=memo):
                said = f": {memo}" if memo else ""
                self._line(self._lane(event), Text(f"{self._out.glyphs.prompt} {clean(target + said)}", "bold"))
            case NodeEndEvent(outcome=outcome, error=error) if outcome is not Outcome.COMPLETED:
                lane = self._lanes.get(event.member_run_id) or self._lane(event)
                why = f": {error.message}" if error is not None else ""
                self._line(lane, Text(clean(f"{self._out.glyphs.off} {outcome}{why}"), "yellow"))
            case RunEndEvent():
                if run_id in self._lanes:
                    self._end_line(self._lanes[run_id])
                if not event.origin.parent_run_id:
                    self.close()
            case _:
                pass

    def close(self) -> None:
        """End all lines; also for a run that stops in the middle of them."""
        for lane in self._lanes.values():
            self._end_line(lane)
        self._out.settle()

    def _lane(self, event: AgentEvent) -> _Lane:
        origin = event.origin
        lane = self._lanes.get(origin.run_id)
        if lane is None:
            name = "/".join(origin.path[1:]) or origin.agent
            # A label says more than the name of a member who has several parts.
            label = self._nodes.get(origin.run_id, "")
            shown = clean(f"{name} {label}" if label and label != name else name)
            self._cells = max(self._cells, cell_len(shown))
            colours = {one.name: one.colour for one in self._lanes.values()}
            colour = colours.get(shown, _COLOURS[len(colours) % len(_COLOURS)])
            lane = self._lanes[origin.run_id] = _Lane(shown, colour)
        return lane

    def _say(self, lane: _Lane, text: str, style: str) -> None:
        if style != lane.style:
            self._end_line(lane)
            lane.style = style
        *whole, lane.line = (lane.line + text).split("\n")
        for line in whole:
            self._write(lane, line)
        if self._out.is_terminal:
            *full, lane.line = wrapped(lane.line, self._room).split("\n")
            for line in full:
                self._write(lane, line)
        if lane.line:
            self._busy(lane, lane.line)

    def _end_line(self, lane: _Lane) -> None:
        line, lane.line = lane.line, ""
        if line.strip():
            self._write(lane, line)

    def _write(self, lane: _Lane, line: str) -> None:
        """Lines of one text; the empty ones between paragraphs are left out."""
        shown = wrapped(line.rstrip(), self._room) if self._out.is_terminal else line.rstrip()
        for one in shown.split("\n"):
            if one.strip():
                self._put(lane, Text(one, lane.style))

    def _line(self, lane: _Lane, line: Text) -> None:
        self._end_line(lane)
        self._put(lane, line)

    def _put(self, lane: _Lane, line: Text) -> None:
        self._out.settle()
        if self._last and self._last != lane.name:
            self._out.line()
        self._last = lane.name
        space = " " * (self._cells - cell_len(lane.name))
        self._out.line(Text.assemble((f"{lane.name}{space} {self._out.glyphs.bar} ", lane.colour), line))

    def _busy(self, lane: _Lane, what: str) -> None:
        self._out.busy(f"{lane.name}: {what}")

    @property
    def _room(self) -> int:
        return max(20, self._out.width - self._cells - 3)
