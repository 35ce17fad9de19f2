"""`headwater verify`: the laws of the event stream, held against a recording."""

from __future__ import annotations

import sys

import msgspec

from headwater.cli import exits
from headwater.cli.args import Options
from headwater.cli.recording import read_recording
from headwater.cli.terminal import Terminal, output_terminal
from headwater.events import AgentEvent
from headwater.testing.laws import LAWS, find_violations

_MOST = 100
"""Violations that are printed for eyes: one lost event can break a law at each later one."""


_UNREAD = 3
"""So many lines without an event at the beginning, and it is no recording: the rest is not looked at."""


class Found(msgspec.Struct, frozen=True):
    """A violation of a law and its place. `line` counts from 1; 0 is the whole file."""

    law: str
    message: str
    line: int
    seq: int
    run_id: str


class Result(msgspec.Struct, frozen=True):
    """What was found in a recording."""

    file: str
    events: int
    runs: int
    violations: list[Found]


def main(options: Options) -> int:
    """Verify it and print what was found."""
    result = verify(options.file)
    if options.json:
        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    else:
        _print(result, output_terminal())
    return exits.FAILED if result.violations else exits.COMPLETED


def verify(file: str) -> Result:
    """Every violation in a recording: JSON lines, or server-sent events with one event a data line.

    `-` is standard input. What begins with lines that are no events is read no further. Raises `UsageError` if it
    cannot be read.
    """
    roots: dict[str, list[tuple[int, AgentEvent]]] = {}
    violations: list[Found] = []
    for number, event, problem in read_recording(file):
        if event is not None:
            roots.setdefault(event.origin.root_run_id, []).append((number, event))
            continue
        violations.append(Found("L7", problem, number, 0, ""))
        if not roots and len(violations) == _UNREAD:
            break
    for root, numbered in roots.items():
        lines = {event.seq: number for number, event in reversed(numbered)}
        violations += [
            Found(one.law, one.message, lines.get(one.seq, 0), one.seq, root)
            for one in find_violations([event for _, event in numbered])
        ]
    if not roots and not violations:
        violations.append(Found("L1", "there are no events", 0, 0, ""))
    violations.sort(key=lambda violation: violation.line)
    name = "standard input" if file == "-" else file
    return Result(name, sum(map(len, roots.values())), len(roots), violations)


def _print(result: Result, out: Terminal) -> None:
    for violation in result.violations[:_MOST]:
        place = f"{result.file}:{violation.line}" if violation.line else result.file
        seq = f" (seq {violation.seq})" if violation.seq else ""
        out.line(f"{place}: {violation.law}: {violation.message}{seq}")
    if len(result.violations) > _MOST:
        out.line(f"{out.glyphs.more} and {len(result.violations) - _MOST} more; --json gives all")
    names = {violation.law for violation in result.violations[:_MOST]}
    for law in sorted(names & LAWS.keys()):
        out.line(f"{law}: {LAWS[law]}", "dim")
    if not result.events:
        out.line(f"{result.file}: this is no event recording", "bold red")
        return
    counted = f"{_count(result.events, 'event')} of {_count(result.runs, 'run')}"
    if result.violations:
        number = len(result.violations)
        out.line(f"{result.file}: {number} {'violation' if number == 1 else 'violations'} in {counted}", "bold red")
    else:
        out.line(f"{result.file}: {counted}, every law is kept", "green")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
