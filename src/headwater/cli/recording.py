"""A recorded event stream, read from a file: JSON lines, or server-sent events with one event a data line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from headwater.cli.run import binary
from headwater.errors import UsageError
from headwater.events import AgentEvent, decode_event

_OTHER_FIELDS = (b":", b"event:", b"id:", b"retry:")
"""How lines of server-sent events begin that carry no event."""
_SHOWN = 60


class Read(NamedTuple):
    """A line: its event, or what is wrong with it."""

    line: int
    event: AgentEvent | None
    problem: str = ""


def read_recording(file: str, progress: Callable[[int, int], None] | None = None) -> Iterator[Read]:
    """Every line of a recording that carries something; `-` is standard input.

    `progress` is told now and then how many bytes of how many have been read. Raises `UsageError` if the file cannot be
    read.
    """
    data = _bytes(file)
    done = 0
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        done += len(line)
        if progress is not None and number % 500 == 0:
            progress(done, len(data))
        payload = _payload(line)
        if not payload:
            continue
        try:
            event = decode_event(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            shown = payload[:_SHOWN].decode("utf-8", "replace")
            yield Read(number, None, f"no event ({error}): {shown}")
        else:
            yield Read(number, event)


def _bytes(file: str) -> bytes:
    if file == "-":
        return binary(sys.stdin).read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error


def _payload(line: bytes) -> bytes:
    """The event that a line carries, still as JSON; empty if it carries none."""
    line = line.removeprefix(b"\xef\xbb\xbf").strip()
    if line.startswith(b"data:"):
        line = line[len(b"data:") :].strip()
    elif line.startswith(_OTHER_FIELDS):
        return b""
    return b"" if line == b"[DONE]" else line
