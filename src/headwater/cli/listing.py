"""What a store keeps, as lists: conversations, and the runs in them."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
from rich.cells import cell_len
from rich.text import Text

from headwater.agents.view import load_session
from headwater.cli.safe import one_line
from headwater.cli.terminal import Terminal
from headwater.messages import Message, UserMessage
from headwater.store.base import RunInfo, Store

_MOST = 50
_MARKS = {"completed": "green", "failed": "red", "suspended": "yellow", "running": "cyan"}


class SessionRow(msgspec.Struct, frozen=True):
    """A conversation: how many messages (None: unknown), its first prompt, its last run; `updated` in Unix seconds."""

    session: str
    messages: int | None
    asked: str = ""
    run_id: str = ""
    agent: str = ""
    state: str = ""
    updated: float = 0.0


async def list_sessions(store: Store, limit: int = _MOST) -> list[SessionRow]:
    """The conversations of a store, the last one first."""
    rows: list[SessionRow] = []
    for session in (await store.sessions())[:limit]:
        runs = await store.run_infos(session, limit=1)
        # The turn of a run that waits is in its log only.
        waits = bool(runs) and runs[0].state == "suspended"
        found = await load_session(store, session) if waits else await store.load(session)
        rows.append(session_row(session, found.messages, runs[0] if runs else None))
    return rows


def session_row(session: str, messages: Sequence[Message], run: RunInfo | None) -> SessionRow:
    """A row of the list."""
    asked = next((one.text for one in messages if isinstance(one, UserMessage)), "")
    if run is None:
        return SessionRow(session, len(messages), asked)
    return SessionRow(session, len(messages), asked, run.run_id, run.agent, state_of(run), run.updated)


def state_of(run: RunInfo) -> str:
    """How a run stands, in a word or two."""
    if run.state == "running":
        return "its process is gone" if run.is_alive is False else "running"
    return str(run.outcome or run.state)


def session_lines(rows: Sequence[SessionRow], out: Terminal) -> list[Text]:
    """A line for each conversation."""
    return _table(
        [
            (one.session, one.state, one.updated, "" if one.messages is None else f"{one.messages}", one.asked)
            for one in rows
        ],
        out,
    )


def run_lines(runs: Sequence[RunInfo], out: Terminal) -> list[Text]:
    """A line for each run."""
    return _table([(one.run_id, state_of(one), one.updated, one.agent, "") for one in runs], out)


def _table(rows: Sequence[tuple[str, str, float, str, str]], out: Terminal) -> list[Text]:
    shown = [(one_line(a), one_line(b), when(c), one_line(d), one_line(e)) for a, b, c, d, e in rows]
    widths = [max((cell_len(row[at]) for row in shown), default=0) for at in range(4)]
    lines: list[Text] = []
    for row in shown:
        line = Text()
        for at, style in enumerate(("bold", _MARKS.get(row[1], "yellow"), "dim", "dim")):
            line.append(row[at] + " " * (widths[at] - cell_len(row[at]) + 2), style)
        room = out.width - cell_len(line.plain)
        if room > 8:
            line.append(out.cut(row[4], room))
        line.rstrip()
        lines.append(line)
    return lines


def when(seconds: float, now: float | None = None) -> str:
    """A time of the past, as exact as it is interesting."""
    if not seconds:
        return "-"
    past = (time.time() if now is None else now) - seconds
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if past >= size:
            count = int(past // size)
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"
