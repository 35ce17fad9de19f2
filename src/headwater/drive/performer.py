"""Performs the commands of one run: its model requests, its tools, its commits.

A performer has no task of its own. What comes of a command goes as a signal to the pump (the driver), which feeds it
to the run's machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, Protocol

from headwater.core.hooks.values import HOOK_ERROR, HookCall
from headwater.core.machine import Machine
from headwater.core.round import prefix_of
from headwater.core.signals import (
    CallModel,
    CallsJudged,
    CloseModel,
    Command,
    Commit,
    Committed,
    Deadline,
    Fail,
    JudgeCalls,
    JudgeTurn,
    MakeSummary,
    MemberEnded,
    MemberNoted,
    Recover,
    SetDeadline,
    Signal,
    StartMember,
    StartTool,
    StopJudging,
    StopMember,
    StopTool,
    TellTeam,
    ToolEnded,
    TurnJudged,
)
from headwater.drive.executor import ToolExecution
from headwater.drive.hooking import HookFailed, Hooking, withheld
from headwater.drive.inside import AgentCalls
from headwater.drive.opening import INSIDE
from headwater.drive.ports import DriverConfig, Members, Opened
from headwater.drive.reading import read_model
from headwater.drive.summaries import summarise, when_cancelled
from headwater.drive.tooling import execution_of
from headwater.errors import ErrorInfo, StoreError, UsageError
from headwater.events import RunEndEvent, ToolStatus
from headwater.tools.outcome import ToolOutcome


class Pump(Protocol):
    """What a performer needs of the driver of its tree."""

    def push(self, run: Performer, signal: Signal) -> None:
        """Have the run's machine take a signal, soon and in order."""
        ...

    def spawn(
        self, work: Coroutine[Any, Any, None], context: Context, if_cancelled: Callable[[], None]
    ) -> asyncio.Task[None]:
        """A task of the tree. `if_cancelled` is called even if none of its code has run."""
        ...

    def begin(self, opened: Opened, outer: Performer) -> Performer:
        """Take up a run inside another."""
        ...

    def said(self, count: int) -> bool:
        """A model has said `count` things; whether they have to be read before more is said."""
        ...

    async def wait_for_room(self) -> None:
        """Wait until the reader has taken what there is."""
        ...


