"""Hooks: what code of yours may see and say around model requests, tool calls and events.

    class Audit:
        async def before_tool(self, ctx: HookContext, call: HookCall) -> Refuse | None:
            if not await allowed(ctx.deps.user, call.name):
                return Refuse("You may not do that for this user.")

    agent = ReActAgent(..., hooks=[Audit(), output_guard(no_secrets), LogHook()])

A hook is any object with some of the methods of `Hook`. Going in (`before_...`) hooks are asked in the order of the
list, coming out (`after_...`) in the reverse order. What a hook raises ends the run `failed` (`HookError`), except in
`on_event` and `on_error`. Guards and the log are hooks like yours.
"""

from headwater.core.hooks.methods import (
    AfterModel,
    AfterTool,
    BeforeModel,
    BeforeTool,
    ChecksText,
    Hook,
    OnError,
    OnEvent,
)
from headwater.core.hooks.values import (
    HookCall,
    HookContext,
    ModelTurn,
    NeedsApproval,
    Refuse,
    Replace,
    Withdraw,
)
from headwater.errors import HookError
from headwater.hooks.guards import input_guard, output_guard, tool_guard
from headwater.hooks.logs import LogHook

__all__ = [
    "AfterModel",
    "AfterTool",
    "BeforeModel",
    "BeforeTool",
    "ChecksText",
    "Hook",
    "HookCall",
    "HookContext",
    "HookError",
    "LogHook",
    "ModelTurn",
    "NeedsApproval",
    "OnError",
    "OnEvent",
    "Refuse",
    "Replace",
    "Withdraw",
    "input_guard",
    "output_guard",
    "tool_guard",
]
