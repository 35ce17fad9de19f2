"""The methods of hooks: any object with some of them is one."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol, TypeAlias

from headwater.chat.request import ModelRequest
from headwater.core.hooks.values import (
    AfterModelAnswer,
    AfterToolAnswer,
    BeforeModelAnswer,
    BeforeToolAnswer,
    HookCall,
    HookContext,
    ModelTurn,
    TextAnswer,
)
from headwater.events import AgentEvent
from headwater.tools.outcome import ToolOutcome


class BeforeModel(Protocol):
    def before_model(
        self, ctx: HookContext, request: ModelRequest, /
    ) -> BeforeModelAnswer | Awaitable[BeforeModelAnswer]:
        """Before each request of the run to a model, made again ones included (not before one for a summary).

        May return a changed copy (`msgspec.structs.replace`), which goes out in this request only, or `Refuse`.
        """
        ...


class AfterModel(Protocol):
    def after_model(self, ctx: HookContext, turn: ModelTurn, /) -> AfterModelAnswer | Awaitable[AfterModelAnswer]:
        """After the model has said everything, before the turn ends and its calls are run; may return `Withdraw`."""
        ...


class BeforeTool(Protocol):
    def before_tool(self, ctx: HookContext, call: HookCall, /) -> BeforeToolAnswer | Awaitable[BeforeToolAnswer]:
        """Before the calls of a turn are run, about one after the other; none of them starts before all are judged.

        Only about calls that could run. `Refuse` and `ToolResult` (which stands for what the tool would return) settle
        it, and no further hook is asked. A person's approval answers a `NeedsApproval`, not a `Refuse`: what a person
        has approved is judged once more, with the arguments that it will run with.
        """
        ...


class AfterTool(Protocol):
    def after_tool(
        self, ctx: HookContext, call: HookCall, outcome: ToolOutcome, /
    ) -> AfterToolAnswer | Awaitable[AfterToolAnswer]:
        """After a tool that has run, before anybody reads its result; `outcome.exception` is what it raised.

        May return what is read instead; the call's status stays what it was, unless that says `is_error`.
        """
        ...


class ChecksText(Protocol):
    def check_text(self, text: str, /) -> TextAnswer:
        """As visible text comes, before it is given out; a plain, pure function.

        `text` is what is held back, at most `look_back` characters, and the new piece. An attribute `look_back` says
        how many (default 200; None: the whole block, which is checked at its end). With `checks_thinking` true,
        thinking is checked in the same way.
        """
        ...


class OnEvent(Protocol):
    def on_event(self, ctx: HookContext, event: AgentEvent, /) -> None:
        """For each event of the run, once, in order, before it can be read. A plain function: it is called inline.

        If it raises it is not called any more in this run, and a `custom` event named `hook_error` says so.
        """
        ...


class OnError(Protocol):
    def on_error(self, ctx: HookContext, error: BaseException, call: HookCall | None, /) -> None:
        """For each exception that becomes an error in the events, with its traceback: what a tool raised (`call`), a
        model, or another hook. A plain function, called inline; see `on_event` for what becomes of its own.
        """
        ...


Hook: TypeAlias = BeforeModel | AfterModel | BeforeTool | AfterTool | ChecksText | OnEvent | OnError
"""An object with one or more of these methods. Those named `before_...` and `after_...` may be async."""
