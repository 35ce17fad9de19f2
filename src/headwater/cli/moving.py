"""What moves at a terminal's end while a run goes on: running tools, calls being written, and how the run stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from rich.text import Text

from headwater.cli.changes import Lane
from headwater.cli.terminal import Terminal
from headwater.cli.view import Status
from headwater.cli.words import seconds, short_call, size_of

_FRAMES_A_SECOND = 10
_BAR = 12
_MOST = 8
"""Tools that are shown one by one."""


class Running(msgspec.Struct):
    """A call that runs since `since`, a time of the same clock as `now`."""

    lane: Lane
    tool: str
    args: dict[str, Any] | None
    since: float
    text: str = ""
    share: float | None = None


def moving_lines(
    out: Terminal,
    running: Sequence[Running],
    writing: Sequence[tuple[Lane, str, int]],
    status: Status,
    *,
    elapsed: float,
    now: float,
    is_quiet: bool,
    note: str,
) -> list[Text]:
    """The lines below what is being said. `is_quiet`: nothing is being said."""
    frames = out.glyphs.frames
    spinner = frames[int(elapsed * _FRAMES_A_SECOND) % len(frames)]
    lines = [_tool(out, one, spinner, now) for one in running[:_MOST]]
    if len(running) > _MOST:
        lines.append(Text(f"  {out.glyphs.more} and {len(running) - _MOST} more", "dim"))
    for lane, tool, characters in writing:
        size = f"{out.glyphs.dot}{characters:,} characters" if characters else ""
        lines.append(Text.assemble("  ", (spinner, "cyan"), f" {_whose(lane)}calling {tool}", (size, "dim")))
    if not lines and is_quiet:
        lines.append(Text(f"{spinner} {status.model or 'starting'}", "dim"))
    return [*lines, _standing(out, status, elapsed, note)]


def _tool(out: Terminal, one: Running, spinner: str, now: float) -> Text:
    parts = [seconds(max(0.1, now - one.since))]
    if one.share is not None:
        done = round(one.share * _BAR)
        full, empty = ("#", "-") if out.glyphs.is_ascii else ("━", "╌")
        parts.append(f"{full * done}{empty * (_BAR - done)} {one.share:.0%}")
    if one.text:
        parts.append(one.text)
    name = f"{_whose(one.lane)}{one.tool}"
    args = short_call("", one.args).strip()
    room = max(12, out.width - 4 - len(name) - sum(map(len, parts[:2])) - 6)
    shown = f"  {out.cut(args, room)}  " if args else "  "
    return Text.assemble("  ", (spinner, "cyan"), " ", (name, "bold"), shown, (out.glyphs.dot.join(parts), "dim"))


def _whose(lane: Lane) -> str:
    return f"{lane.label}: " if lane.label else ""


def _standing(out: Terminal, status: Status, elapsed: float, note: str) -> Text:
    parts = [note] if note else []
    if status.round > 1:
        parts.append(f"round {status.round}")
    if status.context_tokens:
        limit = f" of {size_of(status.context_length)}" if status.context_length else ""
        parts.append(f"context {size_of(status.context_tokens)}{limit}")
    usage = status.usage
    if usage.input_tokens or usage.output_tokens:
        parts.append(f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out")
    parts.append(f"{int(elapsed)} s")
    parts.append(status.interrupt)
    return Text(out.glyphs.dot.join(parts), "dim")
