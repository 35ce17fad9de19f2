"""`headwater replay`: a recorded event stream, shown as it was seen when it happened, or faster."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from headwater.cli import exits
from headwater.cli.args import Options
from headwater.cli.play import Played, play, report
from headwater.cli.recorded import RecordedRun
from headwater.cli.recording import read_recording
from headwater.cli.run import JsonLines, binary
from headwater.cli.showing import Showing
from headwater.cli.terminal import Terminal, error_terminal, output_terminal
from headwater.errors import UsageError
from headwater.events import AgentEvent

_LONG = 5000
"""Events from which on progress is shown."""


def main(options: Options) -> int:
    """Show it. The status is that of the recorded run: 0 if it completed."""
    if options.speed is not None and options.speed <= 0:
        raise UsageError("--speed is above 0; --instant does not wait at all")
    out, err = output_terminal(options.format), error_terminal()
    roots = _read(options.file, err)
    if not roots:
        raise UsageError(f"{options.file} has no events")
    status = exits.COMPLETED
    for number, events in enumerate(roots):
        if number and options.format != "jsonl":
            out.line()
        status = max(status, _show(events, options, out, err))
    return status


def _read(file: str, err: Terminal) -> list[list[AgentEvent]]:
    """The events of each root run, in the order in which the runs began. Raises `UsageError` for what is no event."""
    roots: dict[str, list[AgentEvent]] = {}
    with _progress("reading", err) as tell:
        for line, event, problem in read_recording(file, tell):
            if event is None:
                raise UsageError(f"{file}:{line}: {problem}. headwater verify says more")
            roots.setdefault(event.origin.root_run_id, []).append(event)
    return list(roots.values())


def _show(events: Sequence[AgentEvent], options: Options, out: Terminal, err: Terminal) -> int:
    if options.format == "jsonl":
        lines = JsonLines(binary(sys.stdout))
        for event in events:
            lines(event)
        return exits.COMPLETED
    is_paced = not options.instant and (out.live or options.speed is not None)
    if is_paced:
        speed = options.speed or 1.0
        showing = Showing(out, is_told=True, folds=not options.thinking, note=f"replay, {speed:g} times as fast")
        played = asyncio.run(_paced(RecordedRun(events, speed), showing))
    else:
        played = _at_once(events, Showing(out, is_told=True, folds=not options.thinking), err)
    report(played, err, how_to_decide="That was a recording: nothing waits here.")
    return played.status


async def _paced(run: RecordedRun, showing: Showing) -> Played:
    try:
        return await play(run, showing)
    finally:
        showing.close()


def _at_once(events: Sequence[AgentEvent], showing: Showing, err: Terminal) -> Played:
    """Without a pause; progress shows where it does not stand in the way of what is shown."""
    played = Played()
    is_long = len(events) >= _LONG and not sys.stdout.isatty()
    try:
        with _progress("replaying", err, is_long=is_long) as tell:
            for number, event in enumerate(events, 1):
                played.note(event)
                showing(event)
                if number % 500 == 0:
                    tell(number, len(events))
    finally:
        showing.close()
    return played


class _Tell:
    """Shows how far something is, at most ten times a second."""

    def __init__(self, bar: Progress, what: str) -> None:
        self._bar = bar
        self._task = bar.add_task(what, total=None)
        self._told = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._told >= 0.1:
            self._told = now
            self._bar.update(self._task, completed=done, total=total, refresh=True)


@contextmanager
def _progress(what: str, err: Terminal, *, is_long: bool = True) -> Generator[_Tell]:
    """A bar on standard error while the block runs, where somebody sees it."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    hidden = not (err.live and is_long)
    with Progress(*columns, console=err.console, transient=True, disable=hidden, auto_refresh=False) as bar:
        yield _Tell(bar, what)
