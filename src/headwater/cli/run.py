"""`headwater run`: one prompt, one run, streamed."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, BinaryIO

from headwater.agents.agent import Agent
from headwater.cli.args import Options
from headwater.cli.loading import make_agent, run_overrides
from headwater.cli.play import Played, Sink, play, report
from headwater.cli.render import PlainRenderer
from headwater.cli.terminal import error_terminal, output_terminal
from headwater.errors import UsageError
from headwater.events import AgentEvent, encode_event


def main(options: Options) -> int:
    """Run it; the status says how it ended."""
    prompt = read_prompt(options.prompt)
    agent = make_agent(options)
    sink: Sink = JsonLines(binary(sys.stdout)) if options.format == "jsonl" else PlainRenderer(output_terminal())
    played = asyncio.run(_run(agent, prompt, options, sink))
    report(played, error_terminal(), session=options.session)
    return played.status


async def _run(agent: Agent, prompt: str, options: Options, sink: Sink) -> Played:
    try:
        return await play(agent.stream(prompt, session=options.session, **run_overrides(options)), sink)
    finally:
        if isinstance(sink, PlainRenderer):
            sink.close()
        await agent.aclose()


class JsonLines:
    """Writes each event as a line of JSON, at once."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def __call__(self, event: AgentEvent) -> None:
        self._stream.write(encode_event(event) + b"\n")
        self._stream.flush()


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
