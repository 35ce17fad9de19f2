"""`headwater run`: one prompt, one run, streamed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, BinaryIO

from headwater.agents.base import Agent
from headwater.cli.args import Options
from headwater.cli.deciding import args_check, play_through
from headwater.cli.loading import make_agent, run_overrides
from headwater.cli.play import Played, Sink, play, report
from headwater.cli.pointing import how_to_decide
from headwater.cli.safe import escape_json
from headwater.cli.showing import Showing
from headwater.cli.terminal import Terminal, error_terminal, output_terminal
from headwater.core.decisions import Decision
from headwater.drive.handle import Run
from headwater.errors import UsageError
from headwater.events import AgentEvent, encode_event


def main(options: Options) -> int:
    """Run it; the status says how it ended."""
    prompt = read_prompt(options.prompt)
    agent = make_agent(options)
    err = error_terminal()
    with asyncio.Runner() as runner:
        try:
            played = _play(runner, agent, prompt, options, err)
        finally:
            runner.run(agent.aclose())
    kept = agent.keeps_events
    report(played, err, session=options.session, kept=kept, how_to_decide=how_to_decide(played, options, kept))
    return played.status


def _play(runner: asyncio.Runner, agent: Agent, prompt: str, options: Options, err: Terminal) -> Played:
    session, overrides = options.session, run_overrides(options)
    if options.format == "jsonl":
        lines = JsonLines(binary(sys.stdout))
        return runner.run(_follow(lambda: agent.stream(prompt, session=session, **overrides), lines))
    out = output_terminal(options.format)

    def resume(decisions: Sequence[Decision], run_id: str) -> Coroutine[None, None, Played]:
        which = {"run_id": run_id} if session is None else {"session": session}
        return show(lambda: agent.resume_stream(decisions, **which, **overrides), Showing(out, folds=folds))

    folds = not options.thinking
    begin = show(lambda: agent.stream(prompt, session=session, **overrides), Showing(out, folds=folds))
    return play_through(runner, begin, resume, out, err, check=args_check(agent))


async def show(start: Callable[[], Run[Any]], showing: Showing, *, hears_escape: bool = False) -> Played:
    """Start a run and show it to its end."""
    try:
        return await play(start(), showing, hears_escape=hears_escape)
    finally:
        showing.close()


async def _follow(start: Callable[[], Run[Any]], sink: Sink) -> Played:
    return await play(start(), sink)


class JsonLines:
    """Writes each event as a line of JSON, at once. On a terminal what it would obey is written as JSON escapes."""

    moves = False

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._is_watched = stream.isatty()

    def __call__(self, event: AgentEvent) -> None:
        line = encode_event(event)
        self._stream.write((escape_json(line.decode()).encode() if self._is_watched else line) + b"\n")
        self._stream.flush()

    def tick(self) -> None:
        """Nothing waits to be written."""

    def stopping(self) -> None:
        """The events will tell."""


def read_prompt(given: str | None) -> str:
    """The prompt as given, or what a pipe brings. Raises `UsageError` if there is none."""
    if given is not None and given != "-":
        prompt = given
    elif given is None and sys.stdin.isatty():
        raise UsageError('no prompt: headwater run "..." or a pipe into headwater run')
    else:
        try:
            prompt = binary(sys.stdin).read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UsageError(f"standard input is not UTF-8: byte {error.start}") from error
    if not prompt.strip():
        raise UsageError("the prompt is empty")
    return prompt


def binary(stream: Any) -> BinaryIO:
    """The bytes below one of the process's text streams."""
    return stream.buffer
