"""`headwater chat`: questions and streamed answers, turn by turn, in a session."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine, Generator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from headwater.agents.base import Agent
from headwater.cli import exits
from headwater.cli.args import Options
from headwater.cli.commands import COMMANDS, Talk, command_of, is_command
from headwater.cli.deciding import args_check, play_through
from headwater.cli.loading import data_folder, make_agent, run_overrides
from headwater.cli.play import Played, report
from headwater.cli.pointing import how_to_decide
from headwater.cli.prompting import Prompter, history_file, make_prompter
from headwater.cli.run import show
from headwater.cli.safe import one_line
from headwater.cli.showing import Showing
from headwater.cli.terminal import Terminal, error_terminal, output_terminal
from headwater.cli.words import size_of
from headwater.core.decisions import Decision
from headwater.errors import UsageError


def main(options: Options) -> int:
    """Talk until the user leaves. The status is that of the last answer that failed, else 0."""
    if options.agent is not None and ":" not in options.agent:
        raise UsageError(f"chat takes no prompt; use headwater run. {options.agent!r} is no MODULE:NAME of an agent")
    agent = make_agent(options)
    out, err = output_terminal(options.format), error_terminal()
    with asyncio.Runner() as runner, _terminable():
        try:
            return _Chat(runner, agent, options, out, err).loop()
        finally:
            runner.run(agent.aclose())


class _Chat:
    """One conversation at a terminal or a pipe."""

    def __init__(
        self, runner: asyncio.Runner, agent: Agent[Any], options: Options, out: Terminal, err: Terminal
    ) -> None:
        self._runner = runner
        self._agent = agent
        self._options = options
        self._out = out
        self._err = err
        self._check = args_check(agent)
        self._talk = Talk(agent, options.session, run_overrides(options), out, runner.run)
        self._prompter: Prompter = make_prompter(
            out, lambda: history_file(data_folder()), COMMANDS, lambda: self._standing
        )
        self._tokens = 0
        self._interrupted = False
        """Whether the last thing the user did was to press Ctrl-C: another one leaves."""

    def loop(self) -> int:
        """Ask and answer until the user leaves."""
        self._runner.run(self._greet())
        status = exits.COMPLETED
        while True:
            try:
                line = self._prompter.ask()
            except EOFError:
                if self._out.is_terminal:
                    self._out.line()
                return status
            except KeyboardInterrupt:
                if self._interrupted:
                    self._out.line()
                    return exits.INTERRUPTED
                self._interrupted = True
                self._out.line("Ctrl-C again, Ctrl-D or /quit leaves.", "dim")
                continue
            if line and sys.stdin.isatty() and self._out.is_terminal:
                self._out.line()
            if is_command(line):
                self._interrupted = False
                prompt = command_of(line).act(self._talk, line.partition(" ")[2].strip())
                if self._talk.is_over:
                    return status
                if prompt is None:
                    continue
                line = prompt
            if line:
                self._interrupted = False
                played = self._answer(line)
                if played.signal is signal.SIGTERM:
                    return exits.TERMINATED
                status = exits.FAILED if played.status == exits.FAILED else status

    def _answer(self, prompt: str) -> Played:
        """Show the answer, and say how it ended."""
        talk, options = self._talk, self._options
        session, overrides = talk.session_id, talk.overrides

        def showing() -> Showing:
            return Showing(self._out, folds=not options.thinking)

        def resume(decisions: Sequence[Decision], _: str) -> Coroutine[None, None, Played]:
            begin = self._agent.resume_stream(decisions, session=session, **overrides)
            return show(lambda: begin, showing(), hears_escape=True)

        begin = show(lambda: self._agent.stream(prompt, session=session, **overrides), showing(), hears_escape=True)
        played = play_through(self._runner, begin, resume, self._out, self._err, check=self._check)
        kept = self._agent.keeps_events
        report(played, self._err, session=talk.session, kept=kept, how_to_decide=how_to_decide(played, options, kept))
        self._out.line()
        if played.end is not None:
            self._tokens += played.end.usage.total_tokens
        if played.signal is not None:
            self._interrupted = True
        return played

    @property
    def _standing(self) -> str:
        parts = [one_line(self._talk.model), one_line(f"session {self._talk.session or 'not kept'}")]
        if self._tokens:
            parts.append(f"{size_of(self._tokens)} tokens")
        return self._out.glyphs.dot.join([*parts, "/help"])

    async def _greet(self) -> None:
        talk = self._talk
        parts = [one_line(talk.model)]
        if talk.session is not None:
            count = len((await self._agent.load_session(talk.session)).messages)
            named = one_line(talk.session)
            parts.append(f"session {named}, {count} messages" if count else f"session {named}, new")
        if sys.stdin.isatty():
            parts.append("/help")
        self._out.line(self._out.glyphs.dot.join(parts), "dim")
        if self._prompter.keys and self._out.live:
            self._out.line(self._prompter.keys, "dim")
        self._out.line()


@contextmanager
def _terminable() -> Generator[None]:
    """Let SIGTERM unwind the block, so that an editor which has the terminal gives it back."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(exits.TERMINATED)

    try:
        before = signal.signal(signal.SIGTERM, leave)
    except ValueError:  # not the main thread: signals are somebody else's
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
