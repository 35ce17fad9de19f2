"""Calls of tools that are agents: what is executed is a run inside the caller's, with its own machine and events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from headwater.core.signals import Cancel, Recover, Resume, Signal, Start, StartMember, StartTool
from headwater.drive.ports import Members
from headwater.errors import ErrorInfo
from headwater.events import Outcome, RunEndEvent, ToolStatus
from headwater.messages import user
from headwater.tools.outcome import ToolOutcome

_CANCELLED = "The call was cancelled before it was begun."


class Begins(Protocol):
    """What begins a run inside another: its performer."""

    def begin(self, command: StartMember) -> None: ...

    def tell(self, run_id: str, signal: Signal) -> None: ...


class _Call(msgspec.Struct):
    """A call that is executed by a run; `timer` ends it when its time is over."""

    command: StartTool
    began: float
    timer: asyncio.TimerHandle | None = None
    is_late: bool = False


class AgentCalls:
    """The calls of one run that runs of agents execute. `ended` is told how each attempt came out, once."""

    def __init__(
        self,
        run_id: str,
        prefix: str,
        members: Members,
        begins: Begins,
        loop: asyncio.AbstractEventLoop,
        ended: Callable[[StartTool, ToolOutcome], None],
    ) -> None:
        self._run_id = run_id
        self._prefix = prefix
        self._members = members
        self._begins = begins
        self._loop = loop
        self._ended = ended
        self._calls: dict[str, _Call] = {}
        self._lost: set[str] = set()

    def start(self, command: StartTool, *, is_held: bool) -> None:
        """Begin the agent's run, or go on with it; with `is_held` it is too late for that."""
        if is_held:
            error = ErrorInfo(kind="cancelled", message=_CANCELLED)
            self._ended(command, ToolOutcome(ToolStatus.CANCELLED, _CANCELLED, error=error, executed=False))
            return
        run_id = f"{self._run_id}-{command.call_id.removeprefix(self._prefix)}"
        known = self._members.known(run_id)
        if known is not None and known.outcome is not Outcome.SUSPENDED:
            self._ended(command, outcome_of_run(known))  # its process died between its end and that of the call
            return
        call = self._calls[run_id] = _Call(command, self._loop.time())
        if command.tool.timeout is not None:
            call.timer = self._loop.call_later(command.tool.timeout, self._time_is_up, run_id)
        prompt = str(command.tool.function(*command.arguments.args, **command.arguments.kwargs))
        call_id, signal = command.call_id, command.dismissed
        if known is None:
            signal = Start((user(prompt),), call_id)
        elif signal is None:
            signal = Resume(command.decisions, call_id)
        else:
            signal = msgspec.structs.replace(signal, cause_call_id=call_id)
        self._begins.begin(StartMember(command.tool.name, run_id, signal, meter=command.meter))

    def stop(self, call_id: str, attempt: int) -> bool:
        """Cancel the run that executes this attempt; false if none does."""
        for run_id, call in self._calls.items():
            if (call.command.call_id, call.command.attempt) == (call_id, attempt):
                self._begins.tell(run_id, Cancel("the call was cancelled"))
                return True
        return False

    def take_end(self, run_id: str, end: RunEndEvent) -> bool:
        """Take the end of a run; false if it is none that executes a call."""
        if run_id in self._lost:
            self._lost.discard(run_id)
            if not self._lost:
                self._begins.tell(self._run_id, Recover())
            return True
        call = self._calls.pop(run_id, None)
        if call is None:
            return False
        if call.timer is not None:
            call.timer.cancel()
        outcome = outcome_of_run(end)
        if call.is_late and outcome.status is ToolStatus.CANCELLED:
            text = f"{call.command.tool.name} was not done after {call.command.tool.timeout:g} s, so it was stopped."
            outcome = ToolOutcome(ToolStatus.TIMEOUT, text, error=ErrorInfo(kind="timeout", message=text))
        duration = self._loop.time() - call.began
        self._ended(call.command, msgspec.structs.replace(outcome, duration=duration))
        return True

    def recover(self) -> bool:
        """Have the runs that a dead process left open close first; false if there are none."""
        for command in self._members.lost():
            self._lost.add(command.run_id)
            self._begins.begin(command)
        return bool(self._lost)

    def _time_is_up(self, run_id: str) -> None:
        call = self._calls.get(run_id)
        if call is not None:
            call.is_late = True
            self._begins.tell(run_id, Cancel("its time as a tool is over"))


def outcome_of_run(end: RunEndEvent) -> ToolOutcome:
    """What the caller's model reads of an agent's run: its final text."""
    response = end.response
    text = response.text
    if not text and response.output is not None:
        text = msgspec.json.encode(response.output).decode()
    match end.outcome:
        case Outcome.COMPLETED | Outcome.LIMIT:
            return ToolOutcome(ToolStatus.OK, text)
        case Outcome.SUSPENDED:
            return ToolOutcome(ToolStatus.SUSPENDED, "It waits for a person.", pending=response.pending)
        case Outcome.REJECTED:
            said = text or "A person refused what it wanted to do."
            return ToolOutcome(ToolStatus.DENIED, said, error=ErrorInfo(kind="rejected", message=said))
        case Outcome.FAILED | Outcome.CANCELLED:
            status = ToolStatus.ERROR if end.outcome is Outcome.FAILED else ToolStatus.CANCELLED
            error = end.error or ErrorInfo(kind=str(status), message=f"It ended {end.outcome}.")
            told = f"{end.origin.agent} did not come to an answer: {error.message}"
            return ToolOutcome(status, f"{told}\n\nWritten before that:\n{text}" if text else told, error=error)
