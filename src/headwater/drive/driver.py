"""The driver: the one thin asyncio part that performs the commands of a tree of runs.

It has no task of its own. Whoever wants events calls `step`, which waits for the next signals, feeds the machines and
performs what they ask for. A model's stream is read by one task a request, async tools by one task each, sync tools
by one thread each; all of them put signals into one inbox and wake one future. So the events of all runs of the tree
are in one order, `ready`, and in one log.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

from headwater.core.machine import Machine
from headwater.core.signals import (
    CallModel,
    Cancel,
    CloseModel,
    Command,
    Dismiss,
    Fail,
    MakeSummary,
    Recover,
    Resume,
    Signal,
    Start,
    StartTool,
    StopTool,
)
from headwater.drive.deaf import wait_for_all
from headwater.drive.live import Closable, enlist
from headwater.drive.performer import Performer
from headwater.drive.ports import DriverConfig, Opened
from headwater.errors import ErrorInfo, Fenced, StoreError, UsageError
from headwater.events import AgentEvent, RunEndEvent


class Driver:
    """Runs the machine of a root run, and those of the runs inside it, on the running event loop.

    `ready` holds events that nobody has taken yet. `step` may be called by several tasks; one of them pumps, the
    others wait for it. After `finished` nothing of the tree is left but what is in `ready`. `failure` is what
    the reader gets at the end: a log that could not be finished, or a bug that stopped a machine without an end.
    """

    def __init__(self, machine: Machine, config: DriverConfig) -> None:
        self.machine = machine
        self.ready: deque[AgentEvent] = deque()
        self.finished = False
        self.failure: Exception | None = None
        self._journal = config.journal
        self._clock = config.clock
        self._buffer = config.buffer
        self._loop = asyncio.get_running_loop()
        self._live: set[Closable] = enlist(self._loop, self)
        self._inbox: deque[tuple[Performer, Signal]] = deque()
        self._backlog = 0
        self._waiter: asyncio.Future[None] | None = None
        self._rooms: list[asyncio.Future[None]] = []
        self._tick: asyncio.TimerHandle | None = None
        self._pumping = False
        self._others: list[asyncio.Future[None]] = []
        self._commands: deque[tuple[Performer, Command]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._abandoned: asyncio.Task[None] | None = None
        self._root = Performer(machine, config, self, self._loop)
        self._runs = [self._root]
        if self._journal is not None:
            self._journal.watch(self.cancel)

    # -- for those who want events ------------------------------------------------------------------------------

    def start(self, signal: Start | Resume | Dismiss | Recover) -> None:
        """Say how the root run begins; the first `step` begins it."""
        self._root.first(signal)

    def cancel(self, reason: str) -> None:
        """Ask for the end of the tree; `step` until `finished` to see it through."""
        self.push(self._root, Cancel(reason))

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
        """End the tree now, and return when nothing of it is left."""
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

    @property
    def is_kept(self) -> bool:
        """Whether there is a journal, also when it has failed meanwhile or is closed."""
        return self._root.config.journal is not None

    @property
    def cause(self) -> BaseException | None:
        """What the hook raised that failed a run of the tree; None: no hook did."""
        return next((run.cause for run in self._runs if run.cause is not None), None)

    # -- the pump -----------------------------------------------------------------------------------------------

    async def _step(self) -> None:
        if self.finished:
            return
        if self.machine.ended and not self._inbox:
            await self._settle()
            return
        if not self._inbox and not self._commands:
            if self._rooms and not self.ready:
                self._make_room()
            self._watch_journal()
            await self._wait()
        self._feed()
        journal = self._journal
        if journal is not None and (self._commands or self.machine.ended or journal.is_due()):
            try:
                await journal.flush()
            except StoreError as error:
                self._journal_failed(error)
        self._perform_all()

    async def _wait(self) -> None:
        """Wait until something happens."""
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _watch_journal(self) -> None:
        """Have what is not written yet written in time, even if nothing happens meanwhile."""
        journal = self._journal
        if journal is not None and self._tick is None and (seconds := journal.patience()) is not None:
            self._tick = self._loop.call_later(seconds, self._ticked)

    def _ticked(self) -> None:
        self._tick = None
        self._wake()

    def _feed(self) -> None:
        inbox, journal, now = self._inbox, self._journal, self._clock()
        while inbox:
            run, signal = inbox.popleft()
            try:
                events, commands = run.machine.send(signal, now)
            except Exception as error:  # noqa: BLE001 a bug, or an object of the user's that breaks its contract
                self._break_off(error)
                return
            if events:
                if run.config.hooks.on_event:
                    run.hooking.observe(events)
                self.ready.extend(events)
                if journal is not None:
                    journal.add(events)
                if run.machine.ended and isinstance(end := events[-1], RunEndEvent):
                    run.over(end)
            for command in commands:
                self._commands.append((run, command))
        self._backlog = 0

    def _break_off(self, error: Exception) -> None:
        """A machine is broken: nothing more is fed to the tree, and what it had started is stopped."""
        self.failure = error
        self._inbox.clear()
        self._commands.clear()
        for run in self._runs:
            run.machine.ended = True
            run.stop_tools()

    def _journal_failed(self, error: StoreError) -> None:
        """A tree whose events cannot be kept is ended; what is known goes to the reader all the same.

        If it has ended already, with an event that is not in the log, the reader gets the error after that event.
        """
        if self.machine.ended:
            self.failure = error
        self._root.is_fenced = isinstance(error, Fenced)
        info = ErrorInfo(kind="store_error", message=str(error))
        self._close_journal()
        self._inbox.append((self._root, Fail(info)))
        self._feed()

    def _close_journal(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _perform_all(self) -> None:
        commands = self._commands
        taken_back: set[object] = set()
        if len(commands) > 1:
            taken_back = {(run, c.call_id, c.attempt) for run, c in commands if type(c) is StopTool}
            taken_back.update((run, c.request) for run, c in commands if type(c) is CloseModel)
        while commands:
            run, command = commands.popleft()
            try:
                run.perform(command, is_taken_back=bool(taken_back) and _begun_by(run, command) in taken_back)
            except Exception as error:  # noqa: BLE001 what is given to be performed cannot be, such as a broken agent
                self._break_off(error)
                return

    async def _settle(self) -> None:
        """The tree is over: wait for what was told to stop, then let go.

        A model that does not end when it is cancelled is waited for as long as a tool, and given up.
        """
        for run in self._runs:
            run.settle()
        config = self._root.config
        await wait_for_all(self._tasks, config.thread_grace)
        while any(run.executions for run in self._runs):
            await self._wait()
            self._inbox.clear()
        if self._journal is not None:
            try:
                await self._journal.flush()
            except StoreError as error:
                self._journal_failed(error)
        self._close_journal()
        if config.conversation is not None:
            config.conversation.release()
        if self._tick is not None:
            self._tick.cancel()
        self._live.discard(self)
        self.finished = True

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # -- for performers -----------------------------------------------------------------------------------------

    def push(self, run: Performer, signal: Signal) -> None:
        """Have the run's machine take a signal, soon and in order."""
        self._inbox.append((run, signal))
        self._wake()

    def spawn(
        self, work: Coroutine[Any, Any, None], context: Context, if_cancelled: Callable[[], None]
    ) -> asyncio.Task[None]:
        """A task of the tree. `if_cancelled` is called even if none of its code has run."""

        def over(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if task.cancelled():
                if_cancelled()

        task = self._loop.create_task(work, context=context.copy())
        self._tasks.add(task)
        task.add_done_callback(over)
        return task

    def begin(self, opened: Opened, outer: Performer) -> Performer:
        """Take up a run inside another."""
        self._runs = [run for run in self._runs if not (run.machine.ended and run.is_idle)]
        run = Performer(opened.machine, opened.config, self, self._loop, outer)
        self._runs.append(run)
        return run

    def said(self, count: int) -> bool:
        """A model has said `count` things; whether they have to be read before more is said."""
        self._backlog += count
        return self._backlog + len(self.ready) >= self._buffer

    async def wait_for_room(self) -> None:
        """Wait until the reader has taken what there is."""
        room = self._loop.create_future()
        self._rooms.append(room)
        await room

    def _make_room(self) -> None:
        rooms, self._rooms = self._rooms, []
        for room in rooms:
            if not room.done():
                room.set_result(None)


def _begun_by(run: Performer, command: Command) -> object:
    """What a command begins, in the words of what would take it back; None: nothing."""
    match command:
        case StartTool(call_id=call_id, attempt=attempt):
            return run, call_id, attempt
        case CallModel(request=request) | MakeSummary(request=request):
            return run, request
        case _:
            return None
