"""A run's events as they are shown to people: thinking dim, tools as lines, the answer as text.

What is written stays written, so the output reads the same on a terminal, in a pipe and in a file. Text that turns
out to be a preamble stands directly above the tools it announces; an answer stands by itself.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from rich.cells import cell_len
from rich.text import Text

from headwater.cli.terminal import Terminal, clean
from headwater.cli.wrap import Back, Wrapper
from headwater.events import (
    ActionEndEvent,
    AgentEvent,
    ChatEventType,
    HandoffEvent,
    PlanEvent,
    ReasonDeltaEvent,
    ReasonDiscardEvent,
    ReasonEndEvent,
    ReasonStartEvent,
    RoundMode,
    RoundModeEvent,
    RunEndEvent,
    ToolArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolProgressEvent,
    ToolStatus,
)
from headwater.messages import MediaPart

_Section: TypeAlias = Literal["", "text", "thinking", "refusal", "tools", "note"]

_SECTIONS: dict[ChatEventType, _Section] = {
    ChatEventType.TEXT_DELTA: "text",
    ChatEventType.THINKING_DELTA: "thinking",
    ChatEventType.REFUSAL_DELTA: "refusal",
}
_STARTS = frozenset({ChatEventType.TEXT_START, ChatEventType.THINKING_START, ChatEventType.REFUSAL_START})
_STYLES: dict[_Section, str] = {"thinking": "dim italic", "refusal": "yellow"}
_THINKING_MARK = "| "
"""Begins each line of thinking where nothing can be dim."""

_VALUE_CELLS = 40
_LEAST_CELLS = 12


class PlainRenderer:
    """Shows one run; call it with each event."""

    def __init__(self, out: Terminal) -> None:
        self._out = out
        self._section: _Section = ""
        self._block_begins = True
        self._held = ""
        self._line_open = False
        self._wrapper = Wrapper()
        self._anything = False
        self._is_preamble = False
        self._running: dict[str, ToolCallStartEvent] = {}

    def __call__(self, event: AgentEvent) -> None:
        """Show an event, or nothing if there is nothing to see in it."""
        match event:
            case ReasonDeltaEvent():
                self._delta(event)
            case ToolArgsDeltaEvent(tool_name=name):
                if name and not self._running:
                    self._busy(f"calling {name}")
            case ReasonStartEvent(model=model):
                self._is_preamble = False
                self._busy(model)
            case RoundModeEvent(mode=mode):
                self._is_preamble = mode is RoundMode.TOOL_CALL
            case ReasonDiscardEvent(reason=reason):
                self._note(f"{self._out.glyphs.back} withdrawn: {reason}. Trying again.", "yellow")
            case ReasonEndEvent():
                self._end_line()
            case ToolCallStartEvent(call_id=call_id):
                self._running[call_id] = event
                self._show_running()
            case ToolProgressEvent(call_id=call_id, data=data):
                self._show_running(call_id, data)
            case ToolCallEndEvent():
                self._tool_end(event)
            case ActionEndEvent():
                self._out.settle()
            case PlanEvent(steps=steps, index=index):
                self._plan(steps, index)
            case HandoffEvent(to_member=member):
                self._note(f"{self._out.glyphs.prompt} {clean(member)} takes over", "dim")
            case RunEndEvent() if not event.origin.parent_run_id:
                self.close()
            case _:
                pass

    def close(self) -> None:
        """End the last line; also for a run that stops in the middle of it."""
        self._out.settle()
        self._end_line()

    # -- text ---------------------------------------------------------------------------------------------------

    def _delta(self, event: ReasonDeltaEvent) -> None:
        section = _SECTIONS.get(event.chat_type)
        if section is not None:
            self._stream(section, clean(event.text))
        elif event.chat_type in _STARTS:
            self._block_begins = True
        elif event.media is not None:
            self._note(f"[{_describe(event.media)}]", "cyan")

    def _stream(self, section: _Section, text: str) -> None:
        """Write a piece of a block. White space waits for what follows, so that a block has none around it."""
        if self._block_begins or self._section != section:
            text = text.lstrip()
            if not text:
                return
            self._begin(section)
            self._block_begins = False
        body = text.rstrip()
        if not body:
            self._held += text
            return
        shown = self._held + body
        self._held = text[len(body) :]
        if section == "thinking" and not self._out.styled:
            shown = ("" if self._line_open else _THINKING_MARK) + shown.replace("\n", f"\n{_THINKING_MARK}")
        self._write(shown, _STYLES.get(section, ""))
        self._line_open = True

    def _write(self, text: str, style: str) -> None:
        if not self._out.live:
            self._out.write(text, style)
            return
        for piece in self._wrapper.feed(text, self._out.width):
            if isinstance(piece, Back):
                self._out.take_back(piece.cells)
            else:
                self._out.write(piece, style)

    def _begin(self, section: _Section) -> None:
        """Go to a new line, with an empty one before it where something else begins."""
        is_hung = section == "tools" and (self._section == "tools" or (self._section == "text" and self._is_preamble))
        self._end_line()
        if self._anything and not is_hung:
            self._out.line()
        self._section = section
        self._anything = True

    def _end_line(self) -> None:
        if self._line_open:
            self._out.settle()
            self._out.line()
            self._wrapper = Wrapper()
        self._line_open = False
        self._held = ""

    def _note(self, text: str, style: str) -> None:
        self._out.settle()
        self._begin("note")
        self._out.line(clean(text), style)
        self._block_begins = True

    # -- tools --------------------------------------------------------------------------------------------------

    def _busy(self, what: str) -> None:
        if self._out.live:
            self._end_line()
            self._out.busy(what)

    def _show_running(self, call_id: str = "", progress: Any = None) -> None:
        if not self._running:
            return
        start = self._running.get(call_id)
        if start is not None and progress is not None:
            shown = progress if isinstance(progress, str) else msgspec.json.encode(progress).decode()
            self._busy(f"{start.tool_name}: {shown}")
        else:
            self._busy(", ".join(short_call(s.tool_name, s.args) for s in self._running.values()))

    def _tool_end(self, event: ToolCallEndEvent) -> None:
        start = self._running.pop(event.call_id, None)
        self._begin("tools")
        self._block_begins = True
        head, below = tool_lines(self._out, event, start.args if start is not None else None)
        self._out.line(head)
        if below is not None:
            self._out.line(below)
        self._show_running()

    def _plan(self, steps: tuple[str, ...], index: int) -> None:
        for number, step in enumerate(steps):
            is_done = number < index
            mark = self._out.glyphs.ok if is_done else self._out.glyphs.prompt if number == index else " "
            text = f"{mark} {step}"
            if number == 0:
                self._note(text, "dim" if is_done else "")
            else:
                self._out.line(clean(text), "dim" if is_done else "")


def tool_lines(out: Terminal, event: ToolCallEndEvent, args: dict[str, Any] | None) -> tuple[Text, Text | None]:
    """A finished call: name, arguments, status, duration; below, the result's first line with a sign for the rest."""
    glyphs = out.glyphs
    match event.status:
        case ToolStatus.OK:
            mark, style = glyphs.ok, "green"
        case ToolStatus.ERROR | ToolStatus.TIMEOUT:
            mark, style = glyphs.bad, "red"
        case _:
            mark, style = glyphs.off, "yellow"
    status = "" if event.status is ToolStatus.OK else "asks" if event.question is not None else str(event.status)
    duration = seconds(event.duration) if event.executed else "not run"
    tail = glyphs.dot.join(part for part in (status, duration) if part)
    name = clean(event.tool_name)
    head = Text.assemble("  ", (mark, style), " ", (name, "bold"))
    room = max(_LEAST_CELLS, out.width - cell_len(head.plain) - cell_len(tail) - 4)
    shown = out.cut(short_args(args), room)
    if shown:
        head.append("  ").append(shown)
    head.append("  ").append(tail, style if status else "dim")
    lines = [line.strip() for line in clean(event.text).splitlines() if line.strip()]
    # That it was cancelled has been said; its question will be.
    if not lines or event.status is ToolStatus.CANCELLED or event.question is not None:
        return head, None
    more = f" {glyphs.more}" if len(lines) > 1 else ""
    first = out.cut(lines[0], max(_LEAST_CELLS, out.width - 4 - len(more)))
    return head, Text(f"    {first}{more}", style="dim")


def short_call(name: str, args: dict[str, Any] | None) -> str:
    """A call in a few words."""
    return f"{name} {short_args(args)}".rstrip()


def short_args(args: dict[str, Any] | None) -> str:
    """Arguments in a few words: `city=Oslo days=7`."""
    return " ".join(f"{clean(name)}={_short_value(value)}" for name, value in (args or {}).items())


def _short_value(value: Any) -> str:
    is_word = isinstance(value, str) and value.isalnum()
    text = value if is_word else msgspec.json.encode(value).decode()
    text = clean(text)
    return text if len(text) <= _VALUE_CELLS else text[: _VALUE_CELLS - 3] + "..."


def seconds(duration: float) -> str:
    """A duration, as exact as it is interesting."""
    return f"{duration * 1000:.0f} ms" if duration < 0.1 else f"{duration:.1f} s"


def _describe(media: MediaPart) -> str:
    what = media.name or media.url
    where = what if what and not what.startswith("data:") else f"{len(media.data) * 3 // 4} bytes"
    return f"{media.media_type or 'media'}: {where}"
