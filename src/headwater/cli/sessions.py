"""`headwater sessions`: the conversations that are kept, or one of them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import msgspec
from rich.text import Text

from headwater.agents.view import Session, load_session
from headwater.cli import exits
from headwater.cli.args import Options
from headwater.cli.listing import SessionRow, list_sessions, run_lines, session_lines
from headwater.cli.places import RemotePlace, store_file
from headwater.cli.safe import one_line, visible
from headwater.cli.terminal import Terminal, output_terminal
from headwater.cli.words import plan_lines, shown_call
from headwater.errors import UsageError
from headwater.events import HITLTask
from headwater.messages import AssistantMessage, Message, ToolMessage, UserMessage
from headwater.store.base import RunInfo
from headwater.store.opening import open_store


class Shown(msgspec.Struct, frozen=True):
    """One conversation, with its runs, the last one first."""

    session: str
    messages: tuple[Message, ...]
    pending: tuple[HITLTask, ...] = ()
    plan: tuple[str, ...] = ()
    plan_index: int = 0
    runs: tuple[RunInfo, ...] = ()
    run_ids: tuple[str, ...] = ()


def main(options: Options) -> int:
    """List them, or show one."""
    out = output_terminal()
    if options.session is None:
        rows = asyncio.run(_remote_rows(options) if options.server is not None else _local_rows(options))
        if options.json:
            sys.stdout.write(msgspec.json.encode(rows).decode() + "\n")
        elif not rows:
            out.line("no conversations are kept here", "dim")
        else:
            for line in session_lines(rows, out):
                out.line(line)
        return exits.COMPLETED
    shown = asyncio.run(_remote_one(options) if options.server is not None else _local_one(options))
    if options.json:
        sys.stdout.write(msgspec.json.encode(shown).decode() + "\n")
    else:
        _show(shown, out)
    return exits.COMPLETED


async def _local_rows(options: Options) -> list[SessionRow]:
    store = open_store(store_file(options))
    try:
        return await list_sessions(store)
    finally:
        await store.aclose()


async def _local_one(options: Options) -> Shown:
    store = open_store(store_file(options))
    name = options.session or ""
    try:
        found: Session = await load_session(store, name)
        runs = await store.run_infos(name)
    finally:
        await store.aclose()
    if not found.version and not runs:
        raise UsageError(f"there is no session {name!r}; headwater sessions lists what there is")
    return Shown(name, found.messages, found.pending, found.plan, found.plan_index, tuple(runs))


async def _remote_rows(options: Options) -> list[SessionRow]:
    place = RemotePlace(options)
    try:
        found = (await place.client.sessions()).sessions
    finally:
        await place.aclose()
    return [
        SessionRow(one.session, None, one.title, one.run_id, one.agent, str(one.outcome or one.state), one.updated)
        for one in found
    ]


async def _remote_one(options: Options) -> Shown:
    place = RemotePlace(options)
    try:
        found = await place.client.session(options.session or "")
    finally:
        await place.aclose()
    return Shown(
        found.session,
        found.messages,
        found.pending,
        found.plan,
        found.plan_index,
        run_ids=tuple(reversed(found.runs)),
    )


def _show(shown: Shown, out: Terminal) -> None:
    """The conversation as it went, and its runs."""
    for number, message in enumerate(shown.messages):
        lines = _message(message, out)
        if lines and number and not isinstance(message, ToolMessage):
            out.line()
        for line in lines:
            out.line(line)
    for line in plan_lines(out.glyphs, tuple(one_line(step) for step in shown.plan), shown.plan_index):
        out.line(line)
    out.line()
    for line in run_lines(shown.runs, out):
        out.line(line)
    for run_id in shown.run_ids:
        out.line(one_line(run_id), "dim")
    for task in shown.pending:
        out.line(f"waits for a person: {shown_call(task)}", "yellow")


def _message(message: Message, out: Terminal) -> Sequence[Text]:
    match message:
        case UserMessage():
            return [Text(f"{out.glyphs.said} {line}", "bold") for line in visible(message.text).split("\n")]
        case AssistantMessage():
            return [*_said(message, out), *_called(message, out)]
        case ToolMessage():
            lines = [line.strip() for line in visible(message.text).splitlines() if line.strip()]
            first = out.cut(lines[0], out.width - 6) if lines else ""
            more = f" {out.glyphs.more}" if len(lines) > 1 else ""
            return [Text(f"    {first}{more}", "red" if message.is_error else "dim")]
        case _:
            return []


def _said(message: AssistantMessage, out: Terminal) -> Sequence[Text]:
    text = message.text.strip()
    if not text:
        return []
    if not out.live:
        return [Text(line) for line in visible(text).split("\n")]
    from headwater.cli.markdown import markdown_lines

    return markdown_lines(text, out.width, ascii_only=out.glyphs.is_ascii)


def _called(message: AssistantMessage, out: Terminal) -> Sequence[Text]:
    return [
        Text.assemble("  ", (one_line(call.name), "bold"), f"  {out.cut(one_line(call.arguments), out.width - 20)}")
        for call in message.calls
    ]
