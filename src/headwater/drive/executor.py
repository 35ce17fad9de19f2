"""Runs one attempt of one tool call: a task for an async tool, a thread for a synchronous one."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import msgspec

from headwater.tools.asking import Asking
from headwater.tools.context import StopFlag, ToolContext, ToolStopped
from headwater.tools.outcome import ToolOutcome, is_suspended, outcome_of, outcome_of_error, without_fault
from headwater.tools.problems import BoundArguments
from headwater.tools.stopped import StopReason, given_up_outcome, stopped_outcome
from headwater.tools.tool import Tool, asking_refused

THREAD_GRACE = 2.0
"""Seconds that a tool has to end after it was told to stop."""

_JOIN_SECONDS = 0.05  # a thread that has handed over its result needs microseconds to be gone

_abandoned: set[asyncio.Task[Any]] = set()
"""Tasks that did not end within their grace. The loop holds tasks weakly; without this one could vanish mid-way."""


class _Raised(msgspec.Struct, frozen=True):
    """The tool raised."""

    error: BaseException


async def _await(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _close(value: Any) -> None:
    """A coroutine that nobody will await is closed, so that Python does not complain about it."""
    if inspect.iscoroutine(value):
        value.close()


def _is_untouched(coroutine: Any, function: Any) -> bool:
    """Whether a coroutine is `function`'s own and none of its code has run; when in doubt, no."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return (
        inspect.iscoroutine(coroutine)
        and coroutine.cr_code is code
        and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED
    )


def _nobody(*_: Any) -> None:
    """Stands where a callback was."""