class Performer:
    """Performs what one machine asks for. `perform` is called on the loop's thread, and returns at once."""

    def __init__(
        self,
        machine: Machine,
        config: DriverConfig,
        pump: Pump,
        loop: asyncio.AbstractEventLoop,
        outer: Performer | None = None,
    ) -> None:
        self.machine = machine
        self.config = config
        self.outer = outer
        """That of the run that this one is inside of."""
        self.inner: dict[str, Performer] = {}
        """Those of runs inside this one that have not ended, by run id."""
        self.executions: dict[tuple[str, int], ToolExecution] = {}
        """Attempts that have not ended, whether they still count or not."""
        self._is_late = False
        self.is_fenced = False
        """Whether somebody else has taken the run over: what its session keeps of it is theirs to say."""
        self._pump = pump
        self._loop = loop
        self._request: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self.cache: dict[str, Any] = {}
        self._agents: AgentCalls | None = None
        self._hooking: Hooking | None = None
        self._judging: asyncio.Task[None] | None = None
        self._after: dict[tuple[str, int], tuple[ToolOutcome, asyncio.Task[None]]] = {}
        """Attempts that have ended and that hooks are looking at."""
        self._told_to_stop: set[tuple[str, int]] = set()
        config.context.run(self._mark)

    def _mark(self) -> None:
        INSIDE.set((*INSIDE.get(), self.machine.origin.run_id))

    @property
    def is_late(self) -> bool:
        """Whether the time of this run, or of one around it, is over: nothing more is begun."""
        return self._is_late or (self.outer is not None and self.outer.is_late)

    @property
    def cause(self) -> BaseException | None:
        """What the hook raised that failed the run; None: no hook did."""
        return None if self._hooking is None else self._hooking.cause

    @property
    def hooking(self) -> Hooking:
        """The run's hooks, made when the first one is to be asked."""
        if self._hooking is None:
            self._hooking = Hooking(self.config.hooks, self.machine.origin, self.config.deps, self.push)
        return self._hooking

    def push(self, signal: Signal) -> None:
        """Send the machine a signal."""
        self._pump.push(self, signal)

    def perform(self, command: Command, *, is_taken_back: bool = False) -> None:
        """Do what the machine asks for. What was taken back before it was begun is not begun: a cancelled call has no
        effect then.
        """
        match command:
            case SetDeadline(seconds=seconds):
                self._deadline = self._loop.call_later(seconds, self._time_is_up)
            case CallModel() | MakeSummary():
                if not is_taken_back and not self.is_late:
                    self._ask(command)
            case CloseModel():
                if self._request is not None:
                    self._request.cancel()
            case StartTool() if command.tool.agent is not None:
                self.agents.start(command, is_held=is_taken_back or self.is_late)
            case StartTool():
                execution = self._prepare(command)
                if not is_taken_back and not self.is_late:
                    execution.start()
            case StopTool(call_id=call_id, attempt=attempt, why=why):
                key = (call_id, attempt)
                self._told_to_stop.add(key)
                if (execution := self.executions.get(key)) is not None:
                    execution.stop(why)
                elif key in self._after:
                    self._let_go(key)
                elif self._agents is not None:
                    self._agents.stop(call_id, attempt)
            case JudgeTurn():
                lost = TurnJudged(command.request, _lost("after_model"))
                self._request = self._spawn(self._judge_turn(command), lambda: self.push(lost))
            case JudgeCalls():
                gone = CallsJudged(_lost("before_tool"))
                self._judging = self._spawn(self._judge_calls(command), lambda: self.push(gone))
            case StopJudging():
                if self._judging is not None:
                    self._judging.cancel()
            case Commit():
                self._commit(command)
            case StartMember():
                self.begin(command)
            case StopMember(run_id=run_id, signal=signal):
                self.tell(run_id, signal)
            case TellTeam():
                if self.outer is not None:
                    self.outer.push(MemberNoted())

    @property
    def agents(self) -> AgentCalls:
        """The calls of this run that runs of agents execute."""
        if self._agents is None:
            origin = self.machine.origin
            self._agents = AgentCalls(
                origin.run_id, prefix_of(origin), self._members, self, self._loop, self._tool_ended
            )
        return self._agents

    @property
    def _members(self) -> Members:
        if self.config.members is None:
            raise UsageError(f"Run {self.machine.origin.run_id!r} has no agents that it could run.")
        return self.config.members

    def begin(self, command: StartMember) -> None:
        """Begin a run inside this one, or go on with it."""
        run = self.inner[command.run_id] = self._pump.begin(self._members.open(command), self)
        run.first(command.signal)

    def first(self, signal: Signal) -> None:
        """Send the machine its first signal; what a dead process left open inside a call is closed before."""
        if isinstance(signal, Recover) and self.config.members is not None and self.agents.recover():
            return
        self.push(signal)

    def tell(self, run_id: str, signal: Signal) -> None:
        """Send a run inside this one, or this one, a signal."""
        run = self if run_id == self.machine.origin.run_id else self.inner.get(run_id)
        if run is not None:
            run.push(signal)

    def over(self, end: RunEndEvent) -> None:
        """The run's segment is over; the run that it is inside of hears of it."""
        outer, run_id = self.outer, end.origin.run_id
        if outer is not None:
            outer.inner.pop(run_id, None)
            if outer._agents is None or not outer._agents.take_end(run_id, end):
                outer.push(MemberEnded(run_id, self.machine.ended_with(end)))

    def stop(self) -> None:
        """Stop the models and the tools of this run and of those inside it now, whatever their machines say."""
        if self._request is not None:
            self._request.cancel()
        if self._judging is not None:
            self._judging.cancel()
        self.stop_tools()
        for run in self.inner.values():
            run.stop()

    def stop_tools(self) -> None:
        """Tell all tools to stop."""
        for key in list(self._after):
            self._let_go(key)
        for execution in list(self.executions.values()):
            execution.stop("cancelled")

    @property
    def is_idle(self) -> bool:
        """Whether nothing of the run goes on any more."""
        tasks = (self._request, self._judging)
        return not self.executions and not self._after and all(task is None or task.done() for task in tasks)

    def settle(self) -> None:
        """The run is over: no timer and no request of it goes on."""
        for running in (self._deadline, self._request, self._judging):
            if running is not None:
                running.cancel()

    def _time_is_up(self) -> None:
        """What runs is stopped now, and not only when somebody reads; the machine hears of the deadline first."""
        self._is_late = True
        self._push_all(Deadline())
        self.stop()

    def _push_all(self, signal: Signal) -> None:
        self.push(signal)
        for run in self.inner.values():
            run._push_all(signal)

    # -- the model ----------------------------------------------------------------------------------------------

    def _ask(self, command: CallModel | MakeSummary) -> None:
        # If the run has cancelled the request this is stale news; if it came from elsewhere, nobody else would tell.
        lost = when_cancelled(command, self.config)
        own, push = self.config.model, self.push
        work = (
            summarise(command, own, push) if isinstance(command, MakeSummary) else read_model(self, self._pump, command)
        )
        self._request = self._spawn(work, lambda: self.push(lost))

    def _spawn(self, work: Coroutine[Any, Any, None], if_cancelled: Callable[[], None]) -> asyncio.Task[None]:
        return self._pump.spawn(work, self.config.context, if_cancelled)

    # -- hooks --------------------------------------------------------------------------------------------------

    async def _judge_turn(self, command: JudgeTurn) -> None:
        try:
            answer = await self.hooking.judge_turn(command)
        except HookFailed as failure:
            answer = failure.info
        self.push(TurnJudged(command.request, answer))

    async def _judge_calls(self, command: JudgeCalls) -> None:
        try:
            answer = await self.hooking.judge_calls(command)
        except HookFailed as failure:
            answer = failure.info
        self.push(CallsJudged(answer))

    async def _after_tool(self, number: int, call: HookCall, outcome: ToolOutcome) -> None:
        try:
            outcome = await self.hooking.after_tool(number, call, outcome)
        except HookFailed as failure:
            self.push(Fail(failure.info))
            outcome = withheld(outcome)
        if self._after.pop((call.call_id, call.attempt), None) is not None:
            self.push(ToolEnded(call.call_id, call.attempt, outcome))

    # -- tools --------------------------------------------------------------------------------------------------

    def _prepare(self, command: StartTool) -> ToolExecution:
        key = (command.call_id, command.attempt)

        def ended(outcome: ToolOutcome) -> None:
            self.executions.pop(key, None)
            self._tool_ended(command, outcome)

        origin = self.machine.origin
        execution = execution_of(command, origin, self.config, loop=self._loop, push=self.push, ended=ended)
        self.executions[key] = execution
        return execution

    def _tool_ended(self, command: StartTool, outcome: ToolOutcome) -> None:
        hooks, name, key = self.config.hooks, command.tool.name, (command.call_id, command.attempt)
        call = HookCall(command.call_id, name, command.args, attempt=command.attempt)
        is_stopped = key in self._told_to_stop
        if outcome.exception is not None and not is_stopped:
            self.hooking.report(outcome.exception, call)
        is_over = outcome.status is not ToolStatus.SUSPENDED  # which is no result: there will be another attempt
        if not is_over or not any(method.concerns(name) for method in hooks.after_tool):
            self.push(ToolEnded(*key, outcome))
        elif is_stopped or self.is_late:
            self.push(ToolEnded(*key, withheld(outcome)))
        else:
            work = self._after_tool(command.round, call, outcome)
            self._after[key] = outcome, self._spawn(work, lambda: self._let_go(key))

    def _let_go(self, key: tuple[str, int]) -> None:
        """Wait no longer for the hooks that look at an attempt's outcome."""
        outcome, task = self._after.pop(key, (None, None))
        if outcome is not None and task is not None:
            task.cancel()
            self.push(ToolEnded(*key, withheld(outcome)))

    # -- the session --------------------------------------------------------------------------------------------

    def _commit(self, command: Commit) -> None:
        # Whoever cancels all tasks, as the end of a loop does, must not leave it open whether the messages are stored.
        self._pump.spawn(self._store(command), self.config.context, lambda: self._commit(command))

    async def _store(self, command: Commit) -> None:
        conversation = self.config.conversation
        error: ErrorInfo | None = None
        if conversation is not None and not self.is_fenced:
            try:
                await conversation.commit(command)
            except StoreError as failure:
                error = ErrorInfo(kind="store_error", message=str(failure))
            else:
                conversation.release()
        self.push(Committed(error))


def _lost(method: str) -> ErrorInfo:
    return ErrorInfo(kind=HOOK_ERROR, message=f"A hook was cancelled in {method}, and not by the run.")
