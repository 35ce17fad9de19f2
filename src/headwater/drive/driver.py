"""The driver: the one thin asyncio part that performs a machine's commands.

It has no task of its own. Whoever wants events calls `step`, which waits for the next signals, feeds the machine and
performs what it asks for. The model's stream is read by one task a request, async tools by one task each, sync tools
by one thread each; all of them put signals into one inbox and wake one future.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from headwater.chat.request import ModelRequest
from headwater.core.run import RunMachine
from headwater.core.signals import (
    CallModel,
    Cancel,
    CloseModel,
    Command,
    Commit,
    Committed,
    Deadline,
    Dismiss,
    Fail,
    MakeSummary,
    ModelEnded,
    ModelFailed,
    ModelSaid,
    Recover,
    Resume,
    SetDeadline,
    Signal,
    Start,
    StartTool,
    StopTool,
)
from headwater.drive.deaf import wait_for_all
from headwater.drive.executor import ToolExecution
from headwater.drive.live import Closable, enlist
from headwater.drive.opening import INSIDE
from headwater.drive.ports import DriverConfig
from headwater.drive.summaries import summarise, when_cancelled
from headwater.drive.tooling import execution_of
from headwater.errors import ErrorInfo, Fenced, ModelError, StoreError, UsageError
from headwater.events import AgentEvent

JITTER = 0.25
"""Retries wait up to this part longer than asked, so that many clients do not come back at once."""


class Driver:
    """Runs one machine on the running event loop.

    `ready` holds events that nobody has taken yet. `step` may be called by several tasks; one of them pumps, the
    others wait for it. After `finished` nothing of the run is left but what is in `ready`. `failure` is what
    the reader gets at the end: a log that could not be finished, or a bug that stopped the machine without an end.
    """

    def __init__(self, machine: RunMachine, config: DriverConfig) -> None:
        self.machine = machine
        self.ready: deque[AgentEvent] = deque()
        self.finished = False
        self.failure: Exception | None = None
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._live: set[Closable] = enlist(self._loop, self)
        self._inbox: deque[Signal] = deque()
        self._backlog = 0
        self._waiter: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._tick: asyncio.TimerHandle | None = None
        self._pumping = False
        self._others: list[asyncio.Future[None]] = []
        self._commands: deque[Command] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._request_task: asyncio.Task[None] | None = None
        self._executions: dict[tuple[str, int], ToolExecution] = {}
        self._cache: dict[str, Any] = {}
        self._abandoned: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._late = False
        self._is_fenced = False
        config.context.run(self._mark)

    def _mark(self) -> None:
        INSIDE.set((*INSIDE.get(), self.machine.config.origin.run_id))

    # -- for those who want events ------------------------------------------------------------------------------

    def start(self, signal: Start | Resume | Dismiss | Recover) -> None:
        """Say how the run begins; the first `step` begins it."""
        self._inbox.append(signal)

    def cancel(self, reason: str) -> None:
        """Ask for the end of the run; `step` until `finished` to see it through."""
        self._push(Cancel(reason))

    async def step(self) -> None:
        """Wait until something has happened and take it in; returns at once when `finished`.

        Raises `UsageError` on another event loop than the run's.
        """
        self.check_loop()
        if self._pumping:
            other = self._loop.create_future()
            self._others.append(other)
            await other
            return
        self._pumping = True
        try:
            await self._step()
        finally:
            self._pumping = False
            if self._others:
                others, self._others = self._others, []
                for other in others:
                    if not other.done():
                        other.set_result(None)

    async def close(self, reason: str) -> None:
        """End the run now, and return when nothing of it is left."""
        if self.finished:
            return
        self.check_loop()
        if not self.machine.ended:
            self.cancel(reason)
        while not self.finished:
            await self.step()

    def abandon(self, reason: str) -> None:
        """Close without being waited for: for a handle that was dropped. Safe from any thread."""

        def close() -> None:
            if not self.finished:
                self._abandoned = self._loop.create_task(self.close(reason))

        try:
            self._loop.call_soon_threadsafe(close)
        except RuntimeError:
            return  # the loop is closed, and nothing can be done on it any more

    def check_loop(self) -> None:
        """Raise `UsageError` unless this is the event loop that the run belongs to."""
        if asyncio.get_running_loop() is not self._loop:
            raise UsageError(
                "This run belongs to another event loop, the one on which it was first read. Use it there; from other "
                "threads: asyncio.run_coroutine_threadsafe(run.cancel(), loop)."
            )

    # -- the pump -----------------------------------------------------------------------------------------------

    async def _step(self) -> None:
        if self.finished:
            return
        if self.machine.ended and not self._inbox:
            await self._settle()
            return
        if not self._inbox and not self._commands:
            if self._room is not None and not self.ready:
                self._make_room()
            self._watch_journal()
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        self._feed()
        journal = self._config.journal
        if journal is not None and (self._commands or self.machine.ended or journal.is_due()):
            try:
                await journal.flush()
            except StoreError as error:
                self._journal_failed(error)
        self._perform_all()

    def _watch_journal(self) -> None:
        """Have what is not written yet written in time, even if nothing happens meanwhile."""
        journal = self._config.journal
        if journal is not None and self._tick is None and (seconds := journal.patience()) is not None:
            self._tick = self._loop.call_later(seconds, self._ticked)

    def _ticked(self) -> None:
        self._tick = None
        self._wake()

    def _feed(self) -> None:
        inbox, machine, journal = self._inbox, self.machine, self._config.journal
        now = self._config.clock()
        while inbox:
            signal = inbox.popleft()
            try:
                events, commands = machine.send(signal, now)
            except Exception as error:  # noqa: BLE001 a bug, or an object of the user's that breaks its contract
                self._break_off(error)
                return
            if events:
                self.ready.extend(events)
                if journal is not None:
                    journal.add(events)
            if commands:
                self._commands.extend(commands)
        self._backlog = 0

    def _break_off(self, error: Exception) -> None:
        """The machine is broken: nothing more is fed to it, and what it had started is stopped."""
        self.failure = error
        self.machine.ended = True
        self._inbox.clear()
        self._commands.clear()
        self._stop_tools()

    def _stop_tools(self) -> None:
        for execution in list(self._executions.values()):
            execution.stop("cancelled")

    def _time_is_up(self) -> None:
        """What runs is stopped now, and not only when somebody reads; the machine hears of the deadline first."""
        self._late = True
        self._push(Deadline())
        if self._request_task is not None:
            self._request_task.cancel()
        self._stop_tools()

    def _journal_failed(self, error: StoreError) -> None:
        """A run whose events cannot be kept is ended; what is known goes to the reader all the same.

        If it has ended already, with an event that is not in the log, the reader gets the error after that event.
        """
        if self.machine.ended:
            self.failure = error
        # Somebody else has taken the run over: what becomes of it, and what its session keeps of it, is theirs.
        self._is_fenced = isinstance(error, Fenced)
        info = ErrorInfo(kind="store_error", message=str(error))
        self._config = msgspec.structs.replace(self._config, journal=None)
        self._inbox.append(Fail(info))
        self._feed()

    def _perform_all(self) -> None:
        commands = self._commands
        # What was taken back before it was begun is not begun: a cancelled call has no effect then.
        taken_back: set[object] = set()
        if len(commands) > 1:
            taken_back = {(c.call_id, c.attempt) for c in commands if type(c) is StopTool}
            taken_back.update(c.request for c in commands if type(c) is CloseModel)
        while commands:
            command = commands.popleft()
            match command:
                case SetDeadline(seconds=seconds):
                    self._deadline = self._loop.call_later(seconds, self._time_is_up)
                case CallModel(request=request) | MakeSummary(request=request):
                    if request not in taken_back and not self._late:
                        self._ask(command)
                case CloseModel():
                    if self._request_task is not None:
                        self._request_task.cancel()
                case StartTool(call_id=call_id, attempt=attempt):
                    execution = self._prepare(command)
                    if (call_id, attempt) not in taken_back and not self._late:
                        execution.start()
                case StopTool(call_id=call_id, attempt=attempt, why=why):
                    execution = self._executions.get((call_id, attempt))
                    if execution is not None:
                        execution.stop(why)
                case Commit():
                    self._commit(command)

    async def _settle(self) -> None:
        """The run is over: wait for what was told to stop, then let go.

        A model that does not end when it is cancelled is waited for as long as a tool, and given up.
        """
        for running in (self._deadline, self._request_task):
            if running is not None:
                running.cancel()
        await wait_for_all(self._tasks, self._config.thread_grace)
        while self._executions:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
            self._inbox.clear()
        if self._config.journal is not None:
            try:
                await self._config.journal.flush()
            except StoreError as error:
                self._journal_failed(error)
        if self._config.conversation is not None:
            self._config.conversation.release()
        if self._tick is not None:
            self._tick.cancel()
        self._live.discard(self)
        self.finished = True

    def _push(self, signal: Signal) -> None:
        self._inbox.append(signal)
        self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _spawn(self, work: Coroutine[Any, Any, None], if_cancelled: Callable[[], None]) -> asyncio.Task[None]:
        """A task of the run. `if_cancelled` is called even if none of its code has run."""

        def over(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if task.cancelled():
                if_cancelled()

        task = self._loop.create_task(work, context=self._config.context.copy())
        self._tasks.add(task)
        task.add_done_callback(over)
        return task

    # -- commands -----------------------------------------------------------------------------------------------

    def _ask(self, command: CallModel | MakeSummary) -> None:
        # If the run has cancelled the request this is stale news; if it came from elsewhere, nobody else would tell.
        lost = when_cancelled(command, self._config)
        own, push = self._config.model, self._push
        work = summarise(command, own, push) if isinstance(command, MakeSummary) else self._read_model(command)
        self._request_task = self._spawn(work, lambda: self._push(lost))

    async def _read_model(self, command: CallModel) -> None:
        config, number = self._config, command.request
        model = config.models[command.model]
        request = ModelRequest(
            messages=command.messages,
            tools=config.offered(command),
            options=config.options,
            cache=self._cache,
            tail=command.tail,
        )
        try:
            if command.delay:
                await asyncio.sleep(command.delay * (1 + JITTER * random.random()))
            stream = model.stream(request)
            try:
                async for batch in stream:
                    self._backlog += len(batch)
                    self._push(ModelSaid(number, batch))
                    if self._backlog + len(self.ready) >= config.buffer:
                        await self._wait_for_room()
            finally:
                close = getattr(stream, "aclose", None)
                if close is not None:
                    await close()
        except ModelError as error:
            self._push(ModelFailed(number, error.info()))
        except Exception as error:  # noqa: BLE001 a user's model may raise anything; it becomes the run's error
            message = f"The model {model.name!r} raised {type(error).__name__}: {error}"
            self._push(ModelFailed(number, ErrorInfo(kind="internal_error", message=message)))
        else:
            self._push(ModelEnded(number))

    async def _wait_for_room(self) -> None:
        self._room = self._loop.create_future()
        try:
            await self._room
        finally:
            self._room = None

    def _make_room(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def _prepare(self, command: StartTool) -> ToolExecution:
        key = (command.call_id, command.attempt)

        def over() -> None:
            self._executions.pop(key, None)

        origin = self.machine.config.origin
        execution = execution_of(command, origin, self._config, loop=self._loop, push=self._push, over=over)
        self._executions[key] = execution
        return execution

    def _commit(self, command: Commit) -> None:
        # Whoever cancels all tasks, as the end of a loop does, must not leave it open whether the messages are stored.
        self._spawn(self._store(command), lambda: self._commit(command))

    async def _store(self, command: Commit) -> None:
        conversation = self._config.conversation
        error: ErrorInfo | None = None
        if conversation is not None and not self._is_fenced:
            try:
                await conversation.commit(command)
            except StoreError as failure:
                error = ErrorInfo(kind="store_error", message=str(failure))
            else:
                conversation.release()
        self._push(Committed(error))