class ToolExecution:
    """One attempt of one call. `start` once, `stop` any number of times, both on the loop's thread.

    The callbacks get this object first and are called on the loop's thread; `on_end` exactly once and last, never from
    within `start` or `stop`. Progress of an async tool is delivered from within the tool's own step.

    `context` carries the call's values; its flag and callbacks are replaced. The tool runs in a copy of `variables`.
    A tool that is told to stop has `thread_grace` seconds to end; then it is given up, its late result is dropped,
    and the outcome says so. A result that comes within the grace after a cancel is the truth and is kept; after a
    timeout it stands in the text. `SystemExit` and `KeyboardInterrupt` of an async tool leave through the event loop,
    as asyncio has it; in a thread they are errors like others: there they would end nothing but the thread.
    """

    def __init__(
        self,
        tool: Tool[..., Any],
        bound: BoundArguments,
        context: ToolContext,
        *,
        loop: asyncio.AbstractEventLoop,
        variables: contextvars.Context,
        on_progress: Callable[[ToolExecution, Any], None],
        on_custom: Callable[[ToolExecution, str, Any], None],
        on_end: Callable[[ToolExecution, ToolOutcome], None],
        thread_grace: float = THREAD_GRACE,
    ) -> None:
        self.tool = tool
        self.exception: BaseException | None = None
        """What the tool raised, for those who want its traceback."""
        self._flag = StopFlag()
        self._asking = Asking(context.asking.answers, refusal=asking_refused(tool), misplaced=self._misplaced)
        self.context = replace(
            context,
            tool_name=tool.name,
            flag=self._flag,
            on_progress=self._tool_progress,
            on_custom=self._tool_custom,
            asking=self._asking,
        )
        self._bound = bound
        self._loop = loop
        self._variables = variables.copy()
        self._on_progress = on_progress
        self._on_custom = on_custom
        self._on_end = on_end
        self._grace = thread_grace
        self._stop: StopReason | None = None
        self._began = 0.0
        self._loop_thread = 0
        self._tool_thread = 0
        self._task: asyncio.Task[Any] | None = None
        self._thread: threading.Thread | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._inbox: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._waking = False
        self._executed = False
        self._returned = False
        self._ended = False

    @property
    def call_id(self) -> str:
        return self.context.call_id

    @property
    def attempt(self) -> int:
        return self.context.attempt

    @property
    def ended(self) -> bool:
        """Whether `on_end` has been called."""
        return self._ended

    def start(self) -> None:
        """Begin; returns at once."""
        self._began = self._loop.time()
        self._loop_thread = self._tool_thread = threading.get_ident()
        self._executed = True
        if self.tool.timeout is not None:
            self._timer = self._loop.call_later(self.tool.timeout, self.stop, "timeout")
        if self.tool.is_async:
            self._start_task()
        else:
            self._start_thread()

    def stop(self, why: StopReason) -> None:
        """Tell the tool to stop. The first reason counts; a tool that has ended, or is just ending, is left alone.

        `superseded` voids the result even then.
        """
        if self._ended or self._stop is not None:
            return
        over = self._returned or (self._task is not None and self._task.done())
        if over and why != "superseded":
            return
        self._stop = why
        self._flag.is_set = True
        self._set_timer(self._grace, self._give_up)
        if not self._executed:
            self._loop.call_soon(self._settle, _Raised(ToolStopped()))
        elif self._task is not None:
            self._executed = not _is_untouched(self._task.get_coro(), self.tool.function)
            self._task.cancel()

    # Async tools

    def _start_task(self) -> None:
        try:
            value = self._variables.run(self.tool.invoke, self._bound, self.context)
        except BaseException as error:  # whatever a user's tool raises is its result
            self._loop.call_soon(self._settle, _Raised(error))
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            return
        if inspect.isawaitable(value):
            self._watch(value)
        else:
            self._loop.call_soon(self._settle, outcome_of(value))

    def _watch(self, awaitable: Awaitable[Any]) -> None:
        self._tool_thread = self._loop_thread
        coroutine = awaitable if inspect.iscoroutine(awaitable) else _await(awaitable)
        name = f"headwater-tool-{self.tool.name}"
        self._task = self._loop.create_task(coroutine, name=name, context=self._variables)
        self._task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        _abandoned.discard(task)
        self._task = None
        try:
            value = task.result()
        except BaseException as error:  # noqa: BLE001  # asyncio has let SystemExit and the like through already
            self._settle(_Raised(error))
        else:
            if not self._ended:
                self._settle(outcome_of(value))

    # Synchronous tools

    def _start_thread(self) -> None:
        name = f"headwater-tool-{self.tool.name}"
        self._thread = threading.Thread(target=self._thread_main, name=name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # the system gives no more threads
            self._thread = None
            self._executed = False
            self._loop.call_soon(self._settle, _Raised(error))

    def _thread_main(self) -> None:
        result: Any
        self._tool_thread = threading.get_ident()
        try:
            value = self._variables.run(self.tool.invoke, self._bound, self.context)
            result = value if inspect.isawaitable(value) else outcome_of(value)
        except BaseException as error:  # noqa: BLE001  # nothing may be lost with the thread
            result = _Raised(error)
        self._returned = True
        if not self._post(self._thread_done, result):
            _close(result)

    def _thread_done(self, result: ToolOutcome | _Raised | Awaitable[Any]) -> None:
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)
            self._thread = None
        if isinstance(result, ToolOutcome | _Raised):
            self._settle(result)
        elif self._stop is None:
            self._returned = False
            self._watch(result)
        else:
            _close(result)
            self._settle(_Raised(ToolStopped()))

    # From the tool, on any thread

    def _tool_progress(self, data: Any) -> None:
        self._deliver(self._progress, data)

    def _tool_custom(self, name: str, data: Any) -> None:
        self._deliver(self._custom, name, data)

    def _misplaced(self, is_sync: bool) -> str:
        """Why the tool may not ask a person here and now; empty if it may."""
        name, here = self.tool.name, threading.get_ident()
        if self._ended:
            return f"{name} asked a question after its call had ended: ask before it returns."
        if here != self._tool_thread:
            return f"{name} asked a question from another thread than its own: only the tool itself can ask."
        if not is_sync and here != self._loop_thread:
            return f"{name} is synchronous, and asked with ask(), which has to be awaited: use ask_sync()."
        return ""

    def _deliver(self, deliver: Callable[..., None], *args: Any) -> None:
        if threading.get_ident() == self._loop_thread:
            deliver(*args)
        elif not self._ended:
            self._post(deliver, *args)

    def _post(self, deliver: Callable[..., None], *args: Any) -> bool:
        """Have `deliver` called on the loop's thread, in order; one wake for many. False: the loop is closed."""
        self._inbox.append((deliver, args))
        if self._waking:
            return True
        self._waking = True
        try:
            self._loop.call_soon_threadsafe(self._drain)
        except RuntimeError:
            self._waking = False
            self._inbox.clear()
            return False
        return True

    def _drain(self) -> None:
        self._waking = False  # before the first look, so that what comes in between wakes us again
        while self._inbox:
            deliver, args = self._inbox.popleft()
            deliver(*args)

    def _progress(self, data: Any) -> None:
        if not self._ended:
            self._on_progress(self, data)

    def _custom(self, name: str, data: Any) -> None:
        if not self._ended:
            self._on_custom(self, name, data)

    # The end

    def _set_timer(self, seconds: float, callback: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, callback)

    def _give_up(self) -> None:
        """The grace is over and the tool still runs."""
        if self._stop is None:
            return
        if self._task is not None:
            _abandoned.add(self._task)
        tool = self.tool
        self._end(given_up_outcome(tool.name, self._stop, timeout=tool.timeout, grace=self._grace))

    def _settle(self, result: ToolOutcome | _Raised) -> None:
        """The tool's code has ended, by returning or by raising."""
        if self._ended:
            return
        obeyed = False
        if isinstance(result, _Raised):
            self.exception = result.error
            outcome = outcome_of_error(result.error)
            # A question that is asked on the way out is asked no more.
            obeyed = isinstance(result.error, asyncio.CancelledError | ToolStopped) or is_suspended(outcome)
        else:
            outcome = without_fault(result, self._asking.fault)
        if self._stop is not None:
            ended = None if obeyed else outcome
            outcome = stopped_outcome(self.tool.name, self._stop, timeout=self.tool.timeout, ended=ended)
        self._end(outcome)

    def _end(self, outcome: ToolOutcome) -> None:
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        duration = self._loop.time() - self._began if self._began else 0.0
        on_end = self._on_end
        # What is over must not hold those it told: the tool may keep its context.
        self._on_progress = self._on_custom = self._on_end = _nobody
        on_end(self, msgspec.structs.replace(outcome, executed=self._executed, duration=duration))
