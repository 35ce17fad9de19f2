"""Calls, arguments, durations and sizes in a few words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from rich.cells import cell_len
from rich.text import Text

from headwater.cli.safe import escape, one_line, visible
from headwater.events import HITLTask, ToolCallEndEvent, ToolStatus
from headwater.messages import MediaPart

if TYPE_CHECKING:
    from headwater.cli.terminal import Glyphs, Terminal

_VALUE_CELLS = 40
_LEAST_CELLS = 12


def tool_lines(out: Terminal, event: ToolCallEndEvent, args: dict[str, Any] | None, width: int) -> list[Text]:
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
    head = Text.assemble("  ", (mark, style), " ", (one_line(event.tool_name), "bold"))
    room = max(_LEAST_CELLS, width - cell_len(head.plain) - cell_len(tail) - 4)
    shown = out.cut(short_args(args), room)
    if shown:
        head.append("  ").append(shown)
    head.append("  ").append(tail, style if status else "dim")
    lines = [line.strip() for line in visible(event.text).splitlines() if line.strip()]
    # That it was cancelled has been said; its question will be.
    if not lines or event.status is ToolStatus.CANCELLED or event.question is not None:
        return [head]
    more = f" {glyphs.more}" if len(lines) > 1 or event.ref else ""
    first = out.cut(lines[0].expandtabs(4), max(_LEAST_CELLS, width - 4 - len(more)))
    return [head, Text(f"    {first}{'' if first.endswith(glyphs.more) else more}", style="dim")]


def plan_lines(glyphs: Glyphs, steps: tuple[str, ...], index: int) -> list[Text]:
    """A plan as a list to tick off: what is done, what is in progress, what is left."""
    lines: list[Text] = []
    for number, step in enumerate(steps):
        if number < index:
            lines.append(Text.assemble((glyphs.ok, "green"), (f" {step}", "dim")))
        elif number == index:
            lines.append(Text.assemble((glyphs.prompt, "cyan"), (f" {step}", "bold")))
        else:
            lines.append(Text(f"{glyphs.todo} {step}"))
    return lines


def short_call(name: str, args: dict[str, Any] | None) -> str:
    """A call in a few words."""
    return f"{one_line(name)} {short_args(args)}".rstrip()


def short_args(args: dict[str, Any] | None) -> str:
    """Arguments in a few words: `city=Oslo days=7`."""
    return " ".join(f"{one_line(name)}={_short_value(value)}" for name, value in (args or {}).items())


def _short_value(value: Any) -> str:
    is_word = isinstance(value, str) and value.isalnum()
    text = visible(value if is_word else msgspec.json.encode(value).decode())
    return text if len(text) <= _VALUE_CELLS else text[: _VALUE_CELLS - 3] + "..."


def shown_call(task: HITLTask) -> str:
    """A waiting call with all of its arguments: whoever decides sees what will be run."""
    return escape(f"{task.tool_name} {msgspec.json.format(msgspec.json.encode(task.args), indent=0).decode()}")


def seconds(duration: float) -> str:
    """A duration, as exact as it is interesting."""
    if duration < 0.1:
        return f"{duration * 1000:.0f} ms"
    return f"{duration:.1f} s" if duration < 100 else f"{int(duration) // 60} min {int(duration) % 60:02} s"


def size_of(tokens: int) -> str:
    """A count of tokens, as exact as it is interesting."""
    return f"{tokens:,}" if tokens < 10_000 else f"{tokens / 1000:.0f}k"


def describe_media(media: MediaPart) -> str:
    """What a media item is, and where it is or how large."""
    what = media.name or media.url
    where = what if what and not what.startswith("data:") else f"{len(media.data) * 3 // 4} bytes"
    return one_line(f"[{media.media_type or 'media'}: {where}]")
