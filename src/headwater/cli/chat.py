"""`headwater chat`: a plain loop of questions and streamed answers."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Coroutine, Sequence

from headwater.agents.base import Agent
from headwater.cli import exits
from headwater.cli.args import Options
from headwater.cli.deciding import play_through
from headwater.cli.loading import make_agent, run_overrides
from headwater.cli.play import Played, report
from headwater.cli.run import show
from headwater.cli.terminal import Terminal, error_terminal, output_terminal
from headwater.core.decisions import Decision
from headwater.errors import UsageError

_QUIT = frozenset({"/quit", "/exit", "/q"})
_COMMAND = re.compile(r"/\w+")
"""A line that is meant as a command; a path, which goes on with a slash, is something to talk about."""
_HELP = "/quit or Ctrl-D leaves, Ctrl-C stops an answer. What was said is remembered{where}."
_UNNAMED = "chat"
"""The session of a chat that is kept in memory only."""


def main(options: Options) -> int:
    """Talk until the user leaves. The status is that of the last answer that failed, else 0."""
    if options.agent is not None and ":" not in options.agent:
        raise UsageError(f"chat takes no prompt; use headwater run. {options.agent!r} is no MODULE:NAME of an agent")
    agent = make_agent(options)
    out, err = output_terminal(), error_terminal()
    _enable_editing()
    with asyncio.Runner() as runner:
        try:
            runner.run(_greet(agent, options, out))
            return _loop(runner, agent, options, out, err)
        finally:
            runner.run(agent.aclose())


def _loop(runner: asyncio.Runner, agent: Agent, options: Options, out: Terminal, err: Terminal) -> int:
    status = exits.COMPLETED
    while True:
        try:
            line = _ask(out)
        except EOFError:
            if out.is_terminal:
                out.line()
            return status
        except KeyboardInterrupt:
            out.line()
            out.line("Ctrl-D or /quit leaves.", "dim")
            continue
        if line in _QUIT:
            return status
        if line in ("/help", "/?"):
            out.line(_HELP.format(where=f" in session {options.session}" if options.session else " until then"), "dim")
        elif _COMMAND.fullmatch(line.partition(" ")[0]):
            out.line(f"there is no {line.partition(' ')[0]}; there are /help and /quit (or /exit, /q)", "dim")
        elif line:
            played = _answer(runner, agent, line, options, out, err)
            report(played, err, session=options.session, kept=agent.keeps_events)
            out.line()
            status = exits.FAILED if played.status == exits.FAILED else status


async def _greet(agent: Agent, options: Options, out: Terminal) -> None:
    parts = [agent.settings.model.name if options.model is None else options.model]
    if options.session is not None:
        count = len((await agent.load_session(options.session)).messages)
        parts.append(f"session {options.session}, {count} messages" if count else f"session {options.session}, new")
    if sys.stdin.isatty():
        parts.append("/help")
    out.line(out.glyphs.dot.join(parts), "dim")
    out.line()


def _answer(
    runner: asyncio.Runner, agent: Agent, prompt: str, options: Options, out: Terminal, err: Terminal
) -> Played:
    session, overrides = options.session or _UNNAMED, run_overrides(options)

    def resume(decisions: Sequence[Decision], _: str) -> Coroutine[None, None, Played]:
        return show(lambda: agent.resume_stream(decisions, session=session, **overrides), out)

    return play_through(runner, show(lambda: agent.stream(prompt, session=session, **overrides), out), resume, out, err)


def _ask(out: Terminal) -> str:
    """The next line, with a prompt where somebody is there to see it."""
    is_terminal = sys.stdin.isatty() and out.is_terminal
    line = input(f"{out.glyphs.prompt} " if is_terminal else "").strip()
    if is_terminal and line:
        out.line()
    return line


def _enable_editing() -> None:
    """Let `input` edit lines and remember them, where the platform can."""
    try:
        import readline
    except ImportError:
        return
    readline.set_history_length(1000)
