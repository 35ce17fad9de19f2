"""Reading a run at the terminal: every event to a sink, an interrupt ends the run cleanly, the outcome is a status."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from types import TracebackType
from typing import Any, Protocol

from headwater.cli import exits
from headwater.cli.keys import quiet_keys
from headwater.cli.safe import escape
from headwater.cli.terminal import Terminal
from headwater.cli.words import seconds, shown_call, size_of
from headwater.errors import ErrorInfo
from headwater.events import (
    AgentEvent,
    ContextSizeEvent,
    Outcome,
    Response,
    RunEndEvent,
    ToolCallEndEvent,
    ToolStatus,
)

TICK = 0.08
"""Seconds between two drawings of what moves."""


class Sink(Protocol):
    """What takes a run's events. `moves`: it wants `tick` while nothing happens, too."""

    moves: bool

    def __call__(self, event: AgentEvent) -> None: ...

    def tick(self) -> None: ...

    def stopping(self) -> None:
        """The run has been asked to end."""
        ...


class Readable(Protocol):
    """A run that can be read and ended: one of this process, of a log, or of a server."""

    async def __aenter__(self) -> Any: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    async def next_batch(self) -> list[AgentEvent]: ...

    async def cancel(self, reason: str = ...) -> Any: ...


_SIGNALS = {signal.SIGINT: exits.INTERRUPTED, signal.SIGTERM: exits.TERMINATED}

_HINTS = {
    "connection_error": "Is the endpoint running? --base-url says where it is; --model local needs none.",
    "idle_timeout": "The endpoint fell silent. Ask again, or ask another model.",
    "provider_error": "The endpoint reports a failure of its own. Ask again, or ask another model.",
    "stream_truncated": "The answer was cut off on its way. Ask again.",
    "protocol_error": "Does --base-url name a chat-completions endpoint?",
    "max_rounds": "--max-rounds allows more.",
    "store_error": "--store names another file.",
    "session_busy": "Another run holds this session: wait for it, or name another --session.",
}


class Played:
    """What became of a run: its last event, its exit status, and what its tools did."""

    def __init__(self) -> None:
        self.end: RunEndEvent | None = None
        self.signal: signal.Signals | None = None
        self.is_detached = False
        self.last_seq = 0
        self.calls = 0
        self.results = 0
        self.context = 0

    def note(self, event: AgentEvent) -> None:
        """Take the next event."""
        self.last_seq = event.seq
        if isinstance(event, ContextSizeEvent):
            self.context = event.token_count
        elif isinstance(event, ToolCallEndEvent):
            self.calls += 1
            self.results += event.status in (ToolStatus.OK, ToolStatus.ERROR)
        elif isinstance(event, RunEndEvent) and not event.origin.parent_run_id:
            self.end = event

    @property
    def status(self) -> int:
        """The exit status."""
        if self.is_detached:
            return exits.COMPLETED
        outcome = self.end.outcome if self.end is not None else Outcome.CANCELLED
        match outcome:
            case Outcome.COMPLETED:
                return exits.COMPLETED
            case Outcome.SUSPENDED:
                return exits.WAITING
            case Outcome.LIMIT:
                return exits.LIMIT
            case Outcome.CANCELLED:
                return _SIGNALS[self.signal] if self.signal is not None else exits.INTERRUPTED
            case _:
                return exits.FAILED


async def play(run: Readable, sink: Sink, *, detaches: bool = False, hears_escape: bool = False) -> Played:
    """Read a run to its end. SIGINT and SIGTERM cancel it and show the rest; a second one does not.

    With `detaches` they end the reading, and the run goes on. With `hears_escape` the Escape key does what Ctrl-C does.
    """
    played = Played()
    cancelling: list[asyncio.Task[None]] = []
    reading = asyncio.current_task()

    def interrupt(number: signal.Signals) -> None:
        if played.signal is not None:
            raise KeyboardInterrupt
        played.signal = number
        if detaches and reading is not None:
            played.is_detached = True
            reading.cancel()
            return
        sink.stopping()
        cancelling.append(asyncio.ensure_future(run.cancel(f"stopped by {number.name}")))

    def escape_key() -> None:
        if played.signal is None:
            interrupt(signal.SIGINT)

    keys = quiet_keys(escape_key if hears_escape else None) if sink.moves else nullcontext()
    try:
        async with run:
            with _signals(interrupt), keys, _ticking(sink):
                while batch := await run.next_batch():
                    for event in batch:
                        played.note(event)
                        sink(event)
                for task in cancelling:
                    await task
    except asyncio.CancelledError:
        if not played.is_detached or reading is None or reading.uncancel() > 0:
            raise
    return played


