"""A hook that writes to the standard `logging` module, tracebacks of tools included."""

from __future__ import annotations

import logging

from headwater.core.hooks.values import HookCall, HookContext
from headwater.events import (
    AgentEvent,
    ReasonDiscardEvent,
    ReasonEndEvent,
    RunEndEvent,
    RunStartEvent,
    ToolCallEndEvent,
)


class LogHook:
    """Logs what happens in a run: its beginning and end, each turn and each call (`INFO`), exceptions with their
    traceback (`ERROR`). No text of the conversation and no arguments are logged.

    `logger` is a logger or its name.
    """

    def __init__(self, logger: logging.Logger | str = "headwater") -> None:
        self._log = logging.getLogger(logger) if isinstance(logger, str) else logger

    def on_event(self, ctx: HookContext, event: AgentEvent) -> None:
        match event:
            case RunStartEvent():
                self._log.info("run %s of %s %s", ctx.run_id, ctx.agent, "goes on" if event.resumed else "begins")
            case ReasonDiscardEvent():
                self._log.info("run %s round %d withdrawn: %s", ctx.run_id, event.round, event.reason)
            case ReasonEndEvent():
                tokens = event.usage.total_tokens if event.usage is not None else 0
                args = (ctx.run_id, event.round, event.finish_reason, tokens, event.duration)
                self._log.info("run %s round %d: %s, %d tokens, %.3f s", *args)
            case ToolCallEndEvent():
                args = (ctx.run_id, event.call_id, event.tool_name, event.status, event.duration)
                self._log.info("run %s call %s of %s: %s, %.3f s", *args)
            case RunEndEvent():
                why = f" ({event.error.kind})" if event.error is not None else ""
                self._log.info("run %s ends: %s%s, %.3f s", ctx.run_id, event.outcome, why, event.duration)
            case _:
                pass

    def on_error(self, ctx: HookContext, error: BaseException, call: HookCall | None) -> None:
        where = f"call {call.call_id} of {call.name}" if call is not None else f"round {ctx.round}"
        self._log.error("run %s, %s: %s", ctx.run_id, where, error, exc_info=error)
