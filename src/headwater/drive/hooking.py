"""Asking the hooks of one run, and making sense of what they answer."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from headwater.chat.request import ModelRequest
from headwater.core.hooks.reading import Hooks, Method
from headwater.core.hooks.values import (
    HOOK_ERROR,
    CallVerdict,
    HookCall,
    HookContext,
    NeedsApproval,
    Refuse,
    Withdraw,
    hook_error,
    wrong_answer,
)
from headwater.core.signals import Emitted, JudgeCalls, JudgeTurn, Signal
from headwater.errors import ErrorInfo
from headwater.events import AgentEvent, Origin, ToolStatus
from headwater.tools.jsonvalue import safe_text
from headwater.tools.outcome import ToolOutcome, ToolResult, outcome_of

WITHHELD = "The tool ran, but the run was stopped before its result was passed on."


class HookFailed(Exception):
    """A hook raised, or answered what it may not; `info` is the run's error, `__cause__` what it raised."""

    def __init__(self, info: ErrorInfo) -> None:
        super().__init__(info.message)
        self.info = info


class Hooking:
    """The hooks of one run. Everything is called on the loop's thread; exceptions of hooks become `HookFailed`."""

    def __init__(self, hooks: Hooks, origin: Origin, deps: Any, push: Callable[[Signal], None]) -> None:
        self.hooks = hooks
        self.cause: BaseException | None = None
        """What the hook raised that failed the run."""
        self._push = push
        self._context = HookContext(origin, 0, deps, {}, lambda name, data: push(Emitted(name, data)))
        self._dead: set[Method] = set()

    def context(self, number: int) -> HookContext:
        """The context of round `number`; the same object as long as the round is the same."""
        if self._context.round != number:
            self._context = msgspec.structs.replace(self._context, round=number)
        return self._context

    # -- what is awaited ----------------------------------------------------------------------------------------

    async def before_model(self, number: int, request: ModelRequest) -> ModelRequest | Refuse:
        """The request as the hooks want it, or the first refusal."""
        for method in self.hooks.before_model:
            answer = await self._ask("before_model", method, self.context(number), request)
            if isinstance(answer, Refuse):
                return msgspec.structs.replace(answer, hook=method.hook)
            if isinstance(answer, ModelRequest):
                request = answer
            elif answer is not None:
                self._wrong("before_model", method, answer, "a ModelRequest", "Refuse")
        return request

    async def judge_turn(self, command: JudgeTurn) -> Withdraw | None:
        """The first hook's withdrawal, the last in the list asked first."""
        for method in self.hooks.after_model:
            answer = await self._ask("after_model", method, self.context(command.round), command.turn)
            if isinstance(answer, Withdraw):
                return answer
            if answer is not None:
                self._wrong("after_model", method, answer, "Withdraw")
        return None

    async def judge_calls(self, command: JudgeCalls) -> dict[str, CallVerdict]:
        """What is said of each call, if anything is."""
        verdicts: dict[str, CallVerdict] = {}
        for call in command.calls:
            verdict = await self._judge_call(command.round, call)
            if verdict is not None:
                verdicts[call.call_id] = verdict
        return verdicts

    async def _judge_call(self, number: int, call: HookCall) -> CallVerdict | None:
        demand: NeedsApproval | None = None
        for method in self.hooks.before_tool:
            if not method.concerns(call.name):
                continue
            answer = await self._ask("before_tool", method, self.context(number), call)
            if isinstance(answer, Refuse | ToolResult):
                return answer
            if isinstance(answer, NeedsApproval):
                demand = demand or answer
            elif answer is not None:
                self._wrong("before_tool", method, answer, "Refuse", "NeedsApproval", "ToolResult")
        return demand

    async def after_tool(self, number: int, call: HookCall, outcome: ToolOutcome) -> ToolOutcome:
        """The outcome as the hooks want it read."""
        for method in self.hooks.after_tool:
            if not method.concerns(call.name):
                continue
            answer = await self._ask("after_tool", method, self.context(number), call, outcome)
            if isinstance(answer, ToolResult):
                outcome = _replaced(outcome, answer)
            elif answer is not None:
                self._wrong("after_tool", method, answer, "ToolResult")
        return outcome

    async def _ask(self, name: str, method: Method, *args: Any) -> object:
        try:
            answer = method.call(*args)
            return await answer if inspect.isawaitable(answer) else answer
        except Exception as error:  # whatever a hook raises is the run's error
            raise self._failed(name, method, error) from error

    def _wrong(self, name: str, method: Method, answer: object, *allowed: str) -> None:
        error = wrong_answer(answer, *allowed)
        raise self._failed(name, method, error) from error

    def _failed(self, name: str, method: Method, error: Exception) -> HookFailed:
        self.cause = error
        self.report(error)
        return HookFailed(hook_error(method.hook, name, error))

    # -- what is only told --------------------------------------------------------------------------------------

    def observe(self, events: Sequence[AgentEvent]) -> None:
        """Show the hooks events, one after the other."""
        for event in events:
            for method in self.hooks.on_event:
                self._tell("on_event", method, self.context(event.round), event)

    def report(self, error: BaseException, call: HookCall | None = None) -> None:
        """Show the hooks an exception."""
        for method in self.hooks.on_error:
            self._tell("on_error", method, self._context, error, call)

    def _tell(self, name: str, method: Method, *args: Any) -> None:
        """Call a hook that only listens. What it raises is told once, and it is not called any more."""
        if method in self._dead:
            return
        try:
            method.call(*args)
        except Exception as error:  # noqa: BLE001 one who only listens does not end the run
            self._dead.add(method)
            info = hook_error(method.hook, name, error)
            data = {"hook": method.hook, "method": name, "message": safe_text(info.message)}
            self._push(Emitted(HOOK_ERROR, data))
            told = {"message": info.message, "exception": error}
            asyncio.get_running_loop().call_exception_handler(told)


def withheld(outcome: ToolOutcome) -> ToolOutcome:
    """An outcome that no hook has looked at and that is not passed on: what the tool returned may not be read."""
    status = ToolStatus.INTERRUPTED if outcome.status is ToolStatus.OK else outcome.status
    error = ErrorInfo(kind="withheld", message=WITHHELD)
    return msgspec.structs.replace(outcome, status=status, text=WITHHELD, media=(), error=error)


def _replaced(outcome: ToolOutcome, answer: ToolResult) -> ToolOutcome:
    """The outcome with another result: a failure stays one, and a success becomes one if the hook says so."""
    new = outcome_of(answer)
    if new.error is not None and outcome.status is ToolStatus.OK:
        return msgspec.structs.replace(outcome, status=new.status, text=new.text, media=new.media, error=new.error)
    error = outcome.error and msgspec.structs.replace(outcome.error, message=new.text)
    return msgspec.structs.replace(outcome, text=new.text, media=new.media, error=error)