@contextmanager
def _ticking(sink: Sink) -> Generator[None]:
    """Tick the sink while the block runs."""
    if not sink.moves:
        yield
        return
    loop, reading = asyncio.get_running_loop(), asyncio.current_task()
    failed: list[Exception] = []

    def tick() -> None:
        nonlocal handle
        try:
            sink.tick()
        except Exception as error:  # noqa: BLE001 - whatever keeps it from drawing ends the run, not only the drawing
            failed.append(error)
            if reading is not None:
                reading.cancel()
        else:
            handle = loop.call_later(TICK, tick)

    handle = loop.call_soon(tick)
    try:
        yield
    except asyncio.CancelledError:
        if failed:
            raise failed[0] from None
        raise
    finally:
        handle.cancel()


@contextmanager
def _signals(handle: Callable[[signal.Signals], None]) -> Generator[None]:
    """Have `handle` called on the running loop for the signals that end a command."""
    loop = asyncio.get_running_loop()
    before: list[tuple[signal.Signals, Any]] = []
    for number in _SIGNALS:
        try:
            old = signal.getsignal(number)
            signal.signal(number, lambda n, _: loop.call_soon_threadsafe(handle, signal.Signals(n)))
        except ValueError:  # not the main thread: signals are somebody else's
            break
        before.append((number, old))
    try:
        yield
    finally:
        for number, old in before:
            signal.signal(number, old)


def report(
    played: Played, err: Terminal, *, session: str | None = None, kept: bool = False, how_to_decide: str = ""
) -> None:
    """Say on standard error how the run ended, unless there is nothing to say. `kept`: a store has its events.

    `how_to_decide` is what is said of a run that waits.
    """
    end = played.end
    if end is None:
        return
    if err.is_terminal:
        err.line()
    error = end.error or ErrorInfo(kind="internal_error", message=f"the run ended {end.outcome}")
    match end.outcome:
        case Outcome.COMPLETED:
            pass
        case Outcome.LIMIT if end.error is not None:
            err.line(f"limit: {error.message}", "yellow")
        case Outcome.LIMIT:
            err.line("limit: the answer was asked for before the agent was done; --max-rounds allows more", "yellow")
        case Outcome.CANCELLED:
            err.line(f"cancelled: {_kept(played, end)}{f' in session {session}' if session else ''}", "yellow")
        case Outcome.SUSPENDED:
            say_what_waits(end.response, err)
            err.line(how_to_decide or _deciding(end, session, kept), "dim")
        case Outcome.REJECTED:
            err.line("rejected: a person refused a call, and the run ended there", "yellow")
        case _:
            err.error(error.message)
            for hint in _hints(error, end):
                err.line(hint, "dim")
    if err.is_terminal:
        err.line(_summary(played, end, err.glyphs.dot), "dim")


def say_what_waits(response: Response[Any], err: Terminal) -> None:
    """The calls that wait for a person, a line each."""
    for task in response.pending:
        asked = f" asks: {escape(task.question)}" if task.question else ""
        err.line(f"the run waits for a person: {shown_call(task)}{asked}", "yellow")


def _deciding(end: RunEndEvent, session: str | None, kept: bool) -> str:
    if session is None and not kept:
        return "It is not kept: run it at a terminal to be asked, or give --session to decide later."
    where = f"session={session!r}" if session is not None else f"run_id={end.origin.run_id!r}"
    decisions: Sequence[str] = [
        f"Approve({task.call_id!r})" if task.schema is None else f"Respond({task.call_id!r}, ...)"
        for task in end.response.pending
    ]
    return f"Run it at a terminal to be asked, or decide in Python: agent.resume([{', '.join(decisions)}], {where})"


def _kept(played: Played, end: RunEndEvent) -> str:
    message = end.response.message
    characters = len(message.text) if message is not None else 0
    parts = [f"{characters} characters of text"] if characters else []
    if played.results:
        parts.append(f"{played.results} tool result{'s' if played.results > 1 else ''}")
    return f"kept {' and '.join(parts)}" if parts else "kept the prompt; nothing had arrived yet"


def _hints(error: ErrorInfo, end: RunEndEvent) -> list[str]:
    hints: list[str] = []
    if error.status in (401, 403):
        if "api_key" not in error.message:  # the message says it already, and is shown with the option's name
            hints.append("--api-key gives the key; the provider's variable is safer.")
    elif error.status == 404:
        hints.append("--model takes the name by which the endpoint knows the model; --base-url says where it is.")
    elif error.kind in _HINTS:
        hints.append(_HINTS[error.kind])
    message = end.response.message
    if message is not None and message.interrupted and message.text:
        hints.append("What is shown above is what had arrived.")
    return hints


def _summary(played: Played, end: RunEndEvent, dot: str) -> str:
    rounds, usage = end.response.rounds, end.usage
    parts = [f"{rounds} round{'s' if rounds != 1 else ''}"] if rounds else []  # a team has none of its own
    if played.calls:
        parts.append(f"{played.calls} call{'s' if played.calls != 1 else ''}")
    if usage.input_tokens or usage.output_tokens:
        parts.append(f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out")
    if played.context:
        parts.append(f"context {size_of(played.context)}")
    parts.append(seconds(end.duration))
    return dot.join(parts)
